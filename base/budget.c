/* The budget allocator: counts allocated bytes and refuses requests beyond the limit. */
#include "base/budget.h"

static void *allocate(void *user, size_t bytes, size_t alignment)
{
    xcvm_budget *budget = user;
    if (budget->limit != 0 && (budget->held > budget->limit || bytes > budget->limit - budget->held)) {
        budget->refused = bytes;
        return NULL;
    }
    void *memory = budget->from->allocate(budget->from->user, bytes, alignment);
    if (memory == NULL)
        return NULL;
    budget->held += bytes;
    if (budget->held > budget->peak)
        budget->peak = budget->held;
    return memory;
}

static void release(void *user, void *memory, size_t bytes)
{
    xcvm_budget *budget = user;
    budget->held -= bytes;
    budget->from->release(budget->from->user, memory, bytes);
}

void xcvm_budget_begin(xcvm_budget *budget, const xcvm_allocator *from, size_t limit)
{
    *budget = (xcvm_budget){
        .allocator = {allocate, release, budget}, .from = xcvm_allocator_or_default(from), .limit = limit};
}
