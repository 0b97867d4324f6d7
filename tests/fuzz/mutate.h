/* Structural mutation: operands, types, attributes and nodes of messages are moved and changed, so most results are
 * still programs or models, unlike mutated bytes. */
#ifndef XCVM_TESTS_FUZZ_MUTATE_H
#define XCVM_TESTS_FUZZ_MUTATE_H

#include <protobuf-c/protobuf-c.h>

/* Mutates a message of `descriptor`, `count` bytes that may be grown to `capacity`, as `seed` says. Returns the new
 * count; 0: the bytes are no such message, or it became larger than `capacity`. */
size_t fuzz_mutate_message(const ProtobufCMessageDescriptor *descriptor, uint8_t *bytes, size_t count, size_t capacity,
                           unsigned seed);
/* The same for a program file, whose data stays aligned. */
size_t fuzz_mutate_program(uint8_t *bytes, size_t count, size_t capacity, unsigned seed);

#endif
