/* The files of the web page. */
#include "server/http/exchange.h"

#include "server/page/page.h"

void xcs_handle_page(xcs_exchange *exchange)
{
    const xcs_page_file *file = xcs_page_find(exchange->path);
    exchange->status = 200;
    exchange->content_type = file->type;
    xcs_text_put(&exchange->response, file->content);
}
