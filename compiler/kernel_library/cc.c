/* The C compiler: its flags for each target, and running it as a subprocess with a deadline. */
#include "compiler/kernel_library/cc.h"
#include "base/clock.h"
#include "base/isas.h"
#include "base/threads.h"
#include "ops/op.h"
#include "ops/table/table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Jobs side by side, and files of one job. */
enum { MOST_JOBS = 64, MOST_INPUTS = 64 };

/* Words of a compiler's name, as in "ccache gcc", and the length of all. */
enum { MOST_WORDS = 8, NAME_SIZE = 4096 };

enum { MOST_ISA_FLAGS = 4 };

/* An instruction set that can be compiled for. */
typedef struct target {
    const char *name, *flags[MOST_ISA_FLAGS];
} target;

static const target targets[] = {
#define TARGET_ONE(of, kind, suffix, name, has, ...) {name, {__VA_ARGS__}},
    XCVM_ALL_ISAS(TARGET_ONE, )};

static const target *find_target(const char *isa)
{
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(isa, targets[i].name) == 0)
            return &targets[i];
    return NULL;
}

const char *xcc_cc_isa(const xcc_options *options)
{
    if (options->kernel_library.target == NULL || strcmp(options->kernel_library.target, "native") == 0)
        return xcvm_kernel_isa();
    if (strcmp(options->kernel_library.target, "generic") == 0)
        return xcvm_isa_at(0);
    const target *t = find_target(options->kernel_library.target);
    return t != NULL ? t->name : NULL;
}

const char *xcc_cc_name(const xcc_options *options)
{
    if (options->kernel_library.compiler != NULL)
        return options->kernel_library.compiler;
    bool arm = strcmp(xcc_cc_isa(options), "aarch64") == 0;
    if (arm == (strcmp(xcvm_isa_at(0), "aarch64") == 0))
        return "cc";
    return arm ? "aarch64-linux-gnu-gcc" : "x86_64-linux-gnu-gcc";
}

size_t xcc_cc_flags(const xcc_options *options, const char *flags[XCC_MOST_FLAGS])
{
    /* Floating-point options of the VM's kernels, so that elements are equal. */
    static const char *const always[] = {
        "-O3", "-std=gnu11", "-fPIC", "-fvisibility=hidden", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math",
        "-w"};
    const target *t = find_target(xcc_cc_isa(options));
    size_t count = 0;
    for (; count < sizeof always / sizeof *always; count++)
        flags[count] = always[count];
    for (size_t i = 0; t != NULL && i < MOST_ISA_FLAGS && t->flags[i] != NULL; i++)
        flags[count++] = t->flags[i];
    return count;
}

/* posix_spawn does not write to its arguments. */
static char *argument(const char *text) { return (char *)(uintptr_t)text; }

/* Splits a command at blanks, as make does with CC, unless it is the path of a file. */
static xcvm_status split_name(const char *name, char text[NAME_SIZE], char *words[MOST_WORDS], size_t *count,
                              xcvm_error *error)
{
    *count = 0;
    size_t length = strlen(name);
    XCVM_CHECK(error, length < NAME_SIZE, INVALID_ARGUMENT, "the name of the C compiler is too long");
    memcpy(text, name, length + 1);
    if (access(name, X_OK) == 0) {
        words[(*count)++] = text;
        return XCVM_OK;
    }
    char *rest = text;
    for (char *word; (word = strtok_r(rest, " \t", &rest)) != NULL;) {
        XCVM_CHECK(error, *count < MOST_WORDS, INVALID_ARGUMENT, "the C compiler \"%.100s\" has more than %d words",
                   name, MOST_WORDS);
        words[(*count)++] = word;
    }
    XCVM_CHECK(error, *count > 0, INVALID_ARGUMENT, "the name of the C compiler is empty");
    return XCVM_OK;
}

static xcvm_status say_unstarted(const xcc_options *options, const char *why, xcvm_error *error)
{
    return xcvm_error_set(error, XCVM_UNSUPPORTED,
                          "kernels cannot be fused for %s: the C compiler %.100s cannot be run: %s",
                          xcc_cc_isa(options), xcc_cc_name(options), why);
}

/* Runs the compiler. With a deadline it has its own process group, so that its children can be killed with it. */
static xcvm_status start(const xcc_options *options, const xcc_cc_job *job, bool grouped, pid_t *child,
                         xcvm_error *error)
{
    const char *flags[XCC_MOST_FLAGS], *name = xcc_cc_name(options);
    char text[NAME_SIZE], *arguments[MOST_WORDS + XCC_MOST_FLAGS + MOST_INPUTS + 8];
    size_t count, flag_count = xcc_cc_flags(options, flags);
    XCVM_CHECK(error, job->input_count <= MOST_INPUTS, INTERNAL, "too many files for the C compiler");
    XCVM_TRY(split_name(name, text, arguments, &count, error));
    for (size_t i = 0; i < flag_count; i++)
        arguments[count++] = argument(flags[i]);
    arguments[count++] = argument(job->links ? "-shared" : "-c");
    arguments[count++] = argument("-o");
    arguments[count++] = argument(job->output);
    for (size_t i = 0; i < job->input_count; i++)
        arguments[count++] = argument(job->inputs[i]);
    if (job->links)
        arguments[count++] = argument("-lm");
    arguments[count] = NULL;
    posix_spawn_file_actions_t actions;
    XCVM_CHECK(error, posix_spawn_file_actions_init(&actions) == 0, OUT_OF_MEMORY, "no memory to start %.100s", name);
    posix_spawnattr_t attributes;
    int failed = posix_spawnattr_init(&attributes);
    const bool initialized = failed == 0;
    if (failed == 0 && grouped)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (failed == 0)
        failed = posix_spawn_file_actions_addopen(&actions, 2, job->messages, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (failed == 0)
        failed = posix_spawnp(child, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (initialized)
        posix_spawnattr_destroy(&attributes);
    return failed == 0 ? XCVM_OK : say_unstarted(options, strerror(failed), error);
}

static bool can_stop(xcc_stop stop) { return stop.deadline_ns != 0 || stop.cancelled != NULL; }

/* Exit code of a child that could not execute the file, if posix_spawn does not report it (POSIX, posix_spawn). */
enum { NOT_FOUND = 127 };

/* Waits for the compiler and kills it when it must stop, which sets *stopped. Returns its exit code; -1 for a signal.
 * If the host ignores SIGCHLD or waits for all children itself, the exit code is unknown, but a failed compiler leaves
 * no output. */
static int wait_for(pid_t child, const char *output, xcc_stop stop, xcvm_status *stopped)
{
    static const struct timespec pause = {0, 2000000};
    int state = 0;
    for (;;) {
        const pid_t ended = waitpid(child, &state, can_stop(stop) && *stopped == XCVM_OK ? WNOHANG : 0);
        if (ended == child)
            return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
        if (ended < 0 && errno != EINTR)
            return errno == ECHILD && access(output, R_OK) == 0 ? 0 : -1;
        if (ended < 0 || !can_stop(stop))
            continue;
        if (*stopped == XCVM_OK)
            *stopped = xcc_stop_status(stop);
        if (*stopped != XCVM_OK)
            (void)kill(-child, SIGKILL);
        else
            (void)nanosleep(&pause, NULL);
    }
}

/* The first lines that the C compiler printed. */
static xcvm_status say_failure(const xcc_options *options, const xcc_cc_job *job, int code, xcvm_error *error)
{
    char text[300];
    size_t length = 0;
    FILE *file = fopen(job->messages, "re");
    if (file != NULL) {
        length = fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    text[length] = '\0';
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    if (code == NOT_FOUND && length == 0)
        return say_unstarted(options, strerror(ENOENT), error);
    const char *kept = options->kernel_library.source_path;
    return xcvm_error_set(error, XCVM_UNSUPPORTED,
                          "the C compiler %.60s does not make the kernel library for %s (%s%.80s): %s",
                          xcc_cc_name(options), xcc_cc_isa(options),
                          kept != NULL ? "its source is " : "keep-c keeps its source", kept != NULL ? kept : "", text);
}

xcvm_status xcc_cc_run(const xcc_options *options, const xcc_cc_job *jobs, size_t count, xcc_stop stop,
                       xcvm_error *error)
{
    xcvm_status stopped = XCVM_OK;
    pid_t children[MOST_JOBS];
    int allowed = xcvm_available_thread_count();
    size_t side_by_side = allowed < 1 ? 1 : allowed > MOST_JOBS ? MOST_JOBS : (size_t)allowed;
    xcvm_status status = XCVM_OK;
    size_t started = 0, ended = 0;
    while (ended < started || (started < count && status == XCVM_OK)) {
        if (started < count && status == XCVM_OK && started - ended < side_by_side) {
            status = start(options, &jobs[started], can_stop(stop), &children[started % MOST_JOBS], error);
            if (status == XCVM_OK)
                started++;
            continue;
        }
        if (stopped != XCVM_OK)
            (void)kill(-children[ended % MOST_JOBS], SIGKILL);
        const int code = wait_for(children[ended % MOST_JOBS], jobs[ended].output, stop, &stopped);
        if (stopped != XCVM_OK)
            status = xcvm_error_set(error, stopped, "%s",
                                    stopped == XCVM_CANCELLED ? "the compilation was cancelled"
                                                              : "the C compiler exceeds the time limit");
        else if (code != 0 && status == XCVM_OK)
            status = say_failure(options, &jobs[ended], code, error);
        ended++;
    }
    return status;
}
