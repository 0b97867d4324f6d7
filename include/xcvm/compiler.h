/*
 * XCVM's compiler: ONNX models to programs. docs/compiling.md explains the options; the conventions of xcvm.h apply.
 *
 * Threads: all functions are reentrant and may be called concurrently, with the same options and model, provided that
 * the allocator and callbacks are thread-safe. Callbacks run on the caller's thread.
 *
 * Lifetimes: arguments are read only until the function returns, and the library keeps no pointer to them. Bytes and
 * names that a callback receives are lent until it returns. Strings of enumerating functions are constants.
 */
#ifndef XCVM_COMPILER_H
#define XCVM_COMPILER_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value for a dimension of the model's inputs. A dimension without a name is "INPUT.AXIS", such as "x.1". */
typedef struct xcc_dim {
    const char *name;
    int64_t value;
} xcc_dim;

/* Settings of the trainable parameters that match a pattern. The first matching group decides. */
typedef struct xcc_training_group {
    const char *pattern; /* of parameter names; '*' matches any characters, '?' one */
    double rate;         /* factor of the learning rate; 0: constants */
    bool own_decay;      /* weight_decay replaces the optimizer's */
    double weight_decay;
} xcc_training_group;

/* An output of the model that is an input of the next run. */
typedef struct xcc_state_pair {
    const char *output, *input;
} xcc_state_pair;
/* The host function that computes the vector-Jacobian product of another host function. */
typedef struct xcc_vjp_function {
    const char *function, *vjp;
} xcc_vjp_function;

/* Weights in blocks of 32 with an f16 scale each: 8 bits, 4 bits, or 4 bits with an offset. */
typedef enum xcc_weight_blocks { XCC_WEIGHTS_PLAIN, XCC_WEIGHTS_Q8, XCC_WEIGHTS_Q4, XCC_WEIGHTS_Q4A } xcc_weight_blocks;
/* With gradients: one program, or only the forward or the backward program. */
typedef enum xcc_phase { XCC_PHASE_WHOLE, XCC_PHASE_FORWARD, XCC_PHASE_BACKWARD } xcc_phase;

/* Integer computation of quantized models: where it is faster on this machine, wherever possible, or nowhere. */
typedef enum xcc_integer_use { XCC_INTEGER_AUTO, XCC_INTEGER_ALWAYS, XCC_INTEGER_NEVER } xcc_integer_use;

typedef enum xcc_diagnostic_kind {
    XCC_DIAGNOSTIC_TRAINING_FORM,  /* nodes in training form: results depend on the batch or on random numbers */
    XCC_DIAGNOSTIC_INFERENCE_FORM, /* nodes of the written model were converted to inference form */
    XCC_DIAGNOSTIC_MOMENTUM,       /* BatchNormalization with momentum 1 is trained with 0.9 */
    XCC_DIAGNOSTIC_STATISTICS,     /* BatchNormalization learns without moving its running statistics */
    XCC_DIAGNOSTIC_LOSS,           /* the loss expects other numbers than the output has, as probabilities or logits */
    XCC_DIAGNOSTIC_STATE,          /* a state is updated in place, or why not; once per state */
    XCC_DIAGNOSTIC_STATE_PAIR,     /* a name without a unique partner, a growing cache, an option without effect */
    XCC_DIAGNOSTIC_WEIGHTS,        /* use of xct_trainer_options.weights; weights that the model stored as one */
    XCC_DIAGNOSTIC_DATA            /* an array of training data is used with another shape than it has */
} xcc_diagnostic_kind;
/* Receives a diagnostic: one line of text. */
typedef struct xcc_diagnostics {
    void (*call)(void *user, xcc_diagnostic_kind kind, const char *text);
    void *user;
} xcc_diagnostics;
/* Receives the current step and the finished fraction. */
typedef struct xcc_progress {
    void (*call)(void *user, const char *step, double fraction);
    void *user;
} xcc_progress;
/* Receives names, one by one. */
typedef struct xcc_name_visitor {
    void (*call)(void *user, const char *name);
    void *user;
} xcc_name_visitor;

typedef enum xcc_scheduling { XCC_SCHEDULE_MEMORY, XCC_SCHEDULE_NAIVE } xcc_scheduling;

/* ---- Groups of options. Zero selects the default of every member. ---- */

typedef struct xcc_limits {
    size_t memory_bytes; /* memory of the compilation, without mapped files; OUT_OF_MEMORY beyond. 0: no limit */
    uint64_t timeout_ns; /* time from the call; OUT_OF_TIME beyond. 0: no limit */
} xcc_limits;

typedef struct xcc_debug_options {
    const char *dump_after; /* pass name, "all" or NULL */
    xcvm_sink dump;         /* receives the graphs of dump_after */
    xcc_scheduling scheduling;
    bool plain_layout; /* skip the pass `layout` */
} xcc_debug_options;

/* Native code for groups of instructions, in a shared object beside the program. */
typedef struct xcc_kernel_library_options {
    const char *path;        /* file of the library; NULL: none */
    const char *source_path; /* file that keeps its C source; NULL: not kept */
    const char *compiler;    /* C compiler with arguments; NULL: "cc" or a cross compiler */
    const char *cache_dir;   /* directory of a library cache; NULL: none */
    const char *target;      /* instruction set: "x86-64-v3", ..., "native" (or NULL), "generic" */
} xcc_kernel_library_options;

/* Storage and arithmetic of constant weights (docs/weights.md). */
typedef struct xcc_weight_options {
    xcvm_dtype dtype;         /* storage type: XCVM_F32 (or 0), XCVM_F24, XCVM_F16 or XCVM_BF16 */
    xcc_weight_blocks blocks; /* of matrices of products, and of tables that only Gather reads; not with dtype */
    bool integer_activations; /* products with weights in blocks round the other operand to 8 bits in blocks */
    xcvm_dtype compute;       /* operands of products: XCVM_F32 (or 0), or XCVM_BF16 without blocks, f16 and f24 */
} xcc_weight_options;

typedef struct xcc_gradient_options {
    const char *const *wrt; /* parameters and inputs to differentiate by */
    size_t wrt_count;       /* 0: all parameters except running statistics */
    xcc_phase phase;        /* one program, or one of two */
    int order;              /* 2: also Hessian-vector products (docs/compiling.md); without straight_through, phase */
    const xcc_vjp_function *vjps; /* of differentiable host functions */
    size_t vjp_count;
    bool straight_through; /* straight-through gradients of rounding instructions instead of 0 */
} xcc_gradient_options;

typedef struct xcc_training_options {
    const xcc_training_group *groups;
    size_t group_count;
    double clip_norm;  /* maximum 2-norm of all gradients together; 0: no clipping */
    double clip_value; /* maximum magnitude of an element, after clip_norm; 0: no clipping */
    bool accumulate;   /* runs with input "apply" false accumulate gradients; one with true applies their mean */
    double average;    /* decay of moving averages, kept as "optimizer@NAME.average"; 0: none */
    double loss_scale; /* initial loss scale, kept as "optimizer@loss_scale"; 0: no scaling */
    bool all_reduce;   /* one of several processes, each with its part of every batch (docs/compiling.md) */
    bool local_batch_normalization; /* with all_reduce: statistics of the process's own part of the batch */
    bool evaluate; /* the evaluation counterpart: inference form, reads the same states and changes none */
    bool train_batch_normalization; /* puts inference-form BatchNormalization into training form */
    bool own_ignore_label;          /* an added class loss ignores ignore_label instead of -100 */
    int64_t ignore_label;
} xcc_training_options;

/* Inputs that become states of the program (docs/decoders.md). */
typedef struct xcc_state_options {
    const xcc_state_pair *pairs; /* each state is named after the input and starts as zeros */
    size_t pair_count;
    const char *const *patterns; /* of further pairs, such as "present.*:past.*", or "auto" */
    size_t pattern_count;
    int64_t cache_rows;     /* capacity of caches that Attention or Concat extends in place; 0: copied in each run */
    xcvm_dtype cache_dtype; /* storage of caches that only attention reads: XCVM_F32 (or 0), XCVM_F16, XCVM_BF16 */
} xcc_state_options;

/* Recomputation of forward results in the backward pass. Results are the same bits. Needs known sizes. */
typedef struct xcc_recompute_options {
    const char *method;     /* see xcc_recompute_method_at; "custom:NAMES"; NULL: "none" */
    uint64_t memory_budget; /* bytes of a step's arena; OUT_OF_MEMORY if impossible. 0: no budget */
} xcc_recompute_options;

/* Writes an ONNX model instead of a program (docs/onnx-export.md). `optimization` is at most 1. */
typedef struct xcc_onnx_export_options {
    bool enabled;
    xcvm_sink data;            /* receives elements of constants of 1 KB and more; required from 2 GB */
    const char *data_location; /* path of `data` in the model, relative to the model's directory */
} xcc_onnx_export_options;

typedef struct xcc_quantized_options {
    xcc_integer_use integers;
} xcc_quantized_options;

/* Options of a compilation. The most common ones come first. */
typedef struct xcc_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc and free */

    const xcc_dim *dims; /* sizes of open dimensions */
    size_t dim_count;
    int optimization;  /* 0: default (2); -1: required passes only; 1: no fusion; 2: all */
    bool inference;    /* compile the inference form of the model; else as ONNX defines it. Not with `train` */
    bool backprop;     /* add an output "grad_out@NAME" for each parameter that the loss depends on */
    const char *loss;  /* float output of one number, or a loss to add; NULL: the only such output */
    const char *train; /* optimizer, such as "adam:lr=1e-3": compile a training program; NULL: none */
    xcc_diagnostics diagnostics;
    xcc_progress progress;

    bool strip;                        /* omit debug data */
    bool tune;                         /* choose convolution algorithms by measurement on this machine */
    bool flush_subnormals;             /* fold constants with subnormal numbers as zero */
    const char *const *default_inputs; /* inputs with defaults that stay inputs; see xcc_visit_default_inputs */
    size_t default_input_count;

    xcc_limits limits;
    xcc_debug_options debug;
    xcc_kernel_library_options kernel_library;
    xcc_weight_options weights;
    xcc_gradient_options gradients;
    xcc_training_options training;
    xcc_state_options states;
    xcc_recompute_options recompute;
    xcc_onnx_export_options onnx_export;
    xcc_quantized_options quantized;

    /* Nonzero ends the compilation with CANCELLED. Read atomically; another thread or a signal handler may set it.
     * NULL: never. */
    const uint32_t *cancelled;
} xcc_options;

/* Memory and arithmetic before and after compilation. Dynamic dimensions count as 1, and `exact` is false then. */
typedef struct xcc_report {
    size_t size; /* set by the caller */
    bool exact;
    size_t nodes_before, nodes_after;
    uint64_t flops_before, flops_after;
    uint64_t peak_bytes_before, peak_bytes_after;
    uint64_t parameter_bytes;
    uint64_t arena_bytes, arena_lower_bound;
    /* Weights stored in fewer bits: as f32 and as stored. */
    uint64_t weight_bytes_before, weight_bytes_after;
    size_t uncompressed;   /* constants that stay f32 because values are out of range */
    size_t gradient_count; /* parameters and inputs with gradients */
    uint64_t gradient_bytes;
    size_t retained_count; /* values kept from the forward for the backward program */
    uint64_t retained_bytes;
    /* Recomputation: peak of a step without it, recomputed instructions, and estimated relative time of a step. */
    uint64_t recompute_peak_before;
    size_t recomputed;
    double recompute_time;
    /* Quantized convolutions and products computed on integers and on floats, and those that are faster as floats here.
     */
    size_t integer_products, float_products, faster_as_floats;
    /* With `compute` bf16: products, convolutions, attentions and recurrences in bf16 and in f32. */
    size_t bf16_products, exact_products;
    size_t block_products; /* products with weights in blocks */
    size_t tuned;          /* distinct convolutions that `tune` measured */
    /* Nodes of the model in training form, whose results depend on the batch (BatchNormalization) or on random numbers
     * (Dropout). 0 with xcc_options.inference. */
    size_t training_nodes;
} xcc_report;

/* Compiles a model file. `sink` receives the program after all other work has succeeded. `options` and `report` may be
 * NULL. External data must be below the directory of the model, or of the file that a symbolic link leads to. Time and
 * memory are proportional to the model, up to a logarithm; docs/compiling.md lists the bounds. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_compile_file(const char *path, const xcc_options *options, xcvm_sink sink,
                                                    xcc_report *report, xcvm_error *error);
/* The same for a model in memory, which must not have external data. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_compile(const void *model, size_t count, const xcc_options *options,
                                               xcvm_sink sink, xcc_report *report, xcvm_error *error);

/* Calls `visit` with each input that has a default: an initializer that is also an input, from IR version 4 on. Such
 * inputs are constants unless xcc_options.default_inputs names them. `options` (may be NULL) gives allocator and
 * limits. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_visit_default_inputs_file(const char *path, const xcc_options *options,
                                                                 xcc_name_visitor visit, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_visit_default_inputs(const void *model, size_t count, const xcc_options *options,
                                                            xcc_name_visitor visit, xcvm_error *error);

/* Writes a report as text: every reason why the model does not compile, and its opsets, inputs, outputs, parameters,
 * flops and memory. With `backprop` also nodes without a gradient, and memory and flops of training. Returns the status
 * of compilation. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_check_file(const char *path, const xcc_options *options, xcvm_sink sink,
                                                  xcvm_error *error);

/* ---- Enumerations. An _at function returns NULL past the end. ---- */

typedef struct xcc_pass_info {
    const char *name;
    const char *summary;
    int level;  /* minimum optimization level; 0: always runs */
    int rounds; /* maximum number of rounds */
} xcc_pass_info;
XCVM_API size_t xcc_pass_count(void);
XCVM_API const xcc_pass_info *xcc_pass_at(size_t index);

/* A supported ONNX operator. `versions` lists the opsets at which its meaning changed. */
typedef struct xcc_operator_info {
    const char *domain;
    const char *name;
    const char *versions;
    const char *lowering; /* resulting instructions */
} xcc_operator_info;
XCVM_API size_t xcc_operator_count(void);
XCVM_API const xcc_operator_info *xcc_operator_at(size_t index);

/* Optimizers, their settings, and losses. */
typedef struct xcc_optimizer_info {
    const char *name;
    const char *summary;
} xcc_optimizer_info;
typedef struct xcc_setting_info {
    const char *name;
    const char *value; /* default, as text */
    const char *summary;
} xcc_setting_info;
typedef struct xcc_loss_info {
    const char *name;
    const char *summary; /* includes the types of labels */
} xcc_loss_info;
XCVM_API size_t xcc_optimizer_count(void);
XCVM_API const xcc_optimizer_info *xcc_optimizer_at(size_t index);
XCVM_API size_t xcc_optimizer_setting_count(size_t optimizer);
XCVM_API const xcc_setting_info *xcc_optimizer_setting_at(size_t optimizer, size_t index);
XCVM_API size_t xcc_loss_count(void);
XCVM_API const xcc_loss_info *xcc_loss_at(size_t index);
/* Methods of recomputation, except custom. */
XCVM_API size_t xcc_recompute_method_count(void);
XCVM_API const char *xcc_recompute_method_at(size_t index);
/* Returns the loss that suits labels of a type and rank; NULL if there is none. The output has `output_rank` axes and
 * `classes` along axis 1 (-1: unknown). Integer labels are classes; float labels of the output's rank are numbers. */
XCVM_API const char *xcc_loss_suggest(int output_rank, int64_t classes, xcvm_dtype label_type, int label_rank);
/* Returns the learning rate of an optimizer text. INVALID_ARGUMENT, with the valid names, for unknown names or values.
 */
XCVM_API XCVM_MUST_USE xcvm_status xcc_optimizer_rate(const char *train, double *rate, xcvm_error *error);

/* Reads a serialized TensorProto, SequenceProto or OptionalProto. `type` selects the message; NULL means a tensor. The
 * value is a copy. `name` receives up to 127 bytes of the value's name. `timeout_ns` limits the time; 0: no limit. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_load(const void *bytes, size_t count, const xcvm_type *type,
                                                  const xcvm_allocator *allocator, uint64_t timeout_ns, char name[128],
                                                  xcvm_value **value, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_save(const xcvm_value *value, const char *name, xcvm_sink sink,
                                                  xcvm_error *error);

#ifdef __cplusplus
}
#endif
#endif
