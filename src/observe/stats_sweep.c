/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "observe/stats_sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "system/owned.h"

enum { SWEEP_DEAD_MAX = 16 }; /* files of dead processes that remain in a directory, per user */

void lli_stats_program(char *program)
{
    if (program[0] == '\0')
        strcpy(program, "_");
    for (char *at = program; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("_-", *at) == NULL)
            *at = '_';
}

/* Parses a decimal number, as printf() writes it, at the start of a text. NULL: there is none. */
static const char *name_number(const char *text, uint64_t *number)
{
    const char *at = text;

    *number = 0;
    while (isdigit((unsigned char)*at) && at - text < 10)
        *number = *number * 10 + (uint64_t)(*at++ - '0');
    return at == text || (*text == '0' && at - text > 1) ? NULL : at;
}

/* Returns true if a name agrees with the header of its file. */
static bool name_fits(const char *name, const struct llm_stats_file *header)
{
    char program[sizeof header->program];
    uint64_t pid, number;
    size_t size;

    memcpy(program, header->program, sizeof program);
    program[sizeof program - 1] = '\0';
    lli_stats_program(program);
    size = strlen(program);
    if (strncmp(name, program, size) != 0 || name[size] != '.')
        return false;
    name = name_number(name + size + 1, &pid);
    if (name == NULL || pid != header->pid || *name != '.')
        return false;
    name = name_number(name + 1, &number);
    return name != NULL && *name == '\0' && number < LLI_STATS_NUMBERS;
}

/*
 * Checks a header. Sizes are checked for this version only; the other fields used have the same offset in
 * every version.
 */
static bool header_fits(const struct llm_stats_file *header, const struct stat *file)
{
    if (memcmp(header->magic, LLM_STATS_MAGIC, sizeof header->magic) != 0 || header->version == 0)
        return false;
    if (header->version != LLM_STATS_VERSION)
        return true;
    return header->table_at[0] >= sizeof *header && header->table_at[1] >= header->table_at[0] &&
           header->table_at[1] - header->table_at[0] >= header->table_bytes &&
           header->table_bytes <= (uint64_t)file->st_size &&
           header->table_at[1] <= (uint64_t)file->st_size - header->table_bytes;
}

static bool file_is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/*
 * Returns true if a name is that of a counters file of a dead process. A file without a lock has a dead
 * writer, as writers lock a file before they link it.
 */
static bool file_is_dead(int directory, const char *name, bool of_anybody, struct stat *file)
{
    struct llm_stats_file header;
    bool dead;
    int fd;

    /* Opening a device may have side effects: check the name first. */
    if (strchr(name, '.') == NULL || name[0] == '.')
        return false;
    fd = lli_owned_open(directory, name, O_RDONLY, file);
    if (fd < 0)
        return false;
    dead = (file->st_uid == geteuid() || (of_anybody && geteuid() == 0)) &&
           pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header && header_fits(&header, file) &&
           name_fits(name, &header) && !file_is_locked(fd);
    close(fd);
    return dead;
}

bool lli_stats_remove_dead(int directory, const char *name)
{
    struct stat file;

    return lli_owned_is_safe(directory) && file_is_dead(directory, name, true, &file) &&
           lli_owned_remove(directory, name, &file);
}

/* Opens the directory again: the stream has a position of its own, and closes its descriptor. */
static DIR *sweep_open(int directory)
{
    const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *files = fd < 0 ? NULL : fdopendir(fd);

    if (files == NULL && fd >= 0)
        close(fd);
    return files;
}

/* Counts the files of dead processes of this user, and finds the oldest. */
static int sweep_count(DIR *files, char oldest[NAME_MAX + 1], struct stat *file)
{
    struct dirent *entry;
    struct stat found;
    int dead = 0;

    rewinddir(files);
    while ((entry = readdir(files)) != NULL) {
        if (!file_is_dead(dirfd(files), entry->d_name, false, &found))
            continue;
        if (dead++ == 0 || found.st_mtim.tv_sec < file->st_mtim.tv_sec ||
            (found.st_mtim.tv_sec == file->st_mtim.tv_sec && found.st_mtim.tv_nsec < file->st_mtim.tv_nsec)) {
            memcpy(oldest, entry->d_name, strlen(entry->d_name) + 1);
            *file = found;
        }
    }
    return dead;
}

void lli_stats_sweep(int directory, const char *path, const struct lli_log *log)
{
    DIR *files = sweep_open(directory);
    char oldest[NAME_MAX + 1];
    struct stat file;
    int dead;

    if (files == NULL)
        return;
    while ((dead = sweep_count(files, oldest, &file)) > SWEEP_DEAD_MAX) {
        if (!lli_owned_is_safe(directory)) {
            lli_log(log, LLM_LEVEL_WARNING,
                    "counters file: %s: %d files of dead processes are not removed, as other users can "
                    "rename files there; "
                    "chown it to root and give it mode 1777",
                    path, dead);
            break;
        }
        if (!lli_owned_remove(directory, oldest, &file))
            break;
    }
    closedir(files);
}

int lli_stats_clean(int directory)
{
    DIR *files = sweep_open(directory);
    struct dirent *entry;
    int removed = 0;

    if (files == NULL)
        return -1;
    if (!lli_owned_is_safe(directory)) {
        closedir(files);
        errno = EPERM;
        return -1;
    }
    while ((entry = readdir(files)) != NULL)
        removed += lli_stats_remove_dead(directory, entry->d_name);
    closedir(files);
    return removed;
}
