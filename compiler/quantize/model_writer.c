/* Writing models: new nodes and constants are packed with the rest of the message. */
#include "compiler/quantize/model_writer.h"

#include "base/array.h"
#include "compiler/onnx_model/onnx_model.h"

#include <stdio.h>
#include <string.h>

/* ---- Memory ---- */

static void *writer_allocate(xcc_model_writer *w, size_t bytes)
{
    void *memory = xcvm_arena_allocate(&w->arena, bytes);
    w->failed = w->failed || memory == NULL;
    return memory;
}

/* Fields of messages are writable strings, but are never written. */
static char *text(const char *string) { return (char *)(uintptr_t)string; }

void xcc_model_begin(xcc_model_writer *w, quantizer *q)
{
    *w = (xcc_model_writer){
        .q = q, .arena = {.allocator = q->m.allocator}, .made = {.key = &q->m.key}, .names = {.key = &q->m.key}};
    for (size_t i = 0; i < q->tensor_count; i++) {
        xcc_quant_tensor *t = q->tensors[i];
        t->quantized_name = t->dequantized_name = t->scale_name = t->zero_point_name = NULL;
    }
}

void xcc_model_end(xcc_model_writer *w) { xcvm_arena_release(&w->arena); }

/* ---- Putting ---- */

const char *xcc_put_name(xcc_model_writer *w, const char *stem, const char *suffix)
{
    const char *name = xcc_quant_name(w->q, &w->names, stem, suffix);
    w->failed = w->failed || name == NULL;
    return name != NULL ? name : "";
}

static void append(xcc_model_writer *w, Onnx__NodeProto *n)
{
    Onnx__NodeProto **nodes =
        xcvm_arena_grow(&w->arena, w->nodes, w->node_count, &w->node_capacity, sizeof(Onnx__NodeProto *));
    w->failed = w->failed || nodes == NULL;
    if (nodes == NULL)
        return;
    w->nodes = nodes;
    nodes[w->node_count++] = n;
}

static char **names(xcc_model_writer *w, size_t count, const char *const *from)
{
    char **to = writer_allocate(w, (count + 1) * sizeof *to);
    for (size_t i = 0; i < count && to != NULL; i++)
        to[i] = text(from[i]);
    return to;
}

Onnx__NodeProto *xcc_put_node(xcc_model_writer *w, const char *domain, const char *op, size_t input_count,
                              const char *const *inputs, const char *output)
{
    Onnx__NodeProto *n = writer_allocate(w, sizeof *n);
    char **operands = names(w, input_count, inputs), **results = names(w, 1, &output);
    if (n == NULL || operands == NULL || results == NULL)
        return NULL;
    *n = (Onnx__NodeProto)ONNX__NODE_PROTO__INIT;
    n->op_type = text(op);
    char suffix[64];
    (void)snprintf(suffix, sizeof suffix, "_%s", op);
    n->name = text(xcc_put_name(w, output, suffix));
    if (domain[0] != '\0') {
        n->domain = text(domain);
        w->microsoft = true;
    }
    n->input = operands;
    n->n_input = input_count;
    n->output = results;
    n->n_output = 1;
    append(w, n);
    return n;
}

Onnx__NodeProto *xcc_put_like(xcc_model_writer *w, const xcc_quant_node *from, const char *const *inputs,
                              const char *const *outputs)
{
    Onnx__NodeProto *n = writer_allocate(w, sizeof *n);
    if (n == NULL)
        return NULL;
    *n = *from->proto;
    if (inputs != NULL)
        n->input = names(w, n->n_input, inputs);
    if (outputs != NULL)
        n->output = names(w, n->n_output, outputs);
    if (n->input == NULL)
        n->n_input = 0;
    if (n->output == NULL)
        n->n_output = 0;
    append(w, n);
    return n;
}

static Onnx__AttributeProto *add_attribute(xcc_model_writer *w, Onnx__NodeProto *n, const char *name)
{
    if (n == NULL)
        return NULL;
    Onnx__AttributeProto **all = writer_allocate(w, (n->n_attribute + 1) * sizeof(Onnx__AttributeProto *));
    Onnx__AttributeProto *a = writer_allocate(w, sizeof *a);
    if (all == NULL || a == NULL)
        return NULL;
    if (n->n_attribute > 0)
        memcpy(all, n->attribute, n->n_attribute * sizeof(Onnx__AttributeProto *));
    *a = (Onnx__AttributeProto)ONNX__ATTRIBUTE_PROTO__INIT;
    a->name = text(name);
    a->has_type = true;
    all[n->n_attribute++] = a;
    n->attribute = all;
    return a;
}

void xcc_put_int(xcc_model_writer *w, Onnx__NodeProto *n, const char *name, int64_t value)
{
    Onnx__AttributeProto *a = add_attribute(w, n, name);
    if (a == NULL)
        return;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = true;
    a->i = value;
}

void xcc_put_real(xcc_model_writer *w, Onnx__NodeProto *n, const char *name, double value)
{
    Onnx__AttributeProto *a = add_attribute(w, n, name);
    if (a == NULL)
        return;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    a->has_f = true;
    a->f = (float)value;
}

void xcc_put_attribute(xcc_model_writer *w, Onnx__NodeProto *n, const xcc_quant_node *from, const char *name)
{
    const Onnx__AttributeProto *given = xcc_quant_attribute(from, name);
    Onnx__AttributeProto *a = given != NULL ? add_attribute(w, n, name) : NULL;
    if (a != NULL)
        *a = *given;
}

Onnx__TensorProto *xcc_tensor_proto(xcvm_arena *arena, const char *name, xcvm_dtype dtype, int rank,
                                    const int64_t *dims, const void *data, size_t bytes)
{
    Onnx__TensorProto *t = xcvm_arena_allocate(arena, sizeof *t);
    int64_t *own = xcvm_arena_allocate(arena, ((size_t)rank + 1) * sizeof *own);
    uint8_t *raw = xcvm_arena_allocate(arena, bytes + 1);
    if (t == NULL || own == NULL || raw == NULL)
        return NULL;
    if (rank > 0)
        memcpy(own, dims, (size_t)rank * sizeof *own);
    if (bytes > 0)
        memcpy(raw, data, bytes);
    *t = (Onnx__TensorProto)ONNX__TENSOR_PROTO__INIT;
    t->name = text(name);
    t->has_data_type = true;
    t->data_type = (int32_t)dtype;
    t->n_dims = (size_t)rank;
    t->dims = own;
    t->has_raw_data = true;
    t->raw_data.data = raw;
    t->raw_data.len = bytes;
    return t;
}

/* Float initializers are trainable; results of Constant nodes are not. */
static void put_fixed(xcc_model_writer *w, const char *name, Onnx__TensorProto *t)
{
    Onnx__AttributeProto *a = add_attribute(w, xcc_put_node(w, "", "Constant", 0, NULL, name), "value");
    if (a == NULL)
        return;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    a->t = t;
}

void xcc_put_constant(xcc_model_writer *w, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                      const void *data, size_t bytes)
{
    Onnx__TensorProto *t = xcc_tensor_proto(&w->arena, name, dtype, rank, dims, data, bytes);
    w->failed = w->failed || t == NULL;
    if (t == NULL)
        return;
    if (w->q->o.trainable) {
        put_fixed(w, name, t);
        return;
    }
    Onnx__TensorProto **constants =
        xcvm_arena_grow(&w->arena, w->constants, w->constant_count, &w->constant_capacity, sizeof(Onnx__TensorProto *));
    w->failed = w->failed || constants == NULL;
    if (constants == NULL)
        return;
    w->constants = constants;
    constants[w->constant_count++] = t;
}

const char *xcc_put_scalar(xcc_model_writer *w, const char *stem, const char *suffix, xcvm_dtype dtype, const void *at)
{
    const char *name = xcc_put_name(w, stem, suffix);
    xcc_put_constant(w, name, dtype, 0, NULL, at, (size_t)xcvm_dtype_bits(dtype) / 8);
    return name;
}

const char *xcc_put_scaled(xcc_model_writer *w, const char *name, float beta)
{
    if (beta == 1.0f)
        return name;
    const char *scaled = xcc_put_name(w, name, "_scaled");
    const char *factor = xcc_put_scalar(w, name, "_beta", XCVM_F32, &beta);
    (void)xcc_put_node(w, "", "Mul", 2, (const char *[]){name, factor}, scaled);
    return scaled;
}

void xcc_put_output(xcc_model_writer *w, const char *name)
{
    const char **outputs =
        xcvm_arena_grow(&w->arena, w->outputs, w->output_count, &w->output_capacity, sizeof(const char *));
    w->failed = w->failed || outputs == NULL;
    if (outputs == NULL)
        return;
    w->outputs = outputs;
    outputs[w->output_count++] = name;
}

/* ---- What quantized tensors have in common ---- */

const char *xcc_quant_domain(xcc_model_writer *w, xcvm_dtype dtype)
{
    const bool own = xcvm_dtype_bits(dtype) == 8 || dtype == XCVM_I32 ? w->q->opset >= 13 : w->q->opset >= 21;
    return own ? "" : "com.microsoft";
}

const char *xcc_put_scale(xcc_model_writer *w, xcc_quant_tensor *t)
{
    t = t->like;
    if (t->scale_name == NULL)
        t->scale_name = xcc_put_scalar(w, t->name, "_scale", XCVM_F32, &t->scale);
    return t->scale_name;
}

const char *xcc_put_zero_point(xcc_model_writer *w, xcc_quant_tensor *t)
{
    t = t->like;
    if (t->zero_point_name == NULL) {
        const uint16_t wide = (uint16_t)t->zero_point;
        const uint8_t narrow = (uint8_t)t->zero_point;
        const xcvm_dtype dtype = w->q->o.activations;
        t->zero_point_name = xcc_put_scalar(w, t->name, "_zero_point", dtype,
                                            xcvm_dtype_bits(dtype) == 8 ? (const void *)&narrow : &wide);
    }
    return t->zero_point_name;
}

/* ---- Packing ---- */

/* protobuf-c's buffer over the bytes. */
typedef struct packing {
    ProtobufCBuffer base;
    xcvm_bytes *bytes;
} packing;

static void append_packed(ProtobufCBuffer *buffer, size_t count, const uint8_t *piece)
{
    (void)xcvm_bytes_sink(((packing *)buffer)->bytes, piece, count);
}

/* Names that nodes read, of bodies, too. */
xcvm_status xcc_note_reads(quantizer *q, xcc_table *read, Onnx__NodeProto *const *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcc_poll(&q->m));
        for (size_t k = 0; k < nodes[i]->n_input; k++)
            if (nodes[i]->input[k][0] != '\0')
                XCVM_TRY(xcc_table_put(&q->m, read, nodes[i]->input[k], 1));
        for (size_t a = 0; a < nodes[i]->n_attribute; a++) {
            const Onnx__AttributeProto *attribute = nodes[i]->attribute[a];
            for (size_t b = 0; b <= attribute->n_graphs; b++) {
                const Onnx__GraphProto *g = b < attribute->n_graphs ? attribute->graphs[b] : attribute->g;
                if (g == NULL)
                    continue;
                XCVM_TRY(xcc_note_reads(q, read, g->node, g->n_node));
                for (size_t k = 0; k < g->n_output; k++)
                    XCVM_TRY(xcc_table_put(&q->m, read, g->output[k]->name, 1));
            }
        }
    }
    return XCVM_OK;
}

/* The constant with its elements inside, if they are in a file of their own. */
static xcvm_status embed(xcc_model_writer *w, Onnx__TensorProto **constant)
{
    xcc_tensor tensor;
    if (!(*constant)->has_data_location || (*constant)->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return XCVM_OK;
    const xcc_quant_tensor *t = xcc_quant_find(w->q, (*constant)->name);
    if (t == NULL)
        return XCVM_OK;
    XCVM_TRY(xcc_quant_read(w->q, t, &tensor));
    *constant = xcc_tensor_proto(&w->arena, t->name, tensor.dtype, tensor.rank, tensor.dims, tensor.data, tensor.bytes);
    return *constant != NULL ? XCVM_OK : xcc_out_of_memory(&w->q->m);
}

/* Bytes of the elements, whichever way they are stated. */
static uint64_t bytes_of(const Onnx__TensorProto *t)
{
    size_t count, bytes;
    return t->n_dims <= XCVM_MAX_RANK && xcvm_dtype_bits((xcvm_dtype)t->data_type) != 0 &&
                   xcvm_tensor_size((xcvm_dtype)t->data_type, (int)t->n_dims, t->dims, &count, &bytes)
               ? bytes
               : 0;
}

static xcvm_status pack_constants(xcc_model_writer *w, const xcc_table *read, Onnx__GraphProto *g, uint64_t *total)
{
    Onnx__TensorProto **all =
        writer_allocate(w, (g->n_initializer + w->constant_count + 1) * sizeof(Onnx__TensorProto *));
    size_t count = 0;
    if (all == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t i = 0; i < g->n_initializer; i++)
        if (xcc_table_lookup(read, g->initializer[i]->name) != NULL) {
            all[count] = g->initializer[i];
            XCVM_TRY(embed(w, &all[count++]));
        }
    for (size_t i = 0; i < w->constant_count; i++)
        if (xcc_table_lookup(read, w->constants[i]->name) != NULL)
            all[count++] = w->constants[i];
    *total = 0;
    for (size_t i = 0; i < count; i++)
        *total += bytes_of(all[i]);
    g->initializer = all;
    g->n_initializer = count;
    return XCVM_OK;
}

/* Leaves out nodes Constant that nothing reads, as those are whose integers took their place. */
static void drop_constants(xcc_model_writer *w, const xcc_table *read)
{
    size_t count = 0;
    for (size_t i = 0; i < w->node_count; i++) {
        const xcc_quant_node n = {.proto = w->nodes[i]};
        if (!xcc_quant_is(&n, "Constant") || n.proto->n_output != 1 ||
            xcc_table_lookup(read, n.proto->output[0]) != NULL)
            w->nodes[count++] = w->nodes[i];
    }
    w->node_count = count;
}

/* Bytes of the elements that nodes Constant state. */
static uint64_t bytes_of_nodes(const xcc_model_writer *w)
{
    uint64_t total = 0;
    for (size_t i = 0; i < w->node_count; i++) {
        const xcc_quant_node n = {.proto = w->nodes[i]};
        const Onnx__AttributeProto *value = xcc_quant_is(&n, "Constant") ? xcc_quant_attribute(&n, "value") : NULL;
        total += value != NULL && value->t != NULL ? bytes_of(value->t) : 0;
    }
    return total;
}

/* Only existing values keep their declared types, and removed initializers are no inputs. */
static xcvm_status pack_types(xcc_model_writer *w, const xcc_table *read, Onnx__GraphProto *g)
{
    xcc_table written = {.key = &w->q->m.key};
    Onnx__ValueInfoProto **infos = writer_allocate(w, (g->n_value_info + 1) * sizeof(Onnx__ValueInfoProto *)),
                         **inputs = writer_allocate(w, (g->n_input + 1) * sizeof(Onnx__ValueInfoProto *)),
                         **outputs =
                             writer_allocate(w, (g->n_output + w->output_count + 1) * sizeof(Onnx__ValueInfoProto *));
    if (infos == NULL || inputs == NULL || outputs == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t i = 0; i < w->node_count; i++)
        for (size_t k = 0; k < w->nodes[i]->n_output; k++)
            XCVM_TRY(xcc_table_put(&w->q->m, &written, w->nodes[i]->output[k], 1));
    size_t count = 0;
    for (size_t i = 0; i < g->n_value_info; i++)
        if (g->value_info[i]->name != NULL && xcc_table_lookup(&written, g->value_info[i]->name) != NULL)
            infos[count++] = g->value_info[i];
    g->value_info = infos;
    g->n_value_info = count;
    count = 0;
    for (size_t i = 0; i < g->n_input; i++) {
        const xcc_quant_tensor *t = xcc_quant_find(w->q, g->input[i]->name);
        if (t == NULL || t->is_input || xcc_table_lookup(read, t->name) != NULL)
            inputs[count++] = g->input[i];
    }
    g->input = inputs;
    g->n_input = count;
    if (g->n_output > 0)
        memcpy(outputs, g->output, g->n_output * sizeof(Onnx__ValueInfoProto *));
    for (size_t i = 0; i < w->output_count; i++) {
        Onnx__ValueInfoProto *info = writer_allocate(w, sizeof *info);
        Onnx__TypeProto *type = writer_allocate(w, sizeof *type);
        Onnx__TypeProto__Tensor *tensor = writer_allocate(w, sizeof *tensor);
        if (info == NULL || type == NULL || tensor == NULL)
            return xcc_out_of_memory(&w->q->m);
        *info = (Onnx__ValueInfoProto)ONNX__VALUE_INFO_PROTO__INIT;
        *type = (Onnx__TypeProto)ONNX__TYPE_PROTO__INIT;
        *tensor = (Onnx__TypeProto__Tensor)ONNX__TYPE_PROTO__TENSOR__INIT;
        type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        type->tensor_type = tensor;
        info->name = text(w->outputs[i]);
        info->type = type;
        outputs[g->n_output++] = info;
    }
    g->output = outputs;
    return XCVM_OK;
}

static xcvm_status pack_opsets(xcc_model_writer *w, Onnx__ModelProto *model)
{
    Onnx__OperatorSetIdProto **all =
        writer_allocate(w, (model->n_opset_import + 1) * sizeof(Onnx__OperatorSetIdProto *));
    Onnx__OperatorSetIdProto *microsoft = writer_allocate(w, sizeof *microsoft);
    if (all == NULL || microsoft == NULL)
        return xcc_out_of_memory(&w->q->m);
    for (size_t i = 0; i < model->n_opset_import; i++) {
        all[i] = model->opset_import[i];
        w->microsoft = w->microsoft && strcmp(xcc_domain(all[i]->domain), "com.microsoft") != 0;
    }
    model->opset_import = all;
    if (!w->microsoft)
        return XCVM_OK;
    *microsoft = (Onnx__OperatorSetIdProto)ONNX__OPERATOR_SET_ID_PROTO__INIT;
    microsoft->domain = text("com.microsoft");
    microsoft->has_version = true;
    microsoft->version = 1;
    all[model->n_opset_import++] = microsoft;
    return XCVM_OK;
}

xcvm_status xcc_model_pack(xcc_model_writer *w, xcvm_bytes *bytes, uint64_t *constants)
{
    xcc_module *m = &w->q->m;
    Onnx__ModelProto model = *w->q->model;
    Onnx__GraphProto g = *w->q->graph;
    xcc_table read = {.key = &m->key};
    uint64_t total = 0;
    if (w->failed)
        return xcc_out_of_memory(m);
    if (w->integers)
        XCVM_TRY(xcc_put_bodies(w));
    XCVM_TRY(xcc_note_reads(w->q, &read, w->nodes, w->node_count));
    for (size_t i = 0; i < g.n_output; i++)
        XCVM_TRY(xcc_table_put(m, &read, g.output[i]->name, 1));
    drop_constants(w, &read);
    XCVM_TRY(pack_constants(w, &read, &g, &total));
    total += bytes_of_nodes(w);
    XCVM_TRY(pack_types(w, &read, &g));
    XCVM_TRY(pack_opsets(w, &model));
    if (w->failed)
        return xcc_out_of_memory(m);
    if (constants != NULL)
        *constants = total;
    g.node = w->nodes;
    g.n_node = w->node_count;
    model.graph = &g;
    /* Before version 4 every initializer had to be an input, too. */
    enum { INITIALIZERS_ALONE = 4 };
    if (!model.has_ir_version || model.ir_version < INITIALIZERS_ALONE) {
        model.has_ir_version = true;
        model.ir_version = INITIALIZERS_ALONE;
    }
    const size_t count = onnx__model_proto__get_packed_size(&model);
    XCVM_CHECK(m->error, count < INT32_MAX, UNSUPPORTED,
               "with its weights inside the model has 2 GB and more, which no model file can hold");
    bytes->at = xcvm_allocate(bytes->allocator, count);
    if (bytes->at == NULL)
        return xcc_out_of_memory(m);
    bytes->capacity = count;
    packing p = {.base = {.append = append_packed}, .bytes = bytes};
    onnx__model_proto__pack_to_buffer(&model, &p.base);
    return bytes->failed ? xcc_out_of_memory(m) : XCVM_OK;
}

/* ---- The float model ---- */

void xcc_write_float(xcc_model_writer *w)
{
    const quantizer *q = w->q;
    for (size_t i = 0; i < q->node_count; i++)
        if (!q->nodes[i].gone)
            (void)xcc_put_like(w, &q->nodes[i], NULL, NULL);
    for (size_t i = 0; i < q->tensor_count; i++) {
        const xcc_quant_tensor *t = q->tensors[i];
        if (t->probe >= 0 && !t->is_output && !t->is_input)
            xcc_put_output(w, t->name);
    }
}
