/* The run loop. */
#include "vm/session.h"
#include "base/clock.h"
#include "base/denormals.h"
#include "vm/options.h"

/* ---- Control instructions ---- */

static void run_in(xcvm_session *s, size_t pc)
{
    const xcvm_step *step = &s->program->steps[pc];
    xcvm_value *v = s->out[step->out_at];
    *v = s->inputs[step->target];
    v->memory_kind = XCVM_MEMORY_BORROWED;
    v->storage = NULL;
    xcvm_session_validate_input(s, pc);
}

/* Checks that a stored value has the declared type of its state. */
static xcvm_status check_stored_type(const xcvm_session *s, size_t index, const xcvm_value *v)
{
    const xcvm_value_info *state = xcvm_program_result(s->program, index);
    const xcvm_status status = xcvm_type_match(&state->type, v);
    char declared[256], given[192];
    if (status != XCVM_OK)
        return xcvm_error_set(s->kernel.error, status, "state \"%.100s\" is declared as %s, but %s is stored",
                              state->name, xcvm_type_describe(&state->type, declared, sizeof declared),
                              xcvm_value_describe(v, given, sizeof given));
    return XCVM_OK;
}

static xcvm_status check_bound_type(const xcvm_session *s, size_t index, const xcvm_value *v)
{
    const xcvm_value *target = &s->bound_outputs[index];
    char bound[192], given[192];
    bool same_type = v->kind == XCVM_KIND_TENSOR && v->dtype == target->dtype;
    if (!same_type || !xcvm_same_shape(v, target))
        return xcvm_error_set(s->kernel.error, same_type ? XCVM_SHAPE_MISMATCH : XCVM_TYPE_MISMATCH,
                              "output \"%.100s\" is %s, but the tensor bound to it is %s",
                              xcvm_program_result(s->program, index)->name, xcvm_value_describe(v, given, sizeof given),
                              xcvm_value_describe(target, bound, sizeof bound));
    return XCVM_OK;
}

static void expose_bound(xcvm_session *s, size_t index)
{
    xcvm_value_clear(&s->outputs[index]);
    xcvm_value_share(&s->outputs[index], &s->bound_outputs[index]);
}

/* Copies a result that was computed elsewhere, after a successful run. Must not fail. */
static void fill_staged(xcvm_session *s, size_t index)
{
    const xcvm_value *v = &s->outputs[index];
    if (v->bytes > 0)
        memcpy(s->bound_outputs[index].data, v->data, v->bytes);
    expose_bound(s, index);
}

static xcvm_status run_out(xcvm_session *s, size_t pc)
{
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_value *v = s->in[step->in_at];
    const size_t index = (size_t)step->target;
    const bool is_state = index >= s->program->image.output_count;
    if (is_state)
        XCVM_TRY(check_stored_type(s, index, v));
    if (s->bound_outputs[index].kind != XCVM_KIND_NULL) {
        XCVM_TRY(check_bound_type(s, index, v));
        if (!s->staged[index]) {
            xcvm_value *target = &s->bound_outputs[index];
            if (v->data != target->data)
                XCVM_TRY(xcvm_kernel_copy(&s->kernel, target->data, v->data, v->bytes));
            expose_bound(s, index);
            return XCVM_OK;
        }
    }
    /* A slot used for an output is not reused until the end of the run, but a state lives longer. */
    if (v->memory_kind == XCVM_MEMORY_ARENA && !is_state)
        xcvm_value_share(&s->outputs[index], v);
    else
        XCVM_TRY(xcvm_kernel_keep(&s->kernel, &s->outputs[index], v));
    return XCVM_OK;
}

static xcvm_status test_condition(xcvm_session *s, size_t pc, bool *condition)
{
    const xcvm_value *v = s->in[s->program->steps[pc].in_at];
    char text[192];
    XCVM_CHECK(s->kernel.error, v->kind == XCVM_KIND_TENSOR && v->dtype == XCVM_BOOL, TYPE_MISMATCH,
               "cond has the wrong type (%s; expected a bool tensor)", xcvm_value_describe(v, text, sizeof text));
    int64_t value;
    XCVM_TRY(xcvm_read_int(s->kernel.error, v, "cond", &value));
    *condition = value != 0;
    return XCVM_OK;
}

/* ---- One instruction ---- */

static inline xcvm_status run_kernel(xcvm_session *s, size_t pc, const xcvm_step *step)
{
    s->kernel.last_use = step->last_use;
    if (s->shapes_valid[pc] == XCVM_ALLOCATED)
        return step->run(&s->kernel, s->args + step->args_offset);
    XCVM_TRY(xcvm_session_prepare(s, pc));
    XCVM_TRY(step->run(&s->kernel, s->args + step->args_offset));
    return s->shapes_valid[pc] == XCVM_INVALID_SHAPES ? xcvm_session_check_results(s, pc) : XCVM_OK;
}

static inline xcvm_status execute(xcvm_session *s, size_t pc, size_t *next)
{
    const xcvm_step *step = &s->program->steps[pc];
    bool condition;
    switch ((xcvm_action)step->action) {
    case XCVM_ACTION_KERNEL:
        return run_kernel(s, pc, step);
    case XCVM_ACTION_FREE:
        xcvm_session_release(&s->registers[s->program->image.instructions[pc].in[0]]);
        return XCVM_OK;
    case XCVM_ACTION_IN:
        run_in(s, pc);
        return XCVM_OK;
    case XCVM_ACTION_OUT:
        return run_out(s, pc);
    case XCVM_ACTION_LOAD:
        xcvm_session_load_state(s, pc);
        return XCVM_OK;
    case XCVM_ACTION_JUMP:
        *next = (size_t)step->target;
        return XCVM_OK;
    case XCVM_ACTION_JUMP_TRUE:
    case XCVM_ACTION_JUMP_FALSE:
        XCVM_TRY(test_condition(s, pc, &condition));
        if (condition == (step->action == XCVM_ACTION_JUMP_TRUE))
            *next = (size_t)step->target;
        return XCVM_OK;
    case XCVM_ACTION_FUSED:
        return xcvm_session_run_fused(s, pc, next);
    }
    return XCVM_OK;
}

xcvm_status xcvm_session_step(xcvm_session *s, size_t pc, size_t *next) { return execute(s, pc, next); }

/* ---- The loop ---- */

/* Runs the tail, in which nothing can fail and no observer can stop the run. */
static xcvm_status run_tail(xcvm_session *s, bool limited, uint64_t fuel)
{
    const size_t end = s->program->image.instruction_count;
    size_t pc = s->program->tail, next;
    xcvm_status status = XCVM_OK;
    if (limited && fuel < end - pc)
        status = xcvm_error_set(s->kernel.error, XCVM_OUT_OF_TIME, "the fuel is used up");
    if (status == XCVM_OK)
        status = xcvm_session_enter_tail(s, &pc);
    if (status != XCVM_OK) {
        xcvm_error_locate(s->kernel.error, &s->program->image, pc);
        return status;
    }
    for (pc = s->program->tail; pc < end; pc = next) {
        next = pc + 1;
        (void)(s->observed ? xcvm_session_observe(s, pc, &next) : execute(s, pc, &next));
    }
    return XCVM_OK;
}

static xcvm_status run_loop(xcvm_session *s, uint64_t fuel)
{
    const size_t end = s->program->image.instruction_count, stop = xcvm_min(s->program->tail, end);
    const bool limited = fuel != 0;
    for (size_t pc = 0, next;; pc = next) {
        xcvm_status status = XCVM_OK;
        if (__atomic_load_n(s->kernel.cancelled, __ATOMIC_RELAXED) != 0 || s->kernel.deadline_ns != 0)
            status = xcvm_kernel_poll(&s->kernel);
        if (status == XCVM_OK && pc >= stop)
            return stop < end ? run_tail(s, limited, fuel) : XCVM_OK;
        if (status == XCVM_OK && limited && fuel-- == 0)
            status = xcvm_error_set(s->kernel.error, XCVM_OUT_OF_TIME, "the fuel is used up");
        next = pc + 1;
        if (status == XCVM_OK && s->program->steps[pc].entry != 0)
            xcvm_session_enter(s, s->program->steps[pc].entry - 1);
        if (status == XCVM_OK)
            status = s->observed ? xcvm_session_observe(s, pc, &next) : execute(s, pc, &next);
        if (status != XCVM_OK) {
            xcvm_error_locate(s->kernel.error, &s->program->image, pc);
            return status;
        }
    }
}

/* ---- Begin and end ---- */

void xcvm_session_forget_results(xcvm_session *s)
{
    s->has_results = false;
    for (size_t i = 0; i < xcvm_program_result_count(s->program); i++)
        xcvm_value_clear(&s->outputs[i]);
}

void xcvm_session_begin(xcvm_session *s, uint64_t timeout_ns, xcvm_error *error)
{
    xcvm_kernel *k = &s->kernel;
    k->error = error;
    k->cancelled = s->cancelled_by != NULL ? s->cancelled_by : &s->cancelled;
    k->deadline_ns = xcvm_clock_deadline(timeout_ns);
    /* Cleared, so that the status in it shows whether a kernel has written a message. */
    xcvm_error_set(error, XCVM_OK, "%s", "");
}

void xcvm_session_end(xcvm_session *s, xcvm_status status)
{
    s->kernel.error = NULL;
    xcvm_reducer_abandon(&s->kernel.reducer, s->kernel.heap);
    if (status == XCVM_CANCELLED)
        __atomic_store_n(&s->cancelled, 0, __ATOMIC_RELAXED);
}

static void keep_results(xcvm_session *s)
{
    const xcvm_program *program = s->program;
    for (size_t i = 0; i < program->image.output_count; i++)
        if (s->staged[i])
            fill_staged(s, i);
    xcvm_session_commit_states(s);
    for (size_t i = 0; i < program->live_at_exit_count; i++)
        xcvm_session_release(&s->registers[program->live_at_exit[i]]);
    s->has_results = true;
}

static void drop_all(xcvm_session *s)
{
    for (size_t i = 0; i < s->program->register_count; i++)
        xcvm_value_clear(&s->registers[i]);
    xcvm_session_forget_results(s);
    xcvm_session_invalidate(s);
}

xcvm_status xcvm_session_run(xcvm_session *session, const xcvm_run_options *options, xcvm_error *error)
{
    xcvm_run_options o;
    XCVM_CHECK(error, session != NULL, INVALID_ARGUMENT, "session is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    xcvm_session_forget_results(session);
    XCVM_TRY(xcvm_session_begin_states(session, error));
    if (session->bindings_dirty || session->bound_outputs_dirty)
        XCVM_TRY(xcvm_session_check_bindings(session, error));
    xcvm_session_begin(session, o.timeout_ns, error);
    session->arena_live_bytes = 0;
    uint64_t *const random = session->kernel.random, random_before = random != NULL ? *random : 0;
    const uint64_t denormals = xcvm_denormals_set(session->flush_subnormals);
    xcvm_status status = run_loop(session, o.fuel);
    xcvm_denormals_restore(denormals);
    if (status == XCVM_OK) {
        keep_results(session);
    } else {
        drop_all(session);
        if (random != NULL)
            *random = random_before; /* as the states, so that the run can be repeated */
    }
    xcvm_session_end(session, status);
    return status;
}
