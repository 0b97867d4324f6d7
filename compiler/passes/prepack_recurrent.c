/* Recurrent networks with constant weights: the product with all of x becomes a PackedGemm, and the time loop uses its
 * result. */
#include "compiler/passes/prepack.h"

#include "ops/matmul/packed.h"

/* Common description of RNN, GRU and LSTM. */
typedef struct network {
    const xcvm_value *x, *w, *r, *b;
    size_t gates, hidden, inputs, directions;
    bool reset_bias; /* the hidden gate's recurrence bias is added within the reset */
} network;

static bool read_network(const xcc_node *n, network *k)
{
    int direction;
#define COMMON(Name, gate_count)                                                                                       \
    case XCVM_OP_##Name: {                                                                                             \
        const xcvm_##Name##_args *a = XCC_ARGS(Name, n);                                                               \
        *k = (network){.x = a->x, .w = a->w, .r = a->r, .b = a->b, .gates = (gate_count)};                             \
        k->hidden = (size_t)a->hidden_size;                                                                            \
        direction = a->direction;                                                                                      \
        break;                                                                                                         \
    }
    switch (n->schema->opcode) {
        COMMON(RNN, 1)
        COMMON(GRU, 3)
        COMMON(LSTM, 4)
    default:
        return false;
    }
#undef COMMON
    k->reset_bias = xcc_is(n, XCVM_OP_GRU) && XCC_ARGS(GRU, n)->linear_before_reset && k->b != NULL;
    if (k->w->dtype != XCVM_F32 || !xcc_is_constant(xcc_value_of(k->w)) || !xcc_is_constant(xcc_value_of(k->r)) ||
        (k->b != NULL && !xcc_is_constant(xcc_value_of(k->b))))
        return false;
    k->inputs = (size_t)k->w->dims[2];
    k->directions = direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    return true;
}

/* The packed weights, and the combined biases; NULL where absent. */
typedef struct constants {
    xcc_value *w, *r, *bias, *reset_bias;
} constants;

static bool pack(xcc_rewrite *r, const network *k, constants *made)
{
    const size_t panels = xcvm_packed_panels(k->hidden) * k->gates, width = panels * XCVM_PACKED_COLUMNS;
    const int64_t all = (int64_t)(k->directions * panels), columns = (int64_t)(k->directions * width);
    const int64_t w_dims[] = {all, (int64_t)k->inputs, XCVM_PACKED_COLUMNS};
    const int64_t r_dims[] = {all, (int64_t)k->hidden, XCVM_PACKED_COLUMNS};
    const int64_t reset_dims[] = {(int64_t)k->directions, (int64_t)k->hidden};
    float *w = xcc_pack_floats(r, 3, w_dims, &made->w), *state = xcc_pack_floats(r, 3, r_dims, &made->r);
    float *bias = k->b != NULL ? xcc_pack_floats(r, 1, &columns, &made->bias) : NULL;
    float *reset = k->reset_bias ? xcc_pack_floats(r, 2, reset_dims, &made->reset_bias) : NULL;
    if (r->status != XCVM_OK)
        return false;
    const size_t rows = k->gates * k->hidden;
    for (size_t d = 0; d < k->directions; d++) {
        xcvm_packed_write_gates(k->inputs, k->gates, k->hidden, XCVM_CDATA(float, k->w) + d * rows * k->inputs,
                                w + d * width * k->inputs);
        xcvm_packed_write_gates(k->hidden, k->gates, k->hidden, XCVM_CDATA(float, k->r) + d * rows * k->hidden,
                                state + d * width * k->hidden);
        if (k->b != NULL)
            xcvm_packed_write_biases(k->gates, k->hidden, XCVM_CDATA(float, k->b) + d * 2 * rows, bias + d * width,
                                     k->reset_bias ? reset + d * k->hidden : NULL);
    }
    return true;
}

/* Creates new results where the old node has any. */
static bool make_results(xcc_rewrite *r, xcc_node *n, xcc_value **results)
{
    for (size_t i = 0; i < xcc_node_output_count(n); i++) {
        results[i] = xcc_node_output(n, i) != NULL ? xcc_value_create(n->graph, NULL) : NULL;
        if (xcc_node_output(n, i) != NULL && results[i] == NULL)
            return xcc_rewrite_ok(r, r->m->error->status);
    }
    return true;
}

bool xcc_pack_recurrent(xcc_rewrite *r, xcc_node *n)
{
    enum { MOST_RESULTS = 3 };
    network k;
    constants made = {.w = NULL};
    xcc_value *y[MOST_RESULTS] = {NULL};
    if (!read_network(n, &k) || !xcc_may_copy(r->m, k.w->bytes + k.r->bytes) || !pack(r, &k, &made))
        return false;
    xcc_builder b = xcc_builder_before(n);
    xcc_value *x = xcc_apply(&b, PackedGemm, y, .a = k.x, .w = XCC_IN(made.w), .c = XCC_IN(made.bias),
                             .columns = made.w->type.dims[0] * XCVM_PACKED_COLUMNS, .activation = XCVM_ACTIVATION_none);
    if (x == NULL || !make_results(r, n, y))
        return xcc_rewrite_ok(r, r->m->error->status) && false;

#define COMMON                                                                                                         \
    .y = XCC_OUT(y[0]), .y_h = XCC_OUT(y[1]), .x = XCC_IN(x), .r = XCC_IN(made.r), .sequence_lens = a->sequence_lens,  \
    .initial_h = a->initial_h, .hidden_size = a->hidden_size, .direction = a->direction, .layout = a->layout,          \
    .activations = a->activations, .activation_alpha = a->activation_alpha, .activation_beta = a->activation_beta,     \
    .clip = a->clip
    xcc_node *packed;
    if (xcc_is(n, XCVM_OP_RNN)) {
        const xcvm_RNN_args *a = XCC_ARGS(RNN, n);
        packed = xcc_emit(&b, PackedRNN, COMMON);
    } else if (xcc_is(n, XCVM_OP_GRU)) {
        const xcvm_GRU_args *a = XCC_ARGS(GRU, n);
        packed = xcc_emit(&b, PackedGRU, COMMON, .b = XCC_IN(made.reset_bias),
                          .linear_before_reset = a->linear_before_reset);
    } else {
        const xcvm_LSTM_args *a = XCC_ARGS(LSTM, n);
        packed = xcc_emit(&b, PackedLSTM, COMMON, .y_c = XCC_OUT(y[2]), .initial_c = a->initial_c, .p = a->p,
                          .input_forget = a->input_forget);
    }
#undef COMMON
    if (packed == NULL)
        return xcc_rewrite_ok(r, r->m->error->status) && false;
    bool done = false;
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        done = (y[i] != NULL && xcc_rewrite_replace(r, xcc_node_output(n, i), y[i])) || done;
    return done;
}
