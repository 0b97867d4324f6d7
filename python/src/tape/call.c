/* Calls of instructions by name: Python objects to the members of a struct xcvm_*_call, and results to variables. */
#include "call.h"

#include <string.h>

/* ---- Operands ---- */

static int read_operand(call_frame *f, const field *own, PyObject *object)
{
    if (own->kind != FIELD_OPERANDS)
        return variable_read(f->tape, object, own->kind == FIELD_OPTIONAL_OPERAND, NULL,
                             (xcvm_var *)(void *)(f->call + own->offset));
    if (object == Py_None)
        return 0;
    if (is_variable(f->tape->state, object)) {
        PyErr_SetString(PyExc_TypeError, "a list of variables was expected, not one variable");
        return -1;
    }
    PyObject *items = PySequence_List(object);
    if (items == NULL || call_keep(f, items) < 0)
        return -1;
    const Py_ssize_t count = PyList_Size(items);
    xcvm_var *list = call_take_memory(&f->memory, (size_t)count, sizeof *list);
    if (list == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (variable_read(f->tape, PyList_GetItem(items, i), true, NULL, &list[i]) < 0)
            return -1;
    *(xcvm_var_list *)(void *)(f->call + own->offset) = (xcvm_var_list){list, (size_t)count};
    return 0;
}

static int read_operands(call_frame *f, PyObject *inputs)
{
    const bool is_list = PyList_Check(inputs), is_tuple = !is_list && PyTuple_Check(inputs);
    if (!is_list && !is_tuple) {
        PyErr_Format(PyExc_TypeError, "%s: inputs are a list or tuple of variables, not an object of type %R",
                     f->row->name, Py_TYPE(inputs));
        return -1;
    }
    const Py_ssize_t count = is_list ? PyList_Size(inputs) : PyTuple_Size(inputs);
    Py_ssize_t given = 0;
    for (size_t i = 0; i < f->field_count && given < count; i++) {
        if (f->fields[i].kind > FIELD_OPERANDS)
            continue;
        PyObject *object = is_list ? PyList_GetItem(inputs, given) : PyTuple_GetItem(inputs, given);
        if (object == NULL)
            return -1;
        Py_INCREF(object);
        const int result = read_operand(f, &f->fields[i], object);
        Py_DECREF(object);
        if (result < 0)
            return call_name_field(f, "operand", f->fields[i].name);
        given++;
    }
    if (given < count) {
        PyErr_Format(PyExc_TypeError, "%s: %zd operands were given; the instruction has %zd", f->row->name, count,
                     given);
        return -1;
    }
    return 0;
}

/* ---- Results ---- */

static const field *result_at(const call_frame *f, size_t index)
{
    for (size_t i = 0; i < f->field_count; i++)
        if (f->fields[i].kind >= FIELD_RESULT && f->fields[i].kind <= FIELD_RESULTS && index-- == 0)
            return &f->fields[i];
    return NULL;
}

static size_t result_count(const call_frame *f)
{
    size_t count = 0;
    while (result_at(f, count) != NULL)
        count++;
    return count;
}

/* All results that are not optional; if there is none, all. */
static int want_default(call_frame *f, size_t count)
{
    for (int optional = 0; optional < 2 && f->order_count == 0; optional++)
        for (size_t i = 0; i < count; i++) {
            const field_kind kind = result_at(f, i)->kind;
            if (kind == FIELD_RESULTS) {
                PyErr_Format(PyExc_TypeError, "%s: outputs must be the number of results", f->row->name);
                return -1;
            }
            if (kind == FIELD_RESULT || optional != 0)
                f->order[f->order_count++] = i;
        }
    f->as_tuple = f->order_count > 1;
    return 0;
}

static int want_number(call_frame *f, size_t count, PyObject *outputs)
{
    int64_t number;
    if (call_read_int(outputs, &number) < 0)
        return call_name_field(f, "argument", "outputs");
    size_t single = 0;
    while (single < count && result_at(f, single)->kind != FIELD_RESULTS)
        single++;
    const bool has_list = single < count;
    if (number < 0 || number > (has_list ? 1 << 20 : (int64_t)count) || (has_list && number < (int64_t)single)) {
        PyErr_Format(PyExc_ValueError, "%s: %lld outputs were asked for; the instruction has %zu%s", f->row->name,
                     (long long)number, has_list ? single : count, has_list ? " and a list" : "");
        return -1;
    }
    for (size_t i = 0; i < (has_list ? single : (size_t)number); i++)
        f->order[f->order_count++] = i;
    if (has_list) {
        f->list_count = (size_t)number - single;
        f->list = call_take_memory(&f->memory, f->list_count, sizeof *f->list);
        if (f->list == NULL)
            return -1;
        memset(f->list, 0, f->list_count * sizeof *f->list);
        f->order[f->order_count++] = single;
    }
    f->as_tuple = true;
    return 0;
}

static int want_names(call_frame *f, size_t count, PyObject *outputs)
{
    Py_ssize_t length;
    PyObject *names = call_items(f, outputs, &length);
    if (names == NULL)
        return call_name_field(f, "argument", "outputs");
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *name = PyList_GetItem(names, i);
        size_t found = 0;
        while (found < count &&
               !(PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, result_at(f, found)->name) == 0))
            found++;
        bool again = false;
        for (size_t k = 0; k < f->order_count; k++)
            again = again || f->order[k] == found;
        if (found == count || again || result_at(f, found)->kind == FIELD_RESULTS) {
            PyErr_Format(PyExc_ValueError, again ? "%s: result %R is named twice" : "%s: there is no single result %R",
                         f->row->name, name);
            return -1;
        }
        f->order[f->order_count++] = found;
    }
    f->as_tuple = true;
    return 0;
}

static int want_results(call_frame *f, PyObject *outputs)
{
    const size_t count = result_count(f);
    const int result = outputs == NULL || outputs == Py_None             ? want_default(f, count)
                       : PyList_Check(outputs) || PyTuple_Check(outputs) ? want_names(f, count, outputs)
                                                                         : want_number(f, count, outputs);
    if (result < 0)
        return -1;
    for (size_t i = 0; i < f->order_count; i++)
        f->wanted[f->order[i]] = true;
    for (size_t i = 0; i < count; i++) {
        const field *own = result_at(f, i);
        void *at = f->call + own->offset;
        if (own->kind == FIELD_RESULTS)
            *(xcvm_var_array *)at = (xcvm_var_array){f->list, f->list_count};
        else if (own->kind == FIELD_RESULT || f->wanted[i] || i == 0 || f->row->once)
            *(xcvm_var **)at = &f->results[i];
    }
    return 0;
}

/* Makes objects of the wanted results and releases the others. */
static PyObject *take_results(call_frame *f, variable_ownership ownership)
{
    const size_t count = result_count(f);
    size_t total = 0;
    for (size_t i = 0; i < f->order_count; i++)
        total += result_at(f, f->order[i])->kind == FIELD_RESULTS ? f->list_count : 1;
    PyObject *tuple = PyTuple_New((Py_ssize_t)total);
    Py_ssize_t at = 0;
    for (size_t i = 0; i < f->order_count; i++) {
        const bool is_list = result_at(f, f->order[i])->kind == FIELD_RESULTS;
        for (size_t k = 0; k < (is_list ? f->list_count : 1); k++) {
            PyObject *v = variable_create(f->tape, is_list ? f->list[k] : f->results[f->order[i]], ownership, NULL);
            if (tuple != NULL && (v == NULL || PyTuple_SetItem(tuple, at++, v) < 0))
                Py_CLEAR(tuple);
            else if (tuple == NULL)
                Py_XDECREF(v);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!f->wanted[i] && f->results[i].at != NULL)
            xcvm_var_release(f->tape->tape, f->results[i]);
    if (tuple == NULL || f->as_tuple)
        return tuple;
    PyObject *single = total == 1 ? PyTuple_GetItem(tuple, 0) : Py_None;
    Py_XINCREF(single);
    Py_DECREF(tuple);
    return single;
}

/* ---- The call ---- */

typedef struct call_arguments {
    PyObject *name, *inputs, *attributes, *outputs, *into;
} call_arguments;

static int read_arguments(PyObject *const *args, Py_ssize_t count, PyObject *names, call_arguments *arguments)
{
    static const char *const own[] = {"name", "inputs", "attributes", "outputs", "into"};
    PyObject **to[] = {&arguments->name, &arguments->inputs, &arguments->attributes, &arguments->outputs,
                       &arguments->into};
    if (count > (Py_ssize_t)COUNT_OF(own)) {
        PyErr_Format(PyExc_TypeError, "call takes %zu arguments, not %zd", COUNT_OF(own), count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        *to[i] = args[i];
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_Size(names); i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        size_t k = 0;
        while (k < COUNT_OF(own) && PyUnicode_CompareWithASCIIString(name, own[k]) != 0)
            k++;
        if (k == COUNT_OF(own) || *to[k] != NULL) {
            PyErr_Format(PyExc_TypeError, "call: argument %R is unknown or given twice", name);
            return -1;
        }
        *to[k] = args[count + i];
    }
    if (arguments->name != NULL && arguments->inputs != NULL)
        return 0;
    PyErr_SetString(PyExc_TypeError, "call takes the name of an instruction and its inputs");
    return -1;
}

static const instruction *find_row(const tape_state *state, PyObject *name)
{
    PyObject *index = PyUnicode_Check(name) ? PyDict_GetItemWithError(state->instruction_index, name) : NULL;
    if (index != NULL)
        return &instruction_table[PyLong_AsSize_t(index)];
    if (PyErr_Occurred() == NULL)
        PyErr_Format(PyExc_AttributeError, "there is no instruction %R that can be called", name);
    return NULL;
}

static bool is_large(const call_frame *f)
{
    for (size_t i = 0; i < f->field_count; i++) {
        if (f->fields[i].kind > FIELD_OPERANDS)
            continue;
        const void *at = f->call + f->fields[i].offset;
        const bool is_list = f->fields[i].kind == FIELD_OPERANDS;
        const xcvm_var *vs = is_list ? ((const xcvm_var_list *)at)->at : at;
        const size_t count = is_list ? ((const xcvm_var_list *)at)->count : 1;
        for (size_t k = 0; k < count; k++)
            if (variable_is_large(f->tape, vs[k]))
                return true;
    }
    return false;
}

static PyObject *call_row(call_frame *f, const call_arguments *arguments)
{
    xcvm_var into = XCVM_ABSENT;
    if (read_operands(f, arguments->inputs) < 0)
        return NULL;
    if (arguments->attributes != NULL && arguments->attributes != Py_None &&
        call_read_attributes(f, arguments->attributes) < 0)
        return NULL;
    if (want_results(f, arguments->outputs) < 0)
        return NULL;
    const bool in_place = arguments->into != NULL && arguments->into != Py_None;
    if (in_place) {
        if (f->row->into == 0) {
            PyErr_Format(PyExc_TypeError, "%s: the instruction cannot write into a variable", f->row->name);
            return NULL;
        }
        if (variable_read(f->tape, arguments->into, false, NULL, &into) < 0)
            return call_name_field(f, "argument", "into"), NULL;
        *(xcvm_var *)(void *)(f->call + f->row->into) = into;
    }
    *(xcvm_tape **)(void *)f->call = f->tape->tape;
    const bool calls_back = f->tape->print != NULL || f->tape->observer != NULL || f->tape->functions != NULL;
    if (calls_back && !tape_enter(f->tape))
        return NULL;
    const bool large = is_large(f);
    if (large)
        tape_compute_begin(f->tape);
    const xcvm_var first = xcvm_call(f->row->number, f->call);
    if (large)
        tape_compute_end(f->tape);
    PyObject *result = NULL;
    if ((first.at == NULL || calls_back || large) && tape_check(f->tape) < 0) {
        result = NULL;
    } else if (in_place) { /* the result is the variable itself, which has its owner */
        for (size_t i = 1; i < MAX_RESULTS; i++)
            if (f->results[i].at != NULL)
                xcvm_var_release(f->tape->tape, f->results[i]);
        Py_INCREF(arguments->into);
        result = arguments->into;
    } else {
        result = take_results(f, VARIABLE_RESULT);
    }
    if (calls_back)
        tape_leave(f->tape);
    return result;
}

PyObject *tape_call(tape_object *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    call_arguments arguments = {0};
    if (!tape_begin(self) || read_arguments(args, count, names, &arguments) < 0)
        return NULL;
    const instruction *row = find_row(self->state, arguments.name);
    if (row == NULL)
        return NULL;
    call_frame f;
    f.tape = self;
    f.row = row;
    f.fields = row->fields(&f.field_count);
    f.memory.used = f.memory.block_count = 0;
    f.memory.blocks = NULL;
    f.kept = NULL;
    f.list = NULL;
    f.list_count = f.order_count = 0;
    f.as_tuple = false;
    memset(f.results, 0, sizeof f.results);
    memset(f.wanted, 0, sizeof f.wanted);
    memcpy(f.call, row->defaults, row->size);
    PyObject *result = call_row(&f, &arguments);
    call_frame_release(&f);
    return result;
}
