/* Data sets without a trainer: for any inputs, read in order. */
#include "base/clock.h"
#include "train/data/dataset.h"
#include "train/data/permutation.h"

xcvm_status xct_dataset_create_for_inputs(const xcvm_value_info *inputs, size_t input_count, const char *const *paths,
                                          size_t path_count, const xct_column *columns, size_t column_count,
                                          const xcvm_allocator *allocator, xct_dataset **dataset, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, dataset != NULL && (inputs != NULL || input_count == 0) && (paths != NULL || path_count == 0),
               INVALID_ARGUMENT, "inputs, paths or dataset is NULL");
    XCVM_CHECK(error, columns != NULL || column_count == 0, INVALID_ARGUMENT, "columns is NULL");
    const xct_feed feed = {.inputs = inputs, .count = input_count};
    return xct_dataset_make(&feed, paths, path_count, columns, column_count, allocator, dataset, error);
}

void xct_dataset_set_limits(xct_dataset *set, size_t memory_limit, uint64_t timeout_ns)
{
    if (set == NULL)
        return;
    set->memory_limit = memory_limit;
    set->timeout_ns = timeout_ns;
}

void xct_dataset_mix(xct_dataset *set, uint64_t seed)
{
    if (set == NULL)
        return;
    set->mixed = true;
    set->mixing_key = xct_permutation_key(seed, 0, 0);
}

/* Tensors may outlive the data set, so they do not use its memory, but they must fit its remaining limit. */
static xcvm_status make_tensors(const xct_dataset *set, size_t count, xcvm_value **values, unsigned char **to,
                                xcvm_error *error)
{
    const xcvm_allocator *allocator = set->memory != NULL ? set->memory->budget.from : set->arena.allocator;
    size_t left = xct_memory_left(set->memory);
    for (size_t i = 0; i < set->bound_count; i++) {
        const xct_bound *bound = &set->bounds[i];
        int64_t dims[XCVM_MAX_RANK];
        for (int d = 0; d < bound->rank; d++)
            dims[d] = d == 0 ? (int64_t)count : bound->dims[d];
        size_t bytes;
        const bool fits = xcvm_size_mul(bound->row_bytes, count, &bytes) && bytes <= left;
        XCVM_CHECK(error, fits, OUT_OF_MEMORY, "no memory for %zu examples", count);
        left -= set->memory != NULL ? bytes : 0;
        XCVM_TRY(xcvm_tensor_create(allocator, bound->dtype, bound->rank, dims, &values[i], error));
        to[i] = xcvm_value_data(values[i]);
    }
    return XCVM_OK;
}

static xcvm_status read_rows(const xct_dataset *set, uint64_t first, size_t count, unsigned char *const *to,
                             xcvm_error *error)
{
    size_t shard = 0;
    uint64_t before = 0; /* examples of earlier shards */
    for (size_t place = 0; place < count; place++) {
        const uint64_t own = first + place, example = set->mixed ? xct_permute(set->mixing_key, set->rows, own) : own;
        if (example < before)
            shard = before = 0;
        for (; example - before >= set->shards[shard].rows; shard++)
            before += set->shards[shard].rows;
        XCVM_TRY(xct_reader_read(set->reader, shard, example - before, to, place, error));
    }
    return XCVM_OK;
}

xcvm_status xct_dataset_read(xct_dataset *set, uint64_t first, size_t count, xcvm_value **values, xcvm_error *error)
{
    xcvm_error own;
    error = error != NULL ? error : &own;
    XCVM_CHECK(error, set != NULL && values != NULL, INVALID_ARGUMENT, "data set or values is NULL");
    XCVM_CHECK(error, first <= set->rows && count <= set->rows - first, OUT_OF_RANGE,
               "examples %llu to %llu are asked for, there are %llu", (unsigned long long)first,
               (unsigned long long)first + count, (unsigned long long)set->rows);
    if (set->reader == NULL)
        XCVM_TRY(xct_reader_create(set, &set->reader, error));
    const size_t bytes = (set->bound_count + 1) * sizeof(unsigned char *);
    unsigned char **to = xcvm_allocate(set->arena.allocator, bytes);
    XCVM_CHECK(error, to != NULL, OUT_OF_MEMORY, "no memory for reading data");
    memset(values, 0, set->bound_count * sizeof *values);
    xct_reader_set_deadline(set->reader, xcvm_clock_deadline(set->timeout_ns));
    xcvm_status status = make_tensors(set, count, values, to, error);
    if (status == XCVM_OK)
        status = read_rows(set, first, count, to, error);
    for (size_t i = 0; i < set->bound_count && status != XCVM_OK; i++) {
        xcvm_value_release(values[i]);
        values[i] = NULL;
    }
    xcvm_deallocate(set->arena.allocator, to, bytes);
    return status;
}
