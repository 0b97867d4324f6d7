/* Writing a program as WebAssembly: its C is compiled in a temporary directory by clang for wasm32-wasi. */
#include "run/wasm_files.h"
#include "cli/clock.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "io/cleanup.h"
#include "io/file.h"
#include "io/output.h"
#include "run/c_files.h"
#include "run/kernel_cache.h"

#include <xcvm/compiler.h>
#include <xcvm/export_c.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define DEFAULT_COMPILER "clang-19"
#define PACKAGES "clang-19 lld-19 libclang-rt-19-dev-wasm32 wasi-libc"

/* The files that the compiler reads and writes, in a directory of their own. */
enum { SOURCE, HEADER, WEIGHTS, OBJECT, MODULE, MESSAGES, FILES };
static const char *const file_names[FILES] = {"net.c", "net.h", "net.weights", "net.o", "net.wasm", "messages"};
struct workplace {
    struct library folder;
    const char *compiler;
    double until;
    char *paths[FILES];
};

static void workplace_end(struct workplace *place)
{
    library_release(&place->folder);
    for (size_t i = 0; i < FILES; i++)
        free(place->paths[i]);
}

static xcvm_status workplace_begin(struct workplace *place, const char *compiler, double until, xcvm_error *error)
{
    *place = (struct workplace){.compiler = compiler != NULL ? compiler : DEFAULT_COMPILER, .until = until};
    TRY(library_begin(&place->folder, library_temporary_folder(), "xcvm-wasm", error));
    for (size_t i = 0; i < FILES; i++)
        place->paths[i] = memory_format("%s/%s", place->folder.folder, file_names[i]);
    return XCVM_OK;
}

static xcvm_status say_failure(const struct workplace *place, const char *why, xcvm_error *error)
{
    char text[400] = "";
    FILE *file = why == NULL ? fopen(place->paths[MESSAGES], "re") : NULL;
    if (file != NULL) {
        size_t length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        while (length > 0 && text[length - 1] == '\n')
            length--;
        text[length] = '\0';
    }
    return error_set(
        error, XCVM_UNSUPPORTED,
        "%s cannot compile for WebAssembly: %s. --emit wasm needs clang 19 or later with lld and wasi-libc; "
        "on Debian: apt-get install " PACKAGES,
        place->compiler, why != NULL ? why : text);
}

/* Waits for the compiler, and kills it at the deadline. Returns its exit code, or -1. */
static int wait_for(pid_t child, double until, bool *late)
{
    static const struct timespec pause = {0, 5000000};
    for (;;) {
        int state = 0;
        const pid_t ended = waitpid(child, &state, until != 0 && !*late ? WNOHANG : 0);
        if (ended == child)
            return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
        if (ended < 0 && errno != EINTR)
            return -1;
        if (ended != 0)
            continue;
        *late = now_seconds() >= until;
        if (*late)
            (void)kill(-child, SIGKILL);
        else
            (void)nanosleep(&pause, NULL);
    }
}

/* Runs the compiler with these arguments, NULL at the end. Its children, such as the linker, have its process group. */
static xcvm_status run_compiler(const struct workplace *place, const char *const arguments[], xcvm_error *error)
{
    enum { MOST = 32 };
    char *all[MOST] = {(char *)(uintptr_t)place->compiler};
    for (size_t i = 0; arguments[i] != NULL && i + 2 < MOST; i++)
        all[i + 1] = (char *)(uintptr_t)arguments[i];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t child = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return error_set(error, XCVM_OUT_OF_MEMORY, "no memory to start %s", place->compiler);
    int failed = posix_spawnattr_init(&attributes);
    const bool initialized = failed == 0;
    if (failed == 0 && place->until != 0)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (failed == 0)
        failed = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, place->paths[MESSAGES],
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (failed == 0)
        failed = posix_spawnp(&child, all[0], &actions, &attributes, all, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (initialized)
        posix_spawnattr_destroy(&attributes);
    if (failed != 0)
        return say_failure(place, strerror(failed), error);
    bool late = false;
    const int code = wait_for(child, place->until, &late);
    if (late)
        return error_set(error, XCVM_OUT_OF_TIME, "%s exceeds the time limit, --timeout-ms", place->compiler);
    return code == 0 ? XCVM_OK : say_failure(place, code == 127 ? strerror(ENOENT) : NULL, error);
}

/* Compiles and links the source. The linker gets no -O, because clang would then run wasm-opt, which takes minutes for
 * large weights. */
static xcvm_status build_module(const struct workplace *place, xcvm_error *error)
{
    const char *const compile[] = {"--target=wasm32-wasi",
                                   "-O3",
                                   "-std=c11",
                                   "-w",
                                   "-msimd128",
                                   "-mbulk-memory",
                                   "-mnontrapping-fptoint",
                                   "-msign-ext",
                                   "-fno-math-errno",
                                   "-fno-trapping-math",
                                   "-c",
                                   place->paths[SOURCE],
                                   "-o",
                                   place->paths[OBJECT],
                                   NULL};
    /* The stack comes first, so that an overflow ends the run instead of overwriting weights. */
    const char *const link[] = {"--target=wasm32-wasi",
                                "-nostartfiles",
                                "-Wl,--no-entry",
                                "-Wl,--strip-all",
                                "-Wl,--gc-sections",
                                "-Wl,--stack-first",
                                "-Wl,-z,stack-size=262144",
                                place->paths[OBJECT],
                                "-lm",
                                "-o",
                                place->paths[MODULE],
                                NULL};
    TRY(run_compiler(place, compile, error));
    return run_compiler(place, link, error);
}

xcvm_status wasm_compiler_check(const char *compiler, double until, xcvm_error *error)
{
    static const char source[] =
        "#include <math.h>\n#include <string.h>\n"
        "static const unsigned char bytes[] = {\n#embed \"net.h\" if_empty(0)\n};\n"
        "__attribute__((export_name(\"f\"))) double f(double x) { return exp(x) + bytes[0]; }\n";
    struct workplace place;
    xcvm_status status = workplace_begin(&place, compiler, until, error);
    if (status == XCVM_OK)
        status = output_write(place.paths[SOURCE], source, sizeof source - 1, error);
    if (status == XCVM_OK)
        status = output_write(place.paths[HEADER], "", 0, error);
    if (status == XCVM_OK)
        status = build_module(&place, error);
    workplace_end(&place);
    return status;
}

/* Exports the program as C. The files of the package go to `script` and `types`. */
static xcvm_status export_source(const struct workplace *place, const struct buffer *program, const char *module_name,
                                 struct output *script, struct output *types, xcvm_error *error)
{
    struct output outputs[OBJECT];
    size_t opened = 0;
    xcvm_status status = XCVM_OK;
    while (status == XCVM_OK && opened < OBJECT &&
           (status = output_open(&outputs[opened], place->paths[opened], error)) == XCVM_OK)
        opened++;
    if (status == XCVM_OK) {
        const xcc_export_c_options options = {.size = sizeof options,
                                              .name = "net",
                                              .header_name = file_names[HEADER],
                                              .target = "generic",
                                              .source = {output_sink, &outputs[SOURCE]},
                                              .header = {output_sink, &outputs[HEADER]},
                                              .weights = {output_sink, &outputs[WEIGHTS]},
                                              .script = {output_sink, script},
                                              .types = {output_sink, types},
                                              .weights_name = file_names[WEIGHTS],
                                              .module_name = module_name};
        status = xcc_export_c(program->data, program->length, &options, error);
    }
    if (status == XCVM_OK)
        return output_finish_all(outputs, opened, error);
    for (size_t i = 0; i < opened; i++)
        output_discard(&outputs[i], error);
    return status;
}

static xcvm_status copy_module(const struct workplace *place, struct output *to, xcvm_error *error)
{
    char bytes[1 << 16];
    FILE *file = fopen(place->paths[MODULE], "re");
    if (file == NULL)
        return error_set(error, XCVM_IO, "%s: cannot be read: %s", place->paths[MODULE], strerror(errno));
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, file)) > 0;)
        (void)output_sink(to, bytes, count); /* output_finish reports a failure */
    const bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? error_set(error, XCVM_IO, "%s: cannot be read", place->paths[MODULE]) : XCVM_OK;
}

xcvm_status wasm_files_write(const struct buffer *program, const char *compiler, const char *path, double until,
                             xcvm_error *error)
{
    enum { WASM, SCRIPT, TYPES, OUTPUTS };
    const int stem = (int)(strlen(path) - strlen(".wasm"));
    char *const module_name = file_base_name(path);
    char *const paths[OUTPUTS] = {memory_text(path), memory_format("%.*s.mjs", stem, path),
                                  memory_format("%.*s.d.mts", stem, path)};
    struct output outputs[OUTPUTS];
    struct workplace place;
    size_t opened = 0;
    xcvm_status status = workplace_begin(&place, compiler, until, error);
    while (status == XCVM_OK && opened < OUTPUTS &&
           (status = output_open(&outputs[opened], paths[opened], error)) == XCVM_OK)
        opened++;
    if (status == XCVM_OK)
        status = export_source(&place, program, module_name, &outputs[SCRIPT], &outputs[TYPES], error);
    if (status == XCVM_OK)
        status = build_module(&place, error);
    if (status == XCVM_OK)
        status = copy_module(&place, &outputs[WASM], error);
    if (status == XCVM_OK)
        status = output_finish_all(outputs, opened, error);
    else
        for (size_t i = 0; i < opened; i++)
            output_discard(&outputs[i], error);
    workplace_end(&place);
    for (size_t i = 0; i < OUTPUTS; i++)
        free(paths[i]);
    free(module_name);
    return status;
}
