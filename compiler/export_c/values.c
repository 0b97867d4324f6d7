/* Values of an exported program: their types, which are all known before it runs, and their memory. */
#include "base/array.h"
#include "compiler/export_c/export_c.h"
#include "ops/util/shape.h"

#include <stdlib.h>
#include <string.h>

/* ---- Types ---- */

static bool set_declared(xcc_c_export *x, xcc_c_value *v, const xcvm_value_info *declared, const char *word)
{
    const xcvm_type *type = &declared->type;
    bool known = type->kind == XCVM_KIND_TENSOR && type->rank >= 0;
    for (int i = 0; known && i < type->rank; i++)
        known = type->dims[i] >= 0;
    if (!known)
        return xcc_c_refuse(x, "%s %s has open sizes; --dim NAME=SIZE fixes them", word, declared->name);
    if (!xcvm_dtype_in(type->dtype, XCC_C_NUMBERS))
        return xcc_c_refuse(x, "%s %s is of %s", word, declared->name, xcvm_dtype_name(type->dtype));
    xcvm_value_set_tensor(&v->type, type->dtype, type->rank, type->dims);
    v->set = true;
    v->definitions = 1;
    return true;
}

static xcvm_status declare(xcc_c_export *x)
{
    const xcvm_image *image = x->image;
    x->constants = xcvm_arena_allocate(&x->arena, (image->constant_count + 1) * sizeof *x->constants);
    x->inputs = xcvm_arena_allocate(&x->arena, (image->input_count + 1) * sizeof *x->inputs);
    x->states = xcvm_arena_allocate(&x->arena, (image->state_count + 1) * sizeof *x->states);
    x->used_constants = xcvm_arena_allocate(&x->arena, image->constant_count + 1);
    x->steps = xcvm_arena_allocate(&x->arena, (image->instruction_count + 1) * sizeof *x->steps);
    if (x->constants == NULL || x->inputs == NULL || x->states == NULL || x->used_constants == NULL || x->steps == NULL)
        return XCVM_OUT_OF_MEMORY;
    x->pc = SIZE_MAX;
    for (size_t i = 0; i < image->constant_count; i++)
        x->constants[i] = (xcc_c_value){.type = image->constants[i].value,
                                        .place = XCC_C_CONSTANT,
                                        .index = (uint32_t)i,
                                        .set = true,
                                        .definitions = 1};
    for (size_t i = 0; i < image->input_count; i++) {
        x->inputs[i] = (xcc_c_value){.place = XCC_C_INPUT, .index = (uint32_t)i};
        (void)set_declared(x, &x->inputs[i], &image->inputs[i], "input");
    }
    for (size_t i = 0; i < image->state_count; i++) {
        x->states[i] = (xcc_c_value){.place = XCC_C_STATE, .index = (uint32_t)i};
        (void)set_declared(x, &x->states[i], &image->states[i].declared, "state");
    }
    return XCVM_OK;
}

/* ---- Following the program ---- */

typedef struct reader {
    xcc_c_export *x;
    xcc_c_value **at; /* what each register is */
    uint32_t *definitions;
} reader;

static bool add_value(xcc_c_export *x, xcc_c_value *v)
{
    xcc_c_value **values = xcvm_arena_grow(&x->arena, x->values, x->value_count, &x->value_capacity, sizeof *values);
    if (values == NULL)
        return false;
    x->values = values;
    values[x->value_count++] = v;
    return true;
}

static xcc_c_value *new_value(xcc_c_export *x)
{
    xcc_c_value *v = xcvm_arena_allocate(&x->arena, sizeof *v);
    return v != NULL && add_value(x, v) ? v : NULL;
}

static xcc_c_value *operand_of(const reader *r, int32_t id)
{
    return id > 0 ? r->at[id] : id < 0 ? &r->x->constants[-1 - id] : NULL;
}

static void need_until(xcc_c_value *v, size_t pc)
{
    for (; v != NULL; v = v->base)
        v->end = pc > v->end ? pc : v->end;
}

/* Operands and results in a copy of the argument struct, as a session binds them. */
static xcvm_status bind(reader *r, xcc_c_step *step)
{
    xcc_c_export *x = r->x;
    const xcvm_instruction *instruction = step->instruction;
    step->in = xcvm_arena_allocate(&x->arena, (instruction->in_count + 1) * sizeof *step->in);
    step->out = xcvm_arena_allocate(&x->arena, (instruction->out_count + 1) * sizeof *step->out);
    step->args = xcvm_arena_allocate(&x->arena, step->schema->args_size + 1);
    if (step->in == NULL || step->out == NULL || step->args == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        step->in[i] = (const xcvm_value *)operand_of(r, instruction->in[i]);
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        const int32_t id = instruction->out[i];
        if (id == 0)
            continue;
        /* With jumps, a register is one value, wherever it is set. */
        xcc_c_value *v = x->program->has_jumps ? r->at[id] : NULL;
        if (v == NULL && (v = new_value(x)) == NULL)
            return XCVM_OUT_OF_MEMORY;
        v->begin = v->set ? v->begin : x->pc;
        v->definitions = x->program->has_jumps ? r->definitions[id] : 1;
        need_until(v, x->pc);
        step->out[i] = &v->type;
        r->at[id] = v;
    }
    memcpy(step->args, instruction->args, step->schema->args_size);
    xcvm_bind_operands(step->schema, step->args, step->in, step->out);
    return XCVM_OK;
}

/* The type of each operand must be known here. Otherwise its producer was refused, or follows later. */
static bool operands_known(const xcc_c_step *step)
{
    for (uint32_t i = 0; i < step->instruction->in_count; i++)
        if (step->instruction->in[i] != 0 && (step->in[i] == NULL || !xcc_c_value_of(step->in[i])->set))
            return false;
    return true;
}

/* False, and refused unless something before was, if an operand is not known. */
static bool check_known(xcc_c_export *x, const xcc_c_step *step)
{
    const bool known = operands_known(step);
    if (!known && x->refused == 0)
        (void)xcc_c_refuse(x, "it reads a value that is set later in the program");
    return known;
}

/* Types that are no numbers in C, but whose bits some instructions unpack. */
static const struct {
    xcvm_opcode opcode;
    xcvm_dtypes types;
} taken_apart[] = {{XCVM_OP_QuantizeLinear, XCVM_TYPES_PACKED},
                   {XCVM_OP_DequantizeLinear, XCVM_TYPES_PACKED},
                   {XCVM_OP_BlockQuantizedGemm, XCVM_TYPES_HALF},
                   {XCVM_OP_Bf16Gemm, XCVM_DTYPE_BIT(BF16)}};

static xcvm_dtypes types_of(const xcc_c_step *step)
{
    for (size_t i = 0; i < sizeof taken_apart / sizeof *taken_apart; i++)
        if (taken_apart[i].opcode == step->schema->opcode)
            return XCC_C_NUMBERS | taken_apart[i].types;
    return XCC_C_NUMBERS;
}

static bool check_operand(xcc_c_export *x, const xcvm_value *v, xcvm_dtypes types)
{
    if (v == NULL)
        return true;
    if (v->kind != XCVM_KIND_TENSOR)
        return xcc_c_refuse(x, "it reads a value that is no tensor");
    if (!xcvm_dtype_in((xcvm_dtype)v->dtype, types))
        return xcc_c_refuse(x, "it reads %s; C export supports f32, f64, bool and integers of 8 to 64 bits",
                            xcvm_dtype_name((xcvm_dtype)v->dtype));
    return true;
}

static bool check_result(xcc_c_export *x, const xcvm_value *v, xcvm_dtypes types)
{
    if (v->kind != XCVM_KIND_TENSOR)
        return xcc_c_refuse(x, "its result is no tensor");
    if (!xcvm_dtype_in((xcvm_dtype)v->dtype, types))
        return xcc_c_refuse(x, "it gives %s", xcvm_dtype_name((xcvm_dtype)v->dtype));
    if (v->rank < 0 || !xcvm_dims_known(v))
        return xcc_c_refuse(x, "the size of its result is only known when it runs");
    size_t count, bytes;
    if (!xcvm_tensor_size((xcvm_dtype)v->dtype, v->rank, v->dims, &count, &bytes))
        return xcc_c_refuse(x, "its result is too large");
    return true;
}

/* The operand whose elements the first result may share, or NULL. */
static xcc_c_value *viewed(const xcc_c_step *step)
{
    size_t at = 0;
    for (size_t i = 0; i < step->schema->field_count; i++) {
        const xcvm_field *field = &step->schema->fields[i];
        if (field->role == XCVM_ROLE_IN_VIEW)
            return (xcc_c_value *)(uintptr_t)step->in[at];
        if (xcvm_field_is_input(field))
            at += xcvm_field_count(field, step->instruction->args);
    }
    return NULL;
}

/* A view of constants, inputs and states has their address. A view in the arena is valid until the memory is reused: by
 * the plan, or if neither is planned. */
static void place_first(xcc_c_step *step, xcc_c_value *v)
{
    xcc_c_value *base = viewed(step);
    if (base == NULL || v->definitions != 1 || base->definitions != 1)
        return;
    if (base->place != XCC_C_ARENA) {
        v->place = base->place;
        v->index = base->index;
    } else if (v->planned != base->planned || (v->planned && v->offset != base->offset)) {
        return;
    } else {
        v->base = base;
        need_until(v, v->end);
    }
    step->is_view = true;
}

static xcvm_status infer(reader *r, xcc_c_step *step)
{
    xcc_c_export *x = r->x;
    const xcvm_instruction *instruction = step->instruction;
    XCVM_TRY(bind(r, step));
    if (!check_known(x, step))
        return XCVM_OK;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        if (!check_operand(x, step->in[i], types_of(step)))
            return XCVM_OK;
    xcvm_error error = {.pc = -1};
    xcvm_value *made = xcvm_arena_allocate(&x->arena, (instruction->out_count + 1) * sizeof *made);
    if (made == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < instruction->out_count; i++)
        if (step->out[i] != NULL) {
            made[i] = *step->out[i];
            *step->out[i] = (xcvm_value){.rank = -1};
        }
    const xcvm_inference t = {.schema = step->schema,
                              .args = step->args,
                              .in = step->in,
                              .in_count = instruction->in_count,
                              .out = step->out,
                              .out_count = instruction->out_count,
                              .error = &error};
    if (xcvm_infer(&t) != XCVM_OK) {
        (void)xcc_c_refuse(x, "%s", error.message);
        return XCVM_OK;
    }
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        xcc_c_value *v = (xcc_c_value *)step->out[i];
        if (v == NULL)
            continue;
        if (!check_result(x, &v->type, types_of(step)))
            return XCVM_OK;
        if (v->set && (made[i].dtype != v->type.dtype || !xcvm_same_shape(&made[i], &v->type))) {
            (void)xcc_c_refuse(x, "the size of its result changes from one time to the next");
            return XCVM_OK;
        }
        const xcvm_slot *slot = instruction->slots != NULL ? &instruction->slots[i] : NULL;
        if (!v->set && slot != NULL && slot->bytes >= v->type.bytes && slot->bytes > 0 && v->definitions == 1) {
            v->planned = true;
            v->offset = slot->offset;
        }
        v->set = true;
    }
    if (instruction->out_count > 0 && step->out[0] != NULL)
        place_first(step, (xcc_c_value *)step->out[0]);
    return XCVM_OK;
}

/* ---- Stacks ---- */

/* A result whose type follows from the stack: all items, one item, or their number. */
static void set_stack_result(const xcc_c_step *step)
{
    const xcvm_value *items = &step->stack->items->type;
    xcc_c_value *v = (xcc_c_value *)step->out[0];
    if (step->schema->opcode == XCVM_OP_SequenceLength)
        xcvm_value_set_tensor(&v->type, XCVM_I64, 0, NULL);
    else if (step->schema->opcode == XCVM_OP_SequenceAt)
        xcvm_value_set_tensor(&v->type, (xcvm_dtype)items->dtype, items->rank - 1, items->dims + 1);
    else
        xcvm_value_set_tensor(&v->type, (xcvm_dtype)items->dtype, items->rank, items->dims);
    v->set = true;
}

static xcvm_status read_stack(reader *r, xcc_c_step *step, size_t pc)
{
    xcc_c_export *x = r->x;
    xcc_c_value *items = step->stack->items;
    XCVM_TRY(bind(r, step));
    if (step->schema->opcode == XCVM_OP_SequenceConstruct) {
        if (!step->stack->bounded) {
            (void)xcc_c_refuse(x, "the number of iterations of the loop that fills it depends on the run");
            return XCVM_OK;
        }
        items->begin = pc;
        items->set = true;
        items->definitions = 1;
        return add_value(x, items) ? XCVM_OK : XCVM_OUT_OF_MEMORY;
    }
    if (!items->set)
        return XCVM_OK;
    need_until(items, pc);
    for (uint32_t i = 1; i < step->instruction->in_count; i++) {
        const xcvm_value *v = step->in[i];
        if (v == NULL)
            continue;
        if (!xcc_c_value_of(v)->set) {
            if (x->refused == 0)
                (void)xcc_c_refuse(x, "it reads a value that is set later in the program");
            return XCVM_OK;
        }
        need_until((xcc_c_value *)(uintptr_t)v, pc);
    }
    if (step->schema->opcode == XCVM_OP_SequenceInsert) {
        xcvm_value item;
        xcvm_value_set_tensor(&item, (xcvm_dtype)items->type.dtype, items->type.rank - 1, items->type.dims + 1);
        if (step->in[1]->kind != XCVM_KIND_TENSOR || step->in[1]->dtype != item.dtype ||
            !xcvm_same_shape(step->in[1], &item))
            (void)xcc_c_refuse(x, "its items differ in type or size");
    } else if (step->schema->opcode != XCVM_OP_Identity) {
        set_stack_result(step);
    }
    return XCVM_OK;
}

/* Values that no kernel sets. */
static void lend(reader *r, int32_t id, xcc_c_value *v)
{
    if (r->definitions[id] > 1 && r->x->program->has_jumps)
        (void)xcc_c_refuse(r->x, "a register is an input and something else");
    r->at[id] = v;
}

static xcvm_status read_step(reader *r, size_t pc)
{
    xcc_c_export *x = r->x;
    const xcvm_step *linked = &x->program->steps[pc];
    xcc_c_step *step = &x->steps[pc];
    const xcvm_instruction *instruction = &x->image->instructions[pc];
    step->instruction = instruction;
    step->schema = instruction->schema;
    x->pc = pc;
    switch (linked->action) {
    case XCVM_ACTION_IN:
        lend(r, instruction->out[0], &x->inputs[linked->target]);
        return XCVM_OK;
    case XCVM_ACTION_LOAD:
        lend(r, instruction->out[0], &x->states[linked->target]);
        return XCVM_OK;
    case XCVM_ACTION_OUT:
        /* States take their new values when all has been done. */
        XCVM_TRY(bind(r, step));
        if (check_known(x, step) && step->in[0] != NULL && check_operand(x, step->in[0], XCC_C_NUMBERS))
            need_until((xcc_c_value *)(uintptr_t)step->in[0], x->image->instruction_count);
        return XCVM_OK;
    case XCVM_ACTION_FREE:
        if (r->at[instruction->in[0]] != NULL)
            need_until(r->at[instruction->in[0]], pc);
        return XCVM_OK;
    case XCVM_ACTION_JUMP:
    case XCVM_ACTION_JUMP_TRUE:
    case XCVM_ACTION_JUMP_FALSE:
        x->steps[linked->target].is_target = true;
        if (linked->action == XCVM_ACTION_JUMP)
            return XCVM_OK;
        XCVM_TRY(bind(r, step));
        if (check_known(x, step) && (step->in[0]->dtype != XCVM_BOOL || xcvm_element_count(step->in[0]) != 1))
            (void)xcc_c_refuse(x, "its condition is not one bool");
        return XCVM_OK;
    case XCVM_ACTION_FUSED:
        return XCVM_OK;
    default:
        if (step->stack != NULL)
            return read_stack(r, step, pc);
        XCVM_TRY(infer(r, step));
        for (uint32_t i = 0; i < instruction->in_count; i++)
            if (step->in[i] != NULL && instruction->in[i] > 0)
                need_until((xcc_c_value *)(uintptr_t)step->in[i], pc);
        return XCVM_OK;
    }
}

xcvm_status xcc_c_read_values(xcc_c_export *x)
{
    XCVM_TRY(declare(x));
    reader r = {.x = x};
    const size_t registers = x->program->register_count + 1;
    r.at = xcvm_arena_allocate(&x->arena, registers * sizeof *r.at);
    r.definitions = xcvm_arena_allocate(&x->arena, registers * sizeof *r.definitions);
    if (r.at == NULL || r.definitions == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcc_c_find_stacks(x));
    for (size_t pc = 0; pc < x->image->instruction_count; pc++)
        for (uint32_t i = 0; i < x->image->instructions[pc].out_count; i++)
            r.definitions[x->image->instructions[pc].out[i]]++;
    for (size_t pc = 0; pc < x->image->instruction_count; pc++)
        XCVM_TRY(read_step(&r, pc));
    return XCVM_OK;
}

/* ---- Places ---- */

/* A value that is set before a loop and read in it lives until its end. A value that outlives the loop that sets it
 * lives from the loop's beginning. */
static void extend_over_loops(xcc_c_export *x)
{
    bool changed = x->program->has_jumps;
    while (changed) {
        changed = false;
        for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
            const xcvm_step *step = &x->program->steps[pc];
            const bool jumps = step->action == XCVM_ACTION_JUMP || step->action == XCVM_ACTION_JUMP_TRUE ||
                               step->action == XCVM_ACTION_JUMP_FALSE;
            const size_t to = jumps ? (size_t)step->target : pc;
            for (size_t i = 0; to < pc && i < x->value_count; i++) {
                xcc_c_value *v = x->values[i];
                if (v->begin < to && v->end >= to && v->end < pc) {
                    v->end = pc;
                    changed = true;
                }
                if (v->begin > to && v->begin <= pc && v->end > pc) {
                    v->begin = to;
                    changed = true;
                }
            }
        }
    }
}

/* Returns true if a value needs memory outside of the plan. */
static bool takes_room(const xcc_c_value *v)
{
    return v->set && !v->passing && !v->planned && v->base == NULL && v->place == XCC_C_ARENA;
}

static uint64_t room_of(const xcc_c_value *v)
{
    return xcvm_round_up(v->type.bytes + (v->type.bytes == 0), XCVM_ALIGNMENT);
}

/* First fit from `base` on: the lowest offset that no earlier value with an overlapping lifetime uses. Returns the end
 * of all. */
static uint64_t place_first_fit(xcc_c_value **values, size_t count, uint64_t base)
{
    uint64_t end = base;
    for (size_t i = 0; i < count; i++) {
        xcc_c_value *v = values[i];
        if (!takes_room(v))
            continue;
        const uint64_t bytes = room_of(v);
        uint64_t at = base;
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t k = 0; k < i; k++) {
                const xcc_c_value *o = values[k];
                const bool lives = takes_room(o) && o->begin <= v->end && v->begin <= o->end;
                if (lives && at < o->offset + room_of(o) && o->offset < at + bytes) {
                    at = o->offset + room_of(o);
                    moved = true;
                }
            }
        }
        v->offset = at;
        end = at + bytes > end ? at + bytes : end;
    }
    return end;
}

/* ---- Pools with what they take ---- */

/* Returns the instruction that is the only reader of a convolution's result, or NULL. */
static xcc_c_step *only_user(const xcc_c_export *x, const xcvm_value *v)
{
    xcc_c_step *user = NULL;
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        const xcc_c_step *step = &x->steps[pc];
        for (uint32_t i = 0; step->in != NULL && i < step->instruction->in_count; i++)
            if (step->in[i] == v) {
                if (user != NULL || x->program->steps[pc].action != XCVM_ACTION_KERNEL)
                    return NULL;
                user = &x->steps[pc];
            }
    }
    return user;
}

static size_t join_pools(xcc_c_export *x)
{
    size_t joined = 0;
    for (size_t pc = 0; pc < x->image->instruction_count && !x->program->has_jumps; pc++) {
        xcc_c_step *conv = &x->steps[pc];
        if (x->program->steps[pc].action != XCVM_ACTION_KERNEL || conv->schema->opcode != XCVM_OP_BlockedConv)
            continue;
        xcc_c_value *v = (xcc_c_value *)conv->out[0];
        xcc_c_step *pool = v != NULL && v->set ? only_user(x, &v->type) : NULL;
        if (pool == NULL || pool->schema->opcode != XCVM_OP_MaxPool || !xcc_c_joins_pool(x, conv, pool))
            continue;
        conv->pool = pool;
        pool->conv = conv;
        v->passing = true;
        for (uint32_t i = 0; i < conv->instruction->in_count; i++)
            if (conv->in[i] != NULL)
                need_until((xcc_c_value *)(uintptr_t)conv->in[i], (size_t)(pool - x->steps));
        joined++;
    }
    return joined;
}

static void part_pools(xcc_c_export *x)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        xcc_c_step *conv = x->steps[pc].conv;
        if (conv == NULL)
            continue;
        ((xcc_c_value *)conv->out[0])->passing = false;
        conv->pool = x->steps[pc].conv = NULL;
    }
}

/* Removes values that the plan stores over operands that now live longer. */
static void keep_in_place(xcc_c_export *x)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        const xcc_c_step *step = &x->steps[pc];
        xcc_c_value *y = step->out != NULL && step->instruction->out_count > 0 ? (xcc_c_value *)step->out[0] : NULL;
        for (uint32_t i = 0; y != NULL && y->planned && y->base == NULL && i < step->instruction->in_count; i++) {
            xcc_c_value *v = (xcc_c_value *)(uintptr_t)step->in[i];
            if (v == NULL || !v->planned || v->passing || y->passing || v == y || v->offset != y->offset ||
                v->end != pc || v->type.bytes < y->type.bytes)
                continue;
            y->base = v;
            need_until(v, y->end);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const xcc_c_value *const *v = a, *const *w = b;
    const uint64_t u = room_of(*v), t = room_of(*w);
    return u != t ? (u < t) - (u > t) : ((*v)->begin > (*w)->begin) - ((*v)->begin < (*w)->begin);
}

/* Assigns all values again, the largest first. If this needs more than the plan, the plan is restored. */
static xcvm_status place_anew(xcc_c_export *x, uint64_t *end)
{
    typedef struct kept {
        xcc_c_value *base;
        uint64_t offset;
        size_t end;
        bool planned;
    } kept;
    xcc_c_value **values = xcvm_arena_allocate(&x->arena, (x->value_count + 1) * sizeof *values);
    kept *before = xcvm_arena_allocate(&x->arena, (x->value_count + 1) * sizeof *before);
    if (values == NULL || before == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < x->value_count; i++) {
        const xcc_c_value *v = values[i] = x->values[i];
        before[i] = (kept){v->base, v->offset, v->end, v->planned};
    }
    *end = UINT64_MAX;
    if (join_pools(x) == 0)
        return XCVM_OK;
    keep_in_place(x);
    for (size_t i = 0; i < x->value_count; i++)
        values[i]->planned = false;
    qsort(values, x->value_count, sizeof *values, by_size);
    *end = place_first_fit(values, x->value_count, 0);
    if (*end < xcvm_round_up((size_t)x->image->arena_bytes, XCVM_ALIGNMENT))
        return XCVM_OK;
    *end = UINT64_MAX;
    part_pools(x);
    for (size_t i = 0; i < x->value_count; i++) {
        xcc_c_value *v = x->values[i];
        v->base = before[i].base;
        v->offset = before[i].offset;
        v->end = before[i].end;
        v->planned = before[i].planned;
    }
    return XCVM_OK;
}

xcvm_status xcc_c_place_values(xcc_c_export *x)
{
    uint64_t end;
    XCVM_TRY(place_anew(x, &end));
    extend_over_loops(x);
    x->arena_bytes = end != UINT64_MAX ? end : x->image->arena_bytes;
    if (end == UINT64_MAX)
        end = place_first_fit(x->values, x->value_count, xcvm_round_up((size_t)x->arena_bytes, XCVM_ALIGNMENT));
    for (size_t i = 0; i < x->value_count; i++)
        for (const xcc_c_value *v = x->values[i]; v->base != NULL; v = v->base)
            x->values[i]->offset = v->base->offset;
    x->scratch_offset = end;
    XCVM_CHECK(x->error, end < (uint64_t)PTRDIFF_MAX / 2, UNSUPPORTED, "the values of the program need %llu bytes",
               (unsigned long long)end);
    return XCVM_OK;
}
