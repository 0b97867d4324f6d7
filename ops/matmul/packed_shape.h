/* Shape checks shared by products with packed matrices. */
#ifndef XCVM_OPS_MATMUL_PACKED_SHAPE_H
#define XCVM_OPS_MATMUL_PACKED_SHAPE_H

#include "ops/util/shape.h"

/* Checks c, one number per column, and z, which is added (each may be NULL), and sets y: f32 with the shape of a except
 * for the last dimension, which is `columns`. a is not a scalar. */
xcvm_status xcvm_packed_product_shape(const xcvm_inference *t, const xcvm_value *a, int64_t columns,
                                      const xcvm_value *c, const xcvm_value *z, xcvm_value *y);

#endif
