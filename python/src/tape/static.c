/* xcvm._tape.Static: a Python function whose calls on the tape run as compiled programs. */
#include "../compiler/compiler_module.h"
#include "tape_module.h"

#include <stdlib.h>
#include <string.h>

typedef struct static_object {
    PyObject_HEAD tape_object *tape;
    xcvm_static *function;
    tape_callback *callable, *log; /* the tape's, since a destruction may be delayed */
} static_object;

/* ---- Callbacks ---- */

static xcvm_status call_function(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                 xcvm_var *out)
{
    (void)tape;
    const tape_callback *callback = user;
    tape_object *self = callback->tape;
    const bool released = tape_callback_begin(self);
    PyObject *args = callback->callable != NULL ? variable_tuple(self, in, in_count, VARIABLE_LENT) : NULL;
    PyObject *returned = args != NULL ? PyObject_CallObject(callback->callable, args) : NULL;
    PyObject *list = returned != NULL ? PySequence_List(returned) : NULL;
    int result = list != NULL ? 0 : -1;
    if (result == 0 && (size_t)PyList_Size(list) != out_count) {
        PyErr_Format(PyExc_ValueError, "the function returned %zd variables, not %zu", PyList_Size(list), out_count);
        result = -1;
    }
    for (size_t i = 0; result == 0 && i < out_count; i++) {
        PyObject *item = PyList_GetItem(list, (Py_ssize_t)i);
        result = variable_read(self, item, false, "a result of the function", &out[i]);
        if (result == 0)
            result = tape_lend(self, item);
    }
    Py_XDECREF(args);
    Py_XDECREF(returned);
    Py_XDECREF(list);
    if (result != 0)
        tape_fail_by_exception(self);
    tape_callback_end(self, released);
    return result == 0 ? XCVM_OK : XCVM_INVALID_ARGUMENT;
}

static void call_log(void *user, int level, const char *text)
{
    const tape_callback *callback = user;
    if (callback->callable == NULL)
        return;
    const bool released = tape_callback_begin(callback->tape);
    PyObject *result = PyObject_CallFunction(callback->callable, "is", level, text);
    if (result == NULL)
        PyErr_WriteUnraisable(callback->callable);
    Py_XDECREF(result);
    tape_callback_end(callback->tape, released);
}

/* ---- Life ---- */

PyObject *tape_static(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function",
                            "name",
                            "cache_limit",
                            "minimize_cache_size",
                            "force_test_define_by_run",
                            "double_backprop",
                            "optimization",
                            "verbosity",
                            "log",
                            NULL};
    PyObject *function, *log = Py_None;
    Py_ssize_t cache_limit = 0;
    int minimize = 0, force = 0, twice = 0;
    xcvm_static_options options = {.size = sizeof options};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$znpppiiO:static", names, &function, &options.name,
                                     &cache_limit, &minimize, &force, &twice, &options.optimization, &options.verbosity,
                                     &log) ||
        !tape_begin(self))
        return NULL;
    tape_callback *callable = tape_add_callback(self, function);
    tape_callback *logger = callable != NULL && log != Py_None ? tape_add_callback(self, log) : NULL;
    static_object *created = callable != NULL && (log == Py_None || logger != NULL)
                                 ? (static_object *)PyType_GenericAlloc(self->state->static_type, 0)
                                 : NULL;
    if (created == NULL)
        return NULL;
    Py_INCREF(OBJECT(self));
    created->tape = self;
    created->callable = callable;
    created->log = logger;
    options.cache_limit = cache_limit > 0 ? (size_t)cache_limit : 0;
    options.minimize_cache_size = minimize != 0;
    options.force_test_define_by_run = force != 0;
    options.double_backprop = twice != 0;
    if (logger != NULL)
        options.log = (xcvm_static_log){call_log, logger};
    xcvm_error error;
    if (xcvm_static_create(self->tape, (xcvm_static_function){call_function, callable}, &options, &created->function,
                           &error) != XCVM_OK) {
        tape_raise(self, &error);
        Py_DECREF(OBJECT(created));
        return NULL;
    }
    return OBJECT(created);
}

static int static_traverse(static_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->tape);
    return 0;
}

static void static_dealloc(static_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    if (self->tape != NULL) {
        if (self->function != NULL)
            tape_release(self->tape, RELEASE_STATIC, XCVM_ABSENT, self->function);
        Py_DECREF(OBJECT(self->tape));
    }
    object_free(type, self);
    Py_DECREF(type);
}

/* ---- Calls ---- */

/* static(inputs, count): a tuple of `count` results. */
static PyObject *static_call(static_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "count", NULL};
    PyObject *inputs_object, *tuple = NULL;
    Py_ssize_t count = 1;
    variable_list inputs = {0};
    tape_object *tape = self->tape;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|n:Static", names, &inputs_object, &count))
        return NULL;
    if (count < 0 || count > 1 << 16) {
        PyErr_SetString(PyExc_ValueError, "count is the number of results");
        return NULL;
    }
    xcvm_var *out = PyMem_Calloc((size_t)count + 1, sizeof *out);
    if (out == NULL)
        return PyErr_NoMemory();
    if (variable_list_read(tape, inputs_object, false, "inputs", &inputs) == 0 && tape_enter(tape)) {
        tape_compute_begin(tape);
        (void)xcvm_static_call(self->function, inputs.count, inputs.at, (size_t)count, out);
        tape_compute_end(tape);
        if (tape_check(tape) == 0)
            tuple = variable_tuple(tape, out, (size_t)count, VARIABLE_RETURNED);
        tape_leave(tape);
    }
    variable_list_release(&inputs);
    PyMem_Free(out);
    return tuple;
}

static PyObject *finish(static_object *self)
{
    if (tape_check(self->tape) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *static_set_enabled(static_object *self, PyObject *object)
{
    const int on = PyObject_IsTrue(object);
    return on < 0 || !tape_begin(self->tape) ? NULL : PyBool_FromLong(xcvm_static_set_enabled(self->function, on != 0));
}

static PyObject *static_set_training(static_object *self, PyObject *object)
{
    const int on = PyObject_IsTrue(object);
    return on < 0 || !tape_begin(self->tape) ? NULL
                                             : PyBool_FromLong(xcvm_static_set_training(self->function, on != 0));
}

static PyObject *static_set_checking(static_object *self, PyObject *object)
{
    const int on = PyObject_IsTrue(object);
    return on < 0 || !tape_begin(self->tape) ? NULL
                                             : PyBool_FromLong(xcvm_static_set_checking(self->function, on != 0));
}

static PyObject *static_end_forward(static_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_static_end_forward(self->function);
    return finish(self);
}

static PyObject *static_reset(static_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_static_reset(self->function);
    return finish(self);
}

static PyObject *static_info(static_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_static_info info = {.size = sizeof info};
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_static_get_info(self->function, &info);
    return Py_BuildValue("{snsnsKsKsKsKsKsn}", "schedules", (Py_ssize_t)info.schedules, "in_use",
                         (Py_ssize_t)info.in_use, "runs", (unsigned long long)info.runs, "recorded",
                         (unsigned long long)info.recorded, "replayed", (unsigned long long)info.replayed, "evicted",
                         (unsigned long long)info.evicted, "different", (unsigned long long)info.different,
                         "memory_bytes", (Py_ssize_t)info.memory_bytes);
}

static PyObject *static_dump(static_object *self, PyObject *unused)
{
    (void)unused;
    byte_buffer text = {0};
    xcvm_error error;
    if (!tape_begin(self->tape))
        return NULL;
    const xcvm_status status = xcvm_static_dump(self->function, byte_buffer_sink(&text), &error);
    PyObject *bytes = byte_buffer_take(&text);
    PyObject *result = status == XCVM_OK && bytes != NULL ? PyUnicode_FromEncodedObject(bytes, "utf-8", "replace")
                       : status != XCVM_OK                ? tape_raise(self->tape, &error)
                                                          : NULL;
    Py_XDECREF(bytes);
    return result;
}

static PyObject *static_save(static_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"states", "continue_states", NULL};
    int states = 0, continues = 0;
    byte_buffer program = {0};
    xcvm_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pp:save", names, &states, &continues) || !tape_begin(self->tape))
        return NULL;
    const xcvm_static_save_options options = {
        .size = sizeof options, .states = states != 0, .continue_states = continues != 0};
    const xcvm_status status = xcvm_static_save(self->function, &options, byte_buffer_sink(&program), &error);
    PyObject *bytes = byte_buffer_take(&program);
    if (status == XCVM_OK)
        return bytes;
    Py_XDECREF(bytes);
    return tape_raise(self->tape, &error);
}

static PyMethodDef methods[] = {
    {"set_enabled", FUNCTION(static_set_enabled), METH_O,
     "set_enabled(enabled, /)\n--\n\nSet whether schedules run; return the previous setting."},
    {"set_training", FUNCTION(static_set_training), METH_O,
     "set_training(training, /)\n--\n\nSelect schedules of training or inference; return the previous setting."},
    {"set_checking", FUNCTION(static_set_checking), METH_O,
     "set_checking(checking, /)\n--\n\nCompare each call with the recording; return the previous setting."},
    {"end_forward", FUNCTION(static_end_forward), METH_NOARGS,
     "end_forward()\n--\n\nFree activations that no backward pass will visit."},
    {"reset", FUNCTION(static_reset), METH_NOARGS, "reset()\n--\n\nRemove all schedules."},
    {"info", FUNCTION(static_info), METH_NOARGS, "info()\n--\n\nReturn counts of schedules and calls."},
    {"dump", FUNCTION(static_dump), METH_NOARGS, "dump()\n--\n\nReturn all schedules as text."},
    {"save", FUNCTION(static_save), METH_VARARGS | METH_KEYWORDS,
     "save(states=False, continue_states=False)\n--\n\nReturn the schedule that was used last as a program."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A function of Tape.static. static(inputs, count) returns a tuple of its results."},
    {Py_tp_call, SLOT(static_call)},
    {Py_tp_dealloc, SLOT(static_dealloc)},
    {Py_tp_traverse, SLOT(static_traverse)},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec static_spec = {.name = "xcvm._tape.Static",
                           .basicsize = sizeof(static_object),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC |
                                    Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           .slots = slots};
