/* Constant evaluation: computes nodes with constant operands with the VM's kernels. */
#include "base/clock.h"
#include "base/denormals.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/evaluate.h"
#include "ops/table/table.h"

/* A result is not folded if it has more bytes than this and is also much larger than its operands. */
#define LARGE_RESULT ((size_t)16 << 20)
/* Time limits in nanoseconds: for one node, and for a compilation. */
#define NODE_TIME UINT64_C(10000000000)
#define ALL_TIME UINT64_C(60000000000)

void xcc_evaluator_begin(xcc_evaluator *f, xcc_module *m, bool keep)
{
    *f = (xcc_evaluator){.m = m, .keep = keep, .begun_ns = xcvm_clock_ns()};
    f->deadline_ns = xcc_deadline_within(m, m->folding_ns < ALL_TIME ? ALL_TIME - m->folding_ns : 0);
    f->kernel =
        (xcvm_kernel){.error = &f->error, .heap = m->heap, .allocator = m->allocator, .cancelled = m->cancelled};
}

void xcc_evaluator_end(xcc_evaluator *f)
{
    xcvm_storage_release(f->kernel.scratch_storage);
    f->m->folding_ns += xcvm_clock_ns() - f->begun_ns;
}

static bool has_constant_operands(const xcc_node *n, size_t *bytes)
{
    size_t inputs = xcc_node_input_count(n);
    *bytes = 0;
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = n->uses[i].value;
        if (v != NULL && !xcc_is_constant(v))
            return false;
        *bytes += v != NULL ? v->type.bytes : 0;
    }
    return true;
}

static bool has_sensible_results(const xcc_node *n, size_t operand_bytes)
{
    size_t outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        const xcvm_value *t = &v->type;
        size_t count, bytes;
        if (t->kind != XCVM_KIND_TENSOR)
            return false;
        if (t->rank < 0 || !xcvm_dims_known(t))
            continue;
        if (!xcvm_tensor_size((xcvm_dtype)t->dtype, t->rank, t->dims, &count, &bytes) ||
            (bytes > LARGE_RESULT && bytes / XCC_LARGE_RATIO > operand_bytes))
            return false;
    }
    return true;
}

/* Returns true if a view has as many bytes as its operand. Its dimensions may be outdated: shape inference trusts a
 * Reshape's target while the operand is unknown. */
static bool holds_as_much(const xcvm_value *y, const xcvm_value *x)
{
    size_t count, bytes, held_count, held_bytes;
    return xcvm_tensor_size((xcvm_dtype)y->dtype, y->rank, y->dims, &count, &bytes) &&
           xcvm_tensor_size((xcvm_dtype)x->dtype, x->rank, x->dims, &held_count, &held_bytes) && bytes == held_bytes;
}

/* Views of constants share their bytes. */
static bool share(xcc_node *n)
{
    if (!xcvm_schema_has_class(n->schema, XCVM_CLASS_view))
        return false;
    xcc_value *y = xcc_node_output(n, 0);
    const xcc_value *x = xcc_node_input(n, 0);
    if (!xcvm_dims_known(&y->type) || y->type.rank < 0 || !holds_as_much(&y->type, &x->type))
        return false;
    xcvm_value type = y->type;
    y->type = (xcvm_value){.rank = -1};
    xcvm_value_share(&y->type, &x->type);
    xcvm_value_set_tensor(&y->type, (xcvm_dtype)type.dtype, type.rank, type.dims);
    y->type.bytes = x->type.bytes;
    return true;
}

static bool execute(xcc_evaluator *f, xcc_node *n)
{
    size_t outputs = xcc_node_output_count(n), bytes = outputs * sizeof(xcvm_value);
    xcvm_value *types = xcvm_allocate(f->m->allocator, bytes);
    if (types == NULL)
        return false;
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        types[i] = v->type;
        v->type = (xcvm_value){.rank = -1};
    }
    const uint64_t now = xcvm_clock_ns();
    f->kernel.deadline_ns = now + NODE_TIME < f->deadline_ns ? now + NODE_TIME : f->deadline_ns;
    const uint64_t denormals = xcvm_denormals_set(f->m->options->flush_subnormals);
    bool done = xcvm_kernel_execute(&f->kernel, n->schema, n->args) == XCVM_OK;
    xcvm_denormals_restore(denormals);
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(n, i);
        done = done && (v == NULL || (v->type.kind == XCVM_KIND_TENSOR && v->type.data != NULL));
    }
    for (size_t i = 0; i < outputs && !done; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        xcvm_value_clear(&v->type);
        v->type = types[i];
    }
    xcvm_deallocate(f->m->allocator, types, bytes);
    return done;
}

/* Releases the memory of a removed node's operands that have no other users. */
static void release_operands(const xcc_node *n)
{
    const size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        xcc_value *v = xcc_node_input(n, i);
        if (v != NULL)
            xcc_constant_release(v);
    }
}

static bool has_weights(const xcc_node *n)
{
    const size_t inputs = xcc_node_input_count(n);
    for (size_t i = 0; i < inputs; i++) {
        const xcc_value *v = xcc_node_input(n, i);
        if (v != NULL && xcc_is_weight(v))
            return true;
    }
    return false;
}

void xcc_evaluate_node(xcc_evaluator *f, xcc_node *n)
{
    size_t operand_bytes;
    if (n->schema->effect != XCVM_PURE || !has_constant_operands(n, &operand_bytes) ||
        !has_sensible_results(n, operand_bytes) || xcvm_clock_ns() > f->deadline_ns)
        return;
    if (!share(n) && !execute(f, n))
        return;
    const bool literal = !has_weights(n);
    size_t outputs = xcc_node_output_count(n);
    for (size_t i = 0; i < outputs; i++) {
        xcc_value *v = xcc_node_output(n, i);
        if (v == NULL)
            continue;
        v->producer = NULL;
        v->kind = XCC_CONSTANT;
        v->literal = literal;
        if (v->type.storage != NULL)
            xcc_value_own(&f->m->owned, v);
    }
    xcc_node_remove(n);
    if (!f->keep)
        release_operands(n);
    f->m->changes++;
}

static bool is_small(const xcc_node *n, size_t limit)
{
    size_t outputs = xcc_node_output_count(n), count, bytes;
    /* Weights stay quantized until it is decided whether they are multiplied in that form. */
    if (!has_constant_operands(n, &bytes) || bytes > limit || xcc_is(n, XCVM_OP_DequantizeLinear))
        return false;
    for (size_t i = 0; i < outputs; i++) {
        const xcc_value *v = xcc_node_output(n, i);
        if (v != NULL &&
            (v->type.kind != XCVM_KIND_TENSOR || v->type.rank < 0 || v->type.dtype == XCVM_STRING ||
             !xcvm_tensor_size((xcvm_dtype)v->type.dtype, v->type.rank, v->type.dims, &count, &bytes) || bytes > limit))
            return false;
    }
    return true;
}

void xcc_fold_behind(xcc_graph *g, xcc_node *after, size_t limit)
{
    xcc_evaluator f;
    xcc_node *first = after != NULL ? after->next : g->first;
    if (first == NULL)
        return;
    xcc_evaluator_begin(&f, g->module, true);
    for (xcc_node *n = first, *next; n != NULL; n = next) {
        next = n->next;
        if (n->kind == XCC_INSTRUCTION && is_small(n, limit))
            xcc_evaluate_node(&f, n);
    }
    xcc_evaluator_end(&f);
}
