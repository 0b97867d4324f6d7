/* Requests: validation, submission, cancellation, completion, and the synchronous call. */
#include "server/pool/pool.h"

#include "vm/options.h"

#include <string.h>

/* ---- Validation ---- */

static xcvm_status check_input(const xcvm_value_info *info, const xcvm_value *value, xcvm_error *error)
{
    const xcvm_type *type = &info->type;
    XCVM_CHECK(error, value != NULL, INVALID_ARGUMENT, "input \"%.100s\" is missing", info->name);
    XCVM_CHECK(error, type->kind == XCVM_KIND_NULL || xcvm_value_kind(value) == type->kind, TYPE_MISMATCH,
               "input \"%.100s\" is of another kind than expected", info->name);
    if (type->kind != XCVM_KIND_TENSOR)
        return XCVM_OK;
    XCVM_CHECK(error, type->dtype == XCVM_NO_DTYPE || xcvm_value_dtype(value) == type->dtype, TYPE_MISMATCH,
               "input \"%.100s\" has elements of type %s; expected %s", info->name,
               xcvm_dtype_name(xcvm_value_dtype(value)), xcvm_dtype_name(type->dtype));
    if (type->rank < 0)
        return XCVM_OK;
    XCVM_CHECK(error, xcvm_value_rank(value) == type->rank, SHAPE_MISMATCH,
               "input \"%.100s\" has %d dimensions; expected %d", info->name, xcvm_value_rank(value), type->rank);
    for (int i = 0; i < type->rank; i++)
        XCVM_CHECK(error, type->dims[i] < 0 || xcvm_value_dims(value)[i] == type->dims[i], SHAPE_MISMATCH,
                   "input \"%.100s\": dimension %d is %lld; expected %lld", info->name, i,
                   (long long)xcvm_value_dims(value)[i], (long long)type->dims[i]);
    return XCVM_OK;
}

/* The rows of a request of a batched model are the first dimension, which all inputs share. */
static xcvm_status count_rows(xcs_request *request, xcvm_error *error)
{
    const xcs_model *model = request->model;
    request->rows = 1;
    if (model->batch_rows == 0)
        return XCVM_OK;
    request->rows = xcvm_value_dims(request->inputs[0])[0];
    for (size_t i = 1; i < request->input_count; i++)
        XCVM_CHECK(error, xcvm_value_dims(request->inputs[i])[0] == request->rows, SHAPE_MISMATCH,
                   "input \"%.100s\" has %lld rows, but input \"%.100s\" has %lld",
                   xcvm_program_input_at(model->program, i)->name, (long long)xcvm_value_dims(request->inputs[i])[0],
                   xcvm_program_input_at(model->program, 0)->name, (long long)request->rows);
    return XCVM_OK;
}

static xcvm_status take_inputs(xcs_request *request, const xcvm_value *const *inputs, xcvm_error *error)
{
    const xcvm_program *program = request->model->program;
    const size_t expected = xcvm_program_input_count(program);
    const size_t count = request->input_count;
    request->input_count = 0;
    XCVM_CHECK(error, count == expected, INVALID_ARGUMENT, "%zu inputs; expected %zu", count, expected);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(check_input(xcvm_program_input_at(program, i), inputs[i], error));
        XCVM_TRY(xcvm_value_retain(inputs[i], &request->inputs[i], error));
        request->input_count++;
        request->bytes += xcvm_value_bytes(inputs[i]);
    }
    return count_rows(request, error);
}

/* ---- Completion ---- */

static void release_request(xcs_request *request)
{
    if (__atomic_sub_fetch(&request->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    const xcvm_allocator allocator = request->allocator;
    xcvm_deallocate(&allocator, request, request->block_bytes);
}

void xcs_request_release(xcs_request *request)
{
    if (request != NULL)
        release_request(request);
}

/* Drops what a request holds of the pool. */
static void detach(xcs_request *request)
{
    for (size_t i = 0; i < request->input_count; i++)
        xcvm_value_release(request->inputs[i]);
    request->input_count = 0;
    xcs_model_release(request->model);
}

static void end_active(xcs_server *server)
{
    pthread_mutex_lock(&server->mutex);
    if (--server->active == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->mutex);
}

void xcs_request_complete(xcs_request *request, xcs_result *result)
{
    xcs_server *server = request->server;
    if (!__atomic_load_n(&request->left_run, __ATOMIC_ACQUIRE))
        request->done.call(request->done.user, result);
    detach(request);
    release_request(request);
    end_active(server);
}

bool xcs_request_may_leave_locked(const xcs_request *request)
{
    return request->run != NULL && request->run->count > 1 && !request->left_run;
}

void xcs_request_leave_run_locked(xcs_request *request, xcs_reason reason)
{
    xcs_run *run = request->run;
    const xcs_result result = {.size = sizeof result, .reason = reason};
    __atomic_store_n(&request->left_run, true, __ATOMIC_RELEASE);
    __atomic_add_fetch(&request->refs, 1, __ATOMIC_RELAXED);
    request->server->active++;
    xcs_statistics_add_locked(request, &result, xcvm_clock_ns());
    if ((run->single == NULL || run->single == request) && __atomic_sub_fetch(&run->left, 1, __ATOMIC_RELAXED) == 0 &&
        run->session != NULL)
        xcvm_session_cancel(run->session);
}

void xcs_request_complete_left(xcs_request *request, xcs_reason reason)
{
    xcs_server *server = request->server;
    xcvm_error error = {.pc = -1};
    const xcs_result result = {.size = sizeof result,
                               .status = reason == XCS_TIMED_OUT
                                             ? xcvm_error_set(&error, XCVM_OUT_OF_TIME, "the deadline has passed")
                                             : xcvm_error_set(&error, XCVM_CANCELLED, "the request was cancelled"),
                               .reason = reason,
                               .error = &error,
                               .queue_ns = request->started_ns - request->submitted_ns,
                               .submitted_ns = request->submitted_ns,
                               .started_ns = request->started_ns};
    request->done.call(request->done.user, &result);
    release_request(request);
    end_active(server);
}

/* Completes a request that was in no run. */
static void complete_unrun(xcs_request *request, xcs_reason reason, xcvm_error *error)
{
    xcs_server *server = request->server;
    const uint64_t now = xcvm_clock_ns();
    xcs_result result = {.size = sizeof result,
                         .status = error->status,
                         .reason = reason,
                         .error = error,
                         .queue_ns = now - request->submitted_ns,
                         .submitted_ns = request->submitted_ns};
    pthread_mutex_lock(&server->mutex);
    xcs_statistics_add_locked(request, &result, now);
    xcs_client *client = request->client;
    if (client != NULL && --client->requests == 0 && client->session == NULL)
        xcs_client_remove_locked(client->model->entry, client);
    else
        client = NULL;
    pthread_mutex_unlock(&server->mutex);
    if (client != NULL)
        xcs_client_destroy(server, client);
    xcs_request_complete(request, &result);
}

void xcs_requests_complete_late(xcs_request *list)
{
    for (xcs_request *next; list != NULL; list = next) {
        xcvm_error error;
        next = list->next_late;
        if (__atomic_load_n(&list->left_run, __ATOMIC_ACQUIRE)) {
            xcs_request_complete_left(list, XCS_TIMED_OUT);
            continue;
        }
        xcvm_error_set(&error, XCVM_OUT_OF_TIME, "the deadline passed in the queue");
        complete_unrun(list, XCS_TIMED_OUT, &error);
    }
}

/* ---- Submission ---- */

/* A refusal of a request that never was in the pool. */
static void refuse(xcs_server *server, xcs_model *model, xcs_completion done, xcs_reason reason,
                   uint64_t retry_after_ns, const xcvm_error *error)
{
    const xcs_result result = {.size = sizeof result,
                               .status = error->status,
                               .reason = reason,
                               .error = error,
                               .retry_after_ns = retry_after_ns};
    if (model != NULL) {
        pthread_mutex_lock(&server->mutex);
        xcs_statistics *statistics = &model->entry->statistics;
        *(reason == XCS_INVALID_INPUT || reason == XCS_FAILED ? &statistics->failed : &statistics->refused) += 1;
        pthread_mutex_unlock(&server->mutex);
    }
    done.call(done.user, &result);
}

static xcs_model *select_model(xcs_server *server, const xcs_request_options *o, xcvm_error *error)
{
    if (o->model != NULL)
        return xcs_model_retain(o->model);
    xcs_model *model = o->name != NULL ? xcs_server_find_model(server, o->name, o->version) : NULL;
    if (model == NULL)
        xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "no model \"%.100s\"%s%.20s is ready", o->name ? o->name : "",
                       o->version != NULL ? ", version " : "", o->version != NULL ? o->version : "");
    return model;
}

/* Takes the reference to the model over, also on failure. */
static xcs_reason create_request(xcs_server *server, xcs_model *model, const xcs_request_options *o,
                                 xcs_completion done, xcs_request **request, xcvm_error *error)
{
    const size_t count = o->input_count < xcvm_program_input_count(model->program)
                             ? o->input_count
                             : xcvm_program_input_count(model->program);
    const size_t block = sizeof **request + count * sizeof *(*request)->inputs;
    xcs_request *r = xcvm_allocate_zeroed(&server->memory->allocator, block);
    if (r == NULL) {
        xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a request");
        return XCS_FAILED;
    }
    r->refs = 1;
    r->block_bytes = block;
    r->allocator = server->memory->allocator;
    r->server = server;
    r->model = model;
    r->done = done;
    r->priority = o->priority;
    r->client_begins = o->client_begins;
    r->client_ends = o->client_ends;
    r->wants_profile = o->profile;
    r->input_count = o->input_count;
    r->submitted_ns = xcvm_clock_ns();
    const uint64_t timeout_ns = o->timeout_ns != 0 ? o->timeout_ns : model->limits.timeout_ns;
    if (timeout_ns != 0)
        r->deadline_ns =
            __builtin_add_overflow(r->submitted_ns, timeout_ns, &r->deadline_ns) ? UINT64_MAX : r->deadline_ns;
    *request = r;
    return take_inputs(r, o->inputs, error) == XCVM_OK ? XCS_NONE : XCS_INVALID_INPUT;
}

/* Gives a request of a program with states its client. Clients keep the model that they began with. */
static xcs_reason assign_client_locked(xcs_request *request, const char *name, xcvm_error *error)
{
    xcs_model *model = request->model;
    if (name == NULL || *name == '\0' || xcvm_program_state_count(model->program) == 0)
        return XCS_NONE;
    xcs_client *client = xcs_client_find_locked(model->entry, model, name);
    if (client == NULL) {
        xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "%zu clients have states, the limit. Try again later",
                       model->entry->client_count);
        return XCS_TOO_MANY_CLIENTS;
    }
    if (client->model != model) {
        request->model = xcs_model_retain(client->model);
        xcs_model_release(model); /* never the last reference: the caller has one */
    }
    client->requests++;
    request->client = client;
    return XCS_NONE;
}

/* Admits the request: it starts here, or waits. `waits`: so does the calling thread, until the request is complete. */
static xcs_reason admit_locked(xcs_server *server, xcs_request *request, const xcs_request_options *o, bool waits,
                               xcs_run *here, uint64_t *retry_after_ns, xcvm_error *error)
{
    if (server->draining) {
        xcvm_error_set(error, XCVM_CANCELLED, "the server is shutting down and accepts no requests");
        return XCS_DRAINING;
    }
    xcs_reason reason = xcs_queue_check_locked(request->model, request, retry_after_ns, error);
    if (reason == XCS_NONE)
        reason = assign_client_locked(request, o->client, error);
    if (reason != XCS_NONE)
        return reason;
    server->active++;
    if (o->may_run_here && xcs_may_run_here_locked(server, request->model, request)) {
        xcs_run_begin_locked(here, request, request->submitted_ns);
        here->runs_here = true;
        here->may_be_given_up = !waits;
        return XCS_NONE;
    }
    xcs_queue_add_locked(request->model, request);
    if (request->deadline_ns != 0)
        xcs_timer_set_locked(server, request->deadline_ns);
    if (server->asleep > 0)
        pthread_cond_signal(&server->work);
    return XCS_NONE;
}

static xcs_request *submit(xcs_server *server, const xcs_request_options *options, bool waits, xcs_completion done)
{
    xcs_request_options o;
    xcvm_error error = {.pc = -1};
    xcs_request *request = NULL;
    xcs_run here = {0};
    uint64_t retry_after_ns = 0;
    xcs_model *model = NULL;
    xcs_reason reason = XCS_INVALID_INPUT;
    if (xcvm_options_read(&o, sizeof o, options, &error) == XCVM_OK) {
        model = select_model(server, &o, &error);
        reason = XCS_UNKNOWN_MODEL;
    }
    if (model != NULL)
        reason = create_request(server, xcs_model_retain(model), &o, done, &request, &error);
    if (reason == XCS_NONE) {
        request->refs++; /* the caller's */
        pthread_mutex_lock(&server->mutex);
        reason = admit_locked(server, request, &o, waits, &here, &retry_after_ns, &error);
        request->refs -= reason != XCS_NONE;
        pthread_mutex_unlock(&server->mutex);
    }
    if (reason != XCS_NONE) {
        refuse(server, model, done, reason, retry_after_ns, &error);
        if (request != NULL) {
            detach(request);
            release_request(request);
        } else {
            xcs_model_release(model); /* that of create_request */
        }
        request = NULL;
    } else if (here.list != NULL && xcs_run_execute(&here)) {
        xcs_request_release(request);
        request = NULL;
    }
    xcs_model_release(model);
    return request;
}

xcs_request *xcs_server_submit(xcs_server *server, const xcs_request_options *options, xcs_completion done)
{
    return submit(server, options, false, done);
}

void xcs_request_cancel(xcs_request *request)
{
    if (request == NULL)
        return;
    xcs_server *server = request->server;
    pthread_mutex_lock(&server->mutex);
    const bool waits = request->waits, leaves = xcs_request_may_leave_locked(request);
    xcs_run *run = request->run;
    if (waits)
        xcs_queue_remove_locked(request->model, request);
    else if (leaves)
        xcs_request_leave_run_locked(request, XCS_CANCELLED);
    else if (run != NULL && !request->left_run && !request->cancelled &&
             __atomic_sub_fetch(&run->left, 1, __ATOMIC_RELAXED) == 0 && run->session != NULL)
        xcvm_session_cancel(run->session);
    request->cancelled = true;
    pthread_mutex_unlock(&server->mutex);
    if (leaves)
        xcs_request_complete_left(request, XCS_CANCELLED);
    if (waits) {
        xcvm_error error;
        xcvm_error_set(&error, XCVM_CANCELLED, "the request was cancelled");
        complete_unrun(request, XCS_CANCELLED, &error);
    }
}

/* ---- Synchronous calls ---- */

typedef struct waiting_call {
    pthread_mutex_t mutex;
    pthread_cond_t complete;
    bool is_complete;
    xcvm_status status;
    xcs_reason reason;
    xcvm_error *error;
    size_t output_count;
    xcvm_value **outputs;
} waiting_call;

static xcvm_status keep_outputs(waiting_call *call, const xcs_result *result)
{
    XCVM_CHECK(call->error, call->output_count == result->output_count, INVALID_ARGUMENT,
               "room for %zu outputs; the model has %zu", call->output_count, result->output_count);
    for (size_t i = 0; i < call->output_count; i++) {
        xcvm_status status = xcvm_value_retain(result->outputs[i], &call->outputs[i], call->error);
        for (; status != XCVM_OK && i > 0; i--)
            xcvm_value_release(call->outputs[i - 1]);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}

static void end_call(void *user, const xcs_result *result)
{
    waiting_call *call = user;
    call->status = result->status;
    call->reason = result->reason;
    if (result->status == XCVM_OK)
        call->status = keep_outputs(call, result);
    else if (call->error != NULL)
        *call->error = *result->error;
    if (result->status == XCVM_OK && call->status != XCVM_OK)
        call->reason = XCS_FAILED;
    pthread_mutex_lock(&call->mutex);
    call->is_complete = true;
    pthread_cond_signal(&call->complete);
    pthread_mutex_unlock(&call->mutex);
}

xcvm_status xcs_server_run(xcs_server *server, const xcs_request_options *options, size_t output_count,
                           xcvm_value **outputs, xcs_reason *reason, xcvm_error *error)
{
    xcs_request_options o;
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    o.size = sizeof o;
    o.may_run_here = true;
    waiting_call call = {.error = error, .output_count = output_count, .outputs = outputs};
    XCVM_CHECK(error, pthread_mutex_init(&call.mutex, NULL) == 0, OUT_OF_MEMORY, "no memory for a mutex");
    if (pthread_cond_init(&call.complete, NULL) != 0) {
        pthread_mutex_destroy(&call.mutex);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for a condition");
    }
    xcs_request *request = submit(server, &o, true, (xcs_completion){end_call, &call});
    pthread_mutex_lock(&call.mutex);
    while (!call.is_complete)
        pthread_cond_wait(&call.complete, &call.mutex);
    pthread_mutex_unlock(&call.mutex);
    xcs_request_release(request);
    pthread_cond_destroy(&call.complete);
    pthread_mutex_destroy(&call.mutex);
    if (reason != NULL)
        *reason = call.reason;
    return call.status;
}
