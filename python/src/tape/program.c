/* Programs of building tapes: inputs and compilation. */
#include "../compiler/compiler_module.h"
#include "tape_module.h"

#include <stdlib.h>
#include <string.h>

static int read_dims(PyObject *object, PyObject **kept, int64_t dims[XCVM_MAX_RANK], const char *names[XCVM_MAX_RANK])
{
    PyObject *list = PyUnicode_Check(object) ? NULL : PySequence_List(object);
    if (list == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_TypeError, "dims is a list of int, str or None");
        return -1;
    }
    *kept = list;
    const Py_ssize_t rank = PyList_Size(list);
    if (rank > XCVM_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "dims has %zd axes; tensors have at most %d", rank, (int)XCVM_MAX_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PyList_GetItem(list, i);
        names[i] = NULL;
        dims[i] = -1;
        if (PyUnicode_Check(item)) {
            names[i] = PyUnicode_AsUTF8AndSize(item, NULL);
            if (names[i] == NULL)
                return -1;
        } else if (item != Py_None) {
            dims[i] = PyLong_AsLongLong(item);
            if (dims[i] < 0) {
                if (PyErr_Occurred() == NULL)
                    PyErr_SetString(PyExc_ValueError, "a size is negative; a str or None is a dynamic one");
                return -1;
            }
        }
    }
    return (int)rank;
}

PyObject *tape_input(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"name", "dtype", "dims", NULL};
    const char *name, *dim_names[XCVM_MAX_RANK];
    PyObject *dtype_object, *dims_object, *kept = NULL, *result = NULL;
    int64_t dims[XCVM_MAX_RANK];
    xcvm_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sOO:input", names, &name, &dtype_object, &dims_object) ||
        dtype_read(self->state, dtype_object, XCVM_F32, &dtype) < 0 || !tape_begin(self))
        return NULL;
    const int rank = read_dims(dims_object, &kept, dims, dim_names);
    if (rank >= 0)
        result = variable_create(self, xcvm_tape_input(self->tape, name, dtype, rank, dims, dim_names), VARIABLE_RESULT,
                                 NULL);
    Py_XDECREF(kept);
    return result;
}

/* ---- Compilation ---- */

/* Reads pairs of name and variable. */
static xcvm_tape_output *read_outputs(tape_object *self, PyObject *list, size_t count)
{
    xcvm_tape_output *outputs = PyMem_Calloc(count + 1, sizeof *outputs);
    if (outputs == NULL)
        return (xcvm_tape_output *)PyErr_NoMemory();
    for (size_t i = 0; i < count; i++) {
        PyObject *pair = PyList_GetItem(list, (Py_ssize_t)i);
        PyObject *name = PyTuple_Check(pair) && PyTuple_Size(pair) == 2 ? PyTuple_GetItem(pair, 0) : NULL;
        if (name == NULL || !PyUnicode_Check(name))
            PyErr_SetString(PyExc_TypeError, "outputs are pairs of name and variable");
        else
            outputs[i].name = PyUnicode_AsUTF8AndSize(name, NULL);
        if (outputs[i].name == NULL ||
            variable_read(self, PyTuple_GetItem(pair, 1), false, "an output", &outputs[i].v) < 0) {
            PyMem_Free(outputs);
            return NULL;
        }
    }
    return outputs;
}

static PyObject *compile(tape_object *self, const xcvm_tape_output *outputs, size_t count, compile_options *options,
                         compiler_callbacks *callbacks)
{
    byte_buffer program = {0}, data = {0};
    xcc_report report = {.size = sizeof report};
    xcvm_error error = {.status = XCVM_OK, .pc = -1};
    const compiler_state state = {.api = self->state->api};
    callbacks_use(callbacks, &options->options);
    if (options->options.onnx_export.data_location != NULL)
        options->options.onnx_export.data = byte_buffer_sink(&data);
    if (!tape_enter(self))
        return NULL;
    callbacks->thread = PyEval_SaveThread();
    const xcvm_status status =
        xcvm_tape_compile(self->tape, count, outputs, &options->options, byte_buffer_sink(&program), &report, &error);
    PyEval_RestoreThread(callbacks->thread);
    tape_leave(self);
    PyObject *result = NULL;
    if (status != XCVM_OK || callbacks->failure[0] != NULL)
        callbacks_raise(&state, callbacks, &error);
    else
        result =
            Py_BuildValue("(NNN)", byte_buffer_take(&program), byte_buffer_take(&data), compile_report_dict(&report));
    free(program.data);
    free(data.data);
    return result;
}

PyObject *tape_compile(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"outputs", "options", "callbacks", NULL};
    PyObject *outputs_object, *dict = Py_None, *functions = Py_None, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|OO:compile", names, &outputs_object, &dict, &functions))
        return NULL;
    if ((dict != Py_None && !PyDict_Check(dict)) || (functions != Py_None && !PyDict_Check(functions))) {
        PyErr_SetString(PyExc_TypeError, "options and callbacks are dicts");
        return NULL;
    }
    PyObject *list = PySequence_List(outputs_object), *empty = PyDict_New();
    xcvm_tape_output *outputs =
        list != NULL && empty != NULL ? read_outputs(self, list, (size_t)PyList_Size(list)) : NULL;
    if (outputs != NULL) {
        compile_options options;
        compiler_callbacks callbacks = {0};
        if (options_read(&options, dict != Py_None ? dict : empty) == 0 &&
            callbacks_read(&callbacks, functions != Py_None ? functions : empty) == 0)
            result = compile(self, outputs, (size_t)PyList_Size(list), &options, &callbacks);
        options_release(&options);
    }
    PyMem_Free(outputs);
    Py_XDECREF(list);
    Py_XDECREF(empty);
    return result;
}
