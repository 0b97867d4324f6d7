/*
 * XCVM inside a program of yours: load once, run from four threads.
 *
 *   xcvm compile examples/digits/model.onnx -o digits.bin
 *   cc examples/embed.c $(pkg-config --cflags --libs xcvm) -lpthread -o embed
 *   ./embed digits.bin
 *
 * With CMake: find_package(xcvm REQUIRED) and target_link_libraries(embed PRIVATE xcvm::xcvm).
 *
 * The program's first input and output must be tensors of floats. Open dimensions are taken as 1.
 */
#include <xcvm/xcvm.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, RUNS = 10 };

typedef struct job {
    const xcvm_program *program;
    float fill; /* every element of the input */
    double sum; /* of the first output's elements */
    xcvm_status status;
    xcvm_error error;
} job;

static xcvm_status run_job(job *j)
{
    const xcvm_type *type = &xcvm_program_input_at(j->program, 0)->type;
    int64_t dims[XCVM_MAX_RANK];
    size_t count = 1;
    for (int i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i] < 0 ? 1 : type->dims[i];
        count *= (size_t)dims[i];
    }
    float *data = malloc(count * sizeof *data);
    if (data == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        data[i] = j->fill;

    /* The tensor is a view of `data`: nothing is copied on the way in. */
    xcvm_value *input = NULL;
    xcvm_session *session = NULL;
    const xcvm_session_options options = {.size = sizeof options, .threads = 1};
    xcvm_status status = xcvm_tensor_wrap(XCVM_F32, type->rank, dims, data, (xcvm_finalizer){0}, &input, &j->error);
    if (status == XCVM_OK)
        status = xcvm_session_create(j->program, &options, &session, &j->error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(session, 0, input, &j->error);
    for (int i = 0; i < RUNS && status == XCVM_OK; i++)
        status = xcvm_session_run(session, NULL, &j->error);
    if (status == XCVM_OK) {
        const xcvm_value *output = xcvm_session_get_output(session, 0); /* lent until the next run */
        const float *elements = xcvm_value_data(output);
        bool floats = xcvm_value_kind(output) == XCVM_KIND_TENSOR && xcvm_value_dtype(output) == XCVM_F32;
        for (size_t i = 0; floats && i < xcvm_value_count(output); i++)
            j->sum += (double)elements[i];
        if (!floats) {
            snprintf(j->error.message, sizeof j->error.message, "the first output is no tensor of floats");
            status = XCVM_TYPE_MISMATCH;
        }
    }
    xcvm_session_destroy(session);
    xcvm_value_release(input);
    free(data);
    return status;
}

static void *thread_main(void *argument)
{
    job *j = argument;
    j->status = run_job(j);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: embed PROGRAM\n");
        return 2;
    }

    xcvm_program *program;
    xcvm_error error;
    if (xcvm_program_load_file(argv[1], NULL, &program, &error) != XCVM_OK) {
        fprintf(stderr, "embed: %s\n", error.message); /* which names the file */
        return 3;
    }

    /* An error is a status and a message; nothing in the library prints or exits. */
    xcvm_value *wrong;
    const int64_t dims[] = {1};
    float nothing = 0;
    if (xcvm_tensor_wrap(XCVM_F32, 1, dims, &nothing, (xcvm_finalizer){0}, &wrong, &error) == XCVM_OK) {
        xcvm_session *session;
        if (xcvm_session_create(program, NULL, &session, &error) == XCVM_OK) {
            if (xcvm_session_set_input(session, 0, wrong, &error) != XCVM_OK)
                printf("as expected: %s\n", error.message);
            xcvm_session_destroy(session);
        }
        xcvm_value_release(wrong);
    }

    /* One program, one session for each thread. */
    job jobs[THREADS];
    pthread_t threads[THREADS];
    int failed = 0;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){.program = program, .fill = (float)i / THREADS};
        if (pthread_create(&threads[i], NULL, thread_main, &jobs[i]) != 0)
            return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (jobs[i].status != XCVM_OK) {
            fprintf(stderr, "embed: thread %d: %s: %s\n", i, xcvm_status_name(jobs[i].status), jobs[i].error.message);
            failed = 1;
        } else {
            printf("thread %d: input all %.2f, sum of outputs %.6f\n", i, (double)jobs[i].fill, jobs[i].sum);
        }
    }
    xcvm_program_destroy(program);
    return failed;
}
