/* Option structs from dicts. */
#include "option_reader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

static void *take_block(option_memory *memory, size_t count, size_t size)
{
    void **blocks = realloc(memory->blocks, (memory->block_count + 1) * sizeof *blocks);
    void *block = blocks != NULL ? calloc(count + 1, size) : NULL;
    if (blocks != NULL)
        memory->blocks = blocks;
    if (block == NULL)
        return PyErr_NoMemory();
    return memory->blocks[memory->block_count++] = block;
}

/* Lends the text of a str or path until the options are released. */
static const char *text_of(option_memory *memory, PyObject *object)
{
    PyObject *text = NULL;
    if (PyUnicode_Check(object)) {
        text = object;
        Py_INCREF(text);
    } else if (PyUnicode_FSDecoder(object, &text) == 0) {
        return NULL;
    }
    const char *bytes = PyList_Append(memory->kept, text) == 0 ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    Py_DECREF(text);
    return bytes;
}

/* ---- Values ---- */

static int index_of(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (int index = 0;; index++) {
        const char *end = strchr(names, '|');
        const size_t own = end != NULL ? (size_t)(end - names) : strlen(names);
        if (own == length && strncmp(names, name, own) == 0)
            return index;
        if (end == NULL)
            return -1;
        names = end + 1;
    }
}

/* Stores text `index` of a tuple. */
static bool store_item_text(option_memory *memory, PyObject *tuple, Py_ssize_t index, const char **text)
{
    PyObject *item = PySequence_GetItem(tuple, index);
    *text = item != NULL ? text_of(memory, item) : NULL;
    Py_XDECREF(item);
    return *text != NULL;
}

static bool store_item_number(PyObject *tuple, Py_ssize_t index, double *number)
{
    PyObject *item = PySequence_GetItem(tuple, index);
    *number = item != NULL ? PyFloat_AsDouble(item) : 0;
    Py_XDECREF(item);
    return PyErr_Occurred() == NULL;
}

static bool store_dim(option_memory *memory, PyObject *item, xcc_dim *dim)
{
    PyObject *size = PySequence_GetItem(item, 1);
    dim->value = size != NULL ? PyLong_AsLongLong(size) : 0;
    Py_XDECREF(size);
    return PyErr_Occurred() == NULL && store_item_text(memory, item, 0, &dim->name);
}

/* An item is (pattern, rate, weight decay or None). */
static bool store_group(option_memory *memory, PyObject *item, xcc_training_group *group)
{
    PyObject *decay = PySequence_GetItem(item, 2);
    if (decay == NULL)
        return false;
    group->own_decay = decay != Py_None;
    group->weight_decay = group->own_decay ? PyFloat_AsDouble(decay) : 0;
    Py_DECREF(decay);
    return PyErr_Occurred() == NULL && store_item_number(item, 1, &group->rate) &&
           store_item_text(memory, item, 0, &group->pattern);
}

static bool store_list(option_memory *memory, const option_row *row, PyObject *value, char *target)
{
    typedef struct text_pair {
        const char *first, *second;
    } text_pair;
    static_assert(sizeof(text_pair) == sizeof(xcc_state_pair) && sizeof(text_pair) == sizeof(xcc_vjp_function),
                  "pairs are two texts");
    const Py_ssize_t count = PySequence_Size(value);
    const size_t size = row->kind == OPTION_NAMES   ? sizeof(const char *)
                        : row->kind == OPTION_PAIRS ? sizeof(text_pair)
                        : row->kind == OPTION_DIMS  ? sizeof(xcc_dim)
                                                    : sizeof(xcc_training_group);
    char *items = count >= 0 ? take_block(memory, (size_t)count, size) : NULL;
    bool good = items != NULL;
    for (Py_ssize_t i = 0; good && i < count; i++) {
        void *to = items + (size_t)i * size;
        PyObject *item = PySequence_GetItem(value, i);
        if (item == NULL)
            return false;
        switch (row->kind) {
        case OPTION_NAMES:
            *(const char **)to = text_of(memory, item);
            good = *(const char **)to != NULL;
            break;
        case OPTION_PAIRS:
            good = store_item_text(memory, item, 0, &((text_pair *)to)->first) &&
                   store_item_text(memory, item, 1, &((text_pair *)to)->second);
            break;
        case OPTION_DIMS:
            good = store_dim(memory, item, to);
            break;
        default:
            good = store_group(memory, item, to);
        }
        Py_DECREF(item);
    }
    if (!good)
        return false;
    const size_t stored = (size_t)count;
    memcpy(target + row->offset, &items, sizeof items);
    memcpy(target + row->count_offset, &stored, sizeof stored);
    return true;
}

static bool store_choice(const option_row *row, PyObject *value, void *to)
{
    const char *name = PyUnicode_AsUTF8AndSize(value, NULL);
    if (name == NULL)
        return false;
    const int number = row->kind == OPTION_DTYPE ? (int)xcvm_dtype_from_name(name) : index_of(row->names, name);
    if (number < 0 || (row->kind == OPTION_DTYPE && number == XCVM_NO_DTYPE)) {
        PyErr_Format(PyExc_ValueError, "%s: \"%s\" is not one of %s", row->name, name,
                     row->names != NULL ? row->names : "the element types");
        return false;
    }
    memcpy(to, &number, sizeof number);
    return true;
}

static bool store(option_memory *memory, const option_row *row, PyObject *value, char *target)
{
    void *to = target + row->offset;
    switch (row->kind) {
    case OPTION_BOOL:
        *(bool *)to = PyObject_IsTrue(value) > 0;
        break;
    case OPTION_TEXT:
        *(const char **)to = text_of(memory, value);
        break;
    case OPTION_INT:
        *(int *)to = (int)PyLong_AsLong(value);
        break;
    case OPTION_I64:
        *(int64_t *)to = PyLong_AsLongLong(value);
        break;
    case OPTION_U64:
        *(uint64_t *)to = PyLong_AsUnsignedLongLong(value);
        break;
    case OPTION_SIZE:
        *(size_t *)to = PyLong_AsSize_t(value);
        break;
    case OPTION_REAL:
        *(double *)to = PyFloat_AsDouble(value);
        break;
    case OPTION_DTYPE:
    case OPTION_ENUM:
        return store_choice(row, value, to);
    default:
        return store_list(memory, row, value, target);
    }
    return PyErr_Occurred() == NULL;
}

int option_memory_read(option_memory *memory, const option_row *rows, size_t count, void *target, PyObject *dict,
                       const char *what)
{
    if (memory->kept == NULL && (memory->kept = PyList_New(0)) == NULL)
        return -1;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        const option_row *row = NULL;
        for (size_t i = 0; name != NULL && i < count; i++)
            if (strcmp(rows[i].name, name) == 0)
                row = &rows[i];
        if (row == NULL) {
            if (name != NULL)
                PyErr_Format(PyExc_TypeError, "%s has no option %R", what, key);
            return -1;
        }
        if (value != Py_None && !store(memory, row, value, target))
            return -1;
    }
    return 0;
}

void option_memory_release(option_memory *memory)
{
    for (size_t i = 0; i < memory->block_count; i++)
        free(memory->blocks[i]);
    free(memory->blocks);
    Py_XDECREF(memory->kept);
    *memory = (option_memory){0};
}
