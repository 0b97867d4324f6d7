/* The order of examples. */
#include "train/data/order.h"

#include "train/data/permutation.h"

/* Purposes of keys, besides epochs. */
static const uint64_t split_key = UINT64_MAX, shard_key = UINT64_MAX - 1;

static bool make_room(xct_order *order, size_t shards)
{
    order->first = xcvm_allocate_zeroed(order->allocator, shards * sizeof *order->first);
    order->count = xcvm_allocate_zeroed(order->allocator, shards * sizeof *order->count);
    order->shards = xcvm_allocate_zeroed(order->allocator, shards * sizeof *order->shards);
    order->before = xcvm_allocate_zeroed(order->allocator, shards * sizeof *order->before);
    return order->first != NULL && order->count != NULL && order->shards != NULL && order->before != NULL;
}

xcvm_status xct_order_begin(xct_order *order, const xct_dataset *set, xct_part part, double share, bool shuffle,
                            uint64_t seed, xcvm_error *error)
{
    *order = (xct_order){.set = set, .allocator = set->arena.allocator, .shuffle = shuffle, .seed = seed};
    if (!make_room(order, set->shard_count)) {
        xct_order_end(order);
        XCVM_FAIL(error, OUT_OF_MEMORY, "no memory for the order of the data");
    }
    uint64_t seen = 0, held_so_far = 0, held_total = part == XCT_ALL ? 0 : (uint64_t)((double)set->rows * share);
    if (part != XCT_ALL && held_total == 0)
        held_total = 1;
    if (held_total >= set->rows)
        held_total = set->rows - 1;
    for (size_t i = 0; i < set->shard_count; i++) {
        const uint64_t rows = set->shards[i].rows;
        seen += rows;
        /* Rounds so that the shares of all shards sum to the whole. */
        const uint64_t held_until = (uint64_t)((double)held_total * ((double)seen / (double)set->rows) + 0.5);
        const uint64_t held = held_until - held_so_far < rows ? held_until - held_so_far : rows;
        held_so_far += held;
        order->first[i] = part == XCT_HELD_OUT ? rows - held : 0;
        order->count[i] = part == XCT_ALL ? rows : part == XCT_LEFT ? rows - held : held;
        order->total += order->count[i];
    }
    if (order->total == 0) {
        xct_order_end(order);
        XCVM_FAIL(error, INVALID_ARGUMENT, "the data set has too few examples to hold some of them out");
    }
    return XCVM_OK;
}

void xct_order_end(xct_order *order)
{
    if (order->set == NULL)
        return;
    const size_t shards = order->set->shard_count;
    xcvm_deallocate(order->allocator, order->first, shards * sizeof *order->first);
    xcvm_deallocate(order->allocator, order->count, shards * sizeof *order->count);
    xcvm_deallocate(order->allocator, order->shards, shards * sizeof *order->shards);
    xcvm_deallocate(order->allocator, order->before, shards * sizeof *order->before);
    *order = (xct_order){.set = NULL};
}

static void begin_epoch(xct_order *order, uint64_t epoch)
{
    const size_t shards = order->set->shard_count;
    const uint64_t key = xct_permutation_key(order->seed, epoch, shard_key);
    uint64_t before = 0;
    for (size_t i = 0; i < shards; i++) {
        order->shards[i] = order->shuffle ? (size_t)xct_permute(key, shards, i) : i;
        order->before[i] = before;
        before += order->count[order->shards[i]];
    }
    order->epoch = epoch;
    order->ready = true;
}

void xct_order_find(xct_order *order, uint64_t epoch, uint64_t place, size_t *shard, uint64_t *row)
{
    if (!order->ready || order->epoch != epoch)
        begin_epoch(order, epoch);
    /* The last shard that begins at or before the place, by halves. */
    size_t low = 0, high = order->set->shard_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (order->before[middle] <= place)
            low = middle;
        else
            high = middle;
    }
    *shard = order->shards[low];
    uint64_t within = place - order->before[low];
    if (order->shuffle)
        within = xct_permute(xct_permutation_key(order->seed, epoch, *shard), order->count[*shard], within);
    within += order->first[*shard];
    /* Which examples a part has does not change from epoch to epoch. */
    if (order->shuffle)
        within =
            xct_permute(xct_permutation_key(order->seed, split_key, *shard), order->set->shards[*shard].rows, within);
    *row = within;
}
