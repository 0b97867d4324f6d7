/* Common subexpression elimination: merges nodes that compute the same from the same operands. */
#include "compiler/passes/rewrite.h"

#include <string.h>

enum {
    /* Constants of up to this many bytes are compared by elements, larger ones by identity. */
    SMALL = 256,
    /* Maximum nodes of a hash chain that are compared, latest first, because a crafted model may put all in one chain.
     */
    MOST_COMPARED = 64
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 31;
}

static uint64_t mix_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = mix(hash, at[i]);
    return mix(hash, count);
}

/* Weights that begin with the same elements differ once the model has been written as ONNX and trained. */
static bool may_differ_later(const xcc_value *v)
{
    const xcc_options *options = v->graph->module->options;
    return options != NULL && options->onnx_export.enabled && xcc_is_weight(v);
}

static bool by_elements(const xcc_value *v)
{
    return xcc_is_constant(v) && v->type.bytes <= SMALL && !may_differ_later(v);
}

static uint64_t hash_operand(uint64_t hash, const xcc_value *v)
{
    if (!by_elements(v))
        return mix(hash, v != NULL ? v->id + UINT64_C(1) : 0);
    hash = mix_bytes(hash, v->type.dims, (size_t)v->type.rank * sizeof *v->type.dims);
    return mix_bytes(mix(hash, v->type.dtype), v->type.data, v->type.bytes);
}

static bool equal_operands(const xcc_value *a, const xcc_value *b)
{
    if (a == b)
        return true;
    return a != NULL && b != NULL && by_elements(a) && by_elements(b) && xcc_same_type(a, b) &&
           a->type.bytes == b->type.bytes && memcmp(a->type.data, b->type.data, a->type.bytes) == 0;
}

/* The bytes of an attribute. Callers handle lists of texts themselves. */
static const void *attribute_bytes(const xcvm_field *f, const void *at, size_t *count)
{
    switch (f->kind) {
    case XCVM_FIELD_INT:
        *count = sizeof(int64_t);
        return at;
    case XCVM_FIELD_FLOAT:
        *count = sizeof(double);
        return at;
    case XCVM_FIELD_DTYPE:
        *count = sizeof(xcvm_dtype);
        return at;
    case XCVM_FIELD_CHOICE:
        *count = sizeof(int);
        return at;
    case XCVM_FIELD_INTS:
        *count = ((const xcvm_ints *)at)->count * sizeof(int64_t);
        return ((const xcvm_ints *)at)->at;
    case XCVM_FIELD_FLOATS:
        *count = ((const xcvm_floats *)at)->count * sizeof(double);
        return ((const xcvm_floats *)at)->at;
    case XCVM_FIELD_TEXT:
        *count = ((const xcvm_text *)at)->length;
        return ((const xcvm_text *)at)->at;
    default:
        *count = 0;
        return NULL;
    }
}

static uint64_t hash_node(const xcc_node *n)
{
    uint64_t hash = mix(0, n->schema->opcode);
    size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++)
        hash = hash_operand(hash, n->uses[i].value);
    for (size_t i = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        size_t count;
        const void *bytes =
            f->role == XCVM_ROLE_ATTRIBUTE ? attribute_bytes(f, (const char *)n->args + f->offset, &count) : NULL;
        if (bytes != NULL)
            hash = mix_bytes(hash, bytes, count);
    }
    return hash;
}

static bool equal_texts(const xcvm_texts *a, const xcvm_texts *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->at[i].length != b->at[i].length || memcmp(a->at[i].at, b->at[i].at, a->at[i].length) != 0)
            return false;
    return true;
}

static bool equal_fields(const xcvm_field *f, const void *a, const void *b)
{
    if (xcvm_field_is_operand(f)) {
        size_t count = xcvm_field_count(f, a);
        if (count != xcvm_field_count(f, b))
            return false;
        for (size_t i = 0; i < count; i++) {
            const xcc_value *va = xcc_value_of(xcvm_field_value(f, a, i)),
                            *vb = xcc_value_of(xcvm_field_value(f, b, i));
            if (f->role == XCVM_ROLE_OUT ? (va == NULL) != (vb == NULL) : !equal_operands(va, vb))
                return false;
        }
        return true;
    }
    if (f->role != XCVM_ROLE_ATTRIBUTE)
        return true;
    const char *at_a = (const char *)a + f->offset, *at_b = (const char *)b + f->offset;
    if (f->kind == XCVM_FIELD_TEXTS)
        return equal_texts((const xcvm_texts *)(const void *)at_a, (const xcvm_texts *)(const void *)at_b);
    size_t count_a, count_b;
    const void *bytes_a = attribute_bytes(f, at_a, &count_a), *bytes_b = attribute_bytes(f, at_b, &count_b);
    return count_a == count_b && (count_a == 0 || memcmp(bytes_a, bytes_b, count_a) == 0);
}

static bool equal_nodes(const xcc_node *a, const xcc_node *b)
{
    if (a->schema != b->schema)
        return false;
    for (size_t i = 0; i < a->schema->field_count; i++)
        if (!equal_fields(&a->schema->fields[i], a->args, b->args))
            return false;
    return true;
}

static void replace_node(xcc_module *m, xcc_node *n, xcc_node *same)
{
    xcc_rewrite r = {.m = m};
    size_t outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v != NULL)
            xcc_rewrite_replace(&r, v, xcc_node_output(same, i));
    }
    xcc_node_remove(n);
    m->changes++;
}

static xcvm_status cse_graph(xcc_module *m, xcc_graph *g)
{
    size_t count = 0, capacity = 64;
    for (xcc_node *n = g->first; n != NULL; n = n->next) {
        count++;
        for (size_t i = 0; i < n->body_count; i++)
            XCVM_TRY(cse_graph(m, n->bodies[i]));
    }
    while (capacity < 2 * count)
        capacity *= 2;
    xcc_node **table = xcvm_allocate_zeroed(m->allocator, capacity * sizeof *table);
    if (table == NULL)
        return xcc_out_of_memory(m);
    xcvm_status status = XCVM_OK;
    for (xcc_node *n = g->first, *next; n != NULL; n = next) {
        next = n->next;
        if ((status = xcc_poll(m)) != XCVM_OK)
            break;
        if (n->kind != XCC_INSTRUCTION || n->schema->effect != XCVM_PURE)
            continue;
        xcc_node **first = &table[hash_node(n) & (capacity - 1)], *same = *first;
        for (int i = 1; same != NULL && !equal_nodes(same, n); i++)
            same = i < MOST_COMPARED ? same->pending : NULL;
        if (same != NULL) {
            replace_node(m, n, same);
        } else {
            n->pending = *first;
            *first = n;
        }
    }
    xcvm_deallocate(m->allocator, table, capacity * sizeof *table);
    return status;
}

xcvm_status xcc_cse(xcc_module *m) { return cse_graph(m, m->graph); }
