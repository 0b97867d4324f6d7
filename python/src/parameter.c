/* xcvm.Parameter: name and declared type of an input, output or state. */
#include "xcvm_python.h"

#include <stdio.h>
#include <string.h>

static PyStructSequence_Field fields[] = {
    {"name", "str"},
    {"kind", "str: \"tensor\", \"sequence\", \"optional\", \"map\" or \"null\" (undeclared)"},
    {"dtype", "str: element type, as \"f32\"; \"\" if undeclared"},
    {"shape", "tuple of int, of str for a named dynamic dimension, of None for another; None if undeclared"},
    {NULL, NULL},
};

PyStructSequence_Desc parameter_description = {
    .name = "xcvm.Parameter",
    .doc = "Name and declared type of an input, output or state of a program.",
    .fields = fields,
    .n_in_sequence = 4,
};

static const char *kind_name(xcvm_kind kind)
{
    switch (kind) {
#define KIND(name, number, text)                                                                                       \
    case XCVM_KIND_##name:                                                                                             \
        return text;
        XCVM_KIND_LIST(KIND)
#undef KIND
    }
    return "?";
}

static PyObject *shape_of(const xcvm_type *type)
{
    if (type->rank < 0)
        Py_RETURN_NONE;
    PyObject *shape = PyTuple_New(type->rank);
    for (int i = 0; shape != NULL && i < type->rank; i++) {
        PyObject *size;
        if (type->dims[i] >= 0) {
            size = PyLong_FromLongLong(type->dims[i]);
        } else if (type->dim_names[i] != NULL) {
            size = PyUnicode_FromString(type->dim_names[i]);
        } else {
            Py_INCREF(Py_None);
            size = Py_None;
        }
        if (size == NULL || PyTuple_SetItem(shape, i, size) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

PyObject *parameter_from(module_state *state, const xcvm_value_info *parameter)
{
    PyObject *result = PyStructSequence_New(state->parameter_type);
    if (result == NULL)
        return NULL;
    PyObject *items[] = {
        PyUnicode_FromString(parameter->name), PyUnicode_FromString(kind_name(parameter->type.kind)),
        PyUnicode_FromString(parameter->type.dtype != XCVM_NO_DTYPE ? xcvm_dtype_name(parameter->type.dtype) : ""),
        shape_of(&parameter->type)};
    bool good = true;
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        good = good && items[i] != NULL;
        PyStructSequence_SetItem(result, (Py_ssize_t)i, items[i]);
    }
    if (!good)
        Py_CLEAR(result);
    return result;
}

Py_ssize_t parameter_index(const xcvm_value_info *(*at)(const xcvm_program *, size_t), const xcvm_program *program,
                           size_t count, const char *name, const char *what)
{
    char names[400];
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        const char *own = at(program, i)->name;
        if (strcmp(own, name) == 0)
            return (Py_ssize_t)i;
        if (length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"", i != 0 ? ", " : "", own);
    }
    raise_status(XCVM_INVALID_ARGUMENT, "there is no %s \"%.100s\"; the program has %s", what, name,
                 count != 0 ? names : "none");
    return -1;
}
