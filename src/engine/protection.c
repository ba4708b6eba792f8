/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/protection.h"

#include <stdio.h>
#include <string.h>

#include "core/keys/key_file.h"
#include "engine/objects.h"
#include "engine/sealing.h"

bool lli_protection_is_shared(const struct lli_channel *a, const struct lli_channel *b)
{
    return (a->options.keys[0] == '\0' && b->options.keys[0] == '\0') ||
           (strcmp(a->host, b->host) == 0 && a->port == b->port);
}

int lli_protection_open(struct lli_endpoint *endpoint)
{
    const struct lli_channel *channel = &endpoint->channel;
    struct lli_caps *caps = &endpoint->caps;
    struct lli_guard_config config = {
        .path = channel->options.keys,
        .name = endpoint->name,
        .log = &endpoint->context->log,
        .mode = channel->options.keys_mode == LLM_KEYS_MODE_ENCRYPT ? LLI_PROTECT_ENCRYPT
                                                                    : LLI_PROTECT_AUTHENTICATE,
        .packet_max = UINT16_MAX,
        .senders =
            channel->options.receivers_max + channel->options.sessions_max + channel->options.connections_max,
    };

    endpoint->scratch_max = LLI_ENDPOINT_SCRATCH;
    if (channel->options.keys[0] == '\0')
        return LLM_OK;
    if (channel->port == 0)
        (void)snprintf(endpoint->name, sizeof endpoint->name, "%s", channel->host);
    else
        (void)snprintf(endpoint->name, sizeof endpoint->name,
                       strchr(channel->host, ':') != NULL ? "[%s]:%u" : "%s:%u", channel->host,
                       (unsigned)channel->port);
    if (caps->payload_max < LLI_WIRE_CONTROL_MAX + LLI_PROTECT_CONTROL)
        return lli_fail(&endpoint->context->log, LLM_EOPTION,
                        "option keys: packets of %u bytes are too short for them, which need %u: raise mtu",
                        caps->payload_max, (unsigned)(LLI_WIRE_CONTROL_MAX + LLI_PROTECT_CONTROL));
    /* Control packets become longer than data packets by a little, and so are shorter before. */
    endpoint->scratch_max = (uint32_t)lli_min(LLI_ENDPOINT_SCRATCH, caps->payload_max - LLI_PROTECT_CONTROL);
    caps->payload_max -= LLI_PROTECT_DATA;
    return lli_guard_open(&config, &endpoint->guard);
}

void lli_protection_close(struct lli_endpoint *endpoint)
{
    lli_guard_close(endpoint->guard);
    endpoint->guard = NULL;
}

void lli_protection_look(struct lli_endpoint *endpoint)
{
    lli_guard_look(endpoint->guard, lli_context_time(endpoint->context, lli_ticks()));
}

bool lli_protection_waits(const struct lli_endpoint *endpoint)
{
    return lli_guard_is_keyless(endpoint->guard);
}

bool lli_protection_control(struct lli_endpoint *endpoint, uint8_t *packet, uint32_t *size)
{
    uint32_t protected;

    if (lli_protect_is(packet, *size))
        return true;
    lli_protection_look(endpoint);
    protected = lli_guard_control(endpoint->guard, packet, *size);
    if (protected == 0) {
        endpoint->counters.packets_keyless++;
        return false;
    }
    *size = protected;
    return true;
}

int lli_protection_data(struct llm_transmitter *transmitter, struct lli_packet *packets, int count)
{
    struct lli_history *history = &transmitter->tx.history;

    if (count > 0)
        lli_protection_look(transmitter->endpoint);
    for (int i = 0; i < count; i++) {
        const lli_seq seq = transmitter->tx.sent + (lli_seq)i;
        uint8_t *packet = lli_history_packet(history, seq);
        uint32_t size;

        if (lli_protect_is(packet, packets[i].size))
            continue;
        size = lli_guard_data(transmitter->protection, seq, packet, packets[i].size);
        if (size == 0) {
            transmitter->endpoint->counters.packets_keyless++;
            return i;
        }
        lli_history_extend(history, seq, size);
        if (transmitter->sealer != NULL)
            lli_sealer_note(transmitter, seq, packet, size);
        packets[i].size = size;
    }
    return count;
}

uint32_t lli_protection_single(struct llm_transmitter *transmitter, uint32_t size)
{
    const struct lli_tx *tx = &transmitter->tx;

    lli_protection_look(transmitter->endpoint);
    return lli_guard_data(transmitter->protection, tx->history.next, tx->pack.prepared, size);
}

/* Reports once that members of the group have different keys. */
static void protection_report(struct lli_endpoint *endpoint, enum llm_reason reason)
{
    const struct llm_event event = {.kind = LLM_EVENT_KEYS, .reason = reason};
    const uint8_t bit = reason == LLM_REASON_IN_CLEAR ? 1 : 2;
    struct llm_context *context = endpoint->context;

    if (endpoint->mixed & bit)
        return;
    endpoint->mixed |= bit;
    lli_log(&context->log, LLM_LEVEL_WARNING,
            reason == LLM_REASON_IN_CLEAR ? "%s: packets in clear came to a channel with keys, and were "
                                            "dropped, as all such are: some members "
                                            "of the group are without the option keys"
            : endpoint->guard != NULL ? "%s: packets protected by other keys came, and were dropped, as all "
                                        "such are: compare the epochs "
                                        "(llm-key show) and keys_mode of all members"
                                      : "%s: packets protected by keys came, and were dropped, as all such "
                                        "are: open the channel with the "
                                        "option keys",
            endpoint->object);
    context->in_handler = true;
    for (struct llm_receiver *receiver = endpoint->receivers; receiver != NULL; receiver = receiver->next) {
        if (receiver->handlers.event == NULL)
            continue;
        lli_sessions_report(receiver, &event);
        context->delivered++;
    }
    for (struct llm_transmitter *transmitter = endpoint->transmitters; transmitter != NULL;
         transmitter = transmitter->next) {
        if (transmitter->handlers.event == NULL)
            continue;
        lli_transmitter_report(transmitter, &event);
        context->delivered++;
    }
    context->in_handler = false;
}

bool lli_protection_take(struct lli_endpoint *endpoint, const struct lli_in *packet, struct lli_in *clear)
{
    struct lli_endpoint_counters *counters = &endpoint->counters;
    const uint8_t *data = NULL;
    size_t size = 0;

    switch (lli_guard_take(endpoint->guard, packet->data, packet->size, &data, &size)) {
    case LLI_GUARD_AUTHENTIC:
        *clear = *packet;
        clear->data = data;
        clear->size = (uint32_t)size;
        return lli_sealing_take(endpoint, packet, clear);
    case LLI_GUARD_FORGED:
        counters->packets_forged++;
        break;
    case LLI_GUARD_REPEATED:
        counters->packets_repeated++;
        break;
    case LLI_GUARD_CROWDED:
        counters->packets_crowded++;
        break;
    case LLI_GUARD_UNKNOWN:
        counters->packets_unannounced++;
        break;
    case LLI_GUARD_ENDED:
        counters->packets_ended++;
        break;
    case LLI_GUARD_OTHER:
        counters->packets_other_keys++;
        protection_report(endpoint, LLM_REASON_KEYS);
        break;
    case LLI_GUARD_CLEAR:
        counters->packets_in_clear++;
        protection_report(endpoint, LLM_REASON_IN_CLEAR);
        break;
    }
    return false;
}

bool lli_protection_is_keyless(struct lli_endpoint *endpoint, const struct lli_in *packet)
{
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;

    /* Fields that no sender writes are those of noise. */
    if (endpoint->guard != NULL || !lli_protect_is(packet->data, packet->size) ||
        !lli_protect_parse(packet->data, packet->size, &fields, &parts) || fields.epoch == 0 ||
        lli_key_suite_name((enum lli_key_suite)fields.suite) == NULL ||
        (fields.mode != LLI_PROTECT_ENCRYPT && fields.mode != LLI_PROTECT_AUTHENTICATE))
        return false;
    endpoint->counters.packets_other_keys++;
    protection_report(endpoint, LLM_REASON_KEYS);
    return true;
}
