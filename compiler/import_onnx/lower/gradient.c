/* Gradient of ai.onnx.preview.training: the part of the graph that its attributes name is differentiated while it is
 * imported, so that the gradient of a gradient is one of nodes like others. */
#include "compiler/gradients/rule.h"
#include "compiler/import_onnx/lower/lower.h"
#include "compiler/ir/compilation.h"

/* Gradients of gradients multiply the graph: limits of the total number of values, and of those visited. */
enum { MOST_VALUES = 1 << 18, MOST_STEPS = 1 << 27 };

/* The value of a name that an attribute lists. */
static xcvm_status find_value(xcc_lowering *n, const char *attribute, const char *name, xcc_value **value)
{
    XCVM_CHECK(n->m->error, xcc_scope_find(n->scope, name, value) && *value != NULL, INVALID_MODEL,
               "%s names '%.200s', which no node before this one computes", attribute, name);
    n->is_unsupported = *value == n->importer->unsupported_result;
    return n->is_unsupported ? xcvm_error_set(n->m->error, XCVM_UNSUPPORTED, "'%.200s' is not supported", name)
                             : XCVM_OK;
}

/* xs and zs with their values, whose names are in `known`, and the operands that represent them. */
static xcvm_status find_variables(xcc_lowering *n, const char *attribute, xcvm_texts names, size_t first,
                                  xcc_table *known, xcc_value **variables)
{
    for (size_t i = 0; i < names.count; i++) {
        const xcc_value *point = n->inputs[first + i];
        XCVM_TRY(find_value(n, attribute, names.at[i].at, &variables[first + i]));
        const xcc_value *v = variables[first + i];
        XCVM_CHECK(n->m->error, v->type.kind == point->type.kind && v->type.dtype == point->type.dtype, TYPE_MISMATCH,
                   "operand %zu has another type than '%.200s', which it replaces", first + i, names.at[i].at);
        XCVM_CHECK(n->m->error, xcc_table_lookup(known, v->name) == NULL, INVALID_MODEL,
                   "'%.200s' is named more than once", names.at[i].at);
        XCVM_TRY(xcc_table_put(n->m, known, v->name, 0));
    }
    return XCVM_OK;
}

/* Within what all Gradients of the model may take. */
static xcvm_status differentiate(xcc_lowering *n, xcc_value *y, xcc_value *const *variables, size_t count, size_t wrt,
                                 xcc_value **gradients)
{
    xcc_importer *imp = n->importer;
    const uint32_t before = n->m->value_count;
    imp->gradient_steps += before;
    XCVM_CHECK(n->m->error, imp->gradient_steps <= MOST_STEPS, UNSUPPORTED,
               "the model has too many gradients for its size");
    n->m->compilation->value_limit = before + (uint32_t)(MOST_VALUES - imp->gradient_values);
    xcvm_status status = xcc_differentiate_part(&n->b, y, variables, n->inputs, count, wrt, gradients);
    n->m->compilation->value_limit = 0;
    imp->gradient_values += n->m->value_count - before;
    if (status == XCVM_OK && imp->gradient_values > MOST_VALUES)
        status = xcvm_error_set(n->m->error, XCVM_UNSUPPORTED, "the gradients of the model need too many nodes");
    imp->gradient_values = imp->gradient_values > MOST_VALUES ? MOST_VALUES : imp->gradient_values;
    return status;
}

xcvm_status xcc_lower_gradient(xcc_lowering *n)
{
    xcvm_texts xs, zs;
    xcvm_text name;
    xcc_value *y;
    XCVM_TRY(xcc_attribute_texts(n, "xs", &xs));
    XCVM_TRY(xcc_attribute_texts(n, "zs", &zs));
    XCVM_TRY(xcc_attribute_text(n, "y", "", &name));
    const size_t count = xs.count + zs.count;
    XCVM_CHECK(n->m->error, xs.count > 0, INVALID_MODEL, "xs names nothing to differentiate by");
    XCVM_CHECK(n->m->error, n->input_count == count, INVALID_MODEL,
               "%zu operands are given for the %zu names of xs and zs", n->input_count, count);
    XCVM_CHECK(n->m->error, n->output_count <= xs.count, INVALID_MODEL,
               "the node has %zu results, and xs names %zu tensors", n->output_count, xs.count);
    XCVM_TRY(xcc_need_inputs(n, count, count));
    xcc_value **variables = xcc_alloc(n->m, count * sizeof *variables),
              **gradients = xcc_alloc(n->m, count * sizeof *gradients);
    if (variables == NULL || gradients == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(find_value(n, "y", name.at, &y));
    XCVM_CHECK(n->m->error, xcc_is_differentiable(y), TYPE_MISMATCH, "y, '%.200s', is no tensor of a float type",
               name.at);
    xcc_table known = {.count = 0};
    XCVM_TRY(find_variables(n, "xs", xs, 0, &known, variables));
    XCVM_TRY(find_variables(n, "zs", zs, xs.count, &known, variables));
    for (size_t i = 0; i < xs.count; i++)
        XCVM_CHECK(n->m->error, xcc_is_differentiable(n->inputs[i]), TYPE_MISMATCH,
                   "'%.200s' is no tensor of a float type, so it has no gradient", xs.at[i].at);
    XCVM_TRY(differentiate(n, y, variables, count, xs.count, gradients));
    for (size_t i = 0; i < xs.count; i++)
        if (xcc_wants(n, i))
            XCVM_TRY(xcc_bind(n, i, gradients[i] != NULL ? gradients[i] : xcc_zeros_like(&n->b, n->inputs[i])));
    return XCVM_OK;
}
