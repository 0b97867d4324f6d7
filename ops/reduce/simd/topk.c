/* TopK: the best so far in a heap, the last of them at its top, which few elements are better than. */
#include "ops/index.h"
#include "ops/move.h"
#include "ops/order.h"

enum { SINK_STEPS = 16, MOST_SORTED = 1 << 21 };

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

static void make_heap(const uint64_t *keys, candidate *heap, size_t k, xcvm_poller *poller)
{
    for (size_t i = 0; i < k; i++)
        heap[i] = (candidate){keys[i], i};
    for (size_t i = k / 2; i-- > 0 && xcvm_poll_after(poller, 1) == XCVM_OK;)
        sink(heap, k, i);
}

/* Fails when time is up. */
static xcvm_status consider(uint64_t key, size_t i, candidate *heap, size_t k, xcvm_poller *poller)
{
    if (key <= heap[0].key)
        return XCVM_OK;
    heap[0] = (candidate){key, i};
    sink(heap, k, 0);
    return xcvm_poll_after(poller, SINK_STEPS);
}

/* From a heap to the order of the results. */
static void sort_heap(candidate *heap, size_t k, xcvm_poller *poller)
{
    for (size_t left = k; left > 1 && xcvm_poll_after(poller, SINK_STEPS) == XCVM_OK; left--) {
        candidate last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sink(heap, left - 1, 0);
    }
}

/* The k first of n, in order. */
static void select_top(const uint64_t *keys, size_t n, candidate *heap, size_t k, xcvm_poller *poller)
{
    make_heap(keys, heap, k, poller);
    for (size_t i = k; i < n && consider(keys[i], i, heap, k, poller) == XCVM_OK; i++)
        continue;
    sort_heap(heap, k, poller);
}

/* The keys of `count` elements, the first to be selected with the greatest. */
static void find_keys(const xcvm_TopK_args *a, size_t first, size_t stride, size_t count, uint64_t *keys)
{
    xcvm_order_keys(a->x, first, stride, count, keys);
    for (size_t i = 0; !a->largest && i < count; i++)
        keys[i] = ~keys[i];
}

/* Of adjacent elements keys are found of those alone that may be better than the last of the best: greater (less), or
 * NaN, or anything where that last is NaN. */
enum { AT_ONCE = 64 };
#define DEFINE_SELECT(name, type)                                                                                      \
    static inline __attribute__((always_inline)) bool better_##name(type x, type last, const bool largest)             \
    {                                                                                                                  \
        return largest ? !(x <= last) : !(x >= last);                                                                  \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void scan_##name(const xcvm_TopK_args *a, size_t first, size_t n,     \
                                                                  candidate *heap, size_t k, const bool largest,       \
                                                                  xcvm_poller *poller)                                 \
    {                                                                                                                  \
        const type *x = XCVM_CDATA(type, a->x) + first;                                                                \
        for (size_t i = k; i < n && xcvm_poll_after(poller, AT_ONCE) == XCVM_OK; i += AT_ONCE) {                       \
            const size_t count = n - i < AT_ONCE ? n - i : AT_ONCE;                                                    \
            type last = x[heap[0].index];                                                                              \
            int any = 0;                                                                                               \
            for (size_t j = 0; j < count; j++)                                                                         \
                any |= better_##name(x[i + j], last, largest);                                                         \
            for (size_t j = 0; j < count && any != 0; j++)                                                             \
                if (better_##name(x[i + j], last, largest)) {                                                          \
                    uint64_t key;                                                                                      \
                    find_keys(a, first + i + j, 1, 1, &key);                                                           \
                    if (consider(key, i + j, heap, k, poller) != XCVM_OK)                                              \
                        return;                                                                                        \
                    last = x[heap[0].index];                                                                           \
                }                                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void select_##name(const xcvm_TopK_args *a, size_t first, size_t n, candidate *heap, size_t k,              \
                              xcvm_poller *poller)                                                                     \
    {                                                                                                                  \
        if (a->largest)                                                                                                \
            scan_##name(a, first, n, heap, k, true, poller);                                                           \
        else                                                                                                           \
            scan_##name(a, first, n, heap, k, false, poller);                                                          \
    }
DEFINE_SELECT(f32, float)
DEFINE_SELECT(f64, double)
DEFINE_SELECT(i32, int32_t)
DEFINE_SELECT(i64, int64_t)

/* The k first of n adjacent elements, in order; false where the type is none of these. */
static bool select_adjacent(const xcvm_TopK_args *a, size_t first, size_t n, uint64_t *keys, candidate *heap, size_t k,
                            xcvm_poller *poller)
{
    void (*scan)(const xcvm_TopK_args *, size_t, size_t, candidate *, size_t, xcvm_poller *) = NULL;
    switch ((xcvm_dtype)a->x->dtype) {
    case XCVM_F32:
        scan = select_f32;
        break;
    case XCVM_F64:
        scan = select_f64;
        break;
    case XCVM_I32:
        scan = select_i32;
        break;
    case XCVM_I64:
        scan = select_i64;
        break;
    default:
        return false;
    }
    find_keys(a, first, 1, k, keys);
    make_heap(keys, heap, k, poller);
    scan(a, first, n, heap, k, poller);
    sort_heap(heap, k, poller);
    return true;
}

/* Candidates of all keys in the order of the results, by their bytes from the least on; bytes that are the same in all
 * keys are left out. Which of `a` and `b`, n entries each, they are in; NULL when time is up. */
static candidate *sort_all(const uint64_t *keys, size_t n, candidate *a, candidate *b, xcvm_poller *poller)
{
    for (size_t i = 0; i < n; i++)
        a[i] = (candidate){keys[i], i};
    for (int shift = 0; shift < 64; shift += 8) {
        size_t place[256] = {0};
        for (size_t i = 0; i < n; i++) {
            if (xcvm_poll_after(poller, 1) != XCVM_OK)
                return NULL;
            place[255 - (keys[i] >> shift & 255)]++;
        }
        if (place[255 - (keys[0] >> shift & 255)] == n)
            continue;
        for (size_t i = 0, sum = 0; i < 256; i++) {
            const size_t count = place[i];
            place[i] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++) {
            if (xcvm_poll_after(poller, 1) != XCVM_OK)
                return NULL;
            b[place[255 - (a[i].key >> shift & 255)]++] = a[i];
        }
        candidate *other = a;
        a = b;
        b = other;
    }
    return a;
}

/* Whether so many are wanted that all are sorted. Candidates of very long rows take more memory than there should be to
 * get at once. */
static bool wants_most(size_t n, size_t k) { return k >= 64 && k > n / 4 && n <= MOST_SORTED; }

typedef struct selection {
    xcvm_kernel *k;
    const xcvm_TopK_args *a;
    xcvm_around x;
    size_t top;
    char *scratch;
    size_t scratch_each;
} selection;

static void select_rows(void *context, size_t begin, size_t end, int worker)
{
    const selection *s = context;
    size_t n = s->x.dim, size = xcvm_dtype_size(s->a->x->dtype);
    uint64_t *keys = (uint64_t *)(void *)(s->scratch + (size_t)worker * s->scratch_each);
    candidate *heap = (candidate *)(void *)(keys + n);
    xcvm_poller poller = xcvm_poller_of(s->k);
    for (size_t row = begin; row < end; row++) {
        if (xcvm_poll_after(&poller, n + s->top) != XCVM_OK)
            return;
        size_t outer = row / s->x.inner, inner = row % s->x.inner, first = outer * n * s->x.inner + inner;
        const candidate *best = heap;
        if (wants_most(n, s->top)) {
            find_keys(s->a, first, s->x.inner, n, keys);
            best = sort_all(keys, n, heap, heap + n, &poller);
        } else if (s->x.inner != 1 || !select_adjacent(s->a, first, n, keys, heap, s->top, &poller)) {
            find_keys(s->a, first, s->x.inner, n, keys);
            select_top(keys, n, heap, s->top, &poller);
        }
        if (xcvm_poll_after(&poller, 1) != XCVM_OK)
            return;
        for (size_t i = 0; i < s->top; i++) {
            size_t to = (outer * s->top + i) * s->x.inner + inner, from = first + best[i].index * s->x.inner;
            if (s->a->values != NULL)
                xcvm_move_element(XCVM_DATA(char, s->a->values) + to * size, XCVM_CDATA(char, s->a->x) + from * size,
                                  size);
            if (s->a->indices != NULL)
                XCVM_DATA(int64_t, s->a->indices)[to] = (int64_t)best[i].index;
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
    const size_t candidates = wants_most(s.x.dim, s.top) ? 2 * s.x.dim : s.top;
    s.scratch_each = xcvm_round_up(s.x.dim * sizeof(uint64_t) + candidates * sizeof(candidate), XCVM_ALIGNMENT);
    /* What is too little for two threads runs on the first alone. */
    const size_t grain = 16384 / s.x.dim + 1, workers = rows / grain <= 1 ? 1 : (size_t)xcvm_threads_count(k->threads);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(s.scratch_each, workers, &bytes), OUT_OF_RANGE, "x is too large");
    s.scratch = xcvm_kernel_scratch(k, bytes);
    if (s.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    return xcvm_kernel_parallel(k, rows, grain, select_rows, &s);
}
