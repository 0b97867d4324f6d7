/* The table of the calls of the tape: the fields of each struct xcvm_*_call, from xcvm/tape_calls.def. */
#include "tape_module.h"

#include <stddef.h>

/* ---- Defaults ---- */

#define XCVM_CALL_RESULT(kind, name, types)
#define XCVM_CALL_OPERAND(kind, name, types)
#define XCVM_CALL_INT(name, value) .name = (value),
#define XCVM_CALL_INTS(name)
#define XCVM_CALL_FLOAT(name, value) .name = (value),
#define XCVM_CALL_FLOATS(name)
#define XCVM_CALL_TEXT(name, value) .name = (value),
#define XCVM_CALL_TEXTS(name)
#define XCVM_CALL_DTYPE(name, value) .name = (value),
#define XCVM_CALL_CHOICE(name, set, value, names) .name = XCVM_##set##_##value,
#define XCVM_CALL_TYPE(variable, types)
#define XCVM_CALL(Name, number, effect, gradient, fields, summary)                                                     \
    static const struct xcvm_##Name##_call defaults_##Name = {fields.tape = NULL};                                     \
    _Static_assert(sizeof(struct xcvm_##Name##_call) <= MAX_CALL_SIZE, "room for a call");
#include <xcvm/tape_calls.def>

/* ---- Fields ---- */

#define KIND_TENSOR FIELD_OPERAND
#define KIND_SEQUENCE FIELD_OPERAND
#define KIND_ANY FIELD_OPERAND
#define KIND_OPTIONAL FIELD_OPTIONAL_OPERAND
#define KIND_LIST FIELD_OPERANDS
#define KIND_ANYS FIELD_OPERANDS
#define RESULT_TENSOR FIELD_RESULT
#define RESULT_SEQUENCE FIELD_RESULT
#define RESULT_ANY FIELD_RESULT
#define RESULT_OPTIONAL FIELD_OPTIONAL_RESULT
#define RESULT_LIST FIELD_RESULTS

#define ATTRIBUTE(name, kind, names) {#name, kind, offsetof(call, name), NULL, NULL, names},
#define XCVM_CALL_RESULT(kind, name, types) {#name, RESULT_##kind, offsetof(call, out.name), #kind, #types, NULL},
#define XCVM_CALL_OPERAND(kind, name, types) {#name, KIND_##kind, offsetof(call, name), #kind, #types, NULL},
#define XCVM_CALL_INT(name, value) ATTRIBUTE(name, FIELD_INT, NULL)
#define XCVM_CALL_INTS(name) ATTRIBUTE(name, FIELD_INTS, NULL)
#define XCVM_CALL_FLOAT(name, value) ATTRIBUTE(name, FIELD_FLOAT, NULL)
#define XCVM_CALL_FLOATS(name) ATTRIBUTE(name, FIELD_FLOATS, NULL)
#define XCVM_CALL_TEXT(name, value) ATTRIBUTE(name, FIELD_TEXT, NULL)
#define XCVM_CALL_TEXTS(name) ATTRIBUTE(name, FIELD_TEXTS, NULL)
#define XCVM_CALL_DTYPE(name, value) ATTRIBUTE(name, FIELD_DTYPE, NULL)
#define XCVM_CALL_CHOICE(name, set, value, names) ATTRIBUTE(name, FIELD_CHOICE, names)
#define XCVM_CALL_TYPE(variable, types)
#define XCVM_CALL(Name, number, effect, gradient, rows, summary)                                                       \
    static const field *fields_##Name(size_t *count)                                                                   \
    {                                                                                                                  \
        typedef struct xcvm_##Name##_call call;                                                                        \
        static const field fields[] = {rows{NULL, FIELD_KIND_COUNT, sizeof(call), NULL, NULL, NULL}};                  \
        *count = COUNT_OF(fields) - 1;                                                                                 \
        return fields;                                                                                                 \
    }
#include <xcvm/tape_calls.def>

/* ---- Instructions ---- */

#define INTO_PURE(Name) offsetof(struct xcvm_##Name##_call, into)
#define INTO_RANDOM(Name) offsetof(struct xcvm_##Name##_call, into)
#define INTO_EFFECT(Name) 0
#define ONCE_PURE false
#define ONCE_RANDOM true
#define ONCE_EFFECT true
#define GRADIENT_YES "yes"
#define GRADIENT_ZERO "zero"
#define GRADIENT_STEP "step"
#define GRADIENT_NONE "none"
#define XCVM_CALL_RESULT(kind, name, types)
#define XCVM_CALL_OPERAND(kind, name, types)
#define XCVM_CALL_INT(name, value)
#define XCVM_CALL_INTS(name)
#define XCVM_CALL_FLOAT(name, value)
#define XCVM_CALL_FLOATS(name)
#define XCVM_CALL_TEXT(name, value)
#define XCVM_CALL_TEXTS(name)
#define XCVM_CALL_DTYPE(name, value)
#define XCVM_CALL_CHOICE(name, set, value, names)
#define XCVM_CALL_TYPE(variable, types) #variable "=" #types "|"
#define XCVM_CALL(Name, number, effect, gradient, fields, summary)                                                     \
    {#Name,                                                                                                            \
     summary,                                                                                                          \
     "" fields,                                                                                                        \
     number,                                                                                                           \
     ONCE_##effect,                                                                                                    \
     GRADIENT_##gradient,                                                                                              \
     fields_##Name,                                                                                                    \
     sizeof(struct xcvm_##Name##_call),                                                                                \
     INTO_##effect(Name),                                                                                              \
     &defaults_##Name},
const instruction instruction_table[] = {
#include <xcvm/tape_calls.def>
};
const size_t instruction_count = COUNT_OF(instruction_table);

/* ---- Descriptions ---- */

static PyObject *text_tuple(const char *texts)
{
    PyObject *text = PyUnicode_FromString(texts);
    PyObject *list = text != NULL ? PyObject_CallMethod(text, "split", "s", "|") : NULL;
    PyObject *tuple = list != NULL ? PyList_AsTuple(list) : NULL;
    PyObject *names = tuple != NULL ? PyTuple_GetSlice(tuple, 0, PyTuple_Size(tuple) - 1) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    return names;
}

static PyObject *choice_name(const char *values, int index)
{
    PyObject *names = text_tuple(values);
    PyObject *name = names != NULL ? PySequence_GetItem(names, index) : NULL;
    Py_XDECREF(names);
    return name;
}

static PyObject *default_value(const field *f, const void *defaults)
{
    const void *at = (const char *)defaults + f->offset;
    switch (f->kind) {
    case FIELD_INT:
        return PyLong_FromLongLong(*(const int64_t *)at);
    case FIELD_FLOAT:
        return PyFloat_FromDouble(*(const double *)at);
    case FIELD_TEXT:
        return PyUnicode_FromString(*(const char *const *)at);
    case FIELD_DTYPE:
        if (*(const xcvm_dtype *)at != XCVM_NO_DTYPE)
            return PyUnicode_FromString(xcvm_dtype_name(*(const xcvm_dtype *)at));
        Py_RETURN_NONE;
    case FIELD_CHOICE:
        return choice_name(f->values, *(const int *)at);
    case FIELD_INTS:
    case FIELD_FLOATS:
    case FIELD_TEXTS:
        return PyTuple_New(0);
    default:
        Py_RETURN_NONE;
    }
}

/* (name, kind, types) of a value; (name, kind, default, values) of an attribute. */
static PyObject *describe_field(const field *f, const void *defaults)
{
    static const char *const kinds[] = {
        [FIELD_INT] = "int",   [FIELD_INTS] = "ints",   [FIELD_FLOAT] = "float", [FIELD_FLOATS] = "floats",
        [FIELD_TEXT] = "text", [FIELD_TEXTS] = "texts", [FIELD_DTYPE] = "dtype", [FIELD_CHOICE] = "choice"};
    if (f->kind < FIELD_INT)
        return Py_BuildValue("(sss)", f->name, f->kinds, f->types);
    PyObject *value = default_value(f, defaults), *values = text_tuple(f->values != NULL ? f->values : "");
    if (value != NULL && values != NULL)
        return Py_BuildValue("(ssNN)", f->name, kinds[f->kind], value, values);
    Py_XDECREF(value);
    Py_XDECREF(values);
    return NULL;
}

static bool in_group(field_kind kind, int group)
{
    return group == 0   ? kind >= FIELD_RESULT && kind <= FIELD_RESULTS
           : group == 1 ? kind < FIELD_RESULT
                        : kind > FIELD_RESULTS;
}

/* group 0: results; 1: operands; 2: attributes. */
static PyObject *describe_group(const instruction *row, int group)
{
    size_t count;
    const field *fields = row->fields(&count);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (!in_group(fields[i].kind, group))
            continue;
        PyObject *item = describe_field(&fields[i], row->defaults);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *tuple = list != NULL ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *describe(const instruction *row)
{
    PyObject *results = describe_group(row, 0), *operands = describe_group(row, 1),
             *attributes = describe_group(row, 2);
    PyObject *types = text_tuple(row->type_variables);
    if (results != NULL && operands != NULL && attributes != NULL && types != NULL)
        return Py_BuildValue("{sNsNsNsNsssssisOsO}", "results", results, "operands", operands, "attributes", attributes,
                             "types", types, "summary", row->summary, "gradient", row->gradient, "number",
                             (int)row->number, "once", row->once ? Py_True : Py_False, "into",
                             row->into != 0 ? Py_True : Py_False);
    Py_XDECREF(results);
    Py_XDECREF(operands);
    Py_XDECREF(attributes);
    Py_XDECREF(types);
    return NULL;
}

int instructions_add(PyObject *module, tape_state *state)
{
    state->instruction_index = PyDict_New();
    state->instructions = PyDict_New();
    bool good = state->instruction_index != NULL && state->instructions != NULL;
    for (size_t i = 0; good && i < instruction_count; i++) {
        PyObject *index = PyLong_FromSize_t(i), *row = describe(&instruction_table[i]);
        good = index != NULL && row != NULL &&
               PyDict_SetItemString(state->instruction_index, instruction_table[i].name, index) == 0 &&
               PyDict_SetItemString(state->instructions, instruction_table[i].name, row) == 0;
        Py_XDECREF(index);
        Py_XDECREF(row);
    }
    return good ? PyModule_AddObjectRef(module, "INSTRUCTIONS", state->instructions) : -1;
}
