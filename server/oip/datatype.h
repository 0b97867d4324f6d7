/* The datatypes of the Open Inference Protocol. */
#ifndef XCVM_SERVER_OIP_DATATYPE_H
#define XCVM_SERVER_OIP_DATATYPE_H

#include "xcvm/xcvm.h"

/* Returns the name ("FP32"), or the library's name of a type that the protocol lacks. */
const char *xcs_datatype_name(xcvm_dtype dtype);
/* Returns XCVM_NO_DTYPE for an unknown name. */
xcvm_dtype xcs_datatype_from_name(const char *name);

#endif
