/* Tests of packing, and of products and recurrences with packed weights, at all edges of tiles and panels: against sums
 * in f64, with every instruction set of this CPU, and with the same bits for any number of threads. */
#include "base/isas.h"
#include "ops/table/table.h"
#include "ops/util/convert.h"
#include "ops/matmul/packed.h"
#include "tests/ops/support.h"

#include <math.h>

START_TEST(packing)
{
    enum { K = 37, N = 51 };
    static float w[K * N], panels[(N + 15) / 16 * 16 * K];
    for (size_t i = 0; i < K * N; i++)
        w[i] = random_float();
    for (size_t k = 1; k <= K; k += 4)
        for (size_t n = 1; n <= N; n += 5)
            for (int transposed = 0; transposed < 2; transposed++) {
                const size_t row = transposed ? 1 : n, column = transposed ? k : 1;
                memset(panels, 0xff, sizeof panels);
                xcvm_packed_write(k, n, w, row, column, 2.0f, panels);
                for (size_t p = 0; p < k; p++)
                    for (size_t j = 0; j < xcvm_packed_panels(n) * 16; j++)
                        ck_assert_float_eq(panels[j / 16 * 16 * k + p * 16 + j % 16],
                                           j < n ? 2.0f * w[p * row + j * column] : 0.0f);
            }
}
END_TEST

START_TEST(packing_gates)
{
    enum { K = 5, GATES = 3, HIDDEN = 18, PANELS = 6 };
    static float w[GATES * HIDDEN * K], b[2 * GATES * HIDDEN], panels[PANELS * K * 16], sums[PANELS * 16],
        reset[HIDDEN];
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = random_float();
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = random_float();
    xcvm_packed_write_gates(K, GATES, HIDDEN, w, panels);
    xcvm_packed_write_biases(GATES, HIDDEN, b, sums, reset);
    for (size_t unit = 0; unit < 32; unit++)
        for (size_t g = 0; g < GATES; g++) {
            const size_t at = (unit / 16 * GATES + g) * 16 + unit % 16, row = g * HIDDEN + unit;
            const float both = unit < HIDDEN ? b[row] + (g < 2 ? b[GATES * HIDDEN + row] : 0.0f) : 0.0f;
            ck_assert_float_eq(sums[at], both);
            for (size_t p = 0; p < K; p++)
                ck_assert_float_eq(panels[at / 16 * 16 * K + p * 16 + at % 16], unit < HIDDEN ? w[row * K + p] : 0.0f);
        }
    for (size_t unit = 0; unit < HIDDEN; unit++)
        ck_assert_float_eq(reset[unit], b[5 * HIDDEN + unit]);
}
END_TEST

/* Panels of another type in place of f32, and b rounded as they are. */
static void narrow(xcvm_dtype dtype, xcvm_value *w, xcvm_value *b)
{
    xcvm_value packed = {.rank = -1};
    xcvm_value_set_tensor(&packed, dtype, w->rank, w->dims);
    packed.memory_kind = XCVM_MEMORY_BORROWED;
    packed.data = malloc(packed.bytes + 1);
    ck_assert_ptr_nonnull(packed.data);
    xcvm_store_f32(dtype, packed.data, 0, xcvm_element_count(w), w->data);
    free(w->data);
    *w = packed;
    for (size_t i = 0; i < xcvm_element_count(b); i++) {
        char bytes[4];
        xcvm_store_f32(dtype, bytes, 0, 1, XCVM_CDATA(float, b) + i);
        xcvm_load_f32(dtype, bytes, 0, 1, XCVM_DATA(float, b) + i);
    }
}

static void check_product(xcvm_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    const bool extras = (m + n + k) % 2 == 0;
    xcvm_value a = TENSOR(m, k), b = TENSOR(k, n), c = TENSOR(n), z = TENSOR(m, n), y = TENSOR(m, n);
    xcvm_value w = TENSOR((int64_t)xcvm_packed_panels((size_t)n), k, 16), again = TENSOR(m, n);
    xcvm_packed_write((size_t)k, (size_t)n, b.data, (size_t)n, 1, 1.0f, w.data);
    if (dtype != XCVM_F32)
        narrow(dtype, &w, &b);
    xcvm_PackedGemm_args args = {.y = &y, .a = &a, .w = &w, .columns = n, .activation = XCVM_ACTIVATION_none};
    if (extras) {
        args.c = &c;
        args.z = &z;
        args.activation = XCVM_ACTIVATION_Relu;
    }
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_PackedGemm, v);
        if (kernel == NULL)
            continue;
        args.y = &y;
        run_on_threads(kernel, &args, 1);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, size = 1;
                for (int64_t p = 0; p < k; p++) {
                    const double term =
                        (double)XCVM_DATA(float, &a)[i * k + p] * (double)XCVM_DATA(float, &b)[p * n + j];
                    sum += term;
                    size += fabs(term);
                }
                if (extras) {
                    sum += (double)XCVM_DATA(float, &c)[j] + (double)XCVM_DATA(float, &z)[i * n + j];
                    sum = sum > 0 ? sum : 0;
                }
                const double got = (double)XCVM_DATA(float, &y)[i * n + j];
                if (!(fabs(got - sum) <= 2e-7 * size * 4))
                    ck_abort_msg("%s, %dx%dx%d at %d, %d: %g, expected %g", xcvm_dtype_name(dtype), (int)m, (int)n,
                                 (int)k, (int)i, (int)j, got, sum);
            }
        args.y = &again;
        run_on_threads(kernel, &args, 3);
        ck_assert_mem_eq(again.data, y.data, y.bytes);
    }
    xcvm_value *const all[] = {&a, &b, &c, &z, &y, &w, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}

static const xcvm_dtype weight_types[] = {XCVM_F32, XCVM_F16, XCVM_BF16, XCVM_F24};

START_TEST(products)
{
    static const int64_t widths[] = {1, 15, 16, 17, 31, 47, 48, 49, 64, 65, 95, 113, 193};
    static const int64_t depths[] = {1, 7, 8, 9, 33};
    for (int64_t m = 1; m <= 18; m++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
                if (test_takes((size_t)m + i + j))
                    check_product(weight_types[_i], m, widths[i], depths[j]);
}
END_TEST

/* Several blocks of b, and enough work for threads. */
START_TEST(large_products)
{
    const xcvm_dtype dtype = weight_types[_i];
    check_product(dtype, 1, 1000, 700);
    check_product(dtype, 1, 70, 2500);
    check_product(dtype, 3, 1030, 1100);
    check_product(dtype, 40, 130, 2050);
    check_product(dtype, 65, 300, 301);
    check_product(dtype, 150, 201, 2050);
}
END_TEST

/* Sums as long as those after a convolutional network: rounding, relative to the size of the results, stays near that
 * of short sums. One running sum over all rows exceeds the bound. */
START_TEST(long_sums)
{
    enum { N = 64, K = 25000 };
    xcvm_value a = TENSOR(1, K), b = TENSOR(K, N), y = TENSOR(1, N), w = TENSOR(N / 16, K, 16);
    xcvm_packed_write(K, N, b.data, N, 1, 1.0f, w.data);
    xcvm_PackedGemm_args args = {.y = &y, .a = &a, .w = &w, .columns = N, .activation = XCVM_ACTIVATION_none};
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++) {
        const xcvm_kernel_run kernel = kernel_variant(XCVM_OP_PackedGemm, v);
        if (kernel == NULL)
            continue;
        run_on_threads(kernel, &args, 1);
        double errors = 0, sums = 0;
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t p = 0; p < K; p++)
                sum += (double)XCVM_DATA(float, &a)[p] * (double)XCVM_DATA(float, &b)[p * N + j];
            const double error = (double)XCVM_DATA(float, &y)[j] - sum;
            errors += error * error;
            sums += sum * sum;
        }
        ck_assert_double_lt(sqrt(errors / sums), 6e-7);
    }
    xcvm_value *const all[] = {&a, &b, &y, &w};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}
END_TEST

/* ---- Recurrent networks ---- */

typedef struct shape {
    xcvm_opcode op;
    size_t steps, batch, hidden, inputs;
    bool bidirectional, linear_before_reset;
} shape;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double dot(const float *a, const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)a[i] * x[i];
    return sum;
}

/* One direction and batch entry by the formulas of ONNX. h and c, initially zero, become the last state; y receives
 * all, `stride` apart. */
static void reference(const shape *s, const float *x, size_t x_stride, const float *w, const float *r, const float *b,
                      bool backward, double *y, size_t stride)
{
    const size_t h_size = s->hidden, gates = s->op == XCVM_OP_LSTM ? 4 : s->op == XCVM_OP_GRU ? 3 : 1;
    double *h = calloc(6 * h_size + s->inputs + gates * h_size * 2, sizeof *h), *next = h + h_size, *c = next + h_size;
    double *reset = c + h_size, *in = reset + h_size, *gx = in + s->inputs, *gh = gx + gates * h_size;
    for (size_t step = 0; step < s->steps; step++) {
        const size_t t = backward ? s->steps - 1 - step : step;
        for (size_t i = 0; i < s->inputs; i++)
            in[i] = (double)x[t * x_stride + i];
        for (size_t i = 0; i < gates * h_size; i++) {
            gx[i] = dot(w + i * s->inputs, in, s->inputs) + (double)b[i];
            gh[i] = dot(r + i * h_size, h, h_size) + (double)b[gates * h_size + i];
        }
        if (s->op == XCVM_OP_GRU)
            for (size_t i = 0; i < h_size; i++)
                reset[i] = sigmoid(gx[h_size + i] + gh[h_size + i]) * h[i];
        for (size_t i = 0; i < h_size; i++)
            if (s->op == XCVM_OP_RNN) {
                next[i] = tanh(gx[i] + gh[i]);
            } else if (s->op == XCVM_OP_GRU) {
                const double z = sigmoid(gx[i] + gh[i]), q = sigmoid(gx[h_size + i] + gh[h_size + i]);
                const size_t row = 2 * h_size + i;
                const double within = s->linear_before_reset
                                          ? q * gh[row]
                                          : dot(r + row * h_size, reset, h_size) + (double)b[gates * h_size + row];
                next[i] = (1 - z) * tanh(gx[row] + within) + z * h[i];
            } else {
                const double o = sigmoid(gx[h_size + i] + gh[h_size + i]);
                c[i] = sigmoid(gx[2 * h_size + i] + gh[2 * h_size + i]) * c[i] +
                       sigmoid(gx[i] + gh[i]) * tanh(gx[3 * h_size + i] + gh[3 * h_size + i]);
                next[i] = o * tanh(c[i]);
            }
        memcpy(h, next, h_size * sizeof *h);
        memcpy(y + t * stride, h, h_size * sizeof *h);
    }
    free(h);
}

static void check_recurrence(const shape *s)
{
    const int64_t gates = s->op == XCVM_OP_LSTM ? 4 : s->op == XCVM_OP_GRU ? 3 : 1, d = s->bidirectional ? 2 : 1;
    const int64_t steps = (int64_t)s->steps, batch = (int64_t)s->batch, hidden = (int64_t)s->hidden;
    const int64_t inputs = (int64_t)s->inputs;
    xcvm_value x = TENSOR(steps, batch, inputs), w = TENSOR(d, gates * hidden, inputs);
    xcvm_value r = TENSOR(d, gates * hidden, hidden), b = TENSOR(d, 2 * gates * hidden);
    xcvm_value y = TENSOR(steps, d, batch, hidden), again = TENSOR(steps, d, batch, hidden);
    for (size_t i = 0; i < xcvm_element_count(&r); i++)
        XCVM_DATA(float, &r)[i] *= 2.0f / sqrtf((float)hidden);
    double *expected = calloc(xcvm_element_count(&y), sizeof *expected);
    ck_assert_ptr_nonnull(expected);
    for (size_t i = 0; i < (size_t)d; i++)
        for (size_t e = 0; e < s->batch; e++)
            reference(s, XCVM_DATA(float, &x) + e * s->inputs, s->batch * s->inputs,
                      XCVM_DATA(float, &w) + i * (size_t)gates * s->hidden * s->inputs,
                      XCVM_DATA(float, &r) + i * (size_t)gates * s->hidden * s->hidden,
                      XCVM_DATA(float, &b) + i * 2 * (size_t)gates * s->hidden, i == 1,
                      expected + (i * s->batch + e) * s->hidden, (size_t)d * s->batch * s->hidden);
    for (size_t v = 0; v < XCVM_ISA_COUNT; v++)
        for (int threads = 1; threads <= 3; threads += 2) {
            const xcvm_kernel_run kernel = kernel_variant(s->op, v);
            if (kernel == NULL)
                continue;
            xcvm_value *to = threads == 1 ? &y : &again;
            const int direction = s->bidirectional ? XCVM_DIRECTION_bidirectional : XCVM_DIRECTION_forward;
#define COMMON .y = to, .x = &x, .w = &w, .r = &r, .b = &b, .hidden_size = hidden, .direction = direction
            if (s->op == XCVM_OP_LSTM)
                run_on_threads(kernel, &(const xcvm_LSTM_args){COMMON}, threads);
            else if (s->op == XCVM_OP_GRU)
                run_on_threads(kernel, &(const xcvm_GRU_args){COMMON, .linear_before_reset = s->linear_before_reset},
                               threads);
            else
                run_on_threads(kernel, &(const xcvm_RNN_args){COMMON}, threads);
#undef COMMON
            for (size_t i = 0; threads == 1 && i < xcvm_element_count(&y); i++)
                if (!(fabs((double)XCVM_DATA(float, &y)[i] - expected[i]) < 2e-5))
                    ck_abort_msg("%s of %zu x %zu x %zu, element %zu: %g, expected %g", xcvm_schema_of(s->op)->name,
                                 s->steps, s->batch, s->hidden, i, (double)XCVM_DATA(float, &y)[i], expected[i]);
            if (threads > 1)
                ck_assert_mem_eq(again.data, y.data, y.bytes);
        }
    xcvm_value *const all[] = {&x, &w, &r, &b, &y, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(expected);
}

START_TEST(recurrences)
{
    static const xcvm_opcode ops[] = {XCVM_OP_RNN, XCVM_OP_GRU, XCVM_OP_GRU, XCVM_OP_LSTM};
    static const size_t sizes[] = {1, 15, 16, 17, 40}, batches[] = {1, 2, 9};
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 5; j++)
            for (size_t l = 0; l < 3; l++)
                check_recurrence(&(const shape){ops[i], 4, batches[l], sizes[j], 3 + j, (j + l) % 2 == 0, i == 1});
        /* Enough work for threads. */
        check_recurrence(&(const shape){ops[i], 3, 1, 330, 20, true, i == 1});
        check_recurrence(&(const shape){ops[i], 3, 5, 150, 20, false, i == 1});
    }
}
END_TEST

Suite *suite_ops_packed(void);
Suite *suite_ops_packed(void)
{
    Suite *suite = suite_create("ops_packed");
    TCase *tc = tcase_create("packed");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, packing);
    tcase_add_test(tc, packing_gates);
    tcase_add_loop_test(tc, products, 0, 3);
    tcase_add_loop_test(tc, large_products, 0, 3);
    tcase_add_test(tc, long_sums);
    tcase_add_test(tc, recurrences);
    suite_add_tcase(suite, tc);
    return suite;
}
