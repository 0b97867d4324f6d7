/* Broadcasting: merges axes where all operands allow it, and iterates over a range of elements. */
#include "ops/util/broadcast.h"

void xcvm_broadcast_plan(xcvm_broadcast *b, const xcvm_value *result, const xcvm_value *const *in, int operands)
{
    b->rank = 0;
    b->operands = operands;
    b->count = xcvm_element_count(result);
    size_t steps[XCVM_BROADCAST_OPERANDS], next[XCVM_BROADCAST_OPERANDS];
    for (int o = 0; o < operands; o++) {
        next[o] = 1;
        b->whole[o] = xcvm_element_count(in[o]) == b->count;
    }
    /* From the last axis, in reverse order for now. */
    for (int d = result->rank - 1; d >= 0; d--) {
        size_t dim = (size_t)result->dims[d];
        if (dim == 1)
            continue;
        bool join = b->rank > 0;
        for (int o = 0; o < operands; o++) {
            int axis = d - (result->rank - in[o]->rank);
            bool broadcast = axis < 0 || in[o]->dims[axis] == 1;
            steps[o] = broadcast ? 0 : next[o];
            if (!broadcast)
                next[o] *= dim;
            if (join)
                join = steps[o] == b->strides[o][b->rank - 1] * b->dims[b->rank - 1];
        }
        if (join) {
            b->dims[b->rank - 1] *= dim;
            continue;
        }
        b->dims[b->rank] = dim;
        for (int o = 0; o < operands; o++)
            b->strides[o][b->rank] = steps[o];
        b->rank++;
    }
    if (b->rank == 0) {
        b->rank = 1;
        b->dims[0] = 1;
        for (int o = 0; o < operands; o++)
            b->strides[o][0] = 0;
    }
    for (int i = 0, j = b->rank - 1; i < j; i++, j--) {
        size_t dim = b->dims[i];
        b->dims[i] = b->dims[j];
        b->dims[j] = dim;
        for (int o = 0; o < operands; o++) {
            size_t stride = b->strides[o][i];
            b->strides[o][i] = b->strides[o][j];
            b->strides[o][j] = stride;
        }
    }
}

/* Position of an iteration in the outer axes. */
typedef struct position {
    size_t index[XCVM_MAX_RANK];
    size_t offsets[XCVM_BROADCAST_OPERANDS]; /* offsets of the start of the row */
} position;

/* Starts at element `at`. Returns its position in the row. */
static size_t locate(const xcvm_broadcast *b, size_t at, position *p)
{
    int last = b->rank - 1;
    size_t within = at % b->dims[last], row = at / b->dims[last];
    memset(p, 0, sizeof *p);
    for (int d = last - 1; d >= 0; d--) {
        p->index[d] = row % b->dims[d];
        row /= b->dims[d];
        for (int o = 0; o < b->operands; o++)
            p->offsets[o] += p->index[d] * b->strides[o][d];
    }
    return within;
}

static void next_row(const xcvm_broadcast *b, position *p)
{
    for (int d = b->rank - 2; d >= 0; d--) {
        for (int o = 0; o < b->operands; o++)
            p->offsets[o] += b->strides[o][d];
        if (++p->index[d] < b->dims[d])
            return;
        p->index[d] = 0;
        for (int o = 0; o < b->operands; o++)
            p->offsets[o] -= b->dims[d] * b->strides[o][d];
    }
}

void xcvm_broadcast_rows(const xcvm_broadcast *b, size_t begin, size_t end, xcvm_broadcast_body body, void *context)
{
    if (begin >= end)
        return;
    int last = b->rank - 1;
    position p;
    size_t within = locate(b, begin, &p);
    for (size_t at = begin; at < end;) {
        size_t count = b->dims[last] - within;
        if (count > end - at)
            count = end - at;
        size_t offsets[XCVM_BROADCAST_OPERANDS] = {0};
        for (int o = 0; o < b->operands; o++)
            offsets[o] = p.offsets[o] + within * b->strides[o][last];
        body(context, at, offsets, count);
        at += count;
        within = 0;
        next_row(b, &p);
    }
}

typedef struct pair {
    uint64_t halves[2];
} pair;

/* No function calls here, because rows may have only two elements. */
#define SPREAD(type)                                                                                                   \
    do {                                                                                                               \
        const type *from = data;                                                                                       \
        type *out = to;                                                                                                \
        while (count != 0) {                                                                                           \
            size_t n = b->dims[last] - within < count ? b->dims[last] - within : count;                                \
            const type *row = from + p.offsets[operand] + within * stride;                                             \
            if (stride == 0)                                                                                           \
                for (size_t i = 0; i < n; i++)                                                                         \
                    out[i] = *row;                                                                                     \
            else                                                                                                       \
                for (size_t i = 0; i < n; i++)                                                                         \
                    out[i] = row[i];                                                                                   \
            out += n;                                                                                                  \
            count -= n;                                                                                                \
            within = 0;                                                                                                \
            next_row(b, &p);                                                                                           \
        }                                                                                                              \
    } while (0)

void xcvm_broadcast_spread(const xcvm_broadcast *b, int operand, const void *data, size_t size, size_t at, size_t count,
                           void *to)
{
    if (count == 0)
        return;
    int last = b->rank - 1;
    size_t stride = b->strides[operand][last];
    position p;
    size_t within = locate(b, at, &p);
    switch (size) {
    case 1:
        SPREAD(uint8_t);
        break;
    case 2:
        SPREAD(uint16_t);
        break;
    case 4:
        SPREAD(uint32_t);
        break;
    case 8:
        SPREAD(uint64_t);
        break;
    default:
        SPREAD(pair);
        break;
    }
}
