/* Inputs, outputs, states and description of a program, and the location of an error in it. */
#include "vm/program.h"

#include <stdio.h>

size_t xcvm_program_input_count(const xcvm_program *program)
{
    return program != NULL ? program->image.input_count : 0;
}

size_t xcvm_program_output_count(const xcvm_program *program)
{
    return program != NULL ? program->image.output_count : 0;
}

const xcvm_value_info *xcvm_program_input_at(const xcvm_program *program, size_t index)
{
    return index < xcvm_program_input_count(program) ? &program->image.inputs[index] : NULL;
}

const xcvm_value_info *xcvm_program_output_at(const xcvm_program *program, size_t index)
{
    return index < xcvm_program_output_count(program) ? &program->image.outputs[index] : NULL;
}

size_t xcvm_program_state_count(const xcvm_program *program)
{
    return program != NULL ? program->image.state_count : 0;
}

const xcvm_value_info *xcvm_program_state_at(const xcvm_program *program, size_t index)
{
    return index < xcvm_program_state_count(program) ? &program->image.states[index].declared : NULL;
}

void xcvm_program_get_info(const xcvm_program *program, xcvm_program_info *info)
{
    if (program == NULL || info == NULL || info->size < sizeof info->size)
        return;
    const xcvm_image *image = &program->image;
    xcvm_program_info facts = {.size = info->size,
                               .format = image->format,
                               .producer = image->producer != NULL ? image->producer : "",
                               .instruction_count = image->instruction_count,
                               .register_count = program->register_count - 1,
                               .constant_count = image->constant_count,
                               .arena_bytes = (size_t)image->arena_bytes,
                               .notice = program->notice[0] != '\0' ? program->notice : NULL};
    for (size_t i = 0; i < image->constant_count; i++)
        facts.constant_bytes += image->constants[i].value.bytes;
    memcpy(info, &facts, info->size < sizeof facts ? info->size : sizeof facts);
}

const char *xcvm_program_metadata(const xcvm_program *program, const char *key)
{
    for (size_t i = 0; program != NULL && key != NULL && i < program->image.metadata_count; i++)
        if (strcmp(program->image.metadata[i].key, key) == 0)
            return program->image.metadata[i].value;
    return NULL;
}

void xcvm_error_locate(xcvm_error *error, const xcvm_image *image, size_t pc)
{
    if (error == NULL || pc >= image->instruction_count)
        return;
    const xcvm_instruction *instruction = &image->instructions[pc];
    error->pc = (int32_t)pc;
    snprintf(error->instruction, sizeof error->instruction, "%s", instruction->schema ? instruction->schema->name : "");
    snprintf(error->node, sizeof error->node, "%s", instruction->debug.node ? instruction->debug.node : "");
}
