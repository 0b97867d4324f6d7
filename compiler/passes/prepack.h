/* Prepacking of constants: definitions shared by the files of the pass. */
#ifndef XCVM_COMPILER_PASSES_PREPACK_H
#define XCVM_COMPILER_PASSES_PREPACK_H

#include "compiler/passes/rewrite.h"

/* Makes a zeroed f32 constant, whose elements the caller writes through the result. NULL: the failure is recorded. */
float *xcc_pack_floats(xcc_rewrite *r, int rank, const int64_t *dims, xcc_value **constant);
/* RNN, GRU and LSTM with constant weights (prepack_recurrent.c). */
bool xcc_pack_recurrent(xcc_rewrite *r, xcc_node *n);

#endif
