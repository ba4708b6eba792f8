/* SPDX-License-Identifier: Apache-2.0 */
/* The transports of this build, by scheme. */
#ifndef LLI_REGISTRY_H
#define LLI_REGISTRY_H

#include "transport.h"

/* The transport of a scheme, or NULL. "impair+X" is the fault injector over X, "shm+X" shared memory beside X, if X is known. */
const struct lli_transport *lli_transport_find(const char *scheme);

/* Whether the groups of a scheme need no port; those of an unknown one do. */
bool lli_transport_is_named(const char *scheme);

/* How a build of this library comes to know the scheme, or NULL if none ever does, or this one does already. */
const char *lli_transport_missing(const char *scheme);

/* Writes the known schemes to text, separated by commas, for error messages. */
void lli_transport_names(char *text, size_t size);

/* The same for transports, which do not include this file. */
extern const struct lli_registry lli_registry;

#endif
