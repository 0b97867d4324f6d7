/* block_bench [SECONDS [ROWS]]: products with weights that are quantized in blocks, as BlockQuantizedGemm computes
 * them. Products of one row are compared with the memory bandwidth of one core, measured in alternation. Products of
 * many rows are compared with PackedGemm in f32. SECONDS is the time per number (0.2). ROWS selects products of that
 * many rows only. */
#include "bench/kernel_bench.h"
#include "ops/matmul/quantized_blocks.h"
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>

/* Other processes use some of the bandwidth. Products and plain reads alternate this many times, and the best of each
 * is used. */
enum { ROUNDS = 4 };

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

static double least(double a, double b) { return a < b ? a : b; }

static void measure(const product *p, double seconds)
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
    double one[XCVM_BLOCK_ACTIVATIONS_COUNT], two[XCVM_BLOCK_ACTIVATIONS_COUNT], rate = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double read = p->m == 1 ? bench_read_rate(seconds / ROUNDS) : 0.0;
        rate = read > rate ? read : rate;
        for (int i = 0; i < XCVM_BLOCK_ACTIVATIONS_COUNT; i++) {
            args.activations = i;
            const double times[] = {bench_kernel(XCVM_OP_BlockQuantizedGemm, &args, 1, seconds / ROUNDS),
                                    bench_kernel(XCVM_OP_BlockQuantizedGemm, &args, 2, seconds / ROUNDS)};
            one[i] = round == 0 ? times[0] : least(one[i], times[0]);
            two[i] = round == 0 ? times[1] : least(two[i], times[1]);
        }
    }
    printf("%5lld %6lld %6lld  q%lld%s", (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->bits,
           p->offsets ? "a" : " ");
    for (int i = 0; i < XCVM_BLOCK_ACTIVATIONS_COUNT; i++) {
        printf("  %9.4f %6.1f ", one[i] * 1e3, gb / one[i]);
        if (p->m == 1)
            printf("%4.0f%%", gb / one[i] / rate * 1e11);
        else
            printf("%5s", "");
        printf(" %9.4f", two[i] * 1e3);
    }
    if (p->m == 1)
        printf("  %9s %6.1f", "", rate / 1e9);
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
        {1, 16384, 8192, 4, false}, {1, 16384, 8192, 4, true},   {1, 16384, 4096, 8, false}, {1, 16384, 4096, 8, true},
        {1, 4096, 1024, 4, false},  {4, 4096, 4096, 4, false},   {8, 4096, 4096, 4, false},  {16, 4096, 4096, 4, false},
        {64, 4096, 4096, 4, false}, {512, 2048, 2048, 4, false},
    };
    const double seconds = argc > 1 ? atof(argv[1]) : 0.2;
    const int64_t rows = argc > 2 ? atoll(argv[2]) : 0;
    printf("%s\n%5s %6s %6s  %-3s  %9s %6s %5s %9s  %9s %6s %5s %9s  %9s %6s\n", bench_isa(), "m", "n", "k", "",
           "ms, f32", "GB/s", "share", "2 threads", "ms, int8", "GB/s", "share", "2 threads", "ms of f32", "reads");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (rows == 0 || products[i].m == rows)
            measure(&products[i], seconds);
    return 0;
}
