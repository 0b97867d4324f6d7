/* Lowering ONNX's operators: one node at a time, each by the function that the table of operators has for it. */
#ifndef XCVM_COMPILER_LOWER_H
#define XCVM_COMPILER_LOWER_H

#include "compiler/ir/compose.h"
#include "compiler/onnx/attributes.h"
#include "compiler/onnx/lowering.h"

/* An integer list that was an attribute before opset `since` becomes operand i; absent, it stays absent. */
xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since);

/* ---- One-to-one ---- */

/* Fills the row's arguments from the node: attributes by name, defaults, operands and results by position. */
xcvm_status xcc_plain_fill(xcc_lowering *n, const xcvm_row *row, void *args);
/* Emits them. */
xcvm_status xcc_plain_emit(xcc_lowering *n, const xcvm_row *row, const void *args);
/* Both, for the instruction with this number. */
xcvm_status xcc_lower_as(xcc_lowering *n, xcvm_opcode opcode);
/* The same for the instruction of the operator's own name. */
xcvm_status xcc_lower_plain(xcc_lowering *n);
/* XCC_PLAIN(n, Conv, args) { args.pads = ...; } begins a block with the filled arguments; emit with XCC_EMIT_PLAIN. */
#define XCC_PLAIN_ARGS(n, Name, args)                                                                                  \
    xcvm_##Name##_args args;                                                                                           \
    XCVM_TRY(xcc_plain_fill((n), xcvm_row_of(XCVM_OP_##Name), &args))
#define XCC_EMIT_PLAIN(n, Name, args) xcc_plain_emit((n), xcvm_row_of(XCVM_OP_##Name), &args)

/* ---- What lowerings need to know ---- */

/* Reads a tensor attribute; *given is false if it is absent. */
xcvm_status xcc_low_tensor(xcc_lowering *n, const char *name, xcc_tensor *t, bool *given);
/* axis as a number from 0 to rank - 1; fails if it is out of range. */
xcvm_status xcc_need_axis(xcc_lowering *n, int64_t axis, int rank, int64_t *resolved);
/* Fails with UNSUPPORTED unless the rank is known. */
xcvm_status xcc_need_rank(const xcc_lowering *n, const xcc_value *value, const char *what);

/* ---- Bodies (control.c) ---- */

/* Lowers a graph attribute into `body`: `arguments` are bound to its inputs, *outputs gets its outputs. */
xcvm_status xcc_lower_body(xcc_lowering *n, const Onnx__GraphProto *graph, xcc_graph *body, size_t count,
                           xcc_value *const *arguments, xcc_value ***outputs);

/* ---- The lowerings ---- */

#define XCC_LOWERINGS(X)                                                                                               \
    X(legacy_broadcast)                                                                                                \
    X(legacy_prelu)                                                                                                    \
    X(chain)                                                                                                           \
    X(mean)                                                                                                            \
    X(clip)                                                                                                            \
    X(selu)                                                                                                            \
    X(cast)                                                                                                            \
    X(cast_like)                                                                                                       \
    X(predicate)                                                                                                       \
    X(constant)                                                                                                        \
    X(constant_of_shape)                                                                                               \
    X(shape)                                                                                                           \
    X(size)                                                                                                            \
    X(reshape)                                                                                                         \
    X(axes_attribute)                                                                                                  \
    X(split)                                                                                                           \
    X(slice)                                                                                                           \
    X(pad)                                                                                                             \
    X(tile)                                                                                                            \
    X(transpose)                                                                                                       \
    X(concat)                                                                                                          \
    X(center_crop_pad)                                                                                                 \
    X(upsample)                                                                                                        \
    X(resize)                                                                                                          \
    X(reduce)                                                                                                          \
    X(reduce_log_sum)                                                                                                  \
    X(top_k)                                                                                                           \
    X(search_sorted)                                                                                                   \
    X(scatter)                                                                                                         \
    X(gemm)                                                                                                            \
    X(einsum)                                                                                                          \
    X(conv)                                                                                                            \
    X(conv_integer)                                                                                                    \
    X(qlinear_conv)                                                                                                    \
    X(conv_transpose)                                                                                                  \
    X(deform_conv)                                                                                                     \
    X(affine_grid)                                                                                                     \
    X(max_pool)                                                                                                        \
    X(average_pool)                                                                                                    \
    X(lp_pool)                                                                                                         \
    X(global_pool)                                                                                                     \
    X(global_lp_pool)                                                                                                  \
    X(max_unpool)                                                                                                      \
    X(roi_align)                                                                                                       \
    X(col2im)                                                                                                          \
    X(batch_normalization)                                                                                             \
    X(group_normalization)                                                                                             \
    X(mean_variance_normalization)                                                                                     \
    X(softmax)                                                                                                         \
    X(dropout)                                                                                                         \
    X(quantize_linear)                                                                                                 \
    X(dequantize_linear)                                                                                               \
    X(rnn)                                                                                                             \
    X(gru)                                                                                                             \
    X(lstm)                                                                                                            \
    X(random)                                                                                                          \
    X(random_like)                                                                                                     \
    X(bernoulli)                                                                                                       \
    X(multinomial)                                                                                                     \
    X(cross_entropy)                                                                                                   \
    X(window)                                                                                                          \
    X(dft)                                                                                                             \
    X(mel_weight_matrix)                                                                                               \
    X(if)                                                                                                              \
    X(loop)                                                                                                            \
    X(scan)                                                                                                            \
    X(sequence_map)                                                                                                    \
    X(sequence_empty)                                                                                                  \
    X(optional)                                                                                                        \
    X(attention)                                                                                                       \
    X(flex_attention)                                                                                                  \
    X(linear_attention)                                                                                                \
    X(causal_conv_with_state)                                                                                          \
    X(geglu)                                                                                                           \
    X(swiglu)                                                                                                          \
    X(rms_normalization)                                                                                               \
    X(adagrad)                                                                                                         \
    X(adam)                                                                                                            \
    X(ml_array_feature_extractor)                                                                                      \
    X(ml_binarizer)                                                                                                    \
    X(ml_cast_map)                                                                                                     \
    X(ml_category_mapper)                                                                                              \
    X(ml_dict_vectorizer)                                                                                              \
    X(ml_feature_vectorizer)                                                                                           \
    X(ml_imputer)                                                                                                      \
    X(ml_label_encoder)                                                                                                \
    X(ml_linear_classifier)                                                                                            \
    X(ml_linear_regressor)                                                                                             \
    X(ml_normalizer)                                                                                                   \
    X(ml_one_hot_encoder)                                                                                              \
    X(ml_svm_classifier)                                                                                               \
    X(ml_svm_regressor)                                                                                                \
    X(ml_scaler)                                                                                                       \
    X(ml_tree_ensemble)                                                                                                \
    X(ml_tree_ensemble_classifier)                                                                                     \
    X(ml_tree_ensemble_regressor)                                                                                      \
    X(plus_linear)                                                                                                     \
    X(plus_relu_grad)                                                                                                  \
    X(plus_square)                                                                                                     \
    X(plus_reduce_sum_to)                                                                                              \
    X(plus_roi_max_pool)                                                                                               \
    X(plus_roi_average_pool)                                                                                           \
    X(plus_roi_max_align)                                                                                              \
    X(plus_roi_average_align)                                                                                          \
    X(plus_resize_images)                                                                                              \
    X(plus_pad_batch_size)                                                                                             \
    X(plus_select_item)                                                                                                \
    X(plus_softmax_cross_entropy)                                                                                      \
    X(plus_get_item)                                                                                                   \
    X(plus_set_item)                                                                                                   \
    X(plus_sequence_constants)                                                                                         \
    X(plus_sequence_create)                                                                                            \
    X(plus_sequence_append)                                                                                            \
    X(plus_sequence_extend)                                                                                            \
    X(plus_sequence_size)                                                                                              \
    X(plus_sequence_lookup)                                                                                            \
    X(plus_sequence_update)                                                                                            \
    X(plus_sequence_pop)                                                                                               \
    X(plus_sequence_clear)                                                                                             \
    X(plus_sequence_same)                                                                                              \
    X(plus_sequence_get_slice)                                                                                         \
    X(plus_sequence_stack)                                                                                             \
    X(plus_sequence_concat)                                                                                            \
    X(plus_sequence_pad)                                                                                               \
    X(plus_sequence_lengths)                                                                                           \
    X(plus_sequence_separate)                                                                                          \
    X(plus_sequence_unpad)                                                                                             \
    X(plus_sequence_range)                                                                                             \
    X(plus_sequence_split_axis)                                                                                        \
    X(plus_generic_len)                                                                                                \
    X(plus_generic_get_item)                                                                                           \
    X(plus_generic_get_slice)                                                                                          \
    X(plus_generic_add)                                                                                                \
    X(plus_generic_is)                                                                                                 \
    X(plus_generic_accumulate_grad)                                                                                    \
    X(plus_null_constant)                                                                                              \
    X(plus_dtype)                                                                                                      \
    X(plus_dynamic_cast)                                                                                               \
    X(plus_print)                                                                                                      \
    X(plus_do_something)                                                                                               \
    X(ml_zip_map)                                                                                                      \
    X(momentum)

#define XCC_LOWERING(name) xcvm_status xcc_lower_##name(xcc_lowering *n);
XCC_LOWERINGS(XCC_LOWERING)
#undef XCC_LOWERING

#endif
