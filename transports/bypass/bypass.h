/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interface of the bypass transport.
 *
 *   bypass.c          control operations and the transport table
 *   bypass_data.c     receiving from the stack's memory, and warm sends
 *   onload.c, vma.c   user-space stacks: tables of their extensions to sockets
 *
 * Uses the sockets of the UDP transport: a stack preloaded into the program handles the calls instead of the
 * kernel. An instance is a UDP instance plus the state of its sockets in the stack.
 */
#ifndef LLI_BYPASS_H
#define LLI_BYPASS_H

#include "../udp/udp.h"
#include "onload_abi.h"
#include "vma_abi.h"

enum {
    /* Packets from the stack's memory not yet released. */
    LLI_BYPASS_UNRELEASED_MAX = 256,
    LLI_BYPASS_RELEASE_MAX = 64,                   /* packets released per call */
    LLI_BYPASS_RECEIVERS = LLI_UDP_GROUPS_MAX + 1, /* the last one is the unicast socket */
};

/*
 * lli_in.buffer bit: the packet is in the stack's memory, and the other bits are its index in unreleased;
 * else a UDP buffer.
 */
#define LLI_BYPASS_UNRELEASED ((uint64_t)1 << 32)

/* clang-format off */
#define LLI_BYPASS_OPTIONS(X)                                                                                                    \
    X(u32, INSTANCE, bypass_required, 1, 0, 1, "refuse a socket that no stack accelerates; 0: the kernel may have it")           \
    X(u32, INSTANCE, zero_copy, 1, 0, 1, "lend received packets from the stack's own memory")                                    \
    X(u64, INSTANCE, warm_ns, 0, 0, 10000000000, "time without a packet after which a warm send is made; 0: never")              \
    X(str, INSTANCE, stack_name, "", 0, 17, "the Onload stack to be in; empty: as the environment says")                         \
    X(u32, INSTANCE, stack_spin, 2, 0, 2, "Onload spins in blocking calls of the polling thread; 2: as the environment says")
/* clang-format on */

struct lli_bypass_options {
    LLI_BYPASS_OPTIONS(LLI_OPTION_FIELD)
};

struct lli_bypass;

/* User-space stack: its name and extensions. */
struct lli_stack {
    const char *name;
    const char *reasons; /* why it may leave a socket to the kernel */

    /* Returns true if the process runs on this stack; stores its functions in the instance. */
    bool (*find)(struct lli_bypass *bypass);
    /* Fails if an option is not supported. LLM_EOPTION, LLM_ESCHEME. */
    int (*check)(const struct lli_bypass *bypass, const struct lli_bypass_options *options);
    /* begin() and end() enclose the creation of sockets, which belong to the stack named by the option. */
    int (*begin)(const struct lli_bypass *bypass);
    void (*end)(const struct lli_bypass *bypass);
    bool (*accelerates)(const struct lli_bypass *bypass, int fd);
    bool (*warms)(const struct lli_bypass *bypass, int fd);
    /* Returns the number of the stack of an accelerated socket, for the stack's own tools. NULL: none. */
    uint64_t (*number)(const struct lli_bypass *bypass, int fd);
    /* Returns true if packets can be delivered from the stack's memory. */
    bool (*lends)(const struct lli_bypass *bypass);
    /*
     * Receives up to max packets from one socket; there is room for at least one, in unreleased and in the
     * UDP buffers. Negative: failed without a packet; the caller repeats it with the plain call, which
     * reports the reason.
     */
    int (*fetch)(struct lli_bypass *bypass, struct lli_udp_receiver *receiver, struct lli_in *packets,
                 int max);
    /* Returns memory to the socket that it came from. */
    bool (*give_back)(const struct lli_bypass *bypass, int fd, void **ids, int count);
    /*
     * Enables or disables spinning of the calling thread in blocking calls. NULL: not supported per thread.
     */
    void (*spin)(const struct lli_bypass *bypass, bool on);
};

extern const struct lli_stack lli_stack_onload;
extern const struct lli_stack lli_stack_vma;

/* Functions of Onload; NULL if missing. */
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

/* Packet delivered from the stack's memory. */
struct lli_bypass_unreleased {
    void *id;
    int fd; /* socket that it came from; -1: unused */
};

struct lli_bypass {
    struct lli_udp udp; /* first member, because UDP functions get this instance as theirs */

    /* Data path. */
    const struct lli_stack *stack;    /* NULL: none, allowed by bypass_required=0 */
    bool plain;                       /* all sockets receive as in the UDP transport */
    bool lends[LLI_BYPASS_RECEIVERS]; /* zero copy is possible; by handle, like all arrays of this size */
    uint32_t free_count;
    uint16_t free[LLI_BYPASS_UNRELEASED_MAX]; /* stack of unused indices of unreleased */
    struct lli_bypass_unreleased unreleased[LLI_BYPASS_UNRELEASED_MAX];
    uint32_t idle; /* empty polls */
    uint32_t warm_count;
    uint32_t warm_next;           /* next socket to warm */
    int warm[LLI_UDP_GROUPS_MAX]; /* sockets of joins to send that support warm sends */
    uint64_t warm_ns;
    uint64_t warm_at;
    uint64_t warm_taken; /* udp.taken when warm_at was set */
    struct lli_onload onload;
    const struct vma_api *vma;

    /* Control operations only. */
    const struct lli_transport *below; /* the UDP transport */
    char stack_name[sizeof((struct lli_bypass_options *)NULL)->stack_name];
    uint32_t spin; /* option stack_spin */
    bool required;
    bool zero_copy;
    bool warned_warm;
    bool sender_accelerated[LLI_UDP_GROUPS_MAX];
    bool sender_warms[LLI_UDP_GROUPS_MAX];
    bool receiver_accelerated[LLI_BYPASS_RECEIVERS];
    uint32_t parted_count;
    int parted[LLI_BYPASS_UNRELEASED_MAX]; /* sockets of groups left before their packets were released */

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

/* ------------------------------------------------------------------------------------------ bypass_data.c */

int lli_bypass_receive(void *instance, struct lli_in *packets, int max);
void lli_bypass_release(void *instance, const struct lli_in *packets, int count);

/* Returns all packets of the stack's memory. */
void lli_bypass_recall(struct lli_bypass *bypass);

/*
 * For fetch() of the stacks: lli_bypass_room() returns true if another packet fits; lli_bypass_lend()
 * delivers a packet in place; lli_bypass_lend_buffer() delivers one that was copied to lli_bypass_buffer().
 */
bool lli_bypass_room(const struct lli_bypass *bypass);
void lli_bypass_lend(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, void *id,
                     struct iovec data, struct lli_in *packet);
uint8_t *lli_bypass_buffer(const struct lli_bypass *bypass);
void lli_bypass_lend_buffer(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver, size_t size,
                            struct lli_in *packet);

#endif
