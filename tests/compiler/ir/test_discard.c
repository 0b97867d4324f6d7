/* Tests of removal: names, ids and memory are used again, and a long recording needs little memory. */
#include "tests/compiler/support.h"

#include <stdio.h>

/* After random insertions and removals a table finds exactly its entries. */
START_TEST(table_removal)
{
    enum { NAMES = 300, CHANGES = 20000 };
    compilation c;
    begin(&c, 0);
    xcc_table table = {.count = 0};
    static char names[NAMES][16];
    bool there[NAMES] = {false};
    size_t count = 0;
    uint32_t random = 1;
    for (size_t i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "name %zu", i);
    xcc_table_remove(&table, names[0]);
    for (size_t change = 0; change < CHANGES; change++) {
        const size_t i = test_random_below(&random, NAMES);
        if (there[i])
            xcc_table_remove(&table, names[i]);
        else
            ok(&c.m, xcc_table_put(&c.m, &table, names[i], (int64_t)i));
        there[i] = !there[i];
        count = there[i] ? count + 1 : count - 1;
        ck_assert_uint_eq(table.count, count);
        if (change % 100 != 0)
            continue;
        for (size_t k = 0; k < NAMES; k++) {
            const struct xcc_table_entry *entry = xcc_table_lookup(&table, names[k]);
            ck_assert_msg((entry != NULL) == there[k], "%s after %zu changes", names[k], change);
            ck_assert(entry == NULL || entry->value == (int64_t)k);
        }
    }
    finish(&c);
}
END_TEST

START_TEST(names_are_free_again)
{
    compilation c;
    begin(&c, 0);
    xcc_value *a = xcc_value_create(c.m.graph, "a");
    const uint32_t id = a->id, count = c.m.value_count;
    xcc_value_discard(a);
    ck_assert_ptr_null(xcc_table_lookup(&c.m.value_names, "a"));
    const xcc_value *again = xcc_value_create(c.m.graph, "a");
    ck_assert_str_eq(again->name, "a");
    ck_assert_uint_eq(again->id, id);
    ck_assert_uint_eq(c.m.value_count, count);
    ck_assert_str_ne(xcc_value_create(c.m.graph, "a")->name, "a");
    /* A lent name is not removed from the table with a value of another name. */
    xcc_value *lent = xcc_value_create(c.m.graph, NULL);
    static const char text[] = "a";
    lent->name = text;
    xcc_value_discard(lent);
    ck_assert_ptr_nonnull(xcc_table_lookup(&c.m.value_names, "a"));
    finish(&c);
}
END_TEST

START_TEST(what_is_used_stays)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *w = xcc_parameter(b->graph, "w", XCVM_F32, 1, DIMS(2), FLOATS(1, 2), false);
    xcc_value *s = xcc_state(b->graph, "s", XCVM_F32, 1, DIMS(2), FLOATS(3, 4), false);
    xcc_value *y = must(b, xcc_apply(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(w)));
    output(b, y);
    xcc_value_discard(w);
    xcc_value_discard(y);
    ck_assert_str_eq(w->name, "w");
    ck_assert_ptr_eq(y->producer, c.m.graph->last);
    ck_assert_ptr_eq(c.m.variables, w);
    ck_assert_ptr_eq(w->next_owned, s);
    /* The last entry of the list is removed, and another one is added. */
    xcc_value_discard(s);
    ck_assert_ptr_null(w->next_owned);
    const xcc_value *t = xcc_state(b->graph, "t", XCVM_F32, 1, DIMS(2), FLOATS(5, 6), false);
    ck_assert_ptr_eq(w->next_owned, t);
    ck_assert_int_eq(xcc_graph_verify(c.m.graph), XCVM_OK);
    passes(&c);
    finish(&c);
}
END_TEST

/* One call of a recording: instructions with lists, integers, texts and constants of their own, some of them named. */
static xcc_node *record(xcc_builder *b, xcc_value *x, size_t call)
{
    char name[32];
    snprintf(name, sizeof name, "call %zu", call);
    xcc_value *two = must(b, xcc_scalar(b->graph, XCVM_F32, 2)), *y = must(b, xcc_value_create(b->graph, name));
    xcc_node *n = xcc_emit(b, Mul, .y = XCC_OUT(y), .a = XCC_IN(x), .b = XCC_IN(two));
    ck_assert_ptr_nonnull(n);
    const xcvm_value *list[] = {&y->type, &x->type};
    xcc_value *both = must(b, xcc_apply(b, Concat, y, .xs = {list, 2}, .axis = 0));
    must(b, xcc_apply(b, Transpose, y, .x = XCC_IN(both), .perm = {DIMS(1, 0), 2}));
    ck_assert_ptr_nonnull(xcc_emit(b, Print, .xs = {list, 2}, .label = {"label", 5}));
    return n;
}

START_TEST(long_recordings_stay_small)
{
    enum { CALLS = 200000, SETTLED = 1000, KEPT = 5, NODES_OF_CALL = 4 };
    compilation c;
    begin(&c, 0);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(3, 4));
    size_t held = 0, capacity = 0;
    uint32_t values = 0;
    for (size_t call = 0; call < CALLS; call++) {
        record(&c.b, x, call);
        if (call < KEPT)
            continue;
        /* The oldest call is removed, its last node first. */
        xcc_node *nodes[NODES_OF_CALL];
        xcc_node *n = c.m.graph->first;
        xcc_value *two = xcc_node_input(n, 1);
        for (size_t i = 0; i < NODES_OF_CALL; i++, n = n->next)
            nodes[i] = n;
        for (size_t i = NODES_OF_CALL; i-- > 0;)
            xcc_node_discard(nodes[i]);
        xcc_value_discard(two);
        if (call == SETTLED) {
            held = c.m.budget.held;
            values = c.m.value_count;
            capacity = c.m.value_names.capacity;
        }
    }
    ck_assert_uint_eq(c.m.budget.held, held);
    ck_assert_uint_eq(c.m.value_count, values);
    ck_assert_uint_eq(c.m.value_names.capacity, capacity);
    ck_assert_uint_eq(x->uses, 3 * KEPT);
    ck_assert_int_eq(xcc_graph_verify(c.m.graph), XCVM_OK);
    char name[32];
    snprintf(name, sizeof name, "call %d", CALLS - 1);
    ck_assert_ptr_nonnull(xcc_table_lookup(&c.m.value_names, name));
    ck_assert_ptr_null(xcc_table_lookup(&c.m.value_names, "call 0"));
    finish(&c);
}
END_TEST

Suite *suite_compiler_discard(void);
Suite *suite_compiler_discard(void)
{
    Suite *suite = suite_create("compiler/discard");
    TCase *tests = tcase_create("discard");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, table_removal);
    tcase_add_test(tests, names_are_free_again);
    tcase_add_test(tests, what_is_used_stays);
    tcase_add_test(tests, long_recordings_stay_small);
    suite_add_tcase(suite, tests);
    return suite;
}
