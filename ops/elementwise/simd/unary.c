/* Unary element-wise instructions whose result has the operand's type. */
#include "ops/elementwise/unary_generic.h"

#include "ops/simd/halves.h"
#include "ops/simd/lanes_math.h"
#include "ops/elementwise/simd/maps.h"
#include "ops/simd/math_f64.h"

/* Elements of a block. The last block is padded, so that all elements use the same vector code. It is a multiple of
 * every vector length. */
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
#define LOOP_EACH(Name, formula)                                                                                       \
    static __attribute__((unused)) void map_##Name(const float *x, float *y, size_t blocks, const double *p)           \
    {                                                                                                                  \
        const float alpha = (float)p[0], beta = (float)p[1];                                                           \
        (void)alpha, (void)beta;                                                                                       \
        BLOCKS(y[i] = formula)                                                                                         \
    }

/* Arguments beyond the range of the vector functions are computed by libm, one at a time. */
static __attribute__((noinline)) void map_far(const float *x, float *y, size_t count, float (*general)(float))
{
    uint32_t far = 0;
    for (size_t i = 0; i < count; i++)
        far |= xcvm_absolute_f32(x[i]) > XCVM_SIN_LIMIT;
    for (size_t i = 0; i < count && far != 0; i++)
        if (xcvm_absolute_f32(x[i]) > XCVM_SIN_LIMIT)
            y[i] = general(x[i]);
}

#define LOOP_PERIODIC(Name, vectorized, general)                                                                       \
    static void map_##Name(const float *from, float *to, size_t blocks, const double *p)                               \
    {                                                                                                                  \
        (void)p;                                                                                                       \
        float x[XCVM_BLOCK];                                                                                           \
        for (size_t left = blocks * LANES, count; left != 0; left -= count, from += count, to += count) {              \
            count = left < XCVM_BLOCK ? left : XCVM_BLOCK;                                                             \
            memcpy(x, from, count * sizeof *x);                                                                        \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < (count & ~(size_t)(LANES - 1)); i++)                                                \
                to[i] = vectorized(x[i]);                                                                              \
            map_far(x, to, count, general);                                                                            \
        }                                                                                                              \
    }
#define LOOP(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(LOOP_, Name, XCVM_TAKEN_##f32)
XCVM_UNARY_FORMULAS(LOOP)

#if defined(__AVX512F__)
static void map_lanes_Exp(const float *x, float *y, size_t blocks, const double *p)
{
    (void)p;
    for (size_t i = 0; i < blocks * LANES; i += XCVM_LANES)
        xcvm_lanes_store(y + i, xcvm_lanes_exp(xcvm_lanes_load(x + i)));
}
#endif

/* EACH formulas of f64 are a single operation, or several exact ones. */
#define F64_EACH(Name, formula)                                                                                        \
    static void f64_##Name(const double *x, double *y, size_t count, const double *p)                                  \
    {                                                                                                                  \
        const double alpha = p[0], beta = p[1];                                                                        \
        (void)alpha, (void)beta;                                                                                       \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const double v = x[i];                                                                                     \
            y[i] = formula;                                                                                            \
        }                                                                                                              \
    }

/* Vectorized f64 loops; the last elements are padded, as for f32. */
#define F64_FUNCTION(Name, function)                                                                                   \
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

#define F64_PERIODIC(Name, function, general)                                                                          \
    F64_FUNCTION(near_##Name, function)                                                                                \
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
#define F64_SCALAR(Name, formula)
#define F64(Name, kernel, grain, f32, f64, integers) XCVM_BY_KIND(F64_, Name, XCVM_TAKEN_##f64)
XCVM_UNARY_FORMULAS(F64)

typedef struct map {
    map_f32 f32;
    xcvm_unary_f64 f64;
    const double *p;
    xcvm_dtype dtype;
    const void *x;
    void *y;
    size_t count;
} map;

/* Copies fewer than LANES elements in pieces of constant size, because small tensors are frequent. */
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

/* Minimum elements per thread. */
enum { CHEAP = 32768, COSTLY = 4096 };

/* The loops of an instruction, and its alpha and beta. */
typedef struct loops {
    map_f32 f32;
    xcvm_unary_f64 f64;
    size_t grain;
    const double *p;
} loops;

static __attribute__((noinline)) xcvm_status map_tensor(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x,
                                                        const loops *l)
{
    if (x->dtype == XCVM_F32 && x->bytes < 2 * l->grain * sizeof(float)) {
        map_floats(l->f32, x->data, y->data, x->bytes / sizeof(float), l->p);
        return XCVM_OK;
    }
    map m = {l->f32, l->f64, l->p, x->dtype, x->data, y->data, x->bytes / xcvm_dtype_size(x->dtype)};
    return xcvm_kernel_parallel(k, (m.count + LANES - 1) / LANES, l->grain / LANES, map_range, &m);
}

/* For instructions whose attributes may be fractions even if the elements are integers. */
static __attribute__((noinline)) xcvm_status run_through_f64(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *x,
                                                             xcvm_unary_f64 f64, const double *p)
{
    double block[XCVM_BLOCK];
    const size_t count = xcvm_element_count(x);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_BLOCK));
        const size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_f64(x->dtype, x->data, at, n, block);
        f64(block, block, n, p);
        xcvm_store_f64(y->dtype, y->data, at, n, block, true);
    }
    return XCVM_OK;
}

/* The FLOAT attributes of each op definition, in order, as alpha and beta. */
#define FLOAT(name, value) a->name,
#define XCVM_OP(Name, number, operands, ...)                                                                           \
    static inline __attribute__((unused)) void parameters_##Name(const xcvm_##Name##_args *a, double p[2])             \
    {                                                                                                                  \
        const double all[] = {operands 0.0, 0.0};                                                                      \
        (void)a;                                                                                                       \
        memcpy(p, all, 2 * sizeof *p);                                                                                 \
    }
#include "ops/instructions.def"

#define F64_LOOP_EACH(Name, formula) f64_##Name
#define F64_LOOP_FUNCTION(Name, function) f64_##Name
#define F64_LOOP_PERIODIC(Name, function, general) f64_##Name
#define F64_LOOP_SCALAR(Name, formula) xcvm_unary_f64_##Name
#define INTEGERS_INTEGER(Name, formula)                                                                                \
    if (!xcvm_dtype_is_float(a->x->dtype))                                                                             \
        return xcvm_unary_int(k, XCVM_UNARY_INTEGER_##Name, a->y, a->x);
#define INTEGERS_THROUGH_F64(Name, nothing)                                                                            \
    if (!xcvm_dtype_is_float(a->x->dtype))                                                                             \
        return run_through_f64(k, a->y, a->x, l.f64, p);
#define INTEGERS_NONE(Name, nothing)
#define KERNEL_PLAIN(Name, cost, f64, integers)                                                                        \
    XCVM_KERNEL(Name)                                                                                                  \
    {                                                                                                                  \
        double p[2];                                                                                                   \
        parameters_##Name(a, p);                                                                                       \
        const loops l = {map_##Name, XCVM_BY_KIND(F64_LOOP_, Name, XCVM_TAKEN_##f64), cost, p};                        \
        XCVM_BY_KIND(INTEGERS_, Name, XCVM_TAKEN_##integers)                                                           \
        return map_tensor(k, a->y, a->x, &l);                                                                          \
    }
#define KERNEL_OWN(Name, cost, f64, integers)
#define KERNEL_VARIANT(Name, cost, f64, integers)
#define KERNEL(Name, kernel, grain, f32, f64, integers) KERNEL_##kernel(Name, grain, f64, integers)
XCVM_UNARY_FORMULAS(KERNEL)

XCVM_KERNEL(Exp)
{
    static const double none[2] = {0, 0};
#if defined(__AVX512F__)
    const loops l = {map_lanes_Exp, f64_Exp, COSTLY, none};
#else
    const loops l = {map_Exp, f64_Exp, COSTLY, none};
#endif
    return map_tensor(k, a->y, a->x, &l);
}

XCVM_KERNEL(Gelu)
{
    static const double none[2] = {0, 0};
    const bool by_tanh = a->approximate == XCVM_GELU_tanh;
    const loops l = {by_tanh ? map_GeluTanh : map_Gelu, by_tanh ? xcvm_unary_f64_GeluTanh : xcvm_unary_f64_Gelu, COSTLY,
                     none};
    return map_tensor(k, a->y, a->x, &l);
}

XCVM_KERNEL(Clip)
{
    double p[] = {-(double)INFINITY, (double)INFINITY};
    const loops l = {map_Clip, f64_Clip, CHEAP, p};
    if (a->min != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->min, "min", &p[0]));
    if (a->max != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->max, "max", &p[1]));
    if (!xcvm_dtype_is_float(a->x->dtype))
        return xcvm_clip_int(k, a->y, a->x, a->min, a->max);
    return map_tensor(k, a->y, a->x, &l);
}
