/* SPDX-License-Identifier: Apache-2.0 */
/* Delivery to handlers of what a poll has queued, and the lock that lets one thread at a time do so. */
#include "binding.h"

#include <string.h>

int pump_init(struct pump *pump)
{
    pump->delivering = PyThread_allocate_lock();
    if (pump->delivering == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void pump_fini(struct pump *pump)
{
    struct delivery *delivery;

    /* A reply owns the function that it goes to. */
    while ((delivery = queue_take(&pump->queue)) != NULL) {
        if (delivery->kind == DELIVERY_REPLY)
            Py_XDECREF((PyObject *)delivery->object);
        queue_free(&pump->queue, delivery);
    }
    for (size_t i = 0; i < pump->queue.names_count; i++)
        Py_XDECREF(pump->queue.names[i].string);
    queue_fini(&pump->queue);
    Py_CLEAR(pump->pending);
    if (pump->delivering != NULL)
        PyThread_free_lock(pump->delivering);
    pump->delivering = NULL;
}

int pump_visit(const struct pump *pump, visitproc visit, void *arg)
{
    Py_VISIT(pump->pending);
    return 0;
}

bool pump_is_mine(const struct pump *pump)
{
    return pump->deliverer == PyThread_get_thread_ident();
}

bool pump_take(struct pump *pump)
{
    if (pump_is_mine(pump)) {
        raise_error(LLM_ESTATE, "a handler cannot poll");
        return false;
    }
    if (PyThread_acquire_lock(pump->delivering, NOWAIT_LOCK) == 0) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(pump->delivering, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    pump->deliverer = PyThread_get_thread_ident();
    return true;
}

void pump_release(struct pump *pump)
{
    pump->deliverer = 0;
    PyThread_release_lock(pump->delivering);
}

/* Stores the current exception, which a later poll raises. */
void pump_except(struct pump *pump)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    if (pump->pending == NULL)
        pump->pending = PyList_New(0);
    if (pump->pending == NULL || PyList_Append(pump->pending, value) < 0)
        PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Raises the first exception that was stored. */
static bool pump_raises(struct pump *pump)
{
    PyObject *value;

    if (pump->pending == NULL || PyList_GET_SIZE(pump->pending) == 0)
        return false;
    value = Py_NewRef(PyList_GET_ITEM(pump->pending, 0));
    if (PyList_SetSlice(pump->pending, 0, 1, NULL) < 0)
        PyErr_Clear();
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    return true;
}

/* ------------------------------------------------------------------------------------------------- events */

PyObject *event_dict(const struct llm_event *event)
{
    PyObject *dict = fields_get(event, event_fields), *value;
    char text[512];

    if (dict == NULL)
        return NULL;
    llm_event_text(event, text, sizeof text);
    value = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (value == NULL || PyDict_SetItemString(dict, "text", value) < 0)
        Py_CLEAR(dict);
    Py_XDECREF(value);
    value = event->verdict != NULL ? fields_get(event->verdict, verdict_fields) : Py_NewRef(Py_None);
    if (dict != NULL && (value == NULL || PyDict_SetItemString(dict, "verdict", value) < 0))
        Py_CLEAR(dict);
    Py_XDECREF(value);
    value = event->bottleneck != NULL ? fields_get(event->bottleneck, bottleneck_fields) : Py_NewRef(Py_None);
    if (dict != NULL && (value == NULL || PyDict_SetItemString(dict, "bottleneck", value) < 0))
        Py_CLEAR(dict);
    Py_XDECREF(value);
    return dict;
}

static Py_ssize_t deliver_call(PyObject *handler, PyObject *arguments)
{
    PyObject *result = handler != NULL && arguments != NULL ? PyObject_CallObject(handler, arguments) : NULL;

    Py_XDECREF(arguments);
    if (result == NULL)
        return PyErr_Occurred() != NULL ? -1 : 0;
    Py_DECREF(result);
    return 1;
}

/* ---------------------------------------------------------------------------------------------- deliveries */

static Py_ssize_t deliver_to(struct queue *queue, struct delivery *delivery, const struct handlers *handlers)
{
    PyObject *handler = handlers->request;

    switch (delivery->kind) {
    case DELIVERY_MESSAGES:
        return deliver_messages(queue, delivery, handlers);
    case DELIVERY_EVENT:
        return handlers->event == NULL
                   ? 0
                   : deliver_call(handlers->event, Py_BuildValue("(N)", event_dict(&delivery->event)));
    case DELIVERY_REQUEST:
        return deliver_call(handler, Py_BuildValue("(Ky#)", (unsigned long long)delivery->id, delivery->data,
                                                   (Py_ssize_t)delivery->size));
    case DELIVERY_CALLER:
        return deliver_call(handlers->connect,
                            Py_BuildValue("(Ky#I)", (unsigned long long)delivery->id, delivery->data,
                                          (Py_ssize_t)delivery->size, (unsigned)delivery->message_bytes_max));
    case DELIVERY_REPLY:
        break;
    }
    return 0;
}

/* The object of a reply is the function that it goes to, whose reference ends here. */
static Py_ssize_t deliver_reply(struct delivery *delivery)
{
    PyObject *handler = delivery->object;
    Py_ssize_t result;

    delivery->object = NULL;
    result = deliver_call(
        handler, Py_BuildValue("(iy#)", (int)delivery->reason, delivery->data, (Py_ssize_t)delivery->size));
    Py_DECREF(handler);
    return result;
}

static const struct handlers *delivery_handlers(const struct delivery *delivery)
{
    return &((Object *)delivery->object)->handlers;
}

static Py_ssize_t pump_one(struct pump *pump, struct delivery *delivery)
{
    PyObject *object = delivery->object;
    Py_ssize_t result;

    if (object == NULL)
        return 0;
    if (delivery->kind == DELIVERY_REPLY)
        return deliver_reply(delivery);
    Py_INCREF(object);
    result = deliver_to(&pump->queue, delivery, delivery_handlers(delivery));
    Py_DECREF(object);
    return result;
}

Py_ssize_t pump_deliver(struct pump *pump)
{
    struct queue *queue = &pump->queue;
    struct delivery *delivery;
    Py_ssize_t count = 0, result;

    if (queue->lost > 0) {
        PyErr_Format(PyExc_MemoryError, "%llu deliveries were lost", (unsigned long long)queue->lost);
        queue->lost = 0;
        return -1;
    }
    if (pump_raises(pump))
        return -1;
    while ((delivery = queue_take(queue)) != NULL) {
        queue->current = delivery;
        result = pump_one(pump, delivery);
        queue->current = NULL;
        if (delivery->kind == DELIVERY_MESSAGES && delivery->object != NULL &&
            delivery->first < delivery->block->count)
            queue_return(queue, delivery);
        else
            queue_free(queue, delivery);
        if (result < 0)
            return -1;
        count += result;
    }
    return count;
}

/* ------------------------------------------------------------------------------------------------ handlers */

static PyObject *handler_of(PyObject *handler)
{
    return handler == Py_None ? NULL : Py_NewRef(handler);
}

void handlers_set(struct handlers *handlers, int mode, PyObject *deliver, PyObject *event)
{
    handlers->deliver = handler_of(deliver);
    handlers->mode = handlers->deliver != NULL ? mode : MODE_NONE;
    handlers->event = handler_of(event);
}

int handlers_visit(const struct handlers *handlers, visitproc visit, void *arg)
{
    Py_VISIT(handlers->deliver);
    Py_VISIT(handlers->event);
    Py_VISIT(handlers->accept);
    Py_VISIT(handlers->join);
    Py_VISIT(handlers->request);
    Py_VISIT(handlers->connect);
    return 0;
}

void handlers_clear(struct handlers *handlers)
{
    Py_CLEAR(handlers->deliver);
    Py_CLEAR(handlers->event);
    Py_CLEAR(handlers->accept);
    Py_CLEAR(handlers->join);
    Py_CLEAR(handlers->request);
    Py_CLEAR(handlers->connect);
}
