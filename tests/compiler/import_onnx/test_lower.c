/* Tests of lowerings: every version of operators whose meaning changed, and operators that become several instructions.
 * Expected values follow from the operators' definitions. */
#include "compiler/import_onnx/lower/lower.h"
#include "compiler/import_onnx/operators.h"
#include "ops/table/table.h"
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>

START_TEST(broadcasting_before_opset_7)
{
    onnx_expect("opset 6\ninput a f32[2x3x1]\ninput b f32[3]\noutput y\ny = Add(a, b) axis=1 broadcast=1\n",
                "a f32[2x3x1] 1 2 3 4 5 6\nb f32[3] 10 20 30\n", "y f32[2x3x1] 11 22 33 14 25 36\n");
    onnx_expect("opset 1\ninput a f32[2x2]\ninput b f32[2]\noutput y\ny = Sub(a, b) broadcast=1\n",
                "a f32[2x2] 1 2 3 4\nb f32[2] 1 1\n", "y f32[2x2] 0 1 2 3\n");
    onnx_expect("opset 6\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Mul(a, b)\n",
                "a f32[2x2] 1 2 3 4\nb f32[2x2] 2 2 2 2\n", "y f32[2x2] 2 4 6 8\n");
    onnx_expect("opset 6\ninput x f32[1x2x2]\ninit s f32[2] 0.5 2\noutput y\ny = PRelu(x, s)\n",
                "x f32[1x2x2] -1 -2 -3 4\n", "y f32[1x2x2] -0.5 -1 -6 4\n");
    onnx_refuse("opset 6\ninput a f32[2]\ninput b f32[2x2]\noutput y\ny = Add(a, b) axis=0 broadcast=1\n",
                XCVM_SHAPE_MISMATCH, "operand 1 has 2 dimensions");
    onnx_refuse("opset 7\ninput a f32[2]\ninput b f32[2]\noutput y\ny = Add(a, b) axis=0\n", XCVM_UNSUPPORTED,
                "attribute 'axis' is not known for Add of opset 7");
}
END_TEST

/* Every operator that became an instruction of NumPy's broadcasting with opset 7. */
START_TEST(each_broadcasting_before_opset_7)
{
    static const struct {
        const char *name, *type, *result;
    } cases[] = {{"Sub", "f32", "f32[2x3x1] 0 0 0 0 0 0"},      {"Mul", "f32", "f32[2x3x1] 1 1 1 1 1 1"},
                 {"Div", "f32", "f32[2x3x1] 1 1 1 1 1 1"},      {"Pow", "f32", "f32[2x3x1] 1 1 1 1 1 1"},
                 {"Greater", "f32", "bool[2x3x1] 0 0 0 0 0 0"}, {"Less", "f32", "bool[2x3x1] 0 0 0 0 0 0"},
                 {"Equal", "i32", "bool[2x3x1] 1 1 1 1 1 1"},   {"And", "bool", "bool[2x3x1] 1 1 1 1 1 1"},
                 {"Or", "bool", "bool[2x3x1] 1 1 1 1 1 1"},     {"Xor", "bool", "bool[2x3x1] 0 0 0 0 0 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char model[200], given[200], expected[100];
        snprintf(model, sizeof model,
                 "opset 6\ninput a %s[2x3x1]\ninput b %s[3]\noutput y\ny = %s(a, b) axis=1 broadcast=1\n",
                 cases[i].type, cases[i].type, cases[i].name);
        snprintf(given, sizeof given, "a %s[2x3x1] 1 1 1 1 1 1\nb %s[3] 1 1 1\n", cases[i].type, cases[i].type);
        snprintf(expected, sizeof expected, "y %s\n", cases[i].result);
        onnx_expect(model, given, expected);
    }
    onnx_expect("opset 6\ninput x f32[1x2x2]\ninput s f32[2]\noutput y\ny = PRelu(x, s)\n",
                "x f32[1x2x2] -1 -2 -3 4\ns f32[2] 0.5 2\n", "y f32[1x2x2] -0.5 -1 -6 4\n");
}
END_TEST

/* Cases that need additional instructions: axes of old opsets, and shapes that only the run knows. */
START_TEST(instructions_around)
{
    onnx_expect("opset 11\ninput x f32[1x2x2]\noutput y\noutput z\ny = Hardmax(x) axis=1\nz = LogSoftmax(x) axis=1\n",
                "x f32[1x2x2] 1 2 3 4\n",
                "y f32[1x2x2] 0 0 0 1\nz f32[1x2x2] -3.4401897 -2.4401897 -1.4401897 -0.4401897\n");
    onnx_expect("opset 2\ninput x f32[1x2x2]\noutput y\ny = GlobalLpPool(x) p=1\n", "x f32[1x2x2] 1 -2 3 4\n",
                "y f32[1x2x1] 3 7\n");
    onnx_expect("opset 13\ninput x f32\noutput y\noutput m\ny, m = Dropout(x)\n", "x f32[2] 1 2\n",
                "y f32[2] 1 2\nm bool[2] 1 1\n");
    onnx_expect("opset 22\ninput x f32\noutput s\noutput t\ny = RandomNormalLike(x)\nz = RandomUniformLike(x)\n"
                "s = Shape(y)\nt = Shape(z)\n",
                "x f32[2x3] 0 0 0 0 0 0\n", "s i64[2] 2 3\nt i64[2] 2 3\n");
    onnx_expect("opset 18\ninput x f32\ninput s i64[1]\noutput y\ny = CenterCropPad(x, s) axes=[0]\n",
                "x f32[4] 1 2 3 4\ns i64[1] 2\n", "y f32[2] 2 3\n");
    onnx_expect("opset 1\ninput x f32\ninput t f32[]\ninput a f32[]\noutput y\ny = Tile(x, t, a)\n",
                "x f32[2x1] 1 2\nt f32[] 2\na f32[] 1\n", "y f32[2x2] 1 1 2 2\n");
    onnx_expect("opset 7\ninput x f32[1x2]\ninput s f32[2]\ninput b f32[2]\ninput m f32[2]\ninput v f32[2]\n"
                "output y\ny = BatchNormalization(x, s, b, m, v) epsilon=0.0 spatial=0\n",
                "x f32[1x2] 3 5\ns f32[2] 1 2\nb f32[2] 0 1\nm f32[2] 1 1\nv f32[2] 4 16\n", "y f32[1x2] 1 3\n");
}
END_TEST

START_TEST(chains)
{
    onnx_expect("opset 13\ninput a f32[2]\ninput b f32[2]\ninput c f32[1]\noutput x\noutput s\noutput m\noutput one\n"
                "x = Max(a, b, c)\ns = Sum(a, b, c)\nm = Mean(a, b, c)\none = Min(a)\n",
                "a f32[2] 1 5\nb f32[2] 2 3\nc f32[1] 0\n",
                "x f32[2] 2 5\ns f32[2] 3 8\nm f32[2] 1 2.6666667\none f32[2] 1 5\n");
}
END_TEST

START_TEST(attributes_that_became_operands)
{
    onnx_expect("opset 6\ninput x f32[3]\noutput y\ny = Clip(x) min=0.0\n", "x f32[3] -1 0.5 9\n",
                "y f32[3] 0 0.5 9\n");
    onnx_expect("opset 11\ninput x f32[3]\ninit hi f32[] 1\noutput y\ny = Clip(x, _, hi)\n", "x f32[3] -1 0.5 9\n",
                "y f32[3] -1 0.5 1\n");
    onnx_expect("opset 4\ninput x f32[2x2]\noutput y\ny = Reshape(x) shape=[4]\n", "x f32[2x2] 1 2 3 4\n",
                "y f32[4] 1 2 3 4\n");
    onnx_expect(
        "opset 11\ninput x f32[1x2x1]\noutput y\noutput z\ny = Squeeze(x) axes=[0]\nz = Unsqueeze(y) axes=[0 3]\n",
        "x f32[1x2x1] 1 2\n", "y f32[2x1] 1 2\nz f32[1x2x1x1] 1 2\n");
    onnx_expect("opset 11\ninput x f32[4]\noutput a\noutput b\na, b = Split(x) split=[1 3]\n", "x f32[4] 1 2 3 4\n",
                "a f32[1] 1\nb f32[3] 2 3 4\n");
    onnx_expect("opset 18\ninput x f32[5]\noutput a\noutput b\na, b = Split(x) num_outputs=2\n", "x f32[5] 1 2 3 4 5\n",
                "a f32[3] 1 2 3\nb f32[2] 4 5\n");
    onnx_expect("opset 9\ninput x f32[2x3]\noutput y\ny = Slice(x) starts=[1] ends=[-1] axes=[1]\n",
                "x f32[2x3] 1 2 3 4 5 6\n", "y f32[2x1] 2 5\n");
    onnx_expect("opset 2\ninput x f32[2]\noutput y\ny = Pad(x) pads=[1 0] value=9.0\n", "x f32[2] 1 2\n",
                "y f32[3] 9 1 2\n");
    onnx_expect("opset 1\ninput x f32[2]\noutput y\ny = Pad(x) paddings=[0 1] mode=\"edge\"\n", "x f32[2] 1 2\n",
                "y f32[3] 1 2 2\n");
    onnx_expect("opset 9\ninput x f32[3]\noutput v\noutput i\nv, i = TopK(x) k=2\n", "x f32[3] 1 9 5\n",
                "v f32[2] 9 5\ni i64[2] 1 2\n");
    onnx_expect(
        "opset 11\ninput x f32[2x2]\noutput y\noutput z\ny = ReduceSum(x) axes=[1] keepdims=0\nz = ReduceMax(x)\n",
        "x f32[2x2] 1 2 3 4\n", "y f32[2] 3 7\nz f32[1x1] 4\n");
    onnx_expect("opset 18\ninput x f32[2x2]\ninit a i64[1] 0\noutput y\ny = ReduceLogSum(x, a)\n",
                "x f32[2x2] 1 2 3 4\n", "y f32[1x2] 1.3862944 1.7917595\n");
    /* Infinities do not stay where a bound is left out since opset 6. */
    onnx_expect("opset 13\ninput x f32[3]\ninit lo f32[] 0\noutput y\noutput z\ny = Clip(x)\nz = Clip(x, lo)\n",
                "x f32[3] -inf inf nan\n", "y f32[3] -3.4028235e38 3.4028235e38 nan\nz f32[3] 0 3.4028235e38 nan\n");
    onnx_expect("opset 13\ninput x f16[2]\ninput d f64[2]\noutput y\noutput z\ny = Clip(x)\nz = Clip(d)\n",
                "x f16[2] -inf inf\nd f64[2] -inf inf\n",
                "y f16[2] -65504 65504\nz f64[2] -1.7976931348623157e308 1.7976931348623157e308\n");
    onnx_expect("opset 6\ninput x f32[2]\noutput y\ny = Clip(x) max=1.0\n", "x f32[2] -inf 5\n",
                "y f32[2] -3.4028235e38 1\n");
    onnx_expect("opset 1\ninput x f32[2]\noutput y\ny = Clip(x) max=1.0\n", "x f32[2] -inf 5\n", "y f32[2] -inf 1\n");
}
END_TEST

START_TEST(logarithms_of_whole_sums)
{
    onnx_expect("opset 18\ninput x i32[2x3]\ninit a i64[1] 1\noutput y\ny = ReduceLogSum(x, a) keepdims=0\n",
                "x i32[2x3] 1 2 3 100 200 300\n", "y i32[2] 1 6\n");
    onnx_expect("opset 18\ninput x i64[2]\noutput y\ny = ReduceLogSum(x)\n", "x i64[2] 3000000000 3000000000\n",
                "y i64[1] 22\n");
    onnx_expect("opset 18\ninput x u64[2]\noutput y\ny = ReduceLogSum(x)\n",
                "x u64[2] 9000000000000000000 9000000000000000000\n", "y u64[1] 44\n");
    onnx_expect("opset 13\ninput x u32[2]\noutput y\ny = ReduceLogSum(x) axes=[0] keepdims=0\n", "x u32[2] 7 1\n",
                "y u32[] 2\n");
    onnx_expect("opset 1\ninput x f32[2x1]\ninput t f32[]\ninput a f32[]\noutput y\ny = Tile(x, t, a)\n",
                "x f32[2x1] 1 2\nt f32[] 3\na f32[] 1\n", "y f32[2x3] 1 1 1 2 2 2\n");
    onnx_expect("opset 5\ninput x f32[2]\noutput y\ny = Cast(x) to=\"INT64\"\n", "x f32[2] 1.5 2\n", "y i64[2] 1 2\n");
    onnx_expect("opset 3\ninput a f32[1x1]\ninput b f32[1x1]\noutput y\ny = Concat(a, b)\n",
                "a f32[1x1] 1\nb f32[1x1] 2\n", "y f32[1x2] 1 2\n");
    onnx_expect("opset 5\ninput x f32[1]\noutput y\ny = Selu(x)\n", "x f32[1] 1\n", "y f32[1] 1.0507\n");
}
END_TEST

START_TEST(constants)
{
    onnx_expect(
        "opset 13\noutput a\noutput b\noutput c\noutput d\noutput e\noutput f\na = Constant() value=f32[2]{1 2}\n"
        "b = Constant() value_float=1.5\nc = Constant() value_ints=[1 2]\nd = Constant() value_string=\"hi\"\n"
        "e = Constant() value_strings=[\"a\" \"bc\"]\nf = Constant() value_floats=[1.0]\n",
        "", "a f32[2] 1 2\nb f32[] 1.5\nc i64[2] 1 2\nd str[] \"hi\"\ne str[2] \"a\" \"bc\"\nf f32[1] 1\n");
    onnx_expect("opset 9\ninput s i64[2]\noutput y\noutput z\ny = ConstantOfShape(s) value=i32[1]{7}\n"
                "z = ConstantOfShape(s)\n",
                "s i64[2] 1 2\n", "y i32[1x2] 7 7\nz f32[1x2] 0 0\n");
    onnx_refuse("opset 13\noutput a\na = Constant()\n", XCVM_INVALID_MODEL, "0 attributes are given");
    onnx_refuse("opset 9\ninput s i64[2]\noutput y\ny = ConstantOfShape(s) value=f32[2]{1 2}\n", XCVM_INVALID_MODEL,
                "2 elements, one is needed");
}
END_TEST

START_TEST(shapes)
{
    onnx_expect(
        "opset 15\ninput x f32[2xNx4]\noutput a\noutput b\noutput c\na = Shape(x) start=-2\nb = Shape(x) end=1\n"
        "c = Size(x)\n",
        "x f32[2x1x4] 1 2 3 4 5 6 7 8\n", "a i64[2] 1 4\nb i64[1] 2\nc i64[] 8\n");
    onnx_expect("opset 18\ninput x f32[4x1]\ninit s i64[2] 2 3\noutput y\ny = CenterCropPad(x, s)\n",
                "x f32[4x1] 1 2 3 4\n", "y f32[2x3] 0 2 0 0 3 0\n");
    onnx_expect("opset 18\ninput x f32[3x2]\ninit s i64[1] 5\noutput y\ny = CenterCropPad(x, s) axes=[-2]\n",
                "x f32[3x2] 1 2 3 4 5 6\n", "y f32[5x2] 0 0 1 2 3 4 5 6 0 0\n");
    onnx_expect("opset 13\ninput x f32[1x2]\noutput y\ny = Transpose(x)\n", "x f32[1x2] 1 2\n", "y f32[2x1] 1 2\n");
    onnx_refuse("opset 13\ninput x f32[2x2]\noutput y\ny = Concat(x, x)\n", XCVM_INVALID_MODEL, "'axis' is missing");
}
END_TEST

START_TEST(softmax_over_several_dimensions)
{
    onnx_expect("opset 11\ninput x f32[1x2x2]\noutput y\ny = Softmax(x)\n", "x f32[1x2x2] 0 0 0 0\n",
                "y f32[1x2x2] 0.25 0.25 0.25 0.25\n");
    onnx_expect("opset 13\ninput x f32[1x2x2]\noutput y\ny = Softmax(x)\n", "x f32[1x2x2] 0 0 0 0\n",
                "y f32[1x2x2] 0.5 0.5 0.5 0.5\n");
    onnx_expect("opset 11\ninput x f32[NxMx2]\noutput y\ny = Softmax(x) axis=-1\n", "x f32[1x2x2] 0 0 0 0\n",
                "y f32[1x2x2] 0.5 0.5 0.5 0.5\n");
}
END_TEST

START_TEST(resampling)
{
    onnx_expect("opset 7\ninput x f32[1x1x1x2]\noutput y\ny = Upsample(x) scales=[1.0 1.0 1.0 2.0]\n",
                "x f32[1x1x1x2] 1 2\n", "y f32[1x1x1x4] 1 1 2 2\n");
    onnx_expect("opset 1\ninput x f32[1x1x1x2]\noutput y\ny = Upsample(x) height_scale=1.0 width_scale=2.0\n",
                "x f32[1x1x1x2] 1 2\n", "y f32[1x1x1x4] 1 1 2 2\n");
    onnx_expect("opset 9\ninput x f32[1x1x1x2]\ninit s f32[4] 1 1 1 2\noutput y\ny = Upsample(x, s) mode=\"linear\"\n",
                "x f32[1x1x1x2] 1 2\n", "y f32[1x1x1x4] 1 1.5 2 2\n");
    onnx_expect("opset 10\ninput x f32[1x4]\ninit s f32[2] 2 0.5\noutput y\ny = Resize(x, s)\n", "x f32[1x4] 1 2 3 4\n",
                "y f32[2x2] 1 3 1 3\n");
    onnx_expect("opset 10\ninput x f32[1x4]\ninput s f32[2]\noutput y\ny = Resize(x, s)\n",
                "x f32[1x4] 1 2 3 4\ns f32[2] 2 0.5\n", "y f32[2x2] 1 3 1 3\n");
    onnx_expect("opset 11\ninput x f32[1x1x1x2]\ninit e f32[0]\ninit s i64[4] 1 1 1 4\noutput y\n"
                "y = Resize(x, e, e, s) coordinate_transformation_mode=\"asymmetric\" nearest_mode=\"floor\"\n",
                "x f32[1x1x1x2] 1 2\n", "y f32[1x1x1x4] 1 1 2 2\n");
    onnx_refuse("opset 11\ninput x f32[1x1x1x2]\ninit e f32[0]\noutput y\ny = Resize(x, e, e)\n", XCVM_INVALID_MODEL,
                "scales and sizes are both missing");
    onnx_refuse("opset 13\ninput x f32[2]\ninit s f32[1] 2\noutput y\ny = Resize(x, _, s) mode=\"magic\"\n",
                XCVM_UNSUPPORTED, "attribute 'mode' is 'magic', one of nearest, linear, cubic");
}
END_TEST

START_TEST(windows_of_convolutions)
{
    onnx_expect("opset 11\ninput x f32[1x1x5]\ninit w f32[1x1x3] 1 1 1\noutput y\n"
                "y = Conv(x, w) auto_pad=\"SAME_UPPER\" strides=[2]\n",
                "x f32[1x1x5] 1 2 3 4 5\n", "y f32[1x1x3] 3 9 9\n");
    onnx_expect("opset 11\ninput x f32[1x1x4]\ninit w f32[1x1x2] 1 1\noutput u\noutput l\noutput v\n"
                "u = Conv(x, w) auto_pad=\"SAME_UPPER\"\nl = Conv(x, w) auto_pad=\"SAME_LOWER\"\n"
                "v = Conv(x, w) auto_pad=\"VALID\"\n",
                "x f32[1x1x4] 1 2 3 4\n", "u f32[1x1x4] 3 5 7 4\nl f32[1x1x4] 1 3 5 7\nv f32[1x1x3] 3 5 7\n");
    onnx_expect(
        "opset 11\ninput x f32[1x1xN]\ninit w f32[1x1x3] 1 1 1\noutput y\ny = Conv(x, w) auto_pad=\"SAME_UPPER\"\n",
        "x f32[1x1x2] 1 2\n", "y f32[1x1x2] 3 3\n");
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninit w f32[1x1x3] 1 1 1\noutput y\n"
                "y = Conv(x, w) auto_pad=\"SAME_UPPER\" strides=[2]\n",
                "x f32[1x1x5] 1 2 3 4 5\n", "y f32[1x1x3] 3 9 9\n");
    onnx_expect("opset 11\ninput x f32[1x1xN]\noutput y\n"
                "y = AveragePool(x) auto_pad=\"SAME_LOWER\" kernel_shape=[2] strides=[2]\n",
                "x f32[1x1x3] 1 2 4\n", "y f32[1x1x2] 1 3\n");
    onnx_refuse("opset 11\ninput x f32[1x1x5]\noutput y\ny = MaxPool(x) auto_pad=\"SAME\" kernel_shape=[2]\n",
                XCVM_INVALID_MODEL, "'auto_pad' is 'SAME', one of NOTSET");
    onnx_refuse("opset 11\ninput x f32[1x1x5]\ninit w f32[1x1x3] 1 1 1\noutput y\ny = Conv(x, w) strides=[0]\n",
                XCVM_OUT_OF_RANGE, "'strides' has the entry 0");
    onnx_refuse("opset 11\ninput x f32[1x1x5]\ninit w f32[1x1x3] 1 1 1\noutput y\ny = Conv(x, w) kernel_shape=[2]\n",
                XCVM_SHAPE_MISMATCH, "'kernel_shape' says 2 for axis 0, the weights 3");
    onnx_refuse("opset 11\ninput x f32[1x1x5x5]\ninit w f32[1x1x3] 1 1 1\noutput y\ny = Conv(x, w)\n",
                XCVM_SHAPE_MISMATCH, "4 dimensions, 3 are needed");
    onnx_expect("opset 19\ninput x f32[1x1x4]\noutput a\noutput m\na = AveragePool(x) kernel_shape=[2]\n"
                "m = MaxPool(x) kernel_shape=[2] strides=[2]\n",
                "x f32[1x1x4] 1 2 3 5\n", "a f32[1x1x3] 1.5 2.5 4\nm f32[1x1x2] 2 5\n");
    onnx_refuse("opset 11\ninput x f32[1x1x4]\noutput a\na = AveragePool(x)\n", XCVM_INVALID_MODEL,
                "'kernel_shape' is missing");
}
END_TEST

START_TEST(transposed_convolutions)
{
    onnx_expect("opset 11\ninput x f32[1x1x2]\ninit w f32[1x1x3] 1 1 1\noutput y\nz = ConvTranspose(x, w) strides=[2]\n"
                "y = Identity(z)\n",
                "x f32[1x1x2] 1 2\n", "y f32[1x1x5] 1 1 3 2 2\n");
    onnx_expect("opset 11\ninput x f32[1x1x2]\ninit w f32[1x1x3] 1 1 1\noutput y\n"
                "y = ConvTranspose(x, w) strides=[2] auto_pad=\"SAME_UPPER\"\n",
                "x f32[1x1x2] 1 2\n", "y f32[1x1x4] 1 1 3 2\n");
    onnx_expect("opset 11\ninput x f32[1x1x2]\ninit w f32[1x1x3] 1 1 1\noutput y\n"
                "y = ConvTranspose(x, w) strides=[2] output_shape=[4]\n",
                "x f32[1x1x2] 1 2\n", "y f32[1x1x4] 1 3 2 2\n");
}
END_TEST

START_TEST(pooling_of_everything)
{
    onnx_expect("opset 1\ninput x f32[1x2x2]\noutput a\noutput m\noutput l\n"
                "a = GlobalAveragePool(x)\nm = GlobalMaxPool(x)\nl = GlobalLpPool(x) p=3.0\n",
                "x f32[1x2x2] 1 3 -2 2\n", "a f32[1x2x1] 2 0\nm f32[1x2x1] 3 2\nl f32[1x2x1] 3.0365889 2.5198421\n");
    onnx_expect(
        "opset 2\ninput x f32[1x1x2]\noutput l\noutput k\nl = GlobalLpPool(x)\nk = LpPool(x) kernel_shape=[2] p=1\n",
        "x f32[1x1x2] 3 -4\n", "l f32[1x1x1] 5\nk f32[1x1x1] 7\n");
    onnx_expect("opset 1\ninput x f32[1x2]\noutput a\na = GlobalAveragePool(x)\n", "x f32[1x2] 1 3\n",
                "a f32[1x2] 1 3\n");
    onnx_refuse("opset 1\ninput x f32[2]\noutput a\na = GlobalAveragePool(x)\n", XCVM_SHAPE_MISMATCH, "1 dimensions");
}
END_TEST

START_TEST(normalizations)
{
    onnx_expect(
        "opset 8\ninput x f32[1x2]\ninit s f32[2] 1 2\ninit b f32[2] 0 1\ninit m f32[2] 1 1\ninit v f32[2] 4 4\n"
        "output y\ny = BatchNormalization(x, s, b, m, v) epsilon=0.0 spatial=0\n",
        "x f32[1x2] 3 5\n", "y f32[1x2] 1 5\n");
    onnx_expect(
        "opset 9\ninput x f32[1x2x1]\ninit s f32[2] 1 2\ninit b f32[2] 0 1\ninit m f32[2] 1 1\ninit v f32[2] 4 4\n"
        "output y\ny = BatchNormalization(x, s, b, m, v) epsilon=0.0 momentum=0.5\n",
        "x f32[1x2x1] 3 5\n", "y f32[1x2x1] 1 5\n");
    onnx_expect(
        "opset 9\ninput x f32[2x2x1]\ninit s f32[2] 1 2\ninit b f32[2] 0 1\ninit m f32[2] 1 1\ninit v f32[2] 4 4\n"
        "output y\noutput z\ny, z = BatchNormalization(x, s, b, m, v) epsilon=0.0\n",
        "x f32[2x2x1] 3 5 5 9\n", "y f32[2x2x1] -1 -1 1 3\nz f32[2] 1.3 1.6\n");
    onnx_refuse(
        "opset 8\ninput x f32[1x2]\ninit s f32[2] 1 2\ninit b f32[2] 0 1\ninit m f32[2] 1 1\ninit v f32[2] 4 4\n"
        "output y\noutput z\ny, z = BatchNormalization(x, s, b, m, v) spatial=0\n",
        XCVM_UNSUPPORTED, "spatial");
    onnx_expect("opset 18\ninput x f32[1x4x1]\ninit s f32[2] 1 10\ninit b f32[2] 0 1\noutput y\n"
                "y = GroupNormalization(x, s, b) num_groups=2 epsilon=0.0\n",
                "x f32[1x4x1] 1 3 5 9\n", "y f32[1x4x1] -1 1 -9 11\n");
    onnx_expect("opset 21\ninput x f32[1x4x1]\ninit s f32[4] 1 1 10 10\ninit b f32[4] 0 0 1 1\noutput y\n"
                "y = GroupNormalization(x, s, b) num_groups=2 epsilon=0.0\n",
                "x f32[1x4x1] 1 3 5 9\n", "y f32[1x4x1] -1 1 -9 11\n");
    onnx_expect("opset 13\ninput x f32[1x2]\noutput y\ny = MeanVarianceNormalization(x) axes=[1]\n", "x f32[1x2] 1 3\n",
                "y f32[1x2] -1 1\n");
}
END_TEST

START_TEST(dropout_in_inference)
{
    onnx_expect("opset 7\ninput x f32[2]\noutput y\noutput m\ny, m = Dropout(x) ratio=0.9\n", "x f32[2] 1 2\n",
                "y f32[2] 1 2\nm f32[2] 1 1\n");
    onnx_expect(
        "opset 13\ninput x f32[2]\ninit r f32[] 0.9\ninit t bool[] 0\noutput y\noutput m\ny, m = Dropout(x, r, t)\n",
        "x f32[2] 1 2\n", "y f32[2] 1 2\nm bool[2] 1 1\n");
}
END_TEST

START_TEST(einsum)
{
    const char *x = "a f32[2x2] 1 2 3 4\nb f32[2x2] 5 6 7 8\n";
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,jk->ik\"\n", x,
                "y f32[2x2] 19 22 43 50\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,kj->ki\"\n", x,
                "y f32[2x2] 17 39 23 53\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,ij->i\"\n", x,
                "y f32[2] 17 53\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,ij->ij\"\n", x,
                "y f32[2x2] 5 12 21 32\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,kl->\"\n", x,
                "y f32[] 260\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ij,kl\"\n", x,
                "y f32[2x2x2x2] 5 6 7 8 10 12 14 16 15 18 21 24 20 24 28 32\n");
    onnx_expect("opset 12\ninput a f32[2x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"ii,ij->j\"\n", x,
                "y f32[2] 33 38\n");
    onnx_expect("opset 12\ninput a f32[2x2]\noutput y\noutput t\ny = Einsum(a) equation=\"ii\"\nt = Einsum(a) "
                "equation=\"ba\"\n",
                "a f32[2x2] 1 2 3 4\n", "y f32[] 5\nt f32[2x2] 1 3 2 4\n");
    onnx_expect("opset 12\ninput a f32[NxM]\ninput b f32[MxK]\ninput c f32[K]\noutput y\n"
                "y = Einsum(a, b, c) equation=\"i j, j k, k -> i\"\n",
                "a f32[2x2] 1 2 3 4\nb f32[2x2] 5 6 7 8\nc f32[2] 1 -1\n", "y f32[2] -3 -7\n");
    onnx_expect(
        "opset 12\ninput a f32[2x1x2]\ninput b f32[2x1]\noutput y\ny = Einsum(a, b) equation=\"...ij,...jk->...ik\"\n",
        "a f32[2x1x2] 1 2 3 4\nb f32[2x1] 1 10\n", "y f32[2x1x1] 21 43\n");
    onnx_expect("opset 12\ninput a f32[2x2x2]\noutput y\ny = Einsum(a) equation=\"iii->i\"\n",
                "a f32[2x2x2] 1 2 3 4 5 6 7 8\n", "y f32[2] 1 8\n");
    /* Dimensions of 1 are broadcast, whether they are kept or summed over. */
    onnx_expect("opset 12\ninput a f32[2x3]\ninput b f32[1x2]\noutput y\ny = Einsum(a, b) equation=\"ij,jk->ik\"\n",
                "a f32[2x3] 1 2 3 4 5 6\nb f32[1x2] 1 10\n", "y f32[2x2] 6 60 15 150\n");
    onnx_expect("opset 12\ninput a f32[2x1]\ninput b f32[NxM]\noutput y\ny = Einsum(a, b) equation=\"ij,jk->ik\"\n",
                "a f32[2x1] 1 2\nb f32[3x2] 1 2 3 4 5 6\n", "y f32[2x2] 9 12 18 24\n");
    onnx_expect("opset 12\ninput a f32[1x2]\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"bi,bi->b\"\n",
                "a f32[1x2] 1 10\nb f32[2x2] 1 2 3 4\n", "y f32[2] 21 43\n");
    onnx_expect("opset 12\ninput a f32[2]\ninput b f32[1]\ninput c f32[2]\noutput y\n"
                "y = Einsum(a, b, c) equation=\"i,i,i\"\n",
                "a f32[2] 1 2\nb f32[1] 10\nc f32[2] 3 4\n", "y f32[] 110\n");
    onnx_refuse("opset 12\ninput a f32[2x2]\noutput y\ny = Einsum(a) equation=\"ijk->i\"\n", XCVM_SHAPE_MISMATCH,
                "3 labels");
    onnx_refuse("opset 12\ninput a f32[2x2]\noutput y\ny = Einsum(a) equation=\"ij->k\"\n", XCVM_INVALID_MODEL,
                "no term has the label");
    onnx_refuse("opset 12\ninput a f32[2x2]\noutput y\ny = Einsum(a) equation=\"ij,k->i\"\n", XCVM_INVALID_MODEL,
                "number of terms");
    onnx_refuse("opset 12\ninput a f32[2x2]\noutput y\ny = Einsum(a) equation=\"i?->i\"\n", XCVM_SHAPE_MISMATCH,
                "1 labels");
}
END_TEST

START_TEST(window_functions)
{
    onnx_expect(
        "opset 17\ninput n i64[]\noutput h\noutput s\noutput d\nh = HannWindow(n)\ns = HannWindow(n) periodic=0\n"
        "d = HammingWindow(n) output_datatype=f64\n",
        "n i64[] 4\n",
        "h f32[4] 0 0.5 1 0.5\ns f32[4] 0 0.75 0.75 0\nd f64[4] 0.0869565217 0.5434782609 1 0.5434782609\n");
    onnx_expect("opset 17\ninit n i64[1] 4\noutput b\nb = BlackmanWindow(n)\n", "", "b f32[4] 0 0.34 1 0.34\n");
}
END_TEST

START_TEST(losses_and_optimizers)
{
    onnx_expect(
        "opset 13\ninput x f32[1x2]\ninput t i64[1]\noutput l\noutput p\nl, p = SoftmaxCrossEntropyLoss(x, t)\n",
        "x f32[1x2] 0 0\nt i64[1] 1\n", "l f32[] 0.69314718\np f32[1x2] -0.69314718 -0.69314718\n");
    onnx_expect(
        "opset 13\nopset ai.onnx.preview.training 1\ninput r f32[]\ninput t i64[]\ninput x f32[1]\ninput g f32[1]\n"
        "input v f32[1]\noutput y\noutput w\ny, w = ai.onnx.preview.training::Momentum(r, t, x, g, v) alpha=0.5 "
        "beta=0.1 norm_coefficient=0.0 mode=\"standard\"\n",
        "r f32[] 0.1\nt i64[] 0\nx f32[1] 1\ng f32[1] 2\nv f32[1] 4\n", "y f32[1] 0.6\nw f32[1] 4\n");
}
END_TEST

START_TEST(random_numbers)
{
    onnx_expect(
        "opset 15\ninput x f32[4]\noutput s\noutput d\nr = RandomNormalLike(x) dtype=f64 seed=1.0\ns = Shape(r)\n"
        "u = RandomUniform() shape=[2 3] low=5.0 high=5.0\nd = ReduceMax(u) keepdims=0\n",
        "x f32[4] 1 2 3 4\n", "s i64[1] 4\nd f32[] 5\n");
}
END_TEST

START_TEST(later_opsets)
{
    onnx_expect("opset 20\ninput x f32[1x2x1]\noutput y\ny = DFT(x)\n", "x f32[1x2x1] 1 3\n",
                "y f32[1x2x2] 4 0 -2 0\n");
    onnx_expect("opset 17\ninput x f32[1x2x1]\noutput y\ny = DFT(x) axis=1\n", "x f32[1x2x1] 1 3\n",
                "y f32[1x2x2] 4 0 -2 0\n");
    onnx_expect("opset 23\ninput x u8[2]\ninit s f32[] 0.5\noutput y\ny = DequantizeLinear(x, s) output_dtype=f16\n",
                "x u8[2] 2 4\n", "y f16[2] 1 2\n");
    onnx_expect("opset 19\ninput x f32[1x1x1x2]\ninit s f32[1] 2\noutput y\n"
                "y = Resize(x, _, s) axes=[3] coordinate_transformation_mode=\"asymmetric\" nearest_mode=\"floor\"\n",
                "x f32[1x1x1x2] 1 2\n", "y f32[1x1x1x4] 1 1 2 2\n");
    onnx_expect("opset 18\ninput x f32[1x2]\ninit p i64[2] 1 0\ninit a i64[1] 1\noutput y\ny = Pad(x, p, _, a)\n",
                "x f32[1x2] 1 2\n", "y f32[1x3] 0 1 2\n");
    onnx_expect("opset 18\ninput a i32[2]\ninput b i32[2]\noutput y\ny = BitwiseXor(a, b)\n",
                "a i32[2] 1 7\nb i32[2] 3 2\n", "y i32[2] 2 5\n");
    onnx_expect("opset 24\ninput x f32[1]\noutput y\noutput z\ny = Swish(x) alpha=2.0\nz = Gelu(x)\n", "x f32[1] 1\n",
                "y f32[1] 0.88079708\nz f32[1] 0.84134475\n");
}
END_TEST

/* ---- The table ---- */

START_TEST(table_is_complete)
{
    size_t count = xcc_operator_count();
    ck_assert_uint_gt(count, 150);
    ck_assert_ptr_null(xcc_operator_at(count));
    for (size_t i = 0; i < count; i++) {
        const xcc_operator_info *info = xcc_operator_at(i);
        const xcc_operator_row *row = xcc_operator_find(info->domain, info->name);
        ck_assert_ptr_nonnull(row);
        ck_assert_ptr_eq(&row->info, info);
        ck_assert_ptr_nonnull(info->lowering);
        ck_assert_int_ge(xcc_operator_since(&row->info), 1);
        if (row->lower == xcc_lower_one_to_one)
            ck_assert_msg(xcvm_schema_named(info->name, strlen(info->name)) != NULL, "%s is no instruction",
                          info->name);
    }
    ck_assert_ptr_null(xcc_operator_find("", "Nothing"));
}
END_TEST

Suite *suite_compiler_lower(void);
Suite *suite_compiler_lower(void)
{
    Suite *suite = suite_create("compiler/lower");
    TCase *elements = tcase_create("versions");
    tcase_add_test(elements, broadcasting_before_opset_7);
    tcase_add_test(elements, each_broadcasting_before_opset_7);
    tcase_add_test(elements, instructions_around);
    tcase_add_test(elements, chains);
    tcase_add_test(elements, attributes_that_became_operands);
    tcase_add_test(elements, logarithms_of_whole_sums);
    tcase_add_test(elements, constants);
    tcase_add_test(elements, shapes);
    tcase_add_test(elements, softmax_over_several_dimensions);
    tcase_add_test(elements, resampling);
    tcase_add_test(elements, windows_of_convolutions);
    tcase_add_test(elements, transposed_convolutions);
    tcase_add_test(elements, pooling_of_everything);
    tcase_add_test(elements, normalizations);
    tcase_add_test(elements, dropout_in_inference);
    tcase_add_test(elements, einsum);
    tcase_add_test(elements, window_functions);
    tcase_add_test(elements, losses_and_optimizers);
    tcase_add_test(elements, random_numbers);
    tcase_add_test(elements, later_opsets);
    suite_add_tcase(suite, elements);
    TCase *table = tcase_create("table");
    tcase_add_test(table, table_is_complete);
    suite_add_tcase(suite, table);
    return suite;
}
