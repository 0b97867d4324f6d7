/* The module, its errors, and arguments and results of its functions. */
#include "web/node/addon.h"

#include <stdlib.h>
#include <string.h>

/* Data of an environment. */
typedef struct addon_data {
    napi_ref make_error;
} addon_data;

static void destroy_data(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    free(data);
}

bool addon_data_create(napi_env env)
{
    addon_data *data = calloc(1, sizeof *data);
    if (data == NULL || napi_set_instance_data(env, data, destroy_data, NULL) != napi_ok) {
        free(data);
        return false;
    }
    return true;
}

napi_value addon_initialize(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    addon_data *data = NULL;
    napi_valuetype type;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    if (napi_typeof(env, arguments.at[0], &type) != napi_ok || type != napi_function ||
        napi_get_instance_data(env, (void **)&data) != napi_ok || data == NULL) {
        napi_throw_type_error(env, NULL, "initialize: expected a function that makes errors");
        return NULL;
    }
    if (data->make_error != NULL)
        napi_delete_reference(env, data->make_error);
    if (napi_create_reference(env, arguments.at[0], 1, &data->make_error) != napi_ok)
        return addon_failed_call(env);
    return NULL;
}

/* ---- Errors ---- */

napi_value addon_make_error(napi_env env, const xcvm_error *error)
{
    addon_data *data = NULL;
    napi_value make, receiver, result, arguments[5];
    if (napi_get_instance_data(env, (void **)&data) != napi_ok || data == NULL || data->make_error == NULL ||
        napi_get_reference_value(env, data->make_error, &make) != napi_ok || make == NULL) {
        napi_throw_error(env, NULL, error->message);
        return NULL;
    }
    if ((arguments[0] = addon_number(env, (double)error->status)) == NULL ||
        (arguments[1] = addon_text(env, error->message)) == NULL ||
        (arguments[2] = addon_number(env, error->pc)) == NULL ||
        (arguments[3] = addon_text(env, error->instruction)) == NULL ||
        (arguments[4] = addon_text(env, error->node)) == NULL)
        return NULL;
    if (napi_get_undefined(env, &receiver) != napi_ok ||
        napi_call_function(env, receiver, make, 5, arguments, &result) != napi_ok)
        return addon_failed_call(env);
    return result;
}

napi_value addon_throw(napi_env env, const xcvm_error *error)
{
    const napi_value made = addon_make_error(env, error);
    if (made != NULL)
        napi_throw(env, made);
    return NULL;
}

napi_value addon_fail(napi_env env, xcvm_status status, const char *message)
{
    xcvm_error error = {.status = status, .pc = -1};
    strncpy(error.message, message, sizeof error.message - 1);
    return addon_throw(env, &error);
}

napi_value addon_failed_call(napi_env env)
{
    const napi_extended_error_info *info = NULL;
    napi_get_last_error_info(env, &info);
    const char *message = info != NULL && info->error_message != NULL ? info->error_message : "a call of Node failed";
    bool pending = false;
    if (napi_is_exception_pending(env, &pending) == napi_ok && !pending)
        napi_throw_error(env, NULL, message);
    return NULL;
}

static bool fail_argument(napi_env env, const char *what, const char *expected)
{
    xcvm_error error = {.status = XCVM_INVALID_ARGUMENT, .pc = -1};
    strncat(error.message, what, 200);
    strcat(error.message, ": expected ");
    strncat(error.message, expected, 200);
    addon_throw(env, &error);
    return false;
}

/* ---- Arguments ---- */

bool addon_arguments_get(napi_env env, napi_callback_info info, addon_arguments *arguments)
{
    size_t count = ADDON_MOST_ARGUMENTS;
    if (napi_get_cb_info(env, info, &count, arguments->at, NULL, NULL) == napi_ok)
        return true;
    addon_failed_call(env);
    return false;
}

bool addon_get_number(napi_env env, napi_value value, const char *what, double *number)
{
    return napi_get_value_double(env, value, number) == napi_ok || fail_argument(env, what, "a number");
}

bool addon_get_index(napi_env env, napi_value value, const char *what, size_t *index)
{
    double number;
    if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= 0 && number < 4294967296.0))
        return fail_argument(env, what, "an index");
    *index = (size_t)number;
    return true;
}

bool addon_get_text(napi_env env, napi_value value, const char *what, char **text, size_t *length)
{
    size_t count = 0;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &count) != napi_ok)
        return fail_argument(env, what, "a text");
    char *copy = malloc(count + 1);
    if (copy == NULL) {
        addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for a text");
        return false;
    }
    napi_get_value_string_utf8(env, value, copy, count + 1, &count);
    *text = copy;
    if (length != NULL)
        *length = count;
    return true;
}

/* Bytes of an element of a typed array. */
static size_t element_size(napi_typedarray_type type)
{
    switch (type) {
    case napi_int8_array:
    case napi_uint8_array:
    case napi_uint8_clamped_array:
        return 1;
    case napi_int16_array:
    case napi_uint16_array:
        return 2;
    case napi_int32_array:
    case napi_uint32_array:
    case napi_float32_array:
        return 4;
    default:
        return 8;
    }
}

bool addon_get_bytes(napi_env env, napi_value value, const char *what, void **bytes, size_t *count)
{
    bool is_array = false;
    napi_typedarray_type type;
    size_t length = 0;
    void *data = NULL;
    if (napi_is_typedarray(env, value, &is_array) != napi_ok || !is_array ||
        napi_get_typedarray_info(env, value, &type, &length, &data, NULL, NULL) != napi_ok)
        return fail_argument(env, what, "a typed array");
    *bytes = data;
    *count = data != NULL ? length * element_size(type) : 0;
    return true;
}

bool addon_get_array(napi_env env, napi_value value, const char *what, uint32_t *count)
{
    bool is_array = false;
    return (napi_is_array(env, value, &is_array) == napi_ok && is_array &&
            napi_get_array_length(env, value, count) == napi_ok) ||
           fail_argument(env, what, "an array");
}

bool addon_is_given(napi_env env, napi_value value)
{
    napi_valuetype type = napi_undefined;
    return napi_typeof(env, value, &type) == napi_ok && type != napi_undefined && type != napi_null;
}

/* ---- Results ---- */

napi_value addon_number(napi_env env, double number)
{
    napi_value value;
    return napi_create_double(env, number, &value) == napi_ok ? value : addon_failed_call(env);
}

napi_value addon_text(napi_env env, const char *text)
{
    napi_value value;
    return napi_create_string_utf8(env, text != NULL ? text : "", NAPI_AUTO_LENGTH, &value) == napi_ok
               ? value
               : addon_failed_call(env);
}

napi_value addon_buffer(napi_env env, const void *bytes, size_t count)
{
    napi_value buffer;
    void *data;
    if (napi_create_arraybuffer(env, count, &data, &buffer) != napi_ok) {
        bool pending = false;
        napi_is_exception_pending(env, &pending);
        return pending ? NULL : addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for an ArrayBuffer of the result");
    }
    if (count > 0)
        memcpy(data, bytes, count);
    return buffer;
}

napi_value addon_take_bytes(napi_env env, web_bytes *bytes, const xcvm_error *error)
{
    if (bytes == NULL)
        return addon_throw(env, error);
    const napi_value buffer = addon_buffer(env, bytes->at, bytes->count);
    web_bytes_destroy(bytes);
    return buffer;
}

bool addon_set_element(napi_env env, napi_value array, uint32_t index, napi_value element)
{
    if (element != NULL && napi_set_element(env, array, index, element) == napi_ok)
        return true;
    addon_failed_call(env);
    return false;
}

bool addon_set_property(napi_env env, napi_value object, const char *name, napi_value value)
{
    if (value != NULL && napi_set_named_property(env, object, name, value) == napi_ok)
        return true;
    addon_failed_call(env);
    return false;
}

/* ---- Objects ---- */

napi_value addon_object(napi_env env, const napi_type_tag *tag, void *data, napi_finalize finalize)
{
    napi_value object;
    if (napi_create_object(env, &object) != napi_ok || napi_type_tag_object(env, object, tag) != napi_ok ||
        napi_wrap(env, object, data, finalize, NULL, NULL) != napi_ok)
        return addon_failed_call(env);
    return object;
}

void *addon_object_data(napi_env env, napi_value object, const napi_type_tag *tag, const char *what)
{
    bool is_tagged = false;
    void *data = NULL;
    if (napi_check_object_type_tag(env, object, tag, &is_tagged) != napi_ok || !is_tagged ||
        napi_unwrap(env, object, &data) != napi_ok)
        fail_argument(env, what, "an object of this addon that is not disposed");
    return data;
}

/* ---- The module ---- */

static const addon_function general_functions[] = {{"initialize", addon_initialize}, {NULL, NULL}};

NAPI_MODULE_INIT(/* env, exports */)
{
    const addon_function *const lists[] = {general_functions, addon_program_functions, addon_session_functions,
                                           addon_run_functions};
    if (!addon_data_create(env))
        return addon_failed_call(env);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const addon_function *f = lists[i]; f->name != NULL; f++) {
            napi_value function;
            if (napi_create_function(env, f->name, NAPI_AUTO_LENGTH, f->call, NULL, &function) != napi_ok)
                return addon_failed_call(env);
            if (!addon_set_property(env, exports, f->name, function))
                return NULL;
        }
    if (!addon_set_property(env, exports, "version", addon_text(env, xcvm_version())))
        return NULL;
    return exports;
}
