/* SPDX-License-Identifier: Apache-2.0 */
/* The table of addresses against a list. */
#include "unit.h"

#include "common/peers.h"

enum { MAX = 40, ADDRESSES = 100 };

static struct lli_address address_of(uint32_t number)
{
    struct lli_address address = {.size = 7};

    memcpy(address.bytes, &number, sizeof number);
    return address;
}

static void places_are_found_freed_and_reused(void **state)
{
    struct lli_peers peers = {.count = 0}; /* in zeroed memory, as in instances */
    uint32_t places[ADDRESSES], known = 0, refused = 0;
    bool has[ADDRESSES] = {false};
    uint64_t random = 5;

    (void)state;
    assert_int_equal(lli_peers_init(&peers, MAX), 0);
    for (int i = 0; i < 300000; i++) {
        const uint32_t number = below(&random, ADDRESSES);
        const struct lli_address address = address_of(number);
        uint32_t place = UINT32_MAX;

        assert_int_equal(lli_peers_get(&peers, &address, &place), has[number]);
        assert_true(!has[number] || place == places[number]);
        if (chance(&random, 40)) {
            assert_int_equal(lli_peers_remove(&peers, &address, &place), has[number]);
            assert_true(!has[number] || place == places[number]);
            known -= has[number];
            has[number] = false;
            continue;
        }
        if (lli_peers_place(&peers, &address, &place) != 0) {
            assert_false(has[number]);
            assert_int_equal(known, MAX);
            refused++;
            continue;
        }
        assert_true(place < MAX && place < peers.count);
        assert_true(!has[number] || place == places[number]);
        for (uint32_t other = 0; other < ADDRESSES; other++)
            assert_true(other == number || !has[other] || places[other] != place);
        known += !has[number];
        has[number] = true;
        places[number] = place;
    }
    assert_true(refused > 1000);
    lli_peers_fini(&peers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_found_freed_and_reused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
