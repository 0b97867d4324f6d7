/* Types and memory of results. A tensor whose size is known before its kernel runs gets memory from, in this order: the
 * tensor bound to its output; its planned slot; an operand that it is a view of or whose last use this is; a heap
 * block. A plan that does not match the sizes of a run affects only speed, not correctness. */
#include "vm/session.h"

/* Makes a result empty; its register may contain the value of the previous run. */
static void reset(xcvm_value *value) { *value = (xcvm_value){.memory_kind = XCVM_MEMORY_NONE}; }

static bool is_placeable(const xcvm_value *result)
{
    return result->kind == XCVM_KIND_TENSOR && result->dtype != XCVM_STRING && xcvm_dims_known(result);
}

static xcvm_status infer(xcvm_session *s, size_t pc)
{
    const xcvm_inference inference = xcvm_session_inference(s, pc);
    s->inferences++;
    for (size_t i = 0; i < inference.out_count; i++)
        if (inference.out[i] != NULL)
            reset(inference.out[i]);
    XCVM_TRY(xcvm_infer_run(&inference));
    for (size_t i = 0; i < inference.out_count; i++) {
        xcvm_value *result = inference.out[i];
        if (result == NULL || result->kind != XCVM_KIND_TENSOR || !xcvm_dims_known(result))
            continue;
        size_t count;
        char text[192];
        XCVM_CHECK(s->kernel.error, xcvm_tensor_size(result->dtype, result->rank, result->dims, &count, &result->bytes),
                   OUT_OF_RANGE, "result %zu, %s, is too large", i, xcvm_value_describe(result, text, sizeof text));
    }
    xcvm_session_validate(s, pc);
    return XCVM_OK;
}

static void lend(xcvm_value *result, void *data, xcvm_memory_kind kind)
{
    result->data = data;
    result->memory_kind = (uint8_t)kind;
    result->storage = NULL;
}

static void share(xcvm_value *result, const xcvm_value *operand)
{
    lend(result, operand->data, operand->memory_kind);
    result->storage = operand->storage;
    if (result->storage != NULL)
        xcvm_storage_retain(result->storage);
}

/* Writes the result directly to the tensor bound to its output, if the types agree. */
static bool use_bound_output(const xcvm_session *s, size_t pc, uint32_t index, xcvm_value *result)
{
    const xcvm_program *program = s->program;
    for (int32_t i = s->direct[pc] ? program->steps[pc].target : -1; i >= 0; i = program->producers[i].next) {
        const xcvm_value *target = &s->bound_outputs[i];
        if (program->producers[i].result == index && target->kind == XCVM_KIND_TENSOR && !s->staged[i] &&
            target->dtype == result->dtype && xcvm_same_shape(target, result)) {
            lend(result, target->data, XCVM_MEMORY_BORROWED);
            return true;
        }
    }
    return false;
}

static bool same_layout(const xcvm_value *a, const xcvm_value *b)
{
    return a->kind == XCVM_KIND_TENSOR && b->kind == XCVM_KIND_TENSOR && xcvm_same_shape(a, b) &&
           xcvm_dtype_bits(a->dtype) == xcvm_dtype_bits(b->dtype);
}

static bool use_slot(const xcvm_session *s, size_t pc, uint32_t index, xcvm_value *result)
{
    const xcvm_slot *slots = s->program->image.instructions[pc].slots;
    const xcvm_step *step = &s->program->steps[pc];
    if (slots == NULL || slots[index].bytes < result->bytes || result->bytes == 0)
        return false;
    char *at = s->arena + slots[index].offset;
    if (index == 0 && step->alias != XCVM_ALIAS_NONE) {
        const xcvm_value *operand = s->in[step->in_at + step->alias_operand];
        bool shares = operand->memory_kind == XCVM_MEMORY_ARENA;
        if (shares && (operand->data != at || operand->bytes != result->bytes))
            return false;
        if (shares && step->alias == XCVM_ALIAS_IN_PLACE && !same_layout(operand, result))
            return false;
        /* A view whose operand is elsewhere must not use the slot, because other views of the same group may use it. */
        if (!shares && step->alias == XCVM_ALIAS_VIEW)
            return false;
    }
    lend(result, at, XCVM_MEMORY_ARENA);
    return true;
}

/* Uses memory of an operand of instruction `pc` for its first result. */
static bool use_operand(const xcvm_session *s, size_t pc, xcvm_value *result)
{
    const xcvm_step *step = &s->program->steps[pc];
    const xcvm_value *const *in = s->in + step->in_at;
    for (uint32_t rest = step->views; rest != 0; rest &= rest - 1) {
        const xcvm_value *operand = in[__builtin_ctz(rest)];
        /* Arena memory is only guaranteed for the duration of its own planned slot. */
        if (operand->kind == XCVM_KIND_TENSOR && operand->bytes == result->bytes && operand->dtype == result->dtype &&
            operand->memory_kind != XCVM_MEMORY_ARENA && operand->data != NULL) {
            share(result, operand);
            return true;
        }
    }
    for (uint32_t rest = step->reusable; rest != 0; rest &= rest - 1) {
        const xcvm_value *operand = in[__builtin_ctz(rest)];
        if (operand->memory_kind == XCVM_MEMORY_OWNED && same_layout(operand, result) &&
            __atomic_load_n(&operand->storage->refs, __ATOMIC_ACQUIRE) == 1) {
            share(result, operand);
            return true;
        }
    }
    return false;
}

static xcvm_status use_heap(xcvm_session *s, xcvm_value *result)
{
    xcvm_storage *storage;
    XCVM_TRY(xcvm_heap_allocate(s->kernel.heap, result->bytes, &storage, s->kernel.error));
    lend(result, storage->data, XCVM_MEMORY_OWNED);
    result->storage = storage;
    return XCVM_OK;
}

static xcvm_status place_result(xcvm_session *s, size_t pc, uint32_t index, xcvm_value *result)
{
    if (use_bound_output(s, pc, index, result) || use_slot(s, pc, index, result) ||
        (index == 0 && use_operand(s, pc, result)))
        return XCVM_OK;
    return use_heap(s, result);
}

xcvm_status xcvm_session_prepare(xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    xcvm_value *const *out = s->out + s->program->steps[pc].out_at;
    const bool has_cached_types = s->program->steps[pc].has_cached_types;
    if (s->shapes_valid[pc] == XCVM_INVALID_SHAPES)
        XCVM_TRY(infer(s, pc));
    else if (has_cached_types)
        xcvm_session_recall(s, pc);
    bool placed = s->shapes_valid[pc] == XCVM_INFERRED && !has_cached_types;
    for (uint32_t i = 0; i < instruction->out_count; i++) {
        if (out[i] == NULL || !is_placeable(out[i]))
            continue;
        XCVM_TRY(place_result(s, pc, i, out[i]));
        placed = placed && out[i]->memory_kind == XCVM_MEMORY_ARENA;
    }
    if (placed)
        s->shapes_valid[pc] = XCVM_ALLOCATED;
    return XCVM_OK;
}

xcvm_status xcvm_session_check_results(xcvm_session *s, size_t pc)
{
    const xcvm_instruction *instruction = &s->program->image.instructions[pc];
    xcvm_value *const *out = s->out + s->program->steps[pc].out_at;
    for (uint32_t i = 0; i < instruction->out_count; i++)
        XCVM_CHECK(s->kernel.error, out[i] == NULL || out[i]->kind == XCVM_KIND_NULL || out[i]->data != NULL, INTERNAL,
                   "the kernel left result %u without memory", (unsigned)i);
    return XCVM_OK;
}
