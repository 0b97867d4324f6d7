/* Kernel libraries: shared objects with functions that were compiled for one program's shapes and one instruction set.
 * Such an object exports one symbol, XCVM_LIBRARY_SYMBOL, a table of this layout; the compiler writes the text of these
 * types into the C that it makes. */
#ifndef XCVM_VM_KERNEL_LIBRARY_H
#define XCVM_VM_KERNEL_LIBRARY_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define XCVM_LIBRARY_ABI 2
#define XCVM_LIBRARY_SYMBOL "xcvm_library"

/* A function computes the part [begin, end) of its results, out of 0 .. extent; parts may run side by side, and are of
 * at least `grain` but for the last. The last result may lie exactly where operand i does if bit i of in_place is set;
 * otherwise results overlap no operand. `elements` has the sizes of the operands, then of the results. */
#define XCVM_LIBRARY_TYPES                                                                                             \
    typedef struct xcvm_library_kernel {                                                                               \
        void (*run)(const float *const *xs, float *const *results, size_t begin, size_t end);                          \
        size_t extent, grain;                                                                                          \
        uint64_t in_place;                                                                                             \
        uint32_t operands, results;                                                                                    \
        const long long *elements;                                                                                     \
    } xcvm_library_kernel;                                                                                             \
    typedef struct xcvm_library_table {                                                                                \
        uint32_t abi, count;                                                                                           \
        const xcvm_library_kernel *kernels;                                                                            \
    } xcvm_library_table;
XCVM_LIBRARY_TYPES

typedef struct xcvm_program xcvm_program;
struct xcvm_load_options;

/* Opens the libraries that a verified program names, each from the program's folder or options->library_dir, if its
 * content has the hash that the program states, its ABI is this machine's and its instruction set the CPU's; and finds
 * the functions of the program's Fused instructions. What does not fit is left out, and program->notice says why: the
 * plain instructions run then. `path` is the program's file, NULL if it has none. */
void xcvm_program_open_libraries(xcvm_program *program, const char *path, const struct xcvm_load_options *options);
void xcvm_program_close_libraries(xcvm_program *program);

#endif
