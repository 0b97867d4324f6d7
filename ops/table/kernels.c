/* Dispatch: selects the baseline kernel of an instruction, or the one for this CPU's instruction set. */
#include "base/isas.h"
#include "ops/table/table.h"

#include <string.h>

/* Only some kernels are in simd/ directories, so references are weak. They are hidden, so that the dynamic linker does
 * not look them up. */
#define ATTRIBUTES_BASELINE
#define ATTRIBUTES_EXTENSION __attribute__((weak, visibility("hidden")))
#define DECLARE_ONE(Name, kind, suffix, ...)                                                                           \
    extern xcvm_status xcvm_##Name##_run##suffix(xcvm_kernel *k, const void *a) ATTRIBUTES_##kind;
#define DECLARE_PURE(Name) XCVM_ISAS(DECLARE_ONE, Name)
#define DECLARE_RANDOM(Name) DECLARE_PURE(Name)
#define DECLARE_EFFECT(Name) DECLARE_PURE(Name)
#define DECLARE_UPDATE(Name) DECLARE_PURE(Name)
#define DECLARE_CONTROL(Name)
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary) DECLARE_##effect(name)
#include "ops/instructions.def"

#define ENTRY_ONE(Name, kind, suffix, ...) xcvm_##Name##_run##suffix,
#define ENTRY_PURE(Name) [XCVM_OP_##Name] = {XCVM_ISAS(ENTRY_ONE, Name)},
#define ENTRY_RANDOM(Name) ENTRY_PURE(Name)
#define ENTRY_EFFECT(Name) ENTRY_PURE(Name)
#define ENTRY_UPDATE(Name) ENTRY_PURE(Name)
#define ENTRY_CONTROL(Name)
static const xcvm_kernel_run kernels[XCVM_OPCODE_LIMIT][XCVM_ISA_COUNT] = {
#define XCVM_OP(name, number, operands, shape, cost, effect, gradient, onnx, summary) ENTRY_##effect(name)
#include "ops/instructions.def"
};

#define NAME_ONE(of, kind, suffix, name, has, ...) name,
static const char *const names[XCVM_ISA_COUNT] = {XCVM_ISAS(NAME_ONE, )};

static size_t best_isa(void)
{
    size_t best = 0;
#define TEST_ONE(of, kind, suffix, name, has, ...) (has) != 0,
    const bool there[XCVM_ISA_COUNT] = {XCVM_ISAS(TEST_ONE, )};
    while (best + 1 < XCVM_ISA_COUNT && there[best + 1])
        best++;
    return best;
}

/* Returns XCVM_ISA_COUNT if this build has no kernels for it. */
static size_t find_isa(const char *isa)
{
    size_t i = 0;
    while (i < XCVM_ISA_COUNT && strcmp(names[i], isa) != 0)
        i++;
    return i;
}

static xcvm_kernel_run find_kernel(xcvm_opcode opcode, size_t isa)
{
    while (isa > 0 && kernels[opcode][isa] == NULL)
        isa--;
    return kernels[opcode][isa];
}

xcvm_kernel_run xcvm_kernel_of(xcvm_opcode opcode) { return find_kernel(opcode, best_isa()); }

xcvm_kernel_run xcvm_kernel_for(xcvm_opcode opcode, const char *isa)
{
    const size_t i = find_isa(isa);
    return i < XCVM_ISA_COUNT ? find_kernel(opcode, i) : NULL;
}

const char *xcvm_kernel_isa(void) { return names[best_isa()]; }

const char *xcvm_isa_at(size_t index) { return index <= best_isa() ? names[index] : NULL; }

bool xcvm_isa_runs(const char *isa) { return find_isa(isa) <= best_isa(); }

bool xcvm_isa_within(const char *isa, const char *limit)
{
    return find_isa(isa) < XCVM_ISA_COUNT && find_isa(isa) <= find_isa(limit);
}
