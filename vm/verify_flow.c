/* Data flow: set registers and their types along every path. The set of live registers must be equal on all paths to an
 * instruction, so one visit per block proves it. Types may differ and are iterated to a fixed point. */
#include "vm/verify.h"

#include <string.h>

enum {
    /* Passes over all blocks after which types that still change become unknown. Loops of real programs need two passes
     * more than their nesting depth. */
    PASS_LIMIT = 16,
    /* Limit of entries kept at jump targets, so that a small program cannot require much memory. */
    STATE_LIMIT = 1 << 22,
    STATE_LIMIT_PER_INSTRUCTION = 64
};

static bool is_output(const xcvm_verifier *v, uint32_t id) { return id >= v->program->register_count; }

static const char *output_name(const xcvm_verifier *v, uint32_t id)
{
    return xcvm_program_result(v->program, id - v->program->register_count)->name;
}

static const char *output_word(const xcvm_verifier *v, uint32_t id)
{
    return xcvm_program_result_word(v->program, id - v->program->register_count);
}

static void set(xcvm_verifier *v, uint32_t id)
{
    v->live[v->live_count++] = id;
    v->position[id] = v->live_count;
}

static void unset(xcvm_verifier *v, uint32_t id)
{
    uint32_t last = v->live[--v->live_count];
    v->live[v->position[id] - 1] = last;
    v->position[last] = v->position[id];
    v->position[id] = 0;
}

static void enter(xcvm_verifier *v, const xcvm_block *block)
{
    while (v->live_count > 0)
        v->position[v->live[--v->live_count]] = 0;
    for (uint32_t i = 0; i < block->live_count; i++) {
        set(v, block->live[i].id);
        v->types[block->live[i].id] = block->live[i].type;
    }
    if (v->taken_words > 0)
        memcpy(v->taken, block->inputs, v->taken_words * sizeof *v->taken);
}

/* Fails with the difference between the two states at the entry of `block`. */
static xcvm_status fail_different(xcvm_verifier *v, const xcvm_block *block)
{
    uint32_t id = UINT32_MAX;
    for (uint32_t i = 0; i < block->live_count && id == UINT32_MAX; i++)
        if (v->position[block->live[i].id] == 0)
            id = block->live[i].id;
    if (id == UINT32_MAX) {
        for (uint32_t i = 0; i < block->live_count; i++)
            v->position[block->live[i].id] = 0;
        for (uint32_t i = 0; i < v->live_count && id == UINT32_MAX; i++)
            if (v->position[v->live[i]] != 0)
                id = v->live[i];
    }
    const char *where = block->begin < v->image->instruction_count ? "this instruction" : "the end of the program";
    if (is_output(v, id))
        return xcvm_verifier_fail(v, block->begin, XCVM_INVALID_PROGRAM,
                                  "%s \"%.100s\" is given on one path to %s, but not on another", output_word(v, id),
                                  output_name(v, id), where);
    return xcvm_verifier_fail(v, block->begin, XCVM_INVALID_PROGRAM, "$%u is set on one path to %s, but not on another",
                              (unsigned)id, where);
}

static xcvm_status store(xcvm_verifier *v, xcvm_block *block)
{
    size_t limit = STATE_LIMIT + STATE_LIMIT_PER_INSTRUCTION * v->image->instruction_count;
    v->state_size += v->live_count + v->taken_words;
    XCVM_CHECK(v->error, v->state_size <= limit, UNSUPPORTED,
               "the program has too many jump targets with too many registers set");
    block->live = xcvm_verifier_allocate(v, v->live_count, sizeof *block->live);
    block->inputs = block->live != NULL ? xcvm_verifier_allocate(v, v->taken_words, sizeof *block->inputs) : NULL;
    if (block->inputs == NULL)
        return XCVM_OUT_OF_MEMORY;
    block->live_count = v->live_count;
    for (uint32_t i = 0; i < v->live_count; i++)
        block->live[i] = (xcvm_live){v->live[i], v->types[v->live[i]]};
    if (v->taken_words > 0)
        memcpy(block->inputs, v->taken, v->taken_words * sizeof *v->taken);
    block->entered = true;
    return XCVM_OK;
}

/* Merges the current state into the entry of `block`. */
static xcvm_status flow_into(xcvm_verifier *v, xcvm_block *block, bool *changed)
{
    if (!block->entered)
        return store(v, block);
    if (block->live_count != v->live_count)
        return fail_different(v, block);
    for (uint32_t i = 0; i < block->live_count; i++) {
        xcvm_live *known = &block->live[i];
        if (v->position[known->id] == 0)
            return fail_different(v, block);
        const xcvm_static_type type = v->types[known->id];
        const uint32_t state = xcvm_either_state(known->type.state, type.state);
        if (known->type.kind != type.kind && known->type.kind != XCVM_KIND_UNKNOWN) {
            known->type = (xcvm_static_type){XCVM_KIND_UNKNOWN, XCVM_NO_DTYPE, known->type.state};
            *changed = true;
        }
        if (known->type.state != state) {
            known->type.state = state;
            *changed = true;
        }
        if (known->type.dtype != type.dtype && known->type.dtype != XCVM_NO_DTYPE) {
            known->type.dtype = XCVM_NO_DTYPE;
            *changed = true;
        }
    }
    for (size_t i = 0; i < v->taken_words; i++) {
        *changed = *changed || (v->taken[i] & ~block->inputs[i]) != 0;
        block->inputs[i] |= v->taken[i];
    }
    return XCVM_OK;
}

static xcvm_status execute(xcvm_verifier *v, uint32_t pc, bool report)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const xcvm_step *step = &v->program->steps[pc];
    for (uint32_t i = 0; i < instruction->in_count; i++)
        if (instruction->in[i] > 0 && v->position[instruction->in[i]] == 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "%s %s is $%d, which is not set here",
                                      step->action == XCVM_ACTION_FREE ? "freed" : "operand",
                                      xcvm_operand_field(instruction, i)->name, (int)instruction->in[i]);
    if (report && instruction->schema->effect == XCVM_UPDATE)
        XCVM_TRY(xcvm_verify_update(v, pc));
    XCVM_TRY(xcvm_verify_types(v, pc, report));
    if (step->action == XCVM_ACTION_FREE) {
        unset(v, (uint32_t)instruction->in[0]);
    } else if (step->action == XCVM_ACTION_OUT) {
        uint32_t id = (uint32_t)v->program->register_count + (uint32_t)step->target;
        if (v->position[id] != 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "%s \"%.100s\" is given a second time",
                                      output_word(v, id), output_name(v, id));
        set(v, id);
    } else if (step->action == XCVM_ACTION_IN) {
        uint64_t bit = UINT64_C(1) << (step->target % 64);
        if (report && (v->taken[step->target / 64] & bit) != 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "input \"%.100s\" is taken a second time",
                                      v->image->inputs[step->target].name);
        v->taken[step->target / 64] |= bit;
    }
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (instruction->out[i] == 0)
            continue;
        if (v->position[instruction->out[i]] != 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                      "result %u is written to $%d, which is still set; Free it first", (unsigned)i,
                                      (int)instruction->out[i]);
        set(v, (uint32_t)instruction->out[i]);
    }
    return XCVM_OK;
}

/* Visits all blocks once. *changed: the entry of an already visited block changed. */
static xcvm_status pass(xcvm_verifier *v, bool report, bool *changed)
{
    for (uint32_t i = 0; i < v->order_count; i++) {
        const xcvm_block *block = &v->blocks[v->order[i]];
        enter(v, block);
        for (uint32_t pc = block->begin; pc < block->end; pc++)
            XCVM_TRY(execute(v, pc, report));
        for (uint32_t n = 0; n < block->next_count; n++) {
            bool entry_changed = false;
            xcvm_block *next = &v->blocks[block->next[n]];
            XCVM_TRY(flow_into(v, next, &entry_changed));
            *changed = *changed || (entry_changed && next->order <= i);
        }
    }
    return XCVM_OK;
}

/* Makes all kinds and element types unknown, so that one more pass reaches the fixed point. States that values may
 * share are kept; if they still change, the program is refused. */
static void forget_types(xcvm_verifier *v)
{
    for (uint32_t b = 0; b < v->block_count; b++)
        for (uint32_t i = 0; i < v->blocks[b].live_count; i++) {
            xcvm_static_type *type = &v->blocks[b].live[i].type;
            *type = (xcvm_static_type){XCVM_KIND_UNKNOWN, XCVM_NO_DTYPE, type->state};
        }
}

/* Checks the registers and outputs set at program end: every output must be set, and the VM clears the registers. */
static xcvm_status leave(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    const xcvm_block *end = &v->blocks[v->block_count - 1];
    if (!end->entered)
        return XCVM_OK;
    enter(v, end);
    for (uint32_t i = 0; i < v->image->output_count; i++)
        XCVM_CHECK(v->error, v->position[program->register_count + i] != 0, INVALID_PROGRAM,
                   "the program never gives its output \"%.100s\"", v->image->outputs[i].name);
    program->live_at_exit = xcvm_arena_allocate(&program->arena, v->live_count * sizeof *program->live_at_exit);
    if (program->live_at_exit == NULL)
        return xcvm_verifier_no_memory(v);
    for (uint32_t i = 0; i < v->live_count; i++)
        if (!is_output(v, v->live[i]))
            program->live_at_exit[program->live_at_exit_count++] = (int32_t)v->live[i];
    return XCVM_OK;
}

xcvm_status xcvm_verify_flow(xcvm_verifier *v)
{
    size_t ids = v->program->register_count + xcvm_program_result_count(v->program);
    XCVM_CHECK(v->error, ids < UINT32_MAX, INVALID_PROGRAM, "there are too many registers");
    v->taken_words = (v->image->input_count + 63) / 64;
    v->live = xcvm_verifier_allocate(v, ids, sizeof *v->live);
    v->position = v->live != NULL ? xcvm_verifier_allocate(v, ids, sizeof *v->position) : NULL;
    v->types = v->position != NULL ? xcvm_verifier_allocate(v, ids, sizeof *v->types) : NULL;
    v->taken = v->types != NULL ? xcvm_verifier_allocate(v, v->taken_words, sizeof *v->taken) : NULL;
    if (v->taken == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(store(v, &v->blocks[0]));
    bool changed = v->program->has_jumps;
    for (int i = 0; changed && i < PASS_LIMIT; i++) {
        changed = false;
        XCVM_TRY(pass(v, false, &changed));
    }
    if (changed) {
        forget_types(v);
        changed = false;
        XCVM_TRY(pass(v, false, &changed));
        XCVM_CHECK(v->error, !changed, UNSUPPORTED, "the program's jumps are too entangled to be verified");
    }
    XCVM_TRY(pass(v, true, &changed));
    return leave(v);
}
