/* Helpers for tests of the VM: programs from text, and an allocator that counts and fails once. */
#ifndef XCVM_TESTS_VM_SUPPORT_H
#define XCVM_TESTS_VM_SUPPORT_H

#include "tests/suites.h"
#include "tests/support.h"
#include "vm/program.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* The program file of a text without its first line; to be freed. */
static UNUSED test_bytes assemble(const char *text)
{
    static const char header[] = "xcvm 1\n";
    test_bytes whole = {0}, program = {0};
    xcvm_error error = {0};
    test_bytes_sink(&whole, header, strlen(header));
    test_bytes_sink(&whole, text, strlen(text));
    xcvm_status status = xcvm_assemble(whole.at, whole.length, NULL, (xcvm_sink){test_bytes_sink, &program}, &error);
    ck_assert_msg(status == XCVM_OK, "%s\n%s", error.message, text);
    test_bytes_free(&whole);
    return program;
}

/* A program that owns its bytes, with the status of loading it. */
static UNUSED xcvm_status try_load(const char *text, const xcvm_allocator *allocator, xcvm_program **program,
                                   xcvm_error *error)
{
    test_bytes b = assemble(text);
    xcvm_load_options options = {.size = sizeof options, .allocator = allocator, .copy = true};
    xcvm_status status = xcvm_program_load(b.at, b.length, &options, program, error);
    test_bytes_free(&b);
    return status;
}

static UNUSED xcvm_program *load(const char *text)
{
    xcvm_program *program = NULL;
    xcvm_error error = {0};
    xcvm_status status = try_load(text, NULL, &program, &error);
    ck_assert_msg(status == XCVM_OK, "%d (%s): %s\n%s", error.pc, error.instruction, error.message, text);
    return program;
}

/* The program is refused with `status` and a message that contains `part`, at instruction `pc` (-1: none). */
static UNUSED void check_refused(const char *text, xcvm_status expected, int32_t pc, const char *part)
{
    xcvm_program *program = NULL;
    xcvm_error error = {.pc = -2};
    xcvm_status status = try_load(text, NULL, &program, &error);
    ck_assert_msg(status == expected, "status %s: %s\n%s", xcvm_status_name(status), error.message, text);
    ck_assert_msg(strstr(error.message, part) != NULL, "\"%s\" is not in: %s", part, error.message);
    ck_assert_msg(error.pc == pc, "pc %d, not %d: %s", error.pc, pc, error.message);
    ck_assert_ptr_null(program);
}

static UNUSED xcvm_session *open_session(const xcvm_program *program, const xcvm_session_options *options)
{
    xcvm_session *session = NULL;
    xcvm_error error = {0};
    ck_assert_msg(xcvm_session_create(program, options, &session, &error) == XCVM_OK, "%s", error.message);
    return session;
}

static UNUSED xcvm_session *open_default_session(const xcvm_program *program)
{
    xcvm_session_options options = {.size = sizeof options, .threads = 1};
    return open_session(program, &options);
}

static UNUSED void run_session(xcvm_session *session)
{
    xcvm_error error = {0};
    xcvm_status status = xcvm_session_run(session, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%d (%s): %s", error.pc, error.instruction, error.message);
}

static UNUSED void check_run_fails(xcvm_session *session, const xcvm_run_options *options, xcvm_status expected,
                                   const char *part)
{
    xcvm_error error = {0};
    xcvm_status status = xcvm_session_run(session, options, &error);
    ck_assert_msg(status == expected, "status %s: %s", xcvm_status_name(status), error.message);
    ck_assert_msg(strstr(error.message, part) != NULL, "\"%s\" is not in: %s", part, error.message);
    ck_assert_ptr_null(xcvm_session_get_output(session, 0));
}

static UNUSED void set_f32(xcvm_session *session, size_t index, int rank, const int64_t *dims, float *data)
{
    xcvm_value *tensor = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, rank, dims, data, (xcvm_finalizer){0}, &tensor, &error), XCVM_OK);
    ck_assert_msg(xcvm_session_set_input(session, index, tensor, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(tensor);
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static UNUSED void check_f32(const xcvm_session *session, size_t index, size_t count, const float *expected)
{
    const xcvm_value *output = xcvm_session_get_output(session, index);
    ck_assert_ptr_nonnull(output);
    ck_assert_int_eq(xcvm_value_dtype(output), XCVM_F32);
    ck_assert_uint_eq(xcvm_value_count(output), count);
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq(XCVM_CDATA(float, output)[i], expected[i]);
}
#define CHECK_F32(session, index, ...)                                                                                 \
    check_f32((session), (index), sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

/* An allocator that fails one request, and that several threads may use. */

typedef struct counter {
    size_t allocations; /* so far */
    size_t fail_at;     /* the allocation of this number fails, counted from 1; 0: none */
    size_t live_bytes;
} counter;

static UNUSED void *counted_allocate(void *user, size_t size, size_t alignment)
{
    counter *c = user;
    if (__atomic_add_fetch(&c->allocations, 1, __ATOMIC_RELAXED) == c->fail_at)
        return NULL;
    __atomic_add_fetch(&c->live_bytes, size, __ATOMIC_RELAXED);
    size_t rounded = (size + alignment - 1) / alignment * alignment;
    return aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
}

static UNUSED void counted_release(void *user, void *memory, size_t size)
{
    counter *c = user;
    __atomic_sub_fetch(&c->live_bytes, size, __ATOMIC_RELAXED);
    free(memory);
}

static UNUSED xcvm_allocator counting(counter *c) { return (xcvm_allocator){counted_allocate, counted_release, c}; }

#endif
