/* A tile of a product: as many rows and vectors of the result as there are registers for. */
#ifndef XCVM_OPS_VECTOR_GEMM_TILE_H
#define XCVM_OPS_VECTOR_GEMM_TILE_H

#include "ops/matmul/simd/gemm.h"

typedef struct xcvm_gemm_tile {
    size_t depth;
    const float *a;
    size_t a_stride; /* between rows where columns lie side by side, else between columns */
    const void *b;
    xcvm_dtype b_dtype;        /* not f32: where the columns of a lie side by side; 0: f32 */
    size_t b_stride, b_vector; /* between rows, and between vectors of a row */
    /* What is fetched into the caches meanwhile, a line with each row for each vector of whole lines: other memory, in
     * bytes between what goes with two rows and two vectors; NULL: b itself, some rows ahead. */
    const char *fetched;
    size_t fetched_stride, fetched_vector;
    float *c;
    const float *start; /* NULL: zero */
    size_t c_stride;    /* of start, too */
    float alpha;
    const float *row_bias, *column_bias; /* NULL: zero */
    const xcvm_activation *clamp;        /* NULL: none */
} xcvm_gemm_tile;

/* Greatest number of rows for which there is a function, out of `rows` that are left. */
#define xcvm_gemm_tile_rows XCVM_PER_ISA(xcvm_gemm_tile_rows)
size_t xcvm_gemm_tile_rows(size_t rows, size_t vectors);
#define xcvm_gemm_tile_run XCVM_PER_ISA(xcvm_gemm_tile_run)
void xcvm_gemm_tile_run(const xcvm_gemm_tile *t, size_t rows, size_t vectors, bool a_by_column);

#endif
