/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of an instance. Receives unicasts from peers whose segments it does not read, and wake-ups,
 * which are empty datagrams. Datagrams that no bell announces are found by the timed check.
 */
#define _GNU_SOURCE
#include "shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/owned.h"

/* Format of an address in packets. */
enum { ADDRESS_KIND = 's', ADDRESS_BYTES = 1 + 8 };

enum {
    SOCKET_TRIES = 100,
    SOCKET_FULL = 10, /* datagrams that a receive queue is sure to take (net.unix.max_dgram_qlen) */
};

/*
 * Waking may use half of the time, and at most WAKE_NS_MAX at once; a failed wake-up costs WAKE_FAILED_NS
 * more.
 */
enum { WAKE_SHARE = 2, WAKE_NS_MAX = 20000000, WAKE_NS_MIN = -2000000, WAKE_FAILED_NS = 10000 };

static void socket_name(struct sockaddr_un *address, const struct lli_shm_root *root, uint64_t id)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof address->sun_path, "%s/@/%016llx", root->path,
                   (unsigned long long)id);
}

/* Sends an empty datagram. False: the instance no longer exists. */
static bool socket_poke(const struct lli_shm *shm, const struct sockaddr_un *address)
{
    return sendto(shm->socket, NULL, 0, MSG_DONTWAIT, (const struct sockaddr *)address, sizeof *address) ==
               0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

/* Parses a file name as an instance id. */
static bool socket_parse(const char *text, uint64_t *id)
{
    char *end;

    *id = strtoull(text, &end, 16);
    return end == text + 16 && *end == '\0' && *id != 0;
}

void lli_shm_socket_each(const struct lli_shm_root *root,
                         void (*function)(void *arg, int directory, uint64_t id), void *arg)
{
    char path[PATH_MAX];
    struct dirent *entry;
    uint64_t id;
    DIR *files;
    int fd;

    (void)snprintf(path, sizeof path, "%s/@", root->path);
    fd = lli_owned_directory(path);
    files = fd < 0 ? NULL : fdopendir(fd);
    if (files == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(files)) != NULL)
        if (socket_parse(entry->d_name, &id))
            function(arg, fd, id);
    closedir(files);
}

bool lli_shm_socket_remove(int directory, const struct lli_shm_root *root, uint64_t id)
{
    struct stat file;
    char name[32];

    (void)snprintf(name, sizeof name, "%016llx", (unsigned long long)id);
    /* Check the type first: connect() fails for a regular file as for an unbound socket. */
    return fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(file.st_mode) &&
           (file.st_uid == geteuid() || geteuid() == 0) && !lli_shm_socket_answers(root, id) &&
           lli_owned_remove(directory, name, &file);
}

/* Removes the socket file of a killed process that had the same id as this instance. */
static bool socket_is_stale(const struct lli_shm *shm)
{
    char path[PATH_MAX];
    int directory;
    bool gone;

    (void)snprintf(path, sizeof path, "%s/@", shm->root.path);
    directory = lli_owned_directory(path);
    if (directory < 0)
        return errno == ENOENT;
    gone = lli_shm_socket_remove(directory, &shm->root, shm->id);
    if (!gone) {
        struct sockaddr_un address;

        /* Another process may have removed it meanwhile. */
        socket_name(&address, &shm->root, shm->id);
        gone = access(address.sun_path, F_OK) != 0 && errno == ENOENT;
    }
    close(directory);
    errno = EADDRINUSE;
    return gone;
}

/*
 * Sets the mode of the socket file, which controls the users that may send to it, and records its inode.
 * Works by descriptor, because the name may be replaced.
 */
static bool socket_mode(struct lli_shm *shm, const char *path)
{
    const int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char self[64];
    bool set;

    if (fd < 0)
        return false;
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    set = fstat(fd, &shm->named) == 0 && S_ISSOCK(shm->named.st_mode) && shm->named.st_uid == geteuid() &&
          chmod(self, lli_shm_mode_write(shm->root.mode)) == 0;
    close(fd);
    return set;
}

int lli_shm_socket_open(struct lli_shm *shm, const struct lli_shm_options *options)
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
        /* A closing instance may remove the directories before there is a file in them. */
        if (status != 0 && errno != ENOENT && !(errno == EADDRINUSE && socket_is_stale(shm)))
            break;
    }
    shm->bound = status == 0;
    if (status == 0 && socket_mode(shm, address.sun_path))
        return LLM_OK;
    if (status != 0 && errno == EADDRINUSE)
        return lli_fail(shm->log, LLM_EADDRINUSE,
                        "shm: %s: %m: an instance of another network namespace has the same address; "
                        "give one of them another shm_directory",
                        address.sun_path);
    return lli_shm_root_failed(address.sun_path, shm->log);
}

void lli_shm_socket_close(struct lli_shm *shm)
{
    struct sockaddr_un address;

    if (shm->socket < 0)
        return;
    if (shm->bound) {
        socket_name(&address, &shm->root, shm->id);
        (void)lli_owned_remove(AT_FDCWD, address.sun_path, &shm->named);
    }
    close(shm->socket);
    lli_shm_root_end(&shm->root);
}

/* ------------------------------------------------------------------------------------------------- waking */

static void call_one(void *arg, int directory, uint64_t id)
{
    struct sockaddr_un address;
    struct lli_shm *shm = arg;

    if (id == shm->id)
        return;
    socket_name(&address, &shm->root, id);
    if (!socket_poke(shm, &address))
        (void)lli_shm_socket_remove(directory, &shm->root, id);
}

void lli_shm_socket_call(struct lli_shm *shm)
{
    lli_shm_socket_each(&shm->root, call_one, shm);
    lli_shm_rescan(shm);
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

/* Adds the share of the time elapsed since wake_at. Returns the budget for waking. */
static int64_t wake_left(struct lli_shm *shm, lli_ns now)
{
    const uint64_t more = (now - shm->wake.at) / WAKE_SHARE;

    shm->wake.at = now;
    shm->wake.left = more >= WAKE_NS_MAX || shm->wake.left + (int64_t)more > WAKE_NS_MAX
                         ? WAKE_NS_MAX
                         : shm->wake.left + (int64_t)more;
    return shm->wake.left;
}

static void wake_charge(struct lli_shm *shm, lli_ns now, int64_t more)
{
    const int64_t left = shm->wake.left - (int64_t)(now - shm->wake.at) - more;

    shm->wake.at = now;
    shm->wake.left = left > WAKE_NS_MIN ? left : WAKE_NS_MIN;
}

/* Wakes a reader. False: the place is unused, or the reader does not sleep. */
static bool wake_one(struct lli_shm *shm, struct lli_shm_reader *reader)
{
    uint64_t id = atomic_load_explicit(&reader->id, memory_order_relaxed);
    struct sockaddr_un address;
    bool taken;

    if (id == 0 || atomic_load_explicit(&reader->asleep, memory_order_relaxed) == 0 ||
        atomic_exchange(&reader->asleep, 0) == 0)
        return false;
    socket_name(&address, &shm->root, id);
    shm->counters.wakes++;
    taken =
        sendto(shm->socket, NULL, 0, MSG_DONTWAIT, (const struct sockaddr *)&address, sizeof address) == 0;
    if (!taken && (errno == ECONNREFUSED || errno == ENOENT))
        atomic_compare_exchange_strong(&reader->id, &id, 0);
    /* A reader that really sleeps takes the datagram: it exists, and its socket is not full. */
    wake_charge(shm, lli_clock_ns(), taken ? 0 : WAKE_FAILED_NS);
    return true;
}

static void wake_put_off(struct lli_shm *shm, struct lli_shm_bell *bell)
{
    atomic_store_explicit(&bell->sleepers, 1, memory_order_relaxed);
    shm->counters.wakes_deferred++;
    shm->wake.due = true;
    shm->in.only = NULL;
}

/*
 * Limits the time spent on waking: every reader may write the bell, and could mark places as asleep again and
 * again. The rest is deferred to a later flush or poll.
 */
void lli_shm_socket_wake(struct lli_shm *shm, struct lli_shm_bell *bell)
{
    int64_t left = wake_left(shm, lli_clock_ns());

    /* Clear before reading the places: a reader that falls asleep from now on sets it again. */
    if (left > 0)
        atomic_store_explicit(&bell->sleepers, 0, memory_order_seq_cst);
    for (uint32_t i = 0; i < LLI_SHM_READERS_MAX && left > 0; i++) {
        if (wake_one(shm, &bell->readers[shm->wake.next]))
            left = shm->wake.left;
        shm->wake.next = (shm->wake.next + 1) % LLI_SHM_READERS_MAX;
    }
    if (left > 0)
        wake_charge(shm, lli_clock_ns(), 0);
    else
        wake_put_off(shm, bell);
}

/* ---------------------------------------------------------------------------------------------- receiving */

void lli_shm_socket_drain(struct lli_shm *shm)
{
    struct lli_shm_slots *slots = &shm->in.large;

    while (shm->waiting.tail - shm->waiting.head < LLI_SHM_WAITING && slots->free_count > 0) {
        uint8_t *bytes = lli_shm_slot_next(slots);
        const ssize_t size = recv(shm->socket, bytes, LLI_SHM_SLOT_BYTES, MSG_DONTWAIT);

        if (size < 0) {
            shm->ringing.unread = 0;
            return;
        }
        /* The queue may have been full and may have refused a notification. */
        if (++shm->ringing.unread % SOCKET_FULL == 0 || size == 0)
            lli_shm_rescan(shm);
        if (size == 0)
            continue;
        shm->in.only = NULL;
        shm->waiting.in[shm->waiting.tail++ % LLI_SHM_WAITING] = (struct lli_in){
            .data = bytes,
            .size = (uint32_t)size,
            .from = LLI_HANDLE_UNICAST,
            .buffer = lli_shm_slot_take(slots),
        };
    }
}

/* ------------------------------------------------------------------------------------------------ sending */

/* Makes a polling peer check its socket: rings the bell of a segment of the peer that this instance reads. */
static void socket_ring(struct lli_shm *shm, uint64_t id)
{
    for (uint32_t i = 0; i < shm->in.count; i++)
        if (shm->in.sources[i].segment.header->writer == id) {
            atomic_fetch_add_explicit(&shm->in.sources[i].segment.bell->rung, 1, memory_order_release);
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

/* ----------------------------------------------------------------------------------------- address, peers */

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
    /* Mix once more: FNV leaves the high bits of short texts alike. */
    id = (id ^ id >> 32) * 0x9e3779b97f4a7c15u;
    return (id ^ id >> 29) | 1;
}

/* Returns true if the instance with a network address also exists on this host. */
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
