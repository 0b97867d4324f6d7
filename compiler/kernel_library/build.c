/* Building the kernel library: its source in parts, the C compiler on each, and the cache. */
#include "base/isas.h"
#include "base/sha256.h"
#include "compiler/ir/compilation.h"
#include "compiler/kernel_library/kernel_library.h"
#include "compiler/kernel_library/cc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parts that a library is compiled in, side by side, and groups that are worth one. */
enum { PATH_SIZE = 4096, MOST_PARTS = 32, GROUPS_OF_PART = 8 };

typedef struct build {
    xcc_module *m;
    char source[PATH_SIZE], object[PATH_SIZE], messages[PATH_SIZE]; /* temporary files next to the library */
    char cached[PATH_SIZE];                                         /* "": not kept */
} build;

static const xcc_source_part entire = {.number = 0, .count = 1};

static xcvm_status io_error(build *b, const char *what, const char *path)
{
    return xcvm_error_set(b->m->error, XCVM_IO, "%.300s %s: %s", path, what, strerror(errno));
}

/* A name unique to this build; other threads and processes may build the same library at the same time. */
static int name_temporary(const build *b, char *path, size_t size, const char *base, const char *suffix)
{
    return snprintf(path, size, "%s.%ld-%zx%s", base, (long)getpid(), (size_t)(uintptr_t)b, suffix);
}

static xcvm_status name_file(build *b, char path[PATH_SIZE], const char *suffix)
{
    int length = name_temporary(b, path, PATH_SIZE, b->m->options->kernel_library.path, suffix);
    XCVM_CHECK(b->m->error, length > 0 && length < PATH_SIZE, INVALID_ARGUMENT,
               "the path of the kernel library is too long");
    return XCVM_OK;
}

static xcvm_status write_source(build *b, const char *path, xcc_source_part part)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return io_error(b, "cannot be written", path);
    bool written = xcc_codegen_write(b->m, part, file);
    if (fclose(file) != 0 || !written) {
        xcvm_status status = io_error(b, "cannot be written", path);
        unlink(path);
        return status;
    }
    return XCVM_OK;
}

static bool add_file(xcvm_sha256 *hash, const char *path)
{
    char buffer[8192];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t got;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0)
        xcvm_sha256_add(hash, buffer, got);
    bool whole = ferror(file) == 0;
    fclose(file);
    return whole;
}

/* The place in the cache is named by source, compiler and flags. */
static void name_cached(build *b)
{
    const char *dir = b->m->options->kernel_library.cache_dir, *flags[XCC_MOST_FLAGS];
    const char *compiler = xcc_cc_name(b->m->options);
    uint8_t digest[XCVM_SHA256_BYTES];
    xcvm_sha256 hash;
    if (dir == NULL)
        return;
    xcvm_sha256_begin(&hash);
    xcvm_sha256_add(&hash, compiler, strlen(compiler) + 1);
    size_t count = xcc_cc_flags(b->m->options, flags);
    for (size_t i = 0; i < count; i++)
        xcvm_sha256_add(&hash, flags[i], strlen(flags[i]) + 1);
    if (!add_file(&hash, b->source))
        return;
    xcvm_sha256_end(&hash, digest);
    int at = snprintf(b->cached, sizeof b->cached, "%s/", dir);
    if (at < 0 || (size_t)at + 2 * sizeof digest + 4 > sizeof b->cached) {
        b->cached[0] = '\0';
        return;
    }
    for (size_t i = 0; i < sizeof digest; i++)
        at += snprintf(b->cached + at, sizeof b->cached - (size_t)at, "%02x", digest[i]);
    snprintf(b->cached + at, sizeof b->cached - (size_t)at, ".so");
}

static bool copy_file(const char *from, const char *to)
{
    char buffer[65536];
    FILE *in = fopen(from, "re"), *out = in != NULL ? fopen(to, "we") : NULL;
    bool copied = out != NULL;
    size_t got;
    while (copied && (got = fread(buffer, 1, sizeof buffer, in)) > 0)
        copied = fwrite(buffer, 1, got, out) == got;
    copied = copied && ferror(in) == 0;
    if (in != NULL)
        fclose(in);
    if (out != NULL)
        copied = fclose(out) == 0 && copied;
    if (!copied && out != NULL)
        unlink(to);
    return copied;
}

/* A library that cannot be kept is as good. */
static void save_to_cache(build *b)
{
    char temporary[PATH_SIZE + 64];
    if (b->cached[0] == '\0')
        return;
    (void)mkdir(b->m->options->kernel_library.cache_dir, 0700);
    name_temporary(b, temporary, sizeof temporary, b->cached, "");
    if (copy_file(b->object, temporary) && rename(temporary, b->cached) != 0)
        unlink(temporary);
}

/* A file of one part of the library, removed with the others. */
typedef struct part {
    char source[PATH_SIZE], object[PATH_SIZE], messages[PATH_SIZE];
} part;

static xcvm_status write_part(build *b, part *p, xcc_source_part which)
{
    char suffix[3][24];
    for (int i = 0; i < 3; i++)
        snprintf(suffix[i], sizeof suffix[i], ".%u%s", (unsigned)which.number, i == 0 ? ".c" : i == 1 ? ".o" : ".log");
    XCVM_TRY(name_file(b, p->source, suffix[0]));
    XCVM_TRY(name_file(b, p->object, suffix[1]));
    XCVM_TRY(name_file(b, p->messages, suffix[2]));
    return write_source(b, p->source, which);
}

static xcvm_status compile_parts(build *b, part *parts, uint32_t count)
{
    xcc_cc_job jobs[MOST_PARTS];
    const char *sources[MOST_PARTS], *objects[MOST_PARTS];
    for (uint32_t i = 0; i < count; i++) {
        XCVM_TRY(write_part(b, &parts[i], (xcc_source_part){i, count}));
        sources[i] = parts[i].source;
        objects[i] = parts[i].object;
        jobs[i] = (xcc_cc_job){
            .inputs = &sources[i], .input_count = 1, .output = parts[i].object, .messages = parts[i].messages};
    }
    XCVM_TRY(xcc_cc_run(b->m->options, jobs, count, xcc_stop_of(b->m), b->m->error));
    xcc_cc_job link = {
        .inputs = objects, .input_count = count, .output = b->object, .messages = b->messages, .links = true};
    return xcc_cc_run(b->m->options, &link, 1, xcc_stop_of(b->m), b->m->error);
}

static xcvm_status run_compiler(build *b)
{
    uint32_t count = b->m->group_count / GROUPS_OF_PART;
    count = count > MOST_PARTS ? MOST_PARTS : count;
    if (count < 2) {
        const char *source = b->source;
        xcc_cc_job job = {
            .inputs = &source, .input_count = 1, .output = b->object, .messages = b->messages, .links = true};
        return xcc_cc_run(b->m->options, &job, 1, xcc_stop_of(b->m), b->m->error);
    }
    part *parts = xcvm_allocate_zeroed(b->m->allocator, count * sizeof *parts);
    if (parts == NULL)
        return xcc_out_of_memory(b->m);
    xcvm_status status = compile_parts(b, parts, count);
    for (uint32_t i = 0; i < count; i++) {
        unlink(parts[i].source);
        unlink(parts[i].object);
        unlink(parts[i].messages);
    }
    xcvm_deallocate(b->m->allocator, parts, count * sizeof *parts);
    return status;
}

static xcvm_status make_object(build *b)
{
    name_cached(b);
    if (b->cached[0] != '\0' && access(b->cached, R_OK) == 0 && copy_file(b->cached, b->object))
        return XCVM_OK;
    XCVM_TRY(run_compiler(b));
    save_to_cache(b);
    return XCVM_OK;
}

static xcvm_status finish(build *b)
{
    xcvm_sha256 hash;
    xcvm_sha256_begin(&hash);
    if (!add_file(&hash, b->object))
        return io_error(b, "cannot be read", b->object);
    xcvm_sha256_end(&hash, b->m->compilation->library_hash);
    if (rename(b->object, b->m->options->kernel_library.path) != 0)
        return io_error(b, "cannot be written", b->m->options->kernel_library.path);
    return XCVM_OK;
}

#define LISTED(of, kind, suffix, name, has, ...) ", " name

xcvm_status xcc_codegen_build(xcc_module *m)
{
    build b = {.m = m};
    const xcc_options *options = m->options;
    if (m->group_count == 0)
        return XCVM_OK;
    XCVM_CHECK(m->error, xcc_cc_isa(options) != NULL, INVALID_ARGUMENT,
               "unknown target \"%.60s\"; expected native" XCVM_ALL_ISAS(LISTED, ), options->kernel_library.target);
    for (xcc_group *group = m->groups; group != NULL; group = group->next)
        XCVM_TRY(xcc_kernel_group_loops(m, xcc_fusion_of(group)));
    /* Before it is compiled, so that it can be looked at if that fails. */
    if (options->kernel_library.source_path != NULL)
        XCVM_TRY(write_source(&b, options->kernel_library.source_path, entire));
    XCVM_TRY(name_file(&b, b.source, ".c"));
    XCVM_TRY(name_file(&b, b.object, ".tmp"));
    XCVM_TRY(name_file(&b, b.messages, ".log"));
    xcvm_status status = write_source(&b, b.source, entire);
    if (status == XCVM_OK)
        status = make_object(&b);
    if (status == XCVM_OK)
        status = finish(&b);
    unlink(b.source);
    unlink(b.object);
    unlink(b.messages);
    return status;
}
