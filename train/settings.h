/* Settings as text, "cosine:warmup=100,to=0.1": a kind, and numbers by name. */
#ifndef XCVM_TRAIN_SETTINGS_H
#define XCVM_TRAIN_SETTINGS_H

#include "base/status.h"

enum { XCT_MAX_SETTINGS = 8 };

typedef enum xct_unit {
    XCT_NUMBER,
    XCT_STEPS /* a number of steps, of epochs with an e behind it ("10e"), or a share of all steps ("5%") */
} xct_unit;

typedef struct xct_setting {
    const char *name;  /* NULL ends the list */
    const char *value; /* the default */
    xct_unit unit;
    double min, max; /* of numbers */
} xct_setting;

typedef struct xct_kind {
    const char *name;
    xct_setting settings[XCT_MAX_SETTINGS];
} xct_kind;

/* What a number of steps is counted by. */
typedef struct xct_span {
    double epoch, all; /* steps */
} xct_span;

/* Finds the kind, and the values of its settings in their order. INVALID_ARGUMENT, with what there is, for an unknown
 * kind or setting; `what` is what messages call the text. */
xcvm_status xct_settings_parse(const char *text, const char *what, const xct_kind *kinds, size_t kind_count,
                               const xct_span *span, size_t *kind, double values[XCT_MAX_SETTINGS], xcvm_error *error);

#endif
