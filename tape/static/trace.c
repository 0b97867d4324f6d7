/* Traces: record op calls as a graph while they are executed. */
#include "tape/static/trace.h"
#include "compiler/ir/compose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Creation ---- */

static const tape_tracer_functions functions;

xcvm_status tape_trace_create(xcvm_tape *t, size_t in_count, size_t held_count, size_t out_count, tape_trace **trace)
{
    tape_trace *k = xcvm_allocate_zeroed(t->allocator, sizeof *k);
    if (k == NULL)
        return tape_fail(t, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for a trace", sizeof *k);
    k->tracer.functions = &functions;
    k->tape = t;
    k->out_of_memory_count = t->out_of_memory_count;
    k->options = (xcc_options){.size = sizeof k->options, .allocator = t->allocator};
    k->in_count = in_count;
    k->held_count = held_count;
    k->out_count = out_count;
    xcvm_status status = xcc_module_init(&k->module, &k->options, &t->error);
    if (status == XCVM_OK) {
        k->builder = (xcc_builder){.graph = k->module.graph, .name = "", .origin = ""};
        k->outs = xcc_alloc(&k->module, out_count * sizeof *k->outs);
        k->out_requires = xcc_alloc(&k->module, out_count * sizeof *k->out_requires);
        if (k->outs == NULL || k->out_requires == NULL)
            status = XCVM_OUT_OF_MEMORY;
    }
    if (status != XCVM_OK)
        tape_trace_destroy(k);
    else
        *trace = k;
    return tape_latch_failure(t, status);
}

void tape_trace_destroy(tape_trace *k)
{
    if (k == NULL)
        return;
    const xcvm_allocator *allocator = k->tape->allocator;
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].slot_owner != NULL)
            tape_state_slot_release(k->operands[i].slot_owner);
    for (size_t i = 0; i < k->effect_count; i++)
        if (k->effects[i].effect != NULL)
            tape_effect_release(k->effects[i].effect);
    xcc_module_release(&k->module);
    xcvm_deallocate(allocator, k, sizeof *k);
}

void tape_trace_refuse(tape_trace *k, const char *format, ...)
{
    va_list arguments;
    if (k->refusal[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(k->refusal, sizeof k->refusal, format, arguments);
    va_end(arguments);
}

xcvm_status tape_trace_refused(tape_trace *k, const char *what)
{
    xcvm_error *error = &k->tape->error;
    if (error->status == XCVM_OUT_OF_MEMORY)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    tape_trace_refuse(k, "%.30s: %.190s", what, error->message);
    xcvm_error_set(error, XCVM_OK, "%s", "");
    return XCVM_OK;
}

/* ---- Values ---- */

static bool is_plain(const xcvm_value *type) { return type->kind == XCVM_KIND_TENSOR && type->dtype != XCVM_STRING; }

xcvm_status tape_trace_operand(tape_trace *k, const tape_variable *v, bool requires, xcvm_var *place)
{
    xcc_module *m = &k->module;
    trace_operand *operands = xcc_grow(m, k->operands, k->operand_count, &k->operand_capacity, sizeof *operands);
    if (operands == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    k->operands = operands;
    trace_operand *o = &operands[k->operand_count++];
    *o = (trace_operand){.requires = requires, .slot = place, .filled_after = SIZE_MAX};
    if (place != NULL)
        o->filled = *place;
    if (v == NULL)
        return XCVM_OK;
    o->v = tape_handle(v);
    o->present = true;
    o->sparse = v->sparse;
    o->hooks = tape_hook_count(v);
    if (!is_plain(&v->value.type)) {
        char text[192];
        tape_trace_refuse(k, "an operand is %s, not a tensor of numbers",
                          xcvm_value_describe(&v->value.type, text, sizeof text));
        return XCVM_OK;
    }
    if ((o->value = o->now = xcc_value_create(m->graph, NULL)) == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    o->value->kind = XCC_INPUT;
    xcvm_value_set_tensor(&o->value->type, (xcvm_dtype)v->value.type.dtype, v->value.type.rank, v->value.type.dims);
    return XCVM_OK;
}

static trace_operand *find_operand(const tape_trace *k, const tape_variable *v)
{
    for (size_t i = 0; i < k->operand_count; i++)
        if (k->operands[i].v.at == v && k->operands[i].v.serial == v->serial)
            return &k->operands[i];
    return NULL;
}

/* A constant that the function has made of the host's numbers. */
static xcc_value *add_constant(tape_trace *k, tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    v->built = xcc_literal(
        xcc_constant(k->module.graph, NULL, (xcvm_dtype)type->dtype, type->rank, type->dims, type->data, false));
    return v->built;
}

bool tape_trace_is_own(const tape_trace *k, const tape_variable *v)
{
    return v->serial > k->begun && !(v->kept && v->requires && v->creator == NULL && v->built == NULL);
}

trace_operand *tape_trace_capture(tape_trace *k, const tape_variable *v)
{
    trace_operand *o = find_operand(k, v);
    if (o != NULL)
        return o;
    return tape_trace_operand(k, v, v->requires, NULL) == XCVM_OK ? &k->operands[k->operand_count - 1] : NULL;
}

/* Refuses elements that a hook of a step has written. The hook runs in each call, but is not traced. A write by the
 * current op has the current version. */
static void refuse_hooked(tape_trace *k, const tape_variable *v)
{
    const xcvm_storage *storage = v->value.type.storage;
    if (k->effect_count == 0 || storage == NULL || tape_trace_is_own(k, v))
        return;
    const trace_operand *o = find_operand(k, v);
    const uint32_t known = o != NULL && trace_is_written(o) ? o->version : (uint32_t)k->calls;
    if ((o == NULL || !o->changes) && (int32_t)(storage->version - known) > 0 &&
        storage->version != (uint32_t)k->tape->calls)
        tape_trace_refuse(k, "a call after a step reads, or writes, what a hook of the step has written");
}

xcc_value *tape_trace_value(tape_trace *k, tape_variable *v)
{
    if (tape_trace_is_own(k, v) && v->built != NULL)
        return v->built;
    if (!is_plain(&v->value.type)) {
        tape_trace_refuse(k, "the function reads a list or strings from outside");
        return NULL;
    }
    if (tape_trace_is_own(k, v))
        return add_constant(k, v);
    const trace_operand *o = tape_trace_capture(k, v);
    if (o != NULL && o->changes)
        tape_trace_refuse(k, "a call reads what an effect has changed");
    refuse_hooked(k, v);
    return o != NULL && !o->changes ? o->now : NULL;
}

/* An operand whose elements determine a shape becomes a constant of the schedule. */
static xcc_value *fixed_value_of(tape_trace *k, tape_variable *v)
{
    xcc_value *value = tape_trace_value(k, v);
    trace_operand *o = value != NULL && !tape_trace_is_own(k, v) ? find_operand(k, v) : NULL;
    if (o == NULL || o->now != o->value)
        return value;
    const xcvm_value *type = &v->value.type;
    if (o->fixed == NULL)
        o->fixed =
            xcc_constant(k->module.graph, NULL, (xcvm_dtype)type->dtype, type->rank, type->dims, type->data, false);
    return o->fixed;
}

/* ---- Op calls ---- */

static bool map_operands(tape_trace *k, const tape_op_record *r, const xcvm_value **in)
{
    size_t at = 0;
    for (size_t f = 0; f < r->schema->field_count; f++) {
        const xcvm_field *field = &r->schema->fields[f];
        if (!xcvm_field_is_input(field))
            continue;
        for (size_t left = xcvm_field_count(field, r->args); left > 0; left--, at++) {
            tape_variable *v = r->in[at];
            if (v == NULL)
                continue;
            const xcc_value *value = field->role == XCVM_ROLE_IN_SHAPE ? fixed_value_of(k, v) : tape_trace_value(k, v);
            if (value == NULL)
                return false;
            in[at] = XCC_IN(value);
        }
    }
    return true;
}

/* True if no gradient flows through the op though one could: recording is off, or the variable was detached. */
static bool is_stopped(const tape_trace *k, const tape_op_record *r, const tape_variable *result)
{
    if (k->tape->recording || r->schema->gradient.zero || !tape_variable_can_have_gradient(result))
        return false;
    for (uint32_t i = 0; i < r->in_count; i++)
        if (r->in[i] != NULL && r->in[i]->requires)
            return true;
    return false;
}

static bool map_results(tape_trace *k, const tape_op_record *r, xcvm_value **out)
{
    for (uint32_t i = 0; i < r->out_count; i++) {
        tape_variable *v = r->out[i];
        if (v == NULL)
            continue;
        if ((v->built = xcc_value_create(k->module.graph, NULL)) == NULL)
            return false;
        v->built->mark = is_stopped(k, r, v) ? TRACE_STOPPED : 0;
        out[i] = XCC_OUT(v->built);
    }
    return true;
}

static xcvm_status trace_instruction(tape_trace *k, const tape_op_record *r)
{
    xcc_module *m = &k->module;
    const size_t entries = (size_t)r->in_count + r->out_count, bytes = entries * sizeof(xcvm_value *);
    xcvm_value **lists = xcc_alloc(m, bytes);
    char *args = xcc_alloc(m, r->schema->args_size);
    if (lists == NULL || args == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    const xcvm_value **in = (const xcvm_value **)(void *)lists;
    xcvm_value **out = lists + r->in_count;
    if (!map_operands(k, r, in) || !map_results(k, r, out))
        return k->refusal[0] != '\0' ? XCVM_OK : tape_trace_refused(k, r->schema->name);
    memcpy(args, r->args, r->schema->args_size);
    xcvm_bind_operands(r->schema, args, in, out);
    k->call_count++;
    if (xcc_append(&k->builder, r->schema->opcode, args) == NULL)
        return tape_trace_refused(k, r->schema->name);
    xcc_free(m, args, r->schema->args_size);
    xcc_free(m, lists, bytes);
    return XCVM_OK;
}

/* The result types of HostCall are unknown, so the recorded shapes are restored after it. */
static xcc_value *reshape_result(tape_trace *k, xcc_value *result, const xcvm_value *type)
{
    return type->rank == 0
               ? result
               : xcc_build_reshape_to(&k->builder, result, xcc_build_ints(&k->builder, (size_t)type->rank, type->dims));
}

static const char *name_operation(tape_trace *k, const char *suffix)
{
    char text[48];
    const int length = snprintf(text, sizeof text, "operation%zu%s", k->operation_count, suffix);
    return xcc_string(&k->module, text, (size_t)length);
}

/* Lists the operands that op calls have written so far, since the host's function may read them. Returns the
 * count. */
static size_t list_seen_operands(const tape_trace *k, size_t *seen, const xcvm_value **values)
{
    size_t count = 0;
    for (size_t i = 0; i < k->operand_count; i++)
        if (trace_is_written(&k->operands[i])) {
            values[count] = XCC_IN(k->operands[i].now);
            seen[count++] = i;
        }
    return count;
}

static xcvm_status trace_operation_call(tape_trace *k, const tape_op_record *r)
{
    xcc_module *m = &k->module;
    const size_t ins = r->in_count, outs = r->out_count;
    const xcvm_value **in = xcc_alloc(m, (ins + k->operand_count) * sizeof *in);
    xcvm_value **out = xcc_alloc(m, outs * sizeof *out);
    int64_t *dtypes = xcc_alloc(m, 2 * outs * sizeof *dtypes);
    size_t *seen = xcc_alloc(m, k->operand_count * sizeof *seen);
    trace_operation *operations =
        xcc_grow(m, k->operations, k->operation_count, &k->operation_capacity, sizeof *operations);
    if (in == NULL || out == NULL || dtypes == NULL || seen == NULL || operations == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    k->operations = operations;
    trace_operation o = {r->operation, name_operation(k, ""), name_operation(k, "_vjp"), ins, outs, seen, 0};
    if (o.name == NULL || o.vjp == NULL)
        return tape_latch_failure(k->tape, XCVM_OUT_OF_MEMORY);
    for (size_t i = 0; i < ins; i++) {
        const xcc_value *value = r->in[i] != NULL ? tape_trace_value(k, r->in[i]) : NULL;
        if (r->in[i] == NULL)
            tape_trace_refuse(k, "%.100s: an operand is absent", o.operation->name);
        if (value == NULL)
            return k->refusal[0] != '\0' ? XCVM_OK : tape_trace_refused(k, o.operation->name);
        in[i] = XCC_IN(value);
    }
    for (size_t i = 0; i < outs; i++) {
        const xcvm_value *type = &r->out[i]->value.type;
        xcc_value *value = xcc_value_create(m->graph, NULL);
        if (!is_plain(type))
            tape_trace_refuse(k, "%.100s: a result is no tensor of numbers", o.operation->name);
        if (value == NULL || !is_plain(type))
            return value != NULL ? XCVM_OK : tape_trace_refused(k, o.operation->name);
        out[i] = XCC_OUT(value);
        dtypes[i] = type->dtype;
        dtypes[outs + i] = type->rank;
    }
    o.seen_count = list_seen_operands(k, seen, in + ins);
    k->operations[k->operation_count++] = o;
    k->call_count++;
    if (xcc_emit(&k->builder, HostCall, .ys = {out, outs}, .xs = {in, ins + o.seen_count},
                 .function = {o.name, strlen(o.name)}, .dtypes = {dtypes, outs},
                 .ranks = {dtypes + outs, outs}) == NULL)
        return tape_trace_refused(k, o.operation->name);
    for (size_t i = 0; i < outs; i++) {
        xcc_value *value = reshape_result(k, xcc_value_of(out[i]), &r->out[i]->value.type);
        if (value == NULL)
            return tape_trace_refused(k, o.operation->name);
        value->mark = is_stopped(k, r, r->out[i]) ? TRACE_STOPPED : 0;
        r->out[i]->built = value;
    }
    return XCVM_OK;
}

/* Gathered rows are operands. The tape gathers them before the schedule runs. */
static xcvm_status trace_gather(tape_trace *k, const tape_op_record *r)
{
    size_t of[2];
    for (size_t i = 0; i < 2; i++) {
        if (tape_trace_value(k, r->in[i]) == NULL)
            return k->refusal[0] != '\0' ? XCVM_OK : tape_trace_refused(k, r->schema->name);
        const trace_operand *o = find_operand(k, r->in[i]);
        if (trace_is_written(o))
            tape_trace_refuse(k, "rows are gathered from what a call has written, or by it");
        of[i] = (size_t)(o - k->operands);
    }
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    XCVM_TRY(tape_trace_operand(k, r->out[0], true, NULL));
    trace_operand *rows = &k->operands[k->operand_count - 1];
    rows->gathered = true;
    rows->table = of[0];
    rows->indices = of[1];
    k->call_count++;
    r->out[0]->built = rows->value;
    return XCVM_OK;
}

static xcvm_status trace_call(tape_tracer *tracer, const tape_op_record *r)
{
    tape_trace *k = tape_trace_of(tracer);
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    if (k->effect_count > 0 && (r->operation != NULL || r->schema->effect == XCVM_RANDOM))
        tape_trace_refuse(k, "a call with effects follows a step of an optimizer");
    if (tape_sparse_applies(r) && tape_op_is_differentiable(k->tape, r)) {
        if (!tape_trace_is_own(k, r->in[1]))
            return trace_gather(k, r);
        k->gathers = true;
    }
    return r->operation != NULL ? trace_operation_call(k, r) : trace_instruction(k, r);
}

/* ---- Other events ---- */

static void trace_share(tape_tracer *tracer, tape_variable *to, const tape_variable *from)
{
    tape_trace *k = tape_trace_of(tracer);
    to->built = NULL;
    if (k->refusal[0] != '\0' || (tape_trace_is_own(k, from) && from->built == NULL && !is_plain(&from->value.type)))
        return;
    xcc_value *value = tape_trace_value(k, tape_variable_of(&from->value));
    if (value != NULL && from->requires)
        value = xcc_build_unary(&k->builder, XCVM_OP_Identity, value);
    if (value == NULL) {
        if (k->refusal[0] == '\0')
            tape_trace_refused(k, "sharing");
        return;
    }
    if (from->requires)
        value->mark = TRACE_STOPPED;
    to->built = value;
}

static void trace_target(tape_tracer *tracer, const tape_variable *target)
{
    const xcvm_storage *storage = target->value.type.storage;
    if (storage == NULL || __atomic_load_n(&storage->refs, __ATOMIC_ACQUIRE) > 1)
        tape_trace_refuse(tape_trace_of(tracer),
                          "variable %llu, which a call writes into, has its elements from outside, or "
                          "shares them with another",
                          (unsigned long long)target->serial);
    refuse_hooked(tape_trace_of(tracer), target);
}

static void trace_into(tape_tracer *tracer, tape_variable *result, tape_variable *target)
{
    tape_trace *k = tape_trace_of(tracer);
    if (k->refusal[0] != '\0')
        return;
    if (tape_trace_is_own(k, target)) {
        target->built = result->built;
        return;
    }
    trace_operand *o = tape_trace_capture(k, target);
    if (o == NULL)
        return;
    if (o->changes)
        tape_trace_refuse(k, "a call writes into what an effect has changed");
    if (o < k->operands + k->in_count && o->value != NULL)
        tape_trace_refuse(k, "the function writes into an operand of its own");
    if (trace_is_written(o) && o->written_after != k->effect_count)
        tape_trace_refuse(k, "a call after a step writes what one before the step has written");
    o->written_after = k->effect_count;
    o->version = target->value.type.storage->version;
    o->now = result->built;
}

static void trace_cut(tape_tracer *tracer, const tape_variable *v)
{
    tape_trace *k = tape_trace_of(tracer);
    if (tape_trace_is_own(k, v) && v->built != NULL)
        v->built->mark = TRACE_STOPPED;
    else
        tape_trace_refuse(k, "a variable from outside of the function is unchained");
}

/* The alias of an operand of the call is older than the trace too. */
static void trace_backward(tape_tracer *tracer, const tape_op_record *r)
{
    tape_trace *k = tape_trace_of(tracer);
    if (r->number < k->calls)
        tape_trace_refuse(k, "the function adds to the gradient of an operand of the call, or takes one of what calls "
                             "before it have made");
}

static void trace_branch(tape_tracer *tracer, tape_variable *v)
{
    tape_trace *k = tape_trace_of(tracer);
    if (k->refusal[0] != '\0')
        return;
    const xcc_value *value = fixed_value_of(k, v);
    if (value == NULL && k->refusal[0] == '\0')
        tape_trace_refused(k, "a decision");
    else if (value != NULL && !xcc_is_constant(value))
        tape_trace_refuse(k, "a result of a call decides which calls are made");
}

static xcvm_status trace_state_slot(tape_tracer *tracer, tape_state_slot *p)
{
    tape_trace *k = tape_trace_of(tracer);
    if (k->refusal[0] != '\0')
        return XCVM_OK;
    for (size_t i = k->in_count; i < k->operand_count; i++)
        if (k->operands[i].slot_owner == p)
            return XCVM_OK;
    const tape_variable *v = tape_find(p->v);
    if (p->v.at != NULL && v == NULL) {
        tape_trace_refuse(k, "what a layer keeps was released by the host");
        return XCVM_OK;
    }
    XCVM_TRY(tape_trace_operand(k, v, v != NULL && v->requires, &p->v));
    k->operands[k->operand_count - 1].slot_owner = p;
    p->refs++;
    return XCVM_OK;
}

static void trace_refuse(tape_tracer *tracer, const char *why) { tape_trace_refuse(tape_trace_of(tracer), "%s", why); }

static const tape_tracer_functions functions = {.call = trace_call,
                                                .share = trace_share,
                                                .target = trace_target,
                                                .into = trace_into,
                                                .cut = trace_cut,
                                                .backward = trace_backward,
                                                .clear = tape_trace_clear,
                                                .branch = trace_branch,
                                                .state_slot = trace_state_slot,
                                                .effect = tape_trace_step,
                                                .refuse = trace_refuse};

/* ---- Begin and end ---- */

/* Computes factored gradients, which would otherwise be made inside the trace. */
static void make_gradient(void *user, const tape_variable *v)
{
    (void)user;
    if (tape_side(v)->left_factor != NULL)
        (void)tape_variable_gradient((tape_variable *)(uintptr_t)v);
}

void tape_trace_begin(tape_trace *k)
{
    tape_variables_each(k->tape, make_gradient, NULL);
    k->begun = k->tape->serials;
    k->calls = k->tape->calls;
    k->tape->tracer = &k->tracer;
    k->tape->may_build = true;
}

static xcvm_status trace_result(tape_trace *k, tape_variable *v, xcc_value **value, bool *requires)
{
    *value = tape_trace_value(k, v);
    *requires = v->requires && !v->consumed;
    k->differentiable = k->differentiable || *requires;
    return *value != NULL || k->refusal[0] != '\0' ? XCVM_OK : tape_trace_refused(k, "a result");
}

/* True if elements were overwritten by something outside of the trace. */
static bool was_changed(const tape_trace *k, const trace_operand *o)
{
    if (o->value == NULL || trace_is_written(o) || o->changes || o->v.at->serial != o->v.serial)
        return false;
    const xcvm_storage *storage = o->v.at->value.type.storage;
    return storage != NULL && storage->version != 0 && (int32_t)(storage->version - (uint32_t)k->calls) > 0;
}

/* The content of a state slot at the end. */
static xcvm_status trace_slot_end(tape_trace *k, trace_operand *o)
{
    const xcvm_var before = o->v, now = *o->slot;
    if (o->filled_after == SIZE_MAX)
        o->filled_after = k->effect_count;
    else if (now.at != o->filled.at || now.serial != o->filled.serial)
        tape_trace_refuse(k, "a handle is stored in one place before and after a step");
    if (now.at == before.at && now.serial == before.serial)
        return XCVM_OK;
    tape_variable *v = tape_resolve_optional(k->tape, now, "what the function has put in a place");
    if (k->tape->failed)
        return k->tape->error.status;
    o->releases = before.at != NULL && (before.at->serial != before.serial || !before.at->named);
    o->empties = v == NULL;
    if (v == NULL)
        return XCVM_OK;
    o->keeps = v->kept;
    return trace_result(k, v, &o->next, &o->next_requires);
}

xcvm_status tape_trace_end(tape_trace *k, const xcvm_var *out)
{
    xcvm_tape *t = k->tape;
    t->tracer = NULL;
    for (size_t i = 0; i < k->out_count && k->refusal[0] == '\0'; i++) {
        tape_variable *v = tape_resolve(t, out[i], "a result of the function");
        XCVM_TRY(v != NULL ? trace_result(k, v, &k->outs[i], &k->out_requires[i]) : t->error.status);
    }
    for (size_t i = 0, count = k->operand_count; i < count && k->refusal[0] == '\0'; i++)
        if (k->operands[i].slot != NULL) {
            trace_operand o = k->operands[i]; /* adding a capture may move the operands */
            XCVM_TRY(trace_slot_end(k, &o));
            k->operands[i] = o;
        }
    XCVM_TRY(tape_trace_leave(k));
    if (k->gathers && k->differentiable)
        tape_trace_refuse(k, "the gradient of a table is kept by rows (xcvm_var_set_sparse_gradient)");
    for (size_t i = 0; i < k->operand_count && k->refusal[0] == '\0'; i++) {
        if (was_changed(k, &k->operands[i]))
            tape_trace_refuse(k, "the host changes a variable that the function reads while it runs");
    }
    return XCVM_OK;
}
