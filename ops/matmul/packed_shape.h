/* What the shape rules of products with packed matrices have in common. */
#ifndef XCVM_OPS_MATMUL_PACKED_SHAPE_H
#define XCVM_OPS_MATMUL_PACKED_SHAPE_H

#include "ops/util/shape.h"

/* Checks a number for each column, c, and what is added, z, either NULL if absent, and sets y: f32, of the shape of a
 * but for the last dimension, which is `columns`. a is no scalar. */
xcvm_status xcvm_packed_product_shape(const xcvm_inference *t, const xcvm_value *a, int64_t columns,
                                      const xcvm_value *c, const xcvm_value *z, xcvm_value *y);

#endif
