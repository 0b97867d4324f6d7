/* The lexer of text assembly: a position in the text, and functions that read one token each.
 *
 * All functions skip blanks, comments (# to the end of the line) and a backslash at the end of a line. They also skip
 * line ends inside brackets, while `depth` > 0. Failures are INVALID_PROGRAM with a message that starts with the line.
 */
#ifndef XCVM_PROTO_READER_H
#define XCVM_PROTO_READER_H

#include "base/allocator.h"

typedef struct xcvm_reader {
    const char *at, *end;
    xcvm_arena *arena; /* memory of strings */
    xcvm_error *error;
    int line;
    int depth;
    struct xcvm_literal_files *files; /* NULL: literals must not refer to files */
    size_t random_count;              /* elements of random literals so far */
} xcvm_reader;

/* Starts at line 1 of `length` bytes at `text`. Text, arena and error must outlive the reader. */
void xcvm_reader_start(xcvm_reader *r, const char *text, size_t length, xcvm_arena *arena, xcvm_error *error);
/* Sets the error to "line 12: ...". Returns INVALID_PROGRAM. */
xcvm_status xcvm_reader_fail(xcvm_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the status of a failed allocation. */
xcvm_status xcvm_reader_no_memory(xcvm_reader *r);
/* Writes the next token for messages: "`group`" or "the end of the line". Returns `text`. */
const char *xcvm_reader_here(xcvm_reader *r, char text[48]);

/* Return true if the line, or the text, ends here. */
bool xcvm_reader_at_line_end(xcvm_reader *r);
bool xcvm_reader_at_text_end(xcvm_reader *r);
/* Advances to the next line. Fails if the current one has unread tokens. */
xcvm_status xcvm_reader_next_line(xcvm_reader *r);
/* Returns the next character; '\0' at the end of the text. */
char xcvm_reader_peek(xcvm_reader *r);
/* Consumes the character if it is next. */
bool xcvm_reader_accept(xcvm_reader *r, char c);
xcvm_status xcvm_reader_expect(xcvm_reader *r, char c);

/* Reads a word: letters, digits and _, not starting with a digit. Returns its length, 0 if there is none. */
size_t xcvm_reader_word(xcvm_reader *r, const char **word);
/* The same without consuming it. */
size_t xcvm_reader_peek_word(xcvm_reader *r, const char **word);
/* Reads a number or word (letters, digits, + - . _) into `token`. Fails if there is none or it does not fit. `what`
 * names the expected token in messages. */
enum { XCVM_TOKEN_SIZE = 512 };
xcvm_status xcvm_reader_token(xcvm_reader *r, const char *what, char token[XCVM_TOKEN_SIZE]);
xcvm_status xcvm_reader_int(xcvm_reader *r, int64_t min, int64_t max, int64_t *value);
/* Reads decimal digits. A sign after them is not consumed. */
xcvm_status xcvm_reader_uint(xcvm_reader *r, uint64_t max, uint64_t *value);
/* Reads a quoted string. A backslash at the end of a line joins it with the next line. */
xcvm_status xcvm_reader_string(xcvm_reader *r, const char **text, size_t *length);
/* Reads a plain name (a word that may also contain dots) or a quoted string without NUL. */
xcvm_status xcvm_reader_name(xcvm_reader *r, const char **name);
bool xcvm_name_is_plain(const char *name, size_t length);

/* Parses decimal digits, or hexadecimal ones after 0x. Returns false if the token contains anything else or does not
 * fit. */
bool xcvm_uint_parse(const char *token, uint64_t *value);
bool xcvm_int_parse(const char *token, int64_t *value);

#endif
