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

/* A value for a named dimension of the model's inputs. */
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
typedef enum xcc_integers { XCC_INTEGER_AUTO, XCC_INTEGER_ALWAYS, XCC_INTEGER_NEVER } xcc_integer_use;

/* Topics of notes. */
typedef enum xcc_note_kind {
    XCC_NOTE_TRAINING_FORM,  /* nodes in training form: results depend on the batch or on random numbers */
    XCC_NOTE_INFERENCE_FORM, /* nodes of the written model were converted to inference form */
    XCC_NOTE_MOMENTUM,       /* BatchNormalization with momentum 1 is trained with 0.9 */
    XCC_NOTE_STATISTICS      /* BatchNormalization learns without moving its running statistics */
} xcc_note_kind;

typedef enum xcc_scheduling { XCC_SCHEDULE_MEMORY, XCC_SCHEDULE_NAIVE } xcc_scheduling;

typedef struct xcc_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc and free */
    const xcc_dim *dims;             /* named dimensions to fix */
    size_t dim_count;
    xcc_scheduling scheduling;
    int optimization;       /* 0: default (2); -1: required passes only; 1: no fusion; 2: all */
    bool strip;             /* omit debug data */
    const char *dump_after; /* pass name, "all" or NULL */
    xcvm_sink dump;         /* receives the graphs of dump_after */
    void (*progress)(void *user, const char *pass, double fraction); /* current pass and finished fraction */
    void *user;                                                      /* for dump and progress */
    bool plain_layout;                                               /* skip the pass `layout` */
    /* Kernel library: native code for groups of instructions, in a shared object beside the program. */
    const char *fuse;      /* file of the library; NULL: none */
    const char *keep_c;    /* file that keeps its source; NULL: not kept */
    const char *cc;        /* C compiler with arguments; NULL: "cc" or a cross compiler */
    const char *cache_dir; /* directory of a library cache; NULL: none */
    const char *target;    /* instruction set: "x86-64-v3", ..., "native" (or NULL), "generic" */
    /* Chooses convolution algorithms by measurement on this machine. Two compilations may differ. */
    bool tune;
    /* Storage type of constant weights: XCVM_F32 (or 0), XCVM_F24, XCVM_F16 or XCVM_BF16 (docs/weights.md). */
    xcvm_dtype weights;
    bool flush_subnormals; /* fold constants with subnormal numbers as zero */
    /* Memory limit of the compilation in bytes; OUT_OF_MEMORY beyond. 0: no limit. Mapped files do not count. */
    size_t memory_limit;
    /* Time limit from the call; OUT_OF_TIME beyond. 0: no limit. */
    uint64_t timeout_ns;
    /* Gradients: adds an output "grad_out@NAME" for each float parameter that the loss depends on. UNSUPPORTED, with
     * all nodes named, if some node has no gradient. */
    bool backprop;
    /* The output that is differentiated, of one element, or a loss that is added, as of `train`. NULL: the only output
     * of a float type that is one number. */
    const char *loss;
    const char *const *wrt; /* parameters and inputs to differentiate by */
    size_t wrt_count;       /* 0: all parameters except running statistics */
    /* Output/input pairs to turn into program states, such as recurrent states or key/value caches. Each state is named
     * after the input and starts as zeros; docs/decoders.md states the sizes. */
    const xcc_state_pair *states;
    size_t state_count;
    /* Training: the optimizer and its settings, such as "adam:lr=1e-3,betas=0.9/0.999". The program takes a batch,
     * returns the loss and updates its states. `wrt` and `loss` then accept patterns and added losses
     * (docs/compiling.md). */
    const char *train;
    const xcc_training_group *groups;
    size_t group_count;
    double clip_norm;  /* maximum 2-norm of all gradients together; 0: no clipping */
    double clip_value; /* maximum magnitude of an element, after clip_norm; 0: no clipping */
    /* Gradient accumulation: runs with input "apply" set to false accumulate gradients; the next run with "apply" set
     * to true applies their mean. */
    bool accumulate;
    double average; /* decay of moving averages, kept as "optimizer@NAME.average"; 0: none */
    /* Initial loss scale, kept as "optimizer@loss_scale". It halves after a non-finite gradient, whose step changes
     * only running statistics, and doubles after 2000 good steps. 0: no scaling. */
    double loss_scale;
    /* The program is one of several processes, each with its part of every batch. It sums gradients and averages losses
     * and statistics with the session's all_reduce. Axis 0 of the first input is the batch. BatchNormalization uses the
     * statistics of the whole batch, except in bodies of control flow. */
    bool all_reduce;
    /* The evaluation counterpart of a training program of the same options: inference form, reads the same states (or
     * the averages) and changes none. */
    bool evaluate;
    /* Puts inference-form BatchNormalization into training form. */
    bool train_batch_normalization;
    /* Straight-through gradients of Round, Floor, Ceil, Sign, QuantizeLinear (where it does not saturate) and
     * DynamicQuantizeLinear; otherwise these gradients are 0. */
    bool straight_through;
    /* Two programs by two compilations: the forward program returns the outputs and "retained_NAME" values; the
     * backward program takes these and "grad_in@OUTPUT" and returns the gradients. */
    xcc_phase phase;
    /* 2: also Hessian-vector products, inputs "vector@NAME" and outputs "hvp_out@NAME". Not with straight_through or
     * phase. */
    int order;
    const xcc_vjp_function *vjps; /* of differentiable host functions */
    size_t vjp_count;
    /* Recomputation of forward results in the backward pass: NULL or "none", "chen" (arXiv 1604.06174), "time" or
     * "memory" (arXiv 1905.11722), "custom:NAMES". Results are the same bits. Needs known sizes. */
    const char *recompute;
    /* Bytes for the arena of a step, without inputs and parameters. OUT_OF_MEMORY if impossible. 0: no budget. */
    uint64_t memory_budget;
    /* Integer instructions for quantized operators. Results are the same bits on every machine and differ from floats
     * by at most one step. */
    xcc_integer_use integer;
    /* Writes an ONNX model instead of a program (docs/onnx-export.md). `optimization` is at most 1. */
    bool onnx;
    /* Receives the elements of constants of 1 KB and more, if not NULL; required from 2 GB. The model refers to them as
     * `onnx_data_location`, a path relative to its own directory. */
    xcvm_sink onnx_data_sink;
    void *onnx_data_user;
    const char *onnx_data_location;
    /* Stores constant matrices of products, and tables that only Gather reads, in blocks. Not with `weights`. */
    xcc_weight_blocks weight_blocks;
    /* Products with weights in blocks round the other operand to 8 bits, with a scale per block. */
    bool integer_activations;
    /* Operand type of products: XCVM_F32 (or 0) or XCVM_BF16 with f32 sums (docs/weights.md). bf16 requires `weights`
     * f32 or bf16 and excludes `weight_blocks`. */
    xcvm_dtype compute;
    /* Storage type of caches that only attention reads: XCVM_F32 (or 0), XCVM_F16 or XCVM_BF16. */
    xcvm_dtype caches;
    /* Capacity in rows, up to INT32_MAX, of caches that Attention or Concat extends (docs/generation.md). Runs append
     * rows in place and fail with OUT_OF_RANGE if they do not fit. 0: such a cache grows and is copied in each run. */
    int64_t cache_rows;
    /* Called once per state with one line of text that says whether the state is updated in place and, if not, why. May
     * be NULL. */
    xcvm_sink remarks;
    void *remarks_user;
    /* Compiles the inference form of the model: BatchNormalization uses running statistics and Dropout does nothing.
     * Otherwise the model is compiled as ONNX defines it. Not with `train`. */
    bool inference;
    /* Called once per kind of note on the model with one line of text. May be NULL. Training form is noted if neither
     * gradients nor training are requested. */
    void (*note)(void *user, xcc_note_kind kind, const char *text);
    void *note_user;
    /* Patterns of further pairs, such as "present.*:past.*", or "auto" for exported decoders and recurrent networks
     * (docs/decoders.md). A pattern without a match fails with INVALID_ARGUMENT. `remarks` receives a line that begins
     * with "note: " for each name without a unique partner. */
    const char *const *state_patterns;
    size_t state_pattern_count;
    /* With `all_reduce`: BatchNormalization uses the statistics of the process's own part of the batch. */
    bool local_batch_normalization;
    /* Label that an added class loss ignores: -100, as in PyTorch, or this one with `own_ignore_label`. The loss of a
     * batch without other labels is 0. */
    int64_t ignore_label;
    bool own_ignore_label;
    /* Initializers that are also model inputs and stay inputs of the program, which has no default for them. Other
     * names than those of xcc_default_inputs fail with INVALID_ARGUMENT. */
    const char *const *default_inputs;
    size_t default_input_count;
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
                                                    void *user, xcc_report *report, xcvm_error *error);
/* The same for a model in memory, which must not have external data. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_compile(const void *model, size_t count, const xcc_options *options,
                                               xcvm_sink sink, void *user, xcc_report *report, xcvm_error *error);

/* Calls `visit` with each input that has a default: an initializer that is also an input, from IR version 4 on. Such
 * inputs are constants unless xcc_options.default_inputs names them. `options` (may be NULL) gives allocator and
 * limits. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_default_inputs_file(const char *path, const xcc_options *options,
                                                           void (*visit)(void *user, const char *name), void *user,
                                                           xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_default_inputs(const void *model, size_t count, const xcc_options *options,
                                                      void (*visit)(void *user, const char *name), void *user,
                                                      xcvm_error *error);

/* Writes a report as text: every reason why the model does not compile, and its opsets, inputs, outputs, parameters,
 * flops and memory. With `backprop` also nodes without a gradient, and memory and flops of training. Returns the status
 * of compilation. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_check_file(const char *path, const xcc_options *options, xcvm_sink sink,
                                                  void *user, xcvm_error *error);

/* ---- Export as C ---- */

typedef struct xcc_c_options {
    size_t size;                     /* set by the caller */
    const xcvm_allocator *allocator; /* NULL: malloc's */
    const char *name;                /* prefix of all declarations; NULL: "net" */
    const char *header_name;         /* name of the included header; NULL: "net.h" */
    /* Instruction set of vector code: "x86-64-v3", "aarch64", ...; NULL: C99 for any processor. */
    const char *target;
    /* Name of a host-defined array, or of a linker section if it contains a point, that holds the arena. Only one run
     * at a time may use it. NULL: the context holds the arena. */
    const char *arena_in;
    bool with_main; /* add a main that reads inputs from files */
    /* Receives the files, each with its user pointer; weights NULL: part of the source. */
    xcvm_sink sink;
    void *source, *header, *weights;
} xcc_c_options;

/* Exports a program as reentrant C99 that needs only libm and does not allocate (docs/c-export.md). UNSUPPORTED, with
 * all obstacles named and nothing written, for unsupported instructions, types or dynamic sizes. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_export_c(const void *program, size_t count, const xcc_c_options *options,
                                                xcvm_error *error);

typedef struct xcc_pass_info {
    const char *name;
    const char *summary;
    int level;  /* minimum optimization level; 0: always runs */
    int rounds; /* maximum number of rounds */
} xcc_pass_info;
XCVM_API size_t xcc_pass_count(void);
XCVM_API const xcc_pass_info *xcc_pass(size_t index);

/* A supported ONNX operator. `versions` lists the opsets at which its meaning changed. */
typedef struct xcc_operator_info {
    const char *domain;
    const char *name;
    const char *versions;
    const char *lowering; /* resulting instructions */
} xcc_operator_info;
XCVM_API size_t xcc_operator_count(void);
XCVM_API const xcc_operator_info *xcc_operator(size_t index);

/* Enumerate optimizers, their settings, and losses; NULL past the end. */
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
XCVM_API const xcc_optimizer_info *xcc_optimizer(size_t index);
XCVM_API const xcc_setting_info *xcc_optimizer_setting(size_t optimizer, size_t index);
XCVM_API const xcc_loss_info *xcc_loss(size_t index);
/* Enumerates the methods of xcc_options.recompute except custom; NULL past the end. */
XCVM_API const char *xcc_recomputation_at(size_t index);
/* Returns the loss that suits labels of a type and rank; NULL if there is none. The output has `output_rank` axes and
 * `classes` along axis 1 (-1: unknown). Integer labels are classes; float labels of the output's rank are numbers. */
XCVM_API const char *xcc_loss_suggest(int output_rank, int64_t classes, xcvm_dtype label_type, int label_rank);
/* Returns the learning rate of an optimizer text. INVALID_ARGUMENT, with the valid names, for unknown names or values.
 */
XCVM_API XCVM_MUST_USE xcvm_status xcc_optimizer_rate(const char *train, double *rate, xcvm_error *error);

/* Reads a serialized TensorProto, SequenceProto or OptionalProto. `type` selects the message; NULL means a tensor. The
 * value is a copy. `name` receives up to 127 bytes of the value's name. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_load(const void *bytes, size_t count, const xcvm_type *type,
                                                  const xcvm_allocator *allocator, char name[128], xcvm_value **value,
                                                  xcvm_error *error);
/* The same with a time limit; 0: none. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_load_within(const void *bytes, size_t count, const xcvm_type *type,
                                                         const xcvm_allocator *allocator, uint64_t timeout_ns,
                                                         char name[128], xcvm_value **value, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_save(const xcvm_value *value, const char *name, xcvm_sink sink, void *user,
                                                  xcvm_error *error);

#ifdef __cplusplus
}
#endif
#endif
