/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

/* Returns the length of the UTF-8 character at `at`, 0 if it is none. RFC 3629, section 4. */
static size_t utf8(const uint8_t *at, size_t size)
{
    const size_t bytes = at[0] < 0x80   ? 1
                         : at[0] < 0xc2 ? 0
                         : at[0] < 0xe0 ? 2
                         : at[0] < 0xf0 ? 3
                         : at[0] < 0xf5 ? 4
                                        : 0;

    if (bytes == 0 || bytes > size)
        return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return bytes;
}

bool json_is_text(const uint8_t *bytes, size_t size)
{
    size_t length;

    for (size_t at = 0; at < size; at += length) {
        const bool control = bytes[at] < 0x20 || bytes[at] == 0x7f;

        length = utf8(bytes + at, size - at);
        if (length == 0 || (control && bytes[at] != '\t' && bytes[at] != '\n' && bytes[at] != '\r'))
            return false;
    }
    return true;
}

void json_string(FILE *file, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    fputc('"', file);
    for (size_t at = 0; at < size;) {
        const size_t length = utf8(bytes + at, size - at);

        if (length == 0)
            fputs("\\ufffd", file);
        else if (bytes[at] < 0x20 || bytes[at] == 0x7f)
            fprintf(file, "\\u%04x", bytes[at]);
        else if (bytes[at] == '"' || bytes[at] == '\\')
            fprintf(file, "\\%c", bytes[at]);
        else
            fwrite(bytes + at, 1, length, file);
        at += length == 0 ? 1 : length;
    }
    fputc('"', file);
}

void json_base64(FILE *file, const void *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;

    fputc('"', file);
    for (size_t at = 0; at < size; at += 3) {
        const size_t left = size - at;
        const uint32_t three = (uint32_t)bytes[at] << 16 | (left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0) |
                               (left > 2 ? bytes[at + 2] : 0);

        fputc(digits[three >> 18], file);
        fputc(digits[three >> 12 & 63], file);
        fputc(left > 1 ? digits[three >> 6 & 63] : '=', file);
        fputc(left > 2 ? digits[three & 63] : '=', file);
    }
    fputc('"', file);
}
