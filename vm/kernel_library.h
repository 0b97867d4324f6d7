/* Kernel libraries (vm/kernel_abi.h): opening those that a program names. */
#ifndef XCVM_VM_KERNEL_LIBRARY_H
#define XCVM_VM_KERNEL_LIBRARY_H

#include "vm/program.h"

struct xcvm_load_options;

/* Opens the libraries that a verified program names, each from the program's folder or options->library_dir, if its
 * content has the hash that the program states, its ABI is this machine's and its instruction set the CPU's; and finds
 * the functions of the program's KernelCall instructions. What does not fit is left out, and program->notice says why:
 * the unfused instructions run then. `path` is the program's file, NULL if it has none. */
void xcvm_program_open_libraries(xcvm_program *program, const char *path, const struct xcvm_load_options *options);
void xcvm_program_close_libraries(xcvm_program *program);

#endif
