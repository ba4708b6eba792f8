/* SPDX-License-Identifier: Apache-2.0 */
/* Public API of message attributes, and of filters. */
#include "engine/objects.h"
#include "config/options.h"

void llm_attributes_init(struct llm_attributes *attributes)
{
    if (attributes == NULL)
        return;
    *attributes = (struct llm_attributes){.size = sizeof *attributes};
}

void llm_filter_init(struct llm_filter *filter)
{
    if (filter == NULL)
        return;
    *filter = (struct llm_filter){.size = sizeof *filter};
}

/* ------------------------------------------------------------------------------------------- attributes */

/* Returns the size of a property's value after its code and type; 0: unknown type. */
static uint64_t property_size(const struct llm_property *property)
{
    switch (property->type) {
    case LLM_PROPERTY_INT32:
        return 4;
    case LLM_PROPERTY_INT64:
    case LLM_PROPERTY_DOUBLE:
        return 8;
    case LLM_PROPERTY_BYTES:
        return 2 + (uint64_t)property->value.bytes.size;
    }
    return 0;
}

static uint8_t *property_put(uint8_t *at, const struct llm_property *property)
{
    uint64_t bits;

    lli_store_u16(at, property->code);
    at[2] = (uint8_t)property->type;
    at += 3;
    switch (property->type) {
    case LLM_PROPERTY_INT32:
        lli_store_u32(at, (uint32_t)property->value.int32);
        break;
    case LLM_PROPERTY_INT64:
        lli_store_u64(at, (uint64_t)property->value.int64);
        break;
    case LLM_PROPERTY_DOUBLE:
        memcpy(&bits, &property->value.float64, sizeof bits);
        lli_store_u64(at, bits);
        break;
    case LLM_PROPERTY_BYTES:
        lli_store_u16(at, (uint16_t)property->value.bytes.size);
        if (property->value.bytes.size > 0)
            memcpy(at + 2, property->value.bytes.data, property->value.bytes.size);
        break;
    }
    return at + property_size(property);
}

/* Writes the frame of checked attributes. */
static void attributes_put(const struct llm_attributes *attributes, struct lli_pack_attributes *frame)
{
    const uint32_t bitmap = (attributes->bitmap_bits + 7) / 8;
    uint8_t *at = frame->frame + LLI_FRAME_HEAD;

    frame->label = attributes->label;
    frame->frame[0] = LLI_FRAME_ATTRIBUTES;
    lli_store_u32(at, attributes->label);
    at += 4;
    if (bitmap > 0 || attributes->properties_count > 0)
        *at++ = (uint8_t)bitmap;
    if (bitmap > 0)
        memcpy(at, attributes->bitmap, bitmap);
    at += bitmap;
    for (uint32_t i = 0; i < attributes->properties_count; i++)
        at = property_put(at, &attributes->properties[i]);
    frame->size = (uint32_t)(at - frame->frame);
    lli_store_u16(frame->frame + 1, (uint16_t)(frame->size - LLI_FRAME_HEAD));
}

/* Checks that the attributes fit into a frame, and that each property has a known type and a unique code. */
static int properties_check(const struct llm_topic *topic, const struct llm_attributes *attributes)
{
    const struct lli_log *log = &topic->transmitter->context->log;
    uint64_t size = LLI_FRAME_HEAD + 5 + (attributes->bitmap_bits + 7) / 8;

    if (attributes->properties == NULL && attributes->properties_count > 0)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": properties_count is %u and properties NULL",
                        topic->name, attributes->properties_count);
    for (uint32_t i = 0; i < attributes->properties_count; i++) {
        const struct llm_property *property = &attributes->properties[i];

        if (property_size(property) == 0)
            return lli_fail(log, LLM_EINVAL,
                            "topic \"%s\": property %u: type %d is not of enum llm_property_type",
                            topic->name, property->code, (int)property->type);
        if (property->type == LLM_PROPERTY_BYTES && property->value.bytes.data == NULL &&
            property->value.bytes.size > 0)
            return lli_fail(log, LLM_EINVAL, "topic \"%s\": property %u: data is NULL", topic->name,
                            property->code);
        size += 3 + property_size(property);
        if (size > LLI_FRAME_ATTRIBUTES_MAX)
            return lli_fail(log, LLM_EMSGSIZE,
                            "topic \"%s\": attributes take more than %d bytes, from property %u on",
                            topic->name, LLI_FRAME_ATTRIBUTES_MAX, property->code);
        for (uint32_t before = 0; before < i; before++)
            if (attributes->properties[before].code == property->code)
                return lli_fail(log, LLM_EINVAL, "topic \"%s\": property %u is there twice", topic->name,
                                property->code);
    }
    return LLM_OK;
}

static int attributes_check(const struct llm_topic *topic, const struct llm_attributes *attributes)
{
    const struct lli_log *log = &topic->transmitter->context->log;

    if (attributes->bitmap_bits > LLM_BITMAP_BITS_MAX)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": a bitmap of %u bits, it has at most %d", topic->name,
                        attributes->bitmap_bits, LLM_BITMAP_BITS_MAX);
    if (attributes->bitmap == NULL && attributes->bitmap_bits > 0)
        return lli_fail(log, LLM_EINVAL, "topic \"%s\": bitmap_bits is %u and bitmap NULL", topic->name,
                        attributes->bitmap_bits);
    return properties_check(topic, attributes);
}

static int filtering_send(struct llm_topic *topic, const struct iovec *pieces,
                          const struct llm_attributes *user, unsigned flags)
{
    struct llm_transmitter *transmitter = topic->transmitter;
    const struct lli_log *log = &transmitter->context->log;
    struct lli_pack *pack = &transmitter->tx.pack;
    struct llm_attributes attributes;
    struct lli_pack_attributes frame;
    int error;

    if (flags > LLI_SEND_FLAGS)
        return lli_refuse_flags(topic, flags);
    llm_attributes_init(&attributes);
    error = lli_options_import(&attributes, sizeof attributes, user, "struct llm_attributes", log);
    if (error == LLM_OK)
        error = attributes_check(topic, &attributes);
    if (error != LLM_OK)
        return error;
    if (transmitter->claimed != NULL)
        return lli_refuse_claimed(transmitter, topic->name);
    attributes_put(&attributes, &frame);
    if (frame.size > lli_pack_attributes_max(pack))
        return lli_fail(log, LLM_EMSGSIZE, "topic \"%s\": attributes of %u bytes, a packet has room for %u",
                        topic->name, frame.size, lli_pack_attributes_max(pack));
    if (pieces[0].iov_len + LLI_FRAME_ATTRIBUTES_MAX + LLI_FRAME_SUMMARY_SIZE >
        lli_tx_message_max(&transmitter->tx))
        return lli_refuse(transmitter->context, LLM_EMSGSIZE,
                          "topic \"%s\": a message of %zu bytes with attributes: at most %llu, by "
                          "history_bytes: raise it, or split the message",
                          topic->name, pieces[0].iov_len,
                          (unsigned long long)lli_tx_message_max(&transmitter->tx) -
                              LLI_FRAME_ATTRIBUTES_MAX - LLI_FRAME_SUMMARY_SIZE);
    lli_pack_attribute(pack, &frame);
    /* In two pieces: the fast paths take one. */
    error = llm_sendv(topic, pieces, 2, flags);
    lli_pack_attribute(pack, NULL);
    return error;
}

int llm_send_with(struct llm_topic *topic, const void *data, size_t size,
                  const struct llm_attributes *attributes, unsigned flags)
{
    const struct iovec pieces[] = {{.iov_base = (void *)(uintptr_t)data, .iov_len = size},
                                   {.iov_base = (void *)(uintptr_t) ""}};
    int error;

    if (topic == NULL)
        return LLM_EINVAL;
    if (attributes == NULL)
        return lli_refuse(topic->transmitter->context, LLM_EINVAL,
                          "topic \"%s\": attributes is NULL: llm_attributes_init() makes some, and "
                          "llm_send() sends without",
                          topic->name);
    if (data == NULL && size > 0)
        return lli_refuse_data(topic, size);
    if (size > UINT32_MAX)
        return lli_refuse_size(topic, size);
    if (!lli_context_enter(topic->transmitter->context))
        return LLM_ESTATE;
    error = filtering_send(topic, pieces, attributes, flags);
    lli_context_leave(topic->transmitter->context);
    return error;
}

/* --------------------------------------------------------------------------------------------- filters */

static int filtering_labels(const struct llm_receiver *receiver, const struct llm_filter *user,
                            struct lli_filter *filter)
{
    const struct lli_log *log = &receiver->context->log;

    if (user->labels_count > LLM_LABELS_MAX || (user->labels == NULL && user->labels_count > 0))
        return lli_fail(log, LLM_EINVAL,
                        "filter: labels_count: %u, there can be at most %d, and labels must not be NULL then",
                        user->labels_count, LLM_LABELS_MAX);
    for (uint32_t i = 0; i < user->labels_count; i++) {
        const struct llm_label_match *label = &user->labels[i];

        if (label->match & ~label->mask)
            return lli_fail(log, LLM_EINVAL,
                            "filter: labels[%u]: match %08x has bits outside of mask %08x, so no label "
                            "matches: set them in the mask, or clear them",
                            i, label->match, label->mask);
        filter->labels[i] = *label;
    }
    filter->labels_count = user->labels_count;
    return LLM_OK;
}

/* Copies the bits of a bitmap. Returns true if one is set. */
static bool filtering_words(const void *bitmap, uint32_t bits, uint64_t *words)
{
    bool some = false;

    for (uint32_t i = 0; i < bits; i++) {
        const uint64_t bit = ((const uint8_t *)bitmap)[i / 8] >> i % 8 & 1;

        words[i / 64] |= bit << i % 64;
        some |= bit != 0;
    }
    return some;
}

static int filtering_bitmap(const struct llm_receiver *receiver, const struct llm_filter *user,
                            struct lli_filter *filter)
{
    const struct lli_log *log = &receiver->context->log;

    if (user->bitmap_mask == NULL && (user->bitmap_bits > 0 || user->bitmap_match != NULL))
        return lli_fail(log, LLM_EINVAL, "filter: bitmap_mask is NULL, but not bitmap_bits and bitmap_match");
    if (user->bitmap_mask == NULL)
        return LLM_OK;
    if (user->bitmap_bits < 1 || user->bitmap_bits > LLM_BITMAP_BITS_MAX)
        return lli_fail(log, LLM_EINVAL, "filter: bitmap_bits: %u is not between 1 and %d", user->bitmap_bits,
                        LLM_BITMAP_BITS_MAX);
    filter->bitmap = true;
    filter->any = user->bitmap_match == NULL;
    if (!filtering_words(user->bitmap_mask, user->bitmap_bits, filter->mask) && filter->any)
        return lli_fail(log, LLM_EINVAL,
                        "filter: bitmap_mask has no bit set, so no message matches: set one, or leave it "
                        "NULL");
    if (!filter->any)
        (void)filtering_words(user->bitmap_match, user->bitmap_bits, filter->match);
    for (unsigned i = 0; i < LLI_FILTER_WORDS; i++)
        if (filter->match[i] & ~filter->mask[i])
            return lli_fail(log, LLM_EINVAL,
                            "filter: bitmap_match has bits outside of bitmap_mask, in bits %u to %u, so no "
                            "message matches: set them in the mask, or clear them",
                            i * 64, i * 64 + 63);
    return LLM_OK;
}

static int filtering_selector(const struct llm_receiver *receiver, const struct llm_filter *user,
                              struct lli_filter *filter)
{
    const struct lli_log *log = &receiver->context->log;
    struct lli_selector_fault fault;

    if (user->selector == NULL)
        return LLM_OK;
    if (user->names == NULL && user->names_count > 0)
        return lli_fail(log, LLM_EINVAL, "filter: names_count is %u and names NULL", user->names_count);
    for (uint32_t i = 0; i < user->names_count; i++)
        if (user->names[i].name == NULL)
            return lli_fail(log, LLM_EINVAL, "filter: names[%u]: name is NULL", i);
    if (lli_selector_compile(&filter->selector, user->selector, user->names, user->names_count, &fault))
        return LLM_OK;
    return lli_fail(log, LLM_EINVAL, "filter: selector, column %u, at \"%.32s\": %s", fault.column,
                    user->selector + lli_min(fault.column - 1, strlen(user->selector)), fault.text);
}

static int filtering_set(struct llm_receiver *receiver, const struct llm_filter *given)
{
    struct lli_filter filter = {.labels_count = 0};
    struct llm_filter user;
    int error;

    llm_filter_init(&user);
    error = lli_options_import(&user, sizeof user, given, "struct llm_filter", &receiver->context->log);
    if (error == LLM_OK)
        error = filtering_labels(receiver, &user, &filter);
    if (error == LLM_OK)
        error = filtering_bitmap(receiver, &user, &filter);
    if (error == LLM_OK)
        error = filtering_selector(receiver, &user, &filter);
    if (error != LLM_OK)
        return error;
    lli_filter_finish(&filter);
    receiver->filter = filter;
    return LLM_OK;
}

int llm_receiver_filter(struct llm_receiver *receiver, const struct llm_filter *filter)
{
    int error = LLM_OK;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    if (filter != NULL)
        error = filtering_set(receiver, filter);
    if (error == LLM_OK) {
        receiver->config.filter = filter == NULL ? NULL : &receiver->filter;
        for (uint32_t i = 0; i < receiver->sessions_used; i++)
            lli_rx_filter(&receiver->sessions[i]);
    }
    lli_context_leave(receiver->context);
    return error;
}

/* ------------------------------------------------------------------------------------------ in handlers */

/* Returns the attributes of a message for which a handler of the receiver runs. */
static int filtering_attributes(const struct llm_receiver *receiver, const struct llm_message *message,
                                struct lli_attributes *attributes)
{
    struct lli_rx_frame frame;

    if (receiver->config.filter == NULL)
        return lli_refuse(receiver->context, LLM_ESTATE,
                          "%s: attributes are not read without a filter: set one with llm_receiver_filter(), "
                          "one without a condition will do",
                          receiver->object);
    for (uint32_t i = 0; i < receiver->sessions_used; i++) {
        if (!lli_rx_attributes(&receiver->sessions[i], message, &frame))
            continue;
        if (message->session != receiver->sessions[i].session)
            continue;
        (void)lli_attributes_get(frame.bytes, frame.size, attributes);
        return LLM_OK;
    }
    return lli_refuse(receiver->context, LLM_EINVAL,
                      "%s: message %llu is not one that the running handler was called with: attributes "
                      "last as long as the handler runs",
                      receiver->object, (unsigned long long)message->number);
}

/* Reports the bitmap as it is in the frame, before the properties. Writes no more than to->size bytes. */
static void filtering_report(const struct lli_attributes *from, struct llm_attributes *to)
{
    struct lli_reader reader = lli_reader_of(from->properties, from->properties_size);
    struct llm_property property;
    struct llm_attributes read = {.size = to->size,
                                  .label = from->label,
                                  .bitmap_bits = 8 * from->bitmap_size,
                                  .bitmap = from->bitmap_bytes};

    while (lli_property_next(&reader, &property))
        read.properties_count++;
    memcpy(to, &read, read.size);
}

int llm_message_attributes(struct llm_receiver *receiver, const struct llm_message *message,
                           struct llm_attributes *attributes)
{
    struct llm_attributes checked;
    struct lli_attributes read;
    int error;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (message == NULL || attributes == NULL)
        return lli_refuse(receiver->context, LLM_EINVAL,
                          "llm_message_attributes: %s is NULL: it has to be given",
                          message == NULL ? "message" : "attributes");
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    error = lli_options_import(&checked, sizeof checked, attributes, "struct llm_attributes",
                               &receiver->context->log);
    if (error == LLM_OK)
        error = filtering_attributes(receiver, message, &read);
    if (error == LLM_OK)
        filtering_report(&read, attributes);
    lli_context_leave(receiver->context);
    return error;
}

static int filtering_property(const struct lli_attributes *attributes, uint16_t code,
                              struct llm_property *property)
{
    struct lli_reader reader = lli_reader_of(attributes->properties, attributes->properties_size);
    struct llm_property read;

    while (lli_property_next(&reader, &read)) {
        if (read.code != code)
            continue;
        *property = read;
        return LLM_OK;
    }
    return LLM_ENOTFOUND;
}

int llm_message_property(struct llm_receiver *receiver, const struct llm_message *message, uint16_t code,
                         struct llm_property *property)
{
    struct lli_attributes read;
    int error;

    if (receiver == NULL)
        return LLM_EINVAL;
    if (message == NULL || property == NULL)
        return lli_refuse(receiver->context, LLM_EINVAL,
                          "llm_message_property: %s is NULL: it has to be given",
                          message == NULL ? "message" : "property");
    if (!lli_context_enter(receiver->context))
        return LLM_ESTATE;
    error = filtering_attributes(receiver, message, &read);
    if (error == LLM_OK)
        error = filtering_property(&read, code, property);
    lli_context_leave(receiver->context);
    return error;
}
