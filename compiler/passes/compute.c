/* Products in bf16 on request. Products with constant second operands, and direct convolutions of blocked channels, are
 * computed from pairs (ops/matmul/pairs.h). Constants are rounded here, other operands when they are read; sums stay
 * f32. Winograd's algorithm, whose transforms amplify rounding errors, stays f32, and so do small filters: depthwise
 * ones, and those of the first convolution, whose input is plain. */
#include "compiler/passes/compress.h"
#include "compiler/ir/compilation.h"

#include "base/element.h"
#include "ops/conv/blocked.h"
#include "ops/matmul/pairs.h"

#include <math.h>

/* The rounded form of a constant, shared by all its readers. */
typedef struct rounded {
    const xcc_value *from;
    xcc_value *pairs; /* NULL: a finite number is out of range */
    struct rounded *next;
} rounded;

typedef struct bf16_rewrite {
    xcc_rewrite r;
    rounded *known;
} bf16_rewrite;

/* Rounds panels of a product, f32[panels, k, 16], or direct filters, f32[K16, Cg, ..., 16]: axis 1 becomes pairs. */
static xcc_value *make_pairs(xcc_module *m, xcc_value *v, bool filters)
{
    const int rank = v->type.rank;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, v->type.dims, sizeof dims);
    dims[1] = (int64_t)xcvm_pairs_of((size_t)dims[1]);
    dims[rank] = XCVM_PAIR;
    xcc_value *pairs = xcc_constant_blank(v->graph, XCVM_BF16, rank + 1, dims);
    if (pairs == NULL)
        return NULL;
    const float *from = v->type.data;
    uint16_t *to = pairs->type.data;
    if (filters) {
        xcvm_blocked_pack_pairs(from, rank, v->type.dims, to);
    } else {
        const size_t lines = (size_t)v->type.dims[1], columns = XCVM_PACKED_COLUMNS;
        for (int64_t panel = 0; panel < dims[0]; panel++, from += lines * columns, to += 2 * (size_t)dims[1] * columns)
            xcvm_pairs_write(lines, from, to);
    }
    m->compilation->weight_bytes_before += v->type.bytes;
    m->compilation->weight_bytes_after += pairs->type.bytes;
    return pairs;
}

/* Records a failure in w->r.status. NULL: the product stays unchanged. */
static xcc_value *pairs_of(bf16_rewrite *w, xcc_value *v, bool filters)
{
    for (const rounded *k = w->known; k != NULL; k = k->next)
        if (k->from == v)
            return k->pairs;
    rounded *entry = xcc_alloc(w->r.m, sizeof *entry);
    if (!xcc_rewrite_ok(&w->r, entry != NULL ? XCVM_OK : w->r.m->error->status))
        return NULL;
    *entry = (rounded){.from = v, .next = w->known};
    w->known = entry;
    if (xcc_in_range(v, XCVM_BF16)) {
        entry->pairs = make_pairs(w->r.m, v, filters);
        (void)xcc_rewrite_ok(&w->r, entry->pairs != NULL ? XCVM_OK : w->r.m->error->status);
    } else {
        /* If weights are stored as bf16, weight compression counts it. */
        w->r.m->compilation->uncompressed += w->r.m->options->weights.dtype != XCVM_BF16;
    }
    return entry->pairs;
}

static bool is_weight(const xcc_value *v) { return xcc_is_constant(v) && v->type.dtype == XCVM_F32; }

static xcc_value *product_of_pairs(bf16_rewrite *w, xcc_node *n)
{
    const xcvm_PackedGemm_args *a = XCC_ARGS(PackedGemm, n);
    xcc_value *panels = xcc_value_of(a->w), *pairs = is_weight(panels) ? pairs_of(w, panels, false) : NULL;
    if (pairs == NULL)
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    return xcc_apply(&b, Bf16Gemm, y, .a = a->a, .w = XCC_IN(pairs), .c = a->c, .z = a->z, .columns = a->columns,
                     .activation = a->activation, .activation_params = a->activation_params);
}

static xcc_value *convolution_of_pairs(bf16_rewrite *w, xcc_node *n)
{
    xcvm_BlockedConv_args a = *XCC_ARGS(BlockedConv, n);
    xcc_value *filters = xcc_value_of(a.w);
    if (a.algorithm != XCVM_BLOCKED_direct || !is_weight(filters) ||
        !xcvm_blocked_takes_pairs(filters->type.dims[1], a.dilations, a.x->rank == (int)a.strides.count + 2))
        return NULL;
    xcc_value *pairs = pairs_of(w, filters, true);
    if (pairs == NULL)
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    a.w = XCC_IN(pairs);
    a.algorithm = XCVM_BLOCKED_direct_pairs;
    return xcc_apply_at(&b, XCVM_OP_BlockedConv, &a, offsetof(xcvm_BlockedConv_args, y));
}

static bool multiplies(const xcc_node *n)
{
    static const xcvm_opcode products[] = {XCVM_OP_PackedGemm,
                                           XCVM_OP_Gemm,
                                           XCVM_OP_MatMul,
                                           XCVM_OP_Conv,
                                           XCVM_OP_ConvTranspose,
                                           XCVM_OP_BlockedConv,
                                           XCVM_OP_BlockedConvTranspose,
                                           XCVM_OP_Attention,
                                           XCVM_OP_PackedRNN,
                                           XCVM_OP_PackedGRU,
                                           XCVM_OP_PackedLSTM,
                                           XCVM_OP_RNN,
                                           XCVM_OP_GRU,
                                           XCVM_OP_LSTM};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (xcc_is(n, products[i]))
            return true;
    return false;
}

static void round_products(bf16_rewrite *w, xcc_graph *g)
{
    for (xcc_node *n = g->first, *next; n != NULL && w->r.status == XCVM_OK; n = next) {
        next = n->next;
        for (size_t i = 0; i < n->body_count; i++)
            round_products(w, n->bodies[i]);
        if (!xcc_rewrite_ok(&w->r, xcc_poll(w->r.m)) || !multiplies(n))
            continue;
        xcc_value *y = xcc_is(n, XCVM_OP_PackedGemm)    ? product_of_pairs(w, n)
                       : xcc_is(n, XCVM_OP_BlockedConv) ? convolution_of_pairs(w, n)
                                                        : NULL;
        w->r.m->compilation->bf16_products += y != NULL;
        w->r.m->compilation->exact_products += y == NULL;
        if (y != NULL && xcc_rewrite_replace(&w->r, xcc_node_output(n, 0), y))
            xcc_rewrite_sweep(n);
    }
}

xcvm_status xcc_pass_compute(xcc_module *m)
{
    bf16_rewrite w = {.r = {.m = m}};
    if (m->options->weights.compute == XCVM_BF16)
        round_products(&w, m->graph);
    return w.r.status;
}
