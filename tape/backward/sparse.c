/* Row-sparse gradients of tables, of which an op gathers a few rows. No tensor of the table's size is made. */
#include "ops/util/convert.h"
#include "ops/util/index.h"
#include "tape/backward/backward.h"
#include "xcvm/layers.h"

#include <stdlib.h>
#include <string.h>

/* ---- In a pass ---- */

bool tape_sparse_applies(const tape_op_record *r)
{
    if (r->operation != NULL || r->schema->opcode != XCVM_OP_Gather || !r->in[0]->sparse || !r->in[0]->requires ||
        r->in[0]->creator != NULL)
        return false;
    const xcvm_Gather_args *a = r->args;
    return a->axis == 0 || a->axis + r->in[0]->value.type.rank == 0;
}

xcvm_status tape_sparse_add(xcvm_tape *t, tape_sparse_rows **rows, tape_variable *table, tape_variable *indices,
                            tape_variable *gradient)
{
    const size_t count = xcvm_element_count(&indices->value.type);
    tape_sparse_rows *added = tape_allocate(t, tape_sparse_bytes(count));
    if (added == NULL)
        return t->error.status;
    added->count = count;
    for (size_t i = 0; i < count; i++)
        added->at[i] = (int64_t)xcvm_index_wrapped(&indices->value.type, i, table->value.type.dims[0]);
    added->gradient = gradient;
    gradient->refs++;
    gradient->lent_refs++;
    added->indices = t->tracer != NULL ? indices : NULL;
    if (added->indices != NULL)
        indices->refs++;
    added->next = *rows;
    *rows = added;
    return XCVM_OK;
}

static xcvm_status add_pass_rows(xcvm_tape *t, const tape_op_record *r, tape_variable *gradient)
{
    tape_side_state *side = tape_side_reserve(r->in[0]);
    return side != NULL ? tape_sparse_add(t, &side->pass_rows, r->in[0], r->in[1], gradient) : t->error.status;
}

xcvm_status tape_sparse_collect(xcvm_tape *t, const tape_op_record *r, tape_variable *gradient)
{
    const tape_op_record *around = t->overwritten;
    t->overwritten = tape_op_has_overwritten(r) ? r : NULL;
    const xcvm_status status = tape_variable_check_readable(t, r->in[1]);
    t->overwritten = around;
    XCVM_TRY(status);
    /* An accumulated gradient must not have a handle of the caller. */
    if (gradient->named || gradient->lent_refs > 0)
        gradient = tape_backward_copy_sum(t, gradient);
    return gradient != NULL ? add_pass_rows(t, r, gradient) : t->error.status;
}

void tape_sparse_commit(tape_variable *v)
{
    if (!v->has_side_state)
        return;
    tape_sparse_rows **last = &v->side->pass_rows;
    while (*last != NULL)
        last = &(*last)->next;
    *last = v->side->sparse_rows;
    v->side->sparse_rows = v->side->pass_rows;
    v->side->pass_rows = NULL;
}

xcvm_status tape_changes_apply(xcvm_tape *t, size_t count, const tape_change *changes)
{
    for (size_t i = 0; i < count; i++)
        if (tape_side_reserve(changes[i].variable) == NULL)
            return t->error.status;
    for (size_t i = 0; i < count; i++) {
        tape_variable_set_gradient(changes[i].variable, NULL);
        tape_sparse_release(t, &changes[i].variable->side->sparse_rows);
    }
    for (size_t i = count; i-- > 0 && !t->failed;) {
        const tape_change *c = &changes[i];
        if (c->rows != NULL) {
            tape_sparse_add(t, &c->variable->side->sparse_rows, c->variable, c->rows, c->gradient);
        } else if (c->left_factor != NULL) {
            tape_variable_set_factors(c->variable, c->left_factor, c->gradient);
        } else {
            c->gradient->refs++;
            tape_variable_set_gradient(c->variable, c->gradient);
        }
    }
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- Summing ---- */

/* A gradient row: its row in the table, and its rank among rows of the same table row. */
typedef struct entry {
    int64_t row;
    size_t order;
    const xcvm_value *gradient;
    size_t at;
} entry;

static int compare_rows(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Adds elements. Each half-precision element is rounded once. */
static void add_row(xcvm_dtype dtype, void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == XCVM_F32) {
            ((float *)to)[i] += ((const float *)from)[i];
        } else {
            double a, b;
            xcvm_load_f64(dtype, to, i, 1, &a);
            xcvm_load_f64(dtype, from, i, 1, &b);
            a += b;
            xcvm_store_f64(dtype, to, i, 1, &a, false);
        }
    }
}

static void sum_entries(const entry *entries, size_t count, xcvm_dtype dtype, size_t row_bytes, size_t width,
                        int64_t *rows, char *sums)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char *from = (const char *)entries[i].gradient->data + entries[i].at * row_bytes;
        if (used > 0 && rows[used - 1] == entries[i].row) {
            add_row(dtype, sums + (used - 1) * row_bytes, from, width);
        } else {
            rows[used] = entries[i].row;
            memcpy(sums + used++ * row_bytes, from, row_bytes);
        }
    }
}

static xcvm_status sum_rows(xcvm_tape *t, const tape_variable *v, entry *entries, size_t count, tape_variable **rows,
                            tape_variable **gradient)
{
    const xcvm_value *table = &v->value.type;
    size_t base = count, different = 0;
    /* The list has the latest first. */
    for (const tape_sparse_rows *r = tape_side(v)->sparse_rows; r != NULL; r = r->next) {
        base -= r->count;
        for (size_t i = 0; i < r->count; i++)
            entries[base + i] = (entry){r->at[i], base + i, &r->gradient->value.type, i};
    }
    qsort(entries, count, sizeof *entries, compare_rows);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || entries[i].row != entries[i - 1].row;
    int64_t dims[XCVM_MAX_RANK] = {(int64_t)different};
    memcpy(dims + 1, table->dims + 1, (size_t)(table->rank - 1) * sizeof *dims);
    if ((*rows = tape_tensor(t, XCVM_I64, 1, dims, NULL)) == NULL ||
        (*gradient = tape_tensor(t, (xcvm_dtype)table->dtype, table->rank, dims, NULL)) == NULL)
        return t->error.status;
    const size_t row_bytes = table->bytes / (size_t)table->dims[0];
    sum_entries(entries, count, (xcvm_dtype)table->dtype, row_bytes, xcvm_element_count(table) / (size_t)table->dims[0],
                (*rows)->value.type.data, (*gradient)->value.type.data);
    return XCVM_OK;
}

xcvm_status tape_sparse_sum(xcvm_tape *t, const tape_variable *v, tape_variable **rows, tape_variable **gradient)
{
    size_t count = 0;
    for (const tape_sparse_rows *r = tape_side(v)->sparse_rows; r != NULL; r = r->next)
        count += r->count;
    entry *entries = tape_allocate(t, count * sizeof *entries);
    if (entries == NULL)
        return t->error.status;
    const xcvm_status status = sum_rows(t, v, entries, count, rows, gradient);
    tape_free(t, entries, count * sizeof *entries);
    return status;
}

tape_variable *tape_sparse_to_dense(xcvm_tape *t, tape_variable *v)
{
    const xcvm_value *table = &v->value.type;
    tape_variable *rows = NULL, *sums = NULL;
    const tape_variable *whole = tape_variable_gradient(v);
    tape_variable *dense =
        whole != NULL ? tape_tensor(t, (xcvm_dtype)table->dtype, table->rank, table->dims, whole->value.type.data)
                      : NULL;
    if (dense == NULL || tape_sparse_sum(t, v, &rows, &sums) != XCVM_OK)
        return NULL;
    const size_t count = xcvm_element_count(&rows->value.type), row_bytes = table->bytes / (size_t)table->dims[0];
    for (size_t i = 0; i < count; i++)
        add_row((xcvm_dtype)table->dtype,
                (char *)dense->value.type.data + (size_t)XCVM_CDATA(int64_t, &rows->value.type)[i] * row_bytes,
                (const char *)sums->value.type.data + i * row_bytes,
                xcvm_element_count(table) / (size_t)table->dims[0]);
    return dense;
}

/* ---- Public functions ---- */

xcvm_status xcvm_var_set_sparse_gradient(xcvm_tape *tape, xcvm_var v, bool sparse, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_set_sparse_gradient, error);
    tape_variable *variable = tape_resolve(tape, v, "the parameter whose gradient is kept by rows");
    if (variable == NULL)
        return tape_report(tape, error);
    char text[192];
    const xcvm_value *type = &variable->value.type;
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR && type->rank >= 1 && variable->creator == NULL, INVALID_ARGUMENT,
               "only a tensor with rows that no call made has a gradient by rows, but the variable is %s",
               xcvm_value_describe(type, text, sizeof text));
    variable->sparse = sparse;
    return XCVM_OK;
}

xcvm_status xcvm_var_get_gradient_rows(xcvm_tape *tape, xcvm_var v, xcvm_var *rows, xcvm_var *gradients,
                                       xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_get_gradient_rows, error);
    XCVM_CHECK(error, rows != NULL && gradients != NULL, INVALID_ARGUMENT, "rows or gradients is NULL");
    const tape_variable *variable = tape_resolve(tape, v, "the variable whose gradient is asked for");
    if (variable == NULL)
        return tape_report(tape, error);
    *rows = *gradients = XCVM_ABSENT;
    size_t count = 0;
    for (const tape_sparse_rows *r = tape_side(variable)->sparse_rows; r != NULL; r = r->next)
        count += r->count;
    if (count == 0)
        return XCVM_OK;
    tape_refuse_trace(tape, "the rows of a gradient are asked for");
    tape_variable *index = NULL, *sum = NULL;
    if (tape_sparse_sum(tape, variable, &index, &sum) != XCVM_OK) {
        if (index != NULL)
            tape_variable_unname(index);
        return tape_report(tape, error);
    }
    *rows = tape_handle(index);
    *gradients = tape_handle(sum);
    return XCVM_OK;
}
