/* Status codes, headers of gRPC, and their texts. */
#ifndef XCVM_SERVER_GRPC_STATUS_H
#define XCVM_SERVER_GRPC_STATUS_H

#include "xcvm/server.h"

typedef enum xcs_grpc_status {
    XCS_GRPC_OK = 0,
    XCS_GRPC_CANCELLED = 1,
    XCS_GRPC_INVALID_ARGUMENT = 3,
    XCS_GRPC_DEADLINE_EXCEEDED = 4,
    XCS_GRPC_NOT_FOUND = 5,
    XCS_GRPC_RESOURCE_EXHAUSTED = 8,
    XCS_GRPC_UNIMPLEMENTED = 12,
    XCS_GRPC_INTERNAL = 13,
    XCS_GRPC_UNAVAILABLE = 14,
    XCS_GRPC_UNAUTHENTICATED = 16
} xcs_grpc_status;

xcs_grpc_status xcs_grpc_status_of(xcs_reason reason, xcvm_status status);
/* Parses the header "grpc-timeout": up to eight digits and a unit. */
bool xcs_grpc_timeout_read(const char *text, uint64_t *timeout_ns);
/* Writes the header "grpc-message": bytes other than printable ASCII, and "%", become "%XX". Cuts texts that do not fit
 * into `size`, which includes the NUL. Returns the length. */
size_t xcs_grpc_message_write(const char *message, char *to, size_t size);

#endif
