/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "security/guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "security/key_reader.h"
#include "security/packet_key.h"
#include "system/clock.h"

enum {
    GUARD_SLOTS = 3,     /* keys of a session or sender at a time: in use, the one before, the next one */
    GUARD_SESSIONS = 64, /* sessions whose packets can be opened, at least */
    GUARD_PROBES = 16,   /* places that one identity may have in a table */
    GUARD_IDLE = 2 * LLI_PROTECT_SKEW, /* seconds after which a silent sender's place may be taken */
    GUARD_AHEAD = 2, /* seconds for which the next key is derived ahead; half of a block takes longer */
};

#define GUARD_LOOK ((uint64_t)1000000000) /* ns between two looks at the clock and the file */

/* Key of one block; unused if generation is 0. */
struct guard_key {
    struct lli_packet_key key;
    uint16_t epoch;
    uint64_t block;
    uint32_t generation; /* of the key file */
};

/* Session or sender whose packets are opened; unused if identity is 0. */
struct guard_peer {
    uint64_t identity;
    lli_seq near;                     /* sessions: number near which the next ones are */
    uint64_t heard;                   /* seconds since 1970 */
    struct lli_protect_replay replay; /* senders */
    struct guard_key keys[GUARD_SLOTS];
    uint32_t slot; /* the key used last; the one before stands after it, the next one before it */
};

/* Hashed by identity, with linear probing over GUARD_PROBES places. */
struct guard_table {
    struct guard_peer *peers;
    uint32_t mask;
    bool is_data;
};

struct lli_guard_session {
    struct lli_guard *guard;
    struct lli_guard_session *next; /* of the guard */
    uint64_t session;
    lli_seq seq; /* of the packet protected last */
    struct guard_key key, following;
};

struct lli_guard {
    struct lli_guard_config config;
    struct lli_keys keys;
    uint32_t generation; /* increases with each key file */
    struct stat file;    /* as it was when it was read */
    /* At the latest look: the epoch in use, NULL: none; and the time. */
    const struct lli_key_epoch *current;
    uint64_t seconds;
    uint64_t look_at;
    bool refused;                           /* that no epoch is valid was logged */
    bool gone;                              /* that there is no file any more was logged */
    bool failed;                            /* that libcrypto failed was logged */
    bool crowded;                           /* that there are too many senders was logged */
    bool skewed;                            /* that the clock of a member differs was logged */
    const struct lli_key_epoch *found;      /* of the packet before, since the latest look; NULL: none */
    struct lli_guard_session *own_sessions; /* which send */
    uint64_t sender;
    uint64_t counter;
    struct guard_key own;   /* of control packets */
    struct guard_key names; /* of the names of topics in the recording ... */
    uint64_t named;         /* ... of this session */
    struct guard_table sessions;
    struct guard_table senders;
    struct guard_key trial;  /* key of a packet that is not known to be authentic */
    uint8_t *clear;          /* the packet opened last, with room for it as it came */
    bool keeps;              /* ... which lies behind it */
    uint64_t opened_session; /* of the data packet opened last ... */
    lli_seq opened;          /* ... and its number */
};

/* ------------------------------------------------------------------------------------------------- keys */

/* Derives the key of a block. False: libcrypto could not. */
static bool key_derive(const struct lli_guard *guard, const struct lli_key_epoch *epoch, bool is_data,
                       uint64_t identity, uint64_t block, bool seals, struct guard_key *key)
{
    const struct lli_packet_scope scope = {
        .epoch = epoch, .mode = guard->config.mode, .is_data = is_data, .identity = identity, .block = block};

    key->generation = 0;
    if (!lli_packet_key_derive(&key->key, &scope, seals))
        return false;
    key->epoch = epoch->id;
    key->block = block;
    key->generation = guard->generation;
    return true;
}

static bool key_is(const struct guard_key *key, const struct lli_guard *guard, uint16_t epoch, uint64_t block)
{
    return key->generation == guard->generation && key->epoch == epoch && key->block == block;
}

/* Finds the epoch of a packet, which is valid or was until recently. NULL: the file does not have it. */
static const struct lli_key_epoch *epoch_find(struct lli_guard *guard,
                                              const struct lli_protect_fields *fields)
{
    if (fields->mode != guard->config.mode)
        return NULL;
    if (guard->found != NULL && guard->found->id == fields->epoch &&
        (uint8_t)guard->found->suite == fields->suite)
        return guard->found;
    for (uint32_t i = 0; i < guard->keys.file->count; i++) {
        const struct lli_key_epoch *epoch = &guard->keys.file->epochs[i];

        if (epoch->id == fields->epoch && (uint8_t)epoch->suite == fields->suite &&
            guard->seconds + LLI_PROTECT_SKEW >= epoch->from &&
            guard->seconds < epoch->until + LLI_PROTECT_SKEW &&
            lli_key_matches(epoch->pattern, guard->config.name)) {
            guard->found = epoch;
            return epoch;
        }
    }
    return NULL;
}

/*
 * True if a packet that no key opens is a data packet of an epoch before the one in use. It is no sign of a member with
 * other keys: that one would send heartbeats, too.
 */
static bool epoch_is_past(const struct lli_guard *guard, const struct lli_protect_fields *fields,
                          bool is_data)
{
    if (!is_data || fields->mode != guard->config.mode)
        return false;
    if (guard->current != NULL && fields->epoch < guard->current->id)
        return true;
    for (uint32_t i = 0; i < guard->keys.file->count; i++) {
        const struct lli_key_epoch *epoch = &guard->keys.file->epochs[i];

        if (epoch->id == fields->epoch && (uint8_t)epoch->suite == fields->suite &&
            guard->seconds >= epoch->until && lli_key_matches(epoch->pattern, guard->config.name))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------- key file */

static bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the key file, in place of the one read before. On failure that one stays. */
static int guard_read(struct lli_guard *guard)
{
    const struct lli_key_epoch *next, *last;
    struct lli_keys keys;
    int error;

    if (stat(guard->config.path, &guard->file) != 0)
        memset(&guard->file, 0, sizeof guard->file);
    error = lli_keys_read(&keys, guard->config.path, guard->config.log);
    if (error == LLM_OK)
        error = lli_keys_check(&keys, guard->config.path, guard->config.name, guard->config.log);
    if (error != LLM_OK) {
        lli_keys_close(&keys);
        return error;
    }
    lli_keys_close(&guard->keys);
    guard->keys = keys;
    guard->found = NULL;
    guard->generation++;
    guard->current = lli_key_current(keys.file, guard->config.name, guard->seconds, &next, &last);
    return LLM_OK;
}

/* Reads a key file that changed. If it cannot be used, the keys read before stay, and that is logged. */
static void guard_read_again(struct lli_guard *guard)
{
    struct stat file;

    if (stat(guard->config.path, &file) != 0) {
        if (!guard->gone)
            lli_log(guard->config.log, LLM_LEVEL_WARNING,
                    "key file %s: %s: the keys read before stay in use until their epochs end",
                    guard->config.path, strerror(errno));
        guard->gone = true;
        return;
    }
    guard->gone = false;
    if (file_is_same(&file, &guard->file))
        return;
    if (guard_read(guard) != LLM_OK) {
        lli_log(guard->config.log, LLM_LEVEL_WARNING,
                "key file %s: it changed and cannot be used: the keys read before stay in use",
                guard->config.path);
        return;
    }
    lli_log(guard->config.log, LLM_LEVEL_INFO, "key file %s: read again: %u epochs", guard->config.path,
            guard->keys.file->count);
}

/* Derives a key in the place of another one, unless it is there. A failure shows when the key is needed. */
static void key_ahead(const struct lli_guard *guard, const struct lli_key_epoch *epoch, uint64_t identity,
                      uint64_t block, bool seals, struct guard_key *key)
{
    if (!key_is(key, guard, epoch->id, block))
        (void)key_derive(guard, epoch, true, identity, block, seals, key);
}

/*
 * Derives the keys of data packets that will be used before long, so that no packet waits for one: of the next epoch
 * shortly before it begins, and of the next block once half of this one was used.
 */
static void guard_ahead(struct lli_guard *guard)
{
    const struct lli_key_epoch *next, *last;
    const struct lli_key_epoch *epoch =
        lli_key_current(guard->keys.file, guard->config.name, guard->seconds + GUARD_AHEAD, &next, &last);
    const uint64_t half = (uint64_t)1 << (LLI_PROTECT_DATA_BLOCK - 1);

    if (epoch == NULL)
        return;
    for (struct lli_guard_session *session = guard->own_sessions; session != NULL; session = session->next) {
        const uint64_t block = lli_protect_block(true, session->seq + half);

        if (session->key.generation != 0 && !key_is(&session->key, guard, epoch->id, block))
            key_ahead(guard, epoch, session->session, block, true, &session->following);
    }
    for (uint32_t i = 0; i <= guard->sessions.mask; i++) {
        struct guard_peer *peer = &guard->sessions.peers[i];
        const uint64_t block = lli_protect_block(true, peer->near + half);

        if (peer->keys[peer->slot].generation != 0 &&
            !key_is(&peer->keys[peer->slot], guard, epoch->id, block))
            key_ahead(guard, epoch, peer->identity, block, false,
                      &peer->keys[(peer->slot + GUARD_SLOTS - 1) % GUARD_SLOTS]);
    }
}

void lli_guard_look(struct lli_guard *guard, lli_ns now)
{
    const struct lli_key_epoch *next, *last;

    if (now < guard->look_at)
        return;
    guard->look_at = now + GUARD_LOOK;
    guard->seconds = lli_clock_real_ns() / 1000000000;
    guard->found = NULL;
    guard_read_again(guard);
    guard_ahead(guard);
    guard->current = lli_key_current(guard->keys.file, guard->config.name, guard->seconds, &next, &last);
    if (guard->current != NULL) {
        guard->refused = false;
        return;
    }
    if (guard->refused)
        return;
    guard->refused = true;
    (void)lli_keys_current(&guard->keys, guard->config.path, guard->config.name, guard->seconds,
                           guard->config.log);
    lli_log(guard->config.log, LLM_LEVEL_ERROR, "key file %s: nothing is sent until an epoch is valid",
            guard->config.path);
}

/* ------------------------------------------------------------------------------------------------ tables */

static int table_open(struct guard_table *table, uint32_t least, bool is_data)
{
    uint32_t places = GUARD_PROBES;

    while (places < 2 * least)
        places *= 2;
    table->peers = calloc(places, sizeof *table->peers);
    table->mask = places - 1;
    table->is_data = is_data;
    return table->peers != NULL ? LLM_OK : LLM_ENOMEM;
}

static void peer_free(struct guard_peer *peer)
{
    for (int i = 0; i < GUARD_SLOTS; i++)
        lli_packet_key_free(&peer->keys[i].key);
}

static void table_close(struct guard_table *table)
{
    for (uint32_t i = 0; table->peers != NULL && i <= table->mask; i++)
        peer_free(&table->peers[i]);
    free(table->peers);
}

/* Sessions are found by the low half of their identity, which is all that a data packet has of it. */
static uint32_t table_hash(const struct guard_table *table, uint64_t identity)
{
    return (uint32_t)(((uint64_t)(uint32_t)identity * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & table->mask;
}

/* Finds a sender by its identity. */
static struct guard_peer *table_find(const struct guard_table *table, uint64_t identity)
{
    const uint32_t from = table_hash(table, identity);

    for (uint32_t i = 0; i < GUARD_PROBES; i++) {
        struct guard_peer *peer = &table->peers[(from + i) & table->mask];

        if (peer->identity == identity)
            return peer;
    }
    return NULL;
}

/* Adds a peer, in place of the one that was silent for longest if there is no free place. NULL: all were heard lately. */
static struct guard_peer *table_add(struct guard_table *table, uint64_t identity, uint64_t seconds)
{
    const uint32_t from = table_hash(table, identity);
    struct guard_peer *best = NULL;

    for (uint32_t i = 0; i < GUARD_PROBES; i++) {
        struct guard_peer *peer = &table->peers[(from + i) & table->mask];

        if (peer->identity == 0) {
            best = peer;
            break;
        }
        if (best == NULL || peer->heard < best->heard)
            best = peer;
    }
    /* Packets of a sender that was forgotten look like repeated ones, unless these are old. */
    if (best->identity != 0 && !table->is_data && best->heard + GUARD_IDLE > seconds)
        return NULL;
    peer_free(best);
    *best = (struct guard_peer){.identity = identity, .heard = seconds};
    return best;
}

/* ------------------------------------------------------------------------------------------ open, close */

void lli_guard_close(struct lli_guard *guard)
{
    if (guard == NULL)
        return;
    lli_packet_key_free(&guard->own.key);
    lli_packet_key_free(&guard->names.key);
    lli_packet_key_free(&guard->trial.key);
    table_close(&guard->sessions);
    table_close(&guard->senders);
    lli_keys_close(&guard->keys);
    free(guard->clear);
    lli_key_wipe(guard, sizeof *guard);
    free(guard);
}

int lli_guard_open(const struct lli_guard_config *config, struct lli_guard **opened)
{
    struct lli_guard *guard = calloc(1, sizeof *guard);
    int error = LLM_ENOMEM;

    *opened = NULL;
    if (guard == NULL)
        return lli_fail(config->log, error, "no memory for keys");
    guard->config = *config;
    guard->sender = lli_entropy() | 1;
    guard->seconds = lli_clock_real_ns() / 1000000000;
    guard->look_at = lli_clock_ns() + GUARD_LOOK;
    guard->clear = aligned_alloc(64, lli_round_up(2 * config->packet_max, 64));
    if (guard->clear == NULL ||
        table_open(&guard->sessions, (uint32_t)lli_max(config->senders, GUARD_SESSIONS), true) != LLM_OK ||
        table_open(&guard->senders, config->senders, false) != LLM_OK)
        error = lli_fail(config->log, LLM_ENOMEM, "no memory for keys");
    else
        error = guard_read(guard);
    if (error == LLM_OK &&
        lli_keys_current(&guard->keys, config->path, config->name, guard->seconds, config->log) == NULL)
        error = LLM_EACCESS;
    if (error == LLM_OK && !key_derive(guard, guard->current, false, guard->sender, 0, true, &guard->own))
        error =
            lli_fail(config->log, LLM_EOPTION,
                     "key file %s, line %u: libcrypto does not have %s with HKDF-SHA-256, perhaps as it is "
                     "limited to FIPS: choose another suite",
                     config->path, guard->current->line, lli_key_suite_name(guard->current->suite));
    if (error != LLM_OK) {
        lli_guard_close(guard);
        return error;
    }
    *opened = guard;
    return LLM_OK;
}

int lli_guard_session_open(struct lli_guard *guard, uint64_t session, struct lli_guard_session **result)
{
    *result = calloc(1, sizeof **result);
    if (*result == NULL)
        return lli_fail(guard->config.log, LLM_ENOMEM, "no memory for keys");
    **result = (struct lli_guard_session){.guard = guard, .session = session, .next = guard->own_sessions};
    guard->own_sessions = *result;
    return LLM_OK;
}

void lli_guard_session_close(struct lli_guard_session *session)
{
    struct lli_guard_session **place;

    if (session == NULL)
        return;
    for (place = &session->guard->own_sessions; *place != session; place = &(*place)->next) {
    }
    *place = session->next;
    lli_packet_key_free(&session->key.key);
    lli_packet_key_free(&session->following.key);
    lli_key_wipe(session, sizeof *session);
    free(session);
}

/* ---------------------------------------------------------------------------------------------- protect */

/*
 * libcrypto could not protect a packet. It may be encrypted in part, so it is neither sent as it is nor encrypted again:
 * its content is removed, and no receiver opens it.
 */
static void seal_failed(struct lli_guard *guard, uint8_t *packet, const struct lli_protect_parts *parts)
{
    memset(packet + parts->head, 0, parts->body + parts->after);
    if (guard->failed)
        return;
    guard->failed = true;
    lli_log(
        guard->config.log, LLM_LEVEL_ERROR,
        "key file %s: libcrypto could not protect a packet, whose content is lost: restart the program, and "
        "check the installation of libcrypto if this repeats itself",
        guard->config.path);
}

/*
 * Protects a packet with the key of its epoch and block, which is derived if it is another one than before. epoch NULL: none
 * is valid.
 */
static LLI_INLINE uint32_t guard_seal(struct lli_guard *guard, const struct lli_key_epoch *epoch,
                                      struct guard_key *key, uint64_t identity, uint64_t number,
                                      uint64_t block, uint8_t *packet, uint32_t size)
{
    const bool is_data = lli_protect_is_data(packet), encrypts = guard->config.mode == LLI_PROTECT_ENCRYPT;
    uint8_t bytes[LLI_PROTECT_CLEAR_MAX], nonce[LLI_PROTECT_NONCE];
    struct lli_aead_clear clear = {.data = bytes};
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;

    if (epoch == NULL || (!key_is(key, guard, epoch->id, block) &&
                          !key_derive(guard, epoch, is_data, identity, block, true, key)))
        return 0;
    fields = (struct lli_protect_fields){.sender = identity,
                                         .counter = number,
                                         .epoch = epoch->id,
                                         .suite = (uint8_t)epoch->suite,
                                         .mode = (uint8_t)guard->config.mode};
    if (!lli_protect_begin(packet, size, &fields, &parts))
        return 0;
    clear.size = lli_protect_clear(packet, &parts, bytes);
    clear.more = packet + parts.head;
    clear.more_size = encrypts ? 0 : parts.body;
    lli_protect_nonce(key->key.iv, number, nonce);
    if (!lli_aead_seal(&key->key.aead, nonce, &clear, packet + parts.head, encrypts ? parts.body : 0,
                       packet + parts.tag))
        seal_failed(guard, packet, &parts);
    return size + parts.after;
}

bool lli_guard_is_keyless(const struct lli_guard *guard)
{
    return guard->current == NULL;
}

uint32_t lli_guard_data(struct lli_guard_session *session, lli_seq seq, uint8_t *packet, uint32_t size)
{
    struct lli_guard *guard = session->guard;
    struct guard_key *following = &session->following;

    assert(!lli_protect_is(packet, size));
    session->seq = seq;
    if (guard->current != NULL &&
        !key_is(&session->key, guard, guard->current->id, lli_protect_block(true, seq)) &&
        key_is(following, guard, guard->current->id, lli_protect_block(true, seq))) {
        const struct guard_key before = session->key;

        session->key = *following;
        *following = before;
    }
    return guard_seal(guard, guard->current, &session->key, session->session, seq,
                      lli_protect_block(true, seq), packet, size);
}

uint32_t lli_guard_control(struct lli_guard *guard, uint8_t *packet, uint32_t size)
{
    guard->counter = lli_protect_count(guard->counter, guard->seconds);
    return guard_seal(guard, guard->current, &guard->own, guard->sender, guard->counter,
                      lli_protect_block(false, guard->counter), packet, size);
}

bool lli_guard_encrypts(const struct lli_guard *guard)
{
    return guard->config.mode == LLI_PROTECT_ENCRYPT;
}

uint32_t lli_guard_name(struct lli_guard *guard, uint64_t session, uint32_t topic, uint8_t *packet,
                        uint32_t size)
{
    const struct lli_key_epoch *next, *last;
    const struct lli_key_epoch *epoch =
        lli_key_current(guard->keys.file, guard->config.name, guard->seconds, &next, &last);

    if (epoch == NULL)
        epoch = last != NULL ? last : next;
    if (guard->named != session)
        guard->names.generation = 0;
    guard->named = session;
    return guard_seal(guard, epoch, &guard->names, session, topic, LLI_PROTECT_NAMES, packet, size);
}

/* ------------------------------------------------------------------------------------------------- open */

/* Packet that is being opened. */
struct opening {
    const uint8_t *packet;
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;
    const struct lli_key_epoch *epoch;
};

/* Opens a packet with a key. */
static bool opening_try(struct lli_guard *guard, const struct opening *opening, struct guard_key *key,
                        uint64_t number)
{
    return lli_packet_key_open(&key->key, opening->packet, &opening->parts, guard->config.mode, number,
                               guard->clear);
}

/*
 * Opens a packet of an identity with the key of its block. One that is not there yet is derived apart, so that packets
 * that are not authentic displace nothing; it replaces the oldest one of the peer, if there is a peer, once it opened
 * a packet.
 */
static bool opening_by(struct lli_guard *guard, const struct opening *opening, struct guard_peer *peer,
                       uint64_t identity, uint64_t number)
{
    const uint64_t block = lli_protect_block(opening->parts.is_data, number);

    for (uint32_t i = 0; peer != NULL && i < GUARD_SLOTS; i++) {
        const uint32_t slot = (peer->slot + i) % GUARD_SLOTS;

        if (!key_is(&peer->keys[slot], guard, opening->epoch->id, block))
            continue;
        if (!opening_try(guard, opening, &peer->keys[slot], number))
            return false;
        peer->slot = slot;
        return true;
    }
    if (!key_derive(guard, opening->epoch, opening->parts.is_data, identity, block, false, &guard->trial) ||
        !opening_try(guard, opening, &guard->trial, number))
        return false;
    if (peer != NULL) {
        struct guard_key old;

        peer->slot = (peer->slot + GUARD_SLOTS - 1) % GUARD_SLOTS;
        old = peer->keys[peer->slot];
        peer->keys[peer->slot] = guard->trial;
        guard->trial = old;
    }
    return true;
}

/* Opens a data packet. Sessions with the same low half of their identity are tried one after the other. */
static enum lli_guard_verdict take_data(struct lli_guard *guard, const struct opening *opening)
{
    const struct guard_table *table = &guard->sessions;
    const uint32_t from = table_hash(table, opening->parts.session_tag);
    enum lli_guard_verdict verdict = LLI_GUARD_UNKNOWN;

    for (uint32_t i = 0; i < GUARD_PROBES; i++) {
        struct guard_peer *peer = &table->peers[(from + i) & table->mask];
        lli_seq seq;

        if (peer->identity == 0 || (uint32_t)peer->identity != opening->parts.session_tag)
            continue;
        seq = lli_seq_extend(peer->near, opening->parts.seq);
        if (opening_by(guard, opening, peer, peer->identity, seq)) {
            peer->near = lli_max(peer->near, seq);
            guard->opened_session = peer->identity;
            guard->opened = seq;
            peer->heard = guard->seconds;
            return LLI_GUARD_AUTHENTIC;
        }
        verdict = LLI_GUARD_FORGED;
    }
    return verdict;
}

/* Notes the session of an authentic heartbeat, so that its data packets can be opened. */
static void take_heartbeat(struct lli_guard *guard, const struct opening *opening)
{
    struct lli_wire_heartbeat heartbeat;
    struct lli_wire_header header;
    struct guard_peer *peer;
    const uint8_t *body;
    size_t size;

    if (lli_wire_get_header(guard->clear, opening->parts.head + opening->parts.body, &header, &body, &size) !=
            LLI_WIRE_OK ||
        header.type != LLI_WIRE_HEARTBEAT || !lli_wire_get_heartbeat(body, size, &header, &heartbeat) ||
        heartbeat.session == 0)
        return;
    peer = table_find(&guard->sessions, heartbeat.session);
    if (peer == NULL)
        peer = table_add(&guard->sessions, heartbeat.session, guard->seconds);
    peer->near = heartbeat.lead;
    peer->heard = guard->seconds;
}

/*
 * Takes a control packet of an unknown sender that was not numbered lately. Logs once if it is authentic: a clock is
 * wrong, and no member with another clock would ever be heard.
 */
static enum lli_guard_verdict take_stale(struct lli_guard *guard, const struct opening *opening)
{
    const uint64_t then = opening->fields.counter >> LLI_PROTECT_SECOND;

    if (guard->skewed || !opening_by(guard, opening, NULL, opening->fields.sender, opening->fields.counter))
        return LLI_GUARD_REPEATED;
    guard->skewed = true;
    lli_log(guard->config.log, LLM_LEVEL_WARNING,
            "key file %s: an authentic packet was numbered %llu seconds %s this host's clock, and was "
            "dropped: either it "
            "is being repeated, or the clocks of members differ by more than %d s: set them",
            guard->config.path,
            (unsigned long long)(then > guard->seconds ? then - guard->seconds : guard->seconds - then),
            then > guard->seconds ? "after" : "before", LLI_PROTECT_SKEW);
    return LLI_GUARD_REPEATED;
}

static enum lli_guard_verdict take_control(struct lli_guard *guard, const struct opening *opening)
{
    const uint64_t sender = opening->fields.sender, counter = opening->fields.counter;
    struct guard_peer *peer;

    if (sender == 0)
        return LLI_GUARD_FORGED;
    peer = table_find(&guard->senders, sender);
    if (peer == NULL && !lli_protect_is_fresh(counter, guard->seconds))
        return take_stale(guard, opening);
    if (peer != NULL && !lli_protect_is_new(&peer->replay, counter))
        return LLI_GUARD_REPEATED;
    if (!opening_by(guard, opening, peer, sender, counter))
        return LLI_GUARD_FORGED;
    if (peer == NULL)
        peer = table_add(&guard->senders, sender, guard->seconds);
    if (peer == NULL) {
        if (!guard->crowded)
            lli_log(guard->config.log, LLM_LEVEL_WARNING,
                    "key file %s: packets of a further sender were dropped, as %u are expected: raise "
                    "receivers_max or sessions_max",
                    guard->config.path, guard->config.senders);
        guard->crowded = true;
        return LLI_GUARD_CROWDED;
    }
    lli_protect_note(&peer->replay, counter);
    peer->heard = guard->seconds;
    take_heartbeat(guard, opening);
    return LLI_GUARD_AUTHENTIC;
}

struct lli_guard_epoch lli_guard_epoch(const struct lli_guard *guard)
{
    const uint64_t now = lli_clock_real_ns() / 1000000000;
    const struct lli_key_epoch *current = guard->current;

    if (current == NULL)
        return (struct lli_guard_epoch){.id = 0};
    return (struct lli_guard_epoch){.id = current->id,
                                    .age_s = now - lli_min(current->from, now),
                                    .left_s = current->until - lli_min(now, current->until)};
}

void lli_guard_keep(struct lli_guard *guard)
{
    guard->keeps = true;
}

bool lli_guard_is_valid(struct lli_guard *guard, const uint8_t *packet, size_t size)
{
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;

    return lli_protect_is(packet, size) && lli_protect_parse(packet, size, &fields, &parts) &&
           epoch_find(guard, &fields) != NULL;
}

lli_seq lli_guard_opened(const struct lli_guard *guard, uint64_t *session)
{
    *session = guard->opened_session;
    return guard->opened;
}

enum lli_guard_verdict lli_guard_take(struct lli_guard *guard, const uint8_t *packet, size_t size,
                                      const uint8_t **clear, size_t *clear_size)
{
    struct opening opening = {.packet = packet};
    enum lli_guard_verdict verdict;

    if (!lli_protect_is(packet, size))
        return LLI_GUARD_CLEAR;
    if (size > guard->config.packet_max || !lli_protect_parse(packet, size, &opening.fields, &opening.parts))
        return LLI_GUARD_FORGED;
    opening.epoch = epoch_find(guard, &opening.fields);
    if (opening.epoch == NULL)
        return epoch_is_past(guard, &opening.fields, opening.parts.is_data) ? LLI_GUARD_ENDED
                                                                            : LLI_GUARD_OTHER;
    verdict = opening.parts.is_data ? take_data(guard, &opening) : take_control(guard, &opening);
    *clear = guard->clear;
    *clear_size = opening.parts.head + opening.parts.body;
    if (guard->keeps && verdict == LLI_GUARD_AUTHENTIC)
        memcpy(guard->clear + *clear_size, packet, size);
    return verdict;
}
