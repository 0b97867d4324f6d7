#include "ops/index.h"

xcvm_status xcvm_indices_check(xcvm_kernel *k, const xcvm_value *indices, const char *what, size_t count, int64_t dim)
{
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < count; i++) {
        XCVM_TRY(xcvm_poll_after(&poller, 1));
        int64_t index = xcvm_index_at(indices, i);
        XCVM_CHECK(k->error, index >= -dim && index < dim, OUT_OF_RANGE,
                   "element %zu of %s is %lld, not in [-%lld, %lld)", i, what, (long long)index, (long long)dim,
                   (long long)dim);
    }
    return XCVM_OK;
}

xcvm_around xcvm_around_axis(const xcvm_value *tensor, int axis)
{
    xcvm_around a = {1, (size_t)tensor->dims[axis], 1};
    for (int i = 0; i < axis; i++)
        a.outer *= (size_t)tensor->dims[i];
    for (int i = axis + 1; i < tensor->rank; i++)
        a.inner *= (size_t)tensor->dims[i];
    return a;
}
