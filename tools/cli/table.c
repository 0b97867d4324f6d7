/* Aligned tables of text. */
#include "cli/table.h"
#include "cli/buffer.h"
#include "cli/memory.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

void table_cell(struct table *table, const char *format, ...)
{
    struct buffer text = {0};
    va_list arguments;
    va_start(arguments, format);
    bool right = *format == '>';
    buffer_format_list(&text, format + right, arguments);
    va_end(arguments);
    struct table_row *row = &table->open;
    row->cells = memory_append(row->cells, row->count, sizeof *row->cells);
    char *cell = memory_text(buffer_string(&text));
    make_printable(cell);
    row->cells[row->count++] = (struct table_text){cell, right};
    buffer_release(&text);
}

void table_end_row(struct table *table)
{
    table->rows = memory_append(table->rows, table->count, sizeof *table->rows);
    table->rows[table->count++] = table->open;
    table->open = (struct table_row){0};
}

/* Characters, not bytes, of UTF-8. */
static size_t width(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

void table_print(struct table *table, FILE *stream)
{
    size_t columns = 0;
    for (size_t i = 0; i < table->count; i++)
        columns = table->rows[i].count > columns ? table->rows[i].count : columns;
    size_t *widths = memory_take(columns, sizeof *widths);
    for (size_t i = 0; i < table->count; i++)
        for (size_t k = 0; k < table->rows[i].count; k++) {
            size_t w = width(table->rows[i].cells[k].text);
            widths[k] = w > widths[k] ? w : widths[k];
        }
    struct buffer line = {0};
    for (size_t i = 0; i < table->count; i++) {
        struct table_row *row = &table->rows[i];
        line.length = 0;
        for (size_t k = 0; k < row->count; k++) {
            struct table_text *cell = &row->cells[k];
            int space = (int)(widths[k] - width(cell->text));
            buffer_text(&line, k != 0 ? "  " : "");
            if (cell->right)
                buffer_format(&line, "%*s%s", space, "", cell->text);
            else
                buffer_format(&line, "%s%*s", cell->text, space, "");
            free(cell->text);
        }
        while (line.length != 0 && line.data[line.length - 1] == ' ')
            line.length--;
        fwrite(line.data, 1, line.length, stream);
        fputc('\n', stream);
        free(row->cells);
    }
    buffer_release(&line);
    free(widths);
    free(table->rows);
    *table = (struct table){0};
}
