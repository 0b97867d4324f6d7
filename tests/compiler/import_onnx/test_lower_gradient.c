/* The lowering of the operator Gradient. */
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>

/* The gradient of x * x * w by parts of the graph, at its own point and at others, and of a gradient. */
START_TEST(gradients)
{
#define MODEL(outputs, node)                                                                                           \
    "opset 13\nopset ai.onnx.preview.training 1\ninput x f32[2]\ninput w f32[2]\n" outputs                             \
    "p = Mul(x, w)\ny = Mul(p, x)\n" node
    static const char values[] = "x f32[2] 1 2\nw f32[2] 3 5\n";
    onnx_expect(
        MODEL("output a\noutput b\n", "a, b = ai.onnx.preview.training::Gradient(x, w) xs=[\"x\" \"w\"] y=\"y\"\n"),
        values, "a f32[2] 6 20\nb f32[2] 1 4\n");
    /* The part before p is cut off. */
    onnx_expect(MODEL("output a\n", "a = ai.onnx.preview.training::Gradient(p, x) xs=[\"p\"] zs=[\"x\"] y=\"y\"\n"),
                values, "a f32[2] 1 2\n");
    onnx_expect(MODEL("output a\n", "n = Neg(x)\na = ai.onnx.preview.training::Gradient(n, x) xs=[\"x\"] zs=[\"w\"] "
                                    "y=\"y\"\n"),
                values, "a f32[2] -2 -8\n");
    onnx_expect(MODEL("output a\noutput b\n",
                      "g = ai.onnx.preview.training::Gradient(x) xs=[\"x\"] y=\"y\"\n"
                      "a, b = ai.onnx.preview.training::Gradient(x, w) xs=[\"x\" \"w\"] y=\"g\"\n"),
                values, "a f32[2] 6 10\nb f32[2] 2 4\n");
    /* The gradient of a value that y does not depend on is zero. */
    onnx_expect(
        MODEL("output a\n", "q = Neg(w)\na = ai.onnx.preview.training::Gradient(x, q) xs=[\"q\" \"x\"] y=\"y\"\n"),
        values, "a f32[2] 0 0\n");
    /* y and its gradient use the same random numbers. */
    onnx_expect(MODEL("output e\n", "init r f32[] 0.5\ninit t bool[] 1\nd = Dropout(x, r, t)\n"
                                    "g = ai.onnx.preview.training::Gradient(x) xs=[\"x\"] y=\"d\"\n"
                                    "m = Mul(g, x)\ne = Sub(m, d)\n"),
                values, "e f32[2] 0 0\n");
    onnx_refuse(MODEL("output a\n", "a = ai.onnx.preview.training::Gradient(x) xs=[\"x\"] y=\"z\"\n"),
                XCVM_INVALID_MODEL, "y names 'z', which no node before this one computes");
    onnx_refuse(MODEL("output a\n", "a = ai.onnx.preview.training::Gradient(x) xs=[\"x\" \"w\"] y=\"y\"\n"),
                XCVM_INVALID_MODEL, "1 operands are given for the 2 names");
    onnx_refuse(MODEL("output a\n", "a = ai.onnx.preview.training::Gradient(x, x) xs=[\"x\" \"x\"] y=\"y\"\n"),
                XCVM_INVALID_MODEL, "'x' is named more than once");
    onnx_refuse(MODEL("output a\n", "i = ArgMax(x)\na = ai.onnx.preview.training::Gradient(x) xs=[\"x\"] y=\"i\"\n"),
                XCVM_TYPE_MISMATCH, "is no tensor of a float type");
    onnx_refuse(MODEL("output a\n", "i = ArgMax(x)\na = ai.onnx.preview.training::Gradient(i) xs=[\"x\"] y=\"y\"\n"),
                XCVM_TYPE_MISMATCH, "operand 0 has another type than 'x'");
#undef MODEL
}
END_TEST

/* Each gradient of a gradient has several times the nodes of that. */
START_TEST(too_many_gradients)
{
    static char model[8192];
    size_t at = (size_t)snprintf(
        model, sizeof model, "opset 13\nopset ai.onnx.preview.training 1\ninput x f32[2]\noutput y30\ny0 = Tanh(x)\n");
    for (int i = 1; i <= 30; i++)
        at += (size_t)snprintf(model + at, sizeof model - at,
                               "y%d = ai.onnx.preview.training::Gradient(x) xs=[\"x\"] y=\"y%d\"\n", i, i - 1);
    ck_assert_uint_lt(at, sizeof model);
    onnx_refuse(model, XCVM_UNSUPPORTED, "the gradients of the model need too many nodes");
}
END_TEST

Suite *suite_compiler_lower_gradient(void);
Suite *suite_compiler_lower_gradient(void)
{
    Suite *suite = suite_create("compiler/lower_gradient");
    TCase *gradient = tcase_create("gradient");
    tcase_set_timeout(gradient, 60);
    tcase_add_test(gradient, gradients);
    tcase_add_test(gradient, too_many_gradients);
    suite_add_tcase(suite, gradient);
    return suite;
}
