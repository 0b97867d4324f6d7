/* Python functions that the compiler calls: progress, notes, remarks, dumps. */
#include "compiler_module.h"

#include <string.h>

int callbacks_read(compiler_callbacks *self, PyObject *dict)
{
    *self = (compiler_callbacks){.progress = PyDict_GetItemString(dict, "progress"),
                                 .note = PyDict_GetItemString(dict, "note"),
                                 .remark = PyDict_GetItemString(dict, "remark"),
                                 .dump = PyDict_GetItemString(dict, "dump")};
    PyObject **all[] = {&self->progress, &self->note, &self->remark, &self->dump};
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

void callbacks_fail(compiler_callbacks *self)
{
    if (self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else
        PyErr_Clear();
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

static bool report_text(compiler_callbacks *self, PyObject *callable, const void *bytes, size_t count)
{
    callbacks_enter(self);
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)count, "replace");
    const bool good = call(self, callable, text != NULL ? Py_BuildValue("(N)", text) : NULL);
    callbacks_leave(self);
    return good;
}

static bool report_remark(void *user, const void *bytes, size_t count)
{
    compiler_callbacks *self = user;
    return report_text(self, self->remark, bytes, count);
}

static bool report_dump(void *user, const void *bytes, size_t count)
{
    compiler_callbacks *self = user;
    return report_text(self, self->dump, bytes, count);
}

static const char *note_topic(xcc_note_kind kind)
{
    switch (kind) {
    case XCC_NOTE_TRAINING_FORM:
        return "training_form";
    case XCC_NOTE_INFERENCE_FORM:
        return "inference_form";
    case XCC_NOTE_MOMENTUM:
        return "momentum";
    case XCC_NOTE_STATISTICS:
        return "statistics";
    }
    return "";
}

static void report_note(void *user, xcc_note_kind kind, const char *text)
{
    compiler_callbacks *self = user;
    callbacks_enter(self);
    PyObject *string = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    call(self, self->note, string != NULL ? Py_BuildValue("(sN)", note_topic(kind), string) : NULL);
    callbacks_leave(self);
}

void callbacks_use(compiler_callbacks *self, xcc_options *options)
{
    options->progress = report_progress;
    options->user = self;
    if (self->dump != NULL)
        options->dump = report_dump;
    if (self->remark != NULL) {
        options->remarks = report_remark;
        options->remarks_user = self;
    }
    if (self->note != NULL) {
        options->note = report_note;
        options->note_user = self;
    }
}
