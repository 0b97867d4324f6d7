/* Tensors to and from DLPack, the exchange format of PyTorch, JAX and others. Exported tensors share the memory. */
#include "dlpack.h"
#include "xcvm_python.h"

#include <stdlib.h>
#include <string.h>

/* ---- Export ---- */

/* An exported tensor, in either form. Its deleter needs no interpreter lock, since references to values are atomic. */
typedef struct export
{
    xcvm_value *value;
    int64_t shape[XCVM_MAX_RANK], strides[XCVM_MAX_RANK];
    union {
        dlpack_managed managed;
        dlpack_versioned versioned;
    } form;
}
export;

static void export_destroy(export *exported)
{
    xcvm_value_release(exported->value);
    free(exported);
}

static void delete_managed(dlpack_managed *managed) { export_destroy(managed->user); }
static void delete_versioned(dlpack_versioned *versioned) { export_destroy(versioned->user); }

/* A consumer renames the capsule and then owns its content. */
static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}

static void fill_tensor(export *exported, dlpack_tensor *tensor, const dtype_info *info)
{
    const xcvm_value *value = exported->value;
    *tensor = (dlpack_tensor){.data = xcvm_value_data(value),
                              .device = {DLPACK_CPU, 0},
                              .rank = xcvm_value_rank(value),
                              .dtype = {info->dlpack_code, info->dlpack_bits, 1},
                              .shape = exported->shape,
                              .strides = exported->strides};
    int64_t stride = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        exported->shape[i] = xcvm_value_dims(value)[i];
        exported->strides[i] = stride;
        stride *= exported->shape[i] > 0 ? exported->shape[i] : 1;
    }
}

static PyObject *export_value(xcvm_value *value, const dtype_info *info, bool versioned, bool copied)
{
    export *exported = calloc(1, sizeof *exported);
    if (exported == NULL) {
        xcvm_value_release(value);
        return PyErr_NoMemory();
    }
    exported->value = value;
    PyObject *capsule;
    if (versioned) {
        dlpack_versioned *form = &exported->form.versioned;
        *form = (dlpack_versioned){.version = {DLPACK_MAJOR, DLPACK_MINOR},
                                   .user = exported,
                                   .deleter = delete_versioned,
                                   .flags = copied ? 2 : 0};
        fill_tensor(exported, &form->tensor, info);
        capsule = PyCapsule_New(form, "dltensor_versioned", destroy_capsule);
    } else {
        dlpack_managed *form = &exported->form.managed;
        *form = (dlpack_managed){.user = exported, .deleter = delete_managed};
        fill_tensor(exported, &form->tensor, info);
        capsule = PyCapsule_New(form, "dltensor", destroy_capsule);
    }
    if (capsule == NULL)
        export_destroy(exported);
    return capsule;
}

PyObject *dlpack_export(tensor_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO", names, &stream, &max_version, &device, &copy))
        return NULL;
    const dtype_info *info = dtype_find(xcvm_value_dtype(self->value));
    if (info == NULL || info->dlpack_bits == 0 || dtype_is_packed(info->dtype)) {
        PyErr_Format(PyExc_BufferError, "DLPack cannot express a tensor of %s",
                     xcvm_dtype_name(xcvm_value_dtype(self->value)));
        return NULL;
    }
    long major = 0, device_type = DLPACK_CPU;
    if (max_version != Py_None && !PyArg_ParseTuple(max_version, "ll;max_version", &major, &(long){0}))
        return NULL;
    if (device != Py_None && !PyArg_ParseTuple(device, "ll;dl_device", &device_type, &(long){0}))
        return NULL;
    if (device_type != DLPACK_CPU) {
        PyErr_Format(PyExc_BufferError, "tensors are in CPU memory; device type %ld is not supported", device_type);
        return NULL;
    }
    const int copies = copy == Py_None ? 0 : PyObject_IsTrue(copy);
    if (copies < 0)
        return NULL;
    xcvm_value *value = NULL;
    xcvm_error error;
    const xcvm_status status =
        copies ? xcvm_value_copy(NULL, self->value, &value, &error) : xcvm_value_retain(self->value, &value, &error);
    if (status != XCVM_OK)
        return raise_error(&error);
    return export_value(value, info, major >= 1, copies != 0);
}

/* ---- Import ---- */

static int check_device(PyObject *object, PyObject *name)
{
    PyObject *device = PyObject_GetAttr(object, name);
    PyObject *pair = device != NULL ? PyObject_CallNoArgs(device) : NULL;
    Py_XDECREF(device);
    long type = 0, number = 0;
    const bool read =
        pair != NULL && PyTuple_Check(pair) && PyArg_ParseTuple(pair, "ll;__dlpack_device__", &type, &number);
    Py_XDECREF(pair);
    if (!read) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_TypeError, "__dlpack_device__ did not return a pair of integers");
        return -1;
    }
    if (type == DLPACK_CPU || type == DLPACK_CUDA_HOST || type == DLPACK_ROCM_HOST)
        return 0;
    PyErr_Format(PyExc_BufferError,
                 "the array is in memory of another device (DLPack type %ld); move it to the CPU first, as with .cpu()",
                 type);
    return -1;
}

/* Replaces the producer's exception by one that says what to do, and keeps it as the cause. */
static void explain_refusal(PyObject *object)
{
    PyObject *requires_grad = NULL, *type, *cause, *traceback;
    PyErr_Fetch(&type, &cause, &traceback);
    requires_grad = PyObject_GetAttrString(object, "requires_grad");
    PyErr_Clear();
    const bool is_graph = requires_grad != NULL && PyObject_IsTrue(requires_grad) > 0;
    PyErr_Clear();
    Py_XDECREF(requires_grad);
    if (!is_graph) {
        PyErr_Restore(type, cause, traceback);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(cause);
    Py_XDECREF(traceback);
    PyErr_SetString(PyExc_BufferError,
                    "the tensor requires gradients, which do not pass through a run; pass x.detach()");
}

static bool is_dense(const dlpack_tensor *tensor)
{
    int64_t stride = 1;
    for (int i = tensor->rank - 1; tensor->strides != NULL && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
            return tensor->shape[i] == 0;
        stride *= tensor->shape[i];
    }
    return true;
}

int dlpack_import(module_state *state, PyObject *object, xcvm_value **value)
{
    if (check_device(object, state->name_dlpack_device) < 0)
        return -1;
    PyObject *method = PyObject_GetAttr(object, state->name_dlpack);
    PyObject *capsule = method != NULL ? PyObject_CallNoArgs(method) : NULL;
    Py_XDECREF(method);
    if (capsule == NULL) {
        explain_refusal(object);
        return -1;
    }
    const dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (managed == NULL) {
        Py_DECREF(capsule);
        return -1;
    }
    const dlpack_tensor *tensor = &managed->tensor;
    int result = -1;
    const xcvm_dtype dtype =
        tensor->dtype.lanes == 1 ? dtype_from_dlpack(tensor->dtype.code, tensor->dtype.bits) : XCVM_NO_DTYPE;
    if (dtype == XCVM_NO_DTYPE) {
        PyErr_Format(PyExc_BufferError, "there is no element type for DLPack's type code %d of %d bits",
                     (int)tensor->dtype.code, (int)tensor->dtype.bits);
    } else if (tensor->rank > XCVM_MAX_RANK) {
        PyErr_Format(PyExc_BufferError, "an array of %d axes; tensors have at most %d", (int)tensor->rank,
                     XCVM_MAX_RANK);
    } else {
        char *data = tensor->data != NULL ? (char *)tensor->data + tensor->byte_offset : NULL;
        Py_ssize_t shape[XCVM_MAX_RANK], strides[XCVM_MAX_RANK];
        const Py_ssize_t size = xcvm_dtype_bits(dtype) / 8;
        for (int i = 0; i < tensor->rank; i++) {
            shape[i] = (Py_ssize_t)tensor->shape[i];
            strides[i] = tensor->strides != NULL ? (Py_ssize_t)tensor->strides[i] * size : 0;
        }
        /* The capsule keeps the producer's memory: its destructor calls the producer's deleter. */
        result = value_from_memory(state,
                                   &(element_memory){.dtype = dtype,
                                                     .rank = tensor->rank,
                                                     .data = data,
                                                     .shape = shape,
                                                     .strides = is_dense(tensor) ? NULL : strides,
                                                     .owner = capsule},
                                   value);
    }
    Py_DECREF(capsule);
    return result;
}
