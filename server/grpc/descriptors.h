/* The definitions of the gRPC services, as serialized descriptors that the build makes. */
#ifndef XCVM_SERVER_GRPC_DESCRIPTORS_H
#define XCVM_SERVER_GRPC_DESCRIPTORS_H

#include "proto/wire_reader.h"

/* Finds the descriptor of a file by its name, or by the full name of a message, enumeration, service, method or field
 * that it defines. Returns false if there is none. */
bool xcs_descriptor_find_file(const char *name, size_t length, xcvm_wire *file);
bool xcs_descriptor_find_symbol(const char *name, size_t length, xcvm_wire *file);
/* Returns true if the name is that of a message. */
bool xcs_descriptor_is_message(const char *name, size_t length);
/* Calls `visit` with the full name of each service. */
void xcs_descriptor_visit_services(void (*visit)(void *user, const char *name), void *user);

#endif
