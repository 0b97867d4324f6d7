/* xcvm._tape.Layer: a layer, or a tree of them. */
#include "../compiler/compiler_module.h"
#include "tape_module.h"

#include <stdlib.h>
#include <string.h>

bool is_layer(const tape_state *state, PyObject *object) { return PyObject_TypeCheck(object, state->layer_type); }

/* ---- Options ---- */

typedef struct layer_arguments {
    xcvm_layer_options options;
    int64_t sizes[16], kernel[XCVM_MAX_RANK], strides[XCVM_MAX_RANK], pads[XCVM_MAX_RANK], dilations[XCVM_MAX_RANK];
    size_t size_count, kernel_count;
    double ratio;
    xcvm_value *data[2]; /* of initializers */
} layer_arguments;

/* Reads an int, or a sequence of at most `limit`. */
static int read_ints(PyObject *object, size_t limit, int64_t *numbers, size_t *count)
{
    *count = 0;
    PyObject *list = PyLong_Check(object) ? PyList_New(0) : PySequence_List(object);
    if (list != NULL && PyLong_Check(object) && PyList_Append(list, object) < 0)
        Py_CLEAR(list);
    if (list == NULL)
        return -1;
    const size_t length = (size_t)PyList_Size(list);
    int result = length <= limit ? 0 : -1;
    if (result < 0)
        PyErr_Format(PyExc_ValueError, "%zu numbers were given; at most %zu are possible", length, limit);
    for (size_t i = 0; result == 0 && i < length; i++) {
        numbers[i] = PyLong_AsLongLong(PyList_GetItem(list, (Py_ssize_t)i));
        result = numbers[i] == -1 && PyErr_Occurred() != NULL ? -1 : 0;
    }
    Py_DECREF(list);
    *count = length;
    return result;
}

static int read_int_list(PyObject *dict, const char *name, int64_t *numbers, xcvm_int_list *list)
{
    PyObject *object = PyDict_GetItemString(dict, name);
    if (object == NULL || object == Py_None)
        return 0;
    list->at = numbers;
    return read_ints(object, XCVM_MAX_RANK, numbers, &list->count);
}

/* A name, (name, scale), (name, scale, seed), or an array of the elements. */
static int read_initializer(tape_object *tape, PyObject *dict, const char *name, xcvm_initializer *to, xcvm_dtype dtype,
                            xcvm_value **data)
{
    static const char *const kinds[] = {"default",    "zero",         "one",           "constant",       "normal",
                                        "uniform",    "lecun_normal", "glorot_normal", "glorot_uniform", "he_normal",
                                        "he_uniform", "orthogonal",   "identity"};
    PyObject *object = PyDict_GetItemString(dict, name);
    if (object == NULL || object == Py_None)
        return 0;
    const bool is_tuple = PyTuple_Check(object) && PyTuple_Size(object) > 0;
    PyObject *kind = is_tuple ? PyTuple_GetItem(object, 0) : object;
    if (!PyUnicode_Check(kind)) {
        const capi *api = tape->state->api;
        const xcvm_type type = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = -1};
        *data = api->value_from_object(api->state, object, &type, name);
        if (*data == NULL)
            return -1;
        if (xcvm_value_dtype(*data) != dtype) {
            PyErr_Format(PyExc_TypeError, "%s: elements of type %s were given, not of %s", name,
                         xcvm_dtype_name(xcvm_value_dtype(*data)), xcvm_dtype_name(dtype));
            return -1;
        }
        to->kind = XCVM_INIT_DATA;
        to->data = xcvm_value_data(*data);
        return 0;
    }
    size_t found = 0;
    while (found < COUNT_OF(kinds) && PyUnicode_CompareWithASCIIString(kind, kinds[found]) != 0)
        found++;
    if (found == COUNT_OF(kinds)) {
        PyErr_Format(PyExc_ValueError, "%s: there is no initializer %R", name, kind);
        return -1;
    }
    to->kind = (xcvm_initializer_kind)found;
    unsigned long long seed = 0;
    if (is_tuple && !PyArg_ParseTuple(object, "O|dK", &kind, &to->scale, &seed))
        return -1;
    to->seed = seed;
    return 0;
}

static int read_number(PyObject *dict, const char *name, double *number)
{
    PyObject *object = PyDict_GetItemString(dict, name);
    if (object == NULL || object == Py_None)
        return 0;
    *number = PyFloat_AsDouble(object);
    return *number == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

static int read_flag(PyObject *dict, const char *name, bool *flag)
{
    PyObject *object = PyDict_GetItemString(dict, name);
    const int truth = object != NULL ? PyObject_IsTrue(object) : 0;
    *flag = truth > 0;
    return truth < 0 ? -1 : 0;
}

static int check_names(PyObject *dict)
{
    static const char *const known[] = {"dtype",     "weight", "bias",    "no_bias", "strides", "pads",
                                        "dilations", "groups", "epsilon", "decay",   "dropout", "dense"};
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (dict != NULL && PyDict_Next(dict, &position, &name, &value)) {
        size_t i = 0;
        while (i < COUNT_OF(known) && PyUnicode_CompareWithASCIIString(name, known[i]) != 0)
            i++;
        if (i == COUNT_OF(known)) {
            PyErr_Format(PyExc_TypeError, "layers have no option %R", name);
            return -1;
        }
    }
    return 0;
}

static int read_options(tape_object *tape, PyObject *dict, layer_arguments *a)
{
    xcvm_layer_options *o = &a->options;
    *o = (xcvm_layer_options){.size = sizeof *o};
    double groups = 0;
    PyObject *dtype = dict != NULL ? PyDict_GetItemString(dict, "dtype") : NULL;
    if (dict == NULL)
        return 0;
    if (check_names(dict) < 0 || dtype_read(tape->state, dtype != NULL ? dtype : Py_None, XCVM_F32, &o->dtype) < 0 ||
        read_initializer(tape, dict, "weight", &o->weight, o->dtype, &a->data[0]) < 0 ||
        read_initializer(tape, dict, "bias", &o->bias, o->dtype, &a->data[1]) < 0 ||
        read_flag(dict, "no_bias", &o->no_bias) < 0 || read_flag(dict, "dense", &o->dense) < 0 ||
        read_int_list(dict, "strides", a->strides, &o->strides) < 0 ||
        read_int_list(dict, "pads", a->pads, &o->pads) < 0 ||
        read_int_list(dict, "dilations", a->dilations, &o->dilations) < 0 || read_number(dict, "groups", &groups) < 0 ||
        read_number(dict, "epsilon", &o->epsilon) < 0 || read_number(dict, "decay", &o->decay) < 0 ||
        read_number(dict, "dropout", &o->dropout) < 0)
        return -1;
    if (!(groups >= 0 && groups < 1e15)) {
        PyErr_SetString(PyExc_ValueError, "groups is negative");
        return -1;
    }
    o->groups = (int64_t)groups;
    return 0;
}

/* ---- Creation ---- */

static xcvm_layer *create_chain(xcvm_tape *t, const layer_arguments *a)
{
    (void)a;
    return xcvm_layer_create_chain(t);
}
static xcvm_layer *create_linear(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_linear(t, a->sizes[0], a->sizes[1], &a->options);
}
static xcvm_layer *create_mlp(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_mlp(t, a->size_count, a->sizes, &a->options);
}
static xcvm_layer *create_convolution(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_convolution(t, a->sizes[0], a->sizes[1], (xcvm_int_list){a->kernel, a->kernel_count},
                                         &a->options);
}
static xcvm_layer *create_deconvolution(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_deconvolution(t, a->sizes[0], a->sizes[1], (xcvm_int_list){a->kernel, a->kernel_count},
                                           &a->options);
}
static xcvm_layer *create_batch_normalization(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_batch_normalization(t, a->sizes[0], &a->options);
}
static xcvm_layer *create_layer_normalization(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_layer_normalization(t, a->sizes[0], &a->options);
}
static xcvm_layer *create_embedding(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_embedding(t, a->sizes[0], a->sizes[1], &a->options);
}
static xcvm_layer *create_lstm(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_lstm(t, a->sizes[0], a->sizes[1], &a->options);
}
static xcvm_layer *create_gru(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_gru(t, a->sizes[0], a->sizes[1], &a->options);
}
static xcvm_layer *create_dropout(xcvm_tape *t, const layer_arguments *a)
{
    return xcvm_layer_create_dropout(t, a->ratio);
}

static const struct layer_kind {
    const char *name;
    size_t sizes; /* 0 with `mlp`: any number */
    enum { PLAIN, KERNEL, RATIO, ANY_NUMBER } more;
    xcvm_layer *(*create)(xcvm_tape *tape, const layer_arguments *arguments);
    bool keeps_result;
} layer_kinds[] = {
    {"chain", 0, PLAIN, create_chain, true},
    {"linear", 2, PLAIN, create_linear, false},
    {"mlp", 0, ANY_NUMBER, create_mlp, false},
    {"convolution", 2, KERNEL, create_convolution, false},
    {"deconvolution", 2, KERNEL, create_deconvolution, false},
    {"batch_normalization", 1, PLAIN, create_batch_normalization, false},
    {"layer_normalization", 1, PLAIN, create_layer_normalization, false},
    {"embedding", 2, PLAIN, create_embedding, false},
    {"lstm", 2, PLAIN, create_lstm, true},
    {"gru", 2, PLAIN, create_gru, true},
    {"dropout", 0, RATIO, create_dropout, false},
};

static const struct layer_kind *find_kind(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(layer_kinds); i++)
        if (strcmp(layer_kinds[i].name, name) == 0)
            return &layer_kinds[i];
    PyErr_Format(PyExc_ValueError, "there is no layer '%s'", name);
    return NULL;
}

/* Reads the arguments after the kind: sizes, then a kernel or a ratio. */
static int read_sizes(const struct layer_kind *kind, PyObject *args, layer_arguments *a)
{
    const Py_ssize_t given = PyTuple_Size(args) - 1;
    const size_t wanted = kind->more == ANY_NUMBER ? (size_t)given : kind->sizes + (kind->more != PLAIN ? 1 : 0);
    if ((size_t)given != wanted || (size_t)given > COUNT_OF(a->sizes)) {
        PyErr_Format(PyExc_TypeError, "a layer '%s' takes %zu sizes, not %zd", kind->name, wanted, given);
        return -1;
    }
    a->size_count = kind->more == ANY_NUMBER ? (size_t)given : kind->sizes;
    for (size_t i = 0; i < a->size_count; i++) {
        a->sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(args, (Py_ssize_t)i + 1));
        if (a->sizes[i] == -1 && PyErr_Occurred() != NULL)
            return -1;
    }
    PyObject *last = PyTuple_GetItem(args, given);
    if (kind->more == KERNEL)
        return read_ints(last, XCVM_MAX_RANK, a->kernel, &a->kernel_count);
    if (kind->more == RATIO)
        a->ratio = PyFloat_AsDouble(last);
    return kind->more == RATIO && a->ratio == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

/* The elements of W or gamma, or of b or beta, of a layer with one of each; 0: several, or none. */
static double data_count(const char *kind, const layer_arguments *a, bool bias)
{
    double kernel = 1;
    for (size_t i = 0; i < a->kernel_count; i++)
        kernel *= (double)a->kernel[i];
    const double first = (double)a->sizes[0], second = (double)a->sizes[1];
    const double groups = a->options.groups > 0 ? (double)a->options.groups : 1;
    if (strcmp(kind, "linear") == 0)
        return bias ? second : first * second;
    if (strcmp(kind, "convolution") == 0 || strcmp(kind, "deconvolution") == 0)
        return bias ? second : first * second / groups * kernel;
    if (strcmp(kind, "embedding") == 0)
        return bias ? 0 : first * second;
    return strstr(kind, "normalization") != NULL ? first : 0;
}

static int check_data(const char *kind, const layer_arguments *a)
{
    for (int i = 0; i < 2; i++) {
        const double wanted = data_count(kind, a, i == 1);
        if (a->data[i] == NULL || (wanted > 0 && (double)xcvm_value_count(a->data[i]) == wanted))
            continue;
        if (wanted > 0)
            PyErr_Format(PyExc_ValueError, "%s: %zu elements were given, not %llu", i == 0 ? "weight" : "bias",
                         xcvm_value_count(a->data[i]), (unsigned long long)wanted);
        else
            PyErr_Format(PyExc_ValueError, "%s: a layer '%s' takes no array", i == 0 ? "weight" : "bias", kind);
        return -1;
    }
    return 0;
}

/* Takes the layer, which may be NULL: then the tape has a failure. */
static PyObject *layer_object_create(tape_object *tape, xcvm_layer *layer, bool keeps_result)
{
    if (layer == NULL) {
        if (tape_check(tape) == 0)
            PyErr_SetString(PyExc_RuntimeError, "a layer is absent");
        return NULL;
    }
    layer_object *created = (layer_object *)PyType_GenericAlloc(tape->state->layer_type, 0);
    if (created == NULL) {
        xcvm_layer_destroy(layer);
        return NULL;
    }
    Py_INCREF(OBJECT(tape));
    created->tape = tape;
    created->layer = layer;
    created->keeps_result = keeps_result;
    return OBJECT(created);
}

PyObject *tape_layer(tape_object *self, PyObject *args, PyObject *keywords)
{
    PyObject *name = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL, *result = NULL;
    if (name == NULL || !PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "layer takes the kind of the layer and its sizes");
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const struct layer_kind *kind = text != NULL ? find_kind(text) : NULL;
    layer_arguments a;
    memset(&a, 0, sizeof a);
    if (kind != NULL && tape_begin(self) && read_options(self, keywords, &a) == 0 && read_sizes(kind, args, &a) == 0 &&
        check_data(kind->name, &a) == 0)
        result = layer_object_create(self, kind->create(self->tape, &a), kind->keeps_result);
    xcvm_value_release(a.data[0]);
    xcvm_value_release(a.data[1]);
    return result;
}

/* ---- Life ---- */

static int layer_traverse(layer_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->tape);
    return 0;
}

static void layer_dealloc(layer_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    if (self->tape != NULL) {
        tape_release(self->tape, RELEASE_LAYER, XCVM_ABSENT, self->layer);
        Py_DECREF(OBJECT(self->tape));
    }
    object_free(type, self);
    Py_DECREF(type);
}

/* ---- Methods ---- */

static PyObject *finish(layer_object *self)
{
    if (tape_check(self->tape) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *layer_call(layer_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"x", NULL};
    PyObject *x_object;
    xcvm_var x;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Layer", names, &x_object) ||
        variable_read(self->tape, x_object, false, "x", &x) < 0 || !tape_enter(self->tape))
        return NULL;
    const bool large = variable_is_large(self->tape, x);
    if (large)
        tape_compute_begin(self->tape);
    const xcvm_var y = xcvm_layer_call(self->layer, x);
    if (large)
        tape_compute_end(self->tape);
    PyObject *result = NULL;
    if (self->tape->failure[0] != NULL) {
        (void)tape_check(self->tape);
    } else if (y.at == x.at && y.serial == x.serial && x.at != NULL) { /* an empty chain, dropout in inference */
        Py_INCREF(x_object);
        result = x_object;
    } else {
        result =
            variable_create(self->tape, self->keeps_result && y.at != NULL ? xcvm_Identity(self->tape->tape, y) : y,
                            VARIABLE_RESULT, NULL);
    }
    tape_leave(self->tape);
    return result;
}

static PyObject *layer_add(layer_object *self, PyObject *args)
{
    const char *name;
    PyObject *child;
    if (!PyArg_ParseTuple(args, "sO:add", &name, &child) || !tape_begin(self->tape))
        return NULL;
    if (!is_layer(self->tape->state, child) || ((layer_object *)child)->tape != self->tape) {
        PyErr_SetString(PyExc_TypeError, "a child is a layer of the same tape");
        return NULL;
    }
    (void)xcvm_layer_add(self->layer, name, xcvm_layer_retain(((layer_object *)child)->layer));
    return finish(self);
}

static PyObject *layer_add_parameter(layer_object *self, PyObject *args)
{
    const char *name;
    PyObject *object;
    xcvm_var v;
    if (!PyArg_ParseTuple(args, "sO:add_parameter", &name, &object) || !tape_begin(self->tape) ||
        variable_read(self->tape, object, false, "parameter", &v) < 0)
        return NULL;
    (void)xcvm_layer_add_parameter(self->layer, name, v);
    if (tape_check(self->tape) < 0)
        return NULL;
    variable_object *variable = (variable_object *)object;
    if (variable->owned) { /* the layer releases it */
        variable->owned = false;
        Py_INCREF(OBJECT(self));
        variable->owner = OBJECT(self);
    }
    Py_RETURN_NONE;
}

static PyObject *layer_child(layer_object *self, PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s:child", &path) || !tape_begin(self->tape))
        return NULL;
    xcvm_layer *child = xcvm_layer_get_child(self->layer, path);
    if (child == NULL) {
        PyErr_Format(PyExc_KeyError, "there is no layer '%s'", path);
        return NULL;
    }
    return layer_object_create(self->tape, xcvm_layer_retain(child), true);
}

static PyObject *layer_parameter(layer_object *self, PyObject *args)
{
    const char *path;
    if (!PyArg_ParseTuple(args, "s:parameter", &path) || !tape_begin(self->tape))
        return NULL;
    const xcvm_var v = xcvm_layer_get_parameter(self->layer, path);
    if (v.at == NULL) {
        PyErr_Format(PyExc_KeyError, "there is no parameter '%s'", path);
        return NULL;
    }
    return variable_create(self->tape, v, VARIABLE_LENT, OBJECT(self));
}

typedef struct visit_frame {
    layer_object *layer;
    PyObject *list;
} visit_frame;

static xcvm_status append_tensor(void *user, const char *path, xcvm_var v, bool learned)
{
    visit_frame *f = user;
    PyObject *variable = variable_create(f->layer->tape, v, VARIABLE_LENT, OBJECT(f->layer));
    PyObject *item = variable != NULL ? Py_BuildValue("(sNO)", path, variable, learned ? Py_True : Py_False) : NULL;
    const bool good = item != NULL && PyList_Append(f->list, item) == 0;
    Py_XDECREF(item);
    return good ? XCVM_OK : XCVM_INTERNAL;
}

static PyObject *layer_tensors(layer_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    visit_frame f = {self, PyList_New(0)};
    if (f.list != NULL && xcvm_layer_visit(self->layer, (xcvm_layer_visitor){append_tensor, &f}) != XCVM_OK)
        Py_CLEAR(f.list);
    if (f.list == NULL && PyErr_Occurred() == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the layer cannot be visited");
    return f.list;
}

static PyObject *layer_set_training(layer_object *self, PyObject *object)
{
    const int training = PyObject_IsTrue(object);
    if (training < 0 || !tape_begin(self->tape))
        return NULL;
    xcvm_layer_set_training(self->layer, training != 0);
    return finish(self);
}

static PyObject *layer_set_frozen(layer_object *self, PyObject *object)
{
    const int frozen = PyObject_IsTrue(object);
    xcvm_error error;
    if (frozen < 0 || !tape_begin(self->tape))
        return NULL;
    if (xcvm_layer_set_frozen(self->layer, frozen != 0, &error) != XCVM_OK)
        return tape_raise(self->tape, &error);
    Py_RETURN_NONE;
}

static PyObject *layer_reset(layer_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_layer_reset(self->layer);
    return finish(self);
}

static PyObject *layer_unchain(layer_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_layer_unchain(self->layer);
    return finish(self);
}

static PyObject *layer_clear_grads(layer_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_layer_clear_gradients(self->layer);
    return finish(self);
}

static PyObject *layer_element_count(layer_object *self, void *closure)
{
    (void)closure;
    return tape_begin(self->tape) ? PyLong_FromSize_t(xcvm_layer_element_count(self->layer)) : NULL;
}

static PyObject *layer_copy(layer_object *self, PyObject *args)
{
    int share = 0;
    if (!PyArg_ParseTuple(args, "|p:copy", &share) || !tape_begin(self->tape))
        return NULL;
    return layer_object_create(self->tape, xcvm_layer_copy(self->layer, share != 0), self->keeps_result);
}

static PyObject *layer_save(layer_object *self, PyObject *args)
{
    const char *format = "safetensors";
    byte_buffer file = {0};
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "|s:save", &format) || !tape_begin(self->tape))
        return NULL;
    if (strcmp(format, "safetensors") != 0 && strcmp(format, "npz") != 0) {
        PyErr_Format(PyExc_ValueError, "the format is safetensors or npz, not '%s'", format);
        return NULL;
    }
    const xcvm_status status =
        xcvm_layer_save(self->layer, format[0] == 's' ? XCVM_SAFETENSORS : XCVM_NPZ, byte_buffer_sink(&file), &error);
    PyObject *bytes = byte_buffer_take(&file);
    if (status == XCVM_OK)
        return bytes;
    Py_XDECREF(bytes);
    return tape_raise(self->tape, &error);
}

static PyObject *layer_load(layer_object *self, PyObject *args)
{
    Py_buffer file;
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "y*:load", &file))
        return NULL;
    PyObject *result = NULL;
    if (tape_begin(self->tape)) {
        if (xcvm_layer_load(self->layer, file.buf, (size_t)file.len, &error) == XCVM_OK) {
            result = Py_None;
            Py_INCREF(result);
        } else {
            tape_raise(self->tape, &error);
        }
    }
    PyBuffer_Release(&file);
    return result;
}

static PyMethodDef methods[] = {
    {"add", FUNCTION(layer_add), METH_VARARGS, "add(name, child, /)\n--\n\nAdd a child."},
    {"add_parameter", FUNCTION(layer_add_parameter), METH_VARARGS,
     "add_parameter(name, parameter, /)\n--\n\nAdd a parameter."},
    {"child", FUNCTION(layer_child), METH_VARARGS, "child(path, /)\n--\n\nReturn a child, as \"l1\"."},
    {"parameter", FUNCTION(layer_parameter), METH_VARARGS,
     "parameter(path, /)\n--\n\nReturn a parameter, as \"l1/W\"."},
    {"tensors", FUNCTION(layer_tensors), METH_NOARGS,
     "tensors()\n--\n\nReturn (path, variable, learned) of each tensor."},
    {"set_training", FUNCTION(layer_set_training), METH_O, "set_training(training, /)\n--\n\nSet training mode."},
    {"set_frozen", FUNCTION(layer_set_frozen), METH_O, "set_frozen(frozen, /)\n--\n\nSet whether parameters learn."},
    {"reset", FUNCTION(layer_reset), METH_NOARGS, "reset()\n--\n\nReset recurrent states."},
    {"unchain", FUNCTION(layer_unchain), METH_NOARGS, "unchain()\n--\n\nMake recurrent states constants."},
    {"clear_grads", FUNCTION(layer_clear_grads), METH_NOARGS, "clear_grads()\n--\n\nRemove gradients."},
    {"copy", FUNCTION(layer_copy), METH_VARARGS, "copy(share=False, /)\n--\n\nReturn a copy of the tree."},
    {"save", FUNCTION(layer_save), METH_VARARGS,
     "save(format='safetensors', /)\n--\n\nReturn the tensors as a file: safetensors, or npz with Chainer's names."},
    {"load", FUNCTION(layer_load), METH_VARARGS, "load(file, /)\n--\n\nRead the tensors from the bytes of a file."},
    {0},
};

static PyGetSetDef properties[] = {
    {"element_count", (getter)layer_element_count, NULL, "int: the number of elements of the parameters.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A layer of Tape.layer. layer(x) applies it."},
    {Py_tp_call, SLOT(layer_call)},
    {Py_tp_dealloc, SLOT(layer_dealloc)},
    {Py_tp_traverse, SLOT(layer_traverse)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec layer_spec = {.name = "xcvm._tape.Layer",
                          .basicsize = sizeof(layer_object),
                          .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC |
                                   Py_TPFLAGS_DISALLOW_INSTANTIATION,
                          .slots = slots};
