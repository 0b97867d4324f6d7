/* Static shapes: determines which instructions need not infer their results again. Result types depend on operand types
 * and on the elements that determine shapes. In a basic block these depend on its live-in types, the program's inputs
 * and constants, so inferences stay valid until the block is entered with other types. Elements of live-ins are not
 * compared; they count as known only if the types of the program's inputs determine them. */
#include "vm/session.h"

void xcvm_session_invalidate(xcvm_session *s)
{
    const xcvm_program *program = s->program;
    memset(s->shapes_valid, 0, program->image.instruction_count * sizeof *s->shapes_valid);
    memset(s->known, 0, program->register_count * sizeof *s->known);
    memset(s->entered, 0, program->basic_block_count * sizeof *s->entered);
}

static bool is_cached_type(const xcvm_cached_type *cached, const xcvm_value *v)
{
    if (cached->kind != v->kind || cached->dtype != v->dtype || cached->rank != v->rank)
        return false;
    for (int i = 0; i < v->rank; i++)
        if (cached->dims[i] != v->dims[i])
            return false;
    return true;
}

static void cache_type(xcvm_cached_type *cached, const xcvm_value *v, uint8_t known)
{
    *cached =
        (xcvm_cached_type){.kind = v->kind, .dtype = v->dtype, .known = known, .rank = v->rank, .bytes = v->bytes};
    memcpy(cached->dims, v->dims, sizeof cached->dims);
}

void xcvm_session_enter(xcvm_session *s, size_t index)
{
    const xcvm_basic_block *block = &s->program->basic_blocks[index];
    const int32_t *ids = s->program->live_in + block->live_in_at;
    xcvm_cached_type *cached_types = s->live_in + block->live_in_at;
    bool same = s->entered[index];
    for (uint32_t i = 0; i < block->live_ins; i++) {
        const xcvm_value *v = &s->registers[ids[i]];
        uint8_t *known = &s->known[ids[i]];
        if ((*known & XCVM_KNOWN_ALWAYS) == 0)
            *known = v->kind == XCVM_KIND_TENSOR ? XCVM_KNOWN_TYPE : 0;
        same = same && is_cached_type(&cached_types[i], v);
    }
    if (same)
        return;
    for (uint32_t i = 0; i < block->live_ins; i++)
        cache_type(&cached_types[i], &s->registers[ids[i]], 0);
    memset(s->shapes_valid + block->begin, 0, (block->end - block->begin) * sizeof *s->shapes_valid);
    s->entered[index] = true;
}

/* Derives the knowledge about the results from that about the operands. */
static uint8_t derive(const xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_opcode opcode = instruction->schema->opcode;
    const bool of_shape = opcode == XCVM_OP_Shape || opcode == XCVM_OP_Size;
    uint8_t known = XCVM_KNOWN_TYPE | XCVM_KNOWN_ELEMENTS | XCVM_KNOWN_ALWAYS;
    if (!step->static_shapes)
        return 0;
    if (instruction->schema->effect != XCVM_PURE)
        known &= (uint8_t)~XCVM_KNOWN_ELEMENTS;
    for (uint32_t i = 0; i < instruction->in_count; i++) {
        if (instruction->in[i] <= 0)
            continue;
        uint8_t of_operand = s->known[instruction->in[i]];
        if (i < 32 && (step->shaping >> i & 1) != 0 && (of_operand & XCVM_KNOWN_ELEMENTS) == 0)
            return 0;
        known &= of_shape ? of_operand | XCVM_KNOWN_ELEMENTS : of_operand;
    }
    if (step->has_cached_types)
        known &= (uint8_t)~XCVM_KNOWN_ALWAYS;
    return (known & XCVM_KNOWN_TYPE) != 0 ? known : 0;
}

void xcvm_session_validate(xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    xcvm_value *const *out = s->out + step->out_at;
    uint8_t known = derive(s, pc);
    for (uint32_t i = 0; i < instruction->out_count; i++)
        if (out[i] != NULL &&
            (out[i]->kind != XCVM_KIND_TENSOR || out[i]->dtype == XCVM_STRING || !xcvm_dims_known(out[i])))
            known = 0;
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (out[i] == NULL)
            continue;
        s->known[instruction->out[i]] = known;
        if (step->has_cached_types)
            cache_type(&s->cached_types[step->cached_types_at + i], out[i], known);
    }
    if (known != 0)
        s->shapes_valid[pc] = XCVM_INFERRED;
}

void xcvm_session_recall(xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    const xcvm_step *step = &s->program->steps[pc];
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        xcvm_value *result = s->out[step->out_at + i];
        const xcvm_cached_type *cached = &s->cached_types[step->cached_types_at + i];
        if (result == NULL)
            continue;
        *result =
            (xcvm_value){.kind = cached->kind, .dtype = cached->dtype, .rank = cached->rank, .bytes = cached->bytes};
        memcpy(result->dims, cached->dims, sizeof result->dims);
        s->known[instruction->out[i]] = cached->known;
    }
}

void xcvm_session_validate_input(xcvm_session *s, size_t pc)
{
    const int32_t id = s->program->image.instructions[pc].out[0];
    const bool tensor = s->registers[id].kind == XCVM_KIND_TENSOR;
    s->known[id] = !tensor                                  ? 0
                   : s->program->steps[pc].has_cached_types ? XCVM_KNOWN_TYPE
                                                            : XCVM_KNOWN_TYPE | XCVM_KNOWN_ALWAYS;
}
