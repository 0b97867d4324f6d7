/* Services for all parts of the verifier: temporary memory, errors at an instruction, operand fields. */
#include "vm/verify.h"

#include <stdio.h>

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
    const xcvm_schema *schema = instruction->schema;
    for (size_t i = 0; i < schema->field_count; i++) {
        if (!xcvm_field_is_input(&schema->fields[i]))
            continue;
        size_t count = xcvm_field_count(&schema->fields[i], instruction->args);
        if (index < count)
            return &schema->fields[i];
        index -= (uint32_t)count;
    }
    return NULL;
}
