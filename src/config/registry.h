/* SPDX-License-Identifier: Apache-2.0 */
/* The transports of this build, by scheme. */
#ifndef LLI_REGISTRY_H
#define LLI_REGISTRY_H

#include "transport.h"

/* Finds the transport of two lines; not a scheme of channels. */
#define LLI_SCHEME_LINES " + "

/*
 * Returns the transport of a scheme, or NULL. "impair+X" is the fault injector over X, "shm+X" the hybrid
 * transport of shared memory and X, if X is known.
 */
const struct lli_transport *lli_transport_find(const char *scheme);

/* Returns true if the groups of a scheme need no port; those of an unknown scheme do. */
bool lli_transport_is_named(const char *scheme);

/* Returns how to build the library with a scheme; NULL if no build has it, or this one does. */
const char *lli_transport_missing(const char *scheme);

/*
 * Writes the tables of the options of all transports that a scheme names to tables, each once, and returns
 * their number: those of decorators, of both parts of a hybrid transport, and of the lowest transport.
 */
int lli_transport_option_tables(const char *scheme, const struct lli_option_table **tables, int max);

/*
 * Returns the scheme of the index-th transport, decorators included, and its options, NULL if it has none;
 * NULL after the last.
 */
const char *lli_transport_option_table(int index, const struct lli_option_table **table);

/* Writes the known schemes to text, separated by commas, for error messages. */
void lli_transport_names(char *text, size_t size);

/* These functions as a table, for transports, which do not include this file. */
extern const struct lli_registry lli_registry;

#endif
