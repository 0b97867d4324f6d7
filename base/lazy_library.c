/* Lazy loading of shared libraries with dlopen. */
#include "base/lazy_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static xcvm_status find_functions(xcvm_lazy_library *library, void *handle, xcvm_error *error)
{
    for (size_t i = 0; i < library->count; i++) {
        void *function = dlsym(handle, library->names[i]);
        XCVM_CHECK(error, function != NULL, UNSUPPORTED, "%s has no function %s", library->file, library->names[i]);
        memcpy((char *)library->functions + i * sizeof function, &function, sizeof function);
    }
    return XCVM_OK;
}

xcvm_status xcvm_lazy_library_load(xcvm_lazy_library *library, xcvm_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (__atomic_load_n(&library->loaded, __ATOMIC_ACQUIRE))
        return XCVM_OK;
    pthread_mutex_lock(&lock);
    xcvm_status status = XCVM_OK;
    if (!library->loaded) {
        void *handle = dlopen(library->file, RTLD_LAZY | RTLD_LOCAL);
        status = handle != NULL ? find_functions(library, handle, error)
                                : xcvm_error_set(error, XCVM_UNSUPPORTED, "a required library cannot be loaded: %.200s",
                                                 dlerror());
        if (status == XCVM_OK)
            __atomic_store_n(&library->loaded, 1, __ATOMIC_RELEASE);
        else if (handle != NULL)
            dlclose(handle);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
