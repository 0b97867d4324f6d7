/* `xcvm test`: runs cases in ONNX's layout and compares their results. */
#include "run/cases.h"
#include "commands/commands.h"
#include "values/class_names.h"
#include "values/compare.h"
#include "run/gradients.h"
#include "run/subprocess.h"
#include "cli/memory.h"
#include "cli/color.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "run/session.h"
#include "values/value.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_flags {
    struct program_flags program;
    struct session_flags session;
    struct text_list filters, shape_only;
    double rtol, atol, case_timeout;
    int64_t jobs;
    const char *isolate, *program_name;
    bool backprop, skip_unsupported, list_failures, quiet;
};

static const struct option options[] = {
    {"rtol", 0, "X", OPTION_REAL, offsetof(struct test_flags, rtol), 0, 0, "relative tolerance of floats"},
    {"atol", 0, "X", OPTION_REAL, offsetof(struct test_flags, atol), 0, 0, "absolute tolerance of floats"},
    BACKPROP_OPTION(
        struct test_flags,
        "also compile with gradients by each NAME of the tensors grad_out@NAME in gradient_N.pb, and compare them"),
    {"filter", 'f', "GLOB", OPTION_LIST, offsetof(struct test_flags, filters), 0, 0,
     "run only the cases whose names match; may be repeated"},
    {"shape-only", 0, "GLOB", OPTION_LIST, offsetof(struct test_flags, shape_only), 0, 0,
     "for cases whose names match, compare types and shapes only (random operators); may be repeated"},
    {"program", 0, "NAME", OPTION_TEXT, offsetof(struct test_flags, program_name), 0, 0,
     "run the program of this name in the directory of a case, instead of its model"},
    {"skip-unsupported", 0, NULL, OPTION_FLAG, offsetof(struct test_flags, skip_unsupported), 0, 0,
     "count cases that need something unsupported as skipped, not failed"},
    {"list-failures", 0, NULL, OPTION_FLAG, offsetof(struct test_flags, list_failures), 0, 0,
     "list the failed cases again at the end"},
    {"quiet", 'q', NULL, OPTION_FLAG, offsetof(struct test_flags, quiet), 0, 0,
     "do not print passed cases or warnings on models"},
    {"jobs", 'j', "N", OPTION_INT, offsetof(struct test_flags, jobs), 1, 256, "number of cases to run in parallel"},
    {"isolate", 0, "auto|always|never", OPTION_CHOICE, offsetof(struct test_flags, isolate), 0, 0,
     "run each case in a process of its own, so that a crash fails only this case; auto: if there are several cases"},
    {"case-timeout", 0, "SECONDS", OPTION_REAL, offsetof(struct test_flags, case_timeout), 0, 0,
     "a case in a process of its own fails if it takes longer"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Testing", options, 0},
    OPTION_GROUP("Running", session_options, struct test_flags, session),
    LIMIT_GROUP(struct test_flags, program.limits),
    MODEL_GROUPS(struct test_flags, program.model),
    MACHINE_GROUP(struct test_flags, program.model),
    LOADING_GROUP(struct test_flags, program),
};
static const struct test_flags defaults = {
    .program = PROGRAM_DEFAULTS, .rtol = 1e-3, .atol = 1e-5, .jobs = 1, .isolate = "auto", .case_timeout = 300};

struct testing {
    const struct test_flags *flags;
    struct test_cases cases;
    struct progress progress;
    size_t passed, failed, skipped;
    size_t missing; /* DIRs without a case */
    struct buffer failures;
};

/* Matches a name as a whole, or without the leading directories. */
static bool matches(const struct text_list *globs, const char *name)
{
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; i < globs->count; i++)
        if (fnmatch(globs->items[i], name, 0) == 0 || (slash != NULL && fnmatch(globs->items[i], slash + 1, 0) == 0))
            return true;
    return false;
}

/* ---- One case ---- */

/* A case's program, and the session that runs it on the case's data sets. */
struct trial {
    const struct testing *testing;
    struct names defaults; /* inputs with defaults that the data set */
    bool in_order;         /* data files are in the order of all inputs; otherwise those with defaults are last */
    struct program program;
    xcvm_session *session;
    bool shape_only;
    size_t gradients; /* outputs, the last ones */
    struct class_names names;
    struct buffer classes;      /* what scores of the last data set say */
    struct value_budget budget; /* memory of the data set, which the session uses until the next one */
};

/* The number of an input's file in a data set; `plain` inputs before it have none with defaults among them. */
static size_t file_of_input(const struct trial *trial, size_t index, size_t *plain)
{
    const size_t count = xcvm_program_input_count(trial->program.handle);
    const char *name = xcvm_program_input_at(trial->program.handle, index)->name;
    for (size_t i = 0; i < trial->defaults.count && !trial->in_order; i++)
        if (strcmp(trial->defaults.items[i], name) == 0)
            return count - trial->defaults.count + i;
    return trial->in_order ? index : (*plain)++;
}

static xcvm_status bind_set(struct trial *trial, const char *set, xcvm_error *error)
{
    size_t plain = 0;
    for (size_t i = 0; i < xcvm_program_input_count(trial->program.handle); i++) {
        const xcvm_value_info *input = xcvm_program_input_at(trial->program.handle, i);
        const size_t file = file_of_input(trial, i, &plain);
        xcvm_value *value;
        TRY(data_set_value(set, "input", file, &input->type, &trial->budget, &value, error));
        if (value == NULL)
            return error_set(error, XCVM_IO, "input_%zu.pb, for input %s, is missing", file, input->name);
        xcvm_status status = xcvm_session_set_input(trial->session, i, value, error);
        xcvm_value_release(value);
        if (status != XCVM_OK)
            return status;
    }
    return XCVM_OK;
}

/* The expected value of an output in a data set. The first outputs are the model's, the others are gradients. */
static xcvm_status expected_value(struct trial *trial, const char *set, size_t i, const xcvm_value *actual,
                                  xcvm_value **expected, xcvm_error *error)
{
    const xcvm_value_info *output = xcvm_program_output_at(trial->program.handle, i);
    if (i >= xcvm_program_output_count(trial->program.handle) - trial->gradients)
        return gradient_value(set, output->name, &trial->budget, expected, error);
    /* Files do not say whether they hold a tensor or a sequence. Where the model does not either, the result does. */
    xcvm_type type = output->type.kind != XCVM_KIND_NULL ? output->type : value_type(actual);
    TRY(data_set_value(set, "output", i, &type, &trial->budget, expected, error));
    if (*expected == NULL)
        return error_set(error, XCVM_IO, "output_%zu.pb, for output %s, is missing", i, output->name);
    return XCVM_OK;
}

/* Compares all outputs of a data set. *worst is the first that differs, or the one with the greatest error. */
static xcvm_status compare_set(struct trial *trial, const char *set, struct comparison *worst, size_t *which,
                               xcvm_error *error)
{
    const struct tolerance tolerance = {trial->testing->flags->rtol, trial->testing->flags->atol};
    const size_t count = xcvm_program_output_count(trial->program.handle);
    for (size_t i = 0; i < count && worst->agrees; i++) {
        xcvm_value *expected;
        struct comparison comparison;
        const xcvm_value *actual = xcvm_session_get_output(trial->session, i);
        TRY(expected_value(trial, set, i, actual, &expected, error));
        if (expected == NULL)
            continue;
        if (trial->shape_only)
            compare_types(actual, expected, &comparison);
        else
            compare_values(actual, expected, tolerance, &comparison);
        if (!trial->shape_only && trial->classes.length == 0)
            class_names_compare(&trial->names, xcvm_program_output_at(trial->program.handle, i)->name, actual, expected,
                                &trial->classes);
        xcvm_value_release(expected);
        if (!comparison.agrees || comparison.worst_absolute >= worst->worst_absolute) {
            size_t compared = worst->count;
            *worst = comparison;
            worst->count += comparison.agrees ? compared : 0;
            *which = i;
        } else {
            worst->count += comparison.count;
        }
    }
    return XCVM_OK;
}

/* Appends the reason of a failure on one line. */
static void print_why(struct buffer *text, const xcvm_error *error)
{
    char why[900];
    report_describe(error, why, sizeof why);
    for (char *at = why; *at != '\0'; at++)
        if (*at == '\n')
            *at = ';';
    buffer_text(text, why);
}

static void print_classes(const struct trial *trial, struct buffer *text)
{
    if (trial->classes.length > 0)
        buffer_format(text, "; %s", trial->classes.data);
}

/* A file without an input shows that the data set belongs to another model. */
static xcvm_status check_leftover(const struct trial *trial, const char *set, xcvm_error *error)
{
    static const char *const kinds[] = {"input", "output"};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const size_t count = i == 0 ? xcvm_program_input_count(trial->program.handle)
                                    : xcvm_program_output_count(trial->program.handle) - trial->gradients;
        char *name = data_set_leftover(set, kinds[i], count);
        if (name == NULL)
            continue;
        error_set(error, XCVM_INVALID_ARGUMENT, "%.100s is left over: the model has %zu %s%s", name, count, kinds[i],
                  count == 1 ? "" : "s");
        free(name);
        return XCVM_INVALID_ARGUMENT;
    }
    return XCVM_OK;
}

static enum verdict run_sets(struct trial *trial, char *const *sets, struct buffer *text)
{
    const struct test_flags *flags = trial->testing->flags;
    struct comparison worst = {.agrees = true};
    xcvm_run_options run = session_run_options(&flags->program.limits, &flags->session);
    size_t count = 0;
    for (; sets[count] != NULL; count++) {
        const char *name = strrchr(sets[count], '/') + 1;
        size_t which = 0;
        xcvm_error error = {.pc = -1};
        buffer_release(&trial->classes);
        value_budget_restart(&trial->budget);
        xcvm_status status = check_leftover(trial, sets[count], &error);
        if (status == XCVM_OK)
            status = bind_set(trial, sets[count], &error);
        if (status == XCVM_OK)
            status = xcvm_session_run(trial->session, &run, &error);
        value_budget_restart(&trial->budget);
        if (status == XCVM_OK)
            status = compare_set(trial, sets[count], &worst, &which, &error);
        if (status == XCVM_OK && worst.agrees)
            continue;
        if (status != XCVM_OK) {
            buffer_format(text, "%s: ", name);
            print_why(text, &error);
        } else {
            buffer_format(text, "%s: output %s: ", name, xcvm_program_output_at(trial->program.handle, which)->name);
            comparison_print(text, &worst);
            print_classes(trial, text);
        }
        return VERDICT_FAIL;
    }
    if (count == 0) {
        buffer_text(text, "has no data sets (test_data_set_N)");
        return VERDICT_FAIL;
    }
    if (count > 1)
        buffer_format(text, "%zu sets, ", count);
    if (trial->shape_only)
        buffer_text(text, "types and shapes agree");
    else
        comparison_print(text, &worst);
    print_classes(trial, text);
    return VERDICT_PASS;
}

static xcvm_status find_gradients(char *const *sets, struct value_budget *budget, struct names *wrt, xcvm_error *error)
{
    for (size_t i = 0; sets[i] != NULL; i++)
        TRY(gradient_names(sets[i], budget, wrt, error));
    if (wrt->count == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT, "the data sets have no gradients (gradient_0.pb)");
    return XCVM_OK;
}

/* Additional input files are for the model's inputs with defaults. */
static xcvm_status keep_defaults(struct trial *trial, const char *model, char *const *sets, struct program_flags *flags,
                                 xcvm_error *error)
{
    const size_t count = xcvm_program_input_count(trial->program.handle);
    size_t given = 0;
    for (size_t i = 0; sets[i] != NULL; i++) {
        const size_t here = data_set_inputs(sets[i]);
        given = here > given ? here : given;
    }
    if (given <= count || trial->program.kind != FILE_MODEL)
        return XCVM_OK;
    struct names all = {0};
    xcvm_status status = program_default_inputs(model, NULL, &flags->limits, &all, error);
    trial->in_order = all.count + count == given;
    for (size_t i = 0; i < all.count && i < given - count; i++)
        names_add(&trial->defaults, all.items[i]);
    names_release(&all);
    if (status != XCVM_OK || trial->defaults.count == 0)
        return status;
    flags->model.keep_inputs = (struct text_list){trial->defaults.items, trial->defaults.count};
    program_close(&trial->program);
    return program_open(model, flags, &trial->program, error);
}

static enum verdict run_case(void *context, size_t index, struct buffer *text)
{
    const struct testing *testing = context;
    const struct test_case *test = &testing->cases.items[index];
    struct trial trial = {.testing = testing, .shape_only = matches(&testing->flags->shape_only, test->name)};
    const char *name = testing->flags->program_name;
    char *own = name != NULL ? memory_format("%s/%s", test->folder, name) : NULL;
    xcvm_error error = {.pc = -1};
    struct program_flags flags = testing->flags->program;
    struct names wrt = {0};
    char **sets = data_sets_find(test->folder);
    value_budget_begin(&trial.budget, flags.limits.max_memory, flags.limits.timeout_ms);
    xcvm_status status = testing->flags->backprop ? find_gradients(sets, &trial.budget, &wrt, &error) : XCVM_OK;
    trial.gradients = wrt.count;
    flags.backprop = testing->flags->backprop;
    flags.no_notes = testing->flags->quiet;
    flags.wrt = (struct text_list){wrt.items, wrt.count};
    if (status == XCVM_OK)
        status = program_open(own != NULL ? own : test->model, &flags, &trial.program, &error);
    if (status == XCVM_OK && !flags.backprop)
        status = keep_defaults(&trial, own != NULL ? own : test->model, sets, &flags, &error);
    if (status == XCVM_OK)
        status = session_open(&trial.program, &flags.limits, NULL, &testing->flags->session, &trial.session, &error);
    enum verdict verdict = VERDICT_FAIL;
    if (status == XCVM_OK) {
        class_names_read(&trial.names, trial.program.handle);
        verdict = run_sets(&trial, sets, text);
    } else {
        print_why(text, &error);
        if (status == XCVM_UNSUPPORTED && testing->flags->skip_unsupported)
            verdict = VERDICT_SKIP;
    }
    class_names_release(&trial.names);
    buffer_release(&trial.classes);
    xcvm_session_destroy(trial.session);
    program_close(&trial.program);
    data_sets_release(sets);
    names_release(&wrt);
    names_release(&trial.defaults);
    free(own);
    return verdict;
}

/* ---- All cases ---- */

static void done(void *context, size_t index, enum verdict verdict, const char *text)
{
    struct testing *testing = context;
    const char *name = testing->cases.items[index].name;
    static const char *const words[] = {"PASS", "FAIL", "SKIP"};
    const char *color = verdict == VERDICT_PASS   ? color_good(1)
                        : verdict == VERDICT_FAIL ? color_bad(1)
                                                  : color_faint(1);
    testing->passed += verdict == VERDICT_PASS;
    testing->failed += verdict == VERDICT_FAIL;
    testing->skipped += verdict == VERDICT_SKIP;
    progress_end(&testing->progress);
    if (verdict != VERDICT_PASS || !testing->flags->quiet)
        printf("%s%s%s %s: %s\n", color, words[verdict], color_end(1), name, text);
    if (verdict == VERDICT_FAIL)
        buffer_format(&testing->failures, "  %s: %s\n", name, text);
    fflush(stdout);
    progress_show(&testing->progress, name, (double)(index + 1) / (double)testing->cases.count);
}

static void keep_matching(struct testing *testing)
{
    size_t kept = 0;
    for (size_t i = 0; i < testing->cases.count; i++) {
        struct test_case *test = &testing->cases.items[i], old = *test;
        *test = (struct test_case){0};
        if (matches(&testing->flags->filters, old.name)) {
            testing->cases.items[kept++] = old;
        } else {
            free(old.name);
            free(old.folder);
            free(old.model);
        }
    }
    testing->cases.count = kept;
}

static int execute_test(const void *own, const struct arguments *arguments)
{
    struct testing testing = {.flags = own};
    const struct test_flags *flags = own;
    xcvm_error error = {.pc = -1};
    int code = EXIT_OK;
    if (flags->jobs > 1 && strcmp(flags->isolate, "never") == 0)
        return report_usage(
            "--jobs and --isolate=never exclude each other: parallel cases need processes of their own");
    for (size_t i = 0; i < arguments->count; i++)
        if (cases_find(arguments->items[i], &testing.cases, &error) != XCVM_OK) {
            int why = report_error(NULL, &error);
            code = code == EXIT_OK ? why : code;
            testing.missing++;
        }
    if (testing.cases.count != 0 && flags->filters.count != 0) {
        keep_matching(&testing);
        if (testing.cases.count == 0)
            code = report_usage("no case matches --filter");
    }
    if (testing.cases.count != 0) {
        size_t count = testing.cases.count;
        bool in_subprocesses =
            strcmp(flags->isolate, "always") == 0 || (strcmp(flags->isolate, "auto") == 0 && count > 1);
        progress_start(&testing.progress);
        if (in_subprocesses)
            run_in_subprocesses(count, (size_t)flags->jobs, flags->case_timeout, run_case, done, &testing);
        for (size_t i = 0; i < count && !in_subprocesses; i++) {
            struct buffer text = {0};
            enum verdict verdict = run_case(&testing, i, &text);
            done(&testing, i, verdict, buffer_string(&text));
            buffer_release(&text);
        }
        progress_end(&testing.progress);
        if (flags->list_failures && testing.failed != 0)
            printf("failed:\n%s", buffer_string(&testing.failures));
        if (testing.missing != 0)
            printf("%zu %s without a case\n", testing.missing, testing.missing == 1 ? "folder" : "folders");
        printf("%zu passed, %zu failed, %zu skipped\n", testing.passed, testing.failed, testing.skipped);
        code = testing.failed != 0 ? EXIT_DIFFERENT : code;
    }
    buffer_release(&testing.failures);
    cases_release(&testing.cases);
    return code;
}

static const struct example examples[] = {
    {"models/*", "run every model in a directory"},
    {"onnx/backend/test/data/node --skip-unsupported -q --list-failures",
     "run ONNX's operator cases and list the failures"},
    {"training/* --backprop", "run networks with a loss, and compare their gradients"},
    {"node --filter 'test_conv*' --rtol 1e-4 -j 2", "run some of them, two in parallel"},
};

const struct command command_test = {
    .name = "test",
    .summary = "run models on their test data and compare the outputs",
    .operands = "DIR...",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .description =
        "Runs test cases in ONNX's layout: a directory with model.onnx, test_data_set_N/input_N.pb and output_N.pb "
        "(input_N_M.pb for the items of a sequence). Additional input files set the inputs with defaults. A file "
        "without a matching input or output is a failure. DIR is a case or contains cases at any depth.\n\nWith "
        "--backprop, a data set also has gradient_0.pb, gradient_1.pb and so on. Each is a tensor named grad_out@NAME, "
        "the gradient of the model's only float output by parameter or input NAME.\n\nFloats agree as in ONNX's own "
        "runner: |actual - expected| <= atol + rtol * |expected|, and NaN with NaN. Integers, strings, types and "
        "shapes must be equal. Each case prints one line, and the last line counts them. The exit code is 1 if a case "
        "failed. A DIR without a case is reported and counted, and the others are still tested. If no case failed, the "
        "exit code is then 2, or 6 if the directory cannot be read.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct test_flags),
    .run = execute_test,
};
