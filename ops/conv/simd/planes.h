/* A padded image layout in which windows slide along whole vectors. A band of an image is copied with its padding into
 * planes, one for each remainder of positions by the strides. In these, every window position is a plane at a constant
 * offset, and the results of all rows form one line, with unused elements between rows. */
#ifndef XCVM_OPS_CONV_SIMD_PLANES_H
#define XCVM_OPS_CONV_SIMD_PLANES_H

#include "ops/simd/lanes.h"
#include "ops/conv/window.h"

enum {
    XCVM_PLANES_TAPS = 128,
    /* Results are computed in runs of this many floats. */
    XCVM_PLANES_VECTORS = 4,
    XCVM_PLANES_RUN = XCVM_PLANES_VECTORS * XCVM_LANES
};

typedef struct xcvm_planes {
    const xcvm_window *window;
    size_t rows;    /* output rows of a band */
    size_t pitch;   /* floats between rows of a plane, and of the results */
    size_t plane;   /* floats between planes */
    size_t in_rows; /* rows of a band of the padded image */
    size_t in_floats, out_floats;
    size_t taps;
    size_t offsets[XCVM_PLANES_TAPS]; /* of the window positions */
} xcvm_planes;

/* Returns true if the window's last two axes have few positions that are neither far apart nor far outside the image.
 * For one image, or for one slice of it on the first axis. */
#define xcvm_planes_fit XCVM_PER_ISA(xcvm_planes_fit)
bool xcvm_planes_fit(const xcvm_window *w);
/* Plans bands of `rows` output rows; 0: as many as stay in the first-level cache. */
#define xcvm_planes_make XCVM_PER_ISA(xcvm_planes_make)
void xcvm_planes_make(xcvm_planes *p, const xcvm_window *w, size_t rows);
/* Copies the band whose first output row is `top` into planes of p->in_floats floats. The source is one image of
 * w->in_size floats, padded with `blank`. `readable` floats may be read from `image`. */
#define xcvm_planes_fill XCVM_PER_ISA(xcvm_planes_fill)
void xcvm_planes_fill(const xcvm_planes *p, const float *image, size_t readable, size_t top, float blank,
                      float *planes);

#endif
