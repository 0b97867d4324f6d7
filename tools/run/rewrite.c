/* Rewriting one file into another through a function of the library. */
#include "run/rewrite.h"
#include "io/file.h"
#include "cli/suffix.h"
#include "io/output.h"
#include "cli/report.h"

#include <string.h>

int rewrite_bytes(const char *from, const struct buffer *bytes, const char *to, rewriting function, const void *context)
{
    struct output output;
    xcvm_error error = {.pc = -1};
    if (output_open(&output, to, &error) != XCVM_OK)
        return report_error(NULL, &error);
    xcvm_status status =
        function(context, buffer_string(bytes), bytes->length, (xcvm_sink){output_sink, &output}, &error);
    if (status == XCVM_OK)
        return output_finish(&output, &error) == XCVM_OK ? EXIT_OK : report_error(NULL, &error);
    bool unwritten = output.failure != 0;
    output_discard(&output, &error);
    return report_error(unwritten ? NULL : from, &error);
}

int rewrite_file(const char *from, const char *to, rewriting function, const void *context)
{
    struct buffer bytes = {0};
    xcvm_error error = {.pc = -1};
    if (file_read(from, NULL, &bytes, &error) != XCVM_OK)
        return report_error(NULL, &error);
    int code = rewrite_bytes(from, &bytes, to, function, context);
    buffer_release(&bytes);
    return code;
}

xcvm_status rewrite_no_data(const xct_dataset *data, const char *to, xcvm_error *error)
{
    if (!xct_dataset_has_file(data, to))
        return XCVM_OK;
    return error_set(error, XCVM_INVALID_ARGUMENT, "%s is a file of the data. The output must be another file", to);
}

xcvm_status rewrite_model(const struct buffer *model, const char *to, const xcc_options *options, xcvm_error *error)
{
    if (suffix_is(to, ".onnx"))
        return output_write(to, model->data, model->length, error);
    struct output output;
    TRY(output_open(&output, to, error));
    xcvm_status status =
        xcc_compile(model->data, model->length, options, (xcvm_sink){output_sink, &output}, NULL, error);
    if (status == XCVM_OK)
        return output_finish(&output, error);
    output_discard(&output, error);
    return status;
}

int rewrite_check_name(const char *to)
{
    if (to != NULL && suffix_is(to, ".c")) {
        const int stem = (int)(strlen(to) - 2);
        return report_usage("%s: C is not written here. Write %.*s.onnx, then run xcvm compile --emit c", to, stem, to);
    }
    return output_check_name(to, ".onnx .bin .xcvm",
                             "an ONNX model if the name ends in .onnx, otherwise a program, for example model.bin");
}
