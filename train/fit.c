/* The training loop. */
#include "train/agreement.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "train/data/loader.h"
#include "train/schedule.h"
#include "train/whole_file.h"

#include "base/clock.h"
#include "vm/options.h"

#include <math.h>
#include <stdio.h>

enum { USUAL_BATCH = 32, USUAL_KEEP = 3 };

typedef struct fit {
    xct_trainer *t;
    xct_fit_options o;
    const xct_dataset *data;
    size_t batch;
    bool whole; /* the model has a fixed batch size */
    uint64_t steps_per_epoch, steps, epochs;
    xct_order order, held_order;
    bool has_held;
    xct_loader *loader;
    xct_schedule schedule;
    xct_columns columns;
    xct_log log;
    xct_history *history;
    xct_measure step, held; /* sums over a step and the validation data */
    xct_result step_result, epoch_result, held_result;
    bool measured_held;    /* validation was measured in the last complete epoch */
    uint64_t checkpointed; /* the step of the newest checkpoint; UINT64_MAX: none */
    char checkpoint[XCT_PATH];
    uint64_t began, first_step, samples; /* start time and step of the loop, and examples since */
    bool stop;                           /* requested in this process or another one */
    bool keeps_best;
    bool curve_unread; /* the pipe for the curve has no reader */
    xct_end end;
    xcvm_error *error;
} fit;

/* ---- Beginning ---- */

static xcvm_status check_options(const fit *f)
{
    const xct_fit_options *o = &f->o;
    XCVM_CHECK(f->error, o->held_out >= 0 && o->held_out < 1, INVALID_ARGUMENT,
               "the share of data that is held out must be from 0 to below 1");
    XCVM_CHECK(f->error, o->accumulate <= 1 || f->t->compile.training.accumulate, INVALID_ARGUMENT,
               "gradients are accumulated by trainers whose compile options have accumulate alone");
    XCVM_CHECK(f->error, !o->resume || o->checkpoints != NULL, INVALID_ARGUMENT,
               "there is no folder of checkpoints to resume from");
    return XCVM_OK;
}

/* The number of processes. Each computes a part of every batch. */
static size_t ranks_of(const fit *f) { return f->t->options.ranks > 1 ? (size_t)f->t->options.ranks : 1; }
static bool writes_files(const fit *f) { return f->t->options.rank == 0; }

static xcvm_status choose_batch(fit *f)
{
    const int64_t own = xct_dataset_batch(f->data), fixed = own >= 0 ? own * (int64_t)ranks_of(f) : own;
    f->whole = fixed >= 0;
    f->batch = f->o.batch != 0 ? f->o.batch : fixed > 0 ? (size_t)fixed : USUAL_BATCH;
    XCVM_CHECK(
        f->error, fixed < 0 || f->batch == (size_t)fixed, INVALID_ARGUMENT,
        "the model takes batches of %lld examples, not of %zu. Leave the size of batches out, or export the model "
        "with an open first dimension (dynamic_axes of PyTorch's export)",
        (long long)fixed, f->batch);
    if (f->o.batch == 0 && fixed < 0 && f->batch > f->order.total)
        f->batch = (size_t)f->order.total;
    XCVM_CHECK(f->error, f->batch >= ranks_of(f), INVALID_ARGUMENT,
               "a batch of %zu examples is too small for %zu processes", f->batch, ranks_of(f));
    XCVM_CHECK(f->error, f->batch <= f->order.total, INVALID_ARGUMENT,
               "a batch of %zu examples is larger than the data set, which has %llu%s", f->batch,
               (unsigned long long)f->order.total, f->has_held && f->o.validation == NULL ? " to learn from" : "");
    return XCVM_OK;
}

/* A validation batch is as large as one process's part of a training batch, or has all examples if there are fewer. */
static size_t held_batch(const fit *f)
{
    const size_t part = xcvm_ceil_div(f->batch, ranks_of(f));
    return f->held_order.total < part && !f->whole ? (size_t)f->held_order.total : part;
}

static xcvm_status check_held_batch(const fit *f)
{
    XCVM_CHECK(
        f->error, !f->has_held || held_batch(f) <= f->held_order.total, INVALID_ARGUMENT,
        "validation: the model takes batches of %zu examples, for validation there are %llu. Keep more examples for "
        "validation, or export the model with an open first dimension",
        held_batch(f), (unsigned long long)f->held_order.total);
    return XCVM_OK;
}

static void count_steps(fit *f)
{
    const uint64_t rest = f->order.total % f->batch;
    const bool has_rest = !f->whole && rest > 0 && (ranks_of(f) == 1 || rest >= ranks_of(f));
    const uint64_t batches = f->o.overfit_batch ? 1 : f->order.total / f->batch + has_rest;
    const uint64_t accumulate = f->o.accumulate > 1 ? f->o.accumulate : 1;
    f->steps_per_epoch = xcvm_ceil_div(batches, accumulate);
    f->steps = f->o.steps;
    f->epochs = f->o.epochs;
    if (f->epochs == 0)
        f->epochs = f->steps > 0 ? xcvm_ceil_div(f->steps, f->steps_per_epoch) : 1;
    uint64_t all;
    if (__builtin_mul_overflow(f->epochs, f->steps_per_epoch, &all))
        all = UINT64_MAX;
    if (f->steps == 0 || all < f->steps)
        f->steps = all;
}

static xcvm_status begin_orders(fit *f)
{
    const xct_fit_options *o = &f->o;
    const bool shuffle = !o->no_shuffle, share = o->validation == NULL && o->held_out > 0;
    const uint64_t seed = f->t->options.seed;
    XCVM_TRY(xct_order_begin(&f->order, f->data, share ? XCT_LEFT : XCT_ALL, o->held_out, shuffle, seed, f->error));
    f->has_held = o->validation != NULL || share;
    if (!f->has_held)
        return XCVM_OK;
    return xct_order_begin(&f->held_order, share ? f->data : o->validation, share ? XCT_HELD_OUT : XCT_ALL, o->held_out,
                           share && shuffle, seed, f->error);
}

static size_t keep_count(const fit *f) { return f->o.keep > 0 ? f->o.keep : USUAL_KEEP; }
static uint64_t checkpoint_steps(const fit *f)
{
    return f->o.checkpoint_every > 0 ? f->o.checkpoint_every : f->steps_per_epoch;
}

static xcvm_status resume(fit *f)
{
    xct_trainer *t = f->t;
    t->circumstances = (xct_circumstances){.batch = f->batch,
                                           .examples = f->data->rows,
                                           .shuffle = f->o.no_shuffle ? 1 : 2,
                                           .accumulate = f->o.accumulate > 1 ? f->o.accumulate : 1,
                                           .held_out = 1 + f->data->rows - f->order.total,
                                           .overfit = f->o.overfit_batch ? 2 : 1};
    f->checkpointed = UINT64_MAX;
    if (f->o.checkpoints == NULL)
        return XCVM_OK;
    if (f->o.resume) {
        XCVM_TRY(xct_checkpoints_latest(f->o.checkpoints, f->checkpoint, f->error));
        if (f->checkpoint[0] == '\0')
            return xct_checkpoints_refuse(f->o.checkpoints, f->error);
    }
    if (writes_files(f))
        XCVM_TRY(xct_checkpoints_begin(f->o.checkpoints, f->error));
    XCVM_TRY(xct_checkpoints_latest(f->o.checkpoints, f->checkpoint, f->error));
    XCVM_CHECK(f->error, f->o.resume || f->checkpoint[0] == '\0', INVALID_ARGUMENT,
               "%s has checkpoints of an earlier training; continue it with --resume, or choose another folder",
               f->o.checkpoints);
    if (writes_files(f) && !f->o.overfit_batch)
        XCVM_TRY(xct_checkpoints_room(t, f->o.checkpoints, f->steps / checkpoint_steps(f), keep_count(f), f->error));
    if (f->checkpoint[0] == '\0')
        return XCVM_OK;
    XCVM_TRY(xct_checkpoints_restore(t, f->checkpoint, f->error));
    f->checkpointed = t->position.step;
    return XCVM_OK;
}

static xcvm_status begin_schedule(fit *f)
{
    const xct_span span = {.epoch = (double)f->steps_per_epoch, .all = (double)f->steps};
    XCVM_TRY(xct_schedule_parse(f->o.schedule, &span, &f->schedule, f->error));
    f->schedule.best = f->t->position.best;
    f->schedule.factor = f->t->position.factor;
    f->schedule.waited = f->t->position.waited;
    return XCVM_OK;
}

static xcvm_status begin_history(fit *f)
{
    f->columns = (xct_columns){f->t->metrics, f->t->metric_count, f->has_held};
    f->history = xcvm_allocate_zeroed(f->t->allocator, sizeof *f->history);
    XCVM_CHECK(f->error, f->history != NULL, OUT_OF_MEMORY, "no memory for the history of a training");
    f->history->columns = f->columns;
    return XCVM_OK;
}

/* Runs last before the first step, since it truncates the file. */
static xcvm_status begin_log(fit *f)
{
    const xct_log_start start = {
        .step = f->t->position.step, .history = f->o.resume ? f->history : NULL, .stop = &f->t->stop};
    return xct_log_open(&f->log, writes_files(f) ? f->o.log : NULL, &f->columns, &start, f->error);
}

/* Output files must not be input files. */
static xcvm_status check_targets(const fit *f)
{
    const struct {
        const char *what, *path;
    } targets[] = {{"log", f->o.log}, {"curve", f->o.curve}};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        XCVM_CHECK(f->error,
                   !xct_dataset_has_file(f->data, targets[i].path) &&
                       !xct_dataset_has_file(f->o.validation, targets[i].path),
                   INVALID_ARGUMENT, "%s is a file of the data; the %s wants one of its own", targets[i].path,
                   targets[i].what);
    return XCVM_OK;
}

static xcvm_status begin_loader(fit *f)
{
    const xct_position *p = &f->t->position;
    /* If the number of steps ends the training, more is read than trained on. */
    const xct_loading loading = {.batch = f->batch,
                                 .epoch = f->o.overfit_batch ? 0 : p->epoch,
                                 .place = f->o.overfit_batch ? 0 : p->place,
                                 .epochs = f->o.overfit_batch ? 1 : f->epochs,
                                 .whole = f->whole,
                                 .part = (size_t)f->t->options.rank,
                                 .parts = ranks_of(f) > 1 ? ranks_of(f) : 0};
    return xct_loader_create(&f->order, &loading, &f->loader, f->error);
}

/* Without keeping the best weights, those of a checkpoint are dropped. */
static xcvm_status begin_best(fit *f)
{
    f->keeps_best = f->o.weights == XCT_WEIGHTS_BEST || (f->o.weights == XCT_WEIGHTS_AUTO && f->o.patience > 0);
    if (f->keeps_best)
        return xct_best_provide(f->t, f->error);
    xct_best_release(f->t);
    f->t->position.best_step = 0;
    f->t->position.best_loss = INFINITY;
    return XCVM_OK;
}

static xcvm_status add_up(const fit *f, double *numbers, size_t count)
{
    return f->t->options.all_reduce.sum(f->t->options.all_reduce.user, XCVM_F64, numbers, count, f->error);
}

static xcvm_status check_that_all_agree(const fit *f)
{
    const xct_workload load = {
        .examples = f->order.total, .held_examples = f->held_order.total, .batch = f->batch, .steps = f->steps};
    return ranks_of(f) == 1 ? XCVM_OK : xct_agree(f->t, &f->o, &load, f->error);
}

static xcvm_status begin(fit *f)
{
    XCVM_TRY(check_options(f));
    XCVM_TRY(check_targets(f));
    XCVM_TRY(xct_classes_join(f->t, f->data, f->error));
    if (f->o.validation != NULL)
        XCVM_TRY(xct_classes_join(f->t, f->o.validation, f->error));
    XCVM_TRY(begin_orders(f));
    XCVM_TRY(choose_batch(f));
    XCVM_TRY(check_held_batch(f));
    count_steps(f);
    XCVM_TRY(resume(f));
    if (!f->t->restored) {
        xct_position_begin(&f->t->position);
        xct_measure_clear(&f->t->epoch);
    }
    f->t->restored = false;
    XCVM_CHECK(f->error, f->t->position.place <= f->order.total, INVALID_ARGUMENT,
               "%s stands behind %llu examples of an epoch, this training has %llu",
               f->checkpoint[0] != '\0' ? f->checkpoint : "the checkpoint", (unsigned long long)f->t->position.place,
               (unsigned long long)f->order.total);
    XCVM_TRY(begin_best(f));
    XCVM_TRY(begin_schedule(f));
    XCVM_TRY(begin_history(f));
    f->step = xct_trainer_new_measure(f->t);
    f->held = xct_trainer_new_measure(f->t);
    f->step_result.size = f->epoch_result.size = f->held_result.size = sizeof(xct_result);
    XCVM_TRY(check_that_all_agree(f));
    XCVM_TRY(begin_loader(f));
    return begin_log(f);
}

static void finish(fit *f)
{
    xct_loader_destroy(f->loader);
    xct_order_end(&f->order);
    xct_order_end(&f->held_order);
    xct_log_close(&f->log);
    xct_measure_release(&f->step);
    xct_measure_release(&f->held);
    xcvm_deallocate(f->t->allocator, f->history, sizeof *f->history);
}

/* ---- Validation ---- */

static xcvm_status judge_batch(fit *f, const xct_batch *batch)
{
    xct_engine *e;
    const xcvm_value *const *values = (const xcvm_value *const *)batch->values;
    XCVM_TRY(xct_engine_find(f->t, true, values, &e, f->error));
    XCVM_TRY(xct_trainer_run(f->t, e, values, 0, false, f->error));
    return xct_trainer_measure(f->t, e, values, batch->all, &f->held, f->error);
}

/* A loss over labels that are all ignored is 0 and says nothing. */
static xcvm_status check_counted(const fit *f, const xct_measure *measure, const char *what)
{
    XCVM_CHECK(f->error, !measure->ignores || measure->batches == 0 || measure->weight > 0, INVALID_ARGUMENT,
               "%s: no label counts: all are %lld, the label to ignore. Check the labels", what,
               (long long)measure->ignored);
    return XCVM_OK;
}

/* Processes measure validation batches in turn. */
static xcvm_status judge(fit *f)
{
    xct_loader *loader = NULL;
    const size_t batch = held_batch(f);
    const xct_loading loading = {.batch = batch,
                                 .place = batch * (uint64_t)f->t->options.rank,
                                 .stride = batch * (uint64_t)ranks_of(f),
                                 .epochs = 1,
                                 .whole = f->whole};
    XCVM_TRY(xct_loader_create(&f->held_order, &loading, &loader, f->error));
    xct_measure_clear(&f->held);
    xcvm_status status = XCVM_OK;
    for (bool more = true; status == XCVM_OK && more;) {
        xct_batch next;
        status = xct_loader_take(loader, &next, &more, f->error);
        if (status == XCVM_OK && more)
            status = judge_batch(f, &next);
    }
    xct_loader_destroy(loader);
    if (status == XCVM_OK)
        status = xct_measure_join(f->t, &f->held, f->error);
    if (status != XCVM_OK)
        xcvm_error_prefix(f->error, "validation");
    xct_trainer_report(f->t, &f->held, &f->held_result);
    return status == XCVM_OK ? check_counted(f, &f->held, "validation") : status;
}

/* ---- Steps ---- */

static double rate_factor(const fit *f) { return xct_schedule_factor(&f->schedule, f->t->position.step); }

/* Adds the measurements of the other processes in a step, and finds whether one of them was asked to stop. */
static xcvm_status join(fit *f)
{
    double sums[XCT_SUMS], before[XCT_SUMS], epoch[XCT_SUMS], message[XCT_PREDICTION_SUMS + 1];
    if (ranks_of(f) == 1)
        return XCVM_OK;
    xct_measure_get_sums(&f->step, before);
    xct_measure_get_sums(&f->t->epoch, epoch);
    /* Losses already cover all processes. */
    memcpy(sums, before, sizeof before);
    memcpy(message, before, sizeof(double) * XCT_PREDICTION_SUMS);
    message[XCT_PREDICTION_SUMS] = atomic_load(&f->t->stop);
    XCVM_TRY(add_up(f, message, XCT_PREDICTION_SUMS + 1));
    memcpy(sums, message, sizeof(double) * XCT_PREDICTION_SUMS);
    for (size_t i = 0; i < XCT_PREDICTION_SUMS; i++)
        epoch[i] += sums[i] - before[i];
    xct_measure_set_sums(&f->step, sums);
    xct_measure_set_sums(&f->t->epoch, epoch);
    f->stop = message[XCT_PREDICTION_SUMS] > 0;
    return XCVM_OK;
}

/* Takes one step: over the batches whose gradients are accumulated, or the rest of the epoch. */
static xcvm_status take_step(fit *f, xct_batch *batch, bool *more, double factor)
{
    const size_t wanted = f->o.accumulate > 1 ? f->o.accumulate : 1;
    xct_measure_clear(&f->step);
    for (size_t i = 0; i < wanted; i++) {
        if (!f->o.overfit_batch || batch->values == NULL)
            XCVM_TRY(xct_loader_take(f->loader, batch, more, f->error));
        if (!*more)
            return XCVM_OK;
        xct_engine *e;
        const xcvm_value *const *values = (const xcvm_value *const *)batch->values;
        const bool last = i + 1 == wanted || (batch->last && !f->o.overfit_batch);
        XCVM_TRY(xct_engine_find(f->t, false, values, &e, f->error));
        XCVM_TRY(xct_trainer_run(f->t, e, values, f->t->rate * factor, !last, f->error));
        XCVM_TRY(xct_trainer_measure(f->t, e, values, batch->all, &f->step, f->error));
        XCVM_TRY(xct_trainer_measure(f->t, e, values, batch->all, &f->t->epoch, f->error));
        f->t->position.place = batch->next;
        f->samples += batch->all;
        if (last)
            break;
    }
    f->t->position.step++;
    XCVM_TRY(join(f));
    xct_trainer_report(f->t, &f->step, &f->step_result);
    return XCVM_OK;
}

static bool epoch_ends(const fit *f, const xct_batch *batch)
{
    return f->o.overfit_batch ? f->t->position.step == f->steps : batch->last;
}

/* Ends an epoch: runs validation, and updates the schedule, patience and the best weights. */
static xcvm_status end_epoch(fit *f)
{
    xct_position *p = &f->t->position;
    xct_trainer_report(f->t, &f->t->epoch, &f->epoch_result);
    XCVM_TRY(check_counted(f, &f->t->epoch, "the epoch"));
    const double mean = f->t->epoch.loss / fmax(f->t->epoch.weight, 1);
    xct_measure_clear(&f->t->epoch);
    f->measured_held = f->has_held && !f->o.overfit_batch;
    if (f->measured_held)
        XCVM_TRY(judge(f));
    const double loss = f->measured_held ? f->held_result.loss : mean;
    xct_schedule_observe(&f->schedule, loss);
    p->best = f->schedule.best;
    p->factor = f->schedule.factor;
    p->waited = f->schedule.waited;
    p->patience_epochs = loss < p->patience_best ? 0 : p->patience_epochs + 1;
    p->patience_best = fmin(p->patience_best, loss);
    if (f->keeps_best && loss < p->best_loss) {
        xct_best_take(f->t);
        p->best_step = p->step;
        p->best_loss = loss;
    }
    p->epoch++;
    p->place = 0;
    return XCVM_OK;
}

/* ---- What is told of a step ---- */

static void fill_figures(const xct_result *result, double *figures)
{
    figures[0] = result->loss;
    for (size_t i = 0; i < result->metric_count; i++)
        figures[i + 1] = result->metrics[i].value;
}

/* The result of the epoch, or of the last step if all steps use the same batch. */
static const xct_result *training_result(const fit *f)
{
    return f->o.overfit_batch || f->epoch_result.examples == 0 ? &f->step_result : &f->epoch_result;
}

/* Tells the caller of the last step. `training` are the means over its epoch, NULL within it. */
static void tell(const fit *f, uint64_t epoch, bool ended, const xct_result *training, double factor)
{
    const xct_position *p = &f->t->position;
    if (f->o.progress.call == NULL)
        return;
    const double seconds = (double)(xcvm_clock_ns() - f->began) * 1e-9;
    const double done = (double)(p->step - f->first_step), left = (double)(f->steps - p->step);
    f->o.progress.call(f->o.progress.user,
                       &(xct_progress){.size = sizeof(xct_progress),
                                       .step = p->step,
                                       .steps = f->steps,
                                       .epoch = epoch,
                                       .epochs = f->epochs,
                                       .rate = f->t->rate * factor,
                                       .samples_per_second = (double)f->samples / fmax(seconds, 1e-9),
                                       .seconds_left = seconds / done * left,
                                       .batch = &f->step_result,
                                       .validation = ended && f->measured_held ? &f->held_result : NULL,
                                       .training = training,
                                       .epoch_ends = ended});
}

/* Tells of the part of an epoch that was done when the training ended. Nothing is done if it ended with an epoch. */
static void tell_part(fit *f, double factor)
{
    if (f->t->position.step == f->first_step || f->t->epoch.batches == 0)
        return;
    xct_trainer_report(f->t, &f->t->epoch, &f->epoch_result);
    tell(f, f->t->position.epoch + 1, false, training_result(f), factor);
}

static xcvm_status record(fit *f, uint64_t epoch, bool ended, double rate)
{
    xct_record r = {.step = f->t->position.step, .epoch = epoch, .rate = rate};
    for (size_t i = 0; i < XCT_MAX_FIGURES; i++)
        r.figures[i] = r.validation[i] = (double)NAN;
    fill_figures(&f->step_result, r.figures);
    if (ended && f->measured_held)
        fill_figures(&f->held_result, r.validation);
    xct_history_add(f->history, &r);
    return xct_log_add(&f->log, &r, f->error);
}

static xcvm_status write_curve(fit *f)
{
    static const atomic_bool at_once = true; /* do not wait for a pipe without a reader */
    xct_whole_file file;
    if (f->o.curve == NULL || f->curve_unread || !writes_files(f))
        return XCVM_OK;
    xcvm_status status = xct_whole_file_open(&file, f->o.curve, &at_once, f->error);
    if (status == XCVM_CANCELLED)
        return XCVM_OK;
    XCVM_TRY(status);
    status = xct_curve_write(f->history, f->o.title != NULL ? f->o.title : "Training",
                             (xcvm_sink){xct_whole_file_sink, &file}, f->error);
    status = xct_whole_file_close(&file, status, f->error);
    f->curve_unread = status == XCVM_CANCELLED;
    return f->curve_unread ? XCVM_OK : status;
}

static xcvm_status write_checkpoint(fit *f)
{
    if (f->o.checkpoints == NULL || f->checkpointed == f->t->position.step || !writes_files(f))
        return XCVM_OK;
    XCVM_TRY(xct_checkpoints_write(f->t, f->o.checkpoints, keep_count(f), f->checkpoint, f->error));
    f->checkpointed = f->t->position.step;
    return XCVM_OK;
}

static bool checkpoint_due(const fit *f, bool ended)
{
    return f->o.checkpoint_every > 0 ? f->t->position.step % f->o.checkpoint_every == 0 : ended;
}

/* ---- The loop ---- */

/* A training that ended early and is resumed does not start another epoch. */
static bool patience_is_over(const fit *f)
{
    const xct_position *p = &f->t->position;
    return f->o.patience > 0 && p->place == 0 && p->patience_epochs >= f->o.patience;
}

/* Whether a step that was cancelled left everything as it was. Otherwise gradients of some batches are gathered, or
 * other processes wait. */
static bool can_stop_in_step(const fit *f) { return f->o.accumulate <= 1 && ranks_of(f) <= 1; }

/* Several processes agree on stopping in join. A single process stops at once. */
static bool is_asked_to_stop(const fit *f) { return ranks_of(f) > 1 ? f->stop : atomic_load(&f->t->stop); }

static xcvm_status go(fit *f)
{
    xct_position *p = &f->t->position;
    xct_batch batch = {.values = NULL};
    f->began = xcvm_clock_ns();
    f->first_step = p->step;
    f->end = XCT_END_DONE;
    for (bool more = true; p->step < f->steps && !patience_is_over(f);) {
        const double factor = rate_factor(f);
        const xcvm_status status = take_step(f, &batch, &more, factor);
        if (status == XCVM_CANCELLED && can_stop_in_step(f)) {
            f->end = XCT_END_STOPPED;
            tell_part(f, factor);
            break;
        }
        XCVM_TRY(status);
        if (!more)
            break;
        const bool ended = epoch_ends(f, &batch), last = !ended && p->step == f->steps;
        const uint64_t epoch = p->epoch + 1;
        if (ended)
            XCVM_TRY(end_epoch(f));
        XCVM_TRY(record(f, epoch, ended, f->t->rate * factor));
        if (last)
            tell_part(f, factor);
        else
            tell(f, epoch, ended, ended ? training_result(f) : NULL, factor);
        if (ended)
            XCVM_TRY(write_curve(f));
        if (checkpoint_due(f, ended))
            XCVM_TRY(write_checkpoint(f));
        if (is_asked_to_stop(f)) {
            if (!last)
                tell_part(f, factor);
            f->end = XCT_END_STOPPED;
            break;
        }
    }
    if (f->end == XCT_END_DONE && patience_is_over(f))
        f->end = XCT_END_PATIENCE;
    XCVM_TRY(write_curve(f));
    XCVM_TRY(write_checkpoint(f));
    return p->best_step > 0 ? xct_best_give(f->t, f->error) : XCVM_OK;
}

static void give_report(const fit *f, xct_fit_report *to)
{
    xct_fit_report report = {.end = f->end,
                             .steps = f->t->position.step,
                             .epochs = f->t->position.epoch,
                             .training = *training_result(f),
                             .steps_taken = f->t->position.step - f->first_step,
                             .best_step = f->t->position.best_step,
                             .best_loss = f->t->position.best_loss,
                             .left_over = f->whole && f->order.total % f->batch != 0};
    if (f->measured_held)
        report.validation = f->held_result;
    (void)snprintf(report.checkpoint, sizeof report.checkpoint, "%s", f->checkpoint);
    report.size = to->size;
    memcpy(to, &report, to->size < sizeof report ? to->size : sizeof report);
}

xcvm_status xct_trainer_fit(xct_trainer *t, const xct_dataset *data, const xct_fit_options *options,
                            xct_fit_report *report, xcvm_error *error)
{
    xcvm_error own;
    fit f = {.t = t, .data = data, .log = {.fd = -1}, .error = error != NULL ? error : &own};
    XCVM_CHECK(f.error, t != NULL && data != NULL, INVALID_ARGUMENT, "trainer or data is NULL");
    XCVM_CHECK(f.error, report == NULL || report->size >= sizeof report->size, INVALID_ARGUMENT,
               "report: size is %zu; initialize the struct with { .size = sizeof(the struct) }", report->size);
    XCVM_TRY(xcvm_options_read(&f.o, sizeof f.o, options, f.error));
    atomic_store(&t->stop, false);
    xcvm_status status = begin(&f);
    if (status == XCVM_OK)
        status = go(&f);
    if (status == XCVM_OK && report != NULL)
        give_report(&f, report);
    finish(&f);
    return status;
}
