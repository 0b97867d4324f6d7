/* Tests of building kernel libraries: compilers and targets, reported failures, the cache, and libraries that do not
 * match. */
#include "base/isas.h"
#include "ops/table/table.h"
#include "tests/compiler/kernel_library/support.h"
#include "vm/program.h"

#include <signal.h>
#include <sys/stat.h>

static void make_small(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(3));
    output(b, APPLY(b, Neg, y, .x = XCC_IN(APPLY(b, Tanh, y, .x = XCC_IN(x)))));
}

static void expect_notice(compilation *c, const char *part)
{
    compiled_program k;
    open_program(&k, c, false);
    ck_assert_msg(notice(&k) != NULL && strstr(notice(&k), part) != NULL, "\"%s\" says nothing of \"%s\"",
                  notice(&k) != NULL ? notice(&k) : "", part);
    compiled_set_input(&k, 0, XCVM_F32, 1, DIMS(3), FLOATS(0, 1, -1));
    compiled_run(&k);
    expect_output(&k, 0, 1, DIMS(3), FLOATS(0, -0.761594f, 0.761594f));
    compiled_close(&k);
}

static void write_library(const char *bytes)
{
    FILE *file = fopen(library, "w");
    ck_assert_ptr_nonnull(file);
    fputs(bytes, file);
    fclose(file);
}

START_TEST(libraries_that_do_not_fit)
{
    compilation c;
    make_folder();
    begin_fused(&c);
    make_small(&c.b);
    build_library(&c);
    unlink(library);
    expect_notice(&c, "is missing");
    write_library("no library");
    expect_notice(&c, "not the file that the program was compiled with");
    unlink(library);
    ck_assert_int_eq(symlink("/dev/null", library), 0);
    expect_notice(&c, "cannot be opened");
    unlink(library);
    /* A name never leads elsewhere: it is the last part of the path that is kept. */
    c.options.kernel_library.path = "..";
    expect_notice(&c, "not a plain file name");
    finish(&c);
    remove_folder();
}
END_TEST

START_TEST(compilers_that_fail)
{
    static const char *const compilers[] = {"xcvm-no-such-compiler", "false"};
    make_folder();
    for (size_t i = 0; i < 2; i++) {
        compilation c;
        begin_fused(&c);
        c.options.kernel_library.compiler = compilers[i];
        make_small(&c.b);
        passes(&c);
        ck_assert_int_eq(xcc_codegen_build(&c.m), XCVM_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(c.error.message, compilers[i]));
        ck_assert_int_ne(access(library, F_OK), 0);
        finish(&c);
    }
    remove_folder();
}
END_TEST

static void expect_target(const char *target, const char *compiler, const char *isa)
{
    compilation c;
    begin_fused(&c);
    c.options.kernel_library.target = target;
    c.options.kernel_library.compiler = compiler;
    make_small(&c.b);
    build_library(&c);
    ck_assert_int_eq(access(library, R_OK), 0);
    test_bytes bytes = emit(&c);
    xcvm_program *program = NULL;
    xcvm_error error = {0};
    xcvm_load_options options = {.size = sizeof options, .library_dir = folder};
    ck_assert_int_eq(xcvm_program_load(bytes.at, bytes.length, &options, &program, &error), XCVM_OK);
    ck_assert_str_eq(program->image.libraries[0].isa, isa);
    xcvm_program_info info = {.size = sizeof info};
    xcvm_program_get_info(program, &info);
    ck_assert_int_eq(info.notice == NULL, xcvm_isa_runs(isa));
    xcvm_program_destroy(program);
    test_bytes_free(&bytes);
    finish(&c);
}

START_TEST(targets)
{
    make_folder();
    expect_target("native", NULL, xcvm_kernel_isa());
    expect_target("generic", NULL, xcvm_isa_at(0));
#define EXPECT(of, kind, suffix, name, has, ...) expect_target(name, NULL, name);
    XCVM_ISAS(EXPECT, )
#if defined(__x86_64__)
    if (system("aarch64-linux-gnu-gcc --version > /dev/null 2>&1") == 0)
        expect_target("aarch64", NULL, "aarch64");
#endif
    compilation c;
    begin_fused(&c);
    c.options.kernel_library.target = "pdp11";
    make_small(&c.b);
    passes(&c);
    ck_assert_int_eq(xcc_codegen_build(&c.m), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(c.error.message, "pdp11"));
    finish(&c);
    remove_folder();
}
END_TEST

/* The compiler's own words, and the source to look at. */
START_TEST(failures_are_told)
{
    compilation c;
    make_folder();
    char compiler[96];
    snprintf(compiler, sizeof compiler, "%s/cc", folder);
    FILE *file = fopen(compiler, "w");
    ck_assert_ptr_nonnull(file);
    fputs("#!/bin/sh\necho first line >&2\necho second line >&2\nexit 1\n", file);
    fclose(file);
    ck_assert_int_eq(chmod(compiler, 0700), 0);
    begin_fused(&c);
    c.options.kernel_library.compiler = compiler;
    c.options.kernel_library.source_path = source;
    make_small(&c.b);
    passes(&c);
    ck_assert_int_eq(xcc_codegen_build(&c.m), XCVM_UNSUPPORTED);
    ck_assert_msg(strstr(c.error.message, "first line\nsecond line") != NULL, "%s", c.error.message);
    ck_assert_ptr_nonnull(strstr(c.error.message, source));
    ck_assert_int_eq(access(source, R_OK), 0);
    finish(&c);
    unlink(compiler);
    remove_folder();
}
END_TEST

START_TEST(source_is_kept_and_cached)
{
    compilation c;
    char cached[128];
    make_folder();
    snprintf(cached, sizeof cached, "%s/cache", folder);
    for (int round = 0; round < 2; round++) {
        begin_fused(&c);
        c.options.kernel_library.source_path = source;
        c.options.kernel_library.cache_dir = cached;
        /* The second time nothing needs to be compiled. */
        make_small(&c.b);
        build_library(&c);
        ck_assert_int_eq(access(source, R_OK), 0);
        ck_assert_int_eq(access(library, R_OK), 0);
        finish(&c);
    }
    char command[512];
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 1 && rm -r %s", cached, cached);
    ck_assert_int_eq(system(command), 0);
    remove_folder();
}
END_TEST

Suite *suite_compiler_library_build(void);

Suite *suite_compiler_library_build(void)
{
    Suite *suite = suite_create("compiler_library_build");
    TCase *test = tcase_create("library_build");
    tcase_set_timeout(test, 300);
    tcase_add_test(test, libraries_that_do_not_fit);
    tcase_add_test(test, compilers_that_fail);
    tcase_add_test(test, targets);
    tcase_add_test(test, failures_are_told);
    tcase_add_test(test, source_is_kept_and_cached);
    suite_add_tcase(suite, test);
    return suite;
}
