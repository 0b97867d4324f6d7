/* PackedGemm. */
#include "ops/matmul/packed.h"
#include "ops/matmul/simd/gemm.h"

XCVM_KERNEL(PackedGemm)
{
    const xcvm_value *x = a->a;
    const size_t depth = (size_t)x->dims[x->rank - 1], columns = (size_t)a->columns;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const xcvm_gemm_batch batch = {.count = 1,
                                   .shape = {.m = xcvm_element_count(a->y) / columns,
                                             .n = columns,
                                             .k = depth,
                                             .a = x->data,
                                             .a_row = depth,
                                             .a_column = 1,
                                             .b = a->w->data,
                                             .b_ahead = true,
                                             .b_dtype = (xcvm_dtype)a->w->dtype,
                                             .c = a->y->data,
                                             .c_row = columns,
                                             .c_column = 1,
                                             .alpha = 1.0f,
                                             .start = a->z != NULL ? a->z->data : NULL,
                                             .column_bias = a->c != NULL ? a->c->data : NULL,
                                             .activation = a->activation != XCVM_ACTIVATION_none ? &f : NULL}};
    void *scratch = NULL;
    if (a->w->dtype != XCVM_F32) {
        scratch = xcvm_kernel_scratch(k, xcvm_gemm_scratch(&batch, xcvm_threads_count(k->threads)));
        if (scratch == NULL)
            return XCVM_OUT_OF_MEMORY;
    }
    return xcvm_gemm_run(k, &batch, scratch);
}
