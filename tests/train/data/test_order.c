/* The order of examples: permutations, shards and parts. */
#include "tests/suites.h"
#include "train/data/order.h"
#include "train/data/permutation.h"

#include <stdlib.h>
#include <string.h>

START_TEST(permutes)
{
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const uint64_t n = counts[c];
        char *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t to = xct_permute(xct_permutation_key(7, 1, 2), n, i);
            ck_assert_uint_lt(to, n);
            ck_assert_int_eq(seen[to], 0);
            seen[to] = 1;
        }
        free(seen);
    }
}
END_TEST

/* Over many keys each place gets each example about equally often: of 10,000 keys and 10 places the squared deviations
 * from 1000, over 1000, add up to about 9 in each row, and hardly ever to more than 40. */
START_TEST(permutes_evenly)
{
    enum { N = 10, KEYS = 10000 };
    int counts[N][N] = {{0}};
    for (uint64_t key = 0; key < KEYS; key++)
        for (uint64_t i = 0; i < N; i++)
            counts[i][xct_permute(xct_permutation_key(key, 0, 0), N, i)]++;
    for (int i = 0; i < N; i++) {
        double deviation = 0;
        for (int k = 0; k < N; k++)
            deviation += (double)(counts[i][k] - KEYS / N) * (counts[i][k] - KEYS / N) / ((double)KEYS / N);
        ck_assert_msg(deviation < 40, "place %d: %g", i, deviation);
    }
}
END_TEST

/* A data set of three shards, without files. */
static xct_shard shards[] = {{.rows = 5}, {.rows = 1}, {.rows = 14}};
static const xct_dataset set = {.shards = shards, .shard_count = 3, .rows = 20};

/* Number of occurrences of each of the 20 examples in an epoch. */
static void count_rows(xct_order *order, uint64_t epoch, int counts[20])
{
    static const uint64_t starts[] = {0, 5, 6};
    memset(counts, 0, 20 * sizeof *counts);
    for (uint64_t i = 0; i < order->total; i++) {
        size_t shard;
        uint64_t row;
        xct_order_find(order, epoch, i, &shard, &row);
        ck_assert_uint_lt(shard, 3);
        ck_assert_uint_lt(row, shards[shard].rows);
        counts[starts[shard] + row]++;
    }
}

START_TEST(takes_each_once)
{
    for (int shuffle = 0; shuffle <= 1; shuffle++)
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            xct_order order;
            int counts[20];
            ck_assert_int_eq(xct_order_begin(&order, &set, XCT_ALL, 0, shuffle, 3, NULL), XCVM_OK);
            count_rows(&order, epoch, counts);
            for (int i = 0; i < 20; i++)
                ck_assert_int_eq(counts[i], 1);
            xct_order_end(&order);
        }
}
END_TEST

START_TEST(parts_are_apart)
{
    for (int shuffle = 0; shuffle <= 1; shuffle++) {
        xct_order left, held;
        ck_assert_int_eq(xct_order_begin(&left, &set, XCT_LEFT, 0.25, shuffle, 3, NULL), XCVM_OK);
        ck_assert_int_eq(xct_order_begin(&held, &set, XCT_HELD_OUT, 0.25, shuffle, 3, NULL), XCVM_OK);
        ck_assert_uint_eq(left.total, 15);
        ck_assert_uint_eq(held.total, 5);
        int first[20], again[20], others[20];
        count_rows(&held, 0, first);
        count_rows(&held, 4, again);
        count_rows(&left, 2, others);
        for (int i = 0; i < 20; i++) {
            ck_assert_int_eq(first[i], again[i]);
            ck_assert_int_eq(first[i] + others[i], 1);
        }
        xct_order_end(&left);
        xct_order_end(&held);
    }
}
END_TEST

START_TEST(shuffles_by_epoch_and_seed)
{
    xct_order a, b;
    ck_assert_int_eq(xct_order_begin(&a, &set, XCT_ALL, 0, true, 1, NULL), XCVM_OK);
    ck_assert_int_eq(xct_order_begin(&b, &set, XCT_ALL, 0, true, 2, NULL), XCVM_OK);
    int epochs = 0, seeds = 0, again = 0;
    for (uint64_t i = 0; i < 20; i++) {
        size_t shards_of[4];
        uint64_t rows[4];
        xct_order_find(&a, 0, i, &shards_of[0], &rows[0]);
        xct_order_find(&a, 1, i, &shards_of[1], &rows[1]);
        xct_order_find(&b, 0, i, &shards_of[2], &rows[2]);
        xct_order_find(&a, 0, i, &shards_of[3], &rows[3]);
        epochs += shards_of[0] != shards_of[1] || rows[0] != rows[1];
        seeds += shards_of[0] != shards_of[2] || rows[0] != rows[2];
        again += shards_of[0] != shards_of[3] || rows[0] != rows[3];
    }
    ck_assert_int_gt(epochs, 5);
    ck_assert_int_gt(seeds, 5);
    ck_assert_int_eq(again, 0);
    xct_order_end(&a);
    xct_order_end(&b);
}
END_TEST

START_TEST(one_example_cannot_be_parted)
{
    static xct_shard lone[] = {{.rows = 1}};
    const xct_dataset one = {.shards = lone, .shard_count = 1, .rows = 1};
    xct_order order;
    xcvm_error error;
    ck_assert_int_eq(xct_order_begin(&order, &one, XCT_HELD_OUT, 0.5, true, 0, &error), XCVM_INVALID_ARGUMENT);
}
END_TEST

Suite *suite_train_order(void)
{
    Suite *suite = suite_create("train_order");
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, permutes);
    tcase_add_test(tests, permutes_evenly);
    tcase_add_test(tests, takes_each_once);
    tcase_add_test(tests, parts_are_apart);
    tcase_add_test(tests, shuffles_by_epoch_and_seed);
    tcase_add_test(tests, one_example_cannot_be_parted);
    suite_add_tcase(suite, tests);
    return suite;
}
