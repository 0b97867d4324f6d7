/*
 * XCVM's trainer: trains models on data from files or memory. docs/training.md is the guide; the conventions of xcvm.h
 * apply.
 *
 * Threads: a trainer and a data set belong to one thread at a time. Only xct_trainer_stop may be called from
 * any thread and from signal handlers. xct_trainer_fit uses a reader thread while it runs. Callbacks run on the
 * caller's thread.
 *
 * Lifetimes: arguments are read only until the function returns, unless stated otherwise. An allocator must outlive the
 * objects made with it.
 */
#ifndef XCVM_TRAIN_H
#define XCVM_TRAIN_H

#include "compiler.h"
#include "data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Trainers ---- */

/* A model in training: its parameters, optimizer state, and training and evaluation programs. */
typedef struct xct_trainer xct_trainer;

enum { XCT_RESULT_METRICS = 8 };

/* Receives the report of a compiled training program. */
typedef struct xct_plan_visitor {
    void (*call)(void *user, const xcc_report *report);
    void *user;
} xct_plan_visitor;

typedef struct xct_trainer_options {
    size_t size;
    /* Compile options; borrowed until the trainer is destroyed. `train` is required. `loss`, `limits`, `training`,
     * `gradients.wrt` and `cancelled` apply. `recompute` is planned per batch size. A `loss` without parentheses uses
     * `label`. `cancelled` also ends a step. A training then ends as after xct_trainer_stop, or with CANCELLED where it
     * cannot: in a validation, with gathered gradients, and with several processes. */
    const xcc_options *compile;
    /* Input of the labels; NULL: "labels" for an added loss, else the last input. */
    const char *label;
    int threads;         /* as in xcvm_session_options */
    size_t memory_limit; /* bytes of each session and of each data set opened for the trainer; 0: no limit */
    uint64_t seed;       /* of random instructions, `init` and shuffling */
    /* Metrics: "accuracy", "top5", "f1", "mse", "mae", "perplexity", or only "auto" (accuracy for classes, mae for
     * numbers). They apply to the output of an added loss, else to the first float output that is not the loss. */
    const char *const *metrics;
    size_t metric_count;
    /* Initializes weights: "he", "glorot", "normal" (deviation 0.02), "uniform" (PyTorch's) or "orthogonal"; biases 0,
     * normalization scales 1. NULL: the model's weights. */
    const char *init;
    /* A file of arrays that have the names of parameters, with the values to begin with, for all of them or some; after
     * `init`. compile->diagnostics reports their use. Float types are converted to those of the parameters. NULL: none.
     */
    const char *weights;
    /* Several processes: number `rank` of `ranks` (0: 1). All make the same calls on the same data with the same
     * options except `rank`. Rank 0 writes files. During training f1 covers the process's own part; other results cover
     * all. `all_reduce` is as in xcvm_session_options. */
    int rank, ranks;
    xcvm_all_reduce all_reduce;
    xct_plan_visitor planned; /* with compile->recompute: called for each compiled program, one per batch size */
    bool training_form;       /* xct_trainer_export leaves nodes in training form as they are */
} xct_trainer_options;

XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_create_file(const char *model, const xct_trainer_options *options,
                                                           xct_trainer **trainer, xcvm_error *error);
/* The same for a model in memory, which is borrowed until the trainer is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_create(const void *model, size_t count,
                                                      const xct_trainer_options *options, xct_trainer **trainer,
                                                      xcvm_error *error);
XCVM_API void xct_trainer_destroy(xct_trainer *trainer);

/* Enumerate the values of a batch: the model's inputs, and the labels of an added loss. NULL past the end. */
XCVM_API size_t xct_trainer_input_count(const xct_trainer *trainer);
XCVM_API const xcvm_value_info *xct_trainer_input_at(const xct_trainer *trainer, size_t index);

/* Loss and metrics of a batch or a data set. */
typedef struct xct_result {
    size_t size;
    uint64_t examples;
    double loss, loss_error; /* loss and its standard error; NaN if unknown */
    double gradient_norm;    /* before clipping; NaN if not computed. Undefined for steps that gather */
    size_t metric_count;
    struct {
        const char *name;
        double value, error;
    } metrics[XCT_RESULT_METRICS];
} xct_result;

typedef struct xct_step_options {
    size_t size;
    double rate_factor; /* factor of the optimizer's learning rate; 0: 1 */
    bool gather;        /* only accumulate gradients; needs `accumulate`. Equal in all processes */
} xct_step_options;

/* Trains on one batch, whose first axis counts examples. A new batch size compiles a new program; the last two are
 * kept. A failed step changes nothing. A non-finite loss is INVALID_ARGUMENT, and the message names the first
 * instruction with a non-finite result. `options` and `result` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_step(xct_trainer *trainer, const xcvm_value *const *batch,
                                                    const xct_step_options *options, xct_result *result,
                                                    xcvm_error *error);
/* Evaluates a batch in inference form. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_evaluate(xct_trainer *trainer, const xcvm_value *const *batch,
                                                        xct_result *result, xcvm_error *error);
XCVM_API uint64_t xct_trainer_step_count(const xct_trainer *trainer);

/* Enumerate trainable parameters and running statistics, lent until the next step; NULL past the end. */
XCVM_API size_t xct_trainer_parameter_count(const xct_trainer *trainer);
XCVM_API const xcvm_value *xct_trainer_parameter_at(const xct_trainer *trainer, size_t index, const char **name);
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_set_parameter(xct_trainer *trainer, const char *name,
                                                             const xcvm_value *value, xcvm_error *error);

/* Saves a checkpoint: a safetensors file with parameters, optimizer state and progress, replaced atomically.
 * INVALID_ARGUMENT if several processes hold accumulated gradients. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_save(const xct_trainer *trainer, const char *path, xcvm_error *error);
/* Restores a checkpoint. Training then reproduces the uninterrupted run bit for bit. INVALID_ARGUMENT, without any
 * change, for a damaged file or another model, optimizer or data. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_load(xct_trainer *trainer, const char *path, xcvm_error *error);
/* Writes the original model with the trained weights, or their moving averages if these exist. It is in inference form,
 * unless the options have `training_form`: BatchNormalization uses its running statistics, and Dropout has no effect.
 * compile->diagnostics is called with XCC_DIAGNOSTIC_INFERENCE_FORM if this changes nodes. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_export(const xct_trainer *trainer, xcvm_sink sink, xcvm_error *error);
/* The same with external data, for models of 2 GB and more: `data` receives initializers of 1 KB and more. The model
 * refers to them as `location`, a path relative to its directory. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_export_external(const xct_trainer *trainer, const char *location,
                                                               xcvm_sink sink, xcvm_sink data, xcvm_error *error);

/* Enumerate class names: the model's, or those of the first data set of images. xct_trainer_export writes them as
 * metadata "class_names", one per line, and "class_output", the output with the scores. NULL past the end. */
XCVM_API size_t xct_trainer_class_count(const xct_trainer *trainer);
XCVM_API const char *xct_trainer_class_at(const xct_trainer *trainer, size_t index);
/* Sets the names, which are copied; 0: none. INVALID_ARGUMENT for an empty or repeated name, a name with a line feed,
 * or a model with fewer scores. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_set_classes(xct_trainer *trainer, const char *const *names, size_t count,
                                                           xcvm_error *error);

/* ---- Data sets ---- */

/* Examples along the first axis of arrays of equal length. */
typedef struct xct_dataset xct_dataset;

/* Maps an input to an array. Other inputs use the array of their own name. */
typedef struct xct_column {
    const char *input;
    const char *array; /* NULL: the input's name */
    /* Factor of the numbers of an array, or of the bytes of images, for an input of floats. Zero means none: arrays
     * stay as they are, and images become numbers from 0 to 1. */
    double scale;
} xct_column;

/* Opens data for a trainer's inputs. A path is one of these:
 *
 * - a file (.npz, .safetensors), a directory of such files, or a pattern such as "train-*.npz";
 * - several .npy files, whose arrays have their names;
 * - a directory with one directory of images per class, whose arrays are "images" and "labels";
 * - images, or a directory of images, without labels.
 *
 * Images become tensors as by xct_image_load; other files beside them are skipped. Types, shapes and lengths are
 * checked. Integers and narrower floats are converted. Files must not change until the data set is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_create(const xct_trainer *trainer, const char *const *paths,
                                                      size_t path_count, const xct_column *columns, size_t column_count,
                                                      xct_dataset **dataset, xcvm_error *error);
/* The same for any inputs, such as those of a program. Names and types are copied. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_create_for_inputs(const xcvm_value_info *inputs, size_t input_count,
                                                                 const char *const *paths, size_t path_count,
                                                                 const xct_column *columns, size_t column_count,
                                                                 const xcvm_allocator *allocator, xct_dataset **dataset,
                                                                 xcvm_error *error);
XCVM_API void xct_dataset_destroy(xct_dataset *dataset);
/* Sets the memory limit of image decoding and the time limit of each xct_dataset_read; 0: no limit. */
XCVM_API void xct_dataset_set_limits(xct_dataset *dataset, size_t memory_limit, uint64_t timeout_ns);
/* Puts the examples that xct_dataset_read reads into an order that depends on the seed and their number. Two files stay
 * open, so that a mixed order of more files opens them again and again. Not while another thread reads. */
XCVM_API void xct_dataset_mix(xct_dataset *dataset, uint64_t seed);
/* Reads `count` examples from number `first` in file order, or in the mixed one, as one new tensor per input.
 * Sequential reading is fastest. OUT_OF_RANGE past the end. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_read(xct_dataset *dataset, uint64_t first, size_t count,
                                                    xcvm_value **values, xcvm_error *error);
XCVM_API uint64_t xct_dataset_example_count(const xct_dataset *dataset);
/* Names of the classes of a data set of images, in the order of their numbers; NULL beyond the last. Other data sets
 * have none. */
XCVM_API size_t xct_dataset_class_count(const xct_dataset *dataset);
XCVM_API const char *xct_dataset_class_at(const xct_dataset *dataset, size_t index);
/* Renumbers the classes of a data set of images by the index of their names in this list. INVALID_ARGUMENT if a name is
 * not in it. Has no effect on other data sets. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_set_classes(xct_dataset *dataset, const char *const *names, size_t count,
                                                           xcvm_error *error);
/* The factor of an array of u8 for an input of floats, or the factor of its column; 0 for other arrays. */
XCVM_API double xct_dataset_scale(const xct_dataset *dataset, const char *input);
/* Returns the number of skipped files, which are no images or lie in deeper folders. *names (may be NULL) lends a text
 * with some of their names. */
XCVM_API size_t xct_dataset_skipped_count(const xct_dataset *dataset, const char **names);
/* Returns true if a path (may be NULL) is one of the data set's files, which must not be overwritten. */
XCVM_API bool xct_dataset_has_file(const xct_dataset *dataset, const char *path);

/* ---- Training ---- */

typedef enum xct_end {
    XCT_END_DONE,    /* all epochs or steps done */
    XCT_END_STOPPED, /* xct_trainer_stop */
    XCT_END_PATIENCE /* the loss no longer improved */
} xct_end;

/* Weights of the trainer after training. */
typedef enum xct_weights {
    XCT_WEIGHTS_AUTO, /* with patience the best, else the last */
    XCT_WEIGHTS_LAST,
    /* Those of the epoch with the lowest validation loss (else training loss). Optimizer state is the last step's.
     * Checkpoints contain both, so training resumes from the last step. */
    XCT_WEIGHTS_BEST
} xct_weights;

/* Progress of a training. */
typedef struct xct_progress {
    size_t size;
    uint64_t step, steps;   /* done and total */
    uint64_t epoch, epochs; /* current epoch from 1, and total */
    double rate;            /* learning rate of the step */
    double samples_per_second, seconds_left;
    const xct_result *batch;      /* of the step */
    const xct_result *validation; /* at the end of an epoch; otherwise NULL */
    /* Means over the epoch's steps, at its end, or up to the step with which the training ends; with overfit_batch, of
     * the step. Otherwise NULL. */
    const xct_result *training;
    bool epoch_ends; /* with this step */
} xct_progress;

typedef struct xct_progress_visitor {
    void (*call)(void *user, const xct_progress *progress);
    void *user;
} xct_progress_visitor;

typedef struct xct_fit_options {
    size_t size;
    uint64_t epochs;               /* 0: derived from `steps`, or 1 */
    uint64_t steps;                /* 0: derived from `epochs` */
    size_t batch;                  /* examples of all processes together; 0: the model's, or 32 */
    bool no_shuffle;               /* keep the order of the files */
    size_t accumulate;             /* batches per step; 0: 1. More need the compiler's `accumulate` */
    const char *schedule;          /* "cosine:warmup=100"; NULL: constant */
    const xct_dataset *validation; /* NULL: `held_out`, or none */
    double held_out;               /* share of the data kept for validation, 0 to 1 */
    uint64_t patience;             /* epochs without improvement before stopping; 0: never stop */
    xct_weights weights;
    bool overfit_batch;            /* train on the first batch only */
    const char *log;               /* a CSV file; NULL: none */
    const char *curve;             /* an SVG file; NULL: none */
    const char *title;             /* title of the curve */
    const char *checkpoints;       /* directory of checkpoints, created if missing; NULL: none */
    uint64_t checkpoint_every;     /* steps; 0: each epoch. The end always saves one */
    size_t keep;                   /* number of checkpoints to keep; 0: 3 */
    bool resume;                   /* continue from the latest of `checkpoints`; INVALID_ARGUMENT if there is none */
    xct_progress_visitor progress; /* after each step; again if the next one was stopped within an epoch */
} xct_fit_options;

typedef struct xct_fit_report {
    size_t size; /* set by the caller */
    xct_end end;
    uint64_t steps, epochs; /* total, including those before a resumption */
    xct_result training;    /* of the last epoch, or its part that was done; with overfit_batch, of the last step */
    xct_result validation;  /* at its end; zero examples if there was none */
    char checkpoint[4096];  /* path of the latest one, or "" */
    uint64_t best_step;     /* step of the trainer's weights; 0: the last step */
    double best_loss;       /* loss of that epoch */
    bool left_over;         /* examples that do not fill a fixed-size batch were skipped */
    uint64_t steps_taken;   /* by this call; 0: the restored checkpoint is already at the end */
} xct_fit_report;

/* Trains on a data set, from its start or from the restored checkpoint. After a failure the trainer has the state of
 * the last successful step. `report` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_fit(xct_trainer *trainer, const xct_dataset *data,
                                                   const xct_fit_options *options, xct_fit_report *report,
                                                   xcvm_error *error);
/* Names for xct_trainer_options.metrics and xct_fit_options.schedule; NULL past the end. */
XCVM_API size_t xct_metric_count(void);
XCVM_API const char *xct_metric_at(size_t index);
XCVM_API size_t xct_schedule_count(void);
XCVM_API const char *xct_schedule_at(size_t index);

/* Makes xct_trainer_fit save a checkpoint and return after the current step. May be called from any thread and from
 * signal handlers. */
XCVM_API void xct_trainer_stop(xct_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
