/* CumSum. */
#include "ops/convert.h"
#include "ops/index.h"

typedef struct task {
    const xcvm_CumSum_args *a;
    xcvm_around around;
    size_t blocks; /* of columns */
} task;

enum { COLUMNS = 256 };

/* A walk along the axis over `columns` adjacent lines; elements are read before they are written, as y may be x. */
#define RUN(type, accumulator, load, store)                                                                            \
    do {                                                                                                               \
        const type *x = (const type *)t->a->x->data + first;                                                           \
        type *y = (type *)t->a->y->data + first;                                                                       \
        accumulator sums[COLUMNS] = {0}, sum = 0;                                                                      \
        for (size_t i = 0; i < around->dim && columns == 1; i++) {                                                     \
            size_t at = (reverse ? around->dim - 1 - i : i) * around->inner;                                           \
            accumulator before = sum;                                                                                  \
            sum = (accumulator)(sum + (accumulator)load(x[at]));                                                       \
            y[at] = store(exclusive ? before : sum);                                                                   \
        }                                                                                                              \
        for (size_t i = 0; i < around->dim && columns != 1; i++) {                                                     \
            size_t row = (reverse ? around->dim - 1 - i : i) * around->inner;                                          \
            for (size_t j = 0; j < columns; j++) {                                                                     \
                accumulator before = sums[j];                                                                          \
                sums[j] = (accumulator)(before + (accumulator)load(x[row + j]));                                       \
                y[row + j] = store(exclusive ? before : sums[j]);                                                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)
#define SAME(v) (v)

static void run_tile(const task *t, size_t first, size_t columns)
{
    const xcvm_around *around = &t->around;
    const bool exclusive = t->a->exclusive != 0, reverse = t->a->reverse != 0;
    switch ((xcvm_dtype)t->a->x->dtype) {
    case XCVM_F32:
        RUN(float, double, SAME, (float));
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
        RUN(uint8_t, uint8_t, SAME, SAME);
        break;
    case XCVM_I16:
    case XCVM_U16:
        RUN(uint16_t, uint16_t, SAME, SAME);
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
    const task *t = context;
    for (size_t i = begin; i < end; i++) {
        size_t outer = i / t->blocks, column = i % t->blocks * COLUMNS;
        size_t columns = t->around.inner - column < COLUMNS ? t->around.inner - column : COLUMNS;
        run_tile(t, outer * t->around.dim * t->around.inner + column, columns);
    }
}

XCVM_KERNEL(CumSum)
{
    int64_t axis;
    XCVM_TRY(xcvm_read_int(k->error, a->axis, "axis", &axis));
    task t = {.a = a, .around = {1, 1, 1}};
    if (a->x->rank != 0) {
        int resolved;
        XCVM_TRY(xcvm_resolve_axis(k->error, axis, a->x->rank, &resolved));
        t.around = xcvm_around_axis(a->x, resolved);
    }
    t.blocks = (t.around.inner + COLUMNS - 1) / COLUMNS;
    size_t columns = t.around.inner < COLUMNS ? t.around.inner : COLUMNS;
    if (t.around.dim != 0)
        xcvm_parallel(k->threads, t.around.outer * t.blocks, 32768 / (t.around.dim * columns + 1) + 1, run_range, &t);
    return XCVM_OK;
}
