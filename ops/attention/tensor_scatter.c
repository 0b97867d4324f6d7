/* TensorScatter: replaces rows of a cache, in place if nothing else uses the old ones. */
#include "ops/util/kernel.h"

XCVM_SHAPE_RULE_OF(TensorScatter)
{
    const xcvm_value *cache = a->past_cache, *update = a->update, *at = a->write_indices;
    xcvm_value_set_tensor(a->y, cache->dtype, cache->rank, cache->dims);
    XCVM_CHECK(t->error, at == NULL || at->rank < 0 || at->rank == 1, SHAPE_MISMATCH,
               "write_indices has the wrong rank (%d; expected 1)", at != NULL ? at->rank : 0);
    if (cache->rank < 0)
        return XCVM_OK;
    int axis;
    XCVM_CHECK(t->error, cache->rank >= 2, SHAPE_MISMATCH, "past_cache has the wrong rank (%d; expected at least 2)",
               cache->rank);
    XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, cache->rank, &axis));
    XCVM_CHECK(t->error, axis > 0, OUT_OF_RANGE, "axis is that of the batch");
    XCVM_CHECK(t->error, at == NULL || at->rank < 0 || !xcvm_dims_differ(at->dims[0], cache->dims[0]), SHAPE_MISMATCH,
               "write_indices has %lld elements, but there are %lld batch entries",
               at != NULL ? (long long)at->dims[0] : 0, (long long)cache->dims[0]);
    XCVM_CHECK(t->error, update->rank < 0 || update->rank == cache->rank, SHAPE_MISMATCH,
               "update has rank %d, but past_cache has %d", update->rank, cache->rank);
    for (int i = 0; i < cache->rank && update->rank >= 0; i++) {
        const int64_t has = update->dims[i], of = cache->dims[i];
        const bool fits = i == axis ? has < 0 || of < 0 || has <= of : !xcvm_dims_differ(has, of);
        XCVM_CHECK(t->error, fits, SHAPE_MISMATCH, "dimension %d of update is %lld, of past_cache %lld", i,
                   (long long)has, (long long)of);
    }
    return XCVM_OK;
}

XCVM_KERNEL(TensorScatter)
{
    const xcvm_value *cache = a->past_cache, *update = a->update;
    int axis;
    XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, cache->rank, &axis));
    const size_t batch = (size_t)cache->dims[0], rows = (size_t)cache->dims[axis], fresh = (size_t)update->dims[axis];
    const bool circular = a->mode == XCVM_CACHE_MODE_circular;
    size_t outer = 1, size = xcvm_dtype_size((xcvm_dtype)cache->dtype);
    for (int i = 1; i < cache->rank; i++)
        *(i < axis ? &outer : &size) *= i == axis ? 1 : (size_t)cache->dims[i];
    const int64_t *starts = a->write_indices != NULL ? a->write_indices->data : NULL;
    for (size_t b = 0; b < batch && starts != NULL; b++)
        XCVM_CHECK(k->error, starts[b] >= 0 && (circular || (uint64_t)starts[b] <= rows - fresh), OUT_OF_RANGE,
                   "write_indices[%zu] is %lld, but %zu of %zu rows are written", b, (long long)starts[b], fresh, rows);
    if (a->y->data != cache->data)
        XCVM_TRY(xcvm_kernel_copy(k, a->y->data, cache->data, cache->bytes));
    if (fresh == 0 || size == 0)
        return XCVM_OK;
    xcvm_poller poller = xcvm_poller_of(k);
    for (size_t i = 0; i < batch * outer; i++) {
        const size_t start = starts != NULL ? (size_t)((uint64_t)starts[i / outer] % rows) : 0;
        const size_t first = rows - start < fresh ? rows - start : fresh;
        char *to = (char *)a->y->data + i * rows * size;
        const char *from = (const char *)update->data + i * fresh * size;
        XCVM_TRY(xcvm_poll_after(&poller, 1 + fresh * size / XCVM_STEP_BYTES));
        XCVM_TRY(xcvm_kernel_copy(k, to + start * size, from, first * size));
        XCVM_TRY(xcvm_kernel_copy(k, to, from + first * size, (fresh - first) * size));
    }
    return XCVM_OK;
}
