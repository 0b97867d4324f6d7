/* The loader: a thread that reads batches ahead of the training loop. */
#ifndef XCVM_TRAIN_DATA_LOADER_H
#define XCVM_TRAIN_DATA_LOADER_H

#include "train/data/order.h"

typedef struct xct_batch {
    xcvm_value *const *values; /* in the order of the data set's bounds */
    size_t count, all;         /* examples, and with those of other parts */
    uint64_t epoch;            /* from 0 on */
    uint64_t next;             /* position in the epoch after the batch */
    bool last;                 /* of its epoch */
} xct_batch;

typedef struct xct_loading {
    size_t batch;          /* examples */
    uint64_t epoch, place; /* start position; place is at most the length of the order */
    uint64_t epochs;       /* end position: after the epoch of number epochs - 1 */
    uint64_t stride;       /* examples from the beginning of a batch to that of the next; 0: `batch` */
    bool whole;            /* skip the last batch of an epoch if it has fewer than `batch` examples */
    /* Only a part of each batch is read, from example batch * part / parts on. At the end of an epoch, fewer examples
     * than parts are skipped. */
    size_t part, parts; /* 0 parts: all */
} xct_loading;

typedef struct xct_loader xct_loader;
/* `order` is the loader's until it is destroyed. */
xcvm_status xct_loader_create(xct_order *order, const xct_loading *loading, xct_loader **loader, xcvm_error *error);
void xct_loader_destroy(xct_loader *loader);
/* The next batch, lent until the next call; *more is false when there are none left. */
xcvm_status xct_loader_take(xct_loader *loader, xct_batch *batch, bool *more, xcvm_error *error);

#endif
