/* From the source of a kernel library to the file. */
#include "base/sha256.h"
#include "compiler/fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_SIZE = 4096, MOST_FLAGS = 24 };

typedef struct build {
    xcc_module *m;
    char source[PATH_SIZE], object[PATH_SIZE], messages[PATH_SIZE]; /* temporary files beside the library */
    char cached[PATH_SIZE];                                         /* "": not kept */
} build;

/* The machine's own flags, so that elements come out the same. */
static size_t collect_flags(const char *flags[MOST_FLAGS])
{
    const char *isa = xcvm_kernel_isa();
    size_t count = 0;
    flags[count++] = "-O3";
    flags[count++] = "-std=gnu11";
    flags[count++] = "-fPIC";
    flags[count++] = "-shared";
    flags[count++] = "-fvisibility=hidden";
    flags[count++] = "-fno-math-errno";
    flags[count++] = "-fno-trapping-math";
    flags[count++] = "-w";
    if (strcmp(isa, "x86-64-v4") == 0) {
        flags[count++] = "-march=x86-64-v4";
        flags[count++] = "-mprefer-vector-width=512";
    } else if (strcmp(isa, "x86-64-v3") == 0) {
        flags[count++] = "-march=x86-64-v3";
    }
    return count;
}

static xcvm_status io_error(build *b, const char *what, const char *path)
{
    return xcvm_error_set(b->m->error, XCVM_IO, "%.300s %s: %s", path, what, strerror(errno));
}

static xcvm_status name_file(build *b, char path[PATH_SIZE], const char *suffix)
{
    int length = snprintf(path, PATH_SIZE, "%s.%ld%s", b->m->options->fuse, (long)getpid(), suffix);
    XCVM_CHECK(b->m->error, length > 0 && length < PATH_SIZE, INVALID_ARGUMENT,
               "the path of the kernel library is too long");
    return XCVM_OK;
}

static xcvm_status write_source(build *b, const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return io_error(b, "cannot be written", path);
    bool written = xcc_fuse_write(b->m, file);
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

static const char *compiler_of(const build *b) { return b->m->options->cc != NULL ? b->m->options->cc : "cc"; }

/* The place in the cache is named by source, compiler and flags. */
static void name_cached(build *b)
{
    const char *dir = b->m->options->cache_dir, *flags[MOST_FLAGS];
    uint8_t digest[XCVM_SHA256_BYTES];
    xcvm_sha256 hash;
    if (dir == NULL)
        return;
    xcvm_sha256_begin(&hash);
    xcvm_sha256_add(&hash, compiler_of(b), strlen(compiler_of(b)) + 1);
    size_t count = collect_flags(flags);
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
static void keep(build *b)
{
    char temporary[PATH_SIZE + 32];
    if (b->cached[0] == '\0')
        return;
    (void)mkdir(b->m->options->cache_dir, 0777);
    snprintf(temporary, sizeof temporary, "%s.%ld", b->cached, (long)getpid());
    if (copy_file(b->object, temporary) && rename(temporary, b->cached) != 0)
        unlink(temporary);
}

/* The first line that the C compiler printed, for the message. */
static xcvm_status compiler_failed(build *b)
{
    char line[300] = "";
    FILE *file = fopen(b->messages, "re");
    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    return xcvm_error_set(b->m->error, XCVM_UNSUPPORTED, "the C compiler %.100s does not make the kernel library: %s",
                          compiler_of(b), line);
}

static xcvm_status run_compiler(build *b)
{
    const char *flags[MOST_FLAGS];
    char *arguments[MOST_FLAGS + 8];
    size_t count = 0, flag_count = collect_flags(flags);
    arguments[count++] = (char *)(uintptr_t)compiler_of(b);
    for (size_t i = 0; i < flag_count; i++)
        arguments[count++] = (char *)(uintptr_t)flags[i];
    arguments[count++] = (char *)(uintptr_t) "-o";
    arguments[count++] = b->object;
    arguments[count++] = b->source;
    arguments[count++] = (char *)(uintptr_t) "-lm";
    arguments[count] = NULL;
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return xcc_out_of_memory(b->m);
    pid_t child = 0;
    int failed = posix_spawn_file_actions_addopen(&actions, 2, b->messages, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (failed == 0)
        failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    XCVM_CHECK(b->m->error, failed == 0, UNSUPPORTED,
               "kernels cannot be fused: the C compiler %.100s cannot be run: %s", compiler_of(b), strerror(failed));
    int state = 0;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return io_error(b, "is lost", compiler_of(b));
    return WIFEXITED(state) && WEXITSTATUS(state) == 0 ? XCVM_OK : compiler_failed(b);
}

static xcvm_status make_object(build *b)
{
    name_cached(b);
    if (b->cached[0] != '\0' && access(b->cached, R_OK) == 0 && copy_file(b->cached, b->object))
        return XCVM_OK;
    XCVM_TRY(run_compiler(b));
    keep(b);
    return XCVM_OK;
}

static xcvm_status finish(build *b)
{
    xcvm_sha256 hash;
    xcvm_sha256_begin(&hash);
    if (!add_file(&hash, b->object))
        return io_error(b, "cannot be read", b->object);
    xcvm_sha256_end(&hash, b->m->library_hash);
    if (b->m->options->keep_c != NULL)
        XCVM_TRY(write_source(b, b->m->options->keep_c));
    if (rename(b->object, b->m->options->fuse) != 0)
        return io_error(b, "cannot be written", b->m->options->fuse);
    return XCVM_OK;
}

xcvm_status xcc_fuse_build(xcc_module *m)
{
    build b = {.m = m};
    if (m->fusion_count == 0)
        return XCVM_OK;
    XCVM_TRY(name_file(&b, b.source, ".c"));
    XCVM_TRY(name_file(&b, b.object, ".tmp"));
    XCVM_TRY(name_file(&b, b.messages, ".log"));
    xcvm_status status = write_source(&b, b.source);
    if (status == XCVM_OK)
        status = make_object(&b);
    if (status == XCVM_OK)
        status = finish(&b);
    unlink(b.source);
    unlink(b.object);
    unlink(b.messages);
    return status;
}
