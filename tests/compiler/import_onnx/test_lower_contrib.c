/* Tests of ONNX Runtime's contributed operators: refusals, and its blocked layout. tests/differential compares results
 * with ONNX Runtime. */
#include "tests/compiler/import_onnx/onnx_text.h"
#include "xcvm/compiler.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS "opset 17\nopset com.microsoft 1\n"
#define NCHWC MS "opset com.microsoft.nchwc 1\n"
#define NHWC MS "opset com.ms.internal.nhwc 11\n"

START_TEST(operands_that_do_not_fit)
{
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::BiasGelu(x)\n", XCVM_INVALID_MODEL, "operand 1");
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::FastGelu(x, x, x)\n", XCVM_INVALID_MODEL,
                "at most 2");
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::QuickGelu(x) beta=1.0\n", XCVM_UNSUPPORTED,
                "attribute 'beta' is not known");
    onnx_refuse(MS "input x f32[2x3x5]\ninput b f32[5]\noutput y\ny = com.microsoft::BiasSplitGelu(x, b)\n",
                XCVM_UNSUPPORTED, "even");
    onnx_refuse(MS "input x f32[2x3]\ninput g f32[2x3]\noutput y\ny = com.microsoft::SkipLayerNormalization(x, x, g)\n",
                XCVM_SHAPE_MISMATCH, "gamma has 2 dimensions");
    onnx_refuse(MS "input i i32[1x2]\ninput t f32[4x3]\ninput g f32[3]\noutput y\n"
                   "y = com.microsoft::EmbedLayerNormalization(i, i, t, t, _, g, g)\n",
                XCVM_INVALID_MODEL, "segment");
    onnx_refuse(MS "input x f32[1x1x4x4]\ninput w f32[1x1x3x3]\noutput y\n"
                   "y = com.microsoft::FusedConv(x, w) activation=\"Cosine\"\n",
                XCVM_UNSUPPORTED, "'Cosine'");
    onnx_refuse(MS "input x f32[2x2]\noutput y\ny = com.microsoft::FusedGemm(x, x) activation=\"Cosine\"\n",
                XCVM_UNSUPPORTED, "'Cosine'");
    onnx_refuse(MS "input x f32[2x2]\ninput y f32[3x3]\noutput z\nz = com.microsoft::FusedMatMul(x, y)\n",
                XCVM_SHAPE_MISMATCH, "");
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::Inverse(x)\n", XCVM_SHAPE_MISMATCH,
                "2 x 3 have no inverse");
    onnx_refuse(MS "input x str[2]\noutput y\ny = com.microsoft::MurmurHash3(x)\n", XCVM_UNSUPPORTED, "str");
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::CDist(x, x) metric=\"cosine\"\n", XCVM_UNSUPPORTED,
                "'cosine'");
    onnx_refuse(MS "input x f32[2x3]\noutput y\ny = com.microsoft::ComplexMul(x, x)\n", XCVM_SHAPE_MISMATCH,
                "real and imaginary");
}
END_TEST

START_TEST(attention_that_does_not_fit)
{
    static const char head[] = MS "input x f32[1x2x6]\ninput w f32[6x18]\noutput y\n";
    char text[512];
    static const struct {
        const char *node;
        xcvm_status status;
        const char *why;
    } wrong[] = {
        {"y = com.microsoft::Attention(x, w)\n", XCVM_INVALID_MODEL, "'num_heads' is missing"},
        {"y = com.microsoft::Attention(x, w) num_heads=0\n", XCVM_OUT_OF_RANGE, "'num_heads' is 0"},
        {"y = com.microsoft::Attention(x, w) num_heads=4\n", XCVM_SHAPE_MISMATCH, "4 heads"},
        {"y = com.microsoft::Attention(x, w) num_heads=2 qkv_hidden_sizes=[6 6]\n", XCVM_INVALID_MODEL, "2 entries"},
        {"y = com.microsoft::Attention(x, w) num_heads=2 qkv_hidden_sizes=[6 6 8]\n", XCVM_SHAPE_MISMATCH, "20"},
        {"y = com.microsoft::Attention(x, w) num_heads=2 qkv_hidden_sizes=[6 4 8]\n", XCVM_SHAPE_MISMATCH, "4"},
        {"y = com.microsoft::Attention(x, w) num_heads=2 do_rotary=1\n", XCVM_UNSUPPORTED, "do_rotary"},
        {"y = com.microsoft::Attention(x, w) num_heads=2 past_present_share_buffer=1\n", XCVM_UNSUPPORTED, "share"},
        {"y = com.microsoft::Attention(x, w, _, x) num_heads=2\n", XCVM_TYPE_MISMATCH, "mask is f32"},
        {"y = com.microsoft::MultiHeadAttention(x, x) num_heads=2\n", XCVM_INVALID_MODEL,
         "key is present without value"},
        {"y = com.microsoft::MultiHeadAttention(x, x, x) num_heads=5\n", XCVM_SHAPE_MISMATCH, "5 heads"},
        {"y = com.microsoft::MultiHeadAttention(x, x, x, w) num_heads=2\n", XCVM_SHAPE_MISMATCH, "bias"},
        {"y = com.microsoft::GroupQueryAttention(x, x, x) num_heads=2 kv_num_heads=2\n", XCVM_INVALID_MODEL,
         "seqlens_k"},
        {"y = com.microsoft::DecoderMaskedMultiHeadAttention(x, x, x, _, _, x, x, _, _, x) num_heads=2\n",
         XCVM_UNSUPPORTED, "cache_indirection"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "%s%s", head, wrong[i].node);
        onnx_refuse(text, wrong[i].status, wrong[i].why);
    }
    onnx_refuse(MS "input x f32[1x2x6]\ninput n i32[1]\ninput t i32[]\noutput y\n"
                   "y = com.microsoft::GroupQueryAttention(x, x, x, _, _, n, t) num_heads=3 kv_num_heads=2\n",
                XCVM_INVALID_MODEL, "do not divide");
    onnx_refuse(MS "input x f32[1x2x6]\ninput m i32[5]\noutput y\n"
                   "y = com.microsoft::MultiHeadAttention(x, x, x, _, m) num_heads=2\n",
                XCVM_UNSUPPORTED, "5 entries");
    onnx_refuse(MS "input x f32[1x2x6]\ninput p i64[1]\ninput c f32[4x2]\noutput y\n"
                   "y = com.microsoft::RotaryEmbedding(x, p, c, c)\n",
                XCVM_UNSUPPORTED, "to fit");
    onnx_refuse(MS "input x f32[1x2x6]\ninput p i64[1]\ninput c f32[4x2]\noutput y\n"
                   "y = com.microsoft::RotaryEmbedding(x, p, c, c) rotary_embedding_dim=4\n",
                XCVM_INVALID_MODEL, "num_heads");
}
END_TEST

START_TEST(blocks_that_are_seen)
{
#define SPARSE(rows, columns)                                                                                          \
    MS "input x f32[1x1x4]\ninput c f32[1x1x32x4]\n" rows columns "init t i32[1] 1\ninit k i32[1] 1\noutput y\n"       \
       "y = com.microsoft::SparseAttention(x, x, x, c, c, r, q, t, k) num_heads=1 kv_num_heads=1 "                     \
       "sparse_block_size=16\n"
    onnx_refuse(SPARSE("input r i32[1x3]\n", "init q i32[1x3] 0 0 1\n"), XCVM_UNSUPPORTED, "known at compile time");
    onnx_refuse(SPARSE("init r i32[1x3] 0 1 4\n", "init q i32[1x3] 0 0 1\n"), XCVM_OUT_OF_RANGE, "columns 1 to 4 of 3");
    onnx_refuse(SPARSE("init r i32[1x3] 0 2 1\n", "init q i32[1x3] 0 0 1\n"), XCVM_OUT_OF_RANGE, "columns 2 to 1");
    onnx_refuse(SPARSE("init r i32[1x3] 0 1 3\n", "init q i32[1x3] 0 0 2\n"), XCVM_OUT_OF_RANGE, "selects block 2");
    onnx_refuse(SPARSE("init r i32[3] 0 1 3\n", "init q i32[1x3] 0 0 1\n"), XCVM_SHAPE_MISMATCH, "2 dimensions");
#undef SPARSE
}
END_TEST

START_TEST(blocks_that_do_not_fit)
{
    static const char head[] = MS "input a f32[2x32]\ninput b u8[3x2x8]\ninput s f32[3x2]\noutput y\n";
    static const struct {
        const char *attributes;
        xcvm_status status;
        const char *why;
    } wrong[] = {
        {"K=32 N=3", XCVM_INVALID_MODEL, "'block_size' is missing"},
        {"K=32 N=3 block_size=8", XCVM_OUT_OF_RANGE, "from 16 on"},
        {"K=32 N=3 block_size=24", XCVM_OUT_OF_RANGE, "power of two"},
        {"K=32 N=3 block_size=16 bits=3", XCVM_UNSUPPORTED, "'bits' is 3"},
        {"K=0 N=3 block_size=16", XCVM_OUT_OF_RANGE, "'K' is 0"},
        {"K=32 N=4 block_size=16", XCVM_SHAPE_MISMATCH, "the shape of B differs"},
        {"K=32 N=3 block_size=32", XCVM_SHAPE_MISMATCH, "the shape of B differs"},
        {"K=32 N=3 block_size=16 bits=8", XCVM_SHAPE_MISMATCH, "the shape of B differs"},
        {"K=32 N=3 block_size=16 weight_prepacked=1", XCVM_UNSUPPORTED, "graphics"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, "%sy = com.microsoft::MatMulNBits(a, b, s) %s\n", head, wrong[i].attributes);
        onnx_refuse(text, wrong[i].status, wrong[i].why);
    }
    snprintf(text, sizeof text, "%sy = com.microsoft::MatMulNBits(a, a, s) K=32 N=3 block_size=16\n", head);
    onnx_refuse(text, XCVM_TYPE_MISMATCH, "B is f32");
    snprintf(text, sizeof text, "%sy = com.microsoft::MatMulNBits(a, b, s, s, _, a) K=32 N=3 block_size=16\n", head);
    onnx_refuse(text, XCVM_SHAPE_MISMATCH, "");
    snprintf(text, sizeof text, "%sy = com.microsoft::MatMulNBits(a, b, a) K=32 N=3 block_size=16\n", head);
    onnx_refuse(text, XCVM_SHAPE_MISMATCH, "scales");
    onnx_refuse(MS "input a f32[2x4]\ninput b u8[8]\ninput s f32[1]\noutput y\n"
                   "y = com.microsoft::MatMulBnb4(a, b, s) K=4 N=4 block_size=16 quant_type=2\n",
                XCVM_OUT_OF_RANGE, "'quant_type' is 2");
    onnx_refuse(MS "input a f32[2x4]\ninput b u8[7]\ninput s f32[1]\noutput y\n"
                   "y = com.microsoft::MatMulBnb4(a, b, s) K=4 N=4 block_size=16 quant_type=1\n",
                XCVM_SHAPE_MISMATCH, "the shape of B differs");
    onnx_refuse(MS "input d u8[4x8]\ninput i i64[2]\ninput s f32[4x1]\noutput y\n"
                   "y = com.microsoft::GatherBlockQuantized(d, i, s) block_size=16 bits=5\n",
                XCVM_OUT_OF_RANGE, "'bits' is 5");
    onnx_refuse(MS "input d u8[4x8]\ninput i i64[2]\ninput s f32[4x1]\noutput y\n"
                   "y = com.microsoft::GatherBlockQuantized(d, i, s) block_size=16 gather_axis=1 quantize_axis=0\n",
                XCVM_UNSUPPORTED, "axis 0");
    onnx_refuse(MS "input d u8[4x8]\ninput i i64[2]\ninput s f32[4x1]\ninput z u8[]\noutput y\n"
                   "y = com.microsoft::GatherBlockQuantized(d, i, s, z) block_size=16\n",
                XCVM_OUT_OF_RANGE, "axis");
    onnx_refuse(MS "input d f32[4x8]\ninput i i64[2]\ninput s f32[4x1]\noutput y\n"
                   "y = com.microsoft::GatherBlockQuantized(d, i, s) block_size=16\n",
                XCVM_UNSUPPORTED, "data is f32");
}
END_TEST

START_TEST(quantized_values_that_do_not_fit)
{
    onnx_refuse(MS "input x u8[2]\ninput s f32[]\noutput y\ny = com.microsoft::QLinearAdd(x, s, _, x, s)\n",
                XCVM_INVALID_MODEL, "operand 6");
    onnx_refuse(MS "input x f32[2]\ninput s f32[]\noutput y\ny = com.microsoft::QLinearSigmoid(x, s, _, s)\n",
                XCVM_TYPE_MISMATCH, "f32, u8 or i8 is expected");
    onnx_refuse(MS "input x u8[2]\ninput s f32[]\noutput y\ny = com.microsoft::QLinearSoftmax(x, s, _, s) axis=0\n",
                XCVM_INVALID_MODEL, "'opset' is missing");
    onnx_refuse(MS "input x u8[2]\ninput s f32[]\ninput z u8[]\noutput y\n"
                   "y = com.microsoft::QLinearConcat(s, z, x, s) axis=0\n",
                XCVM_INVALID_MODEL, "4 operands");
    onnx_refuse(MS "input x f32[1x2x3]\ninput w u8[1x3x8]\ninput s f32[1]\ninput z u8[1]\noutput y\n"
                   "y = com.microsoft::DynamicQuantizeLSTM(x, w, w) hidden_size=2\n",
                XCVM_INVALID_MODEL, "operand 8");
}
END_TEST

/* A DynamicQuantizeLSTM of one direction, 3 inputs and 2 units, with weights of this type and zero point. It is
 * computed in integers if they are requested and the zero point is the middle of the type. */
static void check_lstm(const char *dtype, int zero, bool by_column, xcc_integer_use use, size_t integers)
{
    char text[2048], list[512] = "", state[512] = "", scales[128] = "";
    for (int i = 0; i < 24; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), " %d", i * 7 % 50 - 25 + zero);
    for (int i = 0; i < 16; i++)
        snprintf(state + strlen(state), sizeof state - strlen(state), " %d", i * 11 % 60 - 30 + zero);
    for (int i = 0; i < (by_column ? 8 : 1); i++)
        snprintf(scales + strlen(scales), sizeof scales - strlen(scales), " %d.5", i + 1);
    const char *shape = by_column ? "1x8" : "1";
    snprintf(text, sizeof text,
             MS
             "input x f32[4x2x3]\ninit w %s[1x3x8]%s\ninit r %s[1x2x8]%s\ninit b f32[1x16] 1 2 3 4 5 6 7 8 8 7 6 5 4 3 "
             "2 1\ninit s f32[%s]%s\ninit z %s[1] %d\noutput y\n"
             "y = com.microsoft::DynamicQuantizeLSTM(x, w, r, b, _, _, _, _, s, z, s, z) hidden_size=2\n",
             dtype, list, dtype, state, shape, scales, dtype, zero);
    test_bytes model = onnx_from_text(text), program = {.at = NULL};
    const xcc_options options = {.size = sizeof options, .quantized.integers = use};
    xcc_report report = {.size = sizeof report};
    xcvm_error error;
    ck_assert_msg(xcc_compile(model.at, model.length, &options, (xcvm_sink){test_bytes_sink, &program}, &report,
                              &error) == XCVM_OK,
                  "%s", error.message);
    ck_assert_uint_eq(report.integer_products, integers);
    ck_assert_uint_eq(report.float_products, integers == 0 && use != XCC_INTEGER_NEVER);
    ck_assert_uint_eq(report.faster_as_floats, 0);
    /* Nothing is made of weights as floats that only integers are read of. */
    ck_assert(integers == 0 || report.nodes_before <= 8);
    free(model.at);
    free(program.at);
}

/* Operands that do not suit integers are refused like floats. */
static void check_wrong_lstm(const char *zero, const char *message)
{
    char text[1024];
    snprintf(text, sizeof text,
             MS "input x f32[4x2x1]\ninit w i8[1x1x4] 1 2 3 4\ninit r i8[1x1x4] 4 3 2 1\ninit s f32[1] 0.5\n"
                "init z %s\noutput y\n"
                "y = com.microsoft::DynamicQuantizeLSTM(x, w, r, _, _, _, _, _, s, z, s, z) hidden_size=1\n",
             zero);
    test_bytes model = onnx_from_text(text), program = {.at = NULL};
    const xcc_options options = {.size = sizeof options, .quantized.integers = XCC_INTEGER_ALWAYS};
    xcvm_error error;
    ck_assert_int_ne(
        xcc_compile(model.at, model.length, &options, (xcvm_sink){test_bytes_sink, &program}, NULL, &error), XCVM_OK);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    free(model.at);
}

START_TEST(recurrence_of_bytes)
{
    check_wrong_lstm("i8[0]", "w has the wrong shape ([0x4x1]");
    check_wrong_lstm("i8[3] 0 0 0", "w has the wrong shape ([3x4x1]");
    /* The product with the input and the recurrence. */
    check_lstm("i8", 0, false, XCC_INTEGER_ALWAYS, 2);
    check_lstm("i8", 0, true, XCC_INTEGER_ALWAYS, 2);
    check_lstm("u8", 128, true, XCC_INTEGER_ALWAYS, 2);
    check_lstm("i8", 0, false, XCC_INTEGER_NEVER, 0);
    check_lstm("i8", 3, false, XCC_INTEGER_ALWAYS, 0);
    check_lstm("u8", 100, false, XCC_INTEGER_ALWAYS, 0);
}
END_TEST

START_TEST(operators_that_are_refused_by_name)
{
    onnx_refuse(MS "input x str[2]\noutput y\ny = com.microsoft::Tokenizer(x) mark=0\n", XCVM_UNSUPPORTED,
                "by regular expressions");
    onnx_refuse(MS "input x i32[1x4]\ninput n i32[1]\noutput y\ny = com.microsoft::GreedySearch(x, n)\n",
                XCVM_UNSUPPORTED, "run the decoder itself");
    onnx_refuse(MS "input x f32[2x2]\noutput y\ny = com.microsoft::Nothing(x)\n", XCVM_UNSUPPORTED,
                "there is no such operator in com.microsoft");
}
END_TEST

/* Eight outputs come in blocks of eight alone, which the model has to have been saved for. */
START_TEST(blocked_layout_of_eight)
{
    onnx_expect(NCHWC "input x f32[1x1x1x2]\ninit w f32[8x1x1x1] 1 2 3 4 5 6 7 8\ninit b f32[8] 0 0 0 0 0 0 0 -9\n"
                      "output y\nc = com.microsoft.nchwc::Conv(x, w, b) activation=\"Relu\"\n"
                      "y = com.microsoft.nchwc::ReorderOutput(c) channels=8\n",
                "x f32[1x1x1x2] 1 -1\n", "y f32[1x8x1x2] 1 0 2 0 3 0 4 0 5 0 6 0 7 0 0 0\n");
    onnx_expect(NCHWC "input x f32[1x1x1x1]\ninput w f32[8x1x1x1]\noutput y\ny = com.microsoft.nchwc::Conv(x, w)\n",
                "x f32[1x1x1x1] 2\nw f32[8x1x1x1] 1 2 3 4 5 6 7 8\n", "y f32[1x8x1x1] 2 4 6 8 10 12 14 16\n");
    /* Padded to eight channels, two of which are kept; channels are last before and after. */
    onnx_expect(NCHWC "input x f32[1x1x2x2]\noutput y\nr = com.microsoft.nchwc::ReorderInput(x) channels_last=1\n"
                      "init w f32[8x8x1x1] 1 0 0 0 0 0 0 0 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
                      "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                      "c = com.microsoft.nchwc::Conv(r, w)\np = com.microsoft.nchwc::MaxPool(c) kernel_shape=[1 2]\n"
                      "y = com.microsoft.nchwc::ReorderOutput(p) channels=2 channels_last=1\n",
                "x f32[1x1x2x2] 1 2 3 1\n", "y f32[1x1x1x2] 3 20\n");
    onnx_expect(NCHWC "input x f32[1x8x1x2]\noutput a\noutput m\noutput k\noutput u\n"
                      "a = com.microsoft.nchwc::GlobalAveragePool(x)\nm = com.microsoft.nchwc::GlobalMaxPool(x)\n"
                      "k = com.microsoft.nchwc::AveragePool(x) kernel_shape=[1 2]\n"
                      "u = com.microsoft.nchwc::Upsample(m) scales=[1 1 1 2]\n",
                "x f32[1x8x1x2] 1 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
                "a f32[1x8x1x1] 2 0 0 0 0 0 0 0\nm f32[1x8x1x1] 3 0 0 0 0 0 0 0\nk f32[1x8x1x1] 2 0 0 0 0 0 0 0\n"
                "u f32[1x8x1x2] 3 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    onnx_refuse(NCHWC "input x f32[1x1x1x2]\ninput w f32[9x1x1x1]\noutput y\ny = com.microsoft.nchwc::Conv(x, w)\n",
                XCVM_SHAPE_MISMATCH, "blocks of 8");
    onnx_refuse(NCHWC "input x f32[1x1x1x2]\ninput w f32[8x1x1]\noutput y\ny = com.microsoft.nchwc::Conv(x, w)\n",
                XCVM_SHAPE_MISMATCH, "4 are expected");
    onnx_refuse(NCHWC "input x f32[1x8x1x2]\noutput y\ny = com.microsoft.nchwc::ReorderOutput(x) channels=9\n",
                XCVM_SHAPE_MISMATCH, "at most 8");
    onnx_refuse(NCHWC "input x f32[1x8x1x2]\noutput y\ny = com.microsoft.nchwc::Upsample(x) scales=[1 2 1 1]\n",
                XCVM_OUT_OF_RANGE, "entry 1");
}
END_TEST

/* Which ONNX Runtime puts into ONNX's own domain, as of any opset. */
START_TEST(normalization_in_the_domain_of_onnx)
{
    onnx_expect("opset 11\ninput x f32[2]\ninit s f32[2] 1 10\noutput y\noutput i\noutput z\n"
                "y, i = SimplifiedLayerNormalization(x, s) epsilon=0.0 stash_type=1\n"
                "z = LayerNormalization(x, s) epsilon=0.0\n",
                "x f32[2] 3 4\n", "y f32[2] 0.84852814 11.313708\ni f32[1] 0.28284271\nz f32[2] -1 10\n");
}
END_TEST

START_TEST(products)
{
    onnx_expect(MS "input x f32[1x2]\ninput b f32[1x1x2]\noutput y\noutput z\n"
                   "y = com.microsoft::TransposeMatMul(x, x) transA=1 alpha=0.5\n"
                   "z = com.microsoft::TransposeMatMul(b, x) transB=1 alpha=0.5\n",
                "x f32[1x2] 2 4\nb f32[1x1x2] 1 3\n", "y f32[2x2] 2 4 4 8\nz f32[1x1x1] 7\n");
    onnx_refuse(MS "input x f32[1x2]\noutput y\ny = com.microsoft::TransposeMatMul(x, x) transA=1 transBatchA=1\n",
                XCVM_UNSUPPORTED, "'transBatchA' is not known");
}
END_TEST

/* The second of two experts is selected, and its share does not change. */
START_TEST(experts)
{
    onnx_expect(MS "input x f32[1x1]\ninput r f32[1x2]\ninput v f32[2x1x1]\ninput w f32[2x1x1]\noutput y\n"
                   "y = com.microsoft::MoE(x, r, v, _, w) k=1 activation_type=\"relu\"\n",
                "x f32[1x1] 2\nr f32[1x2] 0 1\nv f32[2x1x1] 1 3\nw f32[2x1x1] 1 -2\n", "y f32[1x1] -8.772703\n");
    onnx_refuse(MS "input x f32[1x1]\ninput r f32[1x2]\ninput v f32[2x1x1]\noutput y\n"
                   "y = com.microsoft::MoE(x, r, v, _, v) k=3\n",
                XCVM_OUT_OF_RANGE, "'k' is 3");
}
END_TEST

START_TEST(channels_last)
{
    onnx_expect(NHWC
                "input x f32[1x1x2x1]\ninit w f32[2x1x1x1] 1 10\noutput y\noutput m\noutput a\noutput g\noutput h\n"
                "y = com.ms.internal.nhwc::Conv(x, w)\nm = com.ms.internal.nhwc::MaxPool(y) kernel_shape=[1 2]\n"
                "a = com.ms.internal.nhwc::AveragePool(y) kernel_shape=[1 2]\n"
                "g = com.ms.internal.nhwc::GlobalAveragePool(y)\nh = com.ms.internal.nhwc::GlobalMaxPool(y)\n",
                "x f32[1x1x2x1] 1 3\n",
                "y f32[1x1x2x2] 1 10 3 30\nm f32[1x1x1x2] 3 30\na f32[1x1x1x2] 2 20\ng f32[1x1x1x2] 2 20\n"
                "h f32[1x1x1x2] 3 30\n");
    onnx_refuse(NHWC "input x f32[2x3]\noutput y\ny = com.ms.internal.nhwc::GlobalMaxPool(x)\n", XCVM_SHAPE_MISMATCH,
                "3 or more");
}
END_TEST

Suite *suite_compiler_lower_contrib(void)
{
    Suite *suite = suite_create("compiler_lower_contrib");
    TCase *tests = tcase_create("contrib");
    tcase_add_test(tests, operands_that_do_not_fit);
    tcase_add_test(tests, attention_that_does_not_fit);
    tcase_add_test(tests, blocks_that_are_seen);
    tcase_add_test(tests, blocks_that_do_not_fit);
    tcase_add_test(tests, quantized_values_that_do_not_fit);
    tcase_add_test(tests, recurrence_of_bytes);
    tcase_add_test(tests, operators_that_are_refused_by_name);
    tcase_add_test(tests, blocked_layout_of_eight);
    tcase_add_test(tests, normalization_in_the_domain_of_onnx);
    tcase_add_test(tests, products);
    tcase_add_test(tests, experts);
    tcase_add_test(tests, channels_last);
    suite_add_tcase(suite, tests);
    return suite;
}
