/* Backward passes, gradients and hooks. */
#include "tape_module.h"

#include <string.h>

static PyObject *run_backward(tape_object *self, xcvm_var root, const xcvm_backward_options *options)
{
    xcvm_error error;
    if (!tape_enter(self))
        return NULL;
    tape_compute_begin(self);
    const xcvm_status status = xcvm_tape_backward(self->tape, root, options, &error);
    tape_compute_end(self);
    tape_leave(self);
    if (status != XCVM_OK || self->failure[0] != NULL)
        return tape_raise(self, &error);
    Py_RETURN_NONE;
}

PyObject *tape_backward(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"root", "seed", "retain_graph", "create_graph", NULL};
    PyObject *root_object, *seed = Py_None;
    int retain = 0, create = 0;
    xcvm_var root;
    xcvm_backward_options options = {.size = sizeof options};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|Opp:backward", names, &root_object, &seed, &retain, &create) ||
        variable_read(self, root_object, false, "root", &root) < 0 ||
        variable_read(self, seed, true, "seed", &options.seed) < 0)
        return NULL;
    options.retain_graph = retain != 0;
    options.create_graph = create != 0;
    return run_backward(self, root, &options);
}

PyObject *tape_gradients(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"roots", "wrt", "seeds", "retain_graph", "create_graph", NULL};
    PyObject *roots_object, *wrt_object, *seeds_object = Py_None, *tuple = NULL;
    int retain = 0, create = 0;
    variable_list roots = {0}, wrt = {0}, seeds = {0};
    xcvm_var *gradients = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|Opp:gradients", names, &roots_object, &wrt_object,
                                     &seeds_object, &retain, &create))
        return NULL;
    if (variable_list_read(self, roots_object, false, "roots", &roots) == 0 &&
        variable_list_read(self, wrt_object, false, "wrt", &wrt) == 0 &&
        (seeds_object == Py_None || variable_list_read(self, seeds_object, true, "seeds", &seeds) == 0)) {
        gradients = PyMem_Calloc(wrt.count + 1, sizeof *gradients);
        if (gradients == NULL)
            PyErr_NoMemory();
        else if (seeds_object != Py_None && seeds.count != roots.count)
            PyErr_Format(PyExc_ValueError, "%zu seeds were given for %zu roots", seeds.count, roots.count);
        else if (tape_enter(self)) {
            const xcvm_backward_options options = {
                .size = sizeof options, .retain_graph = retain != 0, .create_graph = create != 0};
            xcvm_error error;
            tape_compute_begin(self);
            const xcvm_status status =
                xcvm_tape_gradients(self->tape, roots.count, roots.at, seeds_object != Py_None ? seeds.at : NULL,
                                    wrt.count, wrt.at, &options, gradients, &error);
            tape_compute_end(self);
            tuple = status == XCVM_OK && self->failure[0] == NULL
                        ? variable_tuple(self, gradients, wrt.count, VARIABLE_RESULT)
                        : tape_raise(self, &error);
            tape_leave(self);
        }
    }
    variable_list_release(&roots);
    variable_list_release(&wrt);
    variable_list_release(&seeds);
    PyMem_Free(gradients);
    return tuple;
}

/* ---- Gradients of variables ---- */

/* The object shares the elements, and stays when the gradient is cleared. The gradient of a recorded backward pass can
 * be differentiated. */
PyObject *variable_gradient(variable_object *self, void *closure)
{
    (void)closure;
    tape_object *tape = self->tape;
    if (!tape_enter(tape))
        return NULL;
    const xcvm_var gradient = xcvm_var_get_gradient(tape->tape, self->v);
    PyObject *object = NULL;
    if (gradient.at == NULL) {
        if (tape_check(tape) == 0) {
            object = Py_None;
            Py_INCREF(object);
        }
    } else {
        const bool whole = tape->mode == XCVM_TAPE_BUILDING || xcvm_var_requires_gradient(tape->tape, gradient);
        object =
            variable_create(tape, whole ? xcvm_Identity(tape->tape, gradient) : xcvm_var_detach(tape->tape, gradient),
                            whole ? VARIABLE_RESULT : VARIABLE_CONSTANT, NULL);
    }
    tape_leave(tape);
    return object;
}

PyObject *variable_gradient_rows(variable_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_var pair[2];
    xcvm_error error;
    if (!tape_enter(self->tape))
        return NULL;
    const xcvm_status status = xcvm_var_get_gradient_rows(self->tape->tape, self->v, &pair[0], &pair[1], &error);
    PyObject *tuple =
        status == XCVM_OK ? variable_tuple(self->tape, pair, 2, VARIABLE_CONSTANT) : tape_raise(self->tape, &error);
    tape_leave(self->tape);
    return tuple;
}

/* ---- Hooks ---- */

static xcvm_var call_hook(void *user, xcvm_tape *tape, xcvm_var gradient)
{
    (void)tape;
    tape_callback *hook = user;
    tape_object *self = hook->tape;
    xcvm_var replacement = XCVM_ABSENT;
    if (hook->callable == NULL)
        return replacement;
    const bool released = tape_callback_begin(self);
    PyObject *object = variable_create(self, gradient, VARIABLE_LENT, NULL);
    PyObject *returned = object != NULL ? PyObject_CallFunctionObjArgs(hook->callable, object, NULL) : NULL;
    if (returned == NULL || variable_read(self, returned, true, "the result of the hook", &replacement) < 0 ||
        (returned != Py_None && tape_lend(self, returned) < 0)) {
        tape_fail_by_exception(self);
        replacement = (xcvm_var){NULL, 1};
    }
    Py_XDECREF(returned);
    Py_XDECREF(object);
    tape_callback_end(self, released);
    return replacement;
}

PyObject *variable_add_hook(variable_object *self, PyObject *callable)
{
    xcvm_error error;
    if (!tape_begin(self->tape))
        return NULL;
    tape_callback *hook = tape_add_callback(self->tape, callable);
    if (hook == NULL)
        return NULL;
    if (xcvm_var_add_hook(self->tape->tape, self->v, (xcvm_gradient_hook){call_hook, hook}, &error) != XCVM_OK)
        return tape_raise(self->tape, &error);
    Py_RETURN_NONE;
}
