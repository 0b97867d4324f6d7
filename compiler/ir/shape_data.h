/* Small integer tensors that models compute shapes with, element by element, as far as they follow from dimensions. */
#ifndef XCVM_COMPILER_SIZES_H
#define XCVM_COMPILER_SIZES_H

#include "compiler/ir/graph.h"

typedef struct xcc_size {
    enum { XCC_SIZE_UNKNOWN, XCC_SIZE_NUMBER, XCC_SIZE_SYMBOL } kind;
    int64_t value; /* the number, or the symbol as a dimension */
} xcc_size;

enum { XCC_SIZES_LIMIT = 16 };

/* The elements of a tensor of rank 0 or 1; how many there are, or -1 if it is not known. */
int xcc_sizes(const xcc_value *v, xcc_size sizes[XCC_SIZES_LIMIT]);

#endif
