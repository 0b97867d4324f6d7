/* Scalar loops of binary instructions: f64, 64-bit integers, booleans. */
#include "ops/elementwise/binary_generic.h"

#include "ops/util/broadcast.h"
#include "ops/util/convert.h"

#include <math.h>

/* ---- Functions used by formulas ---- */

/* The remainder with the sign of the divisor, as in Python. */
static double mod_f64(double u, double v)
{
    double r = fmod(u, v);
    return r == 0.0 ? copysign(0.0, v) : (r < 0.0) != (v < 0.0) ? r + v : r;
}
static int64_t div_i64(int64_t u, int64_t v) { return v == -1 ? (int64_t)(0 - (uint64_t)u) : u / v; }
static int64_t rem_i64(int64_t u, int64_t v) { return v == -1 ? 0 : u % v; }
static int64_t mod_i64(int64_t u, int64_t v)
{
    int64_t r = rem_i64(u, v);
    return r != 0 && (r ^ v) < 0 ? r + v : r;
}
static uint64_t pow_u64(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}
/* A negative power is a fraction, which truncates to 0. */
static int64_t pow_i64(int64_t u, int64_t v)
{
    if (v < 0)
        return u == 1 ? 1 : u == -1 ? ((v & 1) != 0 ? -1 : 1) : 0;
    return (int64_t)pow_u64((uint64_t)u, (uint64_t)v);
}

/* ---- Loops ---- */

#define LOOP(name, type, result, formula)                                                                              \
    static void name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)                \
    {                                                                                                                  \
        const type *from_a = a, *from_b = b;                                                                           \
        result *to = y;                                                                                                \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type u = from_a[i * a_step], v = from_b[i * b_step];                                                 \
            (void)u, (void)v;                                                                                          \
            to[i] = (result)(formula);                                                                                 \
        }                                                                                                              \
    }
#define RESULT_SAME(type) type
#define RESULT_BOOL(type) uint8_t

/* The name of a loop consists of type and formula: i64_Div. */
#define F64_SCALAR(Name, result, formula) LOOP(f64_##Name, double, RESULT_##result(double), formula)
#define F64_EACH(Name, result, formula)
#define F64_REMAINDER(Name, result, formula)
#define F64_NONE(Name, result, nothing)
#define INTEGERS_MODULAR(Name, result, formula)
#define INTEGERS_ORDERED(Name, result, formula)
#define INTEGERS_WIDE(Name, result, with_sign, without)                                                                \
    LOOP(i64_##Name, int64_t, RESULT_##result(int64_t), with_sign)                                                     \
    LOOP(u64_##Name, uint64_t, RESULT_##result(uint64_t), without)
#define INTEGERS_UNSIGNED(Name, result, formula)
#define INTEGERS_NONE(Name, result, nothing)
#define BOOLEANS_TRUTH(Name, result, formula) LOOP(bool_##Name, uint8_t, uint8_t, formula)
#define BOOLEANS_NONE(Name, result, nothing)
#define LOOPS_OF_KIND(...) LOOPS_OF_KIND_(__VA_ARGS__)
#define LOOPS_OF_KIND_(prefix, Name, result, kind, ...) prefix##kind(Name, result, __VA_ARGS__)
#define LOOPS(Name, kernel, grain, result, f32, f64, integers, booleans)                                               \
    LOOPS_OF_KIND(F64_, Name, result, XCVM_TAKEN_##f64)                                                                \
    LOOPS_OF_KIND(INTEGERS_, Name, result, XCVM_TAKEN_##integers)                                                      \
    LOOPS_OF_KIND(BOOLEANS_, Name, result, XCVM_TAKEN_##booleans)
XCVM_BINARY_FORMULAS(LOOPS)

#define TABLE_ENTRY(type, Name) [TYPE_##type][XCVM_BINARY_##Name] = type##_##Name,
#define TABLE_SCALAR(Name, formula) TABLE_ENTRY(f64, Name)
#define TABLE_EACH(Name, formula)
#define TABLE_REMAINDER(Name, formula)
#define TABLE_MODULAR(Name, formula)
#define TABLE_ORDERED(Name, formula)
#define TABLE_WIDE(Name, with_sign, without) TABLE_ENTRY(i64, Name) TABLE_ENTRY(u64, Name)
#define TABLE_UNSIGNED(Name, formula)
#define TABLE_TRUTH(Name, formula) TABLE_ENTRY(bool, Name)
#define TABLE_NONE(Name, nothing)
#define TABLE(Name, kernel, grain, result, f32, f64, integers, booleans)                                               \
    XCVM_BY_KIND(TABLE_, Name, XCVM_TAKEN_##f64)                                                                       \
    XCVM_BY_KIND(TABLE_, Name, XCVM_TAKEN_##integers) XCVM_BY_KIND(TABLE_, Name, XCVM_TAKEN_##booleans)

xcvm_binary_loop xcvm_binary_loop_of(xcvm_binary op, xcvm_dtype dtype)
{
    enum { TYPE_f64, TYPE_i64, TYPE_u64, TYPE_bool, TYPES };
    static const xcvm_binary_loop loops[TYPES][XCVM_BINARY_COUNT] = {XCVM_BINARY_FORMULAS(TABLE)};
    switch (dtype) {
    case XCVM_F64:
        return loops[TYPE_f64][op];
    case XCVM_I64:
        return loops[TYPE_i64][op];
    case XCVM_U64:
        return loops[TYPE_u64][op];
    case XCVM_BOOL:
        return loops[TYPE_bool][op];
    default:
        return NULL;
    }
}

xcvm_status xcvm_divisor_check(xcvm_kernel *k, const xcvm_value *divisor)
{
    int64_t block[XCVM_BLOCK];
    size_t count = xcvm_element_count(divisor);
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t at = 0; at < count; at += XCVM_BLOCK) {
        XCVM_TRY(xcvm_poll_after(&poller, XCVM_BLOCK));
        size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_i64(divisor->dtype, divisor->data, at, n, block);
        for (size_t i = 0; i < n; i++)
            XCVM_CHECK(k->error, block[i] != 0, OUT_OF_RANGE, "division by zero at element %zu of b", at + i);
    }
    return XCVM_OK;
}

typedef struct string_pair {
    const xcvm_kernel *k;
    const xcvm_value *a, *b;
    uint8_t *y;
    xcvm_broadcast plan;
} string_pair;

static void equal_row(void *context, size_t at, const size_t *offsets, size_t count)
{
    const string_pair *p = context;
    int last = p->plan.rank - 1;
    xcvm_poller poller = xcvm_poller_of(p->k);
    for (size_t i = 0; i < count; i++) {
        size_t a_length, b_length;
        const char *a = xcvm_string_at(p->a, offsets[0] + i * p->plan.strides[0][last], &a_length);
        const char *b = xcvm_string_at(p->b, offsets[1] + i * p->plan.strides[1][last], &b_length);
        if (xcvm_poll_after(&poller, 1 + (a_length == b_length ? a_length / XCVM_STEP_BYTES : 0)) != XCVM_OK)
            return;
        p->y[at + i] = a_length == b_length && memcmp(a, b, a_length) == 0;
    }
}

static void equal_range(void *context, size_t begin, size_t end, int worker)
{
    string_pair *p = context;
    (void)worker;
    xcvm_broadcast_rows(&p->plan, begin, end, equal_row, p);
}

xcvm_status xcvm_equal_strings(const xcvm_kernel *k, xcvm_value *y, const xcvm_value *a, const xcvm_value *b)
{
    enum { GRAIN = 4096 };
    string_pair pair = {k, a, b, y->data, {.rank = 0}};
    xcvm_broadcast_plan(&pair.plan, y, (const xcvm_value *const[]){a, b}, 2);
    return xcvm_kernel_parallel(k, pair.plan.count, GRAIN, equal_range, &pair);
}
