/* String tensors from Python objects: str, bytes, nested lists, and NumPy arrays by their lists. */
#include "xcvm_python.h"

#include <string.h>

/* Strings in row-major order. The objects that own them are kept in a list. */
typedef struct text_gathering {
    int rank; /* -1: not known yet */
    int64_t dims[XCVM_MAX_RANK];
    size_t count, capacity;
    const char **texts;
    size_t *lengths;
} text_gathering;

static bool add_text(text_gathering *gathering, const char *text, Py_ssize_t length)
{
    if (gathering->count == gathering->capacity) {
        const size_t capacity = gathering->capacity != 0 ? gathering->capacity * 2 : 16;
        const char **texts = PyMem_Realloc(gathering->texts, capacity * sizeof *texts);
        if (texts != NULL)
            gathering->texts = texts;
        size_t *lengths = texts != NULL ? PyMem_Realloc(gathering->lengths, capacity * sizeof *lengths) : NULL;
        if (lengths == NULL) {
            PyErr_NoMemory();
            return false;
        }
        gathering->lengths = lengths;
        gathering->capacity = capacity;
    }
    gathering->texts[gathering->count] = text;
    gathering->lengths[gathering->count++] = (size_t)length;
    return true;
}

static bool gather_texts(text_gathering *gathering, PyObject *object, int depth)
{
    Py_ssize_t length;
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        if (gathering->rank >= 0 && gathering->rank != depth) {
            PyErr_SetString(PyExc_ValueError, "strings at different depths of a nested list");
            return false;
        }
        gathering->rank = depth;
        const char *text =
            PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &length) : PyBytes_AsString(object);
        if (PyBytes_Check(object))
            length = PyBytes_Size(object);
        return text != NULL && add_text(gathering, text, length);
    }
    if (!PyList_Check(object) && !PyTuple_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a tensor of strings was expected, not an object of type %R", Py_TYPE(object));
        return false;
    }
    if (depth == XCVM_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "lists nest deeper than %d", XCVM_MAX_RANK);
        return false;
    }
    length = PyList_Check(object) ? PyList_Size(object) : PyTuple_Size(object);
    if (gathering->dims[depth] >= 0 && gathering->dims[depth] != length) {
        PyErr_SetString(PyExc_ValueError, "lists of different lengths");
        return false;
    }
    gathering->dims[depth] = length;
    if (length == 0 && gathering->rank < 0)
        gathering->rank = depth + 1;
    for (Py_ssize_t i = 0; i < length; i++) {
        /* Subclasses may compute items, which nothing would keep. */
        PyObject *item = PyList_Check(object) ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i);
        if (item == NULL || !gather_texts(gathering, item, depth + 1))
            return false;
    }
    return true;
}

xcvm_value *value_from_strings(PyObject *object)
{
    PyObject *plain = object;
    if (PyObject_HasAttrString(object, "tolist"))
        plain = PyObject_CallMethod(object, "tolist", NULL);
    else
        Py_INCREF(plain);
    if (plain == NULL)
        return NULL;
    text_gathering found = {.rank = -1};
    for (int i = 0; i < XCVM_MAX_RANK; i++)
        found.dims[i] = -1;
    xcvm_value *value = NULL;
    if (gather_texts(&found, plain, 0)) {
        xcvm_error error;
        if (xcvm_string_tensor_create(NULL, found.rank, found.dims, found.texts, found.lengths, &value, &error) !=
            XCVM_OK)
            raise_error(&error);
    }
    PyMem_Free(found.texts);
    PyMem_Free(found.lengths);
    Py_DECREF(plain);
    return value;
}
