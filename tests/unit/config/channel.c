/* SPDX-License-Identifier: Apache-2.0 */
#include "logged.h"

#include "config/channel.h"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_ERROR};

static int parse(struct lli_channel *channel, const char *text)
{
    /* Copied to a block of its own, so that a sanitizer detects reads beyond its end. */
    char *copy = (char *)exact_copy(text, strlen(text) + 1);
    int error;

    logged[0] = '\0';
    error = lli_channel_parse(channel, copy, NULL, &keeper);
    free(copy);
    return error;
}

static void a_channel_is_parsed_into_its_parts(void **state)
{
    struct lli_channel channel;

    (void)state;
    assert_int_equal(parse(&channel, "udp://239.192.1.1:5001?interface=eth0&ttl=2"), LLM_OK);
    assert_string_equal(channel.scheme, "udp");
    assert_string_equal(channel.host, "239.192.1.1");
    assert_int_equal(channel.port, 5001);
    assert_string_equal(channel.options.interface, "eth0");
    assert_int_equal(channel.options.ttl, 2);
    assert_int_equal(channel.options.loop, 1);
}

static void an_ipv6_group_stands_in_brackets(void **state)
{
    struct lli_channel channel;

    (void)state;
    assert_int_equal(parse(&channel, "impair+udp://[ff15::7:2]:1?loop=0"), LLM_OK);
    assert_string_equal(channel.scheme, "impair+udp");
    assert_string_equal(channel.host, "ff15::7:2");
    assert_int_equal(channel.port, 1);
    assert_int_equal(channel.options.loop, 0);
    assert_int_equal(parse(&channel, "udp://ff15::7:2:5001"), LLM_EINVAL);
    assert_non_null(strstr(logged, "brackets"));
}

static void the_least_and_the_greatest_port_are_accepted(void **state)
{
    struct lli_channel channel;

    (void)state;
    assert_int_equal(parse(&channel, "loop://a:65535"), LLM_OK);
    assert_int_equal(channel.port, 65535);
    assert_int_equal(parse(&channel, "loop://a:00001?"), LLM_OK);
    assert_int_equal(channel.port, 1);
}

static void invalid_channels_are_refused_and_quoted(void **state)
{
    static const char *const texts[] = {
        "",
        "udp",
        "udp:",
        "udp:/",
        "udp://",
        "udp:///",
        "://a:1",
        "udp://a",
        "udp://:1",
        "udp://a:",
        "udp://a:0",
        "udp://a:65536",
        "udp://a:100000",
        "udp://a:1x",
        "udp://a: 1",
        "udp://a:-1",
        "udp://[]:1",
        "udp://[::1:1",
        "udp://[::1]",
        "udp://[::1]1",
        "udp://[::1]x:1",
        "udp://[::1]:",
        "udp://?a=b",
        "udp://a?port=1",
        "an-extremely-long-scheme-that-nobody-has://a:1",
        "udp://a-host-name-that-is-longer-than-any-that-the-library-can-take-in.example.com:1",
    };
    struct lli_channel channel;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (parse(&channel, texts[i]) != LLM_EINVAL)
            fail_msg("\"%s\" was taken", texts[i]);
        assert_non_null(strstr(logged, texts[i]));
    }
}

static void options_have_the_form_key_value(void **state)
{
    static const char *const texts[] = {"udp://a:1?ttl", "udp://a:1?&ttl=1",  "udp://a:1?ttl=1&&loop=0",
                                        "udp://a:1?=1",  "udp://a:1?ttl=1=2", "udp://a:1?nothing=1",
                                        "udp://a:1?ttl="};
    struct lli_channel channel;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (parse(&channel, texts[i]) != LLM_EOPTION)
            fail_msg("\"%s\" was taken", texts[i]);
}

static void a_channel_longer_than_the_bound_is_refused(void **state)
{
    char text[2048] = "udp://a:1?interface=e";
    struct lli_channel channel;

    (void)state;
    while (strlen(text) < 1100)
        strcat(text, "&interface=eth0");
    assert_int_equal(parse(&channel, text), LLM_EINVAL);
}

static void the_channel_wins_over_the_structure(void **state)
{
    struct llm_options options;
    struct lli_channel channel;

    (void)state;
    llm_options_init(&options);
    options.ttl = 5;
    options.linger_ns = 77;
    assert_int_equal(lli_channel_parse(&channel, "udp://a:1?ttl=6", &options, &keeper), LLM_OK);
    assert_int_equal(channel.options.ttl, 6);
    assert_int_equal(channel.options.linger_ns, 77);
}

static void options_of_the_structure_are_checked(void **state)
{
    struct llm_options options;
    struct lli_channel channel;

    (void)state;
    llm_options_init(&options);
    options.window_packets = 100;
    assert_int_equal(lli_channel_parse(&channel, "udp://a:1", &options, &keeper), LLM_EOPTION);
    options.size = 3;
    assert_int_equal(lli_channel_parse(&channel, "udp://a:1", &options, &keeper), LLM_EINVAL);
}

static void two_lines_are_parsed_each_with_its_options(void **state)
{
    struct lli_channel channel;

    (void)state;
    assert_int_equal(
        parse(&channel,
              "udp://239.1.1.1:5001?interface=eth0&ttl=2&flow=window&receivers_max=7&check_source=0&"
              "history_bytes=1M&receiver_name=a&rcvbuf_bytes=1M + "
              "impair+udp://[ff15::1]:5002?interface=eth1&impair_loss_ppm=5&ttl=3"),
        LLM_OK);
    assert_true(lli_channel_has_lines(&channel));
    assert_string_equal(channel.scheme, "udp");
    assert_string_equal(channel.options.interface, "eth0");
    assert_int_equal(channel.options.ttl, 2);
    assert_int_equal(channel.options.flow, LLM_FLOW_WINDOW);
    assert_string_equal(channel.second.scheme, "impair+udp");
    assert_string_equal(channel.second.host, "ff15::1");
    assert_int_equal(channel.second.port, 5002);
    assert_string_equal(channel.second.options.interface, "eth1");
    assert_int_equal(channel.second.options.ttl, 3);
    /* Options of both lines stand in the first. */
    assert_int_equal(channel.second.options.receivers_max, 7);
    assert_int_equal(channel.second.options.check_source, 0);
    assert_int_equal(channel.second.options.history_bytes, 1 << 20);
    assert_int_equal(channel.second.options.flow, LLM_FLOW_WINDOW);
    assert_string_equal(channel.second.options.receiver_name, "a");
    assert_int_equal(channel.options.rcvbuf_bytes, 1 << 20);
    assert_int_equal(channel.second.options.rcvbuf_bytes, 16 << 20);
    assert_int_equal(parse(&channel, "udp://239.1.1.1:5001 + shm://prices"), LLM_OK);
    assert_string_equal(channel.second.host, "prices");
    assert_int_equal(parse(&channel, "udp://239.1.1.1:5001?stream=a + b"), LLM_OK);
    assert_false(lli_channel_has_lines(&channel));
    assert_string_equal(channel.options.stream, "a + b");
}

static void lines_that_make_no_channel_are_refused(void **state)
{
    static const struct {
        const char *text;
        int error;
        const char *said;
    } wrong[] = {
        {"udp://239.1.1.1:1 + udp://239.1.1.2:1 + udp://239.1.1.3:1", LLM_EINVAL, "one line or two"},
        {"udp://239.1.1.1:1+udp://239.1.1.2:1", LLM_EINVAL, "spaces around"},
        {"udp://239.1.1.1:1 +udp://239.1.1.2:1", LLM_EINVAL, "spaces around"},
        {"udp://239.1.1.1:1 + udp://239.1.1.2", LLM_EINVAL, "a port of 1 to 65535"},
        {"udp://239.1.1.1 + udp://239.1.1.2:1", LLM_EINVAL, "a port of 1 to 65535"},
        {"udp://239.1.1.1:1 + ://239.1.1.2:1", LLM_EINVAL, "scheme://group:port"},
        {"udp://239.1.1.1:1 + udp://239.1.1.1:1", LLM_EINVAL, "both lines are the same"},
        {"udp://239.1.1.1:1 + udp://239.1.1.2:1?flow=window", LLM_EOPTION, "option flow: it applies to both"},
        {"udp://239.1.1.1:1 + udp://239.1.1.2:1?check_source=0", LLM_EOPTION, "check_source"},
        {"udp://239.1.1.1:1 + udp://239.1.1.2:1?flaw=window", LLM_EOPTION, "\"flaw\" does not exist"},
        {"udp://239.1.1.1:1 + udp://239.1.1.2:1?mtu=99999", LLM_EOPTION, "mtu"},
        {"udp://239.1.1.1:1?destinations=10.0.0.1:1 + udp://239.1.1.2:1", LLM_EOPTION, "destinations"},
    };
    struct lli_channel channel;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (parse(&channel, wrong[i].text) != wrong[i].error || strstr(logged, wrong[i].said) == NULL)
            fail_msg("\"%s\": \"%s\"", wrong[i].text, logged);
    }
}

static void mangled_channels_are_read_within_their_bounds(void **state)
{
    const char alphabet[] = "udp:/[]?&=.0159ax";
    struct lli_channel channel;
    uint64_t random = 5;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char text[48] = "udp://[ff15::1]:5001?ttl=2&interface=a";

        for (uint32_t flips = 1 + below(&random, 5); flips > 0; flips--)
            text[below(&random, 38)] = alphabet[below(&random, sizeof alphabet)];
        (void)parse(&channel, text);
    }
}

static void destinations_are_parsed_one_by_one(void **state)
{
    struct lli_channel channel;
    const char *text;

    (void)state;
    assert_int_equal(parse(&channel, "udp://a:1?destinations=10.0.0.2:5001,[fd77::2]:5002&ttl=2"), LLM_OK);
    text = channel.options.destinations;
    assert_int_equal(lli_channel_destination(&channel, &text, &keeper), LLM_OK);
    assert_string_equal(channel.host, "10.0.0.2");
    assert_int_equal(channel.port, 5001);
    assert_non_null(text);
    assert_int_equal(lli_channel_destination(&channel, &text, &keeper), LLM_OK);
    assert_string_equal(channel.host, "fd77::2");
    assert_int_equal(channel.port, 5002);
    assert_null(text);
}

static void wrong_destinations_are_refused_and_quoted(void **state)
{
    static const char *const texts[] = {",b:1", "b", "b:", "b:0", "b:1x", "[::1", ":1"};
    struct lli_channel channel;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text;

        assert_int_equal(parse(&channel, "udp://a:1"), LLM_OK);
        strcpy(channel.options.destinations, texts[i]);
        text = channel.options.destinations;
        assert_int_equal(lli_channel_destination(&channel, &text, &keeper), LLM_EINVAL);
        assert_non_null(strstr(logged, texts[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_channel_is_parsed_into_its_parts),
        cmocka_unit_test(an_ipv6_group_stands_in_brackets),
        cmocka_unit_test(the_least_and_the_greatest_port_are_accepted),
        cmocka_unit_test(invalid_channels_are_refused_and_quoted),
        cmocka_unit_test(options_have_the_form_key_value),
        cmocka_unit_test(a_channel_longer_than_the_bound_is_refused),
        cmocka_unit_test(the_channel_wins_over_the_structure),
        cmocka_unit_test(options_of_the_structure_are_checked),
        cmocka_unit_test(destinations_are_parsed_one_by_one),
        cmocka_unit_test(wrong_destinations_are_refused_and_quoted),
        cmocka_unit_test(two_lines_are_parsed_each_with_its_options),
        cmocka_unit_test(lines_that_make_no_channel_are_refused),
        cmocka_unit_test(mangled_channels_are_read_within_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
