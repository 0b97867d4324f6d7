/* Verification of states: their declarations, and that a run changes each in one way only, and in place only where
 * nothing can fail. */
#include "vm/verify.h"

#include <string.h>

static bool fits(const xcvm_type *type, const xcvm_value *value)
{
    bool same = value->kind == XCVM_KIND_TENSOR && value->dtype == type->dtype && value->rank == type->rank;
    for (int i = 0; same && i < type->rank; i++)
        same = type->dims[i] < 0 || type->dims[i] == value->dims[i];
    return same;
}

static xcvm_status check_declaration(xcvm_verifier *v, const xcvm_state_declaration *state)
{
    const xcvm_type *type = &state->declared.type;
    const char *name = state->declared.name;
    char text[256];
    XCVM_CHECK(
        v->error,
        type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_NO_DTYPE && type->dtype != XCVM_STRING && type->rank >= 0,
        INVALID_PROGRAM, "state \"%.100s\" has an unsupported type (%s; expected a tensor of numbers of known rank)",
        name, xcvm_type_describe(type, text, sizeof text));
    XCVM_CHECK(v->error, state->initial <= v->image->constant_count, INVALID_PROGRAM,
               "state \"%.100s\" begins with constant %u, but there are %zu constants", name, state->initial - 1,
               v->image->constant_count);
    if (state->initial == 0)
        return XCVM_OK;
    const xcvm_value *value = &v->image->constants[state->initial - 1].value;
    char given[192];
    XCVM_CHECK(v->error, fits(type, value), INVALID_PROGRAM, "state \"%.100s\" is declared as %s, but begins with %s",
               name, xcvm_type_describe(type, text, sizeof text), xcvm_value_describe(value, given, sizeof given));
    return XCVM_OK;
}

xcvm_status xcvm_verify_states(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    XCVM_CHECK(v->error, image->state_count < (size_t)INT32_MAX - image->output_count, INVALID_PROGRAM,
               "%zu states are too many", image->state_count);
    for (size_t i = 0; i < image->state_count; i++) {
        const char *name = image->states[i].declared.name;
        if (!xcvm_name_index_add(&v->states, &v->temporary, name, strlen(name), i))
            return xcvm_verifier_no_memory(v);
        XCVM_TRY(check_declaration(v, &image->states[i]));
    }
    xcvm_name_index_sort(&v->states);
    for (size_t i = 1; i < image->state_count; i++)
        XCVM_CHECK(v->error, strcmp(v->states.at[i - 1].text, v->states.at[i].text) != 0, INVALID_PROGRAM,
                   "two states are called \"%.100s\"", v->states.at[i].text);
    return XCVM_OK;
}

/* ---- The tail ---- */

static bool updates(const xcvm_verifier *v, size_t pc)
{
    return v->image->instructions[pc].schema->effect == XCVM_UPDATE;
}

static bool may_be_in_tail(const xcvm_verifier *v, size_t pc)
{
    const xcvm_action action = (xcvm_action)v->program->steps[pc].action;
    return action == XCVM_ACTION_LOAD || action == XCVM_ACTION_FREE || updates(v, pc);
}

/* Checks that from some instruction on there are only Loads, updates and Frees, in one basic block. */
static xcvm_status find_tail(xcvm_verifier *v, size_t first_update)
{
    xcvm_program *program = v->program;
    const size_t count = v->image->instruction_count;
    size_t tail = count;
    while (tail > 0 && may_be_in_tail(v, tail - 1))
        tail--;
    if (first_update < tail)
        return xcvm_verifier_fail(v, first_update, XCVM_INVALID_PROGRAM,
                                  "it updates states in place, and so only Load, Free and such instructions may "
                                  "follow it, but instruction %zu is %s",
                                  tail - 1, v->image->instructions[tail - 1].schema->name);
    for (uint32_t b = 0; b < v->block_count; b++) {
        const size_t begin = v->blocks[b].begin;
        if (begin > first_update && begin < count)
            return xcvm_verifier_fail(v, first_update, XCVM_INVALID_PROGRAM,
                                      "it updates states in place, but a jump leads to instruction %zu after it",
                                      begin);
        if (begin > tail && begin <= first_update)
            tail = begin;
    }
    program->tail = tail;
    return XCVM_OK;
}

/* Marks a register set before the tail and freed by it. */
#define GONE UINT32_MAX

/* Marks the states that an instruction of the tail writes. `loaded`: for each register, 1 + the state that the tail has
 * loaded into it; GONE; or 0. */
static xcvm_status mark_updated(xcvm_verifier *v, size_t pc, const uint32_t *loaded)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        const int32_t id = instruction->in[i];
        const xcvm_field *field = xcvm_operand_field(instruction, i);
        if (field->role != XCVM_ROLE_IN_STATE || id == 0)
            continue;
        if (id < 0 || loaded[id] == 0 || loaded[id] == GONE)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                      "operand %s is written, and so must be a state that the program's tail, from "
                                      "instruction %zu on, has loaded",
                                      field->name, v->program->tail);
        uint8_t *uses = &v->program->state_uses[loaded[id] - 1];
        if (*uses != 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "operand %s: state \"%.100s\" is changed twice",
                                      field->name, v->image->states[loaded[id] - 1].declared.name);
        *uses = XCVM_STATE_UPDATED | ((instruction->schema->classes & XCVM_CLASS_append) != 0 ? XCVM_STATE_FILLED : 0);
    }
    return XCVM_OK;
}

/* All registers are inferred before the tail's first kernel runs, so each must have one value throughout: a freed
 * register must not be loaded with another value. */
static xcvm_status follow_tail(xcvm_verifier *v)
{
    uint32_t *loaded = xcvm_verifier_allocate(v, v->program->register_count, sizeof *loaded);
    if (loaded == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t pc = v->program->tail; pc < v->image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &v->image->instructions[pc];
        const xcvm_step *step = &v->program->steps[pc];
        if (step->action == XCVM_ACTION_LOAD) {
            if (loaded[instruction->out[0]] == GONE)
                return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                          "it loads into a register that had another value in the program's tail, "
                                          "from instruction %zu on",
                                          v->program->tail);
            loaded[instruction->out[0]] = (uint32_t)step->target + 1;
        } else if (step->action == XCVM_ACTION_FREE) {
            loaded[instruction->in[0]] = GONE;
        } else {
            XCVM_TRY(mark_updated(v, pc, loaded));
        }
    }
    return XCVM_OK;
}

xcvm_status xcvm_verify_update(xcvm_verifier *v, uint32_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        const int32_t id = instruction->in[i];
        const xcvm_field *field = xcvm_operand_field(instruction, i);
        const uint32_t state = id > 0 ? v->types[id].state : 0;
        if (state == 0 || field->role == XCVM_ROLE_IN_STATE)
            continue;
        if (state == XCVM_SOME_STATE)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                      "operand %s may be one of several states or a view of it, and updates read no "
                                      "state that is updated; a copy can be read",
                                      field->name);
        if ((v->program->state_uses[state - 1] & XCVM_STATE_UPDATED) != 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                      "operand %s is state \"%.100s\" or a view of it, which is updated, and updates "
                                      "read no such state; a copy made before the program's tail can be read",
                                      field->name, v->image->states[state - 1].declared.name);
    }
    return XCVM_OK;
}

xcvm_status xcvm_verify_tail(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    const xcvm_image *image = v->image;
    const size_t count = image->instruction_count;
    program->tail = count;
    program->state_uses = xcvm_arena_allocate(&program->arena, image->state_count * sizeof *program->state_uses);
    if (program->state_uses == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t pc = 0; pc < count; pc++)
        if (program->steps[pc].action == XCVM_ACTION_OUT && (size_t)program->steps[pc].target >= image->output_count)
            program->state_uses[(size_t)program->steps[pc].target - image->output_count] = XCVM_STATE_STORED;
    for (size_t pc = 0; pc < count; pc++) {
        if (!updates(v, pc))
            continue;
        XCVM_TRY(find_tail(v, pc));
        return follow_tail(v);
    }
    return XCVM_OK;
}
