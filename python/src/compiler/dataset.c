/* xcvm._compiler.Dataset: examples of files, for the inputs of a trainer or of a program. */
#include "compiler_module.h"

#include <stdlib.h>

bool is_dataset(const compiler_state *state, PyObject *object)
{
    return PyObject_TypeCheck(object, state->dataset_type);
}

/* ---- Paths and columns ---- */

/* Lends the text of item `index` of a sequence; NULL for None, or with an exception. */
static const char *item_text(PyObject *kept, PyObject *sequence, Py_ssize_t index)
{
    PyObject *item = PySequence_GetItem(sequence, index);
    const char *text = NULL;
    if (item != NULL && item != Py_None && PyList_Append(kept, item) == 0)
        text = PyUnicode_AsUTF8AndSize(item, NULL);
    Py_XDECREF(item);
    return text;
}

int column_list_read(column_list *columns, PyObject *paths, PyObject *rows)
{
    const Py_ssize_t path_count = PySequence_Size(paths), count = PySequence_Size(rows);
    *columns = (column_list){.kept = PyList_New(0)};
    if (path_count < 0 || count < 0 || columns->kept == NULL)
        return -1;
    columns->paths = calloc((size_t)path_count + 1, sizeof *columns->paths);
    columns->items = calloc((size_t)count + 1, sizeof *columns->items);
    if (columns->paths == NULL || columns->items == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < path_count && PyErr_Occurred() == NULL; i++)
        columns->paths[i] = item_text(columns->kept, paths, i);
    for (Py_ssize_t i = 0; i < count && PyErr_Occurred() == NULL; i++) {
        PyObject *row = PySequence_GetItem(rows, i);
        PyObject *scale = row != NULL ? PySequence_GetItem(row, 2) : NULL;
        if (scale != NULL) {
            columns->items[i].input = item_text(columns->kept, row, 0);
            columns->items[i].array = item_text(columns->kept, row, 1);
            columns->items[i].scale = PyFloat_AsDouble(scale);
        }
        Py_XDECREF(scale);
        Py_XDECREF(row);
    }
    columns->path_count = (size_t)path_count;
    columns->count = (size_t)count;
    return PyErr_Occurred() == NULL ? 0 : -1;
}

void column_list_release(column_list *columns)
{
    free(columns->paths);
    free(columns->items);
    Py_XDECREF(columns->kept);
    *columns = (column_list){0};
}

/* ---- Life ---- */

PyObject *dataset_object_create(const compiler_state *state, xct_dataset *dataset, size_t input_count,
                                PyObject *trainer)
{
    dataset_object *self = (dataset_object *)PyType_GenericAlloc(state->dataset_type, 0);
    if (self == NULL) {
        xct_dataset_destroy(dataset);
        return NULL;
    }
    self->state = state;
    self->dataset = dataset;
    self->input_count = input_count;
    Py_XINCREF(trainer);
    self->trainer = trainer;
    return OBJECT(self);
}

/* Dataset(inputs, paths, columns): inputs are (name, (kind, dtype, shape)). */
static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    const compiler_state *state = PyType_GetModuleState(type);
    PyObject *inputs, *paths, *rows, *result = NULL;
    if (!PyArg_ParseTuple(args, "OOO:Dataset", &inputs, &paths, &rows))
        return NULL;
    const Py_ssize_t count = PySequence_Size(inputs);
    column_list columns = {0};
    xcvm_value_info *parameters = count >= 0 ? calloc((size_t)count + 1, sizeof *parameters) : NULL;
    bool good = parameters != NULL && column_list_read(&columns, paths, rows) == 0;
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyObject *input = PySequence_GetItem(inputs, i),
                 *declared = input != NULL ? PySequence_GetItem(input, 1) : NULL;
        good = declared != NULL && type_from_object(declared, &parameters[i].type) == 0 &&
               (parameters[i].name = item_text(columns.kept, input, 0)) != NULL;
        Py_XDECREF(declared);
        Py_XDECREF(input);
    }
    if (good) {
        xct_dataset *dataset;
        xcvm_error error;
        if (xct_dataset_create_for_inputs(parameters, (size_t)count, columns.paths, columns.path_count, columns.items,
                                          columns.count, NULL, &dataset, &error) == XCVM_OK)
            result = dataset_object_create(state, dataset, (size_t)count, NULL);
        else
            state->api->raise_error(&error);
    }
    column_list_release(&columns);
    free(parameters);
    return result;
}

static void dataset_dealloc(dataset_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    xct_dataset_destroy(self->dataset);
    Py_XDECREF(self->trainer);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- Reading ---- */

static PyObject *dataset_read(dataset_object *self, PyObject *args)
{
    unsigned long long first;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "Kn:read", &first, &count))
        return NULL;
    const capi *api = self->state->api;
    xcvm_value **values = calloc(self->input_count + 1, sizeof *values);
    if (values == NULL)
        return PyErr_NoMemory();
    xcvm_error error;
    xcvm_status status;
    Py_BEGIN_ALLOW_THREADS status =
        xct_dataset_read(self->dataset, first, count > 0 ? (size_t)count : 0, values, &error);
    Py_END_ALLOW_THREADS PyObject *list =
        status == XCVM_OK ? PyList_New((Py_ssize_t)self->input_count) : api->raise_error(&error);
    for (size_t i = 0; status == XCVM_OK && i < self->input_count; i++) {
        PyObject *item = list != NULL ? api->object_from_value(api->state, values[i]) : NULL;
        xcvm_value_release(values[i]);
        if (list != NULL && (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0))
            Py_CLEAR(list);
    }
    free(values);
    return list;
}

static PyObject *dataset_examples(dataset_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(xct_dataset_example_count(self->dataset));
}

static PyObject *dataset_classes(dataset_object *self, void *closure)
{
    (void)closure;
    const size_t count = xct_dataset_class_count(self->dataset);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *name = PyUnicode_FromString(xct_dataset_class_at(self->dataset, i));
        if (name == NULL || PyList_SetItem(list, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"read", FUNCTION(dataset_read), METH_VARARGS, "read(first, count): a list of tensors, one for each input."},
    {0},
};

static PyGetSetDef properties[] = {
    {"examples", (getter)dataset_examples, NULL, "int: the number of examples.", NULL},
    {"classes", (getter)dataset_classes, NULL, "list of str: the names of the classes of images.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Dataset(inputs, paths, columns): examples of files."},
    {Py_tp_new, SLOT(dataset_new)},
    {Py_tp_dealloc, SLOT(dataset_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec dataset_spec = {.name = "xcvm._compiler.Dataset",
                            .basicsize = sizeof(dataset_object),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                            .slots = slots};
