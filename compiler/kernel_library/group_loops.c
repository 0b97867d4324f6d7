/* Loops of a group. Rows are computed one after another. A row is visited once per round of reductions that depend on
 * each other. */
#include "compiler/kernel_library/kernel_library.h"

/* Costing no more than this, an element is computed again for a later loop rather than kept. */
enum { CHEAP = 4 };
/* Bytes of a thread's stack for rows that are kept. */
enum { ROOM = 128 * 1024 };

static int64_t own_stride(const xcvm_value *v, int axis)
{
    int64_t stride = 1;
    for (int i = axis + 1; i < v->rank; i++)
        stride *= v->dims[i];
    return v->dims[axis] == 1 ? 0 : stride;
}

int64_t xcc_read_stride(const xcc_kernel_group *f, size_t x, int axis)
{
    const xcvm_value *v = &f->group.xs[x]->type;
    if (f->reads[x].perm != NULL)
        return own_stride(v, (int)f->reads[x].perm->at[axis]);
    int own = axis - (f->reads[x].rank - v->rank);
    return axis >= f->reads[x].rank || own < 0 ? 0 : own_stride(v, own);
}

/* ---- Axes ---- */

static bool merges(const xcc_loops *l, int64_t size, const int64_t *strides)
{
    for (size_t x = 0; x < l->f->group.x_count; x++)
        if (l->strides[x][l->rank - 1] != strides[x] * size)
            return false;
    return true;
}

static void append_axis(xcc_loops *l, int64_t size, const int64_t *strides, bool merged)
{
    int at = merged ? l->rank - 1 : l->rank++;
    l->dims[at] = merged ? l->dims[at] * size : size;
    for (size_t x = 0; x < l->f->group.x_count; x++)
        l->strides[x][at] = strides[x];
}

/* Axes become one where all operands allow it, but those of a row never with those before. */
static void merge_axes(xcc_loops *l)
{
    const xcc_kernel_group *f = l->f;
    int first = 0; /* of l->dims, that the axis may be merged with */
    for (int axis = 0; axis < f->shape->rank; axis++) {
        int64_t strides[XCVM_FUSED_OPERANDS], size = f->shape->dims[axis];
        if (axis == f->split)
            first = l->rank;
        if (size == 1)
            continue;
        for (size_t x = 0; x < f->group.x_count; x++)
            strides[x] = xcc_read_stride(f, x, axis);
        append_axis(l, size, strides, l->rank > first && merges(l, size, strides));
    }
    if (l->rank == 0)
        append_axis(l, 1, (const int64_t[XCVM_FUSED_OPERANDS]){0}, false);
}

/* ---- Loops ---- */

static bool is_full(const xcc_loops *l, const xcc_reading *r)
{
    return r->source == XCC_SOURCE_STEP && !l->steps[r->index].row;
}

/* Each step as early as it can be. */
static void find_first_loops(xcc_loops *l)
{
    for (size_t i = 0; i < l->step_count; i++) {
        xcc_step *step = &l->steps[i];
        for (size_t j = 0; j < step->operand_count; j++) {
            const xcc_reading *r = &step->operands[j];
            uint32_t loop = r->source == XCC_SOURCE_STEP ? l->steps[r->index].loop : 0;
            step->loop = loop > step->loop ? loop : step->loop;
        }
        /* The result of a reduction is known after its loop. */
        step->loop += step->reduce != XCC_REDUCE_NONE;
        uint32_t last = step->reduce != XCC_REDUCE_NONE ? step->loop - 1 : step->loop;
        if ((!step->row || step->reduce != XCC_REDUCE_NONE) && last >= l->loop_count)
            l->loop_count = last + 1;
    }
    /* A row's element may be broadcast to a result. */
    for (size_t r = 0; r < l->f->result_count; r++) {
        const xcc_node *n = l->f->group.nodes[l->f->results[r]];
        const xcc_reading *reading = &l->readings[l->f->results[r]];
        if (reading->source == XCC_SOURCE_STEP && xcvm_same_shape(&xcc_node_output(n, 0)->type, l->f->shape) &&
            l->steps[reading->index].loop >= l->loop_count)
            l->loop_count = l->steps[reading->index].loop + 1;
    }
}

/* Moves each step that computes whole rows to the latest loop that its readers allow. Values that only the last loop
 * needs are computed there. So the last node's result, which may share memory with an operand, is written after most
 * reads. */
static void find_last_loops(xcc_loops *l)
{
    for (size_t i = 0; i < l->step_count; i++)
        if (!l->steps[i].row)
            l->steps[i].loop = l->loop_count - 1;
    for (size_t i = l->step_count; i-- > 0;) {
        const xcc_step *step = &l->steps[i];
        for (size_t j = 0; j < step->operand_count; j++) {
            const xcc_reading *r = &step->operands[j];
            if (is_full(l, r) && l->steps[r->index].loop > xcc_step_reads_in(step))
                l->steps[r->index].loop = xcc_step_reads_in(step);
        }
    }
}

static uint32_t cost_again(const xcc_loops *l, const uint32_t *costs, size_t i)
{
    uint32_t cost = l->steps[i].cost;
    for (size_t j = 0; j < l->steps[i].operand_count && cost <= CHEAP; j++) {
        const xcc_reading *r = &l->steps[i].operands[j];
        if (is_full(l, r))
            cost += l->steps[r->index].result != XCC_NO_RESULT ? 1 : costs[r->index];
        else if (r->source == XCC_SOURCE_OPERAND && !xcc_reads_row(l, r->index))
            cost++;
    }
    return cost;
}

/* Which rows are kept from the loop that computes them for later ones. */
static void keep_rows(xcc_loops *l, uint32_t *costs)
{
    const uint64_t row = (uint64_t)l->dims[l->rank - 1] * sizeof(float);
    uint64_t room = ROOM;
    for (size_t i = 0; i < l->step_count; i++) {
        costs[i] = cost_again(l, costs, i);
        l->steps[i].needed = l->steps[i].loop;
    }
    for (size_t i = l->step_count; i-- > 0;) {
        xcc_step *step = &l->steps[i];
        if (!step->row && step->needed > step->loop) {
            bool in_result = step->result != XCC_NO_RESULT;
            step->kept = in_result || (costs[i] > CHEAP && row <= room);
            if (step->kept && !in_result)
                room -= row;
        }
        uint32_t last = step->row || step->kept ? xcc_step_reads_in(step) : step->needed;
        for (size_t j = 0; j < step->operand_count; j++)
            if (is_full(l, &step->operands[j]) && l->steps[step->operands[j].index].needed < last)
                l->steps[step->operands[j].index].needed = last;
    }
}

void xcc_loops_want(xcc_loops *l, uint32_t loop)
{
    for (size_t i = 0; i < l->step_count; i++) {
        const xcc_step *step = &l->steps[i];
        l->steps[i].wanted = !step->row && step->loop == loop && (step->kept || step->result != XCC_NO_RESULT);
    }
    for (size_t i = l->step_count; i-- > 0;) {
        const xcc_step *step = &l->steps[i];
        bool reduces = step->reduce != XCC_REDUCE_NONE && xcc_step_reads_in(step) == loop;
        bool loads = step->kept && step->loop < loop;
        if (!reduces && (!step->wanted || loads))
            continue;
        for (size_t j = 0; j < step->operand_count; j++)
            if (is_full(l, &step->operands[j]))
                l->steps[step->operands[j].index].wanted = true;
    }
}

/* ---- Memory ---- */

/* The last loop that reads operand x. */
static uint32_t last_reading(xcc_loops *l, size_t x)
{
    uint32_t last = 0;
    for (uint32_t loop = 0; loop < l->loop_count; loop++) {
        xcc_loops_want(l, loop);
        for (size_t i = 0; i < l->step_count; i++) {
            const xcc_step *step = &l->steps[i];
            bool reduces = step->reduce != XCC_REDUCE_NONE && xcc_step_reads_in(step) == loop;
            bool computes = step->wanted && !(step->kept && step->loop < loop);
            for (size_t j = 0; j < step->operand_count && (reduces || computes); j++)
                if (step->operands[j].source == XCC_SOURCE_OPERAND && step->operands[j].index == x)
                    last = loop;
        }
    }
    /* A copy of an operand is written in the last loop. */
    for (size_t r = 0; r < l->f->result_count; r++) {
        const xcc_reading *reading = &l->readings[l->f->results[r]];
        if (reading->source == XCC_SOURCE_OPERAND && reading->index == x)
            last = l->loop_count - 1;
    }
    return last;
}

/* Returns true if the last result may share the memory of operand x: each element is read only for its own row or
 * element, and not after the result is written there. The VM shares memory only with the last result. */
static bool can_lie_in_place(xcc_loops *l, size_t x)
{
    int64_t stride = 1, rows_stride = 1;
    bool full = true, row = xcc_reads_row(l, x);
    for (int axis = l->rank - 1; axis >= 0; axis--) {
        full = full && l->strides[x][axis] == stride;
        stride *= l->dims[axis];
        if (axis == l->rank - 1)
            continue;
        row = row && l->strides[x][axis] == rows_stride;
        rows_stride *= l->dims[axis];
    }
    const xcc_reading *result = &l->readings[l->f->results[l->f->result_count - 1]];
    uint32_t written = is_full(l, result) ? l->steps[result->index].loop : l->loop_count - 1;
    return row || (full && last_reading(l, x) <= written);
}

xcvm_status xcc_kernel_group_loops(xcc_module *m, xcc_kernel_group *f)
{
    xcc_loops *l = xcc_alloc(m, sizeof *l);
    if (l == NULL)
        return XCVM_OUT_OF_MEMORY;
    *l = (xcc_loops){.f = f, .loop_count = 1};
    merge_axes(l);
    XCVM_TRY(xcc_kernel_group_steps(m, f, l));
    uint32_t *costs = xcc_alloc(m, l->step_count * sizeof *costs);
    if (costs == NULL && l->step_count > 0)
        return XCVM_OUT_OF_MEMORY;
    find_first_loops(l);
    find_last_loops(l);
    keep_rows(l, costs);
    for (size_t x = 0; x < f->group.x_count; x++)
        if (can_lie_in_place(l, x))
            l->in_place |= UINT64_C(1) << x;
    f->loops = l;
    return XCVM_OK;
}
