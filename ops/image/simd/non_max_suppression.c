/* NonMaxSuppression: the best boxes of each class that do not overlap a better one. */
#include "ops/util/kernel.h"
#include "ops/simd/lanes.h"

#include <math.h>

enum {
    SIDE_BY_SIDE = 8, /* kept boxes that a candidate is compared with in one vector operation */
    MOST_STRIPES = 1024,
    FEW = 128,   /* number of kept boxes up to which stripes do not pay off */
    BLOCK = 4096 /* scores between polls */
};

typedef struct box {
    double y0, x0, y1, x1, area;
} box;

/* Minimum and maximum of two values of which at most one is NaN; NaN is ignored. */
static double lesser(double a, double b) { return a < b || b != b ? a : b; }
static double greater(double a, double b) { return a > b || b != b ? a : b; }

static box read_box(const float *b, bool by_center)
{
    const double p = (double)b[0], q = (double)b[1], r = (double)b[2], s = (double)b[3];
    box result = by_center ? (box){q - s / 2, p - r / 2, q + s / 2, p + r / 2, 0}
                           : (box){lesser(p, r), lesser(q, s), greater(p, r), greater(q, s), 0};
    result.area = (result.y1 - result.y0) * (result.x1 - result.x0);
    return result;
}

/* ---- Candidates ---- */

/* Packs a key, which is lower for a better score, above the box index, so that equal scores are ordered by index. */
static uint64_t candidate_of(float score, int64_t index)
{
    const float unsigned_zero = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &unsigned_zero, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return (uint64_t)~ascending << 32 | (uint64_t)index;
}

static size_t index_of(uint64_t candidate) { return (size_t)(candidate & UINT32_MAX); }

/* Radix sort by key, byte by byte from the lowest. It is stable, and indices ascend initially. The result is in
 * `items`; `spare` has the same size. */
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

/* Lists the boxes with scores greater than `least` and sets their number. */
static xcvm_status list_candidates(xcvm_poller *poller, const float *scores, size_t boxes, double least,
                                   uint64_t *candidates, size_t *count)
{
    size_t n = 0;
    for (size_t first = 0; first < boxes; first += BLOCK) {
        const size_t end = boxes - first < BLOCK ? boxes : first + BLOCK;
        XCVM_TRY(xcvm_poll_after(poller, end - first));
        for (size_t i = first; i < end; i++) {
            candidates[n] = candidate_of(scores[i], (int64_t)i);
            n += (double)scores[i] > least;
        }
    }
    *count = n;
    return XCVM_OK;
}

/* Finds a bound such that at least `wanted` keys are not above it: all keys with the same leading digits are included.
 */
static xcvm_status bound_of(xcvm_poller *poller, const uint64_t *items, size_t count, size_t wanted, uint64_t *bound)
{
    enum { DIGIT = 12 }; /* bits of the first digit, so that few scores share it; the others have fewer */
    static const struct {
        int shift, bits;
    } digits[] = {{64 - DIGIT, DIGIT}, {42, 10}, {32, 10}};
    uint64_t prefix = 0;
    size_t below = 0; /* keys below all that begin with the prefix */
    for (size_t round = 0; round < sizeof digits / sizeof *digits; round++) {
        const int shift = digits[round].shift, above = shift + digits[round].bits;
        const size_t most = ((size_t)1 << digits[round].bits) - 1;
        uint32_t counts[1 << DIGIT] = {0};
        XCVM_TRY(xcvm_poll_after(poller, count));
        for (size_t i = 0; i < count; i++)
            counts[items[i] >> shift & most] += round == 0 || items[i] >> above == prefix;
        size_t digit = 0;
        while (digit < most && below + counts[digit] < wanted)
            below += counts[digit++];
        prefix = prefix << digits[round].bits | digit;
        *bound = prefix << shift | ((UINT64_C(1) << shift) - 1);
        if (below + counts[digit] <= 4 * wanted)
            break;
    }
    return XCVM_OK;
}

/* Moves the best candidates, at least `wanted` if available, from `items` to `best` in order. `best` has room for all.
 */
static xcvm_status take_best(xcvm_poller *poller, uint64_t *items, size_t *count, size_t wanted, uint64_t *best,
                             size_t *taken)
{
    uint64_t bound = UINT64_MAX;
    if (wanted < *count / 2)
        XCVM_TRY(bound_of(poller, items, *count, wanted, &bound));
    size_t left = 0, n = 0;
    XCVM_TRY(xcvm_poll_after(poller, *count));
    for (size_t i = 0; i < *count; i++) {
        const uint64_t item = items[i];
        best[n] = items[left] = item;
        n += item <= bound;
        left += item > bound;
    }
    *count = left;
    *taken = n;
    return sort_candidates(poller, best, items + left, n);
}

/* ---- Kept boxes ---- */

/* SIDE_BY_SIDE boxes in structure-of-arrays form. */
typedef struct group {
    double y0[SIDE_BY_SIDE], x0[SIDE_BY_SIDE], y1[SIDE_BY_SIDE], x1[SIDE_BY_SIDE], area[SIDE_BY_SIDE];
    size_t count, next; /* next: 1 + index of an older group of the stripe; 0: none */
} group;

/* Kept boxes of a class in stripes by their left edges. A candidate is compared only with stripes from which a box can
 * reach it. These are few if the exporter has separated classes by shifting their boxes. */
typedef struct kept_boxes {
    group *groups;
    size_t group_count, stripes;
    double left, per_unit, widest; /* stripes begin at `left`, with `per_unit` per unit of x */
    size_t newest[MOST_STRIPES];   /* as group.next */
} kept_boxes;

static size_t stripe_of(const kept_boxes *kept, double x)
{
    const double at = (x - kept->left) * kept->per_unit;
    return !(at > 0) ? 0 : at < (double)kept->stripes ? (size_t)at : kept->stripes - 1;
}

/* Makes stripes a quarter as wide as the widest box; none if that is at least an eighth of their range, or if few boxes
 * will be kept. */
static xcvm_status begin_class(xcvm_poller *poller, kept_boxes *kept, const float *corners, const uint64_t *candidates,
                               size_t count, size_t most, bool by_center)
{
    kept->stripes = 1;
    kept->group_count = 0;
    kept->newest[0] = 0;
    kept->left = kept->per_unit = kept->widest = 0;
    if (most <= FEW)
        return XCVM_OK;
    double left = INFINITY, right = -INFINITY, widest = 0;
    for (size_t i = 0; i < count; i++) {
        const box b = read_box(corners + index_of(candidates[i]) * 4, by_center);
        XCVM_TRY(xcvm_poll_after(poller, 1));
        left = lesser(left, b.x0);
        right = greater(right, b.x0);
        widest = greater(widest, b.x1 - b.x0);
    }
    const double ratio = (right - left) / widest;
    kept->stripes = ratio > 8 ? (size_t)fmin(4 * ratio, MOST_STRIPES) : 1;
    kept->left = left;
    kept->per_unit = (double)kept->stripes / (right - left);
    kept->widest = widest;
    memset(kept->newest, 0, kept->stripes * sizeof *kept->newest);
    return XCVM_OK;
}

/* A box of infinite area never overlaps another one. Unused entries, and boxes without area, are stored this way. */
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

typedef double lanes_f64 __attribute__((vector_size(4 * XCVM_LANES)));
typedef double lanes_f64_at __attribute__((vector_size(4 * XCVM_LANES), aligned(8), may_alias));
typedef int64_t lanes_i64 __attribute__((vector_size(4 * XCVM_LANES)));

XCVM_INLINE lanes_f64 choose(lanes_i64 mask, lanes_f64 a, lanes_f64 b)
{
    return (lanes_f64)(((lanes_i64)a & mask) | ((lanes_i64)b & ~mask));
}

static bool overlaps_group(const group *g, const box *b, double threshold)
{
    enum { LANES = XCVM_LANES / 2 };
    int64_t any = 0;
    for (size_t j = 0; j < SIDE_BY_SIDE; j += LANES) {
        const lanes_f64 zero = {0}, y0 = *(const lanes_f64_at *)(g->y0 + j), y1 = *(const lanes_f64_at *)(g->y1 + j);
        const lanes_f64 x0 = *(const lanes_f64_at *)(g->x0 + j), x1 = *(const lanes_f64_at *)(g->x1 + j);
        const lanes_f64 by0 = b->y0 - zero, by1 = b->y1 - zero, bx0 = b->x0 - zero, bx1 = b->x1 - zero;
        const lanes_f64 height = choose(y1 < by1, y1, by1) - choose(y0 > by0, y0, by0);
        const lanes_f64 width = choose(x1 < bx1, x1, bx1) - choose(x0 > bx0, x0, bx0);
        const lanes_f64 common = height * width;
        const lanes_f64 share = common / (*(const lanes_f64_at *)(g->area + j) + b->area - common);
        const lanes_i64 hits = (height > 0) & (width > 0) & (share > threshold);
        for (size_t i = 0; i < LANES; i++)
            any |= hits[i];
    }
    return any != 0;
}

/* Returns true if the intersection over union with a kept box exceeds `threshold`. */
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

/* ---- Kernel ---- */

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

    /* The list of selected boxes grows in the scratch block, after the candidates and the kept boxes of a class. */
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
    uint64_t *candidates = (uint64_t *)(void *)(kept.groups + groups), *best = candidates + boxes;
    int64_t *selected = (int64_t *)(void *)(best + boxes);
    size_t found = 0;
    xcvm_poller poller = xcvm_poller_of(k);
    for (int64_t n = 0; n < samples && most > 0; n++)
        for (int64_t c = 0; c < classes; c++) {
            const float *scores = XCVM_CDATA(float, a->scores) + (n * classes + c) * boxes;
            const float *corners = XCVM_CDATA(float, a->boxes) + n * boxes * 4;
            size_t count, kept_count = 0, taken;
            XCVM_TRY(list_candidates(&poller, scores, (size_t)boxes, least, candidates, &count));
            XCVM_TRY(begin_class(&poller, &kept, corners, candidates, count, (size_t)most, a->center_point_box));
            /* Usually, only the best few candidates are examined. */
            for (size_t wanted = 2 * (size_t)most; count > 0 && kept_count < (size_t)most; wanted *= 4) {
                XCVM_TRY(take_best(&poller, candidates, &count, wanted, best, &taken));
                for (size_t i = 0; i < taken && kept_count < (size_t)most; i++) {
                    const size_t index = index_of(best[i]);
                    const box b = read_box(corners + index * 4, a->center_point_box);
                    XCVM_TRY(xcvm_poll_after(&poller, 1));
                    if (overlaps_any(&poller, &kept, &b, iou))
                        continue;
                    keep_box(&kept, &b);
                    kept_count++;
                    memcpy(selected + 3 * found++, (const int64_t[]){n, c, (int64_t)index}, 3 * sizeof(int64_t));
                }
            }
        }
    const int64_t dims[] = {(int64_t)found, 3};
    XCVM_TRY(xcvm_kernel_poll(k));
    XCVM_TRY(xcvm_kernel_allocate(k, a->selected, XCVM_I64, 2, dims));
    return xcvm_kernel_copy(k, a->selected->data, selected, found * 3 * sizeof(int64_t));
}
