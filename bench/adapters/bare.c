/* SPDX-License-Identifier: Apache-2.0 */
/* Bare transports, without libllm (raw/raw.h). Each message is a datagram, many of which are sent in one
 * call for throughput; packed, a datagram has as many whole messages as fit. Without a destination, one
 * socket serves both directions between two hosts, with a limited number of messages outstanding. With an
 * AEAD each datagram has its number and a tag behind the message, which is encrypted. */
#include <string.h>

#include <llm/llm.h>

#include "../engine/control.h"
#include "../raw/raw.h"
#include "../raw/raw_aead.h"
#include "adapter.h"

/* Limits: datagrams of shared memory in a poll, messages and bytes of a call, messages outstanding. */
enum { BARE_BURST = 64, BARE_EACH = 32, BARE_PACKED_MAX = 65536, BARE_OUTSTANDING_MAX = 256 };

#define BARE_LOST_NS 20000000ull /* request and reply: a message that is not back by then is lost */

static struct bare {
    struct raw_end *send;
    struct raw_end *receive;
    size_t size; /* bytes of a message */
    size_t room; /* bytes of a batch of messages; 0: messages are not packed */
    size_t filled;
    int burst;
    bool throughput;
    bool each; /* each message of the batch is a datagram */
    bool asks; /* request and reply: this end sends first */
    uint64_t outstanding, heard_at;
    char *packed, *opened;
    const struct raw_aead *aead; /* NULL: datagrams are messages in clear */
    uint64_t sealed;             /* datagrams sent */
} bare;

/* Added to a message by an AEAD. */
struct bare_tail {
    uint64_t number;
    uint8_t tag[RAW_AEAD_TAG];
};

/* In clear, and authenticated: the library's header, which bare datagrams do not have. */
static const uint8_t bare_head[RAW_AEAD_HEAD];

static int bare_send_sealed(const void *data, size_t size)
{
    struct bare_tail tail = {.number = bare.sealed++};

    memcpy(bare.packed, data, size);
    bare.aead->seal(tail.number, bare_head, (uint8_t *)bare.packed, size, tail.tag);
    memcpy(bare.packed + size, &tail, sizeof tail);
    return bare.send->scheme->send(bare.send, bare.packed, size + sizeof tail);
}

/* Returns the message of a sealed datagram. */
static const char *bare_open_sealed(const char *data, size_t *size)
{
    struct bare_tail tail;

    *size = *size > sizeof tail ? *size - sizeof tail : 0;
    memcpy(&tail, data + *size, sizeof tail);
    bare.aead->open(tail.number, bare_head, (const uint8_t *)data, *size, tail.tag, (uint8_t *)bare.opened);
    return bare.opened;
}

/* Sends the batch. True if nothing is left. */
static bool bare_flush(void)
{
    if (bare.filled > 0 && bare.each)
        (void)bare.send->scheme->send_each(bare.send, bare.packed, bare.filled, bare.size);
    if (bare.filled > 0 &&
        (bare.each || raw_send_packed(bare.send, bare.packed, bare.filled, bare.size) != 1))
        bare.filled = 0;
    return bare.filled == 0;
}

static int bare_send(const void *data, size_t size, bool more)
{
    if (bare.asks) {
        if (bare.outstanding >= BARE_OUTSTANDING_MAX && llm_clock() < bare.heard_at + BARE_LOST_NS)
            return 0;
        bare.outstanding = bare.outstanding % BARE_OUTSTANDING_MAX + 1; /* do not wait for lost messages */
    }
    if (bare.aead != NULL)
        return bare_send_sealed(data, size) != 1;
    if (bare.room == 0)
        return bare.send->scheme->send(bare.send, data, size) != 1;
    if (bare.filled + size > bare.room && !bare_flush())
        return 0;
    memcpy(bare.packed + bare.filled, data, size);
    bare.filled += size;
    if (!more || bare.filled + size > bare.room)
        (void)bare_flush();
    return 1;
}

static int bare_poll(void)
{
    const char *data;
    size_t bytes;
    int count = 0;

    (void)bare_flush();
    for (int i = 0; i < bare.burst && (data = bare.receive->scheme->receive(bare.receive, &bytes)) != NULL;
         i++) {
        if (bare.aead != NULL)
            data = bare_open_sealed(data, &bytes);
        for (; bare.size > 0 && bytes >= bare.size; bytes -= bare.size, data += bare.size, count++)
            adapter_deliver(data, bare.size);
    }
    if (count > 0) {
        bare.outstanding -= bare.outstanding > 0;
        bare.heard_at = bare.asks ? llm_clock() : 0;
        adapter_delivered();
    }
    return count;
}

/* Messages of an earlier measurement must not count in this one. */
static void bare_begin(size_t size, bool packed)
{
    bare.size = size;
    bare.each = bare.throughput && !packed && bare.send->scheme->send_each != NULL;
    bare.room = packed ? raw_packed_bytes(bare.send, size) : bare.each ? BARE_EACH * size : 0;
    bare.filled = bare.outstanding = 0;
    bare.receive->many = bare.throughput;
    raw_expect(bare.receive, packed);
}

static const struct raw_aead *bare_aead(const char *backend, const char *suite)
{
    static const uint8_t key[RAW_AEAD_KEY] = {1, 2, 3};

    for (const struct raw_aead *aead = raw_aeads; aead->backend != NULL; aead++)
        if (strcmp(aead->backend, backend) == 0 && strcmp(aead->suite, suite) == 0) {
            aead->key(aead, key);
            return aead;
        }
    control_fail(backend, "this build has no such AEAD for bare packets");
}

static int bare_open(const struct adapter_link *link)
{
    bare.size = link->size;
    bare.packed = control_memory(2, BARE_PACKED_MAX);
    bare.opened = bare.packed + BARE_PACKED_MAX;
    bare.aead = *link->raw_aead != '\0' ? bare_aead(link->raw_aead, link->raw_suite) : NULL;
    bare.asks = *link->raw_send == '\0' && link->near;
    bare.receive = raw_open(link->raw_receive, bare.asks);
    bare.send = *link->raw_send != '\0' ? raw_open(link->raw_send, true) : bare.receive;
    bare.throughput = link->throughput;
    bare.burst = bare.throughput || bare.receive->scheme->named ? BARE_BURST : 1;
    return 0;
}

static void bare_close(void)
{
    if (bare.send != bare.receive)
        raw_close(bare.send);
    raw_close(bare.receive);
}

const struct adapter adapter_bare = {
    .name = "raw",
    .batch = 256,
    .open = bare_open,
    .send = bare_send,
    .poll = bare_poll,
    .close = bare_close,
    .begin = bare_begin,
};
