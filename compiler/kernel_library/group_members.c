/* Members of groups: which nodes can be in a group over a shape, and as what. */
#include "compiler/kernel_library/kernel_library.h"

#include "ops/reduce/reduction.h"

int64_t xcc_rows(const xcvm_value *shape, int split)
{
    int64_t count = 1;
    for (int i = 0; i < split; i++)
        count *= shape->dims[i];
    return count;
}

int64_t xcc_row_length(const xcvm_value *shape, int split)
{
    int64_t count = 1;
    for (int i = split; i < shape->rank; i++)
        count *= shape->dims[i];
    return count;
}

static bool is_f32(const xcc_value *v)
{
    return v != NULL && v->type.kind == XCVM_KIND_TENSOR && v->type.dtype == XCVM_F32 && v->type.rank >= 0 &&
           xcvm_dims_known(&v->type);
}

xcc_form xcc_form_of(const xcvm_value *v, const xcvm_value *shape)
{
    return xcvm_same_shape(v, shape) ? XCC_FORM_FULL : v->rank == shape->rank ? XCC_FORM_ROW : XCC_FORM_DROPPED;
}

/* Returns true if v has one element per row, in the form that its rank implies. */
static bool is_row(const xcvm_value *v, const xcvm_value *shape, int split)
{
    if (v->rank != shape->rank && v->rank != split)
        return false;
    for (int i = 0; i < v->rank; i++)
        if (v->dims[i] != (i < split ? shape->dims[i] : 1))
            return false;
    return true;
}

/* ---- What reduces ---- */

/* The axes of a reduction of x, if they are the last ones. */
static int split_of_reduction(const xcc_node *n)
{
    /* All reductions have the fields of ReduceSum. */
    const xcvm_ReduceSum_args *a = n->args;
    xcvm_error error;
    uint32_t mask;
    bool known;
    if (xcvm_reduction_axes(&error, a->axes, a->noop_with_empty_axes != 0, a->x->rank, &mask, &known) != XCVM_OK ||
        !known || mask == 0)
        return -1;
    int split = __builtin_ctz(mask);
    return mask >> split == (UINT32_C(1) << (a->x->rank - split)) - 1 ? split : -1;
}

static int split_of_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* Nodes that reduce their first operand's last axes; false for others. */
static bool find_reduction(const xcc_node *n, xcc_member *member)
{
    const xcc_value *x = xcc_node_input_count(n) > 0 ? xcc_node_input(n, 0) : NULL;
    if (!is_f32(x))
        return false;
    switch (n->schema->opcode) {
    case XCVM_OP_ReduceSum:
    case XCVM_OP_ReduceMean:
    case XCVM_OP_ReduceMax:
    case XCVM_OP_ReduceMin:
    case XCVM_OP_ReduceL1:
    case XCVM_OP_ReduceL2:
    case XCVM_OP_ReduceSumSquare:
        member->kind = XCC_MEMBER_REDUCE;
        member->split = split_of_reduction(n);
        member->operand_count = 1;
        break;
    case XCVM_OP_Softmax:
    case XCVM_OP_LogSoftmax:
        member->kind = xcc_is(n, XCVM_OP_Softmax) ? XCC_MEMBER_SOFTMAX : XCC_MEMBER_LOG_SOFTMAX;
        /* Both have the fields of Softmax. */
        member->split = split_of_axis(XCC_ARGS(Softmax, n)->axis, x->type.rank);
        if (member->split != x->type.rank - 1)
            return false;
        member->operand_count = 1;
        break;
    case XCVM_OP_LayerNormalization:
        if (XCC_ARGS(LayerNormalization, n)->mean != NULL || XCC_ARGS(LayerNormalization, n)->inv_std_dev != NULL)
            return false;
        member->kind = XCC_MEMBER_LAYER_NORM;
        member->split = split_of_axis(XCC_ARGS(LayerNormalization, n)->axis, x->type.rank);
        member->operand_count = 3;
        break;
    case XCVM_OP_RMSNormalization:
        member->kind = XCC_MEMBER_RMS_NORM;
        member->split = split_of_axis(XCC_ARGS(RMSNormalization, n)->axis, x->type.rank);
        member->operand_count = 2;
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < member->operand_count; i++) {
        member->operands[i] = xcc_node_input(n, i);
        if (i > 0 && member->operands[i] != NULL && !is_f32(member->operands[i]))
            return false;
    }
    return member->split >= 0 && xcc_reduce_pays(&x->type, member->split);
}

/* ---- Everything ---- */

/* The last axis stays the last, so rows stay contiguous. */
static bool is_quick_move(const xcc_node *n)
{
    const xcvm_Transpose_args *a = XCC_ARGS(Transpose, n);
    enum { SHORTEST = 8 };
    size_t rank = a->perm.count;
    return rank > 0 && a->perm.at[rank - 1] == (int64_t)rank - 1 && a->y->dims[rank - 1] >= SHORTEST;
}

static bool find_copy(const xcc_node *n, xcc_member *member)
{
    if (xcvm_schema_has_class(n->schema, XCVM_CLASS_view) || xcc_is(n, XCVM_OP_Expand))
        member->kind = XCC_MEMBER_COPY;
    else if (xcc_is(n, XCVM_OP_Transpose) && is_quick_move(n))
        member->kind = XCC_MEMBER_MOVE;
    else
        return false;
    member->operands[0] = xcc_node_input(n, 0);
    member->operand_count = 1;
    return is_f32(member->operands[0]);
}

bool xcc_member_classify(const xcc_node *n, xcc_member *member)
{
    *member = (xcc_member){.split = -1};
    if (n->kind != XCC_INSTRUCTION || xcc_node_output_count(n) == 0 || !is_f32(xcc_node_output(n, 0)))
        return false;
    for (size_t i = 1; i < xcc_node_output_count(n); i++)
        if (xcc_node_output(n, i) != NULL)
            return false;
    if (xcc_map_of(n, &member->map)) {
        member->kind = XCC_MEMBER_MAP;
        for (size_t i = 0; i < 2 && member->map.operands[i] != NULL; i++)
            member->operands[member->operand_count++] = member->map.operands[i];
        return true;
    }
    return find_copy(n, member) || find_reduction(n, member);
}

/* Returns true if the elements of a row of `v`, broadcast to the first `rank` axes of `shape`, are contiguous or equal,
 * so that one loop visits them. */
static bool is_plain_in_row(const xcvm_value *v, const xcvm_value *shape, int rank, int split)
{
    bool any = false, all = true;
    for (int axis = split; axis < rank; axis++) {
        int own = axis - (rank - v->rank);
        bool varies = own >= 0 && v->dims[own] != 1;
        any = any || varies;
        all = all && (varies || shape->dims[axis] == 1);
    }
    return !any || all;
}

/* Returns true if a Transpose does not move the axes of a row. */
static bool keeps_rows(const xcc_node *n, int split)
{
    const xcvm_ints perm = XCC_ARGS(Transpose, n)->perm;
    for (size_t i = (size_t)split; i < perm.count; i++)
        if (perm.at[i] != (int64_t)i)
            return false;
    return true;
}

static bool operand_fits(const xcc_node *n, const xcc_member *member, const xcc_value *v, const xcvm_value *shape,
                         int split)
{
    bool inside = v->graph == n->graph && v->producer != NULL && v->producer->mark == XCC_MARK_GROUPED;
    if (!inside) {
        if (member->kind == XCC_MEMBER_COPY && member->form != XCC_FORM_FULL)
            return false;
        if (member->kind == XCC_MEMBER_COPY && !xcc_is(n, XCVM_OP_Expand) && !xcc_is(n, XCVM_OP_Identity))
            return false;
        if (split < 0 || xcc_is_literal(v))
            return true;
        if (member->kind == XCC_MEMBER_MOVE)
            return keeps_rows(n, split);
        return is_plain_in_row(&v->type, shape, member->form == XCC_FORM_DROPPED ? split : shape->rank, split);
    }
    if (member->kind == XCC_MEMBER_MOVE)
        return false;
    xcc_form form = xcc_form_of(&v->type, shape);
    /* One element per row in another shape, in the same order. */
    if (member->kind == XCC_MEMBER_COPY && !xcc_is(n, XCVM_OP_Expand))
        return (form == XCC_FORM_FULL) == (member->form == XCC_FORM_FULL) &&
               (form != XCC_FORM_FULL || xcvm_same_shape(&v->type, &xcc_node_output(n, 0)->type));
    return form == member->form || (member->form == XCC_FORM_FULL && form == XCC_FORM_ROW);
}

bool xcc_member_of(const xcc_node *n, const xcvm_value *shape, int split, xcc_member *member)
{
    if (n->group != NULL || !xcc_member_classify(n, member))
        return false;
    const xcvm_value *result = &xcc_node_output(n, 0)->type;
    if (member->split >= 0) {
        if ((split >= 0 && member->split != split) || !xcvm_same_shape(&member->operands[0]->type, shape))
            return false;
        split = member->split;
    }
    if (!xcvm_same_shape(result, shape) && (split < 0 || !is_row(result, shape, split)))
        return false;
    member->form = xcc_form_of(result, shape);
    if (member->kind == XCC_MEMBER_MOVE && member->form != XCC_FORM_FULL)
        return false;
    for (size_t i = 0; i < member->operand_count; i++) {
        const xcc_value *v = member->operands[i];
        /* A reduction reads its whole operand, whatever the form of its result. */
        xcc_member reader = *member;
        reader.form = member->split >= 0 ? XCC_FORM_FULL : member->form;
        if (v != NULL && !operand_fits(n, &reader, v, shape, split))
            return false;
    }
    return true;
}

const xcvm_value *xcc_member_domain(const xcc_node *n, int *split)
{
    xcc_member member;
    if (n->group != NULL || !xcc_member_classify(n, &member))
        return NULL;
    *split = member.split;
    const xcvm_value *shape = member.split >= 0 ? &member.operands[0]->type : &xcc_node_output(n, 0)->type;
    return xcvm_element_count(shape) != 0 && xcc_member_of(n, shape, *split, &member) ? shape : NULL;
}
