/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEED_ARGUMENTS_H
#define FEED_ARGUMENTS_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Parses the numeric argument of an option. Ends the program if it is invalid or not in [min, max]. */
static inline uint64_t argument_number(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < min || value > max) {
        fprintf(stderr, "--%s \"%s\": a number from %llu to %llu is wanted\n", option, text,
                (unsigned long long)min, (unsigned long long)max);
        exit(EXIT_FAILURE);
    }
    return value;
}

#endif
