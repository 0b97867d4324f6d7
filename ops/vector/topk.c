/* TopK: the best so far in a heap, the last of them at its top, which few elements are better than. */
#include "ops/index.h"
#include "ops/move.h"
#include "ops/order.h"
#include "ops/vector/lanes.h"

typedef struct candidate {
    uint64_t key;
    size_t index;
} candidate;

/* Whether a is to come behind b: a lesser key, or an equal one at a greater index. */
static bool behind(candidate a, candidate b) { return a.key < b.key || (a.key == b.key && a.index > b.index); }

/* Lets the candidate at `at` sink until none below it comes behind it: the last of all stands at the top. */
static void sink(candidate *heap, size_t count, size_t at)
{
    candidate c = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && behind(heap[child + 1], heap[child]))
            child++;
        if (!behind(heap[child], c))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = c;
}

static void make_heap(const uint64_t *keys, candidate *heap, size_t k)
{
    for (size_t i = 0; i < k; i++)
        heap[i] = (candidate){keys[i], i};
    for (size_t i = k / 2; i-- > 0;)
        sink(heap, k, i);
}

static void consider(uint64_t key, size_t i, candidate *heap, size_t k)
{
    if (key > heap[0].key) {
        heap[0] = (candidate){key, i};
        sink(heap, k, 0);
    }
}

/* From a heap to the order of the results. */
static void sort_heap(candidate *heap, size_t k)
{
    for (size_t left = k; left > 1; left--) {
        candidate last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sink(heap, left - 1, 0);
    }
}

/* The k first of n, in order. */
static void select_top(const uint64_t *keys, size_t n, candidate *heap, size_t k)
{
    make_heap(keys, heap, k);
    for (size_t i = k; i < n; i++)
        consider(keys[i], i, heap, k);
    sort_heap(heap, k);
}

/* The keys of `count` elements, the first to be selected with the greatest. */
static void find_keys(const xcvm_TopK_args *a, size_t first, size_t stride, size_t count, uint64_t *keys)
{
    xcvm_order_keys(a->x, first, stride, count, keys);
    for (size_t i = 0; !a->largest && i < count; i++)
        keys[i] = ~keys[i];
}

/* Whether one of some vectors of elements may be better than `last`: greater (less), or NaN, or `last` is NaN. */
enum { AT_ONCE = 4 * XCVM_LANES };
static bool any_better(const float *x, float last, bool largest)
{
    const xcvm_lanes limit = xcvm_lanes_all(last);
    xcvm_lanes_mask better = {0};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const xcvm_lanes v = xcvm_lanes_load(x + j * XCVM_LANES);
        better |= largest ? ~(v <= limit) : ~(v >= limit);
    }
    int32_t all = 0;
    for (int j = 0; j < XCVM_LANES; j++)
        all |= better[j];
    return all != 0;
}

/* The same of adjacent f32: keys are found of those elements alone that may be better than the last of the best. */
static void select_top_f32(const xcvm_TopK_args *a, size_t first, size_t n, uint64_t *keys, candidate *heap, size_t k)
{
    const float *x = XCVM_CDATA(float, a->x) + first;
    find_keys(a, first, 1, k, keys);
    make_heap(keys, heap, k);
    for (size_t i = k; i < n; i += AT_ONCE) {
        const size_t count = n - i < AT_ONCE ? n - i : AT_ONCE;
        if (count == AT_ONCE && !any_better(x + i, x[heap[0].index], a->largest != 0))
            continue;
        find_keys(a, first + i, 1, count, keys);
        for (size_t j = 0; j < count; j++)
            consider(keys[j], i + j, heap, k);
    }
    sort_heap(heap, k);
}

typedef struct selection {
    xcvm_kernel *k;
    const xcvm_TopK_args *a;
    xcvm_around x;
    size_t top;
    char *scratch;
    size_t scratch_each;
    uint32_t status; /* atomic; of the worker that stopped */
} selection;

static void select_rows(void *context, size_t begin, size_t end, int worker)
{
    selection *s = context;
    size_t n = s->x.dim, size = xcvm_dtype_size(s->a->x->dtype);
    uint64_t *keys = (uint64_t *)(void *)(s->scratch + (size_t)worker * s->scratch_each);
    candidate *heap = (candidate *)(void *)(keys + n);
    size_t since = 0;
    for (size_t row = begin; row < end; row++) {
        since += n;
        if (since > 1 << 18) {
            since = 0;
            xcvm_status status = xcvm_kernel_poll(s->k);
            if (status != XCVM_OK) {
                __atomic_store_n(&s->status, (uint32_t)status, __ATOMIC_RELAXED);
                return;
            }
        }
        size_t outer = row / s->x.inner, inner = row % s->x.inner, first = outer * n * s->x.inner + inner;
        if (s->a->x->dtype == XCVM_F32 && s->x.inner == 1) {
            select_top_f32(s->a, first, n, keys, heap, s->top);
        } else {
            find_keys(s->a, first, s->x.inner, n, keys);
            select_top(keys, n, heap, s->top);
        }
        for (size_t i = 0; i < s->top; i++) {
            size_t to = (outer * s->top + i) * s->x.inner + inner, from = first + heap[i].index * s->x.inner;
            if (s->a->values != NULL)
                xcvm_move_element(XCVM_DATA(char, s->a->values) + to * size, XCVM_CDATA(char, s->a->x) + from * size,
                                  size);
            if (s->a->indices != NULL)
                XCVM_DATA(int64_t, s->a->indices)[to] = (int64_t)heap[i].index;
        }
    }
}

XCVM_KERNEL(TopK)
{
    int axis;
    int64_t top;
    XCVM_TRY(xcvm_resolve_axis(k->error, a->axis, a->x->rank, &axis));
    XCVM_TRY(xcvm_read_int(k->error, a->k, "k", &top));
    selection s = {.k = k, .a = a, .x = xcvm_around_axis(a->x, axis), .top = (size_t)top};
    size_t rows = s.x.outer * s.x.inner;
    if (rows == 0 || top == 0)
        return XCVM_OK;
    s.scratch_each = xcvm_round_up(s.x.dim * sizeof(uint64_t) + s.top * sizeof(candidate), XCVM_ALIGNMENT);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(s.scratch_each, (size_t)xcvm_threads_count(k->threads), &bytes), OUT_OF_RANGE,
               "x is too large");
    s.scratch = xcvm_kernel_scratch(k, bytes);
    if (s.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    xcvm_parallel(k->threads, rows, 16384 / s.x.dim + 1, select_rows, &s);
    return (xcvm_status)__atomic_load_n(&s.status, __ATOMIC_RELAXED);
}
