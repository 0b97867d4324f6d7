/* API keys of clients. */
#ifndef XCVM_SERVER_COMMON_ACCESS_H
#define XCVM_SERVER_COMMON_ACCESS_H

#include <stdbool.h>

/* Returns true if one of the headers has the key: "Authorization: Bearer KEY", or "X-API-Key: KEY" if there is no such
 * "Authorization". NULL stands for a header that was not sent. */
bool xcs_key_is_sent(const char *key, const char *authorization, const char *api_key);

#endif
