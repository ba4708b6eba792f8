/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fake verbs device: libibverbs and librdmacm as far as the RoCE transport uses them, with adjustable
 * behaviour.
 *
 *   fake_queue.c   queue pairs and completion queues: posted packets, and their completion by the test
 *   fake_object.c  the device, its objects and its asynchronous events
 *   fake_cm.c      librdmacm: identifiers, groups and their events
 *   fake_system.c  other external interfaces: network interface, clock, limits, memory, threads
 *
 * Checks the rules of a real device: an object destroyed twice, or while another needs it, a send from
 * unregistered memory, a buffer posted twice, or an endless wait is a bug of the transport, and ends the test
 * at once. Functions that the control thread may call are locked; queues are not, as those of a device would
 * not synchronize the transport either: two threads at one queue are a race that the thread sanitizer
 * reports.
 */
#ifndef TESTS_ROCE_FAKE_H
#define TESTS_ROCE_FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "common/ip.h"

enum { FAKE_SENT_MAX = 1 << 14, FAKE_GROUP_QPN = 0xffffff, FAKE_VENDOR_SOFT_ROCE = 0xffffff };

/* --------------------------------------------------------------------------------------------- the device */

/* Set before an instance is opened. fake_reset() sets the values of a device with all features. */
struct fake_device {
    bool v6;                 /* the interface has IPv6 addresses */
    const char *address;     /* address of the interface; NULL: 192.0.2.1, or 2001:db8::1 */
    uint32_t mtu;            /* MTU of the interface */
    uint32_t inline_most;    /* more inline bytes are refused with EINVAL */
    uint32_t inline_granted; /* inline bytes granted of those requested */
    uint32_t vendor;
    int depth_max; /* maximum depth of queues */
    uint8_t link_layer;
    enum ibv_port_state port_state;
    enum ibv_mtu active_mtu;
    bool gid_v1, gid_v2; /* GID types of the interface's address in the table of GIDs */
    int gids_error;      /* error of reading the table */
    bool no_device;      /* the interface has no device */
    bool no_walk;        /* completions cannot be iterated in place */
    bool no_cq_flags;    /* ... or not with flags */
    bool no_stamps;      /* ... or not with the time of day */
};

/* Result of a join. May be changed while instances are open. */
enum fake_join { FAKE_JOIN_YES, FAKE_JOIN_NO, FAKE_JOIN_SILENT };

/* A packet as posted by the transport. */
struct fake_send {
    uint64_t wr_id;
    const uint8_t *data;
    uint32_t size;
    uint32_t lkey;
    unsigned flags;
    uint32_t note; /* immediate data, in host order */
    struct ibv_ah *ah;
    uint32_t qp_number;
    uint32_t qkey;
    unsigned doorbell; /* number of the post call, from 1 */
    struct ibv_ah_attr route;
};

/* Use of the queues by the latest instance. For the caller's thread. */
struct fake {
    struct fake_device device;
    struct ibv_qp *send_qp;
    struct ibv_qp *receive_qp;
    struct fake_send sent[FAKE_SENT_MAX]; /* packets in order, since the latest fake_sent_forget() */
    uint32_t sent_count;
    unsigned doorbells;
    int send_refuse_after; /* after this many packets one is refused, once; -1: none */
    int send_refuse_error;
    /* After a failed packet, those in flight stay until fake_flush_rest(). */
    bool flush_later;
    bool complete_when_polled; /* a poll completes all packets posted before */
    int receive_refuse_after;  /* the same for buffers */
    uint32_t receive_batch;    /* buffers posted by the latest call */
    unsigned receive_calls;
    unsigned next_polls;
    atomic_int join; /* enum fake_join */
    atomic_int join_error;
    /* The index in the table of GIDs of a group's route; 2 is RoCE v1, 3 is v2. */
    atomic_int route_gid;
    atomic_bool hold_events; /* events of librdmacm are delayed while it is set */
    atomic_int held_events;
    atomic_int joins;         /* number of calls */
    atomic_int handles_made;  /* number of calls */
    atomic_bool hold_handles; /* calls that create one block while it is set */
    atomic_int held_handles;
    atomic_int modifies;             /* number of calls */
    _Atomic pthread_t handle_thread; /* thread that created the latest address handle */
};

extern struct fake fake;

/* Destroys everything, and creates a device with all features. */
void fake_reset(void);

/* Returns how many objects were not destroyed, with their kinds as text. */
int fake_live(char *text, size_t size);

/* Returns how many of these are address handles. */
int fake_handles(void);

/* ----------------------------------------------------------------------------------------------- failures */

enum fake_call {
    FAKE_CALL_CHANNEL,
    FAKE_CALL_ID,
    FAKE_CALL_BIND,
    FAKE_CALL_QUERY_DEVICE,
    FAKE_CALL_QUERY_PORT,
    FAKE_CALL_PD,
    FAKE_CALL_MR,
    FAKE_CALL_COMP_CHANNEL,
    FAKE_CALL_CQ,
    FAKE_CALL_CQ_EX,
    FAKE_CALL_QP,
    FAKE_CALL_AH,
    FAKE_CALL_JOIN,
    FAKE_CALL_QUERY_QP,
    FAKE_CALL_MODIFY_QP,
    FAKE_CALL_MEMORY,
    FAKE_CALL_EVENTFD,
    FAKE_CALL_THREAD,
    FAKE_CALLS,
};

/* Makes the nth of these calls from now on fail with an errno, and with `always` all after it; 0: none. */
void fake_fail(enum fake_call call, int nth, int number, bool always);

/* The same for all kinds of calls, once. */
void fake_fail_step(int nth, int number);

/* Returns the call that failed by fake_fail_step(), or -1. */
int fake_step_failed(void);

/* For the parts of the fake: returns true, with errno set, if this call has to fail. */
bool fake_fails(enum fake_call call);

/* ------------------------------------------------------------------------------------------------- queues */

void fake_sent_forget(void);

/* Completes the oldest packets of the send queue; signalled ones report it. */
void fake_complete(uint32_t count);
void fake_complete_all(void);
uint32_t fake_in_flight(void);

/* Fails the oldest packet, flushes those after it, and puts the queue pair into this state: SQE or ERR. */
void fake_complete_failed(enum ibv_wc_status status, enum ibv_qp_state state);

void fake_flush_rest(void);

/* Adds a completion without a packet. */
void fake_notice(uint64_t wr_id, enum ibv_wc_status status);

struct fake_packet {
    const char *source; /* source address as text */
    const char *to;
    uint32_t note; /* immediate data, in host order */
    bool bare;     /* it has no immediate data */
    uint32_t size;
    const uint8_t *data; /* NULL: filled with a pattern */
    uint64_t which;      /* seed of the pattern */
    uint64_t stamp_ns;
    bool truncated; /* it is shorter than a GRH */
    enum ibv_wc_status status;
};

/* Receives a packet. False: there was no buffer for it. */
bool fake_arrive(const struct fake_packet *packet);

/* Receives a sent packet: to a group that this instance joined, or to its own address. */
bool fake_arrive_sent(const struct fake_send *sent);

/* Returns true if the device may write to the memory, as to the buffers of packets and to nothing else. */
bool fake_is_writable(const void *data, size_t size);

/* Returns how many buffers the device has. */
uint32_t fake_buffers(void);

enum ibv_qp_state fake_send_state(void);

/* ------------------------------------------------------------------------------------------------- events */

/*
 * An asynchronous event of the device; element is a queue pair or completion queue, or NULL for one of the
 * port.
 */
void fake_async_event(enum ibv_event_type type, const void *element);

/* Returns how many asynchronous events wait to be read or acknowledged. */
int fake_async_events(void);

/* Adds an event of the identifiers of the latest instance. */
void fake_id_event(enum rdma_cm_event_type type);

/* Adds an event of a joined group. False: it is not joined. */
bool fake_group_event(const char *group, bool to_send, enum rdma_cm_event_type type, int status);

/* Returns the flags of a group's join, -1 if it is not joined. */
int fake_group_flags(const char *group, bool to_send);

/* ------------------------------------------------------------------------------------------------- system */

/* Advances the clock of the library at once, and lets the control thread check it. */
void fake_clock_advance(uint64_t ns);

/* Limits the wait for a join, whatever the transport requests; 0: no limit. */
void fake_wait_limit(uint64_t ns);

/* Sets the limit of locked memory; RLIM_INFINITY by default. */
void fake_memlock(uint64_t bytes);

/* ------------------------------------------------------------------------ shared by the parts of the fake */

enum fake_kind {
    FAKE_PD,
    FAKE_MR,
    FAKE_CHANNEL,
    FAKE_CQ,
    FAKE_QP,
    FAKE_AH,
    FAKE_EVENT_CHANNEL,
    FAKE_ID,
    FAKE_MEMBERSHIP,
    FAKE_EVENT,
    FAKE_KINDS,
};

void fake_born(enum fake_kind kind);
void fake_died(enum fake_kind kind);

/* Returns zeroed memory of the fake, which never fails; free() it. */
void *fake_zeroed(size_t size);

/* Reports a bug of the transport. Does not return. */
__attribute__((format(printf, 1, 2), noreturn)) void fake_wrong(const char *format, ...);

struct fake_mr {
    struct ibv_mr mr;
    int access;
    struct fake_mr *next;
};

struct fake_ah {
    struct ibv_ah ah;
    struct ibv_ah_attr route;
    int in_flight;
};

struct fake_pd {
    struct ibv_pd pd;
    atomic_int users;
};

struct fake_channel {
    struct ibv_comp_channel channel;
    int users;
    struct ibv_cq *fired[64];
    unsigned fired_head, fired_tail;
};

struct fake_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    };
    struct ibv_wc *notices;
    uint64_t *stamps;
    uint64_t head, tail;
    uint32_t max;
    bool armed;
    bool walking;
    int users;
    int unacknowledged;
};

struct fake_qp {
    struct ibv_qp qp;
    struct ibv_qp_cap cap;
    struct fake_send *flight; /* packets posted and not completed, by number modulo max_send_wr */
    /* retired: their room is free, because a later completion was fetched */
    uint64_t posted, completed, retired;
    struct ibv_recv_wr *buffers;
    struct ibv_sge *pieces;
    uint64_t buffers_head, buffers_tail;
    atomic_int groups; /* groups attached to it */
};

/* Returns the interface's address as text. */
const char *fake_address(void);

/* Returns the fake's context; sets the functions of a completion queue that can be iterated in place. */
struct ibv_context *fake_context(void);
struct fake_mr *fake_mr_find(uint32_t lkey);
int fake_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *completions);
int fake_req_notify_cq(struct ibv_cq *base, int solicited_only);
int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *first, struct ibv_send_wr **refused);
int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *first, struct ibv_recv_wr **refused);
void fake_cq_walk_init(struct fake_cq *cq, uint64_t wc_flags);
void fake_qp_init(struct fake_qp *qp, const struct ibv_qp_init_attr *wanted);

/* Waits until a count is zero; it changes under the mutex of events, which is held. */
void fake_events_lock(void);
void fake_events_unlock(void);
void fake_events_changed(void);
void fake_events_await(const int *count, const char *what);

/* Waits until all asynchronous events of an object are acknowledged. */
void fake_async_await(const void *element);

#endif
