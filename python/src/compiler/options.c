/*
 * The compiler's options by name: the only file that uses members of xcc_options. A new option is a line of the table.
 * xcvm/_options.py maps the names and values of the command's options to these.
 */
#include "compiler_module.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind {
    OPTION_BOOL,   /* bool */
    OPTION_TEXT,   /* const char * */
    OPTION_INT,    /* int */
    OPTION_I64,    /* int64_t */
    OPTION_U64,    /* uint64_t */
    OPTION_SIZE,   /* size_t */
    OPTION_REAL,   /* double */
    OPTION_DTYPE,  /* xcvm_dtype, by its name */
    OPTION_ENUM,   /* an enum, by the index of its name in `names` */
    OPTION_NAMES,  /* const char *const *, and a count */
    OPTION_PAIRS,  /* an array of two texts each, and a count */
    OPTION_DIMS,   /* xcc_dim *, and a count */
    OPTION_GROUPS, /* xcc_training_group *, and a count */
} option_kind;

typedef struct option_row {
    const char *name;
    option_kind kind;
    size_t offset, count_offset;
    const char *names; /* of OPTION_ENUM, separated by | */
} option_row;

#define AT(member) offsetof(xcc_options, member)

static const option_row table[] = {
    {"dims", OPTION_DIMS, AT(dims), AT(dim_count), NULL},
    {"scheduling", OPTION_ENUM, AT(scheduling), 0, "memory|naive"},
    {"optimization", OPTION_INT, AT(optimization), 0, NULL},
    {"strip", OPTION_BOOL, AT(strip), 0, NULL},
    {"dump_after", OPTION_TEXT, AT(dump_after), 0, NULL},
    {"plain_layout", OPTION_BOOL, AT(plain_layout), 0, NULL},
    {"kernel_library", OPTION_TEXT, AT(fuse), 0, NULL},
    {"keep_c", OPTION_TEXT, AT(keep_c), 0, NULL},
    {"cc", OPTION_TEXT, AT(cc), 0, NULL},
    {"cache_dir", OPTION_TEXT, AT(cache_dir), 0, NULL},
    {"target", OPTION_TEXT, AT(target), 0, NULL},
    {"tune", OPTION_BOOL, AT(tune), 0, NULL},
    {"weights", OPTION_DTYPE, AT(weights), 0, NULL},
    {"flush_subnormals", OPTION_BOOL, AT(flush_subnormals), 0, NULL},
    {"memory_limit", OPTION_SIZE, AT(memory_limit), 0, NULL},
    {"timeout_ns", OPTION_U64, AT(timeout_ns), 0, NULL},
    {"backprop", OPTION_BOOL, AT(backprop), 0, NULL},
    {"loss", OPTION_TEXT, AT(loss), 0, NULL},
    {"wrt", OPTION_NAMES, AT(wrt), AT(wrt_count), NULL},
    {"states", OPTION_PAIRS, AT(states), AT(state_count), NULL},
    {"train", OPTION_TEXT, AT(train), 0, NULL},
    {"groups", OPTION_GROUPS, AT(groups), AT(group_count), NULL},
    {"clip_norm", OPTION_REAL, AT(clip_norm), 0, NULL},
    {"clip_value", OPTION_REAL, AT(clip_value), 0, NULL},
    {"accumulate", OPTION_BOOL, AT(accumulate), 0, NULL},
    {"average", OPTION_REAL, AT(average), 0, NULL},
    {"loss_scale", OPTION_REAL, AT(loss_scale), 0, NULL},
    {"all_reduce", OPTION_BOOL, AT(all_reduce), 0, NULL},
    {"evaluate", OPTION_BOOL, AT(evaluate), 0, NULL},
    {"train_batch_normalization", OPTION_BOOL, AT(train_batch_normalization), 0, NULL},
    {"local_batch_normalization", OPTION_BOOL, AT(local_batch_normalization), 0, NULL},
    {"straight_through", OPTION_BOOL, AT(straight_through), 0, NULL},
    {"phase", OPTION_ENUM, AT(phase), 0, "whole|forward|backward"},
    {"order", OPTION_INT, AT(order), 0, NULL},
    {"vjps", OPTION_PAIRS, AT(vjps), AT(vjp_count), NULL},
    {"recompute", OPTION_TEXT, AT(recompute), 0, NULL},
    {"memory_budget", OPTION_U64, AT(memory_budget), 0, NULL},
    {"integer", OPTION_ENUM, AT(integer), 0, "auto|always|never"},
    {"onnx", OPTION_BOOL, AT(onnx), 0, NULL},
    {"onnx_data_location", OPTION_TEXT, AT(onnx_data_location), 0, NULL},
    {"weight_blocks", OPTION_ENUM, AT(weight_blocks), 0, "plain|q8|q4|q4a"},
    {"integer_activations", OPTION_BOOL, AT(integer_activations), 0, NULL},
    {"compute", OPTION_DTYPE, AT(compute), 0, NULL},
    {"caches", OPTION_DTYPE, AT(caches), 0, NULL},
    {"cache_rows", OPTION_I64, AT(cache_rows), 0, NULL},
    {"inference", OPTION_BOOL, AT(inference), 0, NULL},
    {"state_patterns", OPTION_NAMES, AT(state_patterns), AT(state_pattern_count), NULL},
    {"ignore_label", OPTION_I64, AT(ignore_label), 0, NULL},
    {"own_ignore_label", OPTION_BOOL, AT(own_ignore_label), 0, NULL},
    {"default_inputs", OPTION_NAMES, AT(default_inputs), AT(default_input_count), NULL},
};

PyObject *options_names(void)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < COUNT_OF(table); i++) {
        PyObject *name = PyUnicode_FromString(table[i].name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* ---- Memory ---- */

static void *take_block(compile_options *options, size_t count, size_t size)
{
    void **blocks = realloc(options->blocks, (options->block_count + 1) * sizeof *blocks);
    void *block = blocks != NULL ? calloc(count + 1, size) : NULL;
    if (blocks != NULL)
        options->blocks = blocks;
    if (block == NULL)
        return PyErr_NoMemory();
    return options->blocks[options->block_count++] = block;
}

/* Lends the text of a str or path until the options are released. */
static const char *text_of(compile_options *options, PyObject *object)
{
    PyObject *text = NULL;
    if (PyUnicode_Check(object)) {
        text = object;
        Py_INCREF(text);
    } else if (PyUnicode_FSDecoder(object, &text) == 0) {
        return NULL;
    }
    const char *bytes = PyList_Append(options->kept, text) == 0 ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
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
static bool store_item_text(compile_options *options, PyObject *tuple, Py_ssize_t index, const char **text)
{
    PyObject *item = PySequence_GetItem(tuple, index);
    *text = item != NULL ? text_of(options, item) : NULL;
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

static bool store_dim(compile_options *options, PyObject *item, xcc_dim *dim)
{
    PyObject *size = PySequence_GetItem(item, 1);
    dim->value = size != NULL ? PyLong_AsLongLong(size) : 0;
    Py_XDECREF(size);
    return PyErr_Occurred() == NULL && store_item_text(options, item, 0, &dim->name);
}

/* An item is (pattern, rate, weight decay or None). */
static bool store_group(compile_options *options, PyObject *item, xcc_training_group *group)
{
    PyObject *decay = PySequence_GetItem(item, 2);
    if (decay == NULL)
        return false;
    group->own_decay = decay != Py_None;
    group->weight_decay = group->own_decay ? PyFloat_AsDouble(decay) : 0;
    Py_DECREF(decay);
    return PyErr_Occurred() == NULL && store_item_number(item, 1, &group->rate) &&
           store_item_text(options, item, 0, &group->pattern);
}

static bool store_list(compile_options *options, const option_row *row, PyObject *value)
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
    char *items = count >= 0 ? take_block(options, (size_t)count, size) : NULL;
    bool good = items != NULL;
    for (Py_ssize_t i = 0; good && i < count; i++) {
        void *to = items + (size_t)i * size;
        PyObject *item = PySequence_GetItem(value, i);
        if (item == NULL)
            return false;
        switch (row->kind) {
        case OPTION_NAMES:
            *(const char **)to = text_of(options, item);
            good = *(const char **)to != NULL;
            break;
        case OPTION_PAIRS:
            good = store_item_text(options, item, 0, &((text_pair *)to)->first) &&
                   store_item_text(options, item, 1, &((text_pair *)to)->second);
            break;
        case OPTION_DIMS:
            good = store_dim(options, item, to);
            break;
        default:
            good = store_group(options, item, to);
        }
        Py_DECREF(item);
    }
    if (!good)
        return false;
    const size_t stored = (size_t)count;
    memcpy((char *)&options->options + row->offset, &items, sizeof items);
    memcpy((char *)&options->options + row->count_offset, &stored, sizeof stored);
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

static bool store(compile_options *options, const option_row *row, PyObject *value)
{
    void *to = (char *)&options->options + row->offset;
    switch (row->kind) {
    case OPTION_BOOL:
        *(bool *)to = PyObject_IsTrue(value) > 0;
        break;
    case OPTION_TEXT:
        *(const char **)to = text_of(options, value);
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
        return store_list(options, row, value);
    }
    return PyErr_Occurred() == NULL;
}

int options_read(compile_options *options, PyObject *dict)
{
    *options = (compile_options){.options = {.size = sizeof(xcc_options)}, .kept = PyList_New(0)};
    if (options->kept == NULL)
        return -1;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        const option_row *row = NULL;
        for (size_t i = 0; name != NULL && i < COUNT_OF(table); i++)
            if (strcmp(table[i].name, name) == 0)
                row = &table[i];
        if (row == NULL) {
            if (name != NULL)
                PyErr_Format(PyExc_TypeError, "the compiler has no option %R", key);
            return -1;
        }
        if (value != Py_None && !store(options, row, value))
            return -1;
    }
    return 0;
}

void options_release(compile_options *options)
{
    for (size_t i = 0; i < options->block_count; i++)
        free(options->blocks[i]);
    free(options->blocks);
    Py_XDECREF(options->kept);
    *options = (compile_options){0};
}
