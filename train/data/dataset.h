/* Data sets: examples in files, and how they become the rows of a batch. */
#ifndef XCVM_TRAIN_DATA_DATASET_H
#define XCVM_TRAIN_DATA_DATASET_H

#include "train/data/arrays.h"
#include "train/data/images.h"
#include "train/data/memory.h"

#include <xcvm/compiler.h>

/* Labels that are numbers of classes. */
typedef struct xct_label_rule {
    bool checked;    /* they must be classes, or the ignored one */
    size_t input;    /* of the feed */
    int64_t classes; /* -1: not known */
    bool ignores;
    int64_t ignored; /* the label that is left out, if `ignores` */
    int axis;        /* of the classes, of scores */
    int output_rank; /* of the output that a loss is added to; 0: the loss is the model's own */
    int64_t output_dims[XCVM_MAX_RANK];
} xct_label_rule;

/* The program whose inputs the data is for. */
typedef struct xct_feed {
    const xcvm_value_info *inputs;
    size_t count;
    xct_label_rule labels;
    xcc_diagnostics diagnostics; /* receives XCC_DIAGNOSTIC_DATA */
} xct_feed;

/* An input of the program, and the array that has its rows. */
typedef struct xct_bound {
    size_t input;
    const char *name, *array;
    xcvm_dtype dtype;            /* the input's */
    int rank;                    /* of a batch */
    int64_t dims[XCVM_MAX_RANK]; /* of a batch; the first is how many examples it has, -1 if that is open */
    size_t row_count, row_bytes; /* elements and bytes of an example */
    double scale;                /* as of xct_column */
    double used_scale;           /* of the first shard's array; 0: it is of no type that is scaled */
    bool batch_elsewhere;        /* the first axis has size 1, and a later one is open */
    bool reshaped;               /* a diagnostic has said that axes of size 1 were added or removed */
} xct_bound;

/* One file, or several .npy files that belong together; data are read a shard at a time. */
typedef struct xct_shard {
    const char **paths;
    size_t path_count;
    uint64_t rows;
} xct_shard;

typedef struct xct_reader xct_reader;

struct xct_dataset {
    xct_reader *reader; /* of xct_dataset_read, from the first call on */
    xcvm_arena arena;   /* this struct and all that it points to */
    xct_bound *bounds;
    size_t bound_count;
    xct_shard *shards;
    size_t shard_count;
    uint64_t rows;
    xct_label_rule labels;
    xct_images *images;  /* a directory of images, which is a shard; NULL: files of arrays */
    xct_memory *memory;  /* allocator of the arena and the readers, which lives as long as the data set; NULL: no
                          * limit */
    size_t memory_limit; /* of decoding an image; 0: none */
    uint64_t timeout_ns; /* of a call of xct_dataset_read; 0: none */
    bool mixed;          /* xct_dataset_read permutes the examples, with this key */
    uint64_t mixing_key;
    xcc_diagnostics diagnostics;               /* as of xct_feed */
    uint64_t labels_unchecked, labels_counted; /* files whose labels were not read yet; labels that are not ignored */
    const char *label_path, *label_array;      /* the first ones */
};

/* Returns the number of rows that a batch must have; -1: any number. */
int64_t xct_dataset_batch(const xct_dataset *set);

xcvm_status xct_dataset_make(const xct_feed *feed, const char *const *paths, size_t path_count,
                             const xct_column *columns, size_t column_count, const xcvm_allocator *allocator,
                             xct_dataset **set, xcvm_error *error);

/* Opens the files of a shard into `files`, an array of path_count NULLs. The caller closes them after any outcome. */
xcvm_status xct_shard_open(const xct_shard *shard, const xcvm_allocator *allocator, xct_arrays **files,
                           xcvm_error *error);
void xct_shard_close(const xct_shard *shard, xct_arrays **files);
/* Which file of an open shard has the array of that name, and where. An .npy file's array has the file's name. */
xcvm_status xct_shard_find(xct_arrays *const *files, const xct_shard *shard, const char *name, size_t *file,
                           size_t *index, xcvm_error *error);

/* The factor of an array's elements on their way to an input; 1: they stay as they are. */
double xct_bound_scale(const xct_bound *bound);
/* Checks an array's shape and type. Fails with SHAPE_MISMATCH or TYPE_MISMATCH and advice. Axes of size 1 after the
 * first may be missing or extra; then `shape` gets the input's axes, and a diagnostic reports it. */
xcvm_status xct_bound_check(const xct_dataset *set, xct_bound *bound, xct_rows *shape, const char *path,
                            xcvm_error *error);
/* Checks the labels of rows from `first` on, in an array of type `dtype`. OUT_OF_RANGE names the file and the example
 * of a label that is neither a class nor ignored. OUT_OF_TIME: the deadline is over; 0: there is none. Adds the number
 * of labels that are not ignored to *counted, which may be NULL. */
xcvm_status xct_labels_check(const xct_dataset *set, const xct_bound *bound, const char *path, xcvm_dtype dtype,
                             const unsigned char *data, uint64_t first, uint64_t rows, uint64_t deadline_ns,
                             uint64_t *counted, xcvm_error *error);

/* Reads examples; keeps the two shards open that were read last. For one thread. */
xcvm_status xct_reader_create(const xct_dataset *set, xct_reader **reader, xcvm_error *error);
void xct_reader_destroy(xct_reader *reader);
/* Sets the deadline of later reads on the monotonic clock; 0: none. They fail with OUT_OF_TIME after it. */
void xct_reader_set_deadline(xct_reader *reader, uint64_t deadline_ns);
/* Reads example `row` of a shard as row `place` of the batch whose columns are at `to`. */
xcvm_status xct_reader_read(xct_reader *reader, size_t shard, uint64_t row, unsigned char *const *to, size_t place,
                            xcvm_error *error);

#endif
