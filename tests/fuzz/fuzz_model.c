/* Any bytes as an ONNX model: what compiles must pass the verifier, and runs under limits. */
#include "fuzz.h"
#include "mutate.h"

#include "onnx/onnx.pb-c.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    const size_t mutated =
        seed % 8 == 0 ? 0 : fuzz_mutate_message(&onnx__model_proto__descriptor, bytes, count, capacity, seed);
    return mutated != 0 ? mutated : LLVMFuzzerMutate(bytes, count, capacity);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    fuzz_bytes program = {0};
    const xcc_options options = {.size = sizeof options};
    if (xcc_compile(bytes, count, &options, fuzz_collect, &program, NULL, &error) == XCVM_OK) {
        xcvm_program *loaded;
        const xcvm_load_options load = {.size = sizeof load, .copy = true};
        if (xcvm_program_load(program.at, program.count, &load, &loaded, &error) != XCVM_OK)
            abort();
        xcvm_program_destroy(loaded);
        fuzz_run_program(program.at, program.count);
    }
    free(program.at);
    return 0;
}
