/* Scan and SequenceMap: loops whose bodies pick the elements. */
#include "compiler/import_onnx/lower/loop.h"

/* ---- Scan ---- */

typedef struct scan {
    const Onnx__GraphProto *graph;
    size_t states, inputs, results; /* results: stacked ones */
    xcc_value *const *values;       /* states, then scan inputs */
    int64_t *input_axes;
    const int64_t *input_directions; /* 1: from the end; of `inputs` entries */
    xcc_value *trips;                /* iterations, an i64 scalar; NULL: as many as there are elements */
    xcc_value *last;                 /* index of the last iteration */
    xcc_value **outputs;             /* states, then results, of the outermost loop */
} scan;

static xcvm_status fill_scan(xcc_lowering *n, xcc_node *loop, void *context)
{
    const scan *s = context;
    xcc_graph *body = loop->bodies[0];
    xcc_value *iteration = body->inputs[0], *reversed = NULL, **outputs;
    xcc_value **arguments = xcc_alloc(n->m, (s->states + s->inputs) * sizeof *arguments);
    if (arguments == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < s->states; i++)
        arguments[i] = body->inputs[i + 2];
    for (size_t i = 0; i < s->inputs; i++) {
        if (s->input_directions[i] != 0 && reversed == NULL)
            reversed = xcc_build_sub(&n->b, s->last, iteration);
        xcc_value *element = xcc_build_gather(&n->b, s->values[s->states + i],
                                              s->input_directions[i] != 0 ? reversed : iteration, s->input_axes[i]);
        if (element == NULL)
            return xcc_failure(n);
        arguments[s->states + i] = element;
    }
    XCVM_TRY(xcc_lower_body(n, s->graph, body, s->states + s->inputs, arguments, &outputs));
    return xcc_build_loop_outputs(n, loop, s->states + s->results, outputs);
}

/* The loop over the first scan input's axis, at the builder's place. */
static xcvm_status scan_loop(xcc_lowering *n, scan *s)
{
    xcc_value **inputs = xcc_alloc(n->m, (s->states + 2) * sizeof *inputs);
    s->outputs = xcc_build_values(n, s->states + s->results);
    if (inputs == NULL || s->outputs == NULL)
        return xcc_failure(n);
    inputs[0] = s->trips;
    if (inputs[0] == NULL)
        inputs[0] = xcc_build_reshape(&n->b, xcc_build_dim_of(&n->b, s->values[s->states], (int)s->input_axes[0]),
                                      xcc_build_ints(&n->b, 0, NULL));
    s->last = xcc_build_sub(&n->b, inputs[0], xcc_scalar_i64(n->b.graph, 1));
    if (s->last == NULL)
        return xcc_failure(n);
    for (size_t i = 0; i < s->states; i++)
        inputs[i + 2] = s->values[i];
    xcc_loop_body body = {fill_scan, s};
    return xcc_build_loop(n, s->states + 2, inputs, s->states + s->results, s->outputs, &body);
}

/* A list attribute of `count` entries, 0 where it is left out. */
static xcvm_status list_attribute(xcc_lowering *n, const char *name, size_t count, const int64_t **list)
{
    xcvm_ints given;
    XCVM_TRY(xcc_attribute_ints(n, name, &given));
    XCVM_CHECK(n->m->error, given.count == 0 || given.count == count, INVALID_MODEL,
               "attribute '%s' has %zu entries, %zu are needed", name, given.count, count);
    *list = given.count > 0 ? given.at : xcc_alloc(n->m, count * sizeof **list);
    return *list != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcvm_status read_scan(xcc_lowering *n, size_t first, scan *s)
{
    int64_t inputs;
    const size_t given = n->input_count - first;
    XCVM_TRY(xcc_attribute_graph(n, "body", &s->graph));
    XCVM_TRY(xcc_attribute_int(n, "num_scan_inputs", 0, &inputs));
    XCVM_CHECK(n->m->error, inputs >= 1 && (uint64_t)inputs <= given, INVALID_MODEL,
               "attribute 'num_scan_inputs' is %lld, and the node has %zu operands", (long long)inputs, given);
    s->inputs = (size_t)inputs;
    s->states = given - s->inputs;
    s->values = n->inputs + first;
    XCVM_CHECK(n->m->error, s->graph->n_output >= s->states, INVALID_MODEL,
               "the body has %zu outputs, %zu or more are needed", s->graph->n_output, s->states);
    s->results = s->graph->n_output - s->states;
    XCVM_CHECK(n->m->error, n->output_count <= s->graph->n_output, INVALID_MODEL,
               "the node has %zu results, and the body has %zu", n->output_count, s->graph->n_output);
    for (size_t i = first; i < n->input_count; i++)
        XCVM_CHECK(n->m->error, n->inputs[i] != NULL, INVALID_MODEL, "operand %zu is missing", i);
    return (s->input_axes = xcc_alloc(n->m, s->inputs * sizeof *s->input_axes)) != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* A stacked result of `trips` iterations, padded with zeros to the number of elements of x. */
static xcc_value *fill_up(xcc_lowering *n, xcc_value *stacked, xcc_value *x, xcc_value *trips)
{
    xcc_value *missing = xcc_build_sub(&n->b, xcc_build_dim_of(&n->b, x, 0), trips), *zero = XCC_BUILD_INTS(&n->b, 0);
    xcc_value *pads = xcc_build_concat(&n->b, 2, (xcc_value *[]){zero, missing}, 0);
    if (stacked == NULL || pads == NULL || zero == NULL)
        return NULL;
    return xcc_apply(&n->b, Pad, y, .x = XCC_IN(stacked), .pads = XCC_IN(pads), .axes = XCC_IN(zero));
}

/* Opset 8: dimension 0 is the batch. Each entry is scanned separately, over dimension 1. */
static xcvm_status fill_batch(xcc_lowering *n, xcc_node *loop, void *context)
{
    const scan *outer = context;
    scan inner = *outer;
    const size_t count = outer->states + outer->inputs;
    xcc_value **values = xcc_alloc(n->m, count * sizeof *values);
    if (values == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if ((values[i] = xcc_build_gather(&n->b, outer->values[i], loop->bodies[0]->inputs[0], 0)) == NULL)
            return xcc_failure(n);
    inner.values = values;
    if (outer->trips != NULL)
        inner.trips = xcc_build_gather(&n->b, outer->trips, loop->bodies[0]->inputs[0], 0);
    XCVM_TRY(scan_loop(n, &inner));
    for (size_t i = inner.states; i < inner.states + inner.results && outer->trips != NULL; i++)
        if ((inner.outputs[i] = fill_up(n, inner.outputs[i], values[inner.states], inner.trips)) == NULL)
            return xcc_failure(n);
    return xcc_build_loop_outputs(n, loop, inner.states + inner.results, inner.outputs);
}

static xcvm_status lower_batched_scan(xcc_lowering *n)
{
    scan s = {.graph = NULL};
    XCVM_CHECK(n->m->error, n->input_count > 1, INVALID_MODEL, "the node has no scan inputs");
    s.trips = n->inputs[0];
    XCVM_CHECK(n->m->error, s.trips == NULL || s.trips->type.dtype == XCVM_I64, TYPE_MISMATCH,
               "operand 0 is no i64 tensor");
    XCVM_TRY(read_scan(n, 1, &s));
    XCVM_TRY(list_attribute(n, "directions", s.inputs, &s.input_directions));
    const size_t count = s.states + s.results;
    s.outputs = xcc_build_values(n, count);
    xcc_value *inputs[2] = {xcc_build_dim_of(&n->b, s.values[s.states], 0), NULL};
    inputs[0] = xcc_build_reshape(&n->b, inputs[0], xcc_build_ints(&n->b, 0, NULL));
    if (s.outputs == NULL || inputs[0] == NULL)
        return xcc_failure(n);
    xcc_loop_body body = {fill_batch, &s};
    XCVM_TRY(xcc_build_loop(n, 2, inputs, count, s.outputs, &body));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_TRY(xcc_bind(n, i, s.outputs[i]));
    return XCVM_OK;
}

xcvm_status xcc_lower_scan(xcc_lowering *n)
{
    if (n->version < 9)
        return lower_batched_scan(n);
    scan s = {.graph = NULL};
    const int64_t *axes, *directions, *result_axes;
    XCVM_TRY(read_scan(n, 0, &s));
    XCVM_TRY(list_attribute(n, "scan_input_directions", s.inputs, &s.input_directions));
    XCVM_TRY(list_attribute(n, "scan_input_axes", s.inputs, &axes));
    XCVM_TRY(list_attribute(n, "scan_output_directions", s.results, &directions));
    XCVM_TRY(list_attribute(n, "scan_output_axes", s.results, &result_axes));
    for (size_t i = 0; i < s.inputs; i++) {
        const xcc_value *x = s.values[s.states + i];
        XCVM_CHECK(n->m->error, axes[i] >= -XCVM_MAX_RANK && axes[i] < XCVM_MAX_RANK, OUT_OF_RANGE, "axis is %lld",
                   (long long)axes[i]);
        s.input_axes[i] = axes[i];
        if (x->type.rank >= 0)
            XCVM_TRY(xcc_need_axis(n, axes[i], x->type.rank, &s.input_axes[i]));
    }
    XCVM_TRY(scan_loop(n, &s));
    for (size_t i = 0; i < n->output_count; i++) {
        xcc_value *v = s.outputs[i];
        if (i >= s.states) {
            const size_t k = i - s.states;
            XCVM_TRY(xcc_build_stacked(n, &v, directions[k] != 0, result_axes[k]));
        }
        XCVM_TRY(xcc_bind(n, i, v));
    }
    return XCVM_OK;
}

/* ---- SequenceMap ---- */

static xcvm_status fill_map(xcc_lowering *n, xcc_node *loop, void *context)
{
    const Onnx__GraphProto *graph = context;
    xcc_graph *body = loop->bodies[0];
    xcc_value **outputs, **arguments = xcc_alloc(n->m, n->input_count * sizeof *arguments);
    if (arguments == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->input_count; i++) {
        const bool sequence = n->inputs[i]->type.kind == XCVM_KIND_SEQUENCE;
        arguments[i] =
            sequence ? xcc_build_binary(&n->b, XCVM_OP_SequenceAt, n->inputs[i], body->inputs[0]) : n->inputs[i];
        if (arguments[i] == NULL)
            return xcc_failure(n);
    }
    XCVM_TRY(xcc_lower_body(n, graph, body, n->input_count, arguments, &outputs));
    for (size_t i = 0; i < graph->n_output; i++) {
        outputs[i] = xcc_build_binary(&n->b, XCVM_OP_SequenceInsert, body->inputs[i + 2], outputs[i]);
        if (outputs[i] == NULL)
            return xcc_failure(n);
    }
    return xcc_build_loop_outputs(n, loop, graph->n_output, outputs);
}

/* One loop over the first sequence that appends each result of the body to a sequence. */
xcvm_status xcc_lower_sequence_map(xcc_lowering *n)
{
    const Onnx__GraphProto *graph;
    XCVM_TRY(xcc_need_inputs(n, n->input_count > 0 ? n->input_count : 1, SIZE_MAX));
    XCVM_TRY(xcc_attribute_graph(n, "body", &graph));
    XCVM_CHECK(n->m->error, n->inputs[0]->type.kind == XCVM_KIND_SEQUENCE, TYPE_MISMATCH, "operand 0 is no sequence");
    XCVM_CHECK(n->m->error, n->output_count <= graph->n_output, INVALID_MODEL,
               "the node has %zu results, and the body has %zu", n->output_count, graph->n_output);
    const size_t count = graph->n_output;
    xcc_value **outputs = xcc_build_values(n, count), **inputs = xcc_alloc(n->m, (count + 2) * sizeof *inputs);
    if (outputs == NULL || inputs == NULL)
        return xcc_failure(n);
    inputs[0] = xcc_build_unary(&n->b, XCVM_OP_SequenceLength, n->inputs[0]);
    for (size_t i = 0; i < count; i++) {
        xcvm_value type = {.rank = -1};
        if (graph->output[i]->type != NULL && xcc_type_read(n->m, graph->output[i]->type, &type) != XCVM_OK)
            return xcc_failure(n);
        inputs[i + 2] = xcc_apply(&n->b, SequenceConstruct, y, .dtype = (xcvm_dtype)type.dtype);
    }
    for (size_t i = 0; i < count + 2; i++)
        if (inputs[i] == NULL && i != 1)
            return xcc_failure(n);
    xcc_loop_body body = {fill_map, (void *)(uintptr_t)graph};
    XCVM_TRY(xcc_build_loop(n, count + 2, inputs, count, outputs, &body));
    for (size_t i = 0; i < n->output_count; i++)
        XCVM_TRY(xcc_bind(n, i, outputs[i]));
    return XCVM_OK;
}
