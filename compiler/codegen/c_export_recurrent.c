/* Recurrent networks as C. */
#include "compiler/codegen/c_export.h"

#include "ops/matmul/packed.h"
#include "ops/quantize/quantized_panels.h"

#include <strings.h>

/* Functions by name: their numbers in c_runtime/recurrent.h, and what their parameters are if not given. */
static const struct {
    const char *name;
    double alpha, beta;
    int parameters;
} functions[] = {{"Affine", 1, 0, 2},
                 {"Elu", 1, 0, 1},
                 {"HardSigmoid", (double)0.2F, 0.5, 2},
                 {"LeakyRelu", (double)0.01F, 0, 1},
                 {"Relu", 0, 0, 0},
                 {"ScaledTanh", 1, 1, 2},
                 {"Sigmoid", 0, 0, 0},
                 {"Softplus", 0, 0, 0},
                 {"Softsign", 0, 0, 0},
                 {"Tanh", 0, 0, 0},
                 {"ThresholdedRelu", 1, 0, 1}};
enum { FUNCTIONS = sizeof functions / sizeof *functions, SIGMOID = 6, TANH = 9 };

/* What the instructions have in common. */
typedef struct network {
    const xcvm_value *y, *y_h, *y_c, *x, *w, *r, *b, *lengths, *initial_h, *initial_c, *p;
    int64_t hidden, direction, layout, linear_before_reset, input_forget;
    xcvm_texts names;
    xcvm_floats alphas, betas;
    double clip;
    const xcvm_value *sums, *scale; /* of weights of s8 */
    int kind, gates;
    bool packed, two_terms;
} network;

#define COMMON                                                                                                         \
    .y = a->y, .y_h = a->y_h, .x = a->x, .r = a->r, .lengths = a->sequence_lens, .initial_h = a->initial_h,            \
    .hidden = a->hidden_size, .direction = a->direction, .layout = a->layout, .names = a->activations,                 \
    .alphas = a->activation_alpha, .betas = a->activation_beta, .clip = a->clip

static bool put_functions(xcc_c_export *x, const network *n, int directions)
{
    const int each = n->kind + 1;
    size_t alpha = 0, beta = 0;
    xcc_c_text *const t = &x->tables;
    xcc_c_put(t, ", .f = {");
    for (int d = 0; d < directions; d++)
        for (int i = 0; i < 3; i++) {
            const size_t at = (size_t)(d * each + i);
            size_t j = each > 1 && i == 0 ? SIGMOID : TANH;
            double parameters[2] = {0, 0};
            if (i < each && n->names.count > 0) {
                for (j = 0; j < FUNCTIONS && strcasecmp(functions[j].name, n->names.at[at].at) != 0;)
                    j++;
                if (j == FUNCTIONS)
                    return xcc_c_refuse(x, "there is no activation \"%.40s\"", n->names.at[at].at);
                parameters[0] = functions[j].alpha;
                parameters[1] = functions[j].beta;
                if (functions[j].parameters > 0 && alpha < n->alphas.count)
                    parameters[0] = n->alphas.at[alpha++];
                if (functions[j].parameters > 1 && beta < n->betas.count)
                    parameters[1] = n->betas.at[beta++];
            }
            xcc_c_put(t, "{%zu, ", j);
            xcc_c_put_number(t, XCVM_F64, parameters[0]);
            xcc_c_put(t, ", ");
            xcc_c_put_number(t, XCVM_F64, parameters[1]);
            xcc_c_put(t, "}, ");
        }
    xcc_c_put(t, "}");
    return true;
}

/* The weights of s8 of each direction, of so many columns and bytes. */
static void put_bytes(xcc_c_export *x, const network *n, int directions, int64_t columns, uint64_t bytes,
                      const char *room, const char *rest)
{
    xcc_c_line(x, "        const xc_recurrent_bytes weights[] = {\n");
    for (int d = 0; d < directions; d++)
        xcc_c_line(x, "            {%s + %llu, %s + %llu, %s + %llu, %s, %s},\n", xcc_c_read(x, n->r),
                   (unsigned long long)((uint64_t)d * bytes), xcc_c_read(x, n->sums), (unsigned long long)(d * columns),
                   xcc_c_read(x, n->scale), (unsigned long long)(d * columns), room, rest);
    xcc_c_line(x, "        };\n");
}

static bool write_network(xcc_c_export *x, const network *n)
{
    const int directions = n->direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    const int64_t steps = n->x->dims[n->layout ? 1 : 0], batch = n->x->dims[n->layout ? 0 : 1];
    const int64_t length = n->packed ? XCVM_PACKED_COLUMNS : n->hidden;
    const int64_t blocks = n->packed ? (int64_t)xcvm_packed_panels((size_t)n->hidden) : 1;
    const xcvm_dtype dtype = (xcvm_dtype)n->x->dtype;
    if (dtype != XCVM_F32)
        return xcc_c_refuse(x, "there is no C for it on %s", xcvm_dtype_name(dtype));
    if (n->names.count != 0 && n->names.count != (size_t)(directions * (n->kind + 1)))
        return xcc_c_refuse(x, "its activations are not those of all directions");
    if (n->packed && n->sums == NULL && !xcc_c_is(n->r, XCVM_F32))
        return xcc_c_refuse(x, "its weights are of %s", xcvm_dtype_name((xcvm_dtype)n->r->dtype));
    const size_t index = x->table_count++;
    xcc_c_text *const t = &x->tables;
    xcc_c_put(
        t,
        "\nstatic const xc_recurrent xc_table_%zu = {.kind = %d, .packed = %d, .reverse = %d, .batch_first = %d, "
        ".linear_before_reset = %d, .input_forget = %d, .steps = %lld, .batch = %lld, .input = %lld, .hidden = %lld, "
        ".gates = %d, .directions = %d, .blocks = %lld, .length = %lld, .r_bytes = %s, .clip = ",
        index, n->kind, n->packed, n->direction == XCVM_DIRECTION_reverse, n->layout != 0, n->linear_before_reset != 0,
        n->input_forget != 0, (long long)steps, (long long)batch, (long long)n->x->dims[2], (long long)n->hidden,
        n->gates, directions, (long long)blocks, (long long)length,
        n->sums != NULL ? "sizeof(xc_recurrent_bytes)"
                        : xcc_c_format(x, "%llu", (unsigned long long)(n->r->bytes / (size_t)directions)));
    xcc_c_put_number(t, XCVM_F64, n->clip);
    if (!put_functions(x, n, directions))
        return false;
    xcc_c_put(t, "};\n");
    const int64_t width = blocks * length * n->gates, units = blocks * length;
    const int64_t floats = 3 * units + 2 * width + (n->packed ? 0 : steps * width);
    const int64_t room = floats + (n->two_terms ? n->hidden : 0);
    const uint64_t bytes = (uint64_t)room * xcvm_dtype_size(dtype), quads = (uint64_t)(n->hidden + 3) / 4;
    const char *const scratch = xcc_c_scratch(x, bytes + (n->sums != NULL ? quads * XCVM_QUAD : 0));
    const char *r = xcc_c_read(x, n->r), *product = n->packed ? "packed_" : "";
    if (n->sums != NULL) {
        put_bytes(x, n, directions, width, (uint64_t)width / XCVM_QUANTIZED_OUTPUTS * quads * XCVM_QUANTIZED_LINE,
                  xcc_c_format(x, "(uint8_t *)(void *)(%s) + %llu", scratch, (unsigned long long)bytes),
                  n->two_terms ? xcc_c_format(x, "(float *)(void *)(%s) + %lld", scratch, (long long)floats) : "NULL");
        r = "weights";
        product = "quantized_";
    }
    xcc_c_note_outputs(x, n->packed && n->sums == NULL ? width : 0);
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
    return write_network(x, &(network){COMMON, .kind = 0, .gates = 1, .w = a->w, .b = a->b});
}

static bool write_gru(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_GRU_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 1, .gates = 3, .w = a->w, .b = a->b,
                                       .linear_before_reset = a->linear_before_reset});
}

static bool write_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_LSTM_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 2, .gates = 4, .w = a->w, .b = a->b, .y_c = a->y_c, .p = a->p,
                                       .initial_c = a->initial_c, .input_forget = a->input_forget});
}

static bool write_packed_rnn(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedRNN_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 0, .gates = 1, .packed = true});
}

static bool write_packed_gru(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedGRU_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 1, .gates = 3, .packed = true, .b = a->b,
                                       .linear_before_reset = a->linear_before_reset});
}

static bool write_packed_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_PackedLSTM_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 2, .gates = 4, .packed = true, .y_c = a->y_c, .p = a->p,
                                       .initial_c = a->initial_c, .input_forget = a->input_forget});
}

static bool write_quantized_lstm(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_QuantizedLSTM_args *a = step->args;
    return write_network(x, &(network){COMMON, .kind = 2, .gates = 4, .packed = true, .y_c = a->y_c, .p = a->p,
                                       .initial_c = a->initial_c, .input_forget = a->input_forget, .sums = a->sums,
                                       .scale = a->scale, .two_terms = a->two_terms != 0});
}

static const xcc_c_row rows[] = {{XCVM_OP_RNN, write_rnn},
                                 {XCVM_OP_GRU, write_gru},
                                 {XCVM_OP_LSTM, write_lstm},
                                 {XCVM_OP_PackedRNN, write_packed_rnn},
                                 {XCVM_OP_PackedGRU, write_packed_gru},
                                 {XCVM_OP_PackedLSTM, write_packed_lstm},
                                 {XCVM_OP_QuantizedLSTM, write_quantized_lstm}};
const xcc_c_rows xcc_c_recurrent_rows = {rows, sizeof rows / sizeof *rows};
