/* Lowering ONNX's operators: one node at a time, each by the function that the table of operators has for it. */
#ifndef XCVM_COMPILER_LOWER_H
#define XCVM_COMPILER_LOWER_H

#include "compiler/onnx/import.h"
#include "compiler/onnx/attributes.h"

typedef struct xcc_lowering xcc_lowering;
typedef xcvm_status (*xcc_lower)(xcc_lowering *n);

typedef struct xcc_operator_row {
    xcc_operator_info info;
    xcc_lower lower; /* NULL: the instruction of that name, attributes and operands as they are */
} xcc_operator_row;

/* NULL if there is none of that name. */
const xcc_operator_row *xcc_operator_find(const char *domain, const char *name);
/* The first opset that has it. */
int64_t xcc_operator_since(const xcc_operator_row *op);

/* One node of the model being lowered. Its results are bound, all that have a name, before the function returns. */
struct xcc_lowering {
    xcc_importer *importer;
    xcc_module *m;
    xcc_builder b;
    xcc_scope *scope;
    const xcc_operator_row *op;
    const Onnx__NodeProto *proto;
    int64_t version;    /* of the operator's opset */
    xcc_value **inputs; /* as the model has them, NULL where absent; a lowering may change them */
    size_t input_count, input_capacity;
    xcc_value **outputs; /* as bound so far */
    size_t output_count; /* up to the last that has a name */
    struct xcc_attribute *attributes;
    size_t attribute_count;
    xcc_table attribute_names; /* their indices, where there are many */
    bool poisoned;             /* failed because a node in a body did, which is noted already */
    uint32_t first_id;         /* values with an id from here on were made by this lowering */
    uint32_t number;           /* of the lowering, from 1 on: the mark of values that are its results already */
};

/* ---- Operands and results ---- */

/* Status of the failure that a NULL stands for. */
xcvm_status xcc_failure(const xcc_lowering *n);
/* Fails the lowering: XCC_REFUSE(n, UNSUPPORTED, "...", ...) */
#define XCC_REFUSE(n, status, ...) return xcvm_error_set((n)->m->error, XCVM_##status, __VA_ARGS__)
#define XCC_NEED(n, condition, status, ...) XCVM_CHECK((n)->m->error, condition, status, __VA_ARGS__)

/* Operand i, NULL if absent. */
static inline xcc_value *xcc_input(const xcc_lowering *n, size_t i) { return i < n->input_count ? n->inputs[i] : NULL; }
static inline bool xcc_wants(const xcc_lowering *n, size_t i)
{
    return i < n->output_count && i < n->proto->n_output && n->proto->output[i][0] != '\0';
}
/* INVALID_MODEL unless the number of operands lies in the range and the first `least` are there. */
xcvm_status xcc_need_inputs(const xcc_lowering *n, size_t least, size_t most);
xcvm_status xcc_set_input(xcc_lowering *n, size_t i, xcc_value *value);
/* An integer list that was an attribute before opset `since` becomes operand i; absent, it stays absent. */
xcvm_status xcc_attribute_to_input(xcc_lowering *n, const char *name, size_t i, int64_t since);
/* A new value for result i under its name in the model; for the lowering to emit into. */
xcc_value *xcc_result(xcc_lowering *n, size_t i);
/* Makes `value` result i; one that this lowering made takes the result's name. NULL: passes the failure on. */
xcvm_status xcc_bind(xcc_lowering *n, size_t i, xcc_value *value);

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

/* ---- Composing. NULL operands are failures of what made them, and give NULL. ---- */

/* Any instruction of one operand, with the attributes' defaults. */
xcc_value *xcc_low_unary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x);
/* Any instruction of two operands without attributes. */
xcc_value *xcc_low_binary(xcc_lowering *n, xcvm_opcode opcode, xcc_value *a, xcc_value *b);
#define xcc_low_add(n, a, b) xcc_low_binary((n), XCVM_OP_Add, (a), (b))
#define xcc_low_sub(n, a, b) xcc_low_binary((n), XCVM_OP_Sub, (a), (b))
#define xcc_low_mul(n, a, b) xcc_low_binary((n), XCVM_OP_Mul, (a), (b))
#define xcc_low_div(n, a, b) xcc_low_binary((n), XCVM_OP_Div, (a), (b))
/* Any instruction with one result, operands by position, attributes at their defaults. */
xcc_value *xcc_low_call(xcc_lowering *n, xcvm_opcode opcode, size_t count, xcc_value *const *operands);
/* A number of the element type of `like`, rank 0. */
xcc_value *xcc_low_number(xcc_lowering *n, const xcc_value *like, double value);
xcc_value *xcc_low_ints(xcc_lowering *n, size_t count, const int64_t *ints); /* rank 1 */
#define XCC_LOW_INTS(n, ...)                                                                                           \
    xcc_low_ints((n), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
/* A constant of strings: rank 0 for one, or rank 1. */
xcc_value *xcc_low_strings(xcc_lowering *n, int rank, size_t count, const xcvm_text *texts);
/* Reads a tensor attribute; *given is false if it is absent. */
xcvm_status xcc_low_tensor(xcc_lowering *n, const char *name, xcc_tensor *t, bool *given);
xcc_value *xcc_low_cast(xcc_lowering *n, xcc_value *x, xcvm_dtype dtype); /* x itself if it has that type */
xcc_value *xcc_low_shape_of(xcc_lowering *n, xcc_value *x);
/* Dimension of x as a tensor of shape [1]; a constant if it is known. An axis below 0 counts from the last. */
xcc_value *xcc_low_dim_of(xcc_lowering *n, xcc_value *x, int axis);
/* The rank of x as an i64 scalar. */
xcc_value *xcc_low_rank_of(xcc_lowering *n, xcc_value *x);
/* Entries of -1 and 0 as in Reshape. */
xcc_value *xcc_low_reshape(xcc_lowering *n, xcc_value *x, xcc_value *shape);
/* To a shape that is some tensor's, so that 0 is 0. */
xcc_value *xcc_low_reshape_to(xcc_lowering *n, xcc_value *x, xcc_value *shape);
xcc_value *xcc_low_expand(xcc_lowering *n, xcc_value *x, xcc_value *shape);
xcc_value *xcc_low_unsqueeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes);
xcc_value *xcc_low_squeeze(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *axes);
/* x itself if nothing moves. */
xcc_value *xcc_low_transpose(xcc_lowering *n, xcc_value *x, size_t count, const int64_t *perm);
/* axes NULL: over all. */
xcc_value *xcc_low_reduce(xcc_lowering *n, xcvm_opcode opcode, xcc_value *x, xcc_value *axes, bool keepdims);
xcc_value *xcc_low_gather(xcc_lowering *n, xcc_value *x, xcc_value *indices, int64_t axis);
/* x[start:end:step] along one axis. */
xcc_value *xcc_low_slice(xcc_lowering *n, xcc_value *x, int64_t axis, int64_t start, int64_t end, int64_t step);
/* Along axis; the one value itself if there is only one. Constants of integers are joined at once. */
xcc_value *xcc_low_concat(xcc_lowering *n, size_t count, xcc_value *const *values, int64_t axis);
/* The axes first ... rank - 1 of x as a tensor, for any rank; first >= 0. */
xcc_value *xcc_low_axes_from(xcc_lowering *n, xcc_value *x, int64_t first);

/* ---- Facts ---- */

/* false unless it is a constant of one element, of a real or boolean type. */
bool xcc_constant_number(const xcc_value *value, double *number);
/* A constant without elements, by which old exporters leave an operand out. */
bool xcc_is_empty_constant(const xcc_value *value);
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
