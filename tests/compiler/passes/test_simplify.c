/* Tests of the pass simplify, rewrite by rewrite. */
#include "tests/compiler/support.h"

#include "compiler/ir/compose.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

/* ---- Shapes ---- */

static void make_identities(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    xcc_value *y = APPLY(Identity, y, .x = XCC_IN(x));
    y = APPLY(Cast, y, .x = XCC_IN(y), .to = XCVM_F32, .saturate = 1);
    y = APPLY(Transpose, y, .x = XCC_IN(y), .perm = XCC_INTS(0, 1));
    y = APPLY(Expand, y, .x = XCC_IN(y), .shape = XCC_IN(ints(b, 2, DIMS(2, 1))));
    y = APPLY(Tile, y, .x = XCC_IN(y), .repeats = XCC_IN(ints(b, 2, DIMS(1, 1))));
    y = APPLY(Pad, y, .x = XCC_IN(y), .pads = XCC_IN(ints(b, 4, DIMS(0, 0, 0, 0))));
    y = APPLY(Slice, y, .x = XCC_IN(y), .starts = XCC_IN(ints(b, 1, DIMS(0))), .ends = XCC_IN(ints(b, 1, DIMS(100))));
    y = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(y)}, 1}, .axis = 0);
    y = APPLY(Dropout, y, .x = XCC_IN(y), .seed = -1);
    y = APPLY(Neg, y, .x = XCC_IN(y));
    output(b, y);
}

START_TEST(identities)
{
    compilation c;
    check_same_results(make_identities, &c);
    CHECK_NODES(&c, 1);
    CHECK_COUNT(&c, Neg, 1);
    finish(&c);
}
END_TEST

/* A choice where a condition is not, whose negation something else reads, too. */
static void make_choices(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3)), *condition = input(b, "c", XCVM_BOOL, 1, DIMS(3));
    xcc_value *negation = APPLY(Not, y, .x = XCC_IN(condition));
    output(b, APPLY(Where, y, .condition = XCC_IN(negation), .x = XCC_IN(x), .z = XCC_IN(number(b, 7))));
    xcc_value *other = APPLY(Not, y, .x = XCC_IN(APPLY(LessOrEqual, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 0)))));
    output(b, APPLY(Where, y, .condition = XCC_IN(other), .x = XCC_IN(number(b, 1)), .z = XCC_IN(x)));
    output(b, negation);
}

START_TEST(choices)
{
    compilation c;
    check_same_results(make_choices, &c);
    CHECK_COUNT(&c, Where, 2);
    CHECK_COUNT(&c, Not, 1);
    finish(&c);
}
END_TEST

static void make_output_names(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(3));
    xcc_value *first = must(b, xcc_value_create(b->graph, "first"));
    ck_assert_ptr_nonnull(xcc_emit(b, Identity, .y = XCC_OUT(first), .x = XCC_IN(x)));
    xcc_value *second = must(b, xcc_value_create(b->graph, "second"));
    ck_assert_ptr_nonnull(xcc_emit(b, Identity, .y = XCC_OUT(second), .x = XCC_IN(first)));
    output(b, first);
    output(b, second);
}

START_TEST(outputs_keep_their_names)
{
    compilation c;
    check_same_results(make_output_names, &c);
    CHECK_NODES(&c, 0);
    finish(&c);
}
END_TEST

static void make_transposes(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 4, DIMS(2, 3, 4, 1));
    xcc_value *y = APPLY(Transpose, y, .x = XCC_IN(x), .perm = XCC_INTS(0, 2, 3, 1));
    output(b, APPLY(Transpose, y, .x = XCC_IN(y), .perm = XCC_INTS(0, 3, 1, 2)));
    output(b, APPLY(Transpose, y, .x = XCC_IN(y), .perm = XCC_INTS(3, 2, 1, 0)));
    output(b, APPLY(Transpose, y, .x = XCC_IN(x), .perm = XCC_INTS(3, 0, 1, 2)));
}

START_TEST(transposes)
{
    compilation c;
    check_same_results(make_transposes, &c);
    CHECK_COUNT(&c, Transpose, 1);
    CHECK_COUNT(&c, Reshape, 1);
    finish(&c);
}
END_TEST

static void make_reshapes(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 4, 6));
    xcc_value *y = APPLY(Flatten, y, .x = XCC_IN(x), .axis = 1);
    y = APPLY(Unsqueeze, y, .x = XCC_IN(y), .axes = XCC_IN(ints(b, 1, DIMS(1))));
    y = APPLY(Reshape, y, .x = XCC_IN(y), .shape = XCC_IN(ints(b, 3, DIMS(0, 8, 3))));
    output(b, APPLY(Neg, y, .x = XCC_IN(y)));
    output(b, APPLY(Reshape, y, .x = XCC_IN(y), .shape = XCC_IN(ints(b, 3, DIMS(-1, 4, 6)))));
}

START_TEST(reshapes)
{
    compilation c;
    check_same_results(make_reshapes, &c);
    CHECK_NODES(&c, 2);
    CHECK_COUNT(&c, Reshape, 1);
    finish(&c);
}
END_TEST

/* The shape computation of a model that was exported with an open batch. */
static void make_shape_arithmetic(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 4, 6));
    xcc_value *shape = APPLY(Shape, y, .x = XCC_IN(x), .start = 0, .end = INT64_MAX);
    xcc_value *batch = APPLY(Gather, y, .x = XCC_IN(shape), .indices = XCC_IN(ints(b, 1, DIMS(0))), .axis = 0);
    xcc_value *rows = APPLY(Gather, y, .x = XCC_IN(shape), .indices = XCC_IN(ints(b, 1, DIMS(1))), .axis = 0);
    xcc_value *half = APPLY(Div, y, .a = XCC_IN(rows), .b = XCC_IN(ints(b, 1, DIMS(2))));
    xcc_value *target = APPLY(Concat, y,
                              .xs = {(const xcvm_value *[]){XCC_IN(batch), XCC_IN(half), XCC_IN(ints(b, 1, DIMS(2))),
                                                            XCC_IN(ints(b, 1, DIMS(6)))},
                                     4},
                              .axis = 0);
    output(b, APPLY(Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(target)));
}

START_TEST(shape_arithmetic)
{
    compilation c;
    check_same_results(make_shape_arithmetic, &c);
    CHECK_NODES(&c, 1);
    const xcc_value *y = c.m.graph->outputs[0];
    ck_assert_int_eq(y->type.rank, 4);
    ck_assert_str_eq(xcc_symbol_name(&c.m, y->type.dims[0]), "A");
    ck_assert_int_eq(y->type.dims[1], 2);
    finish(&c);
}
END_TEST

/* A computed shape contains no -1, which means an unchanged size to exporters; other tensors may. */
static void make_sizes_that_stay(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, 4, 6)), *other = input(b, "other", XCVM_I64, 1, DIMS(3));
    xcc_value *const shapes[] = {APPLY(Shape, y, .x = XCC_IN(x), .start = 0, .end = INT64_MAX), other};
    for (size_t i = 0; i < 4; i++) {
        xcc_value *shape = shapes[i / 2], *minus = ints(b, 3, DIMS(-1, i % 2 == 0 ? -1 : 4, -1));
        xcc_value *condition = APPLY(Equal, y, .a = XCC_IN(shape), .b = XCC_IN(minus));
        output(b, APPLY(Where, y, .condition = XCC_IN(condition), .x = XCC_IN(ints(b, 3, DIMS(1, 1, 1))),
                        .z = XCC_IN(shape)));
    }
}

START_TEST(sizes_that_stay)
{
    compilation c;
    check_same_results(make_sizes_that_stay, &c);
    CHECK_COUNT(&c, Where, 3);
    CHECK_COUNT(&c, Equal, 3);
    finish(&c);
}
END_TEST

static void make_concats(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3)), *z = input(b, "z", XCVM_F32, 2, DIMS(2, 1));
    xcc_value *y = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(x), XCC_IN(z)}, 2}, .axis = 1);
    y = APPLY(Concat, y, .xs = {(const xcvm_value *[]){XCC_IN(z), XCC_IN(y), XCC_IN(x)}, 3}, .axis = -1);
    output(b, y);
}

START_TEST(concats)
{
    compilation c;
    check_same_results(make_concats, &c);
    CHECK_COUNT(&c, Concat, 1);
    finish(&c);
}
END_TEST

/* ---- Arithmetic ---- */

static void make_neutral(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3)), *i = input(b, "i", XCVM_I64, 1, DIMS(4));
    xcc_value *y = APPLY(Add, y, .a = XCC_IN(number(b, -0.0)), .b = XCC_IN(x));
    y = APPLY(Sub, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 0)));
    y = APPLY(Mul, y, .a = XCC_IN(y), .b = XCC_IN(floats(b, 1, DIMS(1), FLOATS(1))));
    y = APPLY(Div, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 1)));
    y = APPLY(Pow, y, .a = XCC_IN(y), .b = XCC_IN(number(b, 1)));
    output(b, APPLY(Abs, y, .x = XCC_IN(y)));
    output(b, APPLY(Neg, y,
                    .x = XCC_IN(APPLY(Add, y, .a = XCC_IN(i), .b = XCC_IN(must(b, xcc_scalar_i64(b->graph, 0)))))));
}

START_TEST(neutral_elements)
{
    compilation c;
    check_same_results(make_neutral, &c);
    CHECK_NODES(&c, 2);
    finish(&c);
}
END_TEST

/* None of these may be removed: the sign of zero, and results of another shape. */
static void make_almost_neutral(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    output(b, APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 0))));
    output(b, APPLY(Sub, y, .a = XCC_IN(x), .b = XCC_IN(number(b, -0.0))));
    output(b, APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(floats(b, 3, DIMS(1, 1, 1), FLOATS(1)))));
    output(b, APPLY(Sub, y, .a = XCC_IN(number(b, 0)), .b = XCC_IN(x)));
}

START_TEST(almost_neutral_elements)
{
    compilation c;
    check_same_results(make_almost_neutral, &c);
    CHECK_NODES(&c, 4);
    finish(&c);
}
END_TEST

static void make_rewritten(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    output(b, APPLY(Pow, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 2))));
    output(b, APPLY(Mul, y, .a = XCC_IN(number(b, -1)), .b = XCC_IN(x)));
    output(b, APPLY(Div, y, .a = XCC_IN(number(b, 1)), .b = XCC_IN(x)));
    output(b, APPLY(Clip, y, .x = XCC_IN(x), .min = XCC_IN(number(b, 0))));
    output(b, APPLY(Clip, y, .x = XCC_IN(APPLY(Relu, y, .x = XCC_IN(x))), .max = XCC_IN(number(b, 1))));
    output(b, APPLY(Min, y, .a = XCC_IN(APPLY(Max, y, .a = XCC_IN(x), .b = XCC_IN(number(b, -1)))),
                    .b = XCC_IN(number(b, 2))));
    output(b, APPLY(Relu, y,
                    .x = XCC_IN(
                        APPLY(Clip, y, .x = XCC_IN(x), .min = XCC_IN(number(b, -5)), .max = XCC_IN(number(b, -1))))));
}

START_TEST(rewritten_arithmetic)
{
    compilation c;
    check_same_results(make_rewritten, &c);
    CHECK_NODES(&c, 7);
    CHECK_COUNT(&c, Pow, 0);
    CHECK_COUNT(&c, Mul, 1);
    CHECK_COUNT(&c, Neg, 1);
    CHECK_COUNT(&c, Reciprocal, 1);
    CHECK_COUNT(&c, Relu, 1);
    CHECK_COUNT(&c, Clip, 3);
    finish(&c);
}
END_TEST

/* ---- Patterns ---- */

static void make_gates(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    output(b, APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(APPLY(Sigmoid, y, .x = XCC_IN(x)))));
    xcc_value *scaled = APPLY(Mul, y, .a = XCC_IN(number(b, 1.702)), .b = XCC_IN(x));
    output(b, APPLY(Mul, y, .a = XCC_IN(APPLY(Sigmoid, y, .x = XCC_IN(scaled))), .b = XCC_IN(x)));
    xcc_value *hard = APPLY(HardSigmoid, y, .x = XCC_IN(x), .alpha = 1.0 / 6, .beta = 0.5);
    output(b, APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(hard)));
    xcc_value *relu6 = APPLY(Clip, y, .x = XCC_IN(APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 3)))),
                             .min = XCC_IN(number(b, 0)), .max = XCC_IN(number(b, 6)));
    xcc_value *product = APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(relu6));
    output(b, APPLY(Div, y, .a = XCC_IN(product), .b = XCC_IN(number(b, 6))));
    xcc_value *softplus = APPLY(
        Log, y, .x = XCC_IN(APPLY(Add, y, .a = XCC_IN(APPLY(Exp, y, .x = XCC_IN(x))), .b = XCC_IN(number(b, 1)))));
    output(b, APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(APPLY(Tanh, y, .x = XCC_IN(softplus)))));
    xcc_value *divisor = APPLY(Add, y, .a = XCC_IN(number(b, 1)), .b = XCC_IN(APPLY(Abs, y, .x = XCC_IN(x))));
    output(b, APPLY(Div, y, .a = XCC_IN(x), .b = XCC_IN(divisor)));
}

START_TEST(gates)
{
    compilation c;
    check_same_results(make_gates, &c);
    CHECK_NODES(&c, 5);
    CHECK_COUNT(&c, Swish, 2);
    CHECK_COUNT(&c, HardSwish, 1); /* both ways to write it came to the same */
    CHECK_COUNT(&c, Mish, 1);
    CHECK_COUNT(&c, Softsign, 1);
    finish(&c);
}
END_TEST

static xcc_value *gate_of_erf(xcc_builder *b, xcc_value *x)
{
    xcc_value *erf = APPLY(Erf, y, .x = XCC_IN(APPLY(Div, y, .a = XCC_IN(x), .b = XCC_IN(number(b, sqrt(2))))));
    return APPLY(Add, y, .a = XCC_IN(erf), .b = XCC_IN(number(b, 1)));
}

static void make_gelus(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    xcc_value *product = APPLY(Mul, y, .a = XCC_IN(x), .b = XCC_IN(gate_of_erf(b, x)));
    output(b, APPLY(Mul, y, .a = XCC_IN(product), .b = XCC_IN(number(b, 0.5))));
    xcc_value *z = APPLY(Neg, y, .x = XCC_IN(x));
    xcc_value *half = APPLY(Mul, y, .a = XCC_IN(number(b, 0.5)), .b = XCC_IN(z));
    output(b, APPLY(Mul, y, .a = XCC_IN(half), .b = XCC_IN(gate_of_erf(b, z))));
    xcc_value *w = APPLY(Abs, y, .x = XCC_IN(x));
    xcc_value *cube = APPLY(Pow, y, .a = XCC_IN(w), .b = XCC_IN(number(b, 3)));
    xcc_value *sum =
        APPLY(Add, y, .a = XCC_IN(w), .b = XCC_IN(APPLY(Mul, y, .a = XCC_IN(number(b, 0.044715)), .b = XCC_IN(cube))));
    xcc_value *gate =
        APPLY(Tanh, y, .x = XCC_IN(APPLY(Mul, y, .a = XCC_IN(sum), .b = XCC_IN(number(b, 0.7978845608)))));
    gate = APPLY(Add, y, .a = XCC_IN(number(b, 1)), .b = XCC_IN(gate));
    output(b,
           APPLY(Mul, y, .a = XCC_IN(APPLY(Mul, y, .a = XCC_IN(w), .b = XCC_IN(number(b, 0.5)))), .b = XCC_IN(gate)));
}

START_TEST(gelus)
{
    compilation c;
    check_same_results(make_gelus, &c);
    CHECK_COUNT(&c, Gelu, 3);
    CHECK_NODES(&c, 5);
    finish(&c);
}
END_TEST

static void make_normalizations(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(2, -1, 4)), *axes = ints(b, 1, DIMS(-1));
    xcc_value *mean = APPLY(ReduceMean, y, .x = XCC_IN(x), .axes = XCC_IN(axes), .keepdims = 1);
    xcc_value *d = APPLY(Sub, y, .a = XCC_IN(x), .b = XCC_IN(mean));
    xcc_value *square = APPLY(Pow, y, .a = XCC_IN(d), .b = XCC_IN(number(b, 2)));
    xcc_value *var = APPLY(ReduceMean, y, .x = XCC_IN(square), .axes = XCC_IN(axes), .keepdims = 1);
    xcc_value *root = APPLY(Sqrt, y, .x = XCC_IN(APPLY(Add, y, .a = XCC_IN(var), .b = XCC_IN(number(b, 1e-5)))));
    xcc_value *normal = APPLY(Div, y, .a = XCC_IN(d), .b = XCC_IN(root));
    normal = APPLY(Mul, y, .a = XCC_IN(normal), .b = XCC_IN(weights(b, 1, DIMS(4))));
    output(b, APPLY(Add, y, .a = XCC_IN(normal), .b = XCC_IN(weights(b, 1, DIMS(4)))));

    xcc_value *z = APPLY(Neg, y, .x = XCC_IN(x));
    square = APPLY(Pow, y, .a = XCC_IN(z), .b = XCC_IN(number(b, 2)));
    var = APPLY(ReduceMean, y, .x = XCC_IN(square), .axes = XCC_IN(axes), .keepdims = 1);
    root = APPLY(Sqrt, y, .x = XCC_IN(APPLY(Add, y, .a = XCC_IN(var), .b = XCC_IN(number(b, 1e-6)))));
    normal = APPLY(Mul, y, .a = XCC_IN(z), .b = XCC_IN(APPLY(Reciprocal, y, .x = XCC_IN(root))));
    output(b, APPLY(Mul, y, .a = XCC_IN(weights(b, 1, DIMS(4))), .b = XCC_IN(normal)));
}

START_TEST(normalizations)
{
    compilation c;
    check_same_results(make_normalizations, &c);
    CHECK_COUNT(&c, LayerNormalization, 1);
    CHECK_COUNT(&c, RMSNormalization, 1);
    CHECK_NODES(&c, 3);
    finish(&c);
}
END_TEST

/* ---- Equal nodes ---- */

static void make_equal_nodes(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 2, DIMS(2, 3));
    xcc_value *p = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 2)));
    xcc_value *q = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 2)));
    xcc_value *r = APPLY(Add, y, .a = XCC_IN(x), .b = XCC_IN(number(b, 3)));
    output(b, APPLY(Mul, y, .a = XCC_IN(APPLY(Exp, y, .x = XCC_IN(p))), .b = XCC_IN(APPLY(Exp, y, .x = XCC_IN(q)))));
    output(b, APPLY(Softmax, y, .x = XCC_IN(r), .axis = 0));
    output(b, APPLY(Softmax, y, .x = XCC_IN(r), .axis = 1));
}

/* Two lists of zeros except one item each, whose positions only the run knows, and x. */
static void make_sum_of_items(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(2)), *y = input(b, "y", XCVM_F32, 1, DIMS(2));
    xcc_value *i = input(b, "i", XCVM_BOOL, 0, NULL), *at = must(b, xcc_build_cast(b, i, XCVM_I64));
    const xcvm_value *items[] = {XCC_IN(x), XCC_IN(y)};
    xcc_value *s = must(b, xcc_apply(b, SequenceConstruct, y, .xs = {items, 2}));
    xcc_value *sum = s;
    for (int k = 0; k < 3; k++) {
        xcc_value *zeros = must(b, xcc_apply(b, ZerosLike, y, .x = XCC_IN(s)));
        xcc_value *place = k == 1 ? must(b, xcc_scalar_i64(b->graph, 1)) : at;
        xcc_value *one = must(b, xcc_apply(b, SequenceUpdate, y, .s = XCC_IN(zeros), .position = XCC_IN(place),
                                           .x = XCC_IN(k == 2 ? y : x)));
        xcc_value *p = k == 1 ? one : sum, *q = k == 1 ? sum : one;
        sum = must(b, xcc_apply(b, Accumulate, y, .a = XCC_IN(p), .b = XCC_IN(q)));
    }
    output(b, must(b, xcc_apply(b, ConcatFromSequence, y, .s = XCC_IN(sum))));
}

/* Each item is added by itself. */
START_TEST(sums_of_items)
{
    compilation c;
    check_same_results(make_sum_of_items, &c);
    CHECK_COUNT(&c, ZerosLike, 0);
    CHECK_COUNT(&c, SequenceUpdate, 3);
    finish(&c);
}
END_TEST

START_TEST(equal_nodes)
{
    compilation c;
    check_same_results(make_equal_nodes, &c);
    CHECK_NODES(&c, 6);
    finish(&c);
}
END_TEST

/* ---- Control flow ---- */

static void make_decided(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 1, DIMS(3));
    xcc_value *cond = must(b, xcc_scalar(b->graph, XCVM_BOOL, 1));
    xcc_value *y = must(b, xcc_value_create(b->graph, "y"));
    xcc_node *n = xcc_append_control(b, XCC_IF, 1, &cond, 1, &y, 2);
    ck_assert_ptr_nonnull(n);
    xcc_builder then = {.graph = n->bodies[0]}, other = {.graph = n->bodies[1]};
    output(&then, must(b, xcc_apply(&then, Exp, y, .x = XCC_IN(x))));
    output(&other, must(b, xcc_apply(&other, Neg, y, .x = XCC_IN(x))));
    ok(b->graph->module, xcc_node_infer(n));
    output(b, y);

    /* A loop of one iteration, which doubles and returns the previous value; and a loop of none. */
    for (int64_t trips = 0; trips < 2; trips++) {
        xcc_value *in[3] = {must(b, xcc_scalar_i64(b->graph, trips)), NULL, x};
        xcc_value *out[2] = {must(b, xcc_value_create(b->graph, "last")), must(b, xcc_value_create(b->graph, "all"))};
        n = xcc_append_control(b, XCC_LOOP, 3, in, 2, out, 1);
        ck_assert_ptr_nonnull(n);
        xcc_builder body = {.graph = n->bodies[0]};
        input(&body, "i", XCVM_I64, 0, NULL);
        xcc_value *go = input(&body, "go", XCVM_BOOL, 0, NULL), *s = input(&body, "s", XCVM_F32, 1, DIMS(3));
        output(&body, go);
        output(&body, must(b, xcc_apply(&body, Add, y, .a = XCC_IN(s), .b = XCC_IN(s))));
        output(&body, s);
        ok(b->graph->module, xcc_node_infer(n));
        output(b, out[0]);
        output(b, out[1]);
    }
}

START_TEST(decided_control_flow)
{
    compilation c;
    check_same_results(make_decided, &c);
    CHECK_NODES(&c, 3);
    CHECK_COUNT(&c, Exp, 1);
    CHECK_COUNT(&c, Add, 1);
    CHECK_COUNT(&c, Unsqueeze, 1);
    finish(&c);
}
END_TEST

Suite *suite_compiler_simplify(void)
{
    Suite *suite = suite_create("compiler/simplify");
    TCase *tests = tcase_create("simplify");
    tcase_add_test(tests, identities);
    tcase_add_test(tests, choices);
    tcase_add_test(tests, outputs_keep_their_names);
    tcase_add_test(tests, transposes);
    tcase_add_test(tests, reshapes);
    tcase_add_test(tests, shape_arithmetic);
    tcase_add_test(tests, sizes_that_stay);
    tcase_add_test(tests, concats);
    tcase_add_test(tests, neutral_elements);
    tcase_add_test(tests, almost_neutral_elements);
    tcase_add_test(tests, rewritten_arithmetic);
    tcase_add_test(tests, gates);
    tcase_add_test(tests, gelus);
    tcase_add_test(tests, normalizations);
    tcase_add_test(tests, sums_of_items);
    tcase_add_test(tests, equal_nodes);
    tcase_add_test(tests, decided_control_flow);
    suite_add_tcase(suite, tests);
    return suite;
}
