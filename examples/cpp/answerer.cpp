// SPDX-License-Identifier: Apache-2.0
//
// Minimal server: accepts connections of clients that know the word, and answers each request with its text reversed.
//
//   answerer [CHANNEL [WORD]]
#include <llm/llm.hpp>

#include <cstdlib>
#include <iomanip>
#include <iostream>

namespace
{

// Code of a refusal: the word is wrong.
constexpr int unknown_word = 403;

void answer(llm::connection_ref connection, const llm::request &request)
{
    const std::string_view text = request.bytes().text();
    // A client that sends faster than it reads gets no answer in time; other clients are not delayed.
    if (connection.answer(request, std::string(text.rbegin(), text.rend())) == LLM_EAGAIN)
        std::cerr << "answerer: a reply is dropped\n";
}

void print_event(llm::connection_ref connection, const llm::event &event)
{
    std::cout << std::hex << std::setfill('0') << std::setw(16) << connection.id() << ": " << event.text()
              << std::endl;
    // Each side closes its connection, also after the other side has closed.
    if (event.kind() == LLM_EVENT_DISCONNECTED)
        llm::connection(connection).close();
}

} // namespace

int main(int argc, char **argv)
try {
    const char *const channel = argc > 1 ? argv[1] : "udp://127.0.0.1:5001?interface=lo";
    const std::string_view word = argc > 2 ? argv[2] : "please";
    // Handler of every connection.
    llm::overloaded client{
        [](llm::connection_ref connection, const llm::request &request) { answer(connection, request); },
        [](llm::connection_ref connection, const llm::event &event) { print_event(connection, event); },
    };
    // Handles a connection request with its credentials.
    const auto accept = [&](llm::listener_ref, const llm::caller &caller,
                            llm_connection_handlers &handlers) -> int {
        if (caller.payload().text() != word)
            return unknown_word;
        handlers = llm::connection_handlers(&client);
        return LLM_OK;
    };

    llm::context_options settings;
    settings.wait = LLM_WAIT_BLOCK;
    llm::context context = llm::context::open(settings).value();
    const llm::listener listener = llm::listener::open(context, channel, accept).value();
    std::cout << "listening on " << channel << std::endl;
    for (;;) {
        if (const llm::error error{context.wait()})
            throw llm::exception(error);
    }
} catch (const std::exception &exception) {
    // The library's log says which value was wrong.
    std::cerr << "answerer: " << exception.what() << '\n';
    return EXIT_FAILURE;
}
