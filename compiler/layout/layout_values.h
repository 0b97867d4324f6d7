/* Tensors in two layouts: images of a graph in plain and in blocked form. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_VALUES_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_VALUES_H

#include "compiler/layout/layout.h"
#include "ops/conv/blocked.h"

/* Maximum rank of an image in blocked form. */
enum { XCC_BLOCKED_RANK = XCC_IMAGE_RANK + 1 };

/* Number of blocks of an image's channels. */
static inline int64_t xcc_layout_blocks_of(const xcc_value *v) { return xcvm_blocks_of(v->type.dims[1]); }

/* Creates a value without producer for the blocked form of the image v. */
xcc_value *xcc_layout_new_blocked(xcc_layout *s, const xcc_value *v);
/* Returns operand v of node n in blocked form: the existing one of this graph, or one inserted before n. */
xcc_value *xcc_layout_blocked(xcc_layout *s, xcc_node *n, xcc_value *v);
/* Inserts the conversion of `from`, the blocked form of v, back to the plain layout before n. */
xcc_value *xcc_layout_unblocked(xcc_node *n, const xcc_value *v, xcc_value *from);
/* Emits an instruction before a candidate's node, whose result is the node's result in blocked form. The result field
 * has the offset result_offset in `args`. */
xcvm_status xcc_layout_emit(xcc_layout *s, const xcc_layout_candidate *c, xcvm_opcode opcode, void *args,
                            size_t result_offset);

#endif
