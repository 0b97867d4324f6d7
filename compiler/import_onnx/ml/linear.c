/* Lowering of the linear models of ai.onnx.ml. */
#include "compiler/import_onnx/ml/ml.h"

/* x * weights + intercepts for `targets` targets, whose coefficients follow one another. */
static xcvm_status scores(xcc_lowering *n, size_t targets, xcvm_floats coefficients, xcvm_floats intercepts,
                          xcc_value **y)
{
    xcc_value *x, *c = NULL;
    XCVM_TRY(xcc_ml_matrix(n, n->inputs[0], XCVM_F32, &x));
    XCVM_CHECK(n->m->error, targets > 0 && coefficients.count > 0 && coefficients.count % targets == 0, INVALID_MODEL,
               "%zu coefficients do not fit %zu targets", coefficients.count, targets);
    XCVM_CHECK(n->m->error, intercepts.count == 0 || intercepts.count == targets, INVALID_MODEL,
               "the model has %zu intercepts for %zu targets", intercepts.count, targets);
    xcc_value *w = xcc_ml_numbers(n, XCVM_F32, targets, coefficients.count / targets, coefficients.at);
    if (w == NULL ||
        (intercepts.count > 0 && (c = xcc_ml_numbers(n, XCVM_F32, 0, intercepts.count, intercepts.at)) == NULL))
        return xcc_failure(n);
    *y = xcc_apply(&n->b, Gemm, y, .a = XCC_IN(x), .b = XCC_IN(w), .c = XCC_IN(c), .alpha = 1, .beta = 1, .transB = 1);
    return *y != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_lower_ml_linear_regressor(xcc_lowering *n)
{
    xcvm_floats coefficients, intercepts;
    int64_t targets;
    xcc_ml_transform transform;
    xcc_value *y;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_floats(n, "coefficients", &coefficients));
    XCVM_TRY(xcc_attribute_floats(n, "intercepts", &intercepts));
    XCVM_TRY(xcc_attribute_int(n, "targets", 1, &targets));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    XCVM_CHECK(n->m->error, targets > 0, INVALID_MODEL, "attribute 'targets' is %lld", (long long)targets);
    XCVM_TRY(scores(n, (size_t)targets, coefficients, intercepts, &y));
    return xcc_bind(n, 0, xcc_ml_transformed(n, y, transform));
}

/* Number of scores of the model: the number of intercepts, or else the number of coefficients divided by the columns of
 * x. */
static size_t score_count(const xcc_lowering *n, xcvm_floats coefficients, xcvm_floats intercepts, size_t labels)
{
    const xcvm_value *x = &n->inputs[0]->type;
    const int64_t columns = x->rank == 1 || x->rank == 2 ? x->dims[x->rank - 1] : -1;
    if (intercepts.count > 0)
        return intercepts.count;
    return columns > 0 ? coefficients.count / (size_t)columns : labels;
}

xcvm_status xcc_lower_ml_linear_classifier(xcc_lowering *n)
{
    xcvm_floats coefficients, intercepts;
    xcc_ml_transform transform;
    xcc_value *labels, *y;
    size_t count;
    XCVM_TRY(xcc_need_inputs(n, 1, 1));
    XCVM_TRY(xcc_attribute_floats(n, "coefficients", &coefficients));
    XCVM_TRY(xcc_attribute_floats(n, "intercepts", &intercepts));
    XCVM_TRY(xcc_ml_read_transform(n, &transform));
    XCVM_TRY(xcc_ml_labels(n, "classlabels_ints", "classlabels_strings", &labels, &count));
    /* Says how the model was trained; its scores are the same. */
    xcc_attribute_ignore(n, "multi_class");
    const size_t targets = score_count(n, coefficients, intercepts, count);
    XCVM_TRY(scores(n, targets, coefficients, intercepts, &y));
    XCVM_CHECK(n->m->error, count == targets || (targets == 1 && count == 2), INVALID_MODEL,
               "the model has %zu labels for %zu scores", count, targets);
    if (targets > 1 || count == 1) {
        XCVM_TRY(xcc_ml_bind_labels(n, labels, xcc_ml_best(n, y)));
        return xcc_bind(n, 1, xcc_ml_transformed(n, y, transform));
    }
    xcc_value *positive = xcc_build_binary(&n->b, XCVM_OP_Greater, y, xcc_build_number(&n->b, y, 0));
    XCVM_TRY(xcc_ml_bind_labels(n, labels, xcc_ml_choice(n, positive)));
    return xcc_bind(n, 1, xcc_ml_two_scores(n, y, false, transform));
}
