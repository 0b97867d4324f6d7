/* The backward pass: visits recorded ops from the latest to the first, and runs the compiler's gradient rules with a
 * builder that executes. */
#include "compiler/gradients/rule.h"
#include "compiler/ir/compose.h"
#include "tape/backward/backward.h"

#include <string.h>

/* ---- State of variables ---- */

xcvm_status tape_backward_refuse_overlap(const tape_backward_pass *pass)
{
    return tape_fail(pass->tape, XCVM_INVALID_ARGUMENT,
                     "a gradient is requested while a backward pass visits the same calls");
}

xcvm_status tape_backward_track(tape_backward_pass *pass, tape_variable *v)
{
    if (v->pass == pass)
        return XCVM_OK;
    if (v->pass != NULL)
        return tape_backward_refuse_overlap(pass);
    tape_batch_treat_separately(v);
    v->pass = pass;
    v->sum = v->mask = NULL;
    v->derived = v->target = v->root = v->factored = v->partial = false;
    v->previous_tracked = NULL;
    v->next_tracked = pass->tracked;
    if (pass->tracked != NULL)
        pass->tracked->previous_tracked = v;
    pass->tracked = v;
    v->refs++;
    return XCVM_OK;
}

static void release_reference(tape_variable **v)
{
    if (*v != NULL)
        tape_variable_release(*v);
    *v = NULL;
}

void tape_backward_untrack(tape_backward_pass *pass, tape_variable *v)
{
    if (v->previous_tracked != NULL)
        v->previous_tracked->next_tracked = v->next_tracked;
    else
        pass->tracked = v->next_tracked;
    if (v->next_tracked != NULL)
        v->next_tracked->previous_tracked = v->previous_tracked;
    release_reference(&v->sum);
    release_reference(&v->mask);
    if (v->has_side_state)
        tape_sparse_release(pass->tape, &v->side->pass_rows);
    v->pass = NULL;
    v->factored = false;
    tape_variable_release(v);
}

bool tape_backward_reaches(const tape_backward_pass *pass, const tape_variable *v)
{
    return pass->request->kind == TAPE_BACKWARD ? v->requires : v->pass == pass && (v->derived || v->target);
}

/* ---- Accumulating ---- */

xcvm_status tape_backward_failure(const tape_backward_pass *pass, const char *what)
{
    xcvm_tape *t = pass->tape;
    /* A builder sets only the error. */
    if (!t->failed && t->error.status != XCVM_OK)
        return tape_latch_failure(t, t->error.status);
    return t->failed ? t->error.status : tape_fail(t, XCVM_INTERNAL, "%s gave nothing", what);
}

xcvm_status tape_backward_hold(const tape_backward_pass *pass, tape_variable **to, xcc_value *from, const char *what)
{
    if (from == NULL)
        return tape_backward_failure(pass, what);
    tape_variable *v = tape_variable_of(from);
    v->refs++;
    release_reference(to);
    *to = v;
    return XCVM_OK;
}

xcvm_status tape_backward_accumulate(tape_backward_pass *pass, tape_variable *v, xcc_value *gradient, xcc_value *mask)
{
    if (gradient->type.dtype != v->value.type.dtype)
        return tape_fail(pass->tape, XCVM_INTERNAL, "the gradient of a variable of %s is %s",
                         xcvm_dtype_name((xcvm_dtype)v->value.type.dtype),
                         xcvm_dtype_name((xcvm_dtype)gradient->type.dtype));
    if (v->factored)
        XCVM_TRY(tape_product_compute(pass, v));
    tape_batch_fill_missing(v);
    if (v->sum == NULL) {
        XCVM_TRY(tape_backward_hold(pass, &v->sum, gradient, "a gradient"));
        return mask != NULL ? tape_backward_hold(pass, &v->mask, mask, "a mask") : XCVM_OK;
    }
    XCVM_TRY(tape_backward_hold(pass, &v->sum, xcc_accumulate(&pass->builder, &v->sum->value, gradient),
                                "the sum of gradients"));
    if (v->mask != NULL && mask != NULL)
        return tape_backward_hold(pass, &v->mask, xcc_build_binary(&pass->builder, XCVM_OP_Or, &v->mask->value, mask),
                                  "a mask");
    release_reference(&v->mask);
    return XCVM_OK;
}

static xcvm_status call_hooks(tape_backward_pass *pass, tape_variable *v)
{
    xcvm_tape *t = pass->tape;
    if (pass->request->kind != TAPE_BACKWARD)
        return XCVM_OK;
    if (tape_side(v)->hooks != NULL)
        XCVM_TRY(tape_products_flush(pass));
    for (const tape_hook *hook = tape_side(v)->hooks; hook != NULL && v->sum != NULL; hook = hook->next) {
        const bool recording = xcvm_tape_set_recording(t, pass->request->create);
        v->sum->lent_refs++;
        tape_variable *lent = v->sum;
        const xcvm_var returned = hook->hook.call(hook->hook.user, t, tape_handle(lent));
        tape_variable *other =
            t->failed ? NULL : tape_resolve_optional(t, returned, "the gradient that a hook returned");
        lent->lent_refs--;
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
        XCVM_TRY(tape_backward_hold(pass, &v->sum, &other->value, "a hook"));
        release_reference(&v->mask);
    }
    return XCVM_OK;
}

/* ---- Rules ---- */

static xcvm_status mark_wanted(tape_backward_pass *pass, tape_op_record *r, uint32_t index, tape_variable *v)
{
    (void)r;
    (void)v;
    pass->wanted[index] = index != 1 || !pass->weight_deferred;
    return XCVM_OK;
}

/* The rule of Slice reads its operands in place. */
static xcvm_status check_slice_operands(xcvm_tape *t, const tape_op_record *r)
{
    if (t->overwritten == NULL || r->operation != NULL || r->schema->opcode != XCVM_OP_Slice)
        return XCVM_OK;
    for (size_t i = 1; i < r->in_count && !t->failed; i++)
        if (r->in[i] != NULL)
            (void)tape_latch_failure(t, tape_variable_check_readable(t, r->in[i]));
    return t->failed ? t->error.status : XCVM_OK;
}

/* Rules read the elements of constant operands, which must be available. */
static xcvm_status check_constant_operands(const tape_backward_pass *pass, const tape_op_record *r)
{
    for (uint32_t i = 0; i < r->in_count; i++) {
        tape_variable *v = r->in[i];
        if (v == NULL || v->requires || tape_variable_has_elements(v))
            continue;
        XCVM_TRY(tape_evaluate(v));
        if (!tape_variable_has_elements(v))
            return tape_fail(pass->tape, XCVM_INVALID_ARGUMENT, "the elements of operand %u are gone", (unsigned)i);
    }
    return XCVM_OK;
}

/* Runs the gradient rule of an op, or the function of a host operation. */
static xcvm_status apply_rule(tape_backward_pass *pass, const tape_op_record *r, xcc_vjp *d)
{
    xcvm_tape *t = pass->tape;
    const tape_op_record *around = t->overwritten;
    t->overwritten = tape_op_has_overwritten(r) ? r : NULL;
    if (check_constant_operands(pass, r) != XCVM_OK || check_slice_operands(t, r) != XCVM_OK)
        d->failed = true;
    else if (r->operation == NULL)
        xcc_gradient_rule_of(r->schema->opcode)(d);
    else if (tape_batch_is_internal(r->operation) || tape_products_flush(pass) == XCVM_OK)
        tape_operation_apply_gradient(t, d, r);
    t->overwritten = around;
    if (d->refused[0] != '\0')
        return tape_fail(t, XCVM_UNSUPPORTED, "%s", d->refused);
    return d->failed || t->failed ? tape_backward_failure(pass, "the rule") : XCVM_OK;
}

/* Collects the gradients of the results and their masks. False: there are none. */
static bool collect_sums(const tape_backward_pass *pass, const tape_op_record *r, xcc_value **sums, xcc_value **masks)
{
    bool any = false;
    for (uint32_t i = 0; i < r->out_count; i++) {
        const tape_variable *v = r->out[i];
        if (v == NULL || v->pass != pass || v->sum == NULL)
            continue;
        sums[i] = &v->sum->value;
        masks[i] = v->mask != NULL ? &v->mask->value : NULL;
        any = true;
    }
    return any;
}

xcvm_status tape_backward_apply_rule(tape_backward_pass *pass, tape_op_record *r)
{
    xcvm_tape *t = pass->tape;
    xcc_module *m = &t->module;
    const size_t ins = r->in_count, outs = r->out_count;
    xcc_value **all = xcc_alloc(m, 2 * (ins + outs) * sizeof *all);
    bool *wanted = xcc_alloc(m, ins * sizeof *wanted);
    if (all == NULL || wanted == NULL)
        return tape_latch_failure(t, XCVM_OUT_OF_MEMORY);
    if (!collect_sums(pass, r, all, all + outs))
        return XCVM_OK;
    if (pass->request->kind == TAPE_BACKWARD && !pass->request->create && tape_sparse_applies(r))
        return tape_sparse_collect(t, r, tape_variable_of(all[0]));
    const bool left = tape_product_stays_factored(pass, r);
    pass->wanted = wanted;
    pass->weight_deferred = pass->weight_deferred || left;
    XCVM_TRY(tape_backward_each_operand(pass, r, mark_wanted));
    if (left) {
        pass->weight_deferred = false;
        XCVM_TRY(tape_backward_track(pass, r->in[1]));
        XCVM_TRY(tape_product_defer(pass, r));
        r->in[1]->factored = true;
    }
    xcc_node node = {.kind = XCC_INSTRUCTION,
                     .schema = r->schema,
                     .args = r->args,
                     .name = "",
                     .origin = r->schema->name,
                     .graph = m->graph};
    xcc_vjp d = {.b = &pass->builder,
                 .node = &node,
                 .results = all,
                 .masks = all + outs,
                 .result_count = outs,
                 .wanted = wanted,
                 .operands = all + 2 * outs,
                 .operand_masks = all + 2 * outs + ins};
    XCVM_TRY(apply_rule(pass, r, &d));
    for (size_t i = 0; i < ins; i++)
        if (wanted[i] && d.operands[i] != NULL) {
            XCVM_TRY(tape_backward_track(pass, r->in[i]));
            XCVM_TRY(tape_backward_accumulate(pass, r->in[i], d.operands[i], d.operand_masks[i]));
        }
    return XCVM_OK;
}

/* The rule has a scope, memory and recording state of its own. */
xcvm_status tape_backward_run_scoped(tape_backward_pass *pass, tape_op_record *r, tape_backward_step body)
{
    xcvm_tape *t = pass->tape;
    xcc_module *m = &t->module;
    const xcvm_arena around = m->arena;
    const bool recording = t->recording, formula = t->formula;
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    m->arena = t->scratch;
    t->scratch = (xcvm_arena){.allocator = t->allocator};
    t->recording = pass->request->create;
    t->formula = false;
    const xcvm_status status = tape_latch_failure(t, body(pass, r));
    xcvm_tape_scope_end(t, scope, 0, NULL);
    t->recording = recording;
    t->formula = formula;
    xcvm_arena_clear(&m->arena);
    xcvm_arena_release(&t->scratch);
    t->scratch = m->arena;
    m->arena = around;
    return status == XCVM_OK || r == NULL ? status : tape_backward_locate_failure(pass, r, status);
}

static bool retains_sum(const tape_backward_pass *pass, const tape_variable *v)
{
    return v->target || (pass->request->kind == TAPE_BACKWARD && v->retains);
}

/* The op that made v was visited. */
void tape_backward_finish_variable(tape_backward_pass *pass, tape_variable *v)
{
    const bool stays = pass->request->retain || !v->named || v->kept || v->root || v->target;
    if (v->pass == pass && !retains_sum(pass, v))
        tape_backward_untrack(pass, v);
    if (!stays)
        tape_variable_unname(v);
}

static xcvm_status visit_record(tape_backward_pass *pass, tape_op_record *r)
{
    xcvm_status status = XCVM_OK;
    if (r->batch != NULL) {
        if (tape_batch_is_complete(pass, r->batch))
            return tape_backward_visit_batch(pass, r->batch);
        tape_batch_mark_members(r->batch);
        XCVM_TRY(tape_backward_split_batch(pass, r->batch));
    }
    r->busy = true; /* hooks may release anything */
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL && r->out[i]->pass == pass && r->out[i]->sum != NULL)
            status = call_hooks(pass, r->out[i]);
    if (status == XCVM_OK)
        status = tape_backward_run_scoped(pass, r, tape_backward_apply_rule);
    tape_backward_unmark(pass, r);
    for (uint32_t i = 0; i < r->out_count && status == XCVM_OK; i++)
        if (r->out[i] != NULL)
            tape_backward_finish_variable(pass, r->out[i]);
    r->busy = false;
    if ((status == XCVM_OK && !pass->request->retain) || tape_op_record_is_dead(r))
        tape_op_record_remove(r);
    return status;
}

/* ---- End of the pass ---- */

bool tape_backward_is_shared(const tape_variable *sum)
{
    return sum->refs > 1 || sum->named || sum->value.type.storage == NULL ||
           __atomic_load_n(&sum->value.type.storage->refs, __ATOMIC_ACQUIRE) > 1;
}

tape_variable *tape_backward_copy_sum(xcvm_tape *t, const tape_variable *sum)
{
    const xcvm_value *type = &sum->value.type;
    tape_variable *copy = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, type->data);
    if (copy != NULL && t->tracer != NULL)
        t->tracer->functions->share(t->tracer, copy, sum);
    return copy;
}

/* A differentiable gradient that has a handle, or is older than its variable, is copied by an op. So variables refer
 * only to younger gradients, and never in a cycle. */
static xcvm_status own_connected_gradient(tape_backward_pass *pass, tape_variable *v)
{
    const tape_variable *sum = v->sum;
    if (!sum->named && sum->lent_refs == 0 && sum->serial > v->serial)
        return XCVM_OK;
    return tape_backward_hold(pass, &v->sum, xcc_build_unary(&pass->builder, XCVM_OP_Identity, &v->sum->value),
                              "a gradient");
}

/* The gradient must not share elements with a seed or with another variable's gradient. */
static xcvm_status own_gradient(tape_backward_pass *pass, tape_variable *v)
{
    if (pass->request->create)
        return own_connected_gradient(pass, v);
    if (v->sum->value.type.kind != XCVM_KIND_TENSOR || !tape_backward_is_shared(v->sum))
        return XCVM_OK;
    tape_variable *copy = tape_backward_copy_sum(pass->tape, v->sum);
    const xcvm_status status = tape_backward_hold(pass, &v->sum, copy != NULL ? &copy->value : NULL, "a gradient");
    if (copy != NULL)
        tape_variable_unname(copy);
    return status;
}

static xcvm_status add_to_gradient(tape_backward_pass *pass, tape_variable *v)
{
    tape_variable *before = tape_variable_gradient(v);
    return before != NULL ? tape_backward_hold(pass, &v->sum,
                                               xcc_build_add(&pass->builder, &before->value, &v->sum->value), "the sum")
                          : pass->tape->error.status;
}

/* The remaining sums belong to variables without a creator, and to those that retain gradients. Everything that can
 * fail comes before the first change. */
static xcvm_status add_to_gradients(tape_backward_pass *pass)
{
    xcvm_tape *t = pass->tape;
    XCVM_TRY(tape_products_own(pass));
    for (tape_variable *v = pass->tracked; v != NULL; v = v->next_tracked)
        if (v->sum != NULL && (v->creator == NULL || !v->retains))
            XCVM_TRY(call_hooks(pass, v));
    const bool recording = xcvm_tape_set_recording(t, pass->request->create);
    xcvm_status status = XCVM_OK;
    for (tape_variable *v = pass->tracked; v != NULL && status == XCVM_OK; v = v->next_tracked)
        if (v->sum != NULL && tape_side(v)->gradient == NULL)
            status = tape_side_reserve(v) != NULL ? own_gradient(pass, v) : t->error.status;
        else if (v->sum != NULL)
            status = add_to_gradient(pass, v);
    t->recording = recording;
    if (status != XCVM_OK)
        return status;
    for (tape_variable *v = pass->tracked; v != NULL; v = v->next_tracked) {
        tape_sparse_commit(v);
        if (v->sum == NULL)
            continue;
        tape_variable_set_gradient(v, v->sum);
        v->sum = NULL;
    }
    tape_products_commit(pass);
    return XCVM_OK;
}

/* Names the gradients in the outer scope. A sum that already has a handle is copied. */
static xcvm_status return_gradients(tape_backward_pass *pass)
{
    const tape_backward_request *q = pass->request;
    xcvm_tape *t = pass->tape;
    const bool recording = xcvm_tape_set_recording(t, q->create);
    xcvm_status status = XCVM_OK;
    for (size_t i = 0; i < q->wrt_count && status == XCVM_OK; i++) {
        tape_variable *sum = q->wrt[i]->sum;
        if (sum != NULL && !q->create && tape_backward_is_shared(sum)) {
            sum = tape_backward_copy_sum(t, sum);
            status = sum != NULL ? XCVM_OK : t->error.status;
        } else if (sum != NULL && (sum->named || sum->lent_refs > 0)) {
            xcc_value *copy = xcc_build_unary(&pass->builder, XCVM_OP_Identity, &sum->value);
            if (copy == NULL)
                status = tape_backward_failure(pass, "a gradient");
            sum = tape_variable_of(copy);
        } else if (sum != NULL && !tape_variable_name(sum)) {
            status = t->error.status;
        }
        q->gradients[i] = sum;
    }
    t->recording = recording;
    return status;
}

static xcvm_status traverse(tape_backward_pass *pass)
{
    const tape_backward_request *q = pass->request;
    xcvm_tape *t = pass->tape;
    for (size_t i = 0; i < q->root_count; i++) {
        XCVM_TRY(tape_evaluate(q->roots[i]));
        XCVM_TRY(tape_evaluate(q->seeds[i]));
    }
    if (q->kind == TAPE_GRADIENTS)
        XCVM_TRY(tape_backward_find_reached(pass));
    XCVM_TRY(tape_backward_find_needed(pass));
    for (size_t i = 0; i < q->root_count; i++)
        if (tape_backward_reaches(pass, q->roots[i]))
            XCVM_TRY(tape_backward_accumulate(pass, q->roots[i], &q->seeds[i]->value, NULL));
    for (pass->cursor.next = t->ops.last; pass->cursor.next != NULL && pass->pending > 0;) {
        tape_op_record *r = pass->cursor.next;
        pass->cursor.next = r->previous;
        if (tape_backward_visits(pass, r))
            XCVM_TRY(visit_record(pass, r));
    }
    if (q->kind == TAPE_BACKWARD)
        return add_to_gradients(pass);
    XCVM_TRY(tape_products_flush(pass));
    return return_gradients(pass);
}

/* Unmarks the ops that a failed pass has not visited, and removes those that nobody needs. */
static void abandon_pass(tape_backward_pass *pass)
{
    pass->cursor.next = pass->tape->ops.last;
    for (tape_op_record *r; (r = pass->cursor.next) != NULL && pass->pending > 0;) {
        pass->cursor.next = r->previous;
        if (!tape_backward_visits(pass, r))
            continue;
        if (r->batch != NULL)
            tape_batch_mark_members(r->batch);
        tape_backward_unmark(pass, r);
        if (tape_op_record_is_dead(r))
            tape_op_record_remove(r);
    }
}

xcvm_status tape_backward_run(xcvm_tape *t, const tape_backward_request *request)
{
    tape_backward_pass pass = {.tape = t,
                               .request = request,
                               .outer = t->pass,
                               .builder = {.graph = t->module.graph, .name = "", .origin = "Gradient"}};
    const xcvm_arena around = t->module.arena;
    if (t->pass == NULL) {
        /* Nodes built outside of rules use memory that is freed at the end of the pass. */
        t->module.arena = (xcvm_arena){.allocator = t->allocator};
    }
    t->pass = &pass;
    pass.cursor.outer = t->cursors;
    t->cursors = &pass.cursor;
    const xcvm_status status = tape_latch_failure(t, traverse(&pass));
    abandon_pass(&pass);
    tape_products_release(&pass);
    while (pass.tracked != NULL)
        tape_backward_untrack(&pass, pass.tracked);
    t->cursors = pass.cursor.outer;
    t->pass = pass.outer;
    if (t->pass == NULL) {
        xcvm_arena_release(&t->module.arena);
        t->module.arena = around;
    }
    return status;
}
