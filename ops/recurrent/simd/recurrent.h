/* Recurrent networks whose input was already multiplied: shared by RNN, GRU and LSTM and their packed forms. Gates and
 * units are in the order of ops/matmul/packed.h. */
#ifndef XCVM_OPS_RECURRENT_SIMD_RECURRENT_H
#define XCVM_OPS_RECURRENT_SIMD_RECURRENT_H

#include "ops/util/kernel.h"
#include "ops/matmul/packed.h"
#include "ops/matmul/simd/quantized_blocks_row.h"
#include "ops/quantize/simd/dynamic_rows.h"
#include "ops/recurrent/recurrent_functions.h"
#include "ops/recurrent/recurrent_weights.h"

enum { XCVM_RECURRENT_GATES = 4 };

typedef struct xcvm_recurrent {
    xcvm_opcode op; /* RNN, GRU or LSTM */
    const xcvm_value *lengths, *initial_h, *initial_c, *p;
    xcvm_value *y, *y_h, *y_c;
    size_t steps, batch, hidden, gates, directions;
    int direction;
    bool batch_first, linear_before_reset, input_forget;
    float clip;
    xcvm_recurrent_function f[XCVM_RECURRENT_FUNCTIONS]; /* for each direction in turn */

    const float *projected;         /* for each row of x, a row of all directions' gates with biases added */
    xcvm_recurrent_weights weights; /* PANELS, BLOCKS or BYTES: which member has the weights */
    const void *panels;
    xcvm_dtype panel_dtype; /* f16, bf16 or f24; otherwise, and if 0, f32 */
    xcvm_qblocks_matrix blocks;
    xcvm_dynamic_panels bytes;
    bool two_terms;          /* with BYTES: a state is the sum of two rows of bytes */
    const float *reset_bias; /* directions * hidden, added within the reset of GRU; NULL: zero */
} xcvm_recurrent;

/* Floats of one direction's gates, and of its units, in packed form. */
static inline size_t xcvm_recurrent_width(const xcvm_recurrent *n)
{
    return xcvm_packed_panels(n->hidden) * n->gates * XCVM_PACKED_COLUMNS;
}
static inline size_t xcvm_recurrent_units(const xcvm_recurrent *n)
{
    return xcvm_packed_panels(n->hidden) * XCVM_PACKED_COLUMNS;
}

/* Computes the bytes of scratch of a run. Returns false on overflow. */
#define xcvm_recurrent_scratch XCVM_PER_ISA(xcvm_recurrent_scratch)
bool xcvm_recurrent_scratch(const xcvm_recurrent *n, size_t *bytes);
/* Runs all steps. Lengths must have been checked. `scratch` is 64-byte aligned. */
#define xcvm_recurrent_run XCVM_PER_ISA(xcvm_recurrent_run)
xcvm_status xcvm_recurrent_run(xcvm_kernel *k, const xcvm_recurrent *n, void *scratch);

/* Data of a cell: XCVM_PACKED_COLUMNS units of one direction and batch entry. */
typedef struct xcvm_recurrent_cell {
    float *sums;    /* of each gate in turn */
    const float *x; /* GRU with reset after the product: the candidate's input besides the product */
    const float *h;
    float *next_h, *c;
    const float *p; /* NULL: no peepholes; else three rows, p_stride apart */
    size_t p_stride;
    float *update; /* GRU with reset before the product: passed from the first phase to the second */
    float *reset;  /* likewise; the reset state */
} xcvm_recurrent_cell;

/* Computes the gates of a cell with the functions `f` of its direction. */
#define xcvm_recurrent_cell_run XCVM_PER_ISA(xcvm_recurrent_cell_run)
void xcvm_recurrent_cell_run(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c);
/* For GRU with reset before the product: computes what precedes the product. */
#define xcvm_recurrent_reset_run XCVM_PER_ISA(xcvm_recurrent_reset_run)
void xcvm_recurrent_reset_run(const xcvm_recurrent *n, const xcvm_recurrent_function *f, const xcvm_recurrent_cell *c);

#endif
