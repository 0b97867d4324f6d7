/* Shared libraries do not exist in WebAssembly. */
#include "base/lazy_library.h"

xcvm_status xcvm_lazy_library_load(xcvm_lazy_library *library, xcvm_error *error)
{
    XCVM_FAIL(error, UNSUPPORTED, "a required library cannot be loaded: WebAssembly has no %s", library->file);
}
