/* The interface between a program and its kernel library, a shared object with functions that were compiled for one
 * program's shapes and one instruction set. Such an object exports one symbol, XCVM_LIBRARY_SYMBOL, a table of this
 * layout; the compiler writes the text of these types into the C that it makes. */
#ifndef XCVM_VM_KERNEL_ABI_H
#define XCVM_VM_KERNEL_ABI_H

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

#endif
