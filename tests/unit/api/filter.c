/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of attributes and filters, over the loop transport: refused calls, and delivered messages. */
#include "logged.h"

#include <stdio.h>

#include "engine/objects.h"

#define CHANNEL                                                                                      \
    "loop://filtering:1?mtu=1500&linger_ns=0&history_bytes=1M&history_packets=256&reorder_bytes=64K" \
    "&sessions_max=2&message_bytes_max=64K&topics_max=64&window_packets=64&receivers_max=4&rcvbuf_bytes=1M"

#define DISORDERED "impair+" CHANNEL "&impair_reorder_ppm=300000&impair_seed=7"

static struct llm_context *context;
static struct llm_transmitter *transmitter;
static struct llm_receiver *receiver;
static struct llm_topic *topic;
static char heard[256];
static int count;

/* Expected attributes of the next message, if they are to be read. */
static struct {
    bool reads;
    uint32_t label;
    const char *symbol; /* NULL: it has no property */
} expected;

/* Structures of every version: those of older ones are filled as far as they reach. */
static void check_sizes(const struct llm_message *message)
{
    struct {
        struct llm_attributes attributes;
        uint64_t newer;
    } given, before;

    for (size_t size = 0; size <= sizeof given; size++) {
        size_t written;
        int error = size == 0 || size % sizeof(size_t) != 0 ? LLM_EINVAL : LLM_OK;

        if (error == LLM_OK && size > sizeof given.attributes)
            error = LLM_EVERSION;
        memset(&given, 0xab, sizeof given);
        given.attributes.size = size;
        before = given;
        assert_int_equal(llm_message_attributes(receiver, message, &given.attributes), error);
        written = error == LLM_OK ? size : 0;
        assert_memory_equal((uint8_t *)&given + written, (uint8_t *)&before + written,
                            sizeof given - written);
        assert_int_equal(given.attributes.size, size);
        if (written >= offsetof(struct llm_attributes, bitmap))
            assert_int_equal(given.attributes.label, expected.label);
        if (written >= offsetof(struct llm_attributes, properties))
            assert_ptr_not_equal(given.attributes.bitmap, before.attributes.bitmap);
    }
}

static void check_message(const struct llm_message *message)
{
    const struct llm_message other = *message;
    struct llm_attributes attributes;
    struct llm_property property;

    check_sizes(message);
    llm_attributes_init(&attributes);
    assert_int_equal(llm_message_attributes(receiver, &other, &attributes), LLM_EINVAL);
    assert_int_equal(llm_message_attributes(NULL, message, &attributes), LLM_EINVAL);
    assert_int_equal(llm_message_attributes(receiver, message, NULL), LLM_EINVAL);
    assert_int_equal(llm_message_attributes(receiver, message, &attributes), LLM_OK);
    assert_int_equal(attributes.label, expected.label);
    assert_int_equal(attributes.properties_count, expected.symbol == NULL ? 0 : 4);
    assert_int_equal(attributes.bitmap_bits, 0);
    assert_int_equal(llm_message_property(receiver, message, 77, &property), LLM_ENOTFOUND);
    if (expected.symbol == NULL)
        return;
    assert_int_equal(llm_message_property(receiver, message, 40000, &property), LLM_OK);
    assert_int_equal(property.type, LLM_PROPERTY_BYTES);
    assert_int_equal(property.value.bytes.size, strlen(expected.symbol));
    assert_memory_equal(property.value.bytes.data, expected.symbol, strlen(expected.symbol));
    assert_int_equal(llm_message_property(receiver, message, 1, &property), LLM_OK);
    assert_int_equal(property.value.int32, 11);
    assert_int_equal(llm_message_property(receiver, message, 2, &property), LLM_OK);
    assert_true(property.value.float64 == 1.5);
    assert_int_equal(llm_message_property(receiver, message, 3, &property), LLM_OK);
    assert_int_equal(property.value.int64, (int64_t)11 << 32);
}

static void on_message(void *arg, const struct llm_message *message)
{
    struct llm_attributes attributes = {.size = sizeof attributes};

    (void)arg;
    if (expected.reads)
        check_message(message);
    else
        (void)llm_message_attributes(receiver, message, &attributes);
    heard[count++] = message->size > 0 ? *(const char *)message->data : '-';
}

static void on_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    assert_int_not_equal(event->kind, LLM_EVENT_GAP);
}

static int up(void **state)
{
    struct llm_context_options options;
    struct llm_receiver_handlers handlers;

    (void)state;
    memset(heard, 0, sizeof heard);
    count = 0;
    expected.reads = false;
    llm_context_options_init(&options);
    options.log = log_keep;
    options.huge_pages = false;
    assert_int_equal(llm_context_open(&options, &context), LLM_OK);
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_open(context, CHANNEL, NULL, &handlers, &receiver), LLM_OK);
    assert_int_equal(llm_transmitter_open(context, CHANNEL, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    return 0;
}

static int down(void **state)
{
    (void)state;
    assert_int_equal(llm_context_close(&context), LLM_OK);
    return 0;
}

static struct llm_attributes attributes_of(uint32_t label, const void *bitmap, uint32_t bits)
{
    struct llm_attributes attributes;

    llm_attributes_init(&attributes);
    attributes.label = label;
    attributes.bitmap = bitmap;
    attributes.bitmap_bits = bits;
    return attributes;
}

static int send_labelled(uint32_t label, const char *text, unsigned flags)
{
    const struct llm_attributes attributes = attributes_of(label, NULL, 0);

    return llm_send_with(topic, text, strlen(text), &attributes, flags);
}

static const char *polled(void)
{
    for (int i = 0; i < 20; i++)
        assert_true(llm_poll(context) >= 0);
    return heard;
}

static int filter_labels(const struct llm_label_match *labels, uint32_t labels_count)
{
    struct llm_filter filter;

    llm_filter_init(&filter);
    filter.labels = labels;
    filter.labels_count = labels_count;
    return llm_receiver_filter(receiver, &filter);
}

/* -------------------------------------------------------------------------------------------------- tests */

static void labels_are_chosen_by_mask_and_match(void **state)
{
    const struct llm_label_match labels[] = {{0xff, 1}, {0xf00, 0x200}};
    uint64_t rejected = 0;

    (void)state;
    assert_int_equal(filter_labels(labels, 2), LLM_OK);
    assert_int_equal(send_labelled(0x101, "a", 0), LLM_OK);
    assert_int_equal(send_labelled(0x102, "b", LLM_SEND_MORE), LLM_OK);
    assert_int_equal(send_labelled(0x2ff, "c", LLM_SEND_NOW), LLM_OK);
    assert_int_equal(llm_send(topic, "d", 1, 0), LLM_OK);
    assert_int_equal(send_labelled(0, "e", 0), LLM_OK);
    assert_string_equal(polled(), "ac");
    assert_int_equal(llm_context_counter(context, "messages_rejected", &rejected), LLM_OK);
    assert_int_equal(rejected, 3);
    /* Without the filter all messages come, and none between is missing. */
    assert_int_equal(llm_receiver_filter(receiver, NULL), LLM_OK);
    assert_int_equal(send_labelled(0x102, "f", 0), LLM_OK);
    assert_int_equal(llm_send(topic, "g", 1, 0), LLM_OK);
    assert_string_equal(polled(), "acfg");
}

static void bitmaps_are_chosen_by_a_bit_or_by_all(void **state)
{
    static const uint8_t mask[] = {0x01, 0x80}, match[] = {0x01, 0x00},
                         sent[][2] = {{0x01, 0x80}, {0x03, 0x7f}, {0xfe, 0x7f}};
    struct llm_attributes attributes;
    struct llm_filter filter;

    (void)state;
    for (int with_match = 0; with_match < 2; with_match++) {
        llm_filter_init(&filter);
        filter.bitmap_mask = mask;
        filter.bitmap_bits = 16;
        filter.bitmap_match = with_match ? match : NULL;
        assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_OK);
        for (int i = 0; i < 3; i++) {
            const char text = (char)('a' + i);

            attributes = attributes_of(7, sent[i], 16);
            assert_int_equal(llm_send_with(topic, &text, 1, &attributes, 0), LLM_OK);
        }
        /* The second bitmap has no bits 8 to 15. */
        attributes = attributes_of(7, sent[0], 1);
        assert_int_equal(llm_send_with(topic, "d", 1, &attributes, 0), LLM_OK);
        assert_int_equal(llm_send(topic, "e", 1, 0), LLM_OK);
        (void)polled();
    }
    assert_string_equal(heard, "abdbd");
}

static int send_order(int32_t quantity, double price, const char *symbol)
{
    const struct llm_property properties[] = {
        {.code = 1, .type = LLM_PROPERTY_INT32, .value.int32 = quantity},
        {.code = 2, .type = LLM_PROPERTY_DOUBLE, .value.float64 = price},
        {.code = 40000, .type = LLM_PROPERTY_BYTES, .value.bytes = {symbol, (uint32_t)strlen(symbol)}},
        {.code = 3, .type = LLM_PROPERTY_INT64, .value.int64 = (int64_t)quantity << 32},
    };
    struct llm_attributes attributes = attributes_of(9, NULL, 0);

    attributes.properties = properties;
    attributes.properties_count = 4;
    return llm_send_with(topic, symbol, strlen(symbol), &attributes, 0);
}

static const struct llm_property_name order_names[] = {
    {"quantity", 1}, {"price", 2}, {"symbol", 40000}, {"value", 3}, {"other", 4}};

static int filter_selector(const char *selector)
{
    struct llm_filter filter;

    llm_filter_init(&filter);
    filter.selector = selector;
    filter.names = order_names;
    filter.names_count = 5;
    return llm_receiver_filter(receiver, &filter);
}

static void properties_are_selected(void **state)
{
    (void)state;
    assert_int_equal(
        filter_selector("quantity > 10 AND price BETWEEN 1.5 AND 2 AND symbol LIKE 'a%' AND other IS NULL"),
        LLM_OK);
    assert_int_equal(send_order(11, 1.5, "abc"), LLM_OK);
    assert_int_equal(send_order(10, 1.5, "bbc"), LLM_OK);
    assert_int_equal(send_order(11, 2.5, "a"), LLM_OK);
    assert_int_equal(send_order(11, 2, "xa"), LLM_OK);
    assert_int_equal(llm_send(topic, "plain", 5, 0), LLM_OK);
    assert_string_equal(polled(), "a");
    /* A message without properties is selected if no condition requires one. */
    assert_int_equal(filter_selector("value = 47244640256 OR symbol IS NULL"), LLM_OK);
    assert_int_equal(send_order(11, 1.5, "v"), LLM_OK);
    assert_int_equal(send_order(12, 1.5, "w"), LLM_OK);
    assert_int_equal(llm_send(topic, "plain", 5, 0), LLM_OK);
    assert_string_equal(polled(), "avp");
}

/* Also of a message that is reassembled from several packets. */
static void handlers_read_the_attributes_of_a_message(void **state)
{
    static char large[4000];
    struct llm_filter filter;
    struct llm_attributes attributes = {.size = sizeof attributes};
    const struct llm_message none = {.size = 0};

    (void)state;
    assert_int_equal(llm_message_attributes(receiver, &none, &attributes), LLM_ESTATE);
    llm_filter_init(&filter);
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_OK);
    assert_int_equal(llm_message_attributes(receiver, &none, &attributes), LLM_EINVAL);
    expected.reads = true;
    expected.label = 9;
    for (int i = 0; i < 2; i++) {
        expected.symbol = "abc";
        assert_int_equal(send_order(11, 1.5, "abc"), LLM_OK);
        (void)polled();
        expected.symbol = NULL;
        assert_int_equal(send_labelled(9, "d", 0), LLM_OK);
        (void)polled();
        memset(large, 'e', sizeof large - 1);
        assert_int_equal(send_labelled(9, large, 0), LLM_OK);
        (void)polled();
        expected.label = 0;
        assert_int_equal(llm_send(topic, "f", 1, 0), LLM_OK);
        (void)polled();
        assert_int_equal(llm_send(topic, large, sizeof large, 0), LLM_OK);
        (void)polled();
        expected.label = 9;
    }
    assert_string_equal(heard, "adefeadefe");
}

/* A filter without a condition discards no message. */
static void only_a_filter_without_conditions_acknowledges_messages(void **state)
{
    struct llm_assurance assurance;
    struct llm_filter filter;
    uint64_t waiting = 1;

    (void)state;
    llm_assurance_init(&assurance);
    assert_int_equal(llm_topic_assure(topic, &assurance), LLM_OK);
    llm_filter_init(&filter);
    for (int i = 0; i < 2; i++) {
        filter.selector = i == 0 ? NULL : "TRUE";
        assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_OK);
        assert_int_equal(send_labelled(1, "a", 0), LLM_OK);
        for (uint64_t until = llm_clock() + UINT64_C(300000000); llm_clock() < until;)
            assert_true(llm_poll(context) >= 0);
        assert_int_equal(llm_context_counter(context, "messages_unacknowledged", &waiting), LLM_OK);
        assert_int_equal(waiting, (uint64_t)i);
    }
    assert_string_equal(heard, "aa");
}

static void a_bad_selector_is_refused_with_its_column(void **state)
{
    struct llm_filter filter;

    (void)state;
    assert_int_equal(filter_selector("quantity > 10"), LLM_OK);
    assert_int_equal(filter_selector("quantity > 10 AND prize = 1"), LLM_EINVAL);
    assert_non_null(strstr(logged, "column 19"));
    assert_non_null(strstr(logged, "prize = 1"));
    assert_int_equal(filter_selector(""), LLM_EINVAL);
    assert_non_null(strstr(logged, "column 1"));
    llm_filter_init(&filter);
    filter.selector = "TRUE";
    filter.names_count = 1;
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_EINVAL);
    /* The previous filter stays in force. */
    assert_int_equal(send_order(9, 1, "a"), LLM_OK);
    assert_int_equal(send_order(11, 1, "b"), LLM_OK);
    assert_string_equal(polled(), "b");
}

static void invalid_properties_are_refused(void **state)
{
    static uint8_t bytes[600];
    struct llm_property properties[] = {{.code = 5, .type = LLM_PROPERTY_INT32},
                                        {.code = 5, .type = LLM_PROPERTY_INT32}};
    struct llm_attributes attributes = attributes_of(0, NULL, 0);

    (void)state;
    attributes.properties_count = 2;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    attributes.properties = properties;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    assert_non_null(strstr(logged, "property 5 is there twice"));
    properties[1] = (struct llm_property){.code = 6, .type = (enum llm_property_type)9};
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    assert_non_null(strstr(logged, "type 9"));
    properties[1] = (struct llm_property){.code = 6, .type = LLM_PROPERTY_BYTES, .value.bytes = {NULL, 1}};
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    properties[1].value.bytes.data = bytes;
    properties[1].value.bytes.size = UINT32_MAX;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EMSGSIZE);
    assert_non_null(strstr(logged, "property 6"));
    /* 8 bytes of the frame, 7 of the first property, and 5 of this one. */
    properties[1].value.bytes.size = 512 - 20 + 1;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EMSGSIZE);
    properties[1].value.bytes.size = 512 - 20;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_OK);
    assert_string_equal(polled(), "a");
}

static void unsatisfiable_conditions_are_refused_and_change_nothing(void **state)
{
    const struct llm_label_match never = {.mask = 0x0f, .match = 0x1f}, label = {.mask = 1, .match = 1};
    struct llm_label_match many[LLM_LABELS_MAX + 1] = {{.mask = 0}};
    static const uint8_t zero[32] = {0}, one[32] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
    struct {
        struct llm_filter filter;
        uint64_t more;
    } newer = {.more = 1};
    struct llm_filter filter;

    (void)state;
    llm_filter_init(&newer.filter);
    assert_int_equal(filter_labels(&label, 1), LLM_OK);
    assert_int_equal(filter_labels(&never, 1), LLM_EINVAL);
    assert_non_null(strstr(logged, "0000001f"));
    assert_int_equal(filter_labels(many, LLM_LABELS_MAX + 1), LLM_EINVAL);
    assert_non_null(strstr(logged, "17"));
    assert_int_equal(filter_labels(NULL, 1), LLM_EINVAL);
    llm_filter_init(&filter);
    filter.bitmap_mask = zero;
    filter.bitmap_bits = 256;
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_EINVAL);
    assert_non_null(strstr(logged, "bitmap_mask has no bit set"));
    filter.bitmap_match = one;
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_EINVAL);
    assert_non_null(strstr(logged, "bits 64 to 127"));
    filter.bitmap_bits = 257;
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_EINVAL);
    filter.bitmap_mask = NULL;
    assert_int_equal(llm_receiver_filter(receiver, &filter), LLM_EINVAL);
    newer.filter.size = sizeof newer;
    assert_int_equal(llm_receiver_filter(receiver, &newer.filter), LLM_EVERSION);
    assert_int_equal(llm_receiver_filter(NULL, NULL), LLM_EINVAL);
    assert_int_equal(send_labelled(1, "a", 0), LLM_OK);
    assert_int_equal(send_labelled(2, "b", 0), LLM_OK);
    assert_string_equal(polled(), "a");
}

static void invalid_attributes_are_refused(void **state)
{
    static uint8_t bytes[33], large[1 << 20];
    struct llm_attributes attributes = attributes_of(1, bytes, 257);
    uint64_t next = llm_transmitter_next(transmitter);
    void *claim;

    (void)state;
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    assert_non_null(strstr(logged, "257"));
    attributes = attributes_of(1, NULL, 8);
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_EINVAL);
    attributes = attributes_of(1, bytes, 256);
    assert_int_equal(llm_send_with(NULL, "a", 1, &attributes, 0), LLM_EINVAL);
    assert_int_equal(llm_send_with(topic, NULL, 1, &attributes, 0), LLM_EINVAL);
    assert_int_equal(llm_send_with(topic, "a", 1, NULL, 0), LLM_EINVAL);
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 77), LLM_EINVAL);
    assert_int_equal(llm_send_with(topic, large, sizeof large, &attributes, 0), LLM_EMSGSIZE);
    assert_int_equal(llm_topic_claim(topic, 10, &claim), LLM_OK);
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_ESTATE);
    assert_int_equal(llm_topic_commit(topic, 10, 0), LLM_OK);
    assert_int_equal(llm_transmitter_next(transmitter), next + 1);
    /* Later messages are sent normally. */
    assert_int_equal(llm_send_with(topic, "a", 1, &attributes, 0), LLM_OK);
    assert_int_equal(llm_send(topic, "b", 1, 0), LLM_OK);
    assert_int_equal(strlen(polled() + 1), 2);
    assert_string_equal(heard + 1, "ab");
}

static void sends_with_attributes_report_a_full_history(void **state)
{
    static uint8_t large[1000];
    const struct llm_attributes attributes = attributes_of(1, NULL, 0);
    int error = LLM_OK, sent = 0;

    (void)state;
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    for (; sent < 5000 && error == LLM_OK; sent++)
        error = llm_send_with(topic, large, sizeof large, &attributes, LLM_SEND_MORE);
    assert_true(error == LLM_OK || error == LLM_EAGAIN);
    assert_int_equal(llm_transmitter_next(transmitter), (uint64_t)sent - (error != LLM_OK));
}

/* The messages are shorter and longer than packets, of topics with and without LLM_TOPIC_WHOLE. */
static void filtered_messages_of_all_sizes_arrive_whole(void **state)
{
    static char large[40000];
    struct llm_topic *whole;
    const struct llm_label_match label = {.mask = 1, .match = 1};
    uint64_t delivered = 0, rejected = 0;

    (void)state;
    memset(large, 'x', sizeof large);
    assert_int_equal(llm_topic_open(transmitter, "whole", LLM_TOPIC_WHOLE, &whole), LLM_OK);
    assert_int_equal(filter_labels(&label, 1), LLM_OK);
    for (uint32_t i = 0; i < 200; i++) {
        const struct llm_attributes attributes = attributes_of(i, NULL, 0);

        assert_int_equal(
            llm_send_with(i % 3 == 0 ? whole : topic, large, i * 197, &attributes, LLM_SEND_MORE), LLM_OK);
        assert_true(llm_poll(context) >= 0);
    }
    (void)polled();
    assert_int_equal(count, 100);
    assert_int_equal(llm_context_counter(context, "messages_delivered", &delivered), LLM_OK);
    assert_int_equal(llm_context_counter(context, "messages_rejected", &rejected), LLM_OK);
    assert_int_equal(delivered, 100);
    assert_int_equal(rejected, 100);
}

/* The network reorders packets, so sequence and arrival differ. */
static void unordered_messages_are_filtered(void **state)
{
    const struct llm_label_match label = {.mask = 1, .match = 1};
    struct llm_receiver_handlers handlers;
    uint64_t ahead = 0;

    (void)state;
    llm_receiver_handlers_init(&handlers);
    handlers.message = on_message;
    handlers.event = on_event;
    assert_int_equal(llm_receiver_close(&receiver), LLM_OK);
    assert_int_equal(llm_transmitter_close(&transmitter), LLM_OK);
    assert_int_equal(llm_receiver_open(context, DISORDERED "&order=arrival", NULL, &handlers, &receiver),
                     LLM_OK);
    assert_int_equal(llm_transmitter_open(context, DISORDERED, NULL, NULL, &transmitter), LLM_OK);
    assert_int_equal(llm_topic_open(transmitter, "t", 0, &topic), LLM_OK);
    assert_int_equal(filter_labels(&label, 1), LLM_OK);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(send_labelled(i, i % 2 ? "w" : "x", 0), LLM_OK);
        assert_true(llm_poll(context) >= 0);
    }
    /* A packet that the network holds back comes with the next one, such as a heartbeat. */
    while (count < 100)
        (void)polled();
    assert_int_equal(strspn(polled(), "w"), 100);
    assert_int_equal(count, 100);
    assert_int_equal(llm_context_counter(context, "messages_unordered", &ahead), LLM_OK);
    assert_true(ahead > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(labels_are_chosen_by_mask_and_match, up, down),
        cmocka_unit_test_setup_teardown(bitmaps_are_chosen_by_a_bit_or_by_all, up, down),
        cmocka_unit_test_setup_teardown(properties_are_selected, up, down),
        cmocka_unit_test_setup_teardown(handlers_read_the_attributes_of_a_message, up, down),
        cmocka_unit_test_setup_teardown(only_a_filter_without_conditions_acknowledges_messages, up, down),
        cmocka_unit_test_setup_teardown(a_bad_selector_is_refused_with_its_column, up, down),
        cmocka_unit_test_setup_teardown(invalid_properties_are_refused, up, down),
        cmocka_unit_test_setup_teardown(unsatisfiable_conditions_are_refused_and_change_nothing, up, down),
        cmocka_unit_test_setup_teardown(invalid_attributes_are_refused, up, down),
        cmocka_unit_test_setup_teardown(sends_with_attributes_report_a_full_history, up, down),
        cmocka_unit_test_setup_teardown(filtered_messages_of_all_sizes_arrive_whole, up, down),
        cmocka_unit_test_setup_teardown(unordered_messages_are_filtered, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
