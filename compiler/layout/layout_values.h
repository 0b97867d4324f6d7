/* Tensors in two layouts: the images of a graph that is converted, with their channels in blocks and without. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_VALUES_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_VALUES_H

#include "compiler/layout/layout.h"
#include "ops/conv/blocked.h"

/* The greatest rank of an image with its channels in blocks. */
enum { XCC_BLOCKED_RANK = XCC_IMAGE_RANK + 1 };

/* Blocks of an image's channels. */
static inline int64_t xcc_layout_blocks_of(const xcc_value *v) { return xcvm_blocks_of(v->type.dims[1]); }

/* A value for the image v with its channels in blocks, of the type that it must have; nothing makes it yet. */
xcc_value *xcc_layout_new_blocked(xcc_layout *s, const xcc_value *v);
/* The operand v of node n with its channels in blocks: as it is known in this graph, or made in front of n. */
xcc_value *xcc_layout_blocked(xcc_layout *s, xcc_node *n, xcc_value *v);
/* The plain layout again, in front of n, of `from`, which is v in blocks. */
xcc_value *xcc_layout_unblocked(xcc_node *n, const xcc_value *v, xcc_value *from);
/* Emits an instruction in front of a candidate's node, whose one result is that of the node in blocks; its place in
 * `args` is result_offset. */
xcvm_status xcc_layout_emit(xcc_layout *s, const xcc_layout_candidate *c, xcvm_opcode opcode, void *args,
                            size_t result_offset);

#endif
