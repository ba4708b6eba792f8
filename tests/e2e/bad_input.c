/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong channels and lack of resources: each has its error code and one log line that names the value and the
 * remedy, and leaves nothing open.
 *
 *   e2e_bad_input INTERFACE DOWN BARE      interfaces that are up, that are down, that have no address
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "flood.h"

struct log {
    char text[4096];
    unsigned lines;
};

static struct log heard;
static unsigned failures;

static void hear(void *arg, enum llm_level level, const char *text)
{
    size_t used = strlen(heard.text);

    (void)arg;
    (void)level;
    (void)snprintf(heard.text + used, sizeof heard.text - used, "%s\n", text);
    heard.lines++;
}

static void verdict(bool good, const char *what, int error)
{
    if (good)
        return;
    failures++;
    printf("wrong: %s: %s, \"%s\"\n", what, llm_error_name(error), heard.text);
}

static unsigned open_files(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    while (directory != NULL && readdir(directory) != NULL)
        count++;
    if (directory != NULL)
        (void)closedir(directory);
    return count;
}

static rlim_t first_free_file(void)
{
    int fd = dup(STDOUT_FILENO);

    (void)close(fd);
    return (rlim_t)fd;
}

static uint64_t mapped_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%lu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct llm_context *context_open(void)
{
    struct llm_context_options options;
    struct llm_context *context;

    llm_context_options_init(&options);
    options.log = hear;
    heard = (struct log){.lines = 0};
    flood_ok(llm_context_open(&options, &context), "llm_context_open");
    return context;
}

static int receiver_open(struct llm_context *context, const char *channel)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver;

    llm_receiver_handlers_init(&handlers);
    return llm_receiver_open(context, channel, NULL, &handlers, &receiver);
}

/* Opens a transmitter and a receiver; both have to fail with this error and a log line with these words. */
static void refused(const char *channel, int expected, const char *value, const char *remedy)
{
    struct llm_context *context = context_open();
    struct llm_transmitter *transmitter;
    int error = llm_transmitter_open(context, channel, NULL, NULL, &transmitter);

    verdict(error == expected && heard.lines == 1 && strstr(heard.text, value) != NULL &&
                strstr(heard.text, remedy) != NULL,
            channel, error);
    heard = (struct log){.lines = 0};
    error = receiver_open(context, channel);
    verdict(error == expected && heard.lines == 1 && strstr(heard.text, value) != NULL &&
                strstr(heard.text, remedy) != NULL,
            channel, error);
    (void)llm_context_close(&context);
}

static void wrong_channels(const char *interface, const char *down, const char *bare)
{
    char channel[256];

    refused("pigeon://239.192.1.1:5001", LLM_ESCHEME, "pigeon", "udp");
    refused("udp://239.192.1.1:5001?colour=red", LLM_EOPTION, "colour", "option");
    refused("udp://239.192.1.1:5001?ttl=256", LLM_EOPTION, "256", "255");
    refused("udp://239.192.1.1:5001?ttl=many", LLM_EOPTION, "many", "ttl");
    refused("udp://239.192.1.1:5001?window_packets=100", LLM_EOPTION, "100", "power of two");
    refused("udp://239.192.1.1", LLM_EINVAL, "239.192.1.1", "port");
    refused("239.192.1.1:5001", LLM_EINVAL, "239.192.1.1:5001", "udp://");
    refused("udp://239.192.1.1:70000", LLM_EINVAL, "70000", "65535");
    (void)snprintf(channel, sizeof channel, "udp://255.255.255.255:5001?interface=%s", interface);
    refused(channel, LLM_EGROUP, "255.255.255.255", "239.");
    refused("udp://239.192.1.1:5001?interface=nosuch0", LLM_EINTERFACE, "nosuch0", "ip link");
    refused("udp://239.192.1.1:5001?interface=10.99.99.99", LLM_EINTERFACE, "10.99.99.99", "");
    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5001?interface=%s", down);
    refused(channel, LLM_EINTERFACE, down, "up");
    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5001?interface=%s", bare);
    refused(channel, LLM_EINTERFACE, bare, "address");
    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5001?interface=%s&source=nowhere", interface);
    {
        struct llm_context *context = context_open();
        int error = receiver_open(context, channel);

        verdict(error == LLM_EOPTION && strstr(heard.text, "nowhere") != NULL, channel, error);
        (void)llm_context_close(&context);
    }
}

static void port_in_use(const char *interface)
{
    const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5077)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    char channel[256];
    struct llm_context *context = context_open();
    int error;

    if (bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        perror("bind");
    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5077?interface=%s", interface);
    error = receiver_open(context, channel);
    verdict(error == LLM_EADDRINUSE && strstr(heard.text, "5077") != NULL &&
                strstr(heard.text, "ss -") != NULL,
            "port in use", error);
    (void)llm_context_close(&context);
    (void)close(fd);
}

static void message_too_long(const char *interface)
{
    static uint8_t data[4097];
    struct llm_context *context = context_open();
    struct llm_transmitter *transmitter;
    struct llm_topic *topic;
    char channel[256];
    void *claimed;
    int error;

    (void)snprintf(channel, sizeof channel,
                   "udp://239.192.1.1:5001?interface=%s&message_bytes_max=4096&linger_ns=0", interface);
    flood_ok(llm_transmitter_open(context, channel, NULL, NULL, &transmitter), channel);
    flood_ok(llm_topic_open(transmitter, "a", 0, &topic), "topic");
    error = llm_send(topic, data, 4097, 0);
    verdict(error == LLM_EMSGSIZE, "message beyond message_bytes_max", error);
    error = llm_send(topic, data, 4096, 0);
    verdict(error == LLM_OK, "message of message_bytes_max", error);
    error = llm_topic_claim(topic, llm_transmitter_claim_max(transmitter) + 1, &claimed);
    verdict(error == LLM_EMSGSIZE, "claim beyond llm_transmitter_claim_max", error);
    error = llm_topic_open(transmitter, "a", 0, &topic);
    verdict(error == LLM_EINVAL && strstr(heard.text, "\"a\"") != NULL, "the same topic twice", error);
    error = llm_topic_open(transmitter, "", 0, &topic);
    verdict(error == LLM_EINVAL, "topic without a name", error);
    (void)llm_context_close(&context);
}

/*
 * Without the right to exceed net.core.rmem_max a buffer is clamped: it works, and a warning names the
 * remedy.
 */
static void buffer_clamped(const char *interface)
{
    struct llm_context *context = context_open();
    char channel[256];
    int error;

    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5001?interface=%s&rcvbuf_bytes=1G", interface);
    error = receiver_open(context, channel);
    verdict(error == LLM_OK && strstr(heard.text, "rcvbuf") != NULL &&
                strstr(heard.text, "net.core.rmem_max") != NULL,
            "clamped receive buffer", error);
    (void)llm_context_close(&context);
}

static void no_memory(const char *interface)
{
    struct rlimit limit, old;
    char channel[256];

    (void)getrlimit(RLIMIT_AS, &old);
    limit = old;
    limit.rlim_cur = mapped_bytes() + (64u << 20);
    (void)setrlimit(RLIMIT_AS, &limit);
    /* Without root, a warning reports that the larger buffer was clamped. */
    (void)snprintf(channel, sizeof channel,
                   "udp://239.192.1.1:5001?interface=%s&history_bytes=4G&reorder_bytes=4G&rcvbuf_bytes=64K",
                   interface);
    refused(channel, LLM_ENOMEM, "memory", "");
    (void)setrlimit(RLIMIT_AS, &old);
}

static void files_exhausted(const char *interface)
{
    struct llm_context *context = context_open();
    struct rlimit limit, old;
    char channel[256];
    int error;

    (void)getrlimit(RLIMIT_NOFILE, &old);
    limit = old;
    limit.rlim_cur = first_free_file();
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)snprintf(channel, sizeof channel, "udp://239.192.1.1:5001?interface=%s", interface);
    error = receiver_open(context, channel);
    verdict(error < 0 && strstr(heard.text, "open files") != NULL, "no file descriptors left", error);
    (void)setrlimit(RLIMIT_NOFILE, &old);
    (void)llm_context_close(&context);
}

static void all(const char *const *interfaces)
{
    wrong_channels(interfaces[0], interfaces[1], interfaces[2]);
    port_in_use(interfaces[0]);
    message_too_long(interfaces[0]);
    no_memory(interfaces[0]);
    files_exhausted(interfaces[0]);
}

int main(int argc, char **argv)
{
    unsigned files;
    uint64_t bytes;

    if (argc == 3 && strcmp(argv[1], "--clamped") == 0) {
        buffer_clamped(argv[2]);
        return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (argc != 4) {
        fprintf(stderr, "usage: e2e_bad_input INTERFACE DOWN BARE | --clamped INTERFACE\n");
        return 2;
    }
    /*
     * Returns large blocks to the system when they are freed, as memory cached by malloc would look like a
     * leak.
     */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    /* The first run opens resources that the C library retains. */
    all((const char *const *)argv + 1);
    files = open_files();
    bytes = mapped_bytes();
    for (int round = 0; round < 5; round++)
        all((const char *const *)argv + 1);
    if (open_files() != files) {
        failures++;
        printf("wrong: %u files were open before, %u after\n", files, open_files());
    }
    if (mapped_bytes() > bytes + (1u << 20)) {
        failures++;
        printf("wrong: %llu bytes were mapped before, %llu after\n", (unsigned long long)bytes,
               (unsigned long long)mapped_bytes());
    }
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
