/* Shape rules shared by many instructions. */
#include "ops/util/shape.h"

XCVM_SHAPE_RULE(control)
{
    switch (t->schema->opcode) {
    case XCVM_OP_JmpTrue:
    case XCVM_OP_JmpFalse: {
        bool known;
        XCVM_TRY(xcvm_scalar_check(t->error, t->in[0], "cond", &known));
        break;
    }
    case XCVM_OP_In:
        /* In takes a value that is declared elsewhere, of any kind. */
        xcvm_set_list(t->out[0], XCVM_KIND_NULL, XCVM_NO_DTYPE);
        break;
    default:
        break;
    }
    return XCVM_OK;
}

XCVM_SHAPE_RULE(same_value)
{
    xcvm_value *y = t->out[0];
    const xcvm_value *x = t->in[0];
    xcvm_value_set_tensor(y, x->dtype, x->rank, x->dims);
    y->kind = x->kind;
    return XCVM_OK;
}

XCVM_SHAPE_RULE(same)
{
    xcvm_value_set_tensor(t->out[0], t->out[0]->dtype, t->in[0]->rank, t->in[0]->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE(predicate)
{
    xcvm_value_set_tensor(t->out[0], XCVM_BOOL, t->in[0]->rank, t->in[0]->dims);
    return XCVM_OK;
}

static xcvm_status broadcast(const xcvm_inference *t, xcvm_dtype dtype)
{
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    XCVM_TRY(xcvm_broadcast_shapes(t->error, t->in[0], t->in[1], &rank, dims));
    xcvm_value_set_tensor(t->out[0], dtype, rank, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE(broadcast) { return broadcast(t, t->out[0]->dtype); }

XCVM_SHAPE_RULE(broadcast_predicate) { return broadcast(t, XCVM_BOOL); }

XCVM_SHAPE_RULE_OF(Where)
{
    int rank;
    int64_t dims[XCVM_MAX_RANK];
    xcvm_value choice = {.rank = 0};
    XCVM_TRY(xcvm_broadcast_shapes(t->error, a->x, a->z, &rank, dims));
    xcvm_value_set_tensor(&choice, XCVM_NO_DTYPE, rank, dims);
    XCVM_TRY(xcvm_broadcast_shapes(t->error, a->condition, &choice, &rank, dims));
    xcvm_value_set_tensor(a->y, a->y->dtype, rank, dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE_OF(Cast)
{
    XCVM_CHECK(t->error, xcvm_dtype_bits(a->to) != 0, INVALID_ARGUMENT, "to must be an element type");
    xcvm_value_set_tensor(a->y, a->to, a->x->rank, a->x->dims);
    return XCVM_OK;
}

XCVM_SHAPE_RULE(scalar_i64)
{
    xcvm_value_set_tensor(t->out[0], XCVM_I64, 0, NULL);
    return XCVM_OK;
}

XCVM_SHAPE_RULE(scalar_bool)
{
    xcvm_value_set_tensor(t->out[0], XCVM_BOOL, 0, NULL);
    return XCVM_OK;
}
