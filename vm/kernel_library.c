/* Kernel libraries: locates and opens them after checking hash, ABI and instruction set. */
#include "vm/kernel_library.h"
#include "base/sha256.h"
#include "ops/table/table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two characters for each bit of a hash, plus the directory and the descriptor number. */
enum { PATH_OF_FILE = XCVM_SHA256_BYTES * 8 * 2 + 32 };

/* Only the first reason is kept, because the others are usually the same. */
static void record_notice(xcvm_program *program, const char *file, const char *why)
{
    if (program->notice[0] == '\0')
        snprintf(program->notice, sizeof program->notice,
                 "kernel library \"%.80s\" %.100s; its instructions run unfused", file, why);
}

/* A file name in a program must not leave the directory. */
static bool is_plain_name(const char *file)
{
    return file[0] != '\0' && strchr(file, '/') == NULL && strcmp(file, ".") != 0 && strcmp(file, "..") != 0;
}

static bool has_hash(int file, const uint8_t expected[XCVM_SHA256_BYTES])
{
    uint8_t buffer[16384], digest[XCVM_SHA256_BYTES];
    xcvm_sha256 hash;
    xcvm_sha256_begin(&hash);
    for (off_t at = 0;;) {
        ssize_t got = pread(file, buffer, sizeof buffer, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        xcvm_sha256_add(&hash, buffer, (size_t)got);
        at += got;
    }
    xcvm_sha256_end(&hash, digest);
    return memcmp(digest, expected, sizeof digest) == 0;
}

/* Makes a path to the open file that is unique for its content. dlopen identifies loaded libraries by path, and
 * descriptor numbers are reused. So the path also encodes the hash in redundant components: "/" for a 0 bit and "/."
 * for a 1 bit. */
static void describe_file(int file, const uint8_t hash[XCVM_SHA256_BYTES], char path[PATH_OF_FILE])
{
    size_t length = (size_t)snprintf(path, PATH_OF_FILE, "/proc/self/fd");
    for (size_t bit = 0; bit < XCVM_SHA256_BYTES * (size_t)8; bit++) {
        path[length++] = '/';
        if ((hash[bit / 8] >> bit % 8 & 1) != 0)
            path[length++] = '.';
    }
    snprintf(path + length, PATH_OF_FILE - length, "/%d", file);
}

/* Opens exactly the file whose content was checked, even if its name refers to another file meanwhile. */
static void *open_library(int file, const xcvm_library *library, const char **why)
{
    struct stat about;
    char path[PATH_OF_FILE];
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        *why = "is not a regular file";
        return NULL;
    }
    if (!has_hash(file, library->hash)) {
        *why = "is not the file that the program was compiled with";
        return NULL;
    }
    describe_file(file, library->hash, path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        *why = "cannot be opened by the dynamic linker";
    return handle;
}

static const xcvm_library_table *table_of(void *handle, const char **why)
{
    const xcvm_library_table *table = dlsym(handle, XCVM_LIBRARY_SYMBOL);
    if (table != NULL && table->abi == XCVM_LIBRARY_ABI)
        return table;
    *why = table == NULL ? "has no table of kernels" : "has kernels of another ABI";
    return NULL;
}

static void *find(const xcvm_library *library, const char *folder, size_t folder_length, const char **why)
{
    char path[4096];
    if (!is_plain_name(library->file)) {
        *why = "is not a plain file name";
        return NULL;
    }
    int length = snprintf(path, sizeof path, "%.*s/%s", (int)folder_length, folder, library->file);
    if (length < 0 || (size_t)length >= sizeof path) {
        *why = "has too long a path";
        return NULL;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (file < 0) {
        *why = errno == ENOENT ? "is missing" : "cannot be opened";
        return NULL;
    }
    void *handle = open_library(file, library, why);
    close(file);
    return handle;
}

static void *open_one(const xcvm_library *library, const char *isa, const char *path, const char *dir, const char **why)
{
    if (library->abi != XCVM_LIBRARY_ABI) {
        *why = "was made for a machine of another ABI";
        return NULL;
    }
    if (!xcvm_isa_within(library->isa, isa)) {
        *why = "was made for another instruction set";
        return NULL;
    }
    void *handle = NULL;
    *why = "has no folder to be looked for in";
    if (path != NULL) {
        const char *slash = strrchr(path, '/');
        handle = slash != NULL ? find(library, path, (size_t)(slash - path) + 1, why) : find(library, "./", 2, why);
    }
    if (handle == NULL && dir != NULL)
        handle = find(library, dir, strlen(dir), why);
    return handle;
}

/* The library may have been made for another program. */
static bool is_for(const xcvm_library_kernel *function, const xcvm_fused *f)
{
    if (function->run == NULL || function->operands != f->in_count || function->results != f->out_count)
        return false;
    for (uint32_t i = 0; i < f->in_count + f->out_count; i++)
        if (function->elements[i] != f->elements[i])
            return false;
    return true;
}

static void link_functions(xcvm_program *program, uint32_t number, const xcvm_library_table *table)
{
    for (size_t i = 0; i < program->fused_count; i++) {
        xcvm_fused *f = &program->fused[i];
        if (f->library != number || f->kernel >= table->count)
            continue;
        const xcvm_library_kernel *function = &table->kernels[f->kernel];
        if (is_for(function, f))
            f->function = function;
        else
            record_notice(program, program->image.libraries[number].file, "has a kernel of other operands");
    }
}

void xcvm_program_open_libraries(xcvm_program *program, const char *path, const struct xcvm_load_options *options)
{
    const xcvm_image *image = &program->image;
    if (program->fused_count == 0 || options->no_libraries)
        return;
    program->libraries = xcvm_arena_allocate(&program->arena, image->library_count * sizeof *program->libraries);
    if (program->libraries == NULL) {
        record_notice(program, image->libraries[0].file, "finds no memory");
        return;
    }
    for (size_t i = 0; i < image->library_count; i++) {
        const char *why = NULL;
        const xcvm_library_table *table = NULL;
        program->libraries[i] = open_one(&image->libraries[i], program->isa, path, options->library_dir, &why);
        if (program->libraries[i] != NULL)
            table = table_of(program->libraries[i], &why);
        if (table != NULL)
            link_functions(program, (uint32_t)i, table);
        else
            record_notice(program, image->libraries[i].file, why);
    }
}

void xcvm_program_close_libraries(xcvm_program *program)
{
    for (size_t i = 0; program->libraries != NULL && i < program->image.library_count; i++)
        if (program->libraries[i] != NULL)
            dlclose(program->libraries[i]);
}
