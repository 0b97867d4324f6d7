/* Emission of groups with a kernel library function: a KernelCall instruction followed by the unfused instructions. */
#include "compiler/emit/emitter.h"
#include "compiler/ir/compilation.h"
#include "compiler/kernel_library/kernel_library.h"
#include "compiler/kernel_library/cc.h"
#include "ops/table/table.h"

#include <string.h>

/* Returns true if a value read in the group comes from outside: an operand of its function, or one that only unfused
 * instructions read, such as the axes of a reduction. */
static bool is_from_outside(const xcc_kernel_group *f, const xcc_value *v)
{
    return v != NULL && (v->producer == NULL || v->producer->group != &f->group);
}

/* Emits the KernelCall instruction before a group. Operands of the group are fetched before it, so that only the
 * group's instructions follow. */
static xcvm_status begin_fused(xcc_emitter *e, const xcc_kernel_group *f)
{
    int32_t in[XCVM_FUSED_OPERANDS];
    int64_t *elements = xcc_alloc(e->code.m, (f->group.x_count + f->result_count) * sizeof *elements);
    e->fused_results = xcc_alloc(e->code.m, f->result_count * sizeof *e->fused_results);
    if (elements == NULL || e->fused_results == NULL)
        return XCVM_OUT_OF_MEMORY;
    for (size_t i = 0; i < f->group.node_count; i++)
        for (size_t j = 0; j < xcc_node_input_count(f->group.nodes[i]); j++)
            if (is_from_outside(f, f->group.nodes[i]->uses[j].value))
                XCVM_TRY(xcc_emit_fetch(e, f->group.nodes[i]->uses[j].value));
    for (size_t i = 0; i < f->group.x_count; i++)
        XCVM_TRY(xcc_code_operand(&e->code, f->group.xs[i], &in[i]));
    for (size_t i = 0; i < f->group.x_count; i++)
        elements[i] = (int64_t)xcvm_element_count(&f->group.xs[i]->type);
    uint64_t flops = 0;
    for (size_t i = 0; i < f->result_count; i++)
        elements[f->group.x_count + i] =
            (int64_t)xcvm_element_count(&xcc_node_output(f->group.nodes[f->results[i]], 0)->type);
    for (size_t i = 0; i < f->group.node_count; i++)
        flops += xcc_node_flops(f->group.nodes[i]);
    xcvm_KernelCall_args args = {.xs = {.count = f->group.x_count},
                                 .kernel = f->group.number,
                                 .count = 1,
                                 .results = {e->fused_results, f->result_count},
                                 .elements = {elements, f->group.x_count + f->result_count}};
    xcc_code_debug debug = {.node = f->group.nodes[0]};
    e->fused = xcc_emit_position(e);
    XCVM_TRY(
        xcc_code_append(&e->code, xcvm_schema_of(XCVM_OP_KernelCall), &args, in, f->group.x_count, NULL, 0, &debug));
    e->code.image.instructions[e->fused].debug.flops = e->code.m->options->strip ? 0 : flops;
    return XCVM_OK;
}

/* Counts another appended instruction of the group, for node `n`. */
static void count_fused(xcc_emitter *e, const xcc_node *n, size_t at)
{
    const xcc_kernel_group *f = xcc_fusion_of(n->group);
    for (size_t i = 0; i < f->result_count; i++)
        if (f->group.nodes[f->results[i]] == n)
            e->fused_results[i] = (int64_t)(at - e->fused - 1);
}

/* Ends a group. Its operands are freed now, because its function may read them until its end. */
static xcvm_status end_fused(xcc_emitter *e, const xcc_node *last)
{
    const xcc_kernel_group *f = xcc_fusion_of(last->group);
    xcvm_KernelCall_args *args = e->code.image.instructions[e->fused].args;
    args->count = (int64_t)(xcc_emit_position(e) - e->fused - 1);
    args->results.at = e->fused_results;
    for (size_t i = 0; i < f->group.node_count; i++)
        for (size_t j = 0; j < xcc_node_input_count(f->group.nodes[i]); j++)
            if (is_from_outside(f, f->group.nodes[i]->uses[j].value))
                XCVM_TRY(xcc_emit_free_if_last(e, last, f->group.nodes[i]->uses[j].value));
    return XCVM_OK;
}

xcvm_status xcc_emit_kernel_call(xcc_emitter *e, const xcc_node *n)
{
    const xcc_kernel_group *f = xcc_fusion_of(n->group);
    if (n == f->group.nodes[0])
        XCVM_TRY(begin_fused(e, f));
    size_t at = xcc_emit_position(e), inputs = xcc_node_input_count(n);
    XCVM_TRY(xcc_emit_instruction(e, n));
    count_fused(e, n, at);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = n->uses[i].value;
        if (v != NULL && !is_from_outside(f, v))
            XCVM_TRY(xcc_emit_free_if_last(e, n, v));
    }
    return n == f->group.nodes[f->group.node_count - 1] ? end_fused(e, n) : XCVM_OK;
}

xcvm_status xcc_emit_library(xcc_emitter *e)
{
    xcc_module *m = e->code.m;
    xcvm_image *image = &e->code.image;
    if (m->group_count == 0)
        return XCVM_OK;
    image->libraries = xcc_alloc(m, sizeof *image->libraries);
    if (image->libraries == NULL)
        return XCVM_OUT_OF_MEMORY;
    const char *slash = strrchr(m->options->kernel_library.path, '/');
    image->libraries[0] = (xcvm_library){.file = slash != NULL ? slash + 1 : m->options->kernel_library.path,
                                         .abi = XCVM_LIBRARY_ABI,
                                         .isa = xcc_cc_isa(m->options)};
    memcpy(image->libraries[0].hash, m->compilation->library_hash, sizeof image->libraries[0].hash);
    image->library_count = 1;
    return XCVM_OK;
}
