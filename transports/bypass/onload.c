/* SPDX-License-Identifier: Apache-2.0 */
/* OpenOnload: its extensions to sockets, looked up by function name. */
#define _GNU_SOURCE
#include "bypass.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Stores the address of a function of this process, or NULL. POSIX guarantees that a function pointer fits an
 * object pointer.
 */
static void onload_look_up(const char *name, void *function)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    memcpy(function, &found, sizeof found);
}

/*
 * A program linked with Onload's extension library has the names without the stack; the library returns 0
 * then.
 */
static bool onload_find(struct lli_bypass *bypass)
{
    struct lli_onload *onload = &bypass->onload;

    onload_look_up("onload_is_present", &onload->is_present);
    onload_look_up("onload_fd_stat", &onload->fd_stat);
    onload_look_up("onload_fd_check_feature", &onload->fd_check_feature);
    onload_look_up("onload_set_stackname", &onload->set_stackname);
    onload_look_up("onload_stackname_save", &onload->stackname_save);
    onload_look_up("onload_stackname_restore", &onload->stackname_restore);
    onload_look_up("onload_thread_set_spin", &onload->thread_set_spin);
    onload_look_up("onload_zc_recv", &onload->zc_recv);
    onload_look_up("onload_zc_release_buffers", &onload->zc_release_buffers);
    return onload->is_present != NULL && onload->is_present() > 0;
}

static int onload_check(const struct lli_bypass *bypass, const struct lli_bypass_options *options)
{
    const struct lli_onload *onload = &bypass->onload;

    if (options->bypass_required != 0 && onload->fd_stat == NULL)
        return lli_fail(bypass->udp.log, LLM_ESCHEME,
                        "bypass: this Onload cannot tell which sockets it accelerates; update it, or "
                        "accept this with bypass_required=0");
    if (options->stack_name[0] != '\0' && (onload->set_stackname == NULL || onload->stackname_save == NULL ||
                                           onload->stackname_restore == NULL))
        return lli_fail(bypass->udp.log, LLM_EOPTION,
                        "bypass: stack_name=%s: this Onload does not name stacks from a program; "
                        "leave it out, and set EF_NAME",
                        options->stack_name);
    if (options->stack_spin != 2 && onload->thread_set_spin == NULL)
        return lli_fail(bypass->udp.log, LLM_EOPTION,
                        "bypass: stack_spin=%u: this Onload does not spin by thread; leave it out, "
                        "and set EF_POLL_USEC",
                        options->stack_spin);
    return 0;
}

/* Names are per process: stacks of other processes are different even if their names are the same. */
static int onload_begin(const struct lli_bypass *bypass)
{
    const struct lli_onload *onload = &bypass->onload;

    if (bypass->stack_name[0] == '\0')
        return 0;
    if (onload->stackname_save() < 0)
        return lli_fail(bypass->udp.log, LLM_ENOMEM,
                        "bypass: Onload has no memory to change the stack's name");
    if (onload->set_stackname(ONLOAD_THIS_THREAD, ONLOAD_SCOPE_PROCESS, bypass->stack_name) == 0)
        return 0;
    lli_fail(bypass->udp.log, LLM_EOPTION,
             "bypass: stack_name=%s was refused by Onload: %m; use letters and digits, at most %d",
             bypass->stack_name, ONLOAD_STACK_NAME_MAX);
    onload->stackname_restore();
    return LLM_EOPTION;
}

static void onload_end(const struct lli_bypass *bypass)
{
    if (bypass->stack_name[0] != '\0' && bypass->onload.stackname_restore() < 0)
        lli_log(bypass->udp.log, LLM_LEVEL_WARNING,
                "bypass: Onload did not restore the stack's name: further sockets of this "
                "thread are in stack '%s'",
                bypass->stack_name);
}

static bool onload_stat(const struct lli_bypass *bypass, int fd, struct onload_stat *stat)
{
    *stat = (struct onload_stat){.stack_name = NULL};
    if (bypass->onload.fd_stat == NULL || bypass->onload.fd_stat(fd, stat) <= 0)
        return false;
    free(stat->stack_name);
    return true;
}

static bool onload_accelerates(const struct lli_bypass *bypass, int fd)
{
    struct onload_stat stat;

    return onload_stat(bypass, fd, &stat);
}

static uint64_t onload_number(const struct lli_bypass *bypass, int fd)
{
    struct onload_stat stat;

    return onload_stat(bypass, fd, &stat) ? (uint64_t)stat.stack_id : 0;
}

/* Ask first: Onload 9 denies support for every UDP socket, and transmits sends with the flag. */
static bool onload_warms(const struct lli_bypass *bypass, int fd)
{
    return bypass->onload.fd_check_feature != NULL &&
           bypass->onload.fd_check_feature(fd, ONLOAD_FD_FEAT_MSG_WARM) > 0;
}

static void onload_spin(const struct lli_bypass *bypass, bool on)
{
    static const int types[] = {ONLOAD_SPIN_UDP_RECV, ONLOAD_SPIN_UDP_SEND, ONLOAD_SPIN_SELECT,
                                ONLOAD_SPIN_POLL, ONLOAD_SPIN_EPOLL_WAIT};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        bypass->onload.thread_set_spin(types[i], on);
}

/* ---------------------------------------------------------------------------------------------- receiving */

static bool onload_lends(const struct lli_bypass *bypass)
{
    return bypass->onload.zc_recv != NULL && bypass->onload.zc_release_buffers != NULL;
}

struct onload_fetch {
    struct lli_bypass *bypass;
    struct lli_udp_receiver *receiver;
    struct lli_in *packets;
    int max;
    int count;
};

static size_t onload_size(const struct onload_zc_msg *message)
{
    size_t size = 0;

    for (size_t i = 0; i < message->msghdr.msg_iovlen; i++)
        size += message->iov[i].iov_len;
    return size;
}

static void onload_copy(const struct onload_zc_msg *message, uint8_t *to)
{
    for (size_t i = 0; i < message->msghdr.msg_iovlen; i++) {
        memcpy(to, message->iov[i].iov_base, message->iov[i].iov_len);
        to += message->iov[i].iov_len;
    }
}

/*
 * Called with one message consumed, so there is always room for one more, in unreleased and in the buffers.
 */
static int onload_take(struct onload_zc_recv_args *args, int flags)
{
    struct onload_fetch *fetch = args->user_ptr;
    struct lli_bypass *bypass = fetch->bypass;
    const struct onload_zc_msg *message = &args->msg;
    const size_t size = onload_size(message);
    struct lli_in *packet = &fetch->packets[fetch->count];
    int answer = ONLOAD_ZC_CONTINUE;

    if (size > bypass->udp.in.packet_bytes) {
        bypass->udp.counters.truncated++;
    } else if (message->msghdr.msg_iovlen == 1) {
        lli_bypass_lend(bypass, fetch->receiver, message->iov[0].buf,
                        (struct iovec){message->iov[0].iov_base, size}, packet);
        answer = ONLOAD_ZC_KEEP;
        fetch->count++;
    } else {
        onload_copy(message, lli_bypass_buffer(bypass));
        lli_bypass_lend_buffer(bypass, fetch->receiver, size, packet);
        fetch->count++;
    }
    if (fetch->count == fetch->max || !lli_bypass_room(bypass) || (flags & ONLOAD_ZC_END_OF_BURST) != 0)
        answer |= ONLOAD_ZC_TERMINATE;
    return answer;
}

static int onload_fetch(struct lli_bypass *bypass, struct lli_udp_receiver *receiver, struct lli_in *packets,
                        int max)
{
    struct onload_fetch fetch = {bypass, receiver, packets, max, 0};
    struct onload_zc_recv_args args = {
        .cb = onload_take, .user_ptr = &fetch, .flags = MSG_DONTWAIT | ONLOAD_MSG_RECV_OS_INLINE};
    const int status = bypass->onload.zc_recv(receiver->fd, &args);

    return fetch.count > 0 || status >= 0 || status == -EAGAIN ? fetch.count : -1;
}

static bool onload_give_back(const struct lli_bypass *bypass, int fd, void **ids, int count)
{
    return bypass->onload.zc_release_buffers(fd, ids, count) >= 0;
}

const struct lli_stack lli_stack_onload = {
    .name = "Onload",
    .reasons = "the interface is no port of a card that it knows, EF_DONT_ACCELERATE or a stack's name "
               "forbids it, or packet "
               "buffers or filters have run out; the kernel's log and 'onload_stackdump' say more",
    .find = onload_find,
    .check = onload_check,
    .begin = onload_begin,
    .end = onload_end,
    .accelerates = onload_accelerates,
    .warms = onload_warms,
    .number = onload_number,
    .lends = onload_lends,
    .fetch = onload_fetch,
    .give_back = onload_give_back,
    .spin = onload_spin,
};
