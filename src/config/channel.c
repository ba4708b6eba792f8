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

/* second: the options are those of the second line, which are fewer. */
static int channel_parse_options(struct lli_channel *channel, const char *whole, const char *text,
                                 const char *stop, bool second, const struct lli_log *log)
{
    /*
     * A scheme that is not in this build is refused when it is opened, with the remedy. The options of its
     * transport are unknown here.
     */
    const bool known = lli_transport_find(channel->scheme) != NULL;
    char pair[CHANNEL_TEXT_MAX];

    while (text < stop) {
        const char *end = memchr(text, '&', (size_t)(stop - text));
        char *value;
        int error = LLM_OK;

        end = end == NULL ? stop : end;
        if (!channel_copy(pair, sizeof pair, text, end) || (value = strchr(pair, '=')) == NULL)
            return lli_fail(log, LLM_EOPTION,
                            "channel \"%s\": options have the form key=value, with & between them", whole);
        *value++ = '\0';
        if (second && lli_options_have(&channel->values, pair) &&
            !lli_options_of_line(&channel->values, pair))
            return lli_fail(log, LLM_EOPTION,
                            "option %s: it applies to both lines of a channel: write it before the \" + \"",
                            pair);
        if (known || lli_options_have(&channel->values, pair))
            error = lli_options_set(&channel->options, &channel->values, pair, value, log);
        if (error != LLM_OK)
            return error;
        text = end < stop ? end + 1 : end;
    }
    return LLM_OK;
}

/* Parses one line, up to stop, into the channel's members other than second. */
static int channel_parse_line(struct lli_channel *channel, const char *whole, const char *text,
                              const char *stop, bool second, const struct lli_log *log)
{
    const char *place = strstr(text, "://");
    const char *query;
    int error;

    if (place == NULL || place >= stop || !channel_copy(channel->scheme, sizeof channel->scheme, text, place))
        return lli_fail(log, LLM_EINVAL,
                        "channel \"%s\": write scheme://group:port, as in udp://239.192.1.1:5001", whole);
    lli_option_values_init(&channel->values, channel->scheme);
    place += 3;
    query = memchr(place, '?', (size_t)(stop - place));
    error = channel_parse_place(channel, whole, place, query == NULL ? stop : query, log);
    if (error == LLM_OK && query != NULL)
        error = channel_parse_options(channel, whole, query + 1, stop, second, log);
    return error;
}

/* Returns the " + " before the next line, which a value may contain, too; NULL: there is none. */
static const char *channel_next_line(const char *text)
{
    const char *at = strstr(text, " + ");

    while (at != NULL) {
        const char *next = strstr(at + 3, " + ");
        const char *place = strstr(at + 3, "://");

        if (place != NULL && (next == NULL || place < next))
            return at;
        at = next;
    }
    return NULL;
}

static bool channel_has_two_places(const char *text)
{
    const char *place = strstr(text, "://");

    return place != NULL && strstr(place + 3, "://") != NULL;
}

/* Copies a parsed channel to the second line of another. */
static void channel_set_second(struct lli_channel *channel, const struct lli_channel *second)
{
    struct lli_channel_line *line = &channel->second;

    memcpy(line->scheme, second->scheme, sizeof line->scheme);
    memcpy(line->host, second->host, sizeof line->host);
    line->port = second->port;
    line->options = second->options;
    line->values = second->values;
}

/* Checks that two lines make a channel. */
static int channel_check_lines(const struct lli_channel *channel, const char *whole,
                               const struct lli_log *log)
{
    const struct lli_channel_line *second = &channel->second;
    const bool same_interface = strcmp(channel->scheme, second->scheme) == 0 &&
                                !lli_transport_is_named(channel->scheme) &&
                                strcmp(channel->options.interface, second->options.interface) == 0;

    if (channel->options.destinations[0] != '\0')
        return lli_fail(log, LLM_EOPTION,
                        "option destinations: a channel of two lines has one group on each: leave it out, or "
                        "use one line");
    if (strcmp(channel->scheme, second->scheme) == 0 && strcmp(channel->host, second->host) == 0 &&
        channel->port == second->port &&
        (same_interface || strcmp(channel->options.interface, second->options.interface) == 0))
        return lli_fail(log, LLM_EINVAL,
                        "channel \"%s\": both lines are the same: give each a group, or an interface, of "
                        "its own",
                        whole);
    if (same_interface)
        lli_log(log, LLM_LEVEL_WARNING,
                "channel \"%s\": both lines use the interface \"%s\", and fail together: give each an "
                "interface of its own",
                whole, channel->options.interface);
    return LLM_OK;
}

static int channel_parse_second(struct lli_channel *channel, const char *whole, const char *text,
                                const struct llm_options *user, const struct lli_log *log)
{
    struct lli_channel second;
    int error;

    memset(&second, 0, sizeof second);
    error = lli_options_copy(&second.options, user, log);
    if (error != LLM_OK)
        return error;
    lli_options_of_both(&second.options, &channel->options);
    if (channel_next_line(text) != NULL)
        return lli_fail(log, LLM_EINVAL, "channel \"%s\": a channel has one line or two, not more", whole);
    error = channel_parse_line(&second, whole, text, text + strlen(text), true, log);
    if (error == LLM_OK)
        error = lli_options_check(&second.options, log);
    if (error != LLM_OK)
        return error;
    channel_set_second(channel, &second);
    return channel_check_lines(channel, whole, log);
}

void lli_channel_group(const struct lli_channel *channel, struct lli_group *group, struct lli_group *second)
{
    const struct lli_channel_line *line = &channel->second;

    *group = (struct lli_group){.host = channel->host,
                                .port = channel->port,
                                .options = &channel->options,
                                .values = &channel->values};
    if (!lli_channel_has_lines(channel))
        return;
    *second = (struct lli_group){
        .host = line->host, .port = line->port, .options = &line->options, .values = &line->values};
    group->second = second;
}

int lli_channel_parse(struct lli_channel *channel, const char *text, const struct llm_options *user,
                      const struct lli_log *log)
{
    const char *next;
    int error;

    memset(channel, 0, sizeof *channel);
    error = lli_options_copy(&channel->options, user, log);
    if (error != LLM_OK)
        return error;
    if (strlen(text) >= CHANNEL_TEXT_MAX)
        return lli_fail(log, LLM_EINVAL, "channel: longer than %d characters", CHANNEL_TEXT_MAX - 1);
    next = channel_next_line(text);
    if (next == NULL && channel_has_two_places(text))
        return lli_fail(log, LLM_EINVAL,
                        "channel \"%s\": between two lines stands \" + \", with spaces around it", text);
    error = channel_parse_line(channel, text, text, next == NULL ? text + strlen(text) : next, false, log);
    if (error == LLM_OK)
        error = lli_options_check(&channel->options, log);
    if (error == LLM_OK && next != NULL)
        error = channel_parse_second(channel, text, next + 3, user, log);
    return error;
}
