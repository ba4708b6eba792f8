/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "rig.h"
#include "config/registry.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

struct rig rig;
const struct lli_transport *roce_transport;

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_text[8192];
static int descriptors_before;

/* ---------------------------------------------------------------------------------------------------- log */

static void log_keep(void *arg, enum llm_level level, const char *text)
{
    (void)arg;
    (void)level;
    pthread_mutex_lock(&log_mutex);
    if (strlen(log_text) + strlen(text) + 2 < sizeof log_text)
        strcat(strcat(log_text, text), "\n");
    pthread_mutex_unlock(&log_mutex);
}

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_INFO};

void rig_log_forget(void)
{
    pthread_mutex_lock(&log_mutex);
    log_text[0] = '\0';
    pthread_mutex_unlock(&log_mutex);
}

const char *rig_log(void)
{
    static char copy[sizeof log_text];

    pthread_mutex_lock(&log_mutex);
    memcpy(copy, log_text, sizeof copy);
    pthread_mutex_unlock(&log_mutex);
    return copy;
}

/* The control thread may be about to log it. */
void rig_expect_log(const char *part)
{
    for (int milliseconds = 0; strstr(rig_log(), part) == NULL; milliseconds++) {
        if (milliseconds == 5000)
            fail_msg("not in the log: \"%s\", which is: %s", part, rig_log());
        usleep(1000);
    }
}

/* ----------------------------------------------------------------------------------------- open and close */

int rig_setup(void **state)
{
    (void)state;
    fake_reset();
    fake_wait_limit(0);
    fake_memlock(RLIM_INFINITY);
    rig_log_forget();
    memset(&rig, 0, sizeof rig);
    roce_transport = lli_transport_find("roce");
    assert_non_null(roce_transport);
    llm_options_init(&rig.options);
    rig.options.rcvbuf_bytes = 1; /* the minimum of buffers */
    rig.options.flow_window_packets = 1;
    rig.memory = aligned_alloc(64, ARENA_BYTES);
    assert_non_null(rig.memory);
    for (size_t i = 0; i < ARENA_BYTES; i++)
        rig.memory[i] = (uint8_t)i;
    descriptors_before = descriptors_open();
    return 0;
}

int rig_teardown(void **state)
{
    char text[256];

    (void)state;
    if (rig.roce != NULL)
        rig_close(&rig);
    free(rig.memory);
    if (fake_live(text, sizeof text) != 0)
        fail_msg("left alive: %s", text);
    assert_int_equal(descriptors_open(), descriptors_before);
    return 0;
}

int rig_open_another(struct rig *another)
{
    const struct lli_transport_config config = {.scheme = "roce",
                                                .host = fake.device.v6 ? GROUP_V6 : GROUP,
                                                .options = &another->options,
                                                .log = &keeper};
    int status;

    another->roce = aligned_alloc(64, (roce_transport->size + 63) / 64 * 64);
    assert_non_null(another->roce);
    memset(another->roce, 0, roce_transport->size);
    status = roce_transport->open(another->roce, &config, &another->caps);
    if (status != 0) {
        free(another->roce);
        another->roce = NULL;
    }
    return status;
}

int rig_open(void)
{
    return rig_open_another(&rig);
}

static void expect_fine(int status)
{
    if (status != 0)
        fail_msg("%d: %s", status, rig_log());
}

void rig_up(void)
{
    const char *group = fake.device.v6 ? GROUP_V6 : GROUP;

    expect_fine(rig_open());
    expect_fine(rig_join(group, PORT, LLI_JOIN_SEND, &rig.send));
    expect_fine(rig_join(group, PORT, LLI_JOIN_RECEIVE, &rig.receive));
    expect_fine(roce_transport->region(rig.roce, rig.memory, ARENA_BYTES));
}

int rig_join(const char *group, uint16_t port, enum lli_join_mode mode, lli_handle *handle)
{
    const struct lli_group wanted = {.host = group, .port = port, .options = &rig.options};

    return roce_transport->join(rig.roce, &wanted, mode, handle);
}

void rig_leave(lli_handle handle, enum lli_join_mode mode)
{
    roce_transport->leave(rig.roce, handle, mode);
}

void rig_close(struct rig *which)
{
    roce_transport->close(which->roce);
    free(which->roce);
    which->roce = NULL;
}

uint64_t rig_counter(const char *name)
{
    for (const struct lli_counter *counter = roce_transport->counters; counter->name != NULL; counter++)
        if (strcmp(counter->name, name) == 0)
            return atomic_load(
                (const atomic_uint_fast64_t *)(const void *)((const char *)rig.roce + counter->offset));
    fail_msg("no counter %s", name);
    return 0;
}

/* ------------------------------------------------------------------------------------- sending, receiving */

int rig_post(lli_handle to, size_t offset, uint32_t size)
{
    const struct lli_out packet = {.data = rig.memory + offset, .size = size, .to = to};

    return roce_transport->post(rig.roce, &packet, 1);
}

int rig_post_many(lli_handle to, uint32_t size, int count)
{
    int taken = 0;

    for (; taken < count; taken++)
        if (rig_post(to, (size_t)taken * 64, size) != 1)
            break;
    return taken;
}

int rig_flush(void)
{
    return roce_transport->flush(rig.roce);
}

void rig_flush_all(void)
{
    AWAIT(rig_flush() == 0);
}

uint64_t rig_reap(void)
{
    return roce_transport->reap(rig.roce);
}

int rig_receive(struct lli_in *packets, int max)
{
    return roce_transport->receive(rig.roce, packets, max);
}

void rig_release(const struct lli_in *packets, int count)
{
    roce_transport->release(rig.roce, packets, count);
}

uint32_t rig_note(uint16_t port)
{
    return LLI_ROCE_MARK | port;
}

struct lli_address rig_address(const char *host, uint32_t qp_number, uint32_t qkey)
{
    struct lli_address address = {.size = 25, .bytes = {'r'}};
    uint8_t *at = address.bytes + 1;

    qp_number = htonl(qp_number);
    qkey = htonl(qkey);
    if (inet_pton(AF_INET, host, at + 12) == 1)
        at[10] = at[11] = 0xff;
    else
        assert_int_equal(inet_pton(AF_INET6, host, at), 1);
    memcpy(at + 16, &qp_number, 4);
    memcpy(at + 20, &qkey, 4);
    return address;
}

lli_handle rig_peer(const char *host, uint32_t qp_number)
{
    const struct lli_address address = rig_address(host, qp_number, RDMA_UDP_QKEY);
    lli_handle handle = 0;

    AWAIT(roce_transport->peer(rig.roce, &address, &handle) == 0);
    return handle;
}
