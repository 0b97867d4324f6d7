/* Branches and loops with bodies that are Python functions. */
#include "tape_module.h"

#include <string.h>

/* The variables that a body returned last, as objects. */
typedef struct body_results {
    tape_object *tape;
    PyObject *objects; /* list, or NULL */
} body_results;

/* Reads the variables that a body returned. They live until the outermost function has left. */
static int read_results(body_results *body, PyObject *returned, size_t count, const char *what, xcvm_var *results)
{
    tape_object *tape = body->tape;
    PyObject *single = NULL;
    if (count == 1 && is_variable(tape->state, returned))
        returned = single = PyTuple_Pack(1, returned);
    variable_list list = {0};
    int result = returned != NULL ? variable_list_read(tape, returned, false, what, &list) : -1;
    if (result == 0 && list.count != count) {
        PyErr_Format(PyExc_ValueError, "%s returned %zu variables, not %zu", what, list.count, count);
        result = -1;
    }
    if (result == 0) {
        if (count > 0)
            memcpy(results, list.at, count * sizeof *results);
        PyObject *before = body->objects;
        Py_INCREF(list.sequence);
        body->objects = list.sequence;
        Py_XDECREF(before);
    }
    variable_list_release(&list);
    Py_XDECREF(single);
    return result;
}

/* The object that has the variable of result `index`, or a new one. */
static PyObject *take_result(const body_results *body, size_t index, xcvm_var v)
{
    PyObject *object = body->objects != NULL && index < (size_t)PyList_Size(body->objects)
                           ? PyList_GetItem(body->objects, (Py_ssize_t)index)
                           : NULL;
    if (object != NULL && ((variable_object *)object)->v.at == v.at &&
        ((variable_object *)object)->v.serial == v.serial) {
        Py_INCREF(object);
        return object;
    }
    return variable_create(body->tape, v, VARIABLE_RESULT, NULL);
}

static PyObject *take_results(const body_results *body, size_t first, const xcvm_var *results, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        PyObject *v = take_result(body, first + i, results[i]);
        if (tuple == NULL)
            Py_XDECREF(v);
        else if (v == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, v) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- Branches ---- */

typedef struct branch_frame {
    body_results body;
    PyObject *functions[2];
} branch_frame;

static void call_branch(branch_frame *f, int branch, size_t count, xcvm_var *results)
{
    tape_object *tape = f->body.tape;
    const bool released = tape_callback_begin(tape);
    PyObject *returned = tape->failure[0] == NULL ? PyObject_CallObject(f->functions[branch], NULL) : NULL;
    if (returned == NULL || read_results(&f->body, returned, count, branch == 0 ? "then" : "else_", results) < 0) {
        for (size_t i = 0; i < count; i++)
            results[i] = (xcvm_var){NULL, 1};
        tape_fail_by_exception(tape);
    }
    Py_XDECREF(returned);
    tape_callback_end(tape, released);
}

static void call_then(void *user, xcvm_tape *tape, size_t count, xcvm_var *results)
{
    (void)tape;
    call_branch(user, 0, count, results);
}

static void call_else(void *user, xcvm_tape *tape, size_t count, xcvm_var *results)
{
    (void)tape;
    call_branch(user, 1, count, results);
}

PyObject *tape_branch(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"cond", "then", "else_", "count", NULL};
    PyObject *cond, *then, *otherwise;
    Py_ssize_t count = 1;
    xcvm_var condition;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|n:branch", names, &cond, &then, &otherwise, &count) ||
        variable_read(self, cond, false, "cond", &condition) < 0)
        return NULL;
    if (count < 0 || count > 1 << 16 || !PyCallable_Check(then) || !PyCallable_Check(otherwise)) {
        PyErr_SetString(PyExc_TypeError, "then and else_ are functions, and count is the number of their results");
        return NULL;
    }
    xcvm_var *results = PyMem_Calloc((size_t)count + 1, sizeof *results);
    if (results == NULL)
        return PyErr_NoMemory();
    branch_frame f = {{self, NULL}, {then, otherwise}};
    PyObject *tuple = NULL;
    if (tape_enter(self)) {
        xcvm_tape_if(self->tape, condition, (xcvm_tape_branch){call_then, &f}, (xcvm_tape_branch){call_else, &f},
                     (size_t)count, results);
        tuple = tape_check(self) == 0 ? take_results(&f.body, 0, results, (size_t)count) : NULL;
        tape_leave(self);
    }
    Py_XDECREF(f.body.objects);
    PyMem_Free(results);
    return tuple;
}

/* ---- Loops ---- */

typedef struct loop_frame {
    body_results body;
    PyObject *function;
    PyObject *go_on; /* the condition that the body returned last */
} loop_frame;

/* body(iteration, *states). The objects of the states are those that were passed in or returned, where the variables
 * are the same. */
static PyObject *call_function(loop_frame *f, xcvm_var iteration, size_t count, const xcvm_var *states)
{
    tape_object *tape = f->body.tape;
    PyObject *args = PyTuple_New((Py_ssize_t)count + 1);
    for (size_t i = 0; args != NULL && i < count + 1; i++) {
        PyObject *v = i == 0 ? variable_create(tape, iteration, VARIABLE_RESULT, NULL)
                             : take_result(&f->body, i - 1, states[i - 1]);
        if (v == NULL || PyTuple_SetItem(args, (Py_ssize_t)i, v) < 0)
            Py_CLEAR(args);
    }
    PyObject *returned = args != NULL ? PyObject_CallObject(f->function, args) : NULL;
    Py_XDECREF(args);
    return returned;
}

/* Takes (go_on, states) or (go_on, states, scans) apart. */
static int read_round(loop_frame *f, PyObject *returned, size_t state_count, xcvm_var *states, size_t scan_count,
                      xcvm_var *scans, xcvm_var *go_on)
{
    tape_object *tape = f->body.tape;
    PyObject *said, *next, *rows = NULL;
    if (!PyTuple_Check(returned) || PyTuple_Size(returned) != (scan_count > 0 ? 3 : 2)) {
        PyErr_Format(PyExc_TypeError, "the body of a loop returns (go_on, states%s)", scan_count > 0 ? ", scans" : "");
        return -1;
    }
    said = PyTuple_GetItem(returned, 0);
    next = PyTuple_GetItem(returned, 1);
    if (scan_count > 0)
        rows = PyTuple_GetItem(returned, 2);
    if (variable_read(tape, said, true, "go_on", go_on) < 0)
        return -1;
    Py_INCREF(said);
    Py_XDECREF(f->go_on);
    f->go_on = said;
    PyObject *parts = PySequence_List(next), *more = rows != NULL ? PySequence_List(rows) : NULL;
    xcvm_var *all = PyMem_Calloc(state_count + scan_count + 1, sizeof *all);
    int result = -1;
    if (all == NULL) {
        PyErr_NoMemory();
    } else if (parts != NULL && (rows == NULL || more != NULL)) {
        if ((size_t)PyList_Size(parts) != state_count || (more != NULL && (size_t)PyList_Size(more) != scan_count))
            PyErr_Format(PyExc_ValueError, "the body of a loop returned %zd states and %zd scans, not %zu and %zu",
                         PyList_Size(parts), more != NULL ? PyList_Size(more) : 0, state_count, scan_count);
        else if (more == NULL || PyList_SetSlice(parts, (Py_ssize_t)state_count, (Py_ssize_t)state_count, more) == 0)
            result = read_results(&f->body, parts, state_count + scan_count, "the body of a loop", all);
    }
    if (result == 0) {
        memcpy(states, all, state_count * sizeof *states);
        if (scan_count > 0)
            memcpy(scans, all + state_count, scan_count * sizeof *scans);
    }
    PyMem_Free(all);
    Py_XDECREF(parts);
    Py_XDECREF(more);
    return result;
}

static void call_body(void *user, xcvm_tape *tape, xcvm_var iteration, size_t state_count, xcvm_var *states,
                      size_t scan_count, xcvm_var *scans, xcvm_var *go_on)
{
    (void)tape;
    loop_frame *f = user;
    const bool released = tape_callback_begin(f->body.tape);
    PyObject *returned = f->body.tape->failure[0] == NULL ? call_function(f, iteration, state_count, states) : NULL;
    if (returned == NULL || read_round(f, returned, state_count, states, scan_count, scans, go_on) < 0) {
        *go_on = (xcvm_var){NULL, 1};
        tape_fail_by_exception(f->body.tape);
    }
    Py_XDECREF(returned);
    tape_callback_end(f->body.tape, released);
}

PyObject *tape_loop(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"trips", "cond", "body", "states", "scans", NULL};
    PyObject *trips_object, *cond_object, *function, *states_object, *tuple = NULL;
    Py_ssize_t scan_count = 0;
    xcvm_var trips, cond;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOO|n:loop", names, &trips_object, &cond_object, &function,
                                     &states_object, &scan_count) ||
        variable_read(self, trips_object, true, "trips", &trips) < 0 ||
        variable_read(self, cond_object, true, "cond", &cond) < 0)
        return NULL;
    if (scan_count < 0 || scan_count > 1 << 16 || !PyCallable_Check(function)) {
        PyErr_SetString(PyExc_TypeError, "body is a function, and scans is the number of values to stack");
        return NULL;
    }
    variable_list list = {0};
    xcvm_var *states = NULL;
    if (variable_list_read(self, states_object, false, "states", &list) == 0) {
        states = PyMem_Calloc(list.count + (size_t)scan_count + 1, sizeof *states);
        if (states == NULL)
            PyErr_NoMemory();
    }
    if (states != NULL && tape_enter(self)) {
        loop_frame f = {{self, list.sequence}, function, NULL};
        Py_INCREF(list.sequence);
        memcpy(states, list.at, list.count * sizeof *states);
        xcvm_tape_loop(self->tape, trips, cond, (xcvm_tape_loop_body){call_body, &f}, list.count, states,
                       (size_t)scan_count, states + list.count);
        if (tape_check(self) == 0)
            tuple = take_results(&f.body, 0, states, list.count + (size_t)scan_count);
        Py_XDECREF(f.body.objects);
        Py_XDECREF(f.go_on);
        tape_leave(self);
    }
    variable_list_release(&list);
    PyMem_Free(states);
    return tuple;
}
