// SPDX-License-Identifier: Apache-2.0
// The same as cost.c, by the means of C++.
#include <llm/llm.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace
{

struct seen {
    std::uint64_t messages = 0, bytes = 0;
};

void check(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "cost_cpp: %s\n", what);
        std::exit(EXIT_FAILURE);
    }
}

llm::context open_context()
{
    llm::context_options settings;
    settings.huge_pages = false;
    settings.stats_directory = "";
    return llm::context::open(settings).value();
}

} // namespace

// Callgrind counts during these two functions, which it finds by name.
extern "C" void counted_send(llm::transmitter &transmitter, llm::topic &topic, llm::bytes data, long count);
extern "C" void counted_receive(llm::context &context);

[[gnu::noinline]] void counted_send(llm::transmitter &transmitter, llm::topic &topic, llm::bytes data,
                                    long count)
{
    for (long i = 0; i < count; i++)
        check(!topic.send(data, LLM_SEND_MORE), "send");
    check(!transmitter.flush(), "flush");
}

[[gnu::noinline]] void counted_receive(llm::context &context)
{
    int delivered;

    while ((delivered = context.poll()) > 0)
        continue;
    check(delivered == 0, "poll");
}

static void measure(llm::context &far, llm::receiver receiver, const char *channel, long bursts, long count)
{
    llm::context near = open_context();
    llm::transmitter transmitter = llm::transmitter::open(near, channel).value();
    llm::topic topic = transmitter.open_topic("topic").value();
    const std::array<unsigned char, 45> data{};

    check(static_cast<bool>(receiver), "receiver");
    for (; bursts > 0; bursts--) {
        counted_send(transmitter, topic, data, count);
        counted_receive(far);
        check(near.poll() >= 0, "poll");
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return EXIT_FAILURE;
    seen seen;
    llm::context far = open_context();
    const auto one = [&seen](const llm::message &message) {
        seen.messages++;
        seen.bytes += message.bytes().size();
    };
    const auto together = [&seen](const llm::messages &messages) {
        for (const llm::message message : messages) {
            seen.messages++;
            seen.bytes += message.bytes().size();
        }
    };
    measure(far,
            argv[2] == std::string_view("one") ? llm::receiver::open(far, argv[1], one).value()
                                               : llm::receiver::open(far, argv[1], together).value(),
            argv[1], std::atol(argv[3]), std::atol(argv[4]));
    std::printf("%llu %llu\n", static_cast<unsigned long long>(seen.messages),
                static_cast<unsigned long long>(seen.bytes));
    return EXIT_SUCCESS;
}
