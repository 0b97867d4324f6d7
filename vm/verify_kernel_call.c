/* Verification of KernelCall instructions and the unfused instructions that they replace. */
#include "vm/verify.h"

typedef struct range {
    size_t pc; /* of the KernelCall instruction */
    const xcvm_KernelCall_args *args;
    size_t end;       /* after the last unfused instruction */
    uint32_t *writer; /* for each register: 1 + the instruction in the range that set it; 0: none */
} range;

static xcvm_status check_numbers(xcvm_verifier *v, const range *r)
{
    const xcvm_KernelCall_args *a = r->args;
    const xcvm_instruction *instruction = &v->image->instructions[r->pc];
    if ((uint64_t)a->library >= v->image->library_count)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "there is no library %lld; the program names %zu",
                                  (long long)a->library, v->image->library_count);
    if ((uint64_t)a->count >= v->image->instruction_count - r->pc)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "it replaces %lld instructions, but only %zu follow",
                                  (long long)a->count, v->image->instruction_count - r->pc - 1);
    if (instruction->in_count > XCVM_FUSED_OPERANDS || a->results.count > XCVM_FUSED_OPERANDS)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "more than %d operands or results",
                                  XCVM_FUSED_OPERANDS);
    if (a->elements.count != instruction->in_count + a->results.count)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM,
                                  "elements has %zu entries, not one for each of xs and "
                                  "the results, which are %zu",
                                  a->elements.count, instruction->in_count + a->results.count);
    for (size_t i = 0; i < a->results.count; i++)
        if (a->results.at[i] >= a->count || (i > 0 && a->results.at[i] <= a->results.at[i - 1]))
            return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM,
                                      "results are to be ascending and less than %lld, the number of instructions",
                                      (long long)a->count);
    return XCVM_OK;
}

static bool is_result(const range *r, size_t number)
{
    const xcvm_ints results = r->args->results;
    size_t low = 0, high = results.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((size_t)results.at[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < results.count && (size_t)results.at[low] == number;
}

static xcvm_status check_kernel(xcvm_verifier *v, range *r, size_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    bool one_result = instruction->out_count > 0 && instruction->out[0] > 0;
    for (uint32_t i = 1; i < instruction->out_count; i++)
        one_result = one_result && instruction->out[i] == 0;
    if (instruction->schema->effect != XCVM_PURE || !one_result)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "it cannot stand for instruction %zu, %s", pc,
                                  instruction->schema->name);
    r->writer[instruction->out[0]] = (uint32_t)(pc - r->pc);
    return XCVM_OK;
}

static xcvm_status check_free(xcvm_verifier *v, range *r, size_t pc)
{
    int32_t id = v->image->instructions[pc].in[0];
    if (r->writer[id] == 0 || is_result(r, r->writer[id] - 1))
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM,
                                  "instruction %zu, one of those it replaces, frees $%d, which is %s", pc, (int)id,
                                  r->writer[id] == 0 ? "from before" : "one of its results");
    r->writer[id] = 0;
    return XCVM_OK;
}

/* Checks that every register still set is a result, and clears the table for the next range. */
static xcvm_status check_left(xcvm_verifier *v, range *r)
{
    size_t left = 0;
    for (size_t pc = r->pc + 1; pc < r->end; pc++) {
        const xcvm_instruction *instruction = &v->image->instructions[pc];
        if (v->program->steps[pc].action != XCVM_ACTION_KERNEL || r->writer[instruction->out[0]] != pc - r->pc)
            continue;
        r->writer[instruction->out[0]] = 0;
        left++;
        if (!is_result(r, pc - r->pc - 1))
            return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM,
                                      "instruction %zu, one of those it replaces, leaves $%d set, which is none of its "
                                      "results",
                                      pc, (int)instruction->out[0]);
    }
    if (left != r->args->results.count)
        return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "%zu results are named, but %zu of them are made",
                                  r->args->results.count, left);
    return XCVM_OK;
}

static xcvm_status check_range(xcvm_verifier *v, range *r)
{
    for (size_t pc = r->pc + 1; pc < r->end; pc++)
        switch (v->program->steps[pc].action) {
        case XCVM_ACTION_KERNEL:
            XCVM_TRY(check_kernel(v, r, pc));
            break;
        case XCVM_ACTION_FREE:
            XCVM_TRY(check_free(v, r, pc));
            break;
        default:
            return xcvm_verifier_fail(v, r->pc, XCVM_INVALID_PROGRAM, "it cannot stand for instruction %zu, %s", pc,
                                      v->image->instructions[pc].schema->name);
        }
    return check_left(v, r);
}

xcvm_status xcvm_verify_kernel_calls(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    if (program->fused_count == 0)
        return XCVM_OK;
    program->fused = xcvm_arena_allocate(&program->arena, program->fused_count * sizeof *program->fused);
    if (program->fused == NULL)
        return xcvm_verifier_no_memory(v);
    range r = {.writer = xcvm_verifier_allocate(v, program->register_count, sizeof *r.writer)};
    if (r.writer == NULL)
        return XCVM_OUT_OF_MEMORY;
    size_t at = 0;
    uint32_t block = 0;
    for (size_t pc = 0; pc < v->image->instruction_count; pc++) {
        xcvm_step *step = &program->steps[pc];
        if (step->action != XCVM_ACTION_FUSED)
            continue;
        r.pc = pc;
        r.args = v->image->instructions[pc].args;
        XCVM_TRY(check_numbers(v, &r));
        r.end = pc + 1 + (size_t)r.args->count;
        while (v->blocks[block].end <= pc)
            block++;
        if (r.end > v->blocks[block].end)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                      "a jump leads into or out of the %lld instructions that it replaces",
                                      (long long)r.args->count);
        XCVM_TRY(check_range(v, &r));
        step->target = (int32_t)at;
        program->fused[at++] = (xcvm_fused){.library = (uint32_t)r.args->library,
                                            .kernel = (uint32_t)r.args->kernel,
                                            .count = (uint32_t)r.args->count,
                                            .in_count = v->image->instructions[pc].in_count,
                                            .out_count = (uint32_t)r.args->results.count,
                                            .results = r.args->results.at,
                                            .elements = r.args->elements.at};
        pc = r.end - 1;
    }
    return XCVM_OK;
}
