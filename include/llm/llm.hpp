// SPDX-License-Identifier: Apache-2.0
//
// libllm in C++17: owners, handlers and results over <llm/llm.h>, in this header alone.
//
//   llm::context context = llm::context::open().value();
//   llm::receiver receiver = llm::receiver::open(context, "udp://239.192.1.1:5001", llm::overloaded{
//       [](const llm::message &message) { std::cout << message.topic() << ": " << message.text() << '\n'; },
//       [](const llm::event &event) { std::cout << event.text() << '\n'; },
//   }).value();
//   for (;;)
//       (void)context.wait();
//
// Units, threads, ownership and errors are those of the C calls of the same names, which are documented in their headers and
// man pages. In addition:
//   Owners      context, transmitter, receiver, connection, listener, store and replay move and do not copy. Their destructors
//               close; close() does too and returns what the C call does. A context is destroyed after what was opened in it,
//               or else what was opened in it must not be used or destroyed later: llm_context_close() closes it as well.
//   Handlers    any callable, or several in an llm::overloaded: what it can be called with decides which handlers are set. It
//               is moved into memory that is allocated when the object opens; calls go to it directly, without a virtual call
//               or an allocation. What it throws comes out of the poll(), wait() or replay::next() that called it, after
//               everything else was delivered; if several threw, or one in another call, out of the next ones, one each.
//               A handler that throws on the thread of start_thread() ends the program.
//   Errors      calls that return an object or a value return a result, which has it or the error; value() throws
//               llm::exception on error. All others return an error or a count; they throw nothing of their own. Without exceptions (-fno-exceptions) there
//               is no value(): test the result and use *result.
//   Views       messages, events, requests and what they return are valid until the handler returns.
//
// llm/coroutine.hpp adds requests that a coroutine of C++20 awaits.
#ifndef LLM_LLM_HPP
#define LLM_LLM_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#if defined(__cpp_exceptions)
#include <exception>
#include <stdexcept>
#endif

#include <llm/llm.h>

namespace llm
{

// ------------------------------------------------------------------------------------------------------------------ errors

// An LLM_E... code, or LLM_OK. True: it is an error.
class [[nodiscard]] error
{
public:
    constexpr error() noexcept = default;
    // A count, as many calls return, is no error.
    constexpr explicit error(int code) noexcept : code_(code < 0 ? code : LLM_OK) {}

    constexpr explicit operator bool() const noexcept { return code_ != LLM_OK; }
    constexpr int code() const noexcept { return code_; }
    const char *name() const noexcept { return llm_error_name(code_); }
    const char *text() const noexcept { return llm_error_text(code_); }

    friend constexpr bool operator==(error left, error right) noexcept { return left.code_ == right.code_; }
    friend constexpr bool operator!=(error left, error right) noexcept { return left.code_ != right.code_; }
    friend constexpr bool operator==(error left, int right) noexcept { return left.code_ == right; }
    friend constexpr bool operator!=(error left, int right) noexcept { return left.code_ != right; }

private:
    int code_ = LLM_OK;
};

#if defined(__cpp_exceptions)
// Thrown by result::value(). The log of the context names the wrong value and the remedy.
class exception : public std::runtime_error
{
public:
    explicit exception(llm::error error)
        : std::runtime_error(std::string("libllm: ") + error.text() + " (" + error.name() + ")"),
          error_(error)
    {
    }
    llm::error error() const noexcept { return error_; }

private:
    llm::error error_;
};
#endif

// A value, or the error for which there is none. T is default-constructible.
template <class T> class [[nodiscard]] result
{
public:
    result(T &&value) noexcept : value_(std::move(value)) {}
    result(llm::error error) noexcept : error_(error) {}

    explicit operator bool() const noexcept { return !error_; }
    llm::error error() const noexcept { return error_; }

    // Valid only without an error.
    T &operator*() &noexcept { return value_; }
    T &&operator*() &&noexcept { return std::move(value_); }
    T *operator->() noexcept { return &value_; }

#if defined(__cpp_exceptions)
    T value() &&
    {
        if (error_)
            throw exception(error_);
        return std::move(value_);
    }
    T &value() &
    {
        if (error_)
            throw exception(error_);
        return value_;
    }
#endif

private:
    T value_{};
    llm::error error_;
};

// -------------------------------------------------------------------------------------------------------------------- views

// Bytes of somebody else. Converts from containers of contiguous elements, and to std::string_view.
class bytes
{
public:
    constexpr bytes() noexcept = default;
    constexpr bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    bytes(std::string_view text) noexcept : data_(text.data()), size_(text.size()) {}
    bytes(const char *text) noexcept : bytes(std::string_view(text)) {}
    bytes(const std::string &text) noexcept : bytes(std::string_view(text)) {}
    template <
        class C, class E = std::remove_pointer_t<decltype(std::data(std::declval<const C &>()))>,
        class = std::enable_if_t<std::is_trivially_copyable_v<E> &&
                                 !std::is_convertible_v<const C &, std::string_view> && !std::is_array_v<C>>>
    bytes(const C &elements) noexcept : data_(std::data(elements)), size_(std::size(elements) * sizeof(E))
    {
    }

    constexpr const void *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    const unsigned char *begin() const noexcept { return static_cast<const unsigned char *>(data_); }
    const unsigned char *end() const noexcept { return begin() + size_; }
    std::string_view text() const noexcept { return {static_cast<const char *>(data_), size_}; }

private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
};

// The bytes of one object, such as a message of fixed layout.
template <class T> bytes bytes_of(const T &object) noexcept
{
    static_assert(std::is_trivially_copyable_v<T>, "its bytes are not its value");
    static_assert(!std::is_pointer_v<T>, "these would be the bytes of the pointer");
    return {&object, sizeof object};
}

// -------------------------------------------------------------------------------------------------------------------- times

// The clock of all points in time, CLOCK_MONOTONIC.
struct clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;
    static time_point now() noexcept { return time_point(duration(static_cast<rep>(llm_clock()))); }
};

using duration = std::chrono::nanoseconds;
using realtime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

// Longer than any wait.
inline constexpr duration forever = duration::max();

namespace detail
{

inline std::uint64_t ns(duration time) noexcept
{
    return time == forever ? UINT64_MAX : time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

// A structure of the C API that begins with its defaults.
template <class T, void (*init)(T *)> struct initialised : T {
    initialised() noexcept : T() { init(this); }
};

} // namespace detail

using context_options = detail::initialised<llm_context_options, llm_context_options_init>;
using options = detail::initialised<llm_options, llm_options_init>;
using connection_options = detail::initialised<llm_options, llm_connection_options_init>;
using assurance = detail::initialised<llm_assurance, llm_assurance_init>;
using cache = detail::initialised<llm_cache, llm_cache_init>;
using rate = detail::initialised<llm_rate, llm_rate_init>;
using filter = detail::initialised<llm_filter, llm_filter_init>;
using attributes = detail::initialised<llm_attributes, llm_attributes_init>;
using store_options = detail::initialised<llm_store_options, llm_store_options_init>;
using replay_options = detail::initialised<llm_replay_options, llm_replay_options_init>;

// ------------------------------------------------------------------------------------------------------- messages and events

class message
{
public:
    explicit message(const llm_message &raw) noexcept : raw_(&raw) {}

    llm::bytes bytes() const noexcept { return {raw_->data, raw_->size}; }
    std::string_view text() const noexcept { return bytes().text(); }
    // Copies the bytes into *object. False: the message has another size.
    template <class T> bool read(T &object) const noexcept
    {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are not its value");
        if (raw_->size != sizeof object)
            return false;
        std::char_traits<char>::copy(reinterpret_cast<char *>(&object), static_cast<const char *>(raw_->data),
                                     sizeof object);
        return true;
    }
    std::string_view topic() const noexcept { return raw_->topic; }
    std::uint32_t topic_id() const noexcept { return raw_->topic_id; }
    std::uint64_t number() const noexcept { return raw_->number; }
    std::uint64_t session() const noexcept { return raw_->session; }
    // Of the packet that completed it, by the kernel; the epoch without timestamps=1.
    realtime received_at() const noexcept
    {
        return realtime(duration(static_cast<duration::rep>(raw_->received_at)));
    }
    const llm_message &raw() const noexcept { return *raw_; }

private:
    const llm_message *raw_;
};

// Messages that arrived together.
class messages
{
public:
    class iterator
    {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = message;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = message;

        explicit iterator(const llm_message *at) noexcept : at_(at) {}
        message operator*() const noexcept { return message(*at_); }
        iterator &operator++() noexcept
        {
            ++at_;
            return *this;
        }
        iterator operator++(int) noexcept { return iterator(at_++); }
        friend bool operator==(iterator left, iterator right) noexcept { return left.at_ == right.at_; }
        friend bool operator!=(iterator left, iterator right) noexcept { return left.at_ != right.at_; }

    private:
        const llm_message *at_;
    };

    messages(const llm_message *first, int count) noexcept
        : first_(first), count_(static_cast<std::size_t>(count))
    {
    }
    iterator begin() const noexcept { return iterator(first_); }
    iterator end() const noexcept { return iterator(first_ + count_); }
    std::size_t size() const noexcept { return count_; }
    message operator[](std::size_t index) const noexcept { return message(first_[index]); }

private:
    const llm_message *first_;
    std::size_t count_;
};

class event
{
public:
    explicit event(const llm_event &raw) noexcept : raw_(&raw) {}

    llm_event_kind kind() const noexcept { return raw_->kind; }
    llm_reason reason() const noexcept { return raw_->reason; }
    std::uint64_t session() const noexcept { return raw_->session; }
    std::uint64_t first() const noexcept { return raw_->first; }
    std::uint64_t last() const noexcept { return raw_->last; }
    // A line for people. Allocates.
    std::string text() const
    {
        char line[512];
        return {line, llm_event_text(raw_, line, sizeof line)};
    }
    const llm_event &raw() const noexcept { return *raw_; }

private:
    const llm_event *raw_;
};

// A session, or a topic of one, that a handler accepts or not.
class source
{
public:
    explicit source(const llm_source &raw) noexcept : raw_(&raw) {}
    std::uint64_t session() const noexcept { return raw_->session; }
    bool is_topic() const noexcept { return raw_->topic != nullptr; }
    std::string_view topic() const noexcept { return is_topic() ? raw_->topic : ""; }

private:
    const llm_source *raw_;
};

class connection_ref;
class listener_ref;

// A request of the other side of a connection.
class request
{
public:
    explicit request(const llm_request &raw) noexcept : raw_(&raw) {}
    std::uint64_t id() const noexcept { return raw_->id; }
    llm::bytes bytes() const noexcept { return {raw_->data, raw_->size}; }

private:
    const llm_request *raw_;
};

// The answer to a request; reason LLM_REASON_NONE: it came.
struct reply {
    llm_reason reason = LLM_REASON_NONE;
    llm::bytes bytes;
    explicit operator bool() const noexcept { return reason == LLM_REASON_NONE; }
};

// A peer that asks for a connection.
class caller
{
public:
    explicit caller(const llm_caller &raw) noexcept : raw_(&raw) {}
    std::uint64_t id() const noexcept { return raw_->id; }
    llm::bytes payload() const noexcept { return {raw_->payload, raw_->payload_size}; }
    std::uint32_t message_bytes_max() const noexcept { return raw_->message_bytes_max; }

private:
    const llm_caller *raw_;
};

// Several callables as one handler.
template <class... Fs> struct overloaded : Fs... {
    using Fs::operator()...;
};
template <class... Fs> overloaded(Fs...) -> overloaded<Fs...>;

// No handler.
struct unhandled {
};

namespace detail
{

#if defined(__cpp_exceptions)
// An exception of a handler, until a call throws it again.
struct thrown {
    std::exception_ptr exception;
    thrown *next = nullptr;
};

// Of a thread: whether the application calls the library there, and what its handlers threw. Trivial, so that it is cheap to reach.
struct exceptions {
    bool comes_out;
    thrown *first, *last;
};
inline thread_local exceptions thread_exceptions = {false, nullptr, nullptr};

// Keeps the current exception. The thread of a context has no call that it could come out of; without memory the program ends, too.
inline void keep_exception() noexcept
{
    exceptions &of = thread_exceptions;
    if (!of.comes_out)
        std::terminate();
    thrown *const own = new thrown{std::current_exception()};
    (of.first == nullptr ? of.first : of.last->next) = own;
    of.last = own;
}

[[noreturn]] inline void throw_first()
{
    const std::unique_ptr<thrown> own(thread_exceptions.first);
    thread_exceptions.first = own->next;
    std::rethrow_exception(own->exception);
}

// The calling thread is one of the application.
inline void let_out_here() noexcept
{
    thread_exceptions.comes_out = true;
}

// Calls the library, which calls handlers; throws what one of them threw.
template <class F> auto let_out(F call)
{
    let_out_here();
    if (thread_exceptions.first != nullptr)
        throw_first();
    const auto count = call();
    if (thread_exceptions.first != nullptr)
        throw_first();
    return count;
}

// Calls a handler; returns otherwise if it throws.
template <class F> void handle(F call) noexcept
{
    if constexpr (noexcept(call())) {
        call();
    } else {
        try {
            call();
        } catch (...) {
            keep_exception();
        }
    }
}
template <class F, class R> R handle(F call, R otherwise) noexcept
{
    handle([&] { otherwise = call(); });
    return otherwise;
}
#else
inline void let_out_here() noexcept
{
}
template <class F> auto let_out(F call)
{
    return call();
}
template <class F> void handle(F call) noexcept
{
    call();
}
template <class F, class R> R handle(F call, R) noexcept
{
    return call();
}
#endif

// Code of the refusal of a caller whose handler threw.
inline constexpr int handler_threw = 65535;

// Memory of a handler at an address that does not change when its owner moves.
class handler_memory
{
public:
    handler_memory() noexcept = default;
    template <class H>
    explicit handler_memory(std::unique_ptr<H> handler) noexcept
        : handler_(handler.release()), destroy_([](void *of) { delete static_cast<H *>(of); })
    {
    }
    handler_memory(handler_memory &&other) noexcept
        : handler_(std::exchange(other.handler_, nullptr)), destroy_(other.destroy_)
    {
    }
    handler_memory &operator=(handler_memory &&other) noexcept
    {
        std::swap(handler_, other.handler_);
        std::swap(destroy_, other.destroy_);
        return *this;
    }
    ~handler_memory()
    {
        if (handler_ != nullptr)
            destroy_(handler_);
    }
    void *get() const noexcept { return handler_; }

private:
    void *handler_ = nullptr;
    void (*destroy_)(void *) = nullptr;
};

// A pointer of the C API that one owner closes.
template <class T, int (*close_call)(T **)> class owner
{
public:
    owner() noexcept = default;
    owner(owner &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    owner &operator=(owner &&other) noexcept
    {
        if (this != &other) {
            (void)close_call(&raw_);
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }
    ~owner() { (void)close_call(&raw_); }

    // Returns what the C call does.
    int close() noexcept { return close_call(&raw_); }
    T *raw() const noexcept { return raw_; }
    T **out() noexcept { return &raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }

private:
    T *raw_ = nullptr;
};

template <class H, class... Args> inline constexpr bool handles = std::is_invocable_v<H &, Args...>;

template <class H> void set_receiver(llm_receiver_handlers &to, H *handler) noexcept
{
    static_assert(handles<H, const message &> || handles<H, const messages &> || handles<H, const event &> ||
                      std::is_same_v<H, unhandled>,
                  "a handler takes const llm::message &, const llm::messages & or const llm::event &");
    static_assert(!(handles<H, const message &> && handles<H, const messages &>),
                  "a handler takes messages one by one, or those that arrived together: not both");
    to.arg = handler;
    if constexpr (handles<H, const message &>)
        to.message = [](void *arg, const llm_message *raw) noexcept {
            handle([&] { (*static_cast<H *>(arg))(message(*raw)); });
        };
    if constexpr (handles<H, const messages &>)
        to.messages = [](void *arg, const llm_message *raw, int count) noexcept {
            handle([&] { (*static_cast<H *>(arg))(messages(raw, count)); });
        };
    if constexpr (handles<H, const event &>)
        to.event = [](void *arg, const llm_event *raw) noexcept {
            handle([&] { (*static_cast<H *>(arg))(event(*raw)); });
        };
    if constexpr (handles<H, const source &>)
        to.accept = [](void *arg, const llm_source *raw) noexcept -> bool {
            return handle([&]() -> bool { return (*static_cast<H *>(arg))(source(*raw)); }, true);
        };
    if constexpr (handles<H, std::uint64_t, llm_join &>)
        to.join = [](void *arg, std::uint64_t session, llm_join *join) noexcept {
            handle([&] { (*static_cast<H *>(arg))(session, *join); });
        };
}

template <class H> void set_event(void (*&to)(void *, const llm_event *)) noexcept
{
    if constexpr (handles<H, const event &>)
        to = [](void *arg, const llm_event *raw) noexcept {
            handle([&] { (*static_cast<H *>(arg))(event(*raw)); });
        };
}

} // namespace detail

// ------------------------------------------------------------------------------------------------------------------ context

class context : public detail::owner<llm_context, llm_context_close>
{
public:
    // log and log_arg of the settings are those of C.
    static result<context> open(const llm_context_options &settings = context_options()) noexcept
    {
        context opened;
        detail::let_out_here();
        const error error(llm_context_open(&settings, opened.out()));
        return error ? result<context>(error) : result<context>(std::move(opened));
    }

    // Each returns the number of messages and events delivered, or an LLM_E... code.
    int poll()
    {
        return detail::let_out([this] { return llm_poll(raw()); });
    }
    int wait(duration timeout = forever)
    {
        return detail::let_out([&] { return llm_wait(raw(), detail::ns(timeout)); });
    }

    int fd() noexcept { return llm_context_fd(raw()); }
    clock::time_point deadline() const noexcept
    {
        const std::uint64_t at = llm_context_deadline(raw());
        return at > static_cast<std::uint64_t>(INT64_MAX)
                   ? clock::time_point::max()
                   : clock::time_point(duration(static_cast<duration::rep>(at)));
    }
    error start_thread(int cpu = -1) noexcept { return error(llm_context_start_thread(raw(), cpu)); }
    error stop_thread() noexcept { return error(llm_context_stop_thread(raw())); }
    result<std::uint64_t> counter(const char *name) const noexcept
    {
        std::uint64_t value = 0;
        const error error(llm_context_counter(raw(), name, &value));
        return error ? result<std::uint64_t>(error) : result<std::uint64_t>(std::move(value));
    }
};

// --------------------------------------------------------------------------------------------------------------- transmitter

// Room for a message in a packet; without commit() it is given back.
class claim
{
public:
    claim() noexcept = default;
    claim(llm_topic *topic, void *data, std::size_t size) noexcept : topic_(topic), data_(data), size_(size)
    {
    }
    claim(claim &&other) noexcept
        : topic_(std::exchange(other.topic_, nullptr)), data_(other.data_), size_(other.size_)
    {
    }
    claim &operator=(claim &&other) noexcept
    {
        abort();
        topic_ = std::exchange(other.topic_, nullptr);
        data_ = other.data_;
        size_ = other.size_;
        return *this;
    }
    ~claim() { abort(); }

    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    // Sends the first `size` bytes. If that is refused the room stays, until it is destroyed.
    error commit(std::size_t size, unsigned flags = 0) noexcept
    {
        const llm::error refused(llm_topic_commit(topic_, size, flags));
        if (!refused)
            topic_ = nullptr;
        return refused;
    }
    error commit() noexcept { return commit(size_); }
    void abort() noexcept
    {
        if (topic_ != nullptr)
            (void)llm_topic_abort(std::exchange(topic_, nullptr));
    }

private:
    llm_topic *topic_ = nullptr;
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

// A topic of a transmitter, to which it belongs. Copies refer to the same one.
class topic
{
public:
    topic() noexcept = default;
    explicit topic(llm_topic *raw) noexcept : raw_(raw) {}

    // LLM_EAGAIN is back-pressure: poll, or wait_for().
    error send(bytes data, unsigned flags = 0) const noexcept
    {
        return error(llm_send(raw_, data.data(), data.size(), flags));
    }
    error send(bytes data, const llm_attributes &with, unsigned flags = 0) const noexcept
    {
        return error(llm_send_with(raw_, data.data(), data.size(), &with, flags));
    }
    error send(const struct iovec *pieces, int count, unsigned flags = 0) const noexcept
    {
        return error(llm_sendv(raw_, pieces, count, flags));
    }
    // Under a number in the stream, at least the next one: those between are skipped.
    error send_numbered(std::uint64_t number, bytes data, unsigned flags = 0) const noexcept
    {
        return error(llm_send_numbered(raw_, number, data.data(), data.size(), flags));
    }
    // Room for so many bytes in a packet, to write a message in place.
    result<llm::claim> claim(std::size_t size) const noexcept
    {
        void *data = nullptr;
        const error error(llm_topic_claim(raw_, size, &data));
        return error ? result<llm::claim>(error) : result<llm::claim>(llm::claim(raw_, data, size));
    }
    // Waits until a message of this size can be sent.
    error wait_for(std::size_t size, duration timeout = forever) const noexcept
    {
        return error(llm_topic_wait(raw_, size, detail::ns(timeout)));
    }
    error assure(const llm_assurance &by = llm::assurance()) const noexcept
    {
        return error(llm_topic_assure(raw_, &by));
    }
    error cache(const llm_cache &last = llm::cache()) const noexcept
    {
        return error(llm_topic_cache(raw_, &last));
    }
    error limit_rate(const llm_rate &limit) const noexcept
    {
        return error(llm_topic_limit_rate(raw_, &limit));
    }
    llm_topic *raw() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }

private:
    llm_topic *raw_ = nullptr;
};

// A transmitter that somebody owns: a transmitter, or that of a connection.
class transmitter_ref
{
public:
    explicit transmitter_ref(llm_transmitter *raw) noexcept : raw_(raw) {}

    result<topic> open_topic(const char *name, unsigned flags = 0) const noexcept
    {
        llm_topic *opened = nullptr;
        const error error(llm_topic_open(raw_, name, flags, &opened));
        return error ? result<topic>(error) : result<topic>(topic(opened));
    }
    std::uint64_t session() const noexcept { return llm_transmitter_session(raw_); }
    std::uint64_t next() const noexcept { return llm_transmitter_next(raw_); }
    std::uint32_t receivers() const noexcept { return llm_transmitter_receivers(raw_); }
    std::size_t claim_max() const noexcept { return llm_transmitter_claim_max(raw_); }
    // Waits for so many receivers.
    error wait_for(std::uint32_t receivers, duration timeout = forever) const noexcept
    {
        return error(llm_transmitter_wait(raw_, receivers, detail::ns(timeout)));
    }
    error flush() const noexcept { return error(llm_transmitter_flush(raw_)); }
    error suspend(std::uint64_t receiver) const noexcept
    {
        return error(llm_transmitter_suspend(raw_, receiver));
    }
    error resume(std::uint64_t receiver) const noexcept
    {
        return error(llm_transmitter_resume(raw_, receiver));
    }
    error suspend_all() const noexcept { return error(llm_transmitter_suspend_all(raw_)); }
    error resume_all() const noexcept { return error(llm_transmitter_resume_all(raw_)); }
    error limit_rate(const llm_rate &limit) const noexcept
    {
        return error(llm_transmitter_limit_rate(raw_, &limit));
    }
    // Fills in at most max receivers; returns the number of all.
    int congestion(llm_congestion *receivers, int max) const noexcept
    {
        return llm_transmitter_congestion(raw_, receivers, max);
    }
    llm_transmitter *raw() const noexcept { return raw_; }

private:
    llm_transmitter *raw_;
};

class transmitter
{
public:
    transmitter() noexcept = default;

    // The handler takes const llm::event &.
    template <class H = unhandled>
    static result<transmitter> open(context &context, const char *channel, H handler = {},
                                    const llm_options &settings = llm::options())
    {
        static_assert(detail::handles<H, const event &> || std::is_same_v<H, unhandled>,
                      "the handler of a transmitter takes const llm::event &");
        auto own = std::make_unique<H>(std::move(handler));
        llm_transmitter_handlers handlers;
        transmitter opened;
        llm_transmitter_handlers_init(&handlers);
        handlers.arg = own.get();
        detail::set_event<H>(handlers.event);
        const error error(
            llm_transmitter_open(context.raw(), channel, &settings, &handlers, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    transmitter_ref ref() const noexcept { return transmitter_ref(raw()); }
    result<topic> open_topic(const char *name, unsigned flags = 0) const noexcept
    {
        return ref().open_topic(name, flags);
    }
    std::uint64_t session() const noexcept { return ref().session(); }
    std::uint64_t next() const noexcept { return ref().next(); }
    std::uint32_t receivers() const noexcept { return ref().receivers(); }
    error wait_for(std::uint32_t receivers, duration timeout = forever) const noexcept
    {
        return ref().wait_for(receivers, timeout);
    }
    error flush() const noexcept { return ref().flush(); }
    // Waits for the known receivers; returns how many did not report to have everything.
    int close() noexcept { return raw_.close(); }
    llm_transmitter *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_; // destroyed after the transmitter
    detail::owner<llm_transmitter, llm_transmitter_close> raw_;
};

// ------------------------------------------------------------------------------------------------------------------ receiver

class receiver
{
public:
    receiver() noexcept = default;

    // The handler takes one or more of: const llm::message & or const llm::messages &; const llm::event &; const llm::source &,
    // returning bool; std::uint64_t and llm_join &.
    template <class H>
    static result<receiver> open(context &context, const char *channel, H handler,
                                 const llm_options &settings = llm::options())
    {
        auto own = std::make_unique<H>(std::move(handler));
        llm_receiver_handlers handlers;
        receiver opened;
        llm_receiver_handlers_init(&handlers);
        detail::set_receiver(handlers, own.get());
        const error error(llm_receiver_open(context.raw(), channel, &settings, &handlers, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    error acknowledge(const message &message) const noexcept
    {
        return acknowledge(message.session(), message.number());
    }
    error acknowledge(std::uint64_t session, std::uint64_t number) const noexcept
    {
        return error(llm_receiver_acknowledge(raw(), session, number));
    }
    error subscribe(const char *subject) const noexcept
    {
        return error(llm_receiver_subscribe(raw(), subject));
    }
    error unsubscribe(const char *subject) const noexcept
    {
        return error(llm_receiver_unsubscribe(raw(), subject));
    }
    error filter(const llm_filter &filter) const noexcept
    {
        return error(llm_receiver_filter(raw(), &filter));
    }
    result<llm::attributes> attributes(const message &message) const noexcept
    {
        llm::attributes found;
        const error error(llm_message_attributes(raw(), &message.raw(), &found));
        return error ? result<llm::attributes>(error) : result<llm::attributes>(std::move(found));
    }
    result<llm_property> property(const message &message, std::uint16_t code) const noexcept
    {
        llm_property found;
        const error error(llm_message_property(raw(), &message.raw(), code, &found));
        return error ? result<llm_property>(error) : result<llm_property>(std::move(found));
    }
    int close() noexcept { return raw_.close(); }
    llm_receiver *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_;
    detail::owner<llm_receiver, llm_receiver_close> raw_;
};

// -------------------------------------------------------------------------------------------------------------- connections

// A connection that somebody owns.
class connection_ref
{
public:
    explicit connection_ref(llm_connection *raw) noexcept : raw_(raw) {}

    std::uint64_t id() const noexcept { return llm_connection_id(raw_); }
    // The transmitter of this side.
    transmitter_ref transmitter() const noexcept { return transmitter_ref(llm_connection_transmitter(raw_)); }
    // Calls the handler once, with a const llm::reply &. The handler is a pointer to something that lives until then.
    template <class H> error request(bytes data, duration timeout, H *handler) const noexcept
    {
        static_assert(detail::handles<H, const reply &>, "the handler of a reply takes const llm::reply &");
        return error(llm_connection_request(
            raw_, data.data(), data.size(), detail::ns(timeout),
            [](void *arg, llm_reason reason, const void *answer, std::size_t size) noexcept {
                detail::handle([&] { (*static_cast<H *>(arg))(reply{reason, {answer, size}}); });
            },
            const_cast<std::remove_const_t<H> *>(handler)));
    }
    error answer(std::uint64_t id, bytes data) const noexcept
    {
        return error(llm_connection_reply(raw_, id, data.data(), data.size()));
    }
    error answer(const llm::request &asked, bytes data) const noexcept { return answer(asked.id(), data); }
    llm_connection *raw() const noexcept { return raw_; }

private:
    llm_connection *raw_;
};

// Fills in handlers of a connection that call *handler, which lives as long as the connection. It takes a connection_ref and
// const llm::message &, const llm::event & or const llm::request &.
template <class H> llm_connection_handlers connection_handlers(H *handler) noexcept
{
    static_assert(detail::handles<H, connection_ref, const message &> ||
                      detail::handles<H, connection_ref, const event &> ||
                      detail::handles<H, connection_ref, const request &>,
                  "a handler of a connection takes llm::connection_ref and const llm::message &, const "
                  "llm::event & or const llm::request &");
    llm_connection_handlers to;
    llm_connection_handlers_init(&to);
    to.arg = handler;
    if constexpr (detail::handles<H, connection_ref, const message &>)
        to.message = [](void *arg, llm_connection *of, const llm_message *raw) noexcept {
            detail::handle([&] { (*static_cast<H *>(arg))(connection_ref(of), message(*raw)); });
        };
    if constexpr (detail::handles<H, connection_ref, const event &>)
        to.event = [](void *arg, llm_connection *of, const llm_event *raw) noexcept {
            detail::handle([&] { (*static_cast<H *>(arg))(connection_ref(of), event(*raw)); });
        };
    if constexpr (detail::handles<H, connection_ref, const request &>)
        to.request = [](void *arg, llm_connection *of, const llm_request *raw) noexcept {
            detail::handle([&] { (*static_cast<H *>(arg))(connection_ref(of), request(*raw)); });
        };
    return to;
}

class connection
{
public:
    connection() noexcept = default;
    // Takes over a connection that a listener accepted.
    explicit connection(connection_ref accepted) noexcept { *raw_.out() = accepted.raw(); }

    // The handler as in connection_handlers().
    template <class H>
    static result<connection> open(context &context, const char *channel, H handler, bytes payload = {},
                                   const llm_options &settings = connection_options())
    {
        auto own = std::make_unique<H>(std::move(handler));
        const llm_connection_handlers handlers = connection_handlers(own.get());
        const struct iovec piece = {const_cast<void *>(payload.data()), payload.size()};
        connection opened;
        const error error(llm_connection_open(context.raw(), channel, &settings, &handlers,
                                              payload.empty() ? nullptr : &piece, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    connection_ref ref() const noexcept { return connection_ref(raw()); }
    std::uint64_t id() const noexcept { return ref().id(); }
    transmitter_ref transmitter() const noexcept { return ref().transmitter(); }
    template <class H> error request(bytes data, duration timeout, H *handler) const noexcept
    {
        return ref().request(data, timeout, handler);
    }
    error answer(std::uint64_t id, bytes data) const noexcept { return ref().answer(id, data); }
    int close() noexcept { return raw_.close(); }
    llm_connection *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_;
    detail::owner<llm_connection, llm_connection_close> raw_;
};

// A listener that somebody owns.
class listener_ref
{
public:
    explicit listener_ref(llm_listener *raw) noexcept : raw_(raw) {}
    error accept(std::uint64_t id, const llm_connection_handlers &handlers) const noexcept
    {
        return error(llm_listener_accept(raw_, id, &handlers));
    }
    error refuse(std::uint64_t id, int code) const noexcept
    {
        return error(llm_listener_refuse(raw_, id, code));
    }
    llm_listener *raw() const noexcept { return raw_; }

private:
    llm_listener *raw_;
};

class listener
{
public:
    listener() noexcept = default;

    // The handler takes listener_ref, const llm::caller & and llm_connection_handlers &, which it assigns from
    // connection_handlers() before it returns LLM_OK; other values as in struct llm_listener_handlers.
    template <class H>
    static result<listener> open(context &context, const char *channel, H handler,
                                 const llm_options &settings = connection_options())
    {
        static_assert(
            std::is_invocable_r_v<int, H &, listener_ref, const caller &, llm_connection_handlers &>,
            "the handler of a listener takes listener_ref, const llm::caller &, llm_connection_handlers &");
        auto own = std::make_unique<H>(std::move(handler));
        llm_listener_handlers handlers;
        listener opened;
        llm_listener_handlers_init(&handlers);
        handlers.arg = own.get();
        handlers.connect = [](void *arg, llm_listener *of, const llm_caller *raw,
                              llm_connection_handlers *answers) noexcept -> int {
            return detail::handle(
                [&]() -> int { return (*static_cast<H *>(arg))(listener_ref(of), caller(*raw), *answers); },
                detail::handler_threw);
        };
        const error error(llm_listener_open(context.raw(), channel, &settings, &handlers, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    listener_ref ref() const noexcept { return listener_ref(raw()); }
    int close() noexcept { return raw_.close(); }
    llm_listener *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_;
    detail::owner<llm_listener, llm_listener_close> raw_;
};

// ------------------------------------------------------------------------------------------------------------- store, replay

class store
{
public:
    store() noexcept = default;

    // The handler takes const llm::event &.
    template <class H = unhandled>
    static result<store> open(context &context, const llm_store_options &settings, H handler = {})
    {
        static_assert(detail::handles<H, const event &> || std::is_same_v<H, unhandled>,
                      "the handler of a store takes const llm::event &");
        auto own = std::make_unique<H>(std::move(handler));
        llm_store_handlers handlers;
        store opened;
        llm_store_handlers_init(&handlers);
        handlers.arg = own.get();
        detail::set_event<H>(handlers.event);
        const error error(llm_store_open(context.raw(), &settings, &handlers, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    error follow(const char *channel, const llm_options &settings = llm::options()) const noexcept
    {
        return error(llm_store_follow(raw(), channel, &settings));
    }
    int close() noexcept { return raw_.close(); }
    llm_store *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_;
    detail::owner<llm_store, llm_store_close> raw_;
};

class replay
{
public:
    replay() noexcept = default;

    // The handler as that of a receiver.
    template <class H>
    static result<replay> open(const char *directory, H handler,
                               const llm_replay_options &settings = replay_options(),
                               llm_log_fn *log = nullptr, void *log_arg = nullptr)
    {
        auto own = std::make_unique<H>(std::move(handler));
        llm_receiver_handlers handlers;
        replay opened;
        llm_receiver_handlers_init(&handlers);
        detail::set_receiver(handlers, own.get());
        const error error(llm_replay_open(directory, &settings, &handlers, log, log_arg, opened.raw_.out()));
        if (error)
            return error;
        opened.handler_ = detail::handler_memory(std::move(own));
        return opened;
    }

    // Returns the number of messages and events delivered, 0 after the last, or an LLM_E... code.
    int next(int packets_max = 256)
    {
        return detail::let_out([&] { return llm_replay_next(raw(), packets_max); });
    }
    result<llm::attributes> attributes(const message &message) const noexcept
    {
        llm::attributes found;
        const error error(llm_replay_attributes(raw(), &message.raw(), &found));
        return error ? result<llm::attributes>(error) : result<llm::attributes>(std::move(found));
    }
    int close() noexcept { return raw_.close(); }
    llm_replay *raw() const noexcept { return raw_.raw(); }
    explicit operator bool() const noexcept { return raw() != nullptr; }

private:
    detail::handler_memory handler_;
    detail::owner<llm_replay, llm_replay_close> raw_;
};

} // namespace llm

#endif
