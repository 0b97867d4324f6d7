/* Pattern matching: instructions that exporters write as several nodes. */
#include "compiler/ir/lstm_cell.h"
#include "compiler/passes/rewrite.h"

#include <math.h>

/* Finds `other` such that v = other + number, for a node without other users. */
static bool is_sum_with(const xcc_value *v, double number, xcc_value **other)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_Add);
    double found;
    return n != NULL && xcc_split_number(xcc_node_input(n, 0), xcc_node_input(n, 1), other, &found) &&
           xcc_is_number(*other == xcc_node_input(n, 0) ? xcc_node_input(n, 1) : xcc_node_input(n, 0), number);
}

/* Finds `other` such that v = other * number, or other / (1 / number). */
static bool is_product_with(const xcc_value *v, double number, xcc_value **other)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_Mul), *d = xcc_sole_producer(v, XCVM_OP_Div);
    if (d != NULL) {
        *other = xcc_node_input(d, 0);
        return xcc_is_number(xcc_node_input(d, 1), 1 / number);
    }
    if (n == NULL)
        return false;
    *other = xcc_node_input(n, 0);
    if (xcc_is_number(xcc_node_input(n, 1), number))
        return true;
    *other = xcc_node_input(n, 1);
    return xcc_is_number(xcc_node_input(n, 0), number);
}

static xcc_value *unary_operand(const xcc_value *v, xcvm_opcode opcode)
{
    const xcc_node *n = xcc_sole_producer(v, opcode);
    return n != NULL ? xcc_node_input(n, 0) : NULL;
}

/* ---- Products: x times a function of x ---- */

enum { FACTORS = 4 };

/* Collects the factors of a product, including those of nested products without other users. */
static int collect_factors(xcc_value *v, xcc_value **factors, int count, int capacity, bool root)
{
    const xcc_node *n = root ? xcc_producer(v, XCVM_OP_Mul) : xcc_sole_producer(v, XCVM_OP_Mul);
    if (n == NULL || capacity - count < 2) {
        if (count < capacity)
            factors[count++] = v;
        return count;
    }
    count = collect_factors(xcc_node_input(n, 0), factors, count, capacity - 1, false);
    return collect_factors(xcc_node_input(n, 1), factors, count, capacity, false);
}

static bool same_value(const xcc_value *a, const xcc_value *b)
{
    if (a == b)
        return true;
    double x, y;
    return xcc_number(a, &x) && xcc_number(b, &y) && x == y;
}

/* v = 1 + erf(x / sqrt 2) */
static bool is_erf_gate(const xcc_value *v, const xcc_value *x)
{
    xcc_value *erf, *argument;
    if (!is_sum_with(v, 1, &erf) || (argument = unary_operand(erf, XCVM_OP_Erf)) == NULL)
        return false;
    xcc_value *operand;
    return is_product_with(argument, 0.70710678118654752440, &operand) && operand == x;
}

/* v = x cubed */
static bool is_cube(const xcc_value *v, const xcc_value *x)
{
    const xcc_node *pow = xcc_sole_producer(v, XCVM_OP_Pow), *mul = xcc_sole_producer(v, XCVM_OP_Mul);
    if (pow != NULL)
        return xcc_node_input(pow, 0) == x && xcc_is_number(xcc_node_input(pow, 1), 3);
    if (mul == NULL)
        return false;
    for (size_t i = 0; i < 2; i++) {
        const xcc_node *square = xcc_sole_producer(xcc_node_input(mul, i), XCVM_OP_Mul);
        if (square != NULL && xcc_node_input(mul, 1 - i) == x && xcc_node_input(square, 0) == x &&
            xcc_node_input(square, 1) == x)
            return true;
    }
    return false;
}

/* v = 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x cubed)) */
static bool is_tanh_gate(const xcc_value *v, const xcc_value *x)
{
    xcc_value *tanh_value, *argument, *sum, *cube;
    if (!is_sum_with(v, 1, &tanh_value) || (argument = unary_operand(tanh_value, XCVM_OP_Tanh)) == NULL ||
        !is_product_with(argument, 0.79788456080286535588, &sum))
        return false;
    const xcc_node *add = xcc_sole_producer(sum, XCVM_OP_Add);
    if (add == NULL)
        return false;
    for (size_t i = 0; i < 2; i++)
        if (xcc_node_input(add, i) == x && is_product_with(xcc_node_input(add, 1 - i), 0.044715, &cube) &&
            is_cube(cube, x))
            return true;
    return false;
}

/* y = x * (1 + gate) / 2 in any order. */
static bool gelu(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *factors[FACTORS], *y = xcc_node_output(n, 0);
    int count = collect_factors(y, factors, 0, FACTORS, true);
    if (count != 3)
        return false;
    for (int half = 0; half < 3; half++)
        for (int k = 1; k < 3; k++) {
            xcc_value *x = factors[(half + k) % 3], *gate = factors[(half + 3 - k) % 3];
            if (!xcc_is_number(factors[half], 0.5) || !xcc_is_float(x) || !xcc_same_type(x, y))
                continue;
            bool erf = is_erf_gate(gate, x);
            if (!erf && !is_tanh_gate(gate, x))
                continue;
            xcc_builder b = xcc_builder_before(n);
            return xcc_rewrite_replace(
                r, y, xcc_apply(&b, Gelu, y, .x = XCC_IN(x), .approximate = erf ? XCVM_GELU_none : XCVM_GELU_tanh));
        }
    return false;
}

/* v = max(0, min(1, x / 6 + 1 / 2)) */
static bool is_hard_gate(const xcc_value *v, const xcc_value *x)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_HardSigmoid);
    return n != NULL && xcc_node_input(n, 0) == x && fabs(XCC_ARGS(HardSigmoid, n)->alpha - 1.0 / 6) < 1e-6 &&
           XCC_ARGS(HardSigmoid, n)->beta == 0.5;
}

/* v = clip(x + 3, 0, 6) */
static bool is_relu6_of_x_plus_3(const xcc_value *v, xcc_value **x)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_Clip);
    return n != NULL && xcc_is_number(xcc_node_input(n, 1), 0) && xcc_is_number(xcc_node_input(n, 2), 6) &&
           is_sum_with(xcc_node_input(n, 0), 3, x);
}

static bool gated(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    xcc_builder b = xcc_builder_before(n);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *x = xcc_node_input(n, i), *gate = xcc_node_input(n, 1 - i), *tanh_operand, *found;
        if (!xcc_is_float(x) || !xcc_same_type(x, y))
            continue;
        const xcc_node *sigmoid = xcc_sole_producer(gate, XCVM_OP_Sigmoid);
        if (sigmoid != NULL && same_value(xcc_node_input(sigmoid, 0), x))
            return xcc_rewrite_replace(r, y, xcc_apply(&b, Swish, y, .x = XCC_IN(x), .alpha = 1));
        if (sigmoid != NULL) {
            const xcc_node *scaled = xcc_sole_producer(xcc_node_input(sigmoid, 0), XCVM_OP_Mul);
            double alpha;
            if (scaled != NULL &&
                xcc_split_number(xcc_node_input(scaled, 0), xcc_node_input(scaled, 1), &found, &alpha) && found == x)
                return xcc_rewrite_replace(r, y, xcc_apply(&b, Swish, y, .x = XCC_IN(x), .alpha = alpha));
        }
        if (is_hard_gate(gate, x))
            return xcc_rewrite_replace(r, y, xcc_apply(&b, HardSwish, y, .x = XCC_IN(x)));
        tanh_operand = unary_operand(gate, XCVM_OP_Tanh);
        if (tanh_operand != NULL && unary_operand(tanh_operand, XCVM_OP_Softplus) == x)
            return xcc_rewrite_replace(r, y, xcc_apply(&b, Mish, y, .x = XCC_IN(x)));
    }
    return gelu(r, n);
}

/* clip(x + 3, 0, 6) / 6, and the same times x. */
static bool hard_sigmoid(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0), *clipped, *x;
    xcc_builder b = xcc_builder_before(n);
    double by;
    if (xcc_is(n, XCVM_OP_Div)) {
        clipped = xcc_node_input(n, 0);
        if (!xcc_is_number(xcc_node_input(n, 1), 6))
            return false;
    } else if (!xcc_split_number(xcc_node_input(n, 0), xcc_node_input(n, 1), &clipped, &by) ||
               !(xcc_is_number(xcc_node_input(n, 0), 1.0 / 6) || xcc_is_number(xcc_node_input(n, 1), 1.0 / 6))) {
        return false;
    }
    if (is_relu6_of_x_plus_3(clipped, &x) && xcc_is_float(x) && xcc_same_type(x, y))
        return xcc_rewrite_replace(r, y, xcc_apply(&b, HardSigmoid, y, .x = XCC_IN(x), .alpha = 1.0 / 6, .beta = 0.5));
    const xcc_node *product = xcc_sole_producer(clipped, XCVM_OP_Mul);
    for (size_t i = 0; product != NULL && i < 2; i++)
        if (is_relu6_of_x_plus_3(xcc_node_input(product, i), &x) && x == xcc_node_input(product, 1 - i) &&
            xcc_is_float(x) && xcc_same_type(x, y))
            return xcc_rewrite_replace(r, y, xcc_apply(&b, HardSwish, y, .x = XCC_IN(x)));
    return false;
}

/* ---- Other patterns ---- */

static bool softplus(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0), *exponential, *y = xcc_node_output(n, 0);
    if (!is_sum_with(x, 1, &exponential) || (x = unary_operand(exponential, XCVM_OP_Exp)) == NULL ||
        !xcc_same_type(x, y))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Softplus, y, .x = XCC_IN(x)));
}

static bool softsign(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *x = xcc_node_input(n, 0), *absolute, *y = xcc_node_output(n, 0);
    if (!is_sum_with(xcc_node_input(n, 1), 1, &absolute) || unary_operand(absolute, XCVM_OP_Abs) != x ||
        !xcc_is_float(x) || !xcc_same_type(x, y))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y, xcc_apply(&b, Softsign, y, .x = XCC_IN(x)));
}

/* ---- Normalization ---- */

/* Number of last axes over which a mean is taken with keepdims; 0 if there is no such mean. */
static int mean_over_last(const xcc_node *mean)
{
    const xcvm_ReduceMean_args *a = XCC_ARGS(ReduceMean, mean);
    int64_t axes[XCVM_MAX_RANK];
    int rank = a->x->rank, count = a->axes != NULL ? xcc_integers(xcc_value_of(a->axes), axes, XCVM_MAX_RANK) : 0;
    uint32_t seen = 0;
    if (rank <= 0 || count <= 0 || count > rank || !a->keepdims)
        return 0;
    for (int i = 0; i < count; i++)
        seen |= 1u << (axes[i] < 0 ? axes[i] + rank : axes[i]);
    return seen == ((1u << count) - 1) << (rank - count) ? count : 0;
}

/* v = d * d, or d^2. */
static xcc_value *square_root_of(const xcc_value *v)
{
    const xcc_node *mul = xcc_sole_producer(v, XCVM_OP_Mul), *pow = xcc_sole_producer(v, XCVM_OP_Pow);
    if (mul != NULL && xcc_node_input(mul, 0) == xcc_node_input(mul, 1))
        return xcc_node_input(mul, 0);
    return pow != NULL && xcc_is_number(xcc_node_input(pow, 1), 2) ? xcc_node_input(pow, 0) : NULL;
}

/* v = sqrt(mean of d squared over the last axes + epsilon). Returns the number of axes, 0 if it does not match. */
static int root_mean_square(const xcc_value *v, xcc_value **d, double *epsilon)
{
    xcc_value *sum = unary_operand(v, XCVM_OP_Sqrt), *mean;
    const xcc_node *add = xcc_sole_producer(sum, XCVM_OP_Add);
    if (add == NULL || !xcc_split_number(xcc_node_input(add, 0), xcc_node_input(add, 1), &mean, epsilon))
        return 0;
    const xcc_node *reduce = xcc_sole_producer(mean, XCVM_OP_ReduceMean);
    if (reduce == NULL || !(*epsilon >= 0))
        return 0;
    *d = square_root_of(xcc_node_input(reduce, 0));
    return *d != NULL ? mean_over_last(reduce) : 0;
}

/* d = x - mean of x over as many last axes. */
static xcc_value *centered(const xcc_value *d, int axes)
{
    const xcc_node *sub = xcc_producer(d, XCVM_OP_Sub);
    const xcc_node *mean = sub != NULL ? xcc_producer(xcc_node_input(sub, 1), XCVM_OP_ReduceMean) : NULL;
    if (mean == NULL || xcc_node_input(mean, 0) != xcc_node_input(sub, 0) || mean_over_last(mean) != axes)
        return NULL;
    return xcc_node_input(sub, 0);
}

/* The operands' precision, at least f32. */
static xcvm_dtype stash_type(const xcc_value *x) { return x->type.dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32; }

static bool layer_normalization(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *d = xcc_node_input(n, 0), *same, *x, *y = xcc_node_output(n, 0);
    double epsilon;
    int axes = root_mean_square(xcc_node_input(n, 1), &same, &epsilon);
    if (axes == 0 || (x = centered(d, axes)) == NULL || (same != d && centered(same, axes) != x) || !xcc_is_float(x) ||
        !xcc_same_type(x, y))
        return false;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, y,
                               xcc_apply(&b, LayerNormalization, y, .x = XCC_IN(x), .axis = -axes, .epsilon = epsilon,
                                         .stash_type = stash_type(x)));
}

/* Returns true if a tensor has the shape of scale and bias of a normalization over the last axes. */
static bool is_per_element(const xcc_value *v, const xcc_value *x, int64_t axis)
{
    int rank = x->type.rank, axes = rank - (int)(axis < 0 ? axis + rank : axis);
    if (v->type.rank != axes || v->type.dtype != x->type.dtype)
        return false;
    for (int i = 0; i < axes; i++)
        if (v->type.dims[i] < 0 || v->type.dims[i] != x->type.dims[rank - axes + i])
            return false;
    return true;
}

static const xcc_node *unscaled_layer_normalization(const xcc_value *v)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_LayerNormalization);
    if (n == NULL)
        return NULL;
    const xcvm_LayerNormalization_args *a = XCC_ARGS(LayerNormalization, n);
    return a->b == NULL && a->mean == NULL && a->inv_std_dev == NULL && a->x->rank > 0 ? n : NULL;
}

static bool normalization_affine(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    bool is_scale = xcc_is(n, XCVM_OP_Mul);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *by = xcc_node_input(n, 1 - i);
        const xcc_node *normal = unscaled_layer_normalization(xcc_node_input(n, i));
        if (normal == NULL)
            continue;
        xcvm_LayerNormalization_args a = *XCC_ARGS(LayerNormalization, normal);
        if ((is_scale && a.scale != NULL) || !is_per_element(by, xcc_value_of(a.x), a.axis) ||
            !xcc_same_type(y, xcc_value_of(a.x)))
            continue;
        if (is_scale)
            a.scale = &by->type;
        else
            a.b = &by->type;
        xcc_builder b = xcc_builder_before(n);
        return xcc_rewrite_replace(
            r, y, xcc_apply_at(&b, XCVM_OP_LayerNormalization, &a, offsetof(xcvm_LayerNormalization_args, y)));
    }
    return false;
}

/* x / sqrt(mean of x squared + epsilon) * scale */
static bool rms_normalization(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *scale = xcc_node_input(n, 1 - i), *x, *root, *same;
        const xcc_node *div = xcc_sole_producer(xcc_node_input(n, i), XCVM_OP_Div);
        const xcc_node *mul = xcc_sole_producer(xcc_node_input(n, i), XCVM_OP_Mul);
        double epsilon;
        int axes = 0;
        if (div != NULL) {
            x = xcc_node_input(div, 0);
            axes = root_mean_square(xcc_node_input(div, 1), &same, &epsilon);
        } else if (mul != NULL) {
            for (size_t k = 0; k < 2 && axes == 0; k++) {
                x = xcc_node_input(mul, k);
                root = unary_operand(xcc_node_input(mul, 1 - k), XCVM_OP_Reciprocal);
                axes = root_mean_square(root, &same, &epsilon);
            }
        }
        if (axes == 0 || same != x || !xcc_is_float(x) || !xcc_same_type(x, y) || !is_per_element(scale, x, -axes))
            continue;
        xcc_builder b = xcc_builder_before(n);
        return xcc_rewrite_replace(r, y,
                                   xcc_apply(&b, RMSNormalization, y, .x = XCC_IN(x), .scale = XCC_IN(scale),
                                             .axis = -axes, .epsilon = epsilon, .stash_type = stash_type(x)));
    }
    return false;
}

/* ---- Sums of lists ---- */

/* Accumulate of s and a list of zeros with one other item: only that item is added to s. */
static bool add_one_item(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Accumulate_args *a = XCC_ARGS(Accumulate, n);
    for (int i = 0; i < 2; i++) {
        const xcvm_value *s = i == 0 ? a->a : a->b, *other = i == 0 ? a->b : a->a;
        const xcc_node *update = xcc_sole_producer(xcc_value_of(other), XCVM_OP_SequenceUpdate);
        if (update == NULL)
            continue;
        const xcvm_SequenceUpdate_args *one = XCC_ARGS(SequenceUpdate, update);
        if (one->x->kind != XCVM_KIND_TENSOR || xcc_producer(xcc_value_of(one->s), XCVM_OP_ZerosLike) == NULL)
            continue;
        xcc_builder b = xcc_builder_before(n);
        xcc_value *item = xcc_apply(&b, SequenceAt, y, .s = s, .position = one->position);
        xcc_value *sum = item != NULL ? xcc_apply(&b, Accumulate, y, .a = XCC_IN(item), .b = one->x) : NULL;
        xcc_value *y =
            sum != NULL ? xcc_apply(&b, SequenceUpdate, y, .s = s, .position = one->position, .x = XCC_IN(sum)) : NULL;
        return xcc_rewrite_replace(r, xcc_node_output(n, 0), y);
    }
    return false;
}

/* ---- Expansion ---- */

static bool is_for_onnx(const xcc_rewrite *r) { return r->m->options != NULL && r->m->options->onnx_export.enabled; }

/* All operands of a node, for the formulas of LSTMCell. */
static xcc_value **operands_of(const xcc_rewrite *r, const xcc_node *n)
{
    const size_t count = xcc_node_input_count(n);
    xcc_value **all = xcc_alloc(r->m, count * sizeof *all);
    for (size_t i = 0; i < count && all != NULL; i++)
        all[i] = xcc_node_input(n, i);
    return all;
}

/* Expands LSTMCell if nodes must be ONNX operators, because ONNX has none for it. */
static bool lstm_cell(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_LSTMCell_args *a = XCC_ARGS(LSTMCell, n);
    if (!is_for_onnx(r))
        return false;
    xcc_builder b = xcc_builder_before(n);
    xcc_value **operands = operands_of(r, n), *h = NULL, *c = NULL;
    if (operands == NULL || !xcc_build_lstm_cell(&b, operands[0], (xcc_lstm_form){a->children, a->layout}, operands + 1,
                                                 a->c_prev.count, &h, &c))
        h = c = NULL;
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), h) && xcc_rewrite_replace(r, xcc_node_output(n, 1), c);
}

static bool lstm_cell_gradient(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_LSTMCellGradient_args *a = XCC_ARGS(LSTMCellGradient, n);
    const size_t count = a->c_prev.count;
    if (!is_for_onnx(r))
        return false;
    xcc_builder b = xcc_builder_before(n);
    xcc_value **operands = operands_of(r, n), **results = xcc_alloc(r->m, (count + 1) * sizeof *results);
    const bool good =
        operands != NULL && results != NULL &&
        xcc_build_lstm_cell_gradient(&b, operands, count, (xcc_lstm_form){a->children, a->layout}, results);
    for (size_t i = 0; i <= count; i++)
        if (!xcc_rewrite_replace(r, xcc_node_output(n, i), good ? results[i] : NULL))
            return false;
    return true;
}

const xcc_rule xcc_rules_patterns[] = {
    {XCVM_OP_LSTMCell, lstm_cell, "LSTMCell as ONNX operators, for ONNX export"},
    {XCVM_OP_LSTMCellGradient, lstm_cell_gradient, "its gradient as ONNX operators, for ONNX export"},
    {XCVM_OP_Accumulate, add_one_item, "a list plus a list of zeros with one item"},
    {XCVM_OP_Mul, hard_sigmoid, "HardSigmoid and HardSwish, written with Clip"},
    {XCVM_OP_Div, hard_sigmoid, "HardSigmoid and HardSwish, written with Clip"},
    {XCVM_OP_Mul, gated, "x times a function of x: Swish, HardSwish, Mish and Gelu"},
    {XCVM_OP_Log, softplus, "Softplus"},
    {XCVM_OP_Div, softsign, "Softsign"},
    {XCVM_OP_Div, layer_normalization, "LayerNormalization without scale and bias"},
    {XCVM_OP_Mul, normalization_affine, "the scale of LayerNormalization"},
    {XCVM_OP_Add, normalization_affine, "the bias of LayerNormalization"},
    {XCVM_OP_Mul, rms_normalization, "RMSNormalization"},
};
const size_t xcc_rules_patterns_count = sizeof xcc_rules_patterns / sizeof *xcc_rules_patterns;
