/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of the RoCE transport.
 *
 *   roce_device.c   device, GID and MTU of an interface; errors and remedies
 *   roce_queue.c    memory, completion queues and queue pairs
 *   roce_group.c    groups: joins, leaves, and finding the group of a packet
 *   roce_peer.c     addresses of other instances and their address handles
 *   roce_event.c    control thread: events of librdmacm and the device, address handles, repair of the send queue
 *   roce_control.c  open, close and waiting
 *   roce.c          data operations and the transport table
 *
 * An instance serves one context on one interface in one address family. It has two UD queue pairs: one joins
 * groups as send-only member and sends everything; the other is a full member and receives everything,
 * including unicasts. A packet's immediate data contains the destination port, because RDMA groups have no
 * ports; 0 means unicast. The group itself is found in the packet's GRH.
 *
 * Two threads use an instance. The caller's thread performs the data operations and requests joins; the
 * control thread waits for what may take a second: join events, address handles, faults. They share `control`
 * under its mutex, and the atomic fields. When the device is removed, the control thread sets `gone`; the
 * caller's thread, the only user of the queues, sees it at its next call and sets `parked`; then the control
 * thread releases all resources, so that the driver can unload.
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
    /* Bytes before every packet in a receive buffer; for IPv4 the last 20 are its header. */
    LLI_ROCE_GRH = 40,
    LLI_ROCE_POST_MAX = 256,
    LLI_ROCE_SEND_DEPTH = 1024,        /* of the send queue; a power of two */
    LLI_ROCE_RECEIVE_DEPTH_MAX = 8192, /* of the receive queue; rcvbuf_bytes may ask for less */
    LLI_ROCE_RECEIVE_DEPTH_MIN = 256,
    LLI_ROCE_SIGNAL = 64,      /* one send in this many is signalled, and the last of a flush */
    LLI_ROCE_REPOST = 64,      /* buffers posted to the device at a time */
    LLI_ROCE_POLL = 32,        /* completions fetched per call if they cannot be iterated in place */
    LLI_ROCE_INLINE = 256,     /* inline data to request, in bytes */
    LLI_ROCE_GROUPS_MAX = 256, /* joins to send; also groups and ports joined to receive */
    LLI_ROCE_BUCKETS = 1024,   /* of the hash table of groups; a power of two */
    LLI_ROCE_REGIONS_MAX = 256,
};

/*
 * Immediate data, in host order: a mark that identifies our packets, a flag that tells the sender's own host
 * to drop it, the port.
 */
#define LLI_ROCE_MARK ((uint32_t)0x6c6c << 17)
#define LLI_ROCE_NO_LOOP ((uint32_t)1 << 16)

#define LLI_ROCE_SECOND ((lli_ns)1000000000)

/* Handles of joins are indices into senders or receivers; handles of peers also have this bit set. */
#define LLI_ROCE_PEER ((lli_handle)1 << 31)

/* Group membership of one queue pair in the device; without a port. */
enum lli_roce_membership {
    LLI_ROCE_FREE,
    LLI_ROCE_JOINING,
    LLI_ROCE_JOINED,
    LLI_ROCE_REFUSED,
    LLI_ROCE_LOST
};

struct lli_roce_member {
    enum lli_roce_membership state;
    uint32_t users;
    int status;      /* error of the event that refused the join */
    lli_ns retry_at; /* time of the next attempt in LOST; nonzero in JOINING: a repeated join */
    struct rdma_cm_id *id;
    union lli_ip_address address; /* with port 0 */
    struct ibv_ah_attr route;     /* resolved by librdmacm; valid in JOINED */
    uint32_t qp_number;
    uint32_t qkey;
};

/* Join to send. */
struct lli_roce_sender {
    struct lli_roce_member *member; /* NULL: unused */
    struct ibv_ah *handle;
    uint32_t qp_number;
    uint32_t qkey;
    uint32_t note; /* immediate data, in network order */
};

/* A 16-byte GID as two words, for fast comparison. */
struct lli_roce_gid {
    uint64_t high;
    uint64_t low;
};

static inline bool lli_roce_gid_same(const struct lli_roce_gid *a, const struct lli_roce_gid *b)
{
    return a->high == b->high && a->low == b->low;
}

/* Group and port joined to receive. */
struct lli_roce_receiver {
    struct lli_roce_member *member; /* NULL: unused */
    uint32_t users;
    uint16_t port;
    struct lli_roce_gid group;
    struct lli_roce_gid source; /* all zero: any */
};

/*
 * States of a peer. The caller's thread moves it from NEW, or from FAILED after a delay, to WANTED; the
 * control thread moves it through MAKING to READY or FAILED. A forgotten address returns to NEW and its place
 * is freed: at once if nothing uses it; once the control thread is done with it, which it marks by moving
 * UNWANTED to LEFT; or from LEAVING, once all packets that use its handle are completed.
 */
enum lli_roce_peer_state {
    LLI_ROCE_PEER_NEW,
    LLI_ROCE_PEER_WANTED,
    LLI_ROCE_PEER_MAKING,
    LLI_ROCE_PEER_READY,
    LLI_ROCE_PEER_FAILED,
    LLI_ROCE_PEER_UNWANTED,
    LLI_ROCE_PEER_LEFT,
    LLI_ROCE_PEER_LEAVING,
};

struct lli_roce_peer {
    atomic_int state;
    /* Valid in READY and LEAVING; owned by the control thread in MAKING and UNWANTED. */
    struct ibv_ah *handle;
    union ibv_gid gid;
    uint32_t qp_number;
    uint32_t qkey;
    uint64_t leave_at; /* LEAVING: number of completed packets at which it is freed */
    lli_ns retry_at;   /* FAILED: time of the next attempt */
};

struct lli_roce_region {
    uintptr_t base;
    size_t size;
    struct ibv_mr *registration;
};

/* Slot of the send queue: the device reads its memory later, it is sent inline, or it is dropped. */
enum lli_roce_out { LLI_ROCE_OUT_READ, LLI_ROCE_OUT_COPIED, LLI_ROCE_OUT_LOST };

enum lli_roce_fault { LLI_ROCE_FINE, LLI_ROCE_BROKEN, LLI_ROCE_REPAIRING };

/*
 * Sending: roce.c; roce_queue.c makes and repairs the queue. Numbers count packets since open; slot = number
 * & mask.
 */
struct lli_roce_out_queue {
    atomic_int fault; /* enum lli_roce_fault: the caller sets BROKEN, the control thread FINE */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint64_t taken;    /* packets posted by the caller */
    uint64_t posted;   /* of these, posted to the device or lost */
    uint64_t done;     /* of these, completed: their slots are free */
    uint64_t freed;    /* of the posted ones, those whose memory may be reused: completed or inline */
    uint64_t lost_end; /* no packet from this number on is lost */
    uint64_t read_end; /* no packet from this number on is read by the device later */
    uint32_t mask;
    uint32_t inline_max; /* at most payload_max */
    uint32_t payload_max;
    struct ibv_send_wr *requests; /* by slot, each linked to the next */
    struct ibv_sge *pieces;
    uint8_t *kinds; /* enum lli_roce_out, by slot */
    lli_handle *to;
    struct lli_roce_region *region; /* the region most recently posted from */
    struct lli_roce_region regions[LLI_ROCE_REGIONS_MAX];
    struct lli_roce_sender senders[LLI_ROCE_GROUPS_MAX];
    bool armed;
    struct rdma_cm_id *id; /* control operations only */
};

/* Receiving: roce.c; roce_queue.c makes the queue. */
struct lli_roce_in_queue {
    bool stepwise;           /* iterate one completion at a time */
    bool stamped;            /* completions have time stamps */
    struct ibv_cq_ex *cq_ex; /* cq if its completions are iterated in place, else NULL */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *buffers; /* a GRH and a packet each */
    uint32_t stride;  /* distance of two buffers */
    uint32_t offset;  /* offset of the GRH in a buffer, so that packets start at cache lines */
    uint32_t depth;
    uint32_t posted; /* buffers owned by the device */
    uint32_t run;    /* packets received since the queue was last empty */
    uint32_t had;    /* buffers that the device had then */
    uint32_t returned_count;
    uint32_t *returned; /* buffers to post again */
    struct ibv_recv_wr *requests;
    struct ibv_sge *pieces;
    struct lli_roce_gid own;
    uint16_t latest;                    /* the receiver most recently delivered to */
    uint16_t buckets[LLI_ROCE_BUCKETS]; /* hash table of index + 1 in receivers; 0: empty */
    struct lli_roce_receiver receivers[LLI_ROCE_GROUPS_MAX];
    bool armed;
    struct rdma_cm_id *id; /* control operations only, like the next two */
    struct ibv_mr *registration;
    struct lli_memory memory; /* of the buffers */
};

/* The interface and its device: roce_device.c. */
struct lli_roce_device {
    struct lli_ip_interface interface;
    char name[64];
    uint8_t port;
    uint8_t gid_index;
    int numa_node;
    union ibv_gid gid;
    struct ibv_pd *domain;
};

struct lli_roce {
    atomic_bool gone;   /* the device was removed, or a queue cannot be repaired */
    atomic_bool parked; /* the caller's thread has seen gone, and no longer uses the queues */
    bool v4;
    struct lli_roce_out_queue out;
    struct lli_roce_in_queue in;
    struct {
        struct lli_peers table;       /* a handle is LLI_ROCE_PEER | its place */
        struct lli_roce_peer *routes; /* by place */
        uint32_t leaving;             /* forgotten places still in use */
    } peers;                          /* roce_peer.c */
    struct {
        int epoll; /* for the caller's sleep: the completion channel and woken */
        int woken; /* eventfd: the device is gone, or the send queue was repaired */
        struct ibv_comp_channel *channel;
    } sleep;

    /* Control operations only. */
    const struct lli_log *log;
    struct lli_roce_device device;
    struct rdma_event_channel *events;

    /* Control thread, and fields shared with it. */
    /* List of all instances of the process, which share the device's asynchronous events. */
    struct lli_roce *next;
    struct {
        pthread_t thread;
        bool running;
        bool stop;
        int wake;              /* eventfd */
        pthread_mutex_t mutex; /* protects members[].state and related fields */
        pthread_cond_t changed;
        pthread_mutex_t calls; /* locked during joins and leaves */
    } control;
    /* Of the send queue pair, of the receive queue pair. */
    struct lli_roce_member members[2][LLI_ROCE_GROUPS_MAX];

    struct {
        uint64_t send_errors;
        uint64_t send_waits;
        uint64_t receive_errors;
        uint64_t receive_dry;
        uint64_t dry_reported; /* receive_dry at the latest call of roce_drops() */
        uint64_t foreign;
        uint64_t peers_full;
        uint64_t peers_forgotten;
        atomic_uint_fast64_t peer_errors;
        atomic_uint_fast64_t groups_lost;
    } counters;
};

/* Returns true if the device is gone. Called from the caller's thread only, before any use of a queue. */
static inline bool lli_roce_is_gone(struct lli_roce *roce)
{
    if (__builtin_expect(!atomic_load_explicit(&roce->gone, memory_order_acquire), 1))
        return false;
    atomic_store_explicit(&roce->parked, true, memory_order_release);
    return true;
}

/* Drops a packet that was taken but not posted yet. */
static inline void lli_roce_lose(struct lli_roce *roce, uint64_t number)
{
    roce->out.kinds[number & roce->out.mask] = LLI_ROCE_OUT_LOST;
    roce->out.lost_end = lli_max(roce->out.lost_end, number + 1);
}

/* ------------------------------------------------------------------------------------------ roce_device.c */

/* Fails with a code for errno; logs the operation and the remedy. */
int lli_roce_fail(const struct lli_roce *roce, const char *what);

/* Fails because the device is gone. */
int lli_roce_fail_gone(const struct lli_roce *roce);

/*
 * Determines port, GID and payload of the interface, whose ids are already bound. LLM_EINTERFACE,
 * LLM_EOPTION.
 */
int lli_roce_device_check(struct lli_roce *roce, const struct llm_options *options,
                          struct ibv_device_attr *limits);

/* Fails unless the route resolved by librdmacm is RoCE v2; logs the remedy. */
int lli_roce_route_check(const struct lli_roce *roce, const struct ibv_ah_attr *route);

struct lli_roce_gid lli_roce_gid_of(const union lli_ip_address *address);

/* Extracts the GID from a packed address. False: not such an address. */
bool lli_roce_address_gid(const struct lli_address *address, struct lli_roce_gid *gid);

/* ------------------------------------------------------------------------------------------- roce_queue.c */

int lli_roce_queues_open(struct lli_roce *roce, const struct llm_options *options,
                         const struct ibv_device_attr *limits);
void lli_roce_queues_close(struct lli_roce *roce);
int lli_roce_region_begin(void *instance, void *base, size_t size);
void lli_roce_region_end(void *instance, void *base, size_t size);

/* Posts all returned buffers to the device. */
void lli_roce_repost(struct lli_roce *roce);

/* Waits until the device has completed all posted sends, or is gone; one second at most. */
void lli_roce_drain(struct lli_roce *roce);

/* Restarts a send queue that stopped after an error. False: not possible. */
bool lli_roce_send_repair(const struct lli_roce *roce);

/* ------------------------------------------------------------------------------------------- roce_group.c */

int lli_roce_join(void *instance, const struct lli_group *group, enum lli_join_mode mode, lli_handle *handle);
void lli_roce_leave(void *instance, lli_handle handle, enum lli_join_mode mode);

/* Leaves all groups, whatever their number of joins. */
void lli_roce_leave_all(struct lli_roce *roce);

/* Rejoins lost groups. Returns when to call it again; LLI_NEVER if no group is lost. */
lli_ns lli_roce_rejoin(struct lli_roce *roce, lli_ns now);

static inline uint32_t lli_roce_bucket(const struct lli_roce_gid *group, uint16_t port)
{
    return (uint32_t)((group->high ^ group->low ^ ((uint64_t)port << 40)) * 0x9e3779b97f4a7c15u >> 54);
}

/* -------------------------------------------------------------------------------------------- roce_peer.c */

int lli_roce_address(void *instance, struct lli_address *address);
int lli_roce_peer(void *instance, const struct lli_address *packed, lli_handle *handle);
void lli_roce_forget(void *instance, const struct lli_address *packed);

/* Creates the requested address handles. Control thread. */
void lli_roce_peers_resolve(struct lli_roce *roce);

/* ------------------------------------------------------------------------------------------- roce_event.c */

int lli_roce_control_start(struct lli_roce *roce);
void lli_roce_control_stop(struct lli_roce *roce);
void lli_roce_control_wake(const struct lli_roce *roce);

/* Makes an eventfd readable. */
void lli_roce_signal(int fd);

/* ----------------------------------------------------------------------------------------- roce_control.c */

int lli_roce_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps);
void lli_roce_close(void *instance);
void lli_roce_abandon(void *instance);
int lli_roce_arm(void *instance);

/* ------------------------------------------------------------------------------------------------- roce.c */

/* Processes send completions; returns the number of packets completed. */
uint64_t lli_roce_reap(void *instance);

#endif
