/* Fuses padding into the following window instruction. */
#include "compiler/passes/fuse_ops.h"

#include <math.h>
#include <string.h>

/* A Pad that adds a single number around the spatial axes of its operand. */
typedef struct padding {
    xcc_value *x;
    double number;
    int spatial;                     /* number of axes */
    int64_t pads[2 * XCVM_MAX_RANK]; /* starts, then ends, of the spatial axes */
} padding;

static bool find_padding(const xcc_value *v, padding *p)
{
    const xcc_node *n = xcc_sole_producer(v, XCVM_OP_Pad);
    if (n == NULL)
        return false;
    const xcvm_Pad_args *a = XCC_ARGS(Pad, n);
    int64_t pads[2 * XCVM_MAX_RANK];
    int rank = a->x->rank;
    p->number = 0;
    if (a->mode != XCVM_PAD_MODE_constant || a->axes != NULL || rank < 3 ||
        xcc_integers(xcc_value_of(a->pads), pads, 2 * XCVM_MAX_RANK) != 2 * rank ||
        (a->value != NULL && !xcc_number(xcc_value_of(a->value), &p->number)))
        return false;
    for (int i = 0; i < 2 * rank; i++)
        if (pads[i] < 0 || pads[i] > INT32_MAX / 2 || (i % rank < 2 && pads[i] != 0))
            return false;
    p->x = xcc_value_of(a->x);
    p->spatial = rank - 2;
    memcpy(p->pads, pads + 2, (size_t)p->spatial * sizeof *pads);
    memcpy(p->pads + p->spatial, pads + rank + 2, (size_t)p->spatial * sizeof *pads);
    return true;
}

/* Adds the instruction's own pads. Returns false on overflow. */
static bool add_pads(padding *p, const xcvm_ints *own)
{
    if (own->count != (size_t)(2 * p->spatial))
        return false;
    for (int i = 0; i < 2 * p->spatial; i++) {
        if (own->at[i] > INT32_MAX / 2)
            return false;
        p->pads[i] += own->at[i];
    }
    return true;
}

static bool all_zero(const xcvm_ints *ints)
{
    for (size_t i = 0; i < ints->count; i++)
        if (ints->at[i] != 0)
            return false;
    return true;
}

static bool conv(xcc_rewrite *r, xcc_node *n)
{
    xcvm_Conv_args a = *XCC_ARGS(Conv, n);
    padding p;
    if (!find_padding(xcc_value_of(a.x), &p) || p.number != 0 || !add_pads(&p, &a.pads))
        return false;
    a.x = &p.x->type;
    a.pads.at = p.pads;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&b, XCVM_OP_Conv, &a, offsetof(xcvm_Conv_args, y)));
}

/* Windows entirely in the padding would have no mean or maximum. */
static bool inside_window(const padding *p, const xcvm_ints *kernel)
{
    for (int i = 0; i < 2 * p->spatial; i++)
        if (kernel->count != (size_t)p->spatial || p->pads[i] >= kernel->at[i % p->spatial])
            return false;
    return true;
}

static bool average_pool(xcc_rewrite *r, xcc_node *n)
{
    xcvm_AveragePool_args a = *XCC_ARGS(AveragePool, n);
    padding p;
    /* Padding of a Pad counts as elements, so the pool's own padding must too. */
    if (a.ceil_mode || (!a.count_include_pad && !all_zero(&a.pads)) || !find_padding(xcc_value_of(a.x), &p) ||
        p.number != 0 || !add_pads(&p, &a.pads) || !inside_window(&p, &a.kernel_shape))
        return false;
    a.x = &p.x->type;
    a.pads.at = p.pads;
    a.count_include_pad = 1;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&b, XCVM_OP_AveragePool, &a, offsetof(xcvm_AveragePool_args, y)));
}

static bool max_pool(xcc_rewrite *r, xcc_node *n)
{
    xcvm_MaxPool_args a = *XCC_ARGS(MaxPool, n);
    padding p;
    if (a.ceil_mode || a.indices != NULL || !find_padding(xcc_value_of(a.x), &p) || !xcc_is_float(p.x) ||
        p.number != -(double)INFINITY || !add_pads(&p, &a.pads) || !inside_window(&p, &a.kernel_shape))
        return false;
    a.x = &p.x->type;
    a.pads.at = p.pads;
    xcc_builder b = xcc_builder_before(n);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                               xcc_apply_at(&b, XCVM_OP_MaxPool, &a, offsetof(xcvm_MaxPool_args, y)));
}

const xcc_rule xcc_rules_pads[] = {
    {XCVM_OP_Conv, conv, "zero padding before a Conv"},
    {XCVM_OP_AveragePool, average_pool, "zero padding before an AveragePool"},
    {XCVM_OP_MaxPool, max_pool, "padding with the lowest value before a MaxPool"},
};
const size_t xcc_rules_pads_count = sizeof xcc_rules_pads / sizeof *xcc_rules_pads;
