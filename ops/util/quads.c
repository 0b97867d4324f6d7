/* Detection of CPU instructions that multiply and add four bytes at a time. */
#include "ops/util/quads.h"

#if defined(__x86_64__)
#include <cpuid.h>

bool xcvm_quads_of_64(void) { return __builtin_cpu_supports("avx512vnni") != 0; }

bool xcvm_quads_of_32(void)
{
    /* AVX_VNNI, which older compilers have no name for. The caller has already detected AVX2. */
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") != 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}
#else
bool xcvm_quads_of_64(void) { return false; }
bool xcvm_quads_of_32(void) { return false; }
#endif

bool xcvm_quads_at_once(void) { return xcvm_quads_of_64() || xcvm_quads_of_32(); }
