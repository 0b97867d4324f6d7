/* Convolutions of blocked channels of any shape, compared with their definition in f64. */
#ifndef XCVM_TESTS_OPS_CONV_BLOCKED_CHECK_H
#define XCVM_TESTS_OPS_CONV_BLOCKED_CHECK_H

#include <stdbool.h>
#include <stdint.h>

enum { BLOCKED_DEPTH = 2, BLOCKED_AXES = 3 };

/* Axes are height, width and depth, with pads before and after each. A shape has only the width, height and width, or
 * all three, and size 1 along the others. */
typedef struct blocked_shape {
    int algorithm;
    int64_t tile; /* winograd */
    int64_t batch, group, channels, outputs;
    int64_t in[BLOCKED_AXES], kernel[BLOCKED_AXES], stride[BLOCKED_AXES], dilation[BLOCKED_AXES];
    int64_t pad[BLOCKED_AXES], pad_end[BLOCKED_AXES], out[BLOCKED_AXES];
    int axes;
    bool plain, bias, residual, affine;
    int activation;
    double rounding; /* that all results' errors stay below, relative to the results' size; 0: not checked */
} blocked_shape;

/* Random numbers for shapes and elements come from one state, so a seed determines all later ones. */
void blocked_random_seed(uint32_t state);
uint32_t blocked_random_below(uint32_t n);
int64_t blocked_random_from(int64_t low, int64_t high);

/* The product of the sizes along the axes that there are. */
int64_t blocked_volume(const int64_t size[BLOCKED_AXES], int axes);

/* A convolution of random numbers, by every kernel that this processor has and by any number of threads. */
void blocked_check(const blocked_shape *s);
/* Converts channels to blocks and back. */
void blocked_check_way_back(int64_t channels);

#endif
