/* Tests of whole files: the existing target determines how a file is written. */
#include "tests/suites.h"
#include "tests/train/folder.h"
#include "train/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static xcvm_status put(const char *path, const char *text, xcvm_error *error)
{
    xct_whole_file file;
    XCVM_TRY(xct_whole_file_open(&file, path, NULL, error));
    xct_whole_file_sink(&file, text, strlen(text));
    return xct_whole_file_close(&file, XCVM_OK, error);
}

static void check_text(const char *path, const char *text)
{
    test_bytes bytes = test_file_read(path);
    ck_assert_uint_eq(bytes.length, strlen(text));
    ck_assert_mem_eq(bytes.at, text, bytes.length);
    test_bytes_free(&bytes);
}

static mode_t mode_of(const char *path)
{
    struct stat facts;
    ck_assert_int_eq(lstat(path, &facts), 0);
    return facts.st_mode;
}

/* A link stays a link, its target keeps its mode, and a failure leaves the old file and no temporary file. */
START_TEST(replaced)
{
    xcvm_error error;
    xct_whole_file file;
    const char *real = in_folder("real"), *name = in_folder("link");
    ck_assert_int_eq(put(real, "one", &error), XCVM_OK);
    ck_assert_int_eq(chmod(real, 0640), 0);
    ck_assert_int_eq(symlink("real", name), 0);
    ck_assert_int_eq(put(name, "two", &error), XCVM_OK);
    ck_assert(S_ISLNK(mode_of(name)));
    ck_assert_int_eq(mode_of(real) & 0777, 0640);
    check_text(real, "two");
    ck_assert_int_eq(xct_whole_file_open(&file, real, NULL, &error), XCVM_OK);
    xct_whole_file_sink(&file, "three", 5);
    ck_assert_int_eq(access(file.temporary, R_OK), 0);
    ck_assert_int_eq(xct_whole_file_close(&file, XCVM_IO, &error), XCVM_IO);
    ck_assert_int_ne(access(file.temporary, R_OK), 0);
    check_text(real, "two");
    ck_assert_int_eq(put(folder, "four", &error), XCVM_IO);
    /* Permissions do not restrict root. */
    ck_assert_int_eq(chmod(real, 0444), 0);
    if (geteuid() != 0) {
        ck_assert_int_eq(put(real, "five", &error), XCVM_IO);
        check_text(real, "two");
    }
}
END_TEST

/* An existing link with the name of the temporary file does not redirect the bytes. */
START_TEST(planted)
{
    xcvm_error error;
    char name[64];
    snprintf(name, sizeof name, "curve.%ld.new", (long)getpid());
    ck_assert_int_eq(put(in_folder("victim"), "precious", &error), XCVM_OK);
    ck_assert_int_eq(symlink("victim", in_folder(name)), 0);
    ck_assert_int_eq(put(in_folder("curve"), "picture", &error), XCVM_OK);
    check_text(in_folder("curve"), "picture");
    check_text(in_folder("victim"), "precious");
    ck_assert(S_ISREG(mode_of(in_folder("curve"))));
}
END_TEST

/* A pipe is written to. If nothing reads it, the writer can be stopped. */
START_TEST(pipes)
{
    xcvm_error error = {.message = ""};
    xct_whole_file file;
    const char *path = in_folder("pipe");
    const atomic_bool stop = true;
    char text[8] = "";
    int fd;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(xct_whole_file_open(&file, path, &stop, &error), XCVM_CANCELLED);
    ck_assert_int_eq(xct_open_target(path, O_CREAT, &stop, &fd, &error), XCVM_CANCELLED);
    ck_assert_ptr_nonnull(strstr(error.message, "nobody read it"));
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    ck_assert_int_eq(put(path, "bytes", &error), XCVM_OK);
    ck_assert_int_eq(read(reader, text, sizeof text - 1), 5);
    ck_assert_str_eq(text, "bytes");
    ck_assert_int_eq(xct_open_target(path, 0, NULL, &fd, &error), XCVM_OK);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    close(fd);
    close(reader);
    ck_assert(S_ISFIFO(mode_of(path)));
    ck_assert_int_eq(xct_open_target(in_folder("none/x"), O_CREAT, NULL, &fd, &error), XCVM_IO);
}
END_TEST

Suite *suite_train_whole_file(void)
{
    Suite *suite = suite_create("train_whole_file");
    TCase *tests = tcase_create("whole_file");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, replaced);
    tcase_add_test(tests, planted);
    tcase_add_test(tests, pipes);
    suite_add_tcase(suite, tests);
    return suite;
}
