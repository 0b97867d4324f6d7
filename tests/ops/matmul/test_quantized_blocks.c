/* Products with weights quantized in blocks: against sums in f64 at every edge of lines, blocks and panels, with every
 * instruction set that this CPU has, to the same bits with any number of threads; and the rounding of weights. */
/* Takes long. */
#include "base/isas.h"
#include "ops/util/convert.h"
#include "ops/matmul/simd/quantized_blocks_integers.h"
#include "tests/ops/support.h"

#include <math.h>

static unsigned random_bits(unsigned bits)
{
    (void)random_float();
    return random_state >> 16 & ((1u << bits) - 1);
}

static xcvm_value typed(xcvm_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    xcvm_value v = {.rank = -1};
    xcvm_value_set_tensor(&v, dtype, 3, (const int64_t[]){a, b, c});
    v.memory_kind = XCVM_MEMORY_BORROWED;
    v.data = calloc(1, v.bytes + 1);
    ck_assert_ptr_nonnull(v.data);
    return v;
}

typedef struct product {
    xcvm_qblocks layout;
    xcvm_value w, scales, offsets;
    double *b; /* [k, n], what codes, scales and offsets say */
} product;

static void make(product *p, size_t k, size_t n, size_t block, unsigned bits, xcvm_dtype scale, xcvm_dtype offset)
{
    *p = (product){.layout = {.k = k, .n = n, .block = block, .bits = bits}};
    const int64_t panels = (int64_t)xcvm_qblocks_panels(&p->layout), blocks = (int64_t)xcvm_qblocks_count(&p->layout);
    p->w = typed(XCVM_U8, panels, (int64_t)xcvm_qblocks_lines(&p->layout), XCVM_QBLOCKS_LINE);
    ck_assert_uint_eq(p->w.bytes, xcvm_qblocks_bytes(&p->layout));
    p->scales = typed(scale, panels, blocks, XCVM_PACKED_COLUMNS);
    p->offsets = typed(offset == XCVM_NO_DTYPE ? XCVM_U8 : offset, panels, blocks, XCVM_PACKED_COLUMNS);
    p->b = calloc(k * n, sizeof *p->b);
    ck_assert_ptr_nonnull(p->b);
    xcvm_qblocks_clear(&p->layout, p->w.data);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < k; i++) {
            const size_t at = xcvm_qblocks_scale_at(&p->layout, i, j);
            if (i % block == 0) {
                const float s = random_float();
                xcvm_store_f32(scale, p->scales.data, at, 1, &s);
                if (offset == XCVM_U8)
                    XCVM_DATA(uint8_t, &p->offsets)[at] = (uint8_t)random_bits(bits);
                else if (offset == XCVM_F32)
                    XCVM_DATA(float, &p->offsets)[at] = random_float() * 7.0f;
            }
            const unsigned code = random_bits(bits);
            xcvm_qblocks_set(&p->layout, i, j, code, p->w.data);
            float s;
            xcvm_load_f32(scale, p->scales.data, at, 1, &s);
            const double o = offset == XCVM_U8    ? (double)XCVM_DATA(uint8_t, &p->offsets)[at]
                             : offset == XCVM_F32 ? (double)XCVM_DATA(float, &p->offsets)[at]
                                                  : (double)(1 << (bits - 1));
            p->b[i * n + j] = ((double)code - o) * (double)s;
        }
}

static void release(product *p)
{
    free(p->w.data);
    free(p->scales.data);
    free(p->offsets.data);
    free(p->b);
}

/* `integers`: rounded to 8 bits, each element is off by up to half a 127th of its block's greatest, which is at most 1.
 */
static void check(int64_t m, size_t n, size_t k, size_t block, unsigned bits, xcvm_dtype scale, xcvm_dtype offset,
                  bool integers)
{
    product p;
    const bool extras = (m + (int64_t)(n + k)) % 2 == 0;
    make(&p, k, n, block, bits, scale, offset);
    xcvm_value a = TENSOR(m, (int64_t)k), c = TENSOR((int64_t)n), z = TENSOR(m, (int64_t)n), y = TENSOR(m, (int64_t)n);
    xcvm_value again = TENSOR(m, (int64_t)n);
    xcvm_BlockQuantizedGemm_args args = {.a = &a,
                                         .w = &p.w,
                                         .scales = &p.scales,
                                         .offsets = offset != XCVM_NO_DTYPE ? &p.offsets : NULL,
                                         .columns = (int64_t)n,
                                         .depth = (int64_t)k,
                                         .bits = bits,
                                         .block_size = (int64_t)block,
                                         .activations =
                                             integers ? XCVM_BLOCK_ACTIVATIONS_int8 : XCVM_BLOCK_ACTIVATIONS_f32,
                                         .activation = XCVM_ACTIVATION_none};
    if (extras) {
        args.c = &c;
        args.z = &z;
        args.activation = XCVM_ACTIVATION_Relu;
    }
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_BlockQuantizedGemm, v);
        if (kernel == NULL)
            continue;
        args.y = &y;
        run_on_threads(kernel, &args, 1);
        for (int64_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0, size = 1, rounding = 0;
                for (size_t q = 0; q < k; q++) {
                    const double x = (double)XCVM_DATA(float, &a)[i * (int64_t)k + (int64_t)q];
                    const double w = p.b[q * n + j];
                    float s;
                    xcvm_load_f32(scale, p.scales.data, xcvm_qblocks_scale_at(&p.layout, q, j), 1, &s);
                    sum += x * w;
                    /* Codes of 4 bits are multiplied as they are, less their offset afterwards. */
                    size += fabs(x) * (fabs(w) + (bits == 4 ? 15.0 : 255.0) * fabs((double)s));
                    rounding += fabs(w) / 250;
                }
                if (extras) {
                    sum += (double)XCVM_DATA(float, &c)[j] + (double)XCVM_DATA(float, &z)[(size_t)i * n + j];
                    sum = sum > 0 ? sum : 0;
                }
                const double got = (double)XCVM_DATA(float, &y)[(size_t)i * n + j];
                if (!(fabs(got - sum) <= 3e-7 * size + (integers ? rounding : 0)))
                    ck_abort_msg("variant %zu, q%u, blocks of %zu, %dx%zux%zu at %d, %zu: %g, expected %g", v, bits,
                                 block, (int)m, n, k, (int)i, j, got, sum);
            }
        args.y = &again;
        run_on_threads(kernel, &args, 3);
        ck_assert_mem_eq(again.data, y.data, y.bytes);
    }
    xcvm_value *const all[] = {&a, &c, &z, &y, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    release(&p);
}

static const struct {
    unsigned bits;
    xcvm_dtype scale, offset;
} forms[] = {{4, XCVM_F16, XCVM_NO_DTYPE}, {4, XCVM_F16, XCVM_U8},  {8, XCVM_F16, XCVM_NO_DTYPE},
             {8, XCVM_F32, XCVM_U8},       {4, XCVM_F32, XCVM_F32}, {8, XCVM_BF16, XCVM_F32},
             {4, XCVM_BF16, XCVM_NO_DTYPE}};

START_TEST(products)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 16, 17, 30};
    static const size_t widths[] = {1, 15, 16, 17, 33, 49, 70}, depths[] = {1, 15, 16, 31, 32, 33, 80},
                        blocks[] = {16, 32, 48};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (size_t j = 0; j < sizeof depths / sizeof *depths; j++) {
                if (!test_takes(r + i + j))
                    continue;
                const size_t block = blocks[(r + i + j) % 3];
                check(rows[r], widths[i], depths[j], block, forms[_i].bits, forms[_i].scale, forms[_i].offset, false);
                check(rows[r], widths[i], depths[j], block, forms[_i].bits, forms[_i].scale, forms[_i].offset, true);
            }
}
END_TEST

/* Enough work for threads, and several blocks of the f32 product. */
START_TEST(large_products)
{
    check(1, 1000, 700, 32, forms[_i].bits, forms[_i].scale, forms[_i].offset, false);
    check(1, 1000, 700, 256, forms[_i].bits, forms[_i].scale, forms[_i].offset, true);
    check(3, 530, 1100, 128, forms[_i].bits, forms[_i].scale, forms[_i].offset, false);
    check(40, 130, 2050, 64, forms[_i].bits, forms[_i].scale, forms[_i].offset, false);
    check(40, 130, 2050, 64, forms[_i].bits, forms[_i].scale, forms[_i].offset, true);
}
END_TEST

/* A row in 8 bits has the same results whatever other rows there are. */
START_TEST(rows_in_company)
{
    enum { M = 45, N = 37, K = 70 };
    product p;
    make(&p, K, N, 32, forms[_i].bits, forms[_i].scale, forms[_i].offset);
    xcvm_value a = TENSOR(M, K), y = TENSOR(M, N), row = TENSOR(1, K), alone = TENSOR(1, N);
    float *const numbers = row.data;
    xcvm_BlockQuantizedGemm_args args = {.w = &p.w,
                                         .scales = &p.scales,
                                         .offsets = forms[_i].offset != XCVM_NO_DTYPE ? &p.offsets : NULL,
                                         .columns = N,
                                         .depth = K,
                                         .bits = forms[_i].bits,
                                         .block_size = 32,
                                         .activations = XCVM_BLOCK_ACTIVATIONS_int8,
                                         .activation = XCVM_ACTIVATION_none};
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_BlockQuantizedGemm, v);
        if (kernel == NULL)
            continue;
        args.a = &a;
        args.y = &y;
        run_on_threads(kernel, &args, 2);
        args.a = &row;
        args.y = &alone;
        for (size_t i = 0; i < M; i++) {
            memcpy(numbers, XCVM_DATA(float, &a) + i * K, K * sizeof(float));
            run_on_threads(kernel, &args, 1);
            ck_assert_mem_eq(alone.data, XCVM_DATA(float, &y) + i * N, alone.bytes);
        }
    }
    xcvm_value *const all[] = {&a, &y, &row, &alone};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    release(&p);
}
END_TEST

/* ---- Each way of an instruction set by itself ---- */

#define DECLARE(of, kind, suffix, ...)                                                                                 \
    size_t xcvm_qblocks_group_run##suffix(size_t rows);                                                                \
    size_t xcvm_qblocks_quad_words_run##suffix(void);                                                                  \
    size_t xcvm_qblocks_row_words_run##suffix(const xcvm_qblocks *b, size_t quad_words);                               \
    void xcvm_qblocks_round_rows_run##suffix(const xcvm_qblocks *b, const float *a, size_t rows, size_t quad_words,    \
                                             int32_t *group);                                                          \
    void xcvm_qblocks_panel_integers_run##suffix(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *group,     \
                                                 size_t rows, size_t quad_words, float y[][XCVM_PACKED_COLUMNS]);
XCVM_ISAS(DECLARE, )

typedef struct isa_ways {
    bool has;
    size_t (*group)(size_t rows);
    size_t (*quad_words)(void);
    size_t (*row_words)(const xcvm_qblocks *b, size_t quad_words);
    void (*round_rows)(const xcvm_qblocks *b, const float *a, size_t rows, size_t quad_words, int32_t *group);
    void (*panel)(const xcvm_qblocks_matrix *w, size_t panel, const int32_t *group, size_t rows, size_t quad_words,
                  float y[][XCVM_PACKED_COLUMNS]);
} isa_ways;

/* Pairs and quads of bytes give the same bits, for groups of each size. */
START_TEST(ways)
{
#define ISA_WAYS(of, kind, suffix, isa, available, ...)                                                                \
    {available,                                                                                                        \
     xcvm_qblocks_group_run##suffix,                                                                                   \
     xcvm_qblocks_quad_words_run##suffix,                                                                              \
     xcvm_qblocks_row_words_run##suffix,                                                                               \
     xcvm_qblocks_round_rows_run##suffix,                                                                              \
     xcvm_qblocks_panel_integers_run##suffix},
    const isa_ways isas[] = {XCVM_ISAS(ISA_WAYS, )};
    enum { K = 150, N = 16, MOST = 12 };
    static const size_t groups[] = {1, 2, 4, 6, 8, 12};
    product p;
    make(&p, K, N, 32, forms[_i].bits, forms[_i].scale, forms[_i].offset);
    const xcvm_qblocks_matrix w = xcvm_qblocks_matrix_of(
        &p.w, &p.scales, forms[_i].offset != XCVM_NO_DTYPE ? &p.offsets : NULL, K, N, forms[_i].bits, 32);
    xcvm_value a = TENSOR(MOST, K);
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++)
        for (size_t g = 0; isas[v].has && g < sizeof groups / sizeof *groups; g++) {
            float y[2][MOST][XCVM_PACKED_COLUMNS];
            if (groups[g] != isas[v].group(groups[g]))
                continue;
            const size_t least = isas[v].quad_words();
            for (size_t quad_words = least; quad_words <= 2; quad_words++) {
                int32_t *words = calloc(groups[g] * isas[v].row_words(&p.layout, quad_words), sizeof *words);
                ck_assert_ptr_nonnull(words);
                isas[v].round_rows(&p.layout, a.data, groups[g], quad_words, words);
                isas[v].panel(&w, 0, words, groups[g], quad_words, y[quad_words - 1]);
                free(words);
            }
            ck_assert_mem_eq(y[least - 1], y[1], groups[g] * sizeof y[0][0]);
        }
    free(a.data);
    release(&p);
}
END_TEST

/* Integers cannot overflow in the longest block there is, with the greatest numbers. */
START_TEST(longest_block)
{
    enum { K = XCVM_QBLOCKS_MOST };
    product p;
    make(&p, K, 1, K, 8, XCVM_F32, XCVM_U8);
    memset(p.w.data, 0xff, p.w.bytes);
    XCVM_DATA(float, &p.scales)[0] = 1.0f;
    XCVM_DATA(uint8_t, &p.offsets)[0] = 0;
    xcvm_value a = TENSOR(1, K), y = TENSOR(1, 1);
    for (size_t i = 0; i < K; i++)
        XCVM_DATA(float, &a)[i] = 127.0f;
    const xcvm_BlockQuantizedGemm_args args = {.y = &y,
                                               .a = &a,
                                               .w = &p.w,
                                               .scales = &p.scales,
                                               .offsets = &p.offsets,
                                               .columns = 1,
                                               .depth = K,
                                               .bits = 8,
                                               .block_size = K,
                                               .activations = XCVM_BLOCK_ACTIVATIONS_int8,
                                               .activation = XCVM_ACTIVATION_none};
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_BlockQuantizedGemm, v);
        if (kernel == NULL)
            continue;
        run_on_threads(kernel, &args, 1);
        ck_assert_float_eq(XCVM_DATA(float, &y)[0], 255.0f * 127.0f * K);
    }
    free(a.data);
    free(y.data);
    release(&p);
}
END_TEST

/* Non-finite numbers stay non-finite: in f32 by the formula, in 8 bits as NaN. Zeros stay zeros. */
START_TEST(special_numbers)
{
    product p;
    make(&p, 64, 1, 32, 4, XCVM_F32, XCVM_NO_DTYPE);
    xcvm_value a = TENSOR(4, 64), y = TENSOR(4, 1);
    memset(a.data, 0, a.bytes);
    XCVM_DATA(float, &a)[64 + 3] = NAN;
    XCVM_DATA(float, &a)[128 + 40] = INFINITY;
    XCVM_DATA(float, &a)[192 + 40] = 1e-42f;
    xcvm_BlockQuantizedGemm_args args = {.y = &y,
                                         .a = &a,
                                         .w = &p.w,
                                         .scales = &p.scales,
                                         .columns = 1,
                                         .depth = 64,
                                         .bits = 4,
                                         .block_size = 32,
                                         .activation = XCVM_ACTIVATION_none};
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++)
        for (int i = 0; i < XCVM_BLOCK_ACTIVATIONS_COUNT; i++) {
            const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_BlockQuantizedGemm, v);
            if (kernel == NULL)
                continue;
            args.activations = i;
            run_on_threads(kernel, &args, 1);
            const float *got = y.data;
            ck_assert_float_eq(got[0], 0.0f);
            ck_assert_float_nan(got[1]);
            ck_assert(!isfinite(got[2]));
            ck_assert(fabsf(got[3]) < 1e-38f);
        }
    free(a.data);
    free(y.data);
    release(&p);
}
END_TEST

/* A scale of NaN makes only its column's results NaN. */
START_TEST(scale_that_is_none)
{
    product p;
    make(&p, 32, 3, 32, 8, XCVM_F32, XCVM_NO_DTYPE);
    XCVM_DATA(float, &p.scales)[1] = NAN;
    for (int64_t m = 1; m <= 20; m += 19) {
        xcvm_value a = TENSOR(m, 32), y = TENSOR(m, 3);
        const xcvm_BlockQuantizedGemm_args args = {.y = &y,
                                                   .a = &a,
                                                   .w = &p.w,
                                                   .scales = &p.scales,
                                                   .columns = 3,
                                                   .depth = 32,
                                                   .bits = 8,
                                                   .block_size = 32,
                                                   .activation = XCVM_ACTIVATION_none};
        for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
            const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_BlockQuantizedGemm, v);
            if (kernel == NULL)
                continue;
            run_on_threads(kernel, &args, 1);
            for (int64_t i = 0; i < m * 3; i++)
                ck_assert_int_eq(isnan(XCVM_DATA(float, &y)[i]), i % 3 == 1);
        }
        free(a.data);
        free(y.data);
    }
    release(&p);
}
END_TEST

/* ---- Rounding ---- */

/* Errors are at most half a scale, and a whole one at the end of 4 bits that the greatest weight does not take, and
 * with offsets; for weights so small that f16 has few bits for their scale, too. */
START_TEST(rounding)
{
    static const struct {
        unsigned bits;
        xcvm_qblocks_form form;
        double most; /* scales */
    } kinds[] = {
        {8, XCVM_QBLOCKS_SYMMETRIC, 0.51}, {4, XCVM_QBLOCKS_SYMMETRIC, 1.01}, {4, XCVM_QBLOCKS_ASYMMETRIC, 1.01}};
    for (int round = 0; round < 500; round++) {
        float w[32], scale;
        uint8_t codes[32];
        unsigned offset;
        for (size_t i = 0; i < 32; i++)
            w[i] = random_float() * (round % 2 == 0 ? 1.0f : 1e-3f) + (round % 5 == 0 ? 0.5f : 0.0f);
        const size_t count = (size_t)(1 + round % 32);
        ck_assert(xcvm_qblocks_round(w, count, 1, kinds[_i].bits, kinds[_i].form, codes, &scale, &offset));
        for (size_t i = 0; i < count; i++) {
            const double back = (double)scale * ((double)codes[i] - (double)offset);
            ck_assert_double_le(fabs(back - (double)w[i]), kinds[_i].most * fabs((double)scale) + 1e-9);
            ck_assert_uint_lt(codes[i], 1u << kinds[_i].bits);
        }
    }
}
END_TEST

START_TEST(rounding_of_special_blocks)
{
    float zeros[4] = {0, -0.0f, 0, 0}, tiny[1] = {1e-30f}, huge[2] = {1e6f, -1e6f}, scale;
    uint8_t codes[4];
    unsigned offset;
    for (unsigned bits = 4; bits <= 8; bits += 4) {
        ck_assert(xcvm_qblocks_round(zeros, 4, 1, bits, XCVM_QBLOCKS_SYMMETRIC, codes, &scale, &offset));
        for (size_t i = 0; i < 4; i++)
            ck_assert_uint_eq(codes[i], offset);
        ck_assert(xcvm_qblocks_round(tiny, 1, 1, bits, XCVM_QBLOCKS_SYMMETRIC, codes, &scale, &offset));
        ck_assert(fabsf(scale * ((float)codes[0] - (float)offset)) <= 0x1p-24f);
    }
    ck_assert(!xcvm_qblocks_round(huge, 2, 1, 4, XCVM_QBLOCKS_SYMMETRIC, codes, &scale, &offset));
    ck_assert(!xcvm_qblocks_round(huge, 2, 1, 4, XCVM_QBLOCKS_ASYMMETRIC, codes, &scale, &offset));
    ck_assert(xcvm_qblocks_round(huge, 2, 1, 8, XCVM_QBLOCKS_SYMMETRIC, codes, &scale, &offset));
}
END_TEST

Suite *suite_ops_quantized_blocks(void);
Suite *suite_ops_quantized_blocks(void)
{
    enum { FORMS = sizeof forms / sizeof *forms };
    Suite *s = suite_create("ops_quantized_blocks");
    TCase *t = tcase_create("quantized_blocks");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, products, 0, FORMS);
    tcase_add_loop_test(t, large_products, 0, FORMS);
    tcase_add_loop_test(t, rows_in_company, 0, FORMS);
    tcase_add_loop_test(t, ways, 0, FORMS);
    tcase_add_test(t, longest_block);
    tcase_add_test(t, special_numbers);
    tcase_add_test(t, scale_that_is_none);
    tcase_add_loop_test(t, rounding, 0, 3);
    tcase_add_test(t, rounding_of_special_blocks);
    suite_add_tcase(s, t);
    return s;
}
