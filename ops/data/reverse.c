/* ReverseSequence. */
#include "ops/util/index.h"
#include "ops/util/move.h"

static xcvm_status reverse(const xcvm_moving *m, const void *context)
{
    const xcvm_ReverseSequence_args *a = context;
    const xcvm_value *x = a->x;
    size_t run = m->size, strides[2];
    for (int i = 2; i < x->rank; i++)
        run *= (size_t)x->dims[i];
    strides[1] = run;
    strides[0] = run * (size_t)x->dims[1];
    size_t batches = (size_t)x->dims[a->batch_axis], steps = (size_t)x->dims[a->time_axis];
    xcvm_poller poller = xcvm_poller_of(m->k);
    for (size_t b = 0; b < batches && run != 0; b++) {
        size_t length = (size_t)XCVM_CDATA(int64_t, a->sequence_lens)[b];
        for (size_t s = 0; s < steps; s++) {
            size_t from = s < length ? length - 1 - s : s;
            XCVM_TRY(xcvm_poll_after(&poller, 1 + run / XCVM_STEP_BYTES));
            XCVM_TRY(xcvm_kernel_copy(
                m->k, (char *)m->to[0] + b * strides[a->batch_axis] + s * strides[a->time_axis],
                (const char *)m->from[0] + b * strides[a->batch_axis] + from * strides[a->time_axis], run));
        }
    }
    return XCVM_OK;
}

XCVM_KERNEL(ReverseSequence)
{
    const xcvm_value *x = a->x, *lens = a->sequence_lens;
    XCVM_CHECK(k->error, x->rank >= 2, SHAPE_MISMATCH, "x has the wrong rank (%d; expected at least 2)", x->rank);
    XCVM_CHECK(k->error, a->batch_axis != a->time_axis, INVALID_ARGUMENT, "batch_axis and time_axis are the same");
    XCVM_CHECK(k->error, lens->rank == 1 && lens->dims[0] == x->dims[a->batch_axis], SHAPE_MISMATCH,
               "sequence_lens must have one element for each of the %lld batch entries",
               (long long)x->dims[a->batch_axis]);
    for (int64_t i = 0; i < lens->dims[0]; i++) {
        int64_t length = XCVM_CDATA(int64_t, lens)[i];
        XCVM_CHECK(k->error, length >= 0 && length <= x->dims[a->time_axis], OUT_OF_RANGE,
                   "element %lld of sequence_lens is %lld, there are %lld steps", (long long)i, (long long)length,
                   (long long)x->dims[a->time_axis]);
    }
    return xcvm_move_one(k, x, a->y, reverse, a);
}
