/* Responses of the Open Inference Protocol that describe the server and its models. */
#ifndef XCVM_SERVER_OIP_DESCRIBE_H
#define XCVM_SERVER_OIP_DESCRIBE_H

#include "server/json/text.h"
#include "xcvm/server.h"

void xcs_describe_server(xcs_text *text);
xcvm_status xcs_describe_model(xcs_server *server, const xcs_model *model, xcs_text *text, xcvm_error *error);
/* The repository index: all models, or with `only_ready` those that are ready. */
xcvm_status xcs_describe_repository(xcs_server *server, bool only_ready, xcs_text *text, xcvm_error *error);
/* Statistics of the models of a name and version, or of all. NULL selects all. */
xcvm_status xcs_describe_statistics(xcs_server *server, const char *name, const char *version, xcs_text *text,
                                    xcvm_error *error);
/* Metrics in the text format of Prometheus. */
xcvm_status xcs_describe_metrics(xcs_server *server, xcs_text *text, xcvm_error *error);
void xcs_describe_error(xcs_text *text, const char *message);

#endif
