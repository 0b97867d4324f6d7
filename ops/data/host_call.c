/* HostCall: calls a function of the host program. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(HostCall)
{
    XCVM_CHECK(t->error, a->dtypes.count == a->ys.count && a->ranks.count == a->ys.count, INVALID_ARGUMENT,
               "dtypes and ranks have %zu and %zu entries for %zu results", a->dtypes.count, a->ranks.count,
               a->ys.count);
    for (size_t i = 0; i < a->ys.count; i++) {
        XCVM_CHECK(t->error, xcvm_dtype_bits((xcvm_dtype)a->dtypes.at[i]) != 0, INVALID_ARGUMENT,
                   "entry %zu of dtypes is %lld, which is not an element type", i, (long long)a->dtypes.at[i]);
        xcvm_set_unknown(a->ys.at[i], (xcvm_dtype)a->dtypes.at[i], (int)a->ranks.at[i]);
    }
    return XCVM_OK;
}

static const xcvm_host_function *find(const xcvm_kernel *k, const char *name)
{
    for (size_t i = 0; i < k->function_count; i++)
        if (k->functions[i].name != NULL && strcmp(k->functions[i].name, name) == 0)
            return &k->functions[i];
    return NULL;
}

static xcvm_status take_result(xcvm_kernel *k, const xcvm_HostCall_args *a, size_t i, const xcvm_value *result)
{
    char text[192];
    XCVM_CHECK(k->error, result != NULL, INVALID_ARGUMENT, "the host function \"%.200s\" gave no result %zu",
               a->function.at, i);
    const int64_t rank = a->ranks.at[i];
    XCVM_CHECK(k->error, result->kind == XCVM_KIND_TENSOR && result->dtype == a->dtypes.at[i], TYPE_MISMATCH,
               "result %zu of the host function \"%.100s\" is %s, a tensor of %s is expected", i, a->function.at,
               xcvm_value_describe(result, text, sizeof text), xcvm_dtype_name((xcvm_dtype)a->dtypes.at[i]));
    XCVM_CHECK(k->error, rank < 0 || result->rank == rank, SHAPE_MISMATCH,
               "result %zu of the host function \"%.100s\" has rank %d, %lld is expected", i, a->function.at,
               result->rank, (long long)rank);
    xcvm_value_clear(a->ys.at[i]);
    return xcvm_kernel_keep(k, a->ys.at[i], result);
}

XCVM_KERNEL(HostCall)
{
    const xcvm_host_function *function = find(k, a->function.at);
    XCVM_CHECK(k->error, function != NULL && function->call != NULL, UNSUPPORTED,
               "the host function \"%.200s\" is not registered with the session", a->function.at);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(a->ys.count + 1, sizeof(xcvm_value *), &bytes), OUT_OF_RANGE,
               "too many results");
    xcvm_value **results = xcvm_kernel_scratch(k, bytes);
    if (results == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < a->ys.count; i++)
        results[i] = NULL;
    xcvm_status status = function->call(function->user, a->xs.count, a->xs.at, a->ys.count, results, k->error);
    if (status != XCVM_OK && (k->error == NULL || k->error->status != status))
        status = xcvm_error_set(k->error, status, "the host function \"%.200s\" failed", a->function.at);
    for (size_t i = 0; i < a->ys.count && status == XCVM_OK; i++)
        status = take_result(k, a, i, results[i]);
    for (size_t i = 0; i < a->ys.count; i++)
        xcvm_value_release(results[i]);
    return status;
}
