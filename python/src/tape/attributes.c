/* Attributes of calls: Python objects to the members of a struct xcvm_*_call. */
#include "call.h"

#include <string.h>

void *call_take_memory(scratch *memory, size_t count, size_t size)
{
    const size_t bytes = (count * size + 15) & ~(size_t)15;
    if (count > SIZE_MAX / 2 / (size + 1))
        return PyErr_NoMemory();
    if (bytes <= INLINE_BYTES - memory->used) {
        void *taken = memory->bytes + memory->used;
        memory->used += bytes;
        return taken;
    }
    void **blocks = PyMem_Realloc(memory->blocks, (memory->block_count + 1) * sizeof *blocks);
    if (blocks != NULL)
        memory->blocks = blocks;
    void *block = blocks != NULL ? PyMem_Malloc(bytes) : NULL;
    if (block == NULL)
        return PyErr_NoMemory();
    memory->blocks[memory->block_count++] = block;
    return block;
}

void call_frame_release(call_frame *f)
{
    for (size_t i = 0; i < f->memory.block_count; i++)
        PyMem_Free(f->memory.blocks[i]);
    PyMem_Free(f->memory.blocks);
    Py_XDECREF(f->kept);
}

/* Keeps an object until the end of the call. Takes the reference. */
int call_keep(call_frame *f, PyObject *object)
{
    if (f->kept == NULL)
        f->kept = PyList_New(0);
    const int result = f->kept != NULL && object != NULL ? PyList_Append(f->kept, object) : -1;
    Py_XDECREF(object);
    return result;
}

/* Puts the instruction's name and the field's before the message of the current exception. */
int call_name_field(const call_frame *f, const char *what, const char *name)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const bool plain = text != NULL && (PyErr_GivenExceptionMatches(type, PyExc_TypeError) ||
                                        PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
                                        PyErr_GivenExceptionMatches(type, PyExc_OverflowError));
    if (!plain) {
        Py_XDECREF(text);
        PyErr_Restore(type, value, traceback);
        return -1;
    }
    PyErr_Format(PyErr_GivenExceptionMatches(type, PyExc_TypeError)       ? PyExc_TypeError
                 : PyErr_GivenExceptionMatches(type, PyExc_OverflowError) ? PyExc_OverflowError
                                                                          : PyExc_ValueError,
                 "%s: %s '%s': %U", f->row->name, what, name, text);
    Py_DECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
}

/* ---- Attributes ---- */

PyObject *call_items(call_frame *f, PyObject *object, Py_ssize_t *count)
{
    PyObject *plain = object, *list = NULL;
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a list was expected, not a text");
        return NULL;
    }
    if (!PyList_Check(object) && !PyTuple_Check(object) && PyObject_HasAttrString(object, "tolist")) {
        plain = PyObject_CallMethod(object, "tolist", NULL);
        if (plain != NULL && !PyList_Check(plain)) {
            PyErr_Format(PyExc_TypeError, "a list was expected, not an object of type %R", Py_TYPE(object));
            Py_CLEAR(plain);
        }
    } else {
        Py_INCREF(plain);
    }
    if (plain != NULL)
        list = PySequence_List(plain);
    Py_XDECREF(plain);
    if (list == NULL || call_keep(f, list) < 0)
        return NULL;
    *count = PyList_Size(list);
    return list;
}

int call_read_int(PyObject *object, int64_t *number)
{
    /* Tensors and arrays of one element have no __index__ but item(). */
    PyObject *whole = NULL;
    if (!PyLong_Check(object) && !PyFloat_Check(object) && PyObject_HasAttrString(object, "item")) {
        PyObject *item = PyObject_CallMethod(object, "item", NULL);
        whole = item != NULL ? PyNumber_Index(item) : NULL;
        Py_XDECREF(item);
    } else {
        whole = PyNumber_Index(object);
    }
    if (whole == NULL)
        return -1;
    *number = PyLong_AsLongLong(whole);
    Py_DECREF(whole);
    return *number == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

static int read_float(PyObject *object, double *number)
{
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a number was expected, not a text");
        return -1;
    }
    *number = PyFloat_AsDouble(object);
    return *number == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

static int read_text(call_frame *f, PyObject *object, const char **text)
{
    Py_ssize_t length = 0;
    if (PyUnicode_Check(object)) {
        *text = PyUnicode_AsUTF8AndSize(object, &length);
    } else if (PyBytes_Check(object)) {
        *text = PyBytes_AsString(object);
        length = PyBytes_Size(object);
    } else {
        PyErr_Format(PyExc_TypeError, "a text was expected, not an object of type %R", Py_TYPE(object));
        return -1;
    }
    if (*text == NULL)
        return -1;
    if (strlen(*text) != (size_t)length) {
        PyErr_SetString(PyExc_ValueError, "the text contains a NUL character");
        return -1;
    }
    Py_INCREF(object);
    return call_keep(f, object);
}

static int read_ints(call_frame *f, PyObject *object, xcvm_int_list *list)
{
    Py_ssize_t count;
    PyObject *items = call_items(f, object, &count);
    int64_t *numbers = items != NULL ? call_take_memory(&f->memory, (size_t)count, sizeof *numbers) : NULL;
    if (numbers == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (call_read_int(PyList_GetItem(items, i), &numbers[i]) < 0)
            return -1;
    *list = (xcvm_int_list){numbers, (size_t)count};
    return 0;
}

static int read_floats(call_frame *f, PyObject *object, xcvm_float_list *list)
{
    Py_ssize_t count;
    PyObject *items = call_items(f, object, &count);
    double *numbers = items != NULL ? call_take_memory(&f->memory, (size_t)count, sizeof *numbers) : NULL;
    if (numbers == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_float(PyList_GetItem(items, i), &numbers[i]) < 0)
            return -1;
    *list = (xcvm_float_list){numbers, (size_t)count};
    return 0;
}

static int read_texts(call_frame *f, PyObject *object, xcvm_text_list *list)
{
    Py_ssize_t count;
    PyObject *items = call_items(f, object, &count);
    const char **texts = items != NULL ? call_take_memory(&f->memory, (size_t)count, sizeof *texts) : NULL;
    if (texts == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_text(f, PyList_GetItem(items, i), &texts[i]) < 0)
            return -1;
    *list = (xcvm_text_list){texts, (size_t)count};
    return 0;
}

static int read_choice(const field *own, PyObject *object, int *choice)
{
    int64_t number;
    if (!PyUnicode_Check(object)) {
        if (call_read_int(object, &number) < 0)
            return -1;
        *choice = number < 0 || number > INT16_MAX ? -1 : (int)number; /* the tape checks the range */
        return 0;
    }
    const char *name = PyUnicode_AsUTF8AndSize(object, NULL), *values = own->values;
    const size_t length = name != NULL ? strlen(name) : 0;
    for (int i = 0; name != NULL && *values != '\0'; i++) {
        const char *end = strchr(values, '|');
        if ((size_t)(end - values) == length && strncmp(values, name, length) == 0) {
            *choice = i;
            return 0;
        }
        values = end + 1;
    }
    if (name != NULL)
        PyErr_Format(PyExc_ValueError, "'%U' is not one of %s", object, own->values);
    return -1;
}

static int read_attribute(call_frame *f, const field *own, PyObject *object)
{
    void *at = f->call + own->offset;
    if (object == Py_None)
        return 0;
    switch (own->kind) {
    case FIELD_INT:
        return call_read_int(object, at);
    case FIELD_INTS:
        return read_ints(f, object, at);
    case FIELD_FLOAT:
        return read_float(object, at);
    case FIELD_FLOATS:
        return read_floats(f, object, at);
    case FIELD_TEXT:
        return read_text(f, object, at);
    case FIELD_TEXTS:
        return read_texts(f, object, at);
    case FIELD_DTYPE:
        return dtype_read(f->tape->state, object, XCVM_NO_DTYPE, at);
    default:
        return read_choice(own, object, at);
    }
}

static void raise_unknown_attribute(const call_frame *f, PyObject *name)
{
    char names[600];
    size_t length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < f->field_count; i++)
        if (f->fields[i].kind >= FIELD_INT && length < sizeof names)
            length += (size_t)PyOS_snprintf(names + length, sizeof names - length, "%s%s", length != 0 ? ", " : "",
                                            f->fields[i].name);
    PyErr_Format(PyExc_TypeError, "%s: there is no attribute %R; the instruction has %s", f->row->name, name,
                 length != 0 ? names : "none");
}

int call_read_attributes(call_frame *f, PyObject *attributes)
{
    if (!PyDict_Check(attributes)) {
        PyErr_Format(PyExc_TypeError, "%s: attributes are a dict, not an object of type %R", f->row->name,
                     Py_TYPE(attributes));
        return -1;
    }
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(attributes, &position, &name, &value)) {
        const field *own = NULL;
        for (size_t i = 0; own == NULL && i < f->field_count; i++)
            if (f->fields[i].kind >= FIELD_INT && PyUnicode_Check(name) &&
                PyUnicode_CompareWithASCIIString(name, f->fields[i].name) == 0)
                own = &f->fields[i];
        if (own == NULL) {
            raise_unknown_attribute(f, name);
            return -1;
        }
        Py_INCREF(value);
        const int result = read_attribute(f, own, value);
        Py_DECREF(value);
        if (result < 0)
            return call_name_field(f, "attribute", own->name);
    }
    return 0;
}
