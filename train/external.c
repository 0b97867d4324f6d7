/* Weights in external files. */
#include "compiler/onnx_model/onnx_model.h"
#include "train/trainer.h"

/* Directory of the model's file, in memory of the arena. */
static const char *folder_of(xct_trainer *t)
{
    const char *slash = strrchr(t->path, '/');
    return slash == NULL ? "."
                         : xcvm_arena_string(&t->arena, t->path, slash == t->path ? 1 : (size_t)(slash - t->path));
}

/* External files are relative to the model's directory, which may differ from that of the output. */
xcvm_status xct_external_open(xct_trainer *t, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = t->allocator};
    const xcc_weight *weights;
    size_t count;
    bool any = false;
    if (t->path == NULL)
        return XCVM_OK;
    const xcvm_status status = xcc_weights_list(t->model, t->model_count, &arena, &weights, &count, error);
    for (size_t i = 0; status == XCVM_OK && i < count; i++)
        any |= weights[i].external;
    xcvm_arena_release(&arena);
    XCVM_TRY(status);
    if (!any)
        return XCVM_OK;
    const char *folder = folder_of(t);
    XCVM_CHECK(error, folder != NULL, OUT_OF_MEMORY, "no memory for a trainer");
    return xcc_external_weights_open(t->model, t->model_count, folder, t->allocator, &t->external, error);
}
