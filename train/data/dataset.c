/* Data sets: finds the files and checks that their contents suit the inputs. */
#include "train/data/dataset.h"

#include "base/array.h"
#include "train/data/convert_rows.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static xcvm_status out_of_memory(xcvm_error *error)
{
    return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the list of data files");
}

/* ---- Files ---- */

static bool add_path(xcvm_arena *arena, xct_paths *to, const char *path)
{
    const char **items = xcvm_arena_grow(arena, to->items, to->count, &to->capacity, sizeof *items);
    const char *copy = xcvm_arena_string(arena, path, strlen(path));
    if (items == NULL || copy == NULL)
        return false;
    to->items = items;
    items[to->count++] = copy;
    return true;
}

static bool has_suffix(const char *path, const char *suffix)
{
    const size_t length = strlen(path), tail = strlen(suffix);
    return length >= tail && strcmp(path + length - tail, suffix) == 0;
}

static bool is_data_file(const char *path)
{
    return has_suffix(path, ".npz") || has_suffix(path, ".npy") || has_suffix(path, ".safetensors");
}

/* Paths that match a pattern, sorted by name. */
static xcvm_status expand_pattern(const char *pattern, xcvm_arena *arena, xct_paths *to, xcvm_error *error)
{
    glob_t found = {0};
    const int result = glob(pattern, 0, NULL, &found);
    bool good = true;
    const char *folder = NULL;
    for (size_t i = 0; result == 0 && i < found.gl_pathc && good && folder == NULL; i++) {
        struct stat info;
        if (stat(found.gl_pathv[i], &info) == 0 && S_ISDIR(info.st_mode)) {
            folder = found.gl_pathv[i];
            (void)xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                                 "%s: matches the folder \"%.200s\", not only files. Name a folder without a pattern",
                                 pattern, folder);
            break;
        }
        good =
            !is_data_file(pattern) || is_data_file(found.gl_pathv[i]) ? add_path(arena, to, found.gl_pathv[i]) : true;
    }
    const size_t count = result == 0 ? found.gl_pathc : 0;
    globfree(&found);
    if (folder != NULL)
        return XCVM_INVALID_ARGUMENT;
    if (!good || result == GLOB_NOSPACE)
        return out_of_memory(error);
    XCVM_CHECK(error, count > 0, IO, "%s: no file has such a name", pattern);
    return XCVM_OK;
}

/* The data files of a directory, grouped by kind. */
static xcvm_status expand_folder(const char *folder, xcvm_arena *arena, xct_paths *to, xcvm_error *error)
{
    static const char *const kinds[] = {".npz", ".npy", ".safetensors"};
    const size_t before = to->count;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        XCVM_TRY(xct_folder_list(folder, false, kinds[i], arena, to, error));
    XCVM_CHECK(error, to->count > before, INVALID_ARGUMENT,
               "%s: the folder has neither data files (.npz, .npy, .safetensors) nor folders of images", folder);
    return XCVM_OK;
}

static xcvm_status expand(const char *path, xcvm_arena *arena, xct_paths *to, xcvm_error *error)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode))
            return expand_folder(path, arena, to, error);
        return add_path(arena, to, path) ? XCVM_OK : out_of_memory(error);
    }
    if (strpbrk(path, "*?[") != NULL)
        return expand_pattern(path, arena, to, error);
    return add_path(arena, to, path) ? XCVM_OK : out_of_memory(error); /* which opening refuses, with the reason */
}

static bool is_array_file(const char *path)
{
    xct_mapping file;
    const bool is =
        xct_mapping_open(&file, path, NULL) == XCVM_OK && file.count >= 6 && memcmp(file.bytes, "\x93NUMPY", 6) == 0;
    xct_mapping_close(&file);
    return is;
}

/* A shard of each file; .npy files, which hold one array each, are one shard together. */
static xcvm_status make_shards(xct_dataset *set, const xct_paths *files, xcvm_error *error)
{
    set->shards = xcvm_arena_allocate(&set->arena, (files->count + 1) * sizeof *set->shards);
    const char **arrays = xcvm_arena_allocate(&set->arena, (files->count + 1) * sizeof *arrays);
    if (set->shards == NULL || arrays == NULL)
        return out_of_memory(error);
    size_t array_count = 0;
    for (size_t i = 0; i < files->count; i++)
        if (is_array_file(files->items[i]))
            arrays[array_count++] = files->items[i];
        else
            set->shards[set->shard_count++] = (xct_shard){.paths = &files->items[i], .path_count = 1};
    if (array_count > 0)
        set->shards[set->shard_count++] = (xct_shard){.paths = arrays, .path_count = array_count};
    return XCVM_OK;
}

/* ---- Arrays of a shard ---- */

/* An .npy file's array has the name of the file. */
static bool names_file(const char *path, const char *name)
{
    const char *base = strrchr(path, '/');
    base = base != NULL ? base + 1 : path;
    const char *dot = strrchr(base, '.');
    const size_t length = dot != NULL ? (size_t)(dot - base) : strlen(base);
    return strcmp(base, name) == 0 || (strlen(name) == length && memcmp(base, name, length) == 0);
}

static void append_name(char *text, size_t size, size_t *length, const char *name)
{
    if (*length < size)
        *length += (size_t)snprintf(text + *length, size - *length, "%s%.60s", *length > 0 ? ", " : "", name);
}

xcvm_status xct_shard_find(xct_arrays *const *files, const xct_shard *shard, const char *name, size_t *file,
                           size_t *index, xcvm_error *error)
{
    char names[400] = "";
    size_t length = 0;
    for (*file = 0; *file < shard->path_count; ++*file) {
        const xct_arrays *a = files[*file];
        const bool single = xct_arrays_count(a) == 1 && xct_arrays_name_at(a, 0)[0] == '\0';
        *index = single ? 0 : xct_arrays_find(a, name);
        if (single ? names_file(shard->paths[*file], name) : *index != SIZE_MAX)
            return XCVM_OK;
        for (size_t i = 0; i < xct_arrays_count(a) && i < 32; i++)
            append_name(names, sizeof names, &length, single ? shard->paths[*file] : xct_arrays_name_at(a, i));
    }
    XCVM_FAIL(error, INVALID_ARGUMENT,
              "%s: has no array \"%.100s\"; it holds: %s. Name the array with --input, or that of labels with "
              "--label",
              shard->paths[0], name, length > 0 ? names : "nothing");
}

/* ---- Checks ---- */

double xct_bound_scale(const xct_bound *bound) { return bound->scale != 0 ? bound->scale : 1; }

/* Labels of files that are not small are checked as they are read. */
static xcvm_status check_labels(xct_dataset *set, const xct_bound *bound, const xct_arrays *arrays, size_t index,
                                const char *path, xcvm_error *error)
{
    enum { SMALL = 1 << 26 };
    xct_rows rows;
    xcvm_status status = xct_arrays_shape(arrays, index, &rows, error);
    if (status != XCVM_OK || !set->labels.checked || set->labels.input != bound->input)
        return status;
    set->label_path = set->label_path != NULL ? set->label_path : path;
    set->label_array = bound->array;
    if ((uint64_t)rows.dims[0] > SMALL / (rows.row_bytes > 0 ? rows.row_bytes : 1)) {
        set->labels_unchecked++;
        return XCVM_OK;
    }
    XCVM_TRY(xct_arrays_rows(arrays, index, 0, &rows, error));
    status = xct_labels_check(set, bound, path, rows.dtype, rows.data, 0, (uint64_t)rows.dims[0], 0,
                              &set->labels_counted, error);
    xct_rows_release(&rows);
    return status;
}

/* Data without a label that counts would be learned from with a loss of 0. */
static xcvm_status check_ignored(const xct_dataset *set, xcvm_error *error)
{
    XCVM_CHECK(error,
               !set->labels.ignores || set->label_path == NULL || set->labels_unchecked > 0 || set->labels_counted > 0,
               INVALID_ARGUMENT,
               "%s: array \"%s\" has no label that counts: all are %lld, the label to ignore. Check the labels%s",
               set->label_path, set->label_array, (long long)set->labels.ignored,
               set->labels.output_rank > 0 ? ", or ignore another label with --ignore-label"
                                           : " and the attribute ignore_index of the model's loss");
    return XCVM_OK;
}

/* Dimensions that the program leaves open are those of the first shard, and then the same everywhere. */
static xcvm_status check_shape(xct_bound *bound, const xct_rows *shape, xcvm_error *error)
{
    char text[100];
    bool fits = true;
    bound->row_count = 1;
    for (int i = 1; i < bound->rank; i++) {
        bound->dims[i] = shape->dims[i];
        fits = fits && xcvm_size_mul(bound->row_count, (size_t)shape->dims[i], &bound->row_count);
    }
    fits = fits && xcvm_size_mul(bound->row_count, xcvm_dtype_size(bound->dtype), &bound->row_bytes);
    /* A small file may have any number of examples without elements. */
    XCVM_CHECK(error, fits && bound->row_count > 0, SHAPE_MISMATCH, "the examples for input \"%s\" are %s in %s",
               bound->name, fits ? "without elements" : "too large",
               xcvm_dims_describe(shape->rank, shape->dims, text, sizeof text));
    return XCVM_OK;
}

static xcvm_status check_files(xct_dataset *set, xct_shard *shard, xct_arrays *const *files, xcvm_error *error)
{
    for (size_t i = 0; i < set->bound_count; i++) {
        xct_bound *bound = &set->bounds[i];
        size_t file, index;
        xct_rows shape;
        XCVM_TRY(xct_shard_find(files, shard, bound->array, &file, &index, error));
        const char *path = shard->paths[file];
        xcvm_status status = xct_arrays_shape(files[file], index, &shape, error);
        if (status != XCVM_OK) {
            xcvm_error_prefix(error, "%s: array \"%s\"", path, bound->array);
            return status;
        }
        XCVM_TRY(xct_bound_check(set, bound, &shape, path, error));
        status = check_shape(bound, &shape, error);
        if (status != XCVM_OK) {
            xcvm_error_prefix(error, "%s: array \"%s\"", path, bound->array);
            return status;
        }
        XCVM_TRY(check_labels(set, bound, files[file], index, path, error));
        if (bound->used_scale == 0 && xcvm_dtype_is_float(bound->dtype) &&
            (shape.dtype == XCVM_U8 || xct_bound_scale(bound) != 1))
            bound->used_scale = xct_bound_scale(bound);
        if (i == 0)
            shard->rows = (uint64_t)shape.dims[0];
        XCVM_CHECK(error, (uint64_t)shape.dims[0] == shard->rows, SHAPE_MISMATCH,
                   "%s: array \"%s\" has %lld examples, but array \"%s\" %llu", path, bound->array,
                   (long long)shape.dims[0], set->bounds[0].array, (unsigned long long)shard->rows);
    }
    return XCVM_OK;
}

xcvm_status xct_shard_open(const xct_shard *shard, const xcvm_allocator *allocator, xct_arrays **files,
                           xcvm_error *error)
{
    for (size_t i = 0; i < shard->path_count; i++)
        XCVM_TRY(xct_arrays_load_file(shard->paths[i], allocator, &files[i], error));
    return XCVM_OK;
}

void xct_shard_close(const xct_shard *shard, xct_arrays **files)
{
    for (size_t i = 0; i < shard->path_count; i++) {
        xct_arrays_destroy(files[i]);
        files[i] = NULL;
    }
}

static xcvm_status check_shards(xct_dataset *set, xcvm_error *error)
{
    xcvm_status status = XCVM_OK;
    for (size_t s = 0; s < set->shard_count && status == XCVM_OK; s++) {
        xct_shard *shard = &set->shards[s];
        xct_arrays **files = xcvm_allocate_zeroed(set->arena.allocator, shard->path_count * sizeof(xct_arrays *));
        if (files == NULL)
            return out_of_memory(error);
        status = xct_shard_open(shard, set->arena.allocator, files, error);
        if (status == XCVM_OK)
            status = check_files(set, shard, files, error);
        xct_shard_close(shard, files);
        xcvm_deallocate(set->arena.allocator, files, shard->path_count * sizeof(xct_arrays *));
        if (status == XCVM_OK && __builtin_add_overflow(set->rows, shard->rows, &set->rows))
            status = xcvm_error_set(error, XCVM_OUT_OF_RANGE, "%s: more examples than can be counted", shard->paths[0]);
    }
    return status == XCVM_OK ? check_ignored(set, error) : status;
}

/* ---- Inputs ---- */

static xcvm_status bind(xct_dataset *set, const xct_feed *feed, size_t input, const char *array, double scale,
                        xcvm_error *error)
{
    const xcvm_value_info *parameter = &feed->inputs[input];
    const xcvm_type *type = &parameter->type;
    XCVM_CHECK(error, type->kind == XCVM_KIND_TENSOR && type->rank >= 1 && type->dtype != XCVM_STRING, UNSUPPORTED,
               "input \"%s\" cannot be fed from data: it is no tensor of numbers with an axis for examples. Make it a "
               "constant of the model. xcvm quantize also works without data",
               parameter->name);
    XCVM_CHECK(error, scale == 0 || xcvm_dtype_is_float(type->dtype), INVALID_ARGUMENT,
               "input \"%s\" is of %s, whose numbers cannot be multiplied by a factor. Omit the factor",
               parameter->name, xcvm_dtype_name(type->dtype));
    xct_bound *bound = &set->bounds[set->bound_count++];
    *bound = (xct_bound){.input = input, .dtype = type->dtype, .rank = type->rank, .scale = scale};
    bound->name = xcvm_arena_string(&set->arena, parameter->name, strlen(parameter->name));
    bound->array = xcvm_arena_string(&set->arena, array, strlen(array));
    if (bound->name == NULL || bound->array == NULL)
        return out_of_memory(error);
    for (int i = 0; i < type->rank; i++) {
        bound->dims[i] = type->dims[i] < 0 ? XCVM_ANY_DIM : type->dims[i];
        bound->batch_elsewhere |= i > 0 && type->dims[0] == 1 && type->dims[i] < 0;
    }
    return XCVM_OK;
}

/* Every input gets an array: the one named for it, or the one of its name. */
static xcvm_status bind_inputs(xct_dataset *set, const xct_feed *feed, const xct_column *columns, size_t column_count,
                               xcvm_error *error)
{
    set->bounds = xcvm_arena_allocate(&set->arena, (feed->count + 1) * sizeof *set->bounds);
    if (set->bounds == NULL)
        return out_of_memory(error);
    for (size_t c = 0; c < column_count; c++) {
        size_t i = 0;
        XCVM_CHECK(error, columns[c].input != NULL, INVALID_ARGUMENT, "the input of column %zu is NULL", c);
        while (i < feed->count && strcmp(feed->inputs[i].name, columns[c].input) != 0)
            i++;
        char names[300] = "";
        size_t length = 0;
        for (size_t n = 0; n < feed->count; n++)
            append_name(names, sizeof names, &length, feed->inputs[n].name);
        XCVM_CHECK(error, i < feed->count, INVALID_ARGUMENT, "there is no input \"%.100s\"; there is: %s",
                   columns[c].input, names);
    }
    for (size_t i = 0; i < feed->count; i++) {
        const char *name = feed->inputs[i].name, *array = NULL;
        double scale = 0;
        for (size_t c = 0; c < column_count; c++)
            if (strcmp(columns[c].input, name) == 0) {
                array = array == NULL ? columns[c].array : array;
                scale = scale == 0 ? columns[c].scale : scale;
            }
        XCVM_TRY(bind(set, feed, i, array != NULL ? array : name, scale, error));
    }
    XCVM_CHECK(error, set->bound_count > 0, INVALID_ARGUMENT, "the model has no inputs to feed with data");
    return XCVM_OK;
}

/* ---- A folder of images ---- */

/* Images are resized to sizes that are known. */
static xcvm_status check_image_sizes(const xcvm_value_info *input, xcvm_error *error)
{
    char text[100], options[300] = "";
    size_t length = 0;
    bool open = false, named = true;
    for (int d = 1; d < input->type.rank; d++) {
        const char *name = input->type.dim_names[d];
        if (input->type.dims[d] >= 0)
            continue;
        open = true;
        named = named && name != NULL;
        if (name != NULL && length < sizeof options)
            length += (size_t)snprintf(options + length, sizeof options - length, " --dim %.60s=SIZE", name);
    }
    XCVM_CHECK(error, !open, SHAPE_MISMATCH,
               "input \"%s\" is %s, but images need known channels, height and width. %s%s", input->name,
               xcvm_dims_describe(input->type.rank, input->type.dims, text, sizeof text),
               named ? "Fix them with" : "Export the model with fixed sizes", named ? options : "");
    return XCVM_OK;
}

/* The numbers of classes are for a loss of classes. */
static xcvm_status refuse_image_input(const xct_dataset *set, const xct_bound *bound, xcvm_error *error)
{
    const xct_label_rule *rule = &set->labels;
    if (rule->output_rank > 0 && rule->input == bound->input && set->images->class_count > 0)
        XCVM_FAIL(error, SHAPE_MISMATCH,
                  "input \"%s\" takes numbers as labels, but a folder of images for each class has numbers of classes. "
                  "Use --loss softmax_cross_entropy with a model that has a score for each of the %zu classes, or "
                  "save images and labels as arrays",
                  bound->name, set->images->class_count);
    XCVM_FAIL(error, SHAPE_MISMATCH,
              "a folder of images has \"" XCT_IMAGES "\" for an input of 4 axes and \"" XCT_LABELS
              "\" for one of integers and 1 axis; input \"%s\" is neither",
              bound->name);
}

/* Images are bound to an input of rank 4, and class numbers to an input of rank 1 with an integer type. */
static xcvm_status bind_images(xct_dataset *set, const xct_feed *feed, xcvm_error *error)
{
    for (size_t i = 0; i < set->bound_count; i++) {
        xct_bound *bound = &set->bounds[i];
        const bool label = bound->rank == 1 && (bound->dtype == XCVM_I64 || bound->dtype == XCVM_I32);
        XCVM_CHECK(error, !label || set->images->class_count > 0, INVALID_ARGUMENT,
                   "input \"%s\" takes labels, but these images have none. Name the folder that contains a folder of "
                   "images for each class",
                   bound->name);
        if (!label && bound->rank != 4)
            return refuse_image_input(set, bound, error);
        bound->array = label ? XCT_LABELS : XCT_IMAGES;
        bound->used_scale = bound->scale;
        xct_rows shape = {.rank = bound->rank};
        for (int d = 1; d < bound->rank; d++)
            shape.dims[d] = bound->dims[d];
        if (!label) {
            xct_decoder *decoder = NULL;
            XCVM_TRY(check_image_sizes(&feed->inputs[bound->input], error));
            XCVM_TRY(xct_decoder_create(bound->dtype, bound->rank, bound->dims, 0, set->arena.allocator, 0, &decoder,
                                        error));
            xct_decoder_destroy(decoder);
        }
        XCVM_TRY(check_shape(bound, &shape, error));
    }
    return XCVM_OK;
}

/* Each directory has an image, and the model has a score for its class. */
static xcvm_status check_classes(const xct_dataset *set, const char *path, xcvm_error *error)
{
    const xct_images *images = set->images;
    size_t image = 0;
    for (size_t c = 0; c < images->class_count; c++) {
        const size_t before = image;
        while (image < images->count && images->labels[image] == (int64_t)c)
            image++;
        XCVM_CHECK(error, image > before, INVALID_ARGUMENT,
                   "%s/%s: the folder of the class \"%s\" has no images. Put some into it, or remove it", path,
                   images->classes[c], images->classes[c]);
        XCVM_CHECK(error, strchr(images->classes[c], '\n') == NULL, INVALID_ARGUMENT,
                   "%s: the name of a class has a line feed", path);
    }
    return XCVM_OK;
}

/* Images of the directory `path`, or the named images if `path` is NULL. */
static xcvm_status open_images(xct_dataset *set, const xct_feed *feed, const char *path, const xct_paths *named,
                               xcvm_error *error)
{
    set->images = xcvm_arena_allocate(&set->arena, sizeof *set->images);
    set->shards = xcvm_arena_allocate(&set->arena, sizeof *set->shards);
    if (set->images == NULL || set->shards == NULL)
        return out_of_memory(error);
    XCVM_TRY(path != NULL ? xct_images_list(path, &set->arena, set->images, error)
                          : xct_images_add(named, &set->arena, set->images, error));
    XCVM_TRY(check_classes(set, path, error));
    XCVM_TRY(bind_images(set, feed, error));
    set->shard_count = 1;
    set->shards[0].rows = set->rows = set->images->count;
    return XCVM_OK;
}

/* ---- Making ---- */

/* A directory of images is a data set of its own. Single images cannot be combined with arrays either. */
static xcvm_status check_mixture(const char *const *given, size_t count, xcvm_error *error)
{
    for (size_t i = 0; i < count && count > 1; i++)
        XCVM_CHECK(
            error, !xct_images_are_in(given[i]), INVALID_ARGUMENT,
            "%s: a folder of images is a data set by itself and cannot be joined with \"%s\". Put all images into "
            "one folder, or all examples into arrays",
            given[i], given[i == 0 ? 1 : 0]);
    return XCVM_OK;
}

static xcvm_status check_named_images(const xct_paths *files, xcvm_error *error)
{
    for (size_t i = 1; i < files->count; i++)
        XCVM_CHECK(error, !is_data_file(files->items[i]), INVALID_ARGUMENT,
                   "%s is an image and %s has arrays: one data set cannot have both", files->items[0], files->items[i]);
    return XCVM_OK;
}

static xcvm_status open_files(xct_dataset *set, const xct_feed *feed, const char *const *given, size_t count,
                              xcvm_error *error)
{
    xct_paths files = {.items = NULL};
    XCVM_TRY(check_mixture(given, count, error));
    if (count == 1 && xct_images_are_in(given[0]))
        return open_images(set, feed, given[0], NULL, error);
    for (size_t i = 0; i < count; i++)
        XCVM_TRY(expand(given[i], &set->arena, &files, error));
    if (files.count > 0 && xct_images_is_one(files.items[0])) {
        XCVM_TRY(check_named_images(&files, error));
        return open_images(set, feed, NULL, &files, error);
    }
    XCVM_TRY(make_shards(set, &files, error));
    return check_shards(set, error);
}

xcvm_status xct_dataset_make(const xct_feed *feed, const char *const *given, size_t path_count,
                             const xct_column *columns, size_t column_count, const xcvm_allocator *allocator,
                             xct_dataset **made, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = xcvm_allocator_or_default(allocator)};
    XCVM_CHECK(error, path_count > 0, INVALID_ARGUMENT, "no data file is named");
    for (size_t i = 0; i < path_count; i++)
        XCVM_CHECK(error, given[i] != NULL, INVALID_ARGUMENT, "path %zu is NULL", i);
    xct_dataset *set = xcvm_arena_allocate(&arena, sizeof *set);
    if (set == NULL) {
        xcvm_arena_release(&arena);
        return out_of_memory(error);
    }
    set->arena = arena;
    set->labels = feed->labels;
    set->diagnostics = feed->diagnostics;
    xcvm_status status = bind_inputs(set, feed, columns, column_count, error);
    if (status == XCVM_OK)
        status = open_files(set, feed, given, path_count, error);
    if (status == XCVM_OK && set->rows == 0)
        status = xcvm_error_set(error, XCVM_INVALID_ARGUMENT, "%s: the data set is empty", given[0]);
    if (status == XCVM_OK)
        *made = set;
    else
        xct_dataset_destroy(set);
    return status;
}

void xct_dataset_destroy(xct_dataset *set)
{
    if (set == NULL)
        return;
    xct_reader_destroy(set->reader);
    xct_memory *memory = set->memory;
    xcvm_arena arena = set->arena;
    xcvm_arena_release(&arena);
    xct_memory_destroy(memory);
}

uint64_t xct_dataset_example_count(const xct_dataset *set) { return set != NULL ? set->rows : 0; }

double xct_dataset_scale(const xct_dataset *set, const char *input)
{
    for (size_t i = 0; set != NULL && input != NULL && i < set->bound_count; i++)
        if (strcmp(set->bounds[i].name, input) == 0)
            return set->bounds[i].used_scale;
    return 0;
}

size_t xct_dataset_skipped_count(const xct_dataset *set, const char **names)
{
    const bool any = set != NULL && set->images != NULL && set->images->skipped > 0;
    if (names != NULL)
        *names = any ? set->images->skipped_names : NULL;
    return any ? set->images->skipped : 0;
}

int64_t xct_dataset_batch(const xct_dataset *set)
{
    for (size_t i = 0; i < set->bound_count; i++)
        if (set->bounds[i].dims[0] >= 0)
            return set->bounds[i].dims[0];
    return -1;
}
