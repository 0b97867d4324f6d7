/* Functions of other define-by-run systems that no other suite covers: of Autograd, Chainer, DyNet, Paddle and
 * static_graph. Test names have the numbers of the survey. */
#include "compiler/ir/compose.h"
#include "ops/table/table.h"
#include "tests/tape/f64_support.h"
#include "tests/tape/static_support.h"
#include "xcvm/functions.h"
#include "xcvm/optimizers.h"

/* ---- Autograd ---- */

/* f(x) = (x0 x1, x0 + x1^2), and g of two numbers, their product times the first */
static xcvm_var pair_of(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    xcvm_var x[2];
    xcvm_Split(t, xs[0], .axis = 0, .out = {{x, 2}});
    return xcvm_Concat(t, XCVM_VARS(xcvm_Mul(t, x[0], x[1]), xcvm_Add(t, x[0], xcvm_Mul(t, x[1], x[1]))), .axis = 0);
}

static xcvm_var loss_of(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)count;
    xcvm_var x[2];
    xcvm_Split(t, xs[0], .axis = 0, .out = {{x, 2}});
    if (user != NULL) /* auxiliary output */
        *(xcvm_var *)user = xcvm_var_keep(t, xcvm_var_detach(t, x[0]));
    return xcvm_ReduceSum(t, xcvm_Mul(t, xcvm_Mul(t, x[0], x[0]), x[1]), .keepdims = 0);
}

static xcvm_var gradient_of_loss(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_var value, gradient;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){loss_of, user}, count, xs, XCVM_ABSENT, &value,
                                         &gradient, ok));
    return gradient;
}

static xcvm_var squares(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    (void)count;
    return xcvm_Mul(t, xs[0], xs[0]);
}

/* Autograd's derived operators: elementwise_grad, deriv, hessian, tensor_jacobian_product, make_ggnvp,
 * grad_and_aux. */
START_TEST(c1_6_operators_made_of_others)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = F64S(t, 2, 3), ones = F64S(t, 1, 1), v = F64S(t, 1, -1);
    xcvm_var value, gradient, change, matrix, aux = XCVM_ABSENT;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){squares, NULL}, 1, &x, ones, &value, &gradient, ok));
    CHECK_F64(t, gradient, 4, 6); /* element-wise */
    const xcvm_var at = number(t, 5), one = number(t, 1);
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){squares, NULL}, 1, &at, &one, &value, &change, ok));
    CHECK_F64(t, change, 10);
    /* g(x) = x0^2 x1: H = [[2 x1, 2 x0], [2 x0, 0]] */
    OK(xcvm_tape_jacobian(t, (xcvm_tape_function){gradient_of_loss, NULL}, x, &matrix, ok));
    CHECK_F64(t, matrix, 6, 4, 4, 0);
    /* J = [[x1, x0], [1, 2 x1]] */
    OK(xcvm_tape_jacobian(t, (xcvm_tape_function){pair_of, NULL}, x, &matrix, ok));
    CHECK_F64(t, matrix, 3, 2, 1, 6);
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){pair_of, NULL}, 1, &x, v, &value, &gradient, ok));
    CHECK_F64(t, gradient, 3 - 1, 2 - 6);
    /* J^T H(f(x)) J v: f = (6, 11), J v = (1, -5), H = [[22, 12], [12, 0]], H J v = (-38, 12) */
    OK(xcvm_tape_jacobian_vector_product(t, (xcvm_tape_function){pair_of, NULL}, 1, &x, &v, &value, &change, ok));
    CHECK_F64(t, change, 1, -5);
    OK(xcvm_tape_hessian_vector_product(t, (xcvm_tape_function){loss_of, NULL}, value, change, &matrix, ok));
    CHECK_F64(t, matrix, -38, 12);
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){pair_of, NULL}, 1, &x, matrix, &value, &gradient, ok));
    CHECK_F64(t, gradient, 3 * -38 + 12, 2 * -38 + 6 * 12);
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){loss_of, &aux}, 1, &x, XCVM_ABSENT, &value, &gradient,
                                         ok));
    CHECK_F64(t, gradient, 12, 4);
    CHECK_F64(t, aux, 2);
    close_tape(t);
}
END_TEST

/* y = sqrt(a), as the fixed point of y = (y + a / y) / 2. */
static xcvm_var newton(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    (void)user;
    ck_assert_uint_eq(count, 2);
    return xcvm_Mul(t, xcvm_Add(t, xs[1], xcvm_Div(t, xs[0], xs[1])), number(t, 0.5));
}

static xcvm_status find_fixed_point(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                    xcvm_var *out)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    xcvm_var y = in[0];
    for (int i = 0; i < 30; i++)
        y = newton(NULL, t, 2, (const xcvm_var[]){in[0], y});
    out[0] = y;
    return XCVM_OK;
}

/* The cotangent of a is that of f at w = g + w df/dy, which is a fixed point too. */
static xcvm_status through_fixed_point(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                       const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const xcvm_var xs[] = {in[0], out[0]};
    xcvm_var w = out_gradients[0], value, gradients[2];
    (void)user;
    (void)in_count;
    (void)out_count;
    for (int i = 0; i < 30; i++) {
        xcvm_error error;
        XCVM_TRY(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){newton, NULL}, 2, xs, w, &value, gradients,
                                                   &error));
        w = xcvm_Add(t, out_gradients[0], gradients[1]);
    }
    in_gradients[0] = gradients[0];
    return XCVM_OK;
}

static xcvm_var root_of(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_var y;
    return xcvm_tape_call_operation(t, user, count, xs, 1, &y);
}

/* A fixed point with the gradient of the implicit function: the iteration is not recorded. */
START_TEST(c1_7_fixed_points)
{
    xcvm_tape *t = open_tape();
    xcvm_operation root = {
        .size = sizeof root, .name = "fixed point", .forward = find_fixed_point, .backward = through_fixed_point};
    const xcvm_var a = number(t, 9);
    xcvm_var value, gradient;
    OK(xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){root_of, &root}, 1, &a, XCVM_ABSENT, &value, &gradient,
                                         ok));
    CHECK_F64(t, value, 3);
    CHECK_F64(t, gradient, 1.0 / 6);
    OK(xcvm_tape_check_gradients(t, (xcvm_tape_function){root_of, &root}, 1, &a, NULL, ok));
    const xcvm_var p = parameter_f64(t, 4);
    root_of(&root, t, 1, &p);
    ck_assert_uint_eq(stats_of(t).recorded, 1);
    close_tape(t);
}
END_TEST

static xcvm_var one_instruction(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcc_builder b = {.graph = t->module.graph, .name = "", .origin = ""};
    tape_variable *x = tape_resolve_optional(t, xs[0], "the operand");
    (void)count;
    const xcc_value *y = x != NULL ? xcc_build_unary(&b, *(const xcvm_opcode *)user, &x->value) : NULL;
    return y != NULL ? tape_handle(tape_variable_of(y)) : TAPE_FAILED;
}

/* True if the instruction can be called with one tensor. */
static bool is_unary(const xcvm_schema *schema)
{
    size_t in = 0, out = 0;
    for (size_t i = 0; i < schema->field_count; i++) {
        const xcvm_field *f = &schema->fields[i];
        in += xcvm_field_is_input(f);
        out += xcvm_field_is_operand(f) && !xcvm_field_is_input(f);
    }
    return in == 1 && out == 1 && !xcvm_field_is_list(&schema->fields[0]) && !xcvm_field_is_list(&schema->fields[1]);
}

/* Every instruction has its gradients, backward and forward. Unary ones are compared with differences here up to
 * second order, others in their cases. */
START_TEST(c1_8_registrations)
{
    xcvm_tape *t = open_tape();
    const xcvm_var below_one = F64S(t, 0.3, 0.55, 0.8), above = F64S(t, 1.3, 1.55, 1.8);
    size_t rules = 0, checked = 0;
    for (int number = 1; number < XCVM_OPCODE_LIMIT; number++) {
        const xcvm_schema *schema = xcvm_schema_of(number);
        xcvm_error error = {0};
        xcvm_var value, gradient;
        xcvm_opcode opcode = (xcvm_opcode)number;
        const xcvm_var x = number == XCVM_OP_Acosh ? above : below_one;
        if (schema == NULL || schema->gradient.rule == NULL)
            continue;
        rules++;
        if (!is_unary(schema) ||
            xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){one_instruction, &opcode}, 1, &x,
                                              F64S(t, 1, 1, 1), &value, &gradient, &error) != XCVM_OK)
            continue; /* needs attributes, or another shape */
        const xcvm_gradient_check_options check = {.size = sizeof check, .order = 2, .rtol = 1e-5, .atol = 1e-5};
        ck_assert_msg(xcvm_tape_check_gradients(t, (xcvm_tape_function){one_instruction, &opcode}, 1, &x, &check,
                                                &error) == XCVM_OK,
                      "%s: %s", schema->name, error.message);
        checked++;
    }
    ck_assert_uint_ge(rules, 120);
    ck_assert_uint_ge(checked, 40);
    close_tape(t);
}
END_TEST

/* ---- Chainer ---- */

/* The hidden layer, computed again in the backward pass. */
typedef struct forgetting {
    xcvm_operation operation;
    int forwards;
} forgetting;

static xcvm_var deep(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    xcvm_var x = xs[0];
    (void)count;
    ++*(int *)user;
    for (int i = 0; i < 8; i++)
        x = xcvm_Tanh(t, xcvm_Mul(t, x, xs[1]));
    return x;
}

static xcvm_status forget_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  xcvm_var *out)
{
    (void)out_count;
    out[0] = deep(&((forgetting *)user)->forwards, t, in_count, in);
    return XCVM_OK;
}

static xcvm_status forget_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                   const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    xcvm_var value;
    xcvm_error error;
    (void)out_count;
    (void)out;
    return xcvm_tape_vector_jacobian_product(t, (xcvm_tape_function){deep, &((forgetting *)user)->forwards}, in_count,
                                             in, out_gradients[0], &value, in_gradients, &error);
}

/* Chainer's F.forget: values are not kept, and computed again in the backward pass, with equal gradients. A scaled
 * loss gives scaled gradients, and the step removes the scale. */
START_TEST(c2_5_forgetting_and_loss_scales)
{
    xcvm_tape *t = open_tape();
    float numbers[256];
    for (int i = 0; i < 256; i++)
        numbers[i] = (float)i / 256;
    forgetting f = {.forwards = 0};
    f.operation = (xcvm_operation){.size = sizeof f.operation,
                                   .name = "forget",
                                   .forward = forget_forward,
                                   .backward = forget_backward,
                                   .user = &f};
    const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(256), numbers), w = parameter(t, 1.5f);
    size_t live[2];
    xcvm_var gradients[2][2];
    for (int k = 0; k < 2; k++) {
        const xcvm_var in[] = {x, w};
        xcvm_var y;
        const size_t before = stats_of(t).live_bytes;
        if (k == 0)
            y = deep(&f.forwards, t, 2, in);
        else
            xcvm_tape_call_operation(t, &f.operation, 2, in, 1, &y);
        live[k] = stats_of(t).live_bytes - before;
        backward(t, xcvm_ReduceSum(t, xcvm_Mul(t, y, y), .keepdims = 0));
        for (int i = 0; i < 2; i++) {
            gradients[k][i] = xcvm_var_keep(t, xcvm_Neg(t, xcvm_var_get_gradient(t, in[i])));
            xcvm_var_clear_gradient(t, in[i]);
        }
        xcvm_tape_reset(t);
    }
    ck_assert_int_eq(f.forwards, 3);
    ck_assert_uint_lt(live[1] * 4, live[0]);
    check_bytes(t, gradients[1][0], t, gradients[0][0], 1e-6);
    check_bytes(t, gradients[1][1], t, gradients[0][1], 1e-5);
    xcvm_optimizer *o;
    OK(xcvm_optimizer_create(t, "sgd:lr=1", NULL, &o, ok));
    OK(xcvm_optimizer_add(o, "w", w, ok));
    const xcvm_var scale = constant(t, 1024), loss = xcvm_Mul(t, xcvm_Mul(t, w, w), scale);
    backward(t, loss);
    CHECK_F32(t, xcvm_var_get_gradient(t, w), 3 * 1024);
    xcvm_optimizer_set_gradient_scale(o, 1.0 / 1024);
    OK(xcvm_optimizer_step(o, ok));
    CHECK_F32(t, w, 1.5f - 3);
    xcvm_optimizer_destroy(o);
    close_tape(t);
}
END_TEST

/* Wrong gradients of an operation: too few, of another shape or type, or no variable. */
enum { NO_GRADIENT, OTHER_SHAPE, OTHER_TYPE, STALE, WRONG };

static xcvm_status copy_forward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                xcvm_var *out)
{
    (void)user;
    (void)in_count;
    (void)out_count;
    out[0] = xcvm_Neg(t, xcvm_Neg(t, in[0]));
    return XCVM_OK;
}

static xcvm_status wrong_backward(void *user, xcvm_tape *t, size_t in_count, const xcvm_var *in, size_t out_count,
                                  const xcvm_var *out, const xcvm_var *out_gradients, xcvm_var *in_gradients)
{
    const int what = *(const int *)user;
    (void)in_count;
    (void)in;
    (void)out_count;
    (void)out;
    if (what == OTHER_SHAPE)
        in_gradients[0] = constant(t, 1);
    if (what == OTHER_TYPE)
        in_gradients[0] = xcvm_Cast(t, out_gradients[0], .to = XCVM_F64);
    if (what == STALE)
        xcvm_var_release(t, in_gradients[0] = constant(t, 1));
    return XCVM_OK;
}

/* Gradients that do not fit are errors that name the op, the operand and both types. An omitted one is zero. */
START_TEST(c2_6_gradients_that_do_not_fit)
{
    static const char *const messages_of[] = {"", "the gradient of operand 0 is f32[], the operand f32[2]",
                                              "the gradient of operand 0 is f64[2], the operand f32[2]",
                                              "a gradient of the operation"};
    for (int what = 0; what < WRONG; what++) {
        xcvm_tape *t = open_tape();
        xcvm_error error = {0};
        xcvm_operation o = {
            .size = sizeof o, .name = "wrong", .forward = copy_forward, .backward = wrong_backward, .user = &what};
        const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(1, 2));
        xcvm_var y;
        xcvm_tape_call_operation(t, &o, 1, &x, 1, &y);
        const xcvm_status status = xcvm_tape_backward(t, xcvm_ReduceSum(t, y), NULL, &error);
        ck_assert_msg((status == XCVM_OK) == (what == NO_GRADIENT), "%d: %s", what, error.message);
        ck_assert_msg(strstr(error.message, messages_of[what]) != NULL, "%d: %s", what, error.message);
        if (what != NO_GRADIENT)
            ck_assert_str_eq(error.instruction, "wrong");
        ck_assert_ptr_null(xcvm_var_get_gradient(t, x).at);
        close_tape(t);
    }
}
END_TEST

typedef struct within {
    xcvm_var root, wrt, gradient;
    xcvm_status status;
    xcvm_error error;
} within;

static xcvm_var take_gradients(void *user, xcvm_tape *t, xcvm_var gradient)
{
    within *w = user;
    (void)gradient;
    w->status = xcvm_tape_gradients(t, 1, &w->root, NULL, 1, &w->wrt, NULL, &w->gradient, &w->error);
    if (w->status == XCVM_OK)
        xcvm_var_keep(t, w->gradient);
    return XCVM_ABSENT;
}

/* Gradients of other ops may be taken during a pass. Those of ops that the pass still has to visit are refused, and
 * the pass continues. */
START_TEST(c2_4_gradients_within_a_backward)
{
    for (int i = 0; i < 3; i++) {
        xcvm_tape *t = open_tape();
        const xcvm_var x = xcvm_tape_parameter(t, XCVM_F32, 1, DIMS(2), F32S(2, 3)), other = parameter(t, 5);
        xcvm_var parts[2];
        xcvm_Split(t, x, .axis = 0, .out = {{parts, 2}});
        const xcvm_var apart = xcvm_Mul(t, other, other), second = xcvm_ReduceSum(t, parts[1], .keepdims = 0),
                       square = xcvm_Mul(t, parts[0], parts[0]);
        within w = {.root = i == 0   ? apart
                            : i == 1 ? second
                                     : xcvm_ReduceSum(t, parts[0], .keepdims = 0),
                    .wrt = i == 0 ? other : x};
        xcvm_error error;
        ck_assert_int_eq(xcvm_var_add_hook(t, square, (xcvm_gradient_hook){take_gradients, &w}, &error), XCVM_OK);
        backward(t, xcvm_ReduceSum(t, square, .keepdims = 0));
        CHECK_F32(t, xcvm_var_get_gradient(t, x), 4, 0);
        ck_assert_int_eq(w.status, i == 0 ? XCVM_OK : XCVM_INVALID_ARGUMENT);
        if (i == 0)
            CHECK_F32(t, w.gradient, 10);
        else
            ck_assert_ptr_nonnull(strstr(w.error.message, "while a backward pass visits the same calls"));
        close_tape(t);
    }
}
END_TEST

/* ---- DyNet ---- */

static xcvm_var function_of_dynet(void *user, xcvm_tape *t, size_t count, const xcvm_var *xs)
{
    const xcvm_var target = xcvm_tape_constant(t, XCVM_I64, 0, NULL, DIMS(1)), x = xs[0];
    (void)count;
    switch (*(const int *)user) {
    case 0:
        return xcvm_tape_pick_neg_log_softmax(t, x, target);
    case 1:
        return xcvm_tape_hinge(t, x, target, 0.7);
    case 2:
        return xcvm_ReduceSum(t, xcvm_LogSoftmax(t, xcvm_Mul(t, x, x)), .keepdims = 0);
    case 3:
        return xcvm_ReduceLogSumExp(t, x, .keepdims = 0);
    case 4:
        return xcvm_ReduceSum(t, xcvm_Elu(t, x), .keepdims = 0);
    case 5:
        return xcvm_ReduceMax(t, xcvm_Softsign(t, x), .keepdims = 0);
    case 6:
        return xcvm_ReduceSum(t, xcvm_Softmax(t, x), .keepdims = 0);
    default:
        return XCVM_ABSENT;
    }
}

/* Gradients of DyNet's node types equal differences. */
START_TEST(c4_10_gradients_of_nodes)
{
    xcvm_tape *t = open_tape();
    const xcvm_var x = F64S(t, 0.3, -0.9, 1.7);
    for (int i = 0; i < 7; i++) {
        xcvm_error error = {0};
        ck_assert_msg(xcvm_tape_check_gradients(t, (xcvm_tape_function){function_of_dynet, &i}, 1, &x, NULL, &error) ==
                          XCVM_OK,
                      "%d: %s", i, error.message);
    }
    close_tape(t);
}
END_TEST

Suite *suite_tape_survey_functions(void);
Suite *suite_tape_survey_functions(void)
{
    return SUITE_OF("tape_survey_functions", c1_6_operators_made_of_others, c1_7_fixed_points, c1_8_registrations,
                    c2_4_gradients_within_a_backward, c2_5_forgetting_and_loss_scales, c2_6_gradients_that_do_not_fit,
                    c4_10_gradients_of_nodes);
}
