/* A budget: an allocator that forwards to another one, counts allocated bytes, and refuses requests beyond a limit. Not
 * thread-safe. */
#ifndef XCVM_BASE_BUDGET_H
#define XCVM_BASE_BUDGET_H

#include "base/allocator.h"

typedef struct xcvm_budget {
    xcvm_allocator allocator; /* allocator whose memory counts; it points to this struct, which must not move */
    const xcvm_allocator *from;
    size_t limit; /* in bytes; 0: no limit */
    size_t held, peak;
    size_t refused; /* bytes of the last request that exceeded the limit; 0: none did */
} xcvm_budget;

/* `from` is as in xcvm_allocator_or_default and must outlive the budget. All memory of the budget must be released
 * before the budget is. */
void xcvm_budget_begin(xcvm_budget *budget, const xcvm_allocator *from, size_t limit);

#endif
