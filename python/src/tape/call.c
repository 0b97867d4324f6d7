/* Calls of instructions by name: Python objects to the members of a struct xcvm_*_call, and results to variables. */
#include "tape_module.h"

#include <stdalign.h>
#include <string.h>

/* Memory of lists, freed after the call. */
enum { INLINE_BYTES = 1024 };
typedef struct scratch {
    size_t used;
    void **blocks; /* larger lists */
    size_t block_count;
    alignas(16) char bytes[INLINE_BYTES];
} scratch;

typedef struct call_frame {
    tape_object *tape;
    const instruction *row;
    const field *fields;
    size_t field_count;
    scratch memory;
    PyObject *kept; /* list of objects whose memory is in use; NULL: none yet */
    alignas(16) char call[MAX_CALL_SIZE];
    /* Results by field: the place of single ones, and the list of the last. */
    xcvm_var results[MAX_RESULTS];
    bool wanted[MAX_RESULTS];
    xcvm_var *list;
    size_t list_count;
    size_t order[MAX_RESULTS], order_count; /* results to return; by the number of the result */
    bool as_tuple;
} call_frame;

static void *scratch_take(scratch *memory, size_t count, size_t size)
{
    const size_t bytes = (count * size + 15) & ~(size_t)15;
    if (count > SIZE_MAX / 2 / (size + 1))
        return PyErr_NoMemory();
    if (bytes <= INLINE_BYTES - memory->used) {
        void *taken = memory->bytes + memory->used;
        memory->used += bytes;
        return taken;
    }
    void **blocks = PyMem_Realloc(memory->blocks, (memory->block_count + 1) * sizeof *blocks);
    if (blocks != NULL)
        memory->blocks = blocks;
    void *block = blocks != NULL ? PyMem_Malloc(bytes) : NULL;
    if (block == NULL)
        return PyErr_NoMemory();
    memory->blocks[memory->block_count++] = block;
    return block;
}

static void frame_release(call_frame *f)
{
    for (size_t i = 0; i < f->memory.block_count; i++)
        PyMem_Free(f->memory.blocks[i]);
    PyMem_Free(f->memory.blocks);
    Py_XDECREF(f->kept);
}

/* Keeps an object until the end of the call. Takes the reference. */
static int keep(call_frame *f, PyObject *object)
{
    if (f->kept == NULL)
        f->kept = PyList_New(0);
    const int result = f->kept != NULL && object != NULL ? PyList_Append(f->kept, object) : -1;
    Py_XDECREF(object);
    return result;
}

/* Puts the instruction's name and the field's before the message of the current exception. */
static int name_field(const call_frame *f, const char *what, const char *name)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const bool plain = text != NULL && (PyErr_GivenExceptionMatches(type, PyExc_TypeError) ||
                                        PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
                                        PyErr_GivenExceptionMatches(type, PyExc_OverflowError));
    if (!plain) {
        Py_XDECREF(text);
        PyErr_Restore(type, value, traceback);
        return -1;
    }
    PyErr_Format(PyErr_GivenExceptionMatches(type, PyExc_TypeError)       ? PyExc_TypeError
                 : PyErr_GivenExceptionMatches(type, PyExc_OverflowError) ? PyExc_OverflowError
                                                                          : PyExc_ValueError,
                 "%s: %s '%s': %U", f->row->name, what, name, text);
    Py_DECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
}

/* ---- Attributes ---- */

/* A list of the items of an object, kept until the end of the call. Borrowed. */
static PyObject *items_of(call_frame *f, PyObject *object, Py_ssize_t *count)
{
    PyObject *plain = object, *list = NULL;
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a list was expected, not a text");
        return NULL;
    }
    if (!PyList_Check(object) && !PyTuple_Check(object) && PyObject_HasAttrString(object, "tolist")) {
        plain = PyObject_CallMethod(object, "tolist", NULL);
        if (plain != NULL && !PyList_Check(plain)) {
            PyErr_Format(PyExc_TypeError, "a list was expected, not an object of type %R", Py_TYPE(object));
            Py_CLEAR(plain);
        }
    } else {
        Py_INCREF(plain);
    }
    if (plain != NULL)
        list = PySequence_List(plain);
    Py_XDECREF(plain);
    if (list == NULL || keep(f, list) < 0)
        return NULL;
    *count = PyList_Size(list);
    return list;
}

static int read_int(PyObject *object, int64_t *number)
{
    /* Tensors and arrays of one element have no __index__ but item(). */
    PyObject *whole = NULL;
    if (!PyLong_Check(object) && !PyFloat_Check(object) && PyObject_HasAttrString(object, "item")) {
        PyObject *item = PyObject_CallMethod(object, "item", NULL);
        whole = item != NULL ? PyNumber_Index(item) : NULL;
        Py_XDECREF(item);
    } else {
        whole = PyNumber_Index(object);
    }
    if (whole == NULL)
        return -1;
    *number = PyLong_AsLongLong(whole);
    Py_DECREF(whole);
    return *number == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

static int read_float(PyObject *object, double *number)
{
    if (PyUnicode_Check(object) || PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a number was expected, not a text");
        return -1;
    }
    *number = PyFloat_AsDouble(object);
    return *number == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

static int read_text(call_frame *f, PyObject *object, const char **text)
{
    Py_ssize_t length = 0;
    if (PyUnicode_Check(object)) {
        *text = PyUnicode_AsUTF8AndSize(object, &length);
    } else if (PyBytes_Check(object)) {
        *text = PyBytes_AsString(object);
        length = PyBytes_Size(object);
    } else {
        PyErr_Format(PyExc_TypeError, "a text was expected, not an object of type %R", Py_TYPE(object));
        return -1;
    }
    if (*text == NULL)
        return -1;
    if (strlen(*text) != (size_t)length) {
        PyErr_SetString(PyExc_ValueError, "the text contains a NUL character");
        return -1;
    }
    Py_INCREF(object);
    return keep(f, object);
}

static int read_ints(call_frame *f, PyObject *object, xcvm_int_list *list)
{
    Py_ssize_t count;
    PyObject *items = items_of(f, object, &count);
    int64_t *numbers = items != NULL ? scratch_take(&f->memory, (size_t)count, sizeof *numbers) : NULL;
    if (numbers == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_int(PyList_GetItem(items, i), &numbers[i]) < 0)
            return -1;
    *list = (xcvm_int_list){numbers, (size_t)count};
    return 0;
}

static int read_floats(call_frame *f, PyObject *object, xcvm_float_list *list)
{
    Py_ssize_t count;
    PyObject *items = items_of(f, object, &count);
    double *numbers = items != NULL ? scratch_take(&f->memory, (size_t)count, sizeof *numbers) : NULL;
    if (numbers == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_float(PyList_GetItem(items, i), &numbers[i]) < 0)
            return -1;
    *list = (xcvm_float_list){numbers, (size_t)count};
    return 0;
}

static int read_texts(call_frame *f, PyObject *object, xcvm_text_list *list)
{
    Py_ssize_t count;
    PyObject *items = items_of(f, object, &count);
    const char **texts = items != NULL ? scratch_take(&f->memory, (size_t)count, sizeof *texts) : NULL;
    if (texts == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_text(f, PyList_GetItem(items, i), &texts[i]) < 0)
            return -1;
    *list = (xcvm_text_list){texts, (size_t)count};
    return 0;
}

static int read_choice(const field *own, PyObject *object, int *choice)
{
    int64_t number;
    if (!PyUnicode_Check(object)) {
        if (read_int(object, &number) < 0)
            return -1;
        *choice = number < 0 || number > INT16_MAX ? -1 : (int)number; /* the tape checks the range */
        return 0;
    }
    const char *name = PyUnicode_AsUTF8AndSize(object, NULL), *values = own->values;
    const size_t length = name != NULL ? strlen(name) : 0;
    for (int i = 0; name != NULL && *values != '\0'; i++) {
        const char *end = strchr(values, '|');
        if ((size_t)(end - values) == length && strncmp(values, name, length) == 0) {
            *choice = i;
            return 0;
        }
        values = end + 1;
    }
    if (name != NULL)
        PyErr_Format(PyExc_ValueError, "'%U' is not one of %s", object, own->values);
    return -1;
}

static int read_attribute(call_frame *f, const field *own, PyObject *object)
{
    void *at = f->call + own->offset;
    if (object == Py_None)
        return 0;
    switch (own->kind) {
    case FIELD_INT:
        return read_int(object, at);
    case FIELD_INTS:
        return read_ints(f, object, at);
    case FIELD_FLOAT:
        return read_float(object, at);
    case FIELD_FLOATS:
        return read_floats(f, object, at);
    case FIELD_TEXT:
        return read_text(f, object, at);
    case FIELD_TEXTS:
        return read_texts(f, object, at);
    case FIELD_DTYPE:
        return dtype_read(f->tape->state, object, XCVM_NO_DTYPE, at);
    default:
        return read_choice(own, object, at);
    }
}

static void raise_unknown_attribute(const call_frame *f, PyObject *name)
{
    char names[600];
    size_t length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < f->field_count; i++)
        if (f->fields[i].kind >= FIELD_INT && length < sizeof names)
            length += (size_t)PyOS_snprintf(names + length, sizeof names - length, "%s%s", length != 0 ? ", " : "",
                                            f->fields[i].name);
    PyErr_Format(PyExc_TypeError, "%s: there is no attribute %R; the instruction has %s", f->row->name, name,
                 length != 0 ? names : "none");
}

static int read_attributes(call_frame *f, PyObject *attributes)
{
    if (!PyDict_Check(attributes)) {
        PyErr_Format(PyExc_TypeError, "%s: attributes are a dict, not an object of type %R", f->row->name,
                     Py_TYPE(attributes));
        return -1;
    }
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(attributes, &position, &name, &value)) {
        const field *own = NULL;
        for (size_t i = 0; own == NULL && i < f->field_count; i++)
            if (f->fields[i].kind >= FIELD_INT && PyUnicode_Check(name) &&
                PyUnicode_CompareWithASCIIString(name, f->fields[i].name) == 0)
                own = &f->fields[i];
        if (own == NULL) {
            raise_unknown_attribute(f, name);
            return -1;
        }
        Py_INCREF(value);
        const int result = read_attribute(f, own, value);
        Py_DECREF(value);
        if (result < 0)
            return name_field(f, "attribute", own->name);
    }
    return 0;
}

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
    if (items == NULL || keep(f, items) < 0)
        return -1;
    const Py_ssize_t count = PyList_Size(items);
    xcvm_var *list = scratch_take(&f->memory, (size_t)count, sizeof *list);
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
            return name_field(f, "operand", f->fields[i].name);
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
    if (read_int(outputs, &number) < 0)
        return name_field(f, "argument", "outputs");
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
        f->list = scratch_take(&f->memory, f->list_count, sizeof *f->list);
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
    PyObject *names = items_of(f, outputs, &length);
    if (names == NULL)
        return name_field(f, "argument", "outputs");
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

static PyObject *call_row(call_frame *f, const call_arguments *arguments)
{
    xcvm_var into = XCVM_ABSENT;
    if (read_operands(f, arguments->inputs) < 0)
        return NULL;
    if (arguments->attributes != NULL && arguments->attributes != Py_None &&
        read_attributes(f, arguments->attributes) < 0)
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
            return name_field(f, "argument", "into"), NULL;
        *(xcvm_var *)(void *)(f->call + f->row->into) = into;
    }
    *(xcvm_tape **)(void *)f->call = f->tape->tape;
    const bool calls_back = f->tape->print != NULL || f->tape->observer != NULL || f->tape->functions != NULL;
    if (calls_back && !tape_enter(f->tape))
        return NULL;
    const xcvm_var first = xcvm_call(f->row->number, f->call);
    PyObject *result = NULL;
    if ((first.at == NULL || calls_back) && tape_check(f->tape) < 0) {
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
    frame_release(&f);
    return result;
}
