/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine.h"

#define SINK_IDLE_US 100 /* between polls while nothing is measured: leaves the core to the probe */

enum sink_state { SINK_IDLE, SINK_MEASURE, SINK_RAW, SINK_DONE, SINK_FAILED };

struct sink {
    struct peer peer;
    const struct sink_options *options;
    enum sink_state state;
    bool greeted;
    uint32_t control_id; /* of the topic that the greeting came on; all others carry data */
    uint64_t size;       /* of the messages */
    uint64_t expected;   /* number of the next message, at least */
    uint64_t received;   /* in order and with the bytes that they should have */
    uint64_t warmup;     /* of these, before the mark */
    uint64_t disordered;
    uint64_t damaged;
    uint64_t waited_ns;   /* for the core, when the measurement began */
    uint64_t measured_at; /* when the mark came, */
    uint64_t kernel_ns;   /* and time in the kernel until then */
    struct raw_end *raw; /* NULL: raw measurements are not served */
    struct raw_blast_result blast;
};

/* What pump_batch() sends. */
static bool sink_is_intact(const struct sink *sink, const struct llm_message *message)
{
    const uint8_t *bytes = message->data;

    return message->size == sink->size && bytes[0] == (uint8_t)message->number &&
           bytes[message->size - 1] == (uint8_t)(message->number + message->size - 1);
}

/* The library's number of a message says whether it is in order, its bytes whether it is the one of that number. */
static void sink_data(struct sink *sink, const struct llm_message *message)
{
    if (message->number < sink->expected) {
        sink->disordered++;
        return;
    }
    sink->expected = message->number + 1;
    if (sink_is_intact(sink, message))
        sink->received++;
    else
        sink->damaged++;
}

static void sink_mark(struct sink *sink)
{
    sink->warmup = sink->received;
    sink->kernel_ns = machine_kernel_ns();
    sink->measured_at = llm_clock();
}

static void sink_start(struct sink *sink, const struct peer_control *request)
{
    sink->size = request->values[0];
    sink->expected = 0;
    sink->received = 0;
    sink->disordered = 0;
    sink->damaged = 0;
    sink->waited_ns = machine_waited_ns();
    sink_mark(sink); /* in case the mark is lost */
    sink->state = SINK_MEASURE;
    peer_reply(&sink->peer, request, NULL, 0, "");
}

/* The request comes in order after the last message, so its arrival is the end of the measurement. */
static void sink_end(struct sink *sink, const struct peer_control *request)
{
    uint64_t sent = request->values[0];
    uint64_t values[] = {
        [SINK_RECEIVED] = sink->received - sink->warmup,
        [SINK_LOST] = sent > sink->received ? sent - sink->received : 0,
        [SINK_DISORDERED] = sink->disordered,
        [SINK_NS] = llm_clock() - sink->measured_at,
        [SINK_RESIDENT_KIB] = (uint64_t)(machine_resident_mib() * 1024),
        [SINK_WAITED_NS] = machine_waited_ns() - sink->waited_ns,
        [SINK_KERNEL_NS] = machine_kernel_ns() - sink->kernel_ns,
    };

    if (sink->damaged > 0)
        fprintf(stderr, "receiver: %llu messages were not what was sent\n", (unsigned long long)sink->damaged);
    sink->state = SINK_IDLE;
    peer_reply(&sink->peer, request, values, SINK_VALUES, "");
}

static void sink_bye(struct sink *sink, const struct peer_control *request)
{
    sink->greeted = false;
    sink->state = sink->options->keep ? SINK_IDLE : SINK_DONE;
    peer_reply(&sink->peer, request, NULL, 0, "");
}

static void sink_expect_raw(struct sink *sink, const struct peer_control *request)
{
    sink->blast = (struct raw_blast_result){0};
    sink->state = sink->raw && raw_blast_expect(sink->raw, request->values[0] != 0) == 0 ? SINK_RAW : SINK_IDLE;
    peer_reply(&sink->peer, request, NULL, 0, "");
}

static void sink_control(struct sink *sink, const struct llm_message *message)
{
    struct peer_control request;
    uint64_t raw[] = {[SINK_RAW_BYTES] = sink->blast.bytes, [SINK_RAW_NS] = sink->blast.ns};

    peer_read_control(message, &request);
    switch (request.header.kind) {
    case PEER_HELLO:
        sink->greeted = true;
        sink->control_id = message->topic_id;
        peer_reply_hello(&sink->peer, &request);
        break;
    case PEER_START:
        sink_start(sink, &request);
        break;
    case PEER_MARK:
        sink_mark(sink);
        break;
    case PEER_END:
        sink_end(sink, &request);
        break;
    case PEER_RAW:
        sink_expect_raw(sink, &request);
        break;
    case PEER_RESULT:
        peer_reply(&sink->peer, &request, raw, 2, "");
        break;
    case PEER_BYE:
        sink_bye(sink, &request);
        break;
    default:
        break;
    }
}

static void sink_message(struct sink *sink, const struct llm_message *message)
{
    if (sink->greeted && message->topic_id != sink->control_id)
        sink_data(sink, message);
    else if (strcmp(message->topic, PEER_CONTROL_TOPIC) == 0)
        sink_control(sink, message);
}

static void sink_messages(void *arg, const struct llm_message *messages, int count)
{
    for (int i = 0; i < count; i++)
        sink_message(arg, &messages[i]);
}

static void sink_event(void *arg, const struct llm_event *event)
{
    struct sink *sink = arg;

    if (event->kind == LLM_EVENT_GAP)
        fprintf(stderr, "receiver: messages %llu to %llu are lost: %s\n", (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
    if (event->kind != LLM_EVENT_SESSION_END || !sink->greeted)
        return;
    fprintf(stderr, "receiver: the transmitter ended before its measurement did: %s\n", llm_reason_name(event->reason));
    sink->greeted = false;
    sink->state = sink->options->keep ? SINK_IDLE : SINK_FAILED;
}

static void sink_raw(struct sink *sink)
{
    sink->state = SINK_IDLE;
    if (peer_await_raw(&sink->peer, sink->raw) == 0)
        sink->blast = raw_blast_receive(sink->raw);
}

static void sink_serve(struct sink *sink)
{
    while (sink->state != SINK_DONE && sink->state != SINK_FAILED) {
        if (sink->state == SINK_RAW) {
            sink_raw(sink);
            continue;
        }
        while (sink->state == SINK_MEASURE)
            llm_poll(sink->peer.context);
        llm_poll(sink->peer.context);
        if (sink->state == SINK_IDLE)
            usleep(SINK_IDLE_US);
    }
}

static int sink_open_raw(struct sink *sink)
{
    if (sink->options->raw.scheme == NULL)
        return 0;
    sink->raw = raw_open(&sink->options->raw, false);
    if (sink->raw)
        return 0;
    fprintf(stderr, "receiver: cannot open the end of the raw measurement: %s\n", strerror(errno));
    return -1;
}

static void sink_close(struct sink *sink)
{
    peer_close(&sink->peer);
    raw_close(sink->raw);
}

int sink_run(const struct sink_options *options)
{
    struct sink sink = {.options = options};
    struct llm_handlers handlers;
    int failed = 1;

    llm_handlers_init(&handlers);
    handlers.arg = &sink;
    handlers.messages = sink_messages;
    handlers.event = sink_event;
    if (sink_open_raw(&sink) == 0 && peer_open(&sink.peer, &options->channels, &handlers) == 0) {
        sink_serve(&sink);
        failed = sink.state == SINK_FAILED;
        peer_print_counters(&sink.peer, "receiver");
    }
    sink_close(&sink);
    return failed;
}
