/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of recordings, which need no context. */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Object object; /* its handlers; it has no context */
    struct pump pump;
    bool reading; /* a thread is in the library */
    char error_line[512];
} Replay;

static void replay_log(void *arg, enum llm_level level, const char *text)
{
    char *line = arg;

    if (level == LLM_LEVEL_ERROR)
        snprintf(line, 512, "%s", text);
}

static void replay_messages(void *arg, const struct llm_message *messages, int count)
{
    Replay *self = arg;

    queue_messages(&self->pump.queue, self, messages, count);
}

static void replay_event(void *arg, const struct llm_event *event)
{
    Replay *self = arg;

    queue_event(&self->pump.queue, self, event);
}

static PyObject *replay_open(PyObject *module, PyObject *args)
{
    struct llm_receiver_handlers handlers;
    struct llm_replay_options options;
    struct llm_replay *replay = NULL;
    PyObject *from, *deliver, *event;
    const char *directory;
    Replay *self;
    int mode, result;

    (void)module;
    llm_replay_options_init(&options);
    if (!PyArg_ParseTuple(args, "sOiOO", &directory, &from, &mode, &deliver, &event) ||
        fields_set(&options, replay_fields, from) < 0)
        return NULL;
    self = (Replay *)PyType_GenericAlloc(&Replay_type, 0);
    if (self == NULL || pump_init(&self->pump) < 0) {
        Py_XDECREF(self);
        return NULL;
    }
    handlers_set(&self->object.handlers, mode, deliver, event);
    llm_receiver_handlers_init(&handlers);
    handlers.arg = self;
    handlers.messages = self->object.handlers.deliver != NULL ? replay_messages : NULL;
    handlers.event = replay_event;
    result = llm_replay_open(directory, &options, &handlers, replay_log, self->error_line, &replay);
    self->object.handle = replay;
    if (result == LLM_OK)
        return (PyObject *)self;
    raise_error(result, self->error_line[0] != '\0' ? self->error_line : NULL);
    Py_DECREF(self);
    return NULL;
}

/* The disk is read without the interpreter's lock; meanwhile other threads are refused. */
static int replay_read(Replay *self, int packets_max)
{
    int result;

    self->error_line[0] = '\0';
    self->reading = true;
    Py_BEGIN_ALLOW_THREADS result = llm_replay_next(self->object.handle, packets_max);
    Py_END_ALLOW_THREADS self->reading = false;
    return result;
}

static PyObject *replay_next(Replay *self, PyObject *packets)
{
    const long packets_max = PyLong_AsLong(packets);
    Py_ssize_t count;
    int result = 1;

    if (PyErr_Occurred() != NULL)
        return NULL;
    if (packets_max < 1 || packets_max > INT32_MAX)
        return raise_error(LLM_EINVAL, "packets_max is less than 1, or too many");
    if (!pump_take(&self->pump))
        return NULL;
    if (self->object.handle == NULL) {
        pump_release(&self->pump);
        return raise_error(LLM_ESTATE, "the replay is closed");
    }
    if (self->pump.queue.head == NULL && self->pump.pending == NULL)
        result = replay_read(self, (int)packets_max);
    count = result < 0 ? 0 : pump_deliver(&self->pump);
    pump_release(&self->pump);
    if (result < 0)
        return raise_error(result, self->error_line[0] != '\0' ? self->error_line : NULL);
    return count < 0 ? NULL : PyLong_FromLong(result > 0);
}

static PyObject *replay_close(Replay *self, PyObject *unused)
{
    struct llm_replay *replay = self->object.handle;

    (void)unused;
    if (self->reading)
        return raise_error(LLM_ESTATE, "another thread reads");
    self->object.handle = NULL;
    queue_discard(&self->pump.queue, self);
    llm_replay_close(&replay);
    Py_RETURN_NONE;
}

static int replay_traverse(Replay *self, visitproc visit, void *arg)
{
    const int result = handlers_visit(&self->object.handlers, visit, arg);

    return result != 0 ? result : pump_visit(&self->pump, visit, arg);
}

static int replay_clear(Replay *self)
{
    handlers_clear(&self->object.handlers);
    return 0;
}

static void replay_dealloc(Replay *self)
{
    struct llm_replay *replay = self->object.handle;

    PyObject_GC_UnTrack(self);
    llm_replay_close(&replay);
    replay_clear(self);
    pump_fini(&self->pump);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef replay_methods[] = {
    {"next", (PyCFunction)replay_next, METH_O, "Delivers from the next packets; 0: everything was."},
    {"close", (PyCFunction)replay_close, METH_NOARGS, "Closes the replay."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Replay_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm._llm.Replay",
    .tp_basicsize = sizeof(Replay),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)replay_dealloc,
    .tp_traverse = (traverseproc)replay_traverse,
    .tp_clear = (inquiry)replay_clear,
    .tp_methods = replay_methods,
};

static void recording_found(void *arg, const struct llm_recording *recording)
{
    PyObject *row = fields_get(recording, recording_fields);

    if (row == NULL || PyList_Append(arg, row) < 0)
        PyErr_Clear();
    Py_XDECREF(row);
}

static PyObject *recordings(PyObject *module, PyObject *args)
{
    char line[512] = "";
    const char *directory;
    PyObject *list;
    int result;

    (void)module;
    if (!PyArg_ParseTuple(args, "s", &directory) || (list = PyList_New(0)) == NULL)
        return NULL;
    result = llm_replay_recordings(directory, recording_found, list, replay_log, line);
    if (result >= 0)
        return list;
    Py_DECREF(list);
    return raise_error(result, line[0] != '\0' ? line : NULL);
}

PyMethodDef replay_functions[] = {
    {"replay_open", replay_open, METH_VARARGS, NULL},
    {"recordings", recordings, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
