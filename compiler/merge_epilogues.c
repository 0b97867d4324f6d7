/* What is done to the result of Conv and Gemm before it is stored: a tensor added, an activation. */
#include "compiler/merge_rules.h"

#include <math.h>

int xcc_activation_of(const xcc_node *n, double params[XCC_MOST_PARAMS], size_t *count)
{
    *count = 0;
    switch (n->row->opcode) {
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
        if (a.activation != XCVM_ACTIVATION_none)
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

/* Adding a tensor of the same shape to a convolution. Of two convolutions the later one takes the other's result. */
static bool residual(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 2; i-- > 0;) {
        xcc_value *x = xcc_node_input(n, i), *z = xcc_node_input(n, 1 - i);
        xcc_node *conv = xcc_sole_producer(x, XCVM_OP_Conv);
        if (conv == NULL || !xcc_same_type(x, y) || !xcc_same_type(z, y))
            continue;
        xcvm_Conv_args a = *XCC_ARGS(Conv, conv);
        if (a.activation != XCVM_ACTIVATION_none || a.z != NULL)
            continue;
        a.z = &z->type;
        xcc_builder b = xcc_builder_before(conv);
        b.before = n;
        return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
    }
    return false;
}

const xcc_rule xcc_rules_epilogues[] = {
    {XCVM_OP_Add, residual, "of a tensor to a Conv"},       {XCVM_OP_Relu, activation, "of a Conv or Gemm"},
    {XCVM_OP_Clip, activation, "of a Conv or Gemm"},        {XCVM_OP_LeakyRelu, activation, "of a Conv or Gemm"},
    {XCVM_OP_Sigmoid, activation, "of a Conv or Gemm"},     {XCVM_OP_Tanh, activation, "of a Conv or Gemm"},
    {XCVM_OP_HardSigmoid, activation, "of a Conv or Gemm"}, {XCVM_OP_HardSwish, activation, "of a Conv or Gemm"},
    {XCVM_OP_Swish, activation, "of a Conv or Gemm"},       {XCVM_OP_Gelu, activation, "of a Conv or Gemm"},
};
const size_t xcc_rules_epilogues_count = sizeof xcc_rules_epilogues / sizeof *xcc_rules_epilogues;
