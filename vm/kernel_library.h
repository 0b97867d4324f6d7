/* Opening the kernel libraries (vm/kernel_abi.h) of a program. */
#ifndef XCVM_VM_KERNEL_LIBRARY_H
#define XCVM_VM_KERNEL_LIBRARY_H

#include "vm/program.h"

struct xcvm_load_options;

/* Opens the libraries of a verified program from its directory or options->library_dir. Content hash, ABI and
 * instruction set of each must match. Then finds the functions of KernelCall instructions. A library or function that
 * does not match is skipped, program->notice states the reason, and the unfused instructions run. `path` is the
 * program's file, or NULL. */
void xcvm_program_open_libraries(xcvm_program *program, const char *path, const struct xcvm_load_options *options);
void xcvm_program_close_libraries(xcvm_program *program);

#endif
