/* Tests of opening files beneath a folder. */
#include "proto/open_beneath.h"
#include "tests/support.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/xcvm_test_XXXXXX";
static xcvm_error error;

static void path_of(char path[256], const char *name) { snprintf(path, 256, "%s/%s", folder, name); }

static void write_file(const char *name, const char *contents)
{
    char path[256];
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(contents, file);
    fclose(file);
}

static void setup(void)
{
    char path[256], target[256];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    path_of(path, "sub");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_file("a", "0123456789");
    write_file("sub/b", "abcdefgh");
    path_of(target, "a");
    path_of(path, "link");
    ck_assert_int_eq(symlink(target, path), 0);
    path_of(path, "up");
    ck_assert_int_eq(symlink("/etc", path), 0);
    path_of(path, "fifo");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void teardown(void)
{
    static const char *const names[] = {"a", "sub/b", "sub", "link", "up", "fifo", "."};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_of(path, names[i]);
        if (remove(path) != 0)
            (void)!rmdir(folder);
    }
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

static xcvm_status open_it(const char *path)
{
    int fd;
    uint64_t size;
    xcvm_status status = xcvm_open_beneath(folder, path, &fd, &size, &error);
    if (status == XCVM_OK)
        close(fd);
    return status;
}

START_TEST(test_open)
{
    ck_assert_int_eq(open_it("a"), XCVM_OK);
    ck_assert_int_eq(open_it("./a"), XCVM_OK);
    ck_assert_int_eq(open_it("sub//b"), XCVM_OK);
    ck_assert_int_eq(open_it("/etc/passwd"), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(open_it(""), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(open_it(".."), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(open_it("sub/../a"), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(open_it("../x"), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(open_it("link"), XCVM_IO);
    ck_assert_int_eq(open_it("up/passwd"), XCVM_IO);
    ck_assert_int_eq(open_it("sub"), XCVM_IO);
    ck_assert_int_eq(open_it("fifo"), XCVM_IO);
    ck_assert_int_eq(open_it("none"), XCVM_IO);
    ck_assert_int_eq(open_it("a/b"), XCVM_IO);
}
END_TEST

static void check_text(const char *dir, const char *reference, xcvm_status expected, const char *message)
{
    char text[400];
    test_bytes file = {0};
    snprintf(text, sizeof text, "xcvm 1\nconstant c %s\n", reference);
    xcvm_status status = xcvm_assemble(text, strlen(text), dir, (xcvm_sink){test_bytes_sink, &file}, &error);
    ck_assert_msg(status == expected, "%s: %s", text, status != XCVM_OK ? error.message : "taken");
    if (status != XCVM_OK)
        ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    else
        ck_assert_msg(memmem(file.at, file.length, message, strlen(message)) != NULL, "%s", text);
    test_bytes_free(&file);
}

START_TEST(test_references)
{
    char absolute[300];
    snprintf(absolute, sizeof absolute, "u8[3] = @\"%s/link\":1", folder);
    check_text(folder, "u8[3] = @\"a\":7", XCVM_OK, "789");
    check_text(folder, "u8[2x2] = @\"sub/b\":0", XCVM_OK, "abcd");
    check_text(folder, "u8[0] = @\"a\":10", XCVM_OK, "c");
    check_text("", absolute, XCVM_OK, "123");
    check_text(NULL, "u8[3] = @\"a\":7", XCVM_INVALID_PROGRAM, "line 2: `a`: this text may not refer to files");
    check_text(folder, "u8[3] = @\"a\":8", XCVM_INVALID_PROGRAM, "line 2: `a` has 10 bytes, too few for 3 at 8");
    check_text(folder, "u8[3] = @\"a\":18446744073709551615", XCVM_INVALID_PROGRAM, "too few");
    check_text(folder, "f32[9999999999999] = @\"a\":0", XCVM_INVALID_PROGRAM, "too few");
    check_text(folder, "u8[3] = @\"a\"", XCVM_INVALID_PROGRAM, "`:` is expected");
    check_text(folder, "u8[3] = @\"/etc/passwd\":0", XCVM_INVALID_ARGUMENT, "line 2: ");
    check_text(folder, "u8[3] = @\"link\":0", XCVM_IO, "it is a symbolic link");
    check_text(folder, "str[1] = @\"a\":0+10", XCVM_INVALID_PROGRAM, "1 strings need 16 bytes at least");
}
END_TEST

Suite *suite_proto_open_beneath(void);
Suite *suite_proto_open_beneath(void)
{
    Suite *suite = suite_create("proto_open_beneath");
    TCase *tests = tcase_create("open_beneath");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_open);
    tcase_add_test(tests, test_references);
    suite_add_tcase(suite, tests);
    return suite;
}
