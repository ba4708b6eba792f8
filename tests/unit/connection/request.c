/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and replies over a connection. */
#include "calls.h"

static struct {
    int replies, unanswered, over;
    uint64_t next; /* number expected in the next reply */
    int asked;
    bool silent; /* no reply is given */
    uint64_t ids[LLM_REQUESTS_MAX + 1];
    enum llm_reason reason;
    int deep; /* requests to send in the reply function */
    struct {
        uint64_t id, number;
    } owed[LLM_REQUESTS_MAX]; /* delayed replies, in a ring; those refused by back-pressure are sent later */
    int replied;
} talk;

/* Sends delayed replies until one is refused. */
static void settle(struct llm_connection *connection)
{
    for (; talk.replied < talk.asked; talk.replied++) {
        const int i = talk.replied % LLM_REQUESTS_MAX;
        const int error = llm_connection_reply(connection, talk.owed[i].id, &talk.owed[i].number,
                                               sizeof talk.owed[i].number);

        if (error == LLM_EAGAIN)
            return;
        assert_int_equal(error, LLM_OK);
    }
}

/* As on_message(), but requests also have message numbers. */
static void on_message_beside(void *arg, struct llm_connection *connection, const struct llm_message *message)
{
    struct side *side = arg;

    assert_ptr_equal(connection, side->connection);
    assert_string_equal(message->topic, "t");
    assert_int_equal(message->size, message_size(side->received));
    side->received++;
}

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    uint64_t number;

    if (reason == LLM_REASON_NONE) {
        assert_int_equal(size, sizeof number);
        memcpy(&number, data, sizeof number);
        assert_int_equal(number, talk.next + 1000);
        talk.next++;
        talk.replies++;
        if (talk.deep > 0) {
            talk.deep--;
            assert_int_equal(llm_connection_request(sides[CONNECTS].connection, &talk.next, sizeof talk.next,
                                                    UINT64_MAX, on_reply, arg),
                             LLM_OK);
        }
        return;
    }
    assert_int_equal(size, 0);
    talk.unanswered += reason == LLM_REASON_UNANSWERED;
    talk.over += reason != LLM_REASON_UNANSWERED;
    talk.reason = reason;
}

/* Replies with the number plus one thousand. */
static void on_asked(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    uint64_t number;

    (void)arg;
    assert_int_equal(asked->size, sizeof number);
    memcpy(&number, asked->data, sizeof number);
    number += 1000;
    talk.ids[talk.asked % LLM_REQUESTS_MAX] = talk.owed[talk.asked % LLM_REQUESTS_MAX].id = asked->id;
    talk.owed[talk.asked++ % LLM_REQUESTS_MAX].number = number;
    if (!talk.silent)
        settle(connection);
}

static int on_request_to_talk(void *arg, struct llm_listener *from, const struct llm_caller *caller,
                              struct llm_connection_handlers *handlers)
{
    (void)from;
    (void)caller;
    *handlers = handlers_of(arg);
    handlers->message = on_message_beside;
    handlers->request = on_asked;
    return LLM_OK;
}

static void talk_over(const char *channel)
{
    struct llm_listener_handlers handlers;

    memset(&talk, 0, sizeof talk);
    llm_listener_handlers_init(&handlers);
    handlers.arg = &sides[LISTENS];
    handlers.connect = on_request_to_talk;
    assert_int_equal(llm_listener_open(sides[LISTENS].context, channel, NULL, &handlers, &listener), LLM_OK);
    connect_to(channel);
    assert_int_equal(llm_connection_request(sides[CONNECTS].connection, "", 0, 1, on_reply, NULL),
                     LLM_ESTATE);
    POLL_UNTIL(sides[LISTENS].connected && sides[CONNECTS].connected);
}

static int ask(uint64_t number, uint64_t timeout_ns)
{
    return llm_connection_request(sides[CONNECTS].connection, &number, sizeof number, timeout_ns, on_reply,
                                  NULL);
}

static void requests_are_replied_to_among_messages(void **state)
{
    uint64_t asked = 0, sent = 0;

    (void)state;
    talk_over("impair+loop://calls:3?impair_loss_ppm=30000&" SMALL);
    for (const uint64_t until = llm_clock() + 2 * WAIT_NS; talk.replies < 5000 && llm_clock() < until;
         poll_all()) {
        asked += asked < 5000 && ask(asked, UINT64_MAX) == LLM_OK;
        sent += sent < asked / 7 && send_one(&sides[CONNECTS], sent) == LLM_OK;
        settle(sides[LISTENS].connection);
    }
    POLL_UNTIL(sides[LISTENS].received == sent);
    assert_true(sent > 100);
    assert_int_equal(talk.replies, 5000);
    assert_int_equal(talk.asked, 5000);
    talk.deep = 100;
    assert_int_equal(ask(talk.next, UINT64_MAX), LLM_OK);
    POLL_UNTIL(talk.replies == 5101);
    assert_int_equal(talk.unanswered + talk.over, 0);
    /* The application does not see the topics of requests. */
    assert_int_equal(sides[CONNECTS].others + sides[LISTENS].others, 2);
}

static void an_unanswered_request_is_reported_once_and_in_time(void **state)
{
    const uint64_t begin = llm_clock();
    uint64_t late = 1000;

    (void)state;
    talk_over(LOOP);
    talk.silent = true;
    assert_int_equal(ask(0, 50000000), LLM_OK);
    assert_int_equal(ask(1, 100000000), LLM_OK);
    POLL_UNTIL(talk.unanswered == 1);
    assert_true(llm_clock() - begin >= 50000000);
    POLL_UNTIL(talk.unanswered == 2);
    assert_true(llm_clock() - begin >= 100000000);
    assert_int_equal(talk.asked, 2);
    assert_int_equal(llm_connection_reply(sides[LISTENS].connection, talk.ids[0], &late, sizeof late),
                     LLM_OK);
    assert_int_equal(llm_connection_reply(sides[LISTENS].connection, 12345, &late, sizeof late), LLM_OK);
    talk.silent = false;
    assert_int_equal(ask(0, UINT64_MAX), LLM_OK);
    POLL_UNTIL(talk.replies == 1);
    assert_int_equal(talk.unanswered + talk.over, 2);
}

static void waiting_requests_are_bounded(void **state)
{
    (void)state;
    talk_over(LOOP);
    talk.silent = true;
    for (int i = 0; i < LLM_REQUESTS_MAX; i++)
        while (ask((uint64_t)i, UINT64_MAX) == LLM_EAGAIN)
            poll_all();
    assert_int_equal(ask(0, UINT64_MAX), LLM_EAGAIN);
    POLL_UNTIL(talk.asked == LLM_REQUESTS_MAX);
    /* The end is reported to them: of this side, or of the other. */
    close_beside(&sides[LISTENS].connection, &sides[CONNECTS]);
    POLL_UNTIL(sides[CONNECTS].disconnected);
    assert_int_equal(talk.over, LLM_REQUESTS_MAX);
    assert_int_equal(talk.reason, LLM_REASON_CLOSED);
    assert_int_equal(ask(0, UINT64_MAX), LLM_ESTATE);
}

static void a_waiting_request_is_reported_when_its_own_side_closes(void **state)
{
    (void)state;
    talk_over(LOOP);
    talk.silent = true;
    assert_int_equal(ask(0, UINT64_MAX), LLM_OK);
    POLL_UNTIL(talk.asked == 1);
    close_beside(&sides[CONNECTS].connection, &sides[LISTENS]);
    assert_int_equal(talk.over, 1);
    assert_int_equal(talk.reason, LLM_REASON_CLOSED);
}

static void invalid_requests_are_refused(void **state)
{
    static uint8_t bytes[65536];

    (void)state;
    talk_over(LOOP);
    assert_int_equal(llm_connection_request(NULL, "", 0, 1, on_reply, NULL), LLM_EINVAL);
    assert_int_equal(llm_connection_request(sides[CONNECTS].connection, NULL, 1, 1, on_reply, NULL),
                     LLM_EINVAL);
    assert_int_equal(llm_connection_request(sides[CONNECTS].connection, "", 0, 0, on_reply, NULL),
                     LLM_EINVAL);
    assert_int_equal(llm_connection_request(sides[CONNECTS].connection, "", 0, 1, NULL, NULL), LLM_EINVAL);
    assert_int_equal(
        llm_connection_request(sides[CONNECTS].connection, bytes, sizeof bytes - 7, 1, on_reply, NULL),
        LLM_EMSGSIZE);
    assert_int_equal(llm_connection_reply(NULL, 1, "", 0), LLM_EINVAL);
    assert_int_equal(llm_connection_reply(sides[CONNECTS].connection, 1, NULL, 1), LLM_EINVAL);
    assert_int_equal(talk.unanswered + talk.over + talk.replies, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_are_replied_to_among_messages),
        TEST(an_unanswered_request_is_reported_once_and_in_time),
        TEST(waiting_requests_are_bounded),
        TEST(a_waiting_request_is_reported_when_its_own_side_closes),
        TEST(invalid_requests_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
