/* Helpers for all tests: growing bytes, files, and an allocator that counts and fails on request. */
#ifndef XCVM_TESTS_SUPPORT_H
#define XCVM_TESTS_SUPPORT_H

#include "xcvm/xcvm.h"

/* For functions in headers that not every test calls. */
#define UNUSED __attribute__((unused))

/* 1 with the thread sanitizer, which does not support threads that are started after a fork, and finds nothing in what
 * one thread does. */
#if defined(__SANITIZE_THREAD__)
#define TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define TEST_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define TEST_THREAD_SANITIZER 0
#endif

typedef struct test_bytes {
    char *at;
    size_t length, capacity;
} test_bytes;

/* An xcvm_sink over a test_bytes. */
bool test_bytes_sink(void *bytes, const void *piece, size_t count);
/* An xcvm_sink that always fails, like a full disk. */
bool test_full_sink(void *user, const void *bytes, size_t count);
void test_bytes_free(test_bytes *bytes);
bool test_bytes_equal(const test_bytes *a, const test_bytes *b);
/* The contents of a file; `at` is NULL if it cannot be read, and never NULL otherwise. */
test_bytes test_file_read(const char *path);

/* Sets a generated locale with decimal commas; false if this is impossible. setlocale(LC_ALL, "C") restores it. */
bool test_comma_locale(void);

/* Processor time of the process in nanoseconds. Time limits of tests use it because other programs may delay the
 * process. */
uint64_t test_cpu_ns(void);
/* Factor of time limits: 20 with a sanitizer of addresses or threads, multiplied by Check's CK_TIMEOUT_MULTIPLIER,
 * which emulators set. */
uint64_t test_patience(void);
/* Of `count` random cases, or nodes of a large model, how many there are: a fifth with a sanitizer or an emulator,
 * which take long. */
size_t test_fewer(size_t count);
/* The same for combinations of sizes: whether the one with this sum of indices is run. */
bool test_takes(size_t indices);

/* Number of resident pages of memory, of at most 8192; SIZE_MAX if the system does not report it. */
size_t test_resident_pages(const void *memory, size_t bytes);

/* An allocator that fails the request number `fail_at`, from 1 (0: none), and unless `once`, all later ones. `live`
 * counts unreleased blocks. One thread at a time. */
typedef struct test_allocator {
    xcvm_allocator allocator;
    size_t requests, fail_at, live;
    bool once;
} test_allocator;

/* `a` must stay where it is while its allocator is used. */
void test_allocator_start(test_allocator *a, size_t fail_at);

/* Linear congruential generators: pseudo-random numbers that are the same on all systems. Each advances the state, of
 * 32 or 64 bits, and returns it; its upper bits are better. */
uint32_t test_random(uint32_t *state);
uint64_t test_random_wide(uint64_t *state);
/* From the upper 24 bits. */
uint32_t test_random_below(uint32_t *state, uint32_t n);

#endif
