/* Denormal numbers are taken and given as zero during a run: arithmetic with them can be a hundred times slower. */
#ifndef XCVM_BASE_DENORMALS_H
#define XCVM_BASE_DENORMALS_H

#include <stdint.h>

#if defined(__SSE__)
#include <xmmintrin.h>

/* Makes denormals zero in this thread; returns what xcvm_denormals_restore takes to end that. */
static inline uint32_t xcvm_denormals_flush(void)
{
    uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
    return before;
}

static inline void xcvm_denormals_restore(uint32_t before)
{
    /* Exception flags raised in between are kept. */
    _mm_setcsr((before & ~UINT32_C(0x3f)) | (_mm_getcsr() & 0x3f));
}
#else
static inline uint32_t xcvm_denormals_flush(void) { return 0; }
static inline void xcvm_denormals_restore(uint32_t before) { (void)before; }
#endif

#endif
