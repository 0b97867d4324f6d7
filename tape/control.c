/* Branches and loops: executed by the host's control flow, or built as subgraphs. */
#include "tape/control.h"
#include "tape/tracer.h"

#include <string.h>

static void fail_results(size_t count, xcvm_var *results)
{
    for (size_t i = 0; i < count; i++)
        results[i] = TAPE_FAILED;
}

/* A scalar of a type; it may be absent. */
tape_variable *tape_resolve_scalar(xcvm_tape *t, xcvm_var v, xcvm_dtype dtype, const char *what)
{
    tape_variable *variable = tape_resolve_optional(t, v, what);
    char text[192];
    if (variable != NULL && (variable->value.type.kind != XCVM_KIND_TENSOR || variable->value.type.dtype != dtype ||
                             (!t->mode->builds && xcvm_element_count(&variable->value.type) != 1)))
        tape_fail(t, XCVM_TYPE_MISMATCH, "%s is %s, one element of type %s is needed", what,
                  xcvm_value_describe(&variable->value.type, text, sizeof text), xcvm_dtype_name(dtype));
    if (tape_evaluate(variable) != XCVM_OK)
        return NULL;
    if (t->tracer != NULL && variable != NULL && !t->failed)
        t->tracer->functions->branch(t->tracer, variable);
    return variable;
}

static bool is_true(const tape_variable *v) { return v == NULL || *XCVM_CDATA(bool, &v->value.type); }

/* ---- If ---- */

void tape_eager_branch(xcvm_tape *t, const tape_variable *condition, const xcvm_tape_branch *branches, size_t count,
                       xcvm_var *results)
{
    if (count > 0)
        memset(results, 0, count * sizeof *results);
    const xcvm_tape_branch taken = branches[is_true(condition) ? 0 : 1];
    taken.call(taken.user, t, count, results);
    for (size_t i = 0; i < count && !t->failed; i++)
        tape_resolve(t, results[i], "a result of a branch");
}

void xcvm_tape_if(xcvm_tape *tape, xcvm_var cond, xcvm_tape_branch then_branch, xcvm_tape_branch else_branch,
                  size_t count, xcvm_var *results)
{
    xcvm_tape *t = tape;
    const xcvm_tape_branch branches[] = {then_branch, else_branch};
    const bool usable = TAPE_ENTER(t, xcvm_tape_if);
    if (usable && (then_branch.call == NULL || else_branch.call == NULL || (count > 0 && results == NULL)))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a branch is missing, or the place for its results");
    const tape_variable *condition = tape_is_unusable(t) ? NULL : tape_resolve_scalar(t, cond, XCVM_BOOL, "cond");
    if (condition == NULL && !tape_is_unusable(t))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "cond is absent, but must be given");
    if (tape_is_unusable(t)) {
        fail_results(results != NULL ? count : 0, results);
    } else {
        t->mode->branch(t, condition, branches, count, results);
        if (t->failed)
            fail_results(count, results);
    }
}

/* ---- Loop ---- */

/* The values of all iterations, scan by scan in each. */
typedef struct scan_rows {
    xcvm_var *at;
    size_t rounds, capacity;
} scan_rows;

static bool append_scan_row(const tape_loop *l, scan_rows *r)
{
    xcvm_tape *t = l->tape;
    if (l->scan_count == 0)
        return true;
    if (r->rounds == r->capacity) {
        const size_t capacity = r->capacity > 0 ? 2 * r->capacity : 16;
        xcvm_var *larger = tape_allocate(t, capacity * l->scan_count * sizeof *larger);
        if (larger == NULL)
            return false;
        if (r->at != NULL) {
            memcpy(larger, r->at, r->rounds * l->scan_count * sizeof *larger);
            tape_free(t, r->at, r->capacity * l->scan_count * sizeof *larger);
        }
        r->at = larger;
        r->capacity = capacity;
    }
    const xcvm_var axis = xcvm_tape_constant(t, XCVM_I64, 1, (const int64_t[]){1}, (const int64_t[]){0});
    for (size_t i = 0; i < l->scan_count; i++)
        r->at[r->rounds * l->scan_count + i] = xcvm_Unsqueeze(t, l->scans[i], axis);
    return !t->failed;
}

static void stack_rows(const tape_loop *l, const scan_rows *r)
{
    xcvm_tape *t = l->tape;
    xcvm_var *column = NULL;
    const size_t bytes = r->rounds * sizeof *column;
    if (l->scan_count == 0 || t->failed)
        return;
    if (r->rounds == 0) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a loop without iterations has no scans to stack");
        return;
    }
    if ((column = tape_allocate(t, bytes)) == NULL)
        return;
    for (size_t i = 0; i < l->scan_count; i++) {
        for (size_t k = 0; k < r->rounds; k++)
            column[k] = r->at[k * l->scan_count + i];
        l->scans[i] = xcvm_Concat(t, {column, r->rounds}, .axis = 0);
    }
    tape_free(t, column, bytes);
}

/* A body may leave scans unset. */
void tape_loop_clear_scans(const tape_loop *l)
{
    for (size_t i = 0; i < l->scan_count; i++)
        l->scans[i] = XCVM_ABSENT;
}

void tape_eager_loop(const tape_loop *l)
{
    xcvm_tape *t = l->tape;
    scan_rows r = {.at = NULL};
    const int64_t trips = l->trips != NULL ? xcvm_element_as_int(&l->trips->value.type, 0) : INT64_MAX;
    bool goes_on = is_true(l->cond);
    for (int64_t i = 0; i < trips && goes_on && !t->failed; i++) {
        xcvm_var go_on = XCVM_ABSENT;
        tape_loop_clear_scans(l);
        l->body.call(l->body.user, t, xcvm_tape_constant(t, XCVM_I64, 0, NULL, &i), l->state_count, l->states,
                     l->scan_count, l->scans, &go_on);
        for (size_t k = 0; k < l->state_count && !t->failed; k++)
            tape_resolve(t, l->states[k], "a state of the loop");
        for (size_t k = 0; k < l->scan_count && !t->failed; k++)
            tape_resolve(t, l->scans[k], "a scan of the loop");
        const tape_variable *said = t->failed ? NULL : tape_resolve_scalar(t, go_on, XCVM_BOOL, "go_on");
        if (t->failed || !append_scan_row(l, &r))
            break;
        r.rounds++;
        goes_on = is_true(said);
    }
    stack_rows(l, &r);
    if (r.at != NULL)
        tape_free(t, r.at, r.capacity * l->scan_count * sizeof *r.at);
}

void xcvm_tape_loop(xcvm_tape *tape, xcvm_var trips, xcvm_var cond, xcvm_tape_loop_body body, size_t state_count,
                    xcvm_var *states, size_t scan_count, xcvm_var *scans)
{
    xcvm_tape *t = tape;
    if (TAPE_ENTER(t, xcvm_tape_loop) &&
        (body.call == NULL || (state_count > 0 && states == NULL) || (scan_count > 0 && scans == NULL) ||
         state_count > UINT32_MAX || scan_count > UINT32_MAX))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "the body of a loop is missing, or the place for its results");
    if (!tape_is_unusable(t)) {
        const tape_loop l = {.tape = t,
                             .trips = tape_resolve_scalar(t, trips, XCVM_I64, "trips"),
                             .cond = tape_resolve_scalar(t, cond, XCVM_BOOL, "cond"),
                             .body = body,
                             .state_count = state_count,
                             .scan_count = scan_count,
                             .states = states,
                             .scans = scans};
        if (!t->failed)
            t->mode->loop(&l);
    }
    if (tape_is_unusable(t)) {
        fail_results(states != NULL ? state_count : 0, states);
        fail_results(scans != NULL ? scan_count : 0, scans);
    }
}
