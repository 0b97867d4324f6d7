/* A trainer: the model, its compiled programs, and the position of the training. */
#ifndef XCVM_TRAIN_TRAINER_H
#define XCVM_TRAIN_TRAINER_H

#include "base/budget.h"
#include "base/bytes.h"
#include "compiler/onnx_model/onnx_model.h"
#include "train/data/dataset.h"
#include "train/metrics.h"

#include "proto/name_index.h"
#include "vm/session.h"

#include <stdatomic.h>

/* A program of the model for certain input sizes, and its session. */
typedef struct xct_engine {
    xcvm_bytes bytes;
    xcvm_program *program; /* NULL: there is none */
    xcvm_session *session;
    int64_t *sizes;                 /* dimensions of the batch, XCVM_MAX_RANK per input; NULL: any */
    size_t *inputs;                 /* index of the program's input, for each input of a batch */
    size_t rate, apply;             /* inputs; SIZE_MAX: there is none */
    size_t loss, norm, predictions; /* outputs; SIZE_MAX: there is none */
    int32_t loss_pc;                /* of the instruction that outputs the loss */
    uint64_t used;                  /* time of the last use */
} xct_engine;

/* The position of a training. Checkpoints contain all of it. */
typedef struct xct_position {
    uint64_t step;         /* done */
    uint64_t epoch, place; /* of the next batch */
    /* State of the schedule and of patience. */
    double best, factor, waited;
    double patience_best;
    uint64_t patience_epochs;
    /* The best epoch, whose weights are kept; 0 steps: none. */
    uint64_t best_step;
    double best_loss;
} xct_position;

/* Properties of the data, which must be the same after resuming; 0: unknown. */
typedef struct xct_circumstances {
    uint64_t batch, examples, shuffle, accumulate, held_out, overfit;
} xct_circumstances;

enum { XCT_ENGINES = 2 };

struct xct_trainer {
    xcvm_arena arena; /* memory of this struct and of its permanent data */
    const xcvm_allocator *allocator;
    xct_trainer_options options;
    xcc_options compile;
    const char *path; /* path of the model to compile; NULL: compile `model` */
    xct_mapping file;
    xcvm_budget initial; /* memory of initial weights and of the model with them */
    xcvm_bytes changed;  /* the model with other weights */
    const void *model;
    size_t model_count;
    xcc_model_edits edits;                             /* edits for the inference form */
    xct_engine root;                                   /* owns the states; for any sizes */
    xct_engine learn[XCT_ENGINES], judge[XCT_ENGINES]; /* for certain sizes */
    bool fixed;                                        /* all sizes are fixed, so the root fits all batches */
    xct_feed feed;
    /* Names of outputs of the program for any sizes; NULL: none. */
    const char *loss_output, *predictions_output;
    const char **classes; /* names */
    size_t class_count;
    bool new_classes;                      /* the names are not from the model */
    struct xcc_external_weights *external; /* weights in external files; NULL: none */
    size_t label;                          /* an input of a batch; SIZE_MAX: there is none */
    double rate;
    xct_metric metrics[XCT_RESULT_METRICS];
    size_t metric_count;
    xct_measure measure; /* measurements of one batch */
    xcvm_value *rate_value, *apply_value;
    uint64_t clock;
    xct_position position;
    xct_measure epoch; /* measurements of the current epoch up to the position */
    /* States of the root that do not belong to the optimizer, in order and by name, and their moving averages by the
     * same names. */
    size_t *parameters, parameter_count;
    xcvm_name_index names, averages;
    xcvm_value **best; /* copy of each state at position.best_step (best.c); NULL: none */
    xct_circumstances circumstances;
    bool restored; /* the position is from a checkpoint; the next fit continues from it */
    atomic_bool stop;
};

/* Returns the engine for a batch, and compiles it if necessary. */
xcvm_status xct_engine_find(xct_trainer *t, bool judge, const xcvm_value *const *batch, xct_engine **engine,
                            xcvm_error *error);
/* Sets the position to the start of a training. */
void xct_position_begin(xct_position *position);
/* Creates the root engine, for any sizes. */
xcvm_status xct_engine_begin(xct_trainer *t, xcvm_error *error);
void xct_engine_release(xct_trainer *t, xct_engine *engine);
/* Returns whether a state belongs to the optimizer, by its name. */
bool xct_is_optimizers(const char *name);
/* Finds the parameter's name in the name of a moving average, and returns its length; 0 if the state is not a moving
 * average. */
size_t xct_averaged(const char *state, const char **parameter);

/* Runs an engine on a batch. A loss that is not finite fails the run before any state has changed. */
xcvm_status xct_trainer_run(xct_trainer *t, xct_engine *engine, const xcvm_value *const *batch, double rate,
                            bool gather, xcvm_error *error);
/* Adds the measurements of the last run to `measure`. `examples` counts those of all processes. Ignored labels have no
 * weight. */
xcvm_status xct_trainer_measure(const xct_trainer *t, const xct_engine *engine, const xcvm_value *const *batch,
                                size_t examples, xct_measure *measure, xcvm_error *error);
void xct_trainer_report(const xct_trainer *t, const xct_measure *measure, xct_result *result);
/* Returns an empty measure for this trainer's predictions. */
xct_measure xct_trainer_new_measure(const xct_trainer *t);

/* Adds the measurements of the other processes, so that all make the same decisions (join_measures.c). */
xcvm_status xct_measure_join(const xct_trainer *t, xct_measure *measure, xcvm_error *error);

/* After a run with a loss that is not finite: fails with the first instruction whose result was not finite. */
xcvm_status xct_find_not_finite(xct_trainer *t, xct_engine *engine, xcvm_error *error);

/* Makes weights that the model stores once initializers of their own, in t->changed (xcc_merged_weights_edits). A note
 * names them. A model with external weights stays as it is. */
xcvm_status xct_separate_weights(xct_trainer *t, xcvm_error *error);
/* Writes the model with initialized weights, or weights from a file, to t->changed. */
xcvm_status xct_initialize(xct_trainer *t, xcvm_error *error);

/* Opens the external files with weights, for exports to other folders (external.c). */
xcvm_status xct_external_open(xct_trainer *t, xcvm_error *error);
/* Class names (classes.c): read those of the model's metadata, and join those of data, which must have the same
 * numbers. */
xcvm_status xct_classes_read(xct_trainer *t, xcvm_error *error);
xcvm_status xct_classes_join(xct_trainer *t, const xct_dataset *set, xcvm_error *error);

/* ---- The weights of the best epoch ---- */

/* Returns whether a state is kept: parameters, running statistics and moving averages. */
bool xct_best_keeps(const char *state);
/* Returns a kept state's name in checkpoints, in arena memory; NULL if out of memory. */
const char *xct_best_name(xcvm_arena *arena, const char *state);
/* Allocates memory for the copies, if necessary. */
xcvm_status xct_best_provide(xct_trainer *t, xcvm_error *error);
/* Copies the states. Memory must have been allocated. */
void xct_best_take(xct_trainer *t);
/* Restores the states from the copies. */
xcvm_status xct_best_give(xct_trainer *t, xcvm_error *error);
void xct_best_release(xct_trainer *t);

#endif
