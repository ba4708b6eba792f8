/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of connections against docs/protocol.md section 13; rules for all packets are in wire.c. */
#include "wire_decode.h"

static const struct lli_wire_connect connect_value = {
    .id = SESSION,
    .session = RECEIVER,
    .message_bytes_max = 1048576,
    .payload_size = 5,
    .address = ADDRESS_VALUE,
    .payload = {'t', 'o', 'k', 'e', 'n'},
};
static const struct lli_wire_accept accept_value = {.id = SESSION,
                                                    .session = RECEIVER,
                                                    .start = 0x100010203,
                                                    .message_bytes_max = 1048576,
                                                    .address = ADDRESS_VALUE};
static const struct lli_wire_refuse refuse_value = {.id = SESSION, .code = 403, .reason = LLI_WIRE_REFUSED};
static const struct lli_wire_close close_value = {
    .id = SESSION, .reason = LLI_WIRE_LEFT, .next = 0x201020302, .address = ADDRESS_VALUE};

static void packets_of_connections_are_written_as_specified(void **state)
{
    uint8_t packet[LLI_WIRE_CONTROL_MAX];

    (void)state;
    expect_vector(&connect_vector, packet, lli_wire_put_connect(packet, &connect_value));
    expect_vector(&accept_vector, packet, lli_wire_put_accept(packet, &accept_value));
    expect_vector(&refuse_vector, packet, lli_wire_put_refuse(packet, &refuse_value));
    expect_vector(&close_vector, packet, lli_wire_put_close(packet, &close_value));
}

static void packets_of_connections_are_read_as_specified(void **state)
{
    struct decoded out;

    (void)state;
    decode_vector(&connect_vector, &out);
    assert_memory_equal(&out.connect, &connect_value, sizeof connect_value);
    decode_vector(&accept_vector, &out);
    assert_memory_equal(&out.accept, &accept_value, sizeof accept_value);
    decode_vector(&refuse_vector, &out);
    assert_memory_equal(&out.refuse, &refuse_value, sizeof refuse_value);
    decode_vector(&close_vector, &out);
    assert_memory_equal(&out.close, &close_value, sizeof close_value);
}

static void the_longest_payload_fits_and_is_read(void **state)
{
    struct lli_wire_connect connect = connect_value;
    uint8_t packet[LLI_WIRE_CONTROL_MAX];
    struct decoded out;

    (void)state;
    connect.address.size = LLI_WIRE_ADDRESS_MAX;
    connect.payload_size = LLI_WIRE_PAYLOAD_MAX;
    pattern_fill(connect.payload, sizeof connect.payload, 1);
    assert_true(decode(packet, lli_wire_put_connect(packet, &connect), &out));
    assert_memory_equal(&out.connect, &connect, sizeof connect);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    /*
     * A payload longer than the maximum, or than the packet; addresses longer than the maximum; packets not
     * of sessions.
     */
    assert_false(decode_changed(&connect_vector, 37, 2));
    assert_false(decode_changed(&connect_vector, 36, 6));
    assert_false(decode_changed(&connect_vector, 39, 32));
    assert_false(decode_changed(&accept_vector, 44, 32));
    assert_false(decode_changed(&accept_vector, 39, 128));
    assert_false(decode_changed(&close_vector, 25, 32));
}

/* All vectors have the same address, if any. */
static void addresses_are_found_without_reading_the_whole_packet(void **state)
{
    static const struct vector *const with[] = {&heartbeat_vector, &nak_vector,      &status_vector,
                                                &query_vector,     &join_ask_vector, &connect_vector,
                                                &accept_vector,    &close_vector};
    const struct lli_wire_address expected = ADDRESS_VALUE;
    struct lli_wire_address address;

    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        uint8_t bytes[VECTOR_MAX];
        const size_t size = vector_bytes(with[i], bytes);

        assert_true(
            lli_wire_get_announced(bytes[0] & 15, bytes + LLI_WIRE_HEADER, size - LLI_WIRE_HEADER, &address));
        assert_memory_equal(&address, &expected, sizeof expected);
    }
}

static void packets_of_other_types_do_not_belong_to_connections(void **state)
{
    uint8_t bytes[VECTOR_MAX];
    size_t size = vector_bytes(&connect_vector, bytes);
    struct lli_wire_header header;
    const uint8_t *body;
    size_t body_size;

    (void)state;
    for (uint8_t type = 0; type < 16; type++) {
        const bool mine = type >= LLI_WIRE_CONNECT && type <= LLI_WIRE_CLOSE;

        bytes[0] = 0x10 | type;
        assert_int_equal(lli_wire_get_connection(bytes, size, &header, &body, &body_size),
                         mine ? LLI_WIRE_OK : LLI_WIRE_TYPE_BAD);
    }
    bytes[0] = 0x1a;
    bytes[1] = 0x80; /* extensions longer than the packet */
    bytes[17] = 0xff;
    assert_int_equal(lli_wire_get_connection(bytes, size, &header, &body, &body_size), LLI_WIRE_MALFORMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_of_connections_are_written_as_specified),
        cmocka_unit_test(packets_of_connections_are_read_as_specified),
        cmocka_unit_test(the_longest_payload_fits_and_is_read),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(addresses_are_found_without_reading_the_whole_packet),
        cmocka_unit_test(packets_of_other_types_do_not_belong_to_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
