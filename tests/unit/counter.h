/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of contexts. */
#ifndef TESTS_COUNTER_H
#define TESTS_COUNTER_H

#include "unit.h"

#include <llm/llm.h>

/* Fails if no object of the context has the counter. */
static inline uint64_t counter_of(const struct llm_context *context, const char *name)
{
    uint64_t value = 0;

    assert_int_equal(llm_context_counter(context, name, &value), LLM_OK);
    return value;
}

#endif
