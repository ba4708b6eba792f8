/* SPDX-License-Identifier: Apache-2.0 */
/* Options: their defaults, their bounds, and key=value as another way in. */
#ifndef LLI_OPTIONS_H
#define LLI_OPTIONS_H

#include "flow.h"
#include "log.h"

/* Copies what the caller's structure has, over the defaults; user may be NULL. LLM_EVERSION, LLM_EINVAL. */
int lli_options_copy(struct llm_options *options, const struct llm_options *user, const struct lli_log *log);

/* Sets one option from text. LLM_EOPTION. */
int lli_options_set(struct llm_options *options, const char *key, const char *value, const struct lli_log *log);

/* Checks every option against its bounds, and those that depend on others. LLM_EOPTION. */
int lli_options_check(const struct llm_options *options, const struct lli_log *log);

/* What the option flow, which was checked, asks for. */
enum lli_flow_mode lli_options_flow(const struct llm_options *options);

/*
 * Copies a versioned structure of the caller, whose first member is its size, over `known` bytes of defaults. A larger one
 * must be zero in what this library does not know. LLM_EVERSION, LLM_EINVAL (smaller than its size member).
 */
int lli_options_import(void *to, size_t known, const void *from, const char *what, const struct lli_log *log);

#endif
