/* Operands and results of the node being lowered. */
#include "compiler/import_onnx/lower/lowering.h"

#include <string.h>

xcvm_status xcc_failure(const xcc_lowering *n)
{
    xcvm_status status = n->m->error->status;
    return status != XCVM_OK ? status
                             : xcvm_error_set(n->m->error, XCVM_INTERNAL, "a lowering failed without a reason");
}

xcvm_status xcc_need_inputs(const xcc_lowering *n, size_t least, size_t most)
{
    XCVM_CHECK(n->m->error, n->input_count <= most, INVALID_MODEL,
               "the node has %zu operands; %s of opset %lld has at most %zu", n->input_count, n->op->info.name,
               (long long)n->version, most);
    for (size_t i = 0; i < least; i++)
        XCVM_CHECK(n->m->error, xcc_input(n, i) != NULL, INVALID_MODEL, "operand %zu is missing; %s has at least %zu",
                   i, n->op->info.name, least);
    return XCVM_OK;
}

xcvm_status xcc_set_input(xcc_lowering *n, size_t i, xcc_value *value)
{
    if (value == NULL)
        return xcc_failure(n);
    XCVM_CHECK(n->m->error, i < n->input_capacity, INVALID_MODEL, "too many operands");
    while (n->input_count <= i)
        n->inputs[n->input_count++] = NULL;
    n->inputs[i] = value;
    return XCVM_OK;
}

/* Results of the model's own graph that are its outputs have their very names; others get unique ones. */
static bool is_model_output(const xcc_lowering *n, const char *name)
{
    const xcc_importer *imp = n->importer;
    return imp->frame->caller == NULL && n->scope->graph == n->m->graph &&
           xcc_table_lookup(&imp->outputs, name) != NULL;
}

xcc_value *xcc_result(xcc_lowering *n, size_t i)
{
    const char *name = xcc_wants(n, i) && !n->inner ? n->proto->output[i] : NULL;
    xcc_value *v = xcc_value_create(n->b.graph, name);
    if (v == NULL)
        return NULL;
    if (n->inner && xcc_wants(n, i))
        n->outputs[i] = v;
    if (name != NULL) {
        if (is_model_output(n, name))
            v->name = name;
        v->mark = n->number;
        n->outputs[i] = v;
    }
    return v;
}

xcvm_status xcc_bind(xcc_lowering *n, size_t i, xcc_value *value)
{
    if (value == NULL)
        return xcc_failure(n);
    if (!xcc_wants(n, i))
        return XCVM_OK;
    if (n->inner) {
        n->outputs[i] = value;
        return XCVM_OK;
    }
    const char *name = n->proto->output[i];
    const bool fresh = value->id >= n->first_id && value->graph == n->b.graph && value->mark != n->number;
    n->outputs[i] = value;
    if (!fresh)
        return XCVM_OK;
    value->mark = n->number;
    if (!is_model_output(n, name))
        return xcc_value_rename(value, name);
    value->name = name;
    return XCVM_OK;
}

enum { SPARE_INPUTS = 4 };

xcvm_status xcc_lower_inner(xcc_lowering *n, const char *domain, const char *name, int64_t version, size_t input_count,
                            xcc_value *const *inputs, size_t output_count, xcc_value **outputs)
{
    xcc_lowering inner = *n;
    XCVM_TRY(n->m->error->status);
    inner.op = n->importer->find_operator(domain, name);
    inner.version = version;
    inner.inner = true;
    XCVM_CHECK(n->m->error, inner.op != NULL, INTERNAL, "unknown operator %s", name);
    while (input_count > 0 && inputs[input_count - 1] == NULL)
        input_count--;
    inner.input_count = input_count;
    inner.input_capacity = input_count + SPARE_INPUTS;
    inner.inputs = xcc_alloc(n->m, inner.input_capacity * sizeof *inner.inputs);
    if (inner.inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(inner.inputs, inputs, input_count * sizeof *inputs);
    memset(outputs, 0, output_count * sizeof *outputs);
    inner.outputs = outputs;
    inner.output_count = output_count;
    XCVM_TRY(inner.op->lower(&inner));
    for (size_t i = 0; i < output_count; i++)
        XCVM_CHECK(n->m->error, outputs[i] != NULL, INVALID_MODEL, "%s has no result %zu", name, i);
    return XCVM_OK;
}
