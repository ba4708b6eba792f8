// SPDX-License-Identifier: Apache-2.0
//
// Minimal receiver: prints the messages of a topic, and the events of the sessions that send them.
//
//   receiver [CHANNEL [TOPIC [COUNT]]]
//
// TOPIC "" (the default) selects every topic. Ends after COUNT messages, or with ctrl-C.
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

} // namespace

int main(int argc, char **argv)
try {
    const char *const channel = argc > 1 ? argv[1] : "udp://239.192.1.1:5001";
    const std::string_view topic = argc > 2 ? argv[2] : "";
    std::uint64_t left = argc > 3 ? number(argv[3]) : UINT64_MAX; // messages still to print

    llm::context_options settings;
    // Sleeps until a packet arrives; the default, LLM_WAIT_SPIN, is faster and occupies a core.
    settings.wait = LLM_WAIT_BLOCK;
    llm::context context = llm::context::open(settings).value();

    const auto accept = [=](const llm::source &source) {
        // Called once for each session, without a topic, and once for each of its topics.
        return topic.empty() || !source.is_topic() || source.topic() == topic;
    };
    const auto print_message = [&](const llm::message &message) {
        // A single wait() may deliver more messages than COUNT.
        if (left == 0)
            return;
        left--;
        std::cout << message.topic() << ' ' << message.number() << ": " << message.text() << std::endl;
    };
    const auto print_event = [](const llm::event &event) {
        std::cout << "* ";
        // Loss is never silent.
        if (event.kind() == LLM_EVENT_GAP)
            std::cout << event.last() + 1 - event.first() << " messages lost: ";
        std::cout << event.text() << std::endl;
    };
    const llm::receiver receiver =
        llm::receiver::open(context, channel, llm::overloaded{accept, print_message, print_event}).value();
    std::cout << "* listening on " << channel << std::endl;

    // The handlers run inside wait().
    while (left > 0) {
        if (const llm::error error{context.wait()})
            throw llm::exception(error);
    }
    return EXIT_SUCCESS;
} catch (const std::exception &exception) {
    // The library's log says which value was wrong.
    std::cerr << "receiver: " << exception.what() << '\n';
    return EXIT_FAILURE;
}
