/* The result of a training. */
#include "commands/train_output.h"
#include "cli/memory.h"
#include "cli/report.h"
#include "cli/suffix.h"
#include "io/file.h"
#include "io/output.h"
#include "run/rewrite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool count_bytes(void *user, const void *bytes, size_t count)
{
    (void)bytes;
    *(uint64_t *)user += count;
    return true;
}

static bool is_model(const char *path) { return suffix_is(path, ".onnx"); }

/* A model that exceeds the size of a single file has its weights in a second file. */
static xcvm_status try_two_files(struct train_output *o, const xct_trainer *trainer, xcvm_error *error)
{
    uint64_t model = 0, data = 0;
    if (strcmp(o->path, "-") == 0 || !is_model(o->path)) {
        error_append(error, "; write it with --output NAME.onnx, which puts the weights into a file beside it, and "
                            "compile that");
        return XCVM_UNSUPPORTED;
    }
    o->data = memory_format("%s.data", o->path);
    if (access(o->data, F_OK) == 0)
        return error_set(error, XCVM_INVALID_ARGUMENT,
                         "%s: the model has 2 GB and more, so that its weights would go to %s, which there is already. "
                         "Remove it, or choose another name",
                         o->path, o->data);
    char *location = file_base_name(o->data);
    xcvm_status status = xct_trainer_export_external(trainer, location, (xcvm_sink){count_bytes, &model},
                                                     (xcvm_sink){count_bytes, &data}, error);
    free(location);
    TRY(status);
    TRY(output_check(o->data, error));
    TRY(output_check_room(o->path, model, error));
    return output_check_room(o->data, model + data, error);
}

static xcvm_status try_program(const struct train_output *o, const xct_trainer *trainer, xcvm_error *error)
{
    struct buffer model = {0};
    uint64_t bytes = 0;
    xcvm_status status = xct_trainer_export(trainer, (xcvm_sink){buffer_sink, &model}, error);
    if (status == XCVM_OK) {
        status = xcc_compile(model.data, model.length, &o->compile, (xcvm_sink){count_bytes, &bytes}, NULL, error);
        if (status != XCVM_OK)
            error_prefix(error, "%s: the model learns, but makes no program for inference", o->path);
    }
    buffer_release(&model);
    TRY(status);
    return output_check_room(o->path, bytes, error);
}

xcvm_status train_output_begin(struct train_output *o, const xct_trainer *trainer, xcvm_error *error)
{
    uint64_t bytes = 0;
    if (o->path == NULL)
        return XCVM_OK;
    TRY(output_check(o->path, error));
    xcvm_status status = xct_trainer_export(trainer, (xcvm_sink){count_bytes, &bytes}, error);
    if (status == XCVM_UNSUPPORTED && strstr(error->message, "2 GB") != NULL)
        return try_two_files(o, trainer, error);
    TRY(status);
    return is_model(o->path) ? output_check_room(o->path, bytes, error) : try_program(o, trainer, error);
}

static xcvm_status write_two_files(const struct train_output *o, const xct_trainer *trainer, xcvm_error *error)
{
    struct output outputs[2];
    TRY(output_open(&outputs[0], o->path, error));
    xcvm_status status = output_open(&outputs[1], o->data, error);
    if (status != XCVM_OK) {
        output_discard(&outputs[0], NULL);
        return status;
    }
    char *location = file_base_name(o->data);
    status = xct_trainer_export_external(trainer, location, (xcvm_sink){output_sink, &outputs[0]},
                                         (xcvm_sink){output_sink, &outputs[1]}, error);
    free(location);
    if (status == XCVM_OK)
        return output_finish_all(outputs, 2, error);
    for (size_t i = 0; i < 2; i++)
        output_discard(&outputs[i], error);
    return status;
}

xcvm_status train_output_write(const struct train_output *o, const xct_trainer *trainer, xcvm_error *error)
{
    struct buffer model = {0};
    if (o->path == NULL)
        return XCVM_OK;
    if (o->data != NULL)
        return write_two_files(o, trainer, error);
    xcvm_status status = xct_trainer_export(trainer, (xcvm_sink){buffer_sink, &model}, error);
    if (status == XCVM_OK)
        status = rewrite_model(&model, o->path, &o->compile, error);
    buffer_release(&model);
    return status;
}

void train_output_release(struct train_output *o)
{
    free(o->data);
    o->data = NULL;
}
