/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the library and of transports: defaults, bounds, and parsing of key=value. */
#ifndef LLI_OPTIONS_H
#define LLI_OPTIONS_H

#include "core/flow/flow.h"
#include "core/slow/slow.h"
#include "system/log.h"
#include "core/rx/rx_session.h"
#include "option_table.h"

/* Copies the caller's structure over the defaults; user may be NULL. LLM_EVERSION, LLM_EINVAL. */
int lli_options_copy(struct llm_options *options, const struct llm_options *user, const struct lli_log *log);

/* Fills the options of the transports that a scheme names with the defaults. An unknown scheme has none. */
void lli_option_values_init(struct lli_option_values *values, const char *scheme);

/* Returns true if two channels agree in all options of scope INSTANCE. */
bool lli_options_share_instance(const struct llm_options *a, const struct llm_options *b);

/* The same for the options of the transports of one scheme. */
bool lli_option_values_share_instance(const struct lli_option_values *a, const struct lli_option_values *b);

/* Returns true if a key is an option of the library, or of a transport in values. */
bool lli_options_have(const struct lli_option_values *values, const char *key);

/*
 * Returns true if an option may differ between the lines of a channel: one of a transport's instance, or of a
 * group.
 */
bool lli_options_of_line(const struct lli_option_values *values, const char *key);

/* Gives the second line of a channel the options of the library that apply to both. */
void lli_options_of_both(struct llm_options *second, const struct llm_options *first);

/*
 * Sets one option from text: of the library in options, of a transport in values. LLM_EOPTION: there is no
 * such option, the scheme that values was initialised for does not have it, or the value is out of its
 * bounds.
 */
int lli_options_set(struct llm_options *options, struct lli_option_values *values, const char *key,
                    const char *value, const struct lli_log *log);

/* Checks every option against its bounds, and combinations of options. LLM_EOPTION. */
int lli_options_check(const struct llm_options *options, const struct lli_log *log);

/* Convert the checked options join and join_else. */
struct llm_join lli_options_join(const struct llm_options *options);
enum lli_rx_otherwise lli_options_join_else(const struct llm_options *options);

/* Returns true if the checked option order is arrival. */
bool lli_options_as_it_arrives(const struct llm_options *options);

/* Converts the checked option flow. */
enum lli_flow_mode lli_options_flow(const struct llm_options *options);

/*
 * Converts the checked options slow_...; history_packets: packets of the largest size that the history holds.
 */
struct lli_slow_policy lli_options_slow(const struct llm_options *options, uint64_t history_packets);

/* Warns of checked options slow_... that other options leave without effect; object: the transmitter. */
void lli_options_log_unused(const struct llm_options *options, const char *object, const struct lli_log *log);

/*
 * Checks that flow_window_bytes has eight packets of the largest size, and that slow_lag_bytes lets receivers lag by
 * such a packet and, with flow control, by a window of them. LLM_OK or LLM_EOPTION.
 */
int lli_options_check_window(const struct llm_options *options, const struct lli_flow_config *flow,
                             uint32_t packet_max, const struct lli_log *log);

/*
 * Copies a versioned structure of the caller, whose first member is its size, over `known` bytes of defaults.
 * LLM_EVERSION: it is larger (ADR 47); LLM_EINVAL: smaller than its size member, or not of whole words.
 */
int lli_options_import(void *to, size_t known, const void *from, const char *what, const struct lli_log *log);

#endif
