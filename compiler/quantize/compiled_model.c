/* Runs models of the quantizer. */
#include "compiler/quantize/compiled_model.h"

#include "base/clock.h"
#include "base/value.h"
#include "vm/session.h"

#include <string.h>

/* Computes the remaining time; 0: no limit. */
static xcvm_status time_left(quantizer *q, uint64_t *ns)
{
    *ns = 0;
    if (q->m.deadline_ns == 0)
        return XCVM_OK;
    const uint64_t now = xcvm_clock_ns();
    if (now >= q->m.deadline_ns)
        return xcc_out_of_time(&q->m);
    *ns = q->m.deadline_ns - now;
    return XCVM_OK;
}

xcvm_status xcc_compiled_open(quantizer *q, const xcvm_bytes *model, xcc_compiled_model *compiled)
{
    xcvm_error *error = q->m.error;
    *compiled = (xcc_compiled_model){.bytes = {.allocator = q->m.allocator}};
    xcc_options options = {.size = sizeof options,
                           .allocator = q->m.allocator,
                           .dims = q->o.dims,
                           .dim_count = q->o.dim_count,
                           .optimization = 2,
                           .cancelled = q->o.cancelled};
    XCVM_TRY(time_left(q, &options.limits.timeout_ns));
    const xcvm_status status =
        xcc_compile(model->at, model->count, &options, (xcvm_sink){xcvm_bytes_sink, &compiled->bytes}, NULL, error);
    XCVM_CHECK(error, !compiled->bytes.failed, OUT_OF_MEMORY, "no memory for the program that ranges are seen with");
    XCVM_TRY(status);
    const xcvm_load_options load = {.size = sizeof load, .allocator = q->m.allocator};
    /* The module's allocator is not thread-safe, so the session uses the caller's. */
    const xcvm_session_options session = {.size = sizeof session,
                                          .allocator = q->o.allocator,
                                          .threads = q->o.threads,
                                          .memory_limit = q->o.memory_limit};
    XCVM_TRY(xcvm_program_load(compiled->bytes.at, compiled->bytes.count, &load, &compiled->program, error));
    XCVM_TRY(xcvm_session_create(compiled->program, &session, &compiled->session, error));
    compiled->session->cancelled_by = q->o.cancelled;
    return XCVM_OK;
}

void xcc_compiled_close(xcc_compiled_model *compiled)
{
    xcvm_session_destroy(compiled->session);
    xcvm_program_destroy(compiled->program);
    if (compiled->bytes.allocator != NULL)
        xcvm_bytes_release(&compiled->bytes);
    compiled->session = NULL;
    compiled->program = NULL;
}

xcvm_status xcc_compiled_run(quantizer *q, xcc_compiled_model *compiled, xcvm_value *const *inputs)
{
    xcvm_run_options options = {.size = sizeof options};
    XCVM_TRY(time_left(q, &options.timeout_ns));
    /* Compilation keeps unused inputs, so all models have the same order. */
    for (size_t i = 0; i < q->input_count; i++)
        XCVM_TRY(xcvm_session_set_input(compiled->session, i, inputs[i], q->m.error));
    return xcvm_session_run(compiled->session, &options, q->m.error);
}

const xcvm_value *xcc_compiled_tensor(const quantizer *q, const xcc_quant_tensor *t, xcvm_value *const *inputs)
{
    if (!t->is_input)
        return xcvm_session_get_output(q->float_model->session, (size_t)t->probe);
    for (size_t i = 0; i < q->input_count; i++)
        if (strcmp(q->inputs[i].name, t->name) == 0)
            return inputs[i];
    return NULL;
}

size_t xcc_compiled_output(const xcc_compiled_model *compiled, const char *name)
{
    for (size_t i = 0; i < xcvm_program_output_count(compiled->program); i++)
        if (strcmp(xcvm_program_output_at(compiled->program, i)->name, name) == 0)
            return i;
    return SIZE_MAX;
}

xcvm_status xcc_batch_read(quantizer *q, const xcc_calibration *data, size_t batch, xcvm_value **inputs)
{
    memset(inputs, 0, q->input_count * sizeof *inputs);
    XCVM_TRY(data->read(data->user, batch, inputs, q->m.error));
    for (size_t i = 0; i < q->input_count; i++)
        XCVM_CHECK(q->m.error, inputs[i] != NULL, INVALID_ARGUMENT, "batch %zu has nothing for input \"%.200s\"", batch,
                   q->inputs[i].name);
    return XCVM_OK;
}

void xcc_batch_release(const quantizer *q, xcvm_value **inputs)
{
    for (size_t i = 0; i < q->input_count; i++)
        xcvm_value_release(inputs[i]);
    memset(inputs, 0, q->input_count * sizeof *inputs);
}
