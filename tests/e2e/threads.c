/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop threads, and application threads that call into the same contexts while they run: all operations that
 * several threads may perform concurrently, for the thread sanitizer. Each thread's messages arrive once and
 * in order.
 *
 *   e2e_threads [CHANNEL]
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "flood.h"

enum { THREADS = 3, MESSAGES = 2000 };

struct sender {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    uint32_t id;
};

struct note {
    uint32_t thread;
    uint32_t count;
};

static uint32_t expected[THREADS]; /* owned by the receiving loop thread until its end */
static atomic_uint received;
static atomic_uint errors;

static void on_message(void *arg, const struct llm_message *message)
{
    struct note note;

    (void)arg;
    memcpy(&note, message->data, sizeof note);
    if (message->size != sizeof note || note.thread >= THREADS || note.count != expected[note.thread]++)
        errors++;
    received++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    errors += event->kind == LLM_EVENT_GAP;
}

static void *send_notes(void *arg)
{
    const struct sender *sender = arg;
    struct note note = {.thread = sender->id};
    uint64_t value;
    int result;

    for (; note.count < MESSAGES; note.count++) {
        while ((result = llm_send(sender->topic, &note, sizeof note, 0)) == LLM_EAGAIN)
            (void)llm_transmitter_flush(sender->transmitter);
        errors += result != LLM_OK;
        if (note.count % 64 == 0) {
            errors += llm_context_counter(sender->context, "packets_sent", &value) != LLM_OK;
            (void)llm_transmitter_receivers(sender->transmitter);
            (void)llm_context_deadline(sender->context);
        }
    }
    return NULL;
}

static struct llm_context *context_open(enum llm_wait_mode wait)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.wait = wait;
    flood_ok(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

static void send_from_threads(struct llm_context *context, const char *channel)
{
    struct sender senders[THREADS];
    struct llm_transmitter *transmitter;
    pthread_t threads[THREADS];
    char name[16];

    flood_ok(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), channel);
    /* A receiver that joins later does not get what was sent before. */
    while (llm_transmitter_receivers(transmitter) == 0)
        (void)sched_yield();
    for (uint32_t i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){.context = context, .transmitter = transmitter, .id = i};
        (void)snprintf(name, sizeof name, "topic %u", (unsigned)i);
        flood_ok(llm_topic_open(transmitter, name, 0, &senders[i].topic), name);
        if (pthread_create(&threads[i], NULL, send_notes, &senders[i]) != 0)
            exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    /*
     * Closing waits for known receivers only, and one whose thread gets no processor for a second is no longer known. For
     * 180 ms it would be suspended, but for slow=off.
     */
    while (received < THREADS * MESSAGES && errors == 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
}

/* Runs one round, with this wait mode of the two loops. */
static void round_of(enum llm_wait_mode wait, const char *channel)
{
    struct llm_context *sending = context_open(wait), *receiving = context_open(wait);
    struct llm_receiver *receiver;
    struct llm_receiver_handlers handlers;

    memset(expected, 0, sizeof expected);
    received = 0;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    flood_ok(llm_receiver_open(receiving, channel, NULL, &handlers, &receiver), channel);
    flood_ok(llm_context_start_thread(receiving, -1), "llm_context_start_thread");
    flood_ok(llm_context_start_thread(sending, -1), "llm_context_start_thread");
    send_from_threads(sending, channel);
    flood_ok(llm_context_stop_thread(receiving), "llm_context_stop_thread");
    if (received != THREADS * MESSAGES)
        errors++;
    printf("%u of %u messages, %u errors\n", received, THREADS * MESSAGES, errors);
    flood_ok(llm_context_close(&sending), "llm_context_close");
    flood_ok(llm_context_close(&receiving), "llm_context_close");
}

int main(int argc, char **argv)
{
    char channel[256];

    (void)snprintf(channel, sizeof channel, "%s?linger_ns=60000000000&slow=off",
                   argc > 1 ? argv[1] : "loop://threads:1");
    round_of(LLM_WAIT_BLOCK, channel);
    round_of(LLM_WAIT_SPIN, channel);
    return errors == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
