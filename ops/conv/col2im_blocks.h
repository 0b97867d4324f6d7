/* Col2Im: what its rule and its kernel have in common. */
#ifndef XCVM_OPS_CONV_COL2IM_BLOCKS_H
#define XCVM_OPS_CONV_COL2IM_BLOCKS_H

#include "ops/util/kernel.h"

/* The attributes of `axes` spatial axes, those without entries filled in: strides and dilations of 1, pads of 0. */
xcvm_Col2Im_args xcvm_col2im_with_entries(const xcvm_Col2Im_args *a, size_t axes);

#endif
