/* Loops that lowerings make (control.c). */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_LOOP_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_LOOP_H

#include "compiler/import_onnx/lower/lower.h"

/* The body of a loop: `fill` builds it from the current types of its parameters and sets its outputs. It may be called
 * several times, each time with an empty body. */
typedef struct xcc_loop_body {
    xcvm_status (*fill)(xcc_lowering *n, xcc_node *loop, void *context);
    void *context;
} xcc_loop_body;

/* Inserts a loop at the builder's position over `inputs` (trip count, condition, states). Results that are not needed
 * may be NULL. */
xcvm_status xcc_build_loop(xcc_lowering *n, size_t input_count, xcc_value *const *inputs, size_t output_count,
                           xcc_value *const *outputs, const xcc_loop_body *body);
/* New values without type; NULL on failure. */
xcc_value **xcc_build_values(xcc_lowering *n, size_t count);
/* Sets the outputs of a body whose condition never ends the loop: the states, then the stacked values. */
xcvm_status xcc_build_loop_outputs(xcc_lowering *n, xcc_node *loop, size_t count, xcc_value *const *values);
/* A stacked result, whose iterations are dimension 0 in their order, with them as dimension `axis`, the last one first
 * if `reversed`. An axis below 0 counts from the last. */
xcvm_status xcc_build_stacked(xcc_lowering *n, xcc_value **stacked, bool reversed, int64_t axis);

#endif
