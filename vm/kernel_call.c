/* Execution of KernelCall instructions: calls functions of a kernel library instead of unfused instructions. The
 * registers end in the same state, including types and memory, so no other code depends on the choice. */
#include "vm/session.h"

typedef struct call {
    const xcvm_library_kernel *function;
    const float *xs[XCVM_FUSED_OPERANDS];
    float *results[XCVM_FUSED_OPERANDS];
} call;

static bool has_elements(const xcvm_value *v, int64_t elements)
{
    return v != NULL && v->kind == XCVM_KIND_TENSOR && v->dtype == XCVM_F32 && elements >= 0 &&
           v->bytes / sizeof(float) == (uint64_t)elements;
}

/* If the sizes differ from those at compilation, the unfused instructions run. */
static bool take_operands(const xcvm_session *s, const xcvm_step *step, const xcvm_fused *f, call *c)
{
    for (uint32_t i = 0; i < f->in_count; i++) {
        const xcvm_value *v = s->in[step->in_at + i];
        if (!has_elements(v, f->elements[i]))
            return false;
        c->xs[i] = v->data;
    }
    return true;
}

/* Sets types and memory of all results, including registers that Frees clear. *lasting: they stay valid in later runs.
 */
static xcvm_status prepare(xcvm_session *s, size_t first, size_t end, bool *lasting)
{
    *lasting = true;
    for (size_t pc = first; pc < end; pc++) {
        const xcvm_step *step = &s->program->steps[pc];
        if (step->action == XCVM_ACTION_FREE) {
            xcvm_session_release(&s->registers[s->program->image.instructions[pc].in[0]]);
            continue;
        }
        s->kernel.last_use = step->last_use;
        if (s->shapes_valid[pc] != XCVM_ALLOCATED)
            XCVM_TRY(xcvm_session_prepare(s, pc));
        *lasting = *lasting && s->shapes_valid[pc] == XCVM_ALLOCATED;
    }
    return XCVM_OK;
}

/* Returns true if the function can write its results in place. Unfused instructions may reuse the memory of an operand
 * or of its view after its last use, but a function may read some operands until its end. */
static bool is_apart(const xcvm_fused *f, const call *c)
{
    for (uint32_t i = 0; i < f->out_count; i++)
        for (uint32_t j = 0; j < f->in_count; j++) {
            const float *result = c->results[i], *x = c->xs[j];
            const int64_t result_count = f->elements[f->in_count + i], x_count = f->elements[j];
            bool apart =
                (uintptr_t)(result + result_count) <= (uintptr_t)x || (uintptr_t)(x + x_count) <= (uintptr_t)result;
            bool same = i + 1 == f->out_count && result == x && result_count == x_count &&
                        (c->function->in_place >> j & 1) != 0;
            if (!apart && !same)
                return false;
        }
    return true;
}

/* Undoes `prepare`, so that the unfused instructions can start again. */
static void roll_back(xcvm_session *s, size_t first, size_t end)
{
    for (size_t pc = first; pc < end; pc++)
        if (s->program->steps[pc].action != XCVM_ACTION_FREE)
            xcvm_session_release(s->out[s->program->steps[pc].out_at]);
}

static void run_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    const call *c = context;
    c->function->run(c->xs, c->results, begin, end);
}

xcvm_status xcvm_session_run_fused(xcvm_session *s, size_t pc, size_t *next)
{
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_fused *f = &s->program->fused[step->target];
    call c;
    c.function = f->function;
    if (f->function == NULL || !take_operands(s, step, f, &c))
        return XCVM_OK;
    const size_t end = pc + 1 + f->count;
    if (s->shapes_valid[pc] != XCVM_ALLOCATED) {
        bool lasting;
        XCVM_TRY(prepare(s, pc + 1, end, &lasting));
        if (lasting)
            s->shapes_valid[pc] = XCVM_ALLOCATED;
    }
    for (uint32_t i = 0; i < f->out_count; i++) {
        const xcvm_value *v = s->out[s->program->steps[pc + 1 + (size_t)f->results[i]].out_at];
        XCVM_CHECK(s->kernel.error, has_elements(v, f->elements[f->in_count + i]), INVALID_PROGRAM,
                   "the kernel library was made for other sizes: result %u has %zu bytes, %lld elements are expected",
                   i, v->bytes, (long long)f->elements[f->in_count + i]);
        c.results[i] = v->data;
    }
    if (!is_apart(f, &c)) {
        roll_back(s, pc + 1, end);
        return XCVM_OK;
    }
    XCVM_TRY(xcvm_kernel_parallel(&s->kernel, f->function->extent, f->function->grain, run_range, &c));
    *next = end;
    return XCVM_OK;
}
