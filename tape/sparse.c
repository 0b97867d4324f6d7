/* Gradients by rows: of tables of which a call gathers few rows, so that no tensor of the table's size is made. */
#include "ops/util/convert.h"
#include "ops/util/index.h"
#include "tape/walk.h"
#include "xcvm/layers.h"

#include <stdlib.h>
#include <string.h>

/* ---- In a walk ---- */

bool tape_gathers_rows(const tape_record *r)
{
    if (r->operation != NULL || r->schema->opcode != XCVM_OP_Gather || !r->in[0]->sparse || !r->in[0]->requires ||
        r->in[0]->creator != NULL)
        return false;
    const xcvm_Gather_args *a = r->args;
    return a->axis == 0 || a->axis + r->in[0]->value.type.rank == 0;
}

static size_t rows_bytes(size_t count) { return sizeof(tape_rows) + count * sizeof(int64_t); }

xcvm_status tape_rows_add(xcvm_tape *t, tape_rows **rows, tape_variable *table, tape_variable *indices,
                          tape_variable *gradient)
{
    const size_t count = xcvm_element_count(&indices->value.type);
    tape_rows *added = tape_take(t, rows_bytes(count));
    if (added == NULL)
        return t->error.status;
    added->count = count;
    for (size_t i = 0; i < count; i++)
        added->at[i] = (int64_t)xcvm_index_wrapped(&indices->value.type, i, table->value.type.dims[0]);
    added->gradient = gradient;
    gradient->refs++;
    gradient->lenders++;
    added->indices = t->tracer != NULL ? indices : NULL;
    if (added->indices != NULL)
        indices->refs++;
    added->next = *rows;
    *rows = added;
    table->by_rows = true;
    return XCVM_OK;
}

xcvm_status tape_rows_take(xcvm_tape *t, const tape_record *r, tape_variable *gradient)
{
    const tape_record *around = t->overwritten;
    t->overwritten = tape_has_overwritten(r) ? r : NULL;
    const xcvm_status status = tape_check_read(t, r->in[1]);
    t->overwritten = around;
    XCVM_TRY(status);
    /* What stays with the table is no variable that the caller names. */
    if (gradient->named || gradient->lenders > 0)
        gradient = tape_walk_copy(t, gradient);
    return gradient != NULL ? tape_rows_add(t, &r->in[0]->coming, r->in[0], r->in[1], gradient) : t->error.status;
}

void tape_rows_keep(tape_variable *v)
{
    tape_rows **last = &v->coming;
    while (*last != NULL)
        last = &(*last)->next;
    *last = v->rows;
    v->rows = v->coming;
    v->coming = NULL;
}

void tape_rows_drop(xcvm_tape *t, tape_rows **rows)
{
    while (*rows != NULL) {
        tape_rows *first = *rows;
        *rows = first->next;
        first->gradient->lenders--;
        tape_variable_release(first->gradient);
        if (first->indices != NULL)
            tape_variable_release(first->indices);
        tape_give_back(t, first, rows_bytes(first->count));
    }
}

xcvm_status tape_changes_give(xcvm_tape *t, size_t count, const tape_change *changes)
{
    for (size_t i = 0; i < count; i++) {
        tape_variable_set_gradient(changes[i].variable, NULL);
        tape_rows_drop(t, &changes[i].variable->rows);
    }
    for (size_t i = count; i-- > 0 && !t->failed;)
        if (changes[i].rows != NULL) {
            tape_rows_add(t, &changes[i].variable->rows, changes[i].variable, changes[i].rows, changes[i].gradient);
        } else if (changes[i].left != NULL) {
            tape_variable_set_factors(changes[i].variable, changes[i].left, changes[i].gradient);
        } else {
            changes[i].gradient->refs++;
            tape_variable_set_gradient(changes[i].variable, changes[i].gradient);
        }
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- Adding up ---- */

/* A row of one of the gradients: which row of the table it is of, and which comes first of equal ones. */
typedef struct entry {
    int64_t row;
    size_t order;
    const xcvm_value *gradient;
    size_t at;
} entry;

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Adds `count` elements; those of half precision are rounded once for each. */
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
    /* The latest is the first of the list. */
    for (const tape_rows *r = v->rows; r != NULL; r = r->next) {
        base -= r->count;
        for (size_t i = 0; i < r->count; i++)
            entries[base + i] = (entry){r->at[i], base + i, &r->gradient->value.type, i};
    }
    qsort(entries, count, sizeof *entries, compare);
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

xcvm_status tape_rows_sum(xcvm_tape *t, const tape_variable *v, tape_variable **rows, tape_variable **gradient)
{
    size_t count = 0;
    for (const tape_rows *r = v->rows; r != NULL; r = r->next)
        count += r->count;
    entry *entries = tape_take(t, count * sizeof *entries);
    if (entries == NULL)
        return t->error.status;
    const xcvm_status status = sum_rows(t, v, entries, count, rows, gradient);
    tape_give_back(t, entries, count * sizeof *entries);
    return status;
}

tape_variable *tape_rows_dense(xcvm_tape *t, tape_variable *v)
{
    const xcvm_value *table = &v->value.type;
    tape_variable *rows = NULL, *sums = NULL;
    const tape_variable *whole = tape_variable_gradient(v);
    tape_variable *dense =
        whole != NULL ? tape_tensor(t, (xcvm_dtype)table->dtype, table->rank, table->dims, whole->value.type.data)
                      : NULL;
    if (dense == NULL || tape_rows_sum(t, v, &rows, &sums) != XCVM_OK)
        return NULL;
    const size_t count = xcvm_element_count(&rows->value.type), row_bytes = table->bytes / (size_t)table->dims[0];
    for (size_t i = 0; i < count; i++)
        add_row((xcvm_dtype)table->dtype,
                (char *)dense->value.type.data + (size_t)XCVM_CDATA(int64_t, &rows->value.type)[i] * row_bytes,
                (const char *)sums->value.type.data + i * row_bytes,
                xcvm_element_count(table) / (size_t)table->dims[0]);
    return dense;
}

/* ---- The host's side ---- */

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
    for (const tape_rows *r = variable->rows; r != NULL; r = r->next)
        count += r->count;
    if (count == 0)
        return XCVM_OK;
    tape_refuse(tape, "the rows of a gradient are asked for");
    tape_variable *index = NULL, *sum = NULL;
    if (tape_rows_sum(tape, variable, &index, &sum) != XCVM_OK) {
        if (index != NULL)
            tape_variable_unname(index);
        return tape_report(tape, error);
    }
    *rows = tape_handle(index);
    *gradients = tape_handle(sum);
    return XCVM_OK;
}
