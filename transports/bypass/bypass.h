/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the bypass transport share.
 *
 *   bypass.c          control operations, and the transport's table
 *   bypass_data.c     receiving from the stack's own memory, and warm sends
 *   onload.c, vma.c   the stacks, each a table of what it adds to sockets
 *
 * The sockets are those of the UDP transport: a stack that was loaded before the program takes the calls in the kernel's place.
 * An instance is one of UDP, and what is known of its sockets beside.
 */
#ifndef LLI_BYPASS_H
#define LLI_BYPASS_H

#include "../udp/udp.h"
#include "onload_abi.h"
#include "vma_abi.h"

enum {
    LLI_BYPASS_KEPT_MAX = 256,                     /* packets lent from the stack's memory at a time */
    LLI_BYPASS_RELEASE_MAX = 64,                   /* of these given back by one call */
    LLI_BYPASS_RECEIVERS = LLI_UDP_GROUPS_MAX + 1, /* the last is the unicast socket */
};

/* In lli_in.buffer: the packet lies in the stack's memory, and the rest is its place in kept; else in a buffer of UDP's. */
#define LLI_BYPASS_KEPT ((uint64_t)1 << 32)

struct lli_bypass;

/* A stack: what it is called, and what it can be asked. */
struct lli_stack {
    const char *name;
    const char *reasons; /* for which it may leave a socket to the kernel */

    /* Whether this process has it; if so its functions are in the instance. */
    bool (*find)(struct lli_bypass *bypass);
    /* What the options ask for and it does not have: LLM_EOPTION. */
    int (*check)(const struct lli_bypass *bypass, const struct llm_options *options);
    /* Around the making of sockets, which shall be in the stack of that name. */
    int (*begin)(const struct lli_bypass *bypass);
    void (*end)(const struct lli_bypass *bypass);
    bool (*accelerates)(const struct lli_bypass *bypass, int fd);
    bool (*warms)(const struct lli_bypass *bypass, int fd);
    /* The number of the stack that an accelerated socket is in, for the stack's own tools; NULL: it has none. */
    uint64_t (*number)(const struct lli_bypass *bypass, int fd);
    /* Whether received packets can be lent from its memory. */
    bool (*lends)(const struct lli_bypass *bypass);
    /*
     * Lends up to max packets of one socket; one of them at least fits, into kept and into the buffers of UDP. Negative: none,
     * and the plain call is to say why.
     */
    int (*fetch)(struct lli_bypass *bypass, struct lli_udp_receiver *receiver, struct lli_in *packets, int max);
    /* Gives memory back to the socket that it came from. */
    bool (*give_back)(const struct lli_bypass *bypass, int fd, void **ids, int count);
    /* Has the calling thread spin, or not, in calls that block. NULL: it has none for a thread. */
    void (*spin)(const struct lli_bypass *bypass, bool on);
};

extern const struct lli_stack lli_stack_onload;
extern const struct lli_stack lli_stack_vma;

/* Those of Onload that were found; the others are NULL. */
struct lli_onload {
    int (*is_present)(void);
    int (*fd_stat)(int fd, struct onload_stat *stat);
    int (*fd_check_feature)(int fd, int feature);
    int (*set_stackname)(int who, int scope, const char *name);
    int (*stackname_save)(void);
    int (*stackname_restore)(void);
    int (*thread_set_spin)(int type, int on);
    int (*zc_recv)(int fd, struct onload_zc_recv_args *args);
    int (*zc_release_buffers)(int fd, void **ids, int count);
};

/* Memory of the stack that is lent. */
struct lli_bypass_kept {
    void *id;
    int fd; /* of the socket that it came from; -1: the place is free */
};

struct lli_bypass {
    struct lli_udp udp; /* first: UDP's functions get this instance as theirs */

    /* Data path. */
    const struct lli_stack *stack; /* NULL: none, which bypass_required=0 allows */
    bool plain;                    /* all receiving is as UDP does it */
    bool lends[LLI_BYPASS_RECEIVERS]; /* by handle, as all of that size */
    uint32_t free_count;
    uint16_t free[LLI_BYPASS_KEPT_MAX]; /* places in kept */
    struct lli_bypass_kept kept[LLI_BYPASS_KEPT_MAX];
    uint32_t idle;      /* polls that got nothing */
    uint32_t warm_count;
    uint32_t warm_next; /* whose turn it is */
    int warm[LLI_UDP_GROUPS_MAX]; /* sockets of the joins to send that can be warmed */
    uint64_t warm_ns;
    uint64_t warm_at;
    uint64_t warm_taken; /* packets posted when that was set */
    struct lli_onload onload;
    const struct vma_api *vma;

    /* Control operations only. */
    const struct lli_transport *below; /* udp */
    char stack_name[sizeof((struct llm_options *)NULL)->stack_name];
    uint32_t spin; /* option stack_spin */
    bool required;
    bool zero_copy;
    bool warned_warm;
    bool sender_accelerated[LLI_UDP_GROUPS_MAX];
    bool sender_warms[LLI_UDP_GROUPS_MAX];
    bool receiver_accelerated[LLI_BYPASS_RECEIVERS];
    uint32_t parted_count;
    int parted[LLI_BYPASS_KEPT_MAX]; /* sockets of groups left while packets of theirs were lent */

    /* Counters and gauges. */
    uint64_t accelerated;
    uint64_t in_kernel;
    uint64_t stack_number;
    uint64_t lent;
    uint64_t copied;
    uint64_t exhausted;
    uint64_t fetch_errors;
    uint64_t release_errors;
    uint64_t warm_sends;
    uint64_t warm_errors;
};

/* ------------------------------------------------------------------------------------------------ bypass_data.c */

int lli_bypass_receive(void *instance, struct lli_in *packets, int max);
void lli_bypass_release(void *instance, const struct lli_in *packets, int count);

/* Gives everything back that is still lent. */
void lli_bypass_recall(struct lli_bypass *bypass);

/* For the stacks' fetch(): whether another packet fits; lends one where it lies; lends one that was written to a free buffer. */
bool lli_bypass_room(const struct lli_bypass *bypass);
void lli_bypass_lend(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, void *id, struct iovec data,
                     struct lli_in *packet);
uint8_t *lli_bypass_buffer(const struct lli_bypass *bypass);
void lli_bypass_lend_buffer(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, size_t size,
                            struct lli_in *packet);

#endif
