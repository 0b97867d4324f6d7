/* Opening a program from a file, from its text, or by compiling a model. */
#include "run/isa_choices.h"
#include "run/program.h"
#include "run/state_lines.h"
#include "io/file.h"
#include "cli/memory.h"
#include "cli/clock.h"
#include "cli/progress.h"
#include "cli/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option step_options[] = {
    {"train", 0, "OPTIMIZER", OPTION_TEXT, offsetof(struct program_flags, train), 0, 0,
     "measure training steps of a model (forward, backward and optimizer), for example sgd:lr=0.1. The learning rate "
     "is 0 unless --input sets it, so that the parameters do not change"},
    {"loss", 0, "LOSS", OPTION_TEXT, offsetof(struct program_flags, loss), 0, 0,
     "with --train, the loss: an output, or a loss that is added, as in xcvm train"},
    END_OF_OPTIONS,
};

const struct option loading_options[] = {
    {"copy", 0, NULL, OPTION_FLAG, offsetof(struct program_flags, copy), 0, 0,
     "read the constants into memory instead of mapping the file"},
    {"no-libraries", 0, NULL, OPTION_FLAG, offsetof(struct program_flags, no_libraries), 0, 0,
     "do not open kernel libraries; run the plain instructions"},
    {"library-dir", 0, "DIR", OPTION_FOLDER, offsetof(struct program_flags, library_dir), 0, 0,
     "also search this directory for kernel libraries"},
    {"isa", 0, ISA_CHOICES, OPTION_CHOICE, offsetof(struct program_flags, isa), 0, 0,
     "run the kernels of this instruction set; native: the best one of this CPU"},
    END_OF_OPTIONS,
};

/* ---- Compiling ---- */

/* The user data of the compiler's callbacks. */
struct compiling {
    struct progress progress;
    xcvm_sink dump;
    xcc_diagnostics diagnostics;
};

static void show_progress(void *user, const char *pass, double fraction)
{
    struct compiling *compiling = user;
    progress_show(&compiling->progress, strcmp(pass, "tune") == 0 ? "measuring convolutions" : pass, fraction);
}

static bool pass_dump(void *user, const void *bytes, size_t count)
{
    struct compiling *compiling = user;
    progress_end(&compiling->progress);
    return compiling->dump.call(compiling->dump.user, bytes, count);
}

static void show_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    struct compiling *compiling = user;
    progress_end(&compiling->progress);
    compiling->diagnostics.call(compiling->diagnostics.user, kind, text);
}

xcvm_status compile_model(const char *path, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                          xcvm_error *error)
{
    struct compiling compiling = {.dump = options->debug.dump, .diagnostics = options->diagnostics};
    xcc_options own = *options;
    own.diagnostics = (xcc_diagnostics){options->diagnostics.call != NULL ? show_note : NULL, &compiling};
    own.progress = (xcc_progress){show_progress, &compiling};
    own.debug.dump = (xcvm_sink){options->debug.dump.call != NULL ? pass_dump : NULL, &compiling};
    progress_start(&compiling.progress);
    xcvm_status status;
    if (strcmp(path, "-") == 0) {
        struct buffer model = {0};
        const struct read_limits limits = reading_limits(&(struct limit_flags){
            .max_memory = options->limits.memory_bytes, .timeout_ms = (int64_t)(options->limits.timeout_ns / 1000000)});
        status = file_read(path, &limits, &model, error);
        if (status == XCVM_OK)
            status = xcc_compile(model.data, model.length, &own, sink, report, error);
        buffer_release(&model);
    } else {
        status = xcc_compile_file(path, &own, sink, report, error);
    }
    progress_end(&compiling.progress);
    return status;
}

xcvm_status program_default_inputs(const char *path, const struct buffer *model, const struct limit_flags *limits,
                                   struct names *found, xcvm_error *error)
{
    const xcc_options options = {.size = sizeof options,
                                 .limits.memory_bytes = (size_t)limits->max_memory,
                                 .limits.timeout_ns = (uint64_t)limits->timeout_ms * 1000000};
    return model != NULL ? xcc_visit_default_inputs(model->data, model->length, &options,
                                                    (xcc_name_visitor){names_add, found}, error)
                         : xcc_visit_default_inputs_file(path, &options, (xcc_name_visitor){names_add, found}, error);
}

/* True if one of NAME=SPEC has the name. */
static bool is_given(const struct text_list *inputs, const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; inputs != NULL && i < inputs->count; i++)
        if (strncmp(inputs->items[i], name, length) == 0 && inputs->items[i][length] == '=')
            return true;
    return false;
}

/* Chooses the inputs with defaults that have a value. */
static xcvm_status choose_inputs(const char *path, const struct buffer *model, const struct program_flags *flags,
                                 struct names *chosen, xcvm_error *error)
{
    struct names all = {0};
    for (size_t i = 0; i < flags->model.keep_inputs.count; i++)
        names_add(chosen, flags->model.keep_inputs.items[i]);
    if (flags->inputs == NULL || flags->inputs->count == 0)
        return XCVM_OK;
    const xcvm_status status = program_default_inputs(path, model, &flags->limits, &all, error);
    for (size_t i = 0; i < all.count; i++)
        if (is_given(flags->inputs, all.items[i]))
            names_add(chosen, all.items[i]);
    names_release(&all);
    return status;
}

static xcvm_status compile_with(const char *path, const struct buffer *model, const struct program_flags *flags,
                                const struct names *inputs, struct names *patterns, struct state_lines *lines,
                                struct program *program, xcvm_error *error)
{
    xcc_options options = compiler_options(&flags->model, &flags->limits, &program->dims);
    state_options_use(&flags->model.states, patterns, &options);
    options.default_inputs = inputs->items;
    options.default_input_count = inputs->count;
    options.backprop = flags->backprop;
    options.train = flags->train;
    options.loss = flags->loss;
    options.gradients.wrt = flags->wrt.items;
    options.gradients.wrt_count = flags->wrt.count;
    if (flags->model.kernel_library) {
        TRY(library_begin(&program->library, library_temporary_folder(), "xcvm.so", error));
        options.kernel_library.path = program->library.path;
        options.kernel_library.cache_dir = program->library.cache;
        options.kernel_library.compiler = library_compiler();
        options.kernel_library.target = flags->isa; /* may run with those kernels */
    }
    options.diagnostics = (xcc_diagnostics){flags->no_notes ? NULL : state_lines_add, lines};
    program->report = (xcc_report){.size = sizeof program->report};
    if (model != NULL)
        return xcc_compile(model->data, model->length, &options, (xcvm_sink){buffer_sink, &program->bytes},
                           &program->report, error);
    return compile_model(path, &options, (xcvm_sink){buffer_sink, &program->bytes}, &program->report, error);
}

static xcvm_status compile_into(const char *path, const struct buffer *model, const struct program_flags *flags,
                                struct program *program, xcvm_error *error)
{
    struct names inputs = {0}, patterns = {0};
    struct state_lines lines = {.path = path};
    TRY(state_options_check(&flags->model.states, false, error));
    xcvm_status status = choose_inputs(path, model, flags, &inputs, error);
    if (status == XCVM_OK)
        status = compile_with(path, model, flags, &inputs, &patterns, &lines, program, error);
    state_lines_print_notes(&lines);
    state_lines_release(&lines);
    names_release(&patterns);
    names_release(&inputs);
    return status;
}

static xcvm_status assemble_into(const char *path, const struct buffer *text, struct buffer *bytes, xcvm_error *error)
{
    /* Text from a pipe is often a dump of a program in another directory, so that it may name any file. */
    char *folder = file_is_stream(path) ? memory_text("") : file_folder(path);
    xcvm_status status = xcvm_assemble(text->data, text->length, folder, (xcvm_sink){buffer_sink, bytes}, error);
    free(folder);
    if (status == XCVM_INVALID_ARGUMENT)
        error_append(error, ANY_PATH_HINT);
    return status;
}

/* Makes a program's bytes from `path`, or leaves them empty if it is a program in a file. */
static xcvm_status make_bytes(const char *path, const struct program_flags *flags, struct program *program,
                              xcvm_error *error)
{
    enum file_kind kind = FILE_UNKNOWN;
    bool piped = file_is_stream(path);
    struct buffer content = {0};
    const struct read_limits limits = reading_limits(&flags->limits);
    TRY(file_kind_of(path, &limits, &kind, error));
    if (piped)
        TRY(file_read(path, &limits, &content, error));
    xcvm_status status = XCVM_OK;
    program->kind = kind;
    if (kind == FILE_MODEL) {
        status = compile_into(path, piped ? &content : NULL, flags, program, error);
    } else if (kind == FILE_ASSEMBLY) {
        if (!piped)
            status = file_read(path, &limits, &content, error);
        if (status == XCVM_OK)
            status = assemble_into(path, &content, &program->bytes, error);
    } else if (piped) {
        program->bytes = content;
        return XCVM_OK;
    }
    buffer_release(&content);
    return status;
}

xcvm_status program_bytes(const char *path, const struct program_flags *flags, struct buffer *bytes, bool *made,
                          xcvm_error *error)
{
    struct program program = {.path = path};
    xcvm_status status = dims_parse(&flags->model.dims, &program.dims, error);
    if (status == XCVM_OK)
        status = make_bytes(path, flags, &program, error);
    *bytes = program.bytes;
    *made = bytes->data != NULL;
    program.bytes = (struct buffer){0};
    program_close(&program);
    const struct read_limits limits = reading_limits(&flags->limits);
    if (status == XCVM_OK && !*made)
        status = file_read(path, &limits, bytes, error);
    if (status != XCVM_OK)
        buffer_release(bytes);
    return status;
}

/* True if an input has an open dimension of this name. Otherwise `names` receives all names. */
static bool has_dimension(const xcvm_program *program, const char *name, struct buffer *names)
{
    for (size_t i = 0; i < xcvm_program_input_count(program); i++) {
        const xcvm_value_info *input = xcvm_program_input_at(program, i);
        for (int axis = 0; axis < input->type.rank; axis++) {
            if (input->type.dims[axis] >= 0)
                continue;
            char *known = dims_name(input, axis);
            const bool same = strcmp(known, name) == 0;
            if (!same)
                buffer_format(names, "%s%s", names->length != 0 ? ", " : "", known);
            free(known);
            if (same)
                return true;
        }
    }
    return false;
}

/* Refuses unknown dimensions of a compiled program, as the compiler does for a model. */
static xcvm_status check_dims(const struct program *program, xcvm_error *error)
{
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < program->dims.count && program->kind != FILE_MODEL && status == XCVM_OK; i++) {
        const char *name = program->dims.items[i].name;
        struct buffer names = {0};
        if (!has_dimension(program->handle, name, &names))
            status = error_set(error, XCVM_INVALID_ARGUMENT,
                               "no input of the program has an open dimension \"%.80s\"%s%.200s", name,
                               names.length != 0 ? ". Open dimensions: " : "", buffer_string(&names));
        buffer_release(&names);
    }
    return status;
}

static xcvm_status load(const struct program_flags *flags, struct program *program, xcvm_error *error)
{
    xcvm_load_options options = {.size = sizeof options,
                                 .copy = flags->copy,
                                 .no_libraries = flags->no_libraries,
                                 .library_dir =
                                     program->library.folder != NULL ? program->library.folder : flags->library_dir,
                                 .isa = strcmp(flags->isa, "native") != 0 ? flags->isa : NULL};
    if (program->bytes.data != NULL)
        TRY(xcvm_program_load(program->bytes.data, program->bytes.length, &options, &program->handle, error));
    else
        TRY(xcvm_program_load_file(program->path, &options, &program->handle, error));
    return XCVM_OK;
}

static void print_unused(const struct program *program, const struct program_flags *flags)
{
    struct buffer names = {0};
    if (program->kind != FILE_MODEL)
        model_options_given(&flags->model, &names);
    if (names.length != 0)
        report_line("note: %s: the program is compiled already, so that options for models have no effect (%s)",
                    program->path, buffer_string(&names));
    buffer_release(&names);
}

xcvm_status program_open(const char *path, const struct program_flags *flags, struct program *program,
                         xcvm_error *error)
{
    *program = (struct program){.path = path, .flush_subnormals = flags->model.flush_subnormals};
    TRY(dims_parse(&flags->model.dims, &program->dims, error));
    double start = now_seconds();
    xcvm_status status = make_bytes(path, flags, program, error);
    double made = now_seconds();
    program->compile_seconds = program->kind == FILE_MODEL ? made - start : 0;
    if (status == XCVM_OK)
        status = load(flags, program, error);
    program->load_seconds = now_seconds() - made;
    if (status == XCVM_INVALID_PROGRAM && program->kind == FILE_UNKNOWN)
        error_append(error, " (expected a program, its text, or an ONNX model)");
    library_release(&program->library);
    program->trains = flags->train != NULL;
    if (status == XCVM_OK && program->trains && program->kind != FILE_MODEL)
        status = error_set(error, XCVM_INVALID_ARGUMENT, "--train needs a model, not a compiled program");
    if (status == XCVM_OK)
        status = check_dims(program, error);
    if (status != XCVM_OK) {
        program_close(program);
        return status;
    }
    print_unused(program, flags);
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program->handle, &info);
    if (info.notice != NULL)
        report_line("note: %s: %s", path, info.notice);
    return XCVM_OK;
}

void program_close(struct program *program)
{
    xcvm_program_destroy(program->handle);
    buffer_release(&program->bytes);
    library_release(&program->library);
    dims_release(&program->dims);
    *program = (struct program){0};
}
