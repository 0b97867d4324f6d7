/* One step of an optimizer. All that can fail is done before anything is changed: gradients are found, hooks called,
 * and of tables the rows are taken out that have a gradient. Then one instruction updates all learners, or one for
 * those of each number of steps, since some may have had no gradient in a step before, and of these one more for those
 * whose gradients are given as two factors. */
#include "tape/optimizers/optimizer.h"
#include "ops/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gradients ---- */

static void hold(tape_variable **to, tape_variable *v)
{
    v->refs++;
    if (*to != NULL)
        tape_variable_release(*to);
    *to = v;
}

static void move_rows(const xcvm_value *whole, const xcvm_value *part, const xcvm_value *rows, bool out)
{
    const size_t count = xcvm_element_count(rows), bytes = count > 0 ? part->bytes / count : 0;
    for (size_t i = 0; i < count; i++) {
        char *in_whole = (char *)whole->data + (size_t)XCVM_CDATA(int64_t, rows)[i] * bytes;
        char *in_part = (char *)part->data + i * bytes;
        memcpy(out ? in_part : in_whole, out ? in_whole : in_part, bytes);
    }
}

/* The rows of a table that have a gradient, of which there is at least one. */
static xcvm_status take_rows(xcvm_tape *t, tape_learner *l)
{
    tape_variable *rows = NULL, *gradient = NULL;
    const xcvm_value *table = &l->parameter->value.type;
    XCVM_TRY(tape_rows_sum(t, l->parameter, &rows, &gradient));
    hold(&l->rows, rows);
    hold(&l->gradient, gradient);
    const xcvm_value *type = &gradient->value.type;
    tape_variable *part = tape_tensor(t, (xcvm_dtype)table->dtype, type->rank, type->dims, NULL);
    if (part == NULL)
        return t->error.status;
    hold(&l->part, part);
    move_rows(table, &part->value.type, &rows->value.type, true);
    return XCVM_OK;
}

static bool has_rows(const tape_variable *p)
{
    for (const tape_rows *r = p->rows; r != NULL; r = r->next)
        if (r->count > 0)
            return true;
    return false;
}

/* Whether nothing but the step itself reads a gradient. */
static bool takes_factors(const xcvm_optimizer *o)
{
    return o->hook_count == 0 && o->options.clip_norm == 0.0 && !o->spec.row->norms;
}

static xcvm_status find_gradient(const xcvm_optimizer *o, tape_learner *l)
{
    xcvm_tape *t = o->tape;
    tape_variable *p = l->parameter;
    if (!l->updated || !p->requires)
        return XCVM_OK;
    const bool rows = has_rows(p);
    if (p->gradient == NULL && !rows)
        return XCVM_OK;
    XCVM_TRY(tape_own_elements(t, p));
    if (rows && p->gradient == NULL)
        return take_rows(t, l);
    if (p->left != NULL && !rows && takes_factors(o)) {
        hold(&l->left, p->left);
        hold(&l->gradient, p->gradient);
        return XCVM_OK;
    }
    tape_variable *gradient = rows ? tape_rows_dense(t, p) : tape_variable_gradient(p);
    if (gradient == NULL)
        return t->error.status;
    if (!xcvm_same_shape(&gradient->value.type, &p->value.type) || gradient->value.type.dtype != p->value.type.dtype) {
        char a[192], b[192];
        return tape_fail(t, XCVM_INTERNAL, "the gradient of \"%.80s\", %s, is %s", l->name,
                         xcvm_value_describe(&p->value.type, a, sizeof a),
                         xcvm_value_describe(&gradient->value.type, b, sizeof b));
    }
    hold(&l->gradient, gradient);
    return XCVM_OK;
}

/* A constant for a hook to see, named in the scope of the step. */
static xcvm_var show(xcvm_tape *t, tape_variable *v)
{
    const tape_variable *shown = tape_variable_share(t, v);
    return shown != NULL ? tape_handle(shown) : TAPE_FAILED;
}

static xcvm_status call_hooks(const xcvm_optimizer *o, tape_learner *l)
{
    xcvm_tape *t = o->tape;
    for (size_t i = 0; i < o->hook_count; i++) {
        char a[192], b[192];
        const xcvm_update update = {.name = l->name,
                                    .parameter = show(t, l->part != NULL ? l->part : l->parameter),
                                    .gradient = show(t, l->gradient),
                                    .step = (uint64_t)l->steps + 1};
        const xcvm_var given = t->failed ? TAPE_FAILED : o->hooks[i].call(o->hooks[i].user, t, &update);
        tape_variable *other = t->failed ? NULL : tape_operand(t, given, "the gradient that an update hook returned");
        if (t->failed)
            return t->error.status;
        if (other == NULL)
            continue;
        const xcvm_value *was = &l->gradient->value.type, *is = &other->value.type;
        if (is->kind != XCVM_KIND_TENSOR || is->dtype != was->dtype || !xcvm_same_shape(is, was))
            return tape_fail(t, XCVM_SHAPE_MISMATCH, "an update hook returned %s for the gradient of \"%.80s\", %s",
                             xcvm_value_describe(is, a, sizeof a), l->name, xcvm_value_describe(was, b, sizeof b));
        XCVM_TRY(tape_evaluate(other));
        hold(&l->gradient, other);
    }
    return XCVM_OK;
}

/* ---- What is kept ---- */

static xcvm_status take_kept(xcvm_tape *t, tape_learner *l)
{
    xcvm_value *master = &l->kept[KEPT_MASTER];
    if (master->kind != XCVM_KIND_NULL && l->version != l->parameter->value.type.storage->version)
        tape_learner_copy(l, master); /* the host has set the parameter */
    for (size_t i = 0; l->rows != NULL && i < KEPT_COUNT; i++) {
        const xcvm_value *kept = &l->kept[i], *type = &l->gradient->value.type;
        if (kept->kind == XCVM_KIND_NULL)
            continue;
        XCVM_TRY(tape_value_make(t, (xcvm_dtype)kept->dtype, type->rank, type->dims, &l->parts[i]));
        move_rows(kept, &l->parts[i], &l->rows->value.type, true);
    }
    return XCVM_OK;
}

/* Learners of one instruction stand together, in the order in which they were added. */
static bool comes_before(const tape_learner *a, const tape_learner *b)
{
    if (tape_learner_is_half(a) != tape_learner_is_half(b))
        return tape_learner_is_half(b);
    if ((a->left != NULL) != (b->left != NULL))
        return b->left != NULL;
    return a->steps < b->steps;
}

/* Sorts by insertion: they stand in order but for those that had no gradient in some step. */
static size_t put_in_order(xcvm_optimizer *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        tape_learner *l = o->learners[i];
        if (l->gradient == NULL)
            continue;
        size_t at = count++;
        for (; at > 0 && comes_before(l, o->order[at - 1]); at--)
            o->order[at] = o->order[at - 1];
        o->order[at] = l;
    }
    return count;
}

/* NULL: the optimizer has no parameters. */
static const xcvm_value **list_of(const xcvm_optimizer *o, size_t list)
{
    return o->items != NULL ? o->items + list * o->room : NULL;
}

static void fill_lists(const xcvm_optimizer *o, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const tape_learner *l = o->order[i];
        list_of(o, LIST_GRADIENTS)[i] = &l->gradient->value.type;
        list_of(o, LIST_FACTORS)[2 * i] = l->left != NULL ? &l->left->value.type : NULL;
        list_of(o, LIST_FACTORS)[2 * i + 1] = &l->gradient->value.type;
        list_of(o, LIST_PARAMETERS)[i] = &(l->part != NULL ? l->part : l->parameter)->value.type;
        for (size_t k = 0; k < KEPT_COUNT; k++)
            list_of(o, LIST_KEPT + k)[i] = l->rows != NULL ? &l->parts[k] : &l->kept[k];
    }
}

static xcvm_status find_norms(const xcvm_optimizer *o, size_t list, size_t count, bool each, float *norms)
{
    const int64_t dims[] = {(int64_t)count};
    xcvm_value y = {0};
    xcvm_value_set_tensor(&y, XCVM_F32, each, dims);
    y.data = norms;
    const xcvm_GlobalNorm_args args = {.y = &y, .xs = {list_of(o, list), count}, .each = each};
    return xcvm_kernel_of(XCVM_OP_GlobalNorm)(&o->tape->kernel, &args);
}

/* What gradients are multiplied by. */
static xcvm_status find_scale(xcvm_optimizer *o, size_t count, double *scale)
{
    *scale = o->scale;
    if (o->spec.row->norms) {
        XCVM_TRY(find_norms(o, LIST_PARAMETERS, count, true, o->norms));
        XCVM_TRY(find_norms(o, LIST_GRADIENTS, count, true, o->norms + o->room));
    }
    if (o->options.clip_norm == 0.0)
        return XCVM_OK;
    float raw;
    XCVM_TRY(find_norms(o, LIST_GRADIENTS, count, false, &raw));
    o->norm = (double)raw * fabs(o->scale);
    const double factor = o->options.clip_norm / (o->norm + XCC_NORM_EPSILON);
    *scale *= factor < 1 ? factor : factor >= 1 ? 1 : factor;
    return XCVM_OK;
}

/* ---- The step ---- */

static void set_operand(const xcvm_optimizer *o, ptrdiff_t at, const xcvm_value *value)
{
    if (at >= 0)
        *(const xcvm_value **)(void *)((char *)o->args + at) = value;
}

static xcvm_value scalar(xcvm_dtype dtype, void *number)
{
    xcvm_value value = {0};
    xcvm_value_set_tensor(&value, dtype, 0, NULL);
    value.data = number;
    return value;
}

static xcvm_value norms_of(float *norms, size_t count)
{
    const int64_t dims[] = {(int64_t)count};
    xcvm_value value = {0};
    xcvm_value_set_tensor(&value, XCVM_F32, 1, dims);
    value.data = norms;
    return value;
}

/* Learners begin ... end of the order, which have had as many steps. Cannot fail: all that the shape rule asks for was
 * seen to when the learners were added and their gradients found. */
static xcvm_status update(const xcvm_optimizer *o, size_t begin, size_t end, double scale_number)
{
    double rate_number = o->rate;
    int64_t step_number = o->order[begin]->steps + 1;
    const size_t count = end - begin;
    const xcvm_value rate = scalar(XCVM_F64, &rate_number), step = scalar(XCVM_I64, &step_number),
                     scale = scalar(XCVM_F64, &scale_number), parameter_norms = norms_of(o->norms + begin, count),
                     gradient_norms = norms_of(o->norms + o->room + begin, count);
    set_operand(o, o->rate_at, &rate);
    set_operand(o, o->step_at, &step);
    set_operand(o, o->scale_at, &scale);
    set_operand(o, o->parameter_norms_at, &parameter_norms);
    set_operand(o, o->gradient_norms_at, &gradient_norms);
    for (size_t i = 0; i < LIST_COUNT; i++)
        if (o->lists[i] >= 0) {
            const bool kept = i < LIST_KEPT || o->order[begin]->kept[i - LIST_KEPT].kind != XCVM_KIND_NULL;
            *(xcvm_inputs *)(void *)((char *)o->args + o->lists[i]) =
                (xcvm_inputs){list_of(o, i) + begin, kept ? count : 0};
        }
    if (o->order[begin]->left != NULL) /* factors: ops/optimizer/factors.h */
        *(xcvm_inputs *)(void *)((char *)o->args + o->lists[LIST_GRADIENTS]) =
            (xcvm_inputs){list_of(o, LIST_FACTORS) + 2 * begin, 2 * count};
    return xcvm_kernel_of(o->spec.row->opcode)(&o->tape->kernel, o->args);
}

static void conclude(const xcvm_optimizer *o, size_t count)
{
    const uint64_t call = o->tape->calls++;
    for (size_t i = 0; i < count; i++) {
        tape_learner *l = o->order[i];
        const xcvm_value *p = &l->parameter->value.type;
        if (l->rows != NULL) {
            move_rows(p, &l->part->value.type, &l->rows->value.type, false);
            for (size_t k = 0; k < KEPT_COUNT; k++)
                if (l->kept[k].kind != XCVM_KIND_NULL)
                    move_rows(&l->kept[k], &l->parts[k], &l->rows->value.type, false);
        }
        l->steps++;
        tape_note_overwritten(p, call);
        l->version = p->storage->version;
    }
}

static xcvm_status step(xcvm_optimizer *o)
{
    double scale;
    /* Calls that wait read what is overwritten. */
    XCVM_TRY(tape_evaluate_all(o->tape));
    for (size_t i = 0; i < o->count; i++)
        XCVM_TRY(find_gradient(o, o->learners[i]));
    for (size_t i = 0; i < o->count; i++)
        if (o->learners[i]->gradient != NULL) {
            XCVM_TRY(call_hooks(o, o->learners[i]));
            XCVM_TRY(take_kept(o->tape, o->learners[i]));
        }
    const size_t count = put_in_order(o);
    fill_lists(o, count);
    XCVM_TRY(find_scale(o, count, &scale));
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        while (end < count && !comes_before(o->order[begin], o->order[end]))
            end++;
        XCVM_TRY(update(o, begin, end, scale));
    }
    conclude(o, count);
    return XCVM_OK;
}

static void forget(tape_learner *l)
{
    tape_variable **held[] = {&l->gradient, &l->left, &l->rows, &l->part};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        if (*held[i] != NULL)
            tape_variable_release(*held[i]);
        *held[i] = NULL;
    }
    for (size_t i = 0; i < KEPT_COUNT; i++)
        xcvm_value_clear(&l->parts[i]);
}

/* In a scope of its own, not recorded. A hook may destroy the optimizer, which stays until the step has ended. */
static xcvm_status take_step(xcvm_optimizer *o)
{
    xcvm_tape *t = o->tape;
    const bool recording = xcvm_tape_set_recording(t, false);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    tape_tracer *tracer = t->tracer;
    t->tracer = NULL; /* which has the step as a whole */
    o->norm = (double)NAN;
    o->stepping = true;
    o->effect.refs++;
    tape_stick(t, step(o));
    o->stepping = false;
    for (size_t i = 0; i < o->count; i++)
        forget(o->learners[i]);
    tape_effect_release(&o->effect);
    t->tracer = tracer;
    xcvm_tape_scope_end(t, scope, 0, NULL);
    t->recording = recording;
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- Steps that are traced ---- */

/* What the step changes, and what it would change by other gradients, whose are NULL, listed in `changes` (NULL: it is
 * not); gives how much it is. */
static size_t list_changes(const xcvm_optimizer *o, tape_change *changes)
{
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        tape_variable *p = o->learners[i]->parameter;
        if (!p->requires)
            continue;
        if (changes != NULL)
            changes[count] = (tape_change){.variable = p, .gradient = tape_variable_gradient(p)};
        count++;
        for (const tape_rows *r = p->rows; r != NULL; r = r->next, count++)
            if (changes != NULL)
                changes[count] = (tape_change){.variable = p, .gradient = r->gradient, .rows = r->indices};
    }
    return count;
}

static xcvm_status tell(xcvm_optimizer *o)
{
    xcvm_tape *t = o->tape;
    const size_t count = list_changes(o, NULL), bytes = (count + 1) * sizeof(tape_change);
    tape_change *changes = tape_take(t, bytes);
    if (changes == NULL)
        return t->error.status;
    list_changes(o, changes);
    const xcvm_status status = t->tracer->functions->effect(t->tracer, &o->effect, count, changes);
    tape_give_back(t, changes, bytes);
    return status;
}

/* The changes are in the order of the learners, as they were listed. */
xcvm_status tape_optimizer_run(tape_effect *e, size_t count, const tape_change *changes)
{
    xcvm_optimizer *o = (xcvm_optimizer *)(void *)e;
    xcvm_tape *t = o->tape;
    if (o->stepping)
        return tape_fail(t, XCVM_INVALID_ARGUMENT, "a step goes on; an update hook cannot take another");
    if (tape_changes_give(t, count, changes) == XCVM_OK)
        take_step(o);
    for (size_t i = 0; i < count; i++)
        if (!changes[i].stays)
            tape_variable_clear_gradient(changes[i].variable);
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- The host's side ---- */

xcvm_status xcvm_optimizer_step(xcvm_optimizer *optimizer, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    xcvm_tape *t = optimizer->tape;
    TAPE_BEGIN(t, xcvm_optimizer_step, error);
    XCVM_CHECK(error, !optimizer->stepping, INVALID_ARGUMENT, "a step goes on; an update hook cannot take another");
    if (t->tracer == NULL || tell(optimizer) == XCVM_OK)
        take_step(optimizer);
    return tape_report(t, error);
}

/* ---- Hooks that are ready-made ---- */

static xcvm_var number_like(xcvm_tape *t, const xcvm_update *update, double number)
{
    const xcvm_value *type;
    return xcvm_var_get_value(t, update->gradient, &type, NULL) == XCVM_OK
               ? xcvm_tape_scalar(t, (xcvm_dtype)xcvm_value_dtype(type), number)
               : TAPE_FAILED;
}

xcvm_var xcvm_hook_weight_decay(void *number, xcvm_tape *tape, const xcvm_update *update)
{
    if (!TAPE_ENTER(tape, xcvm_hook_weight_decay))
        return TAPE_FAILED;
    const xcvm_var factor = number_like(tape, update, *(const double *)number);
    return xcvm_Add(tape, update->gradient, xcvm_Mul(tape, update->parameter, factor));
}

xcvm_var xcvm_hook_lasso(void *number, xcvm_tape *tape, const xcvm_update *update)
{
    if (!TAPE_ENTER(tape, xcvm_hook_lasso))
        return TAPE_FAILED;
    const xcvm_var factor = number_like(tape, update, *(const double *)number);
    return xcvm_Add(tape, update->gradient, xcvm_Mul(tape, xcvm_Sign(tape, update->parameter), factor));
}

xcvm_var xcvm_hook_clip(void *number, xcvm_tape *tape, const xcvm_update *update)
{
    if (!TAPE_ENTER(tape, xcvm_hook_clip))
        return TAPE_FAILED;
    const double limit = *(const double *)number;
    return xcvm_Clip(tape, update->gradient, number_like(tape, update, -limit), number_like(tape, update, limit));
}

xcvm_var xcvm_hook_clip_norm(void *number, xcvm_tape *tape, const xcvm_update *update)
{
    if (!TAPE_ENTER(tape, xcvm_hook_clip_norm))
        return TAPE_FAILED;
    const xcvm_var norm = xcvm_ReduceL2(tape, update->gradient, .keepdims = 0);
    const xcvm_var factor = xcvm_Div(tape, number_like(tape, update, *(const double *)number), norm);
    return xcvm_Mul(tape, update->gradient, xcvm_Min(tape, factor, number_like(tape, update, 1)));
}

xcvm_var xcvm_hook_noise(void *number, xcvm_tape *tape, const xcvm_update *update)
{
    if (!TAPE_ENTER(tape, xcvm_hook_noise))
        return TAPE_FAILED;
    const double variance = *(const double *)number / pow((double)update->step, 0.55);
    const xcvm_value *type;
    if (xcvm_var_get_value(tape, update->gradient, &type, NULL) != XCVM_OK)
        return TAPE_FAILED;
    const xcvm_int_list shape = {type->dims, (size_t)type->rank};
    const xcvm_var dims = xcvm_tape_constant(tape, XCVM_I64, 1, (const int64_t[]){type->rank}, shape.at);
    const xcvm_var noise = xcvm_RandomNormal(tape, dims, .dtype = (xcvm_dtype)type->dtype, .scale = sqrt(variance));
    return xcvm_Add(tape, update->gradient, noise);
}
