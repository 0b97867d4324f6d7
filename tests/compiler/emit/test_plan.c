/* Tests of liveness, schedules and plans. */
#include "compiler/ir/liveness.h"
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static uint32_t random_state;

static uint32_t random_below(uint32_t n) { return test_random_below(&random_state, n); }

/* A graph of nodes that take what others gave at random, in place or as views or neither. */
static void make_random(xcc_builder *b, uint32_t seed, size_t nodes)
{
    enum { MOST = 64 };
    xcc_value *pool[MOST];
    size_t count = 0;
    random_state = seed;
    pool[count++] = input(b, "x", XCVM_F32, 2, DIMS(4, 64));
    for (size_t i = 0; i < nodes && count < MOST; i++) {
        xcc_value *x = pool[random_below((uint32_t)count)], *z = pool[random_below((uint32_t)count)];
        switch (random_below(6)) {
        case 0:
            pool[count++] = APPLY(Exp, y, .x = XCC_IN(x));
            break;
        case 1:
            pool[count++] = APPLY(Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, 2, DIMS(-1, 64))));
            break;
        case 2:
            pool[count++] = APPLY(Transpose, y, .x = XCC_IN(x), .perm = XCC_INTS(0, 1));
            break;
        case 3:
            if (xcvm_same_shape(&x->type, &z->type))
                pool[count++] = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(z));
            break;
        case 4:
            if (x->type.dims[0] < 64)
                pool[count++] = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(x), XCC_IN(z)}, 2});
            break;
        default:
            pool[count++] = APPLY(ReduceSum, y, .x = XCC_IN(x), .axes = XCC_IN(ints(b, 1, DIMS(0))), .keepdims = 1);
            break;
        }
    }
    for (int i = 0; i < 3; i++)
        output(b, pool[count - 1 - random_below((uint32_t)count - 1)]);
}

/* Two live values must not share bytes, except views and results that replace an operand. */
static void check_plan(xcc_module *m, const xcc_plan *plan)
{
    xcc_liveness l;
    ok(m, xcc_liveness_analyze(m->graph, &l));
    for (size_t i = 0; i < l.count; i++) {
        const xcc_live_range *a = &l.at[i], *ga = &l.at[a->root];
        uint64_t at = plan->slots[a->value->id].offset, bytes = plan->slots[a->value->id].bytes;
        if (bytes == 0)
            continue;
        ck_assert_uint_eq(at % XCVM_ALIGNMENT, 0);
        ck_assert_uint_eq(bytes, a->bytes);
        ck_assert_uint_le(at + bytes, plan->arena_bytes);
        for (size_t k = 0; k < i; k++) {
            const xcc_live_range *b = &l.at[k], *gb = &l.at[b->root];
            uint64_t other = plan->slots[b->value->id].offset, other_bytes = plan->slots[b->value->id].bytes;
            if (other_bytes == 0 || a->root == b->root || ga->end < gb->start || gb->end < ga->start)
                continue;
            ck_assert_msg(at + bytes <= other || other + other_bytes <= at, "%s and %s overlap", a->value->name,
                          b->value->name);
        }
    }
    xcc_liveness_release(m, &l);
}

START_TEST(random_graphs)
{
    compilation c;
    compiled_program before, after;
    xcc_plan plan;
    for (int naive = 0; naive < 2; naive++) {
        begin(&c, 1);
        c.options.debug.scheduling = naive ? XCC_SCHEDULE_NAIVE : XCC_SCHEDULE_MEMORY;
        make_random(&c.b, (uint32_t)_i, 40);
        passes(&c);
        ok(&c.m, xcc_plan_make(&c.m, &plan));
        check_plan(&c.m, &plan);
        ck_assert_uint_ge(plan.arena_bytes, plan.lower_bound);
        /* The machine proves the plan as well, and gets the same results with it. */
        compiled_open(naive ? &before : &after, &c);
        compiled_fill_input(naive ? &before : &after, 0, 1);
        compiled_run(naive ? &before : &after);
        finish(&c);
    }
    for (size_t i = 0; i < 3; i++)
        expect_equal(xcvm_session_get_output(before.session, i), xcvm_session_get_output(after.session, i));
    compiled_close(&before);
    compiled_close(&after);
}
END_TEST

START_TEST(in_place_chain)
{
    compilation c;
    xcc_plan plan;
    begin(&c, -1);
    xcc_builder *b = &c.b;
    xcc_value *y = input(b, "x", XCVM_F32, 2, DIMS(4, 64));
    for (int i = 0; i < 10; i++)
        y = APPLY(Exp, y, .x = XCC_IN(y));
    y = APPLY(Flatten, y, .x = XCC_IN(y), .axis = 0);
    output(b, APPLY(Neg, y, .x = XCC_IN(y)));
    passes(&c);
    ok(&c.m, xcc_plan_make(&c.m, &plan));
    ck_assert_uint_eq(plan.arena_bytes, 1024);
    ck_assert_uint_eq(plan.lower_bound, 1024);
    finish(&c);
}
END_TEST

/* A view keeps the memory of its operand alive. An operand with other readers cannot be overwritten. */
START_TEST(views_and_second_uses)
{
    compilation c;
    xcc_plan plan;
    begin(&c, -1);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(4, 64));
    xcc_value *p = APPLY(Exp, y, .x = XCC_IN(x)), *view = APPLY(Flatten, y, .x = XCC_IN(p), .axis = 0);
    xcc_value *q = APPLY(Neg, y, .x = XCC_IN(view));
    xcc_value *r = APPLY(Add, y, .a = XCC_IN(q), .b = XCC_IN(APPLY(Flatten, y, .x = XCC_IN(p), .axis = 0)));
    output(b, APPLY(Add, y, .a = XCC_IN(r), .b = XCC_IN(APPLY(Abs, y, .x = XCC_IN(r)))));
    passes(&c);
    ok(&c.m, xcc_plan_make(&c.m, &plan));
    check_plan(&c.m, &plan);
    ck_assert_uint_eq(plan.slots[p->id].offset, plan.slots[view->id].offset);
    ck_assert_uint_ne(plan.slots[p->id].offset, plan.slots[q->id].offset);
    ck_assert_uint_eq(plan.arena_bytes, 2048);
    finish(&c);
}
END_TEST

/* Values of open size, views of inputs, and values that cross control flow have no slots. */
START_TEST(unplanned)
{
    compilation c;
    xcc_plan plan;
    begin(&c, -1);
    xcc_builder *b = &c.b;
    xcc_value *open = input(b, "open", XCVM_F32, 1, DIMS(-1)), *x = input(b, "x", XCVM_F32, 1, DIMS(64));
    xcc_value *cond = input(b, "cond", XCVM_BOOL, 0, NULL), *out = must(b, xcc_value_create(b->graph, "out"));
    xcc_value *p = APPLY(Exp, y, .x = XCC_IN(open)), *q = APPLY(Flatten, y, .x = XCC_IN(x), .axis = 0);
    xcc_value *captured = APPLY(Exp, y, .x = XCC_IN(x)), *planned = APPLY(Neg, y, .x = XCC_IN(x));
    xcc_value *sum = APPLY(Add, y, .a = XCC_IN(planned), .b = XCC_IN(planned));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &out, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder then = {.graph = n->bodies[0]}, other = {.graph = n->bodies[1]};
    xcc_value *inside = must(b, xcc_apply(&then, Neg, y, .x = XCC_IN(captured)));
    output(&then, must(b, xcc_apply(&then, Add, y, .a = XCC_IN(inside), .b = XCC_IN(inside))));
    output(&other, captured);
    ok(&c.m, xcc_node_infer(n));
    output(b, p);
    output(b, q);
    output(b, out);
    output(b, sum);
    passes(&c);
    ok(&c.m, xcc_plan_make(&c.m, &plan));
    ck_assert_uint_eq(plan.slots[p->id].bytes, 0);
    ck_assert_uint_eq(plan.slots[q->id].bytes, 0);
    ck_assert_uint_eq(plan.slots[captured->id].bytes, 0);
    ck_assert_uint_eq(plan.slots[out->id].bytes, 0);
    ck_assert_uint_eq(plan.slots[sum->id].bytes, 0);
    ck_assert_uint_eq(plan.slots[inside->id].bytes, 256);
    compiled_program k;
    compiled_open(&k, &c);
    compiled_close(&k);
    finish(&c);
}
END_TEST

/* Two wide branches, which the model computes side by side: one after the other needs less. */
START_TEST(greedy_schedule)
{
    compilation c;
    uint64_t peaks[2];
    bool open = false;
    for (int naive = 0; naive < 2; naive++) {
        begin(&c, 1);
        c.options.debug.scheduling = naive ? XCC_SCHEDULE_NAIVE : XCC_SCHEDULE_MEMORY;
        xcc_builder *b = &c.b;
        xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(1, 64)), *wide[4], *narrow[4];
        for (int64_t i = 0; i < 4; i++)
            wide[i] = APPLY(Expand, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, 2, DIMS(100 + i, 64))));
        for (int i = 0; i < 4; i++)
            narrow[i] = APPLY(ReduceSum, y, .x = XCC_IN(wide[i]), .axes = XCC_IN(ints(b, 1, DIMS(0))));
        xcc_value *sum = narrow[0];
        for (int i = 1; i < 4; i++)
            sum = APPLY(Add, y, .a = XCC_IN(sum), .b = XCC_IN(narrow[i]));
        output(b, sum);
        passes(&c);
        ok(&c.m, xcc_graph_peak(c.m.graph, &peaks[naive], &open));
        finish(&c);
    }
    ck_assert_uint_lt(peaks[0], 2 * 103 * 256);
    ck_assert_uint_gt(peaks[1], 4 * 100 * 256);
}
END_TEST

/* The order of visible effects does not change. */
START_TEST(effects_stay_in_order)
{
    compilation c;
    begin(&c, 1);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(1, 64)), *wide[4];
    for (int64_t i = 0; i < 4; i++)
        wide[i] = APPLY(Expand, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, 2, DIMS(100 - i, 64))));
    for (int i = 0; i < 4; i++) {
        char label[2] = {(char)('a' + i), '\0'};
        const xcvm_value *xs[1] = {XCC_IN(wide[3 - i])};
        ck_assert_ptr_nonnull(xcc_emit(b, Print, .xs = {xs, 1}, .label = {label, 1}));
    }
    output(b, x);
    passes(&c);
    CHECK_COUNT(&c, Print, 4);
    char expected = 'a';
    for (const xcc_node *n = c.m.graph->first; n != NULL; n = n->next)
        if (xcc_is(n, XCVM_OP_Print))
            ck_assert_int_eq(XCC_ARGS(Print, n)->label.at[0], expected++);
    finish(&c);
}
END_TEST

Suite *suite_compiler_plan(void)
{
    Suite *suite = suite_create("compiler/plan");
    TCase *tests = tcase_create("plan");
    tcase_add_loop_test(tests, random_graphs, 1, 60);
    tcase_add_test(tests, in_place_chain);
    tcase_add_test(tests, views_and_second_uses);
    tcase_add_test(tests, unplanned);
    tcase_add_test(tests, greedy_schedule);
    tcase_add_test(tests, effects_stay_in_order);
    suite_add_tcase(suite, tests);
    return suite;
}
