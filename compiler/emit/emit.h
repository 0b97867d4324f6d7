/* Memory planning and emission of the program. */
#ifndef XCVM_COMPILER_EMIT_EMIT_H
#define XCVM_COMPILER_EMIT_EMIT_H

#include "compiler/ir/graph.h"

/* Arena slots of the module, by value id. 0 bytes means that the size is unknown or that the value is used in or across
 * control flow. */
typedef struct xcc_plan {
    struct {
        uint64_t offset, bytes;
    } * slots; /* module->value_count entries */
    uint64_t arena_bytes;
    uint64_t lower_bound; /* maximum bytes live at once */
} xcc_plan;
xcvm_status xcc_plan_make(xcc_module *m, xcc_plan *plan);

/* Emits the program: registers, In, Out, Free, jumps for control flow, constants. */
xcvm_status xcc_emit_program(xcc_module *m, const xcc_plan *plan, xcvm_sink sink);

#endif
