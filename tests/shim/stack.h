/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test stacks share: which sockets they have, and messages that they lend. All is done by
 * the kernel's sockets; what the environment says when it matters makes them answer oddly:
 *
 *   SHIM_KERNEL=all|groups|senders  these sockets are left to the kernel
 *   SHIM_WARM=1          Onload says that sockets can be warmed, which for UDP it does not
 *   SHIM_BUFFERS=N       so many messages can be lent at a time
 *   SHIM_ZC_ERROR=N      zero-copy calls fail with this error number
 *   SHIM_RELEASE_ERROR=1 memory is not taken back, though it is
 *   SHIM_HIDE=NAME,...   functions that are missing (VMA: of its table)
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
    STACK_PIECE = 1800, /* bytes of a message that lie together, about those of a packet buffer of Onload's */
    STACK_PIECE_GAP = 64,
    STACK_PIECES = 65536 / STACK_PIECE + 1,
    STACK_BUFFERS = 4096,
    STACK_POISON = 0xdd,
};

/* What the tests look at, where a test stack is part of the program. */
extern const char *const stack_name;
extern atomic_ulong stack_warm_sends;
extern atomic_ulong stack_lent;  /* messages not given back */
extern atomic_ulong stack_polls; /* looks for a message */

/*
 * A message that is lent, by itself in memory: a sanitizer notices who reads it when it has been given back.
 */
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
 * Whether a socket is one that this stack has: of UDP, bound, and not what the environment leaves to the
 * kernel.
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

/* ---------------------------------------------------------------------------------------- made and closed */

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

/* A send with the flag of a warm one: taken without being sent. */
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

/* The next message of a socket, in pieces with gaps between them; NULL with errno. */
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

/* Whether another message is there. */
static inline bool stack_more(int fd)
{
    int size = 0;

    return ioctl(fd, FIONREAD, &size) == 0 && size > 0;
}

#endif
