/* Rewriting files: a function of the library makes a file from another. */
#ifndef XCVM_TOOLS_RUN_REWRITE_H
#define XCVM_TOOLS_RUN_REWRITE_H

#include "cli/buffer.h"

#include <xcvm/compiler.h>
#include <xcvm/train.h>

/* Converts the bytes and writes the result to the sink. */
typedef xcvm_status (*rewriting)(const void *context, const void *bytes, size_t count, xcvm_sink sink,
                                 xcvm_error *error);

/* Converts the bytes of the file `from` by `function` and writes the file `to`, completely or not at all. Reports
 * failures and returns an exit code. */
int rewrite_bytes(const char *from, const struct buffer *bytes, const char *to, rewriting function,
                  const void *context);
/* Likewise, and reads the file `from`. */
int rewrite_file(const char *from, const char *to, rewriting function, const void *context);

/* Writes a model to the file `to`, completely or not at all. If the name does not end in .onnx, the model is
 * compiled with `options`. */
xcvm_status rewrite_model(const struct buffer *model, const char *to, const xcc_options *options, xcvm_error *error);

/* Refuses an output that is a file of the data. Both may be NULL. */
xcvm_status rewrite_no_data(const xct_dataset *data, const char *to, xcvm_error *error);

/* Refuses an output name of another format than rewrite_model writes. Returns an exit code. `to` may be NULL. */
int rewrite_check_name(const char *to);

#endif
