/* `xcvm diff`: runs two programs on the same inputs, and compares their values. */
#include "commands/commands.h"
#include "values/compare.h"
#include "cli/memory.h"
#include "io/output.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "profile/diff_page.h"
#include "run/session.h"
#include "values/value.h"
#include "run/observe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct diff_flags {
    struct program_flags program;
    struct session_flags session;
    struct input_flags input;
    double rtol, atol;
    bool all, outputs_only;
    uint64_t keep;
    const char *html;
};

static const struct option options[] = {
    {"rtol", 0, "X", OPTION_REAL, offsetof(struct diff_flags, rtol), 0, 0, "relative tolerance"},
    {"atol", 0, "X", OPTION_REAL, offsetof(struct diff_flags, atol), 0, 0, "absolute tolerance"},
    {"all", 'a', NULL, OPTION_FLAG, offsetof(struct diff_flags, all), 0, 0,
     "print every value that differs, not only the first"},
    {"outputs-only", 0, NULL, OPTION_FLAG, offsetof(struct diff_flags, outputs_only), 0, 0,
     "compare outputs only, which needs less memory"},
    {"html", 0, "FILE.html", OPTION_OUTPUT, offsetof(struct diff_flags, html), 0, 0,
     "write a report: one page of HTML with the differences by output, instruction and node, and the graph with errors "
     "as color. It needs no network"},
    {"keep", 0, "SIZE", OPTION_SIZE, offsetof(struct diff_flags, keep), 0, 0,
     "limit in bytes for the values of the first program that are kept for comparison; later values are not compared"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    OPTION_GROUP("Inputs", input_options, struct diff_flags, input),
    {"Comparing", options, 0},
    OPTION_GROUP("Running", session_options, struct diff_flags, session),
    LIMIT_GROUP(struct diff_flags, program.limits),
    MODEL_GROUPS(struct diff_flags, program.model),
    MACHINE_GROUP(struct diff_flags, program.model),
    LOADING_GROUP(struct diff_flags, program),
};
static const struct diff_flags defaults = {.program = PROGRAM_DEFAULTS,
                                           .input = {.int_max = DEFAULT_INT_MAX},
                                           .rtol = 1e-4,
                                           .atol = 1e-5,
                                           .keep = UINT64_C(2) << 30};

/* A value of the first program. `repetition` counts earlier values of the same name, which loops make. */
struct kept {
    char *name;
    size_t repetition;
    xcvm_value *value;
    struct kept *next; /* with the same hash */
};

enum { BUCKETS = 4096 };

struct diffing {
    const struct diff_flags *flags;
    struct kept *buckets[BUCKETS];
    struct counter {
        char *name;
        size_t count;
    } * counters; /* of the current run */
    size_t counter_count;
    uint64_t kept_bytes;
    size_t not_kept, compared, different;
    struct buffer report;
    /* Of the page: */
    struct profile profiles[2];
    struct recording recording; /* of the second run */
    struct diff_rows rows;
    struct diff_output *outputs;
    size_t output_count;
    struct output page;
};

static size_t hash_of(const char *name, size_t repetition)
{
    uint64_t hash = UINT64_C(1469598103934665603) + repetition;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return (size_t)(hash >> 32) % BUCKETS;
}

/* Number of values of that name earlier in the run. */
static size_t count_name(struct diffing *diffing, const char *name)
{
    for (size_t i = 0; i < diffing->counter_count; i++)
        if (strcmp(diffing->counters[i].name, name) == 0)
            return ++diffing->counters[i].count;
    diffing->counters = memory_append(diffing->counters, diffing->counter_count, sizeof *diffing->counters);
    diffing->counters[diffing->counter_count++] = (struct counter){memory_text(name), 0};
    return 0;
}

static void forget_counts(struct diffing *diffing)
{
    for (size_t i = 0; i < diffing->counter_count; i++)
        free(diffing->counters[i].name);
    free(diffing->counters);
    diffing->counters = NULL;
    diffing->counter_count = 0;
}

static const char *name_of(const xcvm_event *event, size_t index)
{
    return event->outputs[index] != NULL && event->output_names != NULL && event->output_names[index] != NULL
               ? event->output_names[index]
               : "";
}

static bool comparable(const xcvm_value *value)
{
    xcvm_kind kind = xcvm_value_kind(value);
    return kind != XCVM_KIND_NULL && kind != XCVM_KIND_OPAQUE;
}

/* The approximate size of a copy. Counting stops above `most`, because lists that share items can have exponentially
 * many. */
static uint64_t bytes_of(const xcvm_value *value, uint64_t most)
{
    enum { HEADER = 256 };
    xcvm_kind kind = value != NULL ? xcvm_value_kind(value) : XCVM_KIND_NULL;
    uint64_t bytes = HEADER;
    if (kind == XCVM_KIND_TENSOR)
        bytes += xcvm_value_bytes(value);
    const bool is_list = kind == XCVM_KIND_SEQUENCE || kind == XCVM_KIND_OPTIONAL;
    for (size_t i = 0; is_list && i < xcvm_value_count(value) && bytes <= most; i++)
        bytes += bytes_of(xcvm_value_item_at(value, i), most - bytes);
    return bytes;
}

/* True if the limit leaves memory for a copy. Loops that collect their results would need more than any machine has. */
static bool can_keep(struct diffing *diffing, const xcvm_value *value)
{
    if (diffing->not_kept == 0)
        diffing->kept_bytes += bytes_of(value, diffing->flags->keep);
    if (diffing->not_kept == 0 && diffing->kept_bytes <= diffing->flags->keep)
        return true;
    diffing->not_kept++;
    return false;
}

/* Observer of the first run: keeps a copy of every named value. */
static xcvm_status keep_values(void *user, const xcvm_event *event, xcvm_error *error)
{
    struct diffing *diffing = user;
    if (diffing->flags->html != NULL)
        profile_add(&diffing->profiles[0], event);
    for (size_t i = 0; i < event->output_count; i++) {
        const char *name = name_of(event, i);
        if (*name == '\0' || !comparable(event->outputs[i]) || !can_keep(diffing, event->outputs[i]))
            continue;
        struct kept *kept = memory_take(1, sizeof *kept);
        kept->name = memory_text(name);
        kept->repetition = count_name(diffing, name);
        struct kept **bucket = &diffing->buckets[hash_of(name, kept->repetition)];
        kept->next = *bucket;
        *bucket = kept;
        TRY(xcvm_value_copy(NULL, event->outputs[i], &kept->value, error));
    }
    return XCVM_OK;
}

static const struct kept *find_kept(const struct diffing *diffing, const char *name, size_t repetition)
{
    const struct kept *kept = diffing->buckets[hash_of(name, repetition)];
    while (kept != NULL && (kept->repetition != repetition || strcmp(kept->name, name) != 0))
        kept = kept->next;
    return kept;
}

static bool same_dims(const xcvm_value *a, const xcvm_value *b)
{
    bool same = xcvm_value_kind(a) == xcvm_value_kind(b) && xcvm_value_rank(a) == xcvm_value_rank(b);
    for (int i = 0; same && i < xcvm_value_rank(a); i++)
        same = xcvm_value_dims(a)[i] == xcvm_value_dims(b)[i];
    return same;
}

static void report_difference(struct diffing *diffing, const char *what, const char *name, size_t repetition,
                              const struct comparison *comparison, const xcvm_event *event)
{
    if (diffing->different++ != 0 && !diffing->flags->all)
        return;
    buffer_format(&diffing->report, "%s \"%s\"", what, name);
    if (repetition != 0)
        buffer_format(&diffing->report, " (time %zu)", repetition + 1);
    buffer_text(&diffing->report, " differs: ");
    comparison_print(&diffing->report, comparison);
    buffer_text(&diffing->report, "\n");
    if (event != NULL) {
        buffer_text(&diffing->report, "  computed by ");
        event_print(&diffing->report, event);
        if (event->node != NULL && *event->node != '\0')
            buffer_format(&diffing->report, " node \"%s\"", event->node);
        buffer_text(&diffing->report, "\n");
    }
}

/* Observer of the second run: compares every value whose name the first run had too. Values of another shape or type,
 * as passes make them, are skipped; outputs are compared strictly at the end. */
static xcvm_status compare_event(void *user, const xcvm_event *event, xcvm_error *error)
{
    (void)error;
    struct diffing *diffing = user;
    if (diffing->flags->html != NULL) {
        profile_add(&diffing->profiles[1], event);
        recording_add(&diffing->recording, event);
    }
    for (size_t i = 0; i < event->output_count; i++) {
        const char *name = name_of(event, i);
        if (*name == '\0' || !comparable(event->outputs[i]))
            continue;
        size_t repetition = count_name(diffing, name);
        const struct kept *kept = find_kept(diffing, name, repetition);
        if (kept == NULL || kept->value == NULL || !same_dims(kept->value, event->outputs[i]) ||
            xcvm_value_dtype(kept->value) != xcvm_value_dtype(event->outputs[i]))
            continue;
        struct comparison comparison;
        struct tolerance tolerance = {diffing->flags->rtol, diffing->flags->atol};
        compare_values(event->outputs[i], kept->value, tolerance, &comparison);
        diffing->compared++;
        if (diffing->flags->html != NULL)
            diff_rows_add(&diffing->rows, event->pc, name, &comparison);
        if (!comparison.agrees)
            report_difference(diffing, "value", name, repetition, &comparison, event);
    }
    return XCVM_OK;
}

/* One of the two programs. */
struct side {
    struct program program;
    xcvm_session *session;
};

static void close_side(struct side *side)
{
    xcvm_session_destroy(side->session);
    program_close(&side->program);
}

/* The input of `to` with the name of input `index` of `from`, or the same index. */
static size_t matching_input(const xcvm_program *to, const xcvm_program *from, size_t index)
{
    for (size_t i = 0; i < xcvm_program_input_count(to); i++)
        if (strcmp(xcvm_program_input_at(to, i)->name, xcvm_program_input_at(from, index)->name) == 0)
            return i;
    return index;
}

static xcvm_status run_side(struct diffing *diffing, struct side *side, const struct side *first,
                            const struct inputs *inputs, xcvm_error *error)
{
    xcvm_program *program = side->program.handle;
    TRY(session_open(&side->program, &diffing->flags->program.limits, inputs, &diffing->flags->session, &side->session,
                     error));
    size_t count = xcvm_program_input_count(program);
    xcvm_value **own = memory_take(count, sizeof *own);
    for (size_t i = 0; i < count; i++)
        own[i] = inputs->values[matching_input(first->program.handle, program, i)];
    xcvm_status status = inputs_bind(program, side->session, own, error);
    free(own);
    if (status != XCVM_OK)
        return status;
    xcvm_observer observer = {.size = sizeof observer,
                              .after = side == first ? keep_values : compare_event,
                              .user = diffing,
                              .want_attributes = side != first};
    if (!diffing->flags->outputs_only)
        xcvm_session_set_observer(side->session, &observer);
    xcvm_run_options run = session_run_options(&diffing->flags->program.limits, &diffing->flags->session);
    status = xcvm_session_run(side->session, &run, error);
    forget_counts(diffing);
    return status;
}

static void compare_outputs(struct diffing *diffing, const struct side *a, const struct side *b)
{
    diffing->output_count = xcvm_program_output_count(a->program.handle);
    diffing->outputs = memory_take(diffing->output_count, sizeof *diffing->outputs);
    for (size_t i = 0; i < diffing->output_count; i++) {
        struct comparison *comparison = &diffing->outputs[i].comparison;
        struct tolerance tolerance = {diffing->flags->rtol, diffing->flags->atol};
        diffing->outputs[i].name = xcvm_program_output_at(a->program.handle, i)->name;
        compare_values(xcvm_session_get_output(b->session, i), xcvm_session_get_output(a->session, i), tolerance,
                       comparison);
        diffing->compared++;
        if (!comparison->agrees)
            report_difference(diffing, "output", diffing->outputs[i].name, 0, comparison, NULL);
    }
}

static xcvm_status write_page(struct diffing *diffing, const char *const *programs, xcvm_error *error)
{
    recording_finish(&diffing->recording);
    const struct diff_page page = {.programs = {programs[0], programs[1]},
                                   .tolerance = {diffing->flags->rtol, diffing->flags->atol},
                                   .profiles = diffing->profiles,
                                   .recording = &diffing->recording,
                                   .rows = &diffing->rows,
                                   .outputs = diffing->outputs,
                                   .output_count = diffing->output_count,
                                   .compared = diffing->compared,
                                   .different = diffing->different,
                                   .not_kept = diffing->not_kept};
    (void)diff_page_write(&page, (xcvm_sink){output_sink, &diffing->page});
    return output_finish(&diffing->page, error);
}

static void release_diffing(struct diffing *diffing)
{
    for (size_t i = 0; i < BUCKETS; i++)
        while (diffing->buckets[i] != NULL) {
            struct kept *kept = diffing->buckets[i];
            diffing->buckets[i] = kept->next;
            xcvm_value_release(kept->value);
            free(kept->name);
            free(kept);
        }
    forget_counts(diffing);
    buffer_release(&diffing->report);
    for (int i = 0; i < 2; i++)
        profile_release(&diffing->profiles[i]);
    recording_release(&diffing->recording);
    diff_rows_release(&diffing->rows);
    free(diffing->outputs);
}

static xcvm_status check_counts(const struct side *sides, xcvm_error *error)
{
    size_t in[2], out[2];
    for (int i = 0; i < 2; i++) {
        in[i] = xcvm_program_input_count(sides[i].program.handle);
        out[i] = xcvm_program_output_count(sides[i].program.handle);
    }
    if (in[0] == in[1] && out[0] == out[1])
        return XCVM_OK;
    return error_set(error, XCVM_INVALID_ARGUMENT,
                     "has %zu inputs and %zu outputs, but the first program has %zu and %zu", in[1], out[1], in[0],
                     out[0]);
}

static void print_differences(struct diffing *diffing, const char *first)
{
    if (diffing->not_kept != 0)
        report_line("note: %zu values of %s were not compared, because the memory of --keep is used up. Raise it: "
                    "--keep=SIZE",
                    diffing->not_kept, first);
    output_print(buffer_string(&diffing->report));
    printf("%zu value%s compared, %zu differ%s\n", diffing->compared, diffing->compared != 1 ? "s" : "",
           diffing->different, diffing->different == 1 ? "s" : "");
}

static int execute_diff(const void *own, const struct arguments *arguments)
{
    struct diffing *diffing = memory_take(1, sizeof *diffing);
    struct side sides[2] = {0};
    struct inputs inputs = {0};
    xcvm_error error = {.pc = -1};
    xcvm_status status = XCVM_OK;
    int at = 0, code = EXIT_OK;
    diffing->flags = own;
    /* A file that cannot be written is reported before the runs. */
    if (diffing->flags->html != NULL && output_open(&diffing->page, diffing->flags->html, &error) != XCVM_OK) {
        free(diffing);
        return report_error(NULL, &error);
    }
    struct program_flags flags = diffing->flags->program;
    flags.inputs = &diffing->flags->input.inputs;
    for (; at < 2 && status == XCVM_OK; at++)
        status = program_open(arguments->items[at], &flags, &sides[at].program, &error);
    if (status == XCVM_OK)
        status = check_counts(sides, &error);
    if (status == XCVM_OK) {
        at = 1;
        status = inputs_make(&sides[0].program, &diffing->flags->input, &diffing->flags->program.limits,
                             diffing->flags->session.seed, &inputs, &error);
    }
    for (int i = 0; i < 2 && status == XCVM_OK; i++) {
        at = i + 1;
        status = run_side(diffing, &sides[i], &sides[0], &inputs, &error);
    }
    if (status != XCVM_OK) {
        code = report_error(arguments->items[at - 1], &error);
        inputs_hint(&diffing->flags->input, &inputs, &error);
        if (diffing->flags->html != NULL)
            output_discard(&diffing->page, &error);
    } else {
        compare_outputs(diffing, &sides[0], &sides[1]);
        print_differences(diffing, arguments->items[0]);
        code = diffing->different != 0 ? EXIT_DIFFERENT : EXIT_OK;
        if (diffing->flags->html != NULL && write_page(diffing, arguments->items, &error) != XCVM_OK)
            code = report_error(NULL, &error);
    }
    inputs_release(sides[0].program.handle, &inputs);
    close_side(&sides[0]);
    close_side(&sides[1]);
    release_diffing(diffing);
    free(diffing);
    return code;
}

static const struct example examples[] = {
    {"model.onnx prog.bin --random", "compare a program with a new compilation of its model"},
    {"float.onnx quantized.onnx --random --html diff.html", "also write a report to look at in a browser"},
    {"a.onnx b.onnx --input x=@x.npy --all", "print every value that differs between two models"},
};

const struct command command_diff = {
    .name = "diff",
    .summary = "run two programs on the same inputs and report the first value that differs",
    .operands = "PROG PROG",
    .min_operands = 2,
    .max_operands = 2,
    .description =
        "Runs two programs or models on the same inputs. Compares the values that have the same name, type "
        "and shape in both, in the order of the second program, and then all outputs in order. Reports the "
        "first value that differs, with the instruction that computed it.\n\n"
        "Floats b of the second program and a of the first agree if |b - a| <= atol + rtol * |a|. NaN agrees "
        "with NaN, and an infinity with the same infinity. Integers, bools and strings must be equal. "
        "Outputs must also have the same kind, element type and shape. The programs are equal if all "
        "compared values agree. States and instructions are not compared.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct diff_flags),
    .run = execute_diff,
};
