// SPDX-License-Identifier: Apache-2.0
//
// Minimal client: connects to an answerer, sends requests, and prints each reply and how long it took.
//
//   asker [CHANNEL [WORD [TEXT...]]]
#include <llm/llm.hpp>

#include <cstdlib>
#include <iostream>

namespace
{

constexpr std::chrono::seconds patience(1);

void check(llm::error error)
{
    if (error)
        throw llm::exception(error);
}

void ask(llm::context &context, const llm::connection &connection, const char *text)
{
    const auto asked_at = llm::clock::now();
    bool waits = true;
    // Called once: with the reply, or with the reason for its absence.
    auto print_reply = [&](const llm::reply &reply) {
        const auto after =
            std::chrono::duration_cast<std::chrono::microseconds>(llm::clock::now() - asked_at);
        waits = false;
        if (reply)
            std::cout << reply.bytes.text() << ", after " << after.count() << " us\n";
        else
            std::cout << "no reply: " << llm_reason_name(reply.reason) << '\n';
    };
    check(connection.request(text, patience, &print_reply));
    while (waits)
        check(llm::error(context.wait(patience)));
}

} // namespace

int main(int argc, char **argv)
try {
    const char *const channel = argc > 1 ? argv[1] : "udp://127.0.0.1:5001?interface=lo";
    const char *const word = argc > 2 ? argv[2] : "please";
    bool connected = false;
    bool over = false;
    const auto on_event = [&](llm::connection_ref, const llm::event &event) {
        std::cout << event.text() << '\n';
        connected |= event.kind() == LLM_EVENT_CONNECTED;
        over |= event.kind() == LLM_EVENT_DISCONNECTED;
    };

    llm::context context = llm::context::open().value();
    llm::connection connection = llm::connection::open(context, channel, on_event, word).value();
    while (!connected && !over)
        check(llm::error(context.wait(patience)));
    for (int i = 3; i < argc && !over; i++)
        ask(context, connection, argv[i]);
    check(llm::error(connection.close()));
    return connected ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception &exception) {
    // The library's log says which value was wrong.
    std::cerr << "asker: " << exception.what() << '\n';
    return EXIT_FAILURE;
}
