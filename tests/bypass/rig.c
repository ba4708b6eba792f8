/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "rig.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

extern const struct lli_transport lli_transport_bypass;

void *__wrap_dlsym(void *handle, const char *name);

/*
 * This clang's thread sanitizer also uses this function to find those that it intercepts, before it can
 * follow calls.
 */
#if __has_attribute(disable_sanitizer_instrumentation)
__attribute__((disable_sanitizer_instrumentation))
#endif
void *
__wrap_dlsym(void *handle, const char *name)
{
    const char *hidden = handle == RTLD_DEFAULT ? getenv("SHIM_HIDE") : NULL;

    return hidden != NULL && strstr(hidden, name) != NULL ? NULL : __real_dlsym(handle, name);
}

bool is_onload(void)
{
    return strcmp(stack_name, "Onload") == 0;
}

const char *either(const char *of_onload, const char *of_vma)
{
    return is_onload() ? of_onload : of_vma;
}

void expect_logged(const char *text)
{
    if (strstr(log_text, text) == NULL)
        fail_msg("'%s' is not in the log: %s", text, log_text);
}

void expect_nothing_logged(void)
{
    assert_string_equal(log_text, "");
}

int end_oddities(void **state)
{
    static const char *const all[] = {"SHIM_KERNEL",   "SHIM_WARM",          "SHIM_BUFFERS",
                                      "SHIM_ZC_ERROR", "SHIM_RELEASE_ERROR", "SHIM_HIDE"};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        unsetenv(all[i]);
    own_reset();
    return stack_lent == 0 ? 0 : -1;
}

void send_numbers(struct station *from, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        station_send(from, from->send, &i, sizeof i);
}

void expect_number(const struct lli_in *packet, uint32_t number)
{
    assert_int_equal(packet->size, sizeof number);
    assert_memory_equal(packet->data, &number, sizeof number);
}

void take_numbers(struct station *to, struct lli_in *packets, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(station_await(to, &packets[i], 1, ARRIVAL_NS), 1);
        expect_number(&packets[i], first + i);
    }
}

void expect_numbers(struct station *to, uint32_t first, uint32_t count)
{
    struct lli_in packet;

    for (uint32_t i = 0; i < count; i++) {
        take_numbers(to, &packet, first + i, 1);
        transport->release(to->instance, &packet, 1);
    }
}

bool rig_set_up(void)
{
    if (!network_own())
        return false;
    transport = &lli_transport_bypass;
    scheme = "bypass";
    host = GROUP;
    port = PORT;
    llm_options_init(&common);
    own_reset();
    strcpy(common.interface, NETWORK_INTERFACE);
    return true;
}
