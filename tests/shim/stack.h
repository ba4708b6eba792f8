/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the test stacks: the sockets that they accelerate, and the messages that they lend. All work is
 * done by the kernel's sockets; the environment, read at each use, makes them misbehave:
 *
 *   SHIM_KERNEL=all|groups|senders  leave these sockets to the kernel
 *   SHIM_WARM=1          Onload reports support for warm sends, which it does not have for UDP
 *   SHIM_BUFFERS=N       maximum number of lent messages
 *   SHIM_ZC_ERROR=N      zero-copy calls fail with this error number
 *   SHIM_RELEASE_ERROR=1 releases of memory succeed but report an error
 *   SHIM_HIDE=NAME,...   missing functions (VMA: of its table)
 *
 * Include it after defining _GNU_SOURCE.
 */
#ifndef TESTS_STACK_H
#define TESTS_STACK_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shim.h"

enum {
    STACK_SOCKETS = 65536,
    STACK_PIECE = 1800, /* contiguous bytes of a message, about those of Onload's packet buffers */
    STACK_PIECE_GAP = 64,
    STACK_PIECES = 65536 / STACK_PIECE + 1,
    STACK_BUFFERS = 4096,
    STACK_POISON = 0xdd,
};

/* Read by the tests, if a test stack is linked into the program. */
extern const char *const stack_name;
extern atomic_ulong stack_warm_sends;
extern atomic_ulong stack_lent;  /* messages lent and not released */
extern atomic_ulong stack_polls; /* polls for a message */

/* A lent message, in a separate block: a sanitizer detects reads after its release. */
struct stack_message {
    int fd;
    int pieces;
    size_t size;
    uint8_t bytes[];
};

static atomic_bool stack_sockets[STACK_SOCKETS];

static inline const char *stack_setting(const char *name)
{
    const char *value = getenv(name);

    return value == NULL ? "" : value;
}

static inline long stack_number(const char *name, long otherwise)
{
    const char *value = getenv(name);

    return value == NULL ? otherwise : strtol(value, NULL, 10);
}

static inline bool stack_hides(const char *name)
{
    const char *at = strstr(stack_setting("SHIM_HIDE"), name);
    const size_t length = strlen(name);

    return at != NULL && (at[length] == '\0' || at[length] == ',');
}

static inline bool stack_multicast(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return IN_MULTICAST(ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    return IN6_IS_ADDR_MULTICAST(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/*
 * Returns true if the stack accelerates a socket: UDP, bound, and not left to the kernel by the environment.
 */
static inline bool stack_has(int fd)
{
    const char *kernel = stack_setting("SHIM_KERNEL");
    struct sockaddr_storage own, peer;
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    bool connected;

    if (fd < 0 || fd >= STACK_SOCKETS || !stack_sockets[fd] || strcmp(kernel, "all") == 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_size) < 0)
        return false;
    connected = getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0;
    return !(strcmp(kernel, "senders") == 0 && connected) &&
           !(strcmp(kernel, "groups") == 0 && stack_multicast(&own));
}

/* ------------------------------------------------------------------------------------------------ sockets */

int socket(int domain, int type, int protocol)
{
    static int (*next)(int, int, int);
    int fd;

    if (next == NULL)
        shim_next("socket", &next);
    fd = next(domain, type, protocol);
    if (fd >= 0 && fd < STACK_SOCKETS)
        stack_sockets[fd] = (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_DGRAM;
    return fd;
}

int close(int fd)
{
    static int (*next)(int);

    if (next == NULL)
        shim_next("close", &next);
    if (fd >= 0 && fd < STACK_SOCKETS)
        stack_sockets[fd] = false;
    return next(fd);
}

/* ------------------------------------------------------------------------------------------------ sending */

/* Warm send: accepted without being sent. */
static inline ssize_t stack_send(int fd, const void *data, size_t size, int flags, bool warms)
{
    static ssize_t (*next)(int, const void *, size_t, int);

    if (next == NULL)
        shim_next("send", &next);
    if ((flags & 0x400) == 0 || !warms)
        return next(fd, data, size, flags);
    stack_warm_sends++;
    return (ssize_t)size;
}

/* ---------------------------------------------------------------------------------------------- receiving */

static inline uint8_t *stack_piece(struct stack_message *message, int piece)
{
    return message->bytes + piece * (STACK_PIECE + STACK_PIECE_GAP);
}

static inline size_t stack_piece_size(const struct stack_message *message, int piece)
{
    const size_t before = (size_t)piece * STACK_PIECE;

    return message->size - before < STACK_PIECE ? message->size - before : STACK_PIECE;
}

/* Receives the next message of a socket, in pieces with gaps between them; NULL with errno. */
static inline struct stack_message *stack_receive(int fd)
{
    static _Thread_local uint8_t bytes[65536];
    struct stack_message *message;
    ssize_t size;

    stack_polls++;
    if (stack_number("SHIM_ZC_ERROR", 0) != 0) {
        errno = (int)stack_number("SHIM_ZC_ERROR", 0);
        return NULL;
    }
    if ((long)stack_lent >= stack_number("SHIM_BUFFERS", STACK_BUFFERS)) {
        errno = ENOBUFS;
        return NULL;
    }
    size = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size < 0)
        return NULL;
    message = malloc(sizeof *message + (size_t)size + (size_t)STACK_PIECES * STACK_PIECE_GAP);
    if (message == NULL)
        abort();
    message->fd = fd;
    message->size = (size_t)size;
    message->pieces = size == 0 ? 1 : (int)((size + STACK_PIECE - 1) / STACK_PIECE);
    for (int i = 0; i < message->pieces; i++)
        memcpy(stack_piece(message, i), bytes + (size_t)i * STACK_PIECE, stack_piece_size(message, i));
    stack_lent++;
    return message;
}

static inline void stack_free(struct stack_message *message)
{
    for (int i = 0; i < message->pieces; i++)
        memset(stack_piece(message, i), STACK_POISON, stack_piece_size(message, i));
    free(message);
    stack_lent--;
}

/* Returns true if another message is available. */
static inline bool stack_more(int fd)
{
    int size = 0;

    return ioctl(fd, FIONREAD, &size) == 0 && size > 0;
}

#endif
