/* Arrays in files, chosen by a name. */
#include "tensors/arrays.h"
#include "cli/buffer.h"
#include "cli/report.h"

#include <xcvm/train.h>

static xcvm_status choose(const xct_arrays *arrays, const char *key, const char *fallback, size_t *index,
                          xcvm_error *error)
{
    bool named = key != NULL && *key != '\0';
    const char *name = named ? key : fallback != NULL ? fallback : "";
    size_t count = xct_arrays_count(arrays);
    /* The array of an .npy file has no name, and matches each name. */
    bool nameless = count == 1 && *xct_arrays_name_at(arrays, 0) == '\0';
    *index = nameless || *name == '\0' ? SIZE_MAX : xct_arrays_find(arrays, name);
    if (*index == SIZE_MAX && count == 1 && (!named || nameless))
        *index = 0;
    if (*index != SIZE_MAX)
        return XCVM_OK;
    struct buffer names = {0};
    for (size_t i = 0; i < count && i < 32; i++)
        buffer_format(&names, "%s%s", i != 0 ? ", " : "", xct_arrays_name_at(arrays, i));
    error_set(error, XCVM_INVALID_ARGUMENT, "there is no array \"%.100s\" (arrays: %.400s)", name,
              count != 0 ? buffer_string(&names) : "nothing");
    buffer_release(&names);
    return XCVM_INVALID_ARGUMENT;
}

xcvm_status arrays_read(const void *bytes, size_t count, const char *key, const char *fallback, xcvm_dtype wanted,
                        struct value_budget *budget, xcvm_value **tensor, xcvm_error *error)
{
    xct_arrays *arrays;
    size_t index;
    TRY(xct_arrays_load(bytes, count, value_budget_allocator(budget), &arrays, error));
    xct_arrays_set_timeout(arrays, value_budget_time_left(budget));
    xcvm_status status = choose(arrays, key, fallback, &index, error);
    if (status == XCVM_OK)
        status = xct_arrays_read(arrays, index, wanted, tensor, error);
    xct_arrays_destroy(arrays);
    return status;
}

xcvm_status array_write(const xcvm_value *array, struct value_budget *budget, xcvm_sink sink, xcvm_error *error)
{
    uint64_t bytes;
    TRY(xct_array_file_bytes(array, &bytes, error));
    if (bytes > xcvm_value_bytes(array))
        TRY(value_budget_check(budget, bytes, error));
    return xct_array_save(array, value_budget_time_left(budget), sink, error);
}
