/* Bias correction (Nagel et al. 2019, section 4.2): errors of rounded weights need not cancel. They shift sums by the
 * errors times the means of the inputs. */
#include "compiler/quantize/model_writer.h"

#include <string.h>

/* True if the node has a bias that can be corrected. */
static bool has_room(const quantizer *q, const xcc_quant_node *n)
{
    if (xcc_quant_is(n, "MatMul"))
        return n->epilogue != XCC_NO_NODE && xcc_quant_is(&q->nodes[n->epilogue], "Add");
    if (xcc_quant_is(n, "ConvTranspose") ||
        (xcc_quant_is(n, "Gemm") && (xcc_quant_real(n, "alpha", 1) != 1 || xcc_quant_real(n, "beta", 1) != 1)))
        return false;
    return n->proto->n_input < 3 || xcc_quant_is_weight(xcc_quant_input(q, n, 2));
}

/* Finds the output and input channels of a weight. */
static void place_of(const xcc_quant_node *n, const xcc_tensor *w, size_t at, int64_t group, size_t *output,
                     size_t *input)
{
    if (xcc_quant_is(n, "Conv")) {
        const size_t outputs = (size_t)w->dims[0], each = w->count / outputs, inputs = (size_t)w->dims[1];
        *output = at / each;
        *input = *output / (outputs / (size_t)group) * inputs + at % each / (each / inputs);
        return;
    }
    const size_t columns = (size_t)w->dims[1];
    const bool transposed = xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transB", 0) != 0;
    *output = transposed ? at / columns : at % columns;
    *input = transposed ? at % columns : at / columns;
}

static xcvm_status correct(quantizer *q, xcc_quant_node *n, xcvm_arena *arena)
{
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *t = xcc_quant_input(q, n, 1);
    xcc_tensor shape;
    float *right, *rounded;
    if (!xcc_quant_is_weight(t) || x == NULL || x->means == NULL || x->seen == NULL || !has_room(q, n))
        return XCVM_OK;
    XCVM_TRY(xcc_rounded_weights(q, n, arena, &shape, &right, &rounded));
    const int64_t group = xcc_quant_is(n, "Conv") ? xcc_quant_int(n, "group", 1) : 1;
    if (shape.rank < 2 || (shape.rank != 2 && !xcc_quant_is(n, "Conv")) || shape.count == 0 || group < 1 ||
        shape.dims[0] % group != 0)
        return XCVM_OK;
    const bool by_columns =
        !xcc_quant_is(n, "Conv") && !(xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transB", 0) != 0);
    const size_t outputs = (size_t)shape.dims[by_columns ? 1 : 0];
    double *sums = xcvm_arena_allocate(arena, outputs * sizeof *sums);
    n->bias_change = xcc_alloc(&q->m, outputs * sizeof *n->bias_change);
    if (sums == NULL || n->bias_change == NULL)
        return xcc_out_of_memory(&q->m);
    const double each = (double)x->seen->count / (double)x->mean_count;
    for (size_t i = 0; i < shape.count; i++) {
        size_t output, input;
        place_of(n, &shape, i, group, &output, &input);
        if (input < x->mean_count)
            sums[output] += ((double)rounded[i] - (double)right[i]) * x->means[input] / each;
    }
    for (size_t i = 0; i < outputs; i++)
        n->bias_change[i] = (float)-sums[i];
    n->bias_change_count = outputs;
    return XCVM_OK;
}

xcvm_status xcc_quant_correct(quantizer *q)
{
    for (size_t i = 0; i < q->node_count; i++) {
        xcc_quant_node *n = &q->nodes[i];
        XCVM_TRY(xcc_poll(&q->m));
        if (!n->quantized || n->rule->kind != XCC_QUANT_WEIGHTED)
            continue;
        xcvm_arena arena = {.allocator = q->m.allocator};
        const xcvm_status status = correct(q, n, &arena);
        xcvm_arena_release(&arena);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}
