/* The session heap: size-class free lists, accounting, and the memory limit. */
#include "base/heap.h"

#if defined(__SANITIZE_ADDRESS__)
#define POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON 1
#endif
#endif
/* With AddressSanitizer, storage has exactly the requested size and the rest of its block is poisoned. */
#ifdef POISON
#include <sanitizer/asan_interface.h>
#define IS_EXACT true
#else
#define IS_EXACT false
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* Header before the payload of each block. */
typedef struct block {
    xcvm_storage storage;
    size_t capacity;  /* bytes of the payload */
    size_t requested; /* requested bytes, which count as live */
    bool mapped;      /* mapped separately, and unmapped as soon as it is free */
    struct block *next;
} block;

enum {
    HEADER = (sizeof(block) + XCVM_ALIGNMENT - 1) / XCVM_ALIGNMENT * XCVM_ALIGNMENT,
    PAGE = 4096,
    /* Above this size blocks are rounded to pages and zeros are mapped. Below it, each power of two has STEPS sizes. */
    LARGE = 256 * 1024,
    STEPS = 8,
    BINS = 64 * STEPS,
    /* Maximum number of blocks in a bin that are tried before a new one is allocated. */
    PATIENCE = 32
};

struct xcvm_heap {
    xcvm_allocator allocator;
    size_t limit;
    size_t live;      /* bytes requested by retained storages */
    size_t accounted; /* bytes counted from outside the heap */
    size_t peak;      /* maximum of live + accounted */
    size_t reserved;  /* bytes taken from the allocator */
    size_t cached;    /* bytes of `reserved` in free blocks */
    size_t held;      /* number of storages that are not released */
    bool destroyed;
    xcvm_heap_reclaim reclaim; /* NULL: no reclaim callback */
    void *reclaim_user;
    block *bins[BINS];
};

/* Returns the bin of blocks of `capacity` bytes, a multiple of 64. Capacities in one bin differ by less than an eighth.
 */
static size_t bin_of(size_t capacity)
{
    size_t units = capacity / XCVM_ALIGNMENT;
    if (units < STEPS)
        return units;
    size_t shift = 63 - (size_t)__builtin_clzll(units) - 3;
    return (shift + 1) * STEPS + (units >> shift) - STEPS;
}

static bool round_capacity(size_t bytes, size_t *capacity)
{
    if (bytes > PTRDIFF_MAX - 2 * (size_t)PAGE)
        return false;
    if (bytes >= LARGE) {
        *capacity = xcvm_round_up(bytes + HEADER, PAGE) - HEADER;
        return true;
    }
    size_t units = bytes <= XCVM_ALIGNMENT ? 1 : (bytes + XCVM_ALIGNMENT - 1) / XCVM_ALIGNMENT;
    if (units >= STEPS) {
        size_t step = (size_t)1 << (63 - (size_t)__builtin_clzll(units) - 3);
        units = xcvm_round_up(units, step);
    }
    *capacity = units * XCVM_ALIGNMENT;
    return true;
}

static void free_block(xcvm_heap *heap, block *b)
{
    heap->reserved -= HEADER + b->capacity;
    ASAN_UNPOISON_MEMORY_REGION((char *)b + HEADER, b->capacity);
    if (b->mapped)
        xcvm_memory_unmap(b, HEADER + b->capacity);
    else
        xcvm_deallocate(&heap->allocator, b, HEADER + b->capacity);
}

static void finish_if_done(xcvm_heap *heap)
{
    if (!heap->destroyed || heap->held != 0)
        return;
    xcvm_allocator allocator = heap->allocator;
    xcvm_deallocate(&allocator, heap, sizeof *heap);
}

static void release_block(xcvm_storage *storage)
{
    block *b = (block *)storage;
    xcvm_heap *heap = storage->owner;
    heap->live -= b->requested;
    heap->held--;
    if (heap->destroyed || b->mapped) {
        free_block(heap, b);
        finish_if_done(heap);
        return;
    }
    size_t bin = bin_of(b->capacity);
    b->next = heap->bins[bin];
    heap->bins[bin] = b;
    heap->cached += HEADER + b->capacity;
    ASAN_POISON_MEMORY_REGION((char *)b + HEADER, b->capacity);
}

void xcvm_heap_discard(xcvm_heap *heap, xcvm_storage *storage)
{
    if (storage == NULL)
        return;
    block *b = (block *)storage;
    heap->live -= b->requested;
    heap->held--;
    free_block(heap, b);
}

static void release_list(xcvm_storage *storage)
{
    xcvm_storage_clear_items(storage);
    release_block(storage);
}

xcvm_status xcvm_heap_create(const xcvm_allocator *allocator, size_t limit, xcvm_heap **heap, xcvm_error *error)
{
    xcvm_heap *created = xcvm_allocate_zeroed(allocator, sizeof *created);
    XCVM_CHECK(error, created != NULL, OUT_OF_MEMORY, "no memory for a heap");
    created->allocator = *xcvm_allocator_or_default(allocator);
    created->limit = limit;
    *heap = created;
    return XCVM_OK;
}

void xcvm_heap_set_reclaim(xcvm_heap *heap, xcvm_heap_reclaim reclaim, void *user)
{
    heap->reclaim = reclaim;
    heap->reclaim_user = user;
}

static bool reclaim(const xcvm_heap *heap) { return heap->reclaim != NULL && heap->reclaim(heap->reclaim_user); }

size_t xcvm_heap_set_limit(xcvm_heap *heap, size_t limit)
{
    const size_t before = heap->limit;
    heap->limit = limit;
    return before;
}

void xcvm_heap_trim(xcvm_heap *heap)
{
    for (size_t i = 0; i < BINS && heap->cached != 0; i++) {
        while (heap->bins[i] != NULL) {
            block *b = heap->bins[i];
            heap->bins[i] = b->next;
            heap->cached -= HEADER + b->capacity;
            free_block(heap, b);
        }
    }
}

void xcvm_heap_destroy(xcvm_heap *heap)
{
    if (heap == NULL)
        return;
    xcvm_heap_trim(heap);
    heap->destroyed = true;
    finish_if_done(heap);
}

/* Removes a free block of at least `capacity` bytes, and at most a quarter more, from its bin and returns it, or NULL.
 * Without a memory limit a large block may be twice as large: reusing fewer blocks keeps more of each in the CPU
 * caches. */
static block *take_cached(xcvm_heap *heap, size_t capacity)
{
    if (heap->cached < capacity)
        return NULL;
    const size_t most = capacity >= LARGE && heap->limit == 0 ? 2 * capacity : capacity + capacity / 4;
    size_t last = bin_of(most);
    for (size_t bin = bin_of(capacity); bin <= last && bin < BINS; bin++) {
        block **link = &heap->bins[bin];
        for (int i = 0; *link != NULL && i < PATIENCE; i++, link = &(*link)->next) {
            block *b = *link;
            if (b->capacity >= capacity && b->capacity <= most) {
                *link = b->next;
                heap->cached -= HEADER + b->capacity;
                ASAN_UNPOISON_MEMORY_REGION((char *)b + HEADER, b->capacity);
                return b;
            }
        }
    }
    return NULL;
}

/* Returns true if `bytes` more from the allocator stay within the limit. */
static bool within_limit(const xcvm_heap *heap, size_t bytes)
{
    return heap->limit == 0 ||
           (heap->reserved + heap->accounted <= heap->limit && bytes <= heap->limit - heap->reserved - heap->accounted);
}

static void *take_memory(xcvm_heap *heap, size_t bytes, bool mapped)
{
    return mapped ? xcvm_memory_map(bytes) : xcvm_allocate(&heap->allocator, bytes);
}

static block *make_block(xcvm_heap *heap, size_t capacity, bool mapped)
{
    /* Blocks of sizes that never recur would accumulate. The free blocks of a steady state stay below this bound. */
    if (heap->cached > 4 * heap->peak + 64 * (size_t)(1 << 20))
        xcvm_heap_trim(heap);
    if (!within_limit(heap, HEADER + capacity)) {
        xcvm_heap_trim(heap);
        if (!within_limit(heap, HEADER + capacity))
            return NULL;
    }
    block *b = take_memory(heap, HEADER + capacity, mapped);
    if (b == NULL && heap->cached != 0) {
        xcvm_heap_trim(heap);
        b = take_memory(heap, HEADER + capacity, mapped);
    }
    if (b == NULL)
        return NULL;
    b->capacity = capacity;
    b->mapped = mapped;
    heap->reserved += HEADER + capacity;
    return b;
}

static xcvm_status refuse(const xcvm_heap *heap, size_t bytes, xcvm_error *error)
{
    size_t held = heap->live + heap->accounted;
    if (heap->limit != 0 && !within_limit(heap, bytes))
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY,
                              "%zu bytes more than %zu would go past the memory limit of %zu", bytes, held,
                              heap->limit);
    return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes (%zu are held)", bytes, held);
}

static void note_peak(xcvm_heap *heap)
{
    if (heap->live + heap->accounted > heap->peak)
        heap->peak = heap->live + heap->accounted;
}

static xcvm_storage *hand_out(xcvm_heap *heap, block *b, size_t bytes)
{
    b->requested = bytes;
    b->storage = (xcvm_storage){.refs = 1,
                                .bytes = IS_EXACT ? bytes : b->capacity,
                                .data = (char *)b + HEADER,
                                .destroy = release_block,
                                .owner = heap,
                                .single_thread = true};
    ASAN_POISON_MEMORY_REGION((char *)b->storage.data + b->storage.bytes, b->capacity - b->storage.bytes);
    heap->live += bytes;
    heap->held++;
    note_peak(heap);
    return &b->storage;
}

static xcvm_status provide(xcvm_heap *heap, size_t bytes, bool mapped, xcvm_storage **storage, xcvm_error *error)
{
    size_t capacity;
    if (!round_capacity(bytes, &capacity))
        return refuse(heap, bytes, error);
    block *b = mapped ? NULL : take_cached(heap, capacity);
    if (b == NULL)
        b = make_block(heap, capacity, mapped);
    if (b == NULL && reclaim(heap))
        b = make_block(heap, capacity, mapped);
    if (b == NULL)
        return refuse(heap, HEADER + capacity, error);
    *storage = hand_out(heap, b, bytes);
    return XCVM_OK;
}

xcvm_status xcvm_heap_allocate(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error)
{
    return provide(heap, bytes, false, storage, error);
}

xcvm_status xcvm_heap_allocate_zeros(xcvm_heap *heap, size_t bytes, xcvm_storage **storage, xcvm_error *error)
{
    const bool mapped = bytes >= LARGE && xcvm_allocator_is_default(&heap->allocator);
    XCVM_TRY(provide(heap, bytes, mapped, storage, error));
    if (!mapped)
        memset((*storage)->data, 0, bytes);
    return XCVM_OK;
}

void xcvm_heap_clear(xcvm_storage *storage)
{
    const block *b = (const block *)storage;
    if (b->mapped)
        xcvm_memory_clear(storage->data, IS_EXACT ? b->requested : b->capacity);
    else
        memset(storage->data, 0, b->requested);
}

xcvm_status xcvm_heap_allocate_list(xcvm_heap *heap, size_t count, xcvm_storage **storage, xcvm_error *error)
{
    size_t bytes;
    XCVM_CHECK(error, xcvm_size_mul(count, sizeof(xcvm_value), &bytes), OUT_OF_MEMORY,
               "%zu items are too many for a list", count);
    XCVM_TRY(xcvm_heap_allocate(heap, bytes, storage, error));
    memset((*storage)->data, 0, (*storage)->bytes);
    (*storage)->destroy = release_list;
    return XCVM_OK;
}

xcvm_status xcvm_heap_account(xcvm_heap *heap, ptrdiff_t bytes, xcvm_error *error)
{
    if (bytes < 0) {
        size_t less = (size_t)0 - (size_t)bytes;
        heap->accounted -= less < heap->accounted ? less : heap->accounted;
        return XCVM_OK;
    }
    if (!within_limit(heap, (size_t)bytes))
        xcvm_heap_trim(heap);
    if (!within_limit(heap, (size_t)bytes) && reclaim(heap))
        xcvm_heap_trim(heap);
    if (!within_limit(heap, (size_t)bytes))
        return refuse(heap, (size_t)bytes, error);
    heap->accounted += (size_t)bytes;
    note_peak(heap);
    return XCVM_OK;
}

size_t xcvm_heap_left(const xcvm_heap *heap)
{
    const size_t held = heap->reserved - heap->cached + heap->accounted;
    return heap->limit == 0 ? SIZE_MAX : held < heap->limit ? heap->limit - held : 0;
}

size_t xcvm_heap_live(const xcvm_heap *heap) { return heap->live + heap->accounted; }
size_t xcvm_heap_peak(const xcvm_heap *heap) { return heap->peak; }
size_t xcvm_heap_reserved(const xcvm_heap *heap) { return heap->reserved + heap->accounted; }
