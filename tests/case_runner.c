/* The runner of text cases: assembles, runs each way there is, and compares. */
#include "tests/case_runner.h"

#include "base/status.h"
#include "ops/shape.h"
#include "tests/case_gradient.h"
#include "tests/case_host.h"
#include "tests/case_literals.h"
#include "tests/case_text.h"
#include "tests/case_tolerance.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One case while it runs; `why` is what failed, empty as long as nothing has. */
typedef struct case_run {
    const test_case *c;
    xcvm_error error;
    bool refused; /* `error` was given by load or run */
    bool left_out;
    bool exact; /* its floats are compared so, where it says nothing else */
    char why[800];
    char *printed;
    size_t printed_length;
} case_run;

/* After which a run of a case is given up. */
#define CASE_LIMIT_NS (UINT64_C(20000000000) * test_patience())

static bool fail(case_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(case_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->why, sizeof run->why, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Comparison ---- */

/* Element i of numbers that have no other meaning, as doubles; complex ones have two. */
static bool element_is_close(xcvm_dtype dtype, const void *a, const void *b, size_t i, case_tolerance tolerance,
                             double *got, double *expected)
{
    switch (dtype) {
    case XCVM_F32:
    case XCVM_C64:
        *got = ((const float *)a)[i];
        *expected = ((const float *)b)[i];
        break;
    case XCVM_F64:
    case XCVM_C128:
        *got = ((const double *)a)[i];
        *expected = ((const double *)b)[i];
        break;
    case XCVM_F16:
        *got = (double)xcvm_f16_to_f32(((const uint16_t *)a)[i]);
        *expected = (double)xcvm_f16_to_f32(((const uint16_t *)b)[i]);
        break;
    default:
        *got = (double)xcvm_bf16_to_f32(((const uint16_t *)a)[i]);
        *expected = (double)xcvm_bf16_to_f32(((const uint16_t *)b)[i]);
        break;
    }
    return case_is_close(*got, *expected, tolerance);
}

static bool compare_strings(case_run *run, const char *what, const xcvm_value *got, const xcvm_value *expected)
{
    for (size_t i = 0; i < xcvm_element_count(expected); i++) {
        size_t length, expected_length;
        const char *text = xcvm_value_string(got, i, &length);
        const char *wanted = xcvm_string_at(expected, i, &expected_length);
        if (text == NULL || length != expected_length || memcmp(text, wanted, length) != 0)
            return fail(run, "%s: string %zu is \"%.*s\", not \"%.*s\"", what, i, text != NULL ? (int)length : 0,
                        text != NULL ? text : "", (int)expected_length, wanted);
    }
    return true;
}

static bool compare_elements(case_run *run, const char *what, const xcvm_value *got, const xcvm_value *expected,
                             const case_expectation *e)
{
    xcvm_dtype dtype = (xcvm_dtype)expected->dtype;
    size_t count = xcvm_element_count(expected);
    bool complex = xcvm_dtype_in(dtype, XCVM_TYPES_COMPLEX);
    const case_tolerance tolerance = case_tolerance_of(e, dtype, run->exact);
    const void *data = xcvm_value_data(got);
    if (dtype == XCVM_STRING)
        return compare_strings(run, what, got, expected);
    for (size_t i = 0; xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT | XCVM_TYPES_COMPLEX) && i < count * (complex ? 2 : 1);
         i++) {
        double a, b;
        if (!element_is_close(dtype, data, expected->data, i, tolerance, &a, &b))
            return fail(run, "%s: element %zu is %.17g, not %.17g", what, complex ? i / 2 : i, a, b);
    }
    bool exact = !xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT | XCVM_TYPES_COMPLEX);
    if (exact && count > 0 && memcmp(data, expected->data, expected->bytes) != 0) {
        xcvm_value copy = *expected;
        test_bytes text = {0};
        xcvm_writer w;
        copy.data = (void *)data;
        xcvm_writer_start(&w, test_bytes_sink, &text);
        xcvm_elements_write(&w, &copy);
        xcvm_writer_text(&w, ", not ");
        xcvm_elements_write(&w, expected);
        (void)xcvm_writer_finish(&w, NULL);
        fail(run, "%s: is %.*s", what, (int)text.length, text.at);
        test_bytes_free(&text);
        return false;
    }
    return true;
}

static bool compare_value(case_run *run, const char *what, const xcvm_value *got, const case_value *expected,
                          const case_expectation *e)
{
    char text[100], wanted[100], item[200];
    xcvm_kind kind = got != NULL ? xcvm_value_kind(got) : XCVM_KIND_NULL;
    if (kind != expected->kind)
        return fail(run, "%s: is %s, not a value of kind %d", what,
                    got != NULL ? xcvm_value_describe(got, text, sizeof text) : "null", (int)expected->kind);
    if (kind == XCVM_KIND_NULL)
        return true;
    if (kind == XCVM_KIND_TENSOR) {
        const xcvm_value *tensor = &expected->tensor;
        if (xcvm_value_dtype(got) != (xcvm_dtype)tensor->dtype || !xcvm_same_shape(got, tensor))
            return fail(run, "%s: is %s, not %s", what, xcvm_value_describe(got, text, sizeof text),
                        xcvm_value_describe(tensor, wanted, sizeof wanted));
        return compare_elements(run, what, got, tensor, e);
    }
    if (xcvm_value_count(got) != expected->count)
        return fail(run, "%s: has %zu items, not %zu", what, xcvm_value_count(got), expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        snprintf(item, sizeof item, "%.150s[%zu]", what, i);
        if (!compare_value(run, item, xcvm_value_item(got, i), &expected->items[i], e))
            return false;
    }
    return true;
}

static bool compare_type(case_run *run, const char *what, const xcvm_value *got, const xcvm_type *type)
{
    char text[100], wanted[100];
    bool same = got != NULL && xcvm_value_kind(got) == type->kind &&
                (type->dtype == XCVM_NO_DTYPE || xcvm_value_dtype(got) == type->dtype);
    if (same && type->kind == XCVM_KIND_TENSOR && type->rank >= 0) {
        same = xcvm_value_rank(got) == type->rank;
        for (int i = 0; same && i < type->rank; i++)
            same = type->dims[i] < 0 || xcvm_value_dims(got)[i] == type->dims[i];
    }
    return same ||
           fail(run, "%s: is %s, not %s", what, got != NULL ? xcvm_value_describe(got, text, sizeof text) : "null",
                xcvm_type_describe(type, wanted, sizeof wanted));
}

static bool compare_range(case_run *run, const char *what, const xcvm_value *got, double low, double high)
{
    if (got == NULL || xcvm_value_kind(got) != XCVM_KIND_TENSOR ||
        !xcvm_dtype_in(xcvm_value_dtype(got), XCVM_TYPES_REAL_OR_BOOL))
        return fail(run, "%s: is no tensor of numbers", what);
    for (size_t i = 0; i < xcvm_value_count(got); i++) {
        double element =
            xcvm_value_dtype(got) == XCVM_BOOL ? (double)XCVM_CDATA(uint8_t, got)[i] : xcvm_element_as_double(got, i);
        if (!(element >= low && element <= high))
            return fail(run, "%s: element %zu is %g, not between %g and %g", what, i, element, low, high);
    }
    return true;
}

/* NULL, and the case has failed, if there is none of that name. */
static const xcvm_value *find_result(case_run *run, const xcvm_program *program, const xcvm_session *session,
                                     const case_expectation *e)
{
    const size_t count = e->state ? xcvm_program_state_count(program) : xcvm_program_output_count(program);
    for (size_t i = 0; i < count; i++) {
        const xcvm_parameter *p = e->state ? xcvm_program_state(program, i) : xcvm_program_output(program, i);
        if (strcmp(p->name, e->output) == 0)
            return e->state ? xcvm_session_state(session, i) : xcvm_session_output(session, i);
    }
    fail(run, "there is no %s %s", e->state ? "state" : "output", e->output);
    return NULL;
}

static bool compare_outputs(case_run *run, const xcvm_program *program, const xcvm_session *session)
{
    for (size_t i = 0; i < run->c->expectation_count; i++) {
        const case_expectation *e = &run->c->expectations[i];
        const xcvm_value *got = find_result(run, program, session, e);
        if (got == NULL)
            return false;
        bool same = e->check == CASE_TYPE      ? compare_type(run, e->output, got, &e->type)
                    : e->check == CASE_BETWEEN ? compare_range(run, e->output, got, e->low, e->high)
                                               : compare_value(run, e->output, got, &e->value, e);
        if (!same)
            return false;
    }
    return true;
}

/* ---- Running ---- */

static bool keep_printed(void *user, const char *text)
{
    case_run *run = user;
    size_t length = strlen(text);
    char *grown = realloc(run->printed, run->printed_length + length + 1);
    if (grown == NULL)
        return false;
    run->printed = grown;
    memcpy(grown + run->printed_length, text, length + 1);
    run->printed_length += length;
    return true;
}

static bool refuse(case_run *run, const char *where)
{
    run->refused = true;
    /* An optional library that the build is without. */
    run->left_out = run->error.status == XCVM_UNSUPPORTED && strstr(run->error.message, "this build leaves ") != NULL;
    if (run->left_out)
        return true;
    if (run->c->refuse == NULL)
        return fail(run, "%s: %s: %s", where, xcvm_status_name(run->error.status), run->error.message);
    return true;
}

/* A value for the public API over what the case says, which it outlives. */
static xcvm_status make_value(const xcvm_value *tensor, xcvm_value **value, xcvm_error *error)
{
    size_t count = xcvm_element_count(tensor);
    if (tensor->dtype != XCVM_STRING)
        return xcvm_tensor_wrap((xcvm_dtype)tensor->dtype, tensor->rank, tensor->dims, tensor->data, NULL, NULL, value,
                                error);
    const char **strings = calloc(count + 1, sizeof *strings);
    size_t *lengths = calloc(count + 1, sizeof *lengths);
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; strings != NULL && lengths != NULL && i < count; i++)
        strings[i] = xcvm_string_at(tensor, i, &lengths[i]);
    if (strings != NULL && lengths != NULL)
        status = xcvm_string_tensor_create(NULL, tensor->rank, tensor->dims, strings, lengths, value, error);
    free(strings);
    free(lengths);
    return status;
}

static bool bind_inputs(case_run *run, const xcvm_program *program, xcvm_session *session)
{
    for (size_t i = 0; i < run->c->binding_count; i++) {
        const case_binding *binding = &run->c->bindings[i];
        size_t index = 0, count = xcvm_program_input_count(program);
        xcvm_value *value;
        while (index < count && strcmp(xcvm_program_input(program, index)->name, binding->input) != 0)
            index++;
        if (index == count)
            return fail(run, "there is no input %s", binding->input);
        xcvm_status status = make_value(&binding->tensor, &value, &run->error);
        if (status == XCVM_OK) {
            status = xcvm_session_set_input(session, index, value, &run->error);
            xcvm_value_release(value);
        }
        if (status != XCVM_OK)
            return refuse(run, "input");
    }
    return true;
}

/* As if there were two processes with the same numbers; those that are 13 are too many. */
static xcvm_status reduce_two(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    (void)user;
    if (count == 13)
        return xcvm_error_set(error, XCVM_IO, "the other process is gone");
    for (size_t i = 0; i < count; i++)
        if (dtype == XCVM_F64)
            ((double *)elements)[i] *= 2;
        else
            ((float *)elements)[i] *= 2;
    return XCVM_OK;
}

/* A sum that is under way, which is made when it has been asked for twice. */
typedef struct sum_of_two {
    xcvm_dtype dtype;
    void *elements;
    size_t count;
    int asked;
} sum_of_two;

static xcvm_status begin_sum(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                             xcvm_error *error)
{
    (void)user;
    if (count == 13)
        return xcvm_error_set(error, XCVM_IO, "the other process is gone");
    sum_of_two *sum = calloc(1, sizeof *sum);
    if (sum == NULL)
        abort();
    *sum = (sum_of_two){dtype, elements, count, 0};
    *request = sum;
    return XCVM_OK;
}

static void abandon_sum(void *user, void *request)
{
    (void)user;
    free(request);
}

static xcvm_status end_sum(void *user, void *request, bool *done, xcvm_error *error)
{
    sum_of_two *sum = request;
    xcvm_status status = XCVM_OK;
    *done = ++sum->asked == 2;
    if (!*done)
        return XCVM_OK;
    if (sum->count == 14)
        status = xcvm_error_set(error, XCVM_IO, "the other process has gone away");
    else
        status = reduce_two(user, sum->dtype, sum->elements, sum->count, error);
    free(sum);
    return status;
}

static xcvm_session_options options_of(case_run *run, int threads)
{
    return (xcvm_session_options){.size = sizeof(xcvm_session_options),
                                  .threads = threads,
                                  .seed = 1,
                                  .print = keep_printed,
                                  .user = run,
                                  .all_reduce = reduce_two,
                                  .all_reduce_begin = begin_sum,
                                  .all_reduce_end = end_sum,
                                  .all_reduce_abandon = abandon_sum,
                                  .functions = case_host_functions,
                                  .function_count = case_host_function_count};
}

/* `literals` is NULL, or what the constants are that became inputs. */
static bool bind_literals(case_run *run, const case_literals *literals, xcvm_session *session)
{
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; literals != NULL && status == XCVM_OK && i < literals->count; i++)
        (void)case_literals_bind(literals, session, i, CASE_AS_IT_IS, &status, &run->error);
    return status == XCVM_OK || refuse(run, "literal");
}

/* The first run of a session plans, the second one uses the plan; both begin with the same states. */
static bool run_session(case_run *run, const xcvm_program *program, const case_literals *literals, int threads)
{
    xcvm_session_options options = options_of(run, threads);
    xcvm_run_options limits = {.size = sizeof limits, .timeout_ns = CASE_LIMIT_NS};
    xcvm_session *session;
    if (xcvm_session_create(program, &options, &session, &run->error) != XCVM_OK)
        return refuse(run, "session");
    bool good = bind_inputs(run, program, session) && bind_literals(run, literals, session);
    for (int i = 0; good && !run->refused && i < 2; i++) {
        run->printed_length = 0;
        if (xcvm_session_reset_states(session, &run->error) != XCVM_OK ||
            xcvm_session_run(session, &limits, &run->error) != XCVM_OK) {
            good = refuse(run, "run");
            break;
        }
        good = compare_outputs(run, program, session);
        if (good && run->c->printed != NULL &&
            strcmp(run->printed_length > 0 ? run->printed : "", run->c->printed) != 0)
            good = fail(run, "printed \"%.300s\"", run->printed_length > 0 ? run->printed : "");
    }
    xcvm_session_destroy(session);
    return good;
}

static xcvm_status run_once(case_run *run, const test_bytes *file, const xcvm_allocator *allocator)
{
    xcvm_load_options options = {.size = sizeof options, .allocator = allocator};
    xcvm_session_options session_options = options_of(run, 1);
    xcvm_run_options limits = {.size = sizeof limits, .timeout_ns = CASE_LIMIT_NS};
    xcvm_program *program = NULL;
    xcvm_session *session = NULL;
    run->error = (xcvm_error){.pc = -1};
    xcvm_status status = xcvm_program_load(file->at, file->length, &options, &program, &run->error);
    if (status == XCVM_OK)
        status = xcvm_session_create(program, &session_options, &session, &run->error);
    if (status == XCVM_OK)
        (void)bind_inputs(run, program, session);
    run->printed_length = 0;
    if (status == XCVM_OK && !run->refused)
        status = xcvm_session_run(session, &limits, &run->error);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    return status;
}

/* Each allocation of a load and a run fails in turn: that is said, and everything else is given back. What can do
 * without the memory may go on. */
static bool fail_allocations(case_run *run, const test_bytes *file)
{
    enum { MOST = 5000 };
    for (size_t fail_at = 1; fail_at < MOST; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        a.once = true;
        xcvm_status status = run_once(run, file, &a.allocator);
        if (a.live != 0)
            return fail(run, "allocation %zu fails, and %zu bytes are lost", fail_at, a.live);
        if (status != XCVM_OK && (status != XCVM_OUT_OF_MEMORY || run->error.message[0] == '\0'))
            return fail(run, "allocation %zu fails, and that is called %s \"%.300s\"", fail_at,
                        xcvm_status_name(status), run->error.message);
        if (a.requests < fail_at)
            return true;
    }
    return fail(run, "it allocates more than %d times", MOST);
}

/* The kernels of instruction sets below this CPU's. */
static bool run_lesser(case_run *run, const test_bytes *file)
{
    bool good = true;
    for (size_t i = 0; xcvm_isa_at(i + 1) != NULL && good; i++) {
        xcvm_load_options options = {.size = sizeof options, .isa = xcvm_isa_at(i)};
        xcvm_program *program;
        if (xcvm_program_load(file->at, file->length, &options, &program, &run->error) != XCVM_OK)
            return fail(run, "load for %s: %s", options.isa, run->error.message);
        good = run_session(run, program, NULL, 1);
        if (!good)
            snprintf(run->why + strlen(run->why), sizeof run->why - strlen(run->why), ", by kernels for %s",
                     options.isa);
        xcvm_program_destroy(program);
    }
    return good;
}

static bool run_program(case_run *run, const test_bytes *file)
{
    xcvm_load_options options = {.size = sizeof options};
    xcvm_program *program;
    if (xcvm_program_load(file->at, file->length, &options, &program, &run->error) != XCVM_OK)
        return refuse(run, "load");
    bool good = run_session(run, program, NULL, 1);
    if (good && !run->refused)
        good = run_session(run, program, NULL, 2);
    xcvm_program_destroy(program);
    return good && (run->refused || (run_lesser(run, file) && fail_allocations(run, file)));
}

/* ---- Literals as inputs ---- */

/* What is expected of the case is expected of this. */
static bool run_as_inputs(case_run *run, const case_literals *literals)
{
    xcvm_load_options options = {.size = sizeof options};
    xcvm_program *program;
    if (xcvm_program_load(literals->file.at, literals->file.length, &options, &program, &run->error) != XCVM_OK)
        return refuse(run, "load with inputs");
    run->refused = false;
    const bool good = run_session(run, program, literals, 1);
    if (!good)
        snprintf(run->why + strlen(run->why), sizeof run->why - strlen(run->why), ", with inputs for literals");
    xcvm_program_destroy(program);
    return good;
}

/* One literal is another one. Whatever comes of that, it is no defect of the machine. */
static bool run_variant(case_run *run, const case_literals *literals, const xcvm_program *program, size_t index,
                        case_variant variant)
{
    case_run other = {.c = run->c};
    xcvm_session_options options = options_of(&other, 1);
    xcvm_run_options limits = {.size = sizeof limits, .timeout_ns = CASE_LIMIT_NS};
    xcvm_session *session;
    xcvm_error error;
    options.memory_limit = (size_t)256 << 20;
    if (xcvm_session_create(program, &options, &session, &error) != XCVM_OK)
        return fail(run, "session of a variant: %s", error.message);
    xcvm_status status = XCVM_OK;
    bool there = true;
    (void)bind_inputs(&other, program, session);
    for (size_t i = 0; there && status == XCVM_OK && i < literals->count; i++)
        there = case_literals_bind(literals, session, i, i == index ? variant : CASE_AS_IT_IS, &status, &error);
    if (there && status == XCVM_OK)
        status = xcvm_session_run(session, &limits, &error);
    xcvm_session_destroy(session);
    free(other.printed);
    return status != XCVM_INTERNAL ||
           fail(run, "literal %zu in variant %d: %.300s", index, (int)variant, error.message);
}

static bool run_variants(case_run *run, const case_literals *literals)
{
    xcvm_load_options options = {.size = sizeof options};
    xcvm_program *program;
    xcvm_error error;
    bool good = true;
    if (xcvm_program_load(literals->file.at, literals->file.length, &options, &program, &error) != XCVM_OK)
        return true;
    for (size_t i = 0; good && i < literals->count; i++)
        for (int variant = CASE_EMPTY; good && variant <= CASE_TWICE; variant++)
            good = run_variant(run, literals, program, i, (case_variant)variant);
    xcvm_program_destroy(program);
    return good;
}

static bool run_literals(case_run *run, const test_bytes *file)
{
    /* Other programs would not be refused for what is wrong with this one. */
    if (run->left_out || (run->refused && run->error.status == XCVM_INVALID_PROGRAM))
        return true;
    case_literals typed, open;
    xcvm_error error;
    bool good = case_literals_lift(file, true, &typed, &error) == XCVM_OK;
    if (case_literals_lift(file, false, &open, &error) != XCVM_OK || !good)
        good = run->refused || fail(run, "with inputs for literals: %s", error.message);
    else if (typed.count != 0)
        good = run_as_inputs(run, &typed) && run_variants(run, &open);
    case_literals_free(&typed);
    case_literals_free(&open);
    return good;
}

/* Every case is one for the text assembly as well: dumped and assembled again it is the same file. */
static bool check_round_trip(case_run *run, const test_bytes *file)
{
    test_bytes text = {0}, again = {0};
    bool good = true;
    if (xcvm_disassemble(file->at, file->length, NULL, test_bytes_sink, &text, &run->error) != XCVM_OK)
        good = fail(run, "disassembly: %s", run->error.message);
    else if (xcvm_assemble(text.at, text.length, NULL, test_bytes_sink, &again, &run->error) != XCVM_OK)
        good = fail(run, "assembly of the dump: %s", run->error.message);
    else if (again.length != file->length || memcmp(again.at, file->at, again.length) != 0)
        good = fail(run, "the dump does not assemble to the same file");
    test_bytes_free(&text);
    test_bytes_free(&again);
    return good;
}

static bool check_refusal(case_run *run)
{
    const test_case *c = run->c;
    if (c->refuse == NULL || run->left_out)
        return true;
    if (!run->refused)
        return fail(run, "it was not refused with %s \"%s\"", c->refuse, c->refuse_part);
    bool same = strcmp(xcvm_status_name(run->error.status), c->refuse) == 0 &&
                strstr(run->error.message, c->refuse_part) != NULL;
    return same || fail(run, "it was refused with %s \"%.300s\", not %s \"%s\"", xcvm_status_name(run->error.status),
                        run->error.message, c->refuse, c->refuse_part);
}

/* Leaves `why` empty if the case holds. */
static void run_case(case_run *run)
{
    test_bytes file = {0};
    const bool assembled =
        xcvm_assemble(run->c->program, run->c->program_length, NULL, test_bytes_sink, &file, &run->error) == XCVM_OK;
    run->exact = assembled && case_is_exact(&file);
    if (!assembled)
        refuse(run, "assembly");
    else if (check_round_trip(run, &file) && run_program(run, &file) && run_literals(run, &file) &&
             run->c->gradient.register_count > 0)
        (void)case_gradient_check(&file, &run->c->gradient, run->why, sizeof run->why);
    test_bytes_free(&file);
    free(run->printed);
    if (run->why[0] == '\0')
        check_refusal(run);
}

/* ---- Files ---- */

static void add_report(char *report, size_t size, const char *path, const char *text)
{
    size_t used = strlen(report);
    const char *base = strrchr(path, '/');
    snprintf(report + used, size - used, "%s%s:%s", used > 0 ? "\n" : "", base != NULL ? base + 1 : path, text);
}

static void run_cases(xcvm_reader *r, const char *path, char *report, size_t size, case_counts *counts)
{
    static test_case c;
    for (;;) {
        bool more;
        char text[1000];
        if (case_read(r, &c, &more) != XCVM_OK) {
            snprintf(text, sizeof text, " %s", r->error->message);
            add_report(report, size, path, text);
            counts->run++;
            counts->failed++;
            return;
        }
        if (!more)
            return;
        case_run run = {.c = &c};
        run_case(&run);
        counts->run++;
        counts->gradients += c.gradient.register_count > 0;
        if (run.why[0] != '\0') {
            counts->failed++;
            snprintf(text, sizeof text, "%d: %s: %s", c.line, c.name, run.why);
            add_report(report, size, path, text);
        }
    }
}

case_counts case_file_run(const char *path, char *report, size_t size)
{
    case_counts counts = {0, 0, 0};
    xcvm_arena arena = {0};
    xcvm_error error;
    xcvm_reader r;
    test_bytes text = test_file_read(path);
    report[0] = '\0';
    if (text.at != NULL) {
        xcvm_reader_start(&r, text.at, text.length, &arena, &error);
        run_cases(&r, path, report, size, &counts);
    }
    if (counts.run == 0) {
        add_report(report, size, path, " it cannot be read, or has no cases");
        counts = (case_counts){1, 1, 0};
    }
    test_bytes_free(&text);
    xcvm_arena_release(&arena);
    return counts;
}
