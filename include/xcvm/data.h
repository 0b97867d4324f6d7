/*
 * Arrays and images from files. Part of libxcvm-compiler; the conventions of xcvm.h apply. Arrays belong to one thread
 * at a time. An allocator must outlive the objects made with it.
 */
#ifndef XCVM_DATA_H
#define XCVM_DATA_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files of arrays ---- */

/* The arrays of an .npy, .npz or .safetensors file. The content determines the format. */
typedef struct xct_arrays xct_arrays;

/* Maps a file, which must not change until xct_arrays_destroy. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_load_file(const char *path, const xcvm_allocator *allocator,
                                                        xct_arrays **arrays, xcvm_error *error);
/* The same for a file in memory, which is borrowed until xct_arrays_destroy. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_load(const void *bytes, size_t count, const xcvm_allocator *allocator,
                                                   xct_arrays **arrays, xcvm_error *error);
XCVM_API void xct_arrays_destroy(xct_arrays *arrays);
/* Sets the time limit of each later call of xct_arrays_read; OUT_OF_TIME beyond. 0: no limit. */
XCVM_API void xct_arrays_set_timeout(xct_arrays *arrays, uint64_t timeout_ns);
XCVM_API size_t xct_arrays_count(const xct_arrays *arrays);
/* Returns the name of an array, without ".npy"; "" for an .npy file; NULL past the end. */
XCVM_API const char *xct_arrays_name_at(const xct_arrays *arrays, size_t index);
/* Returns the index of an array by name; SIZE_MAX if there is none. */
XCVM_API size_t xct_arrays_find(const xct_arrays *arrays, const char *name);
/* Reads an array as a new tensor. `wanted` is the element type of raw bytes, which NumPy stores for bfloat16, float8
 * and types below 8 bits. XCVM_NO_DTYPE reads two-byte elements as bf16 and refuses one-byte ones. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_read(const xct_arrays *arrays, size_t index, xcvm_dtype wanted,
                                                   xcvm_value **value, xcvm_error *error);
/* Returns the bytes of an array's elements in an .npy or .npz file. Strings take as much as the longest, 4 bytes a
 * character; types below 8 bits take a byte. */
XCVM_API XCVM_MUST_USE xcvm_status xct_array_file_bytes(const xcvm_value *array, uint64_t *bytes, xcvm_error *error);
/* Writes an array as an .npy file. OUT_OF_TIME after `timeout_ns`; 0: no limit. */
XCVM_API XCVM_MUST_USE xcvm_status xct_array_save(const xcvm_value *array, uint64_t timeout_ns, xcvm_sink sink,
                                                  xcvm_error *error);

/* An .npz file that is being written. */
typedef struct xct_archive xct_archive;
XCVM_API XCVM_MUST_USE xcvm_status xct_archive_create(xcvm_sink sink, const xcvm_allocator *allocator,
                                                      xct_archive **archive, xcvm_error *error);
/* Writes an array. Names must differ. UNSUPPORTED for an archive of 4 GB or more. */
XCVM_API XCVM_MUST_USE xcvm_status xct_archive_add(xct_archive *archive, const char *name, const xcvm_value *array,
                                                   uint64_t timeout_ns, xcvm_error *error);
/* Writes the directory, which completes the file. */
XCVM_API XCVM_MUST_USE xcvm_status xct_archive_finish(xct_archive *archive, xcvm_error *error);
XCVM_API void xct_archive_destroy(xct_archive *archive);

/* ---- Images ---- */

typedef struct xct_image_options {
    size_t size;
    const xcvm_allocator *allocator; /* of the tensor; NULL: malloc's */
    size_t memory_limit;             /* bytes that decoding may hold at once, OUT_OF_MEMORY beyond; 0: no limit */
    uint64_t timeout_ns;             /* OUT_OF_TIME beyond; 0: no limit */
} xct_image_options;

/* Size of an image after orientation, and its channels: 1 (grayscale), 3, or 4 with alpha. */
typedef struct xct_image_info {
    size_t size; /* set by the caller */
    int64_t height, width, channels;
    int64_t to_height, to_width; /* of the tensor */
} xct_image_info;

/* Reads an image file in memory as a tensor; docs/files.md lists formats and conversions. `wanted` declares element
 * type and layout: [1,] C x H x W, [1,] H x W x C or H x W; C is 1, 3 or 4. NULL: u8 H x W x C. `info` may be NULL.
 * INVALID_ARGUMENT for a damaged or other file; SHAPE_MISMATCH or TYPE_MISMATCH if `wanted` is impossible. */
XCVM_API XCVM_MUST_USE xcvm_status xct_image_load(const void *bytes, size_t count, const xcvm_type *wanted,
                                                  const xct_image_options *options, xct_image_info *info,
                                                  xcvm_value **image, xcvm_error *error);

#ifdef __cplusplus
}
#endif

#endif
