/* Data files as calibration for a quantizer. */
#ifndef XCVM_TOOLS_TRAINING_CALIBRATION_H
#define XCVM_TOOLS_TRAINING_CALIBRATION_H

#include <xcvm/quantize.h>
#include <xcvm/train.h>

#include "run/model_options.h"
#include "values/budget.h"

struct calibration {
    xct_dataset *data;
    size_t batch;
    xcc_calibration source;     /* for xcc_quantizer_run; it points to this struct, which must stay in place */
    struct value_budget budget; /* memory of the arrays, which outlives the struct */
};

/* Opens `paths` for the quantizer's inputs. `batch` 0: the model's own, or 8;
 * `samples` 0: all examples. The limits are for all that is read, the time from this call on. Says so on stderr when
 * examples at the end are left out. May be closed after any outcome. */
xcvm_status calibration_open(struct calibration *calibration, const xcc_quantizer *quantizer,
                             const struct text_list *paths, const xct_column *columns, size_t column_count,
                             int64_t batch, int64_t samples, const struct limit_flags *limits, xcvm_error *error);
void calibration_close(struct calibration *calibration);

#endif
