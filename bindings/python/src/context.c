/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: calls, the log, polling and waiting. */
#include "binding.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 64 }; /* polls of a spinning wait between two looks at signals and other threads */

/* --------------------------------------------------------------------------------------------------- calls */

PyObject *raise_error(int code, const char *line)
{
    PyObject *error = PyObject_CallFunction(error_class, "iz", code, line);

    if (error != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

/* In a child after fork() nobody else is away or delivers, whatever the parent's threads did. */
static void context_forked(Context *self)
{
    self->forks = fork_count;
    self->away_thread = 0;
    self->away_lock = PyThread_allocate_lock();
    self->pump.deliverer = 0;
    self->pump.delivering = PyThread_allocate_lock();
    self->sleeping = 0;
}

bool call_begin(Context *self)
{
    if (self->forks != fork_count)
        context_forked(self);
    while (self->away_thread != 0 && self->away_thread != PyThread_get_thread_ident()) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(self->away_lock, WAIT_LOCK);
        PyThread_release_lock(self->away_lock);
        Py_END_ALLOW_THREADS
    }
    if (self->context != NULL)
        return true;
    raise_error(LLM_ESTATE, "the context is closed");
    return false;
}

/* A call may have moved the deadline of those that sleep: each of them is woken once. */
static void context_wake(Context *self)
{
    const uint64_t count = self->sleeping;

    if (count == 0)
        return;
    self->sleeping = 0;
    self->wakes++;
    if (write(self->wake, &count, sizeof count) < 0)
        return;
}

/* The lines are taken off first: while the log is called, another thread may go away and add some. */
int call_passes_log(Context *self)
{
    struct line *line, *next = self->lines;

    self->lines = NULL;
    self->lines_end = &self->lines;
    while ((line = next) != NULL) {
        PyObject *result;

        next = line->next;
        result = self->log != NULL ? PyObject_CallFunction(self->log, "is", (int)line->level, line->text)
                                   : Py_NewRef(Py_None);
        free(line);
        if (result == NULL)
            PyErr_WriteUnraisable(self->log);
        Py_XDECREF(result);
    }
    return 0;
}

PyObject *call_end(Context *self, int result)
{
    char line[sizeof self->error_line];

    context_wake(self);
    if (self->lines == NULL && result >= 0)
        return PyLong_FromLong(result);
    memcpy(line, self->error_line, sizeof line);
    self->error_line[0] = '\0';
    call_passes_log(self);
    if (result >= 0)
        return PyLong_FromLong(result);
    return raise_error(result, line[0] != '\0' ? line : NULL);
}

/* Threads that wait in call_begin() have the lock only for a moment, in which they do not need the interpreter's. */
static void away_claim(Context *self)
{
    PyThread_acquire_lock(self->away_lock, WAIT_LOCK);
    self->away_thread = PyThread_get_thread_ident();
}

static void away_end(Context *self)
{
    self->away_thread = 0;
    PyThread_release_lock(self->away_lock);
}

/* A handler that the library called from a blocking call stays within that call. */
void call_away(Context *self)
{
    if (self->away_thread != 0)
        return;
    away_claim(self);
    self->away_state = PyEval_SaveThread();
}

void call_back(Context *self)
{
    if (self->away_state == NULL)
        return;
    PyEval_RestoreThread(self->away_state);
    self->away_state = NULL;
    away_end(self);
}

enum handler_entry handler_enter(Context *self)
{
    PyThreadState *state = self->away_state;

    if (state != NULL) {
        self->away_state = NULL;
        PyEval_RestoreThread(state);
        return HANDLER_CAME_BACK;
    }
    if (self->away_thread != 0)
        return HANDLER_NESTED;
    away_claim(self);
    return HANDLER_CLAIMED;
}

void handler_leave(Context *self, enum handler_entry entry)
{
    if (entry == HANDLER_CAME_BACK)
        self->away_state = PyEval_SaveThread();
    else if (entry == HANDLER_CLAIMED)
        away_end(self);
}

/* ----------------------------------------------------------------------------------------------------- log */

static void context_log(void *arg, enum llm_level level, const char *text)
{
    Context *self = arg;
    const size_t size = strlen(text) + 1;
    struct line *line = malloc(sizeof *line + size);

    if (level == LLM_LEVEL_ERROR) {
        strncpy(self->error_line, text, sizeof self->error_line - 1);
        self->error_line[sizeof self->error_line - 1] = '\0';
    }
    if (line == NULL)
        return;
    line->next = NULL;
    line->level = level;
    memcpy(line->text, text, size);
    *self->lines_end = line;
    self->lines_end = &line->next;
}

/* ---------------------------------------------------------------------------------------------------- open */

static int context_init(Context *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"options", "log", NULL};
    struct llm_context_options options;
    PyObject *from, *log, *done;
    int result;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &from, &log))
        return -1;
    if (self->children != NULL) {
        raise_error(LLM_ESTATE, "the context is open");
        return -1;
    }
    llm_context_options_init(&options);
    if (fields_set(&options, context_options_fields, from) < 0 || pump_init(&self->pump) < 0)
        return -1;
    self->lines_end = &self->lines;
    self->forks = fork_count;
    self->mode = options.wait;
    self->log = log == Py_None ? NULL : Py_NewRef(log);
    self->children = PySet_New(NULL);
    self->leaving = PyList_New(0);
    self->away_lock = PyThread_allocate_lock();
    self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE);
    if (self->wake < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    if (self->children == NULL || self->leaving == NULL || self->away_lock == NULL || self->wake < 0)
        return -1;
    options.log = context_log;
    options.log_arg = self;
    result = llm_context_open(&options, &self->context);
    done = call_end(self, result);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Context *self = (Context *)type->tp_alloc(type, 0);

    (void)args;
    (void)kwargs;
    if (self != NULL) {
        self->wake = -1;
        self->lines_end = &self->lines;
    }
    return (PyObject *)self;
}

/* --------------------------------------------------------------------------------------------------- close */

/* Closed objects are needed until what waits for them was delivered. */
static void context_release_closed(Context *self)
{
    if (self->pump.queue.head == NULL && self->leaving != NULL && PyList_GET_SIZE(self->leaving) > 0)
        PyList_SetSlice(self->leaving, 0, PyList_GET_SIZE(self->leaving), NULL);
}

static void context_forget(Context *self)
{
    PyObject *children = PySequence_List(self->children);

    for (Py_ssize_t i = 0; children != NULL && i < PyList_GET_SIZE(children); i++) {
        Object *child = (Object *)PyList_GET_ITEM(children, i);

        child->handle = NULL;
        if (PyList_Append(self->leaving, (PyObject *)child) < 0)
            PyErr_Clear();
    }
    Py_XDECREF(children);
    if (PySet_Clear(self->children) < 0)
        PyErr_Clear();
}

/* The first beginning notices a fork, after which nobody has the pump; the pump may have been waited for long. */
bool blocking_begin(Context *self, bool *took)
{
    if (!call_begin(self))
        return false;
    *took = !pump_is_mine(&self->pump);
    if (*took && !pump_take(&self->pump))
        return false;
    if (call_begin(self))
        return true;
    blocking_end(self, *took);
    return false;
}

void blocking_end(Context *self, bool took)
{
    if (!took)
        return;
    context_release_closed(self);
    pump_release(&self->pump);
}

/* A handler goes on with what waits itself. */
PyObject *blocking_deliver(Context *self, bool took, PyObject *done)
{
    if (took && done != NULL && pump_deliver(&self->pump) < 0)
        Py_CLEAR(done);
    blocking_end(self, took);
    return done;
}

static PyObject *context_close(Context *self, PyObject *unused)
{
    bool took;
    int code;

    (void)unused;
    if (self->context == NULL)
        return PyLong_FromLong(0);
    if (!blocking_begin(self, &took))
        return NULL;
    call_away(self);
    code = llm_context_close(&self->context);
    call_back(self);
    if (self->context == NULL)
        context_forget(self);
    return blocking_deliver(self, took, call_end(self, code));
}

static void context_finalize(Context *self)
{
    PyObject *type, *value, *traceback, *result;

    if (self->context == NULL || self->children == NULL)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    result = context_close(self, NULL);
    if (result == NULL)
        PyErr_WriteUnraisable((PyObject *)self);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

static int context_traverse(Context *self, visitproc visit, void *arg)
{
    Py_VISIT(self->log);
    Py_VISIT(self->children);
    Py_VISIT(self->leaving);
    return pump_visit(&self->pump, visit, arg);
}

static int context_clear(Context *self)
{
    Py_CLEAR(self->log);
    Py_CLEAR(self->children);
    Py_CLEAR(self->leaving);
    return 0;
}

static void context_dealloc(Context *self)
{
    struct line *line;

    if (PyObject_CallFinalizerFromDealloc((PyObject *)self) < 0)
        return;
    PyObject_GC_UnTrack(self);
    context_clear(self);
    pump_fini(&self->pump);
    while ((line = self->lines) != NULL) {
        self->lines = line->next;
        free(line);
    }
    if (self->away_lock != NULL)
        PyThread_free_lock(self->away_lock);
    if (self->wake >= 0)
        close(self->wake);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* ------------------------------------------------------------------------------------------- poll and wait */

/* Polls, and delivers; with what waits from earlier first. Returns -1 with an exception. */
static Py_ssize_t context_poll_once(Context *self)
{
    Py_ssize_t count = 0;
    PyObject *done;

    if (!pump_take(&self->pump))
        return -1;
    if (self->pump.queue.head != NULL || self->pump.pending != NULL)
        count = pump_deliver(&self->pump);
    if (count == 0 && call_begin(self)) {
        const int result = llm_poll(self->context);

        done = call_end(self, result);
        count = done == NULL ? -1 : pump_deliver(&self->pump);
        Py_XDECREF(done);
    } else if (count == 0) {
        count = -1;
    }
    context_release_closed(self);
    pump_release(&self->pump);
    return count;
}

static PyObject *context_poll(Context *self, PyObject *unused)
{
    Py_ssize_t count;

    (void)unused;
    if (!call_begin(self))
        return NULL;
    count = context_poll_once(self);
    return count < 0 ? NULL : PyLong_FromSsize_t(count);
}

/* Sleeps until a packet, a deadline of the context, until, or a call of another thread. */
static void context_sleep(Context *self, int fd, uint64_t until)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = self->wake, .events = POLLIN}};
    const uint64_t deadline = llm_context_deadline(self->context), now = llm_clock();
    uint64_t at = deadline < until ? deadline : until, rest;
    const unsigned wakes = self->wakes;
    PyThreadState *thread;
    struct timespec time;

    if (at <= now)
        return;
    rest = at - now < UINT64_C(3600000000000) ? at - now : UINT64_C(3600000000000);
    time = (struct timespec){.tv_sec = (time_t)(rest / 1000000000), .tv_nsec = (long)(rest % 1000000000)};
    self->sleeping++;
    thread = PyEval_SaveThread();
    (void)ppoll(fds, 2, &time, NULL);
    PyEval_RestoreThread(thread);
    /* A wake since then has counted this thread; an earlier one is for others. */
    if (self->wakes == wakes)
        self->sleeping--;
    else if (read(self->wake, &rest, sizeof rest) < 0)
        return;
}

static int context_pause(Context *self, int fd, uint64_t until, unsigned turn)
{
    if (self->mode != LLM_WAIT_SPIN) {
        context_sleep(self, fd, until);
    } else if (turn % SPINS == 0) {
        Py_BEGIN_ALLOW_THREADS Py_END_ALLOW_THREADS
    } else {
        return 0;
    }
    return PyErr_CheckSignals();
}

/* Converts seconds, or None for ever, to a time of the clock. */
static int until_of(PyObject *timeout, uint64_t *until)
{
    double seconds;

    *until = UINT64_MAX;
    if (timeout == Py_None)
        return 0;
    seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred() != NULL)
        return -1;
    if (seconds < 1e9)
        *until = llm_clock() + (seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
    return 0;
}

/*
 * The wait of the library is not used: it would hold the context for as long as it sleeps, and signals do not end it.
 * Arming the descriptor comes before the last poll.
 */
static PyObject *context_wait(Context *self, PyObject *timeout)
{
    uint64_t until;

    if (until_of(timeout, &until) < 0)
        return NULL;
    for (unsigned turn = 1;; turn++) {
        Py_ssize_t count;
        int fd = -1;

        if (!call_begin(self))
            return NULL;
        if (self->mode != LLM_WAIT_SPIN)
            fd = llm_context_fd(self->context);
        count = context_poll_once(self);
        if (count != 0)
            return count < 0 ? NULL : PyLong_FromSsize_t(count);
        if (!call_begin(self))
            return NULL;
        if (until != UINT64_MAX && llm_clock() >= until)
            return PyLong_FromLong(0);
        if (context_pause(self, fd, until, turn) < 0)
            return NULL;
    }
}

static PyObject *context_fileno(Context *self, PyObject *unused)
{
    (void)unused;
    return call_begin(self) ? call_end(self, llm_context_fd(self->context)) : NULL;
}

static PyObject *context_deadline(Context *self, PyObject *unused)
{
    (void)unused;
    return call_begin(self) ? PyLong_FromUnsignedLongLong(llm_context_deadline(self->context)) : NULL;
}

static PyObject *context_waiting(Context *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->pump.queue.head != NULL ||
                           (self->pump.pending != NULL && PyList_GET_SIZE(self->pump.pending) > 0));
}

static PyObject *context_closed(Context *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->context == NULL);
}

/* ------------------------------------------------------------------------------------------------- counters */

static PyObject *context_counters(Context *self, PyObject *unused)
{
    struct llm_counter *counters;
    PyObject *list = NULL;
    int count, max;

    (void)unused;
    if (!call_begin(self))
        return NULL;
    max = llm_context_counters(self->context, NULL, 0);
    counters = max >= 0 ? calloc((size_t)max + 1, sizeof *counters) : NULL;
    if (counters == NULL)
        return max < 0 ? call_end(self, max) : PyErr_NoMemory();
    count = llm_context_counters(self->context, counters, max);
    list = PyList_New(0);
    for (int i = 0; list != NULL && i < count && i < max; i++) {
        PyObject *row = Py_BuildValue("(ssK)", counters[i].object, counters[i].name,
                                      (unsigned long long)counters[i].value);

        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(counters);
    return list;
}

static PyObject *context_counter(Context *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    uint64_t value;
    int result;

    if (text == NULL || !call_begin(self))
        return NULL;
    result = llm_context_counter(self->context, text, &value);
    return result < 0 ? call_end(self, result) : PyLong_FromUnsignedLongLong(value);
}

static PyMethodDef context_methods[] = {
    {"close", (PyCFunction)context_close, METH_NOARGS,
     "Closes everything in the context; see llm_context_close(3)."},
    {"poll", (PyCFunction)context_poll, METH_NOARGS,
     "Does what is due and calls handlers; returns the number delivered."},
    {"_wait", (PyCFunction)context_wait, METH_O, NULL},
    {"fileno", (PyCFunction)context_fileno, METH_NOARGS,
     "Arms and returns the descriptor; see llm_context_fd(3)."},
    {"deadline", (PyCFunction)context_deadline, METH_NOARGS,
     "Time of clock() at which poll() has work to do."},
    {"_counters", (PyCFunction)context_counters, METH_NOARGS, NULL},
    {"counter", (PyCFunction)context_counter, METH_O, "Sums a counter over all objects that have it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef context_getset[] = {
    {"closed", (getter)context_closed, NULL, "True after close().", NULL},
    {"waiting", (getter)context_waiting, NULL, "True if deliveries or exceptions wait for the next poll().",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Context_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "libllm._llm.Context",
    .tp_basicsize = sizeof(Context),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = context_new,
    .tp_init = (initproc)context_init,
    .tp_dealloc = (destructor)context_dealloc,
    .tp_finalize = (destructor)context_finalize,
    .tp_traverse = (traverseproc)context_traverse,
    .tp_clear = (inquiry)context_clear,
    .tp_methods = context_methods,
    .tp_getset = context_getset,
};
