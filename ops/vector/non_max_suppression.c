/* NonMaxSuppression: the best boxes of each class, none of which overlaps a better one. */
#include "ops/kernel.h"

#include <math.h>

enum {
    SIDE_BY_SIDE = 8, /* kept boxes that a candidate is compared with at once */
    POLL_CANDIDATES = 1024
};

typedef struct box {
    double y0, x0, y1, x1, area;
} box;

static box read_box(const float *b, bool by_center)
{
    const double p = (double)b[0], q = (double)b[1], r = (double)b[2], s = (double)b[3];
    box result = by_center ? (box){q - s / 2, p - r / 2, q + s / 2, p + r / 2, 0}
                           : (box){fmin(p, r), fmin(q, s), fmax(p, r), fmax(q, s), 0};
    result.area = (result.y1 - result.y0) * (result.x1 - result.x0);
    return result;
}

/* ---- Kept boxes ---- */

/* SIDE_BY_SIDE boxes, each part of them one behind the other. */
typedef struct group {
    double y0[SIDE_BY_SIDE], x0[SIDE_BY_SIDE], y1[SIDE_BY_SIDE], x1[SIDE_BY_SIDE], area[SIDE_BY_SIDE];
} group;

/* A box of infinite area shares nothing of it with any other: that is what places without a box hold, and what a box
 * without area is kept as. */
static void keep_box(group *kept, size_t at, const box *b)
{
    group *g = &kept[at / SIDE_BY_SIDE];
    const size_t i = at % SIDE_BY_SIDE;
    if (i == 0)
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            g->y0[j] = g->x0[j] = g->y1[j] = g->x1[j] = 0;
            g->area[j] = INFINITY;
        }
    g->y0[i] = b->y0;
    g->x0[i] = b->x0;
    g->y1[i] = b->y1;
    g->x1[i] = b->x1;
    g->area[i] = b->area <= 0 ? INFINITY : b->area;
}

/* Whether the box shares more than `threshold` of the area that it and one of the kept boxes cover. */
static bool overlaps_any(const group *kept, size_t count, const box *b, double threshold)
{
    if (b->area <= 0)
        return false;
    for (const group *g = kept, *end = kept + (count + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE; g < end; g++) {
        int64_t hits = 0;
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            const double bottom = g->y1[j] < b->y1 ? g->y1[j] : b->y1, top = g->y0[j] > b->y0 ? g->y0[j] : b->y0;
            const double right = g->x1[j] < b->x1 ? g->x1[j] : b->x1, left = g->x0[j] > b->x0 ? g->x0[j] : b->x0;
            const double height = bottom - top, width = right - left, common = height * width;
            const double share = common / (g->area[j] + b->area - common);
            hits |= (height > 0) & (width > 0) & (share > threshold);
        }
        if (hits != 0)
            return true;
    }
    return false;
}

/* ---- Candidates ---- */

/* The index of a box below a key that is less the better its score is, so that equal scores are taken by index. */
static uint64_t candidate_of(float score, int64_t index)
{
    const float unsigned_zero = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &unsigned_zero, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return (uint64_t)~ascending << 32 | (uint64_t)index;
}

/* Sorts by the keys, byte by byte from the least one; whatever is equal in a byte stays in its order, and the indices
 * ascend to begin with. The result is in `items`, `spare` is room for as many. */
static void sort_candidates(uint64_t *items, uint64_t *spare, size_t count)
{
    uint64_t *from = items, *to = spare;
    for (int shift = 32; shift < 64; shift += 8) {
        size_t places[256] = {0};
        for (size_t i = 0; i < count; i++)
            places[from[i] >> shift & 255]++;
        if (count == 0 || places[from[0] >> shift & 255] == count)
            continue;
        for (size_t digit = 0, at = 0; digit < 256; digit++) {
            const size_t here = places[digit];
            places[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < count; i++)
            to[places[from[i] >> shift & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
}

XCVM_KERNEL(NonMaxSuppression)
{
    const int64_t samples = a->scores->dims[0], classes = a->scores->dims[1], boxes = a->scores->dims[2];
    int64_t most = a->max_output_boxes_per_class != NULL && xcvm_element_count(a->max_output_boxes_per_class) != 0
                       ? xcvm_element_as_int(a->max_output_boxes_per_class, 0)
                       : 0;
    most = most < 0 ? 0 : most < boxes ? most : boxes;
    const double iou = a->iou_threshold != NULL ? xcvm_element_as_double(a->iou_threshold, 0) : 0;
    XCVM_CHECK(k->error, iou >= 0 && iou <= 1, OUT_OF_RANGE, "iou_threshold is %g, it must be from 0 to 1", iou);
    const double least = a->score_threshold != NULL ? xcvm_element_as_double(a->score_threshold, 0) : -INFINITY;

    /* The list of selected boxes grows in the scratch block, behind the candidates and the boxes kept for a class. */
    size_t per_class, rows, bytes;
    const size_t groups = ((size_t)most + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
    XCVM_CHECK(k->error, boxes <= UINT32_MAX, OUT_OF_RANGE, "%lld boxes are too many", (long long)boxes);
    XCVM_CHECK(k->error,
               xcvm_size_mul((size_t)boxes, 2 * sizeof(uint64_t), &per_class) &&
                   xcvm_size_mul(groups, sizeof(group), &bytes) && xcvm_size_add(per_class, bytes, &per_class) &&
                   xcvm_size_mul((size_t)(samples * classes), (size_t)most, &rows) &&
                   xcvm_size_mul(rows, 3 * sizeof(int64_t), &bytes) && xcvm_size_add(bytes, per_class, &bytes),
               OUT_OF_MEMORY, "too many boxes");
    char *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    group *kept = (group *)(void *)scratch;
    uint64_t *candidates = (uint64_t *)(void *)(kept + groups), *spare = candidates + boxes;
    int64_t *selected = (int64_t *)(void *)(spare + boxes);
    size_t found = 0;
    for (int64_t n = 0; n < samples && most > 0; n++)
        for (int64_t c = 0; c < classes; c++) {
            XCVM_TRY(xcvm_kernel_poll(k));
            const float *scores = XCVM_CDATA(float, a->scores) + (n * classes + c) * boxes;
            const float *corners = XCVM_CDATA(float, a->boxes) + n * boxes * 4;
            size_t count = 0, kept_count = 0;
            for (int64_t i = 0; i < boxes; i++)
                if ((double)scores[i] > least)
                    candidates[count++] = candidate_of(scores[i], i);
            sort_candidates(candidates, spare, count);
            for (size_t i = 0; i < count && kept_count < (size_t)most; i++) {
                const int64_t index = (int64_t)(candidates[i] & UINT32_MAX);
                const box b = read_box(corners + index * 4, a->center_point_box);
                if (i % POLL_CANDIDATES == POLL_CANDIDATES - 1)
                    XCVM_TRY(xcvm_kernel_poll(k));
                if (overlaps_any(kept, kept_count, &b, iou))
                    continue;
                keep_box(kept, kept_count++, &b);
                memcpy(selected + 3 * found++, (const int64_t[]){n, c, index}, 3 * sizeof(int64_t));
            }
        }
    const int64_t dims[] = {(int64_t)found, 3};
    XCVM_TRY(xcvm_kernel_allocate(k, a->selected, XCVM_I64, 2, dims));
    if (found != 0)
        memcpy(a->selected->data, selected, found * 3 * sizeof(int64_t));
    return XCVM_OK;
}
