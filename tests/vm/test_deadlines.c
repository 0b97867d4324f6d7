/* Every kernel notices that its run was cancelled, or that its deadline has passed, before long. */
/* Takes long. */
#include "tests/vm/deadline_cases.h"
#include "ops/table/table.h"
#include "tests/vm/support.h"

#include "base/clock.h"
#include "ops/util/convert.h"
#include "ops/util/kernel.h"
#include "ops/util/shape.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MILLISECOND UINT64_C(1000000)
#define MEMORY ((size_t)1 << 30)

typedef struct long_case {
    const char *instruction, *inputs, *body;
} long_case;

/* ---- Inputs ---- */

/* The same pages again and again, that large operands are made of. */
enum { CHUNK = 4 << 20 };

static void fill_chunk(void *chunk, char fill, xcvm_dtype dtype)
{
    uint32_t state = 1;
    for (size_t i = 0; i < CHUNK / sizeof state; i++)
        ((uint32_t *)chunk)[i] = test_random(&state);
    if (fill != 'o' && !xcvm_dtype_in(dtype, XCVM_TYPES_FLOAT))
        return;
    enum { AT_ONCE = 1024 };
    double numbers[AT_ONCE];
    const size_t size = xcvm_dtype_size(dtype);
    for (size_t i = 0; i < CHUNK / size; i += AT_ONCE) {
        const size_t count = CHUNK / size - i < AT_ONCE ? CHUNK / size - i : AT_ONCE;
        for (size_t j = 0; j < count; j++)
            numbers[j] =
                fill == 'o' ? 1.0 : (double)((uint32_t *)chunk)[(i + j) * size / 4] / (double)UINT32_MAX * 2.0 - 1.0;
        xcvm_store_f64(dtype, chunk, i, count, numbers, false);
    }
}

static void *map_input(char fill, xcvm_dtype dtype, size_t bytes)
{
    const size_t all = xcvm_round_up(bytes > 0 ? bytes : 1, CHUNK);
    const int zeros = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *memory = mmap(NULL, all, PROT_READ, zeros, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    if (fill == 'z')
        return memory;
    const int file = memfd_create("xcvm_tests", 0);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(ftruncate(file, CHUNK), 0);
    void *chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ck_assert_ptr_ne(chunk, MAP_FAILED);
    fill_chunk(chunk, fill, dtype);
    munmap(chunk, CHUNK);
    for (size_t at = 0; at < all; at += CHUNK)
        ck_assert_ptr_ne(mmap(memory + at, CHUNK, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0), MAP_FAILED);
    close(file);
    return memory;
}

/* ---- Programs ---- */

/* A parsed case: declarations of its inputs, which become the first registers, and its body. */
static xcvm_program *load_case(const long_case *c, char fills[8], size_t *count)
{
    char text[8192];
    size_t length = 0;
    *count = 0;
    for (const char *at = c->inputs; *at != '\0'; at += strspn(at, "; ")) {
        const size_t type = strcspn(at + 2, ";");
        fills[*count] = *at;
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "input x%zu %.*s\n", ++*count, (int)type, at + 2);
        at += 2 + type;
    }
    for (size_t i = 1; i <= *count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "$%zu = In(name=\"x%zu\")\n", i, i);
    length += (size_t)snprintf(text + length, sizeof text - length, "%s\n", c->body);
    ck_assert_uint_lt(length, sizeof text);
    return load(text);
}

enum { TRIES = 3 };

typedef struct cancellation {
    xcvm_session *session;
    const char *instruction;
    int32_t pc;
} cancellation;

static void cancel_before(void *user, const xcvm_event *event)
{
    cancellation *w = user;
    if (strcmp(event->instruction, w->instruction) != 0)
        return;
    w->pc = event->pc;
    xcvm_session_cancel(w->session);
}

/* A case that is canceled when its instruction begins must not continue. */
static void check_cancelled(xcvm_session *session, const long_case *c)
{
    cancellation w = {session, c->instruction, -1};
    const xcvm_observer observer = {.size = sizeof observer, .before = cancel_before, .user = &w};
    xcvm_error error = {.pc = -1};
    xcvm_session_set_observer(session, &observer);
    const xcvm_status status = xcvm_session_run(session, NULL, &error);
    xcvm_session_set_observer(session, NULL);
    ck_assert_msg(status == XCVM_CANCELLED && error.pc == w.pc, "%s does not notice that it is cancelled: %s\n%s",
                  c->instruction, status == XCVM_OK ? "it succeeds" : error.message, c->body);
}

/* Processor time, the minimum of several tries: other processes may delay the test or evict its pages. */
static void check_deadline(xcvm_session *session, const long_case *c)
{
    const uint64_t timeout = 20;
    const xcvm_run_options deadline = {.size = sizeof deadline, .timeout_ns = timeout * MILLISECOND};
    xcvm_error error = {.pc = -1};
    xcvm_status status = XCVM_OK;
    uint64_t taken = UINT64_MAX;
    const uint64_t longest = 300;
    for (int i = 0; i < TRIES && taken >= longest; i++) {
        const uint64_t start = test_cpu_ns();
        status = xcvm_session_run(session, &deadline, &error);
        taken = (test_cpu_ns() - start) / MILLISECOND;
    }
    ck_assert_msg(status == XCVM_OK || status == XCVM_OUT_OF_TIME, "%s: %s\n%s", c->instruction, error.message,
                  c->body);
    ck_assert_msg(taken < longest, "%s takes %llu ms with a deadline of %llu ms\n%s", c->instruction,
                  (unsigned long long)taken, (unsigned long long)timeout, c->body);
}

static void check_case(const long_case *c)
{
    char fills[8];
    size_t count, bytes[8];
    void *memory[8];
    xcvm_program *program = load_case(c, fills, &count);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .memory_limit = MEMORY};
    xcvm_session *session = open_session(program, &options);
    xcvm_error error = {.pc = -1};
    for (size_t i = 0; i < count; i++) {
        const xcvm_type *type = &program->image.inputs[i].type;
        xcvm_value *value = NULL;
        size_t elements;
        ck_assert(xcvm_tensor_size(type->dtype, type->rank, type->dims, &elements, &bytes[i]));
        memory[i] = map_input(fills[i], type->dtype, bytes[i]);
        ck_assert_int_eq(
            xcvm_tensor_wrap(type->dtype, type->rank, type->dims, memory[i], (xcvm_finalizer){0}, &value, &error),
            XCVM_OK);
        ck_assert_int_eq(xcvm_session_set_input(session, i, value, &error), XCVM_OK);
        xcvm_value_release(value);
    }
    check_cancelled(session, c);
    /* A kernel that has no time left ends as one that is cancelled. Time is not measured with a sanitizer or emulator.
     */
    if (test_patience() == 1)
        check_deadline(session, c);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    for (size_t i = 0; i < count; i++)
        munmap(memory[i], xcvm_round_up(bytes[i] > 0 ? bytes[i] : 1, CHUNK));
}

/* ---- All cases ---- */

static const char *const lines[] = {LINES};
static const char *const others[] = {IDLE_INSTRUCTIONS, OTHER_INSTRUCTIONS};
#define NAMES(list) list, sizeof(list) / sizeof *(list)

#define ENTRY(name, inputs, body) {name, inputs, body},
static const long_case cases[] = {DEADLINE_CASES(ENTRY)};
enum { CASES = sizeof cases / sizeof *cases };

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The program of an instruction whose class, or whose implementation by lines, determines what takes long. */
static bool find_usual(const xcvm_schema *schema, char *body, size_t size, long_case *c)
{
    const xcvm_dtypes types = schema->field_count > 1 ? xcvm_field_types(schema, &schema->fields[1]) : 0;
    const char *type = xcvm_dtype_in(XCVM_F32, types) ? "f32" : xcvm_dtype_in(XCVM_BOOL, types) ? "bool" : "u16";
    const bool line = is_among(schema->name, NAMES(lines));
    const char *fill = strcmp(type, "bool") == 0 ? "o" : "n";
    static char inputs[128];
    if (xcvm_schema_has_class(schema, XCVM_CLASS_unary) || line) {
        snprintf(inputs, sizeof inputs, "%s %s[" ELEMENTS "]", fill, type);
        snprintf(body, size, "$9 = %s($1)", schema->name);
    } else if (xcvm_schema_has_class(schema, XCVM_CLASS_binary)) {
        snprintf(inputs, sizeof inputs, "%s %s[" ELEMENTS "]; %s %s[" ELEMENTS "]", fill, type, fill, type);
        snprintf(body, size, "$9 = %s($1, $2)", schema->name);
    } else if (xcvm_schema_has_class(schema, XCVM_CLASS_reduction)) {
        snprintf(inputs, sizeof inputs, "n f32[64x2x524288]");
        snprintf(body, size, "$9 = %s($1, i64[1] 2)", schema->name);
    } else {
        return false;
    }
    *c = (long_case){schema->name, inputs, body};
    return true;
}

/* Case number `index` of all, those of classes first; false beyond the last one. */
static bool find_case(size_t index, char *body, size_t size, long_case *c)
{
    for (int64_t number = 0; number < XCVM_OPCODE_LIMIT; number++) {
        const xcvm_schema *schema = xcvm_schema_of(number);
        if (schema != NULL && find_usual(schema, body, size, c) && index-- == 0)
            return true;
    }
    if (index < CASES)
        *c = cases[index];
    return index < CASES;
}

/* An instruction without a case takes no time. Otherwise a case must be added. */
START_TEST(all_instructions)
{
    xcvm_op_info info;
    for (size_t op = 0; xcvm_op_at(op, &info); op++) {
        char body[256];
        long_case usual;
        const xcvm_schema *schema = xcvm_schema_of(info.number);
        /* Updates of states run after the point where a run can be stopped. */
        bool found = is_among(info.name, NAMES(others)) || schema->effect == XCVM_UPDATE ||
                     find_usual(schema, body, sizeof body, &usual);
        for (size_t i = 0; i < CASES && !found; i++)
            found = strcmp(cases[i].instruction, info.name) == 0;
        ck_assert_msg(found, "%s has no case", info.name);
    }
}
END_TEST

START_TEST(kernels_stop)
{
    char body[256];
    long_case c;
    ck_assert(find_case((size_t)_i, body, sizeof body, &c));
    check_case(&c);
}
END_TEST

/* Windows that are mostly padding are clipped, so the instruction is fast. */
START_TEST(clipped_windows)
{
    static const char *const texts[] = {
        "output y f64[?x?x?x?]\n$1 = AveragePool(f64[1x1x1x1] 1, kernel_shape=[2147483647 2147483647], strides=[1 1], "
        "pads=[1073741823 1073741823 1073741823 1073741823], dilations=[1 1], count_include_pad=1)\nOut($1, "
        "name=\"y\")\n",
        "output y f64[?x?x?x?]\n$1 = LpPool(f64[1x1x1x1] 1, kernel_shape=[2147483647 2147483647], strides=[1 1], "
        "pads=[1073741823 1073741823 1073741823 1073741823], dilations=[1 1])\nOut($1, name=\"y\")\n",
        "output y i64[?x?x?x?]\n$2, $1 = MaxPool(f32[1x1x1x1] 1, kernel_shape=[2147483647 2147483647], strides=[1 1], "
        "pads=[1073741823 1073741823 1073741823 1073741823], dilations=[1 1])\nOut($1, name=\"y\")\n",
        "output y f32[?x?x?x?]\n$1 = AveragePool(f32[1x1x1x1] 1, kernel_shape=[2147483647 2147483647], strides=[1 1], "
        "pads=[1073741823 1073741823 1073741823 1073741823], dilations=[1 1])\nOut($1, name=\"y\")\n",
    };
    static const double expected[] = {1.0 / (2147483647.0 * 2147483647.0), 1, 0, 1};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        xcvm_program *program = load(texts[i]);
        xcvm_session *session = open_default_session(program);
        const xcvm_run_options options = {.size = sizeof options, .timeout_ns = 60000 * MILLISECOND};
        xcvm_error error = {.pc = -1};
        ck_assert_msg(xcvm_session_run(session, &options, &error) == XCVM_OK, "%s", error.message);
        ck_assert_double_eq(xcvm_element_as_double(xcvm_session_get_output(session, 0), 0), expected[i]);
        xcvm_session_destroy(session);
        xcvm_program_destroy(program);
    }
}
END_TEST

/* As in constant folding. */
START_TEST(outside_a_session)
{
    xcvm_error error = {.pc = -1};
    xcvm_heap *heap = NULL;
    ck_assert_int_eq(xcvm_heap_create(NULL, MEMORY, &heap, &error), XCVM_OK);
    int64_t count = 100000000;
    xcvm_value y = {.rank = -1}, shape = {.memory_kind = XCVM_MEMORY_BORROWED};
    xcvm_value_set_tensor(&shape, XCVM_I64, 1, DIMS(1));
    shape.data = &count;
    const xcvm_RandomNormal_args args = {.y = &y, .shape = &shape, .dtype = XCVM_F32, .scale = 1, .seed = 1};
    xcvm_kernel kernel = {.error = &error, .heap = heap, .deadline_ns = xcvm_clock_ns() + 100 * MILLISECOND};
    const uint64_t start = test_cpu_ns();
    ck_assert_int_eq(xcvm_kernel_execute(&kernel, xcvm_schema_of(XCVM_OP_RandomNormal), &args), XCVM_OUT_OF_TIME);
    ck_assert_uint_lt(test_cpu_ns() - start, 300 * MILLISECOND * test_patience());
    xcvm_value_clear(&y);
    xcvm_storage_release(kernel.scratch_storage);
    xcvm_heap_destroy(heap);
}
END_TEST

Suite *suite_vm_deadlines(void);
Suite *suite_vm_deadlines(void)
{
    Suite *suite = SUITE_OF("vm_deadlines", all_instructions, clipped_windows, outside_a_session);
    TCase *tcase = tcase_create("cases");
    char body[256];
    long_case c;
    int count = 0;
    while (find_case((size_t)count, body, sizeof body, &c))
        count++;
    tcase_set_timeout(tcase, 30.0 * (double)test_patience());
    tcase_add_loop_test(tcase, kernels_stop, 0, count);
    suite_add_tcase(suite, tcase);
    return suite;
}
