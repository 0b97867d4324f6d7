/* Gradients of random expressions against central differences: first order a thousand times, up to third order a
 * hundred times. */
#include "tests/tape/random.h"

enum { LEAVES = 4, DEPTH = 12 };

/* Smooth functions whose values do not explode. */
static xcvm_var apply(xcvm_tape *t, uint64_t kind, xcvm_var a, xcvm_var b)
{
    const xcvm_var two = xcvm_tape_scalar(t, XCVM_F64, 2);
    switch (kind) {
    case 0:
        return xcvm_Add(t, a, b);
    case 1:
        return xcvm_Sub(t, a, b);
    case 2:
        return xcvm_Mul(t, xcvm_Tanh(t, a), b);
    case 3:
        return xcvm_Div(t, a, xcvm_Add(t, two, xcvm_Cos(t, b)));
    case 4:
        return xcvm_Sin(t, a);
    case 5:
        return xcvm_Exp(t, xcvm_Tanh(t, a));
    case 6:
        return xcvm_Log(t, xcvm_Add(t, two, xcvm_Sin(t, b)));
    case 7:
        return xcvm_Sigmoid(t, a);
    case 8:
        return xcvm_Pow(t, xcvm_Add(t, two, xcvm_Sin(t, a)), xcvm_Sigmoid(t, b));
    case 9:
        return xcvm_Softplus(t, a);
    case 10:
        return xcvm_Mul(t, a, xcvm_ReduceMean(t, xcvm_Sin(t, b)));
    default:
        return xcvm_MatMul(t, xcvm_Tanh(t, a), xcvm_Transpose(t, xcvm_Sin(t, b), .perm = XCVM_INTS(1, 0)));
    }
}
enum { KINDS = 12, SIDE = 2 };

/* The expression of a seed: the sum of the elements of a dozen matrix ops. */
static xcvm_var expression(xcvm_tape *t, uint64_t seed, const xcvm_var *leaves)
{
    xcvm_var pool[LEAVES + DEPTH];
    uint64_t state = seed;
    draw(&state);
    memcpy(pool, leaves, LEAVES * sizeof *pool);
    for (size_t i = LEAVES; i < LEAVES + DEPTH; i++) {
        const uint64_t kind = draw(&state) % KINDS, a = draw(&state) % i, b = draw(&state) % i;
        pool[i] = apply(t, kind, pool[a], pool[b]);
    }
    return xcvm_ReduceSum(t, xcvm_Add(t, pool[LEAVES + DEPTH - 1], pool[LEAVES + DEPTH - 2]), .keepdims = 0);
}

typedef struct point {
    double at[LEAVES][SIDE * SIDE], direction[LEAVES][SIDE * SIDE];
} point;

static point draw_point(uint64_t seed)
{
    point p;
    uint64_t state = ~seed;
    for (int i = 0; i < LEAVES; i++)
        for (int k = 0; k < SIDE * SIDE; k++) {
            p.at[i][k] = (double)draw(&state) / 2147483648.0 * 2 - 1;
            p.direction[i][k] = (double)draw(&state) / 2147483648.0 * 2 - 1;
        }
    return p;
}

/* The derivative of some order along the direction, at the moved point. */
static double derivative(xcvm_tape *t, uint64_t seed, const point *p, double moved, int order)
{
    const xcvm_backward_options create = {.size = sizeof create, .create_graph = true};
    xcvm_var leaves[LEAVES], directions[LEAVES];
    xcvm_error error = {0};
    for (int i = 0; i < LEAVES; i++) {
        double at[SIDE * SIDE];
        for (int k = 0; k < SIDE * SIDE; k++)
            at[k] = p->at[i][k] + moved * p->direction[i][k];
        leaves[i] = xcvm_tape_parameter(t, XCVM_F64, 2, DIMS(SIDE, SIDE), at);
        directions[i] = xcvm_tape_constant(t, XCVM_F64, 2, DIMS(SIDE, SIDE), p->direction[i]);
    }
    xcvm_var y = expression(t, seed, leaves);
    for (; order > 0; order--) {
        xcvm_var gradients[LEAVES], sum = xcvm_tape_scalar(t, XCVM_F64, 0);
        ck_assert_msg(xcvm_tape_gradients(t, 1, &y, NULL, LEAVES, leaves, &create, gradients, &error) == XCVM_OK,
                      "expression %d: %s: %s", (int)seed, error.instruction, error.message);
        for (int i = 0; i < LEAVES; i++)
            if (gradients[i].at != NULL)
                sum = xcvm_Add(t, sum, xcvm_ReduceSum(t, xcvm_Mul(t, gradients[i], directions[i]), .keepdims = 0));
        y = sum;
    }
    const double result = xcvm_var_get_number(t, y);
    for (int i = 0; i < LEAVES; i++)
        xcvm_var_release(t, leaves[i]);
    xcvm_tape_reset(t);
    return result;
}

static void check(xcvm_tape *t, uint64_t seed, int order)
{
    const double h = 1e-4;
    const point p = draw_point(seed);
    const double got = derivative(t, seed, &p, 0, order), above = derivative(t, seed, &p, h, order - 1),
                 below = derivative(t, seed, &p, -h, order - 1), difference = (above - below) / (2 * h);
    ck_assert_msg(fabs(got - difference) <= 1e-5 * fmax(1, fabs(got)), "expression %d, order %d: %.12g, not %.12g",
                  (int)seed, order, got, difference);
}

/* Central differences. */
START_TEST(c1_7_a_thousand_expressions)
{
    xcvm_tape *t = open_tape();
    for (uint64_t seed = 0; seed < 1000; seed++)
        check(t, seed, 1);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    close_tape(t);
}
END_TEST

/* Derivatives up to third order. */
START_TEST(c1_2_a_hundred_to_the_third_order)
{
    xcvm_tape *t = open_tape();
    for (uint64_t seed = 1000; seed < 1100; seed++)
        for (int order = 1; order <= 3; order++)
            check(t, seed, order);
    ck_assert_uint_eq(stats_of(t).variables, 0);
    close_tape(t);
}
END_TEST

Suite *suite_tape_expressions(void);
Suite *suite_tape_expressions(void)
{
    return SUITE_OF("tape_expressions", c1_7_a_thousand_expressions, c1_2_a_hundred_to_the_third_order);
}
