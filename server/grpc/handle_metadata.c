/* Calls that describe the server and its models. */
#include "server/grpc/grpc.h"

#include "proto/wire_reader.h"
#include "server/oip/datatype.h"

#include <string.h>

static void put_bool(xcs_text *text, unsigned field, bool value)
{
    if (value) /* false is the default of proto3 */
        xcs_put_integer(text, field, 1);
}

/* A response of one field, 1. */
static void respond_bool(xcs_call *call, bool value)
{
    const size_t begin = xcs_frame_begin(&call->response);
    put_bool(&call->response, 1, value);
    xcs_frame_end(&call->response, begin);
    xcs_call_end(call);
}

void xcs_handle_server_live(xcs_call *call) { respond_bool(call, true); }

void xcs_handle_server_ready(xcs_call *call) { respond_bool(call, call->grpc->was_ready); }

typedef struct model_name {
    char name[200], version[24];
} model_name;

/* Reads a request with the fields "name" and "version". Finishes the call if it is not valid. */
static bool read_name(xcs_call *call, model_name *to)
{
    xcvm_wire message = xcvm_wire_of(call->message.count > 0 ? call->message.at : "", call->message.count);
    xcvm_wire_field field;
    xcvm_wire_state state;
    memset(to, 0, sizeof *to);
    while ((state = xcvm_wire_next(&message, &field)) == XCVM_WIRE_READ) {
        if (field.number > 2 || field.type != XCVM_WIRE_BYTES)
            continue;
        char *text = field.number == 1 ? to->name : to->version;
        const size_t size = field.number == 1 ? sizeof to->name : sizeof to->version;
        if (field.value >= size || memchr(field.inside.at, '\0', field.value) != NULL) {
            xcs_call_finish(call, XCS_GRPC_NOT_FOUND, "no model has such a name and version");
            return false;
        }
        memcpy(text, field.inside.at, field.value);
        text[field.value] = '\0';
    }
    if (state == XCVM_WIRE_END)
        return true;
    xcs_call_finish(call, XCS_GRPC_INTERNAL, "the message is not valid");
    return false;
}

static xcs_model *find_model(const xcs_call *call, const model_name *name)
{
    return xcs_server_find_model(call->grpc->server, name->name, name->version[0] != '\0' ? name->version : NULL);
}

void xcs_handle_model_ready(xcs_call *call)
{
    model_name name;
    if (!read_name(call, &name))
        return;
    xcs_model *model = find_model(call, &name);
    const bool ready = model != NULL;
    xcs_model_release(model);
    respond_bool(call, ready);
}

void xcs_handle_server_metadata(xcs_call *call)
{
    enum { NAME = 1, VERSION = 2, EXTENSIONS = 3 };
    const size_t begin = xcs_frame_begin(&call->response);
    xcs_put_string(&call->response, NAME, "xcvm");
    xcs_put_string(&call->response, VERSION, xcvm_version());
    xcs_put_string(&call->response, EXTENSIONS, "parameters");
    xcs_put_string(&call->response, EXTENSIONS, "sequence");
    xcs_frame_end(&call->response, begin);
    xcs_call_end(call);
}

static void put_tensor(xcs_text *text, unsigned field, const xcvm_value_info *info)
{
    enum { NAME = 1, DATATYPE = 2, SHAPE = 3 };
    const size_t begin = xcs_field_begin(text, field);
    xcs_put_string(text, NAME, info->name);
    xcs_put_string(text, DATATYPE, xcs_datatype_name(info->type.dtype));
    if (info->type.rank > 0) {
        const size_t shape = xcs_field_begin(text, SHAPE);
        for (int i = 0; i < info->type.rank; i++)
            xcs_put_varint(text, info->type.dims[i] < 0 ? UINT64_MAX : (uint64_t)info->type.dims[i]);
        xcs_field_end(text, shape);
    }
    xcs_field_end(text, begin);
}

typedef struct version_listing {
    xcs_text *text;
    const char *name;
} version_listing;

static void put_version(void *user, const xcs_model_info *info)
{
    enum { VERSIONS = 2 };
    const version_listing *l = user;
    if (info->ready && strcmp(info->name, l->name) == 0)
        xcs_put_string(l->text, VERSIONS, info->version);
}

void xcs_handle_model_metadata(xcs_call *call)
{
    enum { NAME = 1, PLATFORM = 3, INPUTS = 4, OUTPUTS = 5 };
    model_name name;
    xcvm_error error = {.pc = -1};
    xcs_text *text = &call->response;
    if (!read_name(call, &name))
        return;
    xcs_model *model = find_model(call, &name);
    if (model == NULL) {
        xcvm_error_set(&error, XCVM_INVALID_ARGUMENT, "no model \"%.100s\"%s%.20s is ready", name.name,
                       name.version[0] != '\0' ? ", version " : "", name.version);
        xcs_call_finish(call, XCS_GRPC_NOT_FOUND, error.message);
        return;
    }
    const xcvm_program *program = xcs_model_program(model);
    const version_listing l = {text, xcs_model_name(model)};
    const size_t begin = xcs_frame_begin(text);
    xcs_put_string(text, NAME, xcs_model_name(model));
    xcvm_status status = xcs_server_visit_models(call->grpc->server, put_version, (void *)(uintptr_t)&l, &error);
    xcs_put_string(text, PLATFORM, "xcvm_program");
    for (size_t i = 0; i < xcvm_program_input_count(program); i++)
        put_tensor(text, INPUTS, xcvm_program_input_at(program, i));
    for (size_t i = 0; i < xcvm_program_output_count(program); i++)
        put_tensor(text, OUTPUTS, xcvm_program_output_at(program, i));
    xcs_frame_end(text, begin);
    xcs_model_release(model);
    if (status != XCVM_OK)
        xcs_call_fail(call, &error);
    else
        xcs_call_end(call);
}
