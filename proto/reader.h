/* Reading the text assembly: a place in the text, and functions that read one thing from there on.
 *
 * Blanks, comments (from # to the end of the line) and a backslash at the end of a line are skipped before everything
 * that is read; line ends too while `depth`, the number of brackets that the parser is inside of, is above 0. Failures
 * have status INVALID_PROGRAM and a message that starts with the line. */
#ifndef XCVM_PROTO_READER_H
#define XCVM_PROTO_READER_H

#include "base/allocator.h"

typedef struct xcvm_reader {
    const char *at, *end;
    xcvm_arena *arena; /* for strings */
    xcvm_error *error;
    int line;
    int depth;
} xcvm_reader;

/* Begins at the first line of `length` bytes at `text`, which must outlive the reader, as must arena and error. */
void xcvm_reader_start(xcvm_reader *r, const char *text, size_t length, xcvm_arena *arena, xcvm_error *error);
/* Fills the error with "line 12: ..."; returns INVALID_PROGRAM. */
xcvm_status xcvm_reader_fail(xcvm_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The status for an allocation that failed. */
xcvm_status xcvm_reader_no_memory(xcvm_reader *r);
/* What stands here, for messages: "`group`" or "the end of the line". Returns text. */
const char *xcvm_reader_here(xcvm_reader *r, char text[48]);

/* Whether the line, or the text, ends here. */
bool xcvm_reader_at_line_end(xcvm_reader *r);
bool xcvm_reader_at_text_end(xcvm_reader *r);
/* Goes on to the next line; fails if there is anything left on this one. */
xcvm_status xcvm_reader_next_line(xcvm_reader *r);
/* The next character, '\0' at the end of the text. */
char xcvm_reader_peek(xcvm_reader *r);
/* Reads the character if it is the next one. */
bool xcvm_reader_accept(xcvm_reader *r, char c);
xcvm_status xcvm_reader_expect(xcvm_reader *r, char c);

/* A word: letters, digits and _, not starting with a digit. Length 0 if there is none here. */
size_t xcvm_reader_word(xcvm_reader *r, const char **word);
/* The same without reading it. */
size_t xcvm_reader_peek_word(xcvm_reader *r, const char **word);
/* A number or word as far as it goes (letters, digits, + - . _), into `token`; fails if there is none or it is longer
 * than fits. `what` says what is expected. */
enum { XCVM_TOKEN_SIZE = 512 };
xcvm_status xcvm_reader_token(xcvm_reader *r, const char *what, char token[XCVM_TOKEN_SIZE]);
xcvm_status xcvm_reader_int(xcvm_reader *r, int64_t min, int64_t max, int64_t *value);
/* Digits alone: a sign behind them is left. */
xcvm_status xcvm_reader_uint(xcvm_reader *r, uint64_t max, uint64_t *value);
/* A string in quotes. */
xcvm_status xcvm_reader_string(xcvm_reader *r, const char **text, size_t *length);
/* A plain name (a word that may also contain dots) or a string without NUL. */
xcvm_status xcvm_reader_name(xcvm_reader *r, const char **name);
bool xcvm_name_is_plain(const char *name, size_t length);

/* Digits, decimal or after 0x; false unless that is all there is and it fits. */
bool xcvm_uint_parse(const char *token, uint64_t *value);
bool xcvm_int_parse(const char *token, int64_t *value);

#endif
