/* Rewriting files: one is made out of another by a function of the library. */
#ifndef XCVM_TOOLS_RUN_REWRITE_H
#define XCVM_TOOLS_RUN_REWRITE_H

#include "cli/buffer.h"

#include <xcvm/compiler.h>
#include <xcvm/train.h>

/* Sends what it makes of the bytes to the sink. */
typedef xcvm_status (*rewriting)(const void *context, const void *bytes, size_t count, xcvm_sink sink,
                                 xcvm_error *error);

/* Writes what `function` makes of the bytes, which come from the file `from`, to the file `to`, whole or not at all.
 * Reports failures; returns an exit code. */
int rewrite_bytes(const char *from, const struct buffer *bytes, const char *to, rewriting function,
                  const void *context);
/* The same with the bytes of `from`. */
int rewrite_file(const char *from, const char *to, rewriting function, const void *context);

/* Writes a model to the file `to`, whole or not at all: for a name that ends in .onnx as it is, else the program that
 * `options` make of it. */
xcvm_status rewrite_model(const struct buffer *model, const char *to, const xcc_options *options, xcvm_error *error);

/* Refuses to write to a file of the data; either may be NULL. */
xcvm_status rewrite_no_data(const xct_dataset *data, const char *to, xcvm_error *error);

/* Refuses the name of an output that rewrite_model would write in another format than the name says, as an error of
 * usage; else EXIT_OK. `to` may be NULL. */
int rewrite_check_name(const char *to);

#endif
