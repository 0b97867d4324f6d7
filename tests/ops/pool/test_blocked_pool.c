/* Maxima that a convolution finds as it stores its results: those of the results stored whole. */
#include "ops/conv/blocked.h"
#include "ops/table/table.h"
#include "tests/ops/run_kernel.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = XCVM_CHANNEL_BLOCK, CHANNELS = 20, OUTPUTS = 40, BATCH = 2, MOST = 15, BLOCKS = 3, IN_BLOCKS = 2 };

xcvm_status xcvm_BlockedConv_run(xcvm_kernel *k, const void *args);

static float random_float(void)
{
    static uint32_t state = 5;
    return (float)(int32_t)test_random(&state) * 0x1p-31f;
}

static xcvm_value tensor(int rank, const int64_t *dims, float *data)
{
    xcvm_value v = {0};
    xcvm_value_set_tensor(&v, XCVM_F32, rank, dims);
    v.data = data;
    return v;
}

static float greatest(const float *y, int64_t width, int64_t lane)
{
    float most = y[lane];
    for (int64_t i = 1; i < 4; i++) {
        const float v = y[(i / 2 * width + i % 2) * BLOCK + lane];
        most = isnan(most) || most > v ? most : v;
    }
    return most;
}

static void check_pool(xcvm_kernel_run run, int algorithm, int64_t tile, int64_t height, int64_t width, int activation)
{
    static float x[BATCH * IN_BLOCKS * MOST * MOST * BLOCK], g[OUTPUTS * CHANNELS * 9],
        w[36 * BLOCKS * CHANNELS * BLOCK], b[BLOCKS * BLOCK], whole[BATCH * BLOCKS * MOST * MOST * BLOCK],
        pooled[sizeof whole / sizeof *whole / 4];
    static const int64_t ones[] = {1, 1}, pads[] = {1, 1, 1, 1};
    const int64_t half[] = {height / 2, width / 2};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_float();
    x[17 * BLOCK] = NAN;
    for (size_t i = 0; i < sizeof g / sizeof *g; i++)
        g[i] = random_float();
    const int64_t filter[] = {OUTPUTS, CHANNELS, 3, 3};
    const bool on_the_fly = algorithm == XCVM_BLOCKED_winograd_untransformed;
    if (on_the_fly)
        xcvm_blocked_pack_direct(g, 4, filter, w);
    else
        xcvm_blocked_pack_winograd(g, 4, filter, tile, w);
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = random_float();
    xcvm_value vx = tensor(5, (const int64_t[]){BATCH, IN_BLOCKS, height, width, BLOCK}, x),
               vw = tensor(4, (const int64_t[]){(tile + 2) * (tile + 2), BLOCKS, CHANNELS, BLOCK}, w),
               vu = tensor(5, (const int64_t[]){BLOCKS, CHANNELS, 3, 3, BLOCK}, w),
               vb = tensor(1, (const int64_t[]){BLOCKS * BLOCK}, b),
               y = tensor(5, (const int64_t[]){BATCH, BLOCKS, height, width, BLOCK}, whole),
               p = tensor(5, (const int64_t[]){BATCH, BLOCKS, half[0], half[1], BLOCK}, pooled);
    xcvm_BlockedConv_args a = {.y = &y,
                               .x = &vx,
                               .w = on_the_fly ? &vu : &vw,
                               .b = &vb,
                               .strides = {ones, 2},
                               .pads = {pads, 4},
                               .dilations = {ones, 2},
                               .group = 1,
                               .activation = activation,
                               .algorithm = algorithm,
                               .pool = 1};
    run_kernel(run, &a, 1, "BlockedConv");
    a.y = &p;
    a.pool = 2;
    for (int threads = 1; threads <= 3; threads += 2) {
        memset(pooled, 0x55, sizeof pooled);
        run_kernel(run, &a, threads, "BlockedConv with a pool");
        for (int64_t plane = 0; plane < BATCH * BLOCKS; plane++)
            for (int64_t i = 0; i < half[0] * half[1] * BLOCK; i++) {
                const int64_t row = i / BLOCK / half[1], column = i / BLOCK % half[1], lane = i % BLOCK;
                const float *from = whole + ((plane * height + 2 * row) * width + 2 * column) * BLOCK;
                const float expected = greatest(from, width, lane), is = pooled[plane * half[0] * half[1] * BLOCK + i];
                if (!(is == expected || (isnan(is) && isnan(expected))))
                    ck_abort_msg("tile %d, %dx%d: plane %d at %d, %d of channel %d is %.9g, expected %.9g", (int)tile,
                                 (int)height, (int)width, (int)plane, (int)row, (int)column, (int)lane, (double)is,
                                 (double)expected);
            }
    }
}

START_TEST(greatest_of_four)
{
    const xcvm_kernel_run runs[] = {xcvm_kernel_of(XCVM_OP_BlockedConv), xcvm_BlockedConv_run};
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++)
        for (int64_t size = 2; size <= MOST; size++)
            for (int way = 0; way < 3; way++) {
                const int algorithm = way < 2 ? XCVM_BLOCKED_winograd : XCVM_BLOCKED_winograd_untransformed;
                const int64_t tile = way == 0 ? 2 : 4;
                check_pool(runs[r], algorithm, tile, size, MOST + 2 - size, XCVM_ACTIVATION_Relu);
                check_pool(runs[r], algorithm, tile, MOST + 2 - size, 8, XCVM_ACTIVATION_HardSwish);
            }
}
END_TEST

Suite *suite_ops_blocked_pool(void);
Suite *suite_ops_blocked_pool(void)
{
    Suite *suite = suite_create("ops_blocked_pool");
    TCase *tc = tcase_create("blocked_pool");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, greatest_of_four);
    suite_add_tcase(suite, tc);
    return suite;
}
