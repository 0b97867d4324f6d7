/* Initializers of parameters, by the rules of chainer.initializers. The fans of W [outputs, inputs, ...] are its
 * first two axes times the elements of a filter. */
#include "ops/random/draw.h"
#include "ops/random/random.h"
#include "tape/layers/layers.h"

#include <math.h>

typedef struct fans {
    double in, out;
    size_t rows, columns; /* as a matrix */
} fans;

static fans fans_of(int rank, const int64_t *dims, size_t count)
{
    double field = 1;
    for (int i = 2; i < rank; i++)
        field *= (double)dims[i];
    const double first = rank > 0 ? (double)dims[0] : 1, second = rank > 1 ? (double)dims[1] : 1;
    const size_t rows = rank > 0 ? (size_t)dims[0] : 1;
    return (fans){fmax(second * field, 1), fmax(first * field, 1), rows, rows > 0 ? count / rows : 0};
}

static double deviation_of(xcvm_initializer_kind kind, const fans *f)
{
    switch (kind) {
    case XCVM_INIT_LECUN_NORMAL:
        return sqrt(1 / f->in);
    case XCVM_INIT_GLOROT_NORMAL:
        return sqrt(2 / (f->in + f->out));
    case XCVM_INIT_HE_NORMAL:
        return sqrt(2 / f->in);
    default:
        return 1;
    }
}

static double bound_of(xcvm_initializer_kind kind, const fans *f)
{
    return kind == XCVM_INIT_GLOROT_UNIFORM ? sqrt(6 / (f->in + f->out))
           : kind == XCVM_INIT_HE_UNIFORM   ? sqrt(6 / f->in)
                                            : 1;
}

static void fill_numbers(double *to, size_t count, double number)
{
    for (size_t i = 0; i < count; i++)
        to[i] = number;
}

static void draw_orthogonal(double *to, size_t count, const fans *f, double scale, uint64_t *state)
{
    for (size_t i = 0; i < count; i++)
        to[i] = xcvm_draw_normal(state);
    xcvm_orthogonalize(to, f->rows, f->columns);
    for (size_t i = 0; i < count; i++)
        to[i] *= scale;
}

static bool draw_identity(xcvm_tape *t, double *to, size_t count, int rank, const int64_t *dims, double scale)
{
    if (rank != 2 || dims[0] != dims[1]) {
        tape_fail(t, XCVM_SHAPE_MISMATCH, "only a square matrix begins with the identity");
        return false;
    }
    fill_numbers(to, count, 0);
    for (size_t i = 0; i < (size_t)dims[0]; i++)
        to[i * ((size_t)dims[0] + 1)] = scale;
    return true;
}

bool layer_draw(xcvm_tape *t, const xcvm_initializer *initializer, int rank, const int64_t *dims, double *to,
                size_t count)
{
    const xcvm_initializer_kind kind = initializer->kind;
    const fans f = fans_of(rank, dims, count);
    const double scale = initializer->scale != 0.0 ? initializer->scale : 1;
    uint64_t state = initializer->seed;
    const bool random = kind >= XCVM_INIT_NORMAL && kind <= XCVM_INIT_ORTHOGONAL;
    if (random && state == 0)
        state = xcvm_random_next(&t->random);
    switch (kind) {
    case XCVM_INIT_DEFAULT:
    case XCVM_INIT_ZERO:
        fill_numbers(to, count, 0);
        return true;
    case XCVM_INIT_ONE:
        fill_numbers(to, count, 1);
        return true;
    case XCVM_INIT_CONSTANT:
        fill_numbers(to, count, initializer->scale);
        return true;
    case XCVM_INIT_NORMAL:
    case XCVM_INIT_LECUN_NORMAL:
    case XCVM_INIT_GLOROT_NORMAL:
    case XCVM_INIT_HE_NORMAL:
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_draw_normal(&state) * scale * deviation_of(kind, &f);
        return true;
    case XCVM_INIT_UNIFORM:
    case XCVM_INIT_GLOROT_UNIFORM:
    case XCVM_INIT_HE_UNIFORM:
        for (size_t i = 0; i < count; i++)
            to[i] = xcvm_draw_uniform(&state, scale * bound_of(kind, &f));
        return true;
    case XCVM_INIT_ORTHOGONAL:
        draw_orthogonal(to, count, &f, scale, &state);
        return true;
    case XCVM_INIT_IDENTITY:
        return draw_identity(t, to, count, rank, dims, scale);
    case XCVM_INIT_DATA:
        break;
    }
    tape_fail(t, XCVM_INVALID_ARGUMENT, "%d is no kind of initializer, or its data is NULL", (int)kind);
    return false;
}
