/* Tests of loading: mapped, copied, cut short and changed files. */
#include "tests/vm/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char text[] = "producer \"someone 1.0\"\n"
                           "arena 64\n"
                           "input x f32[Nx2]\n"
                           "output y f32[Nx2]\n"
                           "constant w f32[2] = 10 20\n"
                           "$1 = In(name=\"x\")\n"
                           "$2 = Add($1, @w) slot=0+16\n"
                           "Out($2, name=\"y\")\n";

static void check_program(xcvm_program *program)
{
    xcvm_session *session = open_default_session(program);
    float x[2] = {1, 2};
    set_f32(session, 0, 2, DIMS(1, 2), x);
    run_session(session);
    CHECK_F32(session, 0, 11, 22);
    xcvm_session_destroy(session);
}

START_TEST(bytes_at_any_address)
{
    test_bytes b = assemble(text);
    char *memory = malloc(b.length + 256);
    for (size_t shift = 0; shift < 130; shift += 13)
        for (int copy = 0; copy < 2; copy++) {
            xcvm_load_options options = {.size = sizeof options, .copy = copy != 0};
            xcvm_program *program = NULL;
            memcpy(memory + shift, b.at, b.length);
            ck_assert_int_eq(xcvm_program_load(memory + shift, b.length, &options, &program, NULL), XCVM_OK);
            if (copy != 0)
                memset(memory, 0, b.length + 256);
            for (size_t i = 0; i < program->image.constant_count; i++)
                ck_assert_uint_eq((uintptr_t)program->image.constants[i].value.data % 64, 0);
            check_program(program);
            xcvm_program_destroy(program);
        }
    free(memory);
    test_bytes_free(&b);
}
END_TEST

START_TEST(described)
{
    xcvm_program *program = load(text);
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program, &info);
    ck_assert_uint_eq(info.format, 1);
    ck_assert_str_eq(info.producer, "someone 1.0");
    ck_assert_uint_eq(info.instruction_count, 3);
    ck_assert_uint_eq(info.register_count, 2);
    ck_assert_uint_eq(info.constant_count, 1);
    ck_assert_uint_eq(info.constant_bytes, 8);
    ck_assert_uint_eq(info.arena_bytes, 64);
    ck_assert_uint_eq(xcvm_program_input_count(program), 1);
    ck_assert_uint_eq(xcvm_program_output_count(program), 1);
    ck_assert_str_eq(xcvm_program_input_at(program, 0)->name, "x");
    ck_assert_str_eq(xcvm_program_input_at(program, 0)->type.dim_names[0], "N");
    ck_assert_int_eq(xcvm_program_output_at(program, 0)->type.dims[1], 2);
    ck_assert_ptr_null(xcvm_program_input_at(program, 1));
    ck_assert_ptr_null(xcvm_program_output_at(program, 1));
    xcvm_program_destroy(program);
    xcvm_program_destroy(NULL);
}
END_TEST

/* The strings of a mapped file stay as verified, whatever is written to the file. */
START_TEST(overwritten_strings)
{
    char path[] = "/tmp/xcvm_test_XXXXXX";
    const int file = mkstemp(path);
    test_bytes b = assemble("output y ?\n"
                            "constant s str[2] = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" \"b\"\n"
                            "$1 = Gather(@s, i64[1] 0)\n"
                            "Out($1, name=\"y\")\n");
    xcvm_program *program = NULL;
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(pwrite(file, b.at, b.length, 0), (ssize_t)b.length);
    ck_assert_int_eq(xcvm_program_load_file(path, NULL, &program, NULL), XCVM_OK);
    const xcvm_image *image = &program->image;
    size_t spans = (size_t)image->data_offset, length;
    for (size_t i = 0; i < image->constant_count; i++)
        if (image->constants[i].value.dtype == XCVM_STRING)
            spans += (size_t)image->constants[i].offset;
    const xcvm_string broken = {.offset = UINT64_C(1) << 40, .length = UINT64_C(1) << 20};
    ck_assert_int_eq(pwrite(file, &broken, sizeof broken, (off_t)spans), (ssize_t)sizeof broken);
    xcvm_session *session = open_default_session(program);
    run_session(session);
    const char *string = xcvm_value_string_at(xcvm_session_get_output(session, 0), 0, &length);
    ck_assert_uint_eq(length, 29);
    ck_assert_mem_eq(string, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 29);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    test_bytes_free(&b);
    close(file);
    unlink(path);
}
END_TEST

static void check_file_refused(const char *path, xcvm_status expected, const char *part)
{
    xcvm_program *program = NULL;
    for (int copy = 0; copy < 2; copy++) {
        xcvm_error error = {0};
        xcvm_load_options options = {.size = sizeof options, .copy = copy != 0};
        ck_assert_int_eq(xcvm_program_load_file(path, &options, &program, &error), expected);
        ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
        ck_assert_msg(strncmp(error.message, path, strlen(path)) == 0, "%s", error.message);
    }
    ck_assert_ptr_null(program);
}

static void write_file(const char *path, const void *data, size_t count)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, count, file), count);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(files)
{
    char folder[] = "/tmp/xcvm_test_XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    check_file_refused(folder, XCVM_IO, "this is a directory (expected a file)");
    snprintf(path, sizeof path, "%s/program", folder);
    check_file_refused(path, XCVM_IO, "No such file");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    check_file_refused(path, XCVM_IO, "not a regular file");
    unlink(path);
    write_file(path, "", 0);
    check_file_refused(path, XCVM_INVALID_PROGRAM, "empty");
    write_file(path, "not a program", 13);
    check_file_refused(path, XCVM_INVALID_PROGRAM, "");
    test_bytes b = assemble(text);
    write_file(path, b.at, b.length);
    for (int copy = 0; copy < 2; copy++) {
        xcvm_load_options options = {.size = sizeof options, .copy = copy != 0};
        xcvm_program *program = NULL;
        xcvm_error error = {0};
        ck_assert_msg(xcvm_program_load_file(path, &options, &program, &error) == XCVM_OK, "%s", error.message);
        ck_assert(program->mapped == (copy == 0));
        check_program(program);
        xcvm_program_destroy(program);
    }
    unlink(path);
    rmdir(folder);
    test_bytes_free(&b);
}
END_TEST

/* f24 had a number that belongs to ONNX; a program from then is refused by name, not run as something else. */
START_TEST(former_f24)
{
    test_bytes b = assemble("output y f32[1x2]\n"
                            "constant w f24[1x1x16] = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
                            "$1 = PackedGemm(f32[1x1] 2, @w, _, columns=2)\n"
                            "Out($1, name=\"y\")\n");
    xcvm_program *program = NULL;
    xcvm_error error = {0};
    const xcvm_load_options options = {.size = sizeof options, .copy = true};
    ck_assert_msg(xcvm_program_load(b.at, b.length, &options, &program, &error) == XCVM_OK, "%s", error.message);
    xcvm_program_destroy(program);
    program = NULL;
    /* The field `dtype`, number 2, of the constant's type. */
    char *bytes = (char *)b.at;
    size_t replaced = 0;
    for (size_t i = 0; i + 1 < b.length; i++)
        if (bytes[i] == 2 << 3 && bytes[i + 1] == XCVM_F24) {
            bytes[i + 1] = 28;
            replaced++;
        }
    ck_assert_uint_eq(replaced, 1);
    ck_assert_int_eq(xcvm_program_load(b.at, b.length, &options, &program, &error), XCVM_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "28 was f24 in programs of earlier versions; compile the model again"));
    test_bytes_free(&b);
}
END_TEST

/* For any bytes, loading returns a status, and accepted programs can be run. */
static void try_bytes(const char *at, size_t count)
{
    xcvm_program *program = NULL;
    xcvm_error error = {0};
    xcvm_load_options options = {.size = sizeof options, .copy = true};
    xcvm_status status = xcvm_program_load(at, count, &options, &program, &error);
    if (status != XCVM_OK) {
        ck_assert_msg(error.message[0] != '\0', "no message");
        return;
    }
    xcvm_session_options limits = {.size = sizeof limits, .threads = 1, .memory_limit = 1 << 24};
    xcvm_session *session = NULL;
    float x[2] = {1, 2};
    xcvm_value *tensor = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 2, DIMS(1, 2), x, (xcvm_finalizer){0}, &tensor, NULL), XCVM_OK);
    if (xcvm_session_create(program, &limits, &session, NULL) == XCVM_OK) {
        if (xcvm_program_input_count(program) > 0)
            (void)!xcvm_session_set_input(session, 0, tensor, NULL);
        (void)!xcvm_session_run(session, &(xcvm_run_options){.size = sizeof(xcvm_run_options), .fuel = 1000}, NULL);
    }
    xcvm_session_destroy(session);
    xcvm_value_release(tensor);
    xcvm_program_destroy(program);
}

START_TEST(broken_bytes)
{
    test_bytes b = assemble(text);
    xcvm_program *program = NULL;
    ck_assert_int_eq(xcvm_program_load(b.at, 0, NULL, &program, NULL), XCVM_INVALID_PROGRAM);
    ck_assert_int_eq(xcvm_program_load(NULL, 5, NULL, &program, NULL), XCVM_INVALID_ARGUMENT);
    for (size_t i = 0; i < b.length; i++) {
        char *prefix = malloc(i > 0 ? i : 1);
        memcpy(prefix, b.at, i);
        try_bytes(prefix, i);
        free(prefix);
        for (int bit = 0; bit < 8; bit++) {
            b.at[i] = (char)(b.at[i] ^ (1 << bit));
            try_bytes(b.at, b.length);
            b.at[i] = (char)(b.at[i] ^ (1 << bit));
        }
    }
    test_bytes_free(&b);
}
END_TEST

Suite *suite_vm_load(void);
Suite *suite_vm_load(void)
{
    return SUITE_OF("vm_load", bytes_at_any_address, described, overwritten_strings, files, former_f24, broken_bytes);
}
