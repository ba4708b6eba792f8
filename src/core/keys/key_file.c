/* SPDX-License-Identifier: Apache-2.0 */
#include "core/keys/key_file.h"

#include <string.h>

enum { KEY_TEXT = 44, /* characters of a key in base64 */ SECONDS_PER_DAY = 86400 };

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void lli_key_wipe(void *memory, size_t size)
{
    volatile uint8_t *at = memory;

    while (size-- > 0)
        *at++ = 0;
}

/* ----------------------------------------------------------------------------------------------- suites */

struct suite {
    enum lli_key_suite id;
    const char *name;
    size_t bytes;
};

static const struct suite suites[] = {
#define KEY_SUITE_ROW(id, symbol, name, bytes) {LLI_KEY_##symbol, name, bytes},
    LLI_KEY_SUITES(KEY_SUITE_ROW)
#undef KEY_SUITE_ROW
};

enum { SUITES = sizeof suites / sizeof suites[0] };

const char *lli_key_suite_name(enum lli_key_suite suite)
{
    for (size_t i = 0; i < SUITES; i++)
        if (suites[i].id == suite)
            return suites[i].name;
    return NULL;
}

enum lli_key_suite lli_key_suite_find(const char *name, size_t size)
{
    for (size_t i = 0; i < SUITES; i++)
        if (strlen(suites[i].name) == size && memcmp(suites[i].name, name, size) == 0)
            return suites[i].id;
    return (enum lli_key_suite)0;
}

size_t lli_key_suite_bytes(enum lli_key_suite suite)
{
    for (size_t i = 0; i < SUITES; i++)
        if (suites[i].id == suite)
            return suites[i].bytes;
    return 0;
}

/* ------------------------------------------------------------------------------------------------ times */

struct date {
    uint64_t year, month, day;
};

/* Days since 1970 of a date of the Gregorian calendar from then on: years begin in March, so leap days end one. */
static uint64_t days_of(const struct date *date)
{
    const uint64_t year = date->month <= 2 ? date->year - 1 : date->year;
    const uint64_t month = date->month <= 2 ? date->month + 9 : date->month - 3;
    const uint64_t day_of_year = (153 * month + 2) / 5 + date->day - 1;

    return 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719468;
}

static struct date date_of(uint64_t days)
{
    /* From 0000-03-01 on, in eras of 400 years. */
    const uint64_t shifted = days + 719468, era = shifted / 146097, of_era = shifted % 146097;
    const uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    const uint64_t month = (5 * of_year + 2) / 153;
    struct date date = {
        .year = year + era * 400,
        .month = month < 10 ? month + 3 : month - 9,
        .day = of_year - (153 * month + 2) / 5 + 1,
    };

    date.year += date.month <= 2;
    return date;
}

static void put_digits(char *at, uint64_t value, int count)
{
    while (count-- > 0) {
        at[count] = (char)('0' + value % 10);
        value /= 10;
    }
}

void lli_key_put_time(char text[LLI_KEY_TIME_MAX], lli_key_time time)
{
    const struct date date = date_of(time / SECONDS_PER_DAY);
    const uint64_t second = time % SECONDS_PER_DAY;

    assert(time <= LLI_KEY_TIME_LAST);
    memcpy(text, "0000-00-00T00:00:00Z", 21);
    put_digits(text, date.year, 4);
    put_digits(text + 5, date.month, 2);
    put_digits(text + 8, date.day, 2);
    put_digits(text + 11, second / 3600, 2);
    put_digits(text + 14, second / 60 % 60, 2);
    put_digits(text + 17, second % 60, 2);
}

/* ---------------------------------------------------------------------------------------------- parsing */

/* Field of a line: not empty, or there is none. */
struct field {
    const char *at;
    size_t size;
};

/* Reads the number of `count` digits at an offset of a field; UINT64_MAX: other characters are there. */
static uint64_t field_digits(const struct field *field, size_t at, size_t count)
{
    uint64_t value = 0;

    for (size_t i = at; i < at + count; i++) {
        if (field->at[i] < '0' || field->at[i] > '9')
            return UINT64_MAX;
        value = value * 10 + (uint64_t)(field->at[i] - '0');
    }
    return value;
}

/* Reads 2026-11-25 or 2026-11-25T10:00:00Z. */
static bool field_time(const struct field *field, lli_key_time *time)
{
    struct date date, same;
    uint64_t hour = 0, minute = 0, second = 0, days;

    if ((field->size != 10 && field->size != 20) || field->at[4] != '-' || field->at[7] != '-')
        return false;
    date = (struct date){field_digits(field, 0, 4), field_digits(field, 5, 2), field_digits(field, 8, 2)};
    if (field->size == 20) {
        if (field->at[10] != 'T' || field->at[13] != ':' || field->at[16] != ':' || field->at[19] != 'Z')
            return false;
        hour = field_digits(field, 11, 2);
        minute = field_digits(field, 14, 2);
        second = field_digits(field, 17, 2);
    }
    if (date.year < 1970 || date.year > 9999 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > 31 || hour > 23 || minute > 59 || second > 59)
        return false;
    days = days_of(&date);
    same = date_of(days);
    *time = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    return same.month == date.month && same.day == date.day;
}

static uint32_t digit64(char digit)
{
    for (uint32_t i = 0; i < 64; i++)
        if (digits64[i] == digit)
            return i;
    return UINT32_MAX;
}

/* Reads a key in base64: 43 digits and one =, the last digit with two bits that are clear. */
static bool field_key(const struct field *field, uint8_t key[LLI_KEY_BYTES])
{
    uint32_t bits = 0, count = 0;
    size_t used = 0;

    if (field->size != KEY_TEXT || field->at[KEY_TEXT - 1] != '=')
        return false;
    for (size_t i = 0; i < KEY_TEXT - 1; i++) {
        const uint32_t digit = digit64(field->at[i]);

        if (digit == UINT32_MAX)
            return false;
        bits = (bits & 0x3ff) << 6 | digit;
        count += 6;
        if (count >= 8) {
            count -= 8;
            key[used++] = (uint8_t)(bits >> count);
        }
    }
    return (bits & 3) == 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the next field of a line, and moves to the character after it. */
static struct field field_take(const char **at, const char *end)
{
    struct field field;

    while (*at < end && is_blank(**at))
        (*at)++;
    field.at = *at;
    while (*at < end && !is_blank(**at))
        (*at)++;
    field.size = (size_t)(*at - field.at);
    return field;
}

static bool fail(struct lli_key_fault *fault, uint32_t line, const struct field *field, const char *text)
{
    *fault = (struct lli_key_fault){.line = line, .text = text};
    for (size_t i = 0; field != NULL && i < field->size && i < sizeof fault->value - 1; i++)
        fault->value[i] = field->at[i] >= ' ' && field->at[i] <= '~' ? field->at[i] : '?';
    return false;
}

static bool is_pattern(const struct field *field)
{
    for (size_t i = 0; i < field->size; i++)
        if (field->at[i] <= ' ' || field->at[i] > '~')
            return false;
    return field->size > 0 && field->size <= LLI_KEY_PATTERN_MAX;
}

enum { FIELD_ID, FIELD_FROM, FIELD_UNTIL, FIELD_SUITE, FIELD_KEY, FIELD_PATTERN, FIELDS };

/* Reads the fields of an epoch. */
static bool epoch_read(const struct field *fields, struct lli_key_epoch *epoch, struct lli_key_fault *fault)
{
    const struct field *id = &fields[FIELD_ID];
    const uint64_t number = id->size <= 5 ? field_digits(id, 0, id->size) : UINT64_MAX;

    if (number < 1 || number > UINT16_MAX)
        return fail(fault, epoch->line, id, "the number of an epoch has to be from 1 to 65535");
    epoch->id = (uint16_t)number;
    if (!field_time(&fields[FIELD_FROM], &epoch->from))
        return fail(fault, epoch->line, &fields[FIELD_FROM],
                    "the time from which it is valid has to be like 2026-11-25T10:00:00Z");
    if (!field_time(&fields[FIELD_UNTIL], &epoch->until) || epoch->until <= epoch->from)
        return fail(fault, epoch->line, &fields[FIELD_UNTIL],
                    "the time until which it is valid has to be like 2026-12-02T10:00:00Z, and after the "
                    "one from which it is valid");
    epoch->suite = lli_key_suite_find(fields[FIELD_SUITE].at, fields[FIELD_SUITE].size);
    if (epoch->suite == 0)
        return fail(fault, epoch->line, &fields[FIELD_SUITE],
                    "the suite has to be aes-128-gcm, aes-256-gcm or chacha20-poly1305");
    /* The value of this field goes nowhere. */
    if (!field_key(&fields[FIELD_KEY], epoch->key))
        return fail(fault, epoch->line, NULL,
                    "the key has to be 32 bytes in base64, 44 characters: make the epoch by llm-key epoch");
    if (!is_pattern(&fields[FIELD_PATTERN]))
        return fail(fault, epoch->line, &fields[FIELD_PATTERN],
                    "the pattern of channels has to be 1 to 127 printable characters");
    memcpy(epoch->pattern, fields[FIELD_PATTERN].at, fields[FIELD_PATTERN].size);
    epoch->pattern[fields[FIELD_PATTERN].size] = 0;
    return true;
}

/* Reads a line, and adds its epoch if it has one. */
static bool line_read(const char *at, const char *end, uint32_t line, struct lli_key_file *file,
                      struct lli_key_fault *fault)
{
    struct field fields[FIELDS], more;
    struct lli_key_epoch *epoch;
    int count = 0;

    do
        fields[count] = field_take(&at, end);
    while (fields[count].size > 0 && ++count < FIELDS);
    if (count == 0 || fields[0].at[0] == '#')
        return true;
    more = field_take(&at, end);
    if (count < FIELDS || more.size > 0)
        return fail(fault, line, NULL,
                    "a line has to have six fields: epoch, from, until, suite, key and pattern of channels");
    if (file->count == LLI_KEY_EPOCHS_MAX)
        return fail(fault, line, NULL, "a file has at most 64 epochs: remove those that have expired");
    epoch = &file->epochs[file->count++];
    epoch->line = line;
    if (!epoch_read(fields, epoch, fault))
        return false;
    for (uint32_t i = 0; i + 1 < file->count; i++)
        if (file->epochs[i].id == epoch->id &&
            memcmp(file->epochs[i].pattern, epoch->pattern, sizeof epoch->pattern) == 0)
            return fail(fault, line, &fields[FIELD_ID],
                        "an epoch has one key for each pattern: remove one of the lines of this epoch");
    return true;
}

static bool file_read(const char *text, size_t size, struct lli_key_file *file, struct lli_key_fault *fault)
{
    const char *at = text, *const end = text + size;

    if (size > LLI_KEY_FILE_MAX)
        return fail(fault, 0, NULL, "it is longer than 32768 bytes: remove epochs that have expired");
    for (uint32_t line = 1; at < end; line++) {
        const char *stop = at;

        while (stop < end && *stop != '\n')
            stop++;
        /* Without its end a line may be the beginning of a longer one. */
        if (stop == end)
            return fail(fault, line, NULL, "the last line is cut: copy the file again");
        if (!line_read(at, stop, line, file, fault))
            return false;
        at = stop + 1;
    }
    return file->count > 0 || fail(fault, 0, NULL, "it has no epoch: make one by llm-key new");
}

bool lli_key_parse(const char *text, size_t size, struct lli_key_file *file, struct lli_key_fault *fault)
{
    memset(file, 0, sizeof *file);
    if (file_read(text, size, file, fault))
        return true;
    lli_key_wipe(file, sizeof *file);
    return false;
}

/* ---------------------------------------------------------------------------------------------- writing */

static char *put_text(char *at, const char *text)
{
    const size_t size = strlen(text);

    memcpy(at, text, size);
    at[size] = ' ';
    return at + size + 1;
}

size_t lli_key_put(char line[LLI_KEY_LINE_MAX], const struct lli_key_epoch *epoch)
{
    char text[LLI_KEY_TIME_MAX];
    uint32_t bits = 0, count = 0;
    size_t skip = 0;
    char *at = line;

    put_digits(text, epoch->id, 5);
    text[5] = 0;
    while (text[skip] == '0')
        skip++;
    at = put_text(at, text + skip);
    lli_key_put_time(text, epoch->from);
    at = put_text(at, text);
    lli_key_put_time(text, epoch->until);
    at = put_text(at, text);
    at = put_text(at, lli_key_suite_name(epoch->suite));
    for (size_t i = 0; i < LLI_KEY_BYTES; i++) {
        bits = (bits & 0xff) << 8 | epoch->key[i];
        for (count += 8; count >= 6; count -= 6)
            *at++ = digits64[bits >> (count - 6) & 63];
    }
    *at++ = digits64[bits << (6 - count) & 63];
    at = put_text(at, "=");
    at = put_text(at, epoch->pattern);
    at[-1] = '\n';
    *at = 0;
    return (size_t)(at - line);
}

/* --------------------------------------------------------------------------------------------- selecting */

bool lli_key_matches(const char *pattern, const char *name)
{
    /* After a mismatch the latest * takes one character more. */
    const char *star = NULL, *from = NULL;

    while (*name != 0) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

const struct lli_key_epoch *lli_key_current(const struct lli_key_file *file, const char *name,
                                            lli_key_time now, const struct lli_key_epoch **next,
                                            const struct lli_key_epoch **last)
{
    const struct lli_key_epoch *current = NULL;

    *next = *last = NULL;
    for (uint32_t i = 0; i < file->count; i++) {
        const struct lli_key_epoch *epoch = &file->epochs[i];

        if (!lli_key_matches(epoch->pattern, name))
            continue;
        if (epoch->until <= now) {
            if (*last == NULL || epoch->until > (*last)->until)
                *last = epoch;
        } else if (epoch->from > now) {
            if (*next == NULL || epoch->from < (*next)->from)
                *next = epoch;
        } else if (current == NULL || epoch->from > current->from) {
            current = epoch;
        }
    }
    return current;
}
