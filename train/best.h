/* The weights of the best epoch: a copy of what a training changes and an export takes. */
#ifndef XCVM_TRAIN_BEST_H
#define XCVM_TRAIN_BEST_H

#include "train/trainer.h"

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
