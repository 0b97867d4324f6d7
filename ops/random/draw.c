/* Drawing weights. */
#include "ops/random/draw.h"
#include "ops/random/random.h"

#include <math.h>
#include <stdbool.h>

/* Box and Muller's method. */
double xcvm_draw_normal(uint64_t *state)
{
    const double u = 1 - xcvm_random_uniform(state), v = xcvm_random_uniform(state);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

double xcvm_draw_uniform(uint64_t *state, double bound) { return (2 * xcvm_random_uniform(state) - 1) * bound; }

/* By the modified Gram-Schmidt process, twice, as rounding asks for. */
void xcvm_orthogonalize(double *matrix, size_t rows, size_t columns)
{
    const bool by_rows = rows <= columns;
    const size_t vectors = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const size_t next = by_rows ? columns : 1, step = by_rows ? 1 : columns;
    for (size_t v = 0; v < vectors; v++) {
        double *own = matrix + v * next, norm = 0;
        for (size_t u = 0; u < 2 * v; u++) {
            const double *other = matrix + u % v * next;
            double product = 0;
            for (size_t i = 0; i < length; i++)
                product += own[i * step] * other[i * step];
            for (size_t i = 0; i < length; i++)
                own[i * step] -= product * other[i * step];
        }
        for (size_t i = 0; i < length; i++)
            norm += own[i * step] * own[i * step];
        norm = norm > 0 ? sqrt(norm) : 1;
        for (size_t i = 0; i < length; i++)
            own[i * step] /= norm;
    }
}
