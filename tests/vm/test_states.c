/* Tests of states after successful and failed runs. */
#include "tests/vm/support.h"

#include <stdio.h>

/* Adds x to the state total, counts runs, and fails after the Stores if index is not 0 or 1. */
static const char text[] = "input x f32[2]\n"
                           "input index i64[]\n"
                           "output y f32[2]\n"
                           "state total f32[2] = @start\n"
                           "state count i64[]\n"
                           "constant start f32[2] = 10 20\n"
                           "$1 = In(name=\"x\")\n"
                           "$2 = Load(name=\"total\")\n"
                           "$3 = Add($1, $2)\n"
                           "Free($1)\n"
                           "Free($2)\n"
                           "Store($3, name=\"total\")\n"
                           "$4 = Load(name=\"count\")\n"
                           "$5 = Add($4, i64[] 1)\n"
                           "Store($5, name=\"count\")\n"
                           "$6 = In(name=\"index\")\n"
                           "$7 = Gather($3, $6, axis=0)\n"
                           "Out($3, name=\"y\")\n";

static void set_index(xcvm_session *s, int64_t index)
{
    static int64_t at[4];
    int64_t *slot = &at[index & 3];
    xcvm_value *value;
    xcvm_error error = {0};
    *slot = index;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 0, NULL, slot, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_msg(xcvm_session_set_input(s, 1, value, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(value);
}

static void check_states(const xcvm_session *s, float a, float b, int64_t count)
{
    const float *total = xcvm_value_data(xcvm_session_get_state(s, 0));
    ck_assert_float_eq(total[0], a);
    ck_assert_float_eq(total[1], b);
    ck_assert_int_eq(*(const int64_t *)xcvm_value_data(xcvm_session_get_state(s, 1)), count);
}

static float x[2] = {1, 2};

static xcvm_session *open_with(const xcvm_program *program, const xcvm_session *with)
{
    xcvm_session_options options = {.size = sizeof options, .threads = 1, .states_of = with};
    xcvm_session *s = open_session(program, &options);
    set_f32(s, 0, 1, DIMS(2), x);
    set_index(s, 0);
    return s;
}

START_TEST(runs_add_up)
{
    xcvm_program *program = load(text);
    ck_assert_uint_eq(xcvm_program_state_count(program), 2);
    ck_assert_str_eq(xcvm_program_state_at(program, 1)->name, "count");
    ck_assert_ptr_null(xcvm_program_state_at(program, 2));
    xcvm_session *s = open_with(program, NULL);
    check_states(s, 10, 20, 0);
    for (int i = 1; i <= 5; i++) {
        run_session(s);
        check_states(s, (float)(10 + i), (float)(20 + 2 * i), i);
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_output(s, 0)))[1], (float)(20 + 2 * i));
    }
    ck_assert_ptr_null(xcvm_session_get_state(s, 2));
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_session_reset_states(s, &error), XCVM_OK);
    check_states(s, 10, 20, 0);
    run_session(s);
    check_states(s, 11, 22, 1);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(failed_runs_change_nothing)
{
    xcvm_program *program = load(text);
    xcvm_session *s = open_with(program, NULL);
    run_session(s);
    set_index(s, 2);
    check_run_fails(s, NULL, XCVM_OUT_OF_RANGE, "");
    check_states(s, 11, 22, 1);
    set_index(s, 1);
    const xcvm_run_options fuel = {.size = sizeof fuel, .fuel = 10};
    check_run_fails(s, &fuel, XCVM_OUT_OF_TIME, "fuel");
    check_states(s, 11, 22, 1);
    xcvm_session_cancel(s);
    check_run_fails(s, NULL, XCVM_CANCELLED, "");
    check_states(s, 11, 22, 1);
    run_session(s);
    check_states(s, 12, 24, 2);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A retained output, the caller's own tensor as a state, and a state that is bound to an input do not change. */
START_TEST(what_the_caller_holds_is_not_written)
{
    xcvm_program *program = load(text);
    xcvm_session *s = open_with(program, NULL);
    xcvm_error error = {0};
    float mine[2] = {100, 200};
    xcvm_value *value, *kept;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), mine, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_msg(xcvm_session_set_state(s, 0, value, &error) == XCVM_OK, "%s", error.message);
    run_session(s);
    ck_assert_int_eq(xcvm_value_retain(xcvm_session_get_state(s, 0), &kept, &error), XCVM_OK);
    for (int i = 0; i < 4; i++)
        run_session(s);
    check_states(s, 105, 210, 5);
    ck_assert_float_eq(mine[0], 100);
    ck_assert_float_eq(((const float *)xcvm_value_data(kept))[0], 101);
    ck_assert_msg(xcvm_session_set_input(s, 0, xcvm_session_get_state(s, 0), &error) == XCVM_OK, "%s", error.message);
    run_session(s);
    run_session(s);
    check_states(s, 315, 630, 7);
    xcvm_value_release(kept);
    xcvm_value_release(value);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(wrong_states_are_refused)
{
    xcvm_program *program = load(text);
    xcvm_session *s = open_with(program, NULL);
    xcvm_error error = {0};
    float three[3] = {1, 2, 3};
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(3), three, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_state(s, 0, value, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.message, "state \"total\" is f32[2]"));
    ck_assert_int_eq(xcvm_session_set_state(s, 1, value, &error), XCVM_TYPE_MISMATCH);
    ck_assert_int_eq(xcvm_session_set_state(s, 2, value, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_set_state(s, 0, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_set_state(NULL, 0, value, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_session_reset_states(NULL, &error), XCVM_INVALID_ARGUMENT);
    check_states(s, 10, 20, 0);
    xcvm_value_release(value);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* Sessions of two programs; either may be destroyed first. */
START_TEST(sessions_share_states)
{
    xcvm_program *program = load(text);
    xcvm_program *reader = load("output y f32[2]\nstate total f32[2]\nstate own f32[1]\n"
                                "$1 = Load(name=\"total\")\n$2 = Neg($1)\nOut($2, name=\"y\")\n");
    xcvm_session *s = open_with(program, NULL);
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .states_of = s};
    xcvm_session *r = open_session(reader, &options), *twin = open_with(program, s);
    run_session(s);
    run_session(r);
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_output(r, 0)))[1], -22);
    run_session(twin);
    check_states(s, 12, 24, 2);
    if (_i == 0) {
        xcvm_session_destroy(s);
        s = NULL;
    }
    run_session(r);
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_output(r, 0)))[1], -24);
    if (s == NULL) {
        check_states(twin, 12, 24, 2);
    } else {
        run_session(s);
        check_states(twin, 13, 26, 3);
    }
    xcvm_session_destroy(r);
    xcvm_session_destroy(twin);
    xcvm_session_destroy(s);
    xcvm_program_destroy(reader);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(states_of_other_types_are_not_shared)
{
    xcvm_program *program = load(text);
    xcvm_program *other = load("state total f64[2]\nStore(f64[2] 1 2, name=\"total\")\n");
    xcvm_session *s = open_with(program, NULL), *refused = NULL;
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .states_of = s};
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_session_create(other, &options, &refused, &error), XCVM_TYPE_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.message, "state \"total\" is f64[2], but f32[2]"));
    xcvm_session_destroy(s);
    xcvm_program_destroy(other);
    xcvm_program_destroy(program);
}
END_TEST

/* The tail infers all its values before its first kernel writes: a register has one of them in it. */
START_TEST(tails_load_into_registers_of_their_own)
{
    check_refused("input x f32[4]\nstate p f32[4]\nstate q f32[1]\n$5 = In(name=\"x\")\n$6 = Neg($5)\n"
                  "$1 = Load(name=\"p\")\nSGD([$6], f32[] 0.1, _, _, _, _, [$1], [], [], [], [])\nFree($6)\n"
                  "$6 = Load(name=\"q\")\nSGD([f32[1] 0], f32[] 0.1, _, _, _, _, [$6], [], [], [], [])\n",
                  XCVM_INVALID_PROGRAM, 5, "it loads into a register that had another value");
}
END_TEST

/* Which update comes first would show, or which thread, where one reads what another writes. */
START_TEST(updates_read_nothing_updated)
{
    static const struct {
        const char *text, *message;
        int32_t pc;
    } programs[] = {
        /* Two updates: one reads the state itself, and one reads the state that the other writes. */
        {"$1 = Load(name=\"p\")\n$2 = Load(name=\"q\")\nSGD([f32[4] 1 2 3 4], f32[] 1, _, _, _, _, [$1], [], [], [], "
         "[])\n"
         "SGD([$1], f32[] 1, _, _, _, _, [$2], [], [], [], [])\n",
         "operand gradients is state \"p\" or a view of it, which is updated", 3},
        {"$1 = Load(name=\"p\")\n$2 = Load(name=\"q\")\nSGD([$2, $1], f32[] 1, _, _, _, _, [$1, $2], [], [], [], [])\n",
         "operand gradients is state \"q\"", 2},
        {"$1 = Load(name=\"p\")\nSGD([$1], f32[] 1, _, _, _, _, [$1], [], [], [], [])\n",
         "operand gradients is state \"p\"", 1},
        /* A view that was created before the tail, in another register. */
        {"$3 = Load(name=\"p\")\n$4 = Reshape($3, i64[2] 2 2)\n$5 = Reshape($4, i64[1] 4)\n$1 = Load(name=\"p\")\n"
         "SGD([$5], f32[] 1, _, _, _, _, [$1], [], [], [], [])\n",
         "operand gradients is state \"p\"", 4},
        /* One way or the other. */
        {"$6 = In(name=\"c\")\nJmpFalse($6, to=no)\n$3 = Load(name=\"p\")\n$7 = Reshape($3, i64[1] 4)\n"
         "Free($3)\nJmp(to=on)\nno:\n$7 = Neg(f32[4] 1 2 3 4)\non:\n$1 = Load(name=\"p\")\n"
         "SGD([$7], f32[] 1, _, _, _, _, [$1], [], [], [], [])\n",
         "operand gradients is state \"p\"", 8},
        {"$6 = In(name=\"c\")\nJmpFalse($6, to=no)\n$7 = Load(name=\"q\")\nJmp(to=on)\nno:\n"
         "$7 = Load(name=\"r\")\non:\n$1 = Load(name=\"p\")\n"
         "SGD([$7], f32[] 1, _, _, _, _, [$1], [], [], [], [])\n",
         "operand gradients may be one of several states", 6},
    };
    /* The positions of rows were checked before the tail. */
    check_refused("state at i64[1x1x1x1]\nstate cache f32[1x1x2x1]\n$1 = Load(name=\"at\")\n"
                  "$2 = Reshape($1, i64[1] 1)\n$3 = Load(name=\"at\")\n$4 = Load(name=\"cache\")\n"
                  "CacheAppend(i64[1x1x1x1] 1000000, i64[1] 0, $3)\nCacheAppend(f32[1x1x1x1] 7, $2, $4)\n",
                  XCVM_INVALID_PROGRAM, 5, "operand at is state \"at\" or a view of it");
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char whole[1024];
        snprintf(whole, sizeof whole, "%sstate p f32[4]\nstate q f32[4]\nstate r f32[4]\n%s",
                 strstr(programs[i].text, "\"c\"") != NULL ? "input c bool[]\n" : "", programs[i].text);
        check_refused(whole, XCVM_INVALID_PROGRAM, programs[i].pc, programs[i].message);
    }
    /* A copy is read, and so are a state that is stored and one that nothing changes. */
    xcvm_program *program = load("state p f32[2] = @start\nstate rate f32[]\nstate other f32[2] = @start\n"
                                 "constant start f32[2] = 1 2\n"
                                 "$1 = Load(name=\"p\")\n$2 = Mul($1, f32[] 1)\n$3 = Load(name=\"rate\")\n"
                                 "$4 = Add($3, f32[] 1)\nStore($4, name=\"rate\")\n$5 = Load(name=\"other\")\n"
                                 "$6 = Load(name=\"p\")\nSGD([$2], $3, _, _, _, _, [$6], [], [], [], [])\n");
    xcvm_session *s = open_default_session(program);
    run_session(s);
    run_session(s);
    /* With rates of 0 and 1. */
    const float *p = xcvm_value_data(xcvm_session_get_state(s, 0));
    ck_assert_float_eq(p[0], 0);
    ck_assert_float_eq(p[1], 0);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A tensor that the caller wraps and passes is read, and never written by an update, even after the caller has released
 * it. */
START_TEST(memory_of_callers_is_not_updated)
{
    xcvm_program *program = load("input x f32[2]\nstate p f32[2]\n$1 = In(name=\"x\")\n$2 = Load(name=\"p\")\n"
                                 "SGD([$1], f32[] 1, _, _, _, _, [$2], [], [], [], [])\n");
    xcvm_session *s = open_default_session(program);
    xcvm_error error = {0};
    float own[2] = {10, 20};
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 1, DIMS(2), own, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_msg(xcvm_session_set_state(s, 0, value, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(value);
    set_f32(s, 0, 1, DIMS(2), x);
    run_session(s);
    const float *updated = xcvm_value_data(xcvm_session_get_state(s, 0));
    ck_assert_float_eq(updated[0], 9);
    ck_assert_float_eq(updated[1], 18);
    ck_assert_float_eq(own[0], 10);
    ck_assert_float_eq(own[1], 20);
    run_session(s);
    ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_state(s, 0)), updated);
    ck_assert_float_eq(updated[0], 8);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A state of open size keeps its new value, without a copy if it is in the heap. Each run may store another size. */
START_TEST(open_sizes_grow)
{
    xcvm_program *program = load("input x f32[N]\nstate s f32[?]\n$1 = In(name=\"x\")\n$2 = Load(name=\"s\")\n"
                                 "$3 = Concat([$2, $1], axis=0)\nFree($1)\nFree($2)\nStore($3, name=\"s\")\n");
    xcvm_session *s = open_default_session(program);
    set_f32(s, 0, 1, DIMS(2), x);
    for (size_t i = 1; i <= 20; i++) {
        run_session(s);
        ck_assert_uint_eq(xcvm_value_count(xcvm_session_get_state(s, 0)), 2 * i);
    }
    const float *data = xcvm_value_data(xcvm_session_get_state(s, 0));
    for (int i = 0; i < 40; i++)
        ck_assert_float_eq(data[i], x[i % 2]);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* After the second run nothing is allocated, and stores write to the final memory. */
START_TEST(steady_state)
{
    counter c = {0};
    xcvm_allocator allocator = counting(&c);
    xcvm_program *program = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(try_load(text, &allocator, &program, &error), XCVM_OK);
    xcvm_session *s = open_with(program, NULL);
    run_session(s);
    run_session(s);
    const size_t before = c.allocations;
    for (int i = 0; i < 100; i++)
        run_session(s);
    ck_assert_uint_eq(c.allocations, before);
    check_states(s, 112, 224, 102);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

typedef struct lent {
    float data[4];
    bool given_back;
} lent;

static void return_lent(void *user) { *(lent *)user = (lent){.data = {-1, -1, -1, -1}, .given_back = true}; }

/* An updated state gets memory of its own when it is loaded, if its value belonged to the caller, who has released
 * it. */
START_TEST(what_was_loaded_stays)
{
    xcvm_program *program = load("output y f32[1x1x4x1]\nstate a f32[1x1x4x1]\nstate b f32[1x1x4x1]\n"
                                 "$1 = Load(name=\"a\")\n$2 = Neg($1)\nOut($2, name=\"y\")\n"
                                 "$3 = Load(name=\"a\")\n$4 = Load(name=\"b\")\n"
                                 "CacheAppend(f32[1x1x1x1] 7, i64[1] 0, $3)\nCacheAppend($2, i64[1] 0, $4)\n");
    xcvm_session *s = open_default_session(program);
    lent mine = {.data = {1, 2, 3, 4}};
    xcvm_value *value;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 4, DIMS(1, 1, 4, 1), mine.data, (xcvm_finalizer){return_lent, &mine},
                                      &value, &error),
                     XCVM_OK);
    ck_assert_msg(xcvm_session_set_state(s, 0, value, &error) == XCVM_OK, "%s", error.message);
    xcvm_value_release(value);
    ck_assert(!mine.given_back);
    run_session(s);
    ck_assert(mine.given_back);
    for (int i = 0; i < 4; i++) {
        const float number = (float)(i + 1), first = i == 0 ? 7 : number;
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_output(s, 0)))[i], -number);
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 0)))[i], first);
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 1)))[i], -number);
    }
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(memory_of_states_counts)
{
    xcvm_program *program = load("state s f32[1000000]\n");
    const xcvm_session_options options = {.size = sizeof options, .threads = 1, .memory_limit = 1 << 20};
    xcvm_session *s = NULL;
    xcvm_error error = {0};
    ck_assert_int_eq(xcvm_session_create(program, &options, &s, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_ptr_null(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A cache uses memory for the rows that were added, not for its capacity. */
START_TEST(caches_fill_up)
{
    xcvm_program *program = load("state a f32[1x2x500000x4]\n$1 = Load(name=\"a\")\n"
                                 "CacheAppend(f32[1x2x1x4] 1 2 3 4 5 6 7 8, i64[1] 499999, $1)\n");
    const size_t bytes = (size_t)2 * 500000 * 4 * sizeof(float);
    xcvm_session *s = open_default_session(program);
    for (int round = 0; round < 2; round++) {
        /* Pages at both ends may be shared with other blocks. */
        ck_assert_uint_le(test_resident_pages(xcvm_value_data(xcvm_session_get_state(s, 0)), bytes), 2);
        run_session(s);
        const float *now = xcvm_value_data(xcvm_session_get_state(s, 0));
        ck_assert_float_eq(now[(size_t)499999 * 4 + 1], 2);
        ck_assert_float_eq(now[(size_t)999999 * 4 + 3], 8);
        ck_assert_float_eq(now[(size_t)999998 * 4 + 3], 0);
        ck_assert_uint_le(test_resident_pages(now, bytes), 5);
        ck_assert_int_eq(xcvm_session_reset_states(s, NULL), XCVM_OK);
    }
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A dimension that is called as one of an input has its size; the others begin as 0. */
START_TEST(sizes_of_inputs)
{
    xcvm_program *program = load("input x f32[Nx2]\nstate total f32[Nx2]\nstate seen f32[?x2]\n"
                                 "$1 = In(name=\"x\")\n$2 = Load(name=\"total\")\n$3 = Add($1, $2)\nFree($2)\n"
                                 "Store($3, name=\"total\")\n$4 = Load(name=\"seen\")\n"
                                 "$5 = Concat([$4, $1], axis=0)\nStore($5, name=\"seen\")\n");
    xcvm_session *s = open_default_session(program);
    xcvm_error error = {0};
    static float rows[6] = {1, 2, 3, 4, 5, 6};
    ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(s, 0))[0], 0);
    for (int64_t n = 3; n >= 1; n--) {
        set_f32(s, 0, 2, DIMS(n, 2), rows);
        run_session(s);
        run_session(s);
        ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(s, 0))[0], n);
        ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 0)))[2 * n - 1], (float)(4 * n));
        ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(s, 1))[0], 2 * n);
        set_f32(s, 0, 2, DIMS(n + 1 > 3 ? 1 : n + 1, 2), rows);
        check_run_fails(s, NULL, XCVM_SHAPE_MISMATCH, "dimension N is");
        ck_assert_int_eq(xcvm_value_dims(xcvm_session_get_state(s, 1))[0], 2 * n);
        ck_assert_int_eq(xcvm_session_reset_states(s, &error), XCVM_OK);
    }
    /* Values of the caller's have a size of their own. */
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 2, DIMS(2, 2), rows, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_state(s, 0, value, &error), XCVM_OK);
    xcvm_value_release(value);
    set_f32(s, 0, 2, DIMS(3, 2), rows);
    check_run_fails(s, NULL, XCVM_SHAPE_MISMATCH, "but 3 in input \"x\"");
    set_f32(s, 0, 2, DIMS(2, 2), rows);
    run_session(s);
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 0)))[3], 8);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A reset needs no memory for states that nothing else holds, and a failed reset changes nothing. */
START_TEST(resets_within_a_limit)
{
    xcvm_program *program = load("state a f32[1x1x60000x1]\nstate b f32[30000]\n"
                                 "$1 = Load(name=\"b\")\n$2 = Add($1, f32[] 1)\nFree($1)\nStore($2, name=\"b\")\n"
                                 "$3 = Load(name=\"a\")\nCacheAppend(f32[1x1x1x1] 7, i64[1] 3, $3)\n");
    counter c = {0};
    const xcvm_allocator allocator = counting(&c);
    const xcvm_session_options options = {
        .size = sizeof options, .allocator = &allocator, .threads = 1, .memory_limit = 620000};
    xcvm_session *s = open_session(program, &options);
    xcvm_error error = {0};
    for (int i = 0; i < 3; i++) {
        run_session(s);
        run_session(s);
        const float *a = xcvm_value_data(xcvm_session_get_state(s, 0)),
                    *b = xcvm_value_data(xcvm_session_get_state(s, 1));
        ck_assert_float_eq(a[3], 7);
        ck_assert_float_eq(b[29999], 2);
        ck_assert_msg(xcvm_session_reset_states(s, &error) == XCVM_OK, "%s", error.message);
        ck_assert_ptr_eq(xcvm_value_data(xcvm_session_get_state(s, 0)), a);
        ck_assert_float_eq(a[3], 0);
        ck_assert_float_eq(*(const float *)xcvm_value_data(xcvm_session_get_state(s, 1)), 0);
    }
    static float mine[60000] = {0, 0, 0, 5};
    xcvm_value *value;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_F32, 4, DIMS(1, 1, 60000, 1), mine, (xcvm_finalizer){0}, &value, &error),
                     XCVM_OK);
    run_session(s);
    ck_assert_int_eq(xcvm_session_set_state(s, 0, value, &error), XCVM_OK);
    c.fail_at = c.allocations + 1;
    ck_assert_int_eq(xcvm_session_reset_states(s, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 0)))[3], 5);
    ck_assert_float_eq(*(const float *)xcvm_value_data(xcvm_session_get_state(s, 1)), 1);
    ck_assert_int_eq(xcvm_session_reset_states(s, &error), XCVM_OK);
    ck_assert_float_eq(((const float *)xcvm_value_data(xcvm_session_get_state(s, 0)))[3], 0);
    ck_assert_float_eq(mine[3], 5);
    xcvm_value_release(value);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

/* A copy of a cache that a caller holds does not include rows that were never written. */
START_TEST(held_caches_are_copied_as_far_as_they_are_filled)
{
    xcvm_program *program = load("input at i64[1]\nstate a f32[1x2x500000x4]\n$1 = In(name=\"at\")\n"
                                 "$2 = Load(name=\"a\")\nCacheAppend(f32[1x2x1x4] 1 2 3 4 5 6 7 8, $1, $2)\n");
    const size_t bytes = (size_t)2 * 500000 * 4 * sizeof(float);
    xcvm_session *s = open_default_session(program);
    xcvm_error error = {0};
    static int64_t at[1];
    xcvm_value *value, *kept;
    ck_assert_int_eq(xcvm_tensor_wrap(XCVM_I64, 1, DIMS(1), at, (xcvm_finalizer){0}, &value, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_input(s, 0, value, &error), XCVM_OK);
    at[0] = 400000;
    run_session(s);
    ck_assert_int_eq(xcvm_value_retain(xcvm_session_get_state(s, 0), &kept, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_session_set_state(s, 0, kept, &error), XCVM_OK);
    at[0] = 0;
    run_session(s);
    const float *now = xcvm_value_data(xcvm_session_get_state(s, 0)), *before = xcvm_value_data(kept);
    ck_assert_ptr_ne(now, before);
    ck_assert_float_eq(now[(size_t)400000 * 4 + 1], 2);
    ck_assert_float_eq(now[1], 2);
    ck_assert_float_eq(before[1], 0);
    ck_assert_uint_le(test_resident_pages(now, bytes), 8);
    xcvm_value_release(kept);
    xcvm_value_release(value);
    xcvm_session_destroy(s);
    xcvm_program_destroy(program);
}
END_TEST

Suite *suite_vm_states(void);
Suite *suite_vm_states(void)
{
    Suite *suite =
        SUITE_OF("vm_states", runs_add_up, failed_runs_change_nothing, what_the_caller_holds_is_not_written,
                 wrong_states_are_refused, states_of_other_types_are_not_shared, open_sizes_grow,
                 tails_load_into_registers_of_their_own, updates_read_nothing_updated, memory_of_callers_is_not_updated,
                 steady_state, what_was_loaded_stays, memory_of_states_counts, caches_fill_up, sizes_of_inputs,
                 resets_within_a_limit, held_caches_are_copied_as_far_as_they_are_filled);
    TCase *sharing = tcase_create("sharing");
    tcase_add_loop_test(sharing, sessions_share_states, 0, 2);
    suite_add_tcase(suite, sharing);
    return suite;
}
