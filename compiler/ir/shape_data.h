/* Shape data: elements of small integer tensors with which models compute shapes, derived from dimensions. */
#ifndef XCVM_COMPILER_IR_SHAPE_DATA_H
#define XCVM_COMPILER_IR_SHAPE_DATA_H

#include "compiler/ir/graph.h"

typedef struct xcc_shape_datum {
    /* XCC_SIZE_DIMENSION is an unknown dimension, which is not negative. */
    enum { XCC_SIZE_UNKNOWN, XCC_SIZE_DIMENSION, XCC_SIZE_NUMBER, XCC_SIZE_SYMBOL } kind;
    int64_t value; /* the number, or the symbol as a dimension */
} xcc_shape_datum;

enum { XCC_SHAPE_DATA_LIMIT = 16 };

/* Returns the elements of a tensor of rank 0 or 1 and their number, or -1 if unknown. */
int xcc_shape_data(const xcc_value *v, xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT]);

#endif
