/* Checks of indices, and the shape around an indexed axis. */
#include "ops/util/index.h"

/* Returns true if all of [begin, end) are in [-dim, dim), without locating a violation. */
static bool in_range(const xcvm_value *indices, size_t begin, size_t end, int64_t dim)
{
    uint64_t outside = 0;
    if (indices->dtype == XCVM_I64)
        for (size_t i = begin; i < end; i++)
            outside |= (uint64_t)XCVM_CDATA(int64_t, indices)[i] + (uint64_t)dim >= 2 * (uint64_t)dim;
    else
        for (size_t i = begin; i < end; i++)
            outside |= (uint64_t)XCVM_CDATA(int32_t, indices)[i] + (uint64_t)dim >= 2 * (uint64_t)dim;
    return outside == 0;
}

xcvm_status xcvm_indices_check(xcvm_kernel *k, const xcvm_value *indices, const char *what, size_t count, int64_t dim)
{
    enum { BLOCK = 1 << 16 };
    size_t begin = 0;
    for (; begin < count; begin += BLOCK) {
        if (!in_range(indices, begin, count - begin < BLOCK ? count : begin + BLOCK, dim))
            break;
        if (begin != 0)
            XCVM_TRY(xcvm_kernel_poll(k));
    }
    for (size_t i = begin; i < count; i++) {
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
