/* Integer regions: convolutions and products with constant weights. Zero points of the weights must be 0 (128 for u8),
 * and sums must provably fit in 32 bits; otherwise the node is unchanged. */
#include "compiler/ir/compose.h"
#include "compiler/ir/compilation.h"
#include "compiler/ir/evaluate.h"
#include "compiler/passes/integer.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/util/quads.h"

#include <math.h>
#include <string.h>

typedef xcc_integer_weights weights;

/* Quantizes a tensor now that quantization-aware exports quantize in each run. */
static void evaluate(xcc_rewrite *r, const xcc_value *v)
{
    xcc_node *n = xcc_producer(v, XCVM_OP_QuantizeLinear);
    if (n == NULL)
        return;
    xcc_evaluator e;
    xcc_evaluator_begin(&e, r->m, true);
    xcc_evaluate_node(&e, n);
    xcc_evaluator_end(&e);
}

/* Reads constant bytes as s8 if their zero points are the middle of their type. */
static bool read_centered(xcc_rewrite *r, xcc_value *q, const xcc_value *zero_point, weights *w)
{
    evaluate(r, q);
    if (!xcc_is_constant(q) || !xcvm_dtype_in((xcvm_dtype)q->type.dtype, XCVM_TYPES_BYTE))
        return false;
    *w = (weights){.q = &q->type, .bytes = q->type.data};
    const int middle = q->type.dtype == XCVM_U8 ? 128 : 0;
    if (zero_point != NULL && !xcc_is_constant(zero_point))
        return false;
    if (zero_point == NULL && middle != 0)
        return false;
    for (size_t i = 0; zero_point != NULL && i < xcvm_element_count(&zero_point->type); i++)
        if (xcvm_element_as_int(&zero_point->type, i) != middle)
            return false;
    if (middle != 0) {
        int8_t *copy = xcc_may_copy(r->m, q->type.bytes) ? xcc_alloc(r->m, q->type.bytes + 1) : NULL;
        w->bytes = copy;
        for (size_t i = 0; copy != NULL && i < q->type.bytes; i++)
            copy[i] = (int8_t)(XCVM_CDATA(uint8_t, &q->type)[i] - middle);
    }
    return w->bytes != NULL;
}

/* Reads bytes and scales, one or one per output; `axis` is the output axis of the bytes. */
static bool read_bytes(xcc_rewrite *r, xcc_value *q, const xcc_value *scale, const xcc_value *zero_point,
                       int64_t scale_axis, int axis, weights *w)
{
    if (scale == NULL || !xcc_is_constant(scale) || scale->type.dtype != XCVM_F32)
        return false;
    const size_t count = xcvm_element_count(&scale->type);
    if (scale_axis < 0)
        scale_axis += q->type.rank;
    if (count != 1 && (scale->type.rank != 1 || scale_axis != axis || scale->type.dims[0] != q->type.dims[axis]))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!(XCVM_CDATA(float, &scale->type)[i] >= 0.0f) || !isfinite(XCVM_CDATA(float, &scale->type)[i]))
            return false;
    if (!read_centered(r, q, zero_point, w))
        return false;
    w->scale = &scale->type;
    return true;
}

bool xcc_integer_read_weights(xcc_rewrite *r, const xcc_value *v, int axis, weights *w)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_DequantizeLinear);
    if (n == NULL)
        return false;
    const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
    return a->block_size == 0 && a->x->rank > axis &&
           read_bytes(r, xcc_value_of(a->x), xcc_value_of(a->scale), xcc_value_of(a->zero_point), a->axis, axis, w);
}

/* A bias: floats, or integers with a scale. */
typedef struct bias {
    const xcvm_value *floats, *integers, *scale; /* scale NULL: the product's */
} bias;

/* Reads a bias with one number per output, on the last axis. */
static bool read_bias(const xcc_value *v, size_t outputs, bias *b)
{
    *b = (bias){0};
    if (v == NULL)
        return true;
    if (v->type.rank < 1 || v->type.dims[v->type.rank - 1] != (int64_t)outputs)
        return false;
    const xcc_node *n = xcc_producer(v, XCVM_OP_DequantizeLinear);
    if (n != NULL) {
        const xcvm_DequantizeLinear_args *a = XCC_ARGS(DequantizeLinear, n);
        const xcc_value *q = xcc_value_of(a->x), *scale = xcc_value_of(a->scale), *zero = xcc_value_of(a->zero_point);
        b->integers = &q->type;
        b->scale = &scale->type;
        bool zeros = zero == NULL || xcc_is_constant(zero);
        for (size_t i = 0; zeros && zero != NULL && i < xcvm_element_count(&zero->type); i++)
            zeros = xcvm_element_as_int(&zero->type, i) == 0;
        return zeros && xcc_is_constant(q) && q->type.dtype == XCVM_I32 && xcvm_element_count(&q->type) == outputs &&
               xcc_is_constant(scale) && scale->type.dtype == XCVM_F32 && a->block_size == 0 &&
               (xcvm_element_count(&scale->type) == 1 || xcvm_element_count(&scale->type) == outputs);
    }
    b->floats = &v->type;
    return xcc_is_constant(v) && v->type.dtype == XCVM_F32 && xcvm_element_count(&v->type) == outputs;
}

/* In units of `unit`; integers of the same scale already are. */
static double bias_at(const bias *b, size_t i, double unit)
{
    if (b->floats != NULL)
        return rint((double)XCVM_CDATA(float, b->floats)[i] / unit);
    if (b->integers == NULL)
        return 0.0;
    const double steps = XCVM_CDATA(int32_t, b->integers)[i];
    if (b->scale == NULL)
        return steps;
    const double scale = (double)XCVM_CDATA(float, b->scale)[xcvm_element_count(b->scale) == 1 ? 0 : i];
    return fabs(scale - unit) <= 1e-6 * unit ? steps : rint(steps * scale / unit);
}

/* Bias and scale of the sums of each output. */
typedef struct epilogue {
    xcc_value *b, *scale;
} epilogue;

/* Layout of the weights of an output: outputs are `next` apart, and the `count` weights of one `step` apart. */
typedef struct lines {
    size_t outputs, next, count, step;
} lines;

/* y_scale is 1 for float results. Returns false if sums or their scales might overflow. */
static bool make_epilogue(xcc_graph *g, const xcc_dequantized *x, const weights *w, const lines *l, const bias *b,
                          float y_scale, epilogue *to)
{
    const int64_t dim = (int64_t)l->outputs;
    to->b = xcc_constant_blank(g, XCVM_I32, 1, &dim);
    to->scale = xcc_constant_blank(g, XCVM_F32, 1, &dim);
    bool fits = to->b != NULL && to->scale != NULL;
    for (size_t o = 0; fits && o < l->outputs; o++) {
        int64_t sum = 0, magnitude = 0;
        for (size_t i = 0; i < l->count; i++) {
            const int q = w->bytes[o * l->next + i * l->step];
            sum += q;
            magnitude += q < 0 ? -q : q;
        }
        const float w_scale = xcc_integer_scale_at(w, o);
        const double steps = bias_at(b, o, (double)(x->scale * w_scale));
        fits = xcc_scale_of_product(x->scale, w_scale, y_scale, &XCVM_DATA(float, &to->scale->type)[o]) &&
               fabs(steps) + (double)UINT8_MAX * (double)magnitude < (double)INT32_MAX;
        if (!fits)
            break;
        XCVM_DATA(int32_t, &to->b->type)[o] = (int32_t)((int64_t)steps - x->zero * sum);
    }
    if (!fits && to->b != NULL)
        xcc_constant_release(to->b);
    if (!fits && to->scale != NULL)
        xcc_constant_release(to->scale);
    return fits;
}

/* Counts for the report. `y` is the result of an instruction whose second operand is the packed weights; NULL: none. */
static void count_weights(xcc_module *m, const weights *w, const xcc_value *y)
{
    if (y == NULL)
        return;
    m->compilation->weight_bytes_before += xcvm_element_count(w->q) * sizeof(float);
    m->compilation->weight_bytes_after += xcc_node_input(y->producer, 1)->type.bytes;
}

/* ---- Convolutions ---- */

/* A convolution in terms of Conv, with operands as bytes. */
typedef struct convolution {
    xcc_dequantized x;
    weights w;
    bias b;
    xcvm_ints strides, pads, dilations;
    int64_t group;
} convolution;

enum {
    /* Minimum outputs of a group to fill a panel, if there are several groups. */
    LEAST_OUTPUTS = 8,
    /* Minimum channels of a pointwise convolution for which transposing its float result pays off. */
    LEAST_SUMMED = 128,
    /* Minimum channels for which Winograd's algorithm in floats is faster than sums of 16-bit pairs. */
    WINOGRAD_CHANNELS = 16
};

/* Returns true if bytes are faster on this CPU; with instructions for four bytes they are by far. */
static bool pays(const xcc_module *m, const convolution *c)
{
    if (m->options->quantized.integers == XCC_INTEGER_ALWAYS || xcvm_quads_at_once())
        return true;
    const int64_t *d = c->w.q->dims;
    return !(c->group == 1 && d[2] == 3 && d[3] == 3 && c->strides.at[0] == 1 && c->strides.at[1] == 1 &&
             c->dilations.at[0] == 1 && c->dilations.at[1] == 1 && d[0] >= WINOGRAD_CHANNELS &&
             d[1] >= WINOGRAD_CHANNELS);
}

static xcc_value *depthwise(xcc_builder *b, const convolution *c, const epilogue *e, xcc_region_tensor x,
                            const xcc_requantized *to)
{
    const int64_t *d = c->w.q->dims, dims[] = {d[2], d[3], d[0]};
    const int64_t taps = d[2] * d[3];
    xcc_value *w = xcc_constant_blank(b->graph, XCVM_I8, 3, dims);
    if (w == NULL)
        return NULL;
    for (int64_t o = 0; o < d[0]; o++)
        for (int64_t i = 0; i < taps; i++)
            XCVM_DATA(int8_t, &w->type)[i * d[0] + o] = c->w.bytes[o * taps + i];
    return xcc_apply(b, QuantizedDepthwiseConv, y, .x = XCC_IN(x.v), .w = XCC_IN(w), .b = XCC_IN(e->b),
                     .scale = XCC_IN(e->scale), .strides = c->strides, .pads = c->pads, .dilations = c->dilations,
                     .x_zero_point = c->x.zero, .y_zero_point = to->zero, .low = to->low, .high = to->high);
}

static xcc_value *dense(xcc_builder *b, const convolution *c, const epilogue *e, xcc_region_tensor x,
                        const xcc_requantized *to)
{
    const int64_t *d = c->w.q->dims;
    const size_t groups = (size_t)c->group, outputs = (size_t)(d[0] / c->group);
    const xcvm_quantized_runs runs =
        xcvm_quantized_runs_of((size_t)d[2], (size_t)d[3], (size_t)c->dilations.at[1], (size_t)d[1], groups);
    const int64_t dims[] = {(int64_t)(groups * xcvm_quantized_panels(outputs)), (int64_t)(runs.segments * runs.quads),
                            XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD};
    xcc_value *w = xcc_constant_blank(b->graph, XCVM_I8, 4, dims);
    if (w == NULL)
        return NULL;
    const size_t steps[] = {(size_t)(d[1] * d[2] * d[3]), (size_t)(d[2] * d[3]), (size_t)d[3], 1};
    xcvm_quantized_pack(c->w.bytes, steps, groups, outputs, (size_t)d[1], (size_t)d[2], (size_t)d[3], &runs,
                        w->type.data);
    return xcc_apply(b, QuantizedConv, y, .x = XCC_IN(x.v), .w = XCC_IN(w), .b = XCC_IN(e->b),
                     .scale = XCC_IN(e->scale), .kernel_shape = {d + 2, 2}, .strides = c->strides, .pads = c->pads,
                     .dilations = c->dilations, .group = c->group, .x_zero_point = c->x.zero, .y_zero_point = to->zero,
                     .low = to->low, .high = to->high);
}

static xcc_value *convolve(xcc_rewrite *r, xcc_node *n, const convolution *c, const xcc_requantized *to)
{
    const int64_t *d = c->w.q->dims;
    const size_t count = (size_t)(d[1] * d[2] * d[3]);
    const bool by_channels = c->group == d[0] && d[1] == 1;
    if (d[0] % c->group != 0 || (c->group > 1 && !by_channels && d[0] / c->group < LEAST_OUTPUTS) ||
        c->x.q->type.rank != 4 || c->x.q->type.dims[1] != d[1] * c->group || c->pads.count != 4 ||
        c->strides.count != 2 || c->dilations.count != 2)
        return NULL;
    if (!pays(r->m, c))
        return NULL;
    const lines filters = {(size_t)d[0], count, count, 1};
    epilogue e;
    if (!make_epilogue(n->graph, &c->x, &c->w, &filters, &c->b, to->scale, &e) || !xcc_may_copy(r->m, c->w.q->bytes))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    const xcc_region_tensor x = xcc_region_value(&b, c->x.q, true);
    if (x.v == NULL)
        return NULL;
    const xcc_region_tensor y = {(by_channels ? depthwise : dense)(&b, c, &e, x, to), true};
    count_weights(r->m, &c->w, y.v);
    return xcc_region_edge(&b, y, to->is_signed);
}

/* Reads a convolution of dequantized images and filters without fused operations. */
static bool read_convolution(xcc_rewrite *r, const xcvm_Conv_args *a, xcc_dequantized *x, weights *w)
{
    return a->z == NULL && a->activation == XCVM_ACTIVATION_none && a->affine.count == 0 && a->w->rank == 4 &&
           xcc_dequantized_of(xcc_value_of(a->x), x) && xcc_integer_read_weights(r, xcc_value_of(a->w), 0, w);
}

static xcc_value *conv(xcc_rewrite *r, xcc_node *n, const xcc_node *producer, const xcc_requantized *to)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, producer);
    convolution c = {.strides = a->strides, .pads = a->pads, .dilations = a->dilations, .group = a->group};
    if (!read_convolution(r, a, &c.x, &c.w) || !read_bias(xcc_value_of(a->b), (size_t)c.w.q->dims[0], &c.b))
        return NULL;
    return convolve(r, n, &c, to);
}

/* Reads the scale and zero point of the result y. */
static bool result_of(const xcvm_value *scale, const xcvm_value *zero_point, const xcc_value *y, xcc_requantized *to)
{
    *to = (xcc_requantized){.high = UINT8_MAX, .is_signed = y->type.dtype == XCVM_I8};
    return xcc_scale_of(xcc_value_of(scale), xcc_value_of(zero_point), to->is_signed, &to->scale, &to->zero);
}

static bool operand_of(const xcvm_value *q, const xcvm_value *scale, const xcvm_value *zero_point, xcc_dequantized *x)
{
    x->q = xcc_value_of(q);
    return xcc_scale_of(xcc_value_of(scale), xcc_value_of(zero_point), q->dtype == XCVM_I8, &x->scale, &x->zero);
}

bool xcc_integer_qlinear_conv(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_QLinearConv_args *a = XCC_ARGS(QLinearConv, n);
    xcc_value *y = xcc_node_output(n, 0), *made;
    convolution c = {.strides = a->strides, .pads = a->pads, .dilations = a->dilations, .group = a->group};
    xcc_requantized to;
    if (a->w->rank != 4 || !result_of(a->y_scale, a->y_zero_point, y, &to) ||
        !operand_of(a->x, a->x_scale, a->x_zero_point, &c.x) ||
        !read_bytes(r, xcc_value_of(a->w), xcc_value_of(a->w_scale), xcc_value_of(a->w_zero_point), 0, 0, &c.w) ||
        (a->b != NULL && (!xcc_is_constant(xcc_value_of(a->b)) || (int64_t)xcvm_element_count(a->b) != c.w.q->dims[0])))
        return false;
    c.b.integers = a->b;
    made = convolve(r, n, &c, &to);
    return xcc_integer_replace(r, y, made);
}

/* ---- Products ---- */

/* A product in terms of Gemm. */
typedef struct product {
    xcc_dequantized x;
    weights w;
    size_t rows, columns, row, column; /* of the right matrix, and its strides */
    bool images;                       /* x are images, whose channels are multiplied */
} product;

static bool set_matrix(product *p, bool transposed)
{
    p->images = false;
    if (p->w.q->rank != 2 || p->x.q->type.rank < 1)
        return false;
    p->rows = (size_t)p->w.q->dims[transposed ? 1 : 0];
    p->columns = (size_t)p->w.q->dims[transposed ? 0 : 1];
    p->row = transposed ? 1 : p->columns;
    p->column = transposed ? p->rows : 1;
    return p->x.q->type.dims[p->x.q->type.rank - 1] == (int64_t)p->rows && p->columns > 0;
}

/* Reads a Gemm or MatMul of dequantized bytes; *c is Gemm's addend. */
static bool read_product(xcc_rewrite *r, const xcc_node *n, product *p, const xcc_value **c)
{
    *c = NULL;
    if (xcc_is(n, XCVM_OP_MatMul)) {
        const xcvm_MatMul_args *a = XCC_ARGS(MatMul, n);
        return xcc_dequantized_of(xcc_value_of(a->a), &p->x) &&
               xcc_integer_read_weights(r, xcc_value_of(a->b), 1, &p->w) && set_matrix(p, false);
    }
    if (!xcc_is(n, XCVM_OP_Gemm))
        return false;
    const xcvm_Gemm_args *a = XCC_ARGS(Gemm, n);
    const bool transposed = a->transB != 0;
    *c = xcc_value_of(a->c);
    return !a->transA && a->alpha == 1.0 && (a->c == NULL || a->beta == 1.0) && a->activation == XCVM_ACTIVATION_none &&
           xcc_dequantized_of(xcc_value_of(a->a), &p->x) &&
           xcc_integer_read_weights(r, xcc_value_of(a->b), transposed ? 0 : 1, &p->w) && set_matrix(p, transposed);
}

/* Packs the matrix for QuantizedGemm; NULL: no memory. */
static xcc_value *pack_matrix(xcc_rewrite *r, xcc_graph *g, const product *p)
{
    const xcvm_quantized_runs runs = xcvm_quantized_runs_of(1, 1, 1, p->rows, 1);
    const int64_t dims[] = {(int64_t)xcvm_quantized_panels(p->columns), (int64_t)runs.quads, XCVM_QUANTIZED_OUTPUTS,
                            XCVM_QUAD};
    xcc_value *w = xcc_may_copy(r->m, p->w.q->bytes) ? xcc_constant_blank(g, XCVM_I8, 4, dims) : NULL;
    const size_t steps[] = {p->column, p->row, 0, 0};
    if (w != NULL)
        xcvm_quantized_pack(p->w.bytes, steps, 1, p->columns, p->rows, 1, 1, &runs, w->type.data);
    return w;
}

/* Emits the product; `to` NULL: the result is float, with `shift` (may be NULL) added. */
static xcc_value *multiply(xcc_rewrite *r, xcc_node *n, const product *p, const bias *added, const xcc_requantized *to,
                           const xcc_value *shift)
{
    const lines columns = {p->columns, p->column, p->rows, p->row};
    epilogue e;
    if (!make_epilogue(n->graph, &p->x, &p->w, &columns, added, to != NULL ? to->scale : 1.0f, &e))
        return NULL;
    xcc_value *w = pack_matrix(r, n->graph, p);
    if (w == NULL)
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    const xcc_region_tensor x = xcc_region_value(&b, p->x.q, p->images);
    xcc_value *a = x.v != NULL && x.last && !p->images ? xcc_region_edge(&b, x, false) : x.v;
    if (a == NULL)
        return NULL;
    xcvm_QuantizedGemm_args args = {.a = XCC_IN(a),
                                    .w = XCC_IN(w),
                                    .b = XCC_IN(e.b),
                                    .scale = XCC_IN(e.scale),
                                    .shift = XCC_IN(shift),
                                    .output_dtype = XCVM_F32,
                                    .high = UINT8_MAX};
    if (to != NULL) {
        args.output_dtype = XCVM_U8;
        args.y_zero_point = to->zero;
        args.low = to->low;
        args.high = to->high;
    }
    const xcc_region_tensor y = {xcc_apply_at(&b, XCVM_OP_QuantizedGemm, &args, offsetof(xcvm_QuantizedGemm_args, y)),
                                 p->images};
    count_weights(r->m, &p->w, y.v);
    return xcc_region_edge(&b, y, to != NULL && to->is_signed);
}

/* Returns the Add that adds a vector to each row of a product, and the vector. */
static const xcc_node *added_vector(const xcc_node *add, const xcc_value **vector)
{
    for (size_t i = 0; xcc_is(add, XCVM_OP_Add) && i < 2; i++) {
        const xcc_value *x = xcc_node_input(add, i);
        const xcc_node *within = xcc_sole_producer(x, XCVM_OP_MatMul);
        *vector = xcc_node_input(add, 1 - i);
        if (within != NULL && (*vector)->type.rank == 1 && x->type.rank >= 1 &&
            (*vector)->type.dims[0] == x->type.dims[x->type.rank - 1])
            return within;
    }
    return NULL;
}

xcc_value *xcc_integer_product(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to)
{
    const xcc_node *producer = xcc_used_once(x) ? x->producer : NULL;
    if (producer == NULL || producer->kind != XCC_INSTRUCTION)
        return NULL;
    if (xcc_is(producer, XCVM_OP_Conv))
        return conv(r, n, producer, to);
    const xcc_value *vector = NULL, *c;
    const xcc_node *within = added_vector(producer, &vector);
    product p;
    bias b;
    if (!read_product(r, within != NULL ? within : producer, &p, &c))
        return NULL;
    if (within != NULL)
        c = vector;
    return read_bias(c, p.columns, &b) ? multiply(r, n, &p, &b, to, NULL) : NULL;
}

/* Replaces the product, with c added, one float per column. */
static bool replace_by_floats(xcc_rewrite *r, xcc_node *n, const product *p, const xcc_value *c)
{
    bias b;
    if (!read_bias(c, p->columns, &b))
        return false;
    /* Floats are added directly. */
    const xcc_value *shift = b.floats != NULL && c->type.rank == 1 ? c : NULL;
    if (shift != NULL)
        b = (bias){0};
    xcc_value *made = multiply(r, n, p, &b, NULL, shift);
    return xcc_integer_replace(r, xcc_node_output(n, 0), made);
}

bool xcc_integer_to_float(xcc_rewrite *r, xcc_node *n)
{
    product p;
    const xcc_value *c;
    return read_product(r, n, &p, &c) && replace_by_floats(r, n, &p, c);
}

/* A pointwise convolution is a product over each position's channels. */
bool xcc_integer_conv_to_float(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_Conv_args *a = XCC_ARGS(Conv, n);
    product p = {.images = true, .row = 1};
    if (!read_convolution(r, a, &p.x, &p.w) || a->w->dims[2] != 1 || a->w->dims[3] != 1 || a->group != 1 ||
        !xcc_all_are(a->strides, 1) || !xcc_all_are(a->pads, 0))
        return false;
    p.rows = p.column = (size_t)a->w->dims[1];
    p.columns = (size_t)a->w->dims[0];
    return p.x.q->type.rank == 4 && p.x.q->type.dims[1] == a->w->dims[1] && p.columns > 0 &&
           (p.rows >= LEAST_SUMMED || r->m->options->quantized.integers == XCC_INTEGER_ALWAYS) &&
           replace_by_floats(r, n, &p, xcc_value_of(a->b));
}

bool xcc_integer_qlinear_matmul(xcc_rewrite *r, xcc_node *n)
{
    const xcvm_QLinearMatMul_args *a = XCC_ARGS(QLinearMatMul, n);
    xcc_value *y = xcc_node_output(n, 0);
    xcc_requantized to;
    product p;
    const bias none = {0};
    if (!result_of(a->y_scale, a->y_zero_point, y, &to) || !operand_of(a->a, a->a_scale, a->a_zero_point, &p.x) ||
        a->b->rank != 2 ||
        !read_bytes(r, xcc_value_of(a->b), xcc_value_of(a->b_scale), xcc_value_of(a->b_zero_point), 1, 1, &p.w) ||
        !set_matrix(&p, false))
        return false;
    xcc_value *made = multiply(r, n, &p, &none, &to, NULL);
    return xcc_integer_replace(r, y, made);
}

/* ---- Products of dynamically quantized bytes ---- */

/* Expands a scale to one number per column. */
static xcc_value *spread(xcc_builder *b, xcc_value *scale, int64_t columns)
{
    const xcvm_value *t = &scale->type;
    if (t->dtype != XCVM_F32 || (t->rank != 0 && t->rank != 1) ||
        (t->rank == 1 && t->dims[0] != columns && t->dims[0] != 1))
        return NULL;
    if (t->rank == 1 && t->dims[0] == columns)
        return scale;
    xcc_value *ones = xcc_constant_blank(b->graph, XCVM_F32, 1, &columns);
    for (int64_t i = 0; ones != NULL && i < columns; i++)
        XCVM_DATA(float, &ones->type)[i] = 1.0f;
    return ones != NULL ? xcc_build_mul(b, scale, ones) : NULL;
}

/* The addend of QuantizedGemm's sums: minus the zero point (NULL: 0) times the sum of each column. */
static xcc_value *zero_sums(xcc_builder *b, const product *p, xcc_value *zero_point)
{
    const int64_t columns = (int64_t)p->columns;
    xcc_value *sums = xcc_constant_blank(b->graph, XCVM_I32, 1, &columns);
    for (size_t j = 0; sums != NULL && j < p->columns; j++) {
        int64_t sum = 0;
        for (size_t i = 0; zero_point != NULL && i < p->rows; i++)
            sum -= p->w.bytes[j * p->column + i * p->row];
        XCVM_DATA(int32_t, &sums->type)[j] = (int32_t)(uint32_t)sum; /* modulo 2^32, like all sums */
    }
    if (sums == NULL || zero_point == NULL)
        return sums;
    xcc_value *zero = xcc_build_cast(b, zero_point, XCVM_I32);
    return zero != NULL ? xcc_build_mul(b, zero, sums) : NULL;
}

/* A MatMulInteger cast to float and scaled, typically after DynamicQuantizeLinear. */
bool xcc_integer_dynamic(xcc_rewrite *r, xcc_node *n)
{
    const xcc_node *found = NULL;
    xcc_value *scale = NULL;
    for (size_t i = 0; i < 2 && found == NULL; i++) {
        const xcc_node *cast = xcc_sole_producer(xcc_node_input(n, i), XCVM_OP_Cast);
        found = cast != NULL && XCC_ARGS(Cast, cast)->to == XCVM_F32
                    ? xcc_sole_producer(xcc_node_input(cast, 0), XCVM_OP_MatMulInteger)
                    : NULL;
        scale = xcc_node_input(n, 1 - i);
    }
    if (found == NULL)
        return false;
    const xcvm_MatMulInteger_args *a = XCC_ARGS(MatMulInteger, found);
    xcc_value *zero = xcc_value_of(a->a_zero_point);
    product p = {.x = {.q = xcc_value_of(a->a)}};
    if (a->a->dtype != XCVM_U8 || a->a->rank < 2 || a->b->rank != 2 ||
        (zero != NULL && zero->type.rank != 0 && (zero->type.rank != 1 || zero->type.dims[0] != 1)) ||
        !read_centered(r, xcc_value_of(a->b), xcc_value_of(a->b_zero_point), &p.w) || !set_matrix(&p, false))
        return false;
    xcc_builder b = xcc_builder_before(n);
    scale = spread(&b, scale, (int64_t)p.columns);
    if (scale == NULL)
        return false;
    const xcc_value *w = pack_matrix(r, n->graph, &p), *sums = w != NULL ? zero_sums(&b, &p, zero) : NULL;
    if (sums == NULL)
        return false;
    return xcc_integer_replace(r, xcc_node_output(n, 0),
                               xcc_apply(&b, QuantizedGemm, y, .a = a->a, .w = XCC_IN(w), .b = XCC_IN(sums),
                                         .scale = XCC_IN(scale), .output_dtype = XCVM_F32, .high = UINT8_MAX));
}

/* A vector added to each row of such a product. */
bool xcc_integer_shift(xcc_rewrite *r, xcc_node *n)
{
    for (size_t i = 0; i < 2; i++) {
        const xcc_node *gemm = xcc_sole_producer(xcc_node_input(n, i), XCVM_OP_QuantizedGemm);
        const xcc_value *shift = xcc_node_input(n, 1 - i);
        if (gemm == NULL || shift->type.dtype != XCVM_F32 || shift->type.rank != 1)
            continue;
        xcvm_QuantizedGemm_args a = *XCC_ARGS(QuantizedGemm, gemm);
        if (a.output_dtype != XCVM_F32 || a.shift != NULL || a.b->rank != 1 || a.b->dims[0] != shift->type.dims[0] ||
            shift->type.dims[0] < 0)
            continue;
        xcc_builder b = xcc_builder_before(n);
        a.shift = XCC_IN(shift);
        return xcc_rewrite_replace(r, xcc_node_output(n, 0),
                                   xcc_apply_at(&b, XCVM_OP_QuantizedGemm, &a, offsetof(xcvm_QuantizedGemm_args, y)));
    }
    return false;
}

void xcc_integer_count_left(xcc_module *m, const xcc_node *n)
{
    xcc_dequantized x;
    const bool is_conv = xcc_is(n, XCVM_OP_Conv);
    if ((!is_conv && !xcc_is(n, XCVM_OP_Gemm) && !xcc_is(n, XCVM_OP_MatMul)) ||
        !xcc_dequantized_of(xcc_node_input(n, 0), &x))
        return;
    const xcc_node *w = xcc_producer(xcc_node_input(n, 1), XCVM_OP_DequantizeLinear);
    if (w == NULL || !xcc_is_constant(xcc_node_input(w, 0)))
        return;
    m->compilation->integers.left++;
    if (!is_conv || xcc_node_input(w, 0)->type.rank != 4)
        return;
    const xcvm_Conv_args *a = XCC_ARGS(Conv, n);
    const convolution c = {
        .w = {.q = &xcc_node_input(w, 0)->type}, .strides = a->strides, .dilations = a->dilations, .group = a->group};
    m->compilation->integers.slower += !pays(m, &c);
}
