/* SPDX-License-Identifier: Apache-2.0 */
/* Names, modes and paths of shared memory channels; permission to write under a name. */
#define _GNU_SOURCE
#include "shm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system/owned.h"

enum { PATH_BYTES = 256, LOCK_TRIES = 100, LOCK_TRIES_MAX = 10000, LOCK_PAUSE_NS = 100000 };

/* ---------------------------------------------------------------------------------------- modes and names */

mode_t lli_shm_mode_write(mode_t mode)
{
    return mode | (mode & 0444) >> 1;
}

mode_t lli_shm_mode_look(mode_t mode)
{
    return mode | (mode & 0444) >> 2;
}

/* Parses an octal mode such as "0640": the owner reads and writes, nobody else writes. */
static bool mode_parse(const char *text, mode_t *mode)
{
    char *end;
    unsigned long value = strtoul(text, &end, 8);

    *mode = (mode_t)value;
    return isdigit((unsigned char)text[0]) && *end == '\0' && (value & ~0644UL) == 0 &&
           (value & 0600) == 0600;
}

int lli_shm_name(char name[LLI_SHM_NAME_MAX], const struct lli_group *group, const struct lli_log *log)
{
    const char *host = group->host;
    bool fine = isalnum((unsigned char)host[0]);

    for (const char *at = host; *at != '\0'; at++)
        fine &= isalnum((unsigned char)*at) || strchr("._:-", *at) != NULL;
    if (!fine || strlen(host) > 64)
        return lli_fail(log, LLM_EGROUP,
                        "shm: name '%s': must be 1 to 64 letters, digits, or ._:-, and begin with one of the "
                        "first two",
                        host);
    if (group->options->source[0] != '\0')
        return lli_fail(log, LLM_EOPTION, "shm: source=%s: there are no source addresses, leave it out",
                        group->options->source);
    if (group->port == 0)
        (void)snprintf(name, LLI_SHM_NAME_MAX, "%s", host);
    else
        (void)snprintf(name, LLI_SHM_NAME_MAX, "%s:%u", host, group->port);
    return LLM_OK;
}

/* -------------------------------------------------------------------------------------------- directories */

const char *lli_shm_limit(int error)
{
    if (error == EMFILE)
        return "raise the limit of open files, 'ulimit -n'";
    return error == ENFILE ? "raise the limit of open files, fs.file-max" : NULL;
}

int lli_shm_root_failed(const char *path, const struct lli_log *log)
{
    const char *limit = lli_shm_limit(errno);
    const int error = errno;
    struct stat file;

    if (limit != NULL)
        return lli_fail(log, LLM_ELIMIT, "shm: %s: %m; %s", path, limit);
    if (error == ENOTDIR && lstat(path, &file) == 0 && S_ISLNK(file.st_mode))
        return lli_fail(log, LLM_EACCESS,
                        "shm: %s: is a symbolic link of user %u, which is not followed; remove it", path,
                        (unsigned)file.st_uid);
    errno = error;
    if (errno == ENOSPC || errno == EDQUOT)
        return lli_fail(log, LLM_ENOMEM,
                        "shm: %s: %m; see 'df -h' and 'df -i', remove stale channels with llm-shm --clean",
                        path);
    return lli_fail(log, errno == EACCES || errno == EPERM || errno == EROFS ? LLM_EACCESS : LLM_ESYSTEM,
                    "shm: %s: %m; shm_directory must be a directory that may be written, as /dev/shm is",
                    path);
}

/* Creates a directory in which all users may create files. LLM_ESYSTEM with errno set. */
static int root_directory(const char *path)
{
    bool shared;
    int fd = -1;

    /* An instance that closes may remove the directory between the two calls. */
    for (int i = 0; i < LOCK_TRIES && fd < 0; i++) {
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return LLM_ESYSTEM;
        fd = lli_owned_directory(path);
        if (fd < 0 && errno != ENOENT)
            return LLM_ESYSTEM;
    }
    if (fd < 0)
        return LLM_ESYSTEM;
    /* Its creator may have been killed before it set the mode. */
    shared = lli_owned_share(fd);
    close(fd);
    return shared ? LLM_OK : LLM_ESYSTEM;
}

int lli_shm_root(struct lli_shm_root *root, const struct lli_shm_options *options, const struct lli_log *log)
{
    char sockets[PATH_BYTES];

    (void)snprintf(root->path, sizeof root->path, "%s/llm", options->shm_directory);
    if (!mode_parse(options->shm_mode, &root->mode))
        return lli_fail(log, LLM_EOPTION,
                        "shm: shm_mode=%s: must be the octal mode of a file that its owner reads and writes "
                        "and others may read: 0600, 0640 or 0644",
                        options->shm_mode);
    (void)snprintf(sockets, sizeof sockets, "%s/@", root->path);
    if (root_directory(root->path) != LLM_OK)
        return lli_shm_root_failed(root->path, log);
    if (root_directory(sockets) == LLM_OK)
        return LLM_OK;
    return errno == ENOENT ? LLM_EAGAIN : lli_shm_root_failed(sockets, log);
}

void lli_shm_root_end(const struct lli_shm_root *root)
{
    char sockets[PATH_BYTES];
    struct stat file;

    /* Instances create it with mode 01777; with another mode it is the administrator's and is not removed. */
    if (lstat(root->path, &file) != 0 || (file.st_mode & 07777) != 01777)
        return;
    (void)snprintf(sockets, sizeof sockets, "%s/@", root->path);
    (void)rmdir(sockets);
    (void)rmdir(root->path);
}

/* -------------------------------------------------------------------------------------------------- locks */

/* Bytes of the lock file of a name. */
enum {
    BYTE_WRITE,   /* locked by the writers that have a permission, exclusively or shared */
    BYTE_PRESENT, /* locked shared by every writer: the last one removes the name */
};

/* Locks bytes of a file, with count 0 all from the first one on. */
static bool lock_bytes(int fd, short type, off_t first, off_t count)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lli_shm_take(int fd, short type)
{
    return lock_bytes(fd, type, 0, 0);
}

bool lli_shm_is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Name lock while it is acquired. */
struct lock {
    int directory;
    int fd;
    char path[PATH_BYTES]; /* path opened most recently */
};

/* Returns true if the path still refers to the open file. */
static bool lock_is_current(const struct lock *lock)
{
    struct stat open, named;

    return fstat(lock->fd, &open) == 0 && stat(lock->path, &named) == 0 && open.st_ino == named.st_ino &&
           open.st_dev == named.st_dev;
}

static int lock_writer(void *arg, uint64_t id)
{
    struct lli_shm_source source;
    const struct lli_shm_root *root = ((const void **)arg)[0];
    const char *name = ((const void **)arg)[1];
    int pid = 0;

    if (lli_shm_attach(&source, root, name, id, 0, NULL) != LLM_OK)
        return 0;
    if (!lli_shm_is_dead(&source.segment))
        pid = (int)source.segment.header->pid;
    lli_shm_detach(&source);
    return pid;
}

/* Returns the process id of a living writer; 0 or negative: unknown. */
static int lock_holder(const struct lli_shm_root *root, const char *name)
{
    const void *arg[] = {root, name};

    return lli_shm_each(root, name, lock_writer, arg, NULL);
}

static int lock_refused(const struct lli_shm_root *root, const char *name, bool exclusive,
                        const struct lli_log *log)
{
    const int pid = lock_holder(root, name);
    char who[32] = "another process";

    if (pid > 0)
        (void)snprintf(who, sizeof who, "process %d", pid);
    return lli_fail(log, LLM_EADDRINUSE,
                    "shm: %s: %s transmits there%s; close it, or take another name, or open both with "
                    "shm_exclusive=0",
                    name, who, exclusive ? " already" : " with shm_exclusive=1");
}

/* Fails because another user owns the name. */
static int lock_claimed(const struct lli_shm_root *root, const char *name, uid_t owner,
                        const struct lli_log *log)
{
    return lli_fail(
        log, LLM_EACCESS,
        "shm: %s/%s: the name is another user's (%u); take another, have user %u or root remove it with "
        "llm-shm --clean, or have root reserve it (docs/shm.md)",
        root->path, name, (unsigned)owner, (unsigned)owner);
}

static int lock_failed(const struct lli_shm_root *root, const char *name, const char *path,
                       const struct lli_log *log)
{
    const int error = errno;
    char directory[PATH_BYTES];
    struct stat file;

    (void)snprintf(directory, sizeof directory, "%s/%s", root->path, name);
    if (lstat(directory, &file) == 0) {
        if ((error == EACCES || error == EPERM) && file.st_uid != geteuid())
            return lock_claimed(root, name, file.st_uid, log);
        if (file.st_uid == geteuid() && (file.st_mode & S_ISVTX) == 0)
            (void)rmdir(directory);
    }
    errno = error;
    return lli_shm_root_failed(path, log);
}

/*
 * Opens the directory of a name; creates it if needed. It must be owned by this user, or by root and not
 * world-writable: otherwise other users could replace files in it. -1 with errno set.
 */
static int lock_directory(const char *path)
{
    struct stat file;
    int fd;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return -1;
    fd = lli_owned_directory(path);
    if (fd < 0 || lli_owned_is_safe(fd) || (fstat(fd, &file) == 0 && file.st_uid == geteuid()))
        return fd;
    close(fd);
    errno = EACCES;
    return -1;
}

/*
 * Opens the directory of a name and its lock file; retries if another instance removes them meanwhile. False
 * with errno set.
 */
static bool lock_open(const struct lli_shm_root *root, const char *name, struct lock *lock)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        (void)snprintf(lock->path, PATH_BYTES, "%s/%s", root->path, name);
        lock->directory = lock_directory(lock->path);
        if (lock->directory < 0 && errno != ENOENT)
            return false;
        if (lock->directory < 0)
            continue;
        (void)snprintf(lock->path, PATH_BYTES, "%s/%s/lock", root->path, name);
        lock->fd = openat(lock->directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (lock->fd >= 0)
            return true;
        close(lock->directory);
        if (errno != ENOENT)
            return false;
    }
    return false;
}

static void lock_close(const struct lock *lock)
{
    close(lock->fd);
    close(lock->directory);
}

/*
 * Sets the mode of the directory of a name: that of this instance, combined with shm_exclusive=0 with that of
 * the others. The sticky bit, which reserves a name, is preserved, as is the mode of a directory created by
 * root.
 */
static void lock_mode(const struct lli_shm_root *root, const struct lock *lock, bool exclusive)
{
    mode_t mode = lli_shm_mode_look(root->mode | 0700);
    struct stat file;

    if (fstat(lock->directory, &file) != 0 || file.st_uid != geteuid())
        return;
    mode |= file.st_mode & (exclusive ? S_ISVTX : S_ISVTX | 0777);
    (void)fchmod(lock->directory, mode);
}

static bool lock_take(int fd, enum lli_shm_permission permission)
{
    if (permission != LLI_SHM_BESIDE &&
        !lock_bytes(fd, permission == LLI_SHM_EXCLUSIVE ? F_WRLCK : F_RDLCK, BYTE_WRITE, 1))
        return false;
    return lock_bytes(fd, F_RDLCK, BYTE_PRESENT, 1);
}

int lli_shm_lock(const struct lli_shm_root *root, const char *name, enum lli_shm_permission permission,
                 const struct lli_log *log)
{
    const bool exclusive = permission == LLI_SHM_EXCLUSIVE;
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    struct lock lock;

    for (int tries = 0;;) {
        bool taken;

        if (!lock_open(root, name, &lock))
            return lock_failed(root, name, lock.path, log);
        taken = lock_take(lock.fd, permission);
        if (taken && lock_is_current(&lock)) {
            lock_mode(root, &lock, exclusive);
            close(lock.directory);
            return lock.fd;
        }
        lock_close(&lock);
        if (taken)
            continue;
        /*
         * A closing instance locks it exclusively for a moment (longer on a loaded machine), and may then
         * remove the file.
         */
        if (++tries % LOCK_TRIES == 0 && (tries == LOCK_TRIES_MAX || lock_holder(root, name) > 0))
            return lock_refused(root, name, exclusive, log);
        nanosleep(&pause, NULL);
    }
}

/* Removes the lock file, and the directory unless it is reserved. */
static void unlock_remove(const struct lli_shm_root *root, const char *name, int fd)
{
    char path[PATH_BYTES];
    struct stat file;
    int directory;

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    directory = lli_owned_directory(path);
    if (directory < 0)
        return;
    if (fstat(fd, &file) == 0)
        (void)lli_owned_remove(directory, "lock", &file);
    if (fstat(directory, &file) == 0 && (file.st_mode & S_ISVTX) == 0)
        (void)rmdir(path);
    close(directory);
}

void lli_shm_unlock(const struct lli_shm_root *root, const char *name, int fd)
{
    /* The last writer removes the name: an exclusive lock succeeds only if nobody else has the lock. */
    if (lli_shm_take(fd, F_WRLCK)) {
        lli_shm_sweep(root, name);
        unlock_remove(root, name, fd);
    }
    close(fd);
}
