/* Help, man pages and Markdown pages, generated from the tables of the subcommands. */
#ifndef XCVM_TOOLS_CLI_MANUAL_H
#define XCVM_TOOLS_CLI_MANUAL_H

#include "cli/buffer.h"
#include "cli/options.h"

/* The output of `xcvm help`. `commands` ends with NULL, here and below. */
void manual_overview(struct buffer *text, const struct command *const *commands);
/* The output of `xcvm help NAME`. */
void manual_help(struct buffer *text, const struct command *command);
/* The output of `xcvm help spec`: the grammar of tensors. */
void manual_spec(struct buffer *text);
/* A page of docs/manual. */
void manual_markdown(struct buffer *text, const struct command *command);
void manual_spec_markdown(struct buffer *text);
/* Appends text, escaped for Markdown. */
void markdown_text(struct buffer *out, const char *text);
/* xcvm-NAME.1 */
void manual_troff_page(struct buffer *text, const struct command *command);
/* xcvm.1 */
void manual_troff(struct buffer *text, const struct command *const *commands);

#endif
