/* The shape rule of RNN, GRU and LSTM. */
#include "ops/shape.h"

static int64_t attribute(const xcvm_typing *t, const char *name)
{
    for (size_t i = 0; i < t->row->field_count; i++) {
        const xcvm_field *f = &t->row->fields[i];
        if (strcmp(f->name, name) != 0)
            continue;
        const char *at = (const char *)t->args + f->offset;
        return f->kind == XCVM_FIELD_INT ? *(const int64_t *)(const void *)at : *(const int *)(const void *)at;
    }
    return 0;
}

/* Checks that an operand has the shape given, where both are known. */
static xcvm_status expect(const xcvm_typing *t, const xcvm_value *v, const char *what, int rank, const int64_t *dims)
{
    if (v == NULL || v->rank < 0)
        return XCVM_OK;
    char given[96], expected[96];
    bool fits = v->rank == rank;
    for (int d = 0; d < rank && fits; d++)
        fits = v->dims[d] < 0 || dims[d] < 0 || v->dims[d] == dims[d];
    XCVM_REQUIRE(t, fits, SHAPE_MISMATCH, "%s has shape %s, %s is needed", what,
                 xcvm_dims_describe(v->rank, v->dims, given, sizeof given),
                 xcvm_dims_describe(rank, dims, expected, sizeof expected));
    return XCVM_OK;
}

XCVM_SHAPE_RULE(recurrent)
{
    const int64_t gates = t->row->opcode == XCVM_OP_RNN ? 1 : t->row->opcode == XCVM_OP_GRU ? 3 : 4;
    const int64_t hidden = attribute(t, "hidden_size"), layout = attribute(t, "layout");
    const int64_t directions = attribute(t, "direction") == XCVM_DIRECTION_bidirectional ? 2 : 1;
    const xcvm_value *x = t->in[0];
    XCVM_REQUIRE(t, x->rank < 0 || x->rank == 3, SHAPE_MISMATCH, "x has rank %d, 3 is needed", x->rank);
    int64_t steps = XCVM_ANY_DIM, batch = XCVM_ANY_DIM, inputs = XCVM_ANY_DIM;
    if (x->rank == 3) {
        steps = x->dims[layout];
        batch = x->dims[1 - layout];
        inputs = x->dims[2];
    }
    XCVM_TRY(expect(t, t->in[1], "w", 3, (const int64_t[]){directions, gates * hidden, inputs}));
    XCVM_TRY(expect(t, t->in[2], "r", 3, (const int64_t[]){directions, gates * hidden, hidden}));
    XCVM_TRY(expect(t, t->in[3], "b", 2, (const int64_t[]){directions, 2 * gates * hidden}));
    XCVM_TRY(expect(t, t->in[4], "sequence_lens", 1, &batch));
    const int64_t state[] = {layout ? batch : directions, layout ? directions : batch, hidden};
    XCVM_TRY(expect(t, t->in[5], "initial_h", 3, state));
    if (t->row->opcode == XCVM_OP_LSTM) {
        XCVM_TRY(expect(t, t->in[6], "initial_c", 3, state));
        XCVM_TRY(expect(t, t->in[7], "p", 2, (const int64_t[]){directions, 3 * hidden}));
    }
    const int64_t all[] = {layout ? batch : steps, layout ? steps : directions, layout ? directions : batch, hidden};
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL)
            xcvm_value_set_tensor(t->out[i], (xcvm_dtype)x->dtype, i == 0 ? 4 : 3, i == 0 ? all : state);
    return XCVM_OK;
}
