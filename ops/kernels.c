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
/* The folders simd/ hold some of the kernels only, hence the weak references; hidden, they are no symbols that the
 * dynamic linker would look for. */
#define WEAK __attribute__((weak, visibility("hidden")))
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

static const xcvm_kernel_run *const tables[] = {plain, v3, v4};
static const char *const isas[] = {"x86-64", "x86-64-v3", "x86-64-v4"};

static size_t best_isa(void)
{
    const bool has_v3 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl");
    return has_v4 ? 2 : has_v3;
}
#else
static const xcvm_kernel_run *const tables[] = {plain};
#if defined(__aarch64__)
static const char *const isas[] = {"aarch64"};
#else
static const char *const isas[] = {"generic"};
#endif

static size_t best_isa(void) { return 0; }
#endif

enum { ISA_COUNT = sizeof tables / sizeof *tables };

/* ISA_COUNT if this build has no kernels for it. */
static size_t find_isa(const char *isa)
{
    size_t i = 0;
    while (i < ISA_COUNT && strcmp(isas[i], isa) != 0)
        i++;
    return i;
}

static xcvm_kernel_run find_kernel(xcvm_opcode opcode, size_t isa)
{
    while (isa > 0 && tables[isa][opcode] == NULL)
        isa--;
    return tables[isa][opcode];
}

xcvm_kernel_run xcvm_kernel_of(xcvm_opcode opcode) { return find_kernel(opcode, best_isa()); }

xcvm_kernel_run xcvm_kernel_for(xcvm_opcode opcode, const char *isa)
{
    const size_t i = find_isa(isa);
    return i < ISA_COUNT ? find_kernel(opcode, i) : NULL;
}

const char *xcvm_kernel_isa(void) { return isas[best_isa()]; }

bool xcvm_isa_runs(const char *isa) { return find_isa(isa) <= best_isa(); }

bool xcvm_isa_within(const char *isa, const char *limit)
{
    return find_isa(isa) < ISA_COUNT && find_isa(isa) <= find_isa(limit);
}
