/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <llm/llm.h>
#include <stdio.h>

static void every_code_has_its_name_and_text(void **state)
{
    (void)state;
#define EXPECT(name, number, text)                                 \
    assert_int_equal(LLM_##name, number);                          \
    assert_string_equal(llm_error_name(LLM_##name), "LLM_" #name); \
    assert_string_equal(llm_error_text(LLM_##name), text);
    LLM_ERRORS(EXPECT)
}

static void counts_are_success_and_other_numbers_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(llm_error_name(0), "LLM_OK");
    assert_string_equal(llm_error_name(17), "LLM_OK");
    assert_string_equal(llm_error_text(17), "success");
    assert_string_equal(llm_error_name(-1000), "LLM_UNKNOWN");
    assert_string_equal(llm_error_text(INT32_MIN), "unknown error");
}

static void expect_names(const char *a, const char *b, bool same, const char *unknown)
{
    if (same || strcmp(a, unknown) != 0)
        assert_int_equal(strcmp(a, b) == 0, same);
}

static void every_event_and_reason_has_a_unique_name(void **state)
{
    (void)state;
    /* Unused numbers between those of a kind have one common name. */
    for (int i = 1; i <= LLM_EVENT_UNACKNOWLEDGED; i++)
        for (int j = 1; j <= LLM_EVENT_UNACKNOWLEDGED + 1; j++)
            expect_names(llm_event_name((enum llm_event_kind)i), llm_event_name((enum llm_event_kind)j),
                         i == j, "unknown event");
    for (int i = 0; i <= LLM_REASON_MALFORMED; i++)
        for (int j = 0; j <= LLM_REASON_MALFORMED + 1; j++)
            expect_names(llm_reason_name((enum llm_reason)i), llm_reason_name((enum llm_reason)j), i == j,
                         "unknown reason");
    for (int i = 0; i <= LLM_THRESHOLD_ACK_TIME; i++)
        for (int j = 0; j <= LLM_THRESHOLD_ACK_TIME + 1; j++)
            expect_names(llm_threshold_name((enum llm_threshold)i), llm_threshold_name((enum llm_threshold)j),
                         i == j, "unknown threshold");
    assert_string_equal(llm_event_name(LLM_EVENT_EXPELLED), "expelled");
    assert_string_equal(llm_reason_name(LLM_REASON_SUSPENDED), "suspended");
    assert_string_equal(llm_event_name(LLM_EVENT_ACKNOWLEDGED), "acknowledged");
    assert_string_equal(llm_threshold_name(LLM_THRESHOLD_LAG_PACKETS), "packets of lag");
    assert_string_equal(llm_threshold_name(99), "unknown threshold");
    assert_string_equal(llm_event_name(LLM_EVENT_CACHE_LOST), "cached messages lost");
    assert_string_equal(llm_reason_name(LLM_REASON_NO_CACHE), "no topic has a cache");
    assert_string_equal(llm_event_name(0), "unknown event");
    assert_string_equal(llm_reason_name(99), "unknown reason");
}

static void text_is(const struct llm_event *event, const char *expected)
{
    char text[200], cut[12], untouched = 'u';

    assert_int_equal(llm_event_text(event, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    assert_int_equal(llm_event_text(event, cut, sizeof cut), strlen(expected));
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, expected, sizeof cut - 1);
    assert_int_equal(llm_event_text(event, &untouched, 0), strlen(expected));
    assert_int_equal(untouched, 'u');
}

static void every_event_has_a_sentence(void **state)
{
    struct llm_event event = {.kind = LLM_EVENT_GAP,
                              .reason = LLM_REASON_GONE,
                              .session = 0xabc,
                              .first = 5,
                              .last = 9,
                              .packets = 2};

    (void)state;
    text_is(&event,
            "session 0000000000000abc: 5 messages are lost, 5 to 9, with 2 packets: gone from the history");
    event.last = 4;
    text_is(
        &event,
        "session 0000000000000abc: no message before 5 is lost, but 2 packets are: gone from the history");
    event.kind = LLM_EVENT_SESSION_NEW;
    text_is(&event, "session 0000000000000abc is followed from message 5");
    event.kind = LLM_EVENT_SESSION_END;
    event.reason = LLM_REASON_CLOSED;
    text_is(&event, "session 0000000000000abc has ended before message 5: closed");
    event.kind = LLM_EVENT_HEARTBEAT_LOST;
    text_is(&event, "session 0000000000000abc is no longer heard");
    event.kind = LLM_EVENT_RESUMED;
    text_is(&event, "session 0000000000000abc is heard again");
    event.kind = LLM_EVENT_TOPIC_NEW;
    event.topic_id = 7;
    event.topic = "quotes";
    text_is(&event, "session 0000000000000abc: topic 7 is \"quotes\"");
    event.topic = NULL;
    text_is(&event, "session 0000000000000abc: topic 7 is \"\"");
    event.kind = LLM_EVENT_LIVE;
    text_is(&event, "session 0000000000000abc is live: all requested messages came before message 5");
    event.kind = LLM_EVENT_JOIN_REFUSED;
    event.reason = LLM_REASON_HISTORY;
    event.last = 9;
    text_is(&event, "session 0000000000000abc cannot begin with message 5: beyond the history; the first "
                    "retained message is 9");
    event.first = 0;
    text_is(&event, "session 0000000000000abc cannot begin at the requested position: beyond the history; "
                    "the first retained message is 9");
    event.reason = LLM_REASON_UNANSWERED;
    text_is(&event, "session 0000000000000abc cannot begin at the requested position: not answered");
    event.first = 5;
    event.last = 4;
    event.kind = LLM_EVENT_CACHE_LOST;
    event.topic = "quotes";
    event.reason = LLM_REASON_TIMEOUT;
    text_is(&event, "session 0000000000000abc: cached messages of topic 7 \"quotes\" and of topics after it "
                    "are lost: timeout; delivery continues with "
                    "message 5");
    event.topic = "orders";
    event.first = 3;
    event.kind = LLM_EVENT_ACKNOWLEDGED;
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of topic \"orders\" are acknowledged");
    event.kind = LLM_EVENT_UNACKNOWLEDGED;
    event.reason = LLM_REASON_RECEIVERS_FEW;
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of topic \"orders\" are not acknowledged: too "
                    "few receivers");
    event.receivers = 2;
    event.receivers_wanted = 3;
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of topic \"orders\" are not acknowledged: too "
                    "few receivers: 2 of 3");
    event.receiver = "store-*";
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of topic \"orders\" are not acknowledged: too "
                    "few receivers: store-*: 2 of 3");
    event.receivers = event.receivers_wanted = 0;
    event.reason = LLM_REASON_RECEIVER_ABSENT;
    event.receiver = "book";
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of topic \"orders\" are not acknowledged: a "
                    "receiver is absent: book");
    event.receiver = NULL;
    event.stream = 0xdef;
    event.stream_base = 1000;
    event.stream_term = 2;
    event.kind = LLM_EVENT_SESSION_NEW;
    text_is(&event,
            "session 0000000000000abc is followed from message 3, number 1003 of stream 0000000000000def "
            "in term 2");
    event.kind = LLM_EVENT_LINE_DOWN;
    event.first = 2;
    text_is(&event, "session 0000000000000abc is no longer heard on line 2");
    event.kind = LLM_EVENT_LINE_UP;
    text_is(&event, "session 0000000000000abc is heard again on line 2");
    event.first = 3;
    event.kind = LLM_EVENT_STREAM_GAP;
    event.reason = LLM_REASON_RESTARTED;
    text_is(&event, "session 0000000000000abc: messages 3 to 4 of stream 0000000000000def are missing: the "
                    "transmitter restarted");
    event.kind = LLM_EVENT_STREAM_AGAIN;
    text_is(&event,
            "session 0000000000000abc: messages 3 to 4 of stream 0000000000000def are sent again: the "
            "transmitter restarted");
    event.kind = LLM_EVENT_STREAM_REFUSED;
    event.reason = LLM_REASON_SUPERSEDED;
    text_is(&event,
            "session 0000000000000abc of stream 0000000000000def is not followed in term 2: another session "
            "continues the stream");
    event.kind = LLM_EVENT_DIVERGED;
    event.hash = 0xaa;
    event.hash_copy = 0xbb;
    text_is(&event,
            "session 0000000000000abc: message 3 of the stream has the hash 00000000000000bb, and another "
            "session delivered 00000000000000aa");
    event.kind = LLM_EVENT_CONNECTED;
    text_is(&event, "session 0000000000000abc is connected");
    event.kind = LLM_EVENT_DISCONNECTED;
    event.reason = LLM_REASON_CLOSED;
    text_is(&event, "session 0000000000000abc is disconnected: closed");
    event.reason = LLM_REASON_REFUSED;
    event.first = 403;
    text_is(&event, "not connected: refused, code 403");
    event.reason = LLM_REASON_FULL;
    event.session = 0;
    text_is(&event, "not connected: no more connections");
    event.session = 0xabc;
    event.kind = (enum llm_event_kind)99;
    event.reason = LLM_REASON_CLOSED;
    text_is(&event, "session 0000000000000abc: unknown event 99, reason 1 (closed)");
}

static void every_verdict_has_a_sentence(void **state)
{
    struct llm_verdict verdict = {.receiver = 0xdef,
                                  .threshold = LLM_THRESHOLD_LAG_PACKETS,
                                  .value = 9,
                                  .limit = 5,
                                  .receivers = 4,
                                  .suffering = 3};
    struct llm_event event = {.kind = LLM_EVENT_WARNED, .session = 0xabc, .verdict = &verdict};

    (void)state;
    text_is(&event,
            "session 0000000000000abc: receiver 0000000000000def is warned: 9 packets of lag, limit 5");
    event.kind = LLM_EVENT_UNICAST_ONLY;
    text_is(&event, "session 0000000000000abc: receiver 0000000000000def is repaired by unicast only: 9 "
                    "packets of lag, limit 5");
    event.kind = LLM_EVENT_EXPELLED;
    verdict.dry_run = true;
    text_is(&event, "session 0000000000000abc: receiver 0000000000000def is expelled (report only): 9 "
                    "packets of lag, limit 5");
    event.kind = LLM_EVENT_SUSPENDED;
    verdict.dry_run = false;
    verdict.threshold = LLM_THRESHOLD_OPERATOR;
    text_is(&event,
            "session 0000000000000abc: receiver 0000000000000def is suspended by the operator's order");
    event.kind = LLM_EVENT_READMITTED;
    verdict.threshold = LLM_THRESHOLD_NONE;
    text_is(&event, "session 0000000000000abc: receiver 0000000000000def is readmitted");
    event.kind = LLM_EVENT_WARNED;
    verdict.threshold = LLM_THRESHOLD_GROUP;
    text_is(&event, "session 0000000000000abc: receivers are warned: 3 of 4 suffer");
}

static void the_version_equals_that_of_the_header(void **state)
{
    char text[32];

    (void)state;
    snprintf(text, sizeof text, "%d.%d.%d", LLM_VERSION_MAJOR, LLM_VERSION_MINOR, LLM_VERSION_PATCH);
    assert_string_equal(llm_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_name_and_text),
        cmocka_unit_test(counts_are_success_and_other_numbers_are_unknown),
        cmocka_unit_test(every_event_and_reason_has_a_unique_name),
        cmocka_unit_test(every_event_has_a_sentence),
        cmocka_unit_test(every_verdict_has_a_sentence),
        cmocka_unit_test(the_version_equals_that_of_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
