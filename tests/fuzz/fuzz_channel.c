/* SPDX-License-Identifier: Apache-2.0 */
/* The channel parser: the input is the text of a channel. */
#include "config/channel.h"
#include "fuzz.h"
#include "config/registry.h"

enum { TEXT_MAX = 2000 };

static void take_line(void *arg, enum llm_level level, const char *text)
{
    int *lines = arg;

    FUZZ_CHECK(level == LLM_LEVEL_ERROR || level == LLM_LEVEL_WARNING);
    FUZZ_CHECK(text[0] != '\0' && strchr(text, '\n') == NULL);
    ++*lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lli_channel channel;
    int lines = 0;
    const struct lli_log log = {.function = take_line, .arg = &lines, .level = LLM_LEVEL_ERROR};
    char *text = malloc(size + 1);
    int error;

    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    /* The log line contains the channel, and a newline if the channel has one. */
    if (size <= TEXT_MAX && strchr(text, '\n') == NULL) {
        error = lli_channel_parse(&channel, text, NULL, &log);
        FUZZ_CHECK(error == LLM_OK || error == LLM_EINVAL || error == LLM_EOPTION);
        FUZZ_CHECK((error == LLM_OK) == (lines == 0));
        if (error == LLM_OK) {
            FUZZ_CHECK(channel.port > 0 || lli_transport_is_named(channel.scheme));
            FUZZ_CHECK(memchr(channel.scheme, '\0', sizeof channel.scheme) > (void *)channel.scheme);
            FUZZ_CHECK(memchr(channel.host, '\0', sizeof channel.host) > (void *)channel.host);
            FUZZ_CHECK(memchr(channel.options.interface, '\0', sizeof channel.options.interface) != NULL);
            FUZZ_CHECK(channel.options.size == sizeof channel.options);
            FUZZ_CHECK(memchr(channel.second.scheme, '\0', sizeof channel.second.scheme) != NULL);
            FUZZ_CHECK(memchr(channel.second.host, '\0', sizeof channel.second.host) != NULL);
            FUZZ_CHECK(!lli_channel_has_lines(&channel) ||
                       channel.second.options.size == sizeof channel.second.options);
        }
    }
    free(text);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    static const char *const seeds[] = {
        "udp://239.192.1.1:5001",
        "udp://239.192.1.1:5001?interface=eth0&ttl=2&source=10.0.0.1",
        "udp://[ff15::1]:5001?mtu=9000&rcvbuf_bytes=16M&history_bytes=1G",
        "loop://group:1?window_packets=64&heartbeat_ns_min=1000&heartbeat_ns_max=10000000000",
        "impair+udp://239.192.1.1:65535?impair_seed=18446744073709551615&impair_loss_ppm=1000000",
        "udp://239.192.1.1",
        "shm://book?shm_directory=/dev/shm",
        "shm+udp://239.192.1.1:5001?destinations=10.0.0.2:5001,10.0.0.3:5001",
        "udp://239.192.1.1:0?ttl=256",
        "udp://[ff15::1:5001?ttl",
        "udp://239.1.1.1:5001?interface=eth0 + udp://239.1.2.1:5001?interface=eth1&ttl=2",
        "udp://239.1.1.1:5001?flow=window + shm://book + loop://a:1",
    };

    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        emit(arg, (const uint8_t *)seeds[i], strlen(seeds[i]));
}
