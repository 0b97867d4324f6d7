/* PackedGemm. */
#include "ops/matmul/packed.h"
#include "ops/matmul/simd/gemm.h"

XCVM_KERNEL(PackedGemm)
{
    const xcvm_value *x = a->a;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    xcvm_gemm g = xcvm_gemm_of_rows(x->data, (size_t)x->dims[x->rank - 1], a->c, a->z, a->y,
                                    a->activation != XCVM_ACTIVATION_none ? &f : NULL);
    g.b = a->w->data;
    g.b_ahead = true;
    g.b_dtype = (xcvm_dtype)a->w->dtype;
    const xcvm_gemm_batch batch = {.shape = g, .count = 1};
    void *scratch = NULL;
    if (a->w->dtype != XCVM_F32) {
        scratch = xcvm_kernel_scratch(k, xcvm_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return xcvm_gemm_run(k, &batch, scratch);
}
