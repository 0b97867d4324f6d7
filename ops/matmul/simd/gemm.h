/* Products of f32 matrices: c = activation(alpha * a * b + start + biases).
 *
 * Elements of b that one step of the inner loop uses together are in panels: XCVM_GEMM_PANEL columns wide (the last as
 * narrow as whole vectors allow), row by row of b, panel by panel. A panel is read from b in place; or packed for the
 * current block, by b's strides or by a callback that computes the rows (convolutions avoid the full matrix this way);
 * or prepacked, for this CPU or, ahead of time, for all. Matrices packed ahead may be f16, bf16 or f24: with few rows
 * of a they are converted while they are read, with many each panel is converted to f32 once. a is read in place.
 *
 * A product of pairs (ops/matmul/pairs.h) works the same way on words: a and b consist of words, and k counts words. */
#ifndef XCVM_OPS_MATMUL_SIMD_GEMM_H
#define XCVM_OPS_MATMUL_SIMD_GEMM_H

#include "ops/util/kernel.h"
#include "ops/elementwise/activation.h"
#include "ops/simd/lanes.h"

/* Rows and vectors of the result that the inner loop keeps in registers. */
#if defined(__AVX512F__)
#define XCVM_GEMM_VECTORS 3
enum { XCVM_GEMM_ROWS = 8, XCVM_GEMM_TALL = 16 };
#elif defined(__aarch64__)
#define XCVM_GEMM_VECTORS 4
enum { XCVM_GEMM_ROWS = 6, XCVM_GEMM_TALL = 12 };
#elif defined(__wasm__)
/* Engines have 15 registers on x86, and clang loads operands early. With 12 sums, some are in memory. */
#define XCVM_GEMM_VECTORS 2
enum { XCVM_GEMM_ROWS = 4, XCVM_GEMM_TALL = 8 };
#else
#define XCVM_GEMM_VECTORS 2
enum { XCVM_GEMM_ROWS = 6, XCVM_GEMM_TALL = 12 };
#endif
enum { XCVM_GEMM_PANEL = XCVM_GEMM_VECTORS * XCVM_LANES };

typedef struct xcvm_gemm xcvm_gemm;

/* Writes rows [k0, k1) of columns [n0, n1) of g's matrix b as panels. Columns that pad the last vector must be finite;
 * their products are unused. */
typedef void (*xcvm_gemm_rows)(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels);

struct xcvm_gemm {
    size_t m, n, k;
    /* a[i][p] is a[i * a_row + p * a_column]; one of the strides is 1. */
    const float *a;
    size_t a_row, a_column;
    /* b[p][j] is b[p * b_row + j * b_column]; one of the strides is 1. */
    const void *b;
    size_t b_row, b_column;
    bool b_packed;         /* b has panels of all k rows */
    bool b_ahead;          /* b is packed as in ops/matmul/packed.h */
    xcvm_dtype b_dtype;    /* f16, bf16 or f24, if b_ahead; otherwise, and if 0, f32 */
    bool pairs;            /* a and b are words of two bf16 numbers: requires b_ahead, a by rows, alpha 1 */
    xcvm_gemm_rows b_rows; /* not NULL: computes b from b and source */
    const void *source;
    /* c[i][j] is c[i * c_row + j * c_column]; one of the strides is 1. */
    float *c;
    size_t c_row, c_column;
    float alpha;
    const float *start;                /* added, with the strides of c, and may be c; NULL: nothing */
    const float *row_bias;             /* m numbers, or NULL */
    const float *column_bias;          /* n numbers, or NULL */
    const xcvm_activation *activation; /* NULL: none */
};

/* Up to this many rows of a, a product with a transposed b is computed transposed: b then is the operand whose rows are
 * read in place, and is not packed. */
enum { XCVM_GEMM_SWAP_ROWS = 96 };
static inline bool xcvm_gemm_swaps(size_t rows) { return rows > 1 && rows <= XCVM_GEMM_SWAP_ROWS; }

/* Converts a product to that of its transposed operands; for f32 that is not packed. */
static inline void xcvm_gemm_swap(xcvm_gemm *g)
{
    const xcvm_gemm straight = *g;
    g->m = straight.n;
    g->n = straight.m;
    g->a = straight.b;
    g->a_row = straight.b_column;
    g->a_column = straight.b_row;
    g->b = straight.a;
    g->b_row = straight.a_column;
    g->b_column = straight.a_row;
    g->c_row = straight.c_column;
    g->c_column = straight.c_row;
    g->row_bias = straight.column_bias;
    g->column_bias = straight.row_bias;
}

/* Products of one shape with different operands: `at` (NULL: one product) sets the pointers of product `index` in a
 * copy of `shape`. */
typedef struct xcvm_gemm_batch {
    xcvm_gemm shape;
    size_t count;
    void (*at)(const void *context, size_t index, xcvm_gemm *g);
    const void *context;
} xcvm_gemm_batch;

/* Bytes of scratch of a run. */
#define xcvm_gemm_scratch XCVM_PER_ISA(xcvm_gemm_scratch)
size_t xcvm_gemm_scratch(const xcvm_gemm_batch *batch, int threads);
/* Computes all products, on the threads of k if that pays off. The order of summation does not depend on the number of
 * threads. */
#define xcvm_gemm_run XCVM_PER_ISA(xcvm_gemm_run)
xcvm_status xcvm_gemm_run(const xcvm_kernel *k, const xcvm_gemm_batch *batch, void *scratch);

/* Bytes of scratch for one thread's xcvm_gemm_part, with g or with fewer rows or columns; only shape and strides
 * matter. */
#define xcvm_gemm_part_scratch XCVM_PER_ISA(xcvm_gemm_part_scratch)
size_t xcvm_gemm_part_scratch(const xcvm_gemm *g);
/* Computes rows [m0, m1) of columns [n0, n1) on the calling thread. If b is packed in either form, n0 must be the start
 * of a panel. `scratch` is 64-byte aligned; if NULL, every tile converts halves to f32 itself for any number of rows.
 */
#define xcvm_gemm_part XCVM_PER_ISA(xcvm_gemm_part)
xcvm_status xcvm_gemm_part(const xcvm_kernel *k, const xcvm_gemm *g, size_t m0, size_t m1, size_t n0, size_t n1,
                           void *scratch);

/* Cost of packing an element of b in a part, in multiply-adds. */
#define xcvm_gemm_packing_cost XCVM_PER_ISA(xcvm_gemm_packing_cost)
double xcvm_gemm_packing_cost(const xcvm_gemm *g);

/* Writes rows [k0, k1) of columns [n0, n1) of g's matrix b as panels. Uses only the fields of g that describe b. */
#define xcvm_gemm_pack XCVM_PER_ISA(xcvm_gemm_pack)
void xcvm_gemm_pack(const xcvm_gemm *g, size_t k0, size_t k1, size_t n0, size_t n1, float *panels);

/* c = a * b for packed b and n a multiple of XCVM_LANES: for small products in the cache. Rows of a and c are a_row and
 * c_row apart. */
#define xcvm_gemm_panels XCVM_PER_ISA(xcvm_gemm_panels)
void xcvm_gemm_panels(size_t m, size_t n, size_t k, const float *a, size_t a_row, const float *b, float *c,
                      size_t c_row);

/* The product of an instruction with packed weights: a matrix of k columns, contiguous rows at `a`, times b, which the
 * caller must set. c, one number per column, and z, of the shape of y, are added unless NULL. */
static inline xcvm_gemm xcvm_gemm_of_rows(const void *a, size_t k, const xcvm_value *c, const xcvm_value *z,
                                          const xcvm_value *y, const xcvm_activation *activation)
{
    const size_t columns = (size_t)y->dims[y->rank - 1];
    return (xcvm_gemm){.m = xcvm_element_count(y) / columns,
                       .n = columns,
                       .k = k,
                       .a = a,
                       .a_row = k,
                       .a_column = 1,
                       .c = y->data,
                       .c_row = columns,
                       .c_column = 1,
                       .alpha = 1.0f,
                       .start = z != NULL ? z->data : NULL,
                       .column_bias = c != NULL ? c->data : NULL,
                       .activation = activation};
}

/* Floats of `n` columns of `k` rows as panels. */
static inline size_t xcvm_gemm_packed_size(size_t k, size_t n) { return k * xcvm_round_up(n, XCVM_LANES); }
/* Width of the panel that begins at column j of n. */
static inline size_t xcvm_gemm_panel_width(size_t j, size_t n)
{
    return n - j >= XCVM_GEMM_PANEL ? XCVM_GEMM_PANEL : xcvm_round_up(n - j, XCVM_LANES);
}
/* Copies a row of n columns, n rounded up to whole vectors, to row p of panels of `depth` rows. */
static inline void xcvm_gemm_place_row(const float *row, size_t n, size_t p, size_t depth, float *panels)
{
    for (size_t j = 0; j < n; j += XCVM_GEMM_PANEL) {
        size_t width = xcvm_gemm_panel_width(j, n);
        float *to = panels + j * depth + p * width;
        for (size_t i = 0; i < width; i += XCVM_LANES)
            xcvm_lanes_store(to + i, xcvm_lanes_load(row + j + i));
    }
}

#endif
