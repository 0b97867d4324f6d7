/* Checks a model: describes it, and lists everything that prevents compilation, as text. */
#include "base/clock.h"
#include "compiler/ir/compilation.h"
#include "compiler/ir/training_form.h"
#include "compiler/import_onnx/import_onnx.h"
#include "compiler/onnx_model/onnx_model.h"
#include "compiler/gradients/gradients.h"
#include "compiler/passes/passes.h"
#include "compiler/training/training.h"
#include "proto/image.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct report {
    xcvm_sink sink;
    bool failed;
    bool problems; /* their heading is written */
} report;

static void put(report *r, const char *text, size_t length)
{
    r->failed = r->failed || !r->sink.call(r->sink.user, text, length);
}

static void print(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(report *r, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof text) {
        length = sizeof text - 1;
        text[length - 1] = '\n';
    }
    put(r, text, (size_t)length);
}

/* "1536", "1.5 MB"; for sizes that are read by people. */
static const char *bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        number /= 1000;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.2f %s", number, units[unit]);
    return text;
}

/* ---- What the model says of itself ---- */

static const char *or_unknown(const char *text) { return text != NULL && text[0] != '\0' ? text : "unknown"; }

static void print_header(report *r, const Onnx__ModelProto *model)
{
    print(r, "ir version   %lld\n", (long long)model->ir_version);
    const char *version = model->producer_version != NULL ? model->producer_version : "";
    print(r, "producer     %.200s%s%.100s\n", or_unknown(model->producer_name), version[0] != '\0' ? " " : "", version);
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = xcc_domain(model->opset_import[i]->domain);
        print(r, "opset        %.200s %lld\n", domain[0] != '\0' ? domain : "ai.onnx",
              (long long)model->opset_import[i]->version);
    }
    if (model->n_functions > 0)
        print(r, "functions    %zu\n", model->n_functions);
}

typedef struct census {
    xcc_table operators; /* how many nodes each has */
    size_t nodes, tensors;
    uint64_t elements, bytes;
} census;

static xcvm_status count_node(xcc_module *m, census *c, const Onnx__NodeProto *node)
{
    const char *domain = xcc_domain(node->domain), *name = node->op_type != NULL ? node->op_type : "?";
    size_t length = strlen(domain) + strlen(name) + 2;
    char *full = xcc_alloc(m, length);
    if (full == NULL)
        return XCVM_OUT_OF_MEMORY;
    snprintf(full, length, "%s%s%s", domain, domain[0] != '\0' ? "." : "", name);
    const struct xcc_table_entry *entry = xcc_table_lookup(&c->operators, full);
    c->nodes++;
    return xcc_table_put(m, &c->operators, entry != NULL ? entry->name : full, entry != NULL ? entry->value + 1 : 1);
}

static void count_tensor(census *c, const Onnx__TensorProto *t)
{
    xcvm_error ignored;
    xcvm_dtype dtype;
    size_t count, bytes;
    c->tensors++;
    if (t->n_dims > XCVM_MAX_RANK || xcc_dtype_read(t->data_type, &dtype, &ignored) != XCVM_OK ||
        !xcvm_tensor_size(dtype, (int)t->n_dims, t->dims, &count, &bytes) ||
        __builtin_add_overflow(c->elements, count, &c->elements) || __builtin_add_overflow(c->bytes, bytes, &c->bytes))
        return;
}

static xcvm_status count_nodes(xcc_module *m, census *c, Onnx__NodeProto *const *nodes, size_t count);

static xcvm_status count_graph(xcc_module *m, census *c, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        count_tensor(c, g->initializer[i]);
    return count_nodes(m, c, g->node, g->n_node);
}

static xcvm_status count_nodes(xcc_module *m, census *c, Onnx__NodeProto *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(count_node(m, c, nodes[i]));
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = nodes[i]->attribute[k];
            if (a->t != NULL && strcmp(nodes[i]->op_type != NULL ? nodes[i]->op_type : "", "Constant") == 0)
                count_tensor(c, a->t);
            if (a->g != NULL)
                XCVM_TRY(count_graph(m, c, a->g));
        }
    }
    return XCVM_OK;
}

/* Most frequent first, equal ones by name. */
static int by_frequency(const void *a, const void *b)
{
    const struct xcc_table_entry *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return strcmp(x->name, y->name);
}

static xcvm_status print_census(report *r, xcc_module *m, const Onnx__ModelProto *model)
{
    census c = {.nodes = 0};
    char text[32];
    XCVM_TRY(count_graph(m, &c, model->graph));
    for (size_t i = 0; i < model->n_functions; i++)
        XCVM_TRY(count_nodes(m, &c, model->functions[i]->node, model->functions[i]->n_node));
    print(r, "parameters   %llu in %zu tensors, %s\n", (unsigned long long)c.elements, c.tensors,
          bytes_text(c.bytes, text));
    print(r, "nodes        %zu\n", c.nodes);
    struct xcc_table_entry *sorted = xcc_alloc(m, c.operators.count * sizeof *sorted);
    if (sorted == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < c.operators.capacity; i++)
        if (c.operators.at[i].name != NULL)
            sorted[count++] = c.operators.at[i];
    if (count > 0)
        qsort(sorted, count, sizeof *sorted, by_frequency);
    for (size_t i = 0; i < count; i++)
        print(r, "  %8lld %.200s\n", (long long)sorted[i].value, sorted[i].name);
    return XCVM_OK;
}

/* `note` is the end of the line. */
static void print_type(report *r, const xcc_module *m, const char *what, const char *name, const xcvm_value *value,
                       const char *note)
{
    xcvm_type type = {.kind = (xcvm_kind)value->kind, .dtype = (xcvm_dtype)value->dtype, .rank = value->rank};
    char text[256];
    for (int i = 0; i < value->rank; i++) {
        type.dims[i] = value->dims[i];
        type.dim_names[i] = xcc_symbol_name(m, value->dims[i]);
    }
    print(r, "%s %.300s %s%s\n", what, name, xcvm_type_describe(&type, text, sizeof text), note);
}

/* ---- What becomes of it ---- */

static bool problem_line(void *user, const void *bytes, size_t count)
{
    report *r = user;
    if (!r->problems)
        print(r, "not supported\n");
    r->problems = true;
    print(r, "  ");
    put(r, bytes, count);
    return !r->failed;
}

static bool discard(void *user, const void *bytes, size_t count)
{
    (void)user;
    (void)bytes;
    (void)count;
    return true;
}

static bool gradient_line(void *user, const void *bytes, size_t count)
{
    report *r = user;
    if (!r->problems)
        print(r, "no gradient\n");
    r->problems = true;
    print(r, "  ");
    put(r, bytes, count);
    return !r->failed;
}

static void print_figures(report *r, const xcc_report *figures)
{
    char text[32];
    const char *open = figures->exact ? "" : " (open dimensions taken as 1)";
    print(r, "flops        %.4g%s\n", (double)figures->flops_after, open);
    print(r, "peak memory  %s%s\n", bytes_text(figures->peak_bytes_after, text), open);
    print(r, "compiles     %zu nodes as imported, %zu after optimizing\n", figures->nodes_before, figures->nodes_after);
}

/* The import has reported all other diagnostics. */
static void pass_states(void *user, xcc_diagnostic_kind kind, const char *text)
{
    const xcc_options *options = user;
    if (options->diagnostics.call != NULL && (kind == XCC_DIAGNOSTIC_STATE || kind == XCC_DIAGNOSTIC_STATE_PAIR))
        options->diagnostics.call(options->diagnostics.user, kind, text);
}

/* Options for the compilation, which gets the remaining memory and time of the module. */
static xcvm_status options_left(xcc_module *m, xcc_options *left)
{
    *left = *m->options;
    left->allocator = m->allocator;
    left->limits.memory_bytes = 0;
    left->diagnostics.call = NULL; /* the module's own import has noted what there is */
    if (m->deadline_ns == 0)
        return XCVM_OK;
    const uint64_t now = xcvm_clock_ns();
    if (now >= m->deadline_ns)
        return xcc_out_of_time(m);
    left->limits.timeout_ns = m->deadline_ns - now;
    return XCVM_OK;
}

/* Training compiles three programs: forward alone, backward alone, and both in one. */
static xcvm_status check_training(report *r, xcc_module *m, const char *path)
{
    xcc_report parts[3];
    char gradients[32], retained[32], peak[32];
    m->compilation->report_problem = (xcvm_sink){gradient_line, r};
    XCVM_TRY(xcc_pass_canonicalize(m));
    XCVM_TRY(xcc_pass_infer(m));
    XCVM_TRY(xcc_pass_add_loss(m));
    XCVM_TRY(xcc_pass_differentiate(m));
    for (int phase = XCC_PHASE_WHOLE; phase <= XCC_PHASE_BACKWARD; phase++) {
        xcc_options rest;
        XCVM_TRY(options_left(m, &rest));
        rest.gradients.phase = (xcc_phase)phase;
        parts[phase] = (xcc_report){.size = sizeof *parts};
        XCVM_TRY(xcc_compile_file(path, &rest, (xcvm_sink){discard, NULL}, &parts[phase], m->error));
    }
    const xcc_report *whole = &parts[XCC_PHASE_WHOLE], *forward = &parts[XCC_PHASE_FORWARD];
    const char *open = whole->exact ? "" : " (open dimensions taken as 1)";
    print(r, "gradients    %zu, %s\n", whole->gradient_count, bytes_text(whole->gradient_bytes, gradients));
    print(r, "retained     %zu values for the backward, %s%s\n", forward->retained_count,
          bytes_text(forward->retained_bytes, retained), open);
    print(r, "training     %.4g flops forward, %.4g backward%s\n", (double)forward->flops_after,
          (double)parts[XCC_PHASE_BACKWARD].flops_after, open);
    print(r, "peak memory  %s in training%s; an optimizer keeps %s for each moment\n",
          bytes_text(whole->peak_bytes_after, peak), open, gradients);
    return XCVM_OK;
}

/* Declarations of inputs or outputs in the model, if import did not get that far. */
static void print_declared(report *r, xcc_module *m, const char *what, Onnx__ValueInfoProto *const *values,
                           size_t count, const char *note)
{
    const xcvm_error kept = *m->error;
    for (size_t i = 0; i < count; i++) {
        xcvm_value type = {.rank = -1};
        if (values[i]->name != NULL && values[i]->type != NULL && xcc_type_read(m, values[i]->type, &type) == XCVM_OK)
            print_type(r, m, what, values[i]->name, &type, note);
    }
    *m->error = kept;
}

/* Lists the inputs that have defaults and that the options do not keep as inputs. */
static xcvm_status print_defaults(report *r, xcc_module *m, const Onnx__ModelProto *model)
{
    xcc_table initializers = {.count = 0}, kept = {.count = 0};
    const Onnx__GraphProto *g = model->graph;
    if (model->ir_version < XCC_DEFAULTS_VERSION)
        return XCVM_OK;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (g->initializer[i]->name != NULL)
            XCVM_TRY(xcc_table_put(m, &initializers, g->initializer[i]->name, 0));
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values != NULL && g->sparse_initializer[i]->values->name != NULL)
            XCVM_TRY(xcc_table_put(m, &initializers, g->sparse_initializer[i]->values->name, 0));
    for (size_t i = 0; i < m->options->default_input_count; i++)
        XCVM_TRY(xcc_table_put(m, &kept, m->options->default_inputs[i], 0));
    for (size_t i = 0; i < g->n_input; i++) {
        Onnx__ValueInfoProto *const input = g->input[i];
        XCVM_TRY(xcc_poll(m));
        if (input->name == NULL || xcc_table_lookup(&initializers, input->name) == NULL ||
            xcc_table_lookup(&kept, input->name) != NULL)
            continue;
        print_declared(r, m, "input       ", &input, 1, ", with a default; a constant unless --keep-input names it");
    }
    return XCVM_OK;
}

static xcvm_status check_model(report *r, xcc_module *m, const xcc_model_file *file, const char *path)
{
    Onnx__ModelProto *model;
    XCVM_TRY(xcc_model_unpack(file->bytes, file->count, xcc_stop_of(m), &m->arena, &model, m->error));
    print_header(r, model);
    XCVM_TRY(print_census(r, m, model));
    if (!m->options->backprop)
        xcc_parameters_freeze(m);
    xcvm_status status = xcc_import(m, file->bytes, file->count, file->dir, (xcvm_sink){problem_line, r});
    if (status == XCVM_OUT_OF_MEMORY || status == XCVM_OUT_OF_TIME || status == XCVM_CANCELLED)
        return status;
    if (status == XCVM_UNSUPPORTED && !r->problems)
        print(r, "not supported\n  %s\n", m->error->message);
    for (size_t i = 0; i < m->graph->input_count; i++)
        print_type(r, m, "input       ", m->graph->inputs[i]->name, &m->graph->inputs[i]->type, "");
    if (m->graph->input_count == 0)
        print_declared(r, m, "input       ", model->graph->input, model->graph->n_input, "");
    else
        XCVM_TRY(print_defaults(r, m, model));
    for (size_t i = 0; i < m->graph->output_count; i++)
        print_type(r, m, "output      ", m->graph->outputs[i]->name, &m->graph->outputs[i]->type, "");
    if (m->graph->output_count == 0)
        print_declared(r, m, "output      ", model->graph->output, model->graph->n_output, "");
    XCVM_TRY(status);
    XCVM_TRY(xcc_training_form_resolve(m));
    if (m->compilation->training_nodes > 0)
        print(r, "form         training: results of %zu %s depend on the batch or on random numbers\n",
              m->compilation->training_nodes, m->compilation->training_nodes == 1 ? "node" : "nodes");
    xcc_report figures = {.size = sizeof figures};
    xcc_options rest;
    XCVM_TRY(options_left(m, &rest));
    rest.diagnostics = (xcc_diagnostics){pass_states, (void *)(uintptr_t)m->options};
    rest.backprop = rest.gradients.straight_through = false;
    rest.loss = NULL;
    rest.training.own_ignore_label = false;
    rest.gradients.wrt_count = 0;
    XCVM_TRY(xcc_compile_file(path, &rest, (xcvm_sink){discard, NULL}, &figures, m->error));
    print_figures(r, &figures);
    return m->options->backprop ? check_training(r, m, path) : XCVM_OK;
}

xcvm_status xcc_check_file(const char *path, const xcc_options *options, xcvm_sink sink, xcvm_error *error)
{
    xcvm_error own;
    xcc_options o;
    xcc_model_file file;
    xcc_module m;
    report r = {.sink = sink};
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, path != NULL && sink.call != NULL, INVALID_ARGUMENT, "a path and a sink are needed");
    XCVM_TRY(xcc_options_read(&o, options, error));
    xcvm_status status = xcc_module_init(&m, &o, error);
    if (status == XCVM_OK && (status = xcc_model_file_open(&file, path, &m)) == XCVM_OK) {
        status = check_model(&r, &m, &file, path);
        xcc_model_file_close(&file);
    }
    xcc_name_limit(&m, status);
    xcc_module_release(&m);
    XCVM_CHECK(error, !r.failed, IO, "the report cannot be written");
    return status;
}
