/* Options of training programs, and how they become the compiler's. */
#include "training/training_options.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

const struct option learning_options[] = {
    {"group", 0, "PATTERN:SETTINGS", OPTION_LIST, offsetof(struct training_flags, groups), 0, 0,
     "settings for the parameters whose names match PATTERN, in which * stands for any characters. SETTINGS are lr=X, "
     "a factor of the learning rate (0: not trained), weight_decay=X, or both, separated by a comma. The first "
     "matching group decides; may be repeated"},
    {"clip-norm", 0, "X", OPTION_REAL, offsetof(struct training_flags, clip_norm), 0, 0,
     "scale the gradients down to this common 2-norm; 0: no limit"},
    {"clip-value", 0, "X", OPTION_REAL, offsetof(struct training_flags, clip_value), 0, 0,
     "limit the elements of gradients to this magnitude; 0: no limit"},
    {"average", 0, "DECAY", OPTION_REAL, offsetof(struct training_flags, average), 0, 0,
     "keep moving averages of the parameters with this decay per step; 0: none"},
    {"loss-scale", 0, "X", OPTION_REAL, offsetof(struct training_flags, loss_scale), 0, 0,
     "scale the loss before differentiation. The factor starts at X, halves when gradients overflow, and doubles after "
     "2000 steps without overflow; 0: none"},
    {"ignore-label", 0, "N", OPTION_TEXT, offsetof(struct training_flags, ignore_label), 0, 0,
     "the label that an added loss of classes ignores, also in metrics and means (default -100)"},
    END_OF_OPTIONS,
};

const struct option training_options[] = {
    {"accumulate", 0, NULL, OPTION_FLAG, offsetof(struct training_flags, accumulate), 0, 0,
     "accumulate gradients in runs whose input \"apply\" is false; the next run with true applies their mean"},
    {"all-reduce", 0, NULL, OPTION_FLAG, offsetof(struct training_flags, all_reduce), 0, 0,
     "make the program for one of several processes that train together, each on its part of every batch"},
    {"local-batch-normalization", 0, NULL, OPTION_FLAG, offsetof(struct training_flags, local_batch_normalization), 0,
     0, "with --all-reduce, BatchNormalization uses mean and variance of the process's own part of the batch"},
    {"evaluate", 0, NULL, OPTION_FLAG, offsetof(struct training_flags, evaluate), 0, 0,
     "make a program for validation: it reads the same states and changes none, with normalization and dropout as for "
     "inference"},
    {"train-batch-normalization", 0, NULL, OPTION_FLAG, offsetof(struct training_flags, train_batch_normalization), 0,
     0, "convert BatchNormalization that was exported for inference into training form"},
    END_OF_OPTIONS,
};

const struct option recomputation_options[] = {
    {"recompute", 0, "METHOD", OPTION_TEXT, offsetof(struct recomputation_flags, method), 0, 0,
     "recompute results in the backward pass instead of keeping them. METHOD none keeps all; chen keeps those between "
     "articulation points; time and memory minimize the one or the other; custom:NAMES recomputes these. All sizes "
     "must be known"},
    {"memory-budget", 0, "SIZE", OPTION_SIZE, offsetof(struct recomputation_flags, memory_budget), 0, 0,
     "with --recompute, the limit in bytes of a step besides inputs and parameters, for example 300M. As little as "
     "possible is recomputed to meet it. Without it, memory is minimized"},
    END_OF_OPTIONS,
};

const char *training_option_given(const struct training_flags *flags)
{
    static const struct training_flags usual;
    static const struct option *const tables[] = {learning_options, training_options};
    for (size_t t = 0; t < COUNT_OF(tables); t++)
        for (const struct option *option = tables[t]; option->name != NULL; option++)
            if (option_differs(option, flags, &usual))
                return option->name;
    return NULL;
}

/* One of "lr=0.1" and "weight_decay=0". */
static bool read_setting(char *text, xcc_training_group *group)
{
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return false;
    *equals = '\0';
    if (strcmp(text, "lr") == 0)
        return parse_real(equals + 1, &group->rate);
    group->own_decay = true;
    return strcmp(text, "weight_decay") == 0 && parse_real(equals + 1, &group->weight_decay);
}

static bool read_group(const char *text, xcc_training_group *group)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return false;
    *group = (xcc_training_group){.pattern = memory_text_n(text, (size_t)(colon - text)), .rate = 1.0};
    char *settings = memory_text(colon + 1), *next = settings, *setting;
    bool good = true;
    while (good && (setting = strsep(&next, ",")) != NULL)
        good = read_setting(setting, group);
    free(settings);
    return good;
}

xcvm_status training_options_use(const struct training_flags *flags, struct training_groups *groups,
                                 xcc_options *compiler, xcvm_error *error)
{
    training_groups_release(groups);
    groups->items = memory_take(flags->groups.count + 1, sizeof *groups->items);
    for (size_t i = 0; i < flags->groups.count; i++) {
        const bool good = read_group(flags->groups.items[i], &groups->items[i]);
        groups->count++;
        if (!good)
            return error_set(error, XCVM_INVALID_ARGUMENT,
                             "--group=%.100s: expected PATTERN:lr=FACTOR, PATTERN:weight_decay=X or both",
                             flags->groups.items[i]);
    }
    compiler->training.own_ignore_label = flags->ignore_label != NULL;
    if (flags->ignore_label != NULL && !parse_int(flags->ignore_label, &compiler->training.ignore_label))
        return error_set(error, XCVM_INVALID_ARGUMENT, "--ignore-label=%.100s: expected an integer",
                         flags->ignore_label);
    compiler->training.groups = groups->items;
    compiler->training.group_count = groups->count;
    compiler->training.clip_norm = flags->clip_norm;
    compiler->training.clip_value = flags->clip_value;
    compiler->training.accumulate = flags->accumulate;
    compiler->training.average = flags->average;
    compiler->training.loss_scale = flags->loss_scale;
    compiler->training.all_reduce = flags->all_reduce;
    compiler->training.local_batch_normalization = flags->local_batch_normalization;
    compiler->training.evaluate = flags->evaluate;
    compiler->training.train_batch_normalization = flags->train_batch_normalization;
    return XCVM_OK;
}

bool recomputation_asked(const struct recomputation_flags *flags)
{
    return flags->method != NULL && strcmp(flags->method, "none") != 0;
}

int recomputation_check(const struct recomputation_flags *flags)
{
    if (flags->method == NULL && flags->memory_budget != 0)
        return report_usage("--memory-budget has no effect without --recompute");
    return EXIT_OK;
}

void recomputation_use(const struct recomputation_flags *flags, xcc_options *compiler)
{
    compiler->recompute.method = flags->method;
    compiler->recompute.memory_budget = flags->memory_budget;
}

void recomputation_print(const xcc_report *report)
{
    if (report->recompute_peak_before > 0)
        report_line("recomputation: %zu instructions are computed again; peak %.1f MB, %.1f MB without (%+.1f%%); a "
                    "step takes %.3f times as long (estimate)",
                    report->recomputed, (double)report->arena_bytes / 1e6, (double)report->recompute_peak_before / 1e6,
                    100 * ((double)report->arena_bytes / (double)report->recompute_peak_before - 1),
                    report->recompute_time);
}

void training_groups_release(struct training_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        free((char *)(uintptr_t)groups->items[i].pattern);
    free(groups->items);
    *groups = (struct training_groups){0};
}
