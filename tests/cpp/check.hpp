// SPDX-License-Identifier: Apache-2.0
// A condition that a test of the C++ headers needs.
#ifndef TESTS_CHECK_HPP
#define TESTS_CHECK_HPP

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            std::fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                 \
        }                                                                                 \
    } while (0)

#endif
