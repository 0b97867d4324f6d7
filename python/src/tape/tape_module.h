/* The parts that the files of xcvm._tape share. Values and errors go through the capsule of xcvm._run. */
#ifndef XCVM_PYTHON_SRC_TAPE_TAPE_MODULE_H
#define XCVM_PYTHON_SRC_TAPE_TAPE_MODULE_H

#include "capi.h"

#include <xcvm/functions.h>
#include <xcvm/layers.h>
#include <xcvm/optimizers.h>
#include <xcvm/tape.h>
#include <xcvm/tape_static.h>

typedef struct tape_state {
    PyObject *capsule;
    const capi *api;
    PyTypeObject *tape_type, *variable_type, *operation_type, *static_type, *layer_type, *optimizer_type;
    PyObject *instruction_index; /* dict: name to number in the table */
    PyObject *instructions;      /* dict: name to description */
} tape_state;

/* Frees an object that PyType_GenericAlloc made; the reference to its type stays the caller's. */
static inline void object_free(PyTypeObject *type, void *object)
{
    ((freefunc)(uintptr_t)PyType_GetSlot(type, Py_tp_free))(object);
}

/* ---- Tapes (tape.c) ---- */

typedef struct tape_callback tape_callback;
typedef struct release_list release_list;

typedef struct tape_object {
    PyObject_HEAD tape_state *state;
    xcvm_tape *tape;
    unsigned long thread; /* that the tape belongs to */
    PyTypeObject *variable_type;
    xcvm_tape_mode mode;
    int depth;                /* of running functions that may call back */
    xcvm_scope scope;         /* of the outermost one, on an eager tape */
    PyObject *failure[3];     /* the first exception of a callback */
    PyObject *lent;           /* list: results of callbacks that running functions read */
    tape_callback *callbacks; /* hooks and observers, as long as the tape lives */
    PyObject *kept;           /* list: objects that live as long as the tape */
    PyObject *print, *observer, *functions;
    xcvm_host_function *function_table;
    tape_callback *function_callbacks;
    PyThreadState *released;      /* while the library computes without the interpreter lock */
    uint32_t cancelled;           /* set by Ctrl-C */
    interrupt_scope interruption; /* of the outermost such computation */
    int computations;             /* nested ones */
    bool armed;                   /* Ctrl-C cancels the outermost one */
    release_list *releases;       /* handles and objects whose owners died elsewhere, or while a function ran */
} tape_object;

/* The user pointer of functions that the library calls. */
struct tape_callback {
    tape_callback *next;
    tape_object *tape; /* borrowed */
    PyObject *callable;
};

/* Each function of a tape or of its objects begins with this. Returns false with an exception on another thread. */
bool tape_begin(tape_object *self);
/* Functions that may call back, or make several calls, enter and leave. Results of callbacks live until the outermost
 * one has left, and so do, on an eager tape, variables without an object. */
bool tape_enter(tape_object *self);
void tape_leave(tape_object *self);
/* Begin and end a computation that may be long: it has no interpreter lock, and Ctrl-C ends it. The end keeps the
 * exception for tape_check and tape_raise. */
void tape_compute_begin(tape_object *self);
void tape_compute_end(tape_object *self);
/* Begin and end a callback: it has the interpreter lock, whether the library computes with or without it. */
bool tape_callback_begin(tape_object *self);
void tape_callback_end(tape_object *self, bool released);
/* Raises the exception that a callback left, or that of `error`. Returns NULL. */
PyObject *tape_raise(tape_object *self, const xcvm_error *error);
/* Raises the failure that the tape has, if any. Returns -1 then, else 0. */
int tape_check(tape_object *self);
/* Keeps the current exception, which ends the running function, and makes the tape fail. */
void tape_fail_by_exception(tape_object *self);
/* Keeps an object until the outermost running function has left. Returns -1 with an exception. */
int tape_lend(tape_object *self, PyObject *object);
/* Keeps an object as long as the tape lives. Returns -1 with an exception. */
int tape_keep(tape_object *self, PyObject *object);
/* The object that running functions were lent and that has a variable, or NULL. Borrowed. */
PyObject *tape_find_lent(const tape_object *self, xcvm_var v);
/* Creates a callback that lives as long as the tape. NULL with an exception. */
tape_callback *tape_add_callback(tape_object *self, PyObject *callable);
/* Releases a handle, or destroys an object, now or as soon as the tape can. */
typedef enum release_kind { RELEASE_VARIABLE, RELEASE_LAYER, RELEASE_OPTIMIZER, RELEASE_STATIC } release_kind;
void tape_release(tape_object *self, release_kind kind, xcvm_var v, void *object);
bool is_tape(const tape_state *state, PyObject *object);

/* ---- Inspection (inspect.c) ---- */

PyObject *tape_info(tape_object *self, PyObject *unused);
PyObject *tape_memory_info(tape_object *self, PyObject *unused);
PyObject *tape_draw(tape_object *self, PyObject *unused);
PyObject *tape_set_observer(tape_object *self, PyObject *callable);

/* ---- Variables (variable.c) ---- */

typedef struct variable_object {
    PyObject_HEAD tape_object *tape;
    xcvm_var v;
    bool owned;      /* released with the object */
    PyObject *owner; /* keeps the variable alive if it is not owned; may be NULL */
    PyObject *weak_references;
} variable_object;

/* How a new object has its variable. RESULT: the caller's, to be kept. RETURNED: the same, but an object that a
 * callback returned may have it already. LENT: somebody else's. */
typedef enum variable_ownership {
    VARIABLE_RESULT,
    VARIABLE_RETURNED,
    VARIABLE_CONSTANT,
    VARIABLE_PARAMETER,
    VARIABLE_LENT
} variable_ownership;
/* Creates the object of a variable. A failed variable raises the tape's failure. `owner` may be NULL. */
PyObject *variable_create(tape_object *tape, xcvm_var v, variable_ownership ownership, PyObject *owner);
/* The same for one that may be absent, which is None. */
PyObject *variable_or_none(tape_object *tape, xcvm_var v, variable_ownership ownership);
bool is_variable(const tape_state *state, PyObject *object);
/* Reads a variable of a tape; None is absent if `optional`. Returns -1 with an exception that begins with `what`. */
int variable_read(tape_object *tape, PyObject *object, bool optional, const char *what, xcvm_var *v);
/* Whether a call on the variable may take long, on an eager tape. */
bool variable_is_large(const tape_object *tape, xcvm_var v);
/* Variables of a sequence. */
typedef struct variable_list {
    xcvm_var *at;
    size_t count;
    PyObject *sequence; /* keeps the objects */
} variable_list;
int variable_list_read(tape_object *tape, PyObject *object, bool optional, const char *what, variable_list *list);
void variable_list_release(variable_list *list);
/* Makes a tuple of variables. */
PyObject *variable_tuple(tape_object *tape, const xcvm_var *vs, size_t count, variable_ownership ownership);

/* ---- Tensors from Python (data.c) ---- */

PyObject *tape_constant(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_parameter(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_value(tape_object *self, PyObject *object);
PyObject *variable_set_data(variable_object *self, PyObject *object);
/* Reads an element type: a name as "f32" or "float32", or an object with such a name. None is `none`. */
int dtype_read(const tape_state *state, PyObject *object, xcvm_dtype none, xcvm_dtype *dtype);

/* ---- Instructions (instructions.c, call.c) ---- */

typedef enum field_kind {
    FIELD_OPERAND,
    FIELD_OPTIONAL_OPERAND,
    FIELD_OPERANDS,
    FIELD_RESULT,
    FIELD_OPTIONAL_RESULT,
    FIELD_RESULTS,
    FIELD_INT,
    FIELD_INTS,
    FIELD_FLOAT,
    FIELD_FLOATS,
    FIELD_TEXT,
    FIELD_TEXTS,
    FIELD_DTYPE,
    FIELD_CHOICE,
    FIELD_KIND_COUNT
} field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset;      /* in the struct of a call */
    const char *kinds;  /* of a value: TENSOR, SEQUENCE ... */
    const char *types;  /* element types of a value: the name of a set or of a type variable */
    const char *values; /* names of a choice, each followed by | */
} field;

typedef struct instruction {
    const char *name, *summary, *type_variables;
    int32_t number;
    bool once; /* random, or with an effect: has all its results */
    const char *gradient;
    const field *(*fields)(size_t *count);
    size_t size, into; /* of the struct; `into` 0: none */
    const void *defaults;
} instruction;

extern const instruction instruction_table[];
extern const size_t instruction_count;
enum { MAX_CALL_SIZE = 1024, MAX_RESULTS = 8 };
int instructions_add(PyObject *module, tape_state *state);
PyObject *tape_call(tape_object *self, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* ---- Gradients and functions (gradients.c, functions.c, operation.c) ---- */

PyObject *tape_backward(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_gradients(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_vjp(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_jvp(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_hvp(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_jacobian(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_check_gradients(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *variable_add_hook(variable_object *self, PyObject *callable);
PyObject *variable_gradient(variable_object *self, void *closure);
PyObject *variable_gradient_rows(variable_object *self, PyObject *unused);
PyObject *tape_operation(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_pick_neg_log_softmax(tape_object *self, PyObject *args);
PyObject *tape_affine_transform(tape_object *self, PyObject *args);
PyObject *tape_hinge(tape_object *self, PyObject *args);
PyObject *tape_scale_gradient(tape_object *self, PyObject *args);

/* ---- Programs and control flow (program.c, control.c) ---- */

PyObject *tape_input(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_compile(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_branch(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_loop(tape_object *self, PyObject *args, PyObject *keywords);

/* ---- Static functions, layers, optimizers ---- */

extern PyType_Spec tape_spec, variable_spec, operation_spec, static_spec, layer_spec, optimizer_spec;
PyObject *tape_static(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_layer(tape_object *self, PyObject *args, PyObject *keywords);
PyObject *tape_optimizer(tape_object *self, PyObject *args, PyObject *keywords);

typedef struct layer_object {
    PyObject_HEAD tape_object *tape;
    xcvm_layer *layer;
    bool keeps_result; /* the result may be a state, which the layer releases in its next call */
} layer_object;
bool is_layer(const tape_state *state, PyObject *object);

#endif
