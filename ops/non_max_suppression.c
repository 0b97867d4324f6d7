#include "ops/kernel.h"
#include "ops/order.h"

#include <math.h>

XCVM_SHAPE_RULE_OF(NonMaxSuppression)
{
    XCVM_REQUIRE(t, a->boxes->rank < 0 || (a->boxes->rank == 3 && (a->boxes->dims[2] < 0 || a->boxes->dims[2] == 4)),
                 SHAPE_MISMATCH, "boxes must be of shape samples x boxes x 4");
    XCVM_REQUIRE(t, a->scores->rank < 0 || a->scores->rank == 3, SHAPE_MISMATCH,
                 "scores must be of shape samples x classes x boxes");
    if (a->boxes->rank == 3 && a->scores->rank == 3)
        for (int d = 0; d < 2; d++) {
            const int64_t boxes = a->boxes->dims[d], scores = a->scores->dims[2 * d];
            XCVM_REQUIRE(t, boxes < 0 || scores < 0 || boxes == scores, SHAPE_MISMATCH,
                         "boxes are for %lld %s, scores for %lld", (long long)boxes, d == 0 ? "samples" : "boxes",
                         (long long)scores);
        }
    const int64_t dims[] = {XCVM_ANY_DIM, 3};
    xcvm_value_set_tensor(a->selected, XCVM_I64, 2, dims);
    return XCVM_OK;
}

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

static bool overlap(const box *a, const box *b, double threshold)
{
    const double height = fmin(a->y1, b->y1) - fmax(a->y0, b->y0), width = fmin(a->x1, b->x1) - fmax(a->x0, b->x0);
    if (height <= 0 || width <= 0 || a->area <= 0 || b->area <= 0)
        return false;
    const double common = height * width;
    return common / (a->area + b->area - common) > threshold;
}

/* Best first; the sort leaves equal scores in the order of the boxes. */
static int by_score(const void *context, int64_t a, int64_t b)
{
    const float *scores = context;
    return (scores[a] < scores[b]) - (scores[a] > scores[b]);
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
    XCVM_CHECK(k->error,
               xcvm_size_mul((size_t)boxes, sizeof(box) + 2 * sizeof(int64_t), &per_class) &&
                   xcvm_size_mul((size_t)(samples * classes), (size_t)most, &rows) &&
                   xcvm_size_mul(rows, 3 * sizeof(int64_t), &bytes) && xcvm_size_add(bytes, per_class, &bytes),
               OUT_OF_MEMORY, "too many boxes");
    char *scratch = xcvm_kernel_scratch(k, bytes);
    if (scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    box *kept = (box *)(void *)scratch;
    int64_t *candidates = (int64_t *)(void *)(kept + boxes), *spare = candidates + boxes, *selected = spare + boxes;
    size_t found = 0;
    for (int64_t n = 0; n < samples && most > 0; n++)
        for (int64_t c = 0; c < classes; c++) {
            XCVM_TRY(xcvm_kernel_poll(k));
            const float *scores = XCVM_CDATA(float, a->scores) + (n * classes + c) * boxes;
            const float *corners = XCVM_CDATA(float, a->boxes) + n * boxes * 4;
            size_t count = 0, kept_count = 0;
            for (int64_t i = 0; i < boxes; i++)
                if ((double)scores[i] > least)
                    candidates[count++] = i;
            XCVM_TRY(xcvm_order_sort(k, candidates, spare, count, by_score, scores));
            for (size_t i = 0; i < count && kept_count < (size_t)most; i++) {
                const box b = read_box(corners + candidates[i] * 4, a->center_point_box);
                bool suppressed = false;
                for (size_t j = 0; j < kept_count && !suppressed; j++)
                    suppressed = overlap(&b, &kept[j], iou);
                if (suppressed)
                    continue;
                kept[kept_count++] = b;
                memcpy(selected + 3 * found++, (const int64_t[]){n, c, candidates[i]}, 3 * sizeof(int64_t));
            }
        }
    const int64_t dims[] = {(int64_t)found, 3};
    XCVM_TRY(xcvm_kernel_allocate(k, a->selected, XCVM_I64, 2, dims));
    if (found != 0)
        memcpy(a->selected->data, selected, found * 3 * sizeof(int64_t));
    return XCVM_OK;
}
