/* Writes a ModelInferResponse. */
#ifndef XCVM_SERVER_GRPC_INFER_WRITE_H
#define XCVM_SERVER_GRPC_INFER_WRITE_H

#include "server/oip/infer.h"

/* Appends the message. Outputs are raw, or with `typed` they are typed contents if all their types have some. */
xcvm_status xcs_infer_response_write(const xcs_infer *infer, const xcvm_value *const *outputs, bool typed,
                                     xcs_text *text, xcvm_error *error);

#endif
