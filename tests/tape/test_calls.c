/* Tests of op calls: every instruction, its defaults, lists and results; failures and their locations. */
#include "ops/table/table.h"
#include "proto/arguments.h"
#include "tape/op_binding.h"
#include "tests/tape/support.h"

/* ---- Every row ---- */

/* A call with nothing but the tape has the defaults of the definition. */
static size_t rows_seen;

static void check_defaults(xcvm_tape *t, int32_t number, const void *call)
{
    const xcvm_schema *schema = xcvm_schema_of(number);
    const tape_op_binding *row = tape_op_binding_of(number);
    tape_op_sizes sizes = {0};
    void *behind;
    row->measure(call, &sizes);
    tape_op_record *r = tape_op_record_create(t, schema, sizes.in, sizes.out, sizes.extra, &behind);
    tape_op_binder binder = {.tape = t, .record = r, .behind = behind};
    row->bind(&binder, call, r->args);
    char *expected = calloc(1, schema->args_size);
    xcvm_args_default(schema, expected);
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        const void *got = (const char *)r->args + f->offset, *wanted = expected + f->offset;
        if (f->kind == XCVM_FIELD_INT || f->kind == XCVM_FIELD_FLOAT)
            ck_assert_msg(memcmp(got, wanted, 8) == 0, "%s.%s", schema->name, f->name);
        else if (f->kind == XCVM_FIELD_DTYPE || f->kind == XCVM_FIELD_CHOICE)
            ck_assert_msg(memcmp(got, wanted, sizeof(int)) == 0, "%s.%s", schema->name, f->name);
        else if (f->kind == XCVM_FIELD_TEXT)
            ck_assert_str_eq(((const xcvm_text *)got)->at, f->text_default);
    }
    free(expected);
    tape_free(t, r, r->bytes);
    rows_seen++;
}

START_TEST(every_row_can_be_called)
{
    xcvm_tape *t = open_tape();
    size_t rows = 0;
#define CALL_PURE(...) __VA_ARGS__
#define CALL_RANDOM(...) __VA_ARGS__
#define CALL_EFFECT(...) __VA_ARGS__
#define CALL_UPDATE(...)
#define CALL_CONTROL(...)
#define xcvm_call(number, ...) check_defaults(t, number, __VA_ARGS__)
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect(xcvm_##Name(t); rows++;)
#include "ops/instructions.def"
#undef xcvm_call
    ck_assert_uint_eq(rows_seen, rows);
    ck_assert_uint_gt(rows, 180);
    /* Control flow and unknown numbers are not callable. */
    ck_assert_ptr_null(tape_op_binding_of(XCVM_OP_Jmp));
    ck_assert_ptr_null(tape_op_binding_of(0));
    ck_assert_ptr_null(tape_op_binding_of(-1));
    ck_assert_ptr_null(tape_op_binding_of(XCVM_OPCODE_LIMIT));
    xcvm_tape_destroy(t);
}
END_TEST

/* A call without operands reaches its own instruction: it succeeds, or the failure has its name. */
START_TEST(every_row_reaches_its_kernel)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
#define XCVM_OP(Name, number, operands, shape, cost, effect, gradient, onnx, summary)                                  \
    CALL_##effect((void)xcvm_##Name(t);                                                                                \
                  if (xcvm_tape_status(t, &error) != XCVM_OK) ck_assert_str_eq(error.instruction, #Name);)
#include "ops/instructions.def"
    xcvm_tape_reset(t);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    close_tape(t);
}
END_TEST

/* ---- Operands, attributes and results ---- */

START_TEST(attributes_and_lists)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 4, DIMS(1, 1, 3, 3), F32S(1, 2, 3, 4, 5, 6, 7, 8, 9));
    const xcvm_var w = xcvm_tape_constant(t, XCVM_F32, 4, DIMS(1, 1, 2, 2), F32S(1, 1, 1, 1));
    CHECK_F32(t, xcvm_Conv(t, x, w), 12, 16, 24, 28);
    CHECK_F32(t, xcvm_Conv(t, x, w, .strides = XCVM_INTS(2, 2)), 12);
    const xcvm_var low = constant(t, -1);
    CHECK_F32(t,
              xcvm_Conv(t, x, w, xcvm_tape_constant(t, XCVM_F32, 1, DIMS(1), F32S(-1)),
                        .activation = XCVM_ACTIVATION_Relu, .pads = XCVM_INTS(0, 0, 1, 1)),
              11, 15, 8, 23, 27, 14, 14, 16, 8);
    CHECK_F32(t, xcvm_MaxPool(t, x, .kernel_shape = XCVM_INTS(2, 2)), 5, 6, 8, 9);
    CHECK_F32(t, xcvm_MaxPool(t, x, .kernel_shape = XCVM_INTS(2, 2), .auto_pad = XCVM_AUTO_PAD_SAME_UPPER), 5, 6, 6, 8,
              9, 9, 8, 9, 9);
    CHECK_F32(t, xcvm_ConvTranspose(t, w, w), 1, 2, 1, 2, 4, 2, 1, 2, 1);
    const xcvm_var rows[] = {xcvm_Reshape(t, x, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(9)))};
    CHECK_F32(t, xcvm_Concat(t, XCVM_VARS(rows[0], rows[0]), .axis = 0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7,
              8, 9);
    /* An axis of 0 is 0, not the default. */
    CHECK_F32(t, xcvm_Softmax(t, xcvm_tape_constant(t, XCVM_F32, 2, DIMS(2, 1), F32S(1, 1)), .axis = 0), 0.5f, 0.5f);
    CHECK_F32(t, xcvm_LeakyRelu(t, low), -0.01f);
    CHECK_F32(t, xcvm_LeakyRelu(t, low, .alpha = 0), 0);
    close_tape(t);
}
END_TEST

START_TEST(several_results)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = xcvm_tape_constant(t, XCVM_F32, 1, DIMS(4), F32S(3, 1, 2, 5));
    const xcvm_var k = xcvm_tape_constant(t, XCVM_I64, 1, DIMS(1), DIMS(2));
    xcvm_var values, indices, pieces[2];
    const xcvm_var first = xcvm_TopK(t, x, k, .out = {&values, &indices});
    CHECK_F32(t, values, 5, 3);
    ck_assert_ptr_eq(first.at, values.at);
    ck_assert_int_eq(((const int64_t *)xcvm_value_data(value_of(t, indices)))[0], 3);
    CHECK_F32(t, xcvm_Split(t, x, .out = {{pieces, 2}}), 3, 1);
    CHECK_F32(t, pieces[1], 2, 5);
    /* All results of a failed call are failed. */
    xcvm_TopK(t, x, x, .out = {&values, &indices});
    check_failed(t, XCVM_TYPE_MISMATCH, "k has element type f32");
    xcvm_Neg(t, indices);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is the result of a call that failed");
    close_tape(t);
}
END_TEST

START_TEST(texts_and_lists_of_values)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    xcvm_value *strings;
    ck_assert_int_eq(
        xcvm_string_tensor_create(NULL, 1, DIMS(2), (const char *const[]){"a b", "c"}, NULL, &strings, &error),
        XCVM_OK);
    const xcvm_var x = xcvm_tape_value(t, strings);
    xcvm_value_release(strings);
    xcvm_var count;
    xcvm_StringSplit(t, x, .delimiter = " ", .out = {.count = &count});
    ck_assert_int_eq(((const int64_t *)xcvm_value_data(value_of(t, count)))[0], 2);
    const xcvm_var kept = xcvm_StringNormalizer(t, x, .stopwords = XCVM_TEXTS("c", "d"), .is_case_sensitive = 1);
    ck_assert_uint_eq(xcvm_value_count(value_of(t, kept)), 1);
    const xcvm_var one = constant(t, 1), two = constant(t, 2);
    const xcvm_var list = xcvm_SequenceConstruct(t, XCVM_VARS(one, two));
    CHECK_F32(t, xcvm_SequenceAt(t, list, xcvm_tape_scalar(t, XCVM_I64, 1)), 2);
    ck_assert_int_eq(xcvm_value_kind(value_of(t, list)), XCVM_KIND_SEQUENCE);
    close_tape(t);
}
END_TEST

/* Random ops continue the tape's generator: equal seeds give equal numbers. */
START_TEST(random_numbers_follow_the_seed)
{
    xcvm_tape *a = open_tape(), *b = open_tape();
    const xcvm_var three = xcvm_tape_constant(a, XCVM_I64, 1, DIMS(1), DIMS(3));
    const xcvm_var x = xcvm_RandomNormal(a, three), z = xcvm_RandomNormal(a, three);
    check_f32(b, xcvm_RandomNormal(b, xcvm_tape_constant(b, XCVM_I64, 1, DIMS(1), DIMS(3))), 3,
              xcvm_value_data(value_of(a, x)));
    ck_assert_int_ne(memcmp(xcvm_value_data(value_of(a, x)), xcvm_value_data(value_of(a, z)), 12), 0);
    close_tape(a);
    close_tape(b);
}
END_TEST

/* ---- Failures ---- */

/* The first failure stays, names the op and its number, and is reported once by the next function that returns a
 * status. */
START_TEST(the_first_failure_stays)
{
    xcvm_tape *t = open_tape();
    xcvm_error error;
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(3), NULL);
    const xcvm_var y = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), NULL);
    const xcvm_var good = xcvm_Exp(t, x), bad = xcvm_Mul(t, xcvm_Add(t, good, y), xcvm_Sub(t, x, x));
    ck_assert_ptr_null(bad.at);
    ck_assert(isnan(xcvm_var_get_number(t, x)));
    ck_assert_int_eq(xcvm_tape_backward(t, bad, NULL, &error), XCVM_SHAPE_MISMATCH);
    ck_assert_int_eq(error.pc, 1);
    ck_assert_str_eq(error.instruction, "Add");
    ck_assert_str_eq(error.message, "shapes [3] and [2] do not broadcast");
    ck_assert_int_eq(xcvm_tape_backward(t, bad, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "the root is the result of a call that failed");
    ck_assert_int_eq(xcvm_tape_backward(t, xcvm_ReduceSum(t, good), NULL, &error), XCVM_OK);
    xcvm_Softmax(t, x, .axis = 9);
    check_failed(t, XCVM_OUT_OF_RANGE, "attribute 'axis' is 9, not between");
    xcvm_Gelu(t, x, .approximate = 2);
    check_failed(t, XCVM_OUT_OF_RANGE, "attribute 'approximate' is 2, not between 0 and 1");
    xcvm_Cast(t, x, .to = (xcvm_dtype)77);
    check_failed(t, XCVM_INVALID_ARGUMENT, "attribute 'to' is 77, which is no element type");
    xcvm_Neg(t);
    check_failed(t, XCVM_INVALID_ARGUMENT, "x is absent, but must be given");
    /* x, y, the root and its gradient: failed ops leave nothing. */
    ck_assert_uint_eq(stats_of(t).variables, 4);
    close_tape(t);
}
END_TEST

static xcvm_status failing(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                           xcvm_value **outputs, xcvm_error *error)
{
    (void)user;
    (void)input_count;
    (void)inputs;
    (void)output_count;
    (void)outputs;
    (void)error;
    return XCVM_IO;
}

START_TEST(host_functions_fail)
{
    const xcvm_host_function functions[] = {{"fail", failing, NULL}};
    const xcvm_tape_options options = {
        .size = sizeof options, .threads = 1, .functions = functions, .function_count = 1};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var x = parameter(t, 3);
    xcvm_var y;
    xcvm_HostCall(t, XCVM_VARS(x), .function = "fail", .dtypes = XCVM_INTS(1), .ranks = XCVM_INTS(0), .out = {{&y, 1}});
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_IO);
    ck_assert_str_eq(error.instruction, "HostCall");
    xcvm_HostCall(t, XCVM_VARS(x), .function = "none", .dtypes = XCVM_INTS(1), .ranks = XCVM_INTS(0), .out = {{&y, 1}});
    ck_assert_int_ne(xcvm_tape_status(t, &error), XCVM_OK);
    backward(t, xcvm_Sin(t, x));
    close_tape(t);
}
END_TEST

START_TEST(memory_limit)
{
    const xcvm_tape_options options = {.size = sizeof options, .threads = 1, .memory_limit = 1 << 20};
    xcvm_tape *t;
    xcvm_error error;
    ck_assert_int_eq(xcvm_tape_create(&options, &t, &error), XCVM_OK);
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(1 << 17), NULL);
    const xcvm_var y = xcvm_Exp(t, xcvm_Exp(t, x));
    ck_assert_ptr_null(y.at);
    ck_assert_int_eq(xcvm_tape_status(t, &error), XCVM_OUT_OF_MEMORY);
    ck_assert_str_eq(error.instruction, "Exp");
    xcvm_tape_reset(t);
    value_of(t, xcvm_Reshape(t, x, xcvm_tape_constant(t, XCVM_I64, 1, DIMS(2), DIMS(2, -1)))); /* a view */
    close_tape(t);
}
END_TEST

/* A sum over processes that nobody waits for is destroyed with the tape. An awaited one is that of one process. */
START_TEST(sums_over_processes)
{
    test_allocator a;
    test_allocator_start(&a, 0);
    xcvm_tape *t = open_tape_with(&a.allocator);
    const xcvm_var message = xcvm_AllReduceBegin(t, constant(t, 3));
    xcvm_AllReduceBegin(t, constant(t, 4));
    const int64_t ranks[] = {0};
    check_f32(t, xcvm_AllReduceEnd(t, message, .ranks = {ranks, 1}), 1, (const float[]){3});
    close_tape(t);
    ck_assert_uint_eq(a.live, 0);
}
END_TEST

START_TEST(null_tapes)
{
    xcvm_error error;
    const xcvm_var none = xcvm_Add(NULL, XCVM_ABSENT, XCVM_ABSENT);
    ck_assert_ptr_null(none.at);
    ck_assert_ptr_null(xcvm_tape_constant(NULL, XCVM_F32, 0, NULL, NULL).at);
    ck_assert_int_eq(xcvm_tape_backward(NULL, none, NULL, &error), XCVM_INVALID_ARGUMENT);
    ck_assert_int_eq(xcvm_tape_create(NULL, NULL, &error), XCVM_INVALID_ARGUMENT);
    const xcvm_tape_options bad = {.size = sizeof bad, .threads = -1};
    xcvm_tape *t;
    ck_assert_int_eq(xcvm_tape_create(&bad, &t, &error), XCVM_INVALID_ARGUMENT);
    xcvm_tape_destroy(NULL);
}
END_TEST

Suite *suite_tape_calls(void);
Suite *suite_tape_calls(void)
{
    return SUITE_OF("tape_calls", every_row_can_be_called, every_row_reaches_its_kernel, attributes_and_lists,
                    several_results, texts_and_lists_of_values, random_numbers_follow_the_seed, the_first_failure_stays,
                    host_functions_fail, memory_limit, sums_over_processes, null_tapes);
}
