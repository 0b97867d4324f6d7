/* Writes inference responses. */
#include "server/oip/infer.h"

#include "server/json/elements.h"
#include "server/oip/datatype.h"

#include <string.h>

static size_t binary_size(const xcvm_value *tensor)
{
    size_t bytes = 0, length;
    if (xcvm_value_dtype(tensor) != XCVM_STRING)
        return xcvm_value_bytes(tensor);
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        (void)xcvm_value_string_at(tensor, i, &length);
        bytes += 4 + length;
    }
    return bytes;
}

static void write_binary(xcs_text *text, const xcvm_value *tensor)
{
    if (xcvm_value_dtype(tensor) != XCVM_STRING) {
        xcs_text_add(text, xcvm_value_data(tensor), xcvm_value_bytes(tensor));
        return;
    }
    for (size_t i = 0; i < xcvm_value_count(tensor); i++) {
        size_t length;
        const char *string = xcvm_value_string_at(tensor, i, &length);
        const uint32_t prefix = (uint32_t)length;
        xcs_text_add(text, &prefix, sizeof prefix);
        xcs_text_add(text, string, length);
    }
}

static xcvm_status write_output(const xcs_infer *infer, const xcs_infer_output *output, const xcvm_value *value,
                                xcs_text *text, xcvm_error *error)
{
    const char *name = xcvm_program_output_at(xcs_model_program(infer->model), output->index)->name;
    XCVM_CHECK(error, xcvm_value_kind(value) == XCVM_KIND_TENSOR, UNSUPPORTED,
               "output \"%.100s\" is not a tensor, so it cannot be sent", name);
    xcs_text_put(text, "{\"name\":");
    xcs_text_quote(text, name, strlen(name));
    xcs_text_format(text, ",\"datatype\":\"%s\",\"shape\":[", xcs_datatype_name(xcvm_value_dtype(value)));
    for (int i = 0; i < xcvm_value_rank(value); i++)
        xcs_text_format(text, "%s%lld", i > 0 ? "," : "", (long long)xcvm_value_dims(value)[i]);
    if (output->binary) {
        xcs_text_format(text, "],\"parameters\":{\"binary_data_size\":%zu}}", binary_size(value));
        return XCVM_OK;
    }
    xcs_text_put(text, "],\"data\":");
    XCVM_TRY(xcs_elements_write(text, value, error));
    xcs_text_put(text, "}");
    return XCVM_OK;
}

xcvm_status xcs_infer_write(const xcs_infer *infer, const xcvm_value *const *outputs, xcs_text *text,
                            size_t *json_length, xcvm_error *error)
{
    xcs_text_put(text, "{\"model_name\":");
    xcs_text_quote(text, xcs_model_name(infer->model), strlen(xcs_model_name(infer->model)));
    xcs_text_format(text, ",\"model_version\":\"%s\",", xcs_model_version(infer->model));
    if (infer->id != NULL) {
        xcs_text_put(text, "\"id\":");
        xcs_text_quote(text, infer->id, strlen(infer->id));
        xcs_text_put(text, ",");
    }
    xcs_text_put(text, "\"outputs\":[");
    for (size_t i = 0; i < infer->output_count; i++) {
        if (i > 0)
            xcs_text_put(text, ",");
        XCVM_TRY(write_output(infer, &infer->outputs[i], outputs[infer->outputs[i].index], text, error));
    }
    xcs_text_put(text, "]}");
    *json_length = text->count;
    for (size_t i = 0; i < infer->output_count; i++)
        if (infer->outputs[i].binary)
            write_binary(text, outputs[infer->outputs[i].index]);
    XCVM_CHECK(error, !text->failed, OUT_OF_MEMORY, "no memory for a response");
    return XCVM_OK;
}
