/* A trainer: the model, the programs that it is compiled to, and how far the training is. */
#ifndef XCVM_TRAIN_TRAINER_H
#define XCVM_TRAIN_TRAINER_H

#include "base/budget.h"
#include "base/bytes.h"
#include "compiler/onnx_model/inference_form.h"
#include "train/data/dataset.h"
#include "train/metrics.h"

#include "proto/name_index.h"
#include "vm/session.h"

#include <stdatomic.h>

/* A program of the model, for inputs of certain sizes, and its session. */
typedef struct xct_engine {
    xcvm_bytes bytes;
    xcvm_program *program; /* NULL: there is none */
    xcvm_session *session;
    int64_t *sizes;                 /* dimensions of the batch, XCVM_MAX_RANK of each input; NULL: any */
    size_t *inputs;                 /* of each input of a batch, that of the program */
    size_t rate, apply;             /* inputs; SIZE_MAX: there is none */
    size_t loss, norm, predictions; /* outputs; SIZE_MAX: there is none */
    int32_t loss_pc;                /* of the instruction that gives the loss */
    uint64_t used;                  /* when */
} xct_engine;

/* How far a training is; all of it is in checkpoints. */
typedef struct xct_position {
    uint64_t step;         /* done */
    uint64_t epoch, place; /* of the next batch */
    /* Of the epoch so far. */
    double loss_sum, loss_weight;
    /* Of the schedule, and of patience. */
    double best, factor, waited;
    double patience_best;
    uint64_t patience_epochs;
    /* Of the weights of the best epoch that are kept; 0 steps: none are. */
    uint64_t best_step;
    double best_loss;
} xct_position;

/* What the data were like, which a resumption must find again; zeros where it is not known. */
typedef struct xct_circumstances {
    uint64_t batch, examples, shuffle, accumulate, held_out, overfit;
} xct_circumstances;

enum { XCT_ENGINES = 2 };

struct xct_trainer {
    xcvm_arena arena; /* this struct and what it points to for good */
    const xcvm_allocator *allocator;
    xct_trainer_options options;
    xcc_options compile;
    const char *path; /* of the model, where that is what is compiled; NULL: `model` is */
    xct_mapping file;
    xcvm_budget initial; /* of the memory that initial weights, and the model with them, take */
    xcvm_bytes changed;  /* the model with other weights */
    const void *model;
    size_t model_count;
    xcc_model_edits edits;                             /* that put the model into inference form */
    xct_engine root;                                   /* its session owns the states; for any sizes */
    xct_engine learn[XCT_ENGINES], judge[XCT_ENGINES]; /* for certain sizes */
    bool fixed;                                        /* the root is for the only sizes that there are */
    xct_feed feed;
    /* Names of outputs, found once, of the program for any sizes; NULL: there is none. */
    const char *loss_output, *predictions_output;
    const char **classes; /* names */
    size_t class_count;
    bool new_classes;                      /* they are not the model's own */
    struct xcc_external_weights *external; /* weights of the model that lie in other files; NULL: there are none */
    size_t label;                          /* an input of a batch; SIZE_MAX: there is none */
    double rate;
    xct_metric metrics[XCT_RESULT_METRICS];
    size_t metric_count;
    xct_measure measure; /* of one batch */
    xcvm_value *rate_value, *apply_value;
    uint64_t clock;
    xct_position position;
    /* States of the root that are no optimizer's, in order, and by name; and their moving averages, by the same names.
     */
    size_t *parameters, parameter_count;
    xcvm_name_index names, averages;
    xcvm_value **best; /* of each state, as it was at position.best_step (best.c); NULL: none are kept */
    xct_circumstances circumstances;
    bool restored; /* the position is that of a checkpoint, from which the next fit goes on */
    atomic_bool stop;
};

/* The engine for a batch, compiled if need be. */
xcvm_status xct_engine_find(xct_trainer *t, bool judge, const xcvm_value *const *batch, xct_engine **engine,
                            xcvm_error *error);
/* Where a training begins. */
void xct_position_begin(xct_position *position);
/* That for any sizes, with which a trainer begins. */
xcvm_status xct_engine_begin(xct_trainer *t, xcvm_error *error);
void xct_engine_release(xct_trainer *t, xct_engine *engine);
/* Whether a name of a state is one of the optimizer's. */
bool xct_is_optimizers(const char *name);
/* The length of the parameter's name in a state's that is a moving average, where it begins; 0 if the state is none. */
size_t xct_averaged(const char *state, const char **parameter);

/* Runs an engine on a batch. A loss that is not finite fails the run before any state has changed. */
xcvm_status xct_trainer_run(xct_trainer *t, xct_engine *engine, const xcvm_value *const *batch, double rate,
                            bool gather, xcvm_error *error);
/* What the last run measured of `examples`, with those of other processes. */
typedef struct xct_measured {
    double loss, weight; /* the weight is the examples', but for labels that are left out */
} xct_measured;
/* Adds it. */
xcvm_status xct_trainer_measure(const xct_trainer *t, const xct_engine *engine, const xcvm_value *const *batch,
                                size_t examples, xct_measure *measure, xct_measured *measured, xcvm_error *error);
void xct_trainer_report(const xct_trainer *t, const xct_measure *measure, xct_result *result);
/* A measure for this trainer's predictions; its sums are empty. */
xct_measure xct_trainer_new_measure(const xct_trainer *t);

/* Adds what the other processes have measured, so that all decide alike (join_measures.c). */
xcvm_status xct_measure_join(const xct_trainer *t, xct_measure *measure, xcvm_error *error);

/* After a run that made no finite loss: says in `error` which instruction was the first to make a number not finite. */
xcvm_status xct_find_not_finite(xct_trainer *t, xct_engine *engine, xcvm_error *error);

/* The model with weights drawn anew, and read from a file, as the options say, in t->changed. */
xcvm_status xct_initialize(xct_trainer *t, xcvm_error *error);

/* Opens the files beside the model that have weights of its, for what is written elsewhere (external.c). */
xcvm_status xct_external_open(xct_trainer *t, xcvm_error *error);
/* Names of classes (classes.c): those of the model's metadata; and those of data, which must be numbered alike. */
xcvm_status xct_classes_read(xct_trainer *t, xcvm_error *error);
xcvm_status xct_classes_join(xct_trainer *t, const xct_dataset *set, xcvm_error *error);

/* ---- The weights of the best epoch ---- */

/* Whether a state is among those that are kept: parameters, running statistics and moving averages. */
bool xct_best_keeps(const char *state);
/* The name that a kept state has in checkpoints, in memory of the arena; NULL if there is none left. */
const char *xct_best_name(xcvm_arena *arena, const char *state);
/* Provides memory for the copies, if there is none yet. */
xcvm_status xct_best_provide(xct_trainer *t, xcvm_error *error);
/* Copies the states; memory must have been provided. */
void xct_best_take(xct_trainer *t);
/* Makes the copies the states. */
xcvm_status xct_best_give(xct_trainer *t, xcvm_error *error);
void xct_best_release(xct_trainer *t);

#endif
