/* Any bytes as text assembly: what assembles must disassemble to text that assembles to the same bytes. */
#include "fuzz.h"
#include "mutate.h"

/* The text of a mutated program. */
static size_t mutate_text(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    enum { LARGEST = 1 << 16 };
    fuzz_bytes program = {0}, text = {0};
    size_t mutated = 0;
    if (xcvm_assemble((const char *)bytes, count, NULL, (xcvm_sink){fuzz_collect, &program}, NULL) == XCVM_OK &&
        program.count <= LARGEST) {
        uint8_t *room = malloc(2 * LARGEST);
        if (room != NULL && program.count != 0)
            memcpy(room, program.at, program.count);
        mutated = room != NULL ? fuzz_mutate_program(room, program.count, 2 * LARGEST, seed) : 0;
        if (mutated != 0 && xcvm_disassemble(room, mutated, NULL, (xcvm_sink){fuzz_collect, &text}, NULL) == XCVM_OK)
            mutated = text.count <= capacity ? text.count : 0;
        else
            mutated = 0;
        if (mutated != 0)
            memcpy(bytes, text.at, mutated);
        free(room);
    }
    free(program.at);
    free(text.at);
    return mutated;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    const size_t mutated = seed % 4 == 0 ? 0 : mutate_text(bytes, count, capacity, seed);
    return mutated != 0 ? mutated : LLVMFuzzerMutate(bytes, count, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    fuzz_bytes program = {0}, text = {0}, again = {0};
    if (xcvm_assemble((const char *)bytes, count, NULL, (xcvm_sink){fuzz_collect, &program}, &error) == XCVM_OK) {
        if (xcvm_disassemble(program.at, program.count, NULL, (xcvm_sink){fuzz_collect, &text}, &error) != XCVM_OK)
            abort();
        if (xcvm_assemble((const char *)text.at, text.count, NULL, (xcvm_sink){fuzz_collect, &again}, &error) !=
            XCVM_OK)
            abort();
        if (again.count != program.count || memcmp(again.at, program.at, program.count) != 0)
            abort();
        fuzz_run_program(program.at, program.count);
    }
    free(program.at);
    free(text.at);
    free(again.at);
    return 0;
}
