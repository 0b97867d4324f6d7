/* The walk back: the rules of the compiler, run by a builder that executes, over what was recorded. */
#include "compiler/gradients/rule.h"
#include "compiler/ir/compose.h"
#include "tape/walk.h"

#include <string.h>

/* ---- What the walk knows of variables ---- */

xcvm_status tape_walk_refuse_overlap(const tape_walk *w)
{
    return tape_fail(w->tape, XCVM_INVALID_ARGUMENT, "a gradient is taken while a backward goes over the same calls");
}

xcvm_status tape_walk_touch(tape_walk *w, tape_variable *v)
{
    if (v->walk == w)
        return XCVM_OK;
    if (v->walk != NULL)
        return tape_walk_refuse_overlap(w);
    tape_batch_single_out(v);
    v->walk = w;
    v->sum = v->mask = NULL;
    v->derived = v->target = v->root = v->factored = v->partial = false;
    v->previous_touched = NULL;
    v->next_touched = w->touched;
    if (w->touched != NULL)
        w->touched->previous_touched = v;
    w->touched = v;
    v->refs++;
    return XCVM_OK;
}

static void release(tape_variable **v)
{
    if (*v != NULL)
        tape_variable_release(*v);
    *v = NULL;
}

void tape_walk_untouch(tape_walk *w, tape_variable *v)
{
    if (v->previous_touched != NULL)
        v->previous_touched->next_touched = v->next_touched;
    else
        w->touched = v->next_touched;
    if (v->next_touched != NULL)
        v->next_touched->previous_touched = v->previous_touched;
    release(&v->sum);
    release(&v->mask);
    if (v->by_rows)
        tape_rows_drop(w->tape, &v->coming);
    v->walk = NULL;
    v->factored = false;
    tape_variable_release(v);
}

bool tape_walk_reaches(const tape_walk *w, const tape_variable *v)
{
    return w->request->kind == TAPE_BACKWARD ? v->requires : v->walk == w && (v->derived || v->target);
}

/* ---- Adding up ---- */

xcvm_status tape_walk_failure(const tape_walk *w, const char *what)
{
    xcvm_tape *t = w->tape;
    /* What a builder fails with is in the error alone. */
    if (!t->failed && t->error.status != XCVM_OK)
        return tape_stick(t, t->error.status);
    return t->failed ? t->error.status : tape_fail(t, XCVM_INTERNAL, "%s gave nothing", what);
}

xcvm_status tape_walk_hold(const tape_walk *w, tape_variable **to, xcc_value *from, const char *what)
{
    if (from == NULL)
        return tape_walk_failure(w, what);
    tape_variable *v = tape_variable_of(from);
    v->refs++;
    release(to);
    *to = v;
    return XCVM_OK;
}

xcvm_status tape_walk_add(tape_walk *w, tape_variable *v, xcc_value *gradient, xcc_value *mask)
{
    if (gradient->type.dtype != v->value.type.dtype)
        return tape_fail(w->tape, XCVM_INTERNAL, "the gradient of a variable of %s is %s",
                         xcvm_dtype_name((xcvm_dtype)v->value.type.dtype),
                         xcvm_dtype_name((xcvm_dtype)gradient->type.dtype));
    if (v->factored)
        XCVM_TRY(tape_product_make(w, v));
    tape_batch_complete(v);
    if (v->sum == NULL) {
        XCVM_TRY(tape_walk_hold(w, &v->sum, gradient, "a gradient"));
        return mask != NULL ? tape_walk_hold(w, &v->mask, mask, "a mask") : XCVM_OK;
    }
    XCVM_TRY(tape_walk_hold(w, &v->sum, xcc_accumulate(&w->builder, &v->sum->value, gradient), "the sum of gradients"));
    if (v->mask != NULL && mask != NULL)
        return tape_walk_hold(w, &v->mask, xcc_build_binary(&w->builder, XCVM_OP_Or, &v->mask->value, mask), "a mask");
    release(&v->mask);
    return XCVM_OK;
}

static xcvm_status call_hooks(tape_walk *w, tape_variable *v)
{
    xcvm_tape *t = w->tape;
    if (w->request->kind != TAPE_BACKWARD)
        return XCVM_OK;
    if (v->hooks != NULL)
        XCVM_TRY(tape_products_add(w));
    for (const tape_hook *hook = v->hooks; hook != NULL && v->sum != NULL; hook = hook->next) {
        const bool recording = xcvm_tape_set_recording(t, w->request->create);
        v->sum->lenders++;
        tape_variable *lent = v->sum;
        const xcvm_var given = hook->hook.call(hook->hook.user, t, tape_handle(lent));
        tape_variable *other = t->failed ? NULL : tape_operand(t, given, "the gradient that a hook returned");
        lent->lenders--;
        t->recording = recording;
        if (t->failed)
            return t->error.status;
        if (other == NULL)
            continue;
        if (other->value.type.dtype != v->value.type.dtype || !xcvm_same_shape(&other->value.type, &v->value.type)) {
            char a[192], b[192];
            return tape_fail(t, XCVM_SHAPE_MISMATCH, "a hook returned %s for the gradient of %s",
                             xcvm_value_describe(&other->value.type, a, sizeof a),
                             xcvm_value_describe(&v->value.type, b, sizeof b));
        }
        XCVM_TRY(tape_walk_hold(w, &v->sum, &other->value, "a hook"));
        release(&v->mask);
    }
    return XCVM_OK;
}

/* ---- One call ---- */

static xcvm_status want(tape_walk *w, tape_record *r, uint32_t index, tape_variable *v)
{
    (void)r;
    (void)v;
    w->wanted[index] = index != 1 || !w->weight_waits;
    return XCVM_OK;
}

/* The rule of Slice reads numbers where they lie. */
static xcvm_status check_numbers(xcvm_tape *t, const tape_record *r)
{
    if (t->overwritten == NULL || r->operation != NULL || r->schema->opcode != XCVM_OP_Slice)
        return XCVM_OK;
    for (size_t i = 1; i < r->in_count && !t->failed; i++)
        if (r->in[i] != NULL)
            (void)tape_stick(t, tape_check_read(t, r->in[i]));
    return t->failed ? t->error.status : XCVM_OK;
}

/* Rules read the elements of what no gradient flows to, which are there unless somebody has forgotten them. */
static xcvm_status check_constants(const tape_walk *w, const tape_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++) {
        tape_variable *v = r->in[i];
        if (v == NULL || v->requires || tape_has_elements(v))
            continue;
        XCVM_TRY(tape_evaluate(v));
        if (!tape_has_elements(v))
            return tape_fail(w->tape, XCVM_INVALID_ARGUMENT, "the elements of operand %u were forgotten", (unsigned)i);
    }
    return XCVM_OK;
}

/* The rule of the row, or what the host has in place of one. */
static xcvm_status apply_rule(tape_walk *w, const tape_record *r, xcc_vjp *d)
{
    xcvm_tape *t = w->tape;
    const tape_record *around = t->overwritten;
    t->overwritten = tape_has_overwritten(r) ? r : NULL;
    if (check_constants(w, r) != XCVM_OK || check_numbers(t, r) != XCVM_OK)
        d->failed = true;
    else if (r->operation == NULL)
        xcc_gradient_rule_of(r->schema->opcode)(d);
    else if (tape_batch_is_inner(r->operation) || tape_products_add(w) == XCVM_OK)
        tape_operation_backward(t, d, r);
    t->overwritten = around;
    if (d->refused[0] != '\0')
        return tape_fail(t, XCVM_UNSUPPORTED, "%s", d->refused);
    return d->failed || t->failed ? tape_walk_failure(w, "the rule") : XCVM_OK;
}

/* What has come to the results, and its masks; whether that is anything. */
static bool take_sums(const tape_walk *w, const tape_record *r, xcc_value **sums, xcc_value **masks)
{
    bool any = false;
    for (uint32_t i = 0; i < r->out_count; i++) {
        const tape_variable *v = r->out[i];
        if (v == NULL || v->walk != w || v->sum == NULL)
            continue;
        sums[i] = &v->sum->value;
        masks[i] = v->mask != NULL ? &v->mask->value : NULL;
        any = true;
    }
    return any;
}

xcvm_status tape_walk_rule(tape_walk *w, tape_record *r)
{
    xcvm_tape *t = w->tape;
    xcc_module *m = &t->module;
    const size_t ins = r->in_count, outs = r->out_count;
    xcc_value **all = xcc_alloc(m, 2 * (ins + outs) * sizeof *all);
    bool *wanted = xcc_alloc(m, ins * sizeof *wanted);
    if (all == NULL || wanted == NULL)
        return tape_stick(t, XCVM_OUT_OF_MEMORY);
    if (!take_sums(w, r, all, all + outs))
        return XCVM_OK;
    if (w->request->kind == TAPE_BACKWARD && !w->request->create && tape_gathers_rows(r))
        return tape_rows_take(t, r, tape_variable_of(all[0]));
    const bool left = tape_product_is_left(w, r);
    w->wanted = wanted;
    w->weight_waits = w->weight_waits || left;
    XCVM_TRY(tape_walk_each_operand(w, r, want));
    if (left) {
        w->weight_waits = false;
        XCVM_TRY(tape_walk_touch(w, r->in[1]));
        XCVM_TRY(tape_product_wait(w, r));
        r->in[1]->factored = true;
    }
    xcc_node node = {.kind = XCC_INSTRUCTION,
                     .schema = r->schema,
                     .args = r->args,
                     .name = "",
                     .origin = r->schema->name,
                     .graph = m->graph};
    xcc_vjp d = {.b = &w->builder,
                 .node = &node,
                 .results = all,
                 .masks = all + outs,
                 .result_count = outs,
                 .wanted = wanted,
                 .operands = all + 2 * outs,
                 .operand_masks = all + 2 * outs + ins};
    XCVM_TRY(apply_rule(w, r, &d));
    for (size_t i = 0; i < ins; i++)
        if (wanted[i] && d.operands[i] != NULL) {
            XCVM_TRY(tape_walk_touch(w, r->in[i]));
            XCVM_TRY(tape_walk_add(w, r->in[i], d.operands[i], d.operand_masks[i]));
        }
    return XCVM_OK;
}

/* In a scope, with memory and recording of its own. */
xcvm_status tape_walk_run(tape_walk *w, tape_record *r, tape_walk_body body)
{
    xcvm_tape *t = w->tape;
    xcc_module *m = &t->module;
    const xcvm_arena around = m->arena;
    const bool recording = t->recording, formula = t->formula;
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    m->arena = t->scratch;
    t->scratch = (xcvm_arena){.allocator = t->allocator};
    t->recording = w->request->create;
    t->formula = false;
    const xcvm_status status = tape_stick(t, body(w, r));
    xcvm_tape_scope_end(t, scope, 0, NULL);
    t->recording = recording;
    t->formula = formula;
    xcvm_arena_clear(&m->arena);
    xcvm_arena_release(&t->scratch);
    t->scratch = m->arena;
    m->arena = around;
    return status == XCVM_OK || r == NULL ? status : tape_walk_blame(w, r, status);
}

static bool keeps_sum(const tape_walk *w, const tape_variable *v)
{
    return v->target || (w->request->kind == TAPE_BACKWARD && v->retains);
}

/* What its call was passed for is done. */
void tape_walk_finish(tape_walk *w, tape_variable *v)
{
    const bool stays = w->request->retain || !v->named || v->kept || v->root || v->target;
    if (v->walk == w && !keeps_sum(w, v))
        tape_walk_untouch(w, v);
    if (!stays)
        tape_variable_unname(v);
}

static xcvm_status visit(tape_walk *w, tape_record *r)
{
    xcvm_status status = XCVM_OK;
    if (r->batch != NULL) {
        if (tape_batch_is_whole(w, r->batch))
            return tape_batch_visit(w, r->batch);
        tape_batch_mark_members(r->batch);
        XCVM_TRY(tape_batch_spread(w, r->batch));
    }
    r->busy = true; /* hooks may release what they like */
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL && r->out[i]->walk == w && r->out[i]->sum != NULL)
            status = call_hooks(w, r->out[i]);
    if (status == XCVM_OK)
        status = tape_walk_run(w, r, tape_walk_rule);
    tape_walk_unmark(w, r);
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_walk_finish(w, r->out[i]);
    r->busy = false;
    if ((status == XCVM_OK && !w->request->retain) || tape_record_is_dead(r))
        tape_record_remove(r);
    return status;
}

/* ---- The end ---- */

bool tape_walk_is_shared(const tape_variable *sum)
{
    return sum->refs > 1 || sum->named || sum->value.type.storage == NULL ||
           __atomic_load_n(&sum->value.type.storage->refs, __ATOMIC_ACQUIRE) > 1;
}

tape_variable *tape_walk_copy(xcvm_tape *t, const tape_variable *sum)
{
    const xcvm_value *type = &sum->value.type;
    tape_variable *copy = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, type->data);
    if (copy != NULL && t->tracer != NULL)
        t->tracer->functions->share(t->tracer, copy, sum);
    return copy;
}

/* Of gradients that can be differentiated those that the caller names, or that are older than their variable, become
 * results of a call: variables refer to gradients that are younger than they are, and so never in a circle. */
static xcvm_status set_apart_connected(tape_walk *w, tape_variable *v)
{
    const tape_variable *sum = v->sum;
    if (!sum->named && sum->lenders == 0 && sum->serial > v->serial)
        return XCVM_OK;
    return tape_walk_hold(w, &v->sum, xcc_build_unary(&w->builder, XCVM_OP_Identity, &v->sum->value), "a gradient");
}

/* A gradient that stays with its variable is no seed of the caller's and no other variable's gradient. */
static xcvm_status set_apart(tape_walk *w, tape_variable *v)
{
    if (w->request->create)
        return set_apart_connected(w, v);
    if (v->sum->value.type.kind != XCVM_KIND_TENSOR || !tape_walk_is_shared(v->sum))
        return XCVM_OK;
    tape_variable *copy = tape_walk_copy(w->tape, v->sum);
    const xcvm_status status = tape_walk_hold(w, &v->sum, copy != NULL ? &copy->value : NULL, "a gradient");
    if (copy != NULL)
        tape_variable_unname(copy);
    return status;
}

static xcvm_status add_to_gradient(tape_walk *w, tape_variable *v)
{
    tape_variable *before = tape_variable_gradient(v);
    return before != NULL
               ? tape_walk_hold(w, &v->sum, xcc_build_add(&w->builder, &before->value, &v->sum->value), "the sum")
               : w->tape->error.status;
}

/* The sums that are left are those of variables that no call made, and of those that retain theirs. Nothing has changed
 * as long as something can fail. */
static xcvm_status add_to_gradients(tape_walk *w)
{
    xcvm_tape *t = w->tape;
    XCVM_TRY(tape_products_own(w));
    for (tape_variable *v = w->touched; v != NULL; v = v->next_touched)
        if (v->sum != NULL && (v->creator == NULL || !v->retains))
            XCVM_TRY(call_hooks(w, v));
    const bool recording = xcvm_tape_set_recording(t, w->request->create);
    xcvm_status status = XCVM_OK;
    for (tape_variable *v = w->touched; v != NULL && status == XCVM_OK; v = v->next_touched)
        if (v->sum != NULL && v->gradient == NULL)
            status = set_apart(w, v);
        else if (v->sum != NULL)
            status = add_to_gradient(w, v);
    t->recording = recording;
    if (status != XCVM_OK)
        return status;
    for (tape_variable *v = w->touched; v != NULL; v = v->next_touched) {
        tape_rows_keep(v);
        if (v->sum == NULL)
            continue;
        tape_variable_set_gradient(v, v->sum);
        v->sum = NULL;
    }
    tape_products_give(w);
    return XCVM_OK;
}

/* A handle of each in the scope around: one that the host has a handle of already is no variable of its own. */
static xcvm_status hand_out(tape_walk *w)
{
    const tape_walk_request *q = w->request;
    xcvm_tape *t = w->tape;
    const bool recording = xcvm_tape_set_recording(t, q->create);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < q->wrt_count && status == XCVM_OK; i++) {
        tape_variable *sum = q->wrt[i]->sum;
        if (sum != NULL && !q->create && tape_walk_is_shared(sum)) {
            sum = tape_walk_copy(t, sum);
            status = sum != NULL ? XCVM_OK : t->error.status;
        } else if (sum != NULL && (sum->named || sum->lenders > 0)) {
            xcc_value *copy = xcc_build_unary(&w->builder, XCVM_OP_Identity, &sum->value);
            if (copy == NULL)
                status = tape_walk_failure(w, "a gradient");
            sum = tape_variable_of(copy);
        } else if (sum != NULL && !tape_variable_name(sum)) {
            status = t->error.status;
        }
        q->gradients[i] = sum;
    }
    t->recording = recording;
    return status;
}

static xcvm_status go(tape_walk *w)
{
    const tape_walk_request *q = w->request;
    xcvm_tape *t = w->tape;
    for (size_t i = 0; i < q->root_count; i++) {
        XCVM_TRY(tape_evaluate(q->roots[i]));
        XCVM_TRY(tape_evaluate(q->seeds[i]));
    }
    if (q->kind == TAPE_GRADIENTS)
        XCVM_TRY(tape_walk_find_reached(w));
    XCVM_TRY(tape_walk_find_needed(w));
    for (size_t i = 0; i < q->root_count; i++)
        if (tape_walk_reaches(w, q->roots[i]))
            XCVM_TRY(tape_walk_add(w, q->roots[i], &q->seeds[i]->value, NULL));
    for (w->cursor = t->last; w->cursor != NULL && w->pending > 0;) {
        tape_record *r = w->cursor;
        w->cursor = r->previous;
        if (tape_walk_passes(w, r))
            XCVM_TRY(visit(w, r));
    }
    if (q->kind == TAPE_BACKWARD)
        return add_to_gradients(w);
    XCVM_TRY(tape_products_add(w));
    return hand_out(w);
}

/* Calls that a walk which failed has not passed wait for it no more; those that nobody needs are gone. */
static void give_up(tape_walk *w)
{
    w->cursor = w->tape->last;
    for (tape_record *r; (r = w->cursor) != NULL && w->pending > 0;) {
        w->cursor = r->previous;
        if (!tape_walk_passes(w, r))
            continue;
        if (r->batch != NULL)
            tape_batch_mark_members(r->batch);
        tape_walk_unmark(w, r);
        if (tape_record_is_dead(r))
            tape_record_remove(r);
    }
}

xcvm_status tape_walk_back(xcvm_tape *t, const tape_walk_request *request)
{
    tape_walk w = {.tape = t,
                   .request = request,
                   .outer = t->walk,
                   .builder = {.graph = t->module.graph, .name = "", .origin = "Gradient"}};
    const xcvm_arena around = t->module.arena;
    if (t->walk == NULL) {
        /* What is built outside of rules has memory that goes at the end, too. */
        t->module.arena = (xcvm_arena){.allocator = t->allocator};
    }
    t->walk = &w;
    const xcvm_status status = tape_stick(t, go(&w));
    give_up(&w);
    tape_products_drop(&w);
    while (w.touched != NULL)
        tape_walk_untouch(&w, w.touched);
    t->walk = w.outer;
    if (t->walk == NULL) {
        xcvm_arena_release(&t->module.arena);
        t->module.arena = around;
    }
    return status;
}
