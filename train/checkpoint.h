/* Checkpoints: files from which a training resumes. */
#ifndef XCVM_TRAIN_CHECKPOINT_H
#define XCVM_TRAIN_CHECKPOINT_H

#include "train/trainer.h"
#include "train/whole_file.h"

/* Creates the folder if it does not exist. */
xcvm_status xct_checkpoints_begin(const char *folder, xcvm_error *error);
/* Checks the free space for the checkpoints that exist at the same time. `written` is the number of checkpoints that
 * the training writes, `keep` the number to keep. */
xcvm_status xct_checkpoints_room(const xct_trainer *t, const char *folder, uint64_t written, uint64_t keep,
                                 xcvm_error *error);
/* Writes a checkpoint of the current step and removes all but the newest `keep`. `path` receives its name. */
xcvm_status xct_checkpoints_write(const xct_trainer *t, const char *folder, size_t keep, char path[XCT_PATH],
                                  xcvm_error *error);
/* Restores a checkpoint. Its step must be that of its name and reachable by this training. */
xcvm_status xct_checkpoints_restore(xct_trainer *t, const char *path, xcvm_error *error);
/* Finds the newest checkpoint; `path` is empty if there is none. */
/* Fails with INVALID_ARGUMENT, since the folder has no checkpoint. The error names folders nearby that have some. */
xcvm_status xct_checkpoints_refuse(const char *folder, xcvm_error *error);
xcvm_status xct_checkpoints_latest(const char *folder, char path[XCT_PATH], xcvm_error *error);

#endif
