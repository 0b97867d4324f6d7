/* The parameters of a request. */
#include "server/oip/parameters.h"

#include <stdio.h>
#include <string.h>

/* Priority 1 runs first. */
enum { DEFAULT_PRIORITY = 10 };

void xcs_infer_set_defaults(xcs_infer *infer) { infer->priority = -DEFAULT_PRIORITY; }

static xcvm_status set_timeout(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    XCVM_CHECK(error, value->kind == XCS_PARAMETER_INTEGER && value->integer >= 0, INVALID_ARGUMENT,
               "\"%s\" is not a number of microseconds", name);
    infer->timeout_ns = value->integer < INT64_MAX / 1000 ? (uint64_t)value->integer * 1000 : 0;
    return XCVM_OK;
}

static xcvm_status set_priority(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    XCVM_CHECK(error, value->kind == XCS_PARAMETER_INTEGER && value->integer >= 0 && value->integer <= INT32_MAX,
               INVALID_ARGUMENT, "\"%s\" is not a natural number", name);
    infer->priority = (int)-(value->integer != 0 ? value->integer : DEFAULT_PRIORITY);
    return XCVM_OK;
}

static xcvm_status set_client(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    infer->client[0] = '\0';
    if (value->kind == XCS_PARAMETER_INTEGER) {
        if (value->integer != 0) /* 0: none */
            snprintf(infer->client, sizeof infer->client, "%lld", (long long)value->integer);
        return XCVM_OK;
    }
    XCVM_CHECK(error, value->kind == XCS_PARAMETER_TEXT && strlen(value->text) < sizeof infer->client, INVALID_ARGUMENT,
               "\"%s\" is neither a number nor a string of less than %zu bytes", name, sizeof infer->client);
    strcpy(infer->client, value->text);
    return XCVM_OK;
}

static xcvm_status set_flag(bool *flag, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    XCVM_CHECK(error, value->kind == XCS_PARAMETER_BOOL, INVALID_ARGUMENT, "\"%s\" is not a boolean", name);
    *flag = value->boolean;
    return XCVM_OK;
}

static xcvm_status set_begin(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    return set_flag(&infer->client_begins, value, name, error);
}

static xcvm_status set_end(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    return set_flag(&infer->client_ends, value, name, error);
}

static xcvm_status set_binary(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error)
{
    return set_flag(&infer->binary_outputs, value, name, error);
}

static const struct {
    const char *name;
    xcvm_status (*set)(xcs_infer *infer, const xcs_parameter *value, const char *name, xcvm_error *error);
} parameters[] = {
    {"timeout", set_timeout},      {"priority", set_priority}, {"sequence_id", set_client},
    {"sequence_start", set_begin}, {"sequence_end", set_end},  {"binary_data_output", set_binary},
};

const char *xcs_parameter_name(size_t index)
{
    return index < sizeof parameters / sizeof *parameters ? parameters[index].name : NULL;
}

xcvm_status xcs_infer_set_parameter(xcs_infer *infer, const char *name, const xcs_parameter *value, xcvm_error *error)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (strcmp(parameters[i].name, name) == 0)
            return parameters[i].set(infer, value, name, error);
    return XCVM_OK;
}
