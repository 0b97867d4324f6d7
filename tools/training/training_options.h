/* Options of training programs, and how they become the compiler's. */
#ifndef XCVM_TOOLS_TRAINING_TRAINING_OPTIONS_H
#define XCVM_TOOLS_TRAINING_TRAINING_OPTIONS_H

#include "cli/options.h"

#include <xcvm/compiler.h>

struct training_flags {
    struct text_list groups; /* PATTERN:lr=FACTOR,weight_decay=X */
    double clip_norm, clip_value, average, loss_scale;
    const char *ignore_label;
    bool accumulate, all_reduce, local_batch_normalization, evaluate, train_batch_normalization;
};
struct recomputation_flags {
    const char *method;
    uint64_t memory_budget;
};
/* Options of parameters and their training, and other options of training programs that run one by one. */
extern const struct option learning_options[], training_options[], recomputation_options[];
#define LEARNING_GROUP(type, member) OPTION_GROUP("Learning", learning_options, type, member)
#define TRAINING_GROUPS(type, member)                                                                                  \
    LEARNING_GROUP(type, member), OPTION_GROUP("Training programs", training_options, type, member)
#define RECOMPUTATION_GROUP(type, member) OPTION_GROUP("Recomputation", recomputation_options, type, member)

/* Groups of parameters, which lend their patterns to the compiler's options. */
struct training_groups {
    xcc_training_group *items;
    size_t count;
};
/* Sets the compiler's training options, except the optimizer, the loss and the trainable parameters. `groups`, zeroed
 * or filled in before, must live as long as the options. Fails with INVALID_ARGUMENT for an invalid group. */
xcvm_status training_options_use(const struct training_flags *flags, struct training_groups *groups,
                                 xcc_options *compiler, xcvm_error *error);
void training_groups_release(struct training_groups *groups);
/* The first of the options that were given, without hyphens; NULL: none. They do nothing without an optimizer. */
const char *training_option_given(const struct training_flags *flags);

/* Returns true if recomputation is selected. */
bool recomputation_asked(const struct recomputation_flags *flags);
/* EXIT_OK, or what to return after a message for options that do not go together. */
int recomputation_check(const struct recomputation_flags *flags);
void recomputation_use(const struct recomputation_flags *flags, xcc_options *compiler);
/* Prints the estimated effect of recomputation, if it was selected. */
void recomputation_print(const xcc_report *report);

#endif
