/* There is no C compiler in WebAssembly. */
#include "compiler/kernel_library/cc.h"
#include "ops/table/table.h"

const char *xcc_cc_isa(const xcc_options *options)
{
    (void)options;
    return xcvm_kernel_isa();
}
