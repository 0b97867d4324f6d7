/* Batching: requests of one model that differ in the number of rows only run together. */
#include "server/pool/pool.h"

#include <stdio.h>
#include <string.h>

/* ---- Joining and splitting ---- */

bool xcs_batch_fits(const xcs_request *a, const xcs_request *b)
{
    for (size_t i = 0; i < a->input_count; i++) {
        const int rank = xcvm_value_rank(a->inputs[i]);
        if (rank != xcvm_value_rank(b->inputs[i]) ||
            memcmp(xcvm_value_dims(a->inputs[i]) + 1, xcvm_value_dims(b->inputs[i]) + 1,
                   (size_t)(rank - 1) * sizeof(int64_t)) != 0)
            return false;
    }
    return true;
}

static xcvm_status create_rows(const xcs_model *model, const xcvm_value *like, int64_t rows, xcvm_value **tensor,
                               xcvm_error *error)
{
    int64_t dims[XCVM_MAX_RANK];
    const int rank = xcvm_value_rank(like);
    memcpy(dims, xcvm_value_dims(like), (size_t)rank * sizeof *dims);
    dims[0] = rows;
    return xcvm_tensor_create(&model->memory->allocator, xcvm_value_dtype(like), rank, dims, tensor, error);
}

xcvm_status xcs_batch_join(xcs_model *model, const xcs_request *list, int64_t rows, xcvm_value **inputs,
                           xcvm_error *error)
{
    for (size_t i = 0; i < list->input_count; i++) {
        XCVM_TRY(create_rows(model, list->inputs[i], rows, &inputs[i], error));
        char *at = xcvm_value_data(inputs[i]);
        for (const xcs_request *r = list; r != NULL; r = r->next) {
            const size_t bytes = xcvm_value_bytes(r->inputs[i]);
            if (bytes > 0)
                memcpy(at, xcvm_value_data(r->inputs[i]), bytes);
            at += bytes;
        }
    }
    return XCVM_OK;
}

static xcvm_status copy_rows(const xcs_model *model, const xcvm_value *output, int64_t first, int64_t rows,
                             xcvm_value **copy, xcvm_error *error)
{
    XCVM_TRY(create_rows(model, output, rows, copy, error));
    const size_t bytes = xcvm_value_bytes(*copy);
    if (bytes > 0)
        memcpy(xcvm_value_data(*copy), (const char *)xcvm_value_data(output) + bytes / (size_t)rows * (size_t)first,
               bytes);
    return XCVM_OK;
}

xcvm_status xcs_batch_split(xcs_model *model, const xcvm_session *session, int64_t first, int64_t rows,
                            xcvm_value **outputs, xcvm_error *error)
{
    const size_t count = xcvm_program_output_count(model->program);
    for (size_t i = 0; i < count; i++) {
        xcvm_status status = copy_rows(model, xcvm_session_get_output(session, i), first, rows, &outputs[i], error);
        for (; status != XCVM_OK && i > 0; i--)
            xcvm_value_release(outputs[i - 1]);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}

/* ---- The decision ---- */

enum { CHECK_ROWS = 3, OTHER_DIM = 4 };

/* True if rows of the tensor are whole bytes that can be copied. */
static bool has_rows(const xcvm_type *type, const char *name)
{
    return type->kind == XCVM_KIND_TENSOR && type->rank > 0 && type->dims[0] < 0 && type->dim_names[0] != NULL &&
           strcmp(type->dim_names[0], name) == 0 && type->dtype != XCVM_STRING && xcvm_dtype_bits(type->dtype) >= 8;
}

static const char *refuse_types(const xcvm_program *program)
{
    const size_t inputs = xcvm_program_input_count(program), outputs = xcvm_program_output_count(program);
    if (xcvm_program_state_count(program) > 0)
        return "the program has states";
    const char *name = inputs > 0 ? xcvm_program_input_at(program, 0)->type.dim_names[0] : NULL;
    bool same = name != NULL && outputs > 0;
    for (size_t i = 0; same && i < inputs; i++)
        same = has_rows(&xcvm_program_input_at(program, i)->type, name);
    for (size_t i = 0; same && i < outputs; i++)
        same = has_rows(&xcvm_program_output_at(program, i)->type, name);
    return same ? NULL : "the first dimension of the inputs and outputs is not the same dynamic dimension";
}

/* Fills a tensor with small numbers that differ from row to row. Integers are 0 or 1, valid as indices and flags. */
static void fill_rows(xcvm_value *tensor)
{
    const size_t count = xcvm_value_count(tensor);
    const int bits = xcvm_dtype_bits(xcvm_value_dtype(tensor));
    uint32_t random = 12345;
    memset(xcvm_value_data(tensor), 0, xcvm_value_bytes(tensor));
    for (size_t i = 0; i < count; i++) {
        char *element = (char *)xcvm_value_data(tensor) + i * (size_t)bits / 8;
        random = random * 1664525 + 1013904223;
        const float f = (float)(random >> 8) / (float)(1 << 24);
        const double d = (double)f;
        if (xcvm_value_dtype(tensor) == XCVM_F32)
            memcpy(element, &f, sizeof f);
        else if (xcvm_value_dtype(tensor) == XCVM_F64)
            memcpy(element, &d, sizeof d);
        else
            *element = (char)(random >> 31); /* also a subnormal number of a small float */
    }
}

/* Runs `rows` rows of each input, starting with `first`. */
static xcvm_status run_rows(xcs_model *model, xcvm_value *const *inputs, int64_t first, int64_t rows, xcvm_error *error)
{
    const xcvm_run_options options = {.size = sizeof options, .timeout_ns = UINT64_C(5000000000)};
    for (size_t i = 0; i < xcvm_program_input_count(model->program); i++) {
        xcvm_value *part;
        XCVM_TRY(copy_rows(model, inputs[i], first, rows, &part, error));
        xcvm_status status = xcvm_session_set_input(model->idle[0], i, part, error);
        xcvm_value_release(part);
        XCVM_TRY(status);
    }
    return xcvm_session_run(model->idle[0], &options, error);
}

/* Compares the outputs of the last run, of one row, with row `row` of the outputs of all rows. */
static xcvm_status compare_row(const xcs_model *model, xcvm_value *const *all, int64_t row, xcvm_error *error)
{
    for (size_t i = 0; i < xcvm_program_output_count(model->program); i++) {
        const xcvm_value *one = xcvm_session_get_output(model->idle[0], i);
        const size_t bytes = xcvm_value_bytes(one);
        XCVM_CHECK(error, bytes * CHECK_ROWS == xcvm_value_bytes(all[i]), SHAPE_MISMATCH,
                   "output \"%.60s\" of a row has another shape alone",
                   xcvm_program_output_at(model->program, i)->name);
        XCVM_CHECK(
            error,
            model->limits.batch.inexact || bytes == 0 ||
                memcmp(xcvm_value_data(one), (const char *)xcvm_value_data(all[i]) + bytes * (size_t)row, bytes) == 0,
            OUT_OF_RANGE, "a row of output \"%.60s\" has other bits in a batch",
            xcvm_program_output_at(model->program, i)->name);
    }
    return XCVM_OK;
}

static xcvm_status create_inputs(const xcs_model *model, xcvm_value **inputs, xcvm_error *error)
{
    for (size_t i = 0; i < xcvm_program_input_count(model->program); i++) {
        const xcvm_type *type = &xcvm_program_input_at(model->program, i)->type;
        int64_t dims[XCVM_MAX_RANK] = {CHECK_ROWS};
        for (int d = 1; d < type->rank; d++)
            dims[d] = type->dims[d] < 0 ? OTHER_DIM : type->dims[d];
        XCVM_TRY(xcvm_tensor_create(&model->memory->allocator, type->dtype, type->rank, dims, &inputs[i], error));
        fill_rows(inputs[i]);
    }
    return XCVM_OK;
}

/* Runs rows together and alone, and compares the bits. */
static xcvm_status compare_runs(xcs_model *model, xcvm_value **inputs, xcvm_value **outputs, xcvm_error *error)
{
    XCVM_TRY(create_inputs(model, inputs, error));
    XCVM_TRY(run_rows(model, inputs, 0, CHECK_ROWS, error));
    for (size_t i = 0; i < xcvm_program_output_count(model->program); i++)
        XCVM_TRY(xcvm_value_retain(xcvm_session_get_output(model->idle[0], i), &outputs[i], error));
    for (int64_t row = 0; row < CHECK_ROWS; row++) {
        XCVM_TRY(run_rows(model, inputs, row, 1, error));
        XCVM_TRY(compare_row(model, outputs, row, error));
    }
    return XCVM_OK;
}

void xcs_batch_decide(xcs_model *model)
{
    const size_t inputs = xcvm_program_input_count(model->program), outputs = xcvm_program_output_count(model->program);
    const char *refused = model->limits.batch.max_rows <= 1 ? "the options say so" : refuse_types(model->program);
    if (refused != NULL) {
        snprintf(model->batch_reason, sizeof model->batch_reason, "%s", refused);
        return;
    }
    xcvm_error error = {.pc = -1};
    const size_t bytes = (inputs + outputs) * sizeof(xcvm_value *);
    xcvm_value **values = xcvm_allocate_zeroed(&model->server->allocator, bytes);
    xcvm_status status = values == NULL ? xcvm_error_set(&error, XCVM_OUT_OF_MEMORY, "no memory for a check")
                                        : compare_runs(model, values, values + inputs, &error);
    for (size_t i = 0; values != NULL && i < inputs + outputs; i++)
        xcvm_value_release(values[i]);
    xcvm_deallocate(&model->server->allocator, values, bytes);
    if (status == XCVM_OK)
        model->batch_rows = model->limits.batch.max_rows;
    else
        snprintf(model->batch_reason, sizeof model->batch_reason, "%.199s", error.message);
}
