/* Definitions that the shape rule and the kernel of Col2Im share. */
#ifndef XCVM_OPS_CONV_COL2IM_BLOCKS_H
#define XCVM_OPS_CONV_COL2IM_BLOCKS_H

#include "ops/util/kernel.h"

/* Returns the attributes for `axes` spatial axes, with defaults for empty lists: strides and dilations 1, pads 0. */
xcvm_Col2Im_args xcvm_col2im_with_entries(const xcvm_Col2Im_args *a, size_t axes);

#endif
