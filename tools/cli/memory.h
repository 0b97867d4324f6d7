/* Memory of the command. Running out of it ends the process with the exit code for a used-up limit, after a message:
 * nothing of the command can go on without the few bytes that it asks for. Tensors do not come from here. */
#ifndef XCVM_TOOLS_CLI_MEMORY_H
#define XCVM_TOOLS_CLI_MEMORY_H

#include <stddef.h>

/* Zeroed; release with free. */
void *memory_take(size_t count, size_t size);
/* `old` (may be NULL) with room for `count` elements of `size` bytes; what is new is not initialized. */
void *memory_grow(void *old, size_t count, size_t size);
char *memory_text(const char *text);
char *memory_text_n(const char *text, size_t length);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes room for one more element in an array that holds `count` of them, doubling it whenever count is a power of
 * two: items = memory_append(items, count, sizeof *items). */
void *memory_append(void *items, size_t count, size_t size);

#endif
