/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the shared-memory channels of this host, and removes those of dead processes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system/owned.h"
#include "shm.h"

static const char usage[] =
    "usage: llm-shm [--clean] [DIRECTORY]\n"
    "\n"
    "Lists the channels in shared memory: one line for each transmitter, living or dead.\n"
    "\n"
    "  DIRECTORY  directory of the channels (/dev/shm), as in the option shm_directory\n"
    "  --clean    removes channels of dead processes, as far as this user may\n"
    "  --help     this text\n"
    "\n"
    "Columns: the name; the transmitter's process, or \"dead\"; its user; the mode of its files, which "
    "decides who may read;\n"
    "receivers attached; packets sent; MiB of memory; seconds since it was opened.\n";

static int rows;
static int dead;   /* writers, of these, that are dead */
static int hidden; /* names that this user may not read */

/* ------------------------------------------------------------------------------------------------ listing */

/* Counts readers. Reads the bell instead of mapping it: every reader of the segment may truncate it. */
static unsigned count_readers(const char *path)
{
    static struct lli_shm_bell bell;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    unsigned count = 0;

    if (fd < 0)
        return 0;
    if (pread(fd, &bell, sizeof bell, 0) == (ssize_t)sizeof bell)
        for (int i = 0; i < LLI_SHM_READERS_MAX; i++)
            count += atomic_load_explicit(&bell.readers[i].id, memory_order_relaxed) != 0;
    close(fd);
    return count;
}

struct listing {
    const struct lli_shm_root *root;
    const char *name;
};

static int list_segment(void *arg, uint64_t id)
{
    const struct listing *listing = arg;
    struct lli_shm_source source;
    char path[PATH_MAX], pid[16] = "dead", who[32];
    unsigned long long packets = 0;
    struct stat file;
    const struct passwd *user;
    int status;

    (void)snprintf(path, sizeof path, "%s/%s/%016llx.data", listing->root->path, listing->name,
                   (unsigned long long)id);
    if (stat(path, &file) != 0)
        return 0;
    status = lli_shm_attach(&source, listing->root, listing->name, id, 0, NULL);
    if (status == LLM_OK) {
        (void)snprintf(pid, sizeof pid, "%u", source.segment.header->pid);
        packets = atomic_load_explicit(&source.segment.header->head, memory_order_relaxed);
        lli_shm_detach(&source);
    } else if (status != LLM_EAGAIN) {
        (void)snprintf(pid, sizeof pid, "?");
    } else {
        dead++;
    }
    user = getpwuid(file.st_uid);
    if (user != NULL)
        (void)snprintf(who, sizeof who, "%s", user->pw_name);
    else
        (void)snprintf(who, sizeof who, "%u", (unsigned)file.st_uid);
    (void)snprintf(path, sizeof path, "%s/%s/%016llx.bell", listing->root->path, listing->name,
                   (unsigned long long)id);
    if (rows++ == 0)
        printf("%-32s %7s %-12s %4s %7s %14s %8s %9s\n", "NAME", "PID", "USER", "MODE", "READERS", "PACKETS",
               "MIB", "AGE");
    printf("%-32s %7s %-12s %04o %7u %14llu %8.1f %9lld\n", listing->name, pid, who,
           (unsigned)file.st_mode & 0777, count_readers(path), packets, (double)file.st_size / (1 << 20),
           (long long)(time(NULL) - file.st_ctime));
    return 0;
}

/* ----------------------------------------------------------------------------------------------- cleaning */

/* Removes a socket that is no longer bound. */
static void clean_socket(void *arg, int directory, uint64_t id)
{
    (void)lli_shm_socket_remove(directory, arg, id);
}

/* Removes a name that has no writer: releasing its lock removes it. */
static void clean_name(const struct lli_shm_root *root, const char *name)
{
    char path[PATH_MAX];
    int directory, fd;

    (void)snprintf(path, sizeof path, "%s/%s", root->path, name);
    directory = lli_owned_directory(path);
    if (directory < 0)
        return;
    fd = openat(directory, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    close(directory);
    if (fd >= 0)
        lli_shm_unlock(root, name, fd);
    else
        lli_shm_sweep(root, name);
}

/* --------------------------------------------------------------------------------------------------- main */

static int each_name(const struct lli_shm_root *root,
                     void (*function)(const struct lli_shm_root *root, const char *name))
{
    DIR *directory = opendir(root->path);
    struct dirent *entry;

    if (directory == NULL) {
        if (errno == ENOENT)
            return 0;
        fprintf(stderr, "llm-shm: %s: %s\n", root->path, strerror(errno));
        return 1;
    }
    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.' && entry->d_name[0] != '@')
            function(root, entry->d_name);
    closedir(directory);
    return 0;
}

static void list_name(const struct lli_shm_root *root, const char *name)
{
    struct listing listing = {root, name};

    if (lli_shm_each(root, name, list_segment, &listing, NULL) >= 0)
        return;
    hidden++;
    fprintf(stderr, "llm-shm: %s: is not readable for this user; run llm-shm as its owner, or as root\n",
            name);
}

/* Returns the exit status after cleaning: 0 if nothing of dead processes is left, as far as is known. */
static int clean_status(void)
{
    if (dead > 0)
        fprintf(stderr, "llm-shm: dead channels of other users remain: run llm-shm --clean as their "
                        "user, or as root\n");
    return dead > 0 || hidden > 0;
}

int main(int argc, char **argv)
{
    struct lli_shm_root root = {.mode = 0600};
    const char *directory = "/dev/shm";
    bool clean = false;
    int status = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--clean") == 0) {
            clean = true;
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "llm-shm: %s: no such option; try 'llm-shm --help'\n", argv[i]);
            return 2;
        } else {
            directory = argv[i];
        }
    }
    if (access(directory, R_OK | X_OK) != 0 || strlen(directory) > sizeof root.path - sizeof "/llm") {
        fprintf(stderr, "llm-shm: %s: %s\n", directory, strerror(errno == 0 ? ENAMETOOLONG : errno));
        return 1;
    }
    (void)snprintf(root.path, sizeof root.path, "%s/llm", directory);
    if (clean) {
        status = each_name(&root, clean_name);
        lli_shm_socket_each(&root, clean_socket, &root);
        lli_shm_root_end(&root);
    }
    if (status == 0)
        status = each_name(&root, list_name);
    if (status == 0 && rows == 0 && hidden == 0)
        puts("no channels in shared memory");
    return status == 0 && clean ? clean_status() : status;
}
