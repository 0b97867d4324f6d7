/* A budget: an allocator that hands out the memory of another one, counts what is held, and refuses what would go past
 * a limit. One thread at a time. */
#ifndef XCVM_BASE_BUDGET_H
#define XCVM_BASE_BUDGET_H

#include "base/allocator.h"

typedef struct xcvm_budget {
    xcvm_allocator allocator; /* for those whose memory counts; it points to this struct, which must stay in place */
    const xcvm_allocator *from;
    size_t limit; /* bytes; 0: none */
    size_t held, peak;
    size_t refused; /* bytes of the last request that would have gone past the limit; 0: there was none */
} xcvm_budget;

/* `from` as in xcvm_allocator_or_default; it must outlive the budget, and all of the budget's memory must be released
 * before it goes. */
void xcvm_budget_begin(xcvm_budget *budget, const xcvm_allocator *from, size_t limit);

#endif
