/*
 * A request pool inside a program of yours: it reads lines of numbers and answers each line when its result is there.
 *
 *   xcvm compile examples/digits/model.onnx -o digits.bin
 *   cc examples/service.c $(pkg-config --cflags --libs xcvm-server) -lpthread -o service
 *   seq 64 | tr '\n' ' ' | ./service digits.bin
 *
 * The program's first input and output must be tensors of floats. Dynamic dimensions are taken as 1. A request that
 * waits longer than a second is refused.
 */
#include <xcvm/server.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct answers {
    pthread_mutex_t mutex;
    size_t failed;
} answers;

/* Called once for each request, on a thread of the pool. The outputs are lent for the call. */
static void print_answer(void *user, const xcs_result *result)
{
    answers *a = user;
    pthread_mutex_lock(&a->mutex);
    if (result->status != XCVM_OK) {
        printf("%s: %s\n", xcs_reason_summary(result->reason), result->error->message);
        a->failed++;
    } else {
        const float *elements = xcvm_value_data(result->outputs[0]);
        size_t best = 0;
        for (size_t i = 1; i < xcvm_value_count(result->outputs[0]); i++)
            best = elements[i] > elements[best] ? i : best;
        printf("greatest element: %zu\n", best);
    }
    pthread_mutex_unlock(&a->mutex);
}

static xcvm_status submit_line(xcs_server *server, xcs_model *model, answers *a, bool *end, xcvm_error *error)
{
    const xcvm_type *type = &xcvm_program_input_at(xcs_model_program(model), 0)->type;
    int64_t dims[XCVM_MAX_RANK];
    for (int i = 0; i < type->rank; i++)
        dims[i] = type->dims[i] < 0 ? 1 : type->dims[i];
    xcvm_value *input;
    /* Memory of the model's allocator counts against its limit. */
    xcvm_status status = xcvm_tensor_create(xcs_model_allocator(model), XCVM_F32, type->rank, dims, &input, error);
    if (status != XCVM_OK)
        return status;
    float *elements = xcvm_value_data(input);
    for (size_t i = 0; i < xcvm_value_count(input) && !*end; i++)
        *end = scanf("%f", &elements[i]) != 1;
    if (!*end) {
        const xcvm_value *inputs[] = {input};
        const xcs_request_options request = {
            .size = sizeof request, .model = model, .input_count = 1, .inputs = inputs, .timeout_ns = 1000000000};
        xcs_request_release(xcs_server_submit(server, &request, (xcs_completion){print_answer, a}));
    }
    xcvm_value_release(input); /* the pool has a reference of its own */
    return XCVM_OK;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: service PROGRAM <NUMBERS\n");
        return 2;
    }
    xcs_server *server;
    xcvm_error error;
    if (xcs_server_create(NULL, &server, &error) != XCVM_OK) {
        fprintf(stderr, "service: %s\n", error.message);
        return 1;
    }
    const xcs_model_options options = {.size = sizeof options, .name = "model", .path = argv[1]};
    answers a = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    bool end = false;
    xcvm_status status = xcs_server_load_model(server, &options, &error);
    xcs_model *model = status == XCVM_OK ? xcs_server_find_model(server, "model", NULL) : NULL;
    while (status == XCVM_OK && !end)
        status = submit_line(server, model, &a, &end, &error);
    if (status != XCVM_OK)
        fprintf(stderr, "service: %s\n", error.message);
    /* Answers that are still missing come before the server is gone. */
    (void)xcs_server_drain(server, 0);
    xcs_model_release(model);
    xcs_server_destroy(server);
    return status != XCVM_OK || a.failed > 0;
}
