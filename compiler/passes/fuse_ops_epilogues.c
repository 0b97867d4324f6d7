/* Fuses operations on the result of Conv and Gemm: addition of a tensor, and activations. */
#include "compiler/passes/fuse_ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

int xcc_activation_of(const xcc_node *n, double params[XCC_MOST_PARAMS], size_t *count)
{
    *count = 0;
    switch (n->schema->opcode) {
    case XCVM_OP_Relu:
        return XCVM_ACTIVATION_Relu;
    case XCVM_OP_Sigmoid:
        return XCVM_ACTIVATION_Sigmoid;
    case XCVM_OP_Tanh:
        return XCVM_ACTIVATION_Tanh;
    case XCVM_OP_HardSwish:
        return XCVM_ACTIVATION_HardSwish;
    case XCVM_OP_Gelu:
        return XCC_ARGS(Gelu, n)->approximate == XCVM_GELU_none ? XCVM_ACTIVATION_Gelu : XCVM_ACTIVATION_none;
    case XCVM_OP_LeakyRelu:
        params[(*count)++] = XCC_ARGS(LeakyRelu, n)->alpha;
        return XCVM_ACTIVATION_LeakyRelu;
    case XCVM_OP_Swish:
        params[(*count)++] = XCC_ARGS(Swish, n)->alpha;
        return XCVM_ACTIVATION_Swish;
    case XCVM_OP_HardSigmoid:
        params[(*count)++] = XCC_ARGS(HardSigmoid, n)->alpha;
        params[(*count)++] = XCC_ARGS(HardSigmoid, n)->beta;
        return XCVM_ACTIVATION_HardSigmoid;
    case XCVM_OP_Clip: {
        const xcc_value *low = xcc_node_input(n, 1), *high = xcc_node_input(n, 2);
        params[0] = -INFINITY;
        params[1] = INFINITY;
        if ((low != NULL && !xcc_number(low, &params[0])) || (high != NULL && !xcc_number(high, &params[1])))
            return XCVM_ACTIVATION_none;
        /* Parameters of activations are f32. */
        if ((double)(float)params[0] != params[0] || (double)(float)params[1] != params[1])
            return XCVM_ACTIVATION_none;
        *count = 2;
        return XCVM_ACTIVATION_Clip;
    }
    default:
        return XCVM_ACTIVATION_none;
    }
}

static bool activation(xcc_rewrite *r, xcc_node *n)
{
    double params[XCC_MOST_PARAMS];
    size_t count;
    xcc_value *x = xcc_node_input(n, 0), *y = xcc_node_output(n, 0);
    const xcc_node *conv = xcc_sole_producer(x, XCVM_OP_Conv), *gemm = xcc_sole_producer(x, XCVM_OP_Gemm);
    if ((conv == NULL && gemm == NULL) || !xcc_is_float(x))
        return false;
    int kind = xcc_activation_of(n, params, &count);
    if (kind == XCVM_ACTIVATION_none)
        return false;
    xcc_builder b = xcc_builder_before(conv != NULL ? x->producer : n);
    b.before = n;
    if (conv != NULL) {
        xcvm_Conv_args a = *XCC_ARGS(Conv, conv);
        if (a.activation != XCVM_ACTIVATION_none || a.affine.count != 0)
            return false;
        a.activation = kind;
        a.activation_params = (xcvm_floats){params, count};
        return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
    }
    xcvm_Gemm_args a = *XCC_ARGS(Gemm, gemm);
    if (a.activation != XCVM_ACTIVATION_none)
        return false;
    a.activation = kind;
    a.activation_params = (xcvm_floats){params, count};
    return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_Gemm, &a, offsetof(xcvm_Gemm_args, y)));
}

/* Scaling and shifting by numbers after the activation of a Conv. Before one they belong in its weights and bias. */
static bool affine(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_opcode opcode = n->schema->opcode;
    const bool ordered = opcode == XCVM_OP_Sub || opcode == XCVM_OP_Div;
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 0; i < (ordered ? 1u : 2u); i++) {
        xcc_value *x = xcc_node_input(n, i), *by = xcc_node_input(n, 1 - i);
        xcc_node *conv = xcc_sole_producer(x, XCVM_OP_Conv);
        double number;
        if (conv == NULL || !xcc_is_float(x) || !xcc_number(by, &number) || by->type.rank > x->type.rank)
            continue;
        xcvm_Conv_args a = *XCC_ARGS(Conv, conv);
        if (a.activation == XCVM_ACTIVATION_none)
            continue;
        double numbers[] = {1, 0};
        if (a.affine.count != 0)
            memcpy(numbers, a.affine.at, sizeof numbers);
        if (opcode == XCVM_OP_Add || opcode == XCVM_OP_Sub) {
            numbers[1] += opcode == XCVM_OP_Sub ? -number : number;
        } else {
            numbers[0] = opcode == XCVM_OP_Div ? numbers[0] / number : numbers[0] * number;
            numbers[1] = opcode == XCVM_OP_Div ? numbers[1] / number : numbers[1] * number;
        }
        /* f32 numbers are also the operands of the separate instructions, so results are equal. */
        if (!(fabs(numbers[0]) <= FLT_MAX && fabs(numbers[1]) <= FLT_MAX))
            continue;
        a.affine = (xcvm_floats){numbers, 2};
        xcc_builder b = xcc_builder_before(conv);
        b.before = n;
        return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
    }
    return false;
}

/* Returns true if `gate` multiplies each channel of an image by one number. */
static bool is_gate_of(const xcc_value *gate, const xcc_value *image)
{
    const int rank = image->type.rank;
    bool fits = xcc_is_float(image) && rank >= 3 && gate->type.rank == rank;
    for (int i = 0; fits && i < rank; i++)
        fits = i < 2 ? gate->type.dims[i] == image->type.dims[i] && gate->type.dims[i] != XCVM_ANY_DIM
                     : gate->type.dims[i] == 1;
    return fits;
}

/* x + x * gate is x * (1 + gate). The gate, in [0, 1], comes from a Conv that can add the 1. */
static bool gated_residual(xcc_rewrite *r, xcc_node *n)
{
    static const double one_more[] = {1, 1};
    for (size_t i = 0; i < 4; i++) {
        xcc_value *x = xcc_node_input(n, i / 2), *y = xcc_node_output(n, 0);
        const xcc_node *product = xcc_sole_producer(xcc_node_input(n, 1 - i / 2), XCVM_OP_Mul);
        xcc_value *gate = product != NULL ? xcc_node_input(product, i % 2) : NULL;
        xcc_node *conv = gate != NULL ? xcc_sole_producer(gate, XCVM_OP_Conv) : NULL;
        if (conv == NULL || xcc_node_input(product, 1 - i % 2) != x || !is_gate_of(gate, x))
            continue;
        xcvm_Conv_args a = *XCC_ARGS(Conv, conv);
        if ((a.activation != XCVM_ACTIVATION_Sigmoid && a.activation != XCVM_ACTIVATION_HardSigmoid) ||
            a.affine.count != 0)
            continue;
        a.affine = (xcvm_floats){one_more, 2};
        xcc_builder b = xcc_builder_before(conv);
        b.before = n;
        const xcc_value *more = xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y));
        b.name = n->name;
        return xcc_rewrite_replace(r, y,
                                   more != NULL ? xcc_apply(&b, Mul, y, .a = XCC_IN(x), .b = XCC_IN(more)) : NULL);
    }
    return false;
}

/* Addition of a tensor of the same shape to a convolution. Of two convolutions, the later one adds the other's result.
 */
static bool residual(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 2; i-- > 0;) {
        xcc_value *x = xcc_node_input(n, i), *z = xcc_node_input(n, 1 - i);
        xcc_node *conv = xcc_sole_producer(x, XCVM_OP_Conv);
        if (conv == NULL || !xcc_same_type(x, y) || !xcc_same_type(z, y))
            continue;
        xcvm_Conv_args a = *XCC_ARGS(Conv, conv);
        if (a.activation != XCVM_ACTIVATION_none || a.affine.count != 0 || a.z != NULL)
            continue;
        a.z = &z->type;
        xcc_builder b = xcc_builder_before(conv);
        b.before = n;
        return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
    }
    return false;
}

const xcc_rule xcc_rules_epilogues[] = {
    {XCVM_OP_Add, gated_residual, "x + x * gate after a Conv"},
    {XCVM_OP_Add, residual, "residual after a Conv"},
    {XCVM_OP_Relu, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Clip, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_LeakyRelu, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Sigmoid, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Tanh, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_HardSigmoid, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_HardSwish, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Swish, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Gelu, activation, "activation after a Conv or Gemm"},
    {XCVM_OP_Mul, affine, "factor after an activation"},
    {XCVM_OP_Add, affine, "addend after an activation"},
    {XCVM_OP_Div, affine, "divisor after an activation"},
    {XCVM_OP_Sub, affine, "addend after an activation"},
};
const size_t xcc_rules_epilogues_count = sizeof xcc_rules_epilogues / sizeof *xcc_rules_epilogues;
