/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module: types over the library's objects, which the classes of the package wrap.
 *
 * Threads: the library is called by a thread that has the interpreter's lock. A call that blocks in the library gives
 * the lock up and is `away` meanwhile: other threads that want to call wait for it. Handlers are called after a poll,
 * by the thread that polled; another thread that polls the same context waits until they returned.
 */
#ifndef LLMPY_BINDING_H
#define LLMPY_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "queue.h"

/* ------------------------------------------------------------------------------------------------- fields */

enum field_type { FIELD_U32, FIELD_U64, FIELD_INT, FIELD_BOOL, FIELD_ARRAY, FIELD_TEXT };

/* A member of a structure of the library, and the attribute of the same name. */
struct field {
    const char *name;
    enum field_type type;
    size_t offset;
    size_t size; /* ARRAY: of the array */
};

extern const struct field options_fields[], context_options_fields[], assurance_fields[], cache_fields[],
    rate_fields[], bottleneck_fields[], verdict_fields[], congestion_fields[], event_fields[],
    recording_fields[], replay_fields[], store_fields[];

/* Sets the members of a structure from the attributes of an object; those that are None stay. -1: an exception is set. */
int fields_set(void *structure, const struct field *fields, PyObject *from);

/* Returns a new dict of the members. */
PyObject *fields_get(const void *structure, const struct field *fields);

/* ------------------------------------------------------------------------------------------------ objects */

/* Deliverer: a queue with its lock and its exceptions. Of a context, or of a replay. */
struct pump {
    struct queue queue;
    PyThread_type_lock delivering; /* taken while handlers are called */
    unsigned long deliverer;       /* thread that has it; 0: none */
    PyObject *pending;             /* exceptions of accept and join handlers, a list; NULL: none */
};

/* A line of the log that was not passed on yet. */
struct line {
    struct line *next;
    enum llm_level level;
    char text[];
};

typedef struct {
    PyObject_HEAD struct llm_context *context; /* NULL: closed */
    struct pump pump;
    PyThread_type_lock away_lock;
    unsigned long away_thread; /* thread in the library, away or in a handler that it called; 0: none */
    PyThreadState *away_state;
    unsigned sleeping; /* threads that sleep in wait(), and were not woken yet */
    unsigned wakes;    /* times that those that slept were woken */
    int wake;          /* eventfd, a semaphore, that ends their sleep */
    unsigned forks;
    enum llm_wait_mode mode;
    PyObject *log;      /* called with level and text */
    PyObject *children; /* set of open objects */
    PyObject *leaving;  /* list of closed ones for which deliveries may wait */
    struct line *lines, **lines_end;
    char error_line[512]; /* the latest line at LLM_LEVEL_ERROR */
} Context;

enum object_kind {
    OBJECT_TRANSMITTER = 1,
    OBJECT_RECEIVER = 2,
    OBJECT_CONNECTION = 4,
    OBJECT_LISTENER = 8,
    OBJECT_STORE = 16,
};

/* How messages are delivered. */
enum delivery_mode { MODE_NONE, MODE_MESSAGE, MODE_MESSAGES, MODE_VIEWS, MODE_COLUMNS };

/* Handlers of an object; NULL: none. */
struct handlers {
    PyObject *deliver, *event, *accept, *join, *request, *connect;
    int mode;
};

/* An object of a context. */
typedef struct {
    PyObject_HEAD Context *context;
    void *handle; /* NULL: closed */
    enum object_kind kind;
    struct handlers handlers;
} Object;

typedef struct {
    PyObject_HEAD Object *owner; /* transmitter or connection */
    struct llm_topic *topic;
    struct llm_transmitter *transmitter; /* to which the topic belongs */
    PyObject *name;
} Topic;

typedef struct {
    PyObject_HEAD PyObject *data;
    PyObject *topic;
    uint64_t session, number, received_at;
    uint32_t topic_id;
} Message;

extern PyTypeObject Context_type, Object_type, Topic_type, Message_type, Memory_type, Replay_type;
extern PyObject *error_class;
extern volatile unsigned fork_count; /* forks of which this process is the child */

/* -------------------------------------------------------------------------------------------------- calls */

/* Raises the class of errors with a code and the latest line of the log, which may be NULL. Returns NULL. */
PyObject *raise_error(int code, const char *line);

/*
 * Begin and end a call of the library on the objects of a context. Beginning waits for a thread that is away, and raises if
 * the context is closed. The end passes lines of the log on, and raises for a result below 0: it returns NULL then,
 * else the result as an integer.
 */
bool call_begin(Context *context);
PyObject *call_end(Context *context, int result);
int call_passes_log(Context *context);

/*
 * Begin and end a call that blocks. The pump is taken from the one to the other, unless a handler of it calls: the library
 * queues deliveries without the interpreter's lock. blocking_deliver() ends, too, and delivers what waits first, if done
 * is not NULL; it returns done, or NULL with an exception.
 */
bool blocking_begin(Context *context, bool *took);
void blocking_end(Context *context, bool took);
PyObject *blocking_deliver(Context *context, bool took, PyObject *done);

/* Frame the call of the library in between: between these two no other Python object may be used. */
void call_away(Context *context);
void call_back(Context *context);

enum handler_entry { HANDLER_NESTED, HANDLER_CAME_BACK, HANDLER_CLAIMED };

/*
 * Inside the library, before and after Python code is called: take the lock if the thread is away, and make other threads
 * wait for the call of the library as if it was. The second gets the result of the first.
 */
enum handler_entry handler_enter(Context *context);
void handler_leave(Context *context, enum handler_entry entry);

/* Set up and delete; deliver what waits: returns how much, -1 with an exception. */
int pump_init(struct pump *pump);
void pump_fini(struct pump *pump);
Py_ssize_t pump_deliver(struct pump *pump);
bool pump_is_mine(const struct pump *pump);
bool pump_take(struct pump *pump);
void pump_release(struct pump *pump);
void pump_except(struct pump *pump);

/* Delivers the messages of a delivery; -1 with an exception. The rest, if there is some, is put back to the queue. */
Py_ssize_t deliver_messages(struct queue *queue, struct delivery *delivery, const struct handlers *handlers);
PyObject *event_dict(const struct llm_event *event);

/* Fills the handlers from the arguments of a call; None: none. */
void handlers_set(struct handlers *handlers, int mode, PyObject *deliver, PyObject *event);
int handlers_visit(const struct handlers *handlers, visitproc visit, void *arg);
void handlers_clear(struct handlers *handlers);
int pump_visit(const struct pump *pump, visitproc visit, void *arg);

extern PyMethodDef object_functions[], replay_functions[];

#endif
