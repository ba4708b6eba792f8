/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a test writes as hexadecimal digits. */
#ifndef TESTS_HEX_H
#define TESTS_HEX_H

#include "unit.h"

struct bytes {
    uint8_t at[128];
    size_t size;
};

static inline struct bytes hex(const char *text)
{
    struct bytes bytes = {.size = strlen(text) / 2};

    for (size_t i = 0; i < bytes.size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], 0};

        bytes.at[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return bytes;
}

#endif
