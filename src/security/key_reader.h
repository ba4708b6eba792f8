/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads key files into memory that is locked, in no core dump, and zero in a child process. Errors name file,
 * line and remedy, and never a key.
 */
#ifndef LLI_KEY_READER_H
#define LLI_KEY_READER_H

#include "core/keys/key_file.h"
#include "system/log.h"
#include "system/memory.h"

enum { LLI_KEY_FINGERPRINT_MAX = 17 }; /* bytes of a fingerprint as text, with its end */

struct lli_keys {
    struct lli_memory memory;  /* of all of the below */
    struct lli_key_file *file; /* NULL: closed */
};

/*
 * Reads a key file. Refused with LLM_ENOTFOUND if there is none, LLM_EACCESS if it belongs to another user than
 * this one or root, or if others may read or write it, and LLM_EDAMAGED if it is not valid. On failure keys is
 * closed.
 */
int lli_keys_read(struct lli_keys *keys, const char *path, const struct lli_log *log);

/*
 * Refuses keys of which two are of one epoch for a channel of this name, with LLM_EDAMAGED: which one is meant could
 * not be known. path is for the log.
 */
int lli_keys_check(const struct lli_keys *keys, const char *path, const char *name,
                   const struct lli_log *log);

/* Wipes and frees the keys; closed ones stay so. */
void lli_keys_close(struct lli_keys *keys);

/*
 * Finds the epoch with which a channel of this name sends at a time. NULL, with the reason logged as an error:
 * no pattern matches, all epochs have ended, or none has begun. path is for the log.
 */
const struct lli_key_epoch *lli_keys_current(const struct lli_keys *keys, const char *path, const char *name,
                                             lli_key_time now, const struct lli_log *log);

/*
 * Writes a fingerprint of a key, from which the key cannot be computed: 16 hexadecimal digits. False: libcrypto
 * could not.
 */
bool lli_key_fingerprint(const struct lli_key_epoch *epoch, char text[LLI_KEY_FINGERPRINT_MAX]);

#endif
