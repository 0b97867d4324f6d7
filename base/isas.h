/* Instruction sets, one line each. Kernels are chosen, kernel libraries compiled, options offered and tests run by
 * these lines. CMake reads this file and compiles every file in a simd/ directory once per EXTENSION.
 *
 *   ISA(of, kind, suffix, name, CPU test, compiler flags ..., or NULL)
 *
 * The BASELINE of a processor family needs no flags. Each EXTENSION includes those before it, and its functions are
 * compiled with XCVM_ISA defined as its suffix. `of` is passed through. XCVM_BASELINE_ONLY, an option of CMake, leaves
 * the extensions out. */
#ifndef XCVM_BASE_ISAS_H
#define XCVM_BASE_ISAS_H

/* clang-format off */
#define XCVM_BASELINE_x86_64(ISA, of) \
    ISA(of, BASELINE, , "x86-64", 1, NULL)

#define XCVM_ISAS_x86_64(ISA, of) \
    XCVM_BASELINE_x86_64(ISA, of) \
    ISA(of, EXTENSION, _v3, "x86-64-v3", XCVM_CPU_HAS("avx2") && XCVM_CPU_HAS("fma") && XCVM_CPU_HAS("bmi2"), "-march=x86-64-v3") \
    ISA(of, EXTENSION, _v4, "x86-64-v4", XCVM_CPU_HAS("avx512f") && XCVM_CPU_HAS("avx512bw") && XCVM_CPU_HAS("avx512cd") && XCVM_CPU_HAS("avx512dq") && XCVM_CPU_HAS("avx512vl"), "-march=x86-64-v4", "-mprefer-vector-width=512")

/* The flag makes compilers of other families refuse it. */
#define XCVM_ISAS_aarch64(ISA, of) \
    ISA(of, BASELINE, , "aarch64", 1, "-march=armv8-a")

#define XCVM_ISAS_other(ISA, of) \
    ISA(of, BASELINE, , "generic", 1, NULL)
/* clang-format on */

/* The instruction sets of all families, and those of the family that this code is compiled for. */
#define XCVM_ALL_ISAS(ISA, of) XCVM_ISAS_x86_64(ISA, of) XCVM_ISAS_aarch64(ISA, of) XCVM_ISAS_other(ISA, of)
#if defined(__x86_64__) && defined(XCVM_BASELINE_ONLY)
#define XCVM_ISAS XCVM_BASELINE_x86_64
#elif defined(__x86_64__)
#define XCVM_ISAS XCVM_ISAS_x86_64
#elif defined(__aarch64__)
#define XCVM_ISAS XCVM_ISAS_aarch64
#else
#define XCVM_ISAS XCVM_ISAS_other
#endif

#define XCVM_ISA_ONE(of, kind, suffix, name, has, ...) +1
enum { XCVM_ISA_COUNT = 0 XCVM_ISAS(XCVM_ISA_ONE, ) };

#define XCVM_CPU_HAS(feature) __builtin_cpu_supports(feature)

#endif
