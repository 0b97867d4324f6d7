// A C++ program that defines a network by running it: calls with attributes, lists and several results, and a gradient.
#include <xcvm/tape.h>

#include <cmath>
#include <cstdint>
#include <cstdio>

static int fail(xcvm_tape *tape, const char *what)
{
    xcvm_error error;
    std::fprintf(stderr, "tape: %s: %s\n", what,
                 xcvm_tape_status(tape, &error) != XCVM_OK ? error.message : "the numbers are wrong");
    xcvm_tape_destroy(tape);
    return 1;
}

static bool is(xcvm_tape *tape, xcvm_var v, std::size_t count, const float *expected)
{
    const xcvm_value *value = nullptr;
    if (xcvm_var_get_value(tape, v, &value, nullptr) != XCVM_OK || xcvm_value_count(value) != count)
        return false;
    const float *elements = static_cast<const float *>(xcvm_value_data(value));
    for (std::size_t i = 0; i < count; i++)
        if (!(std::fabs(elements[i] - expected[i]) < 1e-6f))
            return false;
    return true;
}

int main()
{
    xcvm_error error;
    xcvm_tape *t = nullptr;
    if (xcvm_tape_create(nullptr, &t, &error) != XCVM_OK) {
        std::fprintf(stderr, "tape: %s\n", error.message);
        return 1;
    }
    const float nine[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, ones[] = {1, 1, 1, 1}, low[] = {-20};
    const std::int64_t image[] = {1, 1, 3, 3}, window[] = {1, 1, 2, 2}, one[] = {1}, two[] = {2}, flat[] = {9};
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 4, image, nine);
    const xcvm_var w = xcvm_tape_constant(t, XCVM_F32, 4, window, ones);
    const float sums[] = {12, 16, 24, 28}, first[] = {12}, above[] = {0, 0, 4, 8};
    if (!is(t, xcvm_Conv(t, x, w), 4, sums) ||
        !is(t, xcvm_Conv(t, xcvm_Conv_attributes().strides(XCVM_INTS(2, 2)), x, w), 1, first) ||
        !is(t,
            xcvm_Conv(t, xcvm_Conv_attributes().activation(XCVM_ACTIVATION_Relu), x, w,
                      xcvm_tape_constant(t, XCVM_F32, 1, one, low)),
            4, above))
        return fail(t, "Conv");
    const xcvm_var row = xcvm_Reshape(t, x, xcvm_tape_constant(t, XCVM_I64, 1, one, flat));
    const float twice[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    if (!is(t, xcvm_Concat(t, xcvm_Concat_attributes().axis(0), XCVM_VARS(row, row)), 18, twice))
        return fail(t, "Concat");
    // An operand that is left out in the middle, and a default that is overridden by 0.
    const float clipped[] = {1, 2, 3, 4, 4, 4, 4, 4, 4}, four[] = {4};
    if (!is(t, xcvm_Clip(t, row, XCVM_ABSENT, xcvm_tape_constant(t, XCVM_F32, 0, nullptr, four)), 9, clipped))
        return fail(t, "Clip");
    xcvm_var values = XCVM_ABSENT, indices = XCVM_ABSENT;
    const float most[] = {9, 8};
    const xcvm_value *order = nullptr;
    const xcvm_var k = xcvm_tape_constant(t, XCVM_I64, 1, one, two);
    const xcvm_var top = xcvm_TopK(t, xcvm_TopK_attributes().values(&values).indices(&indices), row, k);
    if (top.at != values.at || !is(t, values, 2, most) || xcvm_var_get_value(t, indices, &order, nullptr) != XCVM_OK)
        return fail(t, "TopK");
    // The gradient of the sum of squares.
    if (xcvm_tape_backward(t, xcvm_ReduceSum(t, xcvm_ReduceSum_attributes().keepdims(0), xcvm_Mul(t, x, x)), nullptr,
                           &error) != XCVM_OK)
        return fail(t, error.message);
    const float slopes[] = {2, 4, 6, 8, 10, 12, 14, 16, 18};
    if (!is(t, xcvm_var_get_gradient(t, x), 9, slopes))
        return fail(t, "gradient");
    xcvm_tape_destroy(t);
    std::printf("calls of the tape in C++\n");
}
