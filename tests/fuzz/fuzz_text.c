/* Any bytes as text assembly: what assembles must disassemble to text that assembles to the same bytes. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    fuzz_bytes program = {0}, text = {0}, again = {0};
    if (xcvm_assemble((const char *)bytes, count, NULL, fuzz_collect, &program, &error) == XCVM_OK) {
        if (xcvm_disassemble(program.at, program.count, NULL, fuzz_collect, &text, &error) != XCVM_OK)
            abort();
        if (xcvm_assemble((const char *)text.at, text.count, NULL, fuzz_collect, &again, &error) != XCVM_OK)
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
