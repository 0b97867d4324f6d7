#include "ops/index.h"
#include "ops/move.h"
#include "ops/order.h"

XCVM_SHAPE_RULE_OF(TopK)
{
    const xcvm_value *x = a->x;
    int64_t k = XCVM_ANY_DIM, dims[XCVM_MAX_RANK];
    xcvm_value *results[2] = {a->values, a->indices};
    int axis = 0;
    bool known;
    XCVM_TRY(xcvm_scalar_check(t->error, a->k, "k", &known));
    if (x->rank >= 0) {
        XCVM_TRY(xcvm_resolve_axis(t->error, a->axis, x->rank, &axis));
        memcpy(dims, x->dims, sizeof dims);
    }
    if (known) {
        k = xcvm_element_as_int(a->k, 0);
        XCVM_REQUIRE(t, k >= 0 && (x->rank < 0 || x->dims[axis] < 0 || k <= x->dims[axis]), OUT_OF_RANGE,
                     "k is %lld, the dimension is %lld", (long long)k, x->rank < 0 ? -1LL : (long long)x->dims[axis]);
    }
    dims[axis] = k;
    for (int i = 0; i < 2; i++)
        if (results[i] != NULL)
            xcvm_value_set_tensor(results[i], i == 0 ? x->dtype : XCVM_I64, x->rank, dims);
    return XCVM_OK;
}

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

/* The k first of n, in order. */
static void select_top(const uint64_t *keys, size_t n, candidate *heap, size_t k, xcvm_poller *poller)
{
    enum { SINK_STEPS = 16 };
    for (size_t i = 0; i < k; i++)
        heap[i] = (candidate){keys[i], i};
    for (size_t i = k / 2; i-- > 0 && xcvm_poll_after(poller, 1) == XCVM_OK;)
        sink(heap, k, i);
    for (size_t i = k; i < n; i++)
        if (keys[i] > heap[0].key) {
            heap[0] = (candidate){keys[i], i};
            sink(heap, k, 0);
            if (xcvm_poll_after(poller, SINK_STEPS) != XCVM_OK)
                return;
        }
    for (size_t left = k; left > 1 && xcvm_poll_after(poller, SINK_STEPS) == XCVM_OK; left--) {
        candidate last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sink(heap, left - 1, 0);
    }
}

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
        xcvm_order_keys(s->a->x, first, s->x.inner, n, keys);
        for (size_t i = 0; !s->a->largest && i < n; i++)
            keys[i] = ~keys[i];
        select_top(keys, n, heap, s->top, &poller);
        if (xcvm_poll_after(&poller, 1) != XCVM_OK)
            return;
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
    return xcvm_kernel_parallel(k, rows, 16384 / s.x.dim + 1, select_rows, &s);
}
