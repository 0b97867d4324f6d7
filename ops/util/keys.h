/* Keys of lookups: elements of any comparable type in ascending order. */
#ifndef XCVM_OPS_UTIL_KEYS_H
#define XCVM_OPS_UTIL_KEYS_H

#include "ops/util/kernel.h"

/* Order of element i of x and element j of keys, which are both strings, both floats or both integers: below, at or
 * above 0. Strings compare by their bytes; NaN is one key, behind all numbers. */
int xcvm_keys_compare(const xcvm_value *x, size_t i, const xcvm_value *keys, size_t j);
/* The steps (ops/util/kernel.h) that comparing element i of x with keys takes at most, each. */
size_t xcvm_keys_steps(const xcvm_value *x, size_t i);
/* Comparisons that finding a position takes, of some ten thousand keys. */
enum { XCVM_KEYS_HALVINGS = 16 };
/* Position of element i of x among `count` keys, of which order[0], order[1] ... ascend (order NULL: as they stand);
 * -1 if it is none of them. */
int64_t xcvm_keys_find(const xcvm_value *x, size_t i, const xcvm_value *keys, const int64_t *order, size_t count);

/* A table of all elements of keys, for many lookups: by hashes, or, of integers that lie close together, by their
 * distances from the least. */
typedef struct xcvm_key_slot {
    uint64_t word; /* of a number, the number; of a string, a hash of it */
    int64_t at;    /* the key's position; below 0: the slot is free */
} xcvm_key_slot;

typedef struct xcvm_key_table {
    const xcvm_value *keys;
    xcvm_key_slot *slots;
    int shift;      /* that leaves the number of a slot of a hash's 64 bits */
    uint64_t least; /* word of the least key, and how many there are from that to the greatest; */
    uint64_t span;  /* 0: slots are found by hashes */
} xcvm_key_table;

/* Bytes of slots for so many keys; false if there are too many. */
bool xcvm_key_table_bytes(size_t count, size_t *bytes);
/* Makes the table of keys, of which there are some, in `slots`. *made is false where keys fall on few slots: there is
 * none then. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_key_table_make(const xcvm_kernel *k, const xcvm_value *keys, xcvm_key_slot *slots,
                                xcvm_key_table *table, bool *made);
/* positions[i] = as xcvm_keys_find has it for element begin + i of x; of equal keys, the first. Fails as
 * xcvm_kernel_poll does. */
xcvm_status xcvm_key_table_find(const xcvm_key_table *table, xcvm_poller *poller, const xcvm_value *x, size_t begin,
                                size_t count, int64_t *positions);

#endif
