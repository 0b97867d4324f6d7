/* Integer regions: functions of single elements become lookup tables. Sums and products of two tensors, pools and
 * concatenations become integer instructions, and data movement moves bytes. */
#include "compiler/ir/evaluate.h"
#include "compiler/passes/integer.h"
#include "ops/conv/window.h"

#include <math.h>
#include <string.h>

/* ---- Tables ---- */

/* Element-wise nodes that compute one float from another: their operands are one-element constants, each other's
 * results and one dequantized tensor. */
enum { MOST_NODES = 12 };
typedef struct function {
    xcc_dequantized x;
    const xcc_value *leaf;
    const xcc_node *nodes[MOST_NODES]; /* in execution order */
    size_t count;
} function;

static bool same_dims(const xcc_value *a, const xcc_value *b)
{
    bool same = a->type.rank >= 0 && a->type.rank == b->type.rank;
    for (int i = 0; same && i < a->type.rank; i++)
        same = a->type.dims[i] == b->type.dims[i] && a->type.dims[i] != XCVM_ANY_DIM;
    return same;
}

static bool collect(function *f, const xcc_value *v, int depth)
{
    xcc_dequantized x;
    if (xcc_dequantized_of(v, &x)) {
        if (f->leaf != NULL && f->leaf != v && (f->x.q != x.q || f->x.scale != x.scale || f->x.zero != x.zero))
            return false;
        f->leaf = v;
        f->x = x;
        return true;
    }
    const xcc_node *n = v->producer;
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i] == n)
            return true;
    if (n == NULL || depth == MOST_NODES || n->kind != XCC_INSTRUCTION || n->schema->effect != XCVM_PURE ||
        v->type.dtype != XCVM_F32 ||
        (!xcvm_schema_has_class(n->schema, XCVM_CLASS_unary) && !xcvm_schema_has_class(n->schema, XCVM_CLASS_binary)))
        return false;
    for (size_t i = 0; i < xcc_node_input_count(n); i++) {
        const xcc_value *operand = xcc_node_input(n, i);
        if (operand == NULL)
            continue;
        if (xcc_is_constant(operand) ? xcvm_element_count(&operand->type) != 1 : !collect(f, operand, depth + 1))
            return false;
    }
    if (f->count == MOST_NODES)
        return false;
    f->nodes[f->count++] = n;
    return true;
}

typedef struct copies {
    const function *f;
    const xcc_value *leaf;
    xcc_value *operand; /* placeholder for the leaf */
    xcc_value *made[MOST_NODES];
} copies;

static xcvm_status copied(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy)
{
    copies *c = user;
    *copy = v;
    xcc_dequantized x;
    if (field->role == XCVM_ROLE_OUT) {
        *copy = xcc_value_create(v->graph, NULL);
        return *copy != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < c->f->count; i++)
        if (xcc_node_output(c->f->nodes[i], 0) == v)
            *copy = c->made[i];
    if (xcc_dequantized_of(v, &x))
        *copy = c->operand;
    return XCVM_OK;
}

/* Evaluates the function for all 256 bytes with the VM's kernels; bytes are in u8 form on both sides. */
static bool tabulate(xcc_rewrite *r, xcc_node *n, const function *f, const xcc_requantized *to,
                     uint8_t table[XCC_BYTES])
{
    uint8_t all[XCC_BYTES];
    for (int i = 0; i < XCC_BYTES; i++)
        all[i] = (uint8_t)i;
    xcc_builder b = xcc_builder_before(n);
    const xcc_value *x = xcc_constant_bytes(&b, XCVM_U8, all, XCC_BYTES);
    const uint8_t x_zero = (uint8_t)f->x.zero, y_zero = (uint8_t)to->zero;
    xcc_value *zero = xcc_constant(n->graph, NULL, XCVM_U8, 0, NULL, &x_zero, false);
    xcc_value *result_zero = xcc_constant(n->graph, NULL, XCVM_U8, 0, NULL, &y_zero, false);
    xcc_value *scale = xcc_constant(n->graph, NULL, XCVM_F32, 0, NULL, &f->x.scale, false);
    xcc_value *result_scale = xcc_constant(n->graph, NULL, XCVM_F32, 0, NULL, &to->scale, false);
    if (x == NULL || zero == NULL || result_zero == NULL || scale == NULL || result_scale == NULL)
        return false;
    copies c = {.f = f};
    xcc_evaluator e;
    xcc_evaluator_begin(&e, r->m, true);
    xcc_value *y = xcc_apply(&b, DequantizeLinear, y, .x = XCC_IN(x), .scale = XCC_IN(scale),
                             .zero_point = XCC_IN(zero), .axis = 0);
    if (y != NULL)
        xcc_evaluate_node(&e, y->producer);
    c.operand = y;
    for (size_t i = 0; y != NULL && i < f->count; i++) {
        xcc_node *copy = xcc_node_copy(&b, f->nodes[i], copied, &c);
        y = c.made[i] = copy != NULL ? xcc_node_output(copy, 0) : NULL;
        if (y != NULL)
            xcc_evaluate_node(&e, copy);
    }
    if (y != NULL)
        y = xcc_apply(&b, QuantizeLinear, y, .x = XCC_IN(y), .scale = XCC_IN(result_scale),
                      .zero_point = XCC_IN(result_zero), .axis = 0, .saturate = 1);
    if (y != NULL)
        xcc_evaluate_node(&e, y->producer);
    xcc_evaluator_end(&e);
    if (y == NULL || !xcc_is_constant(y) || xcvm_element_count(&y->type) != XCC_BYTES)
        return false;
    for (int i = 0; i < XCC_BYTES; i++) {
        const int v = XCVM_CDATA(uint8_t, &y->type)[i];
        table[i] = (uint8_t)(v < to->low ? to->low : v > to->high ? to->high : v);
    }
    return true;
}

static bool is_identity(const uint8_t table[XCC_BYTES])
{
    bool same = true;
    for (int i = 0; i < XCC_BYTES; i++)
        same = same && table[i] == i;
    return same;
}

/* Converts the bytes to another scale and zero point; returns them unchanged if these are equal. */
static xcc_region_tensor rescaled(xcc_rewrite *r, xcc_node *n, xcc_region_tensor x, const xcc_dequantized *from,
                                  const xcc_requantized *to)
{
    uint8_t table[XCC_BYTES];
    const function f = {.x = *from};
    if (x.v == NULL || !tabulate(r, n, &f, to, table))
        return (xcc_region_tensor){0};
    if (is_identity(table))
        return x;
    xcc_builder b = xcc_builder_before(n);
    const xcc_value *constant = xcc_constant_bytes(&b, XCVM_U8, table, XCC_BYTES);
    if (constant == NULL)
        return (xcc_region_tensor){0};
    x.v = xcc_apply(&b, Lookup, y, .x = XCC_IN(x.v), .table = XCC_IN(constant));
    return x;
}

/* Also for a tensor that is requantized directly. */
static xcc_value *unary(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to)
{
    function f = {0};
    uint8_t table[XCC_BYTES];
    if (!collect(&f, x, 0) || f.leaf == NULL || !same_dims(f.leaf, x) || !tabulate(r, n, &f, to, table))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    xcc_region_tensor bytes = xcc_region_value(&b, f.x.q, false);
    if (bytes.v != NULL && !is_identity(table)) {
        const xcc_value *constant = xcc_constant_bytes(&b, XCVM_U8, table, XCC_BYTES);
        if (constant == NULL)
            return NULL;
        bytes.v = xcc_apply(&b, Lookup, y, .x = XCC_IN(bytes.v), .table = XCC_IN(constant));
    }
    return xcc_region_edge(&b, bytes, to->is_signed);
}

/* ---- Two tensors ---- */

/* Converts both to channels last if one is a channels-last image and the other is also an image. */
static bool both_bytes(xcc_builder *b, xcc_value *p, xcc_value *q, xcc_region_tensor of[2])
{
    of[0] = xcc_region_value(b, p, false);
    of[1] = xcc_region_value(b, q, false);
    const bool images = (of[0].last || of[1].last) && p->type.rank == 4 && q->type.rank == 4;
    xcc_value *const from[] = {p, q};
    for (int i = 0; i < 2; i++) {
        if (of[i].v != NULL && of[i].last != images)
            of[i] = images ? xcc_region_value(b, from[i], true)
                           : (xcc_region_tensor){xcc_region_edge(b, of[i], false), false};
        if (of[i].v == NULL)
            return false;
    }
    return true;
}

/* Returns the bytes that a constant table was applied to, and the table; otherwise v itself and NULL. */
static xcc_value *looked_up(xcc_value *v, const xcc_value **table)
{
    const xcc_node *n = xcc_producer(v, XCVM_OP_Lookup);
    *table = n != NULL && xcc_is_constant(xcc_node_input(n, 1)) ? xcc_node_input(n, 1) : NULL;
    return *table != NULL ? xcc_node_input(n, 0) : v;
}

/* A sum or product of two functions of the same bytes, such as x * sigmoid(x), becomes one table, computed from both
 * tables. Returns `y` if it does not apply. */
static xcc_value *of_one(xcc_rewrite *r, xcc_builder *b, const xcc_region_tensor of[2], xcc_value *y)
{
    const xcc_value *tables[2];
    xcc_value *x = looked_up(of[0].v, &tables[0]);
    if (y == NULL || looked_up(of[1].v, &tables[1]) != x)
        return y;
    uint8_t all[XCC_BYTES];
    for (int i = 0; i < XCC_BYTES; i++)
        all[i] = (uint8_t)i;
    for (int i = 0; i < 2; i++)
        if (tables[i] == NULL && (tables[i] = xcc_constant_bytes(b, XCVM_U8, all, XCC_BYTES)) == NULL)
            return NULL;
    const xcc_node *n = y->producer;
    xcc_evaluator e;
    xcc_value *table;
    if (xcc_is(n, XCVM_OP_QuantizedAdd)) {
        xcvm_QuantizedAdd_args a = *XCC_ARGS(QuantizedAdd, n);
        a.a = XCC_IN(tables[0]);
        a.b = XCC_IN(tables[1]);
        table = xcc_apply_at(b, XCVM_OP_QuantizedAdd, &a, offsetof(xcvm_QuantizedAdd_args, y));
    } else {
        xcvm_QuantizedMul_args a = *XCC_ARGS(QuantizedMul, n);
        a.a = XCC_IN(tables[0]);
        a.b = XCC_IN(tables[1]);
        table = xcc_apply_at(b, XCVM_OP_QuantizedMul, &a, offsetof(xcvm_QuantizedMul_args, y));
    }
    if (table == NULL)
        return NULL;
    xcc_evaluator_begin(&e, r->m, true);
    xcc_evaluate_node(&e, table->producer);
    xcc_evaluator_end(&e);
    return xcc_is_constant(table) ? xcc_apply(b, Lookup, y, .x = XCC_IN(x), .table = XCC_IN(table)) : y;
}

static xcc_value *binary(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to)
{
    const xcc_node *producer = xcc_used_once(x) ? x->producer : NULL;
    const bool is_add = xcc_is(producer, XCVM_OP_Add);
    xcc_dequantized p, q;
    if ((!is_add && !xcc_is(producer, XCVM_OP_Mul)) || !xcc_dequantized_of(xcc_node_input(producer, 0), &p) ||
        !xcc_dequantized_of(xcc_node_input(producer, 1), &q))
        return NULL;
    float scale, q_scale = 1;
    if (is_add ? !xcc_scale_of_product(p.scale, 1, to->scale, &scale) ||
                     !xcc_scale_of_product(q.scale, 1, to->scale, &q_scale)
               : !xcc_scale_of_product(p.scale, q.scale, to->scale, &scale))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    xcc_region_tensor of[2];
    if (!both_bytes(&b, p.q, q.q, of))
        return NULL;
    xcc_region_tensor y = {.last = of[0].last};
    if (is_add)
        y.v = xcc_apply(&b, QuantizedAdd, y, .a = XCC_IN(of[0].v), .b = XCC_IN(of[1].v), .a_scale = (double)scale,
                        .b_scale = (double)q_scale, .a_zero_point = p.zero, .b_zero_point = q.zero,
                        .y_zero_point = to->zero, .low = to->low, .high = to->high);
    else
        y.v = xcc_apply(&b, QuantizedMul, y, .a = XCC_IN(of[0].v), .b = XCC_IN(of[1].v), .scale = (double)scale,
                        .a_zero_point = p.zero, .b_zero_point = q.zero, .y_zero_point = to->zero, .low = to->low,
                        .high = to->high);
    y.v = of_one(r, &b, of, y.v);
    return xcc_region_edge(&b, y, to->is_signed);
}

/* ---- Pools ---- */

static bool plain_window(int auto_pad, xcvm_ints kernel, xcvm_ints strides, xcvm_ints pads, xcvm_ints dilations)
{
    return auto_pad == XCVM_AUTO_PAD_NOTSET && kernel.count == 2 && strides.count == 2 && pads.count == 4 &&
           dilations.count == 2;
}

static xcc_value *max_pool(xcc_rewrite *r, xcc_node *n, const xcc_node *producer, const xcc_requantized *to)
{
    const xcvm_MaxPool_args *a = XCC_ARGS(MaxPool, producer);
    xcc_dequantized x;
    if ((a->indices != NULL && xcc_value_of(a->indices)->uses != 0) || a->storage_order != 0 || a->x->rank != 4 ||
        !plain_window(a->auto_pad, a->kernel_shape, a->strides, a->pads, a->dilations) ||
        !xcc_dequantized_of(xcc_value_of(a->x), &x))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    xcc_region_tensor bytes = xcc_region_value(&b, x.q, true);
    if (bytes.v != NULL)
        bytes.v =
            xcc_apply(&b, QuantizedMaxPool, y, .x = XCC_IN(bytes.v), .kernel_shape = a->kernel_shape,
                      .strides = a->strides, .pads = a->pads, .dilations = a->dilations, .ceil_mode = a->ceil_mode);
    return xcc_region_edge(&b, rescaled(r, n, bytes, &x, to), to->is_signed);
}

/* The mean of windows or, without attributes, of whole images. */
static xcc_value *mean(xcc_node *n, const xcc_dequantized *x, xcvm_QuantizedAveragePool_args args,
                       const xcc_requantized *to, bool keeps_axes)
{
    float scale;
    if (!xcc_scale_of_product(x->scale, 1, to->scale, &scale))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    xcc_region_tensor bytes = xcc_region_value(&b, x->q, true);
    if (bytes.v == NULL)
        return NULL;
    args.x = XCC_IN(bytes.v);
    args.scale = (double)scale;
    args.x_zero_point = x->zero;
    args.y_zero_point = to->zero;
    args.low = to->low;
    args.high = to->high;
    bytes.v = xcc_apply_at(&b, XCVM_OP_QuantizedAveragePool, &args, offsetof(xcvm_QuantizedAveragePool_args, y));
    if (bytes.v != NULL && !keeps_axes) {
        static const int64_t axes[] = {1, 2};
        const xcc_value *constant = xcc_constant_i64(n->graph, 2, axes);
        bytes.v = constant != NULL ? xcc_apply(&b, Squeeze, y, .x = XCC_IN(bytes.v), .axes = XCC_IN(constant)) : NULL;
        bytes.last = false;
    }
    return xcc_region_edge(&b, bytes, to->is_signed);
}

static xcc_value *average_pool(xcc_node *n, const xcc_node *producer, const xcc_requantized *to)
{
    const xcvm_AveragePool_args *a = XCC_ARGS(AveragePool, producer);
    xcc_dequantized x;
    if (a->x->rank != 4 || !plain_window(a->auto_pad, a->kernel_shape, a->strides, a->pads, a->dilations) ||
        a->dilations.at[0] != 1 || a->dilations.at[1] != 1 || !xcc_dequantized_of(xcc_value_of(a->x), &x))
        return NULL;
    const xcvm_QuantizedAveragePool_args args = {.kernel_shape = a->kernel_shape,
                                                 .strides = a->strides,
                                                 .pads = a->pads,
                                                 .ceil_mode = a->ceil_mode,
                                                 .count_include_pad = a->count_include_pad};
    return mean(n, &x, args, to, true);
}

bool xcc_is_over_images(const xcc_value *axes)
{
    int64_t of[2];
    if (xcc_integers(axes, of, 2) != 2)
        return false;
    for (int i = 0; i < 2; i++)
        of[i] += of[i] < 0 ? 4 : 0;
    return (of[0] == 2 && of[1] == 3) || (of[0] == 3 && of[1] == 2);
}

static xcc_value *mean_of_images(xcc_node *n, const xcc_node *producer, const xcc_requantized *to)
{
    const xcvm_ReduceMean_args *a = XCC_ARGS(ReduceMean, producer);
    xcc_dequantized x;
    if (a->x->rank != 4 || a->axes == NULL || !xcc_is_over_images(xcc_value_of(a->axes)) ||
        !xcc_dequantized_of(xcc_value_of(a->x), &x))
        return NULL;
    return mean(n, &x, (xcvm_QuantizedAveragePool_args){0}, to, a->keepdims != 0);
}

/* ---- Data movement ---- */

static xcc_value *concat(xcc_rewrite *r, xcc_node *n, const xcc_node *producer, const xcc_requantized *to)
{
    const xcvm_Concat_args *a = XCC_ARGS(Concat, producer);
    static const int64_t axis_of_last[] = {0, 3, 1, 2};
    const size_t count = xcc_node_input_count(producer);
    const int rank = xcc_node_output(producer, 0)->type.rank;
    xcc_dequantized x;
    bool images = rank == 4;
    xcc_builder b = xcc_builder_before(n);
    for (size_t i = 0; i < count; i++)
        if (!xcc_dequantized_of(xcc_node_input(producer, i), &x))
            return NULL;
    xcvm_value **parts = xcc_alloc(r->m, count * sizeof *parts + 1);
    if (parts == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!xcc_dequantized_of(xcc_node_input(producer, i), &x))
            return NULL;
        xcc_region_tensor bytes = rescaled(r, n, xcc_region_value(&b, x.q, images), &x, to);
        if (bytes.v != NULL && bytes.last != images)
            bytes.v = xcc_region_edge(&b, bytes, false);
        if (bytes.v == NULL)
            return NULL;
        parts[i] = XCC_IN(bytes.v);
    }
    const int64_t axis = a->axis < 0 ? a->axis + rank : a->axis;
    xcvm_Concat_args args = *a;
    args.xs.at = (const xcvm_value *const *)parts;
    args.axis = images ? axis_of_last[axis] : axis;
    const xcc_region_tensor y = {xcc_apply_at(&b, XCVM_OP_Concat, &args, offsetof(xcvm_Concat_args, y)), images};
    return xcc_region_edge(&b, y, to->is_signed);
}

static bool moves_elements(const xcc_node *n)
{
    if (n == NULL || n->kind != XCC_INSTRUCTION || xcc_node_output_count(n) != 1)
        return false;
    switch (n->schema->opcode) {
    case XCVM_OP_Reshape:
    case XCVM_OP_Flatten:
    case XCVM_OP_Squeeze:
    case XCVM_OP_Unsqueeze:
    case XCVM_OP_Transpose:
    case XCVM_OP_Expand:
    case XCVM_OP_Slice:
    case XCVM_OP_Tile:
    case XCVM_OP_Gather:
    case XCVM_OP_DepthToSpace:
    case XCVM_OP_SpaceToDepth:
        return true;
    case XCVM_OP_Resize:
        return XCC_ARGS(Resize, n)->mode == XCVM_RESIZE_MODE_nearest &&
               XCC_ARGS(Resize, n)->coordinate_transformation_mode != XCVM_COORDINATE_tf_crop_and_resize;
    default:
        return false;
    }
}

typedef struct moved {
    const xcc_value *x;
    xcc_value *bytes;
} moved;

static xcvm_status replace_first(void *user, xcc_value *v, const xcvm_field *field, xcc_value **copy)
{
    const moved *m = user;
    *copy = v == m->x ? m->bytes : v;
    if (field->role != XCVM_ROLE_OUT)
        return XCVM_OK;
    *copy = xcc_value_create(v->graph, NULL);
    return *copy != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcc_value *move(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to)
{
    const xcc_node *producer = xcc_used_once(x) ? x->producer : NULL;
    xcc_dequantized d;
    if (!moves_elements(producer) || !xcc_dequantized_of(xcc_node_input(producer, 0), &d))
        return NULL;
    xcc_builder b = xcc_builder_before(n);
    const xcc_region_tensor from = xcc_region_value(&b, d.q, false);
    moved m = {xcc_node_input(producer, 0), from.v != NULL ? xcc_region_edge(&b, from, false) : NULL};
    if (m.bytes == NULL)
        return NULL;
    const xcc_node *copy = xcc_node_copy(&b, producer, replace_first, &m);
    const xcc_region_tensor y = {copy != NULL ? xcc_node_output(copy, 0) : NULL, false};
    return xcc_region_edge(&b, rescaled(r, n, y, &d, to), to->is_signed);
}

xcc_value *xcc_integer_elements(xcc_rewrite *r, xcc_node *n, const xcc_value *x, const xcc_requantized *to)
{
    xcc_value *y = unary(r, n, x, to);
    const xcc_node *producer = xcc_used_once(x) ? x->producer : NULL;
    if (y != NULL || r->status != XCVM_OK || producer == NULL || producer->kind != XCC_INSTRUCTION)
        return y;
    switch (producer->schema->opcode) {
    case XCVM_OP_Add:
    case XCVM_OP_Mul:
        return binary(r, n, x, to);
    case XCVM_OP_MaxPool:
        return max_pool(r, n, producer, to);
    case XCVM_OP_AveragePool:
        return average_pool(n, producer, to);
    case XCVM_OP_ReduceMean:
        return mean_of_images(n, producer, to);
    case XCVM_OP_Concat:
        return concat(r, n, producer, to);
    default:
        return move(r, n, x, to);
    }
}
