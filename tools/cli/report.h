/* Error messages and exit codes. */
#ifndef XCVM_TOOLS_CLI_REPORT_H
#define XCVM_TOOLS_CLI_REPORT_H

#include <xcvm/xcvm.h>

#include <stdbool.h>

#define EXIT_CODE_LIST(X)                                                                                              \
    X(OK, 0, "success")                                                                                                \
    X(DIFFERENT, 1, "results differ from the expected values")                                                         \
    X(USAGE, 2, "the command line is wrong")                                                                           \
    X(INVALID, 3, "the program or model is invalid, or a run fails")                                                   \
    X(UNSUPPORTED, 4, "the program or model needs something unsupported")                                              \
    X(LIMIT, 5, "a limit is reached: memory, time or fuel")                                                            \
    X(IO, 6, "a file cannot be read or written")                                                                       \
    X(INTERRUPTED, 130, "stopped by Ctrl-C; for other signals 128 plus the number")

enum exit_code {
#define EXIT_CODE(name, number, summary) EXIT_##name = number,
    EXIT_CODE_LIST(EXIT_CODE)
#undef EXIT_CODE
};

/* The exit code of a status. */
int exit_code_of(xcvm_status status);

/* Sets the subcommand that messages name; NULL: none. main calls it once. */
void report_set_command(const char *name);

/* "xcvm run: message\n" on stderr. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "xcvm run: FILE: instruction 12 (Conv, node "conv1"): message"; `file` may be NULL. Returns the exit code. */
int report_error(const char *file, const xcvm_error *error);
/* Writes the part of such a message after the file into `text`. */
void report_describe(const xcvm_error *error, char *text, size_t size);
/* Reports a wrong command line, and where to find help. Returns EXIT_USAGE. */
int report_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Replaces control characters by question marks. Names come from files, and a terminal would obey them. */
void make_printable(char *text);

/* Fills in `error` (may be NULL) and returns `status`. */
xcvm_status error_set(xcvm_error *error, xcvm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prepends "prefix: " to the message. */
void error_prefix(xcvm_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a text to the message. */
void error_append(xcvm_error *error, const char *text);

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        xcvm_status try_status_ = (expression);                                                                        \
        if (try_status_ != XCVM_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

#endif
