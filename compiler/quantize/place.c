/* Selection of quantized nodes and tensors.
 * Sums of products are quantized for their own sake. A node between them is quantized if all its operands are quantized
 * and a quantized node reads it. So a softmax or normalization that stays float is not surrounded by useless rounding.
 */
#include "compiler/quantize/quantize.h"

#include "compiler/onnx_model/onnx_model.h"
#include "base/pattern.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MS "com.microsoft"
#define FIRST 1u
#define BOTH 3u
#define ALL (~0u)

static const xcc_quant_rule rules[] = {
    {"Add", XCC_QUANT_BETWEEN, BOTH, "QLinearAdd", MS},
    {"AveragePool", XCC_QUANT_BETWEEN, FIRST, "QLinearAveragePool", MS},
    {"Clip", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"Concat", XCC_QUANT_BETWEEN, ALL, "QLinearConcat", MS},
    {"Conv", XCC_QUANT_WEIGHTED, BOTH, "QLinearConv", ""},
    {"ConvTranspose", XCC_QUANT_WEIGHTED, BOTH, NULL, ""},
    {"DepthToSpace", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Dropout", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Expand", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Flatten", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"GRU", XCC_QUANT_RECURRENT, 6u, NULL, ""},
    {"Gather", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Gemm", XCC_QUANT_WEIGHTED, BOTH, "QGemm", MS},
    {"GlobalAveragePool", XCC_QUANT_BETWEEN, FIRST, "QLinearGlobalAveragePool", MS},
    {"HardSigmoid", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"HardSwish", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"Identity", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"LSTM", XCC_QUANT_RECURRENT, 6u, NULL, ""},
    {"LeakyRelu", XCC_QUANT_BETWEEN, FIRST, "QLinearLeakyRelu", MS},
    {"MatMul", XCC_QUANT_WEIGHTED, BOTH, "QLinearMatMul", ""},
    {"MaxPool", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Mul", XCC_QUANT_BETWEEN, BOTH, "QLinearMul", MS},
    {"RNN", XCC_QUANT_RECURRENT, 6u, NULL, ""},
    {"ReduceMean", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"Relu", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"Reshape", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Resize", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Sigmoid", XCC_QUANT_BETWEEN, FIRST, "QLinearSigmoid", MS},
    {"Slice", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Softmax", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"SpaceToDepth", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Split", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Squeeze", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Tanh", XCC_QUANT_BETWEEN, FIRST, NULL, ""},
    {"Tile", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Transpose", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Unsqueeze", XCC_QUANT_PASS, FIRST, NULL, ""},
    {"Upsample", XCC_QUANT_PASS, FIRST, NULL, ""},
};
enum { RULES = sizeof rules / sizeof *rules };

const xcc_quant_rule *xcc_quant_rule_of(const Onnx__NodeProto *n)
{
    for (size_t i = 0; i < RULES && n->op_type != NULL && xcc_domain(n->domain)[0] == '\0'; i++)
        if (strcmp(rules[i].op, n->op_type) == 0)
            return &rules[i];
    return NULL;
}

static bool in_blocks(const quantizer *q) { return xcvm_dtype_bits(q->o.weights) == 4; }
static bool weights_alone(const quantizer *q) { return in_blocks(q) || q->o.activations == XCVM_F32; }

/* ---- What was asked for ---- */

static bool fits_one(const char *const *patterns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (xcvm_pattern_fits(patterns[i], name))
            return true;
    return false;
}

/* Rejects patterns that match nothing. */
static xcvm_status check_patterns(const quantizer *q, const char *const *patterns, size_t count, bool types)
{
    for (size_t i = 0; i < count; i++) {
        XCVM_CHECK(q->m.error, patterns != NULL && patterns[i] != NULL, INVALID_ARGUMENT, "a pattern of %s is NULL",
                   types ? "operator types" : "nodes");
        bool found = false;
        for (size_t n = 0; n < q->node_count + q->body_node_count && !found; n++) {
            const Onnx__NodeProto *p = n < q->node_count ? q->nodes[n].proto : q->body_nodes[n - q->node_count].proto;
            found = xcvm_pattern_fits(patterns[i], types ? p->op_type : xcc_node_label(p));
        }
        XCVM_CHECK(q->m.error, found, INVALID_ARGUMENT, "the model has no %s \"%.200s\"",
                   types ? "node of type" : "node called", patterns[i]);
    }
    return XCVM_OK;
}

/* Returns why the options exclude a node, or NULL. */
static const char *left_out(const quantizer *q, const xcc_quant_node *n)
{
    const char *name = xcc_node_label(n->proto), *type = n->proto->op_type;
    if (fits_one(q->o.exclude_nodes, q->o.exclude_node_count, name))
        return "excluded by its name";
    if (fits_one(q->o.exclude_types, q->o.exclude_type_count, type))
        return "excluded by its type";
    if (q->o.node_count > 0 && !fits_one(q->o.nodes, q->o.node_count, name))
        return "not among the selected nodes";
    if (q->o.type_count > 0 && !fits_one(q->o.types, q->o.type_count, type))
        return "not among the selected types";
    return NULL;
}

/* ---- Forms that can be quantized ---- */

static bool mask_is_read(const quantizer *q, const xcc_quant_node *n)
{
    const xcc_quant_tensor *mask = n->proto->n_output > 1 ? xcc_quant_output(q, n, 1) : NULL;
    return mask != NULL && (mask->consumer_count > 0 || mask->captured || mask->is_output);
}

static const char *refuse_weighted(const quantizer *q, const xcc_quant_node *n)
{
    const xcc_quant_tensor *x = xcc_quant_input(q, n, 0), *w = xcc_quant_input(q, n, 1);
    if (x == NULL || w == NULL)
        return "an operand is missing";
    if (w->constant != NULL && !xcc_quant_is_weight(w))
        return "its weights are no f32";
    if (x->constant != NULL && w->constant != NULL)
        return "it is a constant";
    if (!xcc_quant_is(n, "MatMul") && w->constant == NULL)
        return "its weights are computed";
    if (xcc_quant_is(n, "Gemm") && xcc_quant_int(n, "transA", 0) != 0)
        return "its first operand is transposed";
    if (weights_alone(q) && w->constant == NULL)
        return "both operands are computed, and activations stay floats";
    if (in_blocks(q) && (xcc_quant_is(n, "Conv") || xcc_quant_is(n, "ConvTranspose")))
        return "weights in blocks need a product of matrices";
    if (in_blocks(q) && w->constant->n_dims != 2)
        return "weights in blocks need a matrix with two dimensions";
    if (q->dynamic && w->constant == NULL)
        return "both operands are computed; dynamic ranges support one computed operand";
    if (q->dynamic && xcc_quant_is(n, "ConvTranspose"))
        return "integers have no transposed convolution";
    if (q->dynamic && xcc_quant_is(n, "MatMul") && w->constant->n_dims < 2)
        return "its weights are a vector";
    return NULL;
}

/* Returns why a form is unsupported, or NULL. */
static const char *refuse(const quantizer *q, const xcc_quant_node *n)
{
    switch (n->rule->kind) {
    case XCC_QUANT_WEIGHTED:
        return refuse_weighted(q, n);
    case XCC_QUANT_RECURRENT:
        for (size_t i = 1; i <= 2; i++)
            if (!xcc_quant_is_weight(xcc_quant_input(q, n, i)))
                return "its weights are not f32 constants";
        return in_blocks(q)                             ? "weights in blocks need a product of matrices"
               : q->dynamic && !xcc_quant_is(n, "LSTM") ? "dynamic ranges support only LSTM"
                                                        : NULL;
    case XCC_QUANT_BETWEEN:
    case XCC_QUANT_PASS:
        if (q->dynamic || weights_alone(q))
            return "activations stay floats";
        if (xcc_quant_is(n, "Resize") && xcc_quant_attribute(n, "mode") != NULL &&
            xcc_quant_attribute(n, "mode")->s.len == 5 &&
            memcmp(xcc_quant_attribute(n, "mode")->s.data, "cubic", 5) == 0)
            return "cubic interpolation leaves the range of its operand";
        if (xcc_quant_is(n, "Dropout") && mask_is_read(q, n))
            return "its mask is read";
        return NULL;
    case XCC_QUANT_NONE:
        break;
    }
    return "the operator cannot be quantized";
}

/* ---- Epilogues ---- */

/* Reads bounds of a Clip from attributes or constants. */
static xcvm_status read_bounds(quantizer *q, xcc_quant_node *n, bool *known)
{
    *known = true;
    n->least = xcc_quant_real(n, "min", -(double)FLT_MAX);
    n->greatest = xcc_quant_real(n, "max", (double)FLT_MAX);
    for (size_t i = 1; i <= 2 && i < n->proto->n_input; i++) {
        const xcc_quant_tensor *t = xcc_quant_input(q, n, i);
        if (t == NULL)
            continue;
        xcc_tensor bound;
        *known = *known && xcc_quant_is_weight(t);
        if (!*known)
            return XCVM_OK;
        XCVM_TRY(xcc_quant_read(q, t, &bound));
        *known = bound.count == 1;
        if (bound.count == 1)
            *(i == 1 ? &n->least : &n->greatest) = (double)*(const float *)bound.data;
    }
    /* Zero is in every range. */
    *known = *known && n->least <= 0 && n->greatest >= 0;
    return XCVM_OK;
}

/* True if an Add of a vector is the bias of the preceding product. */
static bool is_bias(const quantizer *q, const xcc_quant_node *n, const xcc_quant_node *sum)
{
    if (!xcc_quant_is(n, "MatMul") || !xcc_quant_is(sum, "Add") || q->o.form != XCC_FORM_QDQ)
        return false;
    const xcc_quant_tensor *result = xcc_quant_output(q, n, 0);
    const xcc_quant_tensor *vector = xcc_quant_input(q, sum, xcc_quant_input(q, sum, 0) == result ? 1 : 0);
    return xcc_quant_is_weight(vector) && vector->constant->n_dims <= 1;
}

static xcvm_status find_epilogues(quantizer *q)
{
    for (size_t i = 0; i < q->node_count; i++) {
        xcc_quant_node *n = &q->nodes[i];
        XCVM_TRY(xcc_poll(&q->m));
        if (n->gone || n->rule == NULL || n->epilogue_of != XCC_NO_NODE ||
            (n->rule->kind != XCC_QUANT_WEIGHTED && n->rule->kind != XCC_QUANT_BETWEEN) || xcc_quant_is(n, "Relu") ||
            xcc_quant_is(n, "Clip"))
            continue;
        for (xcc_quant_node *last = n;;) {
            const xcc_quant_tensor *t = xcc_quant_output(q, last, 0);
            if (t == NULL || t->consumer_count != 1 || t->captured || t->is_output)
                break;
            xcc_quant_node *behind = &q->nodes[t->consumers[0]];
            bool taken = last == n && is_bias(q, n, behind), ends = !taken;
            if (xcc_quant_is(behind, "Relu")) {
                behind->least = 0;
                behind->greatest = (double)FLT_MAX;
                taken = true;
            } else if (xcc_quant_is(behind, "Clip") && xcc_quant_input(q, behind, 0) == t) {
                XCVM_TRY(read_bounds(q, behind, &taken));
            }
            if (!taken || behind->gone)
                break;
            last->epilogue = (int)(behind - q->nodes);
            behind->epilogue_of = (int)(last - q->nodes);
            last = behind;
            if (ends)
                break;
        }
    }
    return XCVM_OK;
}

const xcc_quant_node *xcc_quant_last(const quantizer *q, const xcc_quant_node *n)
{
    while (n->epilogue != XCC_NO_NODE)
        n = &q->nodes[n->epilogue];
    return n;
}

xcvm_status xcc_quant_choose(quantizer *q)
{
    XCVM_TRY(check_patterns(q, q->o.nodes, q->o.node_count, false));
    XCVM_TRY(check_patterns(q, q->o.exclude_nodes, q->o.exclude_node_count, false));
    XCVM_TRY(check_patterns(q, q->o.types, q->o.type_count, true));
    XCVM_TRY(check_patterns(q, q->o.exclude_types, q->o.exclude_type_count, true));
    for (size_t i = 0; i < q->node_count; i++)
        q->nodes[i].rule = xcc_quant_rule_of(q->nodes[i].proto);
    XCVM_TRY(find_epilogues(q));
    for (size_t i = 0; i < q->node_count; i++) {
        xcc_quant_node *n = &q->nodes[i];
        if (n->gone || n->rule == NULL || n->epilogue_of != XCC_NO_NODE)
            continue;
        const char *reason = left_out(q, n);
        n->reason = reason != NULL ? reason : refuse(q, n);
        n->candidate = n->reason == NULL;
        n->reason = n->candidate ? "" : n->reason;
    }
    for (size_t i = 0; i < q->body_node_count; i++) {
        xcc_quant_node *n = &q->body_nodes[i];
        const char *reason = left_out(q, n);
        n->reason = reason != NULL ? reason : xcc_quant_refuse_body(q, n);
        n->candidate = n->reason == NULL;
    }
    return XCVM_OK;
}

/* ---- Regions ---- */

bool xcc_quant_has_weights_level(const quantizer *q, const xcc_quant_node *n)
{
    return n->candidate && n->body == NULL && n->rule->kind == XCC_QUANT_WEIGHTED && !q->dynamic && !weights_alone(q) &&
           xcc_quant_input(q, n, 1)->constant != NULL;
}

bool xcc_quant_is_integer(const xcc_quant_node *n)
{
    return n->quantized && n->level == XCC_LEVEL_INTEGER && n->rule->kind != XCC_QUANT_RECURRENT;
}

static bool is_operand(const xcc_quant_node *n, size_t index)
{
    return index < 32 ? (n->rule->operands >> index & 1) != 0 : n->rule->operands == ALL;
}

const xcc_quant_node *xcc_quant_producer(const quantizer *q, const xcc_quant_tensor *t)
{
    if (t->producer == XCC_NO_NODE)
        return NULL;
    const xcc_quant_node *n = &q->nodes[t->producer];
    while (n->epilogue_of != XCC_NO_NODE)
        n = &q->nodes[n->epilogue_of];
    return n;
}

static const char *judge_operands(const quantizer *q, const xcc_quant_node *n)
{
    size_t computed = 0;
    for (size_t i = 0; i < n->proto->n_input; i++) {
        const xcc_quant_tensor *t = is_operand(n, i) ? xcc_quant_input(q, n, i) : NULL;
        if (t == NULL)
            continue;
        if (t->not_float || (t->constant != NULL && !xcc_quant_is_weight(t)))
            return "its operands are no f32";
        if (n->rule->kind == XCC_QUANT_WEIGHTED)
            continue;
        computed += t->constant == NULL;
        const xcc_quant_node *by = xcc_quant_producer(q, t);
        if (t->constant == NULL && !t->is_input && (by == NULL || !by->quantized || by->level != XCC_LEVEL_INTEGER))
            return "its operands are computed in float";
    }
    if (n->rule->kind == XCC_QUANT_BETWEEN && computed == 0)
        return "it is a constant";
    return NULL;
}

/* True if a quantized node reads the result of `n`. */
static bool is_read(const quantizer *q, const xcc_quant_node *n)
{
    for (size_t i = 0; i < xcc_quant_last(q, n)->proto->n_output; i++) {
        const xcc_quant_tensor *t = xcc_quant_output(q, xcc_quant_last(q, n), i);
        for (size_t k = 0; t != NULL && k < t->consumer_count; k++) {
            const xcc_quant_node *reader = &q->nodes[t->consumers[k]];
            if (reader->gone || !xcc_quant_is_integer(reader))
                continue;
            for (size_t at = 0; at < reader->proto->n_input; at++)
                if (is_operand(reader, at) && xcc_quant_input(q, reader, at) == t)
                    return true;
        }
    }
    return false;
}

static const char kept_in_float[] = "kept in float, as a bound would not hold otherwise",
                  kept_for_weights[] = "its weights alone, as a bound would not hold otherwise";

/* Returns why a node cannot be quantized with the current selection, or NULL. */
static const char *judge(const quantizer *q, const xcc_quant_node *n)
{
    if (n->level == XCC_LEVEL_FLOAT)
        return kept_in_float;
    if (n->rule->kind == XCC_QUANT_RECURRENT)
        return NULL;
    const char *reason = judge_operands(q, n);
    if (reason != NULL || n->rule->kind == XCC_QUANT_WEIGHTED)
        return reason;
    return is_read(q, n) ? NULL : "nothing that computes with integers reads it";
}

xcvm_status xcc_quant_place(quantizer *q)
{
    for (size_t i = 0; i < q->body_node_count; i++) {
        xcc_quant_node *n = &q->body_nodes[i];
        n->quantized = n->candidate && n->level != XCC_LEVEL_FLOAT;
        if (n->candidate)
            n->reason = n->quantized ? n->body : kept_in_float;
    }
    for (size_t i = 0; i < q->node_count; i++) {
        q->nodes[i].quantized = q->nodes[i].candidate;
        if (q->nodes[i].candidate)
            q->nodes[i].reason = q->nodes[i].level == XCC_LEVEL_WEIGHTS ? kept_for_weights : "";
    }
    /* Each round removes at least one node. A forward pass removes nodes without quantized operands, a backward pass
     * those without quantized readers. */
    for (bool again = true; again;) {
        again = false;
        for (size_t round = 0; round < 2; round++)
            for (size_t k = 0; k < q->node_count; k++) {
                xcc_quant_node *n = &q->nodes[round == 0 ? k : q->node_count - 1 - k];
                const char *reason = n->quantized ? judge(q, n) : NULL;
                XCVM_TRY(xcc_poll(&q->m));
                if (reason == NULL)
                    continue;
                n->quantized = false;
                n->reason = reason;
                again = true;
            }
    }
    for (size_t i = 0; i < q->tensor_count; i++) {
        q->tensors[i]->quantized = false;
        q->tensors[i]->like = q->tensors[i];
    }
    if (q->dynamic || weights_alone(q))
        return XCVM_OK;
    for (size_t i = 0; i < q->node_count; i++) {
        const xcc_quant_node *n = &q->nodes[i];
        if (!xcc_quant_is_integer(n))
            continue;
        for (size_t k = 0; k < n->proto->n_input; k++) {
            xcc_quant_tensor *t = is_operand(n, k) ? xcc_quant_input(q, n, k) : NULL;
            const bool weights = n->rule->kind == XCC_QUANT_WEIGHTED && k == 1 && t != NULL && t->constant != NULL;
            if (t != NULL && !weights)
                t->quantized = true;
        }
        /* Operators on quantized tensors have quantized results only. */
        xcc_quant_tensor *result = xcc_quant_output(q, xcc_quant_last(q, n), 0);
        if (q->o.form == XCC_FORM_QOPERATOR && n->rule->kind == XCC_QUANT_WEIGHTED && result != NULL)
            result->quantized = true;
        if (n->rule->kind != XCC_QUANT_PASS)
            continue;
        /* Nodes follow their operands in almost every model. Otherwise the result has its own scale. */
        xcc_quant_tensor *from = xcc_quant_input(q, n, 0);
        for (size_t k = 0; k < n->proto->n_output && from != NULL; k++)
            if (xcc_quant_output(q, n, k) != NULL)
                xcc_quant_output(q, n, k)->like = from->like;
    }
    return XCVM_OK;
}
