/* Kernel libraries: groups of nodes become functions in a shared object that is compiled for the program.
 *
 * A group iterates over one shape, the domain. Its values have this shape, or one element per row if it reduces the
 * trailing axes. A function computes row by row, so that a row stays in the cache. groups.c finds groups,
 * group_members.c defines possible members, group_cost.c estimates the benefit, group_steps.c lists the computation,
 * group_loops.c arranges it in loops, c_source.c writes the C code, and build.c compiles it. */
#ifndef XCVM_COMPILER_KERNEL_LIBRARY_KERNEL_LIBRARY_H
#define XCVM_COMPILER_KERNEL_LIBRARY_KERNEL_LIBRARY_H

#include "compiler/ir/graph.h"
#include "vm/program.h"

#include <stdio.h>

/* ---- Members ---- */

/* A map: how an element of a node comes from those of its operands. */
typedef struct xcc_map {
    const char *function;   /* of ops/elementwise/simd/maps.h, without the prefix "xcvm_map_" */
    xcc_value *operands[2]; /* the second NULL: of one operand, with alpha and beta */
    double alpha, beta;
    uint64_t cost; /* flops an element */
} xcc_map;
/* False for a node that is no such map. */
bool xcc_map_of(const xcc_node *n, xcc_map *map);

typedef enum xcc_member_kind {
    XCC_MEMBER_MAP,
    XCC_MEMBER_COPY,   /* the operand's elements, broadcast or seen with another shape of rows */
    XCC_MEMBER_MOVE,   /* Transpose of an input of the group */
    XCC_MEMBER_REDUCE, /* a reduction */
    XCC_MEMBER_SOFTMAX,
    XCC_MEMBER_LOG_SOFTMAX,
    XCC_MEMBER_LAYER_NORM,
    XCC_MEMBER_RMS_NORM
} xcc_member_kind;

/* The form of a value in a group. */
typedef enum xcc_form {
    XCC_FORM_FULL,   /* of the domain's shape, or broadcast to it */
    XCC_FORM_ROW,    /* the reduced axes have size 1 */
    XCC_FORM_DROPPED /* the reduced axes are left out */
} xcc_form;

typedef struct xcc_member {
    xcc_member_kind kind;
    xcc_form form; /* of its result */
    int split;     /* it reduces the axes from this one on; -1: it reduces none */
    xcc_map map;   /* of XCC_MEMBER_MAP */
    xcc_value *operands[3];
    size_t operand_count;
} xcc_member;

/* Kind of the node in any group; false: it cannot be a member. */
bool xcc_member_classify(const xcc_node *n, xcc_member *member);
/* Returns the domain of a group that begins with `n`; NULL if there is none. `*split` as in xcc_member. */
const xcvm_value *xcc_member_domain(const xcc_node *n, int *split);
/* Returns true if a node fits a group with domain `shape` that reduces the axes from `split` on (-1: not yet known). */
bool xcc_member_of(const xcc_node *n, const xcvm_value *shape, int split, xcc_member *member);
xcc_form xcc_form_of(const xcvm_value *v, const xcvm_value *shape);
/* The elements of `shape` before axis `split`, and from there on. */
int64_t xcc_rows(const xcvm_value *shape, int split);
int64_t xcc_row_length(const xcvm_value *shape, int split);

/* The value of a constant of one f32 element. */
static inline bool xcc_is_literal(const xcc_value *v)
{
    return xcc_is_constant(v) && xcvm_element_count(&v->type) == 1;
}

/* ---- Groups ---- */

/* xcc_node.mark while a group grows. */
enum { XCC_MARK_NONE, XCC_MARK_GROUPED, XCC_MARK_PASSED };

typedef struct xcc_loops xcc_loops;

/* A group that becomes one function. */
typedef struct xcc_kernel_group {
    xcc_group group;         /* its number is the function's number in the library; xs has at most XCVM_FUSED_OPERANDS
                              * entries */
    const xcvm_value *shape; /* the domain, known */
    int split;               /* -1: it reduces nothing */
    struct {
        int rank;              /* of the axes that it is broadcast to: the domain's or, dropped, those before split */
        const xcvm_ints *perm; /* of a Transpose that it is read through; else NULL */
    } reads[XCVM_FUSED_OPERANDS];
    size_t results[XCVM_FUSED_OPERANDS]; /* the nodes whose results are used outside, ascending */
    size_t result_count;
    xcc_loops *loops; /* NULL until the library is built */
} xcc_kernel_group;

/* All groups of a module are such ones. */
static inline xcc_kernel_group *xcc_fusion_of(xcc_group *group) { return (xcc_kernel_group *)(void *)group; }

/* Stride, in elements, of what operand `x` is read as along an axis of the domain. */
int64_t xcc_read_stride(const xcc_kernel_group *f, size_t x, int axis);
/* Returns true if a complete group is worth a function. */
bool xcc_kernel_group_pays(const xcc_kernel_group *f);
/* Returns true if reductions of rows of that length are worth being part of a group. */
bool xcc_reduce_pays(const xcvm_value *shape, int split);

/* ---- Steps ---- */

typedef enum xcc_source { XCC_SOURCE_STEP, XCC_SOURCE_OPERAND, XCC_SOURCE_NUMBER } xcc_source;

typedef struct xcc_reading {
    xcc_source source;
    uint32_t index; /* of a step or of xs */
    double number;
} xcc_reading;

typedef enum xcc_reduce_op { XCC_REDUCE_NONE, XCC_REDUCE_SUM, XCC_REDUCE_MAX, XCC_REDUCE_MIN } xcc_reduce_op;

enum { XCC_STEP_OPERANDS = 3, XCC_NO_RESULT = -1 };

/* One value of a function. */
typedef struct xcc_step {
    const char *function; /* without the prefix "xcvm_map_"; of XCC_REDUCE_NONE */
    xcc_reduce_op reduce; /* of its operand over a row */
    bool row;             /* one element for each row */
    xcc_reading operands[XCC_STEP_OPERANDS];
    size_t operand_count;
    uint32_t cost; /* cost in additions per element */
    const xcc_node *node;
    /* In group_loops.c: */
    uint32_t loop;   /* in which it is computed; of a row's element, before which it is */
    uint32_t needed; /* the last loop that reads it */
    int result;      /* of the group, whose memory it is written to; XCC_NO_RESULT */
    bool kept;       /* in a buffer of one row, or in the result's memory, for later loops */
    bool wanted;     /* in the loop at hand */
} xcc_step;

/* The loop in which a step reads its operands. */
static inline uint32_t xcc_step_reads_in(const xcc_step *step)
{
    return step->reduce != XCC_REDUCE_NONE ? step->loop - 1 : step->loop;
}

/* The steps of a group, and the loops that they are computed in. */
struct xcc_loops {
    const xcc_kernel_group *f;
    xcc_step *steps;
    size_t step_count;
    xcc_reading *readings;                               /* of each node's result */
    int rank;                                            /* number of merged axes, at least 1; the last one is the
                                                          * row */
    int64_t dims[XCVM_MAX_RANK];                         /* merged */
    int64_t strides[XCVM_FUSED_OPERANDS][XCVM_MAX_RANK]; /* of xs */
    uint32_t loop_count;
    uint64_t in_place; /* bit x: the last result may have the address of operand x */
};

static inline int64_t xcc_loops_row(const xcc_loops *l) { return l->dims[l->rank - 1]; }

/* Fills in steps and readings. */
xcvm_status xcc_kernel_group_steps(xcc_module *m, const xcc_kernel_group *f, xcc_loops *l);
xcvm_status xcc_kernel_group_loops(xcc_module *m, xcc_kernel_group *f);
/* Marks as wanted the steps that loop number `loop` computes or reads. */
void xcc_loops_want(xcc_loops *l, uint32_t loop);
/* Returns true if operand x has one element for a whole row. */
static inline bool xcc_reads_row(const xcc_loops *l, size_t x) { return l->strides[x][l->rank - 1] == 0; }
static inline bool xcc_is_per_row(const xcc_loops *l, const xcc_reading *r)
{
    return r->source == XCC_SOURCE_NUMBER || (r->source == XCC_SOURCE_STEP && l->steps[r->index].row) ||
           (r->source == XCC_SOURCE_OPERAND && xcc_reads_row(l, r->index));
}

/* ---- The library ---- */

/* Which text xcc_codegen_write writes: all of the library's source, or one of `count` parts of it that are compiled
 * side by side; the last part has the table. */
typedef struct xcc_source_part {
    uint32_t number, count;
} xcc_source_part;
/* False if `file` failed. */
bool xcc_codegen_write(const xcc_module *m, xcc_source_part part, FILE *file);

/* Compiles the groups to the file that options->kernel_library names (build.c), and stores its hash in m->library. Does
 * nothing without groups. A failure leaves no file except options->keep_c. */
xcvm_status xcc_codegen_build(xcc_module *m);

/* The pass `codegen`. */
xcvm_status xcc_pass_codegen(xcc_module *m);

#endif
