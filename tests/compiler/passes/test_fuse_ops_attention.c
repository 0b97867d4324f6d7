/* Tests of the pass fuse_ops where it finds attention. */
#include "tests/compiler/support.h"

#define APPLY(Name, result, ...) must(b, xcc_apply(b, Name, result, __VA_ARGS__))

static xcc_value *transpose(xcc_builder *b, xcc_value *x, int64_t p0, int64_t p1, int64_t p2, int64_t p3)
{
    return APPLY(Transpose, y, .x = XCC_IN(x), .perm = XCC_INTS(p0, p1, p2, p3));
}

static xcc_value *reshape(xcc_builder *b, xcc_value *x, size_t rank, const int64_t *dims)
{
    return APPLY(Reshape, y, .x = XCC_IN(x), .shape = XCC_IN(ints(b, rank, dims)));
}

/* softmax(a * b / divisor + mask) * v; mask may be NULL. */
static xcc_value *attend(xcc_builder *b, xcc_value *q, xcc_value *k, xcc_value *v, double divisor, xcc_value *mask)
{
    xcc_value *scores = APPLY(MatMul, y, .a = XCC_IN(q), .b = XCC_IN(k));
    scores = APPLY(Div, y, .a = XCC_IN(scores), .b = XCC_IN(number(b, divisor)));
    if (mask != NULL)
        scores = APPLY(Add, y, .a = XCC_IN(mask), .b = XCC_IN(scores));
    xcc_value *p = APPLY(Softmax, y, .x = XCC_IN(scores), .axis = -1);
    return APPLY(MatMul, y, .a = XCC_IN(p), .b = XCC_IN(v));
}

/* The result of a linear layer for queries, keys and values, split into heads, and the heads merged again. */
static void make_self_attention(xcc_builder *b)
{
    xcc_value *x = input(b, "x", XCVM_F32, 3, DIMS(-1, -2, 24)), *parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = must(b, xcc_value_create(b->graph, NULL));
    xcvm_value *const outputs[] = {&parts[0]->type, &parts[1]->type, &parts[2]->type};
    ck_assert_ptr_nonnull(
        xcc_emit(b, Split, .ys = {outputs, 3}, .x = XCC_IN(x), .split = XCC_IN(ints(b, 3, DIMS(8, 8, 8))), .axis = -1));
    for (int i = 0; i < 3; i++)
        parts[i] = reshape(b, parts[i], 4, DIMS(0, 0, 2, 4));
    xcc_value *y = attend(b, transpose(b, parts[0], 0, 2, 1, 3), transpose(b, parts[1], 0, 2, 3, 1),
                          transpose(b, parts[2], 0, 2, 1, 3), 2, NULL);
    output(b, reshape(b, transpose(b, y, 0, 2, 1, 3), 3, DIMS(0, 0, 8)));
}

START_TEST(self_attention)
{
    compilation c;
    check_same_results(make_self_attention, &c);
    CHECK_NODES(&c, 1);
    CHECK_COUNT(&c, Attention, 1);
    finish(&c);
}
END_TEST

/* Three tensors, a mask, and factors on both sides of the product. */
static void make_masked(xcc_builder *b)
{
    xcc_value *q = input(b, "q", XCVM_F32, 4, DIMS(2, 3, 5, 4)), *k = input(b, "k", XCVM_F32, 4, DIMS(2, 3, 6, 4));
    xcc_value *v = input(b, "v", XCVM_F32, 4, DIMS(2, 3, 6, 7)),
              *mask = input(b, "mask", XCVM_F32, 4, DIMS(2, 1, 1, 6));
    q = APPLY(Mul, y, .a = XCC_IN(q), .b = XCC_IN(number(b, 0.5)));
    k = APPLY(Mul, y, .a = XCC_IN(transpose(b, k, 0, 1, 3, 2)), .b = XCC_IN(number(b, 3)));
    output(b, attend(b, q, k, v, 1.5, mask));
}

START_TEST(masked)
{
    compilation c;
    check_same_results(make_masked, &c);
    CHECK_NODES(&c, 1);
    ck_assert_double_eq_tol(XCC_ARGS(Attention, c.m.graph->last)->scale, 1, 1e-6);
    finish(&c);
}
END_TEST

/* Heads that are entries of a batch. */
static void make_flat(xcc_builder *b)
{
    xcc_value *q = input(b, "q", XCVM_F32, 3, DIMS(3, 5, 4)), *k = input(b, "k", XCVM_F32, 3, DIMS(3, 6, 4));
    xcc_value *v = input(b, "v", XCVM_F32, 3, DIMS(3, 6, 2)), *mask = input(b, "mask", XCVM_F32, 2, DIMS(5, 6));
    k = APPLY(Transpose, y, .x = XCC_IN(k), .perm = XCC_INTS(0, 2, 1));
    output(b, attend(b, q, k, v, 2, mask));
}

START_TEST(flat)
{
    compilation c;
    check_same_results(make_flat, &c);
    CHECK_COUNT(&c, Attention, 1);
    CHECK_COUNT(&c, Softmax, 0);
    finish(&c);
}
END_TEST

/* A mask that enlarges the scores, scores with another reader, and keys without a transpose. */
static void make_others(xcc_builder *b)
{
    xcc_value *q = input(b, "q", XCVM_F32, 4, DIMS(1, 2, 5, 4)), *k = input(b, "k", XCVM_F32, 4, DIMS(1, 2, 6, 4));
    xcc_value *v = input(b, "v", XCVM_F32, 4, DIMS(1, 2, 6, 3)),
              *mask = input(b, "mask", XCVM_F32, 4, DIMS(3, 2, 5, 6));
    xcc_value *kt = transpose(b, k, 0, 1, 3, 2);
    output(b, attend(b, q, kt, v, 2, mask));
    xcc_value *p = APPLY(Softmax, y, .x = XCC_IN(APPLY(MatMul, y, .a = XCC_IN(q), .b = XCC_IN(kt))), .axis = -1);
    output(b, p);
    output(b, APPLY(MatMul, y, .a = XCC_IN(p), .b = XCC_IN(v)));
    output(b, attend(b, q, input(b, "w", XCVM_F32, 4, DIMS(1, 2, 4, 6)), v, 2, NULL));
}

START_TEST(others)
{
    compilation c;
    check_same_results(make_others, &c);
    CHECK_COUNT(&c, Attention, 0);
    finish(&c);
}
END_TEST

Suite *suite_compiler_fuse_ops_attention(void);

Suite *suite_compiler_fuse_ops_attention(void)
{
    Suite *suite = suite_create("compiler_fuse_ops_attention");
    TCase *rules = tcase_create("rules");
    tcase_add_test(rules, self_attention);
    tcase_add_test(rules, masked);
    tcase_add_test(rules, flat);
    tcase_add_test(rules, others);
    suite_add_tcase(suite, rules);
    return suite;
}
