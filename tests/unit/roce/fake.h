/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verbs device that is none: libibverbs and librdmacm as far as the RoCE transport uses them, with knobs.
 *
 *   fake_queue.c   queue pairs and completion queues: what was posted, and what the test makes of it
 *   fake_object.c  the device, its objects and its asynchronous events
 *   fake_cm.c      librdmacm: identifiers, groups and their events
 *   fake_system.c  what else the transport gets from outside: interface, clock, limits, memory, threads
 *
 * It checks that it is used as a device must be: an object destroyed twice, or while another needs it, a send
 * from memory that is not registered, a buffer posted twice, or a wait that never ends is a bug of the
 * transport, and ends the test at once. What the control thread may call is locked; queues are not, as those
 * of a device would not order anything for the transport either: two threads at one queue are a race that the
 * thread sanitizer finds.
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

/* Set before an instance is opened. fake_reset() gives them the values of a device that does all. */
struct fake_device {
    bool v6;                 /* the interface's addresses are of IPv6 */
    const char *address;     /* of the interface; NULL: 192.0.2.1, or 2001:db8::1 */
    uint32_t mtu;            /* of the interface */
    uint32_t inline_most;    /* more inline bytes than that are refused with EINVAL */
    uint32_t inline_granted; /* of those asked for */
    uint32_t vendor;
    int depth_max; /* of queues */
    uint8_t link_layer;
    enum ibv_port_state port_state;
    enum ibv_mtu active_mtu;
    bool gid_v1, gid_v2; /* how the interface's address is in the table of GIDs */
    int gids_error;      /* the table cannot be read */
    bool no_device;      /* the interface has none */
    bool no_walk;        /* completions cannot be walked in place */
    bool no_cq_flags;    /* ... or if flags are given */
    bool no_stamps;      /* ... or with the time of day */
};

/* What becomes of a join. May be changed while instances are open. */
enum fake_join { FAKE_JOIN_YES, FAKE_JOIN_NO, FAKE_JOIN_SILENT };

/* A packet as the transport posted it. */
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
    unsigned doorbell; /* number of the call that posted it, from 1 */
    struct ibv_ah_attr route;
};

/*
 * What the transport does, as far as queues are concerned: of the latest instance. From the caller's thread.
 */
struct fake {
    struct fake_device device;
    struct ibv_qp *send_qp;
    struct ibv_qp *receive_qp;
    struct fake_send sent[FAKE_SENT_MAX]; /* in order, since the latest fake_sent_forget() */
    uint32_t sent_count;
    unsigned doorbells;
    int send_refuse_after; /* so many packets are taken, then one is refused, once; -1: none */
    int send_refuse_error;
    /* Behind a packet that failed those in flight stay, until fake_flush_rest() */
    bool flush_later;
    bool complete_when_polled; /* a poll finds all completed that was posted before */
    int receive_refuse_after;  /* the same of buffers */
    uint32_t receive_batch;    /* buffers posted by the latest call */
    unsigned receive_calls;
    unsigned next_polls;
    atomic_int join; /* of enum fake_join */
    atomic_int join_error;
    /* The place in the table of GIDs that groups are resolved to; 2 is RoCE v1, 3 is v2. */
    atomic_int route_gid;
    atomic_bool hold_events; /* those taken from librdmacm are held back for as long */
    atomic_int held_events;
    atomic_int joins;         /* calls */
    atomic_int handles_made;  /* calls */
    atomic_bool hold_handles; /* those that make one take as long */
    atomic_int held_handles;
    atomic_int modifies;             /* calls */
    _Atomic pthread_t handle_thread; /* which made the latest address handle */
};

extern struct fake fake;

/* Forgets everything, and makes a device that does all. */
void fake_reset(void);

/* How many objects there are that nobody destroyed, and what they are, in text. */
int fake_live(char *text, size_t size);

/* Of these, address handles. */
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

/* From now on the nth of these calls fails with an errno, and with always those behind it; 0: none. */
void fake_fail(enum fake_call call, int nth, int number, bool always);

/* The same of all calls, once. */
void fake_fail_step(int nth, int number);

/* Which call failed as the step, or -1. */
int fake_step_failed(void);

/* For the parts of the fake: whether this call is to fail, with errno. */
bool fake_fails(enum fake_call call);

/* ------------------------------------------------------------------------------------------------- queues */

void fake_sent_forget(void);

/* Completes the oldest packets of the send queue; those that asked for notice give it. */
void fake_complete(uint32_t count);
void fake_complete_all(void);
uint32_t fake_in_flight(void);

/* The oldest fails. What is behind it is flushed, and the queue pair is in state: SQE or ERR. */
void fake_complete_failed(enum ibv_wc_status status, enum ibv_qp_state state);

void fake_flush_rest(void);

/* A notice out of thin air. */
void fake_notice(uint64_t wr_id, enum ibv_wc_status status);

struct fake_packet {
    const char *source; /* addresses in words */
    const char *to;
    uint32_t note; /* immediate data, in host order */
    bool bare;     /* without immediate data */
    uint32_t size;
    const uint8_t *data; /* NULL: it is filled with a pattern */
    uint64_t which;      /* of the pattern */
    uint64_t stamp_ns;
    bool truncated; /* shorter than a GRH */
    enum ibv_wc_status status;
};

/* A packet comes in. False: there was no buffer for it. */
bool fake_arrive(const struct fake_packet *packet);

/* A packet that was sent comes in here: to a group that this instance is in, or to its own address. */
bool fake_arrive_sent(const struct fake_send *sent);

/*
 * Whether memory is registered for the device to write to, as the buffers of packets are and nothing else is.
 */
bool fake_is_writable(const void *data, size_t size);

/* Buffers that the device has. */
uint32_t fake_buffers(void);

enum ibv_qp_state fake_send_state(void);

/* ------------------------------------------------------------------------------------------------- events */

/*
 * An asynchronous event of the device; element is a queue pair or completion queue, or NULL for one of the
 * port.
 */
void fake_async_event(enum ibv_event_type type, const void *element);

/* Asynchronous events that wait to be read, or to be acknowledged. */
int fake_async_events(void);

/* An event of the identifiers of the latest instance. */
void fake_id_event(enum rdma_cm_event_type type);

/* An event of a group that was joined. False: it is not. */
bool fake_group_event(const char *group, bool to_send, enum rdma_cm_event_type type, int status);

/* How a group is joined: flags of the join, -1 if it is not. */
int fake_group_flags(const char *group, bool to_send);

/* ------------------------------------------------------------------------------------------------- system */

/* The clock of the library goes on by so much at once, and the control thread looks at it. */
void fake_clock_advance(uint64_t ns);

/* How long a wait for a join takes at most, whatever the transport asks for; 0: as it asks. */
void fake_wait_limit(uint64_t ns);

/* Bytes that may be locked, as the transport is told; RLIM_INFINITY by default. */
void fake_memlock(uint64_t bytes);

/* ---------------------------------------------------------------------------- among the parts of the fake */

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

/* Zeroed memory of the fake's own, which is always there; free() it. */
void *fake_zeroed(size_t size);

/* A bug of the transport. Does not return. */
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
    struct fake_send *flight; /* posted and not completed, by number modulo max_send_wr */
    /* retired: their room is free, as a notice behind them was fetched */
    uint64_t posted, completed, retired;
    struct ibv_recv_wr *buffers;
    struct ibv_sge *pieces;
    uint64_t buffers_head, buffers_tail;
    atomic_int groups; /* attached to */
};

/* The interface's address, in words. */
const char *fake_address(void);

/* The fake's context, and what it does for a completion queue that completions can be walked in. */
struct ibv_context *fake_context(void);
struct fake_mr *fake_mr_find(uint32_t lkey);
int fake_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *completions);
int fake_req_notify_cq(struct ibv_cq *base, int solicited_only);
int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *first, struct ibv_send_wr **refused);
int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *first, struct ibv_recv_wr **refused);
void fake_cq_walk_init(struct fake_cq *cq, uint64_t wc_flags);
void fake_qp_init(struct fake_qp *qp, const struct ibv_qp_init_attr *wanted);

/* Waits until what is counted is zero; the count changes under the mutex of events, which is held. */
void fake_events_lock(void);
void fake_events_unlock(void);
void fake_events_changed(void);
void fake_events_await(const int *count, const char *what);

/* Whether all asynchronous events of an object were acknowledged; waits for it. */
void fake_async_await(const void *element);

#endif
