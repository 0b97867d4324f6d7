/* Moving elements without looking at them, whatever their type: one way for instructions that only rearrange. */
#ifndef XCVM_OPS_UTIL_MOVE_H
#define XCVM_OPS_UTIL_MOVE_H

#include "ops/util/kernel.h"

/* What a body sees: elements of `size` bytes, which is 1, 2, 4, 8 or 16, whatever they stand for. */
typedef struct xcvm_moving {
    xcvm_kernel *k;
    size_t size;
    const void *const *from; /* the elements of each operand */
    void *const *to;         /* and of each result */
    const void *zero;        /* an element that is zero, or the empty string */
} xcvm_moving;

/* Fills m->to from m->from; may not use the kernel's scratch. */
typedef xcvm_status (*xcvm_move_body)(const xcvm_moving *m, const void *context);

/* Calls `body` once for tensors of one element type. Operands of plain types are handed over as they are; of packed
 * ones, as a byte for each element; of strings, as 64-bit numbers, after which results get the strings of those
 * numbers. Results have type, shape and, unless they are strings, memory. Entries of `to` may be NULL: then m->to has
 * NULL. */
xcvm_status xcvm_move(xcvm_kernel *k, size_t from_count, const xcvm_value *const *from, size_t to_count,
                      xcvm_value *const *to, xcvm_move_body body, const void *context);
/* The same for one operand and one result. */
static inline xcvm_status xcvm_move_one(xcvm_kernel *k, const xcvm_value *from, xcvm_value *to, xcvm_move_body body,
                                        const void *context)
{
    return xcvm_move(k, 1, &from, 1, &to, body, context);
}
/* Makes y, of another shape than x perhaps, the same elements: nothing is left to do where it is a view of x. */
xcvm_status xcvm_move_all(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x);

/* One element of `size` bytes. */
static inline void xcvm_move_element(void *to, const void *from, size_t size)
{
    switch (size) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        break;
    }
}
/* to[i] = from[offsets[i]], elements of `size` bytes. */
void xcvm_move_gather(void *to, const void *from, size_t size, size_t count, const ptrdiff_t *offsets);
/* The same for `rows` rows, which are `stride` elements apart in `from` and one behind the other in `to`. */
void xcvm_move_gather_rows(void *to, const void *from, size_t size, size_t rows, size_t stride, size_t count,
                           const ptrdiff_t *offsets);
/* to[offsets[i]] = from[i], in this order. */
void xcvm_move_scatter(void *to, const void *from, size_t size, size_t count, const ptrdiff_t *offsets);
/* `count` copies of one element; fails as xcvm_kernel_poll does. */
xcvm_status xcvm_move_fill(const xcvm_kernel *k, void *to, const void *element, size_t size, size_t count);
/* Elements of packed types to bytes, and back. */
void xcvm_unpack(const void *packed, size_t bits, size_t count, uint8_t *bytes);
void xcvm_pack(const uint8_t *bytes, size_t bits, size_t count, void *packed);

#endif
