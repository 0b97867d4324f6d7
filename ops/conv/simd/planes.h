/* Images laid out so that windows slide along whole vectors. A band of an image is copied with its padding into planes,
 * one for each remainder of a position by the strides; in those, every window position is the same plane shifted by a
 * constant, and results for all rows lie on one line, with some between the rows that mean nothing. */
#ifndef XCVM_OPS_CONV_SIMD_PLANES_H
#define XCVM_OPS_CONV_SIMD_PLANES_H

#include "ops/simd/lanes.h"
#include "ops/conv/window.h"

enum {
    XCVM_PLANES_TAPS = 128,
    /* Results are computed in runs of so many floats. */
    XCVM_PLANES_VECTORS = 4,
    XCVM_PLANES_RUN = XCVM_PLANES_VECTORS * XCVM_LANES
};

typedef struct xcvm_planes {
    const xcvm_window *window;
    size_t rows;    /* output rows of a band */
    size_t pitch;   /* floats from one row of a plane, and of the results, to the next */
    size_t plane;   /* floats from one plane to the next */
    size_t in_rows; /* of the image with its padding, of a band */
    size_t in_floats, out_floats;
    size_t taps;
    size_t offsets[XCVM_PLANES_TAPS]; /* of the window positions */
} xcvm_planes;

/* Whether a window's last two axes have few positions, which do not stand far apart or reach far over the image: those
 * of one image, or of a slice of it at one place of the first axis. */
#define xcvm_planes_fit XCVM_PER_ISA(xcvm_planes_fit)
bool xcvm_planes_fit(const xcvm_window *w);
/* Bands of `rows` output rows; 0: as many as stay in the first-level cache. */
#define xcvm_planes_make XCVM_PER_ISA(xcvm_planes_make)
void xcvm_planes_make(xcvm_planes *p, const xcvm_window *w, size_t rows);
/* Puts the band whose first output row is `top` into planes of p->in_floats floats: one image, w->in_size floats,
 * between padding of the value `blank`. From `image` on, `readable` floats may be read. */
#define xcvm_planes_fill XCVM_PER_ISA(xcvm_planes_fill)
void xcvm_planes_fill(const xcvm_planes *p, const float *image, size_t readable, size_t top, float blank,
                      float *planes);

#endif
