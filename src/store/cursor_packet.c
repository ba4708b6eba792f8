/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of recordings with keys. */
#include <inttypes.h>

#include "core/protect/protect.h"
#include "store/cursor_internal.h"

/* Epoch of a packet of version 2; 0: it contradicts itself. */
static uint16_t packet_epoch(const struct lli_record *record)
{
    struct lli_protect_fields fields;
    struct lli_protect_parts parts;

    return lli_protect_parse(record->data, record->size, &fields, &parts) ? fields.epoch : 0;
}

bool lli_cursor_packet(struct lli_cursor *cursor, const struct lli_record *record, const uint8_t **data,
                       uint32_t *size, struct lli_unopened *unopened)
{
    struct lli_opener *opener = cursor->catalogue->opener;
    const bool hidden = record->kind == LLI_RECORD_HIDDEN_NAME;
    enum lli_opened opened;

    *data = record->data;
    *size = record->size;
    if (!hidden && (record->kind == LLI_RECORD_NAME || !lli_protect_is(record->data, record->size)))
        return true;
    opened = hidden ? lli_opener_take_name(opener, cursor->session, record->topic, record->data, record->size,
                                           data, size)
                    : lli_opener_take(opener, cursor->session, record->packet, record->data, record->size,
                                      data, size);
    if (opened == LLI_OPENED)
        return true;
    *unopened = (struct lli_unopened){.is_set = true,
                                      .packet = record->packet,
                                      .epoch = packet_epoch(record),
                                      .has_key = opened == LLI_OPENED_DAMAGED};
    return false;
}

int lli_cursor_refuse(const struct lli_cursor *cursor, const struct lli_unopened *unopened)
{
    const bool given = cursor->catalogue->opener != NULL;

    return lli_fail(
        &cursor->log, LLM_EACCESS,
        "store %s: session %016" PRIx64 ": packet %" PRIu64 " is protected by a key of epoch %u: %s",
        cursor->catalogue->directory, cursor->session, unopened->packet, unopened->epoch,
        unopened->has_key ? "the key file has another key of that number: give the file of that channel"
        : given ? "the key file does not have that epoch: give one that has it, also if it has ended"
                : "give the key file of its channel that has that epoch, also if it has ended");
}
