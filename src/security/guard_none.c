/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of guard.c in a build without libcrypto: no guard can be opened. */
#include "security/guard.h"

int lli_guard_open(const struct lli_guard_config *config, struct lli_guard **opened)
{
    *opened = NULL;
    return lli_fail(
        config->log, LLM_EOPTION,
        "option keys: \"%s\": this library was built without libcrypto; install libssl-dev and build it "
        "with -Dkeys=enabled",
        config->path);
}

void lli_guard_close(struct lli_guard *guard)
{
    assert(guard == NULL);
    (void)guard;
}

void lli_guard_look(struct lli_guard *guard, lli_ns now)
{
    (void)guard;
    (void)now;
}

int lli_guard_session_open(struct lli_guard *guard, uint64_t session, struct lli_guard_session **result)
{
    (void)guard;
    (void)session;
    *result = NULL;
    return LLM_EOPTION;
}

void lli_guard_session_close(struct lli_guard_session *session)
{
    (void)session;
}

bool lli_guard_is_keyless(const struct lli_guard *guard)
{
    (void)guard;
    return true;
}

uint32_t lli_guard_data(struct lli_guard_session *session, lli_seq seq, uint8_t *packet, uint32_t size)
{
    (void)session;
    (void)seq;
    (void)packet;
    (void)size;
    return 0;
}

uint32_t lli_guard_control(struct lli_guard *guard, uint8_t *packet, uint32_t size)
{
    (void)guard;
    (void)packet;
    (void)size;
    return 0;
}

bool lli_guard_encrypts(const struct lli_guard *guard)
{
    (void)guard;
    return false;
}

uint32_t lli_guard_name(struct lli_guard *guard, uint64_t session, uint32_t topic, uint8_t *packet,
                        uint32_t size)
{
    (void)session;
    (void)topic;
    return lli_guard_control(guard, packet, size);
}

struct lli_guard_epoch lli_guard_epoch(const struct lli_guard *guard)
{
    (void)guard;
    return (struct lli_guard_epoch){.id = 0};
}

void lli_guard_keep(struct lli_guard *guard)
{
    (void)guard;
}

bool lli_guard_is_valid(struct lli_guard *guard, const uint8_t *packet, size_t size)
{
    (void)guard;
    (void)packet;
    (void)size;
    return false;
}

lli_seq lli_guard_opened(const struct lli_guard *guard, uint64_t *session)
{
    (void)guard;
    *session = 0;
    return 0;
}

enum lli_guard_verdict lli_guard_take(struct lli_guard *guard, const uint8_t *packet, size_t size,
                                      const uint8_t **clear, size_t *clear_size)
{
    (void)guard;
    (void)packet;
    (void)size;
    (void)clear;
    (void)clear_size;
    return LLI_GUARD_FORGED;
}
