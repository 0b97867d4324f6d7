/* Tables: text in aligned columns. */
#ifndef XCVM_TOOLS_CLI_TABLE_H
#define XCVM_TOOLS_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A zero-initialized table is empty. A cell whose format starts with > is right-aligned. */
struct table {
    struct table_row {
        struct table_text {
            char *text;
            bool right;
        } * cells;
        size_t count;
    } * rows;
    size_t count;
    struct table_row open;
};

void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_end_row(struct table *table);
/* Prints the table, without spaces at the ends of lines, and empties it. */
void table_print(struct table *table, FILE *stream);

#endif
