/* What the tests of the request pool share: program files from text, requests, and completions that are recorded. */
#ifndef XCVM_TESTS_SERVER_SUPPORT_H
#define XCVM_TESTS_SERVER_SUPPORT_H

#include "tests/vm/support.h"
#include "xcvm/server.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* y = 2 * x. */
#define DOUBLES "input x f32[2]\noutput y f32[2]\n$1 = In(name=\"x\")\n$2 = Add($1, $1)\nOut($2, name=\"y\")\n"
/* y = 3 * x. */
#define TRIPLES                                                                                                        \
    "input x f32[2]\noutput y f32[2]\n$1 = In(name=\"x\")\n$2 = Add($1, $1)\n$3 = Add($2, $1)\nOut($3, name=\"y\")\n"
/* Runs until it is stopped. */
#define ENDLESS "input x f32[2]\nloop:\n$1 = Neg(f32[1] 1)\nFree($1)\nJmp(to=loop)\n"
/* Rows times a matrix. */
#define ROWS                                                                                                           \
    "input x f32[Nx2]\noutput y f32[Nx3]\nconstant w f32[2x3] = 1 2 3 4 5 6\n$1 = In(name=\"x\")\n"                    \
    "$2 = MatMul($1, @w)\nOut($2, name=\"y\")\n"
/* Adds to a state and returns it. */
#define COUNTS                                                                                                         \
    "input x f32[2]\noutput y f32[2]\nstate total f32[2] = @start\nconstant start f32[2] = 10 20\n"                    \
    "$1 = In(name=\"x\")\n$2 = Load(name=\"total\")\n$3 = Add($1, $2)\nStore($3, name=\"total\")\n"                    \
    "Out($3, name=\"y\")\n"

typedef struct test_model_file {
    char path[64];
} test_model_file;

static UNUSED void write_program(test_model_file *file, const char *text)
{
    if (file->path[0] == '\0') {
        strcpy(file->path, "/tmp/xcvm_server_XXXXXX");
        const int fd = mkstemp(file->path);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    char temporary[80];
    snprintf(temporary, sizeof temporary, "%s.new", file->path);
    test_bytes program = assemble(text);
    FILE *stream = fopen(temporary, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(program.at, 1, program.length, stream), program.length);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(rename(temporary, file->path), 0); /* never changes a file that is mapped */
    test_bytes_free(&program);
}

static UNUSED xcs_server *create_server(int workers)
{
    const xcs_server_options options = {.size = sizeof options, .workers = workers};
    xcs_server *server = NULL;
    xcvm_error error = {0};
    ck_assert_msg(xcs_server_create(&options, &server, &error) == XCVM_OK, "%s", error.message);
    return server;
}

/* Loads a program under a name; `options` may be NULL. The file is removed. */
static UNUSED void add_model(xcs_server *server, const char *name, const char *text, const xcs_model_options *options)
{
    test_model_file file = {""};
    xcs_model_options o = options != NULL ? *options : (xcs_model_options){.size = sizeof o};
    xcvm_error error = {0};
    write_program(&file, text);
    o.name = name;
    o.path = file.path;
    ck_assert_msg(xcs_server_load_model(server, &o, &error) == XCVM_OK, "%s", error.message);
    unlink(file.path);
}

static UNUSED xcvm_value *row_tensor(int64_t rows, const float *elements, bool is_vector)
{
    const int64_t dims[] = {rows, 2};
    xcvm_value *tensor = NULL;
    ck_assert_int_eq(xcvm_tensor_create(NULL, XCVM_F32, is_vector ? 1 : 2, is_vector ? dims + 1 : dims, &tensor, NULL),
                     XCVM_OK);
    memcpy(xcvm_value_data(tensor), elements, (size_t)rows * 2 * sizeof(float));
    return tensor;
}

/* What completions told, in their order. */
enum { MOST_COMPLETIONS = 64 };
typedef struct completions {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t count;
    int tags[MOST_COMPLETIONS];
    xcs_reason reasons[MOST_COMPLETIONS];
    int64_t batch_rows[MOST_COMPLETIONS];
    float first[MOST_COMPLETIONS]; /* element of the first output */
    char message[MOST_COMPLETIONS][200];
    uint64_t retry_after_ns;
} completions;

typedef struct tagged {
    completions *all;
    int tag;
} tagged;

static UNUSED void record(void *user, const xcs_result *result)
{
    tagged *t = user;
    completions *c = t->all;
    pthread_mutex_lock(&c->mutex);
    ck_assert_uint_lt(c->count, MOST_COMPLETIONS);
    c->tags[c->count] = t->tag;
    c->reasons[c->count] = result->reason;
    c->batch_rows[c->count] = result->batch_rows;
    c->retry_after_ns = result->retry_after_ns;
    if (result->reason == XCS_NONE)
        c->first[c->count] = *(const float *)xcvm_value_data(result->outputs[0]);
    else
        snprintf(c->message[c->count], sizeof c->message[0], "%.199s", result->error->message);
    c->count++;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

#define COMPLETIONS_INITIAL                                                                                            \
    {                                                                                                                  \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                                        \
    }

static UNUSED void wait_for(completions *c, size_t count)
{
    pthread_mutex_lock(&c->mutex);
    while (c->count < count)
        pthread_cond_wait(&c->changed, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
}

/* Submits one tensor {x, x}, or with rows > 0 as many rows. `options` may be NULL. */
static UNUSED xcs_request *submit(xcs_server *server, const char *name, float x, int64_t rows, tagged *user,
                                  const xcs_request_options *options)
{
    float elements[64];
    for (int i = 0; i < 64; i++)
        elements[i] = x;
    xcvm_value *input = row_tensor(rows > 0 ? rows : 1, elements, rows == 0);
    xcs_request_options o = options != NULL ? *options : (xcs_request_options){.size = sizeof o};
    const xcvm_value *inputs[] = {input};
    o.name = name;
    o.input_count = 1;
    o.inputs = inputs;
    xcs_request *request = xcs_server_submit(server, &o, (xcs_completion){record, user});
    xcvm_value_release(input);
    return request;
}

/* Runs one tensor {x, x} and returns the first element of the first output; -1 after a failure. */
static UNUSED float call(xcs_server *server, const char *name, float x, const xcs_request_options *options,
                         xcs_reason *reason, xcvm_error *error)
{
    const float elements[] = {x, x};
    xcvm_value *input = row_tensor(1, elements, true), *output = NULL;
    xcs_request_options o = options != NULL ? *options : (xcs_request_options){.size = sizeof o};
    const xcvm_value *inputs[] = {input};
    o.name = name;
    o.input_count = 1;
    o.inputs = inputs;
    float y = -1;
    if (xcs_server_run(server, &o, 1, &output, reason, error) == XCVM_OK)
        y = *(const float *)xcvm_value_data(output);
    xcvm_value_release(output);
    xcvm_value_release(input);
    return y;
}

typedef struct found_info {
    const char *name;
    xcs_model_info info;
    size_t visited;
} found_info;

static UNUSED void find_info(void *user, const xcs_model_info *info)
{
    found_info *found = user;
    if (strcmp(info->name, found->name) == 0)
        found->info = *info;
    found->visited++;
}

static UNUSED xcs_statistics statistics_of(xcs_server *server, const char *name)
{
    found_info found = {.name = name};
    ck_assert_int_eq(xcs_server_visit_models(server, find_info, &found, NULL), XCVM_OK);
    return found.info.statistics;
}

/* The statistics when nothing runs any more, which is shortly after the last completion. */
static UNUSED xcs_statistics last_statistics_of(xcs_server *server, const char *name)
{
    xcs_statistics s = statistics_of(server, name);
    for (; s.waiting + s.running > 0; s = statistics_of(server, name))
        usleep(200);
    return s;
}

/* Occupies a worker until the request is cancelled. */
static UNUSED xcs_request *occupy(xcs_server *server, tagged *user)
{
    xcs_request *request = submit(server, "endless", 0, 0, user, NULL);
    while (statistics_of(server, "endless").running == 0)
        usleep(200);
    return request;
}

#endif
