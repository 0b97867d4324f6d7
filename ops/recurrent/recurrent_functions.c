/* Functions of recurrent cells: names and parameters. */
#include "ops/recurrent/recurrent_functions.h"

#include <strings.h>

static const struct {
    const char *name;
    xcvm_recurrent_function f; /* with default parameters */
    int numbers;               /* optional parameters: alpha, then beta */
} functions[] = {{"Affine", {XCVM_RECURRENT_AFFINE, 1, 0}, 2},
                 {"Elu", {XCVM_RECURRENT_ELU, 1, 0}, 1},
                 {"HardSigmoid", {XCVM_RECURRENT_HARD_SIGMOID, 0.2, 0.5}, 2},
                 {"LeakyRelu", {XCVM_RECURRENT_LEAKY_RELU, 0.01, 0}, 1},
                 {"Relu", {XCVM_RECURRENT_RELU, 0, 0}, 0},
                 {"ScaledTanh", {XCVM_RECURRENT_SCALED_TANH, 1, 1}, 2},
                 {"Sigmoid", {XCVM_RECURRENT_SIGMOID, 0, 0}, 0},
                 {"Softplus", {XCVM_RECURRENT_SOFTPLUS, 0, 0}, 0},
                 {"Softsign", {XCVM_RECURRENT_SOFTSIGN, 0, 0}, 0},
                 {"Tanh", {XCVM_RECURRENT_TANH, 0, 0}, 0},
                 {"ThresholdedRelu", {XCVM_RECURRENT_THRESHOLDED_RELU, 1, 0}, 1}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

xcvm_status xcvm_recurrent_functions_read(xcvm_error *error, xcvm_opcode cell, size_t directions, xcvm_texts names,
                                          xcvm_floats alphas, xcvm_floats betas,
                                          xcvm_recurrent_function f[XCVM_RECURRENT_FUNCTIONS])
{
    const size_t each = xcvm_recurrent_functions_of(cell), count = each * directions;
    XCVM_CHECK(error, names.count == 0 || names.count == count, INVALID_ARGUMENT,
               "activations has the wrong number of entries (%zu; expected %zu)", names.count, count);
    size_t alpha = 0, beta = 0;
    for (size_t i = 0; i < count; i++) {
        if (names.count == 0) {
            const bool gates = each > 1 && i % each == 0;
            f[i] = (xcvm_recurrent_function){gates ? XCVM_RECURRENT_SIGMOID : XCVM_RECURRENT_TANH, 0, 0};
            continue;
        }
        size_t j = 0;
        while (j < FUNCTIONS && strcasecmp(functions[j].name, names.at[i].at) != 0)
            j++;
        XCVM_CHECK(error, j < FUNCTIONS, UNSUPPORTED, "there is no activation \"%.40s\"", names.at[i].at);
        f[i] = functions[j].f;
        if (functions[j].numbers > 0 && alpha < alphas.count)
            f[i].alpha = alphas.at[alpha++];
        if (functions[j].numbers > 1 && beta < betas.count)
            f[i].beta = betas.at[beta++];
    }
    return XCVM_OK;
}
