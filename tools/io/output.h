/* Output files, which appear whole or not at all, and standard output, with failures noticed. */
#ifndef XCVM_TOOLS_IO_OUTPUT_H
#define XCVM_TOOLS_IO_OUTPUT_H

#include <xcvm/xcvm.h>

/* What is written goes to a new file beside the target, which takes the target's place in output_finish. A target that
 * exists and is no regular file (a pipe, /dev/null) is written directly, and so is "-", standard output. A signal or
 * exit in between removes the new file. */
struct output {
    char *name;      /* for messages: the path as it was given */
    char *target;    /* behind links; NULL for standard output */
    char *temporary; /* NULL when written directly */
    int fd;
    int failure; /* errno of the first write that failed, 0 so far */
    char *pending;
    size_t pending_count;
};

/* What can be known of a target before there is anything to write: that it is no folder, and that a file can be made
 * where it is to be. NULL, a target that was not named, is fine. */
xcvm_status output_check(const char *path, xcvm_error *error);
/* That there is room for so many bytes. */
xcvm_status output_check_room(const char *path, uint64_t bytes, xcvm_error *error);
/* If the target (NULL: none) is "-", keeps standard output for it alone: whatever the command or the program prints
 * goes to standard error from now on. output_open does so by itself; commands that print before they write call it
 * first. */
void output_reserve(const char *path);
xcvm_status output_open(struct output *output, const char *path, xcvm_error *error);
/* An xcvm_sink whose user is an output. */
bool output_sink(void *output, const void *bytes, size_t count);
/* Puts the file in its place, or reports why it could not be written in full. */
xcvm_status output_finish(struct output *output, xcvm_error *error);
/* The same for files that belong together: all of them take their places, or, after a failure, none has. */
xcvm_status output_finish_all(struct output *outputs, size_t count, xcvm_error *error);
/* Forgets what was written; for after a failure. If `error` was caused by a failed write, it says which. */
void output_discard(struct output *output, xcvm_error *error);

/* All of it at once. */
xcvm_status output_write(const char *path, const void *bytes, size_t count, xcvm_error *error);

/* Called before any file is opened: a standard stream that the caller has closed is taken up by what can be neither
 * read nor written as that stream is, so that no file gets its number, and with it what is printed. Whether that went
 * well.
 */
bool output_guard_streams(void);

/* Prints a text to standard output; why that failed is told by output_check_stdout. */
void output_print(const char *text);
/* Whether everything printed to standard output has got there; reports it if not. Returns an exit code, `code` unless
 * that is EXIT_OK and printing failed. */
int output_check_stdout(int code);

/* Whether the name says another format than what is written, which `what` says; then that is an error of usage, else
 * EXIT_OK. `path` may be NULL. */
int output_check_name(const char *path, const char *what);

#endif
