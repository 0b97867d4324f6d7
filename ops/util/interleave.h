/* Interleaving of two vectors of 16 bytes: of their first halves, and of their second halves. */
#ifndef XCVM_OPS_UTIL_INTERLEAVE_H
#define XCVM_OPS_UTIL_INTERLEAVE_H

#define XCVM_LOW_8(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define XCVM_HIGH_8(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define XCVM_LOW_16(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define XCVM_HIGH_16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define XCVM_LOW_32(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define XCVM_HIGH_32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define XCVM_LOW_64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define XCVM_HIGH_64(a, b) __builtin_shufflevector(a, b, 1, 3)

#endif
