/* Error reports and exit codes. */
#include "cli/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *command_name;

int exit_code_of(xcvm_status status)
{
    switch (status) {
    case XCVM_OK:
        return EXIT_OK;
    case XCVM_UNSUPPORTED:
        return EXIT_UNSUPPORTED;
    case XCVM_OUT_OF_MEMORY:
    case XCVM_OUT_OF_TIME:
    case XCVM_CANCELLED:
        return EXIT_LIMIT;
    case XCVM_IO:
        return EXIT_IO;
    case XCVM_INVALID_ARGUMENT:
        return EXIT_USAGE;
    case XCVM_INVALID_PROGRAM:
    case XCVM_INVALID_MODEL:
    case XCVM_SHAPE_MISMATCH:
    case XCVM_TYPE_MISMATCH:
    case XCVM_OUT_OF_RANGE:
    case XCVM_INTERNAL:
        break;
    }
    return EXIT_INVALID;
}

void report_set_command(const char *name) { command_name = name; }

void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 ? *text != '\n' && *text != '\t' : *text == 0x7f)
            *text = '?';
}

/* Writes a line at once, so that the output of other processes does not come between its parts. `more` follows it. */
static void print_line(const char *more, const char *format, va_list arguments)
{
    char *text = NULL, *line = NULL;
    const bool named = command_name != NULL;
    fflush(stdout);
    if (vasprintf(&text, format, arguments) >= 0) {
        make_printable(text);
        if (asprintf(&line, "xcvm%s%s: %s\n%s", named ? " " : "", named ? command_name : "", text, more) < 0)
            line = NULL;
        free(text);
    }
    fputs(line != NULL ? line : "xcvm: out of memory\n", stderr);
    free(line);
}

void report_line(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line("", format, arguments);
    va_end(arguments);
}

void report_describe(const xcvm_error *error, char *text, size_t size)
{
    const char *message = error->message[0] != '\0' ? error->message : xcvm_status_summary(error->status);
    if (message == NULL)
        message = "unknown failure";
    char where[240] = "";
    /* The compiler's messages name the node themselves. */
    bool node = error->node[0] != '\0' && strncmp(message, "node ", 5) != 0;
    bool instruction = error->instruction[0] != '\0' && (error->pc >= 0 || node);
    if (error->pc >= 0 && instruction && node)
        snprintf(where, sizeof where, "instruction %d (%s, node \"%s\"): ", error->pc, error->instruction, error->node);
    else if (error->pc >= 0 && instruction)
        snprintf(where, sizeof where, "instruction %d (%s): ", error->pc, error->instruction);
    else if (error->pc >= 0)
        snprintf(where, sizeof where, "instruction %d: ", error->pc);
    else if (node && instruction)
        snprintf(where, sizeof where, "node \"%s\" (%s): ", error->node, error->instruction);
    else if (node)
        snprintf(where, sizeof where, "node \"%s\": ", error->node);
    snprintf(text, size, "%s%s", where, message);
}

int report_error(const char *file, const xcvm_error *error)
{
    char text[900];
    xcvm_error own = *error;
    /* Messages about files may start with the name already, which must come first. */
    size_t length = file != NULL ? strlen(file) : 0;
    if (length != 0 && strncmp(error->message, file, length) == 0 && strncmp(error->message + length, ": ", 2) == 0)
        snprintf(own.message, sizeof own.message, "%s", error->message + length + 2);
    report_describe(&own, text, sizeof text);
    if (file != NULL)
        report_line("%s: %s", file, text);
    else
        report_line("%s", text);
    return exit_code_of(error->status);
}

int report_usage(const char *format, ...)
{
    va_list arguments;
    char more[80];
    snprintf(more, sizeof more, "Try: xcvm help%s%s\n", command_name != NULL ? " " : "",
             command_name != NULL ? command_name : "");
    va_start(arguments, format);
    print_line(more, format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

xcvm_status error_set(xcvm_error *error, xcvm_status status, const char *format, ...)
{
    if (error == NULL)
        return status;
    *error = (xcvm_error){.status = status, .pc = -1};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

void error_prefix(xcvm_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    char prefix[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(prefix, sizeof prefix - 2, format, arguments);
    va_end(arguments);
    strcat(prefix, ": ");
    size_t length = strlen(prefix), kept = strnlen(error->message, sizeof error->message - 1 - length);
    memmove(error->message + length, error->message, kept);
    memcpy(error->message, prefix, length);
    error->message[length + kept] = '\0';
}

void error_append(xcvm_error *error, const char *text)
{
    if (error == NULL)
        return;
    size_t length = strlen(error->message);
    snprintf(error->message + length, sizeof error->message - length, "%s", text);
}
