/* What the files of the pass `block` share: candidates, the nodes that could compute on blocked channels
 * (ops/conv/blocked.h), and what becomes of them. */
#ifndef XCVM_COMPILER_BLOCK_H
#define XCVM_COMPILER_BLOCK_H

#include "compiler/layout/layout_algorithms.h"
#include "compiler/passes/rewrite.h"

typedef enum xcc_block_kind {
    XCC_BLOCK_CONV,
    XCC_BLOCK_TRANSPOSED, /* convolution */
    XCC_BLOCK_UNARY,      /* element-wise; further operands are numbers */
    XCC_BLOCK_BINARY,     /* element-wise; operands are broadcast over batch and space, not over channels */
    XCC_BLOCK_POOL,
    XCC_BLOCK_REDUCE, /* over all spatial axes */
    XCC_BLOCK_AFFINE, /* BatchNormalization in inference */
    XCC_BLOCK_CONCAT, /* of channels */
    XCC_BLOCK_SPLIT,  /* of channels */
    XCC_BLOCK_SLICE,
    XCC_BLOCK_RESIZE /* along spatial axes */
} xcc_block_kind;

typedef struct xcc_block_candidate {
    xcc_node *node;
    xcc_block_kind kind;
    bool chosen;              /* to compute on blocked channels */
    bool plain_input;         /* CONV: takes an operand that is not blocked as it is */
    const xcc_block_way *way; /* CONV */
    double gain_ns;           /* estimated, of computing on blocked channels */
    size_t island;            /* index of a candidate in the same island, by which it is known */
} xcc_block_candidate;

/* A filter that was packed, for others that use the same. */
typedef struct xcc_block_packed {
    const xcc_block_way *way;
    xcc_value *packed;
    struct xcc_block_packed *next;
} xcc_block_packed;

/* Of a value of the graph, by id. */
typedef struct xcc_block_value {
    xcc_value *blocked;          /* the same tensor with blocked channels, once there is one */
    double size[XCC_BLOCK_AXES]; /* of the spatial axes, assumed where they are open */
    xcc_block_packed *packed;    /* a filter, in the ways that it was packed so far */
    const xcc_use *first;        /* that needs it in blocks, once all is chosen */
    uint32_t takers, needing;    /* its uses by chosen candidates that take it in blocks, and that need it so */
    uint32_t seen;               /* by which walk over operands */
} xcc_block_value;

/* What was measured for a shape (layout_tune.c). */
typedef struct xcc_block_tuned xcc_block_tuned;

typedef struct xcc_blocker {
    xcc_module *m;
    xcc_graph *g;
    xcc_block_candidate *candidates; /* in the order of their nodes, whose mark is their index + 1 */
    size_t count;
    xcc_block_value *values;
    size_t value_count; /* values made later have no entry */
    uint32_t walks;     /* over operands so far */
    xcc_block_tuned *tuned;
} xcc_blocker;

/* The most axes that a constant for each channel, or an image, has. */
enum { XCC_IMAGE_RANK = 2 + XCC_BLOCK_AXES };

/* f32 [N, C, W], [N, C, H, W] or [N, C, D, H, W] with a known C of at least 1. */
bool xcc_block_is_image(const xcc_value *v);
/* Whether all its spatial axes have one position. */
bool xcc_block_is_point(const xcc_value *v);
/* How many spatial axes an image has. */
static inline int xcc_block_axes(const xcc_value *v) { return v->type.rank - 2; }
static inline xcc_block_candidate *xcc_block_candidate_of(const xcc_blocker *s, const xcc_node *n)
{
    return n != NULL && n->graph == s->g && n->mark > 0 ? &s->candidates[n->mark - 1] : NULL;
}

/* Describes a node that can compute on blocked channels; false if it cannot. */
bool xcc_block_describe(xcc_node *n, xcc_block_candidate *c);
/* Whether a candidate that is chosen takes its input `index` in blocks, and gives its results so. */
bool xcc_block_takes(const xcc_block_candidate *c, size_t index);
bool xcc_block_gives(const xcc_block_candidate *c);
/* Notes the size of a value that n gives (NULL: an input of its graph), assumed from the operands' where it is open. */
void xcc_block_assume_size(xcc_blocker *s, const xcc_value *y, const xcc_node *n);

/* Chooses how a convolution would be computed, and estimates what candidates gain. */
void xcc_block_estimate(xcc_blocker *s, xcc_block_candidate *c);
/* The way that is the fastest on this machine, by measurement; NULL if there is no choice, or it cannot be measured. */
const xcc_block_way *xcc_block_fastest(xcc_blocker *s, const xcc_block_shape *c);
/* Estimated time for changing the layout of a value. */
double xcc_block_conversion_ns(const xcc_blocker *s, const xcc_value *v);

/* Puts instructions on blocked channels in the place of the chosen candidates, with conversions at the borders. */
xcvm_status xcc_block_convert(xcc_blocker *s);

#endif
