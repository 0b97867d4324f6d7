/* The program under emission: instructions, registers and constants so far. */
#ifndef XCVM_COMPILER_EMIT_EMIT_CODE_H
#define XCVM_COMPILER_EMIT_EMIT_CODE_H

#include "compiler/emit/emit.h"
#include "proto/image.h"

typedef struct xcc_code {
    xcc_module *m;
    const xcc_plan *plan;
    xcvm_image image;
    size_t instruction_capacity, constant_capacity;
    int32_t *operands; /* by value id: a register, or constant -1 - entry; 0: none yet */
    int32_t registers; /* number assigned so far */
    uint32_t *table;   /* hash table of constants: 1 + index of the latest in each slot; 0: none */
    uint32_t *earlier; /* by constant: 1 + index of the previous one in its slot */
    size_t table_capacity;
} xcc_code;

/* All its memory is in the module's arena. */
xcvm_status xcc_code_begin(xcc_code *c, xcc_module *m, const xcc_plan *plan);

/* Returns the register of a value, a new one if it has none yet. */
int32_t xcc_code_register(xcc_code *c, const xcc_value *v);
/* Returns a register for something that is not a value of the graph. */
int32_t xcc_code_new_register(xcc_code *c);
/* Returns the location of an operand; 0 for NULL. A constant is added to the program, once for equal ones. */
xcvm_status xcc_code_operand(xcc_code *c, const xcc_value *v, int32_t *operand);

/* Returns 1 + the index of a state's initial constant. */
xcvm_status xcc_code_initial(xcc_code *c, const xcc_value *state, uint32_t *initial);

/* Debug data of an instruction; each may be NULL. */
typedef struct xcc_code_debug {
    const xcc_node *node;
    const xcc_value *const *values; /* the results, one per output of the instruction */
    bool slots;                     /* the results have the values' slots */
} xcc_code_debug;

/* Appends an instruction with operands and results in registers and constants. args has the attributes; its operands
 * are ignored. Its index is image.instruction_count before the call. */
xcvm_status xcc_code_append(xcc_code *c, const xcvm_schema *schema, const void *args, const int32_t *in,
                            size_t in_count, const int32_t *out, size_t out_count, const xcc_code_debug *debug);

#endif
