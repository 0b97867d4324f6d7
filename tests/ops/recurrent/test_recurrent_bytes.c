/* Tests of QuantizedLSTM against plain arithmetic, with every instruction set of this CPU, and with the same bits for
 * any number of threads: one step from given states, and many consecutive steps. */
#include "ops/matmul/packed.h"
#include "ops/quantize/quantized_panels.h"
#include "tests/ops/support.h"

#include <math.h>

enum { GATES = 4, STEPS = 4, PANEL = XCVM_PACKED_COLUMNS, MOST_UNITS = 100 };

static xcvm_value blank(xcvm_dtype dtype, int rank, const int64_t *dims)
{
    xcvm_value v = {.rank = -1};
    xcvm_value_set_tensor(&v, dtype, rank, dims);
    v.memory_kind = XCVM_MEMORY_BORROWED;
    v.data = calloc(v.bytes + 1, 1);
    ck_assert_ptr_nonnull(v.data);
    return v;
}

typedef struct network {
    int64_t batch, hidden, directions, two_terms;
    int8_t *r; /* [directions, hidden, gates, hidden] */
    xcvm_value panels, sums, scale;
} network;

/* The number of a column, of all directions', as packed. */
static size_t column_of(const network *t, size_t d, size_t gate, size_t unit)
{
    const size_t blocks = xcvm_packed_panels((size_t)t->hidden);
    return ((d * blocks + unit / PANEL) * GATES + gate) * PANEL + unit % PANEL;
}

static void make_weights(network *t, bool extreme)
{
    const size_t hidden = (size_t)t->hidden, blocks = xcvm_packed_panels(hidden), quads = (hidden + 3) / 4;
    const int64_t panels = (int64_t)((size_t)t->directions * blocks * GATES), columns = panels * PANEL;
    t->r = malloc((size_t)t->directions * hidden * hidden * GATES);
    ck_assert_ptr_nonnull(t->r);
    t->panels = blank(XCVM_I8, 4, (const int64_t[]){panels, (int64_t)quads, PANEL, XCVM_QUAD});
    t->sums = blank(XCVM_I32, 1, &columns);
    t->scale = blank(XCVM_F32, 1, &columns);
    for (size_t d = 0; d < (size_t)t->directions; d++)
        for (size_t gate = 0; gate < GATES; gate++)
            for (size_t unit = 0; unit < hidden; unit++) {
                const size_t column = column_of(t, d, gate, unit);
                XCVM_DATA(float, &t->scale)
                [column] = (float)(test_random_below(&random_state, 100) + 1) * 1e-4f / sqrtf((float)hidden);
                for (size_t p = 0; p < hidden; p++) {
                    const int8_t w = (int8_t)(extreme ? (column % 2 != 0 ? 127 : -128)
                                                      : (int)test_random_below(&random_state, 256) - 128);
                    t->r[((d * hidden + p) * GATES + gate) * hidden + unit] = w;
                    XCVM_DATA(int8_t, &t->panels)
                    [(column / PANEL * quads + p / 4) * 64 + column % PANEL * 4 + p % 4] = w;
                    XCVM_DATA(int32_t, &t->sums)[column] += w;
                }
            }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* A state as bytes of its own range, minus their zero point; returns the scale. */
static float quantize(const float *x, size_t count, int64_t *q)
{
    float low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    const float scale = (high - low) / 255.0f;
    const float zero = scale > 0 ? rintf(-low / scale) : 0;
    for (size_t i = 0; i < count; i++)
        q[i] = scale > 0 ? (int64_t)(fminf(fmaxf(rintf(x[i] / scale) + zero, 0), 255) - zero) : 0;
    return scale;
}

/* One step of one unit: the state quantized, and each float operation in its place. */
static void expect_step(const network *t, const float *x, const float *h, const float *c, size_t d, size_t unit,
                        double *next_h, double *next_c)
{
    const size_t hidden = (size_t)t->hidden;
    double gates[GATES];
    for (size_t g = 0; g < GATES; g++) {
        const size_t column = column_of(t, d, g, unit);
        float state[MOST_UNITS];
        int64_t q[MOST_UNITS];
        volatile float all = x[column];
        memcpy(state, h, hidden * sizeof *state);
        for (int64_t term = 0; term <= t->two_terms; term++) {
            const float scale = quantize(state, hidden, q);
            int64_t sum = 0;
            for (size_t p = 0; p < hidden; p++) {
                const volatile float taken = (float)q[p] * scale;
                sum += q[p] * t->r[((d * hidden + p) * GATES + g) * hidden + unit];
                state[p] -= taken;
            }
            const volatile float both = scale * XCVM_CDATA(float, &t->scale)[column];
            const volatile float product = (float)sum * both;
            all += product;
        }
        gates[g] = (double)all;
    }
    *next_c = sigmoid(gates[2]) * (double)c[unit] + sigmoid(gates[0]) * tanh(gates[3]);
    *next_h = sigmoid(gates[1]) * tanh(*next_c);
}

#define ARGS(...)                                                                                                      \
    (const xcvm_QuantizedLSTM_args)                                                                                    \
    {                                                                                                                  \
        .x = &x, .r = &t->panels, .sums = &t->sums, .scale = &t->scale, .hidden_size = t->hidden,                      \
        .two_terms = t->two_terms,                                                                                     \
        .direction = t->directions == 2 ? XCVM_DIRECTION_bidirectional : XCVM_DIRECTION_forward, __VA_ARGS__           \
    }

static void check(network *t, bool extreme)
{
    const int64_t d = t->directions, b = t->batch, n = t->hidden;
    make_weights(t, extreme);
    const int64_t columns = t->sums.dims[0];
    xcvm_value xs = TENSOR(STEPS, b, columns), h = TENSOR(d, b, n), c = TENSOR(d, b, n);
    xcvm_value y = TENSOR(STEPS, d, b, n), y_h = TENSOR(d, b, n), y_c = TENSOR(d, b, n), again = TENSOR(d, b, n);
    xcvm_value x = xs;
    x.dims[0] = 1;
    x.bytes /= STEPS;
    for (int64_t i = 0; i < n && b > 1; i++)
        XCVM_DATA(float, &h)[n + i] = 0; /* a state of zeros, whose scale is 0 */
    xcvm_kernel_run kernel;
    for (size_t v = 0; (kernel = kernel_variant(XCVM_OP_QuantizedLSTM, v)) != NULL; v++) {
        run_on_threads(kernel, &ARGS(.initial_h = &h, .initial_c = &c, .y_h = &y_h, .y_c = &y_c), 1);
        for (int64_t i = 0; i < d * b * n; i++) {
            const int64_t row = i / n, at = row % b * columns;
            double next_h, next_c;
            expect_step(t, XCVM_CDATA(float, &x) + at, XCVM_CDATA(float, &h) + row * n, XCVM_CDATA(float, &c) + row * n,
                        (size_t)(row / b), (size_t)(i % n), &next_h, &next_c);
            const double got_h = (double)XCVM_CDATA(float, &y_h)[i], got_c = (double)XCVM_CDATA(float, &y_c)[i];
            if (!(fabs(got_h - next_h) <= 2e-6 && fabs(got_c - next_c) <= 2e-6))
                ck_abort_msg("batch %d, hidden %d, build %zu: unit %d is %g, %g, expected %g, %g", (int)b, (int)n, v,
                             (int)i, got_h, got_c, next_h, next_c);
        }
        /* Many steps, and as many threads; the first direction's are single steps, one after the other. */
        x = xs;
        run_on_threads(kernel, &ARGS(.initial_h = &h, .initial_c = &c, .y = &y, .y_h = &again), 3);
        run_on_threads(kernel, &ARGS(.initial_h = &h, .initial_c = &c, .y_h = &y_h), 1);
        ck_assert_mem_eq(y_h.data, again.data, again.bytes);
        xcvm_value from_h = TENSOR(d, b, n), from_c = TENSOR(d, b, n);
        memcpy(from_h.data, h.data, h.bytes);
        memcpy(from_c.data, c.data, c.bytes);
        for (int64_t s = 0; s < STEPS; s++) {
            x = xs;
            x.dims[0] = 1;
            x.bytes /= STEPS;
            x.data = XCVM_DATA(float, &xs) + s * b * columns;
            run_on_threads(kernel, &ARGS(.initial_h = &from_h, .initial_c = &from_c, .y_h = &y_h, .y_c = &y_c), 1);
            ck_assert_mem_eq(y_h.data, XCVM_DATA(float, &y) + s * d * b * n, (size_t)(b * n) * sizeof(float));
            memcpy(from_h.data, y_h.data, y_h.bytes);
            memcpy(from_c.data, y_c.data, y_c.bytes);
        }
        free(from_h.data);
        free(from_c.data);
        x = xs;
        x.dims[0] = 1;
        x.bytes /= STEPS;
    }
    xcvm_value *const all[] = {&xs, &h, &c, &y, &y_h, &y_c, &again, &t->panels, &t->sums, &t->scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(t->r);
}

START_TEST(long_short_term_memory)
{
    static const int64_t batches[] = {1, 2, 7}, sizes[] = {1, 16, 37, 100};
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++)
            for (int form = 0; form < 8; form++)
                check(
                    &(network){
                        .batch = batches[i], .hidden = sizes[j], .directions = 1 + form / 2 % 2, .two_terms = form / 4},
                    form % 2 != 0);
}
END_TEST

/* A state that is not a number makes all gates so, and nothing worse. */
START_TEST(not_a_number)
{
    network own = {.batch = 1, .hidden = 20, .directions = 1, .two_terms = _i}, *t = &own;
    make_weights(t, false);
    xcvm_value x = TENSOR(2, 1, t->sums.dims[0]), h = TENSOR(1, 1, 20), y = TENSOR(2, 1, 1, 20);
    XCVM_DATA(float, &h)[7] = NAN;
    xcvm_kernel_run kernel;
    for (size_t v = 0; (kernel = kernel_variant(XCVM_OP_QuantizedLSTM, v)) != NULL; v++) {
        run_on_threads(kernel, &ARGS(.initial_h = &h, .y = &y), 1);
        for (size_t i = 0; i < 40; i++)
            ck_assert(isnan(XCVM_CDATA(float, &y)[i]));
    }
    xcvm_value *const all[] = {&x, &h, &y, &t->panels, &t->sums, &t->scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(t->r);
}
END_TEST

Suite *suite_ops_recurrent_bytes(void);
Suite *suite_ops_recurrent_bytes(void)
{
    Suite *suite = suite_create("ops_recurrent_bytes");
    TCase *tc = tcase_create("recurrent bytes");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, long_short_term_memory);
    tcase_add_loop_test(tc, not_a_number, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}
