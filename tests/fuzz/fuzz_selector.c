/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selectors: the input is a text up to the first zero byte, then a frame of attributes. Every text is
 * compiled to a program that stays within its bounds, or refused with a column inside it; and every program
 * runs over all bytes, with a reproducible result.
 */
#include "core/select/filter.h"
#include "fuzz.h"

static const struct llm_property_name names[] = {{"a", 1}, {"b", 2}, {"c.d", 3}, {"e", 4}};

static void run(const struct lli_filter *filter, const uint8_t *frame, size_t size)
{
    struct lli_attributes attributes;

    if (size > UINT16_MAX)
        return;
    (void)lli_attributes_get(frame, (uint32_t)size, &attributes);
    FUZZ_CHECK(attributes.properties_size == 0 ||
               (attributes.properties >= frame &&
                attributes.properties + attributes.properties_size == frame + size));
    FUZZ_CHECK(lli_filter_wants(filter, frame, (uint32_t)size) ==
               lli_selector_run(&filter->selector, attributes.properties, attributes.properties_size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lli_filter filter;
    const uint8_t *end = size == 0 ? NULL : memchr(data, '\0', size);
    const size_t length = end == NULL ? size : (size_t)(end - data);
    const size_t rest = end == NULL ? 0 : size - length - 1;
    struct lli_selector_fault fault;
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text = malloc(length + 1);
    uint8_t *frame;
    size_t got;

    FUZZ_CHECK(text != NULL);
    if (length > 0)
        memcpy(text, data, length);
    text[length] = '\0';
    input.at = rest == 0 ? input.end : input.at + length + 1;
    frame = fuzz_bytes(&input, rest, &got);
    filter = (struct lli_filter){.labels_count = 0};
    if (lli_selector_compile(&filter.selector, text, names, sizeof names / sizeof names[0], &fault)) {
        FUZZ_CHECK(filter.selector.count > 0 && filter.selector.count <= LLI_SELECTOR_OPS);
        FUZZ_CHECK(filter.selector.pooled <= LLI_SELECTOR_POOL);
        lli_filter_finish(&filter);
        run(&filter, frame, got);
    } else {
        FUZZ_CHECK(fault.text != NULL && fault.text[0] != '\0');
        FUZZ_CHECK(fault.column >= 1 && fault.column <= length + 1);
    }
    free(frame);
    free(text);
    return 0;
}

void fuzz_seeds(fuzz_emit_fn *emit, void *arg)
{
    static const char *const seeds[] = {
        "a = 7 AND (b < 2.5e1 OR NOT c.d LIKE 'x!%%_y' ESCAPE '!') AND e IS NOT NULL",
        ("a BETWEEN 1 AND -2 * (b + 3) / 4 AND c.d IN ('x', 'it''s', '') OR e NOT IN (1, 2.5, "
         "9223372036854775807)"),
        "NOT NOT a <> b OR TRUE = FALSE AND a >= .5",
        "((((a = 1))))",
        "a LIKE '%%%a%b%_%'",
        "a = 1 = 2",
    };
    /* Label, a bitmap of one byte, and a property of each type. */
    static const uint8_t frame[] = {0,   1,   2,   3, 4, 1, 0xff, 1, 0, 1,    7, 0, 0,    0,   2,
                                    0,   2,   9,   0, 0, 0, 0,    0, 0, 0x80, 3, 0, 4,    3,   0,
                                    'a', '%', 'b', 4, 0, 3, 0,    0, 0, 0,    0, 0, 0xf8, 0x7f};
    uint8_t seed[256];

    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        memcpy(seed, seeds[i], strlen(seeds[i]));
        memcpy(seed + strlen(seeds[i]), frame, sizeof frame);
        emit(arg, seed, strlen(seeds[i]) + sizeof frame);
    }
}
