/* Directories of images, one subdirectory per class, and decoding and resizing of images. */
#ifndef XCVM_TRAIN_DATA_IMAGES_H
#define XCVM_TRAIN_DATA_IMAGES_H

#include "base/value.h"

#define XCT_IMAGES "images"
#define XCT_LABELS "labels"

typedef struct xct_images {
    const char **paths; /* by class, and within one by name */
    int64_t *labels;
    size_t count;
    const char **classes;      /* names of the subdirectories, sorted */
    size_t class_count;        /* 0: images without classes */
    size_t skipped;            /* files that are no images */
    const char *skipped_names; /* of the first of them; NULL if there are none */
    size_t path_room, label_room;
} xct_images;

/* Paths of directory entries, in memory of an arena. Zero-initialized it is empty. */
typedef struct xct_paths {
    const char **items;
    size_t count, capacity;
} xct_paths;
/* Adds the subdirectories of a directory, or its other entries whose name ends with `suffix` ("": all), sorted by name.
 * Skips names that begin with a dot. */
xcvm_status xct_folder_list(const char *folder, bool folders, const char *suffix, xcvm_arena *arena, xct_paths *paths,
                            xcvm_error *error);

/* Returns true if a file is an image, by its name or its first bytes. */
bool xct_images_is_one(const char *path);
/* Returns true if `path` is a directory with subdirectories, or with images and without arrays. */
bool xct_images_are_in(const char *path);
/* Makes a list of these files, without classes. */
xcvm_status xct_images_add(const xct_paths *files, xcvm_arena *arena, xct_images *images, xcvm_error *error);
/* Lists the images, in memory of the arena. */
xcvm_status xct_images_list(const char *path, xcvm_arena *arena, xct_images *images, xcvm_error *error);

/* Makes one example of an image's file as xct_image_load does: [1, C, H, W] or [1, H, W, C] of known sizes. Floats are
 * the bytes times `scale`; 0: 1/255. Decoding may hold `memory_limit` bytes at once; 0: no limit. */
typedef struct xct_decoder xct_decoder;
xcvm_status xct_decoder_create(xcvm_dtype dtype, int rank, const int64_t *dims, double scale,
                               const xcvm_allocator *allocator, size_t memory_limit, xct_decoder **decoder,
                               xcvm_error *error);
void xct_decoder_destroy(xct_decoder *decoder);
/* Fails with OUT_OF_TIME after `deadline_ns` (monotonic clock; 0: none). */
xcvm_status xct_decoder_read(xct_decoder *decoder, const char *path, uint64_t deadline_ns, void *to, size_t bytes,
                             xcvm_error *error);

#endif
