/* Loading: from a file or bytes to a verified program. */
#include "vm/options.h"
#include "ops/table/table.h"
#include "proto/recognize.h"
#include "vm/kernel_library.h"
#include "vm/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The bytes of a program: mapped, copied or borrowed. */
typedef struct source {
    const void *bytes; /* `count` bytes of a program; inside `memory` unless borrowed */
    size_t count;
    void *memory;
    size_t memory_bytes;
    bool mapped;
} source;

static void source_close(const xcvm_allocator *allocator, source *s)
{
    if (s->mapped)
        munmap(s->memory, s->memory_bytes);
    else if (s->memory != NULL)
        xcvm_deallocate(allocator, s->memory, s->memory_bytes);
    s->memory = NULL;
}

/* Allocates memory for a copy of `count` bytes, with room to align the constants. */
static xcvm_status source_allocate(const xcvm_allocator *allocator, size_t count, source *s, xcvm_error *error)
{
    size_t bytes;
    *s = (source){.count = count};
    if (xcvm_size_add(count, XCVM_ALIGNMENT, &bytes))
        s->memory = xcvm_allocate(allocator, bytes);
    XCVM_CHECK(error, s->memory != NULL, OUT_OF_MEMORY, "no memory for a program of %zu bytes", count);
    s->memory_bytes = bytes;
    s->bytes = s->memory;
    return XCVM_OK;
}

static xcvm_status read_all(int file, source *s, xcvm_error *error)
{
    for (size_t done = 0; done < s->count;) {
        ssize_t got = pread(file, (char *)s->memory + done, s->count - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        XCVM_CHECK(error, got >= 0, IO, "cannot be read: %s", strerror(errno));
        XCVM_CHECK(error, got > 0, IO, "ends after %zu of %zu bytes; it is being changed", done, s->count);
        done += (size_t)got;
    }
    return XCVM_OK;
}

static xcvm_status read_file(const char *path, int file, bool copy, const xcvm_allocator *allocator, source *s,
                             xcvm_error *error)
{
    struct stat about;
    XCVM_CHECK(error, fstat(file, &about) == 0, IO, "cannot be read: %s", strerror(errno));
    if (S_ISDIR(about.st_mode)) {
        char text[400];
        xcvm_recognize_folder(path, text, sizeof text);
        return xcvm_error_set(error, XCVM_IO, "%s", text);
    }
    XCVM_CHECK(error, S_ISREG(about.st_mode), IO, "is not a regular file");
    XCVM_CHECK(error, about.st_size > 0, INVALID_PROGRAM, "the file is empty");
    XCVM_CHECK(error, (uintmax_t)about.st_size < PTRDIFF_MAX, INVALID_PROGRAM, "the file is too large");
    size_t count = (size_t)about.st_size;
    if (copy) {
        XCVM_TRY(source_allocate(allocator, count, s, error));
        xcvm_status status = read_all(file, s, error);
        if (status != XCVM_OK)
            source_close(allocator, s);
        return status;
    }
    void *mapping = mmap(NULL, count, PROT_READ, MAP_PRIVATE, file, 0);
    XCVM_CHECK(error, mapping != MAP_FAILED && mapping != NULL, IO, "cannot be mapped: %s", strerror(errno));
    *s = (source){mapping, count, mapping, count, true};
    return XCVM_OK;
}

static xcvm_status open_file(const char *path, bool copy, const xcvm_allocator *allocator, source *s, xcvm_error *error)
{
    /* A pipe is refused later; opening it must not block. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    XCVM_CHECK(error, file >= 0, IO, "cannot be opened: %s", strerror(errno));
    xcvm_status status = read_file(path, file, copy, allocator, s, error);
    close(file);
    return status;
}

static bool is_aligned(const xcvm_program *program, const source *s)
{
    return program->image.data_bytes == 0 ||
           ((uintptr_t)s->bytes + (uintptr_t)program->image.data_offset) % XCVM_ALIGNMENT == 0;
}

/* Moves or copies the bytes so that the constants are aligned. */
static xcvm_status align(const xcvm_allocator *allocator, uint64_t data_offset, source *s, xcvm_error *error)
{
    size_t shift = (XCVM_ALIGNMENT - (size_t)(data_offset % XCVM_ALIGNMENT)) % XCVM_ALIGNMENT;
    if (s->memory == NULL || s->mapped) {
        source copy;
        XCVM_TRY(source_allocate(allocator, s->count, &copy, error));
        memcpy((char *)copy.memory + shift, s->bytes, s->count);
        source_close(allocator, s);
        *s = copy;
    } else {
        memmove((char *)s->memory + shift, s->bytes, s->count);
    }
    s->bytes = (const char *)s->memory + shift;
    return XCVM_OK;
}

static xcvm_status decode(xcvm_program *program, source *s, xcvm_error *error)
{
    const xcvm_allocator *allocator = &program->allocator;
    XCVM_TRY(xcvm_image_decode(s->bytes, s->count, allocator, &program->arena, &program->image, error));
    if (is_aligned(program, s))
        return XCVM_OK;
    uint64_t data_offset = program->image.data_offset;
    xcvm_arena_release(&program->arena);
    program->image = (xcvm_image){0};
    XCVM_TRY(align(allocator, data_offset, s, error));
    return xcvm_image_decode(s->bytes, s->count, allocator, &program->arena, &program->image, error);
}

/* Copies the strings of a mapped file: kernels trust verified spans, but the file may change while it is mapped.
 * Numbers such as indices are checked whenever they are read. */
static xcvm_status keep_strings(xcvm_program *program, xcvm_error *error)
{
    for (size_t i = 0; i < program->image.constant_count; i++) {
        xcvm_value *value = &program->image.constants[i].value;
        if (value->dtype != XCVM_STRING || value->bytes == 0)
            continue;
        void *copy = xcvm_arena_allocate(&program->arena, value->bytes);
        XCVM_CHECK(error, copy != NULL, OUT_OF_MEMORY, "no memory for strings of %zu bytes", value->bytes);
        memcpy(copy, value->data, value->bytes);
        XCVM_CHECK(error, xcvm_strings_valid(copy, value->bytes, xcvm_element_count(value)), INVALID_PROGRAM,
                   "constant %zu (%s) was changed while the program was loaded", i, program->image.constants[i].name);
        value->data = copy;
    }
    return XCVM_OK;
}

static xcvm_status choose_isa(xcvm_program *program, const char *isa, xcvm_error *error)
{
    program->isa = xcvm_kernel_isa();
    if (isa == NULL)
        return XCVM_OK;
    XCVM_CHECK(error, xcvm_isa_runs(isa), UNSUPPORTED,
               "there are no kernels of the instruction set \"%.40s\" here, %s is the most that this CPU runs", isa,
               program->isa);
    const size_t bytes = strlen(isa) + 1;
    char *copy = xcvm_arena_allocate(&program->arena, bytes);
    XCVM_CHECK(error, copy != NULL, OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
    program->isa = memcpy(copy, isa, bytes);
    return XCVM_OK;
}

/* Takes over `s`, also on failure. `path` may be NULL. */
static xcvm_status load(source *s, const char *path, const xcvm_load_options *options, xcvm_program **program,
                        xcvm_error *error)
{
    const xcvm_allocator *allocator = xcvm_allocator_or_default(options->allocator);
    xcvm_program *loaded = xcvm_allocate_zeroed(allocator, sizeof *loaded);
    if (loaded == NULL) {
        source_close(allocator, s);
        return xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for a program");
    }
    loaded->allocator = *allocator;
    loaded->arena.allocator = &loaded->allocator;
    xcvm_status status = decode(loaded, s, error);
    loaded->mapping = s->memory;
    loaded->mapping_bytes = s->memory_bytes;
    loaded->mapped = s->mapped;
    if (status == XCVM_OK && loaded->mapped)
        status = keep_strings(loaded, error);
    if (status == XCVM_OK)
        status = choose_isa(loaded, options->isa, error);
    if (status == XCVM_OK)
        status = xcvm_program_verify(loaded, error);
    if (status != XCVM_OK) {
        status = xcvm_recognize_failure(status, s->bytes, s->count, XCVM_FILE_PROGRAM, error);
        xcvm_program_destroy(loaded);
        return status;
    }
    xcvm_program_open_libraries(loaded, path, options);
    *program = loaded;
    return XCVM_OK;
}

xcvm_status xcvm_program_load_file(const char *path, const xcvm_load_options *options, xcvm_program **program,
                                   xcvm_error *error)
{
    xcvm_load_options o;
    source s;
    XCVM_CHECK(error, path != NULL, INVALID_ARGUMENT, "path is NULL");
    XCVM_CHECK(error, program != NULL, INVALID_ARGUMENT, "program is NULL");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    xcvm_status status = open_file(path, o.copy, allocator, &s, error);
    if (status == XCVM_OK)
        status = load(&s, path, &o, program, error);
    if (status != XCVM_OK)
        xcvm_error_prefix(error, "%s", path);
    return status;
}

xcvm_status xcvm_program_load(const void *bytes, size_t count, const xcvm_load_options *options, xcvm_program **program,
                              xcvm_error *error)
{
    xcvm_load_options o;
    XCVM_CHECK(error, bytes != NULL, INVALID_ARGUMENT, "bytes is NULL");
    XCVM_CHECK(error, program != NULL, INVALID_ARGUMENT, "program is NULL");
    XCVM_CHECK(error, count > 0, INVALID_PROGRAM, "the program is empty");
    XCVM_TRY(xcvm_options_read(&o, sizeof o, options, error));
    const xcvm_allocator *allocator = xcvm_allocator_or_default(o.allocator);
    source s = {.bytes = bytes, .count = count};
    if (o.copy) {
        XCVM_TRY(source_allocate(allocator, count, &s, error));
        memcpy(s.memory, bytes, count);
    }
    return load(&s, NULL, &o, program, error);
}

void xcvm_program_destroy(xcvm_program *program)
{
    if (program == NULL)
        return;
    xcvm_allocator allocator = program->allocator;
    source s = {.memory = program->mapping, .memory_bytes = program->mapping_bytes, .mapped = program->mapped};
    xcvm_program_close_libraries(program);
    xcvm_arena_release(&program->arena);
    source_close(&allocator, &s);
    xcvm_deallocate(&allocator, program, sizeof *program);
}
