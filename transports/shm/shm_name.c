/* SPDX-License-Identifier: Apache-2.0 */
/* Names, modes and paths of shared memory channels, and who may write under a name. */
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

enum { PATH_BYTES = 256, LOCK_TRIES = 100, LOCK_PAUSE_NS = 100000 };

/* --------------------------------------------------------------------------------------------- modes and names */

mode_t lli_shm_mode_write(mode_t mode)
{
    return mode | (mode & 0444) >> 1;
}

mode_t lli_shm_mode_look(mode_t mode)
{
    return mode | (mode & 0444) >> 2;
}

/* "0640": its owner writes and reads, and nobody else writes. */
static bool mode_parse(const char *text, mode_t *mode)
{
    char *end;
    unsigned long value = strtoul(text, &end, 8);

    *mode = (mode_t)value;
    return isdigit((unsigned char)text[0]) && *end == '\0' && (value & ~0644UL) == 0 && (value & 0600) == 0600;
}

int lli_shm_name(char name[LLI_SHM_NAME_MAX], const struct lli_group *group, const struct lli_log *log)
{
    const char *host = group->host;
    bool fine = isalnum((unsigned char)host[0]);

    for (const char *at = host; *at != '\0'; at++)
        fine &= isalnum((unsigned char)*at) || strchr("._:-", *at) != NULL;
    if (!fine || strlen(host) > 64)
        return lli_fail(log, LLM_EGROUP, "shm: name '%s': must be 1 to 64 letters, digits, or ._:-, and begin with one of the "
                        "first two", host);
    if (group->options->source[0] != '\0')
        return lli_fail(log, LLM_EOPTION, "shm: source=%s: there are no source addresses, leave it out",
                        group->options->source);
    if (group->port == 0)
        (void)snprintf(name, LLI_SHM_NAME_MAX, "%s", host);
    else
        (void)snprintf(name, LLI_SHM_NAME_MAX, "%s:%u", host, group->port);
    return LLM_OK;
}

/* --------------------------------------------------------------------------------------------------- directories */

const char *lli_shm_limit(int error)
{
    if (error == EMFILE)
        return "raise the limit of open files, 'ulimit -n'";
    return error == ENFILE ? "raise the limit of open files, fs.file-max" : NULL;
}

int lli_shm_root_failed(const char *path, const struct lli_log *log)
{
    const char *limit = lli_shm_limit(errno);

    if (limit != NULL)
        return lli_fail(log, LLM_ELIMIT, "shm: %s: %m; %s", path, limit);
    if (errno == ENOSPC || errno == EDQUOT)
        return lli_fail(log, LLM_ENOMEM, "shm: %s: %m; see 'df -h' and 'df -i', remove stale channels with llm-shm --clean",
                        path);
    return lli_fail(log, errno == EACCES || errno == EPERM || errno == EROFS ? LLM_EACCESS : LLM_ESYSTEM,
                    "shm: %s: %m; shm_directory must be a directory that may be written, as /dev/shm is", path);
}

/* A directory in which everybody has files of his own; LLM_ESYSTEM with errno set. */
static int root_directory(const char *path)
{
    struct stat file;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return LLM_ESYSTEM;
    /* Whoever made it may have been killed before it was everybody's. */
    if (stat(path, &file) == 0 && (file.st_mode & 07777) == 0700)
        (void)chmod(path, 01777);
    return LLM_OK;
}

int lli_shm_root(struct lli_shm_root *root, const struct llm_options *options, const struct lli_log *log)
{
    char sockets[PATH_BYTES];

    (void)snprintf(root->path, sizeof root->path, "%s/llm", options->shm_directory);
    if (!mode_parse(options->shm_mode, &root->mode))
        return lli_fail(log, LLM_EOPTION, "shm: shm_mode=%s: must be the octal mode of a file that its owner reads and writes "
                        "and others may read: 0600, 0640 or 0644", options->shm_mode);
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

    (void)snprintf(sockets, sizeof sockets, "%s/@", root->path);
    (void)rmdir(sockets);
    (void)rmdir(root->path);
}

/* -------------------------------------------------------------------------------------------------------- locks */

bool lli_shm_take(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool lli_shm_is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* Whether the open file is still the one of that path. */
static bool lock_is_current(int fd, const char *path)
{
    struct stat open, named;

    return fstat(fd, &open) == 0 && stat(path, &named) == 0 && open.st_ino == named.st_ino && open.st_dev == named.st_dev;
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

static int lock_refused(const struct lli_shm_root *root, const char *name, bool exclusive, const struct lli_log *log)
{
    const void *arg[] = {root, name};
    char who[32] = "another process";
    int pid = lli_shm_each(root, name, lock_writer, arg, NULL);

    if (pid > 0)
        (void)snprintf(who, sizeof who, "process %d", pid);
    return lli_fail(log, LLM_EADDRINUSE, "shm: %s: %s transmits there%s; close it, or take another name, or open both with "
                    "shm_exclusive=0", name, who, exclusive ? " already" : " with shm_exclusive=1");
}

static int lock_failed(const struct lli_shm_root *root, const char *name, const char *path, const struct lli_log *log)
{
    const int error = errno;
    char directory[PATH_BYTES];

    (void)snprintf(directory, sizeof directory, "%s/%s", root->path, name);
    (void)rmdir(directory);
    errno = error;
    if (errno == EACCES || errno == EPERM)
        return lli_fail(log, LLM_EACCESS, "shm: %s: %m; the name is another user's: take another, or have it removed with "
                        "llm-shm --clean", path);
    return lli_shm_root_failed(path, log);
}

/* The directory of a name and the lock file in it, open; -1 with errno set. Either may go while this looks: tries again. */
static int lock_open(const struct lli_shm_root *root, const char *name, char path[PATH_BYTES])
{
    int fd = -1;

    for (int i = 0; i < LOCK_TRIES && fd < 0; i++) {
        (void)snprintf(path, PATH_BYTES, "%s/%s", root->path, name);
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return -1;
        (void)snprintf(path, PATH_BYTES, "%s/%s/lock", root->path, name);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != ENOENT)
            return -1;
    }
    return fd;
}

/* Who may look into the directory of a name, whatever those allowed who left it; with others, what each of them allowed. */
static void lock_mode(const struct lli_shm_root *root, const char *name, bool exclusive)
{
    mode_t mode = lli_shm_mode_look(root->mode | 0700);
    char path[PATH_BYTES];
    struct stat file;

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    if (!exclusive && stat(path, &file) == 0)
        mode |= file.st_mode & 0777;
    (void)chmod(path, mode);
}

int lli_shm_lock(const struct lli_shm_root *root, const char *name, bool exclusive, const struct lli_log *log)
{
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    char path[PATH_BYTES];

    for (int tries = 0;;) {
        const int fd = lock_open(root, name, path);
        bool taken;

        if (fd < 0)
            return lock_failed(root, name, path, log);
        taken = lli_shm_take(fd, exclusive ? F_WRLCK : F_RDLCK);
        if (taken && lock_is_current(fd, path)) {
            lock_mode(root, name, exclusive);
            return fd;
        }
        close(fd);
        if (taken)
            continue;
        /* Whoever leaves has it alone for a moment, and may remove the file then. */
        if (++tries == LOCK_TRIES)
            return lock_refused(root, name, exclusive, log);
        nanosleep(&pause, NULL);
    }
}

void lli_shm_unlock(const struct lli_shm_root *root, const char *name, int fd)
{
    char path[PATH_BYTES];

    /* The last one removes the name: a lock that nobody else holds can be had alone. */
    if (lli_shm_take(fd, F_WRLCK)) {
        lli_shm_sweep(root, name);
        (void)snprintf(path, sizeof path, "%s/%s/lock", root->path, name);
        unlink(path);
        (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
        rmdir(path);
    }
    close(fd);
}
