/* Optimizers: trainable parameters and their state. The step is the same instruction as in the compiler's training
 * programs. */
#include "tape/optimizers/optimizers.h"
#include "base/array.h"
#include "ops/table/table.h"
#include "ops/util/convert.h"
#include "vm/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Creation ---- */

/* Finds the operands of the instruction, and sets its constant attributes. */
static void read_op_definition(xcvm_optimizer *o)
{
    const xcc_optimizer_row *row = o->spec.row;
    const xcvm_schema *schema = xcvm_schema_of(row->opcode);
    const char *const lists[LIST_COUNT] = {"gradients",          "parameters",          "masters",
                                           "averages",           row->moments[0].field, row->moments[1].field,
                                           row->moments[2].field};
    struct {
        const char *name;
        ptrdiff_t *at;
    } scalars[] = {{"rate", &o->rate_at},
                   {"step", &o->step_at},
                   {"scale", &o->scale_at},
                   {"parameter_norms", &o->parameter_norms_at},
                   {"gradient_norms", &o->gradient_norms_at}};
    for (size_t i = 0; i < LIST_COUNT; i++)
        o->lists[i] = -1;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        *scalars[i].at = -1;
    for (size_t f = 0; f < schema->field_count; f++) {
        const xcvm_field *field = &schema->fields[f];
        void *at = (char *)o->args + field->offset;
        for (size_t i = 0; xcvm_field_is_list(field) && i < LIST_COUNT; i++)
            if (lists[i] != NULL && strcmp(lists[i], field->name) == 0)
                o->lists[i] = (ptrdiff_t)field->offset;
        for (size_t i = 0; xcvm_field_is_input(field) && i < sizeof scalars / sizeof *scalars; i++)
            if (strcmp(scalars[i].name, field->name) == 0)
                *scalars[i].at = (ptrdiff_t)field->offset;
        if (xcvm_field_is_operand(field))
            continue;
        const double number = strcmp(field->name, "clip") == 0 ? o->options.clip_value
                              : strcmp(field->name, "average_decay") == 0
                                  ? o->options.average
                                  : xcc_optimizer_attribute(&o->spec, field->name);
        if (field->kind == XCVM_FIELD_FLOAT)
            *(double *)at = number;
        else if (field->kind == XCVM_FIELD_INT)
            *(int64_t *)at = (int64_t)number;
    }
}

static xcvm_status init_optimizer(xcvm_optimizer *o, const char *text, const xcvm_optimizer_options *options,
                                  xcvm_error *error)
{
    XCVM_TRY(xcvm_options_read(&o->options, sizeof o->options, options, error));
    XCVM_CHECK(error, o->options.clip_norm >= 0 && o->options.clip_value >= 0, INVALID_ARGUMENT,
               "gradients are clipped to %g by norm, to %g by value; both are at least 0", o->options.clip_norm,
               o->options.clip_value);
    XCVM_CHECK(error, o->options.average >= 0 && o->options.average < 1, INVALID_ARGUMENT,
               "%g of an average is to stay; it is from 0 to below 1", o->options.average);
    XCVM_TRY(xcc_optimizer_read(text, &o->spec, error));
    const size_t bytes = xcvm_schema_of(o->spec.row->opcode)->args_size;
    o->args = xcvm_allocate_zeroed(o->tape->allocator, bytes);
    XCVM_CHECK(error, o->args != NULL, OUT_OF_MEMORY, "no memory for an optimizer");
    o->rate = xcc_optimizer_value(&o->spec, "lr");
    o->scale = 1;
    o->norm = (double)NAN;
    read_op_definition(o);
    return XCVM_OK;
}

static void release_parameter(xcvm_optimizer *o, tape_trainable_parameter *l)
{
    for (size_t i = 0; i < STATE_COUNT; i++)
        xcvm_value_clear(&l->states[i]);
    if (l->parameter != NULL)
        tape_variable_release(l->parameter);
    if (l->name != NULL)
        xcvm_deallocate(o->tape->allocator, l->name, strlen(l->name) + 1);
    xcvm_deallocate(o->tape->allocator, l, sizeof *l);
}

static void release_room(xcvm_optimizer *o)
{
    const xcvm_allocator *allocator = o->tape->allocator;
    if (o->order != NULL)
        xcvm_deallocate(allocator, o->order, o->room * sizeof *o->order);
    if (o->items != NULL)
        xcvm_deallocate(allocator, o->items, LIST_CAPACITY_COUNT * o->room * sizeof *o->items);
    if (o->norms != NULL)
        xcvm_deallocate(allocator, o->norms, 2 * o->room * sizeof *o->norms);
    o->order = NULL;
    o->items = NULL;
    o->norms = NULL;
    o->room = 0;
}

static void destroy_optimizer(tape_effect *e)
{
    xcvm_optimizer *o = (xcvm_optimizer *)(void *)e;
    const xcvm_allocator *allocator = o->tape->allocator;
    for (size_t i = 0; i < o->count; i++)
        release_parameter(o, o->parameters[i]);
    for (size_t i = 0; i < o->layer_count; i++)
        xcvm_layer_destroy(o->layers[i]);
    release_room(o);
    xcvm_deallocate(allocator, o->parameters, o->capacity * sizeof *o->parameters);
    xcvm_deallocate(allocator, o->hooks, o->hook_capacity * sizeof *o->hooks);
    xcvm_deallocate(allocator, o->layers, o->layer_capacity * sizeof *o->layers);
    if (o->args != NULL)
        xcvm_deallocate(allocator, o->args, xcvm_schema_of(o->spec.row->opcode)->args_size);
    xcvm_deallocate(allocator, o, sizeof *o);
}

void xcvm_optimizer_destroy(xcvm_optimizer *optimizer)
{
    if (!TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_destroy))
        return;
    optimizer->effect.abandoned = true;
    tape_effect_release(&optimizer->effect);
}

xcvm_status xcvm_optimizer_create(xcvm_tape *tape, const char *text, const xcvm_optimizer_options *options,
                                  xcvm_optimizer **optimizer, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_optimizer_create, error);
    XCVM_CHECK(error, text != NULL && optimizer != NULL, INVALID_ARGUMENT, "%s is NULL",
               text == NULL ? "text" : "optimizer");
    xcvm_optimizer *o = xcvm_allocate_zeroed(tape->allocator, sizeof *o);
    XCVM_CHECK(error, o != NULL, OUT_OF_MEMORY, "no memory for an optimizer");
    o->effect = (tape_effect){
        .refs = 1, .run = tape_optimizer_run, .build = tape_optimizer_build, .destroy = destroy_optimizer};
    o->tape = tape;
    const xcvm_status status = init_optimizer(o, text, options, error);
    if (status != XCVM_OK)
        xcvm_optimizer_destroy(o);
    else
        *optimizer = o;
    return status;
}

/* ---- Parameters ---- */

xcvm_status tape_value_create(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, xcvm_value *value)
{
    xcvm_value made = {0};
    xcvm_storage *storage;
    size_t count;
    xcvm_value_set_tensor(&made, dtype, rank, dims);
    XCVM_CHECK(&t->error, xcvm_tensor_size(dtype, rank, dims, &count, &made.bytes), OUT_OF_RANGE,
               "what is kept of a parameter is too large");
    XCVM_TRY(xcvm_heap_allocate(t->kernel.heap, made.bytes, &storage, &t->error));
    made.storage = storage;
    made.data = storage->data;
    made.memory_kind = XCVM_MEMORY_OWNED;
    *value = made;
    return XCVM_OK;
}

void tape_parameter_copy(const tape_trainable_parameter *l, xcvm_value *state)
{
    const xcvm_value *p = &l->parameter->value.type;
    const size_t count = xcvm_element_count(p);
    if (state->dtype == p->dtype) {
        if (p->bytes > 0)
            memcpy(state->data, p->data, p->bytes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        double number;
        xcvm_load_f64((xcvm_dtype)p->dtype, p->data, i, 1, &number);
        xcvm_store_f64((xcvm_dtype)state->dtype, state->data, i, 1, &number, false);
    }
}

static void fill_state(xcvm_value *state, double number)
{
    const size_t count = xcvm_element_count(state);
    for (size_t i = 0; i < count; i++)
        xcvm_store_f64((xcvm_dtype)state->dtype, state->data, i, 1, &number, false);
}

static xcvm_status create_state(const xcvm_optimizer *o, tape_trainable_parameter *l, size_t index)
{
    const xcvm_value *p = &l->parameter->value.type;
    const xcvm_dtype dtype = p->dtype == XCVM_F64 ? XCVM_F64 : XCVM_F32;
    XCVM_TRY(tape_value_create(o->tape, dtype, p->rank, p->dims, &l->states[index]));
    if (index < STATE_MOMENTS)
        tape_parameter_copy(l, &l->states[index]);
    else
        fill_state(&l->states[index], xcc_optimizer_initial(&o->spec, &o->spec.row->moments[index - STATE_MOMENTS]));
    return XCVM_OK;
}

static xcvm_status create_states(const xcvm_optimizer *o, tape_trainable_parameter *l)
{
    if (tape_parameter_is_half(l))
        XCVM_TRY(create_state(o, l, STATE_MASTER));
    if (o->options.average != 0.0)
        XCVM_TRY(create_state(o, l, STATE_AVERAGE));
    for (size_t i = 0; i < XCC_OPTIMIZER_MOMENTS; i++)
        if (xcc_optimizer_keeps(&o->spec, &o->spec.row->moments[i]))
            XCVM_TRY(create_state(o, l, STATE_MOMENTS + i));
    return XCVM_OK;
}

static xcvm_status reserve_parameter(xcvm_optimizer *o, xcvm_error *error)
{
    const xcvm_allocator *allocator = o->tape->allocator;
    tape_trainable_parameter **parameters =
        xcvm_array_grow(allocator, o->parameters, o->count, &o->capacity, sizeof *o->parameters);
    XCVM_CHECK(error, parameters != NULL, OUT_OF_MEMORY, "no memory for another parameter of an optimizer");
    o->parameters = parameters;
    if (o->room > o->count)
        return XCVM_OK;
    /* The old buffers stay valid if there is no memory for larger ones. */
    xcvm_optimizer larger = {.tape = o->tape, .room = o->capacity};
    larger.order = xcvm_allocate(allocator, larger.room * sizeof *o->order);
    larger.items = xcvm_allocate(allocator, LIST_CAPACITY_COUNT * larger.room * sizeof *o->items);
    larger.norms = xcvm_allocate(allocator, 2 * larger.room * sizeof *o->norms);
    if (larger.order != NULL && larger.items != NULL && larger.norms != NULL) {
        release_room(o);
        o->room = larger.room;
        o->order = larger.order;
        o->items = larger.items;
        o->norms = larger.norms;
        return XCVM_OK;
    }
    release_room(&larger);
    return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a step of %zu parameters", o->count + 1);
}

static xcvm_status check_parameter(const tape_variable *p, const char *name, xcvm_error *error)
{
    const xcvm_value *type = &p->value.type;
    char text[192];
    XCVM_CHECK(error,
               type->kind == XCVM_KIND_TENSOR && (type->dtype == XCVM_F32 || type->dtype == XCVM_F64 ||
                                                  type->dtype == XCVM_F16 || type->dtype == XCVM_BF16),
               TYPE_MISMATCH, "\"%.100s\" is %s; what learns is a tensor of f32, f64, f16 or bf16", name,
               xcvm_value_describe(type, text, sizeof text));
    XCVM_CHECK(error, p->creator == NULL && !p->consumed, INVALID_ARGUMENT, "a call made \"%.100s\"; detach it", name);
    return XCVM_OK;
}

tape_trainable_parameter *tape_parameter_of(const xcvm_optimizer *o, const tape_variable *p)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->parameters[i]->parameter == p)
            return o->parameters[i];
    return NULL;
}

static xcvm_status add_parameter(xcvm_optimizer *o, const char *name, tape_variable *p, xcvm_error *error)
{
    if (tape_parameter_of(o, p) != NULL)
        return XCVM_OK;
    for (size_t i = 0; i < o->count; i++)
        XCVM_CHECK(error, strcmp(o->parameters[i]->name, name) != 0, INVALID_ARGUMENT,
                   "two parameters have the name \"%.100s\"", name);
    XCVM_TRY(check_parameter(p, name, error));
    XCVM_TRY(reserve_parameter(o, error));
    const size_t length = strlen(name) + 1;
    tape_trainable_parameter *l = xcvm_allocate_zeroed(o->tape->allocator, sizeof *l);
    XCVM_CHECK(error, l != NULL, OUT_OF_MEMORY, "no memory for the parameter \"%.100s\"", name);
    l->name = xcvm_allocate(o->tape->allocator, length);
    if (l->name == NULL) {
        release_parameter(o, l);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the name \"%.100s\"", name);
    }
    memcpy(l->name, name, length);
    l->parameter = p;
    l->updated = true;
    p->refs++;
    if (tape_latch_failure(o->tape, tape_variable_own_elements(o->tape, p)) != XCVM_OK ||
        tape_latch_failure(o->tape, create_states(o, l)) != XCVM_OK) {
        release_parameter(o, l);
        return tape_report(o->tape, error);
    }
    l->version = p->value.type.storage->version;
    o->parameters[o->count++] = l;
    return XCVM_OK;
}

xcvm_status xcvm_optimizer_add(xcvm_optimizer *optimizer, const char *name, xcvm_var parameter, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL && name != NULL, INVALID_ARGUMENT, "%s is NULL",
               optimizer == NULL ? "optimizer" : "name");
    TAPE_BEGIN(optimizer->tape, xcvm_optimizer_add, error);
    tape_variable *p = tape_resolve(optimizer->tape, parameter, "the parameter that is to learn");
    return p != NULL ? add_parameter(optimizer, name, p, error) : tape_report(optimizer->tape, error);
}

typedef struct adding {
    xcvm_optimizer *optimizer;
    xcvm_error *error;
} adding;

static xcvm_status add_visited(void *user, const char *path, xcvm_var v, bool learned)
{
    const adding *a = user;
    return learned ? xcvm_optimizer_add(a->optimizer, path, v, a->error) : XCVM_OK;
}

xcvm_status xcvm_optimizer_add_layer(xcvm_optimizer *optimizer, xcvm_layer *layer, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    TAPE_BEGIN(optimizer->tape, xcvm_optimizer_add_layer, error);
    XCVM_CHECK(error, layer != NULL, INVALID_ARGUMENT, "layer is NULL");
    adding a = {optimizer, error};
    xcvm_layer **layers = xcvm_array_grow(optimizer->tape->allocator, optimizer->layers, optimizer->layer_count,
                                          &optimizer->layer_capacity, sizeof *layers);
    XCVM_CHECK(error, layers != NULL, OUT_OF_MEMORY, "no memory for a layer of an optimizer");
    optimizer->layers = layers;
    XCVM_TRY(xcvm_layer_visit(layer, (xcvm_layer_visitor){add_visited, &a}));
    layers[optimizer->layer_count++] = xcvm_layer_retain(layer);
    return XCVM_OK;
}

/* ---- Settings ---- */

void xcvm_optimizer_set_rate(xcvm_optimizer *optimizer, double rate)
{
    if (TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_set_rate))
        optimizer->rate = rate;
}

double xcvm_optimizer_get_rate(const xcvm_optimizer *optimizer)
{
    return TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_get_rate) ? optimizer->rate : (double)NAN;
}

void xcvm_optimizer_set_gradient_scale(xcvm_optimizer *optimizer, double scale)
{
    if (TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_set_gradient_scale))
        optimizer->scale = scale;
}

double xcvm_optimizer_gradient_norm(const xcvm_optimizer *optimizer)
{
    return TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_gradient_norm) ? optimizer->norm : (double)NAN;
}

static tape_trainable_parameter *find_parameter(xcvm_optimizer *o, xcvm_var parameter)
{
    const tape_variable *p = tape_resolve(o->tape, parameter, "the parameter");
    tape_trainable_parameter *l = p != NULL ? tape_parameter_of(o, p) : NULL;
    if (p != NULL && l == NULL)
        tape_fail(o->tape, XCVM_INVALID_ARGUMENT, "variable %llu is no parameter of the optimizer",
                  (unsigned long long)p->serial);
    return l;
}

xcvm_status xcvm_optimizer_set_updated(xcvm_optimizer *optimizer, xcvm_var parameter, bool updated, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    TAPE_BEGIN(optimizer->tape, xcvm_optimizer_set_updated, error);
    tape_trainable_parameter *l = find_parameter(optimizer, parameter);
    if (l == NULL)
        return tape_report(optimizer->tape, error);
    l->updated = updated;
    return XCVM_OK;
}

xcvm_status xcvm_optimizer_add_hook(xcvm_optimizer *optimizer, xcvm_update_hook hook, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL && hook.call != NULL, INVALID_ARGUMENT, "%s is NULL",
               optimizer == NULL ? "optimizer" : "hook");
    TAPE_BEGIN(optimizer->tape, xcvm_optimizer_add_hook, error);
    xcvm_update_hook *hooks = xcvm_array_grow(optimizer->tape->allocator, optimizer->hooks, optimizer->hook_count,
                                              &optimizer->hook_capacity, sizeof *hooks);
    XCVM_CHECK(error, hooks != NULL, OUT_OF_MEMORY, "no memory for a hook");
    optimizer->hooks = hooks;
    hooks[optimizer->hook_count++] = hook;
    return XCVM_OK;
}

void xcvm_optimizer_clear_gradients(xcvm_optimizer *optimizer)
{
    if (!TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_clear_gradients))
        return;
    for (size_t i = 0; i < optimizer->count; i++)
        tape_variable_clear_gradient(optimizer->parameters[i]->parameter);
}

/* ---- Averages ---- */

xcvm_var xcvm_optimizer_get_average(xcvm_optimizer *optimizer, xcvm_var parameter)
{
    const tape_trainable_parameter *l =
        TAPE_ENTER(TAPE_OF(optimizer), xcvm_optimizer_get_average) ? find_parameter(optimizer, parameter) : NULL;
    if (l == NULL)
        return TAPE_FAILED;
    const xcvm_value *average = &l->states[STATE_AVERAGE];
    if (average->kind == XCVM_KIND_NULL)
        return XCVM_ABSENT;
    const tape_variable *v =
        tape_tensor(optimizer->tape, (xcvm_dtype)average->dtype, average->rank, average->dims, average->data);
    return v != NULL ? tape_handle(v) : TAPE_FAILED;
}

xcvm_status xcvm_optimizer_swap_averages(xcvm_optimizer *optimizer, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    xcvm_tape *t = optimizer->tape;
    TAPE_BEGIN(t, xcvm_optimizer_swap_averages, error);
    XCVM_CHECK(error, optimizer->options.average != 0.0, INVALID_ARGUMENT, "the optimizer keeps no averages");
    /* Waiting ops read what is overwritten. */
    if (tape_evaluate_all(t) != XCVM_OK)
        return tape_report(t, error);
    for (size_t i = 0; i < optimizer->count; i++) {
        tape_trainable_parameter *l = optimizer->parameters[i];
        XCVM_CHECK(error, !tape_parameter_is_half(l), UNSUPPORTED,
                   "\"%.100s\" is of half precision, its average is not; they cannot be exchanged", l->name);
        if (tape_latch_failure(t, tape_variable_own_elements(t, l->parameter)) != XCVM_OK)
            return tape_report(t, error);
    }
    for (size_t i = 0; i < optimizer->count; i++) {
        char *a = optimizer->parameters[i]->parameter->value.type.data,
             *b = optimizer->parameters[i]->states[STATE_AVERAGE].data;
        for (size_t n = optimizer->parameters[i]->states[STATE_AVERAGE].bytes; n-- > 0;) {
            const char byte = a[n];
            a[n] = b[n];
            b[n] = byte;
        }
        tape_mark_overwritten(&optimizer->parameters[i]->parameter->value.type, t->calls++);
    }
    return XCVM_OK;
}

/* ---- Files ---- */

typedef struct gathering {
    tape_entries entries;
    xcvm_error *error;
    xcvm_tape *tape;
} gathering;

static xcvm_status gather_visited(void *user, const char *path, xcvm_var v, bool learned)
{
    gathering *g = user;
    (void)learned;
    tape_variable *variable = tape_resolve(g->tape, v, "a tensor of a layer");
    return variable != NULL && tape_evaluate(variable) == XCVM_OK
               ? tape_entries_add(&g->entries, path, &variable->value.type, g->error)
               : tape_report(g->tape, g->error);
}

/* "optimizer@NAME.WHAT", or "optimizer@WHAT" without a name. */
static xcvm_status gather_kept(gathering *g, const char *name, const char *what, xcvm_value *value)
{
    const size_t named = name != NULL ? strlen(name) + 1 : 0, room = sizeof XCC_OPTIMIZER_PREFIX + named + strlen(what);
    char *text = xcvm_arena_allocate(&g->entries.arena, room);
    XCVM_CHECK(g->error, text != NULL, OUT_OF_MEMORY, "no memory for the name of a tensor");
    snprintf(text, room, "%s%s%s%s", XCC_OPTIMIZER_PREFIX, name != NULL ? name : "", name != NULL ? "." : "", what);
    return tape_entries_add(&g->entries, text, value, g->error);
}

const char *tape_optimizer_state_name(const xcvm_optimizer *o, size_t state)
{
    return state == STATE_MASTER    ? "master"
           : state == STATE_AVERAGE ? "average"
                                    : o->spec.row->moments[state - STATE_MOMENTS].field;
}

static xcvm_status gather_parameter(xcvm_optimizer *o, gathering *g, tape_trainable_parameter *l, xcvm_value *steps)
{
    XCVM_TRY(tape_entries_add(&g->entries, l->name, &l->parameter->value.type, g->error));
    for (size_t i = 0; i < STATE_COUNT; i++)
        if (l->states[i].kind != XCVM_KIND_NULL)
            XCVM_TRY(gather_kept(g, l->name, tape_optimizer_state_name(o, i), &l->states[i]));
    xcvm_value_set_tensor(steps, XCVM_I64, 0, NULL);
    steps->data = &l->steps;
    return gather_kept(g, l->name, "step", steps);
}

static xcvm_status gather_all(xcvm_optimizer *o, gathering *g)
{
    xcvm_value *numbers = xcvm_arena_allocate(&g->entries.arena, (o->count + 2) * sizeof *numbers);
    XCVM_CHECK(g->error, numbers != NULL, OUT_OF_MEMORY, "no memory for %zu parameters", o->count);
    for (size_t i = 0; i < o->layer_count; i++)
        XCVM_TRY(xcvm_layer_visit(o->layers[i], (xcvm_layer_visitor){gather_visited, g}));
    for (size_t i = 0; i < o->count; i++)
        XCVM_TRY(gather_parameter(o, g, o->parameters[i], &numbers[i + 2]));
    xcvm_value_set_tensor(&numbers[0], XCVM_F64, 0, NULL);
    numbers[0].data = &o->rate;
    xcvm_value_set_tensor(&numbers[1], XCVM_U64, 0, NULL);
    numbers[1].data = &o->tape->random;
    XCVM_TRY(gather_kept(g, NULL, "rate", &numbers[0]));
    return gather_kept(g, NULL, "random", &numbers[1]);
}

xcvm_status xcvm_optimizer_save(xcvm_optimizer *optimizer, xcvm_tensor_format format, xcvm_sink sink, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    TAPE_BEGIN(optimizer->tape, xcvm_optimizer_save, error);
    gathering g = {
        .entries = {.arena = {.allocator = optimizer->tape->allocator}}, .error = error, .tape = optimizer->tape};
    xcvm_status status = gather_all(optimizer, &g);
    if (status == XCVM_OK)
        status = tape_entries_write(&g.entries, format, sink, error);
    tape_entries_release(&g.entries);
    return status;
}

xcvm_status xcvm_optimizer_load(xcvm_optimizer *optimizer, const void *bytes, size_t count, xcvm_error *error)
{
    XCVM_CHECK(error, optimizer != NULL, INVALID_ARGUMENT, "optimizer is NULL");
    xcvm_tape *t = optimizer->tape;
    TAPE_BEGIN(t, xcvm_optimizer_load, error);
    for (size_t i = 0; i < optimizer->count; i++)
        if (tape_latch_failure(t, tape_variable_own_elements(t, optimizer->parameters[i]->parameter)) != XCVM_OK)
            return tape_report(t, error);
    gathering g = {.entries = {.arena = {.allocator = t->allocator}}, .error = error, .tape = t};
    xcvm_status status = gather_all(optimizer, &g);
    if (status == XCVM_OK)
        status = tape_entries_read(&g.entries, bytes, count, false, error);
    for (size_t i = 0; status == XCVM_OK && i < g.entries.count; i++)
        if (g.entries.at[i].value->storage != NULL)
            tape_mark_overwritten(g.entries.at[i].value, t->calls);
    for (size_t i = 0; status == XCVM_OK && i < optimizer->count; i++) {
        tape_trainable_parameter *l = optimizer->parameters[i];
        l->version = l->parameter->value.type.storage->version;
        l->steps = l->steps > 0 ? l->steps : 0;
    }
    t->calls += status == XCVM_OK;
    tape_entries_release(&g.entries);
    return status;
}
