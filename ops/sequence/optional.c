/* Optionals: lists of at most one value. */
#include "ops/util/move.h"
#include "ops/sequence/sequence.h"

XCVM_SHAPE_RULE_OF(Optional)
{
    XCVM_CHECK(t->error, a->xs.count <= 1, INVALID_ARGUMENT, "an optional holds at most one value, not %zu",
               a->xs.count);
    xcvm_set_list(a->y, XCVM_KIND_OPTIONAL, a->xs.count != 0 && a->xs.at[0] != NULL ? a->xs.at[0]->dtype : 0);
    return XCVM_OK;
}

XCVM_KERNEL(Optional)
{
    const xcvm_value *x = a->xs.count != 0 ? a->xs.at[0] : NULL;
    if (x != NULL && x->kind == XCVM_KIND_NULL)
        x = NULL;
    XCVM_TRY(xcvm_kernel_allocate_list(k, a->y, XCVM_KIND_OPTIONAL, a->y->dtype, x != NULL));
    return x != NULL ? xcvm_list_place(k, a->y, 0, x) : XCVM_OK;
}

XCVM_SHAPE_RULE_OF(OptionalGetElement)
{
    (void)t;
    const xcvm_value *x = a->x;
    if (x->kind == XCVM_KIND_OPTIONAL) {
        /* The kind of the value is known only if the value is. */
        xcvm_set_list(a->y, x->data != NULL && x->count != 0 ? xcvm_items(x)->kind : XCVM_KIND_NULL, x->dtype);
    } else {
        xcvm_value_set_tensor(a->y, a->x->dtype, a->x->rank, a->x->dims);
        a->y->kind = a->x->kind;
    }
    return XCVM_OK;
}

XCVM_KERNEL(OptionalGetElement)
{
    const xcvm_value *x = a->x;
    XCVM_CHECK(k->error, x->kind != XCVM_KIND_NULL && (x->kind != XCVM_KIND_OPTIONAL || x->count != 0), OUT_OF_RANGE,
               "the optional is empty");
    if (x->kind == XCVM_KIND_OPTIONAL)
        x = xcvm_items(x);
    if (x->kind == XCVM_KIND_TENSOR && a->y->data != NULL)
        return xcvm_move_all(k, a->y, x);
    xcvm_value_clear(a->y);
    return xcvm_kernel_keep(k, a->y, x);
}

XCVM_KERNEL(OptionalHasElement)
{
    (void)k;
    const xcvm_value *x = a->x.count != 0 ? a->x.at[0] : NULL;
    *XCVM_DATA(uint8_t, a->y) =
        x != NULL && x->kind != XCVM_KIND_NULL && (x->kind != XCVM_KIND_OPTIONAL || x->count != 0);
    return XCVM_OK;
}
