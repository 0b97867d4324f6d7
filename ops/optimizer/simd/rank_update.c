/* RankUpdate: steps of SGD down gradients that are products of few terms, as those of a layer's weights for one example
 * are outer products. A gradient is made where it is used, element by element, so the weights are read and written
 * once, and nothing else of their size is. */
#include "ops/optimizer/simd/step_numbers.h"
#include "ops/kernel.h"
#include "ops/shape.h"
#include "ops/simd/lanes.h"
#include "ops/simd/math.h"
#include "ops/simd/reductions.h"

enum {
    GRAIN = 16384,      /* elements that a thread takes at a time, at least */
    MOST_COLUMNS = 1024 /* of a row that is laid out twice */
};

#define xcvm_rank_value OF_TYPE(rank)
#define value_t float
#define OF_TYPE(name) name##_f32
#include "ops/optimizer/simd/rank_rows.h"
#undef value_t
#undef OF_TYPE
#define value_t double
#define OF_TYPE(name) name##_f64
#include "ops/optimizer/simd/rank_rows.h"

typedef struct matrix {
    const xcvm_value *parameter, *a, *b;
    size_t rows, columns, depth;
} matrix;

static matrix matrix_at(const xcvm_RankUpdate_args *a, size_t i)
{
    const xcvm_value *p = a->parameters.at[i];
    return (matrix){p, a->a.at[i], a->b.at[i], (size_t)p->dims[0], (size_t)p->dims[1], (size_t)a->a.at[i]->dims[0]};
}

/* ---- Outer products, of f32 ---- */

XCVM_INLINE void take_step(float *p, xcvm_lanes factor, const float *b, float rate)
{
    const xcvm_lanes gradient = (xcvm_lanes){0} + factor * xcvm_lanes_load(b);
    xcvm_lanes_store(p, xcvm_lanes_load(p) - rate * gradient);
}

/* Rows [begin, end): vectors go from the first element to the last, whatever row these are of, because a row is seldom
 * a whole number of them, and the rest of each would take as long as the row. `twice` is the row b, going on with its
 * first elements; rows have at least a vector. */
static void update_rows(float *p, size_t columns, const float *a, const float *twice, size_t begin, size_t end,
                        float rate)
{
    const xcvm_lanes_mask numbers = {XCVM_LANES_NUMBERS};
    size_t at = begin * columns;
    for (size_t row = begin; row < end; row++) {
        const size_t first = row * columns, last = first + columns;
        const xcvm_lanes factor = xcvm_lanes_all(a[row]);
        for (; at + XCVM_LANES <= last; at += XCVM_LANES)
            take_step(p + at, factor, twice + (at - first), rate);
        if (at < last && row + 1 < end) {
            const xcvm_lanes_mask of_this = numbers < (int32_t)(last - at);
            take_step(p + at, xcvm_lanes_choose(of_this, factor, xcvm_lanes_all(a[row + 1])), twice + (at - first),
                      rate);
            at += XCVM_LANES;
        }
        for (; row + 1 == end && at < last; at++)
            p[at] -= rate * (0.0f + a[row] * twice[at - first]);
    }
}

static void update_outer(const matrix *m, size_t begin, size_t end, float rate)
{
    float twice[MOST_COLUMNS + XCVM_LANES];
    const float *b = m->b->data;
    memcpy(twice, b, m->columns * sizeof *b);
    memcpy(twice + m->columns, b, XCVM_LANES * sizeof *b);
    update_rows(m->parameter->data, m->columns, m->a->data, twice, begin, end, rate);
}

/* ---- The loop ---- */

static void update_matrix(const matrix *m, size_t begin, size_t end, double rate)
{
    if (m->parameter->dtype == XCVM_F64)
        rank_f64((double *)m->parameter->data + begin * m->columns, end - begin, m->columns,
                 (const double *)m->a->data + begin, m->rows, m->b->data, m->depth, rate);
    else if (m->depth == 1 && m->columns >= XCVM_LANES && m->columns <= MOST_COLUMNS)
        update_outer(m, begin, end, (float)rate);
    else
        rank_f32((float *)m->parameter->data + begin * m->columns, end - begin, m->columns,
                 (const float *)m->a->data + begin, m->rows, m->b->data, m->depth, (float)rate);
}

/* Rows that are taken together: a multiple of every vector, so that vectors begin where lines of the cache do. */
static size_t rows_of_part(const matrix *m) { return xcvm_round_up(GRAIN / m->columns + 1, 16); }

/* None if rows are empty: there may be more of those than anybody could count. */
static size_t parts_of(const matrix *m) { return m->columns > 0 ? xcvm_ceil_div(m->rows, rows_of_part(m)) : 0; }

static void update_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const xcvm_RankUpdate_args *a = context;
    const double rate = xcvm_element_as_double(a->rate, 0);
    for (size_t i = 0, before = 0; begin < end; i++) {
        const matrix m = matrix_at(a, i);
        const size_t parts = parts_of(&m), last = xcvm_min(end - before, parts);
        if (begin < before + parts) {
            const size_t rows = rows_of_part(&m);
            update_matrix(&m, (begin - before) * rows, xcvm_min(last * rows, m.rows), rate);
            begin = before + last;
        }
        before += parts;
    }
}

XCVM_KERNEL(RankUpdate)
{
    size_t parts = 0;
    for (size_t i = 0; i < a->parameters.count; i++) {
        const matrix m = matrix_at(a, i);
        parts += parts_of(&m);
    }
    if (parts > 0)
        xcvm_parallel(k->threads, parts, 1, update_range, (void *)(uintptr_t)a);
    return XCVM_OK;
}
