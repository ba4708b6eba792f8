/* SPDX-License-Identifier: Apache-2.0 */
/* The counters file: contents, permissions, removal, and readers of invalid files. */
#define _GNU_SOURCE
#include "logged.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <llm/llm.h>

#include "engine/objects.h"
#include "observe/stats_file.h"
#include "stat_file.h"

#define SMALL                                                                                              \
    "?history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=2&message_bytes_max=64K&topics_" \
    "max=8"                                                                                                \
    "&window_packets=64&receivers_max=4&rcvbuf_bytes=1M&mtu=1500&linger_ns=0"

enum { MESSAGES = 10 };

static char directory[128];

static int directory_up(void **state)
{
    (void)state;
    logged[0] = '\0';
    snprintf(directory, sizeof directory, "/dev/shm/llm-unit-XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

/* Finds the path of the first file; returns the number of files. */
static int files(char path[512])
{
    DIR *at = opendir(directory);
    struct dirent *entry;
    int count = 0;

    while (at != NULL && (entry = readdir(at)) != NULL)
        if (entry->d_name[0] != '.' && count++ == 0)
            snprintf(path, 512, "%s/%s", directory, entry->d_name);
    if (at != NULL)
        closedir(at);
    return count;
}

static int directory_down(void **state)
{
    char path[512];

    (void)state;
    while (files(path) > 0)
        unlink(path);
    return rmdir(directory);
}

static struct llm_context_options options_of(const char *in)
{
    struct llm_context_options options;

    llm_context_options_init(&options);
    options.log = log_keep;
    options.stats_directory = in;
    options.stats_name = "unit";
    options.stats_ns = 1000000;
    return options;
}

static struct llm_context *context_make(void)
{
    const struct llm_context_options options = options_of(directory);
    struct llm_context *context = NULL;

    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    return context;
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    (void)event;
}

/* Opens a transmitter and a receiver, and sends messages between them. */
static void traffic(struct llm_context *context)
{
    struct llm_transmitter *transmitter = NULL;
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;
    struct llm_topic *topic;

    llm_receiver_handlers_init(&handlers);
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, "loop://file:1" SMALL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, "loop://file:1" SMALL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(llm_send(topic, "x", 1, LLM_SEND_NOW), LLM_OK);
    while (llm_transmitter_receivers(transmitter) == 0)
        (void)llm_poll(context);
}

/* Polls until another table is written. */
static void written(struct llm_context *context)
{
    const uint64_t before = context->stats->writes;

    while (context->stats->writes == before)
        (void)llm_poll(context);
}

static enum stat_fault read_file(const char *path, struct stat_snapshot *snapshot)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum stat_fault fault;

    assert_true(fd >= 0);
    fault = stat_read(fd, STAT_TABLE_MAX, snapshot);
    close(fd);
    return fault;
}

static uint32_t object_of(const struct stat_snapshot *snapshot, enum llm_stats_kind kind)
{
    for (uint32_t i = 0; i < snapshot->table.objects; i++)
        if (snapshot->objects[i].kind == kind)
            return i;
    fail_msg("there is no object of kind %d", (int)kind);
    return 0;
}

/* ----------------------------------------------------------------------------------------------- contents */

static void every_counter_is_in_the_file(void **state)
{
    static struct llm_counter stats[1024];
    struct llm_context *context = context_make();
    struct stat_snapshot snapshot;
    char path[512];
    int count;

    (void)state;
    traffic(context);
    written(context);
    assert_int_equal(files(path), 1);
    assert_int_equal(read_file(path, &snapshot), STAT_OK);
    assert_true(snapshot.alive);
    assert_int_equal(snapshot.header.pid, getpid());
    assert_string_equal(snapshot.header.name, "unit");
    assert_int_equal(snapshot.table.dropped, 0);
    count = llm_context_counters(context, stats, 1024);
    for (int i = 0; i < count; i++) {
        uint32_t row = 0;

        /* The object name of llm_context_counters() is the kind, a space, and the label. */
        while (row < snapshot.table.rows) {
            const struct llm_stats_object *object = &snapshot.objects[snapshot.rows[row].object];
            const char *label = strchr(stats[i].object, ' ') + 1;

            if (strcmp(snapshot.rows[row].name, stats[i].name) == 0 && strcmp(object->label, label) == 0 &&
                strncmp(stats[i].object, stat_kind_name(object->kind),
                        strlen(stat_kind_name(object->kind))) == 0)
                break;
            row++;
        }
        if (row == snapshot.table.rows)
            fail_msg("%s of %s is not in the file", stats[i].name, stats[i].object);
    }
    assert_int_equal(stat_value(&snapshot, object_of(&snapshot, LLM_STATS_TRANSMITTER), "messages_sent"),
                     MESSAGES);
    assert_int_equal(stat_value(&snapshot, object_of(&snapshot, LLM_STATS_RECEIVER), "messages_delivered"),
                     MESSAGES);
    stat_free(&snapshot);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

static void sessions_and_members_are_below_their_parent_objects(void **state)
{
    struct llm_context *context = context_make();
    struct stat_snapshot snapshot;
    uint32_t session, member, transmitter, receiver;
    char path[512];

    (void)state;
    traffic(context);
    written(context);
    assert_int_equal(files(path), 1);
    assert_int_equal(read_file(path, &snapshot), STAT_OK);
    session = object_of(&snapshot, LLM_STATS_SESSION);
    member = object_of(&snapshot, LLM_STATS_MEMBER);
    transmitter = object_of(&snapshot, LLM_STATS_TRANSMITTER);
    receiver = object_of(&snapshot, LLM_STATS_RECEIVER);
    assert_int_equal(snapshot.objects[session].parent, receiver);
    assert_int_equal(snapshot.objects[member].parent, transmitter);
    assert_true(snapshot.objects[session].id == snapshot.objects[transmitter].id);
    assert_true(snapshot.objects[member].id == snapshot.objects[receiver].id);
    assert_int_equal(stat_value(&snapshot, session, "session_messages"), MESSAGES);
    assert_int_equal(stat_value(&snapshot, session, "lag_packets"), 0);
    stat_free(&snapshot);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

/* Rates compare values by name, at any row of the table. */
static void earlier_values_are_found_after_new_objects(void **state)
{
    struct llm_context *context = context_make();
    struct stat_snapshot before, now;
    int moved = 0, added = 0;
    char path[512];

    (void)state;
    written(context);
    traffic(context);
    written(context);
    assert_int_equal(files(path), 1);
    assert_int_equal(read_file(path, &before), STAT_OK);
    traffic(context);
    written(context);
    assert_int_equal(read_file(path, &now), STAT_OK);
    assert_true(now.table.rows > before.table.rows && now.header.sequence > before.header.sequence);
    for (uint32_t i = 0; i < now.table.rows; i++) {
        const bool old = now.objects[now.rows[i].object].id ==
                         before.objects[object_of(&before, LLM_STATS_TRANSMITTER)].id;

        if (strcmp(now.rows[i].name, "packets_data") != 0)
            continue;
        assert_true(now.values[i] >= MESSAGES);
        assert_true(stat_before(&before, &now, i) == now.values[i]);
        moved += old && (i >= before.table.rows || strcmp(before.rows[i].name, "packets_data") != 0);
        added += !old;
    }
    assert_int_equal(moved, 1);
    assert_int_equal(added, 1);
    for (uint32_t i = 0; i < now.table.rows; i++)
        if (strcmp(now.rows[i].name, "stats_writes") == 0)
            assert_true(stat_before(&before, &now, i) < now.values[i]);
    stat_free(&before);
    stat_free(&now);
    assert_int_equal(llm_context_close(&context), LLM_OK);
}

/* ----------------------------------------------------------------------------------------------- lifetime */

static void a_closed_context_leaves_no_file(void **state)
{
    struct llm_context *first = context_make(), *second = context_make();
    char path[512];

    (void)state;
    assert_int_equal(files(path), 2);
    assert_int_equal(llm_context_close(&first), LLM_OK);
    assert_int_equal(llm_context_close(&second), LLM_OK);
    assert_int_equal(files(path), 0);
}

static void no_file_is_written_without_the_option(void **state)
{
    struct llm_context_options options = options_of(NULL);
    struct llm_context *context = NULL;
    char path[512];

    (void)state;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    (void)llm_poll(context);
    assert_int_equal(llm_context_deadline(context) == UINT64_MAX, true);
    assert_int_equal(files(path), 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    /* By the environment, unless the program disables it. */
    setenv("LLM_STATS_DIRECTORY", directory, 1);
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(files(path), 1);
    assert_true(llm_context_deadline(context) != UINT64_MAX);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    options.stats_directory = "";
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_int_equal(files(path), 0);
    assert_int_equal(llm_context_close(&context), LLM_OK);
    unsetenv("LLM_STATS_DIRECTORY");
}

/* A process that writes a file with messages in it and is killed. */
static void die(void)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        struct llm_context *context = context_make();

        traffic(context);
        written(context);
        raise(SIGKILL);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void counters_of_a_killed_process_are_readable(void **state)
{
    struct stat_snapshot snapshot;
    char path[512];

    (void)state;
    die();
    assert_int_equal(files(path), 1);
    assert_int_equal(read_file(path, &snapshot), STAT_OK);
    assert_false(snapshot.alive);
    assert_int_equal(stat_value(&snapshot, object_of(&snapshot, LLM_STATS_TRANSMITTER), "messages_sent"),
                     MESSAGES);
    stat_free(&snapshot);
}

/* ----------------------------------------------------------------------------------------------- refusals */

static void refused(const struct llm_context_options *options, int error, const char *text)
{
    struct llm_context *context = NULL;

    logged[0] = '\0';
    assert_int_equal(llm_context_open(options, &context), error);
    assert_null(context);
    expect_logged(text);
}

static void an_unavailable_file_is_refused_with_the_reason(void **state)
{
    struct llm_context_options options = options_of("/dev/shm/llm-unit-absent/below");
    struct llm_context *context = NULL;
    struct rlimit before, limit;
    char path[512];

    (void)state;
    refused(&options, LLM_ESYSTEM, "No such file or directory; stats_directory must be");
    snprintf(path, sizeof path, "%s/file", directory);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    options.stats_directory = path;
    refused(&options, LLM_ESYSTEM, "Not a directory");
    options = options_of(directory);
    options.stats_ns = 999;
    refused(&options, LLM_EINVAL, "stats_ns is 999: must be between");
    options = options_of(directory);
    options.stats_mode = 0200;
    refused(&options, LLM_EINVAL, "stats_mode is 0200");
    options = options_of(directory);
    options.stats_name = "0123456789012345678901234567890123456789012345678901234567890123";
    refused(&options, LLM_EINVAL, "longer than 63");
    /* Beyond the limit the kernel would end the process. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    options = options_of(directory);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    refused(&options, LLM_ELIMIT, "File too large; raise the limit of the size of files, 'ulimit -f'");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    /* With a directory from the environment only, the context opens without a file. */
    options = options_of(NULL);
    setenv("LLM_STATS_DIRECTORY", "/dev/shm/llm-unit-absent/below", 1);
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    assert_non_null(strstr(logged, "No such file or directory"));
    assert_int_equal(llm_context_close(&context), LLM_OK);
    unsetenv("LLM_STATS_DIRECTORY");
}

/* ------------------------------------------------------------------------------------------ invalid files */

/* A valid file of a dead process, to be damaged. */
static uint8_t *good_copy(size_t *size)
{
    struct stat file;
    uint8_t *bytes;
    char path[512];
    int fd;

    die();
    assert_int_equal(files(path), 1);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &file) == 0);
    *size = (size_t)file.st_size;
    bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, *size), *size);
    close(fd);
    return bytes;
}

static enum stat_fault parse_copy(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    struct stat_snapshot snapshot;
    enum stat_fault fault;

    assert_non_null(copy);
    memcpy(copy, bytes, size);
    fault = stat_parse(copy, size, &snapshot);
    stat_free(&snapshot);
    free(copy);
    return fault;
}

static void bad_files_are_distinguished(void **state)
{
    struct llm_stats_file header, bad;
    size_t size;
    uint8_t *bytes = good_copy(&size);

    (void)state;
    memcpy(&header, bytes, sizeof header);
    assert_int_equal(parse_copy(bytes, size), STAT_OK);
    assert_int_equal(parse_copy(bytes, 0), STAT_SHORT);
    assert_int_equal(parse_copy(bytes, sizeof header - 1), STAT_SHORT);
    assert_int_equal(parse_copy(bytes, size - 1), STAT_SHORT);
    assert_int_equal(parse_copy((const uint8_t *)"a text that is none of these", 29), STAT_FOREIGN);
#define SPOILT(change, fault)        \
    bad = header;                    \
    bad.change;                      \
    memcpy(bytes, &bad, sizeof bad); \
    assert_int_equal(parse_copy(bytes, size), fault)
    SPOILT(version = 2, STAT_VERSION);
    SPOILT(sequence = 0, STAT_EMPTY);
    SPOILT(rows_max = UINT32_MAX, STAT_DAMAGED);
    SPOILT(objects_max--, STAT_DAMAGED);
    SPOILT(table_at[0] = 8, STAT_DAMAGED);
    SPOILT(table_at[1] += 1, STAT_SHORT);
    SPOILT(table_at[0] += 1, STAT_DAMAGED);
    SPOILT(table_at[0] = UINT64_MAX - 7, STAT_SHORT);
    SPOILT(table_bytes = UINT64_MAX, STAT_SHORT);
    free(bytes);
}

/* Files are changed and truncated at random: a reader stays within the bytes, which sanitizers check. */
static void hostile_tables_do_no_harm(void **state)
{
    uint32_t random = 12345;
    struct llm_stats_file header;
    size_t size;
    uint8_t *bytes = good_copy(&size);

    (void)state;
    memcpy(&header, bytes, sizeof header);
    for (int i = 0; i < 300; i++) {
        uint8_t *copy = malloc(size);
        struct stat_snapshot snapshot;

        assert_non_null(copy);
        memcpy(copy, bytes, size);
        for (int j = 0; j < 4; j++) {
            const size_t table = header.table_at[header.sequence & 1];
            size_t at;

            random = random * 1664525 + 1013904223;
            /* Mostly in the headers, where it matters. */
            at = (random & 3) == 0   ? random % size
                 : (random & 3) == 1 ? random / 4 % sizeof header
                                     : table + random / 4 % 4096;
            copy[at] = (uint8_t)(random >> 24);
        }
        if (stat_parse(copy, size, &snapshot) == STAT_OK)
            for (uint32_t row = 0; row < snapshot.table.rows; row++)
                (void)stat_before(&snapshot, &snapshot, row);
        stat_free(&snapshot);
        free(copy);
    }
    free(bytes);
}

static void texts_are_terminated_and_printable(void **state)
{
    struct llm_stats_file header;
    struct llm_stats_object *objects;
    struct stat_snapshot snapshot;
    size_t size;
    uint8_t *bytes = good_copy(&size);

    (void)state;
    memcpy(&header, bytes, sizeof header);
    objects = (struct llm_stats_object *)(void *)(bytes + header.table_at[header.sequence & 1] +
                                                  sizeof(struct llm_stats_table));
    memset(objects[0].label, 'x', sizeof objects[0].label);
    memcpy(objects[0].label, "\033[2J", 4);
    memset(bytes + offsetof(struct llm_stats_file, name), '\a', sizeof header.name);
    assert_int_equal(stat_parse(bytes, size, &snapshot), STAT_OK);
    assert_int_equal(strlen(snapshot.objects[0].label), sizeof objects[0].label - 1);
    assert_memory_equal(snapshot.objects[0].label, "?[2Jxx", 6);
    assert_int_equal(strlen(snapshot.header.name), sizeof header.name - 1);
    assert_int_equal(snapshot.header.name[0], '?');
    stat_free(&snapshot);
    free(bytes);
}

/* --------------------------------------------------------------------------------------------- histograms */

static void buckets_cover_all_values_and_are_narrow(void **state)
{
    uint64_t first = 0;

    (void)state;
    for (uint32_t bucket = 0; bucket < LLM_STATS_BUCKETS; bucket++) {
        const uint64_t last = llm_stats_bucket_last(bucket);

        assert_int_equal(llm_stats_bucket(first), bucket);
        assert_int_equal(llm_stats_bucket(last), bucket);
        assert_true((last - first) * 32 <= first);
        first = last + 1;
    }
    assert_true(first == (uint64_t)1 << 36);
    assert_int_equal(llm_stats_bucket(first), LLM_STATS_BUCKETS - 1);
    assert_int_equal(llm_stats_bucket(UINT64_MAX), LLM_STATS_BUCKETS - 1);
}

static void percentiles_cover_values_since_the_previous_snapshot(void **state)
{
    static struct llm_stats_histogram before, now;

    (void)state;
    assert_int_equal(stat_percentile(&now, NULL, 0.5), 0);
    for (uint64_t i = 1; i <= 50; i++)
        now.buckets[llm_stats_bucket(i)]++;
    now.count = 50;
    now.max = 50;
    assert_int_equal(stat_percentile(&now, NULL, 0), 1);
    assert_int_equal(stat_percentile(&now, NULL, 0.5), 25);
    assert_int_equal(stat_percentile(&now, NULL, 0.98), 49);
    assert_int_equal(stat_percentile(&now, NULL, 1), 50);
    before = now;
    assert_int_equal(stat_percentile(&now, &before, 0.5), 0);
    now.buckets[llm_stats_bucket(1000000)]++;
    now.max = 1000000;
    assert_int_equal(stat_percentile(&now, &before, 0.5), 1000000);
    now.buckets[LLM_STATS_BUCKETS - 1]++;
    now.max = UINT64_MAX;
    assert_true(stat_percentile(&now, &before, 1) == ((uint64_t)1 << 36) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_counter_is_in_the_file, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(sessions_and_members_are_below_their_parent_objects, directory_up,
                                        directory_down),
        cmocka_unit_test_setup_teardown(earlier_values_are_found_after_new_objects, directory_up,
                                        directory_down),
        cmocka_unit_test_setup_teardown(a_closed_context_leaves_no_file, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(no_file_is_written_without_the_option, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(counters_of_a_killed_process_are_readable, directory_up,
                                        directory_down),
        cmocka_unit_test_setup_teardown(an_unavailable_file_is_refused_with_the_reason, directory_up,
                                        directory_down),
        cmocka_unit_test_setup_teardown(bad_files_are_distinguished, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(hostile_tables_do_no_harm, directory_up, directory_down),
        cmocka_unit_test_setup_teardown(texts_are_terminated_and_printable, directory_up, directory_down),
        cmocka_unit_test(buckets_cover_all_values_and_are_narrow),
        cmocka_unit_test(percentiles_cover_values_since_the_previous_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
