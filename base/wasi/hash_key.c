/* Random keys of SipHash, from the host's random numbers. */
#include "base/hash.h"

#include <unistd.h>

xcvm_hash_key xcvm_hash_key_make(void)
{
    xcvm_hash_key key;
    /* Hosts without random numbers do not instantiate the module. */
    if (getentropy(&key, sizeof key) != 0)
        key = (xcvm_hash_key){{(uint64_t)(uintptr_t)&key, 0}};
    return key;
}
