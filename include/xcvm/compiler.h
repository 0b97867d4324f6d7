/*
 * XCVM's compiler: from ONNX models to programs. The conventions of xcvm.h hold here too.
 *
 * Threads. No function keeps anything from one call to the next, so any number of threads may call any of them at once,
 * also with the same options and the same model, if what the options name stands that: the allocator, the callbacks,
 * and the files of `fuse` and `keep_c`, which each compilation needs for itself. A call uses one thread, its caller's,
 * which the callbacks and sinks are called on, before it returns; `fuse` alone starts processes, and waits for them.
 *
 * Lifetimes. What a call is given (the model's bytes, paths, options with the arrays and strings in them) is read until
 * it returns, must not change so long, and is not kept: an allocator alone must outlive a value that was made with it.
 * Bytes and names that a callback or a sink receives are lent until that returns. Errors and reports are copies. What
 * xcc_pass and xcc_operator return, and the strings in it, are constants of the library.
 */
#ifndef XCVM_COMPILER_H
#define XCVM_COMPILER_H

#include "xcvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A fixed value for a named dimension of the model's inputs. */
typedef struct xcc_dim {
    const char *name;
    int64_t value;
} xcc_dim;

/* Parameters that learn otherwise than the rest: what of xcc_options.groups a name fits first decides. */
typedef struct xcc_training_group {
    const char *pattern; /* of names of parameters; '*' stands for any characters, '?' for one */
    double rate;         /* factor of the learning rate; 0: they do not learn, and the program has them as constants */
    bool own_decay;      /* weight_decay stands in place of the optimizer's */
    double weight_decay;
} xcc_training_group;

/* An output of the model that is an input of the next run. */
typedef struct xcc_state_pair {
    const char *output, *input;
} xcc_state_pair;
/* The vector-Jacobian product of a function of the host, of its own name. It is called with the operands of `function`,
 * its results, and the gradients of those of them that are of float types, and gives the gradients of those of the
 * operands that are of float types, in order, each of its operand's type and shape. */
typedef struct xcc_vjp_function {
    const char *function, *vjp;
} xcc_vjp_function;

/* Weights in blocks: plain ones are not; q8 and q4 have 8 or 4 bits for each weight and a scale in f16 for each 32 of a
 * column, q4a besides an offset of 4 bits, so that a block's range need not be the same on both sides of zero. */
typedef enum xcc_weight_blocks { XCC_WEIGHTS_PLAIN, XCC_WEIGHTS_Q8, XCC_WEIGHTS_Q4, XCC_WEIGHTS_Q4A } xcc_weight_blocks;
/* What is compiled of a model whose gradients are asked for: one program, or the forward or the backward alone. */
typedef enum xcc_phase { XCC_PHASE_WHOLE, XCC_PHASE_FORWARD, XCC_PHASE_BACKWARD } xcc_phase;

/* Whether quantised models are computed in integers: where that is faster on this machine, wherever it can be done, or
 * nowhere. */
typedef enum xcc_integers { XCC_INTEGER_AUTO, XCC_INTEGER_ALWAYS, XCC_INTEGER_NEVER } xcc_integer_use;

/* What a note is about. */
typedef enum xcc_note_kind {
    XCC_NOTE_TRAINING_FORM,  /* nodes in training form make results depend on the batch, or on random numbers */
    XCC_NOTE_INFERENCE_FORM, /* nodes of the model that is written have been put into inference form */
    XCC_NOTE_MOMENTUM,       /* BatchNormalization with momentum 1 is trained with 0.9 */
    XCC_NOTE_STATISTICS      /* BatchNormalization learns without moving its running statistics */
} xcc_note_kind;

typedef enum xcc_scheduling { XCC_SCHEDULE_MEMORY, XCC_SCHEDULE_NAIVE } xcc_scheduling;

typedef struct xcc_options {
    size_t size;
    const xcvm_allocator *allocator; /* NULL: malloc's */
    const xcc_dim *dims;             /* named dimensions to fix */
    size_t dim_count;
    xcc_scheduling scheduling;
    int optimization;       /* 0: default (2), -1: only what is needed to run, 1: no merging, 2: all */
    bool strip;             /* leave debug data out */
    const char *dump_after; /* name of a pass, "all", or NULL */
    xcvm_sink dump;         /* receives the graphs asked for by dump_after */
    void (*progress)(void *user, const char *pass, double fraction); /* what begins now, and the part that is done */
    void *user;                                                      /* for dump and progress */
    bool plain_layout; /* channels stay as the model has them: no pass layout */
    /* Kernel libraries: functions made for this program, that stand for groups of its instructions where they can be
     * opened. The program names the library by the last part of `fuse`, and it is looked for beside the program. */
    const char *fuse;   /* file that the library is written to; NULL: none is made */
    const char *keep_c; /* file that its source is written to; NULL: it is not kept */
    const char *cc; /* the C compiler, which may have arguments: "ccache gcc"; NULL: "cc", or a cross compiler if the
                       target needs one */
    const char *cache_dir; /* folder where libraries are kept by the hash of their source; NULL: nowhere */
    const char *target;    /* the instruction set that the library is compiled for, as "x86-64-v3", which need not be
                              this machine's; "native" (or NULL) is this machine's best, "generic" the least of its
                              family; on others the unfused instructions run. Nothing else in a program depends on it */
    /* Measures the ways to compute each convolution on this machine, a few milliseconds each, and takes the fastest,
     * whatever memory its filters need, in place of the one that estimates favour. The program holds the choice, so two
     * compilations may differ. Its progress is reported as "tune", from 0 to 1. */
    bool tune;
    /* The type that constant weights are stored in: XCVM_F32 (or 0), as they are; XCVM_F24, XCVM_F16 or XCVM_BF16,
     * rounded to nearest even. They are read as f32, and everything is computed in f32. It is about the weights of
     * matrix products, recurrent networks and convolutions, as far as the compiler packs them (depthwise filters it
     * leaves), and, in half precision, tables that only Gather reads. One with finite numbers beyond the type's
     * greatest stays f32. */
    xcvm_dtype weights;
    bool flush_subnormals; /* constants are folded as sessions compute that flush subnormal numbers to zero */
    /* Bytes that the compilation may hold at once, OUT_OF_MEMORY beyond; 0: no limit. A model's file and its external
     * data are mapped and do not count, nor does the C compiler of `fuse`, which is a process of its own. Results of
     * constants that there is no memory for are left to be computed when the program runs. */
    size_t memory_limit;
    /* Time from the call on, OUT_OF_TIME beyond; 0: no limit. */
    uint64_t timeout_ns;
    /* Gradients: the program gives, behind the model's outputs, one named "grad_out@NAME" for each parameter
     * (initializer of a float type) that the loss depends on, of the parameter's type. UNSUPPORTED, with every node in
     * the way, if there is no gradient of some. */
    bool backprop;
    /* The output that is differentiated, of one element, or a loss that is added, as of `train`. NULL: the only output
     * of a float type that is one number. */
    const char *loss;
    const char *const *wrt; /* names of parameters and inputs to differentiate by, all of which get an output */
    size_t wrt_count;       /* 0: all parameters but the running statistics of BatchNormalization */
    /* Pairs that become states of the program, called as the inputs are, in place of both: recurrent states, key/value
     * caches. They begin as zeros; docs/decoders.md says of which size. Types must agree as far as they are known. */
    const xcc_state_pair *states;
    size_t state_count;
    /* Training: the program takes a batch, gives the model's outputs and the loss, and updates its states: the
     * parameters, under their names, and what the optimizer keeps of them, under names that begin with "optimizer@".
     * `train` names the optimizer and its settings, "adam:lr=1e-3,weight_decay=0.01,betas=0.9/0.999";
     * xcc_optimizer and xcc_optimizer_setting tell what there is, and names and defaults are PyTorch's. The program's
     * metadata "train" has the optimizer with all its settings in this form. In a training program
     *
     * - `wrt` holds patterns, as those of groups, of the parameters that learn; none: all but running statistics. The
     *   others are constants.
     * - `loss` may name, besides an output, a loss that is added: one of xcc_loss's with the output and a new input
     *   of the labels, "softmax_cross_entropy(scores,labels)"; "mse(,y)" and "mse" leave out what is plain: the
     *   model's only output of a float type, an input called "labels". An input that the model has may be the labels.
     * The output that is added is called "loss".
     * - inputs are added behind the model's: "learning_rate", an f32 scalar; if `accumulate`, "apply", a bool
     *   scalar.
     * - outputs are added behind the model's: the loss if it is new; if gradients are clipped by their norm or the
     *   loss is scaled, "gradient_norm", an f32 scalar, of the gradients before they are clipped; with `all_reduce` it
     *   means nothing in runs that do not apply, whose gradients nobody has summed up.
     * - BatchNormalization in training form stores its running statistics into the parameters they come from.
     *
     * UNSUPPORTED, with every node in the way, if there is no gradient of some parameter that learns. */
    const char *train;
    const xcc_training_group *groups;
    size_t group_count;
    double clip_norm;  /* the gradients are scaled down to this 2-norm of all of them together; 0: they are not */
    double clip_value; /* their elements are brought to at most this magnitude, behind clip_norm; 0: they are not */
    /* Runs whose input "apply" is false only add up gradients, which the next that applies takes the mean of. */
    bool accumulate;
    double average; /* decay of moving averages of the parameters that learn, kept as "optimizer@NAME.average";
                       0: none */
    /* Gradients are computed of the loss times a factor, which begins with this one, a state "optimizer@loss_scale": it
     * halves when a gradient is not finite, and then no other state changes but running statistics; it doubles after
     * 2000 steps without. 0: no factor. */
    double loss_scale;
    /* The program is one of several processes' that train together, each on its part of every batch: AllReduce sums
     * gradients up, with `accumulate` in runs that apply alone, and makes means of losses and running statistics, as
     * the session's all_reduce does. The input "apply" has to be the same in all processes: those that apply wait for
     * the others. Axis 0 of the model's first input is the batch, whose parts may differ in size. BatchNormalization
     * takes mean and variance of the whole batch, in bodies of control flow those of the process's part. */
    bool all_reduce;
    /* The counterpart of a training program of the same options, for validation: the model in inference form
     * (BatchNormalization on running statistics, Dropout doing nothing), which reads the same states, or, if
     * there is `average`, the averages, and changes none. It has the model's outputs and the loss,
     * and no input but the model's and the labels. */
    bool evaluate;
    /* BatchNormalization of a model that was exported for inference is put into training form. */
    bool train_batch_normalization;
    /* Gradients go through Round, Floor, Ceil, Sign, QuantizeLinear and DynamicQuantizeLinear as if these did not
     * round, but not where QuantizeLinear saturates; else they are 0 there. */
    bool straight_through;
    /* Two programs in place of one, by a compilation each with options that are the same but for this one. The forward
     * gives the model's outputs, then what the backward reads, named "retained_NAME". The backward takes the gradient
     * of each output that depends on what is differentiated by, "grad_in@OUTPUT", of the output's type, and what was
     * retained, and gives the gradients alone. The outputs are all those of float types, of any shape, or `loss`. */
    xcc_phase phase;
    /* 2: behind the gradients, the derivative of the sum of their products with further inputs "vector@NAME", one of
     * the type of each that has a gradient, by the same parameters: "hvp_out@NAME", the Hessian of the loss times the
     * vectors. 0, 1: none. Not with straight_through or phase. */
    int order;
    const xcc_vjp_function *vjps; /* of host functions that are differentiated */
    size_t vjp_count;
    /* With backprop: what the backward reads of the forward's results is kept until then, or forgotten and computed
     * again. Results are the same bits, running statistics are updated once. NULL or "none": all is kept. "chen": what
     * articulation points of the forward give is kept (arXiv 1604.06174). "time", "memory": by dynamic programming over
     * lower sets (arXiv 1905.11722), time-centric and memory-centric. All of these need known sizes and take as little
     * memory as they find a way to, or, with memory_budget, the least time within it. "custom:NAMES": the results that
     * are named, with commas between them, are forgotten. */
    const char *recompute;
    /* Bytes that the arena of a step may take: all that the forward and the backward compute, gradients included, but
     * no inputs and parameters. OUT_OF_MEMORY, with the least that was found, if there is no way; 0: there is none. */
    uint64_t memory_budget;
    /* What stands between QuantizeLinear and DequantizeLinear, and QLinear operators, as integer instructions, whose
     * results are the same bits on every machine. They differ from floats by one step of the result's scale at most,
     * where a number lies between two. */
    xcc_integer_use integer;
    /* What is made is an ONNX model, in place of a program: the graph as it is before instructions are merged, each as
     * the operator of its name. `optimization` is 1 at most. The opset is 21, or what its newest operator needs; names
     * of inputs, outputs and dimensions stay. UNSUPPORTED, with everything in the way, if there is no operator for an
     * instruction, a type or a state. */
    bool onnx;
    /* Elements of constants of 1 KB and more go there, in place of the model, if it is not NULL; a model of 2 GB needs
     * that. The model names it as `onnx_data_location`, a path from its own folder. */
    xcvm_sink onnx_data_sink;
    void *onnx_data_user;
    const char *onnx_data_location;
    /* Constant matrices of products, and tables of which Gather alone reads rows, in blocks of 32; the others stay f32.
     * Not with `weights`. Matrices of fewer rows than a block, tables that blocks do not divide and constants with
     * numbers that are not finite, or beyond what an f16 scale reaches, stay as they are. */
    xcc_weight_blocks weight_blocks;
    /* Products with weights in blocks, the model's own included (MatMulNBits, DequantizeLinear in blocks), round what
     * they multiply them with to 8 bits, with a scale for each block; else that stays f32. */
    bool integer_activations;
    /* What products compute in: XCVM_F32 (or 0), as they are; XCVM_BF16, products with constant matrices and
     * convolutions of blocked channels round both operands to nearest even, subnormal numbers to zero, and sum up in
     * f32, where that is no Winograd's algorithm, and the first has an even number of channels, blocked. Results are
     * the same bits on any CPU but for subnormal and overflowing products. Constants with finite numbers beyond bf16's
     * greatest stay f32. With `weights` f32 or bf16 alone, and not with weights in blocks. */
    xcvm_dtype compute;
    /* The type of `states` that are caches of keys and values, which attention alone reads and rows are added to:
     * XCVM_F32 (or 0), as they are; XCVM_F16 or XCVM_BF16, which rows are rounded to as they are added. */
    xcvm_dtype caches;
    /* Rows that caches of keys and values have place for from the start, up to INT32_MAX: those among `states` that
     * ONNX's Attention extends (f32, of as many queries as new keys; docs/generation.md says what is left out), or
     * Concat (f32) for nothing but products by queries and weights, whose number of rows alone is open. Each run writes
     * its rows behind those that are there; one whose rows have no place fails with OUT_OF_RANGE. A state "rows@" and
     * the first cache's name counts them, for each batch entry. 0: such a cache grows, and is copied in each run. Rows
     * that the model itself addresses, as TensorScatter, need no such number, but known sizes. */
    int64_t cache_rows;
    /* Receives a line of text for each of `states`: whether rows are added to it where it lies, and if not, why. NULL:
     * nobody is told. */
    xcvm_sink remarks;
    void *remarks_user;
    /* Compiles the inference form of the model: BatchNormalization uses its running statistics, and Dropout does
     * nothing, also where the model says otherwise. False: the model is compiled as ONNX defines it. Not with `train`.
     */
    bool inference;
    /* Called with a line of text, without its end, for each kind of note on the model. NULL: no notes. A model in
     * training form is noted where neither gradients nor training are asked for. */
    void (*note)(void *user, xcc_note_kind kind, const char *text);
    void *note_user;
    /* Patterns of further pairs for `states`, each "OUTPUT:INPUT" or "auto". A '*' in OUTPUT stands for any characters,
     * and each '*' in INPUT for the characters of the '*' at the same position in OUTPUT: "present.*:past.*". "auto"
     * finds the pairs of exported decoders and recurrent networks by their names and by the graph; docs/decoders.md
     * lists the conventions. Pairs of `states` come first. A pattern that finds no pair fails with INVALID_ARGUMENT.
     * `remarks` receives a line that begins with "note: " for each name that has no partner or more than one. */
    const char *const *state_patterns;
    size_t state_pattern_count;
    /* With `all_reduce`: BatchNormalization takes mean and variance of the process's own part of the batch. */
    bool local_batch_normalization;
    /* The label that a loss of classes that is added leaves out, in the loss, its mean and its gradient: -100, as in
     * PyTorch, or with `own_ignore_label` this one. Of a batch whose labels are all left out the loss is 0. */
    int64_t ignore_label;
    bool own_ignore_label;
    /* Names of initializers that are inputs of the model, too, and stay inputs of the program in place of constants;
     * the caller of each run gives their values, since a program has no defaults. Only xcc_default_inputs gives such
     * names; others fail with INVALID_ARGUMENT. */
    const char *const *default_inputs;
    size_t default_input_count;
} xcc_options;

/* Memory and arithmetic of the model as imported and as emitted. Bytes and flops that depend on open dimensions are
 * counted with those taken as 1, and `exact` is false. */
typedef struct xcc_report {
    size_t size; /* set by the caller */
    bool exact;
    size_t nodes_before, nodes_after;
    uint64_t flops_before, flops_after;
    uint64_t peak_bytes_before, peak_bytes_after;
    uint64_t parameter_bytes;
    uint64_t arena_bytes, arena_lower_bound;
    /* Of what xcc_options.weights is about, and of quantised weights of integer instructions: as f32 and as stored. */
    uint64_t weight_bytes_before, weight_bytes_after;
    size_t uncompressed;   /* constants that stay f32, as numbers are out of range */
    size_t gradient_count; /* parameters and inputs that gradients are given of, and their bytes */
    uint64_t gradient_bytes;
    size_t retained_count; /* of forward and backward apart: values that the one keeps for the other, and their bytes */
    uint64_t retained_bytes;
    /* Recomputation: peak of a step without it, instructions that are computed again, and what a step is estimated to
     * take as a multiple of one without. arena_bytes is its peak with it. */
    uint64_t recompute_peak_before;
    size_t recomputed;
    double recompute_time;
    /* Convolutions and products by quantised weights that are computed in integers, and in floats, of which so many are
     * since that is faster on this machine. */
    size_t integer_products, float_products, faster_as_floats;
    /* Where xcc_options.compute is bf16: products, convolutions, attentions and recurrences in bf16, and in f32. */
    size_t bf16_products, exact_products;
    size_t block_products; /* products with matrices in blocks */
    size_t tuned;          /* forms of convolutions whose ways to be computed xcc_options.tune measured */
    /* Nodes of the model in training form, whose results depend on the batch (BatchNormalization) or on random numbers
     * (Dropout). 0 with xcc_options.inference. */
    size_t training_nodes;
} xcc_report;

/* Compiles a model file. External data must lie in the model's own folder or below; where the model or its data are
 * symbolic links, below that folder or below the one of the file that the model leads to. The program's bytes go to
 * `sink`, from when all else is done, so that after a failure other than the sink's own, or OUT_OF_TIME, it has
 * received none. `options` and `report` may be NULL.
 *
 * Time and memory are in proportion to the model, but for a logarithm: its bytes, those of its external data, and what
 * follows from them by rules with bounds. Results of constants come to 64 MB and 4 times the constants at most, and 60
 * seconds are spent on them; the rest is left to be computed when the program runs. Calls of the model's functions may
 * come to 262,144 nodes more than its graph and its functions have, and to 256 MB, or 4 times the model; sparse
 * tensors to 64 MB, or 64 times the model; its operators Gradient to 262,144 values, and to looking at 134 million;
 * beyond that the model is UNSUPPORTED. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_compile_file(const char *path, const xcc_options *options, xcvm_sink sink,
                                                    void *user, xcc_report *report, xcvm_error *error);
/* The same for a model in memory; external data is refused. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_compile(const void *model, size_t count, const xcc_options *options,
                                               xcvm_sink sink, void *user, xcc_report *report, xcvm_error *error);

/* Lists the inputs of a model that have defaults: initializers that are inputs, too, in models of IR version 4 and
 * later. They are constants of a program unless xcc_options.default_inputs names them. `visit` is called with each name
 * in the order of the inputs. Of `options` (may be NULL) allocator, memory_limit and timeout_ns count. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_default_inputs_file(const char *path, const xcc_options *options,
                                                           void (*visit)(void *user, const char *name), void *user,
                                                           xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_default_inputs(const void *model, size_t count, const xcc_options *options,
                                                      void (*visit)(void *user, const char *name), void *user,
                                                      xcvm_error *error);

/* Says as text everything that keeps a model file from compiling (all nodes, not the first) and what the model is:
 * opsets, inputs, outputs, parameters, flops, estimated peak memory. With `backprop`, also every node that has no
 * gradient though the loss's goes through it, and what training takes: the memory of gradients and of what the forward
 * keeps for the backward, the flops of each. Returns the status that compiling would. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_check_file(const char *path, const xcc_options *options, xcvm_sink sink,
                                                  void *user, xcvm_error *error);

/* ---- Export as C ---- */

typedef struct xcc_c_options {
    size_t size;                     /* set by the caller */
    const xcvm_allocator *allocator; /* NULL: malloc's */
    const char *name;                /* in front of all that the C declares; NULL: "net" */
    const char *header_name;         /* as the source includes it; NULL: "net.h" */
    /* The instruction set that vectors are for: "x86-64-v3", "x86-64-v4", "aarch64" ...; NULL: C99 for any processor.
     */
    const char *target;
    /* Where the memory of runs lies, if it is not to be part of the context: an array of that name, which the host
     * defines, or, with a point in its name, a section of the linker's. One run at a time, then. */
    const char *arena_in;
    bool with_main; /* a main that reads inputs from files and writes outputs to standard output */
    /* Receives the files, each with its user; weights NULL: they are part of the source. */
    xcvm_sink sink;
    void *source, *header, *weights;
} xcc_c_options;

/* Writes a program as C99 that needs nothing but the C library's mathematics, allocates nothing and is reentrant by a
 * context; docs/c-export.md has its interface. UNSUPPORTED, with everything in the way, if there is no C for
 * an instruction, a type, or sizes that only a run knows; then the sink has received nothing. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_export_c(const void *program, size_t count, const xcc_c_options *options,
                                                xcvm_error *error);

typedef struct xcc_pass_info {
    const char *name;
    const char *summary;
    int level;  /* 0: it always runs; else the least optimization that has it */
    int rounds; /* how often it may run, as long as passes around it find more to do */
} xcc_pass_info;
XCVM_API size_t xcc_pass_count(void);
XCVM_API const xcc_pass_info *xcc_pass(size_t index);

/* One ONNX operator as the compiler knows it. `versions` lists the opset versions at which its meaning changed. */
typedef struct xcc_operator_info {
    const char *domain;
    const char *name;
    const char *versions;
    const char *lowering; /* the instructions that it becomes */
} xcc_operator_info;
XCVM_API size_t xcc_operator_count(void);
XCVM_API const xcc_operator_info *xcc_operator(size_t index);

/* What xcc_options.train and .loss may name. Optimizers and losses by index, NULL beyond the last; the settings of an
 * optimizer likewise. */
typedef struct xcc_optimizer_info {
    const char *name;
    const char *summary;
} xcc_optimizer_info;
typedef struct xcc_setting_info {
    const char *name;
    const char *value; /* the default, as text */
    const char *summary;
} xcc_setting_info;
typedef struct xcc_loss_info {
    const char *name;
    const char *summary; /* with the types of labels */
} xcc_loss_info;
XCVM_API const xcc_optimizer_info *xcc_optimizer(size_t index);
XCVM_API const xcc_setting_info *xcc_optimizer_setting(size_t optimizer, size_t index);
XCVM_API const xcc_loss_info *xcc_loss(size_t index);
/* Methods for xcc_options.recompute, but custom; NULL beyond the last. */
XCVM_API const char *xcc_recomputation_at(size_t index);
/* The loss that suits labels of a type and rank, of an output of `output_rank` axes with `classes` along axis 1 (-1:
 * not known): integers are classes, floats of the output's rank are numbers. NULL if there is none. */
XCVM_API const char *xcc_loss_suggest(int output_rank, int64_t classes, xcvm_dtype label_type, int label_rank);
/* The learning rate that a text for xcc_options.train states, or its optimizer's default; INVALID_ARGUMENT, with what
 * there is, for an unknown optimizer or setting, or a value that is none. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_optimizer_rate(const char *train, double *rate, xcvm_error *error);

/* ONNX's serialised TensorProto, SequenceProto and OptionalProto, as in the .pb files of its test data. `type` says
 * which of them the bytes are and may be NULL for a tensor. The value is a copy; `name` receives the first 127 bytes of
 * its name, "" if it has none. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_load(const void *bytes, size_t count, const xcvm_type *type,
                                                  const xcvm_allocator *allocator, char name[128], xcvm_value **value,
                                                  xcvm_error *error);
/* The same within so much time, OUT_OF_TIME beyond; 0: no limit. */
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_load_within(const void *bytes, size_t count, const xcvm_type *type,
                                                         const xcvm_allocator *allocator, uint64_t timeout_ns,
                                                         char name[128], xcvm_value **value, xcvm_error *error);
XCVM_API XCVM_MUST_USE xcvm_status xcc_value_save(const xcvm_value *value, const char *name, xcvm_sink sink, void *user,
                                                  xcvm_error *error);

#ifdef __cplusplus
}
#endif
#endif
