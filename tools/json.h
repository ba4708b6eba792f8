/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as JSON. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* True if the bytes are UTF-8 without control characters other than tabs and ends of lines. */
bool json_is_text(const uint8_t *bytes, size_t size);

/* Prints a JSON string; what is not UTF-8 becomes U+FFFD. */
void json_string(FILE *file, const void *data, size_t size);
void json_base64(FILE *file, const void *data, size_t size);

#endif
