/* The tables of all instructions: schemas, and kernels for each instruction set. */
#ifndef XCVM_OPS_TABLE_TABLE_H
#define XCVM_OPS_TABLE_TABLE_H

#include "ops/util/kernel.h"

/* ---- Schemas ---- */

/* Return NULL if no instruction has that number or name. */
const xcvm_schema *xcvm_schema_of(int64_t opcode);
const xcvm_schema *xcvm_schema_named(const char *name, size_t length);

/* ---- Kernels ---- */

/* Returns the kernel for this CPU. Never NULL for an instruction other than CONTROL. */
xcvm_kernel_run xcvm_kernel_of(xcvm_opcode opcode);
/* Returns the kernel for CPUs of the instruction set `isa`, which xcvm_isa_runs must accept. */
xcvm_kernel_run xcvm_kernel_for(xcvm_opcode opcode, const char *isa);
/* Returns the instruction set whose kernels are used, such as "x86-64-v3". */
const char *xcvm_kernel_isa(void);
/* Instruction sets of this CPU in ascending order; NULL beyond the last. */
const char *xcvm_isa_at(size_t index);
/* Returns true if this CPU runs code compiled for `isa`, one of those names; false for any other. */
bool xcvm_isa_runs(const char *isa);
/* Returns true if CPUs of the instruction set `limit` run code compiled for `isa`. */
bool xcvm_isa_within(const char *isa, const char *limit);

/* Runs one instruction outside a session, for constant folding: infers, allocates and calls the kernel. Results must be
 * null values; they own their memory. */
xcvm_status xcvm_kernel_execute(xcvm_kernel *k, const xcvm_schema *schema, const void *args);

#endif
