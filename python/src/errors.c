/* Failures of the libraries as exceptions. The classes are in xcvm/errors.py, imported at the first failure. */
#include "xcvm_python.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyObject *raise_error(const xcvm_error *error)
{
    PyObject *module = PyImport_ImportModule("xcvm.errors");
    if (module == NULL)
        return NULL;
    /* Names come from models and may be cut within a character. */
    PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    PyObject *node = PyUnicode_DecodeUTF8(error->node, (Py_ssize_t)strlen(error->node), "replace");
    PyObject *exception = message != NULL && node != NULL
                              ? PyObject_CallMethod(module, "from_status", "iOisO", (int)error->status, message,
                                                    (int)error->pc, error->instruction, node)
                              : NULL;
    if (exception != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(message);
    Py_XDECREF(node);
    Py_DECREF(module);
    return NULL;
}

PyObject *raise_status(xcvm_status status, const char *format, ...)
{
    xcvm_error error = {.status = status, .pc = -1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    return raise_error(&error);
}

xcvm_status error_from_exception(xcvm_error *error, const char *where)
{
    if (error == NULL)
        return XCVM_INVALID_ARGUMENT;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    PyObject *bytes = text != NULL ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    PyErr_Clear();
    *error = (xcvm_error){.status = XCVM_INVALID_ARGUMENT, .pc = -1};
    snprintf(error->message, sizeof error->message, "%s: %s", where,
             bytes != NULL ? PyBytes_AsString(bytes) : "an exception");
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    PyErr_Restore(type, value, traceback);
    return XCVM_INVALID_ARGUMENT;
}
