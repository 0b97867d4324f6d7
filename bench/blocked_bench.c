/* blocked_bench [SECONDS [WORD]]: a table in Markdown of how convolutions are computed on blocked channels, one line
 * for each distinct shape of ResNet-50, MobileNetV2 and EfficientNet-B0, and for the dilated ones of DeepLabV3: how
 * often the model has it, the algorithm that the compiler chooses, times on one and on two threads, arithmetic by the
 * definition a second and its share of what one core reaches on multiply-adds. With WORD: of all models here whose line
 * holds WORD, and by every algorithm that fits, the chosen one marked by a star. SECONDS is the time for each figure
 * (0.1). */
#include "bench/kernel_bench.h"
#include "compiler/layout/layout_algorithms.h"
#include "ops/conv/blocked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    const char *model;
    int64_t channels, size, outputs, kernel, stride, group;
    int count; /* in the model; 0: not in the table */
    int64_t dilation;
} layer;

static const layer layers[] = {
    {"ResNet-50", 3, 224, 64, 7, 2, 1, 1, 1},
    {"ResNet-50", 64, 56, 64, 1, 1, 1, 1, 1},
    {"ResNet-50", 64, 56, 64, 3, 1, 1, 3, 1},
    {"ResNet-50", 64, 56, 256, 1, 1, 1, 4, 1},
    {"ResNet-50", 256, 56, 64, 1, 1, 1, 2, 1},
    {"ResNet-50", 256, 56, 128, 1, 1, 1, 1, 1},
    {"ResNet-50", 128, 56, 128, 3, 2, 1, 1, 1},
    {"ResNet-50", 128, 28, 512, 1, 1, 1, 4, 1},
    {"ResNet-50", 256, 56, 512, 1, 2, 1, 1, 1},
    {"ResNet-50", 512, 28, 128, 1, 1, 1, 3, 1},
    {"ResNet-50", 128, 28, 128, 3, 1, 1, 3, 1},
    {"ResNet-50", 512, 28, 256, 1, 1, 1, 1, 1},
    {"ResNet-50", 256, 28, 256, 3, 2, 1, 1, 1},
    {"ResNet-50", 256, 14, 1024, 1, 1, 1, 6, 1},
    {"ResNet-50", 512, 28, 1024, 1, 2, 1, 1, 1},
    {"ResNet-50", 1024, 14, 256, 1, 1, 1, 5, 1},
    {"ResNet-50", 256, 14, 256, 3, 1, 1, 5, 1},
    {"ResNet-50", 1024, 14, 512, 1, 1, 1, 1, 1},
    {"ResNet-50", 512, 14, 512, 3, 2, 1, 1, 1},
    {"ResNet-50", 512, 7, 2048, 1, 1, 1, 3, 1},
    {"ResNet-50", 1024, 14, 2048, 1, 2, 1, 1, 1},
    {"ResNet-50", 2048, 7, 512, 1, 1, 1, 2, 1},
    {"ResNet-50", 512, 7, 512, 3, 1, 1, 2, 1},
    {"MobileNetV2", 3, 224, 32, 3, 2, 1, 1, 1},
    {"MobileNetV2", 32, 112, 32, 3, 1, 32, 1, 1},
    {"MobileNetV2", 32, 112, 16, 1, 1, 1, 1, 1},
    {"MobileNetV2", 16, 112, 96, 1, 1, 1, 1, 1},
    {"MobileNetV2", 96, 112, 96, 3, 2, 96, 1, 1},
    {"MobileNetV2", 96, 56, 24, 1, 1, 1, 1, 1},
    {"MobileNetV2", 24, 56, 144, 1, 1, 1, 2, 1},
    {"MobileNetV2", 144, 56, 144, 3, 1, 144, 1, 1},
    {"MobileNetV2", 144, 56, 24, 1, 1, 1, 1, 1},
    {"MobileNetV2", 144, 56, 144, 3, 2, 144, 1, 1},
    {"MobileNetV2", 144, 28, 32, 1, 1, 1, 1, 1},
    {"MobileNetV2", 32, 28, 192, 1, 1, 1, 3, 1},
    {"MobileNetV2", 192, 28, 192, 3, 1, 192, 2, 1},
    {"MobileNetV2", 192, 28, 32, 1, 1, 1, 2, 1},
    {"MobileNetV2", 192, 28, 192, 3, 2, 192, 1, 1},
    {"MobileNetV2", 192, 14, 64, 1, 1, 1, 1, 1},
    {"MobileNetV2", 64, 14, 384, 1, 1, 1, 4, 1},
    {"MobileNetV2", 384, 14, 384, 3, 1, 384, 4, 1},
    {"MobileNetV2", 384, 14, 64, 1, 1, 1, 3, 1},
    {"MobileNetV2", 384, 14, 96, 1, 1, 1, 1, 1},
    {"MobileNetV2", 96, 14, 576, 1, 1, 1, 3, 1},
    {"MobileNetV2", 576, 14, 576, 3, 1, 576, 2, 1},
    {"MobileNetV2", 576, 14, 96, 1, 1, 1, 2, 1},
    {"MobileNetV2", 576, 14, 576, 3, 2, 576, 1, 1},
    {"MobileNetV2", 576, 7, 160, 1, 1, 1, 1, 1},
    {"MobileNetV2", 160, 7, 960, 1, 1, 1, 3, 1},
    {"MobileNetV2", 960, 7, 960, 3, 1, 960, 3, 1},
    {"MobileNetV2", 960, 7, 160, 1, 1, 1, 2, 1},
    {"MobileNetV2", 960, 7, 320, 1, 1, 1, 1, 1},
    {"MobileNetV2", 320, 7, 1280, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 3, 224, 32, 3, 2, 1, 1, 1},
    {"EfficientNet-B0", 32, 112, 32, 3, 1, 32, 1, 1},
    {"EfficientNet-B0", 32, 1, 8, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 8, 1, 32, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 32, 112, 16, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 16, 112, 96, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 96, 112, 96, 3, 2, 96, 1, 1},
    {"EfficientNet-B0", 96, 1, 4, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 4, 1, 96, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 96, 56, 24, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 24, 56, 144, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 144, 56, 144, 3, 1, 144, 1, 1},
    {"EfficientNet-B0", 144, 1, 6, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 6, 1, 144, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 144, 56, 24, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 144, 56, 144, 5, 2, 144, 1, 1},
    {"EfficientNet-B0", 144, 28, 40, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 40, 28, 240, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 240, 28, 240, 5, 1, 240, 1, 1},
    {"EfficientNet-B0", 240, 1, 10, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 10, 1, 240, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 240, 28, 40, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 240, 28, 240, 3, 2, 240, 1, 1},
    {"EfficientNet-B0", 240, 14, 80, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 80, 14, 480, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 480, 14, 480, 3, 1, 480, 2, 1},
    {"EfficientNet-B0", 480, 1, 20, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 20, 1, 480, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 480, 14, 80, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 480, 14, 480, 5, 1, 480, 1, 1},
    {"EfficientNet-B0", 480, 14, 112, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 112, 14, 672, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 672, 14, 672, 5, 1, 672, 2, 1},
    {"EfficientNet-B0", 672, 1, 28, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 28, 1, 672, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 672, 14, 112, 1, 1, 1, 2, 1},
    {"EfficientNet-B0", 672, 14, 672, 5, 2, 672, 1, 1},
    {"EfficientNet-B0", 672, 7, 192, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 192, 7, 1152, 1, 1, 1, 4, 1},
    {"EfficientNet-B0", 1152, 7, 1152, 5, 1, 1152, 3, 1},
    {"EfficientNet-B0", 1152, 1, 48, 1, 1, 1, 4, 1},
    {"EfficientNet-B0", 48, 1, 1152, 1, 1, 1, 4, 1},
    {"EfficientNet-B0", 1152, 7, 192, 1, 1, 1, 3, 1},
    {"EfficientNet-B0", 1152, 7, 1152, 3, 1, 1152, 1, 1},
    {"EfficientNet-B0", 1152, 7, 320, 1, 1, 1, 1, 1},
    {"EfficientNet-B0", 320, 7, 1280, 1, 1, 1, 1, 1},
    {"DeepLabV3", 960, 14, 256, 3, 1, 1, 1, 12},
    {"DeepLabV3", 960, 14, 256, 3, 1, 1, 1, 24},
    {"DeepLabV3", 960, 14, 256, 3, 1, 1, 1, 36},
    {"DeepLabV3", 672, 14, 672, 5, 1, 672, 1, 2},
    {"DeepLabV3", 2048, 28, 256, 3, 1, 1, 0, 12},
    {"DeepLabV3", 2048, 65, 256, 3, 1, 1, 0, 12},
    {"DeepLabV3", 2048, 65, 256, 3, 1, 1, 0, 36},
    {"DeepLabV3", 960, 14, 960, 3, 1, 960, 0, 36},
    {"DeepLabV3", 3, 224, 64, 3, 1, 1, 0, 36},
    {"FCN", 256, 28, 256, 3, 1, 1, 0, 2},
    {"FCN", 512, 28, 512, 3, 1, 1, 0, 2},
    {"FCN", 512, 28, 512, 3, 1, 1, 0, 4},
    {"VGG-16", 3, 224, 64, 3, 1, 1, 0, 1},
    {"VGG-16", 64, 224, 64, 3, 1, 1, 0, 1},
    {"VGG-16", 64, 112, 128, 3, 1, 1, 0, 1},
    {"VGG-16", 128, 112, 128, 3, 1, 1, 0, 1},
    {"VGG-16", 128, 56, 256, 3, 1, 1, 0, 1},
    {"VGG-16", 256, 56, 256, 3, 1, 1, 0, 1},
    {"VGG-16", 256, 28, 512, 3, 1, 1, 0, 1},
    {"VGG-16", 512, 28, 512, 3, 1, 1, 0, 1},
    {"VGG-16", 512, 14, 512, 3, 1, 1, 0, 1},
    {"MobileNetV3", 16, 112, 16, 3, 1, 16, 0, 1},
    {"MobileNetV3", 64, 112, 64, 3, 2, 64, 0, 1},
    {"MobileNetV3", 72, 56, 72, 5, 2, 72, 0, 1},
    {"MobileNetV3", 40, 28, 120, 1, 1, 1, 0, 1},
    {"MobileNetV3", 120, 28, 120, 5, 1, 120, 0, 1},
    {"MobileNetV3", 80, 14, 200, 1, 1, 1, 0, 1},
    {"MobileNetV3", 200, 14, 80, 1, 1, 1, 0, 1},
    {"MobileNetV3", 480, 14, 112, 1, 1, 1, 0, 1},
    {"MobileNetV3", 112, 14, 672, 1, 1, 1, 0, 1},
    {"MobileNetV3", 672, 1, 168, 1, 1, 1, 0, 1},
    {"MobileNetV3", 960, 1, 240, 1, 1, 1, 0, 1},
    {"MobileNetV3", 240, 1, 960, 1, 1, 1, 0, 1},
    {"ShuffleNetV2", 58, 28, 58, 1, 1, 1, 0, 1},
    {"ShuffleNetV2", 58, 28, 58, 3, 1, 58, 0, 1},
    {"ShuffleNetV2", 116, 14, 116, 1, 1, 1, 0, 1},
    {"DenseNet-121", 128, 56, 32, 3, 1, 1, 0, 1},
    {"DenseNet-121", 128, 28, 32, 3, 1, 1, 0, 1},
    {"DenseNet-121", 128, 14, 32, 3, 1, 1, 0, 1},
    {"DenseNet-121", 128, 7, 32, 3, 1, 1, 0, 1},
    {"DenseNet-121", 512, 14, 128, 1, 1, 1, 0, 1},
    {"SqueezeNet", 16, 55, 64, 3, 1, 1, 0, 1},
    {"SqueezeNet", 48, 27, 192, 3, 1, 1, 0, 1},
    {"SqueezeNet", 64, 13, 256, 3, 1, 1, 0, 1},
};

static xcc_layout_shape shape_of(const layer *l, bool rounded)
{
    const int64_t reach = (l->kernel - 1) * l->dilation;
    const int64_t pad = reach / 2, out = (l->size + 2 * pad - reach - 1) / l->stride + 1;
    return (xcc_layout_shape){.axes = 2,
                              .batch = 1,
                              .group = l->group,
                              .channels = l->channels / l->group,
                              .outputs = l->outputs,
                              .in = {l->size, l->size},
                              .out = {out, out},
                              .kernel = {l->kernel, l->kernel},
                              .strides = {l->stride, l->stride},
                              .dilations = {l->dilation, l->dilation},
                              .pads = {pad, pad, pad, pad},
                              .plain_input = l->channels <= 3,
                              .rounded = rounded};
}

/* Seconds on one and on two threads. */
static void measure(const xcc_layout_shape *c, const xcc_layout_algorithm *algorithm, double seconds, double times[2])
{
    const int64_t filter[] = {c->outputs, c->channels, c->kernel[0], c->kernel[1]};
    const int64_t blocks = xcvm_blocks_of(c->outputs), biases = blocks * XCVM_CHANNEL_BLOCK;
    const int64_t channels = c->channels * c->group;
    int64_t packed[XCVM_MAX_RANK];
    bench_tensor x, plain, w, b, y;
    if (c->plain_input)
        bench_tensor_make(&x, 4, (const int64_t[]){1, channels, c->in[0], c->in[1]});
    else
        bench_tensor_make(&x, 5,
                          (const int64_t[]){1, xcvm_blocks_of(channels), c->in[0], c->in[1], XCVM_CHANNEL_BLOCK});
    bench_tensor_make(&plain, 4, filter);
    bench_tensor_make(&w, xcc_layout_filter_dims(algorithm, 4, filter, packed), packed);
    xcc_layout_filter_pack(algorithm, plain.value.data, 4, filter, w.value.data);
    bench_tensor_make(&b, 1, &biases);
    bench_tensor_make(&y, 5, (const int64_t[]){1, blocks, c->out[0], c->out[1], XCVM_CHANNEL_BLOCK});
    const xcvm_BlockedConv_args a = {.y = &y.value,
                                     .x = &x.value,
                                     .w = &w.value,
                                     .b = &b.value,
                                     .strides = {c->strides, 2},
                                     .pads = {c->pads, 4},
                                     .dilations = {c->dilations, 2},
                                     .group = c->group,
                                     .activation = XCVM_ACTIVATION_Relu,
                                     .algorithm = algorithm->choice};
    for (int threads = 1; threads <= 2; threads++)
        times[threads - 1] = bench_kernel(XCVM_OP_BlockedConv, &a, threads, seconds);
    bench_tensor_free(&x);
    bench_tensor_free(&plain);
    bench_tensor_free(&w);
    bench_tensor_free(&b);
    bench_tensor_free(&y);
}

static void print_line(const xcc_layout_shape *c, const layer *l, const char *name, const char *how,
                       const double times[2], double peak)
{
    const double gflops = 2e-9 * (double)(c->out[0] * c->out[1] * c->outputs) *
                          (double)(c->channels * c->kernel[0] * c->kernel[1]) / times[0];
    char count[16] = "";
    if (l->count > 0)
        snprintf(count, sizeof count, "%d", l->count);
    printf("| %-15s | %-33s | %5s | %-14s | %8.4f | %9.4f | %7.1f | %4.0f %% |\n", l->model, name, count, how,
           times[0] * 1e3, times[1] * 1e3, gflops, gflops / peak * 100.0);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.1, peak = bench_peak() / 1e9;
    printf("Kernels for %s; one core reaches %.0f GFLOP/s on multiply-adds of f32 without memory. Times are in\n"
           "milliseconds; `*`: dilation; `dw`: each channel by itself. GFLOP/s are counted by the definition:\n"
           "winograd does less arithmetic, and window positions in the padding need none.\n\n",
           bench_isa(), peak);
    printf("| %-15s | %-33s | %5s | %-14s | %8s | %9s | %7s | %6s |\n", "model", "convolution", "times", "algorithm",
           "1 thread", "2 threads", "GFLOP/s", "limit");
    printf("|:----------------|:----------------------------------|------:|:---------------|---------:|----------:"
           "|--------:|-------:|\n");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer *l = &layers[i];
        const bool all = argc > 2;
        const xcc_layout_shape c = shape_of(l, all);
        const xcc_layout_algorithm *chosen = xcc_layout_cheapest(&c);
        char name[64], line[96], how[32], apart[32];
        snprintf(apart, sizeof apart, " *%lld", (long long)l->dilation);
        snprintf(name, sizeof name, "%lldx%lldx%lld -> %lld %lldx%lld/%lld%s%s", (long long)l->channels,
                 (long long)l->size, (long long)l->size, (long long)l->outputs, (long long)l->kernel,
                 (long long)l->kernel, (long long)l->stride, l->dilation > 1 ? apart : "", l->group > 1 ? " dw" : "");
        snprintf(line, sizeof line, "%s %s", l->model, name);
        if (all ? strstr(line, argv[2]) == NULL : l->count == 0)
            continue;
        for (size_t v = 0; v < xcc_layout_algorithm_count; v++) {
            const xcc_layout_algorithm *algorithm = &xcc_layout_algorithms[v];
            double times[2];
            if (all ? !algorithm->fits(&c) : algorithm != chosen)
                continue;
            snprintf(how, sizeof how, "%s%s", algorithm->name, all && algorithm == chosen ? " *" : "");
            measure(&c, algorithm, seconds, times);
            print_line(&c, l, name, how, times, peak);
        }
    }
    return 0;
}
