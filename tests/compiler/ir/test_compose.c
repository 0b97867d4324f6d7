/* Composition on any builder: at the end of a graph, before a node, with operands that failed. */
#include "compiler/ir/compose.h"
#include "tests/compiler/support.h"

START_TEST(known_shapes_are_constants)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, 3, 4));
    const xcc_value *shape = xcc_build_shape_of(b, x), *last = xcc_build_dim_of(b, x, -1);
    ck_assert(xcc_is_constant(shape) && xcc_is_constant(last));
    ck_assert_mem_eq(shape->type.data, DIMS(2, 3, 4), shape->type.bytes);
    ck_assert_mem_eq(last->type.data, DIMS(4), last->type.bytes);
    const xcc_value *axes = xcc_build_axes_from(b, x, 1);
    ck_assert_mem_eq(axes->type.data, DIMS(1, 2), axes->type.bytes);
    /* Small and constant: computed now, so that no node is left. */
    const xcc_value *product = xcc_build_mul(b, xcc_build_dim_of(b, x, 0), XCC_BUILD_INTS(b, 5));
    ck_assert(xcc_is_constant(product));
    ck_assert_mem_eq(product->type.data, DIMS(10), product->type.bytes);
    ck_assert_ptr_null(c.m.graph->first);
    finish(&c);
}
END_TEST

START_TEST(nodes_go_before_another)
{
    compilation c;
    begin(&c, 0);
    xcc_value *x = input(&c.b, "x", XCVM_F32, 2, DIMS(2, 3));
    xcc_value *y = must(&c.b, xcc_apply(&c.b, Neg, y, .x = XCC_IN(x)));
    output(&c.b, y);
    xcc_builder inside = {.graph = c.m.graph, .before = y->producer, .name = "rule", .origin = "Rule"};
    xcc_value *t = must(&inside, xcc_build_transpose(&inside, x, 2, DIMS(1, 0)));
    xcc_value *scaled = must(&inside, xcc_build_mul(&inside, t, xcc_build_number(&inside, t, 2)));
    xcc_value *sum = must(&inside, xcc_build_reduce(&inside, XCVM_OP_ReduceSum, scaled, NULL, false));
    ck_assert_ptr_eq(c.m.graph->first, t->producer);
    ck_assert_ptr_eq(sum->producer->next, y->producer);
    ck_assert_str_eq(sum->producer->name, "rule");
    ck_assert_int_eq(sum->type.rank, 0);
    /* Nodes that are inserted before another node belong to a traversal, so nothing is folded there. */
    const xcc_value *three =
        must(&inside, xcc_build_add(&inside, XCC_BUILD_INTS(&inside, 1), XCC_BUILD_INTS(&inside, 2)));
    ck_assert_int_eq(three->kind, XCC_RESULT);
    xcc_replace_uses(c.m.graph, y, sum);
    passes(&c);
    finish(&c);
}
END_TEST

START_TEST(parameters_stay)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *w = xcc_parameter(b->graph, "w", XCVM_F32, 1, DIMS(2), FLOATS(1, 2), false);
    const xcc_value *twice = must(b, xcc_build_add(b, w, w));
    ck_assert_int_eq(w->kind, XCC_PARAMETER);
    ck_assert_int_eq(twice->kind, XCC_RESULT);
    ck_assert_int_eq(twice->type.dims[0], 2);
    finish(&c);
}
END_TEST

START_TEST(failures_pass_through)
{
    compilation c;
    begin(&c, 0);
    xcc_builder *b = &c.b;
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *s = input(b, "s", XCVM_STRING, 1, DIMS(2));
    ck_assert_ptr_null(xcc_build_add(b, x, xcc_build_mul(b, x, s)));
    ck_assert_int_eq(c.error.status, XCVM_TYPE_MISMATCH);
    ck_assert_ptr_null(xcc_build_concat(b, 2, (xcc_value *[]){x, NULL}, 0));
    ck_assert_ptr_null(xcc_build_reshape(b, NULL, xcc_build_shape_of(b, x)));
    ck_assert_ptr_null(xcc_build_cast(b, NULL, XCVM_F64));
    ck_assert_ptr_eq(xcc_build_cast(b, x, XCVM_F32), x);
    finish(&c);
}
END_TEST

Suite *suite_compiler_compose(void);
Suite *suite_compiler_compose(void)
{
    Suite *suite = suite_create("compiler/compose");
    TCase *tests = tcase_create("compose");
    tcase_add_test(tests, known_shapes_are_constants);
    tcase_add_test(tests, nodes_go_before_another);
    tcase_add_test(tests, parameters_stay);
    tcase_add_test(tests, failures_pass_through);
    suite_add_tcase(suite, tests);
    return suite;
}
