/* The parts of the gradient mode of text cases: how a program is compiled, its graph, and its calls on a tape. */
#ifndef XCVM_TESTS_CASE_GRADIENT_PARTS_H
#define XCVM_TESTS_CASE_GRADIENT_PARTS_H

#include "compiler/ir/compose.h"
#include "compiler/driver/pass_table.h"
#include "compiler/emit/emit.h"
#include "ops/util/convert.h"
#include "proto/image.h"
#include "tests/case_gradient.h"
#include "tests/case_tolerance.h"

enum { CASE_LITERALS = 32, CASE_REGISTERS = 64 };

/* One way to compile and run the program. */
typedef struct case_form {
    const char *name;
    xcvm_dtype dtype; /* type that replaces f64 of the case */
    bool open;        /* sizes are symbols */
    int optimization;
    double rtol, atol; /* against f64; the latter times the greatest gradient of the literal */
} case_form;

typedef struct case_checking {
    const case_gradient *gradient;
    xcvm_arena arena;
    xcvm_image image;
    size_t literals[CASE_LITERALS]; /* variables of differentiation: indices of constants */
    char names[CASE_LITERALS][16];
    const char *wrt[CASE_LITERALS];
    size_t count;
    xcvm_error error;
    case_reason *why;
} case_checking;

/* Finds the variables of differentiation. */
bool case_gradient_literals(case_checking *c);
/* Builds the graph: the case's program with its loss. Returns false if the instructions do not support the types of
 * this form. */
bool case_gradient_graph(const case_checking *c, xcc_module *m, const case_form *f);
/* Builds the program's instructions from these constants. The registers are their results. */
bool case_gradient_append(const case_checking *c, xcc_builder *b, xcc_value *const *constants, xcc_value **registers);
xcc_value *case_gradient_loss(const case_checking *c, xcc_builder *b, xcc_value *const *registers);

/* The greatest magnitude of an element. */
double case_gradient_greatest(const xcvm_value *v);
bool case_gradient_compare(const case_checking *c, const case_form *f, size_t literal, const xcvm_value *got,
                           const xcvm_value *expected, case_tolerance tolerance);

/* The same program, its instructions called one by one on a tape, whose gradients must be the compiler's; with the
 * backward itself recorded, too. */
bool case_gradient_called(case_checking *c, const case_form *f, xcvm_value *const *expected);

#endif
