/*
 * The parts that the files of the Python extension share. The extension uses CPython's limited API 3.11, so that one
 * binary serves 3.11 and later. The public headers of XCVM are its only other dependency.
 *
 * Each interpreter has its own module state. Objects keep a pointer to it: their types refer to the module, so the
 * state lives longer than they do.
 */
#ifndef XCVM_PYTHON_SRC_XCVM_PYTHON_H
#define XCVM_PYTHON_SRC_XCVM_PYTHON_H

/* Free-threaded builds of CPython have no stable ABI before 3.15 and define Py_GIL_DISABLED. */
#if !defined(Py_GIL_DISABLED) && !defined(Py_LIMITED_API)
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <xcvm/xcvm.h>

#include <stdatomic.h>
#include <stdbool.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define OBJECT(pointer) ((PyObject *)(pointer))
/* Entries of tables of methods and slots. */
#define FUNCTION(function) ((PyCFunction)(void (*)(void))(function))
#define SLOT(function) ((void *)(uintptr_t)(function))

/* ---- Module state (module.c) ---- */

typedef struct trash_list trash_list;

typedef struct module_state {
    PyTypeObject *tensor_type, *program_type, *session_type, *parameter_type;
    PyObject *name_array_interface, *name_dlpack, *name_dlpack_device, *name_dtype, *name_name;
    PyObject *get_signal, *default_handler, *interrupt_number; /* NULL until interrupt_raises needs them */
    trash_list *trash;
    _Atomic uint64_t copied_bytes; /* elements of inputs and outputs that were copied */
} module_state;

/* Returns the state of the module that defines a type or its nearest base. NULL with an exception. */
module_state *state_of_type(PyTypeObject *type);

/* Slots that CPython 3.12 and 3.13 know, by their numbers, since the limited API of 3.11 has no names for them: the
 * modules work in interpreters with locks of their own, and without a lock. `slots` has room for two. */
static inline void module_slots_add(PyModuleDef_Slot *slots)
{
#ifdef Py_LIMITED_API
    const unsigned long version = Py_Version;
#else
    const unsigned long version = PY_VERSION_HEX;
#endif
    if (version >= 0x030c0000)
        *slots++ = (PyModuleDef_Slot){3, (void *)2};
    if (version >= 0x030d0000)
        *slots = (PyModuleDef_Slot){4, (void *)1};
}

/* ---- Errors (errors.c) ---- */

/* Raises the exception of a status, from xcvm.errors. Returns NULL. */
PyObject *raise_error(const xcvm_error *error);
/* Raises the exception of a status with a formatted message. Returns NULL. */
PyObject *raise_status(xcvm_status status, const char *format, ...);
/* Moves the current exception's text into an xcvm_error, for callbacks. The exception stays set. */
xcvm_status error_from_exception(xcvm_error *error, const char *where);

/* ---- Element types (dtypes.c) ---- */

typedef struct dtype_info {
    xcvm_dtype dtype;
    const char *format;     /* of the buffer protocol; NULL: not expressible */
    const char *numpy_name; /* NumPy's, or that of ml_dtypes */
    uint8_t dlpack_code, dlpack_bits;
} dtype_info;

/* Returns NULL for an unknown type. */
const dtype_info *dtype_find(xcvm_dtype dtype);
/* Return XCVM_NO_DTYPE for an unknown name, format or code. `swapped` is set for the foreign byte order. */
xcvm_dtype dtype_from_format(const char *format, Py_ssize_t item_size, bool *swapped);
xcvm_dtype dtype_from_numpy_name(const char *name);
xcvm_dtype dtype_from_dlpack(int code, int bits);
/* True for elements of fewer than 8 bits, which are packed. */
bool dtype_is_packed(xcvm_dtype dtype);
/* Returns element `index` as a Python number, or NULL with an exception. Not for strings. */
PyObject *dtype_element(xcvm_dtype dtype, const void *data, size_t index);
/* Whether elements of this type can be made of Python numbers. */
bool dtype_stores(xcvm_dtype dtype);
/* Stores a Python number as element 0. Returns false with an exception if it does not fit. */
bool dtype_store(xcvm_dtype dtype, void *data, PyObject *number);

/* ---- Tensors (tensor.c) ---- */

/* A value of the tensor kind, owned by Python. */
typedef struct tensor_object {
    PyObject_HEAD module_state *state;
    xcvm_value *value;
    Py_ssize_t shape[XCVM_MAX_RANK], strides[XCVM_MAX_RANK]; /* strides in bytes; unused for packed types */
} tensor_object;

extern PyType_Spec tensor_spec;
/* Takes the reference `value`, also on failure. */
PyObject *tensor_from_value(module_state *state, xcvm_value *value);
/* Makes a Python object of a value: tensor, list, None, dict. Copies lent memory. */
PyObject *object_from_value(module_state *state, const xcvm_value *value);
bool is_tensor(const module_state *state, PyObject *object);

/* DLPack (dlpack.c). */
PyObject *dlpack_export(tensor_object *self, PyObject *args, PyObject *keywords);
/* Stores a value that shares the memory of an object with __dlpack__. Returns -1 with an exception on failure. */
int dlpack_import(module_state *state, PyObject *object, xcvm_value **value);

/* ---- Inputs (input.c, memory.c, numbers.c, strings.c) ---- */

/* Makes a value of an object for an input of a declared type. The value shares the object's memory if element type and
 * layout allow it. `type` NULL: the object decides. Returns NULL with an exception that names the input `name`. */
xcvm_value *value_from_object(module_state *state, PyObject *object, const xcvm_type *type, const char *name);
/* Reads a shape from a sequence of integers. Returns the rank, or -1 with an exception. */
int shape_from_object(PyObject *object, int64_t dims[XCVM_MAX_RANK]);

/* Elements in memory of Python's. */
typedef struct element_memory {
    xcvm_dtype dtype;
    int rank;
    bool swapped; /* foreign byte order */
    char *data;
    const Py_ssize_t *shape, *strides; /* strides in bytes; NULL: dense */
    Py_buffer *buffer;                 /* the owner, moved into the value on success; NULL: `owner` */
    PyObject *owner;
} element_memory;
/* Makes a value that shares the memory, or a copy where layout or alignment require one. -1 with an exception. */
int value_from_memory(module_state *state, const element_memory *memory, xcvm_value **value);
/* Makes a value of an object with the buffer protocol or an array interface. `wanted` is the element type of raw bytes
 * and unpacked elements. Returns 1 on success, 0 if the object has neither, -1 with an exception on failure. */
int value_from_buffer(module_state *state, PyObject *object, xcvm_dtype wanted, xcvm_value **value);
int value_from_array_interface(module_state *state, PyObject *object, xcvm_dtype wanted, xcvm_value **value);
/* Makes a value that shares writable memory of an object, for a bound output. NULL with an exception. */
xcvm_value *value_from_writable(module_state *state, PyObject *object, xcvm_dtype wanted);
/* Makes a tensor of nested lists or tuples of numbers, of the type `wanted` or NumPy's type for them. Returns 0 if
 * there is anything else in them, or if the type takes no numbers. */
int value_from_numbers(PyObject *object, xcvm_dtype wanted, xcvm_value **value);
/* Makes a string tensor of a str, bytes, nested list or NumPy array. */
xcvm_value *value_from_strings(PyObject *object);

/* Memory of Python objects is released with the interpreter lock held only. Releases that happen elsewhere, such as on
 * a thread of a run, wait in the trash until trash_empty. */
trash_list *trash_create(void);
void trash_destroy(trash_list *trash);
void trash_empty(trash_list *trash);
/* The owner of memory that a value shares: an exported buffer, or an object. */
typedef struct memory_holder memory_holder;
/* Moves `buffer` (may be NULL) and a reference to `object` (may be NULL) into a new holder. NULL with an exception. */
memory_holder *holder_create(module_state *state, Py_buffer *buffer, PyObject *object);
/* For xcvm_tensor_wrap. May be called on any thread. */
void holder_release(void *holder);
/* Frees a holder that no value owns. The buffer stays the caller's. Requires the interpreter lock. */
void holder_abandon(memory_holder *holder);

/* ---- Programs and sessions (program.c, session.c, parameter.c) ---- */

typedef struct session_runner session_runner;

typedef struct program_object {
    PyObject_HEAD module_state *state;
    xcvm_program *program;
    PyObject *bytes;      /* borrowed by the program; NULL for a file */
    session_runner *idle; /* pool of sessions for calls */
    atomic_flag lock;
    xcvm_session_options options; /* of the sessions of the pool */
    PyObject *input_index;        /* dict: name to index */
} program_object;

extern PyType_Spec program_spec, session_spec;
extern PyStructSequence_Desc parameter_description;
PyObject *parameter_from(module_state *state, const xcvm_value_info *parameter);
/* Returns the index of a name among `count` parameters, or -1 with an exception that lists the names. */
Py_ssize_t parameter_index(const xcvm_value_info *(*at)(const xcvm_program *, size_t), const xcvm_program *program,
                           size_t count, const char *name, const char *what);
PyObject *parameter_tuple(module_state *state, const xcvm_program *program,
                          const xcvm_value_info *(*at)(const xcvm_program *, size_t), size_t count);
/* Returns the only item of a list, or a tuple of all. Takes the list, which may be NULL. */
PyObject *unwrap_outputs(PyObject *list);
bool is_program(const module_state *state, PyObject *object);

/* ---- Runs (run.c) ---- */

/* A host function, and the runner that calls it. */
typedef struct host_function {
    PyObject *callable;
    session_runner *runner;
} host_function;

/* A session and the state of its calls. One call at a time. */
struct session_runner {
    session_runner *next; /* in the pool */
    module_state *state;
    program_object *program; /* strong for sessions, borrowed in the pool */
    xcvm_session *session;
    size_t input_count, output_count;
    xcvm_value **input_placeholders, **output_placeholders; /* bound between calls, see run.c */
    xcvm_value **bound;                                     /* outputs bound by the user */
    bool predicts;                                          /* outputs of known size are written without a copy */
    bool keeps_lock;                                        /* keeps the interpreter lock while it runs */
    atomic_bool busy, cancelled;                            /* cancelled: by cancel(), not by an interrupt */
    uint64_t last_ns;                                       /* duration of the last run */
    PyThreadState *thread;
    PyObject *failure[3]; /* exception of a callback */
    PyObject *print;      /* callable or NULL */
    host_function *functions;
    xcvm_host_function *function_table;
    size_t function_count;
};

typedef struct run_arguments {
    PyObject *const *inputs; /* one for each input; borrowed */
    xcvm_run_options options;
} run_arguments;

/* Creates the session of a zeroed runner. Returns -1 with an exception. */
int runner_create(session_runner *runner, program_object *program, const xcvm_session_options *options);
void runner_destroy(session_runner *runner);
/* Enter and leave a call. Returns -1 with an exception if another thread uses the session. */
int runner_enter(session_runner *runner);
void runner_leave(session_runner *runner);
/* Runs the program. Returns a list of its outputs, or NULL with an exception. */
PyObject *runner_run(session_runner *runner, const run_arguments *arguments);
/* Calls `xcvm_session_run` or `xcvm_session_warm_up` without the interpreter lock; interrupts end it. */
int runner_execute(session_runner *runner, const xcvm_run_options *options, bool warm_up);
/* Matches positional and keyword arguments with inputs. Borrowed references. Returns -1 with an exception. */
int match_inputs(program_object *program, PyObject *args, PyObject *keywords, PyObject **inputs);
/* Reads a limit in seconds. None and 0 mean no limit. Returns -1 with an exception. */
int timeout_from_object(PyObject *object, uint64_t *ns);
/* Reads an integer from 0 on into a uint64_t, for PyArg_ParseTuple's "O&". Returns 0 with an exception. */
int count_converter(PyObject *object, void *count);

/* ---- Interrupts (interrupt.c) ---- */

/* SIGINT cancels the session that runs on the main thread, or sets the flag of a compilation there. */
typedef struct interrupt_scope {
    xcvm_session *previous;
    uint32_t *previous_flag;
    bool armed;
} interrupt_scope;
void interrupt_begin(interrupt_scope *interruption, xcvm_session *session, bool expected_long);
void interrupt_end(const interrupt_scope *interruption);
/* The flag must live until the end, which waits for handlers that use it. */
void interrupt_begin_flag(interrupt_scope *interruption, uint32_t *flag);
void interrupt_end_flag(const interrupt_scope *interruption);
/* Whether Ctrl-C raises KeyboardInterrupt: the handler of SIGINT is Python's (handler.c). */
bool interrupt_raises(module_state *state);
/* Waits until no signal handler uses a session any more. Call it before a session is destroyed. */
void interrupt_wait(void);
/* Notes the thread that started the process, if that is the calling one. Saves other threads a call of the kernel each
 * run. */
void interrupt_find_main_thread(void);

/* ---- Profiles (profile.c) ---- */

/* Runs `runs` times. Returns the list of events, each a tuple, and the list of outputs of the last run. */
PyObject *runner_profile(session_runner *runner, const run_arguments *arguments, long runs, bool spans);

/* ---- Use by the compiler's module (capi.h) ---- */

PyObject *capi_create(module_state *state);

#endif
