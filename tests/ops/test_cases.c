/* The text cases of all instructions: one test for each file, and one that no instruction is without. */
/* Takes long. */
#include "compiler/gradients/gradients.h"
#include "ops/table/table.h"
#include "tests/case_runner.h"
#include "tests/case_tolerance.h"
#include "tests/support.h"

#include "ops/op.h"

#include <check.h>
#include <glob.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The case files: one for each instruction, in the directory of its kernel. */
static glob_t files;

/* Position of the instruction's name in the path of its case file. */
static const char *instruction_of(const char *path, size_t *length)
{
    const char *name = strrchr(path, '/') + 1;
    *length = strlen(name) - strlen(".xcvm");
    return name;
}

/* The case file of an instruction; NULL if it has none. */
static const char *file_of(const char *name)
{
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t length;
        const char *found = instruction_of(files.gl_pathv[i], &length);
        if (length == strlen(name) && strncmp(found, name, length) == 0)
            return files.gl_pathv[i];
    }
    return NULL;
}

START_TEST(test_file)
{
    static char report[20000];
    case_counts counts = case_file_run(files.gl_pathv[_i], report, sizeof report);
    ck_assert_msg(counts.failed == 0, "%zu of %zu cases fail\n%s", counts.failed, counts.run, report);
    size_t length;
    const char *name = instruction_of(files.gl_pathv[_i], &length);
    const xcvm_schema *schema = xcvm_schema_named(name, length);
    ck_assert_msg(schema == NULL || xcc_gradient_rule_of(schema->opcode) == NULL || counts.gradients > 0,
                  "%.*s has a rule of differentiation, and no case that looks at gradients", (int)length, name);
}
END_TEST

/* Numbers that become text, or are made of it, do not take the process' decimal comma. */
START_TEST(test_locale)
{
    static const char *const names[] = {"Cast", "Print", "TfIdfVectorizer", "LabelEncoder"};
    static char report[20000];
    ck_assert(test_comma_locale());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = file_of(names[i]);
        ck_assert(path != NULL);
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
        const xcvm_schema *schema = xcvm_schema_of(i);
        if (schema != NULL && file_of(schema->name) == NULL)
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", schema->name);
    }
    ck_assert_msg(missing[0] == '\0', "these instructions have no tests/ops/<room>/<Instruction>.xcvm:%s", missing);
}
END_TEST

START_TEST(test_names)
{
    for (size_t i = 0; i < files.gl_pathc; i++) {
        size_t length;
        const char *name = instruction_of(files.gl_pathv[i], &length);
        const xcvm_schema *schema = xcvm_schema_named(name, length);
        ck_assert_msg(schema != NULL, "%s is named after no instruction", files.gl_pathv[i]);
        ck_assert_str_eq(file_of(schema->name), files.gl_pathv[i]);
    }
}
END_TEST

/* An instruction without arithmetic has nothing to round. */
START_TEST(test_rounding)
{
    const xcvm_schema *identity = xcvm_schema_of(XCVM_OP_Identity);
    for (int64_t i = 0; i < XCVM_OPCODE_LIMIT; i++) {
        const xcvm_schema *schema = xcvm_schema_of(i);
        ck_assert_msg(schema == NULL || schema->cost != identity->cost || !case_row_rounds(schema),
                      "%s moves elements, its cases are to be compared exactly", schema != NULL ? schema->name : "");
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
    int found = glob(XCVM_TEST_DATA "/ops/*/*.xcvm", 0, NULL, &files);
    tcase_set_timeout(cases, 300);
    tcase_set_timeout(coverage, 300);
    tcase_add_loop_test(cases, test_file, 0, found == 0 ? (int)files.gl_pathc : 0);
    tcase_add_test(coverage, test_locale);
    tcase_add_test(coverage, test_coverage);
    tcase_add_test(coverage, test_names);
    tcase_add_test(coverage, test_rounding);
    tcase_add_test(coverage, test_tolerance);
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, coverage);
    return suite;
}
