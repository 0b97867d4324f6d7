/* The text cases of all instructions: one test for each file, and one that no instruction is without. */
#include "tests/case_runner.h"
#include "tests/case_tolerance.h"
#include "tests/support.h"

#include "ops/op.h"

#include <check.h>
#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char folder[] = XCVM_TEST_DATA "/ops";

static int is_case_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".xcvm") == 0;
}

/* The names of the case files, in alphabetical order. */
static struct dirent **files;
static int file_count;

START_TEST(test_file)
{
    static char report[20000];
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, files[_i]->d_name);
    case_counts counts = case_file_run(path, report, sizeof report);
    ck_assert_msg(counts.failed == 0, "%zu of %zu cases fail\n%s", counts.failed, counts.run, report);
}
END_TEST

/* Numbers that become text, or are made of it, do not take the process' decimal comma. */
START_TEST(test_locale)
{
    static const char *const names[] = {"Cast.xcvm", "Print.xcvm", "TfIdfVectorizer.xcvm", "LabelEncoder.xcvm"};
    static char report[20000];
    ck_assert(test_comma_locale());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        case_counts counts = case_file_run(path, report, sizeof report);
        ck_assert(counts.run > 0);
        ck_assert_msg(counts.failed == 0, "%s: %zu of %zu cases fail\n%s", names[i], counts.failed, counts.run, report);
    }
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(test_coverage)
{
    char missing[8000] = "";
    for (int64_t i = 0; i < XCVM_OPCODE_LIMIT; i++) {
        const xcvm_row *row = xcvm_row_of(i);
        bool found = row == NULL;
        for (int j = 0; !found && j < file_count; j++) {
            size_t length = strlen(row->name);
            found =
                strncmp(files[j]->d_name, row->name, length) == 0 && strcmp(files[j]->d_name + length, ".xcvm") == 0;
        }
        if (!found)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", row->name);
    }
    ck_assert_msg(missing[0] == '\0', "these instructions have no tests/ops/<Instruction>.xcvm:%s", missing);
}
END_TEST

START_TEST(test_names)
{
    for (int i = 0; i < file_count; i++) {
        size_t length = strlen(files[i]->d_name) - strlen(".xcvm");
        ck_assert_msg(xcvm_row_named(files[i]->d_name, length) != NULL, "tests/ops/%s is named after no instruction",
                      files[i]->d_name);
    }
}
END_TEST

/* An instruction without arithmetic has nothing to round. */
START_TEST(test_rounding)
{
    const xcvm_row *identity = xcvm_row_of(XCVM_OP_Identity);
    for (int64_t i = 0; i < XCVM_OPCODE_LIMIT; i++) {
        const xcvm_row *row = xcvm_row_of(i);
        ck_assert_msg(row == NULL || row->cost != identity->cost || !case_row_rounds(row),
                      "%s moves elements, its cases are to be compared exactly", row != NULL ? row->name : "");
    }
}
END_TEST

START_TEST(test_tolerance)
{
    const case_expectation silent = {.rtol = -1, .atol = -1}, stated = {.rtol = 1e-3, .atol = -1};
    const case_tolerance exact = case_tolerance_of(&silent, XCVM_F64, true);
    const case_tolerance f64 = case_tolerance_of(&silent, XCVM_F64, false);
    const case_tolerance loose = case_tolerance_of(&stated, XCVM_F64, true);
    ck_assert(case_is_close(0.0, 0.0, exact) && case_is_close(-0.0, -0.0, exact));
    ck_assert(!case_is_close(0.0, -0.0, exact) && !case_is_close(-0.0, 0.0, exact));
    ck_assert(case_is_close((double)NAN, (double)NAN, exact) && !case_is_close(1.0, (double)NAN, exact));
    ck_assert(!case_is_close(1.0, nextafter(1.0, 2.0), exact));
    ck_assert(case_is_close(0.0, -0.0, f64) && case_is_close(1.0, 1.0 + 9e-13, f64));
    ck_assert(!case_is_close(1.0, 1.0 + 1.1e-12, f64) && !case_is_close((double)0.1f, 0.1, f64));
    ck_assert(case_is_close(1.0, 1.0009, loose) && !case_is_close(1.0, 1.0011, loose));
}
END_TEST

Suite *suite_ops_cases(void);
Suite *suite_ops_cases(void)
{
    Suite *suite = suite_create("ops_cases");
    TCase *cases = tcase_create("files");
    TCase *coverage = tcase_create("coverage");
    file_count = scandir(folder, &files, is_case_file, alphasort);
    if (file_count < 0)
        file_count = 0;
    tcase_set_timeout(cases, 300);
    tcase_set_timeout(coverage, 300);
    tcase_add_loop_test(cases, test_file, 0, file_count);
    tcase_add_test(coverage, test_locale);
    tcase_add_test(coverage, test_coverage);
    tcase_add_test(coverage, test_names);
    tcase_add_test(coverage, test_rounding);
    tcase_add_test(coverage, test_tolerance);
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, coverage);
    return suite;
}
