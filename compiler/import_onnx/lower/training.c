/* Optimizers of ai.onnx.preview.training: formulas of the operators' definitions, once for each tensor. */
#include "compiler/import_onnx/lower/lower.h"

/* Operands are: rate, step, then `kinds` groups of tensors, one tensor of each group for each result group. */
static xcvm_status tensors(const xcc_lowering *n, size_t kinds, size_t *count)
{
    XCVM_TRY(xcc_need_inputs(n, n->input_count, SIZE_MAX));
    XCVM_CHECK(n->m->error, n->input_count > 2 && (n->input_count - 2) % kinds == 0, INVALID_MODEL,
               "%zu operands are given, two and %zu for each tensor are needed", n->input_count, kinds);
    *count = (n->input_count - 2) / kinds;
    XCVM_CHECK(n->m->error, n->output_count <= *count * (kinds - 1), INVALID_MODEL,
               "the node has %zu results; expected %zu", n->output_count, *count * (kinds - 1));
    return XCVM_OK;
}

/* x * factor, of the type of x. */
static xcc_value *scaled(xcc_lowering *n, xcc_value *x, double factor)
{
    return xcc_build_mul(&n->b, x, xcc_build_number(&n->b, x, factor));
}

/* The gradient with its penalty, norm * x + g. */
static xcc_value *regularized(xcc_lowering *n, xcc_value *x, xcc_value *g, double norm)
{
    return norm == 0 ? g : xcc_build_add(&n->b, scaled(n, x, norm), g);
}

static xcc_value *square(xcc_lowering *n, xcc_value *x) { return xcc_build_mul(&n->b, x, x); }

xcvm_status xcc_lower_adagrad(xcc_lowering *n)
{
    double decay, epsilon, norm;
    size_t count;
    XCVM_TRY(tensors(n, 3, &count));
    XCVM_TRY(xcc_attribute_float(n, "decay_factor", 0, &decay));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", 1e-6f, &epsilon));
    XCVM_TRY(xcc_attribute_float(n, "norm_coefficient", 0, &norm));
    xcc_value *rate = n->inputs[0];
    xcc_value *factor =
        xcc_build_add(&n->b, xcc_build_number(&n->b, rate, 1),
                      scaled(n, xcc_build_cast(&n->b, n->inputs[1], (xcvm_dtype)rate->type.dtype), decay));
    rate = xcc_build_div(&n->b, rate, factor);
    for (size_t i = 0; i < count; i++) {
        xcc_value *x = n->inputs[2 + i], *h = n->inputs[2 + 2 * count + i];
        xcc_value *g = regularized(n, x, n->inputs[2 + count + i], norm);
        xcc_value *h_new = xcc_build_add(&n->b, h, square(n, g));
        xcc_value *adapted =
            xcc_build_add(&n->b, xcc_build_unary(&n->b, XCVM_OP_Sqrt, h_new), xcc_build_number(&n->b, x, epsilon));
        XCVM_TRY(xcc_bind(n, i, xcc_build_sub(&n->b, x, xcc_build_div(&n->b, xcc_build_mul(&n->b, rate, g), adapted))));
        XCVM_TRY(xcc_bind(n, count + i, h_new));
    }
    return XCVM_OK;
}

xcvm_status xcc_lower_adam(xcc_lowering *n)
{
    double alpha, beta, epsilon, norm, norm_post;
    size_t count;
    XCVM_TRY(tensors(n, 4, &count));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 0.9f, &alpha));
    XCVM_TRY(xcc_attribute_float(n, "beta", 0.999f, &beta));
    XCVM_TRY(xcc_attribute_float(n, "epsilon", 1e-6f, &epsilon));
    XCVM_TRY(xcc_attribute_float(n, "norm_coefficient", 0, &norm));
    XCVM_TRY(xcc_attribute_float(n, "norm_coefficient_post", 0, &norm_post));
    xcc_value *rate = n->inputs[0], *one = xcc_build_number(&n->b, rate, 1);
    xcc_value *step = xcc_build_cast(&n->b, n->inputs[1], (xcvm_dtype)rate->type.dtype);
    /* The rate is corrected for the averages' start at zero, but not at step 0. */
    xcc_value *root = xcc_build_unary(
        &n->b, XCVM_OP_Sqrt,
        xcc_build_sub(&n->b, one, xcc_build_binary(&n->b, XCVM_OP_Pow, xcc_build_number(&n->b, rate, beta), step)));
    xcc_value *rest =
        xcc_build_sub(&n->b, one, xcc_build_binary(&n->b, XCVM_OP_Pow, xcc_build_number(&n->b, rate, alpha), step));
    xcc_value *later = xcc_build_binary(&n->b, XCVM_OP_Greater, step, xcc_build_number(&n->b, rate, 0));
    xcc_value *corrected = xcc_build_mul(&n->b, rate, xcc_build_div(&n->b, root, rest));
    rate = xcc_build_call(&n->b, XCVM_OP_Where, 3, (xcc_value *[]){later, corrected, rate});
    for (size_t i = 0; i < count; i++) {
        xcc_value *x = n->inputs[2 + i], *v = n->inputs[2 + 2 * count + i], *h = n->inputs[2 + 3 * count + i];
        xcc_value *g = regularized(n, x, n->inputs[2 + count + i], norm);
        xcc_value *v_new = xcc_build_add(&n->b, scaled(n, v, alpha), scaled(n, g, 1 - alpha));
        xcc_value *h_new = xcc_build_add(&n->b, scaled(n, h, beta), scaled(n, square(n, g), 1 - beta));
        xcc_value *root_h =
            xcc_build_add(&n->b, xcc_build_unary(&n->b, XCVM_OP_Sqrt, h_new), xcc_build_number(&n->b, x, epsilon));
        xcc_value *x_new = xcc_build_sub(&n->b, x, xcc_build_div(&n->b, xcc_build_mul(&n->b, rate, v_new), root_h));
        if (norm_post != 0)
            x_new = scaled(n, x_new, 1 - norm_post);
        XCVM_TRY(xcc_bind(n, i, x_new));
        XCVM_TRY(xcc_bind(n, count + i, v_new));
        XCVM_TRY(xcc_bind(n, 2 * count + i, h_new));
    }
    return XCVM_OK;
}

xcvm_status xcc_lower_momentum(xcc_lowering *n)
{
    double alpha, beta, norm;
    xcvm_text mode;
    size_t count;
    XCVM_TRY(tensors(n, 3, &count));
    XCVM_TRY(xcc_attribute_float(n, "alpha", 0, &alpha));
    XCVM_TRY(xcc_attribute_float(n, "beta", 0, &beta));
    XCVM_TRY(xcc_attribute_float(n, "norm_coefficient", 0, &norm));
    XCVM_TRY(xcc_attribute_text(n, "mode", "standard", &mode));
    const bool nesterov = xcc_text_is(mode, "nesterov");
    XCVM_CHECK(n->m->error, nesterov || xcc_text_is(mode, "standard"), INVALID_MODEL,
               "attribute 'mode' is '%.40s', standard or nesterov is expected", mode.at);
    xcc_value *rate = n->inputs[0];
    /* The first step uses the whole gradient. */
    xcc_value *first = xcc_build_binary(&n->b, XCVM_OP_Greater, n->inputs[1], xcc_build_number(&n->b, n->inputs[1], 0));
    xcc_value *share =
        xcc_build_call(&n->b, XCVM_OP_Where, 3,
                       (xcc_value *[]){first, xcc_build_number(&n->b, rate, beta), xcc_build_number(&n->b, rate, 1)});
    for (size_t i = 0; i < count; i++) {
        xcc_value *x = n->inputs[2 + i], *v = n->inputs[2 + 2 * count + i];
        xcc_value *g = regularized(n, x, n->inputs[2 + count + i], norm);
        xcc_value *v_new = xcc_build_add(&n->b, scaled(n, v, alpha), xcc_build_mul(&n->b, share, g));
        xcc_value *step = nesterov ? xcc_build_add(&n->b, g, scaled(n, v_new, alpha)) : v_new;
        XCVM_TRY(xcc_bind(n, i, xcc_build_sub(&n->b, x, xcc_build_mul(&n->b, rate, step))));
        XCVM_TRY(xcc_bind(n, count + i, v_new));
    }
    return XCVM_OK;
}
