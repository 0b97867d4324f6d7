/* The number of processors that this process may use: one, because WebAssembly without shared memory has no threads. */
#include "base/threads.h"

int xcvm_available_thread_count(void) { return 1; }
