/* Programs and the compiler for JavaScript. */
#include "web/node/addon.h"
#include "web/src/compilation.h"

#include <stdlib.h>
#include <string.h>

static const napi_type_tag program_tag = {0x5843564d70726f67, 0x8c1f0a5be2d94f11};

void addon_program_release(addon_program *program)
{
    if (program == NULL || __atomic_sub_fetch(&program->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    xcvm_program_destroy(program->program);
    free(program->bytes);
    free(program);
}

/* The box of an object; dispose empties it. */
typedef struct program_box {
    addon_program *program;
} program_box;

static void finalize_program(napi_env env, void *data, void *hint)
{
    (void)hint;
    program_box *box = data;
    int64_t total;
    if (box->program != NULL)
        napi_adjust_external_memory(env, -(int64_t)box->program->count, &total);
    addon_program_release(box->program);
    free(box);
}

static program_box *get_box(napi_env env, napi_value object)
{
    program_box *box = addon_object_data(env, object, &program_tag, "a program");
    if (box != NULL && box->program == NULL) {
        addon_fail(env, XCVM_INVALID_ARGUMENT, "the program is disposed");
        return NULL;
    }
    return box;
}

addon_program *addon_program_get(napi_env env, napi_value object)
{
    const program_box *box = get_box(env, object);
    return box != NULL ? box->program : NULL;
}

/* load(bytes): loads a program from a copy of the bytes. */
static napi_value load_program(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    void *bytes;
    size_t count;
    xcvm_error error = {.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for the program"};
    if (!addon_arguments_get(env, info, &arguments) ||
        !addon_get_bytes(env, arguments.at[0], "the program", &bytes, &count))
        return NULL;
    program_box *box = calloc(1, sizeof *box);
    addon_program *program = calloc(1, sizeof *program);
    /* Constants are used where they are, and aligned to 64 bytes in the file. */
    void *copy = NULL;
    if (posix_memalign(&copy, 64, count + 1) != 0)
        copy = NULL;
    if (copy != NULL && count > 0)
        memcpy(copy, bytes, count);
    const xcvm_load_options options = {.size = sizeof options, .no_libraries = true};
    if (box == NULL || program == NULL || copy == NULL ||
        xcvm_program_load(copy, count, &options, &program->program, &error) != XCVM_OK) {
        free(copy);
        free(program);
        free(box);
        return addon_throw(env, &error);
    }
    int64_t total;
    program->references = 1;
    program->bytes = copy;
    program->count = count;
    box->program = program;
    const napi_value object = addon_object(env, &program_tag, box, finalize_program);
    if (object == NULL) {
        addon_program_release(program);
        free(box);
        return NULL;
    }
    napi_adjust_external_memory(env, (int64_t)count, &total);
    return object;
}

/* destroyProgram(program): sessions keep it alive. */
static napi_value destroy_program(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    int64_t total;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    program_box *box = get_box(env, arguments.at[0]);
    if (box == NULL)
        return NULL;
    napi_adjust_external_memory(env, -(int64_t)box->program->count, &total);
    addon_program_release(box->program);
    box->program = NULL;
    return NULL;
}

/* ---- Description ---- */

typedef const xcvm_value_info *(*info_getter)(const xcvm_program *program, size_t index);

/* A dimension is a number, a name or null. */
static napi_value describe_dims(napi_env env, const xcvm_type *type)
{
    napi_value dims, null;
    if (napi_get_null(env, &null) != napi_ok)
        return addon_failed_call(env);
    if (type->rank < 0)
        return null;
    if (napi_create_array(env, &dims) != napi_ok)
        return addon_failed_call(env);
    for (int i = 0; i < type->rank; i++) {
        napi_value dim = null;
        if (type->dims[i] >= 0)
            dim = addon_number(env, (double)type->dims[i]);
        else if (type->dim_names[i] != NULL && type->dim_names[i][0] != '\0')
            dim = addon_text(env, type->dim_names[i]);
        if (!addon_set_element(env, dims, (uint32_t)i, dim))
            return NULL;
    }
    return dims;
}

static napi_value describe_values(napi_env env, const xcvm_program *program, size_t count, info_getter at)
{
    napi_value list;
    if (napi_create_array(env, &list) != napi_ok)
        return addon_failed_call(env);
    for (size_t i = 0; i < count; i++) {
        const xcvm_value_info *value = at(program, i);
        napi_value object;
        if (napi_create_object(env, &object) != napi_ok)
            return addon_failed_call(env);
        if (!addon_set_property(env, object, "name", addon_text(env, value->name)) ||
            !addon_set_property(env, object, "kind", addon_number(env, (double)value->type.kind)) ||
            !addon_set_property(env, object, "dtype", addon_number(env, (double)value->type.dtype)) ||
            !addon_set_property(env, object, "dims", describe_dims(env, &value->type)) ||
            !addon_set_element(env, list, (uint32_t)i, object))
            return NULL;
    }
    return list;
}

static napi_value describe_info(napi_env env, const xcvm_program *program)
{
    xcvm_program_info info = {.size = sizeof info};
    napi_value object;
    xcvm_program_get_info(program, &info);
    const struct {
        const char *name;
        size_t number;
    } numbers[] = {{"format", info.format},
                   {"instructions", info.instruction_count},
                   {"registers", info.register_count},
                   {"constants", info.constant_count},
                   {"constantBytes", info.constant_bytes},
                   {"arenaBytes", info.arena_bytes}};
    if (napi_create_object(env, &object) != napi_ok)
        return addon_failed_call(env);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!addon_set_property(env, object, numbers[i].name, addon_number(env, (double)numbers[i].number)))
            return NULL;
    return addon_set_property(env, object, "producer", addon_text(env, info.producer)) ? object : NULL;
}

/* describe(program): inputs, outputs, states and info. */
static napi_value describe_program(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    napi_value object;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_program *of = addon_program_get(env, arguments.at[0]);
    if (of == NULL)
        return NULL;
    const xcvm_program *p = of->program;
    if (napi_create_object(env, &object) != napi_ok)
        return addon_failed_call(env);
    const bool good =
        addon_set_property(env, object, "inputs",
                           describe_values(env, p, xcvm_program_input_count(p), xcvm_program_input_at)) &&
        addon_set_property(env, object, "outputs",
                           describe_values(env, p, xcvm_program_output_count(p), xcvm_program_output_at)) &&
        addon_set_property(env, object, "states",
                           describe_values(env, p, xcvm_program_state_count(p), xcvm_program_state_at)) &&
        addon_set_property(env, object, "info", describe_info(env, p));
    return good ? object : NULL;
}

/* programBytes(program): bytes that the program occupies. */
static napi_value get_program_bytes(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_program *program = addon_program_get(env, arguments.at[0]);
    return program != NULL ? addon_number(env, (double)program->count) : NULL;
}

/* metadata(program, key): a text, or null. */
static napi_value get_metadata(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    char *key;
    napi_value null;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_program *program = addon_program_get(env, arguments.at[0]);
    if (program == NULL || !addon_get_text(env, arguments.at[1], "a metadata key", &key, NULL))
        return NULL;
    const char *text = xcvm_program_metadata(program->program, key);
    free(key);
    if (text != NULL)
        return addon_text(env, text);
    return napi_get_null(env, &null) == napi_ok ? null : addon_failed_call(env);
}

/* ---- Assembly ---- */

/* disassemble(program, literalLimit, explain): the text's bytes. */
static napi_value disassemble_program(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    double limit, explain;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_program *program = addon_program_get(env, arguments.at[0]);
    if (program == NULL || !addon_get_number(env, arguments.at[1], "literalLimit", &limit) ||
        !addon_get_number(env, arguments.at[2], "explain", &explain))
        return NULL;
    const xcvm_disassemble_options options = {.size = sizeof options,
                                              .literal_limit = limit > 0 && limit < 9e15 ? (size_t)limit : 0,
                                              .program_path = "program",
                                              .explain = explain != 0};
    web_bytes *text = web_bytes_create(&error);
    if (text != NULL)
        text = web_bytes_finish(
            text, xcvm_disassemble(program->bytes, program->count, &options, (xcvm_sink){web_bytes_add, text}, &error),
            &error);
    return addon_take_bytes(env, text, &error);
}

/* assemble(text): the program's bytes. */
static napi_value assemble_program(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    char *text;
    size_t length;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments) ||
        !addon_get_text(env, arguments.at[0], "the assembly text", &text, &length))
        return NULL;
    web_bytes *bytes = web_bytes_create(&error);
    if (bytes != NULL)
        bytes = web_bytes_finish(bytes, xcvm_assemble(text, length, NULL, (xcvm_sink){web_bytes_add, bytes}, &error),
                                 &error);
    free(text);
    return addon_take_bytes(env, bytes, &error);
}

/* ---- The compiler ---- */

/* A function that receives diagnostics, and whether it has thrown. */
typedef struct diagnostics_receiver {
    napi_env env;
    napi_value function;
} diagnostics_receiver;

static void send_diagnostic(void *user, xcc_diagnostic_kind kind, const char *text)
{
    const diagnostics_receiver *receiver = user;
    const napi_env env = receiver->env;
    napi_handle_scope scope;
    bool pending = false;
    (void)kind;
    if (receiver->function == NULL || napi_is_exception_pending(env, &pending) != napi_ok || pending ||
        napi_open_handle_scope(env, &scope) != napi_ok)
        return;
    napi_value undefined, argument = addon_text(env, text);
    if (argument != NULL && napi_get_undefined(env, &undefined) == napi_ok)
        napi_call_function(env, undefined, receiver->function, 1, &argument, NULL);
    napi_close_handle_scope(env, scope);
}

/* Sets an option from [name, text, number]. Returns false, with an exception, if it is none. */
static bool set_option(napi_env env, napi_value option, web_compilation *compilation, bool *is_accepted)
{
    napi_value parts[3];
    char *name = NULL, *text = NULL;
    double number = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (napi_get_element(env, option, i, &parts[i]) != napi_ok)
            return addon_failed_call(env), false;
    bool good = addon_get_text(env, parts[0], "an option", &name, NULL) &&
                addon_get_text(env, parts[1], "an option", &text, NULL) &&
                addon_get_number(env, parts[2], "an option", &number);
    *is_accepted = good && web_compilation_set(compilation, name, text, number) != 0;
    free(name);
    free(text);
    return good;
}

/* Sets all options. Stores the index of the first that is refused, or their number. */
static bool set_options(napi_env env, napi_value options, web_compilation *compilation, uint32_t *refused)
{
    uint32_t count;
    if (!addon_get_array(env, options, "the options", &count))
        return false;
    for (*refused = 0; *refused < count; ++*refused) {
        napi_value option;
        bool is_accepted = false;
        if (napi_get_element(env, options, *refused, &option) != napi_ok)
            return addon_failed_call(env), false;
        if (!set_option(env, option, compilation, &is_accepted))
            return false;
        if (!is_accepted)
            return true;
    }
    *refused = UINT32_MAX;
    return true;
}

/* compile(model, options, diagnostics): the program's bytes, or the index of a refused option. */
static napi_value compile_model(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    void *model;
    size_t size;
    uint32_t refused;
    napi_value result = NULL;
    xcvm_error error = {.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for options"};
    if (!addon_arguments_get(env, info, &arguments) ||
        !addon_get_bytes(env, arguments.at[0], "the model", &model, &size))
        return NULL;
    diagnostics_receiver receiver = {env, addon_is_given(env, arguments.at[2]) ? arguments.at[2] : NULL};
    /* A callback may detach the model's buffer. */
    void *copy = malloc(size + 1);
    web_compilation *compilation = web_compilation_new((xcc_diagnostics){send_diagnostic, &receiver});
    web_bytes *bytes = web_bytes_create(&error);
    if (copy == NULL || compilation == NULL || bytes == NULL) {
        addon_throw(env, &error);
    } else if (!set_options(env, arguments.at[1], compilation, &refused)) {
        /* An exception is pending. */
    } else if (refused != UINT32_MAX) {
        result = addon_number(env, refused);
    } else {
        if (size > 0)
            memcpy(copy, model, size);
        bool pending = false;
        bytes = web_bytes_finish(
            bytes, xcc_compile(copy, size, &compilation->options, (xcvm_sink){web_bytes_add, bytes}, NULL, &error),
            &error);
        if (napi_is_exception_pending(env, &pending) == napi_ok && !pending) {
            result = addon_take_bytes(env, bytes, &error);
            bytes = NULL;
        }
    }
    web_bytes_destroy(bytes);
    web_compilation_destroy(compilation);
    free(copy);
    return result;
}

const addon_function addon_program_functions[] = {
    {"load", load_program},         {"destroyProgram", destroy_program}, {"describe", describe_program},
    {"metadata", get_metadata},     {"programBytes", get_program_bytes}, {"disassemble", disassemble_program},
    {"assemble", assemble_program}, {"compile", compile_model},          {NULL, NULL},
};
