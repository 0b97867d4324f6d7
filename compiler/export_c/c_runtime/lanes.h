/* Vectors of f32. Their width is that of the target instruction set, or one element in portable C. The names are those
 * of ops/simd/lanes.h, so that code of the VM can be copied. */
#ifndef XC_LANES_H
#define XC_LANES_H

#include "compiler/export_c/c_runtime/numbers.h"

/* Precedes loops whose iterations are independent, even if pointers are equal. clang finds this out by itself, and
 * warns about such loops if it cannot vectorize them. */
#undef XCVM_INDEPENDENT
#if defined(__GNUC__) && !defined(__clang__)
#define XCVM_INDEPENDENT _Pragma("GCC ivdep")
#else
#define XCVM_INDEPENDENT
#endif

/* Precedes a short loop that gcc should vectorize. Otherwise gcc unrolls it first, and computes single numbers. */
#if defined(__GNUC__) && !defined(__clang__)
#define XC_ROLLED _Pragma("GCC unroll 1")
#else
#define XC_ROLLED
#endif

#if defined(XC_PORTABLE)
#define XCVM_LANES 1
#elif defined(__AVX512F__)
#define XCVM_LANES 16
#elif defined(__AVX__)
#define XCVM_LANES 8
#else
#define XCVM_LANES 4
#endif

#if defined(XC_PORTABLE)
#define XCVM_INLINE static inline
#else
/* A program may use some of these alone. */
#define XCVM_INLINE static inline __attribute__((always_inline, unused))
#endif

#if defined(XC_PORTABLE)
typedef float xcvm_lanes;
#define xcvm_lanes_load(from) (*(from))
#define xcvm_lanes_store(to, v) (*(to) = (v))
#define xcvm_lanes_all(x) (x)
#define xcvm_lanes_max(v, low) ((v) < (low) ? (low) : (v))
#define xcvm_lanes_min(v, high) ((v) > (high) ? (high) : (v))
#define XCVM_ZERO 0.0f
#else
typedef float xcvm_lanes __attribute__((vector_size(4 * XCVM_LANES)));
typedef int32_t xcvm_lanes_mask __attribute__((vector_size(4 * XCVM_LANES)));
typedef float xcvm_lanes_at __attribute__((vector_size(4 * XCVM_LANES), aligned(4), may_alias));
#define XCVM_ZERO ((xcvm_lanes){0})
XCVM_INLINE xcvm_lanes xcvm_lanes_load(const float *from) { return *(const xcvm_lanes_at *)from; }
XCVM_INLINE void xcvm_lanes_store(float *to, xcvm_lanes v) { *(xcvm_lanes_at *)to = v; }
XCVM_INLINE xcvm_lanes xcvm_lanes_all(float x) { return x - XCVM_ZERO; }
XCVM_INLINE xcvm_lanes xcvm_lanes_choose(xcvm_lanes_mask mask, xcvm_lanes a, xcvm_lanes b)
{
    return (xcvm_lanes)(((xcvm_lanes_mask)a & mask) | ((xcvm_lanes_mask)b & ~mask));
}
XCVM_INLINE xcvm_lanes xcvm_lanes_max(xcvm_lanes v, xcvm_lanes low) { return xcvm_lanes_choose(v < low, low, v); }
XCVM_INLINE xcvm_lanes xcvm_lanes_min(xcvm_lanes v, xcvm_lanes high) { return xcvm_lanes_choose(v > high, high, v); }
#endif

/* NaN is greater than any number. */
#if defined(XC_PORTABLE)
#define xc_lanes_greater(v, than) ((v) > (than) || (v) != (v) ? (v) : (than))
#else
XCVM_INLINE xcvm_lanes xc_lanes_greater(xcvm_lanes v, xcvm_lanes than)
{
    return xcvm_lanes_choose((v > than) | (v != v), v, than);
}
#endif

/* Channels are blocked, and matrices packed, by 16. */
enum { XCVM_WINOGRAD_SPAN = 6 };
enum { XCVM_CHANNEL_BLOCK = 16, XCVM_BLOCK_VECTORS = XCVM_CHANNEL_BLOCK / XCVM_LANES };

#endif
