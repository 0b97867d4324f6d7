/* Fuses per-channel scaling and shifting (BatchNormalization, Mul, Add and so on) into the weights and bias of the
 * preceding product. */
#include "compiler/passes/fuse_ops.h"

#include <math.h>
#include <string.h>

/* A product's weights and their channels. The channel of the weights' element i is (i / inner) % channels + i / block *
 * channels, where blocks are groups. */
typedef struct product {
    xcc_node *node;
    xcc_value *w, *b;
    int axis;        /* axis of the result's channels */
    size_t channels; /* in total */
    size_t inner, per_block, block;
    double beta; /* factor of b */
} product;

static size_t elements_from(const xcvm_value *v, int axis)
{
    size_t count = 1;
    for (int i = axis; i < v->rank; i++)
        count *= (size_t)v->dims[i];
    return count;
}

static bool describe_conv(xcc_node *n, product *p)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, n);
    if (a->activation != XCVM_ACTIVATION_none || a->affine.count != 0 || a->z != NULL || a->w->rank < 3 ||
        !xcvm_dims_known(a->w))
        return false;
    size_t channels = (size_t)a->w->dims[0];
    *p = (product){n,        xcc_value_of(a->w),     xcc_value_of(a->b), 1,
                   channels, elements_from(a->w, 1), channels,           elements_from(a->w, 0),
                   1};
    return true;
}

static bool describe_conv_transpose(xcc_node *n, product *p)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    if (a->w->rank < 3 || !xcvm_dims_known(a->w) || a->w->dims[0] % a->group != 0)
        return false;
    size_t per_group = (size_t)a->w->dims[1], groups = (size_t)a->group;
    *p = (product){n,
                   xcc_value_of(a->w),
                   xcc_value_of(a->b),
                   1,
                   per_group * groups,
                   elements_from(a->w, 2),
                   per_group,
                   elements_from(a->w, 0) / groups,
                   1};
    return true;
}

static bool describe_gemm(xcc_node *n, product *p)
{
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, n);
    const xcvm_value *c = a->c;
    if (a->activation != XCVM_ACTIVATION_none || a->b->rank != 2 || !xcvm_dims_known(a->b) || a->a->rank < 2 ||
        !xcvm_dtype_is_float((xcvm_dtype)a->b->dtype))
        return false;
    size_t channels = (size_t)a->b->dims[a->transB ? 0 : 1];
    /* A bias that differs between rows cannot be changed per channel. */
    if (c != NULL && (!xcvm_dims_known(c) ||
                      (xcvm_element_count(c) != 1 && (xcvm_element_count(c) != channels || c->dims[c->rank - 1] == 1))))
        return false;
    *p = (product){
        n,        xcc_value_of(a->b),     xcc_value_of(c), -1, channels, a->transB ? (size_t)a->b->dims[1] : 1,
        channels, elements_from(a->b, 0), a->beta};
    return true;
}

/* Finds the product that produces `v` for a single user, if its bias and, for scaling, its weights are constants. */
static bool find_product(xcc_value *v, bool scales, product *p)
{
    xcc_node *n = xcc_used_once(v) ? v->producer : NULL;
    bool found = xcc_is(n, XCVM_OP_Conv)            ? describe_conv(n, p)
                 : xcc_is(n, XCVM_OP_ConvTranspose) ? describe_conv_transpose(n, p)
                 : xcc_is(n, XCVM_OP_Gemm)          ? describe_gemm(n, p)
                                                    : false;
    return found && p->channels > 0 && (!scales || xcc_is_constant(p->w)) && (p->b == NULL || xcc_is_constant(p->b));
}

/* ---- Numbers per channel ---- */

static void store(xcc_value *v, size_t index, double value)
{
    switch ((xcvm_dtype)v->type.dtype) {
    case XCVM_F32:
        XCVM_DATA(float, &v->type)[index] = (float)value;
        break;
    case XCVM_F64:
        XCVM_DATA(double, &v->type)[index] = value;
        break;
    case XCVM_F16:
        XCVM_DATA(uint16_t, &v->type)[index] = xcvm_f32_to_f16((float)value);
        break;
    default:
        XCVM_DATA(uint16_t, &v->type)[index] = xcvm_f32_to_bf16((float)value);
        break;
    }
}

static xcc_value *new_constant(xcc_module *m, const xcc_value *like, int rank, const int64_t *dims)
{
    return xcc_constant_blank(m->graph, (xcvm_dtype)like->type.dtype, rank, dims);
}

/* Returns true if a tensor that broadcasts to `y` depends only on the channel. */
static bool is_per_channel(const xcvm_value *v, const xcvm_value *y, int axis, size_t channels)
{
    int at = axis < 0 ? axis + y->rank : axis, shift = y->rank - v->rank;
    if (y->rank < 0 || v->rank < 0 || shift < 0 || !xcvm_dims_known(v))
        return false;
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i] != 1 && (i + shift != at || (size_t)v->dims[i] != channels))
            return false;
    return true;
}

static double channel_number(const xcvm_value *v, size_t channel)
{
    return xcvm_element_as_double(v, xcvm_element_count(v) == 1 ? 0 : channel);
}

static xcc_value *scaled_weights(xcc_module *m, const product *p, const double *scale)
{
    xcc_value *w = new_constant(m, p->w, p->w->type.rank, p->w->type.dims);
    size_t count = xcvm_element_count(&p->w->type);
    for (size_t at = 0; w != NULL && at < count; at += p->inner) {
        double factor = scale[at / p->inner % p->per_block + at / p->block * p->per_block];
        if (w->type.dtype == XCVM_F32)
            for (size_t i = at; i < at + p->inner; i++)
                XCVM_DATA(float, &w->type)[i] = (float)((double)XCVM_CDATA(float, &p->w->type)[i] * factor);
        else
            for (size_t i = at; i < at + p->inner; i++)
                store(w, i, xcvm_element_as_double(&p->w->type, i) * factor);
    }
    return w;
}

/* Returns true if the product's bias and, for scaling, its weights may be rewritten. */
static bool may_copy(xcc_module *m, const product *p, bool scales)
{
    return xcc_may_copy(m, p->channels * sizeof(double) + (scales ? p->w->type.bytes : 0));
}

/* y = product * scale + shift, per channel. `scale` may be NULL. */
static bool apply_affine(xcc_rewrite *r, xcc_node *n, const product *p, const double *scale, const double *shift)
{
    xcc_value *y = xcc_node_output(n, 0), *w = p->w, *b;
    int64_t channels = (int64_t)p->channels;
    if (scale != NULL) {
        if ((w = scaled_weights(r->m, p, scale)) == NULL)
            return xcc_rewrite_replace(r, y, NULL);
    }
    if ((b = new_constant(r->m, p->w, 1, &channels)) == NULL)
        return xcc_rewrite_replace(r, y, NULL);
    for (size_t i = 0; i < p->channels; i++) {
        double old = p->b != NULL ? p->beta * channel_number(&p->b->type, i) : 0;
        store(b, i, old * (scale != NULL ? scale[i] : 1) + shift[i]);
    }
    xcc_builder builder = xcc_builder_before(p->node);
    builder.before = n;
    union {
        xcvm_Conv_args conv;
        xcvm_ConvTranspose_args conv_transpose;
        xcvm_Gemm_args gemm;
    } args;
    memcpy(&args, p->node->args, p->node->schema->args_size);
    size_t result = 0;
    switch (p->node->schema->opcode) {
    case XCVM_OP_Conv:
        args.conv.w = &w->type;
        args.conv.b = &b->type;
        result = offsetof(xcvm_Conv_args, y);
        break;
    case XCVM_OP_ConvTranspose:
        args.conv_transpose.w = &w->type;
        args.conv_transpose.b = &b->type;
        result = offsetof(xcvm_ConvTranspose_args, y);
        break;
    default:
        args.gemm.b = &w->type;
        args.gemm.c = &b->type;
        args.gemm.beta = 1;
        result = offsetof(xcvm_Gemm_args, y);
        break;
    }
    return xcc_rewrite_replace(r, y, xcc_apply_at(&builder, p->node->schema->opcode, &args, result));
}

/* ---- Rules ---- */

static bool batch_normalization(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_BatchNormalization_args *a = XCC_ARGS(BatchNormalization, n);
    product p;
    if (a->training_mode || a->running_mean != NULL || a->running_var != NULL ||
        !xcc_is_constant(xcc_value_of(a->scale)) || !xcc_is_constant(xcc_value_of(a->b)) ||
        !xcc_is_constant(xcc_value_of(a->mean)) || !xcc_is_constant(xcc_value_of(a->var)) ||
        !find_product(xcc_value_of(a->x), true, &p) || (p.axis < 0 && a->x->rank != 2) ||
        xcvm_element_count(a->scale) != p.channels || !may_copy(r->m, &p, true))
        return false;
    double *scale = xcc_alloc(r->m, 2 * p.channels * sizeof *scale), *shift = scale != NULL ? scale + p.channels : NULL;
    if (scale == NULL)
        return xcc_rewrite_replace(r, xcc_node_output(n, 0), NULL);
    for (size_t i = 0; i < p.channels; i++) {
        scale[i] = xcvm_element_as_double(a->scale, i) / sqrt(xcvm_element_as_double(a->var, i) + a->epsilon);
        shift[i] = xcvm_element_as_double(a->b, i) - xcvm_element_as_double(a->mean, i) * scale[i];
    }
    return apply_affine(r, n, &p, scale, shift);
}

/* Add, Sub, Mul and Div with per-channel numbers. */
static bool arithmetic(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    xcvm_opcode opcode = n->schema->opcode;
    bool adds = opcode == XCVM_OP_Add || opcode == XCVM_OP_Sub;
    bool ordered = opcode == XCVM_OP_Sub || opcode == XCVM_OP_Div;
    for (size_t i = 0; i < (ordered ? 1u : 2u); i++) {
        xcc_value *x = xcc_node_input(n, i), *by = xcc_node_input(n, 1 - i);
        product p;
        if (!xcc_is_constant(by) || !xcc_is_float(by) || !find_product(x, !adds, &p) || !xcc_same_type(x, y) ||
            !is_per_channel(&by->type, &y->type, p.axis, p.channels) || !may_copy(r->m, &p, !adds))
            continue;
        double *scale = xcc_alloc(r->m, 2 * p.channels * sizeof *scale),
               *shift = scale != NULL ? scale + p.channels : NULL;
        if (scale == NULL)
            return xcc_rewrite_replace(r, y, NULL);
        for (size_t c = 0; c < p.channels; c++) {
            double number = channel_number(&by->type, c);
            scale[c] = opcode == XCVM_OP_Div ? 1 / number : number;
            shift[c] = !adds ? 0 : opcode == XCVM_OP_Sub ? -number : number;
        }
        return apply_affine(r, n, &p, adds ? NULL : scale, shift);
    }
    return false;
}

const xcc_rule xcc_rules_affine[] = {
    {XCVM_OP_BatchNormalization, batch_normalization, "BatchNormalization after Conv, ConvTranspose or Gemm"},
    {XCVM_OP_Add, arithmetic, "a bias per channel after a product"},
    {XCVM_OP_Sub, arithmetic, "a bias per channel after a product"},
    {XCVM_OP_Mul, arithmetic, "a factor per channel after a product"},
    {XCVM_OP_Div, arithmetic, "a divisor per channel after a product"},
};
const size_t xcc_rules_affine_count = sizeof xcc_rules_affine / sizeof *xcc_rules_affine;
