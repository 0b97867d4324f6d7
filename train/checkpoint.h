/* Checkpoints: files from which a training goes on. */
#ifndef XCVM_TRAIN_CHECKPOINT_H
#define XCVM_TRAIN_CHECKPOINT_H

#include "train/trainer.h"
#include "train/whole_file.h"

/* The folder is made if there is none. */
xcvm_status xct_checkpoints_begin(const char *folder, xcvm_error *error);
/* That there is room for those that will be there at once, where so many are written, the last one included, and `keep`
 * stay. */
xcvm_status xct_checkpoints_room(const xct_trainer *t, const char *folder, uint64_t written, uint64_t keep,
                                 xcvm_error *error);
/* Writes one for the step that is done, and removes all but the `keep` latest. `path` receives its name. */
xcvm_status xct_checkpoints_write(const xct_trainer *t, const char *folder, size_t keep, char path[XCT_PATH],
                                  xcvm_error *error);
/* Goes on from one of the folder's, which must be of the step that its name tells, and of this training's way. */
xcvm_status xct_checkpoints_restore(xct_trainer *t, const char *path, xcvm_error *error);
/* The latest one; `path` is empty if there is none. */
/* Says in `error` that a training cannot resume, since the folder has no checkpoint, and names folders beside it that
 * have some. */
xcvm_status xct_checkpoints_refuse(const char *folder, xcvm_error *error);
xcvm_status xct_checkpoints_latest(const char *folder, char path[XCT_PATH], xcvm_error *error);

#endif
