/* Images laid out so that windows slide along whole vectors. A band of an image is copied with its padding into planes,
 * one for each remainder of a position by the strides; in those, every window position is the same plane shifted by a
 * constant, and results for all rows lie on one line, with some between the rows that mean nothing. */
#ifndef XCVM_OPS_VECTOR_PLANES_H
#define XCVM_OPS_VECTOR_PLANES_H

#include "ops/vector/lanes.h"
#include "ops/window.h"

enum {
    XCVM_PLANES_TAPS = 128,
    /* Results are computed in runs of so many floats. */
    XCVM_PLANES_VECTORS = 4,
    XCVM_PLANES_RUN = XCVM_PLANES_VECTORS * XCVM_LANES
};

typedef struct xcvm_planes {
    const xcvm_window *window;
    size_t rows;       /* output rows of a band */
    size_t pitch;      /* floats from one row of a plane, and of the results, to the next */
    size_t plane_rows; /* of each plane */
    size_t in_rows;    /* of the image with its padding */
    size_t in_floats, out_floats;
    size_t taps;
    size_t offsets[XCVM_PLANES_TAPS]; /* of the window positions */
} xcvm_planes;

/* Whether a window has one axis or two, few positions, and does not stand far apart or reach far over the image. */
#define xcvm_planes_fit XCVM_PER_ISA(xcvm_planes_fit)
bool xcvm_planes_fit(const xcvm_window *w);
/* Bands that stay in the first-level cache; offsets are set only if `offsets`. */
#define xcvm_planes_make XCVM_PER_ISA(xcvm_planes_make)
void xcvm_planes_make(xcvm_planes *p, const xcvm_window *w, bool offsets);
/* Sets all floats of the planes, as what is not filled is padding. */
#define xcvm_planes_clear XCVM_PER_ISA(xcvm_planes_clear)
void xcvm_planes_clear(const xcvm_planes *p, float blank, float *planes);
/* Copies a row of the image, w->in[2] floats at `line`, to its place as row `row` of the band's p->in_rows. */
#define xcvm_planes_put XCVM_PER_ISA(xcvm_planes_put)
void xcvm_planes_put(const xcvm_planes *p, size_t row, const float *line, float *planes);
/* The row of the image that row `row` of the band is whose first output row is `top`, or -1 if it is padding. */
static inline ptrdiff_t xcvm_planes_row(const xcvm_planes *p, size_t top, size_t row)
{
    const xcvm_window *w = p->window;
    const ptrdiff_t h = (ptrdiff_t)(top * w->stride[1] + row) - w->pad[1];
    return h < (ptrdiff_t)w->in[1] ? h < 0 ? -1 : h : -1;
}

#endif
