/* Any bytes as a program file: loaded, run if accepted, disassembled, stripped. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    fuzz_run_program(bytes, count);
    xcvm_error error;
    fuzz_bytes text = {0}, again = {0};
    if (xcvm_disassemble(bytes, count, NULL, fuzz_collect, &text, &error) == XCVM_OK && text.at != NULL)
        (void)!xcvm_assemble((const char *)text.at, text.count, NULL, fuzz_collect, &again, &error);
    again.count = 0;
    (void)!xcvm_strip(bytes, count, fuzz_collect, &again, &error);
    free(text.at);
    free(again.at);
    return 0;
}
