/* Execution of a single instruction outside a session. */
#include "ops/table/table.h"

/* Lists the operands or results of an instruction in definition order, expanded. `values` may be NULL for counting. */
static size_t collect(const xcvm_schema *schema, const void *args, bool results, const xcvm_value **values)
{
    size_t count = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (results ? f->role != XCVM_ROLE_OUT : !xcvm_field_is_input(f))
            continue;
        size_t n = xcvm_field_count(f, args);
        for (size_t j = 0; j < n; j++, count++)
            if (values != NULL)
                values[count] = xcvm_field_value(f, args, j);
    }
    return count;
}

static xcvm_status allocate_result(xcvm_kernel *k, xcvm_value *v)
{
    if (v->kind != XCVM_KIND_TENSOR || v->dtype == XCVM_STRING || v->dtype == XCVM_NO_DTYPE || !xcvm_dims_known(v))
        return XCVM_OK;
    return xcvm_kernel_allocate(k, v, v->dtype, v->rank, v->dims);
}

static xcvm_status check_result(xcvm_kernel *k, const xcvm_schema *schema, const xcvm_value *v)
{
    bool made = v->kind == XCVM_KIND_NULL || v->data != NULL;
    XCVM_CHECK(k->error, made, INTERNAL, "%s left a result without memory", schema->name);
    return XCVM_OK;
}

static xcvm_status execute(xcvm_kernel *k, const xcvm_inference *t)
{
    xcvm_kernel_run run = t->schema->effect != XCVM_CONTROL ? xcvm_kernel_of(t->schema->opcode) : NULL;
    XCVM_CHECK(k->error, run != NULL, UNSUPPORTED, "%s cannot be executed by itself", t->schema->name);
    XCVM_TRY(xcvm_infer_run(t));
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL)
            XCVM_TRY(allocate_result(k, t->out[i]));
    XCVM_TRY(run(k, t->args));
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL)
            XCVM_TRY(check_result(k, t->schema, t->out[i]));
    return XCVM_OK;
}

xcvm_status xcvm_kernel_execute(xcvm_kernel *k, const xcvm_schema *schema, const void *args)
{
    size_t in_count = collect(schema, args, false, NULL), out_count = collect(schema, args, true, NULL);
    xcvm_storage *lists;
    XCVM_TRY(xcvm_heap_allocate(k->heap, (in_count + out_count) * sizeof(xcvm_value *), &lists, k->error));
    const xcvm_value **in = lists->data, **out = in + in_count;
    collect(schema, args, false, in);
    collect(schema, args, true, out);
    /* Result fields are read as const like operands; here the caller may write them. */
    xcvm_inference t = {.schema = schema,
                        .args = args,
                        .in = in,
                        .in_count = in_count,
                        .out = (xcvm_value *const *)out,
                        .out_count = out_count,
                        .error = k->error};
    xcvm_status status = execute(k, &t);
    for (size_t i = 0; i < out_count && status != XCVM_OK; i++)
        if (t.out[i] != NULL)
            xcvm_value_clear(t.out[i]);
    xcvm_storage_release(lists);
    return status;
}
