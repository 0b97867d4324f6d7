/* The base type of xcvm.Session: states, bound outputs, limits. One call at a time; another one at the same time
 * raises. */
#include "xcvm_python.h"

#include <string.h>

typedef struct session_object {
    PyObject_HEAD session_runner runner;
    PyObject *shared; /* session whose states are shared, or NULL */
} session_object;

/* ---- Life ---- */

/* Reads the host functions of a dict. */
static int read_functions(session_runner *self, PyObject *functions)
{
    if (functions == NULL || functions == Py_None)
        return 0;
    if (!PyDict_Check(functions)) {
        PyErr_SetString(PyExc_TypeError, "functions must be a dict of names and callables");
        return -1;
    }
    const size_t count = (size_t)PyDict_Size(functions);
    self->functions = PyMem_Calloc(count + 1, sizeof *self->functions);
    self->function_table = PyMem_Calloc(count + 1, sizeof *self->function_table);
    if (self->functions == NULL || self->function_table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *name, *callable;
    Py_ssize_t at = 0;
    while (PyDict_Next(functions, &at, &name, &callable)) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (text == NULL || !PyCallable_Check(callable)) {
            if (text != NULL)
                PyErr_Format(PyExc_TypeError, "host function %R is not callable", name);
            return -1;
        }
        char *own = PyMem_Malloc(strlen(text) + 1);
        if (own == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->function_table[self->function_count].name = strcpy(own, text);
        Py_INCREF(callable);
        self->functions[self->function_count++].callable = callable;
    }
    return 0;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {
        "program",   "threads", "memory_limit", "seed", "strict_types", "flush_subnormals", "release_lock",
        "functions", "print",   "states_of",    NULL};
    PyObject *program, *functions = NULL, *print = NULL, *states_of = NULL;
    int threads = 0, strict = 0, flush = 0, release_lock = 1;
    uint64_t memory_limit = 0, seed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$iO&O&pppOOO:Session", names, &program, &threads,
                                     count_converter, &memory_limit, count_converter, &seed, &strict, &flush,
                                     &release_lock, &functions, &print, &states_of))
        return NULL;
    module_state *state = state_of_type(type);
    if (state == NULL)
        return NULL;
    if (!is_program(state, program)) {
        PyErr_Format(PyExc_TypeError, "a session needs a Program, not an object of type %R", Py_TYPE(program));
        return NULL;
    }
    const session_object *shared = NULL;
    if (states_of != NULL && states_of != Py_None) {
        if (!PyObject_TypeCheck(states_of, state->session_type)) {
            PyErr_SetString(PyExc_TypeError, "states_of must be a Session");
            return NULL;
        }
        shared = (const session_object *)states_of;
    }
    session_object *self = (session_object *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    session_runner *runner = &self->runner;
    runner->state = state;
    runner->keeps_lock = release_lock == 0;
    if (print != NULL && print != Py_None) {
        Py_INCREF(print);
        runner->print = print;
    }
    if (shared != NULL) {
        Py_INCREF(states_of);
        self->shared = states_of;
    }
    const xcvm_session_options options = {.size = sizeof options,
                                          .threads = threads,
                                          .memory_limit = (size_t)memory_limit,
                                          .seed = seed,
                                          .strict_types = strict != 0,
                                          .flush_subnormals = flush != 0,
                                          .states_of = shared != NULL ? shared->runner.session : NULL};
    Py_INCREF(program);
    runner->program = (program_object *)program;
    if (read_functions(runner, functions) < 0 || runner_create(runner, (program_object *)program, &options) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    runner->predicts = runner->function_count == 0 && runner->print == NULL;
    return (PyObject *)self;
}

static int session_traverse(session_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->runner.program);
    Py_VISIT(self->runner.print);
    Py_VISIT(self->shared);
    for (size_t i = 0; i < self->runner.function_count; i++)
        Py_VISIT(self->runner.functions[i].callable);
    return 0;
}

/* Breaks cycles. A session that lost its functions cannot run; nobody can reach it then. */
static int session_clear(session_object *self)
{
    Py_CLEAR(self->runner.print);
    for (size_t i = 0; i < self->runner.function_count; i++)
        Py_CLEAR(self->runner.functions[i].callable);
    return 0;
}

static void session_dealloc(session_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    session_runner *runner = &self->runner;
    runner_destroy(runner);
    session_clear(self);
    for (size_t i = 0; i < runner->function_count; i++)
        PyMem_Free((void *)(uintptr_t)runner->function_table[i].name);
    PyMem_Free(runner->functions);
    PyMem_Free(runner->function_table);
    Py_XDECREF(OBJECT(runner->program));
    Py_XDECREF(self->shared);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* ---- Runs ---- */

static PyObject *run_matched(session_object *self, PyObject *args, PyObject *keywords, const xcvm_run_options *options,
                             PyObject *(*with)(session_runner *, const run_arguments *, const void *), const void *user)
{
    enum { FEW = 16 };
    PyObject *few[FEW] = {0};
    const size_t count = self->runner.input_count;
    PyObject **inputs = count <= FEW ? few : PyMem_Calloc(count, sizeof *inputs);
    if (inputs == NULL)
        return PyErr_NoMemory();
    PyObject *outputs = NULL;
    if (match_inputs(self->runner.program, args, keywords, inputs) == 0 && runner_enter(&self->runner) == 0) {
        outputs = with(&self->runner, &(run_arguments){.inputs = inputs, .options = *options}, user);
        runner_leave(&self->runner);
    }
    if (inputs != few)
        PyMem_Free(inputs);
    return outputs;
}

static PyObject *plain_run(session_runner *runner, const run_arguments *arguments, const void *user)
{
    (void)user;
    return runner_run(runner, arguments);
}

static PyObject *session_call(session_object *self, PyObject *args, PyObject *keywords)
{
    static const xcvm_run_options options = {.size = sizeof options};
    return unwrap_outputs(run_matched(self, args, keywords, &options, plain_run, NULL));
}

static int read_limits(PyObject *timeout, uint64_t fuel, xcvm_run_options *options)
{
    *options = (xcvm_run_options){.size = sizeof *options, .fuel = fuel};
    return timeout_from_object(timeout, &options->timeout_ns);
}

static PyObject *session_run(session_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "timeout", "fuel", NULL};
    PyObject *feeds = NULL, *timeout = NULL;
    uint64_t fuel = 0;
    xcvm_run_options options;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O!$OO&:run", names, &PyDict_Type, &feeds, &timeout,
                                     count_converter, &fuel) ||
        read_limits(timeout, fuel, &options) < 0)
        return NULL;
    return run_matched(self, NULL, feeds, &options, plain_run, NULL);
}

typedef struct profile_request {
    long runs;
    bool spans;
} profile_request;

static PyObject *profiled_run(session_runner *runner, const run_arguments *arguments, const void *user)
{
    const profile_request *request = user;
    return runner_profile(runner, arguments, request->runs, request->spans);
}

static PyObject *session_profile(session_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "runs", "spans", "timeout", "fuel", NULL};
    PyObject *feeds = NULL, *timeout = NULL;
    uint64_t fuel = 0;
    profile_request request = {.runs = 1};
    int spans = 0;
    xcvm_run_options options;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O!$lpOO&:profile", names, &PyDict_Type, &feeds, &request.runs,
                                     &spans, &timeout, count_converter, &fuel) ||
        read_limits(timeout, fuel, &options) < 0)
        return NULL;
    if (request.runs < 1) {
        PyErr_SetString(PyExc_ValueError, "runs must be at least 1");
        return NULL;
    }
    request.spans = spans != 0;
    return run_matched(self, NULL, feeds, &options, profiled_run, &request);
}

static PyObject *session_warm_up(session_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"timeout", "fuel", NULL};
    PyObject *timeout = NULL;
    uint64_t fuel = 0;
    xcvm_run_options options;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OO&:warm_up", names, &timeout, count_converter, &fuel) ||
        read_limits(timeout, fuel, &options) < 0 || runner_enter(&self->runner) < 0)
        return NULL;
    const int result = runner_execute(&self->runner, &options, true);
    runner_leave(&self->runner);
    if (result < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *session_cancel(session_object *self, PyObject *unused)
{
    (void)unused;
    atomic_store(&self->runner.cancelled, true);
    xcvm_session_cancel(self->runner.session);
    Py_RETURN_NONE;
}

/* ---- Bindings ---- */

static PyObject *session_bind_output(session_object *self, PyObject *args)
{
    const char *name;
    PyObject *array;
    if (!PyArg_ParseTuple(args, "sO:bind_output", &name, &array) || runner_enter(&self->runner) < 0)
        return NULL;
    session_runner *runner = &self->runner;
    const xcvm_program *program = runner->program->program;
    const Py_ssize_t index = parameter_index(xcvm_program_output_at, program, runner->output_count, name, "output");
    xcvm_value *value = NULL;
    bool good = index >= 0;
    if (good && array != Py_None) {
        value = value_from_writable(runner->state, array, xcvm_program_output_at(program, (size_t)index)->type.dtype);
        good = value != NULL;
    }
    xcvm_error error;
    if (good && xcvm_session_set_output(runner->session, (size_t)index, value, &error) != XCVM_OK) {
        raise_error(&error);
        xcvm_value_release(value);
        good = false;
    }
    if (good) {
        xcvm_value_release(runner->bound[index]);
        runner->bound[index] = value;
        xcvm_value_release(runner->output_placeholders[index]);
        runner->output_placeholders[index] = NULL;
    }
    trash_empty(runner->state->trash);
    runner_leave(runner);
    if (!good)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *session_pair(session_object *self, PyObject *args)
{
    const char *output, *input;
    if (!PyArg_ParseTuple(args, "ss:pair", &output, &input) || runner_enter(&self->runner) < 0)
        return NULL;
    session_runner *runner = &self->runner;
    const xcvm_program *program = runner->program->program;
    const Py_ssize_t to = parameter_index(xcvm_program_output_at, program, runner->output_count, output, "output");
    const Py_ssize_t from =
        to >= 0 ? parameter_index(xcvm_program_input_at, program, runner->input_count, input, "input") : -1;
    xcvm_error error = {.status = XCVM_OK};
    if (from >= 0 && xcvm_session_pair(runner->session, (size_t)to, (size_t)from, &error) != XCVM_OK)
        raise_error(&error);
    runner_leave(runner);
    if (PyErr_Occurred() != NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- States ---- */

static Py_ssize_t state_index(const session_object *self, const char *name)
{
    const xcvm_program *program = self->runner.program->program;
    return parameter_index(xcvm_program_state_at, program, xcvm_program_state_count(program), name, "state");
}

static PyObject *session_state(session_object *self, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:state", &name) || runner_enter(&self->runner) < 0)
        return NULL;
    const Py_ssize_t index = state_index(self, name);
    PyObject *state = NULL;
    xcvm_value *copy;
    xcvm_error error;
    if (index >= 0) {
        if (xcvm_value_copy(NULL, xcvm_session_get_state(self->runner.session, (size_t)index), &copy, &error) ==
            XCVM_OK)
            state = tensor_from_value(self->runner.state, copy);
        else
            raise_error(&error);
    }
    runner_leave(&self->runner);
    return state;
}

static PyObject *session_set_state(session_object *self, PyObject *args)
{
    const char *name;
    PyObject *array;
    if (!PyArg_ParseTuple(args, "sO:set_state", &name, &array) || runner_enter(&self->runner) < 0)
        return NULL;
    session_runner *runner = &self->runner;
    const Py_ssize_t index = state_index(self, name);
    xcvm_error error;
    if (index >= 0) {
        const xcvm_type *type = &xcvm_program_state_at(runner->program->program, (size_t)index)->type;
        xcvm_value *value = value_from_object(runner->state, array, type, name), *copy = NULL;
        /* States share counted values, and the caller may change the array. */
        if (value != NULL && (xcvm_value_copy(NULL, value, &copy, &error) != XCVM_OK ||
                              xcvm_session_set_state(runner->session, (size_t)index, copy, &error) != XCVM_OK))
            raise_error(&error);
        xcvm_value_release(copy);
        xcvm_value_release(value);
    }
    trash_empty(runner->state->trash);
    runner_leave(runner);
    if (PyErr_Occurred() != NULL)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *session_reset(session_object *self, PyObject *unused)
{
    (void)unused;
    if (runner_enter(&self->runner) < 0)
        return NULL;
    xcvm_error error;
    const xcvm_status status = xcvm_session_reset_states(self->runner.session, &error);
    runner_leave(&self->runner);
    if (status != XCVM_OK)
        return raise_error(&error);
    Py_RETURN_NONE;
}

static bool append_bytes(void *user, const void *bytes, size_t count)
{
    PyObject *piece = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count);
    const bool good = piece != NULL && PyList_Append(user, piece) == 0;
    Py_XDECREF(piece);
    return good;
}

static PyObject *session_save_states(session_object *self, PyObject *unused)
{
    (void)unused;
    PyObject *pieces = PyList_New(0), *empty = PyBytes_FromStringAndSize(NULL, 0), *joined = NULL;
    if (pieces != NULL && empty != NULL && runner_enter(&self->runner) == 0) {
        xcvm_error error;
        const xcvm_status status =
            xcvm_session_save_states(self->runner.session, (xcvm_sink){append_bytes, pieces}, &error);
        runner_leave(&self->runner);
        if (status == XCVM_OK)
            joined = PyObject_CallMethod(empty, "join", "O", pieces);
        else if (PyErr_Occurred() == NULL)
            raise_error(&error);
    }
    Py_XDECREF(pieces);
    Py_XDECREF(empty);
    return joined;
}

static PyObject *session_restore_states(session_object *self, PyObject *args)
{
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "y*:restore_states", &bytes))
        return NULL;
    if (runner_enter(&self->runner) == 0) {
        xcvm_error error;
        if (xcvm_session_load_states(self->runner.session, bytes.buf, (size_t)bytes.len, &error) != XCVM_OK)
            raise_error(&error);
        runner_leave(&self->runner);
    }
    PyBuffer_Release(&bytes);
    if (PyErr_Occurred() != NULL)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Properties ---- */

static PyObject *session_program(session_object *self, void *closure)
{
    (void)closure;
    Py_INCREF(OBJECT(self->runner.program));
    return (PyObject *)self->runner.program;
}

static PyObject *session_threads(session_object *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(xcvm_session_thread_count(self->runner.session));
}

static PyObject *session_memory(session_object *self, void *closure)
{
    (void)closure;
    if (runner_enter(&self->runner) < 0)
        return NULL;
    xcvm_memory_info info = {.size = sizeof info};
    xcvm_session_get_memory_info(self->runner.session, &info);
    runner_leave(&self->runner);
    return Py_BuildValue("{snsnsn}", "live_bytes", (Py_ssize_t)info.live_bytes, "peak_bytes",
                         (Py_ssize_t)info.peak_bytes, "reserved_bytes", (Py_ssize_t)info.reserved_bytes);
}

/* ---- The type ---- */

static PyMethodDef methods[] = {
    {"_run", FUNCTION(session_run), METH_VARARGS | METH_KEYWORDS, "Return the list of outputs of a dict of inputs."},
    {"_profile", FUNCTION(session_profile), METH_VARARGS | METH_KEYWORDS, "Return the events of runs."},
    {"warm_up", FUNCTION(session_warm_up), METH_VARARGS | METH_KEYWORDS,
     "warm_up($self, /, *, timeout=None, fuel=0)\n--\n\nMake the first run about as fast as later ones."},
    {"cancel", FUNCTION(session_cancel), METH_NOARGS,
     "Make the current run, or else the next one, raise Cancelled. May be called from any thread."},
    {"bind_output", FUNCTION(session_bind_output), METH_VARARGS,
     "bind_output($self, name, array, /)\n--\n\nMake runs write an output into an array; None unbinds."},
    {"pair", FUNCTION(session_pair), METH_VARARGS,
     "pair($self, output, input, /)\n--\n\nAllow an output to be bound to the memory of an input."},
    {"state", FUNCTION(session_state), METH_VARARGS, "state($self, name, /)\n--\n\nReturn a copy of a state."},
    {"set_state", FUNCTION(session_set_state), METH_VARARGS,
     "set_state($self, name, array, /)\n--\n\nReplace a state."},
    {"reset", FUNCTION(session_reset), METH_NOARGS, "Restore the initial values of all states."},
    {"save_states", FUNCTION(session_save_states), METH_NOARGS,
     "Return all states as the bytes of a safetensors file."},
    {"restore_states", FUNCTION(session_restore_states), METH_VARARGS,
     "restore_states($self, data, /)\n--\n\nReplace all states by those of a safetensors file."},
    {0},
};

static PyGetSetDef properties[] = {
    {"program", (getter)session_program, NULL, "Program: the program that the session runs.", NULL},
    {"threads", (getter)session_threads, NULL, "int: the number of threads of a run.", NULL},
    {"memory", (getter)session_memory, NULL, "Dict: bytes that the session holds, and their peak.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A session of a program."},
    {Py_tp_new, SLOT(session_new)},
    {Py_tp_dealloc, SLOT(session_dealloc)},
    {Py_tp_traverse, SLOT(session_traverse)},
    {Py_tp_clear, SLOT(session_clear)},
    {Py_tp_call, SLOT(session_call)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec session_spec = {.name = "xcvm._run.Session",
                            .basicsize = sizeof(session_object),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                            .slots = slots};
