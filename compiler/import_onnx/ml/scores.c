/* Scores, labels and transforms that the models of ai.onnx.ml share. */
#include "compiler/import_onnx/ml/ml.h"

xcc_value *xcc_ml_numbers(xcc_lowering *n, xcvm_dtype dtype, size_t rows, size_t columns, const double *numbers)
{
    const int64_t dims[] = {(int64_t)rows, (int64_t)columns};
    const size_t count = rows > 0 ? rows * columns : columns;
    void *data = xcc_alloc(n->m, (count + 1) * sizeof(double));
    if (data == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        switch (dtype) {
        case XCVM_F64:
            ((double *)data)[i] = numbers[i];
            break;
        case XCVM_I64:
            ((int64_t *)data)[i] = (int64_t)numbers[i];
            break;
        default:
            ((float *)data)[i] = (float)numbers[i];
            break;
        }
    return xcc_constant(n->b.graph, NULL, dtype == XCVM_F64 || dtype == XCVM_I64 ? dtype : XCVM_F32, rows > 0 ? 2 : 1,
                        rows > 0 ? dims : dims + 1, data, true);
}

xcvm_status xcc_ml_matrix(xcc_lowering *n, xcc_value *x, xcvm_dtype dtype, xcc_value **matrix)
{
    XCVM_CHECK(n->m->error, x->type.kind == XCVM_KIND_TENSOR, TYPE_MISMATCH, "operand 0 is no tensor");
    XCVM_CHECK(n->m->error, x->type.rank < 0 || x->type.rank == 1 || x->type.rank == 2, SHAPE_MISMATCH,
               "operand 0 has %d dimensions, one or two are needed", x->type.rank);
    XCVM_CHECK(n->m->error, xcvm_dtype_in((xcvm_dtype)x->type.dtype, XCVM_TYPES_REAL), TYPE_MISMATCH,
               "operand 0 has element type %s, a number is needed", xcvm_dtype_name((xcvm_dtype)x->type.dtype));
    x = xcc_build_cast(&n->b, x, dtype);
    if (x != NULL && x->type.rank == 1)
        x = xcc_build_unsqueeze(&n->b, x, 1, &(int64_t){0});
    *matrix = x;
    return x != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_ml_labels(xcc_lowering *n, const char *ints, const char *strings, xcc_value **labels, size_t *count)
{
    xcvm_ints numbers;
    xcvm_texts texts;
    XCVM_TRY(xcc_attribute_ints(n, ints, &numbers));
    XCVM_TRY(xcc_attribute_texts(n, strings, &texts));
    XCVM_CHECK(n->m->error, (numbers.count > 0) != (texts.count > 0), INVALID_MODEL,
               "one of the attributes '%s' and '%s' must be given, and not both", ints, strings);
    *count = numbers.count > 0 ? numbers.count : texts.count;
    *labels = numbers.count > 0 ? xcc_build_ints(&n->b, numbers.count, numbers.at)
                                : xcc_build_strings(&n->b, 1, texts.count, texts.at);
    return *labels != NULL ? XCVM_OK : xcc_failure(n);
}

xcvm_status xcc_ml_bind_labels(xcc_lowering *n, xcc_value *labels, xcc_value *indices)
{
    return xcc_bind(n, 0, xcc_build_gather(&n->b, labels, indices, 0));
}

xcc_value *xcc_ml_best(xcc_lowering *n, xcc_value *scores)
{
    return scores != NULL ? xcc_apply(&n->b, ArgMax, y, .x = XCC_IN(scores), .axis = 1) : NULL;
}

xcc_value *xcc_ml_choice(xcc_lowering *n, xcc_value *positive)
{
    return xcc_build_squeeze(&n->b, xcc_build_cast(&n->b, positive, XCVM_I64), 1, &(int64_t){1});
}

xcvm_status xcc_ml_read_transform(xcc_lowering *n, xcc_ml_transform *transform)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    xcvm_text text;
    XCVM_TRY(xcc_attribute_text(n, "post_transform", names[0], &text));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (xcc_text_is(text, names[i])) {
            *transform = (xcc_ml_transform)i;
            return XCVM_OK;
        }
    XCVM_FAIL(n->m->error, INVALID_MODEL,
              "attribute 'post_transform' is '%.40s'; NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT is expected",
              text.at);
}

static xcc_value *number(xcc_lowering *n, const xcc_value *like, double value)
{
    return xcc_build_number(&n->b, like, value);
}

/* The softmax of the scores that are not 0; those stay 0. */
static xcc_value *softmax_zero(xcc_lowering *n, xcc_value *x)
{
    xcc_value *axes = XCC_BUILD_INTS(&n->b, 1);
    xcc_value *greatest = xcc_build_reduce(&n->b, XCVM_OP_ReduceMax, x, axes, true);
    xcc_value *some =
        xcc_build_binary(&n->b, XCVM_OP_Greater, xcc_build_unary(&n->b, XCVM_OP_Abs, x), number(n, x, 1e-7));
    xcc_value *power = xcc_build_unary(&n->b, XCVM_OP_Exp, xcc_build_sub(&n->b, x, greatest));
    xcc_value *kept = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){some, power, number(n, x, 0)});
    return xcc_build_div(&n->b, kept, xcc_build_reduce(&n->b, XCVM_OP_ReduceSum, kept, axes, true));
}

/* sqrt 2 * inverse error function of 2 x - 1, by Winitzki's approximation with a = 0.147, which other runtimes use. */
static xcc_value *probit(xcc_lowering *n, xcc_value *x)
{
    const double a = 0.147, pi = 3.14159265358979323846;
    xcc_value *v = xcc_build_sub(&n->b, xcc_build_mul(&n->b, x, number(n, x, 2)), number(n, x, 1));
    xcc_value *log = xcc_build_unary(
        &n->b, XCVM_OP_Log,
        xcc_build_mul(&n->b, xcc_build_sub(&n->b, number(n, x, 1), v), xcc_build_add(&n->b, number(n, x, 1), v)));
    xcc_value *p = xcc_build_add(&n->b, xcc_build_mul(&n->b, log, number(n, x, 0.5)), number(n, x, 2 / (pi * a)));
    xcc_value *q = xcc_build_mul(&n->b, log, number(n, x, 1 / a));
    xcc_value *root = xcc_build_unary(&n->b, XCVM_OP_Sqrt, xcc_build_sub(&n->b, xcc_build_mul(&n->b, p, p), q));
    xcc_value *size = xcc_build_unary(&n->b, XCVM_OP_Sqrt, xcc_build_sub(&n->b, root, p));
    xcc_value *scaled = xcc_build_mul(&n->b, size, number(n, x, 1.41421356));
    return xcc_build_mul(&n->b, xcc_build_unary(&n->b, XCVM_OP_Sign, v), scaled);
}

xcc_value *xcc_ml_transformed(xcc_lowering *n, xcc_value *scores, xcc_ml_transform transform)
{
    if (scores == NULL)
        return NULL;
    switch (transform) {
    case XCC_ML_SOFTMAX:
        return xcc_apply(&n->b, Softmax, y, .x = XCC_IN(scores), .axis = -1);
    case XCC_ML_LOGISTIC:
        return xcc_build_unary(&n->b, XCVM_OP_Sigmoid, scores);
    case XCC_ML_SOFTMAX_ZERO:
        return softmax_zero(n, scores);
    case XCC_ML_PROBIT:
        return probit(n, scores);
    default:
        return scores;
    }
}

xcc_value *xcc_ml_two_scores(xcc_lowering *n, xcc_value *score, bool mixed, xcc_ml_transform transform)
{
    if (score == NULL)
        return NULL;
    if (transform == XCC_ML_PROBIT)
        return xcc_ml_transformed(n, score, transform);
    mixed = mixed || transform == XCC_ML_LOGISTIC;
    xcc_value *other =
        mixed ? xcc_build_unary(&n->b, XCVM_OP_Neg, score) : xcc_build_sub(&n->b, number(n, score, 1), score);
    xcc_value *both = xcc_build_concat(&n->b, 2, (xcc_value *[]){other, score}, 1);
    return transform == XCC_ML_LOGISTIC ? xcc_build_unary(&n->b, XCVM_OP_Sigmoid, both) : both;
}
