/*
 * XCVM's trainer: models that learn, from data in files or in memory. The conventions of xcvm.h hold here too.
 *
 * Threads. A trainer, a data set and arrays belong to one thread at a time; xct_trainer_stop alone may be called from
 * any thread and from a signal handler. xct_trainer_fit starts a thread of its own that reads ahead, and ends it before
 * it returns; callbacks are called on the caller's thread.
 *
 * Lifetimes. What a call is given (paths, bytes, options with the arrays and strings in them) is read until it returns
 * and is not kept, but where it says so: an allocator must outlive what was made with it.
 */
#ifndef XCVM_TRAIN_H
#define XCVM_TRAIN_H

#include "compiler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files of arrays ---- */

/* The arrays of an .npy, .npz or .safetensors file, told by its content. */
typedef struct xct_arrays xct_arrays;

/* Maps the file, which must not be changed until xct_arrays_close. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_open(const char *path, const xcvm_allocator *allocator,
                                                   xct_arrays **arrays, xcvm_error *error);
/* The same for a file in memory, which is lent until xct_arrays_close. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_open_memory(const void *bytes, size_t count,
                                                          const xcvm_allocator *allocator, xct_arrays **arrays,
                                                          xcvm_error *error);
XCVM_API void xct_arrays_close(xct_arrays *arrays);
/* How long each later call of xct_arrays_value may take, which unpacks and copies; OUT_OF_TIME beyond. 0: no limit. */
XCVM_API void xct_arrays_set_timeout(xct_arrays *arrays, uint64_t timeout_ns);
XCVM_API size_t xct_arrays_count(const xct_arrays *arrays);
/* The name of an array: in a .npz file without its ".npy"; "" for that of an .npy file. NULL if there is none. */
XCVM_API const char *xct_arrays_name(const xct_arrays *arrays, size_t index);
/* The index of the array of that name, or with ".npy" behind it; SIZE_MAX if there is none. */
XCVM_API size_t xct_arrays_find(const xct_arrays *arrays, const char *name);
/* The array as a tensor of its own. `wanted` says which element type bytes without one are, as NumPy stores bfloat16,
 * float8 and types of fewer than 8 bits; with XCVM_NO_DTYPE two bytes are bf16, and one is refused. */
XCVM_API XCVM_MUST_USE xcvm_status xct_arrays_value(const xct_arrays *arrays, size_t index, xcvm_dtype wanted,
                                                    xcvm_value **value, xcvm_error *error);

/* ---- Images ---- */

typedef struct xct_image_options {
    size_t size;
    const xcvm_allocator *allocator; /* of the tensor; NULL: malloc's */
    size_t memory_limit;             /* bytes that decoding may hold at once, OUT_OF_MEMORY beyond; 0: no limit */
    uint64_t timeout_ns;             /* OUT_OF_TIME beyond; 0: no limit */
} xct_image_options;

/* Size of an image as it is to be seen, that is behind its orientation, and its channels: 1 (grayscale), 3, or 4 with
 * alpha. */
typedef struct xct_image_info {
    size_t size; /* set by the caller */
    int64_t height, width, channels;
    int64_t to_height, to_width; /* of the tensor */
} xct_image_info;

/* Makes a tensor of an image file in memory: PNG, JPEG, WebP, TIFF, BMP, PGM, PPM or JPEG 2000, told by its content.
 * `wanted` (NULL: HxWxC of u8) declares type and layout: 1xCxHxW or 1xHxWxC, CxHxW or HxWxC, HxW, or for one channel
 * any shape of H * W elements in its last dimension. The image is turned as its EXIF orientation says, and resized to H
 * and W where they are known, by a bilinear filter that averages when it makes smaller, as Pillow and torchvision do;
 * of one that is known the other follows. C is 1, 3 or 4; where it is open, the image's own. Alpha is left out where C
 * is not
 * 4. Floats are from 0 to 1, integers from 0 to 255; of 16 bits a channel the upper 8 count. `info` (may be NULL) is
 * about the file. INVALID_ARGUMENT if it is no image, or broken; SHAPE_MISMATCH, TYPE_MISMATCH if it cannot become what
 * is wanted. */
XCVM_API XCVM_MUST_USE xcvm_status xct_image_load(const void *bytes, size_t count, const xcvm_type *wanted,
                                                  const xct_image_options *options, xct_image_info *info,
                                                  xcvm_value **image, xcvm_error *error);

/* ---- Trainers ---- */

/* A model that learns: its parameters, what the optimizer keeps of them, and the programs that change them. */
typedef struct xct_trainer xct_trainer;

enum { XCT_RESULT_METRICS = 8 };

typedef struct xct_options {
    size_t size;
    /* How the model learns: train (the optimizer; it must be there), loss, wrt, groups, clip_norm, clip_value,
     * accumulate, average, loss_scale, ignore_label, train_batch_normalization (of models that have any); and what is
     * of use of the rest: allocator, dims, optimization, memory_limit, note, recompute and memory_budget (planned for
     * the sizes of each batch). A `loss` that is one of xcc_loss's without parentheses takes `label`. It is lent, with
     * all that it points to, until the trainer is destroyed. */
    const xcc_options *compile;
    /* The input that has the labels: the one that a loss adds, or one of the model's. NULL: "labels" of a loss that is
     * added, else the last input. */
    const char *label;
    int threads;         /* as of xcvm_session_options */
    size_t memory_limit; /* bytes that a session may hold at once, and each data set that is opened for the trainer,
                            with what its readers unpack, OUT_OF_MEMORY beyond; 0: no limit */
    uint64_t seed;       /* of Dropout and the like, of `init`, and of shuffling */
    /* Metrics to measure, of "accuracy", "top5", "f1", "mse", "mae" and "perplexity", at most XCT_RESULT_METRICS; or
     * "auto" alone: accuracy of classes, mae of numbers, else nothing. They
     * are of the output that the loss is added to, or else of the first output of a float type that is not the loss,
     * and need integer labels of classes, or for mse and mae numbers. */
    const char *const *metrics;
    size_t metric_count;
    /* Draws the weights anew: "he", "glorot", "normal" (deviation 0.02), "uniform" (by the inputs of a unit, as PyTorch
     * does) or "orthogonal"; biases become 0, scales of normalisations 1. NULL: as the model has them. */
    const char *init;
    /* A file of arrays that have the names of parameters, with the values to begin with, for all of them or some; after
     * `init`. Float types are converted to those of the parameters. NULL: none. */
    const char *weights;
    /* Several processes that train together, each on its part of every batch. Number `rank`, from 0 on, of `ranks` (0:
     * 1). All call the same functions on the same data, with the same options but for rank; `all_reduce` and its like
     * are as of xcvm_session_options. Rank 0 writes files. While learning f1 is of a process's own part; what else is
     * measured, and all that is for validation, of all. */
    int rank, ranks;
    xcvm_status (*all_reduce)(void *user, xcvm_dtype dtype, void *elements, size_t count, xcvm_error *error);
    void *all_reduce_user;
    xcvm_status (*all_reduce_begin)(void *user, xcvm_dtype dtype, void *elements, size_t count, void **request,
                                    xcvm_error *error);
    xcvm_status (*all_reduce_end)(void *user, void *request, bool *done, xcvm_error *error);
    void (*all_reduce_abandon)(void *user, void *request);
    /* Is told what is planned of each program whose compile options have `recompute`, one for each size of batch, when
     * it has been compiled: in the calls that make the trainer or learn. NULL: nobody is. */
    void (*planned)(void *user, const xcc_report *report);
    void *planned_user;
    const xcvm_allocator *all_reduce_allocator; /* as of xcvm_session_options */
    bool training_form;                         /* xct_trainer_export leaves nodes in training form as they are */
    /* Receives lines of text about the initial weights: how many parameters a file had, which ones it did not have, and
     * which arrays were converted with rounding or not used. NULL: nobody does. */
    xcvm_sink remarks;
    void *remarks_user;
} xct_options;

XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_create_file(const char *model, const xct_options *options,
                                                           xct_trainer **trainer, xcvm_error *error);
/* The same for a model in memory, which is lent until the trainer is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_create(const void *model, size_t count, const xct_options *options,
                                                      xct_trainer **trainer, xcvm_error *error);
XCVM_API void xct_trainer_destroy(xct_trainer *trainer);

/* What a batch consists of: the model's inputs, and that of the labels if the loss added one. NULL beyond the last. */
XCVM_API size_t xct_trainer_input_count(const xct_trainer *trainer);
XCVM_API const xcvm_parameter *xct_trainer_input(const xct_trainer *trainer, size_t index);

/* What was measured of a batch, or of data. */
typedef struct xct_result {
    size_t size; /* set by the caller */
    uint64_t examples;
    double loss, loss_error; /* its standard error; NaN where it is not known, as of one batch */
    double gradient_norm;    /* before clipping; NaN if the program does not compute it. Of a step that gathers, and of
                                several processes, it means nothing */
    size_t metric_count;
    struct {
        const char *name;
        double value, error;
    } metrics[XCT_RESULT_METRICS];
} xct_result;

typedef struct xct_step_options {
    size_t size;
    double rate_factor; /* of the learning rate that the optimizer's text names; 0: 1 */
    bool gather;        /* only adds the gradients up, for the next step that does not; with accumulate. The same in all
                           processes that train together */
} xct_step_options;

/* Learns from one batch: inputs in their order, the first axis counting examples, of any size that the model takes. The
 * program is compiled anew for sizes that are new; the two used last are kept. A step that fails changes nothing. A
 * loss that is not finite is a failure, INVALID_ARGUMENT; the message names the first instruction that made a number
 * not finite. `options` and `result` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_step(xct_trainer *trainer, const xcvm_value *const *batch,
                                                    const xct_step_options *options, xct_result *result,
                                                    xcvm_error *error);
/* The loss and the metrics of a batch, with the model in its form for inference; nothing is learned. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_evaluate(xct_trainer *trainer, const xcvm_value *const *batch,
                                                        xct_result *result, xcvm_error *error);
XCVM_API uint64_t xct_trainer_steps(const xct_trainer *trainer);

/* Parameters that learn, and running statistics, by index; lent until the next step. NULL beyond the last. */
XCVM_API size_t xct_trainer_parameter_count(const xct_trainer *trainer);
XCVM_API const xcvm_value *xct_trainer_parameter(const xct_trainer *trainer, size_t index, const char **name);
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_set_parameter(xct_trainer *trainer, const char *name,
                                                             const xcvm_value *value, xcvm_error *error);

/* A checkpoint: one safetensors file with parameters, what the optimizer keeps, and how far the training is. It appears
 * whole, or not at all. INVALID_ARGUMENT where processes train together and have gathered gradients that no step has
 * taken yet: each knows its own alone. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_save(const xct_trainer *trainer, const char *path, xcvm_error *error);
/* Goes on from one, to the very bits that a training without interruption has. INVALID_ARGUMENT if it is broken, or not
 * of this model, optimizer and data; then nothing has changed. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_restore(xct_trainer *trainer, const char *path, xcvm_error *error);
/* The model as it was given, with what has been learned: moving averages, if they are kept, in place of the weights. It
 * is in inference form, unless the options have `training_form`: BatchNormalization uses its running statistics,
 * Dropout does nothing. compile->note is called with XCC_NOTE_INFERENCE_FORM if that changes nodes. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_export(const xct_trainer *trainer, xcvm_sink sink, void *user,
                                                      xcvm_error *error);
/* The same in two parts, for models of 2 GB and more: initializers of 1 KB and more go to `data`, and the model names
 * that file as `location`, a path from its own folder. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_export_external(const xct_trainer *trainer, const char *location,
                                                               xcvm_sink sink, void *user, xcvm_sink data,
                                                               void *data_user, xcvm_error *error);

/* Names of the classes that labels are numbers of: the model's, or those of the first data set of images that the
 * trainer learns from. xct_trainer_export writes them into the model's metadata: "class_names", one on a line, and
 * "class_output", the output with the scores. NULL beyond the last. */
XCVM_API size_t xct_trainer_class_count(const xct_trainer *trainer);
XCVM_API const char *xct_trainer_class(const xct_trainer *trainer, size_t index);
/* Sets the names, which are copied; 0: there are none. INVALID_ARGUMENT for a name that is empty, has a line feed or is
 * there twice, and if the model has fewer scores. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_set_classes(xct_trainer *trainer, const char *const *names, size_t count,
                                                           xcvm_error *error);

/* ---- Data sets ---- */

/* Examples to learn from, along the first axis of arrays of the same length. */
typedef struct xct_dataset xct_dataset;

/* Which array has the rows of an input; an input that no column names takes the array of its own name. */
typedef struct xct_column {
    const char *input;
    const char *array; /* NULL: that of the input's name */
    /* Factor of the integers of an array for an input of floats; 0: 1. With 1/255 images of u8 in arrays are as images
     * in folders, from 0 to 1. */
    double scale;
} xct_column;

/* Opens data for a trainer's inputs. A path is a file (.npz, .safetensors), a pattern as "train-*.npz" of files that
 * follow one another, of which two are read at a time, a folder of such files, several .npy files, whose arrays have
 * their names, or a folder with a folder of images for each class, whose arrays are "images" and "labels", or images,
 * or a folder of them, without labels: they become what the input takes as xct_image_load has it; other files of these
 * folders are skipped. Types, shapes and lengths are checked; integers, and floats
 * that are narrower, are converted. Files must not change until the data set is destroyed. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_open(const xct_trainer *trainer, const char *const *paths,
                                                    size_t path_count, const xct_column *columns, size_t column_count,
                                                    xct_dataset **dataset, xcvm_error *error);
/* The same for any inputs, as those of a program, from which names and types are copied. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_open_inputs(const xcvm_parameter *inputs, size_t input_count,
                                                           const char *const *paths, size_t path_count,
                                                           const xct_column *columns, size_t column_count,
                                                           const xcvm_allocator *allocator, xct_dataset **dataset,
                                                           xcvm_error *error);
XCVM_API void xct_dataset_destroy(xct_dataset *dataset);
/* Bytes that decoding an image may hold at once, of the first xct_dataset_read on, OUT_OF_MEMORY beyond; all else is
 * for the allocator to limit. And how long each later call of xct_dataset_read may take, OUT_OF_TIME beyond. 0: no
 * limit. */
XCVM_API void xct_dataset_set_limits(xct_dataset *dataset, size_t memory_limit, uint64_t timeout_ns);
/* `count` examples in the order of the files, from number `first` on, as a tensor for each input, with one reference.
 * One after the other they are read fastest. OUT_OF_RANGE if there are not so many. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_read(xct_dataset *dataset, uint64_t first, size_t count,
                                                    xcvm_value **values, xcvm_error *error);
XCVM_API uint64_t xct_dataset_examples(const xct_dataset *dataset);
/* Names of the classes of a data set of images, in the order of their numbers; NULL beyond the last. Other data sets
 * have none. */
XCVM_API size_t xct_dataset_class_count(const xct_dataset *dataset);
XCVM_API const char *xct_dataset_class(const xct_dataset *dataset, size_t index);
/* Gives the classes of a data set of images the numbers that their names have among these. INVALID_ARGUMENT for a class
 * that has none of these names. Other data sets stay as they are. */
XCVM_API XCVM_MUST_USE xcvm_status xct_dataset_set_classes(xct_dataset *dataset, const char *const *names, size_t count,
                                                           xcvm_error *error);
/* The factor of an array of u8 for an input of floats, or the one that a column asks for; 0 for other arrays. */
XCVM_API double xct_dataset_scale(const xct_dataset *dataset, const char *input);
/* How many files in folders of images were skipped, as they are no images; *names (may be NULL) becomes a text with
 * some of their names, lent until the data set is destroyed, NULL if there are none. */
XCVM_API size_t xct_dataset_skipped(const xct_dataset *dataset, const char **names);
/* Whether a path (NULL: none) leads to one of the data set's files, which nothing may be written to. */
XCVM_API bool xct_dataset_holds(const xct_dataset *dataset, const char *path);

/* ---- Training ---- */

typedef enum xct_end {
    XCT_END_DONE,    /* all epochs or steps */
    XCT_END_STOPPED, /* xct_trainer_stop */
    XCT_END_PATIENCE /* the loss did not get better any more */
} xct_end;

/* Which weights a trainer has when a training ends. */
typedef enum xct_weights {
    XCT_WEIGHTS_AUTO, /* with patience the best, else the last */
    XCT_WEIGHTS_LAST,
    /* Those of the epoch with the least loss, of validation if there is any, with running statistics and averages. What
     * the optimizer keeps is the last step's. Checkpoints hold both, so a training goes on from the last. */
    XCT_WEIGHTS_BEST
} xct_weights;

/* How far a training is. */
typedef struct xct_progress {
    size_t size;
    uint64_t step, steps;   /* done, and in all */
    uint64_t epoch, epochs; /* the one under way, counted from 1 */
    double rate;            /* the learning rate of the step */
    double samples_per_second, seconds_left;
    const xct_result *batch;      /* of the step */
    const xct_result *validation; /* at the end of an epoch; otherwise NULL */
    /* At the end of an epoch, and with the last step of all: means over the epoch's steps, or those of it since a
     * resumption; with overfit_batch, those of the step. Otherwise NULL. */
    const xct_result *training;
    bool epoch_ends; /* with this step */
} xct_progress;

typedef struct xct_fit_options {
    size_t size;
    uint64_t epochs;   /* 0: as many as `steps` take, or 1 */
    uint64_t steps;    /* 0: as many as `epochs` take */
    size_t batch;      /* examples, of all processes together; 0: the model's, or 32 */
    bool no_shuffle;   /* in the order of the files */
    size_t accumulate; /* batches that a step adds up the gradients of; 0: 1. Others need the compiler's accumulate */
    const char *schedule;          /* "cosine:warmup=100"; NULL: constant */
    const xct_dataset *validation; /* NULL: `held_out`, or none */
    double held_out;               /* this share of the data is kept for validation, from 0 to 1 */
    uint64_t patience;             /* stop when so many epochs have brought no better loss; 0: never */
    xct_weights weights;
    bool overfit_batch;        /* learn from the first batch alone, again and again */
    const char *log;           /* a CSV file; NULL: none */
    const char *curve;         /* an SVG file; NULL: none */
    const char *title;         /* of the curve */
    const char *checkpoints;   /* a folder for checkpoints, which is made if need be; NULL: none */
    uint64_t checkpoint_every; /* steps; 0: at the end of each epoch. There is one at the end, too */
    size_t keep;               /* so many of the latest; 0: 3 */
    bool resume;               /* from the latest in `checkpoints`, if there is one */
    void (*progress)(void *user, const xct_progress *progress); /* after each step; NULL: none */
    void *user;
} xct_fit_options;

typedef struct xct_fit_report {
    size_t size; /* set by the caller */
    xct_end end;
    uint64_t steps, epochs; /* in all, with those before a resumption */
    xct_result training;    /* of the last epoch, as measured while learning; with overfit_batch, of the last step */
    xct_result validation;  /* of its end; no examples if there was none */
    char checkpoint[4096];  /* the latest one; empty if there is none */
    uint64_t best_step;     /* that the trainer's weights are of; 0: they are the last step's */
    double best_loss;       /* of that epoch */
    bool left_over;         /* examples that do not fill a batch of the model's fixed size were left out */
    uint64_t steps_taken;   /* by this call; 0: the checkpoint that it went on from is of the end already */
} xct_fit_report;

/* Learns from a data set, from its beginning, or from where the checkpoint that was restored last had got to. After a
 * failure the trainer is as it was after the last step that succeeded. `report` may be NULL. */
XCVM_API XCVM_MUST_USE xcvm_status xct_trainer_fit(xct_trainer *trainer, const xct_dataset *data,
                                                   const xct_fit_options *options, xct_fit_report *report,
                                                   xcvm_error *error);
/* Names of metrics for xct_options.metrics, and of schedules for xct_fit_options.schedule; NULL beyond the last. */
XCVM_API const char *xct_metric_at(size_t index);
XCVM_API const char *xct_schedule_at(size_t index);

/* Ends xct_trainer_fit after the step that is under way, with a checkpoint. From any thread, and signal handlers. */
XCVM_API void xct_trainer_stop(xct_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
