/*
 * Runs of a session on Python objects, the path of every call.
 *
 * Inputs are bound without a copy. A session keeps its bindings, which would keep the caller's arrays alive and locked
 * against resizing. So after a run placeholders of the same types, whose memory is never touched, replace them; a
 * binding of another type would make the session infer its shapes again. The same holds for large outputs, which a run
 * writes straight into new tensors.
 */
#include "xcvm_python.h"

#include <string.h>
#include <time.h>

enum {
    DIRECT_BYTES = 32768,      /* outputs from this size on are written into new tensors, smaller ones are copied */
    LONG_RUN_NS = 100000,      /* runs after one of this length check the handler of interrupts */
    PLACEHOLDER_ADDRESS = 4096 /* aligned, and never read */
};

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- Callbacks ---- */

/* Keeps the exception of a callback for the end of the run; the first one counts. */
static void keep_failure(session_runner *runner)
{
    if (runner->failure[0] == NULL)
        PyErr_Fetch(&runner->failure[0], &runner->failure[1], &runner->failure[2]);
    else
        PyErr_Clear();
}

static void enter_python(session_runner *runner)
{
    if (!runner->keeps_lock)
        PyEval_RestoreThread(runner->thread);
}

static void leave_python(session_runner *runner)
{
    if (!runner->keeps_lock)
        runner->thread = PyEval_SaveThread();
}

static bool call_print(void *user, const char *text)
{
    session_runner *self = user;
    enter_python(self);
    PyObject *string = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *result = string != NULL ? PyObject_CallFunctionObjArgs(self->print, string, NULL) : NULL;
    const bool good = result != NULL;
    if (!good)
        keep_failure(self);
    Py_XDECREF(result);
    Py_XDECREF(string);
    leave_python(self);
    return good;
}

static bool store_results(module_state *state, PyObject *result, size_t count, xcvm_value **outputs)
{
    const bool many = PyTuple_Check(result) || PyList_Check(result);
    if (!many && count == 1)
        return (outputs[0] = value_from_object(state, result, NULL, NULL)) != NULL;
    if (!many || (size_t)PySequence_Size(result) != count) {
        PyErr_Format(PyExc_TypeError, "a host function must return %zu arrays", count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(result, (Py_ssize_t)i);
        outputs[i] = item != NULL ? value_from_object(state, item, NULL, NULL) : NULL;
        Py_XDECREF(item);
        if (outputs[i] == NULL) {
            while (i > 0)
                xcvm_value_release(outputs[--i]);
            return false;
        }
    }
    return true;
}

static xcvm_status call_host_function(void *user, size_t input_count, const xcvm_value *const *inputs,
                                      size_t output_count, xcvm_value **outputs, xcvm_error *error)
{
    const host_function *function = user;
    session_runner *self = function->runner;
    enter_python(self);
    PyObject *arguments = PyTuple_New((Py_ssize_t)input_count);
    bool good = arguments != NULL;
    for (size_t i = 0; good && i < input_count; i++) {
        PyObject *item = object_from_value(self->state, inputs[i]);
        good = item != NULL && PyTuple_SetItem(arguments, (Py_ssize_t)i, item) == 0;
    }
    PyObject *result = good ? PyObject_CallObject(function->callable, arguments) : NULL;
    good = result != NULL && store_results(self->state, result, output_count, outputs);
    xcvm_status status = XCVM_OK;
    if (!good) {
        status = error_from_exception(error, "the host function raised an exception");
        keep_failure(self);
    }
    Py_XDECREF(result);
    Py_XDECREF(arguments);
    leave_python(self);
    return status;
}

/* ---- Creation ---- */

int runner_create(session_runner *self, program_object *program, const xcvm_session_options *options)
{
    self->state = program->state;
    self->program = program;
    self->input_count = xcvm_program_input_count(program->program);
    self->output_count = xcvm_program_output_count(program->program);
    self->last_ns = LONG_RUN_NS;
    self->input_placeholders = PyMem_Calloc(self->input_count + 1, sizeof *self->input_placeholders);
    self->output_placeholders = PyMem_Calloc(self->output_count + 1, sizeof *self->output_placeholders);
    self->bound = PyMem_Calloc(self->output_count + 1, sizeof *self->bound);
    if (self->input_placeholders == NULL || self->output_placeholders == NULL || self->bound == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    xcvm_session_options own = *options;
    if (self->print != NULL)
        own.print = (xcvm_printer){call_print, self};
    for (size_t i = 0; i < self->function_count; i++) {
        self->functions[i].runner = self;
        self->function_table[i].call = call_host_function;
        self->function_table[i].user = &self->functions[i];
    }
    own.functions = self->function_table;
    own.function_count = self->function_count;
    self->predicts = true;
    xcvm_error error;
    xcvm_status status;
    Py_BEGIN_ALLOW_THREADS status = xcvm_session_create(program->program, &own, &self->session, &error);
    Py_END_ALLOW_THREADS if (status == XCVM_OK) return 0;
    raise_error(&error);
    return -1;
}

void runner_destroy(session_runner *self)
{
    interrupt_wait();
    if (self->session != NULL) {
        Py_BEGIN_ALLOW_THREADS xcvm_session_destroy(self->session);
        Py_END_ALLOW_THREADS
    }
    for (size_t i = 0; self->input_placeholders != NULL && i < self->input_count; i++)
        xcvm_value_release(self->input_placeholders[i]);
    for (size_t i = 0; self->output_placeholders != NULL && i < self->output_count; i++)
        xcvm_value_release(self->output_placeholders[i]);
    for (size_t i = 0; self->bound != NULL && i < self->output_count; i++)
        xcvm_value_release(self->bound[i]);
    PyMem_Free(self->input_placeholders);
    PyMem_Free(self->output_placeholders);
    PyMem_Free(self->bound);
    if (self->state != NULL)
        trash_empty(self->state->trash);
}

int runner_enter(session_runner *self)
{
    bool idle = false;
    if (atomic_compare_exchange_strong(&self->busy, &idle, true))
        return 0;
    raise_status(XCVM_INVALID_ARGUMENT,
                 "the session is in use by another call; a session belongs to one thread at a time. "
                 "Create a session for each thread, or call the program");
    return -1;
}

void runner_leave(session_runner *self) { atomic_store(&self->busy, false); }

/* ---- Placeholders ---- */

static bool same_tensor_type(const xcvm_value *a, const xcvm_value *b)
{
    const int rank = xcvm_value_rank(a);
    return xcvm_value_dtype(a) == xcvm_value_dtype(b) && rank == xcvm_value_rank(b) &&
           (rank <= 0 || memcmp(xcvm_value_dims(a), xcvm_value_dims(b), (size_t)rank * sizeof(int64_t)) == 0);
}

/* Makes *placeholder one for values like `value`; NULL if there can be none. */
static xcvm_value *renew_placeholder(xcvm_value **placeholder, const xcvm_value *value)
{
    const xcvm_kind kind = xcvm_value_kind(value);
    if (*placeholder != NULL && xcvm_value_kind(*placeholder) == kind &&
        (kind != XCVM_KIND_TENSOR || same_tensor_type(*placeholder, value)))
        return *placeholder;
    xcvm_value_release(*placeholder);
    *placeholder = NULL;
    xcvm_status status = XCVM_OK;
    if (kind == XCVM_KIND_TENSOR && xcvm_value_dtype(value) != XCVM_STRING)
        status = xcvm_tensor_wrap(xcvm_value_dtype(value), xcvm_value_rank(value), xcvm_value_dims(value),
                                  (void *)(uintptr_t)PLACEHOLDER_ADDRESS, (xcvm_finalizer){0}, placeholder, NULL);
    else if (kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL)
        status = xcvm_list_create(NULL, kind, 0, NULL, placeholder, NULL);
    return status == XCVM_OK ? *placeholder : NULL;
}

/* Without memory for a placeholder, the array stays bound until the next call. */
static void ignore_failure(xcvm_status status) { (void)status; }

/* ---- Inputs ---- */

static int bind_inputs(session_runner *self, PyObject *const *objects, xcvm_value **values)
{
    for (size_t i = 0; i < self->input_count; i++) {
        const xcvm_value_info *input = xcvm_program_input_at(self->program->program, i);
        values[i] = value_from_object(self->state, objects[i], &input->type, input->name);
        if (values[i] == NULL)
            return -1;
        xcvm_error error;
        if (xcvm_session_set_input(self->session, i, values[i], &error) != XCVM_OK) {
            raise_error(&error);
            return -1;
        }
    }
    return 0;
}

static void unbind_inputs(session_runner *self, xcvm_value **values)
{
    for (size_t i = 0; i < self->input_count && values[i] != NULL; i++) {
        xcvm_value *placeholder = renew_placeholder(&self->input_placeholders[i], values[i]);
        if (placeholder != NULL)
            ignore_failure(xcvm_session_set_input(self->session, i, placeholder, NULL));
        xcvm_value_release(values[i]);
    }
}

/* ---- Outputs ---- */

/* Computes the size of an output from its declaration and the sizes of inputs with the same names. */
static bool predict_dims(const session_runner *self, xcvm_value *const *inputs, const xcvm_type *type,
                         int64_t dims[XCVM_MAX_RANK])
{
    const xcvm_program *program = self->program->program;
    for (int axis = 0; axis < type->rank; axis++) {
        dims[axis] = type->dims[axis];
        const char *name = type->dim_names[axis];
        if (dims[axis] < 0 && (name == NULL || !self->predicts))
            return false;
        for (size_t i = 0; dims[axis] < 0 && i < self->input_count; i++) {
            const xcvm_type *input = &xcvm_program_input_at(program, i)->type;
            for (int k = 0; k < input->rank && dims[axis] < 0; k++)
                if (input->dim_names[k] != NULL && strcmp(input->dim_names[k], name) == 0)
                    dims[axis] = xcvm_value_dims(inputs[i])[k];
        }
        if (dims[axis] < 0)
            return false;
    }
    return true;
}

static xcvm_value *new_output(const session_runner *self, xcvm_value *const *inputs, size_t index)
{
    const xcvm_type *type = &xcvm_program_output_at(self->program->program, index)->type;
    int64_t dims[XCVM_MAX_RANK];
    if (type->kind != XCVM_KIND_TENSOR || type->dtype == XCVM_NO_DTYPE || type->dtype == XCVM_STRING ||
        type->rank < 0 || !predict_dims(self, inputs, type, dims))
        return NULL;
    uint64_t bits = (uint64_t)xcvm_dtype_bits(type->dtype);
    for (int i = 0; i < type->rank; i++)
        if (__builtin_mul_overflow(bits, (uint64_t)dims[i], &bits))
            return NULL;
    xcvm_value *value = NULL;
    if (bits / 8 < DIRECT_BYTES || xcvm_tensor_create(NULL, type->dtype, type->rank, dims, &value, NULL) != XCVM_OK)
        return NULL;
    return value;
}

/* Binds new tensors to outputs of known, large size. `made` receives them. */
static int bind_outputs(session_runner *self, xcvm_value *const *inputs, xcvm_value **made)
{
    for (size_t i = 0; i < self->output_count; i++) {
        if (self->bound[i] != NULL)
            continue;
        made[i] = new_output(self, inputs, i);
        if (made[i] == NULL && self->output_placeholders[i] == NULL)
            continue;
        xcvm_error error;
        if (xcvm_session_set_output(self->session, i, made[i], &error) != XCVM_OK) {
            raise_error(&error);
            return -1;
        }
        if (made[i] == NULL) {
            xcvm_value_release(self->output_placeholders[i]);
            self->output_placeholders[i] = NULL;
        }
    }
    return 0;
}

static void unbind_outputs(session_runner *self, xcvm_value **made)
{
    for (size_t i = 0; i < self->output_count; i++) {
        if (made[i] == NULL)
            continue;
        xcvm_value *placeholder = renew_placeholder(&self->output_placeholders[i], made[i]);
        ignore_failure(xcvm_session_set_output(self->session, i, placeholder, NULL));
        xcvm_value_release(made[i]);
    }
}

/* Whether the elements of an output are those of an input, which the caller may change later. */
static bool is_input_memory(const session_runner *self, xcvm_value *const *inputs, const xcvm_value *output)
{
    const char *data = xcvm_value_data(output);
    for (size_t i = 0; i < self->input_count && data != NULL; i++) {
        const char *begin = xcvm_value_data(inputs[i]);
        if (begin != NULL && data >= begin && data < begin + xcvm_value_bytes(inputs[i]))
            return true;
    }
    return false;
}

static PyObject *output_object(const session_runner *self, xcvm_value *const *inputs, const xcvm_value *output)
{
    const bool is_list = xcvm_value_kind(output) != XCVM_KIND_TENSOR;
    xcvm_value *own = NULL;
    xcvm_error error;
    const xcvm_status status = is_list || is_input_memory(self, inputs, output)
                                   ? xcvm_value_copy(NULL, output, &own, &error)
                                   : xcvm_value_retain(output, &own, &error);
    if (status != XCVM_OK)
        return raise_error(&error);
    atomic_fetch_add_explicit(&self->state->copied_bytes, xcvm_value_bytes(own), memory_order_relaxed);
    if (!is_list)
        return tensor_from_value(self->state, own);
    PyObject *object = object_from_value(self->state, own);
    xcvm_value_release(own);
    return object;
}

static PyObject *collect_outputs(session_runner *self, xcvm_value *const *inputs, xcvm_value **made)
{
    PyObject *list = PyList_New((Py_ssize_t)self->output_count);
    for (size_t i = 0; list != NULL && i < self->output_count; i++) {
        const xcvm_value *direct = made[i] != NULL ? made[i] : self->bound[i];
        PyObject *item = direct != NULL ? object_from_value(self->state, direct)
                                        : output_object(self, inputs, xcvm_session_get_output(self->session, i));
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* ---- Runs ---- */

/* Runs once. Returns the status; `error` describes a failure. */
static xcvm_status execute_once(session_runner *self, const xcvm_run_options *options, bool warm_up, xcvm_error *error)
{
    interrupt_scope interruption;
    interrupt_begin(&interruption, self->session, self->last_ns >= LONG_RUN_NS);
    const uint64_t begin = now_ns();
    self->thread = self->keeps_lock ? NULL : PyEval_SaveThread();
    const xcvm_status status =
        warm_up ? xcvm_session_warm_up(self->session, options, error) : xcvm_session_run(self->session, options, error);
    if (!self->keeps_lock)
        PyEval_RestoreThread(self->thread);
    self->last_ns = now_ns() - begin;
    interrupt_end(&interruption);
    return status;
}

/* Runs until it succeeds or fails for good. */
static xcvm_status execute(session_runner *self, const xcvm_run_options *options, bool warm_up, xcvm_error *error)
{
    for (;;) {
        const xcvm_status status = execute_once(self, options, warm_up, error);
        if (self->failure[0] != NULL) {
            PyErr_Restore(self->failure[0], self->failure[1], self->failure[2]);
            memset(self->failure, 0, sizeof self->failure);
            return status != XCVM_OK ? status : XCVM_INVALID_ARGUMENT;
        }
        if (status != XCVM_CANCELLED || PyErr_CheckSignals() < 0)
            return status;
        if (atomic_exchange(&self->cancelled, false))
            return status;
        /* The program's handler of the signal raised nothing. A cancelled run changed nothing, so it starts again. */
    }
}

int runner_execute(session_runner *self, const xcvm_run_options *options, bool warm_up)
{
    xcvm_error error = {.status = XCVM_OK};
    if (execute(self, options, warm_up, &error) == XCVM_OK)
        return 0;
    if (PyErr_Occurred() == NULL)
        raise_error(&error);
    return -1;
}

/* A model may declare outputs by wrong names of dimensions. Such a run fails, changes nothing, and is repeated without
 * tensors of the predicted sizes. Programs with host functions may have had effects. */
static int run_or_repeat(session_runner *self, const run_arguments *arguments, xcvm_value **inputs, xcvm_value **made)
{
    xcvm_error error = {.status = XCVM_OK};
    xcvm_status status = execute(self, &arguments->options, false, &error);
    if (status == XCVM_SHAPE_MISMATCH && PyErr_Occurred() == NULL && self->predicts) {
        self->predicts = false;
        unbind_outputs(self, made);
        memset(made, 0, self->output_count * sizeof *made);
        if (bind_outputs(self, inputs, made) < 0)
            return -1;
        status = execute(self, &arguments->options, false, &error);
    }
    if (status != XCVM_OK && PyErr_Occurred() == NULL)
        raise_error(&error);
    return status == XCVM_OK ? 0 : -1;
}

PyObject *runner_run(session_runner *self, const run_arguments *arguments)
{
    enum { FEW = 16 };
    xcvm_value *few[2 * FEW] = {0};
    const size_t count = self->input_count + self->output_count;
    xcvm_value **values = count <= COUNT_OF(few) ? few : PyMem_Calloc(count, sizeof *values);
    if (values == NULL)
        return PyErr_NoMemory();
    xcvm_value **made = values + self->input_count;
    PyObject *outputs = NULL;
    if (bind_inputs(self, arguments->inputs, values) == 0 && bind_outputs(self, values, made) == 0 &&
        run_or_repeat(self, arguments, values, made) == 0)
        outputs = collect_outputs(self, values, made);
    unbind_outputs(self, made);
    unbind_inputs(self, values);
    trash_empty(self->state->trash);
    if (values != few)
        PyMem_Free(values);
    return outputs;
}

/* ---- Arguments ---- */

static int match_keywords(program_object *program, PyObject *keywords, PyObject **inputs)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(keywords, &at, &key, &value)) {
        PyObject *index = PyDict_GetItemWithError(program->input_index, key);
        if (index == NULL) {
            const char *name = PyErr_Occurred() == NULL ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
            if (name != NULL)
                parameter_index(xcvm_program_input_at, program->program, xcvm_program_input_count(program->program),
                                name, "input");
            return -1;
        }
        const Py_ssize_t i = PyLong_AsSsize_t(index);
        if (inputs[i] != NULL) {
            PyErr_Format(PyExc_TypeError, "input %R is given twice", key);
            return -1;
        }
        inputs[i] = value;
    }
    return 0;
}

int match_inputs(program_object *program, PyObject *args, PyObject *keywords, PyObject **inputs)
{
    const size_t count = xcvm_program_input_count(program->program);
    const Py_ssize_t given = args != NULL ? PyTuple_Size(args) : 0;
    if ((size_t)given > count) {
        PyErr_Format(PyExc_TypeError, "the program has %zu inputs, but %zd were given", count, given);
        return -1;
    }
    for (Py_ssize_t i = 0; i < given; i++)
        inputs[i] = PyTuple_GetItem(args, i);
    if (keywords != NULL && match_keywords(program, keywords, inputs) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (inputs[i] == NULL) {
            raise_status(XCVM_INVALID_ARGUMENT, "input \"%.100s\" is missing",
                         xcvm_program_input_at(program->program, i)->name);
            return -1;
        }
    return 0;
}

int timeout_from_object(PyObject *object, uint64_t *ns)
{
    *ns = 0;
    if (object == NULL || object == Py_None)
        return 0;
    const double seconds = PyFloat_AsDouble(object);
    if (seconds == -1 && PyErr_Occurred() != NULL)
        return -1;
    if (!(seconds >= 0)) {
        PyErr_SetString(PyExc_ValueError, "a time limit is negative or not a number");
        return -1;
    }
    const double most = 9e18;
    *ns = seconds * 1e9 < most ? (uint64_t)(seconds * 1e9) : 0;
    if (*ns == 0 && seconds > 0 && seconds * 1e9 < 1)
        *ns = 1;
    return 0;
}

int count_converter(PyObject *object, void *count)
{
    PyObject *number = PyNumber_Index(object);
    const unsigned long long value = number != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred() != NULL)
        return 0;
    *(uint64_t *)count = value;
    return 1;
}
