/* Settings as text, "cosine:warmup=100,to=0.1": a kind and named numbers. */
#ifndef XCVM_TRAIN_SETTINGS_H
#define XCVM_TRAIN_SETTINGS_H

#include "base/status.h"

enum { XCT_MAX_SETTINGS = 8 };

typedef enum xct_unit {
    XCT_NUMBER,
    XCT_STEPS /* a number of steps, of epochs with the suffix e ("10e"), or a share of all steps ("5%") */
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

/* Units of a number of steps. */
typedef struct xct_span {
    double epoch, all; /* steps */
} xct_span;

/* Parses the kind and the values of its settings, in their order. INVALID_ARGUMENT lists the known kinds or settings.
 * `what` names the text in errors. */
xcvm_status xct_settings_parse(const char *text, const char *what, const xct_kind *kinds, size_t kind_count,
                               const xct_span *span, size_t *kind, double values[XCT_MAX_SETTINGS], xcvm_error *error);

#endif
