/* Shape rules of RNN, GRU and LSTM, and of their packed forms. */
#include "ops/matmul/quantized_blocks_shape.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/recurrent/recurrent_weights.h"

static int64_t attribute(const xcvm_inference *t, const char *name)
{
    for (size_t i = 0; i < t->schema->field_count; i++) {
        const xcvm_field *f = &t->schema->fields[i];
        if (strcmp(f->name, name) != 0)
            continue;
        const char *at = (const char *)t->args + f->offset;
        return f->kind == XCVM_FIELD_INT ? *(const int64_t *)(const void *)at : *(const int *)(const void *)at;
    }
    return 0;
}

/* Checks that an operand has the given shape, for known dimensions. */
static xcvm_status expect(const xcvm_inference *t, const xcvm_value *v, const char *what, int rank, const int64_t *dims)
{
    if (v == NULL || v->rank < 0)
        return XCVM_OK;
    char given[96], expected[96];
    bool fits = v->rank == rank;
    for (int d = 0; d < rank && fits; d++)
        fits = v->dims[d] < 0 || dims[d] < 0 || v->dims[d] == dims[d];
    XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "%s has the wrong shape (%s; expected %s)", what,
               xcvm_dims_describe(v->rank, v->dims, given, sizeof given),
               xcvm_dims_describe(rank, dims, expected, sizeof expected));
    return XCVM_OK;
}

/* Sizes from an instruction's attributes and x. Unknown sizes are XCVM_ANY_DIM. */
typedef struct network {
    int64_t gates, hidden, layout, directions;
    int64_t steps, batch, columns; /* from x */
} network;

static xcvm_status read_network(const xcvm_inference *t, int64_t gates, network *n)
{
    const xcvm_value *x = t->in[0];
    *n = (network){.gates = gates, .steps = XCVM_ANY_DIM, .batch = XCVM_ANY_DIM, .columns = XCVM_ANY_DIM};
    n->hidden = attribute(t, "hidden_size");
    n->layout = attribute(t, "layout");
    n->directions = attribute(t, "direction") == XCVM_DIRECTION_bidirectional ? 2 : 1;
    XCVM_CHECK(t->error, x->rank < 0 || x->rank == 3, SHAPE_MISMATCH, "x has the wrong rank (%d; expected 3)", x->rank);
    if (x->rank == 3) {
        n->steps = x->dims[n->layout];
        n->batch = x->dims[1 - n->layout];
        n->columns = x->dims[2];
    }
    return XCVM_OK;
}

/* Checks the operands that do not depend on the form of weights, NULL if absent, and sets the results. */
static xcvm_status states(const xcvm_inference *t, const network *n, const xcvm_value *lengths,
                          const xcvm_value *initial_h, const xcvm_value *initial_c, const xcvm_value *p)
{
    XCVM_TRY(expect(t, lengths, "sequence_lens", 1, &n->batch));
    const int64_t state[] = {n->layout ? n->batch : n->directions, n->layout ? n->directions : n->batch, n->hidden};
    XCVM_TRY(expect(t, initial_h, "initial_h", 3, state));
    XCVM_TRY(expect(t, initial_c, "initial_c", 3, state));
    XCVM_TRY(expect(t, p, "p", 2, (const int64_t[]){n->directions, 3 * n->hidden}));
    const int64_t all[] = {n->layout ? n->batch : n->steps, n->layout ? n->steps : n->directions,
                           n->layout ? n->directions : n->batch, n->hidden};
    for (size_t i = 0; i < t->out_count; i++)
        if (t->out[i] != NULL)
            xcvm_value_set_tensor(t->out[i], (xcvm_dtype)t->in[0]->dtype, i == 0 ? 4 : 3, i == 0 ? all : state);
    return XCVM_OK;
}

XCVM_SHAPE_RULE(recurrent)
{
    const xcvm_recurrent_form form = xcvm_recurrent_form_of(t->schema->opcode);
    const bool is_lstm = form.cell == XCVM_OP_LSTM;
    network n;
    XCVM_TRY(read_network(t, form.gates, &n));
    const int64_t rows = n.gates * n.hidden;
    XCVM_TRY(expect(t, t->in[1], "w", 3, (const int64_t[]){n.directions, rows, n.columns}));
    XCVM_TRY(expect(t, t->in[2], "r", 3, (const int64_t[]){n.directions, rows, n.hidden}));
    XCVM_TRY(expect(t, t->in[3], "b", 2, (const int64_t[]){n.directions, 2 * rows}));
    return states(t, &n, t->in[4], t->in[5], is_lstm ? t->in[6] : NULL, is_lstm ? t->in[7] : NULL);
}

/* The columns of the recurrence weights may exceed the limit of a matrix in blocks. */
static xcvm_status check_blocks(const xcvm_inference *t, const network *n, int64_t panels)
{
    const xcvm_qblocks_operands operands = {"r",
                                            t->in[1],
                                            t->in[2],
                                            t->in[3],
                                            n->hidden,
                                            panels * XCVM_PACKED_COLUMNS,
                                            attribute(t, "bits"),
                                            attribute(t, "block_size")};
    XCVM_CHECK(t->error, operands.columns <= INT32_MAX, OUT_OF_RANGE, "there are %lld units, which are too many",
               (long long)n->hidden);
    return xcvm_qblocks_check(t, &operands);
}

/* Checks recurrence weights of s8, with a sum and a scale per column. */
static xcvm_status check_bytes(const xcvm_inference *t, const network *n, int64_t panels)
{
    const int64_t quads = n->hidden / XCVM_QUAD + (n->hidden % XCVM_QUAD != 0), columns = panels * XCVM_PACKED_COLUMNS;
    XCVM_TRY(expect(t, t->in[1], "r", 4, (const int64_t[]){panels, quads, XCVM_QUANTIZED_OUTPUTS, XCVM_QUAD}));
    XCVM_TRY(expect(t, t->in[2], "sums", 1, &columns));
    return expect(t, t->in[3], "scale", 1, &columns);
}

/* Checks r in the form of its instruction, and related operands: *count of them, from the second. */
static xcvm_status check_weights(const xcvm_inference *t, const network *n, xcvm_recurrent_weights weights,
                                 size_t *count)
{
    const int64_t panels = n->directions * n->gates * (int64_t)xcvm_packed_panels((size_t)n->hidden);
    XCVM_CHECK(t->error, n->columns < 0 || n->columns == panels * XCVM_PACKED_COLUMNS, SHAPE_MISMATCH,
               "x has the wrong number of columns (%lld; expected %lld panels of %d)", (long long)n->columns,
               (long long)panels, XCVM_PACKED_COLUMNS);
    *count = weights == XCVM_RECURRENT_PANELS ? 1 : 3;
    if (weights == XCVM_RECURRENT_BLOCKS)
        return check_blocks(t, n, panels);
    if (weights == XCVM_RECURRENT_BYTES)
        return check_bytes(t, n, panels);
    return expect(t, t->in[1], "r", 3, (const int64_t[]){panels, n->hidden, XCVM_PACKED_COLUMNS});
}

XCVM_SHAPE_RULE(packed_recurrent)
{
    const xcvm_recurrent_form form = xcvm_recurrent_form_of(t->schema->opcode);
    const bool is_lstm = form.cell == XCVM_OP_LSTM;
    network n;
    size_t count;
    XCVM_TRY(read_network(t, form.gates, &n));
    XCVM_TRY(check_weights(t, &n, form.weights, &count));
    const xcvm_value *const *in = t->in + 1 + count;
    if (form.cell == XCVM_OP_GRU)
        XCVM_TRY(expect(t, *in++, "b", 2, (const int64_t[]){n.directions, n.hidden}));
    return states(t, &n, in[0], in[1], is_lstm ? in[2] : NULL, is_lstm ? in[3] : NULL);
}
