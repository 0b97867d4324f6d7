/* Verification of a loaded program. Each part relies on the ones before it. */
#include "vm/verify.h"

#include <string.h>

static xcvm_status index_parameters(xcvm_verifier *v, const xcvm_value_info *parameters, size_t count, const char *what,
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
    XCVM_TRY(xcvm_verify_states(v));
    XCVM_TRY(xcvm_verify_operands(v));
    XCVM_TRY(xcvm_link_steps(v));
    XCVM_TRY(xcvm_link_dims(v));
    XCVM_TRY(xcvm_verify_blocks(v));
    XCVM_TRY(xcvm_verify_tail(v));
    XCVM_TRY(xcvm_verify_kernel_calls(v));
    XCVM_TRY(xcvm_verify_flow(v));
    xcvm_analyze_aliasing(v->program);
    XCVM_TRY(xcvm_verify_slots(v));
    XCVM_TRY(xcvm_analyze_static_shapes(v));
    return xcvm_analyze_output_producers(v);
}

xcvm_status xcvm_program_verify(xcvm_program *program, xcvm_error *error)
{
    xcvm_verifier v = {
        .program = program, .image = &program->image, .error = error, .temporary = {.allocator = &program->allocator}};
    xcvm_status status = verify(&v);
    xcvm_arena_release(&v.temporary);
    return status;
}
