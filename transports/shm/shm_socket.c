/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of an instance: what is sent to it alone by those whose segments it does not read, and wake-ups, which are empty.
 * A datagram that somebody's bell does not tell of is found a little later.
 */
#define _GNU_SOURCE
#include "shm.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of an address as packets carry it. */
enum { ADDRESS_KIND = 's', ADDRESS_BYTES = 1 + 8 };

enum {
    SOCKET_TRIES = 100,
    SOCKET_FULL = 10, /* datagrams that any takes (net.unix.max_dgram_qlen) */
};

static void socket_name(struct sockaddr_un *address, const struct lli_shm_root *root, uint64_t id)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof address->sun_path, "%s/@/%016llx", root->path, (unsigned long long)id);
}

/* False: there is nobody any more. */
static bool socket_poke(const struct lli_shm *shm, const struct sockaddr_un *address)
{
    return sendto(shm->socket, NULL, 0, MSG_DONTWAIT, (const struct sockaddr *)address, sizeof *address) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

/* Removes the socket of a process that was killed. */
static bool socket_is_stale(const struct lli_shm *shm, const struct sockaddr_un *address)
{
    return !socket_poke(shm, address) && (unlink(address->sun_path) == 0 || errno == ENOENT);
}

int lli_shm_socket_open(struct lli_shm *shm, const struct llm_options *options)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int status = -1;

    shm->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (shm->socket < 0 && lli_shm_limit(errno) != NULL)
        return lli_shm_root_failed("socket", shm->log);
    if (shm->socket < 0)
        return lli_fail(shm->log, LLM_ESYSTEM, "shm: socket: %m");
    for (int i = 0; i < SOCKET_TRIES && status != 0; i++) {
        int error = lli_shm_root(&shm->root, options, shm->log);

        if (error == LLM_EAGAIN)
            continue;
        if (error != LLM_OK)
            return error;
        socket_name(&address, &shm->root, shm->id);
        status = bind(shm->socket, (const struct sockaddr *)&address, sizeof address);
        /* Another instance that closes may remove the directories again before there is a file in them. */
        if (status != 0 && errno != ENOENT && !(errno == EADDRINUSE && socket_is_stale(shm, &address)))
            break;
    }
    shm->bound = status == 0;
    if (status == 0 && chmod(address.sun_path, lli_shm_mode_write(shm->root.mode)) == 0)
        return LLM_OK;
    if (errno == EADDRINUSE)
        return lli_fail(shm->log, LLM_EADDRINUSE, "shm: %s: %m: an instance of another network namespace has the same address; "
                        "give one of them another shm_directory", address.sun_path);
    return lli_shm_root_failed(address.sun_path, shm->log);
}

void lli_shm_socket_close(struct lli_shm *shm)
{
    struct sockaddr_un address;

    if (shm->socket < 0)
        return;
    if (shm->bound) {
        socket_name(&address, &shm->root, shm->id);
        unlink(address.sun_path);
    }
    close(shm->socket);
    lli_shm_root_end(&shm->root);
}

/* ------------------------------------------------------------------------------------------------------ waking */

void lli_shm_socket_call(struct lli_shm *shm)
{
    struct sockaddr_un address;
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *directory;

    (void)snprintf(path, sizeof path, "%s/@", shm->root.path);
    directory = opendir(path);
    if (directory == NULL)
        return;
    while ((entry = readdir(directory)) != NULL) {
        const uint64_t id = strtoull(entry->d_name, NULL, 16);

        if (id == 0 || id == shm->id)
            continue;
        socket_name(&address, &shm->root, id);
        if (!socket_poke(shm, &address))
            unlink(address.sun_path);
    }
    closedir(directory);
    lli_shm_stir(shm);
}

bool lli_shm_socket_answers(const struct lli_shm_root *root, uint64_t id)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    bool answers;

    socket_name(&address, root, id);
    answers = fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ||
              (errno != ECONNREFUSED && errno != ENOENT);
    if (fd >= 0)
        close(fd);
    return answers;
}

void lli_shm_socket_wake(struct lli_shm *shm, struct lli_shm_bell *bell)
{
    struct sockaddr_un address;

    /* Before the places are looked at: who falls asleep from now on says so again. */
    atomic_store_explicit(&bell->sleepers, 0, memory_order_seq_cst);
    for (uint32_t i = 0; i < LLI_SHM_READERS_MAX; i++) {
        struct lli_shm_reader *reader = &bell->readers[i];
        uint64_t id = atomic_load_explicit(&reader->id, memory_order_relaxed);

        if (id == 0 || atomic_load_explicit(&reader->asleep, memory_order_relaxed) == 0 ||
            atomic_exchange(&reader->asleep, 0) == 0)
            continue;
        socket_name(&address, &shm->root, id);
        shm->wakes++;
        if (!socket_poke(shm, &address))
            atomic_compare_exchange_strong(&reader->id, &id, 0);
    }
}

/* --------------------------------------------------------------------------------------------------- receiving */

void lli_shm_socket_drain(struct lli_shm *shm)
{
    while (shm->waiting_tail - shm->waiting_head < LLI_SHM_WAITING && shm->free_count > 0) {
        const uint16_t slot = shm->free[shm->free_count - 1];
        uint8_t *bytes = shm->slots + (size_t)slot * LLI_SHM_SLOT_STRIDE;
        const ssize_t size = recv(shm->socket, bytes, LLI_SHM_SLOT_BYTES, MSG_DONTWAIT);

        if (size < 0) {
            shm->unread = 0;
            return;
        }
        /* A socket that was full may have turned a call away. */
        if (++shm->unread % SOCKET_FULL == 0 || size == 0)
            lli_shm_stir(shm);
        if (size == 0)
            continue;
        shm->only = NULL;
        shm->free_count--;
        shm->waiting[shm->waiting_tail++ % LLI_SHM_WAITING] = (struct lli_in){
            .data = bytes,
            .size = (uint32_t)size,
            .from = LLI_HANDLE_UNICAST,
            .buffer = slot,
        };
    }
}

/* ----------------------------------------------------------------------------------------------------- sending */

/* Has a peer that polls look into its socket: by the bell of a segment of its own that this one reads. */
static void socket_ring(struct lli_shm *shm, uint64_t id)
{
    for (uint32_t i = 0; i < shm->sources_count; i++)
        if (shm->sources[i].segment.header->writer == id) {
            atomic_fetch_add_explicit(&shm->sources[i].segment.bell->rung, 1, memory_order_release);
            return;
        }
}

bool lli_shm_socket_send(struct lli_shm *shm, struct lli_shm_peer *peer, const struct lli_out *packet)
{
    if (packet->size == 0 || sendto(shm->socket, packet->data, packet->size, MSG_DONTWAIT,
                                    (const struct sockaddr *)&peer->address, sizeof peer->address) < 0)
        return false;
    socket_ring(shm, peer->id);
    return true;
}

/* --------------------------------------------------------------------------------------------- address, peers */

int lli_shm_address(void *instance, struct lli_address *address)
{
    const struct lli_shm *shm = instance;

    *address = (struct lli_address){.size = ADDRESS_BYTES, .bytes = {ADDRESS_KIND}};
    memcpy(address->bytes + 1, &shm->id, sizeof shm->id);
    return LLM_OK;
}

uint64_t lli_shm_id(const struct lli_address *address)
{
    uint64_t id = 0xcbf29ce484222325u;

    for (uint8_t i = 0; i < address->size; i++)
        id = (id ^ address->bytes[i]) * 0x100000001b3u;
    /* FNV leaves the high bits of short texts alike. */
    id = (id ^ id >> 32) * 0x9e3779b97f4a7c15u;
    return (id ^ id >> 29) | 1;
}

/* Of an address of the network, whether its instance is on this host as well. */
static bool peer_is_here(const struct lli_shm *shm, uint64_t id)
{
    struct sockaddr_un address;

    socket_name(&address, &shm->root, id);
    return access(address.sun_path, W_OK) == 0;
}

int lli_shm_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    struct lli_shm *shm = instance;
    const bool own = address->size == ADDRESS_BYTES && address->bytes[0] == ADDRESS_KIND;
    uint32_t place;
    uint64_t id;
    int error;

    if (address->size == 0 || address->bytes[0] == 0 || (address->bytes[0] == ADDRESS_KIND && !own))
        return LLM_EINVAL;
    if (own)
        memcpy(&id, address->bytes + 1, sizeof id);
    else
        id = lli_shm_id(address);
    error = !own && !peer_is_here(shm, id) ? LLM_EINVAL : lli_peers_place(&shm->peers, address, &place);
    if (error != LLM_OK)
        return error;
    if (shm->peer[place].id != id) {
        shm->peer[place].id = id;
        socket_name(&shm->peer[place].address, &shm->root, id);
    }
    *handle = LLI_SHM_PEER | place;
    return LLM_OK;
}

void lli_shm_forget(void *instance, const struct lli_address *address)
{
    struct lli_shm *shm = instance;
    uint32_t place;

    (void)lli_peers_remove(&shm->peers, address, &place);
}
