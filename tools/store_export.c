/* SPDX-License-Identifier: Apache-2.0 */
/* llm-store export: one line of JSON for each message and event. store_pcap.c writes captures. */
#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "store_tool.h"

struct export
{
    struct llm_replay *replay;
    struct store_progress progress;
    uint64_t messages;
};

static void export_bitmap(const struct llm_attributes *attributes)
{
    const uint8_t *bytes = attributes->bitmap;

    printf(", \"bitmap\": \"");
    for (uint32_t i = 0; i < (attributes->bitmap_bits + 7) / 8; i++)
        printf("%02x", bytes[i]);
    printf("\"");
}

static void export_bytes(const void *bytes, size_t size)
{
    const bool text = json_is_text(bytes, size);

    printf("%s", text ? "\"text\": " : "\"base64\": ");
    if (text)
        json_string(stdout, bytes, size);
    else
        json_base64(stdout, bytes, size);
}

static void export_property(const struct llm_property *property)
{
    printf("{\"code\": %u, ", property->code);
    switch (property->type) {
    case LLM_PROPERTY_INT32:
        printf("\"int32\": %d", property->value.int32);
        break;
    case LLM_PROPERTY_INT64:
        printf("\"int64\": %" PRId64, property->value.int64);
        break;
    case LLM_PROPERTY_DOUBLE:
        /* Not a number and infinities are no JSON. */
        if (property->value.float64 - property->value.float64 == 0)
            printf("\"double\": %.17g", property->value.float64);
        else
            printf("\"double\": \"%g\"", property->value.float64);
        break;
    case LLM_PROPERTY_BYTES:
        export_bytes(property->value.bytes.data, property->value.bytes.size);
        break;
    }
    printf("}");
}

static void export_attributes(struct export *export, const struct llm_message *message)
{
    struct llm_attributes attributes;

    llm_attributes_init(&attributes);
    if (llm_replay_attributes(export->replay, message, &attributes) != LLM_OK)
        return;
    if (attributes.label == 0 && attributes.bitmap_bits == 0 && attributes.properties_count == 0)
        return;
    printf(", \"attributes\": {\"label\": %u", attributes.label);
    if (attributes.bitmap_bits > 0)
        export_bitmap(&attributes);
    if (attributes.properties_count > 0)
        printf(", \"properties\": [");
    for (uint32_t i = 0; i < attributes.properties_count; i++) {
        printf("%s", i == 0 ? "" : ", ");
        export_property(attributes.properties + i);
    }
    printf("%s}", attributes.properties_count > 0 ? "]" : "");
}

static void export_message(void *arg, const struct llm_message *message)
{
    struct export *export = arg;
    char time[STORE_TIME];

    printf("{\"session\": \"%016" PRIx64 "\", \"number\": %" PRIu64 ", \"topic\": ", message->session,
           message->number);
    json_string(stdout, message->topic, strlen(message->topic));
    printf(", \"topic_id\": %u, \"received_ns\": %" PRIu64 ", \"received\": \"%s\"", message->topic_id,
           message->received_at, store_time(time, message->received_at));
    export_attributes(export, message);
    printf(", \"size\": %u, ", message->size);
    export_bytes(message->data, message->size);
    printf("}\n");
    export->messages++;
    store_progress_note(&export->progress, export->messages, "messages");
}

static void export_event(void *arg, const struct llm_event *event)
{
    (void)arg;
    printf("{\"session\": \"%016" PRIx64 "\", \"event\": \"%s\", \"first\": %" PRIu64, event->session,
           llm_event_name(event->kind), event->first);
    if (event->kind == LLM_EVENT_GAP)
        printf(", \"last\": %" PRIu64 ", \"packets\": %" PRIu64, event->last, event->packets);
    if (event->kind == LLM_EVENT_TOPIC_NEW) {
        printf(", \"topic_id\": %u, \"topic\": ", event->topic_id);
        json_string(stdout, event->topic, strlen(event->topic));
    }
    if (event->reason != LLM_REASON_NONE)
        printf(", \"reason\": \"%s\"", llm_reason_name(event->reason));
    printf("}\n");
}

static int export_json(const struct store_arguments *arguments)
{
    const struct llm_replay_options options = store_replay_options(arguments);
    struct export export = {.replay = NULL};
    struct llm_receiver_handlers handlers;
    int delivered;

    llm_receiver_handlers_init(&handlers);
    handlers.arg = &export;
    handlers.message = export_message;
    handlers.event = export_event;
    if (llm_replay_open(arguments->directory, &options, &handlers, store_log, NULL, &export.replay) != LLM_OK)
        return STORE_FAILED;
    store_progress_begin(&export.progress, "export", 0);
    do
        delivered = llm_replay_next(export.replay, 1000);
    while (delivered > 0 && !ferror(stdout));
    store_progress_end(&export.progress);
    (void)llm_replay_close(&export.replay);
    return delivered < 0 ? STORE_FAILED : 0;
}

int store_export(const struct store_arguments *arguments)
{
    return arguments->format == STORE_FORMAT_PCAP ? store_export_pcap(arguments) : export_json(arguments);
}
