/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, and the ways in which they are delivered: one by one, in lists, as views, and as columns. */
#include "binding.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <structmember.h>

/* ------------------------------------------------------------------------------------------------- memory */

/* Memory of a block that Python reads: by the buffer protocol. Its last user frees it. */
typedef struct {
    PyObject_HEAD void *memory;
    Py_ssize_t size;
} Memory;

static void memory_dealloc(Memory *self)
{
    free(self->memory);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int memory_buffer(Memory *self, Py_buffer *view, int flags)
{
    return PyBuffer_FillInfo(view, (PyObject *)self, self->memory, self->size, 1, flags);
}

static PyBufferProcs memory_procs = {.bf_getbuffer = (getbufferproc)memory_buffer};

PyTypeObject Memory_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm._llm.Memory",
    .tp_basicsize = sizeof(Memory),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)memory_dealloc,
    .tp_as_buffer = &memory_procs,
};

/* Moves memory into an object. On failure it stays where it is. */
static Memory *memory_of(void *memory, size_t size)
{
    Memory *self = PyObject_New(Memory, &Memory_type);

    if (self == NULL)
        return NULL;
    self->memory = memory;
    self->size = memory != NULL ? (Py_ssize_t)size : 0;
    return self;
}

/* ------------------------------------------------------------------------------------------------ message */

static void message_dealloc(Message *self)
{
    Py_XDECREF(self->data);
    Py_XDECREF(self->topic);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *message_repr(Message *self)
{
    return PyUnicode_FromFormat("<Message %S %llu, %zd bytes>", self->topic, (unsigned long long)self->number,
                                PyObject_Size(self->data));
}

static PyMemberDef message_members[] = {
    {"data", T_OBJECT, offsetof(Message, data), READONLY, "bytes of the message, or a view of them"},
    {"topic", T_OBJECT, offsetof(Message, topic), READONLY, "name of the topic; empty: not known"},
    {"topic_id", T_UINT, offsetof(Message, topic_id), READONLY, "number of the topic in its session"},
    {"number", T_ULONGLONG, offsetof(Message, number), READONLY,
     "counts the messages of the session, from 0"},
    {"session", T_ULONGLONG, offsetof(Message, session), READONLY, "identity of the session"},
    {"received_at", T_ULONGLONG, offsetof(Message, received_at), READONLY,
     "CLOCK_REALTIME, ns; 0: not known"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject Message_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm.Message",
    .tp_doc = "A message that was received.",
    .tp_basicsize = sizeof(Message),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)message_dealloc,
    .tp_repr = (reprfunc)message_repr,
    .tp_members = message_members,
};

static PyObject *topic_string(struct queue *queue, uint32_t topic)
{
    struct name *name = &queue->names[topic];

    if (name->string == NULL)
        name->string = PyUnicode_DecodeUTF8(name->copy, (Py_ssize_t)strlen(name->copy), "replace");
    Py_XINCREF(name->string);
    return name->string;
}

/* Takes the reference of data, which may be NULL. */
static PyObject *message_new(struct queue *queue, const struct record *record, PyObject *data)
{
    Message *message = data != NULL ? PyObject_New(Message, &Message_type) : NULL;

    if (message == NULL) {
        Py_XDECREF(data);
        return NULL;
    }
    message->data = data;
    message->session = record->session;
    message->number = record->number;
    message->received_at = record->received_at;
    message->topic_id = record->topic_id;
    message->topic = topic_string(queue, record->topic);
    if (message->topic == NULL)
        Py_CLEAR(message);
    return (PyObject *)message;
}

static PyObject *message_copy(struct queue *queue, const struct block *block, size_t index)
{
    const struct record *record = &block->records[index];

    return message_new(
        queue, record,
        PyBytes_FromStringAndSize(block->data != NULL ? block->data + record->offset : "", record->size));
}

/* ----------------------------------------------------------------------------------------------- one by one */

static Py_ssize_t deliver_each(struct queue *queue, struct delivery *delivery,
                               const struct handlers *handlers)
{
    const struct block *block = delivery->block;
    Py_ssize_t count = 0;

    while (delivery->first < block->count && delivery->object != NULL) {
        PyObject *message = message_copy(queue, block, delivery->first);
        PyObject *result;

        if (message == NULL)
            return -1;
        delivery->first++;
        result = PyObject_CallOneArg(handlers->deliver, message);
        Py_DECREF(message);
        if (result == NULL)
            return -1;
        Py_DECREF(result);
        count++;
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------- in lists */

static Py_ssize_t deliver_list(struct delivery *delivery, const struct handlers *handlers, PyObject *list)
{
    const size_t count = delivery->block->count;
    PyObject *result;

    delivery->first = count;
    result = PyObject_CallOneArg(handlers->deliver, list);
    Py_XDECREF(result);
    return result != NULL ? (Py_ssize_t)count : -1;
}

static Py_ssize_t deliver_copies(struct queue *queue, struct delivery *delivery,
                                 const struct handlers *handlers)
{
    const size_t count = delivery->block->count;
    PyObject *list = PyList_New((Py_ssize_t)count);
    Py_ssize_t result;

    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *message = message_copy(queue, delivery->block, i);

        if (message == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, message);
    }
    if (list == NULL)
        return -1;
    result = deliver_list(delivery, handlers, list);
    Py_DECREF(list);
    return result;
}

/* -------------------------------------------------------------------------------------------------- as views */

/* A view of part of another one. All views of a block have one managed buffer. */
static PyObject *view_part(PyObject *whole, const struct record *record)
{
    PyMemoryViewObject *view = (PyMemoryViewObject *)PyMemoryView_FromObject(whole);

    if (view == NULL)
        return NULL;
    view->view.buf = (char *)view->view.buf + record->offset;
    view->view.len = record->size;
    view->view.shape[0] = record->size;
    return (PyObject *)view;
}

/* Buffers that were ended while somebody retained a view of them. */
static struct {
    _PyManagedBufferObject **buffers;
    size_t count, max;
} ended;

/* An ended buffer does not release its memory by itself: this does, once the last view is gone. */
static void ended_sweep(void)
{
    size_t left = 0;

    for (size_t i = 0; i < ended.count; i++) {
        _PyManagedBufferObject *buffer = ended.buffers[i];

        if (Py_REFCNT(buffer) > 1) {
            ended.buffers[left++] = buffer;
            continue;
        }
        buffer->flags &= ~_Py_MANAGED_BUFFER_RELEASED;
        Py_DECREF(buffer);
    }
    ended.count = left;
}

/* Without memory for the list, the block is never freed. */
static void ended_add(_PyManagedBufferObject *buffer)
{
    if (ended.count == ended.max) {
        const size_t max = ended.max * 2 + 16;
        void *buffers = realloc(ended.buffers, max * sizeof *ended.buffers);

        if (buffers == NULL)
            return;
        ended.buffers = buffers;
        ended.max = max;
    }
    Py_INCREF(buffer);
    ended.buffers[ended.count++] = buffer;
}

/*
 * Ends every view of the block, also those that the handler has made from them and retains: they raise ValueError. Arrays
 * that were made from a view have its memory as long as they exist, so nothing dangles.
 */
static void views_end(PyObject *whole)
{
    _PyManagedBufferObject *buffer = ((PyMemoryViewObject *)whole)->mbuf;

    ended_sweep();
    if (buffer->exports > 1) {
        buffer->flags |= _Py_MANAGED_BUFFER_RELEASED;
        ended_add(buffer);
    }
    Py_DECREF(whole);
}

static PyObject *views_list(struct queue *queue, const struct block *block, PyObject *whole)
{
    PyObject *list = PyList_New((Py_ssize_t)block->count);

    for (size_t i = 0; list != NULL && i < block->count; i++) {
        PyObject *message = message_new(queue, &block->records[i], view_part(whole, &block->records[i]));

        if (message == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, message);
    }
    return list;
}

static Py_ssize_t deliver_views(struct queue *queue, struct delivery *delivery,
                                const struct handlers *handlers)
{
    struct block *block = delivery->block;
    Memory *memory = memory_of(block->data, block->bytes);
    PyObject *whole, *list;
    Py_ssize_t result = -1;

    if (memory == NULL)
        return -1;
    block->data = NULL;
    whole = PyMemoryView_FromObject((PyObject *)memory);
    list = whole != NULL ? views_list(queue, block, whole) : NULL;
    if (list != NULL)
        result = deliver_list(delivery, handlers, list);
    Py_XDECREF(list);
    if (whole != NULL)
        views_end(whole);
    /* Nobody else has it: the memory serves the next block. */
    if (Py_REFCNT(memory) == 1) {
        block->data = memory->memory;
        memory->memory = NULL;
    } else {
        block->bytes_max = 0;
    }
    Py_DECREF(memory);
    return result;
}

/* ------------------------------------------------------------------------------------------------ as columns */

/* Returns the size that every message of the block has, or -1 if they differ. */
static long block_size(const struct block *block)
{
    uint32_t others = 0;

    for (size_t i = 1; i < block->count; i++)
        others |= block->records[i].size ^ block->records[0].size;
    return others == 0 ? (long)block->records[0].size : -1;
}

/* Names of the topics of a block by their index in its records: a dict. */
static PyObject *columns_topics(struct queue *queue, const struct block *block)
{
    PyObject *topics = PyDict_New();
    uint32_t last = UINT32_MAX;

    for (size_t i = 0; topics != NULL && i < block->count; i++) {
        const uint32_t topic = block->records[i].topic;
        PyObject *key, *string;

        if (topic == last)
            continue;
        last = topic;
        key = PyLong_FromUnsignedLong(topic);
        string = topic_string(queue, topic);
        if (key == NULL || string == NULL || PyDict_SetItem(topics, key, string) < 0)
            Py_CLEAR(topics);
        Py_XDECREF(key);
        Py_XDECREF(string);
    }
    return topics;
}

/* Columns have the block's memory for as long as Python uses them. */
static Py_ssize_t deliver_columns(struct queue *queue, struct delivery *delivery,
                                  const struct handlers *handlers)
{
    struct block *block = delivery->block;
    const size_t count = block->count;
    PyObject *topics = columns_topics(queue, block);
    PyObject *size = PyLong_FromLong(block_size(block));
    Memory *records =
        topics != NULL && size != NULL ? memory_of(block->records, count * sizeof *block->records) : NULL;
    Memory *data = NULL;
    PyObject *result = NULL;

    if (records != NULL) {
        block->records = NULL;
        data = memory_of(block->data, block->bytes);
    }
    if (data != NULL) {
        block->data = NULL;
        delivery->first = count;
        result = PyObject_CallFunctionObjArgs(handlers->deliver, records, data, topics, size, NULL);
    }
    Py_XDECREF(topics);
    Py_XDECREF(size);
    if (records != NULL && Py_REFCNT(records) == 1) {
        block->records = records->memory;
        records->memory = NULL;
    } else if (records != NULL) {
        block->count_max = 0;
    }
    if (data != NULL && Py_REFCNT(data) == 1) {
        block->data = data->memory;
        data->memory = NULL;
    } else if (data != NULL) {
        block->bytes_max = 0;
    }
    Py_XDECREF(records);
    Py_XDECREF(data);
    Py_XDECREF(result);
    return result != NULL ? (Py_ssize_t)count : -1;
}

Py_ssize_t deliver_messages(struct queue *queue, struct delivery *delivery, const struct handlers *handlers)
{
    switch (handlers->mode) {
    case MODE_MESSAGE:
        return deliver_each(queue, delivery, handlers);
    case MODE_MESSAGES:
        return deliver_copies(queue, delivery, handlers);
    case MODE_VIEWS:
        return deliver_views(queue, delivery, handlers);
    case MODE_COLUMNS:
        return deliver_columns(queue, delivery, handlers);
    default:
        delivery->first = delivery->block->count;
        return 0;
    }
}
