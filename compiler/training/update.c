/* The end of a training program: accumulation and clipping of gradients, and the instructions that update the
 * parameters. */
#include "compiler/training/losses.h"
#include "compiler/training/training.h"
#include "ops/table/table.h"

#include "compiler/ir/compose.h"
#include "proto/arguments.h"

#include <math.h>
#include <string.h>

/* Steps without overflow before the loss scale doubles, and its minimum. */
#define GOOD_STEPS 2000
#define LEAST_SCALE 0x1p-24

/* Lists of values of one instruction, by the operand's name. */
typedef struct list {
    const char *field;
    xcc_value **values;
} list;

enum { LISTS = 5 + XCC_OPTIMIZER_MOMENTS };

/* Operands that all instructions of the update share. */
typedef struct update {
    xcc_training *t;
    xcc_value **gradients, **accumulators;          /* lists over all trainable parameters; accumulators may be NULL:
                                                     * there are none */
    xcc_value **summands;                           /* accumulators that are not yet added to the gradients, or NULL */
    xcc_value *rate, *step, *scale, *apply, *valid; /* each may be NULL, except the rate and the step */
} update;

/* ---- Scalars ---- */

static xcc_value *scalar_state(xcc_module *m, const char *what, xcvm_dtype dtype, const void *initial)
{
    return xcc_training_state(m, NULL, what, dtype, 0, NULL, initial);
}

static xcc_value *number(update *u, xcvm_dtype dtype, double value) { return xcc_scalar(u->t->b.graph, dtype, value); }

static xcc_value *where(update *u, xcc_value *condition, xcc_value *yes, xcc_value *no)
{
    return xcc_build_call(&u->t->b, XCVM_OP_Where, 3, (xcc_value *[]){condition, yes, no});
}

/* Returns the product of two factors; NULL means 1. */
static xcc_value *times(update *u, xcc_value *a, xcc_value *b)
{
    return a == NULL ? b : b == NULL ? a : xcc_build_mul(&u->t->b, a, b);
}

static xcvm_status store(update *u, xcc_value *state, xcc_value *value)
{
    return state != NULL && value != NULL ? xcc_graph_store(u->t->b.graph, state, value) : u->t->m->error->status;
}

/* Returns whether this run updates the parameters; NULL: it does. */
static xcc_value *happens(update *u)
{
    if (u->apply == NULL || u->valid == NULL)
        return u->apply != NULL ? u->apply : u->valid;
    return xcc_build_binary(&u->t->b, XCVM_OP_And, u->apply, u->valid);
}

/* The number of this step, from 1. */
static xcvm_status count_steps(update *u)
{
    xcc_builder *b = &u->t->b;
    xcc_value *steps = scalar_state(u->t->m, "step", XCVM_I64, NULL);
    u->step = xcc_build_add(b, steps, number(u, XCVM_I64, 1));
    xcc_value *done = u->step, *yes = happens(u);
    if (yes != NULL)
        done = where(u, yes, u->step, steps);
    return store(u, steps, done);
}

/* Accumulated gradients are divided by their number. */
static xcvm_status count_batches(update *u)
{
    xcc_builder *b = &u->t->b;
    xcc_value *state = scalar_state(u->t->m, "micro_batches", XCVM_I64, NULL);
    xcc_value *count = xcc_build_add(b, state, number(u, XCVM_I64, 1));
    xcc_value *part = xcc_build_unary(b, XCVM_OP_Reciprocal, xcc_build_cast(b, count, XCVM_F32));
    if (part == NULL)
        return u->t->m->error->status;
    u->scale = times(u, u->scale, part);
    return store(u, state, where(u, u->apply, number(u, XCVM_I64, 0), count));
}

/* The 2-norm of all gradients, before scaling. */
static xcc_value *global_norm(update *u, bool each, size_t count, xcc_value **gradients, xcc_value **accumulators)
{
    const xcvm_GlobalNorm_args args = {
        .xs = {(const xcvm_value *const *)gradients, count},
        .summands = {(const xcvm_value *const *)accumulators, accumulators != NULL ? count : 0},
        .each = each};
    xcvm_GlobalNorm_args copy = args;
    return xcc_apply_at(&u->t->b, XCVM_OP_GlobalNorm, &copy, offsetof(xcvm_GlobalNorm_args, y));
}

/* Halves the loss scale when gradients overflow, and doubles it after many steps without overflow. */
static xcvm_status move_scale(update *u, xcc_value *norm)
{
    xcc_builder *b = &u->t->b;
    xcc_value *scale = u->t->loss_scale, *good = scalar_state(u->t->m, "good_steps", XCVM_I64, NULL);
    u->valid = xcc_build_binary(b, XCVM_OP_Less, norm, number(u, XCVM_F32, (double)INFINITY));
    xcc_value *count = xcc_build_add(b, good, number(u, XCVM_I64, 1));
    xcc_value *enough = xcc_build_binary(b, XCVM_OP_GreaterOrEqual, count, number(u, XCVM_I64, GOOD_STEPS));
    xcc_value *doubled = where(u, enough, xcc_build_add(b, scale, scale), scale);
    xcc_value *halved = xcc_build_binary(b, XCVM_OP_Max, xcc_build_mul(b, scale, number(u, XCVM_F32, 0.5)),
                                         number(u, XCVM_F32, LEAST_SCALE));
    xcc_value *zero = number(u, XCVM_I64, 0);
    xcc_value *next = where(u, u->valid, doubled, halved);
    xcc_value *next_good = where(u, u->valid, where(u, enough, zero, count), zero);
    if (u->apply != NULL) {
        next = where(u, u->apply, next, scale);
        next_good = where(u, u->apply, next_good, good);
    }
    XCVM_TRY(store(u, scale, next));
    return store(u, good, next_good);
}

/* Adds the output of the norm, the clipping factor, and whether gradients overflowed. */
static xcvm_status use_norm(update *u)
{
    xcc_training *t = u->t;
    xcc_builder *b = &t->b;
    const double limit = t->m->options->training.clip_norm;
    if (limit == 0.0 && t->loss_scale == NULL)
        return XCVM_OK;
    xcc_value *raw = global_norm(u, false, t->count, u->gradients, u->summands);
    xcc_value *norm = raw == NULL ? NULL : times(u, raw, u->scale);
    if (norm == NULL)
        return t->m->error->status;
    XCVM_TRY(xcc_training_output(t->m, norm, "gradient_norm"));
    if (t->loss_scale != NULL)
        XCVM_TRY(move_scale(u, raw));
    if (limit == 0.0)
        return XCVM_OK;
    xcc_value *factor =
        xcc_build_div(b, number(u, XCVM_F32, limit), xcc_build_add(b, norm, number(u, XCVM_F32, XCC_NORM_EPSILON)));
    factor = xcc_build_binary(b, XCVM_OP_Min, factor, number(u, XCVM_F32, 1));
    u->scale = times(u, u->scale, factor);
    return factor != NULL && u->scale != NULL ? XCVM_OK : t->m->error->status;
}

/* ---- One instruction ---- */

static xcc_value *kept_of(xcc_module *m, const xcc_value *p, const char *what, const void *initial)
{
    return xcc_training_state(m, p->name, what, xcc_training_type(p), p->type.rank, p->type.dims, initial);
}

/* Elements of the computation type with one value; NULL for 0, or on failure. */
static const void *filled(xcc_module *m, const xcc_value *p, double value)
{
    const size_t count = xcvm_element_count(&p->type);
    const bool wide = xcc_training_type(p) == XCVM_F64;
    void *data = value != 0.0 ? xcc_alloc(m, count * (wide ? sizeof(double) : sizeof(float))) : NULL;
    for (size_t i = 0; data != NULL && i < count; i++)
        if (wide)
            ((double *)data)[i] = value;
        else
            ((float *)data)[i] = (float)value;
    return data;
}

static xcvm_status add_state(xcc_module *m, const xcc_value *p, const char *what, double initial, xcc_value **state)
{
    const void *data = filled(m, p, initial);
    if (initial != 0.0 && data == NULL)
        return XCVM_OUT_OF_MEMORY;
    *state = kept_of(m, p, what, data);
    return *state != NULL ? XCVM_OK : m->error->status;
}

/* Creates the states of one parameter, at index i of the lists. */
static xcvm_status fill_lists(update *u, list lists[LISTS], size_t index, size_t i, bool half)
{
    xcc_module *m = u->t->m;
    const xcc_trainable *l = &u->t->parameters[index];
    const xcc_value *p = l->parameter;
    const void *initial = half || m->options->training.average != 0.0 ? xcc_training_initial(m, p) : NULL;
    lists[0].values[i] = l->gradient;
    lists[1].values[i] = l->parameter;
    if ((half || m->options->training.average != 0.0) && initial == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (half && (lists[2].values[i] = kept_of(m, p, "master", initial)) == NULL)
        return m->error->status;
    if (u->accumulators != NULL)
        lists[3].values[i] = u->accumulators[index];
    if (m->options->training.average != 0.0 && (lists[4].values[i] = kept_of(m, p, "average", initial)) == NULL)
        return m->error->status;
    for (size_t j = 0; j < XCC_OPTIMIZER_MOMENTS; j++) {
        const xcc_moment *moment = &u->t->spec.row->moments[j];
        if (xcc_optimizer_keeps(&u->t->spec, moment))
            XCVM_TRY(
                add_state(m, p, moment->field, xcc_optimizer_initial(&u->t->spec, moment), &lists[5 + j].values[i]));
    }
    return XCVM_OK;
}

/* Sets an attribute from a setting or option. */
static double attribute(const update *u, const char *name, double decay)
{
    if (strcmp(name, "weight_decay") == 0)
        return decay;
    if (strcmp(name, "clip") == 0)
        return u->t->m->options->training.clip_value;
    if (strcmp(name, "average_decay") == 0)
        return u->t->m->options->training.average;
    if (strcmp(name, "accumulated") == 0)
        return u->accumulators != NULL && u->summands == NULL;
    return xcc_optimizer_attribute(&u->t->spec, name);
}

static xcvm_status append(update *u, const list lists[LISTS], size_t count, const list scalars[], size_t scalar_count,
                          double decay)
{
    xcc_module *m = u->t->m;
    const xcvm_schema *schema = xcvm_schema_of(u->t->spec.row->opcode);
    char *args = xcc_alloc(m, schema->args_size);
    if (args == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t f = 0; f < schema->field_count; f++) {
        const xcvm_field *field = &schema->fields[f];
        void *at = args + field->offset;
        if (xcvm_field_is_list(field)) {
            for (size_t i = 0; i < LISTS; i++)
                if (lists[i].field != NULL && strcmp(lists[i].field, field->name) == 0)
                    *(xcvm_inputs *)at = (xcvm_inputs){(const xcvm_value *const *)lists[i].values, count};
        } else if (xcvm_field_is_input(field)) {
            for (size_t i = 0; i < scalar_count; i++)
                if (strcmp(scalars[i].field, field->name) == 0)
                    *(const xcvm_value **)at = XCC_IN(*scalars[i].values);
        } else if (field->kind == XCVM_FIELD_FLOAT) {
            *(double *)at = attribute(u, field->name, decay);
        } else {
            *(int64_t *)at = (int64_t)attribute(u, field->name, decay);
        }
    }
    return xcc_append(&u->t->b, schema->opcode, args) != NULL ? XCVM_OK : m->error->status;
}

static bool is_half(const xcc_value *p) { return p->type.dtype != XCVM_F32 && p->type.dtype != XCVM_F64; }

/* Adds the instruction for the trainable parameters of one group, of half precision or not, if there are any. */
static xcvm_status update_group(update *u, size_t group, bool half)
{
    xcc_training *t = u->t;
    xcc_module *m = t->m;
    size_t count = 0;
    list lists[LISTS] = {{"gradients", NULL},
                         {"parameters", NULL},
                         {half ? "masters" : NULL, NULL},
                         {u->accumulators != NULL ? "accumulators" : NULL, NULL},
                         {m->options->training.average != 0.0 ? "averages" : NULL, NULL}};
    for (size_t j = 0; j < XCC_OPTIMIZER_MOMENTS; j++)
        lists[5 + j].field =
            xcc_optimizer_keeps(&t->spec, &t->spec.row->moments[j]) ? t->spec.row->moments[j].field : NULL;
    for (size_t i = 0; i < LISTS; i++)
        if ((lists[i].values = xcc_alloc(m, t->count * sizeof(xcc_value *))) == NULL)
            return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < t->count; i++)
        if (t->parameters[i].group == group && is_half(t->parameters[i].parameter) == half)
            XCVM_TRY(fill_lists(u, lists, i, count++, half));
    if (count == 0)
        return XCVM_OK;
    const xcc_training_group *options =
        group < m->options->training.group_count ? &m->options->training.groups[group] : NULL;
    const bool own = options != NULL && options->own_decay;
    const double decay = own ? options->weight_decay : xcc_optimizer_value(&t->spec, "weight_decay");
    xcc_value *rate = u->rate, *norms[2] = {NULL, NULL};
    if (options != NULL && options->rate != 1.0)
        rate = xcc_build_mul(&t->b, rate, number(u, XCVM_F32, options->rate));
    if (t->spec.row->norms) {
        norms[0] = global_norm(u, true, count, lists[1].values, NULL);
        norms[1] = global_norm(u, true, count, lists[0].values, u->summands != NULL ? lists[3].values : NULL);
    }
    if (rate == NULL || (t->spec.row->norms && (norms[0] == NULL || norms[1] == NULL)))
        return m->error->status;
    const list scalars[] = {{"rate", &rate},
                            {"step", &u->step},
                            {"scale", &u->scale},
                            {"apply", &u->apply},
                            {"valid", &u->valid},
                            {"parameter_norms", &norms[0]},
                            {"gradient_norms", &norms[1]}};
    return append(u, lists, count, scalars, sizeof scalars / sizeof *scalars, decay);
}

/* ---- All ---- */

static xcvm_status begin(update *u)
{
    xcc_training *t = u->t;
    xcc_module *m = t->m;
    const size_t bytes = t->count * sizeof(xcc_value *);
    if ((u->gradients = xcc_alloc(m, bytes)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    if (m->options->training.accumulate && (u->accumulators = xcc_alloc(m, bytes)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < t->count; i++) {
        u->gradients[i] = t->parameters[i].gradient;
        if (m->options->training.accumulate)
            u->accumulators[i] = t->parameters[i].accumulator;
    }
    /* The sums over processes already include accumulated gradients. */
    u->summands = m->options->training.all_reduce ? NULL : u->accumulators;
    return XCVM_OK;
}

xcvm_status xcc_training_inputs(xcc_training *t)
{
    if ((t->rate = xcc_input_add(t->b.graph, "learning_rate", XCVM_F32, 0, NULL)) == NULL)
        return t->m->error->status;
    if (!t->m->options->training.accumulate)
        return XCVM_OK;
    for (size_t i = 0; i < t->count; i++)
        XCVM_TRY(add_state(t->m, t->parameters[i].parameter, "accumulator", 0.0, &t->parameters[i].accumulator));
    t->apply = xcc_input_add(t->b.graph, "apply", XCVM_BOOL, 0, NULL);
    return t->apply != NULL ? XCVM_OK : t->m->error->status;
}

xcvm_status xcc_training_update(xcc_training *t)
{
    if (t->rate == NULL)
        XCVM_TRY(xcc_training_inputs(t));
    update u = {.t = t, .rate = t->rate, .apply = t->apply};
    XCVM_TRY(begin(&u));
    if (t->loss_scale != NULL && (u.scale = xcc_build_unary(&t->b, XCVM_OP_Reciprocal, t->loss_scale)) == NULL)
        return t->m->error->status;
    if (u.accumulators != NULL)
        XCVM_TRY(count_batches(&u));
    XCVM_TRY(use_norm(&u));
    XCVM_TRY(count_steps(&u));
    for (size_t group = 0; group <= t->m->options->training.group_count; group++)
        for (int half = 0; half < 2; half++)
            XCVM_TRY(update_group(&u, group, half == 1));
    return XCVM_OK;
}
