/* The emitter: the program while emit_program.c and its neighbors write it. What returns a status fails with
 * OUT_OF_MEMORY alone. */
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

/* In, Load, Out or Store, of the value in `operand` or for the register `result`. */
xcvm_status xcc_emit_named(xcc_emitter *e, xcvm_opcode opcode, const char *name, int32_t operand, int32_t result,
                           const xcc_value *v);
xcvm_status xcc_emit_free(xcc_emitter *e, int32_t operand);
xcvm_status xcc_emit_identity(xcc_emitter *e, const xcc_node *n, int32_t from, int32_t to, const xcc_value *v);

/* A jump whose target is filled in later by xcc_emit_land, or known already: to `to` unless `cond` is true; always, if
 * cond is 0. */
xcvm_status xcc_emit_jump(xcc_emitter *e, const xcc_node *n, int32_t cond, size_t to);
/* Lets the jump at `jump` go to where the next instruction will be. */
void xcc_emit_land(xcc_emitter *e, size_t jump);
/* Where the next instruction will be. */
size_t xcc_emit_position(const xcc_emitter *e);

/* Whether instructions of `g` free the value. */
bool xcc_emit_owned(const xcc_emitter *e, const xcc_graph *g, const xcc_value *v);
xcvm_status xcc_emit_free_value(xcc_emitter *e, const xcc_value *v);
/* Frees the value if `n` is where it is needed last. */
xcvm_status xcc_emit_free_if_last(xcc_emitter *e, const xcc_node *n, const xcc_value *v);
/* Frees what a graph gave as its outputs, once it is no longer needed. */
xcvm_status xcc_emit_free_outputs(xcc_emitter *e, const xcc_graph *g);
/* The program's inputs are fetched when they are first needed. */
xcvm_status xcc_emit_fetch(xcc_emitter *e, const xcc_value *v);

/* The instruction of a node, its operands having been fetched. */
xcvm_status xcc_emit_instruction(xcc_emitter *e, const xcc_node *n);
/* A node of a group, with the KernelCall instruction if it is the first. */
xcvm_status xcc_emit_fused(xcc_emitter *e, const xcc_node *n);
/* The kernel library that the groups are in, if there are any. */
xcvm_status xcc_emit_library(xcc_emitter *e);
xcvm_status xcc_emit_if(xcc_emitter *e, const xcc_node *n);
xcvm_status xcc_emit_loop(xcc_emitter *e, const xcc_node *n);
/* `inherited` are values set before, which this graph's instructions free as its own. Its outputs stay set. */
xcvm_status xcc_emit_graph(xcc_emitter *e, xcc_graph *g, xcc_value *const *inherited, size_t inherited_count);

/* Verifies a program as the loader does. Fails with INTERNAL if the loader would refuse it. */
xcvm_status xcc_emit_verify(xcc_module *m, const xcvm_image *image);

#endif
