/* Matrix products: MatMul with a matrix becomes Gemm, which takes in a bias and transpositions. */
#include "compiler/passes/fuse_ops.h"

/* The matrix that v is the transpose of. */
static xcc_value *transposed_matrix(const xcc_value *v)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Transpose);
    if (n == NULL)
        return NULL;
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    return a->x->rank == 2 && a->perm.count == 2 && a->perm.at[0] == 1 ? xcc_value_of(a->x) : NULL;
}

/* Only where the matrix is a constant, which can be packed, or comes transposed; MatMul does the rest as well. */
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

/* A bias that is no constant; constants are fuse_ops_affine's. */
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

const xcc_rule xcc_rules_products[] = {
    {XCVM_OP_MatMul, matmul, "by a constant or transposed matrix"},
    {XCVM_OP_Gemm, gemm_of_transpose, "of transposed matrices"},
    {XCVM_OP_Add, add_to_gemm, "of a vector to a Gemm without bias"},
};
const size_t xcc_rules_products_count = sizeof xcc_rules_products / sizeof *xcc_rules_products;
