/* Bands: partition of the result of a convolution of blocked channels into work items. An item is some rows of some
 * slices of one or several images, for as many blocks of outputs as a product computes at a time. */
#ifndef XCVM_OPS_CONV_SIMD_BLOCKED_BANDS_H
#define XCVM_OPS_CONV_SIMD_BLOCKED_BANDS_H

#include "ops/conv/simd/blocked_product.h"
#include "ops/util/grain.h"

enum {
    /* Minimum multiply-adds per thread. */
    XCVM_BANDS_THREAD_WORK = 400 * 1000
};

typedef struct xcvm_bands {
    size_t images, stacks, groups; /* stacks: groups of neighboring images; single images unless they are whole bands */
    size_t per_group, parts;       /* blocks of outputs per group of channels, and parts of those */
    size_t slices, slabs;          /* slices of an image, and slabs of neighboring slices */
    size_t rows, bands;            /* rows of a slice, or pixels if merged into one row; bands */
} xcvm_bands;

/* Extent of a work item. */
typedef struct xcvm_band {
    size_t place;                          /* index of the band; its parts share it and the x that they read */
    size_t image, last_image, group;       /* [image, last_image) */
    size_t slice, last_slice, first, last; /* [slice, last_slice), rows [first, last) */
    size_t output, blocks;                 /* first block of outputs over all groups, and their number */
} xcvm_band;

/* Bands of whole slices of `rows` rows each. */
XCVM_INLINE xcvm_bands xcvm_bands_of(const xcvm_blocked_conv *c, size_t rows)
{
    const size_t per_group = c->outputs / c->group;
    return (xcvm_bands){.images = c->batch,
                        .stacks = c->batch,
                        .groups = c->group,
                        .per_group = per_group,
                        .parts = xcvm_ceil_div(per_group, XCVM_PRODUCT_BLOCKS),
                        .slices = c->out[XCVM_BLOCKED_DEPTH],
                        .slabs = c->out[XCVM_BLOCKED_DEPTH],
                        .rows = rows,
                        .bands = 1};
}

XCVM_INLINE size_t xcvm_bands_count(const xcvm_bands *b)
{
    return b->stacks * b->groups * b->slabs * b->bands * b->parts;
}

/* Splits rows into bands of at most `most` rows, balanced between threads. */
XCVM_INLINE void xcvm_bands_cut(xcvm_bands *b, size_t most, size_t threads)
{
    b->bands = xcvm_ceil_div(b->rows, most);
    const size_t items = xcvm_bands_count(b);
    if (items % threads != 0 && items < 8 * threads)
        b->bands = xcvm_min(xcvm_ceil_div(b->bands, threads) * threads, b->rows);
}

/* Rows of the longest band. */
XCVM_INLINE size_t xcvm_bands_rows(const xcvm_bands *b) { return xcvm_ceil_div(b->rows, b->bands); }

XCVM_INLINE xcvm_band xcvm_bands_at(const xcvm_bands *b, size_t item)
{
    const size_t part = item % b->parts, place = item / b->parts, band = place % b->bands;
    const size_t slab_at = place / b->bands, slab = slab_at % b->slabs, group_at = slab_at / b->slabs;
    const size_t stack = group_at / b->groups, group = group_at % b->groups, block = part * b->per_group / b->parts;
    return (xcvm_band){.place = place,
                       .image = stack * b->images / b->stacks,
                       .last_image = (stack + 1) * b->images / b->stacks,
                       .group = group,
                       .slice = slab * b->slices / b->slabs,
                       .last_slice = (slab + 1) * b->slices / b->slabs,
                       .first = band * b->rows / b->bands,
                       .last = (band + 1) * b->rows / b->bands,
                       .output = group * b->per_group + block,
                       .blocks = (part + 1) * b->per_group / b->parts - block};
}

/* Minimum items per thread, for `work` multiply-adds per image. */
XCVM_INLINE size_t xcvm_bands_grain(const xcvm_bands *b, double work)
{
    const double of_item = work * (double)b->images / (double)xcvm_bands_count(b);
    return xcvm_grain(XCVM_BANDS_THREAD_WORK, of_item);
}

#endif
