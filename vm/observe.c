/* Observation of a run, only if there is an observer or a type check: events, and comparison of values with the types
 * that the compiler recorded. */
#include "base/clock.h"
#include "vm/session.h"

enum { ATTRIBUTES_SIZE = 1024, SPANS = 256 };

void xcvm_session_set_observer(xcvm_session *session, const xcvm_observer *observer)
{
    if (session == NULL)
        return;
    session->observer = (xcvm_observer){0};
    if (observer != NULL && observer->size >= sizeof observer->size)
        memcpy(&session->observer, observer, observer->size < sizeof *observer ? observer->size : sizeof *observer);
    session->observed = observer != NULL || session->strict_types;
}

/* ---- Live bytes in the arena ---- */

/* `released`: bytes that a Free removed from the arena. */
static void count_live(xcvm_session *s, size_t pc, size_t released)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    if (step->action == XCVM_ACTION_FREE) {
        bool *moved = &s->moved[instruction->in[0]];
        if (!*moved)
            s->arena_live_bytes -= released < s->arena_live_bytes ? released : s->arena_live_bytes;
        *moved = false;
    }
    for (uint32_t i = 0; i < instruction->out_count && step->action == XCVM_ACTION_KERNEL; i++) {
        const xcvm_value *result = s->out[step->out_at + i];
        if (result == NULL || result->memory_kind != XCVM_MEMORY_ARENA)
            continue;
        const xcvm_value *operand =
            i == 0 && step->alias != XCVM_ALIAS_NONE ? s->in[step->in_at + step->alias_operand] : NULL;
        bool taken_over = operand != NULL && operand->memory_kind == XCVM_MEMORY_ARENA &&
                          operand->data == result->data && (step->last_use >> step->alias_operand & 1) != 0;
        if (taken_over)
            s->moved[instruction->in[step->alias_operand]] = true;
        else
            s->arena_live_bytes += result->bytes;
    }
}

/* Counts the results of a KernelCall instruction that ran instead of its unfused instructions. */
static void count_fused(xcvm_session *s, size_t pc)
{
    const xcvm_fused *f = &s->program->fused[s->program->steps[pc].target];
    for (uint32_t i = 0; i < f->out_count; i++) {
        const xcvm_value *result = s->out[s->program->steps[pc + 1 + (size_t)f->results[i]].out_at];
        s->arena_live_bytes += result->memory_kind == XCVM_MEMORY_ARENA ? result->bytes : 0;
    }
}

static size_t live_bytes(const xcvm_session *s)
{
    size_t scratch = s->kernel.scratch_storage != NULL ? s->kernel.scratch_bytes : 0;
    size_t fixed = s->block_bytes + scratch + (s->arena_is_callers ? 0 : s->arena_bytes);
    size_t live = xcvm_heap_live(s->kernel.heap);
    return (live > fixed ? live - fixed : 0) + s->arena_live_bytes;
}

/* ---- Events ---- */

static uint64_t sum_bytes(const xcvm_value *const *values, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] != NULL ? values[i]->bytes : 0;
    return sum;
}

static uint64_t count_flops(const xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    if (s->program->steps[pc].action != XCVM_ACTION_KERNEL || instruction->schema->cost == NULL)
        return instruction->debug.flops;
    const xcvm_inference inference = xcvm_session_inference(s, pc);
    uint64_t flops = instruction->schema->cost(&inference);
    return flops != 0 ? flops : instruction->debug.flops;
}

static xcvm_event event_of(const xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    return (xcvm_event){.size = sizeof(xcvm_event),
                        .pc = (int32_t)pc,
                        .instruction = instruction->schema->name,
                        .node = instruction->debug.node != NULL ? instruction->debug.node : "",
                        .attributes = "",
                        .bytes_read = sum_bytes(s->in + step->in_at, instruction->in_count),
                        .input_count = instruction->in_count,
                        .inputs = s->in + step->in_at,
                        .input_registers = instruction->in,
                        .output_registers = instruction->out,
                        .output_names =
                            instruction->debug.names != NULL ? instruction->debug.names : s->program->no_names};
}

/* ---- Checks against types recorded by the compiler ---- */

static xcvm_status check_debug_type(xcvm_session *s, const xcvm_type *type, const xcvm_value *value, const char *what,
                                    const char *name)
{
    xcvm_status status = xcvm_type_match(type, value);
    char recorded[256], found[192];
    if (status != XCVM_OK)
        xcvm_error_set(s->kernel.error, status, "%s \"%.100s\" is %s, but is noted as %s", what, name,
                       xcvm_value_describe(value, found, sizeof found),
                       xcvm_type_describe(type, recorded, sizeof recorded));
    return status;
}

static xcvm_status check_types(xcvm_session *s, size_t pc)
{
    const xcvm_image *image = &s->program->image;
    const xcvm_instruction *instruction = &image->instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    if (step->action == XCVM_ACTION_OUT) {
        const size_t index = (size_t)step->target;
        const xcvm_value_info *output = xcvm_program_result(s->program, index);
        return check_debug_type(s, &output->type, &s->outputs[index], xcvm_program_result_word(s->program, index),
                                output->name);
    }
    for (uint32_t i = 0; instruction->debug.types != NULL && i < instruction->out_count; i++) {
        const xcvm_value *result = s->out[step->out_at + i];
        const char *name = instruction->debug.names != NULL ? instruction->debug.names[i] : "";
        if (result != NULL)
            XCVM_TRY(check_debug_type(s, &instruction->debug.types[i], result, "result", name));
    }
    return XCVM_OK;
}

/* ---- Step function ---- */

xcvm_status xcvm_session_observe(xcvm_session *s, size_t pc, size_t *next)
{
    static const xcvm_value null_value = {.kind = XCVM_KIND_NULL};
    static const xcvm_value *const freed[1] = {&null_value};
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_observer *observer = &s->observer;
    bool frees = step->action == XCVM_ACTION_FREE;
    size_t released = frees && s->in[step->in_at]->memory_kind == XCVM_MEMORY_ARENA ? s->in[step->in_at]->bytes : 0;
    char attributes[ATTRIBUTES_SIZE];
    xcvm_span spans[SPANS];
    xcvm_event event = event_of(s, pc);
    if (observer->want_attributes)
        event.attributes =
            xcvm_attributes_describe(instruction->schema, instruction->args, attributes, sizeof attributes);
    if (observer->want_spans)
        xcvm_threads_record(s->kernel.threads, spans, SPANS);
    event.start_ns = xcvm_clock_ns();
    if (observer->before != NULL) {
        event.live_bytes = live_bytes(s);
        observer->before(observer->user, &event);
        event.start_ns = xcvm_clock_ns();
    }
    xcvm_status status = xcvm_session_step(s, pc, next);
    event.end_ns = xcvm_clock_ns();
    if (observer->want_spans) {
        event.span_count = xcvm_threads_record(s->kernel.threads, NULL, 0);
        event.spans = spans;
    }
    if (status == XCVM_OK && s->strict_types)
        status = check_types(s, pc);
    count_live(s, pc, released);
    if (step->action == XCVM_ACTION_FUSED && status == XCVM_OK && *next != pc + 1)
        count_fused(s, pc);
    if (status != XCVM_OK || observer->after == NULL)
        return status;
    event.flops = count_flops(s, pc);
    event.inputs = frees ? freed : event.inputs;
    event.output_count = instruction->out_count;
    event.outputs = (const xcvm_value *const *)(s->out + step->out_at);
    event.bytes_written = sum_bytes(event.outputs, event.output_count);
    event.live_bytes = live_bytes(s);
    return observer->after(observer->user, &event, s->kernel.error);
}
