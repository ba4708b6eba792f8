/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the RoCE transport share.
 *
 *   roce_device.c   which device, GID and MTU an interface has, what went wrong and what to do about it
 *   roce_queue.c    memory, completion queues and queue pairs
 *   roce_group.c    groups: joins, leaves, and finding the group of a packet
 *   roce_peer.c     addresses of other instances and the address handles to reach them
 *   roce_event.c    the control thread: what librdmacm and the device tell, address handles, repairs of the send queue
 *   roce_control.c  open, close and waiting
 *   roce.c          data operations, and the transport's table
 *
 * One instance is one context's use of one interface in one address family. It has two UD queue pairs: one joins groups as a
 * sender only and sends everything; the other is a full member and receives, unicasts too. A packet's immediate data says
 * which port it is for, as groups of RDMA have none; 0 stands for a unicast. The group itself is found in the packet's GRH.
 *
 * Two threads touch an instance. The caller's does the data operations and asks for groups; the control thread waits for what
 * may take a second: join events, address handles, faults. They share `control` under its mutex, and the atomic fields. When
 * the device goes, the control thread sets `gone`; the caller's, which alone uses the queues, sees it at its next call and
 * sets `parked`; then the control thread gives everything back, so that the driver can leave.
 */
#ifndef LLI_ROCE_H
#define LLI_ROCE_H

#include <pthread.h>
#include <stdatomic.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "common/ip.h"
#include "system/memory.h"
#include "common/peers.h"
#include "transport.h"
#include "core/base/types.h"

enum {
    LLI_ROCE_GRH = 40,                 /* bytes before every packet in a receive buffer; over IPv4 the last 20 are its header */
    LLI_ROCE_POST_MAX = 256,
    LLI_ROCE_SEND_DEPTH = 1024,        /* of the send queue; a power of two */
    LLI_ROCE_RECEIVE_DEPTH_MAX = 8192, /* of the receive queue; rcvbuf_bytes may ask for less */
    LLI_ROCE_RECEIVE_DEPTH_MIN = 256,
    LLI_ROCE_SIGNAL = 64,              /* one send in so many is completed with a notice, and the last of a flush */
    LLI_ROCE_REPOST = 64,              /* buffers given back to the device at a time */
    LLI_ROCE_POLL = 32,                /* completions fetched at a time where they cannot be walked in place */
    LLI_ROCE_INLINE = 256,             /* bytes to ask for that travel in the work request itself */
    LLI_ROCE_GROUPS_MAX = 256,         /* joins to send, and again groups and ports joined to receive */
    LLI_ROCE_BUCKETS = 1024,           /* of the hash table of groups; a power of two */
    LLI_ROCE_REGIONS_MAX = 256,
};

/* Immediate data, in host order: a mark that tells our packets from others', whether the sender's own host is to drop it, the port. */
#define LLI_ROCE_MARK ((uint32_t)0x6c6c << 17)
#define LLI_ROCE_NO_LOOP ((uint32_t)1 << 16)

#define LLI_ROCE_SECOND ((lli_ns)1000000000)

/* Handles of joins are indices into senders or receivers; those of peers have this bit as well. */
#define LLI_ROCE_PEER ((lli_handle)1 << 31)

/* A group as the device knows it, without port, joined by one of the queue pairs. */
enum lli_roce_membership { LLI_ROCE_FREE, LLI_ROCE_JOINING, LLI_ROCE_JOINED, LLI_ROCE_REFUSED, LLI_ROCE_LOST };

struct lli_roce_member {
    enum lli_roce_membership state;
    uint32_t users;
    int status;                   /* of the event that refused it */
    lli_ns retry_at;              /* LOST: when it is joined again */
    struct rdma_cm_id *id;
    union lli_ip_address address; /* with port 0 */
    struct ibv_ah_attr route;     /* as librdmacm resolved it, valid in JOINED */
    uint32_t qp_number;
    uint32_t qkey;
};

/* A join to send. */
struct lli_roce_sender {
    struct lli_roce_member *member; /* NULL: unused */
    struct ibv_ah *handle;
    uint32_t qp_number;
    uint32_t qkey;
    uint32_t note;                  /* immediate data, in network order */
};

/* The 16 bytes of a GID, comparable in two steps. */
struct lli_roce_gid {
    uint64_t high;
    uint64_t low;
};

static inline bool lli_roce_gid_same(const struct lli_roce_gid *a, const struct lli_roce_gid *b)
{
    return a->high == b->high && a->low == b->low;
}

/* A group and port joined to receive. */
struct lli_roce_receiver {
    struct lli_roce_member *member; /* NULL: unused */
    uint32_t users;
    uint16_t port;
    struct lli_roce_gid group;
    struct lli_roce_gid source;     /* all zero: any */
};

/*
 * The caller's thread takes it from NEW, or from FAILED after a while, to WANTED, and the control thread by MAKING to READY or
 * FAILED. An address that is forgotten goes back to NEW, and its place with it: at once if nothing of it is in use; when the
 * control thread is done with it, which takes it from UNWANTED to LEFT; or out of LEAVING, when all packets are done with that
 * use its handle.
 */
enum lli_roce_peer_state {
    LLI_ROCE_PEER_NEW, LLI_ROCE_PEER_WANTED, LLI_ROCE_PEER_MAKING, LLI_ROCE_PEER_READY, LLI_ROCE_PEER_FAILED,
    LLI_ROCE_PEER_UNWANTED, LLI_ROCE_PEER_LEFT, LLI_ROCE_PEER_LEAVING,
};

struct lli_roce_peer {
    atomic_int state;
    struct ibv_ah *handle; /* of READY and LEAVING; the control thread's in MAKING and UNWANTED */
    union ibv_gid gid;
    uint32_t qp_number;
    uint32_t qkey;
    uint64_t leave_at;     /* LEAVING: when so many packets are done with */
    lli_ns retry_at;       /* FAILED: not asked for again before */
};

struct lli_roce_region {
    uintptr_t base;
    size_t size;
    struct ibv_mr *registration;
};

/* What becomes of a slot of the send queue when it is posted. */
enum lli_roce_out { LLI_ROCE_OUT_READ, LLI_ROCE_OUT_COPIED, LLI_ROCE_OUT_LOST };

enum lli_roce_fault { LLI_ROCE_FINE, LLI_ROCE_BROKEN, LLI_ROCE_REPAIRING };

struct lli_roce {
    /* Data path. Numbers count packets since open; slot = number & send_mask. */
    atomic_bool gone;          /* the device is, or a queue is beyond repair */
    atomic_bool parked;        /* the caller's thread knows it and uses no queue any more */
    atomic_int send_fault;     /* of enum lli_roce_fault: BROKEN is the caller's word, FINE the control thread's */
    bool stepwise;             /* a walk over completions ends after one */
    bool stamped;              /* they carry the time */
    bool v4;
    struct ibv_cq_ex *receive_cq_ex; /* the same as receive_cq where completions are walked in place, else NULL */
    struct ibv_cq *receive_cq;
    struct ibv_cq *send_cq;
    struct ibv_qp *receive_qp;
    struct ibv_qp *send_qp;

    uint64_t taken;            /* packets posted by the caller */
    uint64_t posted;           /* of these, handed to the device or lost */
    uint64_t done;             /* of these, completed: their slots are free */
    uint64_t freed;            /* of the posted ones, those whose memory may be reused, done or copied */
    uint64_t lost_end;         /* none of the taken ones from here on is lost, */
    uint64_t read_end;         /* and none from here on is read by the device later: so the slots need no look */
    uint32_t send_mask;
    uint32_t inline_max;       /* not above payload_max */
    uint32_t payload_max;
    struct ibv_send_wr *sends; /* by slot, each linked to the next */
    struct ibv_sge *send_pieces;
    uint8_t *send_kinds;       /* of enum lli_roce_out */
    lli_handle *send_to;
    struct lli_roce_region *region; /* the latest that was posted from */
    struct lli_roce_region regions[LLI_ROCE_REGIONS_MAX];
    struct lli_roce_sender senders[LLI_ROCE_GROUPS_MAX];

    uint8_t *buffers;          /* a GRH and a packet each */
    uint32_t buffer_stride;
    uint32_t buffer_offset;    /* of the GRH in a buffer, so that packets begin at cache lines */
    uint32_t receive_depth;
    uint32_t receive_posted;   /* buffers that the device has */
    uint32_t receive_run;      /* packets taken since the queue was found empty */
    uint32_t receive_had;      /* buffers that the device had then */
    uint32_t returned_count;
    uint32_t *returned;        /* buffers to give back */
    struct ibv_recv_wr *receives;
    struct ibv_sge *receive_pieces;
    struct lli_roce_gid own;
    uint16_t receiver_latest;
    uint16_t buckets[LLI_ROCE_BUCKETS]; /* hash table of receivers, plus 1; 0: empty */
    struct lli_roce_receiver receivers[LLI_ROCE_GROUPS_MAX];

    struct lli_peers peers;    /* a handle is LLI_ROCE_PEER | its place */
    struct lli_roce_peer *peer_routes; /* by place */
    uint32_t peers_leaving;    /* places that were forgotten and are in use yet */

    int epoll;                 /* of what the caller sleeps on: the channel, and what the control thread tells */
    int told;                  /* an eventfd: the device is gone, or the send queue works again */
    struct ibv_comp_channel *channel;
    bool receive_armed;
    bool send_armed;

    /* Control operations only. */
    const struct lli_log *log;
    struct lli_ip_interface interface;
    char device[64];
    uint8_t port;
    uint8_t gid_index;
    int numa_node;
    union ibv_gid gid;
    struct rdma_event_channel *events;
    struct rdma_cm_id *send_id;
    struct rdma_cm_id *receive_id;
    struct ibv_pd *domain;
    struct ibv_mr *buffers_registration;
    struct lli_memory buffers_memory;

    /* The control thread, and what it shares with the caller's. */
    struct lli_roce *next;     /* of all instances of the process: they share the device's asynchronous events */
    struct {
        pthread_t thread;
        bool running;
        bool stop;
        int wake;              /* an eventfd */
        pthread_mutex_t mutex; /* of members[].state and what goes with it */
        pthread_cond_t changed;
        pthread_mutex_t calls; /* held by whoever joins or leaves */
    } control;
    struct lli_roce_member members[2][LLI_ROCE_GROUPS_MAX]; /* of the send queue pair, of the other */

    /* Counters. */
    uint64_t send_errors;
    uint64_t send_waits;
    uint64_t receive_errors;
    uint64_t receive_dry;
    uint64_t dry_told; /* of these, by roce_drops() */
    uint64_t foreign;
    uint64_t peers_full;
    uint64_t peers_forgotten;
    atomic_uint_fast64_t peer_errors;
    atomic_uint_fast64_t groups_lost;
};

/* Whether the device is gone. From the caller's thread only, before anything that uses a queue. */
static inline bool lli_roce_is_gone(struct lli_roce *roce)
{
    if (__builtin_expect(!atomic_load_explicit(&roce->gone, memory_order_acquire), 1))
        return false;
    atomic_store_explicit(&roce->parked, true, memory_order_release);
    return true;
}

/* A packet that was taken, but not posted, is not sent. */
static inline void lli_roce_lose(struct lli_roce *roce, uint64_t number)
{
    roce->send_kinds[number & roce->send_mask] = LLI_ROCE_OUT_LOST;
    roce->lost_end = lli_max(roce->lost_end, number + 1);
}

/* ---------------------------------------------------------------------------------------------- roce_device.c */

/* Fails with errno: what was tried, and what can be done about it. */
int lli_roce_fail(const struct lli_roce *roce, const char *what);

/* Fails because the device is gone. */
int lli_roce_fail_gone(const struct lli_roce *roce);

/* Finds the port, GID and payload behind the interface, whose identifiers are bound already. LLM_EINTERFACE, LLM_EOPTION. */
int lli_roce_device_check(struct lli_roce *roce, const struct llm_options *options, struct ibv_device_attr *limits);

/* Whether what librdmacm resolved is RoCE v2; else says how to make it so. */
int lli_roce_route_check(const struct lli_roce *roce, const struct ibv_ah_attr *route);

struct lli_roce_gid lli_roce_gid_of(const union lli_ip_address *address);

/* That of an address as packets carry it. False: it is none. */
bool lli_roce_address_gid(const struct lli_address *address, struct lli_roce_gid *gid);

/* ----------------------------------------------------------------------------------------------- roce_queue.c */

int lli_roce_queues_open(struct lli_roce *roce, const struct llm_options *options, const struct ibv_device_attr *limits);
void lli_roce_queues_close(struct lli_roce *roce);
int lli_roce_region_begin(void *instance, void *base, size_t size);
void lli_roce_region_end(void *instance, void *base, size_t size);

/* Gives all returned buffers to the device. */
void lli_roce_repost(struct lli_roce *roce);

/* Waits until the device has done with all that it was given, or is gone. */
void lli_roce_drain(struct lli_roce *roce);

/* Brings a send queue that stopped after an error back to work. False: it cannot be. */
bool lli_roce_send_repair(const struct lli_roce *roce);

/* ----------------------------------------------------------------------------------------------- roce_group.c */

int lli_roce_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_roce_leave(void *instance, lli_handle handle, enum lli_join_mode mode);

/* Leaves the groups, however often they are joined. */
void lli_roce_leave_all(struct lli_roce *roce);

/* Joins again the groups that were lost. When to call it again, LLI_NEVER if none is left. */
lli_ns lli_roce_rejoin(struct lli_roce *roce, lli_ns now);

static inline uint32_t lli_roce_bucket(const struct lli_roce_gid *group, uint16_t port)
{
    return (uint32_t)((group->high ^ group->low ^ ((uint64_t)port << 40)) * 0x9e3779b97f4a7c15u >> 54);
}

/* ------------------------------------------------------------------------------------------------ roce_peer.c */

int lli_roce_address(void *instance, struct lli_address *address);
int lli_roce_peer(void *instance, const struct lli_address *packed, lli_handle *handle);
void lli_roce_forget(void *instance, const struct lli_address *packed);

/* Makes the address handles that are wanted. Control thread. */
void lli_roce_peers_resolve(struct lli_roce *roce);

/* ----------------------------------------------------------------------------------------------- roce_event.c */

int lli_roce_control_start(struct lli_roce *roce);
void lli_roce_control_stop(struct lli_roce *roce);
void lli_roce_control_wake(const struct lli_roce *roce);

/* Makes an eventfd readable. */
void lli_roce_signal(int fd);

/* -------------------------------------------------------------------------------------------- roce_control.c */

int lli_roce_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_roce_close(void *instance);
void lli_roce_abandon(void *instance);
int lli_roce_arm(void *instance);

/* ----------------------------------------------------------------------------------------------------- roce.c */

/* Takes completions of sends; returns how many packets are done with. */
uint64_t lli_roce_reap(void *instance);

#endif
