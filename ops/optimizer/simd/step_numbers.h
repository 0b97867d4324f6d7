/* Parameters of an optimizer step. */
#ifndef XCVM_OPS_OPTIMIZER_SIMD_STEP_NUMBERS_H
#define XCVM_OPS_OPTIMIZER_SIMD_STEP_NUMBERS_H

#include <stddef.h>

/* Elements updated at a time. */
enum { XCVM_STEP_BLOCK = 1024 };
enum { XCVM_STEP_MOMENTS = 3 };

/* Numbers of a step, computed from attributes and operands. Unused ones are 0. */
typedef struct xcvm_step_numbers {
    double rate;     /* learning rate */
    double decay;    /* weight decay: times the parameter is added to the gradient */
    double shrink;   /* factor of the parameter for decoupled weight decay */
    double momentum; /* factor of the buffer's old elements */
    double taken;    /* factor of the gradient added to the buffer */
    double nesterov; /* 0: the buffer is the step; otherwise the gradient plus momentum times the buffer */
    double kept[2];  /* factors of the moments' old elements */
    double epsilon;
    double root; /* bias correction of the second moment */
    double scale, limit, average_decay;
} xcvm_step_numbers;

/* A block of one parameter with its optional state, all in the computation type. */
typedef struct xcvm_step_block {
    void *parameters, *moments[XCVM_STEP_MOMENTS], *sums, *average; /* NULL: absent */
    const void *gradients;
    size_t count;
    double ratio;
    /* If gradients are products, columns is nonzero: their matrix has `rows` and `columns`, and the block begins with
     * its element `first`. `left` is the factor a and `gradients` is b, both with `depth` rows. */
    size_t columns, rows, depth, first;
    const void *left;
} xcvm_step_block;

#endif
