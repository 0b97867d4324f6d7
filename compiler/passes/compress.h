/* Constants in fewer bits: what the files of the pass share. */
#ifndef XCVM_COMPILER_PASSES_COMPRESS_H
#define XCVM_COMPILER_PASSES_COMPRESS_H

#include "compiler/passes/rewrite.h"

/* Whether no finite number of an f32 constant is beyond the greatest of the type. */
bool xcc_in_range(const xcc_value *v, xcvm_dtype dtype);

typedef struct xcc_compressed_panels xcc_compressed_panels;
/* A PackedGemm with constant weights becomes a BlockQuantizedGemm, as the options ask for; `known` lists what has been
 * rounded. */
xcvm_status xcc_compress_product(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known);
/* Likewise the recurrence weights of a PackedRNN, PackedGRU or PackedLSTM. */
xcvm_status xcc_compress_recurrence(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known);
/* Whether a table that Gather alone reads, along axis 0, can be blocks; it becomes that. */
bool xcc_compresses_table(const xcc_value *v);
xcvm_status xcc_compress_table(xcc_module *m, xcc_value *v);

#endif
