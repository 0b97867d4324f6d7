/* Schedules: the learning rate as a function of the step. */
#ifndef XCVM_TRAIN_SCHEDULE_H
#define XCVM_TRAIN_SCHEDULE_H

#include "train/settings.h"

typedef struct xct_schedule {
    size_t kind;
    double values[XCT_MAX_SETTINGS];
    double all; /* steps */
    /* State of a plateau schedule; saved in checkpoints. */
    double best, factor;
    double waited; /* observations since the best */
} xct_schedule;

/* Parses a kind and its settings; NULL: constant. */
xcvm_status xct_schedule_parse(const char *text, const xct_span *span, xct_schedule *schedule, xcvm_error *error);
/* Returns the factor of the rate at a step, counted from 0. */
double xct_schedule_factor(const xct_schedule *schedule, uint64_t step);
/* Reports the loss of an epoch to a plateau schedule: of validation if there is any. */
void xct_schedule_observe(xct_schedule *schedule, double loss);

#endif
