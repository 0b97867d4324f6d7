/* The kernel cache: temporary directories for libraries, and the cache directory. */
#include "run/kernel_cache.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "io/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *library_beside(const char *program)
{
    const char *slash = strrchr(program, '/'), *dot = strrchr(program, '.');
    size_t stem =
        dot != NULL && dot > program && (slash == NULL || dot > slash + 1) ? (size_t)(dot - program) : strlen(program);
    return memory_format("%.*s.so", (int)stem, program);
}

const char *library_compiler(void)
{
    const char *compiler = getenv("CC");
    return compiler != NULL && compiler[strspn(compiler, " \t")] != '\0' ? compiler : NULL;
}

const char *library_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && *folder != '\0' ? folder : "/tmp";
}

/* $XDG_CACHE_HOME/xcvm or ~/.cache/xcvm; NULL if there is neither. Its parent is created as the XDG Base Directory
 * Specification asks. Without it, nothing is cached. */
static char *cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *user_folder = getenv("HOME");
    char *above = NULL;
    if (cache != NULL && cache[0] == '/')
        above = memory_text(cache);
    else if (user_folder != NULL && user_folder[0] == '/')
        above = memory_format("%s/.cache", user_folder);
    if (above == NULL)
        return NULL;
    (void)mkdir(above, 0700);
    char *folder = memory_format("%s/xcvm", above);
    free(above);
    return folder;
}

xcvm_status library_begin(struct library *library, const char *parent, const char *name, xcvm_error *error)
{
    *library = (struct library){.folder = memory_format("%s/%s.XXXXXX", parent, name)};
    if (mkdtemp(library->folder) == NULL) {
        int number = errno;
        free(library->folder);
        library->folder = NULL;
        return error_set(error, XCVM_IO, "%s: cannot create a directory for the kernel library: %s", parent,
                         strerror(number));
    }
    cleanup_register(library->folder);
    library->path = memory_format("%s/%s", library->folder, name);
    library->cache = cache_folder();
    return XCVM_OK;
}

xcvm_status library_finish(struct library *library, const char *target, bool *made, xcvm_error *error)
{
    *made = access(library->path, F_OK) == 0;
    if (*made && rename(library->path, target) != 0)
        return error_set(error, XCVM_IO, "%s: cannot be written: %s", target, strerror(errno));
    return XCVM_OK;
}

void library_release(struct library *library)
{
    if (library->folder != NULL) {
        cleanup_remove(library->folder);
        cleanup_forget(library->folder);
    }
    free(library->folder);
    free(library->path);
    free(library->cache);
    *library = (struct library){0};
}
