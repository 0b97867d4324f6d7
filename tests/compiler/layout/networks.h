/* Parts of image networks for tests of the pass layout: convolutions that are faster in blocked channels, and nodes
 * between them. */
#ifndef XCVM_TESTS_COMPILER_LAYOUT_NETWORKS_H
#define XCVM_TESTS_COMPILER_LAYOUT_NETWORKS_H

#include "tests/compiler/support.h"
#include "compiler/ir/builder.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

/* Sizes at which blocked channels pay, and still small. */
enum { SIZE = 24 };

static UNUSED xcc_value *image(xcc_builder *b, const char *name, int64_t channels)
{
    return input(b, name, XCVM_F32, 4, DIMS(1, channels, SIZE, SIZE));
}

/* Weights that keep numbers as large as they are. */
static UNUSED xcc_value *filter_of(xcc_builder *b, int rank, const int64_t *dims)
{
    size_t each = 1;
    for (int i = 1; i < rank; i++)
        each *= (size_t)dims[i];
    const size_t count = (size_t)dims[0] * each;
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = sinf((float)(i * 7 + 3)) / sqrtf((float)each);
    xcc_value *w = floats(b, rank, dims, data);
    free(data);
    return w;
}

static UNUSED xcc_value *filter(xcc_builder *b, int64_t outputs, int64_t channels, int64_t kernel)
{
    return filter_of(b, 4, DIMS(outputs, channels, kernel, kernel));
}

static UNUSED xcc_value *conv_of(xcc_builder *b, xcc_value *x, int64_t outputs, int64_t kernel, int64_t stride,
                                 int64_t group)
{
    int64_t pad = kernel / 2;
    return APPLY(Conv, y, .x = XCC_IN(x), .w = XCC_IN(filter(b, outputs, x->type.dims[1] / group, kernel)),
                 .b = XCC_IN(weights(b, 1, &outputs)), .strides = XCC_INTS(stride, stride),
                 .pads = XCC_INTS(pad, pad, pad, pad), .dilations = XCC_INTS(1, 1), .group = group);
}

static UNUSED xcc_value *conv(xcc_builder *b, xcc_value *x, int64_t outputs) { return conv_of(b, x, outputs, 3, 1, 1); }

static UNUSED xcc_value *relu(xcc_builder *b, xcc_value *x) { return APPLY(Relu, y, .x = XCC_IN(x)); }

static UNUSED xcc_value *mean(xcc_builder *b, xcc_value *x, int64_t keepdims)
{
    return APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 2, DIMS(2, -1))), .keepdims = keepdims);
}

static UNUSED xcc_value *normalized(xcc_builder *b, xcc_value *x)
{
    int64_t n = x->type.dims[1];
    xcc_value *var = APPLY(Abs, y, .x = XCC_IN(weights(b, 1, &n)));
    var = APPLY(Add, y, .a = XCC_IN(var), .b = XCC_IN(number(b, 0.5)));
    return APPLY(BatchNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(weights(b, 1, &n)),
                 .b = XCC_IN(weights(b, 1, &n)), .mean = XCC_IN(weights(b, 1, &n)), .var = XCC_IN(var),
                 .epsilon = 1e-3);
}

#endif
