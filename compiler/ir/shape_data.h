/* Shape data: small integer tensors that models compute shapes with, element by element, as far as they follow from
 * dimensions. */
#ifndef XCVM_COMPILER_IR_SHAPE_DATA_H
#define XCVM_COMPILER_IR_SHAPE_DATA_H

#include "compiler/ir/graph.h"

typedef struct xcc_shape_datum {
    /* Of what is not known at all, some are dimensions all the same, and so not below 0. */
    enum { XCC_SIZE_UNKNOWN, XCC_SIZE_DIMENSION, XCC_SIZE_NUMBER, XCC_SIZE_SYMBOL } kind;
    int64_t value; /* the number, or the symbol as a dimension */
} xcc_shape_datum;

enum { XCC_SHAPE_DATA_LIMIT = 16 };

/* The elements of a tensor of rank 0 or 1; how many there are, or -1 if it is not known. */
int xcc_shape_data(const xcc_value *v, xcc_shape_datum sizes[XCC_SHAPE_DATA_LIMIT]);

#endif
