/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shm_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/clock.h"
#include "config/registry.h"

char directory[64];

/* Long for any machine: an event that takes longer does not happen. */
#define PATIENCE_NS 20000000000u

void expect_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

void expect_logged_once(const char *text)
{
    expect_logged(text);
    if (strstr(strstr(log_text, text) + 1, text) != NULL)
        fail_msg("'%s' is in the log more than once: %s", text, log_text);
}

/* -------------------------------------------------------------------------------------------- directories */

int own_directory(void **state)
{
    (void)state;
    transport = lli_transport_find("shm");
    scheme = "shm";
    host = NAME;
    port = 0;
    strcpy(directory, "/dev/shm/llm-test-XXXXXX");
    if (mkdtemp(directory) == NULL || chmod(directory, 01777) != 0)
        return -1;
    own_reset();
    own_set("shm_directory", directory);
    return 0;
}

/* Counts mappings of files in the directory; the kernel names them even after the files are removed. */
static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    if (maps == NULL)
        return -1;
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, directory) != NULL;
    fclose(maps);
    return count;
}

int nothing_left(void **state)
{
    char command[256];

    (void)state;
    snprintf(command, sizeof command, "find %s -mindepth 1 >&2; rm -rf %s", directory, directory);
    if (mappings() != 0)
        print_error("%d mappings are left\n", mappings());
    if (rmdir(directory) != 0) {
        print_error("files are left:\n");
        return system(command) == 0 ? -1 : -2;
    }
    return mappings();
}

int files_of(const char *name, const char *ending)
{
    char path[256];
    struct dirent *entry;
    DIR *files;
    int count = 0;

    snprintf(path, sizeof path, "%s/llm/%s", directory, name);
    files = opendir(path);
    if (files == NULL)
        return 0;
    while ((entry = readdir(files)) != NULL) {
        const size_t size = strlen(entry->d_name);

        count += entry->d_name[0] != '.' && size >= strlen(ending) &&
                 strcmp(entry->d_name + size - strlen(ending), ending) == 0;
    }
    closedir(files);
    return count;
}

static int locked_of(const char *name)
{
    char path[512];
    struct dirent *entry;
    DIR *files;
    int count = 0;

    snprintf(path, sizeof path, "%s/llm/%s", directory, name);
    files = opendir(path);
    while (files != NULL && (entry = readdir(files)) != NULL) {
        const int fd = openat(dirfd(files), entry->d_name, O_RDONLY | O_CLOEXEC);

        count += fd >= 0 && entry->d_name[0] != '.' && lli_shm_is_locked(fd);
        if (fd >= 0)
            close(fd);
    }
    if (files != NULL)
        closedir(files);
    return count;
}

void await_unlocked(const char *name)
{
    const uint64_t give_up_at = lli_clock_ns() + patience(PATIENCE_NS);

    while (locked_of(name) > 0)
        assert_true(lli_clock_ns() < give_up_at);
}

/* ---------------------------------------------------------------------------------------------- instances */

struct llm_options small_options(void)
{
    struct llm_options options;

    llm_options_init(&options);
    options.mtu = 2000;
    options.history_packets = 64;
    options.history_bytes = HISTORY_BYTES;
    return options;
}

static int try_station(struct station *station, const struct llm_options *options, enum lli_join_mode mode,
                       lli_handle *handle)
{
    int status = instance_open(station, NAME, options);

    if (status != 0)
        return status;
    status = station_join(station, NAME, 0, mode, handle);
    if (status != 0)
        station_close(station);
    return status;
}

int try_writer(struct station *station, const struct llm_options *options)
{
    return try_station(station, options, LLI_JOIN_SEND, &station->send);
}

int try_reader(struct station *station, const struct llm_options *options)
{
    return try_station(station, options, LLI_JOIN_RECEIVE, &station->receive);
}

void open_writer(struct station *station, const struct llm_options *options)
{
    const int status = try_writer(station, options);

    if (status != 0)
        fail_msg("%d: %s", status, log_text);
}

void open_reader(struct station *station, const struct llm_options *options)
{
    const int status = try_reader(station, options);

    if (status != 0)
        fail_msg("%d: %s", status, log_text);
}

void next_writer(const struct llm_options *options)
{
    struct station writer;

    open_writer(&writer, options);
    station_close(&writer);
}

struct lli_shm *shm_of(const struct station *station)
{
    return station->instance;
}

struct lli_shm_segment *segment_of(const struct station *writer)
{
    return &shm_of(writer)->out.senders[writer->send].segment;
}

void station_look(struct station *station)
{
    lli_shm_rescan(shm_of(station));
    assert_int_equal(transport->receive(station->instance, NULL, 0), 0);
}

/* ---------------------------------------------------------------------------------------------- processes */

pid_t process_start(int (*function)(void *arg), void *arg)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(3, ~0u, 0);
    _exit(function(arg));
}

int process_end(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int process_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    return process_end(pid);
}

static uint64_t random_state = 1;

void rounds_arguments(int argc, char **argv, uint64_t *rounds)
{
    if (argc > 1)
        *rounds = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        random_state = strtoull(argv[2], NULL, 10) | 1;
}

uint64_t random_below(uint64_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % bound;
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

void shared_free(void *memory, size_t size)
{
    munmap(memory, size);
}

void await_value(const _Atomic uint64_t *value, uint64_t least)
{
    const uint64_t give_up_at = lli_clock_ns() + patience(PATIENCE_NS);

    while (atomic_load(value) < least) {
        assert_true(lli_clock_ns() < give_up_at);
        sched_yield();
    }
}

/* ------------------------------------------------------------------------------------------------ packets */

struct stamp {
    uint64_t writer;
    uint64_t number;
    uint64_t size;
    uint64_t salt; /* seed of the bytes that follow */
};

static uint64_t stamp_salt(const struct stamp *stamp)
{
    return (stamp->writer * 0x9e3779b97f4a7c15u ^ stamp->number) * 0xd6e8feb86659fd93u + stamp->size;
}

void packet_write(uint8_t *data, uint32_t size, uint64_t writer, uint64_t number)
{
    struct stamp stamp = {.writer = writer, .number = number, .size = size};

    assert_true(size >= PACKET_MIN);
    stamp.salt = stamp_salt(&stamp);
    memcpy(data, &stamp, sizeof stamp);
    for (uint32_t at = sizeof stamp; at < size; at++)
        data[at] = (uint8_t)(stamp.salt >> at % 8 * 8);
}

bool packet_read(const uint8_t *data, uint32_t size, uint64_t *writer, uint64_t *number)
{
    struct stamp stamp;

    if (size < sizeof stamp)
        return false;
    memcpy(&stamp, data, sizeof stamp);
    if (stamp.size != size || stamp.salt != stamp_salt(&stamp))
        return false;
    for (uint32_t at = sizeof stamp; at < size; at++)
        if (data[at] != (uint8_t)(stamp.salt >> at % 8 * 8))
            return false;
    *writer = stamp.writer;
    *number = stamp.number;
    return true;
}

void feed_open(struct feed *feed, const struct llm_options *options, uint64_t id)
{
    struct lli_history_config config = {
        .bytes = options->history_bytes,
        .packets = options->history_packets,
        .align = 64,
        .start = 1,
    };
    struct lli_arena arena = {.memory = NULL};
    struct lli_region region = {.base = NULL};

    feed->id = id;
    feed->sent = 0;
    open_writer(&feed->station, options);
    config.packet_max = feed->station.caps.payload_max;
    assert_int_equal(transport->region_map(feed->station.instance, feed->station.send, config.bytes, &region),
                     0);
    config.shared = region.base;
    config.shared_edge = region.edge;
    lli_history_init(&feed->history, &config, &arena);
    feed->slots = calloc(1, arena.used);
    assert_non_null(feed->slots);
    arena = (struct lli_arena){.memory = feed->slots};
    lli_history_init(&feed->history, &config, &arena);
}

void feed_close(struct feed *feed)
{
    transport->region_end(feed->station.instance, feed->history.bytes, feed->history.bytes_size);
    station_close(&feed->station);
    free(feed->slots);
}

void feed_packet(struct feed *feed, const uint8_t *data, uint32_t size)
{
    const struct lli_out packet = {.data = data, .size = size, .to = feed->station.send};

    assert_int_equal(transport->post(feed->station.instance, &packet, 1), 1);
    assert_int_equal(transport->flush(feed->station.instance), 0);
}

void feed_history(struct feed *feed, uint32_t size)
{
    uint8_t *data = lli_history_open(&feed->history, feed->history.next);

    packet_write(data, size, feed->id, feed->sent++);
    lli_history_seal(&feed->history, size);
    feed_packet(feed, data, size);
}

void feed_plain(struct feed *feed, uint32_t size)
{
    const struct station *station = &feed->station;

    if (size > station->caps.slot_max || size % 2 != 0) {
        packet_write(feed->scratch, size, feed->id, feed->sent++);
        feed_packet(feed, feed->scratch, size);
        return;
    }
    packet_write(transport->slot(station->instance, station->send), size, feed->id, feed->sent++);
    transport->post_slot(station->instance, station->send, size);
    assert_int_equal(transport->flush(station->instance), 0);
}

static void audit_packet(struct audit *audit, uint64_t writer, uint64_t number)
{
    uint64_t *next = &audit->next;

    while (writer > audit->writer) {
        audit->ended[audit->writer++ % AUDIT_WRITERS] = audit->next;
        audit->next = 0;
    }
    if (writer < audit->writer)
        next = &audit->ended[writer % AUDIT_WRITERS];
    audit->disordered += number < *next || audit->writer - writer >= AUDIT_WRITERS;
    audit->skipped += number - *next;
    *next = number + 1;
    audit->got++;
}

int audit_take(struct audit *audit, struct station *reader)
{
    struct lli_in packets[BURST];
    const int count = transport->receive(reader->instance, packets, BURST);

    for (int i = 0; i < count; i++) {
        uint64_t writer, number;

        if (packet_read(packets[i].data, packets[i].size, &writer, &number))
            audit_packet(audit, writer, number);
        else
            audit->torn++;
    }
    transport->release(reader->instance, packets, count);
    return count;
}

void audit_all(struct audit *audit, struct station *reader)
{
    while (audit_take(audit, reader) > 0)
        continue;
}

void audit_fine(const struct audit *audit)
{
    if (audit->torn > 0 || audit->disordered > 0)
        fail_msg("%llu packets were torn, %llu out of order", (unsigned long long)audit->torn,
                 (unsigned long long)audit->disordered);
}
