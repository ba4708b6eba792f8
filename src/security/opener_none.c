/* SPDX-License-Identifier: Apache-2.0 */
/* Instead of opener.c in a build without libcrypto: no packet can be opened. */
#include <stdlib.h>

#include "security/opener.h"

struct lli_opener {
    struct lli_log log;
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
    return lli_fail(&opener->log, LLM_EOPTION,
                    "key file %s: this library was built without libcrypto; install libssl-dev and build it "
                    "with -Dkeys=enabled",
                    path);
}

enum lli_opened lli_opener_take(struct lli_opener *opener, uint64_t session, lli_seq seq,
                                const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                uint32_t *clear_size)
{
    (void)opener;
    (void)session;
    (void)seq;
    (void)packet;
    (void)size;
    (void)clear;
    (void)clear_size;
    return LLI_OPENED_NO_KEY;
}

enum lli_opened lli_opener_take_name(struct lli_opener *opener, uint64_t session, uint32_t topic,
                                     const uint8_t *packet, uint32_t size, const uint8_t **clear,
                                     uint32_t *clear_size)
{
    return lli_opener_take(opener, session, topic, packet, size, clear, clear_size);
}

void lli_opener_close(struct lli_opener *opener)
{
    free(opener);
}
