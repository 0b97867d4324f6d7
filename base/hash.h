/* Hashes of bytes that come from outside: SipHash-1-3 (Aumasson and Bernstein), under a key that nobody can foresee, so
 * that nobody can choose names that all fall into one place of a table. */
#ifndef XCVM_BASE_HASH_H
#define XCVM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct xcvm_hash_key {
    uint64_t words[2];
} xcvm_hash_key;

/* From the system's random numbers. Whatever depends on the order of a table's entries differs from key to key, so
 * results must not. */
xcvm_hash_key xcvm_hash_key_make(void);
uint64_t xcvm_hash(const xcvm_hash_key *key, const void *bytes, size_t count);

#endif
