/* API keys of clients. */
#include "server/common/access.h"

#include <string.h>

/* Compares in a time that does not depend on the position of the first difference. */
static bool keys_are_equal(const char *sent, const char *key)
{
    const size_t length = strlen(key);
    unsigned difference = strlen(sent) != length;
    for (size_t i = 0; i < length && sent[i] != '\0'; i++)
        difference |= (unsigned)(sent[i] ^ key[i]);
    return difference == 0;
}

bool xcs_key_is_sent(const char *key, const char *authorization, const char *api_key)
{
    if (authorization != NULL && strncmp(authorization, "Bearer ", 7) == 0)
        return keys_are_equal(authorization + 7, key);
    return api_key != NULL && keys_are_equal(api_key, key);
}
