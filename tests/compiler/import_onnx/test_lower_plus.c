/* Tests of ONNX+ operators: refusals, and host functions. The models of make_plus_cases.py test results. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <string.h>

#define PLUS "opset 17\nopset org.chainer 1\n"

START_TEST(items_that_make_no_sense)
{
    onnx_refuse(PLUS "input x f32[3]\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, i) slice_specs=[5]\n",
                XCVM_INVALID_MODEL, "entry 0 of slice_specs is 5");
    onnx_refuse(PLUS "input x f32[3]\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, i) slice_specs=[2]\n",
                XCVM_INVALID_MODEL, "more operands than the node has");
    onnx_refuse(PLUS "input x f32[3]\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, i, i) slice_specs=[1]\n",
                XCVM_INVALID_MODEL, "does not ask for operand 2");
    onnx_refuse(PLUS "input x f32[3]\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, i, i) slice_specs=[1 1]\n",
                XCVM_OUT_OF_RANGE, "axis");
    onnx_refuse(PLUS "input x f32[3]\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, _, i, i) slice_specs=[3]\n",
                XCVM_UNSUPPORTED, "step that is known");
    onnx_refuse(PLUS "input x seq(f32)\ninput i i64[]\noutput y\ny = org.chainer::GetItem(x, i) slice_specs=[1]\n",
                XCVM_TYPE_MISMATCH, "a tensor is needed");
    onnx_refuse(PLUS "input x f32[3]\noutput y\ny = org.chainer::SetItem(x) slice_specs=[0]\n", XCVM_INVALID_MODEL,
                "the operand with the value is missing");
}
END_TEST

START_TEST(types_that_are_not_known)
{
    onnx_refuse(PLUS "input x f32[3]\ninput d i64[]\noutput y\ny = org.chainer::DynamicCast(x, d)\n", XCVM_UNSUPPORTED,
                "not known at compile time");
    onnx_refuse(PLUS "input x f32[3]\ninit d i64[] 60\noutput y\ny = org.chainer::DynamicCast(x, d)\n",
                XCVM_OUT_OF_RANGE, "60 is no element type");
    onnx_refuse(PLUS "input x f32[3]\noutput y\nn = org.chainer::NullConstant()\ny = org.chainer::Square(n)\n",
                XCVM_TYPE_MISMATCH, "operand 0 is null");
    onnx_refuse(PLUS "input x f32[]\noutput y\ny = org.chainer::GenericLen(x)\n", XCVM_SHAPE_MISMATCH, "rank 0");
    onnx_refuse(PLUS "input x f32[2]\noutput y\ny = org.chainer::SequenceClear(x)\n", XCVM_TYPE_MISMATCH,
                "a sequence is needed");
    onnx_refuse(PLUS "input x seq(f32)\noutput y\ny = org.chainer::Square(x)\n", XCVM_TYPE_MISMATCH,
                "expected a tensor");
}
END_TEST

START_TEST(attributes_out_of_range)
{
    onnx_refuse(PLUS "input x f32[3x2]\noutput y\ny = org.chainer::PadBatchSize(x)\n", XCVM_INVALID_MODEL, "'size'");
    onnx_refuse(PLUS "input x f32[3x2]\noutput y\ny = org.chainer::PadBatchSize(x) size=2\n", XCVM_SHAPE_MISMATCH, "");
    onnx_refuse(PLUS "input x f32[3x2]\ninput w f32[2x2]\noutput y\ny = org.chainer::Linear(x, w) n_batch_axes=0\n",
                XCVM_OUT_OF_RANGE, "n_batch_axes is 0");
    onnx_refuse(PLUS "input x f32[1x1x4x4]\ninput r f32[1x4]\ninput i i64[1]\noutput y\n"
                     "y = org.chainer::ROIMaxPool2D(x, r, i) output_shape=[2] spatial_scale=1.0\n",
                XCVM_INVALID_MODEL, "a height and a width");
    onnx_refuse(PLUS "input x f32[3]\noutput y\ny = org.chainer::Nothing(x)\n", XCVM_UNSUPPORTED,
                "there is no such operator");
    onnx_refuse(PLUS "input x f32[3]\noutput y\ny = org.chainer::Square(x) what=1\n", XCVM_UNSUPPORTED,
                "attribute 'what' is not known");
    onnx_refuse("opset 17\ninput x f32[3]\noutput y\ny = org.chainer::Square(x)\n", XCVM_INVALID_MODEL,
                "does not say which opset");
}
END_TEST

START_TEST(functions_that_call_themselves)
{
    onnx_refuse("opset 17\nopset f 1\ninput x f32[3]\noutput y\nfunction f::a(p) -> (q) {\nq = f::a(p)\n}\n"
                "y = f::a(x)\n",
                XCVM_INVALID_MODEL, "or recursive");
    onnx_refuse(
        "opset 17\nopset f 1\ninput x f32[3]\noutput y\nfunction f::a(p) -> (q) {\nr = f::b(p)\nq = f::b(r)\n}\n"
        "function f::b(p) -> (q) {\nr = f::a(p)\ns = f::a(p)\nq = Add(r, s)\n}\ny = f::a(x)\n",
        XCVM_INVALID_MODEL, "or recursive");
}
END_TEST

/* ---- DoSomething ---- */

/* The sum of two vectors, and how long they are. */
static xcvm_status add(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                       xcvm_value **outputs, xcvm_error *error)
{
    ck_assert_uint_eq(input_count, 2);
    ck_assert_uint_eq(output_count, 2);
    ++*(int *)user;
    const int64_t length = xcvm_value_dims(inputs[0])[0];
    xcvm_status status = xcvm_tensor_create(NULL, XCVM_F32, 1, &length, &outputs[0], error);
    if (status == XCVM_OK)
        status = xcvm_tensor_create(NULL, XCVM_I64, 0, NULL, &outputs[1], error);
    if (status != XCVM_OK)
        return status;
    for (int64_t i = 0; i < length; i++)
        ((float *)xcvm_value_data(outputs[0]))[i] =
            ((const float *)xcvm_value_data(inputs[0]))[i] + ((const float *)xcvm_value_data(inputs[1]))[i];
    *(int64_t *)xcvm_value_data(outputs[1]) = length;
    return XCVM_OK;
}

static xcvm_session *session_of(const char *text, const xcvm_host_function *functions, size_t count,
                                xcvm_program **program)
{
    test_bytes model = onnx_from_text(text), bytes = {0};
    xcvm_session *session;
    xcvm_value *x;
    xcvm_error error;
    xcvm_status status = xcc_compile(model.at, model.length, NULL, (xcvm_sink){test_bytes_sink, &bytes}, NULL, &error);
    ck_assert_msg(status == XCVM_OK, "%s", error.message);
    ck_assert_int_eq(xcvm_program_load(bytes.at, bytes.length,
                                       &(xcvm_load_options){sizeof(xcvm_load_options), .copy = true}, program, &error),
                     XCVM_OK);
    const xcvm_session_options options = {.size = sizeof options, .functions = functions, .function_count = count};
    ck_assert_int_eq(xcvm_session_create(*program, &options, &session, &error), XCVM_OK);
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, 1, &(int64_t){3}, &x, &error), XCVM_OK);
    memcpy(xcvm_value_data(x), (const float[]){1, 2, 3}, 3 * sizeof(float));
    ck_assert_int_eq(xcvm_session_set_input(session, 0, x, &error), XCVM_OK);
    xcvm_value_release(x);
    test_bytes_free(&bytes);
    test_bytes_free(&model);
    return session;
}

/* The model declares the types of results; otherwise they are that of the first operand. */
#define SUMS                                                                                                           \
    PLUS "input x f32[N]\noutput y\noutput n i64[]\ns = Neg(x)\n"                                                      \
         "t, n = org.chainer::DoSomething(x, s) function_name=\"add\"\ny = Add(t, x)\n"

START_TEST(functions_of_the_host)
{
    int calls = 0;
    xcvm_error error;
    xcvm_program *program;
    const xcvm_host_function functions[] = {{"other", NULL, NULL}, {"add", add, &calls}};
    xcvm_session *session = session_of(SUMS, functions, 2, &program);
    for (int i = 1; i <= 3; i++) {
        xcvm_status status = xcvm_session_run(session, NULL, &error);
        ck_assert_msg(status == XCVM_OK, "%s", error.message);
        ck_assert_int_eq(calls, i);
        const float *y = xcvm_value_data(xcvm_session_get_output(session, 0));
        ck_assert(y[0] == 1 && y[1] == 2 && y[2] == 3);
        ck_assert_int_eq(*(const int64_t *)xcvm_value_data(xcvm_session_get_output(session, 1)), 3);
    }
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
}
END_TEST

START_TEST(functions_that_are_missing)
{
    xcvm_error error;
    xcvm_program *program;
    xcvm_session *session = session_of(SUMS, NULL, 0, &program);
    ck_assert_int_eq(xcvm_session_run(session, NULL, &error), XCVM_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "\"add\" is not registered"));
    ck_assert_str_eq(error.instruction, "HostCall");
    xcvm_session_destroy(session);
    xcvm_program_destroy(program);
    onnx_refuse(PLUS "input x f32[N]\noutput y\ny = org.chainer::DoSomething(x)\n", XCVM_INVALID_MODEL,
                "'function_name' is missing");
    onnx_refuse(PLUS "input x seq(f32)\noutput y seq(f32)\ny = org.chainer::DoSomething(x) function_name=\"f\"\n",
                XCVM_UNSUPPORTED, "declared to be no tensor");
}
END_TEST

Suite *suite_compiler_lower_plus(void);
Suite *suite_compiler_lower_plus(void)
{
    Suite *suite = suite_create("compiler/lower_plus");
    TCase *refused = tcase_create("refused");
    tcase_add_test(refused, items_that_make_no_sense);
    tcase_add_test(refused, types_that_are_not_known);
    tcase_add_test(refused, attributes_out_of_range);
    tcase_add_test(refused, functions_that_call_themselves);
    suite_add_tcase(suite, refused);
    TCase *host = tcase_create("host");
    tcase_add_test(host, functions_of_the_host);
    tcase_add_test(host, functions_that_are_missing);
    suite_add_tcase(suite, host);
    return suite;
}
