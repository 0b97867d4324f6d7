/* Tensors of a tape from Python objects. */
#include "tape_module.h"

#include <string.h>

/* ---- Element types ---- */

/* The text of a name, or of the attribute `name` or `__name__` of a type object of NumPy. New reference. */
static PyObject *name_of(PyObject *object)
{
    static const char *const attributes[] = {"name", "__name__"};
    if (PyUnicode_Check(object)) {
        Py_INCREF(object);
        return object;
    }
    for (size_t i = 0; i < COUNT_OF(attributes); i++) {
        PyObject *name = PyObject_GetAttrString(object, attributes[i]);
        if (name != NULL && PyUnicode_Check(name))
            return name;
        Py_XDECREF(name);
        PyErr_Clear();
    }
    PyErr_Format(PyExc_TypeError, "an object of type %R is no element type", Py_TYPE(object));
    return NULL;
}

int dtype_read(const tape_state *state, PyObject *object, xcvm_dtype none, xcvm_dtype *dtype)
{
    *dtype = none;
    if (object == Py_None)
        return 0;
    PyObject *name = name_of(object);
    const char *text = name != NULL ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text != NULL) {
        *dtype = xcvm_dtype_from_name(text);
        if (*dtype == XCVM_NO_DTYPE)
            *dtype = state->api->dtype_from_numpy_name(text);
        if (*dtype == XCVM_NO_DTYPE)
            PyErr_Format(PyExc_ValueError, "there is no element type %R; types are named as 'f32' or 'float32'", name);
    }
    Py_XDECREF(name);
    return *dtype != XCVM_NO_DTYPE ? 0 : -1;
}

/* ---- Tensors ---- */

static xcvm_value *read_value(tape_object *self, PyObject *object, xcvm_dtype dtype)
{
    const capi *api = self->state->api;
    const xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = -1};
    xcvm_value *value = api->value_from_object(api->state, object, &type, NULL);
    if (value != NULL && dtype != XCVM_NO_DTYPE && xcvm_value_dtype(value) != dtype) {
        PyErr_Format(PyExc_TypeError, "elements of type %s were given, not of %s",
                     xcvm_dtype_name(xcvm_value_dtype(value)), xcvm_dtype_name(dtype));
        xcvm_value_release(value);
        return NULL;
    }
    return value;
}

/* Python numbers of the common types need no value. Returns 1, or 0 if the object is no such number. */
static int number_variable(tape_object *self, PyObject *object, xcvm_dtype dtype, xcvm_var *v)
{
    if (PyFloat_CheckExact(object) && (dtype == XCVM_NO_DTYPE || dtype == XCVM_F32 || dtype == XCVM_F64))
        *v = xcvm_tape_scalar(self->tape, dtype != XCVM_NO_DTYPE ? dtype : XCVM_F32, PyFloat_AsDouble(object));
    else
        return 0;
    return 1;
}

static xcvm_var make(tape_object *self, const xcvm_value *value, bool parameter)
{
    if (!parameter && self->mode != XCVM_TAPE_BUILDING)
        return xcvm_tape_value(self->tape, value);
    return (parameter ? xcvm_tape_parameter : xcvm_tape_constant)(
        self->tape, xcvm_value_dtype(value), xcvm_value_rank(value), xcvm_value_dims(value), xcvm_value_data(value));
}

static PyObject *tensor_variable(tape_object *self, PyObject *args, PyObject *keywords, bool parameter)
{
    static char *names[] = {"data", "dtype", NULL, NULL};
    PyObject *object, *dtype_object = Py_None;
    const char *name = NULL;
    xcvm_dtype dtype;
    xcvm_var v;
    names[2] = parameter ? "name" : NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, parameter ? "O|Oz:parameter" : "O|O:constant", names, &object,
                                     &dtype_object, &name) ||
        dtype_read(self->state, dtype_object, XCVM_NO_DTYPE, &dtype) < 0 || !tape_begin(self))
        return NULL;
    if (!parameter && number_variable(self, object, dtype, &v) != 0)
        return variable_create(self, v, VARIABLE_CONSTANT, NULL);
    xcvm_value *value = read_value(self, object, dtype);
    if (value == NULL)
        return NULL;
    v = make(self, value, parameter);
    xcvm_value_release(value);
    self->state->api->trash_empty(self->state->api->state->trash);
    xcvm_error error;
    if (name != NULL && xcvm_var_set_name(self->tape, v, name, &error) != XCVM_OK) {
        tape_raise(self, &error);
        return NULL;
    }
    return variable_create(self, v, parameter ? VARIABLE_PARAMETER : VARIABLE_CONSTANT, NULL);
}

PyObject *tape_constant(tape_object *self, PyObject *args, PyObject *keywords)
{
    return tensor_variable(self, args, keywords, false);
}

PyObject *tape_parameter(tape_object *self, PyObject *args, PyObject *keywords)
{
    return tensor_variable(self, args, keywords, true);
}

PyObject *tape_value(tape_object *self, PyObject *object)
{
    const capi *api = self->state->api;
    if (!tape_begin(self))
        return NULL;
    const xcvm_type type = {.kind = PyList_Check(object) || PyTuple_Check(object) ? XCVM_KIND_SEQUENCE
                                    : object == Py_None                           ? XCVM_KIND_OPTIONAL
                                    : PyDict_Check(object)                        ? XCVM_KIND_MAP
                                                                                  : XCVM_KIND_TENSOR,
                            .rank = -1};
    xcvm_value *value = api->value_from_object(api->state, object, &type, NULL);
    if (value == NULL)
        return NULL;
    const xcvm_var v = type.kind == XCVM_KIND_TENSOR ? make(self, value, false) : xcvm_tape_value(self->tape, value);
    xcvm_value_release(value);
    api->trash_empty(api->state->trash);
    return variable_create(self, v, VARIABLE_CONSTANT, NULL);
}

PyObject *variable_set_data(variable_object *self, PyObject *object)
{
    tape_object *tape = self->tape;
    xcvm_type type;
    xcvm_error error;
    if (!tape_enter(tape))
        return NULL;
    xcvm_value *value = NULL;
    if (xcvm_var_get_type(tape->tape, self->v, &type, &error) != XCVM_OK)
        tape_raise(tape, &error);
    else
        value = read_value(tape, object, type.dtype);
    bool same = value != NULL && xcvm_value_rank(value) == type.rank;
    for (int i = 0; same && i < type.rank; i++)
        same = xcvm_value_dims(value)[i] == type.dims[i];
    xcvm_status status = XCVM_INTERNAL;
    if (value != NULL && !same)
        PyErr_SetString(PyExc_ValueError, "the shape of the elements is not that of the variable");
    else if (value != NULL && (status = xcvm_var_set_data(tape->tape, self->v, xcvm_value_data(value),
                                                          xcvm_value_bytes(value), &error)) != XCVM_OK)
        tape_raise(tape, &error);
    xcvm_value_release(value);
    tape->state->api->trash_empty(tape->state->api->state->trash);
    tape_leave(tape);
    if (status != XCVM_OK)
        return NULL;
    Py_RETURN_NONE;
}
