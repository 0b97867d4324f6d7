/* Prepacking of constant matrices. MatMul and Gemm become PackedGemm, and so does ConvTranspose of a single position.
 * Recurrent networks are split into the product with their whole input and the rest. */
#include "compiler/passes/prepack.h"

#include "ops/matmul/packed.h"

#include <math.h>
#include <string.h>

enum {
    /* Up to this many columns, a product is inner products, for which the constant's layout is already good. */
    FEW_COLUMNS = 8,
    /* Maximum outputs of a ConvTranspose position, over all positions of the square, that fit in one block of channels.
     */
    MOST_SPREAD = 16,
    /* A constant of more bytes is not stored twice, for products and for other uses than lookups of rows. */
    LARGE = 1 << 20,
    /* Maximum copies of a constant, scaled by different numbers. */
    MOST_WAYS = 8
};

float *xcc_pack_floats(xcc_rewrite *r, int rank, const int64_t *dims, xcc_value **constant)
{
    *constant = xcc_constant_blank(r->m->graph, XCVM_F32, rank, dims);
    if (*constant == NULL) {
        r->status = r->m->error->status;
        return NULL;
    }
    memset((*constant)->type.data, 0, (*constant)->type.bytes);
    return (*constant)->type.data;
}

/* ---- Products ---- */

/* A product with a constant in terms of Gemm. */
typedef struct product {
    xcvm_Gemm_args a;
    xcc_value *w;
    int64_t rows, columns; /* of the right matrix */
} product;

static bool read_product(const xcc_node *n, product *p)
{
    if (xcc_is(n, XCVM_OP_Gemm)) {
        p->a = *XCC_ARGS(Gemm, n);
    } else if (xcc_is(n, XCVM_OP_MatMul)) {
        const xcvm_MatMul_args *a = XCC_ARGS(MatMul, n);
        p->a = (xcvm_Gemm_args){.y = a->y, .a = a->a, .b = a->b, .alpha = 1.0, .activation = XCVM_ACTIVATION_none};
    } else {
        return false;
    }
    p->w = xcc_value_of(p->a.b);
    if (p->a.transA || p->a.a->rank < 1 || p->w->type.dtype != XCVM_F32 || p->w->type.rank != 2 ||
        !xcc_is_constant(p->w) || !isfinite(p->a.alpha))
        return false;
    p->rows = p->w->type.dims[p->a.transB ? 1 : 0];
    p->columns = p->w->type.dims[p->a.transB ? 0 : 1];
    return p->columns > FEW_COLUMNS && p->columns <= INT32_MAX;
}

/* One packed form of a constant. */
typedef struct packed {
    double alpha;
    bool transposed;
    xcc_value *panels;
    struct packed *next;
} packed;

/* Cached facts about a constant in products, so that shared ones are examined and packed once. */
typedef struct known {
    bool seen, gives_way;
    packed *done;
} known;

typedef struct packer {
    xcc_rewrite r;
    known *constants; /* by value id */
    size_t count;     /* later values have no entry */
} packer;

/* Returns true if all users of the constant would use the packed form or look up rows, as an embedding whose weights
 * are those of the last product. Exporters store such weights twice, too. */
static bool everyone_packs(const xcc_value *w)
{
    for (const xcc_use *u = w->users; u != NULL; u = u->next) {
        product p;
        if (u->node == NULL || u->node->kind != XCC_INSTRUCTION)
            return false;
        const bool looks_up = xcc_is(u->node, XCVM_OP_Gather) && u->index == 0;
        if (!looks_up && (u->index != 1 || !read_product(u->node, &p)))
            return false;
    }
    return true;
}

static bool gives_way(packer *k, const xcc_value *w)
{
    if (w->type.bytes <= LARGE)
        return true;
    known *of = &k->constants[w->id];
    if (!of->seen)
        of->gives_way = everyone_packs(w);
    of->seen = true;
    return of->gives_way;
}

static xcc_value *pack(packer *k, const product *p)
{
    packed **done = &k->constants[p->w->id].done;
    size_t ways = 0;
    for (const packed *d = *done; d != NULL; d = d->next, ways++)
        if (d->alpha == p->a.alpha && d->transposed == (p->a.transB != 0))
            return d->panels;
    if (ways == MOST_WAYS)
        return NULL;
    packed *entry = xcc_alloc(k->r.m, sizeof *entry);
    if (entry == NULL)
        return xcc_rewrite_ok(&k->r, XCVM_OUT_OF_MEMORY), NULL;
    *entry = (packed){.alpha = p->a.alpha, .transposed = p->a.transB != 0, .next = *done};
    const int64_t dims[] = {(int64_t)xcvm_packed_panels((size_t)p->columns), p->rows, XCVM_PACKED_COLUMNS};
    float *panels = xcc_pack_floats(&k->r, 3, dims, &entry->panels);
    if (panels == NULL)
        return NULL;
    const size_t rows = (size_t)p->rows, columns = (size_t)p->columns;
    xcvm_packed_write(rows, columns, p->w->type.data, p->a.transB ? 1 : columns, p->a.transB ? rows : 1,
                      (float)p->a.alpha, panels);
    *done = entry;
    return entry->panels;
}

/* Converts Gemm's addend to one number per column, or to a tensor of the result's shape. */
static bool addend(packer *k, const product *p, const xcc_value *y, xcc_value **c, xcc_value **z)
{
    const xcvm_value *added = p->a.beta != 0.0 ? p->a.c : NULL;
    *c = *z = NULL;
    if (added == NULL)
        return true;
    xcc_value *v = xcc_value_of(added);
    if (p->a.beta == 1.0 && added->rank == 1 && added->dims[0] == p->columns) {
        *c = v;
        return true;
    }
    if (p->a.beta == 1.0 && xcc_same_type(v, y)) {
        *z = v;
        return true;
    }
    const size_t count = xcc_is_constant(v) ? xcvm_element_count(added) : 0, columns = (size_t)p->columns;
    if (count != 1 && (count != columns || added->dims[added->rank - 1] != p->columns))
        return false;
    float *bias = xcc_pack_floats(&k->r, 1, &p->columns, c);
    for (size_t i = 0; bias != NULL && i < columns; i++)
        bias[i] = (float)(p->a.beta * (double)XCVM_CDATA(float, added)[count == 1 ? 0 : i]);
    return bias != NULL;
}

static void pack_product(packer *k, xcc_node *n)
{
    product p;
    xcc_value *y = xcc_node_output(n, 0), *c, *z;
    if (!read_product(n, &p) || !gives_way(k, p.w) || !addend(k, &p, y, &c, &z))
        return;
    xcc_value *panels = pack(k, &p);
    if (panels == NULL)
        return;
    xcc_builder b = xcc_builder_before(n);
    if (xcc_rewrite_replace(&k->r, y,
                            xcc_apply(&b, PackedGemm, y, .a = p.a.a, .w = XCC_IN(panels), .c = XCC_IN(c),
                                      .z = XCC_IN(z), .columns = p.columns, .activation = p.a.activation,
                                      .activation_params = p.a.activation_params)))
        xcc_rewrite_sweep(n);
}

static void pack_graph(packer *k, xcc_graph *g)
{
    for (xcc_node *n = g->first, *next; n != NULL && k->r.status == XCVM_OK; n = next) {
        next = n->next;
        if (!xcc_rewrite_ok(&k->r, xcc_poll(k->r.m)))
            break;
        if (n->kind == XCC_INSTRUCTION) {
            pack_product(k, n);
            continue;
        }
        for (size_t i = 0; i < n->body_count; i++)
            pack_graph(k, n->bodies[i]);
    }
}

/* A tensor added to a product, as in transformer blocks. */
static bool residual(xcc_rewrite *r, xcc_node *n)
{
    xcc_value *y = xcc_node_output(n, 0);
    for (size_t i = 2; i-- > 0;) {
        xcc_value *x = xcc_node_input(n, i), *z = xcc_node_input(n, 1 - i);
        const xcc_node *gemm = xcc_sole_producer(x, XCVM_OP_PackedGemm);
        if (gemm == NULL || !xcc_same_type(x, y) || !xcc_same_type(z, y))
            continue;
        xcvm_PackedGemm_args a = *XCC_ARGS(PackedGemm, gemm);
        if (a.activation != XCVM_ACTIVATION_none || a.z != NULL)
            continue;
        a.z = &z->type;
        xcc_builder b = xcc_builder_before(x->producer);
        b.before = n;
        return xcc_rewrite_replace(r, y, xcc_apply_at(&b, XCVM_OP_PackedGemm, &a, offsetof(xcvm_PackedGemm_args, y)));
    }
    return false;
}

/* ---- Transposed convolutions ---- */

/* The bias of each of y's channels, repeated for all `taps` window positions; NULL: the failure is recorded. */
static xcc_value *spread_bias(xcc_rewrite *r, const xcvm_value *b, size_t taps)
{
    xcc_value *spread;
    const size_t channels = xcvm_element_count(b);
    const int64_t count = (int64_t)(channels * taps);
    float *to = xcc_pack_floats(r, 1, &count, &spread);
    for (size_t i = 0; to != NULL && i < channels * taps; i++)
        to[i] = XCVM_CDATA(float, b)[i / taps];
    return to != NULL ? spread : NULL;
}

/* An image of one position with an uncropped window: a product with the filters. */
static bool of_a_point(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    const xcc_value *w = xcc_value_of(a->w), *b = xcc_value_of(a->b);
    const int rank = a->x->rank;
    if (a->group != 1 || rank < 3 || a->pads.count == 0 || !xcc_is_constant(w) || w->type.dtype != XCVM_F32 ||
        w->type.rank != rank || (b != NULL && !xcc_is_constant(b)))
        return false;
    for (int i = 2; i < rank; i++)
        if (a->x->dims[i] != 1 || a->y->dims[i] != w->type.dims[i] || a->pads.at[i - 2] != 0 ||
            (a->dilations.at[i - 2] != 1 && w->type.dims[i] != 1))
            return false;
    int64_t flat[] = {0, w->type.dims[0]}, spread[XCVM_MAX_RANK] = {0}, columns = 1;
    for (int i = 1; i < rank; i++) {
        spread[i] = w->type.dims[i];
        columns *= spread[i];
    }
    if (columns <= FEW_COLUMNS || columns > INT32_MAX || !xcc_may_copy(r->m, w->type.bytes))
        return false;
    const int64_t dims[] = {(int64_t)xcvm_packed_panels((size_t)columns), flat[1], XCVM_PACKED_COLUMNS};
    xcc_value *weights, *bias = NULL;
    float *panels = xcc_pack_floats(r, 3, dims, &weights);
    if (panels == NULL)
        return false;
    xcvm_packed_write((size_t)flat[1], (size_t)columns, w->type.data, (size_t)columns, 1, 1.0f, panels);
    if (b != NULL && (bias = spread_bias(r, a->b, (size_t)(columns / spread[1]))) == NULL)
        return false;
    xcc_builder builder = xcc_builder_before(n);
    const xcc_value *from = xcc_constant_i64(n->graph, 2, flat), *to = xcc_constant_i64(n->graph, (size_t)rank, spread);
    xcc_value *y =
        from != NULL && to != NULL ? xcc_apply(&builder, Reshape, y, .x = a->x, .shape = XCC_IN(from)) : NULL;
    if (y != NULL)
        y = xcc_apply(&builder, PackedGemm, y, .a = XCC_IN(y), .w = XCC_IN(weights), .c = XCC_IN(bias),
                      .columns = columns, .activation = XCVM_ACTIVATION_none);
    if (y != NULL)
        y = xcc_apply(&builder, Reshape, y, .x = XCC_IN(y), .shape = XCC_IN(to));
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), y);
}

/* Non-overlapping windows with few outputs: each position of x gives a separate square of y. With all positions of the
 * square as channels, this is a pointwise convolution with one block of channels. */
static bool side_by_side(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_ConvTranspose_args *a = XCC_ARGS(ConvTranspose, n);
    const xcc_value *w = xcc_value_of(a->w), *b = xcc_value_of(a->b);
    if (a->group != 1 || a->x->rank != 4 || !xcc_is_constant(w) || w->type.dtype != XCVM_F32 || w->type.rank != 4 ||
        (b != NULL && !xcc_is_constant(b)))
        return false;
    const int64_t *d = w->type.dims, side = d[2], taps = side * side;
    if (side < 2 || side > MOST_SPREAD || d[3] != side || d[0] < 1 || d[1] < 1 || d[1] * taps > MOST_SPREAD ||
        !xcc_all_are(a->strides, side) || !xcc_all_are(a->pads, 0) || !xcc_all_are(a->output_padding, 0) ||
        !xcc_all_are(a->dilations, 1))
        return false;
    const int64_t outputs = d[1] * taps, dims[] = {outputs, d[0], 1, 1};
    static const int64_t ones[] = {1, 1}, zeros[] = {0, 0, 0, 0};
    xcc_value *weights, *bias = NULL;
    float *to = xcc_pack_floats(r, 4, dims, &weights);
    if (to == NULL)
        return false;
    for (int64_t k = 0; k < outputs; k++)
        for (int64_t c = 0; c < d[0]; c++)
            to[k * d[0] + c] = XCVM_CDATA(float, &w->type)[c * outputs + k];
    if (b != NULL && (bias = spread_bias(r, a->b, (size_t)taps)) == NULL)
        return false;
    xcc_builder builder = xcc_builder_before(n);
    xcc_value *y = xcc_apply(&builder, Conv, y, .x = a->x, .w = XCC_IN(weights), .b = XCC_IN(bias),
                             .strides = {ones, 2}, .pads = {zeros, 4}, .dilations = {ones, 2}, .group = 1);
    if (y != NULL)
        y = xcc_apply(&builder, DepthToSpace, y, .x = XCC_IN(y), .blocksize = side, .mode = XCVM_DEPTH_MODE_CRD);
    return xcc_rewrite_replace(r, xcc_node_output(n, 0), y);
}

xcvm_status xcc_pass_prepack(xcc_module *m)
{
    static const xcc_rule rules[] = {
        {XCVM_OP_RNN, xcc_pack_recurrent, "with constant weights"},
        {XCVM_OP_GRU, xcc_pack_recurrent, "with constant weights"},
        {XCVM_OP_LSTM, xcc_pack_recurrent, "with constant weights"},
        {XCVM_OP_Add, residual, "residual after a PackedGemm"},
        {XCVM_OP_ConvTranspose, of_a_point, "a single position"},
        {XCVM_OP_ConvTranspose, side_by_side, "adjacent windows with few outputs"},
    };
    packer k = {.r = {.m = m}, .count = m->value_count};
    const size_t bytes = k.count * sizeof *k.constants;
    k.constants = xcvm_allocate_zeroed(m->allocator, bytes);
    if (k.constants == NULL)
        return xcc_out_of_memory(m);
    pack_graph(&k, m->graph);
    xcvm_deallocate(m->allocator, k.constants, bytes);
    XCVM_TRY(k.r.status);
    return xcc_rewrite_run(m, rules, sizeof rules / sizeof *rules, NULL);
}
