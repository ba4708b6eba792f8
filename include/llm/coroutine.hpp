// SPDX-License-Identifier: Apache-2.0
//
// Requests that a coroutine of C++20 awaits:
//
//   llm::task ask(llm::connection_ref connection)
//   {
//       llm::result<llm::reply> reply = co_await llm::request_on(connection, "how much?", std::chrono::seconds(1));
//       if (reply && *reply)
//           std::cout << reply->bytes.text() << '\n';
//   }
//
// The coroutine goes on inside a handler of the context, in llm_poll(). What reply has is valid until it awaits again, or ends.
#ifndef LLM_COROUTINE_HPP
#define LLM_COROUTINE_HPP

#include <coroutine>
#include <exception>

#include <llm/llm.hpp>

namespace llm
{

// A coroutine that runs until its first await, and then by itself. Its frame is freed when it ends; what it throws comes out of a
// poll() or wait(), as from handlers.
class task
{
public:
    struct promise_type {
        task get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept
        {
#if defined(__cpp_exceptions)
            detail::keep_exception();
#endif
        }
    };
};

namespace detail
{

class awaited_request
{
public:
    awaited_request(connection_ref connection, bytes data, duration timeout) noexcept
        : connection_(connection), data_(data), timeout_(timeout)
    {
    }

    bool await_ready() const noexcept { return false; }
    // False, and thus no wait: the request was refused.
    bool await_suspend(std::coroutine_handle<> waiting) noexcept
    {
        waiting_ = waiting;
        refused_ = connection_.request(data_, timeout_, this);
        return !refused_;
    }
    // The error of llm_connection_request(), or what came: an answer, or the reason why there is none.
    result<reply> await_resume() const noexcept
    {
        return refused_ ? result<reply>(refused_) : result<reply>(reply(reply_));
    }

    // The call of the reply.
    void operator()(const reply &answer) noexcept
    {
        reply_ = answer;
        waiting_.resume();
    }

private:
    connection_ref connection_;
    bytes data_;
    duration timeout_;
    std::coroutine_handle<> waiting_;
    reply reply_;
    error refused_;
};

} // namespace detail

// Awaits the answer to a request. data has to be valid until then.
inline detail::awaited_request request_on(connection_ref connection, bytes data, duration timeout) noexcept
{
    return {connection, data, timeout};
}

} // namespace llm

#endif
