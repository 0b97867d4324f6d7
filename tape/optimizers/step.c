/* The step of an optimizer. Everything that can fail comes before the first change: gradients, hooks, and gathering
 * the rows of sparse gradients. One instruction updates all parameters of the same number of steps and the same kind
 * of gradient. */
#include "ops/table/table.h"
#include "tape/backward/backward.h"
#include "tape/optimizers/optimizers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gradients ---- */

static void hold_variable(tape_variable **to, tape_variable *v)
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

/* Gathers the rows of a table that have a gradient. */
static xcvm_status gather_sparse_rows(xcvm_tape *t, tape_trainable_parameter *l)
{
    tape_variable *rows = NULL, *gradient = NULL;
    const xcvm_value *table = &l->parameter->value.type;
    XCVM_TRY(tape_sparse_sum(t, l->parameter, &rows, &gradient));
    hold_variable(&l->rows, rows);
    hold_variable(&l->gradient, gradient);
    const xcvm_value *type = &gradient->value.type;
    tape_variable *part = tape_tensor(t, (xcvm_dtype)table->dtype, type->rank, type->dims, NULL);
    if (part == NULL)
        return t->error.status;
    hold_variable(&l->part, part);
    move_rows(table, &part->value.type, &rows->value.type, true);
    return XCVM_OK;
}

static bool has_rows(const tape_variable *p)
{
    for (const tape_sparse_rows *r = tape_side(p)->sparse_rows; r != NULL; r = r->next)
        if (r->count > 0)
            return true;
    return false;
}

/* True if only the instruction reads the gradient. */
static bool accepts_factors(const xcvm_optimizer *o)
{
    return o->hook_count == 0 && o->options.clip_norm == 0.0 && !o->spec.row->norms;
}

static xcvm_status find_gradient(const xcvm_optimizer *o, tape_trainable_parameter *l)
{
    xcvm_tape *t = o->tape;
    tape_variable *p = l->parameter;
    if (!l->updated || !p->requires)
        return XCVM_OK;
    const bool rows = has_rows(p);
    if (tape_side(p)->gradient == NULL && !rows)
        return XCVM_OK;
    XCVM_TRY(tape_variable_own_elements(t, p));
    if (rows && tape_side(p)->gradient == NULL)
        return gather_sparse_rows(t, l);
    if (tape_side(p)->left_factor != NULL && !rows && accepts_factors(o)) {
        hold_variable(&l->left_factor, tape_side(p)->left_factor);
        hold_variable(&l->gradient, tape_side(p)->gradient);
        return XCVM_OK;
    }
    tape_variable *gradient = rows ? tape_sparse_to_dense(t, p) : tape_variable_gradient(p);
    if (gradient == NULL)
        return t->error.status;
    if (!xcvm_same_shape(&gradient->value.type, &p->value.type) || gradient->value.type.dtype != p->value.type.dtype) {
        char a[192], b[192];
        return tape_fail(t, XCVM_INTERNAL, "the gradient of \"%.80s\", %s, is %s", l->name,
                         xcvm_value_describe(&p->value.type, a, sizeof a),
                         xcvm_value_describe(&gradient->value.type, b, sizeof b));
    }
    hold_variable(&l->gradient, gradient);
    return XCVM_OK;
}

/* A constant that a hook can read, named in the scope of the step. */
static xcvm_var share_with_hook(xcvm_tape *t, tape_variable *v)
{
    const tape_variable *shown = tape_variable_share(t, v);
    return shown != NULL ? tape_handle(shown) : TAPE_FAILED;
}

static xcvm_status call_hooks(const xcvm_optimizer *o, tape_trainable_parameter *l)
{
    xcvm_tape *t = o->tape;
    for (size_t i = 0; i < o->hook_count; i++) {
        char a[192], b[192];
        const xcvm_update update = {.name = l->name,
                                    .parameter = share_with_hook(t, l->part != NULL ? l->part : l->parameter),
                                    .gradient = share_with_hook(t, l->gradient),
                                    .step = (uint64_t)l->steps + 1};
        const xcvm_var given = t->failed ? TAPE_FAILED : o->hooks[i].call(o->hooks[i].user, t, &update);
        tape_variable *other =
            t->failed ? NULL : tape_resolve_optional(t, given, "the gradient that an update hook returned");
        if (t->failed)
            return t->error.status;
        if (other == NULL)
            continue;
        const xcvm_value *was = &l->gradient->value.type, *is = &other->value.type;
        if (is->kind != XCVM_KIND_TENSOR || is->dtype != was->dtype || !xcvm_same_shape(is, was))
            return tape_fail(t, XCVM_SHAPE_MISMATCH, "an update hook returned %s for the gradient of \"%.80s\", %s",
                             xcvm_value_describe(is, a, sizeof a), l->name, xcvm_value_describe(was, b, sizeof b));
        XCVM_TRY(tape_evaluate(other));
        hold_variable(&l->gradient, other);
    }
    return XCVM_OK;
}

/* ---- States ---- */

static xcvm_status prepare_states(xcvm_tape *t, tape_trainable_parameter *l)
{
    xcvm_value *master = &l->states[STATE_MASTER];
    if (master->kind != XCVM_KIND_NULL && l->version != l->parameter->value.type.storage->version)
        tape_parameter_copy(l, master); /* the host has set the parameter */
    for (size_t i = 0; l->rows != NULL && i < STATE_COUNT; i++) {
        const xcvm_value *state = &l->states[i], *type = &l->gradient->value.type;
        if (state->kind == XCVM_KIND_NULL)
            continue;
        XCVM_TRY(tape_value_create(t, (xcvm_dtype)state->dtype, type->rank, type->dims, &l->parts[i]));
        move_rows(state, &l->parts[i], &l->rows->value.type, true);
    }
    return XCVM_OK;
}

/* Parameters that one instruction can update are consecutive, in order of addition. */
static bool comes_before(const tape_trainable_parameter *a, const tape_trainable_parameter *b)
{
    if (tape_parameter_is_half(a) != tape_parameter_is_half(b))
        return tape_parameter_is_half(b);
    if ((a->left_factor != NULL) != (b->left_factor != NULL))
        return b->left_factor != NULL;
    return a->steps < b->steps;
}

/* Insertion sort: parameters are in order, except those that lacked a gradient in some step. */
static size_t order_parameters(xcvm_optimizer *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        tape_trainable_parameter *l = o->parameters[i];
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
        const tape_trainable_parameter *l = o->order[i];
        list_of(o, LIST_GRADIENTS)[i] = &l->gradient->value.type;
        list_of(o, LIST_FACTORS)[2 * i] = l->left_factor != NULL ? &l->left_factor->value.type : NULL;
        list_of(o, LIST_FACTORS)[2 * i + 1] = &l->gradient->value.type;
        list_of(o, LIST_PARAMETERS)[i] = &(l->part != NULL ? l->part : l->parameter)->value.type;
        for (size_t k = 0; k < STATE_COUNT; k++)
            list_of(o, LIST_STATES + k)[i] = l->rows != NULL ? &l->parts[k] : &l->states[k];
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

/* The factor of all gradients. */
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

/* ---- Step ---- */

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

/* Updates parameters begin ... end, which have the same number of steps. It cannot fail: the shape rule's conditions
 * were checked when parameters were added and gradients found. */
static xcvm_status run_instruction(const xcvm_optimizer *o, size_t begin, size_t end, double scale_number)
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
            const bool state = i < LIST_STATES || o->order[begin]->states[i - LIST_STATES].kind != XCVM_KIND_NULL;
            *(xcvm_inputs *)(void *)((char *)o->args + o->lists[i]) =
                (xcvm_inputs){list_of(o, i) + begin, state ? count : 0};
        }
    if (o->order[begin]->left_factor != NULL) /* factors: ops/optimizer/factors.h */
        *(xcvm_inputs *)(void *)((char *)o->args + o->lists[LIST_GRADIENTS]) =
            (xcvm_inputs){list_of(o, LIST_FACTORS) + 2 * begin, 2 * count};
    return xcvm_kernel_of(o->spec.row->opcode)(&o->tape->kernel, o->args);
}

static void finish_step(const xcvm_optimizer *o, size_t count)
{
    const uint64_t call = o->tape->calls++;
    for (size_t i = 0; i < count; i++) {
        tape_trainable_parameter *l = o->order[i];
        const xcvm_value *p = &l->parameter->value.type;
        if (l->rows != NULL) {
            move_rows(p, &l->part->value.type, &l->rows->value.type, false);
            for (size_t k = 0; k < STATE_COUNT; k++)
                if (l->states[k].kind != XCVM_KIND_NULL)
                    move_rows(&l->states[k], &l->parts[k], &l->rows->value.type, false);
        }
        l->steps++;
        tape_mark_overwritten(p, call);
        l->version = p->storage->version;
    }
}

/* Computes again what a hook may have dropped with xcvm_tape_invalidate, also of parameters whose hooks ran before. */
static xcvm_status restore_elements(const tape_trainable_parameter *l)
{
    tape_variable *const held[] = {l->gradient, l->left_factor, l->part};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        if (held[i] != NULL)
            XCVM_TRY(tape_evaluate(held[i]));
    return XCVM_OK;
}

static xcvm_status run_step(xcvm_optimizer *o)
{
    double scale;
    /* Waiting ops read what is overwritten. */
    XCVM_TRY(tape_evaluate_all(o->tape));
    for (size_t i = 0; i < o->count; i++)
        XCVM_TRY(find_gradient(o, o->parameters[i]));
    for (size_t i = 0; i < o->count; i++)
        if (o->parameters[i]->gradient != NULL)
            XCVM_TRY(call_hooks(o, o->parameters[i]));
    for (size_t i = 0; i < o->count; i++)
        if (o->parameters[i]->gradient != NULL) {
            XCVM_TRY(restore_elements(o->parameters[i]));
            XCVM_TRY(prepare_states(o->tape, o->parameters[i]));
        }
    const size_t count = order_parameters(o);
    fill_lists(o, count);
    XCVM_TRY(find_scale(o, count, &scale));
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        while (end < count && !comes_before(o->order[begin], o->order[end]))
            end++;
        XCVM_TRY(run_instruction(o, begin, end, scale));
    }
    finish_step(o, count);
    return XCVM_OK;
}

static void release_step(tape_trainable_parameter *l)
{
    tape_variable **held[] = {&l->gradient, &l->left_factor, &l->rows, &l->part};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        if (*held[i] != NULL)
            tape_variable_release(*held[i]);
        *held[i] = NULL;
    }
    for (size_t i = 0; i < STATE_COUNT; i++)
        xcvm_value_clear(&l->parts[i]);
}

/* The step has a scope, and is not recorded. A hook may destroy the optimizer, which stays until the step ends. */
static xcvm_status run_step_scoped(xcvm_optimizer *o)
{
    xcvm_tape *t = o->tape;
    const bool recording = xcvm_tape_set_recording(t, false);
    const xcvm_scope scope = xcvm_tape_scope_begin(t);
    tape_tracer *tracer = t->tracer;
    t->tracer = NULL; /* the tracer sees the step as one effect */
    o->norm = (double)NAN;
    o->stepping = true;
    o->effect.refs++;
    tape_latch_failure(t, run_step(o));
    o->stepping = false;
    for (size_t i = 0; i < o->count; i++)
        release_step(o->parameters[i]);
    tape_effect_release(&o->effect);
    t->tracer = tracer;
    xcvm_tape_scope_end(t, scope, 0, NULL);
    t->recording = recording;
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- Traced steps ---- */

/* Lists the changes of a step (NULL: does not), also those of parameters without a gradient, and returns their
 * number. */
static size_t list_changes(const xcvm_optimizer *o, tape_change *changes)
{
    size_t count = 0;
    for (size_t i = 0; i < o->count; i++) {
        tape_variable *p = o->parameters[i]->parameter;
        if (!p->requires)
            continue;
        if (changes != NULL)
            changes[count] = (tape_change){.variable = p, .gradient = tape_variable_gradient(p)};
        count++;
        for (const tape_sparse_rows *r = tape_side(p)->sparse_rows; r != NULL; r = r->next, count++)
            if (changes != NULL)
                changes[count] = (tape_change){.variable = p, .gradient = r->gradient, .rows = r->indices};
    }
    return count;
}

static xcvm_status notify_tracer(xcvm_optimizer *o)
{
    xcvm_tape *t = o->tape;
    const size_t count = list_changes(o, NULL), bytes = (count + 1) * sizeof(tape_change);
    tape_change *changes = tape_allocate(t, bytes);
    if (changes == NULL)
        return t->error.status;
    list_changes(o, changes);
    const xcvm_status status = t->tracer->functions->effect(t->tracer, &o->effect, count, changes);
    tape_free(t, changes, bytes);
    return status;
}

/* The changes are in the order in which list_changes listed them. */
xcvm_status tape_optimizer_run(tape_effect *e, size_t count, const tape_change *changes)
{
    xcvm_optimizer *o = (xcvm_optimizer *)(void *)e;
    xcvm_tape *t = o->tape;
    if (o->stepping)
        return tape_fail(t, XCVM_INVALID_ARGUMENT, "a step is running; an update hook cannot take another");
    if (tape_changes_apply(t, count, changes) == XCVM_OK)
        run_step_scoped(o);
    for (size_t i = 0; i < count; i++)
        if (!changes[i].remains)
            tape_variable_clear_gradient(changes[i].variable);
    return t->failed ? t->error.status : XCVM_OK;
}

/* ---- Public functions ---- */

xcvm_status xcvm_optimizer_step(xcvm_optimizer *optimizer, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    xcvm_tape *t = optimizer->tape;
    TAPE_BEGIN(t, xcvm_optimizer_step, error);
    XCVM_CHECK(error, !optimizer->stepping, INVALID_ARGUMENT, "a step is running; an update hook cannot take another");
    if (t->tracer == NULL || notify_tracer(optimizer) == XCVM_OK)
        run_step_scoped(optimizer);
    return tape_report(t, error);
}

/* ---- Predefined hooks ---- */

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
