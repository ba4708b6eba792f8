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
    uint32_t expected; /* sequence of the next message */
    uint64_t received; /* measured messages */
    uint64_t lost;
    uint64_t disordered;
    uint64_t waited_ns; /* for the core, when the measurement began */
    uint64_t first_at; /* when the first measured message came */
    int raw_fd;
    struct raw_blast *blast;
    struct raw_blast_result raw;
};

static void sink_jump(struct sink *sink, uint32_t sequence)
{
    if (sequence < sink->expected)
        sink->disordered++;
    else
        sink->lost += sequence - sink->expected;
}

static void sink_start(struct sink *sink, const struct peer_control *request)
{
    sink->expected = 0;
    sink->received = 0;
    sink->lost = 0;
    sink->disordered = 0;
    sink->first_at = 0;
    sink->waited_ns = machine_waited_ns();
    sink->state = SINK_MEASURE;
    peer_reply(&sink->peer, request, NULL, 0, "");
}

/* The request comes in order after the last message, so its arrival is the end of the measurement. */
static void sink_end(struct sink *sink, const struct peer_control *request)
{
    uint64_t missing = request->values[0] > sink->expected ? request->values[0] - sink->expected : 0;
    uint64_t values[] = {
        [SINK_RECEIVED] = sink->received,
        [SINK_LOST] = sink->lost + missing,
        [SINK_DISORDERED] = sink->disordered,
        [SINK_NS] = sink->first_at ? llm_clock() - sink->first_at : 0,
        [SINK_RESIDENT_KIB] = (uint64_t)(machine_resident_mib() * 1024),
        [SINK_WAITED_NS] = machine_waited_ns() - sink->waited_ns,
    };

    sink->state = SINK_IDLE;
    peer_reply(&sink->peer, request, values, 6, "");
}

static void sink_bye(struct sink *sink, const struct peer_control *request)
{
    sink->greeted = false;
    sink->state = sink->options->keep ? SINK_IDLE : SINK_DONE;
    peer_reply(&sink->peer, request, NULL, 0, "");
}

static void sink_expect_raw(struct sink *sink, const struct peer_control *request)
{
    sink->raw = (struct raw_blast_result){0};
    sink->state = SINK_RAW;
    if (sink->raw_fd >= 0)
        raw_blast_expect(sink->blast, sink->raw_fd, request->values[0] != 0);
    peer_reply(&sink->peer, request, NULL, 0, "");
}

static void sink_control(struct sink *sink, const struct llm_message *message)
{
    struct peer_control request;
    uint64_t raw[] = {[SINK_RAW_BYTES] = sink->raw.bytes, [SINK_RAW_NS] = sink->raw.ns};

    peer_read_control(message, &request);
    switch (request.header.kind) {
    case PEER_HELLO:
        sink->greeted = true;
        peer_reply_hello(&sink->peer, &request);
        break;
    case PEER_START:
        sink_start(sink, &request);
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

static void sink_message(void *arg, const struct llm_message *message)
{
    struct sink *sink = arg;
    struct peer_header header = peer_read_header(message);

    if (header.kind < PEER_WARMUP) {
        sink_control(sink, message);
        return;
    }
    if (header.sequence != sink->expected)
        sink_jump(sink, header.sequence);
    sink->expected = header.sequence + 1;
    if (header.kind == PEER_DATA && sink->received++ == 0)
        sink->first_at = llm_clock();
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
    if (sink->raw_fd >= 0 && peer_await_raw(&sink->peer, sink->raw_fd) == 0)
        sink->raw = raw_blast_receive(sink->blast, sink->raw_fd);
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
    sink->raw_fd = -1;
    if (sink->options->raw.address_size == 0)
        return 0;
    sink->raw_fd = raw_open_receive(&sink->options->raw);
    sink->blast = raw_blast_open();
    if (sink->raw_fd >= 0 && sink->blast)
        return 0;
    fprintf(stderr, "receiver: cannot open the socket of the raw measurement: %s\n", strerror(errno));
    return -1;
}

static void sink_close(struct sink *sink)
{
    peer_close(&sink->peer);
    if (sink->raw_fd >= 0)
        close(sink->raw_fd);
    raw_blast_close(sink->blast);
}

int sink_run(const struct sink_options *options)
{
    struct sink sink = {.options = options};
    struct llm_handlers handlers;
    int failed = 1;

    llm_handlers_init(&handlers);
    handlers.arg = &sink;
    handlers.message = sink_message;
    handlers.event = sink_event;
    if (sink_open_raw(&sink) == 0 && peer_open(&sink.peer, &options->channels, &handlers) == 0) {
        sink_serve(&sink);
        failed = sink.state == SINK_FAILED;
        peer_print_counters(&sink.peer, "receiver");
    }
    sink_close(&sink);
    return failed;
}
