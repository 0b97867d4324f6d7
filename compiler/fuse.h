/* Fusion: groups of element-wise nodes become one function each of a kernel library that is made for the program. */
#ifndef XCVM_COMPILER_FUSE_H
#define XCVM_COMPILER_FUSE_H

#include "compiler/graph.h"
#include "vm/program.h"

#include <stdio.h>

/* A group: nodes that stand next to each other, whose results all have the same known shape of f32. */
struct xcc_fusion {
    uint32_t kernel; /* its number in the library */
    xcc_node **nodes;
    size_t node_count;
    xcc_value *xs[XCVM_FUSED_OPERANDS]; /* what it reads from outside, constants of one element apart */
    size_t x_count;
    size_t results[XCVM_FUSED_OPERANDS]; /* the nodes whose results are used outside, ascending */
    size_t result_count;
    xcc_fusion *next; /* of the module's */
};

/* How a node's element comes from those of its operands. */
typedef struct xcc_map {
    const char *function;   /* of ops/vector/maps.h, behind "xcvm_map_" */
    xcc_value *operands[2]; /* the second NULL: of one operand, with alpha and beta */
    double alpha, beta;
    uint64_t cost; /* flops an element */
} xcc_map;
/* False for a node that is no such map. */
bool xcc_map_of(const xcc_node *n, xcc_map *map);

/* The value of a constant of one f32 element. */
static inline bool xcc_is_literal(const xcc_value *v)
{
    return xcc_is_constant(v) && xcvm_element_count(&v->type) == 1;
}

/* Writes the library's source, one function for each of the module's groups (fuse_source.c). False if `file` failed. */
bool xcc_fuse_write(const xcc_module *m, FILE *file);

/* Compiles the groups into the file options->fuse (fuse_library.c), whose hash goes to m->library. Does nothing without
 * groups. A failure leaves no file behind. */
xcvm_status xcc_fuse_build(xcc_module *m);

#endif
