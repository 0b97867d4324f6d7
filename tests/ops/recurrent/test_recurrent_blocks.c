/* Tests of recurrences with weights in blocks against those with the same weights in f32, with every instruction set of
 * this CPU, and with the same bits for any number of threads. */
#include "base/isas.h"
#include "ops/matmul/quantized_blocks.h"
#include "ops/table/table.h"
#include "tests/ops/support.h"

#include <math.h>

typedef struct shape {
    xcvm_opcode packed, op;
    int64_t gates, batch, hidden;
    bool linear_before_reset;
} shape;

enum { STEPS = 5 };

/* Random codes, scales and offsets (f32, or none), and the floats that they represent, in panels. */
static void make_weights(const xcvm_qblocks *b, bool offsets, xcvm_value *codes, xcvm_value *scales, xcvm_value *of,
                         xcvm_value *panels)
{
    const int64_t count = (int64_t)xcvm_qblocks_panels(b), blocks = (int64_t)xcvm_qblocks_count(b);
    *codes = (xcvm_value){.rank = -1};
    xcvm_value_set_tensor(codes, XCVM_U8, 3,
                          (const int64_t[]){count, (int64_t)xcvm_qblocks_lines(b), XCVM_QBLOCKS_LINE});
    codes->memory_kind = XCVM_MEMORY_BORROWED;
    codes->data = malloc(codes->bytes);
    ck_assert_ptr_nonnull(codes->data);
    xcvm_qblocks_clear(b, codes->data);
    *scales = TENSOR(count, blocks, 16);
    *of = TENSOR(count, blocks, 16);
    *panels = TENSOR(count, (int64_t)b->k, 16);
    const unsigned middle = 1u << (b->bits - 1);
    const float size = 2.0f / ((float)middle * sqrtf((float)b->k));
    for (size_t i = 0; i < xcvm_element_count(scales); i++) {
        XCVM_DATA(float, scales)[i] *= size;
        XCVM_DATA(float, of)[i] = (float)middle + rintf(2.0f * XCVM_DATA(float, of)[i]);
    }
    for (size_t j = 0; j < b->n; j++)
        for (size_t p = 0; p < b->k; p++) {
            const unsigned code = test_random_below(&random_state, 2 * middle);
            const size_t at = xcvm_qblocks_scale_at(b, p, j);
            const float zero = offsets ? XCVM_DATA(float, of)[at] : (float)middle;
            xcvm_qblocks_set(b, p, j, code, codes->data);
            XCVM_DATA(float, panels)
            [(j / 16 * b->k + p) * 16 + j % 16] = XCVM_DATA(float, scales)[at] * ((float)code - zero);
        }
}

/* The arguments that all have in common. */
#define COMMON .y = &y, .x = &x, .hidden_size = s->hidden, .direction = XCVM_DIRECTION_bidirectional
#define BLOCKS                                                                                                         \
    .r = &codes, .scales = &scales, .offsets = offsets ? &of : NULL, .bits = bits, .block_size = (int64_t)layout.block
/* Runs the packed instruction (run_f32), or that of blocks. */
#define RUN(Packed, Blocks, ...)                                                                                       \
    do {                                                                                                               \
        const xcvm_##Packed##_args f32 = {COMMON, .r = &panels, __VA_ARGS__};                                          \
        const xcvm_##Blocks##_args in_blocks = {COMMON, BLOCKS, __VA_ARGS__};                                          \
        y = expected;                                                                                                  \
        run_on_threads(kernel_variant(s->packed, v), &f32, 1);                                                         \
        ((xcvm_value *)(uintptr_t)in_blocks.y)->data = got.data;                                                       \
        run_on_threads(kernel_variant(s->op, v), &in_blocks, 1);                                                       \
        ((xcvm_value *)(uintptr_t)in_blocks.y)->data = again.data;                                                     \
        run_on_threads(kernel_variant(s->op, v), &in_blocks, 3);                                                       \
    } while (0)

static void check(const shape *s, int64_t bits, bool offsets)
{
    const int64_t width = (int64_t)xcvm_packed_panels((size_t)s->hidden) * s->gates * 16;
    const xcvm_qblocks layout = {
        .k = (size_t)s->hidden, .n = (size_t)(2 * width), .block = offsets ? 16 : 32, .bits = (unsigned)bits};
    xcvm_value x = TENSOR(STEPS, s->batch, 2 * width), bias = TENSOR(2, s->hidden), codes, scales, of, panels, y;
    xcvm_value expected = TENSOR(STEPS, 2, s->batch, s->hidden), got = TENSOR(STEPS, 2, s->batch, s->hidden),
               again = TENSOR(STEPS, 2, s->batch, s->hidden);
    make_weights(&layout, offsets, &codes, &scales, &of, &panels);
    for (size_t v = 0; kernel_variant(s->op, v) != NULL; v++) {
        if (s->op == XCVM_OP_BlockQuantizedRNN)
            RUN(PackedRNN, BlockQuantizedRNN, .clip = 0.0);
        else if (s->op == XCVM_OP_BlockQuantizedLSTM)
            RUN(PackedLSTM, BlockQuantizedLSTM, .clip = 0.0);
        else
            RUN(PackedGRU, BlockQuantizedGRU, .b = s->linear_before_reset ? &bias : NULL,
                .linear_before_reset = s->linear_before_reset);
        for (size_t i = 0; i < xcvm_element_count(&got); i++) {
            const double a = (double)XCVM_DATA(float, &got)[i], b = (double)XCVM_DATA(float, &expected)[i];
            if (!(fabs(a - b) <= 2e-5))
                ck_abort_msg("%s of %d bits, batch %d, hidden %d, build %zu: element %zu is %g, as f32 %g",
                             xcvm_schema_of(s->op)->name, (int)bits, (int)s->batch, (int)s->hidden, v, i, a, b);
        }
        ck_assert_mem_eq(got.data, again.data, got.bytes);
    }
    xcvm_value *const all[] = {&x, &bias, &codes, &scales, &of, &panels, &expected, &got, &again};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
}

START_TEST(recurrences)
{
    static const int64_t batches[] = {1, 3, 6}, sizes[] = {32, 41, 100};
    static const shape shapes[] = {{XCVM_OP_PackedRNN, XCVM_OP_BlockQuantizedRNN, 1, 0, 0, false},
                                   {XCVM_OP_PackedGRU, XCVM_OP_BlockQuantizedGRU, 3, 0, 0, false},
                                   {XCVM_OP_PackedGRU, XCVM_OP_BlockQuantizedGRU, 3, 0, 0, true},
                                   {XCVM_OP_PackedLSTM, XCVM_OP_BlockQuantizedLSTM, 4, 0, 0, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < 9; j++) {
            shape s = shapes[i];
            s.batch = batches[j % 3];
            s.hidden = sizes[j / 3];
            for (int form = 0; form < 4; form++)
                check(&s, form < 2 ? 4 : 8, form % 2 != 0);
        }
}
END_TEST

Suite *suite_ops_recurrent_blocks(void);
Suite *suite_ops_recurrent_blocks(void)
{
    Suite *suite = suite_create("ops_recurrent_blocks");
    TCase *tc = tcase_create("recurrent blocks");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, recurrences);
    suite_add_tcase(suite, tc);
    return suite;
}
