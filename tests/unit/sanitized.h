/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the program runs under a sanitizer, which has its own allocator, and calls of its own. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HAS_FEATURE(address_sanitizer) || \
    HAS_FEATURE(thread_sanitizer) || HAS_FEATURE(memory_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
