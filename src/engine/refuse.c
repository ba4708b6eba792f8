/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/refuse.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/objects.h"

#define REFUSE_DISTANCE ((lli_ns)1000000000)

enum { REFUSE_TEXT = 400 };

/* Finds the entry of a kind: its own, else an unused one, else the one logged longest ago. */
static unsigned refuse_place(const struct lli_refusals *refusals, const char *format)
{
    unsigned oldest = 0;

    for (unsigned i = 0; i < LLI_REFUSALS; i++) {
        if (refusals->kinds[i].format == format)
            return i;
        if (refusals->kinds[i].format == NULL ||
            refusals->kinds[i].logged_at < refusals->kinds[oldest].logged_at)
            oldest = i;
    }
    return oldest;
}

/* Returns true if a refusal of this kind may be logged; unlogged: number left out since the latest. */
static bool refuse_may_log(struct lli_refusals *refusals, const char *format, uint64_t *unlogged)
{
    const unsigned i = refuse_place(refusals, format);
    const lli_ns now = lli_clock_ns();
    const bool known = refusals->kinds[i].format == format;

    if (known && now - refusals->kinds[i].logged_at < REFUSE_DISTANCE) {
        refusals->kinds[i].unlogged++;
        return false;
    }
    *unlogged = known ? refusals->kinds[i].unlogged : 0;
    refusals->kinds[i].format = format;
    refusals->kinds[i].logged_at = now;
    refusals->kinds[i].unlogged = 0;
    return true;
}

int lli_refuse(struct llm_context *context, int error, const char *format, ...)
{
    char text[REFUSE_TEXT], more[64] = "";
    uint64_t unlogged;
    va_list arguments;

    if (!lli_context_enter(context))
        return LLM_ESTATE;
    if (refuse_may_log(&context->refusals, format, &unlogged)) {
        va_start(arguments, format);
        (void)vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        if (unlogged > 0)
            (void)snprintf(more, sizeof more, " (and %" PRIu64 " such calls since the latest line)",
                           unlogged);
        lli_log(&context->log, LLM_LEVEL_ERROR, "%s%s", text, more);
    }
    lli_context_leave(context);
    return error;
}

/* --------------------------------------------------------------------------------------------- messages */

int lli_refuse_claimed(struct llm_transmitter *transmitter, const char *topic)
{
    struct llm_context *context = transmitter->context;

    if (transmitter->fenced)
        return lli_refuse(
            context, LLM_EFENCED,
            "topic \"%s\": the primary is fenced, as no majority answered in time: close the member "
            "and open it anew",
            topic);
    if (transmitter->claimed == transmitter)
        return lli_refuse(context, LLM_ESTATE, "topic \"%s\": the connection is over: close it", topic);
    if (lli_transmitter_is_claimed_elsewhere(transmitter)) {
        transmitter->tx.counters.send_blocked++;
        return LLM_EAGAIN;
    }
    return lli_refuse(
        context, LLM_ESTATE,
        "topic \"%s\": a claim is open on its transmitter: llm_topic_commit() or llm_topic_abort() it first",
        topic);
}

int lli_refuse_unclaimed(const struct llm_topic *topic)
{
    if (topic->transmitter->fenced)
        return lli_refuse_claimed(topic->transmitter, topic->name);
    return lli_refuse(topic->transmitter->context, LLM_ESTATE,
                      "topic \"%s\": no claim of it is open: llm_topic_claim() makes one", topic->name);
}

int lli_refuse_flags(const struct llm_topic *topic, unsigned flags)
{
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": flags %#x: use those of enum llm_send_flags, or 0", topic->name, flags);
}

int lli_refuse_data(const struct llm_topic *topic, size_t size)
{
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": data is NULL and size %zu: give the bytes, or size 0", topic->name,
                      size);
}

int lli_refuse_count(const struct llm_topic *topic, const struct iovec *pieces, int count)
{
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": count is %d%s: give so many pieces, or 0", topic->name, count,
                      pieces == NULL ? " and pieces NULL" : "");
}

int lli_refuse_piece(const struct llm_topic *topic, int piece, size_t size)
{
    return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                      "topic \"%s\": pieces[%d] has %zu bytes at NULL: give the bytes, or length 0",
                      topic->name, piece, size);
}

int lli_refuse_size(const struct llm_topic *topic, size_t size)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    struct llm_context *context = transmitter->context;

    if (size > transmitter->message_bytes_max)
        return lli_refuse(
            context, LLM_EMSGSIZE,
            "topic \"%s\": a message of %zu bytes: at most %llu, by message_bytes_max, history_bytes and, "
            "in a failover group, tail_bytes: raise these, or split it",
            topic->name, size, (unsigned long long)transmitter->message_bytes_max);
    if (lli_topic_is_assured(topic) && size > topic->assured->rule.bytes_max)
        return lli_refuse(context, LLM_EMSGSIZE,
                          "topic \"%s\": a message of %zu bytes: at most %llu may be unacknowledged: raise "
                          "bytes_max of llm_topic_assure(), or split it",
                          topic->name, size, (unsigned long long)topic->assured->rule.bytes_max);
    return lli_refuse(
        context, LLM_EMSGSIZE,
        "topic \"%s\": a message of %zu bytes and its attributes: its cache takes at most %u: raise "
        "bytes_max of llm_topic_cache(), or split it",
        topic->name, size, topic->cache == NULL ? 0 : topic->cache->bytes_max);
}
