/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "store/catalogue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CATALOGUE_DIGITS = 16 };

static const char *const suffixes[] = {
    [LLI_CATALOGUE_SEGMENT] = ".segment", [LLI_CATALOGUE_INDEX] = ".index"};

void lli_catalogue_name(char name[static LLI_CATALOGUE_NAME], uint64_t session, uint64_t ordinal,
                        enum lli_catalogue_suffix suffix)
{
    (void)snprintf(name, LLI_CATALOGUE_NAME, "%016llx/%016llx%s", (unsigned long long)session,
                   (unsigned long long)ordinal, suffixes[suffix]);
}

/* Reads the 16 hexadecimal digits that a name has before `rest`. False: it has other ones, or another end. */
static bool catalogue_number(const char *name, const char *rest, uint64_t *number)
{
    *number = 0;
    for (int i = 0; i < CATALOGUE_DIGITS; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = name[i] == '\0' ? NULL : strchr(digits, name[i]);

        if (digit == NULL)
            return false;
        *number = *number << 4 | (uint64_t)(digit - digits);
    }
    return strcmp(name + CATALOGUE_DIGITS, rest) == 0;
}

static int catalogue_no_memory(const struct lli_catalogue *catalogue)
{
    return lli_fail(&catalogue->log, LLM_ENOMEM, "store %s: no memory for its catalogue",
                    catalogue->directory);
}

/* A file or folder cannot be read, by errno. */
static int catalogue_unreadable(const struct lli_log *log, const char *directory, const char *name)
{
    const char *const remedy =
        errno == EACCES ? ": give this user the right to read it, or run as its owner" : "";

    return lli_fail(log, errno == EACCES || errno == EPERM ? LLM_EACCESS : LLM_ESYSTEM, "%s%s%s: %s%s",
                    directory, name[0] == '\0' ? "" : "/", name, strerror(errno), remedy);
}

/* Makes room for one more element. NULL: no memory; the elements stay where they are then. */
static void *catalogue_grow(void *elements, uint32_t count, uint32_t *capacity, size_t size)
{
    const uint32_t room = *capacity == 0 ? 8 : 2 * *capacity;
    void *grown = elements;

    if (count == *capacity) {
        grown = realloc(elements, room * size);
        if (grown != NULL)
            *capacity = room;
    }
    return grown;
}

/* ------------------------------------------------------------------------------------------- recordings */

/* Returns the position of a session, or where it belongs. */
static uint32_t catalogue_place(const struct lli_catalogue *catalogue, uint64_t session)
{
    uint32_t low = 0, high = catalogue->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (catalogue->recordings[middle]->session < session)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct lli_recording *catalogue_get(const struct lli_catalogue *catalogue, uint64_t session)
{
    const uint32_t place = catalogue_place(catalogue, session);

    return place < catalogue->count && catalogue->recordings[place]->session == session
               ? catalogue->recordings[place]
               : NULL;
}

const struct lli_recording *lli_catalogue_find(const struct lli_catalogue *catalogue, uint64_t session)
{
    return catalogue_get(catalogue, session);
}

static void recording_free(struct lli_recording *recording)
{
    free(recording->segments);
    free(recording);
}

/* Adds an empty recording. NULL: no memory. */
static struct lli_recording *catalogue_begin(struct lli_catalogue *catalogue, uint64_t session)
{
    struct lli_recording *recording = calloc(1, sizeof *recording);
    struct lli_recording **grown;
    uint32_t place;

    if (recording == NULL)
        return NULL;
    grown = catalogue_grow(catalogue->recordings, catalogue->count, &catalogue->capacity, sizeof *grown);
    if (grown == NULL) {
        free(recording);
        return NULL;
    }
    recording->session = session;
    catalogue->recordings = grown;
    place = catalogue_place(catalogue, session);
    memmove(grown + place + 1, grown + place, (catalogue->count - place) * sizeof *grown);
    grown[place] = recording;
    catalogue->count++;
    return recording;
}

static void catalogue_drop(struct lli_catalogue *catalogue, struct lli_recording *recording)
{
    const uint32_t place = catalogue_place(catalogue, recording->session);
    struct lli_recording **at = catalogue->recordings + place;

    memmove(at, at + 1, (--catalogue->count - place) * sizeof *at);
    recording_free(recording);
}

/* Appends a segment, out of order. False: no memory. */
static bool recording_append(struct lli_recording *recording, const struct lli_segment *segment)
{
    struct lli_catalogue_segment *grown =
        catalogue_grow(recording->segments, recording->count, &recording->capacity, sizeof *grown);

    if (grown == NULL)
        return false;
    recording->segments = grown;
    grown[recording->count++] = (struct lli_catalogue_segment){.packet = segment->first.packet,
                                                               .message = segment->first.message,
                                                               .number = LLI_BLOCK_UNNUMBERED,
                                                               .ordinal = segment->ordinal,
                                                               .sequence = segment->first.sequence,
                                                               .previous = segment->first.previous,
                                                               .wall = segment->first.wall,
                                                               .begun = segment->wall,
                                                               .size = segment->size};
    recording->start = segment->start;
    recording->stream = segment->stream;
    memcpy(recording->channel, segment->channel, sizeof recording->channel);
    return true;
}

static int recording_compare(const void *left, const void *right)
{
    const struct lli_catalogue_segment *a = left, *b = right;

    return a->ordinal < b->ordinal ? -1 : a->ordinal > b->ordinal;
}

static void recording_sort(struct lli_recording *recording)
{
    qsort(recording->segments, recording->count, sizeof *recording->segments, recording_compare);
}

static bool recording_remove(struct lli_recording *recording, uint64_t ordinal)
{
    for (uint32_t i = 0; i < recording->count; i++) {
        struct lli_catalogue_segment *at = recording->segments + i;

        if (at->ordinal != ordinal)
            continue;
        memmove(at, at + 1, (--recording->count - i) * sizeof *at);
        return true;
    }
    return false;
}

int lli_catalogue_add(struct lli_catalogue *catalogue, const struct lli_segment *segment)
{
    struct lli_recording *recording = catalogue_get(catalogue, segment->first.session);

    if (recording == NULL)
        recording = catalogue_begin(catalogue, segment->first.session);
    if (recording == NULL)
        return catalogue_no_memory(catalogue);
    (void)recording_remove(recording, segment->ordinal);
    if (!recording_append(recording, segment)) {
        if (recording->count == 0)
            catalogue_drop(catalogue, recording);
        return catalogue_no_memory(catalogue);
    }
    /* Nearly always it is the last one, and in order. */
    recording_sort(recording);
    return LLM_OK;
}

/* Returns a segment; NULL: there is none. */
static struct lli_catalogue_segment *catalogue_segment(struct lli_catalogue *catalogue, uint64_t session,
                                                       uint64_t ordinal)
{
    struct lli_recording *recording = catalogue_get(catalogue, session);

    for (uint32_t i = 0; recording != NULL && i < recording->count; i++)
        if (recording->segments[i].ordinal == ordinal)
            return recording->segments + i;
    return NULL;
}

void lli_catalogue_number(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal,
                          uint64_t number)
{
    struct lli_catalogue_segment *segment = catalogue_segment(catalogue, session, ordinal);

    if (segment != NULL)
        segment->number = number;
}

void lli_catalogue_fail(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal)
{
    struct lli_catalogue_segment *segment = catalogue_segment(catalogue, session, ordinal);

    if (segment != NULL)
        segment->failed = true;
}

bool lli_catalogue_remove(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal)
{
    struct lli_recording *recording = catalogue_get(catalogue, session);

    if (recording == NULL || !recording_remove(recording, ordinal))
        return false;
    if (recording->count == 0)
        catalogue_drop(catalogue, recording);
    return true;
}

struct lli_segment lli_catalogue_segment(const struct lli_recording *recording,
                                         const struct lli_catalogue_segment *segment)
{
    struct lli_segment header = {.first = {.session = recording->session,
                                           .sequence = segment->sequence,
                                           .previous = segment->previous,
                                           .packet = segment->packet,
                                           .message = segment->message,
                                           .wall = segment->wall},
                                 .ordinal = segment->ordinal,
                                 .start = recording->start,
                                 .size = segment->size,
                                 .wall = segment->begun,
                                 .stream = recording->stream};

    memcpy(header.channel, recording->channel, sizeof header.channel);
    return header;
}

/* ------------------------------------------------------------------------------------------------- read */

/* Reads the header of a file. False with errno set; a file without a whole header has LLI_SEGMENT_NONE. */
static bool catalogue_header(int fd, enum lli_segment_fault *fault, struct lli_segment *segment)
{
    uint8_t bytes[LLI_SEGMENT_HEADER];
    struct stat file;
    ssize_t size;

    *fault = LLI_SEGMENT_NONE;
    if (fstat(fd, &file) != 0)
        return false;
    if (!S_ISREG(file.st_mode))
        return true;
    size = pread(fd, bytes, sizeof bytes, 0);
    if (size == sizeof bytes)
        *fault = lli_segment_get(bytes, segment);
    return size >= 0;
}

static int catalogue_add_ready(struct lli_catalogue *catalogue, uint64_t session, uint64_t ordinal)
{
    struct lli_catalogue_ready *grown =
        catalogue_grow(catalogue->ready, catalogue->ready_count, &catalogue->ready_capacity, sizeof *grown);

    if (grown == NULL)
        return catalogue_no_memory(catalogue);
    catalogue->ready = grown;
    grown[catalogue->ready_count++] = (struct lli_catalogue_ready){session, ordinal};
    return LLM_OK;
}

/* Reads a file that has the name of a segment. */
static int catalogue_read_file(struct lli_catalogue *catalogue, int folder, const char *name,
                               uint64_t session, uint64_t ordinal, struct lli_recording *recording)
{
    /* A file that is a pipe has to be opened without waiting for its other end. */
    const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char path[LLI_CATALOGUE_NAME];
    enum lli_segment_fault fault;
    struct lli_segment segment;
    bool read;

    lli_catalogue_name(path, session, ordinal, LLI_CATALOGUE_SEGMENT);
    /* It was removed meanwhile, or is a link. */
    if (fd < 0 && (errno == ENOENT || errno == ELOOP))
        return LLM_OK;
    if (fd < 0)
        return catalogue_unreadable(&catalogue->log, catalogue->directory, path);
    read = catalogue_header(fd, &fault, &segment);
    close(fd);
    if (!read)
        return catalogue_unreadable(&catalogue->log, catalogue->directory, path);
    if (fault == LLI_SEGMENT_VERSION_BAD) {
        catalogue->versions++;
        lli_log(&catalogue->log, LLM_LEVEL_WARNING,
                "%s/%s: a segment of another version, which libllm %s does not read: use the version that "
                "wrote it",
                catalogue->directory, path, llm_version());
    }
    if (fault == LLI_SEGMENT_READY)
        return catalogue_add_ready(catalogue, session, ordinal);
    if (fault != LLI_SEGMENT_OK || segment.first.session != session || segment.ordinal != ordinal) {
        catalogue->ignored++;
        return LLM_OK;
    }
    return recording_append(recording, &segment) ? LLM_OK : catalogue_no_memory(catalogue);
}

static int catalogue_read_files(struct lli_catalogue *catalogue, DIR *folder, uint64_t session,
                                struct lli_recording *recording)
{
    int error = LLM_OK;

    for (struct dirent *entry = readdir(folder); entry != NULL && error == LLM_OK; entry = readdir(folder)) {
        uint64_t ordinal;

        if (catalogue_number(entry->d_name, suffixes[LLI_CATALOGUE_SEGMENT], &ordinal))
            error = catalogue_read_file(catalogue, dirfd(folder), entry->d_name, session, ordinal, recording);
    }
    return error;
}

/* Opens a folder; NULL with errno set. */
static DIR *catalogue_opendir(int at, const char *name)
{
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && folder == NULL)
        close(fd);
    return folder;
}

/* Reads the folder of a session. */
static int catalogue_read_folder(struct lli_catalogue *catalogue, const char *name, uint64_t session)
{
    DIR *folder = catalogue_opendir(catalogue->fd, name);
    struct lli_recording *recording;
    int error;

    if (folder == NULL && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return LLM_OK;
    if (folder == NULL)
        return catalogue_unreadable(&catalogue->log, catalogue->directory, name);
    recording = catalogue_begin(catalogue, session);
    error = recording == NULL ? catalogue_no_memory(catalogue)
                              : catalogue_read_files(catalogue, folder, session, recording);
    if (recording != NULL && recording->count == 0)
        catalogue_drop(catalogue, recording);
    else if (recording != NULL)
        recording_sort(recording);
    closedir(folder);
    return error;
}

static int catalogue_read(struct lli_catalogue *catalogue)
{
    DIR *folder = catalogue_opendir(catalogue->fd, ".");
    int error = LLM_OK;

    if (folder == NULL)
        return catalogue_unreadable(&catalogue->log, catalogue->directory, "");
    for (struct dirent *entry = readdir(folder); entry != NULL && error == LLM_OK; entry = readdir(folder)) {
        uint64_t session;

        if (catalogue_number(entry->d_name, "", &session))
            error = catalogue_read_folder(catalogue, entry->d_name, session);
    }
    closedir(folder);
    return error;
}

static int catalogue_absent(const char *directory, const struct lli_log *log)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return lli_fail(log, LLM_ENOTFOUND, "store %s: %s: give the directory of a store", directory,
                        strerror(errno));
    return catalogue_unreadable(log, directory, "");
}

int lli_catalogue_open(const char *directory, const struct lli_log *log, struct lli_catalogue **catalogue)
{
    struct lli_catalogue *opened = calloc(1, sizeof *opened);
    int error;

    if (opened == NULL || (opened->directory = strdup(directory)) == NULL) {
        free(opened);
        return lli_fail(log, LLM_ENOMEM, "store %s: no memory for its catalogue", directory);
    }
    opened->log = *log;
    opened->fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    error = opened->fd < 0 ? catalogue_absent(directory, log) : catalogue_read(opened);
    if (error != LLM_OK)
        lli_catalogue_close(&opened);
    else
        *catalogue = opened;
    return error;
}

int lli_catalogue_add_keys(struct lli_catalogue *catalogue, const char *path)
{
    const int error =
        catalogue->opener != NULL ? LLM_OK : lli_opener_open(&catalogue->log, &catalogue->opener);

    return error == LLM_OK ? lli_opener_add(catalogue->opener, path) : error;
}

void lli_catalogue_close(struct lli_catalogue **catalogue)
{
    struct lli_catalogue *closed = *catalogue;

    *catalogue = NULL;
    if (closed == NULL)
        return;
    for (uint32_t i = 0; i < closed->count; i++)
        recording_free(closed->recordings[i]);
    free(closed->recordings);
    free(closed->ready);
    lli_opener_close(closed->opener);
    if (closed->fd >= 0)
        close(closed->fd);
    free(closed->directory);
    free(closed);
}
