/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times at which messages sent in a handler leave: at once in reply to a message that arrived alone, else
 * after the rest of its packet.
 */
#include "unit.h"

#include <llm/llm.h>

/* Sides that send requests and replies, each with a context of its own. */
static struct llm_context *asking, *answering;
static struct llm_transmitter *questions, *answers;
static struct llm_receiver *listener, *hearer;
static struct llm_topic *question, *answer;
static unsigned flags;   /* flags of the reply's send */
static uint64_t left[8]; /* packets of replies sent when a handler returned */
static unsigned questions_came, answers_came;

static uint64_t packets_of_answers(void)
{
    uint64_t value;

    assert_int_equal(llm_context_counter(answering, "packets_data", &value), LLM_OK);
    return value;
}

static void on_question(void *arg, const struct llm_message *message)
{
    const uint64_t before = packets_of_answers();

    (void)arg;
    assert_int_equal(message->size, 1);
    assert_int_equal(llm_send(answer, message->data, message->size, flags), LLM_OK);
    left[questions_came++] = packets_of_answers() - before;
}

static void on_answer(void *arg, const struct llm_message *message)
{
    (void)arg;
    assert_int_equal(*(const uint8_t *)message->data, '0' + answers_came);
    assert_string_equal(message->topic, "answers");
    assert_int_equal(message->number, answers_came);
    answers_came++;
}

static struct llm_receiver *receiver_make(struct llm_context *context, const char *channel,
                                          void (*message)(void *, const struct llm_message *))
{
    struct llm_receiver *receiver = NULL;
    struct llm_receiver_handlers handlers;

    llm_receiver_handlers_init(&handlers);
    handlers.message = message;
    assert_int_equal(llm_receiver_open(context, channel, NULL, &handlers, &receiver), LLM_OK);
    return receiver;
}

static void poll_both(int times)
{
    for (int i = 0; i < times; i++) {
        assert_true(llm_poll(answering) >= 0);
        assert_true(llm_poll(asking) >= 0);
    }
}

static int up(void **state)
{
    (void)state;
    flags = questions_came = answers_came = 0;
    assert_int_equal(llm_context_open(NULL, &asking), LLM_OK);
    assert_int_equal(llm_context_open(NULL, &answering), LLM_OK);
    listener = receiver_make(answering, "loop://answers:1", on_question);
    hearer = receiver_make(asking, "loop://answers:2", on_answer);
    assert_int_equal(llm_transmitter_open(asking, "loop://answers:1", NULL, NULL, &questions), LLM_OK);
    assert_int_equal(llm_transmitter_open(answering, "loop://answers:2", NULL, NULL, &answers), LLM_OK);
    assert_int_equal(llm_topic_open(questions, "questions", 0, &question), LLM_OK);
    assert_int_equal(llm_topic_open(answers, "answers", 0, &answer), LLM_OK);
    /* Announces sessions and topics. */
    poll_both(1000);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&asking), LLM_OK);
    assert_int_equal(llm_context_close(&answering), LLM_OK);
    return 0;
}

enum { ROUNDS = 64 };

static void ask_number(unsigned number)
{
    const char text = (char)('0' + number);

    assert_int_equal(llm_send(question, &text, 1, LLM_SEND_NOW), LLM_OK);
}

/* The first request may come with the announcement of its topic: only the second is measured. */
static void ask(unsigned count, unsigned more)
{
    for (unsigned i = 0; i < count; i++) {
        const char text = (char)('0' + questions_came + i);

        assert_int_equal(llm_send(question, &text, 1, i + 1 < count ? more : LLM_SEND_NOW), LLM_OK);
    }
}

/*
 * After an interruption of the thread, a heartbeat may arrive with the request, or the transport may be busy:
 * then the reply may leave later.
 */
static void a_reply_to_a_single_message_leaves_at_once(void **state)
{
    unsigned at_once = 0, asked = 0;

    (void)state;
    for (; at_once < 2 && asked < ROUNDS; asked++) {
        questions_came = 0;
        ask_number(asked);
        assert_int_equal(llm_poll(answering), 1);
        assert_int_equal(questions_came, 1);
        at_once += left[0] == 1 && asked > 0;
        /* The transport counts as busy for as long as a flush took. */
        for (uint64_t until = llm_clock() + 1000000; llm_clock() < until;)
            poll_both(1);
    }
    assert_int_equal(at_once, 2);
    assert_int_equal(answers_came, asked);
}

static void replies_to_one_packet_share_one_packet(void **state)
{
    uint64_t before;

    (void)state;
    ask(1, 0);
    poll_both(1000);
    before = packets_of_answers();
    ask(4, LLM_SEND_MORE);
    assert_true(llm_poll(answering) >= 4);
    assert_int_equal(questions_came, 5);
    for (int i = 1; i < 5; i++)
        assert_int_equal(left[i], 0);
    poll_both(1000);
    assert_int_equal(packets_of_answers() - before, 1);
    assert_int_equal(answers_came, 5);
}

static void a_reply_with_send_more_does_not_leave_at_once(void **state)
{
    (void)state;
    flags = LLM_SEND_MORE;
    ask(1, 0);
    assert_int_equal(llm_poll(answering), 1);
    assert_int_equal(left[0], 0);
    poll_both(1000);
    assert_int_equal(answers_came, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_reply_to_a_single_message_leaves_at_once, up, down),
        cmocka_unit_test_setup_teardown(replies_to_one_packet_share_one_packet, up, down),
        cmocka_unit_test_setup_teardown(a_reply_with_send_more_does_not_leave_at_once, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
