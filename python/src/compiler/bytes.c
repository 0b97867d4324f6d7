/* Bytes that the libraries write, and models that they read. */
#include "compiler_module.h"

#include <stdlib.h>
#include <string.h>

static bool append(void *user, const void *bytes, size_t count)
{
    byte_buffer *self = user;
    if (count > self->capacity - self->count) {
        size_t capacity = self->capacity != 0 ? self->capacity : 4096;
        while (capacity - self->count < count && capacity <= SIZE_MAX / 2)
            capacity *= 2;
        char *data = capacity - self->count >= count ? realloc(self->data, capacity) : NULL;
        if (data == NULL)
            return false;
        self->data = data;
        self->capacity = capacity;
    }
    if (count != 0)
        memcpy(self->data + self->count, bytes, count);
    self->count += count;
    return true;
}

xcvm_sink byte_buffer_sink(byte_buffer *self) { return (xcvm_sink){append, self}; }

PyObject *byte_buffer_take(byte_buffer *self)
{
    PyObject *bytes = PyBytes_FromStringAndSize(self->data, (Py_ssize_t)self->count);
    free(self->data);
    *self = (byte_buffer){0};
    return bytes;
}

int model_source_read(model_source *source, PyObject *object)
{
    *source = (model_source){0};
    if (!PyUnicode_Check(object) && PyObject_CheckBuffer(object)) {
        source->has_buffer = PyObject_GetBuffer(object, &source->buffer, PyBUF_SIMPLE) == 0;
        return source->has_buffer ? 0 : -1;
    }
    return PyUnicode_FSConverter(object, &source->path) != 0 ? 0 : -1;
}

void model_source_release(model_source *source)
{
    if (source->has_buffer)
        PyBuffer_Release(&source->buffer);
    Py_XDECREF(source->path);
    *source = (model_source){0};
}
