/* Packing constants for products: what the files of the pass share. */
#ifndef XCVM_COMPILER_PASSES_PREPACK_H
#define XCVM_COMPILER_PASSES_PREPACK_H

#include "compiler/passes/rewrite.h"

/* A new constant of f32, its elements zero and to be written where the result points. NULL: the failure is noted. */
float *xcc_pack_floats(xcc_rewrite *r, int rank, const int64_t *dims, xcc_value **constant);
/* RNN, GRU and LSTM with constant weights (prepack_recurrent.c). */
bool xcc_pack_recurrent(xcc_rewrite *r, xcc_node *n);

#endif
