/* Batching rules: how like ops become one op on stacked operands. Operands are reshaped so that each member's part
 * is one block of the result, in the order of members. */
#include "ops/table/table.h"
#include "ops/util/shape.h"
#include "proto/arguments.h"
#include "tape/batch/batch.h"

#include <string.h>

static const xcvm_value *type_of(const tape_batch_plan *p, uint32_t operand)
{
    return &p->like->in[operand]->value.type;
}

static int rank_of(const tape_batch_plan *p) { return p->like->out[0]->value.type.rank; }

/* ---- Operands ---- */

static tape_batch_operand_plan *add_operand(tape_batch_plan *p, uint32_t operand)
{
    tape_batch_operand_plan *operand_plan = &p->in[p->in_count++];
    *operand_plan = (tape_batch_operand_plan){.of = (int32_t)operand};
    return operand_plan;
}

static bool share_operand(tape_batch_plan *p, uint32_t operand)
{
    add_operand(p, operand)->shared = true;
    return true;
}

/* Stacks members along a new first axis. Axes of size 1 before their own give them `rank` axes. */
static bool stack_operand(tape_batch_plan *p, uint32_t operand, int rank)
{
    const xcvm_value *type = type_of(p, operand);
    if (rank + 1 > XCVM_MAX_RANK || type->rank > rank)
        return false;
    tape_batch_operand_plan *operand_plan = add_operand(p, operand);
    operand_plan->rank = rank + 1;
    operand_plan->dims[0] = p->count;
    for (int i = 0; i < rank - type->rank; i++)
        operand_plan->dims[1 + i] = 1;
    for (int i = 0; i < type->rank; i++)
        operand_plan->dims[1 + rank - type->rank + i] = type->dims[i];
    return true;
}

/* Concatenates members along their first axis. */
static bool join_operand(tape_batch_plan *p, uint32_t operand)
{
    const xcvm_value *type = type_of(p, operand);
    if (type->rank < 1)
        return false;
    tape_batch_operand_plan *operand_plan = add_operand(p, operand);
    operand_plan->rank = type->rank;
    memcpy(operand_plan->dims, type->dims, sizeof operand_plan->dims);
    operand_plan->dims[0] *= p->count;
    return true;
}

/* Flattens all axes but the last into rows. */
static bool flatten_operand(tape_batch_plan *p, uint32_t operand, int64_t columns)
{
    tape_batch_operand_plan *operand_plan = add_operand(p, operand);
    operand_plan->rank = 2;
    operand_plan->dims[0] = (int64_t)xcvm_element_count(type_of(p, operand)) / columns * p->count;
    operand_plan->dims[1] = columns;
    return true;
}

static bool share_operands_from(tape_batch_plan *p, uint32_t operand)
{
    for (; operand < p->like->in_count; operand++)
        share_operand(p, operand);
    return true;
}

/* Adds a list of ints as an operand. */
static bool add_ints(tape_batch_plan *p, int64_t count, const int64_t *ints)
{
    tape_variable *v = tape_tensor(p->tape, XCVM_I64, 1, &count, ints);
    if (v == NULL)
        return false;
    v->refs++;
    tape_variable_unname(v);
    tape_batch_operand_plan *operand_plan = &p->in[p->in_count++];
    *operand_plan = (tape_batch_operand_plan){.of = -1, .constant = v};
    return true;
}

/* The stacked operand has one more axis in front. */
static void move_axis(int64_t *axis)
{
    if (*axis >= 0)
        ++*axis;
}

/* ---- Element-wise ---- */

static bool plan_unary(tape_batch_plan *p) { return stack_operand(p, 0, rank_of(p)) && share_operands_from(p, 1); }

static bool plan_broadcast(tape_batch_plan *p)
{
    bool any = false;
    for (uint32_t i = 0; i < p->like->in_count; i++) {
        any = any || !p->same[i];
        if (!(p->same[i] ? share_operand(p, i) : stack_operand(p, i, rank_of(p))))
            return false;
    }
    return any;
}

/* ---- Products ---- */

/* Left product by a shared matrix: the product is transposed, so that the columns become rows. */
static bool plan_transposed(tape_batch_plan *p)
{
    const xcvm_schema *gemm = xcvm_schema_of(XCVM_OP_Gemm);
    xcvm_Gemm_args *args = p->args;
    p->schema = gemm;
    memset(args, 0, gemm->args_size);
    xcvm_args_default(gemm, args);
    args->transB = 1;
    flatten_operand(p, 1, type_of(p, 0)->dims[1]);
    share_operand(p, 0);
    *add_operand(p, 0) = (tape_batch_operand_plan){.of = -1};
    return true;
}

static bool plan_matmul(tape_batch_plan *p)
{
    const xcvm_value *a = type_of(p, 0), *b = type_of(p, 1);
    if (p->same[0] && p->same[1])
        return false;
    if (p->same[1] && b->rank == 2)
        return flatten_operand(p, 0, b->dims[0]) && share_operand(p, 1);
    if (p->same[0] && a->rank == 2 && (b->rank == 1 || (b->rank == 2 && b->dims[1] == 1)))
        return plan_transposed(p);
    if (a->rank < 2 || b->rank < 2)
        return false;
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    return (p->same[0] ? share_operand(p, 0) : stack_operand(p, 0, rank)) &&
           (p->same[1] ? share_operand(p, 1) : stack_operand(p, 1, rank));
}

/* Members' operands become rows. */
static bool plan_gemm(tape_batch_plan *p)
{
    const xcvm_Gemm_args *args = p->args;
    const xcvm_value *y = &p->like->out[0]->value.type;
    const bool has_c = p->like->in[2] != NULL;
    if (args->transA != 0 || p->same[0] || y->rank != 2)
        return false;
    flatten_operand(p, 0, type_of(p, 0)->dims[type_of(p, 0)->rank - 1]);
    share_operand(p, 1);
    if (!has_c || (p->same[2] && (type_of(p, 2)->rank < 2 || type_of(p, 2)->dims[0] == 1)))
        return share_operand(p, 2);
    return !p->same[2] && xcvm_same_shape(type_of(p, 2), y) && flatten_operand(p, 2, y->dims[1]);
}

/* The first axis is a batch axis already. */
static bool plan_joined(tape_batch_plan *p)
{
    for (uint32_t i = 1; i < p->like->out_count; i++)
        if (p->like->out[i] != NULL)
            return false;
    return join_operand(p, 0) && share_operands_from(p, 1);
}

/* ---- Data movement ---- */

static bool plan_gather(tape_batch_plan *p)
{
    xcvm_Gather_args *args = p->args;
    const xcvm_value *x = type_of(p, 0), *indices = type_of(p, 1);
    if (p->same[0] && p->same[1])
        return false;
    if (p->same[0])
        return (args->axis == 0 || args->axis == -x->rank) && share_operand(p, 0) && stack_operand(p, 1, indices->rank);
    move_axis(&args->axis);
    return p->same[1] && stack_operand(p, 0, x->rank) && share_operand(p, 1);
}

static bool plan_concat(tape_batch_plan *p)
{
    xcvm_Concat_args *args = p->args;
    move_axis(&args->axis);
    for (uint32_t i = 0; i < p->like->in_count; i++)
        if (!stack_operand(p, i, rank_of(p)))
            return false;
    return true;
}

static bool plan_split(tape_batch_plan *p)
{
    xcvm_Split_args *args = p->args;
    move_axis(&args->axis);
    return stack_operand(p, 0, rank_of(p)) && share_operand(p, 1);
}

/* Any view of the same element order is a Reshape. */
static bool plan_view(tape_batch_plan *p)
{
    const xcvm_schema *reshape = xcvm_schema_of(XCVM_OP_Reshape);
    xcvm_Reshape_args *args = p->args;
    const int rank = rank_of(p);
    int64_t dims[XCVM_MAX_RANK + 1] = {p->count};
    if (rank + 1 > XCVM_MAX_RANK || p->like->in[0]->value.type.bytes != p->like->out[0]->value.type.bytes)
        return false;
    memcpy(dims + 1, p->like->out[0]->value.type.dims, (size_t)rank * sizeof *dims);
    p->schema = reshape;
    memset(args, 0, reshape->args_size);
    xcvm_args_default(reshape, args);
    return stack_operand(p, 0, type_of(p, 0)->rank) && add_ints(p, rank + 1, dims);
}

static bool plan_transpose(tape_batch_plan *p)
{
    xcvm_Transpose_args *args = p->args;
    const int rank = rank_of(p);
    if (rank + 1 > XCVM_MAX_RANK)
        return false;
    p->ints[0] = 0;
    for (int i = 0; i < rank; i++)
        p->ints[1 + i] = 1 + (args->perm.count > 0 ? args->perm.at[i] : rank - 1 - i);
    args->perm.count = (size_t)rank + 1;
    p->list = &args->perm;
    return stack_operand(p, 0, rank);
}

static bool plan_expand(tape_batch_plan *p)
{
    const int rank = rank_of(p);
    int64_t dims[XCVM_MAX_RANK + 1] = {p->count};
    memcpy(dims + 1, p->like->out[0]->value.type.dims, (size_t)rank * sizeof *dims);
    return stack_operand(p, 0, rank) && add_ints(p, rank + 1, dims);
}

/* Adds an axes operand, shifted by one. An absent or empty one means all axes, or the first `count`. */
static bool add_axes(tape_batch_plan *p, uint32_t operand, int64_t count)
{
    const xcvm_value *axes_operand = p->like->in[operand] != NULL ? type_of(p, operand) : NULL;
    const size_t axes = axes_operand != NULL ? xcvm_element_count(axes_operand) : 0;
    int64_t moved[XCVM_MAX_RANK];
    if (axes > XCVM_MAX_RANK || count > XCVM_MAX_RANK)
        return false;
    for (int64_t i = 0; i < count; i++)
        moved[i] = i + 1;
    for (size_t i = 0; i < axes; i++) {
        moved[i] = xcvm_element_as_int(axes_operand, i);
        move_axis(&moved[i]);
    }
    return add_ints(p, axes > 0 ? (int64_t)axes : count, moved);
}

static bool plan_slice(tape_batch_plan *p)
{
    return stack_operand(p, 0, rank_of(p)) && share_operand(p, 1) && share_operand(p, 2) &&
           add_axes(p, 3, (int64_t)xcvm_element_count(type_of(p, 1))) && share_operand(p, 4);
}

/* Each row has the gates of one unit's batch entry: x first, then the states. */
static bool plan_lstm_cell(tape_batch_plan *p)
{
    const xcvm_value *x = type_of(p, 0), *h = &p->like->out[0]->value.type;
    if (x->dims[x->rank - 1] == 0)
        return false;
    for (uint32_t i = 0; i < p->like->in_count; i++)
        flatten_operand(p, i, i == 0 ? x->dims[x->rank - 1] : h->dims[h->rank - 1]);
    return true;
}

/* Without axes there is nothing to reduce. */

static bool plan_reduction(tape_batch_plan *p)
{
    const xcvm_ReduceSum_args *args = p->args;
    const xcvm_value *x = type_of(p, 0);
    /* Over no axes: nothing to reduce. */
    if (x->rank == 0 || args->noop_with_empty_axes != 0)
        return false;
    return stack_operand(p, 0, x->rank) && add_axes(p, 1, x->rank);
}

static bool plan_softmax(tape_batch_plan *p)
{
    xcvm_Softmax_args *args = p->args;
    if (rank_of(p) == 0)
        return false;
    move_axis(&args->axis);
    return stack_operand(p, 0, rank_of(p));
}

static bool plan_layer_norm(tape_batch_plan *p)
{
    xcvm_LayerNormalization_args *args = p->args;
    move_axis(&args->axis);
    return stack_operand(p, 0, rank_of(p)) && share_operands_from(p, 1);
}

/* Losses of one row each become the losses of a matrix without reduction. */
static bool plan_loss(tape_batch_plan *p)
{
    xcvm_NegativeLogLikelihoodLoss_args *args = p->args;
    const xcvm_value *x = type_of(p, 0);
    if (x->rank != 2 || x->dims[0] != 1 || p->like->in[2] != NULL || args->ignore_index != INT64_MIN)
        return false;
    args->reduction = XCVM_LOSS_REDUCTION_none;
    return join_operand(p, 0) && join_operand(p, 1) && share_operand(p, 2);
}

/* ---- Table ---- */

const tape_batching_rule *tape_batching_rule_of(const xcvm_schema *schema)
{
    enum { NOT_FIRST = ~1 };
    static const tape_batching_rule unary = {plan_unary, (uint32_t)NOT_FIRST}, broadcast = {plan_broadcast, 0},
                                    matmul = {plan_matmul, 0}, gemm = {plan_gemm, 2},
                                    joined = {plan_joined, (uint32_t)NOT_FIRST}, gather = {plan_gather, 0},
                                    concat = {plan_concat, 0}, split = {plan_split, 2}, view = {plan_view, 0},
                                    transpose = {plan_transpose, 0}, expand = {plan_expand, 0},
                                    slice = {plan_slice, (uint32_t)NOT_FIRST}, reduction = {plan_reduction, 2},
                                    softmax = {plan_softmax, 0}, norm = {plan_layer_norm, (uint32_t)NOT_FIRST},
                                    loss = {plan_loss, 4}, lstm_cell = {plan_lstm_cell, 0};
    switch (schema->opcode) {
    case XCVM_OP_Where:
        return &broadcast;
    case XCVM_OP_Cast:
        return &unary;
    case XCVM_OP_MatMul:
        return &matmul;
    case XCVM_OP_Gemm:
        return &gemm;
    case XCVM_OP_Conv:
    case XCVM_OP_MaxPool:
    case XCVM_OP_AveragePool:
        return &joined;
    case XCVM_OP_Gather:
        return &gather;
    case XCVM_OP_Concat:
        return &concat;
    case XCVM_OP_Split:
        return &split;
    case XCVM_OP_Transpose:
        return &transpose;
    case XCVM_OP_Expand:
        return &expand;
    case XCVM_OP_Slice:
        return &slice;
    case XCVM_OP_Softmax:
    case XCVM_OP_LogSoftmax:
        return &softmax;
    case XCVM_OP_LayerNormalization:
        return &norm;
    case XCVM_OP_NegativeLogLikelihoodLoss:
        return &loss;
    case XCVM_OP_LSTMCell:
        return &lstm_cell;
    default:
        return xcvm_schema_has_class(schema, XCVM_CLASS_unary)       ? &unary
               : xcvm_schema_has_class(schema, XCVM_CLASS_binary)    ? &broadcast
               : xcvm_schema_has_class(schema, XCVM_CLASS_view)      ? &view
               : xcvm_schema_has_class(schema, XCVM_CLASS_reduction) ? &reduction
                                                                     : NULL;
    }
}
