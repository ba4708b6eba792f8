/* SPDX-License-Identifier: Apache-2.0 */
/* An instance of the RoCE transport over the fake device, and operations for tests. */
#ifndef TESTS_ROCE_RIG_H
#define TESTS_ROCE_RIG_H

#include "../../descriptors.h"
#include "../../patience.h"
#include "../unit.h"

#include <unistd.h>

#include "system/clock.h"
#include "fake.h"
#include "roce.h"

#define GROUP "239.1.2.3"
#define GROUP_V6 "ff15::1:2:3"
#define OWN "192.0.2.1"
#define OTHER "192.0.2.9"

#define SECOND ((uint64_t)1000000000)

enum { PORT = 5000, ARENA_BYTES = 1 << 20 };

struct rig {
    struct lli_roce *roce; /* NULL: not open. Tests access it through the transport interface only. */
    struct lli_caps caps;
    struct llm_options options;
    lli_handle send;
    lli_handle receive;
    uint8_t *memory; /* ARENA_BYTES to post from, registered by rig_up() */
};

extern struct rig rig;
extern const struct lli_transport *roce_transport;

/*
 * Before and after each test: creates a device with all features; at the end, none of its objects may be
 * left.
 */
int rig_setup(void **state);
int rig_teardown(void **state);

/* Text logged since the latest of these; the library's text stays until the next call. */
void rig_log_forget(void);
const char *rig_log(void);
void rig_expect_log(const char *part);

/* Opens an instance, joins the group in both modes and registers the memory. */
void rig_up(void);
int rig_open(void);
int rig_open_another(struct rig *another);
int rig_join(const char *group, uint16_t port, enum lli_join_mode mode, lli_handle *handle);
void rig_leave(lli_handle handle, enum lli_join_mode mode);
void rig_close(struct rig *which);

uint64_t rig_counter(const char *name);

/*
 * Posts packets from the memory, the first at an offset, the others a stride apart; no flush. Returns how
 * many were taken.
 */
int rig_post(lli_handle to, size_t offset, uint32_t size);
int rig_post_many(lli_handle to, uint32_t size, int count);
int rig_flush(void);
uint64_t rig_reap(void);

/* Flushes, and waits for a repair of the queue if needed. */
void rig_flush_all(void);

int rig_receive(struct lli_in *packets, int max);
void rig_release(const struct lli_in *packets, int count);

/* Returns an address as announced by another instance. */
struct lli_address rig_address(const char *host, uint32_t qp_number, uint32_t qkey);
lli_handle rig_peer(const char *host, uint32_t qp_number);

uint32_t rig_note(uint16_t port);

/* Fails the test unless something becomes true soon. */
#define AWAIT(condition)                                                                          \
    do {                                                                                          \
        const uint64_t give_up_at = llm_clock() + patience(5 * SECOND);                           \
                                                                                                  \
        while (!(condition)) {                                                                    \
            if (llm_clock() > give_up_at)                                                         \
                fail_msg("%s:%d: never: %s; log: %s", __FILE__, __LINE__, #condition, rig_log()); \
            usleep(100);                                                                          \
        }                                                                                         \
    } while (0)

#define TEST(function) cmocka_unit_test_setup_teardown(function, rig_setup, rig_teardown)

#endif
