/* Tapes that build: calls become nodes of the compiler's graph. */
#include "compiler/driver/driver.h"
#include "compiler/ir/compose.h"
#include "tape/tape.h"

#include <string.h>

/* ---- Variables ---- */

static void take_type(tape_variable *v)
{
    v->value.type = v->built->type;
    v->value.type.memory_kind = XCVM_MEMORY_NONE;
    v->value.type.storage = NULL;
    v->value.type.data = NULL;
}

tape_variable *tape_built(xcvm_tape *t, xcc_value *value)
{
    tape_variable *v = value != NULL ? tape_variable_make(t) : NULL;
    if (v == NULL) {
        t->failed = t->failed || value == NULL;
        return NULL;
    }
    v->built = value;
    take_type(v);
    return v;
}

/* Whether a value is defined where the tape builds now, or around it. */
static bool is_visible(const xcvm_tape *t, const xcc_value *v)
{
    for (const xcc_graph *g = t->builder.graph; g != NULL; g = g->owner != NULL ? g->owner->graph : NULL)
        if (v->graph == g)
            return true;
    return false;
}

xcc_value *tape_built_operand(xcvm_tape *t, const tape_variable *v)
{
    if (v == NULL || t->failed)
        return NULL;
    if (is_visible(t, v->built))
        return v->built;
    tape_fail(t, XCVM_INVALID_ARGUMENT,
              "variable %llu was made in a branch or a round, and is used outside; give it as a result of that",
              (unsigned long long)v->serial);
    return NULL;
}

/* ---- Calls ---- */

/* Puts the graph's values in the place of the variables that an argument struct points to. */
static void point_to_values(tape_record *r)
{
    xcc_value **in = (xcc_value **)(void *)r->in, **out = (xcc_value **)(void *)r->out;
    for (size_t f = 0, i = 0, o = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_operand(field))
            continue;
        const size_t count = xcvm_field_count(field, r->args);
        /* Lists are the record's own arrays. */
        if (!xcvm_field_is_list(field))
            *(xcc_value **)(void *)((char *)r->args + field->offset) = field->role == XCVM_ROLE_OUT ? out[o] : in[i];
        *(field->role == XCVM_ROLE_OUT ? &o : &i) += count;
    }
}

static xcvm_status append(xcvm_tape *t, tape_record *r, tape_variable **results)
{
    if (r->out_count > 0)
        memcpy(results, r->out, r->out_count * sizeof *results);
    for (uint32_t i = 0; i < r->in_count; i++)
        r->in[i] = (tape_variable *)(void *)tape_built_operand(t, r->in[i]);
    for (uint32_t i = 0; i < r->out_count && !t->failed; i++) {
        if (results[i] == NULL)
            continue;
        results[i]->built = xcc_value_create(t->builder.graph, NULL);
        r->out[i] = (tape_variable *)(void *)results[i]->built;
        if (r->out[i] == NULL)
            return tape_stick(t, XCVM_OUT_OF_MEMORY);
    }
    if (t->failed)
        return t->error.status;
    point_to_values(r);
    if (xcc_append(&t->builder, r->schema->opcode, r->args) == NULL)
        return t->error.status;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (results[i] != NULL)
            take_type(results[i]);
    return XCVM_OK;
}

xcvm_status tape_build(xcvm_tape *t, tape_record *r)
{
    const size_t bytes = r->out_count * sizeof(tape_variable *);
    tape_variable **results = bytes > 0 ? tape_take(t, bytes) : NULL;
    const bool taken = bytes == 0 || results != NULL;
    const xcvm_status status = t->failed || !taken ? t->error.status : append(t, r, results);
    /* Whoever ends the call looks for the results in the record. */
    if (results != NULL) {
        if (status != XCVM_OK && !t->failed)
            t->failed = true;
        memcpy(r->out, results, bytes);
        tape_give_back(t, results, bytes);
    }
    if (r->in_count > 0)
        memset(r->in, 0, r->in_count * sizeof *r->in);
    return status;
}

xcvm_var xcvm_tape_input(xcvm_tape *tape, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                         const char *const *dim_names)
{
    xcvm_tape *t = tape;
    if (!TAPE_ENTER(t, xcvm_tape_input))
        return TAPE_FAILED;
    if (t->builder.graph != t->module.graph)
        tape_fail(t, XCVM_INVALID_ARGUMENT,
                  "inputs are those of a program: they are made outside of branches and rounds");
    else if (name == NULL || name[0] == '\0' || xcc_table_lookup(&t->module.value_names, name) != NULL)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "an input needs a name of its own, not '%s'", name != NULL ? name : "");
    else if (xcvm_dtype_bits(dtype) == 0 || rank < 0 || rank > XCVM_MAX_RANK || (rank > 0 && dims == NULL))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "input '%s': no element type, or a rank that is not in [0, %d]", name,
                  XCVM_MAX_RANK);
    xcc_value *v = t->failed ? NULL : xcc_value_create(t->module.graph, name);
    if (v == NULL)
        return tape_stick(t, t->error.status), TAPE_FAILED;
    int64_t known[XCVM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        known[i] = dims[i] >= 0 ? dims[i] : xcc_symbol(&t->module, dim_names != NULL ? dim_names[i] : NULL);
    xcvm_value_set_tensor(&v->type, dtype, rank, known);
    const size_t count = t->module.graph->input_count;
    xcc_value **inputs = xcc_alloc(&t->module, (count + 1) * sizeof *inputs);
    const tape_variable *variable = inputs != NULL ? tape_built(t, v) : NULL;
    if (variable == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY), TAPE_FAILED;
    if (count > 0)
        memcpy(inputs, t->module.graph->inputs, count * sizeof *inputs);
    inputs[count] = v;
    return tape_stick(t, xcc_graph_set_inputs(t->module.graph, count + 1, inputs)) == XCVM_OK ? tape_handle(variable)
                                                                                              : TAPE_FAILED;
}

/* ---- Gradients ---- */

xcvm_status tape_build_gradients(xcvm_tape *t, size_t root_count, tape_variable *const *roots,
                                 tape_variable *const *seeds, size_t wrt_count, tape_variable *const *wrt,
                                 tape_variable **gradients)
{
    xcc_module *m = &t->module;
    xcc_seed *given = xcc_alloc(m, root_count * sizeof *given);
    xcc_value **values = xcc_alloc(m, 2 * wrt_count * sizeof *values);
    if (given == NULL || values == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    if (t->builder.graph != m->graph)
        return tape_fail(t, XCVM_UNSUPPORTED, "gradients are built outside of branches and rounds");
    for (size_t i = 0; i < root_count; i++)
        given[i] = (xcc_seed){tape_built_operand(t, roots[i]), tape_built_operand(t, seeds[i])};
    for (size_t i = 0; i < wrt_count; i++)
        values[i] = tape_built_operand(t, wrt[i]);
    if (t->failed)
        return t->error.status;
    xcc_builder b = t->builder;
    b.origin = "Gradient";
    const xcvm_status status =
        xcc_differentiate(&b, m->graph, NULL, given, root_count, values, wrt_count, false, values + wrt_count);
    for (size_t i = 0; i < wrt_count && status == XCVM_OK; i++)
        gradients[i] = values[wrt_count + i] != NULL ? tape_built(t, values[wrt_count + i]) : NULL;
    return tape_stick(t, status);
}

tape_variable *tape_build_seed(xcvm_tape *t, const tape_variable *root)
{
    xcc_value *one = xcc_build_number(&t->builder, root->built, 1);
    return tape_built(t, xcc_build_expand(&t->builder, one, xcc_build_shape_of(&t->builder, root->built)));
}

/* ---- The program ---- */

static xcvm_status name_output(xcvm_tape *t, const xcvm_tape_output *output, xcc_value **named)
{
    const tape_variable *v = tape_resolve(t, output->v, "an output");
    xcc_value *value = tape_built_operand(t, v);
    if (value == NULL)
        return t->error.status;
    if (output->name == NULL || output->name[0] == '\0' ||
        xcc_table_lookup(&t->module.value_names, output->name) != NULL)
        return tape_fail(t, XCVM_INVALID_ARGUMENT, "an output needs a name of its own, not '%s'",
                         output->name != NULL ? output->name : "");
    *named = xcc_value_create(t->module.graph, output->name);
    if (*named == NULL || xcc_emit(&t->builder, Identity, .y = XCC_OUT(*named), .x = XCC_IN(value)) == NULL)
        return tape_stick(t, t->error.status);
    return XCVM_OK;
}

xcvm_status xcvm_tape_compile(xcvm_tape *tape, size_t count, const xcvm_tape_output *outputs,
                              const struct xcc_options *options, xcvm_sink sink, struct xcc_report *report,
                              xcvm_error *error)
{
    xcvm_tape *t = tape;
    TAPE_BEGIN(t, xcvm_tape_compile, error);
    XCVM_CHECK(error, !t->broken, INVALID_ARGUMENT, "a branch or a round has failed; what was built is incomplete");
    XCVM_CHECK(error, count > 0 && count < SIZE_MAX / 64 && outputs != NULL, INVALID_ARGUMENT,
               "a program needs outputs");
    xcc_value **values = xcc_alloc(&t->module, count * sizeof *values);
    xcvm_status status = values != NULL ? XCVM_OK : tape_stick(t, XCVM_OUT_OF_MEMORY);
    t->ended = "the tape has been compiled, and is at its end";
    for (size_t i = 0; i < count && status == XCVM_OK; i++)
        status = name_output(t, &outputs[i], &values[i]);
    if (status == XCVM_OK)
        status = tape_stick(t, xcc_graph_set_outputs(t->module.graph, count, values));
    if (status != XCVM_OK)
        return tape_report(t, error);
    return xcc_compile_graph(&t->module, options, sink, report, error);
}
