/* The element-wise instructions of one operand whose result has its type. */
#include "ops/elementwise/unary_generic.h"

#include "ops/simd/halves.h"
#include "ops/simd/lanes_math.h"
#include "ops/elementwise/simd/maps.h"
#include "ops/simd/math_f64.h"

/* Loops run over blocks of this many elements, the last one padded, so that all elements go through the same vector
 * code. It is a multiple of every vector's length. */
enum { LANES = 16 };

/* y = f(x) for `blocks` blocks; x and y may be equal. */
typedef void (*map_f32)(const float *x, float *y, size_t blocks, const double *p);

#define BLOCKS(body)                                                                                                   \
    const size_t count = blocks * LANES;                                                                               \
    XCVM_INDEPENDENT                                                                                                   \
    for (size_t i = 0; i < count; i++) {                                                                               \
        const float v = x[i];                                                                                          \
        body;                                                                                                          \
    }
/* `setup` declares what the expression takes from the attributes p. */
#define MAP(Name, setup, expression)                                                                                   \
    static __attribute__((unused)) void map_##Name(const float *x, float *y, size_t blocks, const double *p)           \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        setup;                                                                                                         \
        BLOCKS(y[i] = (expression))                                                                                    \
    }
#define NONE (void)0
#define ALPHA const float alpha = (float)p[0]
#define ALPHA_BETA const float alpha = (float)p[0], beta = (float)p[1]

XCVM_MAPS(MAP)

#if defined(__AVX512F__)
static void map_lanes_Exp(const float *x, float *y, size_t blocks, const double *p)
{
    (void)p;
    for (size_t i = 0; i < blocks * LANES; i += XCVM_LANES)
        xcvm_lanes_store(y + i, xcvm_lanes_exp(xcvm_lanes_load(x + i)));
}
#else
#define map_lanes_Exp map_Exp
#endif

/* Arguments beyond the range of the vector functions go to libm, one by one. */
static __attribute__((noinline)) void map_far(const float *x, float *y, size_t count, float (*general)(float))
{
    uint32_t far = 0;
    for (size_t i = 0; i < count; i++)
        far |= xcvm_absolute_f32(x[i]) > XCVM_SIN_LIMIT;
    for (size_t i = 0; i < count && far != 0; i++)
        if (xcvm_absolute_f32(x[i]) > XCVM_SIN_LIMIT)
            y[i] = general(x[i]);
}

#define MAP_PERIODIC(Name, vectorised, general)                                                                        \
    static void map_##Name(const float *from, float *to, size_t blocks, const double *p)                               \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        float x[XCVM_BLOCK];                                                                                           \
        for (size_t left = blocks * LANES, count; left != 0; left -= count, from += count, to += count) {              \
            count = left < XCVM_BLOCK ? left : XCVM_BLOCK;                                                             \
            memcpy(x, from, count * sizeof *x);                                                                        \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < (count & ~(size_t)(LANES - 1)); i++)                                                \
                to[i] = vectorised(x[i]);                                                                              \
            map_far(x, to, count, general);                                                                            \
        }                                                                                                              \
    }
MAP_PERIODIC(Sin, xcvm_sin_f32, sinf)
MAP_PERIODIC(Cos, xcvm_cos_f32, cosf)
MAP_PERIODIC(Tan, xcvm_tan_f32, tanf)

/* What is one operation of f64, or some that round nothing. */
#define MAP_PLAIN_F64(Name, expression)                                                                                \
    static void f64_##Name(const double *x, double *y, size_t count, const double *p)                                  \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const double v = x[i];                                                                                     \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
static void f64_Clip(const double *x, double *y, size_t count, const double *p)
{
    const double low = p[0], high = p[1];
    XCVM_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const double v = x[i] < low ? low : x[i];
        y[i] = v > high ? high : v;
    }
}
MAP_PLAIN_F64(Abs, xcvm_absolute_f64(v))
MAP_PLAIN_F64(Neg, -v)
MAP_PLAIN_F64(Ceil, ceil(v))
MAP_PLAIN_F64(Floor, floor(v))
MAP_PLAIN_F64(Round, rint(v))
MAP_PLAIN_F64(Sqrt, sqrt(v))
MAP_PLAIN_F64(Reciprocal, 1.0 / v)
MAP_PLAIN_F64(Relu, v < 0.0 ? 0.0 : v)

/* Loops of f64 that are vectorised; the last elements are padded, as those of f32 are. */
#define MAP_F64(Name, function)                                                                                        \
    static void f64_##Name(const double *x, double *y, size_t count, const double *p)                                  \
    {                                                                                                                  \
        const size_t whole = count / LANES * LANES;                                                                    \
        (void)p;                                                                                                       \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < whole; i++)                                                                             \
            y[i] = function(x[i]);                                                                                     \
        if (whole < count) {                                                                                           \
            double block[LANES] = {0};                                                                                 \
            memcpy(block, x + whole, (count - whole) * sizeof *block);                                                 \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < LANES; i++)                                                                         \
                block[i] = function(block[i]);                                                                         \
            memcpy(y + whole, block, (count - whole) * sizeof *block);                                                 \
        }                                                                                                              \
    }
MAP_F64(Exp, xcvm_exp_f64)
MAP_F64(Tanh, xcvm_tanh_f64)
MAP_F64(Sigmoid, xcvm_sigmoid_f64)
MAP_F64(near_Sin, xcvm_sin_f64)
MAP_F64(near_Cos, xcvm_cos_f64)

#define MAP_PERIODIC_F64(Name, general)                                                                                \
    static void f64_##Name(const double *from, double *to, size_t all, const double *p)                                \
    {                                                                                                                  \
        double x[XCVM_BLOCK];                                                                                          \
        for (size_t left = all, count; left != 0; left -= count, from += count, to += count) {                         \
            uint32_t far = 0;                                                                                          \
            count = left < XCVM_BLOCK ? left : XCVM_BLOCK;                                                             \
            memcpy(x, from, count * sizeof *x);                                                                        \
            f64_near_##Name(x, to, count, p);                                                                          \
            for (size_t i = 0; i < count; i++)                                                                         \
                far |= xcvm_absolute_f64(x[i]) > (double)XCVM_SIN_LIMIT;                                               \
            for (size_t i = 0; i < count && far != 0; i++)                                                             \
                if (xcvm_absolute_f64(x[i]) > (double)XCVM_SIN_LIMIT)                                                  \
                    to[i] = general(x[i]);                                                                             \
        }                                                                                                              \
    }
MAP_PERIODIC_F64(Sin, sin)
MAP_PERIODIC_F64(Cos, cos)

static xcvm_unary_f64 f64_of(xcvm_opcode opcode)
{
#define ENTRY(Name)                                                                                                    \
    case XCVM_OP_##Name:                                                                                               \
        return f64_##Name
    switch (opcode) {
        ENTRY(Abs);
        ENTRY(Neg);
        ENTRY(Ceil);
        ENTRY(Floor);
        ENTRY(Round);
        ENTRY(Sqrt);
        ENTRY(Reciprocal);
        ENTRY(Relu);
        ENTRY(Clip);
        ENTRY(Exp);
        ENTRY(Tanh);
        ENTRY(Sigmoid);
        ENTRY(Sin);
        ENTRY(Cos);
    default:
        return xcvm_unary_f64_of(opcode);
    }
#undef ENTRY
}

typedef struct map {
    map_f32 f32;
    xcvm_unary_f64 f64;
    const double *p;
    xcvm_dtype dtype;
    const void *x;
    void *y;
    size_t count;
} map;

/* Copies fewer than LANES elements, in pieces whose sizes the compiler knows: small tensors are frequent. */
static inline void copy_rest(const float *from, float *to, size_t count)
{
    size_t at = 0;
#define COPY_PIECE(size)                                                                                               \
    if ((count & (size)) != 0) {                                                                                       \
        memcpy(to + at, from + at, (size) * sizeof *to);                                                               \
        at += (size);                                                                                                  \
    }
    COPY_PIECE(8u)
    COPY_PIECE(4u)
    COPY_PIECE(2u)
    COPY_PIECE(1u)
#undef COPY_PIECE
}

static __attribute__((noinline)) void map_floats(map_f32 f32, const float *x, float *y, size_t count, const double *p)
{
    size_t blocks = count / LANES, rest = count % LANES;
    if (blocks != 0)
        f32(x, y, blocks, p);
    if (rest != 0) {
        float block[LANES] = {0};
        copy_rest(x + blocks * LANES, block, rest);
        f32(block, block, 1, p);
        copy_rest(block, y + blocks * LANES, rest);
    }
}

/* The range is in blocks. */
static void map_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const map *m = context;
    size_t first = begin * LANES, last = end * LANES < m->count ? end * LANES : m->count;
    if (m->dtype == XCVM_F32) {
        map_floats(m->f32, (const float *)m->x + first, (float *)m->y + first, last - first, m->p);
    } else if (m->dtype == XCVM_F64) {
        m->f64((const double *)m->x + first, (double *)m->y + first, last - first, m->p);
    } else {
        float block[XCVM_BLOCK];
        for (size_t at = first; at < last; at += XCVM_BLOCK) {
            size_t n = last - at < XCVM_BLOCK ? last - at : XCVM_BLOCK;
            xcvm_halves_load(m->dtype, m->x, at, n, block);
            map_floats(m->f32, block, block, n, m->p);
            xcvm_halves_store(m->dtype, m->y, at, n, block);
        }
    }
}

/* Elements worth a thread of their own. */
enum { CHEAP = 32768, COSTLY = 4096 };

static __attribute__((noinline)) xcvm_status run(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x, map_f32 f32,
                                                 xcvm_opcode opcode, size_t grain, const double *p)
{
    if (x->dtype == XCVM_F32 && x->bytes < 2 * grain * sizeof(float)) {
        map_floats(f32, x->data, y->data, x->bytes / sizeof(float), p);
        return XCVM_OK;
    }
    map m = {f32, f64_of(opcode), p, x->dtype, x->data, y->data, x->bytes / xcvm_dtype_size(x->dtype)};
    return xcvm_kernel_parallel(k, (m.count + LANES - 1) / LANES, grain / LANES, map_range, &m);
}

#define UNARY(Name, grain)                                                                                             \
    XCVM_KERNEL(Name) { return run(k, a->y, a->x, map_##Name, XCVM_OP_##Name, grain, NULL); }
#define UNARY_WITH(Name, grain, ...)                                                                                   \
    XCVM_KERNEL(Name)                                                                                                  \
    {                                                                                                                  \
        const double p[] = {__VA_ARGS__};                                                                              \
        return run(k, a->y, a->x, map_##Name, XCVM_OP_##Name, grain, p);                                               \
    }
#define UNARY_REAL(Name)                                                                                               \
    XCVM_KERNEL(Name)                                                                                                  \
    {                                                                                                                  \
        if (xcvm_dtype_is_float(a->x->dtype))                                                                          \
            return run(k, a->y, a->x, map_##Name, XCVM_OP_##Name, CHEAP, NULL);                                        \
        return xcvm_unary_int(k, XCVM_OP_##Name, a->y, a->x);                                                          \
    }

UNARY_REAL(Abs)
UNARY_REAL(Neg)
UNARY_REAL(Sign)
UNARY_REAL(Relu)
UNARY(Ceil, CHEAP)
UNARY(Floor, CHEAP)
UNARY(Round, CHEAP)
UNARY(Sqrt, CHEAP)
UNARY(Reciprocal, CHEAP)
XCVM_KERNEL(Exp) { return run(k, a->y, a->x, map_lanes_Exp, XCVM_OP_Exp, COSTLY, NULL); }
UNARY(Log, COSTLY)
UNARY(Sin, COSTLY)
UNARY(Cos, COSTLY)
UNARY(Tan, COSTLY)
UNARY(Asin, COSTLY)
UNARY(Acos, COSTLY)
UNARY(Atan, COSTLY)
UNARY(Sinh, COSTLY)
UNARY(Cosh, COSTLY)
UNARY(Tanh, COSTLY)
UNARY(Asinh, COSTLY)
UNARY(Acosh, COSTLY)
UNARY(Atanh, COSTLY)
UNARY(Erf, COSTLY)
UNARY(Sigmoid, COSTLY)
UNARY(Softplus, COSTLY)
UNARY(Softsign, CHEAP)
UNARY(Mish, COSTLY)
UNARY(HardSwish, CHEAP)
UNARY_WITH(LeakyRelu, CHEAP, a->alpha)
UNARY_WITH(Elu, COSTLY, a->alpha)
UNARY_WITH(Selu, COSTLY, a->alpha, a->gamma)
UNARY_WITH(Celu, COSTLY, a->alpha)
UNARY_WITH(ThresholdedRelu, CHEAP, a->alpha)
UNARY_WITH(HardSigmoid, CHEAP, a->alpha, a->beta)
UNARY_WITH(Swish, COSTLY, a->alpha)

XCVM_KERNEL(Gelu)
{
    bool by_tanh = a->approximate == XCVM_GELU_tanh;
    const double p[] = {by_tanh ? 1.0 : 0.0};
    return run(k, a->y, a->x, by_tanh ? map_GeluTanh : map_Gelu, XCVM_OP_Gelu, COSTLY, p);
}

XCVM_KERNEL(Shrink)
{
    const double p[] = {a->bias, a->lambd};
    if (xcvm_dtype_is_float(a->x->dtype))
        return run(k, a->y, a->x, map_Shrink, XCVM_OP_Shrink, CHEAP, p);
    /* The attributes may be fractions also where the elements are whole. */
    double block[XCVM_BLOCK];
    size_t count = xcvm_element_count(a->x);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_BLOCK));
        size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_f64(a->x->dtype, a->x->data, at, n, block);
        xcvm_unary_f64_of(XCVM_OP_Shrink)(block, block, n, p);
        xcvm_store_f64(a->y->dtype, a->y->data, at, n, block, true);
    }
    return XCVM_OK;
}

XCVM_KERNEL(Clip)
{
    double p[] = {-(double)INFINITY, (double)INFINITY};
    if (a->min != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->min, "min", &p[0]));
    if (a->max != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->max, "max", &p[1]));
    if (!xcvm_dtype_is_float(a->x->dtype)) {
        return xcvm_clip_int(k, a->y, a->x, a->min, a->max);
    }
    return run(k, a->y, a->x, map_Clip, XCVM_OP_Clip, CHEAP, p);
}
