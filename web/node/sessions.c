/* Sessions for JavaScript: creation, inputs, results and states. */
#include "web/node/session.h"

#include <stdlib.h>
#include <string.h>

static const napi_type_tag session_tag = {0x5843564d53657373, 0x21b7c65f90ae4d33};

/* ---- Life ---- */

typedef struct session_box {
    addon_session *session;
} session_box;

static void destroy_session(addon_session *s)
{
    if (s->session == NULL)
        return;
    xcvm_session_destroy(s->session);
    s->session = NULL;
    addon_program_release(s->program);
    s->program = NULL;
    if (__atomic_sub_fetch(&s->group->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(s->group);
    s->group = NULL;
}

void addon_session_release(addon_session *s)
{
    if (s == NULL || __atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    destroy_session(s);
    for (size_t i = 0; i < s->function_count; i++) {
        free((void *)(uintptr_t)s->functions[i].name);
        free(s->functions[i].user);
    }
    free(s->functions);
    free(s->views);
    free(s);
}

void addon_session_detach_views(napi_env env, addon_session *s)
{
    for (size_t i = 0; i < s->view_count; i++) {
        napi_value buffer = NULL;
        if (napi_get_reference_value(env, s->views[i], &buffer) == napi_ok && buffer != NULL)
            napi_detach_arraybuffer(env, buffer);
        napi_delete_reference(env, s->views[i]);
    }
    s->view_count = 0;
}

static void delete_references(napi_env env, addon_session *s)
{
    for (size_t i = 0; i < s->view_count; i++)
        napi_delete_reference(env, s->views[i]);
    s->view_count = 0;
}

/* Views may outlive the object: they keep the session's memory. */
static void finalize_session(napi_env env, void *data, void *hint)
{
    (void)hint;
    session_box *box = data;
    if (box->session != NULL) {
        delete_references(env, box->session);
        addon_session_release(box->session);
    }
    free(box);
}

addon_session *addon_session_get_any(napi_env env, napi_value object)
{
    const session_box *box = addon_object_data(env, object, &session_tag, "a session");
    if (box == NULL)
        return NULL;
    if (box->session == NULL)
        addon_fail(env, XCVM_INVALID_ARGUMENT, "the session is disposed");
    return box->session;
}

addon_session *addon_session_get(napi_env env, napi_value object)
{
    addon_session *s = addon_session_get_any(env, object);
    if (s == NULL || !s->group->is_running)
        return s;
    addon_fail(env, XCVM_INVALID_ARGUMENT,
               "the session, or one that shares its states, is running; a session does one thing at a time");
    return NULL;
}

/* ---- Creation ---- */

/* Options of createSession: numbers, a session whose states are shared, and names of functions. */
enum {
    ARGUMENT_PROGRAM,
    ARGUMENT_MEMORY,
    ARGUMENT_SEED,
    ARGUMENT_FLAGS,
    ARGUMENT_THREADS,
    ARGUMENT_STATES_OF,
    ARGUMENT_NAMES
};

static bool set_functions(napi_env env, napi_value names, addon_session *s)
{
    uint32_t count;
    if (!addon_get_array(env, names, "the names of functions", &count))
        return false;
    s->functions = calloc((size_t)count + 1, sizeof *s->functions);
    for (uint32_t i = 0; s->functions != NULL && i < count; i++) {
        napi_value name;
        char *text = NULL;
        host_function *function = malloc(sizeof *function);
        if (function == NULL)
            break;
        *function = (host_function){s, i};
        s->functions[i] = (xcvm_host_function){NULL, addon_session_call, function};
        s->function_count++;
        if (napi_get_element(env, names, i, &name) != napi_ok)
            return addon_failed_call(env), false;
        if (!addon_get_text(env, name, "the name of a function", &text, NULL))
            return false;
        s->functions[i].name = text;
    }
    if (s->functions != NULL && s->function_count == count)
        return true;
    addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for a session");
    return false;
}

static bool start_session(napi_env env, const addon_arguments *arguments, const addon_session *states_of,
                          addon_session *s)
{
    double memory, seed, flags, threads;
    xcvm_error error;
    if (!addon_get_number(env, arguments->at[ARGUMENT_MEMORY], "memoryLimit", &memory) ||
        !addon_get_number(env, arguments->at[ARGUMENT_SEED], "seed", &seed) ||
        !addon_get_number(env, arguments->at[ARGUMENT_FLAGS], "flags", &flags) ||
        !addon_get_number(env, arguments->at[ARGUMENT_THREADS], "threads", &threads))
        return false;
    const int bits = flags >= 0 && flags < 4 ? (int)flags : 0;
    const xcvm_session_options options = {
        .size = sizeof options,
        .threads = threads >= 0 && threads < 65536 ? (int)threads : 0,
        .memory_limit = memory > 0 && memory < 9e18 ? (size_t)memory : 0,
        .seed = seed >= 0 && seed < 1.8e19 ? (uint64_t)seed : 0,
        .flush_subnormals = (bits & 1) != 0,
        .strict_types = (bits & 2) != 0,
        .print = {addon_session_print, s},
        .functions = s->functions,
        .function_count = s->function_count,
        .states_of = states_of != NULL ? states_of->session : NULL,
    };
    if (xcvm_session_create(s->program->program, &options, &s->session, &error) == XCVM_OK)
        return true;
    addon_throw(env, &error);
    return false;
}

/* createSession(program, memoryLimit, seed, flags, threads, statesOf, names) */
static napi_value create_session(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    addon_session *states_of = NULL;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_program *program = addon_program_get(env, arguments.at[ARGUMENT_PROGRAM]);
    if (program == NULL)
        return NULL;
    if (addon_is_given(env, arguments.at[ARGUMENT_STATES_OF]) &&
        (states_of = addon_session_get(env, arguments.at[ARGUMENT_STATES_OF])) == NULL)
        return NULL;
    session_box *box = calloc(1, sizeof *box);
    addon_session *s = calloc(1, sizeof *s);
    session_group *group = states_of != NULL ? states_of->group : calloc(1, sizeof *group);
    if (box == NULL || s == NULL || group == NULL) {
        free(box);
        free(s);
        if (states_of == NULL)
            free(group);
        return addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for a session");
    }
    s->references = 1;
    s->program = program;
    bool good = set_functions(env, arguments.at[ARGUMENT_NAMES], s) && start_session(env, &arguments, states_of, s);
    napi_value object = NULL;
    if (good) {
        __atomic_add_fetch(&program->references, 1, __ATOMIC_ACQ_REL);
        __atomic_add_fetch(&group->references, 1, __ATOMIC_ACQ_REL);
        s->group = group;
        box->session = s;
        object = addon_object(env, &session_tag, box, finalize_session);
    } else if (states_of == NULL) {
        free(group);
    }
    if (object == NULL) {
        addon_session_release(s);
        free(box);
    }
    return object;
}

/* destroySession(session): its memory is free at once, views of it are detached. */
static napi_value destroy_object(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL)
        return NULL;
    addon_session_detach_views(env, s);
    delete_references(env, s);
    destroy_session(s);
    session_box *box = addon_object_data(env, arguments.at[0], &session_tag, "a session");
    box->session = NULL;
    addon_session_release(s);
    return NULL;
}

/* ---- Inputs ---- */

static napi_value undefined_result(napi_env env)
{
    napi_value undefined;
    return napi_get_undefined(env, &undefined) == napi_ok ? undefined : NULL;
}

/* setInput(session, index, value) */
static napi_value set_input(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    size_t index;
    xcvm_value *value;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_index(env, arguments.at[1], "an input", &index) ||
        !addon_value_from(env, arguments.at[2], &value))
        return NULL;
    const xcvm_status status = xcvm_session_set_input(s->session, index, value, &error);
    xcvm_value_release(value);
    return status == XCVM_OK ? undefined_result(env) : addon_throw(env, &error);
}

static void release_value(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)data;
    xcvm_value_release(hint);
}

/* createInput(session, index, dtype, dims): binds a tensor of zeros, and returns an ArrayBuffer over its elements,
 * which keeps them alive. */
static napi_value create_input(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    size_t index;
    double dtype;
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    xcvm_value *value;
    xcvm_error error;
    napi_value buffer;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_index(env, arguments.at[1], "an input", &index) ||
        !addon_get_number(env, arguments.at[2], "an element type", &dtype) ||
        !addon_get_dims(env, arguments.at[3], &rank, dims))
        return NULL;
    if (xcvm_tensor_create(NULL, (xcvm_dtype)dtype, rank, dims, &value, &error) != XCVM_OK)
        return addon_throw(env, &error);
    const size_t bytes = xcvm_value_bytes(value);
    if (bytes > 0)
        memset(xcvm_value_data(value), 0, bytes);
    if (xcvm_session_set_input(s->session, index, value, &error) != XCVM_OK) {
        xcvm_value_release(value);
        return addon_throw(env, &error);
    }
    if (bytes == 0) {
        xcvm_value_release(value);
        return addon_buffer(env, NULL, 0);
    }
    if (napi_create_external_arraybuffer(env, xcvm_value_data(value), bytes, release_value, value, &buffer) == napi_ok)
        return buffer;
    xcvm_value_release(value);
    return addon_fail(env, XCVM_UNSUPPORTED,
                      "this engine has no ArrayBuffers over memory of addons; bind inputs with setInput");
}

/* ---- Results ---- */

static void release_view(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)data;
    addon_session_release(hint);
}

/* Makes an ArrayBuffer over a result, which keeps the session alive until it is detached. NULL, without an exception,
 * if that cannot be. */
static napi_value make_view(napi_env env, addon_session *s, const xcvm_value *value)
{
    napi_value buffer;
    if (s->view_count == s->view_capacity) {
        const size_t capacity = s->view_capacity != 0 ? 2 * s->view_capacity : 8;
        napi_ref *views = realloc(s->views, capacity * sizeof(napi_ref));
        if (views == NULL)
            return NULL;
        s->views = views;
        s->view_capacity = capacity;
    }
    if (xcvm_value_bytes(value) == 0 ||
        napi_create_external_arraybuffer(env, xcvm_value_data(value), xcvm_value_bytes(value), release_view, s,
                                         &buffer) != napi_ok)
        return NULL;
    __atomic_add_fetch(&s->references, 1, __ATOMIC_ACQ_REL);
    if (napi_create_reference(env, buffer, 0, &s->views[s->view_count]) != napi_ok) {
        napi_detach_arraybuffer(env, buffer);
        return NULL;
    }
    s->view_count++;
    return buffer;
}

/* getOutput(session, index, lend): a value; with `lend` a tensor's buffer is the session's memory until the next run.
 */
static napi_value get_output(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    size_t index;
    double lend;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_index(env, arguments.at[1], "an output", &index) ||
        !addon_get_number(env, arguments.at[2], "lend", &lend))
        return NULL;
    const xcvm_value *value = xcvm_session_get_output(s->session, index);
    napi_value tensor, view;
    if (lend == 0 || value == NULL || xcvm_value_kind(value) != XCVM_KIND_TENSOR ||
        xcvm_value_dtype(value) == XCVM_STRING || (view = make_view(env, s, value)) == NULL)
        return addon_value_to(env, value);
    if (napi_create_array(env, &tensor) != napi_ok)
        return addon_failed_call(env);
    const bool good =
        addon_set_element(env, tensor, 0, addon_number(env, XCVM_KIND_TENSOR)) &&
        addon_set_element(env, tensor, 1, addon_number(env, (double)xcvm_value_dtype(value))) &&
        addon_set_element(env, tensor, 2, addon_dims(env, xcvm_value_rank(value), xcvm_value_dims(value))) &&
        addon_set_element(env, tensor, 3, view);
    return good ? tensor : NULL;
}

/* ---- States ---- */

/* getState(session, index): a copy. */
static napi_value get_state(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    size_t index;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_index(env, arguments.at[1], "a state", &index))
        return NULL;
    return addon_value_to(env, xcvm_session_get_state(s->session, index));
}

/* setState(session, index, value) */
static napi_value set_state(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    size_t index;
    xcvm_value *value;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_index(env, arguments.at[1], "a state", &index) ||
        !addon_value_from(env, arguments.at[2], &value))
        return NULL;
    addon_session_detach_views(env, s);
    const xcvm_status status = xcvm_session_set_state(s->session, index, value, &error);
    xcvm_value_release(value);
    return status == XCVM_OK ? undefined_result(env) : addon_throw(env, &error);
}

/* resetStates(session) */
static napi_value reset_states(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL)
        return NULL;
    addon_session_detach_views(env, s);
    return xcvm_session_reset_states(s->session, &error) == XCVM_OK ? undefined_result(env) : addon_throw(env, &error);
}

/* saveStates(session): a safetensors file. */
static napi_value save_states(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL)
        return NULL;
    web_bytes *bytes = web_bytes_create(&error);
    if (bytes != NULL)
        bytes = web_bytes_finish(bytes, xcvm_session_save_states(s->session, (xcvm_sink){web_bytes_add, bytes}, &error),
                                 &error);
    return addon_take_bytes(env, bytes, &error);
}

/* loadStates(session, bytes) */
static napi_value load_states(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    void *bytes;
    size_t count;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !addon_get_bytes(env, arguments.at[1], "the states", &bytes, &count))
        return NULL;
    addon_session_detach_views(env, s);
    return xcvm_session_load_states(s->session, bytes, count, &error) == XCVM_OK ? undefined_result(env)
                                                                                 : addon_throw(env, &error);
}

/* getMemory(session): live, peak and reserved bytes, and the number of threads. */
static napi_value get_memory(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_memory_info memory = {.size = sizeof memory};
    napi_value array;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL)
        return NULL;
    xcvm_session_get_memory_info(s->session, &memory);
    const size_t numbers[] = {memory.live_bytes, memory.peak_bytes, memory.reserved_bytes,
                              (size_t)xcvm_session_thread_count(s->session)};
    if (napi_create_array(env, &array) != napi_ok)
        return addon_failed_call(env);
    for (uint32_t i = 0; i < 4; i++)
        if (!addon_set_element(env, array, i, addon_number(env, (double)numbers[i])))
            return NULL;
    return array;
}

const addon_function addon_session_functions[] = {
    {"createSession", create_session}, {"destroySession", destroy_object}, {"setInput", set_input},
    {"createInput", create_input},     {"getOutput", get_output},          {"getState", get_state},
    {"setState", set_state},           {"resetStates", reset_states},      {"saveStates", save_states},
    {"loadStates", load_states},       {"getMemory", get_memory},          {NULL, NULL},
};
