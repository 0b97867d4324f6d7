/* Data files as calibration for a quantizer. */
#ifndef XCVM_TOOLS_RUN_CALIBRATION_H
#define XCVM_TOOLS_RUN_CALIBRATION_H

#include <xcvm/quantize.h>
#include <xcvm/train.h>

#include "cli/options.h"

struct calibration {
    xct_dataset *data;
    size_t batch;
    xcc_calibration source; /* for xcc_quantizer_run; it points to this struct, which must stay in place */
};

/* Opens `paths` for the quantizer's inputs. `batch` 0: the model's own, or 8;
 * `samples` 0: all examples. Says so on stderr when examples at the end are left out. May be closed after any outcome.
 */
xcvm_status calibration_open(struct calibration *calibration, const xcc_quantizer *quantizer,
                             const struct text_list *paths, const xct_column *columns, size_t column_count,
                             int64_t batch, int64_t samples, xcvm_error *error);
void calibration_close(struct calibration *calibration);

#endif
