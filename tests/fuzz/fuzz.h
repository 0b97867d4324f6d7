/* Helpers for fuzz targets. A target is one function that must not crash, leak, hang or fail an assertion for any
 * bytes. It is built with libFuzzer (preset fuzz) or with replay.c, which runs it on files. */
#ifndef XCVM_TESTS_FUZZ_FUZZ_H
#define XCVM_TESTS_FUZZ_FUZZ_H

#include "xcvm/compiler.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);
/* A target's own mutation: structural (mutate.h), or of bytes if there is none. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t count, size_t capacity, unsigned seed);
/* libFuzzer's, or replay.c's, of bytes. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t count, size_t capacity);

/* A sink that collects bytes. */
typedef struct fuzz_bytes {
    uint8_t *at;
    size_t count, capacity;
} fuzz_bytes;

static inline bool fuzz_collect(void *user, const void *bytes, size_t count)
{
    fuzz_bytes *b = user;
    if (b->count + count > b->capacity) {
        size_t capacity = (b->count + count) * 2;
        uint8_t *grown = realloc(b->at, capacity);
        if (grown == NULL)
            return false;
        b->at = grown;
        b->capacity = capacity;
    }
    if (count != 0)
        memcpy(b->at + b->count, bytes, count);
    b->count += count;
    return true;
}

/* A failed run changes no state, and saved states can be restored. */
static inline bool fuzz_run_session(xcvm_session *session, const xcvm_run_options *run)
{
    xcvm_error error;
    fuzz_bytes before = {0}, after = {0};
    const bool saved = xcvm_session_save_states(session, (xcvm_sink){fuzz_collect, &before}, &error) == XCVM_OK;
    const xcvm_status status = xcvm_session_run(session, run, &error);
    if (saved && status != XCVM_OK) {
        if (xcvm_session_save_states(session, (xcvm_sink){fuzz_collect, &after}, &error) != XCVM_OK ||
            after.count != before.count || memcmp(after.at, before.at, before.count) != 0)
            abort();
    }
    if (saved && xcvm_session_load_states(session, before.at, before.count, &error) != XCVM_OK &&
        error.status != XCVM_OUT_OF_MEMORY)
        abort();
    free(before.at);
    free(after.at);
    return status == XCVM_OK;
}

/* Loads a program; if the verifier accepts it, runs it on zeros under every limit that there is. */
static inline void fuzz_run_program(const uint8_t *bytes, size_t count)
{
    xcvm_error error;
    xcvm_program *program;
    const xcvm_load_options load = {.size = sizeof load, .copy = true, .no_libraries = true};
    if (xcvm_program_load(bytes, count, &load, &program, &error) != XCVM_OK)
        return;
    xcvm_session *session;
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .memory_limit = 64 << 20};
    if (xcvm_session_create(program, &options, &session, &error) == XCVM_OK) {
        bool bound = true;
        for (size_t i = 0; i < xcvm_program_input_count(program) && bound; i++) {
            const xcvm_type *type = &xcvm_program_input_at(program, i)->type;
            int64_t dims[XCVM_MAX_RANK];
            size_t elements = 1;
            for (int d = 0; d < type->rank; d++) {
                dims[d] = type->dims[d] < 0 ? 2 : type->dims[d];
                elements = dims[d] > 4096 || elements > 4096 ? SIZE_MAX / 65536 : elements * (size_t)dims[d];
            }
            xcvm_value *value = NULL;
            bound =
                type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_STRING && elements <= 65536 &&
                xcvm_tensor_create(NULL, type->dtype, type->rank < 0 ? 0 : type->rank, dims, &value, &error) == XCVM_OK;
            if (bound) {
                if (xcvm_value_bytes(value) != 0)
                    memset(xcvm_value_data(value), 0, xcvm_value_bytes(value));
                bound = xcvm_session_set_input(session, i, value, &error) == XCVM_OK;
            }
            xcvm_value_release(value);
        }
        const xcvm_run_options run = {.size = sizeof run, .fuel = 2000, .timeout_ns = 500000000};
        for (int i = 0; i < 2 && bound; i++)
            if (!fuzz_run_session(session, &run))
                break;
        xcvm_session_destroy(session);
    }
    xcvm_program_destroy(program);
}

#endif
