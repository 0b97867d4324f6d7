/* xcvm._compiler.Trainer: a model in training. */
#include "compiler_module.h"

#include <stdlib.h>
#include <string.h>

typedef struct trainer_object {
    PyObject_HEAD const compiler_state *state;
    xct_trainer *trainer;
    compile_options compile;
    option_memory memory;
    model_source source;
    compiler_callbacks callbacks; /* progress is of fit */
    PyObject *kept;               /* dict of callables */
    bool busy;
} trainer_object;

#define AT(member) offsetof(xct_trainer_options, member)
static const option_row trainer_rows[] = {
    {"label", OPTION_TEXT, AT(label), 0, NULL},
    {"threads", OPTION_INT, AT(threads), 0, NULL},
    {"memory_limit", OPTION_SIZE, AT(memory_limit), 0, NULL},
    {"seed", OPTION_U64, AT(seed), 0, NULL},
    {"metrics", OPTION_NAMES, AT(metrics), AT(metric_count), NULL},
    {"init", OPTION_TEXT, AT(init), 0, NULL},
    {"weights", OPTION_TEXT, AT(weights), 0, NULL},
    {"training_form", OPTION_BOOL, AT(training_form), 0, NULL},
};
#undef AT
#define AT(member) offsetof(xct_fit_options, member)
static const option_row fit_rows[] = {
    {"epochs", OPTION_U64, AT(epochs), 0, NULL},
    {"steps", OPTION_U64, AT(steps), 0, NULL},
    {"batch", OPTION_SIZE, AT(batch), 0, NULL},
    {"no_shuffle", OPTION_BOOL, AT(no_shuffle), 0, NULL},
    {"accumulate", OPTION_SIZE, AT(accumulate), 0, NULL},
    {"schedule", OPTION_TEXT, AT(schedule), 0, NULL},
    {"held_out", OPTION_REAL, AT(held_out), 0, NULL},
    {"patience", OPTION_U64, AT(patience), 0, NULL},
    {"weights", OPTION_ENUM, AT(weights), 0, "auto|last|best"},
    {"overfit_batch", OPTION_BOOL, AT(overfit_batch), 0, NULL},
    {"log", OPTION_TEXT, AT(log), 0, NULL},
    {"curve", OPTION_TEXT, AT(curve), 0, NULL},
    {"title", OPTION_TEXT, AT(title), 0, NULL},
    {"checkpoints", OPTION_TEXT, AT(checkpoints), 0, NULL},
    {"checkpoint_every", OPTION_U64, AT(checkpoint_every), 0, NULL},
    {"keep", OPTION_SIZE, AT(keep), 0, NULL},
    {"resume", OPTION_BOOL, AT(resume), 0, NULL},
};

/* ---- Life ---- */

static int create(trainer_object *self, xct_trainer_options *options)
{
    xcvm_error error = {.status = XCVM_OK, .pc = -1};
    options->compile = &self->compile.options;
    const char *path = self->source.path != NULL ? PyBytes_AsString(self->source.path) : NULL;
    xcvm_status status;
    do {
        callbacks_begin(self->state, &self->callbacks);
        status = path != NULL ? xct_trainer_create_file(path, options, &self->trainer, &error)
                              : xct_trainer_create(self->source.buffer.buf, (size_t)self->source.buffer.len, options,
                                                   &self->trainer, &error);
        callbacks_end(self->state, &self->callbacks);
    } while (callbacks_repeat(&self->callbacks, status));
    if (status == XCVM_OK && self->callbacks.failure[0] == NULL)
        return 0;
    callbacks_raise(self->state, &self->callbacks, &error);
    return -1;
}

static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *model, *compile, *dict, *functions;
    if (!PyArg_ParseTuple(args, "OO!O!O!:Trainer", &model, &PyDict_Type, &compile, &PyDict_Type, &dict, &PyDict_Type,
                          &functions))
        return NULL;
    trainer_object *self = (trainer_object *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = PyType_GetModuleState(type);
    Py_INCREF(functions);
    self->kept = functions;
    xct_trainer_options options = {.size = sizeof options};
    if (options_read(&self->compile, compile) < 0 ||
        option_memory_read(&self->memory, trainer_rows, COUNT_OF(trainer_rows), &options, dict, "train") < 0 ||
        callbacks_read(&self->callbacks, functions) < 0 || model_source_read(&self->source, model) < 0) {
        Py_DECREF(OBJECT(self));
        return NULL;
    }
    callbacks_use(&self->callbacks, &self->compile.options);
    self->compile.options.progress = (xcc_progress){0};
    if (create(self, &options) < 0) {
        Py_DECREF(OBJECT(self));
        return NULL;
    }
    return OBJECT(self);
}

static void trainer_dealloc(trainer_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    xct_trainer_destroy(self->trainer);
    model_source_release(&self->source);
    option_memory_release(&self->memory);
    options_release(&self->compile);
    Py_XDECREF(self->kept);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* A trainer serves one call at a time. */
static bool enter(trainer_object *self)
{
    if (!self->busy)
        return self->busy = true;
    PyErr_SetString(PyExc_RuntimeError, "the trainer is in use by another call");
    return false;
}

/* Ends a call. Returns NULL with an exception if it failed. */
static PyObject *leave(trainer_object *self, xcvm_status status, const xcvm_error *error, PyObject *result)
{
    self->busy = false;
    if (status == XCVM_OK && self->callbacks.failure[0] == NULL)
        return result;
    Py_XDECREF(result);
    return callbacks_raise(self->state, &self->callbacks, status != XCVM_OK ? error : NULL);
}

/* ---- Results ---- */

static PyObject *result_dict(const xct_result *result)
{
    PyObject *metrics = PyDict_New();
    for (size_t i = 0; metrics != NULL && i < result->metric_count; i++) {
        PyObject *value = PyFloat_FromDouble(result->metrics[i].value);
        if (value == NULL || PyDict_SetItemString(metrics, result->metrics[i].name, value) < 0)
            Py_CLEAR(metrics);
        Py_XDECREF(value);
    }
    if (metrics == NULL)
        return NULL;
    return Py_BuildValue("{sKsdsdsdsN}", "examples", (unsigned long long)result->examples, "loss", result->loss,
                         "loss_error", result->loss_error, "gradient_norm", result->gradient_norm, "metrics", metrics);
}

static PyObject *optional_result(const xct_result *result)
{
    if (result == NULL || result->examples == 0)
        Py_RETURN_NONE;
    return result_dict(result);
}

static void report_progress(void *user, const xct_progress *p)
{
    trainer_object *self = user;
    callbacks_enter(&self->callbacks);
    PyObject *result = NULL;
    if (self->callbacks.progress != NULL && self->callbacks.failure[0] == NULL) {
        PyObject *event = Py_BuildValue(
            "{sKsKsKsKsdsdsdsNsNsNsN}", "step", (unsigned long long)p->step, "steps", (unsigned long long)p->steps,
            "epoch", (unsigned long long)p->epoch, "epochs", (unsigned long long)p->epochs, "rate", p->rate,
            "samples_per_second", p->samples_per_second, "seconds_left", p->seconds_left, "batch",
            optional_result(p->batch), "validation", optional_result(p->validation), "training",
            optional_result(p->training), "epoch_ends", PyBool_FromLong(p->epoch_ends));
        result = event != NULL ? PyObject_CallFunctionObjArgs(self->callbacks.progress, event, NULL) : NULL;
        Py_XDECREF(event);
    }
    if (PyErr_Occurred() != NULL || PyErr_CheckSignals() < 0) {
        callbacks_fail(&self->callbacks);
        __atomic_store_n(&self->callbacks.cancelled, 0,
                         __ATOMIC_RELAXED); /* it stops where a checkpoint can be written */
        xct_trainer_stop(self->trainer);
    } else if (result == Py_False) {
        xct_trainer_stop(self->trainer);
    }
    Py_XDECREF(result);
    callbacks_leave(&self->callbacks);
}

/* ---- Training ---- */

static PyObject *trainer_open(trainer_object *self, PyObject *args)
{
    PyObject *paths, *rows, *result = NULL;
    if (!PyArg_ParseTuple(args, "OO:open", &paths, &rows))
        return NULL;
    column_list columns;
    xct_dataset *dataset;
    xcvm_error error;
    if (column_list_read(&columns, paths, rows) == 0) {
        if (xct_dataset_create(self->trainer, columns.paths, columns.path_count, columns.items, columns.count, &dataset,
                               &error) == XCVM_OK)
            result = dataset_object_create(self->state, dataset, xct_trainer_input_count(self->trainer), OBJECT(self));
        else
            self->state->api->raise_error(&error);
    }
    column_list_release(&columns);
    return result;
}

static PyObject *fit_report(const xct_fit_report *report)
{
    static const char *const ends[] = {
        [XCT_END_DONE] = "done", [XCT_END_STOPPED] = "stopped", [XCT_END_PATIENCE] = "patience"};
    return Py_BuildValue("{sssKsKsNsNsssKsdsNsK}", "end", ends[report->end], "steps", (unsigned long long)report->steps,
                         "epochs", (unsigned long long)report->epochs, "training", optional_result(&report->training),
                         "validation", optional_result(&report->validation), "checkpoint", report->checkpoint,
                         "best_step", (unsigned long long)report->best_step, "best_loss", report->best_loss,
                         "left_over", PyBool_FromLong(report->left_over), "steps_taken",
                         (unsigned long long)report->steps_taken);
}

static PyObject *trainer_fit(trainer_object *self, PyObject *args)
{
    PyObject *data, *validation, *dict;
    if (!PyArg_ParseTuple(args, "OOO!:fit", &data, &validation, &PyDict_Type, &dict))
        return NULL;
    if (!is_dataset(self->state, data) || (validation != Py_None && !is_dataset(self->state, validation))) {
        PyErr_SetString(PyExc_TypeError, "fit needs data sets");
        return NULL;
    }
    xct_fit_options options = {.size = sizeof options};
    option_memory memory = {0};
    PyObject *result = NULL;
    if (option_memory_read(&memory, fit_rows, COUNT_OF(fit_rows), &options, dict, "train") == 0 && enter(self)) {
        xct_fit_report report = {.size = sizeof report};
        xcvm_error error = {.status = XCVM_OK, .pc = -1};
        options.validation = validation != Py_None ? ((dataset_object *)validation)->dataset : NULL;
        options.progress = (xct_progress_visitor){report_progress, self};
        callbacks_begin_once(self->state, &self->callbacks);
        const xcvm_status status =
            xct_trainer_fit(self->trainer, ((dataset_object *)data)->dataset, &options, &report, &error);
        callbacks_end_once(self->state, &self->callbacks);
        result = leave(self, status, &error, status == XCVM_OK ? fit_report(&report) : NULL);
    }
    option_memory_release(&memory);
    return result;
}

/* Trains on, or evaluates, one batch: a list of arrays. */
static PyObject *run_batch(trainer_object *self, PyObject *arrays, const xct_step_options *options, bool evaluate)
{
    const capi *api = self->state->api;
    const size_t count = xct_trainer_input_count(self->trainer);
    if ((size_t)PySequence_Size(arrays) != count) {
        if (PyErr_Occurred() == NULL)
            PyErr_Format(PyExc_TypeError, "a batch must have %zu arrays", count);
        return NULL;
    }
    xcvm_value **values = calloc(count + 1, sizeof *values);
    bool good = values != NULL;
    for (size_t i = 0; good && i < count; i++) {
        const xcvm_value_info *input = xct_trainer_input_at(self->trainer, i);
        PyObject *array = PySequence_GetItem(arrays, (Py_ssize_t)i);
        values[i] = array != NULL ? api->value_from_object(api->state, array, &input->type, input->name) : NULL;
        Py_XDECREF(array);
        good = values[i] != NULL;
    }
    PyObject *result = NULL;
    if (good && enter(self)) {
        xct_result numbers = {.size = sizeof numbers};
        xcvm_error error = {.status = XCVM_OK, .pc = -1};
        const xcvm_value *const *batch = (const xcvm_value *const *)values;
        callbacks_begin_once(self->state, &self->callbacks);
        const xcvm_status status = evaluate ? xct_trainer_evaluate(self->trainer, batch, &numbers, &error)
                                            : xct_trainer_step(self->trainer, batch, options, &numbers, &error);
        callbacks_end_once(self->state, &self->callbacks);
        result = leave(self, status, &error, status == XCVM_OK ? result_dict(&numbers) : NULL);
    }
    for (size_t i = 0; values != NULL && i < count; i++)
        xcvm_value_release(values[i]);
    free(values);
    api->trash_empty(api->state->trash);
    return result;
}

static PyObject *trainer_step(trainer_object *self, PyObject *args)
{
    PyObject *arrays;
    xct_step_options options = {.size = sizeof options};
    int gather = 0;
    if (!PyArg_ParseTuple(args, "O|dp:step", &arrays, &options.rate_factor, &gather))
        return NULL;
    options.gather = gather != 0;
    return run_batch(self, arrays, &options, false);
}

static PyObject *trainer_evaluate(trainer_object *self, PyObject *args)
{
    PyObject *arrays;
    return PyArg_ParseTuple(args, "O:evaluate", &arrays) ? run_batch(self, arrays, NULL, true) : NULL;
}

static PyObject *trainer_stop(trainer_object *self, PyObject *unused)
{
    (void)unused;
    xct_trainer_stop(self->trainer);
    Py_RETURN_NONE;
}

/* ---- Parameters and files ---- */

static PyObject *trainer_parameters(trainer_object *self, PyObject *unused)
{
    (void)unused;
    const capi *api = self->state->api;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < xct_trainer_parameter_count(self->trainer); i++) {
        const char *name;
        const xcvm_value *value = xct_trainer_parameter_at(self->trainer, i, &name);
        xcvm_value *copy = NULL;
        xcvm_error error;
        PyObject *tensor = xcvm_value_copy(NULL, value, &copy, &error) == XCVM_OK
                               ? api->tensor_from_value(api->state, copy)
                               : api->raise_error(&error);
        if (tensor == NULL || PyDict_SetItemString(dict, name, tensor) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(tensor);
    }
    return dict;
}

static PyObject *trainer_set_parameter(trainer_object *self, PyObject *args)
{
    const capi *api = self->state->api;
    const char *name;
    PyObject *array;
    if (!PyArg_ParseTuple(args, "sO:set_parameter", &name, &array))
        return NULL;
    xcvm_value *value = api->value_from_object(api->state, array, NULL, name);
    if (value == NULL)
        return NULL;
    xcvm_error error;
    const xcvm_status status = xct_trainer_set_parameter(self->trainer, name, value, &error);
    xcvm_value_release(value);
    if (status != XCVM_OK)
        return api->raise_error(&error);
    Py_RETURN_NONE;
}

static PyObject *with_path(trainer_object *self, PyObject *args, bool restore)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    xcvm_error error;
    const char *name = PyBytes_AsString(path);
    const xcvm_status status =
        restore ? xct_trainer_load(self->trainer, name, &error) : xct_trainer_save(self->trainer, name, &error);
    Py_DECREF(path);
    if (status != XCVM_OK)
        return self->state->api->raise_error(&error);
    Py_RETURN_NONE;
}

static PyObject *trainer_save(trainer_object *self, PyObject *args) { return with_path(self, args, false); }
static PyObject *trainer_restore(trainer_object *self, PyObject *args) { return with_path(self, args, true); }

static PyObject *trainer_export(trainer_object *self, PyObject *unused)
{
    (void)unused;
    if (!enter(self))
        return NULL;
    byte_buffer model = {0};
    xcvm_error error = {.status = XCVM_OK, .pc = -1};
    callbacks_begin_once(self->state, &self->callbacks);
    const xcvm_status status = xct_trainer_export(self->trainer, byte_buffer_sink(&model), &error);
    callbacks_end_once(self->state, &self->callbacks);
    return leave(self, status, &error, byte_buffer_take(&model));
}

static PyObject *trainer_inputs(trainer_object *self, void *closure)
{
    (void)closure;
    const capi *api = self->state->api;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < xct_trainer_input_count(self->trainer); i++) {
        PyObject *item = api->parameter_from(api->state, xct_trainer_input_at(self->trainer, i));
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *trainer_steps(trainer_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(xct_trainer_step_count(self->trainer));
}

static PyMethodDef methods[] = {
    {"open", FUNCTION(trainer_open), METH_VARARGS, "open(paths, columns): a Dataset."},
    {"fit", FUNCTION(trainer_fit), METH_VARARGS, "fit(data, validation, options): a report."},
    {"step", FUNCTION(trainer_step), METH_VARARGS, "step(arrays, rate_factor=0, gather=False): loss and metrics."},
    {"evaluate", FUNCTION(trainer_evaluate), METH_VARARGS, "evaluate(arrays): loss and metrics."},
    {"stop", FUNCTION(trainer_stop), METH_NOARGS, "Make fit return after the current step; from any thread."},
    {"parameters", FUNCTION(trainer_parameters), METH_NOARGS, "Return copies of all parameters by name."},
    {"set_parameter", FUNCTION(trainer_set_parameter), METH_VARARGS, "set_parameter(name, array)"},
    {"save", FUNCTION(trainer_save), METH_VARARGS, "Save a checkpoint."},
    {"restore", FUNCTION(trainer_restore), METH_VARARGS, "Restore a checkpoint."},
    {"export", FUNCTION(trainer_export), METH_NOARGS, "Return the trained model as bytes of ONNX."},
    {0},
};

static PyGetSetDef properties[] = {
    {"inputs", (getter)trainer_inputs, NULL, "list of Parameter: the values of a batch.", NULL},
    {"steps", (getter)trainer_steps, NULL, "int: the number of steps taken.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Trainer(model, compile_options, options, callbacks): a model in training."},
    {Py_tp_new, SLOT(trainer_new)},
    {Py_tp_dealloc, SLOT(trainer_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec trainer_spec = {.name = "xcvm._compiler.Trainer",
                            .basicsize = sizeof(trainer_object),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                            .slots = slots};
