/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost for a transmitter whose topics keep their last messages: two streams of messages that take turns on as many
 * topics, which keep them in the one and do not in the other, in turns in one process. Without a network and without receivers,
 * so that nothing else is measured. bench/run kept has callgrind count the instructions
 * of the same, with count=1. Others: topics= keep= size= duration=
 */
#include <stdio.h>
#include <stdlib.h>

#include <llm/llm.h>

#include "machine.h"
#include "roles.h"
#include "steady.h"

enum {
    KEPT_TURNS = 31,
    KEPT_WARM = 1 << 20,   /* messages that fill the history, and bring it round */
    KEPT_COUNTED = 40000,  /* messages whose instructions are counted */
    KEPT_BATCH = 1024,     /* messages between two polls, at most */
};

enum kept_kind { KEPT_PLAIN, KEPT_KEPT, KEPT_KINDS };

static uint64_t kept_topics, kept_messages, kept_size, kept_duration;

struct stream {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic **topics;
    uint8_t *data;
    uint64_t sent;
    double ns[KEPT_TURNS]; /* a message */
};

static void kept_open(const struct control *control, struct stream *stream, enum kept_kind kind)
{
    char text[64];

    stream->context = steady_context(control, LLM_WAIT_SPIN);
    stream->topics = steady_memory(kept_topics, sizeof(struct llm_topic *));
    stream->data = steady_memory(1, kept_size);
    /* Packets as long as an Ethernet's. */
    (void)snprintf(text, sizeof text, "loop://kept:%d?mtu=1472&linger_ns=0", kind + 1);
    steady_ok(llm_transmitter_open(stream->context, text, NULL, NULL, &stream->transmitter), text);
    for (uint64_t i = 0; i < kept_topics; i++) {
        (void)snprintf(text, sizeof text, "kept.%u", (unsigned)i);
        steady_ok(llm_topic_open(stream->transmitter, text, 0, &stream->topics[i]), text);
        steady_ok(llm_poll(stream->context), "llm_poll");
    }
}

static void kept_close(struct stream *stream)
{
    steady_ok(llm_transmitter_close(&stream->transmitter), "llm_transmitter_close");
    steady_ok(llm_context_close(&stream->context), "llm_context_close");
    free(stream->topics);
    free(stream->data);
}

static void kept_send(struct stream *stream, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct llm_topic *topic = stream->topics[stream->sent % kept_topics];
        int result;

        while ((result = llm_send(topic, stream->data, kept_size, LLM_SEND_MORE)) == LLM_EAGAIN)
            steady_ok(llm_poll(stream->context), "llm_poll");
        steady_ok(result, "llm_send");
        if (++stream->sent % KEPT_BATCH == 0)
            steady_ok(llm_poll(stream->context), "llm_poll");
    }
}

/* From now on each topic keeps messages. Returns the memory that this takes once they are there, in KiB. */
static double kept_keep(struct stream *stream)
{
    const double before = machine_resident_mib();
    struct llm_cache keep;

    llm_cache_init(&keep);
    keep.messages = kept_messages;
    keep.bytes_max = kept_size;
    for (uint64_t i = 0; i < kept_topics; i++)
        steady_ok(llm_topic_cache(stream->topics[i], &keep), "llm_topic_cache (more memory for it: cache_bytes)");
    kept_send(stream, kept_topics * kept_messages);
    return (machine_resident_mib() - before) * 1024;
}

/* Sends for so long. Returns how many nanoseconds a message took. */
static double kept_turn(struct stream *stream, uint64_t duration_ns)
{
    const uint64_t begun_at = llm_clock(), first = stream->sent;
    uint64_t now;

    do
        kept_send(stream, KEPT_BATCH);
    while ((now = llm_clock()) < begun_at + duration_ns);
    return (double)(now - begun_at) / (double)(stream->sent - first);
}

static void kept_report(const struct stream *streams, double memory_kib)
{
    static const char *const names[KEPT_KINDS] = {"not_kept", "kept"};

    json_open();
    json_number("sent", (double)streams[KEPT_KEPT].sent);
    json_number("messages_cached", (double)steady_stat(streams[KEPT_KEPT].context, "messages_cached"));
    json_number("memory_kib", memory_kib);
    for (int kind = 0; kind < KEPT_KINDS; kind++) {
        json_begin(names[kind], '[');
        for (int i = 0; i < KEPT_TURNS; i++)
            json_number(NULL, streams[kind].ns[i]);
        json_end(']');
    }
    json_close();
}

static void kept_measure(struct stream *streams)
{
    const double memory_kib = kept_keep(&streams[KEPT_KEPT]);

    for (int turn = 0; turn < KEPT_TURNS; turn++)
        for (int kind = 0; kind < KEPT_KINDS; kind++)
            streams[kind].ns[turn] = kept_turn(&streams[kind], kept_duration / KEPT_TURNS / KEPT_KINDS);
    kept_report(streams, memory_kib);
}

/* ---------------------------------------------------------------------------------------------- under callgrind */

/* Callgrind counts from its entry to its return, and knows it and the next two by their names. */
static __attribute__((noinline)) void kept_count(struct stream *stream)
{
    kept_send(stream, KEPT_COUNTED);
    steady_ok(llm_transmitter_flush(stream->transmitter), "llm_transmitter_flush");
}

static __attribute__((noinline)) void kept_begin(void)
{
    __asm__ volatile("");
}

static __attribute__((noinline)) void kept_end(void)
{
    __asm__ volatile("");
}

static void kept_count_all(struct stream *streams)
{
    (void)kept_keep(&streams[KEPT_KEPT]);
    for (int kind = 0; kind < KEPT_KINDS; kind++) {
        kept_send(&streams[kind], KEPT_COUNTED);
        kept_begin();
        kept_count(&streams[kind]);
        kept_end();
    }
    json_done("counted", KEPT_COUNTED);
}

int kept_run(const struct control *control)
{
    static struct stream streams[KEPT_KINDS];
    const bool counts = control_flag(control, "count");

    kept_topics = control_number(control, "topics", 1000);
    kept_messages = control_number(control, "keep", 1);
    kept_size = control_number(control, "size", 45);
    kept_duration = control_ns(control, "duration", 500000000);
    for (int kind = 0; kind < KEPT_KINDS; kind++) {
        kept_open(control, &streams[kind], (enum kept_kind)kind);
        if (!counts)
            kept_send(&streams[kind], KEPT_WARM);
    }
    if (counts)
        kept_count_all(streams);
    else
        kept_measure(streams);
    for (int kind = 0; kind < KEPT_KINDS; kind++)
        kept_close(&streams[kind]);
    return 0;
}
