/* Nodes of an ONNX model: an instruction becomes the operator of the same name, and its fields become operands and
 * attributes in the order of the table. The tables in this file contain the exceptions. */
#include "compiler/export_onnx/export_onnx.h"

#include <stdio.h>
#include <string.h>

/* ---- Attributes ---- */

typedef enum difference_kind {
    OMITTED,  /* where it has the row's default, which is what ONNX means by leaving it out */
    RENAMED,  /* called `name` */
    OWN,      /* ONNX has none: it must have the row's default, or be absent */
    IS_A_SEED /* -1: left out; else the bits of an f32 */
} difference_kind;

/* Fields that are not the operator's attribute of the same name. Field NULL: all attributes of the row. */
static const struct difference {
    xcvm_opcode opcode;
    const char *field;
    difference_kind kind;
    const char *name;
} differences[] = {{XCVM_OP_Shape, "end", OMITTED, NULL},
                   {XCVM_OP_Compress, "axis", OMITTED, NULL},
                   {XCVM_OP_Unique, "axis", OMITTED, NULL},
                   {XCVM_OP_RNN, "clip", OMITTED, NULL},
                   {XCVM_OP_GRU, "clip", OMITTED, NULL},
                   {XCVM_OP_LSTM, "clip", OMITTED, NULL},
                   {XCVM_OP_Cast, "round_mode", OMITTED, NULL},
                   {XCVM_OP_StringSplit, "maxsplit", OMITTED, NULL},
                   {XCVM_OP_NegativeLogLikelihoodLoss, "ignore_index", OMITTED, NULL},
                   {XCVM_OP_Attention, NULL, OMITTED, NULL},
                   {XCVM_OP_RotaryEmbedding, NULL, OMITTED, NULL},
                   {XCVM_OP_LinearAttention, NULL, OMITTED, NULL},
                   {XCVM_OP_QuantizeLinear, NULL, OMITTED, NULL},
                   {XCVM_OP_DequantizeLinear, NULL, OMITTED, NULL},
                   {XCVM_OP_MelWeightMatrix, "dtype", RENAMED, "output_datatype"},
                   {XCVM_OP_Conv, "z", OWN, NULL},
                   {XCVM_OP_Conv, "activation", OWN, NULL},
                   {XCVM_OP_Conv, "activation_params", OWN, NULL},
                   {XCVM_OP_Conv, "affine", OWN, NULL},
                   {XCVM_OP_Gemm, "activation", OWN, NULL},
                   {XCVM_OP_Gemm, "activation_params", OWN, NULL},
                   {XCVM_OP_ConcatFromSequence, "empty_dims", OWN, NULL},
                   {XCVM_OP_ConcatFromSequence, "empty_dtype", OWN, NULL},
                   {XCVM_OP_RandomNormal, "seed", IS_A_SEED, NULL},
                   {XCVM_OP_RandomUniform, "seed", IS_A_SEED, NULL},
                   {XCVM_OP_Bernoulli, "seed", IS_A_SEED, NULL},
                   {XCVM_OP_Multinomial, "seed", IS_A_SEED, NULL},
                   {XCVM_OP_Dropout, "seed", OMITTED, NULL}};

static const struct difference *difference_of(const xcvm_schema *schema, const xcvm_field *f)
{
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
        if (differences[i].opcode == schema->opcode &&
            (differences[i].field == NULL || strcmp(differences[i].field, f->name) == 0))
            return &differences[i];
    return NULL;
}

static bool is_default(const xcvm_field *f, const void *at)
{
    switch (f->kind) {
    case XCVM_FIELD_INT:
        return *(const int64_t *)at == f->int_default;
    case XCVM_FIELD_FLOAT:
        return *(const double *)at == f->float_default;
    case XCVM_FIELD_INTS:
        return ((const xcvm_ints *)at)->count == 0;
    case XCVM_FIELD_FLOATS:
        return ((const xcvm_floats *)at)->count == 0;
    case XCVM_FIELD_TEXTS:
        return ((const xcvm_texts *)at)->count == 0;
    case XCVM_FIELD_TEXT:
        return ((const xcvm_text *)at)->length == 0;
    case XCVM_FIELD_DTYPE:
        return *(const xcvm_dtype *)at == (xcvm_dtype)f->int_default;
    default:
        return *(const int *)at == (int)f->int_default;
    }
}

/* Returns true if the value is omitted: an empty list or text, or no element type. */
static bool is_nothing(const xcvm_field *f, const void *at)
{
    if (f->kind == XCVM_FIELD_DTYPE)
        return *(const xcvm_dtype *)at == XCVM_NO_DTYPE;
    return f->kind != XCVM_FIELD_INT && f->kind != XCVM_FIELD_FLOAT && f->kind != XCVM_FIELD_CHOICE &&
           is_default(f, at);
}

static ProtobufCBinaryData bytes_of(const char *text, size_t length)
{
    return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)(uintptr_t)text};
}

static xcvm_status write_int(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (a == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->has_i = 1;
    a->i = value;
    return XCVM_OK;
}

static xcvm_status write_float(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, float value)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (a == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->has_f = 1;
    a->f = value;
    return XCVM_OK;
}

static xcvm_status write_text(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, const char *text,
                              size_t length)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (a == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->has_s = 1;
    a->s = bytes_of(text, length);
    return XCVM_OK;
}

static xcvm_status write_ints(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, xcvm_ints ints)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    if (a == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->n_ints = ints.count;
    a->ints = (int64_t *)(uintptr_t)ints.at;
    return XCVM_OK;
}

static xcvm_status write_floats(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, xcvm_floats floats)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
    if (a == NULL || (a->floats = xcc_alloc(w->m, (floats.count + 1) * sizeof *a->floats)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->n_floats = floats.count;
    for (size_t i = 0; i < floats.count; i++)
        a->floats[i] = (float)floats.at[i];
    return XCVM_OK;
}

static xcvm_status write_texts(xcc_onnx_writer *w, Onnx__NodeProto *node, const char *name, xcvm_texts texts)
{
    Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS);
    if (a == NULL || (a->strings = xcc_alloc(w->m, (texts.count + 1) * sizeof *a->strings)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    a->n_strings = texts.count;
    for (size_t i = 0; i < texts.count; i++)
        a->strings[i] = bytes_of(texts.at[i].at, texts.at[i].length);
    return XCVM_OK;
}

/* ONNX's seeds are floats; an instruction has their bits. */
static xcvm_status write_seed(xcc_onnx_writer *w, Onnx__NodeProto *node, int64_t seed)
{
    float value;
    if (seed == -1)
        return XCVM_OK;
    if (seed < 0 || seed > UINT32_MAX)
        return xcc_onnx_refuse(w, "its seed %lld is no f32", (long long)seed);
    memcpy(&value, &(const uint32_t){(uint32_t)seed}, sizeof value);
    return write_float(w, node, "seed", value);
}

static xcvm_status write_attribute(xcc_onnx_writer *w, Onnx__NodeProto *node, const xcvm_field *f, const void *at)
{
    const struct difference *d = difference_of(w->node->schema, f);
    const char *const name = d != NULL && d->kind == RENAMED ? d->name : f->name;
    if (d != NULL && d->kind == IS_A_SEED)
        return write_seed(w, node, *(const int64_t *)at);
    if (d != NULL && d->kind == OWN)
        return is_default(f, at) ? XCVM_OK : xcc_onnx_refuse(w, "ONNX has no %s for it", f->name);
    if (is_nothing(f, at) || (d != NULL && d->kind == OMITTED && is_default(f, at)))
        return XCVM_OK;
    switch (f->kind) {
    case XCVM_FIELD_INT:
        return write_int(w, node, name, *(const int64_t *)at);
    case XCVM_FIELD_DTYPE:
        return write_int(w, node, name, *(const xcvm_dtype *)at);
    case XCVM_FIELD_FLOAT:
        return write_float(w, node, name, (float)*(const double *)at);
    case XCVM_FIELD_INTS:
        return write_ints(w, node, name, *(const xcvm_ints *)at);
    case XCVM_FIELD_FLOATS:
        return write_floats(w, node, name, *(const xcvm_floats *)at);
    case XCVM_FIELD_TEXT:
        return write_text(w, node, name, ((const xcvm_text *)at)->at, ((const xcvm_text *)at)->length);
    case XCVM_FIELD_TEXTS:
        return write_texts(w, node, name, *(const xcvm_texts *)at);
    case XCVM_FIELD_CHOICE:
        return write_text(w, node, name, f->choices[*(const int *)at], strlen(f->choices[*(const int *)at]));
    default:
        return xcc_onnx_refuse(w, "ONNX has no %s for it", f->name);
    }
}

/* ---- Operands and results ---- */

/* Absent ones at the end are left out. */
static size_t trimmed(char *const *names, size_t count)
{
    while (count > 0 && names[count - 1][0] == '\0')
        count--;
    return count;
}

static xcvm_status write_operands(xcc_onnx_writer *w, Onnx__NodeProto *node, const xcc_node *n)
{
    const size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    size_t used = 0;
    for (size_t i = 0; i < inputs; i++) {
        const xcvm_field *f = xcc_node_input_field(n, i);
        const struct difference *d = f != NULL ? difference_of(n->schema, f) : NULL;
        if (d != NULL && d->kind == OWN) {
            if (xcc_node_input(n, i) != NULL)
                XCVM_TRY(xcc_onnx_refuse(w, "ONNX has no %s for it", f->name));
            continue;
        }
        if ((node->input[used++] = xcc_onnx_name(w, xcc_node_input(n, i))) == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < outputs; i++)
        if ((node->output[i] = xcc_onnx_name(w, xcc_node_output(n, i))) == NULL)
            return XCVM_OUT_OF_MEMORY;
    node->n_input = trimmed(node->input, used);
    node->n_output = trimmed(node->output, outputs);
    return XCVM_OK;
}

static Onnx__NodeProto *begin_node(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const char *operator_name,
                                   const xcc_node *n)
{
    const size_t attributes = n->schema != NULL ? n->schema->field_count : 2;
    Onnx__NodeProto *node =
        xcc_onnx_node(w, nodes, operator_name, xcc_node_input_count(n), xcc_node_output_count(n), attributes);
    return node != NULL && write_operands(w, node, n) == XCVM_OK ? node : NULL;
}

/* The operator of the instruction's name; since when ONNX has it decides on the opset. */
static xcvm_status write_same(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n, const char *name)
{
    const xcc_operator_info *op = w->find_operator("", name);
    if (op == NULL)
        return xcc_onnx_refuse(w, "ONNX has no such operator");
    const int64_t since = xcc_operator_since(op);
    w->opset = since > w->opset ? since : w->opset;
    Onnx__NodeProto *node = begin_node(w, nodes, name, n);
    if (node == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        if (f->role == XCVM_ROLE_ATTRIBUTE)
            XCVM_TRY(write_attribute(w, node, f, (const char *)n->args + f->offset));
    }
    return XCVM_OK;
}

/* ---- Combinations ---- */

/* One node between names; `extra` attributes may be added. */
static Onnx__NodeProto *put(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const char *operator_name, char *input,
                            char *output, size_t extra)
{
    Onnx__NodeProto *node = xcc_onnx_node(w, nodes, operator_name, 1, 1, extra);
    if (node == NULL || input == NULL || output == NULL)
        return NULL;
    node->input[0] = input;
    node->output[0] = output;
    return node;
}

/* A tensor of zeros with the shape that x has when the model runs. */
static xcvm_status write_zeros(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, char *shape, char *y, xcvm_dtype dtype)
{
    static const uint64_t zero[2] = {0};
    xcvm_value number;
    const int64_t one = 1;
    if (xcvm_dtype_bits(dtype) == 0 || dtype == XCVM_STRING)
        return xcc_onnx_refuse(w, "ONNX has no zero of its type");
    xcvm_value_set_tensor(&number, dtype, 1, &one);
    number.data = (void *)(uintptr_t)zero;
    Onnx__NodeProto *node = put(w, nodes, "ConstantOfShape", shape, y, 1);
    Onnx__AttributeProto *value =
        node != NULL ? xcc_onnx_attribute(w, node, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR) : NULL;
    if (value == NULL || (value->t = xcc_onnx_tensor(w, &number, NULL)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    return XCVM_OK;
}

static xcvm_status write_zeros_like(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcc_value *x = xcc_node_input(n, 0);
    if (x->type.kind != XCVM_KIND_TENSOR)
        return xcc_onnx_refuse(w, "ONNX has no zeros of a sequence");
    char *shape = xcc_onnx_new_name(w);
    if (put(w, nodes, "Shape", xcc_onnx_name(w, x), shape, 0) == NULL)
        return XCVM_OUT_OF_MEMORY;
    return write_zeros(w, nodes, shape, xcc_onnx_name(w, xcc_node_output(n, 0)), (xcvm_dtype)x->type.dtype);
}

static xcvm_status write_accumulate(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    for (size_t i = 0; i < 2; i++)
        if (xcc_node_input(n, i)->type.kind != XCVM_KIND_TENSOR)
            return xcc_onnx_refuse(w, "ONNX adds no sequences");
    return write_same(w, nodes, n, "Add");
}

/* ONNX has the shape as an attribute, or that of another tensor. */
static xcvm_status write_random(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcc_value *shape = xcc_node_input(n, 0);
    const bool known = xcc_is_constant(shape);
    char like[32];
    char *zeros = known ? NULL : xcc_onnx_new_name(w);
    snprintf(like, sizeof like, "%s%s", n->schema->name, known ? "" : "Like");
    if (!known) {
        if (zeros == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(write_zeros(w, nodes, xcc_onnx_name(w, shape), zeros, XCVM_F32));
    }
    const char *const name = xcc_string(w->m, like, strlen(like));
    Onnx__NodeProto *node = name != NULL ? xcc_onnx_node(w, nodes, name, 1, 1, n->schema->field_count) : NULL;
    if (node == NULL || (node->output[0] = xcc_onnx_name(w, xcc_node_output(n, 0))) == NULL)
        return XCVM_OUT_OF_MEMORY;
    node->n_input = known ? 0 : 1;
    node->input[0] = zeros;
    for (size_t i = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        if (f->role == XCVM_ROLE_ATTRIBUTE)
            XCVM_TRY(write_attribute(w, node, f, (const char *)n->args + f->offset));
    }
    return known ? write_ints(w, node, "shape",
                              (xcvm_ints){(const int64_t *)shape->type.data, xcvm_element_count(&shape->type)})
                 : XCVM_OK;
}

static xcvm_status write_sequence(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcvm_SequenceConstruct_args *a = n->args;
    if (a->xs.count == 0) {
        Onnx__NodeProto *node = begin_node(w, nodes, "SequenceEmpty", n);
        if (node == NULL)
            return XCVM_OUT_OF_MEMORY;
        return a->dtype != XCVM_NO_DTYPE ? write_int(w, node, "dtype", a->dtype) : XCVM_OK;
    }
    return begin_node(w, nodes, "SequenceConstruct", n) != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

static xcvm_status write_optional(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    return xcc_node_input_count(n) > 0 ? write_same(w, nodes, n, "Optional")
                                       : xcc_onnx_refuse(w, "an optional without a value does not say its type");
}

static xcvm_status write_batch_normalization(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcvm_BatchNormalization_args *a = n->args;
    if (a->training_mode == 0 && (a->running_mean != NULL || a->running_var != NULL))
        return xcc_onnx_refuse(w, "ONNX returns running statistics in training mode only");
    return write_same(w, nodes, n, n->schema->name);
}

/* A pad below 0 at an end, by which a result is larger, is what ONNX calls output padding. */
static xcvm_status write_conv_transpose(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcvm_ConvTranspose_args *a = n->args;
    const size_t axes = a->pads.count / 2;
    size_t enlarged = 0;
    int64_t *pads = xcc_alloc(w->m, (a->pads.count + 1) * sizeof *pads),
            *more = xcc_alloc(w->m, (axes + 1) * sizeof *more);
    if (pads == NULL || more == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < a->pads.count; i++) {
        const bool is_end = i >= axes;
        if (is_end)
            more[i - axes] = i - axes < a->output_padding.count ? a->output_padding.at[i - axes] : 0;
        if (a->pads.at[i] < 0 && !is_end)
            return xcc_onnx_refuse(w, "ONNX has no pads below 0");
        pads[i] = a->pads.at[i] < 0 ? 0 : a->pads.at[i];
        enlarged += a->pads.at[i] < 0;
        if (a->pads.at[i] < 0)
            more[i - axes] -= a->pads.at[i];
    }
    XCVM_TRY(write_same(w, nodes, n, n->schema->name));
    Onnx__NodeProto *node = nodes->at[nodes->count - 1];
    for (size_t i = 0; i < node->n_attribute && enlarged > 0; i++) {
        Onnx__AttributeProto *attribute = node->attribute[i];
        if (strcmp(attribute->name, "pads") == 0)
            attribute->ints = pads;
        if (strcmp(attribute->name, "output_padding") == 0)
            attribute->ints = more;
    }
    return XCVM_OK;
}

/* For one group: the convolution of x with g, in which batch and channels are exchanged, and strides and dilations.
 * Results beyond the window are cut off. */
static xcvm_status write_filter_gradient(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcvm_ConvFilterGradient_args *a = n->args;
    const size_t axes = a->kernel_shape.count;
    int64_t perm[XCVM_MAX_RANK] = {1, 0}, places[XCVM_MAX_RANK], zeros[XCVM_MAX_RANK] = {0};
    if (a->group != 1)
        return xcc_onnx_refuse(w, "ONNX has no combination of operators for it with several groups");
    for (size_t i = 0; i < axes; i++)
        perm[i + 2] = places[i] = (int64_t)i + 2;
    int64_t *kept = xcc_alloc(w->m, (axes + 2) * sizeof *kept);
    char *names[4];
    for (size_t i = 0; i < 4; i++)
        if ((names[i] = xcc_onnx_new_name(w)) == NULL)
            return XCVM_OUT_OF_MEMORY;
    if (kept == NULL)
        return XCVM_OUT_OF_MEMORY;
    memcpy(kept, perm, (axes + 2) * sizeof *kept);
    const xcvm_ints exchange = {kept, axes + 2};
    for (size_t i = 0; i < 2; i++) {
        Onnx__NodeProto *turned = put(w, nodes, "Transpose", xcc_onnx_name(w, xcc_node_input(n, i)), names[i], 1);
        if (turned == NULL || write_ints(w, turned, "perm", exchange) != XCVM_OK)
            return XCVM_OUT_OF_MEMORY;
    }
    Onnx__NodeProto *conv = xcc_onnx_node(w, nodes, "Conv", 2, 1, 3);
    if (conv == NULL)
        return XCVM_OUT_OF_MEMORY;
    conv->input[0] = names[0];
    conv->input[1] = names[1];
    conv->output[0] = names[2];
    XCVM_TRY(write_ints(w, conv, "strides", a->dilations));
    XCVM_TRY(write_ints(w, conv, "dilations", a->strides));
    XCVM_TRY(write_ints(w, conv, "pads", a->pads));
    Onnx__NodeProto *cut = xcc_onnx_node(w, nodes, "Slice", 4, 1, 0);
    if (cut == NULL)
        return XCVM_OUT_OF_MEMORY;
    cut->input[0] = names[2];
    cut->input[1] = xcc_onnx_ints(w, axes, zeros);
    cut->input[2] = xcc_onnx_ints(w, axes, a->kernel_shape.at);
    cut->input[3] = xcc_onnx_ints(w, axes, places);
    cut->output[0] = names[3];
    if (cut->input[1] == NULL || cut->input[2] == NULL || cut->input[3] == NULL)
        return XCVM_OUT_OF_MEMORY;
    Onnx__NodeProto *back = put(w, nodes, "Transpose", names[3], xcc_onnx_name(w, xcc_node_output(n, 0)), 1);
    return back != NULL ? write_ints(w, back, "perm", exchange) : XCVM_OUT_OF_MEMORY;
}

/* Without sizes, ONNX wants the number of parts. */
static xcvm_status write_split(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    const xcvm_Split_args *a = n->args;
    XCVM_TRY(write_same(w, nodes, n, n->schema->name));
    return a->split != NULL ? XCVM_OK : write_int(w, nodes->at[nodes->count - 1], "num_outputs", (int64_t)a->ys.count);
}

/* Rows that are not the operator of their name, or not always. */
static const struct combination {
    xcvm_opcode opcode;
    xcvm_status (*write)(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n);
} combinations[] = {{XCVM_OP_ZerosLike, write_zeros_like},
                    {XCVM_OP_Accumulate, write_accumulate},
                    {XCVM_OP_RandomNormal, write_random},
                    {XCVM_OP_RandomUniform, write_random},
                    {XCVM_OP_SequenceConstruct, write_sequence},
                    {XCVM_OP_Optional, write_optional},
                    {XCVM_OP_Split, write_split},
                    {XCVM_OP_ConvFilterGradient, write_filter_gradient},
                    {XCVM_OP_ConvTranspose, write_conv_transpose},
                    {XCVM_OP_BatchNormalization, write_batch_normalization}};

/* ---- Control flow ---- */

static xcvm_status write_control(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    static const char *const if_bodies[] = {"then_branch", "else_branch"}, *const loop_bodies[] = {"body"};
    const bool is_if = n->kind == XCC_IF;
    const char *const *names = is_if ? if_bodies : loop_bodies;
    Onnx__NodeProto *node = begin_node(w, nodes, is_if ? "If" : "Loop", n);
    if (node == NULL)
        return XCVM_OUT_OF_MEMORY;
    /* The number of operands and results says how many states and stacked results there are. */
    if (!is_if)
        node->n_input = xcc_node_input_count(n) > 2 ? xcc_node_input_count(n) : node->n_input;
    for (size_t i = 0; i < n->body_count; i++) {
        Onnx__AttributeProto *a = xcc_onnx_attribute(w, node, names[i], ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
        if (a == NULL)
            return XCVM_OUT_OF_MEMORY;
        XCVM_TRY(xcc_onnx_graph(w, n->bodies[i], &a->g));
        w->node = n;
    }
    return XCVM_OK;
}

static xcvm_status write_node(xcc_onnx_writer *w, xcc_onnx_nodes *nodes, const xcc_node *n)
{
    w->node = n;
    if (n->kind != XCC_INSTRUCTION)
        return write_control(w, nodes, n);
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++)
        if (xcc_is(n, combinations[i].opcode))
            return combinations[i].write(w, nodes, n);
    return write_same(w, nodes, n, n->schema->name);
}

xcvm_status xcc_onnx_write_nodes(xcc_onnx_writer *w, const xcc_graph *g, xcc_onnx_nodes *nodes)
{
    for (const xcc_node *n = g->first; n != NULL; n = n->next) {
        XCVM_TRY(xcc_poll(w->m));
        const xcvm_status status = write_node(w, nodes, n);
        if (status == XCVM_OUT_OF_MEMORY)
            return xcc_out_of_memory(w->m);
        XCVM_TRY(status);
    }
    return XCVM_OK;
}
