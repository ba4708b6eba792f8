/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "raw_roce.h"
#include "raw_xdp.h"

#define RAW_MTU_DEFAULT 1500
#define RAW_MTU_MAX 9000 /* as the library's default */
#define RAW_IPV4_BYTES 20
#define RAW_IPV6_BYTES 40
#define RAW_IDLE_NS 500000000ull
#define RAW_OVER_COUNT 16
#define RAW_PORT_OFFSET 100
#define RAW_PATIENCE_NS 10000000000ull

static const struct raw_scheme *const raw_schemes[] = {
    &raw_udp,
    &raw_shm,
    &raw_bypass,
#ifdef LLI_WITH_ROCE
    &raw_roce,
#endif
#ifdef LLI_WITH_XDP
    &raw_xdp,
#endif
};

#define RAW_SCHEMES (sizeof raw_schemes / sizeof raw_schemes[0])

/* ------------------------------------------------------------------------------------------------------------- groups */

/* The bare form of a channel's transport, and where its group begins; NULL: none is known here. */
static const struct raw_scheme *raw_find_scheme(const char *channel, const char **where)
{
    for (size_t i = 0; i < RAW_SCHEMES; i++) {
        const char *at = strstr(channel, raw_schemes[i]->prefix);

        if (!at)
            continue;
        *where = at + strlen(raw_schemes[i]->prefix);
        return raw_schemes[i];
    }
    return NULL;
}

static bool raw_address_equal(const struct sockaddr *address, const char *text)
{
    char own[INET6_ADDRSTRLEN] = "";

    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, own, sizeof own);
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, own, sizeof own);
    return strcmp(own, text) == 0;
}

/* By name or by address; without either the first that is up and does multicast, as the library chooses. 0 if none fits. */
static unsigned raw_find_interface(const char *text)
{
    unsigned index = *text ? if_nametoindex(text) : 0;
    struct ifaddrs *all = NULL;

    if (index != 0 || getifaddrs(&all) != 0)
        return index;
    for (const struct ifaddrs *one = all; one && index == 0; one = one->ifa_next) {
        unsigned wanted = IFF_UP | IFF_MULTICAST;

        if (*text ? one->ifa_addr && raw_address_equal(one->ifa_addr, text) : (one->ifa_flags & wanted) == wanted)
            index = if_nametoindex(one->ifa_name);
    }
    freeifaddrs(all);
    return index;
}

static int raw_parse_address(const char *host, const char *port, uint16_t port_offset, struct raw_group *group)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&group->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&group->address;
    unsigned long number = strtoul(port, NULL, 10) + port_offset;

    if (number == port_offset || number > 65535)
        return -1;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)number);
        group->address_size = sizeof *v4;
        return 0;
    }
    memset(&group->address, 0, sizeof group->address);
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return -1;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)number);
    v6->sin6_scope_id = group->interface;
    group->address_size = sizeof *v6;
    return 0;
}

/* Splits "host:port" or "[host]:port" in place. */
static int raw_split(char *where, char **host, char **port)
{
    char *colon = strrchr(where, ':');
    size_t length;

    if (!colon)
        return -1;
    *colon = '\0';
    *port = colon + 1;
    *host = where;
    length = strlen(where);
    if (where[0] == '[' && where[length - 1] == ']') {
        where[length - 1] = '\0';
        *host = where + 1;
    }
    return 0;
}

static void raw_read_option(const char *options, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);

    *value = '\0';
    for (const char *at = options; at; at = strchr(at, '&')) {
        at += strspn(at, "?&");
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            snprintf(value, size, "%.*s", (int)strcspn(at + length + 1, "&"), at + length + 1);
    }
}

/* As the channel says, or the library's default; it is checked where the channel is opened. */
static size_t raw_history_bytes(const char *options)
{
    static const char suffixes[] = "KMG";
    struct llm_options defaults;
    const char *suffix;
    char text[24];
    char *end;
    uint64_t bytes;

    llm_options_init(&defaults);
    raw_read_option(options, "history_bytes", text, sizeof text);
    bytes = *text ? strtoull(text, &end, 10) : defaults.history_bytes;
    suffix = *text && *end ? strchr(suffixes, *end) : NULL;
    return suffix ? bytes << 10 * (suffix - suffixes + 1) : bytes;
}

static unsigned raw_interface_mtu(unsigned interface)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_mtu = 0};
    unsigned mtu = RAW_MTU_DEFAULT;

    if (fd >= 0 && if_indextoname(interface, request.ifr_name) && ioctl(fd, SIOCGIFMTU, &request) == 0)
        mtu = (unsigned)request.ifr_mtu;
    if (fd >= 0)
        close(fd);
    return mtu < RAW_MTU_MAX ? mtu : RAW_MTU_MAX;
}

/* A name of its own beside the library's. */
static void raw_name(struct raw_group *group, const char *where, uint16_t offset)
{
    struct llm_options defaults;
    size_t length = strcspn(where, "?");

    group->mtu = group->mtu ? group->mtu : RAW_MTU_MAX;
    llm_options_init(&defaults);
    raw_read_option(strchr(where, '?'), "shm_directory", group->directory, sizeof group->directory);
    if (group->directory[0] == '\0')
        snprintf(group->directory, sizeof group->directory, "%s", defaults.shm_directory);
    snprintf(group->name, sizeof group->name, "%.*s-%u", length < 64 ? (int)length : 64, where, offset);
}

/* An address and a port on an interface. 0, or -1 with the reason. */
static int raw_place(struct raw_group *group, const char *where, uint16_t offset, const char **reason)
{
    char place[128];
    char interface[64];
    char *host;
    char *port;

    raw_read_option(strchr(where, '?'), "interface", interface, sizeof interface);
    snprintf(place, sizeof place, "%.*s", (int)strcspn(where, "?"), where);
    *reason = "its interface is not there";
    group->interface = raw_find_interface(interface);
    if (group->interface == 0)
        return -1;
    *reason = "it needs a numeric group and a port that leaves room for those of the raw measurement";
    if (raw_split(place, &host, &port) != 0 ||
        raw_parse_address(host, port, group->scheme->keep_apart ? 0 : offset, group) != 0)
        return -1;
    if (group->mtu == 0)
        group->mtu = raw_interface_mtu(group->interface);
    if (group->scheme->keep_apart)
        group->scheme->keep_apart(group, offset);
    return 0;
}

int raw_group_of_channel(const char *channel, uint16_t offset, struct raw_group *group, const char **reason)
{
    const char *where = NULL;
    char mtu[16];

    memset(group, 0, sizeof *group);
    group->scheme = raw_find_scheme(channel, &where);
    if (!group->scheme)
        return 1;
    raw_read_option(strchr(where, '?'), "mtu", mtu, sizeof mtu);
    group->mtu = (unsigned)strtoul(mtu, NULL, 10);
    group->history_bytes = raw_history_bytes(strchr(where, '?'));
    if (group->scheme->named) {
        raw_name(group, where, offset);
        return 0;
    }
    if (raw_place(group, where, offset, reason) == 0)
        return 0;
    group->scheme = NULL;
    return -1;
}

size_t raw_header_bytes(const char *channel)
{
    const char *where = NULL;
    const struct raw_scheme *scheme = raw_find_scheme(channel, &where);

    if (scheme && scheme->named)
        return 0;
    return (strstr(channel, "://[") ? RAW_IPV6_BYTES : RAW_IPV4_BYTES) + (scheme ? scheme : &raw_udp)->header_bytes;
}

/* ---------------------------------------------------------------------------------------------------------------- ends */

static struct raw_end *raw_open(const char *channel, struct raw_group *group, bool to_send)
{
    const char *reason = "its transport has no bare form";
    struct raw_end *end;

    if (raw_group_of_channel(channel, RAW_PORT_OFFSET, group, &reason) != 0)
        control_fail(channel, reason);
    end = group->scheme->open(group, to_send);
    if (end)
        end->scheme = group->scheme;
    return end;
}

struct raw_end *raw_open_channel(const char *channel, bool to_send)
{
    struct raw_group group;

    return raw_open(channel, &group, to_send);
}

void raw_close(struct raw_end *end)
{
    if (end)
        end->scheme->close(end);
}

/* No message is in two datagrams, unless it is longer than one. */
static size_t raw_packed_datagram(const struct raw_end *end, size_t message_bytes)
{
    return message_bytes > end->datagram_bytes ? message_bytes : end->datagram_bytes - end->datagram_bytes % message_bytes;
}

size_t raw_packed_bytes(const struct raw_end *end, size_t message_bytes)
{
    if (message_bytes > end->datagram_bytes)
        return 0;
    if (!end->scheme->send_train)
        return raw_packed_datagram(end, message_bytes);
    return end->scheme->train_bytes(raw_packed_datagram(end, message_bytes));
}

int raw_send_packed(struct raw_end *end, const void *data, size_t size, size_t message_bytes)
{
    size_t datagram_bytes = raw_packed_datagram(end, message_bytes);

    return size > datagram_bytes ? end->scheme->send_train(end, data, size, datagram_bytes) : raw_send(end, data, size);
}

void raw_drain(struct raw_end *end)
{
    size_t size;

    while (raw_receive(end, &size))
        ;
}

/* --------------------------------------------------------------------------------------------------------------- blast */

/* A receiver whose buffer is full must have read some of it before one of these arrives. */
static int raw_blast_say_over(struct raw_end *end)
{
    for (int i = 0; i < RAW_OVER_COUNT; i++) {
        usleep(1000);
        if (raw_send(end, "", 1) < 0)
            return -1;
    }
    return 0;
}

int raw_blast_send(struct raw_end *end, const struct raw_load *load)
{
    int failed = end->scheme->blast_begin ? end->scheme->blast_begin(end, load) : 0;
    uint64_t over_at = llm_clock() + load->duration_ns;

    while (!failed && llm_clock() < over_at)
        failed = end->scheme->blast_next(end, load);
    if (end->scheme->blast_end)
        end->scheme->blast_end(end);
    return failed ? -1 : raw_blast_say_over(end);
}

int raw_blast_expect(struct raw_end *end, bool segmented)
{
    raw_drain(end);
    return end->scheme->blast_expect ? end->scheme->blast_expect(end, segmented) : 0;
}

struct raw_blast_result raw_blast_receive(struct raw_end *end)
{
    struct raw_blast_result result = {0};
    uint64_t first = 0;
    uint64_t last = llm_clock();
    bool over = false;

    for (;;) {
        int count = end->scheme->blast_take(end, &result, &over);
        uint64_t now = llm_clock();

        if (over || (count <= 0 && now - last > RAW_IDLE_NS))
            break;
        if (count <= 0)
            continue;
        last = now;
        if (first == 0)
            first = now;
    }
    result.ns = first ? last - first : 0;
    return result;
}

static void raw_serve_send(const struct control *control, struct raw_end *end, const struct raw_group *group)
{
    const struct raw_load load = {.way = (enum raw_way)control_number(control, "way", 0),
                                  .message_bytes = (size_t)control_number(control, "size", 45),
                                  .ring_bytes = group->history_bytes,
                                  .duration_ns = control_ns(control, "duration", 100000000)};

    const bool possible = load.way < RAW_WAYS && end->scheme->ways & 1u << load.way;

    if (!possible || control_flag(control, "look")) {
        json_done("possible", possible);
        return;
    }
    if (raw_blast_send(end, &load) != 0)
        perror("a bare blast");
    json_done("possible", 1);
}

static void raw_serve_receive(const struct control *control, struct raw_end *end)
{
    const bool ready = raw_blast_expect(end, control_flag(control, "segmented")) == 0;
    const uint64_t begun_at = llm_clock();
    struct raw_blast_result result = {0};

    json_done("ready", ready);
    while (!raw_is_readable(end) && llm_clock() < begun_at + RAW_PATIENCE_NS)
        continue;
    result = raw_blast_receive(end);
    json_open();
    json_number("bytes", (double)result.bytes);
    json_number("ns", (double)result.ns);
    json_close();
}

void raw_serve_blast(const struct control *control, bool sends)
{
    static struct raw_group group;
    static struct raw_end *end;

    if (!end)
        end = raw_open(control_text(control, "channel", ""), &group, sends);
    if (!end)
        control_fail("the end of the bare blast", strerror(errno));
    if (sends)
        raw_serve_send(control, end, &group);
    else
        raw_serve_receive(control, end);
}
