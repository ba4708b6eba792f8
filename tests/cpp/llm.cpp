// SPDX-License-Identifier: Apache-2.0
// The C++ header over the loop transport: owners, handlers, results, and that nothing is allocated between open and close.
#include <llm/llm.hpp>

#include "check.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned long allocations;

// Not inlined: compilers would take free() for the counterpart of another function.
[[gnu::noinline]] void *operator new(std::size_t size)
{
    allocations++;
    void *memory = std::malloc(size);
    if (memory == nullptr)
        std::abort();
    return memory;
}

[[gnu::noinline]] void operator delete(void *memory) noexcept
{
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace
{

const char *const channel = "loop://"
                            "cpp:1?mtu=1500&linger_ns=100000000&history_bytes=1M&history_packets=256&reorder_"
                            "bytes=64K&sessions_max=4&"
                            "message_bytes_max=64K&topics_max=8&window_packets=64&rcvbuf_bytes=4M";

llm::context open_context()
{
    llm::context_options settings;
    settings.huge_pages = false;
    settings.log = [](void *, llm_level, const char *) {};
    auto context = llm::context::open(settings);
    CHECK(context);
    return std::move(*context);
}

template <class Condition> void poll_until(llm::context &context, Condition condition)
{
    const auto until = llm::clock::now() + std::chrono::seconds(60);
    while (!condition()) {
        CHECK(llm::clock::now() < until);
        CHECK(context.poll() >= 0);
    }
}

struct quote {
    double price;
    std::uint64_t size;
};

void messages_and_events_arrive()
{
    llm::context context = open_context();
    std::vector<std::string> texts;
    std::map<llm_event_kind, int> events;
    double prices = 0;
    auto receiver = llm::receiver::open(
        context, channel,
        llm::overloaded{
            [&](const llm::message &message) {
                quote read{};
                CHECK(message.bytes().size() == message.text().size());
                if (message.topic() == "quotes") {
                    CHECK(message.read(read));
                    prices += read.price;
                } else {
                    char other;
                    CHECK(!message.read(other));
                    texts.emplace_back(message.text());
                }
            },
            [&](const llm::event &event) {
                events[event.kind()]++;
                CHECK(!event.text().empty());
            },
            [&](const llm::source &source) { return !source.is_topic() || source.topic() != "unwanted"; },
        });
    CHECK(receiver);
    int transmitter_events = 0;
    auto transmitter =
        llm::transmitter::open(context, channel, [&](const llm::event &) { transmitter_events++; });
    CHECK(transmitter);
    llm::topic quotes = *transmitter->open_topic("quotes"), news = *transmitter->open_topic("news");
    llm::topic unwanted = *transmitter->open_topic("unwanted");
    CHECK(quotes && news && unwanted);

    CHECK(!quotes.send(llm::bytes_of(quote{1.5, 100})));
    CHECK(!news.send("up"));
    CHECK(!news.send(std::string("down")));
    const std::vector<char> flat = {'f', 'l', 'a', 't'};
    CHECK(!news.send(flat));
    CHECK(!unwanted.send("x"));
    if (auto room = quotes.claim(sizeof(quote)); room) {
        const quote in_place{2.5, 1};
        std::memcpy(room->data(), &in_place, sizeof in_place);
        CHECK(!room->commit());
    } else {
        CHECK(room.error() == LLM_EAGAIN);
        CHECK(!quotes.send(llm::bytes_of(quote{2.5, 1})));
    }
    // A claim that cannot be committed is given back.
    if (auto room = quotes.claim(sizeof(quote)); room)
        CHECK(room->commit(sizeof(quote) + 1) == LLM_EINVAL);
    CHECK(!news.send("last"));
    poll_until(context, [&] { return texts.size() == 4 && prices == 4.0; });
    CHECK(texts[0] == "up" && texts[1] == "down" && texts[2] == "flat");
    CHECK(events[LLM_EVENT_SESSION_NEW] == 1);
    CHECK(transmitter->next() == 7);
    CHECK(*context.counter("messages_delivered") == 6);
    CHECK(context.counter("no such counter").error() == LLM_ENOTFOUND);
    CHECK(transmitter->close() == 0);
}

void messages_that_arrive_together_come_together_without_allocation()
{
    llm::context context = open_context();
    std::uint64_t count = 0, next = 0;
    auto opened = llm::receiver::open(context, channel, [&](const llm::messages &messages) {
        for (const llm::message message : messages)
            CHECK(message.number() == next++);
        CHECK(messages[messages.size() - 1].number() == next - 1);
        count += messages.size();
    });
    // The handler does not move with its owner.
    llm::receiver receiver = std::move(*opened);
    llm::receiver moved;
    moved = std::move(receiver);
    CHECK(!receiver && moved);
    auto transmitter = llm::transmitter::open(context, channel);
    llm::topic topic = *transmitter->open_topic("t");
    CHECK(!topic.send("first"));
    poll_until(context, [&] { return count == 1; });
    const unsigned long before = allocations;
    for (int i = 0; i < 1000; i++) {
        const llm::error error = topic.send(llm::bytes_of(i));
        CHECK(!error || error == LLM_EAGAIN);
        CHECK(context.poll() >= 0);
    }
    poll_until(context, [&] { return count == transmitter->next(); });
    CHECK(allocations == before);
}

void errors_are_values_and_exceptions_where_something_opens()
{
    llm::context context = open_context();
    auto nowhere = llm::transmitter::open(context, "nothing://a:1");
    CHECK(!nowhere && nowhere.error() == LLM_ESCHEME);
    CHECK(std::strcmp(nowhere.error().name(), "LLM_ESCHEME") == 0);
    CHECK(!llm::error(LLM_OK) && !llm::error(5) && llm::error(LLM_EAGAIN));
    llm::topic none;
    CHECK(!none && none.send("x") == LLM_EINVAL);
#if defined(__cpp_exceptions)
    bool caught = false;
    try {
        (void)std::move(nowhere).value();
    } catch (const llm::exception &exception) {
        caught = exception.error() == LLM_ESCHEME && std::strstr(exception.what(), "LLM_ESCHEME") != nullptr;
    }
    CHECK(caught);
#endif
}

#if defined(__cpp_exceptions)
// Polls until the condition holds and nothing more comes out; returns the numbers that were thrown, in order.
template <class Condition> std::vector<int> poll_thrown(llm::context &context, Condition condition)
{
    const auto until = llm::clock::now() + std::chrono::seconds(60);
    std::vector<int> thrown;
    for (bool came = true; came || !condition();) {
        CHECK(llm::clock::now() < until);
        came = false;
        try {
            CHECK(context.poll() >= 0);
        } catch (int number) {
            thrown.push_back(number);
            came = true;
        }
    }
    return thrown;
}

void exceptions_come_out_of_poll_and_nothing_is_lost()
{
    llm::context context = open_context();
    int messages = 0, accepted = 0;
    auto receiver = llm::receiver::open(context, channel,
                                        llm::overloaded{
                                            [&](const llm::message &) {
                                                if (++messages % 3 == 0)
                                                    throw messages;
                                            },
                                            [&](const llm::event &event) {
                                                if (event.kind() == LLM_EVENT_SESSION_NEW)
                                                    throw 1000;
                                            },
                                            [&](const llm::source &) -> bool {
                                                accepted++;
                                                throw 2000;
                                            },
                                        });
    auto transmitter = llm::transmitter::open(context, channel);
    CHECK(receiver && transmitter);
    llm::topic topic = *transmitter->open_topic("t");
    for (int i = 0; i < 30; i++)
        CHECK(!topic.send("x", LLM_SEND_MORE));
    std::vector<int> thrown = poll_thrown(context, [&] { return messages == 30; });
    CHECK(std::count(thrown.begin(), thrown.end(), 1000) == 1);
    CHECK(std::count(thrown.begin(), thrown.end(), 2000) == accepted && accepted > 0);
    thrown.erase(std::remove_if(thrown.begin(), thrown.end(), [](int number) { return number >= 1000; }),
                 thrown.end());
    CHECK((thrown == std::vector<int>{3, 6, 9, 12, 15, 18, 21, 24, 27, 30}));

    // From a handler that another call runs: it comes out of the next poll.
    for (int i = 0; i < 3; i++)
        CHECK(!topic.send("x", LLM_SEND_MORE));
    CHECK(transmitter->close() == 0);
    CHECK((poll_thrown(context, [&] { return messages == 33; }) == std::vector<int>{33}));
}

// No call is there that the exception could come out of.
void a_handler_that_throws_on_the_thread_of_a_context_ends_the_program()
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (std::freopen("/dev/null", "w", stderr) == nullptr)
            _exit(1);
        llm::context context = open_context();
        auto receiver = llm::receiver::open(context, channel, [](const llm::message &) { throw 1; });
        auto transmitter = llm::transmitter::open(context, channel);
        if (!receiver || !transmitter || transmitter->open_topic("t")->send("x") || context.start_thread())
            _exit(2);
        sleep(60);
        _exit(3);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

void a_caller_whose_handler_throws_is_refused()
{
    llm::context context = open_context();
    const char *const calls = "loop://cpp-throws:1?history_bytes=1M&history_packets=256&reorder_bytes=64K";
    std::uint64_t code = 0;
    auto listener = llm::listener::open(
        context, calls,
        [](llm::listener_ref, const llm::caller &, llm_connection_handlers &) -> int { throw 7; });
    auto connection =
        llm::connection::open(context, calls, [&](llm::connection_ref, const llm::event &event) {
            if (event.kind() == LLM_EVENT_DISCONNECTED && event.reason() == LLM_REASON_REFUSED)
                code = event.first();
        });
    CHECK(listener && connection);
    const std::vector<int> thrown = poll_thrown(context, [&] { return code != 0; });
    CHECK(code == 65535 && !thrown.empty() && thrown[0] == 7);
}
#endif

// Answers requests, and refuses callers without the word.
struct server {
    struct peer {
        void operator()(llm::connection_ref of, const llm::request &asked)
        {
            CHECK(!of.answer(asked, std::string(asked.bytes().text()) + "!"));
        }
        void operator()(llm::connection_ref of, const llm::event &event)
        {
            if (event.kind() == LLM_EVENT_CONNECTED)
                *to = llm::connection(of);
        }
        llm::connection *to;
    };
    peer answers;
    int operator()(llm::listener_ref, const llm::caller &caller, llm_connection_handlers &handlers)
    {
        if (caller.payload().text() != "word")
            return 7;
        handlers = llm::connection_handlers(&answers);
        return LLM_OK;
    }
};

void requests_are_answered()
{
    llm::context context = open_context();
    llm::connection accepted;
    const char *const calls =
        "loop://cpp-calls:1?history_bytes=1M&history_packets=256&reorder_bytes=64K&message_bytes_max=64K";
    auto listener = llm::listener::open(context, calls, server{{&accepted}});
    CHECK(listener);
    bool connected = false, refused = false;
    const auto client = [&](llm::connection_ref, const llm::event &event) {
        connected |= event.kind() == LLM_EVENT_CONNECTED;
        refused |= event.kind() == LLM_EVENT_DISCONNECTED && event.reason() == LLM_REASON_REFUSED;
    };
    auto connection = llm::connection::open(context, calls, client, "word");
    CHECK(connection);
    auto stranger = llm::connection::open(context, calls, client, "guess");
    CHECK(stranger);
    poll_until(context, [&] { return connected && refused && accepted; });
    std::string answer;
    const auto take = [&](const llm::reply &reply) {
        CHECK(reply);
        answer = reply.bytes.text();
    };
    CHECK(!connection->request("hello", std::chrono::seconds(60), &take));
    poll_until(context, [&] { return !answer.empty(); });
    CHECK(answer == "hello!");
}

void remove_directory(const std::string &path)
{
    DIR *folder = opendir(path.c_str());
    CHECK(folder != nullptr);
    while (const dirent *entry = readdir(folder)) {
        const std::string name = entry->d_name, inside = path + "/" + name;
        if (name != "." && name != ".." && unlink(inside.c_str()) != 0)
            remove_directory(inside);
    }
    closedir(folder);
    CHECK(rmdir(path.c_str()) == 0);
}

void what_a_store_records_is_replayed()
{
    char directory[] = "/tmp/llm-cpp-XXXXXX";
    CHECK(mkdtemp(directory) != nullptr);
    std::uint64_t acknowledged = 0;
    {
        llm::context context = open_context();
        llm::store_options settings;
        settings.directory = directory;
        settings.segment_bytes = 16 << 20;
        settings.spares = 0;
        settings.reserve_bytes = 0;
        auto store = llm::store::open(context, settings, [](const llm::event &) {});
        CHECK(store);
        llm::options follow;
        std::strcpy(follow.receiver_name, "a");
        CHECK(!store->follow(channel, follow));
        auto transmitter = llm::transmitter::open(context, channel, [&](const llm::event &event) {
            if (event.kind() == LLM_EVENT_ACKNOWLEDGED)
                acknowledged = event.last() + 1;
        });
        llm::topic topic = *transmitter->open_topic("orders");
        llm::assurance assurance;
        assurance.receivers = 0;
        assurance.names = "a";
        CHECK(!topic.assure(assurance));
        for (int i = 0; i < 100; i++)
            CHECK(!topic.send(llm::bytes_of(i)));
        poll_until(context, [&] { return acknowledged == 100; });
    }
    int next = 0;
    auto replay = llm::replay::open(directory, [&](const llm::message &message) {
        int number = -1;
        CHECK(message.read(number) && number == next);
        next++;
    });
    CHECK(replay);
    int delivered;
    while ((delivered = replay->next()) > 0)
        continue;
    CHECK(delivered == 0 && next == 100);
    replay->close();
    remove_directory(directory);
}

} // namespace

int main()
{
    messages_and_events_arrive();
    messages_that_arrive_together_come_together_without_allocation();
    errors_are_values_and_exceptions_where_something_opens();
    requests_are_answered();
#if defined(__cpp_exceptions)
    exceptions_come_out_of_poll_and_nothing_is_lost();
    a_handler_that_throws_on_the_thread_of_a_context_ends_the_program();
    a_caller_whose_handler_throws_is_refused();
#endif
    what_a_store_records_is_replayed();
    std::printf("ok\n");
    return EXIT_SUCCESS;
}
