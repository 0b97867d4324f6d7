/* Verification of operands: for each instruction, registers in range, and operands and results as in its op definition.
 */
#include "vm/verify.h"
#include "proto/arguments.h"

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
    /* Registers take memory in every session, so a small file must not be able to request arbitrarily many. */
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
    const xcvm_schema *schema = instruction->schema;
    size_t in = 0, out = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *field = &schema->fields[i];
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
            if (id == 0 && !xcvm_field_may_be_absent(field))
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
                                  schema->name);
    return XCVM_OK;
}

xcvm_status xcvm_verify_operands(xcvm_verifier *v)
{
    XCVM_TRY(count_registers(v));
    for (size_t pc = 0; pc < v->image->instruction_count; pc++) {
        if (v->image->instructions[pc].schema == NULL)
            return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM, "there is no such instruction");
        XCVM_TRY(check_operands(v, pc));
    }
    return XCVM_OK;
}
