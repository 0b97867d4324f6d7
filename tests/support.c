/* Helpers for all tests. */
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool test_bytes_sink(void *bytes, const void *piece, size_t count)
{
    test_bytes *b = bytes;
    if (count > b->capacity - b->length) {
        size_t capacity = (b->length + count) * 2;
        char *grown = realloc(b->at, capacity);
        if (grown == NULL)
            return false;
        b->at = grown;
        b->capacity = capacity;
    }
    if (count > 0)
        memcpy(b->at + b->length, piece, count);
    b->length += count;
    return true;
}

bool test_full_sink(void *user, const void *bytes, size_t count)
{
    (void)user;
    (void)bytes;
    (void)count;
    return false;
}

void test_bytes_free(test_bytes *bytes)
{
    free(bytes->at);
    *bytes = (test_bytes){0};
}

bool test_bytes_equal(const test_bytes *a, const test_bytes *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->at, b->at, a->length) == 0);
}

test_bytes test_file_read(const char *path)
{
    test_bytes bytes = {0};
    char piece[4096];
    size_t count;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return bytes;
    bytes.capacity = sizeof piece;
    bytes.at = malloc(bytes.capacity);
    while (bytes.at != NULL && (count = fread(piece, 1, sizeof piece, file)) > 0 &&
           test_bytes_sink(&bytes, piece, count))
        continue;
    fclose(file);
    return bytes;
}

static void *counted_allocate(void *user, size_t bytes, size_t alignment)
{
    test_allocator *a = user;
    void *memory = NULL;
    a->requests++;
    if (a->fail_at != 0 && (a->once ? a->requests == a->fail_at : a->requests >= a->fail_at))
        return NULL;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    a->live += bytes;
    return memory;
}

static void counted_release(void *user, void *memory, size_t bytes)
{
    test_allocator *a = user;
    a->live -= bytes;
    free(memory);
}

void test_allocator_start(test_allocator *a, size_t fail_at)
{
    *a = (test_allocator){.allocator = {counted_allocate, counted_release, a}, .fail_at = fail_at};
}

uint32_t test_random(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Knuth's constants of MMIX. */
uint64_t test_random_wide(uint64_t *state)
{
    return *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

uint32_t test_random_below(uint32_t *state, uint32_t n) { return (test_random(state) >> 8) % n; }

uint64_t test_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PATIENCE = 20 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
enum { PATIENCE = 20 };
#else
enum { PATIENCE = 1 };
#endif
#else
enum { PATIENCE = 1 };
#endif

uint64_t test_patience(void)
{
    const char *text = getenv("CK_TIMEOUT_MULTIPLIER");
    const double times = text != NULL ? strtod(text, NULL) : 1.0;
    return (uint64_t)(PATIENCE * (times > 1.0 ? times : 1.0));
}

size_t test_fewer(size_t count) { return test_patience() > 1 ? (count + 4) / 5 : count; }

bool test_takes(size_t indices) { return test_patience() == 1 || indices % 5 == 0; }
