/* Values from files: images, and ONNX's serialized tensors. */
#include "compiler_module.h"

#include <xcvm/files.h>
#include <xcvm/train.h>

/* Reads (kind, dtype, shape or None); an open dimension is None. */
int type_from_object(PyObject *object, xcvm_type *type)
{
    const char *dtype;
    PyObject *shape;
    int kind;
    if (!PyArg_ParseTuple(object, "isO;type", &kind, &dtype, &shape))
        return -1;
    *type = (xcvm_type){.kind = (xcvm_kind)kind, .dtype = xcvm_dtype_from_name(dtype), .rank = -1};
    if (shape == Py_None)
        return 0;
    const Py_ssize_t rank = PySequence_Size(shape);
    if (rank < 0 || rank > XCVM_MAX_RANK) {
        PyErr_SetString(PyExc_ValueError, "a shape has too many axes");
        return -1;
    }
    type->rank = (int)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *size = PySequence_GetItem(shape, i);
        type->dims[i] = size != NULL && PyLong_Check(size) ? PyLong_AsLongLong(size) : -1;
        Py_XDECREF(size);
    }
    return PyErr_Occurred() == NULL ? 0 : -1;
}

static PyObject *finish_value(const compiler_state *state, xcvm_status status, xcvm_value *value,
                              const xcvm_error *error)
{
    if (status != XCVM_OK)
        return state->api->raise_error(error);
    PyObject *object = state->api->object_from_value(state->api->state, value);
    xcvm_value_release(value);
    return object;
}

PyObject *compiler_recognize(PyObject *module, PyObject *args)
{
    (void)module;
    static const char *const names[] = {
        [XCVM_FILE_UNKNOWN] = "unknown", [XCVM_FILE_PROGRAM] = "program", [XCVM_FILE_ASSEMBLY] = "assembly",
        [XCVM_FILE_MODEL] = "model",     [XCVM_FILE_ARRAYS] = "arrays",   [XCVM_FILE_IMAGE] = "image",
        [XCVM_FILE_OTHER] = "other"};
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "y*:recognize", &bytes))
        return NULL;
    const xcvm_file_kind kind = xcvm_recognize(bytes.buf, (size_t)bytes.len, XCVM_FILE_MODEL, NULL, 0);
    PyBuffer_Release(&bytes);
    return PyUnicode_FromString(names[kind]);
}

PyObject *compiler_image(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    Py_buffer bytes;
    PyObject *wanted;
    if (!PyArg_ParseTuple(args, "y*O:image", &bytes, &wanted))
        return NULL;
    xcvm_type type;
    PyObject *result = NULL;
    if (wanted == Py_None || type_from_object(wanted, &type) == 0) {
        xcvm_value *value = NULL;
        xcvm_error error;
        xcvm_status status;
        Py_BEGIN_ALLOW_THREADS status =
            xct_image_load(bytes.buf, (size_t)bytes.len, wanted != Py_None ? &type : NULL, NULL, NULL, &value, &error);
        Py_END_ALLOW_THREADS result = finish_value(state, status, value, &error);
    }
    PyBuffer_Release(&bytes);
    return result;
}

PyObject *compiler_load_value(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    Py_buffer bytes;
    PyObject *wanted;
    if (!PyArg_ParseTuple(args, "y*O:load_value", &bytes, &wanted))
        return NULL;
    xcvm_type type;
    PyObject *result = NULL;
    if (wanted == Py_None || type_from_object(wanted, &type) == 0) {
        xcvm_value *value = NULL;
        xcvm_error error;
        char name[128];
        const xcvm_status status = xcc_value_load(bytes.buf, (size_t)bytes.len, wanted != Py_None ? &type : NULL, NULL,
                                                  0, name, &value, &error);
        result = finish_value(state, status, value, &error);
    }
    PyBuffer_Release(&bytes);
    return result;
}

PyObject *compiler_save_value(PyObject *module, PyObject *args)
{
    const compiler_state *state = PyModule_GetState(module);
    PyObject *object;
    const char *name;
    if (!PyArg_ParseTuple(args, "Os:save_value", &object, &name))
        return NULL;
    xcvm_value *value = state->api->value_from_object(state->api->state, object, NULL, name);
    if (value == NULL)
        return NULL;
    byte_buffer bytes = {0};
    xcvm_error error;
    const xcvm_status status = xcc_value_save(value, name, byte_buffer_sink(&bytes), &error);
    xcvm_value_release(value);
    PyObject *result = byte_buffer_take(&bytes);
    if (status == XCVM_OK)
        return result;
    Py_XDECREF(result);
    return state->api->raise_error(&error);
}
