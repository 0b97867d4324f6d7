/* SHA-256 (FIPS 180-4, section 6.2). A program identifies its kernel libraries by it. */
#ifndef XCVM_BASE_SHA256_H
#define XCVM_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { XCVM_SHA256_BYTES = 32 };

typedef struct xcvm_sha256 {
    uint32_t state[8];
    uint64_t count; /* bytes hashed */
    uint8_t block[64];
} xcvm_sha256;

/* Call begin, then add with pieces of any size, then end. */
void xcvm_sha256_begin(xcvm_sha256 *hash);
void xcvm_sha256_add(xcvm_sha256 *hash, const void *bytes, size_t count);
void xcvm_sha256_end(xcvm_sha256 *hash, uint8_t digest[XCVM_SHA256_BYTES]);

#endif
