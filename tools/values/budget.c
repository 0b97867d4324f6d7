/* Memory and time of the values that a command makes. */
#include "values/budget.h"
#include "cli/clock.h"
#include "cli/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { POLL_MASK = (1 << 20) - 1 };

static void *budget_allocate(void *user, size_t bytes, size_t alignment)
{
    struct value_budget *budget = user;
    void *memory = NULL;
    if (bytes > budget->limit - budget->held) {
        budget->refused = bytes;
        budget->left = budget->limit - budget->held;
        return NULL;
    }
    if (posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes) != 0)
        return NULL;
    budget->held += bytes;
    return memory;
}

static void release(void *user, void *memory, size_t bytes)
{
    struct value_budget *budget = user;
    budget->held -= memory != NULL ? bytes : 0;
    free(memory);
}

void value_budget_begin(struct value_budget *budget, uint64_t limit, int64_t timeout_ms)
{
    *budget = (struct value_budget){
        .allocator = {budget_allocate, release, budget}, .limit = limit, .timeout = (double)timeout_ms * 1e-3};
    value_budget_restart(budget);
}

void value_budget_restart(struct value_budget *budget) { budget->until = now_seconds() + budget->timeout; }

const xcvm_allocator *value_budget_allocator(const struct value_budget *budget)
{
    return budget != NULL && budget->limit != 0 ? &budget->allocator : NULL;
}

void value_budget_hold(struct value_budget *budget, uint64_t bytes)
{
    if (budget != NULL && budget->limit != 0)
        budget->held += bytes;
}

void value_budget_let_go(struct value_budget *budget, uint64_t bytes)
{
    if (budget != NULL && budget->limit != 0)
        budget->held -= bytes;
}

uint64_t value_budget_left(const struct value_budget *budget)
{
    return budget != NULL && budget->limit != 0 ? budget->limit - budget->held : UINT64_MAX;
}

uint64_t value_budget_time_left(const struct value_budget *budget)
{
    if (budget == NULL || budget->timeout <= 0)
        return 0;
    const double left = budget->until - now_seconds();
    return left > 0 ? (uint64_t)(left * 1e9) + 1 : 1;
}

xcvm_status value_budget_poll(const struct value_budget *budget, size_t step, xcvm_error *error)
{
    if ((step & POLL_MASK) != 0 || budget == NULL || budget->timeout <= 0 || now_seconds() < budget->until)
        return XCVM_OK;
    return error_set(error, XCVM_OUT_OF_TIME, "making it took more than %.0f ms", budget->timeout * 1e3);
}

xcvm_status value_zeros(struct value_budget *budget, xcvm_dtype dtype, int rank, const int64_t *dims,
                        xcvm_value **tensor, xcvm_error *error)
{
    TRY(xcvm_tensor_create(value_budget_allocator(budget), dtype, rank, dims, tensor, error));
    const size_t bytes = xcvm_value_bytes(*tensor), portion = POLL_MASK + 1;
    for (size_t at = 0; at < bytes; at += portion) {
        memset((char *)xcvm_value_data(*tensor) + at, 0, bytes - at < portion ? bytes - at : portion);
        const xcvm_status status = value_budget_poll(budget, at, error);
        if (status != XCVM_OK) {
            xcvm_value_release(*tensor);
            *tensor = NULL;
            return status;
        }
    }
    return XCVM_OK;
}

xcvm_status value_budget_check(struct value_budget *budget, uint64_t bytes, xcvm_error *error)
{
    if (bytes <= value_budget_left(budget))
        return XCVM_OK;
    budget->refused = bytes;
    budget->left = value_budget_left(budget);
    value_budget_name(budget, XCVM_OUT_OF_MEMORY, error);
    return XCVM_OUT_OF_MEMORY;
}

void value_budget_name(const struct value_budget *budget, xcvm_status status, xcvm_error *error)
{
    if (status == XCVM_OUT_OF_MEMORY && budget != NULL && budget->refused != 0)
        error_set(error, status,
                  "it takes %" PRIu64 " bytes, and the memory limit of %" PRIu64 " leaves %" PRIu64
                  " beside the others",
                  budget->refused, budget->limit, budget->left);
}
