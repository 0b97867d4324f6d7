/* Kernel libraries do not exist in WebAssembly, so the plain instructions of a program run. */
#include "vm/kernel_library.h"
#include "vm/options.h"

#include <stdio.h>

void xcvm_program_open_libraries(xcvm_program *program, const char *path, const xcvm_load_options *options)
{
    (void)path;
    if (program->fused_count != 0 && !options->no_libraries)
        snprintf(program->notice, sizeof program->notice, "%s",
                 "WebAssembly cannot open kernel libraries, so the plain instructions run");
}

void xcvm_program_close_libraries(xcvm_program *program) { (void)program; }
