/* SPDX-License-Identifier: Apache-2.0 */
#include "security/opener.h"

#include <stdlib.h>
#include <string.h>

#include "security/key_reader.h"
#include "security/packet_key.h"
#include "system/clock.h"

/* Keys of blocks at a time: enough for recordings that are read in turns. */
enum { OPENER_SLOTS = 8 };

#define OPENER_AGAIN ((lli_ns)1000000000) /* time between two readings of the files */

struct opener_file {
    struct opener_file *next;
    struct lli_keys keys;
    char path[];
};

/* Key of a block of a session; unused before it was derived. */
struct opener_key {
    struct lli_packet_key key;
    bool used;
    uint64_t session;
    uint64_t block;
    struct lli_protect_fields fields;
};

struct lli_opener {
    struct lli_log log;
    struct opener_file *files;
    lli_ns read_at;
    uint32_t next; /* slot that is replaced next */
    struct opener_key keys[OPENER_SLOTS];
    uint8_t clear[UINT16_MAX + 1];
};

/* Packet that is being opened. */
struct opener_packet {
    uint64_t session;
    uint64_t block;
    lli_seq seq;
    const uint8_t *bytes;
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;
};

int lli_opener_open(const struct lli_log *log, struct lli_opener **opened)
{
    *opened = calloc(1, sizeof **opened);
    if (*opened == NULL)
        return lli_fail(log, LLM_ENOMEM, "no memory for keys");
    (*opened)->log = *log;
    return LLM_OK;
}

int lli_opener_add(struct lli_opener *opener, const char *path)
{
    const size_t size = strlen(path) + 1;
    struct opener_file *file;
    int error;

    for (file = opener->files; file != NULL; file = file->next)
        if (strcmp(file->path, path) == 0)
            return LLM_OK;
    file = calloc(1, sizeof *file + size);
    if (file == NULL)
        return lli_fail(&opener->log, LLM_ENOMEM, "no memory for keys");
    memcpy(file->path, path, size);
    error = lli_keys_read(&file->keys, path, &opener->log);
    if (error != LLM_OK) {
        free(file);
        return error;
    }
    file->next = opener->files;
    opener->files = file;
    opener->read_at = lli_clock_ns() + OPENER_AGAIN;
    return LLM_OK;
}

/* Reads the files again, unless that was done lately. One that cannot be read leaves the keys that it had. */
static bool opener_read(struct lli_opener *opener)
{
    const lli_ns now = lli_clock_ns();

    if (now < opener->read_at)
        return false;
    opener->read_at = now + OPENER_AGAIN;
    for (struct opener_file *file = opener->files; file != NULL; file = file->next) {
        struct lli_keys keys;

        if (lli_keys_read(&keys, file->path, &opener->log) != LLM_OK)
            continue;
        lli_keys_close(&file->keys);
        file->keys = keys;
    }
    return true;
}

static bool opener_try(struct lli_opener *opener, struct opener_key *key, const struct opener_packet *packet)
{
    return lli_packet_key_open(&key->key, packet->bytes, &packet->parts,
                               (enum lli_protect_mode)packet->fields.mode, packet->seq, opener->clear);
}

/* Tries the keys that opened packets of the same block. */
static bool opener_try_known(struct lli_opener *opener, const struct opener_packet *packet)
{
    for (int i = 0; i < OPENER_SLOTS; i++) {
        struct opener_key *key = &opener->keys[i];

        if (key->used && key->session == packet->session && key->block == packet->block &&
            key->fields.epoch == packet->fields.epoch && key->fields.suite == packet->fields.suite &&
            key->fields.mode == packet->fields.mode && opener_try(opener, key, packet))
            return true;
    }
    return false;
}

/* Tries the key of an epoch in the next slot, which has it then if that is the one. */
static bool opener_derive(struct lli_opener *opener, const struct lli_key_epoch *epoch,
                          const struct opener_packet *packet)
{
    struct opener_key *key = &opener->keys[opener->next];
    const struct lli_packet_scope scope = {.epoch = epoch,
                                           .mode = (enum lli_protect_mode)packet->fields.mode,
                                           .is_data = true,
                                           .identity = packet->session,
                                           .block = packet->block};

    key->used = false;
    if (!lli_packet_key_derive(&key->key, &scope, false) || !opener_try(opener, key, packet))
        return false;
    key->used = true;
    key->session = packet->session;
    key->block = scope.block;
    key->fields = packet->fields;
    opener->next = (opener->next + 1) % OPENER_SLOTS;
    return true;
}

/* Tries the keys of all files. */
static enum lli_opened opener_search(struct lli_opener *opener, const struct opener_packet *packet)
{
    enum lli_opened result = LLI_OPENED_NO_KEY;

    for (const struct opener_file *file = opener->files; file != NULL; file = file->next)
        for (uint32_t i = 0; i < file->keys.file->count; i++) {
            const struct lli_key_epoch *epoch = &file->keys.file->epochs[i];

            if (epoch->id != packet->fields.epoch || (uint8_t)epoch->suite != packet->fields.suite)
                continue;
            if (opener_derive(opener, epoch, packet))
                return LLI_OPENED;
            result = LLI_OPENED_DAMAGED;
        }
    return result;
}

/* Opens a packet of `size` bytes to opener->clear. */
static enum lli_opened opener_take(struct lli_opener *opener, struct opener_packet *opening, uint32_t size)
{
    enum lli_opened result;

    if (!lli_protect_parse(opening->bytes, size, &opening->fields, &opening->parts) ||
        !opening->parts.is_data ||
        (opening->fields.mode != LLI_PROTECT_ENCRYPT && opening->fields.mode != LLI_PROTECT_AUTHENTICATE))
        return LLI_OPENED_DAMAGED;
    if (opener == NULL)
        return LLI_OPENED_NO_KEY;
    /* Two files may have different keys of one epoch number: that of an earlier packet need not be that of this one. */
    result = opener_try_known(opener, opening) ? LLI_OPENED : opener_search(opener, opening);
    if (result != LLI_OPENED && opener_read(opener))
        result = opener_search(opener, opening);
    return result;
}

enum lli_opened lli_opener_take(struct lli_opener *opener, uint64_t session, lli_seq seq,
                                const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                uint32_t *clear_size)
{
    struct opener_packet opening = {
        .session = session, .block = lli_protect_block(true, seq), .seq = seq, .bytes = packet};
    const enum lli_opened result = opener_take(opener, &opening, size);

    if (result == LLI_OPENED) {
        *clear = opener->clear;
        *clear_size = opening.parts.head + opening.parts.body;
    }
    return result;
}

enum lli_opened lli_opener_take_name(struct lli_opener *opener, uint64_t session, uint32_t topic,
                                     const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                     uint32_t *clear_size)
{
    struct opener_packet opening = {
        .session = session, .block = LLI_PROTECT_NAMES, .seq = topic, .bytes = packet};
    const enum lli_opened result = opener_take(opener, &opening, size);

    if (result == LLI_OPENED) {
        *clear = opener->clear + opening.parts.head;
        *clear_size = opening.parts.body;
    }
    return result;
}

void lli_opener_close(struct lli_opener *opener)
{
    if (opener == NULL)
        return;
    for (int i = 0; i < OPENER_SLOTS; i++)
        lli_packet_key_free(&opener->keys[i].key);
    while (opener->files != NULL) {
        struct opener_file *file = opener->files;

        opener->files = file->next;
        lli_keys_close(&file->keys);
        free(file);
    }
    lli_key_wipe(opener, sizeof *opener);
    free(opener);
}
