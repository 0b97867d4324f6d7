/* Treats any bytes as an ONNX model, unchanged and in inference form: compiled programs must pass the verifier, and run
 * within limits. */
#include "fuzz.h"

#include "compiler/onnx_model/onnx_model.h"
#include "mutate.h"
#include "onnx/onnx.pb-c.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    const size_t mutated =
        seed % 8 == 0 ? 0 : fuzz_mutate_message(&onnx__model_proto__descriptor, bytes, count, capacity, seed);
    return mutated != 0 ? mutated : LLVMFuzzerMutate(bytes, count, capacity);
}

static void try_model(const uint8_t *bytes, size_t count, bool inference)
{
    xcvm_error error;
    fuzz_bytes program = {0};
    const xcc_options options = {.size = sizeof options, .inference = inference};
    if (xcc_compile(bytes, count, &options, (xcvm_sink){fuzz_collect, &program}, NULL, &error) == XCVM_OK) {
        xcvm_program *loaded;
        const xcvm_load_options load = {.size = sizeof load, .copy = true};
        if (xcvm_program_load(program.at, program.count, &load, &loaded, &error) != XCVM_OK)
            abort();
        xcvm_program_destroy(loaded);
        fuzz_run_program(program.at, program.count);
    }
    free(program.at);
}

static const xcvm_value *keep_weight(void *user, const char *name, size_t length)
{
    (void)user;
    (void)name;
    (void)length;
    return NULL;
}

/* The model in inference form, written; another form of it is the same bytes. */
static void try_edits(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    fuzz_bytes written = {0}, again = {0};
    xcc_model_edits edits;
    for (int turn = 0; turn < 2; turn++) {
        xcvm_arena arena = {.allocator = xcvm_allocator_or_default(NULL)};
        const void *model = turn == 0 ? bytes : written.at;
        const size_t length = turn == 0 ? count : written.count;
        const xcvm_status found = xcc_inference_form_edits(NULL, model, length, &arena, &edits, &error);
        const xcc_replacement how = {.find = keep_weight, .edits = &edits};
        const xcvm_status put =
            found == XCVM_OK ? xcc_weights_replace(model, length, &how,
                                                   (xcvm_sink){fuzz_collect, turn == 0 ? &written : &again}, &error)
                             : found;
        xcvm_arena_release(&arena);
        if (put != XCVM_OK) {
            if (turn > 0)
                abort();
            break;
        }
        if (turn > 0 && (edits.names.count != 0 || again.count != written.count))
            abort();
    }
    free(written.at);
    free(again.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    try_model(bytes, count, false);
    try_model(bytes, count, true);
    try_edits(bytes, count);
    return 0;
}
