/* Integer regions: LSTM with quantized weights. The model does not quantize the states, so arithmetic is in floats, but
 * weights stay bytes. States are multiplied in two terms of 8 bits, which together have 16 bits of precision, and the
 * input as bytes if the model quantizes it, else as floats. */
#include "compiler/ir/block_weights.h"
#include "compiler/ir/compilation.h"
#include "compiler/passes/integer.h"
#include "ops/matmul/packed.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/util/quads.h"

#include <string.h>

enum {
    GATES = 4,
    RESULTS = 3,
    PANEL = XCVM_PACKED_COLUMNS,
    /* Maximum rows of a sum of bytes that fits in 32 bits. */
    MOST_ROWS = 1 << 16,
    /* Rows of weights that are summed before scaling. */
    BLOCK_ROWS = 512
};

typedef struct network {
    const xcvm_LSTM_args *a;
    xcc_integer_weights w, r;                  /* directions x gates * hidden x depth */
    size_t hidden, inputs, directions, panels; /* panels of all directions */
} network;

static bool pays(const xcc_module *m)
{
    return m->options->quantized.integers == XCC_INTEGER_ALWAYS || xcvm_quads_at_once();
}

static bool has_dims(const xcvm_value *v, int64_t first, int64_t second, int64_t third)
{
    return v->rank == 3 && v->dims[0] == first && v->dims[1] == second && v->dims[2] == third;
}

static bool read_network(xcc_rewrite *r, const xcc_node *n, network *k)
{
    const xcvm_LSTM_args *a = XCC_ARGS(LSTM, n);
    *k = (network){.a = a, .hidden = (size_t)a->hidden_size};
    k->directions = a->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    k->panels = k->directions * GATES * xcvm_packed_panels(k->hidden);
    const int64_t directions = (int64_t)k->directions, rows = GATES * a->hidden_size;
    if (a->x->dtype != XCVM_F32 || a->x->rank != 3 || a->w->rank != 3 || a->hidden_size > MOST_ROWS ||
        a->w->dims[2] < 1 || a->w->dims[2] > MOST_ROWS || !has_dims(a->w, directions, rows, a->w->dims[2]) ||
        !has_dims(a->r, directions, rows, a->hidden_size))
        return false;
    k->inputs = (size_t)a->w->dims[2];
    const xcc_value *b = xcc_value_of(a->b);
    return (b == NULL || (xcc_is_constant(b) && xcvm_element_count(a->b) == (size_t)(2 * directions * rows))) &&
           xcc_integer_read_weights(r, xcc_value_of(a->w), 1, &k->w) &&
           xcc_integer_read_weights(r, xcc_value_of(a->r), 1, &k->r);
}

/* Some adjacent units of a gate of a direction: the first one, and the bytes of its weights. */
typedef struct unit_panel {
    size_t row, units; /* within a direction */
    const int8_t *bytes;
} unit_panel;

static unit_panel panel_at(const network *k, const xcc_integer_weights *w, size_t depth, size_t index)
{
    const size_t each = k->panels / k->directions, unit = index % each / GATES * PANEL;
    const size_t row = index % GATES * k->hidden + unit;
    return (unit_panel){row, xcvm_min(k->hidden - unit, PANEL),
                        w->bytes + (index / each * GATES * k->hidden + row) * depth};
}

/* Weights as s8 panels of quads, with the sum and the scale of each column. */
typedef struct columns {
    xcc_value *panels, *sums, *scales;
} columns;

/* Scales are multiplied by `unit`, the scale of the other operand. */
static bool pack(xcc_graph *g, const network *k, const xcc_integer_weights *w, size_t depth, float unit, columns *to)
{
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, depth, 1);
    const int64_t count = (int64_t)(k->panels * PANEL);
    const int64_t dims[] = {(int64_t)k->panels, (int64_t)runs.quads, XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD};
    const size_t steps[] = {depth, 1, 0, 0};
    to->panels = xcc_constant_blank(g, XCVM_I8, 4, dims);
    to->sums = xcc_constant_blank(g, XCVM_I32, 1, &count);
    to->scales = xcc_constant_blank(g, XCVM_F32, 1, &count);
    if (to->panels == NULL || to->sums == NULL || to->scales == NULL)
        return false;
    int32_t *sums = to->sums->type.data;
    float *scales = to->scales->type.data;
    memset(sums, 0, (size_t)count * sizeof *sums);
    memset(scales, 0, (size_t)count * sizeof *scales);
    for (size_t i = 0; i < k->panels; i++, sums += PANEL, scales += PANEL) {
        const unit_panel p = panel_at(k, w, depth, i);
        xcvm_quantized_pack(p.bytes, steps, 1, p.units, depth, 1, 1, &runs,
                            XCVM_DATA(int8_t, &to->panels->type) + i * runs.quads * XCVM_QUANTIZED_LINE);
        for (size_t j = 0; j < p.units; j++) {
            scales[j] = xcc_integer_scale_at(w, p.row + j) * unit;
            for (size_t d = 0; d < depth; d++)
                sums[j] += p.bytes[j * depth + d];
        }
    }
    return true;
}

/* The sum of both biases of each column; NULL: none, or no memory. */
static xcc_value *pack_biases(xcc_graph *g, const network *k)
{
    const int64_t count = (int64_t)(k->panels * PANEL);
    xcc_value *bias = k->a->b != NULL ? xcc_constant_blank(g, XCVM_F32, 1, &count) : NULL;
    for (size_t d = 0; bias != NULL && d < k->directions; d++)
        xcvm_packed_write_biases(GATES, k->hidden, XCVM_CDATA(float, k->a->b) + d * 2 * GATES * k->hidden,
                                 XCVM_DATA(float, &bias->type) + d * k->panels / k->directions * PANEL, NULL);
    return bias;
}

/* The product of bytes with all directions' weights, as floats. */
static xcc_value *project_bytes(xcc_builder *b, const network *k, const xcc_dequantized *x, const xcc_value *bias)
{
    columns w;
    if (!pack(b->graph, k, &k->w, k->inputs, x->scale, &w))
        return NULL;
    /* The addend of the sums is minus the zero point times the column sums. */
    int32_t *sums = w.sums->type.data;
    for (size_t i = 0; i < k->panels * PANEL; i++)
        sums[i] *= -x->zero;
    xcc_region_tensor q = xcc_region_value(b, x->q, false);
    return q.v == NULL ? NULL
                       : xcc_apply(b, QuantizedGemm, y, .a = XCC_IN(q.v), .w = XCC_IN(w.panels), .b = XCC_IN(w.sums),
                                   .scale = XCC_IN(w.scales), .shift = XCC_IN(bias), .output_dtype = XCVM_F32,
                                   .high = UINT8_MAX);
}

/* The same for floats, with one scale per column of weights. */
static xcc_value *project_floats(xcc_builder *b, const network *k, const xcc_value *bias)
{
    const size_t rows = xcvm_round_up(k->inputs, XCVM_QBLOCKS_LEAST);
    const xcvm_qblocks layout = {
        .k = k->inputs, .n = k->panels * PANEL, .block = xcvm_min(rows, BLOCK_ROWS), .bits = 8};
    xcc_block_weights w;
    if (xcc_block_weights_create(b->graph, &layout, XCVM_F32, XCVM_NO_DTYPE, &w) != XCVM_OK)
        return NULL;
    float *scales = XCVM_DATA(float, &w.scales->type);
    for (size_t i = 0; i < k->panels; i++) {
        const unit_panel p = panel_at(k, &k->w, k->inputs, i);
        for (size_t j = 0; j < p.units; j++) {
            for (size_t d = 0; d < k->inputs; d++)
                xcc_block_weights_set(&w, d, i * PANEL + j, (unsigned)(p.bytes[j * k->inputs + d] + 128));
            for (size_t d = 0; d < k->inputs; d += layout.block)
                scales[xcvm_qblocks_scale_at(&layout, d, i * PANEL + j)] = xcc_integer_scale_at(&k->w, p.row + j);
        }
    }
    const xcvm_PackedGemm_args rest = {.c = XCC_IN(bias), .activation = XCVM_ACTIVATION_none};
    return xcc_block_weights_product(b, &w, k->a->x, &rest);
}

/* Returns true if all scales of weights times `unit` are in the range of f32. */
static bool have_products(const xcc_integer_weights *w, float unit)
{
    float scale;
    for (size_t i = 0; i < xcvm_element_count(w->scale); i++)
        if (!xcc_scale_of_product(unit, xcc_integer_scale_at(w, i), 1, &scale))
            return false;
    return true;
}

static bool replace_results(xcc_rewrite *r, xcc_node *n, xcc_value *const results[RESULTS])
{
    bool done = false;
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (results[i] != NULL)
            done = xcc_rewrite_replace(r, xcc_node_output(n, i), results[i]) || done;
    return done;
}

bool xcc_integer_lstm(xcc_rewrite *r, xcc_node *n)
{
    network k;
    columns state;
    xcc_dequantized x;
    xcc_value *y[RESULTS] = {NULL};
    if (!pays(r->m) || !read_network(r, n, &k) || !xcc_may_copy(r->m, k.w.q->bytes + k.r.q->bytes))
        return false;
    xcc_builder b = xcc_builder_before(n);
    const xcc_value *bias = pack_biases(n->graph, &k);
    if ((k.a->b != NULL && bias == NULL) || !pack(n->graph, &k, &k.r, k.hidden, 1.0f, &state))
        return xcc_rewrite_ok(r, r->m->error->status) && false;
    const bool by_bytes = xcc_dequantized_of(xcc_value_of(k.a->x), &x) && have_products(&k.w, x.scale);
    xcc_value *projected = by_bytes ? project_bytes(&b, &k, &x, bias) : project_floats(&b, &k, bias);
    for (size_t i = 0; projected != NULL && i < xcc_node_output_count(n); i++)
        if (xcc_node_output(n, i) != NULL && (y[i] = xcc_value_create(n->graph, NULL)) == NULL)
            projected = NULL;
    const xcvm_LSTM_args *a = k.a;
    if (projected == NULL ||
        xcc_emit(&b, QuantizedLSTM, .y = XCC_OUT(y[0]), .y_h = XCC_OUT(y[1]), .y_c = XCC_OUT(y[2]),
                 .x = XCC_IN(projected), .r = XCC_IN(state.panels), .sums = XCC_IN(state.sums),
                 .scale = XCC_IN(state.scales), .sequence_lens = a->sequence_lens, .initial_h = a->initial_h,
                 .initial_c = a->initial_c, .p = a->p, .hidden_size = a->hidden_size, .direction = a->direction,
                 .layout = a->layout, .input_forget = a->input_forget, .activations = a->activations,
                 .activation_alpha = a->activation_alpha, .activation_beta = a->activation_beta, .clip = a->clip,
                 .two_terms = 1) == NULL)
        return xcc_rewrite_ok(r, r->m->error->status) && false;
    r->m->compilation->weight_bytes_before += (k.w.q->bytes + k.r.q->bytes) * sizeof(float);
    r->m->compilation->weight_bytes_after +=
        xcc_node_input(projected->producer, 1)->type.bytes + state.panels->type.bytes;
    return replace_results(r, n, y);
}

void xcc_integer_count_left_lstm(xcc_module *m, const xcc_node *n)
{
    if (!xcc_is(n, XCVM_OP_LSTM))
        return;
    const xcc_node *w = xcc_producer(xcc_node_input(n, 1), XCVM_OP_DequantizeLinear);
    if (w == NULL || !xcc_is_constant(xcc_node_input(w, 0)))
        return;
    m->compilation->integers.left++;
    m->compilation->integers.slower += !pays(m);
}
