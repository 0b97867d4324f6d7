/* Binary element-wise instructions with broadcasting. */
#include "ops/elementwise/binary_generic.h"
#include "ops/util/broadcast.h"

#include "ops/simd/halves.h"
#include "ops/elementwise/simd/binary_integers.h"
#include "ops/elementwise/simd/maps.h"
#include "ops/simd/math_f64.h"

/* ---- Loops for f32 ---- */

/* A step of 0 means one element for all, loaded once. For a single element both steps are 0. */
#define LOOP(Name, result, expression)                                                                                 \
    static void loop_##Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)         \
    {                                                                                                                  \
        const float *from_a = a, *from_b = b;                                                                          \
        result *to = y;                                                                                                \
        if (count == 0)                                                                                                \
            return;                                                                                                    \
        if (a_step != 0 && b_step != 0) {                                                                              \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const float u = from_a[i], v = from_b[i];                                                              \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        } else if (a_step != 0) {                                                                                      \
            const float v = *from_b;                                                                                   \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const float u = from_a[i];                                                                             \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        } else {                                                                                                       \
            const float u = *from_a;                                                                                   \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const float v = from_b[i * b_step];                                                                    \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
/* The same with half the code: a broadcast element is repeated in a block. */
#define LOOP_SMALL(Name, result, expression)                                                                           \
    static void loop_##Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)         \
    {                                                                                                                  \
        float repeated[XCVM_BLOCK];                                                                                    \
        if (a_step != b_step)                                                                                          \
            repeat(a_step == 0 ? a : b, count < XCVM_BLOCK ? count : XCVM_BLOCK, repeated);                            \
        for (size_t at = 0; at < count; at += XCVM_BLOCK) {                                                            \
            const float *from_a = a_step >= b_step ? (const float *)a + at : repeated;                                 \
            const float *from_b = b_step >= a_step ? (const float *)b + at : repeated;                                 \
            result *to = (result *)y + at;                                                                             \
            size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;                                              \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < n; i++) {                                                                           \
                const float u = from_a[i], v = from_b[i];                                                              \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
static void repeat(const float *element, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = *element;
}

/* The remainder with the sign of u, u - v trunc(u / v), exact unless is_far_... holds for the quotient. f32: the f64
 * quotient does not round to another integer, and its product with v has at most 53 bits. f64: a quotient that was
 * rounded up is one too large and leaves a negative remainder; FMA rounds nothing, because the remainder is
 * representable. Larger quotients use libm. */
static inline float remainder_of_f32(float u, float v)
{
    const double wide = (double)u, divisor = (double)v;
    const float r = xcvm_copysign_f32((float)(wide - trunc(wide / divisor) * divisor), u);
    return xcvm_absolute_f32(v) > 3.40282347e+38f && xcvm_absolute_f32(u) <= 3.40282347e+38f ? u : r;
}
static inline int is_far_f32(float u, float v) { return xcvm_absolute_f32(u) > 0x1p27f * xcvm_absolute_f32(v); }
#define general_f32 fmodf

static inline double remainder_of_f64(double u, double v)
{
    const double a = xcvm_absolute_f64(u), b = xcvm_absolute_f64(v);
    double r = fma(-trunc(a / b), b, a);
    r = r < 0.0 ? r + b : r;
    r = xcvm_copysign_f64(r, u);
    return b > 1.7976931348623157e308 && a <= 1.7976931348623157e308 ? u : r;
}
#if defined(__FMA__) || defined(__aarch64__)
static inline int is_far_f64(double u, double v) { return xcvm_absolute_f64(u) > 0x1p50 * xcvm_absolute_f64(v); }
#else
static inline int is_far_f64(double u, double v) { return (void)u, (void)v, 1; }
#endif
#define general_f64 fmod

/* The remainder itself, and with the sign of the divisor as in Python. */
#define LOOP_REMAINDER(Name, type, size, expression)                                                                   \
    static void Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)                \
    {                                                                                                                  \
        const type *from_a = a, *from_b = b;                                                                           \
        type dividend[XCVM_BLOCK], divisor[XCVM_BLOCK], rest[XCVM_BLOCK], *to = y;                                     \
        for (size_t at = 0; at < count; at += XCVM_BLOCK) {                                                            \
            const size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;                                        \
            int far = 0;                                                                                               \
            for (size_t i = 0; i < n; i++) {                                                                           \
                dividend[i] = from_a[(at + i) * a_step];                                                               \
                divisor[i] = from_b[(at + i) * b_step];                                                                \
            }                                                                                                          \
            for (size_t i = 0; i < n; i++)                                                                             \
                far |= is_far_##size(dividend[i], divisor[i]);                                                         \
            for (size_t i = 0; i < n; i++)                                                                             \
                rest[i] = remainder_of_##size(dividend[i], divisor[i]);                                                \
            for (size_t i = 0; i < n && far != 0; i++)                                                                 \
                if (is_far_##size(dividend[i], divisor[i]))                                                            \
                    rest[i] = general_##size(dividend[i], divisor[i]);                                                 \
            for (size_t i = 0; i < n; i++) {                                                                           \
                const type v = divisor[i], r = rest[i];                                                                \
                (void)v;                                                                                               \
                to[at + i] = (expression);                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }
/* All elements use the same vector code; the last ones are padded. */
#define LOOP_PADDED(Name, formula)                                                                                     \
    static void loop_##Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)         \
    {                                                                                                                  \
        enum { LANES = 16 };                                                                                           \
        const float *from_a = a, *from_b = b;                                                                          \
        float first[XCVM_BLOCK], second[XCVM_BLOCK];                                                                   \
        for (size_t at = 0; at < count; at += XCVM_BLOCK) {                                                            \
            size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;                                              \
            size_t padded = (n + LANES - 1) & ~(size_t)(LANES - 1);                                                    \
            for (size_t i = 0; i < padded; i++) {                                                                      \
                first[i] = i < n ? from_a[(at + i) * a_step] : 1.0f;                                                   \
                second[i] = i < n ? from_b[(at + i) * b_step] : 1.0f;                                                  \
            }                                                                                                          \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < padded; i++) {                                                                      \
                const float u = first[i], v = second[i];                                                               \
                first[i] = (formula);                                                                                  \
            }                                                                                                          \
            memcpy((float *)y + at, first, n * sizeof *first);                                                         \
        }                                                                                                              \
    }

#define RESULT_SAME(type) type
#define RESULT_BOOL(type) uint8_t
#define F32_EACH(Name, result, formula) LOOP(Name, RESULT_##result(float), formula)
#define F32_SMALL(Name, result, formula) LOOP_SMALL(Name, RESULT_##result(float), formula)
#define F32_PADDED(Name, result, formula) LOOP_PADDED(Name, formula)
#define F32_REMAINDER(Name, result, formula) LOOP_REMAINDER(loop_##Name, float, f32, formula)
#define F32_NONE(Name, result, nothing)
#define LOOP_OF_KIND(...) LOOP_OF_KIND_(__VA_ARGS__)
#define LOOP_OF_KIND_(prefix, Name, result, kind, ...) prefix##kind(Name, result, __VA_ARGS__)
#define F32(Name, kernel, grain, result, f32, f64, integers, booleans)                                                 \
    LOOP_OF_KIND(F32_, Name, result, XCVM_TAKEN_##f32)
XCVM_BINARY_FORMULAS(F32)

/* Frequent constant exponents, for which the loops ignore b. */
#define POWER(Name, expression)                                                                                        \
    static void loop_##Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)         \
    {                                                                                                                  \
        const float *from_a = a;                                                                                       \
        float *to = y;                                                                                                 \
        (void)b;                                                                                                       \
        (void)b_step;                                                                                                  \
        XCVM_INDEPENDENT                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const float u = from_a[i * a_step];                                                                        \
            to[i] = (expression);                                                                                      \
        }                                                                                                              \
    }
POWER(Square, u *u)
POWER(Cube, u *u *u)
/* Unlike sqrt, this power of -infinity is infinity and that of -0 is 0. */
POWER(Root, u == -INFINITY ? INFINITY : sqrtf(u + 0.0f))
POWER(Inverse, 1.0f / u)

/* ---- Loops for f64 with a single operation ---- */

#define LOOP_F64(Name, result, expression)                                                                             \
    static void f64_##Name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)          \
    {                                                                                                                  \
        const double *from_a = a, *from_b = b;                                                                         \
        result *to = y;                                                                                                \
        if (a_step != 0 && b_step != 0) {                                                                              \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const double u = from_a[i], v = from_b[i];                                                             \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        } else {                                                                                                       \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t i = 0; i < count; i++) {                                                                       \
                const double u = from_a[i * a_step], v = from_b[i * b_step];                                           \
                to[i] = (result)(expression);                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
#define F64_EACH(Name, result, formula) LOOP_F64(Name, RESULT_##result(double), formula)
#define F64_REMAINDER(Name, result, formula) LOOP_REMAINDER(f64_##Name, double, f64, formula)
#define F64_SCALAR(Name, result, formula)
#define F64_NONE(Name, result, nothing)
#define F64(Name, kernel, grain, result, f32, f64, integers, booleans)                                                 \
    LOOP_OF_KIND(F64_, Name, result, XCVM_TAKEN_##f64)
XCVM_BINARY_FORMULAS(F64)

/* The loop for f64, integers or booleans. */
static xcvm_binary_loop loop_of(xcvm_binary op, xcvm_dtype carrier)
{
#define F64_ENTRY_EACH(Name, formula) [XCVM_BINARY_##Name] = f64_##Name,
#define F64_ENTRY_REMAINDER(Name, formula) F64_ENTRY_EACH(Name, formula)
#define F64_ENTRY_SCALAR(Name, formula)
#define F64_ENTRY_NONE(Name, nothing)
#define F64_ENTRY(Name, kernel, grain, result, f32, f64, integers, booleans)                                           \
    XCVM_BY_KIND(F64_ENTRY_, Name, XCVM_TAKEN_##f64)
    static const xcvm_binary_loop f64[XCVM_BINARY_COUNT] = {XCVM_BINARY_FORMULAS(F64_ENTRY)};
    const xcvm_binary_loop loop = carrier == XCVM_F64 ? f64[op] : xcvm_binary_integers(op, carrier);
    return loop != NULL ? loop : xcvm_binary_loop_of(op, carrier);
}

/* ---- Application of a loop ---- */

typedef struct binary_loop {
    xcvm_binary_loop loop;
    xcvm_dtype carrier; /* element type of the loop: F32, F64, an integer type (I64 also for U64) or BOOL */
    const xcvm_value *a, *b;
    xcvm_value *y;
    bool a_direct, b_direct, y_direct; /* already of the carrier's type */
    xcvm_broadcast plan;
} binary_loop;

/* Returns true if elements can be used as the carrier type without conversion. */
static bool is_direct(xcvm_dtype dtype, xcvm_dtype carrier)
{
    return dtype == carrier || (carrier == XCVM_I64 && dtype == XCVM_U64);
}

static void load(xcvm_dtype carrier, xcvm_dtype dtype, const void *data, size_t first, size_t count, void *to)
{
    if (carrier == XCVM_F64)
        xcvm_load_f64(dtype, data, first, count, to);
    else if (carrier == XCVM_I64)
        xcvm_load_i64(dtype, data, first, count, to);
    else if (xcvm_dtype_in(dtype, XCVM_TYPES_HALF))
        xcvm_halves_load(dtype, data, first, count, to);
    else {
        double wide[XCVM_BLOCK];
        float *floats = to;
        xcvm_load_f64(dtype, data, first, count, wide);
        for (size_t i = 0; i < count; i++)
            floats[i] = (float)wide[i];
    }
}

static void store(xcvm_dtype carrier, xcvm_value *y, size_t first, size_t count, const void *from)
{
    if (carrier == XCVM_F64)
        xcvm_store_f64(y->dtype, y->data, first, count, from, true);
    else if (carrier == XCVM_I64)
        xcvm_store_i64(y->dtype, y->data, first, count, from);
    else
        xcvm_halves_store(y->dtype, y->data, first, count, from);
}

/* Applies the loop to `count` elements of the result from `at`, at most XCVM_BLOCK if there is a conversion. a and b
 * point to the operands' elements a_first and b_first. */
static void apply(const binary_loop *t, const void *a, size_t a_first, size_t a_step, const void *b, size_t b_first,
                  size_t b_step, size_t at, size_t count)
{
    double a_block[XCVM_BLOCK], b_block[XCVM_BLOCK], y_block[XCVM_BLOCK];
    const char *from_a = (const char *)a_block, *from_b = (const char *)b_block;
    if (t->a_direct)
        from_a = (const char *)a + a_first * xcvm_dtype_size(t->a->dtype);
    else
        load(t->carrier, t->a->dtype, a, a_first, a_step != 0 ? count : 1, a_block);
    if (t->b_direct)
        from_b = (const char *)b + b_first * xcvm_dtype_size(t->b->dtype);
    else
        load(t->carrier, t->b->dtype, b, b_first, b_step != 0 ? count : 1, b_block);
    if (t->y_direct) {
        t->loop(from_a, a_step, from_b, b_step, (char *)t->y->data + at * xcvm_dtype_size(t->y->dtype), count);
    } else {
        t->loop(from_a, a_step, from_b, b_step, y_block, count);
        store(t->carrier, t->y, at, count, y_block);
    }
}

static void apply_row(void *context, size_t at, const size_t *offsets, size_t count)
{
    const binary_loop *t = context;
    int last = t->plan.rank - 1;
    size_t a_step = t->plan.strides[0][last], b_step = t->plan.strides[1][last];
    size_t most = t->a_direct && t->b_direct && t->y_direct ? count : XCVM_BLOCK;
    for (size_t i = 0; i < count; i += most) {
        size_t n = count - i < most ? count - i : most;
        apply(t, t->a->data, offsets[0] + i * a_step, a_step, t->b->data, offsets[1] + i * b_step, b_step, at + i, n);
    }
}

static void apply_rows(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    binary_loop *t = context;
    xcvm_broadcast_rows(&t->plan, begin, end, apply_row, t);
}

/* For short rows: expands broadcast operands block by block. */
static void apply_blocks(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const binary_loop *t = context;
    uint64_t spread[2][XCVM_BLOCK];
    const xcvm_value *in[2] = {t->a, t->b};
    for (size_t at = begin; at < end; at += XCVM_BLOCK) {
        size_t n = end - at < XCVM_BLOCK ? end - at : XCVM_BLOCK;
        const void *from[2];
        size_t first[2];
        for (int o = 0; o < 2; o++) {
            from[o] = t->plan.whole[o] ? in[o]->data : spread[o];
            first[o] = t->plan.whole[o] ? at : 0;
            if (!t->plan.whole[o])
                xcvm_broadcast_spread(&t->plan, o, in[o]->data, xcvm_dtype_size(in[o]->dtype), at, n, spread[o]);
        }
        apply(t, from[0], first[0], 1, from[1], first[1], 1, at, n);
    }
}

/* Rows shorter than this are collected in blocks; minimum elements per thread. */
enum { SHORT_ROW = 24, CHEAP = 32768, COSTLY = 4096 };

/* Returns true if one operand, *repeated, repeats a short row along contiguous rows of the other, as per-channel values
 * do in blocked layout. */
static bool is_periodic(const binary_loop *t, int *repeated)
{
    const xcvm_broadcast *p = &t->plan;
    const int last = p->rank - 1;
    if (p->rank < 2 || !t->a_direct || !t->b_direct || !t->y_direct || p->dims[last - 1] * p->dims[last] < XCVM_BLOCK)
        return false;
    *repeated = p->whole[0] ? 1 : 0;
    return p->whole[1 - *repeated] && p->strides[*repeated][last] == 1 && p->strides[*repeated][last - 1] == 0;
}

/* The same for repeated rows, which are expanded once. */
static void apply_periods(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const binary_loop *t = context;
    const size_t row = t->plan.dims[t->plan.rank - 1], span = t->plan.dims[t->plan.rank - 2] * row;
    const size_t period = XCVM_BLOCK / row * row;
    uint64_t spread[XCVM_BLOCK];
    int o;
    if (!is_periodic(t, &o))
        return;
    const xcvm_value *in = o == 0 ? t->a : t->b;
    for (size_t at = begin, filled = SIZE_MAX; at < end;) {
        const size_t first = at / span * span, phase = (at - first) % period;
        size_t n = period - phase, left = (first + span < end ? first + span : end) - at;
        n = n < left ? n : left;
        if (filled != first)
            xcvm_broadcast_spread(&t->plan, o, in->data, xcvm_dtype_size(in->dtype), first, period, spread);
        filled = first;
        if (o == 0)
            apply(t, spread, phase, 1, t->b->data, at, 1, at, n);
        else
            apply(t, t->a->data, at, 1, spread, phase, 1, at, n);
        at += n;
    }
}

static __attribute__((noinline)) xcvm_status map_tensors(xcvm_kernel *k, xcvm_binary_loop loop, xcvm_dtype carrier,
                                                         xcvm_value *y, const xcvm_value *a, const xcvm_value *b,
                                                         size_t grain)
{
    binary_loop t = {.loop = loop, .carrier = carrier, .a = a, .b = b, .y = y};
    t.a_direct = is_direct(a->dtype, carrier);
    t.b_direct = is_direct(b->dtype, carrier);
    t.y_direct = y->dtype == XCVM_BOOL || is_direct(y->dtype, carrier);
    xcvm_broadcast_plan(&t.plan, y, (const xcvm_value *const[]){a, b}, 2);
    bool rows = t.plan.rank == 1 || t.plan.dims[t.plan.rank - 1] >= SHORT_ROW;
    int repeated;
    const xcvm_range_body body = rows ? apply_rows : is_periodic(&t, &repeated) ? apply_periods : apply_blocks;
    if (t.plan.count == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(k, t.plan.count, grain, body, &t);
}

/* The element type of the loop for an operation on `dtype`. */
static xcvm_dtype carrier_of(xcvm_binary op, xcvm_dtype dtype)
{
    if (dtype == XCVM_F32 || xcvm_dtype_in(dtype, XCVM_TYPES_HALF))
        return XCVM_F32;
    if (dtype == XCVM_F64 || loop_of(op, dtype) != NULL)
        return dtype;
    return xcvm_dtype_in(dtype, XCVM_TYPES_UNSIGNED) ? XCVM_U64 : XCVM_I64;
}

/* Runs an operation on operands of equal type. f32 is its loop for that type, or NULL. */
static __attribute__((noinline)) xcvm_status run_binary(xcvm_kernel *k, xcvm_binary op, xcvm_binary_loop f32,
                                                        xcvm_value *y, const xcvm_value *a, const xcvm_value *b,
                                                        size_t grain)
{
    xcvm_dtype dtype = a->dtype, carrier = carrier_of(op, dtype);
    xcvm_binary_loop loop = carrier == XCVM_F32 ? f32 : loop_of(op, carrier);
    if (carrier == dtype) {
        /* Small tensors of equal shape, or with a scalar, need no plan. */
        size_t size = xcvm_dtype_size(dtype), a_count = a->bytes / size, b_count = b->bytes / size;
        size_t count = a_count > b_count ? a_count : b_count;
        size_t y_count = y->dtype == XCVM_BOOL ? y->bytes : y->bytes / size;
        if (count < grain && y_count == count && (a_count == count || a_count == 1) &&
            (b_count == count || b_count == 1)) {
            loop(a->data, a_count != 1, b->data, b_count != 1, y->data, count);
            return XCVM_OK;
        }
    }
    return map_tensors(k, loop, carrier == XCVM_U64 ? XCVM_I64 : carrier, y, a, b, grain);
}

#define F32_LOOP_EACH(Name, formula) loop_##Name
#define F32_LOOP_SMALL(Name, formula) loop_##Name
#define F32_LOOP_PADDED(Name, formula) loop_##Name
#define F32_LOOP_REMAINDER(Name, formula) loop_##Name
#define F32_LOOP_NONE(Name, nothing) NULL
#define KERNEL_PLAIN(Name, cost, f32)                                                                                  \
    XCVM_KERNEL(Name)                                                                                                  \
    {                                                                                                                  \
        return run_binary(k, XCVM_BINARY_##Name, XCVM_BY_KIND(F32_LOOP_, Name, XCVM_TAKEN_##f32), a->y, a->a, a->b,    \
                          cost);                                                                                       \
    }
#define KERNEL_OWN(Name, cost, f32)
#define KERNEL_VARIANT(Name, cost, f32)
#define KERNEL(Name, kernel, grain, result, f32, f64, integers, booleans) KERNEL_##kernel(Name, grain, f32)
XCVM_BINARY_FORMULAS(KERNEL)

/* The others with operands swapped. */
XCVM_KERNEL(Less) { return run_binary(k, XCVM_BINARY_Greater, loop_Greater, a->y, a->b, a->a, CHEAP); }
XCVM_KERNEL(LessOrEqual)
{
    return run_binary(k, XCVM_BINARY_GreaterOrEqual, loop_GreaterOrEqual, a->y, a->b, a->a, CHEAP);
}

XCVM_KERNEL(Equal)
{
    if (a->a->dtype == XCVM_STRING) {
        return xcvm_equal_strings(k, a->y, a->a, a->b);
    }
    return run_binary(k, XCVM_BINARY_Equal, loop_Equal, a->y, a->a, a->b, CHEAP);
}

XCVM_KERNEL(Div)
{
    if (!xcvm_dtype_is_float(a->a->dtype))
        XCVM_TRY(xcvm_divisors_check(k, a->b));
    return run_binary(k, XCVM_BINARY_Div, loop_Div, a->y, a->a, a->b, CHEAP);
}

XCVM_KERNEL(Mod)
{
    if (!xcvm_dtype_is_float(a->a->dtype))
        XCVM_TRY(xcvm_divisors_check(k, a->b));
    return a->fmod ? run_binary(k, XCVM_BINARY_Fmod, loop_Fmod, a->y, a->a, a->b, COSTLY)
                   : run_binary(k, XCVM_BINARY_Mod, loop_Mod, a->y, a->a, a->b, COSTLY);
}

XCVM_KERNEL(BitShift)
{
    xcvm_binary op = a->direction == XCVM_SHIFT_LEFT ? XCVM_BINARY_ShiftLeft : XCVM_BINARY_ShiftRight;
    return run_binary(k, op, NULL, a->y, a->a, a->b, CHEAP);
}

XCVM_KERNEL(PRelu) { return run_binary(k, XCVM_BINARY_PRelu, loop_PRelu, a->y, a->x, a->slope, CHEAP); }

/* The loop for a constant exponent. */
static xcvm_binary_loop power_of(double exponent)
{
    return exponent == 2.0    ? loop_Square
           : exponent == 3.0  ? loop_Cube
           : exponent == 0.5  ? loop_Root
           : exponent == -1.0 ? loop_Inverse
                              : loop_Pow;
}

XCVM_KERNEL(Pow)
{
    const xcvm_value *base = a->a, *exponent = a->b;
    bool by_one = xcvm_element_count(exponent) == 1;
    if (base->dtype == XCVM_F64)
        return map_tensors(k, xcvm_binary_loop_of(XCVM_BINARY_Pow, XCVM_F64), XCVM_F64, a->y, base, exponent, COSTLY);
    if (xcvm_dtype_is_float(base->dtype)) {
        xcvm_binary_loop loop = by_one ? power_of(xcvm_element_as_double(exponent, 0)) : loop_Pow;
        if (exponent->dtype == base->dtype)
            return run_binary(k, XCVM_BINARY_Pow, loop, a->y, base, exponent, COSTLY);
        return map_tensors(k, loop, XCVM_F32, a->y, base, exponent, COSTLY);
    }
    if (xcvm_dtype_is_float(exponent->dtype))
        return map_tensors(k, xcvm_binary_loop_of(XCVM_BINARY_Pow, XCVM_F64), XCVM_F64, a->y, base, exponent, COSTLY);
    xcvm_dtype sign = exponent->dtype == XCVM_U64 ? XCVM_U64 : XCVM_I64;
    return map_tensors(k, xcvm_binary_loop_of(XCVM_BINARY_Pow, sign), XCVM_I64, a->y, base, exponent, COSTLY);
}
