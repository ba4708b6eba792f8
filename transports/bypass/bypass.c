/* SPDX-License-Identifier: Apache-2.0 */
/* Control operations: detection of the stack and of the sockets it accelerates; the transport table. */
#define _GNU_SOURCE
#include "bypass.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct lli_stack *const stacks[] = {&lli_stack_onload, &lli_stack_vma};

enum { UNICAST = LLI_UDP_GROUPS_MAX }; /* index of the unicast socket among the receivers */

/* ------------------------------------------------------------------------------------------------ sockets */

/* Derives the gauges and the lists of the data path from the state of each socket. */
static void bypass_survey(struct lli_bypass *bypass)
{
    const struct lli_udp *udp = &bypass->udp;
    uint64_t sockets = 1;

    bypass->accelerated = bypass->receiver_accelerated[UNICAST];
    bypass->plain = !bypass->lends[UNICAST];
    bypass->warm_count = bypass->warm_next = 0;
    for (uint32_t i = 0; i < LLI_UDP_GROUPS_MAX; i++) {
        sockets += udp->out.senders[i] >= 0;
        sockets += udp->in.groups[i].fd >= 0;
        bypass->accelerated += bypass->sender_accelerated[i];
        bypass->accelerated += bypass->receiver_accelerated[i];
        bypass->plain = bypass->plain && !bypass->lends[i];
        if (bypass->sender_warms[i])
            bypass->warm[bypass->warm_count++] = udp->out.senders[i];
    }
    bypass->in_kernel = sockets - bypass->accelerated;
}

/* Checks a socket after bind, connect and join, because each of them can hand it over to the kernel. */
static int bypass_admit(const struct lli_bypass *bypass, int fd, const char *does, const char *what,
                        bool *accelerated)
{
    static const char text[] =
        "bypass: %s does not accelerate the socket that %s %s on interface %s. Perhaps %s%s";

    *accelerated = bypass->stack != NULL && bypass->stack->accelerates(bypass, fd);
    if (*accelerated || bypass->stack == NULL)
        return 0;
    if (bypass->required)
        return lli_fail(bypass->udp.log, LLM_EINTERFACE, text, bypass->stack->name, does, what,
                        bypass->udp.interface.name, bypass->stack->reasons,
                        ". bypass_required=0 would let the kernel have it");
    lli_log(bypass->udp.log, LLM_LEVEL_WARNING, text, bypass->stack->name, does, what,
            bypass->udp.interface.name, bypass->stack->reasons, "");
    return 0;
}

static bool bypass_can_lend(const struct lli_bypass *bypass, bool accelerated)
{
    return accelerated && bypass->zero_copy && bypass->stack->lends(bypass);
}

static int bypass_admit_receiver(struct lli_bypass *bypass, const struct lli_udp_receiver *receiver,
                                 uint32_t place)
{
    char text[LLI_IP_TEXT_MAX];
    int status;

    status = bypass_admit(bypass, receiver->fd, "receives", lli_ip_text(&receiver->group, text),
                          &bypass->receiver_accelerated[place]);
    bypass->lends[place] = bypass_can_lend(bypass, bypass->receiver_accelerated[place]);
    return status;
}

static int bypass_admit_sender(struct lli_bypass *bypass, const struct lli_group *group, lli_handle handle)
{
    const int fd = bypass->udp.out.senders[handle];
    int status = bypass_admit(bypass, fd, "sends to", group->host, &bypass->sender_accelerated[handle]);

    bypass->sender_warms[handle] =
        bypass->sender_accelerated[handle] && bypass->warm_ns > 0 && bypass->stack->warms(bypass, fd);
    if (bypass->sender_accelerated[handle] && bypass->warm_ns > 0 && !bypass->sender_warms[handle] &&
        !bypass->warned_warm) {
        bypass->warned_warm = true;
        lli_log(bypass->udp.log, LLM_LEVEL_WARNING,
                "bypass: warm_ns=%llu: %s has no warm sends for the socket that sends to %s, so none are "
                "made; leave it out",
                (unsigned long long)bypass->warm_ns, bypass->stack->name, group->host);
    }
    return status;
}

/* -------------------------------------------------------------------------------------------- open, close */

static bool bypass_has(const struct lli_udp *udp, int fd)
{
    const struct lli_bypass *bypass = (const void *)udp;

    return bypass->stack->accelerates(bypass, fd);
}

static int bypass_find(struct lli_bypass *bypass, const struct lli_bypass_options *options)
{
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
        if (!stacks[i]->find(bypass))
            continue;
        bypass->stack = stacks[i];
        bypass->udp.bypassed = bypass_has;
        return bypass->stack->check(bypass, options);
    }
    if (bypass->required)
        return lli_fail(bypass->udp.log, LLM_ESCHEME,
                        "bypass: no stack that accelerates sockets is loaded into this program: start it as "
                        "'onload --profile=latency PROGRAM' or with LD_PRELOAD=libvma.so, or use udp://");
    lli_log(bypass->udp.log, LLM_LEVEL_WARNING,
            "bypass: no stack that accelerates sockets is loaded into this program: the kernel carries all "
            "packets, as "
            "bypass_required=0 allows");
    return 0;
}

static const struct lli_option bypass_options[] = {
#define BYPASS_OPTION(...) LLI_OPTION_ROW(struct lli_bypass_options, __VA_ARGS__)
    LLI_BYPASS_OPTIONS(BYPASS_OPTION)};

static const struct lli_option_table bypass_option_table = {
    bypass_options, sizeof bypass_options / sizeof bypass_options[0], sizeof(struct lli_bypass_options)};

static void instance_init(struct lli_bypass *bypass, const struct lli_transport_config *config,
                          const struct lli_bypass_options *options)
{
    bypass->udp.log = config->log;
    bypass->below = config->registry->find("udp");
    memcpy(bypass->stack_name, options->stack_name, sizeof bypass->stack_name);
    bypass->spin = options->stack_spin;
    bypass->required = options->bypass_required != 0;
    bypass->zero_copy = options->zero_copy != 0;
    bypass->warm_ns = options->warm_ns;
    for (int i = 0; i < LLI_BYPASS_UNRELEASED_MAX; i++) {
        bypass->unreleased[i].fd = -1;
        bypass->free[bypass->free_count++] = (uint16_t)i;
    }
}

/* Sets the stack for new sockets to the one that the option names. */
static int bypass_begin(const struct lli_bypass *bypass)
{
    return bypass->stack == NULL ? 0 : bypass->stack->begin(bypass);
}

static void bypass_end(const struct lli_bypass *bypass)
{
    if (bypass->stack != NULL)
        bypass->stack->end(bypass);
}

static int bypass_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct lli_bypass *bypass = instance;
    struct lli_transport_config own = *config;
    struct llm_options for_udp = *config->options;
    struct lli_bypass_options options;
    int status;

    /* No stack merges packets, and packets received by calls other than recvmsg() have no segment size. */
    for_udp.gro = 0;
    own.options = &for_udp;
    lli_option_values_read(config->values, &bypass_option_table, &options);
    instance_init(bypass, config, &options);
    if ((status = bypass_find(bypass, &options)) != 0 || (status = bypass_begin(bypass)) != 0)
        return status;
    status = lli_udp_open(&bypass->udp, &own, caps);
    bypass_end(bypass);
    if (status != 0)
        return status;
    status = bypass_admit_receiver(bypass, &bypass->udp.in.control, UNICAST);
    if (status != 0) {
        lli_udp_close(&bypass->udp);
        return status;
    }
    if (bypass->stack != NULL && bypass->stack->number != NULL)
        bypass->stack_number = bypass->stack->number(bypass, bypass->udp.in.control.fd);
    bypass_survey(bypass);
    return 0;
}

/* Closes sockets of groups that were left, once their packets are released. */
static void bypass_sweep(struct lli_bypass *bypass)
{
    uint32_t stay = 0;

    for (uint32_t i = 0; i < bypass->parted_count; i++) {
        bool lent = false;

        for (uint32_t k = 0; k < LLI_BYPASS_UNRELEASED_MAX; k++)
            lent = lent || bypass->unreleased[k].fd == bypass->parted[i];
        if (lent)
            bypass->parted[stay++] = bypass->parted[i];
        else
            close(bypass->parted[i]);
    }
    bypass->parted_count = stay;
}

/* The parent releases packets delivered from the stack's memory. */
static void bypass_abandon(void *instance)
{
    struct lli_bypass *bypass = instance;

    for (uint32_t i = 0; i < bypass->parted_count; i++)
        close(bypass->parted[i]);
    lli_udp_close(&bypass->udp);
}

static void bypass_close(void *instance)
{
    struct lli_bypass *bypass = instance;

    lli_bypass_recall(bypass);
    bypass_sweep(bypass);
    lli_udp_close(&bypass->udp);
}

/* -------------------------------------------------------------------------------------------- join, leave */

/*
 * Retains the socket of a group that was left while packets from it are not released: the stack's memory must
 * be returned to the socket that it came from, which VMA accepts only while the socket is in its group.
 */
static void bypass_part(struct lli_bypass *bypass, struct lli_udp_receiver *receiver)
{
    bool lent = false;

    for (uint32_t i = 0; i < LLI_BYPASS_UNRELEASED_MAX; i++)
        lent = lent || bypass->unreleased[i].fd == receiver->fd;
    if (!lent)
        return;
    epoll_ctl(bypass->udp.epoll, EPOLL_CTL_DEL, receiver->fd, NULL);
    bypass->parted[bypass->parted_count++] = receiver->fd;
    receiver->fd = -1;
}

static void bypass_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct lli_bypass *bypass = instance;
    struct lli_udp_receiver *receiver = &bypass->udp.in.groups[handle];

    bypass_sweep(bypass);
    if (mode == LLI_JOIN_SEND) {
        bypass->sender_accelerated[handle] = bypass->sender_warms[handle] = false;
    } else if (receiver->users == 1) {
        bypass_part(bypass, receiver);
        bypass->receiver_accelerated[handle] = bypass->lends[handle] = false;
    }
    lli_udp_leave(instance, handle, mode);
    bypass_survey(bypass);
}

static int bypass_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                       lli_handle *handle)
{
    struct lli_bypass *bypass = instance;
    lli_handle joined;
    int status;

    bypass_sweep(bypass);
    if ((status = bypass_begin(bypass)) != 0)
        return status;
    status = lli_udp_join(instance, group, mode, &joined);
    bypass_end(bypass);
    if (status != 0)
        return status;
    if (mode == LLI_JOIN_SEND)
        status = bypass_admit_sender(bypass, group, joined);
    else if (bypass->udp.in.groups[joined].users == 1)
        status = bypass_admit_receiver(bypass, &bypass->udp.in.groups[joined], joined);
    if (status != 0)
        bypass_leave(instance, joined, mode);
    else
        *handle = joined;
    bypass_survey(bypass);
    return status;
}

/* ------------------------------------------------------------------------------------------------ waiting */

/* Sets spinning of the calling thread, which is about to sleep: spinning is a setting of the thread. */
static int bypass_arm(void *instance)
{
    const struct lli_bypass *bypass = instance;

    if (bypass->spin != 2 && bypass->stack != NULL)
        bypass->stack->spin(bypass, bypass->spin == 1);
    return lli_udp_arm(instance);
}

/* -------------------------------------------------------------------------------------------------- table */

static const struct lli_transport *bypass_inner(const void *instance, int index, const void **inner_instance)
{
    if (index > 0)
        return NULL;
    *inner_instance = &((const struct lli_bypass *)instance)->udp;
    return ((const struct lli_bypass *)instance)->below;
}

/* Accepts packets in the stack's memory from any source: they were sent to a group. */
static bool bypass_came_from(void *instance, const struct lli_in *packet, const struct lli_address *address)
{
    return (packet->buffer & LLI_BYPASS_UNRELEASED) != 0 || lli_udp_came_from(instance, packet, address);
}

static const struct lli_counter bypass_counters[] = {
    {"bypass_accelerated", offsetof(struct lli_bypass, accelerated)}, /* sockets in the stack (gauge) */
    /* Sockets in the kernel (gauge) */
    {"bypass_in_kernel", offsetof(struct lli_bypass, in_kernel)},
    /* Number of the stack, for its own tools (gauge) */
    {"bypass_stack_number", offsetof(struct lli_bypass, stack_number)},
    /* Packets delivered from the stack's memory. */
    {"bypass_lent", offsetof(struct lli_bypass, lent)},
    /* Packets copied that zero copy might have delivered. */
    {"bypass_copied", offsetof(struct lli_bypass, copied)},
    /* Receive calls without a free place or buffer. */
    {"bypass_exhausted", offsetof(struct lli_bypass, exhausted)},
    {"bypass_fetch_errors", offsetof(struct lli_bypass, fetch_errors)}, /* failed zero-copy calls */
    /* Packets that the stack refused to take back. */
    {"bypass_release_errors", offsetof(struct lli_bypass, release_errors)},
    /* Warm sends, which transmit nothing. */
    {"bypass_warm_sends", offsetof(struct lli_bypass, warm_sends)},
    {"bypass_warm_errors", offsetof(struct lli_bypass, warm_errors)}, /* failed warm sends */
    {NULL, 0},
};

static const char *const bypass_gauges[] = {"bypass_accelerated", "bypass_in_kernel", "bypass_stack_number",
                                            NULL};

const struct lli_transport lli_transport_bypass = {
    .scheme = "bypass",
    .size = sizeof(struct lli_bypass),
    .options = &bypass_option_table,
    .counters = bypass_counters,
    .gauges = bypass_gauges,
    .open = bypass_open,
    .close = bypass_close,
    .abandon = bypass_abandon,
    .region_end = lli_udp_region_end,
    .join = bypass_join,
    .leave = bypass_leave,
    .address = lli_udp_address,
    .peer = lli_udp_peer,
    .forget = lli_udp_forget,
    .came_from = bypass_came_from,
    .post = lli_udp_post,
    .flush = lli_udp_flush,
    .reap = lli_udp_reap,
    .receive = lli_bypass_receive,
    .release = lli_bypass_release,
    .arm = bypass_arm,
    .inner = bypass_inner,
};
