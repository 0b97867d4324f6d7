/* The ABI between a program and its kernel library, a shared object compiled for one program's shapes and one
 * instruction set. It exports one symbol, XCVM_LIBRARY_SYMBOL, a table with this layout. The compiler writes these
 * types into the C code that it generates. */
#ifndef XCVM_VM_KERNEL_ABI_H
#define XCVM_VM_KERNEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define XCVM_LIBRARY_ABI 2
#define XCVM_LIBRARY_SYMBOL "xcvm_library"

/* A function computes the part [begin, end) of its results, within [0, extent). Parts may run concurrently and have at
 * least `grain` elements, except the last. The last result may alias operand i exactly if bit i of in_place is set.
 * Otherwise results overlap no operand. `elements` has the sizes of the operands, then of the results. */
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
