/* Timing of kernels: tensors, calls and the best of several runs. */
#include "bench/kernel_bench.h"
#include "base/clock.h"
#include "bench/measure.h"
#include "ops/table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bench_isa(void)
{
    const char *chosen = getenv("XCVM_BENCH_ISA");
    return chosen != NULL ? chosen : xcvm_kernel_isa();
}

void bench_tensor_make(bench_tensor *t, int rank, const int64_t *dims)
{
    xcvm_value_set_tensor(&t->value, XCVM_F32, rank, dims);
    t->bytes = t->value.bytes;
    t->value.memory_kind = XCVM_MEMORY_BORROWED;
    t->value.data = xcvm_allocate(NULL, t->bytes);
    if (t->value.data == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", t->bytes);
        exit(1);
    }
    uint32_t state = 1;
    for (size_t i = 0; i < t->bytes / sizeof(float); i++)
        XCVM_DATA(float, &t->value)[i] = (float)(2 * bench_number(&state));
}

void bench_tensor_free(bench_tensor *t) { xcvm_deallocate(NULL, t->value.data, t->bytes); }

double bench_kernel(xcvm_opcode opcode, const void *args, int threads, double seconds)
{
    xcvm_error error = {.status = XCVM_OK};
    xcvm_heap *heap = NULL;
    xcvm_threads *pool = NULL;
    xcvm_status status = xcvm_heap_create(NULL, 0, &heap, &error);
    if (status == XCVM_OK)
        status = xcvm_threads_create(NULL, threads, &pool, &error);
    xcvm_kernel k = {.error = &error, .heap = heap, .threads = pool};
    const xcvm_kernel_run run = xcvm_kernel_for(opcode, bench_isa());
    const uint64_t end = xcvm_clock_ns() + (uint64_t)(seconds * 1e9);
    double best = 1e9;
    for (uint64_t now = xcvm_clock_ns(); status == XCVM_OK && now < end;) {
        status = run(&k, args);
        const uint64_t then = xcvm_clock_ns();
        const double took = (double)(then - now) * 1e-9;
        best = took < best ? took : best;
        now = then;
    }
    if (status != XCVM_OK) {
        fprintf(stderr, "%s: %s\n", xcvm_schema_of(opcode)->name, error.message);
        exit(1);
    }
    xcvm_storage_release(k.scratch_storage);
    xcvm_threads_destroy(pool);
    xcvm_heap_destroy(heap);
    return best;
}

enum { CHAINS = 12, STEPS = 2000000 };

/* Chains of multiply-adds, enough of them to hide the latency of each; all different, lest they be made one. */
#define PEAK(name, attribute, lanes)                                                                                   \
    attribute static double name(void)                                                                                 \
    {                                                                                                                  \
        typedef float vector __attribute__((vector_size(4 * (lanes))));                                                \
        vector sum[CHAINS] = {{0}}, factor = {0};                                                                      \
        volatile float half = 0.5f;                                                                                    \
        factor += half;                                                                                                \
        for (int j = 0; j < CHAINS; j++)                                                                               \
            sum[j] += (float)j * half;                                                                                 \
        const uint64_t start = xcvm_clock_ns();                                                                        \
        for (long i = 0; i < STEPS; i++) {                                                                             \
            _Pragma("GCC unroll 12") for (int j = 0; j < CHAINS; j++) sum[j] = sum[j] * factor + factor;               \
        }                                                                                                              \
        const double took = (double)(xcvm_clock_ns() - start) * 1e-9;                                                  \
        for (int j = 0; j < CHAINS; j++)                                                                               \
            half = half + sum[j][0];                                                                                   \
        return 2.0 * (lanes)*CHAINS * STEPS / took;                                                                    \
    }
#if defined(__x86_64__)
PEAK(peak_v4, __attribute__((target("avx512f,fma"))), 16)
PEAK(peak_v3, __attribute__((target("avx2,fma"))), 8)
#endif
PEAK(peak_plain, , 4)

double bench_peak(void)
{
    double best = 0.0;
    for (int i = 0; i < 10; i++) {
        double peak = 0.0;
#if defined(__x86_64__)
        if (strcmp(bench_isa(), "x86-64-v4") == 0)
            peak = peak_v4();
        else if (strcmp(bench_isa(), "x86-64-v3") == 0)
            peak = peak_v3();
        else
#endif
            peak = peak_plain();
        best = peak > best ? peak : best;
    }
    return best;
}

/* Bytes that are read, more than the last-level cache, and of a timed part, which takes less than a time slice. */
#define READ_BYTES (UINT64_C(256) << 20)
#define PART_BYTES (UINT64_C(16) << 20)
enum { LINE = 64, LINES_AHEAD = 128 };

/* All bytes of a part, from two places at a time, by plain loads or with lines fetched ahead. */
#define READ(name, attribute, bytes)                                                                                   \
    attribute static void name(const char *from, bool ahead)                                                           \
    {                                                                                                                  \
        typedef uint64_t words __attribute__((vector_size(bytes), may_alias));                                         \
        words low = {0}, high = {0};                                                                                   \
        for (const char *at = from, *end = from + PART_BYTES / 2; at < end; at += LINE) {                              \
            if (ahead) {                                                                                               \
                __builtin_prefetch(at + LINES_AHEAD * LINE);                                                           \
                __builtin_prefetch(at + LINES_AHEAD * LINE + PART_BYTES / 2);                                          \
            }                                                                                                          \
            _Pragma("GCC unroll 4") for (size_t i = 0; i < LINE; i += sizeof low)                                      \
            {                                                                                                          \
                low ^= *(const words *)(const void *)(at + i);                                                         \
                high ^= *(const words *)(const void *)(at + PART_BYTES / 2 + i);                                       \
            }                                                                                                          \
        }                                                                                                              \
        volatile words kept = low ^ high;                                                                              \
        (void)kept;                                                                                                    \
    }
#if defined(__x86_64__)
READ(read_v4, __attribute__((target("avx512f"))), 64)
READ(read_v3, __attribute__((target("avx2"))), 32)
#endif
READ(read_plain, , 16)

double bench_read_rate(double seconds)
{
    void (*read)(const char *from, bool ahead) = read_plain;
#if defined(__x86_64__)
    read = __builtin_cpu_supports("avx512f") ? read_v4 : __builtin_cpu_supports("avx2") ? read_v3 : read_plain;
#endif
    static char *memory;
    if (memory == NULL && (memory = xcvm_allocate(NULL, READ_BYTES)) == NULL) {
        fprintf(stderr, "no memory for %llu bytes\n", (unsigned long long)READ_BYTES);
        exit(1);
    }
    memset(memory, 1, READ_BYTES);
    const uint64_t end = xcvm_clock_ns() + (uint64_t)(seconds * 1e9);
    double best = 0.0;
    for (uint64_t now = xcvm_clock_ns(), round = 0; now < end; round++)
        for (size_t at = 0; at < READ_BYTES; at += PART_BYTES) {
            read(memory + at, round % 2 == 1);
            const uint64_t then = xcvm_clock_ns();
            const double rate = (double)PART_BYTES / ((double)(then - now) * 1e-9);
            best = rate > best ? rate : best;
            now = then;
        }
    return best;
}
