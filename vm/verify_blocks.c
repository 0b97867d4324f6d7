/* The control-flow graph: basic blocks in reverse postorder. */
#include "vm/verify.h"

static bool is_jump(const xcvm_step *step)
{
    return step->action == XCVM_ACTION_JUMP || step->action == XCVM_ACTION_JUMP_TRUE ||
           step->action == XCVM_ACTION_JUMP_FALSE;
}

/* Depth-first search from block 0; `order` is the reverse postorder. */
static xcvm_status order_blocks(xcvm_verifier *v)
{
    typedef struct visit {
        uint32_t block, next;
    } visit;
    visit *stack = xcvm_verifier_allocate(v, v->block_count, sizeof *stack);
    bool *seen = stack != NULL ? xcvm_verifier_allocate(v, v->block_count, sizeof *seen) : NULL;
    v->order = seen != NULL ? xcvm_verifier_allocate(v, v->block_count, sizeof *v->order) : NULL;
    if (v->order == NULL)
        return XCVM_OUT_OF_MEMORY;
    uint32_t depth = 1, left = v->block_count;
    stack[0] = (visit){0, 0};
    seen[0] = true;
    while (depth > 0) {
        visit *top = &stack[depth - 1];
        const xcvm_block *block = &v->blocks[top->block];
        if (top->next < block->next_count) {
            uint32_t next = block->next[top->next++];
            if (!seen[next]) {
                seen[next] = true;
                stack[depth++] = (visit){next, 0};
            }
        } else {
            v->order[--left] = top->block;
            depth--;
        }
    }
    v->order += left;
    v->order_count = v->block_count - left;
    for (uint32_t i = 0; i < v->order_count; i++)
        v->blocks[v->order[i]].order = i;
    return XCVM_OK;
}

xcvm_status xcvm_verify_blocks(xcvm_verifier *v)
{
    const xcvm_step *steps = v->program->steps;
    uint32_t count = (uint32_t)v->image->instruction_count;
    /* First marks the block starts, then numbers them. */
    uint32_t *block_at = xcvm_verifier_allocate(v, (size_t)count + 1, sizeof *block_at);
    if (block_at == NULL)
        return XCVM_OUT_OF_MEMORY;
    block_at[0] = block_at[count] = 1;
    for (uint32_t pc = 0; pc < count; pc++)
        if (is_jump(&steps[pc]))
            block_at[steps[pc].target] = block_at[pc + 1] = 1;
    for (uint32_t pc = 0; pc <= count; pc++)
        if (block_at[pc])
            block_at[pc] = v->block_count++;
    v->blocks = xcvm_verifier_allocate(v, v->block_count, sizeof *v->blocks);
    if (v->blocks == NULL)
        return XCVM_OUT_OF_MEMORY;
    uint32_t begin = 0;
    for (uint32_t b = 0; b < v->block_count; b++) {
        xcvm_block *block = &v->blocks[b];
        uint32_t end = begin < count ? begin + 1 : begin;
        while (end < count && block_at[end] != b + 1)
            end++;
        *block = (xcvm_block){.begin = begin, .end = end, .order = UINT32_MAX};
        const xcvm_step *last = end > begin ? &steps[end - 1] : NULL;
        if (last != NULL && is_jump(last))
            block->next[block->next_count++] = block_at[last->target];
        if (last != NULL && last->action != XCVM_ACTION_JUMP)
            block->next[block->next_count++] = b + 1;
        begin = end;
    }
    return order_blocks(v);
}
