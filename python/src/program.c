/* The base type of xcvm.Program: a loaded program that can be called. Calls take sessions from a pool, so that any
 * number of threads may call a program at once. */
#include "xcvm_python.h"

#include <string.h>

bool is_program(const module_state *state, PyObject *object) { return PyObject_TypeCheck(object, state->program_type); }

/* ---- Loading ---- */

static PyObject *index_inputs(const xcvm_program *program)
{
    PyObject *index = PyDict_New();
    for (size_t i = 0; index != NULL && i < xcvm_program_input_count(program); i++) {
        PyObject *number = PyLong_FromSize_t(i);
        if (number == NULL || PyDict_SetItemString(index, xcvm_program_input_at(program, i)->name, number) < 0)
            Py_CLEAR(index);
        Py_XDECREF(number);
    }
    return index;
}

/* `source` is a path or bytes. The program borrows the bytes. */
static int load(program_object *self, PyObject *source, const xcvm_load_options *options)
{
    xcvm_error error;
    xcvm_status status;
    if (PyBytes_Check(source)) {
        self->bytes = source;
        Py_INCREF(source);
        const char *bytes = PyBytes_AsString(source);
        const size_t count = (size_t)PyBytes_Size(source);
        Py_BEGIN_ALLOW_THREADS status = xcvm_program_load(bytes, count, options, &self->program, &error);
        Py_END_ALLOW_THREADS
    } else {
        PyObject *path;
        if (PyUnicode_FSConverter(source, &path) == 0)
            return -1;
        const char *name = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS status = xcvm_program_load_file(name, options, &self->program, &error);
        Py_END_ALLOW_THREADS Py_DECREF(path);
    }
    if (status == XCVM_OK)
        return 0;
    raise_error(&error);
    return -1;
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"source", "copy", "libraries", "library_dir", "isa", "threads", "memory_limit", NULL};
    PyObject *source;
    int copy = 0, libraries = 1, threads = 0;
    uint64_t memory_limit = 0;
    const char *library_dir = NULL, *isa = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$ppzziO&:Program", names, &source, &copy, &libraries,
                                     &library_dir, &isa, &threads, count_converter, &memory_limit))
        return NULL;
    program_object *self = (program_object *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state_of_type(type);
    atomic_flag_clear(&self->lock);
    self->options =
        (xcvm_session_options){.size = sizeof self->options, .threads = threads, .memory_limit = (size_t)memory_limit};
    const xcvm_load_options options = {.size = sizeof options,
                                       .copy = copy != 0,
                                       .no_libraries = libraries == 0,
                                       .library_dir = library_dir,
                                       .isa = isa};
    if (self->state == NULL || load(self, source, &options) < 0 ||
        (self->input_index = index_inputs(self->program)) == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

/* ---- The pool ---- */

static void lock_pool(program_object *self)
{
    while (atomic_flag_test_and_set_explicit(&self->lock, memory_order_acquire))
        continue;
}

static void unlock_pool(program_object *self) { atomic_flag_clear_explicit(&self->lock, memory_order_release); }

static void destroy_runner(session_runner *runner)
{
    runner_destroy(runner);
    PyMem_Free(runner);
}

static session_runner *take_runner(program_object *self)
{
    lock_pool(self);
    session_runner *taken = self->idle;
    if (taken != NULL)
        self->idle = taken->next;
    unlock_pool(self);
    if (taken != NULL)
        return taken;
    taken = PyMem_Calloc(1, sizeof *taken);
    if (taken == NULL)
        return (session_runner *)PyErr_NoMemory();
    if (runner_create(taken, self, &self->options) < 0) {
        destroy_runner(taken);
        return NULL;
    }
    return taken;
}

static void return_runner(program_object *self, session_runner *runner)
{
    lock_pool(self);
    runner->next = self->idle;
    self->idle = runner;
    unlock_pool(self);
}

static void program_dealloc(program_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    while (self->idle != NULL) {
        session_runner *first = self->idle;
        self->idle = first->next;
        destroy_runner(first);
    }
    xcvm_program_destroy(self->program);
    Py_XDECREF(self->bytes);
    Py_XDECREF(self->input_index);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int program_traverse(program_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->input_index);
    return 0;
}

/* ---- Calls ---- */

/* A program with states starts each call with their initial values. */
static PyObject *run_pooled(program_object *self, const run_arguments *arguments)
{
    session_runner *runner = take_runner(self);
    if (runner == NULL)
        return NULL;
    PyObject *outputs = NULL;
    xcvm_error error;
    if (xcvm_program_state_count(self->program) != 0 && xcvm_session_reset_states(runner->session, &error) != XCVM_OK)
        raise_error(&error);
    else
        outputs = runner_run(runner, arguments);
    return_runner(self, runner);
    return outputs;
}

enum { FEW_INPUTS = 16 };

/* Returns the list of outputs, or NULL with an exception. */
static PyObject *call_list(program_object *self, PyObject *args, PyObject *keywords, const xcvm_run_options *options)
{
    PyObject *few[FEW_INPUTS] = {0};
    const size_t count = xcvm_program_input_count(self->program);
    PyObject **inputs = count <= FEW_INPUTS ? few : PyMem_Calloc(count, sizeof *inputs);
    if (inputs == NULL)
        return PyErr_NoMemory();
    PyObject *outputs = NULL;
    if (match_inputs(self, args, keywords, inputs) == 0)
        outputs = run_pooled(self, &(run_arguments){.inputs = inputs, .options = *options});
    if (inputs != few)
        PyMem_Free(inputs);
    return outputs;
}

static const xcvm_run_options no_limits = {.size = sizeof no_limits};

/* Returns the only item of a list, or a tuple of all. Takes the list. */
PyObject *unwrap_outputs(PyObject *list)
{
    if (list == NULL)
        return NULL;
    PyObject *result;
    if (PyList_Size(list) == 1) {
        result = PyList_GetItem(list, 0);
        Py_XINCREF(result);
    } else {
        result = PyList_AsTuple(list);
    }
    Py_DECREF(list);
    return result;
}

static PyObject *program_call(program_object *self, PyObject *args, PyObject *keywords)
{
    return unwrap_outputs(call_list(self, args, keywords, &no_limits));
}

static PyObject *program_run(program_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"inputs", "timeout", "fuel", NULL};
    PyObject *feeds = NULL, *timeout = NULL;
    uint64_t fuel = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O!$OO&:run", names, &PyDict_Type, &feeds, &timeout,
                                     count_converter, &fuel))
        return NULL;
    xcvm_run_options options = {.size = sizeof options, .fuel = fuel};
    if (timeout_from_object(timeout, &options.timeout_ns) < 0)
        return NULL;
    return call_list(self, NULL, feeds, &options);
}

/* ---- Properties ---- */

PyObject *parameter_tuple(module_state *state, const xcvm_program *program,
                          const xcvm_value_info *(*at)(const xcvm_program *, size_t), size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *item = parameter_from(state, at(program, i));
        if (item == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *program_inputs(program_object *self, void *closure)
{
    (void)closure;
    return parameter_tuple(self->state, self->program, xcvm_program_input_at, xcvm_program_input_count(self->program));
}

static PyObject *program_outputs(program_object *self, void *closure)
{
    (void)closure;
    return parameter_tuple(self->state, self->program, xcvm_program_output_at,
                           xcvm_program_output_count(self->program));
}

static PyObject *program_states(program_object *self, void *closure)
{
    (void)closure;
    return parameter_tuple(self->state, self->program, xcvm_program_state_at, xcvm_program_state_count(self->program));
}

static PyObject *program_info(program_object *self, void *closure)
{
    (void)closure;
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(self->program, &info);
    return Py_BuildValue("{sIszsnsnsnsnsnsz}", "format", info.format, "producer", info.producer, "instructions",
                         (Py_ssize_t)info.instruction_count, "registers", (Py_ssize_t)info.register_count, "constants",
                         (Py_ssize_t)info.constant_count, "constant_bytes", (Py_ssize_t)info.constant_bytes,
                         "arena_bytes", (Py_ssize_t)info.arena_bytes, "notice", info.notice);
}

static PyObject *program_metadata(program_object *self, PyObject *args)
{
    const char *key;
    if (!PyArg_ParseTuple(args, "s:metadata", &key))
        return NULL;
    const char *text = xcvm_program_metadata(self->program, key);
    if (text == NULL)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* ---- The type ---- */

static PyMethodDef methods[] = {
    {"_run", FUNCTION(program_run), METH_VARARGS | METH_KEYWORDS, "Return the list of outputs of a dict of inputs."},
    {"metadata", FUNCTION(program_metadata), METH_VARARGS, "Return the text of a metadata key, or None."},
    {0},
};

static PyGetSetDef properties[] = {
    {"inputs", (getter)program_inputs, NULL, "Tuple of Parameter: the inputs, in order.", NULL},
    {"outputs", (getter)program_outputs, NULL, "Tuple of Parameter: the outputs, in order.", NULL},
    {"states", (getter)program_states, NULL, "Tuple of Parameter: the states that sessions keep.", NULL},
    {"info", (getter)program_info, NULL, "Dict: facts about the program.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A loaded program."},
    {Py_tp_new, SLOT(program_new)},
    {Py_tp_dealloc, SLOT(program_dealloc)},
    {Py_tp_traverse, SLOT(program_traverse)},
    {Py_tp_call, SLOT(program_call)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec program_spec = {.name = "xcvm._run.Program",
                            .basicsize = sizeof(program_object),
                            .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                            .slots = slots};
