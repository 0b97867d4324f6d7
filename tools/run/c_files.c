/* Writing a program as C. */
#include "run/c_files.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"
#include "io/file.h"
#include "io/output.h"

#include <xcvm/compiler.h>
#include <xcvm/export_c.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const struct option c_options[] = {
    {"emit", 0, "program|c|wasm|onnx", OPTION_CHOICE, offsetof(struct c_flags, emit), 0, 0,
     "the kind of output. With c, it is C99 source that computes the same without the library: -o NET.c writes NET.c "
     "and NET.h. With wasm, it is a WebAssembly module of this C with its weights: -o NET.wasm also writes the ES "
     "module "
     "NET.mjs and the TypeScript declarations NET.d.mts. With onnx, it is an ONNX model of the graph before operator "
     "fusion. For C and WebAssembly, MODEL may also be a program. With --target, the C uses the vectors of that "
     "instruction set and channels in blocks. Without it, the C is for any processor, smaller and slower. WebAssembly "
     "uses SIMD, and needs clang 19 with lld and wasi-libc"},
    {"weights-file", 0, "FILE", OPTION_FILE, offsetof(struct c_flags, weights_file), 0, 0,
     "with --emit c or onnx, write the constants to this file. C maps, links or reads it. An ONNX model needs it in "
     "its own directory"},
    {"arena-in", 0, "NAME", OPTION_TEXT, offsetof(struct c_flags, arena_in), 0, 0,
     "with --emit c, put the working memory into an array of this name that the host defines, or, if the name contains "
     "a dot, into that linker section. Without it, the memory is part of the context"},
    {"with-main", 0, NULL, OPTION_FLAG, offsetof(struct c_flags, with_main), 0, 0,
     "with --emit c, add a main function. It reads each input from a file that is named as an argument, and writes the "
     "outputs to standard output, as raw bytes"},
    END_OF_OPTIONS,
};

bool emits_c(const struct c_flags *flags) { return strcmp(flags->emit, "c") == 0; }
bool emits_onnx(const struct c_flags *flags) { return strcmp(flags->emit, "onnx") == 0; }
bool emits_wasm(const struct c_flags *flags) { return strcmp(flags->emit, "wasm") == 0; }

int c_flags_check_name(const struct c_flags *flags, const char *output)
{
    if (!emits_c(flags) && suffix_is(output, ".c"))
        return report_usage("%s: the name is one of C source. Add --emit c", output);
    if (!emits_wasm(flags) && suffix_is(output, ".wasm"))
        return report_usage("%s: the name is one of a WebAssembly module. Add --emit wasm", output);
    if (!emits_onnx(flags) && suffix_is(output, ".onnx"))
        return report_usage("%s: the name is one of an ONNX model. Add --emit onnx, or name the program %.*s.bin",
                            output, (int)(strlen(output) - 5), output);
    if (emits_c(flags) || emits_wasm(flags))
        return EXIT_OK;
    return emits_onnx(flags) ? output_check_name(output, ".onnx", "an ONNX model, for example model.onnx")
                             : output_check_program(output);
}

int c_flags_check(const struct c_flags *flags, const char *output, bool is_fused)
{
    const char *given = flags->weights_file != NULL && !emits_onnx(flags) ? "weights-file"
                        : flags->arena_in != NULL                         ? "arena-in"
                        : flags->with_main                                ? "with-main"
                                                                          : NULL;
    if (!emits_c(flags) && given != NULL)
        return report_usage("--%s has no effect without --emit c", given);
    if (is_fused && strcmp(flags->emit, "program") != 0)
        return report_usage("--kernel-library makes a kernel library, which %s does not use",
                            emits_c(flags)      ? "exported C"
                            : emits_wasm(flags) ? "a WebAssembly module"
                                                : "an ONNX model");
    if (emits_onnx(flags) && flags->weights_file != NULL && output != NULL) {
        char *folder = file_folder(flags->weights_file), *model_folder = file_folder(output);
        const bool together = strcmp(folder, model_folder) == 0;
        free(folder);
        free(model_folder);
        if (!together)
            return report_usage("%s: the constants of an ONNX model must be in the directory of the model",
                                flags->weights_file);
    }
    if (emits_c(flags) && output != NULL && !suffix_is(output, ".c"))
        return report_usage("%s: the name of C source must end in .c", output);
    if (emits_wasm(flags) && output != NULL && !suffix_is(output, ".wasm"))
        return report_usage("%s: the name of a WebAssembly module must end in .wasm", output);
    return EXIT_OK;
}

/* The prefix of C declarations: the file's name, with other characters replaced. */
static char *prefix_of(const char *base)
{
    char *name = memory_text_n(base, strlen(base) - strlen(".c"));
    for (char *at = name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at))
            *at = '_';
    if (name[0] != '\0' && !isdigit((unsigned char)name[0]))
        return name;
    free(name);
    return memory_text("net");
}

xcvm_status c_files_write(const struct c_flags *flags, const struct buffer *program, const char *target,
                          const char *path, xcvm_error *error)
{
    enum { SOURCE, HEADER, WEIGHTS, FILES };
    char *header = memory_text(path), *base = file_base_name(path);
    header[strlen(header) - 1] = 'h';
    char *name = prefix_of(base), *header_name = file_base_name(header);
    const char *const paths[FILES] = {path, header, flags->weights_file};
    struct output outputs[FILES];
    size_t opened = 0;
    xcvm_status status = XCVM_OK;
    if (flags->weights_file != NULL &&
        (strcmp(flags->weights_file, path) == 0 || strcmp(flags->weights_file, header) == 0))
        status =
            error_set(error, XCVM_INVALID_ARGUMENT, "%s: code and weights need different files", flags->weights_file);
    const size_t files = flags->weights_file != NULL ? FILES : WEIGHTS;
    while (status == XCVM_OK && opened < files &&
           (status = output_open(&outputs[opened], paths[opened], error)) == XCVM_OK)
        opened++;
    if (status == XCVM_OK) {
        const xcc_export_c_options options = {
            .size = sizeof options,
            .name = name,
            .header_name = header_name,
            .target = target,
            .arena_in = flags->arena_in,
            .with_main = flags->with_main,
            .source = {output_sink, &outputs[SOURCE]},
            .header = {output_sink, &outputs[HEADER]},
            .weights = {flags->weights_file != NULL ? output_sink : NULL, &outputs[WEIGHTS]}};
        status = xcc_export_c(program->data, program->length, &options, error);
    }
    if (status == XCVM_OK)
        status = output_finish_all(outputs, opened, error);
    else
        for (size_t i = 0; i < opened; i++)
            output_discard(&outputs[i], error);
    free(header);
    free(base);
    free(name);
    free(header_name);
    return status;
}
