/* Values beyond the life of what lends them, and memory that inputs and outputs have in common. */
#include "base/retain.h"
#include "tests/vm/support.h"
#include "vm/session.h"

#include <pthread.h>

/* A planned output, one from the heap, strings, a sequence of both, and an optional. */
static const char all_kinds[] = "arena 64\n"
                                "input x f32[2]\n"
                                "input s str[2]\n"
                                "output planned f32[2]\n"
                                "output heap f32[2]\n"
                                "output strings str[4]\n"
                                "output sequence seq(f32)\n"
                                "output some optional(f32)\n"
                                "$1 = In(name=\"x\")\n"
                                "$2 = In(name=\"s\")\n"
                                "$3 = Neg($1) slot=0+8\n"
                                "Out($3, name=\"planned\")\n"
                                "$4 = Add($1, $1)\n"
                                "Out($4, name=\"heap\")\n"
                                "$5 = Concat([$2, $2], axis=0)\n"
                                "Out($5, name=\"strings\")\n"
                                "$6 = SequenceConstruct([$3, $4, $1, f32[1] 7])\n"
                                "Out($6, name=\"sequence\")\n"
                                "$7 = Optional([$4])\n"
                                "Out($7, name=\"some\")\n";
enum { KINDS = 5 };

static void set_strings(xcvm_session *session, size_t index, const char *a, const char *b)
{
    xcvm_value *strings = NULL;
    ck_assert_int_eq(xcvm_string_tensor_create(NULL, 1, DIMS(2), (const char *const[]){a, b}, NULL, &strings, NULL),
                     XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(session, index, strings, NULL), XCVM_OK);
    xcvm_value_release(strings);
}

static void check_floats(const xcvm_value *v, float a, float b)
{
    ck_assert_int_eq(xcvm_value_dtype(v), XCVM_F32);
    ck_assert_uint_eq(xcvm_value_count(v), 2);
    ck_assert_float_eq(XCVM_CDATA(float, v)[0], a);
    ck_assert_float_eq(XCVM_CDATA(float, v)[1], b);
}

static void check_kept(xcvm_value *const *kept)
{
    size_t length;
    check_floats(kept[0], -1, -2);
    check_floats(kept[1], 2, 4);
    ck_assert_uint_eq(xcvm_value_count(kept[2]), 4);
    ck_assert_mem_eq(xcvm_value_string_at(kept[2], 3, &length), "two", 3);
    ck_assert_uint_eq(length, 3);
    ck_assert_int_eq(xcvm_value_kind(kept[3]), XCVM_KIND_SEQUENCE);
    ck_assert_uint_eq(xcvm_value_count(kept[3]), 4);
    check_floats(xcvm_value_item_at(kept[3], 0), -1, -2);
    check_floats(xcvm_value_item_at(kept[3], 1), 2, 4);
    check_floats(xcvm_value_item_at(kept[3], 2), 1, 2);
    ck_assert_float_eq(*XCVM_CDATA(float, xcvm_value_item_at(kept[3], 3)), 7);
    ck_assert_int_eq(xcvm_value_kind(kept[4]), XCVM_KIND_OPTIONAL);
    check_floats(xcvm_value_item_at(kept[4], 0), 2, 4);
}

static void *release_all(void *values)
{
    for (size_t i = 0; i < KINDS; i++)
        xcvm_value_release(((xcvm_value **)values)[i]);
    return NULL;
}

/* Kept, by a reference (0) or a copy (1), outputs outlive the next run, the session and the program, and may be
 * released on another thread. */
START_TEST(kept_outputs)
{
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_program *program = NULL;
    ck_assert_int_eq(try_load(all_kinds, &allocator, &program, NULL), XCVM_OK);
    xcvm_session *session = open_default_session(program);
    float x[2] = {1, 2};
    set_f32(session, 0, 1, DIMS(2), x);
    set_strings(session, 1, "one", "two");
    run_session(session);
    xcvm_value *kept[KINDS];
    xcvm_error error = {0};
    for (size_t i = 0; i < KINDS; i++) {
        const xcvm_value *output = xcvm_session_get_output(session, i);
        xcvm_status status =
            _i == 0 ? xcvm_value_retain(output, &kept[i], &error) : xcvm_value_copy(NULL, output, &kept[i], &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
    }
    check_kept(kept);
    x[0] = x[1] = 9;
    set_strings(session, 1, "x", "y");
    run_session(session);
    check_kept(kept);
    xcvm_session_destroy(session);
    check_kept(kept);
    xcvm_program_destroy(program);
    check_kept(kept);
    ck_assert_uint_eq(c.live_bytes, 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, release_all, kept), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

typedef struct keeper {
    xcvm_value *kept[64];
    size_t count;
} keeper;

static xcvm_status keep_event(void *user, const xcvm_event *event, xcvm_error *error)
{
    keeper *k = user;
    for (size_t i = 0; i < event->output_count && k->count < 64; i++) {
        xcvm_status status = xcvm_value_retain(event->outputs[i], &k->kept[k->count++], error);
        if (status != XCVM_OK)
            return status;
    }
    return XCVM_OK;
}

/* The same holds for values that an observer receives. */
START_TEST(kept_by_an_observer)
{
    xcvm_program *program = load(all_kinds);
    xcvm_session *session = open_default_session(program);
    keeper k = {0};
    const xcvm_observer observer = {.size = sizeof observer, .after = keep_event, .user = &k};
    xcvm_session_set_observer(session, &observer);
    float x[2] = {1, 2};
    set_f32(session, 0, 1, DIMS(2), x);
    set_strings(session, 1, "one", "two");
    run_session(session);
    xcvm_session_set_observer(session, NULL);
    x[0] = 5;
    run_session(session);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    /* In, In, Neg, Add, Concat, SequenceConstruct and Optional. */
    ck_assert_uint_eq(k.count, 7);
    check_floats(k.kept[0], 1, 2);
    check_kept((xcvm_value *const[]){k.kept[2], k.kept[3], k.kept[4], k.kept[5], k.kept[6]});
    for (size_t i = 0; i < k.count; i++)
        xcvm_value_release(k.kept[i]);
}
END_TEST

/* A copy shares nothing; a list of lent values can be used by another session, on another thread. */
START_TEST(copies)
{
    float data[2] = {1, 2};
    xcvm_value *tensor = NULL, *copy = NULL, *list = NULL, *lists = NULL;
    xcvm_error error = {0};
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), data, (xcvm_finalizer){0}, &tensor, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, (xcvm_value *const[]){tensor, tensor}, &list, NULL),
                     XCVM_OK);
    ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 2, (xcvm_value *const[]){list, list}, &lists, NULL),
                     XCVM_OK);
    ck_assert_int_eq(xcvm_value_copy(&allocator, lists, &copy, &error), XCVM_OK);
    data[0] = 9;
    for (size_t i = 0; i < 4; i++) {
        check_floats(xcvm_value_item_at(xcvm_value_item_at(lists, i / 2), i % 2), 9, 2);
        check_floats(xcvm_value_item_at(xcvm_value_item_at(copy, i / 2), i % 2), 1, 2);
    }
    xcvm_value_release(copy);
    ck_assert_uint_eq(c.live_bytes, 0);
    /* Every allocation fails in turn. */
    xcvm_status status = XCVM_OUT_OF_MEMORY;
    for (size_t fail_at = 1; status != XCVM_OK; fail_at++) {
        c = (counter){.fail_at = fail_at};
        status = xcvm_value_copy(&allocator, lists, &copy, &error);
        ck_assert(status == XCVM_OK || (status == XCVM_OUT_OF_MEMORY && c.live_bytes == 0));
    }
    xcvm_value_release(copy);
    ck_assert_uint_eq(c.live_bytes, 0);
    ck_assert_int_eq(xcvm_value_copy(NULL, NULL, &copy, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_value_retain(NULL, &copy, &error), XCVM_INVALID_ARGUMENT);
    const xcvm_value opaque = {.kind = XCVM_KIND_OPAQUE};
    ck_assert_int_eq(xcvm_value_retain(&opaque, &copy, &error), XCVM_UNSUPPORTED);
    xcvm_value_release(tensor);
    xcvm_value_release(list);
    xcvm_value_release(lists);
}
END_TEST

/* Lists that contain one list several times, nested 14 deep, use memory for their distinct items only. */
START_TEST(sharing_within_a_copy)
{
    xcvm_value *list = NULL, *outer = NULL, *copy = NULL;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, DIMS(1000), &list, NULL), XCVM_OK);
    memset(xcvm_value_data(list), 0, xcvm_value_bytes(list));
    xcvm_value *items[100];
    for (int depth = 0; depth < 14; depth++) {
        for (size_t i = 0; i < 100; i++)
            items[i] = list;
        ck_assert_int_eq(xcvm_list_create(NULL, XCVM_KIND_SEQUENCE, 100, items, &outer, NULL), XCVM_OK);
        xcvm_value_release(list);
        list = outer;
    }
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    ck_assert_int_eq(xcvm_value_copy(&allocator, list, &copy, NULL), XCVM_OK);
    ck_assert_uint_lt(c.live_bytes, 1 << 20);
    xcvm_value_release(list);
    const xcvm_value *item = copy;
    for (int depth = 0; depth < 14; depth++)
        item = xcvm_value_item_at(item, (size_t)depth * 7);
    ck_assert_uint_eq(xcvm_value_count(item), 1000);
    xcvm_value_release(copy);
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

/* y = x + 1, where the plan lets the first result take the memory that the output has. */
static const char counting_up[] = "arena 64\n"
                                  "input x f32[2]\n"
                                  "output y f32[2]\n"
                                  "output twice f32[2]\n"
                                  "$1 = In(name=\"x\")\n"
                                  "$2 = Neg($1) slot=0+8\n"
                                  "$3 = Neg($2) slot=0+8\n"
                                  "Free($2)\n"
                                  "$4 = Add($3, f32[1] 1) slot=0+8\n"
                                  "Free($3)\n"
                                  "Out($4, name=\"y\")\n"
                                  "$5 = Add($1, $1)\n"
                                  "Out($5, name=\"twice\")\n";

/* An output in memory of the plan is kept when it is bound as an input, without the allocator in a steady state. */
START_TEST(outputs_fed_back)
{
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_program *program = NULL;
    ck_assert_int_eq(try_load(counting_up, &allocator, &program, NULL), XCVM_OK);
    xcvm_session *session = open_default_session(program);
    float x[2] = {0, 10};
    set_f32(session, 0, 1, DIMS(2), x);
    size_t steady = 0;
    for (int i = 0; i < 20; i++) {
        run_session(session);
        CHECK_F32(session, 0, (float)(i + 1), (float)(i + 11));
        CHECK_F32(session, 1, (float)(2 * i), (float)(2 * i + 20));
        ck_assert_int_eq(session->outputs[0].memory_kind, XCVM_MEMORY_ARENA);
        ck_assert_int_eq(xcvm_session_set_input(session, 0, xcvm_session_get_output(session, 0), NULL), XCVM_OK);
        /* Bound again or not, the input does not change. */
        if (i == 5)
            steady = c.allocations;
    }
    ck_assert_uint_eq(c.allocations, steady);
    run_session(session);
    run_session(session);
    CHECK_F32(session, 0, 21, 31);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

/* Between sessions, in both directions. The first session is destroyed before the second runs. */
START_TEST(outputs_of_another_session)
{
    xcvm_program *program = load(all_kinds), *next = load("input list seq(f32)\n"
                                                          "input y f32[2]\n"
                                                          "input z f32[2]\n"
                                                          "output item f32[2]\n"
                                                          "output sum f32[2]\n"
                                                          "$1 = In(name=\"list\")\n"
                                                          "$2 = SequenceAt($1, i64[] 1)\n"
                                                          "Out($2, name=\"item\")\n"
                                                          "$3 = In(name=\"y\")\n"
                                                          "$4 = In(name=\"z\")\n"
                                                          "$5 = Add($3, $4)\n"
                                                          "Out($5, name=\"sum\")\n");
    xcvm_session *first = open_default_session(program), *second = open_default_session(next);
    float x[2] = {1, 2};
    set_f32(first, 0, 1, DIMS(2), x);
    set_strings(first, 1, "one", "two");
    run_session(first);
    ck_assert_int_eq(xcvm_session_set_input(second, 0, xcvm_session_get_output(first, 3), NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(second, 1, xcvm_session_get_output(first, 0), NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(second, 2, xcvm_session_get_output(first, 1), NULL), XCVM_OK);
    x[0] = 100;
    run_session(first);
    xcvm_session_destroy(first);
    xcvm_program_destroy(program);
    for (int i = 0; i < 2; i++) {
        run_session(second);
        CHECK_F32(second, 0, 2, 4);
        CHECK_F32(second, 1, 1, 2);
    }
    xcvm_session_destroy(second);
    xcvm_program_destroy(next);
}
END_TEST

static xcvm_value *wrap(float *data)
{
    xcvm_value *tensor = NULL;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), data, (xcvm_finalizer){0}, &tensor, NULL), XCVM_OK);
    return tensor;
}

/* Memory that each run writes cannot be bound by a pointer to it, and lent values cannot be written. */
START_TEST(refused_bindings)
{
    xcvm_program *program = load(counting_up);
    xcvm_session *session = open_default_session(program);
    xcvm_error error = {0};
    float x[2] = {0, 10};
    set_f32(session, 0, 1, DIMS(2), x);
    run_session(session);
    xcvm_value *output = (xcvm_value *)(uintptr_t)xcvm_session_get_output(session, 0);
    ck_assert_int_eq(xcvm_session_set_output(session, 1, output, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "not into a lent one"));
    xcvm_value *tensor = wrap(xcvm_value_data(output));
    ck_assert_int_eq(xcvm_session_set_input(session, 0, tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "in memory that the session's plan owns"));
    ck_assert_int_eq(xcvm_session_set_output(session, 0, tensor, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "in memory that the session's plan owns"));
    ck_assert_int_eq(xcvm_session_pair(session, 2, 0, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_pair(session, 0, 1, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_pair(NULL, 0, 0, &error), XCVM_INVALID_ARGUMENT);
    xcvm_value_release(tensor);
    run_session(session);
    CHECK_F32(session, 0, 1, 11);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* Adds `a` to a state. b is the old state, and `late` reads the state after the instruction that writes it. */
static const char stepping[] = "input state f32[2]\n"
                               "input a f32[2]\n"
                               "input i i64[1]\n"
                               "output next f32[2]\n"
                               "output b f32[2]\n"
                               "output late f32[2]\n"
                               "$1 = In(name=\"state\")\n"
                               "$2 = In(name=\"a\")\n"
                               "$3 = In(name=\"i\")\n"
                               "$8 = Reshape($1, i64[2] 2 1)\n"
                               "$4 = Add($1, $2)\n"
                               "Out($4, name=\"next\")\n"
                               "Out($1, name=\"b\")\n"
                               "$5 = Gather(f32[2] 1 2, $3)\n"
                               "$6 = Reshape($8, i64[1] 2)\n"
                               "$7 = Mul($6, $5)\n"
                               "Out($7, name=\"late\")\n";

/* A session of it whose inputs are memory of the test's. */
typedef struct stepping_session {
    xcvm_program *program;
    xcvm_session *session;
    float memory[3][2];
    int64_t index;
    xcvm_value *state, *a, *i;
} stepping_session;

static void open_stepping(stepping_session *s)
{
    *s = (stepping_session){.memory = {{1, 2}, {10, 20}, {0, 0}}};
    s->program = load(stepping);
    s->session = open_default_session(s->program);
    s->state = wrap(s->memory[0]);
    s->a = wrap(s->memory[1]);
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 1, DIMS(1), &s->index, (xcvm_finalizer){0}, &s->i, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(s->session, 0, s->state, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(s->session, 1, s->a, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(s->session, 2, s->i, NULL), XCVM_OK);
    run_session(s->session);
}

static void close_stepping(stepping_session *s)
{
    xcvm_value_release(s->state);
    xcvm_value_release(s->a);
    xcvm_value_release(s->i);
    xcvm_session_destroy(s->session);
    xcvm_program_destroy(s->program);
}

static void pair_state(stepping_session *s)
{
    ck_assert_int_eq(xcvm_session_set_output(s->session, 0, s->state, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_pair(s->session, 0, 0, NULL), XCVM_OK);
}

/* An output is bound to the memory of an input only where the two are a pair, and to all of that memory. */
START_TEST(pair_of_another_input)
{
    stepping_session s;
    open_stepping(&s);
    ck_assert_int_eq(xcvm_session_set_output(s.session, 0, s.state, NULL), XCVM_OK);
    check_run_fails(s.session, NULL, XCVM_INVALID_ARGUMENT, "overlaps that of input \"state\"");
    ck_assert_int_eq(xcvm_session_pair(s.session, 0, 1, NULL), XCVM_OK);
    check_run_fails(s.session, NULL, XCVM_INVALID_ARGUMENT, "overlaps that of input \"state\"");
    pair_state(&s);
    xcvm_value *part = wrap(&s.memory[0][1]);
    ck_assert_int_eq(xcvm_session_set_output(s.session, 0, part, NULL), XCVM_OK);
    check_run_fails(s.session, NULL, XCVM_INVALID_ARGUMENT, "overlaps that of input \"state\"");
    xcvm_value_release(part);
    close_stepping(&s);
}
END_TEST

/* A state that is read after the instruction that writes it. */
START_TEST(pair)
{
    stepping_session s;
    open_stepping(&s);
    pair_state(&s);
    run_session(s.session);
    ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_output(s.session, 0)), s.memory[0]);
    CHECK_F32(s.session, 0, 11, 22);
    CHECK_F32(s.session, 1, 1, 2);
    CHECK_F32(s.session, 2, 1, 2);
    /* If the output of a pair has memory of its own, it is written like any other. */
    xcvm_value *own = wrap(s.memory[2]);
    ck_assert_int_eq(xcvm_session_set_output(s.session, 0, own, NULL), XCVM_OK);
    run_session(s.session);
    ck_assert_float_eq(s.memory[2][0], 21);
    ck_assert_float_eq(s.memory[0][0], 11);
    xcvm_value_release(own);
    close_stepping(&s);
}
END_TEST

/* The state after a step, and before it: two states that change places, and a failure between. */
START_TEST(pairs_that_change_places)
{
    stepping_session s;
    open_stepping(&s);
    pair_state(&s);
    run_session(s.session);
    ck_assert_int_eq(xcvm_session_set_output(s.session, 1, s.a, NULL), XCVM_OK);
    ck_assert_int_eq(xcvm_session_pair(s.session, 1, 1, NULL), XCVM_OK);
    float before[2] = {10, 20}, now[2] = {11, 22};
    for (int round = 0; round < 8; round++) {
        s.index = round == 4 ? 7 : 1;
        if (round == 4) {
            /* Both outputs were given before the failure; the states are as they were. */
            check_run_fails(s.session, NULL, XCVM_OUT_OF_RANGE, "7");
        } else {
            const uint64_t inferences = s.session->inferences;
            run_session(s.session);
            CHECK_F32(s.session, 2, 2 * now[0], 2 * now[1]);
            ck_assert(round < 1 || round == 5 || s.session->inferences == inferences);
            for (size_t k = 0; k < 2; k++) {
                const float sum = now[k] + before[k];
                before[k] = now[k];
                now[k] = sum;
            }
        }
        ck_assert_mem_eq(s.memory[0], now, sizeof now);
        ck_assert_mem_eq(s.memory[1], before, sizeof before);
    }
    close_stepping(&s);
}
END_TEST

Suite *suite_vm_ownership(void);
Suite *suite_vm_ownership(void)
{
    Suite *suite =
        SUITE_OF("vm_ownership", kept_by_an_observer, copies, sharing_within_a_copy, outputs_fed_back,
                 outputs_of_another_session, refused_bindings, pair_of_another_input, pair, pairs_that_change_places);
    TCase *each = tcase_create("each way to keep");
    tcase_add_loop_test(each, kept_outputs, 0, 2);
    suite_add_tcase(suite, each);
    return suite;
}
