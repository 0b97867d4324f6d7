/* Status codes, headers of gRPC, and their texts. */
#include "server/grpc/status.h"

#include <string.h>

xcs_grpc_status xcs_grpc_status_of(xcs_reason reason, xcvm_status status)
{
    switch (reason) {
    case XCS_NONE:
        return XCS_GRPC_OK;
    case XCS_UNKNOWN_MODEL:
        return XCS_GRPC_NOT_FOUND;
    case XCS_INVALID_INPUT:
        return status == XCVM_OUT_OF_MEMORY ? XCS_GRPC_RESOURCE_EXHAUSTED : XCS_GRPC_INVALID_ARGUMENT;
    case XCS_QUEUE_FULL:
    case XCS_TOO_LATE:
    case XCS_TOO_MANY_CLIENTS:
        return XCS_GRPC_RESOURCE_EXHAUSTED;
    case XCS_DRAINING:
        return XCS_GRPC_UNAVAILABLE;
    case XCS_TIMED_OUT:
        return XCS_GRPC_DEADLINE_EXCEEDED;
    case XCS_CANCELLED:
        return XCS_GRPC_CANCELLED;
    case XCS_FAILED:
        break;
    }
    switch (status) {
    case XCVM_INVALID_ARGUMENT:
    case XCVM_SHAPE_MISMATCH:
    case XCVM_TYPE_MISMATCH:
    case XCVM_OUT_OF_RANGE:
        return XCS_GRPC_INVALID_ARGUMENT;
    case XCVM_OUT_OF_MEMORY:
        return XCS_GRPC_RESOURCE_EXHAUSTED;
    case XCVM_UNSUPPORTED:
        return XCS_GRPC_UNIMPLEMENTED;
    default:
        return XCS_GRPC_INTERNAL;
    }
}

bool xcs_grpc_timeout_read(const char *text, uint64_t *timeout_ns)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'n', 1},
                 {'u', 1000},
                 {'m', 1000000},
                 {'S', 1000000000},
                 {'M', UINT64_C(60000000000)},
                 {'H', UINT64_C(3600000000000)}};
    uint64_t number = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 9; digits++)
        number = number * 10 + (uint64_t)(text[digits] - '0');
    if (digits == 0 || digits > 8 || text[digits] == '\0' || text[digits + 1] != '\0')
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].unit == text[digits]) {
            if (__builtin_mul_overflow(number, units[i].ns, timeout_ns))
                *timeout_ns = UINT64_MAX;
            return true;
        }
    return false;
}

size_t xcs_grpc_message_write(const char *message, char *to, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t length = 0;
    for (; *message != '\0'; message++) {
        const unsigned char c = (unsigned char)*message;
        const bool plain = c >= ' ' && c <= '~' && c != '%';
        if (length + (plain ? 1 : 3) >= size)
            break;
        if (plain) {
            to[length++] = (char)c;
        } else {
            to[length++] = '%';
            to[length++] = hex[c >> 4];
            to[length++] = hex[c & 15];
        }
    }
    to[length] = '\0';
    return length;
}
