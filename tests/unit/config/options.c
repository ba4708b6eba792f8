/* SPDX-License-Identifier: Apache-2.0 */
#include "logged.h"

#include <stdio.h>

#include "config/options.h"
#include "config/registry.h"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_ERROR};

/* Values of no transport. */
static struct lli_option_values none;

static void the_defaults_are_those_of_the_table_and_valid(void **state)
{
    struct llm_options options;

    (void)state;
    memset(&options, 0xff, sizeof options);
    llm_options_init(&options);
    assert_int_equal(options.size, sizeof options);
#define EXPECT_u32(name, def) assert_int_equal(options.name, def);
#define EXPECT_u64(name, def) assert_int_equal(options.name, def);
#define EXPECT_word(name, def) assert_int_equal(options.name, def);
#define EXPECT_str(name, def) assert_string_equal(options.name, def);
#define EXPECT(type, scope, name, def, min, max, text) EXPECT_##type(name, def)
    LLM_OPTIONS(EXPECT)
    assert_int_equal(lli_options_check(&options, &keeper), LLM_OK);
}

/* Sets a number to its bounds and beyond, in the structure and as text. */
static void expect_bound(const char *name, uint64_t value, bool allowed)
{
    struct llm_options options;
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    llm_options_init(&options);
    logged[0] = '\0';
    if ((lli_options_set(&options, &none, name, text, &keeper) == LLM_OK) != allowed)
        fail_msg("%s=%s should %sbe allowed", name, text, allowed ? "" : "not ");
    if (!allowed) {
        assert_non_null(strstr(logged, name));
        assert_non_null(strstr(logged, text));
    }
}

static void numbers_are_accepted_up_to_their_bounds_only(void **state)
{
    (void)state;
#define BOUNDS_str(name, min, max)
#define BOUNDS_word(name, min, max)
#define BOUNDS_u32(name, min, max)                   \
    expect_bound(#name, min, true);                  \
    expect_bound(#name, max, true);                  \
    expect_bound(#name, (uint64_t)(max) + 1, false); \
    if ((min) > 0)                                   \
        expect_bound(#name, (uint64_t)(min)-1, false);
#define BOUNDS_u64(name, min, max)                       \
    expect_bound(#name, min, true);                      \
    expect_bound(#name, max, true);                      \
    if ((uint64_t)(max) < UINT64_MAX)                    \
        expect_bound(#name, (uint64_t)(max) + 1, false); \
    if ((uint64_t)(min) > 0)                             \
        expect_bound(#name, (uint64_t)(min)-1, false);
#define BOUNDS(type, scope, name, def, min, max, text) BOUNDS_##type(name, min, max)
    LLM_OPTIONS(BOUNDS)
}

/* The test changes each option: those of scope INSTANCE prevent sharing, the others do not. */
static void channels_with_equal_instance_options_share_an_instance(void **state)
{
    struct llm_options a, b;

    (void)state;
    llm_options_init(&a);
#define CHANGE_u32(name) b.name++
#define CHANGE_u64(name) b.name++
#define CHANGE_word(name) b.name = 1 - b.name
#define CHANGE_str(name) b.name[0]++
#define IS_SHARED(type, scope, name, def, min, max, text)                        \
    b = a;                                                                       \
    CHANGE_##type(name);                                                         \
    if (lli_options_share_instance(&a, &b) == (strcmp(#scope, "INSTANCE") == 0)) \
        fail_msg("%s", #name);
    LLM_OPTIONS(IS_SHARED)
    b = a;
    assert_true(lli_options_share_instance(&a, &b));
}

/* Calls a test with each option of each transport of this build, and the scheme that has it. */
static void each_transport_option(void (*test)(const char *scheme, const struct lli_option *option))
{
    const struct lli_option_table *table;
    const char *scheme;
    int tested = 0;

    for (int i = 0; (scheme = lli_transport_option_table(i, &table)) != NULL; i++)
        for (size_t j = 0; table != NULL && j < table->count; j++, tested++)
            test(scheme, &table->options[j]);
    assert_true(tested > 0);
}

/* Sets an option of a transport over its defaults. */
static int transport_set(struct lli_option_values *values, const char *scheme, const char *name,
                         const char *text)
{
    struct llm_options options;

    logged[0] = '\0';
    llm_options_init(&options);
    lli_option_values_init(values, scheme);
    return lli_options_set(&options, values, name, text, &keeper);
}

static void expect_transport_bound(const char *scheme, const char *name, uint64_t value, bool allowed)
{
    struct lli_option_values values;
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    if ((transport_set(&values, scheme, name, text) == LLM_OK) != allowed)
        fail_msg("%s=%s should %sbe allowed", name, text, allowed ? "" : "not ");
    if (!allowed) {
        expect_logged(name);
        expect_logged(text);
    }
}

static void expect_transport_bounds(const char *scheme, const struct lli_option *option)
{
    struct lli_option_values values;
    char text[LLI_OPTION_VALUES_BYTES] = "";

    if (option->type == LLI_OPTION_str) {
        memset(text, 's', option->max);
        assert_int_equal(transport_set(&values, scheme, option->name, text), LLM_EOPTION);
        expect_logged(option->name);
        text[option->max - 1] = '\0';
        assert_int_equal(transport_set(&values, scheme, option->name, text), LLM_OK);
        return;
    }
    expect_transport_bound(scheme, option->name, option->min, true);
    expect_transport_bound(scheme, option->name, option->max, true);
    expect_transport_bound(scheme, option->name, option->value, true);
    if (option->max < UINT64_MAX)
        expect_transport_bound(scheme, option->name, option->max + 1, false);
    if (option->min > 0)
        expect_transport_bound(scheme, option->name, option->min - 1, false);
}

static void options_of_transports_have_the_same_bounds(void **state)
{
    (void)state;
    each_transport_option(expect_transport_bounds);
}

/* Expects that exactly the options of scope INSTANCE prevent sharing. */
static void expect_transport_shared(const char *scheme, const struct lli_option *option)
{
    struct lli_option_values a, b;
    char text[32] = "0640x";

    if (option->type != LLI_OPTION_str)
        snprintf(text, sizeof text, "%llu",
                 (unsigned long long)(option->value == option->max ? option->min : option->max));
    lli_option_values_init(&a, scheme);
    assert_int_equal(transport_set(&b, scheme, option->name, text), LLM_OK);
    assert_int_equal(lli_option_values_share_instance(&a, &b), option->scope != LLI_OPTION_INSTANCE);
    lli_option_values_init(&b, scheme);
    assert_true(lli_option_values_share_instance(&a, &b));
}

static void channels_with_equal_transport_options_share_an_instance(void **state)
{
    (void)state;
    each_transport_option(expect_transport_shared);
}

static void expect_transport_named(const char *scheme, const struct lli_option *option)
{
    struct lli_option_values values;
    char text[64];

    assert_int_equal(transport_set(&values, "udp", option->name, "1"), LLM_EOPTION);
    snprintf(text, sizeof text, "option %s: it needs a channel of the scheme %s", option->name, scheme);
    expect_logged(text);
    assert_false(lli_options_have(&values, option->name));
    lli_option_values_init(&values, scheme);
    assert_true(lli_options_have(&values, option->name));
}

static void an_option_of_another_transport_is_refused_with_its_scheme(void **state)
{
    (void)state;
    each_transport_option(expect_transport_named);
}

static void decorators_accept_the_options_of_inner_transports(void **state)
{
    struct lli_option_values values;

    (void)state;
    assert_int_equal(transport_set(&values, "impair+loop", "impair_loss_ppm", "7"), LLM_OK);
    assert_int_equal(transport_set(&values, "impair+shm+udp", "impair_loss_ppm", "7"), LLM_OK);
    assert_int_equal(transport_set(&values, "impair+impair+udp", "impair_seed", "1G"), LLM_OK);
    assert_null(values.of[1].table);
    assert_int_equal(transport_set(&values, "impair+nothing", "impair_loss_ppm", "7"), LLM_OK);
    assert_int_equal(transport_set(&values, "shm+udp", "impair_loss_ppm", "7"), LLM_EOPTION);
    assert_int_equal(transport_set(&values, "shm+udp", "shm_mode", "0640"), LLM_OK);
    assert_int_equal(transport_set(&values, "impair+shm+bypass", "impair_seed", "7"), LLM_OK);
    assert_true(lli_options_have(&values, "shm_mode"));
    assert_true(lli_options_have(&values, "zero_copy"));
}

static void numbers_have_suffixes(void **state)
{
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    assert_int_equal(lli_options_set(&options, &none, "history_bytes", "64K", &keeper), LLM_OK);
    assert_int_equal(options.history_bytes, 65536);
    assert_int_equal(lli_options_set(&options, &none, "history_bytes", "3M", &keeper), LLM_OK);
    assert_int_equal(options.history_bytes, 3 << 20);
    assert_int_equal(lli_options_set(&options, &none, "history_bytes", "2G", &keeper), LLM_OK);
    assert_int_equal(options.history_bytes, (uint64_t)2 << 30);
    assert_int_equal(lli_options_set(&options, &none, "join_ns", "18446744073709551615", &keeper), LLM_OK);
    assert_int_equal(options.join_ns, UINT64_MAX);
}

static void invalid_numbers_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        " 1",
                                        "1 ",
                                        "-1",
                                        "+1",
                                        "0x10",
                                        "1k",
                                        "1KK",
                                        "K",
                                        "1.5",
                                        "1e3",
                                        "99999999999999999999",
                                        "18014398509481984G",
                                        "1T"};
    struct llm_options options, before;

    (void)state;
    llm_options_init(&options);
    before = options;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (lli_options_set(&options, &none, "join_ns", texts[i], &keeper) != LLM_EOPTION)
            fail_msg("\"%s\" was taken as a number", texts[i]);
    assert_memory_equal(&options, &before, sizeof options);
}

static void an_unknown_option_is_named(void **state)
{
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    assert_int_equal(lli_options_set(&options, &none, "tttl", "1", &keeper), LLM_EOPTION);
    assert_non_null(strstr(logged, "tttl"));
    assert_int_equal(lli_options_set(&options, &none, "size", "1", &keeper), LLM_EOPTION);
}

static void strings_fit_or_are_refused(void **state)
{
    struct llm_options options;
    char text[sizeof options.interface + 1];

    (void)state;
    llm_options_init(&options);
    memset(text, 'i', sizeof text);
    text[sizeof options.interface] = '\0';
    assert_int_equal(lli_options_set(&options, &none, "interface", text, &keeper), LLM_EOPTION);
    text[sizeof options.interface - 1] = '\0';
    assert_int_equal(lli_options_set(&options, &none, "interface", text, &keeper), LLM_OK);
    assert_string_equal(options.interface, text);
    assert_int_equal(lli_options_check(&options, &keeper), LLM_OK);
    memset(options.source, 's', sizeof options.source);
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
}

static void expect_refused(const char *key, const char *value, const char *named)
{
    struct llm_options options;

    llm_options_init(&options);
    assert_int_equal(lli_options_set(&options, &none, key, value, &keeper), LLM_OK);
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    expect_logged(named);
}

static void contradictory_options_are_refused(void **state)
{
    (void)state;
    expect_refused("history_packets", "65537", "history_packets");
    expect_refused("window_packets", "100", "window_packets");
    expect_refused("heartbeat_ns_min", "200000000", "heartbeat_ns_min");
    expect_refused("nak_retry_ns_min", "60000000", "nak_retry_ns_min");
    expect_refused("silence_ns", "20000000000", "silence_ns");
    expect_refused("heartbeat_ns_max", "600000000", "heartbeat_ns_max");
}

/* Two options that contradict each other: both are named, with their values. */
static void expect_both(const char *key, const char *value, const char *other, const char *other_value)
{
    struct llm_options options;

    llm_options_init(&options);
    assert_int_equal(lli_options_set(&options, &none, key, value, &keeper), LLM_OK);
    assert_int_equal(lli_options_set(&options, &none, other, other_value, &keeper), LLM_OK);
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    if (strstr(logged, key) == NULL || strstr(logged, value) == NULL || strstr(logged, other) == NULL ||
        strstr(logged, other_value) == NULL)
        fail_msg("%s=%s and %s=%s: %s", key, value, other, other_value, logged);
}

static void expect_no_word(const char *key, const char *value, const char *named)
{
    struct llm_options options;

    llm_options_init(&options);
    assert_int_equal(lli_options_set(&options, &none, key, value, &keeper), LLM_EOPTION);
    expect_logged(value);
    expect_logged(named);
}

static void unknown_words_are_refused_as_choices(void **state)
{
    struct llm_options options;

    (void)state;
    expect_no_word("slow", "harsh", "off, report, warn, unicast, suspend or expel");
    expect_no_word("acknowledge", "nobody", "library or application");
    expect_no_word("order", "random", "sequence or arrival");
    expect_no_word("join", "number", "live, oldest, messages, time or latest");
    llm_options_init(&options);
    options.join = LLM_JOIN_NUMBER;
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    expect_logged("option join: 4");
}

static void contradictory_slow_receiver_policies_are_refused(void **state)
{
    struct llm_options options;

    (void)state;
    expect_refused("receiver_name", "a,b", "comma");
    expect_refused("receiver_name", "store-*", "patterns of names");
    expect_refused("stream_base", "7", "option stream_base: 7 is of no stream");
    expect_refused("stream_term", "8", "option stream_term: 8 is of no stream");
    expect_refused("stream_merge", "1", "option stream_merge: 1 is of no stream");
    expect_both("order", "arrival", "acknowledge", "application");
    expect_both("slow_warn_percent", "80", "slow_unicast_percent", "60");
    expect_both("slow_recover_ns", "5000", "slow_expel_ns", "4000");
    expect_both("slow_patience_ns", "2000000001", "slow_expel_ns", "2000000000");
    expect_both("status_ns", "200000000", "slow_silence_ns", "199999999");
    llm_options_init(&options);
    options.slow_lag_packets = 4000;
    assert_int_equal(lli_options_check(&options, &keeper), LLM_OK);
    options.flow = LLM_FLOW_WINDOW;
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    assert_non_null(strstr(logged, "4096"));
    options.slow_lag_packets = 65537;
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    assert_non_null(strstr(logged, "history_packets"));
    expect_both("slow_lag_packets", "8192", "history_packets", "4096");
    expect_both("slow_silence_ns", "2000000000", "status_ns", "100000000");
    expect_both("slow_lag_bytes", "1048577", "history_bytes", "1048576");
    expect_both("status_ns", "200000000", "slow_ack_ns", "199999999");
    expect_both("status_ns", "100000000", "slow_lag_ns", "5");
}

static void a_window_of_bytes_has_at_least_eight_packets(void **state)
{
    const struct lli_flow_config flow = {.mode = LLI_FLOW_WINDOW, .window_packets = 16, .window_bytes = 8000};
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_OK);
    options.flow_window_bytes = 8000;
    assert_int_equal(lli_options_check_window(&options, &flow, 1000, &keeper), LLM_OK);
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_EOPTION);
    expect_logged("flow_window_bytes: 8000 is less than 8 packets of 1001 bytes");
}

static void the_slow_receiver_policy_follows_the_options(void **state)
{
    struct llm_options options;
    struct lli_slow_policy policy;

    (void)state;
    llm_options_init(&options);
    policy = lli_options_slow(&options, 16000);
    assert_int_equal(policy.most, LLI_STANDING_SUSPENDED);
    assert_false(policy.dry);
    assert_int_equal(policy.limits[LLM_THRESHOLD_LAG_PACKETS], 12000);
    assert_int_equal(policy.limits[LLM_THRESHOLD_SILENCE], 180000000);
    options.slow = LLM_SLOW_REPORT;
    options.slow_silence_ns = 150000000;
    options.slow_lag_packets = 5;
    policy = lli_options_slow(&options, 16000);
    assert_int_equal(policy.most, LLI_STANDING_EXPELLED);
    assert_true(policy.dry);
    assert_int_equal(policy.limits[LLM_THRESHOLD_LAG_PACKETS], 5);
    assert_int_equal(policy.limits[LLM_THRESHOLD_SILENCE], 150000000);
    options.slow = LLM_SLOW_OFF;
    assert_int_equal(lli_options_slow(&options, 16000).most, LLI_STANDING_FINE);
    /* If the slowest receiver decides, it may take any time. */
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_LAG_TIME], 0);
    options.slow_lag_ns = 1000000000;
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_LAG_TIME], 1000000000);
    options.flow = LLM_FLOW_WINDOW;
    options.flow_quorum_percent = 100;
    options.slow_lag_packets = 0;
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_LAG_TIME], 0);
    assert_int_equal(lli_options_slow(&options, 9000).limits[LLM_THRESHOLD_LAG_PACKETS], 8193);
}

static void expect_vain(const struct llm_options *options, const char *named, const char *other)
{
    const struct lli_log warned = {.function = log_keep, .level = LLM_LEVEL_WARNING};

    logged[0] = '\0';
    lli_options_log_unused(options, "it", &warned);
    if (named == NULL)
        assert_string_equal(logged, "");
    else if (strstr(logged, named) == NULL || strstr(logged, other) == NULL)
        fail_msg("%s and %s: %s", named, other, logged);
}

static void policies_without_effect_are_logged(void **state)
{
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    options.slow_lag_ns = 1000000000;
    options.flow_quorum_percent = 100;
    expect_vain(&options, NULL, NULL);
    options.flow = LLM_FLOW_PACED;
    expect_vain(&options, "slow_lag_ns: 1000000000", "flow=paced and flow_quorum_percent=100");
    options.flow_quorum_percent = 99;
    expect_vain(&options, NULL, NULL);
    options.slow = LLM_SLOW_OFF;
    expect_vain(&options, "slow_lag_ns: 1000000000", "slow=off");
    options.slow_lag_ns = 0;
    expect_vain(&options, NULL, NULL);
    options.slow_nak_ppm = 5;
    expect_vain(&options, "slow_nak_ppm: 5", "slow=off");
}

static void a_window_of_flow_control_is_no_lag(void **state)
{
    struct lli_flow_config flow = {.window_packets = 1000, .window_bytes = 12582912};
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_LAG_BYTES], 0);
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_ACK_TIME], 0);
    options.slow_ack_ns = 300000000;
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_ACK_TIME], 300000000);
    options.slow_lag_bytes = 999;
    assert_int_equal(lli_options_check_window(&options, &flow, 1000, &keeper), LLM_EOPTION);
    expect_logged("slow_lag_bytes: 999 is less than one packet, 1000 bytes");
    options.slow_lag_bytes = 1000000;
    assert_int_equal(lli_options_slow(&options, 16000).limits[LLM_THRESHOLD_LAG_BYTES], 1000000);
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_OK);
    flow.mode = LLI_FLOW_WINDOW;
    assert_int_equal(lli_options_check_window(&options, &flow, 1000, &keeper), LLM_OK);
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_EOPTION);
    expect_logged("slow_lag_bytes: 1000000 is less than the lag that flow control allows, 1001000 bytes");
    assert_non_null(strstr(logged, "flow_window_packets"));
    /* The window has at most half of the history. */
    flow.window_bytes = 1000000;
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_OK);
    options.slow_lag_bytes = 999999;
    assert_int_equal(lli_options_check_window(&options, &flow, 1001, &keeper), LLM_EOPTION);
    expect_logged("1000000 bytes (1000 packets of 1001, but at most flow_window_bytes");
    expect_logged("lower flow_window_packets or flow_window_bytes");
}

static void the_structure_is_checked_like_its_text(void **state)
{
    struct llm_options options;

    (void)state;
    llm_options_init(&options);
    options.ttl = 256;
    assert_int_equal(lli_options_check(&options, &keeper), LLM_EOPTION);
    assert_non_null(strstr(logged, "ttl: 256"));
}

/* ----------------------------------------------------------------------------------------------- versions */

static void a_smaller_structure_leaves_later_options_at_their_defaults(void **state)
{
    struct llm_options options, older;

    (void)state;
    llm_options_init(&older);
    older.size = offsetof(struct llm_options, mtu);
    older.ttl = 7;
    older.mtu = 1500; /* beyond the fields known to the caller */
    assert_int_equal(lli_options_copy(&options, &older, &keeper), LLM_OK);
    assert_int_equal(options.ttl, 7);
    assert_int_equal(options.mtu, 0);
    assert_int_equal(options.size, sizeof options);
}

static void a_larger_structure_is_refused_and_not_read_beyond_the_known_size(void **state)
{
    static const size_t beyond[] = {8, 4096, (size_t)1 << 40};
    struct llm_options options, *newer = malloc(sizeof *newer);

    (void)state;
    assert_non_null(newer);
    for (unsigned i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        llm_options_init(newer);
        newer->size += beyond[i];
        assert_int_equal(lli_options_copy(&options, newer, &keeper), LLM_EVERSION);
    }
    free(newer);
}

static void a_structure_whose_size_cuts_a_word_is_refused(void **state)
{
    struct llm_options options, cut;

    (void)state;
    llm_options_init(&cut);
    for (size_t size = 0; size < sizeof cut; size++) {
        cut.size = size;
        assert_int_equal(lli_options_copy(&options, &cut, &keeper),
                         size >= 8 && size % 8 == 0 ? LLM_OK : LLM_EINVAL);
    }
}

static void an_uninitialised_structure_is_refused(void **state)
{
    struct llm_options options, zero;

    (void)state;
    memset(&zero, 0, sizeof zero);
    assert_int_equal(lli_options_copy(&options, &zero, &keeper), LLM_EINVAL);
    assert_non_null(strstr(logged, "_init"));
    assert_int_equal(lli_options_copy(&options, NULL, &keeper), LLM_OK);
    assert_int_equal(options.ttl, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_of_the_table_and_valid),
        cmocka_unit_test(numbers_are_accepted_up_to_their_bounds_only),
        cmocka_unit_test(channels_with_equal_instance_options_share_an_instance),
        cmocka_unit_test(options_of_transports_have_the_same_bounds),
        cmocka_unit_test(channels_with_equal_transport_options_share_an_instance),
        cmocka_unit_test(an_option_of_another_transport_is_refused_with_its_scheme),
        cmocka_unit_test(decorators_accept_the_options_of_inner_transports),
        cmocka_unit_test(numbers_have_suffixes),
        cmocka_unit_test(invalid_numbers_are_refused),
        cmocka_unit_test(an_unknown_option_is_named),
        cmocka_unit_test(strings_fit_or_are_refused),
        cmocka_unit_test(contradictory_options_are_refused),
        cmocka_unit_test(unknown_words_are_refused_as_choices),
        cmocka_unit_test(contradictory_slow_receiver_policies_are_refused),
        cmocka_unit_test(a_window_of_bytes_has_at_least_eight_packets),
        cmocka_unit_test(the_slow_receiver_policy_follows_the_options),
        cmocka_unit_test(policies_without_effect_are_logged),
        cmocka_unit_test(a_window_of_flow_control_is_no_lag),
        cmocka_unit_test(the_structure_is_checked_like_its_text),
        cmocka_unit_test(a_smaller_structure_leaves_later_options_at_their_defaults),
        cmocka_unit_test(a_larger_structure_is_refused_and_not_read_beyond_the_known_size),
        cmocka_unit_test(a_structure_whose_size_cuts_a_word_is_refused),
        cmocka_unit_test(an_uninitialised_structure_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
