/* The program that emission is making: its instructions so far, its registers and constants. */
#ifndef XCVM_COMPILER_EMIT_EMIT_CODE_H
#define XCVM_COMPILER_EMIT_EMIT_CODE_H

#include "compiler/emit/emit.h"
#include "proto/image.h"

typedef struct xcc_code {
    xcc_module *m;
    const xcc_plan *plan;
    xcvm_image image;
    size_t instruction_capacity, constant_capacity;
    int32_t *operands; /* by value id: a register, or constant -1 - entry; 0 while there is none */
    int32_t registers; /* given out so far */
    uint32_t *table;   /* hash table of constants: index + 1 of the latest in each place; 0: none */
    uint32_t *earlier; /* by constant: index + 1 of the one before it in its place */
    size_t table_capacity;
} xcc_code;

/* Everything is in the module's arena. */
xcvm_status xcc_code_begin(xcc_code *c, xcc_module *m, const xcc_plan *plan);

/* The register of a value, a new one if it has none yet. */
int32_t xcc_code_register(xcc_code *c, const xcc_value *v);
/* A register for something that is no value of the graph. */
int32_t xcc_code_new_register(xcc_code *c);
/* Where an operand is: 0 for NULL. A constant becomes one of the program's, once for equal ones. */
xcvm_status xcc_code_operand(xcc_code *c, const xcc_value *v, int32_t *operand);

/* The constant that a state begins with: its index, plus 1. */
xcvm_status xcc_code_initial(xcc_code *c, const xcc_value *state, uint32_t *initial);

/* What debug data an instruction gets; each may be NULL. */
typedef struct xcc_code_debug {
    const xcc_node *node;
    const xcc_value *const *values; /* the results, one for each output of the instruction */
    bool slots;                     /* the values' slots are the results' */
} xcc_code_debug;

/* Appends an instruction with its operands and results in registers and constants; args as in the row, operands
 * ignored. The index that it gets is image.instruction_count. */
xcvm_status xcc_code_append(xcc_code *c, const xcvm_schema *schema, const void *args, const int32_t *in,
                            size_t in_count, const int32_t *out, size_t out_count, const xcc_code_debug *debug);

#endif
