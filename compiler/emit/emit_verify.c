/* Verifies an emitted program before its first byte is written, because the loader must accept every compiled program.
 */
#include "compiler/emit/emitter.h"
#include "ops/table/table.h"
#include "proto/arguments.h"
#include "vm/program.h"

/* Checks that the decoder accepts the attributes. */
static xcvm_status check_attributes(xcvm_error *error, const xcvm_instruction *instruction)
{
    const xcvm_schema *schema = instruction->schema;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        if (f->kind == XCVM_FIELD_INT)
            XCVM_TRY(xcvm_field_check_int(error, f, *XCVM_CFIELD(int64_t, f, instruction->args)));
        const xcvm_ints *ints = f->kind == XCVM_FIELD_INTS ? XCVM_CFIELD(xcvm_ints, f, instruction->args) : NULL;
        for (size_t k = 0; ints != NULL && k < ints->count; k++)
            XCVM_TRY(xcvm_field_check_int(error, f, ints->at[k]));
    }
    return XCVM_OK;
}

static xcvm_status check_image(xcc_module *m, const xcvm_image *image)
{
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        XCVM_TRY(xcc_poll(m));
        const xcvm_status status = check_attributes(m->error, &image->instructions[pc]);
        if (status != XCVM_OK) {
            xcvm_error_locate(m->error, image, pc);
            return status;
        }
    }
    xcvm_program program = {.allocator = *m->allocator, .image = *image, .isa = xcvm_kernel_isa()};
    program.arena.allocator = &program.allocator;
    const xcvm_status status = xcvm_program_verify(&program, m->error);
    xcvm_arena_release(&program.arena);
    return status;
}

xcvm_status xcc_emit_verify(xcc_module *m, const xcvm_image *image)
{
    const xcvm_status status = check_image(m, image);
    if (status != XCVM_INVALID_PROGRAM && status != XCVM_TYPE_MISMATCH)
        return status;
    const xcvm_error refusal = *m->error;
    return xcvm_error_set(m->error, XCVM_INTERNAL,
                          "the compiler made a program that the loader would refuse: %.300s. This is a defect of the "
                          "compiler, please report it. Compile with a lower optimization level (-O 1 or -O 0)%s",
                          refusal.message, m->options->recompute.method != NULL ? ", or without recomputation" : "");
}
