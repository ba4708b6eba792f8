/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guard of an endpoint: the keys of its channel, with which it protects every packet that it sends and opens every
 * packet that arrives (docs/protocol.md section 14, docs/security.md). It reads its key file again when that changes.
 * Data packets are protected once, where they are in the history; control packets in the buffer that they are sent
 * from. In a build without libcrypto guard_none.c refuses to open one.
 */
#ifndef LLI_GUARD_H
#define LLI_GUARD_H

#include "core/base/types.h"
#include "core/protect/protect.h"
#include "system/log.h"

struct lli_guard;
struct lli_guard_session;

struct lli_guard_config {
    const char *path; /* of the key file; valid while the guard is open, as the next one is */
    const char *name; /* of the channel, which patterns of the file are compared with */
    const struct lli_log *log;
    enum lli_protect_mode mode;
    uint32_t packet_max; /* bytes of the longest packet that can arrive */
    uint32_t senders;    /* others whose control packets are expected */
};

/* Result of opening a packet. */
enum lli_guard_verdict {
    LLI_GUARD_AUTHENTIC,
    LLI_GUARD_FORGED,   /* not authentic, or damaged */
    LLI_GUARD_REPEATED, /* a control packet that came before, or was numbered too long ago */
    LLI_GUARD_CROWDED,  /* an authentic control packet of a sender for which there is no room */
    LLI_GUARD_OTHER,    /* of an epoch, suite or mode that these keys do not have */
    LLI_GUARD_ENDED,    /* a data packet of an earlier epoch, as histories and stores have them */
    LLI_GUARD_UNKNOWN,  /* a data packet of a session of which no heartbeat came */
    LLI_GUARD_CLEAR,    /* of another version: not protected */
};

/*
 * Opens a guard. Refused as lli_keys_read() and lli_keys_current() do, and with LLM_EOPTION in a build without
 * libcrypto.
 */
int lli_guard_open(const struct lli_guard_config *config, struct lli_guard **opened);

/* Wipes and frees a guard; NULL: no effect. Also in a child process, where its keys are zero. */
void lli_guard_close(struct lli_guard *guard);

/*
 * Looks at the calendar and the key file, if a second has passed since the previous time: to be called, with the time,
 * before packets are protected or opened.
 */
void lli_guard_look(struct lli_guard *guard, lli_ns now);

/* Opens and closes what protects the data packets of a session. LLM_ENOMEM. */
int lli_guard_session_open(struct lli_guard *guard, uint64_t session, struct lli_guard_session **result);
void lli_guard_session_close(struct lli_guard_session *session);

/* Returns true if no epoch is valid, as of the latest look, so that nothing can be sent. */
bool lli_guard_is_keyless(const struct lli_guard *guard);

/*
 * Protects a data packet of version 1 where it is; there is room for LLI_PROTECT_DATA bytes after it. Returns its size
 * then; 0: no epoch is valid, so it must not be sent.
 */
uint32_t lli_guard_data(struct lli_guard_session *session, lli_seq seq, uint8_t *packet, uint32_t size);

/* Likewise a control packet, with room for LLI_PROTECT_CONTROL bytes. */
uint32_t lli_guard_control(struct lli_guard *guard, uint8_t *packet, uint32_t size);

/* Returns true if packets are encrypted, so that recordings hide the names of topics, too. */
bool lli_guard_encrypts(const struct lli_guard *guard);

/*
 * Protects a packet of lli_protect_name() where it is; there is room for LLI_PROTECT_DATA bytes after it. By the epoch in use,
 * or else the one before or after. Returns its size then; 0: libcrypto failed.
 */
uint32_t lli_guard_name(struct lli_guard *guard, uint64_t session, uint32_t topic, uint8_t *packet,
                        uint32_t size);

/* Epoch with which a guard sends. */
struct lli_guard_epoch {
    uint16_t id;    /* 0: none is valid */
    uint64_t age_s; /* since it began */
    uint64_t left_s;
};

/* Returns the epoch in use as of the latest look, and its times as of now. */
struct lli_guard_epoch lli_guard_epoch(const struct lli_guard *guard);

/*
 * From now on the data packet of version 2 lies behind the one that lli_guard_take() returns, for a store: its bytes
 * are *clear_size + LLI_PROTECT_DATA.
 */
void lli_guard_keep(struct lli_guard *guard);

/* True if a recorded data packet would be opened if it came now: its epoch is valid, or was until recently. */
bool lli_guard_is_valid(struct lli_guard *guard, const uint8_t *packet, size_t size);

/* Returns the number of the data packet that was opened last, and the identity of its session. */
lli_seq lli_guard_opened(const struct lli_guard *guard, uint64_t *session);

/*
 * Opens a packet from a network. LLI_GUARD_AUTHENTIC: *clear points to the packet of version 1, of *clear_size bytes,
 * valid until the next call.
 */
enum lli_guard_verdict lli_guard_take(struct lli_guard *guard, const uint8_t *packet, size_t size,
                                      const uint8_t **clear, size_t *clear_size);

#endif
