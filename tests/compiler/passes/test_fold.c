/* Tests of constant folding: results are those of a run. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "tests/compiler/support.h"

/* Returns true if 1e-40 > 0 is folded to true. */
static bool folds_to_true(bool flush)
{
    compilation c;
    begin(&c, 2);
    c.options.flush_subnormals = flush;
    xcc_value *small = number(&c.b, 1e-40), *zero = number(&c.b, 0);
    output(&c.b, must(&c.b, xcc_apply(&c.b, Greater, y, .a = XCC_IN(small), .b = XCC_IN(zero))));
    passes(&c);
    const xcc_value *y = c.m.graph->outputs[0];
    ck_assert(xcc_is_constant(y));
    const bool result = *XCVM_CDATA(bool, &y->type);
    finish(&c);
    return result;
}

START_TEST(subnormals)
{
    onnx_expect("opset 13\ninput x f32[2]\ninit c f32[2] 1e-40 1e-38\ninit z f32[] 0\noutput g\noutput h\noutput r\n"
                "output s\ng = Greater(x, z)\nh = Greater(c, z)\nr = Reciprocal(x)\ns = Reciprocal(c)\n",
                "x f32[2] 1e-40 1e-38\n",
                "g bool[2] 1 1\nh bool[2] 1 1\nr f32[2] inf 1.0000001e38\ns f32[2] inf 1.0000001e38\n");
    ck_assert(folds_to_true(false));
#if defined(__SSE__) || defined(__aarch64__)
    ck_assert(!folds_to_true(true));
#endif
}
END_TEST

/* The sum's dimensions become known when it is folded, after those of the Reshape were inferred. */
START_TEST(view_of_another_size)
{
    onnx_refuse("opset 13\nopset org.chainer 1\ninit s i64[1] 3\noutput y\ny = org.chainer::ReduceSumTo(s, s)\n",
                XCVM_SHAPE_MISMATCH, "x of shape [1] has 1 elements, the shape [3] holds 3");
}
END_TEST

Suite *suite_compiler_fold(void);
Suite *suite_compiler_fold(void)
{
    Suite *suite = suite_create("compiler/fold");
    TCase *folding = tcase_create("folding");
    tcase_add_test(folding, subnormals);
    tcase_add_test(folding, view_of_another_size);
    suite_add_tcase(suite, folding);
    return suite;
}
