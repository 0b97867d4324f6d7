/* Execution: a run binds the inputs of its requests, runs the program, and completes the requests. */
#include "server/pool/pool.h"

#include <string.h>

/* A run that is likely to take longer is left to the workers, so that the submitting thread stays responsive. */
#define RUN_HERE_NS UINT64_C(200000)
/* A run that takes longer than expected is given up after this time. */
#define GIVE_UP_NS UINT64_C(2000000)

bool xcs_may_run_here_locked(const xcs_server *server, const xcs_model *model, const xcs_request *request)
{
    return request->client == NULL && model->first == NULL && model->running < model->session_count &&
           server->running < server->thread_count && model->average_ns != 0 && model->average_ns <= RUN_HERE_NS &&
           model->limits.batch.delay_ns == 0;
}

/* The time that is left for the run: until the last deadline of its requests, because others leave a batch at theirs.
 * Returns false if all have passed. */
static bool time_left(const xcs_run *run, uint64_t *timeout_ns)
{
    uint64_t latest = run->single != NULL ? run->single->deadline_ns : 0;
    if (run->single != NULL && latest == 0)
        return true;
    for (const xcs_request *r = run->list; run->single == NULL && r != NULL; r = r->next) {
        if (r->deadline_ns == 0)
            return true;
        latest = r->deadline_ns > latest ? r->deadline_ns : latest;
    }
    const uint64_t now = xcvm_clock_ns();
    *timeout_ns = latest > now ? latest - now : 0;
    return latest > now;
}

static bool is_cancelled(const xcs_run *run) { return __atomic_load_n(&run->left, __ATOMIC_RELAXED) == 0; }

static xcvm_status run_session(xcs_run *run, xcvm_error *error)
{
    xcvm_run_options options = {.size = sizeof options};
    xcvm_status status = XCVM_CANCELLED;
    bool is_bounded = false;
    /* A cancellation that came after the end of an earlier run stops this one. */
    for (int attempt = 0; attempt < 2 && status == XCVM_CANCELLED && !is_cancelled(run); attempt++) {
        XCVM_CHECK(error, time_left(run, &options.timeout_ns), OUT_OF_TIME, "the deadline has passed");
        is_bounded = run->may_be_given_up && (options.timeout_ns == 0 || options.timeout_ns > GIVE_UP_NS);
        if (is_bounded)
            options.timeout_ns = GIVE_UP_NS;
        if (run->profile != NULL)
            xcs_profile_begin(run->profile, run->session);
        status = xcvm_session_run(run->session, &options, error);
        if (run->profile != NULL)
            xcs_profile_end(run->profile, run->session);
    }
    if (status == XCVM_CANCELLED)
        xcvm_error_set(error, XCVM_CANCELLED, "the request was cancelled");
    run->given_up = is_bounded && status == XCVM_OUT_OF_TIME;
    return status;
}

static xcvm_status create_client_session(xcs_run *run, xcvm_error *error)
{
    xcs_client *client = run->list->client;
    xcs_model *model = run->model;
    const xcvm_session_options options = {.size = sizeof options,
                                          .allocator = &model->memory->allocator,
                                          .threads = model->limits.threads,
                                          .memory_limit = model->limits.memory_limit};
    xcvm_session *session;
    XCVM_TRY(xcvm_session_create(model->program, &options, &session, error));
    pthread_mutex_lock(&model->server->mutex);
    client->session = run->session = session;
    pthread_mutex_unlock(&model->server->mutex);
    return XCVM_OK;
}

static void add_times(const xcs_run *run, const xcs_request *request, xcs_result *result)
{
    result->submitted_ns = request->submitted_ns;
    result->started_ns = request->started_ns;
    if (run->profile != NULL && request->wants_profile)
        xcs_profile_lend(run->profile, result);
}

static xcs_reason reason_of(xcvm_status status, bool bound)
{
    switch (status) {
    case XCVM_OK:
        return XCS_NONE;
    case XCVM_OUT_OF_TIME:
        return XCS_TIMED_OUT;
    case XCVM_CANCELLED:
        return XCS_CANCELLED;
    default:
        return bound ? XCS_FAILED : XCS_INVALID_INPUT;
    }
}

/* Runs one request. The outputs are lent by the session. */
static void execute_one(xcs_run *run, xcs_request *request, xcs_result *result, const xcvm_value **outputs,
                        xcvm_error *error)
{
    const xcvm_program *program = run->model->program;
    const uint64_t begin = xcvm_clock_ns();
    if (run->profile != NULL)
        xcs_profile_clear(run->profile);
    xcvm_status status = run->session == NULL ? create_client_session(run, error) : XCVM_OK;
    bool bound = status != XCVM_OK; /* the input is not what failed */
    if (status == XCVM_OK && (request->client == NULL || request->client_begins) &&
        xcvm_program_state_count(program) > 0)
        status = xcvm_session_reset_states(run->session, error);
    for (size_t i = 0; status == XCVM_OK && i < request->input_count; i++)
        status = xcvm_session_set_input(run->session, i, request->inputs[i], error);
    if (status == XCVM_OK) {
        bound = true;
        status = run_session(run, error);
    }
    *result = (xcs_result){.size = sizeof *result,
                           .status = status,
                           .reason = reason_of(status, bound),
                           .error = error,
                           .queue_ns = request->started_ns - request->submitted_ns,
                           .run_ns = xcvm_clock_ns() - begin,
                           .batch_rows = run->model->batch_rows > 0 ? request->rows : 0};
    add_times(run, request, result);
    if (status != XCVM_OK)
        return;
    result->output_count = xcvm_program_output_count(program);
    result->outputs = outputs;
    for (size_t i = 0; i < result->output_count; i++)
        outputs[i] = xcvm_session_get_output(run->session, i);
}

/* Frees the place of a client that ends, or that never began, before its result is given: it may submit at once. Its
 * session lends the outputs until the run ends. */
static void end_client_locked(xcs_run *run, const xcs_request *request)
{
    xcs_client *client = request->client;
    if (client == NULL || (!request->client_ends && client->session != NULL))
        return;
    run->ended_session = client->session;
    client->session = NULL;
    client->busy = false;
    if (--client->requests == 0) {
        xcs_client_remove_locked(run->model->entry, client);
        run->ended_client = client;
    }
    run->client_ended = true;
    if (run->model->server->asleep > 0 && client->requests > 0)
        pthread_cond_signal(&run->model->server->work);
}

/* Accounts for the end of a request. From now on a cancellation has no effect. */
static void finish(xcs_run *run, xcs_request *request, xcs_result *result, xcvm_error *error)
{
    xcs_server *server = run->model->server;
    const uint64_t now = xcvm_clock_ns();
    pthread_mutex_lock(&server->mutex);
    request->run = NULL;
    run->list = request->next;
    if (request->left_run) {
        pthread_mutex_unlock(&server->mutex);
        return;
    }
    end_client_locked(run, request);
    if (result->status == XCVM_OK && request->cancelled) {
        result->status = xcvm_error_set(error, XCVM_CANCELLED, "the request was cancelled");
        result->reason = XCS_CANCELLED;
    } else if (result->status == XCVM_OK && request->deadline_ns != 0 && request->deadline_ns < now && run->count > 1) {
        result->status = xcvm_error_set(error, XCVM_OUT_OF_TIME, "the deadline has passed");
        result->reason = XCS_TIMED_OUT;
    }
    result->error = error;
    if (result->status != XCVM_OK)
        result->output_count = 0;
    xcs_statistics_add_locked(request, result, now);
    pthread_mutex_unlock(&server->mutex);
}

static void add_to_average(uint64_t *average_ns, uint64_t ns)
{
    *average_ns = *average_ns == 0 ? ns + 1 : (*average_ns * 7 + ns + 1) / 8;
}

static void count_run(xcs_run *run, uint64_t run_ns, size_t requests)
{
    xcs_model *model = run->model;
    pthread_mutex_lock(&model->server->mutex);
    const uint64_t now = model->last_end_ns != 0 || model->waiting > 0 ? xcvm_clock_ns() : 0;
    const uint64_t interval_ns = model->last_end_ns != 0 ? (now - model->last_end_ns) * model->session_count : run_ns;
    model->entry->statistics.executions++;
    add_to_average(&model->average_ns, run_ns / requests);
    const uint64_t each_ns = interval_ns / requests;
    const uint64_t expected_ns = model->interval_ns != 0 ? model->interval_ns : each_ns;
    add_to_average(&model->deviation_ns, each_ns > expected_ns ? each_ns - expected_ns : expected_ns - each_ns);
    add_to_average(&model->interval_ns, each_ns);
    model->last_end_ns = model->waiting > 0 ? now : 0;
    pthread_mutex_unlock(&model->server->mutex);
}

/* From now on the run is that of one request. Returns false if it has a result already. */
static bool begin_single(xcs_run *run, xcs_request *request)
{
    if (run->count == 1) {
        run->single = request;
        return true;
    }
    xcs_server *server = run->model->server;
    pthread_mutex_lock(&server->mutex);
    const bool wanted = !request->left_run && !run->stopped;
    run->single = request;
    __atomic_store_n(&run->left, wanted, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&server->mutex);
    return wanted;
}

static void leave_list_locked(const xcs_run *run)
{
    *(run->before != NULL ? &run->before->next : &run->model->server->runs) = run->next;
    if (run->next != NULL)
        run->next->before = run->before;
    run->model->running--;
    run->model->server->running--;
}

/* After a run that was given up, a worker runs the request, from the beginning: a run without success changes nothing.
 * A request that was cancelled meanwhile is not handed over, nor one of a server that is being destroyed. */
static void hand_over(xcs_run *run, xcs_request *request)
{
    xcs_model *model = run->model;
    xcs_server *server = model->server;
    pthread_mutex_lock(&server->mutex);
    run->given_up = !is_cancelled(run) && !server->destroying;
    /* So that the next requests go to workers. */
    add_to_average(&model->average_ns, GIVE_UP_NS);
    if (run->given_up) {
        request->run = NULL;
        leave_list_locked(run);
        model->idle[model->idle_count++] = run->session;
        xcs_queue_add_locked(model, request);
        if (request->deadline_ns != 0)
            xcs_timer_set_locked(server, request->deadline_ns);
        if (server->asleep > 0)
            pthread_cond_signal(&server->work);
    }
    pthread_mutex_unlock(&server->mutex);
}

static void execute_singly(xcs_run *run, const xcvm_value **outputs)
{
    for (xcs_request *request = run->list, *next; request != NULL; request = next) {
        xcs_result result = {.size = sizeof result, .reason = XCS_CANCELLED};
        xcvm_error error = {.pc = -1};
        next = request->next;
        if (begin_single(run, request))
            execute_one(run, request, &result, outputs, &error);
        else
            result.status = xcvm_error_set(&error, XCVM_CANCELLED, "the request was cancelled");
        if (run->given_up) {
            hand_over(run, request);
            if (run->given_up)
                return;
            result.status = xcvm_error_set(&error, XCVM_CANCELLED, "the request was cancelled");
            result.reason = XCS_CANCELLED;
        }
        if (result.status == XCVM_OK)
            count_run(run, result.run_ns, 1);
        finish(run, request, &result, &error);
        xcs_request_complete(request, &result);
    }
}

/* Runs all requests at once. Returns false if that failed; each must then run by itself, so that a request that fails
 * does not affect the others. */
static bool execute_batch(xcs_run *run, const xcvm_value **outputs)
{
    xcs_model *model = run->model;
    const size_t input_count = run->list->input_count, output_count = xcvm_program_output_count(model->program);
    const uint64_t begin = xcvm_clock_ns();
    xcvm_error error = {.pc = -1};
    xcvm_value **joined = xcvm_allocate_zeroed(&model->server->allocator, (input_count + 1) * sizeof *joined);
    xcvm_status status =
        joined == NULL ? XCVM_OUT_OF_MEMORY : xcs_batch_join(model, run->list, run->rows, joined, &error);
    for (size_t i = 0; status == XCVM_OK && i < input_count; i++)
        status = xcvm_session_set_input(run->session, i, joined[i], &error);
    for (size_t i = 0; joined != NULL && i < input_count; i++)
        xcvm_value_release(joined[i]);
    xcvm_deallocate(&model->server->allocator, joined, (input_count + 1) * sizeof *joined);
    if (status == XCVM_OK)
        status = run_session(run, &error);
    if (status != XCVM_OK)
        return false;
    const uint64_t run_ns = xcvm_clock_ns() - begin;
    count_run(run, run_ns, run->count);
    int64_t first = 0;
    for (xcs_request *request = run->list, *next; request != NULL; request = next) {
        next = request->next;
        xcs_result result = {.size = sizeof result, .outputs = outputs, .output_count = output_count};
        result.status =
            __atomic_load_n(&request->left_run, __ATOMIC_ACQUIRE)
                ? XCVM_CANCELLED
                : xcs_batch_split(model, run->session, first, request->rows, (xcvm_value **)outputs, &error);
        result.reason = reason_of(result.status, true);
        result.queue_ns = request->started_ns - request->submitted_ns;
        result.run_ns = run_ns;
        result.batch_rows = run->rows;
        add_times(run, request, &result);
        first += request->rows;
        const bool made = result.status == XCVM_OK;
        finish(run, request, &result, &error);
        xcs_request_complete(request, &result);
        for (size_t i = 0; made && i < output_count; i++)
            xcvm_value_release((xcvm_value *)outputs[i]);
    }
    return true;
}

/* Returns the session. */
static void end_run(xcs_run *run, xcs_client *client)
{
    xcs_model *model = run->model;
    xcs_server *server = model->server;
    pthread_mutex_lock(&server->mutex);
    leave_list_locked(run);
    if (client == NULL) {
        model->idle[model->idle_count++] = run->session;
    } else if (!run->client_ended) {
        client->busy = false;
        client->requests--;
        client->last_ns = xcvm_clock_ns();
        xcs_timer_set_locked(server, client->last_ns + model->limits.clients.idle_ns);
    }
    /* Workers that found no idle session sleep. One that has run takes the next request by itself. */
    if (run->runs_here && server->asleep > 0 && model->first != NULL)
        pthread_cond_signal(&server->work);
    pthread_mutex_unlock(&server->mutex);
    xcvm_session_destroy(run->ended_session);
    if (run->ended_client != NULL)
        xcs_client_destroy(server, run->ended_client);
}

bool xcs_run_execute(xcs_run *run)
{
    xcs_model *model = xcs_model_retain(run->model); /* beyond the requests */
    xcs_client *client = run->list->client;
    const size_t count = xcvm_program_output_count(model->program) + 1;
    const xcvm_value *few[16];
    xcs_profile profile = {.allocator = &model->memory->allocator};
    run->profile = run->wants_profile ? &profile : NULL;
    const xcvm_value **outputs = count <= 16 ? few : xcvm_allocate(&model->server->allocator, count * sizeof *outputs);
    if (outputs == NULL) {
        for (xcs_request *request = run->list, *next; request != NULL; request = next) {
            xcvm_error error;
            xcs_result result = {.size = sizeof result, .reason = XCS_FAILED, .error = &error};
            next = request->next;
            result.status = xcvm_error_set(&error, XCVM_OUT_OF_MEMORY, "no memory for %zu outputs", count - 1);
            finish(run, request, &result, &error);
            xcs_request_complete(request, &result);
        }
    } else if (run->count == 1 || !execute_batch(run, outputs)) {
        execute_singly(run, outputs);
    }
    xcs_profile_free(&profile);
    if (outputs != few)
        xcvm_deallocate(&model->server->allocator, outputs, count * sizeof *outputs);
    if (!run->given_up)
        end_run(run, client);
    xcs_model_release(model);
    return !run->given_up;
}
