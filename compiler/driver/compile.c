/* The compilation: from a model to a program, with its options, limits and report. */
#include "compiler/driver/driver.h"
#include "compiler/ir/compilation.h"
#include "compiler/kernel_library/kernel_library.h"
#include "compiler/ir/liveness.h"
#include "compiler/ir/training_form.h"
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/onnx_model/onnx_model.h"
#include "compiler/export_onnx/export_onnx.h"
#include "compiler/driver/pass_table.h"
#include "compiler/emit/emit.h"
#include "compiler/states/states.h"
#include "vm/options.h"

#include <float.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Figures ---- */

typedef struct figures {
    size_t nodes;
    uint64_t flops, peak;
    size_t block_products;
    bool open; /* some depend on open dimensions */
} figures;

static void count_nodes(const xcc_graph *g, figures *f)
{
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        f->nodes++;
        f->block_products += xcc_is(n, XCVM_OP_BlockQuantizedGemm);
        for (size_t i = 0; i < n->body_count; i++)
            count_nodes(n->bodies[i], f);
    }
}

static xcvm_status take_figures(xcc_module *m, figures *f)
{
    *f = (figures){.nodes = 0};
    count_nodes(m->graph, f);
    for (const xcc_node *n = m->graph->first; n != NULL; n = n->next)
        if (__builtin_add_overflow(f->flops, xcc_node_flops(n), &f->flops))
            f->flops = UINT64_MAX;
    return xcc_graph_peak(m->graph, &f->peak, &f->open);
}

static void count_constant(const xcc_value *v, uint8_t *seen, uint64_t *bytes)
{
    if (!xcc_is_constant(v) || seen[v->id])
        return;
    seen[v->id] = 1;
    *bytes += v->type.bytes;
}

static void count_constants(const xcc_graph *g, uint8_t *seen, uint64_t *bytes)
{
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        size_t inputs = xcc_node_input_count(n);
        for (size_t i = 0; i < inputs; i++)
            count_constant(n->uses[i].value, seen, bytes);
        for (size_t i = 0; i < n->body_count; i++)
            count_constants(n->bodies[i], seen, bytes);
    }
    for (size_t i = 0; i < g->output_count; i++)
        count_constant(g->outputs[i], seen, bytes);
}

static xcvm_status parameter_bytes(xcc_module *m, uint64_t *bytes)
{
    uint8_t *seen = xcvm_allocate_zeroed(m->allocator, m->value_count);
    if (seen == NULL)
        return xcc_out_of_memory(m);
    *bytes = 0;
    count_constants(m->graph, seen, bytes);
    xcvm_deallocate(m->allocator, seen, m->value_count);
    return XCVM_OK;
}

/* ---- Compiling ---- */

xcvm_status xcc_options_read(xcc_options *o, const xcc_options *given, xcvm_error *error)
{
    XCVM_TRY(xcvm_options_read(o, sizeof *o, given, error));
    o->size = sizeof *o;
    return XCVM_OK;
}

/* The part of the report that caller and library both have. */
static void copy_report(xcc_report *to, const xcc_report *report)
{
    const size_t size = to->size;
    memcpy(to, report, size < sizeof *report ? size : sizeof *report);
    to->size = size;
}

/* Returns true if the number is 0, or positive and finite. */
static bool is_setting(double x) { return x >= 0.0 && x <= DBL_MAX; }

static xcvm_status check_training(const xcc_options *o, xcvm_error *error)
{
    const bool asked = o->training.clip_norm != 0.0 || o->training.clip_value != 0.0 || o->training.accumulate ||
                       o->training.average != 0.0 || o->training.loss_scale != 0.0 || o->training.evaluate ||
                       o->training.all_reduce || o->training.train_batch_normalization ||
                       o->training.local_batch_normalization || o->training.group_count != 0;
    XCVM_CHECK(error, o->train != NULL || !asked, INVALID_ARGUMENT,
               "an option of training programs is set without an optimizer. Set `train` (--train)");
    XCVM_CHECK(error, o->train == NULL || !o->backprop, INVALID_ARGUMENT,
               "a training program has no outputs for gradients; ask for one of the two");
    XCVM_CHECK(error, o->train == NULL || !o->inference, INVALID_ARGUMENT,
               "a training program is in training form; ask for training or for the inference form");
    XCVM_CHECK(error, is_setting(o->training.clip_norm) && is_setting(o->training.clip_value), INVALID_ARGUMENT,
               "gradients cannot be clipped to %g",
               is_setting(o->training.clip_norm) ? o->training.clip_value : o->training.clip_norm);
    XCVM_CHECK(error, o->training.average >= 0.0 && o->training.average < 1.0, INVALID_ARGUMENT,
               "the decay of averages cannot be %g, it is from 0 to below 1", o->training.average);
    XCVM_CHECK(error,
               o->training.loss_scale == 0.0 ||
                   (o->training.loss_scale > 0.0 && o->training.loss_scale <= (double)FLT_MAX),
               INVALID_ARGUMENT, "the loss cannot be scaled by %g", o->training.loss_scale);
    for (size_t i = 0; i < o->training.group_count; i++) {
        const xcc_training_group *group = o->training.groups != NULL ? &o->training.groups[i] : NULL;
        XCVM_CHECK(error, group != NULL && group->pattern != NULL, INVALID_ARGUMENT,
                   "a group of parameters has no pattern");
        XCVM_CHECK(error, is_setting(group->rate) && is_setting(group->weight_decay), INVALID_ARGUMENT,
                   "group '%.200s': rate and weight decay are no numbers from 0 on", group->pattern);
    }
    return XCVM_OK;
}

/* A model is written before the passes that these options are for. */
static xcvm_status check_onnx(const xcc_options *o, xcvm_error *error)
{
    XCVM_CHECK(error,
               o->onnx_export.data.call == NULL || (o->onnx_export.enabled && o->onnx_export.data_location != NULL),
               INVALID_ARGUMENT,
               "a file of constants needs ONNX output and a file name. Use --emit onnx with --weights-file NAME");
    if (!o->onnx_export.enabled)
        return XCVM_OK;
    XCVM_CHECK(error,
               (o->weights.dtype == XCVM_NO_DTYPE || o->weights.dtype == XCVM_F32) &&
                   o->weights.blocks == XCC_WEIGHTS_PLAIN && o->kernel_library.path == NULL,
               INVALID_ARGUMENT, "an ONNX model has neither packed weights nor a kernel library");
    XCVM_CHECK(error,
               (o->weights.compute == XCVM_NO_DTYPE || o->weights.compute == XCVM_F32) &&
                   !o->weights.integer_activations && o->quantized.integers == XCC_INTEGER_AUTO,
               INVALID_ARGUMENT, "an ONNX model does not say what products are computed in");
    XCVM_CHECK(error,
               (o->states.cache_dtype == XCVM_NO_DTYPE || o->states.cache_dtype == XCVM_F32) &&
                   o->states.cache_rows == 0,
               INVALID_ARGUMENT, "an ONNX model has no caches, as it has no states");
    return XCVM_OK;
}

static xcvm_status check_dims(const xcc_options *o, xcvm_error *error)
{
    for (size_t i = 0; i < o->dim_count; i++) {
        XCVM_CHECK(error, o->dims != NULL && o->dims[i].name != NULL && o->dims[i].name[0] != '\0', INVALID_ARGUMENT,
                   "a dimension to fix has no name");
        XCVM_CHECK(error, o->dims[i].value >= 0, INVALID_ARGUMENT, "dimension %s cannot be %lld", o->dims[i].name,
                   (long long)o->dims[i].value);
    }
    return XCVM_OK;
}

/* Storage type of weights, and computation type of products. */
static xcvm_status check_weights(const xcc_options *o, xcvm_error *error)
{
    XCVM_CHECK(error,
               o->weights.dtype == XCVM_NO_DTYPE ||
                   (xcvm_dtype_bits(o->weights.dtype) != 0 && xcvm_dtype_in(o->weights.dtype, XCVM_TYPES_WEIGHT)),
               INVALID_ARGUMENT, "weights cannot be stored as %s, f32, f24, f16 or bf16 is needed",
               xcvm_dtype_name(o->weights.dtype));
    XCVM_CHECK(
        error,
        o->weights.blocks == XCC_WEIGHTS_PLAIN || o->weights.dtype == XCVM_NO_DTYPE || o->weights.dtype == XCVM_F32,
        INVALID_ARGUMENT, "weights cannot be stored both as %s and in blocks", xcvm_dtype_name(o->weights.dtype));
    XCVM_CHECK(error, o->weights.blocks >= XCC_WEIGHTS_PLAIN && o->weights.blocks <= XCC_WEIGHTS_Q4A, INVALID_ARGUMENT,
               "weights.blocks is %d; expected a value of xcc_weight_blocks", (int)o->weights.blocks);
    XCVM_CHECK(error, o->quantized.integers >= XCC_INTEGER_AUTO && o->quantized.integers <= XCC_INTEGER_NEVER,
               INVALID_ARGUMENT, "quantized.integer is %d; expected auto, always or never", (int)o->quantized.integers);
    XCVM_CHECK(error,
               o->weights.compute == XCVM_NO_DTYPE || o->weights.compute == XCVM_F32 || o->weights.compute == XCVM_BF16,
               INVALID_ARGUMENT, "products cannot be computed in %s, f32 or bf16 is needed",
               xcvm_dtype_name(o->weights.compute));
    XCVM_CHECK(error,
               o->weights.compute != XCVM_BF16 || (o->weights.blocks == XCC_WEIGHTS_PLAIN &&
                                                   (o->weights.dtype == XCVM_NO_DTYPE || o->weights.dtype == XCVM_F32 ||
                                                    o->weights.dtype == XCVM_BF16)),
               INVALID_ARGUMENT, "products in bf16 need a program whose weights are f32 or bf16");
    return XCVM_OK;
}

static xcvm_status check_states(const xcc_options *o, xcvm_error *error)
{
    XCVM_CHECK(error,
               o->states.cache_dtype == XCVM_NO_DTYPE || o->states.cache_dtype == XCVM_F32 ||
                   o->states.cache_dtype == XCVM_F16 || o->states.cache_dtype == XCVM_BF16,
               INVALID_ARGUMENT, "caches cannot be of %s, f32, f16 or bf16 is needed",
               xcvm_dtype_name(o->states.cache_dtype));
    XCVM_CHECK(error, o->states.cache_rows >= 0 && o->states.cache_rows <= INT32_MAX, INVALID_ARGUMENT,
               "caches cannot have %lld rows, 0 to %d is expected", (long long)o->states.cache_rows, INT32_MAX);
    for (size_t i = 0; i < o->states.pair_count; i++)
        XCVM_CHECK(error,
                   o->states.pairs != NULL && o->states.pairs[i].output != NULL && o->states.pairs[i].input != NULL,
                   INVALID_ARGUMENT, "a pair of an output and an input lacks a name");
    for (size_t i = 0; i < o->states.pattern_count; i++)
        XCVM_CHECK(error, o->states.patterns != NULL && o->states.patterns[i] != NULL, INVALID_ARGUMENT,
                   "a pattern of state pairs is NULL");
    return XCVM_OK;
}

/* Gradients of whatever use: as outputs, or within a training program. */
static xcvm_status check_gradients(const xcc_options *o, xcvm_error *error)
{
    const bool differentiates = o->backprop || o->train != NULL;
    XCVM_CHECK(error, differentiates || (o->loss == NULL && o->gradients.wrt_count == 0), INVALID_ARGUMENT,
               "a loss or variables of differentiation are named without gradients. Set `backprop` (--backprop) or "
               "`train` (--train)");
    XCVM_CHECK(error,
               (o->backprop || (o->gradients.phase == XCC_PHASE_WHOLE && o->gradients.order == 0)) &&
                   (differentiates || !o->gradients.straight_through),
               INVALID_ARGUMENT, "an option of gradients is set without `backprop` (--backprop)");
    XCVM_CHECK(error,
               o->gradients.phase == XCC_PHASE_WHOLE || (o->states.pair_count == 0 && o->states.pattern_count == 0),
               INVALID_ARGUMENT, "forward and backward as programs of their own have no states");
    XCVM_CHECK(error, o->gradients.phase <= XCC_PHASE_BACKWARD, INVALID_ARGUMENT,
               "gradients.phase is %d; expected a value of xcc_phase", (int)o->gradients.phase);
    XCVM_CHECK(error, o->gradients.order >= 0 && o->gradients.order <= 2, INVALID_ARGUMENT,
               "gradients.order is %d; expected 1 or 2", o->gradients.order);
    XCVM_CHECK(
        error, o->gradients.order < 2 || (!o->gradients.straight_through && o->gradients.phase == XCC_PHASE_WHOLE),
        INVALID_ARGUMENT, "gradients of order 2 cannot be combined with straight-through gradients or two programs");
    for (size_t i = 0; i < o->gradients.vjp_count; i++)
        XCVM_CHECK(error,
                   o->gradients.vjps != NULL && o->gradients.vjps[i].function != NULL &&
                       o->gradients.vjps[i].vjp != NULL,
                   INVALID_ARGUMENT, "a vector-Jacobian product is NULL, or that of NULL");
    XCVM_CHECK(error, differentiates || o->recompute.method == NULL || strcmp(o->recompute.method, "none") == 0,
               INVALID_ARGUMENT,
               "recomputation is set without gradients. Set `backprop` (--backprop) or `train` (--train)");
    XCVM_CHECK(error, o->recompute.method != NULL || o->recompute.memory_budget == 0, INVALID_ARGUMENT,
               "a memory budget is set without a recomputation method that uses it");
    for (size_t i = 0; i < o->gradients.wrt_count; i++)
        XCVM_CHECK(error, o->gradients.wrt != NULL && o->gradients.wrt[i] != NULL, INVALID_ARGUMENT,
                   "a name to differentiate by is NULL");
    return XCVM_OK;
}

static xcvm_status check_dump(const xcc_options *o, xcvm_error *error)
{
    if (o->debug.dump_after == NULL || strcmp(o->debug.dump_after, "all") == 0)
        return XCVM_OK;
    for (size_t i = 0; i < xcc_pass_count(); i++)
        if (strcmp(o->debug.dump_after, xcc_pass_at(i)->name) == 0)
            return XCVM_OK;
    return xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                          "unknown pass %s. `xcvm compile --list-passes` lists the passes", o->debug.dump_after);
}

static xcvm_status check_options(const xcc_options *o, xcvm_error *error)
{
    XCVM_TRY(check_dims(o, error));
    XCVM_TRY(check_weights(o, error));
    XCVM_TRY(check_onnx(o, error));
    XCVM_TRY(check_states(o, error));
    XCVM_TRY(check_training(o, error));
    XCVM_TRY(check_gradients(o, error));
    return check_dump(o, error);
}

/* Fills the report of a program. `before` and `after` are counts of the imported graph and of the graph after the
 * passes. */
static xcvm_status make_report(xcc_module *m, const figures *before, const figures *after, const xcc_plan *plan,
                               xcc_report *report)
{
    *report = (xcc_report){.exact = !before->open && !after->open,
                           .nodes_before = before->nodes,
                           .nodes_after = after->nodes,
                           .flops_before = before->flops,
                           .flops_after = after->flops,
                           .peak_bytes_before = before->peak,
                           .peak_bytes_after = after->peak,
                           .arena_bytes = plan->arena_bytes,
                           .arena_lower_bound = plan->lower_bound,
                           .weight_bytes_before = m->compilation->weight_bytes_before,
                           .weight_bytes_after = m->compilation->weight_bytes_after,
                           .uncompressed = m->compilation->uncompressed,
                           .bf16_products = m->compilation->bf16_products,
                           .exact_products = m->compilation->exact_products,
                           .block_products = after->block_products,
                           .tuned = m->compilation->tuned,
                           .integer_products = m->compilation->integers.made,
                           .float_products = m->compilation->integers.left,
                           .faster_as_floats = m->compilation->integers.slower,
                           .gradient_count = m->compilation->gradient_count,
                           .gradient_bytes = m->compilation->gradient_bytes,
                           .retained_count = m->compilation->retained_count,
                           .retained_bytes = m->compilation->retained_bytes,
                           .recompute_peak_before = m->compilation->recomputation.peak_before,
                           .recomputed = m->compilation->recomputation.copies,
                           .recompute_time = m->compilation->recomputation.time,
                           .training_nodes = m->compilation->training_nodes};
    return parameter_bytes(m, &report->parameter_bytes);
}

static xcvm_status refuse_dim(const xcc_module *m, const char *name)
{
    char names[300] = "";
    size_t length = 0;
    for (size_t i = 0; i < m->symbol_count && length + 70 < sizeof names; i++)
        if (m->symbols[i].name != NULL)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%.60s", length > 0 ? ", " : "",
                                       m->symbols[i].name);
    XCVM_FAIL(
        m->error, INVALID_ARGUMENT,
        "the model's inputs have no dimension named %.60s (open dimensions with a name: %s). A dimension without a "
        "name is INPUT.AXIS, such as x.0",
        name, length > 0 ? names : "none");
}

static xcvm_status compile_module(xcc_module *m, xcvm_sink sink, xcc_report *report)
{
    for (size_t i = 0; i < m->options->dim_count; i++)
        if (!xcc_symbol_known(m, m->options->dims[i].name))
            return refuse_dim(m, m->options->dims[i].name);
    XCVM_TRY(xcc_training_form_resolve(m));
    XCVM_TRY(xcc_pair_states(m));
    figures before = {.nodes = 0}, after;
    xcc_report full = {.size = 0};
    if (report != NULL)
        XCVM_TRY(take_figures(m, &before));
    XCVM_TRY(xcc_passes_run(m));
    if (m->options->onnx_export.enabled) {
        xcc_module_progress(m, "write", xcc_pass_count() + 1);
        return xcc_onnx_write(m, xcc_operator_info_find, sink);
    }
    xcc_plan plan;
    xcc_module_progress(m, "plan", xcc_pass_count() + 1);
    XCVM_TRY(xcc_plan_make(m, &plan));
    if (report != NULL) {
        XCVM_TRY(take_figures(m, &after));
        XCVM_TRY(make_report(m, &before, &after, &plan, &full));
    }
    XCVM_TRY(xcc_codegen_build(m));
    xcc_module_progress(m, "emit", xcc_pass_count() + 2);
    xcvm_status status = xcc_emit_program(m, &plan, sink);
    if (status != XCVM_OK) {
        if (m->group_count > 0)
            (void)unlink(m->options->kernel_library.path);
        return status;
    }
    if (report != NULL)
        copy_report(report, &full);
    xcc_module_progress(m, "done", xcc_pass_count() + 3);
    return XCVM_OK;
}

/* What an attempt and the next one share. */
typedef struct attempt {
    bool open_branches;
    size_t branches; /* of If, which the attempt has imported */
    uint64_t deadline_ns;
} attempt;

/* The model is the caller's memory, or, where path is not NULL, a file. */
static xcvm_status attempt_compile(const char *path, const void *model, size_t count, const xcc_options *options,
                                   xcvm_sink sink, xcc_report *report, attempt *a, xcvm_error *error)
{
    xcc_module m;
    xcc_model_file file = {.dir = NULL};
    xcvm_error_set(error, XCVM_OK, "%s", "");
    xcvm_status status = xcc_module_init(&m, options, error);
    if (status == XCVM_OK) {
        m.deadline_ns = a->deadline_ns != 0 ? a->deadline_ns : m.deadline_ns;
        a->deadline_ns = m.deadline_ns;
        m.compilation->open_branches = a->open_branches;
    }
    if (status == XCVM_OK && path != NULL)
        status = xcc_model_file_open(&file, path, &m);
    /* Compilation for inference has no trainable parameters. Import knows this, so that it folds nodes that depend on
     * parameters. */
    if (status == XCVM_OK) {
        if (!m.options->backprop && m.options->train == NULL)
            xcc_parameters_freeze(&m);
        xcc_module_progress(&m, "import", 0);
        status = path != NULL ? xcc_import(&m, file.bytes, file.count, file.dir, (xcvm_sink){0})
                              : xcc_import(&m, model, count, NULL, (xcvm_sink){0});
    }
    if (path != NULL)
        xcc_model_file_close(&file);
    if (status == XCVM_OK)
        status = compile_module(&m, sink, report);
    xcc_name_limit(&m, status);
    a->branches = m.compilation != NULL ? m.compilation->branches : 0;
    xcc_module_release(&m);
    return status;
}

/* Passes may find out that a branch of an If is impossible, whose shapes the import did not know. Then branches get
 * operands of open sizes. If this does not help, the error for the known sizes is more useful. */
static xcvm_status compile_in(const char *path, const void *model, size_t count, const xcc_options *options,
                              xcvm_sink sink, xcc_report *report, xcvm_error *error)
{
    attempt a = {.open_branches = false};
    const xcvm_status status = attempt_compile(path, model, count, options, sink, report, &a, error);
    if (status != XCVM_SHAPE_MISMATCH || a.branches == 0)
        return status;
    const xcvm_error first = *error;
    a.open_branches = true;
    const xcvm_status second = attempt_compile(path, model, count, options, sink, report, &a, error);
    if (second == XCVM_OK || second == XCVM_OUT_OF_MEMORY || second == XCVM_OUT_OF_TIME || second == XCVM_CANCELLED)
        return second;
    *error = first;
    return status;
}

/* Preparation that both entry points share before there is a model; `o` receives the options. */
static xcvm_status begin(xcc_options *o, const xcc_options *options, xcvm_sink sink, const xcc_report *report,
                         xcvm_error *error)
{
    XCVM_CHECK(error, sink.call != NULL, INVALID_ARGUMENT, "sink is NULL");
    XCVM_CHECK(error, report == NULL || report->size >= sizeof report->size, INVALID_ARGUMENT,
               "report: size is %zu; initialize the struct with { .size = sizeof(the struct) }", report->size);
    XCVM_TRY(xcc_options_read(o, options, error));
    XCVM_TRY(check_options(o, error));
    /* ONNX has no operators for what merged instructions do. */
    if (o->onnx_export.enabled && (o->optimization == 0 || o->optimization > 1))
        o->optimization = 1;
    return XCVM_OK;
}

xcvm_status xcc_compile(const void *model, size_t count, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                        xcvm_error *error)
{
    xcc_options o;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, model != NULL || count == 0, INVALID_ARGUMENT, "model is NULL");
    XCVM_TRY(begin(&o, options, sink, report, error));
    return compile_in(NULL, model, count, &o, sink, report, error);
}

xcvm_status xcc_compile_file(const char *path, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                             xcvm_error *error)
{
    xcc_options o;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, path != NULL, INVALID_ARGUMENT, "path is NULL");
    XCVM_TRY(begin(&o, options, sink, report, error));
    return compile_in(path, NULL, 0, &o, sink, report, error);
}

xcvm_status xcc_compile_graph(xcc_module *m, const xcc_options *options, xcvm_sink sink, xcc_report *report,
                              xcvm_error *error)
{
    xcc_options o;
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_TRY(begin(&o, options, sink, report, error));
    const xcc_options *before = m->options;
    xcvm_error *errors = m->error;
    xcvm_error_set(error, XCVM_OK, "%s", "");
    m->options = &o;
    m->error = error;
    m->budget.limit = o.limits.memory_bytes;
    m->deadline_ns = o.limits.timeout_ns != 0 ? xcc_deadline_within(m, o.limits.timeout_ns) : 0;
    m->cancelled = o.cancelled;
    if (!o.backprop && o.train == NULL)
        xcc_parameters_freeze(m);
    const xcvm_status status = compile_module(m, sink, report);
    xcc_name_limit(m, status);
    m->options = before;
    m->error = errors;
    return status;
}
