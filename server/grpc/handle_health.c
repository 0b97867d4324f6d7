/* grpc.health.v1.Health: the state of the server as a whole, and of its services. */
#include "server/grpc/grpc.h"

#include "proto/wire_reader.h"

#include <string.h>

typedef enum serving_status { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 } serving_status;

/* Returns false if the message is not valid; the call is then finished. */
static bool read_service(xcs_call *call, bool *is_known)
{
    static const char *const services[] = {"", "inference.GRPCInferenceService", "grpc.health.v1.Health"};
    xcvm_wire message = xcvm_wire_of(call->message.count > 0 ? call->message.at : "", call->message.count);
    xcvm_wire_field field;
    xcvm_wire_state state;
    xcvm_wire name = xcvm_wire_of("", 0);
    while ((state = xcvm_wire_next(&message, &field)) == XCVM_WIRE_READ)
        if (field.number == 1 && field.type == XCVM_WIRE_BYTES)
            name = field.inside;
    if (state != XCVM_WIRE_END) {
        xcs_call_finish(call, XCS_GRPC_INTERNAL, "the message is no HealthCheckRequest");
        return false;
    }
    *is_known = false;
    for (size_t i = 0; i < sizeof services / sizeof *services; i++)
        *is_known = *is_known || (strlen(services[i]) == (size_t)(name.end - name.at) &&
                                  memcmp(services[i], name.at, strlen(services[i])) == 0);
    return true;
}

static void put_status(xcs_call *call, serving_status status)
{
    const size_t begin = xcs_frame_begin(&call->response);
    xcs_put_integer(&call->response, 1, status);
    xcs_frame_end(&call->response, begin);
}

void xcs_handle_health_check(xcs_call *call)
{
    bool is_known;
    if (!read_service(call, &is_known))
        return;
    if (!is_known) {
        xcs_call_finish(call, XCS_GRPC_NOT_FOUND, "there is no such service");
        return;
    }
    put_status(call, call->grpc->was_ready ? SERVING : NOT_SERVING);
    xcs_call_end(call);
}

/* A watch has no end but that of the client or the server. */
void xcs_handle_health_watch(xcs_call *call)
{
    bool is_known;
    if (!read_service(call, &is_known))
        return;
    call->watching = true;
    call->last_ready = call->grpc->was_ready;
    call->watches_unknown = !is_known;
    put_status(call, !is_known ? SERVICE_UNKNOWN : call->last_ready ? SERVING : NOT_SERVING);
    xcs_call_send(call);
}

void xcs_health_notify(xcs_call *call)
{
    const bool ready = call->grpc->was_ready;
    if (call->finished || call->watches_unknown || ready == call->last_ready)
        return;
    call->last_ready = ready;
    put_status(call, ready ? SERVING : NOT_SERVING);
    xcs_call_send(call);
}
