/* Messages of a reducer, for the kernels that make them. */
#ifndef XCVM_OPS_UTIL_REDUCER_MESSAGE_H
#define XCVM_OPS_UTIL_REDUCER_MESSAGE_H

#include "ops/util/reducer.h"

/* The failure of a sum, with a message where the host gave none. */
xcvm_status xcvm_reducer_explain(xcvm_error *error, xcvm_status status);
/* Releases a message. */
void xcvm_reducer_drop(xcvm_heap *heap, xcvm_message *message);

#endif
