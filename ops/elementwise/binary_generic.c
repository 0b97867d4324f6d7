#include "ops/elementwise/binary_generic.h"

#include "ops/broadcast.h"
#include "ops/convert.h"

#include <math.h>

#define LOOP(name, type, result, expression)                                                                           \
    static void name(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t count)                \
    {                                                                                                                  \
        const type *from_a = a, *from_b = b;                                                                           \
        result *to = y;                                                                                                \
        for (size_t i = 0; i < count; i++) {                                                                           \
            const type u = from_a[i * a_step], v = from_b[i * b_step];                                                 \
            to[i] = (result)(expression);                                                                              \
        }                                                                                                              \
    }

/* ---- f64 ---- */

/* The remainder with the sign of the divisor, as Python has it. */
static double mod_f64(double u, double v)
{
    double r = fmod(u, v);
    return r == 0.0 ? copysign(0.0, v) : (r < 0.0) != (v < 0.0) ? r + v : r;
}

LOOP(f64_Add, double, double, u + v)
LOOP(f64_Sub, double, double, u - v)
LOOP(f64_Mul, double, double, u *v)
LOOP(f64_Div, double, double, u / v)
LOOP(f64_Max, double, double, u > v || isnan(u) ? u : v)
LOOP(f64_Min, double, double, u < v || isnan(u) ? u : v)
LOOP(f64_Equal, double, uint8_t, u == v)
LOOP(f64_Greater, double, uint8_t, u > v)
LOOP(f64_GreaterOrEqual, double, uint8_t, u >= v)
LOOP(f64_Pow, double, double, pow(u, v))
LOOP(f64_Mod, double, double, mod_f64(u, v))
LOOP(f64_Fmod, double, double, fmod(u, v))
LOOP(f64_PRelu, double, double, u < 0.0 ? u * v : u)

/* ---- Integers. Sums and products wrap, so they are taken without sign ---- */

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
/* A fraction, as negative powers give, is cut off to 0. */
static int64_t pow_i64(int64_t u, int64_t v)
{
    if (v < 0)
        return u == 1 ? 1 : u == -1 ? ((v & 1) != 0 ? -1 : 1) : 0;
    return (int64_t)pow_u64((uint64_t)u, (uint64_t)v);
}
static uint64_t left_u64(uint64_t u, uint64_t v) { return v < 64 ? u << v : 0; }
static uint64_t right_u64(uint64_t u, uint64_t v) { return v < 64 ? u >> v : 0; }

LOOP(u64_Add, uint64_t, uint64_t, u + v)
LOOP(u64_Sub, uint64_t, uint64_t, u - v)
LOOP(u64_Mul, uint64_t, uint64_t, u *v)
LOOP(u64_And, uint64_t, uint64_t, u &v)
LOOP(u64_Or, uint64_t, uint64_t, u | v)
LOOP(u64_Xor, uint64_t, uint64_t, u ^ v)
LOOP(u64_Equal, uint64_t, uint8_t, u == v)
LOOP(u64_Div, uint64_t, uint64_t, u / v)
LOOP(u64_Max, uint64_t, uint64_t, u > v ? u : v)
LOOP(u64_Min, uint64_t, uint64_t, u < v ? u : v)
LOOP(u64_Greater, uint64_t, uint8_t, u > v)
LOOP(u64_GreaterOrEqual, uint64_t, uint8_t, u >= v)
LOOP(u64_Pow, uint64_t, uint64_t, pow_u64(u, v))
LOOP(u64_Mod, uint64_t, uint64_t, u % v)
LOOP(u64_ShiftLeft, uint64_t, uint64_t, left_u64(u, v))
LOOP(u64_ShiftRight, uint64_t, uint64_t, right_u64(u, v))
LOOP(u64_PRelu, uint64_t, uint64_t, ((void)v, u))

LOOP(i64_Div, int64_t, int64_t, div_i64(u, v))
LOOP(i64_Max, int64_t, int64_t, u > v ? u : v)
LOOP(i64_Min, int64_t, int64_t, u < v ? u : v)
LOOP(i64_Greater, int64_t, uint8_t, u > v)
LOOP(i64_GreaterOrEqual, int64_t, uint8_t, u >= v)
LOOP(i64_Pow, int64_t, int64_t, pow_i64(u, v))
LOOP(i64_Mod, int64_t, int64_t, mod_i64(u, v))
LOOP(i64_Fmod, int64_t, int64_t, rem_i64(u, v))
LOOP(i64_PRelu, int64_t, int64_t, u < 0 ? (int64_t)((uint64_t)u * (uint64_t)v) : u)

LOOP(u32_Add, uint32_t, uint32_t, u + v)
LOOP(u32_Sub, uint32_t, uint32_t, u - v)
LOOP(u32_Mul, uint32_t, uint32_t, u *v)
LOOP(u32_Equal, uint32_t, uint8_t, u == v)
LOOP(i32_Max, int32_t, int32_t, u > v ? u : v)
LOOP(i32_Min, int32_t, int32_t, u < v ? u : v)
LOOP(i32_Greater, int32_t, uint8_t, u > v)
LOOP(i32_GreaterOrEqual, int32_t, uint8_t, u >= v)

/* ---- bool, of which any byte but 0 is true ---- */

LOOP(bool_And, uint8_t, uint8_t, (u != 0) & (v != 0))
LOOP(bool_Or, uint8_t, uint8_t, (u | v) != 0)
LOOP(bool_Xor, uint8_t, uint8_t, (u != 0) != (v != 0))
LOOP(bool_Equal, uint8_t, uint8_t, (u != 0) == (v != 0))

#define ENTRY(prefix, Name) [XCVM_BINARY_##Name] = prefix##_##Name
/* What does not depend on the sign. */
#define MODULAR                                                                                                        \
    ENTRY(u64, Add), ENTRY(u64, Sub), ENTRY(u64, Mul), ENTRY(u64, And), ENTRY(u64, Or), ENTRY(u64, Xor),               \
        ENTRY(u64, Equal)

xcvm_binary_loop xcvm_binary_loop_of(xcvm_binary op, xcvm_dtype dtype)
{
    static const xcvm_binary_loop f64[XCVM_BINARY_COUNT] = {
        ENTRY(f64, Add),
        ENTRY(f64, Sub),
        ENTRY(f64, Mul),
        ENTRY(f64, Div),
        ENTRY(f64, Max),
        ENTRY(f64, Min),
        ENTRY(f64, Equal),
        ENTRY(f64, Pow),
        ENTRY(f64, Mod),
        ENTRY(f64, Greater),
        ENTRY(f64, GreaterOrEqual),
        ENTRY(f64, Fmod),
        ENTRY(f64, PRelu),
    };
    static const xcvm_binary_loop i64[XCVM_BINARY_COUNT] = {
        MODULAR,           ENTRY(i64, Div),     ENTRY(i64, Max),
        ENTRY(i64, Min),   ENTRY(i64, Greater), ENTRY(i64, GreaterOrEqual),
        ENTRY(i64, Pow),   ENTRY(i64, Mod),     ENTRY(i64, Fmod),
        ENTRY(i64, PRelu),
    };
    static const xcvm_binary_loop u64[XCVM_BINARY_COUNT] = {
        MODULAR,
        ENTRY(u64, Div),
        ENTRY(u64, Max),
        ENTRY(u64, Min),
        ENTRY(u64, Greater),
        ENTRY(u64, GreaterOrEqual),
        ENTRY(u64, Pow),
        ENTRY(u64, Mod),
        [XCVM_BINARY_Fmod] = u64_Mod,
        ENTRY(u64, ShiftLeft),
        ENTRY(u64, ShiftRight),
        ENTRY(u64, PRelu),
    };
    static const xcvm_binary_loop i32[XCVM_BINARY_COUNT] = {
        ENTRY(u32, Add), ENTRY(u32, Sub), ENTRY(u32, Mul),     ENTRY(u32, Equal),
        ENTRY(i32, Max), ENTRY(i32, Min), ENTRY(i32, Greater), ENTRY(i32, GreaterOrEqual),
    };
    static const xcvm_binary_loop boolean[XCVM_BINARY_COUNT] = {
        ENTRY(bool, And),
        ENTRY(bool, Or),
        ENTRY(bool, Xor),
        ENTRY(bool, Equal),
    };
    switch (dtype) {
    case XCVM_F64:
        return f64[op];
    case XCVM_I64:
        return i64[op];
    case XCVM_U64:
        return u64[op];
    case XCVM_I32:
        return i32[op];
    case XCVM_BOOL:
        return boolean[op];
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
