/* Loading and unloading of models, each on a thread of its own, because both may take long. */
#include "server/http/exchange.h"

static void *administrate(void *argument)
{
    xcs_exchange *exchange = argument;
    xcvm_error error = {.pc = -1};
    const xcs_route *route = &exchange->route;
    xcs_server *server = exchange->http->server;
    xcvm_status status = route->target == XCS_TARGET_LOAD ? xcs_server_reload_model(server, route->model, NULL, &error)
                                                          : xcs_server_unload_model(server, route->model, NULL, &error);
    exchange->status = 200;
    if (status != XCVM_OK)
        xcs_exchange_fail(exchange, 400, error.message);
    else
        xcs_text_put(&exchange->response, "{}");
    xcs_exchange_finish(exchange);
    return NULL;
}

void xcs_handle_admin(xcs_exchange *exchange)
{
    const xcs_http_options *o = &exchange->http->options;
    if (o->no_admin || (o->admin_socket != NULL && !exchange->is_admin)) {
        xcs_exchange_fail(exchange, 403,
                          o->no_admin ? "this server does not load or unload models on request"
                                      : "models are loaded and unloaded at the socket of administration only");
        return;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, administrate, exchange) != 0) {
        xcs_exchange_fail(exchange, 503, "the system has no thread to load or unload a model");
        return;
    }
    pthread_detach(thread);
    xcs_exchange_wait(exchange);
}
