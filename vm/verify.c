#include "vm/verify.h"

#include <stdio.h>
#include <string.h>

void xcvm_error_locate(xcvm_error *error, const xcvm_image *image, size_t pc)
{
    if (error == NULL || pc >= image->instruction_count)
        return;
    const xcvm_instruction *instruction = &image->instructions[pc];
    error->pc = (int32_t)pc;
    snprintf(error->instruction, sizeof error->instruction, "%s", instruction->row ? instruction->row->name : "");
    snprintf(error->node, sizeof error->node, "%s", instruction->debug.node ? instruction->debug.node : "");
}

void *xcvm_verifier_allocate(xcvm_verifier *v, size_t count, size_t size)
{
    size_t bytes;
    void *memory = NULL;
    if (xcvm_size_mul(count, size, &bytes))
        memory = xcvm_arena_allocate(&v->temporary, bytes);
    if (memory == NULL)
        xcvm_verifier_no_memory(v);
    return memory;
}

xcvm_status xcvm_verifier_no_memory(xcvm_verifier *v)
{
    return xcvm_error_set(v->error, XCVM_OUT_OF_MEMORY, "no memory for a program of %zu instructions",
                          v->image->instruction_count);
}

xcvm_status xcvm_verifier_fail(xcvm_verifier *v, size_t pc, xcvm_status status, const char *format, ...)
{
    char message[sizeof v->error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    xcvm_error_set(v->error, status, "%s", message);
    xcvm_error_locate(v->error, v->image, pc);
    return status;
}

const xcvm_field *xcvm_operand_field(const xcvm_instruction *instruction, uint32_t index)
{
    const xcvm_row *row = instruction->row;
    for (size_t i = 0; i < row->field_count; i++) {
        if (!xcvm_field_is_input(&row->fields[i]))
            continue;
        size_t count = xcvm_field_count(&row->fields[i], instruction->args);
        if (index < count)
            return &row->fields[i];
        index -= (uint32_t)count;
    }
    return NULL;
}

/* Finds the largest register and counts results. */
static xcvm_status count_registers(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    size_t results = 0;
    int32_t highest = 0, highest_pc = 0;
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &image->instructions[pc];
        results += instruction->out_count;
        for (uint32_t i = 0; i < instruction->in_count + instruction->out_count; i++) {
            bool is_operand = i < instruction->in_count;
            int32_t id = is_operand ? instruction->in[i] : instruction->out[i - instruction->in_count];
            if (!is_operand && id < 0)
                return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "a result is to go into register %d", (int)id);
            if (id > highest)
                highest = id, highest_pc = (int32_t)pc;
        }
    }
    /* Registers cost memory in every session, which a small file must not be able to ask for at will. */
    if ((uint64_t)highest > 4 * (uint64_t)results + 16)
        return xcvm_verifier_fail(v, (size_t)highest_pc, XCVM_INVALID_PROGRAM,
                                  "register $%d is too high for a program with %zu results; at most $%zu is taken",
                                  (int)highest, results, 4 * results + 16);
    v->program->register_count = (size_t)highest + 1;
    return XCVM_OK;
}

static xcvm_status check_operands(xcvm_verifier *v, size_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const xcvm_row *row = instruction->row;
    size_t in = 0, out = 0;
    for (size_t i = 0; i < row->field_count; i++) {
        const xcvm_field *field = &row->fields[i];
        if (!xcvm_field_is_operand(field))
            continue;
        bool is_result = field->role == XCVM_ROLE_OUT;
        size_t count = xcvm_field_count(field, instruction->args);
        size_t *at = is_result ? &out : &in, end = is_result ? instruction->out_count : instruction->in_count;
        if (count > end - *at)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "%s %s is missing", is_result ? "result" : "operand",
                                      field->name);
        for (; count > 0; count--, ++*at) {
            int32_t id = is_result ? instruction->out[*at] : instruction->in[*at];
            if (id == 0 && field->kind != XCVM_FIELD_OPTIONAL && field->kind != XCVM_FIELD_ANYS)
                return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "%s %s is absent, but not optional",
                                          is_result ? "result" : "operand", field->name);
            if (id < 0 && (size_t)(-1 - (int64_t)id) >= v->image->constant_count)
                return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                          "operand %s is constant %lld, but there are %zu constants", field->name,
                                          (long long)(-1 - (int64_t)id), v->image->constant_count);
        }
    }
    if (in != instruction->in_count || out != instruction->out_count)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "there are more operands or results than %s takes",
                                  row->name);
    return XCVM_OK;
}

static xcvm_status find_parameter(xcvm_verifier *v, size_t pc, const xcvm_name_index *names, const char *what,
                                  xcvm_text name)
{
    const xcvm_indexed_name *found;
    if (xcvm_name_index_find(names, name.at, name.length, &found) == 0)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "the program declares no %s \"%.100s\"", what, name.at);
    v->program->steps[pc].target = (int32_t)found->number;
    return XCVM_OK;
}

/* What the machine does for an instruction, and where it goes on. */
static xcvm_status resolve_step(xcvm_verifier *v, size_t pc)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    const void *args = instruction->args;
    xcvm_step *step = &v->program->steps[pc];
    int64_t target = 0;
    switch (instruction->row->opcode) {
    case XCVM_OP_In:
        step->action = XCVM_ACTION_IN;
        return find_parameter(v, pc, &v->inputs, "input", ((const xcvm_In_args *)args)->name);
    case XCVM_OP_Out:
        step->action = XCVM_ACTION_OUT;
        return find_parameter(v, pc, &v->outputs, "output", ((const xcvm_Out_args *)args)->name);
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
    case XCVM_OP_Fused:
        step->action = XCVM_ACTION_FUSED;
        v->program->fused_count++;
        return XCVM_OK;
    default:
        step->action = XCVM_ACTION_KERNEL;
        step->run = xcvm_kernel_for(instruction->row->opcode, v->program->isa);
        if (step->run == NULL || instruction->row->shape == NULL)
            return xcvm_verifier_fail(v, pc, XCVM_UNSUPPORTED, "this build has no kernel for %s",
                                      instruction->row->name);
        return XCVM_OK;
    }
    if (target < 0 || (uint64_t)target > v->image->instruction_count)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                  "the jump goes to instruction %lld, but there are %zu instructions",
                                  (long long)target, v->image->instruction_count);
    step->target = (int32_t)target;
    v->program->has_jumps = true;
    return XCVM_OK;
}

static xcvm_status check_instructions(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    xcvm_program *program = v->program;
    size_t most_results = 0;
    program->steps = xcvm_arena_allocate(&program->arena, image->instruction_count * sizeof *program->steps);
    if (program->steps == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &image->instructions[pc];
        xcvm_step *step = &program->steps[pc];
        step->target = -1;
        if (instruction->row == NULL)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "there is no such instruction");
        XCVM_TRY(check_operands(v, pc));
        XCVM_TRY(resolve_step(v, pc));
        step->args_offset = program->args_bytes;
        if (step->action == XCVM_ACTION_KERNEL)
            program->args_bytes += xcvm_round_up(instruction->row->args_size, 16);
        step->in_at = program->in_count;
        step->out_at = program->out_count;
        program->in_count += instruction->in_count;
        program->out_count += instruction->out_count;
        if (instruction->out_count > most_results)
            most_results = instruction->out_count;
    }
    program->no_names = xcvm_arena_allocate(&program->arena, most_results * sizeof *program->no_names);
    if (program->no_names == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t i = 0; i < most_results; i++)
        program->no_names[i] = "";
    return XCVM_OK;
}

/* ---- Dimensions of inputs that must agree ---- */

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

static xcvm_status link_dims(xcvm_verifier *v)
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
    return XCVM_OK;
}

/* ---- The whole ---- */

static xcvm_status index_parameters(xcvm_verifier *v, const xcvm_parameter *parameters, size_t count, const char *what,
                                    xcvm_name_index *names)
{
    XCVM_CHECK(v->error, count < INT32_MAX, INVALID_PROGRAM, "%zu %ss are too many", count, what);
    for (size_t i = 0; i < count; i++)
        if (!xcvm_name_index_add(names, &v->temporary, parameters[i].name, strlen(parameters[i].name), i))
            return xcvm_verifier_no_memory(v);
    xcvm_name_index_sort(names);
    for (size_t i = 1; i < count; i++)
        XCVM_CHECK(v->error, strcmp(names->at[i - 1].text, names->at[i].text) != 0, INVALID_PROGRAM,
                   "two %ss are called \"%.100s\"", what, names->at[i].text);
    return XCVM_OK;
}

static xcvm_status verify(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    XCVM_CHECK(v->error, image->instruction_count < INT32_MAX, INVALID_PROGRAM, "%zu instructions are too many",
               image->instruction_count);
    XCVM_TRY(index_parameters(v, image->inputs, image->input_count, "input", &v->inputs));
    XCVM_TRY(index_parameters(v, image->outputs, image->output_count, "output", &v->outputs));
    XCVM_TRY(count_registers(v));
    XCVM_TRY(check_instructions(v));
    XCVM_TRY(link_dims(v));
    XCVM_TRY(xcvm_verify_blocks(v));
    XCVM_TRY(xcvm_verify_fused(v));
    XCVM_TRY(xcvm_verify_flow(v));
    xcvm_find_sharing(v->program);
    XCVM_TRY(xcvm_verify_slots(v));
    XCVM_TRY(xcvm_find_stretches(v));
    return xcvm_find_makers(v);
}

xcvm_status xcvm_program_verify(xcvm_program *program, xcvm_error *error)
{
    xcvm_verifier v = {
        .program = program, .image = &program->image, .error = error, .temporary = {.allocator = &program->allocator}};
    xcvm_status status = verify(&v);
    xcvm_arena_release(&v.temporary);
    return status;
}
