/* SPDX-License-Identifier: Apache-2.0 */
/* Two lines over transports of this test, which take packets, or none, as told. */
#include "logged.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "config/registry.h"
#include "transport.h"

enum { POSTED_MAX = 1024, FIRST = 0, SECOND = 1 };

/* One per line, in the order of opening. */
struct fake {
    bool stuck;
    uint64_t taken; /* packets posted and not sent yet, and those sent */
    uint64_t sent;
    lli_handle to[POSTED_MAX];
    const uint8_t *data[POSTED_MAX];
    int joins;
    int waiting; /* packets that it returns */
    int fd;
    uint8_t address;
};

static struct fake *fakes[2];
static int opened;

static int fake_open(void *instance, const struct lli_transport_config *config, struct lli_caps *caps)
{
    struct fake *fake = instance;

    assert_null(config->second);
    fake->fd = eventfd(0, EFD_CLOEXEC);
    fake->address = (uint8_t)('a' + opened);
    *caps = (struct lli_caps){.payload_max = opened == 0 ? 1400 : 1200,
                              .post_max = 64,
                              .train_max = 1,
                              .align = 64,
                              .flags = LLI_CAP_UNICAST | LLI_CAP_TX_COPIES | LLI_CAP_ORDERED,
                              .numa_node = -1};
    fakes[opened++] = fake;
    return LLM_OK;
}

static void fake_close(void *instance)
{
    close(((const struct fake *)instance)->fd);
}

static void fake_region_end(void *instance, void *base, size_t size)
{
    (void)instance;
    (void)base;
    (void)size;
}

static int fake_join(void *instance, const struct lli_group *group, enum lli_join_mode mode,
                     lli_handle *handle)
{
    struct fake *fake = instance;

    (void)mode;
    fake->joins++;
    *handle = group->port;
    return LLM_OK;
}

static void fake_leave(void *instance, lli_handle handle, enum lli_join_mode mode)
{
    struct fake *fake = instance;

    (void)handle;
    (void)mode;
    fake->joins--;
}

static int fake_address(void *instance, struct lli_address *address)
{
    *address = (struct lli_address){.size = 1, .bytes = {((const struct fake *)instance)->address}};
    return LLM_OK;
}

/* Addresses that begin with x exist on the first line only. */
static int fake_peer(void *instance, const struct lli_address *address, lli_handle *handle)
{
    if (address->bytes[0] == 'x' && instance != fakes[FIRST])
        return LLM_EINVAL;
    *handle = 1000;
    return LLM_OK;
}

static int fake_post(void *instance, const struct lli_out *packets, int count)
{
    struct fake *fake = instance;
    int taken = 0;

    while (taken < count && fake->taken - fake->sent < 64) {
        fake->to[fake->taken % POSTED_MAX] = packets[taken].to;
        fake->data[fake->taken++ % POSTED_MAX] = packets[taken++].data;
    }
    return taken;
}

static int fake_flush(void *instance)
{
    struct fake *fake = instance;

    if (fake->stuck)
        return LLM_EAGAIN;
    fake->sent = fake->taken;
    return LLM_OK;
}

static uint64_t fake_reap(void *instance)
{
    return ((const struct fake *)instance)->sent;
}

static int fake_receive(void *instance, struct lli_in *packets, int max)
{
    struct fake *fake = instance;
    int count = 0;

    for (; count < max && fake->waiting > 0; fake->waiting--)
        packets[count++] = (struct lli_in){.data = &fake->address, .size = 1, .from = 7, .buffer = 5};
    return count;
}

static void fake_release(void *instance, const struct lli_in *packets, int count)
{
    (void)instance;
    for (int i = 0; i < count; i++)
        assert_int_equal(packets[i].buffer, 5);
}

static int fake_arm(void *instance)
{
    return ((const struct fake *)instance)->fd;
}

static const struct lli_transport fake_transport = {.scheme = "fake",
                                                    .size = sizeof(struct fake),
                                                    .open = fake_open,
                                                    .close = fake_close,
                                                    .abandon = fake_close,
                                                    .region_end = fake_region_end,
                                                    .join = fake_join,
                                                    .leave = fake_leave,
                                                    .address = fake_address,
                                                    .peer = fake_peer,
                                                    .post = fake_post,
                                                    .flush = fake_flush,
                                                    .reap = fake_reap,
                                                    .receive = fake_receive,
                                                    .release = fake_release,
                                                    .arm = fake_arm};

static const struct lli_transport *fake_find(const char *scheme)
{
    return strcmp(scheme, "fake") == 0 ? &fake_transport : NULL;
}

static bool fake_is_named(const char *scheme)
{
    (void)scheme;
    return false;
}

static const struct lli_registry registry = {.find = fake_find, .is_named = fake_is_named};
static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};
static struct llm_options options;
static const struct lli_transport *lines;
static void *instance;
static struct lli_caps caps;
static lli_handle group;

static int open_lines(const char *second_scheme)
{
    const struct lli_transport_config second = {
        .scheme = second_scheme, .host = "h", .options = &options, .registry = &registry, .log = &keeper};
    const struct lli_transport_config first = {.scheme = "fake",
                                               .host = "g",
                                               .options = &options,
                                               .registry = &registry,
                                               .log = &keeper,
                                               .second = &second};

    opened = 0;
    logged[0] = '\0';
    llm_options_init(&options);
    lines = lli_transport_find(LLI_SCHEME_LINES);
    instance = aligned_alloc(64, (lines->size + 63) / 64 * 64);
    memset(instance, 0, lines->size);
    return lines->open(instance, &first, &caps);
}

static int join(uint16_t first_port, uint16_t second_port, enum lli_join_mode mode, lli_handle *handle)
{
    const struct lli_group second = {.host = "h", .port = second_port, .options = &options};
    const struct lli_group first = {.host = "g", .port = first_port, .options = &options, .second = &second};

    return lines->join(instance, &first, mode, handle);
}

static int up(void **state)
{
    (void)state;
    assert_int_equal(open_lines("fake"), LLM_OK);
    assert_int_equal(join(7, 8, LLI_JOIN_SEND, &group), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    lines->close(instance);
    free(instance);
    return 0;
}

static const uint8_t bytes[16];

static int post(lli_handle to, int count)
{
    int taken = 0;

    for (; taken < count; taken++) {
        const struct lli_out packet = {.data = bytes, .size = 1, .to = to};

        if (lines->post(instance, &packet, 1) == 0)
            break;
    }
    return taken;
}

static uint64_t unsent(const char *name)
{
    for (const struct lli_counter *counter = lines->counters; counter->name != NULL; counter++)
        if (strcmp(counter->name, name) == 0)
            return *(const uint64_t *)(const void *)((const char *)instance + counter->offset);
    return UINT64_MAX;
}

static void packets_to_a_group_go_on_both_lines(void **state)
{
    (void)state;
    assert_int_equal(caps.payload_max, 1200);
    assert_false(caps.flags & LLI_CAP_ORDERED);
    assert_int_equal(post(group, 3), 3);
    assert_int_equal(lines->flush(instance), LLM_OK);
    assert_int_equal(fakes[FIRST]->sent, 3);
    assert_int_equal(fakes[SECOND]->sent, 3);
    assert_int_equal(fakes[FIRST]->to[0], 7);
    assert_int_equal(fakes[SECOND]->to[0], 8);
    assert_int_equal(lines->reap(instance), 3);
}

static void a_narrowed_packet_goes_on_one_line(void **state)
{
    (void)state;
    assert_int_equal(post(lines->lines->narrow(group, SECOND), 1), 1);
    assert_int_equal(lines->flush(instance), LLM_OK);
    assert_int_equal(fakes[FIRST]->sent, 0);
    assert_int_equal(fakes[SECOND]->sent, 1);
    assert_int_equal(lines->reap(instance), 1);
    assert_int_equal(lines->lines->line_to(instance, group), -1);
}

static void a_peer_is_reached_over_the_line_of_its_address(void **state)
{
    const struct lli_address address = {.size = 1, .bytes = {'p'}}, only_first = {.size = 1, .bytes = {'x'}};
    const struct lli_in on_second = {.buffer = (uint64_t)1 << 62}, on_first = {.buffer = 0};
    lli_handle peer;

    (void)state;
    assert_int_equal(lines->peer(instance, &address, &peer), LLM_OK);
    assert_int_equal(lines->lines->line_to(instance, peer), FIRST);
    lines->lines->announced(instance, &on_second, &address);
    assert_int_equal(lines->peer(instance, &address, &peer), LLM_OK);
    assert_int_equal(lines->lines->line_to(instance, peer), SECOND);
    assert_int_equal(post(peer, 1), 1);
    assert_int_equal(lines->flush(instance), LLM_OK);
    assert_int_equal(fakes[FIRST]->sent, 0);
    assert_int_equal(fakes[SECOND]->to[0], 1000);
    lines->lines->announced(instance, &on_first, &address);
    assert_int_equal(lines->peer(instance, &address, &peer), LLM_OK);
    assert_int_equal(lines->lines->line_to(instance, peer), FIRST);
    /* A line that refuses the address does not reach it, whatever was announced there. */
    lines->lines->announced(instance, &on_second, &only_first);
    assert_int_equal(lines->peer(instance, &only_first, &peer), LLM_OK);
    assert_int_equal(lines->lines->line_to(instance, peer), FIRST);
}

static void each_line_has_its_address(void **state)
{
    struct lli_address address;

    (void)state;
    assert_int_equal(lines->address(instance, &address), LLM_OK);
    assert_int_equal(address.bytes[0], 'a');
    assert_int_equal(lines->lines->address(instance, SECOND, &address), LLM_OK);
    assert_int_equal(address.bytes[0], 'b');
}

/* The first line goes on, however long the second takes none; memory of what that has queued is not free. */
static void a_stuck_line_does_not_stop_the_other(void **state)
{
    int sent = 0;

    (void)state;
    assert_int_equal(post(group, 10), 10);
    assert_int_equal(lines->flush(instance), LLM_OK);
    fakes[SECOND]->stuck = true;
    for (int i = 0; i < 10; i++) {
        sent += post(group, 20);
        (void)lines->flush(instance);
    }
    assert_int_equal(sent, 200);
    assert_int_equal(fakes[FIRST]->sent, 210);
    assert_int_equal(fakes[SECOND]->taken, 10 + 64);
    assert_int_equal(unsent("line_2_unsent"), 200 - 64 - 128);
    assert_int_equal(unsent("line_1_unsent"), 0);
    assert_int_equal(lines->reap(instance), 10);
    fakes[SECOND]->stuck = false;
    assert_int_equal(lines->flush(instance), LLM_OK);
    assert_int_equal(fakes[SECOND]->sent, 10 + 64 + 128);
    assert_int_equal(lines->reap(instance), 210);
}

/* Packets of the other line are none that a stuck line did not send. */
static void packets_of_one_line_do_not_count_on_the_other(void **state)
{
    const struct lli_address address = {.size = 1, .bytes = {'p'}};
    lli_handle peer;

    (void)state;
    assert_int_equal(lines->peer(instance, &address, &peer), LLM_OK);
    assert_int_equal(lines->lines->line_to(instance, peer), FIRST);
    fakes[SECOND]->stuck = true;
    assert_int_equal(post(group, 100), 100);
    (void)lines->flush(instance);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(post(peer, 10), 10);
        (void)lines->flush(instance);
    }
    assert_int_equal(fakes[FIRST]->sent, 250);
    assert_int_equal(fakes[SECOND]->taken, 64);
    /* It passes over 250 - 64 - 128, of which so many are to the group. */
    assert_int_equal(unsent("line_2_unsent"), 100 - 64);
}

static void both_lines_stuck_drop_nothing(void **state)
{
    (void)state;
    fakes[FIRST]->stuck = fakes[SECOND]->stuck = true;
    for (int i = 0; i < 20; i++) {
        (void)post(group, 20);
        assert_int_equal(lines->flush(instance), LLM_EAGAIN);
    }
    assert_int_equal(post(group, 1), 0);
    assert_int_equal(unsent("line_1_unsent") + unsent("line_2_unsent"), 0);
    fakes[FIRST]->stuck = fakes[SECOND]->stuck = false;
    assert_int_equal(lines->flush(instance), LLM_OK);
    assert_int_equal(fakes[FIRST]->sent, 256);
    assert_int_equal(fakes[SECOND]->sent, 256);
}

static void lines_are_read_in_turns(void **state)
{
    struct lli_in packets[8];
    lli_handle receive;

    (void)state;
    assert_int_equal(join(7, 7, LLI_JOIN_RECEIVE, &receive), LLM_OK);
    fakes[FIRST]->waiting = fakes[SECOND]->waiting = 10;
    for (int i = 0; i < 4; i++) {
        const int line = i % 2;

        assert_int_equal(lines->receive(instance, packets, 5), 5);
        for (int j = 0; j < 5; j++) {
            assert_int_equal(lines->lines->line_of(instance, &packets[j]), line);
            assert_int_equal(packets[j].from, receive);
        }
        lines->release(instance, packets, 5);
    }
    fakes[SECOND]->waiting = 3;
    assert_int_equal(lines->receive(instance, packets, 5), 3);
    lines->release(instance, packets, 3);
    assert_int_equal(lines->receive(instance, packets, 5), 0);
}

static void a_group_belongs_to_one_pair(void **state)
{
    lli_handle a, b;
    const int joins = fakes[FIRST]->joins;

    (void)state;
    assert_int_equal(join(7, 8, LLI_JOIN_RECEIVE, &a), LLM_OK);
    assert_int_equal(join(7, 8, LLI_JOIN_RECEIVE, &b), LLM_OK);
    assert_int_equal(a, b);
    assert_int_equal(join(7, 9, LLI_JOIN_RECEIVE, &b), LLM_EGROUP);
    assert_non_null(strstr(logged, "the same two groups"));
    assert_int_equal(join(9, 9, LLI_JOIN_RECEIVE, &b), LLM_OK);
    assert_int_not_equal(a, b);
    assert_int_equal(fakes[FIRST]->joins, joins + 3);
    assert_int_equal(fakes[SECOND]->joins, joins + 3);
}

static void a_line_that_is_not_there_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_lines("other"), LLM_ESCHEME);
    assert_non_null(strstr(logged, "\"other\""));
    free(instance);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, up, down)
    const struct CMUnitTest tests[] = {
        TEST(packets_to_a_group_go_on_both_lines),
        TEST(a_narrowed_packet_goes_on_one_line),
        TEST(a_peer_is_reached_over_the_line_of_its_address),
        TEST(each_line_has_its_address),
        TEST(a_stuck_line_does_not_stop_the_other),
        TEST(packets_of_one_line_do_not_count_on_the_other),
        TEST(both_lines_stuck_drop_nothing),
        TEST(lines_are_read_in_turns),
        TEST(a_group_belongs_to_one_pair),
        cmocka_unit_test(a_line_that_is_not_there_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
