/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "observe/stats_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system/clock.h"
#include "system/owned.h"
#include "observe/stats.h"
#include "observe/stats_sweep.h"

enum {
    FILE_OBJECTS = 1024,
    FILE_ROWS = 4096,
    FILE_HISTOGRAMS = 64,     /* with a latency monitor */
    FILE_DIRECTORY_MAX = 160, /* leaves room for a name */
};

#define FILE_INTERVAL_MIN ((lli_ns)1000000)
#define FILE_INTERVAL_MAX ((lli_ns)60000000000)

/* ------------------------------------------------------------------------------------------ the directory */

/* Logs why an operation on a path failed; errno is still that of the failure. */
static int file_failed(const char *path, const struct lli_log *log)
{
    const int error = errno;
    struct stat file;

    if (lstat(path, &file) == 0 && S_ISLNK(file.st_mode))
        return lli_fail(log, LLM_ESYSTEM,
                        "counters file: %s: is a symbolic link; name the directory that it leads to", path);
    errno = error;
    if (errno == ENOSPC || errno == EDQUOT)
        return lli_fail(log, LLM_ENOMEM,
                        "counters file: %s: %m; see 'df -h', and remove what dead processes left with "
                        "'llm-stat --clean'",
                        path);
    if (errno == EFBIG)
        return lli_fail(log, LLM_ELIMIT,
                        "counters file: %s: %m; raise the limit of the size of files, 'ulimit -f'", path);
    if (errno == EOPNOTSUPP || errno == EISDIR)
        return lli_fail(log, LLM_ESYSTEM,
                        "counters file: %s: the file system has no O_TMPFILE; take a directory below "
                        "/dev/shm",
                        path);
    return lli_fail(log, errno == EACCES || errno == EPERM || errno == EROFS ? LLM_EACCESS : LLM_ESYSTEM,
                    "counters file: %s: %m; stats_directory must be a directory that may be written, or can "
                    "be made, as " LLM_STATS_DIRECTORY " can",
                    path);
}

/* Opens the directory, and creates it for all users if it is absent. */
static int file_directory(struct lli_stats_file *file, const char *path, const struct lli_log *log)
{
    const bool made = mkdir(path, 0700) == 0;

    if (!made && errno != EEXIST)
        return file_failed(path, log);
    file->directory = lli_owned_directory(path);
    return file->directory < 0 || (made && !lli_owned_share(file->directory)) ? file_failed(path, log)
                                                                              : LLM_OK;
}

/* -------------------------------------------------------------------------------------------- open, close */

static size_t file_table_bytes(const struct llm_stats_file *plan)
{
    return sizeof(struct llm_stats_table) + plan->objects_max * sizeof(struct llm_stats_object) +
           plan->rows_max * (sizeof(struct llm_stats_row) + sizeof(uint64_t)) +
           plan->histograms_max * sizeof(struct llm_stats_histogram);
}

static struct llm_stats_file file_plan(const struct llm_context_options *options)
{
    struct llm_stats_file plan = {
        .version = LLM_STATS_VERSION,
        .pid = (uint32_t)getpid(),
        .started_at = lli_clock_real_ns(),
        .interval_ns = options->stats_ns,
        .objects_max = FILE_OBJECTS,
        .rows_max = FILE_ROWS,
        .histograms_max = options->latency == LLM_LATENCY_OFF ? 0 : FILE_HISTOGRAMS,
    };

    memcpy(plan.magic, LLM_STATS_MAGIC, sizeof plan.magic);
    plan.table_bytes = file_table_bytes(&plan);
    plan.table_at[0] = lli_round_up(sizeof plan, 64);
    plan.table_at[1] = plan.table_at[0] + lli_round_up(plan.table_bytes, 64);
    (void)snprintf(plan.program, sizeof plan.program, "%s", program_invocation_short_name);
    if (options->stats_name != NULL)
        (void)snprintf(plan.name, sizeof plan.name, "%s", options->stats_name);
    return plan;
}

/* Links the file, which is locked, under the first name that no living process has. */
static int file_name(struct lli_stats_file *file, const char *directory, const struct llm_stats_file *plan)
{
    char program[sizeof plan->program], from[64];

    memcpy(program, plan->program, sizeof program);
    lli_stats_program(program);
    (void)snprintf(from, sizeof from, "/proc/self/fd/%d", file->fd);
    for (int number = 0; number < LLI_STATS_NUMBERS; number++) {
        (void)snprintf(file->name, sizeof file->name, "%s.%u.%d", program, plan->pid, number);
        (void)snprintf(file->path, sizeof file->path, "%s/%s", directory, file->name);
        /* A dead process may have had the same number: in a container most have. */
        (void)lli_stats_remove_dead(file->directory, file->name);
        if (linkat(AT_FDCWD, from, file->directory, file->name, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

static int file_make(struct lli_stats_file *file, const char *directory,
                     const struct llm_context_options *options, const struct lli_log *log)
{
    const struct llm_stats_file plan = file_plan(options);
    const size_t size = plan.table_at[1] + plan.table_bytes;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int error = file_directory(file, directory, log);

    if (error != LLM_OK)
        return error;
    lli_stats_sweep(file->directory, directory, log);
    file->fd = openat(file->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, options->stats_mode);
    /*
     * Allocate all blocks now: with a full file system, a later write to the mapping would kill the process.
     */
    if (file->fd < 0 || fchmod(file->fd, options->stats_mode) != 0 ||
        fcntl(file->fd, F_OFD_SETLK, &lock) != 0 || (errno = lli_memory_file_limit(size)) != 0 ||
        fallocate(file->fd, 0, 0, (off_t)size) != 0)
        return file_failed(directory, log);
    error = lli_memory_map_file(&file->memory, file->fd, size, log);
    if (error != LLM_OK)
        return error;
    memcpy(file->memory.base, &plan, sizeof plan);
    file->known = calloc(2 * FILE_ROWS, sizeof *file->known);
    if (file->known == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for a counters file");
    if (file_name(file, directory, &plan) != 0) {
        file->path[0] = '\0';
        return file_failed(directory, log);
    }
    return LLM_OK;
}

static int file_check(const struct llm_context_options *options, const struct lli_log *log)
{
    if (options->stats_ns < FILE_INTERVAL_MIN || options->stats_ns > FILE_INTERVAL_MAX)
        return lli_fail(log, LLM_EINVAL, "context: stats_ns is %llu: must be between %llu and %llu",
                        (unsigned long long)options->stats_ns, (unsigned long long)FILE_INTERVAL_MIN,
                        (unsigned long long)FILE_INTERVAL_MAX);
    if ((options->stats_mode & ~0666u) != 0 || (options->stats_mode & 0600) != 0600)
        return lli_fail(log, LLM_EINVAL,
                        "context: stats_mode is 0%o: must be the mode of a file that its owner reads and "
                        "writes, as 0640",
                        options->stats_mode);
    if (options->stats_name != NULL &&
        strlen(options->stats_name) >= sizeof((struct llm_stats_file *)0)->name)
        return lli_fail(log, LLM_EINVAL, "context: stats_name \"%s\" is longer than %zu characters",
                        options->stats_name, sizeof((struct llm_stats_file *)0)->name - 1);
    return LLM_OK;
}

int lli_stats_file_open(struct lli_stats_file **result, const struct llm_context_options *options,
                        const struct lli_log *log)
{
    const char *directory = options->stats_directory;
    const bool by_environment = directory == NULL;
    struct lli_stats_file *file;
    int error = file_check(options, log);

    if (by_environment)
        directory = secure_getenv("LLM_STATS_DIRECTORY");
    if (error != LLM_OK || directory == NULL || directory[0] == '\0')
        return error;
    if (strlen(directory) > FILE_DIRECTORY_MAX)
        return lli_fail(log, LLM_EINVAL, "context: stats_directory \"%.40s...\" is longer than %d characters",
                        directory, FILE_DIRECTORY_MAX);
    file = malloc(sizeof *file);
    if (file == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for a counters file");
    *file = (struct lli_stats_file){.fd = -1, .directory = -1, .interval = options->stats_ns};
    *result = file;
    error = file_make(file, directory, options, log);
    if (error == LLM_OK)
        return LLM_OK;
    lli_stats_file_close(result);
    /* The environment variable may be set for programs that work without the file. */
    return by_environment ? LLM_OK : error;
}

void lli_stats_file_close(struct lli_stats_file **result)
{
    const struct lli_stats_file *file = *result;
    struct stat own;

    if (file != NULL && file->path[0] != '\0' && fstat(file->fd, &own) == 0)
        (void)lli_owned_remove(file->directory, file->name, &own);
    lli_stats_file_release(result);
}

void lli_stats_file_release(struct lli_stats_file **result)
{
    struct lli_stats_file *file = *result;

    if (file == NULL)
        return;
    lli_memory_unmap(&file->memory);
    if (file->fd >= 0)
        close(file->fd);
    if (file->directory >= 0)
        close(file->directory);
    free(file->known);
    free(file);
    *result = NULL;
}

/* -------------------------------------------------------------------------------------------------- write */

/* State of writing a table. */
struct file_pass {
    struct llm_stats_table *table;
    struct llm_stats_object *objects;
    struct llm_stats_row *rows;
    uint64_t *values;
    struct llm_stats_histogram *histograms;
    struct lli_stats_known *known;
    uint32_t objects_max;
    uint32_t rows_max;
    uint32_t histograms_max;
    uint32_t parent; /* the latest transmitter or receiver */
    uint32_t owner;  /* the latest object that may have topics */
    bool skipping;   /* there was no space for the latest object */
};

static void file_object(void *arg, enum llm_stats_kind kind, uint64_t id, const char *object)
{
    struct file_pass *pass = arg;
    struct llm_stats_table *table = pass->table;
    const char *label = strchr(object, ' ');
    struct llm_stats_object *to = &pass->objects[table->objects];
    const bool belongs = kind == LLM_STATS_MEMBER || kind == LLM_STATS_SESSION;

    pass->skipping = table->objects == pass->objects_max;
    if (pass->skipping)
        return;
    if (!belongs && kind != LLM_STATS_TOPIC)
        pass->parent = table->objects;
    if (kind != LLM_STATS_TOPIC)
        pass->owner = table->objects;
    label = label == NULL ? "" : label + 1;
    to->kind = kind;
    to->parent = kind == LLM_STATS_TOPIC ? pass->owner : pass->parent;
    to->id = id;
    if (strncmp(to->label, label, sizeof to->label - 1) != 0)
        (void)snprintf(to->label, sizeof to->label, "%s", label);
    table->objects++;
}

static void file_row(void *arg, enum llm_stats_type type, const char *name, uint64_t value)
{
    struct file_pass *pass = arg;
    struct llm_stats_table *table = pass->table;
    struct llm_stats_row *row = &pass->rows[table->rows];
    struct lli_stats_known *known = &pass->known[table->rows];

    if (pass->skipping || table->rows == pass->rows_max) {
        table->dropped++;
        return;
    }
    /* Names are static, so pointers can be compared. */
    if (known->name != name || known->object != table->objects - 1) {
        *known = (struct lli_stats_known){name, table->objects - 1};
        row->object = known->object;
        row->type = type;
        (void)snprintf(row->name, sizeof row->name, "%s", name);
    }
    pass->values[table->rows++] = value;
}

static void file_histogram(void *arg, const char *name, const struct lli_histogram *histogram)
{
    struct file_pass *pass = arg;
    struct llm_stats_table *table = pass->table;
    struct llm_stats_histogram *to = &pass->histograms[table->histograms];

    if (pass->skipping || table->histograms == pass->histograms_max) {
        table->dropped++;
        return;
    }
    to->object = table->objects - 1;
    (void)snprintf(to->name, sizeof to->name, "%s", name);
    to->count = histogram->count;
    to->sum = histogram->sum;
    to->max = histogram->max;
    memcpy(to->buckets, histogram->buckets, sizeof to->buckets);
    table->histograms++;
}

void lli_stats_file_write(struct lli_stats_file *file, const struct llm_context *context)
{
    struct llm_stats_file *header = file->memory.base;
    const uint64_t sequence = header->sequence + 1;
    struct file_pass pass = {.objects_max = header->objects_max,
                             .rows_max = header->rows_max,
                             .histograms_max = header->histograms_max};
    const struct lli_stats_visitor visitor = {
        .arg = &pass, .detail = true, .object = file_object, .row = file_row, .histogram = file_histogram};

    pass.table = (struct llm_stats_table *)(void *)((uint8_t *)header + header->table_at[sequence & 1]);
    pass.objects = (struct llm_stats_object *)(pass.table + 1);
    pass.rows = (struct llm_stats_row *)(pass.objects + pass.objects_max);
    pass.values = (uint64_t *)(void *)(pass.rows + pass.rows_max);
    pass.histograms = (struct llm_stats_histogram *)(void *)(pass.values + pass.rows_max);
    pass.known = file->known + (sequence & 1) * FILE_ROWS;
    /* Release: a reader of this table sees the previous sequence number change before the table does. */
    atomic_thread_fence(memory_order_release);
    *pass.table = (struct llm_stats_table){.written_at = lli_clock_real_ns(), .clock_at = lli_clock_ns()};
    lli_stats_visit(context, &visitor);
    /* Release: a reader that sees the new number sees the table. */
    atomic_store_explicit((_Atomic uint64_t *)&header->sequence, sequence, memory_order_release);
    file->writes++;
    file->write_ns += lli_clock_ns() - pass.table->clock_at;
}
