/* Error reports: what the command says when something is wrong, and with which exit code it ends. */
#ifndef XCVM_TOOLS_CLI_REPORT_H
#define XCVM_TOOLS_CLI_REPORT_H

#include <xcvm/xcvm.h>

#include <stdbool.h>

#define EXIT_CODE_LIST(X)                                                                                              \
    X(OK, 0, "success")                                                                                                \
    X(DIFFERENT, 1, "results differ from what was expected")                                                           \
    X(USAGE, 2, "the command line is wrong")                                                                           \
    X(INVALID, 3, "the program or model is broken, or fails while it runs")                                            \
    X(UNSUPPORTED, 4, "valid, but this build cannot do it")                                                            \
    X(LIMIT, 5, "a limit is used up: memory, time or fuel")                                                            \
    X(IO, 6, "a file cannot be read or written")                                                                       \
    X(INTERRUPTED, 130, "ended by Ctrl-C; other signals likewise, with 128 and their number")

enum exit_code {
#define EXIT_CODE(name, number, summary) EXIT_##name = number,
    EXIT_CODE_LIST(EXIT_CODE)
#undef EXIT_CODE
};

/* The exit code that stands for a status. */
int exit_code_of(xcvm_status status);

/* The subcommand that messages are from; NULL for the command itself. Set once by main. */
void report_set_command(const char *name);

/* "xcvm run: message\n" on stderr. */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "xcvm run: FILE: instruction 12 (Conv, node "conv1"): message"; `file` may be NULL. Returns the exit code. */
int report_error(const char *file, const xcvm_error *error);
/* The part of such a message behind the file, into `text`. */
void report_describe(const xcvm_error *error, char *text, size_t size);
/* A wrong command line: the message and where to find help. Returns EXIT_USAGE. */
int report_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Names come from files: what a terminal would take for a command becomes a question mark. */
void make_printable(char *text);

/* Fills in `error` (may be NULL) as the library does; returns `status`. */
xcvm_status error_set(xcvm_error *error, xcvm_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts "prefix: " in front of the message. */
void error_prefix(xcvm_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts a text behind the message. */
void error_append(xcvm_error *error, const char *text);

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        xcvm_status try_status_ = (expression);                                                                        \
        if (try_status_ != XCVM_OK)                                                                                    \
            return try_status_;                                                                                        \
    } while (0)

#endif
