/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "pump.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "sink.h"

#define PUMP_WARMUP_NS 200000000ull
#define PUMP_TRIES 10
#define PUMP_STEP 0.9 /* of the rate reached, after a loss */
#define PUMP_RAW_SHARE 12 /* of the duration, for each of six raw blasts */
#define PUMP_RAW_NS_MIN 100000000ull
#define PUMP_PATTERN 256
#define PUMP_ETHERNET_BYTES 38 /* header, check sequence, preamble and gap */

struct pump_counters {
    uint64_t packets;
    uint64_t bytes;
    uint64_t repaired;
};

/* One stream of messages: what was asked and what went out. */
struct pump_stream {
    size_t size;
    double rate; /* 0: flat out */
    uint64_t start;
    uint64_t sent;
    bool measured;   /* warming up is over */
    uint64_t measured_at;
    uint64_t kernel_ns; /* in the kernel until then */
    uint64_t warmup; /* the first so many of sent */
    uint64_t waited_ns;        /* of this process when it began */
    struct pump_counters before; /* counters when the measured messages began */
};

static struct pump_counters pump_read_counters(const struct pump *pump)
{
    return (struct pump_counters){
        .packets = peer_counter(&pump->peer, "transmitter", "packets_sent"),
        .bytes = peer_counter(&pump->peer, "transmitter", "bytes_sent"),
        .repaired = peer_counter(&pump->peer, "transmitter", "packets_repaired"),
    };
}

static void pump_message(void *arg, const struct llm_message *message)
{
    struct pump *pump = arg;

    peer_take_answer(&pump->peer, message);
}

static void pump_event(void *arg, const struct llm_event *event)
{
    struct pump *pump = arg;

    peer_take_event(&pump->peer, event);
}

/* -------------------------------------------------------------------------------------------------------------- libllm */

/*
 * Sends count messages; when the library does not take one, polls until it does. Byte i of message n is n + i modulo 256: the
 * receiver can tell one from another, and nothing has to be written for that.
 */
static int pump_batch(struct pump *pump, const struct pump_stream *stream, uint64_t count)
{
    uint64_t first = llm_transmitter_next(pump->peer.transmitter);

    for (uint64_t number = first; number < first + count; number++) {
        const uint8_t *message = pump->pattern + number % PUMP_PATTERN;
        struct llm_topic *topic = peer_next_topic(&pump->peer);
        int error;

        while ((error = llm_send(topic, message, stream->size, LLM_SEND_MORE)) == LLM_EAGAIN)
            llm_poll(pump->peer.context);
        if (error != 0) {
            fprintf(stderr, "transmitter: a message of %zu bytes is refused: %s\n", stream->size, llm_error_text(error));
            return -1;
        }
    }
    return 0;
}

/* How many messages may be sent now: a batch, no more than the rate allows, no more than are to be measured. */
static uint64_t pump_allowed(const struct pump *pump, const struct pump_stream *stream, uint64_t now)
{
    uint64_t batch = pump->options->batch;
    uint64_t messages = pump->options->messages;
    double due = stream->rate * (double)(now - stream->start) / 1e9 - (double)stream->sent;

    if (stream->rate > 0 && due < (double)batch)
        batch = due > 0 ? (uint64_t)due : 0;
    if (stream->measured && messages > 0 && stream->warmup + messages - stream->sent < batch)
        batch = stream->warmup + messages - stream->sent;
    return batch;
}

static bool pump_is_over(const struct pump *pump, const struct pump_stream *stream, uint64_t now)
{
    if (!stream->measured)
        return false;
    if (pump->options->messages > 0)
        return stream->sent - stream->warmup >= pump->options->messages;
    return now - stream->measured_at >= pump->options->duration_ns;
}

static void pump_mark(struct pump *pump, struct pump_stream *stream, uint64_t now)
{
    peer_tell(&pump->peer, PEER_MARK);
    stream->measured = true;
    stream->measured_at = now;
    stream->kernel_ns = machine_kernel_ns();
    stream->warmup = stream->sent;
    stream->before = pump_read_counters(pump);
}

/* Sends for the time for warming up and then what is measured; the poll after each batch sends what is packed. */
static int pump_stream(struct pump *pump, struct pump_stream *stream)
{
    uint64_t now = llm_clock();

    stream->start = now;
    for (; !pump_is_over(pump, stream, now); now = llm_clock()) {
        uint64_t count = pump_allowed(pump, stream, now);

        if (pump_batch(pump, stream, count) != 0)
            return -1;
        stream->sent += count;
        llm_poll(pump->peer.context);
        if (!stream->measured && now - stream->start >= PUMP_WARMUP_NS)
            pump_mark(pump, stream, now);
    }
    return 0;
}

static void pump_fill(struct pump *pump, const struct pump_stream *stream, struct pump_result *result)
{
    const uint64_t *far = pump->peer.answer.values;
    struct pump_counters after = pump_read_counters(pump);
    double packets = (double)(after.packets - stream->before.packets);
    double bytes = (double)(after.bytes - stream->before.bytes);
    double overhead = PUMP_ETHERNET_BYTES + (double)pump->options->header_bytes;

    result->sent = stream->sent - stream->warmup;
    result->received = far[SINK_RECEIVED];
    result->lost = far[SINK_LOST];
    result->disordered = far[SINK_DISORDERED];
    result->repaired_packets = after.repaired - stream->before.repaired;
    result->messages_per_s = far[SINK_NS] ? (double)far[SINK_RECEIVED] * 1e9 / (double)far[SINK_NS] : 0;
    result->wire_share = (double)result->sent * (double)stream->size / (bytes + packets * overhead);
    result->packet_bytes_mean = bytes / packets;
    result->waited_ns = machine_waited_ns() - stream->waited_ns + far[SINK_WAITED_NS];
    result->transmitter_mib = machine_resident_mib();
    result->receiver_mib = (double)far[SINK_RESIDENT_KIB] / 1024;
    result->transmitter_kernel = (double)(machine_kernel_ns() - stream->kernel_ns) / (double)(llm_clock() - stream->measured_at);
    result->receiver_kernel = far[SINK_NS] ? (double)far[SINK_KERNEL_NS] / (double)far[SINK_NS] : 0;
}

static int pump_try(struct pump *pump, uint64_t size, double rate, struct pump_result *result)
{
    struct pump_stream stream = {.size = size, .rate = rate, .waited_ns = machine_waited_ns()};

    if (peer_request(&pump->peer, PEER_START, &size, 1) != 0 || pump_stream(pump, &stream) != 0 ||
        peer_request(&pump->peer, PEER_END, &stream.sent, 1) != 0)
        return -1;
    pump_fill(pump, &stream, result);
    return 0;
}

/* Flat out, and slower as long as something is lost. */
static int pump_find_rate(struct pump *pump, uint64_t size, struct pump_result *result)
{
    double rate = 0;

    for (int i = 1; i <= PUMP_TRIES; i++) {
        if (pump_try(pump, size, rate, result) != 0)
            return -1;
        result->tries = i;
        if (result->lost == 0 && result->disordered == 0)
            return 0;
        rate = PUMP_STEP * (rate > 0 && rate < result->messages_per_s ? rate : result->messages_per_s);
        fprintf(stderr, "  %llu messages lost; again at %.0f msg/s\n", (unsigned long long)result->lost, rate);
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------------- raw */

/* Gbit/s of datagrams received, NAN if that cannot be measured; -1 if the receiver does not answer. */
static double pump_raw(struct pump *pump, const struct raw_load *load)
{
    static const char *const ways[RAW_WAYS] = {"", " with segmentation", " with segmentation and a ring"};
    uint64_t trains = load->way != RAW_BATCHES;
    const uint64_t *far = pump->peer.answer.values;

    if (!pump->raw || !raw_has_way(pump->raw, load->way))
        return NAN;
    if (peer_request(&pump->peer, PEER_RAW, &trains, 1) != 0)
        return -1;
    if (raw_blast_send(pump->raw, load) != 0) {
        fprintf(stderr, "transmitter: no raw figure%s: %s\n", ways[load->way], strerror(errno));
        return NAN;
    }
    if (peer_request(&pump->peer, PEER_RESULT, NULL, 0) != 0)
        return -1;
    return far[SINK_RAW_NS] ? (double)far[SINK_RAW_BYTES] * 8 / (double)far[SINK_RAW_NS] : NAN;
}

/* A blast of each way, for half of its figure. */
static int pump_raw_half(struct pump *pump, uint64_t size, struct pump_result *result)
{
    uint64_t duration_ns = pump->options->duration_ns / PUMP_RAW_SHARE;
    struct raw_load load = {.message_bytes = size,
                            .ring_bytes = pump->options->raw.history_bytes,
                            .duration_ns = duration_ns > PUMP_RAW_NS_MIN ? duration_ns : PUMP_RAW_NS_MIN};

    for (load.way = 0; load.way < RAW_WAYS; load.way++) {
        double gbit_per_s = pump_raw(pump, &load);

        if (gbit_per_s < 0)
            return -1;
        result->raw_gbit_per_s[load.way] += gbit_per_s / 2;
    }
    return 0;
}

/* The blasts stand on both sides of libllm's turn, as the machine's mood drifts. */
int pump_measure(struct pump *pump, uint64_t size, struct pump_result *result)
{
    *result = (struct pump_result){0};
    if (pump_raw_half(pump, size, result) == 0 && pump_find_rate(pump, size, result) == 0 &&
        pump_raw_half(pump, size, result) == 0)
        return 0;
    fprintf(stderr, "transmitter: the measurement cannot go on; the receiver does not answer any more\n");
    return -1;
}

/* --------------------------------------------------------------------------------------------------------- open, close */

static int pump_open_memory(struct pump *pump)
{
    size_t bytes = pump->options->size_max + PUMP_PATTERN;

    pump->pattern = malloc(bytes);
    if (!pump->pattern) {
        fprintf(stderr, "transmitter: no memory for messages of %llu bytes\n", (unsigned long long)pump->options->size_max);
        return -1;
    }
    for (size_t i = 0; i < bytes; i++)
        pump->pattern[i] = (uint8_t)i;
    return 0;
}

static int pump_open_raw(struct pump *pump)
{
    if (pump->options->raw.scheme == NULL)
        return 0;
    pump->raw = raw_open(&pump->options->raw, true);
    if (pump->raw)
        return 0;
    fprintf(stderr, "transmitter: cannot open the end of the raw measurement: %s\n", strerror(errno));
    return -1;
}

int pump_open(struct pump *pump, const struct pump_options *options)
{
    struct llm_handlers handlers;

    *pump = (struct pump){.options = options};
    llm_handlers_init(&handlers);
    handlers.arg = pump;
    handlers.message = pump_message;
    handlers.event = pump_event;
    if (pump_open_raw(pump) != 0 || pump_open_memory(pump) != 0 ||
        peer_open(&pump->peer, &options->channels, &handlers) != 0 || peer_use_topics(&pump->peer, 1) != 0)
        return -1;
    if (peer_greet(&pump->peer, options->patience_ns) == 0)
        return 0;
    fprintf(stderr, "transmitter: no receiver answers on %s; does it run, with the same --channel and --reverse?\n",
            options->channels.receive);
    return -1;
}

void pump_close(struct pump *pump)
{
    peer_close(&pump->peer);
    raw_close(pump->raw);
    free(pump->pattern);
}
