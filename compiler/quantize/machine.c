/* Models that run, to look at what they compute. */
#include "compiler/quantize/machine.h"

#include "base/clock.h"
#include "base/value.h"

#include <string.h>

/* The time that is left; 0: there is no limit. */
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

xcvm_status xcc_machine_open(quantizer *q, const xcvm_bytes *model, xcc_machine *machine)
{
    xcvm_error *error = q->m.error;
    *machine = (xcc_machine){.bytes = {.allocator = q->m.allocator}};
    xcc_options options = {.size = sizeof options,
                           .allocator = q->m.allocator,
                           .dims = q->o.dims,
                           .dim_count = q->o.dim_count,
                           .optimization = 2};
    XCVM_TRY(time_left(q, &options.limits.timeout_ns));
    const xcvm_status status =
        xcc_compile(model->at, model->count, &options, (xcvm_sink){xcvm_bytes_sink, &machine->bytes}, NULL, error);
    XCVM_CHECK(error, !machine->bytes.failed, OUT_OF_MEMORY, "no memory for the program that ranges are seen with");
    XCVM_TRY(status);
    const xcvm_load_options load = {.size = sizeof load, .allocator = q->m.allocator};
    /* Threads of the session may take memory, which the module's budget is not made for. */
    const xcvm_session_options session = {.size = sizeof session,
                                          .allocator = q->o.allocator,
                                          .threads = q->o.threads,
                                          .memory_limit = q->o.memory_limit};
    XCVM_TRY(xcvm_program_load(machine->bytes.at, machine->bytes.count, &load, &machine->program, error));
    return xcvm_session_create(machine->program, &session, &machine->session, error);
}

void xcc_machine_close(xcc_machine *machine)
{
    xcvm_session_destroy(machine->session);
    xcvm_program_destroy(machine->program);
    if (machine->bytes.allocator != NULL)
        xcvm_bytes_release(&machine->bytes);
    machine->session = NULL;
    machine->program = NULL;
}

xcvm_status xcc_machine_run(quantizer *q, xcc_machine *machine, xcvm_value *const *inputs)
{
    xcvm_run_options options = {.size = sizeof options};
    XCVM_TRY(time_left(q, &options.timeout_ns));
    /* Inputs that a model does not read are left out by no compilation, so the order is the same for all. */
    for (size_t i = 0; i < q->input_count; i++)
        XCVM_TRY(xcvm_session_set_input(machine->session, i, inputs[i], q->m.error));
    return xcvm_session_run(machine->session, &options, q->m.error);
}

const xcvm_value *xcc_machine_tensor(const quantizer *q, const xcc_quant_tensor *t, xcvm_value *const *inputs)
{
    if (!t->is_input)
        return xcvm_session_get_output(q->machine->session, (size_t)t->probe);
    for (size_t i = 0; i < q->input_count; i++)
        if (strcmp(q->inputs[i].name, t->name) == 0)
            return inputs[i];
    return NULL;
}

size_t xcc_machine_output(const xcc_machine *machine, const char *name)
{
    for (size_t i = 0; i < xcvm_program_output_count(machine->program); i++)
        if (strcmp(xcvm_program_output_at(machine->program, i)->name, name) == 0)
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
