/* What the values that a command makes may take: bytes of their elements at once, and time. */
#ifndef XCVM_TOOLS_VALUES_BUDGET_H
#define XCVM_TOOLS_VALUES_BUDGET_H

#include <xcvm/xcvm.h>

/* One thread at a time. Values point to it: it must stay in place, and outlive them. */
struct value_budget {
    xcvm_allocator allocator;
    uint64_t limit, held;  /* bytes; limit 0: none */
    uint64_t refused;      /* bytes of the last request that would have gone past the limit; 0: there was none */
    uint64_t left;         /* bytes that were left for it */
    double timeout, until; /* seconds, and when they are over, by now_seconds; timeout 0: no limit */
};
/* What a string takes besides its characters while a tensor of strings is made. */
enum { STRING_BYTES = 40 };
/* 0: no limit of memory, or of time, which begins now. */
void value_budget_begin(struct value_budget *budget, uint64_t limit, int64_t timeout_ms);
/* The time begins anew. */
void value_budget_restart(struct value_budget *budget);
/* For bytes that are taken elsewhere, for a time, and for which there was room. */
void value_budget_hold(struct value_budget *budget, uint64_t bytes);
void value_budget_let_go(struct value_budget *budget, uint64_t bytes);
/* For elements that count; NULL, malloc's, where nothing limits them. `budget` may be NULL, as below. */
const xcvm_allocator *value_budget_allocator(const struct value_budget *budget);
/* Bytes that are left, UINT64_MAX without a limit. */
uint64_t value_budget_left(const struct value_budget *budget);
/* Nanoseconds that are left, 1 if there are none; 0: there is no limit. */
uint64_t value_budget_time_left(const struct value_budget *budget);
/* For step `step` of what takes as many as there are elements: looks at the clock every million of them. OUT_OF_TIME.
 */
xcvm_status value_budget_poll(const struct value_budget *budget, size_t step, xcvm_error *error);
/* A tensor of zeros. */
xcvm_status value_zeros(struct value_budget *budget, xcvm_dtype dtype, int rank, const int64_t *dims,
                        xcvm_value **tensor, xcvm_error *error);
/* Fails with OUT_OF_MEMORY if so many bytes, which are taken elsewhere, do not fit. */
xcvm_status value_budget_check(struct value_budget *budget, uint64_t bytes, xcvm_error *error);
/* Where `status` is that there was no memory, and the limit is why, the error says so: whoever asked may not have known
 * of it. */
void value_budget_name(const struct value_budget *budget, xcvm_status status, xcvm_error *error);

#endif
