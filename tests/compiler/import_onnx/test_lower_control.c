/* Lowerings of operators with bodies: If, Loop, Scan and SequenceMap; sequences and optionals. */
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>

START_TEST(branches)
{
    const char *model =
        "opset 13\ninput c bool[]\ninput x f32[2]\noutput y\n"
        "graph yes {\noutput a\na = Add(x, x)\n}\ngraph no {\noutput b\ninit k f32[1] 9\nb = Identity(k)\n}\n"
        "y = If(c) then_branch=@yes else_branch=@no\n";
    onnx_expect(model, "c bool[] 1\nx f32[2] 1 2\n", "y f32[2] 2 4\n");
    onnx_expect(model, "c bool[] 0\nx f32[2] 1 2\n", "y f32[1] 9\n");
    onnx_expect("opset 13\ninput c bool[]\ninput x f32[2]\noutput y\noutput z\ngraph yes {\noutput x\noutput x2\nx2 = "
                "Neg(x)\n}\n"
                "graph no {\noutput x2\noutput x\nx2 = Neg(x)\n}\ny, z = If(c) then_branch=@yes else_branch=@no\n",
                "c bool[] 1\nx f32[2] 1 2\n", "y f32[2] 1 2\nz f32[2] -1 -2\n");
    onnx_refuse(
        "opset 13\ninput c bool[]\ninput x f32[2]\noutput y\ngraph yes {\noutput a\na = Add(x, x)\n}\n"
        "graph no {\noutput b\noutput d\nb = Neg(x)\nd = Neg(x)\n}\ny = If(c) then_branch=@yes else_branch=@no\n",
        XCVM_INVALID_MODEL, "the branches have 1 and 2 results");
    onnx_refuse("opset 13\ninput c bool[]\ninput x f32[2]\noutput y\ngraph yes {\noutput a\na = Add(x, x)\n}\n"
                "y = If(c) then_branch=@yes\n",
                XCVM_INVALID_MODEL, "attribute 'else_branch', a graph, is missing");
}
END_TEST

/* Models with a branch for each length of their input: only one of them is possible once the length is fixed. */
#define BRANCH(name, rows, ones)                                                                                       \
    "graph " name " {\noutput a\ninit w f32[" rows "x1] " ones "\nm = MatMul(x, w)\na = Squeeze(m, last)\n}\n"

START_TEST(impossible_branches)
{
    const char *const text =
        "opset 13\ninput c bool[]\ninput x f32[2xN]\noutput y\ninit last i64[1] 1\n" BRANCH("four", "4", "1 1 1 1")
            BRANCH("three", "3", "1 1 1") "y = If(c) then_branch=@four else_branch=@three\n";
    test_bytes model = onnx_from_text(text);
    const char *const four = "c bool[] 1\nx f32[2x4] 1 2 3 4 5 6 7 8\n", *const three =
                                                                             "c bool[] 0\nx f32[2x3] 1 2 3 4 5 6\n";
    for (int level = -1; level <= 2; level++) {
        const xcc_dim dims[] = {{"N", 4}, {"N", 3}};
        xcc_options options = {.size = sizeof options, .optimization = level, .dim_count = 1};
        options.dims = &dims[0];
        onnx_expect_model(&model, &options, text, four, "y f32[2] 10 26\n");
        options.dims = &dims[1];
        onnx_expect_model(&model, &options, text, three, "y f32[2] 6 15\n");
    }
    test_bytes_free(&model);
    /* It fails if it is taken. */
    onnx_fail(
        "opset 13\ninput c bool[]\ninput x f32[2x4]\noutput y\ninit last i64[1] 1\n" BRANCH("four", "4", "1 1 1 1")
            BRANCH("three", "3", "1 1 1") "y = If(c) then_branch=@four else_branch=@three\n",
        "c bool[] 0\nx f32[2x4] 1 2 3 4 5 6 7 8\n", XCVM_SHAPE_MISMATCH, "4");
    /* Only a pass finds the size, as the shape of the operand is computed. */
    onnx_expect(
        "opset 13\ninput c bool[]\ninput z f32[Nx4]\noutput y\ninit last i64[1] 1\ninit zero i64[1] 0\n"
        "init one i64[1] 1\ninit all i64[1] -1\n" BRANCH("four", "4", "1 1 1 1") BRANCH(
            "three", "3",
            "1 1 1") "s = Shape(z)\nn = Slice(s, zero, one)\n"
                     "f = Concat(n, all) axis=0\nx = Reshape(z, f)\ny = If(c) then_branch=@four else_branch=@three\n",
        "c bool[] 1\nz f32[2x4] 1 2 3 4 5 6 7 8\n", "y f32[2] 10 26\n");
    /* In a branch of a branch, and with a condition that is known. */
    onnx_expect("opset 13\ninput c bool[]\ninput d bool[]\ninput x f32[2x4]\noutput y\ninit last i64[1] 1\n" BRANCH(
                    "four", "4", "1 1 1 1") BRANCH("three", "3", "1 1 1")
                    BRANCH("five", "5",
                           "1 1 1 1 1") "graph inner {\noutput b\nb = If(d) then_branch=@five else_branch=@three\n}\n"
                                        "y = If(c) then_branch=@four else_branch=@inner\n",
                "c bool[] 1\nd bool[] 1\nx f32[2x4] 1 2 3 4 5 6 7 8\n", "y f32[2] 10 26\n");
    onnx_expect(
        "opset 13\ninput x f32[2x4]\noutput y\ninit last i64[1] 1\ninit width i64[] 4\ninit at i64[] 1\n" BRANCH(
            "four", "4", "1 1 1 1")
            BRANCH("three", "3", "1 1 1") "s = Shape(x)\nn = Gather(s, at)\nc = Equal(n, width)\ny = If(c) "
                                          "then_branch=@four else_branch=@three\n",
        "x f32[2x4] 1 2 3 4 5 6 7 8\n", "y f32[2] 10 26\n");
    /* A branch that is impossible for all sizes is refused, and the error is that of the known ones. */
    onnx_refuse("opset 13\ninput c bool[]\ninput x f32[2x4]\noutput y\n" BRANCH(
                    "four", "4",
                    "1 1 1 1") "graph never {\noutput a\nm = MatMul(x, x)\ninit w f32[3x1] 1 1 1\ninit v f32[4x1] 1 1 "
                               "1 1\nk = MatMul(w, v)\n"
                               "a = Add(m, k)\n}\ninit last i64[1] 1\ny = If(c) then_branch=@four else_branch=@never\n",
                XCVM_SHAPE_MISMATCH, "4");
}
END_TEST

START_TEST(loops)
{
    const char *sum = "opset 13\ninput m i64[]\ninput x f32[1]\noutput s\noutput all\n"
                      "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c2\noutput v2\noutput e\n"
                      "c2 = Identity(c)\nv2 = Add(v, x)\ne = Identity(v2)\n}\n"
                      "s, all = Loop(m, _, x) body=@body\n";
    onnx_expect(sum, "m i64[] 3\nx f32[1] 2\n", "s f32[1] 8\nall f32[3x1] 4 6 8\n");
    onnx_expect(sum, "m i64[] 0\nx f32[1] 2\n", "s f32[1] 2\nall f32[0x1]\n");
    /* The state grows, so its initial shape is not valid in all iterations. */
    onnx_expect(
        "opset 13\ninput m i64[]\ninput x f32[1]\noutput s\n"
        "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c\noutput v2\nv2 = Concat(v, x) axis=0\n}\n"
        "s = Loop(m, _, x) body=@body\n",
        "m i64[] 2\nx f32[1] 2\n", "s f32[3] 2 2 2\n");
    /* Its rank, too, and operators in the body that are lowered by rank. */
    onnx_expect("opset 11\ninput m i64[]\ninput x f32[1x2]\noutput s\n"
                "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c\noutput v2\nt = Softmax(v) axis=1\n"
                "v2 = Unsqueeze(t) axes=[0]\n}\ns = Loop(m, _, x) body=@body\n",
                "m i64[] 2\nx f32[1x2] 0 0\n", "s f32[1x1x1x2] 0.5 0.5\n");
    /* The condition ends it. */
    onnx_expect("opset 13\ninput x i64[]\noutput n\n"
                "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c2\noutput v2\ninit one i64[] 1\n"
                "v2 = Add(v, one)\nc2 = Less(v2, x)\n}\ninit zero i64[] 0\ninit yes bool[] 1\nn = Loop(_, yes, zero) "
                "body=@body\n",
                "x i64[] 5\n", "n i64[] 5\n");
    /* States that change places. */
    onnx_expect("opset 13\ninput m i64[]\ninput x f32[]\ninput y f32[]\noutput a\noutput b\n"
                "graph body {\ninput i i64[]\ninput c bool[]\ninput p\ninput q\noutput c\noutput q\noutput p\n}\n"
                "a, b = Loop(m, _, x, y) body=@body\n",
                "m i64[] 3\nx f32[] 1\ny f32[] 2\n", "a f32[] 2\nb f32[] 1\n");
    onnx_refuse("opset 13\ninput m i64[]\ninput x f32[1]\noutput s\n"
                "graph body {\ninput i i64[]\ninput c bool[]\noutput c\n}\ns = Loop(m, _, x) body=@body\n",
                XCVM_INVALID_MODEL, "3 operands are given, 2 are needed");
    onnx_refuse(
        "opset 13\ninput m f32[]\ninput x f32[1]\noutput s\n"
        "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c\noutput v\n}\ns = Loop(m, _, x) body=@body\n",
        XCVM_TYPE_MISMATCH, "the trip count is no i64 tensor");
}
END_TEST

START_TEST(nested_loops)
{
    onnx_expect(
        "opset 13\ninput m i64[]\ninput x f32[1]\noutput s\n"
        "graph inner {\ninput j i64[]\ninput d bool[]\ninput w\noutput d\noutput w2\nw2 = Concat(w, x) axis=0\n}\n"
        "graph body {\ninput i i64[]\ninput c bool[]\ninput v\noutput c\noutput v2\nv2 = Loop(m, _, v) body=@inner\n}\n"
        "s = Loop(m, _, x) body=@body\n",
        "m i64[] 2\nx f32[1] 7\n", "s f32[5] 7 7 7 7 7\n");
}
END_TEST

START_TEST(scans)
{
    const char *body = "graph body {\ninput s\ninput e\noutput s2\noutput o\ns2 = Add(s, e)\no = Identity(s2)\n}\n";
    char text[1024];
    snprintf(text, sizeof text,
             "opset 11\ninput z f32[]\ninput x f32[3]\noutput s\noutput y\n%ss, y = Scan(z, x) body=@body "
             "num_scan_inputs=1\n",
             body);
    onnx_expect(text, "z f32[] 0\nx f32[3] 1 2 3\n", "s f32[] 6\ny f32[3] 1 3 6\n");
    snprintf(
        text, sizeof text,
        "opset 11\ninput z f32[]\ninput x f32[3]\noutput s\noutput y\n%ss, y = Scan(z, x) body=@body num_scan_inputs=1 "
        "scan_input_directions=[1] scan_output_directions=[1]\n",
        body);
    onnx_expect(text, "z f32[] 0\nx f32[3] 1 2 3\n", "s f32[] 6\ny f32[3] 6 5 3\n");
    snprintf(text, sizeof text,
             "opset 11\ninput z f32[2]\ninput x f32[2xT]\noutput y\n%ss, y = Scan(z, x) body=@body num_scan_inputs=1 "
             "scan_input_axes=[-1] scan_output_axes=[1]\n",
             body);
    onnx_expect(text, "z f32[2] 0 0\nx f32[2x3] 1 2 3 10 20 30\n", "y f32[2x3] 1 3 6 10 30 60\n");
    snprintf(text, sizeof text,
             "opset 8\ninput z f32[2x1]\ninput x f32[2x3x1]\noutput s\noutput y\n%ss, y = Scan(_, z, x) body=@body "
             "num_scan_inputs=1\n",
             body);
    onnx_expect(text, "z f32[2x1] 0 100\nx f32[2x3x1] 1 2 3 4 5 6\n",
                "s f32[2x1] 6 115\ny f32[2x3x1] 1 3 6 104 109 115\n");
    snprintf(text, sizeof text,
             "opset 11\ninput z f32[]\ninput x f32[3]\noutput s\n%ss = Scan(z, x) body=@body "
             "num_scan_inputs=3\n",
             body);
    onnx_refuse(text, XCVM_INVALID_MODEL, "'num_scan_inputs' is 3");
}
END_TEST

START_TEST(sequences)
{
    onnx_expect("opset 17\ninput a seq(f32)\ninput b f32[2]\noutput y\noutput z\n"
                "graph body {\ninput p f32\ninput q f32\noutput r f32\noutput n i64\nr = Add(p, q)\nn = Shape(p)\n}\n"
                "y, z = SequenceMap(a, b) body=@body\n",
                "a seq(f32[2] 1 2, f32[1] 3)\nb f32[2] 10 20\n",
                "y seq(f32[2] 11 22, f32[2] 13 23)\nz seq(i64[1] 2, i64[1] 1)\n");
    onnx_expect(
        "opset 11\ninput x f32[1]\noutput s\noutput n\ne = SequenceEmpty() dtype=f32\ns = SequenceInsert(e, x)\n"
        "n = SequenceLength(s)\n",
        "x f32[1] 4\n", "s seq(f32[1] 4)\nn i64[] 1\n");
    onnx_expect("opset 18\ninput x optional(f32[1])\noutput h\nh = OptionalHasElement(x)\n", "x optional()\n",
                "h bool[] 0\n");
}
END_TEST

Suite *suite_compiler_lower_control(void);
Suite *suite_compiler_lower_control(void)
{
    Suite *suite = suite_create("compiler/lower_control");
    TCase *control = tcase_create("control");
    tcase_add_test(control, branches);
    tcase_add_test(control, impossible_branches);
    tcase_add_test(control, loops);
    tcase_add_test(control, nested_loops);
    tcase_add_test(control, scans);
    tcase_add_test(control, sequences);
    suite_add_tcase(suite, control);
    return suite;
}
