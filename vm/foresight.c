/* What is worked out of a verified program so that it runs faster. */
#include "vm/verify.h"

/* An operand may be overwritten if it dies, and is nowhere an operand in another role. */
static bool is_overwritable(const xcvm_instruction *instruction, uint32_t dying, uint32_t index)
{
    if ((dying >> index & 1) == 0)
        return false;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        if (instruction->in[i] == instruction->in[index] &&
            xcvm_operand_field(instruction, i)->role != XCVM_ROLE_IN_PLACE)
            return false;
    return true;
}

static void find_shared_operands(const xcvm_program *program, size_t pc)
{
    const xcvm_image *image = &program->image;
    const xcvm_instruction *instruction = &image->instructions[pc];
    xcvm_step *step = &program->steps[pc];
    uint32_t count = instruction->in_count < 32 ? instruction->in_count : 32;
    for (size_t next = pc + 1; next < image->instruction_count && program->steps[next].action == XCVM_ACTION_FREE;
         next++)
        for (uint32_t i = 0; i < count; i++)
            if (instruction->in[i] == image->instructions[next].in[0])
                step->dying |= UINT32_C(1) << i;
    for (uint32_t i = 0; i < count; i++) {
        if (instruction->in[i] == 0)
            continue;
        xcvm_role role = xcvm_operand_field(instruction, i)->role;
        if (role == XCVM_ROLE_IN_VIEW)
            step->views |= UINT32_C(1) << i;
        if (role == XCVM_ROLE_IN_PLACE && is_overwritable(instruction, step->dying, i))
            step->overwritable |= UINT32_C(1) << i;
    }
}

void xcvm_find_sharing(xcvm_program *program)
{
    for (size_t pc = 0; pc < program->image.instruction_count; pc++)
        if (program->steps[pc].action == XCVM_ACTION_KERNEL)
            find_shared_operands(program, pc);
}

/* ---- Results that depend on the inputs' types alone ---- */

/* Of a register: it has one writer, its type follows from the types of inputs, and so do its elements. */
enum { WRITTEN = 1, SHARED = 2, STABLE_TYPE = 4, STABLE_ELEMENTS = 8 };

static bool is_tensor(xcvm_static_type type) { return type.kind == XCVM_KIND_TENSOR; }

static void find_stable_step(xcvm_verifier *v, size_t pc, uint8_t *facts)
{
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    xcvm_step *step = &v->program->steps[pc];
    xcvm_opcode opcode = instruction->row->opcode;
    bool types = step->action == XCVM_ACTION_KERNEL || step->action == XCVM_ACTION_IN;
    bool elements = step->action == XCVM_ACTION_KERNEL && instruction->row->effect == XCVM_PURE;
    bool of_shape = opcode == XCVM_OP_Shape || opcode == XCVM_OP_Size;
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        int32_t id = instruction->in[i];
        if (id <= 0)
            continue;
        bool decides = xcvm_operand_field(instruction, i)->role == XCVM_ROLE_IN_SHAPE;
        types = types && (facts[id] & STABLE_TYPE) != 0 && (!decides || (facts[id] & STABLE_ELEMENTS) != 0);
        elements = elements && (of_shape || (facts[id] & STABLE_ELEMENTS) != 0);
    }
    for (uint32_t i = 0; i < instruction->out_count; i++)
        types = types && (facts[instruction->out[i]] & SHARED) == 0;
    step->stable = types;
    for (uint32_t i = 0; i < instruction->out_count && types; i++) {
        int32_t id = instruction->out[i];
        if (id != 0 && is_tensor(v->types[id]))
            facts[id] |= (uint8_t)(STABLE_TYPE | (elements ? STABLE_ELEMENTS : 0));
    }
}

xcvm_status xcvm_find_stable(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    if (v->program->has_jumps)
        return XCVM_OK;
    uint8_t *facts = xcvm_verifier_allocate(v, v->program->register_count, sizeof *facts);
    if (facts == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        for (uint32_t i = 0; i < image->instructions[pc].out_count; i++) {
            uint8_t *fact = &facts[image->instructions[pc].out[i]];
            *fact = *fact & WRITTEN ? WRITTEN | SHARED : WRITTEN;
        }
    facts[0] = 0;
    /* Without jumps the types found last, for registers with one writer, are those of their only life. */
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        find_stable_step(v, pc, facts);
    return XCVM_OK;
}

/* ---- Results that can be written straight into an output ---- */

typedef struct writer {
    int32_t pc; /* -1: none in this block */
    uint32_t result;
    uint32_t block;
} writer;

xcvm_status xcvm_find_makers(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    const xcvm_image *image = v->image;
    writer *writers = xcvm_verifier_allocate(v, program->register_count, sizeof *writers);
    uint32_t *given = writers != NULL ? xcvm_verifier_allocate(v, image->output_count, sizeof *given) : NULL;
    if (given == NULL)
        return XCVM_OUT_OF_MEMORY;
    program->makers = xcvm_arena_allocate(&program->arena, image->output_count * sizeof *program->makers);
    if (program->makers == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t i = 0; i < image->output_count; i++)
        program->makers[i].pc = -1;
    for (uint32_t b = 0; b < v->block_count; b++) {
        for (uint32_t pc = v->blocks[b].begin; pc < v->blocks[b].end; pc++) {
            const xcvm_instruction *instruction = &image->instructions[pc];
            const xcvm_step *step = &program->steps[pc];
            for (uint32_t i = 0; i < instruction->out_count; i++)
                writers[instruction->out[i]] =
                    (writer){step->action == XCVM_ACTION_KERNEL ? (int32_t)pc : -1, i, b + 1};
            if (step->action != XCVM_ACTION_OUT)
                continue;
            const writer *w = instruction->in[0] > 0 ? &writers[instruction->in[0]] : NULL;
            bool only = given[step->target]++ == 0;
            bool direct = only && w != NULL && w->block == b + 1 && w->pc >= 0;
            program->makers[step->target] = direct ? (xcvm_maker){w->pc, w->result, -1} : (xcvm_maker){-1, 0, -1};
        }
    }
    for (size_t i = image->output_count; i-- > 0;)
        if (program->makers[i].pc >= 0) {
            xcvm_step *step = &program->steps[program->makers[i].pc];
            program->makers[i].next = step->target;
            step->target = (int32_t)i;
        }
    return XCVM_OK;
}
