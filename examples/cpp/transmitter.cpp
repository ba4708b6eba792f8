// SPDX-License-Identifier: Apache-2.0
//
// Minimal transmitter: sends numbered messages on one topic.
//
//   transmitter [CHANNEL [TOPIC [COUNT [INTERVAL_MS]]]]
#include <llm/llm.hpp>

#include <charconv>
#include <cstdlib>
#include <iostream>

namespace
{

std::uint64_t number(std::string_view text)
{
    const char *const end = text.data() + text.size();
    std::uint64_t value = 0;
    if (const auto [last, error] = std::from_chars(text.data(), end, value);
        error != std::errc() || last != end)
        throw std::invalid_argument('"' + std::string(text) + "\" is not a number");
    return value;
}

// The library's log says which value was wrong.
void check(llm::error error)
{
    if (error)
        throw llm::exception(error);
}

// Processes events until the given time. Between messages a transmitter has to send repairs and heartbeats, which it does
// only inside poll() and wait(): so poll at least once, however fast messages are sent.
void work_until(llm::context &context, llm::clock::time_point then)
{
    check(llm::error(context.poll()));
    for (auto now = llm::clock::now(); now < then; now = llm::clock::now())
        check(llm::error(context.wait(then - now)));
}

// send() never blocks: if the network is slower, it returns LLM_EAGAIN, and poll() makes room.
void send_number(llm::context &context, llm::topic topic, std::uint64_t number)
{
    const std::string text = "hello, number " + std::to_string(number);
    llm::error error;
    while ((error = topic.send(text)) == LLM_EAGAIN)
        check(llm::error(context.poll()));
    check(error);
}

} // namespace

int main(int argc, char **argv)
try {
    const char *const channel = argc > 1 ? argv[1] : "udp://239.192.1.1:5001";
    const char *const name = argc > 2 ? argv[2] : "greetings";
    const std::uint64_t count = argc > 3 ? number(argv[3]) : 10;
    const std::chrono::milliseconds interval(argc > 4 ? number(argv[4]) : 500);

    llm::context_options settings;
    // Sleeps between messages; the default, LLM_WAIT_SPIN, is faster and occupies a core.
    settings.wait = LLM_WAIT_BLOCK;
    llm::context context = llm::context::open(settings).value();
    llm::transmitter transmitter = llm::transmitter::open(context, channel).value();
    const llm::topic topic = transmitter.open_topic(name).value();

    auto send_at = llm::clock::now();
    for (std::uint64_t i = 0; i < count; i++) {
        send_number(context, topic, i);
        send_at += interval;
        work_until(context, send_at);
    }

    // Waits, by default at most one second, until all known receivers have everything.
    check(llm::error(transmitter.close()));
    return EXIT_SUCCESS;
} catch (const std::exception &exception) {
    std::cerr << "transmitter: " << exception.what() << '\n';
    return EXIT_FAILURE;
}
