/* Inspection of tapes: counts, memory, drawings, observers. */
#include "tape_module.h"

PyObject *tape_info(tape_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_tape_info info = {.size = sizeof info};
    if (!tape_begin(self))
        return NULL;
    xcvm_tape_get_info(self->tape, &info);
    return Py_BuildValue("{sKsnsnsnsnsn}", "calls", (unsigned long long)info.calls, "recorded",
                         (Py_ssize_t)info.recorded, "variables", (Py_ssize_t)info.variables, "live_bytes",
                         (Py_ssize_t)info.live_bytes, "peak_bytes", (Py_ssize_t)info.peak_bytes, "total_bytes",
                         (Py_ssize_t)info.total_bytes);
}

PyObject *tape_memory_info(tape_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_tape_memory_info info = {.size = sizeof info};
    xcvm_error error;
    if (!tape_begin(self))
        return NULL;
    if (xcvm_tape_get_memory_info(self->tape, &info, &error) != XCVM_OK)
        return tape_raise(self, &error);
    return Py_BuildValue("{snsnsnsnsn}", "values", (Py_ssize_t)info.values, "gradients", (Py_ssize_t)info.gradients,
                         "parameters", (Py_ssize_t)info.parameters, "scratch", (Py_ssize_t)info.scratch, "records",
                         (Py_ssize_t)info.records);
}

static bool append_bytes(void *user, const void *bytes, size_t count)
{
    PyObject *piece = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)count, "replace");
    const bool good = piece != NULL && PyList_Append(user, piece) == 0;
    Py_XDECREF(piece);
    return good;
}

PyObject *tape_draw(tape_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_error error;
    PyObject *pieces = PyList_New(0), *text = NULL;
    if (pieces != NULL && tape_begin(self)) {
        if (xcvm_tape_draw(self->tape, (xcvm_sink){append_bytes, pieces}, &error) != XCVM_OK) {
            tape_raise(self, &error);
        } else {
            PyObject *empty = PyUnicode_FromString("");
            text = empty != NULL ? PyUnicode_Join(empty, pieces) : NULL;
            Py_XDECREF(empty);
        }
    }
    Py_XDECREF(pieces);
    return text;
}

static void observe(void *user, const xcvm_call_event *event)
{
    tape_object *self = user;
    const bool released = tape_callback_begin(self);
    PyObject *args =
        Py_BuildValue("(sKOOKn)", event->name, (unsigned long long)event->number, event->backward ? Py_True : Py_False,
                      event->done ? Py_True : Py_False, (unsigned long long)event->ns, (Py_ssize_t)event->live_bytes);
    PyObject *result = args != NULL ? PyObject_CallObject(self->observer, args) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(result);
    if (result == NULL && self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else if (result == NULL)
        PyErr_Clear();
    tape_callback_end(self, released);
}

PyObject *tape_set_observer(tape_object *self, PyObject *callable)
{
    if (!tape_begin(self))
        return NULL;
    if (callable != Py_None && !PyCallable_Check(callable)) {
        PyErr_SetString(PyExc_TypeError, "the observer is not callable");
        return NULL;
    }
    if (self->depth > 0) {
        PyErr_SetString(PyExc_RuntimeError, "the observer cannot change while the tape runs");
        return NULL;
    }
    const xcvm_tape_observer observer = {observe, self};
    xcvm_tape_set_observer(self->tape, callable != Py_None ? &observer : NULL);
    PyObject *before = self->observer;
    self->observer = NULL;
    if (callable != Py_None) {
        Py_INCREF(callable);
        self->observer = callable;
    }
    Py_XDECREF(before);
    if (tape_check(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}
