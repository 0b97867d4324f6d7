/* block_bench [SECONDS]: products with weights that are quantised in blocks, as BlockQuantizedGemm computes them: of
 * one row beside the rate at which one core reads memory, of many beside PackedGemm in f32. SECONDS is the time for
 * each figure (0.2). */
#include "bench/kernel_bench.h"
#include "base/clock.h"
#include "ops/matmul/quantized_blocks.h"
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of what is read: beyond the last cache. */
#define READ_BYTES (UINT64_C(256) << 20)

/* Bytes a second that one core reads at best, by plain loads or with lines fetched ahead. */
static double read_rate(double seconds)
{
    enum { AHEAD = 128 };
    typedef uint64_t words __attribute__((vector_size(64)));
    words *data = aligned_alloc(64, READ_BYTES);
    if (data == NULL)
        exit(1);
    memset(data, 1, READ_BYTES);
    const uint64_t end = xcvm_clock_ns() + (uint64_t)(seconds * 1e9);
    double best = 0;
    bool ahead = false;
    for (uint64_t now = xcvm_clock_ns(); now < end; ahead = !ahead) {
        words sum[4] = {{0}};
        for (size_t i = 0; i < READ_BYTES / sizeof *data; i += 4)
            for (size_t j = 0; j < 4; j++) {
                if (ahead)
                    __builtin_prefetch(&data[i + j] + AHEAD);
                sum[j] ^= data[i + j];
            }
        volatile words kept = sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
        (void)kept;
        const uint64_t then = xcvm_clock_ns();
        const double rate = (double)READ_BYTES / ((double)(then - now) * 1e-9);
        best = rate > best ? rate : best;
        now = then;
    }
    free(data);
    return best;
}

/* A tensor of whole numbers or f16 whose bytes are made up. */
static void bytes_make(bench_tensor *t, xcvm_dtype dtype, int rank, const int64_t *dims, uint32_t mask)
{
    bench_tensor_make(t, rank, dims);
    xcvm_value value = t->value;
    xcvm_value_set_tensor(&t->value, dtype, rank, dims);
    t->value.data = value.data;
    t->bytes = t->value.bytes;
    uint8_t *to = t->value.data;
    uint32_t state = 1;
    for (size_t i = 0; i < t->bytes; i++)
        to[i] = (uint8_t)(bench_draw(&state) >> 24 & mask);
}

typedef struct product {
    int64_t m, n, k, bits;
    bool offsets;
} product;

static void measure(const product *p, double seconds, double rate)
{
    const xcvm_qblocks b = {.k = (size_t)p->k, .n = (size_t)p->n, .block = 32, .bits = (unsigned)p->bits};
    const int64_t panels = (int64_t)xcvm_qblocks_panels(&b), blocks = (int64_t)xcvm_qblocks_count(&b);
    bench_tensor a, w, scales, offsets, y, f32;
    bench_tensor_make(&a, 2, (const int64_t[]){p->m, p->k});
    bench_tensor_make(&y, 2, (const int64_t[]){p->m, p->n});
    bytes_make(&w, XCVM_U8, 3, (const int64_t[]){panels, (int64_t)xcvm_qblocks_lines(&b), XCVM_QBLOCKS_LINE}, 0xff);
    bytes_make(&scales, XCVM_F16, 3, (const int64_t[]){panels, blocks, XCVM_PACKED_COLUMNS}, 0x2f);
    bytes_make(&offsets, XCVM_U8, 3, (const int64_t[]){panels, blocks, XCVM_PACKED_COLUMNS}, 0x0f);
    xcvm_BlockQuantizedGemm_args args = {.y = &y.value,
                                         .a = &a.value,
                                         .w = &w.value,
                                         .scales = &scales.value,
                                         .offsets = p->offsets ? &offsets.value : NULL,
                                         .columns = p->n,
                                         .depth = p->k,
                                         .bits = p->bits,
                                         .block_size = 32,
                                         .activation = XCVM_ACTIVATION_none};
    const double gb = (double)(w.bytes + scales.bytes + (p->offsets ? offsets.bytes : 0)) / 1e9;
    printf("%5lld %6lld %6lld  q%lld%s", (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->bits,
           p->offsets ? "a" : " ");
    for (int i = 0; i < XCVM_BLOCK_ACTIVATIONS_COUNT; i++) {
        args.activations = i;
        const double one = bench_kernel(XCVM_OP_BlockQuantizedGemm, &args, 1, seconds);
        const double two = bench_kernel(XCVM_OP_BlockQuantizedGemm, &args, 2, seconds);
        printf("  %9.4f %6.1f %4.0f%% %9.4f", one * 1e3, gb / one, gb / one / rate * 1e11, two * 1e3);
    }
    if (p->m > 1) {
        bench_tensor_make(&f32, 3, (const int64_t[]){panels, p->k, XCVM_PACKED_COLUMNS});
        const xcvm_PackedGemm_args plain = {
            .y = &y.value, .a = &a.value, .w = &f32.value, .columns = p->n, .activation = XCVM_ACTIVATION_none};
        printf("  %9.4f", bench_kernel(XCVM_OP_PackedGemm, &plain, 1, seconds) * 1e3);
        bench_tensor_free(&f32);
    }
    printf("\n");
    bench_tensor *const all[] = {&a, &w, &scales, &offsets, &y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        bench_tensor_free(all[i]);
}

int main(int argc, char **argv)
{
    static const product products[] = {
        {1, 32768, 8192, 4, false}, {1, 32768, 8192, 4, true},   {1, 32768, 4096, 8, false}, {1, 32768, 4096, 8, true},
        {1, 4096, 1024, 4, false},  {4, 4096, 4096, 4, false},   {8, 4096, 4096, 4, false},  {16, 4096, 4096, 4, false},
        {64, 4096, 4096, 4, false}, {512, 2048, 2048, 4, false},
    };
    const double seconds = argc > 1 ? atof(argv[1]) : 0.2, rate = read_rate(seconds);
    printf("%s, one core reads %.1f GB/s\n", bench_isa(), rate / 1e9);
    printf("%5s %6s %6s  %-3s  %9s %6s %5s %9s  %9s %6s %5s %9s  %9s\n", "m", "n", "k", "", "ms, f32", "GB/s", "share",
           "2 threads", "ms, int8", "GB/s", "share", "2 threads", "ms of f32");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        measure(&products[i], seconds, rate);
    return 0;
}
