/* Configuration files: the options of a command, one per line. */
#ifndef XCVM_TOOLS_SERVE_CONFIG_H
#define XCVM_TOOLS_SERVE_CONFIG_H

#include "cli/buffer.h"
#include "cli/options.h"

struct config {
    struct buffer text;
    void *options; /* of the command; NULL: no file was read */
    struct arguments operands;
    char **words; /* the command line that the file becomes */
    size_t word_count;
};

/* Reads lines "NAME = VALUE" for options, "NAME" for flags, and "model = OPERAND". "#" begins a comment. Options that
 * differ from the defaults in `options` win. Lists and operands are joined. Replaces the values in `options`, which
 * then borrow from `config`. Returns an exit code. */
int config_read(const char *path, const struct command *command, void *options, struct arguments *operands,
                struct config *config);
void config_release(const struct command *command, struct config *config);

#endif
