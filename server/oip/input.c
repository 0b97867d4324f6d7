/* Checks of inputs, and binary elements. */
#include "server/oip/input.h"

#include "server/oip/datatype.h"

#include <string.h>

bool xcs_input_find(const xcvm_program *program, const char *name, size_t length, size_t *index)
{
    for (size_t i = 0; i < xcvm_program_input_count(program); i++) {
        const char *own = xcvm_program_input_at(program, i)->name;
        if (strlen(own) == length && memcmp(own, name, length) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

xcvm_status xcs_input_check(const xcvm_value_info *info, xcvm_dtype dtype, int rank, const int64_t *dims,
                            xcvm_error *error)
{
    const xcvm_type *type = &info->type;
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR || type->kind == XCVM_KIND_NULL, UNSUPPORTED,
               "input \"%.100s\" is not a tensor, so it cannot be sent", info->name);
    XCVM_CHECK(error, type->dtype == XCVM_NO_DTYPE || dtype == type->dtype, TYPE_MISMATCH,
               "input \"%.100s\" has datatype %s; expected %s", info->name, xcs_datatype_name(dtype),
               xcs_datatype_name(type->dtype));
    XCVM_CHECK(error, type->rank < 0 || rank == type->rank, SHAPE_MISMATCH,
               "input \"%.100s\" has %d dimensions; expected %d", info->name, rank, type->rank);
    for (int i = 0; i < type->rank; i++)
        XCVM_CHECK(error, type->dims[i] < 0 || dims[i] == type->dims[i], SHAPE_MISMATCH,
                   "input \"%.100s\": dimension %d is %lld; expected %lld", info->name, i, (long long)dims[i],
                   (long long)type->dims[i]);
    return XCVM_OK;
}

xcvm_status xcs_input_bytes(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *bytes, xcvm_error *error)
{
    size_t bits = (size_t)xcvm_dtype_bits(dtype);
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(error, xcvm_size_mul(bits, (size_t)dims[i], &bits), SHAPE_MISMATCH, "the shape is too large");
    *bytes = bits / 8 + (bits % 8 != 0);
    return XCVM_OK;
}

xcvm_status xcs_input_check_bools(const void *bytes, size_t count, xcvm_error *error)
{
    for (size_t i = 0; i < count; i++)
        XCVM_CHECK(error, ((const unsigned char *)bytes)[i] <= 1, INVALID_ARGUMENT,
                   "byte %zu of a BOOL is neither 0 nor 1", i);
    return XCVM_OK;
}

xcvm_status xcs_input_read_strings(const xcvm_allocator *allocator, const char *at, size_t bytes, int rank,
                                   const int64_t *dims, xcvm_value **tensor, xcvm_error *error)
{
    size_t count = 1, block_bytes;
    for (int i = 0; i < rank; i++)
        XCVM_CHECK(error, xcvm_size_mul(count, (size_t)dims[i], &count), INVALID_ARGUMENT, "the shape is too large");
    XCVM_CHECK(error, count <= bytes / 4, SHAPE_MISMATCH, "fewer strings than the shape has (%zu)", count);
    block_bytes = count * (sizeof(char *) + sizeof(size_t)) + 1;
    char *block = xcvm_allocate(allocator, block_bytes);
    XCVM_CHECK(error, block != NULL, OUT_OF_MEMORY, "no memory for %zu strings", count);
    const char **strings = (const char **)(void *)block;
    size_t *lengths = (size_t *)(void *)(block + count * sizeof(char *)), used = 0, i = 0;
    for (; i < count && bytes - used >= 4; i++) {
        uint32_t length;
        memcpy(&length, at + used, sizeof length);
        if (length > bytes - used - 4)
            break;
        strings[i] = at + used + 4;
        lengths[i] = length;
        used += 4 + (size_t)length;
    }
    xcvm_status status =
        i < count || used != bytes
            ? xcvm_error_set(error, XCVM_SHAPE_MISMATCH, "the binary data do not have %zu strings", count)
            : xcvm_string_tensor_create(allocator, rank, dims, strings, lengths, tensor, error);
    xcvm_deallocate(allocator, block, block_bytes);
    return status;
}
