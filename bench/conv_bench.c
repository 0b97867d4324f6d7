/* conv_bench [SECONDS [WORD]]: the convolutions of ResNet-50, VGG-16, MobileNetV2, EfficientNet-B0 and others (or those
 * whose line holds WORD): the algorithm that Conv chooses, its arithmetic (by the definition) a second on one thread
 * and on two, and the times on one thread of the other algorithms that fit. SECONDS is the time for each figure (0.2).
 */
#include "bench/kernel_bench.h"
#include "base/clock.h"
#include "ops/vector/conv.h"

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
    {"efficientnet", 144, 56, 144, 5, 2, 144},
    {"efficientnet", 240, 28, 240, 5, 1, 240},
    {"efficientnet", 240, 28, 240, 3, 2, 240},
    {"efficientnet", 480, 14, 480, 5, 1, 480},
    {"efficientnet", 672, 14, 672, 5, 2, 672},
    {"efficientnet", 1152, 7, 1152, 5, 1, 1152},
    {"efficientnet", 1152, 1, 48, 1, 1, 1},
    {"efficientnet", 48, 1, 1152, 1, 1, 1},
    {"shufflenet", 58, 28, 58, 1, 1, 1},
    {"shufflenet", 58, 28, 58, 3, 1, 58},
    {"shufflenet", 116, 14, 116, 1, 1, 1},
    {"densenet", 128, 56, 32, 3, 1, 1},
    {"densenet", 128, 28, 32, 3, 1, 1},
    {"densenet", 128, 14, 32, 3, 1, 1},
    {"densenet", 128, 7, 32, 3, 1, 1},
    {"squeezenet", 16, 55, 64, 3, 1, 1},
    {"squeezenet", 48, 27, 192, 3, 1, 1},
    {"squeezenet", 64, 13, 256, 3, 1, 1},
};

/* The algorithms in the builds of the kernels, and those that this CPU uses. */
extern const xcvm_conv_algorithm *const xcvm_conv_algorithms_run[];
#if defined(__x86_64__)
extern const xcvm_conv_algorithm *const xcvm_conv_algorithms_run_v3[];
extern const xcvm_conv_algorithm *const xcvm_conv_algorithms_run_v4[];
#endif
static const xcvm_conv_algorithm *const *algorithms(void)
{
#if defined(__x86_64__)
    if (strcmp(bench_isa(), "x86-64-v4") == 0)
        return xcvm_conv_algorithms_run_v4;
    if (strcmp(bench_isa(), "x86-64-v3") == 0)
        return xcvm_conv_algorithms_run_v3;
#endif
    return xcvm_conv_algorithms_run;
}

static double time_algorithm(const xcvm_conv_algorithm *a, const xcvm_conv *c, int threads, double seconds)
{
    xcvm_error error = {.status = XCVM_OK};
    xcvm_threads *pool = NULL;
    if (xcvm_threads_create(NULL, threads, &pool, &error) != XCVM_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    const xcvm_kernel k = {.error = &error, .threads = pool};
    const size_t bytes = a->scratch(&c->shape, threads);
    void *scratch = xcvm_allocate(NULL, bytes);
    const uint64_t end = xcvm_clock_ns() + (uint64_t)(seconds * 1e9);
    double best = 1e9;
    for (uint64_t now = xcvm_clock_ns(); scratch != NULL && now < end;) {
        if (a->run(&k, c, scratch) != XCVM_OK) {
            fprintf(stderr, "%s: %s\n", a->name, error.message);
            exit(1);
        }
        const uint64_t then = xcvm_clock_ns();
        best = (double)(then - now) * 1e-9 < best ? (double)(then - now) * 1e-9 : best;
        now = then;
    }
    xcvm_deallocate(NULL, scratch, bytes);
    xcvm_threads_destroy(pool);
    return best;
}

/* Prints how fast each algorithm is that fits, the one that Conv chooses first. */
static void compare(const char *name, const xcvm_conv *c, double peak, double seconds)
{
    const xcvm_conv_algorithm *chosen = NULL;
    for (const xcvm_conv_algorithm *const *a = algorithms(); *a != NULL; a++)
        if ((*a)->fits(&c->shape) && (chosen == NULL || (*a)->cost(&c->shape) < chosen->cost(&c->shape)))
            chosen = *a;
    const double flops = 2.0 * xcvm_conv_work(&c->shape) / 1e9;
    const double one = time_algorithm(chosen, c, 1, seconds), two = time_algorithm(chosen, c, 2, seconds);
    printf("%-38s %-10s %9.4f %9.1f %5.0f%%  %9.1f ", name, chosen->name, one * 1e3, flops / one,
           flops / one / peak * 100.0, flops / two);
    for (const xcvm_conv_algorithm *const *a = algorithms(); *a != NULL; a++)
        if (*a != chosen && (*a)->fits(&c->shape))
            printf(" %s %.4f", (*a)->name, time_algorithm(*a, c, 1, seconds) * 1e3);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.2, peak = bench_peak() / 1e9;
    printf("%s, one core's limit %.0f GFLOP/s\n", bench_isa(), peak);
    printf("%-38s %-10s %9s %9s %6s  %9s  %s\n", "convolution", "algorithm", "ms", "GFLOP/s", "limit", "2 threads",
           "others, ms");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer *l = &layers[i];
        const int64_t pad = l->kernel / 2, out = (l->size + 2 * pad - l->kernel) / l->stride + 1;
        const int64_t x_dims[] = {1, l->channels, l->size, l->size}, y_dims[] = {1, l->outputs, out, out};
        const int64_t w_dims[] = {l->outputs, l->channels / l->group, l->kernel, l->kernel};
        const int64_t strides[] = {l->stride, l->stride}, pads[] = {pad, pad, pad, pad}, ones[] = {1, 1};
        char name[64];
        snprintf(name, sizeof name, "%-12s %lldx%lldx%lld -> %lld %lldx%lld/%lld%s", l->what, (long long)l->channels,
                 (long long)l->size, (long long)l->size, (long long)l->outputs, (long long)l->kernel,
                 (long long)l->kernel, (long long)l->stride, l->group > 1 ? " dw" : "");
        if (argc > 2 && strstr(name, argv[2]) == NULL)
            continue;
        bench_tensor x, w, b, y;
        bench_tensor_make(&x, 4, x_dims);
        bench_tensor_make(&w, 4, w_dims);
        bench_tensor_make(&b, 1, &l->outputs);
        bench_tensor_make(&y, 4, y_dims);
        const xcvm_activation relu = xcvm_activation_of(XCVM_ACTIVATION_Relu, (xcvm_floats){NULL, 0});
        const xcvm_conv c = {.shape = xcvm_conv_shape_of(&x.value, &w.value, &y.value, (xcvm_ints){strides, 2},
                                                         (xcvm_ints){pads, 4}, (xcvm_ints){ones, 2}, l->group),
                             .x = x.value.data,
                             .w = w.value.data,
                             .b = b.value.data,
                             .y = y.value.data,
                             .activation = &relu};
        compare(name, &c, peak, seconds);
        bench_tensor_free(&x);
        bench_tensor_free(&w);
        bench_tensor_free(&b);
        bench_tensor_free(&y);
    }
    return 0;
}
