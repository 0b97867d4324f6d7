/* The VM's functions for JavaScript. */
#include "web/src/bytes.h"
#include "web/src/exports.h"

#include <stdlib.h>
#include <string.h>

xcvm_error web_error;

/* ---- Imports ---- */

/* Receives an executed instruction of a session with an observer. A status other than 0 ends the run. */
WEB_IMPORT(observe) int host_observe(int phase, const xcvm_event *event);
/* Receives the text of a Print instruction. */
WEB_IMPORT(print) void host_print(const char *text, size_t length);
/* Calls a host function. JavaScript stores the addresses of new tensors in `outputs`. 0: it failed, with a message in
 * `message`. */
WEB_IMPORT(call)
int host_call(int function, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
              xcvm_value **outputs, char *message, size_t message_size);

/* ---- Errors ---- */

int WEB_EXPORT(web_error_status)(void) { return (int)web_error.status; }
int WEB_EXPORT(web_error_pc)(void) { return web_error.pc; }

/* The text of a failure: 0 message, 1 instruction, 2 node, 3 name of the status. */
const char *WEB_EXPORT(web_error_text)(int part)
{
    return part == 0   ? web_error.message
           : part == 1 ? web_error.instruction
           : part == 2 ? web_error.node
                       : xcvm_status_name(web_error.status);
}

/* ---- Memory and bytes ---- */

void *WEB_EXPORT(web_allocate)(size_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, 64, bytes != 0 ? bytes : 1) == 0 ? memory : NULL;
}

void WEB_EXPORT(web_release)(void *memory) { free(memory); }

void *WEB_EXPORT(web_bytes_at)(const web_bytes *bytes) { return bytes->at; }
size_t WEB_EXPORT(web_bytes_count)(const web_bytes *bytes) { return bytes->count; }

/* ---- Programs ---- */

const char *WEB_EXPORT(web_version)(void) { return xcvm_version(); }

/* Loads a program. The bytes are borrowed until it is destroyed. */
xcvm_program *WEB_EXPORT(web_program_load)(const void *bytes, size_t count)
{
    const xcvm_load_options options = {.size = sizeof options, .no_libraries = true};
    xcvm_program *program = NULL;
    return xcvm_program_load(bytes, count, &options, &program, &web_error) == XCVM_OK ? program : NULL;
}

void WEB_EXPORT(web_program_destroy)(xcvm_program *program) { xcvm_program_destroy(program); }

/* The number of inputs (0), outputs (1) or states (2). */
size_t WEB_EXPORT(web_program_count)(const xcvm_program *program, int which)
{
    return which == 0   ? xcvm_program_input_count(program)
           : which == 1 ? xcvm_program_output_count(program)
                        : xcvm_program_state_count(program);
}

/* The name and type of an input, output or state, for JavaScript to read: seven words, then eight 64-bit dimensions. */
typedef struct web_value_info {
    const char *name;
    int32_t kind, dtype, rank;
    const char *const *dim_names;
    int32_t unused[3];
    int64_t dims[XCVM_MAX_RANK];
} web_value_info;
_Static_assert(offsetof(web_value_info, dims) == 32, "JavaScript reads dimensions there");

const web_value_info *WEB_EXPORT(web_program_value)(const xcvm_program *program, int which, size_t index)
{
    static web_value_info info;
    const xcvm_value_info *of = which == 0   ? xcvm_program_input_at(program, index)
                                : which == 1 ? xcvm_program_output_at(program, index)
                                             : xcvm_program_state_at(program, index);
    if (of == NULL)
        return NULL;
    info = (web_value_info){.name = of->name,
                            .kind = (int32_t)of->type.kind,
                            .dtype = (int32_t)of->type.dtype,
                            .rank = of->type.rank,
                            .dim_names = of->type.dim_names};
    memcpy(info.dims, of->type.dims, sizeof info.dims);
    return &info;
}

/* A number about a program: 0 format, 1 instructions, 2 registers, 3 constants, 4 bytes of constants, 5 bytes of the
 * plan. */
double WEB_EXPORT(web_program_number)(const xcvm_program *program, int which)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program, &info);
    const size_t numbers[] = {info.format,         info.instruction_count, info.register_count,
                              info.constant_count, info.constant_bytes,    info.arena_bytes};
    return which >= 0 && which < 6 ? (double)numbers[which] : 0;
}

const char *WEB_EXPORT(web_program_producer)(const xcvm_program *program)
{
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program, &info);
    return info.producer;
}

const char *WEB_EXPORT(web_program_metadata)(const xcvm_program *program, const char *key)
{
    return xcvm_program_metadata(program, key);
}

web_bytes *WEB_EXPORT(web_disassemble)(const void *bytes, size_t count, int literal_limit, int explain)
{
    const xcvm_disassemble_options options = {.size = sizeof options,
                                              .literal_limit = (size_t)literal_limit,
                                              .program_path = "program",
                                              .explain = explain != 0};
    web_bytes *text = web_bytes_create(&web_error);
    return text == NULL
               ? NULL
               : web_bytes_finish(
                     text, xcvm_disassemble(bytes, count, &options, (xcvm_sink){web_bytes_add, text}, &web_error),
                     &web_error);
}

web_bytes *WEB_EXPORT(web_assemble)(const char *text, size_t length)
{
    web_bytes *program = web_bytes_create(&web_error);
    return program == NULL
               ? NULL
               : web_bytes_finish(program,
                                  xcvm_assemble(text, length, NULL, (xcvm_sink){web_bytes_add, program}, &web_error),
                                  &web_error);
}

/* ---- Values ---- */

xcvm_value *WEB_EXPORT(web_tensor_create)(int dtype, int rank, const int64_t *dims)
{
    xcvm_value *tensor = NULL;
    return xcvm_tensor_create(NULL, (xcvm_dtype)dtype, rank, dims, &tensor, &web_error) == XCVM_OK ? tensor : NULL;
}

/* Strings follow each other in `text`. */
xcvm_value *WEB_EXPORT(web_strings_create)(int rank, const int64_t *dims, const char *text, const size_t *lengths,
                                           size_t count)
{
    xcvm_value *tensor = NULL;
    const char **strings = malloc((count + 1) * sizeof *strings);
    if (strings == NULL) {
        web_error = (xcvm_error){.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for strings"};
        return NULL;
    }
    for (size_t i = 0; i < count; text += lengths[i++])
        strings[i] = text;
    const xcvm_status status = xcvm_string_tensor_create(NULL, rank, dims, strings, lengths, &tensor, &web_error);
    free(strings);
    return status == XCVM_OK ? tensor : NULL;
}

xcvm_value *WEB_EXPORT(web_list_create)(int kind, size_t count, xcvm_value *const *items)
{
    xcvm_value *list = NULL;
    return xcvm_list_create(NULL, (xcvm_kind)kind, count, items, &list, &web_error) == XCVM_OK ? list : NULL;
}

xcvm_value *WEB_EXPORT(web_value_retain)(const xcvm_value *value)
{
    xcvm_value *kept = NULL;
    return xcvm_value_retain(value, &kept, &web_error) == XCVM_OK ? kept : NULL;
}

void WEB_EXPORT(web_value_release)(xcvm_value *value) { xcvm_value_release(value); }
int WEB_EXPORT(web_value_kind)(const xcvm_value *value) { return (int)xcvm_value_kind(value); }
int WEB_EXPORT(web_value_dtype)(const xcvm_value *value) { return (int)xcvm_value_dtype(value); }
int WEB_EXPORT(web_value_rank)(const xcvm_value *value) { return xcvm_value_rank(value); }
const int64_t *WEB_EXPORT(web_value_dims)(const xcvm_value *value) { return xcvm_value_dims(value); }
size_t WEB_EXPORT(web_value_count)(const xcvm_value *value) { return xcvm_value_count(value); }
void *WEB_EXPORT(web_value_data)(const xcvm_value *value) { return xcvm_value_data(value); }
size_t WEB_EXPORT(web_value_bytes)(const xcvm_value *value) { return xcvm_value_bytes(value); }
const xcvm_value *WEB_EXPORT(web_value_item)(const xcvm_value *value, size_t index)
{
    return xcvm_value_item_at(value, index);
}

/* The address of a string; its length is stored in `length`. */
const char *WEB_EXPORT(web_value_string)(const xcvm_value *value, size_t index, size_t *length)
{
    return xcvm_value_string_at(value, index, length);
}

int WEB_EXPORT(web_dtype_bits)(int dtype) { return xcvm_dtype_bits((xcvm_dtype)dtype); }
const char *WEB_EXPORT(web_dtype_name)(int dtype) { return xcvm_dtype_name((xcvm_dtype)dtype); }

/* ---- Sessions ---- */

/* A session, with the host functions that it borrows. */
typedef struct web_session {
    xcvm_session *session;
    size_t function_count;
    xcvm_host_function functions[];
} web_session;

static bool print_text(void *user, const char *text)
{
    (void)user;
    host_print(text, strlen(text));
    return true;
}

static xcvm_status call_function(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                                 xcvm_value **outputs, xcvm_error *error)
{
    char message[sizeof web_error.message] = "";
    for (size_t i = 0; i < output_count; i++)
        outputs[i] = NULL;
    if (host_call((int)(intptr_t)user, input_count, inputs, output_count, outputs, message, sizeof message))
        return XCVM_OK;
    message[sizeof message - 1] = '\0';
    if (error != NULL) {
        *error = (xcvm_error){.status = XCVM_INVALID_ARGUMENT, .pc = -1};
        memcpy(error->message, message, sizeof message);
    }
    return XCVM_INVALID_ARGUMENT;
}

/* Creates a session. The names of the host functions follow each other in `names`, each with its NUL; JavaScript calls
 * them by their number. */
web_session *WEB_EXPORT(web_session_create)(const xcvm_program *program, double memory_limit, double seed, int flags,
                                            const web_session *states_of, const char *names, size_t function_count,
                                            int threads)
{
    web_session *created = calloc(1, sizeof *created + function_count * sizeof *created->functions);
    if (created == NULL) {
        web_error = (xcvm_error){.status = XCVM_OUT_OF_MEMORY, .pc = -1, .message = "no memory for a session"};
        return NULL;
    }
    char *copy = NULL;
    for (size_t i = 0; i < function_count; names += strlen(names) + 1, i++) {
        copy = strdup(names);
        created->functions[i] = (xcvm_host_function){copy != NULL ? copy : "", call_function, (void *)(intptr_t)i};
    }
    created->function_count = function_count;
    const xcvm_session_options options = {
        .size = sizeof options,
        .threads = threads,
        .memory_limit = memory_limit > 0 && memory_limit < 4294967296.0 ? (size_t)memory_limit : 0,
        .seed = (uint64_t)seed,
        .flush_subnormals = (flags & 1) != 0,
        .strict_types = (flags & 2) != 0,
        .print = {print_text, NULL},
        .functions = created->functions,
        .function_count = function_count,
        .states_of = states_of != NULL ? states_of->session : NULL,
    };
    if (xcvm_session_create(program, &options, &created->session, &web_error) == XCVM_OK)
        return created;
    for (size_t i = 0; i < function_count; i++)
        free((void *)(uintptr_t)created->functions[i].name);
    free(created);
    return NULL;
}

void WEB_EXPORT(web_session_destroy)(web_session *s)
{
    if (s == NULL)
        return;
    xcvm_session_destroy(s->session);
    for (size_t i = 0; i < s->function_count; i++)
        free((void *)(uintptr_t)s->functions[i].name);
    free(s);
}

int WEB_EXPORT(web_session_set_input)(web_session *s, size_t index, const xcvm_value *value)
{
    return (int)xcvm_session_set_input(s->session, index, value, &web_error);
}

int WEB_EXPORT(web_session_run)(web_session *s, double fuel, double timeout_ms)
{
    const xcvm_run_options options = {.size = sizeof options,
                                      .fuel = fuel > 0 && fuel < 9e18 ? (uint64_t)fuel : 0,
                                      .timeout_ns = web_nanoseconds(timeout_ms)};
    return (int)xcvm_session_run(s->session, &options, &web_error);
}

int WEB_EXPORT(web_session_warm_up)(web_session *s) { return (int)xcvm_session_warm_up(s->session, NULL, &web_error); }
void WEB_EXPORT(web_session_cancel)(web_session *s) { xcvm_session_cancel(s->session); }
const xcvm_value *WEB_EXPORT(web_session_output)(const web_session *s, size_t index)
{
    return xcvm_session_get_output(s->session, index);
}
const xcvm_value *WEB_EXPORT(web_session_state)(const web_session *s, size_t index)
{
    return xcvm_session_get_state(s->session, index);
}

int WEB_EXPORT(web_session_set_state)(web_session *s, size_t index, const xcvm_value *value)
{
    return (int)xcvm_session_set_state(s->session, index, value, &web_error);
}

int WEB_EXPORT(web_session_reset_states)(web_session *s)
{
    return (int)xcvm_session_reset_states(s->session, &web_error);
}

web_bytes *WEB_EXPORT(web_session_save_states)(const web_session *s)
{
    web_bytes *bytes = web_bytes_create(&web_error);
    return bytes == NULL
               ? NULL
               : web_bytes_finish(bytes,
                                  xcvm_session_save_states(s->session, (xcvm_sink){web_bytes_add, bytes}, &web_error),
                                  &web_error);
}

int WEB_EXPORT(web_session_load_states)(web_session *s, const void *bytes, size_t count)
{
    return (int)xcvm_session_load_states(s->session, bytes, count, &web_error);
}

/* Bytes of a session: 0 live, 1 peak, 2 reserved. */
double WEB_EXPORT(web_session_memory)(const web_session *s, int which)
{
    xcvm_memory_info info = {.size = sizeof info};
    xcvm_session_get_memory_info(s->session, &info);
    return (double)(which == 0 ? info.live_bytes : which == 1 ? info.peak_bytes : info.reserved_bytes);
}

/* ---- Observers ---- */

static void observe_before(void *user, const xcvm_event *event)
{
    (void)user;
    (void)host_observe(0, event);
}

static xcvm_status observe_after(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)user;
    const int status = host_observe(1, event);
    if (status != 0 && error != NULL)
        *error = (xcvm_error){.status = (xcvm_status)status, .pc = event->pc, .message = "the observer ended the run"};
    return (xcvm_status)status;
}

/* Makes runs call the import `observe`, with 1 after each instruction and with `before` also with 0 before it. */
void WEB_EXPORT(web_session_observe)(web_session *s, int enabled, int before, int attributes)
{
    const xcvm_observer observer = {.size = sizeof observer,
                                    .before = before ? observe_before : NULL,
                                    .after = observe_after,
                                    .want_attributes = attributes != 0,
                                    .want_spans = true};
    xcvm_session_set_observer(s->session, enabled ? &observer : NULL);
}

/* A number of an event: 0 instruction index, 1 start and 2 end in milliseconds, 3 flops, 4 bytes read, 5 bytes written,
 * 6 live bytes, 7 inputs, 8 outputs, 9 threads. */
double WEB_EXPORT(web_event_number)(const xcvm_event *e, int which)
{
    const double numbers[] = {e->pc,
                              (double)e->start_ns / 1e6,
                              (double)e->end_ns / 1e6,
                              (double)e->flops,
                              (double)e->bytes_read,
                              (double)e->bytes_written,
                              (double)e->live_bytes,
                              (double)e->input_count,
                              (double)e->output_count,
                              web_count_threads(e)};
    return which >= 0 && which < 10 ? numbers[which] : 0;
}

/* A text of an event: 0 instruction, 1 node, 2 attributes, 3 + i the name of output i. */
const char *WEB_EXPORT(web_event_text)(const xcvm_event *e, size_t which)
{
    return which == 0                    ? e->instruction
           : which == 1                  ? e->node
           : which == 2                  ? e->attributes
           : which - 3 < e->output_count ? e->output_names[which - 3]
                                         : NULL;
}

const xcvm_value *WEB_EXPORT(web_event_value)(const xcvm_event *e, int output, size_t index)
{
    return output                   ? index < e->output_count ? e->outputs[index] : NULL
           : index < e->input_count ? e->inputs[index]
                                    : NULL;
}

int WEB_EXPORT(web_event_register)(const xcvm_event *e, int output, size_t index)
{
    return output                   ? index < e->output_count ? e->output_registers[index] : 0
           : index < e->input_count ? e->input_registers[index]
                                    : 0;
}
