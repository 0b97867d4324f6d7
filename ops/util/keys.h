/* Keys of lookups: elements of any comparable type in ascending order. */
#ifndef XCVM_OPS_UTIL_KEYS_H
#define XCVM_OPS_UTIL_KEYS_H

#include "ops/util/kernel.h"

/* Compares element i of x with element j of keys, which are both strings, floats or integers: negative, 0 or positive.
 * Strings compare by bytes. NaN is a single key after all numbers. */
int xcvm_keys_compare(const xcvm_value *x, size_t i, const xcvm_value *keys, size_t j);
/* Maximum steps (ops/util/kernel.h) of one comparison of element i of x with a key. */
size_t xcvm_keys_steps(const xcvm_value *x, size_t i);
/* Comparisons of a search among about ten thousand keys. */
enum { XCVM_KEYS_HALVINGS = 16 };
/* Position of element i of x among `count` keys; -1 if absent. order[0], order[1] ... ascend; with order NULL the keys
 * themselves do. */
int64_t xcvm_keys_find(const xcvm_value *x, size_t i, const xcvm_value *keys, const int64_t *order, size_t count);

/* A table of all elements of keys for many lookups: a hash table or, for dense integers, indexed by the distance from
 * the smallest. */
typedef struct xcvm_key_slot {
    uint64_t word; /* the number itself; for a string, its hash */
    int64_t at;    /* the key's position; negative: free slot */
} xcvm_key_slot;

typedef struct xcvm_key_table {
    const xcvm_value *keys;
    xcvm_key_slot *slots;
    int shift;      /* shift that reduces a 64-bit hash to a slot number */
    uint64_t least; /* word of the smallest key */
    uint64_t span;  /* number of values from smallest to largest key; 0: slots are hashed */
} xcvm_key_table;

/* Computes the bytes of slots for `count` keys. Returns false if there are too many. */
bool xcvm_key_table_bytes(size_t count, size_t *bytes);
/* Builds the table of keys, of which there is at least one, in `slots`. *made is false if too many keys share few
 * slots; there is then no table. Fails as xcvm_kernel_poll does. */
xcvm_status xcvm_key_table_make(const xcvm_kernel *k, const xcvm_value *keys, xcvm_key_slot *slots,
                                xcvm_key_table *table, bool *made);
/* positions[i] = the result of xcvm_keys_find for element begin + i of x; for equal keys the first. Fails as
 * xcvm_kernel_poll does. */
xcvm_status xcvm_key_table_find(const xcvm_key_table *table, xcvm_poller *poller, const xcvm_value *x, size_t begin,
                                size_t count, int64_t *positions);

#endif
