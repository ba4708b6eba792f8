/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of the library from and to Python objects, by tables of their members. */
#include "binding.h"

#include <string.h>

#define FIELD(structure, name, type)                                                         \
    {                                                                                        \
#name, type, offsetof(struct structure, name), sizeof(((struct structure *)0)->name) \
    }
#define END                   \
    {                         \
        NULL, FIELD_INT, 0, 0 \
    }

#define OPTION_u32 FIELD_U32
#define OPTION_u64 FIELD_U64
#define OPTION_str FIELD_ARRAY
#define OPTION_word FIELD_INT
#define OPTION(type, scope, name, def, min, max, text) FIELD(llm_options, name, OPTION_##type),
const struct field options_fields[] = {LLM_OPTIONS(OPTION) END};

const struct field context_options_fields[] = {
    FIELD(llm_context_options, log_level, FIELD_INT),
    FIELD(llm_context_options, wait, FIELD_INT),
    FIELD(llm_context_options, numa_node, FIELD_INT),
    FIELD(llm_context_options, huge_pages, FIELD_BOOL),
    FIELD(llm_context_options, stats_directory, FIELD_TEXT),
    FIELD(llm_context_options, stats_name, FIELD_TEXT),
    FIELD(llm_context_options, stats_ns, FIELD_U64),
    FIELD(llm_context_options, stats_mode, FIELD_U32),
    FIELD(llm_context_options, latency, FIELD_INT),
    FIELD(llm_context_options, watch_ns, FIELD_U64),
    FIELD(llm_context_options, keys_required, FIELD_BOOL),
    END,
};
const struct field assurance_fields[] = {
    FIELD(llm_assurance, receivers, FIELD_U32),    FIELD(llm_assurance, names, FIELD_TEXT),
    FIELD(llm_assurance, messages_max, FIELD_U64), FIELD(llm_assurance, bytes_max, FIELD_U64),
    FIELD(llm_assurance, patience_ns, FIELD_U64),  END,
};
const struct field cache_fields[] = {
    FIELD(llm_cache, messages, FIELD_U64),
    FIELD(llm_cache, bytes_max, FIELD_U64),
    END,
};
const struct field rate_fields[] = {
    FIELD(llm_rate, bytes_per_s, FIELD_U64),
    FIELD(llm_rate, repair_bytes_per_s, FIELD_U64),
    END,
};
const struct field bottleneck_fields[] = {
    FIELD(llm_bottleneck, limit, FIELD_INT),
    FIELD(llm_bottleneck, receiver, FIELD_U64),
    FIELD(llm_bottleneck, time_ns, FIELD_U64),
    FIELD(llm_bottleneck, packets, FIELD_U64),
    FIELD(llm_bottleneck, away_ns, FIELD_U64),
    FIELD(llm_bottleneck, away_ns_max, FIELD_U64),
    FIELD(llm_bottleneck, packets_missed, FIELD_U64),
    FIELD(llm_bottleneck, packets_dropped, FIELD_U64),
    FIELD(llm_bottleneck, window_ns, FIELD_U64),
    FIELD(llm_bottleneck, rate_ns, FIELD_U64),
    FIELD(llm_bottleneck, history_ns, FIELD_U64),
    FIELD(llm_bottleneck, transport_ns, FIELD_U64),
    END,
};
const struct field verdict_fields[] = {
    FIELD(llm_verdict, receiver, FIELD_U64),    FIELD(llm_verdict, threshold, FIELD_INT),
    FIELD(llm_verdict, value, FIELD_U64),       FIELD(llm_verdict, limit, FIELD_U64),
    FIELD(llm_verdict, naks_per_s, FIELD_U64),  FIELD(llm_verdict, nak_ppm, FIELD_U64),
    FIELD(llm_verdict, lag_packets, FIELD_U64), FIELD(llm_verdict, lag_ns, FIELD_U64),
    FIELD(llm_verdict, silent_ns, FIELD_U64),   FIELD(llm_verdict, rejoin_ns, FIELD_U64),
    FIELD(llm_verdict, receivers, FIELD_U32),   FIELD(llm_verdict, suffering, FIELD_U32),
    FIELD(llm_verdict, dry_run, FIELD_BOOL),    FIELD(llm_verdict, lag_bytes, FIELD_U64),
    FIELD(llm_verdict, ack_ns, FIELD_U64),      END,
};
const struct field congestion_fields[] = {
    FIELD(llm_congestion, receiver, FIELD_U64),       FIELD(llm_congestion, heard_at, FIELD_U64),
    FIELD(llm_congestion, rtt_ns, FIELD_U64),         FIELD(llm_congestion, lag_packets, FIELD_U64),
    FIELD(llm_congestion, window_packets, FIELD_U64), FIELD(llm_congestion, naks, FIELD_U64),
    FIELD(llm_congestion, packets_lost, FIELD_U64),   FIELD(llm_congestion, packets_dropped, FIELD_U64),
    FIELD(llm_congestion, reports, FIELD_BOOL),       END,
};
const struct field event_fields[] = {
    FIELD(llm_event, kind, FIELD_INT),
    FIELD(llm_event, reason, FIELD_INT),
    FIELD(llm_event, session, FIELD_U64),
    FIELD(llm_event, first, FIELD_U64),
    FIELD(llm_event, last, FIELD_U64),
    FIELD(llm_event, packets, FIELD_U64),
    FIELD(llm_event, topic_id, FIELD_U32),
    FIELD(llm_event, topic, FIELD_TEXT),
    FIELD(llm_event, receiver, FIELD_TEXT),
    FIELD(llm_event, receivers, FIELD_U32),
    FIELD(llm_event, receivers_wanted, FIELD_U32),
    FIELD(llm_event, address, FIELD_TEXT),
    FIELD(llm_event, file, FIELD_TEXT),
    FIELD(llm_event, error, FIELD_INT),
    FIELD(llm_event, stream, FIELD_U64),
    FIELD(llm_event, stream_base, FIELD_U64),
    FIELD(llm_event, stream_term, FIELD_U32),
    FIELD(llm_event, hash, FIELD_U64),
    FIELD(llm_event, hash_copy, FIELD_U64),
    END,
};
const struct field recording_fields[] = {
    FIELD(llm_recording, session, FIELD_U64),        FIELD(llm_recording, channel, FIELD_TEXT),
    FIELD(llm_recording, packet_first, FIELD_U64),   FIELD(llm_recording, packet_next, FIELD_U64),
    FIELD(llm_recording, message_first, FIELD_U64),  FIELD(llm_recording, message_next, FIELD_U64),
    FIELD(llm_recording, realtime_first, FIELD_U64), FIELD(llm_recording, realtime_last, FIELD_U64),
    FIELD(llm_recording, bytes, FIELD_U64),          FIELD(llm_recording, segments, FIELD_U32),
    FIELD(llm_recording, ended, FIELD_BOOL),         FIELD(llm_recording, reason, FIELD_INT),
    FIELD(llm_recording, stream, FIELD_U64),         FIELD(llm_recording, stream_base, FIELD_U64),
    FIELD(llm_recording, stream_term, FIELD_U32),    END,
};
/* `from` is a word of Python. */
const struct field replay_fields[] = {
    FIELD(llm_replay_options, session, FIELD_U64),
    FIELD(llm_replay_options, channel, FIELD_TEXT),
    {"start", FIELD_INT, offsetof(struct llm_replay_options, from), sizeof(enum llm_join_mode)},
    FIELD(llm_replay_options, value, FIELD_U64),
    FIELD(llm_replay_options, until_number, FIELD_U64),
    FIELD(llm_replay_options, until_realtime, FIELD_U64),
    FIELD(llm_replay_options, message_bytes_max, FIELD_U64),
    FIELD(llm_replay_options, skip_damage, FIELD_BOOL),
    FIELD(llm_replay_options, keys, FIELD_TEXT),
    END,
};
const struct field store_fields[] = {
    FIELD(llm_store_options, directory, FIELD_TEXT),
    FIELD(llm_store_options, level, FIELD_INT),
    FIELD(llm_store_options, engine, FIELD_INT),
    FIELD(llm_store_options, segment_bytes, FIELD_U64),
    FIELD(llm_store_options, spares, FIELD_U32),
    FIELD(llm_store_options, reserve_bytes, FIELD_U64),
    FIELD(llm_store_options, full, FIELD_INT),
    FIELD(llm_store_options, bytes_max, FIELD_U64),
    FIELD(llm_store_options, age_ns_max, FIELD_U64),
    FIELD(llm_store_options, until_acknowledged, FIELD_BOOL),
    END,
};

static int field_number(void *at, const struct field *field, PyObject *value)
{
    const unsigned long long number = PyLong_AsUnsignedLongLong(value);

    if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return -1;
    if (field->type == FIELD_U64) {
        *(uint64_t *)at = number;
    } else if (number <= UINT32_MAX) {
        *(uint32_t *)at = (uint32_t)number;
    } else {
        PyErr_Format(PyExc_OverflowError, "%s: %llu is more than 32 bits", field->name, number);
        return -1;
    }
    return 0;
}

static int field_text(void *at, const struct field *field, PyObject *value)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);

    if (text == NULL)
        return -1;
    if (strlen(text) != (size_t)size || (field->type == FIELD_ARRAY && (size_t)size >= field->size)) {
        PyErr_Format(PyExc_ValueError, "%s: %R is too long, or has a zero", field->name, value);
        return -1;
    }
    /* A pointer is valid as long as the object that has the text. */
    if (field->type == FIELD_TEXT)
        *(const char **)at = text;
    else
        memcpy(at, text, (size_t)size + 1);
    return 0;
}

static int field_set(void *at, const struct field *field, PyObject *value)
{
    long number;

    switch (field->type) {
    case FIELD_U32:
    case FIELD_U64:
        return field_number(at, field, value);
    case FIELD_INT:
        number = PyLong_AsLong(value);
        if (number == -1 && PyErr_Occurred() != NULL)
            return -1;
        if (number < INT32_MIN || number > INT32_MAX) {
            PyErr_Format(PyExc_OverflowError, "%s: %ld is more than 32 bits", field->name, number);
            return -1;
        }
        *(int *)at = (int)number;
        return 0;
    case FIELD_BOOL:
        number = PyObject_IsTrue(value);
        if (number < 0)
            return -1;
        *(bool *)at = number != 0;
        return 0;
    case FIELD_ARRAY:
    case FIELD_TEXT:
        break;
    }
    return field_text(at, field, value);
}

int fields_set(void *structure, const struct field *fields, PyObject *from)
{
    if (from == Py_None)
        return 0;
    for (const struct field *field = fields; field->name != NULL; field++) {
        PyObject *value = PyObject_GetAttrString(from, field->name);
        int result = 0;

        if (value == NULL)
            return -1;
        if (value != Py_None)
            result = field_set((char *)structure + field->offset, field, value);
        Py_DECREF(value);
        if (result < 0)
            return -1;
    }
    return 0;
}

static PyObject *field_get(const void *at, const struct field *field)
{
    switch (field->type) {
    case FIELD_U32:
        return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case FIELD_U64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case FIELD_INT:
        return PyLong_FromLong(*(const int *)at);
    case FIELD_BOOL:
        return PyBool_FromLong(*(const bool *)at);
    case FIELD_ARRAY:
        return PyUnicode_DecodeUTF8(at, (Py_ssize_t)strlen(at), "replace");
    case FIELD_TEXT:
        if (*(const char *const *)at == NULL)
            Py_RETURN_NONE;
        return PyUnicode_DecodeUTF8(*(const char *const *)at, (Py_ssize_t)strlen(*(const char *const *)at),
                                    "replace");
    }
    Py_UNREACHABLE();
}

PyObject *fields_get(const void *structure, const struct field *fields)
{
    PyObject *dict = PyDict_New();

    for (const struct field *field = fields; dict != NULL && field->name != NULL; field++) {
        PyObject *value = field_get((const char *)structure + field->offset, field);

        if (value == NULL || PyDict_SetItemString(dict, field->name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}
