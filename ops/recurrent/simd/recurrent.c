/* RNN, GRU and LSTM, and their packed forms. Products with x are hoisted out of the time loop as one product. Weights
 * in ONNX's form are packed first. Gates are computed in f32. */
#include "ops/recurrent/simd/recurrent.h"
#include "ops/util/floats.h"
#include "ops/matmul/simd/gemm.h"

/* Reads common attributes and the dimensions of x, and checks that lengths are in range. */
static xcvm_status read_network(xcvm_kernel *k, xcvm_recurrent *n, const xcvm_value *x, xcvm_texts names,
                                xcvm_floats alphas, xcvm_floats betas)
{
    n->directions = n->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    n->steps = (size_t)x->dims[n->batch_first ? 1 : 0];
    n->batch = (size_t)x->dims[n->batch_first ? 0 : 1];
    XCVM_TRY(xcvm_recurrent_functions_read(k->error, n->op, n->directions, names, alphas, betas, n->f));
    if (n->lengths != NULL)
        for (size_t b = 0; b < n->batch; b++) {
            const int32_t length = XCVM_CDATA(int32_t, n->lengths)[b];
            XCVM_CHECK(k->error, length >= 0 && (size_t)length <= n->steps, OUT_OF_RANGE,
                       "sequence_lens[%zu] is %d, x has %zu steps", b, length, n->steps);
        }
    return XCVM_OK;
}

/* ---- Weights in ONNX's form ---- */

typedef struct weights {
    const xcvm_value *x, *w, *r, *b;
} weights;

typedef struct buffers {
    float *x, *rows, *w, *r, *bias, *reset_bias, *projected;
    char *rest;
} buffers;

/* One direction's weights as floats. */
static const float *direction_of(const xcvm_value *v, size_t d, size_t count, float *copy)
{
    if (v->dtype == XCVM_F32)
        return XCVM_CDATA(float, v) + d * count;
    xcvm_read_floats(v, d * count, count, copy);
    return copy;
}

static void pack(const xcvm_recurrent *n, const weights *from, size_t inputs, const buffers *s)
{
    const size_t rows = n->gates * n->hidden, width = xcvm_recurrent_width(n);
    for (size_t d = 0; d < n->directions; d++) {
        xcvm_packed_write_gates(inputs, n->gates, n->hidden, direction_of(from->w, d, rows * inputs, s->rows),
                                s->w + d * width * inputs);
        xcvm_packed_write_gates(n->hidden, n->gates, n->hidden, direction_of(from->r, d, rows * n->hidden, s->rows),
                                s->r + d * width * n->hidden);
        if (from->b != NULL)
            xcvm_packed_write_biases(n->gates, n->hidden, direction_of(from->b, d, 2 * rows, s->rows),
                                     s->bias + d * width, n->reset_bias != NULL ? s->reset_bias + d * n->hidden : NULL);
    }
}

static xcvm_status get_buffers(xcvm_kernel *k, const xcvm_recurrent *n, const weights *from, size_t inputs, buffers *s)
{
    const bool f32 = from->x->dtype == XCVM_F32;
    const size_t width = xcvm_recurrent_width(n), all = width * n->directions;
    const size_t deepest = inputs > n->hidden ? inputs : n->hidden;
    const struct {
        float **at;
        size_t rows, more_rows, columns;
    } parts[] = {{&s->x, f32 ? 0 : n->steps, n->batch, inputs},
                 {&s->rows, f32 ? 0 : width, 1, deepest < 2 ? 2 : deepest},
                 {&s->w, all, 1, inputs},
                 {&s->r, all, 1, n->hidden},
                 {&s->bias, from->b != NULL ? all : 0, 1, 1},
                 {&s->reset_bias, n->directions, 1, n->hidden},
                 {&s->projected, n->steps, n->batch, all}};
    enum { PARTS = sizeof parts / sizeof *parts };
    size_t bytes = 0, at[PARTS], rest;
    for (int i = 0; i < PARTS; i++) {
        size_t part;
        at[i] = bytes;
        XCVM_CHECK(k->error,
                   xcvm_size_mul(parts[i].rows, parts[i].more_rows, &part) &&
                       xcvm_size_mul(part, parts[i].columns, &part) && part < SIZE_MAX / 8 &&
                       xcvm_size_add(bytes, xcvm_round_up(part * sizeof(float), XCVM_ALIGNMENT), &bytes),
                   OUT_OF_MEMORY, "the sequence is too large");
    }
    XCVM_CHECK(k->error, xcvm_recurrent_scratch(n, &rest) && xcvm_size_add(bytes, rest, &rest), OUT_OF_MEMORY,
               "the batch is too large");
    char *scratch = xcvm_kernel_scratch(k, rest);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (int i = 0; i < PARTS; i++)
        *parts[i].at = (float *)(void *)(scratch + at[i]);
    s->rest = scratch + bytes;
    return XCVM_OK;
}

static xcvm_status run_network(xcvm_kernel *k, xcvm_recurrent *n, const weights *from)
{
    const size_t inputs = (size_t)from->x->dims[2];
    static const float none = 0.0f;
    buffers s;
    n->weights = XCVM_RECURRENT_PANELS; /* they are packed to panels */
    /* Nonzero so that its memory is counted; set below. */
    if (from->b != NULL && n->op == XCVM_OP_GRU && n->linear_before_reset)
        n->reset_bias = &none;
    XCVM_TRY(get_buffers(k, n, from, inputs, &s));
    if (n->reset_bias != NULL)
        n->reset_bias = s.reset_bias;
    pack(n, from, inputs, &s);
    const float *x = from->x->data;
    if (from->x->dtype != XCVM_F32) {
        XCVM_TRY(xcvm_kernel_read_floats(k, from->x, 0, n->steps * n->batch * inputs, s.x));
        x = s.x;
    }
    const size_t all = xcvm_recurrent_width(n) * n->directions;
    const xcvm_gemm_batch projection = {.count = 1,
                                        .shape = {.m = n->steps * n->batch,
                                                  .n = all,
                                                  .k = inputs,
                                                  .a = x,
                                                  .a_row = inputs,
                                                  .a_column = 1,
                                                  .b = s.w,
                                                  .b_ahead = true,
                                                  .c = s.projected,
                                                  .c_row = all,
                                                  .c_column = 1,
                                                  .alpha = 1.0f,
                                                  .column_bias = from->b != NULL ? s.bias : NULL}};
    XCVM_TRY(xcvm_gemm_run(k, &projection, NULL));
    n->projected = s.projected;
    n->panels = s.r;
    return xcvm_recurrent_run(k, n, s.rest);
}

/* Common fields of all argument structs. */
#define NETWORK(Name)                                                                                                  \
    .op = xcvm_recurrent_form_of(XCVM_OP_##Name).cell, .gates = (size_t)xcvm_recurrent_form_of(XCVM_OP_##Name).gates,  \
    .weights = xcvm_recurrent_form_of(XCVM_OP_##Name).weights, .lengths = a->sequence_lens, .initial_h = a->initial_h, \
    .y = a->y, .y_h = a->y_h, .hidden = (size_t)a->hidden_size, .direction = a->direction,                             \
    .batch_first = a->layout != 0, .clip = (float)a->clip
#define LONG_SHORT .initial_c = a->initial_c, .p = a->p, .y_c = a->y_c, .input_forget = a->input_forget != 0
#define RESET .linear_before_reset = a->linear_before_reset != 0
#define RUN(n)                                                                                                         \
    do {                                                                                                               \
        const weights from = {a->x, a->w, a->r, a->b};                                                                 \
        XCVM_TRY(read_network(k, &(n), a->x, a->activations, a->activation_alpha, a->activation_beta));                \
        return run_network(k, &(n), &from);                                                                            \
    } while (0)

XCVM_KERNEL(RNN)
{
    xcvm_recurrent n = {NETWORK(RNN)};
    RUN(n);
}

XCVM_KERNEL(GRU)
{
    xcvm_recurrent n = {NETWORK(GRU), RESET};
    RUN(n);
}

XCVM_KERNEL(LSTM)
{
    xcvm_recurrent n = {NETWORK(LSTM), LONG_SHORT};
    RUN(n);
}

/* ---- Packed weights in one of three forms ---- */

static xcvm_status run_packed(xcvm_kernel *k, xcvm_recurrent *n, const xcvm_value *x, const xcvm_value *reset_bias)
{
    n->projected = x->data;
    n->reset_bias = reset_bias != NULL ? reset_bias->data : NULL;
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_recurrent_scratch(n, &bytes), OUT_OF_MEMORY, "the batch is too large");
    void *scratch = xcvm_kernel_scratch(k, bytes);
    return scratch != NULL ? xcvm_recurrent_run(k, n, scratch) : XCVM_OUT_OF_MEMORY;
}

/* Reads everything independent of the weights' form, and runs. */
#define RUN_PACKED(n, reset_bias)                                                                                      \
    do {                                                                                                               \
        XCVM_TRY(read_network(k, &(n), a->x, a->activations, a->activation_alpha, a->activation_beta));                \
        return run_packed(k, &(n), a->x, reset_bias);                                                                  \
    } while (0)
#define PANELS .panels = a->r->data, .panel_dtype = (xcvm_dtype)a->r->dtype
#define BLOCKS                                                                                                         \
    .blocks = xcvm_qblocks_matrix_of(a->r, a->scales, a->offsets, (size_t)a->hidden_size, (size_t)a->x->dims[2],       \
                                     a->bits, a->block_size)
#define BYTES                                                                                                          \
    .bytes = {.panels = a->r->data, .quads = (size_t)a->r->dims[1], .sums = a->sums->data, .scales = a->scale->data}

XCVM_KERNEL(PackedRNN)
{
    xcvm_recurrent n = {NETWORK(PackedRNN), PANELS};
    RUN_PACKED(n, NULL);
}

XCVM_KERNEL(PackedGRU)
{
    xcvm_recurrent n = {NETWORK(PackedGRU), RESET, PANELS};
    RUN_PACKED(n, a->b);
}

XCVM_KERNEL(PackedLSTM)
{
    xcvm_recurrent n = {NETWORK(PackedLSTM), LONG_SHORT, PANELS};
    RUN_PACKED(n, NULL);
}

XCVM_KERNEL(BlockQuantizedRNN)
{
    xcvm_recurrent n = {NETWORK(BlockQuantizedRNN), BLOCKS};
    RUN_PACKED(n, NULL);
}

XCVM_KERNEL(BlockQuantizedGRU)
{
    xcvm_recurrent n = {NETWORK(BlockQuantizedGRU), RESET, BLOCKS};
    RUN_PACKED(n, a->b);
}

XCVM_KERNEL(BlockQuantizedLSTM)
{
    xcvm_recurrent n = {NETWORK(BlockQuantizedLSTM), LONG_SHORT, BLOCKS};
    RUN_PACKED(n, NULL);
}

XCVM_KERNEL(QuantizedLSTM)
{
    xcvm_recurrent n = {NETWORK(QuantizedLSTM), LONG_SHORT, BYTES, .two_terms = a->two_terms != 0};
    RUN_PACKED(n, NULL);
}
