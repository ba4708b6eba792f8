/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers that filter messages, through the public API.
 *
 *   e2e_filter send CHANNEL [--messages N] [--topics N] [--rate PER_SECOND] [--step N]
 *       message N is on topic N % topics, named "t.HUNDREDTH.NUMBER"; with --labels 1 it has label
 *       N / 64 % 100, bit N / 64 % 100 * 2 of its bitmap, and as properties 1 that label and 2 "label" and
 *       the label; every 50th is longer than a packet; --step: waits once for SIGUSR1 after N messages
 *   e2e_filter receive CHANNEL [--topics N] [--subjects HUNDREDTH] [--also NUMBER] [--label LABEL]
 *                      [--bit LABEL] [--select LABEL] [--unsubscribe-at N]
 *       subscribes to "t.HUNDREDTH.*" and to topic NUMBER by its name, filters by label, or by the bit or
 *       the properties of that label, and checks that exactly the matching messages were delivered;
 *       --unsubscribe-at: unsubscribes from the pattern after N messages
 */
#define _GNU_SOURCE
#include "flood.h"

enum { SIZE = 64, LONG = 4000, HUNDREDTHS = 100, LABEL_RUN = 64, BITS = 2 * HUNDREDTHS, NONE = -1 };

struct filter {
    struct llm_context *context;
    struct llm_receiver *receiver;
    uint64_t topics;
    int64_t hundredth;
    int64_t also;
    int64_t label;
    int64_t bit;
    int64_t select;
    bool labels;
    uint64_t unsubscribe_at; /* UINT64_MAX: never, or done */
    uint64_t next;           /* all messages before this one were checked */
    uint64_t messages;
    uint64_t lost;
    uint64_t told; /* topics reported by events */
    bool ended;
    unsigned errors;
};

static volatile sig_atomic_t filter_goes_on;

static void filter_go_on(int number)
{
    (void)number;
    filter_goes_on = 1;
}

static void filter_name(uint64_t topic, char *name, size_t size)
{
    snprintf(name, size, "t.%" PRIu64 ".%" PRIu64, topic % HUNDREDTHS, topic);
}

static uint32_t filter_label(uint64_t number)
{
    return (uint32_t)(number / LABEL_RUN % HUNDREDTHS);
}

static size_t filter_size(uint64_t number)
{
    return number % 50 == 0 ? LONG : SIZE;
}

static void filter_bitmap(uint32_t label, uint8_t *bitmap)
{
    memset(bitmap, 0, BITS / 8);
    bitmap[label * 2 / 8] = (uint8_t)(1u << label * 2 % 8);
}

/* ------------------------------------------------------------------------------------------------- send */

static int filter_try(const struct filter *f, struct llm_topic *topic, uint64_t number)
{
    static uint8_t message[LONG];
    struct llm_attributes attributes;
    uint8_t bitmap[BITS / 8];
    char text[32];
    const struct llm_property properties[] = {
        {.code = 1, .type = LLM_PROPERTY_INT32, .value.int32 = (int32_t)filter_label(number)},
        {.code = 2,
         .type = LLM_PROPERTY_BYTES,
         .value.bytes = {text, (uint32_t)snprintf(text, sizeof text, "label%u", filter_label(number))}},
    };

    memcpy(message, &number, sizeof number);
    if (!f->labels)
        return llm_send(topic, message, filter_size(number), 0);
    llm_attributes_init(&attributes);
    attributes.label = filter_label(number);
    attributes.bitmap = bitmap;
    attributes.bitmap_bits = BITS;
    attributes.properties = properties;
    attributes.properties_count = 2;
    filter_bitmap(attributes.label, bitmap);
    return llm_send_with(topic, message, filter_size(number), &attributes, 0);
}

static void filter_send_one(const struct filter *f, struct llm_topic *topic, uint64_t number)
{
    int result;

    while ((result = filter_try(f, topic, number)) == LLM_EAGAIN && !flood_stopped)
        flood_ok(llm_poll(f->context), "llm_poll");
    flood_ok(result, "send");
}

static void filter_wait(const struct filter *f)
{
    while (!filter_goes_on && !flood_stopped)
        flood_ok(llm_wait(f->context, 1000000), "llm_wait");
}

static void filter_send(struct filter *f, const char *channel, int argc, char **argv)
{
    const uint64_t messages = flood_option(argc, argv, "--messages", 100000);
    const uint64_t step = flood_option(argc, argv, "--step", UINT64_MAX);
    const uint64_t pause = 1000000000 / flood_option(argc, argv, "--rate", 100000);
    struct llm_transmitter *transmitter;
    struct llm_topic **topics = calloc(f->topics, sizeof *topics);
    struct llm_options options;
    uint64_t at, now;

    f->labels = flood_option(argc, argv, "--labels", 0) != 0;
    llm_options_init(&options);
    options.linger_ns = 30000000000;
    flood_ok(llm_transmitter_open(f->context, channel, &options, NULL, &transmitter), channel);
    for (uint64_t i = 0; i < f->topics; i++) {
        char name[64];

        filter_name(i, name, sizeof name);
        flood_ok(llm_topic_open(transmitter, name, 0, &topics[i]), name);
    }
    at = llm_clock();
    for (uint64_t number = 0; number < messages && !flood_stopped; number++, at += pause) {
        while ((now = llm_clock()) < at)
            flood_ok(pause > 100000 ? llm_wait(f->context, at - now) : llm_poll(f->context), "poll");
        if (number == step)
            filter_wait(f);
        filter_send_one(f, topics[number % f->topics], number);
    }
    flood_ok(llm_transmitter_flush(transmitter), "llm_transmitter_flush");
    while (llm_transmitter_receivers(transmitter) == 0 && !flood_stopped)
        flood_ok(llm_poll(f->context), "llm_poll");
    printf("{\"sent\": %" PRIu64 ", ", messages);
    flood_print_stats(stdout, f->context);
    printf("}\n");
    flood_ok(llm_transmitter_close(&transmitter), "llm_transmitter_close");
    free(topics);
}

/* ---------------------------------------------------------------------------------------------- receive */

static bool filter_is_wanted(const struct filter *f, uint64_t number)
{
    const uint64_t topic = number % f->topics;

    if ((f->label != NONE && f->label != filter_label(number)) ||
        (f->bit != NONE && f->bit != filter_label(number)) ||
        (f->select != NONE && f->select != filter_label(number)))
        return false;
    return (f->hundredth == NONE && f->also == NONE) || (int64_t)(topic % HUNDREDTHS) == f->hundredth ||
           (int64_t)topic == f->also;
}

/* Skips unwanted messages up to a number; a wanted one that is missing is an error. */
static void filter_pass(struct filter *f, uint64_t number)
{
    for (; f->next < number; f->next++)
        f->errors += filter_is_wanted(f, f->next);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct filter *f = arg;
    uint64_t number = UINT64_MAX;
    char name[64];

    filter_pass(f, message->number);
    filter_name(message->number % f->topics, name, sizeof name);
    if (message->size == filter_size(message->number))
        memcpy(&number, message->data, sizeof number);
    f->errors += number != message->number || f->next != number || !filter_is_wanted(f, number) ||
                 strcmp(name, message->topic) != 0;
    f->next = message->number + 1;
    f->messages++;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct filter *f = arg;

    f->told += event->kind == LLM_EVENT_TOPIC_NEW;
    if (event->kind == LLM_EVENT_GAP) {
        filter_pass(f, event->first);
        f->lost += event->last + 1 - event->first;
        f->next = event->last + 1;
    }
    if (event->kind == LLM_EVENT_SESSION_END) {
        filter_pass(f, event->first);
        f->ended = true;
    }
}

static void filter_subscribe(struct filter *f)
{
    char subject[64];

    if (f->hundredth != NONE) {
        snprintf(subject, sizeof subject, "t.%d.*", (int)f->hundredth);
        flood_ok(llm_receiver_subscribe(f->receiver, subject), subject);
    }
    if (f->also != NONE) {
        filter_name((uint64_t)f->also, subject, sizeof subject);
        flood_ok(llm_receiver_subscribe(f->receiver, subject), subject);
    }
}

/* Unsubscribes between two polls: the next one delivers nothing of the pattern. */
static void filter_unsubscribe(struct filter *f)
{
    char subject[64];

    if (f->next < f->unsubscribe_at)
        return;
    snprintf(subject, sizeof subject, "t.%d.*", (int)f->hundredth);
    flood_ok(llm_receiver_unsubscribe(f->receiver, subject), subject);
    f->errors += llm_receiver_unsubscribe(f->receiver, subject) != LLM_ENOTFOUND;
    f->hundredth = NONE;
    f->unsubscribe_at = UINT64_MAX;
    fprintf(stderr, "unsubscribed\n");
}

static void filter_filter(struct filter *f)
{
    const struct llm_label_match label = {.mask = UINT32_MAX, .match = (uint32_t)f->label};
    struct llm_filter filter;
    const struct llm_property_name names[] = {{"number", 1}, {"text", 2}};
    char selector[128];
    uint8_t bitmap[BITS / 8];

    llm_filter_init(&filter);
    filter.labels = &label;
    filter.labels_count = f->label != NONE;
    if (f->bit != NONE) {
        filter_bitmap((uint32_t)f->bit, bitmap);
        filter.bitmap_mask = bitmap;
        filter.bitmap_bits = BITS;
    }
    if (f->select != NONE) {
        snprintf(selector, sizeof selector, "number BETWEEN %d AND %d AND text LIKE '_abel%%%d'",
                 (int)f->select - 1, (int)f->select + 1, (int)f->select);
        filter.selector = selector;
        filter.names = names;
        filter.names_count = 2;
    }
    if (f->label != NONE || f->bit != NONE || f->select != NONE)
        flood_ok(llm_receiver_filter(f->receiver, &filter), "llm_receiver_filter");
}

static void filter_receive(struct filter *f, const char *channel, int argc, char **argv)
{
    struct llm_receiver_handlers handlers;

    f->hundredth = (int64_t)flood_option(argc, argv, "--subjects", (uint64_t)NONE);
    f->also = (int64_t)flood_option(argc, argv, "--also", (uint64_t)NONE);
    f->label = (int64_t)flood_option(argc, argv, "--label", (uint64_t)NONE);
    f->bit = (int64_t)flood_option(argc, argv, "--bit", (uint64_t)NONE);
    f->select = (int64_t)flood_option(argc, argv, "--select", (uint64_t)NONE);
    f->unsubscribe_at = flood_option(argc, argv, "--unsubscribe-at", UINT64_MAX);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = f;
    handlers.message = on_message;
    handlers.event = on_event;
    flood_ok(llm_receiver_open(f->context, channel, NULL, &handlers, &f->receiver), channel);
    filter_subscribe(f);
    filter_filter(f);
    fprintf(stderr, "listening\n");
    while (!f->ended && !flood_stopped) {
        flood_ok(llm_wait(f->context, 1000000), "llm_wait");
        filter_unsubscribe(f);
    }
    printf("{\"next\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"told\": %" PRIu64
           ", \"errors\": %u, ",
           f->next, f->messages, f->lost, f->told, f->errors);
    flood_print_stats(stdout, f->context);
    printf("}\n");
    flood_ok(llm_receiver_close(&f->receiver), "llm_receiver_close");
}

int main(int argc, char **argv)
{
    static struct filter filter;
    struct llm_context_options options;

    if (argc < 3) {
        fprintf(stderr, "usage: e2e_filter send|receive CHANNEL [OPTION...]\n");
        return 2;
    }
    flood_signals();
    (void)sigaction(SIGUSR1, &(const struct sigaction){.sa_handler = filter_go_on, .sa_flags = SA_RESTART},
                    NULL);
    llm_context_options_init(&options);
    options.wait = LLM_WAIT_BLOCK;
    filter.topics = flood_option(argc, argv, "--topics", 10000);
    flood_ok(llm_context_open(&options, &filter.context), "llm_context_open");
    if (strcmp(argv[1], "send") == 0)
        filter_send(&filter, argv[2], argc, argv);
    else
        filter_receive(&filter, argv[2], argc, argv);
    flood_ok(llm_context_close(&filter.context), "llm_context_close");
    return EXIT_SUCCESS;
}
