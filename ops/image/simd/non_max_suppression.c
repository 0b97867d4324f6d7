/* NonMaxSuppression: the best boxes of each class, none of which overlaps a better one. */
#include "ops/kernel.h"

#include <math.h>

enum {
    SIDE_BY_SIDE = 8, /* kept boxes that a candidate is compared with at once */
    MOST_STRIPES = 1024
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

static size_t index_of(uint64_t candidate) { return (size_t)(candidate & UINT32_MAX); }

/* Sorts by the keys, byte by byte from the least one; whatever is equal in a byte stays in its order, and the indices
 * ascend to begin with. The result is in `items`, `spare` is room for as many. */
static xcvm_status sort_candidates(xcvm_poller *poller, uint64_t *items, uint64_t *spare, size_t count)
{
    uint64_t *from = items, *to = spare;
    for (int shift = 32; shift < 64; shift += 8) {
        size_t places[256] = {0};
        for (size_t i = 0; i < count; i++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            places[from[i] >> shift & 255]++;
        }
        if (count == 0 || places[from[0] >> shift & 255] == count)
            continue;
        for (size_t digit = 0, at = 0; digit < 256; digit++) {
            const size_t here = places[digit];
            places[digit] = at;
            at += here;
        }
        for (size_t i = 0; i < count; i++) {
            XCVM_TRY(xcvm_poll_after(poller, 1));
            to[places[from[i] >> shift & 255]++] = from[i];
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    return XCVM_OK;
}

/* ---- Kept boxes ---- */

/* SIDE_BY_SIDE boxes, each part of them one behind the other. */
typedef struct group {
    double y0[SIDE_BY_SIDE], x0[SIDE_BY_SIDE], y1[SIDE_BY_SIDE], x1[SIDE_BY_SIDE], area[SIDE_BY_SIDE];
    size_t count, next; /* next: index of an older group of the stripe plus one, or 0 */
} group;

/* The boxes that were kept for a class, in stripes by their left edges: a candidate is compared with those of stripes
 * from which a box can reach it. Where the classes of a model are told apart by moving their boxes, as its exporter may
 * do, those are few. */
typedef struct kept_boxes {
    group *groups;
    size_t group_count, stripes;
    double left, per_unit, widest; /* stripes begin at `left`, there are so many per unit of x */
    size_t newest[MOST_STRIPES];   /* as group.next */
} kept_boxes;

static size_t stripe_of(const kept_boxes *kept, double x)
{
    const double at = (x - kept->left) * kept->per_unit;
    return !(at > 0) ? 0 : at < (double)kept->stripes ? (size_t)at : kept->stripes - 1;
}

/* Makes stripes a quarter as wide as the widest box, none at all if that is an eighth of all they would hold or more.
 */
static xcvm_status begin_class(xcvm_poller *poller, kept_boxes *kept, const float *corners, const uint64_t *candidates,
                               size_t count, bool by_center)
{
    double left = INFINITY, right = -INFINITY, widest = 0;
    for (size_t i = 0; i < count; i++) {
        const box b = read_box(corners + index_of(candidates[i]) * 4, by_center);
        XCVM_TRY(xcvm_poll_after(poller, 1));
        left = fmin(left, b.x0);
        right = fmax(right, b.x0);
        widest = fmax(widest, b.x1 - b.x0);
    }
    const double ratio = (right - left) / widest;
    kept->stripes = ratio > 8 ? (size_t)fmin(4 * ratio, MOST_STRIPES) : 1;
    kept->left = left;
    kept->per_unit = (double)kept->stripes / (right - left);
    kept->widest = widest;
    kept->group_count = 0;
    memset(kept->newest, 0, kept->stripes * sizeof *kept->newest);
    return XCVM_OK;
}

/* A box of infinite area shares nothing of it with any other: that is what places without a box hold, and what a box
 * without area is kept as. */
static void keep_box(kept_boxes *kept, const box *b)
{
    size_t *newest = &kept->newest[stripe_of(kept, b->x0)];
    if (*newest == 0 || kept->groups[*newest - 1].count == SIDE_BY_SIDE) {
        group *fresh = &kept->groups[kept->group_count++];
        for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
            fresh->y0[j] = fresh->x0[j] = fresh->y1[j] = fresh->x1[j] = 0;
            fresh->area[j] = INFINITY;
        }
        fresh->count = 0;
        fresh->next = *newest;
        *newest = kept->group_count;
    }
    group *g = &kept->groups[*newest - 1];
    const size_t i = g->count++;
    g->y0[i] = b->y0;
    g->x0[i] = b->x0;
    g->y1[i] = b->y1;
    g->x1[i] = b->x1;
    g->area[i] = b->area <= 0 ? INFINITY : b->area;
}

static bool overlaps_group(const group *g, const box *b, double threshold)
{
    int64_t hits = 0;
    for (size_t j = 0; j < SIDE_BY_SIDE; j++) {
        const double bottom = g->y1[j] < b->y1 ? g->y1[j] : b->y1, top = g->y0[j] > b->y0 ? g->y0[j] : b->y0;
        const double right = g->x1[j] < b->x1 ? g->x1[j] : b->x1, left = g->x0[j] > b->x0 ? g->x0[j] : b->x0;
        const double height = bottom - top, width = right - left, common = height * width;
        const double share = common / (g->area[j] + b->area - common);
        hits |= (height > 0) & (width > 0) & (share > threshold);
    }
    return hits != 0;
}

/* Whether the box shares more than `threshold` of the area that it and one of the kept boxes cover. */
static bool overlaps_any(xcvm_poller *poller, const kept_boxes *kept, const box *b, double threshold)
{
    if (b->area <= 0)
        return false;
    const size_t last = stripe_of(kept, b->x1);
    for (size_t stripe = stripe_of(kept, b->x0 - kept->widest); stripe <= last; stripe++)
        for (size_t at = kept->newest[stripe]; at != 0; at = kept->groups[at - 1].next)
            if (overlaps_group(&kept->groups[at - 1], b, threshold) || xcvm_poll_after(poller, 1) != XCVM_OK)
                return true;
    return false;
}

/* ---- */

XCVM_KERNEL(NonMaxSuppression)
{
    const int64_t samples = a->scores->dims[0], classes = a->scores->dims[1], boxes = a->scores->dims[2];
    int64_t most = 0;
    double iou = 0, least = -(double)INFINITY;
    if (a->max_output_boxes_per_class != NULL)
        XCVM_TRY(xcvm_read_int(k->error, a->max_output_boxes_per_class, "max_output_boxes_per_class", &most));
    if (a->iou_threshold != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->iou_threshold, "iou_threshold", &iou));
    if (a->score_threshold != NULL)
        XCVM_TRY(xcvm_read_double(k->error, a->score_threshold, "score_threshold", &least));
    most = most < 0 ? 0 : most < boxes ? most : boxes;
    XCVM_CHECK(k->error, iou >= 0 && iou <= 1, OUT_OF_RANGE, "iou_threshold is %g, it must be from 0 to 1", iou);

    /* The list of selected boxes grows in the scratch block, behind the candidates and the boxes kept for a class. */
    size_t per_class, rows, bytes;
    const size_t groups = (size_t)most < MOST_STRIPES ? (size_t)most : (size_t)most / SIDE_BY_SIDE + MOST_STRIPES;
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
    kept_boxes kept = {.groups = (group *)(void *)scratch};
    uint64_t *candidates = (uint64_t *)(void *)(kept.groups + groups), *spare = candidates + boxes;
    int64_t *selected = (int64_t *)(void *)(spare + boxes);
    size_t found = 0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (int64_t n = 0; n < samples && most > 0; n++)
        for (int64_t c = 0; c < classes; c++) {
            const float *scores = XCVM_CDATA(float, a->scores) + (n * classes + c) * boxes;
            const float *corners = XCVM_CDATA(float, a->boxes) + n * boxes * 4;
            size_t count = 0, kept_count = 0;
            for (int64_t i = 0; i < boxes; i++) {
                XCVM_TRY(xcvm_poll_after(&poller, 1));
                if ((double)scores[i] > least)
                    candidates[count++] = candidate_of(scores[i], i);
            }
            XCVM_TRY(sort_candidates(&poller, candidates, spare, count));
            XCVM_TRY(begin_class(&poller, &kept, corners, candidates, count, a->center_point_box));
            for (size_t i = 0; i < count && kept_count < (size_t)most; i++) {
                const size_t index = index_of(candidates[i]);
                const box b = read_box(corners + index * 4, a->center_point_box);
                XCVM_TRY(xcvm_poll_after(&poller, 1));
                if (overlaps_any(&poller, &kept, &b, iou))
                    continue;
                keep_box(&kept, &b);
                kept_count++;
                memcpy(selected + 3 * found++, (const int64_t[]){n, c, (int64_t)index}, 3 * sizeof(int64_t));
            }
        }
    const int64_t dims[] = {(int64_t)found, 3};
    XCVM_TRY(xcvm_kernel_poll(k));
    XCVM_TRY(xcvm_kernel_allocate(k, a->selected, XCVM_I64, 2, dims));
    return xcvm_kernel_copy(k, a->selected->data, selected, found * 3 * sizeof(int64_t));
}
