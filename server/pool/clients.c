/* Clients of programs with states: each has a session of its own, which is dropped after an idle time. */
#include "server/pool/pool.h"

#include <string.h>

xcs_client *xcs_client_find_locked(xcs_entry *entry, xcs_model *model, const char *name)
{
    for (xcs_client *client = entry->clients; client != NULL; client = client->next)
        if (strcmp(client->name, name) == 0)
            return client;
    if (entry->client_count >= model->limits.clients.count)
        return NULL;
    const xcvm_allocator *allocator = &model->server->allocator;
    xcs_client *client = xcvm_allocate_zeroed(allocator, sizeof *client);
    char *copy = xcs_text_copy(allocator, name);
    if (client == NULL || copy == NULL) {
        xcvm_deallocate(allocator, client, sizeof *client);
        xcs_text_release(allocator, copy);
        return NULL;
    }
    client->name = copy;
    client->model = xcs_model_retain(model);
    client->next = entry->clients;
    entry->clients = client;
    entry->client_count++;
    return client;
}

void xcs_client_remove_locked(xcs_entry *entry, xcs_client *client)
{
    xcs_client **at = &entry->clients;
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    entry->client_count--;
}

void xcs_client_destroy(xcs_server *server, xcs_client *client)
{
    xcvm_session_destroy(client->session);
    xcs_model_release(client->model);
    xcs_text_release(&server->allocator, client->name);
    xcvm_deallocate(&server->allocator, client, sizeof *client);
}

uint64_t xcs_clients_expire_locked(xcs_server *server, uint64_t now, xcs_client **idle)
{
    uint64_t next = UINT64_MAX;
    for (xcs_entry *entry = server->entries; entry != NULL; entry = entry->next)
        for (xcs_client *client = entry->clients, *after; client != NULL; client = after) {
            after = client->next;
            if (client->requests > 0)
                continue;
            const uint64_t end = client->last_ns + client->model->limits.clients.idle_ns;
            if (end <= now) {
                xcs_client_remove_locked(entry, client);
                client->next = *idle;
                *idle = client;
            } else if (end < next) {
                next = end;
            }
        }
    return next;
}
