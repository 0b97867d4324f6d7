/* Calibration: runs the float model on the data and derives the ranges of its tensors. */
#include "compiler/quantize/compiled_model.h"

#include "base/value.h"
#include "compiler/onnx_model/onnx_model.h"

#include <math.h>
#include <string.h>

/* ---- Means ---- */

/* Returns the channel axis of an operand of a sum of products; -1: none. */
static int channel_axis(const quantizer *q, const xcc_quant_tensor *t, int rank)
{
    for (size_t i = 0; i < t->consumer_count; i++) {
        const xcc_quant_node *n = &q->nodes[t->consumers[i]];
        if (!n->quantized || n->rule->kind != XCC_QUANT_WEIGHTED || xcc_quant_input(q, n, 0) != t)
            continue;
        return xcc_quant_is(n, "Conv") ? rank > 1 ? 1 : -1 : rank - 1;
    }
    return -1;
}

static xcvm_status add_means(quantizer *q, xcc_quant_tensor *t, const xcvm_value *v)
{
    const int axis = channel_axis(q, t, v->rank);
    if (axis < 0)
        return XCVM_OK;
    const size_t channels = (size_t)v->dims[axis], count = xcvm_element_count(v);
    if (t->means == NULL) {
        t->means = xcc_alloc(&q->m, (channels + 1) * sizeof *t->means);
        t->mean_count = channels;
        if (t->means == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    XCVM_CHECK(q->m.error, t->mean_count == channels, UNSUPPORTED,
               "\"%.200s\" has %zu channels here and %zu there: biases cannot be corrected", t->name, t->mean_count,
               channels);
    size_t inner = 1;
    for (int i = axis + 1; i < v->rank; i++)
        inner *= (size_t)v->dims[i];
    const float *x = v->data;
    for (size_t at = 0; at < count && inner > 0; at += inner) {
        double sum = 0;
        for (size_t i = 0; i < inner; i++)
            sum += (double)x[at + i];
        t->means[at / inner % channels] += sum;
    }
    return XCVM_OK;
}

/* ---- Streaming ---- */

static xcvm_status see(quantizer *q, xcc_quant_tensor *t, const xcvm_value *v, size_t batch)
{
    float bad;
    XCVM_CHECK(q->m.error, v != NULL && v->kind == XCVM_KIND_TENSOR && v->dtype == XCVM_F32, INTERNAL,
               "\"%.200s\" is no tensor of f32", t->name);
    if (t->seen == NULL)
        t->seen = xcc_alloc(&q->m, sizeof *t->seen);
    if (t->seen == NULL)
        return XCVM_OUT_OF_MEMORY;
    const bool finite = xcc_statistics_add(t->seen, v->data, xcvm_element_count(v), q->o.averaging, &bad);
    XCVM_CHECK(q->m.error, finite, INVALID_ARGUMENT,
               "%s \"%.200s\" has %s in batch %zu of the calibration data, counted from 0; finite numbers are needed",
               t->is_input ? "input" : "tensor", t->name, isnan(bad) ? "NaN (not a number)" : "an infinity", batch);
    return q->o.correct_bias ? add_means(q, t, v) : XCVM_OK;
}

static xcvm_status look(quantizer *q, xcvm_value *const *inputs, size_t batch)
{
    for (size_t i = 0; i < q->tensor_count; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        if (!t->quantized || t->constant != NULL)
            continue;
        XCVM_TRY(xcc_poll_now(&q->m));
        XCVM_TRY(see(q, t, xcc_compiled_tensor(q, t, inputs), batch));
    }
    return XCVM_OK;
}

static xcvm_status stream(quantizer *q, const xcc_calibration *data, size_t batches)
{
    xcvm_value **inputs = xcc_alloc(&q->m, (q->input_count + 1) * sizeof *inputs);
    if (inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t batch = 0; batch < batches; batch++) {
        xcc_quant_progress(q, "calibrate", (double)batch / (double)batches);
        xcvm_status status = xcc_batch_read(q, data, batch, inputs);
        if (status == XCVM_OK)
            status = xcc_compiled_run(q, q->float_model, inputs);
        if (status == XCVM_OK)
            status = look(q, inputs, batch);
        xcc_batch_release(q, inputs);
        XCVM_TRY(status);
    }
    q->calibrated = batches;
    return XCVM_OK;
}

/* ---- Ranges ---- */

static void set_range(quantizer *q, xcc_quant_tensor *t)
{
    int32_t least, greatest;
    double low, high;
    xcc_quant_limits(q->o.activations, &least, &greatest);
    xcc_quant_useful(q, t, &low, &high);
    xcc_statistics_clip(t->seen, low, high);
    xcc_statistics_range(t->seen, q->method, q->o.percentile, greatest - least + 1, q->o.symmetric_activations, &t->low,
                         &t->high);
    /* An extrapolated range ends where the readers saturate. */
    t->low = fmax(t->low, low);
    t->high = fmin(t->high, high);
    xcc_quant_scale(t->low, t->high, q->o.activations, q->o.symmetric_activations, &t->scale, &t->zero_point);
}

xcvm_status xcc_quant_calibrate(quantizer *q, const xcc_calibration *data, size_t batches)
{
    XCVM_TRY(stream(q, data, batches));
    for (size_t i = 0; i < q->tensor_count; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        XCVM_TRY(xcc_poll(&q->m));
        if (!t->quantized)
            continue;
        if (t->constant != NULL) {
            xcc_tensor shape;
            float *x, bad;
            t->seen = xcc_alloc(&q->m, sizeof *t->seen);
            if (t->seen == NULL)
                return XCVM_OUT_OF_MEMORY;
            xcvm_arena arena = {.allocator = q->m.allocator};
            const xcvm_status status = xcc_quant_floats(q, t, &arena, &shape, &x);
            if (status == XCVM_OK)
                (void)xcc_statistics_add(t->seen, x, shape.count, q->o.averaging, &bad);
            xcvm_arena_release(&arena);
            XCVM_TRY(status);
        }
        XCVM_CHECK(q->m.error, t->seen != NULL && t->seen->count > 0, INVALID_ARGUMENT,
                   "\"%.200s\" has no elements in any batch of the calibration data, so it has no range", t->name);
        /* A pass needs its own range too, because the node before it may stay float later. */
        set_range(q, t);
    }
    return XCVM_OK;
}

void xcc_quant_take_method(quantizer *q, xcc_range_method method)
{
    q->method = method;
    for (size_t i = 0; i < q->tensor_count; i++)
        if (q->tensors[i]->seen != NULL)
            set_range(q, q->tensors[i]);
}
