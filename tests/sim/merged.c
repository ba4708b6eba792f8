/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several transmitters of one input, merged by receivers (docs/protocol.md section 4.5.1). Processes read the input each
 * with a lag of its own, some lack messages of it, crash, and are started again; receivers come while they send.
 *
 * In every history:
 *
 * - What a receiver is given, and is told to be lost, is one sequence: each number once, in order, without a hole.
 * - A message has the bytes of its number; that bytes differ is reported if, and only if, a process sent others.
 * - After the network has healed each receiver comes to the end of the input.
 *
 * In those whose network is good enough: what a process has that does not crash, and that a receiver follows, is never
 * lost to it, whatever happens to the other processes.
 */
#include <stdio.h>
#include <string.h>

#include "cable.h"

enum {
    MERGED_PROCESSES_MAX = 12, /* in turn */
    MERGED_AT_ONCE = 3,
    MERGED_EARS_MAX = 3,
    MERGED_TOPICS_MAX = 3,
    MERGED_MESSAGE_MAX = 1800,
    MERGED_NUMBER_NONE = UINT32_MAX
};

/* A receiver merges 16 sessions, which is more than there are processes. */
#define MERGED_CHANNEL                                                                                  \
    CABLE_SCHEME "://merged:1?history_bytes=%s&history_packets=%u&window_packets=1024&reorder_bytes=2M" \
                 "&receivers_max=8&topics_max=8&sessions_max=16&linger_ns=0&slow=off&silence_ns=%llu"   \
                 "&nak_giveup_ns=%llu&session_timeout_ns=%llu"

/* Reads the input, and sends it. */
struct merged_process {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topics[MERGED_TOPICS_MAX];
    uint32_t node;
    uint32_t reader; /* which of those that run at once it is: it decides what it lacks */
    uint64_t session;
    uint64_t base;
    uint64_t next; /* of the input */
    lli_ns lag;
    lli_ns away_until;
    lli_ns ends_at; /* it crashes, or closes; LLI_NEVER: it runs to the end */
    bool closes;
    bool over;
};

struct merged_ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    uint32_t node;
    lli_ns away_until;
    bool known;    /* `next` is valid */
    bool gapped;   /* something was lost */
    uint64_t next; /* number expected */
    uint64_t
        from[MERGED_PROCESSES_MAX]; /* first number that it gets of this process; UINT64_MAX: not followed */
    uint32_t diverged;
};

static struct {
    struct merged_process processes[MERGED_PROCESSES_MAX];
    uint32_t processes_count;
    struct merged_ear ears[MERGED_EARS_MAX];
    uint32_t ears_count;
    uint32_t readers;
    uint32_t topics;
    uint64_t count; /* messages of the input */
    lli_ns begins;
    lli_ns distance; /* of two messages of the input */
    bool numbered;   /* the input lacks numbers, and processes lack messages of it */
    uint32_t holes_percent, lacks_percent;
    bool good; /* the first process stays, and the network and times are such that nothing of it is lost */
    bool ends; /* a process reads the input to its end */
    /* The first process sends other bytes with this number; MERGED_NUMBER_NONE: with none. */
    uint64_t diverges;
    char channel[512];
} merged;

static struct {
    uint64_t delivered, lost, skipped, processes, diverged, good;
} seen;

/* ---------------------------------------------------------------------------------------------- the input */

/* Draws by seed and number, so that all processes find the same. */
static uint64_t merged_draw(uint64_t salt, uint64_t number)
{
    uint64_t random = cable.seed * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u + number;

    (void)lli_random(&random);
    return lli_random(&random);
}

static bool merged_exists(uint64_t number)
{
    return !merged.numbered || number + 1 >= merged.count || number == merged.diverges ||
           merged_draw(1, number) % 100 >= merged.holes_percent;
}

static bool merged_has(const struct merged_process *process, uint64_t number)
{
    return merged_exists(number) &&
           (!merged.numbered || number + 1 >= merged.count || number == merged.diverges ||
            merged_draw(2 + process->reader, number) % 100 >= merged.lacks_percent);
}

static size_t merged_size(uint64_t number)
{
    const uint64_t random = merged_draw(100, number);

    return 8 + (random % 20 == 0 ? random / 20 % (MERGED_MESSAGE_MAX - 8) : random / 20 % 100);
}

static void merged_fill(uint8_t *data, uint64_t number, bool differs)
{
    const size_t size = merged_size(number);

    memcpy(data, &number, sizeof number);
    for (size_t i = sizeof number; i < size; i++)
        data[i] = (uint8_t)(number * 7 + i);
    if (differs)
        data[size - 1] ^= 1;
}

/* Returns the number of messages in the input by now. */
static uint64_t merged_end(lli_ns now)
{
    return now < merged.begins ? 0 : lli_min(merged.count, (now - merged.begins) / merged.distance + 1);
}

/* ------------------------------------------------------------------------------------------ the processes */

static void process_open(uint32_t reader)
{
    struct merged_process *process = &merged.processes[merged.processes_count++];
    struct llm_context_options options;
    char channel[sizeof merged.channel + 64], name[] = "t0";

    *process = (struct merged_process){.reader = reader, .ends_at = LLI_NEVER};
    process->lag = cable_below(20) * CABLE_MS;
    /* There is something to send for each. */
    process->base = process->next = lli_min(merged_end(cable.now), merged.count - 1);
    process->node = cable_node_add();
    llm_context_options_init(&options);
    process->context = cable_context(process->node, &options);
    (void)snprintf(channel, sizeof channel, "%s&stream=input&stream_merge=1&stream_base=%llu", merged.channel,
                   (unsigned long long)process->base);
    cable_must(llm_transmitter_open(process->context, channel, NULL, NULL, &process->transmitter),
               "a transmitter");
    for (uint32_t i = 0; i < merged.topics; i++, name[1]++)
        cable_must(llm_topic_open(process->transmitter, name, 0, &process->topics[i]), "a topic");
    process->session = llm_transmitter_session(process->transmitter);
    seen.processes++;
    cable_trace("process %u, node %u: reads from %llu on", (unsigned)(process - merged.processes),
                process->node, (unsigned long long)process->base);
}

/* Sends the next message of the input, or skips it. False: not now. */
static bool process_send(struct merged_process *process)
{
    uint8_t data[MERGED_MESSAGE_MAX];
    const uint64_t number = process->next;
    struct llm_topic *topic = process->topics[number % merged.topics];
    int error = LLM_OK;

    if (merged_has(process, number)) {
        const unsigned flags = merged_draw(101 + process->reader, number) % 4 == 0 ? LLM_SEND_NOW : 0;

        merged_fill(data, number, number == merged.diverges && process == merged.processes);
        error = merged.numbered ? llm_send_numbered(topic, number, data, merged_size(number), flags)
                                : llm_send(topic, data, merged_size(number), flags);
    }
    if (error == LLM_EAGAIN)
        return false;
    cable_must(error, "send");
    process->next++;
    return true;
}

static void process_end(struct merged_process *process)
{
    process->over = true;
    if (process->closes)
        cable_must(llm_transmitter_close(&process->transmitter), "a transmitter's close");
    else
        cable.nodes[process->node].dead = true;
    cable_trace("process %u %s", (unsigned)(process - merged.processes),
                process->closes ? "closes" : "crashes");
}

static void process_turn(struct merged_process *process)
{
    const lli_ns now = cable.now > process->lag ? cable.now - process->lag : 0;
    lli_ns nap = CABLE_S;

    if (cable.now < process->away_until) {
        cable.nodes[process->node].asleep = false;
        cable.nodes[process->node].turn_at = process->away_until;
        return;
    }
    if (!process->over && cable.now >= process->ends_at) {
        process_end(process);
        if (!process->closes)
            return;
    }
    while (!process->over && process->next < merged_end(now) && process_send(process))
        continue;
    cable_must(llm_poll(process->context), "poll");
    if (!process->over && process->next < merged.count)
        nap = lli_max(merged.begins + process->next * merged.distance + process->lag, cable.now + CABLE_US) -
              cable.now;
    if (!process->over && process->ends_at != LLI_NEVER && process->ends_at > cable.now)
        nap = lli_min(nap, process->ends_at - cable.now);
    cable_sleep(process->node, process->context, nap);
}

/* ------------------------------------------------------------------------------------------ the receivers */

static uint32_t ear_index(const struct merged_ear *ear)
{
    return (uint32_t)(ear - merged.ears);
}

static struct merged_process *process_of(uint64_t session)
{
    for (uint32_t i = 0; i < merged.processes_count; i++)
        if (merged.processes[i].session == session)
            return &merged.processes[i];
    cable_fail("something of a session that never was");
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct merged_ear *ear = arg;
    const uint64_t number = message->number;
    uint8_t data[MERGED_MESSAGE_MAX];
    char name[] = "t0";
    /* A packet that was lost may have announced it, and nobody tells the name any more. */
    const bool unnamed =
        message->topic[0] == '\0' && (ear->gapped || process_of(message->session)->ends_at != LLI_NEVER);

    if (number >= merged.count || (ear->known && number != ear->next))
        cable_fail("receiver %u gets message %llu, %llu is next", ear_index(ear), (unsigned long long)number,
                   (unsigned long long)ear->next);
    if (!merged_has(process_of(message->session), number))
        cable_fail("receiver %u gets message %llu of a process that lacks it", ear_index(ear),
                   (unsigned long long)number);
    merged_fill(data, number, number == merged.diverges && process_of(message->session) == merged.processes);
    name[1] = (char)('0' + number % merged.topics);
    if (message->size != merged_size(number) || memcmp(message->data, data, message->size) != 0 ||
        (!unnamed && strcmp(message->topic, name) != 0))
        cable_fail(
            "receiver %u: message %llu is another one: %u bytes on topic %s, %zu on topic %s were sent",
            ear_index(ear), (unsigned long long)number, message->size, message->topic, merged_size(number),
            name);
    ear->known = true;
    ear->next = number + 1;
    seen.delivered++;
}

/* True if a process that the receiver follows, and that stays, has the message. */
static bool ear_is_owed(const struct merged_ear *ear, uint64_t number)
{
    for (uint32_t i = 0; i < merged.processes_count; i++) {
        const struct merged_process *process = &merged.processes[i];

        if (process->ends_at == LLI_NEVER && number >= ear->from[i] && merged_has(process, number))
            return true;
    }
    return false;
}

static void ear_loses(struct merged_ear *ear, const struct llm_event *event)
{
    cable_trace("receiver %u: %llu to %llu are lost, %s", ear_index(ear), (unsigned long long)event->first,
                (unsigned long long)event->last, llm_reason_name(event->reason));
    if (event->last + 1 == event->first)
        return;
    if (event->last < event->first || event->last >= merged.count ||
        (ear->known && event->first != ear->next))
        cable_fail("receiver %u is told that %llu to %llu are lost, %llu is next", ear_index(ear),
                   (unsigned long long)event->first, (unsigned long long)event->last,
                   (unsigned long long)ear->next);
    for (uint64_t number = event->first; number <= event->last; number++) {
        if (merged.good && ear_is_owed(ear, number))
            cable_fail("receiver %u loses message %llu (%s), which a process has", ear_index(ear),
                       (unsigned long long)number, llm_reason_name(event->reason));
        *(merged_exists(number) ? &seen.lost : &seen.skipped) += 1;
        ear->gapped |= merged_exists(number);
    }
    ear->known = true;
    ear->next = event->last + 1;
}

static void on_event(void *arg, const struct llm_event *event)
{
    struct merged_ear *ear = arg;
    const uint32_t process = (uint32_t)(process_of(event->session) - merged.processes);

    switch (event->kind) {
    case LLM_EVENT_SESSION_NEW:
        ear->from[process] = merged.processes[process].base + event->first;
        cable_trace("receiver %u follows process %u from %llu on", ear_index(ear), process,
                    (unsigned long long)ear->from[process]);
        break;
    case LLM_EVENT_SESSION_END:
        cable_trace("receiver %u: process %u ends, %s", ear_index(ear), process,
                    llm_reason_name(event->reason));
        if (merged.good && merged.processes[process].ends_at == LLI_NEVER)
            cable_fail("receiver %u: the session of process %u, which stays, ends", ear_index(ear), process);
        ear->from[process] = UINT64_MAX;
        break;
    case LLM_EVENT_GAP:
    case LLM_EVENT_STREAM_GAP:
        ear_loses(ear, event);
        break;
    case LLM_EVENT_STREAM_AGAIN:
    case LLM_EVENT_STREAM_REFUSED:
        cable_fail("receiver %u does not merge process %u", ear_index(ear), process);
    case LLM_EVENT_DIVERGED:
        if (event->first != merged.diverges || event->hash == event->hash_copy)
            cable_fail("receiver %u: copies of message %llu are said to differ", ear_index(ear),
                       (unsigned long long)event->first);
        ear->diverged++;
        seen.diverged++;
        break;
    default:
        break;
    }
}

static void ear_open(void)
{
    struct merged_ear *ear = &merged.ears[merged.ears_count++];
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    *ear = (struct merged_ear){.known = false};
    for (uint32_t i = 0; i < MERGED_PROCESSES_MAX; i++)
        ear->from[i] = UINT64_MAX;
    ear->node = cable_node_add();
    llm_context_options_init(&options);
    ear->context = cable_context(ear->node, &options);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_message;
    handlers.event = on_event;
    cable_must(llm_receiver_open(ear->context, merged.channel, NULL, &handlers, &ear->receiver),
               "a receiver");
}

static void ear_turn(struct merged_ear *ear)
{
    if (cable.now < ear->away_until) {
        cable.nodes[ear->node].asleep = false;
        cable.nodes[ear->node].turn_at = ear->away_until;
        return;
    }
    while (llm_poll(ear->context) > 0)
        continue;
    cable_sleep(ear->node, ear->context, CABLE_S);
}

/* ---------------------------------------------------------------------------------------------- histories */

static void merged_turn(uint32_t node)
{
    for (uint32_t i = 0; i < merged.processes_count; i++)
        if (merged.processes[i].node == node)
            process_turn(&merged.processes[i]);
    for (uint32_t i = 0; i < merged.ears_count; i++)
        if (merged.ears[i].node == node)
            ear_turn(&merged.ears[i]);
}

static void network_draw(uint32_t node)
{
    struct cable_node *of = &cable.nodes[node];

    of->loss = cable_chance(40) ? 0 : (uint32_t)cable_below(merged.good ? 100000 : 300000);
    of->duplicate = cable_chance(70) ? 0 : (uint32_t)cable_below(50000);
    of->reorder = cable_chance(60) ? 0 : (uint32_t)cable_below(100000);
    of->delay = cable_between(5, 200) * CABLE_US;
    of->delay_more = cable_below(100) * CABLE_US;
}

/* Returns the process that reads the input as this reader; NULL: none. */
static struct merged_process *reader_now(uint32_t reader)
{
    for (uint32_t i = merged.processes_count; i-- > 0;)
        if (merged.processes[i].reader == reader)
            return merged.processes[i].ends_at != LLI_NEVER ? NULL : &merged.processes[i];
    return NULL;
}

static bool has_room(void)
{
    return merged.processes_count < MERGED_PROCESSES_MAX &&
           cable.nodes_count + MERGED_EARS_MAX - merged.ears_count < CABLE_NODES_MAX;
}

/* Something happens to a process, a receiver, or the network. */
static void merged_happens(void)
{
    const uint32_t reader = (uint32_t)cable_below(merged.readers);
    struct merged_process *process = reader_now(reader);
    struct merged_ear *ear = &merged.ears[cable_below(merged.ears_count)];

    switch (cable_below(6)) {
    case 0:
    case 1:
        if (process == NULL && has_room()) {
            process_open(reader);
            network_draw(cable.nodes_count - 1);
        } else if (process != NULL && process != (merged.good ? merged.processes : NULL)) {
            process->ends_at = cable.now;
            process->closes = cable_chance(30);
            cable.nodes[process->node].turn_at = cable.now;
        }
        break;
    case 2:
        if (merged.ears_count < MERGED_EARS_MAX && cable.nodes_count < CABLE_NODES_MAX) {
            ear_open();
            network_draw(cable.nodes_count - 1);
        }
        break;
    case 3:
        if (process != NULL)
            process->away_until = cable.now + cable_below(merged.good ? 40 : 3000) * CABLE_MS;
        break;
    case 4:
        ear->away_until = cable.now + cable_below(merged.good ? 40 : 3000) * CABLE_MS;
        break;
    default:
        cable.nodes[cable_chance(50) || process == NULL ? ear->node : process->node].cut_until =
            cable.now + cable_below(merged.good ? 50 : 2000) * CABLE_MS;
        break;
    }
}

static void merged_draw_history(void)
{
    merged.good = cable_chance(60);
    merged.readers = (uint32_t)cable_between(2, MERGED_AT_ONCE);
    merged.topics = (uint32_t)cable_between(1, MERGED_TOPICS_MAX);
    merged.count = cable_between(200, 1500);
    merged.distance = cable_between(20, 2000) * CABLE_US;
    merged.begins = cable.now + cable_below(50) * CABLE_MS;
    merged.numbered = cable_chance(50);
    merged.holes_percent = cable_chance(50) ? 0 : (uint32_t)cable_below(20);
    merged.lacks_percent = cable_chance(30) ? 0 : (uint32_t)cable_below(30);
    merged.diverges = cable_chance(80) ? MERGED_NUMBER_NONE : cable_below(merged.count);
    (void)snprintf(merged.channel, sizeof merged.channel, MERGED_CHANNEL, merged.good ? "4M" : "64K",
                   merged.good ? 4096 : 256,
                   (unsigned long long)(merged.good ? 500 * CABLE_MS : 100 * CABLE_MS),
                   (unsigned long long)(merged.good ? 5 * CABLE_S : 300 * CABLE_MS),
                   (unsigned long long)(merged.good ? 10 * CABLE_S : CABLE_S));
}

/* The network heals, nobody is away, and one process at least reads the input to its end. */
static void merged_heal(void)
{
    bool runs = false;

    for (uint32_t i = 0; i < merged.readers; i++)
        runs |= reader_now(i) != NULL;
    if (!runs && has_room()) {
        process_open(0);
        runs = true;
    }
    merged.ends = runs;
    for (uint32_t i = 0; i < cable.nodes_count; i++) {
        cable.nodes[i].loss = cable.nodes[i].reorder = 0;
        cable.nodes[i].cut_until = 0;
        cable.nodes[i].turn_at = lli_min(cable.nodes[i].turn_at, cable.now);
    }
    for (uint32_t i = 0; i < merged.processes_count; i++)
        merged.processes[i].away_until = 0;
    for (uint32_t i = 0; i < merged.ears_count; i++)
        merged.ears[i].away_until = 0;
}

/* True if nothing can keep a receiver from comparing both copies of the message whose bytes differ. */
static bool ear_compares(const struct merged_ear *ear, bool perfect)
{
    return perfect && merged.diverges != MERGED_NUMBER_NONE && ear->from[0] <= merged.diverges &&
           ear->from[1] <= merged.diverges;
}

/* True if the receiver came before the last message was sent: the first session that it follows decides. */
static bool ear_is_due(const struct merged_ear *ear)
{
    bool early = false, late = false;

    for (uint32_t i = 0; i < merged.processes_count; i++) {
        early |= ear->from[i] < merged.count;
        late |= ear->from[i] == merged.count;
    }
    return ear->known || (early && !late);
}

static void merged_check_end(bool perfect)
{
    for (uint32_t i = 0; i < merged.ears_count && merged.ends; i++) {
        const struct merged_ear *ear = &merged.ears[i];

        if (ear_is_due(ear) && ear->next != merged.count)
            cable_fail("receiver %u comes to %llu of %llu messages", i, (unsigned long long)ear->next,
                       (unsigned long long)merged.count);
        if (ear->diverged >= merged.readers || (ear_compares(ear, perfect) && ear->diverged == 0))
            cable_fail("receiver %u is told %u times that copies differ", i, ear->diverged);
    }
}

void merged_run(uint64_t seed)
{
    static const struct cable_test test = {.turn = merged_turn};
    bool perfect;
    lli_ns until;

    cable_begin(seed, &test);
    memset(&merged, 0, sizeof merged);
    merged_draw_history();
    perfect = cable_chance(20);
    if (cable_chance(70))
        ear_open();
    for (uint32_t i = 0; i < merged.readers; i++)
        process_open(i);
    while (merged.ears_count == 0 || (merged.ears_count < MERGED_EARS_MAX && cable_chance(50)))
        ear_open();
    for (uint32_t i = 0; i < cable.nodes_count && !perfect; i++)
        network_draw(i);
    until = merged.begins + merged.count * merged.distance * 3 / 4;
    while (cable.now < until) {
        cable_run(cable.now + cable_between(1, 100) * CABLE_MS);
        if (!perfect)
            merged_happens();
    }
    merged_heal();
    cable_run(lli_max(cable.now, merged.begins + merged.count * merged.distance) + 15 * CABLE_S);
    merged_check_end(perfect);
    seen.good += merged.good;
    cable_end();
    for (uint32_t i = 0; i < merged.processes_count; i++) {
        cable_as(merged.processes[i].node);
        (void)llm_context_close(&merged.processes[i].context);
    }
    for (uint32_t i = 0; i < merged.ears_count; i++) {
        cable_as(merged.ears[i].node);
        (void)llm_context_close(&merged.ears[i].context);
    }
    cable_fini();
}

void merged_print(void)
{
    (void)printf("%llu messages, %llu that nobody had, %llu lost, %llu processes, %llu times other bytes, "
                 "%llu networks were good\n",
                 (unsigned long long)seen.delivered, (unsigned long long)seen.skipped,
                 (unsigned long long)seen.lost, (unsigned long long)seen.processes,
                 (unsigned long long)seen.diverged, (unsigned long long)seen.good);
}
