/* Weight compression: definitions shared by the files of the pass. */
#ifndef XCVM_COMPILER_PASSES_COMPRESS_H
#define XCVM_COMPILER_PASSES_COMPRESS_H

#include "compiler/passes/rewrite.h"

/* Returns true if all finite numbers of an f32 constant are in the range of the type. */
bool xcc_in_range(const xcc_value *v, xcvm_dtype dtype);

typedef struct xcc_compressed_panels xcc_compressed_panels;
/* Converts a PackedGemm with constant weights to a BlockQuantizedGemm, by the options. `known` lists rounded constants.
 */
xcvm_status xcc_compress_product(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known);
/* The same for the recurrence weights of a PackedRNN, PackedGRU or PackedLSTM. */
xcvm_status xcc_compress_recurrence(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known);
/* Returns true if a table that only Gather reads, along axis 0, can be block-quantized; and does so. */
bool xcc_compresses_table(const xcc_value *v);
xcvm_status xcc_compress_table(xcc_module *m, xcc_value *v);

#endif
