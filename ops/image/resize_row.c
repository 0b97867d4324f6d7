/* Enlargement of image rows by copying pixels. */
#include "ops/image/resize_row.h"
#include "ops/util/interleave.h"

#include <stdbool.h>
#include <string.h>

#define DEFINE_ROW(bits, type, low, high)                                                                              \
    typedef type vector_##bits __attribute__((vector_size(16), aligned(1), may_alias));                                \
    static inline void repeat_##bits(type *restrict to, const type *restrict from, size_t count, const size_t repeats) \
    {                                                                                                                  \
        const size_t lanes = 16 / sizeof(type);                                                                        \
        size_t i = 0;                                                                                                  \
        for (; repeats == 2 && i + lanes <= count; i += lanes) {                                                       \
            const vector_##bits v = *(const vector_##bits *)(from + i);                                                \
            *(vector_##bits *)(to + 2 * i) = low(v, v);                                                                \
            *(vector_##bits *)(to + 2 * i + lanes) = high(v, v);                                                       \
        }                                                                                                              \
        for (; i < count; i++)                                                                                         \
            for (size_t j = 0; j < repeats; j++)                                                                       \
                to[i * repeats + j] = from[i];                                                                         \
    }                                                                                                                  \
    /* Doubles rows of `count` elements in both directions. The second row is computed from `from` again, because      \
     * writing one row after the other is faster than writing both in parallel. */                                     \
    static void double_##bits(type *restrict to, const type *restrict from, size_t count, size_t rows)                 \
    {                                                                                                                  \
        for (size_t row = 0; row < 2 * rows; row++, to += 2 * count)                                                   \
            repeat_##bits(to, from + row / 2 * count, count, 2);                                                       \
    }                                                                                                                  \
    static void gather_row_##bits(type *restrict to, const type *restrict from, size_t width, size_t repeats,          \
                                  const int64_t *columns)                                                              \
    {                                                                                                                  \
        if (repeats == 2)                                                                                              \
            repeat_##bits(to, from, width / 2, 2);                                                                     \
        else if (repeats == 3)                                                                                         \
            repeat_##bits(to, from, width / 3, 3);                                                                     \
        else if (repeats == 4)                                                                                         \
            repeat_##bits(to, from, width / 4, 4);                                                                     \
        else if (repeats != 0)                                                                                         \
            repeat_##bits(to, from, width / repeats, repeats);                                                         \
        else                                                                                                           \
            for (size_t i = 0; i < width; i++)                                                                         \
                to[i] = from[columns[i]];                                                                              \
    }
DEFINE_ROW(8, uint8_t, XCVM_LOW_8, XCVM_HIGH_8)
DEFINE_ROW(16, uint16_t, XCVM_LOW_16, XCVM_HIGH_16)
DEFINE_ROW(32, uint32_t, XCVM_LOW_32, XCVM_HIGH_32)
DEFINE_ROW(64, uint64_t, XCVM_LOW_64, XCVM_HIGH_64)

enum { BLOCK_BYTES = 64 };

void xcvm_resize_row(char *to, const char *from, size_t size, size_t width, size_t repeats, const int64_t *columns)
{
    switch (size) {
    case 1:
        gather_row_8((uint8_t *)to, (const uint8_t *)from, width, repeats, columns);
        break;
    case 2:
        gather_row_16((uint16_t *)(void *)to, (const uint16_t *)(const void *)from, width, repeats, columns);
        break;
    case 4:
        gather_row_32((uint32_t *)(void *)to, (const uint32_t *)(const void *)from, width, repeats, columns);
        break;
    case 8:
        gather_row_64((uint64_t *)(void *)to, (const uint64_t *)(const void *)from, width, repeats, columns);
        break;
    case BLOCK_BYTES:
        for (size_t i = 0; i < width; i++)
            memcpy(to + i * BLOCK_BYTES, from + (size_t)columns[i] * BLOCK_BYTES, BLOCK_BYTES);
        break;
    default:
        for (size_t i = 0; i < width; i++)
            memcpy(to + i * size, from + (size_t)columns[i] * size, size);
        break;
    }
}

bool xcvm_resize_double(char *to, const char *from, size_t size, size_t count, size_t rows)
{
    switch (size) {
    case 1:
        double_8((uint8_t *)to, (const uint8_t *)from, count, rows);
        return true;
    case 2:
        double_16((uint16_t *)(void *)to, (const uint16_t *)(const void *)from, count, rows);
        return true;
    case 4:
        double_32((uint32_t *)(void *)to, (const uint32_t *)(const void *)from, count, rows);
        return true;
    case 8:
        double_64((uint64_t *)(void *)to, (const uint64_t *)(const void *)from, count, rows);
        return true;
    default:
        return false;
    }
}
