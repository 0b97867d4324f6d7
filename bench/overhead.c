/* overhead [FOLDER]: the overhead of the VM: loading a program of 100 MB, sixteen sessions of it, calling an empty
 * program, and an instruction of a program of many small ones, in a straight line and in the body of a loop. Temporary
 * files are written to FOLDER (bench/out). */
#include "measure.h"

#include <xcvm/xcvm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEGABYTES = 100, SESSIONS = 16, CHAIN = 1000, REPEATS = 2000, BODY = 100, ITERATIONS = 10 };

static void require(xcvm_status status, const xcvm_error *error)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "overhead: %s: %s\n", xcvm_status_name(status), error->message);
    exit(1);
}

static bool to_file(void *file, const void *bytes, size_t count) { return fwrite(bytes, 1, count, file) == count; }

static void assemble(const char *text, const char *folder, const char *path)
{
    xcvm_error error;
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    require(xcvm_assemble(text, strlen(text), folder, (xcvm_sink){to_file, file}, &error), &error);
    fclose(file);
}

/* Anonymous memory of this process in bytes: memory that a session writes, without the mapped program. */
static size_t anonymous_bytes(void)
{
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        size_t n;
        if (sscanf(line, "Anonymous: %zu", &n) == 1)
            kilobytes += n;
    }
    if (file != NULL)
        fclose(file);
    return kilobytes * 1024;
}

/* Best time of one call of a session over `program`, in seconds. */
static double best_run(xcvm_session *session, const char *what)
{
    xcvm_error error;
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        const double start = bench_now();
        if (xcvm_session_run(session, NULL, &error) != XCVM_OK) {
            fprintf(stderr, "overhead: %s: %s\n", what, error.message);
            exit(1);
        }
        const double time = bench_now() - start;
        best = time < best ? time : best;
    }
    return best;
}

static double time_text(const char *text, const char *folder, const char *path)
{
    xcvm_error error;
    xcvm_program *program;
    xcvm_session *session;
    assemble(text, folder, path);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    require(xcvm_program_load_file(path, NULL, &program, &error), &error);
    require(xcvm_session_create(program, &options, &session, &error), &error);
    const double best = best_run(session, path);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    remove(path);
    return best;
}

/* A program with a constant of MEGABYTES, at `path`. */
static void write_large_program(const char *folder, const char *path)
{
    char raw[4096], text[512];
    snprintf(raw, sizeof raw, "%s/overhead.raw", folder);
    FILE *file = fopen(raw, "wb");
    char *block = calloc(1, 1 << 20);
    if (file == NULL || block == NULL) {
        perror(raw);
        exit(1);
    }
    for (int i = 0; i < MEGABYTES; i++)
        fwrite(block, 1, 1 << 20, file);
    fclose(file);
    free(block);
    snprintf(text, sizeof text,
             "xcvm 1\ninput x f32[1]\noutput y f32[1]\nconstant w f32[%d] = @\"overhead.raw\":0\n"
             "$1 = In(name=\"x\")\n$2 = Gather(@w, i64[1] 5)\n$3 = Add($1, $2)\nOut($3, name=\"y\")\n",
             MEGABYTES << 18);
    assemble(text, folder, path);
    remove(raw);
}

static xcvm_program *measure_loading(const char *path)
{
    xcvm_error error;
    double best = 1e9;
    xcvm_program *program = NULL;
    for (int i = 0; i < 20; i++) {
        xcvm_program_destroy(program);
        const double start = bench_now();
        require(xcvm_program_load_file(path, NULL, &program, &error), &error);
        const double time = bench_now() - start;
        best = time < best ? time : best;
    }
    printf("loading a program of %d MB          %9.3f ms\n", MEGABYTES, best * 1e3);
    return program;
}

static void measure_sessions(xcvm_program *program)
{
    xcvm_error error;
    xcvm_session *sessions[SESSIONS];
    const size_t before = anonymous_bytes();
    const int64_t dims[] = {1};
    float one = 1;
    xcvm_value *x;
    require(xcvm_tensor_wrap(XCVM_F32, 1, dims, &one, (xcvm_finalizer){0}, &x, &error), &error);
    for (int i = 0; i < SESSIONS; i++) {
        const xcvm_session_options options = {.size = sizeof options, .threads = 1};
        require(xcvm_session_create(program, &options, &sessions[i], &error), &error);
        require(xcvm_session_set_input(sessions[i], 0, x, &error), &error);
        require(xcvm_session_run(sessions[i], NULL, &error), &error);
    }
    const size_t more = anonymous_bytes() - before;
    printf("%d sessions over it add             %9.1f KB (%.3f%% of its size)\n", SESSIONS, (double)more / 1024,
           100.0 * (double)more / ((double)MEGABYTES * 1048576));
    for (int i = 0; i < SESSIONS; i++)
        xcvm_session_destroy(sessions[i]);
    xcvm_value_release(x);
}

/* In a straight line, and in the body of a loop. */
static void measure_instructions(const char *folder, const char *path)
{
    char *text = malloc(CHAIN * 64 + 64);
    if (text == NULL)
        exit(1);
    size_t length = (size_t)sprintf(text, "xcvm 1\n$1 = Neg(f32[1] 1)\n");
    for (int i = 2; i <= CHAIN; i++)
        length += (size_t)sprintf(text + length, "$%d = Neg($%d)\nFree($%d)\n", i, i - 1, i - 1);
    printf("an instruction on one float (Neg, Free) %5.1f ns\n", time_text(text, folder, path) / CHAIN * 1e9);
    length = (size_t)sprintf(text,
                             "xcvm 1\n$1 = Identity(i64[] 0)\n$5 = Identity(f32[4x8] 1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8 "
                             "1 2 3 4 5 6 7 8 1 2 3 4 5 6 7 8)\n"
                             "loop:\n$2 = Less($1, i64[] %d)\nJmpFalse($2, to=done)\nFree($2)\n",
                             ITERATIONS);
    for (int i = 6; i <= 5 + BODY; i++)
        length +=
            (size_t)sprintf(text + length, "$%d = Add($%d, f32[8] 1 1 1 1 1 1 1 1)\nFree($%d)\n", i, i - 1, i - 1);
    sprintf(text + length,
            "$5 = Identity($%d)\nFree($%d)\n$3 = Add($1, i64[] 1)\nFree($1)\n$1 = Identity($3)\nFree($3)\n"
            "Jmp(to=loop)\ndone:\nFree($2)\n",
            5 + BODY, 5 + BODY);
    printf("an instruction of a loop (Add, Free)    %5.1f ns\n",
           time_text(text, folder, path) / (BODY * ITERATIONS) * 1e9);
    free(text);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "bench/out";
    char path[4096];
    snprintf(path, sizeof path, "%s/overhead.bin", folder);
    write_large_program(folder, path);
    xcvm_program *program = measure_loading(path);
    measure_sessions(program);
    xcvm_program_destroy(program);
    remove(path);
    printf("calling an empty program            %9.3f us\n", time_text("xcvm 1\n", folder, path) * 1e6);
    measure_instructions(folder, path);
    return 0;
}
