/* SPDX-License-Identifier: Apache-2.0 */
#include "config/channel.h"

#include <stdbool.h>
#include <string.h>

#include "config/options.h"
#include "config/registry.h"

enum { CHANNEL_TEXT_MAX = 1024 };

/* Copies text up to end into a buffer. False: it is empty or does not fit. */
static bool channel_copy(char *to, size_t size, const char *text, const char *end)
{
    size_t length = (size_t)(end - text);

    if (length == 0 || length >= size)
        return false;
    memcpy(to, text, length);
    to[length] = '\0';
    return true;
}

/* Parses a port of 1 to 65535 up to end. */
static bool channel_port(const char *text, const char *end, uint16_t *port)
{
    uint32_t value = 0;

    if (text == end || end - text > 5)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint32_t)(*text - '0');
    }
    *port = (uint16_t)value;
    return value >= 1 && value <= UINT16_MAX;
}

static int channel_parse_place(struct lli_channel *channel, const char *whole, const char *text,
                               const char *end, const struct lli_log *log)
{
    const char *host = text;
    const char *host_end;
    const char *colon;

    if (*text == '[') {
        host++;
        host_end = memchr(text, ']', (size_t)(end - text));
        if (host_end == NULL)
            return lli_fail(log, LLM_EINVAL, "channel \"%s\": the ] of the IPv6 address is missing", whole);
        colon = host_end + 1;
    } else {
        colon = memchr(text, ':', (size_t)(end - text));
        host_end = colon == NULL ? end : colon;
    }
    if (!channel_copy(channel->host, sizeof channel->host, host, host_end))
        return lli_fail(log, LLM_EINVAL, "channel \"%s\": a group is missing or longer than %d characters",
                        whole, LLI_CHANNEL_HOST_MAX - 1);
    if (host_end == end && lli_transport_is_named(channel->scheme))
        return LLM_OK;
    if (colon == NULL || colon >= end || *colon != ':' || !channel_port(colon + 1, end, &channel->port))
        return lli_fail(log, LLM_EINVAL,
                        "channel \"%s\": a port of 1 to 65535 must follow each group, as in %s://%s:5001%s",
                        whole, channel->scheme, *text == '[' ? "[ff15::1]" : "239.192.1.1",
                        strchr(host, ':') != NULL && *text != '[' ? " (an IPv6 address stands in brackets)"
                                                                  : "");
    return LLM_OK;
}

int lli_channel_destination(struct lli_channel *channel, const char **text, const struct lli_log *log)
{
    const char *begin = *text;
    const char *end = begin + strcspn(begin, ",");
    int error;

    channel->port = 0;
    error = channel_parse_place(channel, channel->options.destinations, begin, end, log);
    *text = *end == ',' ? end + 1 : NULL;
    return error;
}

static int channel_parse_options(struct lli_channel *channel, const char *whole, const char *text,
                                 const struct lli_log *log)
{
    /*
     * A scheme that is not in this build is refused when it is opened, with the remedy. The options of its
     * transport are unknown here.
     */
    const bool known = lli_transport_find(channel->scheme) != NULL;
    char pair[CHANNEL_TEXT_MAX];

    while (*text != '\0') {
        const char *end = text + strcspn(text, "&");
        char *value;
        int error = LLM_OK;

        if (!channel_copy(pair, sizeof pair, text, end) || (value = strchr(pair, '=')) == NULL)
            return lli_fail(log, LLM_EOPTION,
                            "channel \"%s\": options have the form key=value, with & between them", whole);
        *value++ = '\0';
        if (known || lli_options_have(&channel->values, pair))
            error = lli_options_set(&channel->options, &channel->values, pair, value, log);
        if (error != LLM_OK)
            return error;
        text = *end == '&' ? end + 1 : end;
    }
    return LLM_OK;
}

int lli_channel_parse(struct lli_channel *channel, const char *text, const struct llm_options *user,
                      const struct lli_log *log)
{
    const char *place = strstr(text, "://");
    const char *query;
    int error;

    memset(channel, 0, sizeof *channel);
    error = lli_options_copy(&channel->options, user, log);
    if (error != LLM_OK)
        return error;
    if (strlen(text) >= CHANNEL_TEXT_MAX)
        return lli_fail(log, LLM_EINVAL, "channel: longer than %d characters", CHANNEL_TEXT_MAX - 1);
    if (place == NULL || !channel_copy(channel->scheme, sizeof channel->scheme, text, place))
        return lli_fail(log, LLM_EINVAL,
                        "channel \"%s\": write scheme://group:port, as in udp://239.192.1.1:5001", text);
    lli_option_values_init(&channel->values, channel->scheme);
    place += 3;
    query = strchr(place, '?');
    error = channel_parse_place(channel, text, place, query == NULL ? place + strlen(place) : query, log);
    if (error == LLM_OK && query != NULL)
        error = channel_parse_options(channel, text, query + 1, log);
    if (error == LLM_OK)
        error = lli_options_check(&channel->options, log);
    return error;
}
