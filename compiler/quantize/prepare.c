/* Preparation: merges nodes that follow a convolution into its weights and bias. */
#include "compiler/quantize/quantize.h"

#include "compiler/onnx_model/onnx_model.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- Constants that are other constants ---- */

/* Merges Identity, and Reshape to constant dims, of a constant. */
static xcvm_status alias(quantizer *q, xcc_quant_node *n)
{
    xcc_quant_tensor *from = xcc_quant_input(q, n, 0), *to = xcc_quant_output(q, n, 0);
    if (!xcc_quant_is_weight(from) || to == NULL || to->is_output || n->proto->n_output != 1)
        return XCVM_OK;
    xcc_tensor tensor;
    XCVM_TRY(xcc_quant_read(q, from, &tensor));
    int rank = tensor.rank;
    int64_t dims[XCVM_MAX_RANK];
    memcpy(dims, tensor.dims, sizeof dims);
    if (xcc_quant_is(n, "Reshape")) {
        const xcc_quant_tensor *shape = xcc_quant_input(q, n, 1);
        xcc_tensor wanted;
        if (shape == NULL || shape->constant == NULL || shape->constant->data_type != XCVM_I64 ||
            xcc_quant_int(n, "allowzero", 0) != 0)
            return XCVM_OK;
        XCVM_TRY(xcc_quant_read(q, shape, &wanted));
        if (wanted.rank != 1 || wanted.count > XCVM_MAX_RANK)
            return XCVM_OK;
        size_t known = 1;
        int open = -1;
        for (size_t i = 0; i < wanted.count; i++) {
            dims[i] = ((const int64_t *)wanted.data)[i];
            if (dims[i] == 0 && (int)i < tensor.rank)
                dims[i] = tensor.dims[i];
            if (dims[i] == -1 && open < 0)
                open = (int)i;
            else if (dims[i] <= 0 || !xcvm_size_mul(known, (size_t)dims[i], &known))
                return XCVM_OK;
        }
        rank = (int)wanted.count;
        if (open >= 0)
            dims[open] = (int64_t)(tensor.count / known);
        if (tensor.count == 0 || (open >= 0 ? (size_t)dims[open] * known : known) != tensor.count)
            return XCVM_OK;
    }
    return xcc_quant_set(q, to, rank, dims, tensor.data);
}

/* ---- Nodes that are merged ---- */

/* Returns the next node if it is the only reader of n's only result and has a result, else NULL. */
static xcc_quant_node *only_reader(const quantizer *q, const xcc_quant_node *n)
{
    const xcc_quant_tensor *t = xcc_quant_output(q, n, 0);
    if (t == NULL || n->proto->n_output != 1 || t->consumer_count != 1 || t->captured || t->is_output)
        return NULL;
    xcc_quant_node *behind = &q->nodes[t->consumers[0]];
    return !behind->gone && xcc_quant_output(q, behind, 0) != NULL ? behind : NULL;
}

/* Merges `behind` into `n`, which then produces its result. */
static void take_result(quantizer *q, xcc_quant_node *n, xcc_quant_node *behind)
{
    n->proto->output[0] = behind->proto->output[0];
    xcc_quant_output(q, n, 0)->producer = (int)(n - q->nodes);
    behind->gone = true;
}

/* Replaces operand `index` of a node by a constant. */
static xcvm_status replace_operand(quantizer *q, xcc_quant_node *n, size_t index, const char *like, int rank,
                                   const int64_t *dims, const float *floats)
{
    xcc_quant_tensor *old = xcc_quant_input(q, n, index), *made = old;
    if (old != NULL && old->consumer_count == 1 && !old->captured && !old->is_output)
        return xcc_quant_set(q, old, rank, dims, floats);
    XCVM_TRY(xcc_quant_add(q, like, rank, dims, floats, &made));
    Onnx__NodeProto *p = n->proto;
    if (index >= p->n_input) {
        char **inputs = xcc_alloc(&q->m, (index + 1) * sizeof *inputs);
        if (inputs == NULL)
            return XCVM_OUT_OF_MEMORY;
        for (size_t i = 0; i <= index; i++)
            inputs[i] = i < p->n_input ? p->input[i] : (char *)(uintptr_t) "";
        p->input = inputs;
        p->n_input = index + 1;
    }
    for (size_t i = 0; old != NULL && i < old->consumer_count; i++)
        if (old->consumers[i] == (int)(n - q->nodes)) {
            old->consumers[i] = old->consumers[--old->consumer_count];
            break;
        }
    p->input[index] = (char *)(uintptr_t)made->name;
    made->consumers = xcc_alloc(&q->m, sizeof *made->consumers);
    if (made->consumers == NULL)
        return XCVM_OUT_OF_MEMORY;
    made->consumers[0] = (int)(n - q->nodes);
    made->consumer_count = made->consumer_capacity = 1;
    return XCVM_OK;
}

/* Reads the bias of a convolution: zeros if absent, NULL if not constant. */
static xcvm_status read_bias(quantizer *q, const xcc_quant_node *conv, int64_t channels, float **bias)
{
    const xcc_quant_tensor *t = xcc_quant_input(q, conv, 2);
    xcc_tensor shape;
    *bias = NULL;
    if (t == NULL) {
        *bias = xcc_alloc(&q->m, (size_t)channels * sizeof **bias);
        return *bias != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    if (!xcc_quant_is_weight(t))
        return XCVM_OK;
    XCVM_TRY(xcc_quant_floats(q, t, &q->m.arena, &shape, bias));
    if (shape.count != (size_t)channels)
        *bias = NULL;
    return XCVM_OK;
}

static xcvm_status read_vector(quantizer *q, const xcc_quant_node *n, size_t index, int64_t count, float **x)
{
    const xcc_quant_tensor *t = xcc_quant_input(q, n, index);
    xcc_tensor shape;
    *x = NULL;
    if (!xcc_quant_is_weight(t))
        return XCVM_OK;
    XCVM_TRY(xcc_quant_floats(q, t, &q->m.arena, &shape, x));
    if (shape.count != (size_t)count)
        *x = NULL;
    return XCVM_OK;
}

/* Merges y = (conv(x) - mean) / sqrt(variance + epsilon) * scale + shift, per channel. */
static xcvm_status fold_normalization(quantizer *q, xcc_quant_node *conv, xcc_quant_node *norm)
{
    const xcc_quant_tensor *weights = xcc_quant_input(q, conv, 1);
    xcc_tensor shape;
    float *w, *bias, *scale, *shift, *mean, *variance;
    if (!xcc_quant_is_weight(weights) || norm->proto->n_output != 1 || norm->proto->n_input != 5 ||
        xcc_quant_int(norm, "training_mode", 0) != 0 || xcc_quant_int(norm, "spatial", 1) != 1)
        return XCVM_OK;
    XCVM_TRY(xcc_quant_floats(q, weights, &q->m.arena, &shape, &w));
    if (shape.rank < 3 || shape.dims[0] <= 0)
        return XCVM_OK;
    const int64_t channels = shape.dims[0];
    XCVM_TRY(read_bias(q, conv, channels, &bias));
    XCVM_TRY(read_vector(q, norm, 1, channels, &scale));
    XCVM_TRY(read_vector(q, norm, 2, channels, &shift));
    XCVM_TRY(read_vector(q, norm, 3, channels, &mean));
    XCVM_TRY(read_vector(q, norm, 4, channels, &variance));
    if (bias == NULL || scale == NULL || shift == NULL || mean == NULL || variance == NULL)
        return XCVM_OK;
    const double epsilon = (double)(float)xcc_quant_real(norm, "epsilon", 1e-5);
    const size_t each = shape.count / (size_t)channels;
    for (int64_t c = 0; c < channels; c++) {
        const double factor = (double)scale[c] / sqrt((double)variance[c] + epsilon);
        if (!(fabs(factor) <= (double)FLT_MAX))
            return XCVM_OK;
        for (size_t i = 0; i < each; i++)
            w[(size_t)c * each + i] = (float)((double)w[(size_t)c * each + i] * factor);
        bias[c] = (float)(((double)bias[c] - (double)mean[c]) * factor + (double)shift[c]);
    }
    XCVM_TRY(replace_operand(q, conv, 1, weights->name, shape.rank, shape.dims, w));
    XCVM_TRY(replace_operand(q, conv, 2, xcc_quant_input(q, norm, 2)->name, 1, &channels, bias));
    take_result(q, conv, norm);
    q->folded++;
    return XCVM_OK;
}

/* True if the shape broadcasts to [N, C, spatial ...] as one element per channel. */
static bool is_by_channel(const xcc_tensor *t, int rank, int64_t channels)
{
    if (t->count != (size_t)channels || t->rank > rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != (i + rank - t->rank == 1 ? channels : 1))
            return false;
    return true;
}

static xcvm_status fold_sum(quantizer *q, xcc_quant_node *conv, xcc_quant_node *sum)
{
    const xcc_quant_tensor *weights = xcc_quant_input(q, conv, 1), *result = xcc_quant_output(q, conv, 0);
    const xcc_quant_tensor *added = xcc_quant_input(q, sum, xcc_quant_input(q, sum, 0) == result ? 1 : 0);
    xcc_tensor shape, vector;
    float *bias;
    const float *more;
    if (!xcc_quant_is_weight(weights) || !xcc_quant_is_weight(added) || sum->proto->n_input != 2)
        return XCVM_OK;
    XCVM_TRY(xcc_quant_read(q, weights, &shape));
    XCVM_TRY(xcc_quant_read(q, added, &vector));
    if (shape.rank < 3 || !is_by_channel(&vector, shape.rank, shape.dims[0]))
        return XCVM_OK;
    XCVM_TRY(read_bias(q, conv, shape.dims[0], &bias));
    if (bias == NULL)
        return XCVM_OK;
    more = vector.data;
    for (int64_t c = 0; c < shape.dims[0]; c++)
        bias[c] += more[c];
    XCVM_TRY(replace_operand(q, conv, 2, added->name, 1, &shape.dims[0], bias));
    take_result(q, conv, sum);
    return XCVM_OK;
}

xcvm_status xcc_quant_prepare(quantizer *q)
{
    for (size_t i = 0; i < q->node_count; i++) {
        xcc_quant_node *n = &q->nodes[i];
        XCVM_TRY(xcc_poll(&q->m));
        if (!n->gone && (xcc_quant_is(n, "Identity") || xcc_quant_is(n, "Reshape")))
            XCVM_TRY(alias(q, n));
    }
    for (size_t i = 0; i < q->node_count; i++) {
        xcc_quant_node *n = &q->nodes[i], *behind;
        XCVM_TRY(xcc_poll(&q->m));
        while (!n->gone && xcc_quant_is(n, "Conv") && (behind = only_reader(q, n)) != NULL) {
            if (xcc_quant_is(behind, "BatchNormalization"))
                XCVM_TRY(fold_normalization(q, n, behind));
            else if (xcc_quant_is(behind, "Add"))
                XCVM_TRY(fold_sum(q, n, behind));
            if (!behind->gone)
                break;
        }
    }
    return XCVM_OK;
}
