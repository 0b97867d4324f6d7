/* Strided copies against a plain loop, packing, filling, ordering and random numbers. */
#include "ops/util/move.h"
#include "ops/util/order.h"
#include "ops/random/random.h"
#include "ops/random/simd/random_block.h"
#include "ops/util/strided.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static uint64_t state = 1;

static size_t below(size_t limit) { return (size_t)(xcvm_random_next(&state) % limit); }

/* One element at a time, in any order of axes. */
static void copy_each(const xcvm_strided *s, int axis, size_t size, char *to, const char *from)
{
    if (axis == s->rank) {
        memcpy(to, from, size);
        return;
    }
    for (size_t i = 0; i < s->dims[axis]; i++)
        copy_each(s, axis + 1, size, to + (ptrdiff_t)i * s->to[axis] * (ptrdiff_t)size,
                  from + (ptrdiff_t)i * s->from[axis] * (ptrdiff_t)size);
}

/* A transposition of a slice with some axes repeated and some reversed. */
static void check_random_copy(xcvm_threads *threads)
{
    xcvm_strided s = {.rank = 0};
    int rank = (int)below(5), order[4] = {0, 1, 2, 3};
    size_t size = (size_t)1 << below(5), dims[4], from_count = 1, to_count = 1, offset = 0;
    ptrdiff_t strides[4] = {0}, stride = 1;
    size_t most = below(4) == 0 ? 70 : 7;
    for (int i = 0; i < rank; i++) {
        dims[i] = below(most) + (below(10) != 0);
        size_t j = below((size_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= (ptrdiff_t)dims[i];
    }
    from_count = (size_t)stride;
    stride = 1;
    ptrdiff_t to[4];
    for (int i = rank - 1; i >= 0; i--) {
        to[i] = stride;
        stride *= (ptrdiff_t)dims[order[i]];
    }
    to_count = (size_t)stride;
    for (int i = 0; i < rank; i++) {
        ptrdiff_t step = strides[order[i]];
        size_t kind = below(6);
        if (kind == 0) {
            step = 0;
        } else if (kind == 1 && dims[order[i]] != 0) {
            offset += (dims[order[i]] - 1) * (size_t)step;
            step = -step;
        }
        xcvm_strided_axis(&s, dims[order[i]], to[i], step);
    }
    unsigned char *from = malloc(from_count * size + 1), *got = calloc(to_count * size + 1, 1),
                  *expected = calloc(to_count * size + 1, 1);
    ck_assert(from != NULL && got != NULL && expected != NULL);
    for (size_t i = 0; i < from_count * size; i++)
        from[i] = (unsigned char)below(256);
    const xcvm_kernel kernel = {.threads = threads};
    ck_assert_int_eq(xcvm_strided_copy(&kernel, &s, size, got, from + offset * size), XCVM_OK);
    if (to_count != 0)
        copy_each(&s, 0, size, (char *)expected, (const char *)from + offset * size);
    ck_assert_int_eq(memcmp(got, expected, to_count * size + 1), 0);
    free(from);
    free(got);
    free(expected);
}

START_TEST(strided)
{
    xcvm_threads *threads;
    ck_assert_int_eq(xcvm_threads_create(NULL, 3, &threads, NULL), XCVM_OK);
    for (int i = 0; i < 2000; i++)
        check_random_copy(i % 2 ? threads : NULL);
    xcvm_threads_destroy(threads);
}
END_TEST

START_TEST(packing)
{
    uint8_t bytes[9], packed[5] = {0}, back[9];
    for (size_t bits = 2; bits <= 4; bits += 2) {
        for (size_t i = 0; i < 9; i++)
            bytes[i] = (uint8_t)below((size_t)1 << bits);
        xcvm_pack(bytes, bits, 9, packed);
        xcvm_unpack(packed, bits, 9, back);
        ck_assert_mem_eq(bytes, back, 9);
    }
    xcvm_pack((const uint8_t[]){0x1, 0xf2, 0x3}, 4, 3, packed);
    ck_assert_uint_eq(packed[0], 0x21);
    ck_assert_uint_eq(packed[1], 0x03);
}
END_TEST

START_TEST(filling)
{
    static char memory[20001];
    const char element[16] = "0123456789abcde";
    const xcvm_kernel kernel = {.threads = NULL};
    for (size_t size = 1; size <= 16; size *= 2)
        for (size_t count = 0; count <= 20000 / size; count = count * 3 + 1) {
            memset(memory, '?', sizeof memory);
            ck_assert_int_eq(xcvm_move_fill(&kernel, memory, element, size, count), XCVM_OK);
            bool right = memory[size * count] == '?';
            for (size_t i = 0; i < size * count; i++)
                right = right && memory[i] == element[i % size];
            ck_assert(right);
        }
}
END_TEST

static int compare_tens(const void *context, int64_t a, int64_t b)
{
    (void)context;
    return (a / 10 > b / 10) - (a / 10 < b / 10);
}

START_TEST(sorting_keeps_equals_in_order)
{
    static int64_t items[500], spare[500];
    const xcvm_kernel k = {.error = NULL};
    for (size_t count = 0; count <= 500; count += 1 + count / 5) {
        /* Units are increasing numbers, so they show the order among equal tens. */
        for (size_t i = 0; i < count; i++)
            items[i] = (int64_t)(below(20) * 10 + i * 10 / 501);
        ck_assert_int_eq(xcvm_order_sort(&k, items, spare, count, compare_tens, NULL), XCVM_OK);
        bool sorted = true;
        for (size_t i = 1; i < count; i++)
            sorted = sorted && items[i - 1] <= items[i];
        ck_assert(sorted);
    }
}
END_TEST

START_TEST(keys)
{
    const double ascending[] = {-INFINITY, -1e300, -1, -1e-300, 0, 1e-300, 1, 1e300, INFINITY, NAN};
    xcvm_value v = {.refs = 0};
    uint64_t found[10];
    xcvm_value_set_tensor(&v, XCVM_F64, 1, (int64_t[]){10});
    v.data = (void *)ascending;
    xcvm_order_keys(&v, 0, 1, 10, found);
    for (size_t i = 1; i < 10; i++)
        ck_assert_uint_lt(found[i - 1], found[i]);
    const int8_t small[] = {-128, -1, 0, 127};
    xcvm_value_set_tensor(&v, XCVM_I8, 1, (int64_t[]){4});
    v.data = (void *)small;
    xcvm_order_keys(&v, 0, 3, 2, found);
    ck_assert_uint_lt(found[0], found[1]);
    const float zeros[] = {-0.0f, 0.0f};
    xcvm_value_set_tensor(&v, XCVM_F32, 1, (int64_t[]){2});
    v.data = (void *)zeros;
    xcvm_order_keys(&v, 0, 1, 2, found);
    ck_assert_uint_eq(found[0], found[1]);
}
END_TEST

START_TEST(random_numbers)
{
    enum { COUNT = 20000 };
    double sum = 0, squares = 0, uniform = 0, least = 1, most = 0;
    uint64_t a = 7, b = 7, c = 7, d = 7;
    static double uniforms[COUNT], normals[COUNT];
    /* In two parts, one of which is not a number of blocks. */
    xcvm_random_uniforms(&a, 777, uniforms);
    xcvm_random_uniforms(&a, COUNT - 777, uniforms + 777);
    xcvm_random_normals(&b, 777, normals);
    xcvm_random_normals(&b, COUNT - 777, normals + 777);
    for (int i = 0; i < COUNT; i++) {
        double u = uniforms[i], n = normals[i];
        ck_assert(u == xcvm_random_uniform(&c));
        const double radius = sqrt(-2.0 * log(1.0 - xcvm_random_uniform(&d)));
        ck_assert_double_eq_tol(n, radius * cos(6.283185307179586 * xcvm_random_uniform(&d)), 1e-10);
        uniform += u;
        least = fmin(least, u);
        most = fmax(most, u);
        sum += n;
        squares += n * n;
    }
    ck_assert(least >= 0 && most < 1 && least < 0.01 && most > 0.99);
    ck_assert_double_eq_tol(uniform / COUNT, 0.5, 0.01);
    ck_assert_double_eq_tol(sum / COUNT, 0, 0.03);
    ck_assert_double_eq_tol(squares / COUNT, 1, 0.04);
    /* The first number of the paper's reference implementation for state 0. */
    uint64_t zero = 0, session = 5, same = 5;
    ck_assert_uint_eq(xcvm_random_next(&zero), UINT64_C(0xe220a8397b1dcdaf));
    ck_assert_uint_eq(xcvm_random_start(3, &session), xcvm_random_start(3, NULL));
    ck_assert_uint_ne(xcvm_random_start(3, NULL), xcvm_random_start(4, NULL));
    ck_assert_uint_eq(session, 5);
    ck_assert_uint_eq(xcvm_random_start(-1, &session), xcvm_random_start(-1, &same));
    ck_assert_uint_ne(session, 5);
}
END_TEST

Suite *suite_ops_move(void);
Suite *suite_ops_move(void)
{
    Suite *suite = suite_create("ops_move");
    TCase *tests = tcase_create("move");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, strided);
    tcase_add_test(tests, packing);
    tcase_add_test(tests, filling);
    tcase_add_test(tests, sorting_keeps_equals_in_order);
    tcase_add_test(tests, keys);
    tcase_add_test(tests, random_numbers);
    suite_add_tcase(suite, tests);
    return suite;
}
