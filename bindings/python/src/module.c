/* SPDX-License-Identifier: Apache-2.0 */
/* The module: its types, functions and constants, and the check of the library's version. */
#include "binding.h"

#include <pthread.h>
#include <stdio.h>

PyObject *error_class;
volatile unsigned fork_count;

static void module_forked(void)
{
    fork_count++;
}

static PyObject *module_clock(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(llm_clock());
}

/* The class that errors are raised of, called with a code and a line of the log. */
static PyObject *module_set_error(PyObject *module, PyObject *class)
{
    (void)module;
    Py_XSETREF(error_class, Py_NewRef(class));
    Py_RETURN_NONE;
}

static PyObject *module_error(PyObject *module, PyObject *code)
{
    const long number = PyLong_AsLong(code);

    (void)module;
    if (PyErr_Occurred() != NULL)
        return NULL;
    return Py_BuildValue("(ss)", llm_error_name((int)number), llm_error_text((int)number));
}

/* Defaults of a structure, by its name. */
static PyObject *module_defaults(PyObject *module, PyObject *name)
{
    union {
        struct llm_options options;
        struct llm_context_options context;
        struct llm_assurance assurance;
        struct llm_cache cache;
        struct llm_rate rate;
        struct llm_replay_options replay;
        struct llm_store_options store;
    } all;

    (void)module;
    if (!PyUnicode_Check(name))
        return PyErr_Format(PyExc_TypeError, "a name is expected");
    if (PyUnicode_CompareWithASCIIString(name, "Options") == 0) {
        llm_options_init(&all.options);
        return fields_get(&all, options_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "connection") == 0) {
        llm_connection_options_init(&all.options);
        return fields_get(&all, options_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "ContextOptions") == 0) {
        llm_context_options_init(&all.context);
        return fields_get(&all, context_options_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "Assurance") == 0) {
        llm_assurance_init(&all.assurance);
        return fields_get(&all, assurance_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "Cache") == 0) {
        llm_cache_init(&all.cache);
        return fields_get(&all, cache_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "Rate") == 0) {
        llm_rate_init(&all.rate);
        return fields_get(&all, rate_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "ReplayOptions") == 0) {
        llm_replay_options_init(&all.replay);
        return fields_get(&all, replay_fields);
    }
    if (PyUnicode_CompareWithASCIIString(name, "StoreOptions") == 0) {
        llm_store_options_init(&all.store);
        return fields_get(&all, store_fields);
    }
    return PyErr_Format(PyExc_ValueError, "no such structure: %R", name);
}

static PyMethodDef module_functions[] = {
    {"clock", module_clock, METH_NOARGS, "CLOCK_MONOTONIC in nanoseconds."},
    {"set_error", module_set_error, METH_O, NULL},
    {"error", module_error, METH_O, "Name and text of an error code."},
    {"defaults", module_defaults, METH_O,
     "Defaults of a structure of the library, by the name of its class."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, .m_name = "libllm._llm", .m_size = -1,
                                               .m_methods = module_functions};

/* A library that is older than the headers lacks what this was compiled for; of version 0 each minor one is another. */
static bool version_fits(void)
{
    unsigned major = 0, minor = 0;

    if (sscanf(llm_version(), "%u.%u", &major, &minor) == 2 && major == LLM_VERSION_MAJOR &&
        (minor == LLM_VERSION_MINOR || (major > 0 && minor > LLM_VERSION_MINOR)))
        return true;
    PyErr_Format(PyExc_ImportError,
                 "libllm for Python was built for version %d.%d of the C library, but version %s is loaded",
                 LLM_VERSION_MAJOR, LLM_VERSION_MINOR, llm_version());
    return false;
}

PyMODINIT_FUNC PyInit__llm(void)
{
    PyTypeObject *const types[] = {&Context_type, &Object_type, &Topic_type,
                                   &Message_type, &Memory_type, &Replay_type};
    PyObject *module;

    if (!version_fits())
        return NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0)
            return NULL;
    module = PyModule_Create(&module_definition);
    if (module == NULL || PyModule_AddFunctions(module, object_functions) < 0 ||
        PyModule_AddFunctions(module, replay_functions) < 0 || PyModule_AddType(module, &Context_type) < 0 ||
        PyModule_AddType(module, &Object_type) < 0 || PyModule_AddType(module, &Topic_type) < 0 ||
        PyModule_AddType(module, &Message_type) < 0 || PyModule_AddType(module, &Replay_type) < 0 ||
        PyModule_AddStringConstant(module, "version", llm_version()) < 0 ||
        pthread_atfork(NULL, NULL, module_forked) != 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
