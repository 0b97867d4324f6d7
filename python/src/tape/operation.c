/* xcvm._tape.Operation: a host operation whose results and gradients Python functions compute. */
#include "tape_module.h"

#include <string.h>

typedef struct operation_object {
    PyObject_HEAD tape_object *tape;
    tape_callback *forward, *backward; /* the tape's; each keeps this object's functions as long as the tape lives */
    PyObject *name;
    xcvm_operation *operation; /* the tape's too, since recorded calls borrow it */
} operation_object;

/* What recorded calls borrow, in the memory of a callback's block. */
typedef struct operation_record {
    xcvm_operation operation;
    tape_callback *forward, *backward;
    char name[80];
} operation_record;

static PyObject *returned_list(tape_object *self, PyObject *returned)
{
    if (returned == NULL)
        return NULL;
    if (PyTuple_Check(returned) || PyList_Check(returned))
        return PySequence_List(returned);
    PyObject *list = PyList_New(0);
    if (list != NULL && PyList_Append(list, returned) < 0)
        Py_CLEAR(list);
    (void)self;
    return list;
}

/* Stores the variables that a function returned, which it takes. */
static xcvm_status store(tape_object *self, PyObject *returned, size_t count, bool optional, const char *what,
                         xcvm_var *to)
{
    PyObject *list = returned_list(self, returned);
    Py_XDECREF(returned);
    int result = list != NULL ? tape_lend(self, list) : -1;
    if (result == 0 && (size_t)PyList_Size(list) != count) {
        PyErr_Format(PyExc_ValueError, "%s returned %zd variables, not %zu", what, PyList_Size(list), count);
        result = -1;
    }
    for (size_t i = 0; result == 0 && i < count; i++)
        result = variable_read(self, PyList_GetItem(list, (Py_ssize_t)i), optional, what, &to[i]);
    Py_XDECREF(list);
    if (result == 0)
        return XCVM_OK;
    tape_fail_by_exception(self);
    return XCVM_INVALID_ARGUMENT;
}

static xcvm_status call_forward(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    (void)tape;
    const operation_record *record = user;
    tape_object *self = record->forward->tape;
    const bool released = tape_callback_begin(self);
    PyObject *args = record->forward->callable != NULL ? variable_tuple(self, in, in_count, VARIABLE_LENT) : NULL;
    PyObject *returned = args != NULL ? PyObject_CallObject(record->forward->callable, args) : NULL;
    Py_XDECREF(args);
    const xcvm_status status = store(self, returned, out_count, false, "forward", out);
    tape_callback_end(self, released);
    return status;
}

static xcvm_status call_backward(void *user, xcvm_tape *tape, size_t in_count, const xcvm_var *in, size_t out_count,
                                 const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    (void)tape;
    const operation_record *record = user;
    tape_object *self = record->backward->tape;
    const bool released = tape_callback_begin(self);
    PyObject *inputs = variable_tuple(self, in, in_count, VARIABLE_LENT);
    PyObject *results = inputs != NULL ? variable_tuple(self, out, out_count, VARIABLE_LENT) : NULL;
    PyObject *gradients = results != NULL ? variable_tuple(self, out_gradients, out_count, VARIABLE_LENT) : NULL;
    PyObject *returned =
        gradients != NULL && record->backward->callable != NULL
            ? PyObject_CallFunctionObjArgs(record->backward->callable, inputs, results, gradients, NULL)
            : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(results);
    Py_XDECREF(gradients);
    const xcvm_status status = store(self, returned, in_count, true, "backward", in_gradients);
    tape_callback_end(self, released);
    return status;
}

static void free_record(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, NULL)); }

PyObject *tape_operation(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "forward", "backward", NULL};
    const char *name;
    PyObject *forward, *backward = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO|O:operation", names, &name, &forward, &backward) ||
        !tape_begin(self))
        return NULL;
    operation_record *record = PyMem_Calloc(1, sizeof *record);
    if (record == NULL)
        return PyErr_NoMemory();
    /* The capsule is a callback of the tape that is never called: it frees the record with the tape. */
    PyObject *capsule = PyCapsule_New(record, NULL, free_record);
    if (capsule == NULL) {
        PyMem_Free(record);
        return NULL;
    }
    operation_object *created = NULL;
    if (tape_keep(self, capsule) == 0 && (record->forward = tape_add_callback(self, forward)) != NULL &&
        (backward == Py_None || (record->backward = tape_add_callback(self, backward)) != NULL))
        created = (operation_object *)PyType_GenericAlloc(self->state->operation_type, 0);
    Py_DECREF(capsule);
    if (created == NULL)
        return NULL;
    PyOS_snprintf(record->name, sizeof record->name, "%s", name);
    record->operation = (xcvm_operation){.size = sizeof record->operation,
                                         .name = record->name,
                                         .forward = call_forward,
                                         .backward = record->backward != NULL ? call_backward : NULL,
                                         .user = record};
    Py_INCREF(OBJECT(self));
    created->tape = self;
    created->operation = &record->operation;
    return OBJECT(created);
}

/* operation(inputs, count=1): a variable, or a tuple of `count`. */
static PyObject *operation_call(operation_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "count", NULL};
    PyObject *inputs_object, *count_object = Py_None, *result = NULL;
    variable_list inputs = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Operation", names, &inputs_object, &count_object))
        return NULL;
    const Py_ssize_t count = count_object != Py_None ? PyLong_AsSsize_t(count_object) : 1;
    if (count == -1 && PyErr_Occurred() != NULL)
        return NULL;
    if (count < 0 || count > 1 << 16) {
        PyErr_SetString(PyExc_ValueError, "count is the number of results");
        return NULL;
    }
    xcvm_var *out = PyMem_Calloc((size_t)count + 1, sizeof *out);
    if (out == NULL)
        return PyErr_NoMemory();
    tape_object *tape = self->tape;
    if (variable_list_read(tape, inputs_object, true, "inputs", &inputs) == 0 && tape_enter(tape)) {
        (void)xcvm_tape_call_operation(tape->tape, self->operation, inputs.count, inputs.at, (size_t)count, out);
        if (tape_check(tape) == 0)
            result = count_object != Py_None ? variable_tuple(tape, out, (size_t)count, VARIABLE_RESULT)
                                             : variable_create(tape, out[0], VARIABLE_RESULT, NULL);
        tape_leave(tape);
    }
    variable_list_release(&inputs);
    PyMem_Free(out);
    return result;
}

static int operation_traverse(operation_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->tape);
    return 0;
}

static void operation_dealloc(operation_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    Py_XDECREF(OBJECT(self->tape));
    object_free(type, self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "An operation of Tape.operation. operation(inputs) returns its result, operation(inputs, count) a tuple."},
    {Py_tp_call, SLOT(operation_call)},
    {Py_tp_dealloc, SLOT(operation_dealloc)},
    {Py_tp_traverse, SLOT(operation_traverse)},
    {0, NULL},
};

PyType_Spec operation_spec = {.name = "xcvm._tape.Operation",
                              .basicsize = sizeof(operation_object),
                              .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC |
                                       Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              .slots = slots};
