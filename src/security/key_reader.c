/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "security/key_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "security/hkdf.h"

/* Text and parsed form of a file. */
struct reader {
    struct lli_key_file file;
    char text[LLI_KEY_FILE_MAX + 1];
};

void lli_keys_close(struct lli_keys *keys)
{
    lli_memory_unmap_secret(&keys->memory);
    keys->file = NULL;
}

/* Refuses a file that others may read or change. */
static int reader_check(int fd, const char *path, const struct lli_log *log)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return lli_fail(log, LLM_ESYSTEM, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return lli_fail(log, LLM_EACCESS, "key file %s: it is not a regular file", path);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        return lli_fail(
            log, LLM_EACCESS,
            "key file %s: it belongs to user %u, who may read it; it has to belong to this one (%u) "
            "or to root: chown it",
            path, (unsigned)status.st_uid, (unsigned)geteuid());
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return lli_fail(log, LLM_EACCESS,
                        "key file %s: its mode is %04o, with which others may read or change it: chmod 0600",
                        path, (unsigned)status.st_mode & 07777);
    return LLM_OK;
}

/* Reads all of a file, at most size bytes. Returns how many it has, or -1 with errno set. */
static ssize_t reader_fill(int fd, char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;

    while (used < size && (got = read(fd, text + used, size - used)) != 0) {
        if (got < 0 && errno != EINTR)
            return -1;
        used += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)used;
}

static int reader_read(struct reader *reader, int fd, const char *path, const struct lli_log *log)
{
    struct lli_key_fault fault;
    int error = reader_check(fd, path, log);
    ssize_t size;

    if (error != LLM_OK)
        return error;
    size = reader_fill(fd, reader->text, sizeof reader->text);
    if (size < 0)
        return lli_fail(log, LLM_ESYSTEM, "key file %s: %s", path, strerror(errno));
    if (lli_key_parse(reader->text, (size_t)size, &reader->file, &fault))
        return LLM_OK;
    if (fault.line == 0)
        return lli_fail(log, LLM_EDAMAGED, "key file %s: %s", path, fault.text);
    if (fault.value[0] == 0)
        return lli_fail(log, LLM_EDAMAGED, "key file %s, line %u: %s", path, fault.line, fault.text);
    return lli_fail(log, LLM_EDAMAGED, "key file %s, line %u: \"%s\": %s", path, fault.line, fault.value,
                    fault.text);
}

int lli_keys_read(struct lli_keys *keys, const char *path, const struct lli_log *log)
{
    struct reader *reader;
    int fd, error;

    *keys = (struct lli_keys){.file = NULL};
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return lli_fail(log,
                        errno == ENOENT   ? LLM_ENOTFOUND
                        : errno == EACCES ? LLM_EACCESS
                                          : LLM_ESYSTEM,
                        "key file %s: %s; llm-key new makes one", path, strerror(errno));
    error = lli_memory_map_secret(&keys->memory, sizeof *reader, log);
    if (error == LLM_OK) {
        reader = keys->memory.base;
        error = reader_read(reader, fd, path, log);
        lli_key_wipe(reader->text, sizeof reader->text);
        keys->file = &reader->file;
    }
    (void)close(fd);
    if (error != LLM_OK)
        lli_keys_close(keys);
    return error;
}

int lli_keys_check(const struct lli_keys *keys, const char *path, const char *name, const struct lli_log *log)
{
    const struct lli_key_file *file = keys->file;

    for (uint32_t i = 0; i < file->count; i++)
        for (uint32_t k = i + 1; k < file->count; k++)
            if (file->epochs[i].id == file->epochs[k].id && lli_key_matches(file->epochs[i].pattern, name) &&
                lli_key_matches(file->epochs[k].pattern, name))
                return lli_fail(
                    log, LLM_EDAMAGED,
                    "key file %s, lines %u and %u: both patterns match \"%s\", and epoch %u has one "
                    "key: give one of them another number",
                    path, file->epochs[i].line, file->epochs[k].line, name, file->epochs[i].id);
    return LLM_OK;
}

const struct lli_key_epoch *lli_keys_current(const struct lli_keys *keys, const char *path, const char *name,
                                             lli_key_time now, const struct lli_log *log)
{
    const struct lli_key_epoch *next, *last;
    const struct lli_key_epoch *current = lli_key_current(keys->file, name, now, &next, &last);
    char at[LLI_KEY_TIME_MAX], then[LLI_KEY_TIME_MAX];

    if (current != NULL)
        return current;
    lli_key_put_time(at, now);
    if (next != NULL) {
        lli_key_put_time(then, next->from);
        (void)lli_fail(
            log, LLM_EACCESS,
            "key file %s, line %u: epoch %u of \"%s\" begins at %s, and it is %s: no epoch is valid; "
            "check the clock, or make an epoch that is",
            path, next->line, next->id, name, then, at);
    } else if (last != NULL) {
        lli_key_put_time(then, last->until);
        (void)lli_fail(log, LLM_EACCESS,
                       "key file %s, line %u: epoch %u, the last one of \"%s\", ended at %s, and it is %s: "
                       "llm-key epoch makes the next",
                       path, last->line, last->id, name, then, at);
    } else {
        (void)lli_fail(log, LLM_EACCESS, "key file %s: no pattern matches \"%s\": add an epoch for it", path,
                       name);
    }
    return NULL;
}

bool lli_key_fingerprint(const struct lli_key_epoch *epoch, char text[LLI_KEY_FINGERPRINT_MAX])
{
    static const char purpose[] = "libllm fingerprint";
    static const char digits[] = "0123456789abcdef";
    const struct lli_hkdf_input secret = {epoch->key, sizeof epoch->key}, salt = {NULL, 0};
    const struct lli_hkdf_input info = {purpose, sizeof purpose - 1};
    uint8_t bytes[8];

    if (!lli_hkdf(&secret, &salt, &info, bytes, sizeof bytes))
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * sizeof bytes] = 0;
    return true;
}
