/* Trainers of several processes, which are threads here: each has its part of every batch. */
#include "tests/suites.h"
#include "tests/train/trainers.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

static struct {
    pthread_barrier_t barrier;
    double sums[64];
    pthread_mutex_t mutex;
    size_t begun; /* sums of all processes during a run */
    xct_trainer *trainers[RANKS];
    xct_dataset *data[RANKS];
    xct_fit_report reports[RANKS];
    xcvm_status statuses[RANKS];
    xcvm_error errors[RANKS];
    const xct_fit_options *options;
    const xct_trainer_options *last; /* of the last process; NULL: those of all */
    const char *model;               /* NULL: line_model */
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Each thread adds its elements. After the barrier all read the sums. */
static xcvm_status add_up(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    (void)user;
    (void)error;
    float *singles = elements;
    double *doubles = elements;
    for (size_t from = 0; from < count; from += 64) {
        const size_t end = from + 64 < count ? from + 64 : count;
        pthread_mutex_lock(&shared.mutex);
        for (size_t i = from; i < end; i++)
            shared.sums[i - from] += dtype == XCVM_F32 ? (double)singles[i] : doubles[i];
        pthread_mutex_unlock(&shared.mutex);
        pthread_barrier_wait(&shared.barrier);
        for (size_t i = from; i < end; i++)
            if (dtype == XCVM_F32)
                singles[i] = (float)shared.sums[i - from];
            else
                doubles[i] = shared.sums[i - from];
        if (pthread_barrier_wait(&shared.barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            memset(shared.sums, 0, sizeof shared.sums);
        pthread_barrier_wait(&shared.barrier);
    }
    return XCVM_OK;
}

typedef struct later {
    xcvm_dtype dtype;
    void *elements;
    size_t count;
} later;

/* A sum that was begun is computed by the wait. */
static xcvm_status begin_later(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                               xcvm_error *error)
{
    later *l = malloc(sizeof *l);
    (void)user;
    (void)error;
    ck_assert_ptr_nonnull(l);
    *l = (later){dtype, elements, count};
    *request = l;
    pthread_mutex_lock(&shared.mutex);
    shared.begun++;
    pthread_mutex_unlock(&shared.mutex);
    return XCVM_OK;
}

static void abandon_later(void *user, void *request)
{
    (void)user;
    free(request);
}

static xcvm_status end_later(void *user, void *request, bool *done, xcvm_error *error)
{
    const later l = *(later *)request;
    free(request);
    *done = true;
    return add_up(user, l.dtype, l.elements, l.count, error);
}

static void *take_part(void *user)
{
    const size_t rank = (size_t)(uintptr_t)user;
    shared.statuses[rank] = xct_trainer_fit(shared.trainers[rank], shared.data[rank], shared.options,
                                            &shared.reports[rank], &shared.errors[rank]);
    return NULL;
}

/* Fits a trainer per process; the last one has the data several times. */
static void begin_ranks(const xct_trainer_options *options, const xct_fit_options *fit_options, size_t times)
{
    pthread_t threads[RANKS];
    const char *paths[] = {in_folder("data.safetensors"), in_folder("data.safetensors")};
    ck_assert_int_eq(pthread_barrier_init(&shared.barrier, NULL, RANKS), 0);
    shared.options = fit_options;
    for (size_t i = 0; i < RANKS; i++) {
        xct_trainer_options own = shared.last != NULL && i + 1 == RANKS ? *shared.last : *options;
        own.ranks = RANKS;
        own.rank = (int)i;
        own.all_reduce.sum = add_up;
        shared.trainers[i] = make(shared.model != NULL ? shared.model : line_model, &own);
        shared.reports[i].size = sizeof shared.reports[i];
        ck_assert_int_eq(
            xct_dataset_create(shared.trainers[i], paths, i + 1 < RANKS ? 1 : times, NULL, 0, &shared.data[i], NULL),
            XCVM_OK);
    }
    for (size_t i = 0; i < RANKS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_part, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static void end_ranks(void)
{
    for (size_t i = 0; i < RANKS; i++) {
        xct_dataset_destroy(shared.data[i]);
        xct_trainer_destroy(shared.trainers[i]);
    }
    pthread_barrier_destroy(&shared.barrier);
}

/* Each has a part of every batch, and of batches that cannot be shared out evenly: losses and parameters are those of
 * one process, but for rounding, and the same bits in all. */
START_TEST(several_processes)
{
    write_data();
    const xcc_options compile = {
        .size = sizeof compile, .train = "adam:lr=0.05", .training.clip_norm = 1, .training.accumulate = _i == 2};
    static const char *const metrics[] = {"perplexity"};
    xct_trainer_options options = {
        .size = sizeof options, .compile = &compile, .metrics = metrics, .metric_count = 1, .threads = 1};
    /* For validation there are 13 examples, five batches for three processes. */
    const xct_fit_options fit_options = {.size = sizeof fit_options,
                                         .epochs = 4,
                                         .batch = 8,
                                         .held_out = 0.36,
                                         .schedule = "plateau:patience=0",
                                         .accumulate = _i == 2 ? 2 : 1};
    xct_trainer *alone = make(line_model, &options);
    const xct_fit_report expected = fit(alone, &fit_options, XCVM_OK, "");
    shared.begun = 0;
    if (_i >= 1) {
        options.all_reduce.begin = begin_later;
        options.all_reduce.end = end_later;
        options.all_reduce.abandon = abandon_later;
    }
    begin_ranks(&options, &fit_options, 1);
    for (size_t i = 0; i < RANKS; i++)
        ck_assert_msg(shared.statuses[i] == XCVM_OK, "%zu: %s", i, shared.errors[i].message);
    for (size_t i = 0; i < RANKS; i++) {
        check_same(shared.trainers[0], shared.trainers[i]);
        ck_assert_uint_eq(shared.reports[i].steps, expected.steps);
        ck_assert_msg(fabs(shared.reports[i].training.loss / expected.training.loss - 1) < 1e-4, "%g, not %g",
                      shared.reports[i].training.loss, expected.training.loss);
        ck_assert(fabs(shared.reports[i].validation.loss / expected.validation.loss - 1) < 1e-4);
        ck_assert(shared.reports[i].validation.loss == shared.reports[0].validation.loss);
        ck_assert_uint_eq(shared.reports[i].validation.examples, expected.validation.examples);
        ck_assert_uint_eq(expected.validation.examples, 13);
    }
    /* Gradients are summed once a step, however many batches it has. */
    ck_assert_uint_eq(shared.begun, _i == 0 ? 0 : RANKS * expected.steps);
    check_floats(parameter(shared.trainers[0], "w"), xcvm_value_data(parameter(alone, "w")), 2, 1e-4F);
    end_ranks();
    xct_trainer_destroy(alone);
}
END_TEST

/* BatchNormalization uses the statistics of the whole batch, whose parts differ in size. The result equals that of one
 * process. With statistics of each part it does not. */
START_TEST(normalized_batches)
{
    write_data();
    const bool local = _i == 3;
    xcc_options compile = {.size = sizeof compile,
                           .train = "sgd:lr=0.2,momentum=0.5",
                           .training.train_batch_normalization = true,
                           .training.accumulate = _i == 2};
    xct_trainer_options options = {.size = sizeof options, .compile = &compile, .threads = 1};
    const xct_fit_options fit_options = {
        .size = sizeof fit_options, .epochs = 3, .batch = 8, .accumulate = _i == 2 ? 2 : 1, .held_out = 0.2};
    xct_trainer *alone = make(normal_model, &options);
    const xct_fit_report expected = fit(alone, &fit_options, XCVM_OK, "");
    compile.training.local_batch_normalization = local;
    if (_i >= 1) {
        options.all_reduce.begin = begin_later;
        options.all_reduce.end = end_later;
        options.all_reduce.abandon = abandon_later;
    }
    shared.model = normal_model;
    begin_ranks(&options, &fit_options, 1);
    shared.model = NULL;
    for (size_t i = 0; i < RANKS; i++) {
        ck_assert_msg(shared.statuses[i] == XCVM_OK, "%zu: %s", i, shared.errors[i].message);
        check_same(shared.trainers[0], shared.trainers[i]);
        const double off = fabs(shared.reports[i].training.loss / expected.training.loss - 1);
        ck_assert_msg(local ? off > 1e-2 : off < 1e-5, "%g", off);
        const double held = fabs(shared.reports[i].validation.loss / expected.validation.loss - 1);
        ck_assert_msg(local ? held > 1e-3 : held < 1e-5, "%g", held);
    }
    static const char *const names[] = {"w1", "s", "o", "m", "v", "w2"};
    for (size_t i = 0; !local && i < sizeof names / sizeof *names; i++) {
        const xcvm_value *v = parameter(alone, names[i]);
        check_floats(parameter(shared.trainers[0], names[i]), xcvm_value_data(v), xcvm_value_count(v), 2e-5F);
    }
    end_ranks();
    xct_trainer_destroy(alone);
}
END_TEST

static xcvm_status add_nothing(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error)
{
    (void)user;
    (void)dtype;
    (void)elements;
    (void)count;
    (void)error;
    return XCVM_OK;
}

/* Accumulated gradients of a process are unknown to the others, so a checkpoint of one process does not have them. */
START_TEST(saved_between_steps)
{
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.05", .training.accumulate = true};
    const xct_trainer_options options = {
        .size = sizeof options, .compile = &compile, .threads = 1, .ranks = 2, .all_reduce.sum = add_nothing};
    const xct_step_options gather = {.size = sizeof gather, .gather = true};
    xct_trainer *t = make(line_model, &options);
    const float numbers[4] = {1, 2, 3, 4};
    xcvm_value *batch[] = {tensor(XCVM_F32, 2, (const int64_t[]){2, 2}, numbers),
                           tensor(XCVM_F32, 2, (const int64_t[]){2, 1}, numbers)};
    const xcvm_value *const *values = (const xcvm_value *const *)batch;
    xcvm_error error = {.message = ""};
    ck_assert_msg(xct_trainer_step(t, values, &gather, NULL, &error) == XCVM_OK, "%s", error.message);
    ck_assert_int_eq(xct_trainer_save(t, in_folder("saved"), &error), XCVM_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, "accumulated gradients of its own") != NULL, "%s", error.message);
    ck_assert_int_eq(xct_trainer_step(t, values, NULL, NULL, NULL), XCVM_OK);
    ck_assert_int_eq(xct_trainer_save(t, in_folder("saved"), NULL), XCVM_OK);
    xcvm_value_release(batch[0]);
    xcvm_value_release(batch[1]);
    xct_trainer_destroy(t);
}
END_TEST

/* Processes that do not see the same data say so before they wait for each other. */
START_TEST(processes_that_differ)
{
    write_data();
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.05"};
    xct_trainer_options options = {.size = sizeof options, .compile = &compile, .threads = 1};
    const xct_fit_options fit_options = {.size = sizeof fit_options, .epochs = 1, .batch = 8};
    begin_ranks(&options, &fit_options, 2);
    for (size_t i = 0; i < RANKS; i++) {
        ck_assert_int_eq(shared.statuses[i], XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(shared.errors[i].message, "the processes do not have the same examples") != NULL, "%s",
                      shared.errors[i].message);
    }
    end_ranks();
}
END_TEST

/* A difference between one process and the others, and its description. */
static const struct {
    const char *what;
    xcc_options compile;
    uint64_t seed;
    const char *init;
    size_t metric_count;
} other_options[] = {
    {"optimizer", {.train = "sgd:lr=0.06"}, 0, NULL, 0},
    {"optimizer", {.train = "adam:lr=0.05"}, 0, NULL, 0},
    {"parameters that learn",
     {.train = "sgd:lr=0.05", .gradients.wrt = (const char *const[]){"w"}, .gradients.wrt_count = 1},
     0,
     NULL,
     0},
    {"clipping, accumulation, averages or loss scale", {.train = "sgd:lr=0.05", .training.clip_norm = 1}, 0, NULL, 0},
    {"clipping, accumulation, averages or loss scale", {.train = "sgd:lr=0.05", .training.average = 0.9}, 0, NULL, 0},
    {"seed or order of examples", {.train = "sgd:lr=0.05"}, 7, NULL, 0},
    {"rounding of weights and activations, or normalization of batches",
     {.train = "sgd:lr=0.05", .training.local_batch_normalization = true},
     0,
     NULL,
     0},
    {"metrics", {.train = "sgd:lr=0.05"}, 0, NULL, 1},
    {"weights to begin with", {.train = "sgd:lr=0.05"}, 0, "normal", 0},
};
enum { OTHER_OPTIONS = sizeof other_options / sizeof *other_options };

/* Processes with different options do not begin either. Each names the option. */
START_TEST(processes_with_other_options)
{
    static const char *const metrics[] = {"perplexity"};
    write_data();
    const xcc_options compile = {.size = sizeof compile, .train = "sgd:lr=0.05"};
    xcc_options other = other_options[_i].compile;
    other.size = sizeof other;
    xct_trainer_options options = {.size = sizeof options, .compile = &compile, .threads = 1};
    const xct_trainer_options last = {.size = sizeof last,
                                      .compile = &other,
                                      .threads = 1,
                                      .seed = other_options[_i].seed,
                                      .init = other_options[_i].init,
                                      .metrics = metrics,
                                      .metric_count = other_options[_i].metric_count};
    const xct_fit_options fit_options = {.size = sizeof fit_options, .epochs = 1, .batch = 8};
    shared.last = &last;
    begin_ranks(&options, &fit_options, 1);
    shared.last = NULL;
    for (size_t i = 0; i < RANKS; i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected, "the processes do not have the same %s: all must",
                       other_options[_i].what);
        ck_assert_int_eq(shared.statuses[i], XCVM_INVALID_ARGUMENT);
        ck_assert_msg(strstr(shared.errors[i].message, expected) != NULL, "%s", shared.errors[i].message);
    }
    end_ranks();
}
END_TEST

Suite *suite_train_trainer_processes(void);
Suite *suite_train_trainer_processes(void)
{
    Suite *suite = suite_create("train_trainer_processes");
    TCase *tests = tcase_create("processes");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_checked_fixture(tests, NULL, release_models);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, several_processes, 0, 3);
    tcase_add_loop_test(tests, normalized_batches, 0, 4);
    tcase_add_test(tests, saved_between_steps);
    tcase_add_test(tests, processes_that_differ);
    tcase_add_loop_test(tests, processes_with_other_options, 0, OTHER_OPTIONS);
    suite_add_tcase(suite, tests);
    return suite;
}
