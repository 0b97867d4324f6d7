/* Values of choice attributes. CHOICE(mode, PAD_MODE, constant) in an op definition accepts the names in
 * XCVM_CHOICES_PAD_MODE. Kernels use them as XCVM_PAD_MODE_constant and so on. */
#ifndef XCVM_OPS_CHOICES_H
#define XCVM_OPS_CHOICES_H

#define XCVM_CHOICES_PAD_MODE(X) X(PAD_MODE, constant) X(PAD_MODE, reflect) X(PAD_MODE, edge) X(PAD_MODE, wrap)
#define XCVM_CHOICES_AUTO_PAD(X) X(AUTO_PAD, NOTSET) X(AUTO_PAD, SAME_UPPER) X(AUTO_PAD, SAME_LOWER) X(AUTO_PAD, VALID)
#define XCVM_CHOICES_REDUCTION(X)                                                                                      \
    X(REDUCTION, none) X(REDUCTION, add) X(REDUCTION, mul) X(REDUCTION, max) X(REDUCTION, min)
#define XCVM_CHOICES_LOSS_REDUCTION(X) X(LOSS_REDUCTION, none) X(LOSS_REDUCTION, sum) X(LOSS_REDUCTION, mean)
#define XCVM_CHOICES_ACTIVATION(X)                                                                                     \
    X(ACTIVATION, none)                                                                                                \
    X(ACTIVATION, Relu)                                                                                                \
    X(ACTIVATION, Clip)                                                                                                \
    X(ACTIVATION, LeakyRelu)                                                                                           \
    X(ACTIVATION, Sigmoid)                                                                                             \
    X(ACTIVATION, Tanh)                                                                                                \
    X(ACTIVATION, HardSigmoid)                                                                                         \
    X(ACTIVATION, HardSwish)                                                                                           \
    X(ACTIVATION, Swish)                                                                                               \
    X(ACTIVATION, Gelu)
#define XCVM_CHOICES_GELU(X) X(GELU, none) X(GELU, tanh)
#define XCVM_CHOICES_RESIZE_MODE(X) X(RESIZE_MODE, nearest) X(RESIZE_MODE, linear) X(RESIZE_MODE, cubic)
#define XCVM_CHOICES_COORDINATE(X)                                                                                     \
    X(COORDINATE, half_pixel)                                                                                          \
    X(COORDINATE, half_pixel_symmetric)                                                                                \
    X(COORDINATE, pytorch_half_pixel)                                                                                  \
    X(COORDINATE, align_corners)                                                                                       \
    X(COORDINATE, asymmetric)                                                                                          \
    X(COORDINATE, tf_half_pixel_for_nn)                                                                                \
    X(COORDINATE, tf_crop_and_resize)
#define XCVM_CHOICES_NEAREST(X)                                                                                        \
    X(NEAREST, round_prefer_floor) X(NEAREST, round_prefer_ceil) X(NEAREST, floor) X(NEAREST, ceil)
#define XCVM_CHOICES_ASPECT(X) X(ASPECT, stretch) X(ASPECT, not_larger) X(ASPECT, not_smaller)
#define XCVM_CHOICES_GRID_MODE(X) X(GRID_MODE, linear) X(GRID_MODE, nearest) X(GRID_MODE, cubic)
#define XCVM_CHOICES_GRID_PADDING(X) X(GRID_PADDING, zeros) X(GRID_PADDING, border) X(GRID_PADDING, reflection)
#define XCVM_CHOICES_DIRECTION(X) X(DIRECTION, forward) X(DIRECTION, reverse) X(DIRECTION, bidirectional)
#define XCVM_CHOICES_SHIFT(X) X(SHIFT, LEFT) X(SHIFT, RIGHT)
#define XCVM_CHOICES_ROI_MODE(X) X(ROI_MODE, avg) X(ROI_MODE, max)
#define XCVM_CHOICES_ROI_COORDINATE(X) X(ROI_COORDINATE, half_pixel) X(ROI_COORDINATE, output_half_pixel)
#define XCVM_CHOICES_DEPTH_MODE(X) X(DEPTH_MODE, DCR) X(DEPTH_MODE, CRD)
#define XCVM_CHOICES_CASE(X) X(CASE, NONE) X(CASE, LOWER) X(CASE, UPPER)
#define XCVM_CHOICES_PIXEL_FORMAT(X) X(PIXEL_FORMAT, RGB) X(PIXEL_FORMAT, BGR) X(PIXEL_FORMAT, Grayscale)
#define XCVM_CHOICES_ROUND_MODE(X) X(ROUND_MODE, up) X(ROUND_MODE, down) X(ROUND_MODE, nearest)
#define XCVM_CHOICES_WEIGHTING(X) X(WEIGHTING, TF) X(WEIGHTING, IDF) X(WEIGHTING, TFIDF)
#define XCVM_CHOICES_BLOCKED(X)                                                                                        \
    X(BLOCKED, direct)                                                                                                 \
    X(BLOCKED, depthwise)                                                                                              \
    X(BLOCKED, winograd)                                                                                               \
    X(BLOCKED, winograd_untransformed)                                                                                 \
    X(BLOCKED, winograd_strided)                                                                                       \
    X(BLOCKED, grouped)                                                                                                \
    X(BLOCKED, direct_pairs)
#define XCVM_CHOICES_AGGREGATE(X) X(AGGREGATE, SUM) X(AGGREGATE, AVERAGE) X(AGGREGATE, MIN) X(AGGREGATE, MAX)
#define XCVM_CHOICES_UPDATE_RULE(X)                                                                                    \
    X(UPDATE_RULE, linear) X(UPDATE_RULE, gated) X(UPDATE_RULE, delta) X(UPDATE_RULE, gated_delta)
#define XCVM_CHOICES_CACHE_MODE(X) X(CACHE_MODE, linear) X(CACHE_MODE, circular)
#define XCVM_CHOICES_LSTM_LAYOUT(X) X(LSTM_LAYOUT, onnx) X(LSTM_LAYOUT, chainer)
#define XCVM_CHOICES_BLOCK_ACTIVATIONS(X) X(BLOCK_ACTIVATIONS, f32) X(BLOCK_ACTIVATIONS, int8)

#define XCVM_CHOICE_SETS(X)                                                                                            \
    X(PAD_MODE)                                                                                                        \
    X(AUTO_PAD)                                                                                                        \
    X(REDUCTION)                                                                                                       \
    X(LOSS_REDUCTION)                                                                                                  \
    X(ACTIVATION)                                                                                                      \
    X(GELU)                                                                                                            \
    X(RESIZE_MODE)                                                                                                     \
    X(COORDINATE)                                                                                                      \
    X(NEAREST)                                                                                                         \
    X(ASPECT)                                                                                                          \
    X(GRID_MODE)                                                                                                       \
    X(GRID_PADDING)                                                                                                    \
    X(DIRECTION)                                                                                                       \
    X(SHIFT)                                                                                                           \
    X(ROI_MODE)                                                                                                        \
    X(ROI_COORDINATE)                                                                                                  \
    X(DEPTH_MODE)                                                                                                      \
    X(CASE)                                                                                                            \
    X(PIXEL_FORMAT)                                                                                                    \
    X(ROUND_MODE)                                                                                                      \
    X(WEIGHTING)                                                                                                       \
    X(AGGREGATE)                                                                                                       \
    X(BLOCKED)                                                                                                         \
    X(UPDATE_RULE)                                                                                                     \
    X(CACHE_MODE)                                                                                                      \
    X(LSTM_LAYOUT)                                                                                                     \
    X(BLOCK_ACTIVATIONS)

#define XCVM_CHOICE_NAME(set, name) XCVM_##set##_##name,
#define XCVM_CHOICE_ENUM(set) enum { XCVM_CHOICES_##set(XCVM_CHOICE_NAME) XCVM_##set##_COUNT };
XCVM_CHOICE_SETS(XCVM_CHOICE_ENUM)
#undef XCVM_CHOICE_ENUM
#undef XCVM_CHOICE_NAME

#endif
