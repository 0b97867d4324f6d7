/* Tests of memory and time of a compilation: limits, and growth in proportion to the model. */
/* Takes long. */
#include "tests/compiler/import_onnx/scale_models.h"
#include "tests/compiler/support.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* Counts allocated bytes. */
typedef struct counter {
    size_t held, peak;
} counter;

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    counter *c = user;
    void *memory = aligned_alloc(alignment, xcvm_round_up(bytes, alignment));
    c->held += memory != NULL ? bytes : 0;
    c->peak = c->held > c->peak ? c->held : c->peak;
    return memory;
}

static void deallocate(void *user, void *memory, size_t bytes)
{
    ((counter *)user)->held -= bytes;
    free(memory);
}

static bool count_bytes(void *user, const void *bytes, size_t count)
{
    *(size_t *)user += bytes != NULL ? count : 0;
    return true;
}

/* Results and costs of a compilation, all of whose memory was released. */
typedef struct outcome {
    xcvm_status status;
    xcvm_error error;
    size_t peak, written;
} outcome;

static outcome compile_with(const test_bytes *model, const xcc_options *asked)
{
    counter memory = {0};
    const xcvm_allocator allocator = {counted_allocate, deallocate, &memory};
    xcc_options options = *asked;
    options.size = sizeof options;
    options.allocator = &allocator;
    outcome o = {.written = 0};
    o.status = xcc_compile(model->at, model->length, &options, (xcvm_sink){count_bytes, &o.written}, NULL, &o.error);
    o.peak = memory.peak;
    ck_assert_uint_eq(memory.held, 0);
    return o;
}

static outcome compile(const test_bytes *model, size_t memory_limit, uint64_t timeout_ns)
{
    return compile_with(model, &(xcc_options){.limits.memory_bytes = memory_limit, .limits.timeout_ns = timeout_ns});
}

/* A model of a kind with the options that it needs. */
typedef struct scaled {
    test_bytes model;
    xcc_state_pair *pairs;
    xcc_options options;
} scaled;

static scaled begin_kind(scale_kind kind, size_t size)
{
    scaled s = {.model = scale_model(kind, size)};
    s.pairs = scale_state_pairs(kind, size, &s.options.states.pair_count);
    s.options.states.pairs = s.pairs;
    s.options.states.cache_rows = s.pairs != NULL ? SCALE_CACHE_ROWS : 0;
    return s;
}

static void end_kind(scaled *s)
{
    test_bytes_free(&s->model);
    free(s->pairs);
}

static outcome compile_kind(scale_kind kind, size_t size, uint64_t timeout_ns)
{
    scaled s = begin_kind(kind, size);
    s.options.limits.timeout_ns = timeout_ns;
    outcome o = compile_with(&s.model, &s.options);
    ck_assert_msg(o.status == XCVM_OK, "%s of %zu: %s", scale_kinds[kind].name, size, o.error.message);
    end_kind(&s);
    return o;
}

/* ---- In proportion ---- */

START_TEST(memory_is_in_proportion)
{
    const scale_kind kind = (scale_kind)_i;
    const size_t small = test_fewer(1000), times = 8;
    const outcome a = compile_kind(kind, small, 0), b = compile_kind(kind, small * times, 0);
    /* Arrays that double make it up to twice as much as strict proportion. */
    ck_assert_msg(b.peak <= 2 * times * a.peak, "%s: %zu bytes of memory, %zu for %zu times as many",
                  scale_kinds[kind].name, a.peak, b.peak, times);
}
END_TEST

/* Models for which a quadratic algorithm took minutes. */
START_TEST(time_is_in_proportion)
{
    static const scale_kind kinds[] = {SCALE_functions, SCALE_opsets,     SCALE_inputs,
                                       SCALE_concats,   SCALE_attributes, SCALE_kept};
    const uint64_t minute = UINT64_C(60000000000) * test_patience();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        compile_kind(kinds[i], test_fewer(kinds[i] == SCALE_attributes ? 400000 : 100000), minute);
}
END_TEST

/* Nodes of a function that is called once are the model's own, however many they are; calls that multiply them are not.
 */
START_TEST(calls_have_a_budget)
{
    enum { MOST = 1 << 18 };
    compile_kind(SCALE_function_results, MOST + 1000, 0);
    test_bytes model = scale_call_bomb(12, MOST / 8);
    const outcome o = compile(&model, 0, 0);
    ck_assert_int_eq(o.status, XCVM_UNSUPPORTED);
    ck_assert_msg(strstr(o.error.message, "calls of the model's functions") != NULL, "%s", o.error.message);
    test_bytes_free(&model);
}
END_TEST

START_TEST(folding_has_a_budget)
{
    const size_t each = 15 << 20, most = 64 << 20;
    test_bytes model = scale_fold_bomb(100, each);
    const outcome o = compile(&model, 0, 0);
    ck_assert_msg(o.status == XCVM_OK, "%s", o.error.message);
    ck_assert_uint_lt(o.written, most + (1 << 20));
    ck_assert_uint_lt(o.peak, most + each + (4 << 20));
    test_bytes_free(&model);
}
END_TEST

/* ---- Names ---- */

/* The hash that the tables had before they got a key: 64-bit FNV-1a. */
static uint64_t fnv(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
    return hash ^ hash >> 32;
}

START_TEST(colliding_names_spread)
{
    enum { COUNT = 256, CAPACITY = 512, LENGTH = 16 };
    char names[COUNT][LENGTH], *all[COUNT];
    size_t found = 0;
    for (unsigned number = 0; found < COUNT; number++) {
        snprintf(names[found], LENGTH, "n%u", number);
        if (fnv(names[found]) % CAPACITY == 0)
            found++;
    }
    compilation c;
    begin(&c, 0);
    xcc_table table = {.count = 0};
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert(xcc_table_reserve(&c.m, &table));
        *xcc_table_find(&table, names[i]) = (struct xcc_table_entry){names[i], (int64_t)i};
        table.count++;
    }
    ck_assert_uint_eq(table.capacity, CAPACITY);
    /* In one place they would fill the first half of the table. */
    size_t behind = 0;
    for (size_t i = CAPACITY / 2; i < CAPACITY; i++)
        behind += table.at[i].name != NULL;
    ck_assert_uint_gt(behind, COUNT / 8);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_int_eq(xcc_table_find(&table, names[i])->value, (int64_t)i);
    finish(&c);
    for (size_t i = 0; i < COUNT; i++)
        all[i] = names[i];
    test_bytes model = scale_named(all, COUNT);
    ck_assert_int_eq(compile(&model, 0, 0).status, XCVM_OK);
    test_bytes_free(&model);
}
END_TEST

/* ---- The memory limit ---- */

START_TEST(memory_limit_holds)
{
    enum { STEPS = 24 };
    const scale_kind kind = (scale_kind)_i;
    scaled s = begin_kind(kind, 300);
    const outcome whole = compile_with(&s.model, &s.options);
    size_t refused = 0;
    ck_assert_msg(whole.status == XCVM_OK, "%s: %s", scale_kinds[kind].name, whole.error.message);
    for (size_t step = 1; step <= STEPS; step++) {
        const size_t limit = whole.peak * step / STEPS;
        s.options.limits.memory_bytes = limit;
        const outcome o = compile_with(&s.model, &s.options);
        ck_assert_uint_le(o.peak, limit);
        if (o.status == XCVM_OK)
            continue;
        refused++;
        ck_assert_msg(o.status == XCVM_OUT_OF_MEMORY && strstr(o.error.message, "memory limit of") != NULL,
                      "%s with %zu of %zu bytes: %s", scale_kinds[kind].name, limit, whole.peak, o.error.message);
        ck_assert_uint_eq(o.written, 0);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_lt(refused, STEPS);
    end_kind(&s);
}
END_TEST

START_TEST(memory_limit_of_folding)
{
    /* Without memory for the result, a constant is not folded. */
    test_bytes model = scale_fold_bomb(8, 8 << 20);
    const outcome o = compile(&model, 24 << 20, 0);
    ck_assert_msg(o.status == XCVM_OK, "%s", o.error.message);
    ck_assert_uint_le(o.peak, 24 << 20);
    test_bytes_free(&model);
}
END_TEST

/* ---- The deadline ---- */

typedef struct waiting {
    const char *step; /* at which all the time passes */
    bool passed;      /* another one began after it */
    bool came;
    uint64_t until_ns; /* by the clock, when it has */
} waiting;

static void wait_at(void *user, const char *step, double fraction)
{
    waiting *w = user;
    ck_assert(fraction >= 0 && fraction <= 1);
    w->passed = w->passed || w->came;
    if (strcmp(step, w->step) != 0)
        return;
    w->came = true;
    for (uint64_t now = xcvm_clock_ns(); now < w->until_ns; now = xcvm_clock_ns()) {
        const uint64_t left = w->until_ns - now;
        nanosleep(&(struct timespec){(time_t)(left / 1000000000), (long)(left % 1000000000)}, NULL);
    }
}

/* The deadline passes in the step, which is reached before: in a moment, or on a machine that is busy after more. */
static void check_step(const test_bytes *model, const char *step)
{
    const uint64_t millisecond = 1000000, longest = 60000 * millisecond;
    waiting w = {.came = false};
    for (uint64_t timeout = 50 * millisecond; !w.came && timeout < longest; timeout *= 4) {
        w = (waiting){.step = step, .until_ns = xcvm_clock_ns() + timeout + 10 * millisecond};
        const xcc_options options = {
            .size = sizeof options, .limits.timeout_ns = timeout, .progress = {wait_at, &w}, .tune = false};
        size_t written = 0;
        char limit[32];
        xcvm_error error;
        const xcvm_status status =
            xcc_compile(model->at, model->length, &options, (xcvm_sink){count_bytes, &written}, NULL, &error);
        ck_assert_msg(w.came || status != XCVM_OK, "there is no step %s", step);
        ck_assert_msg(status == XCVM_OUT_OF_TIME, "%s: %s", step, xcvm_status_name(status));
        ck_assert_msg(!w.passed, "%s does not look at the deadline", step);
        snprintf(limit, sizeof limit, "%d ms", (int)(timeout / millisecond));
        ck_assert_msg(strstr(error.message, limit) != NULL, "%s", error.message);
        ck_assert_uint_eq(written, 0);
    }
    ck_assert_msg(w.came, "%s is not reached", step);
}

START_TEST(every_step_looks_at_the_deadline)
{
    test_bytes model = scale_model(SCALE_convolutions, 40);
    check_step(&model, "import");
    for (size_t i = 0; i < xcc_pass_count(); i++)
        check_step(&model, xcc_pass_at(i)->name);
    check_step(&model, "plan");
    check_step(&model, "emit");
    test_bytes_free(&model);
}
END_TEST

typedef struct cancellation {
    const char *step; /* that sets the flag */
    bool passed;      /* another one began after it */
    uint32_t flag;
} cancellation;

static void cancel_at(void *user, const char *step, double fraction)
{
    (void)fraction;
    cancellation *c = user;
    c->passed = c->passed || c->flag != 0;
    if (strcmp(step, c->step) == 0)
        c->flag = 1;
}

static void check_cancellation(const test_bytes *model, const char *step)
{
    cancellation c = {.step = step};
    const xcc_options options = {.size = sizeof options, .progress = {cancel_at, &c}, .cancelled = &c.flag};
    size_t written = 0;
    xcvm_error error;
    const xcvm_status status =
        xcc_compile(model->at, model->length, &options, (xcvm_sink){count_bytes, &written}, NULL, &error);
    ck_assert_msg(c.flag != 0, "there is no step %s", step);
    ck_assert_msg(status == XCVM_CANCELLED, "%s: %s", step, xcvm_status_name(status));
    ck_assert_msg(!c.passed, "%s does not look at the flag", step);
    ck_assert_str_eq(error.message, "the compilation was cancelled");
    ck_assert_uint_eq(written, 0);
}

START_TEST(every_step_looks_at_the_flag)
{
    test_bytes model = scale_model(SCALE_convolutions, 40);
    check_cancellation(&model, "import");
    for (size_t i = 0; i < xcc_pass_count(); i++)
        check_cancellation(&model, xcc_pass_at(i)->name);
    check_cancellation(&model, "plan");
    check_cancellation(&model, "emit");
    test_bytes_free(&model);
}
END_TEST

START_TEST(cancelled_beforehand)
{
    test_bytes model = scale_model(SCALE_nodes, 10);
    const uint32_t flag = 1;
    const outcome o = compile_with(&model, &(xcc_options){.cancelled = &flag});
    ck_assert_int_eq(o.status, XCVM_CANCELLED);
    test_bytes_free(&model);
}
END_TEST

static void *set_flag_soon(void *flag)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

START_TEST(cancellation_holds)
{
    const scale_kind kind = (scale_kind)_i;
    scaled s = begin_kind(kind, 100000);
    uint32_t flag = 0;
    s.options.cancelled = &flag;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, set_flag_soon, &flag), 0);
    const uint64_t start = test_cpu_ns();
    const outcome o = compile_with(&s.model, &s.options);
    const double took = (double)(test_cpu_ns() - start) / 1e9;
    pthread_join(thread, NULL);
    ck_assert(o.status == XCVM_CANCELLED || o.status == XCVM_OK);
    ck_assert_msg(took < 5.0 * (double)test_patience(), "%s: %.1f s", scale_kinds[kind].name, took);
    end_kind(&s);
}
END_TEST

START_TEST(deadline_holds)
{
    const scale_kind kind = (scale_kind)_i;
    scaled s = begin_kind(kind, 100000);
    s.options.limits.timeout_ns = 50000000;
    const uint64_t start = test_cpu_ns();
    const outcome o = compile_with(&s.model, &s.options);
    const double took = (double)(test_cpu_ns() - start) / 1e9;
    ck_assert(o.status == XCVM_OUT_OF_TIME || o.status == XCVM_OK);
    ck_assert_msg(took < 5.0 * (double)test_patience(), "%s: %.1f s with a deadline of 50 ms", scale_kinds[kind].name,
                  took);
    end_kind(&s);
}
END_TEST

START_TEST(old_options_have_no_limits)
{
    test_bytes model = scale_model(SCALE_nodes, 10);
    xcc_options options = {.size = offsetof(xcc_options, limits), .limits = {.memory_bytes = 1, .timeout_ns = 1}};
    size_t written = 0;
    ck_assert_int_eq(xcc_compile(model.at, model.length, &options, (xcvm_sink){count_bytes, &written}, NULL, NULL),
                     XCVM_OK);
    ck_assert_uint_gt(written, 0);
    test_bytes_free(&model);
}
END_TEST

Suite *suite_compiler_limits(void);
Suite *suite_compiler_limits(void)
{
    Suite *s = suite_create("compiler_limits");
    TCase *tc = tcase_create("proportion");
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, memory_is_in_proportion, 0, SCALE_KIND_COUNT);
    tcase_add_test(tc, time_is_in_proportion);
    tcase_add_test(tc, calls_have_a_budget);
    tcase_add_test(tc, folding_has_a_budget);
    tcase_add_test(tc, colliding_names_spread);
    suite_add_tcase(s, tc);
    tc = tcase_create("limits");
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, memory_limit_holds, 0, SCALE_KIND_COUNT);
    tcase_add_test(tc, memory_limit_of_folding);
    tcase_add_test(tc, every_step_looks_at_the_deadline);
    tcase_add_loop_test(tc, deadline_holds, 0, SCALE_KIND_COUNT);
    tcase_add_test(tc, every_step_looks_at_the_flag);
    tcase_add_test(tc, cancelled_beforehand);
    tcase_add_loop_test(tc, cancellation_holds, 0, SCALE_KIND_COUNT);
    tcase_add_test(tc, old_options_have_no_limits);
    suite_add_tcase(s, tc);
    return s;
}
