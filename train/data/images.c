/* Folders of images: listing them, and the program that decodes one. */
#include "train/data/images.h"

#include "base/array.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "train/data/mapping.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- Folders ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_suffix(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && memcmp(name + length - tail, suffix, tail) == 0;
}

static int compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static const char *join(xcvm_arena *arena, const char *folder, const char *name)
{
    const size_t front = strlen(folder), back = strlen(name);
    char *path = xcvm_arena_allocate(arena, front + back + 2);
    if (path != NULL) {
        memcpy(path, folder, front);
        path[front] = '/';
        memcpy(path + front + 1, name, back);
    }
    return path;
}

xcvm_status xct_folder_list(const char *folder, bool folders, const char *suffix, xcvm_arena *arena, xct_paths *found,
                            xcvm_error *error)
{
    const size_t before = found->count;
    DIR *dir = opendir(folder);
    XCVM_CHECK(error, dir != NULL, IO, "%s: %s", folder, strerror(errno));
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.' || !has_suffix(entry->d_name, suffix))
            continue;
        const char *path = join(arena, folder, entry->d_name);
        const char **items = xcvm_arena_grow(arena, found->items, found->count, &found->capacity, sizeof *items);
        good = path != NULL && items != NULL;
        if (!good)
            break;
        found->items = items;
        if (is_folder(path) == folders)
            items[found->count++] = path;
    }
    closedir(dir);
    XCVM_CHECK(error, good, OUT_OF_MEMORY, "no memory for the names in %s", folder);
    if (found->count > before)
        qsort(found->items + before, found->count - before, sizeof *found->items, compare);
    return XCVM_OK;
}

bool xct_images_are_in(const char *path)
{
    xcvm_arena arena = {.allocator = NULL};
    xct_paths folders = {.items = NULL};
    const bool found =
        is_folder(path) && xct_folder_list(path, true, "", &arena, &folders, NULL) == XCVM_OK && folders.count > 0;
    xcvm_arena_release(&arena);
    return found;
}

xcvm_status xct_images_list(const char *path, xcvm_arena *arena, xct_images *images, xcvm_error *error)
{
    xct_paths classes = {.items = NULL};
    size_t path_room = 0, label_room = 0;
    *images = (xct_images){.paths = NULL};
    XCVM_TRY(xct_folder_list(path, true, "", arena, &classes, error));
    for (size_t c = 0; c < classes.count; c++) {
        xct_paths files = {.items = NULL};
        XCVM_TRY(xct_folder_list(classes.items[c], false, "", arena, &files, error));
        for (size_t i = 0; i < files.count; i++) {
            const char **paths = xcvm_arena_grow(arena, images->paths, images->count, &path_room, sizeof *paths);
            int64_t *labels = xcvm_arena_grow(arena, images->labels, images->count, &label_room, sizeof *labels);
            XCVM_CHECK(error, paths != NULL && labels != NULL, OUT_OF_MEMORY, "no memory for the names in %s", path);
            images->paths = paths;
            images->labels = labels;
            paths[images->count] = files.items[i];
            labels[images->count++] = (int64_t)c;
        }
        classes.items[c] = strrchr(classes.items[c], '/') + 1;
    }
    images->classes = classes.items;
    images->class_count = classes.count;
    XCVM_CHECK(error, images->count > 0, INVALID_ARGUMENT, "%s: there are no images in its folders", path);
    return XCVM_OK;
}

/* ---- Decoding ---- */

struct xct_decoder {
    const xcvm_allocator *allocator;
    xcvm_program *program;
    xcvm_session *session;
    xcvm_bytes bytes; /* of the program */
    xcvm_value *result;
};

/* The program as text, for an input whose channels are the second axis or the last one. */
static void write_program(char *text, size_t size, xcvm_dtype dtype, bool channels_last, const int64_t *dims)
{
    const int64_t *spatial = dims + (channels_last ? 1 : 2);
    const int64_t channels = channels_last ? dims[3] : dims[1];
    const char *pixels = channels == 1 ? "Grayscale" : "RGB", *type = xcvm_dtype_name(dtype);
    int at = snprintf(text, size,
                      "xcvm 1\ninput file u8[N]\noutput image %s[1x%lldx%lldx%lld]\n$1 = In(name=\"file\")\n"
                      "$2 = ImageDecoder($1, pixel_format=%s)\n$3 = Cast($2, to=f32)\n"
                      "$4 = Resize($3, _, _, i64[3] %lld %lld %lld, mode=linear, antialias=1)\n",
                      type, (long long)dims[1], (long long)dims[2], (long long)dims[3], pixels, (long long)spatial[0],
                      (long long)spatial[1], (long long)channels);
    at += snprintf(text + at, size - (size_t)at,
                   dtype == XCVM_F32 ? "$5 = Mul($4, f32[] 0.003921568859368563)\n"
                                     : "$10 = Round($4)\n$11 = Clip($10, f32[] 0, f32[] 255)\n$5 = Cast($11, to=u8)\n");
    at += snprintf(text + at, size - (size_t)at,
                   channels_last ? "$6 = Identity($5)\n" : "$6 = Transpose($5, perm=[2 0 1])\n");
    (void)snprintf(text + at, size - (size_t)at, "$7 = Unsqueeze($6, i64[1] 0)\nOut($7, name=\"image\")\n");
}

xcvm_status xct_decoder_create(xcvm_dtype dtype, int rank, const int64_t *dims, const xcvm_allocator *allocator,
                               size_t memory_limit, xct_decoder **decoder, xcvm_error *error)
{
    const bool first = rank == 4 && (dims[1] == 1 || dims[1] == 3);
    const bool last = !first && rank == 4 && (dims[3] == 1 || dims[3] == 3);
    XCVM_CHECK(error, (first || last) && (dtype == XCVM_F32 || dtype == XCVM_U8), SHAPE_MISMATCH,
               "images can be read for an input of f32 or u8 with 1 or 3 channels, [N, C, H, W] or [N, H, W, C]");
    for (int i = 1; i < 4; i++)
        XCVM_CHECK(error, dims[i] > 0, SHAPE_MISMATCH,
                   "images can be resized for an input of known height and width alone; fix them with their names");
    char text[1000];
    write_program(text, sizeof text, dtype, last, dims);
    xct_decoder *d = xcvm_allocate_zeroed(allocator, sizeof *d);
    XCVM_CHECK(error, d != NULL, OUT_OF_MEMORY, "no memory for the decoder of images");
    d->allocator = d->bytes.allocator = allocator;
    const int64_t one[] = {1, dims[1], dims[2], dims[3]};
    xcvm_status status = xcvm_assemble(text, strlen(text), NULL, xcvm_bytes_sink, &d->bytes, error);
    if (d->bytes.failed)
        status = xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the decoder of images");
    const xcvm_load_options load = {.size = sizeof load, .allocator = allocator};
    const xcvm_session_options session = {
        .size = sizeof session, .allocator = allocator, .threads = 1, .memory_limit = memory_limit};
    if (status == XCVM_OK)
        status = xcvm_program_load(d->bytes.at, d->bytes.count, &load, &d->program, error);
    if (status == XCVM_OK)
        status = xcvm_session_create(d->program, &session, &d->session, error);
    if (status == XCVM_OK)
        status = xcvm_tensor_create(allocator, dtype, 4, one, &d->result, error);
    if (status == XCVM_OK)
        status = xcvm_session_set_output(d->session, 0, d->result, error);
    if (status == XCVM_OK)
        *decoder = d;
    else
        xct_decoder_destroy(d);
    return status;
}

void xct_decoder_destroy(xct_decoder *d)
{
    if (d == NULL)
        return;
    xcvm_session_destroy(d->session);
    xcvm_program_destroy(d->program);
    xcvm_value_release(d->result);
    xcvm_bytes_release(&d->bytes);
    xcvm_deallocate(d->allocator, d, sizeof *d);
}

xcvm_status xct_decoder_read(xct_decoder *d, const char *path, uint64_t deadline_ns, void *to, size_t bytes,
                             xcvm_error *error)
{
    xct_mapping file;
    xcvm_value *input = NULL;
    XCVM_TRY(xct_mapping_open(&file, path, error));
    const int64_t count = (int64_t)file.count;
    xcvm_status status = xcvm_tensor_wrap(XCVM_U8, 1, &count, (void *)(uintptr_t)file.bytes, NULL, NULL, &input, error);
    if (status == XCVM_OK)
        status = xcvm_session_set_input(d->session, 0, input, error);
    const uint64_t now = deadline_ns != 0 ? xcvm_clock_ns() : 0;
    const xcvm_run_options run = {.size = sizeof run,
                                  .timeout_ns = deadline_ns == 0    ? 0
                                                : deadline_ns > now ? deadline_ns - now
                                                                    : 1};
    if (status == XCVM_OK)
        status = xcvm_session_run(d->session, &run, error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "%s", path);
    else
        memcpy(to, xcvm_value_data(d->result), xcvm_min(bytes, xcvm_value_bytes(d->result)));
    xcvm_value_release(input); /* the session has another reference, but reads it in a run alone */
    xct_mapping_close(&file);
    return status;
}
