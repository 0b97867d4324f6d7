/* blocked_bench [SECONDS [WORD]]: the convolutions of ResNet-50, MobileNetV2, MobileNetV3, EfficientNet-B0 and others
 * (or those whose line holds WORD), by Conv and by BlockedConv: times on one thread in milliseconds, arithmetic (by the
 * definition) a second, its share of one core's limit, how many times faster than Conv, and on two threads. SECONDS is
 * the time for each figure (0.1). */
#include "bench/kernel_bench.h"
#include "ops/blocked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    const char *what;
    int64_t channels, size, outputs, kernel, stride, group;
} layer;

static const layer layers[] = {
    {"resnet", 3, 224, 64, 7, 2, 1},
    {"resnet", 64, 56, 64, 1, 1, 1},
    {"resnet", 64, 56, 64, 3, 1, 1},
    {"resnet", 64, 56, 256, 1, 1, 1},
    {"resnet", 256, 56, 64, 1, 1, 1},
    {"resnet", 256, 56, 128, 1, 1, 1},
    {"resnet", 128, 56, 128, 3, 2, 1},
    {"resnet", 256, 56, 512, 1, 2, 1},
    {"resnet", 128, 28, 512, 1, 1, 1},
    {"resnet", 512, 28, 128, 1, 1, 1},
    {"resnet", 128, 28, 128, 3, 1, 1},
    {"resnet", 512, 28, 256, 1, 1, 1},
    {"resnet", 256, 28, 256, 3, 2, 1},
    {"resnet", 512, 28, 1024, 1, 2, 1},
    {"resnet", 256, 14, 1024, 1, 1, 1},
    {"resnet", 1024, 14, 256, 1, 1, 1},
    {"resnet", 256, 14, 256, 3, 1, 1},
    {"resnet", 1024, 14, 512, 1, 1, 1},
    {"resnet", 512, 14, 512, 3, 2, 1},
    {"resnet", 1024, 14, 2048, 1, 2, 1},
    {"resnet", 512, 7, 2048, 1, 1, 1},
    {"resnet", 2048, 7, 512, 1, 1, 1},
    {"resnet", 512, 7, 512, 3, 1, 1},
    {"vgg", 3, 224, 64, 3, 1, 1},
    {"vgg", 64, 224, 64, 3, 1, 1},
    {"vgg", 64, 112, 128, 3, 1, 1},
    {"vgg", 128, 112, 128, 3, 1, 1},
    {"vgg", 128, 56, 256, 3, 1, 1},
    {"vgg", 256, 56, 256, 3, 1, 1},
    {"vgg", 256, 28, 512, 3, 1, 1},
    {"vgg", 512, 28, 512, 3, 1, 1},
    {"vgg", 512, 14, 512, 3, 1, 1},
    {"mobilenet", 3, 224, 32, 3, 2, 1},
    {"mobilenet", 32, 112, 32, 3, 1, 32},
    {"mobilenet", 32, 112, 16, 1, 1, 1},
    {"mobilenet", 16, 112, 96, 1, 1, 1},
    {"mobilenet", 96, 112, 96, 3, 2, 96},
    {"mobilenet", 96, 56, 24, 1, 1, 1},
    {"mobilenet", 24, 56, 144, 1, 1, 1},
    {"mobilenet", 144, 56, 144, 3, 1, 144},
    {"mobilenet", 144, 56, 144, 3, 2, 144},
    {"mobilenet", 144, 28, 32, 1, 1, 1},
    {"mobilenet", 32, 28, 192, 1, 1, 1},
    {"mobilenet", 192, 28, 192, 3, 1, 192},
    {"mobilenet", 192, 28, 192, 3, 2, 192},
    {"mobilenet", 192, 14, 64, 1, 1, 1},
    {"mobilenet", 64, 14, 384, 1, 1, 1},
    {"mobilenet", 384, 14, 384, 3, 1, 384},
    {"mobilenet", 384, 14, 96, 1, 1, 1},
    {"mobilenet", 96, 14, 576, 1, 1, 1},
    {"mobilenet", 576, 14, 576, 3, 2, 576},
    {"mobilenet", 576, 7, 160, 1, 1, 1},
    {"mobilenet", 160, 7, 960, 1, 1, 1},
    {"mobilenet", 960, 7, 960, 3, 1, 960},
    {"mobilenet", 960, 7, 320, 1, 1, 1},
    {"mobilenet", 320, 7, 1280, 1, 1, 1},
    {"mobilenet3", 16, 112, 16, 3, 1, 16},
    {"mobilenet3", 64, 112, 64, 3, 2, 64},
    {"mobilenet3", 72, 56, 72, 5, 2, 72},
    {"mobilenet3", 40, 28, 120, 1, 1, 1},
    {"mobilenet3", 120, 28, 120, 5, 1, 120},
    {"mobilenet3", 80, 14, 200, 1, 1, 1},
    {"mobilenet3", 200, 14, 80, 1, 1, 1},
    {"mobilenet3", 480, 14, 112, 1, 1, 1},
    {"mobilenet3", 112, 14, 672, 1, 1, 1},
    {"mobilenet3", 672, 1, 168, 1, 1, 1},
    {"mobilenet3", 960, 1, 240, 1, 1, 1},
    {"mobilenet3", 240, 1, 960, 1, 1, 1},
    {"efficientnet", 144, 56, 144, 5, 2, 144},
    {"efficientnet", 240, 28, 240, 5, 1, 240},
    {"efficientnet", 240, 28, 240, 3, 2, 240},
    {"efficientnet", 480, 14, 480, 5, 1, 480},
    {"efficientnet", 672, 14, 672, 5, 2, 672},
    {"efficientnet", 1152, 7, 1152, 5, 1, 1152},
    {"efficientnet", 1152, 7, 192, 1, 1, 1},
    {"efficientnet", 192, 7, 1152, 1, 1, 1},
    {"efficientnet", 1152, 1, 48, 1, 1, 1},
    {"efficientnet", 48, 1, 1152, 1, 1, 1},
    {"shufflenet", 58, 28, 58, 1, 1, 1},
    {"shufflenet", 58, 28, 58, 3, 1, 58},
    {"shufflenet", 116, 14, 116, 1, 1, 1},
    {"densenet", 128, 56, 32, 3, 1, 1},
    {"densenet", 128, 28, 32, 3, 1, 1},
    {"densenet", 128, 14, 32, 3, 1, 1},
    {"densenet", 128, 7, 32, 3, 1, 1},
    {"densenet", 512, 14, 128, 1, 1, 1},
    {"squeezenet", 16, 55, 64, 3, 1, 1},
    {"squeezenet", 48, 27, 192, 3, 1, 1},
    {"squeezenet", 64, 13, 256, 3, 1, 1},
};

/* A way to compute a layer: an algorithm with its packed filters. */
typedef struct way {
    const char *name;
    int algorithm;
    int64_t tile;
} way;

static const way ways[] = {{"direct", XCVM_BLOCKED_direct, 0},
                           {"depthwise", XCVM_BLOCKED_depthwise, 0},
                           {"winograd 2", XCVM_BLOCKED_winograd, 2},
                           {"winograd 4", XCVM_BLOCKED_winograd, 4}};

static bool fits(const layer *l, const way *v)
{
    if (l->group > 1)
        return v->algorithm == XCVM_BLOCKED_depthwise;
    if (v->algorithm == XCVM_BLOCKED_winograd)
        return l->kernel == 3 && l->stride == 1 && l->channels > XCVM_BLOCKED_PLAIN_CHANNELS - 1;
    return v->algorithm == XCVM_BLOCKED_direct;
}

static void pack(const layer *l, const way *v, bench_tensor *w)
{
    const int64_t blocks = xcvm_blocks_of(l->outputs),
                  dims[] = {l->outputs, l->channels / l->group, l->kernel, l->kernel};
    bench_tensor plain;
    bench_tensor_make(&plain, 4, dims);
    const float *from = plain.value.data;
    if (v->algorithm == XCVM_BLOCKED_direct) {
        bench_tensor_make(w, 5, (const int64_t[]){blocks, dims[1], dims[2], dims[3], XCVM_CHANNEL_BLOCK});
        xcvm_blocked_pack_direct(from, dims, w->value.data);
    } else if (v->algorithm == XCVM_BLOCKED_depthwise) {
        bench_tensor_make(w, 4, (const int64_t[]){blocks, dims[2], dims[3], XCVM_CHANNEL_BLOCK});
        xcvm_blocked_pack_depthwise(from, dims, w->value.data);
    } else {
        const int64_t points = (v->tile + 2) * (v->tile + 2);
        bench_tensor_make(w, 4, (const int64_t[]){points, blocks, dims[1], XCVM_CHANNEL_BLOCK});
        xcvm_blocked_pack_winograd(from, dims, v->tile, w->value.data);
    }
    bench_tensor_free(&plain);
}

static double time_plain(const layer *l, xcvm_ints strides, xcvm_ints pads, xcvm_ints ones, int64_t out, int threads,
                         double seconds)
{
    bench_tensor x, w, b, y;
    bench_tensor_make(&x, 4, (const int64_t[]){1, l->channels, l->size, l->size});
    bench_tensor_make(&w, 4, (const int64_t[]){l->outputs, l->channels / l->group, l->kernel, l->kernel});
    bench_tensor_make(&b, 1, &l->outputs);
    bench_tensor_make(&y, 4, (const int64_t[]){1, l->outputs, out, out});
    const xcvm_Conv_args a = {.y = &y.value,
                              .x = &x.value,
                              .w = &w.value,
                              .b = &b.value,
                              .strides = strides,
                              .pads = pads,
                              .dilations = ones,
                              .group = l->group,
                              .activation = XCVM_ACTIVATION_Relu};
    const double time = bench_kernel(XCVM_OP_Conv, &a, threads, seconds);
    bench_tensor_free(&x);
    bench_tensor_free(&w);
    bench_tensor_free(&b);
    bench_tensor_free(&y);
    return time;
}

static void run_layer(const layer *l, const char *name, double peak, double seconds)
{
    const int64_t pad = l->kernel / 2, out = (l->size + 2 * pad - l->kernel) / l->stride + 1;
    const int64_t strides[] = {l->stride, l->stride}, pads[] = {pad, pad, pad, pad}, ones[] = {1, 1};
    const xcvm_ints s = {strides, 2}, p = {pads, 4}, o = {ones, 2};
    const double conv = time_plain(l, s, p, o, out, 1, seconds);
    const double flops =
        2e-9 * (double)(out * out * l->outputs) * (double)(l->channels / l->group * l->kernel * l->kernel);
    const int64_t blocks = xcvm_blocks_of(l->outputs), biases = blocks * XCVM_CHANNEL_BLOCK;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!fits(l, &ways[i]))
            continue;
        bench_tensor x, w, b, y;
        if (l->channels <= 3)
            bench_tensor_make(&x, 4, (const int64_t[]){1, l->channels, l->size, l->size});
        else
            bench_tensor_make(&x, 5,
                              (const int64_t[]){1, xcvm_blocks_of(l->channels), l->size, l->size, XCVM_CHANNEL_BLOCK});
        pack(l, &ways[i], &w);
        bench_tensor_make(&b, 1, &biases);
        bench_tensor_make(&y, 5, (const int64_t[]){1, blocks, out, out, XCVM_CHANNEL_BLOCK});
        const xcvm_BlockedConv_args a = {.y = &y.value,
                                         .x = &x.value,
                                         .w = &w.value,
                                         .b = &b.value,
                                         .strides = s,
                                         .pads = p,
                                         .dilations = o,
                                         .group = l->group,
                                         .activation = XCVM_ACTIVATION_Relu,
                                         .algorithm = ways[i].algorithm};
        const double one = bench_kernel(XCVM_OP_BlockedConv, &a, 1, seconds);
        const double two = bench_kernel(XCVM_OP_BlockedConv, &a, 2, seconds);
        const bool chosen = ways[i].algorithm == XCVM_BLOCKED_depthwise || l->kernel != 3 || l->stride != 1 ||
                            l->channels < XCVM_BLOCKED_PLAIN_CHANNELS ||
                            ways[i].tile == xcvm_blocked_winograd_tile(l->outputs, l->channels, out, out);
        printf("%-38s %-10s%c %9.4f %9.4f %6.2fx %9.1f %5.0f%% %9.4f %6.2fx\n", name, ways[i].name, chosen ? '*' : ' ',
               conv * 1e3, one * 1e3, conv / one, flops / one, flops / one / peak * 100.0, two * 1e3, one / two);
        fflush(stdout);
        bench_tensor_free(&x);
        bench_tensor_free(&w);
        bench_tensor_free(&b);
        bench_tensor_free(&y);
    }
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.1, peak = bench_peak() / 1e9;
    printf("%s, one core's limit %.0f GFLOP/s; * what the compiler chooses\n", xcvm_kernel_isa(), peak);
    printf("%-38s %-11s %9s %9s %7s %9s %6s %9s %7s\n", "convolution", "algorithm", "Conv ms", "ms", "faster",
           "GFLOP/s", "limit", "2 threads", "faster");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer *l = &layers[i];
        char name[64];
        snprintf(name, sizeof name, "%-12s %lldx%lldx%lld -> %lld %lldx%lld/%lld%s", l->what, (long long)l->channels,
                 (long long)l->size, (long long)l->size, (long long)l->outputs, (long long)l->kernel,
                 (long long)l->kernel, (long long)l->stride, l->group > 1 ? " dw" : "");
        if (argc <= 2 || strstr(name, argv[2]) != NULL)
            run_layer(l, name, peak, seconds);
    }
    return 0;
}
