/* SPDX-License-Identifier: Apache-2.0 */
#include "logged.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "system/memory.h"

static const struct lli_log keeper = {.function = log_keep, .level = LLM_LEVEL_WARNING};

static void expect_mapped(size_t size, const struct lli_memory_policy *policy)
{
    struct lli_memory memory = {.base = NULL};
    uint8_t *bytes;

    assert_int_equal(lli_memory_map(&memory, size, policy, &keeper), LLM_OK);
    bytes = memory.base;
    assert_true(memory.size >= size);
    assert_int_equal((uintptr_t)bytes % 4096, 0);
    for (size_t at = 0; at < size; at++)
        assert_int_equal(bytes[at], 0);
    memset(bytes, 1, memory.size);
    lli_memory_unmap(&memory);
    assert_null(memory.base);
}

static void memory_is_zeroed_and_writable_under_every_policy(void **state)
{
    (void)state;
    for (int huge = 0; huge < 2; huge++) {
        for (int populate = 0; populate < 2; populate++) {
            for (int node = -1; node <= 0; node++) {
                const struct lli_memory_policy policy = {huge, populate, node};

                expect_mapped(1, &policy);
                expect_mapped(4097, &policy);
                expect_mapped((4 << 20) + 1, &policy);
            }
        }
    }
}

static long faults_of_writes(volatile uint8_t *bytes, size_t size)
{
    struct rusage before, after;

    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    for (size_t at = 0; at < size; at += 4096)
        bytes[at] = 1;
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    return after.ru_minflt - before.ru_minflt;
}

static void populated_memory_does_not_fault(void **state)
{
    const struct lli_memory_policy policy = {.populate = true, .numa_node = -1};
    const size_t size = (4 << 20) + 4096;
    struct lli_memory memory = {.base = NULL};
    FILE *file = tmpfile();
    void *shared;

    (void)state;
    assert_int_equal(lli_memory_map(&memory, size, &policy, &keeper), LLM_OK);
    /* A sanitizer's own memory faults, for one page of eight. */
    assert_in_range(faults_of_writes(memory.base, size), 0, size / 4096 / 4);
    lli_memory_unmap(&memory);

    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)size), 0);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    lli_memory_populate(shared, size, LLI_MEMORY_WRITE);
    assert_in_range(faults_of_writes(shared, size), 0, size / 4096 / 4);
    lli_memory_release(shared, size);
    assert_int_equal(msync(shared, size, MS_ASYNC), -1); /* ENOMEM: not mapped */
    assert_int_equal(fclose(file), 0);
}

static void yields_end_when_they_have_taken_20_ms(void **state)
{
    const lli_ns limit = 20000000;
    lli_ns taken = 0;

    (void)state;
    lli_memory_yield(&taken);
    assert_true(taken > 0);
    taken = limit;
    lli_memory_yield(&taken);
    assert_int_equal(taken, limit);
}

static void a_missing_numa_node_is_not_a_failure(void **state)
{
    const struct lli_memory_policy policy = {.huge_pages = false, .populate = true, .numa_node = 4096};

    (void)state;
    expect_mapped(100, &policy);
}

static void too_much_memory_is_refused_with_the_option_to_lower(void **state)
{
    const struct lli_memory_policy policies[] = {{true, false, -1}, {false, false, -1}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct lli_memory memory = {.base = NULL};

        logged[0] = '\0';
        assert_int_equal(lli_memory_map(&memory, (size_t)1 << 62, &policies[i], &keeper), LLM_ENOMEM);
        assert_null(memory.base);
        assert_non_null(strstr(logged, "history_bytes"));
        assert_int_equal(lli_memory_map(&memory, SIZE_MAX, &policies[i], &keeper), LLM_ENOMEM);
    }
}

static void unmapped_memory_can_be_unmapped_again(void **state)
{
    struct lli_memory memory = {.base = NULL};

    (void)state;
    lli_memory_unmap(&memory);
    assert_null(memory.base);
}

static void the_node_of_a_virtual_or_missing_device_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(lli_memory_node("net", "lo"), -1);
    assert_int_equal(lli_memory_node("infiniband", "none"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_writable_under_every_policy),
        cmocka_unit_test(populated_memory_does_not_fault),
        cmocka_unit_test(yields_end_when_they_have_taken_20_ms),
        cmocka_unit_test(a_missing_numa_node_is_not_a_failure),
        cmocka_unit_test(too_much_memory_is_refused_with_the_option_to_lower),
        cmocka_unit_test(unmapped_memory_can_be_unmapped_again),
        cmocka_unit_test(the_node_of_a_virtual_or_missing_device_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
