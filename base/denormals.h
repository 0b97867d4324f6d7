/* Handling of subnormal (denormal) numbers in the calling thread: IEEE 754 behavior, or flush to zero, which is faster
 * on processors that compute with subnormals a hundred times slower. The functions of the C library follow the setting.
 */
#ifndef XCVM_BASE_DENORMALS_H
#define XCVM_BASE_DENORMALS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SSE__)
#include <xmmintrin.h>

/* MXCSR: FTZ (results) and DAZ (operands). */
enum { XCVM_DENORMALS_BITS = 0x8040, XCVM_DENORMALS_FLAGS = 0x3f };

static inline uint64_t xcvm_denormals_word(void) { return _mm_getcsr(); }

/* Keeps exception flags that were raised since. */
static inline void xcvm_denormals_restore(uint64_t before)
{
    _mm_setcsr(((uint32_t)before & ~(uint32_t)XCVM_DENORMALS_FLAGS) | (_mm_getcsr() & XCVM_DENORMALS_FLAGS));
}
#elif defined(__aarch64__)
/* FPCR: FZ, for operands and results. */
enum { XCVM_DENORMALS_BITS = 1 << 24 };

static inline uint64_t xcvm_denormals_word(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
}

static inline void xcvm_denormals_restore(uint64_t before) { __asm__ volatile("msr fpcr, %0" ::"r"(before)); }
#else
enum { XCVM_DENORMALS_BITS = 0 };
static inline uint64_t xcvm_denormals_word(void) { return 0; }
static inline void xcvm_denormals_restore(uint64_t before) { (void)before; }
#endif

/* Sets flushing for the calling thread. Returns the argument of xcvm_denormals_restore. */
static inline uint64_t xcvm_denormals_set(bool flush)
{
    const uint64_t before = xcvm_denormals_word(), bits = (uint64_t)XCVM_DENORMALS_BITS;
    const uint64_t wanted = flush ? before | bits : before & ~bits;
    if (wanted != before)
        xcvm_denormals_restore(wanted);
    return before;
}

#endif
