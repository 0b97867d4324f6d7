/* Gradients of matrix products: the product of the result's gradient and the other operand transposed. */
#include "compiler/gradients/rule.h"

#define G xcc_g(d)
#define A xcc_in(d, 0)
#define B xcc_in(d, 1)

static xcc_value *gemm(xcc_vjp *d, xcc_value *a, bool transpose_a, xcc_value *b, bool transpose_b, double alpha)
{
    if (a == NULL || b == NULL)
        return NULL;
    return xcc_apply(d->b, Gemm, y, .a = XCC_IN(a), .b = XCC_IN(b), .alpha = alpha, .beta = 1, .transA = transpose_a,
                     .transB = transpose_b);
}

/* The last axis as columns, all others as rows. */
static xcc_value *as_matrix(xcc_vjp *d, xcc_value *x)
{
    if (x == NULL || x->type.rank == 2)
        return x;
    return xcc_apply(d->b, Flatten, y, .x = XCC_IN(x), .axis = x->type.rank - 1);
}

static xcc_value *swap_last(xcc_vjp *d, xcc_value *x)
{
    int64_t perm[XCVM_MAX_RANK];
    if (x == NULL)
        return NULL;
    const int rank = x->type.rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return xcc_build_transpose(d->b, x, (size_t)rank, perm);
}

/* A vector is a row before a matrix and a column after one, and so is its gradient. */
XCC_GRADIENT(MatMul)
{
    if (!xcc_vjp_need_rank(d, 0) || !xcc_vjp_need_rank(d, 1))
        return;
    xcc_value *a = A, *b = B, *g = G;
    const int64_t column[] = {-1}, row[] = {-2};
    if (b->type.rank == 1) {
        b = xcc_build_unsqueeze(d->b, b, 1, column);
        g = xcc_build_unsqueeze(d->b, g, 1, column);
    }
    if (a->type.rank == 1) {
        a = xcc_build_unsqueeze(d->b, a, 1, (const int64_t[]){0});
        g = xcc_build_unsqueeze(d->b, g, 1, row);
    }
    if (a == NULL || b == NULL || g == NULL) {
        d->failed = true;
        return;
    }
    /* A single matrix after many rows is one product, which sums over the rows. */
    const bool matrix = b->type.rank == 2;
    if (xcc_wanted(d, 0)) {
        xcc_value *left = matrix ? gemm(d, g, false, b, true, 1) : xcc_op2(d, XCVM_OP_MatMul, g, swap_last(d, b));
        xcc_set_gradient(d, 0, xcc_reshape_like(d->b, xcc_sum_to(d->b, left, a), A));
    }
    if (xcc_wanted(d, 1)) {
        xcc_value *right = matrix ? gemm(d, as_matrix(d, a), true, as_matrix(d, g), false, 1)
                                  : xcc_op2(d, XCVM_OP_MatMul, swap_last(d, a), g);
        xcc_set_gradient(d, 1, xcc_reshape_like(d->b, xcc_sum_to(d->b, right, b), B));
    }
}

XCC_GRADIENT(Gemm)
{
    const xcvm_Gemm_args *s = XCC_ARGS(Gemm, d->node);
    if (s->activation != XCVM_ACTIVATION_none) {
        xcc_refuse(d, "has an activation, which only a pass after differentiation adds");
        return;
    }
    if (!xcc_vjp_need_rank(d, 0))
        return;
    if (xcc_wanted(d, 0))
        xcc_set_gradient(
            d, 0, s->transA ? gemm(d, B, s->transB, G, true, s->alpha) : gemm(d, G, false, B, !s->transB, s->alpha));
    if (xcc_wanted(d, 1)) {
        xcc_value *a = as_matrix(d, A), *g = as_matrix(d, G);
        xcc_set_gradient(
            d, 1, s->transB ? gemm(d, g, true, a, s->transA, s->alpha) : gemm(d, a, !s->transA, g, false, s->alpha));
    }
    if (xcc_wanted(d, 2))
        xcc_set_gradient(d, 2, xcc_scale(d, xcc_sum_to(d->b, G, xcc_in(d, 2)), s->beta));
}

/* Signs of a chessboard pattern, n x n. */
static xcc_value *chessboard(xcc_vjp *d, xcc_value *like, int64_t n)
{
    double *signs = xcc_alloc(d->b->graph->module, (size_t)(n * n) * sizeof *signs);
    for (int64_t i = 0; signs != NULL && i < n * n; i++)
        signs[i] = (i / n + i % n) % 2 == 0 ? 1 : -1;
    xcc_value *board =
        signs == NULL ? NULL
                      : xcc_literal(xcc_constant(d->b->graph, NULL, XCVM_F64, 2, (const int64_t[]){n, n}, signs, true));
    return xcc_build_cast(d->b, board, (xcvm_dtype)like->type.dtype);
}

/* For each i, all of 0 ... n - 1 except i. */
static xcc_value *all_but_one(xcc_vjp *d, int64_t n)
{
    int64_t *all = xcc_alloc(d->b->graph->module, (size_t)(n * (n - 1)) * sizeof *all);
    for (int64_t i = 0; all != NULL && i < n * (n - 1); i++)
        all[i] = i % (n - 1) + (i % (n - 1) >= i / (n - 1));
    return all == NULL ? NULL : xcc_constant(d->b->graph, NULL, XCVM_I64, 2, (const int64_t[]){n, n - 1}, all, true);
}

/* The cofactors: determinants of the matrix without a row and a column. */
XCC_GRADIENT(Det)
{
    enum { MOST = 64 };
    if (!xcc_vjp_need_rank(d, 0))
        return;
    const int rank = A->type.rank;
    const int64_t n = A->type.dims[rank - 1], most_rank = XCVM_MAX_RANK - 2;
    if (n < 0 || n > MOST || rank > most_rank) {
        xcc_refuse(d, "has a gradient that needs matrices of a known size up to %d and at most %d axes", MOST,
                   (int)most_rank);
        return;
    }
    if (n == 0) {
        xcc_set_gradient(d, 0, xcc_zeros_like(d->b, A));
        return;
    }
    xcc_value *g = xcc_build_unsqueeze(d->b, G, 2, (const int64_t[]){-2, -1});
    if (n == 1) {
        xcc_set_gradient(d, 0, xcc_reshape_like(d->b, g, A));
        return;
    }
    xcc_value *but = all_but_one(d, n);
    /* [..., n, n - 1, n, n - 1]; the axes that count minors then move before the minors. */
    xcc_value *minors = xcc_build_gather(d->b, xcc_build_gather(d->b, A, but, rank - 2), but, rank);
    int64_t perm[XCVM_MAX_RANK];
    for (int i = 0; i < rank + 2; i++)
        perm[i] = i;
    perm[rank - 1] = rank;
    perm[rank] = rank - 1;
    minors = xcc_build_transpose(d->b, minors, (size_t)rank + 2, perm);
    xcc_value *cofactors = xcc_mul(d, xcc_op1(d, XCVM_OP_Det, minors), chessboard(d, A, n));
    xcc_set_gradient(d, 0, xcc_mul(d, g, cofactors));
}
