/* How compile time and memory grow with models of each kind. Prints a line per kind: the time for each size, and the
 * growth for each step of ten, where n log n is up to 12. compile_scaling [LARGEST [KIND...]] */
#include "tests/compiler/import_onnx/scale_models.h"

#include <xcvm/compiler.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALLEST = 10000, STEP = 10 };

static bool discard(void *user, const void *bytes, size_t count)
{
    *(size_t *)user += count;
    return bytes != NULL || count == 0;
}

/* Counts the bytes in use, and their maximum. */
typedef struct counter {
    size_t held, peak;
} counter;

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;
    c->held += bytes;
    c->peak = c->held > c->peak ? c->held : c->peak;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void deallocate(void *user, void *memory, size_t bytes)
{
    ((counter *)user)->held -= bytes;
    free(memory);
}

/* Processor time, so that other processes do not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Seconds, below 0 where the model is not compiled. */
static double compile(scale_kind kind, size_t size, double *bytes_each)
{
    test_bytes model = scale_model(kind, size);
    counter memory = {0};
    const xcvm_allocator allocator = {counted_allocate, deallocate, &memory};
    size_t pair_count;
    xcc_state_pair *pairs = scale_state_pairs(kind, size, &pair_count);
    const xcc_options options = {.size = sizeof options,
                                 .allocator = &allocator,
                                 .states.pairs = pairs,
                                 .states.pair_count = pair_count,
                                 .states.cache_rows = pair_count > 0 ? SCALE_CACHE_ROWS : 0};
    size_t written = 0;
    xcvm_error error;
    const double start = now();
    const xcvm_status status =
        xcc_compile(model.at, model.length, &options, (xcvm_sink){discard, &written}, NULL, &error);
    const double seconds = now() - start;
    *bytes_each = (double)memory.peak / (double)model.length;
    test_bytes_free(&model);
    free(pairs);
    if (status == XCVM_OK)
        return seconds;
    fprintf(stderr, "%s of %zu: %s\n", scale_kinds[kind].name, size, error.message);
    return -1;
}

static bool is_wanted(const char *name, int count, char *const *names)
{
    bool wanted = count == 0;
    for (int i = 0; i < count; i++)
        wanted = wanted || strcmp(name, names[i]) == 0;
    return wanted;
}

int main(int argc, char **argv)
{
    const size_t largest = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1000000;
    printf("| a model of n | ");
    for (size_t size = SMALLEST; size <= largest; size *= STEP)
        printf("n = %zu | %s", size, size > SMALLEST ? "times | " : "");
    puts("memory, times the model |");
    printf("| --- |");
    for (size_t size = SMALLEST; size <= largest; size *= STEP)
        printf(" ---: |%s", size > SMALLEST ? " ---: |" : "");
    puts(" ---: |");
    bool failed = false;
    for (scale_kind kind = 0; kind < SCALE_KIND_COUNT; kind++) {
        if (!is_wanted(scale_kinds[kind].name, argc > 2 ? argc - 2 : 0, argv + 2))
            continue;
        double before = 0, bytes_each = 0;
        printf("| %s |", scale_kinds[kind].what);
        for (size_t size = SMALLEST; size <= largest; size *= STEP) {
            const double seconds = compile(kind, size, &bytes_each);
            failed = failed || seconds < 0;
            if (seconds < 0)
                printf(" refused |%s", size > SMALLEST ? " |" : "");
            else if (size == SMALLEST)
                printf(" %.3f s |", seconds);
            else
                printf(" %.3f s | %.1f |", seconds, before > 0 ? seconds / before : 0);
            before = seconds;
            fflush(stdout);
        }
        printf(" %.1f |\n", bytes_each);
        fflush(stdout);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
