/* Values that share memory of Python objects: the buffer protocol, and the array interface of arrays whose element
 * types have no buffer format (ml_dtypes). Strided and byte-swapped elements are copied. */
#include "xcvm_python.h"

#include <string.h>

/* ---- Copies ---- */

static void copy_element(char *to, const char *from, size_t size, bool swapped)
{
    if (!swapped) {
        memcpy(to, from, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        to[i] = from[size - 1 - i];
}

/* Copies elements in row-major order, from axis `axis` on. Complex elements are swapped by halves. */
static char *copy_axis(const element_memory *memory, int axis, const char *from, char *to, size_t size, bool halves)
{
    if (axis == memory->rank) {
        const size_t part = halves ? size / 2 : size;
        for (size_t at = 0; at < size; at += part)
            copy_element(to + at, from + at, part, memory->swapped);
        return to + size;
    }
    for (Py_ssize_t i = 0; i < memory->shape[axis]; i++, from += memory->strides[axis])
        to = copy_axis(memory, axis + 1, from, to, size, halves);
    return to;
}

static bool is_dense(const element_memory *memory, Py_ssize_t size)
{
    Py_ssize_t stride = size;
    for (int i = memory->rank - 1; memory->strides != NULL && i >= 0; i--) {
        if (memory->shape[i] != 1 && memory->strides[i] != stride)
            return memory->shape[i] == 0;
        stride *= memory->shape[i];
    }
    return true;
}

static int copy_memory(module_state *state, const element_memory *memory, const int64_t *dims, size_t size,
                       xcvm_value **value)
{
    xcvm_error error;
    if (xcvm_tensor_create(NULL, memory->dtype, memory->rank, dims, value, &error) != XCVM_OK) {
        raise_error(&error);
        return -1;
    }
    Py_ssize_t strides[XCVM_MAX_RANK], stride = (Py_ssize_t)size;
    struct element_memory from = *memory;
    for (int i = memory->rank - 1; memory->strides == NULL && i >= 0; i--) {
        strides[i] = stride;
        stride *= memory->shape[i];
    }
    if (memory->strides == NULL)
        from.strides = strides;
    const size_t bytes = xcvm_value_bytes(*value);
    if (bytes != 0)
        copy_axis(&from, 0, from.data, xcvm_value_data(*value), size,
                  memory->dtype == XCVM_C64 || memory->dtype == XCVM_C128);
    atomic_fetch_add_explicit(&state->copied_bytes, bytes, memory_order_relaxed);
    if (memory->buffer != NULL)
        PyBuffer_Release(memory->buffer);
    return 0;
}

int value_from_memory(module_state *state, const element_memory *memory, xcvm_value **value)
{
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < memory->rank; i++)
        dims[i] = memory->shape[i];
    const size_t size = (size_t)xcvm_dtype_bits(memory->dtype) / 8;
    const size_t alignment = size > 8 ? 8 : size;
    if (memory->swapped || !is_dense(memory, (Py_ssize_t)size) || (uintptr_t)memory->data % alignment != 0)
        return copy_memory(state, memory, dims, size, value);
    memory_holder *holder = holder_create(state, memory->buffer, memory->owner);
    if (holder == NULL)
        return -1;
    xcvm_error error;
    if (xcvm_tensor_wrap(memory->dtype, memory->rank, dims, memory->data, (xcvm_finalizer){holder_release, holder},
                         value, &error) != XCVM_OK) {
        /* The caller still owns the buffer. */
        holder_abandon(holder);
        raise_error(&error);
        return -1;
    }
    return 0;
}

/* ---- Elements that NumPy stores wider, or as raw bits ---- */

/* Packs elements of a byte each. Returns -1 with an exception if one is outside the range of `wanted`. */
static int pack(module_state *state, xcvm_value *bytes, xcvm_dtype wanted, xcvm_value **packed)
{
    xcvm_error error;
    if (xcvm_tensor_create(NULL, wanted, xcvm_value_rank(bytes), xcvm_value_dims(bytes), packed, &error) != XCVM_OK) {
        raise_error(&error);
        return -1;
    }
    const unsigned bits = (unsigned)xcvm_dtype_bits(wanted);
    const size_t per_byte = 8 / bits, count = xcvm_value_count(bytes);
    const bool is_signed = xcvm_value_dtype(bytes) == XCVM_I8;
    const int greatest = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
    const int least = is_signed ? -(1 << (bits - 1)) : 0;
    const uint8_t *from = xcvm_value_data(bytes);
    uint8_t *to = xcvm_value_data(*packed);
    memset(to, 0, xcvm_value_bytes(*packed));
    for (size_t i = 0; i < count; i++) {
        const int element = is_signed ? (int8_t)from[i] : from[i];
        if (element < least || element > greatest) {
            PyErr_Format(PyExc_OverflowError, "element %zu is %d, outside the range of %s (%d to %d)", i, element,
                         xcvm_dtype_name(wanted), least, greatest);
            xcvm_value_release(*packed);
            *packed = NULL;
            return -1;
        }
        to[i / per_byte] |= (uint8_t)(((unsigned)element & ((1u << bits) - 1)) << (i % per_byte * bits));
    }
    atomic_fetch_add_explicit(&state->copied_bytes, xcvm_value_bytes(*packed), memory_order_relaxed);
    return 0;
}

/* Whether elements of type `given` are the raw bits of `wanted`, which has no type in NumPy. */
static bool is_raw(xcvm_dtype given, xcvm_dtype wanted)
{
    const dtype_info *info = dtype_find(wanted);
    const int bits = xcvm_dtype_bits(wanted);
    return info != NULL && info->format == NULL &&
           ((given == XCVM_U16 && bits == 16) || (given == XCVM_U8 && bits == 8 && wanted != XCVM_STRING));
}

static bool is_unpacked(xcvm_dtype given, xcvm_dtype wanted)
{
    if (!dtype_is_packed(wanted))
        return false;
    const bool is_signed = wanted == XCVM_I4 || wanted == XCVM_I2;
    return given == (is_signed ? XCVM_I8 : XCVM_U8);
}

static int finish(module_state *state, const element_memory *memory, xcvm_dtype wanted, xcvm_value **value)
{
    struct element_memory typed = *memory;
    if (is_raw(memory->dtype, wanted))
        typed.dtype = wanted;
    xcvm_value *made;
    if (value_from_memory(state, &typed, &made) < 0)
        return -1;
    if (!is_unpacked(memory->dtype, wanted)) {
        *value = made;
        return 0;
    }
    /* From here on the value owns the buffer, so failures release the value. */
    const int result = pack(state, made, wanted, value);
    xcvm_value_release(made);
    trash_empty(state->trash);
    return result == 0 ? 0 : -2;
}

/* ---- The buffer protocol ---- */

int value_from_buffer(module_state *state, PyObject *object, xcvm_dtype wanted, xcvm_value **value)
{
    if (!PyObject_CheckBuffer(object))
        return 0;
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        /* NumPy refuses types of extensions (ValueError) and read-only arrays do not ask for more than this. */
        PyErr_Clear();
        return 0;
    }
    bool swapped;
    const xcvm_dtype dtype = dtype_from_format(buffer.format, buffer.itemsize, &swapped);
    int result = -1;
    if (dtype == XCVM_NO_DTYPE)
        PyErr_Format(PyExc_TypeError, "an array with elements of format '%s' cannot be a tensor",
                     buffer.format != NULL ? buffer.format : "?");
    else if (buffer.ndim > XCVM_MAX_RANK)
        PyErr_Format(PyExc_ValueError, "an array of %d axes; tensors have at most %d", buffer.ndim, XCVM_MAX_RANK);
    else
        result = finish(state,
                        &(element_memory){.dtype = dtype,
                                          .rank = buffer.ndim,
                                          .swapped = swapped,
                                          .data = buffer.buf,
                                          .shape = buffer.shape,
                                          .strides = buffer.strides,
                                          .buffer = &buffer},
                        wanted, value);
    if (result == -1)
        PyBuffer_Release(&buffer);
    return result == 0 ? 1 : -1;
}

xcvm_value *value_from_writable(module_state *state, PyObject *object, xcvm_dtype wanted)
{
    if (is_tensor(state, object)) {
        xcvm_value *value = NULL;
        xcvm_error error;
        if (xcvm_value_retain(((tensor_object *)object)->value, &value, &error) != XCVM_OK)
            raise_error(&error);
        return value;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(object, &buffer, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE) < 0)
        return NULL;
    bool swapped;
    xcvm_value *value = NULL;
    xcvm_dtype dtype = dtype_from_format(buffer.format, buffer.itemsize, &swapped);
    if (is_raw(dtype, wanted))
        dtype = wanted;
    const size_t size = (size_t)xcvm_dtype_bits(dtype) / 8, alignment = size > 8 ? 8 : size;
    element_memory own = {.dtype = dtype,
                          .rank = buffer.ndim,
                          .data = buffer.buf,
                          .shape = buffer.shape,
                          .strides = buffer.strides,
                          .buffer = &buffer};
    if (dtype == XCVM_NO_DTYPE || buffer.ndim > XCVM_MAX_RANK)
        PyErr_SetString(PyExc_TypeError, "an output cannot be written into an array of this type");
    else if (swapped || !is_dense(&own, buffer.itemsize) || (uintptr_t)buffer.buf % alignment != 0)
        PyErr_SetString(PyExc_BufferError, "an output needs a contiguous, aligned array of the native byte order");
    else if (value_from_memory(state, &own, &value) == 0)
        return value;
    PyBuffer_Release(&buffer);
    return NULL;
}

/* ---- The array interface ---- */

/* Returns the element type of an object whose attribute dtype has a name that only ml_dtypes has. */
static xcvm_dtype extension_dtype(module_state *state, PyObject *object)
{
    PyObject *dtype = PyObject_GetAttr(object, state->name_dtype);
    PyObject *name = dtype != NULL ? PyObject_GetAttr(dtype, state->name_name) : NULL;
    xcvm_dtype result = XCVM_NO_DTYPE;
    if (name != NULL && PyUnicode_Check(name)) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        result = text != NULL ? dtype_from_numpy_name(text) : XCVM_NO_DTYPE;
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return result == XCVM_STRING ? XCVM_NO_DTYPE : result;
}

static int read_axes(PyObject *axes, Py_ssize_t *numbers)
{
    if (axes == NULL || !PyTuple_Check(axes) || PyTuple_Size(axes) > XCVM_MAX_RANK)
        return -1;
    const Py_ssize_t count = PyTuple_Size(axes);
    for (Py_ssize_t i = 0; i < count; i++) {
        numbers[i] = PyLong_AsSsize_t(PyTuple_GetItem(axes, i));
        if (numbers[i] == -1 && PyErr_Occurred() != NULL)
            return -1;
    }
    return (int)count;
}

int value_from_array_interface(module_state *state, PyObject *object, xcvm_dtype wanted, xcvm_value **value)
{
    (void)wanted;
    const xcvm_dtype dtype = extension_dtype(state, object);
    PyObject *interface = dtype != XCVM_NO_DTYPE ? PyObject_GetAttr(object, state->name_array_interface) : NULL;
    if (interface == NULL || !PyDict_Check(interface)) {
        PyErr_Clear();
        Py_XDECREF(interface);
        return 0;
    }
    PyObject *data = PyDict_GetItemString(interface, "data"), *strides = PyDict_GetItemString(interface, "strides");
    Py_ssize_t shape[XCVM_MAX_RANK], steps[XCVM_MAX_RANK];
    const int rank = read_axes(PyDict_GetItemString(interface, "shape"), shape);
    const bool is_strided = strides != NULL && strides != Py_None;
    int result = -1;
    if (rank < 0 || data == NULL || !PyTuple_Check(data) || (is_strided && read_axes(strides, steps) != rank)) {
        if (PyErr_Occurred() == NULL)
            PyErr_Format(PyExc_ValueError, "__array_interface__ has no data, or more than %d axes", XCVM_MAX_RANK);
    } else {
        char *at = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
        const bool packed = dtype_is_packed(dtype);
        const bool is_signed = dtype == XCVM_I4 || dtype == XCVM_I2;
        result = PyErr_Occurred() == NULL
                     ? finish(state,
                              &(element_memory){.dtype = packed ? (is_signed ? XCVM_I8 : XCVM_U8) : dtype,
                                                .rank = rank,
                                                .data = at,
                                                .shape = shape,
                                                .strides = is_strided ? steps : NULL,
                                                .owner = object},
                              dtype, value)
                     : -1;
    }
    Py_DECREF(interface);
    return result == 0 ? 1 : -1;
}
