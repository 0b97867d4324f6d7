/* Columns on the command line. */
#include "training/columns.h"
#include "cli/memory.h"
#include "cli/options.h"
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
    double scale = 0;
    const char *end = equals != NULL ? parse_factor(equals + 1, &scale) : NULL;
    if (equals != NULL && end == equals + 1) {
        report_usage("--%s=%s: there is no array before the factor", option, text);
        return false;
    }
    c->items = memory_append(c->items, c->count, sizeof *c->items);
    c->items[c->count++] = (xct_column){
        .input = equals != NULL ? memory_text_n(text, (size_t)(equals - text)) : memory_text(text),
        .array = equals != NULL ? memory_text_n(equals + 1, (size_t)(end - equals - 1)) : NULL,
        .scale = scale,
    };
    return true;
}

void columns_print_scales(const struct columns *c, const xct_dataset *data, const char *input)
{
    const double scale = xct_dataset_scale(data, input);
    const char *array = input;
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->items[i].input, input) == 0) {
            if (c->items[i].scale != 0)
                return;
            array = c->items[i].array != NULL ? c->items[i].array : array;
        }
    if (scale == 0)
        return;
    report_line(
        "note: array \"%s\" is of u8; input \"%s\" takes its numbers as they are, while it takes images in folders "
        "from 0 to 1. --input '%s=%s*1/255' brings 0 to 255 to 0 to 1, --input '%s=%s*1' says that this is meant",
        array, input, input, array, input, array);
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

void data_skipped_print(const xct_dataset *data)
{
    const char *names;
    const size_t count = xct_dataset_skipped_count(data, &names);
    if (count > 0)
        report_line("note: %zu %s: %s%s", count,
                    count == 1 ? "file is skipped, as it is no image or lies in a deeper folder"
                               : "files are skipped, as they are no images or lie in deeper folders",
                    names, count > 3 ? " ..." : "");
}
