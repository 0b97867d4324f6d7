/* Schedules: compiles a trace to a forward and a backward program. */
#include "tape/static/schedule.h"
#include "base/bytes.h"
#include "compiler/driver/driver.h"
#include "vm/session.h"

#include <stdio.h>
#include <string.h>

/* ---- Life ---- */

tape_schedule *tape_schedule_create(xcvm_tape *t, tape_trace *trace, const char *name)
{
    tape_schedule *s = xcvm_allocate_zeroed(t->allocator, sizeof *s);
    if (s == NULL) {
        tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for a schedule", sizeof *s);
        return NULL;
    }
    s->trace = trace;
    s->operation =
        (xcvm_operation){.size = sizeof s->operation, .name = name, .backward = tape_schedule_backward, .user = s};
    s->arena.allocator = t->allocator;
    return s;
}

static void close_program(schedule_program *p)
{
    xcvm_session_destroy(p->session);
    xcvm_program_destroy(p->program);
    *p = (schedule_program){NULL, NULL};
}

void tape_schedule_discard_programs(xcvm_tape *t, tape_schedule *s)
{
    close_program(&s->forward);
    close_program(&s->backward);
    xcvm_arena_release(&s->arena);
    s->arena = (xcvm_arena){.allocator = t->allocator};
    s->constants = NULL;
}

void tape_schedule_destroy(xcvm_tape *t, tape_schedule *s)
{
    if (s == NULL)
        return;
    tape_schedule_discard_programs(t, s);
    xcvm_arena_release(&s->arena);
    tape_trace_destroy(s->trace);
    xcvm_deallocate(t->allocator, s, sizeof *s);
}

size_t tape_schedule_memory(const tape_schedule *s)
{
    const schedule_program *programs[] = {&s->forward, &s->backward};
    size_t bytes = 0;
    for (size_t i = 0; i < 2; i++) {
        xcvm_memory_info info = {.size = sizeof info};
        xcvm_session_get_memory_info(programs[i]->session, &info);
        bytes += info.reserved_bytes;
    }
    return bytes;
}

/* ---- Programs ---- */

xcvm_status tape_schedule_emit(xcvm_tape *t, const tape_trace *k, const xcc_options *options, trace_form form,
                               xcvm_sink sink)
{
    const xcc_options own = {.size = sizeof own, .allocator = t->allocator};
    xcc_module m;
    xcvm_status status = xcc_module_init(&m, &own, &t->error);
    if (status == XCVM_OK)
        status = tape_trace_build(k, &m, form, options->backprop);
    if (status == XCVM_OK)
        status = xcc_compile_graph(&m, options, sink, NULL, &t->error);
    xcc_module_release(&m);
    return status;
}

static xcvm_status load(xcvm_tape *t, const tape_schedule *s, const xcvm_bytes *b, schedule_program *p)
{
    const xcvm_load_options how = {.size = sizeof how, .allocator = t->allocator, .copy = true, .no_libraries = true};
    const xcvm_session_options options = {.size = sizeof options,
                                          .allocator = t->allocator,
                                          .threads = 1,
                                          .print = {t->kernel.print, t->kernel.print_user},
                                          .functions = s->functions,
                                          .function_count = s->function_count};
    XCVM_TRY(xcvm_program_load(b->at, b->count, &how, &p->program, &t->error));
    XCVM_TRY(xcvm_session_create(p->program, &options, &p->session, &t->error));
    xcvm_session_lend_kernel(p->session, &t->kernel);
    p->session->cancelled_by = t->kernel.cancelled;
    return XCVM_OK;
}

static xcvm_status make_program(xcvm_tape *t, const tape_schedule *s, const xcc_options *options, trace_form form,
                                schedule_program *p)
{
    xcvm_bytes b = {.allocator = t->allocator};
    xcvm_status status = tape_schedule_emit(t, s->trace, options, form, (xcvm_sink){xcvm_bytes_sink, &b});
    if (b.failed)
        status = xcvm_error_set(&t->error, XCVM_OUT_OF_MEMORY, "no memory for a program of over %zu bytes", b.count);
    if (status == XCVM_OK)
        status = load(t, s, &b, p);
    xcvm_bytes_release(&b);
    return status;
}

/* ---- Bindings ---- */

static void *allocate_array(xcvm_tape *t, tape_schedule *s, size_t count, size_t size)
{
    void *memory = count < SIZE_MAX / size ? xcvm_arena_allocate(&s->arena, count * size + 1) : NULL;
    if (memory == NULL)
        xcvm_error_set(&t->error, XCVM_OUT_OF_MEMORY, "no memory for a schedule");
    return memory;
}

/* Counts the forward outputs that are results of the record: results of the function, contents of state slots, and
 * the changes of effects. */
static xcvm_status count_results(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    size_t most = 0;
    s->change_count = 0;
    for (size_t i = 0; i < k->effect_count; i++) {
        most = k->effects[i].count > most ? k->effects[i].count : most;
        for (size_t j = 0; j < k->effects[i].count; j++)
            s->change_count += trace_change_companion(&k->effects[i].changes[j]) != NULL ? 2 : 1;
    }
    s->result_count = k->out_count + s->change_count;
    for (size_t i = 0; i < k->operand_count; i++)
        s->result_count += k->operands[i].next != NULL;
    s->changing = allocate_array(t, s, most, sizeof *s->changing);
    return s->changing != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static void link_states(tape_schedule *s)
{
    const xcvm_program *program = s->forward.program;
    for (size_t i = 0; i < s->state_count; i++) {
        const xcvm_value_info *p = xcvm_program_state_at(program, i);
        const bool updated = (program->state_uses[i] & XCVM_STATE_UPDATED) != 0;
        s->outputs[s->output_count + i] = (schedule_output){.role = updated ? SCHEDULE_UPDATED : SCHEDULE_WRITTEN,
                                                            .index = tape_trace_operand_named(s->trace, p->name),
                                                            .name = p->name,
                                                            .type = &p->type,
                                                            .fixed = true};
    }
}

static xcvm_status link_outputs(xcvm_tape *t, tape_schedule *s)
{
    static const char kept[] = "retained_", next[] = "_next";
    const tape_trace *k = s->trace;
    const size_t count = s->output_count = xcvm_program_output_count(s->forward.program);
    s->state_count = xcvm_program_state_count(s->forward.program);
    XCVM_TRY(count_results(t, s));
    s->kept_count = 0;
    if ((s->outputs = allocate_array(t, s, count + s->state_count, sizeof *s->outputs)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    link_states(s);
    for (size_t i = 0; i < count; i++) {
        schedule_output *o = &s->outputs[i];
        const xcvm_value_info *p = xcvm_program_output_at(s->forward.program, i);
        char operand[32] = "";
        *o = (schedule_output){.index = i, .name = p->name, .type = &p->type, .fixed = xcvm_type_is_fixed(&p->type)};
        if (i < s->result_count)
            continue;
        if (strncmp(p->name, kept, sizeof kept - 1) != 0) {
            snprintf(operand, sizeof operand, "%.*s", (int)(strlen(p->name) - (sizeof next - 1)), p->name);
            o->role = SCHEDULE_WRITTEN;
            o->index = tape_trace_operand_named(k, operand);
            continue;
        }
        o->index = tape_trace_operand_named(k, p->name + sizeof kept - 1);
        o->role = o->index != SIZE_MAX ? SCHEDULE_OPERAND : SCHEDULE_KEPT;
        if (o->role == SCHEDULE_KEPT)
            o->index = s->result_count + s->kept_count++;
    }
    return XCVM_OK;
}

static xcvm_status link_forward(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    const size_t count = xcvm_program_input_count(s->forward.program);
    XCVM_TRY(link_outputs(t, s));
    s->forward_inputs = allocate_array(t, s, count, sizeof *s->forward_inputs);
    s->operands = allocate_array(t, s, k->operand_count, sizeof *s->operands);
    s->written = allocate_array(t, s, k->operand_count, sizeof *s->written);
    s->replaced = allocate_array(t, s, k->operand_count, sizeof *s->replaced);
    s->results = allocate_array(t, s, s->result_count + s->kept_count, sizeof *s->results);
    if (s->forward_inputs == NULL || s->operands == NULL || s->written == NULL || s->replaced == NULL ||
        s->results == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        s->forward_inputs[i] = tape_trace_operand_named(k, xcvm_program_input_at(s->forward.program, i)->name);
    return XCVM_OK;
}

static const schedule_output *find_output(const tape_schedule *s, const char *name)
{
    for (size_t i = 0; i < s->output_count; i++)
        if (strcmp(s->outputs[i].name, name) == 0)
            return &s->outputs[i];
    return NULL;
}

static xcvm_status link_backward(xcvm_tape *t, tape_schedule *s)
{
    static const char seed[] = "grad_in@", gradient[] = "grad_out@";
    const xcvm_program *program = s->backward.program;
    const size_t inputs = xcvm_program_input_count(program), outputs = xcvm_program_output_count(program);
    s->backward_inputs = allocate_array(t, s, inputs, sizeof *s->backward_inputs);
    s->backward_outputs = allocate_array(t, s, outputs, sizeof *s->backward_outputs);
    if (s->backward_inputs == NULL || s->backward_outputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < inputs; i++) {
        const char *name = xcvm_program_input_at(program, i)->name;
        const bool is_gradient = strncmp(name, seed, sizeof seed - 1) == 0;
        s->backward_inputs[i] =
            (schedule_input){is_gradient, find_output(s, is_gradient ? name + sizeof seed - 1 : name)};
        XCVM_CHECK(&t->error, s->backward_inputs[i].of != NULL, INTERNAL,
                   "the backward of a schedule reads %.100s, which the forward does not give", name);
    }
    for (size_t i = 0; i < outputs; i++) {
        const xcvm_value_info *p = xcvm_program_output_at(program, i);
        s->backward_outputs[i] = tape_trace_operand_named(s->trace, p->name + sizeof gradient - 1);
        XCVM_CHECK(&t->error, s->backward_outputs[i] != SIZE_MAX && xcvm_type_is_fixed(&p->type), UNSUPPORTED,
                   "the shape of %.100s is known when it runs alone", p->name);
    }
    return XCVM_OK;
}

/* ---- Compiling ---- */

/* Marks the values through which gradients flow back from the results, by id. Others have no gradient, which differs
 * from a zero gradient. NULL: no memory. */
static bool *find_flowing(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    const size_t count = k->module.value_count;
    bool *flowing = allocate_array(t, s, count, sizeof *flowing);
    if (flowing == NULL)
        return NULL;
    memset(flowing, 0, count * sizeof *flowing);
    for (size_t i = 0; i < k->out_count; i++)
        flowing[k->outs[i]->id] = flowing[k->outs[i]->id] || k->out_requires[i];
    for (size_t i = 0; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        if (o->next != NULL)
            flowing[o->next->id] = flowing[o->next->id] || o->next_requires;
    }
    for (const xcc_node *n = k->module.graph->last; n != NULL; n = n->previous) {
        bool differentiable = false;
        for (size_t i = 0; i < xcc_node_output_count(n) && !n->schema->gradient.zero; i++) {
            const xcc_value *v = xcc_node_output(n, i);
            differentiable = differentiable || (v != NULL && flowing[v->id] && v->mark != TRACE_STOPPED);
        }
        for (size_t i = 0; i < xcc_node_input_count(n) && differentiable; i++)
            if (xcc_node_input(n, i) != NULL)
                flowing[xcc_node_input(n, i)->id] = true;
    }
    return flowing;
}

/* The names of the differentiation targets. */
static xcvm_status list_wrt(xcvm_tape *t, tape_schedule *s, xcc_options *o)
{
    const tape_trace *k = s->trace;
    const char **names = allocate_array(t, s, k->operand_count, sizeof *names);
    const bool *flowing = names != NULL ? find_flowing(t, s) : NULL;
    if (flowing == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < k->operand_count; i++) {
        char name[32];
        if (k->operands[i].value == NULL || !k->operands[i].requires || !flowing[k->operands[i].value->id])
            continue;
        tape_trace_name(k, i, name);
        if ((names[o->gradients.wrt_count++] = xcvm_arena_string(&s->arena, name, strlen(name))) == NULL)
            return xcvm_error_set(&t->error, XCVM_OUT_OF_MEMORY, "no memory for a schedule");
    }
    o->gradients.wrt = names;
    return XCVM_OK;
}

static xcvm_status list_vjps(xcvm_tape *t, tape_schedule *s, xcc_options *o)
{
    const tape_trace *k = s->trace;
    xcc_vjp_function *vjps = allocate_array(t, s, k->operation_count, sizeof *vjps);
    if (vjps == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < k->operation_count; i++)
        if (k->operations[i].operation->backward != NULL)
            vjps[o->gradients.vjp_count++] = (xcc_vjp_function){k->operations[i].name, k->operations[i].vjp};
    o->gradients.vjps = vjps;
    return XCVM_OK;
}

/* The tape's own elements change only by op calls, which count versions. */
static xcvm_status record_constants(xcvm_tape *t, tape_schedule *s)
{
    const tape_trace *k = s->trace;
    s->constants = allocate_array(t, s, k->operand_count, sizeof *s->constants);
    if (s->constants == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = k->in_count; i < k->operand_count; i++)
        if (k->operands[i].value != NULL) {
            const xcvm_storage *storage = k->operands[i].v.at->value.type.storage;
            s->constants[i] = (schedule_constant){storage, storage->version};
        }
    return XCVM_OK;
}

static bool can_be_constant(const xcvm_tape *t, const tape_schedule *s)
{
    const tape_trace *k = s->trace;
    if (s->changes || k->differentiable || k->effect_count > 0)
        return false;
    for (size_t i = k->in_count; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        const xcvm_storage *storage = o->value != NULL ? o->v.at->value.type.storage : NULL;
        if (o->value != NULL && (storage == NULL || storage->owner != t->kernel.heap || trace_is_written(o) ||
                                 o->changes || o->slot != NULL || o->gathered))
            return false;
    }
    return true;
}

bool tape_schedule_is_outdated(const tape_schedule *s)
{
    for (size_t i = s->trace->in_count; s->constants != NULL && i < s->trace->operand_count; i++) {
        const xcvm_storage *storage = s->constants[i].storage;
        if (storage != NULL &&
            (s->trace->operands[i].v.at->value.type.storage != storage || storage->version != s->constants[i].version))
            return true;
    }
    return false;
}

static xcvm_status compile_schedule(xcvm_tape *t, tape_schedule *s)
{
    xcc_options o = {.size = sizeof o, .allocator = t->allocator, .optimization = s->optimization};
    const bool constant = can_be_constant(t, s);
    XCVM_TRY(tape_schedule_functions(t, s));
    if (constant)
        XCVM_TRY(record_constants(t, s));
    if (s->trace->differentiable) {
        o.backprop = true;
        o.gradients.phase = XCC_PHASE_FORWARD;
        XCVM_TRY(list_wrt(t, s, &o));
        XCVM_TRY(list_vjps(t, s, &o));
    }
    XCVM_TRY(make_program(t, s, &o, constant ? TRACE_CONSTANTS : TRACE_INPUTS, &s->forward));
    XCVM_TRY(link_forward(t, s));
    if (!s->trace->differentiable)
        return XCVM_OK;
    o.gradients.phase = XCC_PHASE_BACKWARD;
    XCVM_TRY(make_program(t, s, &o, TRACE_INPUTS, &s->backward));
    return link_backward(t, s);
}

xcvm_status tape_schedule_compile(xcvm_tape *t, tape_schedule *s)
{
    if (s->forward.session != NULL)
        return XCVM_OK;
    const xcvm_status status = compile_schedule(t, s);
    if (status == XCVM_OK)
        return XCVM_OK;
    tape_schedule_discard_programs(t, s);
    if (status == XCVM_OUT_OF_MEMORY || status == XCVM_INTERNAL)
        return tape_latch_failure(t, status);
    tape_trace_refuse(s->trace, "%.230s", t->error.message);
    xcvm_error_set(&t->error, XCVM_OK, "%s", "");
    return XCVM_OK;
}
