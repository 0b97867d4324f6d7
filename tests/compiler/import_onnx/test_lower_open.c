/* Tests of lowerings with facts that only the run knows: sizes, and ranks of items of sequences. Expected values follow
 * from the operators' definitions. */
#include "tests/compiler/import_onnx/onnx_text.h"

#include <check.h>
#include <stdio.h>

/* "u" is x with a rank that is not known. */
#define OF_UNKNOWN_RANK "init zero i64[] 0\nq = SequenceConstruct(x)\nu = SequenceAt(q, zero)\n"

START_TEST(padding_for_filters_of_any_size)
{
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\noutput u\noutput l\n"
                "u = Conv(x, w) auto_pad=\"SAME_UPPER\"\nl = Conv(x, w) auto_pad=\"SAME_LOWER\"\n",
                "x f32[1x1x4] 1 2 3 4\nw f32[1x1x2] 1 1\n", "u f32[1x1x4] 3 5 7 4\nl f32[1x1x4] 1 3 5 7\n");
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\noutput y\n"
                "y = Conv(x, w) auto_pad=\"SAME_UPPER\" strides=[2] dilations=[2]\n",
                "x f32[1x1x5] 1 2 3 4 5\nw f32[1x1x2] 1 1\n", "y f32[1x1x3] 2 6 4\n");
    onnx_expect("opset 10\ninput x u8[1x1xN]\ninput w u8[1x1xK]\ninput z u8[]\noutput y\n"
                "y = ConvInteger(x, w, z) auto_pad=\"SAME_LOWER\"\n",
                "x u8[1x1x3] 2 3 4\nw u8[1x1x2] 1 1\nz u8[] 1\n", "y i32[1x1x3] 1 3 5\n");
    onnx_expect(
        "opset 10\ninput x u8[1x1xN]\ninput w u8[1x1xK]\ninit s f32[] 1\ninit z u8[] 1\ninit o u8[] 0\noutput y\n"
        "y = QLinearConv(x, s, z, w, s, o, s, o) auto_pad=\"SAME_UPPER\"\n",
        "x u8[1x1x3] 2 3 4\nw u8[1x1x2] 1 1\n", "y u8[1x1x3] 3 5 3\n");
}
END_TEST

START_TEST(padding_of_pools_of_any_size)
{
    const char *x = "x f32[1x1x2x3] 1 2 6 4 5 3\n";
    onnx_expect("opset 12\ninput x f32[1x1xHxW]\noutput y\noutput i\n"
                "y, i = MaxPool(x) auto_pad=\"SAME_UPPER\" kernel_shape=[2 2] strides=[2 2]\n",
                x, "y f32[1x1x1x2] 5 6\ni i64[1x1x1x2] 4 2\n");
    onnx_expect("opset 12\ninput x f32[1x1xHxW]\noutput y\noutput i\n"
                "y, i = MaxPool(x) auto_pad=\"SAME_LOWER\" kernel_shape=[2 2] strides=[2 2] storage_order=1\n",
                x, "y f32[1x1x1x2] 4 6\ni i64[1x1x1x2] 1 4\n");
    onnx_expect("opset 12\ninput x i8[1x1xN]\noutput y\ny = MaxPool(x) auto_pad=\"SAME_UPPER\" kernel_shape=[3]\n",
                "x i8[1x1x3] -3 -2 -1\n", "y i8[1x1x3] -2 -1 -1\n");
    onnx_expect("opset 12\ninput x f32[1x1xN]\noutput y\noutput c\n"
                "y = AveragePool(x) auto_pad=\"SAME_UPPER\" kernel_shape=[2] strides=[2]\n"
                "c = AveragePool(x) auto_pad=\"SAME_UPPER\" kernel_shape=[2] strides=[2] count_include_pad=1\n",
                "x f32[1x1x3] 1 2 4\n", "y f32[1x1x2] 1.5 4\nc f32[1x1x2] 1.5 2\n");
    onnx_expect("opset 12\ninput x f32[1x1xN]\noutput y\noutput v\n"
                "y = LpPool(x) auto_pad=\"SAME_LOWER\" kernel_shape=[2] strides=[2]\n"
                "v = LpPool(x) auto_pad=\"VALID\" kernel_shape=[2] strides=[2]\n",
                "x f32[1x1x3] -3 3 4\n", "y f32[1x1x2] 3 5\nv f32[1x1x1] 4.2426407\n");
}
END_TEST

/* A mask for one key is for all keys until opset 23, and hides the others later. Numbers that all keys of a query get
 * change nothing: those expected are softmax(0, 1) and softmax(0, 2) by 10 and 20, as NumPy has it. */
START_TEST(masks_of_one_key)
{
    static const char *const values = "q f32[1x1x2x1] 1 2\nk f32[1x1x2x1] 0 1\nv f32[1x1x2x1] 10 20\nm f32[2x1] 3 -4\n";
    static const char *const masks[] = {"f32[2x1]", "f32[2xM]", "f32[NxM]", "f32"};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (int opset = 23; opset <= 24; opset++) {
            char model[512];
            snprintf(
                model, sizeof model,
                "opset %d\ninput q f32[1x1x2x1]\ninput k f32[1x1x%cx1]\ninput v f32[1x1x%cx1]\ninput m %s\noutput y\n"
                "y = Attention(q, k, v, m) scale=1.0\n",
                opset, i % 2 == 0 ? '2' : 'K', i % 2 == 0 ? '2' : 'K', masks[i]);
            onnx_expect(model, values, opset == 23 ? "y f32[1x1x2x1] 17.310586 18.807971\n" : "y f32[1x1x2x1] 10 10\n");
        }
    /* Keys of the past are keys, too. */
    onnx_expect("opset 23\ninput q f32[1x1x1x1]\ninput k f32[1x1x1x1]\ninput v f32[1x1x1x1]\ninput m f32[1xM]\n"
                "input pk f32[1x1xPx1]\ninput pv f32[1x1xPx1]\noutput y\n"
                "y, nk, nv = Attention(q, k, v, m, pk, pv) scale=1.0\n",
                "q f32[1x1x1x1] 2\nk f32[1x1x1x1] 1\nv f32[1x1x1x1] 20\nm f32[1x1] 5\npk f32[1x1x1x1] 0\n"
                "pv f32[1x1x1x1] 10\n",
                "y f32[1x1x1x1] 18.807971\n");
}
END_TEST

START_TEST(sizes_of_transposed_convolutions)
{
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\noutput y\n"
                "y = ConvTranspose(x, w) strides=[2] output_shape=[4]\n",
                "x f32[1x1x2] 1 2\nw f32[1x1x3] 1 1 1\n", "y f32[1x1x4] 1 3 2 2\n");
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\ninput b f32[1]\noutput y\n"
                "y = ConvTranspose(x, w, b) strides=[2] output_shape=[1 1 7]\n",
                "x f32[1x1x2] 1 2\nw f32[1x1x3] 1 1 1\nb f32[1] 10\n", "y f32[1x1x7] 11 11 13 12 12 10 10\n");
    onnx_expect("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\noutput u\noutput l\n"
                "u = ConvTranspose(x, w) strides=[2] auto_pad=\"SAME_UPPER\"\n"
                "l = ConvTranspose(x, w) strides=[2] auto_pad=\"SAME_LOWER\"\n",
                "x f32[1x1x2] 1 2\nw f32[1x1x3] 1 1 1\n", "u f32[1x1x4] 1 1 3 2\nl f32[1x1x4] 1 3 2 2\n");
    onnx_refuse("opset 11\ninput x f32[1x1xN]\ninput w f32[1x1xK]\noutput y\n"
                "y = ConvTranspose(x, w) output_shape=[1 4]\n",
                XCVM_INVALID_MODEL, "'output_shape' has 2 entries, 1 are needed");
}
END_TEST

START_TEST(ellipses_of_unknown_rank)
{
    onnx_expect("opset 12\ninput x f32\noutput y\noutput t\ny = Einsum(x) equation=\"...i->...\"\n"
                "t = Einsum(x) equation=\"i...->...i\"\n",
                "x f32[2x1x3] 1 2 3 4 5 6\n", "y f32[2x1] 6 15\nt f32[1x3x2] 1 4 2 5 3 6\n");
    onnx_expect("opset 12\ninput x f32\noutput y\ny = Einsum(x) equation=\"i...\"\n", "x f32[2] 1 2\n",
                "y f32[2] 1 2\n");
    /* Operators whose operands are broadcast. */
    onnx_expect("opset 12\ninput a f32\ninput b f32\noutput y\ny = Einsum(a, b) equation=\"...ij,...jk->...ik\"\n",
                "a f32[2x1x2] 1 2 3 4\nb f32[3x1x2x1] 1 0 0 1 1 1\n", "y f32[3x2x1x1] 1 3 2 4 3 7\n");
    onnx_expect("opset 12\ninput a f32\ninput b f32[2x2]\noutput y\ny = Einsum(a, b) equation=\"...i,i...->...\"\n",
                "a f32[2x2] 1 2 3 4\nb f32[2x2] 1 2 3 4\n", "y f32[2] 7 22\n");
    onnx_expect("opset 12\ninput a f32\ninput b f32\noutput y\ny = Einsum(a, b) equation=\"a...,...b->ab\"\n",
                "a f32[2x2] 1 2 3 4\nb f32[2x1] 1 10\n", "y f32[2x1] 21 43\n");
}
END_TEST

START_TEST(scans_of_unknown_rank)
{
    const char *const body = "graph body {\ninput s f32[2]\ninput e f32[2]\noutput t\noutput o\nt = Add(s, e)\n"
                             "o = Identity(t)\n}\n";
    char text[1024];
    const struct {
        const char *attributes, *y;
    } scans[] = {
        {"scan_input_axes=[-2]", "y f32[3x2] 1 2 4 6 9 12\n"},
        {"scan_input_axes=[0] scan_output_axes=[1]", "y f32[2x3] 1 4 9 2 6 12\n"},
        {"scan_input_axes=[-2] scan_output_axes=[-1]", "y f32[2x3] 1 4 9 2 6 12\n"},
        {"scan_input_axes=[-2] scan_output_axes=[-2] scan_output_directions=[1]", "y f32[3x2] 9 12 4 6 1 2\n"},
    };
    for (size_t i = 0; i < sizeof scans / sizeof *scans; i++) {
        snprintf(text, sizeof text,
                 "opset 11\ninput x f32[3x2]\ninit i f32[2] 0 0\noutput y\n%s" OF_UNKNOWN_RANK
                 "f, y = Scan(i, u) body=@body num_scan_inputs=1 %s\n",
                 body, scans[i].attributes);
        onnx_expect(text, "x f32[3x2] 1 2 3 4 5 6\n", scans[i].y);
    }
    /* Axes of elements whose rank is not known either. */
    onnx_expect("opset 11\ninput x f32[3x2]\noutput y\noutput z\n"
                "graph any {\ninput e f32\noutput o\noutput p\no = Neg(e)\np = Abs(e)\n}\n" OF_UNKNOWN_RANK
                "y, z = Scan(u) body=@any num_scan_inputs=1 scan_input_axes=[-1] scan_output_axes=[1 -1]\n",
                "x f32[3x2] 1 -2 3 -4 5 -6\n", "y f32[3x2] -1 2 -3 4 -5 6\nz f32[3x2] 1 2 3 4 5 6\n");
}
END_TEST

START_TEST(reductions_of_unknown_rank)
{
    /* The sum of all is a scalar, whatever it is summed over. */
    onnx_expect("opset 13\ninput x f32[3x2]\noutput y\n" OF_UNKNOWN_RANK "s = ReduceSum(u) keepdims=0\n"
                "v = Expand(s, n)\ninit n i64[2] 1 2\ny = Softmax(v) axis=-1\n",
                "x f32[3x2] 1 2 3 4 5 6\n", "y f32[1x2] 0.5 0.5\n");
    onnx_expect("opset 11\ninput x f32[3x2]\noutput y\n" OF_UNKNOWN_RANK "y = ReduceMax(u) axes=[-1] keepdims=0\n",
                "x f32[3x2] 1 2 3 4 5 6\n", "y f32[3] 2 4 6\n");
}
END_TEST

START_TEST(blocks_of_open_axes)
{
    onnx_expect("opset 18\ninput x f32[1xCxL]\ninput i i64[N]\ninput b i64[N]\noutput y\ny = Col2Im(x, i, b)\n",
                "x f32[1x2x3] 1 2 3 10 20 30\ni i64[2] 1 4\nb i64[2] 1 2\n", "y f32[1x1x1x4] 1 12 23 30\n");
    onnx_expect("opset 18\ninput x f32[1xCxL]\ninput i i64[N]\ninput b i64[N]\noutput y\n"
                "y = Col2Im(x, i, b) strides=[2]\n",
                "x f32[1x2x2] 1 2 10 20\ni i64[1] 4\nb i64[1] 2\n", "y f32[1x1x4] 1 10 2 20\n");
}
END_TEST

START_TEST(more_dimensions_than_there_can_be)
{
    onnx_refuse("opset 13\ninput x f32[2]\ninit s i64[9] 1 1 1 1 1 1 1 1 2\noutput y\ny = Reshape(x, s)\n",
                XCVM_UNSUPPORTED, "unsupported rank (9; expected at most 8)");
    onnx_refuse("opset 13\ninput x f32[2]\ninput s i64[9]\noutput y\ny = Reshape(x, s)\n", XCVM_UNSUPPORTED,
                "unsupported rank (9; expected at most 8)");
    onnx_refuse("opset 13\ninput x f32[2]\ninput s i64[9]\noutput y\ny = Expand(x, s)\n", XCVM_UNSUPPORTED,
                "unsupported rank (9; expected at most 8)");
    onnx_refuse("opset 13\ninput s i64[9]\noutput y\ny = ConstantOfShape(s)\n", XCVM_UNSUPPORTED,
                "unsupported rank (9; expected at most 8)");
    onnx_refuse("opset 13\noutput y\ny = RandomNormal() shape=[1 1 1 1 1 1 1 1 1]\n", XCVM_UNSUPPORTED,
                "unsupported rank (9; expected at most 8)");
    onnx_refuse("opset 13\ninput x f32[1x1x1x1x1x1x1x2]\ninit i i64[1x1] 0\noutput y\ny = Gather(x, i)\n",
                XCVM_UNSUPPORTED, "unsupported rank (9; expected at most 8)");
}
END_TEST

Suite *suite_compiler_lower_open(void);
Suite *suite_compiler_lower_open(void)
{
    Suite *suite = suite_create("compiler/lower_open");
    TCase *open = tcase_create("open");
    tcase_add_test(open, padding_for_filters_of_any_size);
    tcase_add_test(open, padding_of_pools_of_any_size);
    tcase_add_test(open, masks_of_one_key);
    tcase_add_test(open, sizes_of_transposed_convolutions);
    tcase_add_test(open, ellipses_of_unknown_rank);
    tcase_add_test(open, scans_of_unknown_rank);
    tcase_add_test(open, reductions_of_unknown_rank);
    tcase_add_test(open, blocks_of_open_axes);
    tcase_add_test(open, more_dimensions_than_there_can_be);
    suite_add_tcase(suite, open);
    return suite;
}
