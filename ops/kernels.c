/* Which kernel an instruction runs: the plain one, or the one built for the instruction set that this CPU has. */
#include "ops/kernel.h"

#include <string.h>

#define DECLARE_PURE(name, suffix, weak)                                                                               \
    extern xcvm_status xcvm_##name##_run##suffix(xcvm_kernel *k, const void *a) weak;
#define DECLARE_RANDOM(name, suffix, weak) DECLARE_PURE(name, suffix, weak)
#define DECLARE_EFFECT(name, suffix, weak) DECLARE_PURE(name, suffix, weak)
#define DECLARE_CONTROL(name, suffix, weak)
#define ENTRY_PURE(name, suffix) [XCVM_OP_##name] = xcvm_##name##_run##suffix,
#define ENTRY_RANDOM(name, suffix) ENTRY_PURE(name, suffix)
#define ENTRY_EFFECT(name, suffix) ENTRY_PURE(name, suffix)
#define ENTRY_CONTROL(name, suffix)

#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) DECLARE_##effect(name, , )
#include "ops/instructions.def"

static const xcvm_kernel_run plain[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) ENTRY_##effect(name, )
#include "ops/instructions.def"
};

#if defined(__x86_64__)
/* ops/vector holds some of the kernels only, hence the weak references. */
#define WEAK __attribute__((weak))
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) DECLARE_##effect(name, _v3, WEAK)
#include "ops/instructions.def"
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) DECLARE_##effect(name, _v4, WEAK)
#include "ops/instructions.def"

static const xcvm_kernel_run v3[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) ENTRY_##effect(name, _v3)
#include "ops/instructions.def"
};
static const xcvm_kernel_run v4[XCVM_OPCODE_LIMIT] = {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, sentence) ENTRY_##effect(name, _v4)
#include "ops/instructions.def"
};

static bool has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

xcvm_kernel_run xcvm_kernel_of(xcvm_opcode opcode)
{
    if (v4[opcode] != NULL && has_v4())
        return v4[opcode];
    if (v3[opcode] != NULL && has_v3())
        return v3[opcode];
    return plain[opcode];
}

const char *xcvm_kernel_isa(void) { return has_v4() ? "x86-64-v4" : has_v3() ? "x86-64-v3" : "x86-64"; }

bool xcvm_isa_runs(const char *isa)
{
    return strcmp(isa, "x86-64") == 0 || (strcmp(isa, "x86-64-v3") == 0 && has_v3()) ||
           (strcmp(isa, "x86-64-v4") == 0 && has_v4());
}
#else
xcvm_kernel_run xcvm_kernel_of(xcvm_opcode opcode) { return plain[opcode]; }

#if defined(__aarch64__)
const char *xcvm_kernel_isa(void) { return "aarch64"; }
#else
const char *xcvm_kernel_isa(void) { return "generic"; }
#endif

bool xcvm_isa_runs(const char *isa) { return strcmp(isa, xcvm_kernel_isa()) == 0; }
#endif
