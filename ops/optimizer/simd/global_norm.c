/* GlobalNorm. Squares are summed in f64, so that they do not overflow unless the norm does; by blocks, whose sums are
 * added in order, so that results do not depend on the number of threads. */
#include "ops/optimizer/simd/blocks.h"
#include "ops/simd/halves.h"
#include "ops/simd/math.h"

enum { BLOCK = 4096, CHAINS = 32, BLOCKS_A_RANGE = 4 };

typedef struct norm {
    xcvm_inputs xs, summands;
    double *sums; /* one per block */
} norm;

static double sum_f64(const double *x, const double *summands, size_t count)
{
    double chains[CHAINS] = {0.0}, sum = 0.0;
    for (size_t i = 0; i < count; i += CHAINS) {
        const size_t n = count - i < CHAINS ? count - i : CHAINS;
        for (size_t j = 0; j < n; j++) {
            const double v = x[i + j] + (summands != NULL ? summands[i + j] : 0.0);
            chains[j] += v * v;
        }
    }
    for (size_t j = 0; j < CHAINS; j++)
        sum += chains[j];
    return sum;
}

static double sum_f32(const float *x, const float *summands, size_t count)
{
    double chains[CHAINS] = {0.0}, sum = 0.0;
    size_t i = 0;
    if (summands == NULL)
        for (; i + CHAINS <= count; i += CHAINS)
            for (size_t j = 0; j < CHAINS; j++)
                chains[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < count; i += CHAINS) {
        const size_t n = count - i < CHAINS ? count - i : CHAINS;
        for (size_t j = 0; j < n; j++) {
            const float v = x[i + j] + (summands != NULL ? summands[i + j] : 0.0f);
            chains[j] += (double)v * (double)v;
        }
    }
    for (size_t j = 0; j < CHAINS; j++)
        sum += chains[j];
    return sum;
}

static double sum_of(const norm *t, size_t i, size_t first, size_t count)
{
    float block[BLOCK];
    const xcvm_value *x = t->xs.at[i];
    const void *summands = t->summands.count > 0 ? t->summands.at[i]->data : NULL;
    if (x->dtype == XCVM_F64)
        return sum_f64((const double *)x->data + first, summands != NULL ? (const double *)summands + first : NULL,
                       count);
    const float *added = summands != NULL ? (const float *)summands + first : NULL;
    if (x->dtype == XCVM_F32)
        return sum_f32((const float *)x->data + first, added, count);
    xcvm_halves_load(x->dtype, x->data, first, count, block);
    return sum_f32(block, added, count);
}

static void sum_block(void *context, size_t i, size_t first, size_t count, size_t block)
{
    const norm *t = context;
    t->sums[block] = sum_of(t, i, first, count);
}

static void sum_range(void *context, size_t begin, size_t end, int worker)
{
    (void)worker;
    for_blocks(&((const norm *)context)->xs, BLOCK, begin, end, sum_block, context);
}

XCVM_KERNEL(GlobalNorm)
{
    norm t = {.xs = a->xs, .summands = a->summands};
    const size_t blocks = block_count_of_all(&a->xs, BLOCK);
    size_t at = 0;
    if (blocks > 0 && (t.sums = xcvm_kernel_scratch(k, blocks * sizeof *t.sums)) == NULL)
        return XCVM_OUT_OF_MEMORY;
    XCVM_TRY(xcvm_kernel_parallel(k, blocks, BLOCKS_A_RANGE, sum_range, &t));
    double all = 0.0;
    for (size_t i = 0; i < a->xs.count; i++) {
        double sum = 0.0;
        for (size_t end = at + block_count(a->xs.at[i], BLOCK); at < end; at++)
            sum += t.sums[at];
        if (a->each != 0)
            XCVM_DATA(float, a->y)[i] = (float)sqrt(sum);
        all += sum;
    }
    if (a->each == 0)
        *XCVM_DATA(float, a->y) = (float)sqrt(all);
    return XCVM_OK;
}
