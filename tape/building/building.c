/* Building tapes: op calls become nodes of the compiler's graph. */
#include "compiler/driver/driver.h"
#include "compiler/ir/compose.h"
#include "tape/backward/backward.h"
#include "tape/building/building.h"

#include <string.h>

/* ---- Variables ---- */

static void copy_type(tape_variable *v)
{
    v->value.type = v->built->type;
    v->value.type.memory_kind = XCVM_MEMORY_NONE;
    v->value.type.storage = NULL;
    v->value.type.data = NULL;
}

tape_variable *tape_building_variable(xcvm_tape *t, xcc_value *value)
{
    tape_variable *v = value != NULL ? tape_variable_create(t) : NULL;
    if (v == NULL) {
        t->failed = t->failed || value == NULL;
        return NULL;
    }
    v->built = value;
    copy_type(v);
    return v;
}

/* True if a value is defined in the graph that is being built, or around it. */
static bool is_visible(const xcvm_tape *t, const xcc_value *v)
{
    for (const xcc_graph *g = t->building.builder.graph; g != NULL; g = g->owner != NULL ? g->owner->graph : NULL)
        if (v->graph == g)
            return true;
    return false;
}

xcc_value *tape_building_value(xcvm_tape *t, const tape_variable *v)
{
    if (v == NULL || t->failed)
        return NULL;
    if (is_visible(t, v->built))
        return v->built;
    tape_fail(t, XCVM_INVALID_ARGUMENT,
              "variable %llu was made in a branch or a loop body, and is used outside; return it as a result",
              (unsigned long long)v->serial);
    return NULL;
}

/* ---- Op calls ---- */

/* Replaces the variables in the arguments by their graph values. */
static void point_to_values(tape_op_record *r)
{
    xcc_value **in = (xcc_value **)(void *)r->in, **out = (xcc_value **)(void *)r->out;
    for (size_t f = 0, i = 0, o = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_operand(field))
            continue;
        const size_t count = xcvm_field_count(field, r->args);
        /* Lists refer to the record's arrays. */
        if (!xcvm_field_is_list(field))
            *(xcc_value **)(void *)((char *)r->args + field->offset) = field->role == XCVM_ROLE_OUT ? out[o] : in[i];
        *(field->role == XCVM_ROLE_OUT ? &o : &i) += count;
    }
}

static xcvm_status append_node(xcvm_tape *t, tape_op_record *r, tape_variable **results)
{
    if (r->out_count > 0)
        memcpy(results, r->out, r->out_count * sizeof *results);
    for (uint32_t i = 0; i < r->in_count; i++)
        r->in[i] = (tape_variable *)(void *)tape_building_value(t, r->in[i]);
    for (uint32_t i = 0; i < r->out_count && !t->failed; i++) {
        if (results[i] == NULL)
            continue;
        results[i]->built = xcc_value_create(t->building.builder.graph, NULL);
        r->out[i] = (tape_variable *)(void *)results[i]->built;
        if (r->out[i] == NULL)
            return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    }
    if (t->failed)
        return t->error.status;
    point_to_values(r);
    if (xcc_append(&t->building.builder, r->schema->opcode, r->args) == NULL)
        return t->error.status;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (results[i] != NULL)
            copy_type(results[i]);
    return XCVM_OK;
}

static xcvm_status build_node(xcvm_tape *t, tape_op_record *r)
{
    const size_t bytes = r->out_count * sizeof(tape_variable *);
    tape_variable **results = bytes > 0 ? tape_allocate(t, bytes) : NULL;
    const bool taken = bytes == 0 || results != NULL;
    const xcvm_status status = t->failed || !taken ? t->error.status : append_node(t, r, results);
    /* The caller looks for the results in the record. */
    if (results != NULL) {
        if (status != XCVM_OK && !t->failed)
            t->failed = true;
        memcpy(r->out, results, bytes);
        tape_free(t, results, bytes);
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
    if (t->building.builder.graph != t->module.graph)
        tape_fail(t, XCVM_INVALID_ARGUMENT,
                  "inputs belong to the program, and are made outside of branches and loop bodies");
    else if (name == NULL || name[0] == '\0' || xcc_table_lookup(&t->module.value_names, name) != NULL)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "an input needs a name of its own, not '%s'", name != NULL ? name : "");
    else if (xcvm_dtype_bits(dtype) == 0 || rank < 0 || rank > XCVM_MAX_RANK || (rank > 0 && dims == NULL))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "input '%s': no element type, or a rank that is not in [0, %d]", name,
                  XCVM_MAX_RANK);
    xcc_value *v = t->failed ? NULL : xcc_value_create(t->module.graph, name);
    if (v == NULL)
        return tape_latch_failure(t, t->error.status), TAPE_FAILED;
    int64_t known[XCVM_MAX_RANK];
    for (int i = 0; i < rank; i++)
        known[i] = dims[i] >= 0 ? dims[i] : xcc_symbol(&t->module, dim_names != NULL ? dim_names[i] : NULL);
    xcvm_value_set_tensor(&v->type, dtype, rank, known);
    const size_t count = t->module.graph->input_count;
    xcc_value **inputs = xcc_alloc(&t->module, (count + 1) * sizeof *inputs);
    const tape_variable *variable = inputs != NULL ? tape_building_variable(t, v) : NULL;
    if (variable == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY), TAPE_FAILED;
    if (count > 0)
        memcpy(inputs, t->module.graph->inputs, count * sizeof *inputs);
    inputs[count] = v;
    return tape_latch_failure(t, xcc_graph_set_inputs(t->module.graph, count + 1, inputs)) == XCVM_OK
               ? tape_handle(variable)
               : TAPE_FAILED;
}

/* ---- Tensors ---- */

static tape_variable *build_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank, const int64_t *dims,
                                   const void *data, size_t bytes)
{
    xcc_module *m = &t->module;
    const void *zeros = data != NULL ? data : xcc_alloc(m, bytes);
    /* Parameters belong to the program, so they are values of the outermost graph. */
    xcc_value *v = zeros == NULL ? NULL
                   : kind == XCC_CONSTANT
                       ? xcc_literal(xcc_constant(t->building.builder.graph, NULL, dtype, rank, dims, zeros, false))
                       : xcc_parameter(m->graph, NULL, dtype, rank, dims, zeros, false);
    return tape_building_variable(t, v);
}

xcvm_status xcvm_var_set_name(xcvm_tape *tape, xcvm_var v, const char *name, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_set_name, error);
    xcvm_tape *t = tape;
    const tape_variable *variable = tape_resolve(t, v, "the parameter");
    xcc_value *value = variable != NULL ? tape_building_value(t, variable) : NULL;
    if (value == NULL)
        return tape_report(t, error);
    XCVM_CHECK(error, value->kind == XCC_PARAMETER, INVALID_ARGUMENT,
               "the variable is no parameter of the program; only parameters have names");
    XCVM_CHECK(error, name != NULL && name[0] != '\0' && xcc_table_lookup(&t->module.value_names, name) == NULL,
               INVALID_ARGUMENT, "a parameter needs a name of its own, not '%.200s'", name != NULL ? name : "");
    return tape_latch_failure(t, xcc_value_rename(value, name)) == XCVM_OK ? XCVM_OK : tape_report(t, error);
}

/* ---- Gradients ---- */

static xcvm_status build_gradients(xcvm_tape *t, const tape_backward_request *q)
{
    xcc_module *m = &t->module;
    xcc_seed *given = xcc_alloc(m, q->root_count * sizeof *given);
    xcc_value **values = xcc_alloc(m, 2 * q->wrt_count * sizeof *values);
    if (given == NULL || values == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    if (t->building.builder.graph != m->graph)
        return tape_fail(t, XCVM_UNSUPPORTED, "q->gradients are built outside of branches and loop bodies");
    for (size_t i = 0; i < q->root_count; i++)
        given[i] = (xcc_seed){tape_building_value(t, q->roots[i]), tape_building_value(t, q->seeds[i])};
    for (size_t i = 0; i < q->wrt_count; i++)
        values[i] = tape_building_value(t, q->wrt[i]);
    if (t->failed)
        return t->error.status;
    xcc_builder b = t->building.builder;
    b.origin = "Gradient";
    const xcvm_status status =
        xcc_differentiate(&b, m->graph, NULL, given, q->root_count, values, q->wrt_count, false, values + q->wrt_count);
    for (size_t i = 0; i < q->wrt_count && status == XCVM_OK; i++)
        q->gradients[i] = values[q->wrt_count + i] != NULL ? tape_building_variable(t, values[q->wrt_count + i]) : NULL;
    return tape_latch_failure(t, status);
}

static tape_variable *build_seed(xcvm_tape *t, const tape_variable *root)
{
    xcc_value *one = xcc_build_number(&t->building.builder, root->built, 1);
    return tape_building_variable(
        t, xcc_build_expand(&t->building.builder, one, xcc_build_shape_of(&t->building.builder, root->built)));
}

/* ---- The mode ---- */

static xcvm_status execute_building(xcvm_tape *t, tape_op_record *r)
{
    return tape_op_finish(t, r, t->failed ? t->error.status : build_node(t, r));
}

static xcvm_status refuse_into(xcvm_tape *t, tape_op_record *r, tape_variable *target)
{
    (void)target;
    tape_fail(t, XCVM_UNSUPPORTED, "a building tape has no elements, which writing into a variable needs");
    tape_op_locate_failure(t, r);
    return t->error.status;
}

static xcvm_status evaluate_all_built(xcvm_tape *t)
{
    (void)t;
    return XCVM_OK;
}

const tape_mode tape_building_mode = {.builds = true,
                                      .execute = execute_building,
                                      .execute_into = refuse_into,
                                      .evaluate_all = evaluate_all_built,
                                      .create_tensor = build_tensor,
                                      .build_seed = build_seed,
                                      .build_gradients = build_gradients,
                                      .branch = tape_building_branch,
                                      .loop = tape_building_loop};

/* ---- The program ---- */

static xcvm_status name_output(xcvm_tape *t, const xcvm_tape_output *output, xcc_value **named)
{
    const tape_variable *v = tape_resolve(t, output->v, "an output");
    xcc_value *value = tape_building_value(t, v);
    if (value == NULL)
        return t->error.status;
    if (output->name == NULL || output->name[0] == '\0' ||
        xcc_table_lookup(&t->module.value_names, output->name) != NULL)
        return tape_fail(t, XCVM_INVALID_ARGUMENT, "an output needs a name of its own, not '%s'",
                         output->name != NULL ? output->name : "");
    *named = xcc_value_create(t->module.graph, output->name);
    if (*named == NULL || xcc_emit(&t->building.builder, Identity, .y = XCC_OUT(*named), .x = XCC_IN(value)) == NULL)
        return tape_latch_failure(t, t->error.status);
    return XCVM_OK;
}

xcvm_status xcvm_tape_compile(xcvm_tape *tape, size_t count, const xcvm_tape_output *outputs,
                              const struct xcc_options *options, xcvm_sink sink, struct xcc_report *report,
                              xcvm_error *error)
{
    xcvm_tape *t = tape;
    TAPE_BEGIN(t, xcvm_tape_compile, error);
    XCVM_CHECK(error, !t->building.broken, INVALID_ARGUMENT,
               "a branch or a loop body has failed, so the graph is incomplete");
    XCVM_CHECK(error, count > 0 && count < SIZE_MAX / 64 && outputs != NULL, INVALID_ARGUMENT,
               "a program needs outputs");
    xcc_value **values = xcc_alloc(&t->module, count * sizeof *values);
    xcvm_status status = values != NULL ? XCVM_OK : tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    t->ended = "the tape has been compiled, and can only be destroyed";
    for (size_t i = 0; i < count && status == XCVM_OK; i++)
        status = name_output(t, &outputs[i], &values[i]);
    if (status == XCVM_OK)
        status = tape_latch_failure(t, xcc_graph_set_outputs(t->module.graph, count, values));
    if (status != XCVM_OK)
        return tape_report(t, error);
    return xcc_compile_graph(&t->module, options, sink, report, error);
}
