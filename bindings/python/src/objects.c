/* SPDX-License-Identifier: Apache-2.0 */
/* Transmitters, receivers, connections, listeners and stores of a context, and their topics. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------- handlers, called by the library */

static void on_messages(void *arg, const struct llm_message *messages, int count)
{
    Object *self = arg;

    queue_messages(&self->context->pump.queue, self, messages, count);
}

static void on_event(void *arg, const struct llm_event *event)
{
    Object *self = arg;

    queue_event(&self->context->pump.queue, self, event);
}

/* A connection is accepted if its handler fails to decide: nothing is lost by a mistake of the handler. */
static bool on_accept(void *arg, const struct llm_source *source)
{
    Object *self = arg;
    const enum handler_entry entry = handler_enter(self->context);
    PyObject *result;
    int accepted = 1;

    result = PyObject_CallFunction(self->handlers.accept, "Kz", (unsigned long long)source->session,
                                   source->topic);
    if (result != NULL)
        accepted = PyObject_IsTrue(result);
    if (result == NULL || accepted < 0)
        pump_except(&self->context->pump);
    Py_XDECREF(result);
    handler_leave(self->context, entry);
    return accepted != 0;
}

static void on_join(void *arg, uint64_t session, struct llm_join *join)
{
    Object *self = arg;
    const enum handler_entry entry = handler_enter(self->context);
    PyObject *result;
    unsigned long long value;
    int mode;

    result = PyObject_CallFunction(self->handlers.join, "K", (unsigned long long)session);
    if (result != NULL && result != Py_None && PyArg_ParseTuple(result, "iK", &mode, &value)) {
        join->mode = (enum llm_join_mode)mode;
        join->value = value;
    } else if (result != Py_None) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_TypeError, "a join handler returns None, or a mode and a value");
        pump_except(&self->context->pump);
    }
    Py_XDECREF(result);
    handler_leave(self->context, entry);
}

static void on_connection_message(void *arg, struct llm_connection *connection,
                                  const struct llm_message *message)
{
    (void)connection;
    on_messages(arg, message, 1);
}

static void on_connection_event(void *arg, struct llm_connection *connection, const struct llm_event *event)
{
    Object *self = arg;

    /* An accepted connection belongs to the application from this event on. */
    if (event->kind == LLM_EVENT_CONNECTED)
        self->handle = connection;
    on_event(arg, event);
}

static void on_request(void *arg, struct llm_connection *connection, const struct llm_request *asked)
{
    Object *self = arg;
    struct delivery *delivery =
        queue_bytes(&self->context->pump.queue, DELIVERY_REQUEST, self, asked->data, asked->size);

    (void)connection;
    if (delivery != NULL)
        delivery->id = asked->id;
}

static int on_connect(void *arg, struct llm_listener *listener, const struct llm_caller *caller,
                      struct llm_connection_handlers *handlers)
{
    Object *self = arg;
    struct delivery *delivery =
        queue_bytes(&self->context->pump.queue, DELIVERY_CALLER, self, caller->payload, caller->payload_size);

    (void)listener;
    (void)handlers;
    if (delivery != NULL) {
        delivery->id = caller->id;
        delivery->message_bytes_max = caller->message_bytes_max;
    }
    return LLM_EAGAIN;
}

/* A request that waits for its reply. */
struct asked {
    Context *context; /* borrowed: replies end with the context */
    PyObject *handler;
};

static void on_reply(void *arg, enum llm_reason reason, const void *data, size_t size)
{
    struct asked *asked = arg;
    struct delivery *delivery =
        queue_bytes(&asked->context->pump.queue, DELIVERY_REPLY, asked->handler, data, size);

    if (delivery != NULL) {
        delivery->reason = reason;
    } else {
        const enum handler_entry entry = handler_enter(asked->context);

        Py_DECREF(asked->handler);
        handler_leave(asked->context, entry);
    }
    free(asked);
}

/* -------------------------------------------------------------------------------------------------- objects */

static int object_traverse(Object *self, visitproc visit, void *arg)
{
    Py_VISIT(self->context);
    return handlers_visit(&self->handlers, visit, arg);
}

static int object_clear(Object *self)
{
    handlers_clear(&self->handlers);
    return 0;
}

static void object_dealloc(Object *self)
{
    PyObject_GC_UnTrack(self);
    object_clear(self);
    Py_XDECREF(self->context);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *object_closed(Object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->handle == NULL);
}

static PyGetSetDef object_getset[] = {
    {"closed", (getter)object_closed, NULL, "True if it is not open", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Object_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm._llm.Object",
    .tp_basicsize = sizeof(Object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)object_dealloc,
    .tp_traverse = (traverseproc)object_traverse,
    .tp_clear = (inquiry)object_clear,
    .tp_getset = object_getset,
};

static Object *object_new(Context *context, enum object_kind kind)
{
    Object *self = (Object *)PyType_GenericAlloc(&Object_type, 0);

    if (self == NULL)
        return NULL;
    self->context = (Context *)Py_NewRef(context);
    self->kind = kind;
    return self;
}

/* The open object, which the context has too; or the exception for which there is none. Takes the reference. */
static PyObject *object_opened(Object *self, int result)
{
    PyObject *done = call_end(self->context, result);

    Py_XDECREF(done);
    if (done != NULL && PySet_Add(self->context->children, (PyObject *)self) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

/* An argument that is an object of one of these kinds and open; begins a call. */
static Object *object_of(PyObject *of, unsigned kinds)
{
    Object *self = (Object *)of;

    if (!PyObject_TypeCheck(of, &Object_type) || (self->kind & kinds) == 0) {
        PyErr_SetString(PyExc_TypeError, "an object of another type is expected");
        return NULL;
    }
    if (!call_begin(self->context))
        return NULL;
    if (self->handle != NULL)
        return self;
    raise_error(LLM_ESTATE, "it is closed, or not connected");
    return NULL;
}

static struct llm_transmitter *transmitter_of(const Object *self)
{
    return self->kind == OBJECT_CONNECTION ? llm_connection_transmitter(self->handle) : self->handle;
}

static int object_close_call(Object *self, void **handle)
{
    switch (self->kind) {
    case OBJECT_TRANSMITTER:
        return llm_transmitter_close((struct llm_transmitter **)handle);
    case OBJECT_RECEIVER:
        return llm_receiver_close((struct llm_receiver **)handle);
    case OBJECT_CONNECTION:
        return llm_connection_close((struct llm_connection **)handle);
    case OBJECT_LISTENER:
        return llm_listener_close((struct llm_listener **)handle);
    case OBJECT_STORE:
        return llm_store_close((struct llm_store **)handle);
    }
    return LLM_EINVAL;
}

/* Deliveries may wait for it, so the context has it until they were made. */
static PyObject *object_close(PyObject *module, PyObject *of)
{
    Object *self = (Object *)of;
    void *handle;
    bool took;
    int result;

    (void)module;
    if (!PyObject_TypeCheck(of, &Object_type))
        return PyErr_Format(PyExc_TypeError, "an object is expected");
    if (self->handle == NULL || self->context->context == NULL)
        return PyLong_FromLong(0);
    if (!blocking_begin(self->context, &took))
        return NULL;
    /* A thread that this one waited for may have closed it. */
    handle = self->handle;
    if (handle == NULL) {
        blocking_end(self->context, took);
        return PyLong_FromLong(0);
    }
    call_away(self->context);
    result = object_close_call(self, &handle);
    call_back(self->context);
    if (handle == NULL) {
        self->handle = NULL;
        if (self->kind == OBJECT_RECEIVER)
            queue_discard(&self->context->pump.queue, self);
        if (PyList_Append(self->context->leaving, of) < 0 || PySet_Discard(self->context->children, of) < 0)
            PyErr_Clear();
    }
    return blocking_deliver(self->context, took, call_end(self->context, result));
}

static const struct llm_options *options_of(struct llm_options *options, PyObject *from, bool connection)
{
    (connection ? llm_connection_options_init : llm_options_init)(options);
    return fields_set(options, options_fields, from) < 0 ? NULL : options;
}

/* --------------------------------------------------------------------------------------------------- opening */

static PyObject *transmitter_open(PyObject *module, PyObject *args)
{
    struct llm_transmitter_handlers handlers;
    struct llm_transmitter *transmitter = NULL;
    struct llm_options options;
    PyObject *from, *event;
    const char *channel;
    Context *context;
    Object *self;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!sOO", &Context_type, &context, &channel, &from, &event) ||
        options_of(&options, from, false) == NULL || !call_begin(context) ||
        (self = object_new(context, OBJECT_TRANSMITTER)) == NULL)
        return NULL;
    handlers_set(&self->handlers, MODE_NONE, Py_None, event);
    llm_transmitter_handlers_init(&handlers);
    handlers.arg = self;
    handlers.event = self->handlers.event != NULL ? on_event : NULL;
    result = llm_transmitter_open(context->context, channel, &options, &handlers, &transmitter);
    self->handle = transmitter;
    return object_opened(self, result);
}

static PyObject *receiver_open(PyObject *module, PyObject *args)
{
    struct llm_receiver_handlers handlers;
    struct llm_receiver *receiver = NULL;
    PyObject *from, *deliver, *event, *accept, *join;
    struct llm_options options;
    const char *channel;
    Context *context;
    Object *self;
    int result, mode;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!sOiOOOO", &Context_type, &context, &channel, &from, &mode, &deliver,
                          &event, &accept, &join) ||
        options_of(&options, from, false) == NULL || !call_begin(context) ||
        (self = object_new(context, OBJECT_RECEIVER)) == NULL)
        return NULL;
    handlers_set(&self->handlers, mode, deliver, event);
    self->handlers.accept = accept == Py_None ? NULL : Py_NewRef(accept);
    self->handlers.join = join == Py_None ? NULL : Py_NewRef(join);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = self;
    handlers.messages = self->handlers.deliver != NULL ? on_messages : NULL;
    handlers.event = self->handlers.event != NULL ? on_event : NULL;
    handlers.accept = self->handlers.accept != NULL ? on_accept : NULL;
    handlers.join = self->handlers.join != NULL ? on_join : NULL;
    result = llm_receiver_open(context->context, channel, &options, &handlers, &receiver);
    self->handle = receiver;
    return object_opened(self, result);
}

static void connection_handlers(Object *self, struct llm_connection_handlers *handlers)
{
    llm_connection_handlers_init(handlers);
    handlers->arg = self;
    handlers->message = self->handlers.deliver != NULL ? on_connection_message : NULL;
    handlers->event = on_connection_event;
    handlers->request = self->handlers.request != NULL ? on_request : NULL;
}

static Object *connection_new(Context *context, int mode, PyObject *deliver, PyObject *event,
                              PyObject *request)
{
    Object *self = object_new(context, OBJECT_CONNECTION);

    if (self == NULL)
        return NULL;
    handlers_set(&self->handlers, mode, deliver, event);
    self->handlers.request = request == Py_None ? NULL : Py_NewRef(request);
    return self;
}

static PyObject *connection_open(PyObject *module, PyObject *args)
{
    struct llm_connection_handlers handlers;
    struct llm_connection *connection = NULL;
    PyObject *from, *deliver, *event, *request;
    struct llm_options options;
    struct iovec payload;
    Py_ssize_t size;
    const char *channel;
    Context *context;
    Object *self;
    int result, mode;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!sOiOOOy#", &Context_type, &context, &channel, &from, &mode, &deliver,
                          &event, &request, &payload.iov_base, &size) ||
        options_of(&options, from, true) == NULL || !call_begin(context) ||
        (self = connection_new(context, mode, deliver, event, request)) == NULL)
        return NULL;
    payload.iov_len = (size_t)size;
    connection_handlers(self, &handlers);
    result = llm_connection_open(context->context, channel, &options, &handlers, &payload, &connection);
    self->handle = connection;
    return object_opened(self, result);
}

static PyObject *listener_open(PyObject *module, PyObject *args)
{
    struct llm_listener_handlers handlers;
    struct llm_listener *listener = NULL;
    struct llm_options options;
    PyObject *from, *connect;
    const char *channel;
    Context *context;
    Object *self;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!sOO", &Context_type, &context, &channel, &from, &connect) ||
        options_of(&options, from, true) == NULL || !call_begin(context) ||
        (self = object_new(context, OBJECT_LISTENER)) == NULL)
        return NULL;
    self->handlers.connect = Py_NewRef(connect);
    llm_listener_handlers_init(&handlers);
    handlers.arg = self;
    handlers.connect = on_connect;
    result = llm_listener_open(context->context, channel, &options, &handlers, &listener);
    self->handle = listener;
    return object_opened(self, result);
}

static PyObject *listener_accept(PyObject *module, PyObject *args)
{
    struct llm_connection_handlers handlers;
    PyObject *of, *deliver, *event, *request;
    unsigned long long id;
    Object *listener, *self;
    int mode;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKiOOO", &of, &id, &mode, &deliver, &event, &request) ||
        (listener = object_of(of, OBJECT_LISTENER)) == NULL ||
        (self = connection_new(listener->context, mode, deliver, event, request)) == NULL)
        return NULL;
    connection_handlers(self, &handlers);
    return object_opened(self, llm_listener_accept(listener->handle, id, &handlers));
}

static PyObject *listener_refuse(PyObject *module, PyObject *args)
{
    unsigned long long id;
    PyObject *of;
    Object *self;
    int code;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKi", &of, &id, &code) || (self = object_of(of, OBJECT_LISTENER)) == NULL)
        return NULL;
    return call_end(self->context, llm_listener_refuse(self->handle, id, code));
}

static PyObject *store_open(PyObject *module, PyObject *args)
{
    struct llm_store_options options;
    struct llm_store_handlers handlers;
    struct llm_store *store = NULL;
    PyObject *from, *event, *opened;
    Context *context;
    Object *self;
    bool took;
    int result;

    (void)module;
    llm_store_options_init(&options);
    if (!PyArg_ParseTuple(args, "O!OO", &Context_type, &context, &from, &event) ||
        fields_set(&options, store_fields, from) < 0 || (self = object_new(context, OBJECT_STORE)) == NULL)
        return NULL;
    if (!blocking_begin(context, &took)) {
        Py_DECREF(self);
        return NULL;
    }
    handlers_set(&self->handlers, MODE_NONE, Py_None, event);
    llm_store_handlers_init(&handlers);
    handlers.arg = self;
    handlers.event = self->handlers.event != NULL ? on_event : NULL;
    call_away(context);
    result = llm_store_open(context->context, &options, &handlers, &store);
    call_back(context);
    self->handle = store;
    opened = object_opened(self, result);
    /* An exception of another handler would lose the store: what waits is left to the next poll. */
    blocking_end(context, took);
    return opened;
}

static PyObject *store_follow(PyObject *module, PyObject *args)
{
    struct llm_options options;
    PyObject *of, *from;
    const char *channel;
    Object *self;

    (void)module;
    if (!PyArg_ParseTuple(args, "OsO", &of, &channel, &from) || options_of(&options, from, false) == NULL ||
        (self = object_of(of, OBJECT_STORE)) == NULL)
        return NULL;
    return call_end(self->context, llm_store_follow(self->handle, channel, &options));
}

/* -------------------------------------------------------------------------------------------------- receivers */

static PyObject *receiver_acknowledge(PyObject *module, PyObject *args)
{
    unsigned long long session, number;
    PyObject *of;
    Object *self;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKK", &of, &session, &number) ||
        (self = object_of(of, OBJECT_RECEIVER)) == NULL)
        return NULL;
    return call_end(self->context, llm_receiver_acknowledge(self->handle, session, number));
}

static PyObject *receiver_subscribe(PyObject *module, PyObject *args)
{
    const char *subject;
    PyObject *of;
    Object *self;
    int add;

    (void)module;
    if (!PyArg_ParseTuple(args, "Osp", &of, &subject, &add) ||
        (self = object_of(of, OBJECT_RECEIVER)) == NULL)
        return NULL;
    return call_end(self->context,
                    (add ? llm_receiver_subscribe : llm_receiver_unsubscribe)(self->handle, subject));
}

/* Labels and names are lists of pairs, at most as many as the arrays have. */
struct filter_arrays {
    struct llm_label_match labels[LLM_LABELS_MAX + 1];
    struct llm_property_name names[256];
};

static int filter_pairs(struct llm_filter *filter, struct filter_arrays *arrays, PyObject *labels,
                        PyObject *names)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(labels) && i <= LLM_LABELS_MAX; i++) {
        struct llm_label_match *label = &arrays->labels[filter->labels_count++];

        if (!PyArg_ParseTuple(PyList_GET_ITEM(labels, i), "II", &label->mask, &label->match))
            return -1;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names) && i < 256; i++) {
        struct llm_property_name *name = &arrays->names[filter->names_count++];

        if (!PyArg_ParseTuple(PyList_GET_ITEM(names, i), "sH", &name->name, &name->code))
            return -1;
    }
    filter->labels = arrays->labels;
    filter->names = arrays->names;
    return 0;
}

static PyObject *receiver_filter(PyObject *module, PyObject *args)
{
    struct filter_arrays arrays;
    struct llm_filter filter;
    PyObject *of, *labels, *names;
    Py_ssize_t mask_size, match_size;
    const char *mask, *match, *selector;
    Object *self;

    (void)module;
    llm_filter_init(&filter);
    if (!PyArg_ParseTuple(args, "OO!z#z#zO!", &of, &PyList_Type, &labels, &mask, &mask_size, &match,
                          &match_size, &selector, &PyList_Type, &names) ||
        (self = object_of(of, OBJECT_RECEIVER)) == NULL || filter_pairs(&filter, &arrays, labels, names) < 0)
        return NULL;
    if (match != NULL && match_size != mask_size) {
        PyErr_SetString(PyExc_ValueError, "bitmap_match is not as long as bitmap_mask");
        return NULL;
    }
    filter.selector = selector;
    filter.bitmap_mask = mask;
    filter.bitmap_match = match;
    filter.bitmap_bits = mask != NULL && mask_size <= LLM_BITMAP_BITS_MAX / 8 ? (uint32_t)mask_size * 8
                         : mask != NULL                                       ? UINT32_MAX
                                                                              : 0;
    return call_end(self->context, llm_receiver_filter(self->handle, &filter));
}

static PyObject *receiver_unfilter(PyObject *module, PyObject *of)
{
    Object *self = object_of(of, OBJECT_RECEIVER);

    (void)module;
    return self != NULL ? call_end(self->context, llm_receiver_filter(self->handle, NULL)) : NULL;
}

/* ----------------------------------------------------------------------------------------------- transmitters */

static PyObject *object_bottleneck(PyObject *module, PyObject *of)
{
    Object *self = object_of(of, OBJECT_TRANSMITTER | OBJECT_RECEIVER);
    struct llm_bottleneck bottleneck;
    int result;

    (void)module;
    if (self == NULL)
        return NULL;
    result = self->kind == OBJECT_RECEIVER ? llm_receiver_bottleneck(self->handle, &bottleneck)
                                           : llm_transmitter_bottleneck(self->handle, &bottleneck);
    return result < 0 ? call_end(self->context, result) : fields_get(&bottleneck, bottleneck_fields);
}

static PyObject *transmitter_congestion(PyObject *module, PyObject *of)
{
    Object *self = object_of(of, OBJECT_TRANSMITTER);
    struct llm_congestion *receivers;
    PyObject *list;
    int max, count;

    (void)module;
    if (self == NULL)
        return NULL;
    max = llm_transmitter_congestion(self->handle, NULL, 0);
    if (max < 0)
        return call_end(self->context, max);
    receivers = calloc((size_t)max + 1, sizeof *receivers);
    if (receivers == NULL)
        return PyErr_NoMemory();
    count = llm_transmitter_congestion(self->handle, receivers, max);
    list = PyList_New(0);
    for (int i = 0; list != NULL && i < count && i < max; i++) {
        PyObject *row = Py_BuildValue("(NN)", fields_get(&receivers[i], congestion_fields),
                                      fields_get(&receivers[i].bottleneck, bottleneck_fields));

        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(receivers);
    return list;
}

static PyObject *transmitter_flush(PyObject *module, PyObject *of)
{
    Object *self = object_of(of, OBJECT_TRANSMITTER | OBJECT_CONNECTION);
    int result;

    (void)module;
    if (self == NULL)
        return NULL;
    result = llm_transmitter_flush(transmitter_of(self));
    return call_end(self->context, result == LLM_EAGAIN ? 1 : result);
}

static PyObject *transmitter_number(PyObject *module, PyObject *args)
{
    struct llm_transmitter *transmitter;
    PyObject *of;
    Object *self;
    int which;

    (void)module;
    if (!PyArg_ParseTuple(args, "Oi", &of, &which) ||
        (self = object_of(of, OBJECT_TRANSMITTER | OBJECT_CONNECTION)) == NULL)
        return NULL;
    transmitter = transmitter_of(self);
    return PyLong_FromUnsignedLongLong(which == 0   ? llm_transmitter_session(transmitter)
                                       : which == 1 ? llm_transmitter_next(transmitter)
                                                    : llm_transmitter_receivers(transmitter));
}

/* receiver is None for all. */
static PyObject *transmitter_suspend(PyObject *module, PyObject *args)
{
    PyObject *of, *receiver;
    uint64_t id = 0;
    Object *self;
    int suspend, result;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOp", &of, &receiver, &suspend) ||
        (self = object_of(of, OBJECT_TRANSMITTER)) == NULL)
        return NULL;
    if (receiver != Py_None) {
        id = PyLong_AsUnsignedLongLong(receiver);
        if (PyErr_Occurred() != NULL)
            return NULL;
        result = (suspend ? llm_transmitter_suspend : llm_transmitter_resume)(self->handle, id);
    } else {
        result = (suspend ? llm_transmitter_suspend_all : llm_transmitter_resume_all)(self->handle);
    }
    return call_end(self->context, result);
}

static PyObject *transmitter_limit_rate(PyObject *module, PyObject *args)
{
    struct llm_rate rate;
    PyObject *of, *from;
    Object *self;

    (void)module;
    llm_rate_init(&rate);
    if (!PyArg_ParseTuple(args, "OO", &of, &from) || fields_set(&rate, rate_fields, from) < 0 ||
        (self = object_of(of, OBJECT_TRANSMITTER | OBJECT_CONNECTION)) == NULL)
        return NULL;
    return call_end(self->context, llm_transmitter_limit_rate(transmitter_of(self), &rate));
}

/* ------------------------------------------------------------------------------------------------ connections */

static PyObject *connection_id(PyObject *module, PyObject *of)
{
    Object *self = object_of(of, OBJECT_CONNECTION);

    (void)module;
    return self != NULL ? PyLong_FromUnsignedLongLong(llm_connection_id(self->handle)) : NULL;
}

static PyObject *connection_request(PyObject *module, PyObject *args)
{
    unsigned long long timeout_ns;
    PyObject *of, *handler;
    struct asked *asked;
    Py_buffer data;
    Object *self;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "Oy*KO", &of, &data, &timeout_ns, &handler))
        return NULL;
    self = object_of(of, OBJECT_CONNECTION);
    asked = self != NULL ? malloc(sizeof *asked) : NULL;
    if (asked == NULL) {
        PyBuffer_Release(&data);
        return self != NULL ? PyErr_NoMemory() : NULL;
    }
    asked->context = self->context;
    asked->handler = Py_NewRef(handler);
    result = llm_connection_request(self->handle, data.buf, (size_t)data.len, timeout_ns, on_reply, asked);
    PyBuffer_Release(&data);
    if (result < 0) {
        Py_DECREF(asked->handler);
        free(asked);
    }
    return call_end(self->context, result);
}

static PyObject *connection_reply(PyObject *module, PyObject *args)
{
    unsigned long long id;
    Py_buffer data;
    PyObject *of;
    Object *self;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "OKy*", &of, &id, &data))
        return NULL;
    self = object_of(of, OBJECT_CONNECTION);
    result = self != NULL ? llm_connection_reply(self->handle, id, data.buf, (size_t)data.len) : 0;
    PyBuffer_Release(&data);
    return self != NULL ? call_end(self->context, result) : NULL;
}

/* ----------------------------------------------------------------------------------------------------- topics */

static PyObject *topic_open(PyObject *module, PyObject *args)
{
    struct llm_topic *opened;
    PyObject *of, *name, *done;
    unsigned flags;
    Object *owner;
    Topic *self;

    (void)module;
    if (!PyArg_ParseTuple(args, "OUI", &of, &name, &flags) ||
        (owner = object_of(of, OBJECT_TRANSMITTER | OBJECT_CONNECTION)) == NULL)
        return NULL;
    if (PyUnicode_AsUTF8(name) == NULL)
        return NULL;
    done = call_end(owner->context,
                    llm_topic_open(transmitter_of(owner), PyUnicode_AsUTF8(name), flags, &opened));
    if (done == NULL)
        return NULL;
    Py_DECREF(done);
    self = (Topic *)PyType_GenericAlloc(&Topic_type, 0);
    if (self == NULL)
        return NULL;
    self->owner = (Object *)Py_NewRef(owner);
    self->topic = opened;
    self->transmitter = transmitter_of(owner);
    self->name = Py_NewRef(name);
    return (PyObject *)self;
}

/* Begins a call on a topic, which is closed with its owner. */
static bool topic_begin(const Topic *self)
{
    if (!call_begin(self->owner->context))
        return false;
    if (self->owner->handle != NULL)
        return true;
    raise_error(LLM_ESTATE, "the transmitter of the topic is closed");
    return false;
}

/* Sends bytes of any object; the code of the library, or 1 with an exception. */
static int topic_put(Topic *self, PyObject *data, unsigned flags)
{
    Py_buffer buffer;
    int result;

    if (!topic_begin(self))
        return 1;
    if (PyBytes_CheckExact(data))
        return llm_send(self->topic, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data), flags);
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0)
        return 1;
    result = llm_send(self->topic, buffer.buf, (size_t)buffer.len, flags);
    PyBuffer_Release(&buffer);
    return result;
}

static bool topic_flags(PyObject *const *args, Py_ssize_t count, unsigned *flags)
{
    unsigned long value = 0;

    if (count < 1 || count > 2) {
        PyErr_SetString(PyExc_TypeError, "send() takes data and flags");
        return false;
    }
    if (count == 2)
        value = PyLong_AsUnsignedLong(args[1]);
    if (value > UINT32_MAX && PyErr_Occurred() == NULL)
        PyErr_SetString(PyExc_OverflowError, "flags are 32 bits");
    *flags = (unsigned)value;
    return PyErr_Occurred() == NULL;
}

static PyObject *topic_send(Topic *self, PyObject *const *args, Py_ssize_t count)
{
    Context *context = self->owner->context;
    unsigned flags;
    int result;

    if (!topic_flags(args, count, &flags))
        return NULL;
    result = topic_put(self, args[0], flags);
    if (result == LLM_OK && context->lines == NULL && !context->sleeping)
        Py_RETURN_NONE;
    if (result == 1)
        return NULL;
    {
        PyObject *done = call_end(context, result);

        Py_XDECREF(done);
        return done != NULL ? Py_NewRef(Py_None) : NULL;
    }
}

static PyObject *topic_try_send(Topic *self, PyObject *const *args, Py_ssize_t count)
{
    unsigned flags;
    int result;

    if (!topic_flags(args, count, &flags))
        return NULL;
    result = topic_put(self, args[0], flags);
    if (result == 1)
        return NULL;
    if (result < 0 && result != LLM_EAGAIN)
        return call_end(self->owner->context, result);
    if (self->owner->context->sleeping || self->owner->context->lines != NULL)
        Py_XDECREF(call_end(self->owner->context, 0));
    return PyBool_FromLong(result == LLM_OK);
}

/* Properties are tuples: code, type, value. Bytes stay valid as long as the list. */
static int attributes_property(struct llm_property *property, PyObject *from)
{
    PyObject *value;
    Py_ssize_t size;
    char *data;
    int type;

    if (!PyArg_ParseTuple(from, "HiO", &property->code, &type, &value))
        return -1;
    property->type = (enum llm_property_type)type;
    if (type == LLM_PROPERTY_INT32) {
        const long long number = PyLong_AsLongLong(value);

        if (PyErr_Occurred() == NULL && (number < INT32_MIN || number > INT32_MAX))
            PyErr_SetString(PyExc_OverflowError, "the property is more than 32 bits");
        property->value.int32 = (int32_t)number;
    } else if (type == LLM_PROPERTY_INT64) {
        property->value.int64 = PyLong_AsLongLong(value);
    } else if (type == LLM_PROPERTY_DOUBLE) {
        property->value.float64 = PyFloat_AsDouble(value);
    } else if (PyBytes_AsStringAndSize(value, &data, &size) == 0) {
        property->value.bytes.data = data;
        property->value.bytes.size = (uint32_t)size;
    }
    return PyErr_Occurred() != NULL ? -1 : 0;
}

static PyObject *topic_send_with(Topic *self, PyObject *args)
{
    struct llm_property properties[128];
    struct llm_attributes attributes;
    PyObject *list;
    Py_buffer data;
    Py_ssize_t bitmap_size;
    unsigned flags;
    int result;

    llm_attributes_init(&attributes);
    if (!PyArg_ParseTuple(args, "y*Iy#O!I", &data, &attributes.label, &attributes.bitmap, &bitmap_size,
                          &PyList_Type, &list, &flags))
        return NULL;
    attributes.bitmap_bits = bitmap_size <= 4096 ? (uint32_t)bitmap_size * 8 : UINT32_MAX;
    attributes.properties = properties;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list) && PyErr_Occurred() == NULL; i++) {
        if (i == 128)
            PyErr_SetString(PyExc_ValueError, "too many properties");
        else if (attributes_property(&properties[i], PyList_GET_ITEM(list, i)) == 0)
            attributes.properties_count++;
    }
    result = PyErr_Occurred() == NULL && topic_begin(self)
                 ? llm_send_with(self->topic, data.buf, (size_t)data.len, &attributes, flags)
                 : 1;
    PyBuffer_Release(&data);
    return result == 1 ? NULL : call_end(self->owner->context, result);
}

/* One try of llm_topic_wait(): true if there is room. The wait itself is the package's, with handlers in between. */
static PyObject *topic_room(Topic *self, PyObject *size)
{
    const size_t bytes = PyLong_AsSize_t(size);
    int result;

    if (PyErr_Occurred() != NULL || !topic_begin(self))
        return NULL;
    result = llm_topic_wait(self->topic, bytes, 0);
    if (result < 0 && result != LLM_EAGAIN)
        return call_end(self->owner->context, result);
    return PyBool_FromLong(result == LLM_OK);
}

static PyObject *topic_assure(Topic *self, PyObject *from)
{
    struct llm_assurance assurance;

    llm_assurance_init(&assurance);
    if (fields_set(&assurance, assurance_fields, from) < 0 || !topic_begin(self))
        return NULL;
    return call_end(self->owner->context, llm_topic_assure(self->topic, from == Py_None ? NULL : &assurance));
}

static PyObject *topic_cache(Topic *self, PyObject *from)
{
    struct llm_cache cache;

    llm_cache_init(&cache);
    if (fields_set(&cache, cache_fields, from) < 0 || !topic_begin(self))
        return NULL;
    return call_end(self->owner->context, llm_topic_cache(self->topic, &cache));
}

static PyObject *topic_limit_rate(Topic *self, PyObject *from)
{
    struct llm_rate rate;

    llm_rate_init(&rate);
    if (fields_set(&rate, rate_fields, from) < 0 || !topic_begin(self))
        return NULL;
    return call_end(self->owner->context, llm_topic_limit_rate(self->topic, &rate));
}

static int topic_traverse(Topic *self, visitproc visit, void *arg)
{
    Py_VISIT(self->owner);
    return 0;
}

static void topic_dealloc(Topic *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(self->owner);
    Py_XDECREF(self->name);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *topic_send_numbered(Topic *self, PyObject *args)
{
    unsigned long long number;
    unsigned flags;
    Py_buffer data;
    int result;

    if (!PyArg_ParseTuple(args, "Ky*I", &number, &data, &flags))
        return NULL;
    result =
        topic_begin(self) ? llm_send_numbered(self->topic, number, data.buf, (size_t)data.len, flags) : 1;
    PyBuffer_Release(&data);
    return result == 1 ? NULL : call_end(self->owner->context, result);
}

static PyObject *topic_name(Topic *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->name);
}

static PyMethodDef topic_methods[] = {
    {"send", (PyCFunction)(void (*)(void))topic_send, METH_FASTCALL,
     "Sends a message, or raises BackPressure; see llm_send(3)."},
    {"try_send", (PyCFunction)(void (*)(void))topic_try_send, METH_FASTCALL,
     "Sends a message; false: it was not taken."},
    {"_send_with", (PyCFunction)topic_send_with, METH_VARARGS, NULL},
    {"_send_numbered", (PyCFunction)topic_send_numbered, METH_VARARGS, NULL},
    {"_room", (PyCFunction)topic_room, METH_O, NULL},
    {"assure", (PyCFunction)topic_assure, METH_O, "Sets an Assurance, or None; see llm_topic_assure(3)."},
    {"cache", (PyCFunction)topic_cache, METH_O, "Sets a Cache; see llm_topic_cache(3)."},
    {"limit_rate", (PyCFunction)topic_limit_rate, METH_O, "Sets a Rate; see llm_topic_limit_rate(3)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef topic_getset[] = {
    {"name", (getter)topic_name, NULL, "name of the topic", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Topic_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm._llm.Topic",
    .tp_basicsize = sizeof(Topic),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)topic_dealloc,
    .tp_traverse = (traverseproc)topic_traverse,
    .tp_methods = topic_methods,
    .tp_getset = topic_getset,
};

PyMethodDef object_functions[] = {
    {"close", object_close, METH_O, NULL},
    {"transmitter_open", transmitter_open, METH_VARARGS, NULL},
    {"receiver_open", receiver_open, METH_VARARGS, NULL},
    {"connection_open", connection_open, METH_VARARGS, NULL},
    {"listener_open", listener_open, METH_VARARGS, NULL},
    {"listener_accept", listener_accept, METH_VARARGS, NULL},
    {"listener_refuse", listener_refuse, METH_VARARGS, NULL},
    {"store_open", store_open, METH_VARARGS, NULL},
    {"store_follow", store_follow, METH_VARARGS, NULL},
    {"receiver_acknowledge", receiver_acknowledge, METH_VARARGS, NULL},
    {"receiver_subscribe", receiver_subscribe, METH_VARARGS, NULL},
    {"receiver_filter", receiver_filter, METH_VARARGS, NULL},
    {"receiver_unfilter", receiver_unfilter, METH_O, NULL},
    {"bottleneck", object_bottleneck, METH_O, NULL},
    {"transmitter_congestion", transmitter_congestion, METH_O, NULL},
    {"transmitter_flush", transmitter_flush, METH_O, NULL},
    {"transmitter_number", transmitter_number, METH_VARARGS, NULL},
    {"transmitter_suspend", transmitter_suspend, METH_VARARGS, NULL},
    {"transmitter_limit_rate", transmitter_limit_rate, METH_VARARGS, NULL},
    {"connection_id", connection_id, METH_O, NULL},
    {"connection_request", connection_request, METH_VARARGS, NULL},
    {"connection_reply", connection_reply, METH_VARARGS, NULL},
    {"topic_open", topic_open, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
