/* Tensors on a tape for benchmarks of tapes. */
#ifndef XCVM_BENCH_TAPE_TENSORS_H
#define XCVM_BENCH_TAPE_TENSORS_H

#include "measure.h"

#include <xcvm/tape.h>

#include <stdio.h>
#include <stdlib.h>

/* A parameter, or a constant that is kept, of f32 from -0.5 * scale to 0.5 * scale. Exits if there is no memory. */
static inline xcvm_var bench_tensor(xcvm_tape *t, uint32_t *state, bool parameter, int rank, const int64_t *dims,
                                    double scale)
{
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    float *data = malloc(count * sizeof *data);
    if (data == NULL) {
        fprintf(stderr, "no memory for %zu numbers\n", count);
        exit(1);
    }
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(bench_number(state) * scale);
    const xcvm_var v = parameter ? xcvm_tape_parameter(t, XCVM_F32, rank, dims, data)
                                 : xcvm_var_keep(t, xcvm_tape_constant(t, XCVM_F32, rank, dims, data));
    free(data);
    return v;
}

#endif
