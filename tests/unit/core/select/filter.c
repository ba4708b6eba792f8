/* SPDX-License-Identifier: Apache-2.0 */
/* Filters: random messages to a receiver whose filter changes, with and without loss. */
#include "filter_world.h"

static void pack_random(void)
{
    struct sent message = {.topic = below(&seeded, TOPICS), .has = chance(&seeded, 80)};
    uint8_t bitmap = 0;

    message.size = chance(&seeded, 85) ? below(&seeded, 60) : below(&seeded, SIZE_MAX_SENT);
    if (message.has) {
        message.attributes.label =
            chance(&seeded, 50) ? below(&seeded, 8) : (uint32_t)lli_random(&seeded) & 0xff0000ff;
        bitmap = chance(&seeded, 50) ? 0 : (uint8_t)(1 + below(&seeded, LLI_FRAME_BITMAP_MAX));
        for (unsigned i = 0; i < bitmap; i++)
            if (chance(&seeded, 30))
                message.attributes.bitmap[i / 8] |= (uint64_t)below(&seeded, 256) << i % 8 * 8;
    }
    assert_true(pack_message(&message, bitmap));
}

static void filter_random(void)
{
    filter = (struct lli_filter){.labels_count = below(&seeded, 4)};
    for (uint32_t i = 0; i < filter.labels_count; i++) {
        filter.labels[i].mask = chance(&seeded, 50) ? 7 : (uint32_t)lli_random(&seeded) & 0xff0000ff;
        filter.labels[i].match = filter.labels[i].mask & (uint32_t)lli_random(&seeded);
    }
    filter.bitmap = chance(&seeded, 30);
    filter.any = chance(&seeded, 50);
    for (unsigned i = 0; filter.bitmap && i < LLI_FILTER_WORDS; i++) {
        filter.mask[i] = lli_random(&seeded) & lli_random(&seeded) & lli_random(&seeded);
        filter.match[i] =
            filter.any ? 0 : filter.mask[i] & lli_random(&seeded) & lli_random(&seeded) & lli_random(&seeded);
    }
    lli_filter_finish(&filter);
    r.config.filter = chance(&seeded, 20) ? NULL : &filter;
    lli_rx_filter(rx);
}

static void run_random(uint32_t loss_percent, bool reorders)
{
    heartbeat_due();
    while (sent_count < MESSAGES_MAX - ROUND) {
        const lli_seq from = tx->history.next;

        if (chance(&seeded, 30))
            filter_random();
        for (uint32_t i = below(&seeded, ROUND); i > 0; i--) {
            pack_random();
            if (chance(&seeded, 10))
                lli_pack_flush(&tx->pack);
            if (tx->history.next > from + HISTORY / 2)
                break;
        }
        deliver(from, loss_percent, reorders);
        heartbeat_due();
        if (loss_percent > 0)
            wait_for(300 * MS);
        else
            now += MS;
        model_pass(sent_count);
    }
    assert_int_equal(r.counters.messages_delivered, delivered);
    assert_int_equal(r.counters.messages_delivered + r.counters.messages_refused +
                         r.counters.messages_rejected + lost,
                     sent_count);
    assert_int_equal(r.counters.messages_lost, lost);
    assert_int_equal(r.counters.data_malformed, 0);
    assert_true(r.counters.packets_skipped > 20 && r.counters.messages_rejected > 500 && delivered > 500);
}

static void exactly_the_wanted_messages_are_delivered(void **state)
{
    (void)state;
    run_random(0, false);
    assert_int_equal(lost, 0);
}

static void exactly_the_wanted_messages_are_delivered_despite_reordering(void **state)
{
    (void)state;
    run_random(0, true);
    assert_int_equal(lost, 0);
}

static void losses_are_reported_and_the_other_wanted_messages_delivered(void **state)
{
    (void)state;
    run_random(5, true);
    assert_true(lost > 50);
}

static void exactly_the_wanted_messages_are_delivered_unordered(void **state)
{
    (void)state;
    run_random(0, true);
    assert_int_equal(lost, 0);
    assert_true(r.counters.messages_unordered > 500);
}

static void losses_are_reported_and_the_rest_delivered_unordered(void **state)
{
    (void)state;
    run_random(5, true);
    assert_true(lost > 50 && r.counters.messages_unordered > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exactly_the_wanted_messages_are_delivered, up, down),
        cmocka_unit_test_setup_teardown(exactly_the_wanted_messages_are_delivered_despite_reordering, up,
                                        down),
        cmocka_unit_test_setup_teardown(losses_are_reported_and_the_other_wanted_messages_delivered, up,
                                        down),
        cmocka_unit_test_setup_teardown(exactly_the_wanted_messages_are_delivered_unordered, up_arriving,
                                        down),
        cmocka_unit_test_setup_teardown(losses_are_reported_and_the_rest_delivered_unordered, up_arriving,
                                        down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
