/* Python functions that the compiler calls: progress, diagnostics, dumps. */
#include "compiler_module.h"

#include <string.h>

int callbacks_read(compiler_callbacks *self, PyObject *dict)
{
    *self = (compiler_callbacks){.progress = PyDict_GetItemString(dict, "progress"),
                                 .diagnostics = PyDict_GetItemString(dict, "diagnostics"),
                                 .dump = PyDict_GetItemString(dict, "dump")};
    PyObject **all[] = {&self->progress, &self->diagnostics, &self->dump};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (*all[i] == Py_None)
            *all[i] = NULL;
        if (*all[i] != NULL && !PyCallable_Check(*all[i])) {
            PyErr_Format(PyExc_TypeError, "%R is not callable", *all[i]);
            return -1;
        }
    }
    return 0;
}

void callbacks_enter(compiler_callbacks *self) { PyEval_RestoreThread(self->thread); }
void callbacks_leave(compiler_callbacks *self) { self->thread = PyEval_SaveThread(); }

void callbacks_begin(const compiler_state *state, compiler_callbacks *self)
{
    __atomic_store_n(&self->cancelled, 0, __ATOMIC_RELAXED);
    state->api->interrupt_begin(&self->interruption, &self->cancelled);
    self->thread = PyEval_SaveThread();
}

void callbacks_end(const compiler_state *state, compiler_callbacks *self)
{
    PyEval_RestoreThread(self->thread);
    state->api->interrupt_end(&self->interruption);
}

void callbacks_begin_once(const compiler_state *state, compiler_callbacks *self)
{
    __atomic_store_n(&self->cancelled, 0, __ATOMIC_RELAXED);
    self->armed = state->api->interrupt_raises(state->api->state);
    if (self->armed)
        state->api->interrupt_begin(&self->interruption, &self->cancelled);
    self->thread = PyEval_SaveThread();
}

void callbacks_end_once(const compiler_state *state, compiler_callbacks *self)
{
    PyEval_RestoreThread(self->thread);
    if (!self->armed)
        return;
    state->api->interrupt_end(&self->interruption);
    if (self->cancelled != 0 && self->failure[0] == NULL && PyErr_CheckSignals() < 0)
        callbacks_fail(self);
}

bool callbacks_repeat(compiler_callbacks *self, xcvm_status status)
{
    if (status != XCVM_CANCELLED || self->failure[0] != NULL)
        return false;
    if (PyErr_CheckSignals() == 0)
        return true;
    callbacks_fail(self);
    return false;
}

void callbacks_fail(compiler_callbacks *self)
{
    if (self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else
        PyErr_Clear();
    __atomic_store_n(&self->cancelled, 1, __ATOMIC_RELAXED); /* the result is not wanted any more */
}

PyObject *callbacks_raise(const compiler_state *state, compiler_callbacks *self, const xcvm_error *error)
{
    if (self->failure[0] == NULL)
        return error != NULL ? state->api->raise_error(error) : NULL;
    PyErr_Restore(self->failure[0], self->failure[1], self->failure[2]);
    memset(self->failure, 0, sizeof self->failure);
    return NULL;
}

/* Calls a function with arguments, which it takes. */
static bool call(compiler_callbacks *self, PyObject *callable, PyObject *arguments)
{
    PyObject *result = arguments != NULL ? PyObject_CallObject(callable, arguments) : NULL;
    if (result == NULL)
        callbacks_fail(self);
    Py_XDECREF(arguments);
    Py_XDECREF(result);
    return result != NULL;
}

static void report_progress(void *user, const char *pass, double fraction)
{
    compiler_callbacks *self = user;
    if (self->failure[0] != NULL)
        return;
    callbacks_enter(self);
    if (self->progress != NULL)
        call(self, self->progress, Py_BuildValue("(sd)", pass, fraction));
    if (PyErr_CheckSignals() < 0)
        callbacks_fail(self);
    callbacks_leave(self);
}

static bool report_dump(void *user, const void *bytes, size_t count)
{
    compiler_callbacks *self = user;
    callbacks_enter(self);
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)count, "replace");
    const bool good = call(self, self->dump, text != NULL ? Py_BuildValue("(N)", text) : NULL);
    callbacks_leave(self);
    return good;
}

static const char *diagnostic_name(xcc_diagnostic_kind kind)
{
    switch (kind) {
    case XCC_DIAGNOSTIC_TRAINING_FORM:
        return "training_form";
    case XCC_DIAGNOSTIC_INFERENCE_FORM:
        return "inference_form";
    case XCC_DIAGNOSTIC_MOMENTUM:
        return "momentum";
    case XCC_DIAGNOSTIC_STATISTICS:
        return "statistics";
    case XCC_DIAGNOSTIC_STATE:
        return "state";
    case XCC_DIAGNOSTIC_STATE_PAIR:
        return "state_pair";
    case XCC_DIAGNOSTIC_WEIGHTS:
        return "weights";
    }
    return "";
}

static void report_diagnostic(void *user, xcc_diagnostic_kind kind, const char *text)
{
    compiler_callbacks *self = user;
    callbacks_enter(self);
    PyObject *string = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    call(self, self->diagnostics, string != NULL ? Py_BuildValue("(sN)", diagnostic_name(kind), string) : NULL);
    callbacks_leave(self);
}

void callbacks_use(compiler_callbacks *callbacks, xcc_options *options)
{
    options->progress = (xcc_progress){report_progress, callbacks};
    options->cancelled = &callbacks->cancelled;
    if (callbacks->dump != NULL)
        options->debug.dump = (xcvm_sink){report_dump, callbacks};
    if (callbacks->diagnostics != NULL)
        options->diagnostics = (xcc_diagnostics){report_diagnostic, callbacks};
}
