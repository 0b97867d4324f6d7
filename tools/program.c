#include "program.h"
#include "file.h"
#include "memory.h"
#include "progress.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct option program_options[6] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, offsetof(struct program_flags, dims), 0, 0,
     "the size of an open dimension of the inputs; may be repeated"},
    {"optimize", 'O', "LEVEL", OPTION_INT, offsetof(struct program_flags, optimization), 0, 2,
     "how far a model is optimised when it is compiled: 0 only what is needed to run, 1 no merging, 2 all"},
    {"copy", 0, NULL, OPTION_FLAG, offsetof(struct program_flags, copy), 0, 0,
     "read the constants into memory instead of mapping the file"},
    {"no-libraries", 0, NULL, OPTION_FLAG, offsetof(struct program_flags, no_libraries), 0, 0,
     "open no kernel library; run the plain instructions"},
    {"library-dir", 0, "DIR", OPTION_FOLDER, offsetof(struct program_flags, library_dir), 0, 0,
     "where kernel libraries may lie besides the program's own folder"},
    {"isa", 0, "NAME", OPTION_TEXT, offsetof(struct program_flags, isa), 0, 0,
     "run the kernels of another instruction set than this CPU's best: x86-64, x86-64-v3 or x86-64-v4"},
};

/* ---- Dimensions ---- */

int64_t dims_find(const struct dims *dims, const char *name)
{
    for (size_t i = 0; i < dims->count && name != NULL; i++)
        if (strcmp(dims->items[i].name, name) == 0)
            return dims->items[i].value;
    return -1;
}

bool dims_add(struct dims *dims, const char *name, int64_t value)
{
    int64_t known = dims_find(dims, name);
    if (known >= 0)
        return known == value;
    dims->items = memory_append(dims->items, dims->count, sizeof *dims->items);
    dims->items[dims->count++] = (xcc_dim){memory_text(name), value};
    return true;
}

xcvm_status dims_parse(const struct text_list *texts, struct dims *dims, xcvm_error *error)
{
    *dims = (struct dims){0};
    for (size_t i = 0; i < texts->count; i++) {
        const char *equals = strrchr(texts->items[i], '=');
        int64_t size;
        bool good = equals != NULL && equals != texts->items[i] && parse_int(equals + 1, &size) && size >= 0;
        if (good) {
            char *name = memory_text_n(texts->items[i], (size_t)(equals - texts->items[i]));
            good = dims_add(dims, name, size);
            free(name);
        }
        if (!good) {
            dims_release(dims);
            return error_set(error, XCVM_INVALID_ARGUMENT, "--dim=%.100s: wanted NAME=SIZE, one size for each name",
                             texts->items[i]);
        }
    }
    return XCVM_OK;
}

void dims_release(struct dims *dims)
{
    for (size_t i = 0; i < dims->count; i++)
        free((char *)(uintptr_t)dims->items[i].name);
    free(dims->items);
    *dims = (struct dims){0};
}

/* ---- Compiling ---- */

int compiler_level(int64_t level) { return level == 0 ? -1 : (int)level; }

/* Both callbacks of the compiler get the same `user`. */
struct compiling {
    struct progress progress;
    xcvm_sink dump;
    void *dump_user;
};

static void show_progress(void *user, const char *pass, double fraction)
{
    struct compiling *compiling = user;
    progress_show(&compiling->progress, pass, fraction);
}

static bool pass_dump(void *user, const void *bytes, size_t count)
{
    struct compiling *compiling = user;
    progress_end(&compiling->progress);
    return compiling->dump(compiling->dump_user, bytes, count);
}

xcvm_status compile_model(const char *path, const xcc_options *options, xcvm_sink sink, void *user, xcc_report *report,
                          xcvm_error *error)
{
    struct compiling compiling = {.dump = options->dump, .dump_user = options->user};
    xcc_options own = *options;
    own.progress = show_progress;
    own.dump = options->dump != NULL ? pass_dump : NULL;
    own.user = &compiling;
    progress_start(&compiling.progress);
    xcvm_status status;
    if (strcmp(path, "-") == 0) {
        struct buffer model = {0};
        status = file_read(path, &model, error);
        if (status == XCVM_OK)
            status = xcc_compile(model.data, model.length, &own, sink, user, report, error);
        buffer_release(&model);
    } else {
        status = xcc_compile_file(path, &own, sink, user, report, error);
    }
    progress_end(&compiling.progress);
    return status;
}

static xcvm_status compile_into(const char *path, const struct buffer *model, const struct program_flags *flags,
                                const struct dims *dims, struct buffer *bytes, xcc_report *report, xcvm_error *error)
{
    xcc_options options = {.size = sizeof options,
                           .dims = dims->items,
                           .dim_count = dims->count,
                           .optimization = compiler_level(flags->optimization)};
    if (report != NULL)
        *report = (xcc_report){.size = sizeof *report};
    if (model != NULL)
        return xcc_compile(model->data, model->length, &options, buffer_sink, bytes, report, error);
    return compile_model(path, &options, buffer_sink, bytes, report, error);
}

static xcvm_status assemble_into(const char *path, const struct buffer *text, struct buffer *bytes, xcvm_error *error)
{
    char *folder = file_folder(path);
    xcvm_status status = xcvm_assemble(text->data, text->length, folder, buffer_sink, bytes, error);
    free(folder);
    return status;
}

/* Makes a program's bytes from what `path` is, or leaves them empty if it is a program in a file. */
static xcvm_status make_bytes(const char *path, const struct program_flags *flags, const struct dims *dims,
                              struct buffer *bytes, bool *compiled, xcc_report *report, xcvm_error *error)
{
    enum file_kind kind;
    bool piped = strcmp(path, "-") == 0;
    struct buffer content = {0};
    *compiled = false;
    if (piped)
        TRY(file_read(path, &content, error));
    else
        TRY(file_kind_of(path, &kind, error));
    if (piped)
        kind = file_kind_of_bytes(content.data, content.length);
    xcvm_status status = XCVM_OK;
    if (kind == FILE_MODEL) {
        *compiled = true;
        status = compile_into(path, piped ? &content : NULL, flags, dims, bytes, report, error);
    } else if (kind == FILE_ASSEMBLY) {
        if (!piped)
            status = file_read(path, &content, error);
        if (status == XCVM_OK)
            status = assemble_into(path, &content, bytes, error);
    } else if (piped) {
        *bytes = content;
        return XCVM_OK;
    }
    buffer_release(&content);
    if (status != XCVM_OK)
        buffer_release(bytes);
    return status;
}

xcvm_status program_bytes(const char *path, const struct program_flags *flags, struct buffer *bytes, bool *made,
                          xcvm_error *error)
{
    struct dims dims;
    bool compiled;
    *bytes = (struct buffer){0};
    TRY(dims_parse(&flags->dims, &dims, error));
    xcvm_status status = make_bytes(path, flags, &dims, bytes, &compiled, NULL, error);
    dims_release(&dims);
    *made = bytes->data != NULL;
    if (status == XCVM_OK && !*made)
        status = file_read(path, bytes, error);
    return status;
}

xcvm_status program_open(const char *path, const struct program_flags *flags, struct program *program,
                         xcvm_error *error)
{
    *program = (struct program){.path = path};
    TRY(dims_parse(&flags->dims, &program->dims, error));
    double start = now_seconds();
    xcvm_status status =
        make_bytes(path, flags, &program->dims, &program->bytes, &program->compiled, &program->report, error);
    double made = now_seconds();
    program->compile_seconds = program->compiled ? made - start : 0;
    xcvm_load_options options = {.size = sizeof options,
                                 .copy = flags->copy,
                                 .no_libraries = flags->no_libraries,
                                 .library_dir = flags->library_dir,
                                 .isa = flags->isa};
    if (status == XCVM_OK && program->bytes.data != NULL)
        status = xcvm_program_load(program->bytes.data, program->bytes.length, &options, &program->handle, error);
    else if (status == XCVM_OK)
        status = xcvm_program_load_file(path, &options, &program->handle, error);
    program->load_seconds = now_seconds() - made;
    if (status != XCVM_OK) {
        program_close(program);
        return status;
    }
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_describe(program->handle, &info);
    if (info.notice != NULL)
        fprintf(stderr, "xcvm: note: %s: %s\n", path, info.notice);
    return XCVM_OK;
}

void program_close(struct program *program)
{
    xcvm_program_destroy(program->handle);
    buffer_release(&program->bytes);
    dims_release(&program->dims);
    *program = (struct program){0};
}
