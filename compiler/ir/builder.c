/* The builder: creates nodes, constants, parameters and states. */
#include "compiler/ir/builder.h"
#include "ops/table/table.h"
#include "ops/util/convert.h"

#include <string.h>

/* ---- Constants ---- */

/* End of the strings of `spans`. If it is inlined for a scalar, gcc makes false assumptions about the spans. */
static __attribute__((noinline)) size_t strings_end(const xcvm_string *spans, size_t count)
{
    uint64_t end = (uint64_t)count * sizeof *spans;
    for (size_t i = 0; i < count; i++)
        if (spans[i].offset + spans[i].length > end)
            end = spans[i].offset + spans[i].length;
    return (size_t)end;
}

size_t xcc_elements_room(size_t bytes) { return xcvm_round_up(bytes, 16) + XCVM_ALIGNMENT; }

/* Keeps `data` or a copy. Kernels read elements in place, so unaligned data of the model is copied even if lent. */
static bool keep_elements(xcc_value *v, const void *data, size_t bytes, bool lend)
{
    v->initial = data;
    v->initial_bytes = bytes;
    if (lend && bytes > 0 && (uintptr_t)data % 16 == 0)
        return true;
    char *copy = xcc_alloc(v->graph->module, xcc_elements_room(bytes));
    if (copy == NULL)
        return false;
    v->initial_lead = (uint8_t)((XCVM_ALIGNMENT - (uintptr_t)copy % XCVM_ALIGNMENT) % XCVM_ALIGNMENT);
    v->initial_copied = true;
    copy += v->initial_lead;
    if (bytes > 0)
        memcpy(copy, data, bytes);
    v->initial = copy;
    return true;
}

/* Turns a variable into a constant with its initial elements. */
static void make_constant(xcc_value *v)
{
    v->kind = XCC_CONSTANT;
    v->type.memory_kind = XCVM_MEMORY_CONSTANT;
    v->type.data = (void *)(uintptr_t)v->initial;
    v->type.bytes = v->initial_bytes;
}

static void list_variable(xcc_module *m, xcc_value *v)
{
    xcc_value_own(m->last_variable != NULL ? m->last_variable : &m->variables, v);
    m->last_variable = &v->next_owned;
}

static xcc_value *tensor_create(xcc_graph *g, xcc_value_kind kind, const char *name, xcvm_dtype dtype, int rank,
                                const int64_t *dims, const void *data, bool lend)
{
    xcc_module *m = g->module;
    size_t count, bytes;
    if (rank < 0 || rank > XCVM_MAX_RANK || !xcvm_tensor_size(dtype, rank, dims, &count, &bytes)) {
        xcvm_error_set(m->error, XCVM_INVALID_MODEL, "the shape of constant %s is not one that fits in memory",
                       name != NULL ? name : "");
        return NULL;
    }
    if (dtype == XCVM_STRING)
        bytes = strings_end(data, count);
    if (m->recorder != NULL)
        return m->recorder->constant(m->recorder, dtype, rank, dims, data, bytes);
    xcc_value *v = xcc_value_create(g, name);
    if (v == NULL)
        return NULL;
    xcvm_value_set_tensor(&v->type, dtype, rank, dims);
    if (!xcvm_size_add(m->constant_bytes, bytes, &m->constant_bytes))
        m->constant_bytes = SIZE_MAX;
    v->kind = kind;
    const bool zeros = kind == XCC_STATE && data == NULL;
    if (!zeros && !keep_elements(v, data, bytes, lend))
        return NULL;
    if (kind == XCC_CONSTANT) {
        make_constant(v);
    } else {
        list_variable(m, v);
    }
    return v;
}

xcc_value *xcc_constant(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                        const void *data, bool lend)
{
    return tensor_create(g, XCC_CONSTANT, name, dtype, rank, dims, data, lend);
}

xcc_value *xcc_literal(xcc_value *v)
{
    if (v != NULL && xcc_is_constant(v))
        v->literal = true;
    return v;
}

bool xcc_is_weight(const xcc_value *v)
{
    return xcc_is_constant(v) && !v->literal && xcvm_dtype_is_float((xcvm_dtype)v->type.dtype);
}

xcc_value *xcc_parameter(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims,
                         const void *data, bool lend)
{
    const xcc_value_kind kind = g->module->frozen ? XCC_CONSTANT : XCC_PARAMETER;
    return tensor_create(g, kind, name, dtype, rank, dims, data, lend);
}

xcc_value *xcc_state(xcc_graph *g, const char *name, xcvm_dtype dtype, int rank, const int64_t *dims, const void *data,
                     bool lend)
{
    return tensor_create(g, XCC_STATE, name, dtype, rank, dims, data, lend);
}

void xcc_values_keep(size_t count, xcc_value *const *values)
{
    xcc_graph *taken_from = NULL;
    for (size_t i = 0; i < count; i++) {
        if (values[i]->kind == XCC_INPUT) {
            taken_from = values[i]->graph;
            list_variable(taken_from->module, values[i]);
        }
        values[i]->kind = XCC_STATE;
    }
    if (taken_from == NULL)
        return;
    size_t left = 0;
    for (size_t i = 0; i < taken_from->input_count; i++)
        if (taken_from->inputs[i]->kind == XCC_INPUT)
            taken_from->inputs[left++] = taken_from->inputs[i];
    taken_from->input_count = left;
}

void xcc_parameter_fix(xcc_value *v)
{
    if (v != NULL && v->kind == XCC_PARAMETER)
        make_constant(v);
}

void xcc_parameters_freeze(xcc_module *m)
{
    for (xcc_value *v = m->variables; v != NULL; v = v->next_owned)
        xcc_parameter_fix(v);
    m->frozen = true;
}

xcc_value *xcc_constant_blank(xcc_graph *g, xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcc_module *m = g->module;
    size_t count, bytes;
    xcvm_storage *storage;
    xcc_value *v = xcc_value_create(g, NULL);
    if (v == NULL)
        return NULL;
    if (!xcvm_tensor_size(dtype, rank, dims, &count, &bytes)) {
        xcvm_error_set(m->error, XCVM_INVALID_MODEL, "a constant of the compiler does not fit in memory");
        return NULL;
    }
    if (xcvm_heap_allocate(m->heap, bytes, &storage, m->error) != XCVM_OK)
        return NULL;
    v->kind = XCC_CONSTANT;
    xcvm_value_set_tensor(&v->type, dtype, rank, dims);
    v->type.memory_kind = XCVM_MEMORY_OWNED;
    v->type.data = storage->data;
    v->type.storage = storage;
    xcc_value_own(&m->owned, v);
    return v;
}

void xcc_constant_release(xcc_value *v)
{
    if (v->uses == 0 && v->type.storage != NULL)
        xcvm_value_clear(&v->type);
}

bool xcc_may_copy(xcc_module *m, size_t bytes)
{
    const size_t least = (size_t)64 << 20, ratio = 8;
    const size_t most = m->constant_bytes > (SIZE_MAX - least) / ratio ? SIZE_MAX : m->constant_bytes * ratio + least;
    if (bytes > most - xcvm_min(m->copied_bytes, most))
        return false;
    m->copied_bytes += bytes;
    return true;
}

xcc_value *xcc_constant_i64(xcc_graph *g, size_t count, const int64_t *ints)
{
    int64_t dim = (int64_t)count;
    return xcc_constant(g, NULL, XCVM_I64, 1, &dim, ints, false);
}

xcc_value *xcc_scalar_i64(xcc_graph *g, int64_t value)
{
    return xcc_constant(g, NULL, XCVM_I64, 0, NULL, &value, false);
}

xcc_value *xcc_scalar(xcc_graph *g, xcvm_dtype dtype, double value)
{
    if (!xcvm_dtype_in(dtype, XCVM_TYPES_REAL_OR_BOOL)) {
        xcvm_error_set(g->module->error, XCVM_TYPE_MISMATCH, "a number cannot become %s", xcvm_dtype_name(dtype));
        return NULL;
    }
    uint64_t element;
    xcvm_store_f64(dtype, &element, 0, 1, &value, false);
    return xcc_literal(xcc_constant(g, NULL, dtype, 0, NULL, &element, false));
}

/* ---- Instructions ---- */

static bool copy_array(xcc_module *m, const void **array, size_t count, size_t size)
{
    void *copy = count < SIZE_MAX / size ? xcc_alloc(m, count * size) : NULL;
    if (copy == NULL)
        return false;
    if (count > 0)
        memcpy(copy, *array, count * size);
    *array = copy;
    return true;
}

static bool copy_text(xcc_module *m, xcvm_text *text)
{
    text->at = xcc_string(m, text->at != NULL ? text->at : "", text->length);
    return text->at != NULL;
}

/* Moves the data of a field of copied arguments to the arena. */
static bool copy_field(xcc_module *m, const xcvm_field *f, void *at)
{
    if (xcvm_field_is_operand(f)) {
        if (!xcvm_field_is_list(f))
            return true;
        xcvm_inputs *list = at; /* outputs have the same layout */
        const void *array = list->at;
        if (!copy_array(m, &array, list->count, sizeof *list->at))
            return false;
        list->at = array;
        return true;
    }
    switch (f->kind) {
    case XCVM_FIELD_INTS: {
        xcvm_ints *ints = at;
        const void *array = ints->at;
        if (!copy_array(m, &array, ints->count, sizeof *ints->at))
            return false;
        ints->at = array;
        return true;
    }
    case XCVM_FIELD_FLOATS: {
        xcvm_floats *floats = at;
        const void *array = floats->at;
        if (!copy_array(m, &array, floats->count, sizeof *floats->at))
            return false;
        floats->at = array;
        return true;
    }
    case XCVM_FIELD_TEXT:
        return copy_text(m, at);
    case XCVM_FIELD_TEXTS: {
        xcvm_texts *texts = at;
        const void *array = texts->at;
        if (!copy_array(m, &array, texts->count, sizeof *texts->at))
            return false;
        texts->at = array;
        xcvm_text *copies = (xcvm_text *)(uintptr_t)texts->at;
        for (size_t i = 0; i < texts->count; i++)
            if (!copy_text(m, &copies[i]))
                return false;
        return true;
    }
    default:
        return true;
    }
}

static xcc_node *node_create(xcc_builder *b, xcc_node_kind kind)
{
    xcc_module *m = b->graph->module;
    xcc_node *n = xcc_alloc(m, sizeof *n);
    if (n == NULL)
        return NULL;
    n->kind = kind;
    n->graph = b->graph;
    n->name = b->name != NULL ? b->name : "";
    n->origin = b->origin != NULL ? b->origin : "";
    return n;
}

/* Makes a node the producer of its results. */
static bool claim_outputs(xcc_node *n)
{
    size_t count = xcc_node_output_count(n);
    for (size_t i = 0; i < count; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        if (v->producer != NULL || v->graph != n->graph || v->kind != XCC_RESULT) {
            xcvm_error_set(n->graph->module->error, XCVM_INTERNAL, "%s already has a producer", v->name);
            return false;
        }
        v->producer = n;
    }
    return true;
}

/* Refuses attributes that the verifier would refuse. */
static xcvm_status check_ranges(const xcc_node *n)
{
    for (size_t i = 0; i < n->schema->field_count; i++) {
        const xcvm_field *f = &n->schema->fields[i];
        const int64_t *values = (const int64_t *)(const void *)((const char *)n->args + f->offset);
        size_t count = f->kind == XCVM_FIELD_INT ? 1 : 0;
        if (f->kind == XCVM_FIELD_INTS) {
            const xcvm_ints *ints = (const void *)values;
            values = ints->at;
            count = ints->count;
        }
        for (size_t j = 0; j < count; j++)
            XCVM_CHECK(n->graph->module->error, values[j] >= f->min && values[j] <= f->max, OUT_OF_RANGE,
                       "attribute '%s' is %lld, not between %lld and %lld", f->name, (long long)values[j],
                       (long long)f->min, (long long)f->max);
    }
    return XCVM_OK;
}

/* Values that determine shapes are not trainable. */
static void fix_shapes(const xcc_node *n)
{
    for (size_t f = 0; f < n->schema->field_count; f++)
        if (n->schema->fields[f].role == XCVM_ROLE_IN_SHAPE)
            for (size_t i = 0; i < xcvm_field_count(&n->schema->fields[f], n->args); i++)
                xcc_parameter_fix(xcc_value_of(xcvm_field_value(&n->schema->fields[f], n->args, i)));
}

xcc_node *xcc_append(xcc_builder *b, xcvm_opcode opcode, const void *args)
{
    xcc_module *m = b->graph->module;
    if (m->recorder != NULL)
        return m->recorder->append(m->recorder, opcode, args) == XCVM_OK ? m->recorder->node : NULL;
    xcc_node *n = node_create(b, XCC_INSTRUCTION);
    if (n == NULL)
        return NULL;
    n->schema = xcvm_schema_of(opcode);
    n->args = xcc_alloc(m, n->schema->args_size);
    if (n->args == NULL)
        return NULL;
    memcpy(n->args, args, n->schema->args_size);
    for (size_t i = 0; i < n->schema->field_count; i++)
        if (!copy_field(m, &n->schema->fields[i], (char *)n->args + n->schema->fields[i].offset))
            return NULL;
    fix_shapes(n);
    if (check_ranges(n) != XCVM_OK || xcc_node_infer(n) != XCVM_OK || !claim_outputs(n) ||
        xcc_node_link_uses(n) != XCVM_OK)
        return NULL;
    xcc_node_insert(b->graph, n, b->before);
    return n;
}

xcc_value *xcc_apply_at(xcc_builder *b, xcvm_opcode opcode, void *args, size_t result_offset)
{
    xcc_value *result = xcc_value_create(b->graph, NULL);
    if (result == NULL)
        return NULL;
    *(xcvm_value **)(void *)((char *)args + result_offset) = &result->type;
    return xcc_append(b, opcode, args) != NULL ? result : NULL;
}

xcc_node *xcc_append_control(xcc_builder *b, xcc_node_kind kind, size_t input_count, xcc_value *const *inputs,
                             size_t output_count, xcc_value *const *outputs, size_t body_count)
{
    static const char *const names[2][2] = {{"then", "else"}, {"body", ""}};
    xcc_module *m = b->graph->module;
    if (m->recorder != NULL) {
        xcvm_error_set(m->error, XCVM_INTERNAL, "control flow is built where instructions are executed at once");
        return NULL;
    }
    xcc_node *n = node_create(b, kind);
    if (n == NULL)
        return NULL;
    const void *in = inputs, *out = outputs;
    if (!copy_array(m, &in, input_count, sizeof *inputs) || !copy_array(m, &out, output_count, sizeof *outputs))
        return NULL;
    n->inputs = (xcc_value **)(uintptr_t)in;
    n->input_count = input_count;
    n->outputs = (xcc_value **)(uintptr_t)out;
    n->output_count = output_count;
    n->body_count = body_count;
    for (size_t i = 0; i < body_count; i++) {
        n->bodies[i] = xcc_graph_create(m, n, names[kind == XCC_LOOP][i]);
        if (n->bodies[i] == NULL)
            return NULL;
    }
    if (!claim_outputs(n) || xcc_node_link_uses(n) != XCVM_OK)
        return NULL;
    xcc_node_insert(b->graph, n, b->before);
    return n;
}
