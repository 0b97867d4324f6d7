/* What the files of the pass `layout` have in common: candidates, the nodes that could compute on blocked channels
 * (ops/conv/blocked.h), and what becomes of them. */
#ifndef XCVM_COMPILER_LAYOUT_LAYOUT_H
#define XCVM_COMPILER_LAYOUT_LAYOUT_H

#include "compiler/layout/layout_algorithms.h"
#include "compiler/passes/rewrite.h"

typedef enum xcc_layout_kind {
    XCC_LAYOUT_CONV,
    XCC_LAYOUT_TRANSPOSED, /* convolution */
    XCC_LAYOUT_UNARY,      /* element-wise; further operands are numbers */
    XCC_LAYOUT_BINARY,     /* element-wise; operands are broadcast over batch and space, not over channels */
    XCC_LAYOUT_POOL,
    XCC_LAYOUT_REDUCE, /* over all spatial axes */
    XCC_LAYOUT_AFFINE, /* BatchNormalization in inference */
    XCC_LAYOUT_CONCAT, /* of channels */
    XCC_LAYOUT_SPLIT,  /* of channels */
    XCC_LAYOUT_SLICE,
    XCC_LAYOUT_RESIZE /* along spatial axes */
} xcc_layout_kind;

typedef struct xcc_layout_candidate {
    xcc_node *node;
    xcc_layout_kind kind;
    bool chosen;                           /* to compute on blocked channels */
    bool plain_input;                      /* CONV: takes an operand that is not blocked as it is */
    const xcc_layout_algorithm *algorithm; /* CONV */
    double gain_ns;                        /* estimated, of computing on blocked channels */
    size_t region;                         /* index of a candidate in the same region, by which it is known */
} xcc_layout_candidate;

/* A filter that was packed, for others that use the same. */
typedef struct xcc_layout_packed {
    const xcc_layout_algorithm *algorithm;
    xcc_value *packed;
    struct xcc_layout_packed *next;
} xcc_layout_packed;

/* The state of a value of the graph, by its id. */
typedef struct xcc_layout_value {
    xcc_value *blocked;           /* the same tensor with blocked channels, once there is one */
    double size[XCC_LAYOUT_AXES]; /* of the spatial axes, assumed where they are open */
    xcc_layout_packed *packed;    /* a filter, as it was packed so far, for each algorithm */
    const xcc_use *first;         /* that needs it in blocks, once all is chosen */
    uint32_t accepting, needing;  /* its uses by chosen candidates that take it in blocks, and that need it so */
    uint32_t seen;                /* by which walk over operands */
} xcc_layout_value;

/* A tuning: the algorithm that was measured to be the fastest for a shape (layout_tune.c). */
typedef struct xcc_layout_tuning xcc_layout_tuning;

typedef struct xcc_layout {
    xcc_module *m;
    xcc_graph *g;
    xcc_layout_candidate *candidates; /* in the order of their nodes, whose mark is their index + 1 */
    size_t count;
    xcc_layout_value *values;
    size_t value_count; /* values made later have no entry */
    uint32_t walks;     /* over operands so far */
    xcc_layout_tuning *tuned;
} xcc_layout;

/* The most axes that a constant for each channel, or an image, has. */
enum { XCC_IMAGE_RANK = 2 + XCC_LAYOUT_AXES };

/* f32 [N, C, W], [N, C, H, W] or [N, C, D, H, W] with a known C of at least 1. */
bool xcc_layout_is_image(const xcc_value *v);
/* Whether all its spatial axes have one position. */
bool xcc_layout_is_point(const xcc_value *v);
/* The number of spatial axes of an image. */
static inline int xcc_layout_axes(const xcc_value *v) { return v->type.rank - 2; }
static inline xcc_layout_candidate *xcc_layout_candidate_of(const xcc_layout *s, const xcc_node *n)
{
    return n != NULL && n->graph == s->g && n->mark > 0 ? &s->candidates[n->mark - 1] : NULL;
}

/* Classifies a node that can compute on blocked channels; false if it cannot. */
bool xcc_layout_classify(xcc_node *n, xcc_layout_candidate *c);
/* Whether a chosen candidate accepts its input `index` with blocked channels, and produces its results so. */
bool xcc_layout_accepts_blocked(const xcc_layout_candidate *c, size_t index);
bool xcc_layout_produces_blocked(const xcc_layout_candidate *c);
/* Notes the size of a value that n gives (NULL: an input of its graph), assumed from the operands' where it is open. */
void xcc_layout_assume_size(xcc_layout *s, const xcc_value *y, const xcc_node *n);

/* Chooses how a convolution would be computed, and estimates what candidates gain. */
void xcc_layout_estimate(xcc_layout *s, xcc_layout_candidate *c);
/* The algorithm that is the fastest on this machine, by measurement; NULL if there is no choice, or it cannot be
 * measured. */
const xcc_layout_algorithm *xcc_layout_fastest(xcc_layout *s, const xcc_layout_shape *c);
/* Estimated time for changing the layout of a value. */
double xcc_layout_conversion_ns(const xcc_layout *s, const xcc_value *v);

/* Puts instructions on blocked channels in the place of the chosen candidates, with conversions at the borders. */
xcvm_status xcc_layout_convert(xcc_layout *s);

/* The pass `layout`. */
xcvm_status xcc_pass_layout(xcc_module *m);

#endif
