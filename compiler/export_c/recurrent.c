/* Recurrent networks as C. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/matmul/packed.h"
#include "ops/quantize/quantized_panels.h"
#include "ops/recurrent/lstm_cell.h"
#include "ops/recurrent/recurrent_functions.h"
#include "ops/recurrent/recurrent_weights.h"

/* Common operands of the instructions. */
typedef struct network {
    const xcvm_value *y, *y_h, *y_c, *x, *w, *r, *b, *lengths, *initial_h, *initial_c, *p;
    int64_t hidden, direction, layout, linear_before_reset, input_forget;
    xcvm_texts names;
    xcvm_floats alphas, betas;
    double clip;
    const xcvm_value *sums, *scale; /* of weights of s8 */
    xcvm_recurrent_form form;
    bool two_terms;
} network;

#define COMMON                                                                                                         \
    .y = a->y, .y_h = a->y_h, .x = a->x, .r = a->r, .lengths = a->sequence_lens, .initial_h = a->initial_h,            \
    .hidden = a->hidden_size, .direction = a->direction, .layout = a->layout, .names = a->activations,                 \
    .alphas = a->activation_alpha, .betas = a->activation_beta, .clip = a->clip,                                       \
    .form = xcvm_recurrent_form_of(step->schema->opcode)

/* The cell of c_runtime/recurrent.h. */
static int kind_of(xcvm_opcode cell) { return cell == XCVM_OP_LSTM ? 2 : cell == XCVM_OP_GRU ? 1 : 0; }

static bool put_functions(xcc_c_export *x, const network *n, int directions)
{
    const size_t each = xcvm_recurrent_functions_of(n->form.cell);
    xcvm_recurrent_function f[XCVM_RECURRENT_FUNCTIONS];
    xcvm_error error = {.pc = -1};
    if (xcvm_recurrent_functions_read(&error, n->form.cell, (size_t)directions, n->names, n->alphas, n->betas, f) !=
        XCVM_OK)
        return xcc_c_refuse(x, "%s", error.message);
    xcc_c_text *const t = &x->tables;
    xcc_c_put(t, ", .f = {");
    for (size_t d = 0; d < (size_t)directions; d++) {
        xcc_c_put(t, "{");
        for (size_t i = 0; i < each; i++) {
            const xcvm_recurrent_function *function = &f[d * each + i];
            xcc_c_put(t, "{%d, ", (int)function->kind);
            xcc_c_put_number(t, XCVM_F64, function->alpha);
            xcc_c_put(t, ", ");
            xcc_c_put_number(t, XCVM_F64, function->beta);
            xcc_c_put(t, "}, ");
        }
        xcc_c_put(t, "}, ");
    }
    xcc_c_put(t, "}");
    return true;
}

/* The weights of s8 of each direction, with their columns and bytes. */
static void put_bytes(xcc_c_export *x, const network *n, int directions, int64_t columns, uint64_t bytes,
                      const char *state, const char *rest)
{
    xcc_c_line(x, "        const xc_recurrent_bytes weights[] = {\n");
    for (int d = 0; d < directions; d++)
        xcc_c_line(x, "            {%s + %llu, %s + %llu, %s + %llu, %s, %s},\n", xcc_c_read(x, n->r),
                   (unsigned long long)((uint64_t)d * bytes), xcc_c_read(x, n->sums), (unsigned long long)(d * columns),
                   xcc_c_read(x, n->scale), (unsigned long long)(d * columns), state, rest);
    xcc_c_line(x, "        };\n");
}

static bool write_network(xcc_c_export *x, const network *n)
{
    const int directions = n->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    const int64_t steps = n->x->dims[n->layout ? 1 : 0], batch = n->x->dims[n->layout ? 0 : 1];
    const bool packed = n->form.weights != XCVM_RECURRENT_ROWS, in_bytes = n->form.weights == XCVM_RECURRENT_BYTES;
    const int64_t length = packed ? XCVM_PACKED_COLUMNS : n->hidden;
    const int64_t blocks = packed ? (int64_t)xcvm_packed_panels((size_t)n->hidden) : 1;
    const xcvm_dtype dtype = (xcvm_dtype)n->x->dtype;
    if (dtype != XCVM_F32)
        return xcc_c_refuse(x, "C export does not support it on %s", xcvm_dtype_name(dtype));
    if (n->form.weights == XCVM_RECURRENT_PANELS && !xcc_c_is(n->r, XCVM_F32))
        return xcc_c_refuse(x, "its weights are of %s", xcvm_dtype_name((xcvm_dtype)n->r->dtype));
    const size_t index = x->table_count++;
    xcc_c_text *const t = &x->tables;
    xcc_c_put(
        t,
        "\nstatic const xc_recurrent xc_table_%zu = {.kind = %d, .packed = %d, .reverse = %d, .batch_first = %d, "
        ".linear_before_reset = %d, .input_forget = %d, .steps = %lld, .batch = %lld, .input = %lld, .hidden = %lld, "
        ".gates = %d, .directions = %d, .blocks = %lld, .length = %lld, .r_bytes = %s, .clip = ",
        index, kind_of(n->form.cell), packed, n->direction == XCVM_DIRECTION_reverse, n->layout != 0,
        n->linear_before_reset != 0, n->input_forget != 0, (long long)steps, (long long)batch, (long long)n->x->dims[2],
        (long long)n->hidden, n->form.gates, directions, (long long)blocks, (long long)length,
        in_bytes ? "sizeof(xc_recurrent_bytes)"
                 : xcc_c_format(x, "%llu", (unsigned long long)(n->r->bytes / (size_t)directions)));
    xcc_c_put_number(t, XCVM_F64, n->clip);
    if (!put_functions(x, n, directions))
        return false;
    xcc_c_put(t, "};\n");
    const int64_t width = blocks * length * n->form.gates, units = blocks * length;
    const size_t floats = xc_recurrent_workspace_of((size_t)units, (size_t)width, packed ? 0 : (size_t)steps).all;
    const xc_recurrent_bytes_workspace parts =
        xc_recurrent_bytes_workspace_of(floats, (size_t)n->hidden, n->two_terms ? 2 : 1);
    const char *const scratch = xcc_c_scratch(x, in_bytes ? parts.all : floats * sizeof(float));
    const char *r = xcc_c_read(x, n->r), *product = packed ? "packed_" : "";
    if (in_bytes) {
        const uint64_t quads = ((uint64_t)n->hidden + XCVM_QUAD - 1) / XCVM_QUAD;
        put_bytes(x, n, directions, width, (uint64_t)width / XCVM_QUANTIZED_OUTPUTS * quads * XCVM_QUANTIZED_LINE,
                  xcc_c_format(x, "(uint8_t *)(void *)(%s) + %zu", scratch, parts.state),
                  n->two_terms ? xcc_c_format(x, "(float *)(void *)((char *)(%s) + %zu)", scratch, parts.rest)
                               : "NULL");
        r = "weights";
        product = "quantized_";
    }
    xcc_c_note_outputs(x, n->form.weights == XCVM_RECURRENT_PANELS ? width : 0);
    x->fails = true;
    xcc_c_line(
        x,
        "        if (xc_recurrent_%s(&xc_table_%zu, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, (%s *)(void *)(%s), "
        "xc_%srecurrent_product_%s))\n            return %zu;\n",
        xcc_c_suffix(dtype), index, xcc_c_read(x, n->x), xcc_c_read(x, n->w), r, xcc_c_read(x, n->b),
        xcc_c_read(x, n->lengths), xcc_c_read(x, n->initial_h), xcc_c_read(x, n->initial_c), xcc_c_read(x, n->p),
        xcc_c_write(x, n->y), xcc_c_write(x, n->y_h), xcc_c_write(x, n->y_c), xcc_c_type(dtype), scratch, product,
        xcc_c_suffix(dtype), x->pc + 1);
    return true;
}

static bool write_rnn(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RNN_args *a = step->args;
    return write_network(x, &(network){COMMON, .w = a->w, .b = a->b});
}

static bool write_gru(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GRU_args *a = step->args;
    return write_network(x, &(network){COMMON, .w = a->w, .b = a->b, .linear_before_reset = a->linear_before_reset});
}

static bool write_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LSTM_args *a = step->args;
    return write_network(x, &(network){COMMON, .w = a->w, .b = a->b, .y_c = a->y_c, .p = a->p,
                                       .initial_c = a->initial_c, .input_forget = a->input_forget});
}

static bool write_packed_rnn(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedRNN_args *a = step->args;
    return write_network(x, &(network){COMMON});
}

static bool write_packed_gru(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedGRU_args *a = step->args;
    return write_network(x, &(network){COMMON, .b = a->b, .linear_before_reset = a->linear_before_reset});
}

static bool write_packed_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedLSTM_args *a = step->args;
    return write_network(
        x, &(network){COMMON, .y_c = a->y_c, .p = a->p, .initial_c = a->initial_c, .input_forget = a->input_forget});
}

static bool write_quantized_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedLSTM_args *a = step->args;
    return write_network(x, &(network){COMMON, .y_c = a->y_c, .p = a->p, .initial_c = a->initial_c,
                                       .input_forget = a->input_forget, .sums = a->sums, .scale = a->scale,
                                       .two_terms = a->two_terms != 0});
}

/* ---- One step ---- */

typedef struct cell {
    xcc_c_export *x;
    const char *type; /* as in names of functions */
    size_t children, units;
    int by_unit;
} cell;

/* Begins the block of an instruction: `q` is what its functions have in common. */
static bool begin_cell(cell *q, xcc_c_export *x, const xcvm_value *v, int64_t children, int layout)
{
    if (v->dtype != XCVM_F32 && v->dtype != XCVM_F64)
        return xcc_c_refuse(x, "C export does not support it on %s", xcvm_dtype_name((xcvm_dtype)v->dtype));
    const size_t columns = (size_t)v->dims[v->rank - 1];
    *q = (cell){.x = x,
                .type = xcc_c_suffix((xcvm_dtype)v->dtype),
                .children = (size_t)children,
                .units = columns / xcvm_lstm_gates((size_t)children),
                .by_unit = layout == XCVM_LSTM_LAYOUT_chainer};
    xcc_c_line(x, "        const xc_lstm q = {%lld, %zu, %zu, %zu};\n",
               (long long)xcc_c_product(v->dims, 0, v->rank - 1), q->units, columns,
               xcvm_lstm_gate_of(q->by_unit, q->children, q->units, 0).between);
    return true;
}

static const char *gate_at(const cell *q, const char *elements, size_t gate)
{
    return xcc_c_format(q->x, "%s + %zu", elements, xcvm_lstm_gate_of(q->by_unit, q->children, q->units, gate).first);
}

static bool write_lstm_cell(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LSTMCell_args *a = step->args;
    const char *const from = xcc_c_read(x, a->x), *const h = xcc_c_write(x, a->h), *const c = xcc_c_write(x, a->c);
    cell q;
    if (!begin_cell(&q, x, a->x, a->children, a->layout))
        return false;
    xcc_c_line(x, "        xc_lstm_enter_%s(&q, %s, %s, %s);\n", q.type, gate_at(&q, from, XCVM_LSTM_IN),
               gate_at(&q, from, xcvm_lstm_candidate(q.children)), c);
    for (size_t i = 0; i < a->c_prev.count; i++)
        xcc_c_line(x, "        xc_lstm_keep_%s(&q, %s, %s, %s);\n", q.type, gate_at(&q, from, XCVM_LSTM_FORGET + i),
                   xcc_c_read(x, a->c_prev.at[i]), c);
    xcc_c_line(x, "        xc_lstm_leave_%s(&q, %s, %s, %s);\n", q.type, gate_at(&q, from, XCVM_LSTM_OUT), c, h);
    return true;
}

static bool write_lstm_cell_gradient(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LSTMCellGradient_args *a = step->args;
    const char *const from = xcc_c_read(x, a->x), *const to = xcc_c_write(x, a->dx);
    cell q;
    if (!begin_cell(&q, x, a->x, a->children, a->layout))
        return false;
    const char *const type = xcc_c_type((xcvm_dtype)a->x->dtype);
    xcc_c_line(x, "        %s *const sum = (%s *)(void *)(%s);\n", type, type, xcc_c_scratch(x, a->c->bytes));
    xcc_c_line(x, "        xc_lstm_leave_gradient_%s(&q, %s, %s, %s, %s, %s, sum);\n", q.type,
               gate_at(&q, from, XCVM_LSTM_OUT), xcc_c_read(x, a->c), xcc_c_read(x, a->dh), xcc_c_read(x, a->dc),
               gate_at(&q, to, XCVM_LSTM_OUT));
    for (size_t i = 0; i < q.children; i++) {
        const bool has = i < a->c_prev.count;
        xcc_c_line(x, "        xc_lstm_keep_gradient_%s(&q, %s, %s, sum, %s, %s);\n", q.type,
                   gate_at(&q, from, XCVM_LSTM_FORGET + i), xcc_c_read(x, has ? a->c_prev.at[i] : NULL),
                   gate_at(&q, to, XCVM_LSTM_FORGET + i), xcc_c_write(x, has ? a->dc_prev.at[i] : NULL));
    }
    const size_t g = xcvm_lstm_candidate(q.children);
    xcc_c_line(x, "        xc_lstm_enter_gradient_%s(&q, %s, %s, sum, %s, %s);\n", q.type,
               gate_at(&q, from, XCVM_LSTM_IN), gate_at(&q, from, g), gate_at(&q, to, XCVM_LSTM_IN),
               gate_at(&q, to, g));
    return true;
}

static const xcc_c_row rows[] = {{XCVM_OP_RNN, write_rnn},
                                 {XCVM_OP_GRU, write_gru},
                                 {XCVM_OP_LSTM, write_lstm},
                                 {XCVM_OP_LSTMCell, write_lstm_cell},
                                 {XCVM_OP_LSTMCellGradient, write_lstm_cell_gradient},
                                 {XCVM_OP_PackedRNN, write_packed_rnn},
                                 {XCVM_OP_PackedGRU, write_packed_gru},
                                 {XCVM_OP_PackedLSTM, write_packed_lstm},
                                 {XCVM_OP_QuantizedLSTM, write_quantized_lstm}};
const xcc_c_rows xcc_c_recurrent_rows = {rows, sizeof rows / sizeof *rows};
