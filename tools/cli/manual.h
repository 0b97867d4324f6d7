/* Help, man pages and manual pages in Markdown, all from the tables of the subcommands. */
#ifndef XCVM_TOOLS_CLI_MANUAL_H
#define XCVM_TOOLS_CLI_MANUAL_H

#include "cli/buffer.h"
#include "cli/options.h"

/* What `xcvm` without a subcommand, or `xcvm help`, says. `commands` ends with NULL everywhere here. */
void manual_overview(struct buffer *text, const struct command *const *commands);
/* What `xcvm help NAME` says. */
void manual_help(struct buffer *text, const struct command *command);
/* What `xcvm help spec` says: the grammar of tensors on the command line. */
void manual_spec(struct buffer *text);
/* A page of docs/manual. */
void manual_markdown(struct buffer *text, const struct command *command);
void manual_spec_markdown(struct buffer *text);
/* Appends text in which nothing means anything to Markdown. */
void markdown_text(struct buffer *out, const char *text);
/* xcvm-NAME.1 */
void manual_troff_page(struct buffer *text, const struct command *command);
/* xcvm.1 */
void manual_troff(struct buffer *text, const struct command *const *commands);

#endif
