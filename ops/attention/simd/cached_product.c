/* CachedMatMul: multiplies by rows in two places, past ones in a cache and new ones in their operand, so that a
 * generation step copies none of them. */
#include "ops/util/kernel.h"
#include "ops/matmul/simd/gemm.h"

/* The product by the rows in one of the places, `stride` rows per head. It uses the columns from `first` of a, or, if
 * transposed, of y. */
typedef struct cache_rows {
    const xcvm_CachedMatMul_args *args;
    const float *rows;
    size_t stride, first, group;
    bool swapped, adds;
} cache_rows;

static void set_item(const void *context, size_t index, xcvm_gemm *g)
{
    const cache_rows *p = context;
    const xcvm_value *a = p->args->a, *y = p->args->y;
    const size_t length = (size_t)a->dims[2], width = (size_t)p->args->fresh->dims[3];
    const size_t heads = (size_t)a->dims[1], batch = index / heads, head = index % heads;
    const size_t of_a = a->dims[0] == 1 ? head : index;
    const size_t of_rows =
        (p->args->fresh->dims[0] == 1 ? 0 : batch) * (size_t)p->args->fresh->dims[1] + head / p->group;
    const float *at_a = XCVM_CDATA(float, a) + of_a * length * (size_t)a->dims[3];
    const float *at_b = p->rows + of_rows * p->stride * width;
    float *at_y = XCVM_DATA(float, y) + index * length * (size_t)y->dims[3];
    if (p->args->transB)
        at_y += p->first;
    else
        at_a += p->first;
    g->a = p->swapped ? at_b : at_a;
    g->b = p->swapped ? at_a : at_b;
    g->c = at_y;
    g->start = p->adds ? at_y : NULL;
}

static xcvm_status multiply(xcvm_kernel *k, const cache_rows *p, size_t count)
{
    const xcvm_value *a = p->args->a, *y = p->args->y;
    const size_t width = (size_t)p->args->fresh->dims[3];
    const bool transposed = p->args->transB;
    xcvm_gemm g = {.m = (size_t)a->dims[2],
                   .n = transposed ? count : width,
                   .k = transposed ? width : count,
                   .a_row = (size_t)a->dims[3],
                   .a_column = 1,
                   .b_row = transposed ? 1 : width,
                   .b_column = transposed ? width : 1,
                   .c_row = (size_t)y->dims[3],
                   .c_column = 1,
                   .alpha = 1.0f,
                   .start = p->adds ? y->data : NULL};
    if (p->swapped)
        xcvm_gemm_swap(&g);
    const xcvm_gemm_batch batch = {
        .shape = g, .count = (size_t)(y->dims[0] * y->dims[1]), .at = set_item, .context = p};
    void *scratch = xcvm_kernel_scratch(k, xcvm_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
    return scratch != NULL ? xcvm_gemm_run(k, &batch, scratch) : XCVM_OUT_OF_MEMORY;
}

XCVM_KERNEL(CachedMatMul)
{
    const size_t fresh = (size_t)a->fresh->dims[2];
    const size_t before = (size_t)(a->transB ? a->y : a->a)->dims[3] - fresh;
    if (xcvm_element_count(a->y) == 0)
        return XCVM_OK;
    if (xcvm_element_count(a->a) == 0)
        return xcvm_kernel_fill(k, a->y->data, 0, a->y->bytes);
    cache_rows p = {.args = a,
                    .rows = a->past->data,
                    .stride = (size_t)a->past->dims[2],
                    .group = (size_t)(a->a->dims[1] / a->fresh->dims[1]),
                    .swapped = a->transB && xcvm_gemm_swaps((size_t)a->a->dims[2])};
    if (before > 0)
        XCVM_TRY(multiply(k, &p, before));
    if (fresh == 0)
        return XCVM_OK;
    p.rows = a->fresh->data;
    p.stride = fresh;
    p.first = before;
    p.adds = !a->transB && before > 0;
    return multiply(k, &p, fresh);
}
