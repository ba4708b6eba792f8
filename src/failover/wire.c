/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between members (docs/protocol.md section 12.7). */
#include <string.h>

#include "failover/failover.h"

/* In the byte of the number of voters: messages are delivered when a majority has them. */
enum { FAILOVER_COMMITS = 0x80 };

/* In the last 8 bytes of all but BEAT: the kind answered, if the sender remembers, and in the high half its level. */
enum { FAILOVER_ANSWERED = 0xff, FAILOVER_REMEMBERS = 0x100 };

/* Distance of requests for the tail. */
#define FAILOVER_FETCH_NS ((lli_ns)1000000)

static struct lli_failover_peer *failover_peer(struct llm_failover *failover, uint64_t identity)
{
    for (uint32_t i = 0; i < failover->peers_count; i++)
        if (failover->peers[i].identity == identity)
            return &failover->peers[i];
    return NULL;
}

static void failover_heard(struct llm_failover *failover, const struct lli_wire_join *join)
{
    struct lli_failover_peer *peer = failover_peer(failover, join->receiver);

    if (peer == NULL) {
        peer = failover->peers_count < LLI_ELECTION_PEERS_MAX
                   ? &failover->peers[failover->peers_count++]
                   : &failover->peers[failover->peers_next++ % LLI_ELECTION_PEERS_MAX];
        *peer = (struct lli_failover_peer){.identity = join->receiver};
    }
    if (join->kind == LLI_WIRE_JOIN_SURVEY)
        peer->surveyed = join->topics;
    else if (!lli_wire_is_address(&peer->address, &join->address))
        peer->surveyed = 0;
    peer->address = join->address;
}

/* Posts a packet built in a scratch buffer, to an address or, if it is NULL, to all members. */
static void failover_post(struct llm_failover *failover, uint8_t *buffer, size_t size,
                          const struct lli_wire_address *to)
{
    const struct lli_packet packet = {.data = buffer, .size = (uint32_t)size, .to = to};

    lli_sessions_post(failover->receiver, &packet);
}

static void failover_post_election(struct llm_failover *failover, const struct lli_election_packet *packet,
                                   const struct lli_wire_address *to)
{
    struct lli_endpoint *endpoint = failover->receiver->endpoint;
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    const struct lli_wire_join join = {
        .session = failover->stream,
        .receiver = packet->identity,
        .kind = (uint8_t)packet->kind,
        .from = (uint8_t)packet->member,
        .reason = (uint8_t)(packet->voters | (packet->commits ? FAILOVER_COMMITS : 0)),
        .topics = packet->term,
        .value = packet->clock,
        .packet = packet->position.first,
        .number = packet->position.begins,
        .wanted = (uint64_t)packet->position.previous << 32 | packet->position.followed,
        .lead = packet->position.next,
        .address = endpoint->address,
        .token = packet->kind == LLI_ELECTION_BEAT
                     ? packet->committed
                     : packet->answered | (packet->remembers ? FAILOVER_REMEMBERS : 0) |
                           (uint64_t)packet->position.level << 32,
    };

    /* Beats and surveys are repeated, and beats have what HAVE has. */
    if (buffer != NULL)
        failover_post(failover, buffer, lli_wire_put_join(buffer, &join), to);
}

void lli_failover_send(struct llm_failover *failover, lli_ns now)
{
    struct lli_election_packet packet;
    bool sent = false;

    /* Its beats tell members that begin, and voters that restarted, how far they have to come. */
    if (failover->role == LLM_ROLE_PRIMARY)
        lli_failover_have(failover);
    while (lli_election_output(&failover->election, now, &packet)) {
        failover_post_election(failover, &packet, NULL);
        sent = true;
    }
    /* It may take the messages of another one in the place of its own. */
    if (failover->election.state == LLI_ELECTION_SURVEYING)
        lli_failover_withdraw(failover);
    if (sent)
        lli_endpoint_flush(failover->receiver->endpoint);
}

static void failover_input_election(struct llm_failover *failover, const struct lli_wire_join *join,
                                    lli_ns now)
{
    const struct lli_election_packet packet = {
        .kind = (enum lli_election_kind)join->kind,
        .answered = (enum lli_election_kind)(join->token & FAILOVER_ANSWERED),
        .term = join->topics,
        .member = join->from,
        .voters = join->reason & ~(unsigned)FAILOVER_COMMITS,
        .commits = (join->reason & FAILOVER_COMMITS) != 0,
        .remembers = (join->token & FAILOVER_REMEMBERS) != 0,
        .committed = join->token,
        .identity = join->receiver,
        .clock = join->value,
        .position = {.followed = (uint32_t)join->wanted,
                     .level = (uint32_t)(join->kind == LLI_WIRE_JOIN_BEAT ? join->wanted : join->token >> 32),
                     .previous = (uint32_t)(join->wanted >> 32),
                     .begins = join->number,
                     .first = join->packet,
                     .next = join->lead},
    };
    struct lli_election_packet answer;

    if (lli_election_input(&failover->election, &packet, now, &answer)) {
        failover_post_election(failover, &answer, &join->address);
        lli_endpoint_flush(failover->receiver->endpoint);
    }
    if (packet.kind == LLI_ELECTION_BEAT && packet.term == failover->term &&
        packet.term == failover->election.position.followed)
        lli_failover_snapshot_beat(failover, packet.position.next, now);
    lli_failover_withdraw(failover);
    lli_failover_release(failover);
    lli_failover_deliver(failover);
}

/* ---------------------------------------------------------------------------------------------- the tail */

/* Sends a part of a message that is retained. */
static void failover_post_tail(struct llm_failover *failover, const struct lli_wire_join *asked,
                               uint64_t number, uint32_t offset)
{
    struct lli_endpoint *endpoint = failover->receiver->endpoint;
    const struct lli_tail_message *message = lli_tail_find(&failover->tail, number);
    uint8_t *buffer = lli_endpoint_scratch(endpoint);
    const char *name = failover->topics[message->topic];
    struct lli_wire_join join = {
        .session = failover->stream,
        .receiver = failover->election.config.identity,
        .kind = LLI_WIRE_JOIN_TAIL,
        .topics = message->size,
        .value = offset,
        .number = number,
        .wanted = (uint64_t)strlen(name) << 32 | lli_min(LLI_FAILOVER_FETCHED, message->size - offset),
        .lead = failover->tail.next,
    };
    size_t size;

    if (buffer == NULL)
        return;
    size = lli_wire_put_join(buffer, &join);
    memcpy(buffer + size, name, strlen(name));
    size += strlen(name);
    lli_tail_copy(&failover->tail, message, offset, buffer + size, (uint32_t)join.wanted);
    size += (uint32_t)join.wanted;
    lli_wire_put_size(buffer, size);
    /* With a small MTU and a long name. */
    if (size > endpoint->scratch_max)
        return;
    failover_post(failover, buffer, size, &asked->address);
}

/*
 * Returns true if this member answered a survey of the sender, at the address to which it would send, and the term
 * has not begun. To others it sends nothing: the answers are longer than the request.
 */
static bool failover_may_fetch(struct llm_failover *failover, const struct lli_wire_join *join)
{
    const struct lli_failover_peer *peer = failover_peer(failover, join->receiver);
    const struct lli_election *election = &failover->election;

    return peer != NULL && election->state != LLI_ELECTION_FENCED && peer->surveyed == election->frozen &&
           election->frozen > election->position.followed &&
           lli_wire_is_address(&peer->address, &join->address);
}

/* Sends a run of the tail, from a message and an offset in it. */
static void failover_input_fetch(struct llm_failover *failover, const struct lli_wire_join *join)
{
    uint64_t number = join->number;
    uint64_t offset = join->value;

    if (!failover_may_fetch(failover, join))
        return;
    for (int i = 0; i < LLI_FAILOVER_BATCH; i++) {
        const struct lli_tail_message *message = lli_tail_find(&failover->tail, number);

        if (message == NULL || number < failover->repeatable || offset > message->size)
            break;
        failover_post_tail(failover, join, number, (uint32_t)offset);
        offset += LLI_FAILOVER_FETCHED;
        if (offset >= message->size) {
            number++;
            offset = 0;
        }
    }
    lli_endpoint_flush(failover->receiver->endpoint);
}

/* Begins the next message anew, unless the part that is there is of it and of the same member. */
static void failover_assemble(struct llm_failover *failover, uint64_t source)
{
    if (failover->assembly_source == source && failover->assembly_number == failover->tail.next)
        return;
    failover->assembly_source = source;
    failover->assembly_number = failover->tail.next;
    failover->assembled = 0;
}

/* Takes a part of a message that this member asked for: the one that comes next. */
static void failover_input_tail(struct llm_failover *failover, const struct lli_wire_join *join,
                                const struct lli_rx_packet *packet, lli_ns now)
{
    const struct lli_election_peer *source = lli_election_source(&failover->election);
    const uint32_t chunk = (uint32_t)join->wanted;
    const uint64_t name_size = join->wanted >> 32;
    struct llm_message message = {.data = failover->assembly, .size = join->topics, .number = join->number};
    char name[LLI_WIRE_NAME_MAX + 1] = "";
    const uint8_t *payload;

    if (source == NULL || source->identity != join->receiver || join->number != failover->tail.next)
        return;
    failover_assemble(failover, source->identity);
    if (join->value != failover->assembled || name_size == 0 || name_size > LLI_WIRE_NAME_MAX ||
        chunk > LLI_FAILOVER_FETCHED || join->topics > failover->options.tail_bytes ||
        join->topics < failover->assembled || chunk > join->topics - failover->assembled ||
        chunk + name_size > packet->body_size)
        return;
    payload = packet->body + packet->body_size - chunk - name_size;
    if (memchr(payload, 0, name_size) != NULL)
        return;
    memcpy(name, payload, name_size);
    memcpy(failover->assembly + failover->assembled, payload + name_size, chunk);
    failover->assembled += chunk;
    if (++failover->pieces == LLI_FAILOVER_BATCH)
        failover->fetch_at = 0;
    failover->election.progress_at = now;
    if (failover->assembled < join->topics)
        return;
    failover->assembled = 0;
    failover->counters.failover_fetched++;
    message.topic = name;
    failover->context->in_handler = true;
    lli_failover_take(failover, join->number, lli_failover_name(failover, name), &message);
    failover->context->in_handler = false;
}

lli_ns lli_failover_fetch(struct llm_failover *failover, lli_ns now)
{
    const struct lli_election_peer *source = lli_election_source(&failover->election);
    const struct lli_failover_peer *peer;
    struct lli_endpoint *endpoint = failover->receiver->endpoint;
    uint8_t *buffer;

    if (source == NULL || source->position.next <= failover->tail.next)
        return LLI_NEVER;
    if (now < failover->fetch_at)
        return failover->fetch_at;
    failover->fetch_at = now + FAILOVER_FETCH_NS;
    failover->pieces = 0;
    failover_assemble(failover, source->identity);
    peer = failover_peer(failover, source->identity);
    buffer = lli_endpoint_scratch(endpoint);
    if (peer != NULL && buffer != NULL) {
        const struct lli_wire_join join = {.session = failover->stream,
                                           .receiver = failover->election.config.identity,
                                           .kind = LLI_WIRE_JOIN_TAIL_FETCH,
                                           .number = failover->tail.next,
                                           .value = failover->assembled,
                                           .address = endpoint->address};

        failover_post(failover, buffer, lli_wire_put_join(buffer, &join), &peer->address);
        lli_endpoint_flush(endpoint);
    }
    return failover->fetch_at;
}

bool lli_failover_request(void *arg, const struct lli_rx_packet *packet, lli_ns now)
{
    struct llm_failover *failover = arg;
    struct lli_wire_join join;

    if (packet->header.type != LLI_WIRE_JOIN ||
        !lli_wire_get_join(packet->body, packet->body_size, packet->header.tag, &join) ||
        join.session != failover->stream || join.kind < LLI_WIRE_JOIN_CANVASS ||
        join.kind > LLI_WIRE_JOIN_HAVE)
        return false;
    /* Packets that this endpoint sent to the group come back. */
    if (join.receiver == failover->election.config.identity)
        return true;
    if (join.kind == LLI_WIRE_JOIN_TAIL) {
        failover_input_tail(failover, &join, packet, now);
    } else if (join.address.size == 0) {
        return true;
    } else if (join.kind == LLI_WIRE_JOIN_TAIL_FETCH) {
        failover_input_fetch(failover, &join);
    } else {
        failover_heard(failover, &join);
        failover_input_election(failover, &join, now);
    }
    return true;
}
