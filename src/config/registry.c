/* SPDX-License-Identifier: Apache-2.0 */
/* Registry of the transports, and the only file that names them. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "config/registry.h"

extern const struct lli_transport lli_transport_udp;
extern const struct lli_transport lli_transport_loop;
extern const struct lli_transport lli_transport_shm;
extern const struct lli_transport lli_transport_roce;
extern const struct lli_transport lli_transport_bypass;
extern const struct lli_transport lli_transport_xdp;
extern const struct lli_transport lli_transport_impair;
extern const struct lli_transport lli_transport_hybrid;
extern const struct lli_transport lli_transport_lines;

static const struct lli_transport *const registry[] = {
    &lli_transport_udp,  &lli_transport_bypass, &lli_transport_shm, &lli_transport_loop,
#ifdef LLI_WITH_ROCE
    &lli_transport_roce,
#endif
#ifdef LLI_WITH_XDP
    &lli_transport_xdp,
#endif
};

/* Transports that a build may lack, and how to build them. */
static const struct {
    const char *scheme;
    const char *remedy;
} missing[] = {
    {"xdp", "build it on Linux, with 'meson setup -Dxdp=enabled'"},
    {"roce", "install libibverbs-dev and librdmacm-dev, and build it with 'meson setup -Droce=enabled'"},
};

/* Transports whose scheme is a prefix of another scheme. */
static const struct {
    const char *prefix;
    const struct lli_transport *transport;
} decorators[] = {
    {"impair+", &lli_transport_impair},
    {"shm+", &lli_transport_hybrid},
};

/*
 * Strips a decorator's prefix from a scheme, and returns the rest and the decorator; the scheme itself if
 * there is none.
 */
static const char *registry_inner(const char *scheme, const struct lli_transport **decorator)
{
    for (size_t i = 0; i < sizeof decorators / sizeof decorators[0]; i++) {
        const size_t length = strlen(decorators[i].prefix);

        if (strncmp(scheme, decorators[i].prefix, length) != 0)
            continue;
        *decorator = decorators[i].transport;
        return scheme + length;
    }
    return scheme;
}

/* Returns the scheme of the lowest transport. */
static const char *registry_bare(const char *scheme)
{
    const struct lli_transport *decorator;
    const char *inner = registry_inner(scheme, &decorator);

    return inner == scheme ? scheme : registry_bare(inner);
}

static const struct lli_transport *registry_plain(const char *scheme)
{
    for (size_t i = 0; i < sizeof registry / sizeof registry[0]; i++)
        if (strcmp(scheme, registry[i]->scheme) == 0)
            return registry[i];
    return NULL;
}

const struct lli_transport *lli_transport_find(const char *scheme)
{
    const struct lli_transport *outermost = NULL;
    const struct lli_transport *transport = registry_plain(registry_bare(scheme));

    if (strcmp(scheme, LLI_SCHEME_LINES) == 0)
        return &lli_transport_lines;
    (void)registry_inner(scheme, &outermost);
    return transport != NULL && outermost != NULL ? outermost : transport;
}

bool lli_transport_is_named(const char *scheme)
{
    const struct lli_transport *transport = registry_plain(registry_bare(scheme));

    return transport != NULL && transport->named;
}

const char *lli_transport_missing(const char *scheme)
{
    const char *bare = registry_bare(scheme);

    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (strcmp(bare, missing[i].scheme) == 0 && registry_plain(bare) == NULL)
            return missing[i].remedy;
    return NULL;
}

/* Adds a table that is not there yet, and returns how many there are. */
static int registry_add_table(const struct lli_option_table *table, const struct lli_option_table **tables,
                              int count, int max)
{
    for (int i = 0; i < count; i++)
        if (tables[i] == table)
            return count;
    if (table == NULL)
        return count;
    assert(count < max);
    tables[count] = table;
    return count + 1;
}

int lli_transport_option_tables(const char *scheme, const struct lli_option_table **tables, int max)
{
    const struct lli_transport *transport;
    int count = 0;

    for (;;) {
        const struct lli_transport *decorator = NULL;
        const char *inner = registry_inner(scheme, &decorator);
        char name[16];

        if (inner == scheme)
            break;
        count = registry_add_table(decorator->options, tables, count, max);
        /* The prefix "shm+" names the transport shm, too. */
        (void)snprintf(name, sizeof name, "%.*s", (int)(inner - scheme) - 1, scheme);
        transport = registry_plain(name);
        if (transport != NULL)
            count = registry_add_table(transport->options, tables, count, max);
        scheme = inner;
    }
    transport = registry_plain(scheme);
    return transport == NULL ? count : registry_add_table(transport->options, tables, count, max);
}

const char *lli_transport_option_table(int index, const struct lli_option_table **table)
{
    const size_t plain = sizeof registry / sizeof registry[0];
    const size_t i = (size_t)index;

    if (i < plain) {
        *table = registry[i]->options;
        return registry[i]->scheme;
    }
    if (i >= plain + sizeof decorators / sizeof decorators[0])
        return NULL;
    *table = decorators[i - plain].transport->options;
    return decorators[i - plain].prefix;
}

void lli_transport_names(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof registry / sizeof registry[0] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", registry[i]->scheme);
}

const struct lli_registry lli_registry = {.find = lli_transport_find, .is_named = lli_transport_is_named};
