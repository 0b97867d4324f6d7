/* Runs of sessions, on JavaScript's thread and beside it, and the callbacks of runs. */
#include "web/node/session.h"
#include "web/node/monitor.h"
#include "web/src/exports.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* ---- Callbacks ---- */

/* Keeps the pending exception for the end of the run. */
static void keep_exception(napi_env env, addon_session *s)
{
    bool pending = false;
    napi_value exception;
    if (napi_is_exception_pending(env, &pending) != napi_ok || !pending ||
        napi_get_and_clear_last_exception(env, &exception) != napi_ok || s->exception != NULL)
        return;
    /* Only objects have references in this version of N-API: others are put into an array. */
    napi_value kept;
    if (napi_create_array(env, &kept) == napi_ok && napi_set_element(env, kept, 0, exception) == napi_ok)
        napi_create_reference(env, kept, 1, &s->exception);
}

/* Throws the kept exception. Returns false if there is none. */
static bool throw_kept_exception(napi_env env, addon_session *s)
{
    napi_value kept, exception;
    if (s->exception == NULL)
        return false;
    if (napi_get_reference_value(env, s->exception, &kept) == napi_ok &&
        napi_get_element(env, kept, 0, &exception) == napi_ok)
        napi_throw(env, exception);
    napi_delete_reference(env, s->exception);
    s->exception = NULL;
    return true;
}

static bool call_function(napi_env env, napi_value function, size_t count, const napi_value *arguments,
                          napi_value *result)
{
    napi_value receiver;
    return function != NULL && napi_get_undefined(env, &receiver) == napi_ok &&
           napi_call_function(env, receiver, function, count, arguments, result) == napi_ok;
}

bool addon_session_print(void *user, const char *text)
{
    addon_session *s = user;
    if (s->env == NULL)
        return s->printed == NULL || web_bytes_add(s->printed, text, strlen(text));
    const napi_env env = s->env;
    napi_handle_scope scope;
    if (napi_open_handle_scope(env, &scope) != napi_ok)
        return false;
    const napi_value argument = addon_text(env, text);
    if (argument != NULL && s->print != NULL)
        (void)call_function(env, s->print, 1, &argument, NULL);
    keep_exception(env, s);
    napi_close_handle_scope(env, scope);
    return s->exception == NULL;
}

/* Calls JavaScript's function (number, inputs, count of outputs), which returns an array of values. */
static bool call_host(napi_env env, addon_session *s, size_t number, size_t input_count,
                      const xcvm_value *const *inputs, size_t output_count, xcvm_value **outputs)
{
    napi_value arguments[3], results, result;
    if (napi_create_array(env, &arguments[1]) != napi_ok)
        return false;
    for (size_t i = 0; i < input_count; i++)
        if (!addon_set_element(env, arguments[1], (uint32_t)i, addon_value_to(env, inputs[i])))
            return false;
    arguments[0] = addon_number(env, (double)number);
    arguments[2] = addon_number(env, (double)output_count);
    if (arguments[0] == NULL || arguments[2] == NULL || !call_function(env, s->call, 3, arguments, &results))
        return false;
    for (size_t i = 0; i < output_count; i++)
        if (napi_get_element(env, results, (uint32_t)i, &result) != napi_ok ||
            !addon_value_from(env, result, &outputs[i]))
            return false;
    return true;
}

xcvm_status addon_session_call(void *user, size_t input_count, const xcvm_value *const *inputs, size_t output_count,
                               xcvm_value **outputs, xcvm_error *error)
{
    const host_function *function = user;
    addon_session *s = function->session;
    const napi_env env = s->env;
    napi_handle_scope scope;
    for (size_t i = 0; i < output_count; i++)
        outputs[i] = NULL;
    bool good = false;
    if (env != NULL && napi_open_handle_scope(env, &scope) == napi_ok) {
        good = call_host(env, s, function->number, input_count, inputs, output_count, outputs);
        keep_exception(env, s);
        napi_close_handle_scope(env, scope);
    }
    if (good)
        return XCVM_OK;
    for (size_t i = 0; i < output_count; i++) {
        xcvm_value_release(outputs[i]);
        outputs[i] = NULL;
    }
    if (error != NULL)
        *error = (xcvm_error){.status = XCVM_INVALID_ARGUMENT, .pc = -1, .message = "a host function failed"};
    return XCVM_INVALID_ARGUMENT;
}

/* ---- Observers ---- */

static napi_value registers_of(napi_env env, size_t count, const int32_t *registers)
{
    napi_value array;
    if (napi_create_array(env, &array) != napi_ok)
        return addon_failed_call(env);
    for (size_t i = 0; i < count; i++)
        if (!addon_set_element(env, array, (uint32_t)i, addon_number(env, registers[i])))
            return NULL;
    return array;
}

/* Numbers and texts of an event: web/js/native.js names them. */
static bool describe_event(napi_env env, const xcvm_event *e, napi_value *numbers, napi_value *texts)
{
    const double all[] = {e->pc,
                          (double)e->start_ns / 1e6,
                          (double)e->end_ns / 1e6,
                          (double)e->flops,
                          (double)e->bytes_read,
                          (double)e->bytes_written,
                          (double)e->live_bytes,
                          web_count_threads(e)};
    const char *first[] = {e->instruction, e->node, e->attributes};
    if (napi_create_array(env, numbers) != napi_ok || napi_create_array(env, texts) != napi_ok)
        return false;
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!addon_set_element(env, *numbers, i, addon_number(env, all[i])))
            return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!addon_set_element(env, *texts, i, addon_text(env, first[i])))
            return false;
    for (size_t i = 0; i < e->output_count; i++)
        if (!addon_set_element(env, *texts, (uint32_t)i + 3, addon_text(env, e->output_names[i])))
            return false;
    return true;
}

/* Calls observe(phase, numbers, texts, input registers, output registers), which returns a status. */
static xcvm_status call_observer(addon_session *s, int phase, const xcvm_event *event)
{
    const napi_env env = s->env;
    napi_handle_scope scope;
    napi_value arguments[5], receiver, result;
    double status = XCVM_INTERNAL;
    if (env == NULL || s->exception != NULL || napi_open_handle_scope(env, &scope) != napi_ok)
        return XCVM_CANCELLED;
    s->event = event;
    arguments[0] = addon_number(env, phase);
    arguments[3] = registers_of(env, event->input_count, event->input_registers);
    arguments[4] = registers_of(env, event->output_count, event->output_registers);
    if (arguments[0] != NULL && arguments[3] != NULL && arguments[4] != NULL &&
        describe_event(env, event, &arguments[1], &arguments[2]) && napi_get_undefined(env, &receiver) == napi_ok &&
        napi_call_function(env, receiver, s->observe, 5, arguments, &result) == napi_ok)
        napi_get_value_double(env, result, &status);
    s->event = NULL;
    keep_exception(env, s);
    napi_close_handle_scope(env, scope);
    return s->exception != NULL || status != 0 ? XCVM_CANCELLED : XCVM_OK;
}

static void observe_before(void *user, const xcvm_event *event) { (void)call_observer(user, 0, event); }

static xcvm_status observe_after(void *user, const xcvm_event *event, xcvm_error *error)
{
    const xcvm_status status = call_observer(user, 1, event);
    if (status != XCVM_OK && error != NULL)
        *error = (xcvm_error){.status = status, .pc = event->pc, .message = "the observer ended the run"};
    return status;
}

/* eventValue(session, isOutput, index): a copy of an operand or result, during the observer's call. */
static napi_value get_event_value(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    double is_output;
    size_t index;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    const addon_session *s = addon_session_get_any(env, arguments.at[0]);
    if (s == NULL || !addon_get_number(env, arguments.at[1], "isOutput", &is_output) ||
        !addon_get_index(env, arguments.at[2], "a value", &index))
        return NULL;
    const xcvm_event *e = s->event;
    if (e == NULL)
        return addon_fail(env, XCVM_INVALID_ARGUMENT,
                          "the values of an event are readable during the observer's call only");
    const size_t count = is_output != 0 ? e->output_count : e->input_count;
    return addon_value_to(env, index < count ? (is_output != 0 ? e->outputs : e->inputs)[index] : NULL);
}

/* ---- Runs on JavaScript's thread ---- */

static bool get_limits(napi_env env, napi_value fuel, napi_value timeout, xcvm_run_options *options)
{
    double most, milliseconds;
    if (!addon_get_number(env, fuel, "fuel", &most) || !addon_get_number(env, timeout, "timeout", &milliseconds))
        return false;
    *options = (xcvm_run_options){.size = sizeof *options,
                                  .fuel = most > 0 && most < 9e18 ? (uint64_t)most : 0,
                                  .timeout_ns = web_nanoseconds(milliseconds)};
    return true;
}

static bool get_flag(napi_env env, napi_value array, const uint32_t **flag)
{
    void *bytes;
    size_t count;
    *flag = NULL;
    if (!addon_is_given(env, array))
        return true;
    if (!addon_get_bytes(env, array, "cancel", &bytes, &count))
        return false;
    if (count < sizeof **flag)
        return addon_fail(env, XCVM_INVALID_ARGUMENT, "cancel: expected an Int32Array of at least one element"), false;
    *flag = bytes;
    return true;
}

/* A cancellation that came after the end of the last run would end the next one: a run that fails at its first
 * instruction uses it up. */
static void begin_run(napi_env env, addon_session *s)
{
    const xcvm_run_options nothing = {.size = sizeof nothing, .fuel = 1};
    addon_session_detach_views(env, s);
    s->env = NULL;
    if (s->was_cancelled) {
        const xcvm_status status = xcvm_session_run(s->session, &nothing, NULL);
        (void)status;
        s->was_cancelled = false;
    }
    s->group->is_running = true;
}

/* run(session, fuel, timeout, cancel, observe, observeBefore, isCancelled, call, print) */
static napi_value run_session(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_run_options options;
    double before, is_cancelled;
    const uint32_t *flag;
    run_monitor monitor;
    xcvm_error error;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !get_limits(env, arguments.at[1], arguments.at[2], &options) ||
        !get_flag(env, arguments.at[3], &flag) || !addon_get_number(env, arguments.at[5], "observeBefore", &before) ||
        !addon_get_number(env, arguments.at[6], "isCancelled", &is_cancelled))
        return NULL;
    begin_run(env, s);
    const bool is_observed = addon_is_given(env, arguments.at[4]);
    const xcvm_observer observer = {.size = sizeof observer,
                                    .before = before != 0 ? observe_before : NULL,
                                    .after = observe_after,
                                    .user = s,
                                    .want_attributes = true};
    s->env = env;
    s->observe = is_observed ? arguments.at[4] : NULL;
    s->call = addon_is_given(env, arguments.at[7]) ? arguments.at[7] : NULL;
    s->print = addon_is_given(env, arguments.at[8]) ? arguments.at[8] : NULL;
    if (is_observed)
        xcvm_session_set_observer(s->session, &observer);
    if (is_cancelled != 0) {
        s->was_cancelled = true;
        xcvm_session_cancel(s->session);
    }
    /* Without a thread the flag ends the run only if it is set now. */
    (void)run_monitor_start(&monitor, s->session, flag);
    const xcvm_status status = xcvm_session_run(s->session, &options, &error);
    s->was_cancelled |= run_monitor_end(&monitor);
    if (is_observed)
        xcvm_session_set_observer(s->session, NULL);
    s->call = s->print = s->observe = NULL;
    s->env = NULL;
    s->group->is_running = false;
    napi_value undefined;
    if (throw_kept_exception(env, s))
        return NULL;
    if (status != XCVM_OK)
        return addon_throw(env, &error);
    return napi_get_undefined(env, &undefined) == napi_ok ? undefined : NULL;
}

/* cancel(session): ends the run in progress. */
static napi_value cancel_session(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get_any(env, arguments.at[0]);
    if (s == NULL || !s->group->is_running)
        return NULL;
    s->was_cancelled = true;
    xcvm_session_cancel(s->session);
    return NULL;
}

/* warmUp(session) */
static napi_value warm_up_session(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_error error;
    napi_value undefined;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL)
        return NULL;
    begin_run(env, s);
    const xcvm_status status = xcvm_session_warm_up(s->session, NULL, &error);
    s->group->is_running = false;
    if (status != XCVM_OK)
        return addon_throw(env, &error);
    return napi_get_undefined(env, &undefined) == napi_ok ? undefined : NULL;
}

/* ---- Runs beside JavaScript's thread ---- */

/* A run on a thread of Node's pool. */
typedef struct background_run {
    napi_async_work work;
    napi_deferred deferred;
    addon_session *session;
    napi_ref object; /* of the session, which must not be collected */
    napi_ref flag;   /* the array of the flag, or NULL */
    const uint32_t *monitored;
    napi_env env;
    uv_timer_t *timer; /* looks whether the environment ends; NULL: none */
    xcvm_run_options options;
    xcvm_status status;
    xcvm_error error;
    bool was_cancelled;
} background_run;

/* A worker that is terminated waits for its runs, before it calls the cleanup hooks of its environment. Timers of its
 * loop go on. A property cannot be looked up any more then, although no exception is pending. */
static void cancel_at_end(uv_timer_t *timer)
{
    const background_run *run = timer->data;
    const napi_env env = run->env;
    napi_handle_scope scope;
    napi_value global;
    bool has, pending = false;
    if (napi_open_handle_scope(env, &scope) != napi_ok)
        return;
    if (napi_get_global(env, &global) == napi_ok && napi_has_named_property(env, global, "Object", &has) != napi_ok &&
        napi_is_exception_pending(env, &pending) == napi_ok && !pending)
        xcvm_session_cancel(run->session->session);
    napi_close_handle_scope(env, scope);
}

/* Without a timer, the end of a worker waits for the run. */
static void start_timer(napi_env env, background_run *run)
{
    enum { PERIOD_MS = 20 };
    uv_loop_t *loop;
    uv_timer_t *timer = malloc(sizeof *timer);
    if (timer == NULL || napi_get_uv_event_loop(env, &loop) != napi_ok || uv_timer_init(loop, timer) != 0) {
        free(timer);
        return;
    }
    run->env = env;
    run->timer = timer;
    timer->data = run;
    (void)uv_timer_start(timer, cancel_at_end, PERIOD_MS, PERIOD_MS);
    uv_unref((uv_handle_t *)timer);
}

static void free_timer(uv_handle_t *timer) { free(timer); }

static void execute_background(napi_env env, void *data)
{
    (void)env;
    background_run *run = data;
    run_monitor monitor;
    (void)run_monitor_start(&monitor, run->session->session, run->monitored);
    run->status = xcvm_session_run(run->session->session, &run->options, &run->error);
    run->was_cancelled = run_monitor_end(&monitor);
}

static void destroy_background(napi_env env, background_run *run)
{
    addon_session *s = run->session;
    if (run->timer != NULL)
        uv_close((uv_handle_t *)run->timer, free_timer);
    if (s != NULL) {
        web_bytes_destroy(s->printed);
        s->printed = NULL;
        s->group->is_running = false;
        addon_session_release(s);
    }
    if (run->object != NULL)
        napi_delete_reference(env, run->object);
    if (run->flag != NULL)
        napi_delete_reference(env, run->flag);
    if (run->work != NULL)
        napi_delete_async_work(env, run->work);
    free(run);
}

/* Settles the promise of a run, on JavaScript's thread. */
static void complete_background(napi_env env, napi_status work_status, void *data)
{
    background_run *run = data;
    addon_session *s = run->session;
    napi_handle_scope scope;
    napi_value result = NULL;
    s->was_cancelled |= run->was_cancelled;
    if (napi_open_handle_scope(env, &scope) != napi_ok) {
        destroy_background(env, run);
        return;
    }
    if (work_status != napi_ok) {
        run->status = XCVM_CANCELLED;
        run->error =
            (xcvm_error){.status = XCVM_CANCELLED, .pc = -1, .message = "the run was cancelled before it began"};
    }
    napi_deferred deferred = run->deferred;
    const napi_value text = addon_text(env, web_bytes_add(s->printed, "", 1) ? (const char *)s->printed->at : "");
    napi_value error = NULL;
    if (run->status != XCVM_OK)
        error = addon_make_error(env, &run->error);
    else
        napi_get_null(env, &error);
    destroy_background(env, run);
    if (text != NULL && error != NULL && napi_create_array(env, &result) == napi_ok &&
        addon_set_element(env, result, 0, text) && addon_set_element(env, result, 1, error))
        napi_resolve_deferred(env, deferred, result);
    napi_close_handle_scope(env, scope);
}

static bool prepare_background(napi_env env, const addon_arguments *arguments, background_run *run)
{
    napi_value name;
    xcvm_error error;
    addon_session *s = run->session;
    if (addon_is_given(env, arguments->at[3]) && napi_create_reference(env, arguments->at[3], 1, &run->flag) != napi_ok)
        return false;
    if (napi_create_reference(env, arguments->at[0], 1, &run->object) != napi_ok)
        return false;
    if ((name = addon_text(env, "xcvm.run")) == NULL ||
        napi_create_async_work(env, NULL, name, execute_background, complete_background, run, &run->work) != napi_ok)
        return false;
    s->printed = web_bytes_create(&error);
    if (s->printed == NULL)
        return addon_throw(env, &error), false;
    return true;
}

/* runAsync(session, fuel, timeout, cancel): a promise of the printed text, and an error or null. Sessions with host
 * functions run on JavaScript's thread. */
static napi_value run_in_background(napi_env env, napi_callback_info info)
{
    addon_arguments arguments;
    xcvm_run_options options;
    const uint32_t *flag;
    napi_value promise;
    if (!addon_arguments_get(env, info, &arguments))
        return NULL;
    addon_session *s = addon_session_get(env, arguments.at[0]);
    if (s == NULL || !get_limits(env, arguments.at[1], arguments.at[2], &options) ||
        !get_flag(env, arguments.at[3], &flag))
        return NULL;
    if (s->function_count > 0)
        return addon_fail(env, XCVM_UNSUPPORTED, "a session with host functions runs on JavaScript's thread; use run");
    background_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return addon_fail(env, XCVM_OUT_OF_MEMORY, "no memory for a run");
    begin_run(env, s);
    __atomic_add_fetch(&s->references, 1, __ATOMIC_ACQ_REL);
    run->session = s;
    run->options = options;
    run->monitored = flag;
    if (!prepare_background(env, &arguments, run) || napi_create_promise(env, &run->deferred, &promise) != napi_ok ||
        napi_queue_async_work(env, run->work) != napi_ok) {
        addon_failed_call(env);
        destroy_background(env, run);
        return NULL;
    }
    start_timer(env, run);
    return promise;
}

const addon_function addon_run_functions[] = {
    {"run", run_session},        {"runAsync", run_in_background}, {"cancel", cancel_session},
    {"warmUp", warm_up_session}, {"eventValue", get_event_value}, {NULL, NULL},
};
