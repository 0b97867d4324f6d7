/* Analyses of a verified program that only make it faster: aliasing, static shapes, output producers. */
#include "vm/verify.h"

/* An operand's memory may be reused if this is its last use and it is not an operand in another role as well. */
static bool is_reusable(const xcvm_instruction *instruction, uint32_t last_use, uint32_t index)
{
    if ((last_use >> index & 1) == 0)
        return false;
    for (uint32_t i = 0; i < instruction->in_count; i++)
        if (instruction->in[i] == instruction->in[index] &&
            xcvm_operand_field(instruction, i)->role != XCVM_ROLE_IN_PLACE)
            return false;
    return true;
}

static void analyze_operands(const xcvm_program *program, size_t pc)
{
    const xcvm_image *image = &program->image;
    const xcvm_instruction *instruction = &image->instructions[pc];
    xcvm_step *step = &program->steps[pc];
    uint32_t count = instruction->in_count < 32 ? instruction->in_count : 32;
    for (size_t next = pc + 1; next < image->instruction_count && program->steps[next].action == XCVM_ACTION_FREE;
         next++)
        for (uint32_t i = 0; i < count; i++)
            if (instruction->in[i] == image->instructions[next].in[0])
                step->last_use |= UINT32_C(1) << i;
    for (uint32_t i = 0; i < count; i++) {
        if (instruction->in[i] == 0)
            continue;
        xcvm_role role = xcvm_operand_field(instruction, i)->role;
        if (role == XCVM_ROLE_IN_VIEW)
            step->views |= UINT32_C(1) << i;
        if (role == XCVM_ROLE_IN_PLACE && is_reusable(instruction, step->last_use, i))
            step->reusable |= UINT32_C(1) << i;
    }
}

void xcvm_analyze_aliasing(xcvm_program *program)
{
    for (size_t pc = 0; pc < program->image.instruction_count; pc++)
        if (program->steps[pc].action == XCVM_ACTION_KERNEL)
            analyze_operands(program, pc);
}

/* ---- Static shapes ---- */

/* Each entry of a basic block costs one comparison per live-in register, and memory for its type. */
enum { LIVE_INS_PER_INSTRUCTION = 4 };

/* Adds the registers that a block reads before it writes them. `seen`: for each register, 1 + the last block that
 * accessed it. */
static void collect_live_in(xcvm_verifier *v, uint32_t block, uint32_t *seen)
{
    xcvm_program *program = v->program;
    for (uint32_t pc = v->blocks[block].begin; pc < v->blocks[block].end; pc++) {
        const xcvm_instruction *instruction = &v->image->instructions[pc];
        for (uint32_t i = 0; i < instruction->in_count && program->steps[pc].action == XCVM_ACTION_KERNEL; i++) {
            const int32_t id = instruction->in[i];
            if (id > 0 && seen[id] != block + 1) {
                seen[id] = block + 1;
                program->live_in[program->live_in_count++] = id;
            }
        }
        for (uint32_t i = 0; i < instruction->out_count; i++)
            seen[instruction->out[i]] = block + 1;
    }
}

static void begin_basic_block(xcvm_verifier *v, uint32_t block, size_t live_in_at)
{
    xcvm_program *program = v->program;
    const xcvm_block *b = &v->blocks[block];
    const size_t live_ins = program->live_in_count - live_in_at;
    if (live_ins == 0)
        return;
    if (program->live_in_count > LIVE_INS_PER_INSTRUCTION * v->image->instruction_count) {
        program->live_in_count = live_in_at;
        for (uint32_t pc = b->begin; pc < b->end; pc++)
            program->steps[pc].static_shapes = false;
        return;
    }
    program->steps[b->begin].entry = (uint32_t)program->basic_block_count + 1;
    program->basic_blocks[program->basic_block_count++] = (xcvm_basic_block){
        .begin = b->begin, .end = b->end, .live_in_at = (uint32_t)live_in_at, .live_ins = (uint32_t)live_ins};
}

/* `writers`: number of instructions that write each register. */
static void note_step(xcvm_verifier *v, size_t pc, const uint32_t *writers)
{
    xcvm_program *program = v->program;
    const xcvm_instruction *instruction = &v->image->instructions[pc];
    xcvm_step *step = &program->steps[pc];
    step->static_shapes =
        step->action == XCVM_ACTION_KERNEL || step->action == XCVM_ACTION_IN || step->action == XCVM_ACTION_LOAD;
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        if (instruction->in[i] <= 0 || xcvm_operand_field(instruction, i)->role != XCVM_ROLE_IN_SHAPE)
            continue;
        if (i < 32)
            step->shaping |= UINT32_C(1) << i;
        else
            step->static_shapes = false;
    }
    for (uint32_t i = 0; i < instruction->out_count; i++)
        step->has_cached_types =
            step->has_cached_types || (instruction->out[i] != 0 && writers[instruction->out[i]] > 1);
    if (step->has_cached_types && step->action == XCVM_ACTION_KERNEL) {
        step->cached_types_at = (uint32_t)program->cached_type_count;
        program->cached_type_count += instruction->out_count;
    }
}

xcvm_status xcvm_analyze_static_shapes(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    const xcvm_image *image = v->image;
    uint32_t *writers = xcvm_verifier_allocate(v, program->register_count, sizeof *writers);
    uint32_t *seen = writers != NULL ? xcvm_verifier_allocate(v, program->register_count, sizeof *seen) : NULL;
    if (seen == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_CHECK(v->error, program->in_count < UINT32_MAX && program->out_count < UINT32_MAX, UNSUPPORTED,
               "the program has too many operands or results");
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        for (uint32_t i = 0; i < image->instructions[pc].out_count; i++)
            writers[image->instructions[pc].out[i]]++;
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        note_step(v, pc, writers);
    /* Without jumps, every register is read in the block that wrote it. */
    if (!program->has_jumps)
        return XCVM_OK;
    program->live_in = xcvm_arena_allocate(&program->arena, program->in_count * sizeof *program->live_in);
    program->basic_blocks = xcvm_arena_allocate(&program->arena, v->order_count * sizeof *program->basic_blocks);
    if (program->live_in == NULL || program->basic_blocks == NULL)
        return xcvm_verifier_no_memory(v);
    for (uint32_t i = 0; i < v->order_count; i++) {
        const size_t live_in_at = program->live_in_count;
        collect_live_in(v, v->order[i], seen);
        begin_basic_block(v, v->order[i], live_in_at);
    }
    return XCVM_OK;
}

/* ---- Results written directly to an output ---- */

typedef struct writer {
    int32_t pc; /* -1: none in this block */
    uint32_t result;
    uint32_t block;
} writer;

xcvm_status xcvm_analyze_output_producers(xcvm_verifier *v)
{
    xcvm_program *program = v->program;
    const xcvm_image *image = v->image;
    const size_t count = xcvm_program_result_count(program);
    writer *writers = xcvm_verifier_allocate(v, program->register_count, sizeof *writers);
    uint32_t *given = writers != NULL ? xcvm_verifier_allocate(v, count, sizeof *given) : NULL;
    if (given == NULL)
        return XCVM_OUT_OF_MEMORY;
    program->producers = xcvm_arena_allocate(&program->arena, count * sizeof *program->producers);
    if (program->producers == NULL)
        return xcvm_verifier_no_memory(v);
    for (size_t i = 0; i < count; i++)
        program->producers[i].pc = -1;
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
            program->producers[step->target] =
                direct ? (xcvm_producer){w->pc, w->result, -1} : (xcvm_producer){-1, 0, -1};
        }
    }
    for (size_t i = count; i-- > 0;)
        if (program->producers[i].pc >= 0) {
            xcvm_step *step = &program->steps[program->producers[i].pc];
            program->producers[i].next = step->target;
            step->target = (int32_t)i;
        }
    return XCVM_OK;
}
