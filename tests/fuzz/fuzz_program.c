/* Treats any bytes as a program file: loads it, runs it if accepted, disassembles and strips it. The text of a loaded
 * program is exact. */
#include "fuzz.h"
#include "mutate.h"
#include "proto/image.h"

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed)
{
    const size_t mutated = seed % 8 == 0 ? 0 : fuzz_mutate_program(bytes, count, capacity, seed);
    return mutated != 0 ? mutated : LLVMFuzzerMutate(bytes, count, capacity);
}

static bool is_sound(const uint8_t *bytes, size_t count)
{
    xcvm_program *program;
    const xcvm_load_options load = {.size = sizeof load, .copy = true, .no_libraries = true};
    if (xcvm_program_load(bytes, count, &load, &program, NULL) != XCVM_OK)
        return false;
    xcvm_program_destroy(program);
    return true;
}

/* The program as the encoder writes it: of equal programs the same bytes. */
static bool encode_again(const uint8_t *bytes, size_t count, fuzz_bytes *encoded)
{
    xcvm_arena arena = {0};
    xcvm_image image;
    const bool done = xcvm_image_decode(bytes, count, NULL, &arena, &image, NULL) == XCVM_OK &&
                      xcvm_image_encode(&image, NULL, (xcvm_sink){fuzz_collect, encoded}, NULL) == XCVM_OK;
    xcvm_arena_release(&arena);
    return done;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    fuzz_run_program(bytes, count);
    xcvm_error error;
    fuzz_bytes encoded = {0}, text = {0}, again = {0};
    if (is_sound(bytes, count) && encode_again(bytes, count, &encoded)) {
        if (xcvm_disassemble(encoded.at, encoded.count, NULL, (xcvm_sink){fuzz_collect, &text}, &error) != XCVM_OK)
            abort();
        if (xcvm_assemble((const char *)text.at, text.count, NULL, (xcvm_sink){fuzz_collect, &again}, &error) !=
            XCVM_OK)
            abort();
        if (again.count != encoded.count || memcmp(again.at, encoded.at, encoded.count) != 0)
            abort();
    } else if (xcvm_disassemble(bytes, count, NULL, (xcvm_sink){fuzz_collect, &text}, &error) == XCVM_OK &&
               text.at != NULL) {
        (void)!xcvm_assemble((const char *)text.at, text.count, NULL, (xcvm_sink){fuzz_collect, &again}, &error);
    }
    again.count = 0;
    (void)!xcvm_strip(bytes, count, (xcvm_sink){fuzz_collect, &again}, &error);
    free(encoded.at);
    free(text.at);
    free(again.at);
    return 0;
}
