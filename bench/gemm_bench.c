/* gemm_bench [SECONDS]: matrix products of f32 by MatMul and Gemm, and PackedGemm with b packed in advance, compared
 * with OpenBLAS on one thread; then recurrent networks. SECONDS is the time per number (0.2). */
#include "bench/kernel_bench.h"
#include "base/clock.h"
#include "ops/matmul/packed.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* MatMul; Gemm with b transposed, bias and Relu, as fully connected layers are; Gemm with a transposed, as gradients of
 * their weights are. */
typedef enum kind { PLAIN, LAYER, GRADIENT } kind;

typedef struct product {
    const char *what;
    int64_t m, n, k;
    kind kind;
} product;

static const product products[] = {
    {"resnet 56", 64, 3136, 64, PLAIN},     {"resnet 56", 64, 3136, 256, PLAIN},
    {"resnet 56", 256, 3136, 64, PLAIN},    {"resnet 28", 128, 784, 512, PLAIN},
    {"resnet 28", 512, 784, 128, PLAIN},    {"resnet 14", 256, 196, 1024, PLAIN},
    {"resnet 14", 1024, 196, 256, PLAIN},   {"resnet 7", 512, 49, 2048, PLAIN},
    {"resnet 7", 2048, 49, 512, PLAIN},     {"transformer", 128, 1536, 512, PLAIN},
    {"transformer", 128, 512, 512, PLAIN},  {"transformer", 128, 2048, 512, PLAIN},
    {"transformer", 128, 512, 2048, PLAIN}, {"attention", 128, 128, 64, PLAIN},
    {"attention", 128, 64, 128, PLAIN},     {"square", 512, 512, 512, PLAIN},
    {"square", 1024, 1024, 1024, PLAIN},    {"skinny", 1, 1000, 784, PLAIN},
    {"skinny", 4, 1000, 784, PLAIN},        {"skinny", 16, 1000, 784, PLAIN},
    {"mlp", 1, 1000, 784, LAYER},           {"mlp", 1, 10, 1000, LAYER},
    {"mlp batch 4", 4, 1000, 784, LAYER},   {"mlp batch 64", 64, 1000, 784, LAYER},
    {"mlp batch 64", 64, 10, 1000, LAYER},  {"batch 2", 2, 1000, 784, LAYER},
    {"batch 8", 8, 1000, 784, LAYER},       {"batch 13", 13, 1000, 784, LAYER},
    {"vgg", 1, 4096, 25088, LAYER},         {"gradient", 1000, 784, 64, GRADIENT},
    {"gradient", 1000, 1000, 64, GRADIENT}, {"gradient", 256, 256, 256, GRADIENT},
    {"gradient", 1024, 256, 256, GRADIENT}, {"gradient", 256, 1024, 256, GRADIENT},
    {"gradient", 256, 2000, 256, GRADIENT},
};

static double ours(const product *p, const bench_tensor *a, const bench_tensor *b, bench_tensor *y,
                   const bench_tensor *bias, int threads, double seconds)
{
    if (p->kind == LAYER) {
        const xcvm_Gemm_args args = {.y = &y->value,
                                     .a = &a->value,
                                     .b = &b->value,
                                     .c = &bias->value,
                                     .alpha = 1.0,
                                     .beta = 1.0,
                                     .transB = 1,
                                     .activation = XCVM_ACTIVATION_Relu};
        return bench_kernel(XCVM_OP_Gemm, &args, threads, seconds);
    }
    if (p->kind == GRADIENT) {
        const xcvm_Gemm_args args = {.y = &y->value, .a = &a->value, .b = &b->value, .alpha = 1.0, .transA = 1};
        return bench_kernel(XCVM_OP_Gemm, &args, threads, seconds);
    }
    const xcvm_MatMul_args args = {.y = &y->value, .a = &a->value, .b = &b->value};
    return bench_kernel(XCVM_OP_MatMul, &args, threads, seconds);
}

/* With weights that were packed, whatever they are. */
static double packed(const product *p, const bench_tensor *a, const bench_tensor *w, bench_tensor *y,
                     const bench_tensor *bias, int threads, double seconds)
{
    const xcvm_PackedGemm_args args = {.y = &y->value,
                                       .a = &a->value,
                                       .w = &w->value,
                                       .c = &bias->value,
                                       .columns = p->n,
                                       .activation = XCVM_ACTIVATION_Relu};
    return bench_kernel(XCVM_OP_PackedGemm, &args, threads, seconds);
}

static double openblas(const product *p, const bench_tensor *a, const bench_tensor *b, bench_tensor *y, double seconds)
{
    const blasint m = (blasint)p->m, n = (blasint)p->n, k = (blasint)p->k;
    const uint64_t end = xcvm_clock_ns() + (uint64_t)(seconds * 1e9);
    double best = 1e9;
    openblas_set_num_threads(1);
    for (uint64_t now = xcvm_clock_ns(); now < end;) {
        cblas_sgemm(CblasRowMajor, p->kind == GRADIENT ? CblasTrans : CblasNoTrans,
                    p->kind == LAYER ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a->value.data,
                    p->kind == GRADIENT ? m : k, b->value.data, p->kind == LAYER ? k : n, 0.0f, y->value.data, n);
        const uint64_t then = xcvm_clock_ns();
        best = (double)(then - now) * 1e-9 < best ? (double)(then - now) * 1e-9 : best;
        now = then;
    }
    return best;
}

typedef struct network {
    const char *what;
    xcvm_opcode op;
    int64_t gates, steps, batch, hidden;
} network;

static const network networks[] = {
    {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 1, 64},   {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 1, 128},
    {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 1, 256},  {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 1, 512},
    {"LSTM", XCVM_OP_PackedLSTM, 4, 20, 1, 1024},  {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 8, 256},
    {"LSTM", XCVM_OP_PackedLSTM, 4, 100, 32, 256}, {"GRU", XCVM_OP_PackedGRU, 3, 100, 1, 256},
    {"GRU", XCVM_OP_PackedGRU, 3, 100, 8, 256},    {"RNN", XCVM_OP_PackedRNN, 1, 100, 1, 256},
};

static double recurrent(const network *n, bench_tensor *y, const bench_tensor *x, const bench_tensor *r, int threads,
                        double seconds)
{
    if (n->op == XCVM_OP_PackedLSTM)
        return bench_kernel(
            n->op,
            &(const xcvm_PackedLSTM_args){.y = &y->value, .x = &x->value, .r = &r->value, .hidden_size = n->hidden},
            threads, seconds);
    if (n->op == XCVM_OP_PackedGRU)
        return bench_kernel(
            n->op,
            &(const xcvm_PackedGRU_args){
                .y = &y->value, .x = &x->value, .r = &r->value, .hidden_size = n->hidden, .linear_before_reset = 1},
            threads, seconds);
    return bench_kernel(
        n->op, &(const xcvm_PackedRNN_args){.y = &y->value, .x = &x->value, .r = &r->value, .hidden_size = n->hidden},
        threads, seconds);
}

static void run_networks(double seconds, double peak)
{
    printf("%-14s %5s %5s %5s  %9s %9s %6s  %9s  %9s\n", "recurrence", "steps", "batch", "units", "ms", "GFLOP/s",
           "limit", "GB/s", "2 threads");
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        const network *n = &networks[i];
        const int64_t panels = (int64_t)xcvm_packed_panels((size_t)n->hidden) * n->gates;
        bench_tensor x, r, y;
        bench_tensor_make(&x, 3, (const int64_t[]){n->steps, n->batch, panels * XCVM_PACKED_COLUMNS});
        bench_tensor_make(&r, 3, (const int64_t[]){panels, n->hidden, XCVM_PACKED_COLUMNS});
        bench_tensor_make(&y, 4, (const int64_t[]){n->steps, 1, n->batch, n->hidden});
        const double bytes = (double)n->steps * (double)r.bytes / 1e9;
        const double flops = 2.0 * bytes / sizeof(float) * (double)n->batch;
        const double one = recurrent(n, &y, &x, &r, 1, seconds), two = recurrent(n, &y, &x, &r, 2, seconds);
        printf("%-14s %5lld %5lld %5lld  %9.4f %9.1f %5.0f%%  %9.1f  %9.1f\n", n->what, (long long)n->steps,
               (long long)n->batch, (long long)n->hidden, one * 1e3, flops / one, flops / one / peak * 100.0,
               bytes / one, flops / two);
        bench_tensor_free(&x);
        bench_tensor_free(&r);
        bench_tensor_free(&y);
    }
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.2, peak = bench_peak() / 1e9;
    printf("%s, one core's limit %.0f GFLOP/s\n", bench_isa(), peak);
    printf("%-14s %5s %5s %5s  %9s %9s %6s  %9s  %9s %6s  %9s  %9s\n", "product", "m", "n", "k", "ms", "GFLOP/s",
           "limit", "2 threads", "packed", "limit", "2 threads", "OpenBLAS");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const product *p = &products[i];
        const bool a_transposed = p->kind == GRADIENT;
        const int64_t a_dims[] = {a_transposed ? p->k : p->m, a_transposed ? p->m : p->k}, y_dims[] = {p->m, p->n};
        const int64_t b_dims[] = {p->kind == LAYER ? p->n : p->k, p->kind == LAYER ? p->k : p->n};
        const int64_t w_dims[] = {(int64_t)xcvm_packed_panels((size_t)p->n), p->k, XCVM_PACKED_COLUMNS};
        bench_tensor a, b, y, bias, w;
        bench_tensor_make(&w, 3, w_dims);
        bench_tensor_make(&a, 2, a_dims);
        bench_tensor_make(&b, 2, b_dims);
        bench_tensor_make(&y, 2, y_dims);
        bench_tensor_make(&bias, 1, &p->n);
        const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k / 1e9;
        const double one = ours(p, &a, &b, &y, &bias, 1, seconds), two = ours(p, &a, &b, &y, &bias, 2, seconds);
        const double ahead = a_transposed ? NAN : packed(p, &a, &w, &y, &bias, 1, seconds);
        const double ahead_two = a_transposed ? NAN : packed(p, &a, &w, &y, &bias, 2, seconds);
        const double theirs = openblas(p, &a, &b, &y, seconds);
        printf("%-14s %5lld %5lld %5lld  %9.4f %9.1f %5.0f%%  %9.1f  %9.1f %5.0f%%  %9.1f  %9.1f\n", p->what,
               (long long)p->m, (long long)p->n, (long long)p->k, one * 1e3, flops / one, flops / one / peak * 100.0,
               flops / two, flops / ahead, flops / ahead / peak * 100.0, flops / ahead_two, flops / theirs);
        bench_tensor_free(&w);
        bench_tensor_free(&a);
        bench_tensor_free(&b);
        bench_tensor_free(&y);
        bench_tensor_free(&bias);
    }
    run_networks(seconds, peak);
    return 0;
}
