/* Keyed hash of untrusted bytes: SipHash-1-3 (Aumasson and Bernstein). An unpredictable key prevents collisions by
 * chosen names. */
#ifndef XCVM_BASE_HASH_H
#define XCVM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct xcvm_hash_key {
    uint64_t words[2];
} xcvm_hash_key;

/* Creates a key from the system's random numbers. The order of table entries depends on the key, so results must not
 * depend on that order. */
xcvm_hash_key xcvm_hash_key_make(void);
uint64_t xcvm_hash(const xcvm_hash_key *key, const void *bytes, size_t count);

#endif
