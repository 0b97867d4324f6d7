/* The addon for Node: programs, sessions and the compiler for web/js/native.js, over N-API. Every function checks its
 * arguments, and throws the error that the function of `initialize` makes. Nothing is global: each environment (worker)
 * has data of its own. */
#ifndef XCVM_WEB_NODE_ADDON_H
#define XCVM_WEB_NODE_ADDON_H

#define NAPI_VERSION 8
#include "web/src/bytes.h"
#include "xcvm/xcvm.h"

#include <node_api.h>

enum { ADDON_MOST_ARGUMENTS = 10 };

/* Arguments of a call. Those that are absent are undefined. */
typedef struct addon_arguments {
    napi_value at[ADDON_MOST_ARGUMENTS];
} addon_arguments;

/* Returns false, with an exception, if the arguments cannot be had. */
bool addon_arguments_get(napi_env env, napi_callback_info info, addon_arguments *arguments);

/* ---- Errors ---- */

/* Throws an error of the VM. Returns NULL, for functions to return. */
napi_value addon_throw(napi_env env, const xcvm_error *error);
/* Makes the error that addon_throw throws. NULL, with an exception, if it cannot be made. */
napi_value addon_make_error(napi_env env, const xcvm_error *error);
/* Throws an error with a status and a message. */
napi_value addon_fail(napi_env env, xcvm_status status, const char *message);
/* Throws the error that N-API reports for a call that failed, unless an exception is pending. */
napi_value addon_failed_call(napi_env env);
/* Stores the function that makes errors: (status, message, pc, instruction, node). */
napi_value addon_initialize(napi_env env, napi_callback_info info);
bool addon_data_create(napi_env env);

/* ---- Arguments and results ---- */

/* These return false, with an exception that names `what`, if the argument has another type. */
bool addon_get_number(napi_env env, napi_value value, const char *what, double *number);
bool addon_get_index(napi_env env, napi_value value, const char *what, size_t *index);
/* The text is in malloc's memory, of the caller. */
bool addon_get_text(napi_env env, napi_value value, const char *what, char **text, size_t *length);
/* The bytes of a typed array, valid until JavaScript runs. */
bool addon_get_bytes(napi_env env, napi_value value, const char *what, void **bytes, size_t *count);
bool addon_get_array(napi_env env, napi_value value, const char *what, uint32_t *count);
/* True for a value that is neither undefined nor null. */
bool addon_is_given(napi_env env, napi_value value);

/* These return NULL, with an exception, after a failure. */
napi_value addon_number(napi_env env, double number);
napi_value addon_text(napi_env env, const char *text);
napi_value addon_buffer(napi_env env, const void *bytes, size_t count);
/* Destroys the bytes. */
napi_value addon_take_bytes(napi_env env, web_bytes *bytes, const xcvm_error *error);
/* False if the element is NULL, or cannot be stored. */
bool addon_set_element(napi_env env, napi_value array, uint32_t index, napi_value element);
bool addon_set_property(napi_env env, napi_value object, const char *name, napi_value value);

/* ---- Values ---- */

/* JavaScript's form: null, [1, dtype, dims, bytes, lengths of strings], or [kind, items]. Makes a counted value. */
bool addon_value_from(napi_env env, napi_value from, xcvm_value **value);
/* Copies a value. Items that share memory become one object: a list whose items share items would have exponentially
 * many copies. */
napi_value addon_value_to(napi_env env, const xcvm_value *value);
/* Reads an array of dimensions. */
bool addon_get_dims(napi_env env, napi_value array, int *rank, int64_t *dims);
napi_value addon_dims(napi_env env, int rank, const int64_t *dims);

/* ---- Programs ---- */

/* A program and its bytes, shared by its object and its sessions. */
typedef struct addon_program {
    int references; /* atomic */
    xcvm_program *program;
    void *bytes;
    size_t count;
} addon_program;

void addon_program_release(addon_program *program);
/* The program of an object, which is not disposed. */
addon_program *addon_program_get(napi_env env, napi_value object);
/* Makes an object of a tag, which owns `data`. */
napi_value addon_object(napi_env env, const napi_type_tag *tag, void *data, napi_finalize finalize);
/* The data of an object with that tag. NULL, with an exception, for others and for disposed objects. */
void *addon_object_data(napi_env env, napi_value object, const napi_type_tag *tag, const char *what);

/* The functions of the addon, by file. */
typedef struct addon_function {
    const char *name;
    napi_callback call;
} addon_function;
extern const addon_function addon_program_functions[], addon_session_functions[], addon_run_functions[];

#endif
