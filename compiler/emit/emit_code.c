/* Appends instructions, registers and constants to the emitted program. */
#include "compiler/emit/emit_code.h"

#include <string.h>

xcvm_status xcc_code_begin(xcc_code *c, xcc_module *m, const xcc_plan *plan)
{
    *c = (xcc_code){.m = m, .plan = plan};
    c->operands = xcc_alloc(m, m->value_count * sizeof *c->operands);
    return c->operands != NULL ? XCVM_OK : XCVM_OUT_OF_MEMORY;
}

/* ---- Registers and constants ---- */

int32_t xcc_code_new_register(xcc_code *c) { return ++c->registers; }

int32_t xcc_code_register(xcc_code *c, const xcc_value *v)
{
    int32_t *operand = &c->operands[v->id];
    if (*operand == 0)
        *operand = xcc_code_new_register(c);
    return *operand;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; count > 0; count--, at++)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

enum { SAMPLE = 2048 };

/* Hash of type and elements; only the ends of a large constant are hashed. */
static uint64_t hash_constant(const xcvm_value *v)
{
    uint64_t hash = hash_bytes(v->dtype, v->dims, (size_t)v->rank * sizeof *v->dims);
    hash = hash_bytes(hash, &v->bytes, sizeof v->bytes);
    if (v->bytes <= (size_t)2 * SAMPLE)
        return hash_bytes(hash, v->data, v->bytes);
    hash = hash_bytes(hash, v->data, SAMPLE);
    return hash_bytes(hash, (const char *)v->data + v->bytes - SAMPLE, SAMPLE);
}

static bool equal_constants(const xcvm_value *a, const xcvm_value *b)
{
    return a->dtype == b->dtype && a->bytes == b->bytes && xcvm_same_shape(a, b) &&
           (a->data == b->data || memcmp(a->data, b->data, a->bytes) == 0);
}

static uint32_t *place_of(const xcc_code *c, const xcvm_value *v)
{
    return &c->table[hash_constant(v) & (c->table_capacity - 1)];
}

/* 1 + index of an equal constant; 0 if there is none. After MOST_COMPARED entries with the same hash, which may have
 * equal ends, constants count as different, because comparisons would take too long. */
static uint32_t find_constant(const xcc_code *c, const xcvm_value *v)
{
    enum { MOST_COMPARED = 64 };
    uint32_t found = *place_of(c, v);
    for (int i = 1; found != 0 && !equal_constants(v, &c->image.constants[found - 1].value); i++)
        found = i < MOST_COMPARED ? c->earlier[found - 1] : 0;
    return found;
}

/* Inserts a constant at the front of its hash chain. */
static void list_constant(xcc_code *c, size_t index)
{
    uint32_t *place = place_of(c, &c->image.constants[index].value);
    c->earlier[index] = *place;
    *place = (uint32_t)(index + 1);
}

static xcvm_status grow_table(xcc_code *c)
{
    if (c->image.constant_count < c->table_capacity)
        return XCVM_OK;
    c->table_capacity = c->table_capacity > 0 ? c->table_capacity * 2 : 256;
    c->table = xcc_alloc(c->m, c->table_capacity * sizeof *c->table);
    c->earlier = c->table != NULL ? xcc_alloc(c->m, c->table_capacity * sizeof *c->earlier) : NULL;
    if (c->earlier == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->image.constant_count; i++)
        list_constant(c, i);
    return XCVM_OK;
}

static xcvm_status add_constant(xcc_code *c, const xcc_value *v, int32_t *operand)
{
    xcvm_image *image = &c->image;
    XCVM_TRY(grow_table(c));
    uint32_t found = find_constant(c, &v->type);
    if (found == 0) {
        xcvm_constant *constants =
            xcc_grow(c->m, image->constants, image->constant_count, &c->constant_capacity, sizeof *constants);
        if (constants == NULL)
            return XCVM_OUT_OF_MEMORY;
        image->constants = constants;
        xcvm_constant *constant = &constants[image->constant_count++];
        constant->name = v->name;
        constant->value = v->type;
        constant->value.storage = NULL;
        constant->value.memory_kind = XCVM_MEMORY_CONSTANT;
        list_constant(c, image->constant_count - 1);
        found = (uint32_t)image->constant_count;
    }
    *operand = -(int32_t)found;
    return XCVM_OK;
}

xcvm_status xcc_code_operand(xcc_code *c, const xcc_value *v, int32_t *operand)
{
    *operand = v != NULL ? c->operands[v->id] : 0;
    if (v == NULL || *operand != 0)
        return XCVM_OK;
    if (!xcc_is_constant(v))
        return xcvm_error_set(c->m->error, XCVM_INTERNAL, "%s has no register", v->name);
    XCVM_TRY(add_constant(c, v, operand));
    c->operands[v->id] = *operand;
    return XCVM_OK;
}

xcvm_status xcc_code_initial(xcc_code *c, const xcc_value *state, uint32_t *initial)
{
    int32_t operand = 0;
    xcc_value constant = *state;
    constant.type.data = (void *)(uintptr_t)state->initial;
    constant.type.bytes = state->initial_bytes;
    XCVM_TRY(add_constant(c, &constant, &operand));
    *initial = (uint32_t)-operand;
    return XCVM_OK;
}

/* ---- Instructions ---- */

static bool is_open(const xcc_value *v)
{
    return v != NULL && (v->type.kind != XCVM_KIND_TENSOR || !xcvm_dims_known(&v->type));
}

/* Flops that do not depend on open dimensions. */
static uint64_t certain_flops(const xcc_node *n)
{
    size_t inputs = xcc_node_input_count(n), outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < inputs; i++)
        if (is_open(n->uses[i].value))
            return 0;
    for (size_t i = 0; i < outputs; i++)
        if (is_open(xcc_node_output(n, i)))
            return 0;
    return xcc_node_flops(n);
}

static xcvm_status add_debug(xcc_code *c, xcvm_instruction *instruction, const xcc_code_debug *debug)
{
    instruction->debug.node = "";
    if (debug == NULL || c->m->options->strip)
        return XCVM_OK;
    const xcc_node *n = debug->node;
    size_t count = instruction->out_count;
    if (n != NULL)
        instruction->debug.node = n->name;
    if (n != NULL && n->kind == XCC_INSTRUCTION && n->schema == instruction->schema)
        instruction->debug.flops = certain_flops(n);
    if (debug->values == NULL || count == 0)
        return XCVM_OK;
    xcvm_type *types = xcc_alloc(c->m, count * sizeof *types);
    const char **names = xcc_alloc(c->m, count * sizeof *names);
    if (types == NULL || names == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        names[i] = debug->values[i] != NULL ? debug->values[i]->name : "";
        if (debug->values[i] != NULL)
            types[i] = xcc_value_type(c->m, debug->values[i]);
    }
    instruction->debug.types = types;
    instruction->debug.names = names;
    return XCVM_OK;
}

static xcvm_status add_slots(xcc_code *c, xcvm_instruction *instruction, const xcc_code_debug *debug)
{
    if (debug == NULL || !debug->slots)
        return XCVM_OK;
    bool planned = false;
    for (uint32_t i = 0; i < instruction->out_count; i++)
        planned = planned || (debug->values[i] != NULL && c->plan->slots[debug->values[i]->id].bytes > 0);
    if (!planned)
        return XCVM_OK;
    xcvm_slot *slots = xcc_alloc(c->m, instruction->out_count * sizeof *slots);
    if (slots == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < instruction->out_count; i++)
        if (debug->values[i] != NULL) {
            slots[i].offset = c->plan->slots[debug->values[i]->id].offset;
            slots[i].bytes = c->plan->slots[debug->values[i]->id].bytes;
        }
    instruction->slots = slots;
    return XCVM_OK;
}

static const int32_t *copy_operands(xcc_module *m, const int32_t *operands, size_t count)
{
    int32_t *copy = xcc_alloc(m, count * sizeof *copy);
    if (copy != NULL && count > 0)
        memcpy(copy, operands, count * sizeof *copy);
    return copy;
}

xcvm_status xcc_code_append(xcc_code *c, const xcvm_schema *schema, const void *args, const int32_t *in,
                            size_t in_count, const int32_t *out, size_t out_count, const xcc_code_debug *debug)
{
    xcvm_image *image = &c->image;
    if (image->instruction_count >= INT32_MAX || c->registers == INT32_MAX)
        return xcvm_error_set(c->m->error, XCVM_UNSUPPORTED, "the program would be too long");
    xcvm_instruction *all = xcc_grow(c->m, image->instructions, image->instruction_count, &c->instruction_capacity,
                                     sizeof *image->instructions);
    if (all == NULL)
        return XCVM_OUT_OF_MEMORY;
    image->instructions = all;
    xcvm_instruction *instruction = &all[image->instruction_count++];
    *instruction =
        (xcvm_instruction){.schema = schema, .in_count = (uint32_t)in_count, .out_count = (uint32_t)out_count};
    instruction->args = xcvm_args_detach(&c->m->arena, schema, args);
    instruction->in = copy_operands(c->m, in, in_count);
    instruction->out = copy_operands(c->m, out, out_count);
    if (instruction->args == NULL || instruction->in == NULL || instruction->out == NULL)
        return xcc_out_of_memory(c->m);
    XCVM_TRY(add_debug(c, instruction, debug));
    return add_slots(c, instruction, debug);
}
