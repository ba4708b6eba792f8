/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "echo.h"
#include "machine.h"

#define SOURCE_BLOCK_NS 500000000ull  /* of libllm, then as long as this share of it bare, and again */
#define SOURCE_BLOCK_MESSAGES 4       /* or as long as so many take, if that is longer */
#define SOURCE_RAW_SHARE 2
#define SOURCE_WARMUP_NS 50000000ull  /* before each block */
#define SOURCE_LEAD_NS 100000ull      /* from the answer that the reflector is ready to the first message */
#define SOURCE_GRACE_NS 50000000ull   /* a block that is later than this has not reached its rate, and is ended */
#define SOURCE_RAW_GRACE_NS 5000000ull
#define SOURCE_RAW_RATE_MAX 100000    /* a datagram each keeps up so far, with room to catch up; beyond it they are packed */
#define SOURCE_RAW_RATE_MAX_ALL 20000 /* when every one is sent back */
#define SOURCE_RAW_RATE_MIN 10         /* the reflector takes a longer silence for the end */
#define SOURCE_BURST 256              /* overdue messages sent between two polls */
#define SOURCE_RAW_ENDS 3
#define SOURCE_PACKED_MAX 65536       /* no call takes more */

/* A steady stream: message i is due at start + i * interval. */
struct source_schedule {
    uint64_t start;
    double interval_ns;
    uint64_t total;
    uint64_t warmup; /* the first so many of the total */
    uint64_t stamp_every;
    uint64_t size;
};

static uint64_t source_due(const struct source_schedule *schedule, uint64_t i)
{
    return schedule->start + (uint64_t)((double)i * schedule->interval_ns);
}

static struct source_schedule source_plan(uint64_t size, double rate, uint64_t stamp_every, uint64_t duration_ns)
{
    uint64_t warmup = (uint64_t)(rate * (double)SOURCE_WARMUP_NS / 1e9) + 1;

    return (struct source_schedule){
        .start = llm_clock() + SOURCE_LEAD_NS,
        .interval_ns = rate > 0 ? 1e9 / rate : 0,
        .total = warmup + (uint64_t)(rate * (double)duration_ns / 1e9 + 0.5),
        .warmup = warmup,
        .stamp_every = stamp_every,
        .size = size,
    };
}

static uint64_t source_stamp_every(const struct source *source, uint64_t rate)
{
    uint64_t samples_per_s = source->options->samples_per_s;

    return rate > samples_per_s ? rate / samples_per_s : 1;
}

/* -------------------------------------------------------------------------------------------------------------- libllm */

static void source_message(void *arg, const struct llm_message *message)
{
    struct source *source = arg;
    struct peer_stamped stamped;

    if (peer_read_header(message).kind < PEER_WARMUP || message->size < sizeof stamped) {
        peer_take_answer(&source->peer, message);
        return;
    }
    memcpy(&stamped, message->data, sizeof stamped);
    source->returned++;
    if (stamped.due_at != 0 && stamped.header.kind == PEER_DATA) {
        uint64_t now = llm_clock();

        histogram_add(&source->rtt, now - stamped.due_at);
        histogram_add(&source->submitted, now - stamped.submitted_at);
    }
}

static void source_event(void *arg, const struct llm_event *event)
{
    struct source *source = arg;

    if (event->kind == LLM_EVENT_GAP)
        fprintf(stderr, "source: messages %llu to %llu are lost on the way back: %s\n", (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
    peer_take_event(&source->peer, event);
}

/* False if the library does not take it now. */
static bool source_send(struct source *source, const struct peer_stamped *stamped, size_t size, unsigned flags)
{
    memcpy(source->message, stamped, sizeof *stamped);
    return llm_send(peer_next_topic(&source->peer), source->message, size, flags) == 0;
}

/*
 * Sends what is due, polls, and so on. When several are due, all but the last are only packed, so that a backlog leaves at
 * once. Returns how many were sent: all, unless the rate is more than can be reached.
 */
static uint64_t source_stream(struct source *source, const struct source_schedule *schedule)
{
    struct llm_context *context = source->peer.context;
    uint64_t give_up_at = source_due(schedule, schedule->total) + SOURCE_GRACE_NS;
    uint64_t due_at = source_due(schedule, 0);
    uint64_t to_stamp = 0;
    uint64_t i = 0;

    while (i < schedule->total) {
        uint64_t now = llm_clock();

        for (int burst = 1; due_at <= now && i < schedule->total && burst <= SOURCE_BURST; burst++) {
            uint64_t next_due_at = source_due(schedule, i + 1);
            bool more = next_due_at <= now && i + 1 < schedule->total && burst < SOURCE_BURST;
            struct peer_stamped stamped = {
                .header = {.sequence = (uint32_t)i, .kind = i < schedule->warmup ? PEER_WARMUP : PEER_DATA},
                .due_at = to_stamp == 0 ? due_at : 0,
                .submitted_at = now,
            };

            if (!source_send(source, &stamped, schedule->size, more ? LLM_SEND_MORE : 0))
                break;
            to_stamp = to_stamp == 0 ? schedule->stamp_every - 1 : to_stamp - 1;
            due_at = next_due_at;
            i++;
        }
        llm_poll(context);
        if (now > give_up_at)
            break;
    }
    return i;
}

/*
 * Sends as fast as the library takes it. A message is due when it is sent: there is no pace that it could fall behind. The
 * poll after each burst sends what is packed. Returns how many were sent.
 */
static uint64_t source_flood(struct source *source, struct source_schedule *schedule, uint64_t duration_ns)
{
    uint64_t measured_at = schedule->start + SOURCE_WARMUP_NS;
    uint64_t stamp_ns = 1000000000 / source->options->samples_per_s;
    uint64_t stamp_at = 0;
    uint64_t sent = 0;
    uint64_t now;

    while ((now = llm_clock()) < measured_at + duration_ns) {
        struct peer_stamped stamped = {.header = {.kind = now < measured_at ? PEER_WARMUP : PEER_DATA}};

        if (now >= stamp_at) {
            stamped.due_at = now;
            stamped.submitted_at = now;
            stamp_at = now + stamp_ns;
        }
        for (int burst = 0; burst < SOURCE_BURST; burst++) {
            stamped.header.sequence = (uint32_t)sent;
            if (!source_send(source, &stamped, schedule->size, LLM_SEND_MORE))
                break;
            stamped.due_at = 0;
            sent++;
        }
        llm_poll(source->peer.context);
        if (now < measured_at)
            schedule->warmup = sent;
    }
    return sent;
}

static void source_add_counts(struct source *source, const struct source_schedule *schedule, uint64_t sent,
                              struct source_counts *counts)
{
    const uint64_t *far = source->peer.answer.values;
    uint64_t lost_back = far[ECHO_REFLECTED] > source->returned ? far[ECHO_REFLECTED] - source->returned : 0;

    counts->sent += sent > schedule->warmup ? sent - schedule->warmup : 0;
    counts->received += far[ECHO_RECEIVED];
    counts->lost += far[ECHO_LOST] + lost_back;
    counts->disordered += far[ECHO_DISORDERED];
    counts->refused += far[ECHO_REFUSED];
    counts->waited_ns += far[ECHO_WAITED_NS];
}

/* Adds what the transmitter counts to the counts, or takes it off. */
static void source_add_packets(const struct source *source, struct source_counts *counts, bool off)
{
    uint64_t messages = peer_counter(&source->peer, "transmitter", "messages_sent");
    uint64_t packets = peer_counter(&source->peer, "transmitter", "packets_data");

    counts->messages += off ? 0 - messages : messages;
    counts->packets += off ? 0 - packets : packets;
}

static int source_block(struct source *source, uint64_t size, uint64_t rate, uint64_t duration_ns, struct source_counts *counts)
{
    uint64_t all = source->options->reflect_all;
    struct source_schedule schedule;
    uint64_t sent;
    double reached;

    source->returned = 0;
    if (peer_request(&source->peer, PEER_START, &all, 1) != 0)
        return -1;
    source_add_packets(source, counts, true);
    schedule = source_plan(size, (double)rate, source_stamp_every(source, rate), duration_ns);
    sent = rate > 0 ? source_stream(source, &schedule) : source_flood(source, &schedule, duration_ns);
    source_add_packets(source, counts, false);
    reached = (double)sent * 1e9 / (double)(llm_clock() - schedule.start);
    if (peer_request(&source->peer, PEER_END, &sent, 1) != 0)
        return -1;
    source_add_counts(source, &schedule, sent, counts);
    /* A block that sent everything kept its rate; its clock would only tell how its last message fell. */
    if (rate > 0 && sent == schedule.total)
        reached = (double)rate;
    if (counts->rate_reached == 0 || reached < counts->rate_reached)
        counts->rate_reached = reached;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------------- raw */

static void source_raw_receive(struct source *source)
{
    struct peer_stamped stamped;
    size_t size;
    const void *datagram = raw_receive(source->raw_receive, &size);

    if (!datagram || size < sizeof stamped)
        return;
    memcpy(&stamped, datagram, sizeof stamped);
    if (stamped.due_at != 0 && stamped.header.kind == PEER_DATA)
        histogram_add(&source->raw, llm_clock() - stamped.due_at);
}

/* Where a bare stream is. */
struct source_raw_place {
    uint64_t i; /* the next message */
    uint64_t due_at;
    uint64_t to_stamp;
};

static void source_raw_write(const struct source_schedule *schedule, struct source_raw_place *place, uint64_t now, char *to)
{
    struct peer_stamped stamped = {
        .header = {.sequence = (uint32_t)place->i, .kind = place->i < schedule->warmup ? PEER_WARMUP : PEER_DATA},
        .due_at = place->to_stamp == 0 ? place->due_at : 0,
        .submitted_at = now,
    };

    place->to_stamp = place->to_stamp == 0 ? schedule->stamp_every - 1 : place->to_stamp - 1;
    memcpy(to, &stamped, sizeof stamped);
    place->due_at = source_due(schedule, ++place->i);
}

/*
 * The same loop as source_stream() at the same pace, with bare datagrams in place of the library: the difference is the library
 * alone. The pace matters: caches and branch predictors forget the kernel's path between datagrams that are a millisecond apart.
 * What is due at once leaves at once, in datagrams that are full, if at_once is more than the one message.
 */
static void source_raw_stream(struct source *source, const struct source_schedule *schedule, size_t at_once)
{
    uint64_t end = source_due(schedule, schedule->total) + SOURCE_RAW_GRACE_NS;
    struct source_raw_place place = {.due_at = source_due(schedule, 0)};

    for (;;) {
        uint64_t now = llm_clock();
        size_t size = 0;

        for (; place.due_at <= now && place.i < schedule->total && size + schedule->size <= at_once; size += schedule->size)
            source_raw_write(schedule, &place, now, source->raw_messages + size);
        if (size > 0 && raw_send_packed(source->raw_send, source->raw_messages, size, schedule->size) < 0)
            return;
        source_raw_receive(source);
        if (now > end)
            return;
    }
}

static void source_raw_end(struct source *source)
{
    struct peer_stamped end = {.header = {.kind = PEER_RAW_END}};

    for (int i = 0; i < SOURCE_RAW_ENDS; i++) {
        if (raw_send(source->raw_send, &end, sizeof end) < 0)
            return; /* the reflector goes on by itself when it hears nothing more */
    }
}

/* The rate itself if it can be, else the nearest. */
static uint64_t source_raw_pace(const struct source *source, uint64_t rate)
{
    uint64_t rate_max = source->options->reflect_all ? SOURCE_RAW_RATE_MAX_ALL : SOURCE_RAW_RATE_MAX;

    if (rate == 0 || rate > rate_max)
        return rate_max;
    return rate < SOURCE_RAW_RATE_MIN ? SOURCE_RAW_RATE_MIN : rate;
}

/* Beyond what a datagram each can do, as many messages leave at once as one call takes; of those that are sent back, one. */
static size_t source_raw_at_once(const struct source *source, uint64_t size, uint64_t rate)
{
    size_t packed = source->raw_send ? raw_packed_bytes(source->raw_send, size) : 0;

    return rate > SOURCE_RAW_RATE_MAX && !source->options->reflect_all && packed > size ? packed : size;
}

static int source_raw_block(struct source *source, uint64_t size, uint64_t rate, uint64_t duration_ns)
{
    size_t at_once = source_raw_at_once(source, size, rate);
    uint64_t pace = at_once > size ? rate : source_raw_pace(source, rate);
    uint64_t request[] = {source->options->reflect_all, size, at_once > size};
    struct source_schedule schedule;

    if (!source->raw_send)
        return 0;
    source->raw_is_packed = at_once > size;
    raw_drain(source->raw_receive);
    if (peer_request(&source->peer, PEER_RAW, request, 3) != 0)
        return -1;
    schedule = source_plan(size, (double)pace, source_stamp_every(source, pace), duration_ns);
    source_raw_stream(source, &schedule, at_once);
    source_raw_end(source);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------------- rows */

/* So that blocks of this length make the duration. */
static uint64_t source_block_ns(uint64_t duration_ns, uint64_t rate)
{
    uint64_t wanted = SOURCE_BLOCK_NS;
    uint64_t blocks;

    if (rate > 0 && SOURCE_BLOCK_MESSAGES * 1000000000ull / rate > wanted)
        wanted = SOURCE_BLOCK_MESSAGES * 1000000000ull / rate;
    blocks = (duration_ns + wanted / 2) / wanted;
    return blocks > 0 ? duration_ns / blocks : duration_ns;
}

int source_measure(struct source *source, uint64_t size, uint64_t rate, struct source_counts *counts)
{
    uint64_t waited_ns = machine_waited_ns();
    uint64_t block_ns = source_block_ns(source->options->duration_ns, rate);
    uint64_t blocks = source->options->duration_ns / block_ns;

    *counts = (struct source_counts){0};
    source->rtt.count = 0;
    source->submitted.count = 0;
    source->raw.count = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        if (source_raw_block(source, size, rate, block_ns / SOURCE_RAW_SHARE) != 0 ||
            source_block(source, size, rate, block_ns, counts) != 0) {
            fprintf(stderr, "source: the reflector does not answer any more\n");
            return -1;
        }
    }
    counts->waited_ns += machine_waited_ns() - waited_ns;
    histogram_sort(&source->rtt);
    histogram_sort(&source->submitted);
    histogram_sort(&source->raw);
    return 0;
}

static int source_open_raw(struct source *source)
{
    if (source->options->raw_send.scheme == NULL)
        return 0;
    source->raw_send = raw_open(&source->options->raw_send, true);
    source->raw_receive = source->raw_send ? raw_open(&source->options->raw_receive, false) : NULL;
    if (source->raw_receive)
        return 0;
    fprintf(stderr, "source: cannot open the ends of the raw measurement: %s\n", strerror(errno));
    return -1;
}

static int source_open_memory(struct source *source)
{
    /* Twice what is expected, for rates that samples_per_s does not divide. */
    size_t samples = (size_t)((double)source->options->duration_ns / 1e9 * (double)source->options->samples_per_s * 2) + 1024;
    size_t raw_bytes = source->options->size_max > SOURCE_PACKED_MAX ? source->options->size_max : SOURCE_PACKED_MAX;

    source->message = malloc(source->options->size_max);
    source->raw_messages = malloc(raw_bytes);
    if (source->message && source->raw_messages && histogram_init(&source->rtt, samples) == 0 &&
        histogram_init(&source->submitted, samples) == 0 && histogram_init(&source->raw, samples) == 0) {
        memset(source->message, 'x', source->options->size_max);
        memset(source->raw_messages, 'x', raw_bytes);
        return 0;
    }
    fprintf(stderr, "source: no memory for %zu samples\n", samples);
    return -1;
}

int source_open(struct source *source, const struct source_options *options)
{
    struct llm_handlers handlers;

    *source = (struct source){.options = options};
    llm_handlers_init(&handlers);
    handlers.arg = source;
    handlers.message = source_message;
    handlers.event = source_event;
    if (source_open_raw(source) != 0 || source_open_memory(source) != 0 ||
        peer_open(&source->peer, &options->channels, &handlers) != 0 || peer_use_topics(&source->peer, 1) != 0)
        return -1;
    mlockall(MCL_CURRENT | MCL_ONFAULT); /* a page that is not there would be measured with a message; not everybody may */
    if (peer_greet(&source->peer, options->patience_ns) == 0)
        return 0;
    fprintf(stderr, "source: no reflector answers on %s; does it run, with --send and --receive the other way round?\n",
            options->channels.receive);
    return -1;
}

void source_close(struct source *source)
{
    raw_close(source->raw_send);
    raw_close(source->raw_receive);
    peer_close(&source->peer);
    histogram_fini(&source->rtt);
    histogram_fini(&source->submitted);
    histogram_fini(&source->raw);
    free(source->message);
    free(source->raw_messages);
}
