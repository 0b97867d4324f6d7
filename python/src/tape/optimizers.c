/* xcvm._tape.Optimizer: updates parameters by their gradients. */
#include "../compiler/compiler_module.h"
#include "tape_module.h"

#include <string.h>

typedef struct optimizer_object {
    PyObject_HEAD tape_object *tape;
    xcvm_optimizer *optimizer;
} optimizer_object;

PyObject *tape_optimizer(tape_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"text", "clip_norm", "clip_value", "average", NULL};
    const char *text;
    xcvm_optimizer_options options = {.size = sizeof options};
    xcvm_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$ddd:optimizer", names, &text, &options.clip_norm,
                                     &options.clip_value, &options.average) ||
        !tape_begin(self))
        return NULL;
    optimizer_object *created = (optimizer_object *)PyType_GenericAlloc(self->state->optimizer_type, 0);
    if (created == NULL)
        return NULL;
    Py_INCREF(OBJECT(self));
    created->tape = self;
    if (xcvm_optimizer_create(self->tape, text, &options, &created->optimizer, &error) != XCVM_OK) {
        tape_raise(self, &error);
        Py_DECREF(OBJECT(created));
        return NULL;
    }
    return OBJECT(created);
}

static int optimizer_traverse(optimizer_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(OBJECT(self)));
    Py_VISIT(self->tape);
    return 0;
}

static void optimizer_dealloc(optimizer_object *self)
{
    PyTypeObject *type = Py_TYPE(OBJECT(self));
    PyObject_GC_UnTrack(self);
    if (self->tape != NULL) {
        if (self->optimizer != NULL)
            tape_release(self->tape, RELEASE_OPTIMIZER, XCVM_ABSENT, self->optimizer);
        Py_DECREF(OBJECT(self->tape));
    }
    object_free(type, self);
    Py_DECREF(type);
}

/* ---- Methods ---- */

static PyObject *raise_or_none(optimizer_object *self, xcvm_status status, const xcvm_error *error)
{
    if (status != XCVM_OK || self->tape->failure[0] != NULL)
        return tape_raise(self->tape, error);
    Py_RETURN_NONE;
}

static PyObject *optimizer_add(optimizer_object *self, PyObject *args)
{
    const char *name;
    PyObject *object;
    xcvm_var v;
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "sO:add", &name, &object) || !tape_begin(self->tape) ||
        variable_read(self->tape, object, false, "parameter", &v) < 0)
        return NULL;
    return raise_or_none(self, xcvm_optimizer_add(self->optimizer, name, v, &error), &error);
}

static PyObject *optimizer_add_layer(optimizer_object *self, PyObject *object)
{
    xcvm_error error;
    if (!is_layer(self->tape->state, object) || ((layer_object *)object)->tape != self->tape) {
        PyErr_SetString(PyExc_TypeError, "a layer of the same tape was expected");
        return NULL;
    }
    if (!tape_begin(self->tape))
        return NULL;
    return raise_or_none(self, xcvm_optimizer_add_layer(self->optimizer, ((layer_object *)object)->layer, &error),
                         &error);
}

static PyObject *optimizer_step(optimizer_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_error error;
    if (!tape_enter(self->tape))
        return NULL;
    tape_compute_begin(self->tape);
    const xcvm_status status = xcvm_optimizer_step(self->optimizer, &error);
    tape_compute_end(self->tape);
    tape_leave(self->tape);
    return raise_or_none(self, status, &error);
}

static PyObject *optimizer_clear_grads(optimizer_object *self, PyObject *unused)
{
    (void)unused;
    if (!tape_begin(self->tape))
        return NULL;
    xcvm_optimizer_clear_gradients(self->optimizer);
    Py_RETURN_NONE;
}

static PyObject *optimizer_rate(optimizer_object *self, void *closure)
{
    (void)closure;
    return tape_begin(self->tape) ? PyFloat_FromDouble(xcvm_optimizer_get_rate(self->optimizer)) : NULL;
}

static int optimizer_set_rate(optimizer_object *self, PyObject *object, void *closure)
{
    (void)closure;
    const double rate = object != NULL ? PyFloat_AsDouble(object) : -1;
    if ((rate == -1 && PyErr_Occurred() != NULL) || !tape_begin(self->tape))
        return -1;
    xcvm_optimizer_set_rate(self->optimizer, rate);
    return 0;
}

static PyObject *optimizer_set_gradient_scale(optimizer_object *self, PyObject *object)
{
    const double scale = PyFloat_AsDouble(object);
    if ((scale == -1 && PyErr_Occurred() != NULL) || !tape_begin(self->tape))
        return NULL;
    xcvm_optimizer_set_gradient_scale(self->optimizer, scale);
    Py_RETURN_NONE;
}

static PyObject *optimizer_set_updated(optimizer_object *self, PyObject *args)
{
    PyObject *object;
    int updated;
    xcvm_var v;
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "Op:set_updated", &object, &updated) || !tape_begin(self->tape) ||
        variable_read(self->tape, object, false, "parameter", &v) < 0)
        return NULL;
    return raise_or_none(self, xcvm_optimizer_set_updated(self->optimizer, v, updated != 0, &error), &error);
}

static PyObject *optimizer_gradient_norm(optimizer_object *self, void *closure)
{
    (void)closure;
    return tape_begin(self->tape) ? PyFloat_FromDouble(xcvm_optimizer_gradient_norm(self->optimizer)) : NULL;
}

static PyObject *optimizer_average(optimizer_object *self, PyObject *object)
{
    xcvm_var v;
    if (!tape_begin(self->tape) || variable_read(self->tape, object, false, "parameter", &v) < 0)
        return NULL;
    return variable_or_none(self->tape, xcvm_optimizer_get_average(self->optimizer, v), VARIABLE_CONSTANT);
}

static PyObject *optimizer_swap_averages(optimizer_object *self, PyObject *unused)
{
    (void)unused;
    xcvm_error error;
    if (!tape_begin(self->tape))
        return NULL;
    return raise_or_none(self, xcvm_optimizer_swap_averages(self->optimizer, &error), &error);
}

static xcvm_var call_hook(void *user, xcvm_tape *tape, const xcvm_update *update)
{
    (void)tape;
    const tape_callback *hook = user;
    tape_object *self = hook->tape;
    xcvm_var replacement = XCVM_ABSENT;
    const bool released = tape_callback_begin(self);
    PyObject *parameter = variable_create(self, update->parameter, VARIABLE_LENT, NULL);
    PyObject *gradient = variable_create(self, update->gradient, VARIABLE_LENT, NULL);
    PyObject *returned = hook->callable != NULL && parameter != NULL && gradient != NULL
                             ? PyObject_CallFunction(hook->callable, "sOOK", update->name, parameter, gradient,
                                                     (unsigned long long)update->step)
                             : NULL;
    if (returned == NULL || variable_read(self, returned, true, "the result of the hook", &replacement) < 0 ||
        (returned != Py_None && tape_lend(self, returned) < 0)) {
        tape_fail_by_exception(self);
        replacement = (xcvm_var){NULL, 1};
    }
    Py_XDECREF(returned);
    Py_XDECREF(gradient);
    Py_XDECREF(parameter);
    tape_callback_end(self, released);
    return replacement;
}

static PyObject *optimizer_add_hook(optimizer_object *self, PyObject *callable)
{
    xcvm_error error;
    if (!tape_begin(self->tape))
        return NULL;
    tape_callback *hook = tape_add_callback(self->tape, callable);
    if (hook == NULL)
        return NULL;
    return raise_or_none(self, xcvm_optimizer_add_hook(self->optimizer, (xcvm_update_hook){call_hook, hook}, &error),
                         &error);
}

static PyObject *optimizer_save(optimizer_object *self, PyObject *args)
{
    const char *format = "safetensors";
    byte_buffer file = {0};
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "|s:save", &format) || !tape_begin(self->tape))
        return NULL;
    if (strcmp(format, "safetensors") != 0 && strcmp(format, "npz") != 0) {
        PyErr_Format(PyExc_ValueError, "the format is safetensors or npz, not '%s'", format);
        return NULL;
    }
    const xcvm_status status = xcvm_optimizer_save(self->optimizer, format[0] == 's' ? XCVM_SAFETENSORS : XCVM_NPZ,
                                                   byte_buffer_sink(&file), &error);
    PyObject *bytes = byte_buffer_take(&file);
    if (status == XCVM_OK)
        return bytes;
    Py_XDECREF(bytes);
    return tape_raise(self->tape, &error);
}

static PyObject *optimizer_load(optimizer_object *self, PyObject *args)
{
    Py_buffer file;
    xcvm_error error;
    if (!PyArg_ParseTuple(args, "y*:load", &file))
        return NULL;
    PyObject *result =
        tape_begin(self->tape)
            ? raise_or_none(self, xcvm_optimizer_load(self->optimizer, file.buf, (size_t)file.len, &error), &error)
            : NULL;
    PyBuffer_Release(&file);
    return result;
}

static PyMethodDef methods[] = {
    {"add", FUNCTION(optimizer_add), METH_VARARGS, "add(name, parameter, /)\n--\n\nAdd a parameter."},
    {"add_layer", FUNCTION(optimizer_add_layer), METH_O, "add_layer(layer, /)\n--\n\nAdd a layer's parameters."},
    {"step", FUNCTION(optimizer_step), METH_NOARGS, "step()\n--\n\nUpdate the parameters by their gradients."},
    {"clear_grads", FUNCTION(optimizer_clear_grads), METH_NOARGS, "clear_grads()\n--\n\nRemove the gradients."},
    {"set_gradient_scale", FUNCTION(optimizer_set_gradient_scale), METH_O,
     "set_gradient_scale(scale, /)\n--\n\nSet the factor of gradients."},
    {"set_updated", FUNCTION(optimizer_set_updated), METH_VARARGS,
     "set_updated(parameter, updated, /)\n--\n\nSet whether steps update a parameter."},
    {"average", FUNCTION(optimizer_average), METH_O, "average(parameter, /)\n--\n\nReturn the moving average."},
    {"swap_averages", FUNCTION(optimizer_swap_averages), METH_NOARGS,
     "swap_averages()\n--\n\nSwap parameters and their averages."},
    {"add_hook", FUNCTION(optimizer_add_hook), METH_O,
     "add_hook(function, /)\n--\n\nCall function(name, parameter, gradient, step), which may replace the gradient."},
    {"save", FUNCTION(optimizer_save), METH_VARARGS, "save(format='safetensors', /)\n--\n\nReturn a checkpoint."},
    {"load", FUNCTION(optimizer_load), METH_VARARGS, "load(file, /)\n--\n\nRestore a checkpoint."},
    {0},
};

static PyGetSetDef properties[] = {
    {"rate", (getter)optimizer_rate, (setter)optimizer_set_rate, "float: the learning rate.", NULL},
    {"gradient_norm", (getter)optimizer_gradient_norm, NULL, "float: the norm before the last clipping; or NaN.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An optimizer of Tape.optimizer."},
    {Py_tp_dealloc, SLOT(optimizer_dealloc)},
    {Py_tp_traverse, SLOT(optimizer_traverse)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

PyType_Spec optimizer_spec = {.name = "xcvm._tape.Optimizer",
                              .basicsize = sizeof(optimizer_object),
                              .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC |
                                       Py_TPFLAGS_DISALLOW_INSTANTIATION,
                              .slots = slots};
