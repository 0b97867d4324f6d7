/* Export as C: results of loops, one per round. If a sequence is empty at first, gets an item at its end in each round,
 * and becomes a tensor after the loop, it is a stack in the arena, with the known number of items of the tensor. Other
 * sequences have no C code. */
#include "compiler/export_c/export_c.h"

static bool is_op(const xcvm_instruction *i, xcvm_opcode opcode) { return i->schema->opcode == opcode; }

bool xcc_c_is_of_stacks(xcvm_opcode opcode)
{
    return opcode == XCVM_OP_SequenceConstruct || opcode == XCVM_OP_SequenceInsert ||
           opcode == XCVM_OP_ConcatFromSequence || opcode == XCVM_OP_SequenceAt || opcode == XCVM_OP_SequenceLength;
}

/* Registers that are the stack `id` are marked by it. */
typedef struct finder {
    xcc_c_export *x;
    uint32_t *mark; /* of each register: 0, or the number of its stack */
} finder;

static bool marks(const finder *f, int32_t operand, uint32_t id) { return operand > 0 && f->mark[operand] == id; }

static bool touches(const finder *f, const xcvm_instruction *i, uint32_t id)
{
    bool found = false;
    for (uint32_t k = 0; k < i->in_count; k++)
        found = found || marks(f, i->in[k], id);
    for (uint32_t k = 0; k < i->out_count; k++)
        found = found || marks(f, i->out[k], id);
    return found;
}

/* Marks all registers that hold later values of the sequence in register `first`. */
static void mark_all(finder *f, int32_t first, uint32_t id)
{
    const xcvm_image *image = f->x->image;
    f->mark[first] = id;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t pc = 0; pc < image->instruction_count; pc++) {
            const xcvm_instruction *i = &image->instructions[pc];
            if ((is_op(i, XCVM_OP_SequenceInsert) || is_op(i, XCVM_OP_Identity)) && marks(f, i->in[0], id) &&
                i->out[0] > 0 && f->mark[i->out[0]] == 0) {
                f->mark[i->out[0]] = id;
                changed = true;
            }
        }
    }
}

static void clear_all(finder *f, uint32_t id)
{
    for (size_t i = 0; i <= f->x->program->register_count; i++)
        f->mark[i] = f->mark[i] == id ? 0 : f->mark[i];
}

/* Returns true if instructions from `begin` to `end` run in order. */
static bool is_straight(const xcc_c_export *x, size_t begin, size_t end)
{
    for (size_t pc = 0; pc < x->image->instruction_count; pc++) {
        const xcvm_step *step = &x->program->steps[pc];
        const bool jumps = step->action == XCVM_ACTION_JUMP || step->action == XCVM_ACTION_JUMP_TRUE ||
                           step->action == XCVM_ACTION_JUMP_FALSE;
        if (jumps && ((pc > begin && pc < end) || ((size_t)step->target > begin && (size_t)step->target <= end)))
            return false;
    }
    return true;
}

/* The result of an insertion must replace the sequence at once, so that the items are one stack. Either an Identity
 * directly sets the register that the SequenceInsert at `pc` read, or the insertion writes to it. */
static bool goes_on(const finder *f, size_t pc, uint32_t id, size_t *moved)
{
    const xcvm_image *image = f->x->image;
    const xcvm_instruction *insert = &image->instructions[pc];
    *moved = SIZE_MAX;
    if (insert->out[0] == insert->in[0])
        return true;
    for (size_t at = pc + 1; at < image->instruction_count; at++) {
        const xcvm_instruction *i = &image->instructions[at];
        if (!touches(f, i, id) || f->x->program->steps[at].action == XCVM_ACTION_FREE)
            continue;
        *moved = at;
        return is_op(i, XCVM_OP_Identity) && i->in[0] == insert->out[0] && i->out[0] == insert->in[0] &&
               is_straight(f->x, pc, at);
    }
    return false;
}

/* Returns true if all uses of the sequence are possible for a stack. Records its instructions. */
static bool is_stack(finder *f, size_t construct, uint32_t id, const xcvm_type **type)
{
    const xcvm_image *image = f->x->image;
    size_t moved = SIZE_MAX;
    *type = NULL;
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *i = &image->instructions[pc];
        if (!touches(f, i, id) || f->x->program->steps[pc].action == XCVM_ACTION_FREE || pc == construct || pc == moved)
            continue;
        if (is_op(i, XCVM_OP_SequenceInsert)) {
            if (marks(f, i->in[1], id) || i->in[2] != 0 || !goes_on(f, pc, id, &moved))
                return false;
        } else if (is_op(i, XCVM_OP_ConcatFromSequence)) {
            const xcvm_ConcatFromSequence_args *a = i->args;
            if (a->axis != 0 || !a->new_axis)
                return false;
            *type = i->debug.types != NULL ? &i->debug.types[0] : NULL;
        } else if (!is_op(i, XCVM_OP_SequenceAt) && !is_op(i, XCVM_OP_SequenceLength)) {
            return false;
        }
    }
    return *type != NULL && (*type)->kind == XCVM_KIND_TENSOR && (*type)->rank >= 1;
}

/* A type whose sizes are known becomes the stack's. */
static bool set_type(xcc_c_value *v, const xcvm_type *type)
{
    for (int i = 0; i < type->rank; i++)
        if (type->dims[i] < 0)
            return false;
    xcvm_value_set_tensor(&v->type, type->dtype, type->rank, type->dims);
    return xcvm_dtype_in(type->dtype, XCC_C_NUMBERS);
}

xcvm_status xcc_c_find_stacks(xcc_c_export *x)
{
    const xcvm_image *image = x->image;
    finder f = {.x = x};
    f.mark = xcvm_arena_allocate(&x->arena, (x->program->register_count + 1) * sizeof *f.mark);
    if (f.mark == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t pc = 0; pc < image->instruction_count; pc++) {
        const xcvm_instruction *construct = &image->instructions[pc];
        if (!is_op(construct, XCVM_OP_SequenceConstruct) || construct->in_count != 0 || f.mark[construct->out[0]] != 0)
            continue;
        const uint32_t id = x->stack_count + 1;
        const xcvm_type *type;
        mark_all(&f, construct->out[0], id);
        if (!is_stack(&f, pc, id, &type)) {
            clear_all(&f, id);
            continue;
        }
        xcc_c_stack *stack = xcvm_arena_allocate(&x->arena, sizeof *stack);
        xcc_c_value *items = xcvm_arena_allocate(&x->arena, sizeof *items);
        if (stack == NULL || items == NULL)
            return XCVM_OUT_OF_MEMORY;
        stack->number = x->stack_count++;
        stack->items = items;
        stack->bounded = set_type(stack->items, type);
        for (size_t at = 0; at < image->instruction_count; at++)
            if (touches(&f, &image->instructions[at], id))
                x->steps[at].stack = stack;
    }
    return XCVM_OK;
}

/* ---- Writing ---- */

void xcc_c_write_stack(xcc_c_export *x, const xcc_c_step *step)
{
    const xcc_c_stack *stack = step->stack;
    const xcvm_value *items = &stack->items->type;
    const long long most = (long long)items->dims[0];
    const size_t size = most > 0 ? items->bytes / (size_t)most : 0;
    const char *const at = xcc_c_format(x, "(unsigned char *)(%s)", xcc_c_write(x, items));
    switch (step->schema->opcode) {
    case XCVM_OP_SequenceConstruct:
        xcc_c_line(x, "    stack_%u = 0;\n", stack->number);
        break;
    case XCVM_OP_SequenceInsert:
        x->fails = true;
        xcc_c_line(x, "    if (stack_%u == %lld)\n        return %zu;\n", stack->number, most, x->pc + 1);
        if (size > 0)
            xcc_c_line(x, "    memcpy(%s + stack_%u * %zu, %s, %zu);\n", at, stack->number, size,
                       xcc_c_read(x, step->in[1]), size);
        xcc_c_line(x, "    stack_%u++;\n", stack->number);
        break;
    case XCVM_OP_ConcatFromSequence:
        x->fails = true;
        xcc_c_line(x, "    if (stack_%u != %lld)\n        return %zu;\n", stack->number, most, x->pc + 1);
        if (items->bytes > 0)
            xcc_c_line(x, "    memcpy(%s, %s, %zu);\n", xcc_c_write(x, step->out[0]), at, items->bytes);
        break;
    case XCVM_OP_SequenceLength:
        xcc_c_line(x, "    (%s)[0] = (int64_t)stack_%u;\n", xcc_c_write(x, step->out[0]), stack->number);
        break;
    case XCVM_OP_SequenceAt:
        x->fails = true;
        xcc_c_line(x,
                   "    {\n        const int64_t at = (int64_t)(%s)[0], place = at < 0 ? at + (int64_t)stack_%u : at;\n"
                   "        if (place < 0 || place >= (int64_t)stack_%u)\n            return %zu;\n",
                   xcc_c_read(x, step->in[1]), stack->number, stack->number, x->pc + 1);
        if (size > 0)
            xcc_c_line(x, "        memcpy(%s, %s + place * %zu, %zu);\n", xcc_c_write(x, step->out[0]), at, size, size);
        xcc_c_line(x, "    }\n");
        break;
    default: /* an Identity, which sets the register that the items are in already */
        break;
    }
}
