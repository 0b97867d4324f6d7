/* Random keys of SipHash. */
#include "base/clock.h"
#include "base/hash.h"

#include <sys/random.h>

xcvm_hash_key xcvm_hash_key_make(void)
{
    xcvm_hash_key key;
    /* Without random numbers, the stack address and the time are the remaining unpredictable values. */
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key)
        key = (xcvm_hash_key){{xcvm_clock_ns(), (uint64_t)(uintptr_t)&key}};
    return key;
}
