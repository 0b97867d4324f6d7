/* Kernel libraries cannot be built in WebAssembly, which has no C compiler and does not open them. */
#include "compiler/ir/compilation.h"
#include "compiler/kernel_library/kernel_library.h"

xcvm_status xcc_codegen_build(xcc_module *m)
{
    XCVM_CHECK(m->error, m->group_count == 0, UNSUPPORTED,
               "kernel libraries cannot be built in WebAssembly; compile with the command `xcvm compile` instead");
    return XCVM_OK;
}
