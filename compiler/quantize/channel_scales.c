/* Channel equalization: channels of activations that share a scale get ranges that are more alike. A channel is
 * multiplied by a factor where a convolution computes it, and divided by it where convolutions read it, so the float
 * results change by rounding alone. Channels that Add, Concat or Pad connect, as in residual networks, have one factor.
 * The idea is Nagel et al. 2019; ranges come from data, as in SmoothQuant (Xiao et al., 2023). */
#include "compiler/quantize/compiled_model.h"

#include "base/value.h"

#include <math.h>
#include <string.h>

enum {
    MOST_BATCHES = 64, /* whose ranges are looked at */
    FIXED = 0,         /* the group of channels that must not be scaled */
    MOST_FACTOR = 32
};

/* A union-find structure over the channels of all tensors. */
typedef struct channel_groups {
    quantizer *q;
    size_t *parent, count;
    double *reach;   /* by group: the greatest magnitude of its channels, as a share of their tensor's */
    double *factors; /* by group */
} channel_groups;

/* ---- Channels ---- */

static bool is_one_of(const xcc_quant_node *n, const char *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (xcc_quant_is(n, ops[i]))
            return true;
    return false;
}

/* f(s x) = s f(x) for s > 0, channel by channel. */
static bool is_homogeneous(const xcc_quant_node *n)
{
    static const char *const ops[] = {
        "AveragePool", "Dropout",      "GlobalAveragePool", "GlobalMaxPool", "Identity", "LeakyRelu",
        "LpPool",      "GlobalLpPool", "MaxPool",           "PRelu",         "Pad",      "Resize",
        "Relu",        "Upsample"};
    return is_one_of(n, ops, sizeof ops / sizeof *ops);
}

/* f(s x, s y) = s f(x, y) for s > 0. */
static bool is_homogeneous_in_two(const xcc_quant_node *n)
{
    static const char *const ops[] = {"Add", "Max", "Min", "Sub", "Sum"};
    return n->proto->n_input == 2 && is_one_of(n, ops, sizeof ops / sizeof *ops);
}

static bool is_convolution(const xcc_quant_node *n)
{
    return xcc_quant_is(n, "Conv") || xcc_quant_is(n, "ConvTranspose");
}

static bool is_known(const xcc_quant_tensor *t) { return t != NULL && t->channels > 0; }

/* Both have the same channels on axis 1. */
static bool are_alike(const xcc_quant_tensor *a, const xcc_quant_tensor *b)
{
    return is_known(a) && is_known(b) && a->rank == b->rank && a->channels == b->channels;
}

static const Onnx__AttributeProto *find_text(const xcc_quant_node *n, const char *name, const char *text)
{
    const Onnx__AttributeProto *a = xcc_quant_attribute(n, name);
    const size_t length = strlen(text);
    return a != NULL && a->s.len == length && memcmp(a->s.data, text, length) == 0 ? a : NULL;
}

/* Returns the channels that a Pad adds; *known is false if it may pad them with anything but zeros. */
static xcvm_status read_padding(quantizer *q, const xcc_quant_node *n, int64_t *before, int64_t *after, bool *known)
{
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *pads = xcc_quant_input(q, n, 1),
                           *value = xcc_quant_input(q, n, 2);
    const Onnx__AttributeProto *attribute = xcc_quant_attribute(n, "pads");
    const size_t rank = (size_t)x->rank;
    const bool constant = xcc_quant_attribute(n, "mode") == NULL || find_text(n, "mode", "constant") != NULL;
    *known = false;
    if (constant && xcc_quant_real(n, "value", 0) != 0)
        return XCVM_OK;
    if (constant && value != NULL) {
        xcc_tensor added;
        if (!xcc_quant_is_weight(value))
            return XCVM_OK;
        XCVM_TRY(xcc_quant_read(q, value, &added));
        if (added.count != 1 || *(const float *)added.data != 0)
            return XCVM_OK;
    }
    if (attribute != NULL && attribute->n_ints == 2 * rank) {
        *before = attribute->ints[1];
        *after = attribute->ints[rank + 1];
    } else if (pads != NULL && pads->constant != NULL && pads->constant->data_type == XCVM_I64 &&
               xcc_quant_input(q, n, 3) == NULL) {
        xcc_tensor read;
        XCVM_TRY(xcc_quant_read(q, pads, &read));
        if (read.count != 2 * rank)
            return XCVM_OK;
        *before = ((const int64_t *)read.data)[1];
        *after = ((const int64_t *)read.data)[rank + 1];
    } else {
        return XCVM_OK;
    }
    *known = *before >= 0 && *after >= 0 && *before < INT32_MAX && *after < INT32_MAX &&
             (constant || (*before == 0 && *after == 0));
    return XCVM_OK;
}

/* Returns true if a Resize or Upsample preserves the channels, and reads nothing outside of the image. */
static xcvm_status keeps_channels(quantizer *q, const xcc_quant_node *n, bool *keeps)
{
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0);
    *keeps = false;
    if (xcc_quant_attribute(n, "axes") != NULL ||
        find_text(n, "coordinate_transformation_mode", "tf_crop_and_resize") != NULL)
        return XCVM_OK;
    for (size_t i = 1; i < n->proto->n_input && !*keeps; i++) {
        const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        const bool scales = t != NULL && xcc_quant_is_weight(t);
        if (t == NULL || t->constant == NULL || (!scales && t->constant->data_type != XCVM_I64) ||
            (i == 1 && n->proto->n_input > 2))
            continue;
        xcc_tensor read;
        XCVM_TRY(xcc_quant_read(q, t, &read));
        if (read.count == (size_t)x->rank)
            *keeps = scales ? ((const float *)read.data)[1] == 1.0f
                            : ((const int64_t *)read.data)[1] == (int64_t)x->channels;
    }
    return XCVM_OK;
}

/* The channel of the result of a homogeneous node that channel 0 of its operand becomes; -1: unknown. */
static xcvm_status first_channel(quantizer *q, const xcc_quant_node *n, int64_t *first, size_t *channels)
{
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0);
    bool known = is_known(x) && n->proto->n_output == 1;
    int64_t after = 0;
    *first = 0;
    if (known && xcc_quant_is(n, "Pad"))
        XCVM_TRY(read_padding(q, n, first, &after, &known));
    else if (known && (xcc_quant_is(n, "Resize") || xcc_quant_is(n, "Upsample")))
        XCVM_TRY(keeps_channels(q, n, &known));
    *channels = known ? x->channels + (size_t)*first + (size_t)after : 0;
    if (!known)
        *first = -1;
    return XCVM_OK;
}

static bool is_own_constant(const xcc_quant_tensor *t)
{
    return xcc_quant_is_weight(t) && t->consumer_count == 1 && !t->captured && !t->is_output;
}

/* A convolution whose weights and bias may change: its channels. */
static bool is_scalable(const quantizer *q, const xcc_quant_node *n, size_t *outputs, size_t *inputs)
{
    const xcc_quant_tensor *w = xcc_quant_input(q, n, 1), *bias = xcc_quant_input(q, n, 2);
    const int64_t group = xcc_quant_int(n, "group", 1);
    if (!is_own_constant(w) || (bias != NULL && !is_own_constant(bias)) || w->constant->n_dims < 3 || group < 1)
        return false;
    const int64_t *dims = w->constant->dims;
    const bool transposed = xcc_quant_is(n, "ConvTranspose");
    if (dims[0] <= 0 || dims[1] <= 0 || dims[0] % group != 0 || dims[1] > INT32_MAX || group > INT32_MAX)
        return false;
    *outputs = (size_t)(transposed ? dims[1] * group : dims[0]);
    *inputs = (size_t)(transposed ? dims[0] : dims[1] * group);
    return bias == NULL || (bias->constant->n_dims == 1 && bias->constant->dims[0] == (int64_t)*outputs);
}

/* ---- Groups ---- */

static void set_channels(xcc_quant_tensor *t, int rank, size_t channels)
{
    if (t == NULL || t->constant != NULL)
        return;
    t->rank = rank;
    t->channels = channels;
}

/* Finds the channels of a node's results. They are known only after convolutions. */
static xcvm_status find_channels(quantizer *q, const xcc_quant_node *n)
{
    xcc_quant_tensor *y = xcc_quant_output(q, n, 0);
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0);
    size_t outputs, inputs;
    int64_t first;
    if (is_convolution(n) && is_scalable(q, n, &outputs, &inputs)) {
        set_channels(y, (int)xcc_quant_input(q, n, 1)->constant->n_dims, outputs);
    } else if (is_homogeneous(n)) {
        XCVM_TRY(first_channel(q, n, &first, &outputs));
        set_channels(y, x != NULL ? x->rank : 0, outputs);
    } else if (is_homogeneous_in_two(n) && are_alike(x, xcc_quant_input(q, n, 1))) {
        set_channels(y, x->rank, x->channels);
    } else if (xcc_quant_is(n, "Concat")) {
        size_t sum = 0;
        const int64_t axis = xcc_quant_int(n, "axis", 1);
        for (size_t i = 0; i < n->proto->n_input; i++) {
            const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
            if (!is_known(t) || t->rank != x->rank || (axis != 1 && axis != 1 - t->rank))
                return XCVM_OK;
            sum += t->channels;
        }
        set_channels(y, x != NULL ? x->rank : 0, sum);
    }
    return XCVM_OK;
}

static size_t find_group(channel_groups *g, size_t at)
{
    while (g->parent[at] != at) {
        g->parent[at] = g->parent[g->parent[at]];
        at = g->parent[at];
    }
    return at;
}

static void join_one(channel_groups *g, size_t a, size_t b)
{
    a = find_group(g, a);
    b = find_group(g, b);
    /* The lesser number represents a group, so that FIXED stays itself. */
    g->parent[a > b ? a : b] = a < b ? a : b;
}

static void join_channels(channel_groups *g, const xcc_quant_tensor *a, const xcc_quant_tensor *b, size_t first)
{
    for (size_t c = 0; c < a->channels; c++)
        join_one(g, a->first_channel + c, b->first_channel + first + c);
}

static void fix_channels(channel_groups *g, const xcc_quant_tensor *t)
{
    for (size_t c = 0; t != NULL && c < t->channels; c++)
        join_one(g, FIXED, t->first_channel + c);
}

static void fix_node(channel_groups *g, const xcc_quant_node *n)
{
    for (size_t i = 0; i < n->proto->n_input; i++)
        fix_channels(g, xcc_quant_input(g->q, n, i));
    for (size_t i = 0; i < n->proto->n_output; i++)
        fix_channels(g, xcc_quant_output(g->q, n, i));
}

static xcvm_status join_node(channel_groups *g, const xcc_quant_node *n)
{
    quantizer *q = g->q;
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *y = xcc_quant_output(q, n, 0);
    size_t outputs, inputs, first = 0;
    int64_t to;
    if (is_convolution(n) && is_scalable(q, n, &outputs, &inputs)) {
        const bool fits =
            !is_known(x) || (x->channels == inputs && x->rank == (int)xcc_quant_input(q, n, 1)->constant->n_dims);
        if (!fits)
            fix_channels(g, x);
        return XCVM_OK;
    }
    if (!is_known(y)) {
        fix_node(g, n);
        return XCVM_OK;
    }
    if (is_homogeneous(n)) {
        XCVM_TRY(first_channel(q, n, &to, &outputs));
        join_channels(g, x, y, (size_t)to);
        for (size_t i = 1; i < n->proto->n_input; i++)
            fix_channels(g, xcc_quant_input(q, n, i));
        return XCVM_OK;
    }
    for (size_t i = 0; i < n->proto->n_input; i++) {
        const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        join_channels(g, t, y, first);
        first += xcc_quant_is(n, "Concat") ? t->channels : 0;
    }
    return XCVM_OK;
}

static xcvm_status find_groups(channel_groups *g, xcvm_arena *arena)
{
    quantizer *q = g->q;
    g->count = 1;
    for (size_t i = 0; i < q->node_count; i++) {
        XCVM_TRY(xcc_poll(&q->m));
        if (!q->nodes[i].gone)
            XCVM_TRY(find_channels(q, &q->nodes[i]));
    }
    for (size_t i = 0; i < q->tensor_count; i++) {
        q->tensors[i]->first_channel = g->count;
        g->count += q->tensors[i]->channels;
    }
    g->parent = xcvm_arena_allocate(arena, g->count * sizeof *g->parent);
    g->reach = xcvm_arena_allocate(arena, g->count * sizeof *g->reach);
    g->factors = xcvm_arena_allocate(arena, g->count * sizeof *g->factors);
    if (g->parent == NULL || g->reach == NULL || g->factors == NULL)
        return xcc_out_of_memory(&q->m);
    for (size_t i = 0; i < g->count; i++) {
        g->parent[i] = i;
        g->reach[i] = 0;
        g->factors[i] = 1;
    }
    for (size_t i = 0; i < q->node_count; i++) {
        XCVM_TRY(xcc_poll(&q->m));
        if (!q->nodes[i].gone)
            XCVM_TRY(join_node(g, &q->nodes[i]));
    }
    for (size_t i = 0; i < q->tensor_count; i++)
        if (q->tensors[i]->is_output || q->tensors[i]->is_input || q->tensors[i]->captured)
            fix_channels(g, q->tensors[i]);
    return XCVM_OK;
}

/* ---- Ranges of channels ---- */

static void add_magnitudes(const xcc_quant_tensor *t, const xcvm_value *v)
{
    const size_t count = xcvm_element_count(v), batches = (size_t)v->dims[0];
    const float *x = v->data;
    if (count == 0)
        return;
    const size_t inner = count / batches / t->channels;
    for (size_t at = 0; at < batches * t->channels; at++, x += inner) {
        float *most = &t->magnitudes[at % t->channels];
        for (size_t i = 0; i < inner; i++)
            *most = fabsf(x[i]) > *most ? fabsf(x[i]) : *most;
    }
}

static bool has_magnitudes(const xcc_quant_tensor *t)
{
    return t->channels > 0 && t->quantized && !t->is_input && t->constant == NULL && t->probe >= 0;
}

static xcvm_status see_channels(quantizer *q, const xcc_calibration *data, size_t batch, xcvm_value **inputs)
{
    XCVM_TRY(xcc_batch_read(q, data, batch, inputs));
    XCVM_TRY(xcc_compiled_run(q, q->float_model, inputs));
    for (size_t i = 0; i < q->tensor_count; i++) {
        const xcc_quant_tensor *t = q->tensors[i];
        const xcvm_value *v = has_magnitudes(t) ? xcc_compiled_tensor(q, t, inputs) : NULL;
        if (v != NULL && v->dtype == XCVM_F32 && v->rank == t->rank && v->dims[1] == (int64_t)t->channels)
            add_magnitudes(t, v);
    }
    return XCVM_OK;
}

static xcvm_status see_batches(quantizer *q, const xcc_calibration *data, size_t batches, xcvm_arena *arena)
{
    for (size_t i = 0; i < q->tensor_count; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        if (!has_magnitudes(t))
            continue;
        t->magnitudes = xcvm_arena_allocate(arena, t->channels * sizeof *t->magnitudes);
        if (t->magnitudes == NULL)
            return xcc_out_of_memory(&q->m);
        memset(t->magnitudes, 0, t->channels * sizeof *t->magnitudes);
    }
    xcvm_value **inputs = xcvm_arena_allocate(arena, (q->input_count + 1) * sizeof *inputs);
    if (inputs == NULL)
        return xcc_out_of_memory(&q->m);
    const size_t step = batches / MOST_BATCHES + 1;
    for (size_t batch = 0; batch < batches; batch += step) {
        xcc_quant_progress(q, "scale channels", (double)batch / (double)batches);
        const xcvm_status status = see_channels(q, data, batch, inputs);
        xcc_batch_release(q, inputs);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}

/* ---- Factors ---- */

/* The square root of the ratio of ranges: the weights that read a channel take the other half. */
static void choose_factors(channel_groups *g)
{
    const quantizer *q = g->q;
    for (size_t i = 0; i < q->tensor_count; i++) {
        const xcc_quant_tensor *t = q->tensors[i];
        float most = 0;
        for (size_t c = 0; c < t->channels && t->magnitudes != NULL; c++)
            most = fmaxf(most, t->magnitudes[c]);
        for (size_t c = 0; c < t->channels && most > 0 && most < INFINITY; c++) {
            double *reach = &g->reach[find_group(g, t->first_channel + c)];
            *reach = fmax(*reach, (double)t->magnitudes[c] / (double)most);
        }
    }
    for (size_t i = FIXED + 1; i < g->count; i++)
        if (g->reach[i] > 0)
            g->factors[i] = fmin(1 / sqrt(g->reach[i]), MOST_FACTOR);
}

static double factor_of(channel_groups *g, const xcc_quant_tensor *t, size_t channel)
{
    return is_known(t) ? g->factors[find_group(g, t->first_channel + channel)] : 1;
}

static xcvm_status scale_weights(channel_groups *g, const xcc_quant_node *n, xcvm_arena *arena)
{
    quantizer *q = g->q;
    xcc_quant_tensor *t = xcc_quant_input(q, n, 1), *bias = xcc_quant_input(q, n, 2);
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *y = xcc_quant_output(q, n, 0);
    const bool transposed = xcc_quant_is(n, "ConvTranspose");
    const size_t group = (size_t)xcc_quant_int(n, "group", 1);
    xcc_tensor shape;
    float *w, *b;
    bool changes = false;
    XCVM_TRY(xcc_quant_floats(q, t, arena, &shape, &w));
    const size_t rows = (size_t)shape.dims[0], columns = (size_t)shape.dims[1], inner = shape.count / rows / columns;
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++) {
            /* Weights are [outputs, inputs of a group, ...], or [inputs, outputs of a group, ...] if transposed. */
            const size_t other = row / (rows / group) * columns + column;
            const double factor = factor_of(g, y, transposed ? other : row) / factor_of(g, x, transposed ? row : other);
            changes = changes || factor < 1 || factor > 1;
            for (size_t i = 0; i < inner; i++)
                w[(row * columns + column) * inner + i] =
                    (float)((double)w[(row * columns + column) * inner + i] * factor);
        }
    if (changes)
        XCVM_TRY(xcc_quant_set(q, t, shape.rank, shape.dims, w));
    if (bias == NULL)
        return XCVM_OK;
    /* A bias changes where weights do not: if operand and result have the same factors. */
    XCVM_TRY(xcc_quant_floats(q, bias, arena, &shape, &b));
    for (size_t i = 0; i < shape.count; i++)
        b[i] = (float)((double)b[i] * factor_of(g, y, i));
    return xcc_quant_set(q, bias, shape.rank, shape.dims, b);
}

static xcvm_status scale_channels(channel_groups *g, const xcc_calibration *data, size_t batches, xcvm_arena *arena)
{
    quantizer *q = g->q;
    bool free_groups = false;
    XCVM_TRY(find_groups(g, arena));
    for (size_t i = FIXED + 1; i < g->count && !free_groups; i++)
        free_groups = find_group(g, i) != FIXED;
    if (!free_groups)
        return XCVM_OK;
    XCVM_TRY(see_batches(q, data, batches, arena));
    choose_factors(g);
    for (size_t i = FIXED + 1; i < g->count; i++)
        q->scaled_channels += g->parent[i] == i && g->factors[i] > 1;
    for (size_t i = 0; i < q->node_count && q->scaled_channels > 0; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        size_t outputs, inputs;
        XCVM_TRY(xcc_poll(&q->m));
        if (!n->gone && is_convolution(n) && is_scalable(q, n, &outputs, &inputs))
            XCVM_TRY(scale_weights(g, n, arena));
    }
    return q->scaled_channels > 0 ? xcc_quant_open_probe(q) : XCVM_OK;
}

xcvm_status xcc_quant_scale_channels(quantizer *q, const xcc_calibration *data, size_t batches)
{
    xcvm_arena arena = {.allocator = q->m.allocator};
    channel_groups g = {.q = q};
    const xcvm_status status = scale_channels(&g, data, batches, &arena);
    for (size_t i = 0; i < q->tensor_count; i++)
        q->tensors[i]->magnitudes = NULL;
    xcvm_arena_release(&arena);
    return status;
}
