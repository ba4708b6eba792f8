/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same packets over sockets, with the same bounds: a transmitter and two receivers of the public API on
 * the loopback device, the adversary at 127.0.0.1, and an uninvolved third party at 127.0.0.2. Each kind has a
 * session of its own:
 *
 *   adversary_udp [--table] [KIND ...]   kinds against their bounds (default: all); --table: all costs
 *
 * Exits with 1 if a cost is beyond its bound, or if nothing arrives for very long. It counts packets, messages
 * and basic blocks, and measures no time: reports and delays, which depend on it, are left to the simulator.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <llm/llm.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "adversary.h"
#include "engine/objects.h"
#include "system/clock.h"
#include "system/ticks.h"

enum {
    GROUP_PORT = 17093,
    RECEIVERS = 2,
    MESSAGE_SIZE = 48,
    MESSAGES_MAX = 1 << 16,
    DISTANCE_US = 500,           /* between two messages, at least, as in the simulator */
    BEFORE = 400,                /* messages before the first forged packet ... */
    BEHIND = 100,                /* ... and behind the last one */
    MEASURED = 400,              /* messages that the work without forged packets is measured with */
    HEARTBEAT_OPERATIONS = 5000, /* for a genuine heartbeat at all three, and for what else is due by time */
    ROUNDS = 3,   /* polls of everybody behind each message: a NAK, its answer, and what this causes */
    BUSY = 10,    /* factor of the bounds of requests, repairs and their work: bounds_here() */
    FOLLOWED = 3, /* factor of the bounds of packets to forged sessions */
    SETTLE_ROUNDS = 20,
    SETTLE_US = 1000,
    FAILURES_MAX = 3,
    SKIP = 77
};

#define GROUP "239.193.7.93"
/* The longest slow_silence_ns: on a busy machine a receiver may report late. */
#define CHANNEL                                                             \
    "udp://" GROUP ":17093?interface=lo&mtu=1500&linger_ns=0&topics_max=64" \
    "&history_bytes=8M&history_packets=16384&slow_silence_ns=1000000000"
#define MAGIC UINT64_C(0x67656e75696e6521)
/* Longer than any genuine delivery takes. */
#define PATIENCE_NS ((lli_ns)60000000000)

struct ear {
    struct llm_context *context;
    struct llm_receiver *receiver;
    bool got[MESSAGES_MAX];
    uint64_t next; /* above the highest message received */
};

static struct {
    struct llm_context *context;
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct ear ears[RECEIVERS];
    uint64_t sent;
    lli_ns sent_at;             /* the latest of them */
    uint64_t to_group;          /* forged packets to the group, in this session */
    uint64_t operations;        /* basic blocks of the library executed so far */
    struct adversary_cost cost; /* since the first forged packet */
    struct adversary adversary;
    int own;
    int third;
    int group;
    struct lli_wire_address addresses[2]; /* of the first two */
} rig;

/* Called for each basic block of the library, by a compiler option. */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void)
{
    rig.operations++;
}

/* The clock of the library, which is compiled for the simulator too. */
uint64_t cable_ticks(void);
uint64_t cable_ticks(void)
{
    return lli_ticks();
}

static int fail(const char *what)
{
    (void)printf("FAILED: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ----------------------------------------------------------------------------------------------- sockets */

static void put_address(struct lli_wire_address *address, int fd)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;

    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
        (void)fail("getsockname");
    address->size = 7;
    address->bytes[0] = 4;
    memcpy(address->bytes + 1, &name.sin_addr, 4);
    memcpy(address->bytes + 5, &name.sin_port, 2);
}

static int open_socket(const char *host, uint16_t port)
{
    const struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {inet_addr(host)}};
    const struct in_addr loopback = {inet_addr("127.0.0.1")};
    const int one = 1, bytes = 1 << 22, fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback) != 0 ||
        bind(fd, (const struct sockaddr *)&name, sizeof name) != 0)
        (void)fail("a socket");
    return fd;
}

static void open_sockets(void)
{
    const struct ip_mreq member = {{inet_addr(GROUP)}, {inet_addr("127.0.0.1")}};

    rig.own = open_socket("127.0.0.1", 0);
    rig.third = open_socket("127.0.0.2", 0);
    rig.group = open_socket(GROUP, GROUP_PORT);
    if (setsockopt(rig.group, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) != 0)
        (void)fail("the group");
    put_address(&rig.addresses[0], rig.own);
    put_address(&rig.addresses[1], rig.third);
}

/* True for the address that one of the adversary's packets comes from. */
static bool is_forged(const struct sockaddr_in *from)
{
    for (int i = 0; i < 2; i++)
        if (memcmp(&from->sin_addr, rig.addresses[i].bytes + 1, 4) == 0 &&
            memcmp(&from->sin_port, rig.addresses[i].bytes + 5, 2) == 0)
            return true;
    return false;
}

static void count_answers(int fd, uint64_t *packets, uint64_t *packet_bytes)
{
    uint8_t bytes[65536];
    ssize_t size;

    for (; (size = recv(fd, bytes, sizeof bytes, 0)) >= 0; ++*packets)
        *packet_bytes += (uint64_t)size;
}

/* Learns from genuine packets to the group, as in the simulator, and counts the answers to forged ones. */
static void hear(void)
{
    uint8_t bytes[65536];
    struct sockaddr_in from;
    socklen_t from_size = sizeof from;
    ssize_t size;

    while ((size = recvfrom(rig.group, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &from_size)) > 0)
        if (!is_forged(&from))
            adversary_hear(&rig.adversary, bytes, (size_t)size);
    count_answers(rig.own, &rig.cost.own, &rig.cost.own_bytes);
    count_answers(rig.third, &rig.cost.third, &rig.cost.third_bytes);
}

static void send_to(int fd, const struct adversary_packet *packet, const struct lli_wire_address *address)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(GROUP_PORT), .sin_addr = {inet_addr(GROUP)}};

    if (address != NULL) {
        memcpy(&to.sin_addr, address->bytes + 1, 4);
        memcpy(&to.sin_port, address->bytes + 5, 2);
    }
    (void)sendto(fd, packet->bytes, packet->size, 0, (const struct sockaddr *)&to, sizeof to);
}

/* ------------------------------------------------------------------------------------------- the library */

static void on_message(void *arg, const struct llm_message *message)
{
    struct ear *ear = arg;
    uint64_t words[2];

    if (message->size != MESSAGE_SIZE ||
        (memcpy(words, message->data, sizeof words), words[0] != MAGIC || words[1] >= MESSAGES_MAX)) {
        rig.cost.forged++;
        return;
    }
    rig.cost.forged += ear->got[words[1]];
    ear->got[words[1]] = true;
    ear->next = lli_max(ear->next, words[1] + 1);
}

/* Counts events, except those of silence, which a busy machine causes too. */
static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    if (event->kind == LLM_EVENT_HEARTBEAT_LOST || event->kind == LLM_EVENT_RESUMED)
        return;
    rig.cost.events++;
    if (event->kind == LLM_EVENT_SESSION_END || event->kind == LLM_EVENT_SUSPENDED ||
        event->kind == LLM_EVENT_EXPELLED)
        rig.cost.ended++;
    if (event->kind == LLM_EVENT_GAP)
        rig.cost.named += event->last + 1 - event->first;
}

static void on_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static struct llm_context *open_context(void)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = on_log;
    if (llm_context_open(&options, &context) != LLM_OK)
        (void)fail("a context");
    return context;
}

static void open_ear(struct ear *ear)
{
    struct llm_receiver_handlers handlers;

    memset(ear, 0, sizeof *ear);
    ear->context = open_context();
    llm_receiver_handlers_init(&handlers);
    handlers.arg = ear;
    handlers.message = on_message;
    handlers.event = on_event;
    if (llm_receiver_open(ear->context, CHANNEL, NULL, &handlers, &ear->receiver) != LLM_OK)
        (void)fail("a receiver");
}

static void open_library(void)
{
    const struct llm_transmitter_handlers handlers = {.size = sizeof handlers, .event = on_event};

    rig.sent = rig.to_group = 0;
    rig.context = open_context();
    if (llm_transmitter_open(rig.context, CHANNEL, NULL, &handlers, &rig.transmitter) != LLM_OK) {
        (void)printf("no multicast on the loopback device\n");
        exit(SKIP);
    }
    if (llm_topic_open(rig.transmitter, "t", 0, &rig.topic) != LLM_OK)
        (void)fail("a topic");
    for (int i = 0; i < RECEIVERS; i++)
        open_ear(&rig.ears[i]);
}

static void close_library(void)
{
    for (int i = 0; i < RECEIVERS; i++)
        (void)llm_context_close(&rig.ears[i].context);
    (void)llm_context_close(&rig.context);
}

/* The transmitter is polled first: after a pause of the machine it is heard before it is missed. */
static void poll_all(void)
{
    (void)llm_poll(rig.context);
    for (int i = 0; i < RECEIVERS; i++)
        (void)llm_poll(rig.ears[i].context);
    hear();
}

static void nap(lli_ns ns)
{
    const struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};

    (void)nanosleep(&time, NULL);
}

static void send_one(void)
{
    uint64_t words[MESSAGE_SIZE / 8] = {MAGIC, rig.sent};

    if (rig.sent < MESSAGES_MAX && llm_send(rig.topic, words, sizeof words, LLM_SEND_NOW) == LLM_OK)
        rig.sent++;
    for (int i = 0; i < ROUNDS; i++)
        poll_all();
}

/* Sends messages at the rate of the simulator, or slower if the machine is busy. */
static void send_paced(uint64_t messages)
{
    for (uint64_t i = 0; i < messages; i++) {
        const lli_ns now = lli_clock_ns(), at = rig.sent_at + (lli_ns)DISTANCE_US * 1000;

        if (now < at)
            nap(at - now);
        rig.sent_at = lli_clock_ns();
        send_one();
    }
}

/* Sends further messages until all receivers have got one of them; false: they do not for very long. */
static bool wait_for_delivery(void)
{
    const lli_ns until = lli_clock_ns() + PATIENCE_NS;
    const uint64_t first = rig.sent;
    bool all = false;

    while (!all && lli_clock_ns() < until) {
        send_paced(1);
        all = true;
        for (int i = 0; i < RECEIVERS; i++)
            all = all && rig.ears[i].next > first;
    }
    return all;
}

static uint64_t counter(const struct llm_context *context, const char *name)
{
    uint64_t value;

    if (llm_context_counter(context, name, &value) != LLM_OK)
        (void)fail(name);
    return value;
}

/* NAKs, requests and queries, also those to the sessions of the adversary, of which some are withheld. */
static uint64_t count_asked(void)
{
    static const char *const names[] = {"naks_sent", "queries_sent", "joins_sent", "fetches_sent"};
    uint64_t asked = 0;

    for (int i = 0; i < RECEIVERS; i++) {
        uint64_t made = 0;

        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
            made += counter(rig.ears[i].context, names[j]);
        asked += made - lli_min(made, counter(rig.ears[i].context, "packets_withheld"));
    }
    return asked;
}

static uint64_t count_lost(void)
{
    uint64_t lost = 0;

    for (int i = 0; i < RECEIVERS; i++)
        for (uint64_t number = 0; number < rig.ears[i].next; number++)
            lost += !rig.ears[i].got[number];
    return lost;
}

/* ----------------------------------------------------------------------------------------- the adversary */

/* Reads identities and addresses, which are only in unicast packets, from the receivers themselves. */
static void know_receivers(void)
{
    rig.adversary.members_count = RECEIVERS;
    for (int i = 0; i < RECEIVERS; i++) {
        struct adversary_member *member = &rig.adversary.members[i];
        const struct llm_receiver *receiver = rig.ears[i].receiver;

        *member = (struct adversary_member){.id = receiver->config.receiver,
                                            .address = receiver->endpoint->address};
        member->status = (struct lli_wire_status){.session = rig.adversary.heartbeat.session,
                                                  .receiver = member->id,
                                                  .window_free = 1024,
                                                  .address = member->address};
    }
}

/* Opens a session, and lets the adversary learn it. */
static void rig_open(void)
{
    const lli_ns until = lli_clock_ns() + PATIENCE_NS;

    hear();
    rig.adversary = (struct adversary){.random = rig.adversary.random, .made = rig.adversary.made};
    open_library();
    if (!wait_for_delivery())
        (void)fail("without forged packets nothing arrives");
    while (rig.sent < BEFORE)
        send_one();
    while (counter(rig.context, "receivers_joined") < RECEIVERS && lli_clock_ns() < until)
        send_paced(1);
    know_receivers();
    if (!wait_for_delivery() || !adversary_knows(&rig.adversary))
        (void)fail("nothing was heard");
    if (count_lost() > 0)
        (void)fail("messages are lost without forged packets");
}

/* Returns the work for a message and all that goes with it at this rate, without forged packets. */
static uint64_t measure_message(void)
{
    uint64_t operations;

    rig_open();
    operations = rig.operations;
    send_paced(MEASURED);
    operations = rig.operations - operations;
    close_library();
    return operations / MEASURED;
}

static void forge(const struct adversary_kind *kind)
{
    struct adversary *adversary = &rig.adversary;
    struct adversary_packet packet = {.size = 0};
    const struct lli_wire_address *to = NULL;

    adversary->now = lli_clock_ns();
    adversary->announced = rig.addresses[kind->announces != ADVERSARY_OWN];
    kind->forge(adversary, &packet);
    adversary->made++;
    rig.to_group += packet.to == ADVERSARY_TO_GROUP;
    if (packet.to == ADVERSARY_TO_TRANSMITTER)
        to = &adversary->heartbeat.address;
    else if (packet.to == ADVERSARY_TO_RECEIVER)
        to = &adversary->members[packet.member % RECEIVERS].address;
    send_to(kind->announces == ADVERSARY_SPOOFED ? rig.third : rig.own, &packet, to);
}

/* Sends the packets of a kind among messages, and messages behind them. */
static void forge_all(const struct adversary_kind *kind)
{
    uint32_t us = 0;

    for (uint32_t i = 0; i < kind->count; i++) {
        forge(kind);
        us += kind->gap_us;
        send_paced(us / DISTANCE_US);
        us %= DISTANCE_US;
    }
    send_paced(BEHIND);
}

/*
 * Does the same and counts the work. Polls and messages are as many on every machine. Heartbeats, and what
 * goes with time, are more on a busy one, so each is allowed for.
 */
static uint64_t forge_counted(const struct adversary_kind *kind, uint64_t message_operations)
{
    const uint64_t sent = rig.sent, before = rig.operations;
    const uint64_t heartbeats = counter(rig.context, "heartbeats_sent");
    uint64_t quiet, operations;

    forge_all(kind);
    operations = rig.operations - before;
    quiet = (rig.sent - sent) * message_operations +
            (counter(rig.context, "heartbeats_sent") - heartbeats) * HEARTBEAT_OPERATIONS;
    return operations > quiet ? operations - quiet : 0;
}

/*
 * Returns the bounds of a kind over sockets. Requests are repeated, and packets are missed, until a genuine
 * packet corrects the forged one; forged sessions make place for the next ones, and get packets, as long as
 * they last. All of that goes with time, which is longer on a busy machine, where both sides wait for the same
 * processor. The other bounds are those of the table. One is stricter: the source address of packets to the
 * transmitter is checked (docs/adr/0044), so none of them causes a packet to a third party.
 */
static struct adversary_kind bounds_here(const struct adversary_kind *kind)
{
    const struct adversary_cost slack = adversary_slack(kind);
    struct adversary_kind result = *kind;
    struct adversary_cost *most = &result.most;

    most->asked = BUSY * most->asked + (BUSY - 1) * slack.asked;
    most->repaired = BUSY * most->repaired + (BUSY - 1) * slack.repaired;
    most->operations *= BUSY;
    if (most->own > kind->count || most->third > kind->count) {
        most->own *= FOLLOWED;
        most->own_bytes *= FOLLOWED;
        most->third *= FOLLOWED;
        most->third_bytes *= FOLLOWED;
    }
    if (kind->announces == ADVERSARY_THIRD && rig.to_group == 0)
        most->third = most->third_bytes = 0;
    return result;
}

/* Opens a session, and compares the cost of all packets of a kind with its bounds. */
static bool run_kind(const struct adversary_kind *kind, uint64_t message_operations, bool table)
{
    static const char *const announces[] = {"", ", third", ", spoofed"};
    struct adversary_kind bounds;
    uint64_t asked, repaired;
    bool delivered;

    rig_open();
    asked = count_asked();
    repaired = counter(rig.context, "packets_repaired");
    rig.cost = (struct adversary_cost){.operations = 0};
    rig.cost.operations = forge_counted(kind, message_operations);
    for (int i = 0; i < SETTLE_ROUNDS; i++) {
        nap((lli_ns)SETTLE_US * 1000);
        poll_all();
    }
    delivered = wait_for_delivery();
    asked = count_asked() - asked;
    rig.cost.asked = asked - lli_min(asked, rig.cost.own + rig.cost.third);
    rig.cost.repaired = counter(rig.context, "packets_repaired") - repaired;
    rig.cost.lost = count_lost();
    close_library();
    if (table)
        (void)printf("%s x%u%s\n", kind->name, kind->count, announces[kind->announces]);
    if (!delivered)
        (void)printf("BEYOND %s x%u: messages sent later do not arrive\n", kind->name, kind->count);
    bounds = bounds_here(kind);
    return adversary_judge(&bounds, &rig.cost, table) && delivered;
}

static bool is_meant(char **names, int count, const struct adversary_kind *kind)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], kind->name) == 0)
            return true;
    return count == 0;
}

int main(int argc, char **argv)
{
    const bool table = argc > 1 && strcmp(argv[1], "--table") == 0;
    uint64_t message_operations;
    int failed = 0, run = 0;

    rig.adversary.random = 1;
    open_sockets();
    message_operations = measure_message();
    if (table)
        (void)printf("%llu basic blocks for a message\n", (unsigned long long)message_operations);
    for (int i = 0; i < adversary_kinds_count && failed < FAILURES_MAX; i++) {
        const struct adversary_kind *kind = &adversary_kinds[i];

        if (!adversary_is_survived(kind) || kind->profile > ADVERSARY_LOSSY ||
            !is_meant(argv + 1 + table, argc - 1 - table, kind))
            continue;
        failed += !run_kind(kind, message_operations, table);
        run++;
    }
    (void)printf("%d kinds of forged packets over sockets, %d beyond their bounds\n", run, failed);
    return failed > 0 || run == 0;
}
