/* Columns on the command line. */
#include "run/columns.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

bool columns_add(struct columns *c, const char *option, const char *text, bool alone)
{
    const char *equals = strchr(text, '=');
    if (*text == '\0' || equals == text || (equals != NULL ? equals[1] == '\0' : !alone)) {
        report_usage("--%s=%s: wanted NAME=ARRAY%s", option, text, alone ? " or NAME" : "");
        return false;
    }
    c->items = memory_append(c->items, c->count, sizeof *c->items);
    c->items[c->count++] = (xct_column){
        .input = equals != NULL ? memory_text_n(text, (size_t)(equals - text)) : memory_text(text),
        .array = equals != NULL ? memory_text(equals + 1) : NULL,
    };
    return true;
}

bool columns_add_inputs(struct columns *c, const struct text_list *inputs)
{
    for (size_t i = 0; i < inputs->count; i++)
        if (!columns_add(c, "input", inputs->items[i], false))
            return false;
    return true;
}

void columns_release(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free((char *)(uintptr_t)c->items[i].input);
        free((char *)(uintptr_t)c->items[i].array);
    }
    free(c->items);
    *c = (struct columns){.items = NULL};
}
