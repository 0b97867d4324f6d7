/* The emitter: state of emit_program.c and the other emit files. Its functions fail only with OUT_OF_MEMORY. */
#ifndef XCVM_COMPILER_EMIT_EMITTER_H
#define XCVM_COMPILER_EMIT_EMITTER_H

#include "compiler/emit/emit_code.h"

typedef struct xcc_emitter {
    xcc_code code;
    const xcc_graph **owner; /* by value id: the graph whose instructions free it; NULL: freed elsewhere */
    xcc_value *zero, *one, *yes;
    uint32_t *last; /* by value id: 1 + position of its last use in the owner; 0: none, or freed; XCC_KEPT: its end */
    size_t fused;   /* the last KernelCall instruction, and its attribute */
    int64_t *fused_results;
} xcc_emitter;

#define XCC_KEPT UINT32_MAX

/* Emits In, Load, Out or Store, of the value in `operand` or to the register `result`. */
xcvm_status xcc_emit_named(xcc_emitter *e, xcvm_opcode opcode, const char *name, int32_t operand, int32_t result,
                           const xcc_value *v);
xcvm_status xcc_emit_free(xcc_emitter *e, int32_t operand);
xcvm_status xcc_emit_identity(xcc_emitter *e, const xcc_node *n, int32_t from, int32_t to, const xcc_value *v);

/* Emits a jump to `to`, or to a target set later by xcc_emit_land. It is taken unless `cond` is true; always if cond is
 * 0. */
xcvm_status xcc_emit_jump(xcc_emitter *e, const xcc_node *n, int32_t cond, size_t to);
/* Makes the next instruction the target of the jump at `jump`. */
void xcc_emit_land(xcc_emitter *e, size_t jump);
/* Index of the next instruction. */
size_t xcc_emit_position(const xcc_emitter *e);

/* Returns true if instructions of `g` free the value. */
bool xcc_emit_owned(const xcc_emitter *e, const xcc_graph *g, const xcc_value *v);
xcvm_status xcc_emit_free_value(xcc_emitter *e, const xcc_value *v);
/* Frees the value if `n` is its last use. */
xcvm_status xcc_emit_free_if_last(xcc_emitter *e, const xcc_node *n, const xcc_value *v);
/* Frees the outputs of a graph after their last use. */
xcvm_status xcc_emit_free_outputs(xcc_emitter *e, const xcc_graph *g);
/* Fetches an input of the program at its first use. */
xcvm_status xcc_emit_fetch(xcc_emitter *e, const xcc_value *v);

/* Emits the instruction of a node, whose operands must have been fetched. */
xcvm_status xcc_emit_instruction(xcc_emitter *e, const xcc_node *n);
/* Emits a node of a group, with the KernelCall instruction if it is the first. */
xcvm_status xcc_emit_kernel_call(xcc_emitter *e, const xcc_node *n);
/* Emits the kernel library of the groups, if there are any. */
xcvm_status xcc_emit_library(xcc_emitter *e);
xcvm_status xcc_emit_if(xcc_emitter *e, const xcc_node *n);
xcvm_status xcc_emit_loop(xcc_emitter *e, const xcc_node *n);
/* `inherited` are values set before, which this graph's instructions free. Its outputs stay set. */
xcvm_status xcc_emit_graph(xcc_emitter *e, xcc_graph *g, xcc_value *const *inherited, size_t inherited_count);

/* Verifies a program as the loader does. Fails with INTERNAL if the loader would refuse it. */
xcvm_status xcc_emit_verify(xcc_module *m, const xcvm_image *image);

#endif
