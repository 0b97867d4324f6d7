/* Static functions: choose the schedule of a call, or run and record the function. */
#include "tape/static/static.h"
#include "vm/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CACHE_LIMIT = 16 };

/* ---- Creation ---- */

static char *copy_name(xcvm_tape *t, const char *name)
{
    const size_t length = strlen(name);
    char *copy = xcvm_allocate(t->allocator, length + 1);
    if (copy != NULL)
        memcpy(copy, name, length + 1);
    return copy;
}

xcvm_status xcvm_static_create(xcvm_tape *tape, xcvm_static_function function, const xcvm_static_options *options,
                               xcvm_static **static_function, xcvm_error *error)
{
    xcvm_static_options o;
    TAPE_BEGIN(tape, xcvm_static_create, error);
    XCVM_CHECK(error, function.call != NULL && static_function != NULL, INVALID_ARGUMENT,
               "there is no function, or no place for the static function");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    XCVM_CHECK(error, o.held != NULL || o.held_count == 0, INVALID_ARGUMENT, "held is NULL");
    for (size_t i = 0; i < o.held_count; i++)
        XCVM_CHECK(error, o.held[i] != NULL, INVALID_ARGUMENT, "place %zu of held is NULL", i);
    XCVM_CHECK(error, o.verbosity >= 0 && o.verbosity <= 2, INVALID_ARGUMENT, "verbosity is %d, not from 0 to 2",
               o.verbosity);
    xcvm_static *s = xcvm_allocate_zeroed(tape->allocator, sizeof *s);
    XCVM_CHECK(error, s != NULL, OUT_OF_MEMORY, "no memory for a static function");
    *s = (xcvm_static){.tape = tape, .function = function, .options = o, .enabled = true, .training = true};
    s->options.name = s->name = copy_name(tape, o.name != NULL ? o.name : "static");
    if (s->options.cache_limit == 0)
        s->options.cache_limit = CACHE_LIMIT;
    if (o.minimize_cache_size)
        s->options.cache_limit = 1;
    if (s->name == NULL) {
        xcvm_deallocate(tape->allocator, s, sizeof *s);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a static function");
    }
    *static_function = s;
    return XCVM_OK;
}

void tape_static_say(const xcvm_static *s, int level, const char *format, ...)
{
    char text[640];
    va_list arguments;
    if (s->options.log.call == NULL || level > s->options.verbosity)
        return;
    va_start(arguments, format);
    const int length = snprintf(text, sizeof text, "%.100s: ", s->name);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    s->options.log.call(s->options.log.user, level, text);
}

/* Removes a schedule from the list, with its records. */
static void drop_schedule(xcvm_static *s, tape_schedule *gone)
{
    xcvm_tape *t = s->tape;
    for (tape_schedule **at = &s->schedules; *at != NULL; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            s->count--;
            break;
        }
    for (tape_op_record *r = t->ops.last, *previous; r != NULL && gone->users > 0; r = previous) {
        previous = r->previous;
        if (r->schedule_users != &gone->users)
            continue;
        tape_op_record_remove(r);
        previous = t->ops.last; /* other records may be gone too */
    }
    tape_schedule_destroy(t, gone);
}

static void drop_schedules(xcvm_static *s)
{
    while (s->schedules != NULL)
        drop_schedule(s, s->schedules);
}

/* The running call that needs the function or its schedules; NULL: none. */
static const char *blocking_use(const xcvm_static *s)
{
    return s->tape->in_static || s->calls > 0 ? "a static function runs"
           : s->tape->pass != NULL            ? "a backward pass runs"
                                              : NULL;
}

void xcvm_static_reset(xcvm_static *static_function)
{
    xcvm_tape *t = TAPE_OF(static_function);
    if (!TAPE_ENTER(t, xcvm_static_reset))
        return;
    const char *use = blocking_use(static_function);
    if (use != NULL)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "the schedules of %.100s cannot be cleared while %s", static_function->name,
                  use);
    else
        drop_schedules(static_function);
}

void xcvm_static_destroy(xcvm_static *s)
{
    if (!TAPE_ENTER(TAPE_OF(s), xcvm_static_destroy))
        return;
    const char *use = blocking_use(s);
    if (use != NULL) {
        tape_fail(s->tape, XCVM_INVALID_ARGUMENT, "%.100s cannot be destroyed while %s", s->name, use);
        return;
    }
    const xcvm_allocator *allocator = s->tape->allocator;
    drop_schedules(s);
    xcvm_deallocate(allocator, s->name, strlen(s->name) + 1);
    xcvm_deallocate(allocator, s, sizeof *s);
}

static bool set_flag(bool *what, bool value)
{
    const bool before = *what;
    *what = value;
    return before;
}

bool xcvm_static_set_enabled(xcvm_static *static_function, bool enabled)
{
    return TAPE_ENTER(TAPE_OF(static_function), xcvm_static_set_enabled) &&
           set_flag(&static_function->enabled, enabled);
}

bool xcvm_static_set_training(xcvm_static *static_function, bool training)
{
    return TAPE_ENTER(TAPE_OF(static_function), xcvm_static_set_training) &&
           set_flag(&static_function->training, training);
}

bool xcvm_static_set_checking(xcvm_static *static_function, bool checking)
{
    return TAPE_ENTER(TAPE_OF(static_function), xcvm_static_set_checking) &&
           set_flag(&static_function->checking, checking);
}

/* ---- Activations ---- */

/* Makes the results of a record constants. The last release removes it. */
static void unchain_results(tape_op_record *r)
{
    r->busy = true;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL) {
            tape_variable *v = r->out[i];
            tape_variable_require(v, false);
            r->out[i] = NULL;
            v->creator = NULL;
            v->refs++;
            tape_variable_release(v);
        }
    r->busy = false;
    tape_op_record_remove(r);
}

void xcvm_static_end_forward(xcvm_static *static_function)
{
    xcvm_tape *t = TAPE_OF(static_function);
    size_t left = 0;
    if (!TAPE_ENTER(t, xcvm_static_end_forward))
        return;
    for (const tape_schedule *s = static_function->schedules; s != NULL; s = s->next)
        left += s->users;
    for (tape_op_record *r = t->ops.last, *previous; r != NULL && left > 0; r = previous) {
        previous = r->previous;
        for (const tape_schedule *s = static_function->schedules; s != NULL; s = s->next)
            if (r->schedule_users == &s->users) {
                unchain_results(r);
                previous = t->ops.last;
                left--;
                break;
            }
    }
}

/* ---- Schedules ---- */

/* Evicts the schedules that were not used for longest, unless a backward pass needs them. */
static void evict_schedules(xcvm_static *s)
{
    while (s->count >= s->options.cache_limit) {
        tape_schedule *oldest = NULL;
        for (tape_schedule *c = s->schedules; c != NULL; c = c->next)
            if (c->users == 0 && (oldest == NULL || c->used < oldest->used))
                oldest = c;
        if (oldest == NULL)
            return;
        drop_schedule(s, oldest);
        s->stats.evicted++;
        tape_static_say(s, 1, "a schedule goes, %zu are kept", s->count);
    }
}

/* ---- Running the function ---- */

static xcvm_status call_function(xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    xcvm_tape *t = s->tape;
    s->stats.runs++;
    const xcvm_status status = s->function.call(s->function.user, t, in_count, in, out_count, out);
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the function %.100s failed", s->name);
    for (size_t i = 0; i < out_count && !t->failed; i++)
        tape_resolve(t, out[i], "a result of the function");
    return t->failed ? t->error.status : XCVM_OK;
}

static xcvm_var return_results(xcvm_status status, size_t out_count, xcvm_var *out)
{
    for (size_t i = 0; i < out_count && status != XCVM_OK; i++)
        out[i] = TAPE_FAILED;
    return status != XCVM_OK ? TAPE_FAILED : out_count > 0 ? out[0] : XCVM_ABSENT;
}

/* The function's own variable for an operand. */
static tape_variable *alias_operand(xcvm_tape *t, tape_variable *v)
{
    return t->recording && v->requires ? tape_variable_alias(t, v) : tape_variable_share(t, v);
}

static xcvm_status begin_trace(xcvm_static *s, tape_trace *k, const xcvm_var *in, xcvm_var *own)
{
    xcvm_tape *t = s->tape;
    for (size_t i = 0; i < k->in_count; i++) {
        tape_variable *from = tape_resolve_optional(t, in[i], "an operand of the function"),
                      *v = from != NULL ? alias_operand(t, from) : NULL;
        if (t->failed)
            return t->error.status;
        own[i] = v != NULL ? tape_handle(v) : XCVM_ABSENT;
        if (v != NULL && from->sparse) {
            v->sparse = true;
            if (t->recording && from->requires)
                tape_trace_refuse(k, "the gradient of an operand is kept by rows (xcvm_var_set_sparse_gradient)");
        }
        XCVM_TRY(tape_trace_operand(k, v, from != NULL && from->requires, NULL));
    }
    for (size_t i = 0; i < k->held_count; i++) {
        const tape_variable *v = tape_resolve_optional(t, *s->options.held[i], "what is held");
        if (t->failed)
            return t->error.status;
        XCVM_TRY(tape_trace_operand(k, v, v != NULL && v->requires, s->options.held[i]));
    }
    tape_trace_begin(k);
    return XCVM_OK;
}

/* Handles that the function stores outlive its scope. */
static void end_scope(const xcvm_static *s, xcvm_scope scope, size_t out_count, const xcvm_var *out)
{
    xcvm_tape *t = s->tape;
    for (size_t i = 0; i < s->options.held_count && !t->failed; i++) {
        tape_variable *v = tape_resolve_optional(t, *s->options.held[i], "what is held");
        if (v != NULL && v->named && !v->kept && v->serial > scope.serial)
            v->outlives_scope = true;
    }
    xcvm_tape_scope_end(t, scope, t->failed ? 0 : out_count, out);
}

static xcvm_status run_traced(xcvm_static *s, tape_trace *k, const xcvm_var *in, xcvm_var *own, xcvm_var *out)
{
    xcvm_tape *t = s->tape;
    const bool recording = t->recording;
    XCVM_TRY(begin_trace(s, k, in, own));
    const xcvm_status status = call_function(s, k->in_count, own, k->out_count, out);
    t->recording = recording;
    t->tracer = NULL;
    XCVM_TRY(status);
    return tape_trace_end(k, out);
}

/* Runs and records the function. NULL: a failure. */
static tape_trace *record_trace(xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    xcvm_tape *t = s->tape;
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    const size_t bytes = (in_count + 1) * sizeof *in;
    tape_trace *k = NULL;
    xcvm_var *own = tape_allocate(t, bytes);
    if (own != NULL && tape_trace_create(t, in_count, s->options.held_count, out_count, &k) == XCVM_OK)
        run_traced(s, k, in, own, out);
    end_scope(s, scope, out_count, out);
    if (own != NULL)
        tape_free(t, own, bytes);
    if (!t->failed)
        return k;
    tape_trace_destroy(k);
    return NULL;
}

static size_t count_captures(const tape_trace *k)
{
    size_t count = 0;
    for (size_t i = 0; i < k->operand_count; i++)
        count += trace_is_capture(k, i);
    return count;
}

static xcvm_status add_schedule(xcvm_static *s, tape_trace *k)
{
    evict_schedules(s);
    tape_schedule *c = tape_schedule_create(s->tape, k, s->name);
    if (c == NULL) {
        tape_trace_destroy(k);
        return s->tape->error.status;
    }
    c->recording = s->tape->recording;
    c->training = s->training;
    c->double_backprop = s->options.double_backprop;
    c->optimization = s->options.optimization;
    c->used = ++s->clock;
    c->next = s->schedules;
    s->schedules = c;
    s->count++;
    s->stats.recorded++;
    if (k->refusal[0] != '\0')
        tape_static_say(s, 0, "this runs define-by-run each time: %s", k->refusal);
    else
        tape_static_say(s, 1, "%zu calls are recorded, %zu variables captured%s", k->call_count, count_captures(k),
                        k->differentiable ? ", with gradients" : "");
    return XCVM_OK;
}

/* Runs and records the function. The new schedule replaces `before`, unless both are equal. */
static xcvm_status run_and_record(xcvm_static *s, tape_schedule *before, size_t in_count, const xcvm_var *in,
                                  size_t out_count, xcvm_var *out)
{
    char difference[320];
    tape_trace *k = record_trace(s, in_count, in, out_count, out);
    if (k == NULL)
        return s->tape->error.status;
    /* An incomplete trace is dropped; the next call records again. */
    if (k->out_of_memory_count != s->tape->out_of_memory_count) {
        tape_trace_destroy(k);
        return XCVM_OK;
    }
    const bool comparable = s->checking && before != NULL && before->trace->refusal[0] == '\0' && k->refusal[0] == '\0';
    if (comparable && tape_trace_equal(before->trace, k, difference, sizeof difference)) {
        before->used = ++s->clock;
        tape_trace_destroy(k);
        return XCVM_OK;
    }
    if (comparable) {
        s->stats.different++;
        tape_static_say(s, 0, "not static: %s", difference);
    }
    /* A schedule that a backward pass needs is evicted later. */
    if (before != NULL && before->users == 0)
        drop_schedule(s, before);
    else if (before != NULL)
        before->used = 0;
    return add_schedule(s, k);
}

/* ---- Running a schedule ---- */

/* A recorded op of the tape, so that the table's gradient is row-sparse. */
static tape_variable *gather_rows(const tape_schedule *c, const trace_operand *o)
{
    const xcvm_var rows =
        xcvm_Gather(c->trace->tape, tape_handle(c->operands[o->table]), tape_handle(c->operands[o->indices]));
    return rows.at;
}

/* The operands are referenced, since host operations and hooks may release them. Only the record refers to gathered
 * rows. */
static void release_operands(const tape_schedule *c, size_t operand_count)
{
    for (size_t i = 0; i < operand_count; i++) {
        tape_variable *v = c->operands[i];
        if (v == NULL)
            continue;
        if (c->trace->operands[i].gathered && v->named)
            tape_variable_unname(v);
        tape_variable_release(v);
    }
}

static xcvm_status run_schedule(xcvm_static *s, tape_schedule *c, const xcvm_var *in, xcvm_var *out)
{
    const tape_trace *k = c->trace;
    for (size_t i = 0; i < k->operand_count; i++) {
        const trace_operand *o = &k->operands[i];
        c->operands[i] = o->gathered ? gather_rows(c, o) : (tape_variable *)(uintptr_t)tape_static_operand(k, in, i);
        if (s->tape->failed) {
            release_operands(c, i);
            return s->tape->error.status;
        }
        if (c->operands[i] != NULL)
            c->operands[i]->refs++;
    }
    c->used = ++s->clock;
    s->stats.replayed++;
    tape_static_say(s, 2, "a schedule of %zu calls runs", k->call_count);
    const xcvm_status status = tape_schedule_run(s->tape, c);
    release_operands(c, k->operand_count);
    XCVM_TRY(status);
    for (size_t i = 0; i < k->out_count; i++)
        out[i] = tape_handle(c->results[i]);
    return XCVM_OK;
}

/* Compiles a schedule if needed. True: it can run. */
static bool prepare_schedule(xcvm_static *s, tape_schedule *c)
{
    xcvm_tape *t = s->tape;
    if (c->forward.session != NULL && tape_schedule_is_outdated(c)) {
        tape_static_say(s, 1, "a capture has changed; it is an operand from now on");
        tape_schedule_discard_programs(t, c);
        c->changes = true;
    }
    if (c->forward.session != NULL)
        return true;
    if (tape_schedule_compile(t, c) != XCVM_OK)
        return false;
    if (c->trace->refusal[0] != '\0')
        tape_static_say(s, 0, "this runs define-by-run each time: %s", c->trace->refusal);
    else
        tape_static_say(s, 1, "compiled; it takes %zu bytes", tape_schedule_memory(c));
    return c->trace->refusal[0] == '\0';
}

static xcvm_status check_operands(const xcvm_static *s, size_t in_count, const xcvm_var *in)
{
    xcvm_tape *t = s->tape;
    for (size_t i = 0; i < in_count && !t->failed; i++)
        tape_resolve_optional(t, in[i], "an operand of the function");
    for (size_t i = 0; i < s->options.held_count && !t->failed; i++)
        tape_resolve_optional(t, *s->options.held[i], "what is held");
    return t->failed ? t->error.status : XCVM_OK;
}

static xcvm_status call_static(xcvm_static *s, size_t in_count, const xcvm_var *in, size_t out_count, xcvm_var *out)
{
    xcvm_tape *t = s->tape;
    XCVM_TRY(check_operands(s, in_count, in));
    if (s->options.force_test_define_by_run && !(s->training && t->recording))
        return call_function(s, in_count, in, out_count, out);
    tape_schedule *c = tape_static_find(s, in_count, in, out_count);
    if (c != NULL && c->trace->refusal[0] != '\0' && !s->checking)
        return call_function(s, in_count, in, out_count, out);
    if (c == NULL || s->checking || !tape_static_has_captures(s, c))
        return run_and_record(s, c, in_count, in, out_count, out);
    if (tape_static_reads_what_is_written(c->trace, in))
        return call_function(s, in_count, in, out_count, out);
    if (tape_static_has_gradients(c->trace, in)) {
        tape_static_say(s, 1, "this runs define-by-run: it adds to gradients that are there already");
        return call_function(s, in_count, in, out_count, out);
    }
    if (prepare_schedule(s, c))
        return run_schedule(s, c, in, out);
    return t->failed ? t->error.status : call_function(s, in_count, in, out_count, out);
}

xcvm_var xcvm_static_call(xcvm_static *static_function, size_t in_count, const xcvm_var *in, size_t out_count,
                          xcvm_var *out)
{
    xcvm_tape *t = TAPE_OF(static_function);
    if (!TAPE_ENTER(t, xcvm_static_call))
        return return_results(XCVM_INVALID_ARGUMENT, out != NULL ? out_count : 0, out);
    if ((in_count > 0 && in == NULL) || (out_count > 0 && out == NULL) || in_count > UINT32_MAX / 4 ||
        out_count > UINT32_MAX / 4) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "operands of %.100s are missing, or the place for its results",
                  static_function->name);
        return TAPE_FAILED;
    }
    if (!t->failed && t->in_static)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%.100s is called within a static function; make the outermost one static",
                  static_function->name);
    if (t->failed)
        return return_results(t->error.status, out_count, out);
    if (static_function->enabled && !t->mode->builds && !t->mode->defers) {
        t->in_static = true;
        const xcvm_status status = call_static(static_function, in_count, in, out_count, out);
        t->in_static = false;
        return return_results(status, out_count, out);
    }
    static_function->calls++;
    const xcvm_status status =
        static_function->function.call(static_function->function.user, t, in_count, in, out_count, out);
    static_function->calls--;
    if (status != XCVM_OK && !t->failed)
        tape_fail(t, status, "the function %.100s failed", static_function->name);
    return return_results(t->failed ? t->error.status : XCVM_OK, out_count, out);
}
