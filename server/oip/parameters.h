/* Parameters of inference requests, with the meanings that Triton gives them. */
#ifndef XCVM_SERVER_OIP_PARAMETERS_H
#define XCVM_SERVER_OIP_PARAMETERS_H

#include "server/oip/infer.h"

typedef enum xcs_parameter_kind {
    XCS_PARAMETER_INTEGER,
    XCS_PARAMETER_TEXT,
    XCS_PARAMETER_BOOL,
    XCS_PARAMETER_OTHER
} xcs_parameter_kind;

typedef struct xcs_parameter {
    xcs_parameter_kind kind;
    int64_t integer;
    const char *text;
    bool boolean;
} xcs_parameter;

/* Returns the name of a parameter that has a meaning; NULL beyond the last. */
const char *xcs_parameter_name(size_t index);
/* Sets a parameter. Names without a meaning are ignored. */
xcvm_status xcs_infer_set_parameter(xcs_infer *infer, const char *name, const xcs_parameter *value, xcvm_error *error);
/* Without the parameter: the priority of a request. */
void xcs_infer_set_defaults(xcs_infer *infer);

#endif
