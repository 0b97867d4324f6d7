/* calls PROGRAM COUNT BYTES: the median time of a run in C, in nanoseconds. Input 0 is bound once to zeros. */
#include <xcvm/xcvm.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void require(xcvm_status status, const xcvm_error *error)
{
    if (status == XCVM_OK)
        return;
    fprintf(stderr, "calls: %s\n", error->message);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    enum { BATCH = 100 };
    const int count = atoi(argv[2]);
    double *times = calloc((size_t)count, sizeof *times);
    xcvm_error error;
    xcvm_program *program;
    xcvm_session *session;
    xcvm_value *x;
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    require(xcvm_program_load_file(argv[1], NULL, &program, &error), &error);
    require(xcvm_session_create(program, &options, &session, &error), &error);
    const xcvm_type *type = &xcvm_program_input_at(program, 0)->type;
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i] < 0 ? 1 : type->dims[i];
    require(xcvm_tensor_create(NULL, type->dtype, type->rank, dims, &x, &error), &error);
    for (size_t i = 0; i < xcvm_value_bytes(x); i++)
        ((char *)xcvm_value_data(x))[i] = 0;
    require(xcvm_session_set_input(session, 0, x, &error), &error);
    for (int i = 0; i < count; i++) {
        const double begin = now();
        for (int j = 0; j < BATCH; j++)
            require(xcvm_session_run(session, NULL, &error), &error);
        times[i] = (now() - begin) / BATCH;
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("%.0f\n", times[count / 2]);
    return 0;
}
