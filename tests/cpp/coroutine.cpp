// SPDX-License-Identifier: Apache-2.0
// Coroutines that await the answers to requests.
#include <llm/coroutine.hpp>

#include "check.hpp"

#include <string>

namespace
{

struct peer {
    llm::connection *to;
    void operator()(llm::connection_ref of, const llm::request &asked)
    {
        if (asked.bytes().text() != "silence")
            CHECK(!of.answer(asked, std::string(asked.bytes().text()) + "!"));
    }
    void operator()(llm::connection_ref of, const llm::event &event)
    {
        if (event.kind() == LLM_EVENT_CONNECTED)
            *to = llm::connection(of);
    }
};

std::string answers;
bool ended;

llm::task ask(llm::connection_ref connection)
{
    for (const char *word : {"one", "two", "three"}) {
        llm::result<llm::reply> reply = co_await llm::request_on(connection, word, std::chrono::seconds(60));
        CHECK(reply && *reply);
        answers += reply->bytes.text();
    }
    llm::result<llm::reply> none =
        co_await llm::request_on(connection, "silence", std::chrono::milliseconds(1));
    CHECK(none && !*none && none->reason == LLM_REASON_UNANSWERED);
    // Refused at once: there is no time to wait.
    llm::result<llm::reply> refused =
        co_await llm::request_on(connection, "never", std::chrono::nanoseconds(0));
    CHECK(!refused && refused.error() == LLM_EINVAL);
    ended = true;
}

// Throws after the answer, inside a handler.
llm::task fail(llm::connection_ref connection)
{
    (void)co_await llm::request_on(connection, "four", std::chrono::seconds(60));
    throw 4;
}

} // namespace

int main()
{
    const char *const calls =
        "loop://cpp-tasks:1?history_bytes=1M&history_packets=256&reorder_bytes=64K&message_bytes_max=64K";
    llm::context_options settings;
    settings.huge_pages = false;
    settings.log = [](void *, llm_level, const char *) {};
    llm::context context = llm::context::open(settings).value();
    llm::connection accepted;
    peer answering{&accepted};
    auto listener = llm::listener::open(
        context, calls,
        [&](llm::listener_ref, const llm::caller &, llm_connection_handlers &handlers) -> int {
            handlers = llm::connection_handlers(&answering);
            return LLM_OK;
        });
    CHECK(listener);
    auto connection =
        llm::connection::open(context, calls, [&](llm::connection_ref of, const llm::event &event) {
            if (event.kind() == LLM_EVENT_CONNECTED)
                ask(of);
        });
    CHECK(connection);
    const auto until = llm::clock::now() + std::chrono::seconds(60);
    while (!ended) {
        CHECK(llm::clock::now() < until);
        CHECK(context.poll() >= 0);
    }
    CHECK(answers == "one!two!three!");
    fail(connection->ref());
    int thrown = 0;
    while (thrown == 0) {
        CHECK(llm::clock::now() < until);
        try {
            (void)context.poll();
        } catch (int number) {
            thrown = number;
        }
    }
    CHECK(thrown == 4);
    std::printf("ok\n");
    return EXIT_SUCCESS;
}
