/* DynamicQuantizeLSTM: as integers where the processor gains by them, else with weights that are dequantized ahead of
 * time. */
#include "compiler/import_onnx/contrib/contrib.h"
#include "compiler/ir/compilation.h"
#include "ops/matmul/packed.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/util/quads.h"

enum { GATES = 4, PANEL = XCVM_PACKED_COLUMNS, W = 1, R = 2, BIAS = 3, SCALES = 8, OPERANDS = 8, RESULTS = 3 };

/* ---- As floats ---- */

/* Weights [directions, in, 4 * hidden], whose scales are one for each direction, or for each column, as floats in the
 * order of ONNX's LSTM. */
static xcc_value *recurrence_weights(xcc_lowering *n, xcc_value *w, xcc_value *scale, xcc_value *zero)
{
    if (scale->type.rank < 1 || scale->type.rank > 2) {
        xcvm_error_set(n->m->error, XCVM_SHAPE_MISMATCH, "a scale has %d dimensions, 1 or 2 are expected",
                       scale->type.rank);
        return NULL;
    }
    const int64_t column[] = {1}, both[] = {1, 2};
    const bool single = scale->type.rank == 1;
    xcc_value *s = xcc_build_unsqueeze(&n->b, scale, single ? 2 : 1, single ? both : column);
    xcc_value *z = xcc_build_unsqueeze(&n->b, zero, single ? 2 : 1, single ? both : column);
    xcc_value *centered = xcc_build_sub(&n->b, xcc_build_cast(&n->b, w, XCVM_F32), xcc_build_cast(&n->b, z, XCVM_F32));
    return xcc_build_transpose(&n->b, xcc_build_mul(&n->b, centered, s), 3, (const int64_t[]){0, 2, 1});
}

/* ---- As integers ---- */

/* Weights of bytes around the middle of their type, as s8 [directions, depth, GATES * hidden]. */
typedef struct weights {
    const int8_t *bytes;
    const xcvm_value *scale; /* one for each direction, or for each column */
    size_t depth;
} weights;

typedef struct network {
    const xcvm_LSTM_args *a;           /* the same network of floats */
    const xcvm_value *b;               /* its biases; NULL: none */
    size_t directions, hidden, panels; /* panels of one direction */
    weights w, r;
} network;

/* Returns true if there is one per direction, or one per column of each direction. */
static bool fits_columns(const xcvm_value *v, size_t directions, size_t columns)
{
    const size_t count = xcvm_element_count(v);
    return v->rank >= 1 && v->rank <= 2 && (count == directions || count == directions * columns);
}

static bool read_weights(xcc_lowering *n, size_t index, const network *k, weights *to)
{
    const size_t at = SCALES + 2 * (index - W);
    const xcc_value *q = n->inputs[index], *scale = n->inputs[at], *zero = n->inputs[at + 1];
    const size_t columns = GATES * k->hidden;
    if (!xcc_is_constant(q) || !xcc_is_constant(scale) || !xcc_is_constant(zero) || scale->type.dtype != XCVM_F32 ||
        q->type.dims[0] != (int64_t)k->directions || q->type.dims[2] != (int64_t)columns || q->type.dims[1] < 1)
        return false;
    if (!fits_columns(&scale->type, k->directions, columns) || !fits_columns(&zero->type, k->directions, columns))
        return false;
    const int middle = q->type.dtype == XCVM_U8 ? 128 : 0;
    for (size_t i = 0; i < xcvm_element_count(&zero->type); i++)
        if (xcvm_element_as_int(&zero->type, i) != middle)
            return false;
    *to = (weights){q->type.data, &scale->type, (size_t)q->type.dims[1]};
    if (middle == 0)
        return true;
    int8_t *copy = xcc_may_copy(n->m, q->type.bytes) ? xcc_alloc(n->m, q->type.bytes + 1) : NULL;
    for (size_t i = 0; copy != NULL && i < q->type.bytes; i++)
        copy[i] = (int8_t)(XCVM_CDATA(uint8_t, &q->type)[i] - middle);
    to->bytes = copy;
    return copy != NULL;
}

/* Returns true if the options allow integers. The report counts networks that they forbid. */
static bool may_be_integers(const xcc_options *o)
{
    return !o->backprop && o->train == NULL && !o->training.evaluate && o->quantized.integers != XCC_INTEGER_NEVER &&
           (o->optimization == 0 || o->optimization >= 2);
}

/* Reads the properties of the network from the operands; false: it cannot be computed in integers. */
static bool read_network(xcc_lowering *n, network *k)
{
    const xcc_value *x = n->inputs[0], *b = xcc_input(n, BIAS);
    const int64_t *dims = n->inputs[R]->type.dims;
    if (x->type.dtype != XCVM_F32 || x->type.rank != 3 || (dims[0] != 1 && dims[0] != 2) || dims[1] < 1)
        return false;
    *k = (network){
        .b = b != NULL ? &b->type : NULL, .directions = (size_t)dims[0], .hidden = (size_t)dims[1], .panels = GATES};
    k->panels *= xcvm_packed_panels(k->hidden);
    if (b != NULL && (!xcc_is_constant(b) || b->type.dtype != XCVM_F32 ||
                      xcvm_element_count(&b->type) != k->directions * 2 * GATES * k->hidden))
        return false;
    return read_weights(n, W, k, &k->w) && read_weights(n, R, k, &k->r);
}

/* Returns true if the network becomes one of integers. The report counts it. */
static bool chooses_integers(xcc_lowering *n, network *k)
{
    const xcc_options *o = n->m->options;
    if (!may_be_integers(o))
        return false;
    const bool pays = o->quantized.integers == XCC_INTEGER_ALWAYS || xcvm_quads_at_once(),
               chosen = pays && read_network(n, k);
    n->m->compilation->integers.slower += !pays;
    n->m->compilation->integers.left += !chosen;
    return chosen;
}

/* A tensor of the weights' float type, for an LSTM that is created only for its attributes. */
static xcc_value *placeholder(xcc_lowering *n, const xcc_value *w)
{
    xcc_value *v = xcc_value_create(n->b.graph, NULL);
    if (v != NULL)
        xcvm_value_set_tensor(&v->type, XCVM_F32, 3,
                              (const int64_t[]){w->type.dims[0], w->type.dims[2], w->type.dims[1]});
    return v;
}

/* Packed column `at` of all directions' as a column of the model's, from its first direction on; false: it fills up a
 * panel. */
static bool source_of(const network *k, size_t at, size_t *direction, size_t *column)
{
    const size_t panel = at / PANEL % k->panels, unit = panel / GATES * PANEL + at % PANEL;
    *direction = at / PANEL / k->panels;
    *column = panel % GATES * k->hidden + unit;
    return unit < k->hidden;
}

/* Scales of packed columns, 0 for padding. */
static xcc_value *pack_scales(xcc_lowering *n, const network *k, const weights *w)
{
    const int64_t count = (int64_t)(k->directions * k->panels * PANEL);
    const bool single = xcvm_element_count(w->scale) == k->directions;
    xcc_value *scales = xcc_constant_blank(n->b.graph, XCVM_F32, 1, &count);
    for (int64_t j = 0; scales != NULL && j < count; j++) {
        size_t d, column;
        const bool is = source_of(k, (size_t)j, &d, &column);
        XCVM_DATA(float, &scales->type)
        [j] = !is ? 0.0f : XCVM_CDATA(float, w->scale)[single ? d : d * GATES * k->hidden + column];
    }
    return scales;
}

/* The input's product with all directions' weights, biases added, as ONNX has it: with columns of packed order. */
static xcc_value *project(xcc_lowering *n, const network *k)
{
    xcc_builder *b = &n->b;
    const size_t count = k->directions * k->panels * PANEL;
    const int64_t dims[] = {(int64_t)k->w.depth, (int64_t)count};
    xcc_value *w = xcc_constant_blank(b->graph, XCVM_I8, 2, dims), *scales = pack_scales(n, k, &k->w);
    xcc_value *q = xcc_value_create(b->graph, NULL), *scale = xcc_value_create(b->graph, NULL),
              *zero = xcc_value_create(b->graph, NULL);
    if (w == NULL || scales == NULL || q == NULL || scale == NULL || zero == NULL)
        return NULL;
    for (size_t j = 0; j < count; j++) {
        size_t d, column;
        const bool is = source_of(k, j, &d, &column);
        for (size_t p = 0; p < k->w.depth; p++)
            XCVM_DATA(int8_t, &w->type)
        [p * count + j] = is ? k->w.bytes[(d * k->w.depth + p) * GATES * k->hidden + column] : 0;
    }
    if (xcc_emit(b, DynamicQuantizeLinear, .y = XCC_OUT(q), .scale = XCC_OUT(scale), .zero_point = XCC_OUT(zero),
                 .x = k->a->x) == NULL)
        return NULL;
    xcc_value *y = xcc_apply(b, MatMulInteger, y, .a = XCC_IN(q), .b = XCC_IN(w), .a_zero_point = XCC_IN(zero));
    y = y != NULL ? xcc_build_cast(b, y, XCVM_F32) : NULL;
    xcc_value *both = xcc_build_mul(b, scale, scales);
    y = y != NULL && both != NULL ? xcc_build_mul(b, y, both) : NULL;
    if (y == NULL || k->b == NULL)
        return y;
    xcc_value *bias = xcc_constant_blank(b->graph, XCVM_F32, 1, &dims[1]);
    for (size_t d = 0; bias != NULL && d < k->directions; d++)
        xcvm_packed_write_biases(GATES, k->hidden, XCVM_CDATA(float, k->b) + d * 2 * GATES * k->hidden,
                                 XCVM_DATA(float, &bias->type) + d * k->panels * PANEL, NULL);
    return bias != NULL ? xcc_build_add(b, y, bias) : NULL;
}

/* The recurrence weights in panels of quads, and the sums of their columns. */
static bool pack_state(xcc_lowering *n, const network *k, xcc_value **r, xcc_value **sums)
{
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, k->hidden, 1);
    const size_t panels = k->directions * k->panels, columns = GATES * k->hidden;
    const int64_t dims[] = {(int64_t)panels, (int64_t)runs.quads, XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD};
    const int64_t count = (int64_t)(panels * PANEL);
    const size_t steps[] = {1, columns, 0, 0};
    *r = xcc_constant_blank(n->b.graph, XCVM_I8, 4, dims);
    *sums = xcc_constant_blank(n->b.graph, XCVM_I32, 1, &count);
    if (*r == NULL || *sums == NULL)
        return false;
    for (size_t i = 0; i < panels; i++) {
        size_t d, column;
        (void)source_of(k, i * PANEL, &d, &column);
        const size_t unit = i % k->panels / GATES * PANEL;
        const size_t units = k->hidden - unit < PANEL ? k->hidden - unit : PANEL;
        const int8_t *from = k->r.bytes + d * k->hidden * columns + column;
        xcvm_quantized_pack(from, steps, 1, units, k->hidden, 1, 1, &runs,
                            XCVM_DATA(int8_t, &(*r)->type) + i * runs.quads * XCVM_QUANTIZED_LINE);
        for (size_t j = 0; j < PANEL; j++) {
            int64_t sum = 0;
            for (size_t p = 0; p < k->hidden && j < units; p++)
                sum += from[p * columns + j];
            XCVM_DATA(int32_t, &(*sums)->type)[i * PANEL + j] = (int32_t)(uint32_t)sum; /* modulo, as all sums */
        }
    }
    return true;
}

/* Replaces the float network of an LSTM by the network of integers. */
static xcvm_status use_integers(xcc_lowering *n, network *k, xcc_value **results)
{
    xcc_value *r, *sums;
    xcc_node *lstm = results[0]->producer;
    const xcvm_LSTM_args *a = k->a = XCC_ARGS(LSTM, lstm);
    const xcc_value *x = project(n, k), *scale = pack_scales(n, k, &k->r);
    if (x == NULL || scale == NULL || !pack_state(n, k, &r, &sums))
        return xcc_failure(n);
    for (size_t i = 0; i < RESULTS; i++)
        if ((results[i] = xcc_value_create(n->b.graph, NULL)) == NULL)
            return xcc_failure(n);
    if (xcc_emit(&n->b, QuantizedLSTM, .y = XCC_OUT(results[0]), .y_h = XCC_OUT(results[1]), .y_c = XCC_OUT(results[2]),
                 .x = XCC_IN(x), .r = XCC_IN(r), .sums = XCC_IN(sums), .scale = XCC_IN(scale),
                 .sequence_lens = a->sequence_lens, .initial_h = a->initial_h, .initial_c = a->initial_c, .p = a->p,
                 .hidden_size = a->hidden_size, .direction = a->direction, .layout = a->layout,
                 .input_forget = a->input_forget, .activations = a->activations,
                 .activation_alpha = a->activation_alpha, .activation_beta = a->activation_beta,
                 .clip = a->clip) == NULL)
        return xcc_failure(n);
    xcc_node_remove(lstm);
    return XCVM_OK;
}

xcvm_status xcc_lower_contrib_dynamic_quantize_lstm(xcc_lowering *n)
{
    xcc_value *operands[OPERANDS], *results[RESULTS];
    network k;
    XCVM_TRY(xcc_need_inputs(n, 3, 12));
    for (size_t i = SCALES; i < 12; i++)
        XCVM_TRY(xcc_contrib_need_operand(n, i, "a scale or a zero point"));
    for (size_t i = 0; i < OPERANDS; i++)
        operands[i] = xcc_input(n, i);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *w = n->inputs[W + i];
        XCVM_TRY(xcc_contrib_need_byte(n, w, i == 0 ? "W" : "R"));
        XCVM_TRY(xcc_contrib_need_ranks(n, w, i == 0 ? "W" : "R", 3, 3));
    }
    const bool integers = chooses_integers(n, &k);
    XCVM_TRY(n->m->error->status);
    for (size_t i = 0; i < 2; i++) {
        xcc_value *w = n->inputs[W + i];
        operands[W + i] = integers ? placeholder(n, w)
                                   : recurrence_weights(n, w, n->inputs[SCALES + 2 * i], n->inputs[SCALES + 2 * i + 1]);
        if (operands[W + i] == NULL)
            return xcc_failure(n);
    }
    XCVM_TRY(xcc_lower_inner(n, "", "LSTM", 7, OPERANDS, operands, RESULTS, results));
    if (integers)
        XCVM_TRY(use_integers(n, &k, results));
    for (size_t i = 0; i < RESULTS; i++)
        XCVM_TRY(xcc_bind(n, i, results[i]));
    return XCVM_OK;
}
