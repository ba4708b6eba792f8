/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "system/owned.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

int lli_owned_directory(const char *path)
{
    size_t size = strlen(path);
    char plain[PATH_MAX];

    /* A slash at the end makes the kernel follow a link in spite of O_NOFOLLOW. */
    while (size > 1 && path[size - 1] == '/')
        size--;
    if (size >= sizeof plain) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(plain, path, size);
    plain[size] = '\0';
    return open(plain, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool lli_owned_share(int directory)
{
    struct stat file;

    return fstat(directory, &file) == 0 &&
           (file.st_uid != geteuid() || (file.st_mode & 07777) != 0700 || fchmod(directory, 01777) == 0);
}

bool lli_owned_is_safe(int directory)
{
    struct stat file;

    return fstat(directory, &file) == 0 && (file.st_uid == geteuid() || file.st_uid == 0) &&
           ((file.st_mode & S_IWOTH) == 0 || (file.st_mode & S_ISVTX) != 0);
}

int lli_owned_open(int directory, const char *name, int flags, struct stat *file)
{
    const int fd = openat(directory, name, flags | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0 && (fstat(fd, file) != 0 || !S_ISREG(file->st_mode) || file->st_nlink != 1)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool lli_owned_remove(int directory, const char *name, const struct stat *file)
{
    struct stat named;

    return fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == file->st_dev &&
           named.st_ino == file->st_ino && unlinkat(directory, name, 0) == 0;
}
