/* Output files that are written completely or not at all, and standard output. */
#ifndef XCVM_TOOLS_IO_OUTPUT_H
#define XCVM_TOOLS_IO_OUTPUT_H

#include <xcvm/xcvm.h>

/* An output. It is written to a temporary file in the directory of the target, which output_finish renames. An
 * existing target that is not a regular file (a pipe, /dev/null) is written directly, and so is "-", standard
 * output. A signal or exit removes the temporary file. */
struct output {
    char *name;      /* the given path, for messages */
    char *target;    /* with links resolved; NULL for standard output */
    char *temporary; /* NULL when written directly */
    int fd;
    int failure; /* errno of the first write that failed, 0 so far */
    char *pending;
    size_t pending_count;
};

/* Checks a target before there is anything to write: it must not be a directory, and a file must be creatable.
 * NULL is allowed. */
xcvm_status output_check(const char *path, xcvm_error *error);
/* Checks that the file system has this much free space. */
xcvm_status output_check_room(const char *path, uint64_t bytes, xcvm_error *error);
/* If the target (may be NULL) is "-", reserves standard output for it: everything that the command or the program
 * prints goes to standard error. output_open also does this. Commands that print before they write call it first. */
void output_reserve(const char *path);
xcvm_status output_open(struct output *output, const char *path, xcvm_error *error);
/* An xcvm_sink whose user is an output. */
bool output_sink(void *output, const void *bytes, size_t count);
/* Renames the file to its target, or fails if it could not be written completely. */
xcvm_status output_finish(struct output *output, xcvm_error *error);
/* Likewise for several files: all are renamed, or none. */
xcvm_status output_finish_all(struct output *outputs, size_t count, xcvm_error *error);
/* Discards the file after a failure. If a write failed, `error` names it. */
void output_discard(struct output *output, xcvm_error *error);

/* Writes a file in one call. */
xcvm_status output_write(const char *path, const void *bytes, size_t count, xcvm_error *error);

/* Must be called before any file is opened. Replaces closed standard streams by unusable descriptors, so that prints
 * never go to another file. Returns false on failure. */
bool output_guard_streams(void);

/* Prints a text to standard output. output_check_stdout reports failures. */
void output_print(const char *text);
/* Flushes standard output and reports a failure. Returns `code`, or EXIT_IO if `code` is EXIT_OK and printing
 * failed. */
int output_check_stdout(int code);

/* Returns EXIT_OK, or reports a suffix that belongs to another format than the output, which `what` describes and whose
 * suffixes are `own` (suffix_of_another). `path` may be NULL. */
int output_check_name(const char *path, const char *own, const char *what);
/* The same for a program. */
int output_check_program(const char *path);

#endif
