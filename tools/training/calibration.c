/* Calibration inputs from files. */
#include "training/calibration.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "training/columns.h"

#include <stdlib.h>

static xcvm_status read_batch(void *user, size_t batch, xcvm_value **inputs, xcvm_error *error)
{
    struct calibration *c = user;
    const uint64_t first = (uint64_t)batch * c->batch, all = xct_dataset_example_count(c->data);
    const size_t count = all - first < c->batch ? (size_t)(all - first) : c->batch;
    c->budget.refused = 0;
    xct_dataset_set_limits(c->data, (size_t)c->budget.limit, value_budget_time_left(&c->budget));
    const xcvm_status status = xct_dataset_read(c->data, first, count, inputs, error);
    value_budget_name(&c->budget, status, error);
    if (status != XCVM_OK)
        error_prefix(error, "--data");
    return status;
}

xcvm_status calibration_open(struct calibration *c, const xcc_quantizer *quantizer, const struct text_list *paths,
                             const xct_column *columns, size_t column_count, int64_t batch, int64_t samples,
                             const struct limit_flags *limits, xcvm_error *error)
{
    enum { USUAL = 8 };
    const size_t count = xcc_quantizer_input_count(quantizer);
    xcvm_value_info *inputs = memory_take(count + 1, sizeof *inputs);
    int64_t fixed = -1;
    for (size_t i = 0; i < count; i++) {
        inputs[i] = *xcc_quantizer_input_at(quantizer, i);
        if (inputs[i].type.rank > 0 && inputs[i].type.dims[0] >= 0)
            fixed = inputs[i].type.dims[0];
    }
    value_budget_begin(&c->budget, limits->max_memory, limits->timeout_ms);
    xcvm_status status = xct_dataset_create_for_inputs(inputs, count, paths->items, paths->count, columns, column_count,
                                                       value_budget_allocator(&c->budget), &c->data, error);
    free(inputs);
    value_budget_name(&c->budget, status, error);
    TRY(status);
    /* A folder lists its images class by class. */
    if (xct_dataset_class_count(c->data) > 0)
        xct_dataset_mix(c->data, 0);
    uint64_t examples = xct_dataset_example_count(c->data);
    if (samples > 0 && (uint64_t)samples < examples)
        examples = (uint64_t)samples;
    if (fixed >= 0 && batch > 0 && batch != fixed)
        return error_set(error, XCVM_INVALID_ARGUMENT, "--batch=%lld: the model takes batches of %lld",
                         (long long)batch, (long long)fixed);
    c->batch = fixed >= 0 ? (size_t)fixed : batch > 0 ? (size_t)batch : USUAL;
    if (c->batch == 0)
        return error_set(error, XCVM_UNSUPPORTED, "the model takes batches of no examples");
    /* A model with a fixed batch size cannot use the last partial batch. */
    const size_t batches = (size_t)(fixed >= 0 ? examples / c->batch : (examples + c->batch - 1) / c->batch);
    if (batches == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT, "the data have %llu examples; a batch of the model has %zu",
                         (unsigned long long)examples, c->batch);
    if (fixed >= 0 && examples % c->batch != 0)
        report_line("the model takes batches of %zu: the last %llu examples are left out", c->batch,
                    (unsigned long long)(examples % c->batch));
    c->source = (xcc_calibration){.batch_count = batches, .read = read_batch, .user = c};
    return XCVM_OK;
}

void calibration_close(struct calibration *c)
{
    xct_dataset_destroy(c->data);
    c->data = NULL;
}
