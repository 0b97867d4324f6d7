/* Shared by the files of the pass `layout`: candidates, the nodes that can compute on blocked channels
 * (ops/conv/blocked.h), and their conversion. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_H

#include "compiler/layout/layout_algorithms.h"
#include "compiler/passes/rewrite.h"

typedef enum xcc_layout_kind {
    XCC_LAYOUT_CONV,
    XCC_LAYOUT_TRANSPOSED, /* convolution */
    XCC_LAYOUT_UNARY,      /* element-wise; other operands are scalars */
    XCC_LAYOUT_BINARY,     /* element-wise; operands broadcast over batch and space, not over channels */
    XCC_LAYOUT_POOL,
    XCC_LAYOUT_REDUCE, /* over all spatial axes */
    XCC_LAYOUT_AFFINE, /* BatchNormalization in inference form */
    XCC_LAYOUT_CONCAT, /* of channels */
    XCC_LAYOUT_SPLIT,  /* of channels */
    XCC_LAYOUT_SLICE,
    XCC_LAYOUT_RESIZE /* along spatial axes */
} xcc_layout_kind;

typedef struct xcc_layout_candidate {
    xcc_node *node;
    xcc_layout_kind kind;
    bool chosen;                           /* chosen to compute on blocked channels */
    bool plain_input;                      /* CONV: takes a plain operand directly */
    const xcc_layout_algorithm *algorithm; /* CONV */
    double gain_ns;                        /* estimated gain from blocked channels */
    size_t region;                         /* index of the candidate that represents its region */
} xcc_layout_candidate;

/* A packed filter, shared by convolutions with the same filter. */
typedef struct xcc_layout_packed {
    const xcc_layout_algorithm *algorithm;
    xcc_value *packed;
    struct xcc_layout_packed *next;
} xcc_layout_packed;

/* Data of a value of the graph, by its id. */
typedef struct xcc_layout_value {
    xcc_value *blocked;           /* the same tensor with blocked channels, once it exists */
    double size[XCC_LAYOUT_AXES]; /* sizes of the spatial axes, assumed if open */
    xcc_layout_packed *packed;    /* for a filter, its packed forms by algorithm */
    const xcc_use *first;         /* first use that needs the blocked form, after selection */
    uint32_t accepting, needing;  /* uses by chosen candidates that accept, and that need, the blocked form */
    uint32_t seen;                /* number of the last traversal that visited it */
} xcc_layout_value;

/* A tuning result: the algorithm measured as fastest for a shape (layout_tune.c). */
typedef struct xcc_layout_tuning xcc_layout_tuning;

typedef struct xcc_layout {
    xcc_module *m;
    xcc_graph *g;
    xcc_layout_candidate *candidates; /* in node order; a node's mark is its index + 1 */
    size_t count;
    xcc_layout_value *values;
    size_t value_count;  /* later values have no entry */
    uint32_t traversals; /* number of traversals */
    xcc_layout_tuning *tuned;
} xcc_layout;

/* Maximum axes of an image or a per-channel constant. */
enum { XCC_IMAGE_RANK = 2 + XCC_LAYOUT_AXES };

/* Returns true for f32 [N, C, W], [N, C, H, W] or [N, C, D, H, W] with a known C >= 1. */
bool xcc_layout_is_image(const xcc_value *v);
/* Returns true if all its spatial axes have size 1. */
bool xcc_layout_is_point(const xcc_value *v);
/* Number of spatial axes of an image. */
static inline int xcc_layout_axes(const xcc_value *v) { return v->type.rank - 2; }
static inline xcc_layout_candidate *xcc_layout_candidate_of(const xcc_layout *s, const xcc_node *n)
{
    return n != NULL && n->graph == s->g && n->mark > 0 ? &s->candidates[n->mark - 1] : NULL;
}

/* Classifies a node that can compute on blocked channels. Returns false if it cannot. */
bool xcc_layout_classify(xcc_node *n, xcc_layout_candidate *c);
/* Return true if a chosen candidate accepts input `index`, or produces its results, in blocked form. */
bool xcc_layout_accepts_blocked(const xcc_layout_candidate *c, size_t index);
bool xcc_layout_produces_blocked(const xcc_layout_candidate *c);
/* Records the size of a value produced by n (NULL: an input of its graph). Open sizes are derived from the operands'.
 */
void xcc_layout_assume_size(xcc_layout *s, const xcc_value *y, const xcc_node *n);

/* Selects the algorithm of a convolution, and estimates the gain of candidates. */
void xcc_layout_estimate(xcc_layout *s, xcc_layout_candidate *c);
/* Returns the fastest algorithm on this CPU, by measurement; NULL if there is no choice or it cannot be measured. */
const xcc_layout_algorithm *xcc_layout_fastest(xcc_layout *s, const xcc_layout_shape *c);
/* Estimated time of a layout conversion of a value. */
double xcc_layout_conversion_ns(const xcc_layout *s, const xcc_value *v);

/* Replaces the chosen candidates by instructions on blocked channels, with conversions at the borders. */
xcvm_status xcc_layout_convert(xcc_layout *s);

/* The pass `layout`. */
xcvm_status xcc_pass_layout(xcc_module *m);

#endif
