/* Tests of the graph: names, uses, changes, its verification and its text. */
#include "tests/compiler/support.h"

#include <stdio.h>

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

START_TEST(names_are_unique)
{
    compilation c;
    begin(&c, 0);
    xcc_value *a = xcc_value_create(c.m.graph, "a"), *again = xcc_value_create(c.m.graph, "a");
    xcc_value *made = xcc_value_create(c.m.graph, NULL), *taken = xcc_value_create(c.m.graph, made->name);
    ck_assert_str_eq(a->name, "a");
    ck_assert_str_ne(again->name, "a");
    ck_assert_str_ne(made->name, taken->name);
    char name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        ck_assert_str_eq(xcc_value_create(c.m.graph, name)->name, name);
    }
    ck_assert_str_ne(xcc_value_create(c.m.graph, "n500")->name, "n500");
    finish(&c);
}
END_TEST

START_TEST(symbols)
{
    compilation c;
    begin(&c, 0);
    c.options.dims = &(const xcc_dim){"N", 4};
    c.options.dim_count = 1;
    ck_assert_int_eq(xcc_symbol(&c.m, "N"), 4);
    int64_t m = xcc_symbol(&c.m, "M"), made = xcc_symbol(&c.m, NULL);
    ck_assert_int_lt(m, XCVM_ANY_DIM);
    ck_assert_int_eq(xcc_symbol(&c.m, "M"), m);
    ck_assert_int_ne(made, m);
    ck_assert_str_eq(xcc_symbol_name(&c.m, m), "M");
    ck_assert_ptr_null(xcc_symbol_name(&c.m, made));
    ck_assert_ptr_null(xcc_symbol_name(&c.m, 4));
    ck_assert_ptr_null(xcc_symbol_name(&c.m, XCVM_ANY_DIM));
    ck_assert_ptr_null(xcc_symbol_name(&c.m, -1000));
    ck_assert(xcc_symbol_known(&c.m, "N") && !xcc_symbol_known(&c.m, "K"));
    finish(&c);
}
END_TEST

START_TEST(scalars)
{
    compilation c;
    begin(&c, 0);
    static const xcvm_dtype types[] = {XCVM_F32, XCVM_F64, XCVM_F16, XCVM_BF16, XCVM_I8,  XCVM_I16, XCVM_I32,
                                       XCVM_I64, XCVM_U8,  XCVM_U16, XCVM_U32,  XCVM_U64, XCVM_BOOL};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const xcc_value *v = xcc_scalar(c.m.graph, types[i], 1);
        ck_assert(xcc_is_constant(v));
        ck_assert_int_eq(v->type.rank, 0);
        ck_assert_double_eq(xcvm_element_as_double(&v->type, 0), 1);
    }
    ck_assert_ptr_null(xcc_scalar(c.m.graph, XCVM_STRING, 1));
    ck_assert_int_eq(c.error.status, XCVM_TYPE_MISMATCH);
    const xcc_value *empty = xcc_constant(c.m.graph, "empty", XCVM_F32, 2, DIMS(0, 3), NULL, true);
    ck_assert(xcc_is_constant(empty));
    ck_assert_ptr_null(xcc_constant(c.m.graph, "huge", XCVM_F32, 2, DIMS(INT64_MAX, 3), NULL, true));
    finish(&c);
}
END_TEST

START_TEST(uses)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *z = input(b, "z", XCVM_F32, 1, DIMS(2));
    xcc_value *y = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(x));
    xcc_value *w = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(x), XCC_IN(y)}, 2});
    output(b, w);
    output(b, x);
    ck_assert_uint_eq(x->uses, 4);
    ok(&c.m, xcc_graph_verify(c.m.graph));
    xcc_replace_uses(c.m.graph, x, z);
    ck_assert_uint_eq(x->uses, 0);
    ck_assert_uint_eq(z->uses, 4);
    ck_assert_ptr_eq(c.m.graph->outputs[1], z);
    ck_assert_ptr_eq(xcc_node_input(w->producer, 0), z);
    ck_assert_str_eq(c.m.graph->output_names[1], "x");
    ok(&c.m, xcc_graph_verify(c.m.graph));
    xcc_replace_uses(c.m.graph, w, y);
    xcc_node_remove(w->producer);
    ck_assert_uint_eq(z->uses, 3);
    ck_assert_uint_eq(y->uses, 1);
    ok(&c.m, xcc_graph_verify(c.m.graph));
    finish(&c);
}
END_TEST

START_TEST(check_finds_defects)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *y = APPLY(Neg, y, .x = XCC_IN(x)), *z = APPLY(Abs, y, .x = XCC_IN(y));
    output(b, z);
    xcc_node_move_before(z->producer, y->producer);
    ck_assert_int_eq(xcc_graph_verify(c.m.graph), XCVM_INTERNAL);
    ck_assert_ptr_nonnull(strstr(c.error.message, "before it is there"));
    xcc_node_move_before(y->producer, z->producer);
    ok(&c.m, xcc_graph_verify(c.m.graph));
    y->uses++;
    ck_assert_int_eq(xcc_graph_verify(c.m.graph), XCVM_INTERNAL);
    y->uses--;
    XCC_ARGS(Abs, z->producer)->x = &x->type;
    ck_assert_int_eq(xcc_graph_verify(c.m.graph), XCVM_INTERNAL);
    finish(&c);
}
END_TEST

START_TEST(errors_name_the_node)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *z = input(b, "z", XCVM_F32, 1, DIMS(3));
    ck_assert_ptr_null(xcc_apply(b, Add, y, .a = XCC_IN(x), .b = XCC_IN(z)));
    ck_assert_int_eq(c.error.status, XCVM_SHAPE_MISMATCH);
    ck_assert_str_eq(c.error.instruction, "Add");
    ck_assert_str_eq(c.error.node, "node");
    CHECK_NODES(&c, 0);
    ck_assert_uint_eq(x->uses, 0);
    finish(&c);
}
END_TEST

START_TEST(unused_nodes_go)
{
    compilation c;
    begin(&c, -1);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3)), *y = x;
    for (int i = 0; i < 1000; i++)
        y = APPLY(Neg, y, .x = XCC_IN(y));
    const xcvm_value *xs[1] = {XCC_IN(x)};
    ck_assert_ptr_nonnull(xcc_emit(b, Print, .xs = {xs, 1}, .label = {"", 0}));
    xcc_value *values = must(b, xcc_value_create(b->graph, NULL)), *indices = must(b, xcc_value_create(b->graph, NULL));
    ck_assert_ptr_nonnull(xcc_emit(b, TopK, .values = XCC_OUT(values), .indices = XCC_OUT(indices), .x = XCC_IN(x),
                                   .k = XCC_IN(ints(b, 1, DIMS(1))), .axis = 1, .largest = 1, .sorted = 1));
    output(b, values);
    passes(&c);
    CHECK_NODES(&c, 2);
    CHECK_COUNT(&c, Print, 1);
    ck_assert_ptr_null(XCC_ARGS(TopK, values->producer)->indices);
    finish(&c);
}
END_TEST

START_TEST(dump)
{
    compilation c;
    begin(&c, -1);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(-1, 3)), *cond = input(b, "cond", XCVM_BOOL, 0, NULL);
    xcc_value *y = must(b, xcc_value_create(b->graph, "y"));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &y, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder then = {.graph = n->bodies[0]}, other = {.graph = n->bodies[1]};
    output(&then, must(b, xcc_apply(&then, LeakyRelu, y, .x = XCC_IN(x), .alpha = 0.5)));
    output(&other, x);
    ok(&c.m, xcc_node_infer(n));
    output(b, y);
    passes(&c);
    test_bytes text = {0};
    ok(&c.m, xcc_graph_dump(c.m.graph, (xcvm_sink){test_bytes_sink, &text}));
    ck_assert(test_bytes_sink(&text, "", 1));
    ck_assert_ptr_nonnull(strstr(text.at, "main(x: f32[Ax3], cond: bool)"));
    ck_assert_ptr_nonnull(strstr(text.at, "y: f32[Ax3] = If(cond)  # Test node  uses x"));
    ck_assert_ptr_nonnull(strstr(text.at, "LeakyRelu(x; alpha=0.5)"));
    test_bytes_free(&text);
    finish(&c);
}
END_TEST

static bool discard(void *user, const void *bytes, size_t count)
{
    (void)user, (void)bytes, (void)count;
    return true;
}

/* y = x + (w + w), w a parameter or a state. */
static xcc_value *variable_graph(compilation *c, xcc_value_kind kind)
{
    xcc_builder *b = &c->b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2));
    xcc_value *w =
        (kind == XCC_PARAMETER ? xcc_parameter : xcc_state)(b->graph, "w", XCVM_F32, 1, DIMS(2), FLOATS(1, 2), false);
    ck_assert_ptr_nonnull(w);
    xcc_value *twice = APPLY(Add, y, .a = XCC_IN(w), .b = XCC_IN(w));
    output(b, APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(twice)));
    return w;
}

START_TEST(variables_are_not_constants)
{
    static const struct {
        xcc_value_kind kind;
        const char *line, *use, *refused;
    } variables[] = {{XCC_PARAMETER, "    %w: f32[2], a parameter\n", "Add(%w, %w)", "w is a parameter"},
                     {XCC_STATE, "    &w: f32[2], a state\n", "Add(&w, &w)", NULL}};
    for (size_t i = 0; i < 2; i++) {
        compilation c;
        xcc_plan plan;
        test_bytes text = {0};
        begin(&c, 0);
        const xcc_value *w = variable_graph(&c, variables[i].kind);
        passes(&c);
        ck_assert_int_eq(w->kind, variables[i].kind);
        ck_assert_ptr_null(w->type.data);
        ck_assert_mem_eq(w->initial, FLOATS(1, 2), w->initial_bytes);
        ok(&c.m, xcc_graph_dump(c.m.graph, (xcvm_sink){test_bytes_sink, &text}));
        ck_assert(test_bytes_sink(&text, "", 1));
        ck_assert_ptr_nonnull(strstr(text.at, variables[i].line));
        ck_assert_ptr_nonnull(strstr(text.at, variables[i].use));
        ok(&c.m, xcc_plan_make(&c.m, &plan));
        ck_assert_int_eq(xcc_emit_program(&c.m, &plan, (xcvm_sink){discard, NULL}),
                         variables[i].refused != NULL ? XCVM_UNSUPPORTED : XCVM_OK);
        if (variables[i].refused != NULL)
            ck_assert_ptr_nonnull(strstr(c.error.message, variables[i].refused));
        test_bytes_free(&text);
        finish(&c);
    }
}
END_TEST

START_TEST(freezing)
{
    compilation c;
    begin(&c, 0);
    const xcc_value *w = variable_graph(&c, XCC_PARAMETER);
    const xcc_value *s = xcc_state(c.m.graph, "s", XCVM_F32, 1, DIMS(2), FLOATS(3, 4), false);
    xcc_parameters_freeze(&c.m);
    ck_assert_int_eq(w->kind, XCC_CONSTANT);
    ck_assert_mem_eq(w->type.data, FLOATS(1, 2), w->type.bytes);
    ck_assert_int_eq(s->kind, XCC_STATE);
    const xcc_value *late = xcc_parameter(c.m.graph, "late", XCVM_F32, 1, DIMS(2), FLOATS(5, 6), false);
    ck_assert_int_eq(late->kind, XCC_CONSTANT);
    passes(&c);
    /* w + w is folded: one node is left, which reads a constant. */
    const xcc_node *n = c.m.graph->first;
    ck_assert_ptr_eq(n, c.m.graph->last);
    ck_assert_int_eq(xcc_node_input(n, 0)->kind, XCC_INPUT);
    ck_assert_int_eq(xcc_node_input(n, 1)->kind, XCC_CONSTANT);
    ck_assert_mem_eq(xcc_node_input(n, 1)->type.data, FLOATS(2, 4), 2 * sizeof(float));
    finish(&c);
}
END_TEST

START_TEST(what_decides_shapes_is_fixed)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    static const float numbers[] = {0, 4, 1};
    xcc_value *v[3];
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(v[i] = xcc_parameter(b->graph, NULL, XCVM_F32, 0, NULL, &numbers[i], false));
    const xcc_value *y = APPLY(Range, y, .start = XCC_IN(v[0]), .limit = XCC_IN(v[1]), .delta = XCC_IN(v[2]));
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(v[i]->kind, XCC_CONSTANT);
    ck_assert_int_eq(y->type.dims[0], 4);
    finish(&c);
}
END_TEST

Suite *suite_compiler_graph(void)
{
    Suite *suite = suite_create("compiler/graph");
    TCase *tests = tcase_create("graph");
    tcase_add_test(tests, names_are_unique);
    tcase_add_test(tests, symbols);
    tcase_add_test(tests, scalars);
    tcase_add_test(tests, uses);
    tcase_add_test(tests, check_finds_defects);
    tcase_add_test(tests, errors_name_the_node);
    tcase_add_test(tests, unused_nodes_go);
    tcase_add_test(tests, dump);
    tcase_add_test(tests, variables_are_not_constants);
    tcase_add_test(tests, freezing);
    tcase_add_test(tests, what_decides_shapes_is_fixed);
    suite_add_tcase(suite, tests);
    return suite;
}
