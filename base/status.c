/* Status names and error messages. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *xcvm_version(void)
{
    return TEXT(XCVM_VERSION_MAJOR) "." TEXT(XCVM_VERSION_MINOR) "." TEXT(XCVM_VERSION_PATCH);
}

const char *xcvm_status_name(xcvm_status status)
{
    switch (status) {
#define NAME(name, number, summary)                                                                                    \
    case XCVM_##name:                                                                                                  \
        return #name;
        XCVM_STATUS_LIST(NAME)
#undef NAME
    }
    return NULL;
}

const char *xcvm_status_summary(xcvm_status status)
{
    switch (status) {
#define SUMMARY(name, number, summary)                                                                                 \
    case XCVM_##name:                                                                                                  \
        return summary;
        XCVM_STATUS_LIST(SUMMARY)
#undef SUMMARY
    }
    return NULL;
}

xcvm_status xcvm_error_set(xcvm_error *error, xcvm_status status, const char *format, ...)
{
    if (error != NULL) {
        error->status = status;
        error->pc = -1;
        error->instruction[0] = '\0';
        error->node[0] = '\0';
        error->message[0] = '\0';
        if (status == XCVM_OK) /* each run begins so, and formatting takes longer than a short kernel */
            return status;
        va_list arguments;
        va_start(arguments, format);
        if (vsnprintf(error->message, sizeof error->message, format, arguments) < 0)
            error->message[0] = '\0';
        va_end(arguments);
    }
    return status;
}

void xcvm_error_prefix(xcvm_error *error, const char *format, ...)
{
    if (error == NULL)
        return;
    char prefix[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(prefix, sizeof prefix - 2, format, arguments);
    va_end(arguments);
    if (written < 0)
        return;
    size_t length = strlen(prefix);
    memcpy(prefix + length, ": ", 2);
    length += 2;
    size_t room = sizeof error->message - length;
    size_t kept = strnlen(error->message, sizeof error->message - 1);
    if (kept > room - 1)
        kept = room - 1;
    memmove(error->message + length, error->message, kept);
    memcpy(error->message, prefix, length);
    error->message[length + kept] = '\0';
}
