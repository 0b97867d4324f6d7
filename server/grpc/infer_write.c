/* Writes a ModelInferResponse. */
#include "server/grpc/infer_write.h"

#include "server/grpc/contents.h"
#include "server/grpc/protobuf.h"
#include "server/oip/datatype.h"

#include <string.h>

/* The fields of ModelInferResponse and of its outputs. */
enum { MODEL_NAME = 1, MODEL_VERSION = 2, ID = 3, OUTPUTS = 5, RAW_CONTENTS = 6 };
enum { NAME = 1, DATATYPE = 2, SHAPE = 3, CONTENTS = 5 };

static void write_output(const xcs_infer *infer, size_t index, const xcvm_value *value, bool typed, xcs_text *text)
{
    const size_t begin = xcs_field_begin(text, OUTPUTS);
    xcs_put_string(text, NAME, xcvm_program_output_at(xcs_model_program(infer->model), index)->name);
    xcs_put_string(text, DATATYPE, xcs_datatype_name(xcvm_value_dtype(value)));
    if (xcvm_value_rank(value) > 0) {
        const size_t shape = xcs_field_begin(text, SHAPE);
        for (int i = 0; i < xcvm_value_rank(value); i++)
            xcs_put_varint(text, (uint64_t)xcvm_value_dims(value)[i]);
        xcs_field_end(text, shape);
    }
    if (typed) {
        const size_t contents = xcs_field_begin(text, CONTENTS);
        xcs_contents_write(text, value);
        xcs_field_end(text, contents);
    }
    xcs_field_end(text, begin);
}

static void write_raw(const xcvm_value *value, xcs_text *text)
{
    if (xcvm_value_dtype(value) != XCVM_STRING) {
        xcs_put_bytes(text, RAW_CONTENTS, xcvm_value_data(value), xcvm_value_bytes(value));
        return;
    }
    const size_t begin = xcs_field_begin(text, RAW_CONTENTS);
    for (size_t i = 0; i < xcvm_value_count(value); i++) {
        size_t length;
        const char *string = xcvm_value_string_at(value, i, &length);
        const uint32_t prefix = (uint32_t)length;
        xcs_text_add(text, &prefix, sizeof prefix);
        xcs_text_add(text, string, length);
    }
    xcs_field_end(text, begin);
}

xcvm_status xcs_infer_response_write(const xcs_infer *infer, const xcvm_value *const *outputs, bool typed,
                                     xcs_text *text, xcvm_error *error)
{
    size_t bytes = 0;
    for (size_t i = 0; i < infer->output_count; i++) {
        const size_t index = infer->outputs[i].index;
        XCVM_CHECK(error, xcvm_value_kind(outputs[index]) == XCVM_KIND_TENSOR, UNSUPPORTED,
                   "output \"%.100s\" is not a tensor, so it cannot be sent",
                   xcvm_program_output_at(xcs_model_program(infer->model), index)->name);
        typed = typed && xcs_contents_support(xcvm_value_dtype(outputs[index]));
        XCVM_CHECK(error, xcvm_size_add(bytes, xcvm_value_bytes(outputs[index]), &bytes), OUT_OF_MEMORY,
                   "no memory for a response");
    }
    /* Without this, a long response is copied each time the text grows. */
    if (bytes > 0)
        (void)xcs_text_reserve(text, bytes + 512);
    xcs_put_string(text, MODEL_NAME, xcs_model_name(infer->model));
    xcs_put_string(text, MODEL_VERSION, xcs_model_version(infer->model));
    if (infer->id != NULL)
        xcs_put_string(text, ID, infer->id);
    for (size_t i = 0; i < infer->output_count; i++)
        write_output(infer, infer->outputs[i].index, outputs[infer->outputs[i].index], typed, text);
    for (size_t i = 0; i < infer->output_count && !typed; i++)
        write_raw(outputs[infer->outputs[i].index], text);
    XCVM_CHECK(error, !text->failed, OUT_OF_MEMORY, "no memory for a response");
    return XCVM_OK;
}
