/* BitCast: the same bits as another type of equal width. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(BitCast)
{
    const xcvm_dtype from = (xcvm_dtype)a->x->dtype;
    XCVM_CHECK(t->error, xcvm_dtype_in(a->to, XCVM_TYPES_ANY & ~XCVM_TYPES_STRING), INVALID_ARGUMENT,
               "to is not supported (%s; expected an element type other than str)", xcvm_dtype_name(a->to));
    XCVM_CHECK(t->error, from != XCVM_STRING, TYPE_MISMATCH, "x is str, whose bits are no number");
    XCVM_CHECK(t->error, from == XCVM_NO_DTYPE || xcvm_dtype_bits(from) == xcvm_dtype_bits(a->to), TYPE_MISMATCH,
               "x is %s of %d bits, which is not the width of %s", xcvm_dtype_name(from), xcvm_dtype_bits(from),
               xcvm_dtype_name(a->to));
    xcvm_value_set_tensor(a->y, a->to, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_KERNEL(BitCast)
{
    const uint8_t *x = a->x->data;
    uint8_t *y = a->y->data;
    if (a->to != XCVM_BOOL)
        return xcvm_kernel_copy(k, y, x, a->y->bytes);
    /* A bool must be 0 or 1. */
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < a->y->bytes; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        y[i] = x[i] != 0;
    }
    return XCVM_OK;
}
