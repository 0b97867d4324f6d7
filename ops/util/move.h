/* Moving of elements without interpreting them, for instructions that only rearrange tensors of any type. */
#ifndef XCVM_OPS_UTIL_MOVE_H
#define XCVM_OPS_UTIL_MOVE_H

#include "ops/util/kernel.h"

/* Argument of a body: elements of `size` bytes, which is 1, 2, 4, 8 or 16. */
typedef struct xcvm_moving {
    xcvm_kernel *k;
    size_t size;
    const void *const *from; /* the elements of each operand */
    void *const *to;         /* the elements of each result */
    const void *zero;        /* a zero element, or the empty string */
} xcvm_moving;

/* Fills m->to from m->from. Must not use the kernel's scratch. */
typedef xcvm_status (*xcvm_move_body)(const xcvm_moving *m, const void *context);

/* Calls `body` once for tensors of one element type. Operands of plain types are passed as they are, packed ones as one
 * byte per element, and strings as 64-bit numbers, from which the strings of the results are made. Results have type,
 * shape and, unless strings, memory. Entries of `to` may be NULL, and m->to then has NULL. */
xcvm_status xcvm_move(xcvm_kernel *k, size_t from_count, const xcvm_value *const *from, size_t to_count,
                      xcvm_value *const *to, xcvm_move_body body, const void *context);
/* The same for one operand and one result. */
static inline xcvm_status xcvm_move_one(xcvm_kernel *k, const xcvm_value *from, xcvm_value *to, xcvm_move_body body,
                                        const void *context)
{
    return xcvm_move(k, 1, &from, 1, &to, body, context);
}
/* Copies the elements of x to y, whose shape may differ. Does nothing if y is a view of x. */
xcvm_status xcvm_move_all(xcvm_kernel *k, xcvm_value *y, const xcvm_value *x);

/* Moves one element of `size` bytes. */
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
/* The same for `rows` rows, which are `stride` elements apart in `from` and contiguous in `to`. */
void xcvm_move_gather_rows(void *to, const void *from, size_t size, size_t rows, size_t stride, size_t count,
                           const ptrdiff_t *offsets);
/* to[offsets[i]] = from[i], in this order. */
void xcvm_move_scatter(void *to, const void *from, size_t size, size_t count, const ptrdiff_t *offsets);
/* Writes `count` copies of one element. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_move_fill(const xcvm_kernel *k, void *to, const void *element, size_t size, size_t count);
/* Unpack elements of packed types to bytes, and pack them. */
void xcvm_unpack(const void *packed, size_t bits, size_t count, uint8_t *bytes);
void xcvm_pack(const uint8_t *bytes, size_t bits, size_t count, void *packed);

#endif
