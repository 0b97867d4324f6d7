/* Names of datatypes. BF16 is an extension of Triton; types that no server has are named as the library does. */
#include "server/oip/datatype.h"

#include <string.h>

static const struct {
    const char *name;
    xcvm_dtype dtype;
} datatypes[] = {
    {"BOOL", XCVM_BOOL}, {"UINT8", XCVM_U8},  {"UINT16", XCVM_U16}, {"UINT32", XCVM_U32},   {"UINT64", XCVM_U64},
    {"INT8", XCVM_I8},   {"INT16", XCVM_I16}, {"INT32", XCVM_I32},  {"INT64", XCVM_I64},    {"FP16", XCVM_F16},
    {"FP32", XCVM_F32},  {"FP64", XCVM_F64},  {"BF16", XCVM_BF16},  {"BYTES", XCVM_STRING},
};

const char *xcs_datatype_name(xcvm_dtype dtype)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++)
        if (datatypes[i].dtype == dtype)
            return datatypes[i].name;
    return xcvm_dtype_name(dtype);
}

xcvm_dtype xcs_datatype_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++)
        if (strcmp(datatypes[i].name, name) == 0)
            return datatypes[i].dtype;
    return xcvm_dtype_from_name(name);
}
