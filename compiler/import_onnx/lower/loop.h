/* Loops that lowerings make (control.c). */
#ifndef XCVM_COMPILER_IMPORT_ONNX_LOWER_LOOP_H
#define XCVM_COMPILER_IMPORT_ONNX_LOWER_LOOP_H

#include "compiler/import_onnx/lower/lower.h"

/* What a loop's body holds: `fill` makes it, from the types that its parameters have then, and sets its outputs. It may
 * be called several times, the body being empty each time, and what it builds goes into the body. */
typedef struct xcc_loop_body {
    xcvm_status (*fill)(xcc_lowering *n, xcc_node *loop, void *context);
    void *context;
} xcc_loop_body;

/* A loop at the builder's place over `inputs` (trip count, condition, states); results that nobody wants may be NULL.
 */
xcvm_status xcc_build_loop(xcc_lowering *n, size_t input_count, xcc_value *const *inputs, size_t output_count,
                           xcc_value *const *outputs, const xcc_loop_body *body);
/* New values without type; NULL on failure. */
xcc_value **xcc_build_values(xcc_lowering *n, size_t count);
/* Sets the outputs of a body whose condition never ends the loop: the states, then what is stacked. */
xcvm_status xcc_build_loop_outputs(xcc_lowering *n, xcc_node *loop, size_t count, xcc_value *const *values);
/* A stacked result, whose iterations are dimension 0 in their order, with them as dimension `axis`, the last one first
 * if `reversed`. An axis below 0 counts from the last. */
xcvm_status xcc_build_stacked(xcc_lowering *n, xcc_value **stacked, bool reversed, int64_t axis);

#endif
