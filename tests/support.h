/* What tests of every floor need: bytes that grow, files, and an allocator that counts and fails on request. */
#ifndef XCVM_TESTS_SUPPORT_H
#define XCVM_TESTS_SUPPORT_H

#include "xcvm/xcvm.h"

/* Of a function in a header that not every test calls. */
#define UNUSED __attribute__((unused))

typedef struct test_bytes {
    char *at;
    size_t length, capacity;
} test_bytes;

/* An xcvm_sink over a test_bytes. */
bool test_bytes_sink(void *bytes, const void *piece, size_t count);
/* An xcvm_sink that takes nothing, as a full disk does. */
bool test_full_sink(void *user, const void *bytes, size_t count);
void test_bytes_free(test_bytes *bytes);
bool test_bytes_equal(const test_bytes *a, const test_bytes *b);
/* The contents of a file; `at` is NULL if it cannot be read, and never NULL otherwise. */
test_bytes test_file_read(const char *path);

/* Sets a locale of its own making in which numbers have a decimal comma; false if that cannot be done. Until
 * setlocale(LC_ALL, "C"). */
bool test_comma_locale(void);

/* Processor time of the process, in nanoseconds: what a limit of time is measured in wherever other programs may keep
 * the process waiting. */
uint64_t test_cpu_ns(void);
/* How many times as long as usual things may take: 20 with a sanitizer of addresses or threads, and as many times that
 * as Check's CK_TIMEOUT_MULTIPLIER says, of an emulator. */
uint64_t test_patience(void);

/* How many pages of memory, of at most 8192, are there in fact; SIZE_MAX if the system does not say. */
size_t test_resident_pages(const void *memory, size_t bytes);

/* Fails the request numbered `fail_at`, counted from 1 (0: none), and unless `once`, all that follow. `live` is what
 * has not been given back. One thread at a time. */
typedef struct test_allocator {
    xcvm_allocator allocator;
    size_t requests, fail_at, live;
    bool once;
} test_allocator;

/* `a` must stay where it is while its allocator is used. */
void test_allocator_start(test_allocator *a, size_t fail_at);

/* Linear congruential generators: numbers that look drawn and are the same everywhere. Each moves the state on, of 32
 * bits or of 64, and gives it; its upper bits are the better ones. */
uint32_t test_random(uint32_t *state);
uint64_t test_random_wide(uint64_t *state);
/* From the upper 24 bits. */
uint32_t test_random_below(uint32_t *state, uint32_t n);

#endif
