/* TopK: a heap selects few of many; if most are selected, rows are sorted; columns are copied first. */
#include "ops/util/index.h"
#include "ops/util/move.h"
#include "ops/util/order.h"

enum { SINK_STEPS = 16, MOST_SORTED = 1 << 21 };

typedef struct candidate {
    uint64_t key;
    size_t index;
} candidate;

/* Returns true if a sorts after b: a lower key, or an equal key at a higher index. */
static bool behind(candidate a, candidate b) { return a.key < b.key || (a.key == b.key && a.index > b.index); }

/* Sifts down the candidate at `at`. The root is the one that sorts last. */
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

/* Sorts a heap into result order. */
static void sort_heap(candidate *heap, size_t k, xcvm_poller *poller)
{
    for (size_t left = k; left > 1 && xcvm_poll_after(poller, SINK_STEPS) == XCVM_OK; left--) {
        candidate last = heap[0];
        heap[0] = heap[left - 1];
        heap[left - 1] = last;
        sink(heap, left - 1, 0);
    }
}

/* Selects the first k of n, in order. */
static void select_top(const uint64_t *keys, size_t n, candidate *heap, size_t k, xcvm_poller *poller)
{
    make_heap(keys, heap, k, poller);
    for (size_t i = k; i < n && consider(keys[i], i, heap, k, poller) == XCVM_OK; i++)
        continue;
    sort_heap(heap, k, poller);
}

/* Computes the keys of `count` elements; the first to be selected has the largest. */
static void find_keys(const xcvm_TopK_args *a, size_t first, size_t stride, size_t count, uint64_t *keys)
{
    xcvm_order_keys(a->x, first, stride, count, keys);
    for (size_t i = 0; !a->largest && i < count; i++)
        keys[i] = ~keys[i];
}

/* ---- Some of a row ----
 *
 * The best so far are kept sorted. Elements better than the last of them are collected without a branch, which would be
 * unpredictable, until they are k or a few more. Then these are sorted and both lists are merged. */

enum { LEAST_GATHERED = 17, MOST_GATHERED = 1024, LONGEST_KEYS = 16 * 1024, AT_ONCE = 64 };

/* For very long rows, the heap's always current bound leaves fewer candidates. */
static bool is_gathered(size_t n, size_t k)
{
    return k >= LEAST_GATHERED && k <= MOST_GATHERED && n / MOST_GATHERED <= k;
}

/* Merges sorted a and b to at most `count`; for equal keys a comes first. */
static void merge(const candidate *a, size_t a_count, const candidate *b, size_t b_count, candidate *to, size_t count)
{
    const candidate *const a_end = a + a_count, *const b_end = b + b_count, *const end = to + count;
    while (to < end && a < a_end && b < b_end) {
        /* Pointer arithmetic that compilers do not turn into a branch. */
        const uintptr_t second = b->key > a->key, either = (uintptr_t)a ^ (uintptr_t)b;
        *to++ = *(const candidate *)((uintptr_t)a ^ (either & (0 - second)));
        a += 1 - second;
        b += second;
    }
    while (to < end && a < a_end)
        *to++ = *a++;
    while (to < end && b < b_end)
        *to++ = *b++;
}

enum { RUN = 8 };
/* Sorts up to RUN candidates: each goes to the index given by the number of candidates before it. */
static inline __attribute__((always_inline)) void sort_run(const candidate *from, const size_t count, candidate *to)
{
    uint64_t keys[RUN] = {0}, before[RUN] = {0};
    for (size_t i = 0; i < count; i++)
        keys[i] = from[i].key;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            before[j] += (keys[i] > keys[j]) | ((keys[i] == keys[j]) & (i < j));
    for (size_t i = 0; i < count; i++)
        to[before[i]] = from[i];
}

/* Sorts candidates stably and returns the buffer, one of both, with the result. */
static candidate *sort_gathered(candidate *from, candidate *to, size_t count, xcvm_poller *poller)
{
    size_t done = 0;
    for (; done + RUN <= count; done += RUN)
        sort_run(from + done, RUN, to + done);
    sort_run(from + done, count - done, to + done);
    for (size_t width = RUN; width < count && xcvm_poll_after(poller, count) == XCVM_OK; width *= 2) {
        candidate *other = from;
        from = to;
        to = other;
        for (size_t i = 0; i < count; i += 2 * width) {
            const size_t first = xcvm_min(count - i, width), both = xcvm_min(count - i, 2 * width);
            merge(from + i, first, from + i + first, both - first, to + i, both);
        }
    }
    return to;
}

/* The k best so far, and the collected candidates. */
typedef struct gathering {
    candidate *best, *merged, *gathered, *spare;
    size_t k, kept, count;
    uint64_t bound; /* the last key of the best */
    xcvm_poller *poller;
} gathering;

/* Candidates that must fit in the buffers. */
static size_t gathered_room(size_t k) { return 4 * k + 2 * AT_ONCE; }

/* Merges the collected candidates into the best. */
static void merge_gathered(gathering *g)
{
    const candidate *more = sort_gathered(g->gathered, g->spare, g->count, g->poller);
    merge(g->best, g->kept, more, g->count, g->merged, g->k);
    memcpy(g->best, g->merged, g->k * sizeof *g->best);
    g->bound = g->best[g->k - 1].key;
    g->kept = g->k;
    g->count = 0;
}

/* Starts with the first k elements, whose keys are given. */
static gathering gather_first(const uint64_t *keys, candidate *room, size_t k, xcvm_poller *poller)
{
    gathering g = {.best = room, .merged = room + k, .gathered = room + 2 * k, .k = k, .count = k, .poller = poller};
    g.spare = g.gathered + k + AT_ONCE;
    for (size_t i = 0; i < k; i++)
        g.gathered[i] = (candidate){keys[i], i};
    merge_gathered(&g);
    return g;
}

/* Adds an element if it is good enough. At most AT_ONCE calls are allowed between merges. */
static inline void offer(gathering *g, uint64_t key, size_t index)
{
    g->gathered[g->count] = (candidate){key, index};
    g->count += key > g->bound;
}

/* Selects the first k of n, in order. */
static void select_gathered(const uint64_t *keys, size_t n, candidate *room, size_t k, xcvm_poller *poller)
{
    gathering g = gather_first(keys, room, k, poller);
    for (size_t i = k, end; i < n; i = end) {
        end = i + xcvm_min(n - i, AT_ONCE);
        for (size_t j = i; j < end; j++)
            offer(&g, keys[j], j);
        if (g.count >= k)
            merge_gathered(&g);
    }
    merge_gathered(&g);
}

/* ---- Adjacent elements ---- */

/* For adjacent elements, keys are computed only for those that may be better than the last of the best: larger
 * (smaller), or NaN, or any if that last one is NaN. */
#define DEFINE_SELECT(name, type)                                                                                      \
    static inline __attribute__((always_inline)) bool better_##name(type x, type last, const bool largest)             \
    {                                                                                                                  \
        return largest ? !(x <= last) : !(x >= last);                                                                  \
    }                                                                                                                  \
    static inline                                                                                                      \
        __attribute__((always_inline)) int any_##name(const type *x, size_t count, type last, const bool largest)      \
    {                                                                                                                  \
        int any = 0;                                                                                                   \
        if (count == AT_ONCE)                                                                                          \
            for (size_t j = 0; j < AT_ONCE; j++)                                                                       \
                any |= better_##name(x[j], last, largest);                                                             \
        else                                                                                                           \
            for (size_t j = 0; j < count; j++)                                                                         \
                any |= better_##name(x[j], last, largest);                                                             \
        return any;                                                                                                    \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void scan_##name(const xcvm_TopK_args *a, size_t first, size_t n,     \
                                                                  candidate *heap, size_t k, const bool largest,       \
                                                                  xcvm_poller *poller)                                 \
    {                                                                                                                  \
        const type *x = XCVM_CDATA(type, a->x) + first;                                                                \
        for (size_t i = k; i < n && xcvm_poll_after(poller, AT_ONCE) == XCVM_OK; i += AT_ONCE) {                       \
            const size_t count = n - i < AT_ONCE ? n - i : AT_ONCE;                                                    \
            type last = x[heap[0].index];                                                                              \
            const int any = any_##name(x + i, count, last, largest);                                                   \
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
    static inline __attribute__((always_inline)) void gather_##name(const xcvm_TopK_args *a, size_t first, size_t n,   \
                                                                    gathering *g, const bool largest)                  \
    {                                                                                                                  \
        const type *x = XCVM_CDATA(type, a->x) + first;                                                                \
        for (size_t i = g->k; i < n && xcvm_poll_after(g->poller, AT_ONCE) == XCVM_OK; i += AT_ONCE) {                 \
            const size_t count = n - i < AT_ONCE ? n - i : AT_ONCE;                                                    \
            const type last = x[g->best[g->k - 1].index];                                                              \
            size_t places[AT_ONCE], found = 0;                                                                         \
            const int any = any_##name(x + i, count, last, largest);                                                   \
            for (size_t j = 0; j < count && any != 0; j++) {                                                           \
                places[found] = i + j;                                                                                 \
                found += better_##name(x[i + j], last, largest);                                                       \
            }                                                                                                          \
            for (size_t j = 0; j < found; j++) {                                                                       \
                uint64_t key;                                                                                          \
                find_keys(a, first + places[j], 1, 1, &key);                                                           \
                offer(g, key, places[j]);                                                                              \
            }                                                                                                          \
            if (g->count >= g->k)                                                                                      \
                merge_gathered(g);                                                                                     \
        }                                                                                                              \
        merge_gathered(g);                                                                                             \
    }                                                                                                                  \
    static void select_##name(const xcvm_TopK_args *a, size_t first, size_t n, candidate *heap, size_t k,              \
                              xcvm_poller *poller)                                                                     \
    {                                                                                                                  \
        if (a->largest)                                                                                                \
            scan_##name(a, first, n, heap, k, true, poller);                                                           \
        else                                                                                                           \
            scan_##name(a, first, n, heap, k, false, poller);                                                          \
    }                                                                                                                  \
    static void collect_##name(const xcvm_TopK_args *a, size_t first, size_t n, gathering *g)                          \
    {                                                                                                                  \
        if (a->largest)                                                                                                \
            gather_##name(a, first, n, g, true);                                                                       \
        else                                                                                                           \
            gather_##name(a, first, n, g, false);                                                                      \
    }
DEFINE_SELECT(f32, float)
DEFINE_SELECT(f64, double)
DEFINE_SELECT(i32, int32_t)
DEFINE_SELECT(i64, int64_t)

/* ---- A few of a row ----
 *
 * A row's element i belongs to group i modulo GROUPS. The best of each group include at least k elements no worse than
 * the k-th best group maximum, so this is a bound for the k best of the row that few other elements reach. */

enum {
    GROUPS = 32,
    FEW = LEAST_GATHERED - 1, /* maximum k for this method */
    ROW_LEAST = 256,
    CANDIDATES = 128 /* if more elements reach the bound, the heap is faster */
};

/* Lists the positions of elements that reach the bound, at most CANDIDATES, in *found; GROUPS divides `count`. Returns
 * -1 if there are more, or a NaN. */
#define DEFINE_REACH(name, type, better)                                                                               \
    static type bound_##name(const type best[GROUPS], size_t k)                                                        \
    {                                                                                                                  \
        int32_t before[GROUPS] = {0};                                                                                  \
        for (size_t i = 0; i < GROUPS; i++)                                                                            \
            for (size_t j = 0; j < GROUPS; j++)                                                                        \
                before[j] += best[i] better best[j];                                                                   \
        type bound = best[0];                                                                                          \
        int32_t most = -1;                                                                                             \
        for (size_t j = 0; j < GROUPS; j++)                                                                            \
            if (before[j] < (int32_t)k && before[j] > most) {                                                          \
                most = before[j];                                                                                      \
                bound = best[j];                                                                                       \
            }                                                                                                          \
        return bound;                                                                                                  \
    }                                                                                                                  \
    static int reach_##name(const type *x, size_t n, size_t k, int32_t found[CANDIDATES])                              \
    {                                                                                                                  \
        type best[GROUPS];                                                                                             \
        int odd[GROUPS] = {0}, count = 0;                                                                              \
        const size_t even = n / GROUPS * GROUPS;                                                                       \
        memcpy(best, x, sizeof best);                                                                                  \
        for (size_t i = 0; i < even; i += GROUPS)                                                                      \
            for (size_t j = 0; j < GROUPS; j++) {                                                                      \
                const type v = x[i + j];                                                                               \
                odd[j] |= v != v;                                                                                      \
                best[j] = v better best[j] ? v : best[j];                                                              \
            }                                                                                                          \
        for (size_t i = even; i < n; i++)                                                                              \
            odd[0] |= x[i] != x[i];                                                                                    \
        for (size_t j = 1; j < GROUPS; j++)                                                                            \
            odd[0] |= odd[j];                                                                                          \
        if (odd[0])                                                                                                    \
            return -1;                                                                                                 \
        const type bound = bound_##name(best, k);                                                                      \
        for (size_t i = 0; i < n; i += GROUPS) {                                                                       \
            const size_t length = n - i < GROUPS ? n - i : GROUPS;                                                     \
            int any = length < GROUPS;                                                                                 \
            for (size_t j = 0; j < GROUPS && length == GROUPS; j++)                                                    \
                any |= !(bound better x[i + j]);                                                                       \
            if (!any)                                                                                                  \
                continue;                                                                                              \
            if (count + GROUPS > CANDIDATES)                                                                           \
                return -1;                                                                                             \
            for (size_t j = 0; j < length; j++) {                                                                      \
                found[count] = (int32_t)(i + j);                                                                       \
                count += !(bound better x[i + j]);                                                                     \
            }                                                                                                          \
        }                                                                                                              \
        return count;                                                                                                  \
    }
DEFINE_REACH(greatest_f32, float, >)
DEFINE_REACH(greatest_f64, double, >)
DEFINE_REACH(greatest_i32, int32_t, >)
DEFINE_REACH(greatest_i64, int64_t, >)
DEFINE_REACH(least_f32, float, <)
DEFINE_REACH(least_f64, double, <)
DEFINE_REACH(least_i32, int32_t, <)
DEFINE_REACH(least_i64, int64_t, <)

static int reach(const xcvm_TopK_args *a, size_t first, size_t n, size_t k, int32_t found[CANDIDATES])
{
#define REACH(name, type)                                                                                              \
    a->largest ? reach_greatest_##name(XCVM_CDATA(type, a->x) + first, n, k, found)                                    \
               : reach_least_##name(XCVM_CDATA(type, a->x) + first, n, k, found)
    switch ((xcvm_dtype)a->x->dtype) {
    case XCVM_F32:
        return REACH(f32, float);
    case XCVM_F64:
        return REACH(f64, double);
    case XCVM_I32:
        return REACH(i32, int32_t);
    case XCVM_I64:
        return REACH(i64, int64_t);
    default:
        return -1;
    }
}

/* Selects the first k of n adjacent elements, in order, by groups if possible. */
static bool select_few(const xcvm_TopK_args *a, size_t first, size_t n, candidate *best, size_t k)
{
    int32_t found[CANDIDATES];
    const int count = k <= FEW && n >= ROW_LEAST && n <= XCVM_POLL_STEPS ? reach(a, first, n, k, found) : -1;
    if (count < (int)k)
        return false;
    size_t kept = 0;
    for (int i = 0; i < count; i++) {
        candidate c = {.index = (size_t)found[i]};
        find_keys(a, first + c.index, 1, 1, &c.key);
        if (kept == k && c.key <= best[k - 1].key)
            continue;
        size_t at = kept < k ? kept++ : k - 1;
        for (; at > 0 && best[at - 1].key < c.key; at--)
            best[at] = best[at - 1];
        best[at] = c;
    }
    return true;
}

/* Selects the first k of n adjacent elements, in order. Returns false for other types. */
static bool select_adjacent(const xcvm_TopK_args *a, size_t first, size_t n, uint64_t *keys, candidate *heap, size_t k,
                            xcvm_poller *poller)
{
    void (*scan)(const xcvm_TopK_args *, size_t, size_t, candidate *, size_t, xcvm_poller *) = NULL;
    void (*collect)(const xcvm_TopK_args *, size_t, size_t, gathering *) = NULL;
    switch ((xcvm_dtype)a->x->dtype) {
    case XCVM_F32:
        scan = select_f32;
        collect = collect_f32;
        break;
    case XCVM_F64:
        scan = select_f64;
        collect = collect_f64;
        break;
    case XCVM_I32:
        scan = select_i32;
        collect = collect_i32;
        break;
    case XCVM_I64:
        scan = select_i64;
        collect = collect_i64;
        break;
    default:
        return false;
    }
    if (select_few(a, first, n, heap, k))
        return true;
    find_keys(a, first, 1, k, keys);
    if (is_gathered(n, k)) {
        gathering g = gather_first(keys, heap, k, poller);
        collect(a, first, n, &g);
        return true;
    }
    make_heap(keys, heap, k, poller);
    scan(a, first, n, heap, k, poller);
    sort_heap(heap, k, poller);
    return true;
}

/* Radix sort of candidates of all keys in result order, skipping bytes that are equal in all keys. Returns `a` or `b`,
 * of n entries each, which has the result; NULL when time is up. */
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

/* Returns true if so many are selected that all are sorted. For very long rows, the candidates would take too much
 * memory. */
static bool wants_most(size_t n, size_t k) { return k >= 64 && k > n / 4 && n <= MOST_SORTED; }

typedef struct selection {
    xcvm_kernel *k;
    const xcvm_TopK_args *a;
    xcvm_around x;
    size_t top, candidates;
    /* Columns copied together so that each is contiguous, and the distance between the copies; 0: columns are not
     * copied. */
    size_t columns, pitch;
    char *scratch;
    size_t scratch_each;
} selection;

/* Selects the best of the elements of a->x from `first`, `stride` apart. */
static const candidate *select_best(const selection *s, const xcvm_TopK_args *a, size_t first, size_t stride,
                                    uint64_t *keys, xcvm_poller *poller)
{
    const size_t n = s->x.dim;
    candidate *heap = (candidate *)(void *)(keys + n);
    if (wants_most(n, s->top)) {
        find_keys(a, first, stride, n, keys);
        return sort_all(keys, n, heap, heap + n, poller);
    }
    if (stride == 1 && select_adjacent(a, first, n, keys, heap, s->top, poller))
        return heap;
    find_keys(a, first, stride, n, keys);
    if (is_gathered(n, s->top) && n <= LONGEST_KEYS)
        select_gathered(keys, n, heap, s->top, poller);
    else
        select_top(keys, n, heap, s->top, poller);
    return heap;
}

/* Writes the results of row `inner` of `outer`. */
static void put_best(const selection *s, size_t outer, size_t inner, const candidate *best)
{
    const size_t size = xcvm_dtype_size(s->a->x->dtype), first = outer * s->x.dim * s->x.inner + inner;
    for (size_t i = 0; i < s->top; i++) {
        size_t to = (outer * s->top + i) * s->x.inner + inner, from = first + best[i].index * s->x.inner;
        if (s->a->values != NULL)
            xcvm_move_element(XCVM_DATA(char, s->a->values) + to * size, XCVM_CDATA(char, s->a->x) + from * size, size);
        if (s->a->indices != NULL)
            XCVM_DATA(int64_t, s->a->indices)[to] = (int64_t)best[i].index;
    }
}

/* Copies adjacent columns, one line of each row at a time. */
static void copy_columns(const selection *s, const void *from, size_t columns, void *to)
{
    typedef uint32_t __attribute__((may_alias)) word;
    typedef uint64_t __attribute__((may_alias)) long_word;
#define COPY(type)                                                                                                     \
    for (size_t i = 0; i < s->x.dim; i++)                                                                              \
        for (size_t c = 0; c < columns; c++)                                                                           \
            ((type *)to)[c * s->pitch + i] = ((const type *)from)[i * s->x.inner + c];                                 \
    break
    switch (xcvm_dtype_size(s->a->x->dtype)) {
    case 1:
        COPY(uint8_t);
    case 2:
        COPY(uint16_t);
    case 4:
        COPY(word);
    default:
        COPY(long_word);
    }
#undef COPY
}

static void select_rows(void *context, size_t begin, size_t end, int worker)
{
    const selection *s = context;
    const size_t n = s->x.dim, size = xcvm_dtype_size(s->a->x->dtype);
    uint64_t *keys = (uint64_t *)(void *)(s->scratch + (size_t)worker * s->scratch_each);
    xcvm_value copies = {.kind = XCVM_KIND_TENSOR, .dtype = s->a->x->dtype, .rank = 1};
    copies.data = (candidate *)(void *)(keys + n) + s->candidates;
    xcvm_TopK_args copied = *s->a;
    copied.x = &copies;
    xcvm_poller poller = xcvm_poller_of(s->k);
    for (size_t row = begin, columns; row < end; row += columns) {
        const size_t outer = row / s->x.inner, inner = row % s->x.inner, first = outer * n * s->x.inner + inner;
        columns = s->columns == 0 ? 1 : xcvm_min(xcvm_min(s->columns, s->x.inner - inner), end - row);
        if (xcvm_poll_after(&poller, (n + s->top) * columns) != XCVM_OK)
            return;
        if (s->columns != 0)
            copy_columns(s, XCVM_CDATA(char, s->a->x) + first * size, columns, copies.data);
        for (size_t c = 0; c < columns; c++) {
            const candidate *best = s->columns != 0 ? select_best(s, &copied, c * s->pitch, 1, keys, &poller)
                                                    : select_best(s, s->a, first, s->x.inner, keys, &poller);
            if (xcvm_poll_after(&poller, 1) != XCVM_OK)
                return;
            put_best(s, outer, inner + c, best);
        }
    }
}

/* Short columns are copied several at a time: each element of a column is in a separate cache line, which is then read
 * only once. */
static void choose_columns(selection *s)
{
    enum { COLUMNS = 8, LONGEST = 8192, LINE = 64 };
    const size_t size = xcvm_dtype_size(s->a->x->dtype);
    s->columns = s->x.inner > 1 && s->x.dim <= LONGEST ? xcvm_min(COLUMNS, s->x.inner) : 0;
    s->pitch = s->x.dim + LINE / size; /* not a power of two, to avoid conflicts in cache sets */
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
    choose_columns(&s);
    s.candidates = wants_most(s.x.dim, s.top)    ? 2 * s.x.dim
                   : is_gathered(s.x.dim, s.top) ? gathered_room(s.top)
                                                 : s.top;
    s.scratch_each = xcvm_round_up(s.x.dim * sizeof(uint64_t) + s.candidates * sizeof(candidate) +
                                       s.columns * s.pitch * xcvm_dtype_size(a->x->dtype),
                                   XCVM_ALIGNMENT);
    /* Work that is too little for two threads runs on the first one. */
    const size_t grain = 16384 / s.x.dim + 1, workers = rows / grain <= 1 ? 1 : (size_t)xcvm_threads_count(k->threads);
    size_t bytes;
    XCVM_CHECK(k->error, xcvm_size_mul(s.scratch_each, workers, &bytes), OUT_OF_RANGE, "x is too large");
    s.scratch = xcvm_kernel_scratch(k, bytes);
    if (s.scratch == NULL)
        return XCVM_OUT_OF_MEMORY;
    return xcvm_kernel_parallel(k, rows, grain, select_rows, &s);
}
