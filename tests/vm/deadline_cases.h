/* Programs in which each instruction runs for a long time: CASE(instruction, inputs, body). Inputs are $1, $2 ..., of
 * the given types, separated by semicolons. The prefix "z" fills an input with zeros, "o" with ones, and "n" with
 * numbers from -1 to 1, or any for integers. Inputs use no memory of their own, however large. ELEMENTS is a number
 * that takes some dozens of milliseconds. An instruction may have several cases, for kernels that have loops of their
 * own. */
#ifndef XCVM_TESTS_VM_DEADLINE_CASES_H
#define XCVM_TESTS_VM_DEADLINE_CASES_H

#define ELEMENTS "33554432"

/* Instructions that take a few steps for any operands, or share their memory. */
#define IDLE_INSTRUCTIONS                                                                                              \
    "In", "Out", "Free", "Load", "Store", "Jmp", "JmpTrue", "JmpFalse", "Identity", "Print", "KernelCall", "Shape",    \
        "Size", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "SequenceConstruct", "SequenceAt", "SequenceLength",     \
        "Optional", "OptionalGetElement", "OptionalHasElement", "HostCall", "AllReduce", "AllReduceBegin",             \
        "AllReduceEnd"

/* Decoders are other libraries' loops; tests/ops/image/test_image_decoder.c looks at them. */
#define OTHER_INSTRUCTIONS "ImageDecoder"

/* Instructions of a class differ in their names alone (tests/vm/test_deadlines.c); so do these. */
#define LINES "Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax", "ArgMin"

#define E ELEMENTS
#define DEADLINE_CASES(CASE)                                                                                           \
    CASE("Abs", "n i16[" E "]", "$9 = Abs($1)")                                                                        \
    CASE("Clip", "n i16[" E "]", "$9 = Clip($1, i16[] -3, i16[] 3)")                                                   \
    CASE("Shrink", "n i16[" E "]", "$9 = Shrink($1)")                                                                  \
    CASE("Sin", "n f64[" E "]", "$9 = Sin($1)")                                                                        \
    CASE("Cast", "n f32[" E "]", "$9 = Cast($1, to=i64)")                                                              \
    CASE("Cast", "n f32[3000000]", "$9 = Cast($1, to=str)")                                                            \
    CASE("Cast", "z f32[" E "]", "$9 = Cast($1, to=f8e4m3fn)")                                                         \
    CASE("BitCast", "n f32[" E "]", "$9 = BitCast($1, to=i32)")                                                        \
    CASE("Mod", "n f32[" E "]; o f32[" E "]", "$9 = Mod($1, $2, fmod=1)")                                              \
    CASE("Mod", "n i32[" E "]; o i32[" E "]", "$9 = Mod($1, $2)")                                                      \
    CASE("BitShift", "o u32[" E "]; o u32[" E "]", "$9 = BitShift($1, $2)")                                            \
    CASE("Where", "z bool[" E "]; n f32[" E "]; n f32[" E "]", "$9 = Where($1, $2, $3)")                               \
    CASE("Equal", "", "$1 = Expand(str[] \"aaaaaaaaaaaaaaaaaaaaaaaa\", i64[1] 1000000)\n$9 = Equal($1, $1)")           \
    CASE("Expand", "n f32[1]", "$9 = Expand($1, i64[1] 100000000)")                                                    \
    CASE("Transpose", "n f32[8192x8192]", "$9 = Transpose($1)")                                                        \
    CASE("Transpose", "n f32[16x8388608]", "$9 = Transpose($1)")                                                       \
    CASE("Concat", "n f32[" E "]; n f32[" E "]", "$9 = Concat([$1, $2], axis=0)")                                      \
    CASE("Split", "n f32[" E "x2]", "$8, $9 = Split($1, _, axis=1)")                                                   \
    CASE("Slice", "n f32[" E "x2]", "$9 = Slice($1, i64[1] 0, i64[1] 100000000, _, i64[1] 2)")                         \
    CASE("Pad", "n u8[2]", "$9 = Pad($1, i64[2] 400000000 400000000, mode=wrap)")                                      \
    CASE("Pad", "n u8[2]", "$9 = Pad($1, i64[2] 400000000 400000000)")                                                 \
    CASE("Tile", "n f32[3]", "$9 = Tile($1, i64[1] 40000000)")                                                         \
    CASE("Range", "", "$9 = Range(f16[] 0, f16[] 65000, f16[] 0.0005)")                                                \
    CASE("EyeLike", "z f32[10000x10000]", "$9 = EyeLike($1)")                                                          \
    CASE("Trilu", "n f32[10000x10000]", "$9 = Trilu($1)")                                                              \
    CASE("Gather", "n f32[16]; z i64[" E "]", "$9 = Gather($1, $2)")                                                   \
    CASE("GatherElements", "n f32[" E "]; z i64[" E "]", "$9 = GatherElements($1, $2)")                                \
    CASE("GatherND", "n f32[16]; z i64[" E "x1]", "$9 = GatherND($1, $2)")                                             \
    CASE("ScatterElements", "n f32[" E "]; z i64[" E "]; n f32[" E "]", "$9 = ScatterElements($1, $2, $3)")            \
    CASE("ScatterND", "n f32[" E "]; z i64[" E "x1]; n f32[" E "]", "$9 = ScatterND($1, $2, $3, reduction=add)")       \
    CASE("OneHot", "z i64[" E "]", "$9 = OneHot($1, i64[] 8, u8[2] 0 1)")                                              \
    CASE("NonZero", "o f32[" E "]", "$9 = NonZero($1)")                                                                \
    CASE("Compress", "n f32[" E "]; o bool[" E "]", "$9 = Compress($1, $2, axis=0)")                                   \
    CASE("TopK", "n f32[8000000]", "$8, $9 = TopK($1, i64[] 4000000)")                                                 \
    CASE("Unique", "n f32[4000000]", "$6, $7, $8, $9 = Unique($1)")                                                    \
    CASE("Unique", "z f32[2000x20000]", "$6, $7, $8, $9 = Unique($1, axis=0)")                                         \
    CASE("ReverseSequence", "n f32[" E "x2]; z i64[2]", "$9 = ReverseSequence($1, $2)")                                \
    CASE("GlobalNorm", "n f32[" E "]; n f32[" E "]", "$9 = GlobalNorm([$1, $1, $1, $1], [$2, $2, $2, $2])")            \
    CASE("ReduceSum", "n f64[" E "]", "$9 = ReduceSum($1, _)")                                                         \
    CASE("ReduceLogSumExp", "n f64[2x" E "]", "$9 = ReduceLogSumExp($1, i64[1] 0)")                                    \
    CASE("ArgMax", "n f64[" E "]", "$9 = ArgMax($1)")                                                                  \
    CASE("Softmax", "n f64[" E "]", "$9 = Softmax($1)")                                                                \
    CASE("Softmax", "n f32[" E "x3]", "$9 = Softmax($1, axis=0)")                                                      \
    CASE("Softmax", "n f16[" E "]", "$9 = Softmax($1)")                                                                \
    CASE("LogSoftmax", "n f32[" E "]", "$9 = LogSoftmax($1)")                                                          \
    CASE("Hardmax", "n f32[" E "]", "$9 = Hardmax($1)")                                                                \
    CASE("CumSum", "n f32[" E "]", "$9 = CumSum($1, i64[] 0)")                                                         \
    CASE("CumSum", "n f32[1000000x40]", "$9 = CumSum($1, i64[] 0)")                                                    \
    CASE("CumProd", "n f16[" E "]", "$9 = CumProd($1, i64[] 0)")                                                       \
    CASE("MatMul", "n f32[2000000x1000]; n f32[1000x16]", "$9 = MatMul($1, $2)")                                       \
    CASE("MatMul", "n f64[4000x4000]; n f64[4000x4000]", "$9 = MatMul($1, $2)")                                        \
    CASE("MatMul", "n i32[4000x4000]; n i32[4000x4000]", "$9 = MatMul($1, $2)")                                        \
    CASE("MatMul", "n f16[4000x4000]; n f16[4000x4000]", "$9 = MatMul($1, $2)")                                        \
    CASE("Gemm", "n f64[4000x4000]; n f64[4000x4000]; n f64[4000]", "$9 = Gemm($1, $2, $3, alpha=2.0, beta=3.0)")      \
    CASE("Gemm", "n f32[4000x4000]; n f32[4000x4000]", "$9 = Gemm($1, $2, _)")                                         \
    CASE("MatMulInteger", "n u8[4000x4000]; n i8[4000x4000]", "$9 = MatMulInteger($1, $2, _, _)")                      \
    CASE("QLinearMatMul", "n u8[4000x4000]; n u8[4000x4000]",                                                          \
         "$9 = QLinearMatMul($1, f32[] 1, u8[] 3, $2, f32[] 1, u8[] 3, f32[] 1, u8[] 3)")                              \
    CASE("QuantizedConv", "n u8[1x1000x1000x64]; n i8[16x48x16x4]; z i32[256]; n f32[256]",                            \
         "$9 = QuantizedConv($1, $2, $3, $4, kernel_shape=[3 1], strides=[1 1], pads=[1 0 1 0], dilations=[1 1])")     \
    CASE("QuantizedDepthwiseConv", "n u8[1x2000x2000x64]; n i8[9x9x64]; z i32[64]; n f32[64]",                         \
         "$9 = QuantizedDepthwiseConv($1, $2, $3, $4, strides=[1 1], pads=[4 4 4 4], dilations=[1 1])")                \
    CASE("QuantizedDepthwiseConv", "n u8[1x2100x4096x1]; n i8[2000x2000x1]; z i32[1]; n f32[1]",                       \
         "$9 = QuantizedDepthwiseConv($1, $2, $3, $4, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                \
    CASE("QuantizedGemm", "n u8[8000x8000]; n i8[500x2000x16x4]; z i32[8000]; n f32[8000]",                            \
         "$9 = QuantizedGemm($1, $2, $3, $4, _)")                                                                      \
    CASE("QuantizedAdd", "n u8[" E "x1]; n u8[1x8]", "$9 = QuantizedAdd($1, $2)")                                      \
    CASE("QuantizedMul", "n u8[" E "x1]; n u8[1x8]", "$9 = QuantizedMul($1, $2)")                                      \
    CASE("Lookup", "n u8[8x" E "]; n u8[256]", "$9 = Lookup($1, $2)")                                                  \
    CASE("QuantizedMaxPool", "n u8[1x2000x2000x8]",                                                                    \
         "$9 = QuantizedMaxPool($1, kernel_shape=[50 50], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")            \
    CASE("QuantizedAveragePool", "n u8[1x2000x2000x8]",                                                                \
         "$9 = QuantizedAveragePool($1, kernel_shape=[50 50], strides=[1 1], pads=[0 0 0 0])")                         \
    CASE("PackedGemm", "n f32[4000x4000]; n f32[250x4000x16]", "$9 = PackedGemm($1, $2, _, _, columns=4000)")          \
    CASE("Bf16Gemm", "n f32[6000x6000]; n bf16[375x3000x16x2]", "$9 = Bf16Gemm($1, $2, _, _, columns=6000)")           \
    CASE("BlockQuantizedGemm", "n f32[16x32768]; n u8[2048x4096x64]; n f32[2048x1024x16]",                             \
         "$9 = BlockQuantizedGemm($1, $2, $3, columns=32768, depth=32768, bits=4, block_size=32)")                     \
    CASE("BlockQuantizedGemm", "n f32[16x32768]; n u8[2048x4096x64]; n f32[2048x1024x16]",                             \
         "$9 = BlockQuantizedGemm($1, $2, $3, columns=32768, depth=32768, bits=4, block_size=32, activations=int8)")   \
    CASE("BlockQuantizedGemm", "n f32[4000x4000]; n u8[250x1000x64]; n f32[250x125x16]",                               \
         "$9 = BlockQuantizedGemm($1, $2, $3, columns=4000, depth=4000, bits=8, block_size=32)")                       \
    CASE("BlockQuantizedGemm", "n f32[4000x4000]; n u8[250x1000x64]; n f32[250x125x16]",                               \
         "$9 = BlockQuantizedGemm($1, $2, $3, columns=4000, depth=4000, bits=8, block_size=32, activations=int8)")     \
    CASE("Det", "n f64[2000x2000]", "$9 = Det($1)")                                                                    \
    CASE("Conv", "n f32[1x64x1000x1000]; n f32[64x64x3x3]",                                                            \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[1 1 1 1], dilations=[1 1])")                                    \
    CASE("Conv", "n f32[1x1x3000x3000]; n f32[1x1x1000x1000]",                                                         \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                                    \
    CASE("Conv", "n f16[1x1x3000x3000]; n f16[1x1x1000x1000]",                                                         \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                                    \
    CASE("Conv", "n f64[1x1x3000x3000]; n f64[1x1x1000x1000]",                                                         \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                                    \
    CASE("Conv", "n f32[1x1x3000x3000]; n f32[1x1x1000x1000]",                                                         \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[1000 1000 1000 1000], dilations=[2 2])")                        \
    CASE("Conv", "n f32[1x16x3000x3000]; n f32[16x1x3x3]",                                                             \
         "$9 = Conv($1, $2, _, _, strides=[1 1], pads=[1 1 1 1], dilations=[1 1], group=16)")                          \
    CASE("ConvTranspose", "n f64[1x1x1500x1500]; n f64[1x1x1000x1000]",                                                \
         "$9 = ConvTranspose($1, $2, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1], output_padding=[0 0])")        \
    CASE("ConvTranspose", "n f32[1x1x1500x1500]; n f32[1x1x1000x1000]",                                                \
         "$9 = ConvTranspose($1, $2, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1], output_padding=[0 0])")        \
    CASE("ConvFilterGradient", "n f32[1x64x1000x1000]; n f32[1x64x998x998]",                                           \
         "$9 = ConvFilterGradient($1, $2, kernel_shape=[3 3], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")        \
    CASE("ConvFilterGradient", "n f32[1x1x3000x3000]; n f32[1x1x2001x2001]",                                           \
         "$9 = ConvFilterGradient($1, $2, kernel_shape=[1000 1000], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")  \
    CASE("ConvFilterGradient", "n f32[1x2x3000x3000]; n f32[1x2x2001x2001]",                                           \
         "$9 = ConvFilterGradient($1, $2, kernel_shape=[1000 1000], strides=[1 1], pads=[0 0 0 0], dilations=[1 1], "  \
         "group=2)")                                                                                                   \
    CASE("ConvFilterGradient", "n f32[1x16x3000x3000]; n f32[1x16x3000x3000]",                                         \
         "$9 = ConvFilterGradient($1, $2, kernel_shape=[3 3], strides=[1 1], pads=[1 1 1 1], dilations=[1 1], "        \
         "group=16)")                                                                                                  \
    CASE("ConvFilterGradient", "n f64[1x1x3000x3000]; n f64[1x1x2001x2001]",                                           \
         "$9 = ConvFilterGradient($1, $2, kernel_shape=[1000 1000], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")  \
    CASE("ConvInteger", "n u8[1x64x500x500]; n i8[64x64x5x5]",                                                         \
         "$9 = ConvInteger($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                             \
    CASE("QLinearConv", "n u8[1x64x500x500]; n u8[64x64x5x5]",                                                         \
         "$9 = QLinearConv($1, f32[] 1, u8[] 3, $2, f32[] 1, u8[] 3, f32[] 1, u8[] 3, _, strides=[1 1], "              \
         "pads=[0 0 0 0], dilations=[1 1])")                                                                           \
    CASE("MaxPool", "n f32[1x1x3000x3000]",                                                                            \
         "$9 = MaxPool($1, kernel_shape=[1500 1500], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                 \
    CASE("MaxPool", "n f32[1x1x3000x3000]",                                                                            \
         "$8, $9 = MaxPool($1, kernel_shape=[1500 1500], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")             \
    CASE("MaxPool", "n f32[1x1x1500x1500x16]",                                                                         \
         "$9 = MaxPool($1, kernel_shape=[700 700 1], strides=[1 1 1], pads=[0 0 0 0 0 0], dilations=[1 1 1])")         \
    CASE("MaxPool", "n i8[1x1x20000000]",                                                                              \
         "$9 = MaxPool($1, kernel_shape=[1000], strides=[1], pads=[0 0], dilations=[1])")                              \
    CASE("AveragePool", "n f64[1x1x3000x3000]",                                                                        \
         "$9 = AveragePool($1, kernel_shape=[1500 1500], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")             \
    CASE("AveragePool", "n f32[1x1x8000x8000]",                                                                        \
         "$9 = AveragePool($1, kernel_shape=[3 3], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                   \
    CASE("AveragePool", "z f32[1x1x33554432x1]",                                                                       \
         "$9 = AveragePool($1, kernel_shape=[2 1], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                   \
    CASE("LpPool", "n f16[1x1x4000x4000]",                                                                             \
         "$9 = LpPool($1, kernel_shape=[500 500], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                    \
    CASE("LpPool", "n f64[1x1x3000x3000]",                                                                             \
         "$9 = LpPool($1, kernel_shape=[1500 1500], strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                  \
    CASE("MaxUnpool", "n f32[1x1x" E "]; z i64[1x1x" E "]",                                                            \
         "$9 = MaxUnpool($1, $2, _, kernel_shape=[1], strides=[1], pads=[0 0])")                                       \
    CASE("MaxRoiPool", "n f32[1x16x2000x2000]",                                                                        \
         "$9 = MaxRoiPool($1, f32[1x5] 0 0 0 1999 1999, pooled_shape=[2 2], spatial_scale=1.0)")                       \
    CASE("RoiAlign", "n f32[1x64x1000x1000]",                                                                          \
         "$9 = RoiAlign($1, f32[1x4] 0 0 999 999, i64[1] 0, output_height=700, output_width=700, sampling_ratio=64)")  \
    CASE("RoiAlign", "n f32[1x64x1000x1000]",                                                                          \
         "$9 = RoiAlign($1, f32[1x4] 0 0 999 999, i64[1] 0, mode=max, output_height=7, output_width=7, "               \
         "sampling_ratio=4000)")                                                                                       \
    CASE("RoiAlign", "z f16[1x1x1x1]; z f16[40000000x4]; z i64[40000000]", "$9 = RoiAlign($1, $2, $3)")                \
    CASE("RoiPool", "z f16[1x1x1x1]; z f16[8000000x4]; z i64[8000000]", "$9 = RoiPool($1, $2, $3)")                    \
    CASE("MaxRoiPool", "z f16[1x1x1x1]; z f16[8000000x5]", "$9 = MaxRoiPool($1, $2, pooled_shape=[1 1])")              \
    CASE("RoiPool", "n f32[1x64x1000x1000]",                                                                           \
         "$9 = RoiPool($1, f32[1x4] 0 0 999 999, i64[1] 0, output_height=7, output_width=7, samples=[4000 4000])")     \
    CASE("RoiPool", "n f32[1x64x2000x2000]",                                                                           \
         "$9 = RoiPool($1, f32[1x4] 0 0 1999 1999, i64[1] 0, output_height=2, output_width=2, samples=[])")            \
    CASE("RoiPool", "n f16[1x1x1x1000000]",                                                                            \
         "$9 = RoiPool($1, f16[1x4] 1000 0 1001 60000, i64[1] 0, output_height=1000000, output_width=1, samples=[], "  \
         "spatial_scale=100.0)")                                                                                       \
    CASE("Resize", "n f32[1x1x4000x4000]", "$9 = Resize($1, _, f32[4] 1 1 2 2, _, mode=cubic)")                        \
    CASE("Resize", "n f16[1x1x4000x4000]", "$9 = Resize($1, _, f32[4] 1 1 2 2, _)")                                    \
    CASE("Resize", "n f32[1x1x20000000]", "$9 = Resize($1, _, f32[3] 1 1 0.0001, _, mode=linear, antialias=1)")        \
    CASE("GridSample", "n f32[1x16x100x100]; n f32[1x1000x1000x2]", "$9 = GridSample($1, $2)")                         \
    CASE("GridSample", "n f32[1x500000x4x4]; n f32[1x8x8x2]", "$9 = GridSample($1, $2, mode=cubic)")                   \
    CASE("DepthToSpace", "n f32[1x16x1500x1500]", "$9 = DepthToSpace($1, blocksize=4)")                                \
    CASE("SpaceToDepth", "n f32[1x1x6000x6000]", "$9 = SpaceToDepth($1, blocksize=4)")                                 \
    CASE("NonMaxSuppression", "z f32[1x1000000x4]; n f32[1x1x1000000]",                                                \
         "$9 = NonMaxSuppression($1, $2, i64[] 1000000, f32[] 1, f32[] -2)")                                           \
    CASE("Col2Im", "n f32[1x25x3992004]",                                                                              \
         "$9 = Col2Im($1, i64[2] 2002 2002, i64[2] 5 5, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")              \
    CASE("DeformConv", "n f32[1x64x300x300]; n f32[64x64x3x3]; z f32[1x18x298x298]",                                   \
         "$9 = DeformConv($1, $2, $3, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1])")                          \
    CASE("BatchNormalization", "n f32[1x1x" E "]; o f32[1]", "$9 = BatchNormalization($1, $2, $2, $2, $2)")            \
    CASE("BatchNormalization", "n f32[1x1x" E "]; o f32[1]",                                                           \
         "$7, $8, $9 = BatchNormalization($1, $2, $2, $2, $2, training_mode=1)")                                       \
    CASE("BatchNormalizationGradient", "n f32[1x1x" E "]; o f32[1]",                                                   \
         "$7, $8, $9 = BatchNormalizationGradient($1, $1, $2)")                                                        \
    CASE("SyncBatchNormalization", "n f32[1x1x" E "]; o f32[1]",                                                       \
         "$6, $7, $8, $9 = SyncBatchNormalization($1, $2, $2, $2, $2)")                                                \
    CASE("SyncBatchNormalizationGradient", "n f32[1x1x" E "]; o f32[1]; o f64[3]",                                     \
         "$7, $8, $9 = SyncBatchNormalizationGradient($1, $1, $2, $3)")                                                \
    CASE("InstanceNormalization", "n f32[1x1x" E "]; o f32[1]", "$9 = InstanceNormalization($1, $2, $2)")              \
    CASE("LayerNormalization", "n f64[" E "]; o f64[" E "]", "$9 = LayerNormalization($1, $2, _)")                     \
    CASE("LayerNormalization", "n f32[" E "]; o f32[" E "]", "$9 = LayerNormalization($1, $2, _)")                     \
    CASE("GroupNormalization", "n f32[8x4x2000000]; o f32[4]", "$9 = GroupNormalization($1, $2, $2, num_groups=2)")    \
    CASE("RMSNormalization", "n f32[33554x1000]; o f32[1000]", "$9 = RMSNormalization($1, $2)")                        \
    CASE("LRN", "n f32[1x1000000x1x1]", "$9 = LRN($1, size=2147483647)")                                               \
    CASE("LRN", "n f64[1x1000000x1x1]", "$9 = LRN($1, size=2147483647)")                                               \
    CASE("Dropout", "n f32[" E "]", "$8, $9 = Dropout($1, f32[] 0.5, bool[] 1)")                                       \
    CASE("QuantizeLinear", "n f32[" E "]", "$9 = QuantizeLinear($1, f32[] 1, _)")                                      \
    CASE("DequantizeLinear", "n u8[" E "]", "$9 = DequantizeLinear($1, f32[] 1, _)")                                   \
    CASE("DynamicQuantizeLinear", "n f32[" E "]", "$7, $8, $9 = DynamicQuantizeLinear($1)")                            \
    CASE("RNN", "n f32[1000x16x64]; n f32[1x512x64]; n f32[1x512x512]",                                                \
         "$8, $9 = RNN($1, $2, $3, _, _, _, hidden_size=512)")                                                         \
    CASE("GRU", "n f32[1000x16x64]; n f32[1x1536x64]; n f32[1x1536x512]",                                              \
         "$8, $9 = GRU($1, $2, $3, _, _, _, hidden_size=512)")                                                         \
    CASE("LSTM", "n f32[1000x16x64]; n f32[1x2048x64]; n f32[1x2048x512]",                                             \
         "$7, $8, $9 = LSTM($1, $2, $3, _, _, _, _, _, hidden_size=512)")                                              \
    CASE("LSTMCell", "n f32[8192x4096]; n f32[8192x1024]", "$8, $9 = LSTMCell($1, [$2])")                              \
    CASE("LSTMCellGradient", "n f32[8192x1024]; n f32[8192x4096]; n f32[8192x1024]",                                   \
         "$8, $9 = LSTMCellGradient($1, _, $2, $3, [$3])")                                                             \
    CASE("PackedRNN", "n f32[2000x16x512]; n f32[32x512x16]", "$8, $9 = PackedRNN($1, $2, _, _, hidden_size=512)")     \
    CASE("PackedGRU", "n f32[1000x16x1536]; n f32[96x512x16]", "$8, $9 = PackedGRU($1, $2, _, _, _, hidden_size=512)") \
    CASE("PackedLSTM", "n f32[1000x16x2048]; n f32[128x512x16]",                                                       \
         "$7, $8, $9 = PackedLSTM($1, $2, _, _, _, _, hidden_size=512)")                                               \
    CASE("BlockQuantizedRNN", "n f32[2000x16x512]; n u8[32x64x64]; n f32[32x16x16]",                                   \
         "$8, $9 = BlockQuantizedRNN($1, $2, $3, _, _, _, hidden_size=512, bits=4)")                                   \
    CASE("BlockQuantizedGRU", "n f32[1000x16x1536]; n u8[96x64x64]; n f32[96x16x16]",                                  \
         "$8, $9 = BlockQuantizedGRU($1, $2, $3, _, _, _, _, hidden_size=512, bits=4)")                                \
    CASE("BlockQuantizedLSTM", "n f32[1000x16x2048]; n u8[128x64x64]; n f32[128x16x16]",                               \
         "$7, $8, $9 = BlockQuantizedLSTM($1, $2, $3, _, _, _, _, _, hidden_size=512, bits=4)")                        \
    CASE("QuantizedLSTM", "n f32[2000x16x2048]; n i8[128x128x16x4]; z i32[2048]; n f32[2048]",                         \
         "$7, $8, $9 = QuantizedLSTM($1, $2, $3, $4, _, _, _, _, hidden_size=512)")                                    \
    CASE("RandomNormal", "", "$9 = RandomNormal(i64[1] " E ")")                                                        \
    CASE("RandomUniform", "", "$9 = RandomUniform(i64[1] 100000000)")                                                  \
    CASE("Bernoulli", "o f32[" E "]", "$9 = Bernoulli($1)")                                                            \
    CASE("Multinomial", "n f32[1x1000000]", "$9 = Multinomial($1, sample_size=1000000)")                               \
    CASE("NegativeLogLikelihoodLoss", "n f32[" E "x2]; z i64[" E "]", "$9 = NegativeLogLikelihoodLoss($1, $2, _)")     \
    CASE("DFT", "n f32[1x1000003x1]", "$9 = DFT($1, _, _)")                                                            \
    CASE("DFT", "n f32[1x4194304x1]", "$9 = DFT($1, _, _)")                                                            \
    CASE("STFT", "n f32[1x1000000x1]", "$9 = STFT($1, i64[] 16, _, i64[] 1000)")                                       \
    CASE("MelWeightMatrix", "", "$9 = MelWeightMatrix(i64[] 10000, i64[] 20000, i64[] 16000, f32[] 0, f32[] 8000)")    \
    CASE(                                                                                                              \
        "StringNormalizer", "",                                                                                        \
        "$1 = Expand(str[] \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\", i64[1] 1000000)\n"                                     \
        "$9 = StringNormalizer($1, is_case_sensitive=0, stopwords=[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaac\" "               \
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaad\" \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaae\" \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaf\" " \
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaag\"])")                                                                       \
    CASE("TfIdfVectorizer", "o i64[300000]",                                                                           \
         "$9 = TfIdfVectorizer($1, max_gram_length=2, min_gram_length=2, max_skip_count=2147483647, "                  \
         "ngram_counts=[0 2], ngram_indexes=[0 1 2 3], pool_int64s=[7 8 1 2 3 4])")                                    \
    CASE("StringConcat", "", "$1 = Expand(str[] \"aaaaaaaaaaaaaaaa\", i64[1] 1000000)\n$9 = StringConcat($1, $1)")     \
    CASE("StringSplit", "", "$1 = Expand(str[] \"a b c d e f g h\", i64[1] 500000)\n$8, $9 = StringSplit($1)")         \
    CASE("RegexFullMatch", "",                                                                                         \
         "$1 = Expand(str[] "                                                                                          \
         "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", "              \
         "i64[1] 100000)\n$9 = RegexFullMatch($1, pattern=\"(?:(?:a{1,30}){1,30})*b\")")                               \
    CASE("SequenceInsert", "z f32[1000000x1]",                                                                         \
         "$2 = SplitToSequence($1, _, keepdims=1)\n$9 = SequenceInsert($2, f32[1x1] 1, _)")                            \
    CASE("SequenceErase", "z f32[1000000x1]", "$2 = SplitToSequence($1, _, keepdims=1)\n$9 = SequenceErase($2, _)")    \
    CASE("SplitToSequence", "z f32[1000000x1]", "$9 = SplitToSequence($1, _)")                                         \
    CASE("ConcatFromSequence", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = ConcatFromSequence($2, axis=0)") \
    CASE("SequenceExtend", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = SequenceExtend($2, $2)")             \
    CASE("SequenceUpdate", "z f32[1000000x1]",                                                                         \
         "$2 = SplitToSequence($1, _)\n$9 = SequenceUpdate($2, i64[] 5, f32[1] 1)")                                    \
    CASE("SequenceGetSlice", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = SequenceGetSlice($2, _, _, _)")    \
    CASE("SequencePad", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = SequencePad($2, _)")                    \
    CASE("SequenceUnpad", "z f32[1000000x1]; o i64[1000000]", "$9 = SequenceUnpad($1, $2)")                            \
    CASE("SequenceSizes", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = SequenceSizes($2, axis=0)")           \
    CASE("Accumulate", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = Accumulate($2, $2)")                     \
    CASE("Accumulate", "n f32[" E "]", "$9 = Accumulate($1, $1)")                                                      \
    CASE("ZerosLike", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = ZerosLike($2)")                           \
    CASE("ZerosLike", "n f32[" E "]", "$9 = ZerosLike($1)")                                                            \
    CASE("SequenceLengths", "z f32[1000000x1]", "$2 = SplitToSequence($1, _)\n$9 = SequenceLengths($2)")               \
    CASE("Attention", "n f32[1x8x4000x64]; n f32[1x8x4000x64]; n f32[1x8x4000x64]",                                    \
         "$9 = Attention($1, $2, $3, _, _, _, _)")                                                                     \
    CASE("Attention", "n f64[1x8x4000x64]; n f64[1x8x4000x64]; n f64[1x8x4000x64]",                                    \
         "$9 = Attention($1, $2, $3, _, _, _, _)")                                                                     \
    CASE("RotaryEmbedding", "n f32[1x64x8192x64]; n f32[1x8192x32]", "$9 = RotaryEmbedding($1, $2, $2, _)")            \
    CASE("LinearAttention", "n f32[1x4000x1024]; n f32[1x4000x1024]; n f32[1x4000x1024]",                              \
         "$8, $9 = LinearAttention($1, $2, $3, _, _, _, _, q_num_heads=8, kv_num_heads=8, update_rule=linear)")        \
    CASE("CachedAttention",                                                                                            \
         "n f32[1x64x1x64]; n f32[1x64x1x64]; n f32[1x64x1x64]; n f32[1x64x50000x64]; n f32[1x64x50000x64]",           \
         "$9 = CachedAttention($1, $2, $3, $4, $5, i64[1] 50000)")                                                     \
    CASE("CachedAttention",                                                                                            \
         "n f32[1x8x4000x64]; n f32[1x8x4000x64]; n f32[1x8x4000x64]; n f32[1x8x4000x64]; n f32[1x8x4000x64]",         \
         "$9 = CachedAttention($1, $2, $3, $4, $5, i64[1] 4000)")                                                      \
    CASE("CachedMatMul", "n f32[1x8x2000x64]; n f32[1x8x4000x64]; n f32[1x8x2000x64]",                                 \
         "$9 = CachedMatMul($1, $2, $3, i64[1] 4000, transB=1)")                                                       \
    CASE("TensorScatter", "n f32[64x500000]; n f32[64x1000]", "$9 = TensorScatter($1, $2, _, axis=1)")                 \
    CASE("BlockChannels", "n f32[1x16x2000x2000]", "$9 = BlockChannels($1)")                                           \
    CASE("UnblockChannels", "n f32[1x1x2000x2000x16]", "$9 = UnblockChannels($1, channels=16)")                        \
    CASE("BlockedConcat", "n f32[1x1x2000x2000x16]; n f32[1x1x2000x2000x16]",                                          \
         "$9 = BlockedConcat([$1, $2], channels=[9 9])")                                                               \
    CASE("BlockedConv", "n f32[1x1x1500x1500x16]; n f32[1x500x500x16]",                                                \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[1 1], group=16, "                   \
         "algorithm=depthwise)")                                                                                       \
    CASE("BlockedConv", "n f32[1x1x1500x1500x16]; n f32[1x100x100x16]",                                                \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[0 0 0 0], dilations=[7 7], group=16, "                   \
         "algorithm=depthwise)")                                                                                       \
    CASE("BlockedConv", "n f32[1x4x1000x1000x16]; n f32[4x64x7x7x16]",                                                 \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[3 3 3 3], dilations=[1 1], algorithm=direct)")           \
    CASE("BlockedConv", "n f32[1x4x1000x1000x16]; n f32[4x64x7x7x16]",                                                 \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[9 9 9 9], dilations=[3 3], algorithm=direct)")           \
    CASE("BlockedConv", "n f32[1x8x1000x1000x16]; n f32[36x4x128x16]",                                                 \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[1 1 1 1], dilations=[1 1], algorithm=winograd)")         \
    CASE("BlockedConv", "n f32[1x8x500x500x16]; n f32[4x128x3x3x16]",                                                  \
         "$9 = BlockedConv($1, $2, _, _, strides=[1 1], pads=[1 1 1 1], dilations=[1 1], "                             \
         "algorithm=winograd_untransformed)")                                                                          \
    CASE("BlockedConv", "n f32[1x3x3000x3000]; n f32[36x2x12x16]",                                                     \
         "$9 = BlockedConv($1, $2, _, _, strides=[2 2], pads=[3 3 3 3], dilations=[1 1], "                             \
         "algorithm=winograd_strided)")                                                                                \
    CASE("BlockedConvTranspose", "n f32[1x4x500x500x16]; n f32[4x64x4x4x16]",                                          \
         "$9 = BlockedConvTranspose($1, $2, _, strides=[2 2], pads=[1 1 1 1], output_padding=[0 0])")                  \
    CASE("BlockedAffine", "n f32[1x2x1000x1000x16]; o f32[32]", "$9 = BlockedAffine([$1], $2, $2)")                    \
    CASE("TreeEnsemble", "o f32[512x1]; z i32[100000]; z i32[1000000]; o f32[1000000]",                                \
         "$5 = Sub($2, i32[] 1)\n"                                                                                     \
         "$9 = TreeEnsemble($1, i32[1x3] 2 -1 -1, f32[1] 0, $5, i32[2] 0 1000000, $3, $4, n_targets=1)")               \
    CASE("TreeEnsemble", "o f32[512x1]",                                                                               \
         "$2 = Range(i32[] 1, i32[] 200001, i32[] 1)\n$3 = Unsqueeze($2, i64[1] 1)\n"                                  \
         "$4 = Expand(i32[] 2, i64[2] 200000 1)\n$5 = Concat([$4, $3, $3], axis=1)\n"                                  \
         "$6 = Slice($5, i64[1] 0, i64[1] 199999, _, _)\n$7 = Concat([$6, i32[1x3] 2 -1 -1], axis=0)\n"                \
         "$8 = Expand(f32[] 5, i64[1] 200000)\n"                                                                       \
         "$9 = TreeEnsemble($1, $7, $8, i32[8] 0 0 0 0 0 0 0 0, i32[2] 0 1, i32[1] 0, f32[1] 1, n_targets=1)")         \
    CASE("LabelEncoder", "n i64[" E "]", "$9 = LabelEncoder($1, i64[3] 1 2 3, i64[3] 4 5 6, i64[] 7)")                 \
    CASE("LabelEncoder", "n i64[1000000]",                                                                             \
         "$9 = LabelEncoder($1, i64[3] 1 2 3, str[3] \"a\" \"b\" \"c\", str[] \"d\")")                                 \
    /* Keys whose slots, by the multiplier of the table's hash, are one long run, where all lookups begin. */          \
    CASE("LabelEncoder", "",                                                                                           \
         "$1 = Range(i64[] 0, i64[] 100000, i64[] 1)\n$2 = Mul($1, i64[] -2535737696442122240)\n"                      \
         "$3, _ = TopK($2, i64[] 100000, largest=0)\n$4 = Range(i64[] 1, i64[] 2000001, i64[] 1)\n"                    \
         "$5 = Mul($4, i64[] -1018231460777725123)\n$9 = LabelEncoder($5, $3, $1, i64[] -1)")                          \
    CASE("PairwiseCoupling", "o f32[1x1999000]", "$9 = PairwiseCoupling($1, classes=2000)")                            \
    CASE("ZipMap", "z f32[500000x1]", "$9 = ZipMap($1, i64[1] 1)")                                                     \
    CASE("MapItems", "z f32[1x1000000]; n i64[1000000]",                                                               \
         "$3 = ZipMap($1, $2)\n$4 = SequenceAt($3, i64[] 0)\n$9 = MapItems($4, _)")

#endif
