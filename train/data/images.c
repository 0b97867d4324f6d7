/* Folders of images: listing them. */
#include "train/data/images.h"

#include "base/array.h"
#include "proto/recognize.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- Images in them ---- */

static bool has_image_suffix(const char *name)
{
    static const char *const suffixes[] = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff",
                                           ".bmp", ".pgm",  ".ppm", ".jp2",  ".j2k"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t tail = strlen(suffixes[i]);
        if (length > tail && strcasecmp(name + length - tail, suffixes[i]) == 0)
            return true;
    }
    return false;
}

/* If the name has no image extension, the first bytes decide. Damaged images with an image extension fail when they are
 * read. */
static bool is_image(const char *path)
{
    enum { BEGINNING = 64 };
    unsigned char bytes[BEGINNING];
    struct stat info;
    if (has_image_suffix(path))
        return true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? read(fd, bytes, sizeof bytes) : -1;
    if (fd >= 0)
        close(fd);
    return got > 0 && xcvm_recognize(bytes, (size_t)got, XCVM_FILE_IMAGE, NULL, 0) == XCVM_FILE_IMAGE;
}

bool xct_images_is_one(const char *path) { return !is_folder(path) && is_image(path); }

static bool is_array_file(const char *name)
{
    return has_suffix(name, ".npz") || has_suffix(name, ".npy") || has_suffix(name, ".safetensors");
}

/* Counts the files of a directory with extensions of images, and those with extensions of arrays. */
static bool count_files(const char *folder, xcvm_arena *arena, size_t *images, size_t *arrays)
{
    xct_paths files = {.items = NULL};
    if (xct_folder_list(folder, false, "", arena, &files, NULL) != XCVM_OK)
        return false;
    for (size_t i = 0; i < files.count; i++) {
        *images += has_image_suffix(files.items[i]);
        *arrays += is_array_file(files.items[i]);
    }
    return true;
}

/* A directory with arrays and subdirectories, such as one of checkpoints, is a data set of images only if a
 * subdirectory has images. */
bool xct_images_are_in(const char *path)
{
    xcvm_arena arena = {.allocator = NULL};
    xct_paths folders = {.items = NULL};
    size_t images = 0, arrays = 0, below = 0, none = 0;
    bool found = is_folder(path) && xct_folder_list(path, true, "", &arena, &folders, NULL) == XCVM_OK &&
                 count_files(path, &arena, &images, &arrays);
    for (size_t i = 0; found && arrays > 0 && below == 0 && i < folders.count; i++)
        found = count_files(folders.items[i], &arena, &below, &none);
    if (found)
        found = folders.count > 0 ? arrays == 0 || below > 0 : images > 0 && arrays == 0;
    xcvm_arena_release(&arena);
    return found;
}

/* Counts a file that is no image, and adds its name to the first few. */
static xcvm_status skip_file(xct_images *images, const char *path, xcvm_arena *arena, xcvm_error *error)
{
    enum { NAMED = 3, LONGEST = 600 };
    const size_t before = images->skipped_names != NULL ? strlen(images->skipped_names) : 0;
    images->skipped++;
    if (images->skipped > NAMED)
        return XCVM_OK;
    char *names = xcvm_arena_allocate(arena, before + LONGEST);
    XCVM_CHECK(error, names != NULL, OUT_OF_MEMORY, "no memory for the names of files");
    (void)snprintf(names, before + LONGEST, "%s%s%.500s", before > 0 ? images->skipped_names : "",
                   before > 0 ? ", " : "", path);
    images->skipped_names = names;
    return XCVM_OK;
}

static xcvm_status add_images(xct_images *images, const xct_paths *files, int64_t label, xcvm_arena *arena,
                              xcvm_error *error)
{
    for (size_t i = 0; i < files->count; i++) {
        if (!is_image(files->items[i])) {
            XCVM_TRY(skip_file(images, files->items[i], arena, error));
            continue;
        }
        const char **paths = xcvm_arena_grow(arena, images->paths, images->count, &images->path_room, sizeof *paths);
        int64_t *labels = xcvm_arena_grow(arena, images->labels, images->count, &images->label_room, sizeof *labels);
        XCVM_CHECK(error, paths != NULL && labels != NULL, OUT_OF_MEMORY, "no memory for the names of images");
        images->paths = paths;
        images->labels = labels;
        paths[images->count] = files->items[i];
        labels[images->count++] = label;
    }
    return XCVM_OK;
}

xcvm_status xct_images_add(const xct_paths *files, xcvm_arena *arena, xct_images *images, xcvm_error *error)
{
    *images = (xct_images){.paths = NULL};
    return add_images(images, files, 0, arena, error);
}

static bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* Skips what lies below a folder of images, at any depth, but not behind links. Sets *deeper if there are images. What
 * cannot be listed has nothing to skip. */
static xcvm_status skip_below(xct_images *images, const char *folder, bool *deeper, xcvm_arena *arena,
                              xcvm_error *error)
{
    xct_paths folders = {.items = NULL};
    xcvm_status status = xct_folder_list(folder, true, "", arena, &folders, error);
    if (status == XCVM_IO)
        return XCVM_OK;
    XCVM_TRY(status);
    for (size_t i = 0; i < folders.count; i++) {
        xct_paths below = {.items = NULL};
        if (is_link(folders.items[i]))
            continue;
        status = xct_folder_list(folders.items[i], false, "", arena, &below, error);
        if (status == XCVM_IO)
            continue;
        XCVM_TRY(status);
        XCVM_TRY(skip_below(images, folders.items[i], deeper, arena, error));
        for (size_t k = 0; k < below.count; k++) {
            *deeper = *deeper || has_image_suffix(below.items[k]);
            XCVM_TRY(skip_file(images, below.items[k], arena, error));
        }
    }
    return XCVM_OK;
}

xcvm_status xct_images_list(const char *path, xcvm_arena *arena, xct_images *images, xcvm_error *error)
{
    xct_paths classes = {.items = NULL}, own = {.items = NULL};
    *images = (xct_images){.paths = NULL};
    XCVM_TRY(xct_folder_list(path, true, "", arena, &classes, error));
    const char *above = NULL; /* a folder of folders with images */
    for (size_t c = 0; c < classes.count; c++) {
        xct_paths files = {.items = NULL};
        bool deeper = false;
        XCVM_TRY(skip_below(images, classes.items[c], &deeper, arena, error));
        if (deeper && above == NULL)
            above = classes.items[c];
        XCVM_TRY(xct_folder_list(classes.items[c], false, "", arena, &files, error));
        XCVM_TRY(add_images(images, &files, (int64_t)c, arena, error));
        classes.items[c] = strrchr(classes.items[c], '/') + 1;
    }
    /* Beside classes, files belong to none. */
    XCVM_TRY(xct_folder_list(path, false, "", arena, &own, error));
    for (size_t i = 0; i < own.count && classes.count > 0; i++)
        XCVM_TRY(skip_file(images, own.items[i], arena, error));
    if (classes.count == 0)
        XCVM_TRY(add_images(images, &own, 0, arena, error));
    images->classes = classes.items;
    images->class_count = classes.count;
    XCVM_CHECK(error, images->count > 0 || above == NULL, INVALID_ARGUMENT,
               "%s: there are no images in its folders, only in folders of these. Name one of them, such as %s", path,
               above);
    XCVM_CHECK(error, images->count > 0, INVALID_ARGUMENT, "%s: there are no images in %s%s%s", path,
               classes.count > 0 ? "its folders" : "it", images->skipped > 0 ? "; there are other files, as " : "",
               images->skipped > 0 ? images->skipped_names : "");
    return XCVM_OK;
}
