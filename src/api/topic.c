/* SPDX-License-Identifier: Apache-2.0 */
/* Topics of a transmitter, and the route that their messages take. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"

void lli_topic_route(struct llm_topic *topic)
{
    const struct llm_transmitter *transmitter = topic->transmitter;

    if (topic->rated || topic->cache != NULL || lli_topic_is_assured(topic))
        topic->route = LLI_ROUTE_CHECKED;
    else
        topic->route = transmitter->counts_topics ? LLI_ROUTE_COUNTED : LLI_ROUTE_PLAIN;
}

static int topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags,
                      struct llm_topic **result)
{
    const struct lli_log *log = &transmitter->context->log;
    struct lli_tx *tx = &transmitter->tx;
    /* Unreliable topics have no history anyway. */
    const bool transient = flags & LLM_TOPIC_NO_HISTORY && !(flags & LLM_TOPIC_UNRELIABLE);
    const size_t name_max = LLI_WIRE_NAME_MAX - (flags & LLM_TOPIC_NO_HISTORY ? LLI_WIRE_NAME_FLAGS : 0);
    struct llm_topic *topic;
    int error;

    if (strlen(name) < 1 || strlen(name) > name_max)
        return lli_fail(log, LLM_EINVAL, "topic \"%.32s\": a name has 1 to %zu bytes%s, this one has %zu",
                        name, name_max, flags & LLM_TOPIC_NO_HISTORY ? " without history" : "", strlen(name));
    for (topic = transmitter->topics; topic != NULL; topic = topic->next)
        if (strcmp(topic->name, name) == 0)
            return lli_fail(
                log, LLM_EINVAL,
                "topic \"%s\": is open already on this transmitter: use that one, or another name", name);
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, name);
    topic = calloc(1, sizeof *topic);
    if (topic == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for a topic");
    topic->transmitter = transmitter;
    memcpy(topic->name, name, strlen(name));
    topic->pack.whole = flags & LLM_TOPIC_WHOLE;
    topic->pack.unreliable = flags & LLM_TOPIC_UNRELIABLE;
    topic->pack.transient = transient;
    do
        error = transient ? lli_tx_topic_add_transient(tx, topic->name, &topic->pack.id)
                          : lli_tx_topic_add(tx, topic->name, &topic->pack.id);
    while (error == LLM_EAGAIN && lli_transmitter_make_room(transmitter));
    if (error != LLM_OK) {
        free(topic);
        if (error == LLM_ELIMIT)
            return lli_fail(log, error, "topic \"%s\": there are topics_max=%u already", name,
                            tx->config.topics_max);
        return error;
    }
    if (topic->pack.unreliable)
        lli_pack_unreliable(&tx->pack, topic->pack.id);
    lli_topic_route(topic);
    topic->next = transmitter->topics;
    transmitter->topics = topic;
    *result = topic;
    lli_transmitter_wait(transmitter);
    return LLM_OK;
}

int llm_topic_open(struct llm_transmitter *transmitter, const char *name, unsigned flags,
                   struct llm_topic **topic)
{
    int error;

    if (transmitter == NULL)
        return LLM_EINVAL;
    if (name == NULL || topic == NULL)
        return lli_refuse(transmitter->context, LLM_EINVAL, "llm_topic_open: %s is NULL: it has to be given",
                          name == NULL ? "name" : "topic");
    if (flags > (LLM_TOPIC_WHOLE | LLM_TOPIC_UNRELIABLE | LLM_TOPIC_NO_HISTORY))
        return lli_refuse(transmitter->context, LLM_EINVAL,
                          "topic \"%.32s\": flags %#x: use those of enum llm_topic_flags, or 0", name, flags);
    if (!lli_context_enter(transmitter->context))
        return LLM_ESTATE;
    error = topic_open(transmitter, name, flags, topic);
    lli_context_leave(transmitter->context);
    return error;
}
