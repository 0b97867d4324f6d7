/* CumSum and CumProd. */
#include "ops/util/convert.h"
#include "ops/util/index.h"
#include "ops/simd/math.h"

typedef struct cumulative_loop {
    const xcvm_kernel *k;
    const xcvm_CumSum_args *a;
    xcvm_around around;
    size_t columns; /* adjacent columns, at most COLUMNS */
    size_t blocks;  /* blocks of columns */
    bool product;
} cumulative_loop;

/* Rows of this length are long enough for hardware prefetching. */
enum { COLUMNS = 1024, FEWEST_COLUMNS = 64 };

/* Runs along the axis over `columns` adjacent lines. Elements are read before they are written, because y may be x. */
#define RUN(type, accumulator, load, store)                                                                            \
    do {                                                                                                               \
        const type *x = (const type *)t->a->x->data + first;                                                           \
        type *y = (type *)t->a->y->data + first;                                                                       \
        accumulator totals[COLUMNS], total = product ? 1 : 0;                                                          \
        for (size_t at = 0, end; at < around->dim && columns == 1; at = end) {                                         \
            end = xcvm_min(around->dim, at + XCVM_BLOCK);                                                              \
            if (xcvm_poll_after(&poller, end - at) != XCVM_OK)                                                         \
                return;                                                                                                \
            const ptrdiff_t step = reverse ? -(ptrdiff_t)around->inner : (ptrdiff_t)around->inner;                     \
            const size_t from = (reverse ? around->dim - 1 - at : at) * around->inner;                                 \
            const type *in = x + from;                                                                                 \
            type *out = y + from;                                                                                      \
            for (size_t i = at; i < end; i++) {                                                                        \
                const ptrdiff_t o = (ptrdiff_t)(i - at) * step;                                                        \
                accumulator before = total, value = (accumulator)load(in[o]);                                          \
                total = (accumulator)(product ? total * value : total + value);                                        \
                out[o] = (type)store(exclusive ? before : total);                                                      \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t j = 0; j < columns; j++)                                                                           \
            totals[j] = product ? 1 : 0;                                                                               \
        size_t i = 0;                                                                                                  \
        for (; i + 4 <= around->dim && columns != 1; i += 4) {                                                         \
            if (xcvm_poll_after(&poller, 4 * columns) != XCVM_OK)                                                      \
                return;                                                                                                \
            size_t row[4];                                                                                             \
            for (size_t r = 0; r < 4; r++)                                                                             \
                row[r] = (reverse ? around->dim - 1 - i - r : i + r) * around->inner;                                  \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t j = 0; j < columns; j++) {                                                                     \
                accumulator sum[5] = {totals[j]};                                                                      \
                _Pragma("GCC unroll 4") for (size_t r = 0; r < 4; r++)                                                 \
                {                                                                                                      \
                    accumulator value = (accumulator)load(x[row[r] + j]);                                              \
                    sum[r + 1] = (accumulator)(product ? sum[r] * value : sum[r] + value);                             \
                    y[row[r] + j] = (type)store(exclusive ? sum[r] : sum[r + 1]);                                      \
                }                                                                                                      \
                totals[j] = sum[4];                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < around->dim && columns != 1; i++) {                                                                 \
            if (xcvm_poll_after(&poller, columns) != XCVM_OK)                                                          \
                return;                                                                                                \
            size_t row = (reverse ? around->dim - 1 - i : i) * around->inner;                                          \
            XCVM_INDEPENDENT                                                                                           \
            for (size_t j = 0; j < columns; j++) {                                                                     \
                accumulator before = totals[j], value = (accumulator)load(x[row + j]);                                 \
                totals[j] = (accumulator)(product ? before * value : before + value);                                  \
                y[row + j] = (type)store(exclusive ? before : totals[j]);                                              \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)
#define SAME(v) (v)

/* Inlined for each constant `product`. Integers wrap, so signedness does not matter. Narrow ones are multiplied as u32,
 * because promoted int products may overflow. */
static inline __attribute__((always_inline)) void run_tile(const cumulative_loop *t, size_t first, size_t columns,
                                                           bool product)
{
    const xcvm_around *around = &t->around;
    const bool exclusive = t->a->exclusive != 0, reverse = t->a->reverse != 0;
    xcvm_poller poller = xcvm_poller_of(t->k);
    switch ((xcvm_dtype)t->a->x->dtype) {
    case XCVM_F32:
        RUN(float, double, SAME, SAME);
        break;
    case XCVM_F64:
        RUN(double, double, SAME, SAME);
        break;
    case XCVM_F16:
        RUN(uint16_t, float, xcvm_f16_to_f32, xcvm_f32_to_f16);
        break;
    case XCVM_BF16:
        RUN(uint16_t, float, xcvm_bf16_to_f32, xcvm_f32_to_bf16);
        break;
    case XCVM_I8:
    case XCVM_U8:
        RUN(uint8_t, uint32_t, SAME, SAME);
        break;
    case XCVM_I16:
    case XCVM_U16:
        RUN(uint16_t, uint32_t, SAME, SAME);
        break;
    case XCVM_I32:
    case XCVM_U32:
        RUN(uint32_t, uint32_t, SAME, SAME);
        break;
    default:
        RUN(uint64_t, uint64_t, SAME, SAME);
        break;
    }
}

static void run_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const cumulative_loop *t = context;
    for (size_t i = begin; i < end; i++) {
        size_t outer = i / t->blocks, column = i % t->blocks * t->columns;
        size_t columns = t->around.inner - column < t->columns ? t->around.inner - column : t->columns;
        const size_t first = outer * t->around.dim * t->around.inner + column;
        if (t->product)
            run_tile(t, first, columns, true);
        else
            run_tile(t, first, columns, false);
    }
}

static xcvm_status accumulate(xcvm_kernel *k, const xcvm_CumSum_args *a, bool product)
{
    int64_t axis;
    XCVM_TRY(xcvm_read_int(k->error, a->axis, "axis", &axis));
    cumulative_loop t = {.k = k, .a = a, .around = {1, 1, 1}, .product = product};
    if (a->x->rank != 0) {
        int resolved;
        XCVM_TRY(xcvm_resolve_axis(k->error, axis, a->x->rank, &resolved));
        t.around = xcvm_around_axis(a->x, resolved);
    }
    const size_t threads = (size_t)xcvm_threads_count(k->threads);
    const size_t share = xcvm_round_up((t.around.inner + threads - 1) / threads, FEWEST_COLUMNS);
    t.columns = share == 0 ? 1 : share < COLUMNS ? share : COLUMNS;
    t.blocks = (t.around.inner + t.columns - 1) / t.columns;
    size_t columns = t.around.inner < t.columns ? t.around.inner : t.columns;
    if (t.around.dim == 0)
        return XCVM_OK;
    return xcvm_kernel_parallel(k, t.around.outer * t.blocks, 32768 / (t.around.dim * columns + 1) + 1, run_range, &t);
}

XCVM_KERNEL(CumSum) { return accumulate(k, a, false); }

XCVM_KERNEL(CumProd)
{
    const xcvm_CumSum_args same = {
        .y = a->y, .x = a->x, .axis = a->axis, .exclusive = a->exclusive, .reverse = a->reverse};
    return accumulate(k, &same, true);
}
