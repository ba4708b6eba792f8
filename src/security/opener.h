/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opener: opens recorded data packets with the keys of files, docs/store.md. Epochs need not be valid now, nor are
 * patterns of channels compared: whoever recorded a packet had authenticated it when it came, and it is
 * authenticated again here. In a build without libcrypto opener_none.c refuses files.
 */
#ifndef LLI_OPENER_H
#define LLI_OPENER_H

#include "core/base/types.h"
#include "system/log.h"

struct lli_opener;

enum lli_opened {
    LLI_OPENED,
    LLI_OPENED_NO_KEY, /* no file has a key of its epoch */
    LLI_OPENED_DAMAGED /* the keys of its epoch do not open it: another key, or damage */
};

/* Opens an opener without keys. LLM_ENOMEM. */
int lli_opener_open(const struct lli_log *log, struct lli_opener **opened);

/*
 * Adds the keys of a file, unless that was added before. It is read again when an epoch is missing. Refused as
 * lli_keys_read() does, and with LLM_EOPTION in a build without libcrypto.
 */
int lli_opener_add(struct lli_opener *opener, const char *path);

/*
 * Opens the packet of version 2 with a number in a session. LLI_OPENED: *clear points to the packet of version 1,
 * of *clear_size bytes, valid until the next call. opener: NULL: there are no keys.
 */
enum lli_opened lli_opener_take(struct lli_opener *opener, uint64_t session, lli_seq seq,
                                const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                uint32_t *clear_size);

/* Likewise a name of a topic that lli_guard_name() protected: *clear and *clear_size are those of the name. */
enum lli_opened lli_opener_take_name(struct lli_opener *opener, uint64_t session, uint32_t topic,
                                     const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                     uint32_t *clear_size);

/* Wipes and frees an opener; NULL: no effect. Also in a child process, where its keys are zero. */
void lli_opener_close(struct lli_opener *opener);

#endif
