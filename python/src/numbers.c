/* Tensors from nested lists and tuples of Python numbers, which need no NumPy. */
#include "xcvm_python.h"

#include <string.h>

typedef struct survey {
    int rank; /* -1: not known yet */
    int64_t dims[XCVM_MAX_RANK];
    bool floats, integers, large; /* large: an integer that i64 does not hold */
} survey;

static bool is_list(PyObject *object) { return PyList_Check(object) || PyTuple_Check(object); }

static Py_ssize_t length_of(PyObject *list) { return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list); }

/* Returns a new reference, since a handler of a signal may change the list. */
static PyObject *item_of(PyObject *list, Py_ssize_t index)
{
    PyObject *item = PyList_Check(list) ? PyList_GetItem(list, index) : PyTuple_GetItem(list, index);
    Py_XINCREF(item);
    return item;
}

static int refuse_changed(void)
{
    PyErr_SetString(PyExc_ValueError, "a list was changed while it was read");
    return -1;
}

/* Signals are looked at after many numbers. */
static bool is_interrupted(Py_ssize_t index)
{
    enum { NUMBERS = 1 << 16 };
    return index % NUMBERS == NUMBERS - 1 && PyErr_CheckSignals() != 0;
}

static int refuse(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

/* Returns 1, 0 if there is something else than numbers and lists, or -1 with an exception. */
static int look(survey *s, PyObject *object, int depth)
{
    if (!is_list(object)) {
        /* Subclasses may run code, which could change the lists. */
        const bool is_float = PyFloat_CheckExact(object), is_integer = PyLong_CheckExact(object);
        if (!is_float && !is_integer && !PyBool_Check(object))
            return 0;
        if (s->rank >= 0 && s->rank != depth)
            return refuse("numbers at different depths of a nested list");
        s->rank = depth;
        s->floats |= is_float;
        int overflow = 0;
        if (is_integer) {
            (void)PyLong_AsLongLongAndOverflow(object, &overflow);
            s->large |= overflow != 0;
        }
        s->integers |= is_integer;
        return 1;
    }
    if (depth == XCVM_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "lists nest deeper than %d", XCVM_MAX_RANK);
        return -1;
    }
    const Py_ssize_t length = length_of(object);
    int found = 1;
    if (s->rank >= 0 && depth >= s->rank)
        return refuse("numbers at different depths of a nested list");
    for (Py_ssize_t i = 0; i < length && found > 0; i++) {
        PyObject *item = item_of(object, i);
        found = item != NULL ? look(s, item, depth + 1) : refuse_changed();
        Py_XDECREF(item);
        if (is_interrupted(i))
            return -1;
    }
    if (found <= 0 || PyErr_CheckSignals() != 0)
        return found <= 0 ? found : -1;
    if (s->dims[depth] >= 0 && s->dims[depth] != length)
        return refuse("lists of different lengths");
    s->dims[depth] = length;
    if (length == 0 && s->rank < 0)
        s->rank = depth + 1;
    return 1;
}

static bool fill(const survey *s, xcvm_dtype dtype, char **to, PyObject *object, int depth)
{
    if (depth < s->rank ? !is_list(object) || length_of(object) != s->dims[depth] : is_list(object))
        return refuse_changed() == 0;
    if (depth == s->rank) {
        if (!dtype_store(dtype, *to, object))
            return false;
        *to += xcvm_dtype_bits(dtype) / 8;
        return true;
    }
    const Py_ssize_t length = length_of(object);
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = item_of(object, i);
        const bool good = item != NULL ? fill(s, dtype, to, item, depth + 1) : refuse_changed() == 0;
        Py_XDECREF(item);
        if (!good || is_interrupted(i))
            return false;
    }
    return PyErr_CheckSignals() == 0;
}

int value_from_numbers(PyObject *object, xcvm_dtype wanted, xcvm_value **value)
{
    if (!is_list(object) || (wanted != XCVM_NO_DTYPE && !dtype_stores(wanted)))
        return 0;
    survey s = {.rank = -1};
    for (int i = 0; i < XCVM_MAX_RANK; i++)
        s.dims[i] = -1;
    const int found = look(&s, object, 0);
    if (found <= 0 || (s.large && wanted == XCVM_NO_DTYPE))
        return found < 0 ? -1 : 0;
    /* The types that NumPy takes for lists, which also decides for large integers. */
    const bool counts = s.integers && !s.floats, flags = !s.integers && !s.floats;
    size_t numbers = 1;
    for (int i = 0; i < s.rank; i++)
        numbers *= (size_t)s.dims[i];
    const xcvm_dtype dtype = wanted != XCVM_NO_DTYPE ? wanted
                             : counts                ? XCVM_I64
                             : flags && numbers > 0  ? XCVM_BOOL
                                                     : XCVM_F64;
    xcvm_error error;
    if (xcvm_tensor_create(NULL, dtype, s.rank, s.dims, value, &error) != XCVM_OK) {
        raise_error(&error);
        return -1;
    }
    char *to = xcvm_value_data(*value);
    if (fill(&s, dtype, &to, object, 0))
        return 1;
    xcvm_value_release(*value);
    *value = NULL;
    return -1;
}
