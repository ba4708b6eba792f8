/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "core/wire/token.h"

static const struct lli_token_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};
static const struct lli_wire_address address = {.size = 7, .bytes = {4, 192, 0, 2, 1, 0x13, 0x89}};

/* The value is that of another implementation, which agrees with the test vectors of the authors. */
static void a_token_equals_the_reference_hash(void **state)
{
    (void)state;
    assert_true(lli_token(&key, UINT64_C(0x99aabbccddeeff01), &address) == UINT64_C(0x9d9dbef538db22dc));
}

static void a_token_is_valid_for_one_receiver_address_and_session(void **state)
{
    const uint64_t token = lli_token(&key, 1, &address);
    struct lli_token_key other_key = key;
    struct lli_wire_address other = address;

    (void)state;
    assert_true(lli_token(&key, 1, &address) == token);
    assert_true(lli_token(&key, 2, &address) != token);
    other_key.words[1]++;
    assert_true(lli_token(&other_key, 1, &address) != token);
    other.bytes[6]++;
    assert_true(lli_token(&key, 1, &other) != token);
    /* Bytes after the address are not part of it. */
    other = address;
    other.bytes[other.size] = 1;
    assert_true(lli_token(&key, 1, &other) == token);
    other.size++;
    assert_true(lli_token(&key, 1, &other) != token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_equals_the_reference_hash),
        cmocka_unit_test(a_token_is_valid_for_one_receiver_address_and_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
