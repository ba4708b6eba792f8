/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: created by writers, attached by readers, removed when their writer is dead. */
#define _GNU_SOURCE
#include "shm.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/memory.h"
#include "system/owned.h"
#include "core/base/types.h"

enum { PATH_BYTES = 256, PAGE = 4096 };

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static void segment_path(char path[PATH_BYTES], const struct lli_shm_root *root, const char *name,
                         uint64_t id, const char *suffix)
{
    (void)snprintf(path, PATH_BYTES, "%s/%s/%016llx%s", root->path, name, (unsigned long long)id, suffix);
}

static void segment_unmap(struct lli_shm_segment *segment)
{
    lli_shm_unguard(segment->guard);
    lli_shm_unguard(segment->bell_guard);
    if (segment->history != NULL)
        lli_memory_release(segment->history, segment->history_bytes);
    if (segment->header != NULL)
        lli_memory_release(segment->header, segment->mapped);
    if (segment->bell != NULL)
        munmap(segment->bell, sizeof *segment->bell);
    if (segment->fd >= 0)
        close(segment->fd);
    *segment = (struct lli_shm_segment){.fd = -1};
}

/* Sets the pointers of a segment from its header. */
static void segment_place(struct lli_shm_segment *segment, const struct lli_shm_header *header)
{
    segment->entries = (struct lli_shm_entry *)(void *)((uint8_t *)segment->header + header->entries_offset);
    segment->entries_mask = header->entries - 1;
    segment->copies = (uint8_t *)segment->header + header->copies_offset;
    segment->copies_bytes = header->copies_bytes;
    segment->mapped = header->history_offset;
}

bool lli_shm_is_dead(const struct lli_shm_segment *segment)
{
    return lli_shm_guard_is_broken(segment->guard) ||
           atomic_load_explicit(&segment->header->closed, memory_order_acquire) ||
           !lli_shm_is_locked(segment->fd);
}

/* ------------------------------------------------------------------------------------------- dead writers */

static int attach_failed(const char *path, int error, const struct lli_log *log)
{
    struct stat file;

    if (error == ENOENT)
        return LLM_EAGAIN;
    if (log == NULL)
        return LLM_ESYSTEM;
    if (error == EACCES && stat(path, &file) == 0)
        return lli_fail(log, LLM_EACCESS,
                        "shm: %s: is of user %u, with mode %04o; have its transmitter open it with "
                        "shm_mode=0640 or 0644",
                        path, (unsigned)file.st_uid, (unsigned)file.st_mode & 0777);
    if (lli_shm_limit(error) != NULL)
        return lli_fail(log, LLM_ELIMIT, "shm: %s: %s; %s", path, strerror(error), lli_shm_limit(error));
    return lli_fail(log, error == EACCES ? LLM_EACCESS : LLM_ESYSTEM, "shm: %s: %s", path, strerror(error));
}

/* Parses a file name: the id, followed by the suffix. */
static bool name_parse(const char *text, uint64_t *id, const char *suffix)
{
    char *end;

    *id = strtoull(text, &end, 16);
    return end == text + 16 && strcmp(end, suffix) == 0;
}

int lli_shm_each(const struct lli_shm_root *root, const char *name, int (*function)(void *arg, uint64_t id),
                 void *arg, const struct lli_log *log)
{
    char path[PATH_BYTES];
    struct dirent *entry;
    DIR *directory;
    uint64_t id;
    int status = 0;

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    directory = opendir(path);
    if (directory == NULL)
        return errno == ENOENT ? 0 : attach_failed(path, errno, log);
    while (status == 0 && (entry = readdir(directory)) != NULL)
        if (name_parse(entry->d_name, &id, ".data"))
            status = function(arg, id);
    closedir(directory);
    return status;
}

/*
 * True if a file is the segment or the bell of a dead writer, by its name and its magic, and is owned by this
 * user or, for root, by the owner of the name. Files are locked before they get a name: an unlocked file has
 * no writer and never will. The file is not locked for removal: a reader would take that lock for a writer's,
 * and read the segment once more.
 */
static bool sweep_is_dead(int directory, const char *name, uid_t owner, struct stat *file)
{
    bool bell, dead;
    char magic[8];
    uint64_t id;
    int fd;

    bell = name_parse(name, &id, ".bell");
    if (!bell && !name_parse(name, &id, ".data"))
        return false;
    fd = lli_owned_open(directory, name, O_RDWR, file);
    if (fd < 0)
        return false;
    dead = (file->st_uid == geteuid() || (geteuid() == 0 && file->st_uid == owner)) &&
           pread(fd, magic, sizeof magic, bell ? (off_t)offsetof(struct lli_shm_bell, magic) : 0) ==
               (ssize_t)sizeof magic &&
           memcmp(magic, bell ? LLI_SHM_BELL_MAGIC : LLI_SHM_MAGIC, sizeof magic) == 0 &&
           !lli_shm_is_locked(fd);
    close(fd);
    return dead;
}

void lli_shm_sweep(const struct lli_shm_root *root, const char *name)
{
    char path[PATH_BYTES];
    struct stat own, file;
    struct dirent *entry;
    DIR *files;
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    fd = lli_owned_directory(path);
    files = fd < 0 ? NULL : fdopendir(fd);
    if (files == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while (fstat(fd, &own) == 0 && (entry = readdir(files)) != NULL)
        if (sweep_is_dead(fd, entry->d_name, own.st_uid, &file))
            (void)lli_owned_remove(fd, entry->d_name, &file);
    closedir(files);
}

/* ----------------------------------------------------------------------------------------------- creation */

/* Object being created, for error messages. */
struct make {
    const char *name;
    char what[64];
    char smaller[96]; /* options that reduce its size */
    uint64_t bytes;   /* total file size, including what will be added later */
    uint32_t files;   /* number of files to create */
};

/* Fails for lack of space: bytes or inodes. */
static int make_full(const struct lli_shm_root *root, const struct make *make, int error,
                     const struct lli_log *log)
{
    struct statvfs space = {.f_frsize = 0};

    (void)statvfs(root->path, &space);
    if (error == ENOSPC && space.f_files > 0 && space.f_favail < make->files)
        return lli_fail(
            log, LLM_ENOMEM,
            "shm: %s: %s: %s: %s has room for no more files; remove stale channels with llm-shm --clean, "
            "or let it have more with mount -o remount,nr_inodes=",
            make->name, make->what, strerror(error), root->path);
    return lli_fail(
        log, LLM_ENOMEM,
        "shm: %s: %s: %s: %s has room for %llu bytes, and the channel takes %llu; lower %s, remove stale "
        "channels with llm-shm --clean, or enlarge it with mount -o remount,size=",
        make->name, make->what, strerror(error), root->path,
        (unsigned long long)space.f_bavail * space.f_frsize, (unsigned long long)make->bytes, make->smaller);
}

static int make_failed(const struct lli_shm_root *root, const struct make *make, int error,
                       const struct lli_log *log)
{
    if (error == ENOSPC || error == ENOMEM || error == EDQUOT)
        return make_full(root, make, error, log);
    if (error == EFBIG)
        return lli_fail(
            log, LLM_ELIMIT,
            "shm: %s: %s: %s: the channel takes a file of %llu bytes; raise the limit of the size of "
            "files, 'ulimit -f', or lower %s",
            make->name, make->what, strerror(error), (unsigned long long)make->bytes, make->smaller);
    if (lli_shm_limit(error) != NULL)
        return lli_fail(log, LLM_ELIMIT, "shm: %s: %s: %s; %s", make->name, make->what, strerror(error),
                        lli_shm_limit(error));
    return lli_fail(log, error == EACCES || error == EPERM ? LLM_EACCESS : LLM_ESYSTEM, "shm: %s: %s: %s",
                    make->name, make->what, strerror(error));
}

/* Extends a file in pieces, so that an interrupting signal restarts only one piece. Returns 0 or an errno. */
static int make_room(int fd, uint64_t from, uint64_t bytes)
{
    const uint64_t end = from + bytes;
    lli_ns yields = 0;
    int error = lli_memory_file_limit(end);

    for (uint64_t at = from; at < end && error == 0; at += LLI_MEMORY_PIECE) {
        do
            error = posix_fallocate(fd, (off_t)at, (off_t)lli_min(LLI_MEMORY_PIECE, end - at));
        while (error == EINTR);
        lli_memory_yield(&yields);
    }
    if (error != 0)
        (void)!ftruncate(fd, (off_t)from);
    return error;
}

/* Creates an unnamed, locked file. Returns 0 or an errno. */
static int make_file(const struct lli_shm_root *root, const char *name, uint64_t bytes, mode_t mode, int *fd)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    *fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (*fd < 0)
        return errno;
    if (!lli_shm_take(*fd, F_WRLCK) || fchmod(*fd, mode) != 0)
        return errno;
    return make_room(*fd, 0, bytes);
}

static int make_name(const struct lli_shm_root *root, const char *name, uint64_t id, const char *suffix,
                     int fd)
{
    char from[64], to[PATH_BYTES];

    (void)snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    segment_path(to, root, name, id, suffix);
    return linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

static void *make_map(int fd, uint64_t offset, uint64_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

    if (base == MAP_FAILED)
        return NULL;
    lli_memory_populate(base, bytes, LLI_MEMORY_WRITE);
    return base;
}

static void make_header(struct lli_shm_segment *segment, const struct lli_shm_shape *shape,
                        const struct lli_shm_header *plan)
{
    struct lli_shm_header *header = segment->header;

    *header = *plan;
    header->writer = shape->writer;
    header->pid = (uint32_t)getpid();
    header->loops = shape->loops;
    memcpy(header->magic, LLI_SHM_MAGIC, sizeof header->magic);
    segment_place(segment, plan);
}

static void bell_begin(struct lli_shm_bell *bell)
{
    memcpy(bell->magic, LLI_SHM_BELL_MAGIC, sizeof bell->magic);
}

/* Guards a bell that another user owns or may write, and so may truncate. Returns 0 or an errno. */
static int bell_guard(struct lli_shm_segment *segment, int fd)
{
    struct stat file;

    if (fstat(fd, &file) != 0)
        return errno;
    if (file.st_uid == geteuid() && (file.st_mode & 022) == 0)
        return 0;
    segment->bell_guard = lli_shm_guard(segment->bell, sizeof *segment->bell);
    return segment->bell_guard == LLI_SHM_GUARD_NONE ? EUSERS : 0;
}

static struct lli_shm_header make_plan(const struct lli_shm_shape *shape)
{
    struct lli_shm_header plan = {
        .version = LLI_SHM_VERSION,
        .entries = shape->entries,
        .payload_max = shape->payload_max,
        .copies_bytes = (uint32_t)pages((uint64_t)LLI_SHM_COPIES * shape->payload_max),
        .entries_offset = pages(sizeof plan),
    };

    plan.copies_offset = plan.entries_offset + pages(shape->entries * sizeof(struct lli_shm_entry));
    plan.history_offset = plan.copies_offset + plan.copies_bytes;
    return plan;
}

int lli_shm_create(struct lli_shm_sender *sender, const struct lli_shm_root *root,
                   const struct lli_shm_shape *shape, const struct lli_log *log)
{
    const struct lli_shm_header plan = make_plan(shape);
    struct lli_shm_segment *segment = &sender->segment;
    struct make make = {
        .name = sender->name, .bytes = plan.history_offset + pages(shape->history_bytes), .files = 2};
    int error;

    lli_shm_sweep(root, sender->name);
    *segment = (struct lli_shm_segment){.fd = -1, .mapped = plan.history_offset, .id = lli_entropy()};
    error = make_file(root, sender->name, sizeof *segment->bell, lli_shm_mode_write(root->mode),
                      &sender->bell_fd);
    if (error == 0)
        error = make_file(root, sender->name, segment->mapped, root->mode, &segment->fd);
    if (error == 0) {
        segment->bell = make_map(sender->bell_fd, 0, sizeof *segment->bell);
        segment->header = make_map(segment->fd, 0, segment->mapped);
        error = segment->bell == NULL || segment->header == NULL ? errno : 0;
    }
    if (error == 0) {
        make_header(segment, shape, &plan);
        bell_begin(segment->bell);
        error = bell_guard(segment, sender->bell_fd);
    }
    if (error == 0) {
        error = make_name(root, sender->name, segment->id, ".bell", sender->bell_fd);
    }
    if (error == 0)
        error = make_name(root, sender->name, segment->id, ".data", segment->fd);
    if (error == 0)
        return LLM_OK;
    lli_shm_remove(sender, root);
    (void)snprintf(make.what, sizeof make.what, "a segment of %llu bytes",
                   (unsigned long long)plan.history_offset);
    (void)snprintf(make.smaller, sizeof make.smaller,
                   "history_packets=%u (%u bytes each), or mtu=%u (%d times)", shape->entries,
                   (unsigned)sizeof(struct lli_shm_entry), shape->payload_max, LLI_SHM_COPIES);
    return make_failed(root, &make, error, log);
}

int lli_shm_extend(struct lli_shm_sender *sender, const struct lli_shm_root *root, size_t size,
                   const struct lli_log *log)
{
    struct lli_shm_segment *segment = &sender->segment;
    struct make make = {
        .name = sender->name, .smaller = "history_bytes", .bytes = segment->mapped + pages(size)};
    int error;

    assert(segment->history == NULL);
    error = make_room(segment->fd, segment->mapped, pages(size));
    if (error == 0) {
        segment->history = make_map(segment->fd, segment->mapped, pages(size));
        error = segment->history == NULL ? errno : 0;
    }
    if (error != 0) {
        (void)snprintf(make.what, sizeof make.what, "a history of %llu bytes", (unsigned long long)size);
        return make_failed(root, &make, error, log);
    }
    segment->history_bytes = size;
    /* Release: a reader that sees the size also sees the extended file. */
    atomic_store_explicit(&segment->header->history_bytes, size, memory_order_release);
    return LLM_OK;
}

void lli_shm_sender_release(struct lli_shm_sender *sender)
{
    segment_unmap(&sender->segment);
    if (sender->bell_fd >= 0)
        close(sender->bell_fd);
    sender->bell_fd = -1;
}

void lli_shm_source_release(struct lli_shm_source *source)
{
    segment_unmap(&source->segment);
}

/* Removes a path if it still refers to the open file. */
static void remove_own(const char *path, int fd)
{
    struct stat file;

    if (fd >= 0 && fstat(fd, &file) == 0)
        (void)lli_owned_remove(AT_FDCWD, path, &file);
}

void lli_shm_remove(struct lli_shm_sender *sender, const struct lli_shm_root *root)
{
    struct lli_shm_segment *segment = &sender->segment;
    char path[PATH_BYTES];

    if (segment->header != NULL)
        atomic_store_explicit(&segment->header->closed, 1, memory_order_release);
    /* A segment without a name yet is not found, which is harmless. */
    segment_path(path, root, sender->name, segment->id, ".data");
    remove_own(path, segment->fd);
    segment_path(path, root, sender->name, segment->id, ".bell");
    remove_own(path, sender->bell_fd);
    lli_shm_sender_release(sender);
}

/* ---------------------------------------------------------------------------------------------- attaching */

/* Checks that a header's offsets lie within the file; reading beyond it would end the process. */
static bool header_fits(const struct lli_shm_header *header, uint64_t file_bytes)
{
    return header->entries > 0 && (header->entries & (header->entries - 1)) == 0 && header->payload_max > 0 &&
           header->payload_max <= LLI_SHM_SLOT_BYTES && header->entries_offset >= sizeof *header &&
           header->entries_offset % PAGE == 0 && header->entries_offset <= header->copies_offset &&
           (header->copies_offset - header->entries_offset) / sizeof(struct lli_shm_entry) >=
               header->entries &&
           header->copies_offset % PAGE == 0 && header->copies_offset <= header->history_offset &&
           header->history_offset - header->copies_offset >= header->copies_bytes &&
           header->history_offset % PAGE == 0 && header->history_offset <= file_bytes;
}

/* Fails for a file that is not what its name says. */
static int attach_refused(const char *path, const char *what, const struct lli_log *log)
{
    return log == NULL ? LLM_EVERSION
                       : lli_fail(log, LLM_EVERSION, "shm: %s: is %s; remove the file", path, what);
}

/*
 * Maps a segment. Reads the header once and checks that copy, because the shared header may change at any
 * time.
 */
static int attach_map(struct lli_shm_segment *segment, const char *path, const struct lli_log *log)
{
    struct lli_shm_header header;
    struct stat file;
    ssize_t got;

    if (fstat(segment->fd, &file) != 0 || (got = pread(segment->fd, &header, sizeof header, 0)) < 0)
        return attach_failed(path, errno, log);
    if ((size_t)got < sizeof header || memcmp(header.magic, LLI_SHM_MAGIC, sizeof header.magic) != 0)
        return attach_refused(path, "no segment", log);
    if (header.version != LLI_SHM_VERSION)
        return log == NULL ? LLM_EVERSION
                           : lli_fail(log, LLM_EVERSION,
                                      "shm: %s: version %u of a segment, this library reads %d; "
                                      "use the same libllm on both sides",
                                      path, header.version, LLI_SHM_VERSION);
    if (!header_fits(&header, (uint64_t)file.st_size))
        return attach_refused(path, "damaged", log);
    segment->header = mmap(NULL, header.history_offset, PROT_READ, MAP_SHARED, segment->fd, 0);
    if (segment->header == MAP_FAILED) {
        segment->header = NULL;
        return attach_failed(path, errno, log);
    }
    segment->mapped = header.history_offset;
    if (file.st_uid != geteuid()) {
        segment->guard = lli_shm_guard(segment->header, header.history_offset);
        if (segment->guard == LLI_SHM_GUARD_NONE)
            return attach_failed(path, EUSERS, log);
    }
    lli_memory_populate(segment->header, header.history_offset, LLI_MEMORY_READ);
    segment_place(segment, &header);
    return LLM_OK;
}

static int attach_bell(struct lli_shm_segment *segment, const struct lli_shm_root *root, const char *name,
                       const struct lli_log *log)
{
    char path[PATH_BYTES];
    struct stat file;
    int error = LLM_OK;
    int fd;

    segment_path(path, root, name, segment->id, ".bell");
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return attach_failed(path, errno, log);
    if (fstat(fd, &file) != 0)
        error = attach_failed(path, errno, log);
    else if ((uint64_t)file.st_size < sizeof *segment->bell)
        error = attach_refused(path, "no bell", log);
    else if ((segment->bell = make_map(fd, 0, sizeof *segment->bell)) == NULL ||
             (errno = bell_guard(segment, fd)) != 0)
        error = attach_failed(path, errno, log);
    close(fd);
    return error;
}

/* Maps a bell in place of the zeros. */
static bool bell_remap(struct lli_shm_segment *segment, int fd)
{
    struct stat file;

    if (fstat(fd, &file) != 0 || (uint64_t)file.st_size < sizeof *segment->bell ||
        mmap(segment->bell, sizeof *segment->bell, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED)
        return false;
    lli_shm_guard_mended(segment->bell_guard);
    return true;
}

bool lli_shm_bell_mend(struct lli_shm_segment *segment, const struct lli_shm_root *root, const char *name)
{
    char path[PATH_BYTES];
    bool mended;
    int fd;

    segment_path(path, root, name, segment->id, ".bell");
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    mended = bell_remap(segment, fd);
    close(fd);
    return mended;
}

bool lli_shm_bell_restore(struct lli_shm_sender *sender)
{
    if (make_room(sender->bell_fd, 0, sizeof *sender->segment.bell) != 0 ||
        !bell_remap(&sender->segment, sender->bell_fd))
        return false;
    bell_begin(sender->segment.bell);
    return true;
}

/*
 * Claims a reader place; with root NULL only an unused one, else also that of an instance that no longer
 * exists.
 */
static struct lli_shm_reader *place_take(struct lli_shm_bell *bell, const struct lli_shm_root *root,
                                         uint64_t self)
{
    for (uint32_t i = 0; i < LLI_SHM_READERS_MAX; i++) {
        struct lli_shm_reader *reader = &bell->readers[i];
        uint64_t id = atomic_load_explicit(&reader->id, memory_order_relaxed);

        if (id != 0 && (root == NULL || lli_shm_socket_answers(root, id)))
            continue;
        if (atomic_compare_exchange_strong(&reader->id, &id, self)) {
            atomic_store_explicit(&reader->asleep, 0, memory_order_relaxed);
            return reader;
        }
    }
    return NULL;
}

/* Finds a reader place; reuses places of killed readers if there is no other. */
static struct lli_shm_reader *attach_place(struct lli_shm_bell *bell, const struct lli_shm_root *root,
                                           uint64_t self)
{
    struct lli_shm_reader *reader = place_take(bell, NULL, self);

    return reader != NULL ? reader : place_take(bell, root, self);
}

void lli_shm_place_again(struct lli_shm_source *source, uint64_t self)
{
    struct lli_shm_reader *reader = place_take(source->segment.bell, NULL, self);

    if (reader != NULL)
        source->reader = reader;
    else
        atomic_store_explicit(&source->reader->id, self, memory_order_relaxed);
}

static bool is_in_group(gid_t group)
{
    const int count = getgroups(0, NULL);
    gid_t *groups = malloc((size_t)(count > 0 ? count : 1) * sizeof *groups);
    bool found = group == getegid();

    for (int i = groups == NULL ? 0 : getgroups(count, groups); i-- > 0;)
        found |= groups[i] == group;
    free(groups);
    return found;
}

/*
 * Checks the owner of a segment: readers accept segments of their own user and of root; with a mode that lets
 * other users read, also segments of these. Without this check the first user to claim a name could
 * impersonate its transmitter.
 */
static int attach_owner(const char *path, int fd, mode_t mode, const struct lli_log *log)
{
    struct stat file;

    if (fstat(fd, &file) != 0)
        return attach_failed(path, errno, log);
    if (file.st_uid == geteuid() || file.st_uid == 0 || (mode & 0004) != 0 ||
        ((mode & 0040) != 0 && is_in_group(file.st_gid)))
        return LLM_OK;
    return log == NULL
               ? LLM_EACCESS
               : lli_fail(log, LLM_EACCESS,
                          "shm: %s: is of user %u, group %u, and this receiver has shm_mode=%04o: "
                          "open it with 0640 to take what users of its groups send, or 0644 for any user",
                          path, (unsigned)file.st_uid, (unsigned)file.st_gid, (unsigned)mode);
}

int lli_shm_attach(struct lli_shm_source *source, const struct lli_shm_root *root, const char *name,
                   uint64_t id, uint64_t self, const struct lli_log *log)
{
    struct lli_shm_segment *segment = &source->segment;
    char path[PATH_BYTES];
    int error;

    *source = (struct lli_shm_source){.segment = {.fd = -1, .id = id}};
    segment_path(path, root, name, id, ".data");
    segment->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (segment->fd < 0)
        return attach_failed(path, errno, log);
    /* Skip segments of dead writers without logging, whatever else is wrong. */
    if (!lli_shm_is_locked(segment->fd))
        error = LLM_EAGAIN;
    else
        error = self == 0 ? LLM_OK : attach_owner(path, segment->fd, root->mode, log);
    if (error == LLM_OK)
        error = attach_map(segment, path, log);
    if (error == LLM_OK && self != 0)
        error = attach_bell(segment, root, name, log);
    if (error == LLM_OK && self != 0) {
        source->reader = attach_place(segment->bell, root, self);
        if (source->reader == NULL)
            error = log == NULL ? LLM_ELIMIT
                                : lli_fail(log, LLM_ELIMIT, "shm: %s: has %d readers already", name,
                                           LLI_SHM_READERS_MAX);
    }
    if (error != LLM_OK) {
        segment_unmap(segment);
        return error;
    }
    return LLM_OK;
}

void lli_shm_detach(struct lli_shm_source *source)
{
    if (source->reader != NULL)
        atomic_store_explicit(&source->reader->id, 0, memory_order_release);
    lli_shm_source_release(source);
}

bool lli_shm_attach_history(struct lli_shm_segment *segment)
{
    const uint64_t bytes = atomic_load_explicit(&segment->header->history_bytes, memory_order_acquire);
    struct stat file;
    void *base;

    if (segment->history != NULL)
        return true;
    if (bytes == 0 || fstat(segment->fd, &file) != 0 || (uint64_t)file.st_size < segment->mapped ||
        bytes > (uint64_t)file.st_size - segment->mapped)
        return false;
    base = mmap(NULL, bytes, PROT_READ, MAP_SHARED, segment->fd, (off_t)segment->mapped);
    if (base == MAP_FAILED)
        return false;
    lli_memory_populate(base, bytes, LLI_MEMORY_READ);
    segment->history = base;
    segment->history_bytes = bytes;
    lli_shm_guard_more(segment->guard, base, bytes);
    return true;
}
