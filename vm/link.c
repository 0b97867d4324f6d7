/* Linking: gives each instruction its kernel for this CPU, its jump target, input or output, and its positions in a
 * session. Also links input dimensions that must agree. */
#include "vm/verify.h"
#include "ops/table/table.h"

#include <string.h>

static xcvm_status find_parameter(xcvm_verifier *v, size_t pc, const xcvm_name_index *names, const char *what,
                                  xcvm_text name)
{
    const xcvm_indexed_name *found;
    if (xcvm_name_index_find(names, name.at, name.length, &found) == 0)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "the program declares no %s \"%.100s\"", what, name.at);
    v->program->steps[pc].target = (int32_t)found->number;
    return XCVM_OK;
}

/* Sets the action of an instruction, its kernel and its target. */
static xcvm_status link_step(xcvm_verifier *v, size_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const void *args = instruction->args;
    xcvm_step *step = &v->program->steps[pc];
    int64_t target = 0;
    switch (instruction->schema->opcode) {
    case XCVM_OP_In:
        step->action = XCVM_ACTION_IN;
        return find_parameter(v, pc, &v->inputs, "input", ((const xcvm_In_args *)args)->name);
    case XCVM_OP_Out:
        step->action = XCVM_ACTION_OUT;
        return find_parameter(v, pc, &v->outputs, "output", ((const xcvm_Out_args *)args)->name);
    case XCVM_OP_Load:
        step->action = XCVM_ACTION_LOAD;
        return find_parameter(v, pc, &v->states, "state", ((const xcvm_Load_args *)args)->name);
    case XCVM_OP_Store:
        step->action = XCVM_ACTION_OUT;
        XCVM_TRY(find_parameter(v, pc, &v->states, "state", ((const xcvm_Store_args *)args)->name));
        step->target += (int32_t)v->image->output_count;
        return XCVM_OK;
    case XCVM_OP_Free:
        step->action = XCVM_ACTION_FREE;
        if (instruction->in[0] <= 0)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "a constant cannot be freed");
        return XCVM_OK;
    case XCVM_OP_Jmp:
        step->action = XCVM_ACTION_JUMP;
        target = ((const xcvm_Jmp_args *)args)->to;
        break;
    case XCVM_OP_JmpTrue:
        step->action = XCVM_ACTION_JUMP_TRUE;
        target = ((const xcvm_JmpTrue_args *)args)->to;
        break;
    case XCVM_OP_JmpFalse:
        step->action = XCVM_ACTION_JUMP_FALSE;
        target = ((const xcvm_JmpFalse_args *)args)->to;
        break;
    case XCVM_OP_KernelCall:
        step->action = XCVM_ACTION_FUSED;
        v->program->fused_count++;
        return XCVM_OK;
    default:
        step->action = XCVM_ACTION_KERNEL;
        step->run = xcvm_kernel_for(instruction->schema->opcode, v->program->isa);
        if (step->run == NULL || instruction->schema->shape == NULL)
            return xcvm_verifier_fail(v, pc, XCVM_UNSUPPORTED, "this build has no kernel for %s",
                                      instruction->schema->name);
        return XCVM_OK;
    }
    if (target < 0 || (uint64_t)target > v->image->instruction_count)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                  "the jump leads to instruction %lld, but there are %zu instructions",
                                  (long long)target, v->image->instruction_count);
    step->target = (int32_t)target;
    v->program->has_jumps = true;
    return XCVM_OK;
}

static void place_operands(xcvm_program *program, size_t pc)
{
    const xcvm_instruction *instruction = &program->image.instructions[pc];
    xcvm_step *step = &program->steps[pc];
    step->args_offset = program->args_bytes;
    if (step->action == XCVM_ACTION_KERNEL)
        program->args_bytes += xcvm_round_up(instruction->schema->args_size, 16);
    step->in_at = program->in_count;
    step->out_at = program->out_count;
    program->in_count += instruction->in_count;
    program->out_count += instruction->out_count;
}

static xcvm_status make_no_names(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    size_t most_results = 0;
    for (size_t pc = 0; pc < v->image->instruction_count; pc++)
        if (v->image->instructions[pc].out_count > most_results)
            most_results = v->image->instructions[pc].out_count;
    program->no_names = xcvm_arena_allocate(&program->arena, most_results * sizeof *program->no_names);
    if (program->no_names == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t i = 0; i < most_results; i++)
        program->no_names[i] = "";
    return XCVM_OK;
}

xcvm_status xcvm_link_steps(xcvm_verifier *v)
{
    const size_t count = v->image->instruction_count;
    xcvm_program *program = v->program;
    program->steps = xcvm_arena_allocate(&program->arena, count * sizeof *program->steps);
    if (program->steps == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t pc = 0; pc < count; pc++) {
        program->steps[pc].target = -1;
        XCVM_TRY(link_step(v, pc));
        place_operands(program, pc);
    }
    return make_no_names(v);
}

/* ---- Input dimensions that must agree ---- */

static xcvm_status collect_dims(xcvm_verifier *v, xcvm_name_index *dims)
{
    const xcvm_image *image = v->image;
    for (size_t i = 0; i < image->input_count; i++) {
        const xcvm_type *type = &image->inputs[i].type;
        for (int d = 0; type->kind == XCVM_KIND_TENSOR && d < type->rank; d++) {
            const char *name = type->dims[d] < 0 ? type->dim_names[d] : NULL;
            if (name != NULL &&
                !xcvm_name_index_add(dims, &v->temporary, name, strlen(name), i * XCVM_MAX_RANK + (size_t)d))
                return xcvm_verifier_no_memory(v);
        }
    }
    xcvm_name_index_sort(dims);
    return XCVM_OK;
}

static xcvm_status link_states(xcvm_verifier *v, const xcvm_name_index *dims)
{
    xcvm_program *program = v->program;
    const xcvm_image *image = v->image;
    if (image->state_count == 0 || dims->count == 0)
        return XCVM_OK;
    program->state_links =
        xcvm_arena_allocate(&program->arena, image->state_count * XCVM_MAX_RANK * sizeof *program->state_links);
    if (program->state_links == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t i = 0; i < image->state_count; i++) {
        const xcvm_type *type = &image->states[i].declared.type;
        for (int d = 0; d < type->rank; d++) {
            const char *name = type->dims[d] < 0 ? type->dim_names[d] : NULL;
            const xcvm_indexed_name *found;
            if (name != NULL && xcvm_name_index_find(dims, name, strlen(name), &found) != 0)
                program->state_links[program->state_link_count++] =
                    (xcvm_state_link){.state = (uint32_t)i,
                                      .dim = (uint32_t)d,
                                      .input = (uint32_t)(found->number / XCVM_MAX_RANK),
                                      .input_dim = (uint32_t)(found->number % XCVM_MAX_RANK)};
        }
    }
    return XCVM_OK;
}

xcvm_status xcvm_link_dims(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    xcvm_name_index dims = {0};
    XCVM_TRY(collect_dims(v, &dims));
    program->links = xcvm_arena_allocate(&program->arena, dims.count * sizeof *program->links);
    if (program->links == NULL)
        return xcvm_verifier_no_memory(v);
    const xcvm_indexed_name *first = dims.at;
    for (size_t i = 1; i < dims.count; i++) {
        const xcvm_indexed_name *dim = &dims.at[i];
        if (dim->length == first->length && memcmp(dim->text, first->text, dim->length) == 0)
            program->links[program->link_count++] =
                (xcvm_dim_link){.input = (uint32_t)(dim->number / XCVM_MAX_RANK),
                                .dim = (uint32_t)(dim->number % XCVM_MAX_RANK),
                                .first_input = (uint32_t)(first->number / XCVM_MAX_RANK),
                                .first_dim = (uint32_t)(first->number % XCVM_MAX_RANK)};
        else
            first = dim;
    }
    return link_states(v, &dims);
}
