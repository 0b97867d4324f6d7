/* Writes pages of HTML that need no other file. */
#ifndef XCVM_TOOLS_PROFILE_PAGE_H
#define XCVM_TOOLS_PROFILE_PAGE_H

#include "cli/buffer.h"

#include <xcvm/xcvm.h>

/* A page on its way to a sink. */
struct page_writer {
    struct buffer text;
    xcvm_sink sink;
    bool good; /* the sink has not failed; true at first */
};

void page_flush(struct page_writer *w);
void page_flush_when_large(struct page_writer *w);

/* Text of an element or of an attribute in quotes. */
void page_text(struct buffer *text, const char *string);
/* A string in a script element, where "<" could end it. */
void page_string(struct buffer *text, const char *string);
/* A cell of a table, which is empty if the number is unknown. */
void page_number(struct buffer *text, const char *format, double number, bool known);
/* A number of the summary. */
void page_card(struct buffer *text, const char *title, const char *format, double number, const char *unit);

/* Begins a page with the file name of a program and the kind of the report. The caller adds a sentence without its
 * period. */
void page_begin(struct page_writer *w, const char *program, const char *kind);
/* Ends the sentence and begins the tables. The note is shown if scripts are blocked. */
void page_begin_main(struct page_writer *w, const char *without_scripts);
/* Ends the page with a script, and releases its text. Returns false if the sink failed. */
bool page_end(struct page_writer *w, const char *script);

#endif
