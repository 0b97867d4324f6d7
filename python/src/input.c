/* Python objects as values: tensors by the buffer protocol, DLPack or NumPy; numbers; lists, None and dicts. */
#include "xcvm_python.h"

#include <string.h>

static xcvm_value *number_value(PyObject *number, xcvm_dtype wanted)
{
    xcvm_dtype dtype = wanted;
    if (dtype == XCVM_NO_DTYPE)
        dtype = PyBool_Check(number) ? XCVM_BOOL : PyLong_Check(number) ? XCVM_I64 : XCVM_F32;
    int64_t element;
    if (!dtype_store(dtype, &element, number))
        return NULL;
    xcvm_value *value;
    xcvm_error error;
    if (xcvm_tensor_create(NULL, dtype, 0, NULL, &value, &error) != XCVM_OK)
        return (xcvm_value *)raise_error(&error);
    memcpy(xcvm_value_data(value), &element, (size_t)xcvm_dtype_bits(dtype) / 8);
    return value;
}

/* numpy.asarray(object, dtype). Lists of other objects take the type that the input wants; arrays keep theirs. */
static xcvm_value *value_by_numpy(module_state *state, PyObject *object, xcvm_dtype wanted)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL) {
        PyErr_Format(
            PyExc_TypeError,
            "an object of type %R has neither a buffer nor __dlpack__, and NumPy, which could convert it, is not "
            "installed",
            Py_TYPE(object));
        return NULL;
    }
    const dtype_info *info = dtype_find(wanted);
    const bool is_list = PyList_Check(object) || PyTuple_Check(object);
    PyObject *array = is_list && info != NULL && info->format != NULL
                          ? PyObject_CallMethod(numpy, "asarray", "Os", object, info->numpy_name)
                          : PyObject_CallMethod(numpy, "asarray", "O", object);
    Py_DECREF(numpy);
    if (array == NULL)
        return NULL;
    xcvm_value *value = NULL;
    const int found = array != object ? value_from_buffer(state, array, wanted, &value) : 0;
    if (found == 0)
        PyErr_Format(PyExc_TypeError, "an object of type %R cannot be a tensor", Py_TYPE(object));
    Py_DECREF(array);
    return found > 0 ? value : NULL;
}

static xcvm_value *tensor_value(module_state *state, PyObject *object, xcvm_dtype wanted)
{
    xcvm_value *value = NULL;
    if (is_tensor(state, object)) {
        xcvm_error error;
        if (xcvm_value_retain(((tensor_object *)object)->value, &value, &error) != XCVM_OK)
            raise_error(&error);
        return value;
    }
    if (wanted == XCVM_STRING)
        return value_from_strings(object);
    if (PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object))
        return number_value(object, wanted);
    int found = value_from_numbers(object, wanted, &value);
    if (found == 0)
        found = value_from_buffer(state, object, wanted, &value);
    if (found == 0)
        found = value_from_array_interface(state, object, wanted, &value);
    if (found == 0 && PyObject_HasAttr(object, state->name_dlpack) > 0)
        found = dlpack_import(state, object, &value) == 0 ? 1 : -1;
    if (found != 0)
        return found > 0 ? value : NULL;
    if (PyUnicode_Check(object) || PyBytes_Check(object))
        return value_from_strings(object);
    return value_by_numpy(state, object, wanted);
}

static xcvm_value *convert(module_state *state, PyObject *object, const xcvm_type *type, int depth);

/* Steals the references of `items`. */
static xcvm_value *make_list(xcvm_kind kind, size_t count, xcvm_value **items)
{
    xcvm_value *list = NULL;
    xcvm_error error;
    if (PyErr_Occurred() == NULL && xcvm_list_create(NULL, kind, count, items, &list, &error) != XCVM_OK)
        raise_error(&error);
    for (size_t i = 0; i < count; i++)
        xcvm_value_release(items[i]);
    return list;
}

static xcvm_value *sequence_value(module_state *state, PyObject *object, const xcvm_type *type, int depth)
{
    const Py_ssize_t length = PySequence_Size(object);
    if (length < 0)
        return NULL;
    xcvm_value **items = PyMem_Calloc((size_t)length + 1, sizeof *items);
    if (items == NULL)
        return (xcvm_value *)PyErr_NoMemory();
    const xcvm_type item_type = {.kind = XCVM_KIND_NULL, .dtype = type->dtype, .rank = -1};
    for (Py_ssize_t i = 0; i < length && PyErr_Occurred() == NULL; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        if (item != NULL)
            items[i] = convert(state, item, &item_type, depth + 1);
        Py_XDECREF(item);
    }
    xcvm_value *list = make_list(XCVM_KIND_SEQUENCE, (size_t)length, items);
    PyMem_Free(items);
    return list;
}

static xcvm_value *optional_value(module_state *state, PyObject *object, const xcvm_type *type, int depth)
{
    if (object == Py_None)
        return make_list(XCVM_KIND_OPTIONAL, 0, NULL);
    const xcvm_type item_type = {.kind = XCVM_KIND_NULL, .dtype = type->dtype, .rank = -1};
    xcvm_value *item = convert(state, object, &item_type, depth + 1);
    return item != NULL ? make_list(XCVM_KIND_OPTIONAL, 1, &item) : NULL;
}

static xcvm_value *map_value(module_state *state, PyObject *object)
{
    PyObject *keys = PyDict_Keys(object), *values = PyDict_Values(object);
    xcvm_value *items[2] = {0};
    PyObject *first = keys != NULL && PyList_Size(keys) > 0 ? PyList_GetItem(keys, 0) : NULL;
    const bool by_text = first != NULL && PyUnicode_Check(first);
    if (keys != NULL && values != NULL)
        items[0] = tensor_value(state, keys, by_text ? XCVM_STRING : XCVM_I64);
    if (items[0] != NULL)
        items[1] = tensor_value(state, values, XCVM_NO_DTYPE);
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return make_list(XCVM_KIND_MAP, 2, items);
}

static xcvm_value *convert(module_state *state, PyObject *object, const xcvm_type *type, int depth)
{
    enum { MOST = 16 };
    if (depth > MOST) {
        PyErr_Format(PyExc_ValueError, "lists nest deeper than %d", MOST);
        return NULL;
    }
    switch (type->kind) {
    case XCVM_KIND_SEQUENCE:
        return sequence_value(state, object, type, depth);
    case XCVM_KIND_OPTIONAL:
        return optional_value(state, object, type, depth);
    case XCVM_KIND_MAP:
        if (PyDict_Check(object))
            return map_value(state, object);
        PyErr_Format(PyExc_TypeError, "a dict was expected, not an object of type %R", Py_TYPE(object));
        return NULL;
    case XCVM_KIND_NULL: /* undeclared */
        if (PyDict_Check(object))
            return map_value(state, object);
        if (depth > 0 && PyList_Check(object))
            return sequence_value(state, object, type, depth);
        return tensor_value(state, object, type->dtype);
    default:
        return tensor_value(state, object, type->dtype);
    }
}

/* Puts the input's name before the message of the current exception. */
static void name_input(const char *name)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    if (text == NULL ||
        !(PyErr_GivenExceptionMatches(type, PyExc_TypeError) || PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
          PyErr_GivenExceptionMatches(type, PyExc_BufferError) ||
          PyErr_GivenExceptionMatches(type, PyExc_OverflowError))) {
        Py_XDECREF(text);
        PyErr_Restore(type, value, traceback);
        return;
    }
    PyErr_Format(type, "input \"%s\": %U", name, text);
    Py_DECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

xcvm_value *value_from_object(module_state *state, PyObject *object, const xcvm_type *type, const char *name)
{
    static const xcvm_type undeclared = {.kind = XCVM_KIND_NULL, .rank = -1};
    xcvm_value *value = convert(state, object, type != NULL ? type : &undeclared, 0);
    if (value == NULL && name != NULL)
        name_input(name);
    return value;
}

int shape_from_object(PyObject *object, int64_t dims[XCVM_MAX_RANK])
{
    const Py_ssize_t rank = PySequence_Size(object);
    if (rank < 0 || rank > XCVM_MAX_RANK) {
        if (rank >= 0)
            PyErr_Format(PyExc_ValueError, "a shape of %zd axes; tensors have at most %d", rank, XCVM_MAX_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        dims[i] = item != NULL ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (dims[i] < 0) {
            if (PyErr_Occurred() == NULL)
                PyErr_SetString(PyExc_ValueError, "a dimension is negative");
            return -1;
        }
    }
    return (int)rank;
}
