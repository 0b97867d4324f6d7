/* grpc.reflection.v1.ServerReflection, and v1alpha, whose messages are the same. */
#include "server/grpc/grpc.h"

#include "server/grpc/descriptors.h"

#include <string.h>

/* The fields of ServerReflectionRequest and ServerReflectionResponse. */
enum {
    FILE_BY_FILENAME = 3,
    FILE_CONTAINING_SYMBOL = 4,
    FILE_CONTAINING_EXTENSION = 5,
    EXTENSION_NUMBERS = 6,
    LIST_SERVICES = 7
};
enum { VALID_HOST = 1, ORIGINAL_REQUEST = 2, FILES = 4, NUMBERS = 5, SERVICES = 6, ERROR_RESPONSE = 7 };

typedef struct reflection_request {
    xcvm_wire host, text;
    uint32_t kind; /* 0: none */
} reflection_request;

static bool read_request(const xcs_call *call, reflection_request *request)
{
    xcvm_wire message = xcvm_wire_of(call->message.count > 0 ? call->message.at : "", call->message.count);
    xcvm_wire_field field;
    xcvm_wire_state state;
    *request = (reflection_request){.host = xcvm_wire_of("", 0), .text = xcvm_wire_of("", 0)};
    while ((state = xcvm_wire_next(&message, &field)) == XCVM_WIRE_READ) {
        if (field.type != XCVM_WIRE_BYTES)
            continue;
        if (field.number == 1)
            request->host = field.inside;
        if (field.number < FILE_BY_FILENAME || field.number > LIST_SERVICES)
            continue;
        request->kind = field.number;
        request->text = field.inside;
    }
    return state == XCVM_WIRE_END;
}

static void put_error(xcs_text *text, xcs_grpc_status code, const char *message)
{
    const size_t begin = xcs_field_begin(text, ERROR_RESPONSE);
    xcs_put_integer(text, 1, code);
    xcs_put_string(text, 2, message);
    xcs_field_end(text, begin);
}

static void put_service(void *user, const char *name)
{
    const size_t begin = xcs_field_begin(user, 1);
    xcs_put_string(user, 1, name);
    xcs_field_end(user, begin);
}

static void put_file(xcs_text *text, xcvm_wire file)
{
    const size_t begin = xcs_field_begin(text, FILES);
    xcs_put_bytes(text, 1, file.at, (size_t)(file.end - file.at));
    xcs_field_end(text, begin);
}

static void put_answer(xcs_text *text, const reflection_request *request)
{
    const char *name = (const char *)request->text.at;
    const size_t length = (size_t)(request->text.end - request->text.at);
    xcvm_wire file;
    size_t begin;
    switch (request->kind) {
    case FILE_BY_FILENAME:
        if (xcs_descriptor_find_file(name, length, &file))
            put_file(text, file);
        else
            put_error(text, XCS_GRPC_NOT_FOUND, "there is no such file");
        break;
    case FILE_CONTAINING_SYMBOL:
        if (xcs_descriptor_find_symbol(name, length, &file))
            put_file(text, file);
        else
            put_error(text, XCS_GRPC_NOT_FOUND, "there is no such symbol");
        break;
    case FILE_CONTAINING_EXTENSION:
        put_error(text, XCS_GRPC_NOT_FOUND, "there are no extensions");
        break;
    case EXTENSION_NUMBERS:
        if (!xcs_descriptor_is_message(name, length)) {
            put_error(text, XCS_GRPC_NOT_FOUND, "there is no such message");
            break;
        }
        begin = xcs_field_begin(text, NUMBERS);
        xcs_put_bytes(text, 1, name, length);
        xcs_field_end(text, begin);
        break;
    case LIST_SERVICES:
        begin = xcs_field_begin(text, SERVICES);
        xcs_descriptor_visit_services(put_service, text);
        xcs_field_end(text, begin);
        break;
    default:
        put_error(text, XCS_GRPC_INVALID_ARGUMENT, "the request asks for nothing");
    }
}

void xcs_handle_reflection(xcs_call *call)
{
    reflection_request request;
    xcs_text *text = &call->response;
    if (!read_request(call, &request)) {
        xcs_call_finish(call, XCS_GRPC_INTERNAL, "the message is no ServerReflectionRequest");
        return;
    }
    const size_t begin = xcs_frame_begin(text);
    xcs_put_bytes(text, VALID_HOST, request.host.at, (size_t)(request.host.end - request.host.at));
    xcs_put_bytes(text, ORIGINAL_REQUEST, call->message.at, call->message.count);
    put_answer(text, &request);
    xcs_frame_end(text, begin);
    xcs_call_send(call);
}
