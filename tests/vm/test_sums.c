/* Tests of sums over processes during a run, above all of failures. */
#include "tests/vm/support.h"

/* A host whose sums finish only on request. */
typedef struct host {
    bool ends, fails;
    float *elements;
    size_t begun, asked, ended, abandoned, summed, calls;
} host;

static xcvm_status begin(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request, xcvm_error *error)
{
    host *h = user;
    (void)error;
    ck_assert_int_eq(dtype, XCVM_F32);
    ck_assert_uint_eq(count, 2);
    h->begun++;
    h->elements = elements;
    *request = h;
    return XCVM_OK;
}

static xcvm_status end(void *user, void *request, bool *done, xcvm_error *error)
{
    host *h = user;
    (void)error;
    ck_assert_ptr_eq(request, h);
    h->asked++;
    *done = h->ends;
    if (h->ends) {
        h->ended++;
        h->elements[0] += 10;
        h->elements[1] += 20;
    }
    return XCVM_OK;
}

static void abandon(void *user, void *request)
{
    host *h = user;
    ck_assert_ptr_eq(request, h);
    h->abandoned++;
}

static xcvm_status sum(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    host *h = user;
    (void)dtype;
    (void)error;
    h->summed++;
    for (size_t i = 0; i < count; i++)
        ((float *)elements)[i] += 1;
    return XCVM_OK;
}

static xcvm_status call(void *user, size_t in_count, const xcvm_value *const *in, size_t out_count, xcvm_value **out,
                        xcvm_error *error)
{
    host *h = user;
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    h->calls++;
    ck_assert_uint_eq(h->begun - h->ended - h->abandoned, 1);
    if (h->fails) {
        xcvm_error_set(error, XCVM_IO, "the host has failed");
        return XCVM_IO;
    }
    return XCVM_OK;
}

static const char program_text[] = "output y f32[2]\n"
                                   "state n f32[2] = @start\n"
                                   "constant start f32[2] = 1 2\n"
                                   "$1 = Load(name=\"n\")\n"
                                   "$2 = AllReduceBegin($1, [], [])\n"
                                   "HostCall([], function=\"call\", dtypes=[], ranks=[])\n"
                                   "$3 = AllReduceEnd($2, dtype=f32, ranks=[1], dims=[2])\n"
                                   "Out($3, name=\"y\")\n"
                                   "Store($3, name=\"n\")\n"
                                   "Free($1)\nFree($2)\nFree($3)\n";

static xcvm_session *open_with(const xcvm_program *program, host *h, xcvm_host_function *function)
{
    *function = (xcvm_host_function){.name = "call", .call = call, .user = h};
    const xcvm_session_options options = {.size = sizeof options,
                                          .threads = 1,
                                          .functions = function,
                                          .function_count = 1,
                                          .all_reduce.sum = sum,
                                          .all_reduce.user = h,
                                          .all_reduce.begin = begin,
                                          .all_reduce.end = end,
                                          .all_reduce.abandon = abandon};
    return open_session(program, &options);
}

static void expect_state(const xcvm_session *session, float a, float b)
{
    const float *n = xcvm_value_data(xcvm_session_get_state(session, 0));
    ck_assert(n[0] == a && n[1] == b);
}

/* A sum that does not end cannot keep a run from its deadline; one that fails in between, or is not waited for, leaves
 * nothing to the host. States are as they were. */
START_TEST(abandoned)
{
    xcvm_program *program = load(program_text);
    xcvm_host_function function;
    host h = {.ends = false};
    xcvm_session *session = open_with(program, &h, &function);
    /* On a machine that is busy with others, the deadline may pass before the sum begins. */
    xcvm_run_options options = {.size = sizeof options, .timeout_ns = 20000000};
    for (; h.asked < 2; options.timeout_ns *= 4) {
        ck_assert_uint_lt(options.timeout_ns, UINT64_C(60000000000));
        h.begun = h.abandoned = h.asked = 0;
        check_run_fails(session, &options, XCVM_OUT_OF_TIME, "deadline");
        ck_assert_uint_eq(h.abandoned, h.begun);
    }
    ck_assert_uint_eq(h.abandoned, 1);
    h.fails = h.ends = true;
    check_run_fails(session, NULL, XCVM_IO, "the host has failed");
    ck_assert_uint_eq(h.abandoned, 2);
    ck_assert_uint_eq(h.ended, 0);
    expect_state(session, 1, 2);
    h.fails = false;
    for (int i = 0; i < 2; i++)
        run_session(session);
    expect_state(session, 21, 42);
    ck_assert_uint_eq(h.begun, 4);
    ck_assert_uint_eq(h.ended, 2);
    ck_assert_uint_eq(h.abandoned, 2);
    ck_assert_uint_eq(h.calls, 4);
    ck_assert_uint_eq(h.summed, 0);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);

    program = load("$1 = AllReduceBegin(f32[2] 1 2, [], [])\nFree($1)\n");
    session = open_with(program, &h, &function);
    run_session(session);
    ck_assert_uint_eq(h.abandoned, 3);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* A host that has none of the three functions sums at once. */
START_TEST(at_once)
{
    xcvm_program *program = load("output y f32[2]\n"
                                 "$1 = AllReduceBegin(f32[2] 1 2, [], [])\n"
                                 "$2 = AllReduceEnd($1, dtype=f32, ranks=[1], dims=[2])\n"
                                 "Out($2, name=\"y\")\nFree($1)\nFree($2)\n");
    host h = {.ends = false};
    for (int i = 0; i < 2; i++) {
        const xcvm_session_options options = {
            .size = sizeof options, .threads = 1, .all_reduce.sum = i == 0 ? sum : NULL, .all_reduce.user = &h};
        xcvm_session *session = open_session(program, &options);
        run_session(session);
        const float *y = xcvm_value_data(xcvm_session_get_output(session, 0));
        ck_assert(y[0] == (i == 0 ? 2 : 1) && y[1] == (i == 0 ? 3 : 2));
        xcvm_session_destroy(session);
    }
    ck_assert_uint_eq(h.summed, 1);
    const xcvm_session_options broken = {.size = sizeof broken, .all_reduce.begin = begin, .all_reduce.end = end};
    xcvm_session *session = NULL;
    xcvm_error error;
    ck_assert_int_eq(xcvm_session_create(program, &broken, &session, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "all_reduce_begin"));
    xcvm_program_destroy(program);
}
END_TEST

/* A program that begins and never ends comes to a limit. */
START_TEST(endless)
{
    xcvm_program *program = load("loop:\n$1 = AllReduceBegin(f32[2] 1 2, [], [])\nFree($1)\nJmp(to=loop)\n");
    host h = {.ends = false};
    xcvm_host_function function;
    xcvm_session *session = open_with(program, &h, &function);
    check_run_fails(session, NULL, XCVM_OUT_OF_RANGE, "4096 sums over all processes are under way");
    ck_assert_uint_eq(h.abandoned, h.begun);
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

/* The memory of the host's allocator, all in `memory`. */
typedef struct shared_memory {
    _Alignas(64) char memory[1 << 16];
    size_t used, held;
} shared_memory;

static void *memory_allocate(void *user, size_t bytes, size_t alignment)
{
    shared_memory *p = user;
    const size_t at = (p->used + alignment - 1) / alignment * alignment;
    if (at + bytes > sizeof p->memory)
        return NULL;
    p->used = at + bytes;
    p->held++;
    return p->memory + at;
}

static void put_back(void *user, void *memory, size_t bytes)
{
    shared_memory *p = user;
    ck_assert((char *)memory >= p->memory && (char *)memory + bytes <= p->memory + p->used);
    p->held--;
}

/* Elements on their way are where the host wants them, as often as the program runs, and count as the session's. */
START_TEST(placed_by_the_host)
{
    shared_memory *p = calloc(1, sizeof *p);
    const xcvm_allocator allocator = {.allocate = memory_allocate, .release = put_back, .user = p};
    xcvm_program *program = load("input x f32[_]\noutput y f32[2]\n"
                                 "$1 = In(name=\"x\")\n"
                                 "$2 = AllReduceBegin($1, [], [])\n"
                                 "$3 = AllReduceEnd($2, dtype=f32, ranks=[1], dims=[2])\n"
                                 "Out($3, name=\"y\")\nFree($1)\nFree($2)\nFree($3)\n");
    host h = {.ends = true};
    xcvm_session_options options = {.size = sizeof options,
                                    .threads = 1,
                                    .memory_limit = 1 << 20,
                                    .all_reduce.user = &h,
                                    .all_reduce.begin = begin,
                                    .all_reduce.end = end,
                                    .all_reduce.abandon = abandon,
                                    .all_reduce.allocator = &allocator};
    xcvm_session *session = open_session(program, &options);
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        float x[2] = {1, (float)i};
        set_f32(session, 0, 1, DIMS(2), x);
        run_session(session);
        const float *y = xcvm_value_data(xcvm_session_get_output(session, 0));
        ck_assert(y[0] == 11 && y[1] == (float)i + 20);
        ck_assert((char *)h.elements >= p->memory && (char *)h.elements < p->memory + sizeof p->memory);
        ck_assert(i == 0 || p->used == used);
        used = p->used;
    }
    /* More than the host has. */
    float *many = calloc(1 << 15, sizeof *many);
    set_f32(session, 0, 1, DIMS(1 << 15), many);
    check_run_fails(session, NULL, XCVM_OUT_OF_MEMORY, "the allocator has no");
    xcvm_session_destroy(session);
    ck_assert_uint_eq(p->held, 0);

    /* More than the session may hold. */
    options.memory_limit = 100000;
    session = open_session(program, &options);
    set_f32(session, 0, 1, DIMS(1 << 15), many);
    check_run_fails(session, NULL, XCVM_OUT_OF_MEMORY, "memory limit of 100000");
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    free(many);
    free(p);
}
END_TEST

Suite *suite_vm_sums(void);
Suite *suite_vm_sums(void) { return SUITE_OF("vm_sums", abandoned, at_once, endless, placed_by_the_host); }
