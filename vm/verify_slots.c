/* Verification of planned slots. Slots of simultaneously live values must not overlap, unless one is a view of the
 * other or reuses its memory. Only a value that lives inside one basic block has a slot, so lifetimes follow program
 * order. */
#include "vm/verify.h"

#include <endian.h>
#include <stdio.h>

/* Memory of a value and all its views; [low, high) are indices of plan.edges. */
typedef struct group {
    uint64_t offset;
    uint32_t low, high;
    uint32_t members; /* number of set registers */
    bool pinned;      /* also used by an output until the end */
} group;

typedef struct plan {
    xcvm_verifier *v;
    uint64_t *edges; /* ascending offsets at which slots begin or end */
    uint32_t edge_count;
    int32_t *added; /* segment tree over the intervals between edges: occupants of a whole interval ... */
    int32_t *most;  /* ... and the maximum over its parts, including `added` */
    group *groups;
    uint32_t group_count;
    uint32_t block_groups; /* groups from this index belong to the current block */
    uint32_t *group_of;    /* 1 + a register's group; 0: none */
} plan;

/* ---- Occupied intervals of the arena ---- */

static void occupy(plan *p, uint32_t node, uint32_t begin, uint32_t end, uint32_t low, uint32_t high, int32_t by)
{
    if (high <= begin || end <= low)
        return;
    if (low <= begin && end <= high) {
        p->added[node] += by;
        p->most[node] += by;
        return;
    }
    uint32_t middle = begin + (end - begin) / 2;
    occupy(p, 2 * node + 1, begin, middle, low, high, by);
    occupy(p, 2 * node + 2, middle, end, low, high, by);
    int32_t left = p->most[2 * node + 1], right = p->most[2 * node + 2];
    p->most[node] = p->added[node] + (left > right ? left : right);
}

static int32_t occupants(const plan *p, uint32_t node, uint32_t begin, uint32_t end, uint32_t low, uint32_t high)
{
    if (high <= begin || end <= low)
        return 0;
    if (low <= begin && end <= high)
        return p->most[node];
    uint32_t middle = begin + (end - begin) / 2;
    int32_t left = occupants(p, 2 * node + 1, begin, middle, low, high);
    int32_t right = occupants(p, 2 * node + 2, middle, end, low, high);
    return p->added[node] + (left > right ? left : right);
}

static void end_group(plan *p, const group *g) { occupy(p, 0, 0, p->edge_count - 1, g->low, g->high, -1); }

/* ---- Collecting the edges ---- */

static uint32_t edge_index(const plan *p, uint64_t edge)
{
    uint32_t low = 0, high = p->edge_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (p->edges[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static xcvm_status check_range(xcvm_verifier *v, size_t pc, uint32_t result)
{
    const xcvm_slot *slot = &v->image->instructions[pc].slots[result];
    uint64_t end;
    if (slot->offset % XCVM_ALIGNMENT != 0)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                  "the slot of result %u begins at %llu, which is not a multiple of %d",
                                  (unsigned)result, (unsigned long long)slot->offset, XCVM_ALIGNMENT);
    if (__builtin_add_overflow(slot->offset, slot->bytes, &end) || end > v->image->arena_bytes)
        return xcvm_verifier_fail(v, pc, XCVM_INVALID_PROGRAM,
                                  "the slot of result %u, %llu+%llu, is not inside the arena of %llu bytes",
                                  (unsigned)result, (unsigned long long)slot->offset, (unsigned long long)slot->bytes,
                                  (unsigned long long)v->image->arena_bytes);
    return XCVM_OK;
}

static size_t count_slots(const xcvm_image *image)
{
    size_t count = 0;
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        for (uint32_t i = 0; image->instructions[pc].slots != NULL && i < image->instructions[pc].out_count; i++)
            count += image->instructions[pc].slots[i].bytes != 0;
    return count;
}

/* Sorts the bounds of all slots. Big-endian bytes of numbers sort like strings. */
static xcvm_status sort_edges(plan *p, size_t slot_count)
{
    xcvm_verifier *v = p->v;
    xcvm_name_index sorted = {0};
    uint64_t *edges = xcvm_verifier_allocate(v, 2 * slot_count, sizeof *edges);
    p->edges = edges != NULL ? xcvm_verifier_allocate(v, 2 * slot_count, sizeof *p->edges) : NULL;
    if (p->edges == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t pc = 0; pc < v->image->instruction_count; pc++) {
        const xcvm_instruction *instruction = &v->image->instructions[pc];
        for (uint32_t i = 0; instruction->slots != NULL && i < instruction->out_count; i++) {
            const xcvm_slot *slot = &instruction->slots[i];
            for (uint64_t end = 0; end < 2 && slot->bytes != 0; end++, edges++) {
                *edges = htobe64(slot->offset + end * slot->bytes);
                if (!xcvm_name_index_add(&sorted, &v->temporary, (const char *)edges, sizeof *edges, 0))
                    return xcvm_verifier_no_memory(v);
            }
        }
    }
    xcvm_name_index_sort(&sorted);
    for (size_t i = 0; i < sorted.count; i++) {
        uint64_t edge = be64toh(*(const uint64_t *)(const void *)sorted.at[i].text);
        if (i == 0 || edge != p->edges[p->edge_count - 1])
            p->edges[p->edge_count++] = edge;
    }
    return XCVM_OK;
}

/* ---- Simulating the program ---- */

/* Returns the group of an operand that the first result may join, if its slot begins at the same offset; else NULL. */
static group *find_alias(plan *p, size_t pc, uint64_t offset, uint32_t high)
{
    const xcvm_instruction *instruction = &p->v->image->instructions[pc];
    xcvm_step *step = &p->v->program->steps[pc];
    for (uint32_t rest = step->views | step->reusable; rest != 0; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(rest);
        uint32_t index = instruction->in[i] > 0 ? p->group_of[instruction->in[i]] : 0;
        group *g = index != 0 ? &p->groups[index - 1] : NULL;
        if (g == NULL || g->offset != offset || g->high < high)
            continue;
        bool view = (step->views >> i & 1) != 0;
        if (view || (g->members == 1 && !g->pinned)) {
            step->alias = view ? XCVM_ALIAS_VIEW : XCVM_ALIAS_IN_PLACE;
            step->alias_operand = i;
            return g;
        }
    }
    return NULL;
}

static xcvm_status fail_overlap(const plan *p, size_t pc, uint32_t result, uint32_t low, uint32_t high)
{
    const xcvm_instruction *instruction = &p->v->image->instructions[pc];
    const xcvm_slot *slot = &instruction->slots[result];
    const char *kept = "an output";
    char text[32];
    for (size_t r = 1; r < p->v->program->register_count; r++) {
        const group *g = p->group_of[r] != 0 ? &p->groups[p->group_of[r] - 1] : NULL;
        if (g != NULL && g->low < high && low < g->high) {
            snprintf(text, sizeof text, "$%zu", r);
            kept = text;
            break;
        }
    }
    return xcvm_verifier_fail(p->v, pc, XCVM_INVALID_PROGRAM,
                              "the slot of result %u ($%d), %llu+%llu, overlaps that of %s, which is still needed",
                              (unsigned)result, (int)instruction->out[result], (unsigned long long)slot->offset,
                              (unsigned long long)slot->bytes, kept);
}

static xcvm_status place_result(plan *p, size_t pc, uint32_t result)
{
    const xcvm_instruction *instruction = &p->v->image->instructions[pc];
    const xcvm_slot *slot = &instruction->slots[result];
    uint32_t low = edge_index(p, slot->offset), high = edge_index(p, slot->offset + slot->bytes);
    group *g = result == 0 ? find_alias(p, pc, slot->offset, high) : NULL;
    if (g == NULL) {
        if (occupants(p, 0, 0, p->edge_count - 1, low, high) != 0)
            return fail_overlap(p, pc, result, low, high);
        occupy(p, 0, 0, p->edge_count - 1, low, high, 1);
        g = &p->groups[p->group_count++];
        *g = (group){.offset = slot->offset, .low = low, .high = high};
    }
    g->members++;
    p->group_of[instruction->out[result]] = (uint32_t)(g - p->groups) + 1;
    return XCVM_OK;
}

static xcvm_status follow(plan *p, size_t pc)
{
    const xcvm_instruction *instruction = &p->v->image->instructions[pc];
    const xcvm_step *step = &p->v->program->steps[pc];
    bool frees = step->action == XCVM_ACTION_FREE;
    if (frees || step->action == XCVM_ACTION_OUT) {
        uint32_t index = instruction->in[0] > 0 ? p->group_of[instruction->in[0]] : 0;
        if (index == 0)
            return XCVM_OK;
        group *g = &p->groups[index - 1];
        g->pinned = g->pinned || !frees;
        if (frees) {
            p->group_of[instruction->in[0]] = 0;
            if (--g->members == 0 && !g->pinned)
                end_group(p, g);
        }
        return XCVM_OK;
    }
    for (uint32_t i = 0; instruction->slots != NULL && i < instruction->out_count; i++)
        if (instruction->slots[i].bytes != 0 && instruction->out[i] != 0)
            XCVM_TRY(place_result(p, pc, i));
    return XCVM_OK;
}

/* Values with slots must not outlive their block, unless the program ends there. */
static xcvm_status leave_block(plan *p, const xcvm_block *block)
{
    xcvm_verifier *v = p->v;
    bool last = true;
    for (uint32_t i = 0; i < block->next_count; i++)
        last = last && block->next[i] == v->block_count - 1;
    for (uint32_t i = p->block_groups; i < p->group_count; i++) {
        const group *g = &p->groups[i];
        if (g->members == 0 && !g->pinned)
            continue;
        if (!last)
            return xcvm_verifier_fail(v, block->end - 1, XCVM_INVALID_PROGRAM,
                                      "a value with a slot at %llu is still needed after this instruction, where paths "
                                      "part or meet; such values cannot have slots",
                                      (unsigned long long)g->offset);
        end_group(p, g);
    }
    for (uint32_t pc = block->begin; pc < block->end; pc++)
        for (uint32_t i = 0; i < v->image->instructions[pc].out_count; i++)
            p->group_of[v->image->instructions[pc].out[i]] = 0;
    p->block_groups = p->group_count;
    return XCVM_OK;
}

xcvm_status xcvm_verify_slots(xcvm_verifier *v)
{
    const xcvm_image *image = v->image;
    for (size_t pc = 0; pc < image->instruction_count; pc++)
        for (uint32_t i = 0; image->instructions[pc].slots != NULL && i < image->instructions[pc].out_count; i++)
            if (image->instructions[pc].slots[i].bytes != 0)
                XCVM_TRY(check_range(v, pc, i));
    size_t slot_count = count_slots(image);
    if (slot_count == 0)
        return XCVM_OK;
    XCVM_CHECK(v->error, slot_count < INT32_MAX / 8, INVALID_PROGRAM, "there are too many slots");
    plan p = {.v = v};
    XCVM_TRY(sort_edges(&p, slot_count));
    p.added = xcvm_verifier_allocate(v, 4 * (size_t)p.edge_count, sizeof *p.added);
    p.most = p.added != NULL ? xcvm_verifier_allocate(v, 4 * (size_t)p.edge_count, sizeof *p.most) : NULL;
    p.groups = p.most != NULL ? xcvm_verifier_allocate(v, slot_count, sizeof *p.groups) : NULL;
    p.group_of = p.groups != NULL ? xcvm_verifier_allocate(v, v->program->register_count, sizeof *p.group_of) : NULL;
    if (p.group_of == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (uint32_t b = 0; b < v->order_count; b++) {
        const xcvm_block *block = &v->blocks[v->order[b]];
        for (uint32_t pc = block->begin; pc < block->end; pc++)
            XCVM_TRY(follow(&p, pc));
        if (block->end > block->begin)
            XCVM_TRY(leave_block(&p, block));
    }
    return XCVM_OK;
}
