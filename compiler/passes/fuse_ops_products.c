/* Matrix products: MatMul with a matrix becomes Gemm, which includes bias and transpositions. */
#include "compiler/passes/fuse_ops.h"

/* Returns the matrix whose transpose is v. */
static xcc_value *transposed_matrix(const xcc_value *v)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Transpose);
    if (n == NULL)
        return NULL;
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    return a->x->rank == 2 && a->perm.count == 2 && a->perm.at[0] == 1 ? xcc_value_of(a->x) : NULL;
}

/* Only if the matrix is a constant, which can be packed, or transposed; otherwise MatMul is equally good. */
static bool matmul(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_MatMul_args *a = XCC_ARGS(MatMul, n);
    xcc_value *b = xcc_value_of(a->b), *transposed = transposed_matrix(b);
    if (a->a->rank < 2 || a->b->rank != 2 || !xcc_is_float(b) || (!xcc_is_constant(b) && transposed == NULL))
        return false;
    xcc_builder builder = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply(&builder, Gemm, y, .a = a->a, .b = XCC_IN(transposed != NULL ? transposed : b),
                                         .alpha = 1, .beta = 1, .transB = transposed != NULL));
}

static bool gemm_of_transpose(xcc_rewrite *r, xcc_node *n)
{
    xcvm_Gemm_args a = *XCC_ARGS(Gemm, n);
    xcc_value *left = a.a->rank == 2 ? transposed_matrix(xcc_value_of(a.a)) : NULL;
    xcc_value *right = transposed_matrix(xcc_value_of(a.b));
    if (left == NULL && right == NULL)
        return false;
    if (left != NULL) {
        a.a = &left->type;
        a.transA = !a.transA;
    }
    if (right != NULL) {
        a.b = &right->type;
        a.transB = !a.transB;
    }
    xcc_builder builder = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&builder, XCVM_OP_Gemm, &a, offsetof(xcvm_Gemm_args, y)));
}

/* The transpose of a product is the product of the transposed factors in reverse order. So are gradients of weights
 * that a model transposes before multiplying. */
static bool transpose_of_gemm(xcc_rewrite *r, xcc_node *n)
{
    const xcc_value *product = transposed_matrix(xcc_node_output(n, 0));
    const xcc_node *gemm = product != NULL ? xcc_sole_producer(product, XCVM_OP_Gemm) : NULL;
    if (gemm == NULL)
        return false;
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, gemm);
    if (a->c != NULL || a->activation != XCVM_ACTIVATION_none || a->a->rank != 2)
        return false;
    xcvm_Gemm_args turned = *a;
    turned.a = a->b;
    turned.b = a->a;
    turned.transA = !a->transB;
    turned.transB = !a->transA;
    xcc_builder builder = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&builder, XCVM_OP_Gemm, &turned, offsetof(xcvm_Gemm_args, y)));
}

/* For a bias that is not a constant; fuse_ops_affine handles constants. */
static bool add_to_gemm(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *x = xcc_node_input(n, i), *bias = xcc_node_input(n, 1 - i);
        const xcc_node *gemm = xcc_sole_producer(x, XCVM_OP_Gemm);
        if (gemm == NULL)
            continue;
        xcvm_Gemm_args a = *XCC_ARGS(Gemm, gemm);
        if (a.c != NULL || a.activation != XCVM_ACTIVATION_none || bias->type.rank != 1 || !xcc_same_type(x, y) ||
            xcc_dim_of(bias, 0) < 0 || xcc_dim_of(bias, 0) != xcc_dim_of(x, -1))
            continue;
        a.c = &bias->type;
        a.beta = 1;
        xcc_builder builder = xcc_builder_before(n);
        return xcc_rewrite_replace(r, y, xcc_apply_at(&builder, XCVM_OP_Gemm, &a, offsetof(xcvm_Gemm_args, y)));
    }
    return false;
}

/* ---- Rank-one updates: subtraction of a scaled outer product from a matrix, as in training on one example ---- */

/* Returns the node if v is only an outer product of two vectors. */
static const xcc_node *outer_product(const xcc_value *v)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_Gemm);
    if (n == NULL || v->type.dtype != XCVM_F32 || v->type.rank != 2)
        return NULL;
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, n);
    const bool plain = a->c == NULL && a->activation == XCVM_ACTIVATION_none && a->alpha == 1.0;
    return plain && a->a->rank == 2 && xcc_dim_of(xcc_value_of(a->a), a->transA ? 0 : 1) == 1 ? n : NULL;
}

/* Scales one of the vectors instead. */
static bool scale_outer_product(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 0; i < 2; i++) {
        const xcc_value *x = xcc_node_input(n, i), *number = xcc_node_input(n, 1 - i);
        const xcc_node *gemm = outer_product(x);
        if (gemm == NULL || number->type.rank != 0 || !xcc_same_type(x, y))
            continue;
        xcvm_Gemm_args a = *XCC_ARGS(Gemm, gemm);
        xcc_builder builder = xcc_builder_before(n);
        const xcc_value *scaled = xcc_apply(&builder, Mul, y, .a = a.b, .b = XCC_IN(number));
        if (scaled == NULL)
            return xcc_rewrite_ok(r, r->m->error->status);
        a.b = &scaled->type;
        return xcc_rewrite_replace(r, y, xcc_apply_at(&builder, XCVM_OP_Gemm, &a, offsetof(xcvm_Gemm_args, y)));
    }
    return false;
}

static bool subtract_outer_product(xcc_rewrite *r, xcc_node *n)
{
    const xcc_value *from = xcc_node_input(n, 0), *x = xcc_node_input(n, 1);
    xcc_value *y = xcc_node_output(n, 0);
    const xcc_node *gemm = outer_product(x);
    if (gemm == NULL || !xcc_same_type(from, y) || !xcc_same_type(x, y))
        return false;
    xcvm_Gemm_args a = *XCC_ARGS(Gemm, gemm);
    a.c = &from->type;
    a.alpha = -1;
    a.beta = 1;
    xcc_builder builder = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply_at(&builder, XCVM_OP_Gemm, &a, offsetof(xcvm_Gemm_args, y)));
}

const xcc_rule xcc_rules_products[] = {
    {XCVM_OP_MatMul, matmul, "product with a constant or transposed matrix"},
    {XCVM_OP_Gemm, gemm_of_transpose, "product of transposed matrices"},
    {XCVM_OP_Transpose, transpose_of_gemm, "transposed result of a Gemm"},
    {XCVM_OP_Add, add_to_gemm, "vector added to a Gemm without bias"},
    {XCVM_OP_Mul, scale_outer_product, "outer product times a number"},
    {XCVM_OP_Sub, subtract_outer_product, "outer product subtracted from a matrix"},
};
const size_t xcc_rules_products_count = sizeof xcc_rules_products / sizeof *xcc_rules_products;
