/* The order of examples: the validation split, and the shuffled order of an epoch, which depends only on seed and
 * numbers. */
#ifndef XCVM_TRAIN_DATA_ORDER_H
#define XCVM_TRAIN_DATA_ORDER_H

#include "train/data/dataset.h"

/* Examples are shuffled within their shard, and shards among each other, so that one shard at a time is read. */
typedef struct xct_order {
    const xct_dataset *set;
    const xcvm_allocator *allocator;
    bool shuffle;
    uint64_t seed;
    uint64_t *first, *count; /* for each shard, the examples that belong to the part, in the order that defines parts */
    uint64_t total;
    /* Cache of the last epoch: the order of its shards, and the number of examples before each. */
    uint64_t epoch;
    size_t *shards;
    uint64_t *before;
    bool ready;
} xct_order;

/* A part of a data set: all of it, or one side of a split. A share from 0 to 1 is held out, at least one example, and
 * at least one remains. With `shuffle` the seed selects the examples; otherwise they are the last of each shard. */
typedef enum xct_part { XCT_ALL, XCT_LEFT, XCT_HELD_OUT } xct_part;
xcvm_status xct_order_begin(xct_order *order, const xct_dataset *set, xct_part part, double share, bool shuffle,
                            uint64_t seed, xcvm_error *error);
void xct_order_end(xct_order *order);
/* The example at a place, below total, of an epoch. */
void xct_order_find(xct_order *order, uint64_t epoch, uint64_t place, size_t *shard, uint64_t *row);

#endif
