/* Lines that the compiler writes about states. */
#include "run/state_lines.h"
#include "run/model_options.h"
#include "cli/report.h"

#include <string.h>

void state_lines_add(void *user, xcc_diagnostic_kind kind, const char *text)
{
    struct state_lines *lines = user;
    if (kind == XCC_DIAGNOSTIC_STATE)
        buffer_format(&lines->states, "%s\n", text);
    else if (kind == XCC_DIAGNOSTIC_STATE_PAIR)
        buffer_format(&lines->notes, "%s\n", text);
    else
        model_note((void *)(uintptr_t)lines->path, kind, text);
}

void state_lines_print_notes(struct state_lines *lines)
{
    if (lines->notes.length == 0)
        return;
    for (char *line = lines->notes.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        report_line("note: %s: %s", lines->path, line);
    }
    lines->notes.length = 0;
}

void state_lines_release(struct state_lines *lines)
{
    buffer_release(&lines->states);
    buffer_release(&lines->notes);
}
