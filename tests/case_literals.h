/* Converts literals of a case to inputs of its program. Constants are adjacent in the program's bytes, so a read past
 * the end of one is not detected. An input has an allocation of its own, which ends with its elements and is aligned
 * only to one element, as callers may bind it. */
#ifndef XCVM_TESTS_CASE_LITERALS_H
#define XCVM_TESTS_CASE_LITERALS_H

#include "proto/image.h"
#include "tests/support.h"

typedef struct case_literals {
    test_bytes file; /* the program with inputs instead of constants: the last `count` of its inputs */
    size_t count, first;
    const xcvm_constant *constants; /* lent by the bytes that were lifted */
    xcvm_arena arena;
} case_literals;

/* The value that an input is bound to instead of the literal. */
typedef enum case_variant {
    CASE_AS_IT_IS,
    CASE_EMPTY,      /* no element, one axis */
    CASE_EMPTY_AXIS, /* the same rank, but for scalars, its first axis empty */
    CASE_TWICE       /* of a literal of one element: two elements, one axis */
} case_variant;

/* Inputs are declared with the constants' types if `typed`, else they may be anything. */
xcvm_status case_literals_lift(const test_bytes *file, bool typed, case_literals *lifted, xcvm_error *error);
void case_literals_free(case_literals *lifted);
/* Binds literal `index`; false, without binding it, if it has no such variant or it is the literal itself. */
bool case_literals_bind(const case_literals *lifted, xcvm_session *session, size_t index, case_variant variant,
                        xcvm_status *status, xcvm_error *error);

#endif
