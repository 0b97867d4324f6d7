/* xcvm._tape.Variable: a handle of a tape's variable. The object's end releases the handle. */
#include "tape_module.h"

#include <structmember.h>

bool is_variable(const tape_state *state, PyObject *object) { return PyObject_TypeCheck(object, state->variable_type); }

/* ---- Creation ---- */

/* Kept variables outlive backward passes and scopes. Constants of a lazy tape are not kept, since a kept matrix counts
 * as a weight for batching; a building tape has no elements to keep. */
static void keep_variable(tape_object *tape, xcvm_var v, variable_ownership ownership)
{
    if (tape->mode == XCVM_TAPE_EAGER || (tape->mode == XCVM_TAPE_LAZY && ownership <= VARIABLE_RETURNED))
        (void)xcvm_var_keep(tape->tape, v);
}

PyObject *variable_create(tape_object *tape, xcvm_var v, variable_ownership ownership, PyObject *owner)
{
    PyObject *same = ownership == VARIABLE_RETURNED ? tape_find_lent(tape, v) : NULL;
    if (same != NULL) {
        Py_INCREF(same);
        return same;
    }
    if (v.at == NULL) {
        if (tape_check(tape) == 0)
            PyErr_SetString(PyExc_RuntimeError, "a variable is absent");
        return NULL;
    }
    variable_object *self = (variable_object *)PyType_GenericAlloc(tape->variable_type, 0);
    if (self == NULL) {
        if (ownership != VARIABLE_LENT)
            xcvm_var_release(tape->tape, v);
        return NULL;
    }
    if (ownership <= VARIABLE_CONSTANT)
        keep_variable(tape, v, ownership);
    Py_INCREF(OBJECT(tape));
    self->tape = tape;
    self->v = v;
    self->owned = ownership != VARIABLE_LENT;
    Py_XINCREF(owner);
    self->owner = owner;
    return OBJECT(self);
}

PyObject *variable_or_none(tape_object *tape, xcvm_var v, variable_ownership ownership)
{
    if (v.at == NULL && v.serial == 0)
        Py_RETURN_NONE;
    return variable_create(tape, v, ownership, NULL);
}

/* The object of the same variable among earlier items of a tuple. New reference, or NULL. */
static PyObject *find_same(PyObject *tuple, const xcvm_var *vs, size_t count)
{
    for (size_t i = 0; i < count && vs[count].at != NULL; i++)
        if (vs[i].at == vs[count].at && vs[i].serial == vs[count].serial) {
            PyObject *same = PyTuple_GetItem(tuple, (Py_ssize_t)i);
            Py_XINCREF(same);
            return same;
        }
    return NULL;
}

PyObject *variable_tuple(tape_object *tape, const xcvm_var *vs, size_t count, variable_ownership ownership)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count; i++) {
        /* Each has one owner, whatever happens. */
        PyObject *v = tuple != NULL && ownership != VARIABLE_LENT ? find_same(tuple, vs, i) : NULL;
        if (v == NULL)
            v = variable_or_none(tape, vs[i], ownership);
        if (tuple == NULL)
            Py_XDECREF(v);
        else if (v == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, v) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- Reading ---- */

/* Raises an exception whose message begins with `what`, unless it is NULL. Returns -1. */
static int raise_wrong(PyObject *exception, const char *what, const char *text, PyObject *type)
{
    PyErr_Format(exception, type != NULL ? "%s%s%s%s %R" : "%s%s%s%s", what != NULL ? "'" : "",
                 what != NULL ? what : "", what != NULL ? "': " : "", text, type);
    return -1;
}

int variable_read(tape_object *tape, PyObject *object, bool optional, const char *what, xcvm_var *v)
{
    if (object == Py_None && optional) {
        *v = XCVM_ABSENT;
        return 0;
    }
    if (!is_variable(tape->state, object))
        return raise_wrong(PyExc_TypeError, what,
                           optional ? "a variable of the tape or None was expected, not an object of type"
                                    : "a variable of the tape was expected, not an object of type",
                           OBJECT(Py_TYPE(object)));
    const variable_object *variable = (variable_object *)object;
    if (variable->tape != tape)
        return raise_wrong(PyExc_ValueError, what, "the variable belongs to another tape", NULL);
    *v = variable->v;
    return 0;
}

int variable_list_read(tape_object *tape, PyObject *object, bool optional, const char *what, variable_list *list)
{
    *list = (variable_list){0};
    if (is_variable(tape->state, object)) {
        PyErr_Format(PyExc_TypeError, "'%s' is a list of variables, not one variable", what);
        return -1;
    }
    list->sequence = PySequence_List(object);
    if (list->sequence == NULL)
        return -1;
    list->count = (size_t)PyList_Size(list->sequence);
    list->at = PyMem_Calloc(list->count + 1, sizeof *list->at);
    if (list->at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < list->count; i++)
        if (variable_read(tape, PyList_GetItem(list->sequence, (Py_ssize_t)i), optional, what, &list->at[i]) < 0)
            return -1;
    return 0;
}

void variable_list_release(variable_list *list)
{
    PyMem_Free(list->at);
    Py_XDECREF(list->sequence);
    *list = (variable_list){0};
}

/* ---- Properties ---- */

static int get_type(variable_object *self, xcvm_type *type)
{
    xcvm_error error;
    if (!tape_begin(self->tape))
        return -1;
    if (xcvm_var_get_type(self->tape->tape, self->v, type, &error) == XCVM_OK)
        return 0;
    tape_raise(self->tape, &error);
    return -1;
}

static PyObject *variable_dtype(variable_object *self, void *closure)
{
    (void)closure;
    xcvm_type type;
    if (get_type(self, &type) < 0)
        return NULL;
    if (type.dtype == XCVM_NO_DTYPE)
        Py_RETURN_NONE;
    return PyUnicode_FromString(xcvm_dtype_name(type.dtype));
}

static PyObject *variable_kind(variable_object *self, void *closure)
{
    (void)closure;
    static const char *const names[] = {
        [XCVM_KIND_NULL] = "null",         [XCVM_KIND_TENSOR] = "tensor", [XCVM_KIND_SEQUENCE] = "sequence",
        [XCVM_KIND_OPTIONAL] = "optional", [XCVM_KIND_MAP] = "map",       [XCVM_KIND_OPAQUE] = "opaque"};
    xcvm_type type;
    if (get_type(self, &type) < 0)
        return NULL;
    return PyUnicode_FromString((size_t)type.kind < COUNT_OF(names) ? names[type.kind] : "opaque");
}

/* Sizes; a dynamic dimension is its name, or None, or (`numbers`) a negative number that equal dimensions share. */
static PyObject *dims_tuple(const xcvm_type *type, bool numbers)
{
    if (type->kind != XCVM_KIND_TENSOR || type->rank < 0)
        Py_RETURN_NONE;
    PyObject *tuple = PyTuple_New(type->rank);
    for (int i = 0; tuple != NULL && i < type->rank; i++) {
        PyObject *item = Py_None;
        if (type->dims[i] >= 0 || numbers)
            item = PyLong_FromLongLong(type->dims[i]);
        else if (type->dim_names[i] != NULL)
            item = PyUnicode_FromString(type->dim_names[i]);
        else
            Py_INCREF(item);
        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *variable_shape(variable_object *self, void *closure)
{
    (void)closure;
    xcvm_type type;
    return get_type(self, &type) == 0 ? dims_tuple(&type, false) : NULL;
}

static PyObject *variable_dims(variable_object *self, void *closure)
{
    (void)closure;
    xcvm_type type;
    return get_type(self, &type) == 0 ? dims_tuple(&type, true) : NULL;
}

static PyObject *variable_ndim(variable_object *self, void *closure)
{
    (void)closure;
    xcvm_type type;
    if (get_type(self, &type) < 0)
        return NULL;
    if (type.rank < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(type.rank);
}

static PyObject *variable_tape(variable_object *self, void *closure)
{
    (void)closure;
    Py_INCREF(OBJECT(self->tape));
    return OBJECT(self->tape);
}

static PyObject *variable_requires_grad(variable_object *self, void *closure)
{
    (void)closure;
    if (!tape_begin(self->tape))
        return NULL;
    const bool wanted = xcvm_var_requires_gradient(self->tape->tape, self->v);
    return !wanted && tape_check(self->tape) < 0 ? NULL : PyBool_FromLong(wanted);
}

static int variable_set_requires_grad(variable_object *self, PyObject *object, void *closure)
{
    (void)closure;
    xcvm_error error;
    const int wanted = object != NULL ? PyObject_IsTrue(object) : 0;
    if (wanted < 0 || !tape_begin(self->tape))
        return -1;
    if (xcvm_var_set_requires_gradient(self->tape->tape, self->v, wanted != 0, &error) == XCVM_OK)
        return 0;
    tape_raise(self->tape, &error);
    return -1;
}

static PyObject *variable_creator(variable_object *self, void *closure)
{
    (void)closure;
    xcvm_creator_info info = {.size = sizeof info};
    if (!tape_begin(self->tape))
        return NULL;
    if (xcvm_var_get_creator(self->tape->tape, self->v, &info))
        return Py_BuildValue("{sssKsnsnsnsO}", "name", info.name, "number", (unsigned long long)info.number, "operands",
                             (Py_ssize_t)info.operand_count, "results", (Py_ssize_t)info.result_count, "result",
                             (Py_ssize_t)info.result, "backward", info.backward ? Py_True : Py_False);
    if (tape_check(self->tape) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Another thread that wants the interpreter lock keeps it for milliseconds, so short calls do not release it. */
bool variable_is_large(const tape_object *tape, xcvm_var v)
{
    enum { LARGE = 1 << 15 }; /* elements; arithmetic on them takes about 5 us */
    xcvm_type type;
    if (tape->mode != XCVM_TAPE_EAGER || v.at == NULL || xcvm_var_get_type(tape->tape, v, &type, NULL) != XCVM_OK)
        return false;
    int64_t count = 1;
    for (int i = 0; i < type.rank; i++)
        if (type.dims[i] <= 0 || __builtin_mul_overflow(count, type.dims[i], &count))
            return false;
    return count >= LARGE;
}

/* ---- Methods ---- */

static PyObject *variable_value(variable_object *self, PyObject *unused)
{
    (void)unused;
    const xcvm_value *value;
    xcvm_error error;
    if (!tape_enter(self->tape))
        return NULL;
    tape_object *tape = self->tape;
    const capi *api = tape->state->api;
    const bool computes = tape->mode == XCVM_TAPE_LAZY;
    if (computes)
        tape_compute_begin(tape);
    const xcvm_status status = xcvm_var_get_value(tape->tape, self->v, &value, &error);
    if (computes)
        tape_compute_end(tape);
    PyObject *object = status == XCVM_OK && tape->failure[0] == NULL ? api->object_from_value(api->state, value)
                                                                     : tape_raise(tape, &error);
    tape_leave(tape);
    return object;
}

static PyObject *variable_detach(variable_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_enter(self->tape))
        return NULL;
    PyObject *detached =
        variable_create(self->tape, xcvm_var_detach(self->tape->tape, self->v), VARIABLE_CONSTANT, NULL);
    tape_leave(self->tape);
    return detached;
}

static PyObject *finish(variable_object *self)
{
    if (tape_check(self->tape) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int variable_set_gradient(variable_object *self, PyObject *object, void *closure)
{
    (void)closure;
    if (object != NULL && object != Py_None) {
        PyErr_SetString(PyExc_TypeError, "only None can be assigned to grad; a backward pass computes it");
        return -1;
    }
    if (!tape_enter(self->tape))
        return -1;
    xcvm_var_clear_gradient(self->tape->tape, self->v);
    tape_leave(self->tape);
    return tape_check(self->tape);
}

static PyObject *variable_unchain(variable_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_enter(self->tape))
        return NULL;
    xcvm_var_unchain(self->tape->tape, self->v);
    tape_leave(self->tape);
    return finish(self);
}

static PyObject *variable_keep(variable_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    (void)xcvm_var_keep(self->tape->tape, self->v);
    return finish(self);
}

static PyObject *variable_clear_grad(variable_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_var_clear_gradient(self->tape->tape, self->v);
    return finish(self);
}

static PyObject *variable_retain_grad(variable_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_var_retain_gradient(self->tape->tape, self->v);
    return finish(self);
}

static PyObject *variable_set_sparse_grad(variable_object *self, PyObject *object)
{
    const int sparse = PyObject_IsTrue(object);
    xcvm_error error;
    if (sparse < 0 || !tape_begin(self->tape))
        return NULL;
    if (xcvm_var_set_sparse_gradient(self->tape->tape, self->v, sparse != 0, &error) != XCVM_OK)
        return tape_raise(self->tape, &error);
    Py_RETURN_NONE;
}

/* ---- Life ---- */

static int variable_traverse(variable_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->tape);
    Py_VISIT(self->owner);
    return 0;
}

static void variable_dealloc(variable_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(OBJECT(self));
    if (self->tape != NULL) {
        if (self->owned)
            tape_release(self->tape, RELEASE_VARIABLE, self->v, NULL);
        Py_DECREF(OBJECT(self->tape));
    }
    Py_XDECREF(self->owner);
    object_free(type, self);
    Py_DECREF(type);
}

static PyObject *variable_repr(variable_object *self)
{
    xcvm_type type;
    if (get_type(self, &type) < 0) {
        PyErr_Clear();
        return PyUnicode_FromString("Variable(released)");
    }
    PyObject *shape = dims_tuple(&type, false);
    PyObject *text = shape != NULL
                         ? PyUnicode_FromFormat("Variable(shape=%R, dtype='%s')", shape,
                                                type.dtype != XCVM_NO_DTYPE ? xcvm_dtype_name(type.dtype) : "")
                         : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef methods[] = {
    {"value", FUNCTION(variable_value), METH_NOARGS,
     "value()\n--\n\nReturn the value: a Tensor, list, None or dict. A lazy tape computes it."},
    {"set_data", FUNCTION(variable_set_data), METH_O, "set_data(array, /)\n--\n\nOverwrite the elements."},
    {"detach", FUNCTION(variable_detach), METH_NOARGS, "detach()\n--\n\nReturn a constant that shares the elements."},
    {"unchain", FUNCTION(variable_unchain), METH_NOARGS,
     "unchain()\n--\n\nMake the variable a constant and release the call that made it."},
    {"keep", FUNCTION(variable_keep), METH_NOARGS, "keep()\n--\n\nTake the variable out of its scope."},
    {"clear_grad", FUNCTION(variable_clear_grad), METH_NOARGS, "clear_grad()\n--\n\nRemove the accumulated gradient."},
    {"retain_grad", FUNCTION(variable_retain_grad), METH_NOARGS,
     "retain_grad()\n--\n\nMake backward passes keep the gradient of a result."},
    {"add_hook", FUNCTION(variable_add_hook), METH_O,
     "add_hook(function, /)\n--\n\nCall a function with the complete gradient, which it may replace. The tape keeps "
     "it."},
    {"set_sparse_grad", FUNCTION(variable_set_sparse_grad), METH_O,
     "set_sparse_grad(sparse, /)\n--\n\nKeep the gradient of Gather along axis 0 as rows."},
    {"grad_rows", FUNCTION(variable_gradient_rows), METH_NOARGS,
     "grad_rows()\n--\n\nReturn the rows that have a gradient, and their gradients; (None, None) if there are none."},
    {0},
};

static PyGetSetDef properties[] = {
    {"dtype", (getter)variable_dtype, NULL, "str: the element type, as \"f32\".", NULL},
    {"shape", (getter)variable_shape, NULL,
     "tuple: sizes; dynamic dimensions are names or None. None if the value is no tensor, or its rank is unknown.",
     NULL},
    {"dims", (getter)variable_dims, NULL, "tuple of int: as shape, with a negative number for each dynamic dimension.",
     NULL},
    {"ndim", (getter)variable_ndim, NULL, "int: the number of axes.", NULL},
    {"kind", (getter)variable_kind, NULL, "str: tensor, sequence, optional, map or null.", NULL},
    {"tape", (getter)variable_tape, NULL, "Tape: the tape of the variable.", NULL},
    {"requires_grad", (getter)variable_requires_grad, (setter)variable_set_requires_grad,
     "bool: whether a gradient can flow to the variable. Leaves of float types can be set.", NULL},
    {"grad", (getter)variable_gradient, (setter)variable_set_gradient,
     "Variable or None: the accumulated gradient. None can be assigned.", NULL},
    {"creator", (getter)variable_creator, NULL, "dict or None: the recorded call that made the variable.", NULL},
    {0},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(variable_object, weak_references), READONLY, NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A value on a tape."},
    {Py_tp_dealloc, SLOT(variable_dealloc)},
    {Py_tp_traverse, SLOT(variable_traverse)},
    {Py_tp_repr, SLOT(variable_repr)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec variable_spec = {.name = "xcvm._tape.Variable",
                             .basicsize = sizeof(variable_object),
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                                      Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots};
