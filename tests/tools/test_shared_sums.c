/* Tests of sums in shared memory. The processes of the tests are threads, each with its own mapping. */
#include "tests/suites.h"
#include "tools/training/shared_sums.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 5, TOKEN = 77 };

/* The caller is each of `count` processes of one file. */
static void join(struct shared_sums **sums, int count)
{
    const int file = shared_sums_file(count, TOKEN);
    ck_assert_int_ge(file, 0);
    for (int r = 0; r < count; r++)
        ck_assert_ptr_nonnull(sums[r] = shared_sums_join(file, TOKEN, r, count));
    ck_assert_int_eq(close(file), 0);
}

static void leave(struct shared_sums **sums, int count)
{
    for (int r = 0; r < count; r++)
        shared_sums_leave(sums[r]);
}

static struct shared_sum *begin(struct shared_sums *sums, xcvm_dtype dtype, void *elements, size_t count)
{
    struct shared_sum *sum = NULL;
    xcvm_error error;
    ck_assert_int_eq(shared_sums_begin(sums, dtype, elements, count, &sum, &error), XCVM_OK);
    return sum;
}

static bool is_done(struct shared_sums *sums, struct shared_sum *sum)
{
    bool done = false;
    xcvm_error error;
    ck_assert_int_eq(shared_sums_end(sums, sum, &done, &error), XCVM_OK);
    return done;
}

/* Nothing is finished before all have begun. Then the first process computes everything, and the others find the
 * results, in the order in which they ask. */
START_TEST(one_after_another)
{
    struct shared_sums *s[2];
    join(s, 2);
    float a[2] = {1, 2}, b[2] = {10, 20};
    double c[2] = {3, 4};
    struct shared_sum *a0 = begin(s[0], XCVM_F32, &a[0], 1), *c0 = begin(s[0], XCVM_F64, &c[0], 1),
                      *b0 = begin(s[0], XCVM_F32, &b[0], 1);
    ck_assert(!is_done(s[0], a0));
    struct shared_sum *a1 = begin(s[1], XCVM_F32, &a[1], 1);
    ck_assert(!is_done(s[0], b0));
    struct shared_sum *c1 = begin(s[1], XCVM_F64, &c[1], 1), *b1 = begin(s[1], XCVM_F32, &b[1], 1);
    ck_assert(is_done(s[1], b1) && is_done(s[1], c1) && is_done(s[1], a1));
    ck_assert(is_done(s[0], a0) && is_done(s[0], b0) && is_done(s[0], c0));
    for (int r = 0; r < 2; r++)
        ck_assert(a[r] == 3 && b[r] == 30 && c[r] == 7);
    struct shared_sum *none0 = begin(s[0], XCVM_F32, a, 0), *none1 = begin(s[1], XCVM_F32, b, 0);
    ck_assert(is_done(s[0], none0) && is_done(s[1], none1));
    leave(s, 2);
}
END_TEST

/* A process in the test of concurrent sums. */
typedef struct process {
    pthread_t thread;
    struct shared_sums *sums;
    int rank, count;
    size_t wrong;
} process;

static const size_t sizes[] = {1, 5000, 64, 300001, 4096, 70000};
enum { SIZES = sizeof sizes / sizeof *sizes, ROUNDS = 60 };

/* Numbers whose sum depends on the order. */
static float number(int rank, int round, size_t i)
{
    return (float)((i * 2654435761U + (size_t)round * 40503U) % 1000 + 1) / (float)(3 + 4 * rank);
}

static float expected(int count, int round, size_t i)
{
    float sum = number(0, round, i);
    for (int r = 1; r < count; r++)
        sum += number(r, round, i);
    return sum;
}

static void *compute(void *user)
{
    process *p = user;
    const xcvm_allocator *allocator = shared_sums_allocator(p->sums);
    xcvm_error error;
    for (int round = 0; round < ROUNDS; round++) {
        float *x[SIZES];
        struct shared_sum *sums[SIZES];
        for (size_t k = 0; k < SIZES; k++) {
            const size_t bytes = sizes[k] * sizeof(float);
            x[k] = k % 3 == 2 ? malloc(bytes) : allocator->allocate(allocator->user, bytes, 64);
            for (size_t i = 0; i < sizes[k]; i++)
                x[k][i] = number(p->rank, round, i);
            if (shared_sums_begin(p->sums, XCVM_F32, x[k], sizes[k], &sums[k], &error) != XCVM_OK)
                abort();
        }
        for (size_t k = 0; k < SIZES; k++) {
            for (bool done = false; !done;)
                if (shared_sums_end(p->sums, sums[k], &done, &error) != XCVM_OK)
                    abort();
            for (size_t i = 0; i < sizes[k]; i++)
                p->wrong += x[k][i] != expected(p->count, round, i);
            if (k % 3 == 2)
                free(x[k]);
            else
                allocator->release(allocator->user, x[k], sizes[k] * sizeof(float));
        }
    }
    return NULL;
}

/* More sums than the ring has records, of all sizes; the bits are those of a sum in the order of the ranks. */
START_TEST(at_once)
{
    for (int count = 1; count <= MOST; count += 2) {
        struct shared_sums *s[MOST];
        process processes[MOST];
        join(s, count);
        for (int r = 0; r < count; r++) {
            processes[r] = (process){.sums = s[r], .rank = r, .count = count};
            ck_assert_int_eq(pthread_create(&processes[r].thread, NULL, compute, &processes[r]), 0);
        }
        for (int r = 0; r < count; r++) {
            ck_assert_int_eq(pthread_join(processes[r].thread, NULL), 0);
            ck_assert_uint_eq(processes[r].wrong, 0);
        }
        leave(s, count);
    }
}
END_TEST

/* Processes that begin different sums receive an error, and so does one that begins a sum after abandoning one. */
START_TEST(failing)
{
    struct shared_sums *s[2];
    bool done = false;
    xcvm_error error;
    join(s, 2);
    float a[2] = {1, 2}, b = 3;
    struct shared_sum *sum0 = begin(s[0], XCVM_F32, a, 2), *sum1 = begin(s[1], XCVM_F32, &b, 1);
    ck_assert_int_eq(shared_sums_end(s[0], sum0, &done, &error), XCVM_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "do not sum up the same"));
    ck_assert_int_eq(shared_sums_end(s[1], sum1, &done, &error), XCVM_IO);
    ck_assert(!done && a[0] == 1 && a[1] == 2 && b == 3);
    ck_assert_int_eq(shared_sums_begin(s[1], XCVM_F32, &b, 1, &sum1, &error), XCVM_IO);
    leave(s, 2);

    join(s, 2);
    shared_sums_abandon(s[0], begin(s[0], XCVM_F32, a, 1));
    ck_assert_int_eq(shared_sums_begin(s[0], XCVM_F32, a, 1, &sum0, &error), XCVM_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "given up a sum"));
    const xcvm_allocator *allocator = shared_sums_allocator(s[0]);
    ck_assert_ptr_null(allocator->allocate(allocator->user, 100, 64));
    leave(s, 2);
}
END_TEST

/* Memory that is given back is there again; there is no more than there is. */
START_TEST(memory)
{
    struct shared_sums *s[1];
    join(s, 1);
    const xcvm_allocator *allocator = shared_sums_allocator(s[0]);
    char *first = allocator->allocate(allocator->user, 100, 64),
         *second = allocator->allocate(allocator->user, 100, 64), *third;
    ck_assert(first != NULL && second >= first + 100 && (size_t)second % 64 == 0);
    allocator->release(allocator->user, second, 100);
    ck_assert_ptr_eq(third = allocator->allocate(allocator->user, 200, 4096), second + (4096 - (size_t)second % 4096));
    allocator->release(allocator->user, first, 100);
    allocator->release(allocator->user, third, 200);
    ck_assert_ptr_eq(allocator->allocate(allocator->user, 100, 64), first);
    ck_assert_ptr_null(allocator->allocate(allocator->user, SIZE_MAX / 2, 64));
    leave(s, 1);
}
END_TEST

/* A file with another token is refused. */
START_TEST(another_file)
{
    const int file = shared_sums_file(2, TOKEN);
    ck_assert_ptr_null(shared_sums_join(file, TOKEN + 1, 0, 2));
    close(file);
    FILE *other = tmpfile();
    ck_assert_ptr_nonnull(other);
    ck_assert_ptr_null(shared_sums_join(fileno(other), TOKEN, 0, 2));
    (void)fclose(other);
}
END_TEST

/* If the file size limit is too small, no memory is shared, and no signal ends the process. */
START_TEST(files_that_may_not_be_long)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1 << 20;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_lt(shared_sums_file(2, TOKEN), 0);
}
END_TEST

Suite *suite_tools_shared_sums(void);
Suite *suite_tools_shared_sums(void)
{
    Suite *suite = suite_create("tools_shared_sums");
    TCase *tests = tcase_create("sums");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, one_after_another);
    tcase_add_test(tests, at_once);
    tcase_add_test(tests, failing);
    tcase_add_test(tests, memory);
    tcase_add_test(tests, another_file);
    tcase_add_test(tests, files_that_may_not_be_long);
    suite_add_tcase(suite, tests);
    return suite;
}
