/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parsed channel: scheme://host:port?key=value&key=value, or two of them with " + " between: a channel of two
 * lines.
 */
#ifndef LLI_CHANNEL_H
#define LLI_CHANNEL_H

#include <stdbool.h>

#include "option_table.h"
#include "transport.h"
#include "system/log.h"

enum { LLI_CHANNEL_SCHEME_MAX = 32, LLI_CHANNEL_HOST_MAX = 64 };

/* The second line of a channel: what the transport needs of it. */
struct lli_channel_line {
    char scheme[LLI_CHANNEL_SCHEME_MAX]; /* empty: the channel has one line */
    char host[LLI_CHANNEL_HOST_MAX];
    uint16_t port;
    struct llm_options options;
    struct lli_option_values values;
};

struct lli_channel {
    char scheme[LLI_CHANNEL_SCHEME_MAX];
    char host[LLI_CHANNEL_HOST_MAX]; /* without the brackets of an IPv6 address */
    uint16_t port;
    struct llm_options options;
    struct lli_option_values values; /* options of the transports that the scheme names */
    struct lli_channel_line second;
};

static inline bool lli_channel_has_lines(const struct lli_channel *channel)
{
    return channel->second.scheme[0] != '\0';
}

/*
 * Parses a channel, with its options over those of user (may be NULL), and checks all of them. LLM_EINVAL,
 * LLM_EOPTION, LLM_EVERSION.
 */
int lli_channel_parse(struct lli_channel *channel, const char *text, const struct llm_options *user,
                      const struct lli_log *log);

/* Fills the group that a channel names: with two lines, those of both, of which the second is in *second. */
void lli_channel_group(const struct lli_channel *channel, struct lli_group *group, struct lli_group *second);

/*
 * Parses the first address of a channel's option destinations, at *text, into the channel's host and port;
 * *text becomes the next one, NULL after the last. LLM_EINVAL.
 */
int lli_channel_destination(struct lli_channel *channel, const char **text, const struct lli_log *log);

#endif
