/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of assured topics: receivers that have to acknowledge, and bounds of unacknowledged messages. */
#include <stdlib.h>

#include "api/lifecycle.h"
#include "engine/objects.h"
#include "config/options.h"

enum {
    ASSURANCE_MESSAGES = 1024,
    ASSURANCE_MESSAGES_MAX = 1 << 20,
    ASSURANCE_SHARE = 4, /* default: 1 / ASSURANCE_SHARE of the history may be unacknowledged */
    /* At most 1 / ASSURANCE_SHARE_LEAST of the history may be: other packets need room as well. */
    ASSURANCE_SHARE_LEAST = 2,
    ASSURANCE_NAME_SHOWN = 64, /* bytes of a faulty name in a message */
};

#define ASSURANCE_PATIENCE UINT64_C(1000000000)

void llm_assurance_init(struct llm_assurance *assurance)
{
    if (assurance == NULL)
        return;
    *assurance = (struct llm_assurance){.size = sizeof *assurance,
                                        .receivers = 1,
                                        .messages_max = ASSURANCE_MESSAGES,
                                        .patience_ns = ASSURANCE_PATIENCE};
}

/* Returns true if the last of the names is a repetition. */
static bool assurance_is_named(const struct lli_ack_rule *rule)
{
    for (uint32_t i = 0; i + 1 < rule->names; i++)
        if (strcmp(rule->name[i].text, rule->name[rule->names - 1].text) == 0)
            return true;
    return false;
}

/* Says what is wrong with a name in a list of names: the size bytes at `name`. */
static int assurance_name_fail(const struct llm_topic *topic, enum lli_ack_name_result result,
                               const char *names, const char *name, int size)
{
    const struct lli_log *log = &topic->transmitter->context->log;

    if (result == LLI_ACK_NAME_STARS)
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": names \"%.64s\": \"%.*s\" has more than one \"*\": a pattern has one",
                        topic->name, names, size, name);
    if (result == LLI_ACK_NAME_COUNT)
        return lli_fail(
            log, LLM_EINVAL,
            "topic \"%s\": names \"%.64s\": \"%.*s\" has no number from 1 to %d after the last colon of "
            "the pattern, as \"store-*:2\" has",
            topic->name, names, size, name, LLI_ACK_COUNT_MAX);
    return lli_fail(
        log, LLM_EINVAL,
        "topic \"%s\": names \"%.64s\": \"%.*s\": each name has 1 to %d bytes, with a comma between two",
        topic->name, names, size, name, LLI_WIRE_RECEIVER_NAME_MAX);
}

/* Adds a name or a pattern of a list of names, the size bytes at `text`, to the rule. */
static int assurance_name(const struct llm_topic *topic, const char *names, const char *text, size_t size,
                          struct lli_ack_rule *rule)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    struct lli_ack_name *name = &rule->name[rule->names];
    enum lli_ack_name_result result;

    if (rule->names == LLI_ACK_NAMES_MAX)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": more than %d receivers by name", topic->name,
                        LLI_ACK_NAMES_MAX);
    result = lli_ack_name_parse(text, size, name);
    if (result != LLI_ACK_NAME_OK)
        return assurance_name_fail(topic, result, names, text, (int)lli_min(size, ASSURANCE_NAME_SHOWN));
    rule->names++;
    if (assurance_is_named(rule))
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": names \"%.64s\" has \"%s\" twice: it acknowledges once, leave one out",
                        topic->name, names, name->text);
    if (name->count > transmitter->tx.config.receivers_max)
        return lli_fail(log, LLM_ELIMIT,
                        "topic \"%s\": %u receivers \"%s\" are to acknowledge, receivers_max is %u",
                        topic->name, name->count, name->text, transmitter->tx.config.receivers_max);
    return LLM_OK;
}

static int assurance_names(const struct llm_topic *topic, const char *names, struct lli_ack_rule *rule)
{
    int error = LLM_OK;

    if (names == NULL || *names == '\0')
        return LLM_OK;
    for (const char *at = names; at != NULL && error == LLM_OK;) {
        const size_t size = strcspn(at, ",");

        error = assurance_name(topic, names, at, size, rule);
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    return error;
}

/* Converts the application's assurance to a rule, or returns why that is not possible. */
static int assurance_rule(const struct llm_topic *topic, const struct llm_assurance *a,
                          struct lli_ack_rule *rule)
{
    const struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    const uint64_t history = transmitter->tx.history.bytes_size;

    *rule = (struct lli_ack_rule){.receivers = a->receivers,
                                  .messages_max = a->messages_max,
                                  .bytes_max = a->bytes_max != 0 ? a->bytes_max : history / ASSURANCE_SHARE,
                                  .patience = a->patience_ns};
    if (a->receivers == 0 && (a->names == NULL || a->names[0] == '\0'))
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": no receiver has to acknowledge: set receivers or names", topic->name);
    if (a->receivers > transmitter->tx.config.receivers_max)
        return lli_fail(log, LLM_ELIMIT, "topic \"%s\": %u receivers are to acknowledge, receivers_max is %u",
                        topic->name, a->receivers, transmitter->tx.config.receivers_max);
    if (a->messages_max < 1 || a->messages_max > ASSURANCE_MESSAGES_MAX)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": messages_max: %llu is not between 1 and %d",
                        topic->name, (unsigned long long)a->messages_max, ASSURANCE_MESSAGES_MAX);
    if (rule->bytes_max > history / ASSURANCE_SHARE_LEAST)
        return lli_fail(log, LLM_EINVAL,
                        "topic \"%s\": bytes_max: %llu is more than half of history_bytes, %llu", topic->name,
                        (unsigned long long)rule->bytes_max, (unsigned long long)history);
    return assurance_names(topic, a->names, rule);
}

/*
 * Applies a rule. The ring's size is a power of two; messages that are already unacknowledged may need more
 * entries than the rule allows.
 */
static int assurance_set(struct llm_topic *topic, const struct lli_ack_rule *rule)
{
    const struct lli_log *log = &topic->transmitter->context->log;
    const bool first = topic->assured == NULL;
    struct lli_ack_topic *assured = first ? calloc(1, sizeof *assured) : topic->assured;
    struct lli_ack_message *ring, *before;
    uint64_t places = 1;

    if (assured == NULL)
        return lli_fail(log, LLM_ENOMEM, "topic \"%s\": no memory to assure it", topic->name);
    if (first)
        lli_ack_topic_init(assured, topic->pack.id, topic->name);
    while (places < lli_max(rule->messages_max, lli_ack_topic_waiting(assured)))
        places *= 2;
    ring = calloc(places, sizeof *ring);
    before = assured->ring;
    if (ring == NULL || !lli_tx_assure(&topic->transmitter->tx, assured, rule, ring, places)) {
        const int error = ring == NULL ? LLM_ENOMEM : LLM_ELIMIT;

        free(ring);
        if (first)
            free(assured);
        return lli_fail(log, error, "topic \"%s\": %s", topic->name,
                        error == LLM_ENOMEM ? "no memory for unacknowledged messages"
                                            : "16 topics of this transmitter are assured");
    }
    free(before);
    topic->assured = assured;
    lli_topic_route(topic);
    return LLM_OK;
}

static int assurance_apply(struct llm_topic *topic, const struct llm_assurance *user)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    struct llm_assurance assurance;
    /* Rule that ends assurance: no receiver has to acknowledge. */
    struct lli_ack_rule rule = {.messages_max = 1, .bytes_max = UINT64_MAX};
    int error = LLM_OK;

    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    if (user == NULL && topic->assured == NULL)
        return LLM_OK;
    if (topic->pack.transient)
        return lli_fail(&transmitter->context->log, LLM_EINVAL,
                        "topic \"%s\": it has no history, so a receiver that replaces one that died "
                        "would not get unacknowledged messages: open it without LLM_TOPIC_NO_HISTORY to "
                        "have it acknowledged",
                        topic->name);
    if (topic->pack.unreliable)
        return lli_fail(&transmitter->context->log, LLM_EINVAL,
                        "topic \"%s\": it is unreliable, so lost messages are not repaired: "
                        "open it without LLM_TOPIC_UNRELIABLE to have it acknowledged",
                        topic->name);
    llm_assurance_init(&assurance);
    if (user != NULL)
        error = lli_options_import(&assurance, sizeof assurance, user, "struct llm_assurance",
                                   &transmitter->context->log);
    if (error == LLM_OK && user != NULL)
        error = assurance_rule(topic, &assurance, &rule);
    if (error == LLM_OK)
        error = assurance_set(topic, &rule);
    /* Packets no longer required may be released: ask the transport again which ones it still reads. */
    transmitter->endpoint->unsettled |= error == LLM_OK;
    lli_endpoint_due(transmitter->endpoint, 0);
    return error;
}

int llm_topic_assure(struct llm_topic *topic, const struct llm_assurance *assurance)
{
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = assurance_apply(topic, assurance);
    lli_context_leave(topic->transmitter->context);
    return error;
}
