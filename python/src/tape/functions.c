/* Derivatives of Python functions, and losses that are functions of the library. */
#include "tape_module.h"

#include <string.h>

/* ---- Functions ---- */

typedef struct function_frame {
    tape_object *tape;
    PyObject *function;
} function_frame;

static xcvm_var call_function(void *user, xcvm_tape *tape, size_t count, const xcvm_var *xs)
{
    (void)tape;
    function_frame *f = user;
    tape_object *self = f->tape;
    xcvm_var v = {NULL, 1};
    const bool released = tape_callback_begin(self);
    PyObject *args = self->failure[0] == NULL ? variable_tuple(self, xs, count, VARIABLE_LENT) : NULL;
    PyObject *returned = args != NULL ? PyObject_CallObject(f->function, args) : NULL;
    if (returned == NULL || variable_read(self, returned, false, "the result of the function", &v) < 0 ||
        tape_lend(self, returned) < 0) {
        tape_fail_by_exception(self);
        v = (xcvm_var){NULL, 1};
    }
    Py_XDECREF(returned);
    Py_XDECREF(args);
    tape_callback_end(self, released);
    return v;
}

static int read_function(tape_object *self, PyObject *function, function_frame *f)
{
    *f = (function_frame){self, function};
    if (PyCallable_Check(function))
        return 0;
    PyErr_Format(PyExc_TypeError, "function: an object of type %R is not callable", Py_TYPE(function));
    return -1;
}

/* Makes objects of results while what the function returned is still there. */
static PyObject *leave_with(tape_object *self, xcvm_status status, const xcvm_error *error, const xcvm_var *results,
                            size_t count)
{
    PyObject *tuple =
        status == XCVM_OK ? variable_tuple(self, results, count, VARIABLE_RETURNED) : tape_raise(self, error);
    tape_leave(self);
    return tuple;
}

/* (value, (gradients...)) of a tuple (value, gradients...). Takes the tuple, which may be NULL. */
static PyObject *split_value(PyObject *tuple)
{
    if (tuple == NULL)
        return NULL;
    PyObject *rest = PyTuple_GetSlice(tuple, 1, PyTuple_Size(tuple));
    PyObject *pair = rest != NULL ? PyTuple_Pack(2, PyTuple_GetItem(tuple, 0), rest) : NULL;
    Py_XDECREF(rest);
    Py_DECREF(tuple);
    return pair;
}

PyObject *tape_vjp(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function", "xs", "seed", NULL};
    PyObject *function, *xs_object, *seed_object = Py_None, *tuple = NULL;
    function_frame f;
    variable_list xs = {0};
    xcvm_var seed;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:vjp", names, &function, &xs_object, &seed_object) ||
        read_function(self, function, &f) < 0 || variable_read(self, seed_object, true, "seed", &seed) < 0)
        return NULL;
    if (variable_list_read(self, xs_object, false, "xs", &xs) == 0 && tape_enter(self)) {
        xcvm_var *results = PyMem_Calloc(xs.count + 1, sizeof *results);
        xcvm_error error = {.status = XCVM_OUT_OF_MEMORY};
        const xcvm_status status =
            results != NULL ? xcvm_tape_vector_jacobian_product(self->tape, (xcvm_tape_function){call_function, &f},
                                                                xs.count, xs.at, seed, &results[0], &results[1], &error)
                            : XCVM_OUT_OF_MEMORY;
        tuple = split_value(leave_with(self, status, &error, results, xs.count + 1));
        PyMem_Free(results);
    }
    variable_list_release(&xs);
    return tuple;
}

PyObject *tape_jvp(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function", "xs", "directions", NULL};
    PyObject *function, *xs_object, *directions_object, *tuple = NULL;
    function_frame f;
    variable_list xs = {0}, directions = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:jvp", names, &function, &xs_object, &directions_object) ||
        read_function(self, function, &f) < 0)
        return NULL;
    if (variable_list_read(self, xs_object, false, "xs", &xs) == 0 &&
        variable_list_read(self, directions_object, true, "directions", &directions) == 0) {
        if (xs.count != directions.count) {
            PyErr_Format(PyExc_ValueError, "%zu directions were given for %zu variables", directions.count, xs.count);
        } else if (tape_enter(self)) {
            xcvm_var results[2] = {XCVM_ABSENT, XCVM_ABSENT};
            xcvm_error error;
            const xcvm_status status =
                xcvm_tape_jacobian_vector_product(self->tape, (xcvm_tape_function){call_function, &f}, xs.count, xs.at,
                                                  directions.at, &results[0], &results[1], &error);
            tuple = leave_with(self, status, &error, results, 2);
        }
    }
    variable_list_release(&xs);
    variable_list_release(&directions);
    return tuple;
}

static PyObject *only(PyObject *tuple)
{
    PyObject *item = tuple != NULL ? PyTuple_GetItem(tuple, 0) : NULL;
    Py_XINCREF(item);
    Py_XDECREF(tuple);
    return item;
}

PyObject *tape_hvp(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function", "x", "vector", NULL};
    PyObject *function, *x_object, *vector_object;
    function_frame f;
    xcvm_var x, vector, product = XCVM_ABSENT;
    xcvm_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:hvp", names, &function, &x_object, &vector_object) ||
        read_function(self, function, &f) < 0 || variable_read(self, x_object, false, "x", &x) < 0 ||
        variable_read(self, vector_object, false, "vector", &vector) < 0 || !tape_enter(self))
        return NULL;
    const xcvm_status status = xcvm_tape_hessian_vector_product(self->tape, (xcvm_tape_function){call_function, &f}, x,
                                                                vector, &product, &error);
    return only(leave_with(self, status, &error, &product, 1));
}

PyObject *tape_jacobian(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function", "x", NULL};
    PyObject *function, *x_object;
    function_frame f;
    xcvm_var x, jacobian = XCVM_ABSENT;
    xcvm_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:jacobian", names, &function, &x_object) ||
        read_function(self, function, &f) < 0 || variable_read(self, x_object, false, "x", &x) < 0 || !tape_enter(self))
        return NULL;
    const xcvm_status status =
        xcvm_tape_jacobian(self->tape, (xcvm_tape_function){call_function, &f}, x, &jacobian, &error);
    return only(leave_with(self, status, &error, &jacobian, 1));
}

PyObject *tape_check_gradients(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"function", "xs", "order", "step", "rtol", "atol", "seed", NULL};
    PyObject *function, *xs_object, *result = NULL;
    unsigned long long seed = 0;
    xcvm_gradient_check_options options = {.size = sizeof options, .order = 1};
    function_frame f;
    variable_list xs = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|idddK:check_gradients", names, &function, &xs_object,
                                     &options.order, &options.step, &options.rtol, &options.atol, &seed) ||
        read_function(self, function, &f) < 0)
        return NULL;
    options.seed = seed;
    if (variable_list_read(self, xs_object, false, "xs", &xs) == 0 && tape_enter(self)) {
        xcvm_error error;
        const xcvm_status status = xcvm_tape_check_gradients(self->tape, (xcvm_tape_function){call_function, &f},
                                                             xs.count, xs.at, &options, &error);
        result = status == XCVM_OK ? Py_None : tape_raise(self, &error);
        Py_XINCREF(result);
        tape_leave(self);
    }
    variable_list_release(&xs);
    return result;
}

/* ---- Losses ---- */

static PyObject *leave_with_result(tape_object *self, xcvm_var v)
{
    PyObject *object = variable_create(self, v, VARIABLE_RESULT, NULL);
    tape_leave(self);
    return object;
}

/* Reads two variables and a number, as far as the format has them. */
static int read_pair(tape_object *self, PyObject *args, const char *format, bool second, xcvm_var vs[2], double *number)
{
    PyObject *objects[2] = {NULL, NULL};
    if (second ? !PyArg_ParseTuple(args, format, &objects[0], &objects[1], number)
               : !PyArg_ParseTuple(args, format, &objects[0], number))
        return -1;
    if (variable_read(self, objects[0], false, "first argument", &vs[0]) < 0 ||
        (second && variable_read(self, objects[1], false, "second argument", &vs[1]) < 0))
        return -1;
    return tape_enter(self) ? 0 : -1;
}

PyObject *tape_pick_neg_log_softmax(tape_object *self, PyObject *args)
{
    xcvm_var vs[2];
    double unused = 0;
    if (read_pair(self, args, "OO|d:pick_neg_log_softmax", true, vs, &unused) < 0)
        return NULL;
    return leave_with_result(self, xcvm_tape_pick_neg_log_softmax(self->tape, vs[0], vs[1]));
}

PyObject *tape_hinge(tape_object *self, PyObject *args)
{
    xcvm_var vs[2];
    double margin = 1;
    if (read_pair(self, args, "OO|d:hinge", true, vs, &margin) < 0)
        return NULL;
    return leave_with_result(self, xcvm_tape_hinge(self->tape, vs[0], vs[1], margin));
}

PyObject *tape_scale_gradient(tape_object *self, PyObject *args)
{
    xcvm_var vs[2];
    double scale = 1;
    if (read_pair(self, args, "Od:scale_gradient", false, vs, &scale) < 0)
        return NULL;
    return leave_with_result(self, xcvm_tape_scale_gradient(self->tape, vs[0], scale));
}

PyObject *tape_affine_transform(tape_object *self, PyObject *args)
{
    PyObject *terms, *result = NULL;
    variable_list list = {0};
    if (!PyArg_ParseTuple(args, "O:affine_transform", &terms))
        return NULL;
    if (variable_list_read(self, terms, false, "terms", &list) == 0 && tape_enter(self))
        result = leave_with_result(self, xcvm_tape_affine_transform(self->tape, list.count, list.at));
    variable_list_release(&list);
    return result;
}
