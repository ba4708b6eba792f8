/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same packets over sockets: a transmitter and two receivers of the public API on the loopback device,
 * the adversary at 127.0.0.1, and an uninvolved third party at 127.0.0.2. After each kind of packets, further
 * messages have to arrive, and the third party may have received no more than the table allows. Measures no
 * time; ends with a failure if nothing arrives for very long.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <llm/llm.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "adversary.h"
#include "system/clock.h"
#include "engine/objects.h"

enum {
    GROUP_PORT = 17093,
    RECEIVERS = 2,
    MESSAGE_SIZE = 48,
    BEHIND = 100,
    PACKETS_MAX = 200,
    FAILURES_MAX = 3,
    SKIP = 77
};

#define GROUP "239.193.7.93"
#define CHANNEL "udp://" GROUP ":17093?interface=lo&mtu=1500&linger_ns=0&topics_max=64"
#define MAGIC UINT64_C(0x67656e75696e6521)
/* Longer than any genuine delivery takes. */
#define PATIENCE_NS ((lli_ns)60000000000)
#define SHORT_NS ((lli_ns)2000000000)

static struct {
    struct llm_context *contexts[1 + RECEIVERS];
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    struct llm_receiver *receivers[RECEIVERS];
    uint64_t got[RECEIVERS]; /* messages received of the current count */
    uint64_t first;          /* which have this number or a higher one */
    uint64_t sent;
    struct adversary adversary;
    int own;
    int third;
    int ears;
    struct lli_wire_address addresses[2]; /* addresses of these two */
    uint64_t packets, bytes;              /* received by the third party */
} rig;

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
    rig.ears = open_socket(GROUP, GROUP_PORT);
    if (setsockopt(rig.ears, IPPROTO_IP, IP_ADD_MEMBERSHIP, &member, sizeof member) != 0)
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

/* Learns from genuine packets to the group, as in the simulator, and counts what the third party gets. */
static void hear(void)
{
    uint8_t bytes[65536];
    struct sockaddr_in from;
    socklen_t from_size = sizeof from;
    ssize_t size;

    while ((size = recvfrom(rig.ears, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &from_size)) > 0)
        if (!is_forged(&from))
            adversary_hear(&rig.adversary, bytes, (size_t)size);
    while (recv(rig.own, bytes, sizeof bytes, 0) > 0)
        continue;
    for (; (size = recv(rig.third, bytes, sizeof bytes, 0)) >= 0; rig.packets++)
        rig.bytes += (uint64_t)size;
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
    uint64_t *got = arg, words[2];

    if (message->size != MESSAGE_SIZE)
        return;
    memcpy(words, message->data, sizeof words);
    *got += words[0] == MAGIC && words[1] >= rig.first;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

static void on_log(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static void open_library(void)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    llm_context_options_init(&options);
    options.stats_directory = "";
    options.log = on_log;
    for (int i = 0; i <= RECEIVERS; i++)
        if (llm_context_open(&options, &rig.contexts[i]) != LLM_OK)
            (void)fail("a context");
    if (llm_transmitter_open(rig.contexts[RECEIVERS], CHANNEL, NULL, NULL, &rig.transmitter) != LLM_OK) {
        (void)printf("no multicast on the loopback device\n");
        exit(SKIP);
    }
    if (llm_topic_open(rig.transmitter, "t", 0, &rig.topic) != LLM_OK)
        (void)fail("a topic");
    for (int i = 0; i < RECEIVERS; i++) {
        llm_receiver_handlers_init(&handlers);
        handlers.arg = &rig.got[i];
        handlers.message = on_message;
        handlers.event = on_event;
        if (llm_receiver_open(rig.contexts[i], CHANNEL, NULL, &handlers, &rig.receivers[i]) != LLM_OK)
            (void)fail("a receiver");
    }
}

static void poll_all(void)
{
    for (int i = 0; i <= RECEIVERS; i++)
        (void)llm_poll(rig.contexts[i]);
    hear();
}

static void send_one(void)
{
    uint64_t words[MESSAGE_SIZE / 8] = {MAGIC, rig.sent};

    if (llm_send(rig.topic, words, sizeof words, LLM_SEND_NOW) == LLM_OK)
        rig.sent++;
    poll_all();
}

/* Sends messages; true if all receivers get them. */
static bool deliver(uint64_t messages, lli_ns patience)
{
    const lli_ns until = lli_clock_ns() + patience;
    bool all = false;

    rig.first = rig.sent;
    memset(rig.got, 0, sizeof rig.got);
    while (rig.sent < rig.first + messages && lli_clock_ns() < until)
        send_one();
    while (!all && lli_clock_ns() < until) {
        poll_all();
        all = true;
        for (int i = 0; i < RECEIVERS; i++)
            all = all && rig.got[i] >= messages;
    }
    return all;
}

/* Reads identities and addresses, which are only in unicast packets, from the receivers themselves. */
static void know_receivers(void)
{
    rig.adversary.members_count = RECEIVERS;
    for (int i = 0; i < RECEIVERS; i++) {
        struct adversary_member *member = &rig.adversary.members[i];

        *member = (struct adversary_member){.id = rig.receivers[i]->config.receiver,
                                            .address = rig.receivers[i]->endpoint->address};
        member->status = (struct lli_wire_status){.session = rig.adversary.heartbeat.session,
                                                  .receiver = member->id,
                                                  .window_free = 1024,
                                                  .address = member->address};
    }
}

/* ----------------------------------------------------------------------------------------- the adversary */

static void forge(const struct adversary_kind *kind)
{
    struct adversary *adversary = &rig.adversary;
    struct adversary_packet packet = {.size = 0};
    const struct lli_wire_address *to = NULL;

    adversary->now = lli_clock_ns();
    adversary->announced = rig.addresses[kind->announces != ADVERSARY_OWN];
    kind->forge(adversary, &packet);
    adversary->made++;
    if (packet.to == ADVERSARY_TO_TRANSMITTER)
        to = &adversary->heartbeat.address;
    else if (packet.to == ADVERSARY_TO_RECEIVER)
        to = &adversary->members[packet.member % RECEIVERS].address;
    send_to(kind->announces == ADVERSARY_SPOOFED ? rig.third : rig.own, &packet, to);
}

static bool run_kind(const struct adversary_kind *kind)
{
    const uint32_t count = kind->count < PACKETS_MAX ? kind->count : PACKETS_MAX;
    const uint64_t packets = rig.packets, bytes = rig.bytes;
    bool delivered, harmless;

    for (uint32_t i = 0; i < count; i++) {
        forge(kind);
        send_one();
    }
    /*
     * A forged packet ahead of the stream, also of an earlier kind, takes the place of a genuine one, and on
     * a busy machine it may not be contradicted for a while: only later messages have to arrive. The
     * simulator checks the exact cost of each kind.
     */
    delivered = deliver(BEHIND, SHORT_NS) || deliver(BEHIND, PATIENCE_NS);
    /* Sessions of earlier kinds may still cause a few requests. */
    harmless = rig.packets - packets <= kind->most.third + 64 &&
               rig.bytes - bytes <= kind->most.third_bytes + 64 * (uint64_t)120;
    if (!delivered || !harmless)
        (void)printf(
            "BEYOND %s x%u: what is sent behind it %s; %llu packets of %llu bytes to a third party\n",
            kind->name, count, delivered ? "arrives" : "does not arrive",
            (unsigned long long)(rig.packets - packets), (unsigned long long)(rig.bytes - bytes));
    return delivered && harmless;
}

int main(void)
{
    int failed = 0, run = 0;

    rig.adversary.random = 1;
    open_sockets();
    open_library();
    if (!deliver(10 * ADVERSARY_HEARD, PATIENCE_NS))
        (void)fail("without forged packets nothing arrives");
    know_receivers();
    if (!adversary_knows(&rig.adversary))
        (void)fail("nothing was heard");
    for (int i = 0; i < adversary_kinds_count && failed < FAILURES_MAX; i++) {
        const struct adversary_kind *kind = &adversary_kinds[i];

        if (!adversary_is_survived(kind) || kind->profile > ADVERSARY_LOSSY)
            continue;
        failed += !run_kind(kind);
        run++;
    }
    for (int i = 0; i <= RECEIVERS; i++)
        (void)llm_context_close(&rig.contexts[i]);
    (void)printf("%d kinds of forged packets over sockets, %d beyond their bounds\n", run, failed);
    return failed > 0;
}
