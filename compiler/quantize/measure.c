/* Compares the quantized model with the float model on the same data. */
#include "compiler/quantize/tail_estimate.h"
#include "compiler/quantize/compiled_model.h"

#include "base/dtype.h"
#include "base/value.h"
#include "compiler/onnx_model/onnx_model.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Variation of an output's errors over batches. */
typedef struct spread {
    float extremes[XCC_EXTREMES]; /* greatest errors of batches */
    size_t extreme_count, error_batches;
    double shares, squares; /* sum of the shares of agreeing rows, and sum of their squares */
    size_t row_batches;
} spread;

typedef struct comparison {
    quantizer *q;
    xcc_compiled_model model;        /* quantized model */
    size_t *tensors;                 /* its outputs of q->tensors; SIZE_MAX: none */
    size_t *outputs, *float_outputs; /* indices of the model's outputs in both programs */
    xcc_difference *differences;
    spread *spreads;
    xcc_difference *each; /* per batch and output, or NULL */
    xcvm_value **inputs;
} comparison;

/* ---- The new model ---- */

static xcvm_status open_model(comparison *c, bool tensors)
{
    quantizer *q = c->q;
    xcc_model_writer w;
    xcvm_bytes bytes = {.allocator = q->m.allocator};
    xcc_model_begin(&w, q);
    /* Only the QDQ form has all tensors. Other forms compute the same up to the rounding of sums. */
    xcvm_status status = tensors ? xcc_write_qdq(&w, true) : xcc_write_form(&w);
    if (status == XCVM_OK)
        status = xcc_model_pack(&w, &bytes, NULL);
    if (status == XCVM_OK)
        status = xcc_compiled_open(q, &bytes, &c->model);
    for (size_t i = 0; i < q->tensor_count && status == XCVM_OK; i++) {
        const xcc_quant_tensor *t = q->tensors[i];
        c->tensors[i] = tensors && t->quantized && t->constant == NULL && t->dequantized_name != NULL
                            ? xcc_compiled_output(&c->model, t->dequantized_name)
                            : SIZE_MAX;
    }
    xcc_model_end(&w);
    xcvm_bytes_release(&bytes);
    return status;
}

/* Rows whose decisions must agree are added to their output's leads. */
static xcvm_status clear_leads(quantizer *q)
{
    const size_t outputs = q->graph->n_output;
    if (!(q->o.min_agreement > 0))
        return XCVM_OK;
    if (q->leads == NULL)
        q->leads = xcc_alloc(&q->m, outputs * sizeof *q->leads);
    if (q->leads == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < outputs; i++) {
        if (!xcc_quant_must_agree(q, q->graph->output[i]->name))
            continue;
        if (q->leads[i] == NULL)
            q->leads[i] = xcc_alloc(&q->m, sizeof *q->leads[i]);
        if (q->leads[i] == NULL)
            return XCVM_OUT_OF_MEMORY;
        xcc_leads_clear(q->leads[i]);
    }
    return XCVM_OK;
}

static xcvm_status open_comparison(comparison *c, quantizer *q, bool tensors)
{
    xcc_module *m = &q->m;
    const size_t outputs = q->graph->n_output;
    *c = (comparison){.q = q};
    c->tensors = xcc_alloc(m, (q->tensor_count + 1) * sizeof *c->tensors);
    c->outputs = xcc_alloc(m, (outputs + 1) * sizeof *c->outputs);
    c->float_outputs = xcc_alloc(m, (outputs + 1) * sizeof *c->float_outputs);
    c->differences = xcc_alloc(m, (outputs + 1) * sizeof *c->differences);
    c->spreads = xcc_alloc(m, (outputs + 1) * sizeof *c->spreads);
    c->inputs = xcc_alloc(m, (q->input_count + 1) * sizeof *c->inputs);
    if (c->tensors == NULL || c->outputs == NULL || c->float_outputs == NULL || c->differences == NULL ||
        c->spreads == NULL || c->inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(open_model(c, tensors));
    XCVM_TRY(clear_leads(q));
    for (size_t i = 0; i < outputs; i++) {
        c->outputs[i] = xcc_compiled_output(&c->model, q->graph->output[i]->name);
        c->float_outputs[i] = xcc_compiled_output(q->float_model, q->graph->output[i]->name);
        XCVM_CHECK(m->error, c->outputs[i] != SIZE_MAX && c->float_outputs[i] != SIZE_MAX, INTERNAL,
                   "output \"%.200s\" is lost", q->graph->output[i]->name);
    }
    return XCVM_OK;
}

/* ---- Comparing ---- */

static bool are_comparable(const xcvm_value *a, const xcvm_value *b)
{
    return a != NULL && b != NULL && a->kind == XCVM_KIND_TENSOR && b->kind == XCVM_KIND_TENSOR &&
           a->dtype == XCVM_F32 && b->dtype == XCVM_F32 && xcvm_same_shape(a, b);
}

static bool are_decisions(const xcvm_value *a, const xcvm_value *b)
{
    const xcvm_dtypes decisions = XCVM_TYPES_INT | XCVM_TYPES_BOOL;
    return a != NULL && b != NULL && a->kind == XCVM_KIND_TENSOR && b->kind == XCVM_KIND_TENSOR &&
           a->dtype == b->dtype && xcvm_dtype_in(a->dtype, decisions);
}

/* Integers, such as classes, tokens or boxes, agree or differ. */
static void add_decisions(xcc_difference *d, const xcvm_value *right, const xcvm_value *x)
{
    const size_t count = xcvm_element_count(right), size = xcvm_dtype_size(right->dtype);
    const bool alike = xcvm_same_shape(right, x);
    d->rows += count;
    for (size_t i = 0; i < count && alike; i++)
        d->agreeing += memcmp((const char *)right->data + i * size, (const char *)x->data + i * size, size) == 0;
}

/* A bound needs finite float outputs. */
static xcvm_status need_numbers(const quantizer *q, const char *name, const xcvm_value *right, size_t batch)
{
    const bool error = q->o.max_error > 0 || q->o.max_mean_error > 0,
               agreement = q->o.min_agreement > 0 && xcc_quant_must_agree(q, name);
    const float *x = right->data;
    for (size_t i = 0; (error || agreement) && i < xcvm_element_count(right); i++)
        XCVM_CHECK(q->m.error, error ? fabsf(x[i]) <= FLT_MAX : !isnan(x[i]), INVALID_ARGUMENT,
                   "output \"%.200s\" of the float model has %s in batch %zu of the data, counted from 0, so no bound "
                   "can hold",
                   name, isnan(x[i]) ? "NaN (not a number)" : "an infinity", batch);
    return XCVM_OK;
}

static const xcvm_value *float_output_of(const comparison *c, size_t i, size_t batch)
{
    const quantizer *q = c->q;
    return q->float_outputs != NULL && q->float_outputs[batch] != NULL
               ? &q->float_outputs[batch][i]
               : xcvm_session_get_output(q->float_model->session, c->float_outputs[i]);
}

/* Stores the float model's outputs of a batch if they fit the limit. */
static xcvm_status keep_float_outputs(const comparison *c, size_t batch)
{
    quantizer *q = c->q;
    size_t bytes = 0;
    for (size_t i = 0; i < q->graph->n_output; i++) {
        const xcvm_value *v = float_output_of(c, i, batch);
        if (v == NULL || v->kind != XCVM_KIND_TENSOR || v->bytes > q->float_output_room - bytes)
            return XCVM_OK;
        bytes += v->bytes;
    }
    xcvm_value *kept = xcc_alloc(&q->m, (q->graph->n_output + 1) * sizeof *kept);
    if (kept == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->graph->n_output; i++) {
        const xcvm_value *v = float_output_of(c, i, batch);
        xcvm_value_set_tensor(&kept[i], (xcvm_dtype)v->dtype, v->rank, v->dims);
        kept[i].data = xcc_alloc(&q->m, v->bytes + 1);
        if (kept[i].data == NULL)
            return XCVM_OUT_OF_MEMORY;
        if (v->bytes > 0)
            memcpy(kept[i].data, v->data, v->bytes);
    }
    q->float_output_room -= bytes;
    q->float_outputs[batch] = kept;
    return XCVM_OK;
}

static double agreement_of(const xcc_difference *d)
{
    return d->rows > 0 ? (double)d->agreeing / (double)d->rows : (double)NAN;
}

static void add_batch(spread *s, const xcc_difference *batch)
{
    if (batch->count > 0) {
        xcc_extremes_add(s->extremes, &s->extreme_count, isnan(batch->max) ? INFINITY : (float)batch->max);
        s->error_batches++;
    }
    if (batch->rows > 0) {
        const double share = agreement_of(batch);
        s->shares += share;
        s->squares += share * share;
        s->row_batches++;
    }
}

static xcvm_status compare_output(comparison *c, size_t i, size_t batch, size_t number)
{
    const quantizer *q = c->q;
    const xcvm_value *a = float_output_of(c, i, batch), *b = xcvm_session_get_output(c->model.session, c->outputs[i]);
    xcc_difference one = {.count = 0};
    const bool decisions = are_decisions(a, b);
    if (!decisions && !are_comparable(a, b))
        return XCVM_OK;
    if (!decisions)
        XCVM_TRY(need_numbers(q, q->graph->output[i]->name, a, batch));
    if (decisions)
        add_decisions(&one, a, b);
    else
        xcc_difference_add(&one, a->data, b->data, xcvm_element_count(a),
                           a->rank > 0 ? (size_t)a->dims[a->rank - 1] : 1);
    if (!decisions && one.rows > 0 && q->leads != NULL && q->leads[i] != NULL)
        xcc_leads_add(q->leads[i], a->data, b->data, xcvm_element_count(a), (size_t)a->dims[a->rank - 1]);
    xcc_difference_merge(&c->differences[i], &one);
    add_batch(&c->spreads[i], &one);
    if (c->each != NULL)
        c->each[number * q->graph->n_output + i] = one;
    return XCVM_OK;
}

static xcvm_status compare(comparison *c, size_t batch, size_t number, bool tensors)
{
    quantizer *q = c->q;
    for (size_t i = 0; i < q->graph->n_output; i++)
        XCVM_TRY(compare_output(c, i, batch, number));
    for (size_t i = 0; i < q->tensor_count && tensors; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        if (c->tensors[i] == SIZE_MAX)
            continue;
        const xcvm_value *a = xcc_compiled_tensor(q, t, c->inputs),
                         *b = xcvm_session_get_output(c->model.session, c->tensors[i]);
        if (!are_comparable(a, b))
            continue;
        if (t->error == NULL)
            t->error = xcc_alloc(&q->m, sizeof *t->error);
        if (t->error == NULL)
            return XCVM_OUT_OF_MEMORY;
        xcc_difference_add(t->error, a->data, b->data, xcvm_element_count(a), 0);
    }
    return XCVM_OK;
}

static xcvm_status run_both(comparison *c, const xcc_calibration *data, const xcc_batches *batches, size_t number,
                            bool tensors)
{
    quantizer *q = c->q;
    const size_t batch = batches->at[number];
    const bool known = q->float_outputs != NULL && q->float_outputs[batch] != NULL;
    xcvm_status status = xcc_batch_read(q, data, batch, c->inputs);
    if (status == XCVM_OK && (tensors || !known))
        status = xcc_compiled_run(q, q->float_model, c->inputs);
    if (status == XCVM_OK && q->float_outputs != NULL && !known)
        status = keep_float_outputs(c, batch);
    if (status == XCVM_OK)
        status = xcc_compiled_run(q, &c->model, c->inputs);
    if (status == XCVM_OK)
        status = compare(c, batch, number, tensors);
    xcc_batch_release(q, c->inputs);
    return status;
}

/* Range of an output, the unit of its errors. */
static double unit_of(const xcc_difference *d)
{
    const double range = d->greatest - d->least;
    return range > 0 ? range : 1;
}

bool xcc_quant_must_agree(const quantizer *q, const char *output)
{
    return q->o.agreement_output == NULL || strcmp(q->o.agreement_output, output) == 0;
}

static void report_batches(const comparison *c, size_t count, xcc_batch_error *errors)
{
    const size_t outputs = c->q->graph->n_output;
    for (size_t batch = 0; batch < count; batch++) {
        errors[batch] = (xcc_batch_error){.error = 0};
        for (size_t i = 0; i < outputs; i++) {
            const xcc_difference *d = &c->each[batch * outputs + i];
            const double share = d->max / unit_of(&c->differences[i]);
            errors[batch].error = fmax(errors[batch].error, isnan(share) ? (double)INFINITY : share);
            if (d->rows > 0 && xcc_quant_must_agree(c->q, c->q->graph->output[i]->name))
                errors[batch].disagreement = fmax(errors[batch].disagreement, 1 - agreement_of(d));
        }
    }
}

static void report_outputs(const comparison *c)
{
    quantizer *q = c->q;
    q->reported_output_count = 0;
    for (size_t i = 0; i < q->graph->n_output; i++) {
        const xcc_difference *d = &c->differences[i];
        const spread *s = &c->spreads[i];
        const double unit = unit_of(d), unknown = (double)NAN;
        if (d->count == 0 && d->rows == 0)
            continue;
        xcc_quantizer_output_info *o = &q->reported_outputs[q->reported_output_count++];
        *o = (xcc_quantizer_output_info){
            .name = q->graph->output[i]->name,
            .least = unknown,
            .greatest = unknown,
            .max_error = unknown,
            .mean_error = unknown,
            .sqnr = unknown,
            .agree = agreement_of(d),
            .decisions = d->count == 0,
            .predicted_error = unknown,
            .predicted_agree = fmin(xcc_tail_agreement(s->shares, s->squares, s->row_batches), agreement_of(d))};
        q->expected_agreements[q->reported_output_count - 1] = agreement_of(d);
        if (q->leads != NULL && q->leads[i] != NULL && q->leads[i]->count > 0) {
            const double expected = xcc_leads_agreement(q->leads[i]);
            q->expected_agreements[q->reported_output_count - 1] = fmin(agreement_of(d), expected);
            o->predicted_agree = fmin(o->predicted_agree, expected);
        }
        if (d->count == 0)
            continue;
        o->least = d->least;
        o->greatest = d->greatest;
        o->max_error = d->max / unit;
        o->mean_error = d->magnitudes / (double)d->count / unit;
        o->sqnr = xcc_difference_sqnr(d);
        o->predicted_error = fmax(xcc_tail_error(s->extremes, s->extreme_count, s->error_batches) / unit, o->max_error);
    }
}

xcvm_status xcc_quant_measure(quantizer *q, const xcc_calibration *data, const xcc_batches *batches, bool tensors,
                              xcc_batch_error *errors)
{
    comparison c;
    xcvm_status status = open_comparison(&c, q, tensors);
    if (status == XCVM_OK && errors != NULL) {
        c.each = xcc_alloc(&q->m, (batches->count * q->graph->n_output + 1) * sizeof *c.each);
        status = c.each != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < q->tensor_count && tensors && status == XCVM_OK; i++)
        q->tensors[i]->error = NULL;
    for (size_t i = 0; i < batches->count && status == XCVM_OK; i++) {
        if (tensors)
            xcc_quant_progress(q, "measure", (double)i / (double)batches->count);
        status = run_both(&c, data, batches, i, tensors);
    }
    if (status == XCVM_OK)
        report_outputs(&c);
    if (status == XCVM_OK && errors != NULL)
        report_batches(&c, batches->count, errors);
    xcc_compiled_close(&c.model);
    return status;
}
