/* xcvm._tape.Tape: a tape, the thread that it belongs to, and what its callbacks leave. */
#include "tape_module.h"

#include <string.h>

bool is_tape(const tape_state *state, PyObject *object) { return PyObject_TypeCheck(object, state->tape_type); }

/* ---- Delayed releases ---- */

struct release_list {
    release_list *next;
    release_kind kind;
    xcvm_var v;
    void *object;
};

static void release_now(tape_object *self, release_kind kind, xcvm_var v, void *object)
{
    switch (kind) {
    case RELEASE_VARIABLE:
        xcvm_var_release(self->tape, v);
        break;
    case RELEASE_LAYER:
        xcvm_layer_destroy(object);
        break;
    case RELEASE_OPTIMIZER:
        xcvm_optimizer_destroy(object);
        break;
    case RELEASE_STATIC:
        xcvm_static_destroy(object);
        break;
    }
}

static void release_delayed(tape_object *self)
{
    release_list *next;
    for (release_list *first = self->releases; first != NULL; first = next) {
        next = first->next;
        release_now(self, first->kind, first->v, first->object);
        PyMem_Free(first);
    }
    self->releases = NULL;
}

void tape_release(tape_object *self, release_kind kind, xcvm_var v, void *object)
{
    const bool own_thread = self->thread == PyThread_get_thread_ident();
    if (own_thread && (self->depth == 0 || kind == RELEASE_VARIABLE || kind == RELEASE_LAYER)) {
        release_now(self, kind, v, object);
        return;
    }
    release_list *delayed = PyMem_Malloc(sizeof *delayed);
    if (delayed == NULL)
        return; /* the end of the tape releases it */
    *delayed = (release_list){self->releases, kind, v, object};
    self->releases = delayed;
}

/* ---- Entering and leaving ---- */

bool tape_begin(tape_object *self)
{
    if (self->thread != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "the tape belongs to another thread");
        return false;
    }
    if (self->releases != NULL && self->depth == 0)
        release_delayed(self);
    return true;
}

bool tape_enter(tape_object *self)
{
    if (!tape_begin(self))
        return false;
    if (self->depth++ == 0 && self->mode == XCVM_TAPE_EAGER)
        self->scope = xcvm_tape_scope_begin(self->tape);
    return true;
}

void tape_leave(tape_object *self)
{
    if (--self->depth > 0)
        return;
    if (self->mode == XCVM_TAPE_EAGER)
        xcvm_tape_scope_end(self->tape, self->scope, 0, NULL);
    if (self->lent != NULL) {
        PyObject *type, *value, *traceback, *lent = self->lent;
        PyErr_Fetch(&type, &value, &traceback);
        self->lent = NULL;
        Py_DECREF(lent);
        PyErr_Restore(type, value, traceback);
    }
}

void tape_compute_begin(tape_object *self)
{
    if (self->computations++ == 0) {
        const capi *api = self->state->api;
        __atomic_store_n(&self->cancelled, 0, __ATOMIC_RELAXED);
        self->armed = api->interrupt_raises(api->state);
        if (self->armed)
            api->interrupt_begin(&self->interruption, &self->cancelled);
    }
    self->released = PyEval_SaveThread();
}

void tape_compute_end(tape_object *self)
{
    PyThreadState *thread = self->released;
    self->released = NULL;
    PyEval_RestoreThread(thread);
    if (--self->computations > 0)
        return;
    if (self->armed)
        self->state->api->interrupt_end(&self->interruption);
    if (__atomic_exchange_n(&self->cancelled, 0, __ATOMIC_RELAXED) == 0 || PyErr_CheckSignals() == 0)
        return;
    if (self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else
        PyErr_Clear();
}

bool tape_callback_begin(tape_object *self)
{
    PyThreadState *thread = self->released;
    self->released = NULL;
    if (thread != NULL)
        PyEval_RestoreThread(thread);
    return thread != NULL;
}

void tape_callback_end(tape_object *self, bool released)
{
    if (released)
        self->released = PyEval_SaveThread();
}

int tape_lend(tape_object *self, PyObject *object)
{
    if (self->lent == NULL)
        self->lent = PyList_New(0);
    return self->lent != NULL ? PyList_Append(self->lent, object) : -1;
}

int tape_keep(tape_object *self, PyObject *object)
{
    if (self->kept == NULL)
        self->kept = PyList_New(0);
    return self->kept != NULL ? PyList_Append(self->kept, object) : -1;
}

PyObject *tape_find_lent(const tape_object *self, xcvm_var v)
{
    for (Py_ssize_t i = self->lent != NULL ? PyList_Size(self->lent) : 0; i-- > 0;) {
        PyObject *object = PyList_GetItem(self->lent, i);
        if (is_variable(self->state, object) && ((variable_object *)object)->owned &&
            ((variable_object *)object)->v.at == v.at && ((variable_object *)object)->v.serial == v.serial)
            return object;
    }
    return NULL;
}

/* ---- Failures ---- */

PyObject *tape_raise(tape_object *self, const xcvm_error *error)
{
    if (self->failure[0] == NULL)
        return PyErr_Occurred() == NULL ? self->state->api->raise_error(error) : NULL;
    PyErr_Clear();
    PyErr_Restore(self->failure[0], self->failure[1], self->failure[2]);
    memset(self->failure, 0, sizeof self->failure);
    return NULL;
}

int tape_check(tape_object *self)
{
    xcvm_error error;
    if (xcvm_tape_status(self->tape, &error) == XCVM_OK && self->failure[0] == NULL)
        return 0;
    tape_raise(self, &error);
    return -1;
}

void tape_fail_by_exception(tape_object *self)
{
    if (self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else
        PyErr_Clear();
    /* A failed handle makes the tape fail, as the result of the callback would. */
    (void)xcvm_var_requires_gradient(self->tape, (xcvm_var){NULL, 1});
}

tape_callback *tape_add_callback(tape_object *self, PyObject *callable)
{
    if (!PyCallable_Check(callable)) {
        PyErr_Format(PyExc_TypeError, "an object of type %R is not callable", Py_TYPE(callable));
        return NULL;
    }
    tape_callback *created = PyMem_Malloc(sizeof *created);
    if (created == NULL)
        return (tape_callback *)PyErr_NoMemory();
    Py_INCREF(callable);
    *created = (tape_callback){self->callbacks, self, callable};
    self->callbacks = created;
    return created;
}

/* ---- Options ---- */

static bool print_text(void *user, const char *text)
{
    tape_object *self = user;
    const bool released = tape_callback_begin(self);
    PyObject *string = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *result = string != NULL ? PyObject_CallFunctionObjArgs(self->print, string, NULL) : NULL;
    Py_XDECREF(string);
    Py_XDECREF(result);
    if (result == NULL && self->failure[0] == NULL)
        PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
    else if (result == NULL)
        PyErr_Clear();
    tape_callback_end(self, released);
    return result != NULL;
}

/* Stores the values that a host function returned. */
static int store_outputs(const capi *api, PyObject *result, size_t count, xcvm_value **outputs)
{
    PyObject *list = PyTuple_Check(result) || PyList_Check(result) ? PySequence_List(result) : PyList_New(0);
    if (list != NULL && !PyTuple_Check(result) && !PyList_Check(result) && PyList_Append(list, result) < 0)
        Py_CLEAR(list);
    if (list != NULL && (size_t)PyList_Size(list) != count) {
        PyErr_Format(PyExc_ValueError, "the function returned %zd values, not %zu", PyList_Size(list), count);
        Py_CLEAR(list);
    }
    size_t stored = 0;
    for (; list != NULL && stored < count; stored++) {
        outputs[stored] = api->value_from_object(api->state, PyList_GetItem(list, (Py_ssize_t)stored), NULL, NULL);
        if (outputs[stored] == NULL)
            break;
    }
    Py_XDECREF(list);
    if (list != NULL && stored == count)
        return 0;
    while (stored-- > 0) {
        xcvm_value_release(outputs[stored]);
        outputs[stored] = NULL;
    }
    return -1;
}

static xcvm_status call_host_function(void *user, size_t input_count, const xcvm_value *const *inputs,
                                      size_t output_count, xcvm_value **outputs, xcvm_error *error)
{
    tape_callback *callback = user;
    tape_object *self = callback->tape;
    const capi *api = self->state->api;
    const bool released = tape_callback_begin(self);
    PyObject *args = PyTuple_New((Py_ssize_t)input_count);
    for (size_t i = 0; args != NULL && i < input_count; i++) {
        PyObject *input = api->object_from_value(api->state, inputs[i]);
        if (input == NULL || PyTuple_SetItem(args, (Py_ssize_t)i, input) < 0)
            Py_CLEAR(args);
    }
    PyObject *result = args != NULL ? PyObject_CallObject(callback->callable, args) : NULL;
    const int stored = result != NULL ? store_outputs(api, result, output_count, outputs) : -1;
    Py_XDECREF(args);
    Py_XDECREF(result);
    xcvm_status status = XCVM_OK;
    if (stored != 0) {
        status = api->error_from_exception(error, "host function");
        if (self->failure[0] == NULL)
            PyErr_Fetch(&self->failure[0], &self->failure[1], &self->failure[2]);
        else
            PyErr_Clear();
    }
    tape_callback_end(self, released);
    return status;
}

static int read_functions(tape_object *self, PyObject *functions, xcvm_tape_options *options)
{
    if (!PyDict_Check(functions)) {
        PyErr_SetString(PyExc_TypeError, "functions is a dict of names and functions");
        return -1;
    }
    self->functions = PyDict_Copy(functions); /* keeps the names */
    const size_t count = self->functions != NULL ? (size_t)PyDict_Size(self->functions) : 0;
    self->function_table = PyMem_Calloc(count + 1, sizeof *self->function_table);
    PyObject *name, *callable;
    Py_ssize_t position = 0;
    for (size_t i = 0; self->function_table != NULL && PyDict_Next(self->functions, &position, &name, &callable); i++) {
        const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        tape_callback *callback = text != NULL ? tape_add_callback(self, callable) : NULL;
        if (callback == NULL) {
            if (PyErr_Occurred() == NULL)
                PyErr_SetString(PyExc_TypeError, "functions is a dict of names and functions");
            return -1;
        }
        self->function_table[i] = (xcvm_host_function){text, call_host_function, callback};
    }
    options->functions = self->function_table;
    options->function_count = count;
    return self->function_table != NULL ? 0 : -1;
}

static int read_mode(const char *mode, const char *batching, xcvm_tape_options *options)
{
    static const char *const modes[] = {"eager", "building", "lazy", "batched"};
    static const char *const strategies[] = {"none", "agenda", "depth", "timed"};
    for (int i = 0; i < (int)COUNT_OF(modes); i++)
        if (strcmp(mode, modes[i]) == 0) {
            options->mode = i < 3 ? (xcvm_tape_mode)i : XCVM_TAPE_LAZY;
            options->batching = i < 3 ? XCVM_BATCHING_NONE : XCVM_BATCHING_AGENDA;
            if (batching == NULL)
                return 0;
            for (int k = 0; k < (int)COUNT_OF(strategies); k++)
                if (strcmp(batching, strategies[k]) == 0) {
                    options->batching = (xcvm_batching)k;
                    return 0;
                }
            PyErr_Format(PyExc_ValueError, "batching is none, agenda, depth or timed, not '%s'", batching);
            return -1;
        }
    PyErr_Format(PyExc_ValueError, "mode is eager, lazy, batched or building, not '%s'", mode);
    return -1;
}

/* ---- Life ---- */

/* Classes of Python that derive from Tape belong to no module. */
static tape_state *state_of(PyTypeObject *type)
{
    for (; type != NULL; type = PyType_GetSlot(type, Py_tp_base)) {
        tape_state *state = (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) != 0 ? PyType_GetModuleState(type) : NULL;
        if (state != NULL)
            return state;
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_TypeError, "the type does not derive from Tape");
    return NULL;
}

static PyObject *tape_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"mode",     "threads", "memory_limit", "seed",          "check_nan",
                            "batching", "print",   "functions",    "variable_type", NULL};
    const char *mode = "eager", *batching = NULL;
    int threads = 0, check_nan = 0;
    Py_ssize_t memory_limit = 0;
    unsigned long long seed = 0;
    PyObject *print = Py_None, *functions = Py_None, *variable_type = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|s$inKpzOOO:Tape", names, &mode, &threads, &memory_limit, &seed,
                                     &check_nan, &batching, &print, &functions, &variable_type))
        return NULL;
    tape_state *state = state_of(type);
    if (state == NULL)
        return NULL;
    xcvm_tape_options options = {.size = sizeof options,
                                 .threads = threads,
                                 .memory_limit = memory_limit > 0 ? (size_t)memory_limit : 0,
                                 .seed = seed,
                                 .check_nan = check_nan != 0};
    if (read_mode(mode, batching, &options) < 0)
        return NULL;
    if (memory_limit < 0 || (print != Py_None && !PyCallable_Check(print))) {
        PyErr_SetString(PyExc_ValueError, memory_limit < 0 ? "memory_limit is negative" : "print is not callable");
        return NULL;
    }
    if (variable_type != Py_None &&
        (!PyType_Check(variable_type) || !PyType_IsSubtype((PyTypeObject *)variable_type, state->variable_type))) {
        PyErr_SetString(PyExc_TypeError, "variable_type derives from Variable");
        return NULL;
    }
    tape_object *self = (tape_object *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    self->thread = PyThread_get_thread_ident();
    self->mode = options.mode;
    self->variable_type = variable_type != Py_None ? (PyTypeObject *)variable_type : state->variable_type;
    Py_INCREF(OBJECT(self->variable_type));
    if (print != Py_None) {
        Py_INCREF(print);
        self->print = print;
        options.print = (xcvm_printer){print_text, self};
    }
    options.cancelled = &self->cancelled;
    xcvm_error error;
    if ((functions == Py_None || read_functions(self, functions, &options) == 0) &&
        xcvm_tape_create(&options, &self->tape, &error) != XCVM_OK)
        state->api->raise_error(&error);
    if (self->tape == NULL) {
        Py_DECREF(OBJECT(self));
        return NULL;
    }
    return OBJECT(self);
}

static int tape_traverse(tape_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->variable_type);
    Py_VISIT(self->lent);
    Py_VISIT(self->kept);
    Py_VISIT(self->print);
    Py_VISIT(self->observer);
    Py_VISIT(self->functions);
    for (tape_callback *c = self->callbacks; c != NULL; c = c->next)
        Py_VISIT(c->callable);
    return 0;
}

static int tape_clear(tape_object *self)
{
    /* The library may still call back while others of a cycle die, so functions are only emptied, not freed. */
    Py_CLEAR(self->lent);
    for (tape_callback *c = self->callbacks; c != NULL; c = c->next)
        Py_CLEAR(c->callable);
    return 0;
}

static void tape_dealloc(tape_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    if (self->tape != NULL) {
        release_delayed(self);
        xcvm_tape_destroy(self->tape);
    }
    tape_callback *next;
    for (tape_callback *c = self->callbacks; c != NULL; c = next) {
        next = c->next;
        Py_XDECREF(c->callable);
        PyMem_Free(c);
    }
    PyMem_Free(self->function_table);
    Py_XDECREF(self->lent);
    Py_XDECREF(self->kept);
    Py_XDECREF(self->print);
    Py_XDECREF(self->observer);
    Py_XDECREF(self->functions);
    for (size_t i = 0; i < COUNT_OF(self->failure); i++)
        Py_XDECREF(self->failure[i]);
    Py_XDECREF(OBJECT(self->variable_type));
    object_free(type, self);
    Py_DECREF(type);
}

/* ---- Methods ---- */

static PyObject *finish(tape_object *self)
{
    if (tape_check(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *tape_reset(tape_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_enter(self))
        return NULL;
    xcvm_tape_reset(self->tape);
    tape_leave(self);
    return finish(self);
}

static PyObject *tape_set_recording(tape_object *self, PyObject *object)
{
    const int recording = PyObject_IsTrue(object);
    if (recording < 0 || !tape_begin(self))
        return NULL;
    return PyBool_FromLong(xcvm_tape_set_recording(self->tape, recording != 0));
}

static PyObject *tape_forward(tape_object *self, PyObject *args)
{
    PyObject *object = Py_None;
    xcvm_var v;
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "|O:forward", &object) || variable_read(self, object, true, "variable", &v) < 0 ||
        !tape_enter(self))
        return NULL;
    tape_compute_begin(self);
    const xcvm_status status = xcvm_tape_forward(self->tape, v, &error);
    tape_compute_end(self);
    tape_leave(self);
    if (status != XCVM_OK || self->failure[0] != NULL)
        return tape_raise(self, &error);
    Py_RETURN_NONE;
}

static PyObject *tape_invalidate(tape_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self))
        return NULL;
    xcvm_tape_invalidate(self->tape);
    return finish(self);
}

static PyObject *call_on_tape(tape_object *self, xcvm_status (*function)(xcvm_tape *tape, xcvm_error *error))
{
    xcvm_error error;
    if (!tape_begin(self))
        return NULL;
    if (function(self->tape, &error) != XCVM_OK)
        return tape_raise(self, &error);
    Py_RETURN_NONE;
}

static PyObject *tape_checkpoint(tape_object *self, PyObject *unused)
{
    (void)unused;
    return call_on_tape(self, xcvm_tape_checkpoint);
}

static PyObject *tape_revert(tape_object *self, PyObject *unused)
{
    (void)unused;
    return call_on_tape(self, xcvm_tape_revert);
}

static PyObject *tape_scope_begin(tape_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self))
        return NULL;
    return PyLong_FromUnsignedLongLong(xcvm_tape_scope_begin(self->tape).serial);
}

static PyObject *tape_scope_end(tape_object *self, PyObject *args)
{
    unsigned long long serial;
    PyObject *results = NULL;
    variable_list list = {0};
    if (!PyArg_ParseTuple(args, "K|O:scope_end", &serial, &results) || !tape_begin(self))
        return NULL;
    const bool good = results == NULL || variable_list_read(self, results, true, "results", &list) == 0;
    if (good)
        xcvm_tape_scope_end(self->tape, (xcvm_scope){serial}, list.count, list.at);
    variable_list_release(&list);
    return good ? finish(self) : NULL;
}

static PyObject *tape_mode(tape_object *self, void *closure)
{
    (void)closure;
    static const char *const names[] = {"eager", "building", "lazy"};
    return PyUnicode_FromString(names[self->mode]);
}

#define KEYWORDS (METH_VARARGS | METH_KEYWORDS)
static PyMethodDef methods[] = {
    {"call", FUNCTION(tape_call), METH_FASTCALL | METH_KEYWORDS,
     "call(name, inputs, attributes=None, outputs=None, into=None)\n--\n\nCall an instruction; see INSTRUCTIONS."},
    {"constant", FUNCTION(tape_constant), KEYWORDS, "constant(data, dtype=None)\n--\n\nMake a constant of an array."},
    {"parameter", FUNCTION(tape_parameter), KEYWORDS,
     "parameter(data, dtype=None, name=None)\n--\n\nMake a parameter, which has a gradient, of an array. Parameters of "
     "building tapes may have a name."},
    {"value", FUNCTION(tape_value), METH_O,
     "value(object, /)\n--\n\nMake a constant of any value: Tensor, list (a sequence), None (an empty optional), "
     "dict."},
    {"input", FUNCTION(tape_input), KEYWORDS,
     "input(name, dtype, dims)\n--\n\nAdd an input to the program of a building tape. Names in dims are dynamic sizes, "
     "None is a size of its own."},
    {"compile", FUNCTION(tape_compile), KEYWORDS,
     "compile(outputs, options=None, callbacks=None)\n--\n\nCompile the built graph: (program, data, report). "
     "`outputs` are pairs of name and variable. The option `onnx` makes an ONNX model."},
    {"branch", FUNCTION(tape_branch), KEYWORDS,
     "branch(cond, then, else_, count=None)\n--\n\nCall the function that cond selects; a building tape calls both. "
     "They return a tuple of variables."},
    {"loop", FUNCTION(tape_loop), KEYWORDS,
     "loop(trips, cond, body, states, scans=0)\n--\n\nCall body(iteration, *states) until trips or cond end the loop. "
     "It returns (go_on, states) or (go_on, states, scans); go_on may be None."},
    {"backward", FUNCTION(tape_backward), KEYWORDS,
     "backward(root, seed=None, retain_graph=False, create_graph=False)\n--\n\nAccumulate gradients."},
    {"gradients", FUNCTION(tape_gradients), KEYWORDS,
     "gradients(roots, wrt, seeds=None, retain_graph=False, create_graph=False)\n--\n\nReturn gradients; None is "
     "zero."},
    {"vjp", FUNCTION(tape_vjp), KEYWORDS, "vjp(function, xs, seed=None)\n--\n\nReturn (value, gradients)."},
    {"jvp", FUNCTION(tape_jvp), KEYWORDS, "jvp(function, xs, directions)\n--\n\nReturn (value, change)."},
    {"hvp", FUNCTION(tape_hvp), KEYWORDS, "hvp(function, x, vector)\n--\n\nReturn the Hessian times a vector."},
    {"jacobian", FUNCTION(tape_jacobian), KEYWORDS, "jacobian(function, x)\n--\n\nReturn the Jacobian."},
    {"check_gradients", FUNCTION(tape_check_gradients), KEYWORDS,
     "check_gradients(function, xs, order=1, step=0.0, rtol=0.0, atol=0.0, seed=0)\n--\n\nCompare derivatives with "
     "central differences; raises OutOfRange if they differ."},
    {"operation", FUNCTION(tape_operation), KEYWORDS,
     "operation(name, forward, backward=None)\n--\n\nMake an operation with its own gradient. forward(*inputs) returns "
     "the results; backward(inputs, results, gradients) returns the gradients of the inputs. The tape keeps it."},
    {"static", FUNCTION(tape_static), KEYWORDS,
     "static(function, *, name=None, cache_limit=0, minimize_cache_size=False, force_test_define_by_run=False, "
     "double_backprop=False, optimization=0, verbosity=0, log=None)\n--\n\nMake a function static: later calls run a "
     "compiled program. The function returns a list of variables."},
    {"layer", FUNCTION(tape_layer), KEYWORDS,
     "layer(kind, *sizes, **options)\n--\n\nMake a layer: chain, linear, mlp, convolution, deconvolution, "
     "batch_normalization, layer_normalization, embedding, lstm, gru, dropout."},
    {"optimizer", FUNCTION(tape_optimizer), KEYWORDS,
     "optimizer(text, *, clip_norm=0.0, clip_value=0.0, average=0.0)\n--\n\nMake an optimizer, as \"adam:lr=1e-3\"."},
    {"pick_neg_log_softmax", FUNCTION(tape_pick_neg_log_softmax), METH_VARARGS,
     "pick_neg_log_softmax(scores, target, /)\n--\n\n-log(softmax(scores)[target]) over the last axis."},
    {"affine_transform", FUNCTION(tape_affine_transform), METH_VARARGS,
     "affine_transform(terms, /)\n--\n\nb + W1 x1 + W2 x2 ... of b, W1, x1, ..."},
    {"hinge", FUNCTION(tape_hinge), METH_VARARGS, "hinge(scores, target, margin, /)\n--\n\nHinge loss."},
    {"scale_gradient", FUNCTION(tape_scale_gradient), METH_VARARGS,
     "scale_gradient(x, scale, /)\n--\n\nx, with a gradient that is multiplied by scale."},
    {"reset", FUNCTION(tape_reset), METH_NOARGS,
     "reset()\n--\n\nRelease recorded calls, and variables that are neither parameters nor kept."},
    {"set_recording", FUNCTION(tape_set_recording), METH_O,
     "set_recording(recording, /)\n--\n\nSwitch recording and return the previous setting."},
    {"forward", FUNCTION(tape_forward), METH_VARARGS,
     "forward(variable=None, /)\n--\n\nEvaluate a variable, or all waiting calls, of a lazy tape."},
    {"invalidate", FUNCTION(tape_invalidate), METH_NOARGS, "invalidate()\n--\n\nMake evaluated lazy calls wait again."},
    {"checkpoint", FUNCTION(tape_checkpoint), METH_NOARGS, "checkpoint()\n--\n\nSet a checkpoint."},
    {"revert", FUNCTION(tape_revert), METH_NOARGS, "revert()\n--\n\nRevert to the latest checkpoint."},
    {"scope_begin", FUNCTION(tape_scope_begin), METH_NOARGS,
     "scope_begin()\n--\n\nBegin a scope and return its number."},
    {"scope_end", FUNCTION(tape_scope_end), METH_VARARGS,
     "scope_end(scope, results=(), /)\n--\n\nRelease variables made in a scope except `results` and kept ones."},
    {"info", FUNCTION(tape_info), METH_NOARGS, "info()\n--\n\nReturn counts of calls, variables and bytes."},
    {"memory_info", FUNCTION(tape_memory_info), METH_NOARGS, "memory_info()\n--\n\nReturn bytes by purpose."},
    {"draw", FUNCTION(tape_draw), METH_NOARGS, "draw()\n--\n\nReturn the recorded calls as text for Graphviz."},
    {"set_observer", FUNCTION(tape_set_observer), METH_O,
     "set_observer(function, /)\n--\n\nCall function(name, number, backward, done, ns, live_bytes) before and after "
     "each "
     "call; None removes it. It must not call the tape."},
    {0},
};

static PyGetSetDef properties[] = {
    {"mode", (getter)tape_mode, NULL, "str: eager, lazy or building.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Tape(mode='eager', *, threads=0, memory_limit=0, seed=0, check_nan=False, batching=None, print=None, "
                "functions=None, variable_type=None)\n--\n\nA tape. It belongs to the thread that makes it."},
    {Py_tp_new, SLOT(tape_new)},
    {Py_tp_dealloc, SLOT(tape_dealloc)},
    {Py_tp_traverse, SLOT(tape_traverse)},
    {Py_tp_clear, SLOT(tape_clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec tape_spec = {.name = "xcvm._tape.Tape",
                         .basicsize = sizeof(tape_object),
                         .flags =
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
                         .slots = slots};
