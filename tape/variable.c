/* Variables: their names and references, their elements. */
#include "base/keep.h"
#include "ops/table/table.h"
#include "ops/util/convert.h"
#include "tape/batch.h"

#include <math.h>
#include <string.h>

/* ---- Names and references ---- */

static void unlink(tape_variable *v)
{
    if (v->previous != NULL)
        v->previous->next = v->next;
    else
        v->tape->kept_first = v->next;
    if (v->next != NULL)
        v->next->previous = v->previous;
    v->previous = v->next = NULL;
}

/* All references but one are counted down together, the last by who destroys the storage with it. */
static void end_parting(tape_parting *p)
{
    if (p->count > 1)
        __atomic_fetch_sub(&p->storage->refs, p->count - 1, __ATOMIC_RELEASE);
    xcvm_storage_release(p->storage);
    *p = (tape_parting){0};
}

void tape_partings_end(xcvm_tape *t)
{
    for (; t->parted != 0; t->parted &= t->parted - 1)
        end_parting(&t->parting[__builtin_ctz(t->parted)]);
}

/* Gives a reference back: while calls are removed, with others to the same storage. */
static void part_with(xcvm_tape *t, xcvm_storage *storage)
{
    if (storage == NULL || !t->removing) {
        xcvm_storage_release(storage);
        return;
    }
    const uint32_t at = (uint32_t)(((uintptr_t)storage / XCVM_ALIGNMENT * UINT32_C(0x9e3779b1) & UINT32_MAX) >>
                                   (32 - TAPE_PARTING_BITS));
    tape_parting *p = &t->parting[at];
    if (p->storage != storage) {
        end_parting(p);
        p->storage = storage;
        t->parted |= UINT32_C(1) << at;
    }
    p->count++;
}

static void lend(tape_variable *v)
{
    v->refs++;
    v->lenders++;
}

static void take_back(tape_variable *v)
{
    v->lenders--;
    tape_variable_release(v);
}

static void destroy(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    tape_variable *gradient = v->equipped ? v->gradient : NULL, *left = v->equipped ? v->left : NULL;
    while (v->equipped && v->hooks != NULL) {
        tape_hook *next = v->hooks->next;
        tape_give_back(t, v->hooks, sizeof *v->hooks);
        v->hooks = next;
    }
    if (v->by_rows) {
        tape_rows_drop(t, &v->rows);
        tape_rows_drop(t, &v->coming);
    }
    if (v->packed)
        tape_panels_release(v);
    part_with(t, v->value.type.storage);
    v->value.type.storage = NULL;
    tape_slot_give_back(v);
    if (gradient != NULL) {
        v->gradient = NULL;
        take_back(gradient);
    }
    if (left != NULL) {
        v->left = NULL;
        take_back(left);
    }
}

void tape_variable_set_gradient(tape_variable *v, tape_variable *gradient)
{
    tape_variable *before = v->gradient, *left = v->left;
    v->gradient = gradient;
    v->left = NULL;
    if (gradient != NULL) {
        v->equipped = true;
        gradient->lenders++;
    }
    if (before != NULL)
        take_back(before);
    if (left != NULL)
        take_back(left);
}

void tape_variable_set_factors(tape_variable *v, tape_variable *left, tape_variable *right)
{
    right->refs++;
    tape_variable_set_gradient(v, right);
    lend(left);
    v->left = left;
}

tape_variable *tape_variable_gradient(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (v->left == NULL)
        return v->gradient;
    const xcvm_value *type = &v->value.type;
    tape_variable *product = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    if (product == NULL)
        return NULL;
    const xcvm_Gemm_args args = {.y = &product->value.type,
                                 .a = &v->left->value.type,
                                 .b = &v->gradient->value.type,
                                 .alpha = 1,
                                 .beta = 1,
                                 .transA = 1};
    const bool made = tape_stick(t, xcvm_kernel_of(XCVM_OP_Gemm)(&t->kernel, &args)) == XCVM_OK;
    if (made) {
        product->refs++;
        tape_variable_set_gradient(v, product);
    }
    tape_variable_unname(product);
    return made ? product : NULL;
}

void tape_variable_clear_gradient(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (t->tracer != NULL && !t->failed)
        t->tracer->functions->clear(t->tracer, v);
    tape_variable_set_gradient(v, NULL);
    tape_rows_drop(t, &v->rows);
}

bool tape_record_is_dead(const tape_record *r)
{
    /* A walk that is to come by brings what its operands' gradients are made of. */
    if (r->busy || r->walk != NULL || (r->batch != NULL && r->batch->walk != NULL))
        return false;
    for (uint32_t i = 0; i < r->out_count; i++)
        if (r->out[i] != NULL && r->out[i]->refs > 0)
            return false;
    return true;
}

void tape_variable_release(tape_variable *v)
{
    if (--v->refs > 0) {
        if (v->readers == 0 && v->refs == v->uses)
            tape_spare(v);
        return;
    }
    if (v->creator == NULL)
        destroy(v);
    else if (tape_record_is_dead(v->creator))
        tape_record_remove(v->creator);
}

void tape_variable_unname(tape_variable *v)
{
    if (v->kept)
        unlink(v);
    else
        v->tape->named--;
    v->named = v->kept = false;
    tape_variable_release(v);
}

void tape_variable_keep(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (v->kept)
        return;
    if (v->named)
        t->named--;
    else
        v->refs++;
    v->named = v->kept = true;
    v->next = t->kept_first;
    if (v->next != NULL)
        v->next->previous = v;
    t->kept_first = v;
}

tape_variable *tape_operand(xcvm_tape *t, xcvm_var v, const char *what)
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
        tape_fail(
            t, XCVM_INVALID_ARGUMENT,
            "%s is stale: variable %llu was released, went with its scope or a reset, or was passed by a backward "
            "and not kept",
            what, (unsigned long long)v.serial);
        return NULL;
    }
    return v.at;
}

tape_variable *tape_resolve(xcvm_tape *t, xcvm_var v, const char *what)
{
    tape_variable *variable = tape_operand(t, v, what);
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

bool tape_carries(const tape_variable *v)
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
    tape_variable *v = tape_variable_make(t);
    if (v == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->value.type, dtype, rank, dims);
    if (tape_stick(t, tape_variable_allocate(t, v)) != XCVM_OK) {
        tape_variable_unname(v);
        return NULL;
    }
    if (data != NULL && v->value.type.bytes > 0)
        memcpy(v->value.type.data, data, v->value.type.bytes);
    return v;
}

tape_variable *tape_variable_share(xcvm_tape *t, tape_variable *from)
{
    tape_variable *v = tape_evaluate(from) == XCVM_OK ? tape_variable_make(t) : NULL;
    if (v == NULL)
        return NULL;
    xcvm_value_share(&v->value.type, &from->value.type);
    if (t->tracer != NULL)
        t->tracer->functions->share(t->tracer, v, from);
    return v;
}

/* A constant or a parameter of the graph. */
static tape_variable *build_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank, const int64_t *dims,
                                   const void *data, size_t bytes)
{
    xcc_module *m = &t->module;
    const void *zeros = data != NULL ? data : xcc_alloc(m, bytes);
    /* Parameters are the program's, wherever they are made. */
    xcc_value *v = zeros == NULL          ? NULL
                   : kind == XCC_CONSTANT ? xcc_constant(t->builder.graph, NULL, dtype, rank, dims, zeros, false)
                                          : xcc_parameter(m->graph, NULL, dtype, rank, dims, zeros, false);
    return tape_built(t, v);
}

static tape_variable *given_tensor(xcvm_tape *t, xcc_value_kind kind, xcvm_dtype dtype, int rank, const int64_t *dims,
                                   const void *data)
{
    size_t count, bytes;
    if (xcvm_dtype_bits(dtype) == 0 || dtype == XCVM_STRING)
        tape_fail(t, XCVM_INVALID_ARGUMENT, "%d is no element type of tensors that are made of bytes", (int)dtype);
    else if (rank < 0 || rank > XCVM_MAX_RANK || (rank > 0 && dims == NULL))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "rank %d is not in [0, %d], or dims is NULL", rank, XCVM_MAX_RANK);
    else if (!xcvm_tensor_size(dtype, rank, dims, &count, &bytes))
        tape_fail(t, XCVM_INVALID_ARGUMENT, "a dimension is below 0, or the size of the tensor overflows");
    if (!t->failed && t->building)
        return build_tensor(t, kind, dtype, rank, dims, data, bytes);
    tape_variable *v = t->failed ? NULL : tape_tensor(t, dtype, rank, dims, data);
    if (v != NULL && data == NULL)
        memset(v->value.type.data, 0, v->value.type.bytes);
    return v;
}

xcvm_var xcvm_tape_constant(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    const tape_variable *v =
        TAPE_ENTER(tape, xcvm_tape_constant) ? given_tensor(tape, XCC_CONSTANT, dtype, rank, dims, data) : NULL;
    return v != NULL ? tape_handle(v) : TAPE_FAILED;
}

xcvm_var xcvm_tape_parameter(xcvm_tape *tape, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data)
{
    const bool usable = TAPE_ENTER(tape, xcvm_tape_parameter);
    if (usable && xcvm_dtype_bits(dtype) != 0 && !xcvm_dtype_is_float(dtype))
        tape_fail(tape, XCVM_TYPE_MISMATCH, "a parameter is of a float type, not %s", xcvm_dtype_name(dtype));
    tape_variable *v = usable && !tape->failed ? given_tensor(tape, XCC_PARAMETER, dtype, rank, dims, data) : NULL;
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
    tape_variable *v = tape_variable_make(tape);
    if (v == NULL)
        return TAPE_FAILED;
    const xcvm_keeping keeping = {.heap = tape->kernel.heap, .share = true};
    v->value.type = (xcvm_value){.refs = 0};
    if (tape_stick(tape, xcvm_value_keep(&keeping, &v->value.type, value, &tape->error)) != XCVM_OK) {
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
    tape_record *creator = variable->creator;
    if (creator == NULL) {
        tape_variable_require(variable, false);
        variable->spent = false;
        return;
    }
    /* The call stays for its other results, if they are needed, and its rule may read this one. */
    tape_variable *result = tape_variable_share(tape, variable);
    if (result == NULL)
        return;
    tape_retain_instead(creator, variable, result);
    if (tape->tracer != NULL)
        tape->tracer->functions->cut(tape->tracer, variable);
    tape_variable_require(result, variable->requires);
    tape_variable_require(variable, false);
    variable->spent = false;
    creator->deferred = false;
    if (creator->batch != NULL)
        tape_batch_release(creator->batch);
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
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR && tape_carries(variable), TYPE_MISMATCH,
               "the variable is %s; only tensors of float types have gradients",
               xcvm_value_describe(type, text, sizeof text));
    XCVM_CHECK(error, (variable->creator == NULL || !variable->creator->flows) && !variable->spent, INVALID_ARGUMENT,
               "a call made the variable; detach it to begin anew");
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
