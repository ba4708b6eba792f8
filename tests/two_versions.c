/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two versions of the library in one process: this program exports functions of the names that the library calls
 * itself, as another version does that is linked statically, or was loaded before. The library uses its own.
 *
 *   two_versions LIBLLM
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <llm/llm.h>

static int foreign_calls;
static const char *library;

/* The other version: whatever it does to these structures would be wrong for the library. */
void llm_context_options_init(struct llm_context_options *options)
{
    (void)options;
    foreign_calls++;
}

void llm_options_init(struct llm_options *options)
{
    (void)options;
    foreign_calls++;
}

int llm_wait(struct llm_context *context, uint64_t timeout_ns)
{
    (void)context;
    (void)timeout_ns;
    return foreign_calls++;
}

int llm_transmitter_close(struct llm_transmitter **transmitter)
{
    (void)transmitter;
    return foreign_calls++;
}

uint32_t llm_transmitter_receivers(const struct llm_transmitter *transmitter)
{
    (void)transmitter;
    return (uint32_t)foreign_calls++;
}

int llm_context_stop_thread(struct llm_context *context)
{
    (void)context;
    return foreign_calls++;
}

const char *llm_version(void)
{
    foreign_calls++;
    return "another version";
}

/* -------------------------------------------------------------------------------------------------------- */

static void on_message(void *arg, const struct llm_message *message)
{
    int *messages = arg;

    *messages += message->size == 5 && memcmp(message->data, "hello", 5) == 0;
}

/* Looks up a function of the loaded library, not that of this program. */
#define FUNCTION(handle, name)                          \
    __typeof__(name) *own_##name;                       \
    do {                                                \
        void *const found = dlsym(handle, #name);       \
        assert_non_null(found);                         \
        memcpy(&own_##name, &found, sizeof own_##name); \
    } while (0)

static void the_library_calls_its_own_functions(void **state)
{
    void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct llm_receiver_handlers handlers = {.size = sizeof handlers};
    struct llm_context *context = NULL;
    struct llm_transmitter *transmitter = NULL;
    struct llm_receiver *receiver = NULL;
    struct llm_topic *topic = NULL;
    int messages = 0;

    (void)state;
    assert_non_null(handle);
    FUNCTION(handle, llm_context_open);
    FUNCTION(handle, llm_context_close);
    FUNCTION(handle, llm_receiver_open);
    FUNCTION(handle, llm_transmitter_open);
    FUNCTION(handle, llm_transmitter_wait);
    FUNCTION(handle, llm_topic_open);
    FUNCTION(handle, llm_send);
    FUNCTION(handle, llm_poll);
    handlers.arg = &messages;
    handlers.message = on_message;
    assert_int_equal(own_llm_context_open(NULL, &context), LLM_OK);
    assert_int_equal(own_llm_receiver_open(context, "loop://two:1", NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(own_llm_transmitter_open(context, "loop://two:1", NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(own_llm_transmitter_wait(transmitter, 1, UINT64_C(60000000000)), 1);
    assert_int_equal(own_llm_topic_open(transmitter, "topic", 0, &topic), LLM_OK);
    assert_int_equal(own_llm_send(topic, "hello", 5, 0), LLM_OK);
    while (messages == 0)
        assert_true(own_llm_poll(context) >= 0);
    assert_int_equal(messages, 1);
    assert_int_equal(own_llm_context_close(&context), LLM_OK);
    assert_int_equal(foreign_calls, 0);
    dlclose(handle);
}

/* A program built with later headers gives longer structures. Each is refused when something is opened with it. */
static void longer_structures_of_a_later_header_are_refused_at_open(void **state)
{
    void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct llm_context_options context_options = {.size = sizeof context_options + sizeof(size_t)};
    struct llm_options options = {.size = sizeof options + sizeof(size_t)};
    struct llm_receiver_handlers handlers = {.size = sizeof handlers + sizeof(size_t)};
    struct llm_context *context = NULL;
    struct llm_transmitter *transmitter = NULL;
    struct llm_receiver *receiver = NULL;

    (void)state;
    assert_non_null(handle);
    FUNCTION(handle, llm_context_open);
    FUNCTION(handle, llm_context_close);
    FUNCTION(handle, llm_receiver_open);
    FUNCTION(handle, llm_transmitter_open);
    assert_int_equal(own_llm_context_open(&context_options, &context), LLM_EVERSION);
    assert_int_equal(own_llm_context_open(NULL, &context), LLM_OK);
    assert_int_equal(own_llm_transmitter_open(context, "loop://two:1", &options, NULL, &transmitter),
                     LLM_EVERSION);
    assert_int_equal(own_llm_receiver_open(context, "loop://two:1", NULL, &handlers, &receiver),
                     LLM_EVERSION);
    assert_int_equal(own_llm_context_close(&context), LLM_OK);
    dlclose(handle);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_calls_its_own_functions),
        cmocka_unit_test(longer_structures_of_a_later_header_are_refused_at_open),
    };

    if (argc != 2)
        return EXIT_FAILURE;
    library = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
