/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that names the transports. */
#include <stdio.h>
#include <string.h>

#include "transport.h"

extern const struct lli_transport lli_transport_udp;
extern const struct lli_transport lli_transport_loop;
extern const struct lli_transport lli_transport_roce;
extern const struct lli_transport lli_transport_impair;

static const struct lli_transport *const registry[] = {
    &lli_transport_udp,
    &lli_transport_loop,
#ifdef LLI_WITH_ROCE
    &lli_transport_roce,
#endif
};

/* Those that a build may lack, and how it comes to have them. */
static const struct {
    const char *scheme;
    const char *remedy;
} missing[] = {
    {"roce", "install libibverbs-dev and librdmacm-dev, and build it with 'meson setup -Droce=enabled'"},
};

static const struct lli_transport *registry_plain(const char *scheme)
{
    for (size_t i = 0; i < sizeof registry / sizeof registry[0]; i++)
        if (strcmp(scheme, registry[i]->scheme) == 0)
            return registry[i];
    return NULL;
}

const struct lli_transport *lli_transport_find(const char *scheme)
{
    const size_t prefix = strlen("impair+");

    if (strncmp(scheme, "impair+", prefix) == 0)
        return registry_plain(scheme + prefix) == NULL ? NULL : &lli_transport_impair;
    return registry_plain(scheme);
}

const char *lli_transport_missing(const char *scheme)
{
    const size_t prefix = strlen("impair+");
    const char *plain = strncmp(scheme, "impair+", prefix) == 0 ? scheme + prefix : scheme;

    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (strcmp(plain, missing[i].scheme) == 0 && registry_plain(plain) == NULL)
            return missing[i].remedy;
    return NULL;
}

void lli_transport_names(char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof registry / sizeof registry[0] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", registry[i]->scheme);
}
