/* The runner of text cases: assembles, runs each way there is, and compares. */
#include "tests/case_runner.h"
#include "ops/table/table.h"

#include "base/status.h"
#include "ops/util/shape.h"
#include "tests/case_compare.h"
#include "tests/case_gradient.h"
#include "tests/case_host.h"
#include "tests/case_literals.h"
#include "tests/case_text.h"
#include "tests/case_tolerance.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One case while it runs. */
typedef struct case_run {
    const case_file *file;
    const test_case *c;
    xcvm_error error;
    bool refused; /* `error` was given by load or run */
    bool left_out;
    bool exact; /* its floats are compared so, where it says nothing else */
    case_reason why;
    char *printed;
    size_t printed_length;
} case_run;

/* After which a run of a case is given up. */
#define CASE_LIMIT_NS (UINT64_C(20000000000) * test_patience())

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
    run->left_out =
        run->error.status == XCVM_UNSUPPORTED && strstr(run->error.message, "this build does not support ") != NULL;
    if (run->left_out)
        return true;
    if (run->c->refuse == NULL)
        return case_fail(&run->why, "%s: %s: %s", where, xcvm_status_name(run->error.status), run->error.message);
    return true;
}

/* A value of the public API for a value of the case, which must outlive it. */
static xcvm_status make_value(const xcvm_value *tensor, xcvm_value **value, xcvm_error *error)
{
    size_t count = xcvm_element_count(tensor);
    if (tensor->dtype != XCVM_STRING)
        return xcvm_tensor_wrap((xcvm_dtype)tensor->dtype, tensor->rank, tensor->dims, tensor->data,
                                (xcvm_finalizer){0}, value, error);
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
        while (index < count && strcmp(xcvm_program_input_at(program, index)->name, binding->input) != 0)
            index++;
        if (index == count)
            return case_fail(&run->why, "there is no input %s", binding->input);
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

/* Simulates two processes with equal numbers; a sum of 13 elements fails. */
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

/* A pending sum, which is finished at the second poll. */
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
                                  .print = {keep_printed, run},
                                  .all_reduce.sum = reduce_two,
                                  .all_reduce.begin = begin_sum,
                                  .all_reduce.end = end_sum,
                                  .all_reduce.abandon = abandon_sum,
                                  .functions = case_host_functions,
                                  .function_count = case_host_function_count};
}

/* `literals` is NULL, or has the constants that became inputs. */
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
        good = case_compare(run->c, program, session, run->exact, &run->why);
        if (good && run->c->printed != NULL &&
            strcmp(run->printed_length > 0 ? run->printed : "", run->c->printed) != 0)
            good = case_fail(&run->why, "printed \"%.300s\"", run->printed_length > 0 ? run->printed : "");
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

/* Each allocation of a load and a run fails in turn. The failure must be reported, and all memory released. Code that
 * can continue without the memory may succeed. */
static bool fail_allocations(case_run *run, const test_bytes *file)
{
    enum { MOST = 5000 };
    for (size_t fail_at = 1; fail_at < MOST; fail_at++) {
        test_allocator a;
        test_allocator_start(&a, fail_at);
        a.once = true;
        xcvm_status status = run_once(run, file, &a.allocator);
        if (a.live != 0)
            return case_fail(&run->why, "allocation %zu fails, and %zu bytes are lost", fail_at, a.live);
        if (status != XCVM_OK && (status != XCVM_OUT_OF_MEMORY || run->error.message[0] == '\0'))
            return case_fail(&run->why, "allocation %zu fails, and that is called %s \"%.300s\"", fail_at,
                             xcvm_status_name(status), run->error.message);
        if (a.requests < fail_at)
            return true;
    }
    return case_fail(&run->why, "it allocates more than %d times", MOST);
}

/* The kernels of instruction sets below this CPU's. */
static bool run_lesser(case_run *run, const test_bytes *file)
{
    bool good = true;
    for (size_t i = 0; xcvm_isa_at(i + 1) != NULL && good; i++) {
        xcvm_load_options options = {.size = sizeof options, .isa = xcvm_isa_at(i)};
        xcvm_program *program;
        if (xcvm_program_load(file->at, file->length, &options, &program, &run->error) != XCVM_OK)
            return case_fail(&run->why, "load for %s: %s", options.isa, run->error.message);
        good = run_session(run, program, NULL, 1);
        if (!good)
            case_append(&run->why, ", by kernels for %s", options.isa);
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
    return good && (run->refused || TEST_THREAD_SANITIZER || (run_lesser(run, file) && fail_allocations(run, file)));
}

/* ---- Literals as inputs ---- */

/* The expectations of the case apply to this run. */
static bool run_as_inputs(case_run *run, const case_literals *literals)
{
    xcvm_load_options options = {.size = sizeof options};
    xcvm_program *program;
    if (xcvm_program_load(literals->file.at, literals->file.length, &options, &program, &run->error) != XCVM_OK)
        return refuse(run, "load with inputs");
    run->refused = false;
    const bool good = run_session(run, program, literals, 1);
    if (!good)
        case_append(&run->why, ", with inputs for literals");
    xcvm_program_destroy(program);
    return good;
}

/* Replaces a literal by another one. Any clean outcome is accepted. */
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
        return case_fail(&run->why, "session of a variant: %s", error.message);
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
           case_fail(&run->why, "literal %zu in variant %d: %.300s", index, (int)variant, error.message);
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
    /* Other programs would not be refused for the same reason. */
    if (run->left_out || (run->refused && run->error.status == XCVM_INVALID_PROGRAM))
        return true;
    case_literals typed, open;
    xcvm_error error;
    bool good = case_literals_lift(file, true, &typed, &error) == XCVM_OK;
    if (case_literals_lift(file, false, &open, &error) != XCVM_OK || !good)
        good = run->refused || case_fail(&run->why, "with inputs for literals: %s", error.message);
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
    if (xcvm_disassemble(file->at, file->length, NULL, (xcvm_sink){test_bytes_sink, &text}, &run->error) != XCVM_OK)
        good = case_fail(&run->why, "disassembly: %s", run->error.message);
    else if (xcvm_assemble(text.at, text.length, NULL, (xcvm_sink){test_bytes_sink, &again}, &run->error) != XCVM_OK)
        good = case_fail(&run->why, "assembly of the dump: %s", run->error.message);
    else if (again.length != file->length || memcmp(again.at, file->at, again.length) != 0)
        good = case_fail(&run->why, "the dump does not assemble to the same file");
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
        return case_fail(&run->why, "it was not refused with %s \"%s\"", c->refuse, c->refuse_part);
    bool same = strcmp(xcvm_status_name(run->error.status), c->refuse) == 0 &&
                strstr(run->error.message, c->refuse_part) != NULL;
    return same || case_fail(&run->why, "it was refused with %s \"%.300s\", not %s \"%s\"",
                             xcvm_status_name(run->error.status), run->error.message, c->refuse, c->refuse_part);
}

/* Leaves `why` empty if the case holds. */
static void run_case(case_run *run)
{
    test_bytes file = {0};
    const bool assembled = case_assemble(run->file, run->c, &file, &run->error) == XCVM_OK;
    run->exact = assembled && case_is_exact(&file);
    if (!assembled)
        refuse(run, "assembly");
    else if (check_round_trip(run, &file) && run_program(run, &file) && !TEST_THREAD_SANITIZER &&
             run_literals(run, &file) && run->c->gradient.register_count > 0)
        (void)case_gradient_check(&file, &run->c->gradient, &run->why);
    test_bytes_free(&file);
    free(run->printed);
    if (run->why.text[0] == '\0')
        check_refusal(run);
}

/* ---- Files ---- */

static void add_report(char *report, size_t size, const char *path, const char *text)
{
    size_t used = strlen(report);
    const char *base = strrchr(path, '/');
    snprintf(report + used, size - used, "%s%s:%s", used > 0 ? "\n" : "", base != NULL ? base + 1 : path, text);
}

static void run_cases(case_file *f, const char *path, char *report, size_t size, case_counts *counts)
{
    static test_case c;
    for (;;) {
        bool more;
        char text[1000];
        if (case_file_next(f, &c, &more) != XCVM_OK) {
            snprintf(text, sizeof text, " %s", f->error.message);
            add_report(report, size, path, text);
            counts->run++;
            counts->failed++;
            return;
        }
        if (!more)
            return;
        case_run run = {.file = f, .c = &c};
        run_case(&run);
        counts->run++;
        counts->gradients += c.gradient.register_count > 0;
        if (run.why.text[0] != '\0') {
            counts->failed++;
            snprintf(text, sizeof text, "%d: %s: %s", c.line, c.name, run.why.text);
            add_report(report, size, path, text);
        }
    }
}

case_counts case_file_run(const char *path, char *report, size_t size)
{
    case_counts counts = {0, 0, 0};
    case_file f;
    report[0] = '\0';
    if (case_file_open(&f, path))
        run_cases(&f, path, report, size, &counts);
    if (counts.run == 0) {
        add_report(report, size, path, " it cannot be read, or has no cases");
        counts = (case_counts){1, 1, 0};
    }
    case_file_close(&f);
    return counts;
}
