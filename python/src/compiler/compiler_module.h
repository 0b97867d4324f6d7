/* The parts that the files of xcvm._compiler share. Values and errors go through the capsule of xcvm._run. */
#ifndef XCVM_PYTHON_SRC_COMPILER_COMPILER_MODULE_H
#define XCVM_PYTHON_SRC_COMPILER_COMPILER_MODULE_H

#include "option_reader.h"

#include <xcvm/quantize.h>
#include <xcvm/train.h>

typedef struct compiler_state {
    PyObject *capsule;
    const capi *api;
    PyTypeObject *dataset_type, *trainer_type;
} compiler_state;

/* ---- Options (options.c) ---- */

/* Options of the compiler, and the memory that they refer to. */
typedef struct compile_options {
    xcc_options options;
    option_memory memory;
} compile_options;

/* Reads a dict of option names and values. Returns -1 with an exception; options_release is due in both cases. */
int options_read(compile_options *options, PyObject *dict);
void options_release(compile_options *options);
/* The names of all options, as a list. */
PyObject *options_names(void);

/* ---- Callbacks (callbacks.c) ---- */

/* Python functions that a call of the library may use. The library runs without the interpreter lock. */
typedef struct compiler_callbacks {
    PyThreadState *thread;
    PyObject *progress, *diagnostics, *dump; /* callables or NULL */
    PyObject *failure[3];                    /* the first exception of a callback */
    interrupt_scope interruption;
    uint32_t cancelled; /* set by Ctrl-C */
    bool armed;         /* Ctrl-C cancels the call */
} compiler_callbacks;

/* Reads a dict of callables. Returns -1 with an exception. */
int callbacks_read(compiler_callbacks *callbacks, PyObject *dict);
/* Sets the callbacks of the options. */
void callbacks_use(compiler_callbacks *callbacks, xcc_options *options);
void callbacks_enter(compiler_callbacks *callbacks);
void callbacks_leave(compiler_callbacks *callbacks);
/* Begin and end a call of the library on the options of callbacks_use. Ctrl-C on the main thread cancels it. */
void callbacks_begin(const compiler_state *state, compiler_callbacks *callbacks);
void callbacks_end(const compiler_state *state, compiler_callbacks *callbacks);
/* The same for calls that cannot be repeated: Ctrl-C cancels them only where it raises KeyboardInterrupt, which the end
 * keeps. */
void callbacks_begin_once(const compiler_state *state, compiler_callbacks *callbacks);
void callbacks_end_once(const compiler_state *state, compiler_callbacks *callbacks);
/* Returns true if a cancelled call must be repeated, because the program's handler of the signal raised nothing. */
bool callbacks_repeat(compiler_callbacks *callbacks, xcvm_status status);
/* Keeps the current exception for the end of the call. */
void callbacks_fail(compiler_callbacks *callbacks);
/* Raises the exception that a callback left, or that of `error`. Returns NULL. */
PyObject *callbacks_raise(const compiler_state *state, compiler_callbacks *callbacks, const xcvm_error *error);

/* ---- Reports (report.c) ---- */

PyObject *compile_report_dict(const xcc_report *report);

/* ---- Bytes (bytes.c) ---- */

/* Growing memory for a sink, usable without the interpreter lock. */
typedef struct byte_buffer {
    char *data;
    size_t count, capacity;
} byte_buffer;

/* A sink that appends to a buffer. */
xcvm_sink byte_buffer_sink(byte_buffer *buffer);
/* Makes bytes of the content and frees it. */
PyObject *byte_buffer_take(byte_buffer *buffer);

/* A model: a path, or bytes. */
typedef struct model_source {
    PyObject *path; /* bytes of the file system's encoding */
    Py_buffer buffer;
    bool has_buffer;
} model_source;

int model_source_read(model_source *source, PyObject *object);
void model_source_release(model_source *source);

/* ---- Functions of the module ---- */

PyObject *compiler_compile(PyObject *module, PyObject *args);
PyObject *compiler_check(PyObject *module, PyObject *args);
PyObject *compiler_recognize(PyObject *module, PyObject *args);
PyObject *compiler_default_inputs(PyObject *module, PyObject *args);
PyObject *compiler_export_c(PyObject *module, PyObject *args);
PyObject *compiler_image(PyObject *module, PyObject *args);
PyObject *compiler_load_value(PyObject *module, PyObject *args);
PyObject *compiler_save_value(PyObject *module, PyObject *args);
PyObject *compiler_lists(PyObject *module, PyObject *unused);
PyObject *compiler_quantize(PyObject *module, PyObject *args);

/* ---- Data sets and trainers (dataset.c, trainer.c) ---- */

extern PyType_Spec dataset_spec, trainer_spec;

typedef struct dataset_object {
    PyObject_HEAD const compiler_state *state;
    xct_dataset *dataset;
    size_t input_count;
    PyObject *trainer; /* that it was opened for, or NULL */
} dataset_object;

/* Reads a list of (name, kind, dtype, shape) and a list of columns (input, array or None, scale). */
typedef struct column_list {
    xct_column *items;
    size_t count;
    const char **paths;
    size_t path_count;
    PyObject *kept;
} column_list;
int column_list_read(column_list *columns, PyObject *paths, PyObject *rows);
void column_list_release(column_list *columns);
/* Makes an object of a data set, which it takes. */
PyObject *dataset_object_create(const compiler_state *state, xct_dataset *dataset, size_t input_count,
                                PyObject *trainer);
bool is_dataset(const compiler_state *state, PyObject *object);
/* Reads (kind, dtype, shape or None); an open dimension is None. Returns -1 with an exception. */
int type_from_object(PyObject *object, xcvm_type *type);

#endif
