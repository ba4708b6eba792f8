/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bare transports on topics (raw/raw.h): a datagram for each message, to everyone, who drops what is not on
 * its watch list. Nothing is repaired. Channels are places; of those to subscribe to there may be several,
 * with ; between them, as in memory each publisher has a ring of its own.
 */
#define _GNU_SOURCE
#include <string.h>

#include "../engine/control.h"
#include "../raw/raw.h"
#include "feed.h"

enum { BARE_SOURCES_MAX = 64, BARE_BURST = 64 };

static struct bare_feed {
    struct raw_end *send;
    struct raw_end *sources[BARE_SOURCES_MAX];
    int count;
} bare;

static void bare_open(const struct feed_link *link)
{
    char *places = strdup(link->subscribe), *rest = places, *place;

    if (*link->publish != '\0')
        bare.send = raw_open(link->publish, true);
    while (*link->subscribe != '\0' && (place = strsep(&rest, ";")) != NULL && bare.count < BARE_SOURCES_MAX)
        bare.sources[bare.count++] = raw_open(place, false);
}

static bool bare_send(uint32_t topic, const void *data, size_t size, bool more)
{
    (void)topic;
    (void)more;
    return bare.send->scheme->send(bare.send, data, size) == 0;
}

static int bare_poll(void)
{
    const void *data;
    size_t size;
    int count = 0;

    for (int i = 0; i < bare.count; i++)
        for (int j = 0; j < BARE_BURST; j++, count++) {
            data = bare.sources[i]->scheme->receive(bare.sources[i], &size);
            if (data == NULL)
                break;
            market_deliver(data, size);
        }
    return count;
}

static void bare_close(void)
{
    raw_close(bare.send);
    for (int i = 0; i < bare.count; i++)
        raw_close(bare.sources[i]);
}

const struct feed feed_bare = {
    .name = "bare",
    .open = bare_open,
    .send = bare_send,
    .poll = bare_poll,
    .close = bare_close,
};
