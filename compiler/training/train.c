/* The pass that makes a training program of a model, or its evaluation program. */
#include "base/pattern.h"
#include "compiler/gradients/gradients.h"
#include "compiler/ir/compilation.h"
#include "compiler/ir/compose.h"
#include "compiler/training/training.h"
#include "ops/util/convert.h"

#include <stdio.h>
#include <string.h>

/* ---- Names ---- */

xcc_value *xcc_training_state(xcc_module *m, const char *name, const char *what, xcvm_dtype dtype, int rank,
                              const int64_t *dims, const void *initial)
{
    const size_t room = sizeof XCC_OPTIMIZER_PREFIX + (name != NULL ? strlen(name) : 0) + strlen(what) + 1;
    char *full = xcc_alloc(m, room);
    if (full == NULL)
        return NULL;
    snprintf(full, room, "%s%s%s%s", XCC_OPTIMIZER_PREFIX, name != NULL ? name : "", name != NULL ? "." : "", what);
    xcc_value *state = xcc_state(m->graph, full, dtype, rank, dims, initial, initial != NULL);
    if (state == NULL || strcmp(state->name, full) == 0)
        return state;
    xcvm_error_set(m->error, XCVM_INVALID_MODEL, "the model has a value '%.200s', a name of the optimizer's", full);
    return NULL;
}

const void *xcc_training_initial(xcc_module *m, const xcc_value *parameter)
{
    const xcvm_dtype dtype = (xcvm_dtype)parameter->type.dtype;
    if (dtype == XCVM_F32 || dtype == XCVM_F64)
        return parameter->initial;
    const size_t count = xcvm_element_count(&parameter->type);
    float *data = xcc_alloc(m, count * sizeof *data);
    if (data != NULL)
        xcvm_load_f32(dtype, parameter->initial, 0, count, data);
    return data;
}

xcvm_status xcc_training_output(xcc_module *m, xcc_value *value, const char *name)
{
    xcc_graph *g = m->graph;
    for (size_t i = 0; i < g->output_count; i++)
        XCVM_CHECK(m->error, strcmp(g->output_names[i], name) != 0 || xcc_graph_output_state(g, i) != NULL,
                   INVALID_MODEL, "the model has an output '%.200s', which training adds", name);
    return xcc_graph_add_outputs(g, 1, &value, &name, NULL);
}

/* ---- What learns ---- */

/* Returns the first group whose pattern matches the name; the number of groups if none does. */
static size_t find_group(const xcc_options *o, const char *name)
{
    size_t i = 0;
    while (i < o->training.group_count && !xcvm_pattern_fits(o->training.groups[i].pattern, name))
        i++;
    return i;
}

static bool is_wanted(const xcc_options *o, const char *name)
{
    bool wanted = o->gradients.wrt_count == 0;
    for (size_t i = 0; i < o->gradients.wrt_count && !wanted; i++)
        wanted = xcvm_pattern_fits(o->gradients.wrt[i], name);
    return wanted;
}

static bool is_trainable(const xcc_module *m, const xcc_value *v)
{
    return v->kind == XCC_PARAMETER && v->graph == m->graph && !xcc_is_statistic(v);
}

/* A pattern without matches is an error. */
static xcvm_status check_pattern(const xcc_module *m, const char *pattern)
{
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        if (is_trainable(m, v) && xcvm_pattern_fits(pattern, v->name))
            return XCVM_OK;
    return xcvm_error_set(
        m->error, XCVM_INVALID_ARGUMENT,
        "no parameter is called '%.200s': it is not in the model, is no float, is a running statistic, "
        "or decides a shape",
        pattern);
}

static xcvm_status list_trainable(xcc_training *t)
{
    xcc_module *m = t->m;
    const xcc_options *o = m->options;
    size_t capacity = 0;
    for (size_t i = 0; i < o->gradients.wrt_count; i++)
        XCVM_TRY(check_pattern(m, o->gradients.wrt[i]));
    for (size_t i = 0; i < o->training.group_count; i++)
        XCVM_TRY(check_pattern(m, o->training.groups[i].pattern));
    for (const xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        capacity++;
    if ((t->parameters = xcc_alloc(m, capacity * sizeof *t->parameters)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned) {
        XCVM_TRY(xcc_poll(m));
        const size_t group = find_group(o, v->name);
        if (is_trainable(m, v) && is_wanted(o, v->name) &&
            (group == o->training.group_count || o->training.groups[group].rate != 0.0))
            t->parameters[t->count++] = (xcc_trainable){.parameter = v, .group = group};
    }
    XCVM_CHECK(
        m->error, t->count > 0, INVALID_ARGUMENT,
        "nothing learns: the model has no parameters, which are initializers of a float type, or none is chosen");
    return XCVM_OK;
}

/* Computes the gradients of the loss, or of the scaled loss, by the trainable parameters. Parameters that the loss does
 * not depend on are not trained. */
static xcvm_status differentiate(xcc_training *t)
{
    xcc_module *m = t->m;
    xcc_builder *b = &t->b;
    xcc_value **both = xcc_alloc(m, 2 * t->count * sizeof *both);
    if (both == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcc_value **gradients = both + t->count, *one = xcc_build_number(b, t->loss, 1);
    for (size_t i = 0; i < t->count; i++)
        both[i] = t->parameters[i].parameter;
    if (t->loss_scale != NULL)
        one = xcc_build_cast(b, t->loss_scale, (xcvm_dtype)t->loss->type.dtype);
    if (t->share != NULL)
        one = xcc_build_mul(b, one, xcc_build_cast(b, t->share, (xcvm_dtype)t->loss->type.dtype));
    m->compilation->forward_outputs = m->graph->output_count;
    const xcc_seed seed = {t->loss, xcc_build_expand(b, one, xcc_build_shape_of(b, t->loss))};
    if (seed.gradient == NULL)
        return m->error->status;
    XCVM_TRY(xcc_differentiate(b, m->graph, NULL, &seed, 1, both, t->count, m->options->gradients.straight_through,
                               gradients));
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++)
        if (gradients[i] != NULL) {
            t->parameters[kept] = t->parameters[i];
            t->parameters[kept++].gradient = gradients[i];
        }
    t->count = kept;
    XCVM_CHECK(m->error, kept > 0, INVALID_ARGUMENT, "the loss depends on no parameter that learns");
    return XCVM_OK;
}

/* ---- The pass ---- */

static xcvm_status train(xcc_training *t)
{
    xcc_module *m = t->m;
    const double scale = m->options->training.loss_scale;
    const float initial = (float)scale;
    if (scale != 0.0) {
        float *begin = xcc_alloc(m, sizeof *begin);
        if (begin == NULL)
            return XCVM_OUT_OF_MEMORY;
        *begin = initial;
        if ((t->loss_scale = xcc_training_state(m, NULL, "loss_scale", XCVM_F32, 0, NULL, begin)) == NULL)
            return m->error->status;
    }
    if (m->options->training.all_reduce) {
        XCVM_TRY(xcc_processes_normalize(m));
        XCVM_TRY(xcc_processes_order(t));
        XCVM_TRY(xcc_processes_share(t));
    }
    XCVM_TRY(differentiate(t));
    XCVM_TRY(xcc_training_inputs(t));
    if (m->options->training.all_reduce)
        XCVM_TRY(xcc_processes_gradients(t));
    XCVM_TRY(xcc_training_update(t));
    if (m->options->training.all_reduce)
        XCVM_TRY(xcc_processes_results(t));
    for (size_t i = 0; i < t->count; i++)
        xcc_values_keep(1, &t->parameters[i].parameter);
    return XCVM_OK;
}

/* Reads parameters, or their moving averages. */
static xcvm_status evaluate(xcc_training *t)
{
    xcc_module *m = t->m;
    for (size_t i = 0; i < t->count; i++) {
        xcc_value *p = t->parameters[i].parameter;
        if (m->options->training.average == 0.0) {
            xcc_values_keep(1, &p);
            continue;
        }
        const void *initial = xcc_training_initial(m, p);
        xcc_value *average = initial != NULL ? xcc_training_state(m, p->name, "average", xcc_training_type(p),
                                                                  p->type.rank, p->type.dims, initial)
                                             : NULL;
        xcc_builder b = {.graph = m->graph, .before = m->graph->first, .name = "average", .origin = "average"};
        average = average != NULL ? xcc_build_cast(&b, average, (xcvm_dtype)p->type.dtype) : NULL;
        if (average == NULL)
            return m->error->status;
        xcc_replace_uses(m->graph, p, average);
    }
    return XCVM_OK;
}

static xcvm_status note_optimizer(xcc_module *m, const xcc_optimizer_spec *spec)
{
    char text[600];
    xcc_optimizer_write(spec, text, sizeof text);
    m->compilation->optimizer = xcc_string(m, text, strlen(text));
    return m->compilation->optimizer != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

xcvm_status xcc_pass_train(xcc_module *m)
{
    xcc_training t = {.m = m, .b = {.graph = m->graph, .name = "train", .origin = "train"}};
    if (m->options->train == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_optimizer_read(m->options->train, &t.spec, m->error));
    t.b.name = t.b.origin = t.spec.row->info.name;
    XCVM_TRY(note_optimizer(m, &t.spec));
    XCVM_TRY(list_trainable(&t));
    XCVM_TRY(xcc_training_modes(m));
    XCVM_TRY(xcc_find_loss(m, &t.loss));
    XCVM_TRY(m->options->training.evaluate ? evaluate(&t) : train(&t));
    xcc_parameters_freeze(m);
    return XCVM_OK;
}
