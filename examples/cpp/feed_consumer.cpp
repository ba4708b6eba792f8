// SPDX-License-Identifier: Apache-2.0
//
// Consumer of the feed handler (examples/feed_handler): the last quote of each symbol, and what each event means for it.
//
//   feed_consumer [CHANNEL [FILE]]
//
// Ends with the first session that ends, and writes the last quotes to FILE.
#include <llm/llm.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>

namespace
{

template <class T> T little_endian(const unsigned char *data)
{
    T value = 0;
    for (std::size_t i = sizeof value; i-- > 0;)
        value = static_cast<T>(value << 8 | data[i]);
    return value;
}

// A normalised quote; examples/feed_handler/quote.h has the format.
struct quote {
    static constexpr std::size_t size = 48;
    static constexpr unsigned stale_flag = 1;

    std::uint64_t bid_size;
    std::uint64_t ask_size;
    std::uint32_t bid_price;
    std::uint32_t ask_price;
    bool stale;
    std::uint64_t session; // that sent it

    // Nothing: the format is unknown.
    static std::optional<quote> decode(const llm::message &message)
    {
        const unsigned char *const data = message.bytes().begin();
        if (message.bytes().size() < size || little_endian<std::uint16_t>(data) != 1)
            return std::nullopt;
        return quote{little_endian<std::uint64_t>(data + 24),
                     little_endian<std::uint64_t>(data + 32),
                     little_endian<std::uint32_t>(data + 40),
                     little_endian<std::uint32_t>(data + 44),
                     (little_endian<std::uint16_t>(data + 2) & stale_flag) != 0,
                     message.session()};
    }
};

// A price in 1/10000.
struct price {
    std::uint32_t value;
};

std::ostream &operator<<(std::ostream &to, price price)
{
    return to << price.value / 10000 << '.' << std::setfill('0') << std::setw(4) << price.value % 10000;
}

std::ostream &operator<<(std::ostream &to, const quote &quote)
{
    return to << quote.bid_size << ' ' << price{quote.bid_price} << ' ' << price{quote.ask_price} << ' '
              << quote.ask_size << (quote.stale ? " stale" : "");
}

bool is_symbol(std::string_view name)
{
    return !name.empty() && name.size() <= 8 &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

class book
{
public:
    // Anyone may send on the channel: topics that are no symbols are ignored, and never reach the terminal.
    bool operator()(const llm::source &source) const
    {
        return !source.is_topic() || is_symbol(source.topic());
    }

    void operator()(const llm::message &message)
    {
        const std::optional<quote> quote = quote::decode(message);
        // A topic with an unknown name is delivered with an empty one.
        if (!quote || message.topic().empty()) {
            messages_bad_++;
            return;
        }
        std::cout << message.topic() << ' ' << *quote << std::endl;
        // A symbol that is known costs no allocation.
        if (const auto known = quotes_.find(message.topic()); known != quotes_.end())
            known->second = *quote;
        else
            quotes_.emplace(message.topic(), *quote);
    }

    void operator()(const llm::event &event)
    {
        const bool lost = event.kind() == LLM_EVENT_GAP || event.kind() == LLM_EVENT_STREAM_GAP ||
                          event.kind() == LLM_EVENT_HEARTBEAT_LOST;
        const bool end = event.kind() == LLM_EVENT_SESSION_END;
        // The last quotes of a handler that closed its session remain valid.
        if (lost || (end && event.reason() != LLM_REASON_CLOSED))
            mark_stale(event.session());
        ended_ |= end;
        std::cout << "* " << event.text() << std::endl;
    }

    bool ended() const { return ended_; }
    std::uint64_t messages_bad() const { return messages_bad_; }

    void write(std::ostream &to) const
    {
        for (const auto &[symbol, quote] : quotes_)
            to << symbol << ' ' << quote << '\n';
    }

private:
    // Until a new quote comes for each symbol.
    void mark_stale(std::uint64_t session)
    {
        for (auto &[symbol, quote] : quotes_)
            quote.stale |= quote.session == session;
    }

    std::map<std::string, quote, std::less<>> quotes_;
    bool ended_ = false;
    std::uint64_t messages_bad_ = 0;
};

} // namespace

int main(int argc, char **argv)
try {
    const char *const channel = argc > 1 ? argv[1] : "udp://239.192.1.3:5003";
    book book;

    llm::context_options settings;
    settings.wait = LLM_WAIT_BLOCK;
    llm::context context = llm::context::open(settings).value();
    const llm::receiver receiver = llm::receiver::open(context, channel, std::ref(book)).value();
    std::cout << "* listening on " << channel << std::endl;
    while (!book.ended()) {
        if (const llm::error error{context.wait()})
            throw llm::exception(error);
    }
    if (book.messages_bad() > 0)
        std::cerr << "feed_consumer: " << book.messages_bad() << " messages were no quotes of a symbol\n";
    if (argc > 2) {
        std::ofstream file(argv[2]);
        book.write(file);
        if (!file.flush())
            throw std::runtime_error(std::string(argv[2]) + " cannot be written");
    }
    return EXIT_SUCCESS;
} catch (const std::exception &exception) {
    // The library's log says which value was wrong.
    std::cerr << "feed_consumer: " << exception.what() << '\n';
    return EXIT_FAILURE;
}
