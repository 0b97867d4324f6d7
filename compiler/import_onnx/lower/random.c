/* Lowering of random numbers. ONNX's seeds are floats; a program has integers, -1 for the session's. */
#include "compiler/import_onnx/lower/lower.h"

static xcvm_status read_seed(xcc_lowering *n, int64_t *seed)
{
    double number;
    *seed = -1;
    if (xcc_attribute_find(n, "seed") == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_attribute_float(n, "seed", 0, &number));
    const float narrow = (float)number;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    *seed = bits;
    return XCVM_OK;
}

/* RandomNormal, RandomUniform and similar operators: `shape` is that of the result. */
static xcvm_status draw(xcc_lowering *n, bool normal, xcc_value *shape, xcvm_dtype fallback)
{
    int64_t seed;
    xcvm_dtype dtype;
    double first, second;
    XCVM_TRY(read_seed(n, &seed));
    XCVM_TRY(xcc_attribute_dtype(n, "dtype", fallback, &dtype));
    XCVM_TRY(xcc_attribute_float(n, normal ? "mean" : "low", 0, &first));
    XCVM_TRY(xcc_attribute_float(n, normal ? "scale" : "high", 1, &second));
    if (shape == NULL)
        return xcc_failure(n);
    if (normal)
        return xcc_bind(n, 0,
                        xcc_apply(&n->b, RandomNormal, y, .shape = XCC_IN(shape), .mean = first, .scale = second,
                                  .seed = seed, .dtype = dtype));
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, RandomUniform, y, .shape = XCC_IN(shape), .low = first, .high = second,
                              .seed = seed, .dtype = dtype));
}

static bool is_normal(const xcc_lowering *n) { return strncmp(n->op->info.name, "RandomNormal", 12) == 0; }

xcvm_status xcc_lower_random(xcc_lowering *n)
{
    xcvm_ints shape;
    XCVM_TRY(xcc_need_inputs(n, 0, 0));
    XCVM_CHECK(n->m->error, xcc_attribute_find(n, "shape") != NULL, INVALID_MODEL, "attribute 'shape' is missing");
    XCVM_TRY(xcc_attribute_ints(n, "shape", &shape));
    return draw(n, is_normal(n), xcc_build_ints(&n->b, shape.count, shape.at), XCVM_F32);
}

xcvm_status xcc_lower_random_like(xcc_lowering *n)
{
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    return draw(n, is_normal(n), xcc_build_shape_of(&n->b, n->inputs[0]), (xcvm_dtype)n->inputs[0]->type.dtype);
}

xcvm_status xcc_lower_bernoulli(xcc_lowering *n)
{
    int64_t seed;
    xcvm_dtype dtype;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(read_seed(n, &seed));
    XCVM_TRY(xcc_attribute_dtype(n, "dtype", (xcvm_dtype)n->inputs[0]->type.dtype, &dtype));
    return xcc_bind(n, 0, xcc_apply(&n->b, Bernoulli, y, .x = XCC_IN(n->inputs[0]), .seed = seed, .dtype = dtype));
}

xcvm_status xcc_lower_multinomial(xcc_lowering *n)
{
    int64_t seed, samples;
    xcvm_dtype dtype;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(read_seed(n, &seed));
    XCVM_TRY(xcc_attribute_int(n, "sample_size", 1, &samples));
    XCVM_TRY(xcc_attribute_dtype(n, "dtype", XCVM_I32, &dtype));
    XCVM_CHECK(n->m->error, samples >= 1 && samples <= INT32_MAX, OUT_OF_RANGE,
               "attribute 'sample_size' is %lld, 1 or more is expected", (long long)samples);
    return xcc_bind(n, 0,
                    xcc_apply(&n->b, Multinomial, y, .x = XCC_IN(n->inputs[0]), .sample_size = samples, .seed = seed,
                              .dtype = dtype));
}
