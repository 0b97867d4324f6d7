/* A budget for values: bytes of elements that are held at once, and time. */
#ifndef XCVM_TOOLS_VALUES_BUDGET_H
#define XCVM_TOOLS_VALUES_BUDGET_H

#include <xcvm/xcvm.h>

/* For one thread. Values point to the budget, so that it must not move, and must outlive them. */
struct value_budget {
    xcvm_allocator allocator;
    uint64_t limit, held;  /* bytes; limit 0: none */
    uint64_t refused;      /* size of the last refused request; 0: none */
    uint64_t left;         /* bytes that were left then */
    double timeout, until; /* limit in seconds, and its end by now_seconds; timeout 0: no limit */
};
/* Bytes per string, besides its characters, while a tensor of strings is made. */
enum { STRING_BYTES = 40 };
/* Starts a budget. 0: no limit of memory, or of time. */
void value_budget_begin(struct value_budget *budget, uint64_t limit, int64_t timeout_ms);
/* Restarts the time. */
void value_budget_restart(struct value_budget *budget);
/* Counts bytes that are held elsewhere for a while and that fit. */
void value_budget_hold(struct value_budget *budget, uint64_t bytes);
void value_budget_let_go(struct value_budget *budget, uint64_t bytes);
/* The allocator that counts elements; NULL (malloc) without a limit. `budget` may be NULL, here and below. */
const xcvm_allocator *value_budget_allocator(const struct value_budget *budget);
/* Remaining bytes; UINT64_MAX without a limit. */
uint64_t value_budget_left(const struct value_budget *budget);
/* Remaining nanoseconds, at least 1; 0: no limit. */
uint64_t value_budget_time_left(const struct value_budget *budget);
/* Polls the deadline every million steps. Called for each step of a loop over elements. Fails with OUT_OF_TIME. */
xcvm_status value_budget_poll(const struct value_budget *budget, size_t step, xcvm_error *error);
/* Creates a tensor of zeros. */
xcvm_status value_zeros(struct value_budget *budget, xcvm_dtype dtype, int rank, const int64_t *dims,
                        xcvm_value **tensor, xcvm_error *error);
/* Fails with OUT_OF_MEMORY if the bytes, which are held elsewhere, do not fit. */
xcvm_status value_budget_check(struct value_budget *budget, uint64_t bytes, xcvm_error *error);
/* If `status` is OUT_OF_MEMORY because of the limit, the error names the limit, which the failed function may not
 * know. */
void value_budget_name(const struct value_budget *budget, xcvm_status status, xcvm_error *error);

#endif
