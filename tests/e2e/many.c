/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several transmitters and receivers in one context, on two groups: every receiver gets all messages of its
 * group, each session in order.
 *
 *   e2e_many SCHEME GROUP GROUP OPTIONS MESSAGES, OPTIONS as in a channel: interface=eth0
 */
#include "flood.h"

enum { GROUPS = 2, TRANSMITTERS = 3, RECEIVERS = 2, SESSIONS = GROUPS * TRANSMITTERS };

struct place {
    unsigned group;
    uint64_t ended;
    uint64_t expected[SESSIONS];
};

static struct llm_transmitter *transmitters[SESSIONS];
static uint64_t sessions[SESSIONS];
static struct place places[GROUPS * RECEIVERS];
static unsigned errors;

static unsigned session_index(uint64_t session)
{
    for (unsigned i = 0; i < SESSIONS; i++)
        if (sessions[i] == session)
            return i;
    fprintf(stderr, "a session that nobody opened\n");
    exit(EXIT_FAILURE);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct place *place = arg;
    unsigned index = session_index(message->session);

    if (index / TRANSMITTERS != place->group || message->number != place->expected[index] ||
        flood_check(message->data, message->size, message->number) != NULL)
        errors++;
    place->expected[index] = message->number + 1;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct place *place = arg;

    errors += event->kind == LLM_EVENT_GAP;
    place->ended += event->kind == LLM_EVENT_SESSION_END;
}

static void send_all(struct llm_context *context, struct llm_topic **topics, uint64_t messages)
{
    static uint8_t data[FLOOD_SIZE_MAX];
    int result;

    for (uint64_t number = 0; number < messages; number++) {
        for (unsigned i = 0; i < SESSIONS; i++) {
            uint32_t size = flood_write(data, number, llm_clock());

            while ((result = llm_send(topics[i], data, size, 0)) == LLM_EAGAIN)
                flood_ok(llm_poll(context), "llm_poll");
            flood_ok(result, "llm_send");
        }
        flood_ok(llm_poll(context), "llm_poll");
    }
}

int main(int argc, char **argv)
{
    const uint64_t messages = argc > 5 ? strtoull(argv[5], NULL, 10) : 2000;
    struct llm_topic *topics[SESSIONS];
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;
    struct llm_context *context;
    char channel[256];

    flood_ok(llm_context_open(NULL, &context), "llm_context_open");
    for (unsigned i = 0; i < GROUPS * RECEIVERS; i++) {
        places[i].group = i / RECEIVERS;
        llm_receiver_handlers_init(&handlers);
        handlers.arg = &places[i];
        handlers.message = on_message;
        handlers.event = on_event;
        (void)snprintf(channel, sizeof channel, "%s://%s:5003?%s", argv[1], argv[2 + places[i].group],
                       argv[4]);
        flood_ok(llm_receiver_open(context, channel, NULL, &handlers, &receiver), channel);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        (void)snprintf(channel, sizeof channel, "%s://%s:5003?%s&linger_ns=20000000000", argv[1],
                       argv[2 + i / TRANSMITTERS], argv[4]);
        flood_ok(llm_transmitter_open(context, channel, NULL, NULL, &transmitters[i]), channel);
        sessions[i] = llm_transmitter_session(transmitters[i]);
        flood_ok(llm_topic_open(transmitters[i], "topic", 0, &topics[i]), "topic");
    }
    send_all(context, topics, messages);
    for (unsigned i = 0; i < SESSIONS; i++)
        flood_ok(llm_transmitter_close(&transmitters[i]), "llm_transmitter_close");
    for (unsigned i = 0; i < GROUPS * RECEIVERS; i++)
        for (unsigned j = 0; j < SESSIONS; j++)
            if (places[i].expected[j] != (j / TRANSMITTERS == places[i].group ? messages : 0)) {
                printf("receiver %u has %llu messages of session %u\n", i,
                       (unsigned long long)places[i].expected[j], j);
                errors++;
            }
    flood_ok(llm_context_close(&context), "llm_context_close");
    printf("%u errors\n", errors);
    return errors == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
