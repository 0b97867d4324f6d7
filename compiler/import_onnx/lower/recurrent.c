/* Lowering of recurrent networks: fills in omitted operands and attributes. */
#include "compiler/import_onnx/lower/lower.h"

/* The attribute, or if it is omitted the size of the recurrence weights, operand 2. */
static xcvm_status hidden_size(xcc_lowering *n, int64_t *size)
{
    const xcc_value *r = xcc_input(n, 2);
    if (xcc_attribute_find(n, "hidden_size") != NULL)
        return XCVM_OK;
    XCVM_CHECK(n->m->error, r != NULL && r->type.rank == 3 && r->type.dims[2] > 0, UNSUPPORTED,
               "hidden_size is missing, and the shape of the weights is not known");
    *size = r->type.dims[2];
    return XCVM_OK;
}

static xcvm_status activations(xcc_lowering *n, int direction, size_t count, const char *const *defaults,
                               xcvm_texts *texts)
{
    const size_t directions = direction == XCVM_DIRECTION_bidirectional ? 2 : 1;
    XCVM_CHECK(n->m->error, texts->count == 0 || texts->count >= count * directions, INVALID_MODEL,
               "attribute 'activations' has %zu entries, %zu are needed", texts->count, count * directions);
    if (texts->count > 0) {
        texts->count = count * directions;
        return XCVM_OK;
    }
    xcvm_text *filled = xcc_alloc(n->m, count * directions * sizeof *filled);
    if (filled == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count * directions; i++)
        filled[i] = (xcvm_text){defaults[i % count], strlen(defaults[i % count])};
    *texts = (xcvm_texts){filled, count * directions};
    return XCVM_OK;
}

static const char *const functions[] = {"Sigmoid", "Tanh", "Tanh"};

#define LOWER_RECURRENT(function, Name, count, defaults)                                                               \
    xcvm_status function(xcc_lowering *n)                                                                              \
    {                                                                                                                  \
        if (n->version < 7)                                                                                            \
            xcc_attribute_ignore(n, "output_sequence");                                                                \
        XCC_ONE_TO_ONE_ARGS(n, Name, args);                                                                            \
        XCVM_TRY(hidden_size(n, &args.hidden_size));                                                                   \
        XCVM_TRY(activations(n, args.direction, count, defaults, &args.activations));                                  \
        return XCC_EMIT_ONE_TO_ONE(n, Name, args);                                                                     \
    }
LOWER_RECURRENT(xcc_lower_rnn, RNN, 1, functions + 1)
LOWER_RECURRENT(xcc_lower_gru, GRU, 2, functions)
LOWER_RECURRENT(xcc_lower_lstm, LSTM, 3, functions)
