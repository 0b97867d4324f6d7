/* Tests of option parsing and exit codes. */
#include "tests/suites.h"
#include "tools/io/json.h"
#include "tools/cli/options.h"
#include "tools/run/measure.h"
#include "tools/cli/report.h"

#include <stdio.h>
#include <string.h>

struct flags {
    bool flag, other;
    const char *text, *choice;
    struct text_list list;
    int64_t number;
    double real;
    uint64_t size;
};

static const struct option table[] = {
    {"flag", 'f', NULL, OPTION_FLAG, offsetof(struct flags, flag), 0, 0, "a flag"},
    {"other", 'p', NULL, OPTION_FLAG, offsetof(struct flags, other), 0, 0, "another flag"},
    {"text", 't', "TEXT", OPTION_TEXT, offsetof(struct flags, text), 0, 0, "a text"},
    {"choice", 0, "red|green", OPTION_CHOICE, offsetof(struct flags, choice), 0, 0, "a choice"},
    {"list", 'l', "ITEM", OPTION_LIST, offsetof(struct flags, list), 0, 0, "a list"},
    {"number", 'n', "N", OPTION_INT, offsetof(struct flags, number), -3, 9, "a number"},
    {"real", 0, "X", OPTION_REAL, offsetof(struct flags, real), 0, 0, "a real number"},
    {"size", 0, "SIZE", OPTION_SIZE, offsetof(struct flags, size), 0, 0, "a size"},
    END_OF_OPTIONS,
};
static const struct option_group groups[] = {{"Options", table, 0}};
static const struct flags defaults = {.number = 4, .choice = "red"};
static const struct command command = {.name = "sample",
                                       .operands = "FILE",
                                       .min_operands = 0,
                                       .max_operands = 2,
                                       .groups = groups,
                                       .group_count = 1,
                                       .defaults = &defaults,
                                       .options_size = sizeof(struct flags)};

static bool parse(struct flags *flags, struct arguments *operands, const char *line)
{
    static char copy[256];
    char *words[32];
    int count = 0;
    bool help;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word != NULL && count < 32; word = strtok(NULL, " "))
        words[count++] = word;
    return options_parse(&command, count, words, flags, operands, &help);
}

START_TEST(accepted)
{
    struct flags flags;
    struct arguments operands;
    ck_assert(parse(&flags, &operands, ""));
    ck_assert(flags.number == 4 && strcmp(flags.choice, "red") == 0 && !flags.flag);
    options_release(&command, &flags, &operands);
    ck_assert(parse(&flags, &operands,
                    "--flag a --text=x=y --number -3 --list a -l b -lc -n9 - --size=2K --real=1e-3 "
                    "--choice green"));
    ck_assert(flags.flag && flags.number == 9 && flags.list.count == 3 && flags.size == 2048);
    ck_assert(flags.real > 0.00099 && flags.real < 0.00101);
    ck_assert_str_eq(flags.text, "x=y");
    ck_assert_str_eq(flags.list.items[2], "c");
    ck_assert_str_eq(flags.choice, "green");
    ck_assert(operands.count == 2);
    ck_assert_str_eq(operands.items[1], "-");
    options_release(&command, &flags, &operands);
    ck_assert(parse(&flags, &operands, "-fpt x -- --flag"));
    ck_assert(flags.flag && flags.other && operands.count == 1);
    ck_assert_str_eq(flags.text, "x");
    options_release(&command, &flags, &operands);
}
END_TEST

START_TEST(refused)
{
    static const char *const lines[] = {
        "--flga",     "-x",          "--flag=1",           "--text",          "--number",
        "--number=x", "--number=10", "--number=1.5",       "--number --flag", "--size=1Q",
        "--size=-1",  "--real=-1",   "--real=nan",         "--choice=blue",   "a b c",
        "-n",         "--number=",   "--size=99999999999T"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct flags flags;
        struct arguments operands;
        ck_assert_msg(!parse(&flags, &operands, lines[i]), "%s", lines[i]);
        options_release(&command, &flags, &operands);
    }
}
END_TEST

START_TEST(nearest)
{
    static const char *const names[] = {"threads", "timeout-ms", "trace-shapes", "trace-values", "dim", NULL};
    ck_assert_str_eq(nearest_name("trheads", names), "threads");
    ck_assert_str_eq(nearest_name("timeout", names), "timeout-ms");
    ck_assert_str_eq(nearest_name("dmi", names), "dim");
    ck_assert_ptr_null(nearest_name("xyzzy", names));
    ck_assert_ptr_null(nearest_name("", names));
}
END_TEST

START_TEST(exit_codes)
{
#define XCVM_STATUS(name, number, summary)                                                                             \
    ck_assert_msg((exit_code_of(XCVM_##name) == 0) == (number == 0), "%s", summary);
    XCVM_STATUS_LIST(XCVM_STATUS)
#undef XCVM_STATUS
    ck_assert_int_eq(exit_code_of(XCVM_UNSUPPORTED), 4);
    ck_assert_int_eq(exit_code_of(XCVM_OUT_OF_TIME), 5);
    ck_assert_int_eq(exit_code_of(XCVM_IO), 6);
    ck_assert_int_eq(exit_code_of(XCVM_INVALID_PROGRAM), 3);
}
END_TEST

START_TEST(error_prefixes)
{
    xcvm_error error;
    error_set(&error, XCVM_IO, "%0599d", 7);
    error_prefix(&error, "%0400d", 1);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    error_set(&error, XCVM_IO, "b");
    error_prefix(&error, "a");
    ck_assert_str_eq(error.message, "a: b");
}
END_TEST

START_TEST(json_strings)
{
    struct buffer text = {0};
    json_string(&text, "a\"\\\n\x01\xc3\xa9\xff\xed\xa0\x80");
    ck_assert_str_eq(buffer_string(&text),
                     "\"a\\\"\\\\\\u000a\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    buffer_release(&text);
}
END_TEST

START_TEST(percentiles)
{
    static const double values[] = {1, 2, 3, 4};
    ck_assert(percentile(values, 4, 0) == 1 && percentile(values, 4, 1) == 4 && percentile(values, 4, 0.5) == 2.5);
    ck_assert(percentile(values, 1, 0.99) == 1);
}
END_TEST

Suite *suite_tools_options(void)
{
    Suite *suite = suite_create("tools_options");
    TCase *tests = tcase_create("options");
    tcase_add_test(tests, accepted);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, nearest);
    tcase_add_test(tests, exit_codes);
    tcase_add_test(tests, error_prefixes);
    tcase_add_test(tests, json_strings);
    tcase_add_test(tests, percentiles);
    suite_add_tcase(suite, tests);
    return suite;
}
