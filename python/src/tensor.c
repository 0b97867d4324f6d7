/* xcvm.Tensor: a tensor value with the buffer protocol, DLPack and __array__. */
#include "xcvm_python.h"

#include <string.h>

bool is_tensor(const module_state *state, PyObject *object) { return PyObject_TypeCheck(object, state->tensor_type); }

PyObject *tensor_from_value(module_state *state, xcvm_value *value)
{
    tensor_object *self = PyObject_New(tensor_object, state->tensor_type);
    if (self == NULL) {
        xcvm_value_release(value);
        return NULL;
    }
    self->state = state;
    self->value = value;
    Py_ssize_t stride = xcvm_dtype_bits(xcvm_value_dtype(value)) / 8;
    const int64_t *dims = xcvm_value_dims(value);
    for (int i = xcvm_value_rank(value) - 1; i >= 0; i--) {
        self->shape[i] = (Py_ssize_t)dims[i];
        self->strides[i] = stride;
        stride *= (Py_ssize_t)dims[i];
    }
    return (PyObject *)self;
}

static void tensor_dealloc(tensor_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    trash_list *trash = self->state->trash;
    xcvm_value_release(self->value);
    trash_empty(trash);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- Buffer protocol ---- */

static int tensor_get_buffer(tensor_object *self, Py_buffer *view, int flags)
{
    const xcvm_dtype dtype = xcvm_value_dtype(self->value);
    const dtype_info *info = dtype_find(dtype);
    view->obj = NULL;
    if (dtype == XCVM_STRING || info == NULL || ((flags & PyBUF_FORMAT) != 0 && info->format == NULL)) {
        PyErr_Format(PyExc_BufferError, "the buffer protocol has no format for %s; use numpy.asarray or tobytes",
                     xcvm_dtype_name(dtype));
        return -1;
    }
    const bool is_raw = info->format == NULL;
    *view = (Py_buffer){.buf = xcvm_value_data(self->value),
                        .obj = (PyObject *)self,
                        .len = (Py_ssize_t)xcvm_value_bytes(self->value),
                        .itemsize = is_raw ? 1 : xcvm_dtype_bits(dtype) / 8,
                        .ndim = is_raw ? 1 : xcvm_value_rank(self->value),
                        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)info->format : NULL,
                        .shape = (flags & PyBUF_ND) != 0 && !is_raw ? self->shape : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES && !is_raw ? self->strides : NULL};
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && view->ndim > 1) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "tensors are row-major, not Fortran-contiguous");
        return -1;
    }
    Py_INCREF(OBJECT(self));
    return 0;
}

/* ---- Properties ---- */

static PyObject *tensor_shape(tensor_object *self, void *closure)
{
    (void)closure;
    const int rank = xcvm_value_rank(self->value);
    PyObject *shape = PyTuple_New(rank);
    for (int i = 0; shape != NULL && i < rank; i++) {
        PyObject *size = PyLong_FromSsize_t(self->shape[i]);
        if (size == NULL || PyTuple_SetItem(shape, i, size) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *tensor_dtype(tensor_object *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(xcvm_dtype_name(xcvm_value_dtype(self->value)));
}

static PyObject *tensor_ndim(tensor_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(xcvm_value_rank(self->value));
}

static PyObject *tensor_size(tensor_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(xcvm_value_count(self->value));
}

static PyObject *tensor_nbytes(tensor_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(xcvm_value_bytes(self->value));
}

static PyObject *tensor_data_pointer(tensor_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(xcvm_value_data(self->value));
}

/* ---- Elements ---- */

static PyObject *element(const tensor_object *self, size_t index)
{
    const xcvm_dtype dtype = xcvm_value_dtype(self->value);
    if (dtype != XCVM_STRING)
        return dtype_element(dtype, xcvm_value_data(self->value), index);
    size_t length;
    const char *text = xcvm_value_string_at(self->value, index, &length);
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape");
}

static PyObject *nested_list(const tensor_object *self, int axis, size_t *index)
{
    if (axis == xcvm_value_rank(self->value))
        return element(self, (*index)++);
    PyObject *list = PyList_New(self->shape[axis]);
    for (Py_ssize_t i = 0; list != NULL && i < self->shape[axis]; i++) {
        PyObject *item = nested_list(self, axis + 1, index);
        if (item == NULL || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *tensor_tolist(tensor_object *self, PyObject *unused)
{
    (void)unused;
    size_t index = 0;
    return nested_list(self, 0, &index);
}

static PyObject *tensor_item(tensor_object *self, PyObject *unused)
{
    (void)unused;
    const size_t count = xcvm_value_count(self->value);
    if (count != 1) {
        PyErr_Format(PyExc_ValueError, "a tensor of %zu elements is not one number", count);
        return NULL;
    }
    return element(self, 0);
}

static PyObject *tensor_float(tensor_object *self)
{
    PyObject *item = tensor_item(self, NULL), *number = item != NULL ? PyNumber_Float(item) : NULL;
    Py_XDECREF(item);
    return number;
}

static PyObject *tensor_int(tensor_object *self)
{
    PyObject *item = tensor_item(self, NULL), *number = item != NULL ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return number;
}

static int tensor_bool(tensor_object *self)
{
    PyObject *item = tensor_item(self, NULL);
    const int truth = item != NULL ? PyObject_IsTrue(item) : -1;
    Py_XDECREF(item);
    return truth;
}

static Py_ssize_t tensor_length(tensor_object *self)
{
    if (xcvm_value_rank(self->value) > 0)
        return self->shape[0];
    PyErr_SetString(PyExc_TypeError, "a tensor without axes has no length");
    return -1;
}

static PyObject *tensor_tobytes(tensor_object *self, PyObject *unused)
{
    (void)unused;
    if (xcvm_value_dtype(self->value) == XCVM_STRING) {
        PyErr_SetString(PyExc_TypeError, "strings have no bytes of a fixed size; use tolist");
        return NULL;
    }
    return PyBytes_FromStringAndSize(xcvm_value_data(self->value), (Py_ssize_t)xcvm_value_bytes(self->value));
}

/* NumPy's part, in xcvm/_numpy.py. */
static PyObject *call_numpy_part(const char *function, PyObject *self, PyObject *argument)
{
    PyObject *module = PyImport_ImportModule("xcvm._numpy");
    PyObject *result = module != NULL ? PyObject_CallMethod(module, function, "OO", self, argument) : NULL;
    Py_XDECREF(module);
    return result;
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|OO", names, &dtype, &copy))
        return NULL;
    PyObject *pair = PyTuple_Pack(2, dtype, copy);
    PyObject *array = pair != NULL ? call_numpy_part("array", self, pair) : NULL;
    Py_XDECREF(pair);
    return array;
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *pair = PyTuple_Pack(2, Py_None, Py_None);
    PyObject *array = pair != NULL ? call_numpy_part("array", self, pair) : NULL;
    Py_XDECREF(pair);
    return array;
}

static PyObject *tensor_subscript(PyObject *self, PyObject *key) { return call_numpy_part("item", self, key); }

/* For notebooks. */
static PyObject *tensor_html(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *module = PyImport_ImportModule("xcvm.show");
    PyObject *text = module != NULL ? PyObject_CallMethod(module, "tensor_html", "O", self) : NULL;
    Py_XDECREF(module);
    return text;
}

static PyObject *tensor_repr(tensor_object *self)
{
    PyObject *shape = tensor_shape(self, NULL), *text = NULL;
    if (shape == NULL)
        return NULL;
    const char *name = xcvm_dtype_name(xcvm_value_dtype(self->value));
    enum { SHOWN = 16 };
    if (xcvm_value_count(self->value) <= SHOWN) {
        PyObject *list = tensor_tolist(self, NULL);
        text = list != NULL ? PyUnicode_FromFormat("Tensor(%R, dtype='%s')", list, name) : NULL;
        Py_XDECREF(list);
    } else {
        text = PyUnicode_FromFormat("Tensor(shape=%R, dtype='%s')", shape, name);
    }
    Py_DECREF(shape);
    return text;
}

/* ---- Creation, copies, pickling ---- */

/* Reads the text of an element type: a str as "f32", xcvm.float32, or NumPy's. */
static int read_dtype(PyObject *object, xcvm_dtype *dtype)
{
    *dtype = XCVM_NO_DTYPE;
    if (object == Py_None)
        return 0;
    PyObject *text = PyObject_Str(object);
    const char *name = text != NULL ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (name != NULL && (*dtype = xcvm_dtype_from_name(name)) == XCVM_NO_DTYPE &&
        (*dtype = dtype_from_numpy_name(name)) == XCVM_NO_DTYPE)
        PyErr_Format(PyExc_ValueError, "there is no element type %R; types are named as \"f32\" and \"i64\"", text);
    Py_XDECREF(text);
    return *dtype != XCVM_NO_DTYPE ? 0 : -1;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"object", "dtype", NULL};
    PyObject *object, *dtype_object = Py_None;
    xcvm_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Tensor", names, &object, &dtype_object) ||
        read_dtype(dtype_object, &dtype) < 0)
        return NULL;
    module_state *state = PyType_GetModuleState(type);
    const xcvm_type wanted = {.kind = XCVM_KIND_TENSOR, .dtype = dtype, .rank = -1};
    xcvm_value *value = value_from_object(state, object, &wanted, NULL), *copy = NULL;
    if (value == NULL)
        return NULL;
    xcvm_error error = {.status = XCVM_OK};
    if (dtype != XCVM_NO_DTYPE && xcvm_value_dtype(value) != dtype)
        raise_status(XCVM_TYPE_MISMATCH, "elements of type %s were given, not of %s",
                     xcvm_dtype_name(xcvm_value_dtype(value)), xcvm_dtype_name(dtype));
    else if (xcvm_value_copy(NULL, value, &copy, &error) != XCVM_OK)
        raise_error(&error);
    xcvm_value_release(value);
    trash_empty(state->trash);
    return copy != NULL ? tensor_from_value(state, copy) : NULL;
}

static PyObject *tensor_from_bytes(PyObject *type, PyObject *args)
{
    const char *dtype_name;
    PyObject *shape;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "sOy*:_from_bytes", &dtype_name, &shape, &bytes))
        return NULL;
    int64_t dims[XCVM_MAX_RANK];
    const int rank = shape_from_object(shape, dims);
    xcvm_value *value = NULL;
    xcvm_error error;
    if (rank >= 0 && xcvm_tensor_create(NULL, xcvm_dtype_from_name(dtype_name), rank, dims, &value, &error) != XCVM_OK)
        raise_error(&error);
    if (value != NULL && xcvm_value_bytes(value) != (size_t)bytes.len) {
        PyErr_Format(PyExc_ValueError, "a tensor of %zu bytes was given %zd", xcvm_value_bytes(value), bytes.len);
        xcvm_value_release(value);
        value = NULL;
    }
    if (value != NULL && bytes.len != 0)
        memcpy(xcvm_value_data(value), bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    return value != NULL ? tensor_from_value(PyType_GetModuleState((PyTypeObject *)type), value) : NULL;
}

static PyObject *tensor_reduce(tensor_object *self, PyObject *unused)
{
    (void)unused;
    PyObject *type = (PyObject *)Py_TYPE(OBJECT(self)), *result = NULL, *shape = NULL, *content = NULL, *restore = NULL;
    if (xcvm_value_dtype(self->value) == XCVM_STRING) {
        content = tensor_tolist(self, NULL);
        return content != NULL ? Py_BuildValue("O(Ns)", type, content, "str") : NULL;
    }
    restore = PyObject_GetAttrString(type, "_from_bytes");
    shape = tensor_shape(self, NULL);
    content = tensor_tobytes(self, NULL);
    if (restore != NULL && shape != NULL && content != NULL)
        result = Py_BuildValue("O(sOO)", restore, xcvm_dtype_name(xcvm_value_dtype(self->value)), shape, content);
    Py_XDECREF(restore);
    Py_XDECREF(shape);
    Py_XDECREF(content);
    return result;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

/* ---- Values of other kinds ---- */

static PyObject *list_from_value(module_state *state, const xcvm_value *value)
{
    const size_t count = xcvm_value_count(value);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = object_from_value(state, xcvm_value_item_at(value, i));
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static void replace(PyObject **object, PyObject *by)
{
    PyObject *old = *object;
    *object = by;
    Py_DECREF(old);
}

/* Keys and values of a tensor of values become numbers and texts. */
static PyObject *dict_from_value(module_state *state, const xcvm_value *value)
{
    PyObject *keys = object_from_value(state, xcvm_value_item_at(value, 0));
    PyObject *values = object_from_value(state, xcvm_value_item_at(value, 1)), *dict = NULL;
    if (keys != NULL && is_tensor(state, keys))
        replace(&keys, tensor_tolist((tensor_object *)keys, NULL));
    if (values != NULL && is_tensor(state, values))
        replace(&values, tensor_tolist((tensor_object *)values, NULL));
    const bool good = keys != NULL && values != NULL && PyList_Check(keys) && PyList_Check(values) &&
                      PyList_Size(keys) == PyList_Size(values);
    dict = good ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; dict != NULL && i < PyList_Size(keys); i++)
        if (PyDict_SetItem(dict, PyList_GetItem(keys, i), PyList_GetItem(values, i)) < 0)
            Py_CLEAR(dict);
    if (!good && PyErr_Occurred() == NULL)
        PyErr_SetString(PyExc_ValueError, "the keys and values of a map do not belong together");
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return dict;
}

PyObject *object_from_value(module_state *state, const xcvm_value *value)
{
    switch (xcvm_value_kind(value)) {
    case XCVM_KIND_TENSOR: {
        xcvm_value *kept;
        xcvm_error error;
        if (xcvm_value_retain(value, &kept, &error) != XCVM_OK)
            return raise_error(&error);
        return tensor_from_value(state, kept);
    }
    case XCVM_KIND_SEQUENCE:
        return list_from_value(state, value);
    case XCVM_KIND_OPTIONAL:
        if (xcvm_value_count(value) != 0)
            return object_from_value(state, xcvm_value_item_at(value, 0));
        Py_RETURN_NONE;
    case XCVM_KIND_MAP:
        return dict_from_value(state, value);
    case XCVM_KIND_NULL:
        Py_RETURN_NONE;
    default:
        PyErr_SetString(PyExc_TypeError, "an opaque value has no form in Python");
        return NULL;
    }
}

/* ---- The type ---- */

static PyMethodDef methods[] = {
    {"numpy", tensor_numpy, METH_NOARGS, "Return a NumPy array that shares the memory, where NumPy has the type."},
    {"tolist", FUNCTION(tensor_tolist), METH_NOARGS, "Return the elements as a nested list of Python numbers."},
    {"item", FUNCTION(tensor_item), METH_NOARGS, "Return the only element as a Python number."},
    {"tobytes", FUNCTION(tensor_tobytes), METH_NOARGS, "Return a copy of the elements as bytes."},
    {"__array__", FUNCTION(tensor_array), METH_VARARGS | METH_KEYWORDS, "Return a NumPy array."},
    {"__dlpack__", FUNCTION(dlpack_export), METH_VARARGS | METH_KEYWORDS,
     "Return a DLPack capsule that shares the memory."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "Return the device in DLPack's numbers: the CPU."},
    {"_repr_html_", tensor_html, METH_NOARGS, "Return the values as a table, for notebooks."},
    {"__reduce__", FUNCTION(tensor_reduce), METH_NOARGS, "Support pickle and copy."},
    {"_from_bytes", tensor_from_bytes, METH_VARARGS | METH_CLASS,
     "Return a tensor of an element type, a shape and bytes."},
    {0},
};

static PyGetSetDef properties[] = {
    {"shape", (getter)tensor_shape, NULL, "Tuple of int: the size of each axis.", NULL},
    {"dtype", (getter)tensor_dtype, NULL, "str: the element type, as \"f32\" or \"bf16\".", NULL},
    {"ndim", (getter)tensor_ndim, NULL, "int: the number of axes.", NULL},
    {"size", (getter)tensor_size, NULL, "int: the number of elements.", NULL},
    {"nbytes", (getter)tensor_nbytes, NULL, "int: the bytes of all elements.", NULL},
    {"data_ptr", (getter)tensor_data_pointer, NULL, "int: the address of the elements.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Tensor(object, dtype=None)\n--\n\nA tensor: a result of a run, or a copy of an array."},
    {Py_tp_new, SLOT(tensor_new)},
    {Py_tp_dealloc, SLOT(tensor_dealloc)},
    {Py_tp_repr, SLOT(tensor_repr)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_bf_getbuffer, SLOT(tensor_get_buffer)},
    {Py_mp_length, SLOT(tensor_length)},
    {Py_mp_subscript, SLOT(tensor_subscript)},
    {Py_nb_float, SLOT(tensor_float)},
    {Py_nb_int, SLOT(tensor_int)},
    {Py_nb_bool, SLOT(tensor_bool)},
    {0, NULL},
};

PyType_Spec tensor_spec = {.name = "xcvm.Tensor",
                           .basicsize = sizeof(tensor_object),
                           .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           .slots = slots};
