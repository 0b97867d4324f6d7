/* ArgMax and ArgMin along lines of f32; see ops/arg_reduction.h. */
#include "ops/arg_reduction.h"

#include "ops/vector/folds.h"

/* The first (else last) index in [begin, end) where x is `value`, or NaN if that is one. */
static size_t find(const float *x, size_t begin, size_t end, float value, bool last)
{
    for (size_t i = 0; i < end - begin; i++) {
        size_t at = last ? end - 1 - i : begin + i;
        if (x[at] == value || (x[at] != x[at] && value != value))
            return at;
    }
    return begin;
}

static size_t find_line(const float *x, size_t count, bool greatest, bool last)
{
    enum { BLOCK = 1024 };
    float best = 0.0f;
    size_t at = 0;
    /* The block where the best is, then its place in there. */
    for (size_t begin = 0; begin < count; begin += BLOCK) {
        size_t n = count - begin < BLOCK ? count - begin : BLOCK;
        float r = (float)(greatest ? xcvm_fold_extreme(xcvm_lanes_greater, x + begin, n, x[begin])
                                   : xcvm_fold_extreme(xcvm_lanes_lesser, x + begin, n, x[begin]));
        bool better = greatest ? r > best : r < best;
        if (begin == 0 || better || r != r || (last && r == best)) {
            best = r;
            at = begin;
        }
        if (r != r)
            break;
    }
    return find(x, at, at + BLOCK < count ? at + BLOCK : count, best, last && best == best);
}

XCVM_KERNEL(ArgMax) { return xcvm_arg_reduce(k, find_line, a->y, a->x, a->axis, true, a->select_last_index != 0); }

XCVM_KERNEL(ArgMin) { return xcvm_arg_reduce(k, find_line, a->y, a->x, a->axis, false, a->select_last_index != 0); }
