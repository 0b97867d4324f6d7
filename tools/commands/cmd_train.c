/* `xcvm train`: trains a model on data in files. */
#include "commands/commands.h"
#include "commands/train_data.h"
#include "commands/train_output.h"
#include "commands/training_text.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "io/file.h"
#include "io/output.h"
#include "training/columns.h"
#include "run/model_options.h"
#include "training/processes.h"
#include "run/rewrite.h"
#include "training/training_options.h"

#include <xcvm/train.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_flags {
    struct text_list data, inputs;
    const char *label, *validation;
    int64_t batch;
    bool no_shuffle;

    const char *loss, *optimizer, *schedule;
    int64_t epochs, steps, accumulate;
    struct training_flags training;
    struct recomputation_flags recomputation;
    struct text_list train, metrics;
    const char *init, *weights;
    bool keep_batch_normalization, local_batch_normalization, quantize;
    int64_t patience;
    const char *end_weights;
    bool overfit_batch;

    const char *output, *log, *curve, *checkpoints;
    int64_t checkpoint_every, keep;
    bool resume, training_form, dry_run;

    struct text_list dims;
    int64_t threads, optimization, seed;
    uint64_t max_memory;
};

#define AT(member) offsetof(struct train_flags, member)

static const struct option data_options[] = {
    {"data", 'd', "PATH", OPTION_LIST, AT(data), 0, 0,
     "training data: a .npz or .safetensors file, a pattern such as 'train-*.npz', a folder of such files, or .npy "
     "files "
     "(one option each; an array is named after its file). Or a folder with a folder of images for each class, which "
     "has the "
     "arrays images and labels. Or images, or a folder of them, for models without labels"},
    {"input", 'i', "NAME=ARRAY[*FACTOR]", OPTION_LIST, AT(inputs), 0, 0,
     "the array for an input; the default is the array of the same name. The factor is a number or 1/255. It "
     "multiplies the numbers of the array, or the bytes of images in files. For images in files, *1/255 (from 0 to 1) "
     "is the default, and *1 keeps 0 to 255"},
    {"label", 'l', "NAME=ARRAY", OPTION_TEXT, AT(label), 0, 0,
     "the input for labels, of the model or of the added loss, and its array"},
    {"batch", 'b', "N", OPTION_INT, AT(batch), 0, INT32_MAX, "examples per batch; 0: the model's fixed number, or 32"},
    {"no-shuffle", 0, NULL, OPTION_FLAG, AT(no_shuffle), 0, 0, "keep the order of the examples in the files"},
    {"validation", 0, "FILE|SHARE", OPTION_TEXT, AT(validation), 0, 0,
     "data to measure the model on after each epoch: a path as for --data, or a share of the data, such as 0.1, which "
     "is "
     "then not trained on"},
    END_OF_OPTIONS,
};

static const struct option own_options[] = {
    {"loss", 0, "LOSS", OPTION_TEXT, AT(loss), 0, 0,
     "the loss: an output of the model, or a loss to add, such as softmax_cross_entropy or mse. mse(y,target) also "
     "names "
     "the output and the input for labels. The default is the model's only output of one number"},
    {"optimizer", 0, "OPTIMIZER", OPTION_TEXT, AT(optimizer), 0, 0,
     "the optimizer and its settings, such as sgd:lr=0.01,momentum=0.9 or adam:lr=1e-3"},
    {"schedule", 0, "SCHEDULE", OPTION_TEXT, AT(schedule), 0, 0,
     "the learning rate over the steps: constant, step:every=10e,factor=0.1, exponential:factor=0.95, linear:to=0, "
     "cosine:to=0, onecycle:up=30%, wsd:decay=20% or plateau:patience=10. All accept warmup=STEPS. A number of steps "
     "may be "
     "in epochs (2e) or a share of all steps (10%)"},
    {"epochs", 0, "N", OPTION_INT, AT(epochs), 0, INT32_MAX,
     "passes over the data; 0: as many as --steps needs, or one"},
    {"steps", 0, "N", OPTION_INT, AT(steps), 0, INT64_MAX, "stop after this number of steps; 0: after the epochs"},
    {"accumulate", 0, "N", OPTION_INT, AT(accumulate), 1, INT32_MAX, "batches whose mean gradient one step uses"},
    {"train", 0, "PATTERN", OPTION_LIST, AT(train), 0, 0,
     "train only these parameters, such as 'head.*', where * matches any characters; the others stay unchanged"},
    {"keep-batch-normalization", 0, NULL, OPTION_FLAG, AT(keep_batch_normalization), 0, 0,
     "leave BatchNormalization that was exported for inference unchanged, with fixed mean and variance"},
    {"local-batch-normalization", 0, NULL, OPTION_FLAG, AT(local_batch_normalization), 0, 0,
     "with several processes: BatchNormalization uses mean and variance of the process's part of a batch; the default "
     "is "
     "the whole batch"},
    {"quantize", 0, NULL, OPTION_FLAG, AT(quantize), 0, 0,
     "train with activations and weights rounded to 8 bits, as xcvm quantize places them. Gradients pass through the "
     "rounding unchanged. Normalizations are first merged into convolutions"},
    {"init", 0, "he|glorot|normal|uniform|orthogonal", OPTION_CHOICE, AT(init), 0, 0,
     "draw new weights; biases become 0, scales 1"},
    {"weights", 0, "FILE", OPTION_FILE, AT(weights), 0, 0,
     "start with the arrays of this .npz or .safetensors file that have names of parameters"},
    {"metric", 0, "METRIC", OPTION_LIST, AT(metrics), 0, 0,
     "also measure accuracy, top5, f1, mse, mae or perplexity; the default is accuracy for classes and mae for "
     "numbers"},
    {"patience", 0, "EPOCHS", OPTION_INT, AT(patience), 0, INT32_MAX,
     "stop early after this number of epochs without a lower loss, of validation if there is any; 0: never"},
    {"end-weights", 0, "best|last", OPTION_CHOICE, AT(end_weights), 0, 0,
     "weights of the result: of the epoch with the lowest loss, of validation if there is any, or of the last step; "
     "the "
     "default is best with --patience, otherwise last"},
    {"overfit-batch", 0, NULL, OPTION_FLAG, AT(overfit_batch), 0, 0,
     "train on the first batch only; a model that can learn reaches a loss near 0"},
    {"seed", 0, "N", OPTION_INT, AT(seed), 0, INT64_MAX, "seed of shuffling, Dropout and --init"},
    END_OF_OPTIONS,
};

static const struct option file_options[] = {
    {"output", 'o', "FILE", OPTION_FILE, AT(output), 0, 0,
     "the trained model in inference form: an ONNX model if the name ends in .onnx, otherwise a program; -: a program "
     "to "
     "standard output, while messages go to standard error"},
    {"training-form", 0, NULL, OPTION_FLAG, AT(training_form), 0, 0,
     "leave nodes of the result in training form. By default BatchNormalization uses running statistics, and Dropout "
     "does "
     "nothing"},
    {"log", 0, "FILE.csv", OPTION_OUTPUT, AT(log), 0, 0, "step, epoch, loss and metrics of every step"},
    {"curve", 0, "FILE.svg", OPTION_OUTPUT, AT(curve), 0, 0, "a plot of loss and metric, updated after each epoch"},
    {"checkpoint", 0, "DIR", OPTION_FOLDER, AT(checkpoints), 0, 0,
     "save what is needed to continue the training in this folder"},
    {"checkpoint-every", 0, "STEPS", OPTION_INT, AT(checkpoint_every), 0, INT64_MAX,
     "steps between checkpoints; 0: one after each epoch. The end of the training always has one"},
    {"keep", 0, "K", OPTION_INT, AT(keep), 1, INT32_MAX, "number of checkpoints to keep, the newest ones"},
    {"resume", 0, NULL, OPTION_FLAG, AT(resume), 0, 0,
     "continue from the newest checkpoint, to the same bits as if the training had not ended"},
    {"dry-run", 0, NULL, OPTION_FLAG, AT(dry_run), 0, 0, "train, measure and check the named files, but write none"},
    END_OF_OPTIONS,
};

static const struct option machine_options_of_train[] = {
    {"dim", 0, "NAME=SIZE", OPTION_LIST, AT(dims), 0, 0,
     "fix an open dimension of the model's inputs, such as the height of images or the steps of a recurrent network. A "
     "dimension without a name is INPUT.AXIS, for example x.0"},
    {"threads", 't', "N", OPTION_INT, AT(threads), 0, 1024, "number of threads; 0: as many as the machine allows"},
    {"optimize", 'O', "LEVEL", OPTION_INT, AT(optimization), 0, 2, "as for xcvm compile"},
    {"max-memory", 0, "SIZE", OPTION_SIZE, AT(max_memory), 0, 0,
     "memory limit of compiling, then of a step, and of each data set, such as 512M; 0: no limit"},
    END_OF_OPTIONS,
};

static const struct option_group groups[] = {
    {"Data", data_options, 0},
    {"Learning", own_options, 0},
    OPTION_GROUP("Rules of learning", learning_options, struct train_flags, training),
    RECOMPUTATION_GROUP(struct train_flags, recomputation),
    {"Files", file_options, 0},
    {"Machine", machine_options_of_train, 0},
};
static const struct train_flags defaults = {.optimizer = "adam:lr=1e-3", .accumulate = 1, .keep = 3, .optimization = 2};

/* ---- Signals ---- */

static xct_trainer *volatile running;

/* The first signal ends the training after the current step. The second ends the process; checkpoints remain. */
static void stop_running(void)
{
    xct_trainer *trainer = running;
    if (trainer != NULL)
        xct_trainer_stop(trainer);
}

/* ---- Options ---- */

struct training {
    const struct train_flags *flags;
    const char *model;
    struct dims dims;
    xcc_options compile;
    struct training_groups groups;
    xct_trainer_options options;
    struct columns columns;
    char *label;
    struct train_output output;
    bool writes, form_shown; /* the result is written; the note on its form was shown */
    bool plan_shown;         /* the plan of --recompute was shown */
    bool stepped;            /* at least one step of this command is done */
    struct buffer rounded;   /* the model with the rounding of --quantize; empty: unchanged */
    double share;
    xct_trainer *trainer;
    xct_dataset *data, *validation;
    struct progress progress;
    struct processes processes;
};

static bool parse_columns(struct training *t)
{
    const struct train_flags *flags = t->flags;
    if (!columns_add_inputs(&t->columns, &flags->inputs))
        return false;
    if (flags->label == NULL)
        return true;
    if (!columns_add(&t->columns, "label", flags->label, true))
        return false;
    t->label = memory_text(t->columns.items[t->columns.count - 1].input);
    return true;
}

/* The first program is that of whole batches. The plan for the rest of an epoch would only confuse. */
static void print_plan(void *user, const xcc_report *report)
{
    struct training *t = user;
    if (t->plan_shown)
        return;
    t->plan_shown = true;
    progress_end(&t->progress);
    recomputation_print(report);
}

static void show_note(void *user, xcc_diagnostic_kind kind, const char *text)
{
    struct training *t = user;
    /* The trial before the first step writes nothing. */
    if (kind == XCC_DIAGNOSTIC_INFERENCE_FORM && (!t->writes || t->form_shown))
        return;
    t->form_shown |= kind == XCC_DIAGNOSTIC_INFERENCE_FORM;
    progress_end(&t->progress);
    if (kind == XCC_DIAGNOSTIC_WEIGHTS) {
        char *line = memory_text(text);
        make_printable(line);
        report_line("%s", line);
        free(line);
        return;
    }
    const char *output = t->flags->output;
    const char *path = kind == XCC_DIAGNOSTIC_INFERENCE_FORM ? (strcmp(output, "-") == 0 ? "standard output" : output)
                       : kind == XCC_DIAGNOSTIC_DATA         ? NULL /* the text names the file */
                                                             : t->model;
    model_note((void *)(uintptr_t)path, kind, text);
}

/* Returns whether the options can be combined; otherwise reports why not. */
static bool check_flags(const struct train_flags *flags)
{
    if (flags->data.count == 0) {
        report_usage("--data is needed, a file or folder to train on");
        return false;
    }
    if (flags->resume && flags->checkpoints == NULL) {
        report_usage("--resume needs --checkpoint, the folder to resume from");
        return false;
    }
    if (flags->quantize && (flags->init != NULL || flags->weights != NULL)) {
        report_usage(
            "--quantize takes its ranges from a trained model, so it cannot be combined with --init or --weights");
        return false;
    }
    if (flags->dry_run && flags->resume) {
        report_usage("--dry-run writes no checkpoints, and --resume writes more of them, so they cannot be combined");
        return false;
    }
    if (flags->output == NULL && flags->checkpoints == NULL && !flags->dry_run && !flags->overfit_batch) {
        report_usage("the trained weights would be lost. Name a file with --output or a folder with --checkpoint, or "
                     "train without a result with --dry-run");
        return false;
    }
    if (rewrite_check_name(flags->output) != EXIT_OK)
        return false;
    return recomputation_check(&flags->recomputation) == EXIT_OK;
}

/* A file of such a name is a path as ./20%. */
static bool is_percentage(const char *text)
{
    double number;
    const size_t length = strlen(text);
    char digits[32];
    if (length < 2 || length > sizeof digits || text[length - 1] != '%')
        return false;
    memcpy(digits, text, length - 1);
    digits[length - 1] = '\0';
    return parse_real(digits, &number);
}

static bool read_flags(struct training *t)
{
    const struct train_flags *flags = t->flags;
    static const char *const automatic[] = {"auto"};
    xcvm_error error;
    if (!check_flags(flags) || !parse_columns(t))
        return false;
    if (training_options_use(&flags->training, &t->groups, &t->compile, &error) != XCVM_OK ||
        dims_parse(&flags->dims, &t->dims, &error) != XCVM_OK) {
        report_usage("%s", error.message);
        return false;
    }
    /* A number is a share, anything else a path. */
    if (flags->validation != NULL && parse_real(flags->validation, &t->share) && !(t->share > 0 && t->share < 1)) {
        report_usage("--validation=%s: a share is above 0 and below 1. A fifth is 0.2", flags->validation);
        return false;
    }
    if (flags->validation != NULL && is_percentage(flags->validation)) {
        report_usage("--validation=%s: a share is a number above 0 and below 1. A fifth is 0.2", flags->validation);
        return false;
    }
    t->compile.size = sizeof t->compile;
    t->compile.dims = t->dims.items;
    t->compile.dim_count = t->dims.count;
    t->compile.optimization = flags->optimization == 0 ? -1 : (int)flags->optimization;
    t->compile.limits.memory_bytes = (size_t)flags->max_memory;
    t->compile.train = flags->optimizer;
    t->compile.loss = flags->loss;
    t->compile.gradients.wrt = flags->train.items;
    t->compile.gradients.wrt_count = flags->train.count;
    recomputation_use(&flags->recomputation, &t->compile);
    t->compile.training.accumulate = flags->accumulate > 1;
    t->compile.gradients.straight_through = flags->quantize;
    t->compile.training.train_batch_normalization = !flags->keep_batch_normalization;
    t->compile.diagnostics = (xcc_diagnostics){t->processes.rank == 0 ? show_note : NULL, t};
    t->compile.training.local_batch_normalization = flags->local_batch_normalization;
    t->options = (xct_trainer_options){.size = sizeof t->options,
                                       .compile = &t->compile,
                                       .label = t->label,
                                       .threads = (int)flags->threads,
                                       .memory_limit = (size_t)flags->max_memory,
                                       .seed = (uint64_t)flags->seed,
                                       .rank = t->processes.rank,
                                       .ranks = t->processes.count,
                                       .all_reduce.sum = t->processes.count > 1 ? processes_all_reduce : NULL,
                                       .all_reduce.begin = t->processes.count > 1 ? processes_sum_begin : NULL,
                                       .all_reduce.end = t->processes.count > 1 ? processes_sum_end : NULL,
                                       .all_reduce.abandon = t->processes.count > 1 ? processes_sum_abandon : NULL,
                                       .all_reduce.allocator = processes_allocator(),
                                       .planned = {t->processes.rank == 0 ? print_plan : NULL, t},
                                       .metrics = flags->metrics.count > 0 ? flags->metrics.items : automatic,
                                       .metric_count = flags->metrics.count > 0 ? flags->metrics.count : 1,
                                       .init = flags->init,
                                       .weights = flags->weights,
                                       .training_form = flags->training_form};
    return true;
}

/* ---- What is shown ---- */

static void show(void *user, const xct_progress *p)
{
    struct training *t = user;
    t->stepped = true;
    training_text_step(&t->progress, p);
}

/* ---- The command ---- */

static xcvm_status open_data(struct training *t, xcvm_error *error)
{
    const struct train_flags *flags = t->flags;
    TRY(xct_dataset_create(t->trainer, flags->data.items, flags->data.count, t->columns.items, t->columns.count,
                           &t->data, error));
    const bool speaks = t->processes.rank == 0;
    if (speaks)
        data_skipped_print(t->data);
    if (flags->validation != NULL && t->share == 0) {
        TRY(xct_dataset_create(t->trainer, &flags->validation, 1, t->columns.items, t->columns.count, &t->validation,
                               error));
        if (speaks)
            data_skipped_print(t->validation);
    }
    if (speaks)
        train_data_print_scales(t->trainer, t->data, &t->columns);
    return train_data_join_classes(t->trainer, t->data, t->validation, speaks, error);
}

static xcvm_status fit(struct training *t, xct_fit_report *report, xcvm_error *error)
{
    const struct train_flags *flags = t->flags;
    char *name = file_base_name(t->model);
    const bool writes = !flags->dry_run;
    const xct_fit_options options = {.size = sizeof options,
                                     .epochs = (uint64_t)flags->epochs,
                                     .steps = (uint64_t)flags->steps,
                                     .batch = (size_t)flags->batch,
                                     .no_shuffle = flags->no_shuffle,
                                     .accumulate = (size_t)flags->accumulate,
                                     .schedule = flags->schedule,
                                     .validation = t->validation,
                                     .held_out = t->share,
                                     .patience = (uint64_t)flags->patience,
                                     .weights = flags->end_weights == NULL                ? XCT_WEIGHTS_AUTO
                                                : strcmp(flags->end_weights, "best") == 0 ? XCT_WEIGHTS_BEST
                                                                                          : XCT_WEIGHTS_LAST,
                                     .overfit_batch = flags->overfit_batch,
                                     .log = writes ? flags->log : NULL,
                                     .curve = writes ? flags->curve : NULL,
                                     .title = name,
                                     .checkpoints = writes ? flags->checkpoints : NULL,
                                     .checkpoint_every = (uint64_t)flags->checkpoint_every,
                                     .keep = (size_t)flags->keep,
                                     .resume = flags->resume,
                                     .progress = {t->processes.rank == 0 ? show : NULL, t}};
    progress_start(&t->progress);
    running = t->trainer;
    signal(SIGPIPE, SIG_IGN); /* a reader of the log or of the output may end before the training does */
    interrupt_catch(stop_running);
    xcvm_status status = xct_trainer_fit(t->trainer, t->data, &options, report, error);
    interrupt_release();
    running = NULL;
    progress_end(&t->progress);
    free(name);
    return status;
}

static void release(struct training *t)
{
    xct_dataset_destroy(t->data);
    xct_dataset_destroy(t->validation);
    xct_trainer_destroy(t->trainer);
    train_output_release(&t->output);
    buffer_release(&t->rounded);
    training_groups_release(&t->groups);
    columns_release(&t->columns);
    free(t->label);
    dims_release(&t->dims);
}

static xcvm_status create_trainer(struct training *t, xcvm_error *error)
{
    if (!t->flags->quantize)
        return xct_trainer_create_file(t->model, &t->options, &t->trainer, error);
    const struct train_rounding rounding = {.model = t->model,
                                            .data = &t->flags->data,
                                            .columns = &t->columns,
                                            .dims = &t->dims,
                                            .threads = (int)t->flags->threads,
                                            .max_memory = t->flags->max_memory};
    TRY(train_data_put_rounding(&rounding, &t->rounded, error));
    return xct_trainer_create(t->rounded.data, t->rounded.length, &t->options, &t->trainer, error);
}

/* Returns whether no output file is an input file or another output file; otherwise reports it. */
static bool check_targets(const struct train_flags *flags, const char *model)
{
    const struct {
        const char *option, *path;
    } files[] = {{"--output", flags->output},
                 {"--log", flags->log},
                 {"--curve", flags->curve},
                 {"the model", model},
                 {"--weights", flags->weights}};
    enum { WRITTEN = 3 };
    for (size_t i = 1; i < WRITTEN; i++)
        if (files[i].path != NULL && strcmp(files[i].path, "-") == 0) {
            report_usage("%s=-: standard output has the messages. Name a file", files[i].option);
            return false;
        }
    for (size_t i = 0; i < WRITTEN; i++)
        for (size_t k = i + 1; k < COUNT_OF(files); k++)
            if (file_is_one_target(files[i].path, files[k].path)) {
                report_usage("%s and %s are the same file, %s; an output needs a file of its own", files[k].option,
                             files[i].option, files[i].path);
                return false;
            }
    return true;
}

/* Does everything before the first step. *about is the subject of an error. */
static xcvm_status prepare(struct training *t, const char **about, xcvm_error *error)
{
    TRY(output_check(t->flags->output, error));
    TRY(output_check(t->flags->log, error));
    TRY(output_check(t->flags->curve, error));
    *about = t->model;
    TRY(create_trainer(t, error));
    *about = NULL;
    if (t->processes.rank == 0)
        train_data_warn_of_merged(t->trainer);
    TRY(open_data(t, error));
    TRY(rewrite_no_data(t->data, t->flags->output, error));
    TRY(rewrite_no_data(t->validation, t->flags->output, error));
    t->output = (struct train_output){.path = t->flags->output,
                                      .compile = {.size = sizeof(xcc_options),
                                                  .dims = t->dims.items,
                                                  .dim_count = t->dims.count,
                                                  .optimization = t->compile.optimization}};
    return t->processes.rank == 0 ? train_output_begin(&t->output, t->trainer, error) : XCVM_OK;
}

/* A file that cannot be written or read, for example on a full disk, ends a training after some step. The weights so
 * far are kept, as after Ctrl-C. */
static void save_weights_so_far(struct training *t)
{
    const char *output = t->flags->output;
    xcvm_error error = {.pc = -1};
    if (!t->stepped || t->flags->dry_run || output == NULL)
        return;
    t->writes = true;
    if (train_output_write(&t->output, t->trainer, &error) == XCVM_OK)
        report_line("note: %s has the weights after step %" PRIu64,
                    strcmp(output, "-") == 0 ? "standard output" : output, xct_trainer_step_count(t->trainer));
    else
        report_line("note: the weights after step %" PRIu64 " cannot be written either: %s",
                    xct_trainer_step_count(t->trainer), error.message);
}

static int learn(struct training *t)
{
    /* The time that the first process may need on a busy machine to report. */
    enum { HEAD_START_US = 2000000 };
    xcvm_error error = {.pc = -1};
    xct_fit_report report = {.size = sizeof report};
    const char *about = NULL;
    bool speak;
    xcvm_status status = prepare(t, &about, &error);
    bool together = processes_agree(&t->processes, status != XCVM_OK, &speak);
    if (!together) {
        int code = speak ? report_error(about, &error) : exit_code_of(status != XCVM_OK ? status : XCVM_CANCELLED);
        if (speak && t->trainer == NULL && status == XCVM_INVALID_ARGUMENT && t->flags->loss == NULL)
            train_data_suggest_loss(t->model, &t->compile, &t->flags->data, &t->columns, t->label);
        processes_end(&t->processes, true, code);
        return code;
    }
    status = fit(t, &report, &error);
    const bool ended_early = status == XCVM_IO;
    if (status == XCVM_OK && t->processes.rank == 0) {
        training_text_report(&report, t->flags->patience, t->flags->dry_run ? NULL : t->flags->output, &t->processes);
        t->writes = true;
        if (!t->flags->dry_run)
            status = train_output_write(&t->output, t->trainer, &error);
    }
    /* The first process reports an error that all have, and ends the others. */
    if (status != XCVM_OK && t->processes.rank > 0)
        usleep(HEAD_START_US);
    int code = status != XCVM_OK               ? report_error(NULL, &error)
               : report.end == XCT_END_STOPPED ? interrupt_code()
                                               : EXIT_OK;
    if (ended_early && t->processes.rank == 0)
        save_weights_so_far(t);
    processes_end(&t->processes, status == XCVM_OK, code);
    return code;
}

static int execute_train(const void *own, const struct arguments *arguments)
{
    struct training t = {.flags = own, .model = arguments->items[0]};
    xcvm_error error = {.pc = -1};
    int code = EXIT_USAGE;
    if (processes_begin(&t.processes, &error) != XCVM_OK)
        return report_error(NULL, &error);
    output_reserve(t.flags->output);
    if (read_flags(&t) && check_targets(t.flags, t.model))
        code = learn(&t);
    else
        processes_end(&t.processes, true, EXIT_USAGE);
    release(&t);
    processes_release();
    return code;
}

static const struct example examples[] = {
    {"net.onnx -d digits.npz -i 'image=images*1/16' -l label=labels --loss softmax_cross_entropy --epochs 2 -b 64 -o "
     "trained.onnx",
     "a classifier, whose outputs are scores"},
    {"network.onnx -d 'train-*.npz' --validation held.npz --checkpoint saved --curve curve.svg",
     "a model with a loss, and data in many files; the same command with --resume continues the training"},
    {"net.onnx -d photos -l label --loss softmax_cross_entropy --train 'head.*' --validation 0.1 -o prog.bin",
     "only the last layer, with a folder of images for each class, into a program"},
    {"net.onnx -d digits.npz -i 'image=images*1/16' -l label=labels --loss softmax_cross_entropy --quantize "
     "--optimizer "
     "adam:lr=1e-4 --steps 10 -o learned.onnx",
     "continue training a model with numbers rounded to 8 bits"},
    {"network.onnx -d held.npz --overfit-batch --steps 200", "test whether the model can learn at all"},
};

const struct command command_train = {
    .name = "train",
    .summary = "train a model on data",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .description =
        "Compiles an ONNX model into a training step and runs it over the data for --epochs. --seed determines the "
        "shuffling. The first axis of every array counts examples. Each input of the model takes the array of its "
        "name, or "
        "the one that --input or --label names. --loss adds a loss to a model that has none. Its labels are a new "
        "input, "
        "called labels unless --label names it.\n\n"
        "A model with several outputs of float types needs the output's name: --loss "
        "'softmax_cross_entropy(scores,labels)'. Labels of classes are integers, other labels are floats. Labels [N] "
        "for an "
        "output [N,1], and the reverse, are accepted with a note. A label that --ignore-label names, -100 by default, "
        "does not "
        "count.\n\n"
        "Errors in writing the result are found before the first step. Folders of images name the model's classes, and "
        "folders of --validation are matched by name.\n\n"
        "Each epoch prints a line with its means. The end has lines for scripts: the number of steps, loss and metrics "
        "of the last epoch, and those of validation. If the weights of the best epoch are the result, a line has its "
        "step and loss. With "
        "--checkpoint, Ctrl-C, a crash or a power failure lose only the steps since the last checkpoint. The same "
        "command "
        "with --resume continues from there, to the same bits. It is an error if there is no checkpoint.\n\n"
        "Processes that mpirun starts (mpirun -n 4 xcvm train ...) train together. Each takes its part of every batch. "
        "Gradients "
        "are summed while they are computed, in shared memory or by Open MPI. BatchNormalization uses mean and "
        "variance "
        "of the whole batch. The first process writes the files. As root, mpirun needs --allow-run-as-root, or "
        "OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1. For more processes than cores it needs "
        "--oversubscribe.\n\n"
        "The result is in inference form, unless --training-form is given: BatchNormalization uses its running "
        "statistics, and "
        "Dropout does nothing.\n\n"
        "A loss that is not finite ends the training. The error names the instruction that made the first such number.",
    .groups = groups,
    .group_count = COUNT_OF(groups),
    .examples = examples,
    .example_count = COUNT_OF(examples),
    .defaults = &defaults,
    .options_size = sizeof(struct train_flags),
    .run = execute_train,
};
