/* Variables: names, references and elements. */
#include "base/retain.h"
#include "ops/util/convert.h"
#include "tape/mode.h"
#include "tape/side_table.h"
#include "tape/tracer.h"

#include <math.h>
#include <string.h>

/* ---- Names and references ---- */

static void unlink_kept(tape_variable *v)
{
    if (v->previous_kept != NULL)
        v->previous_kept->next_kept = v->next_kept;
    else
        v->tape->kept = v->next_kept;
    if (v->next_kept != NULL)
        v->next_kept->previous_kept = v->previous_kept;
    v->previous_kept = v->next_kept = NULL;
}

/* All references but one are subtracted with one atomic operation. The last release may destroy the storage. */
static void release_deferred(tape_deferred_release *p)
{
    if (p->count > 1)
        __atomic_fetch_sub(&p->storage->refs, p->count - 1, __ATOMIC_RELEASE);
    xcvm_storage_release(p->storage);
    *p = (tape_deferred_release){0};
}

void tape_release_deferred_storages(xcvm_tape *t)
{
    for (; t->removal.deferred_mask != 0; t->removal.deferred_mask &= t->removal.deferred_mask - 1)
        release_deferred(&t->removal.deferred[__builtin_ctz(t->removal.deferred_mask)]);
}

/* While records are removed, releases of one storage are collected. */
static void release_storage(xcvm_tape *t, xcvm_storage *storage)
{
    if (storage == NULL || !t->removal.active) {
        xcvm_storage_release(storage);
        return;
    }
    const uint32_t at = (uint32_t)(((uintptr_t)storage / XCVM_ALIGNMENT * UINT32_C(0x9e3779b1) & UINT32_MAX) >>
                                   (32 - TAPE_DEFERRED_RELEASE_BITS));
    tape_deferred_release *p = &t->removal.deferred[at];
    if (p->storage != storage) {
        release_deferred(p);
        p->storage = storage;
        t->removal.deferred_mask |= UINT32_C(1) << at;
    }
    p->count++;
}

static void destroy_variable(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    release_storage(t, v->value.type.storage);
    v->value.type.storage = NULL;
    if (v->has_side_state)
        tape_side_destroy(v);
    tape_variable_free_slot(v);
}

void tape_variable_release(tape_variable *v)
{
    if (--v->refs > 0) {
        if (v->readers == 0 && v->refs == v->uses)
            tape_free_unused_elements(v);
        return;
    }
    if (v->creator == NULL)
        destroy_variable(v);
    else if (tape_op_record_is_dead(v->creator))
        tape_op_record_remove(v->creator);
}

void tape_variable_unname(tape_variable *v)
{
    if (v->kept)
        unlink_kept(v);
    else
        v->tape->names.live--;
    v->named = v->kept = false;
    tape_variable_release(v);
}

void tape_variable_keep(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (v->kept)
        return;
    if (v->named)
        t->names.live--;
    else
        v->refs++;
    v->named = v->kept = true;
    v->next_kept = t->kept;
    if (v->next_kept != NULL)
        v->next_kept->previous_kept = v;
    t->kept = v;
}

tape_variable *tape_variable_create_unnamed(xcvm_tape *t)
{
    tape_variable *v = tape_variable_create(t);
    if (v == NULL)
        return NULL;
    v->refs++;
    tape_variable_unname(v);
    return v;
}

tape_variable *tape_resolve_optional(xcvm_tape *t, xcvm_var v, const char *what)
{
    if (v.at == NULL) {
        if (v.serial != 0)
            tape_fail(t, XCVM_INVALID_ARGUMENT, "%s is the result of a call that failed", what);
        return NULL;
    }
    if (v.at->tape != t) {
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%s is a variable of another tape", what);
        return NULL;
    }
    if (tape_find(v) == NULL) {
        tape_fail(t, XCVM_INVALID_ARGUMENT,
                  "%s is stale: variable %llu was released, or ended with its scope, a reset, or a backward pass "
                  "without being kept",
                  what, (unsigned long long)v.serial);
        return NULL;
    }
    return v.at;
}

tape_variable *tape_resolve(xcvm_tape *t, xcvm_var v, const char *what)
{
    tape_variable *variable = tape_resolve_optional(t, v, what);
    if (variable == NULL)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%s is absent", what);
    return variable;
}

xcvm_var xcvm_var_keep(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable = TAPE_ENTER(tape, xcvm_var_keep) ? tape_resolve(tape, v, "the variable to keep") : NULL;
    if (variable == NULL)
        return TAPE_FAILED;
    tape_variable_keep(variable);
    return v;
}

void xcvm_var_release(xcvm_tape *tape, xcvm_var v)
{
    if (TAPE_ENTER(tape, xcvm_var_release) && v.at != NULL && v.at->tape == tape && v.at->serial == v.serial &&
        v.at->named)
        tape_variable_unname(v.at);
}

/* ---- Elements ---- */

const xcvm_value *tape_variable_type(const tape_variable *v)
{
    return v->tape->mode->builds && v->built != NULL ? &v->built->type : &v->value.type;
}

bool tape_variable_can_have_gradient(const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    if (type->kind == XCVM_KIND_TENSOR)
        return xcvm_dtype_is_float((xcvm_dtype)type->dtype);
    return type->dtype == XCVM_NO_DTYPE || xcvm_dtype_is_float((xcvm_dtype)type->dtype);
}

void tape_variable_require(tape_variable *v, bool wanted)
{
    v->requires = wanted;
    v->value.kind = wanted ? XCC_RESULT : XCC_CONSTANT;
}

xcvm_status tape_variable_allocate(xcvm_tape *t, tape_variable *v)
{
    xcvm_value *type = &v->value.type;
    xcvm_storage *storage;
    size_t count;
    char text[192];
    if (!xcvm_tensor_size((xcvm_dtype)type->dtype, type->rank, type->dims, &count, &type->bytes))
        return tape_fail(t, XCVM_OUT_OF_RANGE, "a result, %s, is too large",
                         xcvm_value_describe(type, text, sizeof text));
    XCVM_TRY(xcvm_heap_allocate(t->kernel.heap, type->bytes, &storage, &t->error));
    type->storage = storage;
    type->data = storage->data;
    type->memory_kind = XCVM_MEMORY_OWNED;
    return XCVM_OK;
}

tape_variable *tape_tensor(xcvm_tape *t, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    tape_variable *v = tape_variable_create(t);
    if (v == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->value.type, dtype, rank, dims);
    if (tape_latch_failure(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        tape_variable_unname(v);
        return NULL;
    }
    if (data != NULL && v->value.type.bytes > 0)
        memcpy(v->value.type.data, data, v->value.type.bytes);
    return v;
}

tape_variable *tape_variable_share(xcvm_tape *t, tape_variable *from)
{
    tape_variable *v = tape_evaluate(from) == XCVM_OK ? tape_variable_create(t) : NULL;
    if (v == NULL)
        return NULL;
    xcvm_value_share(&v->value.type, &from->value.type);
    if (t->tracer != NULL)
        t->tracer->functions->share(t->tracer, v, from);
    return v;
}

tape_variable *tape_eager_create_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank,
                                        const int64_t *dims, const void *data, size_t bytes)
{
    (void)kind;
    (void)bytes;
    tape_variable *v = tape_tensor(t, dtype, rank, dims, data);
    if (v != NULL && data == NULL)
        memset(v->value.type.data, 0, v->value.type.bytes);
    return v;
}

static tape_variable *create_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank, const int64_t *dims,
                                    const void *data)
{
    size_t count, bytes;
    if (xcvm_dtype_bits(dtype) == 0 || dtype == XCVM_STRING)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%d is no element type of tensors that are made of bytes", (int)dtype);
    else if (rank < 0 || rank > XCVM_MAX_RANK || (rank > 0 && dims == NULL))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "rank %d is not in [0, %d], or dims is NULL", rank, XCVM_MAX_RANK);
    else if (!xcvm_tensor_size(dtype, rank, dims, &count, &bytes))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a dimension is below 0, or the size of the tensor overflows");
    return t->failed ? NULL : t->mode->create_tensor(t, kind, dtype, rank, dims, data, bytes);
}

xcvm_var xcvm_tape_constant(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    const tape_variable *v =
        TAPE_ENTER(tape, xcvm_tape_constant) ? create_tensor(tape, XCC_CONSTANT, dtype, rank, dims, data) : NULL;
    return v != NULL ? tape_handle(v) : TAPE_FAILED;
}

xcvm_var xcvm_tape_parameter(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    const bool usable = TAPE_ENTER(tape, xcvm_tape_parameter);
    if (usable && xcvm_dtype_bits(dtype) != 0 && !xcvm_dtype_is_float(dtype))
        tape_fail(tape, XCVM_TYPE_MISMATCH, "a parameter is of a float type, not %s", xcvm_dtype_name(dtype));
    tape_variable *v = usable && !tape->failed ? create_tensor(tape, XCC_PARAMETER, dtype, rank, dims, data) : NULL;
    if (v == NULL)
        return TAPE_FAILED;
    tape_variable_keep(v);
    tape_variable_require(v, true);
    return tape_handle(v);
}

xcvm_var xcvm_tape_scalar(xcvm_tape *tape, xcvm_dtype dtype, double number)
{
    uint64_t element = 0;
    if (!TAPE_ENTER(tape, xcvm_tape_scalar))
        return TAPE_FAILED;
    if (xcvm_dtype_bits(dtype) == 0 || !xcvm_dtype_in(dtype, XCVM_TYPES_REAL_OR_BOOL)) {
        tape_fail(tape, XCVM_TYPE_MISMATCH, "a number cannot become %s", xcvm_dtype_name(dtype));
        return TAPE_FAILED;
    }
    xcvm_store_f64(dtype, &element, 0, 1, &number, false);
    return xcvm_tape_constant(tape, dtype, 0, NULL, &element);
}

xcvm_var xcvm_tape_value(xcvm_tape *tape, const xcvm_value *value)
{
    if (!TAPE_ENTER(tape, xcvm_tape_value))
        return TAPE_FAILED;
    if (value == NULL) {
        tape_fail(tape, XCVM_INVALID_ARGUMENT, "value is NULL");
        return TAPE_FAILED;
    }
    tape_variable *v = tape_variable_create(tape);
    if (v == NULL)
        return TAPE_FAILED;
    const xcvm_retention retention = {.heap = tape->kernel.heap, .share = true};
    v->value.type = (xcvm_value){.refs = 0};
    if (tape_latch_failure(tape, xcvm_value_retain_with(&retention, &v->value.type, value, &tape->error)) != XCVM_OK) {
        tape_variable_unname(v);
        return TAPE_FAILED;
    }
    return tape_handle(v);
}

xcvm_status xcvm_var_get_value(xcvm_tape *tape, xcvm_var v, const xcvm_value **value, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_get_value, error);
    XCVM_CHECK(error, value != NULL, INVALID_ARGUMENT, "value is NULL");
    tape_variable *variable = tape_resolve(tape, v, "the variable whose value is asked for");
    if (variable == NULL || tape_evaluate(variable) != XCVM_OK)
        return tape_report(tape, error);
    *value = &variable->value.type;
    return XCVM_OK;
}

xcvm_status xcvm_var_get_type(xcvm_tape *tape, xcvm_var v, xcvm_type *type, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_get_type, error);
    XCVM_CHECK(error, type != NULL, INVALID_ARGUMENT, "type is NULL");
    const tape_variable *variable = tape_resolve(tape, v, "the variable whose type is asked for");
    if (variable == NULL)
        return tape_report(tape, error);
    const xcvm_value *own = tape_variable_type(variable);
    const bool is_tensor = own->kind == XCVM_KIND_TENSOR;
    *type =
        (xcvm_type){.kind = (xcvm_kind)own->kind, .dtype = (xcvm_dtype)own->dtype, .rank = is_tensor ? own->rank : -1};
    for (int i = 0; i < type->rank; i++) {
        type->dims[i] = own->dims[i];
        type->dim_names[i] = xcc_symbol_name(&tape->module, own->dims[i]);
    }
    return XCVM_OK;
}

double xcvm_var_get_number(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable =
        TAPE_ENTER(tape, xcvm_var_get_number) ? tape_resolve(tape, v, "the variable whose number is asked for") : NULL;
    if (variable == NULL)
        return NAN;
    const xcvm_value *type = &variable->value.type;
    char text[192];
    if (type->kind != XCVM_KIND_TENSOR || !xcvm_dtype_in(type->dtype, XCVM_TYPES_REAL_OR_BOOL) ||
        xcvm_element_count(type) != 1) {
        tape_fail(tape, XCVM_SHAPE_MISMATCH, "one number was asked for, but the variable is %s",
                  xcvm_value_describe(type, text, sizeof text));
        return NAN;
    }
    if (tape_evaluate(variable) != XCVM_OK)
        return NAN;
    return type->dtype == XCVM_BOOL ? (double)*XCVM_CDATA(bool, type) : xcvm_element_as_double(type, 0);
}

xcvm_var xcvm_var_detach(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *from = TAPE_ENTER(tape, xcvm_var_detach) ? tape_resolve(tape, v, "the variable to detach") : NULL;
    const tape_variable *to = from != NULL ? tape_variable_share(tape, from) : NULL;
    return to != NULL ? tape_handle(to) : TAPE_FAILED;
}

void xcvm_var_unchain(xcvm_tape *tape, xcvm_var v)
{
    tape_variable *variable =
        TAPE_ENTER(tape, xcvm_var_unchain) ? tape_resolve(tape, v, "the variable to unchain") : NULL;
    if (variable == NULL || tape_evaluate(variable) != XCVM_OK)
        return;
    tape_op_record *creator = variable->creator;
    if (creator == NULL) {
        tape_variable_require(variable, false);
        variable->consumed = false;
        return;
    }
    /* The op stays for its other results, and its rule may read this one. */
    tape_variable *result = tape_variable_share(tape, variable);
    if (result == NULL)
        return;
    tape_replace_retained_result(creator, variable, result);
    if (tape->tracer != NULL)
        tape->tracer->functions->cut(tape->tracer, variable);
    tape_variable_require(result, variable->requires);
    tape_variable_require(variable, false);
    variable->consumed = false;
    creator->deferred = false;
    if (tape->mode->detach != NULL)
        tape->mode->detach(creator);
    tape_variable_unname(result);
}

xcvm_status xcvm_var_set_requires_gradient(xcvm_tape *tape, xcvm_var v, bool wanted, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_var_set_requires_gradient, error);
    tape_variable *variable = tape_resolve(tape, v, "the variable that is to have a gradient");
    if (variable == NULL)
        return tape_report(tape, error);
    char text[192];
    const xcvm_value *type = &variable->value.type;
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR && tape_variable_can_have_gradient(variable), TYPE_MISMATCH,
               "the variable is %s; only tensors of float types have gradients",
               xcvm_value_describe(type, text, sizeof text));
    XCVM_CHECK(error, (variable->creator == NULL || !variable->creator->differentiable) && !variable->consumed,
               INVALID_ARGUMENT, "a call made the variable; detach it to begin anew");
    if (variable->creator != NULL)
        xcvm_var_unchain(tape, v);
    XCVM_TRY(tape_report(tape, error));
    tape_variable_require(variable, wanted);
    return XCVM_OK;
}

bool xcvm_var_requires_gradient(xcvm_tape *tape, xcvm_var v)
{
    const tape_variable *variable =
        TAPE_ENTER(tape, xcvm_var_requires_gradient) ? tape_resolve(tape, v, "the variable that is asked about") : NULL;
    return variable != NULL && variable->requires;
}
