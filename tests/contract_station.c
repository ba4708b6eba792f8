/* SPDX-License-Identifier: Apache-2.0 */
/* Instances under test, and traffic between them. */
#define _GNU_SOURCE
#include "contract.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/clock.h"
#include "hosts.h"
#include "network.h"
#include "config/options.h"
#include "config/registry.h"

/* Transport under test, from the command line. */
const struct lli_transport *transport;
const char *scheme;
const char *host;
uint16_t port;
struct llm_options common;
struct lli_option_values own_options;
uint32_t size_at;

char log_text[4096];

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    strncat(log_text, text, sizeof log_text - strlen(log_text) - 2);
    strcat(log_text, "\n");
}

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};

/* ------------------------------------------------------------------------------------------- command line */

bool only_faults;
const char *second_host;

static int hosts_mtu; /* MTU of the cables between hosts; 0: there is one host */

void option_set(char *argument)
{
    char *value = strchr(argument, '=');

    if (value == NULL) {
        fprintf(stderr, "not OPTION=VALUE: %s\n", argument);
        exit(2);
    }
    *value++ = '\0';
    if (strcmp(argument, "only") == 0)
        only_faults = strcmp(value, "faults") == 0;
    else if (strcmp(argument, "line") == 0)
        second_host = value;
    else if (strcmp(argument, "hosts") == 0)
        hosts_mtu = (int)strtol(value, NULL, 10);
    else if (lli_options_set(&common, &own_options, argument, value, &keeper) != LLM_OK) {
        fputs(log_text, stderr);
        exit(2);
    }
}

void own_set(const char *key, const char *value)
{
    log_text[0] = '\0';
    if (lli_options_set(&common, &own_options, key, value, &keeper) != LLM_OK)
        fail_msg("%s", log_text);
}

void own_number(const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    own_set(key, text);
}

void own_reset(void)
{
    lli_option_values_init(&own_options, scheme);
}

static char shared_memory[] = "/dev/shm/llm-contract.XXXXXX";

void shared_memory_own(void)
{
    assert_non_null(mkdtemp(shared_memory));
    if (lli_options_have(&own_options, "shm_directory"))
        own_set("shm_directory", shared_memory);
}

bool shared_memory_is_empty(void)
{
    return rmdir(shared_memory) == 0;
}

bool network_made(void)
{
    if (hosts_mtu > 0)
        return hosts_make(HOSTS_MAX, hosts_mtu);
    return strcmp(common.interface, NETWORK_INTERFACE) != 0 || network_own();
}

/* ----------------------------------------------------------------------------------------------- stations */

int station_open_here(struct station *station, const char *at)
{
    struct lli_transport_config second = {.scheme = scheme,
                                          .host = second_host,
                                          .options = &station->options,
                                          .values = &station->values,
                                          .registry = &lli_registry,
                                          .log = &keeper,
                                          .size_at = size_at};
    struct lli_transport_config config = second;

    config.host = at;
    config.second = second_host != NULL ? &second : NULL;

    memset(station->instance, 0, transport->size);
    log_text[0] = '\0';
    return transport->open(station->instance, &config, &station->caps);
}

int instance_open(struct station *station, const char *at, const struct llm_options *options)
{
    int status;

    memset(station, 0, sizeof *station);
    station->options = *options;
    station->values = own_options;
    station->instance = aligned_alloc(64, (transport->size + 63) / 64 * 64);
    assert_non_null(station->instance);
    station->host = hosts_enter();
    status = station_open_here(station, at);
    hosts_leave();
    if (status != 0) {
        free(station->instance);
        hosts_free(station->host);
    } else if (second_host != NULL || strncmp(scheme, "shm+", strlen("shm+")) == 0) {
        station->once = calloc(PACKETS_MAX, sizeof *station->once);
    }
    return status;
}

int station_join(struct station *station, const char *at, uint16_t number, enum lli_join_mode mode,
                 lli_handle *handle)
{
    /* The second group is valid. */
    const struct lli_group second = {.host = second_host,
                                     .port = number == 0 ? port : number,
                                     .options = &station->options,
                                     .values = &station->values};
    struct lli_group group = second;
    int status;

    group.host = at;
    group.port = number;
    group.second = second_host != NULL ? &second : NULL;

    log_text[0] = '\0';
    hosts_enter_again(station->host);
    status = transport->join(station->instance, &group, mode, handle);
    hosts_leave();
    return status;
}

static void expect_opened(int status)
{
    if (status != 0)
        fail_msg("%d: %s", status, log_text);
}

void station_open_with(struct station *station, const struct llm_options *options)
{
    expect_opened(instance_open(station, host, options));
    expect_opened(station_join(station, host, port, LLI_JOIN_SEND, &station->send));
    expect_opened(station_join(station, host, port, LLI_JOIN_RECEIVE, &station->receive));
}

void station_open(struct station *station)
{
    station_open_with(station, &common);
}

void station_close(struct station *station)
{
    transport->close(station->instance);
    free(station->instance);
    free(station->once);
    hosts_free(station->host);
}

uint64_t station_counter(const struct station *station, const char *name)
{
    for (const struct lli_counter *counter = transport->counters; counter->name != NULL; counter++)
        if (strcmp(counter->name, name) == 0)
            return *(const uint64_t *)(const void *)((const char *)station->instance + counter->offset);
    fail_msg("no counter %s", name);
    return 0;
}

lli_handle station_peer(struct station *from, struct station *to)
{
    const uint64_t give_up_at = lli_clock_ns() + ARRIVAL_NS;
    struct lli_address address;
    lli_handle handle = 0;
    int status;

    assert_int_equal(transport->address(to->instance, &address), 0);
    assert_in_range(address.size, 1, sizeof address.bytes);
    while ((status = transport->peer(from->instance, &address, &handle)) == LLM_EAGAIN)
        assert_true(lli_clock_ns() < give_up_at);
    assert_int_equal(status, 0);
    return handle;
}

void station_region(struct station *station, void *base, size_t size)
{
    if (transport->region != NULL)
        assert_int_equal(transport->region(station->instance, base, size), 0);
}

/* ------------------------------------------------------------------------------------- sending, receiving */

void station_flush(struct station *station)
{
    const uint64_t give_up_at = lli_clock_ns() + ARRIVAL_NS;

    while (transport->flush(station->instance) == LLM_EAGAIN)
        assert_true(lli_clock_ns() < give_up_at);
}

void station_send(struct station *station, lli_handle to, const void *data, size_t size)
{
    const struct lli_out packet = {.data = data, .size = (uint32_t)size, .to = to};

    assert_int_equal(transport->post(station->instance, &packet, 1), 1);
    station_flush(station);
}

/*
 * Over shm+X and two lines a packet to a group arrives twice, and a session drops the second copy: so does this, by the
 * contents.
 */
static bool second(struct station *station, const struct lli_in *packet)
{
    uint64_t hash = (0xcbf29ce484222325u ^ packet->from) * 0x100000001b3u;

    for (uint32_t i = 0; i < packet->size; i++)
        hash = (hash ^ packet->data[i]) * 0x100000001b3u;
    for (uint32_t i = 0; i < station->once_count; i++)
        if (station->once[i] == hash) {
            station->once[i] = station->once[--station->once_count];
            return true;
        }
    assert_true(station->once_count < PACKETS_MAX);
    station->once[station->once_count++] = hash;
    return false;
}

static int drop_seconds(struct station *station, struct lli_in *packets, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        if (packets[i].from != LLI_HANDLE_UNICAST && second(station, &packets[i]))
            transport->release(station->instance, &packets[i], 1);
        else
            packets[kept++] = packets[i];
    return kept;
}

/* Checks lli_in.buffer: bit 63 is set only by a decorator. */
static void expect_notes(const struct lli_in *packets, int count)
{
    for (int i = 0; i < count; i++)
        assert_true(packets[i].buffer >> 63 == 0);
}

/* Receives until there is a packet, up to a time limit. */
int station_await(struct station *station, struct lli_in *packets, int max, uint64_t wait_ns)
{
    const uint64_t give_up_at = lli_clock_ns() + wait_ns;
    int count;

    do {
        count = transport->receive(station->instance, packets, max);
        if (station->once != NULL)
            count = drop_seconds(station, packets, count);
        else
            expect_notes(packets, count);
    } while (count == 0 && lli_clock_ns() < give_up_at);
    return count;
}

/* Expects exactly one packet, equal to this one. */
void station_expect(struct station *station, lli_handle from, const void *data, size_t size)
{
    struct lli_in packet;

    assert_int_equal(station_await(station, &packet, 1, ARRIVAL_NS), 1);
    assert_int_equal(packet.size, size);
    assert_int_equal(packet.from, from);
    assert_memory_equal(packet.data, data, size);
    transport->release(station->instance, &packet, 1);
}

void station_expect_nothing(struct station *station)
{
    struct lli_in packet;

    assert_int_equal(station_await(station, &packet, 1, QUIET_NS), 0);
}

bool readable(int fd, int timeout_ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};

    return poll(&entry, 1, timeout_ms) == 1;
}
