/* Typed contents of inputs and outputs (InferTensorContents). */
#ifndef XCVM_SERVER_GRPC_CONTENTS_H
#define XCVM_SERVER_GRPC_CONTENTS_H

#include "proto/wire_reader.h"
#include "server/json/text.h"

/* Returns true if the message has a field for elements of the type. FP16 and BF16 have none. */
bool xcs_contents_support(xcvm_dtype dtype);
/* Creates a tensor of the elements. Fails with INVALID_PROGRAM if the message is not valid. */
xcvm_status xcs_contents_read(xcvm_wire contents, const xcvm_allocator *allocator, xcvm_dtype dtype, int rank,
                              const int64_t *dims, xcvm_value **tensor, xcvm_error *error);
/* Appends the fields. */
void xcs_contents_write(xcs_text *text, const xcvm_value *tensor);

#endif
