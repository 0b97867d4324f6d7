/* The quantizer's public functions and the order of its steps. */
#include "compiler/quantize/compiled_model.h"

#include "compiler/onnx_model/onnx_model.h"
#include "vm/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void xcc_quant_progress(const quantizer *q, const char *what, double fraction)
{
    if (q->o.progress.call != NULL)
        q->o.progress.call(q->o.progress.user, what, fraction);
}

/* ---- Options ---- */

static xcvm_status read_options(xcc_quantizer_options *o, const xcc_quantizer_options *given, xcvm_error *error)
{
    XCVM_TRY(xcvm_options_read(o, sizeof *o, given, error));
    o->size = sizeof *o;
    o->activations = o->activations != XCVM_NO_DTYPE ? o->activations : XCVM_U8;
    o->weights = o->weights != XCVM_NO_DTYPE ? o->weights : XCVM_I8;
    o->percentile = o->percentile != 0 ? o->percentile : 99.999;
    o->averaging = o->averaging != 0 ? o->averaging : 0.01;
    o->block = o->block != 0 ? o->block : 32;
    XCVM_CHECK(error,
               o->activations == XCVM_U8 || o->activations == XCVM_I8 || o->activations == XCVM_U16 ||
                   o->activations == XCVM_I16 || o->activations == XCVM_F32,
               INVALID_ARGUMENT, "activations cannot be %s; u8, i8, u16, i16 or f32 is needed",
               xcvm_dtype_name(o->activations));
    XCVM_CHECK(error, o->weights == XCVM_U8 || o->weights == XCVM_I8 || o->weights == XCVM_U4 || o->weights == XCVM_I4,
               INVALID_ARGUMENT, "weights cannot be %s; i8, u8, i4 or u4 is needed", xcvm_dtype_name(o->weights));
    XCVM_CHECK(error, o->method <= XCC_RANGE_TAIL, INVALID_ARGUMENT,
               "the range method is %d; expected a value of xcc_range_method", (int)o->method);
    XCVM_CHECK(error, o->form <= XCC_FORM_QOPERATOR, INVALID_ARGUMENT,
               "the form is %d; expected a value of xcc_quantize_form", (int)o->form);
    XCVM_CHECK(error, o->rounding <= XCC_ROUNDING_GPTQ, INVALID_ARGUMENT,
               "the rounding is %d; expected a value of xcc_rounding", (int)o->rounding);
    XCVM_CHECK(error, !o->trainable || o->rounding != XCC_ROUNDING_GPTQ, INVALID_ARGUMENT,
               "weights of a model that is to learn are rounded to the nearest as they change, not by GPTQ");
    XCVM_CHECK(error, o->percentile >= 50 && o->percentile <= 100, INVALID_ARGUMENT,
               "the percentile is %g %%; expected a number from 50 to 100, such as 99.999", o->percentile);
    XCVM_CHECK(error, o->averaging > 0 && o->averaging <= 1, INVALID_ARGUMENT,
               "a batch cannot have the weight %g; above 0 and at most 1 is needed", o->averaging);
    XCVM_CHECK(error, o->block >= 16 && o->block <= 65536 && (o->block & (o->block - 1)) == 0, INVALID_ARGUMENT,
               "blocks cannot have %lld weights; a power of two from 16 to 65536 is needed", (long long)o->block);
    XCVM_CHECK(error,
               !o->trainable || (o->form == XCC_FORM_QDQ && xcvm_dtype_bits(o->weights) == 8 && !o->correct_bias),
               INVALID_ARGUMENT,
               "a model that is to learn has the QDQ form and weights of 8 bits, and its biases learn by themselves");
    XCVM_CHECK(error, o->max_error >= 0 && o->max_error <= 1e30, INVALID_ARGUMENT, "the error cannot be bounded by %g",
               o->max_error);
    XCVM_CHECK(error, o->max_mean_error >= 0 && o->max_mean_error <= 1e30, INVALID_ARGUMENT,
               "the mean error cannot be bounded by %g", o->max_mean_error);
    XCVM_CHECK(error, o->min_agreement >= 0 && o->min_agreement <= 1, INVALID_ARGUMENT,
               "a share of %g of the rows cannot agree; above 0 and at most 1 is needed", o->min_agreement);
    XCVM_CHECK(error, o->agreement_output == NULL || o->min_agreement > 0, INVALID_ARGUMENT,
               "the agreement of output \"%.200s\" is selected without a bound. Set min_agreement",
               o->agreement_output);
    XCVM_CHECK(error, o->held_out >= 0 && o->held_out < 1, INVALID_ARGUMENT,
               "a share of %g cannot be held out; from 0 to below 1 is needed", o->held_out);
    XCVM_CHECK(error, o->form == XCC_FORM_QDQ || o->activations == XCVM_U8 || o->activations == XCVM_I8,
               INVALID_ARGUMENT, "operators on quantized tensors have activations of u8 or i8, not %s",
               xcvm_dtype_name(o->activations));
    XCVM_CHECK(error,
               o->form == XCC_FORM_QDQ || o->weights == XCVM_I8 || (o->weights == XCVM_U8 && o->activations == XCVM_U8),
               INVALID_ARGUMENT,
               "operators on quantized tensors have weights of i8, or, with activations of u8, of u8; not %s with %s",
               xcvm_dtype_name(o->weights), xcvm_dtype_name(o->activations));
    return XCVM_OK;
}

/* ---- Reading the model ---- */

static const char *const quantized_types[] = {"QuantizeLinear",        "DequantizeLinear",   "DynamicQuantizeLinear",
                                              "MatMulNBits",           "MatMulInteger",      "ConvInteger",
                                              "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"};

static xcvm_status refuse_quantized(const quantizer *q)
{
    for (size_t i = 0; i < q->graph->n_node; i++) {
        const Onnx__NodeProto *n = q->graph->node[i];
        bool found = n->op_type != NULL && strncmp(n->op_type, "QLinear", 7) == 0;
        for (size_t k = 0; k < sizeof quantized_types / sizeof *quantized_types && n->op_type != NULL; k++)
            found = found || strcmp(n->op_type, quantized_types[k]) == 0;
        XCVM_CHECK(q->m.error, !found, UNSUPPORTED,
                   "the model is quantized already: node '%.200s' is %s; the float model is needed", xcc_node_label(n),
                   n->op_type);
    }
    return XCVM_OK;
}

/* Dropout stays in models for training. */
static xcvm_status take_inference_form(quantizer *q)
{
    const unsigned uses = q->o.trainable ? XCC_USES_BATCH : XCC_USES_BATCH | XCC_USES_RANDOM;
    xcc_rewritten form;
    if (q->o.training_form)
        return XCVM_OK;
    XCVM_TRY(xcc_inference_form_rewrite(&q->m, q->model, uses, &form));
    q->inferred = form.names.count;
    return XCVM_OK;
}

static xcvm_status read_model(quantizer *q, const void *bytes, size_t count)
{
    xcc_module *m = &q->m;
    XCVM_TRY(xcc_model_unpack(bytes, count, xcc_stop_of(m), &m->arena, &q->model, m->error));
    q->graph = q->model->graph;
    q->opset = 0;
    for (size_t i = 0; i < q->model->n_opset_import; i++)
        if (xcc_domain(q->model->opset_import[i]->domain)[0] == '\0' && q->model->opset_import[i]->version > q->opset)
            q->opset = q->model->opset_import[i]->version;
    for (size_t i = 0; i < q->graph->n_node; i++) {
        Onnx__NodeProto *n = q->graph->node[i];
        XCVM_CHECK(m->error, n->op_type != NULL, INVALID_MODEL, "node '%.200s' has no operator", xcc_node_label(n));
    }
    for (size_t i = 0; i < q->graph->n_output; i++)
        XCVM_CHECK(m->error, q->graph->output[i]->name != NULL, INVALID_MODEL, "output %zu has no name", i);
    XCVM_TRY(refuse_quantized(q));
    return take_inference_form(q);
}

/* ---- The float program ---- */

static xcvm_status take_inputs(quantizer *q)
{
    const xcvm_program *p = q->float_model->program;
    q->input_count = xcvm_program_input_count(p);
    q->inputs = xcc_alloc(&q->m, (q->input_count + 1) * sizeof *q->inputs);
    if (q->inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->input_count; i++) {
        q->inputs[i] = *xcvm_program_input_at(p, i);
        q->inputs[i].name = xcc_string(&q->m, q->inputs[i].name, strlen(q->inputs[i].name));
        if (q->inputs[i].name == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return XCVM_OK;
}

/* True if weights are rounded by GPTQ with data. */
static bool is_for_data(const quantizer *q)
{
    return q->o.rounding == XCC_ROUNDING_GPTQ || (q->o.rounding == XCC_ROUNDING_DEFAULT && !q->o.trainable);
}

/* Also finds the types of the tensors. */
xcvm_status xcc_quant_open_probe(quantizer *q)
{
    xcc_model_writer w;
    xcvm_bytes bytes = {.allocator = q->m.allocator};
    for (size_t i = 0; i < q->tensor_count; i++)
        q->tensors[i]->probe = q->tensors[i]->quantized && q->tensors[i]->constant == NULL ? 0 : -1;
    for (size_t i = 0; i < q->node_count && is_for_data(q); i++) {
        const xcc_quant_node *n = &q->nodes[i];
        xcc_quant_tensor *x = n->quantized && n->rule->kind == XCC_QUANT_WEIGHTED ? xcc_quant_input(q, n, 0) : NULL;
        if (x != NULL && x->constant == NULL)
            x->probe = 0;
    }
    xcc_model_begin(&w, q);
    xcc_write_float(&w);
    xcvm_status status = xcc_model_pack(&w, &bytes, &q->bytes_before);
    xcc_model_end(&w);
    if (q->float_model != NULL)
        xcc_compiled_close(q->float_model);
    else
        q->float_model = xcc_alloc(&q->m, sizeof *q->float_model);
    if (status == XCVM_OK)
        status = q->float_model != NULL ? xcc_compiled_open(q, &bytes, q->float_model) : XCVM_OUT_OF_MEMORY;
    xcvm_bytes_release(&bytes);
    XCVM_TRY(status);
    if (q->inputs == NULL)
        XCVM_TRY(take_inputs(q));
    for (size_t i = 0; i < q->tensor_count; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        if (t->is_input) {
            for (size_t k = 0; k < q->input_count; k++)
                if (strcmp(q->inputs[k].name, t->name) == 0)
                    t->not_float = q->inputs[k].type.kind != XCVM_KIND_TENSOR || q->inputs[k].type.dtype != XCVM_F32;
            t->probe = -1;
            continue;
        }
        if (t->probe < 0)
            continue;
        const size_t output = xcc_compiled_output(q->float_model, t->name);
        XCVM_CHECK(q->m.error, output != SIZE_MAX, INTERNAL, "\"%.200s\" is lost", t->name);
        const xcvm_type *type = &xcvm_program_output_at(q->float_model->program, output)->type;
        t->probe = (int)output;
        t->not_float = type->kind != XCVM_KIND_TENSOR || type->dtype != XCVM_F32;
    }
    return XCVM_OK;
}

/* ---- Creating ---- */

static xcvm_status begin_model(quantizer *q, const void *bytes, size_t count)
{
    XCVM_TRY(read_model(q, bytes, count));
    XCVM_TRY(xcc_quant_list(q));
    XCVM_TRY(xcc_quant_list_bodies(q));
    XCVM_TRY(xcc_quant_prepare(q));
    XCVM_TRY(xcc_quant_choose(q));
    if (q->o.equalize)
        XCVM_TRY(xcc_quant_equalize(q));
    q->reported_outputs = xcc_alloc(&q->m, (q->graph->n_output + 1) * sizeof *q->reported_outputs);
    q->expected_agreements = xcc_alloc(&q->m, (q->graph->n_output + 1) * sizeof *q->expected_agreements);
    if (q->reported_outputs == NULL || q->expected_agreements == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_quant_place(q));
    xcc_quant_progress(q, "compile", 0);
    XCVM_TRY(xcc_quant_open_probe(q));
    return xcc_quant_place(q);
}

static xcvm_status create(const char *path, const void *model, size_t count, const xcc_quantizer_options *options,
                          xcc_quantizer **made, xcvm_error *error)
{
    xcc_quantizer_options o;
    XCVM_TRY(read_options(&o, options, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    quantizer *q = xcvm_allocate_zeroed(allocator, sizeof *q);
    XCVM_CHECK(error, q != NULL, OUT_OF_MEMORY, "no memory for a quantizer");
    q->o = o;
    q->o.allocator = allocator;
    q->method = o.method != XCC_RANGE_DEFAULT ? o.method : XCC_RANGE_MSE;
    q->compiler = (xcc_options){.size = sizeof q->compiler,
                                .allocator = allocator,
                                .limits.memory_bytes = o.memory_limit,
                                .limits.timeout_ns = o.timeout_ns,
                                .cancelled = o.cancelled};
    xcc_model_file file = {.dir = NULL};
    xcvm_status status = xcc_module_init(&q->m, &q->compiler, &q->error);
    if (status == XCVM_OK) {
        q->names.key = q->taken.key = q->hoisted.key = &q->m.key;
        if (path != NULL)
            status = xcc_model_file_open(&file, path, &q->m);
        q->files = (xcc_external_files){.module = &q->m, .dir = path != NULL ? file.dir : NULL};
        if (status == XCVM_OK)
            status = begin_model(q, path != NULL ? file.bytes : model, path != NULL ? file.count : count);
    }
    if (path != NULL && file.dir != NULL && status == XCVM_OK) {
        /* Constants in files are read later. */
        q->files.dir = xcc_string(&q->m, file.dir, strlen(file.dir));
        status = q->files.dir != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    if (path != NULL)
        xcc_model_file_close(&file);
    xcc_name_limit(&q->m, status);
    if (status == XCVM_OK) {
        *made = q;
        return XCVM_OK;
    }
    *error = q->error;
    xcc_quantizer_destroy(q);
    return status;
}

xcvm_status xcc_quantizer_create_file(const char *path, const xcc_quantizer_options *options, xcc_quantizer **made,
                                      xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, path != NULL && made != NULL, INVALID_ARGUMENT, "path or quantizer is NULL");
    return create(path, NULL, 0, options, made, error);
}

xcvm_status xcc_quantizer_create(const void *model, size_t count, const xcc_quantizer_options *options,
                                 xcc_quantizer **made, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, model != NULL && made != NULL, INVALID_ARGUMENT, "model or quantizer is NULL");
    return create(NULL, model, count, options, made, error);
}

void xcc_quantizer_destroy(xcc_quantizer *q)
{
    if (q == NULL)
        return;
    if (q->float_model != NULL)
        xcc_compiled_close(q->float_model);
    const xcvm_allocator *allocator = q->o.allocator;
    xcc_module_release(&q->m);
    xcvm_deallocate(allocator, q, sizeof *q);
}

/* ---- Telling ---- */

static const char *op_of(const quantizer *q, const xcc_quant_tensor *t)
{
    return t->producer != XCC_NO_NODE ? q->nodes[t->producer].proto->op_type : "";
}

static int by_noise(const void *a, const void *b)
{
    const xcc_quantizer_tensor_info *x = a, *y = b;
    const int order = (x->sqnr > y->sqnr) - (x->sqnr < y->sqnr);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static xcvm_status report_tensors(quantizer *q)
{
    q->reported_tensors = xcc_alloc(&q->m, (q->tensor_count + 1) * sizeof *q->reported_tensors);
    if (q->reported_tensors == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->tensor_count; i++) {
        const xcc_quant_tensor *t = q->tensors[i], *like = t->like;
        if (!t->quantized || t->error == NULL || t->error->count == 0)
            continue;
        q->reported_tensors[q->reported_tensor_count++] =
            (xcc_quantizer_tensor_info){.name = t->name,
                                        .op = op_of(q, t),
                                        .low = like->low,
                                        .high = like->high,
                                        .least = t->error->least,
                                        .greatest = t->error->greatest,
                                        .scale = (double)like->scale,
                                        .zero_point = like->zero_point,
                                        .sqnr = xcc_difference_sqnr(t->error),
                                        .max_error = t->error->max,
                                        .mean_error = t->error->magnitudes / (double)t->error->count};
    }
    qsort(q->reported_tensors, q->reported_tensor_count, sizeof *q->reported_tensors, by_noise);
    return XCVM_OK;
}

static void report_node(quantizer *q, const xcc_quant_node *n, bool quantized, const char *reason)
{
    const double unknown = (double)NAN;
    const xcc_quant_reached *after = &n->after;
    q->reported_nodes[q->reported_node_count++] =
        (xcc_quantizer_node_info){.name = xcc_node_label(n->proto),
                                  .op = n->proto->op_type,
                                  .quantized = quantized,
                                  .reason = reason,
                                  .harm = n->harm,
                                  .kept = n->level == XCC_LEVEL_FLOAT,
                                  .max_error_after = after->measured ? after->max_error : unknown,
                                  .mean_error_after = after->measured ? after->mean_error : unknown,
                                  .agree_after = after->measured ? after->agree : unknown,
                                  .weights_alone = quantized && n->level == XCC_LEVEL_WEIGHTS,
                                  .weights_harm = n->weights_harm};
}

static xcvm_status report_nodes(quantizer *q)
{
    q->reported_nodes = xcc_alloc(&q->m, (q->node_count + q->body_node_count + 1) * sizeof *q->reported_nodes);
    if (q->reported_nodes == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        if (n->gone || xcc_quant_is(n, "Constant"))
            continue;
        const xcc_quant_node *first = n;
        while (first->epilogue_of != XCC_NO_NODE)
            first = &q->nodes[first->epilogue_of];
        const bool in_floats = first != n && first->quantized && first->level == XCC_LEVEL_WEIGHTS;
        const char *reason = n->rule == NULL ? "the operator cannot be quantized"
                             : in_floats     ? "the node before it computes in floats"
                             : first != n    ? first->quantized ? "merged into the node before it" : first->reason
                             : n->rule->kind == XCC_QUANT_RECURRENT && n->quantized && !q->dynamic ? "its weights alone"
                                                                                                   : n->reason;
        report_node(q, n, first->quantized && !in_floats, reason);
    }
    for (size_t i = 0; i < q->body_node_count; i++) {
        const xcc_quant_node *n = &q->body_nodes[i];
        report_node(q, n, n->quantized, n->reason);
    }
    return XCVM_OK;
}

/* ---- Running ---- */

static xcvm_status need_some(const quantizer *q)
{
    const xcc_quant_node *weighted = NULL;
    for (size_t i = 0; i < q->node_count; i++) {
        if (q->nodes[i].quantized && !q->nodes[i].gone)
            return XCVM_OK;
        if (weighted == NULL && q->nodes[i].rule != NULL && !q->nodes[i].gone && q->nodes[i].reason[0] != '\0')
            weighted = &q->nodes[i];
    }
    for (size_t i = 0; i < q->body_node_count; i++) {
        if (q->body_nodes[i].quantized)
            return XCVM_OK;
        weighted = i == 0 ? &q->body_nodes[i] : weighted;
    }
    XCVM_CHECK(q->m.error, weighted != NULL, INVALID_ARGUMENT,
               "the model has nothing to quantize: no Conv, Gemm, MatMul or recurrent node");
    return xcvm_error_set(q->m.error, XCVM_INVALID_ARGUMENT, "no node can be quantized. The first is '%.200s' (%s): %s",
                          xcc_node_label(weighted->proto), weighted->proto->op_type, weighted->reason);
}

/* Returns the number of batches for calibration. The others are for measurement; if there are none, all are for both.
 */
static size_t calibration_batches(const quantizer *q, size_t count)
{
    const double share = q->o.held_out > 0 ? q->o.held_out : count >= 5 ? 0.2 : 0;
    const size_t held = (size_t)floor((double)count * share);
    return count - (held < count ? held : 0);
}

/* Selects the batches for measurement: those that are not for calibration, or all. */
static xcvm_status take_measured(quantizer *q, size_t count, size_t used, xcc_batches *batches)
{
    const size_t first = used < count ? used : 0;
    batches->count = count - first;
    batches->at = xcc_alloc(&q->m, batches->count * sizeof *batches->at);
    for (size_t i = 0; batches->at != NULL && i < batches->count; i++)
        batches->at[i] = first + i;
    return batches->at != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcvm_status run_static(quantizer *q, const xcc_calibration *data)
{
    XCVM_CHECK(q->m.error, data->batch_count > 0 && data->read != NULL, INVALID_ARGUMENT,
               "the calibration data has no batches; at least one batch is needed");
    const size_t count = data->batch_count, used = calibration_batches(q, count);
    xcc_batches measured;
    XCVM_TRY(need_some(q));
    XCVM_TRY(take_measured(q, count, used, &measured));
    if (q->o.form == XCC_FORM_QOPERATOR)
        XCVM_TRY(xcc_quant_raise_opset(q, 11));
    if (!q->o.no_channel_scaling && !q->o.trainable && !q->o.per_tensor)
        XCVM_TRY(xcc_quant_scale_channels(q, data, used));
    XCVM_TRY(xcc_quant_calibrate(q, data, used));
    if (is_for_data(q))
        XCVM_TRY(xcc_quant_round(q, data, used));
    if (q->o.correct_bias)
        XCVM_TRY(xcc_quant_correct(q));
    if (xcc_quant_is_bounded(q) || q->o.sensitivity)
        XCVM_TRY(xcc_quant_bound(q, data, &measured));
    XCVM_TRY(xcc_quant_measure(q, data, &measured, true, NULL));
    q->given = count;
    q->measured = measured.count;
    /* Measure the outputs of the written model, which may be fused differently from the model with all tensors. */
    if (q->o.form != XCC_FORM_QDQ || xcc_quant_is_bounded(q) || q->o.sensitivity)
        XCVM_TRY(xcc_quant_measure(q, data, &measured, false, NULL));
    return report_tensors(q);
}

/* Without data, ranges are computed in each run, or only weights are quantized. */
static xcvm_status run_without_data(quantizer *q)
{
    q->dynamic = q->o.activations != XCVM_F32 && xcvm_dtype_bits(q->o.weights) == 8;
    XCVM_CHECK(q->m.error, !q->o.trainable, INVALID_ARGUMENT,
               "a trainable model needs calibration data, because its scales are constants");
    XCVM_CHECK(q->m.error, !xcc_quant_is_bounded(q) && !q->o.sensitivity && !q->o.correct_bias, INVALID_ARGUMENT,
               "bounds and bias correction need calibration data, and so does the sensitivity of nodes");
    XCVM_CHECK(q->m.error, q->o.rounding != XCC_ROUNDING_GPTQ, INVALID_ARGUMENT,
               "GPTQ needs calibration data; without data weights are rounded to nearest");
    XCVM_CHECK(q->m.error, !q->dynamic || (q->o.activations == XCVM_U8 && !q->o.symmetric_activations),
               INVALID_ARGUMENT,
               "without calibration data activations become u8, with a zero point, in each run, not %s%s",
               q->o.symmetric_activations ? "symmetric " : "", xcvm_dtype_name(q->o.activations));
    XCVM_CHECK(q->m.error, q->o.form == XCC_FORM_QDQ, INVALID_ARGUMENT,
               "operators on quantized tensors need the ranges of calibration data");
    XCVM_TRY(xcc_quant_choose(q));
    XCVM_TRY(xcc_quant_place(q));
    XCVM_TRY(need_some(q));
    return q->dynamic ? xcc_quant_raise_opset(q, 11) : XCVM_OK;
}

static xcvm_status count_bytes(quantizer *q)
{
    xcc_model_writer w;
    xcvm_bytes bytes = {.allocator = q->m.allocator};
    xcc_model_begin(&w, q);
    xcvm_status status = xcc_write_form(&w);
    if (status == XCVM_OK)
        status = xcc_model_pack(&w, &bytes, &q->bytes_after);
    xcc_model_end(&w);
    xcvm_bytes_release(&bytes);
    return status;
}

xcvm_status xcc_quantizer_run(xcc_quantizer *q, const xcc_calibration *data, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, q != NULL, INVALID_ARGUMENT, "quantizer is NULL");
    XCVM_CHECK(error, !q->begun, INVALID_ARGUMENT, "the quantizer has been run already");
    q->begun = true;
    q->m.deadline_ns = 0;
    q->m.deadline_ns = q->o.timeout_ns != 0 ? xcc_deadline_within(&q->m, q->o.timeout_ns) : 0;
    xcvm_status status = data != NULL ? run_static(q, data) : run_without_data(q);
    if (status == XCVM_OK)
        status = report_nodes(q);
    if (status == XCVM_OK)
        status = count_bytes(q);
    xcc_name_limit(&q->m, status);
    q->done = status == XCVM_OK;
    if (status != XCVM_OK)
        *error = q->error;
    return status;
}

xcvm_status xcc_write_form(xcc_model_writer *w)
{
    const quantizer *q = w->q;
    if (q->dynamic)
        return xcc_write_dynamic(w);
    return q->o.form == XCC_FORM_QOPERATOR ? xcc_write_qoperator(w) : xcc_write_qdq(w, false);
}

xcvm_status xcc_quantizer_save(const xcc_quantizer *given, xcvm_sink sink, xcvm_error *error)
{
    /* Writing uses fields of tensors for names; callers cannot observe them. */
    quantizer *q = (quantizer *)(uintptr_t)given;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, q != NULL && sink.call != NULL, INVALID_ARGUMENT, "quantizer or sink is NULL");
    XCVM_CHECK(error, q->done, INVALID_ARGUMENT, "the quantizer has not been run, or has failed");
    xcc_model_writer w;
    xcvm_bytes bytes = {.allocator = q->m.allocator};
    xcc_model_begin(&w, q);
    xcvm_status status = xcc_write_form(&w);
    if (status == XCVM_OK)
        status = xcc_model_pack(&w, &bytes, NULL);
    xcc_model_end(&w);
    if (status == XCVM_OK && !sink.call(sink.user, bytes.at, bytes.count))
        status = xcvm_error_set(q->m.error, XCVM_IO, "the model cannot be written");
    xcvm_bytes_release(&bytes);
    xcc_name_limit(&q->m, status);
    if (status != XCVM_OK)
        *error = q->error;
    return status;
}

/* ---- Accessors ---- */

size_t xcc_quantizer_input_count(const xcc_quantizer *q) { return q->input_count; }
const xcvm_value_info *xcc_quantizer_input_at(const xcc_quantizer *q, size_t index)
{
    return index < q->input_count ? &q->inputs[index] : NULL;
}
const xcc_quantizer_tensor_info *xcc_quantizer_tensor_at(const xcc_quantizer *q, size_t index)
{
    return index < q->reported_tensor_count ? &q->reported_tensors[index] : NULL;
}
const xcc_quantizer_node_info *xcc_quantizer_node_at(const xcc_quantizer *q, size_t index)
{
    return index < q->reported_node_count ? &q->reported_nodes[index] : NULL;
}
const xcc_quantizer_output_info *xcc_quantizer_output_at(const xcc_quantizer *q, size_t index)
{
    return index < q->reported_output_count ? &q->reported_outputs[index] : NULL;
}

void xcc_quantizer_get_report(const xcc_quantizer *q, xcc_quantizer_report *report)
{
    xcc_quantizer_report full = {.tensor_count = q->reported_tensor_count,
                                 .node_count = q->reported_node_count,
                                 .output_count = q->reported_output_count,
                                 .folded_normalizations = q->folded,
                                 .equalized_pairs = q->equalized,
                                 .calibration_batches = q->calibrated,
                                 .measured_batches = q->measured,
                                 .bytes_before = q->bytes_before,
                                 .bytes_after = q->bytes_after,
                                 .judged_nodes = q->judged_nodes,
                                 .tried_models = q->tried_models,
                                 .search_ns = q->search_ns,
                                 .data_batches = q->given,
                                 .method = q->method,
                                 .inference_nodes = q->inferred,
                                 .scaled_channels = q->scaled_channels,
                                 .measured_only = q->measured_only};
    for (size_t i = 0; i < q->reported_node_count; i++)
        full.quantized_nodes += q->reported_nodes[i].quantized;
    for (size_t i = 0; i < q->reported_node_count; i++)
        full.weights_alone_nodes += q->reported_nodes[i].weights_alone;
    for (size_t i = 0; i < q->node_count; i++)
        full.kept_nodes += q->nodes[i].level == XCC_LEVEL_FLOAT;
    for (size_t i = 0; i < q->body_node_count; i++)
        full.kept_nodes += q->body_nodes[i].level == XCC_LEVEL_FLOAT;
    const size_t size = report->size;
    memcpy(report, &full, size < sizeof full ? size : sizeof full);
    report->size = size;
}
