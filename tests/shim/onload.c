/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test stack that emulates OpenOnload over the kernel's sockets. As there, options of UDP reach the kernel's
 * socket and are refused nevertheless, a segmented message leaves whole, and UDP sockets have no warm sends.
 */
#define _GNU_SOURCE
#include "stack.h"

#include "../../transports/bypass/onload_abi.h"

const char *const stack_name = "Onload";
atomic_ulong stack_warm_sends;
atomic_ulong stack_lent;
atomic_ulong stack_polls;

/* Stacks by number; 0 is the one without a name. */
enum { STACKS = 16 };
static char stack_names[STACKS][ONLOAD_STACK_NAME_MAX + 1];
static _Thread_local char stack_now[ONLOAD_STACK_NAME_MAX + 1];
static _Thread_local char stack_saved[ONLOAD_STACK_NAME_MAX + 1];
static atomic_int stack_of[STACK_SOCKETS]; /* stack of each socket plus 1; 0: not determined yet */

_Thread_local unsigned stack_spins; /* a bit for each type */

int onload_is_present(void);
int onload_fd_stat(int fd, struct onload_stat *stat);
int onload_fd_check_feature(int fd, int feature);
int onload_set_stackname(int who, int scope, const char *name);
int onload_stackname_save(void);
int onload_stackname_restore(void);
int onload_thread_set_spin(int type, int on);
int onload_zc_recv(int fd, struct onload_zc_recv_args *args);
int onload_zc_release_buffers(int fd, void **handles, int count);

int onload_is_present(void)
{
    return 1;
}

/* ------------------------------------------------------------------------------------------------- stacks */

static int stack_number_of(const char *name)
{
    for (int i = 0; i < STACKS; i++) {
        if (i > 0 && stack_names[i][0] == '\0')
            strcpy(stack_names[i], name);
        if (strcmp(stack_names[i], name) == 0)
            return i;
    }
    abort();
}

int onload_fd_stat(int fd, struct onload_stat *stat)
{
    if (!stack_has(fd))
        return 0;
    stat->stack_id = stack_of[fd] - 1;
    stat->stack_name = strdup(stack_names[stat->stack_id]);
    stat->endpoint_id = fd;
    stat->endpoint_state = 0;
    return 1;
}

int onload_set_stackname(int who, int scope, const char *name)
{
    if (who != ONLOAD_THIS_THREAD || scope == 0 || strlen(name) > ONLOAD_STACK_NAME_MAX) {
        errno = EINVAL;
        return -1;
    }
    strcpy(stack_now, name);
    return 0;
}

int onload_stackname_save(void)
{
    strcpy(stack_saved, stack_now);
    return 0;
}

int onload_stackname_restore(void)
{
    strcpy(stack_now, stack_saved);
    return 0;
}

int onload_thread_set_spin(int type, int on)
{
    if (type < 0 || type > 16)
        return -EINVAL;
    stack_spins = on ? stack_spins | 1u << type : stack_spins & ~(1u << type);
    return 0;
}

int onload_fd_check_feature(int fd, int feature)
{
    if (feature != ONLOAD_FD_FEAT_MSG_WARM)
        return -EOPNOTSUPP;
    return stack_has(fd) && stack_number("SHIM_WARM", 0) != 0;
}

/* A socket belongs to the stack whose name was set when it was bound. */
int bind(int fd, const struct sockaddr *address, socklen_t size)
{
    static int (*next)(int, const struct sockaddr *, socklen_t);

    if (next == NULL)
        shim_next("bind", &next);
    if (fd >= 0 && fd < STACK_SOCKETS)
        stack_of[fd] = stack_number_of(stack_now) + 1;
    return next(fd, address, size);
}

/* ------------------------------------------------------------------------------------------------ sockets */

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
    const int status = shim_next_setsockopt(fd, level, name, value, length);

    if (level != IPPROTO_UDP || !stack_has(fd))
        return status;
    errno = ENOPROTOOPT;
    return -1;
}

ssize_t sendmsg(int fd, const struct msghdr *header, int flags)
{
    struct msghdr whole = *header;

    if (shim_segmented(header) && stack_has(fd)) {
        whole.msg_control = NULL;
        whole.msg_controllen = 0;
    }
    return shim_next_sendmsg(fd, &whole, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return shim_send_each(fd, messages, count, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    return stack_send(fd, data, size, flags, onload_fd_check_feature(fd, ONLOAD_FD_FEAT_MSG_WARM) > 0);
}

/* ---------------------------------------------------------------------------------------------- zero copy */

static int stack_give(struct onload_zc_recv_args *args, struct stack_message *message)
{
    struct onload_zc_iovec pieces[STACK_PIECES];

    for (int i = 0; i < message->pieces; i++)
        pieces[i] = (struct onload_zc_iovec){.iov_base = stack_piece(message, i),
                                             .iov_len = stack_piece_size(message, i) & 0xffff,
                                             .buf = message};
    args->msg.iov = pieces;
    args->msg.msghdr.msg_iovlen = (size_t)message->pieces;
    return args->cb(args, stack_more(message->fd) ? 0 : ONLOAD_ZC_END_OF_BURST);
}

int onload_zc_recv(int fd, struct onload_zc_recv_args *args)
{
    struct stack_message *message;
    bool given = false;
    int answer;

    if (!stack_has(fd))
        return -ESOCKTNOSUPPORT;
    if ((args->flags & ONLOAD_MSG_RECV_OS_INLINE) == 0)
        return -ENOTEMPTY;
    while ((message = stack_receive(fd)) != NULL) {
        answer = stack_give(args, message);
        given = true;
        if ((answer & ONLOAD_ZC_KEEP) == 0)
            stack_free(message);
        if ((answer & ONLOAD_ZC_TERMINATE) != 0)
            return 0;
    }
    return given && errno == EAGAIN ? 0 : -errno;
}

int onload_zc_release_buffers(int fd, void **handles, int count)
{
    if (!stack_has(fd))
        return -ESOCKTNOSUPPORT;
    for (int i = 0; i < count; i++)
        if (stack_of[((struct stack_message *)handles[i])->fd] != stack_of[fd])
            return -EINVAL;
    for (int i = 0; i < count; i++)
        stack_free(handles[i]);
    return stack_number("SHIM_RELEASE_ERROR", 0) != 0 ? -EINVAL : 0;
}
