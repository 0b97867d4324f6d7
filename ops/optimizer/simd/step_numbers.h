/* What a step of an optimizer takes, besides the elements. */
#ifndef XCVM_OPS_OPTIMIZER_SIMD_STEP_NUMBERS_H
#define XCVM_OPS_OPTIMIZER_SIMD_STEP_NUMBERS_H

#include <stddef.h>

/* Elements that are updated at a time. */
enum { XCVM_STEP_BLOCK = 1024 };
enum { XCVM_STEP_MOMENTS = 3 };

/* The numbers of a step, worked out from attributes and operands. What an optimizer has no use for is 0. */
typedef struct xcvm_step_numbers {
    double rate;     /* of learning */
    double decay;    /* times the parameter is added to the gradient */
    double shrink;   /* factor of the parameter, of decoupled weight decay */
    double momentum; /* of the buffer's old elements */
    double taken;    /* of the gradient that goes into the buffer */
    double nesterov; /* 0: the buffer is the step; else the gradient with momentum times the buffer is */
    double kept[2];  /* of the moments' old elements */
    double epsilon;
    double root; /* of the second moment's correction */
    double scale, limit, average_decay;
} xcvm_step_numbers;

/* A block of one parameter with what is kept of it; all of the type that is computed in. */
typedef struct xcvm_step_block {
    void *parameters, *moments[XCVM_STEP_MOMENTS], *sums, *average; /* NULL: not kept */
    const void *gradients;
    size_t count;
    double ratio;
    /* Where the gradients are a product, columns is not 0: their matrix has `rows` and `columns`, and the block begins
     * with element `first` of it. `left` is the factor a, `gradients` is b, both of `depth` rows. */
    size_t columns, rows, depth, first;
    const void *left;
} xcvm_step_block;

#endif
