/* Products of f64 and integers. */
#include "ops/matmul/product_shape.h"

#include "ops/simd/lanes.h"
#include "ops/simd/math.h"

/* Rows and vectors of the result that the inner loop keeps in registers. */
enum { TILE_ROWS = XCVM_LANES == 16 ? 8 : 4, TILE_VECTORS = 3 };

#define XCVM_ELEMENT double
#include "ops/matmul/simd/product_tile.h"
#define XCVM_ELEMENT uint32_t
#include "ops/matmul/simd/product_tile.h"
#define XCVM_ELEMENT uint64_t
#include "ops/matmul/simd/product_tile.h"

/* Sums modulo the width of `type`, in a wider unsigned type, because products overflow the type that C promotes to. */
#define NARROW_PRODUCT(type)                                                                                           \
    static xcvm_status multiply_##type(const xcvm_product_piece *p)                                                    \
    {                                                                                                                  \
        const type *a = p->a, *b = p->b;                                                                               \
        type *y = p->y;                                                                                                \
        xcvm_poller poller = xcvm_poller_of(p->kernel);                                                                \
        for (size_t i = 0; i < p->m; i++, y += p->n) {                                                                 \
            if (!p->add)                                                                                               \
                memset(y, 0, p->n * sizeof *y);                                                                        \
            for (size_t q = 0; q < p->k; q++) {                                                                        \
                XCVM_TRY(xcvm_poll_after(&poller, p->n));                                                              \
                const uint32_t x = a[i * p->a_row + q * p->a_column];                                                  \
                const type *row = b + q * p->b_row;                                                                    \
                for (size_t j = 0; j < p->n; j++)                                                                      \
                    y[j] = (type)(y[j] + x * row[j * p->b_column]);                                                    \
            }                                                                                                          \
        }                                                                                                              \
        return XCVM_OK;                                                                                                \
    }
NARROW_PRODUCT(uint8_t)
NARROW_PRODUCT(uint16_t)

xcvm_status xcvm_product_multiply(xcvm_dtype dtype, const xcvm_product_piece *piece)
{
    if (dtype == XCVM_F64)
        return multiply_double(piece);
    switch (xcvm_dtype_size(dtype)) {
    case 1:
        return multiply_uint8_t(piece);
    case 2:
        return multiply_uint16_t(piece);
    case 4:
        return multiply_uint32_t(piece);
    default:
        return multiply_uint64_t(piece);
    }
}
