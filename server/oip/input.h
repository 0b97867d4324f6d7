/* Inputs of inference requests, in any encoding. */
#ifndef XCVM_SERVER_OIP_INPUT_H
#define XCVM_SERVER_OIP_INPUT_H

#include "base/allocator.h"

/* Finds an input of a program by its name. */
bool xcs_input_find(const xcvm_program *program, const char *name, size_t length, size_t *index);
/* The type must be that of the program, so that no memory is allocated for a tensor that would be refused. */
xcvm_status xcs_input_check(const xcvm_value_info *info, xcvm_dtype dtype, int rank, const int64_t *dims,
                            xcvm_error *error);
/* Computes the bytes of a tensor that is not of strings. */
xcvm_status xcs_input_bytes(xcvm_dtype dtype, int rank, const int64_t *dims, size_t *bytes, xcvm_error *error);
/* Every byte of a BOOL tensor must be 0 or 1. */
xcvm_status xcs_input_check_bools(const void *bytes, size_t count, xcvm_error *error);
/* Strings in binary form: a length of four bytes and the bytes of each. */
xcvm_status xcs_input_read_strings(const xcvm_allocator *allocator, const char *at, size_t bytes, int rank,
                                   const int64_t *dims, xcvm_value **tensor, xcvm_error *error);

#endif
